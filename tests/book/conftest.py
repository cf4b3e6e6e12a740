"""The built book on a server, as `lab serve` shows it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab_grader.course.serve import bind

HTML = Path(__file__).resolve().parents[2] / "_build" / "html"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    assert (HTML / "index.html").is_file(), "the book is not built: run `make book` first"
    with bind(HTML, 9065) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
