"""Whatever was handed in becomes a submission, or a line that says why not."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_class import RIGHT, WRONG

from lab_check.errors import UserError
from lab_grader.grading.intake import collect, entry
from lab_grader.grading.intake.reader import Reader
from lab_grader.grading.model import HandedIn, Refused

NAME = "lab_transformer/masking.py"


@pytest.fixture(scope="module", autouse=True)
def one_reader() -> Iterator[None]:
    """Let all tests share a process that reads: most of their time would go into starting it."""
    with Reader() as reader, pytest.MonkeyPatch.context() as patch:
        patch.setattr(collect, "Reader", lambda: contextlib.nullcontext(reader))
        yield


def zipped(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def tarred(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def folder(path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


def notebook(path: Path, code: str) -> Path:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": f"%%exercise 6.1\n{code}"}
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def only(class_folder: Path) -> HandedIn | Refused:
    (found,) = collect.read_submissions(class_folder)
    return found


def code(found: HandedIn | Refused) -> str:
    assert isinstance(found, HandedIn), found
    return found.files["masking.py"].decode()


def reason(found: HandedIn | Refused) -> str:
    assert isinstance(found, Refused), found
    return found.reason


@pytest.mark.parametrize(
    "kind", ["folder", "zip", "tar", "tar.gz", "py", "ipynb", "checkout", "nested"]
)
def test_every_container_gives_the_learners_code(tmp_path: Path, kind: str) -> None:
    name = tmp_path / "student-01"
    match kind:
        case "folder":
            folder(name, {NAME: RIGHT})
        case "zip":
            zipped(tmp_path / "student-01.zip", {NAME: RIGHT})
        case "tar" | "tar.gz":
            tarred(tmp_path / f"student-01.{kind}", {NAME: RIGHT})
        case "py":
            (tmp_path / "student-01.py").write_text(RIGHT)
        case "ipynb":
            notebook(tmp_path / "student-01.ipynb", RIGHT)
        case "checkout":
            folder(name, {NAME: RIGHT, ".git/HEAD": "ref", ".git/hook.py": "x", "README.md": "x"})
        case "nested":
            folder(name, {f"my work/{NAME}": RIGHT})
    found = only(tmp_path)
    assert isinstance(found, HandedIn)
    assert found.student == "student-01"
    assert "torch.ones(length, length).tril().bool()" in code(found)


def test_an_archive_inside_the_students_folder_is_opened(tmp_path: Path) -> None:
    (tmp_path / "student-01").mkdir()
    zipped(tmp_path / "student-01" / "work.zip", {NAME: RIGHT})
    assert code(only(tmp_path)) == RIGHT


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("studentone_8123_99_masking.py", "studentone #8123"),
        ("studentone_LATE_8123_99_masking-3.py", "studentone #8123"),
        ("Student One_8123_assignsubmission_file_masking.py", "Student One #8123"),
        ("student ö 一.py", "student ö 一"),
    ],
)
def test_the_student_is_read_from_the_name(tmp_path: Path, name: str, student: str) -> None:
    (tmp_path / name).write_text(RIGHT)
    found = only(tmp_path)
    assert isinstance(found, HandedIn)
    assert found.student == student


def test_moodles_folders_name_the_student(tmp_path: Path) -> None:
    folder(tmp_path / "Student One_8123_assignsubmission_file", {"masking.py": RIGHT})
    found = only(tmp_path)
    assert isinstance(found, HandedIn)
    assert found.student == "Student One #8123"


def test_of_several_attempts_the_newest_counts(tmp_path: Path) -> None:
    (tmp_path / "studentone_8123_99_masking-10.py").write_text(RIGHT)
    (tmp_path / "studentone_8123_98_masking-9.py").write_text(WRONG)
    found = only(tmp_path)
    assert code(found).count("tril")
    assert isinstance(found, HandedIn)
    assert any("several attempts" in note for note in found.notes)


def test_attempts_beyond_the_limit_are_left_out_and_named(tmp_path: Path) -> None:
    for number, text in ((1, WRONG), (2, RIGHT), (3, WRONG)):
        (tmp_path / f"studentone_8123_{number}_masking-{number}.py").write_text(text)
    (found,) = collect.read_submissions(tmp_path, attempts=2)
    assert code(found).count("tril")
    assert isinstance(found, HandedIn)
    assert any("not looked at: studentone_8123_3_masking-3.py" in note for note in found.notes)


def test_a_high_number_in_a_name_is_not_taken_for_an_attempt_too_many(tmp_path: Path) -> None:
    (tmp_path / "studentone_8123_99_masking-7.py").write_text(RIGHT)
    (found,) = collect.read_submissions(tmp_path, attempts=1)
    assert isinstance(found, HandedIn)


@pytest.mark.parametrize(
    "path", ["../masking.py", "/masking.py", "a/../../masking.py", "C:\\masking.py"]
)
@pytest.mark.parametrize("make", [zipped, tarred])
def test_a_path_that_leads_outside_is_refused(tmp_path: Path, path: str, make: object) -> None:
    suffix = "zip" if make is zipped else "tar"
    assert callable(make)
    make(tmp_path / f"student-01.{suffix}", {NAME: RIGHT, path: WRONG})
    assert "leads outside" in reason(only(tmp_path))


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("SECRET = 1\n")
    work = tmp_path / "class"
    folder(work / "student-01", {NAME: RIGHT})
    (work / "student-01" / "lab_transformer" / "loss.py").symlink_to(secret)
    (work / "student-02.py").symlink_to(secret)
    with tarfile.open(work / "student-03.tar", "w") as archive:
        member = tarfile.TarInfo("lab_transformer/masking.py")
        member.type, member.linkname = tarfile.SYMTYPE, str(secret)
        archive.addfile(member)
    found = collect.read_submissions(work)
    assert [type(one) for one in found] == [HandedIn, Refused, Refused]
    assert isinstance(found[0], HandedIn)
    assert not any(b"SECRET" in content for content in found[0].files.values())


def test_a_zip_bomb_is_left_out_without_being_unpacked(tmp_path: Path) -> None:
    zipped(tmp_path / "student-01.zip", {NAME: "#" * 50_000_000})
    assert "larger than 1 MiB" in reason(only(tmp_path))


def test_an_archive_of_too_many_files_is_refused(tmp_path: Path) -> None:
    zipped(tmp_path / "student-01.zip", {f"{number}.txt": "" for number in range(entry.MEMBERS + 1)})
    assert "more than" in reason(only(tmp_path))


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "student-01.zip", {NAME: RIGHT})
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    assert "hand it in without a password" in reason(only(tmp_path))


@pytest.mark.parametrize("name", ["student-01.zip", "student-01.tar.gz", "student-01.tar.xz"])
def test_a_damaged_archive_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04 and then nothing")
    assert "damaged" in reason(only(tmp_path))


def test_an_archive_that_ends_too_early_is_refused(tmp_path: Path) -> None:
    path = tarred(tmp_path / "student-01.tar.gz", {NAME: RIGHT + "#" * 10_000})
    path.write_bytes(path.read_bytes()[:-30])
    assert "damaged" in reason(only(tmp_path))


def test_text_that_is_not_utf_8_is_told(tmp_path: Path) -> None:
    (tmp_path / "student-01.py").write_bytes(b"# caf\xe9\n" + RIGHT.encode())
    assert "not UTF-8" in reason(only(tmp_path))


def test_five_gigabytes_are_not_read(tmp_path: Path) -> None:
    with (tmp_path / "student-01.py").open("wb") as file:
        file.truncate(5 << 30)
    work = folder(tmp_path / "student-02", {NAME: RIGHT})
    with (work / "lab_transformer" / "loss.py").open("wb") as file:
        file.truncate(5 << 30)
    found = collect.read_submissions(tmp_path)
    assert code(found[0]) == RIGHT
    assert "larger than" in reason(found[1])


def test_one_bad_entry_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "student-01.py").write_text(RIGHT)
    (tmp_path / "student-02").mkdir()
    (tmp_path / "notes.docx").write_bytes(b"x")
    os.mkfifo(tmp_path / "student-03.py")
    found = collect.read_submissions(tmp_path)
    assert code(found[0]).count("tril")
    assert sorted(one.source for one in found[1:] if isinstance(one, Refused)) == [
        "notes.docx", "student-02", "student-03.py",
    ]  # fmt: skip


def test_an_empty_folder_has_no_submissions(tmp_path: Path) -> None:
    assert collect.read_submissions(tmp_path) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        collect.read_submissions(tmp_path / "nowhere")


CLASSES = {
    "canvas": {"doejane_8123_991_mask.py": RIGHT, "roejohn_LATE_8124_992_mask-2.py": RIGHT},
    "moodle": {
        f"{name}_{number}_assignsubmission_file_/mask.py": RIGHT
        for number, name in enumerate(["doejane", "roejohn"], 77001)
    },
    "folders": {f"class/{name}/lab_transformer/masking.py": RIGHT for name in ("doejane", "roejohn")},
}


@pytest.mark.parametrize("kind", CLASSES)
def test_the_archive_of_a_class_is_a_class(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "submissions.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in CLASSES[kind].items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 11, 30, 12, 0, 0)), text)
    found = collect.read_submissions(path)
    students = [one.student.partition(" #")[0] for one in found if isinstance(one, HandedIn)]
    assert students == ["doejane", "roejohn"]
    assert all(isinstance(one, HandedIn) and "2026-11-30" in one.submitted_at for one in found)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("make", [zipped, folder])
def test_what_lies_alone_in_a_class_is_one_students_whatever_it_holds(
    tmp_path: Path, kind: str, make: Callable[[Path, dict[str, str]], Path]
) -> None:
    make(tmp_path / ("student-01.zip" if make is zipped else "student-01"), CLASSES[kind])
    assert only(tmp_path).student == "student-01"


def test_a_student_alone_in_the_archive_of_a_class_is_one_whatever_their_folder_holds(
    tmp_path: Path,
) -> None:
    files = {
        f"Student One_9_assignsubmission_file_/{name}": text for name, text in CLASSES["canvas"].items()
    }
    (found,) = collect.read_submissions(zipped(tmp_path / "class.zip", files))
    assert found.student == "Student One #9"


def test_a_member_of_a_classs_archive_that_leads_outside_costs_only_itself(tmp_path: Path) -> None:
    path = zipped(
        tmp_path / "class.zip", {"../doejane_1_2_mask.py": RIGHT, "roejohn_3_4_mask.py": RIGHT}
    )
    found, refusal = collect.read_submissions(path)
    assert (found.student, code(found).count("tril")) == ("roejohn #3", 1)
    assert "leads outside" in reason(refusal)
    assert not list(tmp_path.parent.glob("doejane*"))


def test_the_work_of_a_single_student_is_no_class(tmp_path: Path) -> None:
    zipped(tmp_path / "student-01.zip", {"work/lab_transformer/masking.py": RIGHT})
    (found,) = collect.read_submissions(tmp_path)
    assert isinstance(found, HandedIn)
    assert found.student == "student-01"


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize("kind", ["py", "ipynb"])
def test_what_only_some_call_an_end_of_a_line_moves_no_line(
    tmp_path: Path, odd: str, kind: str
) -> None:
    text = (
        f"# a{odd}b{odd}c\nNAME = 'x{odd}y'\n{RIGHT}    # d{odd}e\n\ndef helper():\n    return NAME\n"
    )
    if kind == "py":
        (tmp_path / "student-01.py").write_text(text, newline="")
    else:
        notebook(tmp_path / "student-01.ipynb", text)
    found = code(only(tmp_path))
    compile(found, "masking.py", "exec")
    assert RIGHT.partition("def ")[2] in found
    assert "return NAME" in found
    assert f"NAME = 'x{odd}y'" in found


def test_a_syntax_error_costs_the_exercise_that_it_is_in(tmp_path: Path) -> None:
    broken = "def padding_mask(tokens\n    return 1\n\n\ndef f():\n    pass\n"
    (tmp_path / "student-01.py").write_text(f"from __future__ import annotations\n{RIGHT}\n{broken}")
    found = only(tmp_path)
    assert RIGHT.partition("def ")[2] in code(found)
    assert "raise SyntaxError(\"Exercise 6.2: a syntax error in line 8: '(' was never closed" in code(
        found
    )
    assert "def f():" in code(found)
    compile(code(found), "masking.py", "exec")
    assert isinstance(found, HandedIn)
    assert any("exercise 6.2 in student-01.py could not be read" in note for note in found.notes)


def test_a_cell_with_a_syntax_error_is_told_by_its_own_line(tmp_path: Path) -> None:
    notebook(tmp_path / "student-01.ipynb", "import torch\n\ndef causal_mask(:\n")
    found = only(tmp_path)
    assert isinstance(found, HandedIn)
    assert "a syntax error in line 4" in found.notes[0]


def test_a_roster_knows_students_by_name_number_and_other_ways_to_type_them(tmp_path: Path) -> None:
    for name in ("doejane_8123_1_m.py", "roejohn_8124_1_m.py", "Jose\u0301.py", "stranger.py"):
        (tmp_path / name).write_text(RIGHT)
    roster = ["DoeJane", "8124", "José", "student-09"]
    everybody = collect.everybody(collect.read_submissions(tmp_path), roster)
    assert {one.student: one.rostered for one in everybody} == {
        "doejane #8123": True, "roejohn #8124": True, "Jose\u0301": True, "student-09": True,
        "stranger": False,
    }  # fmt: skip
    assert [one.student for one in everybody if one.missing] == ["student-09"]


def test_who_changes_their_name_in_the_lms_is_the_same_and_of_one_name_two_are_two(
    tmp_path: Path,
) -> None:
    for name in ("doejane_8123_1_m-1.py", "roejane_8123_2_m-2.py", "roejane_8124_3_m.py"):
        (tmp_path / name).write_text(RIGHT)
    found = collect.read_submissions(tmp_path)
    assert [one.student for one in found] == ["roejane #8123", "roejane #8124"]


def test_a_notebook_may_carry_pictures(tmp_path: Path) -> None:
    path = notebook(tmp_path / "student-01.ipynb", RIGHT)
    picture = {"cell_type": "code", "source": "plot()", "outputs": [{"image/png": "A" * (2 << 20)}]}
    facts = json.loads(path.read_text())
    path.write_text(json.dumps(facts | {"cells": [*facts["cells"], picture]}))
    assert RIGHT.partition("def ")[2] in code(only(tmp_path))


def test_a_hundred_bad_attempts_are_told_in_few_words(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"doejane_8123_{number}_m-{number}.zip").write_bytes(b"nothing")
    (one,) = collect.everybody(collect.read_submissions(tmp_path), None)
    assert (one.user, len(one.unreadable) <= 400, len(one.notes)) == ("8123", True, 21)


TWO = RIGHT + "\n\ndef padding_mask(t):\n    return 1\n"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (RIGHT, "def padding_mask(tokens):\n    return tokens\n"),
        (TWO, "def padding_mask(t):\n    return 2\n"),
        (f"from __future__ import annotations\n{RIGHT}", "def padding_mask(t):\n    pass\n"),
        (RIGHT, "padding_mask = 1\ndef padding_mask(t):\n    return 2\n"),
        (RIGHT, "def padding_mask(t):\n    nonlocal t\n"),
        (f"global x\n{RIGHT}", "x = 1\ndef padding_mask(t):\n    return x\n"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_blocks_that_are_placed_at_once_are_placed_as_one_by_one(
    first: str, second: str, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [f"%%exercise 6.1\n{first}", f"%%exercise 6.2\n{second}"]
    written = [
        {"cell_type": "code", "source": text} for text in (reversed(sources) if turned else sources)
    ]
    tree = entry.Tree()
    tree.add("student.ipynb", json.dumps({"cells": written}).encode())
    at_once = entry.understand(tree)
    monkeypatch.setattr(entry, "_placed_at_once", lambda blocks: {})
    assert at_once == entry.understand(tree)
