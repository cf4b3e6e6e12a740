"""Exercise 11.7, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F


def patches_by_unfold(images: Any, size: int) -> Any:
    return F.unfold(images, kernel_size=size, stride=size).transpose(1, 2)


def patches_by_tensor_unfold(images: Any, size: int) -> Any:
    cut = images.unfold(2, size, size).unfold(3, size, size)
    return cut.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


def patches_in_loops(images: Any, size: int) -> Any:
    height, width = images.shape[2:]
    return torch.stack(
        [
            images[:, :, top : top + size, left : left + size].flatten(1)
            for top in range(0, height, size)
            for left in range(0, width, size)
        ],
        dim=1,
    )


def patches_by_chunks(images: Any, size: int) -> Any:
    rows = images.split(size, dim=2)
    squares = [square for row in rows for square in row.split(size, dim=3)]
    return torch.cat([square.reshape(len(images), 1, -1) for square in squares], dim=1)


def patches_by_einsum(images: Any, size: int) -> Any:
    batch, channels, height, width = images.shape
    cut = images.reshape(batch, channels, height // size, size, width // size, size)
    return torch.einsum("bcrhlw->brlchw", cut).reshape(batch, -1, channels * size**2)


def patches_by_convolution(images: Any, size: int) -> Any:
    """A filter for every number of a patch, which lets it through."""
    numbers = images.shape[1] * size**2
    filters = torch.eye(numbers, dtype=images.dtype).reshape(numbers, images.shape[1], size, size)
    return F.conv2d(images, filters, stride=size).flatten(2).mT


def patches_by_index(images: Any, size: int) -> Any:
    batch, channels, height, width = images.shape
    columns = width // size
    patch = torch.arange(height // size * columns)
    inside = torch.arange(size)
    y = (patch // columns * size)[:, None, None, None] + inside[None, None, :, None]
    x = (patch % columns * size)[:, None, None, None] + inside[None, None, None, :]
    channel = torch.arange(channels)[None, :, None, None]
    return images[:, channel, y, x].reshape(batch, len(patch), -1)
