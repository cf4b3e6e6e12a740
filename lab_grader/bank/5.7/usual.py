"""Exercise 5.7, the usual way."""

import torch
from torch import nn
from torch.nn import functional as F

from lab_transformer import encoder as reference


def masked(mask, x):
    """Give the mask that attention is to use."""
    if mask is None:
        return None
    return mask


class Encoder(reference.Encoder):
    def forward(self, x, mask=None):
        mask = masked(mask, x)
        blocks, results = list(self.blocks), []
        for i, block in enumerate(blocks):
            y = x
            result = block(y, mask)
            x = result
            results.append(x)
        x = self.norm(x)
        return x
