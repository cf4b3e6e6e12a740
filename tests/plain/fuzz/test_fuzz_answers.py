"""Whatever a worker answers: there is a grade with a reason that can be written."""

from __future__ import annotations

import itertools
import json

import torch
from hypothesis import given
from hypothesis import strategies as st
from stranger import Stranger, anything, framed, said

from lab_check.exercises import catalogue
from lab_grader.grading.judging import judge
from lab_grader.grading.model import STATUSES, Conditions, HandedIn, Limits

# A function of a tensor, one of numbers, one that is given a function, a set of pairs, a class.
EXERCISES = ["2.2", "6.1", "5.3", "3.5"]
FILES = {f"{catalogue()[id].module}.py": b"x = 1\n" for id in EXERCISES}


@given(st.sampled_from(EXERCISES), st.lists(said | anything, min_size=1, max_size=4))
def test_every_answer_gives_a_grade(id: str, answers: list[bytes]) -> None:
    torch.set_num_threads(1)
    turn = itertools.cycle(answers)
    line = Stranger(lambda id: framed(id, next(turn)))
    (grade,) = judge.grade(
        HandedIn("student-01", FILES), [catalogue()[id]], line, Conditions("process", 7, {id: Limits()})
    )
    assert grade.status in STATUSES
    assert grade.status != "unexpected", grade.extra
    assert grade.feedback
    text = json.dumps(grade.to_json(), ensure_ascii=False, allow_nan=False).encode()
    assert len(text) < 200_000
