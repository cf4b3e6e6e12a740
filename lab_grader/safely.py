"""Running tests so that an endless loop, a crash or a huge allocation ends the test and nothing else.

On Linux tests run in forked children: a child that hangs or dies takes one property with it, and the
next child goes on with the rest. Elsewhere they run in this process with a time limit.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import faulthandler
import io
import os
import select
import signal
import struct
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from lab_grader import codec
from lab_grader.failures import Picture, TimeIsUp
from lab_grader.runner import Bench, Property, Test, check

SECONDS = 5.0
MEMORY = 4 * 2**30
_PATIENCE = 2  # so many hangs or crashes in one exercise, and the rest of it is not tried
_PRINTED = 2000


def check_safely(tests: list[Test], bench: Bench, seconds: float = SECONDS) -> Iterator[Property]:
    """Run tests; each has so many seconds."""
    if sys.platform == "linux":
        yield from _check_forked(tests, bench, seconds)
    else:
        for test in tests:
            yield _check_here(test, bench, seconds)


def _lost(test: Test, symptom: str, message: str) -> Property:
    return Property(test.sentence, test.guard, False, message, symptom)


def _too_long(test: Test, seconds: float) -> Property:
    return _lost(
        test, "timeout", f"no answer within {seconds:g} seconds: is there a loop that never ends?"
    )


def _check_forked(tests: list[Test], bench: Bench, seconds: float) -> Iterator[Property]:
    done = losses = 0
    while done < len(tests):
        if losses == _PATIENCE:
            for test in tests[done:]:
                yield _lost(test, "not-run", f"not tried, after {losses} tests that hung or crashed")
            return
        with _Child(tests[done:], bench) as child:
            for test in tests[done:]:
                done += 1
                answer = child.answer(seconds)
                if isinstance(answer, Property):
                    yield answer
                    continue
                losses += 1
                yield _too_long(test, seconds) if answer is None else _lost(test, "crash", answer)
                break


class _Child:
    """A forked process that runs tests and sends back how each ended."""

    def __init__(self, tests: list[Test], bench: Bench) -> None:
        self._read, write = os.pipe()
        with warnings.catch_warnings():
            # The child touches no thread of the parent: torch stays on one, and nothing is displayed.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            os.close(self._read)
            _serve(tests, bench, write)
        os.close(write)
        self._ended = False

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ended:
            self._end()
        os.close(self._read)

    def _end(self) -> int:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._ended = True
        return os.waitpid(self._pid, 0)[1]

    def answer(self, seconds: float) -> Property | str | None:
        """Wait for one test: how it ended, or how the child crashed, or None when time is up."""
        deadline = time.monotonic() + seconds
        header = self._bytes(8, deadline)
        if isinstance(header, bytes):
            (size,) = struct.unpack("<Q", header)
            body = self._bytes(size, deadline)
            if isinstance(body, bytes):
                return _property(codec.unpack(body))
            header = body
        return header

    def _bytes(self, count: int, deadline: float) -> bytes | str | None:
        data = b""
        while len(data) < count:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            chunk = os.read(self._read, min(count - len(data), 1 << 20))
            if not chunk:
                status = os.waitpid(self._pid, 0)[1]
                self._ended = True
                return _death(status)
            data += chunk
        return data


def _death(status: int) -> str:
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return (
            f"the code crashed Python ({name}): did it run out of memory, or write where it must not?"
        )
    return f"the code ended Python (exit code {os.waitstatus_to_exitcode(status)}) instead of returning"


def _serve(tests: list[Test], bench: Bench, pipe: int) -> None:
    """Run the tests in the child, which never returns."""
    try:
        torch.set_num_threads(1)  # the parent's threads do not exist here
        _limit_memory()
        faulthandler.disable()  # a crash is told in a sentence
        # Nobody can answer here: a breakpoint or an input() ends at once instead of hanging.
        sys.stdin = io.StringIO()
        for test in tests:
            printed = _Tail()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                property = check(test, bench)
            property = dataclasses.replace(property, printed=printed.kept)
            body = codec.pack(dataclasses.asdict(property))
            rest = struct.pack("<Q", len(body)) + body
            while rest:
                rest = rest[os.write(pipe, rest) :]
    finally:
        os._exit(0)


class _Tail(io.TextIOBase):
    """Keeps the end of what is printed: a loop that prints must not fill the memory."""

    kept = ""

    def write(self, words: str) -> int:
        self.kept = (self.kept + words)[-_PRINTED:]
        return len(words)


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


def _check_here(test: Test, bench: Bench, seconds: float) -> Property:
    me, over = threading.get_ident(), threading.Event()

    def interrupt() -> None:
        if not over.wait(seconds):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(me), ctypes.py_object(TimeIsUp))

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        return check(test, bench)
    except TimeIsUp:
        return _too_long(test, seconds)
    finally:
        over.set()
