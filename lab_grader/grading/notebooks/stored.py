"""The notebooks of the course made ready for grading, and entries of those that cannot be tried."""

from __future__ import annotations

import dataclasses
import json
import socket
from dataclasses import dataclass
from pathlib import Path

from lab_check.errors import UserError
from lab_check.exercises import topics
from lab_check.paths import NOTEBOOKS
from lab_grader.grading.intake.entry import MAGIC
from lab_grader.grading.model import Grade, HandedIn, Limits, explained, notebook_id, refused_as

_OUR_MAGICS = ("%load_ext lab_check", "%load_ext lab_grader", "%hint", "%progress", MAGIC)
_LABEL = 60


@dataclass(frozen=True)
class ComparedCell:
    """A cell whose output is compared: its place among the code cells, and the exercise above it."""

    number: int
    exercise: str
    code: str

    @property
    def label(self) -> str:
        """Name the cell as the reports do."""
        return f"cell {self.number + 1}, after exercise {self.exercise}: {self.code}"


@dataclass(frozen=True)
class Notebook:
    """A notebook made ready for grading: what nbval runs, what counts, and what it is worth."""

    week: int
    text: str
    cells: tuple[ComparedCell, ...]
    points: float
    limits: Limits


def prepare(path: Path, week: int, points: float, limits: Limits) -> Notebook:
    """Make a notebook of the course ready: exercise cells are skipped, figures are not compared."""
    if not hasattr(socket, "send_fds"):
        raise UserError("notebooks are graded on Linux and macOS only: grade with --no-notebooks")
    try:
        from nbval.plugin import find_comment_markers, find_metadata_tags
    except ImportError:
        raise UserError("grading notebooks needs nbval: `make setup`, or --no-notebooks") from None
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{path} is missing: `lab notebooks {week}` makes it, --no-notebooks does without"
        ) from None
    cells, exercise = [], ""
    code_cells = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(code_cells):
        code = "".join(cell["source"])
        if code.startswith(MAGIC):
            exercise = code.split(maxsplit=2)[1]
        options = dict(find_metadata_tags(cell["metadata"])) | dict(find_comment_markers(code))
        if any(line.startswith(_OUR_MAGICS) for line in code.splitlines()):
            cell["metadata"]["tags"] = ["nbval-skip"]
        elif exercise and cell["outputs"] and options.get("check", True) and not options.get("skip"):
            cells.append(ComparedCell(number, exercise, _first_line(code)))
            continue
        cell["outputs"] = []
    stored["cells"] = code_cells
    return Notebook(week, json.dumps(stored, ensure_ascii=False), tuple(cells), points, limits)


def path_of(week: int) -> Path:
    """Find the course's notebook of a week."""
    return NOTEBOOKS / f"{week:02}_{topics()[week]}.ipynb"


def _first_line(code: str) -> str:
    lines = [line.strip() for line in code.splitlines()]
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return first if len(first) <= _LABEL else f"{first[:_LABEL]} …"


def entered(
    submission: HandedIn,
    notebook: Notebook,
    isolation: str,
    status: str,
    feedback: str,
    points: float = 0.0,
    passed: list[str] | None = None,
    failed: list[str] | None = None,
    diagnosis: dict[str, str] | None = None,
    seconds: float = 0.0,
) -> Grade:
    """Make the grade of a notebook."""
    return Grade(
        submission.student, notebook.week, notebook_id(notebook.week), "notebook", status, points,
        notebook.points, passed or [], failed or [], diagnosis, feedback, isolation,
        round(seconds, 3), submission.digest,
    )  # fmt: skip


def refused(submission: HandedIn, notebook: Notebook, reason: str, isolation: str) -> Grade:
    """Grade a notebook that could not be tried at all."""
    return entered(submission, notebook, isolation, refused_as(submission), reason)


def unexpected(submission: HandedIn, notebook: Notebook, error: BaseException, isolation: str) -> Grade:
    """Grade a notebook on which grading itself failed."""
    reason, extra = explained(error)
    grade = entered(submission, notebook, isolation, "unexpected", reason)
    return dataclasses.replace(grade, extra=extra)
