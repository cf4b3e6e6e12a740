"""Exercise 10.10, other right ways."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import torch
from torch.nn import functional as F


def with_index_put(tokens: Any, vocab_size: int, smoothing: float) -> Any:
    counts = torch.full((vocab_size, vocab_size), float(smoothing), device=tokens.device)
    one = torch.ones((), device=tokens.device)
    counts.index_put_((tokens[:-1].long(), tokens[1:].long()), one, accumulate=True)
    sums = counts.sum(1)
    counts[sums == 0] = 1.0
    return counts / counts.sum(1)[:, None]


def with_one_hot_rows(tokens: Any, vocab_size: int, smoothing: float) -> Any:
    rows = F.one_hot(tokens.long(), vocab_size).double()
    counts = rows[:-1].T @ rows[1:] + smoothing
    return torch.nan_to_num(counts / counts.sum(dim=1, keepdim=True), nan=1 / vocab_size)


def with_a_counter(tokens: Any, vocab_size: int, smoothing: float) -> Any:
    pairs = Counter(pairwise(tokens.tolist()))
    table = []
    for first in range(vocab_size):
        row = [pairs[first, second] + smoothing for second in range(vocab_size)]
        total = sum(row)
        table.append([n / total for n in row] if total else [1 / vocab_size] * vocab_size)
    return torch.tensor(table, device=tokens.device)


def with_scatter(tokens: Any, vocab_size: int, smoothing: float) -> Any:
    flat = torch.zeros(vocab_size * vocab_size, dtype=torch.float64, device=tokens.device)
    places = tokens[:-1].to(torch.int64) * vocab_size + tokens[1:].to(torch.int64)
    flat.scatter_add_(0, places, torch.ones_like(places, dtype=torch.float64))
    table = flat.view(vocab_size, vocab_size) + smoothing
    empty = table.sum(-1) == 0
    table[empty] += 1
    return F.normalize(table, p=1, dim=-1).float()


def row_by_row(tokens: Any, vocab_size: int, smoothing: float) -> Any:
    rows = []
    for first in range(vocab_size):
        following = tokens[1:][tokens[:-1] == first].long()
        row = torch.bincount(following, minlength=vocab_size) + smoothing
        total = len(following) + smoothing * vocab_size
        rows.append(row / total if total else torch.ones_like(row, dtype=torch.float32) / vocab_size)
    return torch.stack([row.float() for row in rows])
