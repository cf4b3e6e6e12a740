"""Exercise 11.8, the usual way."""

import torch
from torch.nn import functional as F

from lab_transformer import vision as reference
from lab_transformer.vision import patches


class VisionTransformer(reference.VisionTransformer):
    def forward(self, images):
        size = self.patch_size
        squares = patches(images, size)
        words = self.embedding(squares)
        cls = self.cls.expand(len(images), 1, -1)
        x = torch.cat([cls, words], dim=1)
        places = self.position_embedding.weight
        x = x + places
        states = self.encoder(x)
        seen = states[:, 0]
        logits = self.output(seen)
        return logits
