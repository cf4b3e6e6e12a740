"""Where learners' code is confined: the levels `full` and `reduced`, and the choice of a level."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from typing import Self

from lab_check.calling import messages
from lab_check.calling.messages import End, Ended, Ready, Start, Started
from lab_check.errors import UserError
from lab_grader.grading.judging import budget
from lab_grader.grading.judging.remote import WorkerLost
from lab_grader.grading.model import LEVELS, Limits
from lab_grader.grading.sandbox.process import (
    HUNG_UP,
    DeadlineStream,
    Host,
    ProcessHost,
    death,
    send_files,
)
from lab_grader.grading.sandbox.warm import WarmProcess, short

_IMPORT_SECONDS = 120.0  # importing torch on a busy machine


def open_host(level: str, address: str | None = None) -> Host:
    """Open a place for workers at a level of isolation; one that cannot be had is a UserError.

    Where a warm process has an address already, it serves this one, too.
    """
    if level not in LEVELS:
        raise UserError(f"there is no isolation level {level!r}: choose one of {', '.join(LEVELS)}")
    return ProcessHost() if level == "process" else Sandbox(level, address)


class Sandbox:
    """Confined workers, forked from a warm process: its own, or one that serves others, too."""

    def __init__(self, level: str, address: str | None = None) -> None:
        self.level = level
        self._lock = threading.Lock()
        self._warm: WarmProcess | None = None
        self._control: socket.socket | None = None
        self._count = 0
        # Take every step once: what cannot be had is said now, not in the middle of a class.
        try:
            self._start(address)
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
        if self._control is not None:
            self._control.close()  # the fork server ends the workers
            self._control = None
        if self._warm is not None:
            self._warm.close()
            self._warm = None

    def _start(self, address: str | None = None) -> None:
        """Call a warm process; where none is given, or it does not answer, one of its own."""
        if address is not None:
            try:
                self._call(address)
                return
            except (WorkerLost, OSError):
                self.close()
        self._warm = WarmProcess(self.level)
        try:
            self._call(self._warm.address)
        except (WorkerLost, OSError):
            raise self._failure(self._warm.complaint()) from None

    def _call(self, address: str) -> None:
        self._control = socket.socket(socket.AF_UNIX)
        with short(address) as way:
            self._control.connect(way)
        messages.receive(self._stream(), Ready)

    def _failure(self, step: str) -> UserError:
        return UserError(
            f"{self.level} isolation cannot be had here: {step}. Nothing was run. Full isolation needs "
            f"user namespaces, reduced needs Landlock (Linux 6.2); --isolation chooses a level."
        )

    def _stream(self) -> DeadlineStream:
        assert self._control is not None
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
            if self._control is None:
                return None
            try:
                return self._ask(End(worker, wait), Ended).code
            except (WorkerLost, OSError):
                return None  # the warm process is gone, and all workers with it

    def _ask(self, request: Start | End, kind: type[messages.M], *given: socket.socket) -> messages.M:
        messages.send(self._stream(), request)
        if given:
            assert self._control is not None
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
