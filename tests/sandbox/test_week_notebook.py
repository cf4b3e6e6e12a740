"""The week's notebook is run against the learner's package, and compared outside of it."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_class import a_grade, command, lines, run
from small_notebook import CAUSAL, PADDING, RIGHT, STUBS, package, prepared, write

from lab_check.exercises import catalogue
from lab_grader import bank
from lab_grader.grading.model import Grade, HandedIn, Limits
from lab_grader.grading.notebooks import stored, week_notebook
from lab_grader.grading.notebooks.compare import Printed
from lab_grader.grading.run import grade
from lab_grader.grading.sandbox.confined import open_host
from lab_grader.grading.sandbox.process import Host
from lab_transformer.notebook import compare

FIRST = f"cell 4, after exercise 6.1: {CAUSAL}"
SECOND = f"cell 7, after exercise 6.2: {PADDING[:60]} …"
FLIPPED = "def causal_mask(length):\n    return torch.ones(length, length).triu().bool()"


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    torch.set_num_threads(1)
    with open_host("full") as host:
        yield host


@pytest.fixture
def small(tmp_path: Path) -> stored.Notebook:
    return prepared(tmp_path)


def graded(
    host: Host,
    small: stored.Notebook,
    files: dict[str, bytes],
    first: float = 2,
    second: float = 2,
) -> Grade:
    """Grade the notebook of a student who has so many points, of two each, for the exercises."""
    exercises = [a_grade("student-01", "6.1", first), a_grade("student-01", "6.2", second)]
    return week_notebook.grade(HandedIn("student-01", files), small, exercises, host)


def test_what_agrees_earns_all_points(host: Host, small: stored.Notebook) -> None:
    found = graded(host, small, RIGHT)
    assert (found.exercise, found.block, found.status) == ("6.notebook", "notebook", "right")
    assert (found.points, found.max_points) == (4.0, 4.0)
    assert (found.passed, found.failed) == ([FIRST, SECOND], [])


def test_only_experiments_with_a_stored_output_are_compared(small: stored.Notebook) -> None:
    assert [cell.label for cell in small.cells] == [FIRST, SECOND]


def test_a_cell_that_differs_says_what_each_side_prints(host: Host, small: stored.Notebook) -> None:
    found = graded(host, small, package(FLIPPED), first=0)
    assert (found.status, found.points, found.failed) == ("wrong", 2.0, [FIRST])
    assert "[[1, 1], [0, 1]]" in found.feedback
    assert "[[1, 0], [1, 1]]" in found.feedback


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ("   0.00    1.25\n", "  -0.00    1.26\n", True),
        ("[[ 0.10, 2.00]]", "[[-0.10, 2.00]]", False),
        ("loss 1.25", "loss 1.27", False),
        ("right: 0.9", "right: 1.0", False),
        ("words 12", "words 13", False),
        ("0.50 of 3\n", "0.50\nof 3\n", False),
        ("a 0.50", "b 0.50", False),
    ],
)
def test_only_the_last_digit_and_the_sign_of_zero_may_differ(
    ours: str, theirs: str, same: bool
) -> None:
    assert (Printed(ours) == Printed(theirs)) is same
    assert (Printed(ours) != Printed(theirs)) is not same


def test_a_last_digit_costs_nothing(host: Host, tmp_path: Path) -> None:
    notebook = json.loads(write(tmp_path).read_text())
    notebook["cells"][3] |= {"source": ["print('loss 0.126')"]}
    notebook["cells"][3]["outputs"][0]["text"] = ["loss 0.125\n"]
    (tmp_path / "near.ipynb").write_text(json.dumps(notebook))
    near = stored.prepare(tmp_path / "near.ipynb", 6, 4.0, Limits(60.0, 4 * 2**30))
    assert graded(host, near, RIGHT).points == 4.0


def test_a_cell_waits_for_an_exercise_that_is_not_written(host: Host, small: stored.Notebook) -> None:
    solved = "def causal_mask(length):\n    return torch.ones(length, length).tril().bool()"
    found = graded(host, small, package(solved, STUBS), second=0)
    assert (found.points, found.passed, found.failed) == (2.0, [FIRST], [SECOND])
    assert "it waits for exercise 6.2" in found.feedback


def test_a_cell_earns_the_share_that_its_exercise_earned(host: Host, small: stored.Notebook) -> None:
    found = graded(host, small, RIGHT, first=1, second=0)
    assert (found.status, found.points) == ("wrong", 1.0)
    assert (found.passed, found.failed) == ([FIRST], [SECOND])


@pytest.mark.parametrize(
    ("status", "own"), [("waiting", "wrong"), ("not_started", "not_started")]
)  # fmt: skip
def test_nothing_is_run_where_no_exercise_has_points(
    host: Host, small: stored.Notebook, status: str, own: str
) -> None:
    exercises = [a_grade("student-01", "6.1", 0, status=own)]
    found = week_notebook.grade(HandedIn("student-01", RIGHT), small, exercises, host)
    assert (found.status, found.points, found.seconds) == (status, 0.0, 0.0)


def test_an_error_in_a_cell_is_told_and_costs_only_that_cell(
    host: Host, small: stored.Notebook
) -> None:
    found = graded(host, small, package("def causal_mask(length):\n    return 1 / 0"))
    assert (found.status, found.passed) == ("wrong", [SECOND])
    assert "it stops with ZeroDivisionError: division by zero" in found.feedback


def test_an_endless_loop_keeps_what_came_before_it(host: Host, tmp_path: Path) -> None:
    loop = package("def padding_mask(tokens, pad_id):\n    while True: pass")
    found = graded(host, prepared(tmp_path, seconds=3.0), loop)
    assert (found.points, found.passed) == (2.0, [FIRST])
    assert "took too long" in found.feedback


def test_a_process_without_a_sandbox_gives_the_same_grade(host: Host, small: stored.Notebook) -> None:
    with open_host("process") as other:
        near, far = (graded(one, small, package(FLIPPED), first=0) for one in (host, other))
    assert far.isolation == "process"
    assert dataclasses.replace(near, isolation="", seconds=0) == dataclasses.replace(
        far, isolation="", seconds=0
    )


def test_the_notebook_that_is_run_holds_no_exercise(tmp_path: Path, small: stored.Notebook) -> None:
    assert "a card" in write(tmp_path).read_text()
    assert "card" not in small.text


def test_a_week_is_graded_with_its_notebook_and_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    student = tmp_path / "class" / "student-01" / "lab_transformer"
    student.mkdir(parents=True)
    for name, content in RIGHT.items():
        (student / name).write_bytes(content)
    small = write(tmp_path)
    monkeypatch.setattr(stored, "path_of", lambda week: small)
    for graded_now in ("1 graded now, 0 unchanged", "0 graded now, 1 unchanged"):
        grade(tmp_path / "class", tmp_path / "grades", ["6"], jobs=1, seed=7, isolation="process")
        assert graded_now in capsys.readouterr().out
    last = lines(tmp_path / "grades")[-1]
    assert (last["exercise"], last["status"], last["points"]) == ("6.notebook", "right", 4.0)
    assert "6.notebook" in (tmp_path / "grades" / "gradebook.csv").read_text()


def graded_anew(small: Path, folder: Path, isolation: str) -> str:
    """Grade week 6 by another notebook in a new Python, where PyTorch chooses anew how to round."""
    code = (
        "from pathlib import Path; from lab_grader.grading import run; "
        "from lab_grader.grading.notebooks import stored; "
        f"stored.path_of = lambda week: Path({str(small)!r}); where = Path({str(folder)!r}); "
        f"run.grade(where / 'class', where / 'grades', ['6'], jobs=1, seed=7, isolation={isolation!r})"
    )
    done = run([sys.executable, "-c", code])
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("isolation", ["process", "full"])
def test_a_right_package_has_all_points_on_a_machine_that_rounds_otherwise(
    isolation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first cell more prints there what is stored, and counts; the second something else."""
    student = tmp_path / "class" / "student-01" / "lab_transformer"
    student.mkdir(parents=True)
    for name, content in RIGHT.items():
        (student / name).write_bytes(content)
    small = write(tmp_path, more=[("here", "DEFAULT"), ("stored", "ANOTHER MACHINE'S")])
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    said = graded_anew(small, tmp_path, isolation)
    assert said.count("not counted") == 1
    assert "'stored'" in said
    last = lines(tmp_path / "grades")[-1]
    assert (last["status"], last["points"], len(last["passed"])) == ("right", 4.0, 3)


