"""The loss against F.cross_entropy, and the decoder's input."""

import pytest
import torch
from comparison import assert_same_function, strided
from torch.nn import functional as F

from lab_transformer.loss import sequence_loss, shift_right


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("pad_id", [0, 5, -100])
@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 5), (1, 1)])
def test_sequence_loss_equals_torch(smoothing, pad_id, shape, draw, device):
    logits = draw(*shape, 11)
    targets = torch.randint(1, 5, shape, device=device)
    if targets.numel() > 1:
        targets[..., 3:] = pad_id
    assert_same_function(
        lambda x: sequence_loss(x, targets, pad_id, smoothing),
        lambda x: F.cross_entropy(
            x.reshape(-1, 11), targets.flatten(), ignore_index=pad_id, label_smoothing=smoothing
        ),
        logits,
    )


def test_sequence_loss_takes_logits_that_are_not_contiguous(draw, device):
    targets = torch.randint(11, (2, 5), device=device)
    assert_same_function(
        lambda x: sequence_loss(x, targets, -100, 0.1),
        lambda x: F.cross_entropy(x.reshape(-1, 11), targets.flatten(), label_smoothing=0.1),
        strided(draw(2, 5, 11)),
    )


def test_sequence_loss_is_stable_for_large_logits(draw, device):
    targets = torch.randint(11, (2, 5), device=device)
    assert_same_function(
        lambda x: sequence_loss(1e4 * x, targets, -100),
        lambda x: F.cross_entropy(1e4 * x.reshape(-1, 11), targets.flatten()),
        draw(2, 5, 11),
    )


def test_nothing_but_padding_has_no_loss_and_no_gradient(draw, device):
    logits = draw(2, 5, 11)
    loss = sequence_loss(logits, torch.zeros(2, 5, dtype=torch.long, device=device), pad_id=0)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss == 0
    assert (gradient == 0).all()


def test_shift_right_starts_with_bos_and_drops_the_last_token(device):
    targets = torch.tensor([[5, 6, 2], [7, 2, 0]], device=device)
    assert shift_right(targets, 1).tolist() == [[1, 5, 6], [1, 7, 2]]
    assert targets.tolist() == [[5, 6, 2], [7, 2, 0]]


@pytest.mark.parametrize("length", [1, 4])
def test_shift_right_keeps_shape_and_dtype(length, device):
    targets = torch.ones(3, length, dtype=torch.int32, device=device)
    shifted = shift_right(targets, 9)
    assert (shifted.shape, shifted.dtype, shifted.device) == (
        targets.shape,
        torch.int32,
        targets.device,
    )
