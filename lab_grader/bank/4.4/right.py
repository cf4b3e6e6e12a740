"""Exercise 4.4, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch


def turns_by_complex_numbers(x: Any, positions: Any) -> Any:
    speed = 1.0 / (10000 ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1]))
    angle = torch.outer(positions.float(), speed)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2).type_as(x)


def turns_with_exchanged_partners(x: Any, positions: Any) -> Any:
    speed = torch.exp(torch.arange(0, x.shape[-1], 2) * (-math.log(10000.0) / x.shape[-1]))
    angle = (positions[:, None] * speed).repeat_interleave(2, dim=-1)
    partner = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape(x.shape)
    return x * angle.cos() + partner * angle.sin()


def turns_by_matrices(x: Any, positions: Any) -> Any:
    column = torch.arange(0, x.shape[-1], 2, dtype=torch.float64)
    angle = positions[:, None] / 10000 ** (column / x.shape[-1])
    rows = [torch.stack([angle.cos(), -angle.sin()], -1), torch.stack([angle.sin(), angle.cos()], -1)]
    pairs = x.double().unflatten(-1, (-1, 2))
    return torch.einsum("siab,...sib->...sia", torch.stack(rows, -2), pairs).flatten(-2).to(x.dtype)


def turns_on_a_copy(x: Any, positions: Any) -> Any:
    result = x.clone()
    for i in range(0, x.shape[-1], 2):
        angle = positions * 10000 ** (-i / x.shape[-1])
        result[..., i] = x[..., i] * angle.cos() - x[..., i + 1] * angle.sin()
        result[..., i + 1] = x[..., i] * angle.sin() + x[..., i + 1] * angle.cos()
    return result
