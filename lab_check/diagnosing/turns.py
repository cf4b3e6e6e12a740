"""Naming the mistake: a wrong solution is recognised by what it does.

Known wrong turns have left their fingerprints on the same inputs. The wrong turn that did the same as
the learner's code is the diagnosis.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab_check.calling.failures import MISFITS
from lab_check.diagnosing.fingerprints import Fingerprint, Trace, Turns, alike, load, turns_from

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


def _raises(seen: Fingerprint) -> bool:
    return bool(seen[0] == "failure" and seen[2] == "exception")


def _tests(calls: Iterable[str]) -> set[str]:
    return {call.rpartition("/")[0] for call in calls}


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


# Turns, each with the calls in which it does something else than the right solution.
_Compared = list[tuple[tuple[str, ...], Trace, set[str]]]


@dataclass(frozen=True)
class KnownTurns:
    """What is known of an exercise: the right trace, and that of every wrong turn and pair of them."""

    right: Trace
    turns: Turns
    messages: dict[str, str]

    @functools.cached_property
    def _compared(self) -> _Compared:
        return [(names, trace, self._off(trace)) for names, trace in self.turns]

    def _off(self, trace: Trace) -> set[str]:
        right = self.right
        # A turn shares with the right trace what is the same.
        return {
            key
            for key, seen in trace.items()
            if seen is not right.get(key) and not alike(seen, right.get(key))
        }

    def recognise(self, trace: Trace) -> Diagnosis | None:
        """Find the wrong turn, or the pair of them, that did what this trace shows.

        The score of a turn is the share of calls in which both did the same wrong thing, among all in
        which either did something wrong. Where no turn reaches a half, one that explains at least half
        of what is wrong is taken: the mistake is then made in some cases only, or is not alone.
        """
        off = self._off(trace)
        if not off:
            return None
        found = self._find(trace, off, self._compared)
        if found is None or not found.exact:
            found = self._past_errors(trace, off) or found
        return found or self._same_calls(trace, off, self._compared)

    def _past_errors(self, trace: Trace, off: set[str]) -> Diagnosis | None:
        """Where some calls end in an error: name its cause, and what is wrong with the other calls."""
        raised = {key for key in off if _raises(trace[key])}
        if raised in (set(), off):
            return None
        rest = {key: seen for key, seen in trace.items() if key not in raised}
        past = self._find(rest, off - raised, self._compared)
        if past is None or not past.exact:
            return None
        errors: _Compared = [
            (names, theirs, {key for key in wrong if _raises(theirs[key])})
            for names, theirs, wrong in self._compared
            if len(names) == 1
        ]
        cause = self._find(trace, raised, errors) or self._same_calls(trace, raised, errors)
        if cause is None or cause.name in past.name.split(" + "):
            return past
        message = f"{cause.message}\n{past.message}"
        return Diagnosis(f"{cause.name} + {past.name}", message, exact=False, kind="turn")

    def _same_calls(self, trace: Trace, off: set[str], turns: _Compared) -> Diagnosis | None:
        """Find a turn with errors in the same calls, whatever they say, if whole tests have none."""
        if not all(_raises(trace[key]) for key in off) or _tests(off) == _tests(trace):
            return None
        for names, theirs, wrong in turns:
            if wrong & trace.keys() == off and all(_likeness(trace[key], theirs[key]) for key in off):
                return self._diagnosis(names, exact=False)
        return None

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
        return self._diagnosis(names, exact=score > 0.999)

    def _diagnosis(self, names: tuple[str, ...], exact: bool) -> Diagnosis:
        message = "\n".join(self.messages[name] for name in names)
        return Diagnosis(" + ".join(names), message, exact, kind="turn")


@functools.cache
def recorded(path: Path) -> KnownTurns:
    """Read what was recorded of an exercise's wrong turns."""
    right, turns, messages = load(path)
    return KnownTurns(right, turns_from(turns, right), messages)
