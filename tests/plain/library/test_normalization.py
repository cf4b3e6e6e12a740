"""Layer norm, batch norm and the feed-forward layer against nn's own."""

import pytest
import torch
from comparison import assert_close, assert_same_function, strided
from torch import nn
from torch.nn import functional as F

from lab_transformer.feedforward import FeedForward, feed_forward
from lab_transformer.gpt import GeluFeedForward
from lab_transformer.normalization import batch_norm, layer_norm, post_norm, pre_norm


@pytest.mark.parametrize("shape", [(8,), (1, 8), (2, 5, 8), (2, 3, 5, 13), (2, 5, 3)])
@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_layer_norm_equals_torch(shape, eps, draw):
    x, gain, bias = draw(*shape), draw(shape[-1]), draw(shape[-1])
    assert_same_function(
        lambda *inputs: layer_norm(*inputs, eps=eps),
        lambda x, gain, bias: F.layer_norm(x, shape[-1:], gain, bias, eps),
        x,
        gain,
        bias,
    )


def test_layer_norm_takes_inputs_that_are_not_contiguous(draw):
    x, gain, bias = strided(draw(2, 5, 8)), draw(8), draw(8)
    assert_same_function(
        layer_norm, lambda x, gain, bias: F.layer_norm(x, (8,), gain, bias), x, gain, bias
    )


def test_layer_norm_of_equal_features_is_the_bias(draw):
    gain, bias = draw(8), draw(8)
    assert_close(layer_norm(torch.full_like(bias, 3.0).expand(2, 8), gain, bias), bias.expand(2, 8))


def torch_batch_norm(words: torch.Tensor, gain: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    norm = nn.BatchNorm1d(len(gain), track_running_stats=False).to(words)
    return torch.func.functional_call(norm, {"weight": gain, "bias": bias}, words)


@pytest.mark.parametrize("shape", [(2, 5, 8), (1, 7, 3), (11, 1, 4)])
def test_batch_norm_equals_torch(shape, draw):
    x, gain, bias = draw(*shape), draw(shape[-1]), draw(shape[-1])
    assert_same_function(
        batch_norm,
        lambda x, gain, bias: torch_batch_norm(x.flatten(0, 1), gain, bias).reshape(x.shape),
        x,
        gain,
        bias,
    )


def test_batch_norm_takes_its_statistics_from_real_words_only(draw, device):
    x, gain, bias = draw(2, 5, 8), draw(8), draw(8)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2], device=device)
    assert_same_function(
        lambda *inputs: batch_norm(*inputs, mask=mask)[mask],
        lambda x, gain, bias: torch_batch_norm(x[mask], gain, bias),
        x,
        gain,
        bias,
    )


def test_batch_norm_of_real_words_does_not_depend_on_padding(draw, device):
    x, gain, bias = draw(2, 5, 8), draw(8), draw(8)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2], device=device)
    poisoned = x.detach().where(mask[..., None], 1e3)
    assert_close(
        batch_norm(poisoned, gain, bias, mask)[mask], batch_norm(x, gain, bias, mask)[mask].detach()
    )


def test_the_residual_path_is_raw_in_pre_norm_and_normalised_in_post_norm(draw):
    x = draw(2, 5, 8)
    sublayer, norm = torch.sin, torch.cos
    assert torch.equal(pre_norm(x, sublayer, norm), x + x.cos().sin())
    assert torch.equal(post_norm(x, sublayer, norm), (x + x.sin()).cos())


@pytest.mark.parametrize("shape", [(8,), (5, 8), (2, 3, 5, 8)])
def test_feed_forward_equals_two_linear_layers_around_a_relu(shape, draw):
    x, w_1, b_1, w_2, b_2 = draw(*shape), draw(8, 13), draw(13), draw(13, 8), draw(8)
    assert_same_function(
        feed_forward,
        lambda x, w_1, b_1, w_2, b_2: F.linear(F.linear(x, w_1.mT, b_1).relu(), w_2.mT, b_2),
        *(x, w_1, b_1, w_2, b_2),
    )


@pytest.mark.parametrize(
    ("layer", "activation"), [(FeedForward, nn.ReLU()), (GeluFeedForward, nn.GELU("tanh"))]
)
def test_feed_forward_modules_equal_a_torch_sequence(layer, activation, draw, device, dtype):
    ours = layer(8, 13).to(device, dtype)
    assert_same_function(ours, nn.Sequential(ours.w_1, activation, ours.w_2), draw(2, 5, 8))
