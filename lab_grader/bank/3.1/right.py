"""Exercise 3.1, other right ways."""

from __future__ import annotations

from typing import Any

import torch


def sample_by_sample(d: int, samples: int, generator: Any) -> float:
    def vector() -> Any:
        return torch.randn(d, generator=generator, device=generator.device)

    dots = [float(vector() @ vector()) for _ in range(samples)]
    mean = sum(dots) / samples
    return sum((dot - mean) ** 2 for dot in dots) / (samples - 1)


def in_double_precision_around_zero(d: int, samples: int, generator: Any) -> float:
    # The mean is known to be zero, so the mean square is an estimate of the variance too.
    options: Any = {"generator": generator, "device": generator.device, "dtype": torch.float64}
    q, k = torch.randn(samples, d, **options), torch.randn(samples, d, **options)
    return torch.einsum("nd,nd->n", q, k).square().mean().item()


def with_columns_and_biased_variance(d: int, samples: int, generator: Any) -> float:
    q = torch.empty(d, samples, device=generator.device).normal_(generator=generator)
    k = torch.normal(torch.zeros_like(q), 1.0, generator=generator)
    return (q * k).sum(dim=0).var(correction=0).item()


def with_batched_products(d: int, samples: int, generator: Any) -> float:
    pairs = torch.randn(samples, 2, d, generator=generator, device=generator.device)
    return (pairs[:, :1] @ pairs[:, 1:].mT).std().item() ** 2
