"""Small classes to grade, and grades made by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from lab_check.exercises import catalogue
from lab_grader.grading.model import Grade

MASK = "import torch\n\n\ndef causal_mask(length):\n    return torch.ones(length, length).{}().bool()\n"
RIGHT, WRONG = MASK.format("tril"), MASK.format("triu")
# A name, code and words as someone would write them who wants more than points.
HOSTILE = "=<script>document.title='taken'</script>"


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "lab_grader", *map(str, words)]


def grade_command(folder: Path, out: Path, *more: object) -> list[str]:
    """Grade exercise 6.1, whose bank is small, with one seed."""
    fixed = ["--exercises", "6.1", "--isolation", "process", "--seed", 7]
    return command("grade", folder, "--out", out, *fixed, *more)


def run(words: list[str]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(words, capture_output=True, text=True, env=environment, check=False)


def lines(out: Path) -> list[dict[str, Any]]:
    """Read `results.jsonl` but for the seconds, which no two runs share."""
    text = (out / "results.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) | {"seconds": 0} for line in text.splitlines()]


def write_class(folder: Path) -> Path:
    folder.mkdir()
    for number, text in enumerate([RIGHT, WRONG, RIGHT], 1):
        (folder / f"student-{number:02}.py").write_text(text)
    return folder


def a_grade(student: str, exercise: str, points: float, **facts: Any) -> Grade:
    block = catalogue()[exercise]
    right = points == block.points
    given: dict[str, Any] = {
        "status": "right" if right else "wrong",
        "passed": ["it has the right shape"] if right else [],
        "failed": [] if right else ["the numbers are right"],
        "diagnosis": None,
        "feedback": f"{exercise}: {points} points",
    }
    return Grade(
        student=student, week=block.week, exercise=exercise, block=block.block, points=points,
        max_points=block.points, isolation="full", seconds=0.1, digest="0", **given | facts,
    )  # fmt: skip
