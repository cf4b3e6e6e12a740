"""One sandbox for all attacks, and the grade of a submission in it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch
from attacking import SEED, Judged

from lab_check.exercises import catalogue
from lab_grader.grading.judging.judge import grade
from lab_grader.grading.model import Conditions, Grade, HandedIn, Limits
from lab_grader.grading.sandbox.confined import Sandbox


@pytest.fixture(scope="session")
def host() -> Iterator[Sandbox]:
    torch.set_num_threads(1)
    os.environ["LAB_ATTACK_SECRET"] = "do not tell"
    with Sandbox("full") as host:
        yield host


@pytest.fixture(scope="session")
def judged(host: Sandbox) -> Judged:
    def judge(files: dict[str, bytes], exercise: str = "2.2", seconds: float = 20.0) -> Grade:
        limits = Limits(seconds, memory=2**30)
        line = host.line(files, limits)
        try:
            (found,) = grade(
                HandedIn("student-01", files), [catalogue()[exercise]], line,
                Conditions(host.level, SEED, {exercise: limits}),
            )  # fmt: skip
        finally:
            line.close()
        return found

    return judge
