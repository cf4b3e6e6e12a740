"""The folder a learner works in: their package, and a little memory beside it."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab_grader import source
from lab_grader.errors import UserError
from lab_grader.exercises import RELEASED, Exercise, in_workspace, package_folder


@dataclass(frozen=True)
class Workspace:
    """A folder with a `lab_transformer` package in it."""

    root: Path

    @property
    def package(self) -> Path:
        """The folder of the building blocks."""
        return self.root / "lab_transformer"

    @property
    def memory(self) -> Path:
        """The folder for what is remembered between runs; it can be deleted at any time."""
        return self.root / ".lab"

    def path(self, exercise: Exercise) -> Path:
        """The file in which an exercise is written."""
        return self.package / f"{exercise.module}.py"

    def is_started(self, exercise: Exercise) -> bool:
        """Tell whether a block is more than its stub; one that cannot be read has been touched."""
        try:
            text = self.path(exercise).read_text(encoding="utf-8")
            return not source.is_untouched(text, exercise.name, exercise.stub)
        except (OSError, SyntaxError, UnicodeDecodeError):
            return True

    def digest(self) -> str:
        """Sum up the package: it changes when any of its files does."""
        hashed = hashlib.sha256()
        for path in sorted(self.package.glob("*.py")):
            content = path.read_bytes()
            hashed.update(f"{path.name} {len(content)} ".encode() + content)
        return hashed.hexdigest()

    def recall(self, name: str) -> dict[str, Any]:
        """Read what was remembered under a name; nothing when that is missing or damaged."""
        try:
            remembered = json.loads((self.memory / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return remembered if isinstance(remembered, dict) else {}

    def remember(self, name: str, facts: dict[str, Any]) -> None:
        """Keep facts under a name; a reader sees the old ones or the new ones, never half of them."""
        self.memory.mkdir(exist_ok=True)
        path = self.memory / f"{name}.json"
        fresh = path.with_suffix(f".{os.getpid()}.new")
        fresh.write_text(json.dumps(facts, indent=1), encoding="utf-8")
        fresh.replace(path)

    def next_hint(self, exercise: Exercise) -> tuple[int, str]:
        """Give the next hint of an exercise's ladder and remember how far it went; the last repeats."""
        taken = self.recall("hints")
        rung = min(int(taken.get(exercise.id, 0)), len(exercise.hints) - 1)
        self.remember("hints", taken | {exercise.id: rung + 1})
        return rung + 1, exercise.hints[rung]


def current() -> Workspace:
    """Find the workspace whose `lab_transformer` Python imports."""
    root = package_folder().resolve().parent
    if in_workspace() and root != RELEASED.resolve().parents[1]:
        raise UserError(
            f"Python finds lab_transformer in {root}, not in this workspace: start from "
            f"{RELEASED.parents[1]}, or install it with `pip install -e .`"
        )
    return Workspace(root)
