"""The repo as someone meets it who has just cloned it: pins, the served book, its pages."""

import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from lab_grader.course.serve import bind, serve
from lab_grader.exercises import catalogue

ROOT = Path(__file__).resolve().parents[1]
HTML = ROOT / "_build" / "html"
PAGES = sorted(
    str(page.relative_to(HTML))
    for folder in ("book", "notebooks")
    for page in HTML.glob(f"{folder}/**/*.html")
)


def test_every_requirement_is_pinned_and_the_learners_come_first() -> None:
    groups = re.split(r"^# == (.+) ==$", (ROOT / "requirements.txt").read_text(), flags=re.M)
    assert groups[1::2] == ["what a learner needs", "the book", "tests and checks"]
    assert re.search(r"^torch==", groups[2], flags=re.M)
    lines = [line for text in groups[2::2] for line in text.splitlines()]
    loose = [line for line in lines if line and not re.match(r"#|[\w-]+==[\w.]+$", line)]
    assert loose == []


def test_every_public_module_is_in_the_reference() -> None:
    modules = {path.stem for path in (ROOT / "lab_transformer").glob("[a-z]*.py")}
    text = (ROOT / "book" / "api.md").read_text()
    assert set(re.findall(r"automodule:: lab_transformer\.(\w+)", text)) == modules


def test_serving_a_book_that_is_not_built_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve(folder=tmp_path) == 2
    assert "make book" in capsys.readouterr().err


def test_a_taken_port_gives_way_to_the_next(tmp_path: Path) -> None:
    with bind(tmp_path, 8765) as first, bind(tmp_path, first.server_port) as second:
        assert second.server_port > first.server_port


def test_the_served_book_answers_and_stops_on_ctrl_c() -> None:
    command = [sys.executable, "-m", "lab_grader", "serve", "--port", "8865"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address
        with urllib.request.urlopen(address.group()) as page:
            assert b"Lab Transformer" in page.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with bind(HTML, 8965) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1360])
def test_pages_ask_nobody_else_raise_no_error_and_never_scroll_sideways(
    browser: Browser, address: str, width: int, scheme: str
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    trouble: list[str] = []
    page.on("request", lambda r: r.url.startswith((address, "data:")) or trouble.append(r.url))
    page.on("response", lambda r: r.status < 400 or trouble.append(f"{r.status} {r.url}"))
    page.on("console", lambda m: m.type == "error" and trouble.append(m.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    assert PAGES, "the book is not built: run `make book` first"
    for name in ["index.html", "search.html", *PAGES]:
        page.goto(address + name, wait_until="networkidle")
        root = "document.documentElement"
        if page.evaluate(f"{root}.scrollWidth > {root}.clientWidth"):
            trouble.append(f"{name} scrolls sideways")
    page.close()
    assert trouble == []


def test_the_book_has_the_place_that_explains_each_exercise() -> None:
    page = (HTML / "book" / "api.html").read_text()
    places = [exercise.page.partition("#")[2] for exercise in catalogue().values()]
    assert [place for place in places if f'id="{place}"' not in page] == []
