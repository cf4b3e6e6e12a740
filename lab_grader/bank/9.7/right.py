"""Exercise 9.7, other right ways."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import torch


def with_products(hypotheses: Any, references: Any, max_n: int = 4) -> Any:
    product = 1.0
    for n in range(1, max_n + 1):
        matches = total = 0
        for h, r in zip(hypotheses, references, strict=True):
            theirs = [tuple(r[i : i + n]) for i in range(len(r) - n + 1)]
            for i in range(len(h) - n + 1):
                total += 1
                if tuple(h[i : i + n]) in theirs:
                    theirs.remove(tuple(h[i : i + n]))
                    matches += 1
        product *= matches / max(total, 1)
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    if c == 0 or product == 0:
        return 0.0
    return 100 * min(1.0, math.exp(1 - r / c)) * product ** (1 / max_n)


def with_slices_zipped(hypotheses: Any, references: Any, max_n: int = 4) -> Any:
    def grams(words: Any, n: int) -> Any:
        return Counter(zip(*(words[i:] for i in range(n)), strict=False))

    logs = []
    for n in range(1, max_n + 1):
        pairs = [(grams(h, n), grams(r, n)) for h, r in zip(hypotheses, references, strict=True)]
        matches = sum(min(count, r[gram]) for h, r in pairs for gram, count in h.items())
        total = sum(sum(h.values()) for h, _ in pairs)
        logs.append(math.log(matches / total) if matches else -math.inf)
    written, wanted = sum(len(h) for h in hypotheses), sum(len(r) for r in references)
    if -math.inf in logs:
        return 0.0
    return 100 * math.exp(min(0.0, 1 - wanted / written) + sum(logs) / max_n)


def with_plain_dictionaries(hypotheses: Any, references: Any, max_n: int = 4) -> Any:
    def count(words: Any) -> dict[Any, int]:
        counts: dict[Any, int] = {}
        for n in range(1, max_n + 1):
            for start in range(len(words) - n + 1):
                gram = " ".join(words[start : start + n]), n
                counts[gram] = counts.get(gram, 0) + 1
        return counts

    matches, totals = [0] * (max_n + 1), [0] * (max_n + 1)
    for h, r in zip(hypotheses, references, strict=True):
        mine, theirs = count(h), count(r)
        for gram, number in mine.items():
            totals[gram[1]] += number
            matches[gram[1]] += min(number, theirs.get(gram, 0))
    if 0 in matches[1:]:
        return 0.0
    mean = math.prod(a / b for a, b in zip(matches[1:], totals[1:], strict=True)) ** (1 / max_n)
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    return 100.0 * mean * (1.0 if c >= r else math.e ** (1 - r / c))


def with_tensors(hypotheses: Any, references: Any, max_n: int = 4) -> Any:
    counts = torch.zeros(max_n, 2, dtype=torch.float64)
    lengths = torch.zeros(2, dtype=torch.float64)
    for h, r in zip(hypotheses, references, strict=True):
        lengths += torch.tensor([len(h), len(r)])
        for n in range(max_n):
            mine = Counter(tuple(h[i : i + n + 1]) for i in range(len(h) - n))
            theirs = Counter(tuple(r[i : i + n + 1]) for i in range(len(r) - n))
            counts[n] += torch.tensor([(mine & theirs).total(), mine.total()])
    if not counts[:, 0].all():
        return 0.0
    score = (counts[:, 0] / counts[:, 1]).log().mean().exp() * 100
    return (score * torch.exp(1 - lengths[1] / lengths[0]).clamp(max=1)).item()


def with_logarithms_of_everything(hypotheses: Any, references: Any, max_n: int = 4) -> Any:
    total = 0.0
    for n in range(1, max_n + 1):
        hits, tries = 0, 0
        for h, r in zip(hypotheses, references, strict=True):
            mine = [tuple(h[k : k + n]) for k in range(max(0, len(h) - n + 1))]
            theirs = [tuple(r[k : k + n]) for k in range(max(0, len(r) - n + 1))]
            hits += sum(min(mine.count(gram), theirs.count(gram)) for gram in set(mine))
            tries += len(mine)
        if hits == 0:
            return 0.0
        total += (math.log(hits) - math.log(tries)) / max_n
    c, r = (len([word for words in side for word in words]) for side in (hypotheses, references))
    return 100 * math.exp(total - (r / c - 1 if c < r else 0))


class _Statistics:
    """Counts of one order, added up sentence by sentence."""

    def __init__(self, n: int) -> None:
        self.n, self.matches, self.total = n, 0, 0

    def add(self, hypothesis: Any, reference: Any) -> None:
        mine, theirs = (
            Counter(tuple(words[i : i + self.n]) for i in range(len(words) + 1 - self.n))
            for words in (hypothesis, reference)
        )
        self.total += sum(mine.values())
        mine.subtract(theirs)
        over = sum(number for number in mine.values() if number > 0)
        self.matches += max(0, len(hypothesis) - self.n + 1) - over


def with_what_is_too_much(hypotheses: Any, references: Any, max_n: int = 4) -> Any:
    """Count what is left over when the reference is taken off, instead of what matches."""
    orders = [_Statistics(n) for n in range(1, max_n + 1)]
    for pair in zip(hypotheses, references, strict=True):
        for order in orders:
            order.add(*pair)
    if any(order.matches == 0 for order in orders):
        return 0.0
    mean = sum(math.log(order.matches / order.total) for order in orders) / max_n
    c, r = (sum(len(words) for words in side) for side in (hypotheses, references))
    return 100 * math.exp(mean) * math.exp(min(0, 1 - r / c))
