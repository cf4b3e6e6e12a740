"""Exercise 9.3, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch


def with_cases(step: int, d_model: int, warmup: int) -> Any:
    if step < warmup:
        return step / (math.sqrt(d_model) * warmup * math.sqrt(warmup))
    return 1 / math.sqrt(d_model * step)


def from_the_peak(step: int, d_model: int, warmup: int) -> Any:
    peak = (d_model * warmup) ** -0.5
    return peak * min(step / warmup, (warmup / step) ** 0.5)


def with_roots(step: int, d_model: int, warmup: int) -> Any:
    return min(1 / math.sqrt(step), step / warmup / math.sqrt(warmup)) / math.sqrt(d_model)


def with_logarithms(step: int, d_model: int, warmup: int) -> Any:
    logs = min(-math.log(step) / 2, math.log(step) - 1.5 * math.log(warmup))
    return math.exp(logs - math.log(d_model) / 2)


def with_tensors(step: int, d_model: int, warmup: int) -> Any:
    at = torch.tensor(float(step), dtype=torch.float64)
    return (torch.minimum(at**-0.5, at * warmup**-1.5) * d_model**-0.5).item()


def with_pow(step: int, d_model: int, warmup: int) -> Any:
    return math.pow(d_model, -0.5) * min(math.pow(step, -0.5), step * math.pow(warmup, -1.5))


def with_a_maximum(step: int, d_model: int, warmup: int) -> Any:
    return 1 / math.sqrt(d_model) / max(math.sqrt(step), warmup**1.5 / step)
