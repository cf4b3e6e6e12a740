"""What one entry of a class holds: a folder, an archive, a notebook or a file, made into a package.

Nothing is run, nothing is unpacked to disk, and nothing is read through a link. All of it happens in
the process of `reader.py`, which has limits: whatever an entry does there costs only that entry.
"""

from __future__ import annotations

import ast
import bz2
import contextlib
import functools
import gzip
import hashlib
import itertools
import json
import lzma
import os
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO, Any

from lab_check import cells, source
from lab_check.errors import UserError
from lab_check.exercises import Exercise, catalogue
from lab_check.paths import package_folder

FILE, NOTEBOOK = 1 << 20, 8 << 20  # a notebook carries its pictures
TOTAL = 20 << 20
MODULES, PACKAGE = 200, 4 << 20  # of what is graded: a whole class is held in memory
UNPACKED = 128 << 20  # of an archive, with what nobody wants of it
MEMBERS = 10_000
NAME = 500
DEPTH = 30
MAGIC = "%%exercise"
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_ENCRYPTED = 1  # the bit of a zip member's flags
_CHUNK = 4096
_SHORT = 20_000
# What Python says of text that it cannot read, or that is too deep for it.
UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


class Unreadable(Exception):
    """Something that cannot be taken as a submission, and why."""


@dataclass
class Tree:
    """The files of one entry that can matter, by path, and what was left out."""

    files: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _size: int = 0
    _count: int = 0

    def wants(self, name: str) -> bool:
        """Count an entry, and say whether its content can matter."""
        self._count += 1
        if self._count > MEMBERS:
            raise Unreadable(f"it holds more than {MEMBERS} files")
        if len(name) > NAME:
            raise Unreadable(f"it holds a name of more than {NAME} characters: {name[:40]}...")
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", name):
            raise Unreadable(f"it holds a path that leads outside: {name[:80]}")
        hidden = any(map(is_hidden, path.parts))
        if name.lower().endswith(ARCHIVES) and not hidden:
            self.notes.append(f"{name} is an archive inside, and was not opened")
        return path.suffix.lower() in (".py", ".ipynb") and not hidden

    def add(self, name: str, content: bytes) -> None:
        """Keep a file."""
        if len(content) > (most := most_of(name)):
            self.notes.append(f"{name} is larger than {most >> 20} MiB and was left out")
            return
        self._size += len(content)
        if self._size > TOTAL:
            raise Unreadable(f"its files are larger than {TOTAL >> 20} MiB together")
        # Systems that do not tell cases apart write endings in either.
        stem, dot, ending = name.replace("\\", "/").rpartition(".")
        self.files[stem + dot + ending.lower()] = content

    @property
    def digest(self) -> str:
        """Sum up the contents: the same files are the same work, however they are packed and named."""
        sums = sorted(hashlib.sha256(content).digest() for content in self.files.values())
        return hashlib.sha256(b"".join(sums)).hexdigest()


def most_of(name: str) -> int:
    """Say how large a file may be."""
    return NOTEBOOK if name.lower().endswith(".ipynb") else FILE


def is_hidden(name: str) -> bool:
    """Tell what systems and tools leave in a folder from what a person put there."""
    return name.startswith((".", "__MACOSX", "__pycache__"))


def open_plain(name: str, folder: int) -> tuple[int, os.stat_result]:
    """Open a file or a folder itself: never through a link, and nothing else, such as a pipe."""
    seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(seen.st_mode):
        raise Unreadable("it is a link")
    if not stat.S_ISDIR(seen.st_mode) and not stat.S_ISREG(seen.st_mode):
        raise Unreadable("it is neither a folder nor a file")
    if stat.S_ISREG(seen.st_mode) and seen.st_nlink > 1:
        raise Unreadable("it is a hard link: the same file lies elsewhere, too")
    opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    found = os.fstat(opened)
    if not os.path.samestat(seen, found):
        os.close(opened)
        raise Unreadable("it changed while it was read")
    return opened, found


