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
from pathlib import Path

from lab_grader.course.grading.remote import WorkerLost
from lab_grader.course.grading.wire import Stream

ROOT = Path(__file__).resolve().parents[3]


class DeadlineStream:
    """A socket on which every wait ends at a deadline."""

    def __init__(
        self, connection: socket.socket, deadline: float, process: subprocess.Popen[bytes]
    ) -> None:
        self._socket, self._deadline, self._process = connection, deadline, process

    def _wait(self, read: bool) -> None:
        left = self._deadline - time.monotonic()
        lists = ([self._socket], []) if read else ([], [self._socket])
        if left <= 0 or not any(select.select(*lists, [], left)):
            raise WorkerLost("timeout", "no answer in time: is there a loop that never ends?")

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._wait(read=False)
            try:
                view = view[self._socket.send(view) :]
            except OSError:
                raise self._death() from None

    def receive(self, count: int) -> bytes:
        chunks = []
        while count:
            self._wait(read=True)
            try:
                chunk = self._socket.recv(min(count, 1 << 20))
            except OSError:
                chunk = b""
            if not chunk:
                raise self._death()
            chunks.append(chunk)
            count -= len(chunk)
        return b"".join(chunks)

    def _death(self) -> WorkerLost:
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return WorkerLost("crashed", "the code closed its line to the judge")
        if code < 0:
            name = signal.Signals(-code).name
            return WorkerLost("crashed", f"the code crashed Python ({name})")
        return WorkerLost("crashed", f"the code ended Python (exit code {code}) instead of returning")


class ProcessLine:
    """A worker in a process of its own, started when it is first needed."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="lab-worker-"))
        package = self._folder / "lab_transformer"
        package.mkdir()
        for name, content in files.items():
            (package / name).write_bytes(content)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def open(self, deadline: float) -> Stream:
        if self._process is None:
            self._socket, theirs = socket.socketpair()
            command = [sys.executable, "-m", "lab_grader.course.grading.worker", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                env={"PYTHONPATH": f"{self._folder}{os.pathsep}{ROOT}", "PATH": os.environ["PATH"]},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            theirs.close()
            deadline += 30  # importing torch is not the learner's time
        assert self._socket is not None
        return DeadlineStream(self._socket, deadline, self._process)

    def drop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """End the worker and remove its files."""
        self.drop()
        shutil.rmtree(self._folder, ignore_errors=True)
