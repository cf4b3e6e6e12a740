"""Grades survive whatever ends a run, and nothing is graded twice."""

from __future__ import annotations

import contextlib
import csv
import os
import signal
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from small_class import (
    HOSTILE,
    RIGHT,
    WRONG,
    a_grade,
    command,
    grade_command,
    lines,
    run,
    write_class,
)

from lab_check.errors import UserError
from lab_check.exercises import select
from lab_grader.grading import run as run_
from lab_grader.grading.gradebook.book import Gradebook, attention
from lab_grader.grading.gradebook.policy import Course
from lab_grader.grading.intake import collect, entry
from lab_grader.grading.model import HandedIn, Refused


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A class, and its grades from a run that nobody disturbed."""
    folder = write_class(tmp_path_factory.mktemp("undisturbed") / "class")
    done = run(grade_command(folder, folder.parent / "grades"))
    assert done.returncode == 0, done.stderr
    return folder, folder.parent / "grades"


def entered(out: Path) -> int:
    with contextlib.suppress(sqlite3.Error), contextlib.closing(
        sqlite3.connect(f"file:{out / 'gradebook.sqlite'}?mode=ro", uri=True)
    ) as base:  # fmt: skip
        return int(base.execute("select count(*) from grades where line != ''").fetchone()[0])
    return 0


def group_lives(group: int) -> bool:
    """Tell whether a process of a group runs; one that has ended may wait for its reaper."""
    listing = subprocess.run(["ps", "-axo", "pgid=,stat="], capture_output=True, text=True, check=True)
    found = (line.split() for line in listing.stdout.splitlines())
    return any(int(owner) == group and not state.startswith("Z") for owner, state, *_ in found)


def lives(process: int) -> bool:
    listing = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True)
    return bool(listing.stdout.strip()) and not listing.stdout.startswith("Z")


def wait_until(happened: object) -> None:
    assert callable(happened)
    end = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def killed(graded: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The grades of a run that was killed after its first result, and its process group."""
    out = tmp_path_factory.mktemp("killed") / "grades"
    process = subprocess.Popen(
        grade_command(graded[0], out, "--jobs", 1), start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_until(lambda: entered(out) or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return out, process.pid


def test_a_killed_run_leaves_no_process_behind(killed: tuple[Path, int]) -> None:
    wait_until(lambda: not group_lives(killed[1]))


def test_the_same_command_goes_on_after_sigkill_and_ends_with_the_same_results(
    killed: tuple[Path, int], graded: tuple[Path, Path]
) -> None:
    out, _ = killed
    already = entered(out)
    assert already >= 1
    done = run(grade_command(graded[0], out))
    assert f"{3 - already} graded now" in done.stdout
    assert lines(out) == lines(graded[1])
    assert (out / "gradebook.csv").read_bytes() == (graded[1] / "gradebook.csv").read_bytes()


def test_an_interrupted_run_ends_at_once_and_leaves_no_process_behind(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    started = tmp_path / "started"
    loop = f"def causal_mask(length):\n    open({str(started)!r}, 'w')\n    while True: pass\n"
    (tmp_path / "class" / "student-01.py").write_text(loop)
    process = subprocess.Popen(
        grade_command(tmp_path / "class", tmp_path / "grades", "--timeout", 300),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    wait_until(started.exists)
    process.send_signal(signal.SIGINT)  # to this one process, not to all of a terminal
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "the same command goes on" in said
    assert "Traceback" not in said
    wait_until(lambda: not group_lives(process.pid))


def test_a_worker_ends_with_a_judge_that_was_killed(tmp_path: Path) -> None:
    started = tmp_path / "started"
    loop = f"open({str(started)!r}, 'w').write(str(__import__('os').getpid()))\nwhile True: pass"
    code = (
        "import time\n"
        "from lab_grader.grading.sandbox.process import ProcessHost\n"
        "from lab_grader.grading.model import Limits\n"
        "from lab_grader.grading.judging.remote import InWorker, Talk\n"
        "from lab_check.calling.calls import Target\n"
        f"files = {{'__init__.py': b'', 'masking.py': {loop!r}.encode()}}\n"
        "line = ProcessHost().line(files, Limits())\n"
        "talk = Talk(line, time.monotonic() + 300)\n"
        "InWorker(talk).call(Target('masking', 'causal_mask', None), (3,), {}, False)\n"
    )
    judge = subprocess.Popen([sys.executable, "-c", code])
    wait_until(lambda: started.exists() and started.read_text())
    judge.kill()
    judge.wait()
    wait_until(lambda: not lives(int(started.read_text())))


def test_results_have_what_is_promised(graded: tuple[Path, Path]) -> None:
    right, wrong, _ = lines(graded[1])
    assert right.keys() >= {
        "student", "week", "exercise", "block", "status", "points", "max_points", "passed", "failed",
        "diagnosis", "feedback", "isolation", "seconds", "digest",
    }  # fmt: skip
    assert (right["status"], right["points"], right["block"]) == ("right", 2.0, "masking.causal_mask")
    assert (wrong["status"], wrong["points"]) == ("wrong", 0.0)
    assert wrong["diagnosis"]["name"] == "upper-triangle"


def test_a_second_run_grades_nothing_and_changes_no_byte(graded: tuple[Path, Path]) -> None:
    folder, out = graded
    files = [path for path in out.rglob("*.*") if path.suffix in (".jsonl", ".csv", ".html", ".md")]
    before = {path: path.read_bytes() for path in files}
    done = run(grade_command(folder, out))
    assert "0 graded now, 3 unchanged" in done.stdout
    assert {path: path.read_bytes() for path in files} == before


def test_only_what_changed_is_graded_again(graded: tuple[Path, Path], tmp_path: Path) -> None:
    folder, out = graded
    (folder / "student-02.py").write_text(RIGHT + "# found it\n")
    try:
        done = run(grade_command(folder, out))
    finally:
        (folder / "student-02.py").write_text(WRONG)
    assert "1 graded now, 2 unchanged" in done.stdout
    assert [line["points"] for line in lines(out)] == [2.0, 2.0, 2.0]


def test_regrade_forgets_one_student(filled: Gradebook) -> None:
    done = run(command("regrade", filled.folder, "student-02"))
    assert "student-02: 2 grades" in done.stdout
    assert {grade["student"] for grade in filled.grades()} == {"student-01", HOSTILE}


def test_no_cell_of_the_csv_can_run_in_a_spreadsheet(filled: Gradebook) -> None:
    filled.write_files()
    with (filled.folder / "gradebook.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert sorted(row[0] for row in rows) == sorted(
        ["student", "'" + HOSTILE, "student-01", "student-02"]
    )


def test_a_folder_without_grades_says_what_to_run_first(tmp_path: Path) -> None:
    for words in (
        ["report", tmp_path],
        ["regrade", tmp_path, "6.1"],
        ["export", tmp_path, "--to", "csv"],
    ):
        done = run(command(*words))
        assert done.returncode == 2
        assert "run `lab grade` first" in done.stderr


def test_every_entry_has_a_row_and_a_page_that_says_what_is_the_matter(tmp_path: Path) -> None:
    folder, out = tmp_path / "class", tmp_path / "grades"
    folder.mkdir()
    (folder / "student-01.zip").write_bytes(b"nothing")
    (folder / "student-02.py").write_text("def f(:")
    (folder / "student-03").mkdir()
    (folder / "student-04.ipynb").write_text("no notebook")
    done = run(grade_command(folder, out))
    assert done.returncode == 0, done.stderr
    assert "4 submissions, 0 graded now, 0 unchanged, 4 that cannot be read.\n" in done.stdout
    assert "student-01.zip: the archive is damaged" in done.stdout
    with (out / "gradebook.csv").open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    assert rows == [[f"student-{number:02}", "0.0", "0.0"] for number in range(1, 5)]
    for number, said in enumerate(["damaged", "syntax error", "nothing to grade", "no notebook"], 1):
        assert said in (out / "feedback" / f"student-{number:02}.md").read_text()


def test_what_needs_attention_is_listed(filled: Gradebook) -> None:
    files = {"masking.py": RIGHT.encode()}
    received = [
        HandedIn("student-01", files, "student-01.py", entry="same"),
        HandedIn("student-02", files, "student-02.py", entry="same", rostered=False),
        HandedIn("José", {}, rostered=True),
        HandedIn("Jose\u0301", {}, rostered=True),
        Refused("student-03.zip", "the archive is damaged", "student-03"),
    ]
    everybody = collect.everybody(received, ["student-01", "student-03", "student-04", "josé"])
    filled.receive(everybody, [])
    slow = a_grade("student-01", "6.1", 0.0, status="timeout", extra={"late_days": 2})
    filled.enter(received[0], [(slow, "key")])
    filled.trouble("student-02", "6.1", "Traceback ...")
    assert [tuple(one.values()) for one in attention(filled)] == [
        ("unreadable", "student-03", "student-03.zip could not be understood: the archive is damaged"),
        ("trouble", "student-02", "6.1"),
        ("unrostered", "student-02", "student-02.py"),
        ("missing", "student-04", ""),
        ("identical", "student-01", "student-02"),
        ("identical", "student-02", "student-01"),
        ("twins", "Jose\u0301", r"this one is 'Jose\u0301'"),
        ("twins", "José", r"this one is 'Jos\xe9'"),
        ("timeout", "student-01", "6.1"),
        ("late", "student-01", "2 days"),
    ]


def test_an_error_of_the_grader_is_written_down_and_its_student_graded_again(filled: Gradebook) -> None:
    filled.trouble("student-02", "6.1", "Traceback ...\nKeyError: 1\n")
    assert filled.write_errors() == 1
    assert (
        filled.folder / "errors.log"
    ).read_text() == "student-02: 6.1\nTraceback ...\nKeyError: 1\n\n"
    submissions = [HandedIn(name, {}) for name in filled.submissions()]
    filled.receive(submissions, [])
    assert {grade["student"] for grade in filled.grades()} == {"student-01", HOSTILE}
    assert filled.write_errors() == 0
    assert not (filled.folder / "errors.log").exists()


def test_a_gradebook_that_cannot_be_written_is_told_in_a_line(tmp_path: Path) -> None:
    folder = write_class(tmp_path / "class")
    (tmp_path / "grades").write_text("in the way")
    done = run(grade_command(folder, tmp_path / "grades"))
    assert done.returncode == 2
    assert "cannot be opened" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--week", 0], "there is no exercise '0'"),
        (["--exercises", "6.1", "--timeout", -1], "--timeout is a number of seconds above zero"),
        (["--exercises", "6.1", "--jobs", 0], "--jobs is a number of processes from 1 on"),
        (["--exercises", "6.1", "--scheduler", "tcp://127.0.0.1:1"], "needs --engine dask"),
        (["--exercises", "6.1", "--engine", "dask", "--scheduler", "x"], "no Dask scheduler"),
    ],
)  # fmt: skip
def test_a_wish_that_cannot_be_met_is_told_in_a_line(
    tmp_path: Path, words: list[object], said: str
) -> None:
    folder = write_class(tmp_path / "class")
    done = run(command("grade", folder, "--out", tmp_path / "grades", *words))
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_regrade_means_an_exercise_also_where_a_student_is_called_so(filled: Gradebook) -> None:
    one = HandedIn("6.1", {}, "6.1.py")
    filled.receive([HandedIn("student-01", {}), one], [])
    filled.enter(one, [(a_grade("6.1", id, 2.0), "key") for id in ("6.1", "8.2")])
    done = run(command("regrade", filled.folder, "6.1"))
    assert "6.1: 2 grades" in done.stdout
    assert "--student 6.1" in done.stdout
    assert [grade["exercise"] for grade in filled.grades()] == ["8.2", "8.2"]
    done = run(command("regrade", filled.folder, "--student", "6.1"))
    assert [grade["student"] for grade in filled.grades()] == ["student-01"]


def test_regrade_knows_a_student_by_the_number_or_a_name_that_is_only_theirs(filled: Gradebook) -> None:
    names = [("doejane #1", "1"), ("doejane #2", "2"), ("roejohn #3", "3")]
    filled.receive([HandedIn(name, {}, user=user) for name, user in names], [])
    known = filled.submissions()
    assert run_._student("roejohn", known, filled.folder) == "roejohn #3"
    assert run_._student("2", known, filled.folder) == "doejane #2"
    with pytest.raises(UserError, match="may be doejane #1, doejane #2"):
        run_._student("doejane", known, filled.folder)


def test_an_error_of_the_grader_ends_a_run_with_three_after_all_else_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "class", tmp_path / "grades"
    folder.mkdir()
    for name in ("student-01.zip", "student-02.zip"):
        (folder / name).write_bytes(b"nothing")
    plain = entry.open_plain
    with monkeypatch.context() as patch:
        patch.setattr(
            entry, "open_plain", lambda name, at: {}[name] if "01" in name else plain(name, at)
        )
        assert run_.grade(folder, out, ["6.1"], isolation="process", seed=7) == 3
    assert "1 unexpected error of the grader itself" in capsys.readouterr().err
    assert "KeyError: 'student-01.zip'" in (out / "errors.log").read_text()
    assert (out / "gradebook.csv").read_text().count("student-") == 2
    assert "KeyError" not in (out / "feedback" / "student-01.html").read_text()
    assert run_.grade(folder, out, ["6.1"], isolation="process", seed=7) == 0
    assert not (out / "errors.log").exists()


@pytest.mark.parametrize("out", [".", "grades", "some/where", "../class/grades"])
def test_grades_do_not_go_where_submissions_lie(tmp_path: Path, out: str) -> None:
    folder = write_class(tmp_path / "class")
    with pytest.raises(UserError, match="name a folder outside of"):
        run_.grade(folder, folder / out, ["6.1"])
    assert sorted(path.suffix for path in folder.iterdir()) == [".py"] * 3


def test_forgotten_grades_are_told_and_nothing_is_exported_without_them(filled: Gradebook) -> None:
    assert run(command("regrade", filled.folder, "student-02")).returncode == 0
    done = run(command("report", filled.folder))
    assert done.returncode == 1
    missing = "2 grades are missing (student-02: 6.1, 8.2)"
    assert done.stderr == f"{missing}: `lab grade` for these makes them.\n"
    with (filled.folder / "gradebook.csv").open(newline="") as file:
        assert ["student-02", "", "", "0"] in list(csv.reader(file))
    index = (filled.folder / "index.html").read_text()
    assert "not graded yet" in index
    page = filled.folder / "feedback" / "student-02"
    for name in (f"{page}.html", f"{page}.md"):
        assert "Not graded yet: 6.1 The causal mask, 8.2" in Path(name).read_text()
        assert "Everything is right" not in Path(name).read_text()
    for system in ("canvas", "csv", "gradescope"):
        done = run(command("export", filled.folder, "--to", system))
        assert done.returncode == 2
        assert done.stderr == f"lab: {missing}: nothing is exported until `lab grade` made them\n"
    assert not (filled.folder / "export").exists()


def test_an_exercise_that_is_forgotten_for_all_is_told_too(filled: Gradebook) -> None:
    assert filled.forget(None, "6.1") == 3
    assert filled.forget(None, "6.1") == 0
    assert filled.ungraded() == {name: ["6.1"] for name in (HOSTILE, "student-01", "student-02")}
    filled.write_files()
    head = (filled.folder / "gradebook.csv").read_text().splitlines()[0]
    assert "6.1" in head


def test_a_run_that_is_stopped_leaves_no_hole_that_nobody_sees(filled: Gradebook) -> None:
    one = HandedIn("student-01", {})
    filled.expect([(one, "6.1"), (one, "6.2")])
    assert filled.ungraded() == {"student-01": ["6.2"]}
    filled.enter(one, [(a_grade("student-01", "6.2", 1.0), "key")])
    assert filled.ungraded() == {}


def test_another_choice_of_exercises_grades_nothing_again_but_another_time_does(tmp_path: Path) -> None:
    folder, course = tmp_path / "class", tmp_path / "course.toml"
    folder.mkdir()
    entry, due = folder / "student-01.py", 1_800_000_000
    entry.write_text(RIGHT)
    when = datetime.fromtimestamp(due, UTC).isoformat()
    course.write_text(f"[deadlines]\n6 = {when}\n[late]\nper_day = 0.25\n")

    def graded(exercises: str) -> str:
        fixed = ["--isolation", "process", "--seed", 7, "--course", course]
        words = ["grade", folder, "--out", tmp_path / "grades", "--exercises", exercises, *fixed]
        done = run(command(*words))
        assert done.returncode == 0, done.stderr
        return done.stdout

    os.utime(entry, (due + 90_000, due + 90_000))
    assert "1 submission, 1 graded now, 0 unchanged.\n" in graded("6.1,6.2")
    assert [(g["points"], g.get("late_days")) for g in lines(tmp_path / "grades")] == [(1, 2), (0, 2)]
    assert "1 of 2 points, 2 days late" in (tmp_path / "grades/feedback/student-01.md").read_text()
    assert "1 submission, 0 graded now, 1 unchanged.\n" in graded("6.1")
    os.utime(entry, (due, due))
    assert "1 submission, 1 graded now, 0 unchanged.\n" in graded("6.1,6.2")
    assert [(g["points"], g.get("late_days")) for g in lines(tmp_path / "grades")] == [
        (2, None),
        (0, None),
    ]


def test_what_cannot_be_read_is_worth_what_the_course_says(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "student-01.zip").write_bytes(b"nothing")
    course = tmp_path / "course.toml"
    course.write_text('[points]\n"6.1" = 10\n')
    out = tmp_path / "grades"
    run_.grade(tmp_path / "class", out, ["6.1"], isolation="process", seed=7, course_file=course)
    assert [(line["points"], line["max_points"]) for line in lines(out)] == [(0, 10)]


def test_a_course_of_some_weeks_is_graded_on_those(tmp_path: Path) -> None:
    entry = tmp_path / "class" / "student-01.zip"
    entry.parent.mkdir()
    entry.write_bytes(b"no zip")
    course = tmp_path / "course.toml"
    course.write_text('weeks = "2, 6"\n')
    out = tmp_path / "grades"
    run_.grade(tmp_path / "class", out, [], isolation="process", seed=7, course_file=course)
    assert {line["exercise"][0] for line in lines(out)} == {"2", "6"}


def test_a_notebook_that_is_left_out_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    course = Course(notebooks=True)
    assert run_._notebooks(None, ["6.1"], select(["6.1"]), course) == []
    assert "the notebook of week 6 is left out: it is graded with all" in capsys.readouterr().out


def test_regrade_says_that_a_student_is_not_there(filled: Gradebook) -> None:
    done = run(command("regrade", filled.folder, "student-02", "nobody"))
    assert done.returncode == 2
    assert "holds no student 'nobody'" in done.stderr
    assert len(filled.grades()) == 6


def test_a_roster_names_everybody_once_and_says_what_became_of_their_work(tmp_path: Path) -> None:
    folder = write_class(tmp_path / "class")
    (folder / "student-04.zip").write_bytes(b"nothing")
    (folder / "student-01.zip").write_bytes(b"nothing")
    roster = tmp_path / "roster.csv"
    roster.write_text("student\nstudent-04\nstudent-05\nstudent-05\n")
    done = run(grade_command(folder, tmp_path / "grades", "--roster", roster))
    told = "4 submissions, 3 graded now, 0 unchanged, 1 that cannot be read; 1 on the roster handed in"
    assert told in done.stdout, done.stderr
    pages = {path.stem: path.read_text() for path in (tmp_path / "grades" / "feedback").glob("*.md")}
    assert "student-04.zip could not be understood: the archive is damaged" in pages["student-04"]
    assert "student-01.zip could not be understood" in pages["student-01"]
    assert "nothing was handed in" in pages["student-05"]
    assert "nothing was handed in" not in pages["student-04"]
