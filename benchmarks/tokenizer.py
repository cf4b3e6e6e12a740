"""Our tokenizer against `tokenizers` and against the plain algorithm: time as a ratio.

All sides run in one process, on one thread, on the same text (the sources of Python's own library) and
by the same rules; the processor's time is counted. All must encode the text to the same tokens.
`tokenizers` does more than that: it keeps the place of each token in the text.

The plain algorithm is the one that most lessons show: every pre-token of the text by itself, all pairs
counted anew for each merge, and merged everywhere. It takes too long for the whole text and gets a
part, from which it must learn the same merges; on a longer text, or with more tokens, it falls further
behind.
"""

import argparse
import json
import os
import sysconfig
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from lab_transformer.tokenizer import encode, pre_tokens, train_bpe

Merges = list[tuple[int, int]]
Result = TypeVar("Result")

# The library writes bytes as signs: printable ones as themselves, the others from 256 on.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
SIGNS = {byte: chr(byte) for byte in PRINTABLE}
SIGNS |= {byte: chr(256 + n) for n, byte in enumerate(b for b in range(256) if b not in SIGNS)}

LETTER = r"[\p{L}\p{Nl}\p{No}]"
MARK = r"[\p{M}\x{200c}\x{200d}]"
PATTERN = (
    rf" ?{LETTER}++(?:{MARK}++{LETTER}*+)*+|\p{{Nd}}++|(?:(?!\s)[^\p{{L}}\p{{N}}])++"
    rf"|\s+?(?= {LETTER})|\s++"
)


def cutter() -> pre_tokenizers.PreTokenizer:
    """Cut as `pre_tokens` does, and write bytes as signs."""
    split = pre_tokenizers.Split(tokenizers.Regex(PATTERN), "isolated")
    signs = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([split, signs])


def library_training(text: str, vocab_size: int) -> Merges:
    """Learn with `tokenizers`; special tokens come first there, so bytes get their own numbers."""
    learner = tokenizers.Tokenizer(models.BPE())
    learner.pre_tokenizer = cutter()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=[SIGNS[byte] for byte in range(256)],
        show_progress=False,
    )
    learner.train_from_iterator([text], trainer)
    numbers = learner.get_vocab()
    pairs = json.loads(learner.to_str())["model"]["merges"]
    return [(numbers[left], numbers[right]) for left, right in pairs]


def library_encoder(merges: Merges) -> Callable[[str], list[int]]:
    """Encode with `tokenizers`, by our merges."""
    pieces = [SIGNS[byte] for byte in range(256)]
    for left, right in merges:
        pieces.append(pieces[left] + pieces[right])
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    coder = tokenizers.Tokenizer(
        models.BPE(vocabulary, [(pieces[left], pieces[right]) for left, right in merges])
    )
    coder.pre_tokenizer = cutter()
    return lambda text: list(coder.encode(text).ids)


def plainly_merged(tokens: list[int], pair: tuple[int, int], new_id: int) -> list[int]:
    """Replace a pair, from the left."""
    merged, place = [], 0
    while place < len(tokens):
        if place < len(tokens) - 1 and tokens[place] == pair[0] and tokens[place + 1] == pair[1]:
            merged.append(new_id)
            place += 2
        else:
            merged.append(tokens[place])
            place += 1
    return merged


def plain_training(text: str, vocab_size: int) -> Merges:
    """Learn by the plain algorithm."""
    pieces = [list(piece.encode()) for piece in pre_tokens(text)]
    merges: Merges = []
    for new_id in range(256, vocab_size):
        counts: dict[tuple[int, int], int] = {}
        for piece in pieces:
            last = None
            for pair in zip(piece, piece[1:]):  # noqa: B905, RUF007
                last = None if pair == last else pair
                if last:
                    counts[pair] = counts.get(pair, 0) + 1
        pair = min(counts, key=lambda pair: (-counts[pair], pair))
        pieces = [plainly_merged(piece, pair, new_id) for piece in pieces]
        merges.append(pair)
    return merges


def plain_encoding(text: str, merges: Merges) -> list[int]:
    """Encode by the plain algorithm: every pre-token anew, as often as it comes."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    tokens = []
    for piece in pre_tokens(text):
        word = list(piece.encode())
        while len(word) > 1:
            counts = Counter(pairwise(word))
            pair = min(counts, key=lambda pair: ranks.get(pair, len(ranks)))
            if pair not in ranks:
                break
            word = plainly_merged(word, pair, 256 + ranks[pair])
        tokens += word
    return tokens


def library_sources(size: int) -> str:
    """Give so many characters of the sources that every Python carries."""
    text = ""
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" in path.parts or len(text) >= size:
            continue
        text += path.read_text(encoding="utf-8", errors="replace")
    return text[:size]


def timed(run: Callable[[], Result]) -> tuple[Result, float]:
    """Give a result, and the processor time that it took."""
    start = time.process_time()
    result = run()
    return result, time.process_time() - start


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=5_000_000, help="characters of the text")
    parser.add_argument("--part", type=int, default=500_000, help="of these, for the plain algorithm")
    parser.add_argument("--vocab", type=int, default=1024, help="tokens, for the whole text")
    parser.add_argument("--few", type=int, default=512, help="tokens, for the part")
    options = parser.parse_args()
    whole = library_sources(options.size)
    part = whole[: options.part]
    print(f"tokenizers {tokenizers.__version__}, one CPU thread\n")
    print(f"{'':44}     ours   theirs  theirs / ours")

    def show(what: str, ours: float, theirs: float) -> None:
        print(f"{what:44} {ours:7.2f}s {theirs:7.2f}s {theirs / ours:10.2f}", flush=True)

    megabytes = len(whole.encode()) / 1e6
    pre_tokens("a")  # the pattern is made once
    merges, ours = timed(lambda: train_bpe(whole, options.vocab))
    learned, theirs = timed(lambda: library_training(whole, options.vocab))
    show(f"learning {options.vocab} tokens, {megabytes:.1f} MB, tokenizers", ours, theirs)
    same = next(
        (n for n, both in enumerate(zip(merges, learned, strict=True)) if len(set(both)) > 1), None
    )
    coder = library_encoder(merges)
    tokens, ours = timed(lambda: encode(whole, merges))
    others, theirs = timed(lambda: coder(whole))
    assert tokens == others, "the same merges must give the same tokens"
    show(f"encoding {megabytes:.1f} MB, tokenizers", ours, theirs)
    print(f"{'':44} {megabytes / ours:5.1f}MB/s {megabytes / theirs:4.1f}MB/s")
    few, ours = timed(lambda: train_bpe(part, options.few))
    plain, theirs = timed(lambda: plain_training(part, options.few))
    assert few == plain, "the plain algorithm must give the same merges"
    show(f"learning {options.few} tokens, {len(part) / 1e6:.1f} MB, plainly", ours, theirs)
    tokens, ours = timed(lambda: encode(whole, merges))
    others, theirs = timed(lambda: plain_encoding(whole, merges))
    assert tokens == others, "the same merges must give the same tokens"
    show(f"encoding {megabytes:.1f} MB, plainly", ours, theirs)
    if same is not None:
        print(f"\ntokenizers counts pairs that overlap: from merge {same} on it has learned others")


if __name__ == "__main__":
    main()
