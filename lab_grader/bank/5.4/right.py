"""Exercise 5.4, other right ways."""

from __future__ import annotations

from typing import Any

import torch


def pre_norm_in_steps(x: Any, sublayer: Any, norm: Any) -> Any:
    result = x.clone()
    result += sublayer(norm(x))
    return result


def pre_norm_with_add(x: Any, sublayer: Any, norm: Any) -> Any:
    residual = x
    x = norm(x)
    return torch.add(sublayer(x), residual)


def pre_norm_with_stack(x: Any, sublayer: Any, norm: Any) -> Any:
    return torch.stack([sublayer(norm(x)), x]).sum(dim=0)
