"""Exercise 3.5, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

from lab_transformer import attention as reference


class WithEinsum(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        q, k, v = (
            layer(x).unflatten(-1, (self.n_heads, -1))
            for layer, x in ((self.w_q, query), (self.w_k, key), (self.w_v, value))
        )
        scores = torch.einsum("...qhd,...khd->...hqk", q, k) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(dim=-1).nan_to_num()
        return self.w_o(torch.einsum("...hqk,...khd->...qhd", weights, v).flatten(-2)), weights


class HeadByHead(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        q, k, v = self.w_q(query), self.w_k(key), self.w_v(value)
        full = (*q.shape[:-2], self.n_heads, q.shape[-2], k.shape[-2])
        allowed = None if mask is None else mask.expand(full)
        width = q.shape[-1] // self.n_heads
        found = []
        for head in range(self.n_heads):
            part = slice(head * width, (head + 1) * width)
            own = None if allowed is None else allowed[..., head, :, :]
            views = q[..., part], k[..., part], v[..., part]
            found.append(reference.scaled_dot_product_attention(*views, own))
        output = torch.cat([output for output, _ in found], dim=-1)
        return self.w_o(output), torch.stack([weights for _, weights in found], dim=-3)


class WithTheBuiltIn(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        q = reference.split_heads(self.w_q(query), self.n_heads)
        k = reference.split_heads(self.w_k(key), self.n_heads)
        v = reference.split_heads(self.w_v(value), self.n_heads)
        one = torch.eye(k.shape[-2], dtype=k.dtype, device=k.device).expand(*k.shape[:-1], -1)
        both = F.scaled_dot_product_attention(q, k, torch.cat([v, one], dim=-1), attn_mask=mask)
        if mask is not None:
            both = both.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
        output, weights = both[..., : v.shape[-1]], both[..., v.shape[-1] :]
        return self.w_o(reference.merge_heads(output)), weights


class WithFunctionalLayersInDouble(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        def linear(layer: Any, x: Any) -> Any:
            return x.double() @ layer.weight.double().mT + layer.bias.double()

        q = reference.split_heads(linear(self.w_q, query), self.n_heads)
        k = reference.split_heads(linear(self.w_k, key), self.n_heads)
        v = reference.split_heads(linear(self.w_v, value), self.n_heads)
        output, weights = reference.scaled_dot_product_attention(q, k, v, mask)
        output = linear(self.w_o, reference.merge_heads(output))
        return output.to(query.dtype), weights.to(query.dtype)
