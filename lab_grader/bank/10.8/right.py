"""Exercise 10.8, other right ways."""

from __future__ import annotations

import math

import torch


def with_a_loop(losses: list[float], tokens: list[int], n_bytes: int) -> float:
    bits = 0.0
    for i in range(len(losses)):
        bits += losses[i] / math.log(2) * tokens[i]
    return bits / n_bytes


def with_tensors(losses: list[float], tokens: list[int], n_bytes: int) -> float:
    weights = torch.tensor(tokens, dtype=torch.float64)
    nats = torch.tensor(losses, dtype=torch.float64) @ weights
    return (nats / torch.tensor(2.0, dtype=torch.float64).log() / n_bytes).item()


def in_single_precision(losses: list[float], tokens: list[int], n_bytes: int) -> float:
    return float((torch.tensor(losses) * torch.tensor(tokens)).sum() / (math.log(2) * n_bytes))


def by_the_mean(losses: list[float], tokens: list[int], n_bytes: int) -> float:
    everything = sum(tokens)
    mean = math.fsum(loss * n / everything for loss, n in zip(losses, tokens, strict=True))
    return mean * math.log2(math.e) * everything / n_bytes


def token_by_token(losses: list[float], tokens: list[int], n_bytes: int) -> float:
    each = [loss for loss, n in zip(losses, tokens, strict=True) for _ in range(n)]
    return sum(each) / n_bytes / math.log(2)
