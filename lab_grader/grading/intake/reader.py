"""The process in which entries of a class are opened, and how the course's side talks to it.

What reads hostile archives and notebooks has limits of time and memory, and may die of them: then the
entry is refused, and a new process reads the next. It is given open files, not paths, and answers with
a JSON text and the bytes of the files that it names.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
import tarfile
import traceback
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any, Self

from lab_check.calling.confine import mapped
from lab_check.paths import HOME
from lab_grader.grading.intake import entry
from lab_grader.grading.intake.entry import Unreadable

SECONDS, MEMORY = 2, 512 << 20  # of the processor, and beyond what Python itself has
WAIT_SECONDS = 60.0  # where it waits for something other than the processor
# Of the archive of a class: one file, all together, and times as much patience.
CLASS_FILE, CLASS, CLASS_TIMES = 64 << 20, 4 << 30, 100
_HEADER = 4 << 20
_NOTES, _WORDS = 200, 1000  # how many are told, and how much of each; the rest is cut where it is shown
_LENGTH = struct.Struct("<Q")
_ROOT = HOME.resolve()
# What this process may import is not to be found in the folder that somebody stands in.
_START = "import sys; sys.path.insert(0, sys.argv[1]); from {0} import serve; serve(int(sys.argv[2]))"


class Trouble(Exception):
    """An error of the grader's own while it read an entry; its text is the traceback."""


class Reader:
    """One process for many entries, started when it is first needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, name: str, opened: int) -> tuple[dict[str, bytes], list[str], str]:
        """Give the package in an open file or folder, notes, and the sum of all that can matter in it.

        Raises `Unreadable` or `Trouble`.
        """
        answer = self._ask({"job": "read", "name": name}, opened, WAIT_SECONDS)
        return answer["files"], answer["notes"], answer["sum"]

    def unpack(self, name: str, opened: int, into: Path) -> list[tuple[str, str]]:
        """Unpack the archive of a class; give the members that were left out, and why."""
        job = {"job": "unpack", "name": name, "into": str(into)}
        answer = self._ask(job, opened, 20 * WAIT_SECONDS)
        return [(member, reason) for member, reason in answer["left_out"]]

    def _ask(self, job: dict[str, str], opened: int, patience: float) -> dict[str, Any]:
        line = self._line or self._start()
        line.settimeout(patience)
        try:
            socket.send_fds(line, [json.dumps(job).encode()], [opened])
            answer: dict[str, Any] = json.loads(self._receive(_HEADER))
            answer["files"] = {name: self._receive(entry.TOTAL) for name in answer.get("files", [])}
        except TimeoutError:
            self._end()
            raise Unreadable("reading it takes too long") from None
        except OSError:
            raise Unreadable(self._fate()) from None
        if "again" in answer:
            self._end()
        if "unreadable" in answer:
            raise Unreadable(answer["unreadable"])
        if "trouble" in answer:
            raise Trouble(answer["trouble"])
        return answer

    def _start(self) -> socket.socket:
        self._line, theirs = socket.socketpair()
        with theirs:
            words = [str(_ROOT), str(theirs.fileno())]
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-W", "ignore", "-c", _START.format(__name__), *words],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        return self._line

    def _receive(self, most: int) -> bytes:
        count: int = _LENGTH.unpack(self._exactly(_LENGTH.size))[0]
        if count > most:
            raise ConnectionError
        return self._exactly(count)

    def _exactly(self, count: int) -> bytes:
        assert self._line is not None
        data = bytearray()
        while len(data) < count:
            chunk = self._line.recv(min(count - len(data), 1 << 20))
            if not chunk:
                raise ConnectionError
            data += chunk
        return bytes(data)

    def _fate(self) -> str:
        """Say why the process is gone."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        code = self._process.returncode
        self._end()
        if code == -signal.SIGXCPU:
            return "reading it takes too long"
        if code is not None and code < 0:
            return f"reading it crashed Python ({signal.Signals(-code).name})"
        return "reading it ended Python"

    def _end(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def serve(number: int) -> None:
    """Read what is asked for, until nobody asks any more."""
    entry.stubs()
    _limit_memory()
    with socket.socket(fileno=number) as line:
        while True:
            asked, given, *_ = socket.recv_fds(line, 1 << 16, 1)
            if not asked:
                return
            job = json.loads(asked)
            _limit_time(SECONDS * (CLASS_TIMES if job["job"] == "unpack" else 1))
            answer, files = _answer(job, given[0])
            os.close(given[0])
            for part in (json.dumps(answer).encode(), *files):
                line.sendall(_LENGTH.pack(len(part)) + part)


def _answer(job: dict[str, str], opened: int) -> tuple[dict[str, Any], list[bytes]]:
    try:
        if job["job"] == "unpack":
            return {"left_out": _unpack(job["name"], opened, Path(job["into"]))}, []
        files, notes, sum_ = entry.read_entry(job["name"], opened)
    except Unreadable as reason:
        return {"unreadable": str(reason)[:_WORDS]}, []
    except OSError as error:
        return {"unreadable": f"it cannot be read: {error.strerror}"}, []
    except MemoryError:
        # What is left of the memory is nobody's to rely on.
        return {
            "unreadable": f"reading it takes more than {MEMORY >> 20} MiB of memory",
            "again": 1,
        }, []
    except RecursionError:
        return {"unreadable": "it is nested too deeply", "again": 1}, []
    except Exception:
        return {"trouble": traceback.format_exc(), "again": 1}, []
    told = [note[:_WORDS] for note in notes[:_NOTES]]
    return {"files": list(files), "notes": told, "sum": sum_}, list(files.values())


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):  # where there is no such limit, there is one of time
        most = mapped() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _limit_time(seconds: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + seconds, hard))


