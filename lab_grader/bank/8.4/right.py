"""Exercise 8.4, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F


def with_gumbel_noise(
    logits: Any, temperature: float = 1.0, top_k: Any = None, top_p: Any = None, generator: Any = None
) -> Any:
    logits = logits.double() / temperature
    if top_k is not None:
        top_k = min(top_k, logits.shape[-1])
        logits = logits.where(logits >= logits.topk(top_k).values[..., -1:], -math.inf)
    if top_p is not None:
        p, order = logits.softmax(dim=-1).sort(dim=-1)
        gone = torch.zeros_like(p, dtype=torch.bool).scatter(-1, order, p.cumsum(dim=-1) <= 1 - top_p)
        gone = gone & (logits < logits.amax(dim=-1, keepdim=True))
        logits = logits.masked_fill(gone, -math.inf)
    noise = torch.rand(logits.shape, generator=generator, dtype=logits.dtype, device=logits.device)
    return (logits - (-noise.log()).log()).argmax(dim=-1)


def with_the_inverse_of_the_sum(
    logits: Any, temperature: float = 1.0, top_k: Any = None, top_p: Any = None, generator: Any = None
) -> Any:
    p, order = F.softmax(logits.double() / temperature, dim=-1).sort(dim=-1, descending=True)
    if top_k is not None:
        p = torch.cat([p[..., :top_k], torch.zeros_like(p[..., top_k:])], dim=-1)
        p = p / p.sum(dim=-1, keepdim=True)
    if top_p is not None:
        total = p.cumsum(dim=-1)
        reached = (total >= top_p - 1e-12).int().argmax(dim=-1, keepdim=True)
        p = p * (torch.arange(p.shape[-1], device=p.device) <= reached)
    total = p.cumsum(dim=-1)
    level = torch.rand(total.shape[:-1], generator=generator, device=p.device).unsqueeze(-1)
    place = (total <= level * total[..., -1:]).sum(dim=-1, keepdim=True)
    return order.gather(-1, place.clamp(max=p.shape[-1] - 1)).squeeze(-1)


def with_a_categorical(
    logits: Any, temperature: float = 1.0, top_k: Any = None, top_p: Any = None, generator: Any = None
) -> Any:
    """Go through the rows one by one where something is to be ruled out."""
    rows = (logits / temperature).reshape(-1, logits.shape[-1]).clone()
    kinds, which = rows.unique(dim=0, return_inverse=True)
    for row in kinds:
        if top_k is not None:
            row[row.argsort(descending=True)[top_k:]] = -math.inf
        if top_p is not None:
            p, total = row.softmax(dim=0), 0.0
            for token in p.argsort(descending=True).tolist():
                if total >= top_p:
                    row[token] = -math.inf
                total += float(p[token])
    drawn = torch.multinomial(kinds.softmax(dim=-1)[which], 1, generator=generator)
    return drawn.reshape(logits.shape[:-1])
