"""Whatever is handed in, or lies beside it, is read, or refused in a line; nothing else happens."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_class import RIGHT, a_grade

from lab_check.errors import UserError
from lab_grader.grading.gradebook.book import Gradebook
from lab_grader.grading.gradebook.policy import read_course, read_roster
from lab_grader.grading.gradebook.reports import file_name
from lab_grader.grading.intake import clean, collect, entry
from lab_grader.grading.intake.entry import ARCHIVES, Unreadable
from lab_grader.grading.intake.reader import Reader
from lab_grader.grading.model import HandedIn, Refused

Draw = Callable[[st.SearchStrategy[Any]], Any]
MODULE = "lab_transformer/masking.py"
ODD = [
    "\x1b[2J",
    "\u202e",
    "\udcff",
    "\0",
    "\n",
    "\x85",
    "\u2028",
    "\\",
    " ",
    "..",
    "/",
    "_1_2_",
    " #1",
]
letters = st.text(st.characters(), max_size=12)  # with half characters, too
names = st.lists(letters | st.sampled_from(ODD), max_size=6).map("".join)
paths = names | st.sampled_from([MODULE, "masking.py", "a.ipynb", "a.py", "a.zip", "C:\\x.py", "/x.py"])
PARTS = [
    RIGHT, "import torch\n", "def causal_mask(", "def padding_mask(tokens, pad_id):\n", "  return 1\n",
    "class Encoder:\n", "@", "(" * 90, "[" * 90, "-" * 3000, "not " * 300, '"""', "'", "\\\n", "\x0c",
    "if 1:\n", "else:\n", "from __future__ import annotations\n", "lambda: " * 300, "# \u2028\n", "\0",
    "x = causal_mask\n", "\r", "\r\n", "\t", "async ", "yield\n", "return\n", "f'{", "\ud800",
    "1" * 5000, "\ufeff",
]  # fmt: skip
code = st.lists(st.sampled_from(PARTS) | letters, max_size=8).map("".join)


def written(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@st.composite
def damaged(draw: Draw, whole: st.SearchStrategy[bytes]) -> bytes:
    """Change, cut, repeat or insert some bytes, or none."""
    content = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(content)))
        length = draw(st.sampled_from([1, 2, 4, 8, 30, 512]))
        match draw(st.sampled_from(["change", "cut", "repeat", "insert"])):
            case "change":
                content[at : at + length] = draw(st.binary(min_size=length, max_size=length))
            case "cut":
                del content[at : at + length]
            case "repeat":
                content[at:at] = content[at : at + length]
            case "insert":
                content[at:at] = draw(st.sampled_from([b"\0", b"\xff", b"9"])) * length
    return bytes(content)


# Made once: hypothesis looks up the source of every lambda that it is given.
plain = st.none() | st.booleans() | st.integers() | st.floats() | letters
anything = st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(letters, inner))
heads = st.sampled_from(
    ["%%exercise 6.1\n", "%%exercise 6.2\r\n", "%%exercise", "%%exercise 9.9\n", ""]
)
source = st.tuples(heads, code).map("".join) | st.lists(letters) | anything
cell = st.fixed_dictionaries({"cell_type": st.just("code") | letters, "source": source}) | anything


@st.composite
def notebooks(draw: Draw) -> bytes:
    """Write JSON that is nearly a notebook."""
    facts = {"cells": draw(st.lists(cell, max_size=4) | anything)}
    return json.dumps(draw(st.just(facts) | anything)).encode()


contents = st.one_of(code.map(written), notebooks(), st.binary(max_size=200), st.just(RIGHT.encode()))


@st.composite
def zips(draw: Draw) -> bytes:
    out = io.BytesIO()
    method = draw(
        st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    )
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
        warnings.simplefilter("ignore")  # of two members with one name
        for number, name in enumerate(draw(st.lists(paths, max_size=4))):
            member = zipfile.ZipInfo(name.encode("utf-8", "replace").decode() or str(number))
            member.external_attr = draw(st.sampled_from([0o644, 0o120777, 0o40755])) << 16
            archive.writestr(member, draw(contents), method)
    return out.getvalue()


