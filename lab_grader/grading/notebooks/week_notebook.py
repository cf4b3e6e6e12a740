"""The week's notebook as part of the grade: the course's own, run against the learner's package.

The kernel is in the sandbox; what its cells print is compared outside, by nbval. Exercise cells are
left out: their blocks are graded by the tests. What remains are experiments, which print what the
learner's blocks compute. The outputs of the course are public, and a kernel can print whatever its
owner likes. So a cell that agrees earns no larger share than the exercise above it earned on hidden
inputs.
"""

from __future__ import annotations

import functools
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lab_check.calling import messages
from lab_check.paths import package_folder
from lab_grader.grading.judging.remote import Line, WorkerLost, printable
from lab_grader.grading.model import (
    NOTEBOOK_CELLS,
    NOTEBOOK_FACTS,
    Grade,
    HandedIn,
)
from lab_grader.grading.notebooks.stored import Notebook, entered
from lab_grader.grading.sandbox.process import Host
from lab_grader.grading.sandbox.warm import ROOT

_START_SECONDS = 60.0  # for starting on a busy machine


def grade(submission: HandedIn, notebook: Notebook, grades: list[Grade], host: Host) -> Grade:
    """Run a notebook against a submission whose exercises of the week have these grades."""
    own = [grade for grade in grades if grade.week == notebook.week]
    shares = {grade.exercise: grade.points / grade.max_points for grade in own if grade.max_points}
    entry = functools.partial(entered, submission, notebook, host.level)
    if not any(shares.values()):
        started = any(grade.status != "not_started" for grade in own)
        said = "The notebook was not run: no exercise that it shows at work has points yet."
        return entry("waiting" if started else "not_started", said)
    start = time.monotonic()
    found, lost = _run(notebook, submission.files, host)
    seconds = time.monotonic() - start
    return _marked(entry, notebook, found, lost, shares, seconds)


def _marked(
    entry: functools.partial[Grade],
    notebook: Notebook,
    found: dict[int, str],
    lost: WorkerLost | None,
    shares: dict[str, float],
    seconds: float,
) -> Grade:
    """Turn what became of the cells into points and words; an empty text is a cell that agrees."""
    passed, failed, lines, earned = [], [], [], 0.0
    for cell in notebook.cells:
        said = found.get(cell.number, "it was not reached")
        share = shares.get(cell.exercise, 0.0)
        if not said and share:
            passed.append(cell.label)
            earned += share
            part = "" if share == 1 else f" ({share:.0%}, as exercise {cell.exercise})"
            lines.append(f"✓ {cell.label}{part}")
        else:
            failed.append(cell.label)
            said = said or f"it agrees, and counts when exercise {cell.exercise} has points"
            lines.append(f"✗ {cell.label}\n  {said}")
    points = round(notebook.points * earned / len(notebook.cells), 2) if notebook.cells else 0.0
    status = "wrong"
    if not failed and all(shares[cell.exercise] == 1 for cell in notebook.cells):
        status = "right"
    elif lost is not None and not passed:
        status = lost.status
    diagnosis = None
    if failed:
        first = next(line for line in lines if line.startswith("✗")).removeprefix("✗ ")
        reason = f"{lost}\n" if lost is not None else ""
        said = f"{reason}{len(failed)} of {len(notebook.cells)} cells do not agree. The first: {first}"
        diagnosis = {"name": "notebook", "message": said}
    return entry(status, "\n".join(lines), points, passed, failed, diagnosis, seconds)


def _run(
    notebook: Notebook, files: dict[str, bytes], host: Host
) -> tuple[dict[int, str], WorkerLost | None]:
    """Run all cells; give what is to be said of each, and why the kernel was lost if it was."""
    with tempfile.TemporaryDirectory(prefix="lab-notebook-") as name:
        folder = Path(name)
        (folder / "notebook.ipynb").write_text(notebook.text, encoding="utf-8")
        listeners = [_listen(folder / f"kernel-{number}") for number in range(1, 5)]
        line = host.line(files | stored_weights(), notebook.limits, listeners)
        try:
            key = secrets.token_hex(16)
            stream = line.open(time.monotonic() + _START_SECONDS)
            messages.send(stream, messages.Key(key))
            for listener in listeners:
                listener.close()  # only the kernel takes calls: where it is gone, nobody does
            why = _validate(folder, line, key, notebook.limits.seconds)
            return _read(folder / NOTEBOOK_CELLS, line, why)
        except WorkerLost as lost:
            return {}, lost
        finally:
            line.close()
            for listener in listeners:
                listener.close()


def stored_weights() -> dict[str, bytes]:
    """Give the trained weights that the course's package carries: no learner has others."""
    return {path.name: path.read_bytes() for path in package_folder().glob("*.safetensors")}


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(8)
    return listener


def _validate(folder: Path, line: Line, key: str, seconds: float) -> str:
    """Let nbval talk to the kernel, in a process of its own; say what went wrong with that."""
    facts = {
        "address": str(folder / "kernel"), "key": key, "end": line.fileno(), "seconds": seconds,
        "patience": _START_SECONDS,
    }  # fmt: skip
    words = ["--nbval", "-p", "nbval.plugin", "-p", "lab_grader.grading.notebooks.compare", "-q"]
    words += ["-p", "no:cacheprovider", "--noconftest", "-c", "/dev/null", "--rootdir", "."]
    words += ["--nbval-cell-timeout", str(seconds + 1), "notebook.ipynb"]
    environment = os.environ | {
        NOTEBOOK_FACTS: json.dumps(facts),
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words], cwd=folder, env=environment,
            pass_fds=[line.fileno()], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=seconds + 2 * _START_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "timeout"
    # pytest: 0 all passed, 1 some failed, anything else is no result
    return "" if done.returncode in (0, 1) else done.stdout[-500:] + done.stderr[-500:]


_REASONS = {
    "timeout": WorkerLost("timeout", "the notebook took too long: is there a loop that never ends?"),
    "flood": WorkerLost("crashed", "the notebook printed more than a notebook can hold"),
}


def _read(path: Path, line: Line, why: str) -> tuple[dict[int, str], WorkerLost | None]:
    facts: list[dict[str, Any]] = []
    if path.exists():
        # The last line may be half of one, where the process that wrote it was ended.
        rows = path.read_text(encoding="utf-8").split("\n")[:-1]
        facts = [json.loads(row) for row in rows]
    lost = next((row["lost"] for row in facts if row["lost"]), "timeout" if why == "timeout" else "")
    end = None
    if lost:
        end = _REASONS[lost] if lost in _REASONS else line.fate()
    elif why:
        end = WorkerLost("crashed", "what the notebook's kernel sent could not be read")
    found = {row["cell"]: "" if row["passed"] else printable(row["said"]) for row in facts}
    for row in facts:
        if row["lost"]:
            found[row["cell"]] = str(end)
    return found, end
