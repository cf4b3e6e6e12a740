"""Exercise 10.3, other right ways."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from typing import Any

from lab_transformer.tokenizer import count_pairs, merge, pre_tokens


def train_in_a_comprehension(text: Any, vocab_size: Any) -> Any:
    words: Any = Counter(tuple(piece.encode()) for piece in pre_tokens(text))
    merges: list[tuple[int, int]] = []
    for new_id in range(256, vocab_size):
        counts = count_pairs(words)
        pair = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
        if pair is None or counts[pair] == 1:
            break
        merges.append(pair)
        words = {tuple(merge(list(word), pair, new_id)): n for word, n in words.items()}
    return merges


def train_with_every_word_by_itself(text: Any, vocab_size: Any) -> Any:
    """Keep every pre-token of the text, as often as it occurs: slow, and right."""
    pieces = [list(piece.encode("utf-8")) for piece in pre_tokens(text)]
    merges: list[tuple[int, int]] = []
    while len(merges) + 256 < vocab_size:
        counts: Any = Counter()
        for piece in pieces:
            counts.update(count_pairs({tuple(piece): 1}))
        often = [(-n, pair) for pair, n in counts.items() if n > 1]
        if not often:
            return merges
        pair = min(often)[1]
        pieces = [merge(piece, pair, 256 + len(merges)) for piece in pieces]
        merges.append(pair)
    return merges


def train_by_sorting(text: Any, vocab_size: Any) -> Any:
    words = list(Counter(pre_tokens(text)).items())
    tokens = [(list(word.encode()), n) for word, n in words]
    merges: list[tuple[int, int]] = []
    for step in range(vocab_size - 256):
        counts: dict[tuple[int, int], int] = {}
        for word, n in tokens:
            for pair, many in count_pairs({tuple(word): n}).items():
                counts[pair] = counts.get(pair, 0) + many
        ranked = sorted(sorted(counts.items()), key=lambda entry: entry[1], reverse=True)
        if not ranked or ranked[0][1] < 2:
            break
        merges.append(ranked[0][0])
        tokens = [(merge(word, ranked[0][0], 256 + step), n) for word, n in tokens]
    return merges


def train_by_text(text: Any, vocab_size: Any) -> Any:
    """Let texts count and replace, with a character for each token."""
    words = Counter(piece.encode().decode("latin-1") for piece in pre_tokens(text))
    merges: list[tuple[int, int]] = []
    while len(merges) < vocab_size - 256:
        counts: Any = Counter()
        for word, n in words.items():
            for pair in {word[i : i + 2] for i in range(len(word) - 1)}:
                counts[pair] += word.count(pair) * n
        if not counts:
            break
        pair, many = min(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        if many < 2:
            break
        new = chr(256 + len(merges))
        merges.append((ord(pair[0]), ord(pair[1])))
        words = Counter({word.replace(pair, new): n for word, n in words.items()})
    return merges


def train_with_counts_kept(text: Any, vocab_size: Any) -> Any:
    """Take the counts of a changed word off, and add the new ones."""
    words = {i: (tuple(w.encode()), n) for i, (w, n) in enumerate(Counter(pre_tokens(text)).items())}
    counts: Any = Counter()
    where: Any = defaultdict(set)

    def add(i: int, sign: int) -> None:
        word, n = words[i]
        for pair, many in count_pairs({word: n}).items():
            counts[pair] += sign * many
            (where[pair].add if sign > 0 else where[pair].discard)(i)

    for i in words:
        add(i, 1)
    merges: list[tuple[int, int]] = []
    while len(merges) < vocab_size - 256 and counts:
        pair = heapq.nsmallest(1, counts, key=lambda pair: (-counts[pair], pair))[0]
        if counts[pair] < 2:
            break
        for i in list(where[pair]):
            add(i, -1)
            words[i] = (tuple(merge(list(words[i][0]), pair, 256 + len(merges))), words[i][1])
            add(i, 1)
        merges.append(pair)
    return merges
