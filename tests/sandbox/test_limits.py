"""Limits hold for each exercise, and memory has one without a sandbox, too."""

from __future__ import annotations

import torch
from small_notebook import RIGHT

from lab_check.exercises import catalogue
from lab_grader.grading.engines import Task, run_locally
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


SLOW = """
import time

import torch

slept = False


def causal_mask(length):
    global slept
    if not slept:
        slept = time.sleep(1.5) or True
    return torch.ones(length, length, dtype=torch.bool).tril()
"""
GREEDY_AND_RIGHT = SLOW.replace("time.sleep(1.5)", "len(torch.empty(2**40, dtype=torch.uint8))")


def test_who_takes_long_or_much_memory_comes_last_and_may_have_both() -> None:
    quick = SLOW.replace("1.5", "0")
    others = {f"quick-{n}": quick for n in range(6)}
    files = {"quick": quick, "slow": SLOW, "greedy": GREEDY_AND_RIGHT} | others
    tasks = [
        Task(
            HandedIn(student, {"masking.py": text.encode()}), ("6.1",),
            Conditions("full", 7, {id: Limits(5.0) for id in catalogue()}),
        )
        for student, text in files.items()
    ]  # fmt: skip
    ended = {task.submission.student: grades[0] for task, grades in run_locally(tasks, 1)}
    assert list(ended)[-2:] == ["slow", "greedy"]
    assert {grade.status for student, grade in ended.items() if student != "greedy"} == {"right"}
    assert ended["greedy"].status == "memory"


def test_memory_has_a_limit_without_a_sandbox() -> None:
    (only,) = graded("process", {"2.2": Limits(20.0, 2 * 2**30)})
    assert (only.status, only.points) == ("memory", 0.0)
