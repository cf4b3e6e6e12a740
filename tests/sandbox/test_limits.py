"""Limits hold for each exercise, and memory has one without a sandbox, too."""

from __future__ import annotations

import torch
from small_notebook import RIGHT

from lab_check.exercises import catalogue
from lab_grader.grading.judging.judge import grade
from lab_grader.grading.model import Conditions, Grade, HandedIn, Limits
from lab_grader.grading.sandbox.confined import open_host

# Address space is what is bounded: nothing of it needs to be touched.
GREEDY = b"""

_softmax, _split_heads = softmax, split_heads


def softmax(scores, dim=-1):
    torch.empty(3 * 2**30, dtype=torch.uint8)
    return _softmax(scores, dim)


def split_heads(x, n_heads):
    torch.empty(3 * 2**30, dtype=torch.uint8)
    return _split_heads(x, n_heads)
"""


def graded(level: str, limits: dict[str, Limits], more: bytes = GREEDY) -> list[Grade]:
    torch.set_num_threads(1)
    files = RIGHT | {"attention.py": RIGHT["attention.py"] + more}
    exercises = [catalogue()[id] for id in limits]
    with open_host(level) as host:
        line = host.line(files, Limits())
        try:
            student = HandedIn("student-01", files)
            return grade(student, exercises, line, Conditions(level, 7, limits))
        finally:
            line.close()


def test_every_exercise_has_its_own_memory() -> None:
    limits = {"2.2": Limits(20.0, 2 * 2**30), "3.3": Limits(20.0, 6 * 2**30)}
    first, second = graded("full", limits)
    assert (first.status, first.points) == ("memory", 0.0)
    assert second.status == "right"


LOOP = b"""

_split_heads = split_heads


def softmax(scores, dim=-1):
    while True: pass


def split_heads(x, n_heads):
    global slept
    if not slept:
        slept = __import__("time").sleep(1.5) or True
    return _split_heads(x, n_heads)


slept = False
"""


def test_a_loop_takes_nothing_from_another_exercise() -> None:
    limits = {"2.2": Limits(2.0), "3.3": Limits(5.0)}
    first, second = graded("full", limits, LOOP)
    assert (first.status, first.points) == ("timeout", 0.0)
    assert second.status == "right", second.feedback


def test_memory_has_a_limit_without_a_sandbox() -> None:
    (only,) = graded("process", {"2.2": Limits(20.0, 2 * 2**30)})
    assert (only.status, only.points) == ("memory", 0.0)
