"""The autograders that other systems run: Gradescope's archive, and the workflows of GitHub."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from documented import check_gradescope, exported
from small_class import RIGHT, a_grade

from lab_grader.grading.gradebook import exports, reports
from lab_grader.grading.gradebook.book import Gradebook
from lab_grader.grading.intake.collect import read_submissions
from lab_grader.grading.model import HandedIn


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("autograder") / "out"
    exports.autograder(out, ["6.1"], "process")
    return out


def test_the_autograder_zip_has_its_scripts_at_the_top_and_executable(made: Path) -> None:
    with zipfile.ZipFile(made / "gradescope.zip") as archive:
        for name in ("setup.sh", "run_autograder"):
            assert (archive.getinfo(name).external_attr >> 16) & stat.S_IXUSR
            assert archive.read(name).startswith(b"#!")
            checked = subprocess.run(["bash", "-n"], input=archive.read(name), check=False)
            assert checked.returncode == 0
        assert not re.search(r"@[A-Z]+@", archive.read("run_autograder").decode())


def test_the_autograder_grades_what_a_student_handed_in(made: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    with zipfile.ZipFile(made / "gradescope.zip") as archive:
        archive.extractall(source)
    (source / ".venv").symlink_to(Path(sys.prefix))
    for name in ("submission", "results"):
        (tmp_path / name).mkdir()
    (tmp_path / "submission" / "my mask.py").write_text(RIGHT)
    environment = os.environ | {"AUTOGRADER_ROOT": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", source / "run_autograder"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "results" / "results.json").read_text(encoding="utf-8"))
    check_gradescope(found)
    assert found["score"] == 2.0


def test_the_students_workflow_holds_nothing_secret(made: Path) -> None:
    text = (made / "classroom.yml").read_text()
    seed = re.search(r"--seed (\d+)", (made / "grading.yml").read_text())
    assert seed is not None
    assert not re.search(rf"secrets|token|vars\.|inherit|{seed[1]}|@[A-Z]+@", text, re.I)
    workflow = yaml.safe_load(text)
    # Whoever opens a pull request must not run with the rights of the repository.
    assert set(workflow[True]) == {"push", "workflow_dispatch"}
    assert workflow["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in workflow["jobs"].values())


def test_no_machine_that_runs_a_students_code_holds_a_token(made: Path) -> None:
    workflow = yaml.safe_load((made / "grading.yml").read_text())
    assert workflow["permissions"] == {"contents": "read"}
    holding = {name for name, job in workflow["jobs"].items() if "secrets." in yaml.dump(job)}
    grading = {name for name, job in workflow["jobs"].items() if "lab grade " in script(job, "Grade")}
    assert grading == {"grade"}
    assert holding == {"fetch", "report"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    assert len(checkouts) == 2


def script(job: dict[str, Any], name: str) -> str:
    found: str = next((step["run"] for step in job["steps"] if step.get("name") == name), "")
    return found


# A stand-in for GitHub's command: one repository is there, its second is not.
GH = """#!/usr/bin/env bash
printf '%s\\n' "$*" >>calls
case "$*" in
    *school/gone*) exit 1 ;;
    *commits/HEAD*) echo 0123456789abcdef ;;
    *tarball*) cat tarball ;;
    *commits/*/status*) if [ -f known ]; then cat known; fi ;;
esac
"""


def test_the_course_fetches_grades_and_tells_what_is_new(
    made: Path, filled: Gradebook, tmp_path: Path
) -> None:
    jobs = yaml.safe_load((made / "grading.yml").read_text())["jobs"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gh").write_text(GH)
    (tmp_path / "bin" / "gh").chmod(0o755)
    work = tmp_path / "lab_transformer"
    work.mkdir()
    (work / "masking.py").write_text(RIGHT)
    with tarfile.open(tmp_path / "tarball", "w:gz") as archive:
        archive.add(work, "school-one-0123456/lab_transformer")
    (tmp_path / "students.csv").write_text(
        "student,repository\r\nstudent-01,school/one\r\nstudent-02,school/gone"
    )

    def step(job: str, name: str) -> list[str]:
        environment = os.environ | {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        (tmp_path / "calls").write_text("")
        subprocess.run(
            ["bash", "-e", "-c", script(jobs[job], name)], cwd=tmp_path, env=environment, check=True
        )
        return (tmp_path / "calls").read_text().splitlines()

    step("fetch", "Fetch")
    (one,) = read_submissions(tmp_path / "fetched" / "class")
    assert isinstance(one, HandedIn)
    assert (one.student, one.files["masking.py"]) == ("student-01", RIGHT.encode())

    one = HandedIn("student-01", {})
    filled.enter(one, [(a_grade("student-01", "6.1", 2.0, passed=["ask @everybody"]), "key")])
    exported(filled, "github")
    reports.write(filled.folder, filled)
    told = step("report", "Report")
    assert "issue create --repo school/one --title Graded 0123456: 4 of 4 points" in told[1]
    assert "repos/school/one/statuses/0123456789abcdef" in told[2]
    assert "description=4 of 4 points" in told[2]
    feedback = (tmp_path / "feedback.md").read_text(encoding="utf-8")
    assert "student-01" in feedback
    assert "ask @\u200beverybody" in feedback

    (tmp_path / "known").write_text("4 of 4 points\n")
    assert len(step("report", "Report")) == 1
