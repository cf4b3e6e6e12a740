"""Exercise 10.1, other right ways."""

from __future__ import annotations

import functools
import itertools
from collections import Counter, defaultdict
from typing import Any


def count_pairs_by_index(words: Any) -> Any:
    counts: dict[tuple[int, int], int] = {}
    for word, frequency in words.items():
        place = 0
        while place < len(word) - 1:
            pair = (word[place], word[place + 1])
            counts[pair] = counts.get(pair, 0) + frequency
            # The middle one of three equal tokens begins nothing new.
            three = word[place : place + 3]
            place += 2 if len(three) == 3 and len(set(three)) == 1 else 1
    return counts


def count_pairs_by_runs(words: Any) -> Any:
    """Count equal tokens by the length of their run, and all other pairs one by one."""
    counts: Any = Counter()
    for word, frequency in words.items():
        for token, run in itertools.groupby(word):
            if half := len(list(run)) // 2:
                counts[token, token] += half * frequency
        for left, right in itertools.pairwise(word):
            if left != right:
                counts[left, right] += frequency
    return counts


def count_pairs_by_last_place(words: Any) -> Any:
    counts: Any = defaultdict(int)
    for word in words:
        last: dict[tuple[int, int], int] = {}
        for place in range(1, len(word)):
            pair = word[place - 1], word[place]
            if last.get(pair, -1) != place - 1:
                counts[pair] += words[word]
                last[pair] = place
    return counts


def count_pairs_by_trial(words: Any) -> Any:
    """Take each pair by itself, and go through the word as merging would."""
    counts: dict[tuple[int, int], int] = {}
    for word, frequency in words.items():
        for pair in set(itertools.pairwise(word)):
            rest = list(word)
            while rest:
                if tuple(rest[:2]) == pair:
                    counts[pair] = counts.get(pair, 0) + frequency
                    del rest[0]
                del rest[0]
    return counts


def count_pairs_by_text(words: Any) -> Any:
    """Let str.count find what does not overlap, with a character for each token."""
    counts: Any = Counter()
    for word, frequency in words.items():
        text = "".join(map(chr, word))
        for pair in {text[i : i + 2] for i in range(len(text) - 1)}:
            counts[ord(pair[0]), ord(pair[1])] += text.count(pair) * frequency
    return dict(counts)


def count_pairs_by_sum(words: Any) -> Any:
    def of_word(word: tuple[int, ...]) -> Any:
        kept: list[Any] = [None]
        for pair in itertools.pairwise(word):
            kept.append(None if pair == kept[-1] else pair)
        return Counter(pair for pair in kept if pair)

    weighted = (
        Counter({pair: n * frequency for pair, n in of_word(word).items()})
        for word, frequency in words.items()
    )
    return functools.reduce(lambda one, other: one + other, weighted, Counter())
