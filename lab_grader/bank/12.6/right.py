"""Exercise 12.6, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from lab_transformer.variants import recompute_tiles


@recompute_tiles
def tiled_in_place(q: Any, k: Any, v: Any, tile: int, mask: Any = None) -> Any:
    rows = q.shape[:-1]
    highest, total = q.new_full(rows, -math.inf), q.new_zeros(rows)
    output = v.new_zeros(*rows, v.shape[-1])
    mask = None if mask is None else mask.expand(*mask.shape[:-1], k.shape[-2])
    for first in range(0, k.shape[-2], tile):
        scores = torch.einsum("...qd,...kd->...qk", q, k[..., first : first + tile, :])
        scores /= q.shape[-1] ** 0.5
        if mask is not None:
            here = mask[..., first : first + tile]
            if not bool(here.any()):
                continue
            scores = torch.where(here, scores, scores.new_tensor(-math.inf))
        now = torch.maximum(highest, scores.max(dim=-1).values)
        base = now.nan_to_num(neginf=0.0)
        raised = torch.exp(scores - base[..., None])
        kept = torch.exp(highest - base)
        total.mul_(kept).add_(raised.sum(-1))
        output.mul_(kept[..., None]).add_(raised @ v[..., first : first + tile, :])
        highest = now
    return torch.where(total[..., None] > 0, output / total[..., None], torch.zeros_like(output))


@recompute_tiles
def tiled_with_the_logarithm_of_the_sum(q: Any, k: Any, v: Any, tile: int, mask: Any = None) -> Any:
    log_sum = torch.full_like(q[..., :1], -math.inf)
    output = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype, device=q.device)
    keys, values = k.split(tile, dim=-2), v.split(tile, dim=-2)
    masks = [None] * len(keys)
    if mask is not None:
        masks = mask.broadcast_to(*mask.shape[:-1], k.shape[-2]).split(tile, dim=-1)
    for some_keys, some_values, some_mask in zip(keys, values, masks, strict=True):
        scores = q @ some_keys.transpose(-2, -1) * q.size(-1) ** -0.5
        if some_mask is not None:
            if some_mask.sum() == 0:
                continue
            scores = scores.masked_fill(some_mask.logical_not(), -math.inf)
        here = scores.logsumexp(dim=-1, keepdim=True)
        both = torch.logaddexp(log_sum, here)
        safe = both.masked_fill(both.isneginf(), 0.0)
        output = output * (log_sum - safe).exp() + (scores - safe).exp() @ some_values
        log_sum = both
    return output


def tiled_with_plain_autograd(q: Any, k: Any, v: Any, tile: int, mask: Any = None) -> Any:
    top = torch.full_like(q[..., 0], -math.inf)
    state = [top, torch.zeros_like(top), q.new_zeros(*q.shape[:-1], v.shape[-1])]
    for number in range(math.ceil(k.shape[-2] / tile)):
        some = slice(number * tile, min((number + 1) * tile, k.shape[-2]))
        here = None if mask is None or mask.shape[-1] == 1 else mask[..., some]
        here = mask if mask is not None and mask.shape[-1] == 1 else here
        if here is not None and not here.any():
            continue
        state = checkpoint(
            _absorb, *state, q, k[..., some, :], v[..., some, :], here, use_reentrant=False
        )
    return state[2] / state[1].clamp(min=torch.finfo(q.dtype).tiny).unsqueeze(-1)


def _absorb(top: Any, total: Any, output: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = q.div(math.sqrt(q.shape[-1])).matmul(k.mT)
    seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    scores = scores.masked_fill(~seen, -math.inf)
    now = torch.maximum(top, scores.amax(dim=-1)).detach()
    base = now.masked_fill(now == -math.inf, 0.0)
    kept = (top - base).exp().masked_fill(top == -math.inf, 0.0)
    raised = (scores - base.unsqueeze(-1)).exp().masked_fill(~seen, 0.0)
    total = total * kept + raised.sum(dim=-1)
    return now, total, output * kept.unsqueeze(-1) + raised @ v


@recompute_tiles
def tiled_query_by_query(q: Any, k: Any, v: Any, tile: int, mask: Any = None) -> Any:
    length, width = k.shape[-2], q.shape[-1]
    flat_q, flat_k, flat_v = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
    whole = torch.ones(1, dtype=torch.bool) if mask is None else mask
    whole = whole.expand(*q.shape[:-1], length).reshape(len(flat_q), -1, length)
    output = torch.zeros(len(flat_q), q.shape[-2], v.shape[-1], dtype=v.dtype)
    for number, (queries, keys, values) in enumerate(zip(flat_q, flat_k, flat_v, strict=True)):
        for row, query in enumerate(queries):
            highest, total, summed = -math.inf, 0.0, torch.zeros_like(values[0])
            for first in range(0, length, tile):
                seen = whole[number, row, first : first + tile]
                if not seen.any():
                    continue
                scores = (keys[first : first + tile] @ query / math.sqrt(width))[seen]
                now = max(highest, float(scores.max()))
                raised = (scores - now).exp()
                total = total * math.exp(highest - now) + float(raised.sum())
                visible = values[first : first + tile][seen]
                summed = summed * math.exp(highest - now) + raised @ visible
                highest = now
            output[number, row] = summed / total if total else summed
    return output.reshape(*q.shape[:-1], v.shape[-1])
