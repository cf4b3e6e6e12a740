"""Mistakes that come in families and belong to more than one exercise."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

_AS_THEY_ARE = " They go into it as they are: anything else changes how the weights are shared out."

# What can be done to scores before the softmax: what to tell the learner, and what is done.
OTHER_SCORES: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    name: (told + _AS_THEY_ARE, change)
    for name, told, change in (
        ("scores-doubled", "You double the scores before the softmax.", lambda s: s * 2),
        ("scores-halved", "You halve the scores before the softmax.", lambda s: s / 2),
        ("scores-divided-by-ten", "You divide the scores by ten before the softmax.", lambda s: s / 10),
        ("scores-rectified", "Negative scores become zero before the softmax.", Tensor.relu),
        ("scores-squashed", "You squash the scores with a tanh before the softmax.", Tensor.tanh),
        ("scores-to-sigmoids", "You squash the scores with a sigmoid first.", Tensor.sigmoid),
        ("scores-without-sign", "You take the absolute values of the scores first.", Tensor.abs),
        ("scores-squared", "You square the scores before the softmax.", Tensor.square),
        ("scores-exponentiated", "You raise e to the scores before the softmax.", Tensor.exp),
    )
}
