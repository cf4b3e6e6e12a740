"""`lab serve --lab`: JupyterLab on a learner's workspace, beside the book."""

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from learner import Learner

from lab_check.paths import HOME
from lab_grader import release, serve
from lab_grader.cli import main


def test_a_page_opens_its_notebook_in_a_workspace_and_both_end_with_the_session(
    learner: Learner, tmp_path: Path
) -> None:
    book = tmp_path / "html"
    book.mkdir()
    (book / "index.html").write_text("<html><head></head></html>")
    code = (
        "from pathlib import Path; from lab_grader.serve import serve; "
        f"serve(8965, folder=Path({str(book)!r}), workspace=Path({str(learner.root)!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(2)]
        try:
            address = re.search(r"http://\S+/", said[0])
            assert address
            assert f"works in {learner.root}." in said[1]
            with urllib.request.urlopen(address.group()) as page:
                told = re.search(r'<meta name="lab" content="([^"]+)"', page.read().decode())
            assert told
            with urllib.request.urlopen(
                told[1].replace("NOTEBOOK", "notebooks/03_scaling.ipynb")
            ) as lab:
                assert lab.status == 200
            with urllib.request.urlopen(told[1].replace("lab/tree/NOTEBOOK", "api/contents")) as folder:
                names = {entry["name"] for entry in json.load(folder)["content"]}
            assert {"lab_transformer", "notebooks"} <= names
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(told[1])


def test_a_workspace_is_made_where_there_is_none_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Path] = []
    monkeypatch.setattr(release, "release", made.append)
    for folder in (tmp_path / "new", tmp_path):
        assert serve.workspace_at(folder) == folder
        assert f"no workspace in {folder} yet" in capsys.readouterr().out
    assert made == [tmp_path / "new", tmp_path]


def test_a_workspace_is_found_from_within(learner: Learner) -> None:
    assert serve.workspace_at(learner.root / "notebooks") == learner.root


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(serve.UserError, match="is no workspace, and not empty"):
        serve.workspace_at(tmp_path)


def test_the_finished_course_is_never_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "index.html").touch()
    monkeypatch.setattr(serve.serve, "__defaults__", (8000, False, tmp_path, None))
    monkeypatch.chdir(HOME)
    assert main(["serve", "--lab"]) == 2
    assert "is no workspace" in capsys.readouterr().err
