"""A learner's own check, behind `lab check` and the exercise cell alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lab_check import cells, importing
from lab_check.diagnosing import turns
from lab_check.diagnosing.turns import KnownTurns
from lab_check.exercises import Exercise, catalogue
from lab_check.paths import RECORDINGS
from lab_check.running.bench import Bench, find_device
from lab_check.running.children import check_in_children
from lab_check.running.judging import Judge, diagnose
from lab_check.running.results import Result, Status
from lab_check.workspace import Workspace


def recorded(exercise: Exercise) -> KnownTurns | None:
    """Read what a workspace carries of an exercise's wrong turns."""
    path = RECORDINGS / f"{exercise.id}.turns"
    return turns.recorded(path) if path.exists() else None


def check_exercises(
    workspace: Workspace,
    exercises: list[Exercise],
    device: str = "cpu",
    known: Callable[[Exercise], KnownTurns | None] = recorded,
) -> Iterator[Result]:
    """Check exercises one after the other as they are on disk, and remember how each stands.

    A version of each block is kept. Where a file cannot be imported, the result has no properties, and
    its diagnosis says why.
    """
    judge = Judge(
        Bench(device=find_device(device)),
        check_in_children,
        lambda exercise, tried: diagnose(tried, known(exercise)),
    )
    started = {exercise.id: exercise for exercise in exercises if workspace.is_started(exercise)}
    modules = sorted({exercise.module for exercise in started.values()})
    ill = importing.troubles(workspace.package, modules)
    digest = workspace.digest()
    states = _states(workspace, digest)
    for exercise in exercises:
        if exercise.id not in started:
            result = Result(exercise, Status.NOT_STARTED)
        elif exercise.module in ill:
            result = not_imported(exercise, ill[exercise.module])
        else:
            result = judge.result(exercise)
            if result.status is Status.NOT_STARTED:
                result.status = Status.WRONG  # some of it is written, some still raises
        if exercise.id in started:
            cells.keep_present(workspace, exercise)
        states[exercise.id] = {"status": result.status, "points": result.points}
        workspace.remember("states", {"digest": digest, "exercises": states})
        yield result


def not_imported(exercise: Exercise, trouble: str) -> Result:
    """Give the result of an exercise whose file cannot be imported: nothing was checked."""
    return Result(exercise, Status.WRONG, diagnosis=turns.Diagnosis("import", trouble))


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
        "diagnosis": None
        if said is None
        else {"name": said.name, "kind": said.kind, "message": said.message},
        "properties": [
            {"sentence": p.sentence, "holds": p.ok, "guard": p.guard, "message": p.message}
            for p in result.properties
        ],
        "seconds": round(result.seconds, 3),
    }
