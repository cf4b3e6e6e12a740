"""Exercise 12.10, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

from lab_transformer.attention import merge_heads, split_heads
from lab_transformer.masking import causal_mask, masked_softmax
from lab_transformer.normalization import pre_norm
from lab_transformer.positional import rotate
from lab_transformer.variants import ModernBlock, grouped_query_attention


class WithPreNorm(ModernBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        def attend(y: Any) -> Any:
            places = torch.arange(y.shape[1])
            q = rotate(split_heads(self.w_q(y), self.n_heads), places)
            k, v = (split_heads(w(y), self.n_kv_heads) for w in (self.w_k, self.w_v))
            visible = causal_mask(y.shape[1])
            visible = visible if mask is None else torch.logical_and(visible, mask)
            return self.w_o(merge_heads(grouped_query_attention(q, rotate(k, places), v, visible)[0]))

        x = pre_norm(x, attend, self.norm_1)
        return pre_norm(x, self.feed_forward, self.norm_2)


class WithTheBuiltInAttention(ModernBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        y = self.norm_1(x)
        places = torch.arange(x.size(1), device=x.device)
        shape = (*x.shape[:2], -1, x.shape[-1] // self.n_heads)
        q, k, v = (w(y).view(shape).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        visible = causal_mask(x.size(1))
        if mask is not None:
            visible = visible & mask
        found = F.scaled_dot_product_attention(
            rotate(q, places), rotate(k, places), v, attn_mask=visible, enable_gqa=True
        )
        empty = ~visible.any(dim=-1, keepdim=True)
        found = found.nan_to_num().masked_fill(empty, 0.0)
        x = x + self.w_o(found.transpose(1, 2).reshape(y.shape))
        return x + self.feed_forward(self.norm_2(x))


class WithPositionsFromOne(ModernBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        length = x.shape[1]
        y = self.norm_1(x)
        q, k, v = self.w_q(y), self.w_k(y), self.w_v(y)
        q = split_heads(q, self.n_heads)
        k, v = split_heads(k, self.n_kv_heads), split_heads(v, self.n_kv_heads)
        places = torch.arange(1, length + 1)  # only differences of positions are seen
        times = self.n_heads // self.n_kv_heads
        k = rotate(k, places).repeat_interleave(times, 1)
        scores = rotate(q, places) @ k.mT / math.sqrt(k.shape[-1])
        visible = causal_mask(length) if mask is None else causal_mask(length) & mask
        found = masked_softmax(scores, visible) @ v.repeat_interleave(times, 1)
        middle = self.w_o(merge_heads(found)) + x
        return self.feed_forward(self.norm_2(middle)) + middle


class HeadByHead(ModernBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        y, length, width = self.norm_1(x), x.shape[1], x.shape[2] // self.n_heads
        places = torch.arange(length)
        q, k, v = (w(y).split(width, dim=-1) for w in (self.w_q, self.w_k, self.w_v))
        visible = causal_mask(length)[None, None]
        visible = (visible if mask is None else visible & mask).expand(len(x), self.n_heads, -1, -1)
        found = []
        for head in range(self.n_heads):
            shared = head * self.n_kv_heads // self.n_heads
            scores = rotate(q[head], places) @ rotate(k[shared], places).mT / width**0.5
            found.append(masked_softmax(scores, visible[:, head]) @ v[shared])
        x = x + self.w_o(torch.cat(found, dim=-1))
        return torch.add(x, self.feed_forward(self.norm_2(x)))
