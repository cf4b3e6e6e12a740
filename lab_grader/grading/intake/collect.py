"""What was handed in: every entry of a class becomes a submission, or a refusal that says why."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import re
import stat
import tempfile
import traceback
import unicodedata
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from lab_check.errors import UserError
from lab_grader.grading.intake import entry
from lab_grader.grading.intake.clean import clean, clean_all, clean_name
from lab_grader.grading.intake.entry import ARCHIVES, Unreadable
from lab_grader.grading.intake.reader import Reader, Trouble
from lab_grader.grading.model import HandedIn, Refused

# Canvas: namepart_[LATE_]userid_submissionid_file-attempt.ext
_CANVAS = re.compile(
    r"(?P<name>[^_]+)_(?:LATE_)?(?P<user>[0-9]{1,20})_[0-9]{1,20}_(?P<file>.+)", re.DOTALL
)
_ATTEMPT = re.compile(r"-([0-9]{1,6})$")
# Moodle: Full Name_participant_assignsubmission_file[_...]
_MOODLE = re.compile(
    r"(?P<name>.+?)_(?P<user>[0-9]{1,20})_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)", re.DOTALL
)
# What systems and tools leave in a folder; whatever else is there is somebody's.
_NOBODYS = (
    "__MACOSX", ".DS_Store", ".localized", "Thumbs.db", "desktop.ini", ".git", ".gitattributes",
    ".gitignore", ".gitkeep", ".ipynb_checkpoints",
)  # fmt: skip


class Named(NamedTuple):
    """What the name of an entry says: whose it is, their number in the LMS, and which attempt."""

    student: str
    user: str = ""
    attempt: int = 0

    @property
    def person(self) -> tuple[str, str]:
        """Who it is: an LMS knows people by number, whatever they call themselves today."""
        return ("user", self.user) if self.user else ("name", self.student)


def read_submissions(folder: Path, attempts: int | None = None) -> list[HandedIn | Refused]:
    """Read everything in a folder, or in an archive of a whole class as Canvas and Moodle give it out.

    Of the attempts that a student has, the newest counts.
    """
    if folder.is_file() and folder.name.lower().endswith(ARCHIVES):
        with _unpacked(folder) as (inside, left_out):
            return [*_read_class(inside, attempts), *left_out]
    if not folder.is_dir():
        raise UserError(f"{folder} is neither a folder of submissions nor an archive of one")
    try:
        return _read_class(folder, attempts)
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror}") from None


def everybody(received: Sequence[HandedIn | Refused], roster: Sequence[str] | None) -> list[HandedIn]:
    """Make a submission of everybody: also of whom nothing could be read, or who handed in nothing."""
    there = {one.student: one for one in received if isinstance(one, HandedIn)}
    refusals: dict[str, list[Refused]] = {}
    for one in received:
        if isinstance(one, Refused):
            refusals.setdefault(one.student, []).append(one)
    for student, own in refusals.items():
        said = clean_all(f"{one.source} could not be understood: {one.reason}" for one in own)
        known = there.get(student) or HandedIn(
            student, {}, own[-1].source, unreadable=clean("; ".join(said)), user=own[-1].user
        )
        there[student] = dataclasses.replace(known, notes=(*known.notes, *said))
    if roster is not None:
        names = {word for one in there.values() for word in _words(one)}
        wanted = {folded(name) for name in roster}
        for student, one in there.items():
            there[student] = dataclasses.replace(one, rostered=not wanted.isdisjoint(_words(one)))
        for name in roster:
            if folded(name) not in names:
                names.add(folded(name))
                there[name] = HandedIn(
                    name, entry.stubs(), notes=("nothing was handed in",), missing=True, rostered=True
                )
    return [one for _, one in sorted(there.items())]


def _words(one: HandedIn) -> set[str]:
    return {folded(word) for word in called(one.student, one.user)}


def called(student: str, user: str) -> list[str]:
    """List what a person may call a student: by the whole name, the name alone, the number alone."""
    return [student, user, student.removesuffix(f" #{user}")] if user else [student]


def folded(name: str) -> str:
    """Give a name without what differs between two ways of typing it."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


