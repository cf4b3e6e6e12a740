"""No chapter gives an exercise away: not its lines, and not under other names."""

from __future__ import annotations

import ast
import copy
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab_check import source
from lab_check.paths import package_folder

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "book").glob("[0-9]*.md"))
# An expression with less in it (a product of two names, a call of one) is no secret.
_PARTS = (ast.BinOp, ast.Call, ast.Compare, ast.Subscript, ast.Attribute)
_LEAST = 2


class _Renamed(ast.NodeTransformer):
    """Calls names by the order in which they come."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.setdefault(node.id, f"name{len(self._names)}"), ast.Load())


def _forms(code: str) -> Iterator[str]:
    """Give every expression in some code that says something, whatever its names are."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and sum(isinstance(n, _PARTS) for n in ast.walk(node)) >= _LEAST:
            yield ast.unparse(_Renamed().visit(copy.deepcopy(node)))


def _solutions() -> Iterator[str]:
    """Give the statements of all solutions, as the expressions that they compute."""
    for path in package_folder().glob("*.py"):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        secret = {
            number
            for begin, end in source.regions(lines, 0, len(lines))
            for number in range(begin + 1, end + 1)
        }
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Return | ast.Assign | ast.AugAssign) and node.lineno in secret:
                yield ast.unparse(node.value or ast.Constant(None))


@functools.cache
def _secret() -> frozenset[str]:
    return frozenset(next(_forms(value), "") for value in _solutions()) - {""}


def _open_code(text: str) -> Iterator[str]:
    yield from re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`([^`\n]+)`", text)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_no_open_text_gives_a_solution_away(chapter: Path) -> None:
    told = {form for code in _open_code(chapter.read_text(encoding="utf-8")) for form in _forms(code)}
    assert _secret() & told == set()


def test_what_gives_a_solution_away_is_found() -> None:
    assert set(_forms("table @ table.mT")) & _secret()
    assert len(_secret()) > 100
