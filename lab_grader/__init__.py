"""Everything that checks: exercises, tests, diagnosis, release and grading of Lab Transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Answer `%load_ext lab_grader`."""
    from lab_grader.notebook import load

    load(shell)
