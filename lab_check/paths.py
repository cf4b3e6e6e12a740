"""Where things lie, in the three homes of this code: a checkout, a learner's workspace, a wheel."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

CHECK = Path(__file__).absolute().parent
HOME = CHECK.parent  # the folder of the packages
# What only a workspace has.
RELEASED = CHECK / "exercises.json"
RECORDINGS = CHECK / "recordings"
# A wheel carries what lies beside the packages in a checkout.
_CARRIED = HOME / "lab_grader" / "carried"
COURSE = _CARRIED if _CARRIED.is_dir() else HOME
TESTS = COURSE / "tests" / "exercises"
NOTEBOOKS = COURSE / "notebooks"
BOOK = COURSE / "book"
REQUIREMENTS = COURSE / "requirements.txt"
# Workspaces of the first edition have the check under another name.
_CHECKERS = (CHECK.name, "lab_grader")


def in_workspace() -> bool:
    """Tell a learner's workspace, which has recordings, from the course's own source."""
    return RELEASED.exists()


def checker_in(folder: Path) -> str | None:
    """Name the package that checks in a workspace; None for a folder that is none."""
    return next((name for name in _CHECKERS if (folder / name / RELEASED.name).is_file()), None)


def workspace_around(folder: Path) -> Path | None:
    """Find the nearest folder, from this one upwards, that a release made."""
    return next((one for one in (folder, *folder.parents) if checker_in(one)), None)


def foreign_workspace() -> Path | None:
    """Find the workspace around the current folder, if its check is another one than this."""
    root = workspace_around(Path.cwd())
    return root if root is not None and root.resolve() != HOME.resolve() else None


def package_folder() -> Path:
    """Find the `lab_transformer` that Python would import, without importing it."""
    spec = importlib.util.find_spec("lab_transformer")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("no lab_transformer package is on Python's path")
    return Path(spec.submodule_search_locations[0])


def cache() -> Path:
    """Give the folder for what can be made again; where the packages are installed is not ours."""
    if COURSE == HOME:
        return HOME / "_build"
    return user_cache()


def user_cache() -> Path:
    """Give the folder of this user for what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lab-transformer"
