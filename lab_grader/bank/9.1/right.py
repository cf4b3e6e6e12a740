"""Exercise 9.1, other right ways."""

from __future__ import annotations

from typing import Any

import torch


def with_a_mask_of_ones(x: Any, p: float, generator: Any = None) -> Any:
    keep = (torch.rand(x.shape, generator=generator) >= p).to(x.dtype)
    return x * keep / max(1 - p, 1e-12)


def with_bernoulli(x: Any, p: float, generator: Any = None) -> Any:
    if p == 1:
        return torch.zeros_like(x)
    mask = torch.bernoulli(torch.full_like(x, 1 - p), generator=generator)
    return mask * x / (1 - p)


def with_bernoulli_in_place(x: Any, p: float, generator: Any = None) -> Any:
    if p == 0.0:
        return x
    if p == 1.0:
        return x * 0
    mask = torch.empty_like(x).bernoulli_(1 - p, generator=generator).div_(1 - p)
    return x * mask


def with_masked_fill(x: Any, p: float, generator: Any = None) -> Any:
    lost = torch.rand(x.shape, generator=generator, dtype=torch.float64) < p
    return x.masked_fill(lost, 0.0) / (1 - p if p < 1 else 1.0)


def scaled_first(x: Any, p: float, generator: Any = None) -> Any:
    keep = torch.empty(x.shape).uniform_(generator=generator) > p
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return torch.where(keep, x * scale, torch.zeros((), dtype=x.dtype)) if p else x.clone()


def in_a_loop(x: Any, p: float, generator: Any = None) -> Any:
    flat = x.reshape(-1)
    noise = torch.rand(flat.shape[0], generator=generator).tolist()
    factors = [0.0 if number < p or p == 1 else 1 / (1 - p) for number in noise]
    return (flat * torch.tensor(factors, dtype=x.dtype)).reshape(x.shape)


def with_indices(x: Any, p: float, generator: Any = None) -> Any:
    result = x.clone()
    result[torch.rand(x.size(), generator=generator) < p] = 0
    return result / (1 - p) if p != 1 else result


def from_the_middle(x: Any, p: float, generator: Any = None) -> Any:
    """Call it lost where the noise falls into an interval of length p."""
    noise = torch.rand(x.shape, generator=generator)
    lost = (noise >= (1 - p) / 2) & (noise < (1 + p) / 2) if p < 1 else torch.ones_like(noise) > 0
    return x * ~lost * (1 / (1 - p) if p < 1 else 0.0)


def with_added_noise(x: Any, p: float, generator: Any = None) -> Any:
    """Let floor decide: noise plus the chance to be kept is at least 1 with just that chance."""
    keep = torch.floor(torch.rand(x.shape, generator=generator) + (1 - p))
    return x * keep.to(x.dtype) * (0.0 if p == 1 else 1 / (1 - p))
