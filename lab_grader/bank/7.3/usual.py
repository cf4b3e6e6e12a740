"""Exercise 7.3, the usual way."""

import torch
from torch import nn
from torch.nn import functional as F

from lab_transformer import decoder as reference


class Decoder(reference.Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        collected = []
        passed = []
        for block in self.layers():
            given = x
            x, weights = block(given, memory, mask, memory_mask)
            collected.append(weights)
            passed.append(x)
        x = self.norm(x)
        stacked = self.stack(collected)
        return x, stacked

    def layers(self):
        blocks = list(self.blocks)
        return blocks

    def stack(self, collected):
        return torch.stack(collected, dim=1)
