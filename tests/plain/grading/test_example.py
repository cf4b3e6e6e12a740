"""What a learner is told of wrong numbers: the mistake, and an example on inputs that all may see."""

from __future__ import annotations

from collections.abc import Callable

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


def graded(code: Callable[..., Tensor], seed: int) -> Grade:
    """Grade a softmax."""
    one = HandedIn("student-01", {"attention.py": b"def softmax(): ..."})
    line = Near(lambda: InProcess(lambda module, name: code))
    (grade,) = judge.grade(one, [catalogue()["2.2"]], line, Conditions("process", seed, {}))
    line.close()
    return grade


def powers(scores: Tensor, dim: int = -1) -> Tensor:
    return scores.exp()


def test_wrong_numbers_are_shown_on_the_published_inputs_whatever_is_graded() -> None:
    one, other = (graded(powers, seed) for seed in (7, 8))
    example = one.extra["example"]
    assert example == other.extra["example"]
    assert one.diagnosis == other.diagnosis
    assert one.diagnosis is not None
    assert one.diagnosis["kind"] == "turn"
    assert example["property"] == "scores become weights along the last axis"
    assert example["said"] in one.feedback
    scores = bank.tapes("2.2", PUBLISHED_SEED)[FIRST][0]
    shown = [torch.tensor(example["picture"][grid]) for grid in ("expected", "actual")]
    pairs = zip(scores.softmax(-1), scores.exp(), strict=True)
    assert any(all(map(_same, shown, pair)) for pair in pairs)


def _same(shown: Tensor, real: Tensor) -> bool:
    return torch.allclose(shown, real, rtol=1e-3)


def test_what_holds_on_the_published_inputs_only_is_told_so() -> None:
    scores = bank.tapes("2.2", PUBLISHED_SEED)[FIRST][0]

    def learnt(given: Tensor, dim: int = -1) -> Tensor:
        known = given.shape == scores.shape and torch.equal(given, scores)
        return given.softmax(dim) if known else given.exp()

    grade = graded(learnt, 7)
    assert grade.extra["example"]["said"].startswith("there it holds")
    assert "picture" not in grade.extra["example"]


def test_no_known_mistake_is_named_where_the_published_inputs_show_none() -> None:
    tapes = [tensor for tape in bank.tapes("2.2", PUBLISHED_SEED).values() for tensor in tape]
    seen = [given for given in tapes if isinstance(given, Tensor)]

    def learnt(given: Tensor, dim: int = -1) -> Tensor:
        off = not any(given.shape == one.shape and torch.equal(given, one) for one in seen)
        return given.softmax(dim) + 0.01 * off

    grade = graded(learnt, 7)
    assert grade.status == "wrong"
    assert grade.diagnosis is not None
    assert grade.diagnosis["kind"] == "symptom"


def test_an_error_that_knows_no_line_names_none() -> None:
    def broken(scores: Tensor, dim: int = -1) -> Tensor:
        raise SyntaxError("Exercise 2.2: a syntax error in line 1, in student-22.py")

    grade = graded(broken, 7)
    assert grade.diagnosis is not None
    said = "SyntaxError: Exercise 2.2: a syntax error in line 1, in student-22.py"
    assert grade.diagnosis["message"].startswith(said)
    assert "None" not in grade.feedback + "".join(grade.extra["said"])


def test_a_right_block_has_no_example() -> None:
    grade = graded(lambda scores, dim=-1: scores.softmax(dim), 7)
    assert grade.status == "right"
    assert "example" not in grade.extra
