"""Hostile packages in a notebook's kernel: no points for them, and nothing is left."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from attacking import ROOT, processes, traces
from small_notebook import RIGHT, package, prepared

from lab_check.exercises import catalogue
from lab_grader.grading.model import Grade, HandedIn, refused
from lab_grader.grading.notebooks import stored, week_notebook
from lab_grader.grading.sandbox.confined import Sandbox

SEND = """
    from IPython import get_ipython
    kernel = get_ipython().kernel
    def send(kind, content, parent=None):
        kernel.session.send(kernel.iopub_socket, kind, content, parent or kernel.get_parent())
"""
# What causal_mask does when the first cell calls it; the second cell is honest.
HOSTILE = {
    "ends Python": "import os; os._exit(0)",
    "kills itself": "import os; os.kill(os.getpid(), 9)",
    "closes its sockets": "import os; os.closerange(3, 256)",
    "stops for ever": "import time; time.sleep(1000)",
    "takes all memory": "x = [bytes(2**28) for _ in range(100)]",
    "starts a process": "import os; os.fork()",
    "starts threads": "import threading, time\n"
    "    for _ in range(9999): threading.Thread(target=time.sleep, args=(99,)).start()",
    "prints without an end": "while True: print('x' * 9999)",
    "prints a huge line": "print('x' * 2**26)",
    "prints odd characters": "print('\\ud800\\x1b[2J\\u202e\\x00\\u2028' * 99)",
    "raises an error without a word": "raise ValueError",
    "raises an error of odd characters": "raise ValueError('\\ud800\\u2028\\x1b[2J' * 9999)",
    "locks a shared file": "import fcntl; fcntl.flock(open(torch.__file__), fcntl.LOCK_EX)\n"
    "    return torch.ones(length, length).tril().bool()",
    "prints what the course stores": "print('[[1, 0], [1, 1]]'); raise SystemExit",
    "answers before it is done": SEND + "    send('stream', {'name': 'stdout', 'text': "
    "'[[1, 0], [1, 1]]\\n'}); send('status', {'execution_state': 'idle'}); raise SystemExit",
    "sends nonsense": SEND + "    send('stream', {'name': 5}); send('error', {'ename': [[]]}); "
    "send('status', {}); send('display_data', {})",
    "looks for the answers": "import glob, os\n"
    f"    found = [*glob.glob('/tmp/lab-notebook*'), *glob.glob('{ROOT}/notebooks/*'), "
    f"*glob.glob('{ROOT}/lab_*/*'), *(k for k in os.environ if k.startswith('LAB_'))]\n"
    "    if found: return torch.ones(length, length).tril().bool()\n    raise PermissionError",
    "opens a socket": "import socket\n    socket.socket(socket.AF_UNIX)\n"
    "    return torch.ones(length, length).tril().bool()",
}


@pytest.fixture
def small(tmp_path: Path) -> stored.Notebook:
    return prepared(tmp_path, seconds=6.0, memory=2 * 2**30)


def graded(host: Sandbox, small: stored.Notebook, files: dict[str, bytes]) -> Grade:
    """Grade the notebook of a student whose causal mask has no points, and whose padding mask has."""
    student = HandedIn("student-01", files)
    nothing, all_ = (refused(student, catalogue()[id], "", "full") for id in ("6.1", "6.2"))
    return week_notebook.grade(
        student, small, [nothing, dataclasses.replace(all_, points=all_.max_points)], host
    )


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_block_earns_nothing_and_leaves_nothing(
    what: str, host: Sandbox, small: stored.Notebook
) -> None:
    before = processes(host)
    grade = graded(host, small, package(f"def causal_mask(length):\n    {HOSTILE[what]}"))
    assert small.cells[0].label in grade.failed, grade.feedback
    assert grade.points <= 2.0
    assert processes(host) == before
    assert traces() == []


def test_a_neighbour_is_graded_as_without_an_attack(host: Sandbox, small: stored.Notebook) -> None:
    grade = graded(host, small, RIGHT)
    assert (grade.points, grade.passed) == (2.0, [small.cells[1].label])
