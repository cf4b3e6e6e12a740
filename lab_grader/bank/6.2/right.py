"""Exercise 6.2, other right ways."""

from __future__ import annotations

from typing import Any

import torch


def padding_by_ne(tokens: Any, pad_id: int) -> Any:
    return tokens.ne(pad_id).unsqueeze(1).unsqueeze(2)


def padding_by_reshape(tokens: Any, pad_id: int) -> Any:
    batch, key = tokens.shape
    return torch.logical_not(tokens == pad_id).reshape(batch, 1, 1, key)


def padding_by_loop(tokens: Any, pad_id: int) -> Any:
    return torch.tensor([[[[token != pad_id for token in row]]] for row in tokens.tolist()])


def padding_on_an_own_copy(tokens: Any, pad_id: int) -> Any:
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[tokens == pad_id] = False
    return mask.view(tokens.size(0), 1, 1, -1)
