"""The bank of wrong turns: for every exercise the ways to get it wrong, and what each leaves behind."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from lab_grader import runner
from lab_grader.course.bank.engine import Space, Turn, space, spaces
from lab_grader.diagnosis import Known
from lab_grader.errors import UserError
from lab_grader.exercises import catalogue
from lab_grader.fingerprints import Trace, Turns
from lab_grader.runner import Bench, check, load_tests
from lab_grader.submission import InProcess, import_block
from lab_grader.tape import PUBLISHED_SEED

__all__ = [
    "Space",
    "Turn",
    "backend",
    "known",
    "reference",
    "space",
    "spaces",
    "tapes",
    "trace",
    "turns",
]


def backend(exercise: str, block: Any) -> InProcess:
    """Run the reference, with one block exchanged."""
    place = catalogue()[exercise]

    def resolve(module: str, name: str) -> Any:
        return block if (module, name) == (place.module, place.name) else import_block(module, name)

    return InProcess(resolve)


@functools.cache
def tapes(exercise: str, seed: int) -> dict[str, list[Any]]:
    """Record the inputs and expectations of an exercise's tests, which are the same for every block."""
    kept: dict[str, list[Any]] = {}
    for test in load_tests()[exercise]:
        check(test, Bench(seed=seed, keep=kept))
    return kept


def trace(exercise: str, block: Any, seed: int = PUBLISHED_SEED) -> tuple[bool, Trace]:
    """Run an exercise's tests on a block: whether all hold, and what its calls did."""
    bench = Bench(lambda: backend(exercise, block), seed=seed, replay=tapes(exercise, seed))
    return _joined([runner.trace(test, bench) for test in load_tests()[exercise]])


def _joined(runs: Iterable[tuple[bool, Trace]]) -> tuple[bool, Trace]:
    holds = True
    merged: Trace = {}
    for passes, one in runs:
        holds &= passes
        merged |= one
    return holds, merged


class _Runs:
    """Runs of an exercise's tests on the variants of a block.

    A run that never came to the statements that one more change touches goes as it did without that
    change, and need not be repeated.
    """

    def __init__(self, exercise: str, seed: int) -> None:
        self._space, self._exercise, self._seed = space(exercise), exercise, seed
        # By turns taken and by test: which lines were reached, and how it ended.
        self._done: dict[tuple[str, ...], dict[str, tuple[set[int], tuple[bool, Trace]]]] = {}

    def of(self, names: tuple[str, ...]) -> tuple[bool, Trace]:
        """Run all tests on the block with these wrong turns taken."""
        return _joined(found for _, found in self._run(names).values())

    def _run(self, names: tuple[str, ...]) -> dict[str, tuple[set[int], tuple[bool, Trace]]]:
        if names in self._done:
            return self._done[names]
        reached: set[int] = set()
        block = self._space.watched(names, reached)
        tape = tapes(self._exercise, self._seed)
        bench = Bench(lambda: backend(self._exercise, block), seed=self._seed, replay=tape)
        fewer = [tuple(other for other in names if other != name) for name in names]
        touched = [self._space.touched(name) for name in names]
        if len(names) == 2 and not (touched[0] and touched[1] and touched[0].isdisjoint(touched[1])):
            touched = [None, None]  # in one statement, one change may be reached by way of the other
        done = self._done[names] = {}
        for test in load_tests()[self._exercise]:
            for one, lines in zip(fewer, touched, strict=True):
                if lines is not None and not lines & self._run(one)[test.name][0]:
                    done[test.name] = self._run(one)[test.name]
                    break
            else:
                reached.clear()
                found = runner.trace(test, bench)
                done[test.name] = set(reached), found
        return done


@functools.cache
def _runs(exercise: str, seed: int) -> _Runs:
    return _Runs(exercise, seed)


@functools.cache
def known(exercise: str, seed: int = PUBLISHED_SEED) -> Known:
    """Run all wrong turns of an exercise, and pairs of them, on the inputs of a seed."""
    right, messages = reference(exercise, seed)
    return Known(right, turns(exercise, seed, 1) + turns(exercise, seed, 2), messages)


def reference(exercise: str, seed: int) -> tuple[Trace, dict[str, str]]:
    """Run the right solution on the inputs of a seed, and give the messages of all wrong turns."""
    place = catalogue()[exercise]
    passes, right = trace(exercise, import_block(place.module, place.name), seed)
    if not passes:
        raise UserError(f"the reference of {exercise} fails its own tests on the inputs of seed {seed}")
    return right, {turn.name: turn.message for turn in space(exercise).turns}


def turns(exercise: str, seed: int, count: int) -> Turns:
    """Run wrong turns of an exercise, so many at a time, on the inputs of a seed."""
    here, runs, found = space(exercise), _runs(exercise, seed), []
    for names in here.combinations():
        if len(names) == count:
            passes, theirs = runs.of(names)
            if not passes:  # two wrong turns can cancel out
                found.append((names, theirs))
    return found
