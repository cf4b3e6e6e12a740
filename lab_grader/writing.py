"""A cell's code into the learner's file, with everything else in it kept byte for byte."""

from __future__ import annotations

import ast
import hashlib
import os
import symtable
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lab_grader import source
from lab_grader.errors import UserError
from lab_grader.exercises import Exercise
from lab_grader.workspace import Workspace

_DEFINITIONS = ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
_ASSIGNMENTS = ast.Assign, ast.AnnAssign


@dataclass(frozen=True)
class Cell:
    """The code of an exercise cell: what belongs into the file, and what is only tried out."""

    chunk: str
    names: tuple[str, ...]
    tried: str


def read_cell(code: str, exercise: Exercise) -> Cell:
    """Take a cell apart: definitions and what they use go into the file, other statements do not."""
    lines = code.splitlines()
    body = ast.parse(code).body
    used = _used(code, body)
    kept, tried, names, end = [], [], [], 0
    for node in body:
        start, end = end, node.end_lineno or end
        part = "\n".join(lines[start:end])  # with the comments above it
        bound = _bound(node)
        if isinstance(node, _DEFINITIONS) or (isinstance(node, _ASSIGNMENTS) and used & {*bound}):
            kept.append(part)
            names += bound
        else:
            tried.append(part)
    if exercise.name not in names:
        raise UserError(
            f"this cell defines no `{exercise.name}`, which is what exercise {exercise.id} asks for"
        )
    return Cell("\n".join(kept).strip("\n") + "\n", tuple(names), "\n".join(tried))


def _used(code: str, body: list[ast.stmt]) -> set[str]:
    """List the global names that functions and classes of a cell read, directly or through others."""

    def read_in(scope: symtable.SymbolTable) -> Iterator[str]:
        yield from (symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global())
        for inner in scope.get_children():
            yield from read_in(inner)

    used = {n for scope in symtable.symtable(code, "", "exec").get_children() for n in read_in(scope)}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            outside = [*node.decorator_list, getattr(node, "args", None), *getattr(node, "bases", [])]
            used |= {name for part in outside if part for name in _loaded(part)}
    for node in reversed(body):
        if isinstance(node, _ASSIGNMENTS) and used & {*_bound(node)}:
            used |= set(_loaded(node))
    return used


def _loaded(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id


def _bound(node: ast.stmt) -> list[str]:
    """List the names that a statement gives a value."""
    match node:
        case ast.Import() | ast.ImportFrom():
            return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
    return [
        found.id
        for found in ast.walk(node)
        if isinstance(found, ast.Name) and isinstance(found.ctx, ast.Store)
    ]


@dataclass(frozen=True)
class Written:
    """What writing a cell did: the backup, where one was needed, and how to take it all back."""

    backup: Path | None
    undo: Callable[[], None]


def write_cell(workspace: Workspace, exercise: Exercise, cell: Cell) -> Written:
    """Put a cell's code into the learner's file.

    What the cell wrote last time is replaced. If the file was changed by somebody else since, or holds
    a block that no cell wrote, a copy of it is kept first.
    """
    path = workspace.path(exercise)
    old = _read(path)
    if source.BEGIN in old:
        raise UserError(
            f"{path} is the course's own source, where every block is finished: `lab release FOLDER` "
            "makes a workspace to write in; nothing was written"
        )
    cells, files = workspace.recall("cells"), workspace.recall("files")
    newline = "\r\n" if "\r\n" in old else "\n"
    before = cells.get(exercise.id, "").replace("\n", newline)
    try:
        start, end = _place(old, before, exercise)
    except SyntaxError as error:
        raise UserError(
            f"lab_transformer/{path.name} has a syntax error in line {error.lineno} ({error.msg}): "
            "mend it there first, nothing was written"
        ) from None
    new = old[:start] + cell.chunk.replace("\n", newline) + old[end:]
    try:
        compile(new, str(path), "exec")
    except SyntaxError as error:
        raise UserError(
            f"this cell does not fit into lab_transformer/{path.name}: {error.msg}; nothing was written"
        ) from None
    known = files.get(path.name) == _sha(old)
    untouched = start < end and source.is_untouched(old, exercise.name, exercise.stub)
    backup = None
    if new != old and not known and (path.name in files or not untouched):
        backup = _back_up(workspace, path)

    def put(text: str, chunk: str) -> None:
        if text != _read(path):
            _replace(path, text)
        workspace.remember("cells", cells | {exercise.id: chunk})
        workspace.remember("files", files | {path.name: _sha(text)})

    put(new, cell.chunk)
    return Written(backup, lambda: put(old, cells.get(exercise.id, "")))


def _read(path: Path) -> str:
    return path.read_bytes().decode("utf-8")


def placed(text: str, exercise: Exercise, chunk: str) -> str:
    """Give a module's text with a chunk in place of an exercise's block."""
    start, end = _place(text, "", exercise)
    return text[:start] + chunk + text[end:]


def _place(text: str, before: str, exercise: Exercise) -> tuple[int, int]:
    """Find what to replace: what the cell wrote before, else the block, else the end of the file."""
    if before and before in text:
        start = text.index(before)
        return start, start + len(before)
    block = source.find_block(text, exercise.name)
    if block is None:
        return len(text), len(text)
    offsets = [0]
    for line in text.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    first = min([block.lineno, *(decorator.lineno for decorator in block.decorator_list)])
    return offsets[first - 1], offsets[block.end_lineno or first]


def _back_up(workspace: Workspace, path: Path) -> Path:
    folder = workspace.memory / "backups"
    folder.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    number = 0
    while True:
        backup = folder / f"{path.stem}-{stamp}{f'-{number}' if number else ''}.py"
        try:
            with backup.open("xb") as file:
                file.write(path.read_bytes())
            return backup
        except FileExistsError:
            number += 1


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    fresh.write_bytes(text.encode("utf-8"))
    fresh.replace(path)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
