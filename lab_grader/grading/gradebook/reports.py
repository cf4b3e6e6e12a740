"""The class at a glance, and a page for every student."""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
import traceback
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from lab_check import card, source
from lab_check.calling.failures import Picture
from lab_check.exercises import catalogue, read_more, topics
from lab_grader.grading.gradebook.book import Gradebook, attention, write_report
from lab_grader.grading.model import counted, is_notebook, order, title

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
    "unexpected": "could not be graded: the grader itself failed",
}
_PLAIN = ("right", "wrong", "not_started", "waiting")
# Says nothing about an exercise: its code was not run, or stumbled over another exercise.
NOT_TRIED = ("not_started", "waiting", "refused", "unreadable", "unexpected")
# What the kinds of `attention` are called, and what to do about them.
ATTENTION = {
    "ungraded": (
        "not graded yet",
        "Grades that are still to be made: `lab grade` for these exercises makes them. Totals are "
        "without them, and nothing is exported until then.",
    ),
    "unreadable": (
        "could not be read",
        "No points, and the feedback page says why. Ask for the work again, and grade again.",
    ),
    "trouble": (
        "where the grader itself failed",
        "Not the student's fault. The traceback is in errors.log, and the same command tries again.",
    ),
    "unrostered": (
        "not on the roster",
        "Graded all the same. Is the name spelt as on the roster? Mend either, and grade again.",
    ),
    "missing": (
        "on the roster, and nothing handed in",
        "No points. Look for the work among those who are not on the roster, or ask for it.",
    ),
    "identical": (
        "identical to another, to the byte",
        "All code and notebooks are. Points are given all the same. One student under two names, or "
        "two who share? Ask them.",
    ),
    "twins": (
        "of names that look alike",
        "Each is graded for itself. One student in two ways of typing, or one under another's name?",
    ),
    "timeout": (
        "out of time",
        "Mostly a loop that never ends: the page shows where. For code that is only slow, raise the "
        "limits in course.toml.",
    ),
    "late": ("after the deadline", "What it costs is taken off already, as course.toml says."),
}
FEEDBACK = "the feedback page"
CLASS = "the page of the class"
# Of a text, of a block's lines, and of the characters of each: what is shown of something endless.
_TEXT, _LINES, _WIDTH = 20_000, 300, 500


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, finalize=_shown
    )
    environment.globals["few"] = card.FEW
    environment.globals["css"] = Markup((TEMPLATES / "base.css").read_text(encoding="utf-8"))
    return environment


def _shown(value: Any) -> Any:
    return readable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def readable(text: str) -> str:
    """Make a text fit to be shown: not too long, and what steers a line is written as its number."""
    if len(text) > _TEXT:
        text = f"{text[:_TEXT]}\n[{len(text) - _TEXT} more characters are left out]"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\u{ord(c):04x}" for c in text)


def write(out: Path, book: Gradebook) -> None:
    """Write the pages of all students, then `index.html`; one that fails says so in its place."""
    book.forget_troubles((FEEDBACK, CLASS))
    ungraded, submissions = book.ungraded(), book.submissions()
    by_student: dict[str, list[dict[str, Any]]] = {student: [] for student in ungraded}
    for grade in book.grades():
        by_student.setdefault(grade["student"], []).append(grade)
    by_student = dict(sorted(by_student.items()))
    address = book.fact("book") or ""
    for student, rows in by_student.items():

        def of_student(student: str = student, rows: list[dict[str, Any]] = rows) -> tuple[str, str]:
            notes = submissions[student]["notes"]
            page = _student_facts(student, rows, notes, book.package(student), address)
            page["ungraded"] = [(id, title(id)) for id in ungraded.get(student, ())]
            return _environment().get_template("feedback.html").render(page), _markdown(page)

        html, text = _contained(book, student, FEEDBACK, of_student)
        name = out / "feedback" / file_name(student)
        write_report(name.with_name(name.name + ".html"), html)
        write_report(name.with_name(name.name + ".md"), text)

    def of_class() -> tuple[str, str]:
        facts = _class_facts(by_student, ungraded, address) | {"attention": _attention(book)}
        facts["refusals"] = [
            (origin, reason)
            for origin, reason in book.refusals()
            if not any(
                origin in one["detail"] for group in facts["attention"] for one in group["lines"]
            )
        ]
        facts["notes"] = [(s, note) for s, known in submissions.items() for note in known["notes"]]
        ids = [row["id"] for row in facts["exercises"] if not is_notebook(row["id"])]
        reading = [catalogue()[id] for id in ids if id in catalogue()]
        return (
            _environment().get_template("index.html").render(facts),
            _environment().get_template("exercises.html").render(exercises=reading),
        )

    index, exercises = _contained(book, "", CLASS, of_class)
    write_report(out / "index.html", index)
    if address:
        (out / "exercises.html").unlink(missing_ok=True)
    else:
        write_report(out / "exercises.html", exercises)


