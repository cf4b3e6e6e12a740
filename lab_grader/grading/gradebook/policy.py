"""`course.toml` and the roster: what a course decides for itself."""

from __future__ import annotations

import codecs
import csv
import dataclasses
import io
import math
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

from lab_check.errors import UserError
from lab_check.exercises import Exercise, catalogue
from lab_grader.grading.intake.clean import clean, clean_name
from lab_grader.grading.model import LEVELS, Grade, Limits

_MOST = 1e9


@dataclass(frozen=True)
class Course:
    """Weeks, points, deadlines, limits and the least isolation; everything may be left out."""

    weeks: str = ""  # such as 1-8; all where none is named
    points: dict[str, float] = field(default_factory=dict)
    deadlines: dict[int, datetime] = field(default_factory=dict)
    late_per_day: float = 0.0
    late_most: float = 1.0
    attempts: int | None = None
    isolation: str = "process"
    book: str = ""  # where the links of reports lead; they need none
    limits: Limits = field(default_factory=Limits)
    exercise_limits: dict[str, Limits] = field(default_factory=dict)
    # Whether notebooks are graded where the command does not say, what each is worth, and its limits.
    notebooks: bool | None = None
    notebook_points: float = 4.0
    notebook_limits: Limits = field(default_factory=lambda: Limits(240.0, 4 * 2**30))

    def limits_of(self, exercise: str, seconds: float | None = None) -> Limits:
        """Give the limits of an exercise, its seconds replaced where somebody says so."""
        own = self.exercise_limits.get(exercise, self.limits)
        return own if seconds is None else dataclasses.replace(own, seconds=seconds)

    def terms(self, exercise: str, week: int, submitted_at: str) -> tuple[float | None, int, float]:
        """Say what an exercise is worth (None: as declared), how many days it is late, and the rest.

        The rest is the share of the points that lateness does not cost.
        """
        worth, due = self.points.get(exercise), self.deadlines.get(week)
        if due is None or not submitted_at:
            return worth, 0, 1.0
        late = (datetime.fromisoformat(submitted_at) - due).total_seconds()
        days = max(0, math.ceil(late / 86400))
        return worth, days, 1 - min(self.late_most, self.late_per_day * days)

    def settle(self, grade: Grade, submitted_at: str) -> Grade:
        """Turn a grade into the course's points, with what lateness costs."""
        declared, days, rest = self.terms(grade.exercise, grade.week, submitted_at)
        worth = grade.max_points if declared is None else declared
        share = rest * grade.points / grade.max_points if grade.max_points else 0.0
        return dataclasses.replace(
            grade,
            points=round(worth * share, 2),
            max_points=worth,
            extra=grade.extra | ({"late_days": days} if days else {}),
        )


def read_course(path: Path | None) -> Course:
    """Read a course file; a key that is not known is a mistake, not a wish to be ignored."""
    if path is None:
        return Course()
    try:
        facts = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # of TOML, of UTF-8, or of a number with thousands of digits
        raise UserError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise UserError(f"{path} is nested too deeply") from None
    _only(
        path, "", facts,
        {"weeks", "points", "deadlines", "late", "attempts", "isolation", "book", "limits", "notebook"},
    )  # fmt: skip
    weeks = facts.get("weeks", "")
    if not isinstance(weeks, str):
        raise UserError(f'{path}: weeks is a text, such as "1-8", not {weeks!r}')
    of_weeks(weeks, f"{path}: weeks")
    late = facts.get("late", {})
    _only(path, "late.", late, {"per_day", "most"})
    isolation = facts.get("isolation", "process")
    if isolation not in LEVELS:
        raise UserError(f"{path}: isolation is one of {', '.join(LEVELS)}, not {isolation!r}")
    attempts = facts.get("attempts")
    if attempts is not None and (type(attempts) is not int or attempts < 1):
        raise UserError(f"{path}: attempts is a whole number from 1 on, not {attempts!r}")
    notebook = facts.get("notebook", {})
    _only(path, "notebook.", notebook, {"points", "seconds", "memory_mb"})
    worth = _number(path, "notebook.points", notebook.get("points", Course.notebook_points))
    bounds = {key: value for key, value in notebook.items() if key != "points"}
    if not isinstance(facts.get("limits", {}), dict):
        raise UserError(f"{path}: limits is a table")
    limits = dict(facts.get("limits", {}))
    own = {key: limits.pop(key) for key in list(limits) if isinstance(limits[key], dict)}
    base = _limits(path, "limits", limits, Limits())
    return Course(
        weeks=weeks,
        points={id: _number(path, f"points.{id}", n) for id, n in _by_exercise(path, facts, "points")},
        deadlines=_deadlines(path, facts.get("deadlines", {})),
        late_per_day=_share(path, "late.per_day", late.get("per_day", 0.0)),
        late_most=_share(path, "late.most", late.get("most", 1.0)),
        attempts=attempts,
        isolation=isolation,
        book=book_address(facts.get("book"), f"{path}: book"),
        limits=base,
        notebooks=worth > 0 if "notebook" in facts else None,
        notebook_points=worth,
        notebook_limits=_limits(path, "notebook", bounds, Course().notebook_limits),
        exercise_limits={
            id: _limits(path, f"limits.{id}", table, base)
            for id, table in own.items()
            if _known(path, "limits", id)
        },
    )


