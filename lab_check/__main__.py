"""Lets `python -m lab_check` be the `lab` command, where that is not installed."""

import sys

from lab_check.cli import main

sys.exit(main())
