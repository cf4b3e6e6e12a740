"""Judging exercises: what their tests say, what they wait for, and what the mistake is."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable

from lab_check.diagnosing.turns import Diagnosis, KnownTurns
from lab_check.exercises import Exercise, catalogue
from lab_check.running.bench import Bench, check_in_turn
from lab_check.running.results import Property, Result, Status
from lab_check.running.tests import Test, load_tests


class Judge:
    """Results by exercise; an exercise that fails asks for those it needs.

    `check` runs tests, and `name` says what mistake it is, of an exercise and of how its tests ended.
    """

    def __init__(
        self,
        bench: Bench | None = None,
        check: Callable[[list[Test], Bench], Iterable[Property]] = check_in_turn,
        name: Callable[[Exercise, list[Property]], Diagnosis | None] = lambda _, tried: diagnose(tried),
    ) -> None:
        self._bench = bench or Bench()
        self._check = check
        self._name = name
        self._results: dict[str, Result] = {}

    def result(self, exercise: Exercise) -> Result:
        """Check an exercise, unless that has been done already."""
        if exercise.id not in self._results:
            self._results[exercise.id] = self._judge(exercise)
        return self._results[exercise.id]

    def _judge(self, exercise: Exercise) -> Result:
        start = time.perf_counter()
        properties = list(self._check(load_tests()[exercise.id], self._bench))
        result = Result(exercise, Status.RIGHT, properties)
        if result.broken:
            if all(property.reached_stub == exercise.id for property in result.broken):
                result.status = Status.NOT_STARTED
            else:
                result.waits_for = self._waits_for(result)
                result.status = Status.WAITING if result.waits_for else Status.WRONG
                if result.status is Status.WRONG:
                    result.diagnosis = self._name(exercise, properties)
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
            if needed is not None and needed.status is not Status.RIGHT:
                return needed.waits_for or id
        return None


# What ended a test from outside.
_LOST = {"timeout", "crash", "crashed", "memory"}
# What is worth saying first when nothing known matches.
_SYMPTOMS = (
    "missing", "exception", "timeout", "crash", "crashed", "memory", "type", "shape", "not-finite",
    "gradient", "in-place", "relation", "value", "property",
)  # fmt: skip


def diagnose(properties: list[Property], known: KnownTurns | None = None) -> Diagnosis | None:
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
