"""Exercise 11.3, other right ways."""

from __future__ import annotations

import itertools
from typing import Any


def spans_by_marks(tokens: Any, spans: Any, sentinels: Any) -> Any:
    """Mark what goes, then walk."""
    gone = [False] * len(tokens)
    for start, end in spans:
        for place in range(start, end):
            gone[place] = True
    names = iter(sentinels)
    inputs, targets = [], []
    for place, token in enumerate(tokens):
        if not gone[place]:
            inputs.append(token)
            continue
        if place == 0 or not gone[place - 1]:
            name = next(names)
            inputs.append(name)
            targets.append(name)
        targets.append(token)
    return inputs, [*targets, next(names)]


def spans_by_groups(tokens: Any, spans: Any, sentinels: Any) -> Any:
    hidden = {place for start, end in spans for place in range(start, end)}
    inputs: list[int] = []
    targets: list[int] = []
    used = 0
    for is_gone, group in itertools.groupby(range(len(tokens)), key=lambda place: place in hidden):
        run = [tokens[place] for place in group]
        if is_gone:
            inputs.append(sentinels[used])
            targets += [sentinels[used], *run]
            used += 1
        else:
            inputs.extend(run)
    targets.append(sentinels[used])
    return inputs, targets


def spans_backwards(tokens: Any, spans: Any, sentinels: Any) -> Any:
    """Cut from the end, so that places before stay what they are."""
    joined: list[list[int]] = []
    for start, end in sorted(spans, reverse=True):
        while joined and end >= joined[-1][0]:
            end = max(end, joined.pop()[1])
        joined.append([start, end])
    inputs, targets = list(tokens), [sentinels[len(joined)]]
    for number, (start, end) in zip(reversed(range(len(joined))), joined, strict=True):
        targets[:0] = [sentinels[number], *tokens[start:end]]
        inputs[start:end] = [sentinels[number]]
    return inputs, targets


def spans_by_recursion(tokens: Any, spans: Any, sentinels: Any) -> Any:
    if not spans:
        return list(tokens), [sentinels[0]]
    start, end = min(spans)
    rest = [span for span in spans if span != (start, end)]
    while near := [span for span in rest if span[0] <= end]:
        end = max(end, *(span[1] for span in near))
        rest = [span for span in rest if span not in near]
    moved = [(a - end, b - end) for a, b in rest]
    inputs, targets = spans_by_recursion(tokens[end:], moved, sentinels[1:])
    name = sentinels[0]
    return [*tokens[:start], name, *inputs], [name, *tokens[start:end], *targets]
