"""Exercise 6.4, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F


def shifted_by_roll(targets: Any, bos_id: int) -> Any:
    shifted = targets.roll(1, dims=-1)
    shifted[..., 0] = bos_id
    return shifted


def shifted_by_pad(targets: Any, bos_id: int) -> Any:
    return F.pad(targets, (1, -1), value=bos_id)


def shifted_into_new(targets: Any, bos_id: int) -> Any:
    shifted = torch.empty_like(targets)
    shifted[..., 0] = bos_id
    for t in range(1, targets.shape[-1]):
        shifted[..., t] = targets[..., t - 1]
    return shifted


def shifted_then_cut(targets: Any, bos_id: int) -> Any:
    start = targets.new_full((*targets.shape[:-1], 1), bos_id)
    return torch.cat((start, targets), -1)[..., :-1]
