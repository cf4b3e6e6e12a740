"""A Dask cluster gives what this machine gives, and loses nothing with a worker."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client, LocalCluster
from small_class import RIGHT, grade_command, lines, run, write_class
from small_notebook import RIGHT as RIGHT_PACKAGE
from small_notebook import prepared

from lab_grader.grading.engines import Task, grade_task, run_on_dask
from lab_grader.grading.intake.collect import read_submissions
from lab_grader.grading.model import Conditions, HandedIn, Limits


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster


def test_results_are_those_of_this_machine(cluster: LocalCluster, tmp_path: Path) -> None:
    folder = write_class(tmp_path / "class")
    far = ["--engine", "dask", "--scheduler", cluster.scheduler_address]
    for name, more in (("near", []), ("far", far)):
        done = run(grade_command(folder, tmp_path / name, *more))
        assert done.returncode == 0, done.stderr
    assert lines(tmp_path / "far") == lines(tmp_path / "near")


def test_a_killed_worker_loses_nothing(cluster: LocalCluster, tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"student-{number:02}.py").write_text(RIGHT + f"# {number}\n")
    tasks = [
        Task(one, ("6.1",), Conditions("process", 7, {"6.1": Limits()}))
        for one in read_submissions(tmp_path)
        if isinstance(one, HandedIn)
    ]
    results = run_on_dask(tasks, cluster.scheduler_address, lambda _: None)
    first, _ = next(results)
    with Client(cluster.scheduler_address) as client:
        victim = next(iter(client.run(os.getpid).values()))
    os.kill(victim, signal.SIGKILL)
    graded = {task.submission.student: grades for task, grades in results}
    assert graded.keys() | {first.submission.student} == {f"student-{n:02}" for n in range(12)}
    assert {grade.points for grades in graded.values() for grade in grades} == {2.0}


def test_a_notebook_is_graded_as_on_this_machine(cluster: LocalCluster, tmp_path: Path) -> None:
    limits = {"6.1": Limits(), "6.2": Limits()}
    task = Task(
        HandedIn("student-01", RIGHT_PACKAGE), tuple(limits),
        Conditions("process", 7, limits), (prepared(tmp_path),),
    )  # fmt: skip
    ((_, far),) = run_on_dask([task], cluster.scheduler_address, lambda _: None)
    near = grade_task(task)
    assert far[-1].status == "right"
    assert [dataclasses.replace(g, seconds=0) for g in far] == [
        dataclasses.replace(g, seconds=0) for g in near
    ]
