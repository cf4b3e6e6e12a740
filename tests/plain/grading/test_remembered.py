"""The judge does not judge twice what it has heard before, and never takes one answer for another."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from near import Near

from lab_check.calling import messages
from lab_check.calling.calls import InProcess
from lab_check.calling.worker import SocketStream, Worker
from lab_check.running.results import Property
from lab_check.running.submission import Submission
from lab_grader.grading.judging.remembered import _START, Remembered, _sum
from lab_grader.grading.judging.remote import InWorker, LostCall, Talk
from lab_grader.grading.sandbox import process

Code = Callable[..., Any]


def near(code: Code) -> Near:
    return Near(lambda: InProcess(lambda module, name: code))


def test_what_the_judge_had_no_memory_for_is_judged_again() -> None:
    remembered = Remembered()
    found = [
        Property("it holds", False, False, "too large", "memory"),
        Property("it holds", False, True),
    ]

    def check(talk: Talk) -> Property:
        Submission(InWorker(talk)).loss.block(torch.ones(3))
        return found.pop(0)

    line = near(lambda x: x)
    judged = [remembered.judge(line, time.monotonic() + 60, check).ok for _ in range(3)]
    line.close()
    assert judged == [False, True, True]
    assert found == []


def test_an_endless_conversation_is_not_written_down() -> None:
    talks: list[Any] = []

    def check(talk: Talk) -> Property:
        talks.append(talk)
        block = Submission(InWorker(talk)).loss.block
        assert all(block(torch.full((3,), n)).tolist() == [n] * 3 for n in range(200))
        return Property("it holds", False, True)

    remembered, line = Remembered(), near(lambda x: x)
    for _ in range(2):
        assert remembered.judge(line, time.monotonic() + 60, check).ok
    line.close()
    assert len(talks) == 2
    assert len(talks[0].heard) < 60
    assert remembered._next == {}


def test_calls_back_are_given_only_so_much_in_all() -> None:
    def flood(function: Code) -> int:
        for _ in range(60):
            function(torch.zeros(2**17))
        return 0

    line, kept = near(flood), list[torch.Tensor]()
    seen = Submission(InWorker(Talk(line, time.monotonic() + 60))).loss.block

    def keep(given: torch.Tensor) -> torch.Tensor:
        kept.append(given)
        return given

    assert seen(keep) == 0
    with pytest.raises(LostCall, match="many times as long"):
        seen(keep)
    line.close()
    assert 60 < len(kept) < 70


class Asked:
    """A test that calls twice, the second time with what came back, and counts how often it runs."""

    def __init__(self) -> None:
        self.runs = 0
        self.remembered = Remembered()

    def __call__(self, talk: Talk) -> Property:
        self.runs += 1
        function = Submission(InWorker(talk)).loss.block
        once = function(torch.ones(3))
        twice = function(once)
        return Property("it adds up", False, float(twice.sum()) == 12.0, f"it is {twice.tolist()}")

    def judge(self, code: Code) -> Property:
        line = near(code)
        try:
            return self.remembered.judge(line, time.monotonic() + 10, self)
        finally:
            line.close()


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_the_same_answers_need_no_second_judgement(asked: Asked) -> None:
    first = asked.judge(lambda x: x * 2)
    second = asked.judge(lambda x: x + x)
    assert first.ok
    assert second == first
    assert asked.runs == 1


def test_another_answer_at_the_end_is_judged_by_the_test(asked: Asked) -> None:
    asked.judge(lambda x: x * 2)
    wrong = asked.judge(lambda x: x * 2 if x.sum() == 3 else x)
    assert (wrong.ok, wrong.message) == (False, "it is [2.0, 2.0, 2.0]")
    assert asked.runs == 2


def test_a_different_question_follows_from_a_different_answer(asked: Asked) -> None:
    asked.judge(lambda x: x * 2)
    assert asked.judge(lambda x: x * 3).message == "it is [9.0, 9.0, 9.0]"
    assert asked.judge(lambda x: x * 2).ok
    assert asked.judge(lambda x: 3 * x).message == "it is [9.0, 9.0, 9.0]"
    assert asked.runs == 2


def test_a_submission_that_is_lost_on_the_way_is_not_taken_for_another(asked: Asked) -> None:
    asked.judge(lambda x: x * 2)
    line = near(lambda x: x * 2)
    line._ours.shutdown(socket.SHUT_WR)
    with pytest.raises(AssertionError, match="it hung up"):
        asked.remembered.judge(line, time.monotonic() + 10, asked)
    assert asked.judge(lambda x: x * 2).ok


def test_a_test_that_asks_something_else_than_before_starts_anew(asked: Asked) -> None:
    asked.judge(lambda x: x * 2)

    def changed(talk: Talk) -> Property:
        value = Submission(InWorker(talk)).loss.block(torch.zeros(2))
        return Property("it keeps zero", False, not value.any(), f"it is {value.tolist()}")

    line = near(lambda x: x * 5)
    assert asked.remembered.judge(line, time.monotonic() + 10, changed).message == "it is [0.0, 0.0]"
    line.close()


def test_a_stranger_cannot_fill_the_memory(asked: Asked) -> None:
    for number in range(150):
        asked.judge(lambda x, number=number: x * number)
    assert len(asked.remembered._next) <= 300


def test_no_file_is_made_outside_of_the_package(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process.send_files(SocketStream(ours), {"../outside.py": b"x = 1"})
        with pytest.raises(AssertionError):
            Worker.unpack(SocketStream(theirs), tmp_path)
    assert not (tmp_path / "outside.py").exists()


def test_an_answer_cannot_pass_for_two(asked: Asked) -> None:
    """What follows the sum of a first answer, sent at once, is not taken for the second answer."""
    asked.judge(lambda x: x * 2)
    heard: list[bytes] = []

    class Spy(Near):
        def open(self, deadline: float) -> Any:
            stream = super().open(deadline)
            receive = stream.receive
            stream.receive = lambda count: heard.append(receive(count)) or heard[-1]
            return stream

    line = Spy(lambda: InProcess(lambda module, name: lambda x: x * 2))
    Remembered().judge(line, time.monotonic() + 10, asked)
    line.close()
    first, second = (part[messages.ID :] for part in heard[1::2])
    shifted = _sum(_START, first) + second
    assert _sum(_START, shifted) not in asked.remembered._next
    assert _sum(_sum(_START, first), second) in asked.remembered._next


def test_all_questions_of_a_property_have_one_deadline(asked: Asked) -> None:
    deadlines = []

    class Spy(Near):
        def open(self, deadline: float) -> Any:
            deadlines.append(deadline)
            return super().open(deadline)

    line = Spy(lambda: InProcess(lambda module, name: lambda x: x * 2))
    end = time.monotonic() + 10
    asked.remembered.judge(line, end, asked)
    line.close()
    assert deadlines == [end, end]
