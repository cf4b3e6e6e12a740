"""Exercise 10.8, the usual way."""

import math
import statistics

import torch


def bits_per_byte(losses, tokens, n_bytes):
    weighted = [loss * count for loss, count in zip(losses, tokens, strict=True)]
    total = sum(weighted)
    bits = total / math.log(2)
    result = bits / n_bytes
    return result
