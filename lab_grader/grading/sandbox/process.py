"""Where workers live. The level `process` splits judge and worker, and confines nothing."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import torch

from lab_check.calling import messages
from lab_grader.grading.judging import budget
from lab_grader.grading.judging.remote import Line, WorkerLost
from lab_grader.grading.model import Limits, rounding
from lab_grader.grading.sandbox.warm import ROOT

_IMPORT_SECONDS = 60.0  # importing torch on a busy machine


class Host(Protocol):
    """A place for workers, and how well it confines them."""

    level: str

    def line(
        self, files: dict[str, bytes], limits: Limits, listeners: Sequence[socket.socket] = ()
    ) -> Line:
        """Give a line to a worker for a package of these files, or to a kernel on listening sockets."""
        ...

    def close(self) -> None:
        """End all that still runs."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class DeadlineStream:
    """A socket on which every wait ends at a deadline; `death` tells why the other side hung up."""

    def __init__(
        self, connection: socket.socket, deadline: float, death: Callable[[], WorkerLost]
    ) -> None:
        self._socket, self._deadline, self._death = connection, deadline, death

    def _in_time(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise WorkerLost("timeout", "no answer in time: is there a loop that never ends?")
        return left

    def _wait(self, read: bool) -> None:
        lists = ([self._socket], []) if read else ([], [self._socket])
        select.select(*lists, [], self._in_time())

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._in_time()
            try:
                # Whoever does not read must not make the judge wait longer than the deadline.
                view = view[self._socket.send(view, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                self._wait(read=False)
            except OSError:
                raise self._death() from None

    def receive(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            self._in_time()
            try:
                # Of most messages all is there as soon as something is.
                chunk = self._socket.recv(min(count - len(data), 1 << 20), socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._wait(read=True)
                continue
            except OSError:
                chunk = b""
            if not chunk:
                raise self._death()
            data += chunk
        return bytes(data)


def send_files(stream: messages.Stream, files: dict[str, bytes]) -> None:
    """Send a package to a new worker, as the first message."""
    sent: dict[str, torch.Tensor] = {
        name: torch.frombuffer(bytearray(content), dtype=torch.uint8)
        if content
        else torch.empty(0, dtype=torch.uint8)
        for name, content in files.items()
    }
    messages.send(stream, messages.Files(sent))


def death(code: int) -> WorkerLost:
    """Say how a worker ended, by its exit code or minus the signal."""
    if code == -signal.SIGKILL:
        return WorkerLost("memory", "the code used up the memory, and was ended for it")
    if code < 0:
        name = signal.Signals(-code).name
        return WorkerLost("crashed", f"the code crashed Python ({name})")
    return WorkerLost("crashed", f"the code ended Python (exit code {code}) instead of returning")


HUNG_UP = WorkerLost("crashed", "the code closed its line to the judge")


class ProcessHost:
    """Workers that are processes of their own, and no more than that."""

    level = "process"

    def line(
        self, files: dict[str, bytes], limits: Limits, listeners: Sequence[socket.socket] = ()
    ) -> ProcessLine:
        return ProcessLine(files, limits, listeners)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ProcessLine:
    """A worker in a process of its own, started when it is first needed."""

    def __init__(
        self, files: dict[str, bytes], limits: Limits, listeners: Sequence[socket.socket]
    ) -> None:
        self._files, self._limits, self._listeners = files, limits, listeners
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    @budget.undisturbed()
    def open(self, deadline: float) -> messages.Stream:
        if self._process is None:
            self._folder = Path(tempfile.mkdtemp(prefix="lab-worker-"))
            self._socket, theirs = socket.socketpair()
            given = [theirs.fileno(), *(one.fileno() for one in self._listeners)]
            words = map(str, [self._limits.memory, *given])
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lab_check.calling.worker", *words],
                cwd=self._folder,
                env=rounding()
                | {"PYTHONPATH": f"{self._folder}{os.pathsep}{ROOT}", "PATH": os.environ["PATH"]},
                pass_fds=given,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            theirs.close()
            start = DeadlineStream(self._socket, time.monotonic() + _IMPORT_SECONDS, self.fate)
            send_files(start, self._files)
            messages.receive(start, messages.Ready)  # importing torch is not the learner's time
        assert self._socket is not None
        return DeadlineStream(self._socket, deadline, self.fate)

    def fileno(self) -> int:
        assert self._socket is not None
        return self._socket.fileno()

    def limit(self, limits: Limits) -> None:
        if limits.memory != self._limits.memory:
            self.drop()
        self._limits = limits

    def fate(self) -> WorkerLost:
        assert self._process is not None
        try:
            return death(self._process.wait(timeout=1))
        except subprocess.TimeoutExpired:
            return HUNG_UP

    @budget.undisturbed()
    def drop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    close = drop
