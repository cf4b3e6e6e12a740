"""The warm process of a sandbox: what it is confined in, and what it sees.

`full` starts it in bubblewrap, with nothing in it but Python and what a worker needs of ours; every
worker is forked from it into namespaces of its own. `reduced` does without namespaces: Landlock keeps
workers from files, the filter of system calls from everything else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab_check import calling
from lab_check.calling import SCRATCH
from lab_check.errors import UserError
from lab_check.paths import CHECK, HOME
from lab_grader.grading.model import rounding

ROOT = HOME.resolve()
# All that a worker needs of ours, and all that it gets to see.
_NEEDED = [f"{CHECK.name}/__init__.py", f"{CHECK.name}/{Path(calling.__path__[0]).name}"]
_LIBRARIES = ["/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache"]
_DEVICES = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"]
_CODE = "/lab"


class WarmProcess:
    """A fork server in its confinement: started at once, ready some seconds later."""

    def __init__(self, level: str) -> None:
        self.folder = tempfile.mkdtemp(prefix="lab-sandbox-")  # which nobody else may enter
        self.address = f"{self.folder}/judges"
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        self._life, theirs = socket.socketpair()
        code = _CODE if level == "full" else str(ROOT)
        try:
            with theirs, socket.socket(socket.AF_UNIX) as judges:
                with short(self.address) as address:
                    judges.bind(address)
                judges.listen()
                given = [judges.fileno(), theirs.fileno()]
                self._process = subprocess.Popen(
                    _in_bubblewrap(given) if level == "full" else _landlocked(given),
                    env=rounding()
                    | _ENVIRONMENT
                    | {"PYTHONPATH": os.pathsep.join([code, *_packages()])},
                    cwd="/",
                    pass_fds=given,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._complaints,
                    start_new_session=True,
                )
        except BaseException:
            self._forget()
            raise

    def complaint(self) -> str:
        """Give the last of what it said before it ended."""
        self._complaints.seek(0)
        said = self._complaints.read().decode(errors="replace").strip().splitlines()
        return said[-1] if said else "the warm process did not start"

    def close(self) -> None:
        """End it, and all workers with it."""
        self._life.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._forget()

    def _forget(self) -> None:
        self._life.close()
        self._complaints.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def short(address: str) -> Iterator[str]:
    """Give an address that is short enough for a socket, however long the way to its folder is."""
    folder = os.open(Path(address).parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{Path(address).name}"
    finally:
        os.close(folder)


_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def _packages() -> list[str]:
    """List the folders of installed packages: of the environment, the system, the user."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


def _python() -> list[str]:
    """List the folders that hold this interpreter and its packages."""
    stdlib = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    return sorted({sys.prefix, sys.base_prefix, sys.base_exec_prefix, *stdlib, *_packages()})


def _landlocked(given: list[int]) -> list[str]:
    readable = [*_python(), *_LIBRARIES, *_DEVICES, *(str(ROOT / name) for name in _NEEDED)]
    if os.getuid() == 0:
        for folder in (folder for path in _python() for folder in Path(path).parents):
            if not folder.stat().st_mode & 0o001:
                raise UserError(
                    f"reduced isolation runs as nobody, who cannot reach Python through {folder}: "
                    f"grade as another user than root, or with --isolation full"
                )
    there = [path for path in readable if Path(path).exists()]
    return [sys.executable, "-m", "lab_check.calling.forkserver", *map(str, given), *there]


def _in_bubblewrap(given: list[int]) -> list[str]:
    program = shutil.which("bwrap")
    if program is None:
        raise UserError(
            "full isolation needs bubblewrap: install the package `bubblewrap` (`make system`)"
        )
    command = [program, "--die-with-parent", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    if os.getuid() == 0:
        # Really nobody, not root under another name: the warm process gives up root itself.
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user"]
    steps = {path: ["--ro-bind-try", path, path] for path in (*_python(), *_LIBRARIES)}
    # An installed package lies among Python's own; the bank and the solutions must not be seen.
    for package in ("lab_check", "lab_grader", "lab_transformer"):
        steps[str(ROOT / package)] = ["--tmpfs", str(ROOT / package)]
    steps |= {path: ["--dev-bind", path, path] for path in _DEVICES}
    for name in _NEEDED:
        steps[f"{_CODE}/{name}"] = ["--ro-bind", str(ROOT / name), f"{_CODE}/{name}"]
    # Workers have a scratch of their own; this one is for what the warm process imports. Not /tmp,
    # where Python itself may lie.
    if not any(Path("/tmp") in Path(path).parents for path in steps):
        steps["/tmp"] = ["--symlink", SCRATCH, "/tmp"]
    steps |= {SCRATCH: ["--perms", "1777", "--tmpfs", SCRATCH], "/dev/shm": []}
    steps["/proc"] = ["--proc", "/proc"]
    # Folders on the way, which bubblewrap would make for their owner only.
    for path in list(steps):
        steps = {str(folder): ["--dir", str(folder)] for folder in Path(path).parents} | steps
    # What lies inside something else comes after it.
    for path in sorted(steps, key=lambda path: Path(path).parts):
        command += steps[path] or ["--dir", path]
    command += ["--setenv", "TMPDIR", SCRATCH, "--remount-ro", "/", "--", sys.executable]
    return [*command, "-m", "lab_check.calling.forkserver", *map(str, given)]
