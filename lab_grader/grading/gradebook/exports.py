"""Grades for other systems, in the formats that they document.

Gradescope: gradescope-autograders.readthedocs.io/en/latest/specs. GitHub: the input of
classroom-resources/autograding-grading-reporter. Canvas: the columns of its own gradebook export.
Moodle: a column that names the user, then one for each grade item.
"""

from __future__ import annotations

import json
import re
import secrets
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab_check.errors import UserError
from lab_check.exercises import catalogue, read_more, select
from lab_check.paths import REQUIREMENTS
from lab_grader import wheel
from lab_grader.grading.gradebook.book import FILE, Gradebook, said_of, sheet, table, write_report
from lab_grader.grading.gradebook.reports import NOT_TRIED, file_name, link, readable
from lab_grader.grading.gradebook.sheet import to_csv
from lab_grader.grading.intake.collect import canvas_id
from lab_grader.grading.model import is_notebook, title
from lab_grader.grading.run import TROUBLE

TEMPLATES = Path(__file__).with_name("templates")
Grades = list[dict[str, Any]]


def export(grades: Path, to: str, out: Path | None) -> int:
    """Write the grades of a class as another system takes them."""
    if not (grades / FILE).exists():
        raise UserError(f"{grades} holds no gradebook: run `lab grade` first")
    if out is not None and out.exists():
        raise UserError(f"{out} exists already: delete it, or name another with --out")
    book = Gradebook(grades)
    failed: list[tuple[str, str]] = []
    try:
        if ungraded := book.ungraded():
            raise UserError(f"{said_of(ungraded)}: nothing is exported until `lab grade` made them")
        if to in _PER_STUDENT:
            written, failed = _write_each(book, to, out or grades / "export" / to)
        else:
            written = out or grades / "export" / f"{to}.csv"
            write_report(written, to_csv(_PER_CLASS[to](book)))
    finally:
        book.close()
    print(f"Wrote {written}.")
    for student, error in failed:
        print(
            f"not written, for the grader itself failed: {readable(student)}: {error}", file=sys.stderr
        )
    return TROUBLE if failed else 0


def _write_each(book: Gradebook, to: str, out: Path) -> tuple[Path, list[tuple[str, str]]]:
    """Write a file for each student, or a single one where there is but one student.

    Give the place, and the students for whom that failed, each with the error.
    """
    by_student: dict[str, Grades] = {}
    for grade in book.grades():
        by_student.setdefault(grade["student"], []).append(grade)
    single = out.suffix == ".json"
    if single and len(by_student) != 1:
        raise UserError(f"{out} can hold one student, not {len(by_student)}: name a folder with --out")
    submissions, address = book.submissions(), book.fact("book") or ""
    failed = []
    for student, rows in by_student.items():
        try:
            found = _PER_STUDENT[to](rows, submissions[student]["notes"], address)
            text = json.dumps(found, ensure_ascii=False, indent=1)
        except Exception as error:
            failed.append((student, repr(error)))
            continue
        write_report(out if single else out / f"{file_name(student)}.json", text + "\n")
    return out, failed


def _name(grade: dict[str, Any]) -> str:
    return f"{grade['exercise']} {title(grade['exercise'])}"


def _said(grade: dict[str, Any], address: str) -> str:
    """Give what is said about an exercise, with where to read more."""
    id, said = grade["exercise"], readable(grade["feedback"])
    if grade["status"] in ("right", *NOT_TRIED):
        return said
    more = link(id, address) if is_notebook(id) else read_more(catalogue()[id], address)
    return f"{said}\n  Read more: {more}" if more else said


def gradescope(rows: Grades, notes: list[str], address: str) -> dict[str, Any]:
    """Give one student's `results.json`: a test case is an exercise."""
    return {
        "score": round(sum(grade["points"] for grade in rows), 2),
        "output": readable("\n".join(notes)),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [
            {
                "number": grade["exercise"],
                "name": _name(grade),
                "score": grade["points"],
                "max_score": grade["max_points"],
                "status": "passed" if grade["status"] == "right" else "failed",
                "output": _said(grade, address),
            }
            for grade in rows
        ],
    }


