"""Exercise 8.2, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch


def with_a_negative_exponent(score: Any, length: Any, penalty: Any) -> Any:
    return score * ((5 + length) / 6) ** -penalty


def with_two_powers(score: Any, length: Any, penalty: Any) -> Any:
    return score * 6**penalty / (5 + length) ** penalty


def with_logarithms(score: Any, length: Any, penalty: Any) -> Any:
    return score / math.exp(penalty * (math.log(length + 5) - math.log(6)))


def with_tensors(score: Any, length: Any, penalty: Any) -> Any:
    return (score / ((5 + torch.tensor(length, dtype=torch.float64)) / 6) ** penalty).item()
