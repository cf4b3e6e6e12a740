"""The gradebook: results on disk as soon as they exist, and the files that are made from it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lab_check.errors import UserError
from lab_check.files import write_whole
from lab_grader.grading.gradebook.sheet import to_csv
from lab_grader.grading.intake.collect import folded
from lab_grader.grading.intake.entry import stubs
from lab_grader.grading.model import Grade, HandedIn, Refused, counted, order

FILE = "gradebook.sqlite"
_TABLES = """
create table if not exists facts (name text primary key, value text not null);
create table if not exists submissions (
    student text primary key, digest text not null, facts text not null, package text not null
);
create table if not exists refusals (source text primary key, reason text not null);
create table if not exists grades (
    student text not null, exercise text not null, key text not null, line text not null,
    primary key (student, exercise)
);
create table if not exists troubles (
    student text not null, place text not null, traceback text not null
);
"""
# A grade that is still to be made: its line is empty.
_BLANK = "update grades set key = '', line = ''"
ERRORS = "errors.log"


class Gradebook:
    """An SQLite file that a killed run leaves whole."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(folder / FILE, timeout=30)
            self._base.execute("pragma journal_mode = wal")
            # What a process wrote outlives it; where the power fails, the last grades are made again.
            self._base.execute("pragma synchronous = normal")
            self._base.executescript(_TABLES)
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"the gradebook in {folder} cannot be opened: {error}") from None
        self.folder = folder
        self._folder: int | None = None

    def reserve(self) -> None:
        """Keep other runs out until this process ends: two at once would take each other's students."""
        # A lock on the folder leaves no file behind. Disks that have none are trusted.
        self._folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another `lab grade` is at work in {self.folder}: wait for it, or name another --out"
            ) from None
        except OSError:
            pass

    def close(self) -> None:
        """Leave one file behind."""
        # Whoever else has it open does this when they are done.
        with contextlib.suppress(sqlite3.OperationalError):
            self._base.execute("pragma journal_mode = delete")
        self._base.close()
        if self._folder is not None:
            os.close(self._folder)

    def fact(self, name: str) -> str | None:
        """Read a fact of this grading."""
        row = self._base.execute("select value from facts where name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def remember(self, name: str, value: str) -> None:
        """Keep a fact of this grading."""
        with self._base:
            self._base.execute("insert or replace into facts values (?, ?)", (name, value))

    def seed(self, wanted: int | None) -> int:
        """Give the seed of this grading: the one asked for, the one kept, or a new one nobody knows."""
        kept = self.fact("seed")
        seed = wanted if wanted is not None else int(kept) if kept else secrets.randbits(128)
        self.remember("seed", str(seed))
        return seed

    def receive(self, submissions: Iterable[HandedIn], refusals: Iterable[Refused]) -> None:
        """Note who handed in what; grades of students who are gone go too."""
        untouched = stubs()
        with self._base:
            # What failed may have been mended since, so it is tried again.
            self._base.execute(f"{_BLANK} where student in (select student from troubles)")
            self._base.execute("delete from troubles")
            self._base.execute("delete from submissions")
            self._base.execute("delete from refusals")
            for one in submissions:
                facts = {
                    "source": one.source,
                    "submitted_at": one.submitted_at,
                    "notes": one.notes,
                    "user": one.user,
                    "entry": one.entry,
                    "unreadable": one.unreadable,
                    "missing": one.missing,
                    "rostered": one.rostered,
                }
                package = {
                    name: content.decode("utf-8", "replace")
                    for name, content in one.files.items()
                    if content != untouched.get(name)
                }
                self._base.execute(
                    "insert into submissions values (?, ?, ?, ?)",
                    (one.student, one.digest, json.dumps(facts), json.dumps(package)),
                )
            self._base.executemany(
                "insert or replace into refusals values (?, ?)",
                [(refusal.source, refusal.reason) for refusal in refusals],
            )
            self._base.execute(
                "delete from grades where student not in (select student from submissions)"
            )

    def is_graded(self, submission: HandedIn, exercise: str, key: str) -> bool:
        """Tell whether this very submission has been graded under these very conditions."""
        row = self._base.execute(
            "select 1 from grades where student = ? and exercise = ? and key = ?",
            (submission.student, exercise, graded_key(submission, key)),
        ).fetchone()
        return row is not None

    def expect(self, asked: Iterable[tuple[HandedIn, str]]) -> None:
        """Note what is about to be graded: a run that is stopped leaves no hole that nobody sees."""
        rows = [(submission.student, exercise) for submission, exercise in asked]
        with self._base:
            self._base.executemany("insert or ignore into grades values (?, ?, '', '')", rows)

    def enter(self, submission: HandedIn, grades: Iterable[tuple[Grade, str]]) -> None:
        """Write the grades of one submission, each with its conditions, all of them or none."""
        lines = [
            (grade.student, grade.exercise, graded_key(submission, key), _line(grade.to_json()))
            for grade, key in grades
        ]
        with self._base:
            self._base.executemany("insert or replace into grades values (?, ?, ?, ?)", lines)

    def forget(self, student: str | None, exercise: str | None) -> int:
        """Forget grades, so that they are made again; say how many."""
        with self._base:
            return self._base.execute(
                f"{_BLANK} where line != '' and (?1 is null or student = ?1)"
                " and (?2 is null or exercise = ?2)",
                (student, exercise),
            ).rowcount

    def ungraded(self) -> dict[str, list[str]]:
        """Give the exercises, by student, of which the grade is still to be made."""
        rows = self._base.execute("select student, exercise from grades where line = ''")
        found: dict[str, list[str]] = {}
        for student, exercise in sorted(rows, key=lambda row: (row[0], order(row[1]))):
            found.setdefault(student, []).append(exercise)
        return found

    def grades(self) -> list[dict[str, Any]]:
        """Give all grades, sorted by student and exercise."""
        lines = self._base.execute("select line from grades where line != ''")
        rows = [json.loads(line) for (line,) in lines]
        return sorted(rows, key=lambda row: (row["student"], order(row["exercise"])))

    def submissions(self) -> dict[str, dict[str, Any]]:
        """Give what is known of every submission, by student."""
        rows = self._base.execute("select student, facts from submissions order by student")
        return {student: json.loads(facts) for student, facts in rows}

    def package(self, student: str) -> dict[str, str]:
        """Give the files that a student has changed."""
        row = self._base.execute("select package from submissions where student = ?", (student,))
        found: dict[str, str] = json.loads(row.fetchone()[0])
        return found

    def refusals(self) -> list[tuple[str, str]]:
        """Give what could not be understood, and why."""
        return list(self._base.execute("select source, reason from refusals order by source"))

    def trouble(self, student: str, place: str, traceback: str) -> None:
        """Record an unexpected error of the grader's own, such as `traceback.format_exc()`.

        `place` says what was being done ("reading student-07.zip", "3.2", "the feedback page"). The run
        goes on, and ends with exit code 3; what the student had is graded again by the next run.
        """
        told = traceback.encode("utf-8", "backslashreplace").decode("utf-8")
        with self._base:
            self._base.execute("insert into troubles values (?, ?, ?)", (student, place, told))

    def troubles(self) -> list[tuple[str, str, str]]:
        """Give the unexpected errors of the last run: student, place, traceback."""
        return list(self._base.execute("select student, place, traceback from troubles order by rowid"))

    def forget_troubles(self, places: Iterable[str]) -> None:
        """Forget what went wrong at places that are about to be tried again."""
        with self._base:
            self._base.executemany("delete from troubles where place = ?", [(one,) for one in places])

    def write_errors(self) -> int:
        """Write `errors.log` for whoever mends the grader, or remove an old one; say how many."""
        found = self.troubles()
        if found:
            text = "".join(
                f"{student}: {place}\n{trace.rstrip()}\n\n" for student, place, trace in found
            )
            write_report(self.folder / ERRORS, text)
        else:
            (self.folder / ERRORS).unlink(missing_ok=True)
        return len(found)

    def entries(self) -> dict[str, str]:
        """Give the sum of what each student handed in; who changed nothing is left out.

        Of all code and notebooks, not of the package that is graded: many notebooks give the same one.
        """
        rows = self._base.execute("select student, facts from submissions where package != '{}'")
        return {student: str(json.loads(facts).get("entry") or student) for student, facts in rows}

    def write_files(self) -> None:
        """Write `results.jsonl` and `gradebook.csv` from what is known."""
        grades = self.grades()
        write_report(self.folder / "results.jsonl", "".join(_line(grade) + "\n" for grade in grades))
        write_report(self.folder / "gradebook.csv", to_csv(sheet(grades, self.ungraded())))


@contextlib.contextmanager
def kept(folder: Path) -> Iterator[None]:
    """Say in a sentence what is wrong where a gradebook cannot be read or written any more."""
    try:
        yield
    except sqlite3.Error as error:
        raise UserError(
            f"the gradebook in {folder} cannot be used: {error}. What was graded before is kept: once "
            f"that is mended, the same command goes on"
        ) from None


def attention(book: Gradebook) -> list[dict[str, str]]:
    """List what an instructor should look at: `kind`, `student` and `detail` of each, all plain text.

    The kinds, in this order: `ungraded` (the detail names the exercises), `unreadable` (the detail says
    why), `trouble` (the grader itself failed there, see `errors.log`), `unrostered`, `missing` (on the
    roster, nothing handed in), `identical` (to the byte; the detail names the others), `twins` (names
    that look alike on a page; the detail spells them out), `timeout` (the detail names the exercises)
    and `late` (the detail says by how many days at most).
    """
    submissions, entries = book.submissions(), book.entries()
    alike, twins = dict[str, list[str]](), dict[str, list[str]]()
    for student, entry in entries.items():
        alike.setdefault(entry, []).append(student)
    for student in submissions:
        twins.setdefault(folded(student), []).append(student)
    slow: dict[str, list[str]] = {}
    late: dict[str, int] = {}
    for grade in book.grades():
        student = grade["student"]
        if grade["status"] == "timeout":
            slow.setdefault(student, []).append(grade["exercise"])
        if days := grade.get("late_days", 0):
            late[student] = max(days, late.get(student, 0))
    facts = submissions.items()
    found = {
        "ungraded": {s: ", ".join(exercises) for s, exercises in book.ungraded().items()},
        "unreadable": {s: own["unreadable"] for s, own in facts if own.get("unreadable")},
        "trouble": {student: place for student, place, _ in book.troubles()},
        "unrostered": {s: own["source"] for s, own in facts if own.get("rostered") is False},
        "missing": {s: "" for s, own in facts if own.get("missing")},
        "identical": {
            s: ", ".join(other for other in alike[entry] if other != s)
            for s, entry in entries.items()
            if len(alike[entry]) > 1
        },
        "twins": {s: f"this one is {s!a}" for own in twins.values() if len(own) > 1 for s in own},
        "timeout": {s: ", ".join(exercises) for s, exercises in slow.items()},
        "late": {s: counted(days, "day") for s, days in late.items()},
    }
    return [
        {"kind": kind, "student": student, "detail": detail}
        for kind, own in found.items()
        for student, detail in sorted(own.items())
    ]


def said_of(ungraded: dict[str, list[str]]) -> str:
    """Say in a line how many grades are missing, and the first of whom they are."""
    count = sum(map(len, ungraded.values()))
    student, ids = next(iter(ungraded.items()))
    first = f"{student}: {', '.join(ids[:3])}{', …' * (len(ids) > 3)}"
    others = f"; {len(ungraded) - 1} more" if len(ungraded) > 1 else ""
    return f"{count} grade{'s are' if count > 1 else ' is'} missing ({first}{others})"


def graded_key(submission: HandedIn, key: str) -> str:
    """Sum up a submission and the conditions under which it was graded."""
    return hashlib.sha256(f"{submission.digest} {key}".encode()).hexdigest()


def _line(facts: dict[str, Any]) -> str:
    return json.dumps(facts, ensure_ascii=False, sort_keys=True)


def table(grades: list[dict[str, Any]], ungraded: dict[str, list[str]]) -> list[list[Any]]:
    """Lay out points: a row a student, a column an exercise, the sum last; empty without a grade."""
    named = {grade["exercise"] for grade in grades} | {id for ids in ungraded.values() for id in ids}
    exercises = sorted(named, key=order)
    points: dict[str, dict[str, float]] = {student: {} for student in ungraded}
    for grade in grades:
        points.setdefault(grade["student"], {})[grade["exercise"]] = grade["points"]
    rows: list[list[Any]] = [["student", *exercises, "total"]]
    for student, own in sorted(points.items()):
        total = round(sum(own.values()), 2)
        rows.append([student, *(own.get(exercise, "") for exercise in exercises), total])
    return rows


def sheet(grades: list[dict[str, Any]], ungraded: dict[str, list[str]]) -> list[list[Any]]:
    """Lay out points for a spreadsheet, which would take 10.1 and 10.10 alone for one number."""
    (student, *ids, total), *rows = table(grades, ungraded)
    return [[student, *(f"exercise {id}" for id in ids), total], *rows]


def write_report(path: Path, text: str) -> None:
    """Write a file of the grades' folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Half a character, which no file can hold, is written as its number.
        write_whole(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from None
