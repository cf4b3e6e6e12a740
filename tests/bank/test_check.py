"""`lab check` as a learner meets it: from the first stub through mistakes to green."""

import functools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from learner import EXERCISES, Answer, Learner, enter, in_fork


def said(answer: Answer, *words: str) -> None:
    """Require an exit code that is not an accident, no traceback, and some words."""
    text = answer.out + answer.err
    assert "Traceback" not in text, text
    assert answer.code in (0, 1, 2), text
    for word in words:
        assert word in text, text


def results(answer: Answer) -> dict[str, dict]:
    assert answer.err == ""
    return {result["exercise"]: result for result in json.loads(answer.out)}


def test_an_untouched_workspace_says_where_to_begin(learner: Learner) -> None:
    answer = learner.lab("check")
    assert answer.code == 1
    said(answer, "Nothing is started yet. Begin with 1.1", "lab hint 1.1")


def test_an_untouched_stub_is_not_started_and_never_wrong(learner: Learner) -> None:
    answer = learner.lab("check", "--json", "1", "2", "3")
    assert {result["status"] for result in results(answer).values()} == {"not_started"}
    assert answer.code == 1


def test_comments_and_layout_do_not_start_an_exercise(learner: Learner) -> None:
    path = learner.file("2.1")
    path.write_text(path.read_text().replace("    raise Not", "    # later\n\n    raise Not"))
    assert results(learner.lab("check", "2.1", "--json"))["2.1"]["status"] == "not_started"


def test_everything_written_is_right_and_exits_with_zero(learner: Learner) -> None:
    learner.solve(*(id for id, exercise in EXERCISES.items() if exercise.week <= 3))
    answer = learner.lab("check")
    assert answer.code == 0, answer.out
    said(answer, "15 of 15 right", "✓ 3.2 Scaled dot-product attention: all")


def test_a_mistake_is_named_from_the_recordings(learner: Learner) -> None:
    learner.mistake("3.2", "math.sqrt(q.shape[-1])", "q.shape[-1]")
    answer = learner.lab("check", "3.2", "--json")
    assert answer.code == 1
    result = results(answer)["3.2"]
    assert (result["status"], result["diagnosis"]["name"]) == ("wrong", "scaled-by-d_k")
    assert 0 < result["points"] < result["max_points"]


def test_two_mistakes_at_once_are_both_named(learner: Learner) -> None:
    learner.body(
        "3.2",
        "weights = torch.softmax(q @ k.mT, dim=-1)",
        "return weights @ v, weights",
    )
    name = results(learner.lab("check", "3.2", "--json"))["3.2"]["diagnosis"]["name"]
    assert set(name.split(" + ")) == {"no-scale", "mask-ignored"}


def test_a_wrong_exercise_shows_what_holds_what_does_not_and_what_next(
    learner: Learner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # nobody serves the book
    learner.mistake("3.2", "math.sqrt(q.shape[-1])", "q.shape[-1]")
    answer = learner.lab("check", "3.2")
    said(answer, "✗ 3.2 Scaled", "    ✓ ", "    ✗ ", "What happened: ", "Read more: ", "lab hint 3.2")
    assert 'Read more: "Scaled dot-product attention" in week 3 of the book' in answer.out
    assert "section 3.2 of notebooks/03_scaling.ipynb" in answer.out
    assert "http" not in answer.out
    assert answer.out.count("    ✗ ") == 3
    assert ": lab check 3.2 --all" in answer.out
    everything = learner.lab("check", "3.2", "--all")
    assert everything.out.count("    ✗ ") > 3
    assert "--all" not in everything.out


def test_an_exercise_waits_for_the_one_it_is_built_on(learner: Learner) -> None:
    learner.solve("3.5", "3.3", "3.4")
    learner.mistake("3.2", "math.sqrt(q.shape[-1])", "q.shape[-1]")
    found = results(learner.lab("check", "3", "--json"))
    assert (found["3.5"]["status"], found["3.5"]["waits_for"]) == ("waiting", "3.2")
    assert found["3.2"]["status"] == "wrong"


def test_an_exercise_that_reaches_a_stub_waits_for_it(learner: Learner) -> None:
    learner.solve("2.3", "2.1")
    answer = learner.lab("check", "2.3")
    assert answer.code == 1
    said(answer, "… 2.3", "waiting for exercise 2.2", "finish exercise 2.2")


def test_an_endless_loop_ends_and_is_named(learner: Learner) -> None:
    learner.body("2.1", "while True:", "    pass")
    answer = learner.lab("check", "2.1")
    said(answer, "no answer within 5 seconds: is there a loop that never ends?", "not tried, after 2")


def test_a_loop_is_named_even_where_the_exercise_waits_for_another(learner: Learner) -> None:
    learner.body("2.3", "while True:", "    pass")
    answer = learner.lab("check", "2.3")
    said(answer, "waiting for exercise 2.1", "is there a loop that never ends?")


# Elsewhere a check has no process and no limit of memory of its own.
apart = functools.partial(pytest.param, marks=pytest.mark.linux)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        apart("import os; os._exit(0)", "ended Python (exit code 0) instead of returning"),
        apart("import ctypes; ctypes.string_at(0)", "crashed Python (SIGSEGV)"),
        apart("return torch.zeros(10**13)", "at lab_transformer/attention.py"),
        apart("return bytearray(10**12)", "MemoryError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("return input()", "EOFError"),
        ("return undefined", "NameError: name 'undefined' is not defined"),
        ("return x.mm(1)", "at lab_transformer/attention.py, line"),
        ("x @ x.mT", "is a return missing?"),
    ],
)
def test_whatever_the_code_does_is_said_in_words(learner: Learner, line: str, words: str) -> None:
    learner.body("2.1", line)
    answer = learner.lab("check", "2.1")
    assert answer.code == 1
    said(answer, "✗ 2.1", words)


