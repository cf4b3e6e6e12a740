"""`lab release`: a learner's workspace, made from the one source that holds the solutions."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
import zipfile
from pathlib import Path

from lab_check import source
from lab_check.bars import bar
from lab_check.errors import UserError
from lab_check.exercises import Exercise, to_json
from lab_check.paths import CHECK, NOTEBOOKS, RECORDINGS, RELEASED, REQUIREMENTS, TESTS, package_folder
from lab_grader.grading.gradebook.policy import of_weeks
from lab_grader.record import KINDS, record_all

TEMPLATES = Path(__file__).with_name("workspace")
MANIFEST = ".lab/manifest.json"
# What a check leaves behind is nobody's work; backups are.
_LEFT_BEHIND = re.compile(r"(^|/)__pycache__/|^\.lab/[^/]+\.json$")
LEARNER_HEADING = "# == what a learner needs ==\n"


def release(out: Path, weeks: str = "", zipped: bool = False, book: str = "") -> int:
    """Write a workspace, or its zip, where nothing of anybody's is in the way."""
    exercises = of_weeks(weeks, "--weeks")
    if zipped and out.suffix != ".zip":
        out = out.with_name(out.name + ".zip")
    _refuse_to_overwrite(out, zipped)
    with tempfile.TemporaryDirectory(prefix="lab-release-") as temporary:
        folder = Path(temporary) / out.name.removesuffix(".zip")
        write(folder, exercises, book)
        out.parent.mkdir(parents=True, exist_ok=True)
        if zipped:
            pack(folder, out)
        else:
            if out.exists():
                shutil.rmtree(out)
            shutil.copytree(folder, out)
    print(f"Released {len(exercises)} exercises to {out}. Its README.md says how to begin.")
    return 0


def _refuse_to_overwrite(out: Path, zipped: bool) -> None:
    """Stop where a folder holds anything but an untouched release."""
    if not out.exists():
        return
    if zipped or not out.is_dir():
        raise UserError(f"{out} is there already: remove it, or choose another name")
    if not any(out.iterdir()):
        return
    try:
        manifest: dict[str, str] = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UserError(f"{out} is not empty and not a release: choose another folder") from None
    found = {path.relative_to(out).as_posix(): path for path in out.rglob("*") if path.is_file()}
    found = {name: path for name, path in found.items() if not _LEFT_BEHIND.search(name)}
    changed = [name for name, path in sorted(found.items()) if manifest.get(name) != _sha(path)]
    if changed:
        raise UserError(
            f"{out} has work in it ({changed[0]}{' and more' if changed[1:] else ''} changed since "
            "it was released): choose another folder"
        )


def _sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write(folder: Path, exercises: list[Exercise], book: str) -> None:
    """Write the workspace; the same source gives the same bytes."""
    weeks = sorted({exercise.week for exercise in exercises})
    _write_package(folder)
    check = folder / CHECK.name
    shutil.copytree(CHECK, check, ignore=shutil.ignore_patterns("__pycache__"))
    (check / RELEASED.name).write_text(to_json(exercises, book), encoding="utf-8", newline="\n")
    tests = folder / "tests" / "exercises"
    tests.mkdir(parents=True)
    shutil.copyfile(TESTS / "conftest.py", tests / "conftest.py")
    for week in weeks:
        for path in TESTS.glob(f"test_week{week}_*.py"):
            shutil.copyfile(path, tests / path.name)
    recordings = check / RECORDINGS.name
    recordings.mkdir()
    with bar("recording", len(exercises)) as done:
        recordings_of = record_all(exercises, done)
    for id, paths in recordings_of.items():
        for path, kind in zip(paths, KINDS, strict=True):
            shutil.copyfile(path, recordings / f"{id}.{kind}")
    _write_notebooks(folder / "notebooks", weeks)
    _write_requirements(folder / "requirements.txt")
    shutil.copytree(TEMPLATES, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    (folder / "gitignore").rename(folder / ".gitignore")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    manifest = {path.relative_to(folder).as_posix(): _sha(path) for path in files}
    (folder / MANIFEST).parent.mkdir()
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _write_package(folder: Path) -> None:
    package = folder / "lab_transformer"
    package.mkdir(parents=True)
    for path in sorted(package_folder().glob("*.py")):
        text = path.read_text(encoding="utf-8")
        (package / path.name).write_text(source.to_stub(text), encoding="utf-8", newline="\n")
    for path in package_folder().glob("*.safetensors"):  # trained weights, which notebooks load
        shutil.copyfile(path, package / path.name)
    (package / "py.typed").touch()


def _write_notebooks(folder: Path, weeks: list[int]) -> None:
    """Copy the weeks' notebooks without what running them printed."""
    folder.mkdir()
    for week in weeks:
        for path in sorted(NOTEBOOKS.glob(f"{week:02}_*.ipynb")):
            notebook = json.loads(path.read_text(encoding="utf-8"))
            for cell in notebook["cells"]:
                if cell["cell_type"] == "code":
                    cell["outputs"], cell["execution_count"] = [], None
            notebook["metadata"].pop("jupytext", None)
            notebook["metadata"].pop("widgets", None)
            text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
            (folder / path.name).write_text(text, encoding="utf-8", newline="\n")


def _write_requirements(path: Path) -> None:
    pins = REQUIREMENTS.read_text(encoding="utf-8")
    group = pins.split(LEARNER_HEADING)[1].split("\n# == ")[0]
    lines = [line for line in group.splitlines() if line and not line.startswith("#")]
    path.write_text("\n".join([*lines, "-e .", ""]), encoding="utf-8", newline="\n")


def pack(folder: Path, out: Path) -> None:
    """Zip a folder so that the same files give the same bytes."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                name = path.relative_to(folder.parent).as_posix()
                entry = zipfile.ZipInfo(name)  # without a date of its own: 1980
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes())
