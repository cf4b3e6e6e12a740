"""The `lab` command beyond the check: hints, progress, lists, the doctor, and misuse."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from learner import EXERCISES, Learner


def test_hints_climb_the_ladder_remember_and_stay_on_the_last_rung(learner: Learner) -> None:
    said = [learner.lab("hint", "3.2") for _ in range(4)]
    assert [answer.code for answer in said] == [0] * 4
    for rung, answer in zip((1, 2, 3, 3), said, strict=True):
        words = " ".join(answer.out.split())
        assert f"hint {rung} of 3: {EXERCISES['3.2'].hints[rung - 1]}" in words


def test_damaged_memory_is_forgotten_and_not_an_error(learner: Learner) -> None:
    (learner.root / ".lab" / "hints.json").write_text('{"3.2": [')
    assert "hint 1 of 3" in learner.lab("hint", "3.2").out


def test_progress_counts_what_is_right_by_week(learner: Learner) -> None:
    learner.solve("2.1", "2.2")
    answer = learner.lab("progress")
    rows = {row.split()[0]: row for row in answer.out.splitlines() if row.strip()}
    assert answer.code == 0
    assert "2 of 4" in rows["2"]
    assert "6 of 11" in rows["2"]
    assert "2 of 15" in rows["all"]


def test_the_list_gives_every_exercise_and_how_it_stands(learner: Learner) -> None:
    learner.solve("2.1")
    learner.body("2.2", "return scores")
    answer = learner.lab("exercises", "--json")
    states = {entry["id"]: entry["state"] for entry in json.loads(answer.out)}
    assert states == {
        id: {"2.1": "right", "2.2": "wrong"}.get(id, "not_started")
        for id, exercise in EXERCISES.items()
        if exercise.week <= 3
    }
    table = learner.lab("exercises", "2").out
    assert "Similarity of every word with every word" in table
    assert "1.1" not in table


def test_the_doctor_finds_what_a_learner_needs(learner: Learner) -> None:
    answer = learner.lab("doctor")
    assert answer.code == 0
    for part in ("Python: 3.", "PyTorch: 2.", "device: ", "notebook extension: %load_ext lab_grader"):
        assert part in answer.out
    assert "Chromium" not in answer.out


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["check", "9.9"], "there is no exercise '9.9': name a week (1 to 3)"),
        (["check", "softmaxx"], "`lab exercises` lists them all"),
        (["check", "2.1", "--device", "banana"], "there is no device 'banana' here"),
        (["check", "2.1", "--watch", "--json"], "do not go together"),
        (["hint", "3"], "a hint is for one exercise"),
        (["hint"], "the following arguments are required"),
        (["frobnicate"], "invalid choice"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_misuse_is_a_sentence_and_exit_code_two(
    learner: Learner, words: list[str], advice: str
) -> None:
    answer = learner.lab(*words)
    assert answer.code == 2
    assert advice in answer.err
    assert "Traceback" not in answer.err


def test_a_folder_that_cannot_be_written_is_named(learner: Learner) -> None:
    (learner.root / ".lab" / "hints.json").mkdir()
    answer = learner.lab("hint", "3.2")
    assert answer.code == 2
    assert "hints.json" in answer.err
    assert "Traceback" not in answer.err


def test_the_course_hands_over_to_the_workspace_it_is_called_in(learner: Learner) -> None:
    learner.solve("2.1")
    below = learner.root / "notebooks"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [str(Path(sys.executable).with_name("lab")), "exercises", "2", "--json"]
    done = subprocess.run(
        command, cwd=below, env=environment, capture_output=True, text=True, check=True
    )
    states = [entry["state"] for entry in json.loads(done.stdout)]
    assert states == ["right", "not_started", "not_started", "not_started"]


def test_hints_and_help_do_not_wait_for_torch(learner: Learner) -> None:
    for words in (["--help"], ["check", "--help"], ["hint", "3.2"]):
        code = (
            "import sys\nfrom lab_grader.cli import main\n"
            f"try:\n    main({words!r})\nexcept SystemExit:\n    pass\n"
            "sys.exit('torch' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", code], cwd=learner.root).returncode == 0, words


def test_importing_the_grader_does_not_import_torch() -> None:
    code = "import lab_grader, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
