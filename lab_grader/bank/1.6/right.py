"""Exercise 1.6, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn


def clip_with_plain_numbers(gradients: Any, max_norm: float) -> Any:
    norm = math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients))
    if norm <= max_norm:
        return gradients
    return [gradient * (max_norm / norm) for gradient in gradients]


def clip_built_in(gradients: Any, max_norm: float) -> Any:
    parameters = [nn.Parameter(torch.empty_like(gradient)) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    nn.utils.clip_grad_norm_(parameters, max_norm)
    return [parameter.grad for parameter in parameters]


def clip_joined(gradients: Any, max_norm: float) -> Any:
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    flat = flat / max(1.0, float(flat.norm()) / max_norm)
    parts = torch.split(flat, [gradient.numel() for gradient in gradients])
    return [part.view(like.shape) for part, like in zip(parts, gradients, strict=True)]


def clip_on_copies(gradients: Any, max_norm: float) -> Any:
    copies = [gradient.clone() for gradient in gradients]
    norm = sum((copy * copy).sum() for copy in copies) ** 0.5
    for copy in copies:
        copy *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    return copies
