"""Who does the work: this machine's cores, or a Dask cluster. Both run the same function."""

from __future__ import annotations

import atexit
import collections
import concurrent.futures
import contextlib
import functools
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING

from lab_check.errors import UserError
from lab_check.exercises import Exercise, catalogue
from lab_grader.grading.judging import budget
from lab_grader.grading.model import Conditions, Grade, HandedIn, unexpected
from lab_grader.record import end_with_parent

if TYPE_CHECKING:
    from lab_grader.grading.notebooks.stored import Notebook
    from lab_grader.grading.sandbox.process import Host


@dataclass(frozen=True)
class Task:
    """One submission to grade, and the conditions."""

    submission: HandedIn
    exercises: tuple[str, ...]
    conditions: Conditions
    notebooks: tuple[Notebook, ...] = ()


# Warm processes that serve all judges of a run, by level: their addresses.
_warm: dict[str, str] = {}


@functools.cache
def _host(isolation: str) -> Host:
    """Keep one warm host per process."""
    import torch

    from lab_grader.grading.sandbox.confined import open_host

    torch.set_num_threads(1)
    host = open_host(isolation, _warm.get(isolation))
    atexit.register(host.close)
    return host


def grade_task(task: Task) -> list[Grade]:
    """Grade one submission; whatever it does, it costs only itself."""
    return _grade_task(task, patient=True) or []


def _grade_task(task: Task, patient: bool) -> list[Grade] | None:
    """Grade one submission; where that takes long and nobody is patient, give nothing."""
    from lab_grader.grading.judging.judge import Postponed

    # Without one there is nothing to grade, and all will say so.
    host = _host(task.conditions.isolation)
    try:
        with budget.bounded_memory():
            return _graded(task, host, patient)
    except Postponed:
        return None
    except Exception as error:
        return _unexpected(task, error)


def _graded(task: Task, host: Host, patient: bool) -> list[Grade]:
    from lab_grader.grading.judging import judge
    from lab_grader.grading.notebooks import stored, week_notebook

    exercises = [catalogue()[id] for id in task.exercises]
    line = host.line(task.submission.files, task.conditions.limits[task.exercises[0]])
    try:
        grades = judge.grade(task.submission, exercises, line, task.conditions, patient)
    finally:
        line.close()
    tried = []
    for one in task.notebooks:
        try:
            tried.append(week_notebook.grade(task.submission, one, grades, host))
        except Exception as error:
            tried.append(stored.unexpected(task.submission, one, error, task.conditions.isolation))
    return grades + tried


def _unexpected(task: Task, error: BaseException) -> list[Grade]:
    from lab_grader.grading.notebooks import stored

    one, level = task.submission, task.conditions.isolation
    return [
        *(unexpected(one, catalogue()[id], error, level) for id in task.exercises),
        *(stored.unexpected(one, its, error, level) for its in task.notebooks),
    ]


_GRACE = 3.0  # to clean up when a run ends before its time


def _begin(warm: dict[str, str]) -> None:
    _warm.update(warm)
    # As an exception, so that workers and folders are cleaned up on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    end_with_parent(_GRACE)


# Where the process that judges are forked from finds the exercises that they will judge.
JUDGED = "LAB_JUDGED"
# On Linux torch is imported once for all processes; elsewhere it is not safe to fork with it.
_SERVED = sys.platform == "linux"


def _context() -> BaseContext:
    context = multiprocessing.get_context("forkserver" if _SERVED else "spawn")
    context.set_forkserver_preload(["lab_grader.grading.judging.beforehand"])
    return context


@contextlib.contextmanager
def prepared(level: str, exercises: Sequence[Exercise]) -> Iterator[None]:
    """Begin to import torch for all judges and all workers, while there is something else to do."""
    if not _SERVED or level == "process":
        yield
        return
    from multiprocessing.forkserver import ensure_running

    from lab_grader.grading.sandbox.warm import WarmProcess

    _context()
    os.environ[JUDGED] = ",".join(exercise.id for exercise in exercises)
    ensure_running()
    del os.environ[JUDGED]
    with contextlib.closing(WarmProcess(level)) as warm:
        _warm[level] = warm.address
        try:
            yield
        finally:
            del _warm[level]


def run_locally(tasks: list[Task], jobs: int) -> Iterator[tuple[Task, list[Grade]]]:
    """Grade on this machine; a process that dies is replaced, and whom it graded is tried alone.

    Whoever takes long comes last, so that a loop that never ends keeps nobody else waiting.
    """
    context = _context()
    waiting = collections.deque((task, False) for task in tasks)  # and whether it may take its time
    suspects = collections.deque[Task]()
    while waiting or suspects:
        alone = bool(suspects)
        todo = collections.deque([(suspects.popleft(), True)]) if alone else waiting
        running: dict[Future[list[Grade] | None], Task] = {}
        with concurrent.futures.ProcessPoolExecutor(
            1 if alone else jobs, context, _begin, (_warm,)
        ) as pool:
            try:
                while running or todo:
                    # No more than is soon begun: whatever was, when a process dies, is suspected.
                    while todo and len(running) < 2 * jobs:
                        running[pool.submit(_grade_task, *todo[0])] = todo[0][0]
                        todo.popleft()
                    done, _ = concurrent.futures.wait(
                        running, return_when=concurrent.futures.FIRST_COMPLETED
                    )
                    for future in sorted(done, key=list(running).index):
                        result = _result(future, running[future])
                        task = running.pop(future)
                        if result is None:
                            todo.append((task, True))
                        else:
                            yield task, result
            except BrokenProcessPool:
                lost = list(running.values())
                if alone:
                    yield lost[0], _lost(lost[0])
                else:
                    suspects.extend(lost)
            except (KeyboardInterrupt, GeneratorExit):
                pool.shutdown(wait=False, cancel_futures=True)
                # What is being graded may take minutes, and is graded again by the next run.
                for child in multiprocessing.active_children():
                    child.terminate()
                raise


def _result(future: Future[list[Grade] | None], task: Task) -> list[Grade] | None:
    try:
        return future.result()
    except (BrokenProcessPool, UserError):
        raise
    except Exception as error:
        return _unexpected(task, error)


def _lost(task: Task) -> list[Grade]:
    return _unexpected(task, UserError("grading this submission ended the judge's process twice"))


def run_on_dask(
    tasks: list[Task], scheduler: str, connected: Callable[[str], None]
) -> Iterator[tuple[Task, list[Grade]]]:
    """Grade on a Dask cluster; tasks of a lost worker are done again by another."""
    from distributed import Client, as_completed

    try:
        client = Client(scheduler)
    except (OSError, ValueError) as error:
        raise UserError(f"no Dask scheduler can be reached at {scheduler}: {error}") from None
    with client:
        connected(str(client))
        futures = {
            client.submit(
                grade_task,
                task,
                key=f"lab-{number}-{task.submission.digest[:16]}",
                pure=False,
            ): task
            for number, task in enumerate(tasks)
        }
        for future in as_completed(list(futures)):
            task = futures[future]
            if future.status == "error":
                reason = future.exception()
                if isinstance(reason, UserError):
                    raise reason
                yield task, _unexpected(task, reason)
            else:
                yield task, future.result()
