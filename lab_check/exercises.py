"""What there is to build: every exercise as it is declared beside its block.

A declaration is a run of ``#:`` comment lines above a function or class of `lab_transformer`, and reads
as TOML. A learner's workspace has no solutions to parse, so it carries the same facts in a JSON file.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab_check import served, source
from lab_check.paths import BOOK, RELEASED, TESTS, in_workspace, package_folder


@functools.cache
def topics() -> dict[int, str]:
    """Name what each week is about, as the files of its tests do."""
    found = (re.fullmatch(r"test_week(\d+)_(\w+)", path.stem) for path in TESTS.glob("test_week*.py"))
    return dict(sorted((int(name[1]), name[2]) for name in found if name))


@dataclass(frozen=True)
class Exercise:
    """One building block that a learner completes."""

    id: str
    title: str
    points: int
    difficulty: int
    minutes: int
    needs: tuple[str, ...]
    hints: tuple[str, ...]
    module: str
    name: str
    stub: str

    @property
    def week(self) -> int:
        """The week that the id starts with."""
        return int(self.id.split(".")[0])

    @property
    def block(self) -> str:
        """Where the block lives, as ``attention.softmax``."""
        return f"{self.module}.{self.name}"

    @property
    def page(self) -> str:
        """The place in the book that explains the block."""
        return f"{self.week:02}_{topics()[self.week]}.html#{self.name.lower().replace('_', '-')}"

    @property
    def notebook(self) -> str:
        """The notebook in which the block is built."""
        return f"notebooks/{self.week:02}_{topics()[self.week]}.ipynb"

    @property
    def order(self) -> tuple[int, ...]:
        """The id as numbers: 10.2 comes after 9.1."""
        return tuple(int(part) for part in self.id.split("."))


class UnknownExerciseError(LookupError):
    """Somebody asked for an exercise or a week that is not there."""


@functools.cache
def catalogue() -> dict[str, Exercise]:
    """List all exercises by id, in the order of the course."""
    if in_workspace():
        entries = [_exercise(entry) for entry in _released()["exercises"]]
    else:
        entries = read_exercises(package_folder())
    return {entry.id: entry for entry in sorted(entries, key=lambda entry: entry.order)}


def _exercise(facts: dict[str, Any]) -> Exercise:
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()}
    return Exercise(**fields)


@functools.cache
def _released() -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(RELEASED.read_text(encoding="utf-8"))
    return facts


def section(exercise: Exercise) -> str:
    """Give the title of the book's section that explains a block."""
    if in_workspace():
        return str(_released()["sections"][exercise.id])
    chapter = (BOOK / f"{exercise.week:02}_{topics()[exercise.week]}.md").read_text(encoding="utf-8")
    label = rf"^\({exercise.name}\)=\n(?:\(.*\)=\n)*#+ (.+)$"
    found = re.search(label, chapter, flags=re.M | re.I)
    assert found, f"no section of the book is labelled {exercise.name}"
    return found[1]


def reading(exercise: Exercise) -> str:
    """Say where to read about a block: in the book as published or as served here, or by title."""
    published = str(_released()["book"]) if in_workspace() else ""
    return read_more(exercise, published or served.address(f"book/{exercise.page}"))


def read_more(exercise: Exercise, book: str) -> str:
    """Say where a block is explained: on its page of the book, or in which section.

    `book` is the address of the book's pages, or nothing where there is none.
    """
    if book:
        return f"{book.removesuffix('/')}/{exercise.page}"
    title = f'"{section(exercise)}" in week {exercise.week} of the book'
    return f"{title}, or section {exercise.id} of {exercise.notebook}"


def to_json(exercises: list[Exercise], book: str) -> str:
    """Write exercises and where the book explains them, as a workspace carries them."""
    facts = {
        "book": book,
        "sections": {entry.id: section(entry) for entry in exercises},
        "exercises": [dataclasses.asdict(entry) for entry in exercises],
    }
    return json.dumps(facts, indent=1, ensure_ascii=False)


def read_exercises(package: Path) -> list[Exercise]:
    """Read the declarations in all modules of a package that holds the solutions."""
    return [
        entry
        for path in sorted(package.glob("*.py"))
        for entry in _read_module(path.stem, path.read_text(encoding="utf-8"))
    ]


def _read_module(module: str, text: str) -> list[Exercise]:
    entries = []
    stubbed = source.to_stub(text)
    for declared in source.declarations(text):
        stub = source.block_text(stubbed, declared.name)
        entries.append(
            _exercise(declared.facts | {"module": module, "name": declared.name, "stub": stub})
        )
    return entries


def select(wanted: list[str]) -> list[Exercise]:
    """Find the exercises that ``3`` (a week) or ``3.2`` (an exercise) mean; all when none is named."""
    known = catalogue()
    if not wanted:
        return list(known.values())
    chosen: dict[str, Exercise] = {}
    for word in wanted:
        found = [e for e in known.values() if word in (e.id, str(e.week), e.name, e.block)]
        if not found:
            weeks = sorted({e.week for e in known.values()})
            raise UnknownExerciseError(
                f"there is no exercise {word!r}: name a week ({weeks[0]} to {weeks[-1]}) or an "
                f"exercise such as {next(iter(known))}; `lab exercises` lists them all"
            )
        chosen.update((e.id, e) for e in found)
    return sorted(chosen.values(), key=lambda entry: entry.order)
