"""Exercise 10.11, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from lab_transformer.lora import LoRALinear


class _Scaffold(nn.Module):
    """What stands around the solution."""

    def __init__(self, base: Any, rank: int, alpha: float) -> None:
        super().__init__()
        self.base, self.rank, self.alpha = base, rank, alpha
        d_out, d_in = base.weight.shape
        self.down = nn.Parameter(base.weight.new_empty(d_in, rank))
        self.up = nn.Parameter(base.weight.new_empty(rank, d_out))


class WithNewParameters(_Scaffold):
    def __init__(self, base: Any, rank: int, alpha: float, generator: Any) -> None:
        super().__init__(base, rank, alpha)
        for parameter in self.base.parameters():
            parameter.requires_grad = False
        d_out, d_in = base.weight.shape
        like: Any = {"dtype": base.weight.dtype, "device": base.weight.device}
        self.down = nn.Parameter(torch.randn(d_in, rank, generator=generator, **like) / d_in**0.5)
        self.up = nn.Parameter(torch.zeros(rank, d_out, **like))
        self.scaling = alpha / rank

    def forward(self, x: Any) -> Any:
        return self.base(x) + (x @ self.down) @ self.up * self.scaling

    def merged_weight(self) -> Any:
        return self.base.weight + self.scaling * (self.down @ self.up).T


class ThroughTheMergedWeight(_Scaffold):
    def __init__(self, base: Any, rank: int, alpha: float, generator: Any) -> None:
        super().__init__(base, rank, alpha)
        self.base.weight.requires_grad_(False)
        if self.base.bias is not None:
            self.base.bias.requires_grad_(False)
        with torch.no_grad():
            self.down.normal_(0.0, 1 / math.sqrt(self.down.shape[0]), generator=generator)
            self.up.zero_()

    def forward(self, x: Any) -> Any:
        return F.linear(x, self.merged_weight(), self.base.bias)

    def merged_weight(self) -> Any:
        product = torch.einsum("ir,ro->oi", self.down, self.up)
        return torch.add(self.base.weight, product, alpha=self.alpha / self.rank)


class WithLinears(LoRALinear):
    def forward(self, x: Any) -> Any:
        narrow = F.linear(x, self.down.mT)
        return self.base(x).add(F.linear(narrow, self.up.mT).mul(self.alpha).div(self.rank))

    def merged_weight(self) -> Any:
        weight = self.base.weight.clone()
        weight += self.up.mT @ self.down.mT * self.alpha / self.rank
        return weight


class NumbersAssigned(_Scaffold):
    def __init__(self, base: Any, rank: int, alpha: float, generator: Any) -> None:
        super().__init__(base, rank, alpha)
        self.base.requires_grad_(requires_grad=False)
        width = self.down.shape[0]
        mean = torch.zeros_like(self.down)
        self.down.data = torch.normal(mean, width**-0.5, generator=generator)
        self.up.data.fill_(0)

    def forward(self, x: Any) -> Any:
        scaled = x * (self.alpha / self.rank)
        learned = torch.matmul(torch.matmul(scaled, self.down), self.up)
        return learned + self.base(x)

    def merged_weight(self) -> Any:
        # What the layer does to each unit vector, without the bias.
        units = torch.eye(self.down.shape[0], dtype=self.down.dtype, device=self.down.device)
        outputs = F.linear(units, self.base.weight)
        return (outputs + units @ self.down @ self.up * self.alpha / self.rank).T
