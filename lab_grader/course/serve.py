"""Serve the built book on this machine."""

from __future__ import annotations

import errno
import sys
import webbrowser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
BOOK = Path(__file__).resolve().parents[2] / "_build" / "html"
PORTS_TRIED = 20


class BookHandler(SimpleHTTPRequestHandler):
    """Serves files without a log line for each, and never a stale page after a rebuild."""

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


def bind(folder: Path, port: int) -> BookServer:
    """Open a server for `folder` on `port`, or on the next free one after it."""
    handler = partial(BookHandler, directory=str(folder))
    for candidate in range(port, min(port + PORTS_TRIED, 65536)):
        try:
            return BookServer((HOST, candidate), handler)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"no free port from {port} on")


def serve(port: int = 8000, open_browser: bool = False, folder: Path = BOOK) -> int:
    """Serve the book until Ctrl-C; return the exit code."""
    if not (folder / "index.html").is_file():
        print("The book is not built yet: run `make book` first.", file=sys.stderr)
        return 2
    try:
        server = bind(folder, port)
    except (OSError, OverflowError) as error:
        print(f"Cannot serve the book ({error}): choose another --port.", file=sys.stderr)
        return 2
    with server:
        address = f"http://{HOST}:{server.server_port}/"
        print(f"The book is at {address} (Ctrl-C stops).", flush=True)
        if open_browser:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0
