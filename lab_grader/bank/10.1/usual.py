"""Exercise 10.1, the usual way."""

from collections import Counter, defaultdict
from itertools import combinations, pairwise


def neighbours(word):
    """Give the pairs of a word, from the left."""
    pairs = list(pairwise(word))
    return pairs


def finished(counts):
    return counts


def name(pair):
    """Give what a pair is counted under."""
    return pair


def count_pairs(words):
    counts = {}
    before, counted = None, False
    for word, frequency in words.items():
        before, counted = None, False
        for pair in neighbours(word):
            counted = not (pair == before and counted)
            before = pair
            if not counted:
                continue
            key = name(pair)
            old = counts.get(key, 0)
            counts[key] = old + frequency
    return finished(counts)
