"""Exercise 7.3, other right ways."""

from __future__ import annotations

from typing import Any

import torch

from lab_transformer.decoder import Decoder

Mask = torch.Tensor | None


class WithAnIndex(Decoder):
    def forward(self, x: Any, memory: Any, mask: Mask = None, memory_mask: Mask = None) -> Any:
        parts = []
        for i in range(len(self.blocks)):
            x, w = self.blocks[i].forward(x, memory, mask=mask, memory_mask=memory_mask)
            parts.append(w.unsqueeze(1))
        return self.norm(x), torch.cat(parts, 1)


class IntoOneTensor(Decoder):
    def forward(self, x: Any, memory: Any, mask: Mask = None, memory_mask: Mask = None) -> Any:
        everything = None
        for i, block in enumerate(self.blocks):
            x, weights = block(x, memory, mask, memory_mask)
            if everything is None:
                batch, *others = weights.shape
                everything = weights.new_zeros(batch, len(self.blocks), *others)
            everything[:, i] = weights
        return self.norm(x), everything


class Recursive(Decoder):
    def forward(self, x: Any, memory: Any, mask: Mask = None, memory_mask: Mask = None) -> Any:
        def go(states: Any, left: list[Any]) -> tuple[Any, list[Any]]:
            if not left:
                return states, []
            states, first = left[0](states, memory, mask, memory_mask)
            states, others = go(states, left[1:])
            return states, [first, *others]

        x, weights = go(x, list(self.blocks))
        return self.norm(x), torch.stack(weights).transpose(0, 1)
