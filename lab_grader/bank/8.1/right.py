"""Exercise 8.1, other right ways."""

from __future__ import annotations

from typing import Any

import torch


def with_a_growing_tensor(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    prefix = torch.full((1, 1), bos_id, dtype=torch.int32)
    for _ in range(max_length - 1):
        best = step(prefix).max(dim=-1, keepdim=True).indices
        prefix = torch.cat([prefix, best.to(prefix)], dim=1)
        if best.item() == eos_id:
            break
    return prefix[0].tolist()


def with_one_condition(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    """Look at the last token first, which works because the start is not the end."""
    tokens = [bos_id]
    while tokens[-1] != eos_id and len(tokens) < max_length:
        tokens += step(torch.tensor([tokens])).argmax(dim=-1).tolist()
    return tokens


def with_the_last_of_equals(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    tokens = [bos_id]
    while len(tokens) < max_length:
        row = step(torch.tensor([tokens]))[-1].tolist()
        tokens.append(max(range(len(row)), key=lambda token: (row[token], token)))
        if tokens[-1] == eos_id:
            return tokens
    return tokens


def with_recursion(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    def after(tokens: list[int]) -> list[int]:
        if len(tokens) == max_length or (len(tokens) > 1 and tokens[-1] == eos_id):
            return tokens
        row = step(torch.tensor(tokens).unsqueeze(0)).exp().squeeze(0).tolist()
        return after([*tokens, row.index(max(row))])

    return after([bos_id])


def with_a_buffer(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    buffer = torch.zeros(1, max_length, dtype=torch.long)
    buffer[0, 0] = bos_id
    length = 1
    while length < max_length:
        buffer[0, length] = step(buffer[:, :length]).topk(1).indices[0, 0]
        length += 1
        if buffer[0, length - 1] == eos_id:
            break
    return [int(token) for token in buffer[0, :length]]
