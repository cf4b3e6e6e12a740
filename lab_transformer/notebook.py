"""What the notebooks share: comparing with a prediction, measuring, a bar for long loops."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

Step = TypeVar("Step")
_PAUSE = 0.2  # seconds between two drawings


def compare(predicted: object, measured: object) -> None:
    """Print what you expected beside what came out."""
    said = "no prediction written" if predicted is None else f"you predicted {predicted}"
    print(f"{said}; measured: {measured}")


def rounded(numbers: Tensor, digits: int) -> list[float]:
    """List the numbers of a row, rounded."""
    return [round(number, digits) for number in numbers.tolist()]


def seconds(run: Callable[..., object], *inputs: object, times: int = 5) -> float:
    """Measure the processor time of a call with these inputs: the least of several, on one thread.

    The least, because whatever else the machine does only adds to it. On one thread, because threads
    that wait for each other would count as work.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return min(_timed(run, *inputs) for _ in range(times))
    finally:
        torch.set_num_threads(threads)


def _timed(run: Callable[..., object], *inputs: object) -> float:
    start = time.process_time()
    run(*inputs)
    return time.process_time() - start


def peak_memory(run: Callable[..., object], *inputs: object) -> int:
    """Count the bytes of all tensors that are alive at once at the worst moment of a call.

    What existed before does not count. The number is the same on every machine: it is what the
    operations ask for, not what a machine happens to have in use.
    """
    counting = _Counting()
    with counting:
        run(*inputs)
    return counting.peak


class _Counting(TorchDispatchMode):
    """Sees every operation, those of the way back too, and what of their results is still alive."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen: Any = WeakIdKeyDictionary()
        self._now: int = 0
        self.peak: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in tree_leaves((args, kwargs)):
            if isinstance(tensor, Tensor):
                self._seen.setdefault(tensor.untyped_storage(), None)
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.untyped_storage() not in self._seen:
                self._add(tensor.untyped_storage())
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        size = storage.nbytes()
        self._seen[storage] = None
        self._now += size
        self.peak = max(self.peak, self._now)
        weakref.finalize(storage, self._free, size)

    def _free(self, size: int) -> None:
        self._now -= size


def progress(steps: Iterable[Step], what: str = "working", total: int | None = None) -> Iterator[Step]:
    """Give the steps of a loop one by one, and show in JupyterLab how far it is.

    Where a program runs the notebook, nothing is shown, so that outputs are the same in every run.
    `total` says how many steps there are, where `steps` does not know.
    """
    # Only a kernel that belongs to an open notebook is told its name.
    if "JPY_SESSION_NAME" not in os.environ:
        yield from steps
        return
    from IPython.display import display

    total = len(steps) if total is None and isinstance(steps, Sized) else total
    start = drawn = time.monotonic()
    handle = display(_drawn(what, 0, total, 0.0), raw=True, display_id=True)  # type: ignore[no-untyped-call]
    done = 0
    try:
        for step in steps:
            yield step
            done += 1
            if time.monotonic() - drawn > _PAUSE:
                drawn = time.monotonic()
                handle.update(_drawn(what, done, total, drawn - start), raw=True)
    finally:
        handle.update(_drawn(what, done, total, time.monotonic() - start), raw=True)


def _drawn(what: str, done: int, total: int | None, seconds: float) -> dict[str, str]:
    words = f"{what}: {done}" + (f" of {total}" if total else "") + f", {seconds:.0f} s"
    if total and 0 < done < total:
        words += f", about {seconds / done * (total - done):.0f} s left"
    bar = f'<progress value="{done}" max="{total}"></progress> ' if total and done < total else ""
    return {"text/html": f"<div>{bar}{words}</div>", "text/plain": words}
