"""Text to tokens and back: bytes, and pairs of them that are merged."""

import heapq
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

# A token is a number. The first 256 are the bytes; merge number n makes token
# 256 + n of two others; special tokens take the numbers after the merges.
BYTES = 256

Pair = tuple[int, int]


@cache
def _pre_token() -> re.Pattern[str]:
    """Make the pattern of a pre-token; every character belongs to one."""
    letter = r"[^\W\d_]"
    # Vowel signs and accents, and what joins or parts letters, belong to the
    # letter before them: without them a Hindi word would fall to pieces.
    marks = filter(
        lambda char: unicodedata.category(char) in ("Mn", "Mc", "Me"),
        map(chr, range(0x300, 0x10000)),
    )
    mark = f"[{''.join(marks)}\u200c\u200d]"
    return re.compile(
        rf" ?{letter}++(?:{mark}++{letter}*+)*+"  # a space, and the word
        r"|\d++"
        r"|(?:(?!\s)[\W_])++"
        rf"|\s+?(?= {letter})"  # the last space belongs to the word
        r"|\s++"
    )


def pre_tokens(text: str) -> list[str]:
    """Cut a text into pieces that no merge reaches across.

    A piece is a word with one space before it if there is one, or a run of
    digits, of other signs, or of white space. Joined they are the text.
    """
    return _pre_token().findall(text)


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"half a character ({text[error.start]!a})"
        wrong = f"the text has {half} at place {error.start}"
        raise ValueError(f"{wrong}: it has no bytes") from None


def _check_merges(merges: Sequence[Pair], special: Sequence[str]) -> None:
    for new_id, pair in enumerate(merges, BYTES):
        # A list, as JSON gives it, is found in no dictionary.
        if not isinstance(pair, tuple) or len(pair) != 2:
            wrong = f"merge {new_id - BYTES} is {pair!r:.60}"
            raise ValueError(f"{wrong}: a merge is a tuple of two tokens")
        if not (0 <= pair[0] < new_id and 0 <= pair[1] < new_id):
            wrong = f"merge {new_id - BYTES} is of {pair}"
            raise ValueError(f"{wrong}, but there are {new_id} tokens by then")
    if isinstance(special, str):
        raise ValueError(f"special tokens are a list of texts, not {special!r}")
    for name in special:
        _check_text(name)
    if "" in special or len(set(special)) < len(special):
        wrong = "special tokens are texts that differ, none of them empty"
        raise ValueError(f"{wrong}: {list(special)}")


#: id = "10.1"
#: title = "Counting pairs"
#: points = 3
#: difficulty = 2
#: minutes = 15
#: needs = []
#: hints = [
#:     "A word that occurs 40 times and holds a pair twice: what does it add to the pair's count?",
#:     "Walk through each word's neighbours. Where may a pair not be counted again at once?",
#:     "In (7, 7, 7) the second pair begins inside the first: remember where the last one ended.",
#: ]
def count_pairs(words: dict[tuple[int, ...], int]) -> dict[Pair, int]:
    """Count how often every two neighbouring tokens could be merged.

    `words` maps each word, a tuple of tokens, to how often it occurs in the
    text: a pair in a word that occurs 40 times counts 40 times. Words are
    counted each by itself, so the last token of one and the first of the next
    are no pair. Occurrences of one pair do not overlap: they are counted from
    the left, so that (7, 7) occurs once in (7, 7, 7) and twice in
    (7, 7, 7, 7). Pairs that do not occur are not in the result; the order of
    the others does not matter.
    """
    for word, frequency in words.items():
        if frequency < 1:
            wrong = f"the word {word} occurs {frequency} times"
            raise ValueError(f"{wrong}: leave out what does not occur")
    ### BEGIN SOLUTION
    counts: Counter[Pair] = Counter()
    for word, times in words.items():
        last = None
        for pair in pairwise(word):
            if pair == last:  # it begins inside the one that was just counted
                last = None
            else:
                counts[pair] += times
                last = pair
    return dict(counts)
    ### END SOLUTION


