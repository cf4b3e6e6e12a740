"""What the judge may spend on a stranger: time and memory of its own.

A deadline holds for the worker's answers and for what the judge makes of them: where the judge itself
works past it, it is interrupted between two steps of Python. What one such step can cost is bounded by
what an answer may hold.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Iterator

from lab_check.calling.failures import TimeIsUp

# What a judge may need for one submission beyond what it needs for itself.
MEMORY = 512 * 2**20
_TICK = 0.1


class _Watchdog:
    """Interrupts threads that work past their deadlines.

    An interruption comes between two steps of Python, and never between taking a lock by `with` and
    what follows: who holds the lock will release it, and is not interrupted by anybody else.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deadlines: dict[int, float] = {}  # by thread
        self._started = False

    @contextlib.contextmanager
    def until(self, deadline: float) -> Iterator[None]:
        """Raise TimeIsUp in what follows if it is still at work at the deadline."""
        me = threading.get_ident()
        if not self._started:
            self._started = True
            threading.Thread(target=self._watch, daemon=True).start()
        self._deadlines[me] = deadline
        try:
            yield
        finally:
            with self._lock:
                if self._deadlines.pop(me, None) is None:
                    _take_back(me)  # what was raised too late is not raised at all

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Do what follows to its end, and let its time not count."""
        me, start = threading.get_ident(), time.monotonic()
        with self._lock:
            deadline = self._deadlines.pop(me, None)
        try:
            yield
        finally:
            if deadline is not None:
                self._deadlines[me] = deadline + time.monotonic() - start

    def _watch(self) -> None:
        while True:
            time.sleep(_TICK)
            with self._lock:
                for thread, deadline in list(self._deadlines.items()):
                    if time.monotonic() > deadline:
                        del self._deadlines[thread]
                        _interrupt(thread, TimeIsUp)


class _Nothing(BaseException):
    """Takes the place of an interruption that nobody needs any more."""


def _interrupt(thread: int, error: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def _take_back(me: int) -> None:
    """Let an interruption of this thread that may be on its way come to nothing.

    Python has a call for that, after which it looks for an interruption at every step, for ever: all
    is slower then, and 3.11 hangs under a tracer.
    """
    try:
        _interrupt(me, _Nothing)
        while True:
            pass
    except _Nothing:
        pass


_WATCHDOG = _Watchdog()
until, undisturbed = _WATCHDOG.until, _WATCHDOG.undisturbed


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """Let this process have only so much more memory than it has now; where that cannot be, all."""
    try:
        import resource  # there is none on Windows

        from lab_check.calling.confine import mapped

        bound = mapped() + MEMORY
        limits = resource.getrlimit(resource.RLIMIT_AS)
    except (ImportError, OSError):
        yield
        return
    if limits[0] != resource.RLIM_INFINITY:
        bound = min(bound, limits[0])
    resource.setrlimit(resource.RLIMIT_AS, (bound, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
