"""What a learner's check compares with, as data: inputs, expected results, traces of wrong turns."""

from __future__ import annotations

import concurrent.futures
import hashlib
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab_grader import tape
from lab_grader.errors import UserError
from lab_grader.exercises import Exercise, catalogue, package_folder
from lab_grader.runner import TESTS, Bench, check, load_tests

CACHE = Path(__file__).resolve().parents[2] / "_build" / "recordings"

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
    turns = [[list(names), trace] for names, trace in known.turns]
    return tapes, [known.right, turns, known.messages]


def record_all(exercises: list[Exercise], done: Callable[[], object]) -> dict[str, Recorded]:
    """Record many exercises on all cores; what did not change since last time is taken from a cache."""
    cache = CACHE / _digest()
    recorded: dict[str, Recorded] = {}
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), context, one_thread) as pool:
        waiting = {}
        for exercise in exercises:
            path = cache / exercise.id
            if path.exists():
                recorded[exercise.id] = tape.load(path)["recorded"]  # type: ignore[assignment]
                done()
            else:
                waiting[pool.submit(_record_by_id, exercise.id)] = path
        for future in concurrent.futures.as_completed(waiting):
            path = waiting[future]
            tapes, known = recorded[path.name] = future.result()
            tape.save({"recorded": [tapes, known]}, path)
            done()
    return recorded


def one_thread() -> None:
    """Keep a process of a pool from competing with the others."""
    import torch

    torch.set_num_threads(1)


def _record_by_id(id: str) -> Recorded:
    return record(catalogue()[id])


def _digest() -> str:
    """Sum up everything that a recording depends on."""
    hashed = hashlib.sha256()
    sources = [package_folder(), TESTS, Path(__file__).resolve().parents[1]]
    for folder in sources:
        for path in sorted(folder.rglob("*.py")):
            hashed.update(path.name.encode() + path.read_bytes())
    return hashed.hexdigest()[:16]