#: id = "10.2"
#: title = "Merging a pair"
#: points = 2
#: difficulty = 1
#: minutes = 10
#: needs = []
#: hints = [
#:     "After two tokens have become one, which token do you look at next?",
#:     "Walk from left to right with an index that moves by two after a merge and by one otherwise.",
#:     "Mind the last token: it has no neighbour on its right, and must not get lost.",
#: ]
def merge(tokens: list[int], pair: Pair, new_id: int) -> list[int]:
    """Replace every occurrence of the pair by new_id, from left to right.

    Where occurrences overlap, the left one is merged: with the pair (7, 7),
    the tokens 7 7 7 become new_id 7. What was just made is not merged again,
    even if new_id is one of the pair. The result is a new list, and `tokens`
    stays as it is.
    """
    if len(pair) != 2:
        raise ValueError(f"a pair is two tokens, not {pair}")
    ### BEGIN SOLUTION
    merged = []
    place = 0
    while place < len(tokens):
        if tuple(tokens[place : place + 2]) == pair:
            merged.append(new_id)
            place += 2
        else:
            merged.append(tokens[place])
            place += 1
    return merged
    ### END SOLUTION


#: id = "10.3"
#: title = "Learning the merges"
#: points = 6
#: difficulty = 4
#: minutes = 40
#: needs = ["10.1", "10.2"]
#: hints = [
#:     "The word 'the' occurs a thousand times: how often do you have to merge inside it?",
#:     "A Counter of pre-tokens, as tuples of bytes. Then: count pairs, merge the best in all, again.",
#:     "min with the key (-count, pair) gives the most frequent pair, and of equals the smallest.",
#: ]
def train_bpe(text: str, vocab_size: int) -> list[Pair]:
    """Learn which pairs to merge, the most frequent first.

    Tokens 0 to 255 are the bytes of the text in UTF-8. The text is cut into
    its `pre_tokens`, and no pair reaches from one into the next. Then, again
    and again: the pair that occurs most often, counted as in `count_pairs`,
    becomes one new token wherever it occurs, as in `merge`; the first new
    token is 256, the next 257, and so on. Of equally frequent pairs the
    smallest is taken, compared as Python compares tuples: first the left
    token, then the right one.

    It ends when there are vocab_size tokens, bytes included, or when no pair
    occurs twice. Returns the pairs in the order in which they were merged.
    `pre_tokens`, `count_pairs` and `merge` are in scope. Counting anew after
    each merge is fast enough here.
    """
    if vocab_size < BYTES:
        wrong = f"vocab_size is at least {BYTES}, one for each byte"
        raise ValueError(f"{wrong}, not {vocab_size}")
    if not text:
        raise ValueError("there is nothing to learn from an empty text")
    _check_text(text)
    ### BEGIN SOLUTION
    words: list[tuple[int, ...]] = []
    frequencies: list[int] = []
    for pre_token, frequency in Counter(pre_tokens(text)).items():
        words.append(tuple(pre_token.encode()))
        frequencies.append(frequency)
    # A pair's count, and the words that hold it (or held it once).
    counts: Counter[Pair] = Counter()
    holders: defaultdict[Pair, set[int]] = defaultdict(set)
    for index, word in enumerate(words):
        for pair, count in count_pairs({word: frequencies[index]}).items():
            counts[pair] += count
            holders[pair].add(index)
    # Counts of old pairs only fall: one in the heap may be too high.
    heap = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(heap)
    merges: list[Pair] = []
    while heap and len(merges) < vocab_size - BYTES:
        count, pair = heapq.heappop(heap)
        if -count != counts[pair]:
            heapq.heappush(heap, (-counts[pair], pair))
            continue
        if -count < 2:
            break
        new_id = BYTES + len(merges)
        merges.append(pair)
        new_pairs = set()
        for index in holders.pop(pair):
            old = words[index]
            word = tuple(merge(list(old), pair, new_id))
            for gone, less in count_pairs({old: frequencies[index]}).items():
                counts[gone] -= less
            for come, more in count_pairs({word: frequencies[index]}).items():
                counts[come] += more
                if new_id in come:
                    holders[come].add(index)
                    new_pairs.add(come)
            words[index] = word
        for come in new_pairs:
            heapq.heappush(heap, (-counts[come], come))
    return merges
    ### END SOLUTION


