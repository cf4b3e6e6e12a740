"""`lab turn`: a wrong solution is known, or becomes an entry of which name and message are missing."""

import shutil
from pathlib import Path

import pytest
import torch

from lab_grader import turn
from lab_grader.bank import engine, entries
from lab_grader.bank.engine import Space
from lab_grader.cli import main

EXERCISE = "2.2"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copied = tmp_path / "bank" / EXERCISE
    shutil.copytree(engine.FOLDER / EXERCISE, copied)
    monkeypatch.setattr(turn, "space", lambda id: Space(id, copied))
    return copied


def handed_in(folder: Path, body: str) -> list[str]:
    path = folder.parent / "theirs.py"
    path.write_text(f"import torch\n\n\ndef softmax(scores, dim=-1):\n    {body}\n")
    return ["turn", EXERCISE, str(path)]


def test_what_is_known_is_named_and_nothing_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "turns.md").read_text()
    assert main(handed_in(folder, "return 2 * torch.softmax(scores, dim)")) == 0
    assert "2.2: known as doubled\nEvery number of your result is twice" in capsys.readouterr().out
    assert main(handed_in(folder, "return torch.softmax(scores, dim)")) == 0
    assert "2.2: this is right: all" in capsys.readouterr().out
    assert (folder / "turns.md").read_text() == before


def test_what_is_new_becomes_an_entry_behind_all_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "turns.md").read_text()
    helper = "def helper(x):\n    return x / 7"
    body = f"return torch.softmax(scores, dim) * 0.37 + helper(scores)\n\n\n{helper}"
    other = body.replace("0.37", "0.73")
    drafts = [("written into", "name-me"), ("already in", "name-me"), ("written into", "name-me-2")]
    for code, (done, name) in zip((body, body, other), drafts, strict=True):
        assert main(handed_in(folder, code)) == 0
        said = capsys.readouterr().out
        assert f"2.2: {done} " in said
        assert f"turns.md as {name}: give it its name" in said
    text = (folder / "turns.md").read_text()
    assert text.startswith(before)
    assert Space(EXERCISE, folder).drafts == ["name-me", "name-me-2"]
    # Named and explained, it is a turn that does what was handed in.
    written = text.replace("## name-me\n", "## odd\n", 1).replace(entries.TELL, "You did. Do not.", 1)
    (folder / "turns.md").write_text(written)
    x = torch.tensor([1.0, 2.0, 4.0])
    torch.testing.assert_close(Space(EXERCISE, folder).variant("odd")(x), x.softmax(0) * 0.37 + x / 7)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["turn", "2", "theirs.py"], "name one exercise, such as 3.2, not 2"),
        (["turn", "2.2", "nowhere/theirs.py"], "theirs.py is not there"),
        (["turn", "2.2", "other.py"], "other.py cannot be read: it holds nothing to grade"),
        (["turn", "2.2", "broken.txt"], "broken.txt cannot be read"),
    ],
)
def test_what_cannot_be_tried_is_refused_in_a_line(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.py").write_text("def another(): ...\n")
    (tmp_path / "broken.txt").write_text("no code")
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
