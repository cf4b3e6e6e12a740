"""Exercise 10.7, the usual way."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from lab_transformer import gpt as reference
from lab_transformer.masking import causal_mask
from lab_transformer.positional import sinusoidal_positions


class GPT(reference.GPT):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)

    def forward(self, tokens, offset=0):
        length = tokens.shape[1]
        first = offset
        places = torch.arange(length, device=tokens.device) + first
        embedded = self.token_embedding(tokens)
        positions = self.position_embedding(places)
        x = embedded + positions
        states = self.deepened(x)
        states = self.norm(states)
        logits = self.output(states)
        return logits

    def deepened(self, x):
        """Send the states through all blocks."""
        for block in self.blocks:
            x = block(x)
        return x
