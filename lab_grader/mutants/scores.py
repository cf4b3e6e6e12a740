"""Mutation testing: small changes to the reference, each of which the exercise tests must notice.

A mutant is one block with one change in its solution. Those that are as right as the reference are
listed in `mutants.toml` with the reason; of all others the tests must find nearly every one.
"""

from __future__ import annotations

import ast
import concurrent.futures
import copy
import functools
import importlib
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from lab_check import source
from lab_check.errors import UserError
from lab_check.exercises import Exercise, select
from lab_check.paths import package_folder
from lab_check.running.bench import Bench
from lab_check.running.children import check_in_children
from lab_check.running.tape import PUBLISHED_SEED
from lab_check.running.tests import load_tests
from lab_grader import bank, record
from lab_grader.mutants.operators import changes_of_expression, changes_of_statement

LISTED = Path(__file__).with_name("equal.toml")
WANTED = 0.98
SECONDS = 20.0  # for one test; on a busy machine a slow test must not pass for an endless loop
_CHUNK = 12


@dataclass(frozen=True)
class Mutant:
    """A block with one change. The lines are as Python would print them, so layout does not matter."""

    exercise: str
    operator: str
    line: str
    becomes: str
    text: str = field(repr=False)

    @property
    def key(self) -> tuple[str, str, str]:
        """What names this mutant, however the rest of the block changes."""
        return self.exercise, self.line, self.becomes


@dataclass
class Score:
    """How the mutants of one exercise ended."""

    exercise: Exercise
    killed: int = 0
    too_long: int = 0
    equivalent: int = 0
    survivors: list[Mutant] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def counted(self) -> int:
        """The mutants that the tests should notice."""
        return self.killed + len(self.survivors)

    @property
    def mutants(self) -> int:
        """All of them."""
        return self.counted + self.equivalent


def mutants_of(exercise: Exercise) -> list[Mutant]:
    """Make every mutant of an exercise's block."""
    text = (package_folder() / f"{exercise.module}.py").read_text(encoding="utf-8")
    return list(mutate(text, exercise.name, exercise.id))


def mutate(text: str, name: str, exercise: str) -> Iterator[Mutant]:
    """Change the solution of one block of a module, in one place at a time."""
    found = source.find_block(text, name)
    assert found is not None
    block = _Fold().visit(copy.deepcopy(found))
    lines = text.splitlines()
    solutions = source.regions(lines, block.lineno, _end(lines, block))
    seen = set()
    for holder, index, statement, names in _statements(block, []):
        if not any(begin < statement.lineno <= end for begin, end in solutions):
            continue
        line = _header(statement)
        for operator, put, old, new in _changes(holder, index, statement, names):
            put(new)
            becomes = _header(holder[index])
            if becomes != line and (statement.lineno, becomes) not in seen:
                seen.add((statement.lineno, becomes))
                yield Mutant(exercise, operator, line, becomes, ast.unparse(block))
            put(old)


def _end(lines: list[str], block: ast.stmt) -> int:
    """Find where a block ends: a closing marker is a comment, so the parser's end stops before it."""
    end = block.end_lineno or block.lineno
    while end < len(lines) and lines[end].startswith(" "):
        end += 1
    return end


class _Fold(ast.NodeTransformer):
    """Makes one constant of a minus and a number."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return ast.copy_location(ast.Constant(-node.operand.value), node)  # type: ignore[operator]
        return node


def _statements(
    node: ast.AST, names: list[str]
) -> Iterator[tuple[list[Any], int, ast.stmt, list[str]]]:
    """Walk over all statements below one, each with where it stands and its function's arguments."""
    if isinstance(node, ast.FunctionDef):
        names = [argument.arg for argument in node.args.args if argument.arg != "self"]
    for _, value in ast.iter_fields(node):
        if isinstance(value, list):
            for index, child in enumerate(value):
                if isinstance(child, ast.stmt):
                    yield value, index, child, names
                    yield from _statements(child, names)


def _header(statement: ast.stmt) -> str:
    return ast.unparse(statement).splitlines()[0]


Put = Callable[[Any], None]


def _changes(
    holder: list[Any], index: int, statement: ast.stmt, names: list[str]
) -> Iterator[tuple[str, Put, ast.AST, ast.AST]]:
    for operator, changed in changes_of_statement(statement):
        yield operator, functools.partial(holder.__setitem__, index), statement, changed
    for put, old in _expressions(statement):
        for operator, new in changes_of_expression(old, names):
            yield operator, put, old, new


