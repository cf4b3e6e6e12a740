"""What a learner's check compares with, as data: inputs, expected results, traces of wrong turns."""

from __future__ import annotations

import ast
import concurrent.futures
import contextlib
import fcntl
import functools
import gc
import hashlib
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab_check.errors import UserError
from lab_check.exercises import Exercise, catalogue
from lab_check.files import write_whole
from lab_check.paths import CHECK, TESTS, cache, package_folder

if TYPE_CHECKING:
    from lab_check.diagnosing.turns import KnownTurns

CACHE = cache() / "recordings"
# Recordings that come with the course, and of what sources each was made.
STORED = Path(__file__).with_name("recordings")
_MADE = STORED / "made.json"
_BANK = Path(__file__).with_name("bank")
# What decides how a recording comes out; all else of the check only shows it.
_DECIDES = ("calling", "diagnosing", "running")
# But what only a sandbox runs, which decides about grades alone.
_APART = {f"{name}.py" for name in ("confine", "forkserver", "kernel", "messages", "streams", "worker")}
_DIGITS = 16  # of a sum over all sources

# What is released of an exercise: the tapes of its tests, and what is known of its wrong turns.
KINDS = ("tape", "turns")


def record(exercise: Exercise) -> list[bytes]:
    """Run an exercise's tests on the reference, and its wrong turns on the tests."""
    from lab_check.diagnosing import fingerprints
    from lab_check.running import tape
    from lab_check.running.bench import Bench, check
    from lab_check.running.tests import load_tests
    from lab_grader import bank

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
    return _stored(exercise) or _kept(exercise)


def _stored(exercise: Exercise) -> list[Path] | None:
    """Find what comes with the course, if it was made of the sources that are there."""
    if _made().get(exercise.id) != _digest(exercise):
        return None
    return [STORED / f"{exercise.id}.{kind}" for kind in KINDS]


def _made() -> dict[str, str]:
    try:
        made: dict[str, str] = json.loads(_MADE.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return made


def outdated(exercises: list[Exercise]) -> list[Exercise]:
    """List the exercises whose recordings do not come with the course, or are of older sources."""
    return [exercise for exercise in exercises if _stored(exercise) is None]


def store(exercises: list[Exercise], done: Callable[[], object]) -> None:
    """Put new recordings of exercises where the course keeps them."""
    STORED.mkdir(exist_ok=True)
    for id, paths in record_all(exercises, done).items():
        for path, kind in zip(paths, KINDS, strict=True):
            write_whole(STORED / f"{id}.{kind}", path.read_bytes())
    made = _made() | {exercise.id: _digest(exercise) for exercise in exercises}
    known = {id: made[id] for id in catalogue() if id in made}
    write_whole(_MADE, json.dumps(known, indent=1) + "\n")


def known(exercise: Exercise) -> KnownTurns:
    """Tell what is known of an exercise's wrong turns on the published inputs."""
    from lab_check.diagnosing import turns

    return turns.recorded(recorded(exercise)[1])


def _kept(exercise: Exercise) -> list[Path]:
    """Record an exercise once, and keep that as long as nothing it depends on has changed."""
    paths = _paths(exercise)
    if all(path.exists() for path in paths):
        return paths
    with _locked(CACHE / f"{exercise.id}.lock"):
        if not all(path.exists() for path in paths):
            for path, kind, content in zip(paths, KINDS, record(exercise), strict=True):
                for old in CACHE.glob(f"{exercise.id}-{'?' * _DIGITS}.{kind}"):
                    old.unlink()
                write_whole(path, content)
    return paths


def _paths(exercise: Exercise) -> list[Path]:
    digest = _digest(exercise)
    return [CACHE / f"{exercise.id}-{digest}.{kind}" for kind in KINDS]


def record_all(exercises: list[Exercise], done: Callable[[], object]) -> dict[str, list[Path]]:
    """Record many exercises, on all cores."""
    paths = {exercise.id: _stored(exercise) or _paths(exercise) for exercise in exercises}
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
    return concurrent.futures.ProcessPoolExecutor(os.cpu_count(), context, _begin)


def _begin() -> None:
    """Keep a process of a pool from competing with the others, and from outliving the command."""
    import torch

    torch.set_num_threads(1)
    gc.freeze()  # what was imported stays, and need not be looked through again and again
    end_with_parent()


def end_with_parent(grace: float = 0.0) -> None:
    """Let no process of a pool outlive a command that was killed: the pool itself would wait for ever.

    Where a process catches SIGTERM, it has some grace to clean up.
    """
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(grace)
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


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
    apart = [(CHECK / "calling" / name).read_bytes() for name in sorted(_APART)]
    sums = [*map(_digest, exercises), hashlib.sha256(b"".join(apart)).hexdigest()]
    return hashlib.sha256(" ".join(sums).encode()).hexdigest()


def _with_imported(modules: set[str]) -> list[Path]:
    """Give the files of some modules of the library, and of all that they import of it."""
    found: set[str] = set()
    while modules:
        found |= modules
        modules = set().union(*(_imported(package_folder() / f"{name}.py") for name in modules)) - found
    return [package_folder() / f"{name}.py" for name in found]


@functools.cache
def _imported(path: Path) -> frozenset[str]:
    """Name the modules of the library that a file imports, wherever it does; a text names none."""
    if path.suffix != ".py":
        return frozenset()
    library = package_folder().name
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module == library:
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{library}."):
            names.add((node.module or "").partition(".")[2])
    return frozenset(names)


def _digest(exercise: Exercise) -> str:
    """Sum up everything that a recording depends on."""
    asked = [*TESTS.glob(f"test_week{exercise.week}_*.py"), *(_BANK / exercise.id).glob("*.*")]
    modules = {catalogue()[id].module for id in (exercise.id, *exercise.needs)}
    sources = [
        *_with_imported(modules.union(*map(_imported, asked))),
        *(
            path
            for folder in _DECIDES
            for path in (CHECK / folder).glob("*.py")
            if path.name not in _APART
        ),
        *_BANK.glob("*.py"),
        *asked,
    ]
    hashed = hashlib.sha256()
    # In an order that is the same in a clone and in a wheel, whose folders lie elsewhere.
    for path in sorted(sources, key=lambda path: (path.parent.name, path.name)):
        hashed.update(path.name.encode() + path.read_bytes())
    return hashed.hexdigest()[:_DIGITS]
