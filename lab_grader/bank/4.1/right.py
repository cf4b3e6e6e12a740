"""Exercise 4.1, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch

from lab_transformer._checks import check_even


def waves_in_single_precision(length: int, d_model: int) -> Any:
    check_even(d_model)
    table = torch.zeros(length, d_model)
    position = torch.arange(length).unsqueeze(1)
    slow = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    table[:, 0::2] = torch.sin(position * slow)
    table[:, 1::2] = torch.cos(position * slow)
    return table


def waves_by_loop(length: int, d_model: int) -> Any:
    check_even(d_model)

    def entry(p: int, c: int) -> float:
        angle = p / 10000 ** ((c - c % 2) / d_model)
        return math.cos(angle) if c % 2 else math.sin(angle)

    return torch.tensor([[entry(p, c) for c in range(d_model)] for p in range(length)])


def waves_by_complex_numbers(length: int, d_model: int) -> Any:
    check_even(d_model)
    step = torch.pow(10000, -torch.arange(d_model // 2) / (d_model // 2))
    angle = torch.einsum("p,i->pi", torch.arange(length).float(), step)
    # The sine of an angle is the cosine of what it lacks to a right one.
    return torch.view_as_real(torch.polar(torch.ones_like(angle), math.pi / 2 - angle)).flatten(1)
