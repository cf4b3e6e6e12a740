"""Wrong turns of week 3: scaling and heads."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

from lab_grader.course.bank import On, Turn, right, space


@space(
    "3.2",
    Turn(
        "no-scale",
        "scale",
        "Your scores are not scaled. The variance of a dot product grows with the number of terms it "
        "sums, so wide heads would saturate the softmax. Look at what stands below the fraction bar in "
        "the formula.",
    ),
    Turn(
        "scaled-by-d_k",
        "scale",
        "You divide the scores by the width of the keys itself. That makes them too small: it is the "
        "variance that grows with the width, and a standard deviation is its root.",
    ),
    Turn(
        "nan-on-masked-row",
        "empty row",
        "A query that may attend to nothing comes out as NaN, because softmax of nothing but minus "
        "infinity divides zero by zero. Such a query should get zeros.",
    ),
)
def scaled_dot_product_attention(on: On) -> Any:
    def block(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        d_head = q.shape[-1]
        scale = math.sqrt(d_head)
        if on("no-scale"):
            scale = 1.0
        if on("scaled-by-d_k"):
            scale = d_head
        scores = q @ k.mT / scale
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None and not on("nan-on-masked-row"):
            weights = weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
        return weights @ v, weights

    return block


@right("3.2")
def with_einsum(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = torch.einsum("...qd,...kd->...qk", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, float("-inf"))
    weights = F.softmax(scores, dim=-1).nan_to_num()
    return torch.einsum("...qk,...kv->...qv", weights, v), weights
