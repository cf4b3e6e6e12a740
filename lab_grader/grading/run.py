"""`lab grade` and `lab regrade`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab_check.bars import bar
from lab_check.errors import UserError
from lab_check.exercises import Exercise, UnknownExerciseError, catalogue, select
from lab_check.paths import package_folder
from lab_grader.grading import engines
from lab_grader.grading.gradebook.book import ERRORS, FILE, Gradebook, kept, said_of
from lab_grader.grading.gradebook.policy import (
    Course,
    book_address,
    of_weeks,
    read_course,
    read_roster,
)
from lab_grader.grading.intake import collect
from lab_grader.grading.model import (
    LEVELS,
    NOTEBOOK,
    TRACEBACK,
    Conditions,
    Grade,
    HandedIn,
    Refused,
    counted,
    is_notebook,
    notebook_id,
    refused,
    rounding,
    stable_key,
)
from lab_grader.record import digest

if TYPE_CHECKING:
    from lab_grader.grading.notebooks.stored import Notebook


_GUESSED = 2**64  # seeds below it can be tried one after the other
UNFINISHED = 1  # the exit code where grades are still to be made
TROUBLE = 3  # the exit code of a run in which the grader itself failed somewhere
# A notebook may take so many times as long as with the course's own package.
_TIMES_AS_LONG = 5


def grade(
    submissions: Path,
    out: Path,
    what: list[str],
    *,
    jobs: int | None = None,
    engine: str = "local",
    scheduler: str | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    isolation: str | None = None,
    roster: Path | None = None,
    course_file: Path | None = None,
    notebooks: bool | None = None,
    book_at: str | None = None,
) -> int:
    """Grade a class; the same command goes on where a killed one stopped."""
    if timeout is not None and timeout <= 0:
        raise UserError(f"--timeout is a number of seconds above zero, not {timeout:g}")
    if jobs is not None and jobs < 1:
        raise UserError(f"--jobs is a number of processes from 1 on, not {jobs}")
    if engine == "dask" and scheduler is None:
        raise UserError("--engine dask needs --scheduler ADDRESS, such as tcp://127.0.0.1:8786")
    if scheduler is not None and engine != "dask":
        raise UserError("--scheduler needs --engine dask: without it, this machine does the work")
    if out.resolve().is_relative_to(submissions.resolve()):
        raise UserError(
            f"{out} is where the submissions lie, and would be read as one: name a folder outside of "
            f"{submissions} with --out"
        )
    course = read_course(course_file)
    address = book_address(book_at, "--book") or course.book
    level = isolation or ("full" if sys.platform == "linux" else "process")
    if LEVELS.index(level) < LEVELS.index(course.isolation):
        raise UserError(
            f"the course asks for isolation {course.isolation!r} at least, and {level!r} is less"
        )
    exercises = select(what) if what else of_weeks(course.weeks, "weeks")
    graded_notebooks = _notebooks(notebooks, what, exercises, course)
    students = None if roster is None else read_roster(roster)
    with contextlib.ExitStack() as stack:
        if engine == "local" and not (out / FILE).exists():  # in a new folder all is still to grade
            stack.enter_context(engines.prepared(level, exercises))
        received = collect.read_submissions(submissions, course.attempts)
        refusals = [one for one in received if isinstance(one, Refused)]
        handed_in = collect.everybody(received, students)
        if not handed_in:
            raise UserError(f"{submissions} holds no submission")
        book = Gradebook(out)
        stack.enter_context(kept(out))
        try:
            book.reserve()
            chosen_seed = book.seed(seed)
            _warn_of(seed)
            book.receive(handed_in, refusals)
            for one in refusals:
                if one.trouble:
                    book.trouble(one.student, f"reading {one.source}", one.trouble)
            book.remember("book", address)
            limits = {id: course.limits_of(id, timeout) for id in catalogue()}
            assignment = Assignment(tuple(exercises), course, Conditions(level, chosen_seed, limits))
            work = Work(book, assignment, scheduler if engine == "dask" else None, jobs)
            work.check(graded_notebooks)
            work.refuse([one for one in handed_in if one.unreadable])
            tasks = work.tasks([one for one in handed_in if not one.unreadable])
            work.run(tasks)
            book.write_files()
            from lab_grader.grading.gradebook import reports

            reports.write(out, book)
            _say(handed_in, refusals, [task.submission for task in tasks], out)
            return _end(book)
        except KeyboardInterrupt:
            print("Stopped. What is graded is kept, and the same command goes on.", file=sys.stderr)
            raise
        finally:
            book.close()


def _warn_of(seed: int | None) -> None:
    if seed is not None and abs(seed) < _GUESSED:
        print(
            f"--seed {seed} is short enough to be guessed by the code that is graded: good for a "
            f"trial. Without --seed a long one is drawn, and kept with the grades.",
            file=sys.stderr,
        )


def _notebooks(
    wanted: bool | None, what: list[str], exercises: list[Exercise], course: Course
) -> list[Notebook]:
    """Prepare the notebooks to grade: asked for, or the course's wish, or that of a single week."""
    one_week = len(what) == 1 and what[0].isdigit()
    by_default = one_week if course.notebooks is None else course.notebooks
    if not (by_default if wanted is None else wanted):
        return []
    weeks = sorted({exercise.week for exercise in exercises})
    whole = [week for week in weeks if set(select([str(week)])) <= set(exercises)]
    if wanted and not whole:
        raise UserError(
            "a notebook is graded with all exercises of its week: choose the week with --week, or "
            "grade with --no-notebooks"
        )
    for week in weeks:
        if week not in whole:
            print(
                f"the notebook of week {week} is left out: it is graded with all exercises of its week"
            )
    from lab_grader.grading.notebooks.stored import path_of, prepare

    worth, limits = course.notebook_points, course.notebook_limits
    return [prepare(path_of(week), week, worth, limits) for week in whole]


