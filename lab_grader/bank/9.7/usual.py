"""Exercise 9.7, the usual way."""

import itertools
import math
from collections import Counter

import torch


def grams(sentence, n):
    starts = range(len(sentence) - n + 1)
    return Counter(tuple(sentence[i : i + n]) for i in starts)


def common(found, wanted):
    return sum((found & wanted).values())


def brevity(written, wanted):
    if written < wanted:
        return math.exp(1 - wanted / written)
    return 1.0


def combined(matches, totals, max_n):
    if min(matches) == 0:
        return 0.0
    precisions = [match / total for match, total in zip(matches, totals, strict=True)]
    logs = [math.log(precision) for precision in precisions]
    return math.exp(sum(logs) / max_n)


def bleu(hypotheses, references, max_n=4):
    orders = range(1, max_n + 1)
    matches, totals = [0 for _ in orders], [0 for _ in orders]
    written, wanted = 0, 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        written += len(hypothesis)
        wanted += len(reference)
        for place, n in enumerate(orders):
            found, right = grams(hypothesis, n), grams(reference, n)
            matches[place] += common(found, right)
            totals[place] += sum(found.values())
    average = combined(matches, totals, max_n)
    if average == 0.0:
        return 0.0
    penalty = brevity(written, wanted)
    result = 100 * penalty * average
    return result
