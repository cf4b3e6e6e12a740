"""Exercise 2.1, the usual way."""

import torch
from torch.nn import functional as F


def similarity_scores(x):
    one, other = x, x
    scores = product(one, other)
    scores = after(scores)
    return scores


def product(x, y):
    return x @ y.mT


def after(scores):
    return scores
