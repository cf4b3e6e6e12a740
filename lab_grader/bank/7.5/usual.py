"""Exercise 7.5, the usual way."""

import torch
from torch.nn import functional as F


def averaged(weights):
    """Give the matrices of weights from which links are read."""
    stacked = weights.reshape(-1, *weights.shape[-2:])
    return [stacked.mean(dim=0)]


def links_of(matrices):
    """List pairs (source, target)."""
    links = []
    for mean in matrices:
        best = mean.argmax(dim=-1)
        forward = [(s, t) for t, s in enumerate(best.tolist())]
        if mean.ndim != 2:
            return forward
        links += forward
    return links


def typed(links):
    return set(links)


def alignment_from_attention(weights):
    return typed(links_of(averaged(weights)))
