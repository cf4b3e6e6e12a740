"""What was handed in: folders, archives, notebooks and files, made into packages to grade.

Nothing is run, and nothing is unpacked to disk but the archive of a whole class. Every entry of the
folder becomes a submission, or a refusal that says why.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import json
import os
import re
import stat
import tarfile
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from lab_grader import source, writing
from lab_grader.course.grading.model import Refused, Submission
from lab_grader.errors import UserError
from lab_grader.exercises import Exercise, catalogue, package_folder

FILE = 1 << 20
TOTAL = 20 << 20
MEMBERS = 10_000
# Of the archive of a class: one file, and all together. A file that is cut off is too large anyway.
CLASS_FILE, CLASS = 64 << 20, 4 << 30
MAGIC = "%%exercise"
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

# Canvas: namepart_[LATE_]userid_submissionid_file-attempt.ext
_CANVAS = re.compile(r"(?P<student>[^_]+)_(?:LATE_)?(?P<user>\d+)_(?P<id>\d+)_(?P<file>.+)")
_ATTEMPT = re.compile(r"-(\d+)$")
# Moodle: Full Name_participant_assignsubmission_file[_...]
_MOODLE = re.compile(
    r"(?P<student>.+?)_(?P<user>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)"
)


_DAMAGES = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, ValueError)


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
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", name):
            raise Unreadable(f"it holds a path that leads outside: {name[:80]}")
        hidden = any(part.startswith((".", "__MACOSX", "__pycache__")) for part in path.parts)
        if name.lower().endswith(ARCHIVES) and not hidden:
            self.notes.append(f"{name} is an archive inside, and was not opened")
        return path.suffix in (".py", ".ipynb") and not hidden

    def add(self, name: str, content: bytes) -> None:
        """Keep a file."""
        if len(content) > FILE:
            self.notes.append(f"{name} is larger than {FILE >> 20} MiB and was left out")
            return
        self._size += len(content)
        if self._size > TOTAL:
            raise Unreadable(f"its files are larger than {TOTAL >> 20} MiB together")
        self.files[name.replace("\\", "/")] = content


def read_submissions(
    folder: Path, attempts: int | None = None, grades: Path | None = None
) -> list[Submission | Refused]:
    """Read everything in a folder, or in an archive of a whole class as Canvas and Moodle give it out.

    Of the attempts that a student has, the newest counts. Grades that lie in the same folder are no
    submission.
    """
    if folder.is_file() and folder.name.lower().endswith(ARCHIVES):
        with _unpacked(folder) as inside:
            return _read_class(_innermost(inside), attempts, grades)
    if not folder.is_dir():
        raise UserError(f"{folder} is neither a folder of submissions nor an archive of one")
    return _read_class(folder, attempts, grades)


def everybody(
    received: Sequence[Submission | Refused], roster: Sequence[str] | None
) -> list[Submission]:
    """Make a submission of everybody: also of whom nothing could be read, or who handed in nothing."""
    there = {one.student: one for one in received if isinstance(one, Submission)}
    refusals: dict[str, list[Refused]] = {}
    for one in received:
        if isinstance(one, Refused):
            refusals.setdefault(one.student, []).append(one)
    for student, own in refusals.items():
        said = [f"{one.source} could not be understood: {one.reason}" for one in own]
        known = there.get(student) or Submission(
            student, {}, own[-1].source, unreadable="; ".join(said)
        )
        there[student] = dataclasses.replace(known, notes=(*known.notes, *said))
    if roster is not None:
        names = {word for one in there.values() for word in _words(one)}
        wanted = {_folded(name) for name in roster}
        for student, one in there.items():
            there[student] = dataclasses.replace(one, rostered=not wanted.isdisjoint(_words(one)))
        for name in roster:
            if _folded(name) not in names:
                there[name] = Submission(
                    name, stubs(), notes=("nothing was handed in",), missing=True, rostered=True
                )
    return [one for _, one in sorted(there.items())]


def _words(one: Submission) -> set[str]:
    """List what a roster may call a student: the whole name, the name alone, the number alone."""
    words = [one.student, one.user, one.student.removesuffix(f" #{one.user}")]
    return {_folded(word) for word in words if word}


def _folded(name: str) -> str:
    """Give a name without what differs between two ways of typing it."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith((".", "__")))


