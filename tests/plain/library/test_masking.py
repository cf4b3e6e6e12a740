"""Masks against their definitions and against F.softmax."""

import pytest
import torch
from comparison import assert_close, assert_same_function
from torch import nn
from torch.nn import functional as F

from lab_transformer.masking import causal_mask, masked_softmax, padding_mask


@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_causal_mask_allows_what_torch_does_not_hide(length):
    hidden = nn.Transformer.generate_square_subsequent_mask(length).isinf()
    assert torch.equal(causal_mask(length), ~hidden)


def test_padding_mask_hides_padding_as_a_key(device):
    tokens = torch.tensor([[5, 0, 7], [9, 3, 0]], device=device)
    expected = torch.tensor([[True, False, True], [True, True, False]], device=device)
    assert torch.equal(padding_mask(tokens, 0), expected[:, None, None, :])


@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_masked_softmax_equals_torch_on_what_is_left(dim, draw, device):
    scores = draw(3, 5, 7)
    mask = torch.rand(3, 5, 7).to(device) < 0.5
    mask = mask | ~mask.any(dim=dim, keepdim=True)
    assert_same_function(
        lambda s: masked_softmax(s, mask, dim),
        lambda s: F.softmax(s.masked_fill(~mask, -torch.inf), dim),
        scores,
    )


def test_masked_softmax_without_anything_hidden_is_softmax(draw, device):
    scores = draw(3, 5, 7)
    assert_close(
        masked_softmax(scores, torch.tensor(True, device=device)), torch.softmax(scores, dim=-1)
    )


@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_masked_softmax_over_nothing_is_zero_with_finite_gradients(dim, draw, device):
    scores = draw(3, 5, 7)
    mask = torch.ones(3, 5, 7, dtype=torch.bool, device=device)
    mask.select((dim + 4) % 3, 1)[...] = False
    weights = masked_softmax(scores, mask, dim)
    (gradient,) = torch.autograd.grad(weights.square().sum(), scores)
    assert (weights[~mask] == 0).all()
    assert gradient.isfinite().all()
    assert (gradient[~mask] == 0).all()


@pytest.mark.parametrize("mask_shape", [(7,), (1, 7), (5, 1), (3, 1, 7)])
def test_masked_softmax_broadcasts_its_mask(mask_shape, draw, device):
    scores = draw(3, 5, 7)
    mask = (torch.rand(mask_shape) < 0.5).to(device)
    assert_close(masked_softmax(scores, mask), masked_softmax(scores, mask.expand(3, 5, 7)))
