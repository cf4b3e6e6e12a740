"""The gradebook's file: one run at a time, and a disk that is full."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab_check.errors import UserError
from lab_grader.grading.gradebook.book import FILE, Gradebook, kept


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    first, second = Gradebook(tmp_path), Gradebook(tmp_path)
    first.reserve()
    with pytest.raises(UserError, match=r"another `lab grade` is at work .* name another --out"):
        second.reserve()
    second.close()
    first.close()
    third = Gradebook(tmp_path)
    third.reserve()
    third.close()
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_full_disk_is_told_in_a_sentence_and_loses_nothing(tmp_path: Path) -> None:
    book = Gradebook(tmp_path)
    book.remember("seed", "7")
    book._base.execute("pragma max_page_count = 20")  # what SQLite does on a full disk
    with pytest.raises(UserError, match=r"disk is full.* the same command goes on"), kept(tmp_path):
        book.remember("notebook", "x" * 1_000_000)
    assert book.fact("seed") == "7"
    book.close()
