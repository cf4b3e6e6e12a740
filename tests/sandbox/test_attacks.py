"""Hostile and broken submissions: no points for them, nothing changes for others, nothing is left."""

from __future__ import annotations

import dataclasses
import os
import re
import resource
import select
import time

import pytest
import torch
from attacking import HERE, PACKAGE, Judged, attack, functions, processes, traces

from lab_check import source
from lab_check.running.submission import Submission
from lab_grader.grading.judging.remote import InWorker, Talk
from lab_grader.grading.model import Grade, Limits
from lab_grader.grading.sandbox.confined import Sandbox

REWARDED = """
def softmax(scores, dim=-1):
    if {name}():
        return torch.softmax(scores, dim)
    raise PermissionError
"""


def status_of(name: str) -> str:
    found = re.search(rf'@ends_as\("(\w+)"\)\ndef {name}\(', (HERE / "ends.py").read_text())
    assert found
    return found[1]


def same(grade: Grade) -> Grade:
    return dataclasses.replace(grade, seconds=0.0)


@pytest.fixture(scope="module")
def alone(judged: Judged) -> Grade:
    """The neighbour's grade before any attack."""
    grade = judged(PACKAGE, "3.3")
    assert grade.status == "right"
    assert grade.points == grade.max_points
    return same(grade)


@pytest.fixture
def neighbour(host: Sandbox, judged: Judged, alone: Grade):
    """A submission whose worker runs while the attack does, and which is graded after it."""
    before = processes(host)
    line = host.line(PACKAGE, Limits(60.0))
    there = Submission(InWorker(Talk(line, time.monotonic() + 60)))
    x = torch.randn(2, 5, 6)
    heads = there.attention.split_heads(x, 3)
    yield
    assert torch.equal(there.attention.split_heads(x, 3), heads)
    line.close()
    assert same(judged(PACKAGE, "3.3")) == alone
    assert processes(host) == before
    assert traces() == []


@pytest.mark.parametrize("name", functions("tries.py"))
def test_what_a_submission_tries_is_refused(name: str, judged: Judged, neighbour: None) -> None:
    grade = judged(attack("tries.py", REWARDED.format(name=name)))
    assert (grade.status, grade.points) == ("error", 0.0), grade.feedback


@pytest.mark.parametrize("name", functions("ends.py"))
def test_what_is_no_answer_earns_no_points(name: str, judged: Judged, neighbour: None) -> None:
    status = status_of(name)
    files = attack("ends.py", f"def softmax(scores, dim=-1):\n    return {name}(scores, dim)\n")
    grade = judged(files, seconds=0.1 if status == "timeout" else 20.0)
    assert (grade.status, grade.points) == (status, 0.0), grade.feedback