@st.composite
def tars(draw: Draw) -> bytes:
    out = io.BytesIO()
    form = draw(st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
    with tarfile.open(
        fileobj=out, mode=draw(st.sampled_from(["w", "w:gz", "w:bz2", "w:xz"])), format=form
    ) as archive:
        for name in draw(st.lists(paths, max_size=4)):
            member = tarfile.TarInfo(name.encode("utf-8", "replace").decode())
            content = draw(contents)
            member.size = len(content)
            kinds = [
                tarfile.REGTYPE,
                tarfile.DIRTYPE,
                tarfile.SYMTYPE,
                tarfile.LNKTYPE,
                tarfile.GNUTYPE_SPARSE,
            ]
            member.type = draw(st.sampled_from(kinds))
            member.mtime = draw(st.integers(0, 1 << 40))
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    with Reader() as reader:
        yield reader


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gradebook]:
    book = Gradebook(tmp_path_factory.mktemp("grades"))
    yield book
    book.close()


def read(reader: Reader, name: str, content: bytes) -> None:
    """Read an entry as the course's side does: a package, or a reason; never an error of the grader."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        file.seek(0)
        try:
            files, notes, _ = reader.read(name, file.fileno())
        except Unreadable as error:
            files, notes, reason = {}, [], str(error)
        else:
            reason = ""
    assert bool(files) != bool(reason)
    assert "crashed" not in reason
    for module in files:
        assert module.removesuffix(".py").isidentifier()
    HandedIn("student-01", files, notes=clean.clean_all(notes)).digest  # noqa: B018


@given(damaged(zips()))
def test_a_zip_is_read_or_refused(reader: Reader, content: bytes) -> None:
    read(reader, "student-01.zip", content)


@given(damaged(tars()), st.sampled_from([suffix for suffix in ARCHIVES if suffix != ".zip"]))
def test_a_tar_is_read_or_refused(reader: Reader, content: bytes, suffix: str) -> None:
    read(reader, f"student-01{suffix}", content)


@given(notebooks() | damaged(notebooks()))
def test_a_notebook_is_read_or_refused(reader: Reader, content: bytes) -> None:
    read(reader, "student-01.ipynb", content)


@given(code.map(written) | damaged(code.map(written)))
def test_a_file_is_read_or_refused(reader: Reader, content: bytes) -> None:
    read(reader, "student-01.py", content)


@given(st.lists(names, min_size=2, max_size=5, unique=True))
def test_names_are_clean_and_stay_apart(found: list[str]) -> None:
    shown = [clean.clean_name(name) for name in found]
    assert len(set(shown)) == len(found)
    for name in found:
        named = collect.name_of(name, is_file=False)
        assert named.student.isprintable()
        assert len(named.student) <= clean.NAME + 30
        page = file_name(named.student)
        assert "/" not in page
        assert page not in ("", ".", "..")
        assert len(page.encode()) < 250
    people = {collect.name_of(name, is_file=False)[:2] for name in found}
    assert len({file_name(student) for student, _ in people}) == len({student for student, _ in people})


@given(names)
def test_sentences_are_clean(text: str) -> None:
    assert clean.clean(text).isprintable()
    assert len(clean.clean(text)) <= clean.SENTENCE


def with_file(content: bytes, reads: Callable[[Path], Any]) -> Any:
    """Read a file of the instructor's: something of use, or a line."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(content)
        try:
            return reads(Path(file.name))
        except UserError:
            return None


cells = st.sampled_from(["student", "Student", " student ", "email", '"', '"a;b"', "", "Öz"]) | letters
encodings = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "latin-1"])


