"""The tokenizer: round trips over all of Unicode, plain algorithms, `tokenizers` on the same rules."""

import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, trainers

from lab_transformer.tokenizer import count_pairs, decode, encode, merge, pre_tokens, train_bpe

# All characters but halves of surrogate pairs, which are no text.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SPECIAL = st.lists(st.text("<|>sab é", min_size=1, max_size=4), max_size=5, unique=True)
ODD = [
    "",
    "\x00",
    "\ufeffa",
    "a\r\n\r\n  b\t \x85\u2028\u2029",
    "e\u0301 \u0301x",
    "👩‍👩‍👧 🇮🇹 ✈️",
    "नमस्ते दुनिया क्‍ष १२३",
    "你好，世界。 مرحبا 안녕 ½²Ⅷ",
    "snake_case __init__ 3.14 1e-5 x²",
    "\U0010ffff\ue000\ufffe",
    "   \n   \n",
    "aaaaaaa aaaaaaa",
]


def some_text(words: int, seed: int = 0, alphabet: str = "abcdefgh") -> str:
    """Make a text of words that come as often as words do."""
    dice = random.Random(seed)
    known = ["".join(dice.choices(alphabet, k=dice.randint(1, 9))) for _ in range(words // 20 + 5)]
    weights = [1 / rank for rank in range(1, len(known) + 1)]
    between = dice.choices([" ", " ", " ", ", ", ".\n", "\n    ", " 42 "], k=words)
    return "".join(
        word + sign for word, sign in zip(dice.choices(known, weights, k=words), between, strict=True)
    )


def plain_training(text: str, vocab_size: int) -> list[tuple[int, int]]:
    """Learn merges as slowly as one can: every pre-token by itself, all counts anew each time."""
    pieces = [list(piece.encode()) for piece in pre_tokens(text)]
    merges: list[tuple[int, int]] = []
    while len(merges) < vocab_size - 256:
        counts: Counter[tuple[int, int]] = Counter()
        for piece in pieces:
            for pair in set(pairwise(piece)):
                # How often it could be merged: by how much the piece gets shorter.
                counts[pair] += len(piece) - len(merge(piece, pair, -1))
        best = min(((-count, pair) for pair, count in counts.items()), default=(0, (0, 0)))
        if best[0] > -2:
            break
        pieces = [merge(piece, best[1], 256 + len(merges)) for piece in pieces]
        merges.append(best[1])
    return merges


# As the library writes bytes: printable ones as themselves, the others from 256 on.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
SIGNS = {byte: chr(byte) for byte in PRINTABLE}
SIGNS |= {byte: chr(256 + n) for n, byte in enumerate(b for b in range(256) if b not in SIGNS)}


def spelled(merges: list[tuple[int, int]]) -> list[str]:
    pieces = [SIGNS[byte] for byte in range(256)]
    for left, right in merges:
        pieces.append(pieces[left] + pieces[right])
    return pieces


def library_training(text: str, vocab_size: int) -> list[tuple[int, int]]:
    """Learn with `tokenizers`, whose ties go to the smallest pair, too.

    It numbers special tokens first: made special, the bytes have the numbers that they have here.
    """
    learner = tokenizers.Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=[SIGNS[byte] for byte in range(256)],
        show_progress=False,
    )
    learner.train_from_iterator(pre_tokens(text), trainer)
    numbers = learner.get_vocab()
    pairs = json.loads(learner.to_str())["model"]["merges"]
    return [(numbers[left], numbers[right]) for left, right in pairs]


@cache
def library_encoder(special: tuple[str, ...]) -> tokenizers.Tokenizer:
    merges, pieces = LEARNED, spelled(LEARNED)
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    coder = tokenizers.Tokenizer(
        models.BPE(vocabulary, [(pieces[left], pieces[right]) for left, right in merges])
    )
    coder.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(
                tokenizers.Regex(r" ?[a-z]+|\d+|[^\sa-z\d]+|\s+?(?= [a-z])|\s+"), "isolated"
            ),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    coder.add_special_tokens([tokenizers.AddedToken(name, normalized=False) for name in special])
    return coder


# Pre-tokens -----------------------------------------------------------------------------------------


@given(TEXT)
@settings(deadline=None)
@example("\x1c\x1d a")
def test_pre_tokens_joined_are_the_text(text: str) -> None:
    pieces = pre_tokens(text)
    assert "".join(pieces) == text
    assert "" not in pieces


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("To be, or not", ["To", " be", ",", " or", " not"]),
        ("a  b", ["a", " ", " b"]),
        ("if x:\n    return 42", ["if", " x", ":", "\n   ", " return", " ", "42"]),
        ("x=3.14;", ["x", "=", "3", ".", "14", ";"]),
        ("snake_case", ["snake", "_", "case"]),
        ("don't", ["don", "'", "t"]),
        ("a \n", ["a", " \n"]),
        (" \tb", [" \t", "b"]),
        ("cafe\u0301 e", ["cafe\u0301", " e"]),
        ("नमस्ते दुनिया", ["नमस्ते", " दुनिया"]),
        ("x²", ["x²"]),
        ("👩‍🚀!", ["👩‍🚀!"]),
    ],
)
def test_text_is_cut_as_described(text: str, pieces: list[str]) -> None:
    assert pre_tokens(text) == pieces


