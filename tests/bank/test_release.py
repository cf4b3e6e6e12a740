"""The release: every block a stub, nothing that gives a solution away, nothing of anybody's lost."""

import ast
import gzip
import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from learner import EXERCISES, REFERENCE, Learner, enter, in_fork

from lab_check import source
from lab_check.diagnosing import fingerprints
from lab_check.errors import UserError
from lab_check.exercises import catalogue
from lab_check.running import tape
from lab_grader.cli import main
from lab_grader.release import release


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All weeks, released and never touched."""
    folder = tmp_path_factory.mktemp("release") / "all-weeks"
    assert release(folder) == 0
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def statuses(root: Path) -> dict[str, tuple[str, float]]:
    """Run all tests of a workspace on the code in it, whether it is started or not."""

    def run() -> int:
        enter(root)
        from lab_check.exercises import catalogue
        from lab_check.running.judging import Judge

        judge = Judge()
        results = [judge.result(exercise) for exercise in catalogue().values()]
        print(json.dumps({r.exercise.id: (r.status, r.points) for r in results}))
        return 0

    answer = in_fork(run)
    assert answer.code == 0, answer.err
    return {id: (status, points) for id, (status, points) in json.loads(answer.out).items()}


def test_there_are_at_least_forty_stubs_each_with_its_number_and_title(everything: Path) -> None:
    package = everything / "lab_transformer"
    raised = re.findall(
        r'raise NotImplementedError\(\s*"Exercise (\d+\.\d+): (.+)",?\s*\)',
        "".join(path.read_text() for path in package.glob("*.py")),
    )
    assert set(raised) == {(e.id, e.title.replace('"', '\\"')) for e in EXERCISES.values()}
    assert len(EXERCISES) >= 40


def test_signatures_and_docstrings_are_intact(everything: Path) -> None:
    for exercise in EXERCISES.values():
        name = f"{exercise.module}.py"
        ours = source.find_block((REFERENCE / name).read_text(), exercise.name)
        theirs = source.find_block((everything / "lab_transformer" / name).read_text(), exercise.name)
        assert ours is not None
        assert theirs is not None
        assert ast.get_docstring(ours) == ast.get_docstring(theirs)
        for one, other in zip(ast.walk(ours), ast.walk(theirs), strict=False):
            if isinstance(one, ast.FunctionDef) and isinstance(other, ast.FunctionDef):
                assert ast.unparse(one.args) == ast.unparse(other.args)


def test_every_stub_fails_its_tests_and_earns_nothing(everything: Path) -> None:
    found = statuses(everything)
    assert found.keys() == EXERCISES.keys()
    assert {status for status, _ in found.values()} <= {"not_started", "waiting"}
    assert {points for _, points in found.values()} == {0.0}


def test_filled_in_again_a_workspace_is_all_right(everything: Path, tmp_path: Path) -> None:
    learner = Learner(tmp_path / "filled")
    learner.root.mkdir()
    for name, content in files(everything).items():
        (learner.root / name).parent.mkdir(parents=True, exist_ok=True)
        (learner.root / name).write_bytes(content)
    learner.solve(*EXERCISES)
    assert {status for status, _ in statuses(learner.root).values()} == {"right"}


def test_filling_the_stubs_again_reproduces_the_source_exactly(everything: Path) -> None:
    for path in REFERENCE.glob("*.py"):
        stub = (everything / "lab_transformer" / path.name).read_text()
        assert source.fill(stub, path.read_text()) == path.read_text()


def test_a_workspace_has_the_weeks_of_the_course_and_the_address_of_its_book(tmp_path: Path) -> None:
    course = tmp_path / "course.toml"
    course.write_text('weeks = "3"\nbook = "https://example.edu/book"\n')
    learner = Learner(tmp_path / "workspace")
    assert main(["release", str(learner.root), "--course", str(course)]) == 0
    assert [path.name for path in (learner.root / "notebooks").iterdir()] == ["03_scaling.ipynb"]
    learner.mistake("3.2", "math.sqrt(q.shape[-1])", "q.shape[-1]")
    page = "https://example.edu/book/03_scaling.html#scaled-dot-product-attention"
    assert f"Read more: {page}\n" in learner.lab("check", "3.2").out


def test_the_same_source_gives_the_same_bytes(released: Path, tmp_path: Path) -> None:
    release(tmp_path / "again", "1-3")
    assert files(tmp_path / "again") == files(released)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        release(tmp_path / name / "week", "1", zipped=True)
    assert (tmp_path / "one/week.zip").read_bytes() == (tmp_path / "two/week.zip").read_bytes()


def squeezed(text: str) -> str:
    return re.sub(r",(?=[)\]}])", "", "".join(text.split()))


def says_something(line: str) -> bool:
    """Leave out what any code may have: lines that compute nothing, as `else:`, or only call a name.

    Called with nothing, as in `loss.backward()`.
    """
    if line.startswith("#") or re.fullmatch(r"(with |return )?[\w.]+\(\):?", line):
        return False
    return re.search(r"[-+*/@%<>&|~(\[]", line) is not None


def test_no_line_of_a_solution_is_anywhere_in_a_release(everything: Path) -> None:
    texts = {}
    for name, content in files(everything).items():
        data = gzip.decompress(content) if name.endswith((".tape", ".turns")) else content
        texts[name] = squeezed(data.decode("utf-8", errors="replace"))
    lines = {
        line
        for path in REFERENCE.glob("*.py")
        for line in source.solution_lines(path.read_text())
        if says_something(line)
    }
    assert len(lines) > 100
    leaks = [(line, name) for line in sorted(lines) for name in texts if squeezed(line) in texts[name]]
    assert leaks == []


def test_no_code_of_the_bank_or_the_reference_is_in_a_release(everything: Path) -> None:
    names = set(files(everything))
    assert not [name for name in names if re.search(r"course|bank|\.pyc$|\.pkl$|\.pt$|\.npy$", name)]
    for path in everything.rglob("*.py"):
        text = path.read_text()
        assert source.BEGIN not in text or path.name == "source.py", path
        assert "lab_grader.bank" not in text, path


def test_trained_weights_come_with_a_release(everything: Path) -> None:
    carried = {path.name for path in (everything / "lab_transformer").glob("*.safetensors")}
    assert carried == {path.name for path in REFERENCE.glob("*.safetensors")} != set()


def test_recordings_are_data_and_small(everything: Path) -> None:
    recordings = sorted((everything / "lab_check" / "recordings").iterdir())
    assert [path.name for path in recordings] == sorted(
        f"{id}.{kind}" for id in catalogue() for kind in ("tape", "turns")
    )
    for path in recordings:  # JSON, or a codec that knows numbers, text, containers and tensors only
        (tape if path.suffix == ".tape" else fingerprints).load(path)
    assert sum(path.stat().st_size for path in recordings) < 250_000 * len(catalogue())


def test_some_weeks_can_be_released(released: Path) -> None:
    names = set(files(released))
    assert "tests/exercises/test_week3_scaling.py" in names
    assert not [name for name in names if re.search(r"week([4-9]|1\d)", name)]
    facts = json.loads((released / "lab_check" / "exercises.json").read_text())
    assert {entry["id"][0] for entry in facts["exercises"]} == {"1", "2", "3"}


def test_a_zip_holds_one_folder_with_the_workspace(tmp_path: Path) -> None:
    assert main(["release", str(tmp_path / "week1"), "--weeks", "1", "--zip"]) == 0
    with zipfile.ZipFile(tmp_path / "week1.zip") as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"week1"}
    assert "week1/README.md" in names


def test_a_folder_with_work_in_it_is_never_overwritten(learner: Learner) -> None:
    learner.solve("2.1")
    before = files(learner.root)
    with pytest.raises(UserError, match=r"has work in it \(lab_transformer/attention.py"):
        release(learner.root, "1-3")
    assert files(learner.root) == before


@pytest.mark.parametrize("name", ["notes.txt", "lab_transformer/mine.py", ".lab/backups/old.py"])
def test_a_file_that_was_added_counts_as_work(learner: Learner, name: str) -> None:
    (learner.root / name).parent.mkdir(exist_ok=True)
    (learner.root / name).write_text("mine")
    with pytest.raises(UserError, match="has work in it"):
        release(learner.root, "1-3")
    assert (learner.root / name).read_text() == "mine"


def test_a_folder_that_is_no_release_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="not empty and not a release"):
        release(tmp_path, "1")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_zip_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "week.zip").write_text("mine")
    with pytest.raises(UserError, match="is there already"):
        release(tmp_path / "week", "1", zipped=True)


def test_an_untouched_release_is_written_anew_even_after_a_check(learner: Learner) -> None:
    assert learner.lab("check", "2.1").code == 1
    assert release(learner.root, "1") == 0
    assert not (learner.root / "lab_check" / "recordings" / "2.1.tape").exists()


@pytest.mark.parametrize("weeks", ["banana", "99", "0", "3-1", ",", "1-"])
def test_weeks_that_are_not_there_are_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], weeks: str
) -> None:
    assert main(["release", str(tmp_path / "out"), "--weeks", weeks]) == 2
    assert "--weeks" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture
def fresh(learner: Learner, tmp_path: Path) -> Path:
    """An environment with the course's packages and nothing of the course, workspace installed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    home = next((tmp_path / "env").glob("lib/python*/site-packages"))
    # A line in a .pth adds the packages; the .pth that leads to the course's source is not followed.
    (home / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = tmp_path / "env" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--no-index", "-e", learner.root], check=True)
    return python.parent


def test_a_workspace_stands_alone_from_the_first_stub_through_week_three(
    learner: Learner, fresh: Path
) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(word) for word in words], cwd=learner.root / "notebooks", env=environment,
            capture_output=True, text=True,
        )  # fmt: skip
        assert "Traceback" not in done.stdout + done.stderr
        return done

    where = "import lab_check, lab_transformer; print(lab_check.__file__, lab_transformer.__file__)"
    homes = run(fresh / "python", "-c", where).stdout.split()
    assert [Path(home).parents[1] for home in homes] == [learner.root] * 2
    assert run(fresh / "lab", "doctor").returncode == 0
    assert "Begin with 1.1" in run(fresh / "lab", "check").stdout

    learner.solve(*(id for id, e in EXERCISES.items() if e.week <= 3))
    slips = {
        "2.2": ("scores.amax(dim=dim, keepdim=True)", "0"),
        "3.2": ("math.sqrt(q.shape[-1])", "q.shape[-1]"),
        "3.3": ("x.reshape(*x.shape[:-1], n_heads, -1).transpose(-3, -2)",
                "x.reshape(*x.shape[:-2], n_heads, x.shape[-2], -1)"),
    }  # fmt: skip
    for id, (right, wrong) in slips.items():
        learner.mistake(id, right, wrong)
    done = run(fresh / "lab", "check", "--json")
    results = {result["exercise"]: result for result in json.loads(done.stdout)}
    assert done.returncode == 1
    assert {id for id, result in results.items() if result["status"] == "wrong"} == set(slips)
    assert {id for id, result in results.items() if result["status"] == "waiting"} == {"2.3", "3.5"}
    assert all(results[id]["diagnosis"] for id in slips)

    learner.solve(*slips)
    assert run(fresh / "lab", "check").returncode == 0
    assert "15 of 15" in run(fresh / "lab", "progress").stdout
    tests = run(
        fresh / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", learner.root / "tests"
    )
    assert tests.returncode == 0, tests.stdout
