"""Naming the mistake: a wrong solution is recognised by what it does.

Known wrong turns have left their fingerprints on the same inputs. The wrong turn that did the same as
the learner's code is the diagnosis.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab_grader import tape as tapes
from lab_grader.failures import MISFITS
from lab_grader.fingerprints import Fingerprint, Trace, alike

# A pair must explain this much more than a single turn does: the simpler story is the likelier one.
_MARGIN = 0.1


def _likeness(a: Fingerprint, b: Fingerprint) -> float:
    """Compare what two wrong solutions did in one call.

    Two errors are the same when they say the same, and nearly so when only sizes in them differ. That
    axes do not fit somewhere is a weak likeness.
    """
    if not a[0] == b[0] == "failure" or not (a[1] and b[1]):
        return 1.0 if alike(a, b) else 0.0
    if a[1][0] == b[1][0]:
        return 1.0
    if a[1][1] == b[1][1]:
        return 0.8
    return 0.4 if a[3] == b[3] or {a[3], b[3]} <= MISFITS else 0.0


_rank = operator.itemgetter(0, 1)


@dataclass(frozen=True)
class Diagnosis:
    """What the mistake most likely is, in the learner's words.

    The kind is `turn`, a wrong turn that is known by its name, or `symptom`.
    """

    name: str
    message: str
    exact: bool = True
    kind: str = "symptom"


Turns = list[tuple[tuple[str, ...], Trace]]
# Turns, each with the calls in which it does something else than the right solution.
_Compared = list[tuple[tuple[str, ...], Trace, set[str]]]


def turns_from(stored: list[Any]) -> Turns:
    """Read turns as a recording holds them."""
    return [(tuple(names), trace) for names, trace in stored]


@dataclass(frozen=True)
class Known:
    """What is known of an exercise: the right trace, and that of every wrong turn and pair of them.

    Where it takes time to find out, `later` gives more turns. It is asked only when none of the others
    explains everything, so they must be the simpler ones.
    """

    right: Trace
    turns: Turns
    messages: dict[str, str]
    later: Callable[[], Turns] = list

    @functools.cached_property
    def _first(self) -> _Compared:
        return [(names, trace, self._off(trace)) for names, trace in self.turns]

    @functools.cached_property
    def _all(self) -> _Compared:
        return self._first + [(names, trace, self._off(trace)) for names, trace in self.later()]

    def _off(self, trace: Trace) -> set[str]:
        return {key for key, seen in trace.items() if not alike(seen, self.right.get(key))}

    def recognise(self, trace: Trace) -> Diagnosis | None:
        """Find the wrong turn, or the pair of them, that did what this trace shows.

        The score of a turn is the share of calls in which both did the same wrong thing, among all in
        which either did something wrong. Where no turn reaches a half, one that explains at least half
        of what is wrong is taken: the mistake is then made in some cases only, or is not alone.
        """
        off = self._off(trace)
        if not off:
            return None
        found = self._find(trace, off, self._first)
        return found if found and found.exact else self._find(trace, off, self._all)

    def _find(self, trace: Trace, off: set[str], turns: _Compared) -> Diagnosis | None:
        best = partly = (0.0, 0.0, 0.0, tuple[str, ...]())
        alone: dict[str, float] = {}
        for turn, theirs, wrong in turns:
            common = off & wrong
            if len(common) / len(off) < 0.5:
                continue
            cost = _MARGIN * (len(turn) - 1)
            either = len(off | (wrong & trace.keys()) | (trace.keys() - theirs.keys()))
            likeness = [_likeness(trace[key], theirs[key]) for key in common]
            score = round(sum(likeness) / either, 6)
            # Of those that do the same: a single turn, or the pair of the turns that are likely alone.
            if len(turn) == 1:
                alone[turn[0]] = score
            likely = sum(alone.get(name, 0.0) for name in turn) if len(turn) > 1 else 2.0
            # A perfect match needs no simpler story.
            fits = score - (cost if score < 0.999 else 0)
            best = max(best, (fits, likely, score, turn), key=_rank)
            same = sum(value for value in likeness if value >= 0.8) / len(off)
            partly = max(partly, (same - cost, score, score, turn), key=_rank)
        found = best if best[2] >= 0.5 else partly
        if found[0] < 0.5:
            return None
        *_, score, names = found
        message = "\n".join(self.messages[name] for name in names)
        return Diagnosis(" + ".join(names), message, exact=score > 0.999, kind="turn")


@functools.cache
def recorded(week: int) -> dict[str, Known]:
    """Read what was recorded of a week's wrong turns, in a workspace that has no bank."""
    path = tapes.RECORDINGS / f"week{week}.turns"
    if not path.exists():
        return {}
    return {
        id: Known(right, turns_from(turns), messages)
        for id, (right, turns, messages) in tapes.load(path).items()
    }
