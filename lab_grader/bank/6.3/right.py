"""Exercise 6.3, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F


def softmax_without_nan(scores: Any, mask: Any, dim: int = -1) -> Any:
    return torch.where(mask, scores, float("-inf")).softmax(dim).nan_to_num(0.0)


def softmax_by_exponentials(scores: Any, mask: Any, dim: int = -1) -> Any:
    hidden = scores.masked_fill(~mask, -math.inf)
    top = hidden.amax(dim=dim, keepdim=True).detach()
    raised = (hidden - top.masked_fill(top.isinf(), 0.0)).exp()
    total = raised.sum(dim=dim, keepdim=True)
    return raised / total.masked_fill(total == 0, 1.0)


def softmax_in_double_precision(scores: Any, mask: Any, dim: int = -1) -> Any:
    hidden = scores.double().masked_fill(~mask, -math.inf)
    nothing = ~mask.expand_as(scores).any(dim, True)
    return hidden.masked_fill(nothing, 0.0).softmax(dim).masked_fill(nothing, 0.0).to(scores.dtype)


def softmax_on_an_own_copy(scores: Any, mask: Any, dim: int = -1) -> Any:
    mask = torch.broadcast_to(mask, scores.shape)
    copy = scores.clone()
    copy[~mask] = float("-inf")
    weights = F.softmax(copy, dim=dim)
    return torch.where(weights.isnan(), torch.zeros_like(weights), weights)


def softmax_with_a_bias(scores: Any, mask: Any, dim: int = -1) -> Any:
    """Add to hidden scores, which works because they are finite."""
    mask = mask.expand_as(scores)
    some = mask.any(dim=dim, keepdim=True)
    bias = torch.zeros_like(scores).masked_fill(~mask & some, -math.inf)
    return (scores + bias).softmax(dim=dim).masked_fill(~some, 0.0)


def softmax_by_logsumexp(scores: Any, mask: Any, dim: int = -1) -> Any:
    hidden = scores.masked_fill(~mask, -math.inf)
    total = hidden.logsumexp(dim=dim, keepdim=True)
    return (hidden - total.masked_fill(total.isinf(), 0.0)).exp()
