"""Where learners' code is confined: the levels `full` and `reduced`, and the choice of a level.

`full` starts a warm process in bubblewrap, with nothing in it but Python and what a worker needs of
this package; every worker is forked from it into namespaces of its own. `reduced` does without
namespaces: Landlock keeps workers from files, the filter of system calls from everything else.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from lab_check import calling
from lab_check.calling import SCRATCH, messages
from lab_check.calling.messages import End, Ended, Ready, Start, Started
from lab_check.errors import UserError
from lab_check.paths import CHECK
from lab_grader.grading.judging import budget
from lab_grader.grading.judging.remote import WorkerLost
from lab_grader.grading.model import LEVELS, Limits, rounding
from lab_grader.grading.sandbox.process import (
    HUNG_UP,
    ROOT,
    DeadlineStream,
    Host,
    ProcessHost,
    death,
    send_files,
)

# All that a worker needs of ours, and all that it gets to see.
_NEEDED = [f"{CHECK.name}/__init__.py", f"{CHECK.name}/{Path(calling.__path__[0]).name}"]
_LIBRARIES = ["/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache"]
_DEVICES = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"]
_CODE = "/lab"
_IMPORT_SECONDS = 120.0  # importing torch on a busy machine


def open_host(level: str) -> Host:
    """Open a place for workers at a level of isolation; one that cannot be had is a UserError."""
    if level not in LEVELS:
        raise UserError(f"there is no isolation level {level!r}: choose one of {', '.join(LEVELS)}")
    return ProcessHost() if level == "process" else Sandbox(level)


class Sandbox:
    """Confined workers, forked from one warm process."""

    def __init__(self, level: str) -> None:
        self.level = level
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._count = 0
        self._start()
        # Take every step once: what cannot be had is said now, not in the middle of a class.
        try:
            line = self.line({}, Limits())
            line.open(time.monotonic() + _IMPORT_SECONDS)
            line.close()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def line(
        self, files: dict[str, bytes], limits: Limits, listeners: Sequence[socket.socket] = ()
    ) -> SandboxLine:
        return SandboxLine(self, files, limits, listeners)

    def close(self) -> None:
        if self._process is not None:
            self._control.close()  # the fork server ends its workers and itself
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
            self._complaints.close()

    def _start(self) -> None:
        self._control, theirs = socket.socketpair()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        descriptor = theirs.fileno()
        code = _CODE if self.level == "full" else str(ROOT)
        self._process = subprocess.Popen(
            _in_bubblewrap(descriptor) if self.level == "full" else _landlocked(descriptor),
            env=rounding() | _ENVIRONMENT | {"PYTHONPATH": os.pathsep.join([code, *_packages()])},
            cwd="/",
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._complaints,
            start_new_session=True,
        )
        theirs.close()
        try:
            messages.receive(self._stream(), Ready)
        except WorkerLost:
            self._complaints.seek(0)
            said = self._complaints.read().decode(errors="replace").strip().splitlines()
            self.close()
            raise self._failure(said[-1] if said else "the warm process did not start") from None

    def _failure(self, step: str) -> UserError:
        return UserError(
            f"{self.level} isolation cannot be had here: {step}. Nothing was run. Full isolation needs "
            f"user namespaces, reduced needs Landlock (Linux 6.2); --isolation chooses a level."
        )

    def _stream(self) -> DeadlineStream:
        return DeadlineStream(self._control, time.monotonic() + _IMPORT_SECONDS, lambda: HUNG_UP)

    @budget.undisturbed()
    def spawn(self, memory: int, listeners: Sequence[socket.socket]) -> tuple[socket.socket, int]:
        """Start a worker; give the socket to it, and its number."""
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            self._count += 1
            request = Start(self._count, memory, len(listeners))
            try:
                error = self._ask(request, Started, theirs, *listeners).error
            except (WorkerLost, OSError):
                # Somebody ended the warm process: where memory runs out, the system may.
                self.close()
                self._start()
                error = self._ask(request, Started, theirs, *listeners).error
            if error is not None:
                ours.close()
                raise self._failure(error)
            return ours, self._count

    @budget.undisturbed()
    def end(self, worker: int, wait: bool) -> int | None:
        """End a worker; where it ended by itself (it has a moment, if asked to wait), say how."""
        with self._lock:
            if self._process is None:
                return None
            try:
                return self._ask(End(worker, wait), Ended).code
            except (WorkerLost, OSError):
                return None  # the warm process is gone, and all workers with it

    def _ask(self, request: Start | End, kind: type[messages.M], *given: socket.socket) -> messages.M:
        messages.send(self._stream(), request)
        if given:
            socket.send_fds(self._control, [b"+"], [one.fileno() for one in given])
        return messages.receive(self._stream(), kind)


class SandboxLine:
    """A line to a confined worker, started when it is first needed."""

    def __init__(
        self,
        host: Sandbox,
        files: dict[str, bytes],
        limits: Limits,
        listeners: Sequence[socket.socket],
    ) -> None:
        self._host, self._files, self._limits, self._listeners = host, files, limits, listeners
        self._socket: socket.socket | None = None
        self._worker: int | None = None

    def open(self, deadline: float) -> messages.Stream:
        if self._socket is not None:
            return DeadlineStream(self._socket, deadline, self.fate)
        start = time.monotonic()
        self._socket, self._worker = self._host.spawn(self._limits.memory, self._listeners)
        # Making the sandbox is not the learner's time.
        deadline += time.monotonic() - start
        stream = DeadlineStream(self._socket, deadline, self.fate)
        send_files(stream, self._files)
        return stream

    def fileno(self) -> int:
        assert self._socket is not None
        return self._socket.fileno()

    def limit(self, limits: Limits) -> None:
        if limits.memory != self._limits.memory:
            self.drop()
        self._limits = limits

    def fate(self) -> WorkerLost:
        code = self._end(wait=True)
        return HUNG_UP if code is None else death(code)

    def _end(self, wait: bool) -> int | None:
        worker, self._worker = self._worker, None
        return None if worker is None else self._host.end(worker, wait)

    def drop(self) -> None:
        self._end(wait=False)
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    close = drop


_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def _packages() -> list[str]:
    """List the folders of installed packages: of the environment, the system, the user."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