def _innermost(folder: Path) -> Path:
    """Give the folder in which a class lies: archives often hold a single one."""
    entries = _visible(folder)
    return entries[0] if len(entries) == 1 and entries[0].is_dir() and _is_class(entries[0]) else folder


def _is_class(folder: Path) -> bool:
    """Tell a folder of many students from the work of one."""
    entries = _visible(folder)
    if any(name.fullmatch(entry.name) for entry in entries for name in (_CANVAS, _MOODLE)):
        return True
    whole = [
        entry
        for entry in entries
        if entry.name.lower().endswith(ARCHIVES) or (entry / "lab_transformer").is_dir()
    ]
    return len(whole) > 1 and not (folder / "lab_transformer").exists()


@contextlib.contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """Unpack the archive of a class into a folder that goes away: plain files, no path outside."""
    with tempfile.TemporaryDirectory(prefix="lab-class-") as name:
        inside, size, count = Path(name), 0, 0
        try:
            for member, when, read in _class_members(path):
                target = PurePosixPath(member.replace("\\", "/"))
                if target.is_absolute() or ".." in target.parts:
                    raise Unreadable(f"it holds a path that leads outside: {member[:80]}")
                content = read(CLASS_FILE)
                size, count = size + len(content), count + 1
                if size > CLASS or count > 10 * MEMBERS:
                    raise Unreadable("it is too large for the archive of a class: unpack it yourself")
                (inside / target).parent.mkdir(parents=True, exist_ok=True)
                (inside / target).write_bytes(content)
                os.utime(inside / target, (when, when))
        except (Unreadable, RuntimeError, *_DAMAGES) as error:
            raise UserError(f"{path} cannot be opened: {error}") from None
        for folder in sorted((one for one in inside.rglob("*") if one.is_dir()), reverse=True):
            newest = max((one.stat().st_mtime for one in folder.iterdir()), default=0.0)
            os.utime(folder, (newest, newest))
        yield inside


def _class_members(path: Path) -> Iterator[tuple[str, float, Callable[[int], bytes]]]:
    """List the plain files of an archive: name, time, and how to read so many bytes."""
    if path.name.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for one in archive.infolist():
                if not one.is_dir() and not stat.S_ISLNK(one.external_attr >> 16):
                    with archive.open(one) as file:
                        yield one.filename, datetime(*one.date_time).timestamp(), file.read
    else:
        with tarfile.open(path) as archive_:
            for each in archive_:
                if each.isreg() and (content := archive_.extractfile(each)) is not None:
                    yield each.name, each.mtime, content.read


def _read_class(folder: Path, attempts: int | None, grades: Path | None) -> list[Submission | Refused]:
    found: dict[str, list[tuple[int, float, Submission]]] = {}
    refusals: list[Refused] = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or (grades and grades.exists() and entry.samefile(grades)):
            continue
        student, attempt = name_of(entry)
        try:
            when = entry.lstat().st_mtime
            submission = _read_entry(entry, student)
        except Unreadable as reason:
            refusals.append(Refused(entry.name, str(reason), student))
            continue
        except OSError as error:
            refusals.append(Refused(entry.name, f"it cannot be read: {error.strerror}", student))
            continue
        found.setdefault(student, []).append((attempt, when, submission))
    return [*(_choose(tries, attempts) for _, tries in sorted(found.items())), *refusals]


