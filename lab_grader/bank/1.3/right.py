"""Exercise 1.3, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F


def cell_with_einsum(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    shares = torch.einsum("...i,io->...o", x, w_x), torch.einsum("...i,io->...o", h, w_h)
    return (b + shares[1] + shares[0]).tanh()


def cell_of_joined_vectors(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return torch.tanh(torch.cat([x, h], dim=-1) @ torch.cat([w_x, w_h]) + b)


def cell_of_linear_layers(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return torch.tanh(F.linear(x, w_x.T, b) + F.linear(h, w_h.mT))


def cell_by_the_sigmoid(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    total = x @ w_x
    total += h @ w_h
    total += b
    return 2 * torch.sigmoid(2 * total) - 1


def cell_in_double(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    total = x.double() @ w_x.double() + h.double() @ w_h.double() + b.double()
    return total.tanh().to(x.dtype)
