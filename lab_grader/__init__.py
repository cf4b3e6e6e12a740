"""What no learner gets: the bank of wrong turns, release, serving, and grading a class."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Answer `%load_ext lab_grader`, as notebooks of the first edition say."""
    import lab_check

    print("lab_grader is called lab_check now: this notebook's first cell can say %load_ext lab_check")
    lab_check.load_ipython_extension(shell)
