"""Exercise 1.1, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F


def one_hot_built_in(tokens: Any, vocab_size: int) -> Any:
    return F.one_hot(tokens, vocab_size).float()


def one_hot_from_the_identity(tokens: Any, vocab_size: int) -> Any:
    return torch.eye(vocab_size, device=tokens.device)[tokens]


def one_hot_by_scattering(tokens: Any, vocab_size: int) -> Any:
    rows = torch.zeros(*tokens.shape, vocab_size, device=tokens.device)
    return rows.scatter_(-1, tokens[..., None], 1.0)


def one_hot_in_a_loop(tokens: Any, vocab_size: int) -> Any:
    rows = torch.zeros(tokens.numel(), vocab_size)
    for row, token in zip(rows, tokens.flatten().tolist(), strict=True):
        row[token] = 1.0
    return rows.reshape(*tokens.shape, vocab_size)
