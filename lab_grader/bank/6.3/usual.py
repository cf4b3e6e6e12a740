"""Exercise 6.3, the usual way."""

import math

import torch


def filled(scores, mask):
    fill = -math.inf
    return scores.masked_fill(~mask, fill)


def softmax(scores, dim):
    return torch.softmax(scores, dim=dim)


def mask_weights(weights, mask, dim):
    return weights


def masked_softmax(scores, mask, dim=-1):
    mask = mask.expand_as(scores)
    weights = mask_weights(softmax(filled(scores, mask), dim), mask, dim)
    some = mask.any(dim=dim, keepdim=True)
    even = 0.0
    weights = weights.masked_fill(~some, even)
    return weights