@pytest.mark.parametrize("piece", ["a", " ", "\n ", "कि", ".", "7", " a", "\u0301"])
def test_a_long_run_is_cut_in_time_that_grows_with_it(piece: str) -> None:
    text = piece * 200_000
    start = time.process_time()
    assert "".join(pre_tokens(text)) == text
    assert time.process_time() - start < 5


# Counting and merging -------------------------------------------------------------------------------

TOKENS = st.lists(st.integers(0, 3), max_size=12)


@given(TOKENS, st.tuples(st.integers(0, 3), st.integers(0, 3)))
@settings(deadline=None)
def test_a_pair_counts_as_often_as_it_is_merged(tokens: list[int], pair: tuple[int, int]) -> None:
    merged = merge(tokens, pair, 9)
    assert merged.count(9) == len(tokens) - len(merged)
    assert count_pairs({tuple(tokens): 5}).get(pair, 0) == 5 * merged.count(9)
    assert [part for token in merged for part in (pair if token == 9 else [token])] == tokens


def test_what_is_given_stays_as_it_is() -> None:
    tokens = [7, 7, 7]
    words: dict[tuple[int, ...], int] = {(7, 7, 7): 2}
    merge(tokens, (7, 7), 256)
    count_pairs(words)
    assert (tokens, words) == ([7, 7, 7], {(7, 7, 7): 2})


# Learning -------------------------------------------------------------------------------------------


@given(st.text("aab c\n1.é", max_size=60).filter(bool))
@settings(max_examples=200, deadline=None)
@example("aaaaaaaaa aaaaaaa aaa")
def test_counts_kept_up_to_date_give_the_merges_of_counts_made_anew(text: str) -> None:
    assert train_bpe(text, 280) == plain_training(text, 280)


def test_a_longer_text_gives_the_merges_of_the_plain_algorithm() -> None:
    text = some_text(700)
    merges = train_bpe(text, 356)
    assert len(merges) == 100
    assert merges == plain_training(text, 356)


@pytest.mark.parametrize("seed", range(4))
def test_learning_agrees_with_tokenizers(seed: int) -> None:
    # Without a letter twice in a row in small words: overlaps are counted differently there.
    text = some_text(3000, seed, "abcdefghijklmnopqrstuvwxyzé")
    text = re.sub(r"(.)\1+", r"\1", text)
    merges = train_bpe(text, 500)
    assert merges == library_training(text, 500)[: len(merges)]


def test_a_smaller_vocabulary_is_the_beginning_of_a_larger_one() -> None:
    text = some_text(800, seed=3)
    assert train_bpe(text, 300) == train_bpe(text, 400)[:44]


def test_words_in_another_order_give_the_same_merges() -> None:
    pieces = pre_tokens(some_text(600, seed=5))
    # Cut again they must be the same: a space and a word would join to one piece.
    words = [piece for piece in pieces if piece.isalpha()]
    random.Random(1).shuffle(words)
    assert train_bpe("\n".join(words), 400) == train_bpe("\n".join(sorted(words)), 400)


