"""Exercise 4.4. Mistakes that are computed or share a frame: a line says what differs."""

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


def _turned(x: Any, angle: Any) -> Any:
    """Turn all pairs by these angles."""
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


def _turns_with_base(base: float) -> Any:
    def block(x: Any, positions: Any) -> Any:
        check_even(x.shape[-1], "d_head")
        return _turned(x, _waves(positions, x.shape[-1], base))

    return block


for _name, _base in _OTHER_BASES.items():
    wrong(f"base-{_name}", _other_base(_name))(_turns_with_base(_base))


@wrong(
    "multiplied-by-waves-cosines-first",
    "You multiply the columns by cosines and sines in turn. A turn mixes the two columns of a pair: "
    "each new number needs both old ones.",
)
def multiplied_by_waves(x: Any, positions: Any) -> Any:
    check_even(x.shape[-1], "d_head")
    angle = _waves(positions, x.shape[-1])
    return x * torch.stack([angle.cos(), angle.sin()], dim=-1).flatten(-2).to(x.dtype)


@wrong(
    "batch-axis-added",
    "Your angles have a batch axis of their own, so a single sentence comes out with an axis too many. "
    "Angles for words and pairs broadcast by themselves to whatever stands in front.",
)
def batch_axis_added(x: Any, positions: Any) -> Any:
    check_even(x.shape[-1], "d_head")
    return _turned(x, _waves(positions, x.shape[-1]).unsqueeze(0))


@wrong(
    "positions-divided",
    "You divide the positions by the largest one or by their number, so that all turns are small. The "
    "angle is the position itself times the frequency: otherwise the same distance would be another "
    "angle in another sentence.",
)
def positions_divided(x: Any, positions: Any) -> Any:
    check_even(x.shape[-1], "d_head")
    return _turned(x, _waves(positions / positions.max().clamp(min=1), x.shape[-1]))


@wrong(
    "positions-divided-by-the-length",
    "You divide the positions by the number of words, so that all turns are small. The angle is the "
    "position itself times the frequency: otherwise the same distance would be another angle in "
    "another sentence.",
)
def positions_divided_by_the_length(x: Any, positions: Any) -> Any:
    check_even(x.shape[-1], "d_head")
    return _turned(x, _waves(positions / len(positions), x.shape[-1]))


_FREQUENCIES_REVERSED = (
    "Your frequencies stand in reverse order: the slowest wave comes first. The exponent starts at 0 "
    "and grows from pair to pair."
)


@wrong("frequencies-reversed", _FREQUENCIES_REVERSED)
def turned_frequencies_reversed(x: Any, positions: Any) -> Any:
    check_even(x.shape[-1], "d_head")
    return _turned(x, _waves(positions, x.shape[-1]).flip(-1))


@wrong(
    "position-plus-frequency",
    "Your angles are positions plus frequencies. A pair turns by its frequency for every position: the "
    "angle is a product.",
)
def position_plus_frequency(x: Any, positions: Any) -> Any:
    check_even(x.shape[-1], "d_head")
    width = x.shape[-1]
    return _turned(x, positions.double()[:, None] + 10000 ** (-_columns(width) / width))
