"""Exercise 5.6, other right ways."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn import functional as F

from lab_transformer.encoder import EncoderBlock


class InlineBlock(EncoderBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        if self.norm_first:
            y = self.norm_1(x)
            x = x + self.attention(y, y, y, mask)[0]
            return x + self.feed_forward(self.norm_2(x))
        attended, _ = self.attention(query=x, key=x, value=x, mask=mask)
        x = self.norm_1(attended + x)
        return self.norm_2(self.feed_forward(x) + x)


class LoopBlock(EncoderBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        def attend(y: Any) -> Any:
            output, _ = self.attention(y, y, y, mask)
            return output

        for sublayer, norm in ((attend, self.norm_1), (self.feed_forward, self.norm_2)):
            before, after = (norm, nn.Identity()) if self.norm_first else (nn.Identity(), norm)
            x = after(x + sublayer(before(x)))
        return x


class BuiltInAttentionBlock(EncoderBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        def heads(y: Any) -> Any:
            return y.unflatten(-1, (self.attention.n_heads, -1)).transpose(1, 2)

        def attend(y: Any) -> Any:
            q, k, v = (
                heads(w(y)) for w in (self.attention.w_q, self.attention.w_k, self.attention.w_v)
            )
            output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).nan_to_num()
            return self.attention.w_o(output.transpose(1, 2).reshape(y.shape))

        result = x.clone()
        result += attend(self.norm_1(x) if self.norm_first else x)
        x = result if self.norm_first else self.norm_1(result)
        deeper = self.feed_forward.w_1(self.norm_2(x) if self.norm_first else x).relu()
        x = x + self.feed_forward.w_2(deeper)
        return x if self.norm_first else self.norm_2(x)