def _contained(
    book: Gradebook, student: str, what: str, make: Callable[[], tuple[str, str]]
) -> tuple[str, str]:
    """Make a page; where that fails, record why, and give one that says so."""
    try:
        return make()
    except Exception:
        book.trouble(student, what, traceback.format_exc())
        html = _environment().get_template("sorry.html").render(student=student, what=what)
        name = _plain(student or "The class")
        return html, f"# {name}\n\nThis page could not be made. It is not your fault.\n"


def file_name(student: str) -> str:
    """Give a file name for a student that is safe, and that nobody can choose for somebody else."""
    plain = re.fullmatch(r"[a-z0-9][a-z0-9_.-]{0,59}", student)
    taken = re.search(r"-[0-9a-f]{16}$", student) or _DEVICE.match(student)
    if plain and not student.endswith(".") and not taken:
        return student
    safe = re.sub(r"[^\w.-]+", "_", student).strip("._")[:40]
    digest = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()
    if not safe or _DEVICE.match(safe):
        safe = f"student{safe}"
    return f"{safe}-{digest[:16]}"


# On Windows these are devices, whatever follows a dot.
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)


def _page(student: str, exercise: str = "") -> str:
    return f"feedback/{file_name(student)}.html" + (f"#exercise-{exercise}" if exercise else "")


def _attention(book: Gradebook) -> list[dict[str, Any]]:
    """Group what an instructor should look at, with what to do; those who are alike share a line."""
    entries = book.entries()
    groups: dict[str, dict[str, dict[str, Any]]] = {}
    for one in attention(book):
        student, kind, detail = one["student"], one["kind"], one["detail"]
        line, detail = (entries[student], "") if kind == "identical" else (student, detail)
        own = groups.setdefault(kind, {}).setdefault(line, {"who": [], "detail": detail})
        own["who"] += [{"name": student, "page": _page(student)}] if student else []
    return [
        {
            "heading": ATTENTION[kind][0],
            "advice": ATTENTION[kind][1],
            "count": sum(len(own["who"]) or 1 for own in lines.values()),
            "lines": list(lines.values()),
        }
        for kind, lines in groups.items()
    ]


def _kind(grade: dict[str, Any]) -> str:
    return str(grade["status"]) if grade["status"] in _PLAIN else "trouble"


