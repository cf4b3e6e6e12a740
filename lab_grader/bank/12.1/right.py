"""Exercise 12.1, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


def rms_norm_built_in(x: Any, gain: Any, eps: float = 1e-5) -> Any:
    return F.rms_norm(x, x.shape[-1:], gain, eps)


def rms_norm_as_a_module(x: Any, gain: Any, eps: float = 1e-5) -> Any:
    norm = nn.RMSNorm(x.shape[-1], eps, elementwise_affine=False)
    return norm(x) * gain


def rms_norm_with_rsqrt(x: Any, gain: Any, eps: float = 1e-5) -> Any:
    return gain * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


def rms_norm_from_the_length(x: Any, gain: Any, eps: float = 1e-5) -> Any:
    squares = torch.linalg.vector_norm(x, dim=-1, keepdim=True) ** 2 / x.shape[-1]
    return torch.div(x, torch.sqrt(squares + eps)).mul(gain)


def rms_norm_by_einsum_in_double(x: Any, gain: Any, eps: float = 1e-5) -> Any:
    wide = x.double()
    squares = torch.einsum("...d,...d->...", wide, wide) / wide.size(-1)
    return (wide / (squares.unsqueeze(-1) + eps) ** 0.5 * gain.double()).to(x.dtype)


def rms_norm_word_by_word(x: Any, gain: Any, eps: float = 1e-5) -> Any:
    words = []
    for word in x.reshape(-1, x.shape[-1]):
        mean = sum(feature * feature for feature in word) / len(word)
        words.append(word / (mean + eps) ** 0.5 * gain)
    return torch.stack(words).reshape(x.shape)
