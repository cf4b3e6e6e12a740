"""Chromium, the built book on a server, and what else is looked at."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from gradebooks import begun, filled, out
from workspaces import learner, released

from lab_grader.serve import BOOK, bind

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["begun", "filled", "learner", "out", "released"]

BROWSERS = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    assert (BOOK / "index.html").is_file(), "the book is not built: run `make book` first"
    with bind(BOOK, 9065) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


# Closed after each file: while it is open, nothing else in the process can run an event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; where there is none, a test that needs it fails."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
