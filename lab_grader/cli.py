"""The `lab` command of the course: a learner's commands, and those that make and grade."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lab_check import cli
from lab_check.doctor import Finding
from lab_check.errors import UserError
from lab_check.exercises import Exercise
from lab_grader.commands import add_commands

if TYPE_CHECKING:
    from lab_check.diagnosing.turns import KnownTurns

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the `lab` command and give its exit code."""
    return cli.main(argv, cli.CourseSide(add_commands, _known, _findings))


def _known(exercise: Exercise) -> KnownTurns:
    from lab_grader import record

    return record.known(exercise)


def _findings() -> Iterator[Finding]:
    """Look at what making and grading the course needs beyond learning."""
    yield _sandbox()
    browser = next(filter(None, map(shutil.which, CHROMIUM)), None)
    yield Finding(
        "Chromium",
        browser is not None,
        browser or "not found: needed to test the book only; install the package `chromium`",
        needed=False,
    )


def _sandbox() -> Finding:
    """Confine a worker for real: that bubblewrap is installed does not mean that it may work."""
    if sys.platform != "linux":
        return Finding("sandbox", False, "full isolation needs Linux; learning does not", needed=False)
    from lab_grader.grading.sandbox.confined import open_host

    try:
        open_host("full").close()
    except UserError as error:
        return Finding("sandbox", False, str(error), needed=False)
    return Finding("sandbox", True, "full isolation works", needed=False)
