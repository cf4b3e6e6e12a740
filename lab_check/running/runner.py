"""Running the exercise tests: the same files, for a learner's check, for the grader and for CI."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hmac
import importlib.util
import inspect
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from lab_check.calling.calls import Backend, InProcess
from lab_check.calling.failures import Failure, NotStarted, Picture
from lab_check.diagnosing.fingerprints import Trace, Watcher
from lab_check.diagnosing.turns import Diagnosis, KnownTurns
from lab_check.errors import UserError
from lab_check.exercises import Exercise, catalogue
from lab_check.paths import RECORDINGS, TESTS
from lab_check.running import tape as tapes
from lab_check.running.submission import Submission
from lab_check.running.tape import PUBLISHED_SEED, Draw, Tape, expectation


@dataclass(frozen=True)
class Test:
    """One property of one exercise, as its file defines it."""

    exercise: str
    guard: bool
    name: str
    function: Callable[..., None]

    @property
    def sentence(self) -> str:
        """The test's name as words."""
        return self.name.removeprefix("test_").replace("_", " ")

    @functools.cached_property
    def wants(self) -> list[str]:
        """The fixtures it asks for."""
        return list(inspect.signature(self.function).parameters)


@dataclass(frozen=True)
class Property:
    """How one test ended."""

    sentence: str
    guard: bool
    ok: bool
    message: str = ""
    symptom: str = ""
    reached_stub: str | None = None
    trace: Trace = field(default_factory=dict, repr=False)
    picture: Picture | None = field(default=None, repr=False)
    relation: str = ""
    printed: str = ""

    @property
    def said(self) -> str:
        """The message, with how wrong numbers relate to right ones where that is simple."""
        return f"{self.message}: {self.relation}" if self.relation else self.message


@dataclass
class Result:
    """How one exercise ended.

    The status is `right`, `wrong`, `not_started`, or `waiting` (for the exercise `waits_for`).
    """

    exercise: Exercise
    status: str
    properties: list[Property] = field(default_factory=list)
    waits_for: str | None = None
    diagnosis: Diagnosis | None = None
    seconds: float = 0.0

    @property
    def points(self) -> float:
        """Partial credit by property. A guard earns nothing, but costs as much when it is broken."""
        earned = sum(property.ok and not property.guard for property in self.properties)
        counted = sum(not property.guard or not property.ok for property in self.properties)
        return round(self.exercise.points * earned / counted, 2) if counted else 0.0

    @property
    def broken(self) -> list[Property]:
        """The properties that do not hold."""
        return [property for property in self.properties if not property.ok]


class _Tests(dict[str, list[Test]]):
    """The tests by exercise, in the order of their file, which is read when one is asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def __missing__(self, exercise: str) -> list[Test]:
        week = exercise.split(".")[0]
        for path in sorted(self._folder.glob(f"test_week{week}_*.py")):
            spec = importlib.util.spec_from_file_location(f"lab_exercise_tests.{path.stem}", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            for name, function in vars(module).items():
                if name.startswith("test_") and hasattr(function, "exercise"):
                    test = Test(function.exercise, function.guard, name, function)
                    self.setdefault(test.exercise, []).append(test)
        if exercise not in self:
            raise KeyError(exercise)
        return self[exercise]


@functools.cache
def load_tests(folder: Path = TESTS) -> dict[str, list[Test]]:
    """Give the tests of a folder by exercise."""
    return _Tests(folder)


def find_device(name: str = "cpu") -> torch.device:
    """Give a device by name; `auto` takes an accelerator when there is one."""
    if name == "auto" and torch.accelerator.is_available():
        accelerator = torch.accelerator.current_accelerator()
        assert accelerator is not None
        return accelerator
    try:
        return torch.empty(0, device="cpu" if name == "auto" else name).device
    except (AssertionError, RuntimeError):
        raise UserError(
            f"there is no device {name!r} here: cpu works everywhere, auto takes the best there is"
        ) from None


@functools.cache
def recordings(exercise: str) -> dict[str, list[Any]] | None:
    """Read what was recorded for an exercise, in a workspace that has no solutions."""
    path = RECORDINGS / f"{exercise}.tape"
    return tapes.load(path) if path.exists() else None


@functools.cache
def _own_seed(seed: int, test: str) -> int:
    """Give a test's own seed: a worker gets to know it, and must not find the seed by it."""
    return int.from_bytes(hmac.digest(str(seed).encode(), test.encode(), "sha256")[:8], "big")


@dataclass
class Bench:
    """Where tests run: whose code, which seed, which device."""

    backend: Callable[[], Backend] = InProcess
    reference: Callable[[], Backend] = InProcess
    seed: int = PUBLISHED_SEED
    device: torch.device = field(default_factory=find_device)
    keep: dict[str, list[Any]] | None = None
    replay: dict[str, list[Any]] | None = None

    @contextlib.contextmanager
    def fixtures(self, test: Test, watcher: Watcher | None = None) -> Iterator[dict[str, Any]]:
        """Make everything that a test can ask for by the name of a parameter."""
        recorded = self.replay or (recordings(test.exercise) if self.seed == PUBLISHED_SEED else None)
        tape = Tape(recorded[test.name] if recorded else None)
        draw = Draw(tape, self.seed, test.name, self.device)
        if self.keep is not None:
            self.keep[test.name] = tape.entries
        submission = Submission(self.backend())
        submission._names = draw.names
        if watcher is not None:
            submission._watch = functools.partial(watcher, test.name)
        before = torch.get_rng_state()
        # Parameters that a block draws for itself must not differ from run to run.
        torch.default_generator.manual_seed(_own_seed(self.seed, test.name))
        try:
            yield {
                "submission": submission,
                "expected": expectation(tape, draw, self.device, self.reference()),
                "draw": draw,
                "device": self.device,
            }
        finally:
            torch.set_rng_state(before)

    def run(self, test: Test, watcher: Watcher | None = None) -> None:
        """Run one test; a property that does not hold raises a Failure."""
        with self.fixtures(test, watcher) as offered:
            test.function(**{name: offered[name] for name in test.wants})


