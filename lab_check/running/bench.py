"""Running one test: what it can ask for, and how it ends."""

from __future__ import annotations

import contextlib
import functools
import hmac
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from lab_check.calling.calls import Backend, InProcess
from lab_check.calling.failures import Failure, NotStarted
from lab_check.diagnosing.fingerprints import Trace, Watcher
from lab_check.errors import UserError
from lab_check.paths import RECORDINGS
from lab_check.running import tape as tapes
from lab_check.running.results import Property
from lab_check.running.submission import Submission
from lab_check.running.tape import PUBLISHED_SEED, Draw, Tape, expectation
from lab_check.running.tests import Test


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


def trace_test(test: Test, bench: Bench) -> tuple[bool, Trace]:
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
