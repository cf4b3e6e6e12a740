"""The class at a glance, and a page for every student."""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections import Counter
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from lab_grader import source
from lab_grader.course.grading.gradebook import Gradebook, replace
from lab_grader.course.grading.model import is_notebook, order, title
from lab_grader.exercises import LOCAL_BOOK, TOPICS, catalogue

TEMPLATES = Path(__file__).with_name("templates")
HEADLINES = {
    "right": "right",
    "wrong": "not right yet",
    "not_started": "not started",
    "waiting": "waiting for another exercise",
    "error": "the code raised an error",
    "timeout": "the code took too long",
    "crashed": "the code ended Python",
    "memory": "the code needed too much memory",
    "refused": "could not be tried",
    "unreadable": "could not be read",
}
_PLAIN = ("right", "wrong", "not_started", "waiting")


@functools.cache
def _environment() -> Environment:
    return Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True)


def write(out: Path, book: Gradebook) -> None:
    """Write `index.html` and the pages of all students."""
    grades, submissions = book.grades(), book.submissions()
    css = (TEMPLATES / "base.css").read_text(encoding="utf-8")
    by_student: dict[str, list[dict[str, Any]]] = {}
    for grade in grades:
        by_student.setdefault(grade["student"], []).append(grade)
    address = book.fact("book") or LOCAL_BOOK
    facts = _class_facts(grades, by_student, address)
    facts["refusals"] = book.refusals()
    facts["notes"] = [(s, note) for s, known in submissions.items() for note in known["notes"]]
    replace(out / "index.html", _environment().get_template("index.html").render(facts, css=css))
    for student, rows in by_student.items():
        page = _student_facts(
            student, rows, submissions[student]["notes"], book.package(student), address
        )
        name = out / "feedback" / file_name(student)
        replace(
            name.with_name(name.name + ".html"),
            _environment().get_template("feedback.html").render(page, css=css),
        )
        replace(name.with_name(name.name + ".md"), _markdown(page))


def file_name(student: str) -> str:
    """Give a file name for a student that is safe, and no other student's."""
    safe = re.sub(r"[^\w.-]+", "_", student).strip("._")[:60]
    if safe and safe == student:
        return safe
    return f"{safe or 'student'}-{hashlib.sha256(student.encode()).hexdigest()[:8]}"


def _kind(grade: dict[str, Any]) -> str:
    return str(grade["status"]) if grade["status"] in _PLAIN else "trouble"


def _class_facts(
    grades: list[dict[str, Any]], by_student: dict[str, list[dict[str, Any]]], address: str
) -> dict[str, Any]:
    # What nobody has begun says nothing about a class.
    begun = {grade["exercise"] for grade in grades if grade["status"] != "not_started"}
    ids = sorted(begun, key=order)
    points = {grade["exercise"]: grade["max_points"] for grade in grades}
    worth = sum(points[id] for id in ids)
    totals = {student: sum(g["points"] for g in rows) for student, rows in by_student.items()}
    histogram = [0] * 10
    for total in totals.values():
        histogram[min(9, int(10 * total / worth)) if worth else 0] += 1
    shares: dict[str, list[float]] = {}
    for grade in grades:
        if grade["max_points"] and grade["exercise"] in begun:
            shares.setdefault(grade["exercise"], []).append(grade["points"] / grade["max_points"])
    ranked = sorted((sum(own) / len(own), id) for id, own in shares.items())
    return {
        "exercises": [{"id": id, "short": _short(id), "title": title(id)} for id in ids],
        "worth": worth,
        "notebooks": any(map(is_notebook, ids)),
        "untouched": _untouched(sorted(points, key=order), begun),
        "average": sum(totals.values()) / len(totals) if totals else 0.0,
        "isolation": ", ".join(sorted({grade["isolation"] for grade in grades})) or "none",
        "histogram": histogram,
        "hardest": [
            {"id": id, "title": title(id), "share": share, "link": _link(id, address)}
            for share, id in ranked[:6]
            if share < 1
        ],
        "turns": _turns(grades, address),
        "students": [
            {
                "name": student,
                "page": f"feedback/{file_name(student)}.html",
                "total": round(totals[student], 2),
                "cells": _cells(ids, rows),
            }
            for student, rows in by_student.items()
        ],
    }


def _untouched(ids: list[str], begun: set[str]) -> list[str]:
    """Name what nobody has begun, whole weeks by their number."""
    named: list[str] = []
    for week, own in itertools.groupby(ids, key=lambda id: id.partition(".")[0]):
        all_ = list(own)
        left = [id for id in all_ if id not in begun]
        named += [f"week {week}"] if left == all_ else left
    return named


def _link(id: str, address: str) -> str:
    if is_notebook(id):
        week = int(id.partition(".")[0])
        return f"{address}../notebooks/{week:02}_{TOPICS[week]}.html"
    return f"{address}{catalogue()[id].page}"


def _short(id: str) -> str:
    return f"{id.partition('.')[0]} nb" if is_notebook(id) else id


