"""Exercise 1.6, the usual way."""

import torch


def size_of(gradients):
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    return flat.norm()


def scaled(gradients, norm, limit):
    factor = limit / norm
    above = norm > limit
    factor = torch.where(above, factor, 1.0)
    return [gradient * factor for gradient in gradients]


def clip_gradients(gradients, max_norm):
    norm = size_of(gradients)
    clipped = scaled(gradients, norm, max_norm)
    return clipped
