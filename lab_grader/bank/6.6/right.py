"""Exercise 6.6, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from lab_transformer.decoder import CausalBlock
from lab_transformer.masking import causal_mask as causal
from lab_transformer.normalization import post_norm, pre_norm


class CausalBlockByHand(CausalBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        length = x.size(1)
        allowed = torch.tril(torch.ones(length, length, dtype=torch.bool, device=x.device))[None, None]
        if mask is not None:
            allowed = torch.logical_and(allowed, mask)
        if self.norm_first:
            y = self.norm_1(x)
            x = x + self.attention(y, y, y, mask=allowed)[0]
            return x + self.feed_forward(self.norm_2(x))
        x = self.norm_1(x + self.attention(x, x, x, allowed)[0])
        return self.norm_2(x + self.feed_forward(x))


class CausalBlockByBuiltIn(CausalBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        def attend(y: Any) -> Any:
            attention = self.attention
            q, k, v = (
                w(y).unflatten(-1, (attention.n_heads, -1)).transpose(1, 2)
                for w in (attention.w_q, attention.w_k, attention.w_v)
            )
            allowed = causal(y.shape[1]).to(y.device) * (True if mask is None else mask)
            output = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
            return attention.w_o(output.transpose(1, 2).flatten(2))

        residual = pre_norm if self.norm_first else post_norm
        return residual(residual(x, attend, self.norm_1), self.feed_forward, self.norm_2)


class CausalBlockWordByWord(CausalBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        batch, length, _ = x.shape
        square = torch.ones(length, length, dtype=torch.bool) if mask is None else mask
        square = square.expand(batch, self.attention.n_heads, length, length)
        y = self.norm_1(x) if self.norm_first else x
        seen = [
            self.attention(
                y[:, t : t + 1], y[:, : t + 1], y[:, : t + 1], square[:, :, t : t + 1, : t + 1]
            )[0]
            for t in range(length)
        ]
        x = x + torch.cat(seen, dim=1)
        if self.norm_first:
            return x + self.feed_forward(self.norm_2(x))
        x = self.norm_1(x)
        return self.norm_2(x + self.feed_forward(x))
