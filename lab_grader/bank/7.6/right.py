"""Exercise 7.6, other right ways."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any


def with_counts(predicted: Any, sure: Any, possible: Any) -> float:
    if not predicted and not sure:
        return 0
    points = sum((link in sure) + (link in sure or link in possible) for link in predicted)
    return 1.0 - points / (len(predicted) + len(sure))


def as_errors(predicted: Any, sure: Any, possible: Any) -> float:
    wrong = len(predicted.difference(sure, possible))
    missed = len(sure - predicted)
    total = len(predicted) + len(sure)
    return (wrong + missed) / total if total else 0.0


def with_counters(predicted: Any, sure: Any, possible: Any) -> float:
    counts = Counter(itertools.chain(predicted, sure))
    total = sum(counts.values())
    good = len([link for link in predicted if link in sure | possible])
    good += len(predicted.intersection(sure))
    try:
        return (total - good) / total
    except ZeroDivisionError:
        return 0.0
