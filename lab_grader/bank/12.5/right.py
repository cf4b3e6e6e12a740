"""Exercise 12.5, other right ways."""

from __future__ import annotations

from typing import Any

import torch

from lab_transformer.masking import causal_mask


def window_from_two_triangles(query: int, key: int, window: int) -> Any:
    ones = torch.ones(query, key, dtype=torch.bool)
    return ones.tril(key - query) & ones.triu(key - query - window + 1)


def window_cut_from_a_causal_mask(query: int, key: int, window: int) -> Any:
    whole = causal_mask(key)
    return (whole & ~whole.tril(-window))[-query:]


def window_by_loops(query: int, key: int, window: int) -> Any:
    rows = [
        [place - window < seen <= place for seen in range(key)] for place in range(key - query, key)
    ]
    return torch.tensor(rows)


def window_filled_row_by_row(query: int, key: int, window: int) -> Any:
    mask = torch.zeros(query, key, dtype=torch.bool)
    for row in range(query):
        place = key - query + row
        mask[row, max(0, place - window + 1) : place + 1] = True
    return mask


def window_as_a_band(query: int, key: int, window: int) -> Any:
    distance = torch.arange(key - query, key).unsqueeze(1) - torch.arange(key).unsqueeze(0)
    return torch.logical_and(distance.ge(0), distance.le(window - 1))
