"""A block's code into the learner's file: everything else in it stays, and every version is kept."""

from __future__ import annotations

import ast
import difflib
import io
import re
import symtable
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab_check import source
from lab_check.errors import UserError
from lab_check.exercises import Exercise
from lab_check.files import write_whole
from lab_check.workspace import Workspace

_DEFINITIONS = ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
_ASSIGNMENTS = ast.Assign, ast.AnnAssign


def _lines(text: str) -> list[str]:
    """Split a text into lines as Python's parser does: a text itself knows more ends, as form feeds."""
    lines = list(io.StringIO(text, newline=""))
    return lines if lines and lines[-1][-1] not in "\r\n" else [*lines, ""]


def split_lines(text: str) -> list[str]:
    """Split a text into lines as Python's parser does, without their ends."""
    return [line.rstrip("\r\n") for line in _lines(text)]


@dataclass(frozen=True)
class ExerciseCell:
    """The code of an exercise cell: what belongs into the file, and what is only tried out.

    `lines` says where in the cell each line of the chunk stands, counted from 1.
    """

    chunk: str
    lines: tuple[int, ...]
    names: tuple[str, ...]
    tried: str


def read_cell(code: str, exercise: Exercise) -> ExerciseCell:
    """Take a cell apart: definitions and what they use go into the file, other statements do not."""
    rows = split_lines(code)
    body = ast.parse(code).body
    used = _used(code, body)
    kept: list[str] = []
    numbers: list[int] = []
    tried, names, end = [], [], 0
    for node in body:
        start, end = end, node.end_lineno or end
        part = "\n".join(rows[start:end])  # with the comments above it
        bound = _bound(node)
        if isinstance(node, _DEFINITIONS) or (isinstance(node, _ASSIGNMENTS) and used & {*bound}):
            kept += rows[start:end]
            numbers += range(start + 1, end + 1)
            names += bound
        else:
            tried.append(part)
    if exercise.name not in names:
        raise UserError(
            f"this cell defines no `{exercise.name}`, which is what exercise {exercise.id} asks for"
        )
    first = next(i for i, line in enumerate(kept) if line)
    chunk = "\n".join(kept).strip("\n") + "\n"
    return ExerciseCell(chunk, tuple(numbers[first:]), tuple(names), "\n".join(tried))


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
class Change:
    """A block's text in a file, about to be replaced by another."""

    workspace: Workspace
    exercise: Exercise
    text: str  # of the file, as it is
    start: int
    end: int
    block: str  # that comes into the place between them

    @property
    def replaced(self) -> str:
        """The block that is in the file now."""
        return self.text[self.start : self.end]

    @property
    def result(self) -> str:
        """The file's text after it."""
        newline = "\r\n" if "\r\n" in self.text else "\n"
        return self.text[: self.start] + self.block.replace("\n", newline) + self.text[self.end :]

    @property
    def first_line(self) -> int:
        """The line of the file in which the block begins."""
        return self.text.count("\n", 0, self.start) + 1

    @property
    def hits_other_work(self) -> bool:
        """Whether the block that is replaced is neither a stub nor what a cell wrote."""
        wrote = self.workspace.recall("cells").get(self.exercise.id, "")
        now = _plain(self.replaced)
        return now not in ("", wrote, self.block) and not _is_stub(now, self.exercise)

    def make(self, from_cell: bool = False) -> None:
        """Write the file; the old block and the new one are among the versions that are kept."""
        path = self.workspace.path(self.exercise)
        if _read(path) != self.text:
            raise UserError(
                f"lab_transformer/{path.name} was saved by somebody else just now: try again, nothing "
                "was written"
            )
        keep(self.workspace, self.exercise, self.replaced)
        if self.result != self.text:
            write_whole(path, self.result)
        keep(self.workspace, self.exercise, self.block)
        for memory, known in (("places", True), ("cells", from_cell)):
            facts = self.workspace.recall(memory)
            self.workspace.remember(memory, facts | {self.exercise.id: self.block if known else ""})

    def difference(self) -> str:
        """Show what it changes, line by line."""
        old, new = (_plain(text).splitlines() for text in (self.replaced, self.block))
        return "\n".join(list(difflib.unified_diff(old, new, lineterm=""))[2:])


def plan(workspace: Workspace, exercise: Exercise, block: str) -> Change:
    """Find where a block goes: in the place of what was written there before, or of the definition."""
    path = workspace.path(exercise)
    text = _read(path)
    if source.BEGIN in text:
        raise UserError(
            f"{path} is the course's own source, where every block is finished: `lab release FOLDER` "
            "makes a workspace to write in; nothing was written"
        )
    newline = "\r\n" if "\r\n" in text else "\n"
    before = workspace.recall("places").get(exercise.id, "").replace("\n", newline)
    return Change(workspace, exercise, text, *_place(text, before, exercise), block)