def _choose(tries: list[tuple[int, float, Submission]], attempts: int | None) -> Submission:
    """Choose the newest of a student's attempts that the course allows; say what is left out."""
    # Attempts that are here are counted: the number in a name from Canvas also counts other work.
    tries.sort(key=lambda one: one[:2])
    ordered = [submission for _, _, submission in tries]
    *older, newest = ordered[:attempts]
    notes = list(newest.notes)
    if older:
        names = ", ".join(one.source for one in older)
        notes.append(f"several attempts: {newest.source} counts, the newest; older: {names}")
    if beyond := ordered[len(older) + 1 :]:
        names = ", ".join(one.source for one in beyond)
        notes.append(f"attempts allowed: {attempts}; {newest.source} counts, not looked at: {names}")
    return dataclasses.replace(newest, notes=tuple(notes))


def name_of(entry: Path) -> tuple[str, int]:
    """Read the student, and the number of the attempt, from the name of an entry."""
    name = entry.name
    for suffix in (*ARCHIVES, ".ipynb", ".py"):
        if entry.is_file() and name.lower().endswith(suffix):
            name = name[: -len(suffix)]
            break
    if moodle := _MOODLE.fullmatch(name):
        return moodle["student"], 0
    if canvas := _CANVAS.fullmatch(name):
        attempt = _ATTEMPT.search(canvas["file"])
        return canvas["student"], int(attempt[1]) if attempt else 0
    return name, 0


def canvas_id(source: str) -> str:
    """Read the number that Canvas gives a student from the name of a file it gave out."""
    canvas = _CANVAS.fullmatch(source)
    return canvas["user"] if canvas else ""


def _read_entry(entry: Path, student: str) -> Submission:
    mode = entry.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise Unreadable("it is a link")
    tree = Tree()
    if stat.S_ISDIR(mode):
        _read_folder(entry, tree)
    elif not stat.S_ISREG(mode):
        raise Unreadable("it is neither a folder nor a file")
    elif entry.name.lower().endswith(ARCHIVES):
        _read_archive(entry, tree)
    elif entry.suffix in (".py", ".ipynb"):
        if entry.stat().st_size > FILE:
            raise Unreadable(f"it is larger than {FILE >> 20} MiB")
        tree.add(entry.name, entry.read_bytes())
    else:
        raise Unreadable("it is no folder, archive, notebook or Python file")
    files, notes = understand(tree)
    when = datetime.fromtimestamp(entry.stat().st_mtime, UTC).isoformat(timespec="seconds")
    return Submission(student, files, entry.name, when, tuple(notes))


def _read_folder(folder: Path, tree: Tree) -> None:
    inner = [path for path in folder.iterdir() if not path.name.startswith((".", "__"))]
    if len(inner) == 1 and inner[0].is_file() and inner[0].name.lower().endswith(ARCHIVES):
        tree.notes.append(f"the folder holds an archive, {inner[0].name}")
        _read_archive(inner[0], tree)
        return
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not tree.wants(name):
            continue
        if path.is_symlink():
            tree.notes.append(f"{name} is a link and was left out")
        elif path.is_file():
            tree.add(name, path.read_bytes() if path.stat().st_size <= FILE else bytes(FILE + 1))


def _read_archive(path: Path, tree: Tree) -> None:
    members = _zip_members if path.name.lower().endswith(".zip") else _tar_members
    try:
        for name, content in members(path, tree):
            tree.add(name, content)
    except Unreadable:
        raise
    except _DAMAGES as error:
        raise Unreadable(f"the archive is damaged: {error}") from None
    except (RuntimeError, NotImplementedError) as error:
        raise Unreadable(f"the archive cannot be opened: {error}") from None


def _zip_members(path: Path, tree: Tree) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not tree.wants(member.filename) or member.is_dir():
                continue
            if stat.S_ISLNK(member.external_attr >> 16):
                tree.notes.append(f"{member.filename} is a link and was left out")
                continue
            with archive.open(member) as file:
                yield member.filename, file.read(FILE + 1)  # whatever size it claims


