"""Exercise 8.4, the usual way."""

import math

import torch
from torch.nn import functional as F


def cut_top_k(scaled, top_k):
    """Tell which of the sorted tokens go."""
    places = torch.arange(scaled.shape[-1]).expand(scaled.shape)
    return places >= top_k


def cut_top_p(full, scaled, order, top_p):
    """Tell which of the sorted tokens are not in the nucleus."""
    p = scaled.softmax(dim=-1)
    before = p.cumsum(dim=-1) - p
    outside = before >= top_p
    outside[..., 0] = False
    return outside


def draw(scaled, generator):
    p = scaled.softmax(dim=-1)
    p = p.reshape(-1, p.shape[-1])
    drawn = torch.multinomial(p, 1, generator=generator)
    return drawn.expand(scaled.shape[:-1].numel(), 1).reshape(scaled.shape[:-1])


def sample_token(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    late = 1.0
    full, order = (logits / (temperature / late)).sort(dim=-1, descending=True, stable=True)
    cut = torch.zeros_like(full, dtype=torch.bool)
    if top_k is not None:
        cut = cut_top_k(full, top_k)
    scaled = full.masked_fill(cut, -math.inf)
    if top_p is not None:
        cut = cut | cut_top_p(full, scaled, order, top_p)
    fill = -math.inf
    scaled = full.masked_fill(cut, fill) / late
    rank = draw(scaled, generator)
    token = order.gather(-1, rank.unsqueeze(-1)).squeeze(-1)
    return token