def test_learning_takes_time_that_grows_with_the_text_at_most() -> None:
    def seconds(text: str) -> float:
        start = time.process_time()
        train_bpe(text, 512)
        return time.process_time() - start

    text = some_text(20_000, seed=2)
    once = min(seconds(text) for _ in range(3))
    assert seconds(text * 8) < 12 * once + 0.5


# Encoding and decoding ------------------------------------------------------------------------------

LEARNED = train_bpe(some_text(2000, seed=7) + "né né नमस्ते नमस्ते  \n  \n", 400)


@given(TEXT, SPECIAL)
@settings(max_examples=300, deadline=None)
def test_any_text_comes_back_exactly(text: str, special: list[str]) -> None:
    tokens = encode(text, LEARNED, special)
    assert all(0 <= token < 256 + len(LEARNED) + len(special) for token in tokens)
    assert decode(tokens, LEARNED, special) == text


@pytest.mark.parametrize("text", ODD)
def test_odd_texts_come_back_exactly(text: str) -> None:
    own = train_bpe(text * 3 or "a", 300)
    for merges in ([], LEARNED, own):
        assert decode(encode(text, merges), merges) == text


@given(st.text("abcdefgh  .1\n", max_size=80))
@settings(deadline=None)
def test_encoding_agrees_with_going_through_all_merges(text: str) -> None:
    words = [list(piece.encode()) for piece in pre_tokens(text)]
    for new_id, pair in enumerate(LEARNED, 256):
        words = [merge(word, pair, new_id) for word in words]
    assert encode(text, LEARNED) == [token for word in words for token in word]


@given(st.text("abcdefgh  .,1\n<>s|", max_size=60))
@settings(max_examples=200, deadline=None)
def test_encoding_agrees_with_tokenizers(text: str) -> None:
    special = ("<s>", "<s>s", "||", "a>b")
    assert encode(text, LEARNED, special) == library_encoder(special).encode(text).ids


@given(st.lists(st.integers(0, 255 + len(LEARNED)), max_size=20))
@settings(deadline=None)
def test_any_tokens_give_a_text(tokens: list[int]) -> None:
    text = decode(tokens, LEARNED)
    assert text == b"".join(bytes(b) for b in (expanded(token) for token in tokens)).decode(
        errors="replace"
    )


def expanded(token: int) -> list[int]:
    if token < 256:
        return [token]
    left, right = LEARNED[token - 256]
    return expanded(left) + expanded(right)


def test_encoding_a_large_text_takes_little_time() -> None:
    text = some_text(100_000, seed=9)
    start = time.process_time()
    encode(text, LEARNED)
    assert time.process_time() - start < len(text) / 250_000  # four times what is promised


# Bad input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: count_pairs({(1, 2): 0}), r"the word \(1, 2\) occurs 0 times"),
        (
            lambda: merge([1, 2], (1, 2, 3), 256),  # type: ignore[arg-type]
            r"a pair is two tokens, not \(1, 2, 3\)",
        ),
        (lambda: encode("ab", [[97, 98]]), r"merge 0 is \[97, 98\]: a merge is a tuple"),  # type: ignore[list-item]
        (lambda: train_bpe("abc", 255), "vocab_size is at least 256, one for each byte, not 255"),
        (lambda: train_bpe("", 300), "nothing to learn from an empty text"),
        (lambda: train_bpe("ab\ud83d", 300), r"half a character \('\\ud83d'\) at place 2"),
        (lambda: encode("\udc80", []), r"half a character \('\\udc80'\) at place 0"),
        (lambda: encode("a", [(97, 256)]), r"merge 0 is of \(97, 256\), but there are 256 tokens"),
        (lambda: encode("a", [], [""]), "special tokens are texts that differ, none of them empty"),
        (lambda: encode("a", [], ["<s>", "<s>"]), "special tokens are texts that differ"),
        (lambda: encode("a", [], "<s>"), "special tokens are a list of texts"),
        (lambda: encode("a", [], ["\ud800"]), "half a character"),
        (lambda: decode([256], []), "there is no token 256: there are 256, from 0"),
        (lambda: decode([3, -1], [], ["<s>"]), "there is no token -1: there are 257, from 0"),
        (lambda: decode([97], [(97, 98), (258, 97)]), r"merge 1 is of \(258, 97\)"),
    ],
)
def test_bad_input_is_refused_in_a_line(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        call()
    assert "\n" not in str(refused.value)
