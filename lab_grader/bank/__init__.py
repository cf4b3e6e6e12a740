"""The bank of wrong turns: for every exercise the ways to get it wrong, and what each leaves behind."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from lab_check.calling.calls import InProcess, import_block
from lab_check.diagnosing.fingerprints import Trace, Turns
from lab_check.diagnosing.turns import KnownTurns
from lab_check.errors import UserError
from lab_check.exercises import catalogue
from lab_check.running.bench import Bench, check, trace_test
from lab_check.running.tape import PUBLISHED_SEED
from lab_check.running.tests import Test, load_tests
from lab_grader.bank.engine import Space, Turn, space, spaces

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
    return _joined([trace_test(test, bench) for test in load_tests()[exercise]])


def _joined(runs: Iterable[tuple[bool, Trace]]) -> tuple[bool, Trace]:
    holds = True
    merged: Trace = {}
    for passes, one in runs:
        holds &= passes
        merged |= one
    return holds, merged


# Which lines a run reached, and how it ended.
_Run = tuple[set[int], tuple[bool, Trace]]


class _Runs:
    """Runs of an exercise's tests on the variants of a block.

    A run that never came to the statements that one more change touches goes as it did without that
    change, and need not be repeated.
    """

    def __init__(self, exercise: str, seed: int) -> None:
        self._space, self._exercise, self._seed = space(exercise), exercise, seed
        # By turns taken: the block, and the set in which the lines that it reaches are noted.
        self._blocks: dict[tuple[str, ...], tuple[Any, set[int]]] = {}
        # By turns taken and by test: which lines were reached, and how it ended.
        self._done: dict[tuple[tuple[str, ...], str], _Run] = {}

    def of(self, names: tuple[str, ...]) -> tuple[bool, Trace]:
        """Run all tests on the block with these wrong turns taken."""
        return _joined(self.one(names, test) for test in load_tests()[self._exercise])

    def one(self, names: tuple[str, ...], test: Test) -> tuple[bool, Trace]:
        """Run one test on the block with these wrong turns taken."""
        return self._run(names, test)[1]

    def _run(self, names: tuple[str, ...], test: Test) -> _Run:
        key = names, test.name
        if key not in self._done:
            self._done[key] = self._unchanged(names, test) or self._new(names, test)
        return self._done[key]

    def _unchanged(self, names: tuple[str, ...], test: Test) -> _Run | None:
        """Find the run with a turn less, if that never comes to what the turn changes."""
        touched = [self._space.touched(name) for name in names]
        if len(names) == 2 and not (touched[0] and touched[1] and touched[0].isdisjoint(touched[1])):
            return None  # in one statement, one change may be reached by way of the other
        for name, lines in zip(names, touched, strict=True):
            if lines is not None:
                fewer = self._run(tuple(other for other in names if other != name), test)
                if not lines & fewer[0]:
                    return fewer
        return None

    def _new(self, names: tuple[str, ...], test: Test) -> _Run:
        if names not in self._blocks:
            noted: set[int] = set()
            self._blocks[names] = self._space.watched(names, noted), noted
        block, reached = self._blocks[names]
        reached.clear()
        tape = tapes(self._exercise, self._seed)
        bench = Bench(lambda: backend(self._exercise, block), seed=self._seed, replay=tape)
        found = trace_test(test, bench)
        return set(reached), found


@functools.cache
def _runs(exercise: str, seed: int) -> _Runs:
    return _Runs(exercise, seed)


@functools.cache
def known(exercise: str, seed: int = PUBLISHED_SEED) -> KnownTurns:
    """Run all wrong turns of an exercise, and pairs of them, on the inputs of a seed."""
    right, messages = reference(exercise, seed)
    return KnownTurns(right, turns(exercise, seed, 1) + turns(exercise, seed, 2), messages)


def reference(exercise: str, seed: int) -> tuple[Trace, dict[str, str]]:
    """Run the right solution on the inputs of a seed, and give the messages of all wrong turns."""
    place = catalogue()[exercise]
    passes, right = trace(exercise, import_block(place.module, place.name), seed)
    if not passes:
        raise UserError(f"the reference of {exercise} fails its own tests on the inputs of seed {seed}")
    return right, {turn.name: turn.message for turn in space(exercise).turns}


def turns(exercise: str, seed: int, count: int, step: int = 1) -> Turns:
    """Run wrong turns, so many at a time, on the inputs of a seed: all, or every `step`-th."""
    runs, found = _runs(exercise, seed), []
    for names in [names for names in space(exercise).combinations() if len(names) == count][::step]:
        passes, theirs = runs.of(names)
        if not passes:  # two wrong turns can cancel out
            found.append((names, theirs))
    return found
