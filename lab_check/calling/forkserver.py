"""A warm process inside the sandbox, from which every submission's worker is forked.

It has imported torch, holds no submission and no answer, and speaks with the judge over one socket.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

from lab_check.calling import SCRATCH, confine

_PRIVATE = (SCRATCH, "/dev/shm")
_GRACE = 0.3


class ForkServer:
    """Forks workers on request, ends them on request, and tells how they ended."""

    def __init__(self, control: socket.socket, readable: list[str] | None) -> None:
        self._control = control
        # What workers may read where they have no mount namespace; None where they have one.
        self._readable = readable
        self._workers: dict[int, tuple[int, str]] = {}  # process and folder, by the judge's number

    def serve(self) -> None:
        """Answer the judge until it hangs up."""
        from lab_check.calling import messages
        from lab_check.calling.messages import End, Ended, Ready, Start, Started
        from lab_check.calling.worker import SocketStream

        stream = SocketStream(self._control)
        messages.send(stream, Ready())
        with contextlib.suppress(EOFError):
            while True:
                request: Start | End = messages.receive(stream, Start | End)
                match request:
                    case Start(worker, memory, sockets):
                        messages.send(stream, Started(self._spawn(worker, memory, sockets)))
                    case End(worker, wait):
                        messages.send(stream, Ended(self._end(worker, wait)))
        for name in list(self._workers):
            self._end(name, wait=False)

    def _spawn(self, name: int, memory: int, sockets: int) -> str | None:
        """Start a worker on the sockets that come with the request; say what went wrong, if it did."""
        _, (connection, *listeners), _, _ = socket.recv_fds(self._control, 1, 1 + sockets)
        if listeners:
            from lab_check.calling import kernel

            kernel.warm_up()
        read, write = os.pipe()
        apart = self._readable is None
        home = _PRIVATE[0] if apart else tempfile.mkdtemp(prefix="lab-worker-")
        worker = confine.fork_apart() if apart else os.fork()
        if worker == 0:
            self._control.close()
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

    def _end(self, name: int, wait: bool) -> int | None:
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
    from lab_check.calling.worker import SocketStream, Worker

    with socket.socket() as nobody:
        worker = Worker(SocketStream(nobody))
        worker._code = InProcess(lambda module, name: torch.softmax)
        for number in range(20):
            given = [torch.randn(3, 4)]
            call = messages.Call(None, "", "", None, [], given, {"dim": -1}, number % 4 == 0)
            messages.pack(worker._answer(messages.unpack(messages.pack(call), messages.Call)))


def main(descriptor: int, readable: list[str] | None) -> None:
    """Become nobody, then warm up, so that what nobody may not read is missed here, and serve."""
    confine.become_nobody()
    if readable is None:
        # In a user namespace of its own it may make those that its workers live in.
        confine.enter_namespaces()
        if first := os.fork():
            os.close(descriptor)
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]))
    warm_up()
    ForkServer(socket.socket(fileno=descriptor), readable).serve()


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), sys.argv[2:] or None)
    except confine.ConfinementError as error:
        sys.exit(str(error))
