"""How a submission that attacks is made."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from lab_grader.course.grading.model import Grade

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PACKAGE = {path.name: path.read_bytes() for path in (ROOT / "lab_transformer").glob("*.py")}
Judged = Callable[..., Grade]


def attack(file: str, softmax: str) -> dict[str, bytes]:
    """Make a submission of the right package, the text of a file, and another softmax."""
    places = f"\nROOT, JUDGE = {str(ROOT)!r}, {os.getpid()}\n"
    text = PACKAGE["attention.py"].decode() + (HERE / file).read_text() + places + softmax
    return PACKAGE | {"attention.py": text.encode()}


def functions(file: str) -> list[str]:
    lines = (HERE / file).read_text().splitlines()
    names = [line.removeprefix("def ").partition("(")[0] for line in lines if line.startswith("def ")]
    return [name for name in names if not name.startswith("_") and name != "ends_as"]