def _tar_members(path: Path, tree: Tree) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        for member in archive:
            if not tree.wants(member.name) or member.isdir():
                continue
            file = archive.extractfile(member) if member.isreg() else None
            if file is None:
                tree.notes.append(f"{member.name} is no regular file and was left out")
                continue
            yield member.name, file.read(FILE + 1)


def understand(tree: Tree) -> tuple[dict[str, bytes], list[str]]:
    """Make a package of what was found; what is missing in it is a stub."""
    notes = list(tree.notes)
    modules = _package_files(tree, notes)
    package = stubs() | modules
    if not modules:
        blocks = _blocks(tree, notes)
        if not blocks:
            why = "; ".join(notes) or "no lab_transformer, no module of it, and no exercise cell"
            raise Unreadable(f"it holds nothing to grade: {why}")
        notes.append(f"exercises found: {', '.join(sorted(exercise.id for exercise, _ in blocks))}")
        for exercise, cell in blocks:
            name = f"{exercise.module}.py"
            text = package[name].decode("utf-8")
            package[name] = writing.placed(text, exercise, cell.chunk).encode("utf-8")
    return package, notes


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
        return folders[packages[0]]
    loose = sorted(
        (folder for folder, files in folders.items() if known & files.keys()),
        key=lambda f: len(f.parts),
    )
    if loose:
        taken = {name: content for name, content in folders[loose[0]].items() if name in known}
        notes.append(f"taken as modules: {', '.join(sorted(taken))}")
        return taken
    return {}


def _blocks(tree: Tree, notes: list[str]) -> list[tuple[Exercise, writing.Cell]]:
    """Find exercise cells in notebooks, or blocks in files of any name."""
    found: dict[str, tuple[Exercise, writing.Cell]] = {}
    for name, content in sorted(tree.files.items()):
        for wanted, code in _cells(name, content, notes):
            try:
                cell = writing.read_cell(code, wanted)
            except (SyntaxError, UserError) as error:
                notes.append(f"exercise {wanted.id} in {name} could not be read: {error}")
                continue
            if not source.is_untouched(code, wanted.name, wanted.stub):
                found[wanted.id] = (wanted, cell)
    return list(found.values())


def _cells(name: str, content: bytes, notes: list[str]) -> Iterator[tuple[Exercise, str]]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        notes.append(f"{name} is not UTF-8 and was left out")
        return
    if name.endswith(".py"):
        try:
            yield from _split(text)
        except SyntaxError as error:
            where = f" in line {error.lineno}" if error.lineno else f": {error.msg}"
            notes.append(f"{name} has a syntax error{where}")
        return
    try:
        cells = json.loads(text)["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        notes.append(f"{name} is no notebook that can be read")
        return
    for code in sources:
        first, _, body = code.partition("\n")
        words = first.split()
        if len(words) == 2 and words[0] == MAGIC and words[1] in catalogue():
            yield catalogue()[words[1]], body


def _split(text: str) -> Iterator[tuple[Exercise, str]]:
    """Take a file of blocks apart: each block with everything in the file that is no block."""
    blocks = {exercise.name: exercise for exercise in catalogue().values()}
    lines, end = text.splitlines(), 0
    shared: list[str] = []
    own: dict[str, str] = {}
    for node in ast.parse(text).body:
        start, end = end, node.end_lineno or end
        part = "\n".join(lines[start:end])
        if isinstance(node, source.Definition) and node.name in blocks:
            own[node.name] = part
        else:
            shared.append(part)
    for name, part in own.items():
        yield blocks[name], "\n".join([*shared, part]) + "\n"


def stubs() -> dict[str, bytes]:
    """Give the package as it is released, with nothing solved."""
    return dict(_stubs())


@functools.cache
def _stubs() -> dict[str, bytes]:
    return {
        path.name: source.to_stub(path.read_text(encoding="utf-8")).encode("utf-8")
        for path in sorted(package_folder().glob("*.py"))
    }
