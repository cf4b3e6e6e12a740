"""Exercise 7.2, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from lab_transformer.attention import merge_heads, split_heads
from lab_transformer.decoder import DecoderBlock
from lab_transformer.masking import causal_mask
from lab_transformer.normalization import post_norm, pre_norm

Mask = torch.Tensor | None


class WrittenOut(DecoderBlock):
    def forward(self, x: Any, memory: Any, mask: Mask = None, memory_mask: Mask = None) -> Any:
        length = x.size(1)
        allowed = ~torch.triu(torch.ones(length, length, device=x.device), diagonal=1).bool()
        if mask is not None:
            allowed = torch.logical_and(allowed, mask)
        if self.norm_first:
            y = self.norm_1(x)
            x = x + self.attention(y, y, y, allowed)[0]
            output, weights = self.cross_attention(self.norm_2(x), memory, memory, memory_mask)
            x = x + output
            return x + self.feed_forward(self.norm_3(x)), weights
        x = self.norm_1(x + self.attention(x, x, x, allowed)[0])
        output, weights = self.cross_attention(x, memory, memory, memory_mask)
        x = self.norm_2(x + output)
        return self.norm_3(x + self.feed_forward(x)), weights


class WithBuiltIns(DecoderBlock):
    def forward(self, x: Any, memory: Any, mask: Mask = None, memory_mask: Mask = None) -> Any:
        kept: list[Any] = []

        def attend(y: Any) -> Any:
            q, k, v = (
                split_heads(w(y), self.attention.n_heads)
                for w in (self.attention.w_q, self.attention.w_k, self.attention.w_v)
            )
            causal = causal_mask(y.shape[-2]).to(y.device)
            allowed = causal if mask is None else causal * mask
            found = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed).nan_to_num()
            return self.attention.w_o(merge_heads(found))

        def look(y: Any) -> Any:
            kept.extend(self.cross_attention(y, memory, memory, memory_mask))
            return kept[0]

        def think(y: Any) -> Any:
            layer = self.feed_forward
            return layer.w_2(F.relu(layer.w_1(y)))

        around = (post_norm, pre_norm)[self.norm_first]
        for sublayer, norm in ((attend, self.norm_1), (look, self.norm_2), (think, self.norm_3)):
            x = around(x, sublayer, norm)
        return x, kept[1]


class WordByWord(DecoderBlock):
    def forward(self, x: Any, memory: Any, mask: Mask = None, memory_mask: Mask = None) -> Any:
        def attend(y: Any) -> Any:
            outputs = []
            for t in range(y.shape[1]):
                seen = y[:, : t + 1]
                hidden = mask
                if mask is not None:
                    hidden = mask.expand(-1, -1, y.shape[1], -1)[..., t : t + 1, : t + 1]
                outputs.append(self.attention(y[:, t : t + 1], seen, seen, hidden)[0])
            return torch.cat(outputs, dim=1)

        before = self.norm_1(x) if self.norm_first else x
        x = x + attend(before)
        x = x if self.norm_first else self.norm_1(x)
        before = self.norm_2(x) if self.norm_first else x
        found, weights = self.cross_attention(before, memory, memory, memory_mask)
        x = found.add_(x) if self.norm_first else self.norm_2(x + found)
        before = self.norm_3(x) if self.norm_first else x
        x = x + self.feed_forward(before)
        return (x if self.norm_first else self.norm_3(x)), weights
