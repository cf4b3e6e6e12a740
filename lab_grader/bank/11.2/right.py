"""Exercise 11.2, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from lab_transformer.families import MaskedLanguageModel
from lab_transformer.masking import padding_mask


class TiedTheOtherWay(MaskedLanguageModel):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.output.weight = nn.Parameter(torch.randn_like(self.output.weight))
        self.token_embedding.weight = self.output.weight

    def encode(self, tokens: Any, segments: Any = None, mask: Any = None) -> Any:
        visible = tokens.ne(self.pad_id).view(len(tokens), 1, 1, -1)
        if mask is not None:
            visible = torch.logical_and(visible, mask)
        x = self.token_embedding(tokens) + self.position_embedding.weight[: tokens.size(1)]
        if segments is None:
            x = x + self.segment_embedding.weight[0]
        else:
            x = x + self.segment_embedding(segments)
        return self.encoder(self.norm(x), visible)

    def forward(self, tokens: Any, segments: Any = None, mask: Any = None) -> Any:
        states = self.head(self.encode(tokens, segments=segments, mask=mask))
        return torch.einsum("bsd,vd->bsv", states, self.output.weight) + self.output.bias


class SharedInUse(MaskedLanguageModel):
    """The output layer's own matrix stays unused: the token embedding is used twice."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.output.weight = nn.Parameter(torch.zeros_like(self.output.weight))

    def forward(self, tokens: Any, segments: Any = None, mask: Any = None) -> Any:
        states = self.head(self.encode(tokens, segments, mask))
        return F.linear(states, self.token_embedding.weight, self.output.bias)


class BlockByBlock(MaskedLanguageModel):
    """Padding gets zeros in the end, which is nobody's business."""

    def encode(self, tokens: Any, segments: Any = None, mask: Any = None) -> Any:
        batch, length = tokens.shape
        segments = tokens * 0 if segments is None else segments
        places = torch.arange(length, device=tokens.device).expand(batch, length)
        rows = [
            F.embedding(ids, table.weight)
            for ids, table in (
                (tokens, self.token_embedding),
                (places, self.position_embedding),
                (segments, self.segment_embedding),
            )
        ]
        x = self.norm(torch.stack(rows).sum(dim=0))
        visible = padding_mask(tokens, self.pad_id).expand(batch, 1, length, length)
        visible = visible if mask is None else visible.mul(mask)
        for block in self.encoder.blocks:
            x = block(x, visible)
        states = self.encoder.norm(x)
        return states.masked_fill((tokens == self.pad_id).unsqueeze(-1), 0.0)


class OneHot(MaskedLanguageModel):
    def encode(self, tokens: Any, segments: Any = None, mask: Any = None) -> Any:
        table = self.token_embedding.weight
        words = F.one_hot(tokens, len(table)).to(table.dtype) @ table
        kind = torch.zeros_like(tokens) if segments is None else segments
        second = kind.unsqueeze(-1).to(table.dtype)
        zero, one = self.segment_embedding.weight
        words = words + (1 - second) * zero + second * one
        words = words + self.position_embedding(torch.arange(tokens.shape[1]))[None]
        hidden = (tokens == self.pad_id)[:, None, None, :]
        if mask is not None:
            hidden = hidden | ~mask
        return self.encoder(self.norm(words), ~hidden)
