"""Who does the work: this machine's cores, or a Dask cluster. Both run the same function."""

from __future__ import annotations

import atexit
import collections
import concurrent.futures
import dataclasses
import functools
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab_grader.course.grading import budget
from lab_grader.course.grading.model import Grade, Limits, Submission, unexpected
from lab_grader.errors import UserError
from lab_grader.exercises import catalogue

if TYPE_CHECKING:
    from lab_grader.course.grading.host import Host
    from lab_grader.course.grading.notebook import Notebook


@dataclass(frozen=True)
class Task:
    """One submission to grade, and the conditions."""

    submission: Submission
    exercises: tuple[str, ...]
    limits: dict[str, Limits]
    isolation: str
    seed: int
    cache: str | None  # a folder on this machine; None for one of the process's own
    notebooks: tuple[Notebook, ...] = ()


@functools.cache
def _host(isolation: str) -> Host:
    """Keep one warm host per process."""
    import torch

    from lab_grader.course.grading.sandbox import open_host

    torch.set_num_threads(1)
    host = open_host(isolation)
    atexit.register(host.close)
    return host


@functools.cache
def _own_cache() -> str:
    """Make a folder that lasts as long as this process."""
    folder = tempfile.TemporaryDirectory(prefix="lab-known-")
    atexit.register(folder.cleanup)
    return folder.name


def grade_task(task: Task) -> list[Grade]:
    """Grade one submission; whatever it does, it costs only itself."""
    host = _host(task.isolation)  # without one there is nothing to grade, and all will say so
    try:
        with budget.bounded_memory():
            return _graded(task, host)
    except Exception as error:
        return _unexpected(task, error)


def _graded(task: Task, host: Host) -> list[Grade]:
    from lab_grader.course.grading import judge, notebook

    exercises = [catalogue()[id] for id in task.exercises]
    line = host.line(task.submission.files, task.limits[task.exercises[0]])
    cache = Path(task.cache or _own_cache())
    try:
        grades = judge.grade(
            task.submission, exercises, line, host.level, task.seed, task.limits, cache
        )
    finally:
        line.close()
    tried = []
    for one in task.notebooks:
        try:
            tried.append(notebook.grade(task.submission, one, grades, host))
        except Exception as error:
            tried.append(notebook.unexpected(task.submission, one, error, task.isolation))
    return grades + tried


def _unexpected(task: Task, error: BaseException) -> list[Grade]:
    from lab_grader.course.grading import notebook

    one, level = task.submission, task.isolation
    return [
        *(unexpected(one, catalogue()[id], error, level) for id in task.exercises),
        *(notebook.unexpected(one, its, error, level) for its in task.notebooks),
    ]


_GRACE = 3.0  # to clean up when a run ends before its time


def _end_with_parent() -> None:
    """Let no process of a pool outlive a run that was killed: the pool itself would wait for ever."""
    parent = multiprocessing.parent_process()
    # As an exception, so that workers and folders are cleaned up on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    def wait() -> None:
        if parent is not None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(_GRACE)
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def run_locally(tasks: list[Task], jobs: int) -> Iterator[tuple[Task, list[Grade]]]:
    """Grade on this machine; a process that dies is replaced, and whom it graded is tried alone."""
    # On Linux torch is imported once for all processes; elsewhere it is not safe to fork with it.
    context = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
    context.set_forkserver_preload(["lab_grader.course.grading.judge"])
    waiting, suspects = collections.deque(tasks), collections.deque[Task]()
    while waiting or suspects:
        alone = bool(suspects)
        todo = collections.deque([suspects.popleft()]) if alone else waiting
        running: dict[Future[list[Grade]], Task] = {}
        with concurrent.futures.ProcessPoolExecutor(
            1 if alone else jobs, context, _end_with_parent
        ) as pool:
            try:
                while running or todo:
                    # No more than is soon begun: whatever was, when a process dies, is suspected.
                    while todo and len(running) < 2 * jobs:
                        running[pool.submit(grade_task, todo[0])] = todo[0]
                        todo.popleft()
                    done, _ = concurrent.futures.wait(
                        running, return_when=concurrent.futures.FIRST_COMPLETED
                    )
                    for future in sorted(done, key=list(running).index):
                        result = _result(future, running[future])
                        yield running.pop(future), result
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


def _result(future: Future[list[Grade]], task: Task) -> list[Grade]:
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
                dataclasses.replace(task, cache=None),  # the path means nothing on another machine
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
