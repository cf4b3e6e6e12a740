"""Exercise 2.2. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

from typing import Any

from lab_grader.bank.engine import Wrong
from lab_grader.bank.families import OTHER_SCORES

wrong = Wrong()


def _softmax_of(change: Any) -> Any:
    return lambda scores, dim=-1: change(scores).softmax(dim=dim)


for _name, (_told, _change) in OTHER_SCORES.items():
    wrong(_name, _told)(_softmax_of(_change))
