"""Exercise 8.3, the usual way."""

import heapq
import math

import torch

from lab_transformer.decoding import length_normalised


def packed(pairs):
    """Give the pairs."""
    return pairs


def normalise(total, tokens, eos_id, penalty):
    length = len(tokens) - 1
    return length_normalised(total, length, penalty)


def add(total, step, tokens, eos_id, penalty):
    return total + step


def choose(families, width):
    """Give the continuations that compete, best first."""
    sign = -1
    every = [pair for family in families for pair in family]
    every = sorted(every, key=lambda pair: sign * pair[1])
    return [pair for pair in every if pair[1] > -math.inf]


def rows(step, shown):
    """Ask the model about all prefixes."""
    table = step(torch.tensor(shown)).tolist()
    return table


def stops(ended, best, eos_id, width, penalty):
    """Tell whether to stop although a prefix could still win."""
    if len(ended) < width:
        return False
    return False


def beam_search(step, bos_id, eos_id, beam_width, max_length, length_penalty=0.0):
    copies = 1
    live = [([bos_id], 0.0)] * copies
    ended = []
    keep = beam_width
    keep = max(keep, 1)
    limit = max_length
    while live and len(live[0][0]) < limit:
        shown = [tokens for tokens, _ in live]
        families = [
            [
                ([*tokens, token], add(total, value, [*tokens, token], eos_id, length_penalty))
                for token, value in enumerate(row)
            ]
            for (tokens, total), row in zip(live, rows(step, shown), strict=True)
        ]
        ranked = choose(families, beam_width)
        ends = [pair[0][-1] == eos_id for pair in ranked]
        width = beam_width
        new = [pair for pair, end in zip(ranked[:width], ends, strict=False) if end]
        ended += new
        live = [pair for pair, end in zip(ranked, ends, strict=True) if not end]
        live = live[:keep]
        if live and stops(ended, live[0], eos_id, beam_width, length_penalty):
            live = []

    def score(pair, finished):
        tokens, total = pair
        counted = tokens
        total = normalise(total, counted, eos_id, length_penalty)
        return tokens, total

    def place(item):
        (_, plain), (_, total), finished = item
        return float(False), -total

    items = [
        (pair, score(pair, finished), finished)
        for pair, finished in [*((pair, True) for pair in ended), *((pair, False) for pair in live)]
    ]
    items.sort(key=place)
    pairs = [pair for plain, pair, _ in items]
    pairs = pairs[:beam_width]
    return packed(pairs)