def _python() -> list[str]:
    """List the folders that hold this interpreter and its packages."""
    stdlib = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    return sorted({sys.prefix, sys.base_prefix, sys.base_exec_prefix, *stdlib, *_packages()})


def _landlocked(descriptor: int) -> list[str]:
    readable = [*_python(), *_LIBRARIES, *_DEVICES, *(str(ROOT / name) for name in _NEEDED)]
    if os.getuid() == 0:
        for folder in (folder for path in _python() for folder in Path(path).parents):
            if not folder.stat().st_mode & 0o001:
                raise UserError(
                    f"reduced isolation runs as nobody, who cannot reach Python through {folder}: "
                    f"grade as another user than root, or with --isolation full"
                )
    there = [path for path in readable if Path(path).exists()]
    return [sys.executable, "-m", "lab_check.calling.forkserver", str(descriptor), *there]


def _in_bubblewrap(descriptor: int) -> list[str]:
    program = shutil.which("bwrap")
    if program is None:
        raise UserError(
            "full isolation needs bubblewrap: install the package `bubblewrap` (`make system`)"
        )
    command = [program, "--die-with-parent", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    if os.getuid() == 0:
        # Really nobody, not root under another name: the warm process gives up root itself.
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user"]
    steps = {path: ["--ro-bind-try", path, path] for path in (*_python(), *_LIBRARIES)}
    # An installed package lies among Python's own; the bank and the solutions must not be seen.
    for package in ("lab_check", "lab_grader", "lab_transformer"):
        steps[str(ROOT / package)] = ["--tmpfs", str(ROOT / package)]
    steps |= {path: ["--dev-bind", path, path] for path in _DEVICES}
    for name in _NEEDED:
        steps[f"{_CODE}/{name}"] = ["--ro-bind", str(ROOT / name), f"{_CODE}/{name}"]
    # Workers have a scratch of their own; this one is for what the warm process imports. Not /tmp,
    # where Python itself may lie.
    if not any(Path("/tmp") in Path(path).parents for path in steps):
        steps["/tmp"] = ["--symlink", SCRATCH, "/tmp"]
    steps |= {SCRATCH: ["--perms", "1777", "--tmpfs", SCRATCH], "/dev/shm": []}
    steps["/proc"] = ["--proc", "/proc"]
    # Folders on the way, which bubblewrap would make for their owner only.
    for path in list(steps):
        steps = {str(folder): ["--dir", str(folder)] for folder in Path(path).parents} | steps
    # What lies inside something else comes after it.
    for path in sorted(steps, key=lambda path: Path(path).parts):
        command += steps[path] or ["--dir", path]
    command += ["--setenv", "TMPDIR", SCRATCH, "--remount-ro", "/", "--", sys.executable]
    return [*command, "-m", "lab_check.calling.forkserver", str(descriptor)]
