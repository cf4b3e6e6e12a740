"""The weekly notebooks: texts that are kept in step with the blocks, and run to give them outputs.

The text (`NN_topic.py`, percent format) is what is edited. Its exercise cells are generated from the
blocks. The notebook (`NN_topic.ipynb`) is the text, run from top to bottom.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

from lab_check.exercises import catalogue, select
from lab_check.paths import NOTEBOOKS

MAGIC = "%%exercise "
WIDGET = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def texts(weeks: list[str]) -> list[Path]:
    """Find the texts of some weeks, or of all."""
    numbers = {exercise.week for exercise in select(weeks)}
    return [path for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.py")) if int(path.name[:2]) in numbers]


def in_step(path: Path) -> Any:
    """Read a text, with its exercise cells generated anew from the blocks."""
    notebook = jupytext.read(path, fmt="py:percent")
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:03}"  # a random id would change the file at every run
        first = cell.source.partition("\n")[0]
        if cell.cell_type == "code" and first.startswith(MAGIC):
            exercise = catalogue()[first.removeprefix(MAGIC).strip()]
            cell.source = f"{first}\n{exercise.stub.rstrip()}"
    notebook.metadata["kernelspec"] = KERNEL
    return notebook


def to_text(notebook: Any) -> str:
    """Write a notebook as text."""
    text: str = jupytext.writes(notebook, fmt="py:percent")
    return text


def build(path: Path) -> None:
    """Bring a text in step, run it, and write the notebook beside it."""
    notebook = in_step(path)
    path.write_text(to_text(notebook), encoding="utf-8")
    here = {"metadata": {"path": str(NOTEBOOKS)}}
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources=here, coalesce_streams=True
    ).execute()
    # A control does nothing without its kernel, and its ids are new in every run.
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # the time of day
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
    nbformat.write(notebook, path.with_suffix(".ipynb"))


def problems(path: Path) -> Iterator[str]:
    """Say what is out of step between blocks, text and notebook, and what went wrong when it ran."""
    fresh = in_step(path)
    if path.read_text(encoding="utf-8") != to_text(fresh):
        yield f"{path.name} is not what its blocks give: run `lab notebooks {int(path.name[:2])}`"
    stored = path.with_suffix(".ipynb")
    if not stored.exists():
        yield f"{stored.name} is missing: run `lab notebooks {int(path.name[:2])}`"
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        notebook = nbformat.read(stored, as_version=4)
    ours = [(cell.cell_type, cell.source) for cell in fresh.cells]
    if ours != [(cell.cell_type, cell.source) for cell in notebook.cells]:
        yield f"{stored.name} differs from {path.name}: run `lab notebooks {int(path.name[:2])}`"
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                yield f"{stored.name} stores an error: {output.ename}"
            if output.get("name") == "stderr":
                yield f"{stored.name} stores a warning: {output.text.strip()[:200]}"
    firsts = [cell.source.partition("\n")[0] for cell in fresh.cells]
    asked = [first.removeprefix(MAGIC).strip() for first in firsts if first.startswith(MAGIC)]
    wanted = [exercise.id for exercise in select([str(int(path.name[:2]))])]
    if sorted(asked) != sorted(wanted):
        yield f"{path.name} asks for {asked}, the week has {wanted}"
