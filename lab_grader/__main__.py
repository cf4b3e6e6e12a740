"""Lets `python -m lab_grader` be the `lab` command, where that is not installed."""

import sys

from lab_grader.cli import main

sys.exit(main())