def plan_cell(workspace: Workspace, exercise: Exercise, cell: ExerciseCell) -> Change:
    """Find where a cell's code goes, and make sure that the file can be read with it."""
    change = plan(workspace, exercise, cell.chunk)
    file = f"lab_transformer/{exercise.module}.py"
    try:
        compile(change.result, file, "exec")
    except SyntaxError as error:
        inside = 0 <= (error.lineno or 0) - change.first_line < cell.chunk.count("\n")
        if inside:
            raise UserError(
                f"this cell does not fit into {file}: {error.msg}; nothing was written"
            ) from None
        raise UserError(
            f"{file} has a syntax error in line {error.lineno} ({error.msg}): mend it there first, "
            "nothing was written"
        ) from None
    return change


def plan_undo(workspace: Workspace, exercise: Exercise, number: int | None = None) -> Change:
    """Find what brings back an older version of a block: the one with a number, or the one before."""
    known = [
        exercise.stub,
        *(path.read_text(encoding="utf-8") for path in versions(workspace, exercise)),
    ]
    now = _plain(plan(workspace, exercise, "").replaced)
    if number is None:
        older = [text for text in known if text != now]
        if not older:
            raise UserError(f"there is nothing to bring back: {exercise.id} is as it was released")
        return plan(workspace, exercise, older[-1])
    if not 0 <= number < len(known):
        raise UserError(
            f"there is no version {number} of {exercise.id}: they go from 0 to {len(known) - 1}"
        )
    return plan(workspace, exercise, known[number])


def keep(workspace: Workspace, exercise: Exercise, block: str) -> None:
    """Keep a version of a block, unless it is the newest one; the oldest is the stub."""
    block = _plain(block)
    known = versions(workspace, exercise)
    newest = known[-1].read_text(encoding="utf-8") if known else exercise.stub
    if workspace.is_course or block in ("", newest):
        return
    folder = _versions_folder(workspace, exercise)
    folder.mkdir(parents=True, exist_ok=True)
    number = int(known[-1].stem) if known else 0
    while True:
        number += 1
        try:
            with (folder / f"{number:04}.py").open("x", encoding="utf-8", newline="") as file:
                file.write(block)
            return
        except FileExistsError:
            continue  # somebody else was quicker


def keep_present(workspace: Workspace, exercise: Exercise) -> None:
    """Keep the block that is in the learner's file now, if it can be found there."""
    try:
        change = plan(workspace, exercise, "")
    except (OSError, UserError):
        return
    keep(workspace, exercise, change.replaced)


def versions(workspace: Workspace, exercise: Exercise) -> list[Path]:
    """List the files in which versions of a block are kept, oldest first; the first has number 1."""
    return sorted(_versions_folder(workspace, exercise).glob("[0-9]*.py"))


def when(path: Path) -> str:
    """Say when a version was kept."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))


def _versions_folder(workspace: Workspace, exercise: Exercise) -> Path:
    return workspace.memory / "backups" / exercise.id


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")


def _is_stub(block: str, exercise: Exercise) -> bool:
    try:
        return source.is_untouched(block, exercise.name, exercise.stub)
    except SyntaxError:
        return False


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"lab_transformer/{path.name} is not text in UTF-8 ({error.reason} at byte {error.start}): "
            "save it as that first, nothing was written"
        ) from None


def placed(text: str, chunks: Mapping[Exercise, str]) -> str:
    """Give a module's text with chunks in place of exercises' blocks."""
    places = [(*_place(text, "", exercise), chunk) for exercise, chunk in chunks.items()]
    for start, end, chunk in sorted(places, reverse=True):
        text = text[:start] + chunk + text[end:]
    return text


def _place(text: str, before: str, exercise: Exercise) -> tuple[int, int]:
    """Find what to replace: what the cell wrote before, else the block, else the end of the file."""
    if before and before in text:
        start = text.index(before)
        return start, start + len(before)
    offsets = [0]
    for line in _lines(text):
        offsets.append(offsets[-1] + len(line))
    try:
        block = source.find_block(text, exercise.name)
    except (SyntaxError, ValueError):
        return _place_by_lines(text, exercise)
    if block is None:
        return len(text), len(text)
    first = min([block.lineno, *(decorator.lineno for decorator in block.decorator_list)])
    return offsets[first - 1], offsets[block.end_lineno or first]


def _place_by_lines(text: str, exercise: Exercise) -> tuple[int, int]:
    """Find a block in a text that cannot be parsed: from its head to the next line that starts anew."""
    head = re.search(rf"^(@.*\n)*(async )?(def|class) {exercise.name}\b.*\n?", text, re.MULTILINE)
    if head is None:
        return len(text), len(text)
    after = re.compile(r"^[\w@#]", re.MULTILINE).search(text, head.end())
    end = head.start() + len(text[head.start() : after.start() if after else len(text)].rstrip())
    newline = re.compile(r"\r?\n").match(text, end)
    return head.start(), newline.end() if newline else end
