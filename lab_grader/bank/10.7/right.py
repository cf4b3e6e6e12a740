"""Exercise 10.7, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from lab_transformer.gpt import GPT
from lab_transformer.masking import causal_mask


class TiedTheOtherWay(GPT):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.output.weight = nn.Parameter(self.output.weight.detach().clone())
        self.token_embedding.weight = self.output.weight

    def forward(self, tokens: Any, offset: int = 0) -> Any:
        x = self.token_embedding(tokens)
        x += self.position_embedding.weight[offset : offset + tokens.size(1)]
        return self.output(self.norm(self.blocks(x)))


class SharedInUse(GPT):
    """The output layer's own matrix stays unused: the token embedding is used twice."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.output.weight = nn.Parameter(torch.zeros_like(self.output.weight))

    def forward(self, tokens: Any, offset: int = 0) -> Any:
        table = self.token_embedding.weight
        places = torch.arange(offset, offset + tokens.shape[-1]).to(tokens.device)
        x = F.embedding(tokens, table) + F.embedding(places, self.position_embedding.weight)
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), table)


class WithMaskAndProduct(GPT):
    def forward(self, tokens: Any, offset: int = 0) -> Any:
        batch, seq = tokens.shape
        places = torch.arange(offset, offset + seq, device=tokens.device).repeat(batch, 1)
        x = torch.add(self.position_embedding(places), self.token_embedding(tokens))
        mask = causal_mask(seq).to(tokens.device)
        for block in self.blocks:
            x = block(x, mask)
        return torch.einsum("bsd,vd->bsv", self.norm(x), self.output.weight)


class WithOneHotRows(GPT):
    def forward(self, tokens: Any, offset: int = 0) -> Any:
        table = self.token_embedding.weight
        x = F.one_hot(tokens, len(table)).to(table.dtype) @ table
        x = x + self.position_embedding.weight.narrow(0, offset, tokens.size(1)).unsqueeze(0)
        blocks = nn.Sequential(*self.blocks, self.norm, self.output)
        return blocks(x)


class PlaceByPlace(GPT):
    def forward(self, tokens: Any, offset: int = 0) -> Any:
        columns, rows = [], self.position_embedding.weight
        for place, column in enumerate(tokens.unbind(dim=1)):
            columns.append(self.token_embedding(column) + rows[offset + place])
        states = self.blocks(torch.stack(columns, dim=1))
        return self.norm(states) @ self.output.weight.mT
