"""Exercise 9.2, other right ways."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch


def from_the_longest(lengths: Any, max_tokens: int) -> Any:
    rest = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    batches = []
    while rest:
        room = max_tokens // lengths[rest[0]]
        batches.append(rest[:room])
        rest = rest[room:]
    return batches


def with_argsort(lengths: Any, max_tokens: int) -> Any:
    batches: list[list[int]] = []
    for i in torch.tensor(lengths, dtype=torch.long).argsort(stable=True).tolist():
        if not batches or lengths[i] * (len(batches[-1]) + 1) > max_tokens:
            batches.append([])
        batches[-1].append(i)
    return batches


def with_pairs(lengths: Any, max_tokens: int) -> Any:
    batches, current = [], []
    for length, index in sorted((length, index) for index, length in enumerate(lengths)):
        if length * (len(current) + 1) > max_tokens:
            batches.append(current)
            current = []
        current = [*current, index]
    return [*batches, current] if current else batches


def with_places(lengths: Any, max_tokens: int) -> Any:
    """Find where every batch ends before any of them is cut."""
    order = np.argsort(np.array(lengths, dtype=int))
    ends, start = [0], 0
    for place, index in enumerate(order):
        if lengths[index] * (place - start + 1) > max_tokens:
            ends.append(place)
            start = place
    ends.append(len(order))
    batches = [order[a:b].tolist() for a, b in itertools.pairwise(ends)]
    return [batch for batch in batches if batch]


def with_a_running_maximum(lengths: Any, max_tokens: int) -> Any:
    batches: list[list[int]] = []
    batch: list[int] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if batch and max(longest, lengths[index]) * (len(batch) + 1) > max_tokens:
            batches.append(batch)
            batch, longest = [], 0
        batch.append(index)
        longest = max(longest, lengths[index])
    if batch:
        batches.insert(0, batch)
    return batches


def recursively(lengths: Any, max_tokens: int) -> Any:
    def cut(order: list[int]) -> list[list[int]]:
        if not order:
            return []
        end = len(order)
        while lengths[order[end - 1]] * end > max_tokens:
            end -= 1
        return [order[:end], *cut(order[end:])]

    return cut(sorted(range(len(lengths)), key=lambda i: lengths[i]))


def with_every_cut_tried(lengths: Any, max_tokens: int) -> Any:
    """Choose the fewest batches by trying all last ones."""
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], -i))
    best: list[list[list[int]]] = [[]]
    for end in range(1, len(order) + 1):
        starts = [s for s in range(end) if lengths[order[end - 1]] * (end - s) <= max_tokens]
        start = min(starts, key=lambda s: len(best[s]))
        best.append([*best[start], order[start:end]])
    return best[-1]


def with_a_generator(lengths: Any, max_tokens: int) -> Any:
    def batches() -> Any:
        batch: list[int] = []
        for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
            batch.append(index)
            if lengths[index] * len(batch) > max_tokens:
                yield batch[:-1]
                batch = [index]
        if batch:
            yield batch

    return list(batches())
