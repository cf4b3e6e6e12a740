"""Exercise 5.1, the usual way."""

import math

import torch
from torch.nn import functional as F


def float32(*tensors):
    return tensors


def spread(squares, variance, count, axes):
    """Give the variance; the squares hold zero where nothing counts."""
    return variance


def finish(x, centred, variance, gain, bias, eps):
    """Divide, scale and shift."""
    divisor = (variance + eps).sqrt()
    result = centred / divisor
    result = result * gain + bias
    return result


def layer_norm(x, gain, bias, eps=1e-5):
    x, gain, bias = float32(x, gain, bias)
    axes = (-1,)
    mean = x.mean(dim=axes, keepdim=True)
    centred = x - mean
    squares = centred.square()
    count = x.numel() // mean.numel()
    variance = squares.mean(dim=axes, keepdim=True)
    variance = spread(squares, variance, count, axes)
    result = finish(x, centred, variance, gain, bias, eps)
    return result
