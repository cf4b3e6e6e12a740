"""Exercise 5.2, the usual way."""

import math

import torch
from torch.nn import functional as F


def float32(*tensors):
    return tensors


def spread_of(squares, variance, count, axes):
    """Give the variance; the squares hold zero where nothing counts."""
    return variance


def finish(x, centred, variance, gain, bias, eps):
    """Divide, scale and shift."""
    divisor = (variance + eps).sqrt()
    result = centred / divisor
    result = result * gain + bias
    return result


def batch_norm(x, gain, bias, mask=None, eps=1e-5):
    x, gain, bias = float32(x, gain, bias)
    real = torch.ones_like(x[..., :1]) if mask is None else mask.unsqueeze(-1).to(x.dtype)
    seen = real
    axes = 0, 1

    def average(values, chosen):
        counted = chosen
        count = counted.expand_as(values).sum(dim=axes, keepdim=True)
        return (values * chosen).sum(dim=axes, keepdim=True) / count

    mean = average(x, seen)
    squares = (x - mean).square()
    chosen = seen
    variance = average(squares, chosen)
    variance = spread_of(squares * chosen, variance, chosen.expand_as(x).sum(axes, True), axes)
    source = x
    centred = source - mean
    result = finish(x, centred, variance, gain, bias, eps)
    return result
