"""Where `lab serve` has the book right now, so that a check can link to it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

from lab_check.files import write_whole
from lab_check.paths import user_cache

HOST = "127.0.0.1"
_PATIENCE = 0.2  # seconds; a server on this machine answers within milliseconds


def _note() -> Path:
    return user_cache() / "served-at"


@contextlib.contextmanager
def noted(port: int) -> Iterator[None]:
    """Note the port on which the book is served; where no note can be kept, checks give no link."""
    with contextlib.suppress(OSError):
        _note().parent.mkdir(parents=True, exist_ok=True)
        write_whole(_note(), str(port).encode())
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if _note().read_text() == str(port):  # another server may have come since
                _note().unlink()


def address(page: str) -> str:
    """Give where the book's pages are served on this machine; nothing unless `page` is there now.

    A server that was killed leaves its note, and its port to others: so the page itself is asked for.
    """
    try:
        port = int(_note().read_text())
        with socket.create_connection((HOST, port), timeout=_PATIENCE) as server:
            path = page.partition("#")[0]
            server.sendall(f"HEAD /{path} HTTP/1.0\r\n\r\n".encode())
            status = server.recv(64).split()[1:2]
    except (OSError, ValueError, OverflowError):
        return ""
    return f"http://{HOST}:{port}/book/" if status == [b"200"] else ""
