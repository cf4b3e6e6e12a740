"""The repo as someone meets it who has just cloned it: pins, and the served book."""

import re
from pathlib import Path

import pytest

from lab_grader.serve import bind, serve

ROOT = Path(__file__).resolve().parents[2]


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
