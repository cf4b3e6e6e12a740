"""Exercise 10.9, other right ways."""

from __future__ import annotations

import math

import torch


def with_a_loop(losses: list[float], tokens: list[int]) -> float:
    nats = seen = 0.0
    for loss, count in zip(losses, tokens, strict=True):
        nats += loss * count
        seen += count
    return math.e ** (nats / seen)


def with_tensors(losses: list[float], tokens: list[int]) -> float:
    weights = torch.tensor(tokens, dtype=torch.float64)
    mean = torch.tensor(losses, dtype=torch.float64) @ (weights / weights.sum())
    return mean.exp().item()


def in_single_precision(losses: list[float], tokens: list[int]) -> float:
    counts = torch.tensor(tokens)
    return float(torch.exp((torch.tensor(losses) * counts).sum() / counts.sum()))


def in_bits(losses: list[float], tokens: list[int]) -> float:
    bits = math.fsum(loss * n / math.log(2) for loss, n in zip(losses, tokens, strict=True))
    return float(2 ** (bits / sum(tokens)))


def as_a_geometric_mean(losses: list[float], tokens: list[int]) -> float:
    everything = sum(tokens)
    factors = [math.exp(loss) ** (n / everything) for loss, n in zip(losses, tokens, strict=True)]
    return math.prod(factors)