@given(
    st.lists(st.lists(cells, max_size=4), max_size=5),
    st.sampled_from(",;\t|"),
    encodings,
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_a_roster_gives_names_or_a_line(
    rows: list[list[str]], delimiter: str, encoding: str, end: str
) -> None:
    text = end.join(delimiter.join(row) for row in rows)
    content = text.encode(encoding, "replace")
    for name in with_file(content, read_roster) or []:
        assert name.isprintable()
        assert name


@given(damaged(st.sampled_from(["student;email\r\nstudent-01;x\r\n", "student\nöz"]).map(str.encode)))
def test_a_damaged_roster_gives_names_or_a_line(content: bytes) -> None:
    with_file(content, read_roster)


keys = st.sampled_from(
    ["attempts", "isolation", "book", "[points]\n'6.1'", "[deadlines]\n6", "[late]\nper_day", "points",
     "[late]\nmost", "[limits]\nseconds", "[limits]\nmemory_mb", "[limits.'6.1']\nseconds", "late",
     "[notebook]\npoints"]
)  # fmt: skip
settings_ = st.sampled_from(
    ["3", "0", "-1", "nan", "inf", "1e308", "9" * 400, "true", "'full'", "[]", "{}", "{a = 1}",
     "2026-11-30", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "12:00:00",
     "'https://example.org'", "[[[[]]]]"]
)  # fmt: skip


@given(st.lists(st.tuples(keys, settings_), max_size=3), letters)
def test_a_course_file_settles_grades_or_says_what_is_wrong(
    lines: list[tuple[str, str]], more: str
) -> None:
    text = "\n".join(f"{key} = {value}" for key, value in lines)
    for content in (text, f"{text}\n{more}"):
        course = with_file(written(content), read_course)
        if course is not None:
            grade = course.settle(a_grade("student-01", "6.1", 0.5), "2026-12-01T00:00:00+00:00")
            assert math.isfinite(grade.points)
            assert 0 <= grade.points <= grade.max_points


@st.composite
def classes(draw: Draw) -> dict[bytes, dict[str, bytes] | bytes]:
    """Choose the entries of a class: folders and files under names that a disk can hold."""
    found: dict[bytes, dict[str, bytes] | bytes] = {}
    for name in draw(st.lists(names, max_size=5)):
        raw = re.sub("[\ud800-\udc7f\udd00-\udfff/\0]", "", name).encode("utf-8", "surrogateescape")
        raw = raw[:200] + draw(st.sampled_from([b".py", b".zip", b"", b".ipynb"]))
        if raw not in (b"", b".", b".."):
            inner = st.dictionaries(
                st.sampled_from(["masking.py", "x.py", "x.ipynb", "x.zip"]), contents, max_size=3
            )
            found[raw] = draw(contents | inner)
    return found


@pytest.mark.linux  # disks of macOS hold text only, and no two names that differ by case
@given(classes())
def test_nobody_of_a_class_is_lost(
    reader: Reader, book: Gradebook, found: dict[bytes, dict[str, bytes] | bytes]
) -> None:
    with tempfile.TemporaryDirectory() as place:
        for name, inside in found.items():
            path = Path(place) / os.fsdecode(name)
            if isinstance(inside, bytes):
                path.write_bytes(inside)
            else:
                path.mkdir()
                for inner, content in inside.items():
                    (path / inner).write_bytes(content)
        (Path(place) / "honest.py").write_text(RIGHT)
        with mock.patch.object(collect, "Reader", return_value=contextlib.nullcontext(reader)):
            received = collect.read_submissions(Path(place))
        everybody = collect.everybody(received, ["honest", "missing"])
        students = {one.student for one in everybody}
        people = {collect.Named(one.student, one.user).person for one in everybody}
        for path in Path(place).iterdir():
            if not path.name.startswith("._"):
                assert collect.name_of(path.name, path.is_file()).person in people
        assert not any(one.trouble for one in received if isinstance(one, Refused))
        (honest,) = (one for one in everybody if one.student == "honest")
        assert honest.files == entry.stubs() | honest.files
        assert "tril" in honest.files["masking.py"].decode()
        book.receive(everybody, [one for one in received if isinstance(one, Refused)])
        assert set(book.submissions()) == students