@dataclass(frozen=True)
class Assignment:
    """What is graded how; what is graded alike has equal keys, in every run."""

    exercises: tuple[Exercise, ...]
    course: Course
    conditions: Conditions

    def key(self, exercise: Exercise, submission: HandedIn) -> str:
        """Sum up all that the grade of an exercise depends on beside the files, its lateness included.

        What else is graded in the same run is no part of it.
        """
        terms = self.course.terms(exercise.id, exercise.week, submission.submitted_at)
        return stable_key(terms, self._conditions, _sources(exercise))

    def notebook_key(self, notebook: Notebook, submission: HandedIn) -> str:
        """Sum up all that the grade of a notebook depends on: the exercises of its week, too."""
        own = [self.key(exercise, submission) for exercise in select([str(notebook.week)])]
        return stable_key(own, notebook)

    @functools.cached_property
    def _conditions(self) -> str:
        return stable_key(self.conditions)


@functools.cache
def _sources(exercise: Exercise) -> str:
    """Sum up the sources that decide about an exercise: its own, and of those that it is built on."""
    found, asked = {exercise.id: exercise}, [exercise]
    while asked:
        for id in asked.pop().needs:
            if id not in found:
                found[id] = catalogue()[id]
                asked.append(found[id])
    return digest(list(found.values()))