def github(rows: Grades, notes: list[str], address: str) -> dict[str, Any]:
    """Give one student's result as the grading reporter of GitHub Classroom reads it.

    The reporter knows nothing of `student`, by which a workflow finds whose result it is.
    """
    right = all(grade["status"] == "right" for grade in rows)
    return {
        "version": 1,
        "student": rows[0]["student"],
        "status": "pass" if right else "fail",
        "max_score": sum(grade["max_points"] for grade in rows),
        "tests": [
            {
                "name": _name(grade),
                "status": "pass" if grade["status"] == "right" else "fail",
                "score": grade["points"],
                "message": _no_command("\n".join([*notes, _said(grade, address)])),
                "test_code": f"lab check {grade['exercise']}",
                "filename": "",
                "line_no": 0,
                "duration": grade["seconds"],
            }
            for grade in rows
        ],
    }


def _no_command(text: str) -> str:
    """Let nothing of a message be a command to GitHub's runner, which reads them from the log."""
    return re.sub(r"^(\s*):(?=:)", r"\1: ", readable(text), flags=re.M).replace("##[", "## [")


def _items(book: Gradebook) -> tuple[list[str], list[float], list[list[Any]]]:
    """Give the titles of all exercises, what they are worth, and rows of a student and points."""
    grades = book.grades()
    head, *rows = table(grades, {})
    titles = {grade["exercise"]: _name(grade) for grade in grades}
    worth = {grade["exercise"]: grade["max_points"] for grade in grades}
    exercises = head[1:-1]
    return [titles[id] for id in exercises], [worth[id] for id in exercises], [row[:-1] for row in rows]


def _name_alone(student: str, submissions: dict[str, dict[str, Any]]) -> str:
    """Give a student's name as the system has it that gave them a number."""
    return student.removesuffix(f" #{submissions[student]['user']}")


def canvas(book: Gradebook) -> list[list[Any]]:
    """Lay out grades as Canvas imports them; a student's ID is known from the file Canvas gave out."""
    titles, worth, rows = _items(book)
    known = book.submissions()
    return [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *titles],
        ["    Points Possible", "", "", "", "", *worth],
        *(
            [_name_alone(one, known), canvas_id(known[one]["source"]), "", "", "", *own]
            for one, *own in rows
        ),
    ]


def moodle(book: Gradebook) -> list[list[Any]]:
    """Lay out grades for Moodle's import, which asks what each column stands for.

    Two of one name keep their numbers: it would give both the grades of one.
    """
    titles, _, rows = _items(book)
    known = book.submissions()
    names = Counter(_name_alone(one, known) for one, *_ in rows)
    named = ((_name_alone(one, known), one, own) for one, *own in rows)
    return [
        ["username", *titles],
        *([name if names[name] == 1 else one, *own] for name, one, own in named),
    ]


_PER_STUDENT: dict[str, Callable[[Grades, list[str], str], dict[str, Any]]] = {
    "gradescope": gradescope,
    "github": github,
}
_PER_CLASS: dict[str, Callable[[Gradebook], list[list[Any]]]] = {
    "canvas": canvas,
    "moodle": moodle,
    "csv": lambda book: sheet(book.grades(), {}),
}
SYSTEMS = (*_PER_STUDENT, *_PER_CLASS)


def autograder(out: Path, what: list[str], isolation: str) -> int:
    """Write a zip to upload to Gradescope, and workflows for GitHub: the students' and the course's."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists already: name a new folder")
    facts = {
        "EXERCISES": ",".join(exercise.id for exercise in select(what)),
        "ISOLATION": isolation,
        # The same for all students of the assignment, and known to none of them.
        "SEED": str(secrets.randbits(128)),
    }
    out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out / "gradescope.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("setup.sh", "run_autograder"):
            # Gradescope runs them as they are: executable, at the top.
            member = zipfile.ZipInfo(name)
            member.external_attr = 0o755 << 16
            archive.writestr(member, _filled(name, facts))
        with tempfile.TemporaryDirectory(prefix="lab-wheel-") as folder:
            built = wheel.build(Path(folder))
            archive.write(built, built.name)
        archive.write(REQUIREMENTS, REQUIREMENTS.name)
    for name in ("classroom.yml", "grading.yml"):
        write_report(out / name, _filled(name, facts))
    print(f"Upload {out / 'gradescope.zip'} to Gradescope as the assignment's autograder.")
    print(f"Put {out / 'grading.yml'} into .github/workflows of the course's private repository, and")
    print(f"{out / 'classroom.yml'} into that of the students' repositories: nothing in it is secret.")
    return 0


def _filled(name: str, facts: dict[str, str]) -> str:
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    for key, value in facts.items():
        text = text.replace(f"@{key}@", value)
    return text
