"""The weekly notebooks are what their texts and the blocks give, and can be read without scrolling."""

import importlib
import re
import warnings
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest

from lab_check.exercises import catalogue, topics
from lab_grader.notebooks import MAGIC, problems, texts

WIDTH = 80  # what a page of the book shows of a line
NAMES = [path.stem for path in texts([])]


def cells(name: str) -> Any:
    (path,) = [path for path in texts([]) if path.stem == name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nbformat.read(path.with_suffix(".ipynb"), as_version=4).cells


def shown(name: str) -> Iterator[str]:
    """Give what a page shows of a notebook's cells, code and output."""
    for cell in cells(name):
        if cell.cell_type == "code":
            yield cell.source
            for output in cell.outputs:
                data = output.get("data", {})
                if "text/html" not in data:  # a card wraps its lines
                    yield output.get("text") or data.get("text/plain", "")


def test_every_week_has_a_notebook() -> None:
    assert [f"{week:02}_{topic}" for week, topic in topics().items()] == NAMES


def test_no_notebook_is_out_of_step_or_stores_an_error() -> None:
    assert [problem for path in texts([]) for problem in problems(path)] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_line_is_wider_than_the_page(name: str) -> None:
    assert [line for text in shown(name) for line in text.splitlines() if len(line) > WIDTH] == []


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_to_be_in_scope_of_an_exercise_is(name: str) -> None:
    """A paragraph such as "In scope: `torch`." above a cell names what the block's module holds."""
    said, checked = set[str](), 0
    for cell in cells(name):
        if cell.cell_type == "markdown":
            own = [part for part in cell.source.split("\n\n") if part.startswith("In scope")]
            said = {word for part in own for word in re.findall(r"`(\w+)`", part)}
        elif cell.source.startswith(MAGIC):
            exercise = catalogue()[cell.source.split()[1]]
            there = vars(importlib.import_module(f"lab_transformer.{exercise.module}"))
            assert said <= there.keys(), exercise.id
            checked += len(said)
    assert checked > 0
