"""Workspaces to work in."""

import shutil
from pathlib import Path

import pytest
from learner import REFERENCE, Learner

import lab_check
from lab_grader.release import release


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first three weeks, released and never touched."""
    folder = tmp_path_factory.mktemp("release") / "my-transformer"
    assert release(folder, "1-3") == 0
    return folder


@pytest.fixture
def learner(released: Path, tmp_path: Path) -> Learner:
    """Somebody with a workspace of their own."""
    return Learner(Path(shutil.copytree(released, tmp_path / "my-transformer")))


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A copy of the course, as if it were installed: no test may reach the real one."""
    for package in (REFERENCE, Path(lab_check.__file__).parent):
        shutil.copytree(package, tmp_path / "course" / package.name)
    return tmp_path / "course"