def _expressions(node: ast.AST) -> Iterator[tuple[Put, ast.expr]]:
    """Walk over the expressions of a statement, without those of statements inside it."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.expr):
                if isinstance(value, list):
                    yield functools.partial(value.__setitem__, index), child
                else:
                    yield functools.partial(setattr, node, name), child
            if isinstance(child, ast.AST) and not isinstance(child, ast.stmt):
                yield from _expressions(child)


def build(exercise: Exercise, mutant: Mutant) -> Any:
    """Define a mutant among everything else that its module has."""
    module = importlib.import_module(f"lab_transformer.{exercise.module}")
    namespace = dict(vars(module))
    exec(compile(mutant.text, "<mutant>", "exec", dont_inherit=True), namespace)
    return namespace[exercise.name]


def outcome(exercise: Exercise, mutant: Mutant) -> str:
    """Run the tests until one fails: `survived`, or the symptom that it failed with."""
    try:
        block = build(exercise, mutant)
    except (SyntaxError, TypeError, ValueError, NameError) as error:
        return type(error).__name__
    tapes = bank.tapes(exercise.id, PUBLISHED_SEED)
    bench = Bench(lambda: bank.backend(exercise.id, block), replay=tapes)
    for property in check_in_children(load_tests()[exercise.id], bench, SECONDS):
        if not property.ok:
            return property.symptom
    return "survived"


def _outcomes(exercise: Exercise, mutants: list[Mutant]) -> list[str]:
    return [outcome(exercise, mutant) for mutant in mutants]


def listed() -> dict[tuple[str, str, str], str]:
    """Read why some mutants are as right as the reference."""
    entries: dict[tuple[str, str, str], str] = {}
    for group in tomllib.loads(LISTED.read_text(encoding="utf-8")).get("equivalent", []):
        for line, becomes in group["changes"]:
            key = (group["exercise"], line, becomes)
            if key in entries:
                raise UserError(f"{LISTED}: {key} is listed twice")
            entries[key] = group["why"]
    return entries


def score(exercises: list[Exercise], done: Callable[[int], object] = lambda n: None) -> list[Score]:
    """Try all mutants of some exercises, on all cores."""
    tasks = []
    for exercise in exercises:
        mutants = mutants_of(exercise)
        tasks += [(exercise, mutants[i : i + _CHUNK]) for i in range(0, len(mutants), _CHUNK)]
    ended: dict[str, list[tuple[Mutant, str]]] = {exercise.id: [] for exercise in exercises}
    with record.processes() as pool:
        waiting = {pool.submit(_outcomes, *task): task for task in tasks}
        for future in concurrent.futures.as_completed(waiting):
            exercise, mutants = waiting[future]
            ended[exercise.id] += zip(mutants, future.result(), strict=True)
            done(len(mutants))
    reasons = listed()
    return [_score(exercise, ended[exercise.id], reasons) for exercise in exercises]


def _score(
    exercise: Exercise, ended: list[tuple[Mutant, str]], reasons: Iterable[tuple[str, str, str]]
) -> Score:
    score = Score(exercise)
    unused = {key for key in reasons if key[0] == exercise.id}
    expected = set(unused)
    for mutant, how in ended:
        if how != "survived":
            score.killed += 1
            score.too_long += how == "timeout"
        elif mutant.key in expected:
            unused.discard(mutant.key)
            score.equivalent += 1
        else:
            score.survivors.append(mutant)
    for _, line, becomes in sorted(unused):
        score.problems.append(
            f"{LISTED.name} lists `{line}` as `{becomes}`, but the tests notice it or there is no such "
            "mutant any more: take it off the list"
        )
    return score


def count(exercises: list[Exercise]) -> int:
    """Tell how many mutants there are."""
    return sum(len(mutants_of(exercise)) for exercise in exercises)


def print_scores(what: list[str]) -> int:
    """Print a table of all figures, and every survivor; the exit code is 1 below what is wanted."""
    exercises = select(what)
    listed()  # what is wrong with the list is said before the long run, not after it
    columns = (TextColumn("mutants"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=count(exercises))
        scores = score(exercises, lambda n: progress.advance(task, n))
    table = Table(Column("exercise", no_wrap=True), box=None)
    # No figure is cut short where the table is wider than the terminal: titles are.
    for heading in ("mutants", "killed", "endless", "equal", "survived", "score"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=max(6, len(heading)))
    for entry in scores:
        table.add_row(escape(f"{entry.exercise.id} {entry.exercise.title}"), *_figures([entry]))
    table.add_row("[bold]all[/]", *(f"[bold]{figure}[/]" for figure in _figures(scores)))
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    for entry in scores:
        for mutant in entry.survivors:
            console.print(
                f"{mutant.exercise} survived ({mutant.operator}):\n"
                f"    - {escape(mutant.line)}\n    + {escape(mutant.becomes)}"
            )
        for problem in entry.problems:
            console.print(f"[red]✗[/] {entry.exercise.id}: {escape(problem)}")
    enough = _share(scores) >= WANTED
    if not enough:
        console.print(f"[red]✗[/] {_share(scores):.1%} killed, at least {WANTED:.0%} are wanted")
    return 0 if enough and not any(entry.problems for entry in scores) else 1


def _share(scores: list[Score]) -> float:
    counted = sum(entry.counted for entry in scores)
    return sum(entry.killed for entry in scores) / counted if counted else 1.0


def _figures(scores: list[Score]) -> tuple[str, ...]:
    return (
        str(sum(entry.mutants for entry in scores)),
        str(sum(entry.killed for entry in scores)),
        str(sum(entry.too_long for entry in scores)),
        str(sum(entry.equivalent for entry in scores)),
        str(sum(len(entry.survivors) for entry in scores)),
        f"{_share(scores):.1%}",
    )
