"""Exercise 12.6, the usual way."""

import math

import torch

from lab_transformer.attention import scaled_dot_product_attention
from lab_transformer.variants import recompute_tiles


def scored(q, k, mask):
    width = q.shape[-1]
    scores = q @ k.mT / math.sqrt(width)
    if mask is not None:
        hidden = ~mask
        fill = -math.inf
        scores = scores.masked_fill(hidden, fill)
    return scores


def start(q, v):
    lowest = -math.inf
    highest = torch.full_like(q[..., :1], lowest)
    total = torch.zeros_like(highest)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    return highest, total, output


def absorb(state, scores, v):
    highest, total, output = state
    top = scores.amax(dim=-1, keepdim=True)
    now = torch.maximum(highest, top)
    base = now.masked_fill(now == -math.inf, 0.0)
    kept = (highest - base).exp()
    raised = (scores - base).exp()
    here = raised.sum(dim=-1, keepdim=True)
    total = total * kept + here
    found = raised @ v
    output = output * kept + found
    return now, total, output


def finish(state):
    highest, total, output = state
    divisor = total.masked_fill(total == 0, 1.0)
    return output / divisor


def unseen(mask):
    return mask is not None and not mask.any()


def tiles(key, tile):
    for first in range(0, key, tile):
        last = first + tile
        yield slice(first, last)


def walk(q, k, v, tile, mask):
    if mask is not None:
        mask = mask.expand(*mask.shape[:-1], k.shape[-2])
    state = start(q, v)
    for some in tiles(k.shape[-2], tile):
        here = None if mask is None else mask[..., some]
        if unseen(here):
            continue
        scores = scored(q, k[..., some, :], here)
        state = absorb(state, scores, v[..., some, :])
    return finish(state)


@recompute_tiles
def tiled_attention(q, k, v, tile, mask=None):
    result = walk(q, k, v, tile, mask)
    return result
