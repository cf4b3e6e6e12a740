"""The wheel in an environment of its own: everything works, and nothing is written where it lies."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab_check.paths import HOME, package_folder
from lab_check.source import block_text
from lab_grader import wheel

WRONG = """import torch


def softmax(scores, dim=-1):
    return torch.softmax(scores, dim=0)
"""


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel; what else it needs comes from the one that runs the tests."""

    environment: Path
    home: Path

    def run(self, *words: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.environment / "bin" / "lab", *map(str, words)],
            cwd=folder or self.home,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def packages(self) -> Path:
        (found,) = self.environment.glob("lib/python*/site-packages")
        return found

    def state(self) -> dict[str, int]:
        """Sum up all files of ours that are installed; bytecode is Python's own matter."""
        files = (path for path in self.packages.rglob("*") if path.is_file() and path.suffix != ".pyc")
        return {str(path): path.stat().st_mtime_ns for path in files}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build it, and install it into a new environment."""
    folder = tmp_path_factory.mktemp("wheel")
    built = wheel.build(folder)
    found = Installed(folder / "environment", folder / "home")
    found.home.mkdir()
    venv.create(found.environment, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", found.environment / "bin" / "python", "install"]
    subprocess.run([*pip, "--quiet", "--no-deps", built], check=True)
    # A line in a file of this kind adds a folder, and nothing of what that folder's own would add.
    (found.packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return found


def test_the_recordings_in_the_wheel_are_of_its_own_sources(installed: Installed) -> None:
    code = (
        "from lab_check.exercises import catalogue; from lab_grader.record import outdated; "
        "print(outdated(list(catalogue().values())))"
    )
    python = installed.environment / "bin" / "python"
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_wheel_carries_all_that_the_course_needs(installed: Installed) -> None:
    there = {path.relative_to(installed.packages).as_posix() for path in installed.packages.rglob("*")}
    assert not (installed.packages / "tests").exists()
    carried = (("tests/exercises", "*.py"), ("notebooks", "*.ipynb"), ("book", "[0-9]*.md"))
    for folder, pattern in carried:
        for path in (HOME / folder).glob(pattern):
            assert f"lab_grader/carried/{folder}/{path.name}" in there
    for package in ("lab_transformer", "lab_check", "lab_grader"):
        for path in (HOME / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert path.relative_to(HOME).as_posix() in there, path


def test_a_course_is_run_from_the_wheel_and_nothing_is_written_into_it(
    installed: Installed, tmp_path: Path
) -> None:
    before = installed.state()
    listed = installed.run("exercises")
    assert listed.returncode == 0, listed.stderr
    assert "Stable softmax" in listed.stdout or "softmax" in listed.stdout
    workspace = tmp_path / "my-transformer"
    released = installed.run("release", workspace, "--weeks", "2")
    assert released.returncode == 0, released.stderr
    _write_wrong_softmax(workspace)
    checked = installed.run("check", "2.2", folder=workspace)
    assert checked.returncode == 1, checked.stderr
    assert "axis" in checked.stdout
    grades = tmp_path / "grades"
    graded = installed.run(
        "grade", HOME / "examples" / "submissions", "--out", grades, "--exercises", "2.2"
    )
    assert graded.returncode == 0, graded.stderr
    assert (grades / "gradebook.csv").read_text().count("\n") > 20
    tried = installed.run("mutants", "2.2")
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert installed.state() == before


def test_what_needs_a_checkout_says_so_in_a_line(installed: Installed) -> None:
    for command in ("notebooks", "record"):
        done = installed.run(command)
        assert done.returncode == 2
        assert done.stderr == (
            f"lab: an installed course is not written to: run `lab {command}` in a checkout\n"
        )
    done = installed.run("serve")
    assert done.returncode == 2
    assert done.stderr.startswith("An installed course has no book in it: ")


def _write_wrong_softmax(workspace: Path) -> None:
    path = workspace / "lab_transformer" / "attention.py"
    text = path.read_text()
    stub = block_text(text, "softmax")
    path.write_text(text.replace(stub, block_text(WRONG, "softmax")))


def test_an_installed_wheel_can_be_packed_again(installed: Installed, tmp_path: Path) -> None:
    code = "from pathlib import Path; from lab_grader import wheel; print(wheel.build(Path('.')).name)"
    python = installed.environment / "bin" / "python"
    done = subprocess.run(
        [python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    again = tmp_path / done.stdout.strip()
    with zipfile.ZipFile(again) as archive:
        names = set(archive.namelist())
    for path in package_folder().glob("*.py"):
        assert f"lab_transformer/{path.name}" in names
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path / "new"]
    subprocess.run([*pip, again], check=True)
    assert (tmp_path / "new" / "lab_grader" / "carried" / "requirements.txt").is_file()
