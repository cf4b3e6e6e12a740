"""Exercise 3.2. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

from lab_grader.bank.engine import Wrong
from lab_grader.bank.families import OTHER_SCORES
from lab_transformer import attention as reference

wrong = Wrong()


def _weigh(q: Any, k: Any, v: Any, mask: Any) -> tuple[Any, Any, Any]:
    """Give the output, the weights and the scores before the mask."""
    output, weights = reference.scaled_dot_product_attention(q, k, v, mask)
    return output, weights, q @ k.mT / math.sqrt(q.shape[-1])


@wrong(
    "raw-scores-returned-for-weights",
    "Your output is right, but what you return beside it are the scores, before mask and softmax. The "
    "weights that made the output are asked for.",
)
def raw_scores_returned(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    output, _, scores = _weigh(q, k, v, mask)
    return output, scores


@wrong(
    "mask-transposed",
    "You exchange the last two axes of the mask. It comes as (query, key), like the scores: use it as "
    "it is.",
)
def mask_transposed(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = _weigh(q, k, v, None)[2]
    if mask is not None:
        scores = scores.masked_fill(~mask.mT, -math.inf)
    weights = scores.softmax(dim=-1).nan_to_num()
    return weights @ v, weights


@wrong(
    "values-turned",
    "You turn the values before the product with the weights, and the axes do not fit. The weights of "
    "a query run over the keys, and so do the rows of the values: they meet as they are.",
)
def values_turned(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    weights = _weigh(q, k, v, mask)[1]
    return weights @ v.mT, weights


@wrong(
    "values-first",
    "The values stand on the left of the product with the weights, and the axes do not fit. Each row "
    "of weights mixes the rows of the values: the weights stand on the left.",
)
def values_first(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    weights = _weigh(q, k, v, mask)[1]
    return v @ weights, weights


@wrong(
    "dropout-of-weights",
    "Some of your weights are zero at random, and the others larger. No dropout is asked for here: the "
    "block gives the same output every time.",
)
def dropout_of_weights(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    weights = F.dropout(_weigh(q, k, v, mask)[1], 0.1)
    return weights @ v, weights


def _attention_of(change: Any) -> Any:
    def block(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        scores = change(_weigh(q, k, v, None)[2])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(dim=-1)
        weights = weights if mask is None else weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0)
        return weights @ v, weights

    return block


for _name, (_told, _change) in OTHER_SCORES.items():
    wrong(_name, _told)(_attention_of(_change))


@wrong(
    "plus-infinity",
    "You fill hidden scores with plus infinity, so the hidden keys win. The exponential of minus "
    "infinity is zero: mind the sign.",
)
def plus_infinity(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = _weigh(q, k, v, None)[2]
    weights = (scores if mask is None else scores.masked_fill(~mask, math.inf)).softmax(dim=-1)
    return weights @ v, weights


@wrong(
    "output-divided-by-the-keys",
    "You divide the weighted sum by the number of keys. The weights sum to one already: that is all "
    "the averaging there is.",
)
def output_divided_by_the_keys(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    output, weights, _ = _weigh(q, k, v, mask)
    return output / k.shape[-2], weights


@wrong(
    "softmax-in-float32",
    "Your softmax is computed in single precision and converted back, so double precision inputs lose "
    "half of their digits. Compute in the dtype that comes in.",
)
def softmax_in_float32(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = _weigh(q, k, v, None)[2]
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1, dtype=torch.float32).nan_to_num().to(v.dtype)
    return weights @ v, weights


@wrong(
    "weights-transposed-at-the-end",
    "Your output is right, but the weights you return have their last two axes exchanged. Each query "
    "has a row: its weights run over the keys.",
)
def weights_transposed_at_the_end(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    output, weights, _ = _weigh(q, k, v, mask)
    return output, weights.mT
