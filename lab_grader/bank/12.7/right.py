"""Exercise 12.7, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch


def route_and_renormalise(logits: Any, k: int) -> Any:
    logs, experts = logits.log_softmax(dim=-1).topk(k)
    return torch.exp(logs - torch.logsumexp(logs, dim=-1, keepdim=True)), experts


def route_through_probabilities(logits: Any, k: int) -> Any:
    probabilities, experts = torch.topk(logits.softmax(dim=-1), k, dim=-1)
    return probabilities / probabilities.sum(dim=-1, keepdim=True), experts


def route_by_sorting(logits: Any, k: int) -> Any:
    experts = logits.argsort(dim=-1, descending=True)[..., :k]
    return torch.take_along_dim(logits, experts, dim=-1).softmax(-1), experts


def route_by_hiding_the_others(logits: Any, k: int) -> Any:
    experts = torch.topk(logits, k, sorted=True).indices
    hidden = torch.full_like(logits, -math.inf).scatter(-1, experts, logits.gather(-1, experts))
    return hidden.softmax(dim=-1).gather(-1, experts), experts


def route_one_after_the_other(logits: Any, k: int) -> Any:
    rest, found = logits.detach().clone(), []
    for _ in range(k):
        found.append(rest.argmax(dim=-1, keepdim=True))
        rest.scatter_(-1, found[-1], -math.inf)
    experts = torch.cat(found, dim=-1)
    return torch.softmax(logits.gather(-1, experts), dim=-1), experts