#: id = "10.4"
#: title = "Encoding"
#: points = 5
#: difficulty = 4
#: minutes = 35
#: needs = ["10.2"]
#: hints = [
#:     "Two pairs of a word can both be merged, but they share a token: which of them goes first?",
#:     "Cut at the special tokens first. In each pre-token, merge the earliest learned pair, again.",
#:     "re.split with a group keeps what it splits at; in a|ab the first that fits wins.",
#: ]
def encode(
    text: str,
    merges: list[Pair],
    special: Sequence[str] = (),
) -> list[int]:
    """Turn a text into tokens with the merges that `train_bpe` has learned.

    Token 256 is made by merges[0], 257 by merges[1], and so on. In the bytes
    of each pre-token by itself, of all pairs that stand side by side the one
    that was learned first is merged, as in `merge`; then again, until no pair
    is left that was learned.

    Special tokens are texts that come out as one token each, wherever they
    occur: special[0] is the token after the last merge, 256 + len(merges),
    special[1] the next. They are found from left to right, and of two that
    begin at the same place the longer one counts. What stands between them is
    encoded by itself, as if the text began and ended there. Without `special`
    they are text like any other. An empty text has no tokens. `pre_tokens` and
    `merge` are in scope.
    """
    _check_text(text)
    _check_merges(merges, special)
    ### BEGIN SOLUTION
    ids = {pair: new_id for new_id, pair in enumerate(merges, BYTES)}
    first = BYTES + len(merges)
    known = {word: [first + place] for place, word in enumerate(special)}
    longest_first = sorted(special, key=len, reverse=True)
    parts = [text]
    if special:
        parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text)
    tokens: list[int] = []
    words: dict[str, list[int]] = {}  # what has been encoded before
    for part in parts:
        if part in known:
            tokens += known[part]
            continue
        for word in pre_tokens(part):
            if word not in words:
                piece = list(word.encode())
                while len(piece) > 1:
                    pair = min(
                        pairwise(piece),
                        key=lambda pair: ids.get(pair, sys.maxsize),
                    )
                    if pair not in ids:
                        break
                    piece = merge(piece, pair, ids[pair])
                words[word] = piece
            tokens += words[word]
    return tokens
    ### END SOLUTION


#: id = "10.5"
#: title = "Decoding"
#: points = 3
#: difficulty = 2
#: minutes = 15
#: needs = []
#: hints = [
#:     "Is every token a whole character? Think of é, which has two bytes.",
#:     "Work out the bytes of every token, from those of the two it was merged from.",
#:     "Join the bytes of all tokens first, and turn them into text once, at the end.",
#: ]
def decode(
    tokens: list[int],
    merges: list[Pair],
    special: Sequence[str] = (),
) -> str:
    """Turn tokens back into text: what `encode` was given comes out exactly.

    Tokens are numbered as in `encode`, special ones too. Tokens that are not
    the bytes of a text, as a model may write them, are no error: what cannot
    be read becomes the sign U+FFFD, as `bytes.decode` does it with
    errors="replace". No tokens give an empty text.
    """
    _check_merges(merges, special)
    size = BYTES + len(merges) + len(special)
    for token in tokens:
        if not 0 <= token < size:
            wrong = f"there is no token {token}"
            raise ValueError(f"{wrong}: there are {size}, from 0")
    ### BEGIN SOLUTION
    pieces = [bytes([byte]) for byte in range(BYTES)]
    for first, second in merges:
        pieces.append(pieces[first] + pieces[second])
    pieces += [word.encode() for word in special]
    data = b"".join(pieces[token] for token in tokens)
    return data.decode(errors="replace")
    ### END SOLUTION
