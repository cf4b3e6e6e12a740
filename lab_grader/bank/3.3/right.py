"""Exercise 3.3, other right ways."""

from __future__ import annotations

from typing import Any

import torch


def with_chunks(x: Any, n_heads: int) -> Any:
    return torch.stack(x.chunk(n_heads, dim=-1), dim=-3)


def head_by_head(x: Any, n_heads: int) -> Any:
    *leading, seq, d_model = x.shape
    width = d_model // n_heads
    heads = x.new_zeros(*leading, n_heads, seq, width)
    for head in range(n_heads):
        heads[..., head, :, :] = x[..., head * width : (head + 1) * width]
    return heads


def with_a_view_and_movedim(x: Any, n_heads: int) -> Any:
    return x.view(*x.shape[:-1], n_heads, x.shape[-1] // n_heads).movedim(-2, -3).contiguous()


def with_a_product(x: Any, n_heads: int) -> Any:
    width = x.shape[-1] // n_heads
    pick = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device).reshape(-1, n_heads, width)
    return torch.einsum("...sm,mhd->...hsd", x, pick)
