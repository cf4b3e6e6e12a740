"""The `lab` command."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from lab_check import exercises as catalogue
from lab_check.bars import bar
from lab_check.errors import UserError
from lab_check.paths import checker_in, foreign_workspace, workspace_around
from lab_check.workspace import Workspace, course_checkout, current

if TYPE_CHECKING:
    from lab_check.diagnosing.turns import KnownTurns
    from lab_check.doctor import Finding

OK, NOT_RIGHT, MISUSED, STOPPED = 0, 1, 2, 130
# What a workspace answers itself; all else is the course's, wherever it is asked.
_LEARNERS = ("check", "hint", "undo", "progress", "exercises", "doctor")


Command = Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]


@dataclass(frozen=True)
class CourseSide:
    """What the course's own side adds to the command: it has the bank, and grades."""

    add_commands: Callable[[Command], None]
    known: Callable[[catalogue.Exercise], KnownTurns | None]
    findings: Callable[[], Iterator[Finding]]


def main(argv: Sequence[str] | None = None, course: CourseSide | None = None) -> int:
    """Run the `lab` command and give its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        return _run(words, course)
    except (UserError, catalogue.UnknownExerciseError) as error:
        print(f"lab: {error.args[0]}", file=sys.stderr)
        return MISUSED
    except KeyboardInterrupt:
        print("\nlab: stopped", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:
        # The reader has seen enough; Python must not complain about it when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        print(f"lab: {error}", file=sys.stderr)
        return MISUSED


def _run(words: list[str], course: CourseSide | None) -> int:
    if words and words[0] in _LEARNERS:
        _enter_workspace(words)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no ✓ is no reason to stop
    args = _parser(course).parse_args(words)
    code: int = args.run(args)
    return code


def _enter_workspace(words: list[str]) -> None:
    """In a released workspace, hand over to the check that lies there."""
    root = foreign_workspace()
    if root is not None and (checker := checker_in(root)):
        paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        os.execve(sys.executable, [sys.executable, "-m", checker, *words], environment)


def _parser(course: CourseSide | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lab",
        description="Build a Transformer, and know at once whether each block is right.",
        epilog="`lab COMMAND --help` says more. Exit code 0: all is right; 1: not yet; 2: misused.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(
        name: str, run: Callable[[argparse.Namespace], int], help: str
    ) -> argparse.ArgumentParser:
        end = "" if help.endswith("?") else "."
        added = commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + end)
        added.set_defaults(run=run, side=course)
        return added

    check = command("check", _check, "check exercises and name the mistakes")
    _add_choice(check, "what to check: 3 (a week), 3.2 (an exercise); everything started when left out")
    check.add_argument("--all", action="store_true", help="name all that fails, not the first three")
    check.add_argument("--watch", action="store_true", help="check again whenever a file is saved")
    check.add_argument("--json", action="store_true", help="print results for programs")
    check.add_argument("--device", default="cpu", help="cpu (default), cuda, mps, or auto")
    hint = command("hint", _hint, "show the hints of an exercise so far, and the next one")
    hint.add_argument("exercise", help="the exercise, such as 3.2")
    hint.add_argument("--again", action="store_true", help="show those so far, and no new one")
    undo = command("undo", _undo, "bring back what stood in a block before; shows it first, and asks")
    undo.add_argument("exercise", help="the exercise, such as 3.2")
    undo.add_argument("--list", action="store_true", help="list the versions that are kept")
    undo.add_argument("--to", type=int, metavar="N", help="the version to bring back (the one before)")
    undo.add_argument("--yes", action="store_true", help="do not ask")
    command("progress", _progress, "show how far you are, week by week")
    listing = command("exercises", _exercises, "list all exercises and how they stand")
    _add_choice(listing, "which: 3 (a week), 3.2 (an exercise); all when left out")
    listing.add_argument("--json", action="store_true", help="print the list for programs")
    command("doctor", _doctor, "say what of the environment is there, and how to get the rest")
    if course is not None:
        course.add_commands(command)
    return parser


def _add_choice(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("what", nargs="*", metavar="WHAT", help=help)


def _check(args: argparse.Namespace) -> int:
    workspace = course_checkout() or current()
    chosen = catalogue.select(args.what)
    if not args.watch:
        if not args.json:
            _say_where(workspace)
        return _check_once(workspace, chosen, args)
    if args.json:
        raise UserError("--watch and --json do not go together: --json is for one run")
    console, digest = Console(), ""
    while True:
        if workspace.digest() != digest:
            digest = workspace.digest()
            console.clear()
            _check_in_new_process(args)
            console.print(
                f"[dim]watching {escape(str(workspace.package))}: save a file, or Ctrl-C to stop[/]",
                soft_wrap=True,
            )
        time.sleep(0.3)


def _say_where(workspace: Workspace) -> None:
    """Tell whose blocks an answer is about."""
    what = "the course's own solutions, in" if workspace.is_course else "in"
    Console(highlight=False, soft_wrap=True).print(f"[dim]{what} {escape(str(workspace.root))}[/]")


def _check_in_new_process(args: argparse.Namespace) -> None:
    """Check in a fork, so that every run imports the learner's files as they are now."""
    import subprocess

    import torch  # noqa: F401  the fork inherits it, so that each run takes milliseconds

    words = ["check", *args.what, "--device", args.device, *(["--all"] if args.all else [])]
    if hasattr(os, "fork"):
        pid = os.fork()
        if pid == 0:
            os._exit(main(words, args.side))
        os.waitpid(pid, 0)
    else:
        subprocess.run([sys.executable, "-m", "lab_check", *words], check=False)


