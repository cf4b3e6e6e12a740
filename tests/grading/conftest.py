"""A gradebook that was filled by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_class import HOSTILE, a_grade

from lab_grader.grading.gradebook.book import Gradebook
from lab_grader.grading.model import HandedIn, Refused


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
