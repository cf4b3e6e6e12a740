"""Exercise 12.8, other right ways."""

from __future__ import annotations

from typing import Any

import torch


def balance_by_counting(probabilities: Any, experts: Any) -> Any:
    n_experts = probabilities.shape[-1]
    counts = torch.bincount(experts.flatten(), minlength=n_experts)
    share = counts.to(probabilities) / experts.numel()
    return n_experts * torch.dot(share, probabilities.reshape(-1, n_experts).mean(0))


def balance_expert_by_expert(probabilities: Any, experts: Any) -> Any:
    total = probabilities.new_zeros(())
    for number in range(probabilities.shape[-1]):
        share = (experts == number).to(probabilities.dtype).mean()
        total = total + share * probabilities[..., number].mean()
    return total * probabilities.shape[-1]


def balance_by_scattering(probabilities: Any, experts: Any) -> Any:
    chosen = torch.zeros_like(probabilities).scatter(-1, experts, 1.0)
    axes = tuple(range(probabilities.ndim - 1))
    share = chosen.sum(axes) / chosen.sum() if axes else chosen / chosen.sum()
    mean = probabilities.mean(axes) if axes else probabilities
    return (share * mean).sum() * len(mean)


def balance_by_comparing(probabilities: Any, experts: Any) -> Any:
    numbers = torch.arange(probabilities.shape[-1], device=experts.device)
    share = (experts[..., None] == numbers).flatten(0, -2).double().mean(dim=0)
    mean = probabilities.flatten(0, -2) if probabilities.ndim > 1 else probabilities[None]
    return torch.einsum("e,te->", share.to(probabilities), mean) / len(mean) * len(numbers)
