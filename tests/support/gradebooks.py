"""Gradebooks that were filled by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_class import HOSTILE, a_grade

from lab_grader.grading.gradebook import reports
from lab_grader.grading.gradebook.book import Gradebook
from lab_grader.grading.model import Grade, HandedIn, Refused

TURN = {"name": "inverted", "kind": "turn", "message": "It is the wrong way round."}


def a_class(folder: Path, *grades: Grade) -> Gradebook:
    """Enter grades of students, all of whom handed in something of their own, and write the pages."""
    book = Gradebook(folder / "grades")
    students = dict.fromkeys(grade.student for grade in grades)
    handed_in = {one: HandedIn(one, {"masking.py": one.encode()}) for one in students}
    book.receive(handed_in.values(), [])
    for grade in grades:
        book.enter(handed_in[grade.student], [(grade, "key")])
    reports.write(book.folder, book)
    return book


def feedback(out: Path, student: str) -> Path:
    return out / "feedback" / f"{reports.file_name(student)}.html"


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Gradebook]:
    """Three students, two exercises; the last student is hostile."""
    code = f'def causal_mask(length):\n    "</pre>{HOSTILE}"\n    return 1 / 0\n'
    files = {"masking.py": code.encode()}
    book = Gradebook(tmp_path / "grades")
    names = ["student-01", "student-02", HOSTILE]
    sources = ["student-01_8123_99_masking-2.py", "student-02.py", "x"]
    handed_in = [
        HandedIn(name, files, source, notes=(HOSTILE,) if name == HOSTILE else ())
        for name, source in zip(names, sources, strict=True)
    ]
    book.receive(handed_in, [Refused(f"{HOSTILE}.zip", f"it holds {HOSTILE}")])
    where = f"ZeroDivisionError: {HOSTILE}\n  at lab_transformer/masking.py, line 3: return 1 / 0"
    wrong = {
        "diagnosis": {"name": "upper-triangle", "kind": "turn", "message": HOSTILE},
        "feedback": where,
    }
    for one, points in zip(handed_in, [2.0, 0.5, 0.0], strict=True):
        facts = wrong if one.student == HOSTILE else {}
        grades = [a_grade(one.student, "6.1", points, **facts), a_grade(one.student, "8.2", 2.0)]
        book.enter(one, [(grade, "key") for grade in grades])
    yield book
    book.close()


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Gradebook]:
    """A student who began with week 3, and whose notebook of the week differs."""
    book = Gradebook(tmp_path / "grades")
    one = HandedIn("student-01", {})
    book.receive([one], [])
    wrong = a_grade("student-01", "3.2", 1.0)
    grades = [
        a_grade("student-01", "1.1", 0.0, status="not_started", failed=[]),
        wrong,
        dataclasses.replace(
            wrong, exercise="3.notebook", failed=["cell 5"], feedback="✗ cell 5\n  it prints 7, not 8"
        ),
    ]
    book.enter(one, [(grade, "key") for grade in grades])
    reports.write(book.folder, book)
    yield book
    book.close()


@pytest.fixture
def out(filled: Gradebook) -> Path:
    reports.write(filled.folder, filled)
    return filled.folder
