"""Exercise 11.6, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from lab_transformer import families


class EverythingByWeights(families.Classifier):
    """Both ways to pool are weights of the places, which sum to one."""

    def forward(self, tokens: Any, segments: Any = None) -> Any:
        states = self.encoder.encode(tokens, segments)
        weights = torch.zeros_like(tokens, dtype=states.dtype)
        if self.pooling == "mean":
            weights = (tokens != self.encoder.pad_id).to(states.dtype)
            weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1)
        else:
            weights[:, 0] = 1
        return self.output(torch.einsum("bs,bsd->bd", weights, states))


class ClassesFirst(families.Classifier):
    """The layer is linear: the mean of logits is the logit of the mean."""

    def forward(self, tokens: Any, segments: Any = None) -> Any:
        logits = self.output(self.encoder.encode(tokens, segments=segments))
        if self.pooling == "cls":
            return logits.select(1, 0)
        return families.mean_pool(logits, tokens.ne(self.encoder.pad_id))


class TextByText(families.Classifier):
    def forward(self, tokens: Any, segments: Any = None) -> Any:
        states = self.encoder.encode(tokens, segments)
        rows = []
        for text, row in zip(tokens, states, strict=True):
            words = row[text != self.encoder.pad_id] if self.pooling == "mean" else row[:1]
            rows.append(words.mean(dim=0))
        return F.linear(torch.stack(rows), self.output.weight, self.output.bias)
