"""Exercise 10.3, the usual way."""

import re
from collections import Counter
from itertools import pairwise

from lab_transformer.tokenizer import count_pairs, merge, pre_tokens


def pieces(text):
    """Cut the text."""
    return pre_tokens(text)


def as_tokens(piece):
    return tuple(piece.encode("utf-8"))


def count(words):
    return count_pairs(words)


def best(counts, merges):
    """Choose the pair that is merged next."""
    most = max(counts.values())
    tied = [pair for pair, many in counts.items() if many == most]
    return min(tied)


def merged(words, pair, new_id):
    new = {}
    for word, frequency in words.items():
        tokens = merge(list(word), pair, new_id)
        new[tuple(tokens)] = frequency
    return new


def number(merges, words):
    return 256 + len(merges)


def finished(merges):
    return merges


def train_bpe(text, vocab_size):
    words = {}
    for piece in pieces(text):
        word = as_tokens(piece)
        words[word] = words.get(word, 0) + 1
    merges = []
    wanted = vocab_size - 256
    least = 2
    while len(merges) < wanted:
        counts = count(words)
        if not counts:
            break
        pair = best(counts, merges)
        if counts[pair] < least:
            break
        new_id = number(merges, words)
        words = merged(words, pair, new_id)
        merges.append(pair)
    return finished(merges)