def of_weeks(weeks: str, origin: str) -> list[Exercise]:
    """Read ``1-3`` or ``2,5`` as the exercises of those weeks; nothing means all."""
    everything = list(catalogue().values())
    there = {exercise.week for exercise in everything}
    wanted: set[int] = set()
    for part in filter(None, weeks.replace(" ", "").split(",")):
        bounds = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part, flags=re.ASCII)
        if bounds is None:
            raise UserError(f"{origin} takes 3, 1-3 or 1,4-6, not {weeks!r}")
        wanted |= set(range(int(bounds[1]), int(bounds[2] or bounds[1]) + 1))
    if wanted - there or (weeks and not wanted):
        raise UserError(
            f"there is nothing for {origin} {weeks}: the weeks are {min(there)} to {max(there)}"
        )
    return [exercise for exercise in everything if not wanted or exercise.week in wanted]


def book_address(book: Any, origin: str) -> str:
    """Give the address that the pages of a course's book start with; none where there is no book."""
    if book is None:
        return ""
    if not isinstance(book, str) or not book.startswith(("http://", "https://")):
        raise UserError(f"{origin} is an address that starts with https://, not {book!r}")
    return book.rstrip("/") + "/"


def _only(path: Path, prefix: str, table: Any, allowed: set[str]) -> None:
    if not isinstance(table, dict):
        raise UserError(f"{path}: {prefix.rstrip('.')} is a table")
    for key in table:
        if key not in allowed:
            raise UserError(
                f"{path}: {prefix}{clean(key)} is not known; allowed: {', '.join(sorted(allowed))}"
            )


def _known(path: Path, table: str, id: str) -> bool:
    if id not in catalogue():
        raise UserError(f'{path}: {table} names the exercise "{id}", which is not there')
    return True


def _by_exercise(path: Path, facts: dict[str, Any], name: str) -> list[tuple[str, Any]]:
    table = facts.get(name, {})
    if not isinstance(table, dict):
        raise UserError(f'{path}: {name} is a table, such as "3.2" = 10')
    return [(id, value) for id, value in table.items() if _known(path, name, id)]


def _number(path: Path, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        raise UserError(f"{path}: {key} is a number from 0 to {_MOST:g}, not {value!r}")
    return float(value)


def _share(path: Path, key: str, value: Any) -> float:
    if (share := _number(path, key, value)) > 1:
        raise UserError(f"{path}: {key} is a share of the points, from 0 to 1, not {value!r}")
    return share


def _limits(path: Path, prefix: str, table: dict[str, Any], base: Limits) -> Limits:
    _only(path, f"{prefix}.", table, {"seconds", "memory_mb"})
    seconds = _number(path, f"{prefix}.seconds", table.get("seconds", base.seconds))
    megabytes = _number(path, f"{prefix}.memory_mb", table.get("memory_mb", base.memory / 2**20))
    if not seconds or not megabytes:
        raise UserError(f"{path}: {prefix} must leave some time and memory, not zero")
    return Limits(seconds, int(megabytes * 2**20))


def _deadlines(path: Path, table: Any) -> dict[int, datetime]:
    _only(path, "deadlines.", table, {str(e.week) for e in catalogue().values()})
    found = {}
    for week, due in table.items():
        if isinstance(due, date) and not isinstance(due, datetime):
            due = datetime.combine(due, time.max)
        if not isinstance(due, datetime):
            raise UserError(f"{path}: deadlines.{week} is a date such as 2026-11-30T23:59:00Z")
        found[int(week)] = due if due.tzinfo else due.replace(tzinfo=UTC)
    return found


def read_roster(path: Path) -> list[str]:
    """Read the students of a course: a table with a column `student`, as any spreadsheet saves it."""
    try:
        lines = list(_decoded(path.read_bytes()))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    # The last is in no table: a single column may hold all the others.
    tables = [_table(path, lines, delimiter) for delimiter in ",;\t|\x1f"]
    for head, *rows in sorted(tables, key=lambda table: len(table[0]) == 1 and table is not tables[-1]):
        names = [name.strip().casefold() for name in head]
        if "student" in names:
            column = names.index("student")
            # A row of nothing but separators is an empty one.
            found = (row[column].strip(" \t,;|") for row in rows if column < len(row))
            return [clean_name(name) for name in found if name]
    columns = ", ".join(clean(name.strip()) for name in max((head for head, *_ in tables), key=len))
    raise UserError(
        f"{path} needs a first line with column names, one of them `student`; "
        f"it has: {columns or 'nothing'}"
    )


def _decoded(content: bytes) -> Iterator[str]:
    """Give the lines of a table; what a spreadsheet says of its own file is no line of it."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = content.decode("utf-16", "replace")
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = content.decode("cp1252", "replace")
    lines = io.StringIO(text, newline="")
    first = next(lines, "")
    if not re.fullmatch(r"sep=.\s*", first):
        yield first
    yield from lines


def _table(path: Path, lines: list[str], delimiter: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(lines, delimiter=delimiter) if row] or [[]]
    except csv.Error as error:
        raise UserError(f"{path} is not a table that can be read: {error}") from None
