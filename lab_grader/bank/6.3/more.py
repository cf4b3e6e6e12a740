"""Exercise 6.3. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

import math
from typing import Any

import torch

from lab_grader.bank.engine import Wrong

wrong = Wrong()


def _only_added(number: float) -> Any:
    """Add a number to hidden scores, and look at nothing else."""

    def block(scores: Any, mask: Any, dim: int = -1) -> Any:
        return torch.softmax(scores + number * (~mask).to(scores.dtype), dim=dim)

    return block


_NOTHING_ELSE = (
    " A hidden score that is large enough is seen again, allowed ones that are low enough lose against "
    "it, and where nothing is allowed there are weights all the same. Only minus infinity is below "
    "every score, and a row that allows nothing needs care."
)


for _name, _told, _number in (
    ("ten-thousand-subtracted-only", "You take 10000 off hidden scores and leave it at that.", -1e4),
    ("billion-subtracted-only", "You take a billion off hidden scores and leave it at that.", -1e9),
    (
        "logarithm-of-the-mask",
        "You add the logarithm of the mask plus a small number to the scores.",
        math.log(1e-9),
    ),
):
    wrong(_name, _told + _NOTHING_ELSE)(_only_added(_number))
