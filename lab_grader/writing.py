"""A cell's code into the learner's file, with everything else in it kept byte for byte."""

from __future__ import annotations

import ast
import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from lab_grader import source
from lab_grader.errors import UserError
from lab_grader.exercises import Exercise
from lab_grader.workspace import Workspace

_KEPT = (
    ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef,
    ast.Assign, ast.AnnAssign,
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """The code of an exercise cell: what belongs into the file, and what is only tried out."""

    chunk: str
    names: tuple[str, ...]
    tried: str


def read_cell(code: str, exercise: Exercise) -> Cell:
    """Take a cell apart: definitions and imports go into the file, other statements do not."""
    lines = code.splitlines()
    kept, tried, names, end = [], [], [], 0
    for node in ast.parse(code).body:
        start, end = end, node.end_lineno or end
        part = "\n".join(lines[start:end])  # with the comments above it
        if isinstance(node, _KEPT):
            kept.append(part)
            names += _bound(node)
        else:
            tried.append(part)
    if exercise.name not in names:
        raise UserError(
            f"this cell defines no `{exercise.name}`, which is what exercise {exercise.id} asks for"
        )
    return Cell("\n".join(kept).strip("\n") + "\n", tuple(names), "\n".join(tried))


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


def write_cell(workspace: Workspace, exercise: Exercise, cell: Cell) -> Path | None:
    """Put a cell's code into the learner's file; give the backup, where one was needed.

    What the cell wrote last time is replaced. If the file was changed by somebody else since, or holds
    a block that no cell wrote, a copy of it is kept first.
    """
    path = workspace.path(exercise)
    old = path.read_bytes().decode("utf-8")
    cells, files = workspace.recall("cells"), workspace.recall("files")
    newline = "\r\n" if "\r\n" in old else "\n"
    chunk = cell.chunk.replace("\n", newline)
    before = cells.get(exercise.id, "").replace("\n", newline)
    try:
        start, end = _place(old, before, exercise)
    except SyntaxError as error:
        raise UserError(
            f"lab_transformer/{path.name} has a syntax error in line {error.lineno} ({error.msg}): "
            "mend it there first, nothing was written"
        ) from None
    new = old[:start] + chunk + old[end:]
    compile(new, str(path), "exec")
    known = files.get(path.name) == _sha(old)
    untouched = start < end and source.is_untouched(old, exercise.name, exercise.stub)
    backup = None
    if new != old:
        if not known and (path.name in files or not untouched):
            backup = _back_up(workspace, path)
        _replace(path, new)
    workspace.remember("cells", cells | {exercise.id: cell.chunk})
    workspace.remember("files", files | {path.name: _sha(new)})
    return backup


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


def restore(workspace: Workspace, exercise: Exercise, text: bytes) -> None:
    """Put a file back as it was, because what was written into it cannot be imported."""
    path = workspace.path(exercise)
    _replace(path, text.decode("utf-8"))
    workspace.remember("files", workspace.recall("files") | {path.name: _sha(text.decode("utf-8"))})


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
