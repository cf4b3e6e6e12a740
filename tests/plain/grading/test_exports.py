"""Exports against the formats that the other systems document or read."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
from pathlib import Path

import pytest
from documented import check_gradescope, exported
from small_class import HOSTILE, a_grade

from lab_check.errors import UserError
from lab_grader.grading.gradebook import exports
from lab_grader.grading.gradebook.book import Gradebook
from lab_grader.grading.gradebook.reports import file_name
from lab_grader.grading.gradebook.sheet import to_csv
from lab_grader.grading.model import HandedIn
from lab_grader.grading.run import TROUBLE


def rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_gradescope_gets_a_results_json_for_each_student(filled: Gradebook) -> None:
    folder = exported(filled, "gradescope") / "gradescope"
    assert len(list(folder.iterdir())) == 3
    for path in folder.iterdir():
        check_gradescope(json.loads(path.read_text(encoding="utf-8")))
    found = json.loads((folder / "student-02.json").read_text())
    assert found["score"] == 2.5
    assert [case["status"] for case in found["tests"]] == ["failed", "passed"]


def test_githubs_reporter_finds_status_and_points(filled: Gradebook) -> None:
    folder = exported(filled, "github") / "github"
    status = {}
    for student in ("student-01", "student-02", HOSTILE):
        found = json.loads((folder / f"{file_name(student)}.json").read_text(encoding="utf-8"))
        status[student] = found["status"], sum(test["score"] for test in found["tests"])
        assert found["max_score"] == 4
        assert {test["status"] for test in found["tests"]} <= {"pass", "fail", "error"}
    assert status == {"student-01": ("pass", 4.0), "student-02": ("fail", 2.5), HOSTILE: ("fail", 2.0)}


def test_canvas_finds_its_columns_points_and_ids(filled: Gradebook) -> None:
    head, possible, *students = rows(exported(filled, "canvas") / "canvas.csv")
    assert head[:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert head[5:] == ["6.1 The causal mask", "8.2 The length penalty"]
    assert "Points Possible" in possible[0]
    assert possible[5:] == ["2", "2"]
    by_name = {row[0]: row for row in students}
    assert by_name["student-01"] == ["student-01", "8123", "", "", "", "2.0", "2.0"]
    assert {len(row) for row in (head, possible, *students)} == {7}


def test_moodle_finds_a_user_and_a_grade_item_a_column(filled: Gradebook) -> None:
    head, *students = rows(exported(filled, "moodle") / "moodle.csv")
    assert head == ["username", "6.1 The causal mask", "8.2 The length penalty"]
    assert ["student-02", "0.5", "2.0"] in students


def test_no_spreadsheet_takes_two_exercises_for_one_number(tmp_path: Path) -> None:
    book = Gradebook(tmp_path / "grades")
    one = HandedIn("student-01", {})
    points = {"10.10": 3.0, "8.2": 2.0, "10.1": 1.0, "10.2": 2.0}
    for id, own in points.items():
        book.enter(one, [(a_grade("student-01", id, own), "key")])
    book.receive([one], [])
    for id, own in points.items():
        book.enter(one, [(a_grade("student-01", id, own), "key")])
    book.write_files()
    exported(book, "csv")
    for path in (book.folder / "gradebook.csv", book.folder / "export" / "csv.csv"):
        head, row = rows(path)
        assert head[1:-1] == [f"exercise {id}" for id in ("8.2", "10.1", "10.2", "10.10")]
        assert row[1:-1] == ["2.0", "1.0", "2.0", "3.0"]
    for system in ("canvas", "moodle"):
        head = rows(exported(book, system) / f"{system}.csv")[0]
        named = [cell for cell in head if cell[0].isdigit()]
        assert [cell.split()[0] for cell in named] == ["8.2", "10.1", "10.2", "10.10"]
        assert all(" " in cell for cell in named)


def test_names_are_those_of_the_system_that_gave_out_the_files(tmp_path: Path) -> None:
    book = Gradebook(tmp_path / "grades")
    numbers = {"one #11": "11", "two #12": "12", "two #13": "13"}
    students = [
        HandedIn(student, {}, f"{student[:3]}_{user}_99_x.py", user=user)
        for student, user in numbers.items()
    ]
    book.receive(students, [])
    for student in students:
        book.enter(student, [(a_grade(student.student, "6.1", 2.0), "key")])
    assert [row[:2] for row in exports.canvas(book)[2:]] == [
        ["one", "11"],
        ["two", "12"],
        ["two", "13"],
    ]
    assert [row[0] for row in exports.moodle(book)[1:]] == ["one", "two #12", "two #13"]
    book.close()


@pytest.mark.parametrize("to", ["canvas", "moodle", "csv"])
def test_no_exported_cell_is_a_formula(filled: Gradebook, to: str) -> None:
    cells = [cell for row in rows(exported(filled, to) / f"{to}.csv") for cell in row]
    assert "'" + HOSTILE in cells
    assert not any(cell.lstrip().startswith(("=", "+", "-", "@")) for cell in cells)


NASTY = [
    "=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "  =1", "＝1", "＋1", "－1", "＠x", "﹦1",
    "−1", "\u00a0=1", "\u200b=1", "\ufeff=1", "\u202e=1", "x;=1", "x; =1", 'x;"=1', "x,=1", "x\t=1",
    "x\n=1", "x\r\n=1", "x\u2028=1", "x|=1", '"=1', '";=1;"', "x;＝cmd|' /C calc'!A0", ";;=1",
    "\x00=1", "\udc80=1",
]  # fmt: skip
SAFE = [
    "student-01", "Ö, Ä", "a;b", 'say "x"', "O'x", "a-b", "a=b", "1 + 1", "x@example.org", "李",
    "a, b; c",
]  # fmt: skip


def lenient_cells(text: str, separator: str) -> list[str]:
    """Read CSV as a program that splits at something else: a quote counts where a cell begins."""
    read = csv.reader(text.splitlines(), delimiter=separator, strict=False)
    return [cell for row in read for cell in row] + re.split(f"[{separator}\n]", text)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("cell", NASTY)
def test_no_text_begins_a_formula_wherever_lines_are_split(cell: str, separator: str) -> None:
    for row in ([cell, 1.0], ["student-01", cell, 2.0, cell]):
        for found in lenient_cells(to_csv([row, row]).removeprefix("\ufeff"), separator):
            unseen = re.sub(r'^[\s"\u200b\u202e\ufeff]+', "", found)
            assert not unseen.startswith(tuple("=+-@＝＋－＠﹦−")), found


def test_what_is_safe_is_read_back_as_it_was() -> None:
    text = to_csv([["student", "points"], *([name, 2.5] for name in SAFE)])
    found = list(csv.reader(text.removeprefix("\ufeff").splitlines()))
    assert found == [["student", "points"], *([name, "2.5"] for name in SAFE)]


def test_a_nasty_text_stays_one_cell_in_one_line() -> None:
    found = list(csv.reader(to_csv([[cell, 1] for cell in NASTY]).splitlines()))
    assert [len(row) for row in found] == [2] * len(NASTY)


def test_excel_is_told_the_encoding_only_where_it_matters() -> None:
    assert to_csv([["student-01"]]).isascii()
    assert to_csv([["Ö"]]).startswith("\ufeff")


def test_an_export_overwrites_nothing(filled: Gradebook, tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("mine")
    with pytest.raises(UserError, match=r"mine\.csv exists already"):
        exports.export(filled.folder, "csv", mine)
    with pytest.raises(UserError, match="name a new folder"):
        exports.autograder(tmp_path, [], "full")
    assert mine.read_text() == "mine"


def test_one_file_cannot_hold_a_class(filled: Gradebook, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="one student, not 3"):
        exports.export(filled.folder, "gradescope", tmp_path / "results.json")


def test_links_of_exports_lead_to_the_book_of_the_course_or_into_the_workspace(
    filled: Gradebook,
) -> None:
    def said() -> str:
        folder = exported(filled, "gradescope") / "gradescope"
        return str(json.loads((folder / "student-02.json").read_text())["tests"][0]["output"])

    assert said().endswith("or section 6.1 of notebooks/06_masking.ipynb")
    filled.remember("book", "https://example.org/book/")
    assert said().endswith("Read more: https://example.org/book/06_masking.html#causal-mask")


def test_no_message_is_a_command_to_githubs_runner(filled: Gradebook) -> None:
    said = "::add-mask::x\n  ::error::x\nx ##[command]x\nx: y\n\x1b[2J"
    one = HandedIn("student-01", {})
    filled.enter(one, [(a_grade("student-01", "6.1", 0.0, feedback=said), "key")])
    folder = exported(filled, "github") / "github"
    message = json.loads((folder / "student-01.json").read_text())["tests"][0]["message"]
    assert not re.search(r"^\s*::|##\[|\x1b", message, re.M)
    assert "x: y" in message


def test_an_export_that_fails_for_one_is_written_for_the_others(
    filled: Gradebook, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = dataclasses.replace(a_grade("student-02", "6.1", 0.0), exercise="9.9")
    filled.enter(HandedIn("student-02", {}), [(broken, "key")])
    assert exports.export(filled.folder, "gradescope", None) == TROUBLE
    assert "student-02" in capsys.readouterr().err
    assert len(list((filled.folder / "export" / "gradescope").iterdir())) == 2