@contextlib.contextmanager
def _unpacked(path: Path) -> Iterator[tuple[Path, list[Refused]]]:
    """Unpack the archive of a class into a folder that goes away: plain files, no path outside."""
    with tempfile.TemporaryDirectory(prefix="lab-class-") as name:
        try:
            with path.open("rb") as file, Reader() as reader:
                members = reader.unpack(path.name, file.fileno(), Path(name))
        except (Unreadable, Trouble) as error:
            raise UserError(f"{path} cannot be opened: {error}") from None
        except OSError as error:
            raise UserError(f"{path} cannot be opened: {error.strerror}") from None
        inside = _innermost(Path(name))
        left_out = []
        for member, reason in members:
            below = member.replace("\\", "/").strip("/").split("/")
            whose = below[1:] if inside.name == below[0] and len(below) > 1 else below
            named = name_of(whose[0], is_file=len(whose) == 1)
            left_out.append(Refused(clean_name(member), clean(reason), named.student, user=named.user))
        yield inside, left_out


def _visible(folder: Path) -> list[Path]:
    return [folder / name for name in _somebodys(folder)]


def _somebodys(folder: Path) -> list[str]:
    """List what is somebody's. What macOS keeps beside a file, and names after it, is not."""
    names = {one.name for one in folder.iterdir()}
    besides = {f"._{name}" for name in names}
    return sorted(names - besides - {*_NOBODYS})


def _innermost(folder: Path) -> Path:
    """Give the folder in which a class lies: an archive often holds a single one.

    A folder that bears a student's name as an LMS writes it is that student's, whatever it holds.
    """
    entries = _visible(folder)
    if (
        len(entries) == 1
        and entries[0].is_dir()
        and not _lms(entries[0].name)
        and _is_class(entries[0])
    ):
        return entries[0]
    return folder


def _is_class(folder: Path) -> bool:
    """Tell a folder of many students from the work of one."""
    entries = _visible(folder)
    if any(_lms(one.name) for one in entries):
        return True
    whole = [
        one
        for one in entries
        if one.name.lower().endswith(ARCHIVES) or (one / "lab_transformer").is_dir()
    ]
    return len(whole) > 1 and not (folder / "lab_transformer").exists()


def _read_class(folder: Path, attempts: int | None) -> list[HandedIn | Refused]:
    class_ = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        entries = {name: name_of(name, is_file=_is_file(name, class_)) for name in _somebodys(folder)}
        latest = {one.person: one.student for one in entries.values()}
        named = {name: one._replace(student=latest[one.person]) for name, one in entries.items()}
        with _Readers(len(named)) as readers:
            tried = readers.read(class_, named)
    finally:
        os.close(class_)
    found: dict[str, list[_Attempt]] = {}
    for one in tried:
        if isinstance(one, _Attempt):
            found.setdefault(one.submission.student, []).append(one)
    refusals = [one for one in tried if isinstance(one, Refused)]
    return [*(_choose(tries, attempts) for _, tries in sorted(found.items())), *refusals]


_PER_READER = 50  # a reader takes as long to start as to read so many entries


