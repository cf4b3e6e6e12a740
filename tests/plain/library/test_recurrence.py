"""Embeddings, recurrent networks and clipping against torch's own."""

import pytest
import torch
from comparison import assert_close, assert_same_function, strided
from torch import nn
from torch.nn import functional as F

from lab_transformer.embedding import embed, one_hot
from lab_transformer.rnn import clip_gradients, gradient_by_distance, rnn_cell, rnn_forward


@pytest.mark.parametrize("shape", [(), (5,), (2, 5), (2, 0)])
def test_one_hot_equals_torch(shape, device):
    tokens = torch.randint(11, shape, device=device)
    assert torch.equal(one_hot(tokens, 11), F.one_hot(tokens, 11).float())


@pytest.mark.parametrize("shape", [(5,), (2, 5), (1,)])
def test_embed_equals_a_look_up(shape, draw, device):
    tokens = torch.randint(11, shape, device=device)
    assert_same_function(
        lambda table: embed(one_hot(tokens, 11), table),
        lambda table: F.embedding(tokens, table),
        draw(11, 8),
    )


def torch_rnn(xs, h0, w_x, w_h, b):
    """nn.RNN with our weights: it stores them as (out, in), and has two biases."""
    rnn = nn.RNN(w_x.shape[0], w_x.shape[1], batch_first=True).to(xs)
    weights = {
        "weight_ih_l0": w_x.mT,
        "weight_hh_l0": w_h.mT,
        "bias_ih_l0": b,
        "bias_hh_l0": torch.zeros_like(b),
    }
    states, last = torch.func.functional_call(rnn, weights, (xs, h0[None]))
    return states, last[0]


@pytest.fixture
def weights(draw):
    return draw(6, 4), draw(4, 4), draw(4)


@pytest.mark.parametrize("length", [1, 7])
def test_rnn_forward_equals_torch(length, draw, weights):
    assert_same_function(rnn_forward, torch_rnn, draw(3, length, 6), draw(3, 4), *weights)


def test_rnn_forward_returns_the_last_state_too(draw, weights):
    xs, h0 = strided(draw(3, 7, 6)), draw(3, 4)
    assert_close(rnn_forward(xs, h0, *weights), torch_rnn(xs, h0, *weights))


def test_rnn_cell_equals_torch(draw, weights):
    w_x, w_h, b = weights
    assert_same_function(
        rnn_cell,
        lambda x, h, w_x, w_h, b: torch.rnn_tanh_cell(x, h, w_x.mT, w_h.mT, b, torch.zeros_like(b)),
        draw(3, 6),
        draw(3, 4),
        w_x,
        w_h,
        b,
    )


def test_gradient_by_distance_is_the_norm_of_each_jacobian(draw, weights):
    xs, h0 = draw(3, 7, 6), draw(3, 4)
    norms = gradient_by_distance(rnn_forward(xs, h0, *weights)[0], xs)
    for sentence in range(3):
        jacobian = torch.autograd.functional.jacobian(
            lambda x, h=h0[sentence]: rnn_forward(x, h, *weights)[1], xs[sentence]
        )
        assert_close(norms[sentence], jacobian.square().sum(dim=(0, 2)).sqrt())


@pytest.mark.parametrize("max_norm", [0.1, 3.0, 1e3])
def test_clipping_equals_torch(max_norm, draw):
    gradients = [draw(5, 7).detach(), draw(3).detach(), draw(2, 1, 4).detach()]
    parameters = [nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    # torch divides by norm + 1e-6.
    allowed = 1e-6 / float(norm)
    for clipped, parameter in zip(clip_gradients(gradients, max_norm), parameters, strict=True):
        torch.testing.assert_close(clipped, parameter.grad, rtol=2 * allowed, atol=1e-6 * max_norm)


def test_where_there_are_no_gradients_none_come_back():
    assert clip_gradients([], 1.0) == []


def test_gradients_of_zero_stay_zero(device):
    clipped = clip_gradients([torch.zeros(3, device=device), torch.zeros(2, 5, device=device)], 1.0)
    assert all((gradient == 0).all() for gradient in clipped)
