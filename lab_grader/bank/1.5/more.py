"""Exercise 1.5. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

from typing import Any

import torch

from lab_grader.bank.engine import Wrong

wrong = Wrong()


def _jacobian(states: Any, inputs: Any) -> Any:
    """Give the Jacobian of the last state, its units in front."""
    units = states[..., -1, :].unbind(dim=-1)
    return torch.stack([torch.autograd.grad(u.sum(), inputs, retain_graph=True)[0] for u in units])


@wrong(
    "divided-by-the-units",
    "You divide the norms by the number of units. The Frobenius norm is the root of the sum of all "
    "squares, with nothing divided.",
)
def divided_by_the_units(states: Any, inputs: Any) -> Any:
    return _jacobian(states, inputs).square().sum(dim=(0, -1)).sqrt() / states.shape[-1]


@wrong(
    "norm-over-the-first-axes",
    "You take the norm over the units and the first axis of the inputs, which is the batch or the "
    "sequence. What has to disappear besides the units are the features, the last axis.",
)
def norm_over_the_first_axes(states: Any, inputs: Any) -> Any:
    return _jacobian(states, inputs).norm(dim=(0, 1))


@wrong(
    "third-powers",
    "You take another norm than asked for. The Frobenius norm is the root of the sum of squares: "
    "squares below the root, and a square root.",
)
def third_powers(states: Any, inputs: Any) -> Any:
    return _jacobian(states, inputs).abs().pow(3).sum(dim=(0, -1)).pow(1 / 3)


@wrong(
    "divided-by-the-features",
    "You divide the norms by the width of the inputs. The Frobenius norm is the root of the sum of all "
    "squares, with nothing divided.",
)
def divided_by_the_features(states: Any, inputs: Any) -> Any:
    return _jacobian(states, inputs).square().sum(dim=(0, -1)).sqrt() / inputs.shape[-1]


@wrong(
    "added-up-along-the-sequence",
    "Each of your norms holds the sum of all norms before it. A variable is added to in a loop where "
    "it should be set anew: every step has a norm of its own.",
)
def added_up_along_the_sequence(states: Any, inputs: Any) -> Any:
    return _jacobian(states, inputs).square().sum(dim=(0, -1)).sqrt().cumsum(dim=-1)


@wrong(
    "squares-added-up-along-the-sequence",
    "You add the squares of one step to those of the steps before it. Every step has a norm of its "
    "own: start from zero for each.",
)
def squares_added_up_along_the_sequence(states: Any, inputs: Any) -> Any:
    return _jacobian(states, inputs).square().sum(dim=(0, -1)).cumsum(dim=-1).sqrt()
