"""The old name of `lab_check`, for notebooks that still say it."""

import sys
from typing import Any

import lab_check


def load_ipython_extension(shell: Any) -> None:
    """Answer `%load_ext lab_grader`."""
    print("lab_grader is called lab_check now: this notebook's first cell can say %load_ext lab_check")
    lab_check.load_ipython_extension(shell)


if __name__ == "__main__":
    from lab_check.cli import main

    sys.exit(main())
