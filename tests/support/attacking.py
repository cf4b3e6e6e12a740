"""How a submission that attacks is made."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import torch

from lab_grader.grading.model import Grade
from lab_grader.grading.sandbox.confined import Sandbox

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PACKAGE = {path.name: path.read_bytes() for path in (ROOT / "lab_transformer").glob("*.py")}
SEED = 2**127 + 2017  # too long to be guessed
Judged = Callable[..., Grade]


def attack(file: str, softmax: str) -> dict[str, bytes]:
    """Make a submission of the right package, the text of a file, and another softmax."""
    seed = hashlib.sha256(str(SEED).encode()).hexdigest()
    places = f"\nROOT, JUDGE, SEED = {str(ROOT)!r}, {os.getpid()}, {seed!r}\n"
    text = PACKAGE["attention.py"].decode() + (HERE / file).read_text() + places + softmax
    return PACKAGE | {"attention.py": text.encode()}


def functions(file: str) -> list[str]:
    lines = (HERE / file).read_text().splitlines()
    names = [line.removeprefix("def ").partition("(")[0] for line in lines if line.startswith("def ")]
    return [name for name in names if not name.startswith("_") and name != "ends_as"]


def processes(host: Sandbox) -> int:
    """Count all that descends from the host's first process."""
    assert host._warm is not None
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    family = {host._warm._process.pid}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return len(family)


def traces() -> list[Path]:
    """Find what attacks left behind in the places that they try."""
    places = ["/tmp", "/dev/shm", "/var/tmp", "/", str(ROOT), str(Path(torch.__file__).parent)]
    return [path for place in places for path in Path(place).glob("lab-attack*")]
