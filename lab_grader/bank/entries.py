"""The book of an exercise's mistakes, turns.md: for each its name, its message and its change."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lab_check.errors import UserError

DRAFT = "name-me"  # stands where a name has still to be written
TELL = "Say what was done, why it is wrong and where to look: two or three sentences."
_HEADING = re.compile(r"## ([^\s()]+)( \(frequent\))?")
_WITHOUT = re.compile(r"- without `([^`]+)`: .+")


@dataclass(frozen=True)
class Entry:
    """One mistake as it stands in the book: as a diff, or as a whole block of its own."""

    name: str
    message: str
    frequent: bool
    kind: str
    lines: tuple[str, ...]
    line: int

    @property
    def draft(self) -> bool:
        """Tell whether name or message have still to be written."""
        return self.name.startswith(DRAFT) or self.message == TELL


@dataclass(frozen=True)
class Book:
    """All entries of an exercise, and the slips that do not belong to it."""

    entries: tuple[Entry, ...]
    without: frozenset[str]


def read(path: Path, exercise: str) -> Book:
    """Read the book of an exercise; what is not an entry is refused."""
    lines = path.read_text(encoding="utf-8").splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("## ")]
    heads = [number for number in heads if not _fenced(lines, number)]
    opening = lines[: heads[0]] if heads else lines
    without = [found[1] for line in opening if (found := _WITHOUT.fullmatch(line))]
    entries = [
        _entry(lines[start:end], start + 1, f"{exercise}/{path.name}")
        for start, end in zip(heads, [*heads[1:], len(lines)], strict=True)
    ]
    names = [entry.name for entry in entries]
    for number, entry in enumerate(entries):
        if entry.name in names[:number]:
            raise UserError(f"{exercise}/{path.name}, line {entry.line}: {entry.name} is there twice")
    return Book(tuple(entries), frozenset(without))


def _fenced(lines: list[str], number: int) -> bool:
    return sum(line.startswith("```") for line in lines[:number]) % 2 == 1


def _entry(lines: list[str], number: int, place: str) -> Entry:
    heading = _HEADING.fullmatch(lines[0].rstrip())
    if not heading:
        raise UserError(
            f"{place}, line {number}: a heading is a name, with (frequent) behind it where it is"
        )
    place = f"{place} `{heading[1]}`"
    fences = [at for at, line in enumerate(lines) if line.startswith("```")]
    rest = lines[fences[1] + 1 :] if len(fences) > 1 else []
    if len(fences) != 2 or lines[fences[0]].rstrip() not in ("```diff", "```python") or any(rest):
        raise UserError(f"{place}, line {number}: an entry ends in one block, ```diff or ```python")
    message = " ".join(" ".join(lines[1 : fences[0]]).split())
    if not message:
        raise UserError(f"{place}, line {number}: there is no message to the learner")
    return Entry(
        heading[1],
        message,
        bool(heading[2]),
        lines[fences[0]].rstrip()[3:],
        tuple(lines[fences[0] + 1 : fences[1]]),
        number + fences[0] + 1,
    )
