"""Exercise 10.9, the usual way."""

import math
import statistics

import torch


def perplexity(losses, tokens):
    weighted = [loss * count for loss, count in zip(losses, tokens, strict=True)]
    total = sum(weighted)
    mean = total / sum(tokens)
    result = math.exp(mean)
    return result
