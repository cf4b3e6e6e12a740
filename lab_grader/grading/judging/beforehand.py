"""What all judges of a run need, done once, in the process that they are forked from.

Importing this does it. The environment names the exercises that are about to be judged.
"""

from __future__ import annotations

import contextlib
import gc
import os

import torch

from lab_check.exercises import catalogue
from lab_grader.grading.engines import JUDGED
from lab_grader.grading.judging import judge

_FEW = 6  # of a whole course each judge reads what it comes to need


def _prepare() -> None:
    ids = [id for id in os.environ.get(JUDGED, "").split(",") if id in catalogue()]
    torch.set_num_threads(1)  # before the first operation: a fork of a process with threads hangs
    for id in ids if len(ids) <= _FEW else []:
        judge.prepare(catalogue()[id])
    gc.collect()
    gc.freeze()  # a judge's collector need not look through all of PyTorch, and copy it


# What fails here fails again where somebody is told.
with contextlib.suppress(Exception):
    _prepare()
