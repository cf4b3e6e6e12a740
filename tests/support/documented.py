"""What other systems document of the files that they read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab_grader.grading.gradebook import exports
from lab_grader.grading.gradebook.book import Gradebook

# gradescope-autograders.readthedocs.io/en/latest/specs, "Output format"
VISIBILITY = {"hidden", "after_due_date", "after_published", "visible"}
FORMATS = {"text", "html", "simple_format", "md", "ansi"}
TOP = {"score", "execution_time", "output", "output_format", "test_output_format", "test_name_format",
       "visibility", "stdout_visibility", "extra_data", "tests", "leaderboard"}  # fmt: skip
CASE = {"score", "max_score", "status", "name", "name_format", "number", "output", "output_format",
        "tags", "visibility", "extra_data"}  # fmt: skip


def exported(book: Gradebook, to: str) -> Path:
    assert exports.export(book.folder, to, None) == 0
    return book.folder / "export"


def check_gradescope(result: dict[str, Any]) -> None:
    assert result.keys() <= TOP
    assert isinstance(result["score"], int | float)
    assert {result["visibility"], result["stdout_visibility"]} <= VISIBILITY
    assert {result[key] for key in result if key.endswith("_format")} <= FORMATS
    for case in result["tests"]:
        assert case.keys() <= CASE
        assert 0 <= case["score"] <= case["max_score"]
        assert case["status"] in ("passed", "failed")
        assert isinstance(case["name"], str)
        assert isinstance(case["output"], str)
