"""Exercise 2.4, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F


def views_by_einsum(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    return [torch.einsum("...i,io->...o", x, w) for w in (w_q, w_k, w_v)]


def views_of_one_product(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    everything = x @ torch.cat([w_q, w_k, w_v], dim=1)
    return everything.split([w_q.shape[1], w_k.shape[1], w_v.shape[1]], dim=-1)


def views_by_linear(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    return F.linear(x, w_q.T), F.linear(x, w_k.T), F.linear(x, w_v.T)


def views_in_double(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    rows = x.double().reshape(-1, x.shape[-1])
    q, k, v = ((rows @ w.double()).to(x).reshape(*x.shape[:-1], -1) for w in (w_q, w_k, w_v))
    return q, k, v