def _check_once(
    workspace: Workspace, chosen: list[catalogue.Exercise], args: argparse.Namespace
) -> int:
    if not args.what:
        chosen = [exercise for exercise in chosen if workspace.is_started(exercise)]
        if not chosen and not args.json:
            first = next(iter(catalogue.catalogue().values()))
            print(f"Nothing is started yet. Begin with {first.id}, {first.title}: lab hint {first.id}")
            return NOT_RIGHT
    from lab_check import card, checking

    console = Console(highlight=False, soft_wrap=True)
    results = []

    def show(lines: Iterable[list[tuple[str, str]]]) -> None:
        if not args.json:
            for line in lines:
                print_hanging(console, Text.assemble(*line))

    with bar("checking", len(chosen), hidden=args.json or len(chosen) < 2) as advance:
        known = args.side.known if args.side else checking.recorded
        for result in checking.check_exercises(workspace, chosen, args.device, known):
            results.append(result)
            advance()
            if result.properties or result.diagnosis is None:
                wrong = result.properties and result.status != "right"
                where = catalogue.reading(result.exercise) if wrong else ""
                show(card.lines(result, where, args.all))
    show(card.not_imported(results))
    if args.json:
        print(
            json.dumps([checking.to_json(result) for result in results], indent=1, ensure_ascii=False)
        )
    right = sum(result.status == "right" for result in results)
    if len(results) > 1 and not args.json:
        console.print(f"[bold]{right} of {len(results)} right[/]")
    return OK if results and right == len(results) else NOT_RIGHT


def print_hanging(console: Console, line: Text) -> None:
    """Print a line; in a terminal, what does not fit goes on below where the words begin."""
    if not console.is_terminal:
        console.print(line)
        return
    start = len(line.plain) - len(line.plain.lstrip(" ✗✓"))
    head, body = line.divide([start])
    indent = Text(" " * start)
    for number, part in enumerate(body.wrap(console, max(console.width - start, 20))):
        part.rstrip()
        console.print(Text.assemble(indent if number else head, part))


def _one(word: str, what: str) -> catalogue.Exercise:
    found = catalogue.select([word])
    if len(found) != 1:
        raise UserError(f"`lab {what}` is for one exercise: name it, as in `lab {what} {found[0].id}`")
    return found[0]


