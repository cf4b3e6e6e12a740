"""The trusted side: tests, answers and verdict. It never runs a line of a submission."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import time
from collections.abc import Collection, Iterator
from typing import Any

from lab_check import card
from lab_check.calling.failures import TimeIsUp
from lab_check.diagnosing import fingerprints, turns
from lab_check.diagnosing.turns import Diagnosis, KnownTurns
from lab_check.exercises import Exercise, catalogue
from lab_check.running import tape
from lab_check.running.bench import Bench, check
from lab_check.running.judging import Judge, diagnose
from lab_check.running.results import Property, Result, Status
from lab_check.running.tape import PUBLISHED_SEED
from lab_check.running.tests import Test, load_tests
from lab_check.source import LONGEST, is_untouched
from lab_grader import bank, record
from lab_grader.grading.judging import budget
from lab_grader.grading.judging.remembered import Remembered
from lab_grader.grading.judging.remote import Ear, InWorker, Line, Talk, WorkerLost, printable
from lab_grader.grading.model import Conditions, Grade, HandedIn, Limits, unexpected

# A symptom that speaks of the worker, and the status it gives an exercise.
_STATUS = {"timeout": "timeout", "crashed": "crashed", "memory": "memory", "exception": "error"}

# After a property of an exercise that hung, the others have so many times as long as others' code
# took for them here, and these seconds at least and at most: a loop that never ends is mostly
# everywhere, and an answer takes milliseconds. After one that used up the memory, the others have a
# share of it: to fill it takes as long. After so many that hung or crashed, each of which costs a
# worker, the rest is not tried. Another exercise knows nothing of all that.
_LOST = ("timeout", "crashed", "memory")
_TIMES, _HURRY, _SHARE, _ENOUGH = 10, (0.25, 1.0), 8, 4
# How long properties took in this process at most: of all, and of those that did not come last.
_pace: dict[Test, float] = {}
_brisk: dict[Test, float | None] = {}
_START = 60.0  # to start a worker on a busy machine
# All properties of a submission together may take so many times as long as one may.
_SUBMISSION = 6
_LONGEST = 20_000  # characters of feedback


class Postponed(Exception):
    """A submission takes its time, or much memory, and may: when all others have had their turn."""


def grade(
    submission: HandedIn,
    exercises: list[Exercise],
    line: Line,
    conditions: Conditions,
    patient: bool = True,
) -> list[Grade]:
    """Grade exercises of one submission, through a line to a worker that holds its package.

    The points come from inputs that nobody has seen. What the mistake is, and an example of it, come
    from the published ones, on which all wrong turns are known. Who is not patient waits for no
    property as long as it may take, but raises `Postponed`: no grade comes of having been hurried.
    """
    isolation, seed, limits = conditions.isolation, conditions.seed, conditions.limits
    spent = 0.0

    def check_on(seed: int, test: Test, lost: Collection[str] = ()) -> Property:
        nonlocal spent
        own = limits.get(test.exercise, Limits())
        seconds = min(own.seconds, _SUBMISSION * own.seconds - spent)
        if "timeout" in lost:
            seconds = min(seconds, _soon(test))
        if "memory" in lost:
            own = dataclasses.replace(own, memory=own.memory // _SHARE)
        now = seconds if patient else min(seconds, _briskly(test))
        property, took = _judged(test, seed, line, own, now, ears[test.exercise])
        if property.symptom == "timeout" and now < seconds:
            _brisk.setdefault(test, None)
            raise Postponed
        if property.symptom == "memory" and not patient:
            raise Postponed
        spent += took
        if property.symptom not in _LOST:
            _pace[test] = max(took, _pace.get(test, 0.0))
            if not patient:
                _brisk[test] = max(took, _brisk.get(test) or 0.0)
        return property

    ears: dict[str, Ear] = collections.defaultdict(Ear)

    def check_remotely(tests: list[Test], _: Bench) -> Iterator[Property]:
        lost: list[str] = []
        for test in tests:
            own = limits.get(test.exercise, Limits())
            if len(lost) == _ENOUGH:
                why = f"not tried, after {_ENOUGH} properties that hung or crashed"
                yield _given_up(test, why, lost[-1])
                continue
            if spent >= _SUBMISSION * own.seconds:
                yield _given_up(test, "not tried: this submission has taken too long")
                continue
            property = check_on(seed, test, lost)
            lost += [property.symptom] if property.symptom in _LOST else []
            yield property

    in_public: dict[str, dict[str, Property]] = {}

    def name(exercise: Exercise, hidden: list[Property]) -> Diagnosis | None:
        """Say what the mistake is, as the learner's own check does."""
        tried = in_public.setdefault(exercise.id, {})
        for test, property in zip(load_tests()[exercise.id], hidden, strict=True):
            if property.symptom in _LOST:
                continue  # that costs time, and leaves no trace to compare
            found = check_on(PUBLISHED_SEED, test)
            if found.symptom in _LOST:
                break
            tried[test.sentence] = found
        said = _recognised(exercise, list(tried.values()))
        return said if said is not None and said.kind == "turn" else diagnose(hidden)

    def example(result: Result) -> Property | None:
        """Give the first property whose numbers are off, as it is on inputs that everybody may see."""
        off = next((p for p in result.broken if p.symptom in _NUMBERS), None)
        return in_public.get(result.exercise.id, {}).get(off.sentence) if off is not None else None

    judge = Judge(Bench(), check_remotely, name)
    grades = []
    for exercise in exercises:
        try:
            if _is_untouched(submission, exercise):
                result = Result(exercise, Status.NOT_STARTED)
            else:
                result = judge.result(exercise)
            grades.append(_grade(submission, result, example(result), isolation))
        except Postponed:
            raise
        except Exception as error:  # whatever it is, it costs this exercise and no more
            line.drop()
            grades.append(unexpected(submission, exercise, error, isolation))
    return grades