Member = tuple[str, Callable[[], float], Callable[[int], bytes]]


def _unpack(name: str, opened: int, into: Path) -> list[tuple[str, str]]:
    """Write the plain files of an archive below an empty folder; one that cannot be is left out."""
    left_out: list[tuple[str, str]] = []
    size = 0
    members = _zipped if name.lower().endswith(".zip") else _tarred
    with open(opened, "rb", closefd=False) as file:
        for count, (member, when, read) in enumerate(_members(members, file)):
            if size > CLASS or count > 10 * entry.MEMBERS:
                raise Unreadable("it is too large for the archive of a class: unpack it yourself")
            try:
                size += _write(member, when, read, into)
            except Unreadable as reason:
                left_out.append((member[: entry.NAME], str(reason)))
            except (OSError, ValueError) as error:
                said = error.strerror if isinstance(error, OSError) else str(error)
                left_out.append((member[: entry.NAME], f"it cannot be unpacked: {said}"))
    for folder in sorted((one for one in into.rglob("*") if one.is_dir()), reverse=True):
        newest = max((one.stat().st_mtime for one in folder.iterdir()), default=0.0)
        os.utime(folder, (newest, newest))
    return left_out


def _members(members: Callable[[IO[bytes]], Iterator[Member]], file: IO[bytes]) -> Iterator[Member]:
    try:
        yield from members(file)
    except (Unreadable, MemoryError, RecursionError, GeneratorExit):
        raise
    except Exception as error:
        raise Unreadable(f"the archive is damaged: {error}") from None


def _write(member: str, when: Callable[[], float], read: Callable[[int], bytes], into: Path) -> int:
    path = PurePosixPath(member.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        raise Unreadable("its path leads outside")
    try:
        content = read(CLASS_FILE + 1)
    except (Unreadable, MemoryError):
        raise
    except Exception as error:
        raise Unreadable(f"it is damaged: {error}") from None
    if len(content) > CLASS_FILE:
        raise Unreadable(f"it is larger than {CLASS_FILE >> 20} MiB")
    target = into / path
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        file.write(content)
    with suppress(ValueError, OverflowError, OSError):  # a time that is none stays that of now
        os.utime(target, (when(), when()))
    return len(content)


def _zipped(file: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for one in archive.infolist():
            if one.is_dir():
                continue

            def when(one: zipfile.ZipInfo = one) -> float:
                return datetime(*one.date_time).timestamp()

            def read(size: int, one: zipfile.ZipInfo = one) -> bytes:
                if stat.S_ISLNK(one.external_attr >> 16):
                    raise Unreadable("it is a link")
                with archive.open(one) as inner:
                    return entry.some(inner, size)

            yield one.filename, when, read


def _tarred(file: IO[bytes]) -> Iterator[Member]:
    with tarfile.open(fileobj=entry.Measured(file, 2 * CLASS), mode="r:") as archive:  # type: ignore[call-overload]
        for one in archive:
            if one.isdir():
                continue

            def read(size: int, one: tarfile.TarInfo = one) -> bytes:
                inner = archive.extractfile(one) if one.isreg() else None
                if inner is None:
                    raise Unreadable("it is no regular file")
                return entry.some(inner, size)

            yield one.name, functools.partial(float, one.mtime), read