class Work:
    """An assignment, who does it, and where the grades go."""

    def __init__(
        self,
        book: Gradebook,
        assignment: Assignment,
        scheduler: str | None,
        jobs: int | None,
    ) -> None:
        self._book, self._assignment, self._scheduler = book, assignment, scheduler
        self._jobs = jobs or os.cpu_count() or 1
        self._level = assignment.conditions.isolation
        self._notebooks: list[Notebook] = []

    def check(self, notebooks: list[Notebook]) -> None:
        """Run notebooks against the course's own package: what differs here counts for nobody."""
        package = {path.name: path.read_bytes() for path in sorted(package_folder().glob("*.py"))}
        course = HandedIn("the course", package)
        # On another machine other cells may differ.
        here = f"{platform.node()} {version('torch')} {rounding()}"
        tasks = []
        for one in notebooks:
            conditions = f"{course.digest} {one.text} {self._level} {here}"
            fact = f"notebook {one.week} {hashlib.sha256(conditions.encode()).hexdigest()}"
            if (known := self._book.fact(fact)) is not None:
                self._notebooks.append(_settled(one, **json.loads(known)))
            else:
                own = [exercise for exercise in self._assignment.exercises if exercise.week == one.week]
                patient = dataclasses.replace(one.limits, seconds=_TIMES_AS_LONG * one.limits.seconds)
                tasks.append(
                    (fact, self._task(course, own, [dataclasses.replace(one, limits=patient)]))
                )
        for _, task in tasks:
            week = task.notebooks[0].week
            print(f"first the course's own package runs the notebook of week {week}", flush=True)
        names = {id(task): fact for fact, task in tasks}
        for task, grades in self._results([task for _, task in tasks]):
            (one,), result = task.notebooks, grades[-1]
            if not result.passed:
                raise UserError(
                    f"the notebook of week {one.week} does not run here as it is stored "
                    f"({result.status}): `lab notebooks {one.week}` runs it anew, and --no-notebooks "
                    f"grades without it\n{result.feedback}"
                )
            for label in result.failed:
                print(f"not counted, for it prints something else here: week {one.week}, {label}")
            found: dict[str, Any] = {"labels": result.passed, "seconds": result.seconds}
            self._book.remember(names[id(task)], json.dumps(found))
            as_asked = next(notebook for notebook in notebooks if notebook.week == one.week)
            self._notebooks.append(_settled(as_asked, **found))
        self._notebooks.sort(key=lambda one: one.week)

    def _task(
        self, submission: HandedIn, exercises: list[Exercise], notebooks: list[Notebook]
    ) -> engines.Task:
        ids = tuple(exercise.id for exercise in exercises)
        return engines.Task(submission, ids, self._assignment.conditions, tuple(notebooks))

    def tasks(self, handed_in: list[HandedIn]) -> list[engines.Task]:
        """Make a task of every submission with something that is not graded yet."""
        tasks, asked = [], list[tuple[HandedIn, str]]()
        for one in handed_in:
            notebooks = [
                n
                for n in self._notebooks
                if not self._book.is_graded(
                    one, notebook_id(n.week), self._assignment.notebook_key(n, one)
                )
            ]
            weeks = {notebook.week for notebook in notebooks}
            exercises = [
                e
                for e in self._assignment.exercises
                # What a notebook earns depends on the exercises of its week.
                if e.week in weeks or not self._book.is_graded(one, e.id, self._assignment.key(e, one))
            ]
            if exercises:
                tasks.append(self._task(one, exercises, notebooks))
                asked += ((one, id) for id in (*(e.id for e in exercises), *map(notebook_id, weeks)))
        self._book.expect(asked)
        return tasks

    def refuse(self, unreadable: list[HandedIn]) -> None:
        """Enter those of whom nothing could be read: a row and a page that say why."""
        from lab_grader.grading.notebooks import stored

        for one in unreadable:
            exercises = (
                refused(one, e, one.unreadable, self._level) for e in self._assignment.exercises
            )
            notebooks = (stored.refused(one, n, one.unreadable, self._level) for n in self._notebooks)
            self._enter(one, [*exercises, *notebooks], self._notebooks)

    def _enter(self, one: HandedIn, grades: list[Grade], notebooks: Sequence[Notebook]) -> None:
        """Enter grades in the course's points."""
        assignment = self._assignment
        keys = {notebook_id(n.week): assignment.notebook_key(n, one) for n in notebooks}
        keys |= {e.id: assignment.key(e, one) for e in assignment.exercises}
        settled = [assignment.course.settle(grade, one.submitted_at) for grade in grades]
        self._book.enter(one, [(grade, keys[grade.exercise]) for grade in settled])

    def _results(self, tasks: list[engines.Task]) -> Iterator[tuple[engines.Task, list[Grade]]]:
        if not tasks:
            return iter(())
        if self._scheduler is not None:
            return engines.run_on_dask(tasks, self._scheduler, lambda who: print(f"connected to {who}"))
        return engines.run_locally(tasks, min(self._jobs, len(tasks)))

    def run(self, tasks: list[engines.Task]) -> None:
        """Grade, and enter every result as soon as it is there."""
        if not tasks:
            return
        if self._scheduler is None:
            print(f"grading {counted(len(tasks), 'submission')}; the first takes longest", flush=True)
        with _progress(len(tasks)) as done:
            for task, grades in self._results(tasks):
                one = task.submission
                for grade in grades:
                    if TRACEBACK in grade.extra:
                        where = grade.extra.pop(TRACEBACK)
                        self._book.trouble(one.student, grade.exercise, where)
                self._enter(one, grades, task.notebooks)
                done(any(g.status not in ("right", "wrong", "not_started", "waiting") for g in grades))


def _settled(notebook: Notebook, labels: list[str], seconds: float) -> Notebook:
    """Keep the cells that agree on this machine, and give more time where it is a slow one."""
    cells = tuple(cell for cell in notebook.cells if cell.label in labels)
    limits = dataclasses.replace(
        notebook.limits, seconds=max(notebook.limits.seconds, _TIMES_AS_LONG * seconds)
    )
    return dataclasses.replace(notebook, cells=cells, limits=limits)


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Callable[[bool], None]]:
    """Show done, remaining, rate and failures; lines now and then where there is no terminal."""
    lines = not sys.stderr.isatty()
    start, count, troubled, shown = time.monotonic(), 0, 0, 0.0

    def done(trouble: bool) -> None:
        nonlocal count, troubled, shown
        count, troubled = count + 1, troubled + trouble
        passed = time.monotonic() - start
        pace = f"{count / passed:.1f} a second" if count > passed else f"{passed / count:.0f} s each"
        rate = f"{pace}, {troubled} in trouble"
        advance(rate)
        if lines and (passed - shown >= 10 or count == total):
            shown = passed
            print(f"graded {count} of {total}, {rate}", file=sys.stderr)

    with bar("grading", total, long=True) as advance:
        yield done


