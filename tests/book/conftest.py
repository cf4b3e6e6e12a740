"""The built book on a server, as `lab serve` shows it."""

import threading
from collections.abc import Iterator

import pytest

from lab_grader.serve import BOOK, bind


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    assert (BOOK / "index.html").is_file(), "the book is not built: run `make book` first"
    with bind(BOOK, 9065) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
