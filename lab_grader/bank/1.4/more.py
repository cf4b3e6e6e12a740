"""Exercise 1.4. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

from typing import Any

import torch

from lab_grader.bank.engine import Wrong
from lab_transformer.rnn import rnn_cell as reference_cell

wrong = Wrong()


_ONE_BATCH_AXIS = (
    "Your code takes it that axis 0 is the batch and axis 1 the sequence. There may be no batch, or "
    "several axes in front of seq: count axes from the end."
)


def _walk(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> list[Any]:
    """Collect the states of words that come one by one."""
    states = [h0]
    for x in xs:
        states.append(reference_cell(x, states[-1], w_x, w_h, b))
    return states[1:]


@wrong("cell-along-axis-one", _ONE_BATCH_AXIS)
def cell_along_axis_one(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    states = _walk([xs[:, t] for t in range(xs.shape[1])], h0, w_x, w_h, b)
    return torch.stack(states, dim=1), states[-1]


@wrong("three-axes-indexed", _ONE_BATCH_AXIS)
def three_axes_indexed(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    states = _walk([xs[:, t, :] for t in range(xs.shape[1])], h0, w_x, w_h, b)
    return torch.stack(states, dim=1), states[-1]


@wrong(
    "states-made-into-numbers",
    "You make a tensor from a list of tensors as if they were plain numbers. Tensors that exist "
    "already are put together by stacking them, which keeps their gradients.",
)
def states_made_into_numbers(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    states = _walk(xs.unbind(dim=-2), h0, w_x, w_h, b)
    return torch.tensor([float(state.detach()) for state in states]), states[-1]


@wrong(
    "room-for-one-sentence",
    "The tensor in which you collect the states has room for one sentence only. Whatever axes stand in "
    "front of seq stand in front of the states, too.",
)
def room_for_one_sentence(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    states = _walk(xs.unbind(dim=-2), h0, w_x, w_h, b)
    room = xs.new_zeros(len(states), w_h.shape[-1])
    for t, state in enumerate(states):
        room[t] = state
    return room, states[-1]


@wrong(
    "words-added-up",
    "Every step gets the sum of all words so far. The state is what remembers: each step gets its own "
    "word only.",
)
def words_added_up(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    states = _walk(xs.cumsum(dim=-2).unbind(dim=-2), h0, w_x, w_h, b)
    return torch.stack(states, dim=-2), states[-1]


@wrong(
    "two-steps-a-word",
    "You take two steps for every word. One word is one step of the cell: look for a second call.",
)
def two_steps_a_word(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    words = [x for x in xs.unbind(dim=-2) for _ in range(2)]
    states = _walk(words, h0, w_x, w_h, b)[1::2]
    return torch.stack(states, dim=-2), states[-1]


@wrong(
    "last-state-twice",
    "You return the last state twice. The first result are all states, one for every step: collect "
    "them on the way.",
)
def last_state_twice(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    last = _walk(xs.unbind(dim=-2), h0, w_x, w_h, b)[-1]
    return last, last
