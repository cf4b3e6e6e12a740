"""A plugin for pytest: lets nbval compare a notebook with what a kernel in the sandbox gives.

It runs on the judge's side, in a process of its own, so that whatever the kernel sends can cost this
one notebook and nothing else. What a cell did goes, line by line, into a file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from pathlib import Path
from queue import Empty
from typing import Any

import nbval.plugin
import pytest
import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from nbval.kernel import RunningKernel

from lab_check.calling.kernel import CHANNELS
from lab_grader.grading.model import NOTEBOOK_CELLS, NOTEBOOK_FACTS

_MESSAGE, _ALL = 2**20, 16 * 2**20  # bytes of one message, and of all together
_MEMORY = 2 * 2**30
_SHOWN = 200


# A number with at least two decimals may differ by one in its last: rounding goes either way.
_NUMBER = re.compile(r"(-?\d+\.\d+)")
_DECIMALS = 2


class Printed(str):
    """What a cell prints: two texts are the same if they look the same to a reader.

    Right solutions sum in other orders, so a last digit can differ, and zero can have a sign.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return False
        ours, theirs = self.splitlines(), other.splitlines()
        return len(ours) == len(theirs) and all(map(_agree, ours, theirs))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _agree(ours: str, theirs: str) -> bool:
    if ours == theirs:
        return True
    parts, others = _NUMBER.split(ours), _NUMBER.split(theirs)
    return len(parts) == len(others) and all(
        _near(a, b) if number % 2 else a.split() == b.split()
        for number, (a, b) in enumerate(zip(parts, others, strict=True))
    )


def _near(ours: str, theirs: str) -> bool:
    digits = len(ours.partition(".")[2])
    unit = 0.1**digits if digits >= _DECIMALS else 0.0
    same_form = digits == len(theirs.partition(".")[2])
    return same_form and abs(float(ours) - float(theirs)) <= 1.01 * unit


class KernelLost(Exception):
    """The kernel cannot go on; says why."""


class Client(RunningKernel):  # type: ignore[misc]
    """What nbval takes for a kernel that it started: a client of one that is already there."""

    language = "python"

    def __init__(self, *_: Any, **__: Any) -> None:
        facts = json.loads(os.environ[NOTEBOOK_FACTS])
        self._end: int = facts["end"]
        self._read = 0
        self._lost: KernelLost | None = None
        context: zmq.Context[Any] = zmq.Context.instance()
        context.setsockopt(zmq.MAXMSGSIZE, _MESSAGE)
        ports = {f"{name}_port": number for number, name in enumerate(CHANNELS, 1)}
        self.kc = BlockingKernelClient(context=context, transport="ipc", ip=facts["address"], **ports)
        self.kc.session.key = facts["key"].encode()
        self.kc.start_channels(hb=False)
        self._deadline = time.monotonic() + facts["patience"]
        self._ensure_iopub_up()
        # Starting is not the learner's time.
        self._deadline = time.monotonic() + facts["seconds"]

    def get_message(self, stream: str, timeout: float | None = None) -> Any:
        """Wait for a message: not past the deadline, not when the kernel is gone."""
        channel = self.kc.iopub_channel if stream == "iopub" else self.kc.shell_channel
        left = self._deadline - time.monotonic()
        if timeout is not None and timeout < left:
            left = timeout
        elif left <= 0:
            raise self._lose("timeout")
        poller = zmq.Poller()
        poller.register(channel.socket, zmq.POLLIN)
        poller.register(self._end, zmq.POLLIN)
        ready = dict(poller.poll(max(0, left) * 1000))
        if channel.socket not in ready:
            if self._end in ready:
                raise self._lose("ended")
            if time.monotonic() >= self._deadline:
                raise self._lose("timeout")
            raise Empty
        message = channel.get_msg(timeout=1)
        self._read += len(str(message["content"]))
        if self._read > _ALL:
            raise self._lose("flood")
        return message

    def _lose(self, why: str) -> KernelLost:
        self._lost = self._lost or KernelLost(why)
        return self._lost

    def is_alive(self) -> bool:
        """Tell whether more cells can be run."""
        return self._lost is None

    def interrupt(self) -> None:
        """Leave it: the deadline is for the whole notebook."""

    def stop(self) -> None:
        """Leave it: who started the kernel ends it."""
        self.kc.stop_channels()


def pytest_configure(config: pytest.Config) -> None:
    """Bound this process, and put the client in the place of nbval's kernel."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    nbval.plugin.RunningKernel = Client
    nbval.plugin.IPyNbCell.sanitize = lambda _, said: Printed(said) if isinstance(said, str) else said
    # A difference is told below; nbval's own way takes minutes for long texts.
    nbval.plugin.IPyNbCell.format_output_compare = lambda *_: None


def pytest_itemcollected(item: Any) -> None:
    """Let a busy machine be slow."""
    item.output_timeout = json.loads(os.environ[NOTEBOOK_FACTS])["patience"]


def pytest_sessionfinish() -> None:
    """Do not wait for a kernel that will not read what was sent to it."""
    zmq.Context.instance().destroy(linger=0)


def pytest_runtest_makereport(item: Any, call: pytest.CallInfo[None]) -> None:
    """Note what became of a cell."""
    if call.when == "teardown" or (call.when == "setup" and call.excinfo is None):
        return
    if call.excinfo is not None and call.excinfo.errisinstance(pytest.skip.Exception):
        return
    error = None if call.excinfo is None else call.excinfo.value
    facts = {"cell": item.cell_num, "passed": error is None, "said": "", "lost": ""}
    if isinstance(error, KernelLost):
        facts["lost"] = str(error)
    elif error is not None:
        facts["said"] = _difference(item)
    with Path(NOTEBOOK_CELLS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")


def _difference(item: Any) -> str:
    """Say in a sentence what is different."""
    if item.parent.kernel is None or not item.parent.kernel.is_alive():
        return "it was not reached"
    given = item.test_outputs or []
    for output in given:
        if output.output_type == "error":
            name, message = str(output.ename), str(output.evalue)
            waits = re.match(r"Exercise (\d+\.\d+):", message)
            if name == "NotImplementedError" and waits:
                return f"it waits for exercise {waits[1]}"
            return f"it stops with {_short(f'{name}: {message}')}"
    ours, theirs = _text(item.cell.outputs), _text(given)
    for line in range(max(len(ours), len(theirs))):
        want = ours[line] if line < len(ours) else None
        got = theirs[line] if line < len(theirs) else None
        if want is None or got is None or not _agree(want, got):
            here = "nothing more" if got is None else _short(got)
            there = "nothing more" if want is None else _short(want)
            return f"it prints\n    {here}\n  and the course's notebook\n    {there}"
    return "it displays something else"


def _text(outputs: list[Any]) -> list[str]:
    texts = [str(o.get("text") or o.get("data", {}).get("text/plain", "")) for o in outputs]
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in texts if text).splitlines()


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
