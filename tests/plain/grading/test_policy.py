"""`course.toml`: points, deadlines and limits, and errors that name the file and the key."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from small_class import a_grade

from lab_check.errors import UserError
from lab_grader.grading.gradebook.policy import Course, read_course, read_roster


def course(tmp_path: Path, text: str) -> Course:
    path = tmp_path / "course.toml"
    path.write_text(text)
    return read_course(path)


def test_points_of_the_course_scale_the_grade(tmp_path: Path) -> None:
    settled = course(tmp_path, '[points]\n"6.1" = 10').settle(a_grade("student-01", "6.1", 0.5), "")
    assert (settled.points, settled.max_points) == (2.5, 10.0)


@pytest.mark.parametrize(
    ("submitted", "points"),
    [("2026-11-30T23:00:00Z", 2.0), ("2026-12-01T00:00:00Z", 1.8), ("2026-12-02T12:00:00Z", 1.6),
     ("2027-02-01T00:00:00Z", 1.0)],
)  # fmt: skip
def test_every_started_day_after_the_deadline_costs_up_to_a_limit(
    tmp_path: Path, submitted: str, points: float
) -> None:
    text = "[deadlines]\n6 = 2026-11-30T23:59:00Z\n[late]\nper_day = 0.1\nmost = 0.5"
    settled = course(tmp_path, text).settle(a_grade("student-01", "6.1", 2.0), submitted)
    assert settled.points == points


def test_a_deadline_without_a_time_lasts_the_whole_day(tmp_path: Path) -> None:
    text = "[deadlines]\n6 = 2026-11-30\n[late]\nper_day = 1"
    settled = course(tmp_path, text).settle(a_grade("student-01", "6.1", 2.0), "2026-11-30T23:59:00Z")
    assert settled.points == 2.0


def test_late_work_says_by_how_many_days(tmp_path: Path) -> None:
    settled = course(tmp_path, "[deadlines]\n6 = 2026-11-30T00:00:00Z").settle(
        a_grade("student-01", "6.1", 2.0), "2026-12-01T12:00:00Z"
    )
    assert settled.to_json()["late_days"] == 2


def test_limits_of_an_exercise_start_from_those_of_the_course(tmp_path: Path) -> None:
    found = course(tmp_path, '[limits]\nseconds = 5\n[limits."6.1"]\nmemory_mb = 512')
    assert found.limits_of("6.1").seconds == 5
    assert found.limits_of("6.1").memory == 512 << 20
    assert found.limits_of("6.2").memory == 2 << 30


@pytest.mark.parametrize(
    ("text", "wanted"), [("", None), ("[notebook]", True), ("[notebook]\npoints = 0", False)]
)
def test_a_table_for_notebooks_has_them_graded_unless_they_are_worth_nothing(
    tmp_path: Path, text: str, wanted: bool | None
) -> None:
    assert course(tmp_path, text).notebooks is wanted


def test_limits_of_notebooks_are_their_own(tmp_path: Path) -> None:
    found = course(tmp_path, "[limits]\nseconds = 5\n[notebook]\npoints = 6\nseconds = 300")
    assert found.notebook_points == 6
    assert found.notebook_limits.seconds == 300
    assert found.limits.seconds == 5


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("colour = 1", "colour"),
        ("[late]\nper_week = 1", "late.per_week"),
        ('[points]\n"99.9" = 1', "99.9"),
        ('[points]\n"6.1" = -1', "points.6.1"),
        ('[points]\n"6.1" = "many"', "points.6.1"),
        ("[deadlines]\n99 = 2026-11-30", "deadlines.99"),
        ('[deadlines]\n6 = "soon"', "deadlines.6"),
        ('isolation = "none"', "isolation"),
        ('weeks = "1-99"', "weeks"),
        ('weeks = "some"', "weeks"),
        ("weeks = 8", "weeks"),
        ("attempts = 0", "attempts"),
        ("attempts = true", "attempts"),
        ("[notebook]\ncolour = 1", "notebook.colour"),
        ("[notebook]\npoints = -1", "notebook.points"),
        ("[limits]\nhours = 1", "limits.hours"),
        ("points = 3", "points"),
        ("limits = 3", "limits"),
        ("[limits]\nseconds = 0", "limits"),
        ("[late]\nper_day = 3", "late.per_day"),
        ("[late]\nmost = 1.5", "late.most"),
        ('book = "the book"', "book"),
        ("this is not", "TOML"),
        ("a = " + "[" * 100_000, "nested"),
        ('[points]\n"6.1" = nan', "points.6.1"),
        ('[points]\n"6.1" = inf', "points.6.1"),
        (f'[points]\n"6.1" = 1{"0" * 400}', "points.6.1"),
        ("[limits]\nmemory_mb = inf", "limits.memory_mb"),
    ],
)
def test_a_mistake_names_the_file_and_the_key(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(UserError) as raised:
        course(tmp_path, text)
    assert "course.toml" in str(raised.value)
    assert key in str(raised.value)


def test_the_address_of_the_book_ends_where_its_pages_begin(tmp_path: Path) -> None:
    assert course(tmp_path, 'book = "https://example.org/book"').book == "https://example.org/book/"
    assert course(tmp_path, "").book == ""


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"name;e-mail\nstudent-01;x\n", "name, e-mail"),
        (b"student-01\nstudent-02\n", "student-01"),
        (b"", "nothing"),
        (b"\x1b[31mname\tgroup\n", r"\x1b[31mname, group"),
    ],
)
def test_a_roster_without_its_column_says_which_it_has(
    tmp_path: Path, content: bytes, found: str
) -> None:
    path = tmp_path / "roster.csv"
    path.write_bytes(content)
    with pytest.raises(UserError) as raised:
        read_roster(path)
    assert "roster.csv needs a first line with column names, one of them `student`" in str(raised.value)
    assert str(raised.value).endswith(f"it has: {found}")


COMMAS = 'group,student\r\n1,"Öz, A."\r\n2, student-02 \r\n,\r\n'
SEMICOLONS = COMMAS.replace(",", ";").replace("Öz;", "Öz,")
ROSTERS = {
    "UTF-8": COMMAS.encode(),
    "UTF-8 with a mark": COMMAS.encode("utf-8-sig"),
    "UTF-16": COMMAS.encode("utf-16"),
    "UTF-16, big end first": b"\xfe\xff" + COMMAS.encode("utf-16-be"),
    "semicolons": SEMICOLONS.encode("utf-8-sig"),
    "semicolons in an old encoding": SEMICOLONS.encode("latin-1"),
    "semicolons that are announced": b"sep=;\r\n" + SEMICOLONS.encode(),
    "tabs": SEMICOLONS.replace(";", "\t").encode("utf-16"),
    "another case and old ends of lines": SEMICOLONS.replace("student\r", "Student \r").encode(),
}


@pytest.mark.parametrize("kind", ROSTERS)
def test_a_roster_may_come_from_any_spreadsheet(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "roster.csv"
    path.write_bytes(ROSTERS[kind])
    assert read_roster(path) == ["Öz, A.", "student-02"]


def test_a_roster_of_one_column_needs_no_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "roster.csv"
    path.write_text("student\nÖz, A.\n\nstudent-02\n")
    assert read_roster(path) == ["Öz, A.", "student-02"]


def test_a_row_of_separators_is_nobody(tmp_path: Path) -> None:
    path = tmp_path / "roster.csv"
    path.write_text("student\n,\n;;\nstudent-02,\n")
    assert read_roster(path) == ["student-02"]


def test_a_course_file_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "course.toml"
    path.write_bytes(codecs.BOM_UTF8 + b"attempts = 2\n")
    assert read_course(path).attempts == 2


def test_a_number_of_thousands_of_digits_is_refused_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "course.toml"
    path.write_text(f"attempts = {'9' * 5000}\n")
    with pytest.raises(UserError, match=r"course\.toml"):
        read_course(path)


def test_an_unknown_key_is_told_without_its_escapes(tmp_path: Path) -> None:
    path = tmp_path / "course.toml"
    path.write_text('"\\u001b[2J" = 1\n')
    with pytest.raises(UserError) as raised:
        read_course(path)
    assert "\x1b" not in str(raised.value)
