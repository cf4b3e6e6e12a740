"""A mistake as a change of the usual solution: a diff without line numbers, found by what it shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lab_check.errors import UserError

SEPARATOR = "@@"  # begins a line between two places of one change


@dataclass(frozen=True)
class Edit:
    """Other lines in the place of some lines; where there are none, they are put in between."""

    start: int
    end: int
    lines: tuple[str, ...] = ()

    def touches(self, other: Edit) -> bool:
        """Tell whether two edits take the same line, or one puts something between lines that go."""
        return max(self.start, other.start) < min(self.end, other.end) or any(
            gap.start == gap.end and taken.start < gap.start < taken.end
            for gap, taken in ((self, other), (other, self))
        )


Change = tuple[Edit, ...]


def read(diff: Sequence[str], usual: Sequence[str], place: str, first: int) -> Change:
    """Find every hunk of a diff in the usual solution; what is not there exactly once is refused.

    `place` and the number of the `first` line are for the errors' sake.
    """
    edits: list[Edit] = []
    hunk: list[str] = []
    for number, line in enumerate([*diff, SEPARATOR], first):
        if line.startswith(SEPARATOR):
            if hunk:
                edits += _located(hunk, usual, f"{place}, line {number - len(hunk)}")
            hunk = []
        elif line and line[0] not in " +-":
            raise UserError(f"{place}, line {number}: a line of a diff begins with a blank, + or -")
        else:
            hunk.append(line.rstrip() or " ")
    if not edits:
        raise UserError(f"{place}, line {first}: the diff changes nothing")
    if any(touching([edit], edits[:number]) for number, edit in enumerate(edits)):
        raise UserError(f"{place}, line {first}: two hunks of the diff touch each other")
    return tuple(edits)


def _located(hunk: list[str], usual: Sequence[str], place: str) -> list[Edit]:
    shown = [line[1:] for line in hunk if line[0] != "+"]
    starts = [
        at for at in range(len(usual) - len(shown) + 1) if list(usual[at : at + len(shown)]) == shown
    ]
    if not shown:
        raise UserError(f"{place}: show a line beside what is added, so that its place can be found")
    if len(starts) != 1:
        times = f"{len(starts)} times: show more lines around it" if starts else "nowhere"
        raise UserError(f"{place}: what the diff starts from stands in usual.py {times}")
    at = starts[0]
    edits: list[Edit] = []
    for line in hunk:
        if line[0] == " ":
            at += 1
            continue
        # Lines that are taken and lines that are put side by side make one edit.
        joined = edits.pop() if edits and edits[-1].end == at else Edit(at, at)
        if line[0] == "-":
            at += 1
            edits.append(Edit(joined.start, at, joined.lines))
        else:
            edits.append(Edit(joined.start, at, (*joined.lines, line[1:])))
    return edits


def touching(some: Iterable[Edit], others: Iterable[Edit]) -> bool:
    """Tell whether two changes touch each other: then they cannot be made together."""
    others = list(others)
    return any(edit.touches(other) for edit in some for other in others)


def apply(usual: Sequence[str], edits: Iterable[Edit]) -> list[tuple[int, str]]:
    """Change the usual solution: the lines, each with the number of the one in whose place it stands.

    Where several put something between the same two lines, it comes in the order of the edits.
    """
    lines = list(enumerate(usual, 1))
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    for edit in reversed(ordered):
        lines[edit.start : edit.end] = [(edit.start + 1, line) for line in edit.lines]
    return lines


def diff(usual: Sequence[str], other: Sequence[str]) -> list[str]:
    """Write a change of the usual solution as it is read: with as little around it as finds it."""
    import difflib

    matcher = difflib.SequenceMatcher(None, list(usual), list(other), autojunk=False)
    spans = [code[1:] for code in matcher.get_opcodes() if code[0] != "equal"]
    # Each hunk: the edits it holds, and the lines of the usual solution that it shows.
    hunks = [([span], _shown(usual, span[0], span[1])) for span in spans]
    joined: list[tuple[list[tuple[int, int, int, int]], tuple[int, int]]] = []
    for spans_here, (start, end) in hunks:
        if joined and start < joined[-1][1][1]:
            before, (first, _) = joined.pop()
            joined.append(([*before, *spans_here], (first, end)))
        else:
            joined.append((spans_here, (start, end)))
    lines: list[str] = []
    for number, (inside, (start, end)) in enumerate(joined):
        lines += [SEPARATOR] if number else []
        at = start
        for taken, until, put, put_until in inside:
            lines += [f" {line}" for line in usual[at:taken]]
            lines += [f"-{line}" for line in usual[taken:until]]
            lines += [f"+{line}" for line in other[put:put_until]]
            at = until
        lines += [f" {line}" for line in usual[at:end]]
    return [line.rstrip() for line in lines]


def _shown(usual: Sequence[str], start: int, end: int) -> tuple[int, int]:
    """Choose the lines to show around an edit: one on each side, or as many as make it unique."""
    margin = 1
    while True:
        first, last = max(start - margin, 0), min(end + margin, len(usual))
        shown = list(usual[first:last])
        count = sum(
            list(usual[at : at + len(shown)]) == shown for at in range(len(usual) - len(shown) + 1)
        )
        if count == 1 or (first, last) == (0, len(usual)):
            return first, last
        margin += 1
