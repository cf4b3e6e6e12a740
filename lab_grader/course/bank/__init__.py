"""The bank of wrong turns: for every exercise the reference with switches.

A module a week. Each space is a function that takes `on`, asks it which wrong turns to take, and
returns the block. Turns of one slot exclude each other; turns of different slots can come in pairs.
A turn of the slot `ALONE` makes no pairs: it is rare, or hides whatever else is wrong. Such a turn can
be a whole block of its own.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from lab_grader.diagnosis import Known
from lab_grader.exercises import catalogue
from lab_grader.fingerprints import Trace
from lab_grader.runner import Bench, check, load_tests
from lab_grader.submission import InProcess, import_block
from lab_grader.tape import PUBLISHED_SEED

On = Callable[[str], bool]
ALONE = "alone"


@dataclass(frozen=True)
class Turn:
    """A known mistake: its name, what to tell the learner, and the slot of the code it takes."""

    name: str
    slot: str
    message: str


@dataclass(frozen=True)
class Space:
    """All known wrong turns of one exercise, and other ways to do it right."""

    exercise: str
    turns: tuple[Turn, ...]
    build: Callable[[On], Any]
    right: tuple[Callable[[], Any], ...] = ()
    wrong: dict[str, Any] = field(default_factory=dict)

    def variant(self, *names: str) -> Any:
        """Build the block with these wrong turns taken."""
        known = {turn.name for turn in self.turns}
        assert known.issuperset(names), names
        if names and names[0] in self.wrong:
            return self.wrong[names[0]]

        def on(name: str) -> bool:
            assert name in known, f"{name} is not declared in the space of {self.exercise}"
            return name in names

        return self.build(on)

    def combinations(self) -> Iterator[tuple[str, ...]]:
        """List every wrong turn, then every pair that can be taken together."""
        yield from ((turn.name,) for turn in self.turns)
        for a, b in itertools.combinations(self.turns, 2):
            if a.slot != b.slot and ALONE not in (a.slot, b.slot):
                yield a.name, b.name


_SPACES: dict[str, Space] = {}


def space(exercise: str, *turns: Turn) -> Callable[[Callable[[On], Any]], Callable[[On], Any]]:
    """Declare the wrong turns of an exercise."""

    def register(build: Callable[[On], Any]) -> Callable[[On], Any]:
        _SPACES[exercise] = Space(exercise, turns, build)
        return build

    return register


def right(exercise: str) -> Callable[[Any], Any]:
    """Declare another right way to write the block of an exercise: a function or a class."""

    def register(block: Any) -> Any:
        known = _SPACES[exercise]
        _SPACES[exercise] = replace(known, right=(*known.right, block))
        return block

    return register


def wrong(exercise: str, name: str, message: str) -> Callable[[Any], Any]:
    """Declare a wrong turn that is a whole block: a function or a class."""

    def register(block: Any) -> Any:
        known = _SPACES[exercise]
        turns = (*known.turns, Turn(name, ALONE, message))
        _SPACES[exercise] = replace(known, turns=turns, wrong=known.wrong | {name: block})
        return block

    return register


@functools.cache
def spaces() -> dict[str, Space]:
    """Load the whole bank, by exercise."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return {id: _SPACES[id] for id in catalogue() if id in _SPACES}


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
    results = [check(test, bench) for test in load_tests()[exercise]]
    merged = {key: value for result in results for key, value in result.trace.items()}
    return all(result.ok for result in results), merged


@functools.cache
def known(exercise: str, seed: int = PUBLISHED_SEED) -> Known:
    """Run all wrong turns of an exercise, and pairs of them, on the inputs of a seed."""
    place, here = catalogue()[exercise], spaces()[exercise]
    _, reference = trace(exercise, import_block(place.module, place.name), seed)
    turns = []
    for names in here.combinations():
        passes, theirs = trace(exercise, here.variant(*names), seed)
        if not passes:  # two wrong turns can cancel out
            turns.append((names, theirs))
    return Known(reference, turns, {turn.name: turn.message for turn in here.turns})
