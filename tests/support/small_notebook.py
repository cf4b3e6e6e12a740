"""A small notebook of week 6, and packages to run it against."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab_grader.grading.intake.entry import stubs
from lab_grader.grading.model import Limits
from lab_grader.grading.notebooks import stored

ROOT = Path(__file__).resolve().parents[2]
RIGHT = {path.name: path.read_bytes() for path in (ROOT / "lab_transformer").glob("*.py")}
STUBS = stubs()

CAUSAL = "print(masking.causal_mask(2).int().tolist())"
CAPABILITY = "torch.backends.cpu.get_cpu_capability()"
PADDING = "print(masking.padding_mask(torch.tensor([[5, 0]]), 0).int().tolist())"


def package(code: str, files: dict[str, bytes] = RIGHT) -> dict[str, bytes]:
    """Give a package in which some code follows the blocks of `masking`."""
    return files | {"masking.py": files["masking.py"] + f"\n\n{code}\n".encode()}


def _cell(code: str, printed: str = "") -> dict[str, Any]:
    stream = [{"output_type": "stream", "name": "stdout", "text": [printed]}] if printed else []
    return {
        "cell_type": "code", "execution_count": 1, "id": f"cell-{len(code)}", "metadata": {},
        "outputs": stream, "source": code.splitlines(keepends=True),
    }  # fmt: skip


def write(folder: Path, more: Sequence[tuple[str, str]] = ()) -> Path:
    """Write the notebook, with the outputs of the right package.

    More cells, each with a name, have this stored as what PyTorch says of the processor.
    """
    cells = [
        _cell("%load_ext lab_check"),
        _cell("import torch\nfrom lab_transformer import masking"),
        _cell("%%exercise 6.1\ndef causal_mask(length): ...", "a card\n"),
        _cell(CAUSAL, "[[1, 0], [1, 1]]\n"),
        _cell("# NBVAL_IGNORE_OUTPUT\nprint('drawn')", "otherwise\n"),
        _cell("%%exercise 6.2\ndef padding_mask(ids, pad): ...", "another card\n"),
        _cell(PADDING, "[[[[1, 0]]]]\n"),
        *(_cell(f"print({name!r}, {CAPABILITY})", f"{name} {stored}\n") for name, stored in more),
    ]
    path = folder / "06_small.ipynb"
    facts = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(facts), encoding="utf-8")
    return path


def prepared(folder: Path, seconds: float = 60.0, memory: int = 4 * 2**30) -> stored.Notebook:
    return stored.prepare(write(folder), 6, 4.0, Limits(seconds, memory))
