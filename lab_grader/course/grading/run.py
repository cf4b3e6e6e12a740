"""`lab grade` and `lab regrade`."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lab_grader.course.grading import engines, intake
from lab_grader.course.grading.coursefile import LEVELS, Course, read_course, read_roster
from lab_grader.course.grading.gradebook import FILE, Gradebook
from lab_grader.course.grading.model import Limits, Refused, Submission
from lab_grader.course.record import digest
from lab_grader.errors import UserError
from lab_grader.exercises import Exercise, select


def grade(
    submissions: Path,
    out: Path,
    what: list[str],
    jobs: int | None = None,
    engine: str = "local",
    scheduler: str | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    isolation: str | None = None,
    roster: Path | None = None,
    course_file: Path | None = None,
) -> int:
    """Grade a class; the same command goes on where a killed one stopped."""
    course = read_course(course_file)
    level = isolation or ("full" if sys.platform == "linux" else "process")
    if LEVELS.index(level) < LEVELS.index(course.isolation):
        raise UserError(
            f"the course asks for isolation {course.isolation!r} at least, and {level!r} is less"
        )
    exercises = select(what)
    received = intake.read_submissions(submissions)
    handed_in = [one for one in received if isinstance(one, Submission)]
    refusals = [one for one in received if isinstance(one, Refused)]
    if roster is not None:
        handed_in = _with_missing(handed_in, read_roster(roster))
    if not handed_in:
        why = "".join(f"\n  {one.source}: {one.reason}" for one in refusals)
        raise UserError(f"{submissions} holds no submission that could be understood{why}")
    book = Gradebook(out)
    try:
        chosen_seed = book.seed(seed)
        book.receive(handed_in, refusals)
        tasks, key = _tasks(book, handed_in, exercises, course, level, chosen_seed, timeout, out)
        _run(book, tasks, key, course, engine, scheduler, jobs or os.cpu_count() or 1)
        book.write_files()
        from lab_grader.course.grading import reports

        reports.write(out, book)
        _say(book, refusals, len(handed_in), len(tasks), out)
    finally:
        book.close()
    return 0


def _with_missing(handed_in: list[Submission], roster: list[str]) -> list[Submission]:
    there = {one.student for one in handed_in}
    nothing = intake.stubs()
    missing = [
        Submission(student, nothing, notes=("nothing was handed in",))
        for student in roster
        if student not in there
    ]
    return sorted([*handed_in, *missing], key=lambda one: one.student)


def _tasks(
    book: Gradebook,
    handed_in: list[Submission],
    exercises: list[Exercise],
    course: Course,
    level: str,
    seed: int,
    timeout: float | None,
    out: Path,
) -> tuple[list[engines.Task], str]:
    """Make a task of every submission with exercises not graded yet; give the conditions' key too."""
    limits: dict[str, Limits] = {}
    for exercise in exercises:
        own = course.limits_of(exercise.id)
        limits[exercise.id] = Limits(timeout, own.memory) if timeout else own
    facts = f"{course} {level} {seed} {limits} {digest(exercises)}"
    key = hashlib.sha256(facts.encode()).hexdigest()
    tasks = []
    for one in handed_in:
        open_ = tuple(e.id for e in exercises if not book.is_graded(one, e.id, key))
        if open_:
            tasks.append(engines.Task(one, open_, limits, level, seed, str(out / ".known")))
    return tasks, key


def _run(
    book: Gradebook,
    tasks: list[engines.Task],
    key: str,
    course: Course,
    engine: str,
    scheduler: str | None,
    jobs: int,
) -> None:
    if not tasks:
        return
    if engine == "dask":
        if scheduler is None:
            raise UserError("--engine dask needs --scheduler ADDRESS, such as tcp://127.0.0.1:8786")
        results = engines.run_on_dask(tasks, scheduler, lambda who: print(f"connected to {who}"))
    else:
        results = engines.run_locally(tasks, min(jobs, len(tasks)))
    with _progress(len(tasks)) as done:
        for task, grades in results:
            one = task.submission
            book.enter(one, [course.settle(g, one.submitted_at) for g in grades], key)
            done(any(g.status not in ("right", "wrong", "not_started", "waiting") for g in grades))


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    """Show done, remaining, rate and failures; lines now and then where there is no terminal."""
    console = Console(stderr=True)
    start, count, troubled, shown = time.monotonic(), 0, 0, 0.0
    bar = Progress(
        TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[rate]}"), console=console, transient=True,
        disable=not console.is_terminal,
    )  # fmt: skip
    task = bar.add_task("", total=total, rate="")

    def done(trouble: bool) -> None:
        nonlocal count, troubled, shown
        count, troubled = count + 1, troubled + trouble
        passed = time.monotonic() - start
        rate = f"{count / passed:.1f} a second, {troubled} in trouble"
        bar.update(task, advance=1, rate=rate)
        if not console.is_terminal and (passed - shown >= 10 or count == total):
            shown = passed
            console.print(f"graded {count} of {total}, {rate}", highlight=False)

    with bar:
        yield done


def _say(book: Gradebook, refusals: list[Refused], students: int, graded: int, out: Path) -> None:
    for refusal in refusals:
        print(f"not understood: {refusal.source}: {refusal.reason}")
    print(f"{students} submissions, {graded} graded now, {students - graded} unchanged.")
    print(f"Open {out / 'index.html'}; the grades are in {out / 'gradebook.csv'}.")


def report(out: Path) -> int:
    """Write all files of a grading again from its gradebook."""
    from lab_grader.course.grading import reports

    book = _existing(out)
    try:
        book.write_files()
        reports.write(out, book)
    finally:
        book.close()
    print(f"Open {out / 'index.html'}.")
    return 0


def _existing(out: Path) -> Gradebook:
    if not (out / FILE).exists():
        raise UserError(f"{out} holds no gradebook: run `lab grade` first")
    return Gradebook(out)


def regrade(out: Path, what: list[str]) -> int:
    """Forget the grades of students or exercises, so that the next `lab grade` makes them again."""
    book = _existing(out)
    try:
        students = book.submissions()
        for word in what:
            if word in students:
                count = book.forget(word, None)
            else:
                count = sum(book.forget(None, exercise.id) for exercise in select([word]))
            print(f"{word}: {count} grades will be made again by the next `lab grade`")
    finally:
        book.close()
    return 0
