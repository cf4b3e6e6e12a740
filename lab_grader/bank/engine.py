"""The bank, read: an exercise's folder with a usual solution, and mistakes as changes of it.

`usual.py` is a right solution with a line for every decision, `right.py` holds other right ways,
`turns.md` the mistakes, `more.py`, where there is one, those that are computed. Two mistakes can be
made together when their changes do not touch.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from lab_check.calling.calls import import_block
from lab_check.errors import UserError
from lab_check.exercises import catalogue
from lab_grader.bank import changes, entries, slips
from lab_grader.bank.changes import Change

FOLDER = Path(__file__).parent
_REACHED = "__reached__"


@dataclass(frozen=True)
class Turn:
    """A known mistake: its name, what to tell the learner, and the change or the block that it is."""

    name: str
    message: str
    frequent: bool = False
    change: Change = ()
    code: str = ""
    block: Any = None


class Wrong:
    """Mistakes that are computed, or whole blocks with something in common: what more.py declares."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    def __call__(self, name: str, message: str) -> Callable[[Any], Any]:
        """Declare a mistake that is a whole block: a function or a class."""

        def register(block: Any) -> Any:
            self.turns.append(Turn(name, message, block=block))
            return block

        return register


class Space:
    """All known wrong turns of one exercise, and other ways to do it right."""

    def __init__(self, exercise: str, folder: Path) -> None:
        self.exercise, self.folder = exercise, folder
        place = catalogue()[exercise]
        self._name = place.name
        self.usual = (folder / "usual.py").read_text(encoding="utf-8").splitlines()
        book = entries.read(folder / "turns.md", exercise)
        self.drafts = [entry.name for entry in book.entries if entry.draft]
        turns = [self._turn(entry) for entry in book.entries if not entry.draft]
        if (folder / "more.py").exists():
            turns += self._module("more").wrong.turns
        names = {turn.name for turn in turns} | book.without
        for name, message, block in slips.of(import_block(place.module, place.name)):
            if name not in names:
                turns.append(Turn(name, message, block=block))
        self.turns = tuple(turns)
        self._turns = {turn.name: turn for turn in turns}
        if len(self._turns) < len(turns):
            raise UserError(f"{exercise} has a turn twice, in turns.md and in more.py")

    def _turn(self, entry: entries.Entry) -> Turn:
        if entry.kind == "python":
            return Turn(entry.name, entry.message, code="\n".join(entry.lines))
        place = f"{self.exercise}/turns.md `{entry.name}`"
        change = changes.read(entry.lines, self.usual, place, entry.line)
        return Turn(entry.name, entry.message, entry.frequent, change)

    def _module(self, name: str) -> ModuleType:
        """Import a file of the folder."""
        # A name of its own, and known to Python: then what is in it can be shown, too.
        full = f"{__package__}.{self.exercise.replace('.', '_')}_{name}"
        spec = importlib.util.spec_from_file_location(full, self.folder / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[full] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    @functools.cached_property
    def right(self) -> tuple[Any, ...]:
        """Other right ways: all that right.py defines under a public name."""
        module = self._module("right")
        return tuple(
            block
            for name, block in vars(module).items()
            if not name.startswith("_") and getattr(block, "__module__", "") == module.__name__
        )

    def variant(self, *names: str) -> Any:
        """Build the block with these wrong turns taken."""
        return self.watched(names, set())

    def watched(self, names: tuple[str, ...], reached: set[int]) -> Any:
        """Build the block with these wrong turns taken; which lines of usual.py run is noted."""
        turns = [self._turns[name] for name in names]
        if turns and turns[0].block is not None:
            return turns[0].block
        lines = changes.apply(self.usual, [edit for turn in turns for edit in turn.change])
        lines += [(0, line) for turn in turns for line in turn.code.splitlines()]
        file = str(self.folder / "usual.py") + "".join(f" + {name}" for name in names)
        return _built(lines, file, reached)[self._name]

    def touched(self, name: str) -> set[int] | None:
        """Tell which statements a change touches, by their first lines; None where it may be any."""
        touched: set[int] = set()
        for edit in self._turns[name].change:
            # What is put before a line, as far in as it is, is reached when that line is.
            taken = range(edit.start, max(edit.end, edit.start + 1))
            indent = _indent([self.usual[line] for line in taken if line < len(self.usual)])
            deep = _indent(edit.lines)
            inside = deep == indent or (deep > indent and edit.start < edit.end)
            # What is put elsewhere is reached by way of what is around it.
            lines = range(taken.start + inside, taken.stop + 1 + (not inside))
            around = [self._statements[line] for line in lines if line in self._statements]
            if not around or not all(around):
                return None
            touched |= {line for chain in around for line in (chain[-1:] if inside else chain)}
        return touched or None

    @functools.cached_property
    def _statements(self) -> dict[int, tuple[int, ...]]:
        """Give of every line the statements of a function around it, outermost first."""
        found: dict[int, tuple[int, ...]] = {}

        def visit(body: list[ast.stmt], inside: bool, chain: tuple[int, ...]) -> None:
            for statement in body:
                here = (*chain, statement.lineno) if inside else ()
                for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
                    found[line] = here
                for part in (statement, *getattr(statement, "handlers", [])):
                    for name in ("body", "orelse", "finalbody"):
                        deeper = inside or isinstance(statement, ast.FunctionDef)
                        visit(getattr(part, name, []), deeper, here)

        visit(ast.parse("\n".join(self.usual)).body, False, ())
        return found

    def combinations(self) -> Iterator[tuple[str, ...]]:
        """List every wrong turn, then every pair of frequent ones that do not touch."""
        yield from ((turn.name,) for turn in self.turns)
        frequent = [turn for turn in self.turns if turn.frequent]
        for a, b in itertools.combinations(frequent, 2):
            if not changes.touching(a.change, b.change):
                yield a.name, b.name


def _built(lines: list[tuple[int, str]], file: str, reached: set[int]) -> dict[str, Any]:
    """Run a module that notes which of its functions' lines are reached, by the numbers given."""
    tree = ast.parse("\n".join(line for _, line in lines), file)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {id(inner): inner for function in functions for inner in ast.walk(function)}
    for inner in inside.values():
        for name in ("body", "orelse", "finalbody"):
            body = getattr(inner, name, None)
            if isinstance(body, list) and not isinstance(inner, ast.ClassDef):
                notes = [_note(lines[statement.lineno - 1][0], statement) for statement in body]
                setattr(inner, name, [new for both in zip(notes, body, strict=True) for new in both])
    namespace: dict[str, Any] = {"__name__": "usual", _REACHED: reached.add}
    exec(compile(tree, file, "exec"), namespace)
    return namespace


def _indent(lines: Sequence[str]) -> int:
    return min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)


def _note(number: int, before: ast.stmt) -> ast.stmt:
    call = ast.Call(ast.Name(_REACHED, ast.Load()), [ast.Constant(number)], [])
    return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), before))


@functools.cache
def space(exercise: str) -> Space:
    """Read what the bank has of an exercise."""
    return Space(exercise, FOLDER / exercise)


@functools.cache
def spaces() -> dict[str, Space]:
    """Read the whole bank, by exercise."""
    return {id: space(id) for id in catalogue() if (FOLDER / id).is_dir()}