def _say(everybody: list[HandedIn], refusals: list[Refused], graded: list[HandedIn], out: Path) -> None:
    for refusal in refusals:
        print(f"not understood: {refusal.source}: {refusal.reason}")
    for one in everybody:
        if one.rostered is False:
            print(f"not on the roster: {one.student}")
    handed_in = [one for one in everybody if not one.missing]
    unreadable = sum(bool(one.unreadable) for one in handed_in)
    now = sum(not one.missing for one in graded)
    said = f"{counted(len(handed_in), 'submission')}, {now} graded now"
    said += f", {len(handed_in) - now - unreadable} unchanged"
    said += f", {unreadable} that cannot be read" if unreadable else ""
    missing = len(everybody) - len(handed_in)
    print(f"{said}; {missing} on the roster handed in nothing." if missing else f"{said}.")
    print(f"Open {out / 'index.html'}; the grades are in {out / 'gradebook.csv'}.")


def _end(book: Gradebook) -> int:
    """Say what is still to be graded, and how often the grader itself failed, as the exit code does."""
    ungraded = book.ungraded()
    if ungraded:
        print(f"{said_of(ungraded)}: `lab grade` for these makes them.", file=sys.stderr)
    count = book.write_errors()
    if not count:
        return UNFINISHED if ungraded else 0
    print(
        f"{counted(count, 'unexpected error')} of the grader itself: all else is graded, and "
        f"{book.folder / ERRORS} says where. The same command tries again.",
        file=sys.stderr,
    )
    return TROUBLE


def report(out: Path) -> int:
    """Write all files of a grading again from its gradebook."""
    from lab_grader.grading.gradebook import reports

    book = _existing(out)
    try:
        with kept(out):
            book.write_files()
            reports.write(out, book)
            print(f"Open {out / 'index.html'}.")
            return _end(book)
    finally:
        book.close()


def _existing(out: Path) -> Gradebook:
    if not (out / FILE).exists():
        raise UserError(f"{out} holds no gradebook: run `lab grade` first")
    return Gradebook(out)


def regrade(out: Path, what: list[str], students: list[str]) -> int:
    """Forget the grades of students or exercises, so that the next `lab grade` makes them again.

    A word that is an exercise means it, whatever students are called; `students` are meant as such.
    """
    if not what and not students:
        raise UserError("say whose grades, or of which exercise: `lab regrade GRADES 3.2`")
    book = _existing(out)
    try:
        known = book.submissions()
        exercises = {word: ids for word in what if (ids := _named(word))}
        whose = {
            word: _student(word, known, out)
            for word in (*students, *(word for word in what if word not in exercises))
        }
        counts = [(word, sum(book.forget(None, id) for id in ids)) for word, ids in exercises.items()]
        counts += [(word, book.forget(student, None)) for word, student in whose.items()]
        for word, count in counts:
            print(f"{word}: {counted(count, 'grade')} will be made again by the next `lab grade`")
        for word in exercises.keys() & known.keys():
            print(f"{word} is the exercise; the student is `lab regrade {out} --student {word}`")
    finally:
        book.close()
    return 0


def _student(word: str, known: dict[str, dict[str, Any]], out: Path) -> str:
    """Find a student by the name of the report, or by the name or number alone where that is enough."""
    if word in known:
        return word
    found = [s for s, facts in known.items() if word in collect.called(s, facts.get("user", ""))]
    if len(found) > 1:
        raise UserError(f"{word!r} may be {', '.join(found)}: say which")
    if not found:
        raise UserError(f"{out} holds no student {word!r}; an exercise is a number such as 3.2")
    return found[0]


def _named(word: str) -> list[str]:
    """List what a word of `lab regrade` means: notebooks too, which depend on their exercises."""
    try:
        exercises = select([word.removesuffix(f".{NOTEBOOK}")])
    except UnknownExerciseError:
        return []
    if is_notebook(word):
        return [word]
    return [*(e.id for e in exercises), *{notebook_id(e.week): None for e in exercises}]
