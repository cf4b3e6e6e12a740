"""The trusted side: tests, answers and verdict. It never runs a line of a submission."""

from __future__ import annotations

from collections.abc import Iterator

from lab_grader import card
from lab_grader.course import bank
from lab_grader.course.grading.model import Grade, Limits, Submission
from lab_grader.course.grading.remote import Line, Remote
from lab_grader.exercises import Exercise
from lab_grader.runner import Bench, Judge, Property, Result, Test, check
from lab_grader.source import is_untouched

# A symptom that speaks of the worker, and the status it gives an exercise.
_STATUS = {"timeout": "timeout", "crashed": "crashed", "memory": "memory", "exception": "error"}


def grade(
    submission: Submission,
    exercises: list[Exercise],
    line: Line,
    isolation: str,
    seed: int,
    limits: Limits,
) -> list[Grade]:
    """Grade exercises of one submission, through a line to a worker that holds its package."""

    def check_remotely(tests: list[Test], _: Bench) -> Iterator[Property]:
        for test in tests:
            tapes = bank.tapes(test.exercise, seed)
            yield check(test, Bench(lambda: Remote(line, limits.seconds), seed=seed, replay=tapes))

    judge = Judge(Bench(), check_remotely, lambda exercise: bank.known(exercise.id, seed))
    grades = []
    for exercise in exercises:
        if _is_untouched(submission, exercise):
            result = Result(exercise, "not_started")
        else:
            result = judge.result(exercise)
        grades.append(_grade(submission, result, isolation))
    return grades


def _is_untouched(submission: Submission, exercise: Exercise) -> bool:
    text = submission.files.get(f"{exercise.module}.py")
    if text is None:
        return True
    try:
        return is_untouched(text.decode("utf-8"), exercise.name, exercise.stub)
    except (SyntaxError, ValueError):
        return False


def _grade(submission: Submission, result: Result, isolation: str) -> Grade:
    exercise = result.exercise
    broken = result.broken
    status = result.status
    if status == "not_started" and broken:
        status = "wrong"
    if status == "wrong" and len(broken) == len(result.properties):
        # Where nothing at all could be tried, say why, not that the numbers are off.
        symptoms = {_STATUS.get(property.symptom, "wrong") for property in broken}
        status = symptoms.pop() if len(symptoms) == 1 else "wrong"
    said = result.diagnosis
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
        diagnosis=None if said is None else {"name": said.name, "message": said.message},
        feedback=card.text(result),
        isolation=isolation,
        seconds=round(result.seconds, 3),
        digest=submission.digest,
    )