def test_on_another_machine_the_course_runs_its_notebook_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "class" / "student-01").mkdir(parents=True)
    small = write(tmp_path)
    monkeypatch.setattr(stored, "path_of", lambda week: small)
    for capability, runs in (("default", 1), ("default", 0), ("avx2", 1)):
        monkeypatch.setenv("ATEN_CPU_CAPABILITY", capability)
        grade(tmp_path / "class", tmp_path / "grades", ["6"], jobs=1, seed=7, isolation="process")
        assert capsys.readouterr().out.count("first the course's own package") == runs


def test_a_notebook_without_its_whole_week_is_refused(tmp_path: Path) -> None:
    (tmp_path / "class" / "student-01").mkdir(parents=True)
    out = tmp_path / "grades"
    words = ["grade", tmp_path / "class", "--out", out, "--exercises", "6.1", "--notebooks"]
    done = run(command(*words))
    assert done.returncode == 2
    assert "all exercises of its week" in done.stderr


def test_every_week_has_cells_that_count() -> None:
    for week in {exercise.week for exercise in catalogue().values()}:
        found = stored.prepare(stored.path_of(week), week, 4.0, Limits())
        assert len(found.cells) >= 3, week


# What cells show of a block must not tell apart the right ways of writing it.
@pytest.mark.parametrize(
    ("exercise", "firsts"),
    [
        ("1.4", ["narrow, zeros = "]),
        ("7.4", ["model = transformer.Transformer("]),
        ("8.3", ["TREE = ", "for width in (1, 2, 4)", "def chatter"]),
        ("8.4", ["logits = "]),
        ("8.5", ["full = ", "def written"]),
    ],
)
def test_every_right_way_prints_what_the_notebook_stores(
    exercise: str, firsts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    block = catalogue()[exercise]
    notebook = json.loads(stored.path_of(block.week).read_text(encoding="utf-8"))
    cells = {"".join(cell["source"]): cell for cell in notebook["cells"]}
    codes = [
        next(code for code in cells if code.removeprefix("torch.manual_seed(0)\n").startswith(first))
        for first in firsts
    ]
    printed = ["".join(output["text"]) for code in codes for output in cells[code]["outputs"]]
    modules = ("rnn", "attention", "masking", "transformer", "decoding")
    names: dict[str, Any] = {
        name: importlib.import_module(f"lab_transformer.{name}") for name in modules
    }
    names |= {"torch": torch, "math": math, "itertools": itertools, "my_prediction": None}
    names["compare"] = compare
    for way in bank.spaces()[exercise].right:
        module = SimpleNamespace(**vars(names[block.module]) | {block.name: way})
        scope = names | {block.module: module}
        for code in codes:
            exec(code, scope)
        assert capsys.readouterr().out == "".join(printed), way