def _turns(grades: list[dict[str, Any]], address: str) -> list[dict[str, Any]]:
    """Count the named wrong turns of the class, most frequent first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for grade in grades:
        said = grade["diagnosis"]
        if said is not None and _is_named(said):
            counts[grade["exercise"], said["name"], said["message"]] += 1
    return [
        {"exercise": id, "name": name, "message": message, "count": count, "link": _link(id, address)}
        for (id, name, message), count in counts.most_common(8)
    ]


def _is_named(diagnosis: dict[str, str]) -> bool:
    """Tell a wrong turn that has a name from a symptom."""
    return "-" in diagnosis["name"] and diagnosis["name"] not in ("in-place", "not-finite")


def _cells(ids: list[str], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    own = {grade["exercise"]: grade for grade in rows}
    cells = []
    for id in ids:
        grade = own.get(id)
        if grade is None:
            cells.append({"kind": "not_started", "share": 0, "points": 0, "text": "", "title": id})
            continue
        kind = _kind(grade)
        text = {"right": "✓", "trouble": "!", "waiting": "…", "not_started": "·"}.get(kind)
        said = grade["diagnosis"]
        title = f"{id}: {HEADLINES[grade['status']]}" + (f", {said['name']}" if said else "")
        share = grade["points"] / grade["max_points"] if grade["max_points"] else 0
        cells.append(
            {
                "kind": kind,
                "share": round(share, 2),
                "points": grade["points"],
                "text": text or f"{grade['points']:g}",
                "title": title,
            }
        )
    return cells


def _student_facts(
    student: str,
    rows: list[dict[str, Any]],
    notes: list[str],
    package: dict[str, str],
    address: str,
) -> dict[str, Any]:
    shown = []
    for grade in rows:
        shown.append(
            grade
            | {
                "title": title(grade["exercise"]),
                "unit": "cell" if is_notebook(grade["exercise"]) else "property",
                "kind": _kind(grade),
                "headline": HEADLINES[grade["status"]],
                "link": _link(grade["exercise"], address),
                "said": _said(grade),
                "code": [] if grade["status"] in ("right", "not_started") else _code(package, grade),
            }
        )
    # What is begun comes first.
    open_ = [row for row in shown if row["kind"] in ("wrong", "trouble")]
    open_ += [row for row in shown if row["status"] == "not_started"]
    first = open_[0] if open_ else None
    return {
        "student": student,
        "rows": [row for row in shown if row["status"] != "not_started"],
        "not_started": [row for row in shown if row["status"] == "not_started"],
        "total": round(sum(row["points"] for row in shown), 2),
        "worth": sum(row["max_points"] for row in shown),
        "begun": sum(row["max_points"] for row in shown if row["status"] != "not_started"),
        "notes": notes,
        "next": None if first is None else {"what": _what(first["exercise"]), "hint": _hint(first)},
    }


def _what(id: str) -> str:
    return title(id).lower() if is_notebook(id) else f"exercise {id}, {title(id)}"


def _hint(row: dict[str, Any]) -> str:
    """Give a question to start with, where what happened does not say what to do."""
    if is_notebook(row["exercise"]):
        return ""
    if row["kind"] == "trouble" or (row["diagnosis"] is not None and _is_named(row["diagnosis"])):
        return "What happened there, and what to look at, stands below."
    return f"A question to start with: {catalogue()[row['exercise']].hints[0]}"


def _said(grade: dict[str, Any]) -> list[str]:
    if grade["diagnosis"] is None:
        return []
    said: list[str] = grade["diagnosis"]["message"].splitlines()
    if said and said[0].startswith("PermissionError"):
        said.append("While it is graded, code has no network, no other files and no other programs.")
    return said


def _code(package: dict[str, str], grade: dict[str, Any]) -> list[dict[str, Any]]:
    """Cut the learner's own block out of what they handed in, and mark the line that went wrong."""
    if is_notebook(grade["exercise"]):
        return []
    exercise = catalogue()[grade["exercise"]]
    text = package.get(f"{exercise.module}.py", "")
    lines = text.splitlines()
    place = re.search(rf"lab_transformer/{exercise.module}\.py, line (\d+)", grade["feedback"])
    wrong = int(place[1]) if place else 0
    try:
        block = source.find_block(text, exercise.name)
    except (SyntaxError, ValueError) as error:
        # No block can be found in a file that cannot be read: show where reading it ends.
        wrong = getattr(error, "lineno", None) or wrong
        first, last = max(1, wrong - 12), wrong + 12
    else:
        if block is None:
            return []
        first, last = block.lineno, block.end_lineno or block.lineno
    shown = enumerate(lines[first - 1 : last], first)
    return [{"text": f"{n:4} {line[:500]}", "marked": n == wrong} for n, line in shown]


def _markdown(page: dict[str, Any]) -> str:
    lines = [f"# {_plain(page['student'])}", "", f"{page['total']:g} of {page['worth']:g} points", ""]
    if page["next"]:
        lines += [f"Next step: {page['next']['what']}. {page['next']['hint']}".rstrip(), ""]
    lines += [f"About what was handed in: {_plain(note)}.\n" for note in page["notes"]]
    for row in page["rows"]:
        lines.append(f"## {row['exercise']} {row['title']}: {row['headline']}")
        lines += ["", f"{row['points']:g} of {row['max_points']:g} points", ""]
        if row["said"]:
            lines += ["What happened:", ""]
            lines += [f"{_plain(line.strip())}\n" for line in row["said"]]
            lines += [f"[Read more in the book]({row['link']})", ""]
        lines += [f"- [ ] {sentence}" for sentence in row["failed"]]
        lines += [f"- [x] {sentence}" for sentence in row["passed"]]
        lines.append("")
    if page["not_started"]:
        lines += ["## Not started", ""]
    lines += [
        f"- {row['exercise']} {row['title']}, {row['max_points']:g} points"
        for row in page["not_started"]
    ]
    return "\n".join([*lines, ""])


def _plain(text: str) -> str:
    """Let no text of a student's be taken for Markdown or HTML."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text)
