"""Exercise 8.5, the usual way."""

import math

import torch
from torch import Tensor, nn

from lab_transformer import decoding as reference
from lab_transformer.attention import merge_heads, scaled_dot_product_attention, split_heads
from lab_transformer.masking import causal_mask


class CachedAttention(reference.CachedAttention):
    def join(self, k, v):
        store = self
        past = getattr(store, "kept", None)
        if past is not None:
            old_k, old_v = past
            axis = -2
            pairs = [(old_k, k), (old_v, v)]
            k, v = (torch.cat(pair, dim=axis) for pair in pairs)
        store.__dict__["kept"] = k, v
        return k, v

    def allowed(self, new, total, mask):
        full = causal_mask(total)
        return full[-new:]

    def forward(self, query, key, value, mask=None):
        with torch.set_grad_enabled(torch.is_grad_enabled()):
            return self.answer(query, key, value, mask)

    def answer(self, query, key, value, mask):
        inner = self.attention

        def split(x):
            heads = inner.n_heads
            return split_heads(x, heads)

        w_q = inner.w_q
        w_k = inner.w_k
        w_v = inner.w_v
        w_o = inner.w_o
        q, k, v = split(w_q(query)), split(w_k(key)), split(w_v(value))
        k, v = self.join(k, v)
        visible = self.allowed(q.shape[-2], k.shape[-2], mask)
        output, weights = scaled_dot_product_attention(q, k, v, visible)
        output = merge_heads(output)
        output = w_o(output)
        return output, weights
