"""Serve the built book on this machine."""

from __future__ import annotations

import contextlib
import errno
import html
import io
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any

from lab_check import served
from lab_check.errors import UserError
from lab_check.paths import COURSE, HOME, cache, workspace_around

HOST = served.HOST
BOOK = cache() / "html"
PORTS_TRIED = 20


class BookHandler(SimpleHTTPRequestHandler):
    """Serves files without a log line for each, and never a stale page after a rebuild."""

    def __init__(self, *args: Any, lab: str | None = None, **kwargs: Any) -> None:
        self._lab = lab
        super().__init__(*args, **kwargs)

    def send_head(self) -> Any:
        """Tell a page where JupyterLab runs, if it does."""
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() and self.path.endswith("/") else path
        if self._lab is None or path.suffix != ".html" or not path.is_file():
            return super().send_head()
        meta = f'<meta name="lab" content="{html.escape(self._lab)}">'
        page = path.read_bytes().replace(b"</head>", f"{meta}</head>".encode(), 1)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        return io.BytesIO(page)

    def end_headers(self) -> None:
        """Ask the browser to check for a newer page each time."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal for the address and for errors."""


class BookServer(ThreadingHTTPServer):
    """A server that refuses a port which another one holds."""

    daemon_threads = True
    # On Windows, reusing an address would share the port with the other server.
    allow_reuse_address = sys.platform != "win32"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a reader who left before the page was sent."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def bind(folder: Path, port: int, lab: str | None = None) -> BookServer:
    """Open a server for `folder` on `port`, or on the next free one after it.

    `lab` is the address of a notebook in JupyterLab, with NOTEBOOK in the place of its path.
    """
    handler = partial(BookHandler, directory=str(folder), lab=lab)
    for candidate in range(port, min(port + PORTS_TRIED, 65536)):
        try:
            return BookServer((HOST, candidate), handler)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"no free port from {port} on")


@contextlib.contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """Run JupyterLab on a workspace; gives the address of its notebooks, and stops it at the end."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    token = secrets.token_urlsafe(24)
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", f"--ServerApp.root_dir={folder}"]
    command += [f"--ServerApp.ip={HOST}", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--ServerApp.allow_root=True")
    # The token travels in the environment: a command line is for everyone to see. So does the path, by
    # which notebooks and terminals find the workspace's packages before the course's own.
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"JUPYTER_TOKEN": token, "PYTHONPATH": os.pathsep.join(paths)}
    # Its own session, so that Ctrl-C reaches this process first and JupyterLab is stopped in order.
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _await(process, port)
        yield f"http://{HOST}:{port}/lab/tree/NOTEBOOK?token={token}"
    finally:
        process.terminate()
        process.wait()


def _await(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until JupyterLab answers."""
    while process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return
        time.sleep(0.1)
    raise UserError(
        "JupyterLab ended at once: `jupyter lab` in this folder says why, and "
        "`pip install -r requirements.txt` brings it"
    )


def workspace_at(folder: Path) -> Path:
    """Find the workspace at a folder, or make one where there is nothing yet."""
    root = workspace_around(folder.absolute())
    if root is not None:
        return root
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(
            f"{folder} is no workspace, and not empty: name a workspace, or a folder to make one in, "
            "as in `lab serve --lab ~/my-transformer`"
        )
    from lab_grader.release import release

    print(f"There is no workspace in {folder} yet, so one is made. That may take minutes.", flush=True)
    release(folder)
    return folder.absolute()


def _stop(number: int, frame: FrameType | None) -> None:
    """Take the end of a session like Ctrl-C, so that JupyterLab ends, too."""
    raise KeyboardInterrupt


def serve(
    port: int = 8000, open_browser: bool = False, folder: Path = BOOK, workspace: Path | None = None
) -> int:
    """Serve the book until Ctrl-C, with JupyterLab on a workspace beside it; return the exit code."""
    if not (folder / "index.html").is_file():
        if COURSE == HOME:
            print("The book is not built yet: run `make book` first.", file=sys.stderr)
        else:
            print(
                "An installed course has no book in it: read it where your course publishes it, or run "
                "`make serve` in a checkout.",
                file=sys.stderr,
            )
        return 2
    root = None if workspace is None else workspace_at(workspace)
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _stop)
    with jupyterlab(root) if root else contextlib.nullcontext() as notebooks:
        try:
            server = bind(folder, port, notebooks)
        except (OSError, OverflowError) as error:
            print(f"Cannot serve the book ({error}): choose another --port.", file=sys.stderr)
            return 2
        with server, served.noted(server.server_port):
            address = f"http://{HOST}:{server.server_port}/"
            print(f"The book is at {address} (Ctrl-C stops).", flush=True)
            if notebooks:
                lab = notebooks.replace("/tree/NOTEBOOK", "")
                print(f"JupyterLab is at {lab} and works in {root}.", flush=True)
            if open_browser:
                webbrowser.open(address)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                print()
    return 0