def read_entry(name: str, opened: int) -> tuple[dict[str, bytes], list[str], str]:
    """Make a package of an open file or folder; say what was understood of it, and sum it up."""
    tree = Tree()
    if stat.S_ISDIR(os.fstat(opened).st_mode):
        _read_folder(opened, tree)
    elif name.lower().endswith(ARCHIVES):
        _read_archive(name, opened, tree)
    elif name.lower().endswith((".py", ".ipynb")):
        if os.fstat(opened).st_size > (most := most_of(name)):
            raise Unreadable(f"it is larger than {most >> 20} MiB")
        tree.add(name, _content(opened, most))
    else:
        raise Unreadable("it is no folder, archive, notebook or Python file")
    package, notes = understand(tree)
    if len(package) > MODULES:
        raise Unreadable(f"its package has more than {MODULES} modules")
    if sum(map(len, package.values())) > PACKAGE:
        raise Unreadable(f"its package is larger than {PACKAGE >> 20} MiB")
    return package, notes, tree.digest


def _content(opened: int, most: int) -> bytes:
    with open(opened, "rb", closefd=False) as file:
        return file.read(most + 1)


def _read_folder(folder: int, tree: Tree) -> None:
    with os.scandir(folder) as entries:
        inner = [one.name for one in itertools.islice(entries, 100) if not is_hidden(one.name)]
    if len(inner) == 1 and inner[0].lower().endswith(ARCHIVES):
        try:
            opened, found = open_plain(inner[0], folder)
        except Unreadable as reason:
            raise Unreadable(f"the folder holds an archive, {inner[0]}, and {reason}") from None
        try:
            if stat.S_ISREG(found.st_mode):
                tree.notes.append(f"the folder holds an archive, {inner[0]}")
                _read_archive(inner[0], opened, tree)
                return
        finally:
            os.close(opened)
    _walk(folder, "", 0, tree)


def _walk(folder: int, above: str, depth: int, tree: Tree) -> None:
    with os.scandir(folder) as entries:
        found = sorted(itertools.islice(entries, MEMBERS + 1), key=lambda one: one.name)
    for one in found:
        name = above + one.name
        wanted = tree.wants(name)
        if is_hidden(one.name):
            continue
        if one.is_dir(follow_symlinks=False):
            if depth == DEPTH:
                tree.notes.append(f"{name} lies too deep and was left out")
                continue
            inner, _ = open_plain(one.name, folder)
            try:
                _walk(inner, f"{name}/", depth + 1, tree)
            finally:
                os.close(inner)
        elif wanted or (one.is_symlink() and not one.name.endswith(ARCHIVES)):
            _add_file(one.name, folder, name, tree)


def _add_file(name: str, folder: int, path: str, tree: Tree) -> None:
    try:
        opened, found = open_plain(name, folder)
    except Unreadable as reason:
        tree.notes.append(f"{path} was left out: {reason}")
        return
    except OSError as error:
        tree.notes.append(f"{path} cannot be read: {error.strerror}")
        return
    try:
        most = most_of(path)
        tree.add(path, _content(opened, most) if found.st_size <= most else bytes(most + 1))
    finally:
        os.close(opened)


def _read_archive(name: str, opened: int, tree: Tree) -> None:
    members = _zip_members if name.lower().endswith(".zip") else _tar_members
    try:
        with open(opened, "rb", closefd=False) as file:
            for path, content in members(file, tree):
                tree.add(path, content)
    except (Unreadable, MemoryError, RecursionError):
        raise
    except (RuntimeError, NotImplementedError) as error:
        raise Unreadable(f"the archive cannot be opened: {error}") from None
    except Exception as error:  # what a library meets in a damaged file is of every kind
        raise Unreadable(f"the archive is damaged: {error}") from None


