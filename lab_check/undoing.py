"""Bringing back what stood in a block before; that, too, can be brought back from."""

from __future__ import annotations

from collections.abc import Callable

from lab_check import cells
from lab_check.exercises import Exercise
from lab_check.workspace import Workspace


def undo(
    workspace: Workspace,
    exercise: Exercise,
    number: int | None,
    say: Callable[[str], object],
    sure: bool = False,
) -> bool:
    """Show what bringing back a version changes, ask, and do it; tells whether that was done."""
    change = cells.plan_undo(workspace, exercise, number)
    file = f"lab_transformer/{exercise.module}.py"
    if not change.difference():
        say(f"{file} holds that version of {exercise.id} already: nothing to do")
        return True
    say(f"{exercise.id} {exercise.title}: in {file}, lines with - go and lines with + come back")
    say(change.difference())
    if not sure and not _agrees():
        say("Nothing was changed.")
        return False
    change.make()
    say(f"Done. `lab undo {exercise.id}` takes it back: every version is in .lab/backups/{exercise.id}")
    return True


def _agrees() -> bool:
    try:
        return input("Do that? [y/n] ").strip().lower() in ("y", "yes")
    except (EOFError, RuntimeError):  # nobody is there to ask; a kernel without a front end says so
        return False


def listing(workspace: Workspace, exercise: Exercise) -> list[str]:
    """List the versions of a block, oldest first."""
    lines = ["0  the stub, as it was released"]
    for number, path in enumerate(cells.versions(workspace, exercise), 1):
        size = len(path.read_text(encoding="utf-8").splitlines())
        lines.append(f"{number}  {cells.when(path)}, {size} lines: {path.relative_to(workspace.root)}")
    return lines
