"""A wrong solution that somebody handed in: known already, or a new entry in the book of mistakes."""

from __future__ import annotations

import ast
import builtins
import itertools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lab_check import source
from lab_check.errors import UserError
from lab_check.exercises import Exercise, catalogue, select
from lab_check.paths import COURSE, HOME, package_folder
from lab_grader.bank import changes, entries
from lab_grader.bank.engine import Space, space

if TYPE_CHECKING:
    from lab_check.running.results import Result


def turn(what: str, path: Path, isolation: str | None = None) -> int:
    """Say whether a wrong solution is known; if not, write its entry, to be named and explained."""
    exercises = select([what])
    if len(exercises) != 1:
        raise UserError(f"name one exercise, such as 3.2, not {what}")
    exercise, here = exercises[0], space(exercises[0].id)
    text = _handed_in(exercise, path)
    result = _tried(exercise, text, isolation or ("full" if sys.platform == "linux" else "process"))
    if not result.broken:
        print(f"{exercise.id}: this is right: all {len(result.properties)} properties hold")
        return 0
    lost = next((p for p in result.broken if p.symptom in ("timeout", "crashed", "memory")), None)
    if lost is not None:
        raise UserError(f"{exercise.id}: {lost.message}; what does not end or crashes has no trace")
    said = result.diagnosis
    if said is not None and said.kind == "turn" and said.exact:
        print(f"{exercise.id}: known as {said.name}\n{said.message}")
        return 0
    if said is not None and said.kind == "turn":
        print(f"{exercise.id}: not known; nearest to it is {said.name}, which explains a part")
    if COURSE != HOME:
        raise UserError(f"{exercise.id}: not known; its entry is written in a checkout, not here")
    name, new = _append(here, _block(exercise, text))
    done, book = "written into" if new else "already in", here.folder / "turns.md"
    print(
        f"{exercise.id}: {done} {book} as {name}: give it its name and its message, then run "
        f"`lab prove {exercise.id}`"
    )
    return 0


def _handed_in(exercise: Exercise, path: Path) -> str:
    """Read the module with the block, in a process with limits, as a class is read."""
    from lab_grader.grading.intake import entry
    from lab_grader.grading.intake.reader import Reader

    folder = os.open(path.parent, os.O_RDONLY) if path.parent.is_dir() else -1
    try:
        if folder < 0 or not path.exists():
            raise UserError(f"{path} is not there")
        opened, _ = entry.open_plain(path.name, folder)
        try:
            with Reader() as reader:
                files, *_ = reader.read(path.name, opened)
        finally:
            os.close(opened)
        text = files.get(f"{exercise.module}.py", b"").decode("utf-8")
        if source.find_block(text, exercise.name) is None:
            raise UserError(f"{path} holds no {exercise.name}, which is exercise {exercise.id}")
    except (entry.Unreadable, SyntaxError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    finally:
        if folder >= 0:
            os.close(folder)
    if source.is_untouched(text, exercise.name, exercise.stub):
        raise UserError(f"{path}: {exercise.name} is still the stub")
    return text


def _tried(exercise: Exercise, text: str, isolation: str) -> Result:
    """Try the block in a sandbox, all other blocks being right."""
    from lab_grader import record
    from lab_grader.grading.judging import budget, judge
    from lab_grader.grading.model import Limits
    from lab_grader.grading.sandbox.confined import open_host

    files = {path.name: path.read_bytes() for path in package_folder().glob("*.py")}
    module = f"{exercise.module}.py"
    reference = files[module].decode("utf-8")
    others = [other.name for other in catalogue().values() if other.module == exercise.module]
    right = [source.block_text(reference, name) for name in others if name != exercise.name]
    files[module] = "\n\n".join([text, *right]).encode("utf-8")
    known = record.known(exercise)
    with open_host(isolation) as host:
        line = host.line(files, Limits())
        try:
            with budget.bounded_memory():
                return judge.trial(exercise, line, known)
        finally:
            line.close()


def _block(exercise: Exercise, text: str) -> list[str]:
    """Write the block plainly, with what it needs of the module it comes from."""
    block = source.find_block(text, exercise.name)
    assert block is not None
    given = set(vars(builtins)) | _defined(ast.parse("\n".join(space(exercise.id).usual)).body)
    body = ast.parse(text).body
    needed: list[ast.stmt] = []
    names = _used(block) - given
    for node in reversed(body):
        if node is not block and _defined([node]) & names and not _is(node, exercise.name):
            needed.insert(0, node)
            names |= _used(node) - given
    plain = ast.parse("\n\n".join(map(ast.unparse, [*needed, block])))
    for inner in ast.walk(plain):
        if isinstance(inner, ast.FunctionDef):
            inner.returns = None
            for argument in [*inner.args.posonlyargs, *inner.args.args, *inner.args.kwonlyargs]:
                argument.annotation = None
            if ast.get_docstring(inner) is not None and len(inner.body) > 1:
                inner.body = inner.body[1:]
    # As usual.py is laid out, or else every line with a text in it would look changed.
    return ast.unparse(plain).replace("'", '"').splitlines()


def _is(node: ast.stmt, name: str) -> bool:
    return isinstance(node, source.Definition) and node.name == name


def _used(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _defined(body: list[ast.stmt]) -> set[str]:
    """Tell the names that some statements of a module define."""
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, source.Definition):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {inner.id for target in node.targets for inner in ast.walk(target)
                      if isinstance(inner, ast.Name)}  # fmt: skip
    return names


def _append(here: Space, block: list[str]) -> tuple[str, bool]:
    """Put a new entry at the end of the book: the shorter of the change and the whole block.

    Gives its name, and whether it is new: a draft that is there already is not written again.
    """
    path = here.folder / "turns.md"
    old = source.find_block("\n".join(here.usual) + "\n", catalogue()[here.exercise].name)
    assert old is not None
    other = [*here.usual[: old.lineno - 1], *block, *here.usual[old.end_lineno :]]
    change = changes.diff(here.usual, other)
    kind, lines = ("diff", change) if len(change) < len(block) + 2 else ("python", block)
    known = entries.read(path, here.exercise).entries
    for one in known:
        if one.draft and (one.kind, list(one.lines)) == (kind, lines):
            return one.name, False
    names = {one.name for one in known}
    numbered = (f"{entries.DRAFT}-{number}" for number in itertools.count(2))
    name = next(name for name in itertools.chain([entries.DRAFT], numbered) if name not in names)
    book = path.read_text(encoding="utf-8")
    written = "\n".join(["", f"## {name}", "", entries.TELL, "", f"```{kind}", *lines, "```", ""])
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(book + written, encoding="utf-8")
    fresh.replace(path)
    return name, True