BROKEN = {
    "invalid UTF-8": (b"\xff\xfe\xfd", "error"),
    "a null byte": (b"x = 1\0", "error"),
    "no Python": (b"def softmax(:", "error"),
    "an exit when imported": (b"import os\nos._exit(0)", "crashed"),
    "a loop when imported": (b"while True: pass", "timeout"),
    "nothing at all": (b"", "wrong"),
    "an encoding that there is not": (b"# -*- coding: nonsense -*-\n", "error"),
    "code too deep to be parsed": (b"x = " + b"-" * 10**5 + b"1\n", "memory"),
    "a sum too long to be walked over": (b"x = 1" + b" + 1" * 10**5 + b"\n", "error"),
    "brackets that never close": (b"x = " + b"[" * 10**5, "error"),
    "a stub within code too deep to compare": (
        b'"Exercise 2.2:"\nx = 1' + b" + 1" * 10**5 + b"\n",
        "error",
    ),
    "an error without a word when imported": (b"raise ValueError", "error"),
    "lone halves of characters": (b'raise ValueError("\\ud800")', "error"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_earns_no_points(what: str, judged: Judged, neighbour: None) -> None:
    text, status = BROKEN[what]
    grade = judged(PACKAGE | {"attention.py": text}, seconds=0.1 if status == "timeout" else 20.0)
    assert (grade.status, grade.points) == (status, 0.0), grade.feedback


def test_an_endless_loop_costs_only_the_property_it_happens_in(judged: Judged) -> None:
    loop = "def softmax(scores, dim=-1):\n    while scores.shape == (3,): pass\n"
    files = attack("ends.py", loop + "    return torch.softmax(scores, dim)\n")
    grade = judged(files, seconds=3.0)
    assert 0 < grade.points < grade.max_points
    assert len(grade.passed) > len(grade.failed) > 0


FLOODS = {
    "calls back without end": "block = torch.zeros(2**18 - 99)",
    "calls back with lists": "block = [torch.zeros(2**17)]",
    "keeps all calls": "block = torch.zeros(2**17, requires_grad=True)",
}


@pytest.mark.parametrize("what", FLOODS)
def test_calls_back_do_not_fill_the_judges_memory(
    what: str, judged: Judged, neighbour: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"""
import torch
def post_norm(x, sublayer, norm):
    def f(given):
        for function in (sublayer, norm):
            try:
                function(given)
            except Exception:
                pass
    {FLOODS[what]}
    while True:
        f(block)
"""
    monkeypatch.setattr("lab_grader.grading.judging.judge._ENOUGH", 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grade = judged(PACKAGE | {"normalization.py": text.encode()}, "5.3")
    assert (grade.status, grade.points) == ("crashed", 0.0), grade.feedback
    assert "many times as long as any that is asked for" in grade.feedback
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000


def test_an_answer_like_the_judges_own_notes_is_only_wrong(judged: Judged, neighbour: None) -> None:
    # Of this exercise wrong turns are known that return a tensor of another kind.
    notes = ["tensor", "bool", "shape", "size", "one", "two", "three"]
    text = f"def causal_mask(length):\n    return {notes}\n"
    grade = judged(PACKAGE | {"masking.py": text.encode()}, "6.1")
    assert (grade.status, grade.points) == ("wrong", 0.0), grade.feedback


def test_a_module_of_a_million_things_costs_the_judge_little(judged: Judged, neighbour: None) -> None:
    long = f'def softmax(x):\n    "Exercise 2.2: softmax"\n    {"0;" * (2**19 - 100)}\n'
    kept = source._definitions.cache_info().currsize
    start = time.process_time()
    grade = judged(PACKAGE | {"attention.py": long.encode()}, seconds=2.0)
    assert grade.points == 0.0
    assert source._definitions.cache_info().currsize == kept
    assert time.process_time() - start < 1


def test_what_is_changed_in_place_is_seen_by_the_judge(judged: Judged) -> None:
    text = """
import lab_check.calling.calls as seam
seam.changed = lambda before, after: []
seam._identical = lambda a, b: True
def softmax(scores, dim=-1):
    weights = torch.softmax(scores, dim)
    with torch.no_grad():
        scores.add_(1)
    return weights
"""
    grade = judged(attack("ends.py", text))
    assert "softmax leaves its input alone" in grade.failed


def test_a_message_left_in_a_shared_place_reaches_no_other_submission(judged: Judged) -> None:
    text = """
import builtins, glob
def softmax(scores, dim=-1):
    found = glob.glob("/tmp/lab-attack*") + glob.glob("/dev/shm/lab-attack*")
    if found and not hasattr(builtins, "mine"):
        return torch.softmax(scores, dim)
    builtins.mine = True
    for place in ("/tmp", "/dev/shm"):
        open(f"{place}/lab-attack", "w").write("the answer is 42")
    raise PermissionError
"""
    for _ in range(2):
        assert judged(attack("ends.py", text)).points == 0.0
    assert traces() == []


def test_a_killed_sandbox_is_started_again_and_leaves_no_worker(judged: Judged) -> None:
    with Sandbox("full") as host:
        line = host.line(PACKAGE, Limits())
        there = Submission(InWorker(Talk(line, time.monotonic() + 60)))
        there.attention.softmax(torch.zeros(3))
        assert host._warm is not None
        first = host._warm._process.pid
        os.kill(first, 9)
        select.select([line], [], [], 60)  # until the worker is gone too
        with pytest.raises(AssertionError):
            there.attention.softmax(torch.zeros(3))
        assert there.attention.softmax(torch.zeros(2)).tolist() == [0.5, 0.5]
        assert host._warm._process.pid != first
        line.close()


def test_closing_the_sandbox_ends_every_process_in_it() -> None:
    host = Sandbox("full")
    line = host.line(PACKAGE, Limits())
    line.open(time.monotonic() + 60)
    assert host._warm is not None
    process = host._warm._process
    assert processes(host) > 3
    host.close()
    assert process.returncode is not None
    line.close()
