"""Bars that show how far a command is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextlib.contextmanager
def bar(
    what: str, total: int, hidden: bool = False, long: bool = False
) -> Iterator[Callable[..., None]]:
    """Show a bar on standard error while that is a terminal; it leaves nothing behind.

    Gives what moves it on by one, with a word to say beside it. A long one says how long it will take.
    """
    console = Console(stderr=True)
    shown = Progress(
        TextColumn(what), BarColumn(), MofNCompleteColumn(), *([TimeRemainingColumn()] if long else []),
        TextColumn("{task.fields[word]}"), console=console, transient=True,
        disable=hidden or not console.is_terminal,
    )  # fmt: skip
    task = shown.add_task("", total=total, word="")

    def advance(word: str = "") -> None:
        shown.update(task, advance=1, word=word)

    with shown:
        yield advance