def _soon(test: Test) -> float:
    """Say in how many seconds an answer to a test comes that is no slower than those of others."""
    least, most = _HURRY
    return min(most, max(least, _TIMES * _pace.get(test, most)))


def _briskly(test: Test) -> float:
    """Say in how many seconds an answer has to come if nobody is to be kept waiting.

    Who is the first to take long comes last; the next may show whether the test is slow for everybody.
    """
    least, most = _HURRY
    usual = _brisk.get(test, most / _TIMES)
    return math.inf if usual is None else max(least, _TIMES * usual)


def trial(exercise: Exercise, line: Line, known: KnownTurns) -> Result:
    """Try one exercise on the published inputs, through a line to a worker that holds its package."""
    limits, ear = Limits(), Ear()

    def check_remotely(tests: list[Test], _: Bench) -> Iterator[Property]:
        for test in tests:
            yield _judged(test, PUBLISHED_SEED, line, limits, limits.seconds, ear)[0]

    return Judge(Bench(), check_remotely, lambda _, tried: diagnose(tried, known)).result(exercise)


def _judged(
    test: Test, seed: int, line: Line, limits: Limits, seconds: float, ear: Ear
) -> tuple[Property, float]:
    """Try one property; say how it ended, and how long that took."""
    tapes = _tapes(test.exercise, seed)
    try:
        line.limit(limits)
        line.open(time.monotonic() + _START)  # starting a worker is not the learner's time
    except WorkerLost as lost:
        line.drop()
        return Property(test.sentence, test.guard, False, str(lost), lost.status), 0.0
    start = time.monotonic()
    deadline = start + seconds
    try:
        with budget.until(deadline):
            property = _remembered(test.exercise, test.name, seed).judge(
                line, deadline, functools.partial(_check, test, seed, tapes), ear
            )
    except TimeIsUp:
        line.drop()
        property = _given_up(test, "what came back takes too long to judge")
    return property, time.monotonic() - start


@functools.cache
def _tapes(exercise: str, seed: int) -> dict[str, list[Any]]:
    """Give inputs and expectations: the published ones are recorded, others are drawn."""
    if seed == PUBLISHED_SEED:
        return tape.load(_recorded(catalogue()[exercise])[0])
    return bank.tapes(exercise, seed)


def _given_up(test: Test, message: str, symptom: str = "timeout") -> Property:
    return Property(test.sentence, test.guard, False, message, symptom)


@functools.cache
def _remembered(exercise: str, test: str, seed: int) -> Remembered:
    return Remembered()


def _check(test: Test, seed: int, tapes: dict[str, list[Any]], talk: Talk) -> Property:
    return check(test, Bench(functools.partial(InWorker, talk), seed=seed, replay=tapes))


# Symptoms whose messages quote hidden numbers.
_NUMBERS = ("value", "relation", "not-finite", "property")


_recorded = functools.cache(record.recorded)


@functools.cache
def _known(exercise: Exercise) -> KnownTurns:
    return turns.recorded(_recorded(exercise)[1])