def _zip_members(file: IO[bytes], tree: Tree) -> Iterator[tuple[str, bytes]]:
    unpacked = 0
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if not tree.wants(member.filename) or member.is_dir():
                continue
            if stat.S_ISLNK(member.external_attr >> 16):
                tree.notes.append(f"{member.filename} is a link and was left out")
                continue
            if member.flag_bits & _ENCRYPTED:
                raise Unreadable("the archive is encrypted: hand it in without a password")
            with archive.open(member) as inner:
                content = some(inner, most_of(member.filename) + 1)  # whatever size it claims
            unpacked += len(content)
            if unpacked > UNPACKED:
                raise Unreadable(f"it unpacks to more than {UNPACKED >> 20} MiB")
            yield member.filename, content


def some(file: IO[bytes], size: int) -> bytes:
    """Read no more than so much, in small steps: some decompressors give all that they can at once."""
    content = bytearray()
    while len(content) < size and (chunk := file.read(_CHUNK)):
        content += chunk
    return bytes(content[:size])


_PACKED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
}


class Measured:
    """A tar file, packed or not, that gives no more than a small one has, whatever a header claims."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        begin = file.read(6)
        file.seek(0)
        packed = next((kind for magic, kind in _PACKED.items() if begin.startswith(magic)), None)
        self._file: Any = file if packed is None else packed(file)
        self._plain = packed is None
        self._left, self._most = most, most

    def tell(self) -> int:
        return int(self._file.tell())

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= FILE + 1:
            raise Unreadable(f"a header in it claims more than {FILE >> 20} MiB")
        data: bytes = self._file.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise Unreadable(f"it unpacks to more than {self._most >> 20} MiB")
        return data

    def seek(self, place: int) -> None:
        if self._plain:
            self._file.seek(place)
            return
        if place < self.tell():
            raise tarfile.ReadError("it cannot be read in its order")
        while (gap := place - self.tell()) and self.read(min(gap, FILE)):
            pass


def _tar_members(file: IO[bytes], tree: Tree) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=Measured(file, UNPACKED), mode="r:") as archive:  # type: ignore[call-overload]
        for member in archive:
            if not tree.wants(member.name) or member.isdir():
                continue
            inner = archive.extractfile(member) if member.isreg() else None
            if inner is None:
                tree.notes.append(f"{member.name} is no regular file and was left out")
                continue
            yield member.name, some(inner, most_of(member.name) + 1)


def understand(tree: Tree) -> tuple[dict[str, bytes], list[str]]:
    """Make a package of what was found; what is missing in it is a stub."""
    notes = list(tree.notes)
    modules = _package_files(tree, notes)
    if modules:
        return modules, notes
    blocks = _blocks(tree, notes)
    if not blocks:
        why = "; ".join(notes) or "no lab_transformer, no module of it, and no exercise cell"
        raise Unreadable(f"it holds nothing to grade: {why}")
    notes.append(f"exercises found: {', '.join(sorted(blocks))}")
    at_once = _placed_at_once(blocks)
    package: dict[str, bytes] = {}
    for id, chunk in blocks.items():
        exercise = catalogue()[id]
        name = f"{exercise.module}.py"
        if name in at_once:
            package[name] = at_once[name]
            continue
        text = package.get(name, stubs()[name]).decode("utf-8")
        try:
            new = _hoisted(cells.placed(text, {exercise: chunk}))
            compile(new, name, "exec", dont_inherit=True)
        except UNPARSABLE as error:
            notes.append(f"exercise {id} could not be read: {_said(error)}")
            new = cells.placed(text, {exercise: _broken(exercise, _said(error))})
        package[name] = new.encode("utf-8")
    return package, notes


def _placed_at_once(blocks: dict[str, str]) -> dict[str, bytes]:
    """Make the modules whose blocks can be read all together, which is a third of the work."""
    modules: dict[str, dict[Exercise, str]] = {}
    for id, chunk in blocks.items():
        modules.setdefault(f"{catalogue()[id].module}.py", {})[catalogue()[id]] = chunk
    made: dict[str, bytes] = {}
    for name, own in modules.items():
        # One by one, a definition would take the place of an earlier one of the same name.
        if any(_defines(chunk, other) for one, chunk in own.items() for other in own if other != one):
            continue
        with contextlib.suppress(*UNPARSABLE):
            text = _hoisted(cells.placed(stubs()[name].decode("utf-8"), own))
            compile(text, name, "exec", dont_inherit=True)
            made[name] = text.encode("utf-8")
    return made


def _defines(chunk: str, exercise: Exercise) -> bool:
    """Tell whether some code may define a block."""
    return re.search(rf"(?:def|class)[\s\\]+{exercise.name}\b", chunk) is not None


_STUB = "NotImplementedError"  # what every stub raises
_FUTURE = re.compile(r"^from __future__ import .*\n", re.MULTILINE)


def _hoisted(text: str) -> str:
    """Put what a module says of all its code where it belongs, at the top."""
    first = dict.fromkeys(_FUTURE.findall(text))
    return "".join(first) + _FUTURE.sub("", text)


def _package_files(tree: Tree, notes: list[str]) -> dict[str, bytes]:
    known = {f"{exercise.module}.py" for exercise in catalogue().values()}
    folders: dict[PurePosixPath, dict[str, bytes]] = {}
    for name, content in tree.files.items():
        path = PurePosixPath(name)
        if path.suffix == ".py":
            folders.setdefault(path.parent, {})[path.name] = content
    packages = sorted(
        (folder for folder in folders if folder.name == "lab_transformer"), key=lambda f: len(f.parts)
    )
    if packages:
        notes.append(f"the package lies in {packages[0]}")
        if len(packages) > 1:
            others = ", ".join(map(str, packages[1:6]))
            notes.append(f"other packages were not looked at: {others}; a whole class is named itself")
        return {
            name: content for name, content in folders[packages[0]].items() if _is_module(name, notes)
        }
    loose = sorted(
        (folder for folder, files in folders.items() if known & files.keys()),
        key=lambda f: len(f.parts),
    )
    if loose:
        taken = {name: content for name, content in folders[loose[0]].items() if name in known}
        notes.append(f"taken as modules: {', '.join(sorted(taken))}")
        return taken
    return {}


def _is_module(name: str, notes: list[str]) -> bool:
    """Tell what Python could import by its name."""
    stem = name.removesuffix(".py")
    if stem.isidentifier() and len(stem) <= 60:
        return True
    notes.append(f"{name} is no name of a module, and was left out")
    return False


def _blocks(tree: Tree, notes: list[str]) -> dict[str, str]:
    """Find exercise cells in notebooks, or blocks in files of any name; give code by exercise."""
    found: dict[str, str] = {}
    for name, content in sorted(tree.files.items()):
        for wanted, code in _cells(name, content, notes):
            try:
                untouched = _STUB in code and source.is_untouched(code, wanted.name, wanted.stub)
                if not untouched:
                    found[wanted.id] = cells.read_cell(code, wanted).chunk
            except UserError as error:
                notes.append(f"exercise {wanted.id} in {name} could not be read: {error}")
            except UNPARSABLE as error:
                notes.append(f"exercise {wanted.id} in {name} could not be read: {_said(error)}")
                found[wanted.id] = _broken(wanted, f"{_said(error)}, in {name}")
    return found


def _said(error: BaseException) -> str:
    """Say in a few words why Python cannot read some code."""
    if isinstance(error, SyntaxError):
        where = f" in line {error.lineno}" if error.lineno else ""  # of a null byte, no line is known
        return f"a syntax error{where}: {error.msg}"
    if isinstance(error, RecursionError | MemoryError):
        return "the code is nested too deeply, or too large"
    return f"the code cannot be read: {error}"


def _broken(exercise: Exercise, reason: str) -> str:
    """Write a block that says why it could not be read: it costs its exercise, and no other."""
    said = ascii(f"Exercise {exercise.id}: {reason}")
    if exercise.stub.startswith("class "):
        head = f"class {exercise.name}:\n    def __init__(self, *_, **__):\n        "
    else:
        head = f"def {exercise.name}(*_, **__):\n    "
    return f"{head}raise SyntaxError({said})\n"


def _cells(name: str, content: bytes, notes: list[str]) -> Iterator[tuple[Exercise, str]]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        notes.append(f"{name} is not UTF-8 and was left out")
        return
    if name.endswith(".py"):
        yield from _split(name, text, notes)
        return
    try:
        cells = json.loads(text)["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        notes.append(f"{name} is no notebook that can be read")
        return
    for code in sources:
        first, _, body = code.partition("\n")
        words = first.split()
        if len(words) == 2 and words[0] == MAGIC and words[1] in catalogue():
            whole = body.encode("utf-8", "replace").decode("utf-8")  # JSON can tell half a character
            yield catalogue()[words[1]], "\n" + whole  # lines count as in the cell


def _split(name: str, text: str, notes: list[str]) -> Iterator[tuple[Exercise, str]]:
    """Take a file of blocks apart: each block with everything in the file that is no block.

    Where the file cannot be read as a whole, the statements that can be are taken, and a block that
    cannot be is given as it stands, on its own lines.
    """
    blocks = {exercise.name: exercise for exercise in catalogue().values()}
    if len(text) > _SHORT and not any(block in text for block in blocks):
        return  # a checkout may hold much that is none of ours
    shared: list[str] = []
    own: dict[str, str] = {}
    try:
        parts = list(_statements(text))
    except UNPARSABLE as error:
        parts = []
        why, broken = _said(error), False
        for start, part in _at_the_margin(text):
            defined = next((found[1] for line in part if (found := _HEAD.match(line))), "")
            code = "\n".join(part)
            try:
                ast.parse("\n" * start + code)
            except UNPARSABLE as here:
                why, broken = _said(here), True
                if defined in blocks:
                    yield blocks[defined], "\n" * start + code
                    continue
                notes.append(f"{name}: {why}")
            else:
                parts.append((defined, code))
        if not broken:
            notes.append(f"{name}: {why}")
    for defined, code in parts:
        if defined in blocks:
            own[defined] = code
        else:
            shared.append(code)
    for block, code in own.items():
        yield blocks[block], "\n".join([*shared, code]) + "\n"


def _statements(text: str) -> Iterator[tuple[str, str]]:
    """Give every statement of a file with the comments above it, and the name that it defines."""
    lines, end = cells.split_lines(text), 0
    for node in ast.parse(text).body:
        start, end = end, node.end_lineno or end
        yield node.name if isinstance(node, source.Definition) else "", "\n".join(lines[start:end])


_HEAD = re.compile(r"(?:class|def)\s+(\w+)")
_GOES_ON = re.compile(r"(?:else|elif|except|finally)\b")


def _at_the_margin(text: str) -> Iterator[tuple[int, list[str]]]:
    """Cut a file that cannot be parsed before each line that begins a statement at its margin."""
    start, part = 0, list[str]()
    for number, line in enumerate(cells.split_lines(text)):
        begins = re.match(r"[^\W\d]|@", line) and not _GOES_ON.match(line)
        if begins and part and not part[-1].startswith("@"):
            yield start, part
            start, part = number, []
        part.append(line)
    yield start, part


def stubs() -> dict[str, bytes]:
    """Give the package as it is released, with nothing solved."""
    return dict(_stubs())


@functools.cache
def _stubs() -> dict[str, bytes]:
    return {
        path.name: source.to_stub(path.read_text(encoding="utf-8")).encode("utf-8")
        for path in sorted(package_folder().glob("*.py"))
    }