def check(test: Test, bench: Bench) -> Property:
    """Run one test and say how it ended."""
    watcher = Watcher()
    ended = functools.partial(Property, test.sentence, test.guard, trace=watcher.trace)
    try:
        bench.run(test, watcher)
    except NotStarted as stub:
        return ended(False, str(stub), stub.symptom, stub.exercise)
    except Failure as failure:
        relation = failure.relation or ""
        symptom = "relation" if relation else failure.symptom
        return ended(False, str(failure), symptom, picture=failure.picture, relation=relation)
    except UserError:
        raise
    except MemoryError:
        return ended(False, "what came back takes too much memory to compare", "memory")
    except Exception as error:
        # What came back is so different from what the test expects that it could not even look at it.
        return ended(False, f"what came back cannot be compared: {error}", "type")
    return ended(True)


def trace(test: Test, bench: Bench) -> tuple[bool, Trace]:
    """Run one test without a word about it: whether it holds, and what the calls did."""
    watcher = Watcher()
    try:
        bench.run(test, watcher)
    except UserError:
        raise
    except Exception:
        return False, watcher.trace
    return True, watcher.trace


def check_in_turn(tests: list[Test], bench: Bench) -> Iterator[Property]:
    """Run tests here, one after the other."""
    for test in tests:
        yield check(test, bench)


class Judge:
    """Results by exercise; an exercise that fails asks for those it needs.

    `check` runs tests, and `known` tells what is known of an exercise's wrong turns.
    """

    def __init__(
        self,
        bench: Bench | None = None,
        check: Callable[[list[Test], Bench], Iterable[Property]] = check_in_turn,
        known: Callable[[Exercise], KnownTurns | None] = lambda exercise: None,
    ) -> None:
        self._bench = bench or Bench()
        self._check = check
        self._known = known
        self._results: dict[str, Result] = {}

    def result(self, exercise: Exercise) -> Result:
        """Check an exercise, unless that has been done already."""
        if exercise.id not in self._results:
            self._results[exercise.id] = self._judge(exercise)
        return self._results[exercise.id]

    def _judge(self, exercise: Exercise) -> Result:
        start = time.perf_counter()
        properties = list(self._check(load_tests()[exercise.id], self._bench))
        result = Result(exercise, "right", properties)
        if result.broken:
            if all(property.reached_stub == exercise.id for property in result.broken):
                result.status = "not_started"
            else:
                result.waits_for = self._waits_for(result)
                result.status = "waiting" if result.waits_for else "wrong"
                if result.status == "wrong":
                    result.diagnosis = diagnose(properties, self._known(exercise))
                else:
                    result.diagnosis = self._lost(result)
        result.seconds = time.perf_counter() - start
        return result

    def _lost(self, result: Result) -> Diagnosis | None:
        """Tell of a loop or a crash, unless the exercise that is waited for has that itself."""
        needed = self._results.get(result.waits_for or "")
        theirs = {property.symptom for property in needed.properties} if needed else set()
        for property in result.broken:
            if property.symptom in _LOST and property.symptom not in theirs:
                return Diagnosis(property.symptom, property.message, exact=False)
        return None

    def _waits_for(self, result: Result) -> str | None:
        """Find the first exercise that this one needs and that is not right yet."""
        for property in result.broken:
            if property.reached_stub not in (None, result.exercise.id):
                return property.reached_stub
        for id in result.exercise.needs:
            needed = self.result(catalogue()[id]) if id in catalogue() else None
            if needed is not None and needed.status != "right":
                return needed.waits_for or id
        return None


# What ended a test from outside.
_LOST = {"timeout", "crash", "crashed", "memory"}
# What is worth saying first when nothing known matches.
_SYMPTOMS = (
    "missing", "exception", "timeout", "crash", "crashed", "memory", "type", "shape", "not-finite",
    "gradient", "in-place", "relation", "value", "property",
)  # fmt: skip


def diagnose(properties: list[Property], known: KnownTurns | None) -> Diagnosis | None:
    """Name the mistake: a known wrong turn, or else the plainest symptom."""
    trace = {key: value for property in properties for key, value in property.trace.items()}
    found = known.recognise(trace) if known is not None else None
    raised = next((p.message for p in properties if p.symptom == "exception"), None)
    if found is not None:
        if raised is not None:
            # Other slips may raise the same error, so the error itself comes first.
            return dataclasses.replace(found, message=f"{raised}\n{found.message}", exact=False)
        return found
    for symptom in _SYMPTOMS:
        for property in properties:
            if property.symptom == symptom:
                return Diagnosis(symptom, property.said, exact=False)
    return None
