"""Whatever happens to the judge costs one exercise of one student, and is kept for the instructor."""

from __future__ import annotations

import functools
import resource
import time
from pathlib import Path

import pytest
import torch
from near import Near
from small_notebook import RIGHT as PACKAGE
from small_notebook import prepared

from lab_check import card
from lab_check.calling.calls import import_block
from lab_check.calling.failures import TimeIsUp
from lab_check.diagnosing.turns import KnownTurns
from lab_check.exercises import catalogue
from lab_grader import bank
from lab_grader.grading import engines
from lab_grader.grading.engines import Task, grade_task
from lab_grader.grading.judging import budget, judge
from lab_grader.grading.model import TRACEBACK, Conditions, Grade, HandedIn, Limits
from lab_grader.grading.notebooks import week_notebook
from lab_grader.grading.sandbox.confined import open_host


def nothing_known(*_: object) -> KnownTurns:
    return KnownTurns({}, [], {})


def graded(ids: list[str], block: object = None) -> list[Grade]:
    """Grade exercises of a submission that is right, but for one block."""
    line = Near(functools.partial(bank.backend, ids[0], block or _right(ids[0])))
    limits = {id: Limits() for id in ids}
    try:
        return judge.grade(
            HandedIn("student-01", PACKAGE), [catalogue()[id] for id in ids], line,
                Conditions("process", 7, limits),
        )  # fmt: skip
    finally:
        line.close()


def _right(id: str) -> object:
    return import_block(catalogue()[id].module, catalogue()[id].name)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "_known", nothing_known)


@pytest.mark.parametrize("error", [KeyError("x"), RecursionError(), MemoryError()], ids=repr)
def test_an_error_of_our_own_costs_one_exercise(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [error]

    def text(result: object, whole: bool) -> str:
        if errors:
            raise errors.pop()
        return "fine"

    monkeypatch.setattr(card, "text", text)
    first, second = graded(["6.1", "6.2"])
    assert (first.status, first.points) == ("unexpected", 0.0)
    assert type(error).__name__ in first.feedback
    assert "in text" in first.extra[TRACEBACK]
    assert second.status == "right"


def test_an_error_in_diagnosis_costs_one_exercise(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> KnownTurns:
        raise TypeError("not sorted")

    monkeypatch.setattr(judge, "_known", broken)
    first, second = graded(["6.1", "6.2"], lambda length: torch.ones(length, length).bool())
    assert (first.status, first.points) == ("unexpected", 0.0)
    assert second.status == "right"


def test_an_error_with_a_notebook_costs_the_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Grade:
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "half a character")

    monkeypatch.setattr(week_notebook, "grade", broken)
    monkeypatch.setattr(judge, "grade", lambda *_: [])
    monkeypatch.setattr(engines, "_host", open_host)
    task = Task(
        HandedIn("student-01", PACKAGE), ("6.1",),
        Conditions("process", 7, {"6.1": Limits()}), (prepared(tmp_path),),
    )  # fmt: skip
    (grade,) = grade_task(task)
    assert (grade.exercise, grade.status, grade.points) == ("6.notebook", "unexpected", 0.0)
    grade.extra[TRACEBACK].encode()


def test_work_of_the_judge_ends_at_the_deadline() -> None:
    def work() -> None:
        with budget.until(time.monotonic() + 0.05):
            while True:
                pass

    with pytest.raises(TimeIsUp):
        work()
    with budget.until(time.monotonic() + 60):
        pass


def test_what_must_not_be_disturbed_is_not() -> None:
    with budget.until(time.monotonic()), budget.undisturbed():
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            pass


@pytest.mark.linux  # macOS ignores the limit
def test_the_judge_has_a_limit_of_memory() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with budget.bounded_memory(), pytest.raises(MemoryError):
        bytearray(2 * budget.MEMORY)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_a_property_that_hangs_is_given_up_and_a_submission_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A deadline that has passed is all that a hanging worker is to the judge."""
    monkeypatch.setattr(judge, "_SUBMISSION", 0)
    (grade,) = graded(["6.1"])
    assert (grade.status, grade.points) == ("timeout", 0.0)
    assert "this submission has taken too long" in grade.feedback
