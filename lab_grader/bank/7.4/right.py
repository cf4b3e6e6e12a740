"""Exercise 7.4, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from lab_transformer.masking import causal_mask, padding_mask
from lab_transformer.positional import add_positions
from lab_transformer.transformer import Transformer

Mask = torch.Tensor | None


class TiedTheOtherWay(Transformer):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.target_embedding.weight = self.output.weight

    def encode(self, source: Any) -> Any:
        mask = source.ne(self.pad_id).unsqueeze(1).unsqueeze(1)
        scale = self.source_embedding.embedding_dim**0.5
        x = self.source_embedding(source) * scale + self.positions[: source.size(1)]
        return self.encoder(x, mask), mask

    def decode(self, target: Any, memory: Any, memory_mask: Mask = None, offset: int = 0) -> Any:
        length = target.size(1)
        place = torch.arange(offset, offset + length, device=target.device)
        table = self.target_embedding.weight
        x = F.embedding(target, table) * table.shape[1] ** 0.5 + self.positions[place]
        mask = (target != self.pad_id).view(-1, 1, 1, length)
        states, weights = self.decoder(x, memory, mask=mask, memory_mask=memory_mask)
        return torch.einsum("bqd,vd->bqv", states, self.output.weight), weights


class SharedInUse(Transformer):
    """The output layer's own matrix stays unused: the target embedding is used twice."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.output.weight = nn.Parameter(torch.zeros_like(self.output.weight))

    def decode(self, target: Any, memory: Any, memory_mask: Mask = None, offset: int = 0) -> Any:
        hidden = padding_mask(target, self.pad_id)
        x = add_positions(self.target_embedding(target), self.positions[offset:])
        states, weights = self.decoder(x, memory, hidden, memory_mask)
        return F.linear(states, self.target_embedding.weight), weights


class CausalMaskTwice(Transformer):
    def decode(self, target: Any, memory: Any, memory_mask: Mask = None, offset: int = 0) -> Any:
        length = target.shape[1]
        mask = padding_mask(target, self.pad_id) & causal_mask(length).to(target.device)
        x = self.target_embedding(target).mul(math.sqrt(memory.shape[-1]))
        x += self.positions[offset : offset + length]
        states, weights = self.decoder(x, memory, mask, memory_mask)
        return states @ self.target_embedding.weight.T, weights
