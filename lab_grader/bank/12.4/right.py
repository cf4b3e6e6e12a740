"""Exercise 12.4, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch

from lab_transformer.attention import scaled_dot_product_attention


def grouped_by_an_axis_for_groups(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    groups = k.shape[-3]
    if mask is not None:
        mask = mask.expand(*q.shape[:-1], k.shape[-2]).unflatten(-3, (groups, -1))
    output, weights = scaled_dot_product_attention(
        q.unflatten(-3, (groups, -1)), k.unsqueeze(-3), v.unsqueeze(-3), mask
    )
    return output.flatten(-4, -3), weights.flatten(-4, -3)


def grouped_by_expanding(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    def shared(x: Any) -> Any:
        kv_heads, length, width = x.shape[-3:]
        times = q.shape[-3] // kv_heads
        wide = x[..., None, :, :].expand(*x.shape[:-2], times, length, width)
        return wide.reshape(*x.shape[:-3], kv_heads * times, length, width)

    return scaled_dot_product_attention(q, shared(k), shared(v), mask)


def grouped_by_an_index(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    owner = torch.arange(q.shape[-3], device=q.device) // (q.shape[-3] // k.shape[-3])
    k, v = k[..., owner, :, :], v[..., owner, :, :]
    return scaled_dot_product_attention(q=q, k=k, v=v, mask=mask)


def grouped_head_by_head(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    times = q.shape[-3] // k.shape[-3]
    outputs, weights = [], []
    for head in range(q.shape[-3]):
        mine = mask
        if mask is not None and mask.ndim > 2:
            mine = mask[..., head if mask.shape[-3] > 1 else 0, :, :]
        pair = k[..., head // times, :, :], v[..., head // times, :, :]
        output, weight = scaled_dot_product_attention(q[..., head, :, :], *pair, mine)
        outputs.append(output)
        weights.append(weight)
    return torch.stack(outputs, dim=-3), torch.stack(weights, dim=-3)


def grouped_by_einsum(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    times = q.shape[-3] // k.shape[-3]
    k, v = (torch.repeat_interleave(x, times, dim=x.ndim - 3) for x in (k, v))
    scores = torch.einsum("...qd,...kd->...qk", q, k) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = torch.where(mask, scores, scores.new_tensor(-math.inf))
        scores = torch.where(mask.any(-1, keepdim=True), scores, torch.zeros_like(scores))
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights * mask
    return torch.einsum("...qk,...kv->...qv", weights, v), weights