def _class_facts(
    by_student: dict[str, list[dict[str, Any]]], ungraded: dict[str, list[str]], address: str
) -> dict[str, Any]:
    grades = [grade for rows in by_student.values() for grade in rows]
    # What nobody has begun says nothing about a class.
    begun = {
        grade["exercise"] for grade in grades if grade["status"] not in ("not_started", "unreadable")
    }
    begun |= {id for ids in ungraded.values() for id in ids}
    ids = sorted(begun, key=order)
    points = {grade["exercise"]: grade["max_points"] for grade in grades}
    worth = sum(points.get(id, 0) for id in ids)
    totals = {student: sum(g["points"] for g in rows) for student, rows in by_student.items()}
    histogram = [0] * 10
    for total in totals.values():
        histogram[min(9, int(10 * total / worth)) if worth else 0] += 1
    tried: dict[str, list[dict[str, Any]]] = {}
    for grade in grades:
        if grade["status"] not in NOT_TRIED:
            tried.setdefault(grade["exercise"], []).append(grade)
    return {
        "ungraded": bool(ungraded),
        "exercises": [{"id": id, "short": _short(id), "title": title(id)} for id in ids],
        "worth": worth,
        "notebooks": any(map(is_notebook, ids)),
        "untouched": _untouched(sorted(points, key=order), begun),
        "average": sum(totals.values()) / len(totals) if totals else 0.0,
        "isolation": ", ".join(sorted({grade["isolation"] for grade in grades})) or "none",
        "histogram": histogram,
        "hardest": _hardest(tried, address),
        "turns": _turns(tried, address),
        "students": [
            {
                "name": student,
                "page": _page(student),
                "total": round(totals[student], 2),
                "cells": _cells(ids, rows, ungraded.get(student, [])),
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


def link(id: str, address: str) -> str:
    """Say where to read about an exercise: in the course's book, or on the page that lies beside."""
    if is_notebook(id):
        week = int(id.partition(".")[0])
        page = f"../notebooks/{week:02}_{topics()[week]}.html"
        return urllib.parse.urljoin(address, page) if address else ""
    return read_more(catalogue()[id], address) if address else f"exercises.html#exercise-{id}"


def _short(id: str) -> str:
    return f"{id.partition('.')[0]} nb" if is_notebook(id) else id


def _who(grades: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [
        {"name": grade["student"], "page": _page(grade["student"], grade["exercise"])}
        for grade in grades
    ]


def _hardest(tried: dict[str, list[dict[str, Any]]], address: str) -> list[dict[str, Any]]:
    """Rank the exercises by the points of those who tried them."""
    shares = {
        id: sum(grade["points"] / grade["max_points"] for grade in own) / len(own)
        for id, own in tried.items()
        if all(grade["max_points"] for grade in own)
    }
    hardest = sorted((share, order(id), id) for id, share in shares.items() if share < 1)[:6]
    return [
        {
            "id": id,
            "title": title(id),
            "share": share,
            "tried": len(tried[id]),
            "who": _who([grade for grade in tried[id] if grade["status"] != "right"]),
            "link": link(id, address),
        }
        for share, _, id in hardest
    ]


def _turns(tried: dict[str, list[dict[str, Any]]], address: str) -> list[dict[str, Any]]:
    """Count the named wrong turns of the class, most frequent first."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for id, own in tried.items():
        for grade in own:
            if _is_named(grade["diagnosis"]):
                found.setdefault((id, grade["diagnosis"]["name"]), []).append(grade)
    frequent = sorted(found.items(), key=lambda one: (-len(one[1]), order(one[0][0]), one[0]))[:8]
    return [
        {
            "exercise": id,
            "name": name,
            "message": _lesson(grades[0]),
            "tried": len(tried[id]),
            "who": _who(grades),
            "link": link(id, address),
        }
        for (id, name), grades in frequent
    ]


def _lesson(grade: dict[str, Any]) -> str:
    """Give what is said of a wrong turn, without the error that it raised in this student's code."""
    message = str(grade["diagnosis"]["message"])
    raised = (f"{said}\n" for said in grade.get("said", ()) if said)
    return message.removeprefix(next(filter(message.startswith, raised), ""))


def _is_named(diagnosis: dict[str, str] | None) -> bool:
    """Tell a wrong turn that has a name from a symptom."""
    return diagnosis is not None and diagnosis.get("kind") == "turn"


def _cells(ids: list[str], rows: list[dict[str, Any]], ungraded: list[str]) -> list[dict[str, Any]]:
    own = {grade["exercise"]: grade for grade in rows}
    cells = []
    for id in ids:
        grade = own.get(id)
        if grade is None:
            asked = {"kind": "waiting", "text": "?", "title": f"{id}: not graded yet"}
            never = {"kind": "not_started", "text": "", "title": id}
            cells.append({"share": 0, "points": 0} | (asked if id in ungraded else never))
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
        kind, id = _kind(grade), grade["exercise"]
        shown.append(
            grade
            | {
                "title": title(id),
                "kind": kind,
                "notebook": is_notebook(id),
                "headline": HEADLINES[grade["status"]],
                "link": link(id, address) if address else "",
                "reading": None if address or is_notebook(id) or kind == "right" else catalogue()[id],
                "late": _late(grade),
                "said": _said(grade),
                "broken": _folded(grade),
                "example": _example(grade),
                "code": [] if grade["status"] in ("right", "not_started") else _code(package, grade),
            }
        )
    unread = [row for row in shown if row["status"] == "unreadable"]
    not_started = [row for row in shown if row["status"] == "not_started"]
    begun = [row for row in shown if row["status"] not in ("unreadable", "not_started")]
    return {
        "student": student,
        "rows": begun,
        "unread": unread,
        "not_started": not_started,
        "total": round(sum(row["points"] for row in shown), 2),
        "worth": sum(row["max_points"] for row in shown),
        "begun": sum(row["max_points"] for row in begun),
        "notes": notes,
        "next": _next(begun, unread, not_started),
    }


def _next(
    begun: list[dict[str, Any]], unread: list[dict[str, Any]], not_started: list[dict[str, Any]]
) -> dict[str, str] | None:
    """Say what to do next: first what can be read, then what is begun."""
    if unread:
        return {"what": "hand in something that can be read", "hint": "What is wrong stands below."}
    open_ = [row for row in begun if row["kind"] in ("wrong", "trouble")] + not_started
    return {"what": _what(open_[0]["exercise"]), "hint": _hint(open_[0])} if open_ else None


def _what(id: str) -> str:
    return title(id).lower() if is_notebook(id) else f"exercise {id}, {title(id)}"


def _hint(row: dict[str, Any]) -> str:
    """Give a question to start with, where what happened does not say what to do."""
    if is_notebook(row["exercise"]):
        return ""
    if row["kind"] == "trouble" or _is_named(row["diagnosis"]):
        return "What happened there, and what to look at, stands below."
    return f"A question to start with: {catalogue()[row['exercise']].hints[0]}"


def _said(grade: dict[str, Any]) -> list[str]:
    if grade["diagnosis"] is None:
        # What could not be tried has no diagnosis, only a reason; that of a notebook stands below.
        told = grade["status"] in _PLAIN or is_notebook(grade["exercise"])
        return [] if told else grade["feedback"].splitlines()[:20]
    said: list[str] = grade["diagnosis"]["message"].splitlines()
    if said and said[0].startswith("PermissionError"):
        said.append("While it is graded, code has no network, no other files and no other programs.")
    return said


def _folded(grade: dict[str, Any]) -> list[dict[str, Any]]:
    """Put properties together that fail with the same words, whatever the sizes in them.

    What the diagnosis says already is not said again.
    """
    said = grade.get("said") or [""] * len(grade["failed"])
    known = _without_sizes(grade["diagnosis"]["message"]) if grade["diagnosis"] else ""
    groups: dict[str, dict[str, Any]] = {}
    for sentence, message in zip(grade["failed"], said, strict=True):
        alike = _without_sizes(message)
        told = "" if alike in known else message
        group = groups.setdefault(alike if told else "", {"sentences": [], "message": told})
        group["sentences"].append(sentence)
    return list(groups.values())


def _without_sizes(message: str) -> str:
    return re.sub(r"\d+|\(.*?\)", "", message.partition("\n")[0])


def _example(grade: dict[str, Any]) -> dict[str, Any] | None:
    """Give the learner's numbers on the published inputs, with the picture where there is one."""
    found: dict[str, Any] | None = grade.get("example")
    if found is None or "picture" not in found:
        return found
    # As JSON keeps it: tuples are lists, and what is no number is a word.
    facts: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in found["picture"].items()
    }
    for grid in ("expected", "actual"):
        facts[grid] = [[float(number) for number in row] for row in facts[grid]]
    picture = Picture(**facts)
    return found | {"picture": Markup(card.draw(picture))}


def _code(package: dict[str, str], grade: dict[str, Any]) -> list[dict[str, Any]]:
    """Cut the learner's own block out of what they handed in, and mark the line that went wrong."""
    if is_notebook(grade["exercise"]):
        return []
    exercise = catalogue()[grade["exercise"]]
    text = package.get(f"{exercise.module}.py", "")
    # As Python counts lines: it knows fewer ends than `splitlines`.
    lines = re.split(r"\r\n|\r|\n", text)
    place = re.search(rf"lab_transformer/{exercise.module}\.py, line (\d+)", grade["feedback"])
    wrong = int(place[1]) if place else 0
    try:
        if len(text) > source.LONGEST:
            raise ValueError("nobody waits for that")
        block = source.find_block(text, exercise.name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # No block can be found in a file that cannot be read, or is endless: show where it went wrong.
        wrong = getattr(error, "lineno", None) or wrong
        first, last = max(1, wrong - 12), wrong + 12
    else:
        if block is None:
            return []
        first, last = block.lineno, block.end_lineno or block.lineno
    shown = [
        {"text": f"{n:4} {line[:_WIDTH]}{' …' * (len(line) > _WIDTH)}", "marked": n == wrong}
        for n, line in enumerate(lines[first - 1 : last], first)
    ]
    if len(shown) > _LINES:
        left = {"text": f"     [{len(shown) - _LINES} more lines are left out]", "marked": False}
        shown = [*shown[:_LINES], left]
    return shown


def _markdown(page: dict[str, Any]) -> str:
    lines = [f"# {_plain(page['student'])}", "", f"{page['total']:g} of {page['worth']:g} points", ""]
    if page["next"]:
        lines += [f"Next step: {page['next']['what']}. {page['next']['hint']}".rstrip(), ""]
    lines += [f"About what was handed in: {_plain(note)}.\n" for note in page["notes"]]
    if page["ungraded"]:
        names = ", ".join(f"{id} {name}" for id, name in page["ungraded"])
        lines += [f"Not graded yet: {names}", ""]
    if page["unread"]:
        names = ", ".join(f"{row['exercise']} {row['title']}" for row in page["unread"])
        lines += [f"Not tried for that reason: {names}", ""]
    for row in page["rows"]:
        lines.append(f"## {row['exercise']} {row['title']}: {row['headline']}")
        lines += ["", f"{row['points']:g} of {row['max_points']:g} points{row['late']}", ""]
        if row["said"]:
            lines += ["What happened:", ""]
            lines += [f"{_plain(line.strip())}\n" for line in row["said"]]
        if row["example"]:
            example = row["example"]
            lines += [f"On the published inputs, {example['property']}: {_plain(example['said'])}", ""]
        if row["kind"] != "right":
            if row["link"]:
                lines += [f"[Read more in the book]({row['link']})", ""]
            elif row["reading"]:
                lines += [f"Read more: {read_more(row['reading'], '')}", ""]
        for group in row["broken"]:
            lines += [f"- [ ] {sentence}" for sentence in group["sentences"]]
            if group["message"]:
                lines += [
                    "",
                    *(f"  {_plain(line.strip())}" for line in group["message"].splitlines()),
                    "",
                ]
        lines += [f"- [x] {sentence}" for sentence in row["passed"]]
        lines.append("")
    if page["not_started"]:
        lines += ["## Not started", ""]
    lines += [
        f"- {row['exercise']} {row['title']}, {row['max_points']:g} points"
        for row in page["not_started"]
    ]
    return "\n".join([*lines, ""])


def _late(row: dict[str, Any]) -> str:
    days = row.get("late_days", 0)
    return f", {counted(days, 'day')} late" if days else ""


def _plain(text: str) -> str:
    """Let no text of a student's be taken for Markdown or HTML."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", readable(text).replace("\n", " "))
