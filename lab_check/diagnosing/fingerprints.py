"""What a call of the learner's code left behind, in a few numbers.

While the tests run, every call leaves a fingerprint: type, shape, a few weighted sums of the numbers,
the gradients, the exception. Fingerprints are small, and nobody can read a solution out of them.
"""

from __future__ import annotations

import functools
import gzip
import json
import math
import re
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lab_check.calling.failures import Failure, Raised, WrongType
from lab_check.running.submission import Seen

Fingerprint = list[Any]
# The fingerprints of all calls that one solution received, by test and number of the call.
Trace = dict[str, Fingerprint]
Turns = list[tuple[tuple[str, ...], Trace]]

_WAVES = (0.71, 1.93, 2.69)
_ROOM = 30_000  # what the trace of one test holds at most
_TEXT = 200  # characters of a text that a result holds


def fingerprint(seen: Seen) -> Fingerprint:
    """Reduce what was seen of one call to a few numbers."""
    if isinstance(seen.outcome, Failure):
        kind, said = "", []
        if isinstance(seen.outcome, Raised):
            kind, text = seen.outcome.kind, seen.outcome.said
            said = [_hash(text), _hash(re.sub(r"\d+", "", text))]
        elif isinstance(seen.outcome, WrongType) and seen.returned is None:
            kind = str(seen.outcome)  # an array and a generator cannot come back, and are two mistakes
        # Wrong shapes differ from each other: what came back tells them apart.
        returned = [] if seen.returned is None else [_print(_widest(seen.returned.value))]
        return ["failure", said, seen.outcome.symptom, kind, *returned]
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
            sums = (_waves(flat.numel()) @ flat).tolist()
            size = torch.linalg.vector_norm(flat).item()
            return ["tensor", str(value.dtype)[6:], list(value.shape), _round(size), *map(_round, sums)]
        case bool() | None:
            return value
        case str():
            # Never a text alone, which could pass for one of the marks here; of a long one a sum.
            return ["text", value if len(value) <= _TEXT else _hash(value)]
        case int() | float():
            return ["number", _round(_float(value))]
        case list() | tuple():
            return [_print(item) for item in value]
        case set() | frozenset():
            # By their texts: not all that can be in a set can be sorted.
            return [_print(item) for item in sorted(value, key=repr)]
        case dict():
            return [[_print(key), _print(item)] for key, item in value.items()]
    return type(value).__name__


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.copysign(math.inf, number)


_USUAL = 4096  # so many numbers at most have the results that tests ask for


def _waves(count: int) -> Tensor:
    """Give the weights of so many numbers, a row for each sum."""
    return _usual_waves(count) if count <= _USUAL else _new_waves(count)


def _new_waves(count: int) -> Tensor:
    place = torch.arange(1, count + 1, dtype=torch.float64)
    return torch.stack([(place * wave).cos() for wave in _WAVES])


_usual_waves = functools.lru_cache(maxsize=256)(_new_waves)


def _hash(text: str) -> int:
    return zlib.crc32(text.encode(errors="replace"))


def _round(number: float) -> float:
    return float(f"{number:.7g}") if math.isfinite(number) else number


def alike(a: Any, b: Any, tolerance: float = 0.0) -> bool:
    """Tell whether two fingerprints are the same up to rounding."""
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return False
        if a and a[0] == "value" == b[0]:
            return all(map(functools.partial(alike, tolerance=max(a[1], 0.0)), a[2:], b[2:]))
        if a and a[0] == "failure" == b[0]:
            return all(map(alike, a[2:], b[2:]))  # the wording of an error is free
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


_CONTAINERS = (list, tuple, set, frozenset, dict)


def size(value: Any) -> int:
    """Count what is in containers within containers."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, _CONTAINERS):
        return 1
    # Most of what is in them is no container, and a call for each would take longer than all else.
    return 1 + sum(size(item) if isinstance(item, _CONTAINERS) else 1 for item in value)


class Watcher:
    """Collects the trace of one solution while the tests of an exercise run."""

    def __init__(self) -> None:
        self.trace: Trace = {}
        self._count: Counter[str] = Counter()
        self._room = _ROOM

    def __call__(self, test: str, seen: Seen) -> None:
        left = fingerprint(seen)
        self._room -= size(left)
        # A call that leaves more than any known solution does is recognised by that.
        self.trace[f"{test}/{self._count[test]}"] = left if self._room >= 0 else ["too much"]
        self._count[test] += 1


def store(turns: Turns, right: Trace) -> list[Any]:
    """Give turns as a recording holds them: where they differ from the right trace."""
    return [
        [
            list(names),
            {key: seen for key, seen in trace.items() if right.get(key) != seen},
            [key for key in right if key not in trace],
        ]
        for names, trace in turns
    ]


def turns_from(stored: list[Any], right: Trace) -> Turns:
    """Read turns as a recording holds them."""
    turns: Turns = []
    for names, others, missing in stored:
        trace = right | others
        for key in missing:
            del trace[key]
        turns.append((tuple(names), trace))
    return turns


def pack(facts: Any) -> bytes:
    """Put traces and messages into bytes; JSON is read many times faster than what tensors need."""
    return gzip.compress(json.dumps(facts).encode(), 6, mtime=0)


def load(path: Path) -> Any:
    """Read from a file what `pack` gave."""
    return json.loads(gzip.decompress(path.read_bytes()))
