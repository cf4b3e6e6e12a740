"""Exercise 4.2. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

import math
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


def _block_matrix(angle: Any) -> Any:
    """Build the matrix that turns every pair by its angle."""
    blocks: list[Any] = [
        torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]) for a in angle.tolist()
    ]
    return torch.block_diag(*blocks)  # type: ignore[no-untyped-call]


def _matrix_with_base(base: float) -> Any:
    def block(offset: int, d_model: int) -> Any:
        check_even(d_model)
        return _block_matrix(_waves(torch.tensor([offset]), d_model, base)[0])

    return block


for _name, _base in _OTHER_BASES.items():
    wrong(f"base-{_name}", _other_base(_name))(_matrix_with_base(_base))


@wrong(
    "offset-not-times-the-frequency",
    "Your angles are the frequencies plus the offset. A pair turns by its frequency for every step: "
    "the angle is a product.",
)
def offset_not_times_the_frequency(offset: int, d_model: int) -> Any:
    check_even(d_model)
    return _block_matrix(offset + 10000 ** (-_columns(d_model) / d_model))


_FREQUENCIES_REVERSED = (
    "Your frequencies stand in reverse order: the slowest wave comes first. The exponent starts at 0 "
    "and grows from pair to pair."
)


@wrong("frequencies-reversed", _FREQUENCIES_REVERSED)
def matrix_frequencies_reversed(offset: int, d_model: int) -> Any:
    check_even(d_model)
    return _block_matrix(_waves(torch.tensor([offset]), d_model)[0].flip(-1))


@wrong(
    "moved-half-as-far",
    "Your matrix moves by half the offset. The angle of a pair is the offset times its frequency.",
)
def moved_half_as_far(offset: int, d_model: int) -> Any:
    check_even(d_model)
    return _block_matrix(_waves(torch.tensor([offset / 2]), d_model)[0])


def _overlapping(count: int, exponent: float, add: bool) -> Any:
    """Put blocks one column apart: one a pair, or count less than there are columns."""

    def block(offset: int, d_model: int) -> Any:
        check_even(d_model)
        matrix = torch.zeros(d_model, d_model)
        for i in range(d_model - count if count else d_model // 2):
            angle = torch.tensor(offset / 10000 ** (exponent * i / d_model))
            turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(2, 2)
            here = matrix[i : i + 2, i : i + 2]
            here.copy_(here + turn if add else turn)
        return matrix

    return block


_APART = "A pair takes two columns, so that no two blocks share one."


for _name, _told, _block in (
    (
        "blocks-overlap",
        "Your blocks stand one column apart, so each overwrites a part of the one before.",
        _overlapping(0, 2, add=False),
    ),
    (
        "blocks-overlap-and-add-up",
        "Your blocks stand one column apart, and their entries add up where they overlap.",
        _overlapping(0, 2, add=True),
    ),
    (
        "a-block-at-every-column",
        "You put a block at every column, each over a part of the one before.",
        _overlapping(1, 1, add=False),
    ),
    (
        "a-block-at-every-column-of-a-pair",
        "You put a block at every column, with the frequencies of twice as many, each over a part of "
        "the one before.",
        _overlapping(1, 2, add=False),
    ),
):
    wrong(_name, f"{_told} {_APART}")(_block)
