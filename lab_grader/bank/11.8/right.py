"""Exercise 11.8, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from lab_transformer import vision


class PositionsApart(vision.VisionTransformer):
    """Positions are added to [CLS] and to the patches before they meet."""

    def forward(self, images: Any) -> Any:
        first, *rest = self.position_embedding.weight
        words = self.embedding(vision.patches(images, self.patch_size)) + torch.stack(rest)
        cls = (self.cls + first).repeat(images.shape[0], 1).unsqueeze(1)
        return self.output(self.encoder(torch.hstack([cls, words])).select(1, 0))


class EmbeddedByConvolution(vision.VisionTransformer):
    def forward(self, images: Any) -> Any:
        width, size = self.cls.shape[0], self.patch_size
        filters = self.embedding.weight.reshape(width, images.shape[1], size, size)
        found = F.conv2d(images, filters, self.embedding.bias, stride=size)
        x = torch.zeros(len(images), 1, width, dtype=found.dtype) + self.cls
        x = torch.cat((x, found.flatten(2).transpose(1, 2)), 1)
        x = x + self.position_embedding(torch.arange(x.shape[1]))
        return F.linear(self.encoder(x)[:, 0, :], self.output.weight, self.output.bias)


class BlockByBlock(vision.VisionTransformer):
    def forward(self, images: Any) -> Any:
        words = self.embedding(vision.patches(images, self.patch_size))
        x = words.new_empty(words.shape[0], words.shape[1] + 1, words.shape[2])
        x = torch.cat([self.cls.view(1, 1, -1).expand_as(x[:, :1]), words], dim=1)
        x = x.add(self.position_embedding.weight.unsqueeze(0))
        for block in self.encoder.blocks:
            x = block(x)
        logits = self.output(self.encoder.norm(x[:, 0]))
        return logits


class PictureByPicture(vision.VisionTransformer):
    def forward(self, images: Any) -> Any:
        rows = []
        for image in images.split(1):
            words = self.embedding(vision.patches(image, self.patch_size))[0]
            x = torch.cat([self.cls[None], words]) + self.position_embedding.weight
            rows.append(self.output(self.encoder(x[None])[0, 0]))
        return torch.stack(rows)
