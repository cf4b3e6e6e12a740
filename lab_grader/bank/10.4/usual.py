"""Exercise 10.4, the usual way."""

import re
from itertools import pairwise

from lab_transformer.tokenizer import merge, pre_tokens


def parts(text, special):
    """Cut the text at its special tokens, which are parts, too."""
    names = list(special)
    names.sort(key=len, reverse=True)
    if not names:
        return [text]
    pattern = "|".join(re.escape(name) for name in names)
    found = re.split(f"({pattern})", text)
    return [part for part in found if part]


def pieces(text):
    """Cut what is no special token."""
    return pre_tokens(text)


def as_bytes(piece):
    return list(piece.encode("utf-8"))


def choose(known, ranks):
    """Choose which of the learned pairs that are there is merged."""
    return min(known, key=lambda pair: ranks[pair])


def one_by_one(tokens, ranks):
    """Merge in the bytes of one piece."""
    while len(tokens) > 1:
        known = [pair for pair in pairwise(tokens) if pair in ranks]
        if not known:
            break
        pair = choose(known, ranks)
        new_id = 256 + ranks[pair]
        tokens = merge(tokens, pair, new_id)
    return tokens


def finished(tokens):
    return tokens


def encode(text, merges, special=()):
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    first = 256 + len(merges)
    numbers = {name: first + place for place, name in enumerate(special)}
    tokens = []
    for part in parts(text, special):
        if part in numbers:
            tokens.append(numbers[part])
            continue
        for piece in pieces(part):
            new = one_by_one(as_bytes(piece), ranks)
            tokens.extend(new)
    return finished(tokens)
