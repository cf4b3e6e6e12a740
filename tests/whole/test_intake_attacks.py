"""Hostile and broken entries beside honest neighbours: each costs only itself, and is accounted for."""

from __future__ import annotations

import os
import re
import unicodedata
import zipfile
from pathlib import Path

import pytest
from entries import ENTRIES, MODULE, READ, STRICT
from small_class import RIGHT

from lab_grader.grading.gradebook.book import Gradebook
from lab_grader.grading.gradebook.reports import file_name
from lab_grader.grading.intake import collect, entry
from lab_grader.grading.intake.entry import Unreadable
from lab_grader.grading.intake.reader import Reader
from lab_grader.grading.model import HandedIn, Refused

Received = list[HandedIn | Refused]
HONEST = ["doejane #8123", "honest-01", "honest-02", "honest-03"]


def honest(folder: Path) -> Path:
    """Write a folder, an archive, a file, and what Canvas gives out."""
    (folder / "honest-01" / "lab_transformer").mkdir(parents=True)
    (folder / "honest-01" / MODULE).write_text(RIGHT)
    with zipfile.ZipFile(folder / "honest-02.zip", "w") as archive:
        archive.writestr(MODULE, RIGHT)
    for name in ("honest-03.py", "doejane_8123_1_masking.py"):
        (folder / name).write_text(RIGHT)
    for path in folder.iterdir():
        os.utime(path, (1.7e9, 1.7e9))
    return folder


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> Received:
    """All of them in one class, and what it took to read them."""
    folder = honest(tmp_path_factory.mktemp("class") / "class")
    for name, make, _ in ENTRIES.values():
        make(folder / name)
    return collect.read_submissions(folder)


def test_honest_neighbours_are_read_as_without_them(received: Received, tmp_path: Path) -> None:
    alone = collect.read_submissions(honest(tmp_path / "class"))
    assert [one.student for one in alone] == HONEST
    assert [one for one in received if one.student in HONEST] == alone


@pytest.mark.parametrize("what", ENTRIES)
def test_an_entry_costs_only_itself_and_says_why(what: str, received: Received) -> None:
    name, _, says = ENTRIES[what]
    whose = collect.name_of(name, is_file=True).student
    (found,) = (one for one in received if one.student == whose)
    if isinstance(found, Refused):
        strictly = what in STRICT and "the archive is damaged" in found.reason
        assert strictly or (says != READ and says in found.reason), found
        assert found.trouble == ""
    else:
        assert says == READ, found
        assert "torch.ones(length, length).tril().bool()" in found.files["masking.py"].decode()


def test_every_entry_is_somebodys_of_their_own(received: Received) -> None:
    everybody = collect.everybody(received, None)
    assert len(everybody) == len(ENTRIES) + len(HONEST)
    pages = {unicodedata.normalize("NFKC", file_name(one.student)).casefold() for one in everybody}
    assert len(pages) == len(everybody)
    assert all(re.fullmatch(r"[\w.-]{1,100}", page) and page[0] != "." for page in pages)
    assert not {page.partition(".")[0] for page in pages} & {"con", "nul"}


def test_what_is_not_seen_is_in_no_name(received: Received) -> None:
    names = {one.student for one in received}
    assert {"\\u3164", "honest-03\\u034f", "honest-03\\ufe0f"} <= names


def test_only_what_a_system_leaves_is_nobodys(tmp_path: Path) -> None:
    for name in (".DS_Store", "._student-01.py", "student-01.py", ".secret", "._alone.py"):
        (tmp_path / name).write_text(RIGHT)
    (tmp_path / "__MACOSX").mkdir()
    names = [one.student for one in collect.everybody(collect.read_submissions(tmp_path), None)]
    assert names == ["._alone", ".secret", "student-01"]


def test_nothing_unseen_is_left_in_what_is_shown(received: Received) -> None:
    for one in collect.everybody(received, None):
        for text in (one.student, one.source, one.unreadable, *one.notes):
            assert text.isprintable(), text
            assert len(text) <= 1000


def test_the_gradebook_takes_everybody(received: Received, tmp_path: Path) -> None:
    book = Gradebook(tmp_path)
    try:
        everybody = collect.everybody(received, None)
        book.receive(everybody, [one for one in received if isinstance(one, Refused)])
        assert len(book.submissions()) == len(everybody)
    finally:
        book.close()


@pytest.mark.linux  # it looks into /proc
@pytest.mark.parametrize(
    "what",
    ["gigabytes_that_nobody_wants_in_tar.gz", "a_module_of_gigabytes",
     "a_zip_whose_members_are_one_and_the_same", "a_zip_packed_with_lzma_that_grows",
     "a_sparse_module_of_eight_gigabytes"],
)  # fmt: skip
def test_a_bomb_takes_little_memory(tmp_path: Path, what: str) -> None:
    name, make, _ = ENTRIES[what]
    make(tmp_path / name)
    with Reader() as reader, (tmp_path / name).open("rb") as file:
        with pytest.raises(Unreadable):
            reader.read(name, file.fileno())
        assert reader._process is not None
        status = Path(f"/proc/{reader._process.pid}/status").read_text()
    most = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert most
    assert int(most[1]) < 100_000


def test_an_error_of_the_grader_costs_the_entry_it_happens_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = honest(tmp_path / "class")
    alone = collect.read_submissions(folder)
    plain = entry.open_plain

    def open_plain(name: str, at: int) -> tuple[int, os.stat_result]:
        return {}[name] if name == "honest-02.zip" else plain(name, at)

    monkeypatch.setattr(entry, "open_plain", open_plain)
    *others, refusal = collect.read_submissions(folder)
    assert others == [one for one in alone if one.student != "honest-02"]
    assert isinstance(refusal, Refused)
    assert (refusal.student, "errors.log" in refusal.reason) == ("honest-02", True)
    assert refusal.trouble.startswith("Traceback")
    assert "KeyError: 'honest-02.zip'" in refusal.trouble


def test_who_has_handed_in_before_an_unreadable_file_is_graded(tmp_path: Path) -> None:
    (tmp_path / "student-01.py").write_text(RIGHT)
    (tmp_path / "student-01.zip").write_bytes(b"nothing")
    (one,) = collect.everybody(collect.read_submissions(tmp_path), None)
    assert one.unreadable == ""
    assert any("student-01.zip could not be understood" in note for note in one.notes)
