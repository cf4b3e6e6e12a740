"""Solutions in source text: where they stand, how they are taken out and put back."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from dataclasses import dataclass
from typing import Any

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
DECLARATION = "#: "
Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Declaration:
    """The ``#:`` lines above a block; lines are counted from 0, ends are exclusive."""

    toml: str
    name: str
    start: int
    block_start: int
    block_end: int

    @functools.cached_property
    def facts(self) -> dict[str, Any]:
        """What is declared."""
        return tomllib.loads(self.toml)

    @property
    def label(self) -> str:
        """Say which exercise this is, as the stub's error does."""
        return f"Exercise {self.facts['id']}: {self.facts['title']}"

    @property
    def comment(self) -> str:
        """The line that stands in a learner's file in place of the declaration."""
        points, minutes = self.facts["points"], self.facts["minutes"]
        return f"# {self.label} ({points} points, about {minutes} minutes)\n"


@functools.lru_cache(maxsize=64)
def declarations(text: str) -> tuple[Declaration, ...]:
    """Find every declared block of a module."""
    lines = text.splitlines(keepends=True)
    found = []
    for node in ast.parse(text).body:
        if not isinstance(node, Definition):
            continue
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
        start = first
        while start and lines[start - 1].startswith(DECLARATION.rstrip()):
            start -= 1
        if start < first:
            toml = "".join(line.removeprefix(DECLARATION) for line in lines[start:first])
            end = node.end_lineno or first
            while end < len(lines) and lines[end].startswith(" "):
                end += 1  # a closing marker is a comment, so the parser's end stops before it
            found.append(Declaration(toml, node.name, start, first, end))
    return tuple(found)


def regions(lines: list[str], start: int, end: int) -> list[tuple[int, int]]:
    """Find the solution regions between two lines, markers included."""
    begins = [i for i in range(start, end) if lines[i].strip() == BEGIN]
    ends = [i + 1 for i in range(start, end) if lines[i].strip() == END]
    if len(begins) != len(ends) or any(a >= b for a, b in zip(begins, ends, strict=False)):
        raise ValueError(f"solution markers do not pair up between the lines {start + 1} and {end}")
    return list(zip(begins, ends, strict=True))


def to_stub(text: str) -> str:
    """Take every solution out of a module; signatures, docstrings and scaffolding stay."""
    lines = text.splitlines(keepends=True)
    for declared in reversed(declarations(text)):
        for begin, end in reversed(regions(lines, declared.block_start, declared.block_end)):
            indent = re.match(r"\s*", lines[begin]).group()  # type: ignore[union-attr]
            lines[begin:end] = [_marker(indent, declared)]
        lines[declared.start : declared.block_start] = [declared.comment]
    return "".join(lines)


# As wide as the book shows a notebook's cell: beyond, the reader has to scroll.
WIDTH = 80


def _marker(indent: str, declared: Declaration) -> str:
    """Write what stands in a stub in place of a solution."""
    label = '"' + declared.label.replace("\\", "\\\\").replace('"', '\\"') + '"'
    line = f"{indent}raise NotImplementedError({label})\n"
    if len(line) <= WIDTH + 1:
        return line
    return f"{indent}raise NotImplementedError(\n{indent}    {label},\n{indent})\n"


def fill(stub: str, text: str) -> str:
    """Put the solutions and declarations of a module back into its stub."""
    original = text.splitlines(keepends=True)
    for declared in declarations(text):
        for begin, end in regions(original, declared.block_start, declared.block_end):
            indent = original[begin][: -len(original[begin].lstrip())]
            stub = stub.replace(_marker(indent, declared), "".join(original[begin:end]), 1)
        facts = "".join(original[declared.start : declared.block_start])
        stub = stub.replace(declared.comment, facts, 1)
    return stub


def solution_lines(text: str) -> list[str]:
    """List every line of code that a learner has to write, one that is broken as a whole."""
    lines = text.splitlines(keepends=True)
    found: list[str] = []
    still_open = 0
    for begin, end in regions(lines, 0, len(lines)):
        for line in filter(None, map(str.strip, lines[begin + 1 : end - 1])):
            found += [line] if not still_open else [f"{found.pop()} {line}"]
            still_open += sum(line.count(sign) for sign in "([{") - sum(map(line.count, ")]}"))
    return found


# Characters of a file; the course's own have half as many. A tree takes some hundred times as much.
LONGEST = 50_000


@functools.lru_cache(maxsize=16)
def _definitions(text: str) -> dict[str, ast.FunctionDef | ast.ClassDef]:
    """Find all definitions of a module; a class hands in the same stubs over and over."""
    return {node.name: node for node in ast.parse(text).body if isinstance(node, Definition)}


def find_block(text: str, name: str) -> ast.FunctionDef | ast.ClassDef | None:
    """Find a block's definition in a module by its name: of several the last, as Python does."""
    find = _definitions if len(text) <= LONGEST else _definitions.__wrapped__
    return find(text).get(name)


def block_text(text: str, name: str) -> str:
    """Cut a block's definition out of a module, as it stands there."""
    block = find_block(text, name)
    if block is None:
        raise ValueError(f"no block {name}")
    first = min([block.lineno, *(decorator.lineno for decorator in block.decorator_list)]) - 1
    return "".join(text.splitlines(keepends=True)[first : block.end_lineno])


def is_untouched(text: str, name: str, stub: str) -> bool:
    """Tell whether a learner's block is still the stub, whatever its comments and layout."""
    block = find_block(text, name)
    return block is not None and ast.unparse(block) == _tidy(stub)


@functools.lru_cache(maxsize=128)
def _tidy(stub: str) -> str:
    return ast.unparse(ast.parse(stub))
