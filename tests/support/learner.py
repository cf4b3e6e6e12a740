"""Someone who works in a released workspace: writes blocks, makes mistakes, asks in a terminal."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from lab_check import source
from lab_check.exercises import catalogue
from lab_check.paths import package_folder

# Read while this process is the course's: a child that enters a workspace knows stubs only.
EXERCISES = catalogue()
REFERENCE = package_folder()


def solution(id: str) -> str:
    """The block of an exercise, finished, without its markers."""
    text = (REFERENCE / f"{EXERCISES[id].module}.py").read_text()
    lines = source.block_text(text, EXERCISES[id].name).splitlines(keepends=True)
    return "".join(line for line in lines if line.strip() not in (source.BEGIN, source.END))


@dataclass
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str


@dataclass
class Learner:
    """A workspace and the person in front of it."""

    root: Path

    def file(self, id: str) -> Path:
        return self.root / "lab_transformer" / f"{EXERCISES[id].module}.py"

    def write(self, id: str, code: str) -> None:
        """Replace a block in its file."""
        path = self.file(id)
        text = path.read_text()
        path.write_text(text.replace(source.block_text(text, EXERCISES[id].name), code))

    def body(self, id: str, *lines: str) -> None:
        """Write these lines where the stub raises."""

        def written(raises: re.Match[str]) -> str:
            return "\n".join(raises[1] + line for line in lines)

        raising = re.compile(r'^( *)raise NotImplementedError\(\s*".*",?\s*\)$', re.MULTILINE)
        self.write(id, raising.sub(written, EXERCISES[id].stub))

    def solve(self, *ids: str) -> None:
        for id in ids:
            self.write(id, solution(id))

    def mistake(self, id: str, right: str, wrong: str) -> None:
        """Write the solution of an exercise with a slip in it."""
        assert right in solution(id)
        self.write(id, solution(id).replace(right, wrong))

    def lab(self, *words: str) -> Answer:
        """Run the `lab` command of the workspace, in a fork that has torch already."""
        return in_fork(lambda: _lab(self.root, words))


def _lab(root: Path, words: tuple[str, ...]) -> int:
    enter(root)
    from lab_check import cli

    assert Path(cli.__file__).is_relative_to(root)
    return cli.main(words)


def enter(root: Path) -> None:
    """Become a process that was started in a workspace."""
    os.chdir(root)
    sys.path.insert(0, str(root))
    for name in [
        n for n in sys.modules if n.startswith(("lab_check", "lab_grader", "lab_transformer"))
    ]:
        del sys.modules[name]


def in_fork(run: Callable[[], int]) -> Answer:
    """Run a function in a child process; what it prints and its exit code come back."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
        if pid == 0:
            _run_and_end(run, (out.fileno(), err.fileno()))
        status = os.waitpid(pid, 0)[1]
        words = [file.seek(0) or file.read().decode() for file in (out, err)]
    return Answer(os.waitstatus_to_exitcode(status), *words)


def _run_and_end(run: Callable[[], int], files: tuple[int, int]) -> NoReturn:
    code = 70
    try:
        for number, file in enumerate(files, start=1):
            os.dup2(file, number)
        sys.stdin = io.StringIO()  # nobody answers
        sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(n, "wb", closefd=False)) for n in (1, 2))
        try:
            code = run()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
