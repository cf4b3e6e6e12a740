"""Exercise 5.1, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F


def layer_norm_built_in(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    return F.layer_norm(x, x.shape[-1:], gain, bias, eps)


def layer_norm_with_var_mean(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return torch.addcmul(bias, (x - mean) * torch.rsqrt(variance + eps), gain)


def layer_norm_by_moments_in_double(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    wide = x.double()
    mean = torch.einsum("...d->...", wide)[..., None] / x.shape[-1]
    variance = wide.pow(2).mean(-1, keepdim=True) - mean**2
    return (gain.double() * (wide - mean) / torch.sqrt(variance + eps) + bias.double()).to(x.dtype)


def layer_norm_word_by_word(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    words = []
    for word in x.reshape(-1, x.shape[-1]):
        mean = sum(word) / len(word)
        variance = sum((feature - mean) ** 2 for feature in word) / len(word)
        words.append((word - mean) / (variance + eps) ** 0.5 * gain + bias)
    return torch.stack(words).reshape(x.shape)


def layer_norm_in_double_on_a_copy(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    wide = x.double().clone()
    wide -= wide.mean(dim=-1, keepdim=True)
    wide = wide / torch.sqrt(torch.var(wide, dim=-1, unbiased=False, keepdim=True) + eps)
    return (wide * gain + bias).to(x.dtype)
