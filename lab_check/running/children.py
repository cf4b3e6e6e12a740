"""Running tests so that an endless loop, a crash or a huge allocation ends the test and nothing else.

On Linux tests run in forked children: a child that hangs or dies takes one property with it, and the
next child goes on with the rest. Elsewhere they run in this process with a time limit.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import faulthandler
import functools
import io
import os
import select
import signal
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lab_check.calling import codec
from lab_check.calling.failures import Picture, TimeIsUp
from lab_check.calling.printing import Tail
from lab_check.running.bench import Bench, check
from lab_check.running.results import Property
from lab_check.running.tests import Test

SECONDS = 5.0
MEMORY = 4 * 2**30
_LOSSES = 2  # so many hangs or crashes in one exercise, and the rest of it is not tried


def check_in_children(tests: list[Test], bench: Bench, seconds: float = SECONDS) -> Iterator[Property]:
    """Run tests; each has so many seconds."""
    check_all = _check_forked if sys.platform == "linux" else _check_here
    yield from check_all(tests, bench, seconds)


def _lost(test: Test, lost: LostJob) -> Property:
    return Property(test.sentence, test.guard, False, lost.message, lost.symptom)


@dataclass(frozen=True)
class LostJob:
    """How a job ended that gave no answer."""

    symptom: str
    message: str


def _too_long(seconds: float) -> LostJob:
    return LostJob("timeout", f"no answer within {seconds:g} seconds: is there a loop that never ends?")


def _not_run(losses: int) -> LostJob:
    return LostJob("not-run", f"not tried, after {losses} tests that hung or crashed")


def _check_forked(tests: list[Test], bench: Bench, seconds: float) -> Iterator[Property]:
    jobs = [functools.partial(_check_for_parent, test, bench) for test in tests]
    for test, answer in zip(tests, run_apart(jobs, seconds), strict=True):
        yield _lost(test, answer) if isinstance(answer, LostJob) else _property(answer)


def _check_for_parent(test: Test, bench: Bench) -> dict[str, Any]:
    return dataclasses.asdict(_check_and_print(test, bench))


def _check_and_print(test: Test, bench: Bench) -> Property:
    printed = Tail()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        property = check(test, bench)
    return dataclasses.replace(property, printed=printed.text())


def run_apart(jobs: Sequence[Callable[[], Any]], seconds: float) -> Iterator[Any]:
    """Run jobs in forked children; gives what each returns (plain data), or how it was lost."""
    done = losses = 0
    while done < len(jobs):
        if losses == _LOSSES:
            for _ in jobs[done:]:
                yield _not_run(losses)
            return
        with _Child(jobs[done:]) as child:
            for _ in jobs[done:]:
                done += 1
                answer = child.answer(seconds)
                yield answer
                if isinstance(answer, LostJob):
                    losses += 1
                    break


class _Child:
    """A forked process that does jobs and sends back how each ended."""

    def __init__(self, jobs: Sequence[Callable[[], Any]]) -> None:
        self._read, write = os.pipe()
        with warnings.catch_warnings():
            # The child touches no thread of the parent: torch stays on one, and nothing is displayed.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            os.close(self._read)
            _serve(jobs, write)
        os.close(write)
        self._ended: LostJob | None = None

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ended is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._read)

    def answer(self, seconds: float) -> Any:
        """Wait for one job: what it returned, or how it was lost."""
        deadline = time.monotonic() + seconds
        header = self._bytes(8, deadline)
        body = None if header is None else self._bytes(struct.unpack("<Q", header)[0], deadline)
        if body is None:
            return self._ended or _too_long(seconds)
        return codec.unpack(body)

    def _bytes(self, count: int, deadline: float) -> bytes | None:
        data = b""
        while len(data) < count:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            chunk = os.read(self._read, min(count - len(data), 1 << 20))
            if not chunk:
                self._ended = _death(os.waitpid(self._pid, 0)[1])
                return None
            data += chunk
        return data


def _death(status: int) -> LostJob:
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        said = f"crashed Python ({name}): did it run out of memory, or write where it must not?"
    else:
        said = f"ended Python (exit code {os.waitstatus_to_exitcode(status)}) instead of returning"
    return LostJob("crash", f"the code {said}")


def _serve(jobs: Sequence[Callable[[], Any]], pipe: int) -> None:
    """Do the jobs in the child, which never returns."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it, and says so once
        torch.set_num_threads(1)  # the parent's threads do not exist here
        _limit_memory()
        faulthandler.disable()  # a crash is told in a sentence
        # Nobody can answer here: a breakpoint or an input() ends at once instead of hanging.
        sys.stdin = io.StringIO()
        load_from_disk()
        for job in jobs:
            body = codec.pack(job())
            rest = struct.pack("<Q", len(body)) + body
            while rest:
                rest = rest[os.write(pipe, rest) :]
    finally:
        os._exit(0)


def load_from_disk() -> None:
    """Forget what this process holds of the learner's package, so that it is read as it is now."""
    for name in [name for name in sys.modules if name.startswith("lab_transformer.")]:
        del sys.modules[name]
    # Bytecode is told from newer source by whole seconds: two saves within one would look alike.
    sys.dont_write_bytecode = True


def _property(facts: dict[str, Any]) -> Property:
    picture = facts.pop("picture")
    return Property(**facts, picture=Picture(**picture) if picture else None)


def _limit_memory() -> None:
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _check_here(tests: list[Test], bench: Bench, seconds: float) -> Iterator[Property]:
    """Check where it is not safe to fork with torch: code that ends Python ends this one, too."""
    losses = 0
    for test in tests:
        if losses == _LOSSES:
            yield _lost(test, _not_run(losses))
            continue
        try:
            with _interrupted_after(seconds):
                property = _check_and_print(test, bench)
        except TimeIsUp:
            losses += 1
            property = _lost(test, _too_long(seconds))
        yield property


@contextlib.contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    me, over = threading.get_ident(), threading.Event()

    def interrupt() -> None:
        if not over.wait(seconds):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(me), ctypes.py_object(TimeIsUp))

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        yield
    finally:
        over.set()
