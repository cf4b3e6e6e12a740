"""Exercise 11.5, other right ways."""

from __future__ import annotations

from typing import Any

import torch


def pool_in_a_loop(states: Any, mask: Any) -> Any:
    pooled = []
    for row, seen in zip(states, mask, strict=True):
        words = row[seen]
        pooled.append(words.mean(dim=0) if len(words) else words.sum(dim=0))
    return torch.stack(pooled)


def pool_by_product(states: Any, mask: Any) -> Any:
    """A mean is a weighted sum: one row of weights for each text."""
    weights = mask.to(states.dtype)
    weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1.0)
    return (weights.unsqueeze(1) @ states).squeeze(1)


def pool_by_einsum(states: Any, mask: Any) -> Any:
    total = torch.einsum("bsd,bs->bd", states, mask.to(states.dtype))
    count = torch.einsum("bs->b", mask.to(states.dtype))
    return total / torch.maximum(count, torch.ones_like(count))[:, None]


def pool_by_multiplying(states: Any, mask: Any) -> Any:
    kept = states * mask[..., None]
    share = mask.double().mean(dim=1, keepdim=True).clamp(min=1e-9).to(states.dtype)
    return kept.mean(dim=1) / share


def pool_by_nanmean(states: Any, mask: Any) -> Any:
    pooled = states.masked_fill(~mask[..., None], torch.nan).nanmean(dim=1)
    empty = states.new_zeros(states.shape[0], states.shape[2])
    return torch.where(mask.any(dim=1, keepdim=True), pooled, empty)


def pool_by_attention(states: Any, mask: Any) -> Any:
    """Equal scores, hidden where there is no word: softmax gives the mean."""
    scores = torch.zeros_like(mask, dtype=states.dtype).masked_fill(~mask, -torch.inf)
    weights = scores.softmax(dim=-1).masked_fill(~mask, 0.0)
    return torch.bmm(weights[:, None], states)[:, 0]
