"""A line to a worker that is a thread of this process."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from lab_check.calling import messages
from lab_check.calling.calls import InProcess
from lab_check.calling.worker import SocketStream, Worker
from lab_grader.grading.judging.remote import WorkerLost
from lab_grader.grading.model import Limits
from lab_grader.grading.sandbox import process


class Near:
    """Speaks the bytes that a sandbox speaks; the code is an object, and need not be a file."""

    def __init__(self, code: Callable[[], InProcess]) -> None:
        self._code = code
        self._start()

    def _start(self) -> None:
        self._ours, theirs = socket.socketpair()

        def serve() -> None:
            with theirs, contextlib.suppress(OSError):
                Worker(SocketStream(theirs), self._code).serve()

        threading.Thread(target=serve, daemon=True).start()

    def open(self, deadline: float) -> messages.Stream:
        if self._ours.fileno() < 0:
            self._start()
        return process.DeadlineStream(self._ours, deadline, self.fate)

    def fileno(self) -> int:
        return self._ours.fileno()

    def fate(self) -> WorkerLost:
        return WorkerLost("crashed", "it hung up")

    def limit(self, limits: Limits) -> None:
        pass

    def drop(self) -> None:
        self._ours.close()

    close = drop
