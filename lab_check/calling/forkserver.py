"""A warm process inside the sandbox, from which every submission's worker is forked.

It has imported torch, holds no submission and no answer, and takes calls of judges on one socket.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

from lab_check.calling import SCRATCH, confine
from lab_check.calling.streams import SocketStream

_PRIVATE = (SCRATCH, "/dev/shm")
_GRACE = 0.3
_Name = tuple[int, int]  # of a worker: its judge, and the judge's number for it


class ForkServer:
    """Forks workers when judges ask, ends them when they ask, and tells how they ended."""

    def __init__(self, judges: socket.socket, owner: socket.socket, readable: list[str] | None) -> None:
        self._judges, self._owner = judges, owner
        # What workers may read where they have no mount namespace; None where they have one.
        self._readable = readable
        # Process and folder of each worker, by its judge and the judge's number for it.
        self._workers: dict[_Name, tuple[int, str]] = {}
        self._lines = selectors.DefaultSelector()
        for line in (owner, judges):
            self._lines.register(line, selectors.EVENT_READ)

    def serve(self) -> None:
        """Answer all judges who call, until the one who started it hangs up."""
        from lab_check.calling import messages

        while True:
            for key, _ in self._lines.select():
                line = key.fileobj
                assert isinstance(line, socket.socket)
                if line is self._owner:
                    self._end_all(None)
                    return
                if line is self._judges:
                    judge, _ = self._judges.accept()
                    self._lines.register(judge, selectors.EVENT_READ)
                    messages.send(SocketStream(judge), messages.Ready())
                    continue
                try:
                    self._answer(line)
                except (EOFError, OSError):
                    self._end_all(line.fileno())
                    self._lines.unregister(line)
                    line.close()

    def _answer(self, line: socket.socket) -> None:
        from lab_check.calling import messages
        from lab_check.calling.messages import End, Ended, Start, Started

        stream = SocketStream(line)
        request: Start | End = messages.receive(stream, Start | End)
        name = line.fileno(), request.worker
        match request:
            case Start(_, memory, sockets):
                messages.send(stream, Started(self._spawn(line, name, memory, sockets)))
            case End(_, wait):
                messages.send(stream, Ended(self._end(name, wait)))

    def _hang_up(self) -> None:
        """Leave a worker nothing of the lines to judges."""
        for key in list(self._lines.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._lines.close()

    def _end_all(self, judge: int | None) -> None:
        for name in list(self._workers):
            if judge in (None, name[0]):
                self._end(name, wait=False)

    def _spawn(self, line: socket.socket, name: _Name, memory: int, sockets: int) -> str | None:
        """Start a worker on the sockets that come with the request; say what went wrong, if it did."""
        _, (connection, *listeners), _, _ = socket.recv_fds(line, 1, 1 + sockets)
        if listeners:
            from lab_check.calling import kernel

            kernel.warm_up()
        read, write = os.pipe()
        apart = self._readable is None
        home = _PRIVATE[0] if apart else tempfile.mkdtemp(prefix="lab-worker-")
        worker = confine.fork_apart() if apart else os.fork()
        if worker == 0:
            self._hang_up()
            _work(connection, listeners, write, memory, self._readable, home)
        self._workers[name] = worker, home
        os.close(write)
        for given in (connection, *listeners):
            os.close(given)
        with os.fdopen(read) as pipe:
            said = pipe.read()
        if said == "ready":
            return None
        self._end(name, wait=True)
        return said or "the worker ended while it was being confined"

    def _end(self, name: _Name, wait: bool) -> int | None:
        """End a worker; if it ended by itself, give its exit code or minus the signal."""
        if name not in self._workers:
            return None  # it was an earlier fork server's
        worker, home = self._workers.pop(name)
        code = _wait(worker, _GRACE if wait else 0.0)
        if code is None:
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
        if self._readable is not None:
            shutil.rmtree(home, ignore_errors=True)
        return code


def _wait(worker: int, seconds: float) -> int | None:
    """Give the exit code of a worker that ends within a time."""
    until = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(worker, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= until:
            return None
        time.sleep(0.002)


def _work(
    connection: int,
    listeners: list[int],
    said: int,
    memory: int,
    readable: list[str] | None,
    home: str,
) -> NoReturn:
    """Give everything away, unpack the submission, and answer calls or be a notebook's kernel."""
    from lab_check.calling.worker import serve

    try:
        memory += confine.mapped()  # while /proc can be read
        nothing = os.open("/dev/null", os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        os.setsid()  # signals to a process group cross namespaces
        # Where memory runs out, a worker goes first.
        Path("/proc/self/oom_score_adj").write_text("1000")
        if readable is None:
            confine.leave_namespaces()
            confine.mount_private(_PRIVATE)
        else:
            confine.restrict_files(readable, home)
        os.chdir(home)
        if listeners:
            from lab_check.calling.kernel import IGNORED, SYSTEM_CALLS

            confine.limit(memory, files=256)
            confine.drop_privileges()
            confine.refuse_system_calls(SYSTEM_CALLS, IGNORED)
        else:
            confine.limit(memory)
            confine.drop_privileges()
            confine.refuse_system_calls()
    except (confine.ConfinementError, OSError) as error:
        os.write(said, str(error).encode())
        os._exit(1)
    os.write(said, b"ready")
    kept = sorted({0, 1, 2, connection, *listeners})
    for low, high in zip(kept, [*kept[1:], 256], strict=True):
        os.closerange(low + 1, high)
    sys.path.insert(0, home)
    os.environ |= {"HOME": home, "TMPDIR": home}
    with contextlib.suppress(BaseException):
        serve(connection, listeners)
    os._exit(0)


def warm_up() -> None:
    """Use torch once on one thread, backward too: what it loads lazily is loaded before forking."""
    import jaxtyping  # noqa: F401
    import torch

    torch.set_num_threads(1)  # before the first operation: a fork of a process with threads hangs
    x = torch.randn(3, 4, requires_grad=True)
    layer = torch.nn.Linear(4, 4)
    loss = torch.softmax(layer(x) @ x.mT, dim=-1).sum()
    torch.autograd.grad(loss + torch.nn.functional.layer_norm(x, (4,)).sum(), x)
    practise()
    gc.collect()
    gc.freeze()  # a worker's collector must not touch, and so copy, the pages that all share
    confine.use_large_pages()


def practise() -> None:
    """Answer some calls: Python writes to code that is run often, and so to pages that all share."""
    import torch

    from lab_check.calling import messages
    from lab_check.calling.calls import InProcess
    from lab_check.calling.worker import Worker

    with socket.socket() as nobody:
        worker = Worker(SocketStream(nobody))
        worker._code = InProcess(lambda module, name: torch.softmax)
        for number in range(20):
            given = [torch.randn(3, 4)]
            call = messages.Call(None, "", "", None, [], given, {"dim": -1}, number % 4 == 0)
            messages.pack(worker._answer(messages.unpack(messages.pack(call), messages.Call)))


def main(judges: int, owner: int, readable: list[str] | None) -> None:
    """Become nobody, then warm up, so that what nobody may not read is missed here, and serve.

    The two numbers are a socket on which judges call, and one that ends with whoever started this.
    """
    confine.become_nobody()
    if readable is None:
        # In a user namespace of its own it may make those that its workers live in.
        confine.enter_namespaces()
        if first := os.fork():
            os.close(judges)
            os.close(owner)
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]))
    warm_up()
    ForkServer(socket.socket(fileno=judges), socket.socket(fileno=owner), readable).serve()


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or None)
    except confine.ConfinementError as error:
        sys.exit(str(error))
