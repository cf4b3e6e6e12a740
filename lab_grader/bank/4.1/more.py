"""Exercise 4.1. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

from typing import Any

import torch

from lab_grader.bank.engine import Wrong
from lab_transformer._checks import check_even

wrong = Wrong()


def _columns(width: int) -> Any:
    return torch.arange(0, width, 2, dtype=torch.float64)


# Any other base: which one it is cannot be seen from afar, that it is another can.
_OTHER_BASES = {"500000": 500000.0, "2": 2.0, "10": 10.0}


def _other_base(base: str) -> str:
    return (
        f"Your base is {base}. The waves of this course have the base 10000: look at the number that "
        "is raised to a power."
    )


def _waves(position: Any, width: int, base: float = 10000.0) -> Any:
    """Give the angles of all positions and pairs."""
    return torch.outer(position.double(), base ** (-_columns(width) / width))


def _table(one: Any, other: Any) -> Any:
    return torch.stack([one, other], dim=-1).flatten(-2).to(torch.get_default_dtype())


def _table_with_base(base: float) -> Any:
    def block(length: int, d_model: int) -> Any:
        check_even(d_model)
        angle = _waves(torch.arange(length), d_model, base)
        return _table(angle.sin(), angle.cos())

    return block


for _name, _base in _OTHER_BASES.items():
    wrong(f"base-{_name}", _other_base(_name))(_table_with_base(_base))


@wrong(
    "odd-columns-empty",
    "Every odd column of your table is zero. Each sine has its cosine beside it: the odd columns hold "
    "the cosines of the same angles.",
)
def odd_columns_empty(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(length), d_model)
    return _table(angle.sin(), angle.cos() * 0)


@wrong(
    "even-columns-empty",
    "Every even column of your table is zero. The even columns hold the sines of the angles, and each "
    "has its cosine beside it.",
)
def even_columns_empty(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(length), d_model)
    return _table(angle.sin() * 0, angle.cos())


@wrong(
    "sines-turned",
    "Your sines have the wrong sign: the angles run backwards, or a minus stands before the sine. The "
    "angle of a position is the position times the frequency, both positive.",
)
def sines_turned(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(length), d_model)
    return _table(-angle.sin(), angle.cos())


@wrong(
    "cosines-turned",
    "Your cosines have the wrong sign. Position 0 has sines of zero and cosines of one: look for a "
    "minus before the cosine.",
)
def cosines_turned(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(length), d_model)
    return _table(angle.sin(), -angle.cos())


@wrong(
    "sizes-exchanged",
    "Length and width have changed places: your table has d_model positions and is as wide as the "
    "sequence is long. Rows are positions, columns are waves.",
)
def sizes_exchanged(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(d_model), length)
    return _table(angle.sin(), angle.cos())[:, :length]


@wrong(
    "twice-as-wide",
    "Your table has twice as many columns as asked for: a sine and a cosine for every column. Pairs "
    "share a frequency, so there are d_model / 2 of them.",
)
def twice_as_wide(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(length), 2 * d_model)
    return _table(angle.sin(), angle.cos())


@wrong(
    "positions-along-the-pairs",
    "Positions and frequencies meet entry by entry, and their axes do not line up. Every position "
    "meets every frequency: one of the two needs an axis of its own.",
)
def positions_along_the_pairs(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = torch.arange(length) * 10000 ** (-_columns(d_model) / d_model)
    return _table(angle.sin(), angle.cos())


@wrong(
    "counted-from-the-middle",
    "Your positions are counted from the middle of the sequence. The first position is 0, so that a "
    "word's vector does not depend on how long the sentence is.",
)
def counted_from_the_middle(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(length) - length // 2, d_model)
    return _table(angle.sin(), angle.cos())


@wrong(
    "frequencies-on-a-line",
    "Your frequencies fall along a straight line, from 1 towards 0. They fall by the same factor from "
    "pair to pair: powers of the base.",
)
def frequencies_on_a_line(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = torch.outer(torch.arange(length).double(), 1 - _columns(d_model) / d_model)
    return _table(angle.sin(), angle.cos())


_FREQUENCIES_REVERSED = (
    "Your frequencies stand in reverse order: the slowest wave comes first. The exponent starts at 0 "
    "and grows from pair to pair."
)


@wrong("frequencies-reversed", _FREQUENCIES_REVERSED)
def frequencies_reversed(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(length), d_model).flip(-1)
    return _table(angle.sin(), angle.cos())
