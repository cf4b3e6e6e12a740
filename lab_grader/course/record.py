"""What a learner's check compares with, as data: inputs, expected results, traces of wrong turns."""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import hashlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab_grader.errors import UserError
from lab_grader.exercises import TESTS, Exercise, catalogue, package_folder

if TYPE_CHECKING:
    from lab_grader.diagnosis import Known

CACHE = Path(__file__).resolve().parents[2] / "_build" / "recordings"
# What only shows results cannot change them: these may be edited without recording anew.
_SHOW = {
    "card", "checking", "cli", "diagnosis", "doctor", "importing", "notebook", "relations", "safely",
    "undoing", "workspace", "writing",
}  # fmt: skip

_DIGITS = 16  # of a sum over all sources

# What is released of an exercise: the tapes of its tests, and what is known of its wrong turns.
KINDS = ("tape", "turns")


def record(exercise: Exercise) -> list[bytes]:
    """Run an exercise's tests on the reference, and its wrong turns on the tests."""
    from lab_grader import fingerprints, tape
    from lab_grader.course import bank
    from lab_grader.runner import Bench, check, load_tests

    tapes: dict[str, list[Any]] = {}
    bench = Bench(keep=tapes)
    for test in load_tests()[exercise.id]:
        property = check(test, bench)
        if not property.ok:
            raise UserError(
                f"the reference of {exercise.id} fails `{property.sentence}`: {property.message}"
            )
    known = bank.known(exercise.id)
    turns = fingerprints.store(known.turns, known.right)
    return [tape.pack(tapes), fingerprints.pack([known.right, turns, known.messages])]


def recorded(exercise: Exercise) -> list[Path]:
    """Record an exercise, unless that was done before and nothing it depends on has changed."""
    return _kept(CACHE, exercise, KINDS, lambda: record(exercise))


def known(exercise: Exercise) -> Known:
    """Tell what is known of an exercise's wrong turns on the published inputs."""
    from lab_grader import diagnosis

    return diagnosis.recorded(recorded(exercise)[1])


def known_for(exercise: Exercise, seed: int, folder: Path) -> Known:
    """Tell what is known of an exercise's wrong turns on the inputs of a seed; kept in a folder."""
    from lab_grader.course import bank
    from lab_grader.diagnosis import Known
    from lab_grader.fingerprints import Turns, load, pack, store, turns_from

    def kept(kind: str, make: Callable[[], Any]) -> Any:
        (path,) = _kept(folder, exercise, (f"{seed}-{kind}",), lambda: [pack(make())])
        return load(path)

    right, messages = kept("right", lambda: list(bank.reference(exercise.id, seed)))

    def turns(count: int) -> Turns:
        found = kept(str(count), lambda: store(bank.turns(exercise.id, seed, count), right))
        return turns_from(found, right)

    # Pairs take as long as all single turns do, and few classes need them.
    return Known(right, turns(1), messages, lambda: turns(2))


def _kept(
    folder: Path, exercise: Exercise, kinds: Sequence[str], make: Callable[[], list[bytes]]
) -> list[Path]:
    """Make something once, and keep it as long as nothing it depends on has changed."""
    paths = _paths(folder, exercise, kinds)
    with _locked(folder / f"{exercise.id}.lock"):
        if not all(path.exists() for path in paths):
            for path, kind, content in zip(paths, kinds, make(), strict=True):
                for old in folder.glob(f"{exercise.id}-{'?' * _DIGITS}.{kind}"):
                    old.unlink()
                # Not with_suffix: of 3.1 and of 3.2 it would make the same file.
                fresh = path.with_name(f"{path.name}.new")
                fresh.write_bytes(content)
                fresh.replace(path)
    return paths


def _paths(folder: Path, exercise: Exercise, kinds: Sequence[str]) -> list[Path]:
    digest = _digest(exercise)
    return [folder / f"{exercise.id}-{digest}.{kind}" for kind in kinds]


def record_all(exercises: list[Exercise], done: Callable[[], object]) -> dict[str, list[Path]]:
    """Record many exercises, on all cores."""
    paths = {exercise.id: _paths(CACHE, exercise, KINDS) for exercise in exercises}
    missing = [id for id, files in paths.items() if not all(path.exists() for path in files)]
    for _ in range(len(exercises) - len(missing)):
        done()
    if missing:
        with processes() as pool:
            # Later weeks are put together of more parts, and take longest.
            waiting = [pool.submit(_record_by_id, id) for id in reversed(missing)]
            for future in concurrent.futures.as_completed(waiting):
                future.result()
                done()
    return paths


def processes() -> concurrent.futures.ProcessPoolExecutor:
    """Start processes on all cores; where torch can be forked, it and the engine are read once."""
    context = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
    context.set_forkserver_preload([f"{__package__}.bank"])
    return concurrent.futures.ProcessPoolExecutor(os.cpu_count(), context, _one_thread)


def _one_thread() -> None:
    """Keep a process of a pool from competing with the others."""
    import torch

    torch.set_num_threads(1)


def _record_by_id(id: str) -> None:
    recorded(catalogue()[id])


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process record, and others wait for what it finds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def digest(exercises: list[Exercise]) -> str:
    """Sum up everything that grading some exercises depends on."""
    return hashlib.sha256(" ".join(map(_digest, exercises)).encode()).hexdigest()


def _digest(exercise: Exercise) -> str:
    """Sum up everything that a recording depends on."""
    grader = Path(__file__).resolve().parents[1]
    week = f"week{exercise.week}"
    sources = [
        package_folder() / "_checks.py",
        *{package_folder() / f"{other.module}.py" for other in catalogue().values()},
        *(path for path in grader.glob("*.py") if path.stem not in _SHOW),
        *TESTS.glob(f"test_{week}_*.py"),
        *(grader / "course" / "bank").glob("*.py"),
        *(grader / "course" / "bank" / exercise.id).glob("*.*"),
    ]
    hashed = hashlib.sha256()
    for path in sorted(sources):
        hashed.update(path.name.encode() + path.read_bytes())
    return hashed.hexdigest()[:_DIGITS]
