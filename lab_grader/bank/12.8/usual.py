"""Exercise 12.8, the usual way."""

import torch
from torch.nn import functional as F


def shares(experts, count, probabilities):
    chosen = F.one_hot(experts, count).to(probabilities.dtype)
    rows = chosen.reshape(-1, count)
    return rows.mean(dim=0)


def means(probabilities, count):
    rows = probabilities.reshape(-1, count)
    return rows.mean(dim=0)


def balance_loss(probabilities, experts):
    count = probabilities.shape[-1]
    share = shares(experts, count, probabilities)
    mean = means(probabilities, count)
    products = share * mean
    loss = products.sum()
    loss = loss * count
    return loss
