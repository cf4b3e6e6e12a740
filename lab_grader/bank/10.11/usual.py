"""Exercise 10.11, the usual way."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from lab_transformer import lora as reference


class LoRALinear(nn.Module):
    def __init__(self, base, rank, alpha, generator):
        super().__init__()
        d_out, d_in = base.weight.shape
        self.base, self.rank, self.alpha = base, rank, alpha
        self.down = nn.Parameter(base.weight.new_empty(d_in, rank))
        self.up = nn.Parameter(base.weight.new_empty(rank, d_out))
        source = generator
        spread = 1 / math.sqrt(d_in)
        base.requires_grad_(False)
        nn.init.normal_(self.down, std=spread, generator=source)
        nn.init.zeros_(self.up)

    def forward(self, x):
        kept = self.base(x)
        narrow = x @ self.down
        learned = narrow @ self.up
        scale = self.scale()
        output = kept + scale * learned
        return output

    def scale(self):
        return self.alpha / self.rank

    def merged_weight(self):
        kept = self.base.weight
        learned = (self.down @ self.up).mT
        weight = kept + self.scale() * learned
        return weight

    @property
    def weight(self):
        return self.merged_weight()

    @property
    def bias(self):
        return self.base.bias
