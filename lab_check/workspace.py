"""The folder a learner works in: their package, and a little memory beside it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab_check import source
from lab_check.errors import UserError
from lab_check.exercises import Exercise
from lab_check.files import write_whole
from lab_check.paths import HOME, in_workspace, package_folder, workspace_around


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
        """The folder for what is remembered between runs, and for every version of every block."""
        return self.root / ".lab"

    @property
    def is_course(self) -> bool:
        """Whether it is the course's own checkout, with all blocks finished and nobody's work in it."""
        return workspace_around(self.root) != self.root

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
        if self.is_course:
            return
        self.memory.mkdir(exist_ok=True)
        write_whole(self.memory / f"{name}.json", json.dumps(facts, indent=1))

    def hints_seen(self, exercise: Exercise) -> list[str]:
        """Give the hints of an exercise that were asked for so far."""
        return list(exercise.hints[: int(self.recall("hints").get(exercise.id, 0))])

    def next_hint(self, exercise: Exercise) -> list[str]:
        """Climb one rung of an exercise's ladder of hints; gives all that were asked for so far."""
        rung = min(len(self.hints_seen(exercise)) + 1, len(exercise.hints))
        self.remember("hints", self.recall("hints") | {exercise.id: rung})
        return self.hints_seen(exercise)


def current() -> Workspace:
    """Find the workspace that the current folder is in; outside of one, say how to get into one."""
    root = workspace_around(Path.cwd())
    if root is None and in_workspace():
        raise UserError(f"this folder is in no workspace: yours is {HOME}, so `cd {HOME}` first")
    if root is None:
        raise UserError(
            "this folder is in no workspace: `lab release ~/my-transformer` makes one to work in, and "
            "`cd ~/my-transformer` leads there"
        )
    found = package_folder().resolve().parent
    if found != root.resolve():
        raise UserError(
            f"Python finds lab_transformer in {found}, not in this workspace: start from {root}, or "
            "install it with `pip install -e .`"
        )
    return Workspace(root)


def course_checkout() -> Workspace | None:
    """Find the course's own checkout, where the current folder is in it and in no workspace."""
    root = package_folder().resolve().parent
    if in_workspace() or workspace_around(Path.cwd()) or not Path.cwd().resolve().is_relative_to(root):
        return None
    return Workspace(root)
