"""Exercise 4.2, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch

from lab_transformer._checks import check_even


def matrix_of_blocks(offset: int, d_model: int) -> Any:
    check_even(d_model)
    angles = offset / 10000 ** (torch.arange(0, d_model, 2).float() / d_model)
    blocks = [torch.stack([a.cos(), -a.sin(), a.sin(), a.cos()]).view(2, 2) for a in angles]
    return torch.block_diag(*blocks)  # type: ignore[no-untyped-call]


def matrix_by_loop(offset: int, d_model: int) -> Any:
    check_even(d_model)
    matrix = torch.eye(d_model)
    for i in range(0, d_model, 2):
        angle = offset * math.exp(-i * math.log(10000) / d_model)
        matrix[i, i] = matrix[i + 1, i + 1] = math.cos(angle)
        matrix[i + 1, i] = math.sin(angle)
        matrix[i, i + 1] = -matrix[i + 1, i]
    return matrix


def matrix_by_exponential(offset: int, d_model: int) -> Any:
    check_even(d_model)
    speed = 10000 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    below = torch.stack([speed, torch.zeros_like(speed)], dim=-1).flatten()[:-1].diag(-1)
    return torch.matrix_exp(offset * (below - below.T)).float()
