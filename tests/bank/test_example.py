"""What a learner is shown of wrong numbers: their own, on inputs that everybody may see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from near import Near
from torch import Tensor

from lab_check.calling.calls import InProcess
from lab_check.exercises import catalogue
from lab_check.running.tape import PUBLISHED_SEED
from lab_grader import bank
from lab_grader.grading.judging import judge
from lab_grader.grading.model import Conditions, Grade, HandedIn

FIRST = "test_scores_become_weights_along_the_last_axis"


def graded(code: Callable[..., Tensor], seed: int, monkeypatch: pytest.MonkeyPatch) -> Grade:
    """Grade a softmax, without the bank: what is known of wrong turns is of no matter here."""
    monkeypatch.setattr(judge, "_known", lambda *_: None)
    one = HandedIn("student-01", {"attention.py": b"def softmax(): ..."})
    line = Near(lambda: InProcess(lambda module, name: code))
    (grade,) = judge.grade(one, [catalogue()["2.2"]], line, Conditions("process", seed, {}), Path())
    line.close()
    return grade


def powers(scores: Tensor, dim: int = -1) -> Tensor:
    return scores.exp()


def test_wrong_numbers_are_shown_on_the_published_inputs_whatever_is_graded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = (graded(powers, seed, monkeypatch) for seed in (7, 8))
    example = one.extra["example"]
    assert example == other.extra["example"]
    assert example["property"] == "scores become weights along the last axis"
    assert example["said"] in one.feedback
    scores = bank.tapes("2.2", PUBLISHED_SEED)[FIRST][0]
    shown = [torch.tensor(example["picture"][grid]) for grid in ("expected", "actual")]
    pairs = zip(scores.softmax(-1), scores.exp(), strict=True)
    assert any(all(map(_same, shown, pair)) for pair in pairs)


def _same(shown: Tensor, real: Tensor) -> bool:
    return torch.allclose(shown, real, rtol=1e-3)


def test_what_holds_on_the_published_inputs_only_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = bank.tapes("2.2", PUBLISHED_SEED)[FIRST][0]

    def learnt(given: Tensor, dim: int = -1) -> Tensor:
        known = given.shape == scores.shape and torch.equal(given, scores)
        return given.softmax(dim) if known else given.exp()

    example = graded(learnt, 7, monkeypatch).extra["example"]
    assert example["said"].startswith("there it holds")
    assert "picture" not in example


def test_a_right_block_has_no_example(monkeypatch: pytest.MonkeyPatch) -> None:
    grade = graded(lambda scores, dim=-1: scores.softmax(dim), 7, monkeypatch)
    assert grade.status == "right"
    assert "example" not in grade.extra
