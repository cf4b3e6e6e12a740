"""The commands of the `lab` command that only the course's side has.

Modules are imported when their command runs: most of them need torch, which takes seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from lab_check.errors import UserError

Command = Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]


def add_commands(command: Command) -> None:
    """Declare them all."""
    release = command(
        "release", _release, "write a learner's workspace: stubs, tests, notebooks, checks"
    )
    release.add_argument("out", type=Path, metavar="OUT", help="the folder to write (or the zip file)")
    release.add_argument("--weeks", default="", metavar="1-3", help="the weeks to release (all)")
    release.add_argument("--zip", action="store_true", help="write OUT.zip instead of a folder")
    release.add_argument(
        "--course", type=Path, metavar="FILE", help="course.toml: of it, weeks and the book's address"
    )
    release.add_argument(
        "--book", metavar="URL",
        help="where the book's pages are published; without it, checks name the section by its title",
    )  # fmt: skip
    record = command(
        "record",
        _record,
        "store anew what releases carry of the wrong turns, where sources changed",
    )
    record.add_argument("what", nargs="*", metavar="WHAT", help="weeks or exercises (all)")
    prove = command("prove", _prove, "try every right and wrong solution in the bank on the tests")
    prove.add_argument("what", nargs="*", metavar="WHAT", help="weeks or exercises (all)")
    prove.add_argument("--seed", type=int, help="the seed of all inputs (the published one)")
    turn = command(
        "turn", _turn, "say whether a wrong solution is known; if not, write its entry into the bank"
    )
    turn.epilog = (
        "FILE is run in a sandbox, as by `lab grade`. What is new is put at the end of the exercise's "
        "turns.md as a change of its usual.py; its name and its message are left to write."
    )
    turn.add_argument("exercise", metavar="EXERCISE", help="the exercise, such as 3.2")
    turn.add_argument(
        "file", type=Path, metavar="FILE", help="a Python file or notebook with the block in it"
    )
    turn.add_argument("--isolation", choices=["full", "reduced", "process"], help="full on Linux")
    mutants = command("mutants", _mutants, "change the reference in small ways: do the tests notice?")
    mutants.add_argument("what", nargs="*", metavar="WHAT", help="weeks or exercises (all)")
    notebooks = command(
        "notebooks", _notebooks, "bring the notebooks in step with the blocks, and run them"
    )
    notebooks.add_argument("weeks", nargs="*", metavar="WEEK", help="the weeks (all)")
    notebooks.add_argument("--check", action="store_true", help="only say what is out of step")
    grade = command("grade", _grade, "grade a class of submissions")
    grade.epilog = (
        "Exit code 0: all is graded; 1: grades of other exercises are still to be made, as after `lab "
        "regrade`; 2: misused; 3: all else is graded, but the grader itself failed somewhere, see "
        "errors.log in GRADES."
    )
    grade.add_argument(
        "submissions", type=Path, metavar="SUBMISSIONS", help="the folder or archive they lie in"
    )
    grade.add_argument("--out", type=Path, required=True, metavar="GRADES", help="where grades go")
    choice = grade.add_mutually_exclusive_group()
    choice.add_argument("--week", type=int, help="grade one week (all of the course)")
    choice.add_argument("--exercises", default="", metavar="3.1,3.2", help="grade these exercises")
    grade.add_argument(
        "--notebooks", action=argparse.BooleanOptionalAction, default=None,
        help="run the course's notebooks against each submission, seconds to a minute each (with "
        "--week, or where the course file has a table [notebook])",
    )  # fmt: skip
    grade.add_argument("--jobs", type=int, help="processes on this machine (its cores)")
    grade.add_argument("--engine", choices=["local", "dask"], default="local", help="who does the work")
    grade.add_argument("--scheduler", metavar="ADDRESS", help="the scheduler of a Dask cluster")
    grade.add_argument("--seed", type=int, help="the seed of hidden inputs (random, kept in GRADES)")
    grade.add_argument("--timeout", type=float, metavar="S", help="seconds for one property (5)")
    grade.add_argument("--isolation", choices=["full", "reduced", "process"], help="full on Linux")
    grade.add_argument("--roster", type=Path, metavar="FILE", help="CSV of all students")
    grade.add_argument(
        "--course",
        type=Path,
        metavar="FILE",
        help="course.toml: weeks, points, deadlines, limits and more",
    )
    grade.add_argument("--book", metavar="URL", help="where the book's pages are, for links in reports")
    regrade = command("regrade", _regrade, "have grades made again by the next `lab grade`")
    regrade.add_argument("grades", type=Path, metavar="GRADES", help="the folder of the grades")
    regrade.add_argument(
        "what", nargs="*", metavar="STUDENT|EXERCISE", help="whose, or which (3, 3.2, 3.notebook)"
    )
    regrade.add_argument(
        "--student", action="append", default=[], metavar="NAME", dest="students",
        help="a student who is called like an exercise",
    )  # fmt: skip
    report = command("report", _report, "write the reports of a class again from its gradebook")
    report.add_argument("grades", type=Path, metavar="GRADES", help="the folder of the grades")
    export = command("export", _export, "write grades, or an autograder, for another system")
    export.add_argument(
        "grades", type=Path, nargs="?", metavar="GRADES", help="the folder of the grades"
    )
    goal = export.add_mutually_exclusive_group(required=True)
    goal.add_argument(
        "--to", choices=["gradescope", "github", "canvas", "moodle", "csv"], help="whom for"
    )
    goal.add_argument(
        "--autograder", type=Path, metavar="OUT", help="write autograders into this folder"
    )
    export.add_argument("--out", type=Path, metavar="FILE", help="where to write (GRADES/export)")
    export.add_argument(
        "--exercises", default="", metavar="3,4.1", help="what an autograder grades (all)"
    )
    export.add_argument("--isolation", choices=["full", "reduced", "process"], default="full",
                        help="of an autograder (full)")  # fmt: skip
    serve = command("serve", _serve, "serve the built book on this machine")
    serve.add_argument("--port", type=int, default=8000, help="first port to try (8000)")
    serve.add_argument("--open", action="store_true", help="open the book in a browser")
    serve.add_argument(
        "--lab", type=Path, nargs="?", const=Path(), metavar="WORKSPACE",
        help="run JupyterLab too, on a workspace (made if there is none; the one around this folder); "
        "a week's page then opens its notebook there",
    )  # fmt: skip


def _release(args: argparse.Namespace) -> int:
    from lab_grader.grading.gradebook.policy import book_address, read_course
    from lab_grader.release import release

    course = read_course(args.course)
    book = book_address(args.book, "--book") or course.book
    return release(args.out, args.weeks or course.weeks, args.zip, book)


def _record(args: argparse.Namespace) -> int:
    from lab_check.bars import bar
    from lab_check.exercises import select
    from lab_grader import record
    from lab_grader.grading.model import counted

    _in_checkout("record")
    old = record.outdated(select(args.what))
    with bar("recording", len(old)) as done:
        record.store(old, done)
    print(f"{counted(len(old), 'exercise')} recorded, all others are up to date.")
    return 0


def _in_checkout(command: str) -> None:
    """Refuse to write to a course that was installed from a wheel."""
    from lab_check.paths import COURSE, HOME

    if COURSE != HOME:
        raise UserError(f"an installed course is not written to: run `lab {command}` in a checkout")


def _prove(args: argparse.Namespace) -> int:
    from lab_check.running.tape import PUBLISHED_SEED
    from lab_grader.prove import print_proofs

    return print_proofs(args.what, PUBLISHED_SEED if args.seed is None else args.seed)


def _turn(args: argparse.Namespace) -> int:
    from lab_grader.turn import turn

    return turn(args.exercise, args.file, args.isolation)


def _mutants(args: argparse.Namespace) -> int:
    from lab_grader.mutants.scores import print_scores

    return print_scores(args.what)


def _notebooks(args: argparse.Namespace) -> int:
    _in_checkout("notebooks")
    try:
        from lab_grader import notebooks
    except ModuleNotFoundError as error:
        raise UserError(
            f"{error.name} is not installed, and notebooks need it: `make setup` brings it"
        ) from None
    found = 0
    for path in notebooks.texts(args.weeks):
        if not args.check:
            print(f"running {path.name}", flush=True)
            notebooks.build(path)
        for problem in notebooks.problems(path):
            print(problem)
            found += 1
    return 1 if found else 0


def _grade(args: argparse.Namespace) -> int:
    from lab_grader.grading.run import grade

    what = (
        [str(args.week)]
        if args.week is not None
        else [word for word in args.exercises.split(",") if word]
    )
    return grade(
        args.submissions,
        args.out,
        what,
        jobs=args.jobs,
        engine=args.engine,
        scheduler=args.scheduler,
        seed=args.seed,
        timeout=args.timeout,
        isolation=args.isolation,
        roster=args.roster,
        course_file=args.course,
        notebooks=args.notebooks,
        book_at=args.book,
    )


def _regrade(args: argparse.Namespace) -> int:
    from lab_grader.grading.run import regrade

    return regrade(args.grades, args.what, args.students)


def _report(args: argparse.Namespace) -> int:
    from lab_grader.grading.run import report

    return report(args.grades)


def _export(args: argparse.Namespace) -> int:
    from lab_grader.grading.gradebook import exports

    if args.autograder is not None:
        return exports.autograder(
            args.autograder, [word for word in args.exercises.split(",") if word], args.isolation
        )
    if args.grades is None:
        raise UserError("name the folder of the grades: lab export GRADES --to csv")
    return exports.export(args.grades, args.to, args.out)


def _serve(args: argparse.Namespace) -> int:
    from lab_grader.serve import serve

    return serve(args.port, args.open, workspace=args.lab)
