"""Exercise 12.2, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


def swiglu_in_one_line(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    return ((x @ w_up) * F.silu(x @ w_gate)) @ w_down


def swiglu_by_hand(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    gate = torch.matmul(x, w_gate)
    gate = gate * torch.sigmoid(gate)
    return torch.matmul(gate.mul(torch.matmul(x, w_up)), w_down)


def swiglu_with_one_wide_matrix(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    gate, up = (x @ torch.cat([w_gate, w_up], dim=1)).chunk(2, dim=-1)
    return (nn.SiLU()(gate) * up) @ w_down


def swiglu_with_the_exponential(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    z = x @ w_gate
    return (z / (1 + torch.exp(-z)) * (x @ w_up)) @ w_down


def swiglu_by_einsum(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    gate = F.silu(torch.einsum("...d,df->...f", x, w_gate))
    up = torch.einsum("...d,df->...f", x, w_up)
    return torch.einsum("...f,...f,fd->...d", gate, up, w_down)


def swiglu_with_linear_layers(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    return F.linear(F.silu(F.linear(x, w_gate.T)) * F.linear(x, w_up.T), w_down.T)
