"""Naming the mistake: a wrong solution is recognised by what it does.

While the tests run, every call of the learner's code leaves a fingerprint: type, shape, a few
weighted sums of the numbers, the gradients, the exception. Known wrong turns have left theirs, on the
same inputs. The wrong turn that did the same is the diagnosis. Fingerprints are small, and nobody can
read a solution out of them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lab_grader import tape as tapes
from lab_grader.failures import Failure, Raised
from lab_grader.submission import Seen

Fingerprint = list[Any]
# The fingerprints of all calls that one solution received, by test and number of the call.
Trace = dict[str, Fingerprint]

_WAVES = (0.71, 1.93, 2.69)
_MISFITS = {"IndexError", "RuntimeError", "ValueError"}


def fingerprint(seen: Seen) -> Fingerprint:
    """Reduce what was seen of one call to a few numbers."""
    if isinstance(seen.outcome, Failure):
        kind = seen.outcome.kind if isinstance(seen.outcome, Raised) else ""
        # Wrong shapes differ from each other: what came back tells them apart.
        returned = [] if seen.returned is None else [_print(_widest(seen.returned.value))]
        return ["failure", seen.outcome.symptom, kind, *returned]
    gradients = [[name, _print(g)] for name, g in sorted(seen.outcome.gradients.items())]
    return [
        "value",
        seen.tolerance,
        _print(seen.outcome.value),
        gradients,
        sorted(seen.outcome.changed),
    ]


def _widest(value: Any) -> Any:
    """Forget how many bits a number has: a wrong kind of result is the same mistake in all of them."""
    if not isinstance(value, Tensor) or value.dtype == torch.bool:
        return value
    return value.double() if value.is_floating_point() else value.long()


def _print(value: Any) -> Any:
    match value:
        case Tensor():
            flat = value.detach().flatten().cpu().double()
            # NaN and infinity are part of the behaviour: stand-ins keep their places visible.
            flat = flat.nan_to_num(nan=9.37, posinf=17.9, neginf=-23.3)
            place = torch.arange(1, flat.numel() + 1, dtype=torch.float64)
            sums = [float((flat * (place * wave).cos()).sum()) for wave in _WAVES]
            size = float(flat.norm())
            return ["tensor", str(value.dtype)[6:], list(value.shape), _round(size), *map(_round, sums)]
        case bool() | str() | None:
            return value
        case int() | float():
            return ["number", _round(float(value))]
        case list() | tuple():
            return [_print(item) for item in value]
        case set() | frozenset():
            return [_print(item) for item in sorted(value)]
        case dict():
            return [[key, _print(item)] for key, item in value.items()]
    return type(value).__name__


def _round(number: float) -> float:
    return float(f"{number:.7g}") if math.isfinite(number) else number


def alike(a: Any, b: Any, tolerance: float = 0.0) -> bool:
    """Tell whether two fingerprints are the same up to rounding."""
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return False
        if a and a[0] == "value" == b[0]:
            return all(map(functools.partial(alike, tolerance=max(a[1], 0.0)), a[2:], b[2:]))
        if a and a[0] == "tensor" == b[0]:
            allowed = max(tolerance, 2e-4) * max(abs(a[3]), abs(b[3])) + 1e-9
            return a[1:3] == b[1:3] and all(
                abs(x - y) <= allowed or x == y for x, y in zip(a[3:], b[3:], strict=True)
            )
        if a and a[0] == "number" == b[0]:
            x, y = a[1], b[1]
            same = x == y or (math.isnan(x) and math.isnan(y))
            return same or abs(x - y) <= max(tolerance, 2e-4) * max(abs(x), abs(y))
        return all(alike(x, y, tolerance) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def _likeness(a: Fingerprint, b: Fingerprint) -> float:
    """Compare what two wrong solutions did; which error a misfit of axes raises matters little."""
    if alike(a, b):
        return 1.0
    misfits = a[:2] == b[:2] == ["failure", "exception"] and {a[2], b[2]} <= _MISFITS
    return 0.9 if misfits else 0.0


class Watcher:
    """Collects the trace of one solution while the tests of an exercise run."""

    def __init__(self) -> None:
        self.trace: Trace = {}

    def __call__(self, test: str, seen: Seen) -> None:
        count = sum(key.startswith(f"{test}/") for key in self.trace)
        self.trace[f"{test}/{count}"] = fingerprint(seen)


@dataclass(frozen=True)
class Diagnosis:
    """What the mistake most likely is, in the learner's words."""

    name: str
    message: str
    exact: bool = True


@dataclass(frozen=True)
class Known:
    """What is known of an exercise: the right trace, and that of every wrong turn and pair of them."""

    right: Trace
    turns: list[tuple[tuple[str, ...], Trace]]
    messages: dict[str, str]

    @functools.cached_property
    def _off(self) -> list[set[str]]:
        """The calls in which each turn does something else than the right solution."""
        return [
            {key for key, seen in trace.items() if not alike(seen, self.right.get(key))}
            for _, trace in self.turns
        ]

    def recognise(self, trace: Trace) -> Diagnosis | None:
        """Find the wrong turn, or the pair of them, that did what this trace shows.

        The score of a turn is the share of calls in which both did the same wrong thing, among all in
        which either did something wrong.
        """
        off = {key for key, seen in trace.items() if not alike(seen, self.right.get(key))}
        if not off:
            return None
        best, names = 0.0, tuple[str, ...]()
        for (turn, theirs), wrong in zip(self.turns, self._off, strict=True):
            differs = (wrong & trace.keys()) | (trace.keys() - theirs.keys())
            common, either = off & wrong, len(off | differs)
            if len(common) / either <= best + 1e-9:
                continue  # even if all of it matched, it would not be better
            score = sum(_likeness(trace[key], theirs[key]) for key in common) / either
            if score > best + 1e-9:
                best, names = score, turn
        if best < 0.5:
            return None
        message = "\n".join(self.messages[name] for name in names)
        return Diagnosis(" + ".join(names), message, exact=best > 0.999)


@functools.cache
def recorded(week: int) -> dict[str, Known]:
    """Read what was recorded of a week's wrong turns, in a workspace that has no bank."""
    path = tapes.RECORDINGS / f"week{week}.turns"
    if not path.exists():
        return {}
    return {
        id: Known(right, [(tuple(names), trace) for names, trace in turns], messages)
        for id, (right, turns, messages) in tapes.load(path).items()
    }
