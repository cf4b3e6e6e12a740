"""The untrusted side of a notebook: a Jupyter kernel that can reach nobody but the judge.

It opens no socket. The judge listens on sockets of its own, and gives them to the kernel, which only
takes the calls that come in on them.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import zmq
from ipykernel.iostream import IOPubThread
from ipykernel.kernelapp import IPKernelApp
from traitlets.config import Config

# The channels of a kernel, in the order in which their sockets are handed over.
CHANNELS = ("shell", "iopub", "stdin", "control")
# What a kernel does beyond what a worker does: take calls, and wake its own threads.
SYSTEM_CALLS = ("accept", "accept4", "socketpair")
IGNORED = ("sched_setscheduler",)  # ZeroMQ gives up if a thread cannot be made what it is already


class GivenSockets(IPKernelApp):
    """A kernel on sockets that somebody else opened."""

    listeners: list[int]

    def _try_bind_socket(self, s: zmq.Socket[bytes], port: int) -> int:
        if port != self.shell_port:
            self._take(s, port)
        return port

    def _take(self, s: zmq.Socket[bytes], port: int) -> None:
        s.setsockopt(zmq.USE_FD, self.listeners[port - 1])
        s.bind(f"ipc://given-{port}")

    def init_iopub(self, context: zmq.Context[Any]) -> None:
        """Publish without the pipe that takes what child processes print: there are none."""
        # Late, because the debugger would call a shell that has an address.
        self._take(self.shell_socket, self.shell_port)
        publisher = context.socket(zmq.XPUB)
        self._take(publisher, self.iopub_port)
        self.iopub_thread = IOPubThread(publisher, session=self.session)
        self.iopub_thread.start()
        self.iopub_socket = self.iopub_thread.background_socket

    def init_connection_file(self) -> None:
        """Need no file: everything is known."""

    def write_connection_file(self, **_: Any) -> None:
        """Write none."""

    def init_heartbeat(self) -> None:
        """Need none: the judge sees when the process ends."""


def serve(listeners: list[int], key: str) -> None:
    """Run a kernel on listening sockets until it is ended from outside."""
    settled = Path(".ipython/profile_default/startup/README").absolute()
    settled.parent.mkdir(parents=True, exist_ok=True)
    settled.touch()  # or IPython would copy its own, with a mode that it may not set
    os.environ["IPYTHONDIR"] = str(settled.parents[2])
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    settings = Config()
    settings.HistoryManager.enabled = False
    settings.Session.key = key.encode()
    app = GivenSockets.instance(config=settings, transport="ipc", ip="given", log_level=50)
    app.listeners = listeners
    for port, name in enumerate(CHANNELS, 1):
        setattr(app, f"{name}_port", port)
    app.initialize([])
    app.start()


def warm_up() -> None:
    """Import what notebooks import, so that forks have it."""
    os.environ.setdefault("MPLCONFIGDIR", tempfile.gettempdir())
    import matplotlib.pyplot  # noqa: F401


if __name__ == "__main__":
    serve([int(word) for word in sys.argv[2:]], sys.argv[1])
