"""What the notebooks share; the bar is seen by a person, and by no program that runs a notebook."""

from __future__ import annotations

import itertools
from typing import Any

import IPython.display
import pytest
import torch

from lab_transformer.notebook import compare, progress, rounded, seconds


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is displayed, in words."""
    said: list[str] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            said.append(data["text/plain"])

    def display(data: dict[str, str], **_: Any) -> Handle:
        said.append(data["text/plain"])
        return Handle()

    monkeypatch.setattr(IPython.display, "display", display)
    monkeypatch.setattr("lab_transformer.notebook._PAUSE", -1.0)
    return said


def test_a_program_that_runs_a_notebook_sees_nothing(
    shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert list(progress(range(3), "training")) == [0, 1, 2]
    assert shown == []


def test_a_person_sees_how_far_a_loop_is(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/03_scaling.ipynb")
    assert list(progress(range(3), "training")) == [0, 1, 2]
    assert [line.split(",")[0] for line in shown] == [f"training: {n} of 3" for n in (0, 1, 2, 3, 3)]
    shown.clear()
    assert len(list(progress(itertools.islice(itertools.count(), 2), total=2))) == 2
    assert shown[-1].startswith("working: 2 of 2")


def test_a_loop_that_is_left_early_says_how_far_it_came(
    shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/03_scaling.ipynb")
    steps = progress(range(9))
    next(steps)
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert shown[-1].startswith("working: 1 of 9")


@pytest.mark.parametrize(
    ("predicted", "said"),
    [(None, "no prediction written; measured: 2\n"), ((1, 3), "you predicted (1, 3); measured: 2\n")],
)
def test_a_prediction_stands_beside_what_was_measured(
    predicted: object, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compare(predicted, 2)
    assert capsys.readouterr().out == said


def test_a_row_is_listed_in_few_digits() -> None:
    assert rounded(torch.tensor([1 / 3, 2.0]), 2) == [0.33, 2.0]


def test_the_least_time_on_one_thread_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 5.0, 10.0, 12.0, 20.0, 24.0])
    monkeypatch.setattr("time.process_time", lambda: next(clock))
    before, seen = torch.get_num_threads(), []
    torch.set_num_threads(2)
    try:
        assert seconds(lambda x: seen.append((x, torch.get_num_threads())), "in", times=3) == 2.0
        assert (seen, torch.get_num_threads()) == ([("in", 1)] * 3, 2)
    finally:
        torch.set_num_threads(before)
