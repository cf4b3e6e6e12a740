"""Exercise 11.6, the usual way."""

import torch
from torch import nn
from torch.nn import functional as F

from lab_transformer import families as reference
from lab_transformer.families import mean_pool


class Classifier(reference.Classifier):
    def forward(self, tokens, segments=None):
        pad = self.encoder.pad_id
        real = tokens != pad
        states = self.encoder.encode(tokens, segments)
        kind = self.pooling
        pool = self.first if kind == "cls" else self.average
        pooled = pool(states, real)
        logits = self.output(pooled)
        return logits

    def first(self, states, real):
        return states[:, 0]

    def average(self, states, real):
        return mean_pool(states, real)
