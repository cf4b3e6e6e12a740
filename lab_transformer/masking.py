"""Masks: what a word may look at, True where it may."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lab_transformer._checks import check_mask, check_shapes


#: id = "6.1"
#: title = "The causal mask"
#: points = 2
#: difficulty = 1
#: minutes = 10
#: needs = []
#: hints = [
#:     "May a word look at itself?",
#:     "Row t is a query: it may look at the columns 0 to t.",
#:     "The lower triangle of a square of ones, diagonal included, as booleans.",
#: ]
def causal_mask(length: int) -> Bool[Tensor, "query key"]:
    """Allow every position to attend to itself and to what came before it."""
    ### BEGIN SOLUTION
    return torch.ones(length, length, dtype=torch.bool).tril()
    ### END SOLUTION


#: id = "6.2"
#: title = "The padding mask"
#: points = 2
#: difficulty = 1
#: minutes = 10
#: needs = []
#: hints = [
#:     "Padding must not be looked at: is that a matter of rows or of columns of the weights?",
#:     "True for real words, and two axes of size one so that it broadcasts over heads and queries.",
#:     "Compare tokens with pad_id, then insert the axes 1 and 2.",
#: ]
def padding_mask(
    tokens: Int[Tensor, "batch key"],
    pad_id: int,
) -> Bool[Tensor, "batch 1 1 key"]:
    """Allow every query to attend to real words: padding is hidden as a key."""
    check_shapes(tokens=(tokens, "batch key"))
    ### BEGIN SOLUTION
    return (tokens != pad_id)[:, None, None, :]
    ### END SOLUTION


#: id = "6.3"
#: title = "Softmax under a mask"
#: points = 4
#: difficulty = 3
#: minutes = 20
#: needs = []
#: hints = [
#:     "Which score becomes a weight of exactly zero?",
#:     "-inf before the softmax, not zero after it; and a row of nothing but -inf needs care.",
#:     "masked_fill(~mask, -inf), softmax, then zeros where mask.any(dim, keepdim=True) is False.",
#: ]
def masked_softmax(
    scores: Float[Tensor, "..."],
    mask: Bool[Tensor, "..."],
    dim: int = -1,
) -> Float[Tensor, "..."]:
    """Softmax over the allowed scores; hidden ones weigh exactly zero.

    The mask broadcasts to the scores. Where nothing is allowed along dim, all
    weights are zero, and so are the gradients of the scores. All scores are
    finite, hidden ones too.
    """
    check_mask(mask, scores.shape)
    ### BEGIN SOLUTION
    mask = mask.expand_as(scores)
    weights = torch.softmax(scores.masked_fill(~mask, -math.inf), dim=dim)
    return weights.masked_fill(~mask.any(dim=dim, keepdim=True), 0.0)
    ### END SOLUTION
