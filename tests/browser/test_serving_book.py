"""The built book as `lab serve` serves it."""

import contextlib
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

from lab_check.exercises import catalogue
from lab_check.paths import HOME
from lab_grader.serve import BOOK


@contextlib.contextmanager
def served(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Run `lab serve`; a test that fails does not wait for it."""
    command = [sys.executable, "-m", "lab_grader", "serve", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HOME) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_served_book_answers_and_stops_on_ctrl_c() -> None:
    with served("--port", "8865") as process:
        assert process.stdout is not None
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address
        with urllib.request.urlopen(address.group()) as page:
            assert b"Lab Transformer" in page.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0


def test_the_book_has_the_place_that_explains_each_exercise() -> None:
    places = [exercise.page.partition("#") for exercise in catalogue().values()]
    missing = [
        f"{page}#{place}"
        for page, _, place in places
        if f'id="{place}"' not in (BOOK / "book" / page).read_text()
    ]
    assert missing == []
