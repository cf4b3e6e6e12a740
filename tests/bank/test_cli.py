"""The `lab` command beyond the check: hints, progress, lists, the doctor, and misuse."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from learner import EXERCISES, REFERENCE, Answer, Learner, enter, in_fork

from lab_grader.cli import main


def test_hints_climb_the_ladder_and_those_before_are_shown_again(learner: Learner) -> None:
    hints = EXERCISES["3.2"].hints
    for rung in (1, 2, 3, 3):
        answer = learner.lab("hint", "3.2")
        words = " ".join(answer.out.split())
        assert answer.code == 0
        assert [f"hint {i} of 3: {hint}" in words for i, hint in enumerate(hints, 1)] == [
            i <= rung for i in (1, 2, 3)
        ]
    assert "these are all" in words


def test_hints_can_be_read_again_without_a_new_one(learner: Learner) -> None:
    assert "hint 1" not in learner.lab("hint", "3.2", "--again").out
    learner.lab("hint", "3.2")
    for _ in range(2):
        again = learner.lab("hint", "3.2", "--again").out
        assert "hint 1 of 3" in again
        assert "hint 2 of 3" not in again


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
    for part in ("Python: 3.", "PyTorch: 2.", "device: ", "notebook extension: %load_ext lab_check"):
        assert part in answer.out
    assert "Chromium" not in answer.out


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["check", "9.9"], "there is no exercise '9.9': name a week (1 to 3)"),
        (["check", "softmaxx"], "`lab exercises` lists them all"),
        (["check", "2.1", "--device", "banana"], "there is no device 'banana' here"),
        (["check", "2.1", "--watch", "--json"], "do not go together"),
        (["hint", "3"], "`lab hint` is for one exercise"),
        (["undo", "3.2"], "there is nothing to bring back: 3.2 is as it was released"),
        (["undo", "3.2", "--to", "7"], "there is no version 7 of 3.2"),
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


def test_what_a_command_asks_ends_in_a_question_mark_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["mutants", "--help"])
    assert "?." not in capsys.readouterr().out


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
            "import sys\nfrom lab_check.cli import main\n"
            f"try:\n    main({words!r})\nexcept SystemExit:\n    pass\n"
            "sys.exit('torch' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", code], cwd=learner.root).returncode == 0, words


def test_importing_the_grader_does_not_import_torch() -> None:
    code = "import lab_check, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("words", [["check"], ["hint", "3.2"], ["undo", "3.2"], ["progress"]])
def test_outside_of_a_workspace_the_way_into_one_is_said_and_nothing_is_written(
    course: Path, tmp_path: Path, words: list[str]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    before = sorted(course.rglob("*"))

    def run() -> int:
        enter(course)
        os.chdir(empty)
        sys.dont_write_bytecode = True
        from lab_check import cli

        return cli.main(words)

    answer = in_fork(run)
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert "this folder is in no workspace: `lab release ~/my-transformer` makes one" in answer.err
    assert list(empty.iterdir()) == []
    assert sorted(course.rglob("*")) == before


def test_in_the_courses_own_checkout_a_check_says_whose_solutions_it_checks() -> None:
    def run(*words: str) -> Answer:
        def main() -> int:
            os.chdir(REFERENCE.parent)
            from lab_check import cli

            return cli.main(words)

        return in_fork(main)

    checked = run("check", "2.1")
    assert checked.out.startswith(f"the course's own solutions, in {REFERENCE.parent}\n")
    assert run("progress").code == 2
    assert "state" not in run("exercises", "2").out
    assert not (REFERENCE.parent / ".lab" / "backups").exists()


def test_every_answer_says_which_workspace_it_is_about(learner: Learner) -> None:
    for words in (["check", "2.1"], ["hint", "2.1"], ["progress"]):
        assert learner.lab(*words).out.startswith(f"in {learner.root}\n")


def test_undo_shows_what_it_does_asks_and_can_be_undone(learner: Learner) -> None:
    learner.body("2.1", "return x @ x.mT  # first")
    learner.lab("check", "2.1")
    first = learner.file("2.1").read_bytes()
    learner.body("2.1", "return x @ x  # second")
    second = learner.file("2.1").read_bytes()
    asked = learner.lab("undo", "2.1")  # nobody answers
    assert "-    return x @ x  # second\n+    return x @ x.mT  # first" in asked.out
    assert asked.code == 1
    assert learner.file("2.1").read_bytes() == second
    for expected in (first, second, first):
        assert learner.lab("undo", "2.1", "--yes").code == 0
        assert learner.file("2.1").read_bytes() == expected
    assert learner.lab("undo", "2.1", "--to", "0", "--yes").code == 0
    assert EXERCISES["2.1"].stub in learner.file("2.1").read_text()
    listed = learner.lab("undo", "2.1", "--list").out
    assert "0  the stub" in listed
    kept = [(learner.root / line.split(": ")[-1]).read_text() for line in listed.splitlines()[2:]]
    assert ["first" in text for text in kept] == [True, False, True, False, True, False]


def test_undo_says_that_a_file_is_no_text(learner: Learner) -> None:
    learner.file("2.1").write_bytes(b"# caf\xe9\n")
    answer = learner.lab("undo", "2.1", "--yes")
    assert answer.code == 2
    assert "lab_transformer/attention.py is not text in UTF-8" in answer.err
    assert "Traceback" not in answer.err


def test_undo_mends_a_file_that_cannot_be_read(learner: Learner) -> None:
    learner.solve("2.1", "2.2")
    learner.lab("check")
    right = learner.file("2.1").read_bytes()
    path = learner.file("2.1")
    path.write_text(path.read_text().replace("return x @ x.mT", "return (x @@ x.mT"))
    assert learner.lab("undo", "2.1", "--yes").code == 0
    assert path.read_bytes() == right


def test_pytest_in_a_workspace_tests_its_blocks_and_never_the_courses(learner: Learner) -> None:
    learner.solve("2.1")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [str(Path(sys.executable).with_name("pytest")), "-q", "-p", "no:cacheprovider"]

    def run(*words: str) -> str:
        done = subprocess.run(
            [*command, *words], cwd=learner.root, env=environment, capture_output=True, text=True
        )
        assert done.returncode != 0
        return done.stdout + done.stderr

    said = run("tests/exercises/test_week2_self_attention.py", "--tb=no", "-k", "score")
    assert re.search(r"\d+ failed, \d+ passed", said), said
    # Where the workspace does not come first, nothing is tested.
    assert f"not in {learner.root}" in run(
        "-o", "pythonpath=", "tests/exercises/test_week2_self_attention.py"
    )
