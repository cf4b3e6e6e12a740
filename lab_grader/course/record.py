"""What a learner's check compares with, as data: inputs, expected results, traces of wrong turns."""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import hashlib
import multiprocessing
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lab_grader import tape
from lab_grader.diagnosis import Known, Turns, turns_from
from lab_grader.errors import UserError
from lab_grader.exercises import Exercise, catalogue, package_folder
from lab_grader.runner import TESTS, Bench, check, load_tests

CACHE = Path(__file__).resolve().parents[2] / "_build" / "recordings"
# What only shows results cannot change them: these may be edited without recording anew.
_SHOW = {
    "card", "checking", "cli", "diagnosis", "doctor", "importing", "notebook", "relations", "safely",
    "undoing", "workspace", "writing",
}  # fmt: skip

_DIGITS = 16  # of a sum over all sources

# The tapes of one exercise's tests, and what is known of its wrong turns.
Recorded = tuple[dict[str, list[Any]], list[Any]]


def record(exercise: Exercise) -> Recorded:
    """Run an exercise's tests on the reference, and its wrong turns on the tests."""
    from lab_grader.course import bank

    tapes: dict[str, list[Any]] = {}
    bench = Bench(keep=tapes)
    for test in load_tests()[exercise.id]:
        property = check(test, bench)
        if not property.ok:
            raise UserError(
                f"the reference of {exercise.id} fails `{property.sentence}`: {property.message}"
            )
    known = bank.known(exercise.id)
    return tapes, [known.right, _stored(known.turns), known.messages]


def recorded(exercise: Exercise) -> Recorded:
    """Record an exercise, unless that was done before and nothing it depends on has changed."""
    tapes, known = _kept(CACHE, exercise, "", lambda: list(record(exercise)))
    return tapes, known


def known(exercise: Exercise) -> Known:
    """Tell what is known of an exercise's wrong turns on the published inputs."""
    right, turns, messages = recorded(exercise)[1]
    return Known(right, turns_from(turns), messages)


def known_for(exercise: Exercise, seed: int, folder: Path) -> Known:
    """Tell what is known of an exercise's wrong turns on the inputs of a seed; kept in a folder."""
    from lab_grader.course import bank

    def turns(count: int) -> list[Any]:
        return _stored(bank.turns(exercise.id, seed, count))

    right, messages, single = _kept(
        folder, exercise, f"{seed}-1-", lambda: [*bank.reference(exercise.id, seed), turns(1)]
    )
    # Pairs take as long as all single turns do, and few classes need them.
    return Known(
        right,
        turns_from(single),
        messages,
        lambda: turns_from(_kept(folder, exercise, f"{seed}-2-", lambda: turns(2))),
    )


def _stored(turns: Turns) -> list[Any]:
    """Give turns as a recording holds them."""
    return [[list(names), trace] for names, trace in turns]


def _kept(folder: Path, exercise: Exercise, kind: str, make: Callable[[], list[Any]]) -> list[Any]:
    """Make something once, and keep it as long as nothing it depends on has changed."""
    path = folder / f"{exercise.id}-{kind}{_digest(exercise)}"
    with _locked(folder / f"{exercise.id}.lock"):
        if not path.exists():
            for old in folder.glob(f"{exercise.id}-{kind}{'?' * _DIGITS}"):
                old.unlink()
            # Not with_suffix: of 3.1 and of 3.2 it would make the same file.
            fresh = path.with_name(f"{path.name}.new")
            tape.save({"recorded": make()}, fresh)
            fresh.replace(path)
    found: list[Any] = tape.load(path)["recorded"]
    return found


def record_all(exercises: list[Exercise], done: Callable[[], object]) -> dict[str, Recorded]:
    """Record many exercises, on all cores."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), context, one_thread) as pool:
        waiting = {exercise.id: pool.submit(_record_by_id, exercise.id) for exercise in exercises}
        for _ in concurrent.futures.as_completed(waiting.values()):
            done()
        return {id: future.result() for id, future in waiting.items()}


def one_thread() -> None:
    """Keep a process of a pool from competing with the others."""
    import torch

    torch.set_num_threads(1)


def _record_by_id(id: str) -> Recorded:
    return recorded(catalogue()[id])


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
        grader / "course" / "bank" / "__init__.py",
        grader / "course" / "bank" / f"{week}.py",
    ]
    hashed = hashlib.sha256()
    for path in sorted(sources):
        hashed.update(path.name.encode() + path.read_bytes())
    return hashed.hexdigest()[:_DIGITS]
