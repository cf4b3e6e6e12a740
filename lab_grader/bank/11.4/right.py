"""Exercise 11.4, other right ways."""

from __future__ import annotations

from typing import Any

import torch

from lab_transformer.masking import causal_mask


def prefix_in_loops(prefix_lengths: Any, length: int) -> Any:
    rows = [
        [[[key < prefix or key <= query for key in range(length)] for query in range(length)]]
        for prefix in prefix_lengths.tolist()
    ]
    return torch.tensor(rows, dtype=torch.bool)


def prefix_written_into_the_causal_mask(prefix_lengths: Any, length: int) -> Any:
    mask = causal_mask(length).repeat(len(prefix_lengths), 1, 1, 1)
    for square, prefix in zip(mask, prefix_lengths.tolist(), strict=True):
        square[..., :prefix] = True
    return mask


def prefix_by_the_farther_of_two(prefix_lengths: Any, length: int) -> Any:
    """A query sees all keys below a limit: the prefix's end, or its own successor."""
    place = torch.arange(length, device=prefix_lengths.device)
    limit = torch.maximum(prefix_lengths[:, None], place + 1)
    return place[None, None, None, :] < limit[:, None, :, None]


def prefix_by_what_is_hidden(prefix_lengths: Any, length: int) -> Any:
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    outside = torch.arange(length)[None, :] >= prefix_lengths[:, None]
    hidden = torch.einsum("qk,bk->bqk", future.int(), outside.int()).bool()
    return ~hidden.unsqueeze(1)


def prefix_stacked(prefix_lengths: Any, length: int) -> Any:
    masks = []
    for prefix in prefix_lengths:
        mask = torch.tril(torch.ones(length, length))
        mask[:, : int(prefix)] = 1
        masks.append(mask)
    return torch.stack(masks).unsqueeze(1) == 1
