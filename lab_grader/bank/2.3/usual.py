"""Exercise 2.3, the usual way."""

import torch
from torch.nn import functional as F


def contextualize(x):
    scores = compare(x)
    weights = weigh(scores)
    values = x
    used = weights
    context = combine(used, scores, values)
    return context, weights


def compare(x):
    scores = x @ x.mT
    return scores


def weigh(scores):
    return scores.softmax(dim=-1)


def combine(weights, scores, x):
    context = weights @ x
    return context
