"""The pictures of the book show what the blocks compute, in the colours of the page."""

import importlib
import re
import sys
from pathlib import Path

import pytest

FIGURES = Path(__file__).parents[2] / "book" / "figures"


def test_drawn_again_every_picture_is_the_one_that_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(FIGURES))
    pictures = importlib.import_module("pictures")
    monkeypatch.delitem(sys.modules, "pictures")
    monkeypatch.delitem(sys.modules, "language")
    pictures.main(tmp_path)
    drawn = sorted(tmp_path.glob("*.svg"))
    assert drawn
    for path in drawn:
        stored = (FIGURES / "drawn" / path.name).read_text(encoding="utf-8")
        assert path.read_text(encoding="utf-8") == stored, f"run book/figures/pictures.py: {path.name}"


def test_a_picture_leaves_its_colours_to_the_page() -> None:
    for path in FIGURES.glob("drawn/*.svg"):
        text = path.read_text(encoding="utf-8")
        if 'class="lab"' in text:
            assert re.findall(r"#[0-9a-fA-F]{3,6}\b|style=| fill=| stroke=", text) == [], path.name