def prepare(exercise: Exercise) -> None:
    """Read all that is known of an exercise, before it is asked for."""
    tests = load_tests()[exercise.id]
    _tapes(exercise.id, PUBLISHED_SEED)
    _known(exercise).recognise({tests[0].name: ["nothing"]})


# Mistakes that were recognised here, with what they were recognised by: so many, of traces so long.
_recognitions: dict[tuple[str, tuple[int, ...]], tuple[list[Property], Diagnosis | None]] = {}
_RECOGNITIONS, _ENTRIES = 200, 5000


def _recognised(exercise: Exercise, tried: list[Property]) -> Diagnosis | None:
    """Recognise a mistake; where a class makes it again, what is remembered are the same objects."""
    key = exercise.id, tuple(map(id, tried))
    if key in _recognitions:
        return _recognitions[key][1]
    said = diagnose(tried, _known(exercise))
    if sum(fingerprints.size(property.trace) for property in tried) <= _ENTRIES:
        if len(_recognitions) == _RECOGNITIONS:
            _recognitions.clear()
        _recognitions[key] = tried, said
    return said


def _without_numbers(result: Result) -> Result:
    """Take the hidden expectations out of what the learner will read."""
    properties = [
        dataclasses.replace(property, message=property.relation, relation="")
        if property.symptom in _NUMBERS
        else property
        for property in result.properties
    ]
    said = result.diagnosis
    if said is not None and said.name in _NUMBERS:
        message = next((p.relation for p in result.properties if p.relation), "")
        said = Diagnosis(said.name, message or "the numbers are not right", exact=False)
    return dataclasses.replace(result, properties=properties, diagnosis=said)


def _is_untouched(submission: HandedIn, exercise: Exercise) -> bool:
    text = submission.files.get(f"{exercise.module}.py")
    if text is None:
        return True
    if len(text) > LONGEST:
        return False  # no stub is so long; the tests will tell
    label = f"Exercise {exercise.id}:".encode()
    if not any(label in line and not line.lstrip().startswith(b"#") for line in text.splitlines()):
        return False  # a stub's code says whose it is; most need not be parsed
    try:
        return is_untouched(text.decode("utf-8"), exercise.name, exercise.stub)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _in_public(example: Property) -> dict[str, Any]:
    """Lay out what came of a property on the published inputs, for the report."""
    holds = "there it holds: the inputs that are graded are others, and a block has to be right on all"
    said = {"property": example.sentence, "said": holds if example.ok else example.said}
    if example.picture is None:
        return said
    drawn = dataclasses.asdict(example.picture)
    for grid in ("expected", "actual"):
        # Plain JSON has no NaN.
        drawn[grid] = [
            [float(f"{n:.4g}") if math.isfinite(n) else str(n) for n in row] for row in drawn[grid]
        ]
    return said | {"picture": drawn}


def _text(result: Result, example: dict[str, Any] | None) -> str:
    """Show a result in words; where to read more, the course's reports say."""
    lines = [card.text(result, whole=True)]
    if example is not None:
        lines.append(f"  On the published inputs, {example['property']}: {example['said']}")
    return "\n".join(lines)


def _grade(submission: HandedIn, result: Result, example: Property | None, isolation: str) -> Grade:
    result = _without_numbers(result)
    exercise = result.exercise
    broken = result.broken
    status: str = result.status.value
    if status == "not_started" and broken:
        status = "wrong"
    if status == "wrong" and len(broken) == len(result.properties):
        # Where nothing at all could be tried, say why, not that the numbers are off.
        symptoms = {_STATUS.get(property.symptom, "wrong") for property in broken}
        status = symptoms.pop() if len(symptoms) == 1 else "wrong"
    said = result.diagnosis
    in_public = None if example is None else _in_public(example)
    return Grade(
        student=submission.student,
        week=exercise.week,
        exercise=exercise.id,
        block=exercise.block,
        status=status,
        points=0.0 if status in ("not_started", "waiting") else result.points,
        max_points=exercise.points,
        passed=[property.sentence for property in result.properties if property.ok],
        failed=[property.sentence for property in broken],
        diagnosis=None
        if said is None
        else {
            "name": said.name,
            "kind": said.kind,
            "message": printable(said.message, _LONGEST),
        },
        feedback=printable(_text(result, in_public), _LONGEST),
        isolation=isolation,
        seconds=round(result.seconds, 3),
        digest=submission.digest,
        extra={"said": [printable(p.message) for p in broken]}
        | ({"example": in_public} if in_public else {}),
    )
