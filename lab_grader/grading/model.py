"""What grading speaks of: submissions, and the grade of one exercise of one of them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import traceback
from dataclasses import asdict, dataclass, field
from typing import Any

from lab_check.errors import UserError
from lab_check.exercises import Exercise, catalogue

NOTEBOOK = "notebook"
# Under this name a grade of status `unexpected` keeps, for the instructor, where grading itself failed.
TRACEBACK = "traceback"
_LONGEST = 8000
# How nbval, in a process of its own, is told of a notebook, and the file in which it tells of cells.
NOTEBOOK_FACTS, NOTEBOOK_CELLS = "LAB_NOTEBOOK", "cells.jsonl"
# A status other than these two comes with a sentence that says what happened.
RIGHT, WRONG, UNREADABLE = "right", "wrong", "unreadable"
STATUSES = (
    RIGHT, WRONG, "not_started", "waiting", "error", "timeout", "crashed", "memory", "refused",
    UNREADABLE,
    "unexpected",
)  # fmt: skip

# What decides how PyTorch rounds, beside the machine.
_ROUNDING = ("ATEN_CPU_CAPABILITY", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")


def rounding() -> dict[str, str]:
    """Give what the environment says of rounding, so that judge and workers all round alike."""
    return {name: os.environ[name] for name in _ROUNDING if name in os.environ}


# How a submission is kept apart, from the weakest level on.
LEVELS = ("process", "reduced", "full")


@dataclass(frozen=True)
class HandedIn:
    """What one student handed in, reduced to the files of their package.

    `files` maps a name below `lab_transformer/` to its bytes. `notes` say what was understood of what
    was found, for the report. `user` is the number that Canvas or Moodle has for the student, `entry`
    the sum of all code and notebooks that were handed in.
    """

    student: str
    files: dict[str, bytes]
    source: str = ""
    submitted_at: str = ""
    notes: tuple[str, ...] = ()
    user: str = ""
    entry: str = ""
    unreadable: str = ""  # why nothing of what was handed in could be read
    missing: bool = False  # on the roster, and nothing was handed in
    rostered: bool | None = None  # None where there is no roster

    @property
    def digest(self) -> str:
        """Sum up the files: the same files need no second grading."""
        hashed = hashlib.sha256()
        for name in sorted(self.files):
            content = self.files[name]
            hashed.update(f"{len(name)} {name} {len(content)} ".encode() + content)
        return hashed.hexdigest()


@dataclass(frozen=True)
class Refused:
    """Something among the submissions that could not be understood."""

    source: str
    reason: str
    student: str = ""
    trouble: str = ""  # the traceback, where it was the grader that failed
    user: str = ""


@dataclass(frozen=True)
class Limits:
    """What a submission may use while one property is tried."""

    seconds: float = 5.0
    memory: int = 2 * 2**30


@dataclass(frozen=True)
class Conditions:
    """How exercises are tried: what code may use, by exercise, how it is kept apart, and the seed."""

    isolation: str
    seed: int
    limits: dict[str, Limits]


def stable_key(*facts: Any) -> str:
    """Sum up facts, dataclasses among them: the same facts have the same key in every run."""
    text = json.dumps(facts, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _plain(fact: Any) -> Any:
    return asdict(fact) if dataclasses.is_dataclass(fact) and not isinstance(fact, type) else str(fact)


@dataclass(frozen=True)
class Grade:
    """One line of `results.jsonl`: an exercise of a student, or the notebook of a week."""

    student: str
    week: int
    exercise: str
    block: str
    status: str
    points: float
    max_points: float
    passed: list[str]
    failed: list[str]
    diagnosis: dict[str, str] | None
    feedback: str
    isolation: str
    seconds: float
    digest: str
    extra: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Give the line as a dictionary, extra facts beside the others."""
        facts = dict(vars(self))
        extra: dict[str, Any] = facts.pop("extra")
        return facts | extra


def counted(number: int, thing: str) -> str:
    """Count things in words."""
    return f"{number} {thing}{'s' * (number != 1)}"


def notebook_id(week: int) -> str:
    """Give the id under which the notebook of a week stands among the exercises."""
    return f"{week}.{NOTEBOOK}"


def is_notebook(id: str) -> bool:
    """Tell the id of a notebook from that of an exercise."""
    return id.endswith(f".{NOTEBOOK}")


def order(id: str) -> tuple[int, ...]:
    """Give an id as numbers to sort by; a notebook comes after the exercises of its week."""
    return tuple(int(part) if part != NOTEBOOK else 10**6 for part in id.split("."))


def title(id: str) -> str:
    """Give the title of an exercise or a notebook."""
    if is_notebook(id):
        return f"The notebook of week {id.partition('.')[0]}"
    return catalogue()[id].title


def refused(submission: HandedIn, exercise: Exercise, reason: str, isolation: str) -> Grade:
    """Grade an exercise that could not be tried at all."""
    return Grade(
        submission.student, exercise.week, exercise.id, exercise.block, refused_as(submission), 0.0,
        exercise.points, [], [], None, reason, isolation, 0.0, submission.digest,
    )  # fmt: skip


def refused_as(submission: HandedIn) -> str:
    """Give the status of what could not be tried."""
    return UNREADABLE if submission.unreadable else "refused"


def unexpected(submission: HandedIn, exercise: Exercise, error: BaseException, isolation: str) -> Grade:
    """Grade an exercise on which grading itself failed."""
    reason, extra = explained(error)
    return dataclasses.replace(
        refused(submission, exercise, reason, isolation), status="unexpected", extra=extra
    )


def explained(error: BaseException) -> tuple[str, dict[str, str]]:
    """Say that grading itself failed: a sentence for the student, and details for the instructor."""
    # Errors of our own are written for people; others may quote hidden numbers.
    what = str(error) if isinstance(error, UserError) else f"the grader met a {type(error).__name__}"
    reason = f"This could not be graded: {what}. Your instructor has the details."
    where = "".join(traceback.format_exception(error))[-_LONGEST:]
    # What a stranger had a part in may hold half characters, which no file can.
    return reason, {TRACEBACK: where.encode("utf-8", "backslashreplace").decode("utf-8")}
