"""A bar for loops that take a while, where somebody waits for them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

Step = TypeVar("Step")
_PAUSE = 0.2  # seconds between two drawings


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