@pytest.mark.linux
def test_a_crash_in_one_exercise_leaves_the_next_alone(learner: Learner) -> None:
    learner.body("2.1", "import os", "os._exit(0)")
    learner.solve("2.2")
    found = results(learner.lab("check", "2.1", "2.2", "--json"))
    assert [found[id]["status"] for id in ("2.1", "2.2")] == ["wrong", "right"]


def test_what_the_code_prints_is_shown_and_does_not_flood(learner: Learner) -> None:
    learner.body("2.1", "print('scores of', tuple(x.shape), 'noise ' * 10**6)", "return x")
    answer = learner.lab("check", "2.1")
    said(answer, "Your code printed: ", "noise noise")
    assert len(answer.out) < 20_000


def test_printing_does_not_spoil_the_json(learner: Learner) -> None:
    learner.mistake("2.1", "return", "print('hello'); return")
    assert results(learner.lab("check", "2.1", "--json"))["2.1"]["status"] == "right"


def test_where_no_fork_is_safe_a_check_says_the_same(learner: Learner) -> None:
    def elsewhere() -> int:
        enter(learner.root)
        from lab_check import cli

        sys.platform = "darwin"
        return cli.main(["check", "2.1"])

    for lines in (["while True:", "    pass"], ["print('scores of', len(x))", "return x"]):
        learner.body("2.1", *lines)
        here, there = learner.lab("check", "2.1"), in_fork(elsewhere)
        assert (there.code, there.out) == (here.code, here.out)


def test_a_syntax_error_in_a_file_is_named_with_its_line(learner: Learner) -> None:
    learner.body("2.1", "return x @@ x")
    line = learner.file("2.1").read_text().splitlines().index("    return x @@ x") + 1
    answer = learner.lab("check", "2.1")
    said(answer, f"SyntaxError in lab_transformer/attention.py, line {line}")


def test_a_function_that_is_gone_is_missed_by_name(learner: Learner) -> None:
    path = learner.file("2.1")
    path.write_text(path.read_text().replace("def similarity_scores", "def similarity"))
    said(learner.lab("check", "2.1"), "lab_transformer/attention.py defines no `similarity_scores`")


def test_a_file_that_is_gone_is_missed_by_name(learner: Learner) -> None:
    learner.file("2.1").unlink()
    said(learner.lab("check", "2.1"), "there is no file lab_transformer/attention.py")


def test_an_empty_check_for_programs_is_an_empty_list(learner: Learner) -> None:
    answer = learner.lab("check", "--json")
    assert (answer.code, json.loads(answer.out)) == (1, [])


def test_watching_checks_again_when_a_file_is_saved(learner: Learner) -> None:
    learner.body("2.1", "return x @ x")
    command = [sys.executable, "-m", "lab_check", "check", "2.1", "--watch"]
    quiet = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=learner.root, env=quiet, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        watchdog = threading.Timer(120, process.kill)
        watchdog.start()
        first, second = "", ""
        for line in process.stdout:
            first += line
            if "save a file" in line:
                break
        learner.solve("2.1")
        for line in process.stdout:
            second += line
            if "save a file" in line:
                break
        process.send_signal(2)
        code = process.wait()
        watchdog.cancel()
    assert "✗ 2.1" in first
    assert "✓ 2.1" in second
    assert (first + second).count(f"in {learner.root}\n") == 2  # whose blocks: once for each check
    assert code == 130


def test_an_error_shows_the_line_and_the_axes_it_was_called_with(learner: Learner) -> None:
    learner.body("3.2", "return q @ k, q")
    answer = learner.lab("check", "3.2")
    said(answer, "RuntimeError", "return q @ k, q")
    assert "called with q (batch 2, heads 3, query 5, d_head 8)," in " ".join(answer.out.split())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("    return x @@ x", "SyntaxError in lab_transformer/attention.py, line "),
        ("import os; os._exit(0)", "ended Python (exit code 0)"),
    ],
)
def test_one_cause_gives_one_message_however_many_exercises_it_concerns(
    learner: Learner, line: str, words: str
) -> None:
    learner.solve("2.1", "2.2", "2.3", "3.2")
    path = learner.file("2.1")
    path.write_text(f"{path.read_text()}\n{line}\n")
    answer = learner.lab("check", "2", "3.2", "3.4")
    said(answer, words, "mend it there", "lab undo 2.1")
    assert answer.out.count(words) == 1
    assert answer.out.count("cannot be imported") == 1
    assert "2.1, 2.2, 2.3" in answer.out
    assert answer.code == 1


def test_failures_for_one_reason_are_told_once(learner: Learner) -> None:
    learner.body("2.1", "return undefined")
    answer = learner.lab("check", "2.1")
    assert answer.out.count("name 'undefined' is not defined") == 1
    said(answer, "more for the same reason")


def test_a_check_that_is_stopped_says_so_in_one_line(learner: Learner) -> None:
    learner.body("2.1", "while True:", "    pass")
    with subprocess.Popen(
        [sys.executable, "-m", "lab_check", "check", "2.1"],
        cwd=learner.root, env=os.environ | {"PYTHONUNBUFFERED": "1"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline().startswith("in ")
        os.killpg(process.pid, 2)  # as Ctrl-C does: to everybody in the foreground
        out, err = process.communicate(timeout=60)
    assert (out, err) == ("", "\nlab: stopped\n")
    # Interrupted in an `exec` of an import, Python ends by the signal; a shell shows 130 for both.
    assert process.returncode in (130, -signal.SIGINT)
