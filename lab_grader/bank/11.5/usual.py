"""Exercise 11.5, the usual way."""

import torch


def mean_pool(states, mask):
    real = mask
    weights = real.unsqueeze(-1)
    words = states.where(weights, 0.0)
    total = words.sum(dim=1)
    count = real.sum(dim=1)
    count = count.clamp(min=1)
    count = count.unsqueeze(-1)
    return total / count
