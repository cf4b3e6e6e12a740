"""Exercise 12.10, the usual way."""

import math

import torch
from torch.nn import functional as F

from lab_transformer import variants as reference
from lab_transformer.attention import merge_heads, split_heads
from lab_transformer.masking import causal_mask
from lab_transformer.positional import rotate
from lab_transformer.variants import grouped_query_attention


class ModernBlock(reference.ModernBlock):
    def places(self, x):
        length = x.shape[-2]
        return torch.arange(length, device=x.device)

    def allowed(self, x, mask):
        causal = causal_mask(x.shape[-2])
        if mask is None:
            return causal
        return causal & mask

    def heads(self, y):
        w_q, w_k, w_v = self.w_q, self.w_k, self.w_v
        many, few = self.n_heads, self.n_kv_heads
        q = split_heads(w_q(y), many)
        k = split_heads(w_k(y), few)
        v = split_heads(w_v(y), few)
        return q, k, v

    def turned(self, q, k, v, positions):
        q = rotate(q, positions)
        k = rotate(k, positions)
        return q, k, v

    def attend(self, y, mask):
        q, k, v = self.heads(y)
        q, k, v = self.turned(q, k, v, self.places(y))
        visible = self.allowed(y, mask)
        found, weights = grouped_query_attention(q, k, v, visible)
        merged = merge_heads(found)
        output = self.w_o(merged)
        return output

    def think(self, y):
        output = self.feed_forward(y)
        return output

    def forward(self, x, mask=None):
        first, second = self.norm_1, self.norm_2
        start = x
        seen = first(start)
        x = start + self.attend(seen, mask)
        middle = x
        seen = second(middle)
        x = middle + self.think(seen)
        return x