class _Readers(contextlib.ExitStack):
    """As many readers as a class is worth, and the machine has cores for."""

    def __init__(self, entries: int) -> None:
        super().__init__()
        count = min(1 + entries // _PER_READER, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(count)
        self._free = queue.SimpleQueue[Reader]()
        for _ in range(count):
            self._free.put(self.enter_context(Reader()))
        # Before the readers end: whoever waits for one hears then that it has ended.
        self.callback(self._pool.shutdown, wait=False, cancel_futures=True)

    def read(self, class_: int, entries: dict[str, Named]) -> list[_Attempt | Refused]:
        """Read entries of a class, each by a reader that is free; give what came of them in order."""

        def work(name: str) -> _Attempt | Refused:
            reader = self._free.get()
            try:
                return _try_entry(name, entries[name], class_, reader)
            finally:
                self._free.put(reader)

        return list(self._pool.map(work, entries))


class _Attempt(NamedTuple):
    """Something that a student handed in: which attempt, when, and what."""

    number: int
    when: float
    submission: HandedIn


def _try_entry(name: str, named: Named, class_: int, reader: Reader) -> _Attempt | Refused:
    trouble = ""
    try:
        return _Attempt(named.attempt, *_read_entry(name, class_, named, reader))
    except Unreadable as error:
        reason = str(error)
    except OSError as error:
        reason = f"it cannot be read: {error.strerror}"
    except Trouble as error:
        reason, trouble = _OURS, str(error)
    except Exception:
        reason, trouble = _OURS, traceback.format_exc()
    return Refused(clean_name(name), clean(reason), named.student, trouble, named.user)


_OURS = "an error of the grader's own; whoever grades finds it in errors.log"


def _is_file(name: str, folder: int) -> bool:
    with contextlib.suppress(OSError):
        return not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    return True


def _read_entry(name: str, folder: int, named: Named, reader: Reader) -> tuple[float, HandedIn]:
    opened, found = entry.open_plain(name, folder)
    try:
        files, notes, sum_ = reader.read(name, opened)
    finally:
        os.close(opened)
    try:
        when = datetime.fromtimestamp(found.st_mtime, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        when = ""
        notes.append("the time of the file is none, and it is not taken as late")
    package = entry.stubs() | files
    return found.st_mtime, HandedIn(
        named.student, package, clean_name(name), when, clean_all(notes), named.user, sum_
    )


def _choose(tries: list[_Attempt], attempts: int | None) -> HandedIn:
    """Choose the newest of a student's attempts that the course allows; say what is left out."""
    # Attempts that are here are counted: the number in a name from Canvas also counts other work.
    tries.sort(key=lambda one: one[:2])
    ordered = [submission for _, _, submission in tries]
    *older, newest = ordered[:attempts]
    notes = list(newest.notes)
    if older:
        names = ", ".join(one.source for one in older)
        notes.append(clean(f"several attempts: {newest.source} counts, the newest; older: {names}"))
    if beyond := ordered[len(older) + 1 :]:
        names = ", ".join(one.source for one in beyond)
        left_out = f"attempts allowed: {attempts}; {newest.source} counts, not looked at: {names}"
        notes.append(clean(left_out))
    return dataclasses.replace(newest, notes=tuple(notes))


def name_of(name: str, is_file: bool) -> Named:
    """Read from the name of an entry whose it is.

    A number that an LMS has given is part of who somebody is: two of one name are two.
    """
    if is_file:
        suffix = next((suffix for suffix in ARCHIVES if name.lower().endswith(suffix)), "")
        bare = name[: -len(suffix)] if suffix else re.sub(r"\.[A-Za-z0-9]{1,5}$", "", name)
        name = bare or name
    if found := _lms(name):
        attempt = _ATTEMPT.search(found["file"])
        user = found["user"]
        return Named(f"{clean_name(found['name'])} #{user}", user, int(attempt[1]) if attempt else 0)
    # Nobody gets a number by calling themselves so: a backslash stands in no clean name alone.
    return Named(re.sub(r" #(?=[0-9]+$)", r" \\#", clean_name(name)))


def _lms(name: str) -> re.Match[str] | None:
    # Students choose the end of the name, and in Moodle what they are called, which is its beginning:
    # a name that can be read in two ways gives nobody a number.
    moodle = _MOODLE.fullmatch(name)
    if moodle and (_CANVAS.fullmatch(name) or _MOODLE.fullmatch(f"x{name[moodle.end('user') :]}")):
        return None
    return moodle or _CANVAS.fullmatch(name)


def canvas_id(source: str) -> str:
    """Read the number that Canvas gives a student from the name of a file it gave out."""
    found = _lms(source)
    return found["user"] if found and found.re is _CANVAS else ""
