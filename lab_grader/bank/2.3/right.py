"""Exercise 2.3, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F


def context_by_einsum(x: Any) -> Any:
    weights = torch.einsum("...id,...jd->...ij", x, x).softmax(-1)
    return torch.einsum("...ij,...jd->...id", weights, x), weights


def context_by_loop(x: Any) -> Any:
    rows = [torch.softmax((x * x[..., i : i + 1, :]).sum(-1), -1) for i in range(x.shape[-2])]
    context = [(row.unsqueeze(-1) * x).sum(-2) for row in rows]
    return torch.stack(context, -2), torch.stack(rows, -2)


def context_in_double(x: Any) -> list[Any]:
    wide = x.double()
    scores = wide @ wide.transpose(-2, -1)
    raised = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = raised / raised.sum(-1, keepdim=True)
    return [(weights @ wide).to(x), weights.to(x)]


def context_built_in(x: Any) -> Any:
    def attend(values: Any) -> Any:
        return F.scaled_dot_product_attention(x, x, values, scale=1.0)

    words = torch.eye(x.shape[-2], dtype=x.dtype, device=x.device)
    return attend(x), attend(words.expand(*x.shape[:-2], -1, -1))