def _hint(args: argparse.Namespace) -> int:
    workspace, exercise = current(), _one(args.exercise, "hint")
    _say_where(workspace)
    seen = workspace.hints_seen(exercise) if args.again else workspace.next_hint(exercise)
    console = Console(highlight=False)
    console.print(f"[bold]{exercise.id} {escape(exercise.title)}[/]")
    for line in hint_lines(exercise, seen):
        console.print(escape(line))
    return OK


def hint_lines(exercise: catalogue.Exercise, seen: list[str]) -> list[str]:
    """Put hints into lines, with a word on what is left."""
    lines = [f"hint {i} of {len(exercise.hints)}: {hint}" for i, hint in enumerate(seen, 1)]
    left = len(exercise.hints) - len(seen)
    return [*lines, f"{left} more: ask again" if left else "these are all"]


def _undo(args: argparse.Namespace) -> int:
    from lab_check import undoing

    workspace, exercise = current(), _one(args.exercise, "undo")
    _say_where(workspace)
    if args.list:
        print("\n".join(undoing.listing(workspace, exercise)))
        return OK
    done = undoing.undo(workspace, exercise, args.to, print, sure=args.yes)
    return OK if done else NOT_RIGHT


def _progress(args: argparse.Namespace) -> int:
    workspace = current()
    _say_where(workspace)
    Console(highlight=False).print(progress_table(workspace))
    return OK


def progress_table(workspace: Workspace) -> Table:
    """Lay out weeks, bars and points."""
    from lab_check import checking

    stands = list(checking.stands(workspace))
    table = Table("week", "topic", "", "right", "points", box=None, padding=(0, 2, 0, 0))
    rows = {
        week: [s for s in stands if s[0].week == week] for week in sorted({s[0].week for s in stands})
    }
    for week, row in rows.items():
        table.add_row(str(week), catalogue.topics()[week].replace("_", " "), *_tally(row))
    table.add_section()
    table.add_row("", "all", *_tally(stands))
    return table


def _tally(row: list[tuple[catalogue.Exercise, str, float]]) -> tuple[str, str, str]:
    right = sum(status == "right" for _, status, _ in row)
    points, total = sum(points for *_, points in row), sum(e.points for e, *_ in row)
    filled = round(20 * points / total)
    bar = f"[green]{'█' * filled}[/][dim]{'░' * (20 - filled)}[/]"
    return bar, f"{right} of {len(row)}", f"{points:g} of {total}"


def _exercises(args: argparse.Namespace) -> int:
    from lab_check import card, checking

    chosen = catalogue.select(args.what)
    states: dict[str, str] = {}
    if workspace_around(Path.cwd()) is not None:
        states = {exercise.id: status for exercise, status, _ in checking.stands(current())}
    if args.json:
        facts = [
            {
                "id": e.id, "week": e.week, "title": e.title, "block": e.block,
                "state": states.get(e.id), "points": e.points, "difficulty": e.difficulty,
                "minutes": e.minutes, "needs": e.needs,
            }
            for e in chosen
        ]  # fmt: skip
        print(json.dumps(facts, indent=1, ensure_ascii=False))
        return OK
    titles = ["id", "title", "block", "points", "minutes", *(["state"] if states else [])]
    table = Table(*titles, box=None, padding=(0, 2, 0, 0))
    for e in chosen:
        row = [e.id, escape(e.title), e.block, str(e.points), str(e.minutes)]
        if state := states.get(e.id):
            row.append(f"[{card.COLOURS[state]}]{card.MARKS[state]} {state.replace('_', ' ')}[/]")
        table.add_row(*row)
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)
    return OK


def _doctor(args: argparse.Namespace) -> int:
    from lab_check.doctor import examine

    console = Console(highlight=False, soft_wrap=True)
    missing = 0
    more = args.side.findings() if args.side else ()
    for finding in (*examine(), *more):
        mark = "[green]✓[/]" if finding.ok else "[red]✗[/]" if finding.needed else "[yellow]–[/]"
        console.print(f"{mark} {escape(finding.what)}: {escape(finding.state)}")
        missing += finding.needed and not finding.ok
    return NOT_RIGHT if missing else OK
