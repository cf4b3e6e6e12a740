"""A judge's process that is ended costs who ended it, and nobody else."""

from __future__ import annotations

import os

import pytest
from small_class import RIGHT

from lab_grader.grading import engines
from lab_grader.grading.engines import Task, run_locally
from lab_grader.grading.model import Conditions, Grade, HandedIn


# A student of this name ends the process that grades it.
def _ends(task: Task, patient: bool) -> list[Grade]:
    if task.submission.student == "student-03":
        os._exit(1)
    return []


def test_who_ends_the_judge_is_found_and_others_are_graded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_grade_task", _ends)
    tasks = [
        Task(
            HandedIn(f"student-{number:02}", {"masking.py": RIGHT.encode()}), ("6.1",),
            Conditions("process", 7, {}),
        )
        for number in range(6)
    ]  # fmt: skip
    results = {task.submission.student: grades for task, grades in run_locally(tasks, 2)}
    assert len(results) == 6
    (lost,) = results.pop("student-03")
    assert lost.status == "unexpected"
    assert "ended the judge's process twice" in lost.feedback
    assert all(grades == [] for grades in results.values())
