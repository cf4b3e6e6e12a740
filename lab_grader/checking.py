"""A learner's own check, behind `lab check` and the exercise cell alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lab_grader import diagnosis
from lab_grader.exercises import Exercise, catalogue, in_workspace
from lab_grader.runner import Bench, Judge, Result, find_device
from lab_grader.safely import check_safely
from lab_grader.workspace import Workspace


def known(exercise: Exercise) -> diagnosis.Known | None:
    """Find what is known of an exercise's wrong turns: the bank, or what was recorded of it."""
    if in_workspace():
        return diagnosis.recorded(exercise.week).get(exercise.id)
    from lab_grader.course import record

    return record.known(exercise)


def check_exercises(
    workspace: Workspace, exercises: list[Exercise], device: str = "cpu"
) -> Iterator[Result]:
    """Check exercises one after the other, and remember how each stands."""
    judge = Judge(Bench(device=find_device(device)), check_safely, known)
    digest = workspace.digest()
    states = _states(workspace, digest)
    for exercise in exercises:
        if workspace.is_started(exercise):
            result = judge.result(exercise)
            if result.status == "not_started":
                result.status = "wrong"  # some of it is written, some still raises
        else:
            result = Result(exercise, "not_started")
        states[exercise.id] = {"status": result.status, "points": result.points}
        workspace.remember("states", {"digest": digest, "exercises": states})
        yield result


def _states(workspace: Workspace, digest: str) -> dict[str, Any]:
    remembered = workspace.recall("states")
    states: dict[str, Any] = (
        remembered.get("exercises", {}) if remembered.get("digest") == digest else {}
    )
    return states


def stands(workspace: Workspace) -> Iterator[tuple[Exercise, str, float]]:
    """Say how every exercise stands, with its points; what is known already is not checked again."""
    states = _states(workspace, workspace.digest())
    unknown = [e for e in catalogue().values() if e.id not in states and workspace.is_started(e)]
    fresh = {result.exercise.id: result for result in check_exercises(workspace, unknown)}
    for exercise in catalogue().values():
        if exercise.id in fresh:
            yield exercise, fresh[exercise.id].status, fresh[exercise.id].points
        elif exercise.id in states:
            yield exercise, states[exercise.id]["status"], states[exercise.id]["points"]
        else:
            yield exercise, "not_started", 0.0


def to_json(result: Result) -> dict[str, Any]:
    """Describe a result for programs."""
    exercise, said = result.exercise, result.diagnosis
    return {
        "exercise": exercise.id,
        "title": exercise.title,
        "week": exercise.week,
        "block": exercise.block,
        "status": result.status,
        "points": result.points,
        "max_points": exercise.points,
        "waits_for": result.waits_for,
        "diagnosis": None if said is None else {"name": said.name, "message": said.message},
        "properties": [
            {"sentence": p.sentence, "holds": p.ok, "guard": p.guard, "message": p.message}
            for p in result.properties
        ],
        "seconds": round(result.seconds, 3),
    }
