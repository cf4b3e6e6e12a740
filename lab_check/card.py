"""How a result is shown: as text for terminals, as HTML for notebooks, with the same words."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lab_check.calling.failures import Numbers, Picture
from lab_check.exercises import Exercise, section

if TYPE_CHECKING:
    from lab_check.running.results import Property, Result

MARKS = {"right": "✓", "wrong": "✗", "not_started": "·", "waiting": "…"}
FEW = 3  # failures that are shown unasked
Notes = Sequence[tuple[str, str]]  # headings, and what is said under them
COLOURS = {"right": "green", "wrong": "red", "not_started": "dim", "waiting": "yellow"}


def headline(result: Result) -> str:
    """Say in one line how an exercise stands."""
    exercise, properties = result.exercise, result.properties
    holds = sum(property.ok for property in properties)
    match result.status:
        case "right":
            return f"all {len(properties)} properties hold, {exercise.points} points"
        case "wrong" if not properties:
            return f"lab_transformer/{exercise.module}.py cannot be imported"
        case "wrong":
            return f"{holds} of {len(properties)} properties hold"
        case "waiting":
            return f"waiting for exercise {result.waits_for}"
    return "not started"


def mistake(result: Result) -> Iterator[tuple[str, str]]:
    """Say first what the mistake is, as pairs of a heading and a text."""
    if (diagnosis := result.diagnosis) is not None:
        guessed = diagnosis.kind == "turn" and not diagnosis.exact
        # What the code raised is no guess; what led to it may be.
        raised = next((p.message for p in result.broken if p.symptom == "exception"), "")
        if raised and guessed and diagnosis.message.startswith(f"{raised}\n"):
            yield "What happened", raised
            yield "Most likely", diagnosis.message.removeprefix(f"{raised}\n")
        else:
            yield "Most likely" if guessed else "What happened", diagnosis.message
    if result.status == "waiting":
        yield "First", f"finish exercise {result.waits_for}: this one is built on it"


def printed(result: Result) -> Iterator[tuple[str, str]]:
    """Show what the code printed while a property was tried, unless all is right."""
    words = next((property.printed for property in result.properties if property.printed.strip()), "")
    if words and result.status != "right":
        yield "Your code printed", words.strip()


def failing(result: Result) -> list[tuple[Property, str, list[Property]]]:
    """List what fails: each with what to say of it, and with others that fail for the same reason.

    What the diagnosis says already is not said again.
    """
    said = result.diagnosis.message if result.diagnosis is not None else ""
    groups: dict[str, list[Property]] = {}
    for property in result.broken:
        groups.setdefault(_reason(property), []).append(property)
    return [
        (first, "" if first.message in said else first.said, others)
        for first, *others in groups.values()
    ]


def _reason(property: Property) -> str:
    """Tell failures apart; the same error in the same line is the same, whatever sizes it names."""
    if property.symptom == "exception":
        place = [line for line in property.message.splitlines() if line.startswith("  at ")]
        return property.message.partition(":")[0] + "".join(place)
    return property.said


def _left(groups: list[tuple[Property, str, list[Property]]]) -> int:
    """Count what fails beyond the first few."""
    return sum(1 + len(others) for *_, others in groups[FEW:])


def _alike(others: list[Property]) -> str:
    return f"and {len(others)} more for the same reason"


def lines(result: Result, reading: str = "", whole: bool = False) -> Iterator[list[tuple[str, str]]]:
    """Show a result in lines of words, each with the style that a terminal may give it.

    `reading` says where the block is explained. Of what fails, `whole` names all, not the first few.
    """
    exercise = result.exercise
    title = (f"{exercise.id} {exercise.title}", "bold")
    yield [(f"{MARKS[result.status]} ", COLOURS[result.status]), title, (f": {headline(result)}", "")]
    yield from _said(mistake(result))
    if result.status == "wrong":
        yield from _properties(result, whole)
    yield from _said(printed(result))
    if result.status == "wrong" and result.properties:
        if reading:
            yield [("  Read more: ", "bold"), (reading, "")]
        yield [("  Next: ", "bold"), (f"lab hint {exercise.id}", "")]


def _said(pairs: Iterator[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    for heading, words in pairs:
        first, *rest = words.splitlines() or [""]
        yield [(f"  {heading}: ", "bold"), (first, "")]
        yield from ([(f"    {line}", "")] for line in rest)


def _properties(result: Result, whole: bool) -> Iterator[list[tuple[str, str]]]:
    """Show what fails, then what holds."""
    groups = failing(result)
    shown = groups if whole else groups[:FEW]
    for property, said, others in shown:
        yield [("    ✗ ", "red"), (property.sentence, "")]
        yield from ([(f"        {line}", "")] for line in said.splitlines())
        if others:
            named = ": " + "; ".join(p.sentence for p in others) if whole else ""
            yield [(f"        {_alike(others)}{named}", "dim")]
    if not whole and len(shown) < len(result.broken):
        left = _left(groups)
        more = f"and {left} more" if left else f"all {len(result.broken)} by name"
        yield [(f"    {more}: lab check {result.exercise.id} --all", "dim")]
    yield from ([(f"    ✓ {p.sentence}", "dim")] for p in result.properties if p.ok)


def not_imported(results: list[Result]) -> Iterator[list[tuple[str, str]]]:
    """Say of every file that cannot be imported why, once, and which exercises that concerns."""
    causes: dict[str, list[Exercise]] = {}
    for result in results:
        if result.diagnosis is not None and not result.properties:
            causes.setdefault(result.diagnosis.message, []).append(result.exercise)
    for cause, exercises in causes.items():
        files = sorted({f"lab_transformer/{exercise.module}.py" for exercise in exercises})
        yield [("✗ ", "red"), (f"{', '.join(files)} cannot be imported", "bold")]
        yield from ([(f"    {line}", "")] for line in cause.splitlines())
        ids = [exercise.id for exercise in exercises]
        yield [(f"    Until then, nothing can be said of {', '.join(ids)}.", "")]
        undo = f"where a block is to blame, `lab undo {ids[0]}` and the like bring back what it was"
        yield [("  Next: ", "bold"), (f"mend it there; {undo}", "")]


def text(result: Result, notes: Notes = (), reading: str = "", whole: bool = False) -> str:
    """Show a result in plain words, with notes."""
    said = ["".join(words for words, _ in line) for line in lines(result, reading, whole)]
    return "\n".join([*said, *(f"  {heading}: {words}" for heading, words in notes)])


# The colours follow the notebook's theme; a card must be readable on white and on black.
_STYLE = """
.lab-card { --good: #1a7f37; --bad: #c9302c; --soft: rgba(127,127,127,.14); border: 1px solid
 rgba(127,127,127,.4); border-left: .35em solid var(--tone); border-radius: .4em; padding: .6em .9em;
 margin: .3em 0; max-width: 52em; font-size: 14px; line-height: 1.45; color: inherit;
 overflow-wrap: anywhere; }
.lab-card b, .lab-card li, .lab-card p, .lab-card summary { color: inherit; }
.lab-card ul { list-style: none; margin: .5em 0; padding: 0; }
.lab-card li { margin: .15em 0 .15em 1.5em; text-indent: -1.5em; }
.lab-card li::before { display: inline-block; width: 1.5em; text-indent: 0; font-weight: bold; }
.lab-card li.good { opacity: .75; } .lab-card li.good::before { content: "✓"; color: var(--good); }
.lab-card li.bad::before { content: "✗"; color: var(--bad); }
.lab-card pre { text-indent: 0; margin: .1em 0; padding: 0; white-space: pre-wrap; word-break: normal;
 overflow-wrap: anywhere; background: none; color: inherit; font-size: 13px; }
.lab-card li pre { font-family: inherit; opacity: .85; }
.lab-card .said { background: var(--soft); border-radius: .4em; padding: .5em .7em; margin: .5em 0; }
.lab-card p { margin: .5em 0 .1em; }
.lab-card summary { cursor: pointer; } .lab-card li details { text-indent: 0; opacity: .85; }
.lab-card details p { margin: .3em 0 .3em 1.2em; }
@media (prefers-color-scheme: dark) { .lab-card { --good: #3fb950; --bad: #ff7b72; } }
[data-jp-theme-light="false"] .lab-card, [data-theme="dark"] .lab-card
 { --good: #3fb950; --bad: #ff7b72; }
[data-jp-theme-light="true"] .lab-card, [data-theme="light"] .lab-card
 { --good: #1a7f37; --bad: #c9302c; }
"""
_TONES = {"right": "var(--good)", "wrong": "var(--bad)", "waiting": "#b8860b", "not_started": "#888"}


def card(result: Result, notes: Notes = (), hints: str = "", reading: str = "") -> str:
    """Show a result as HTML that reads well in light and dark, with notes and a panel of hints."""
    exercise = result.exercise
    parts = [
        f"<style>{_STYLE}</style>",
        f'<div class="lab-card" style="--tone: {_TONES[result.status]}" role="status">',
        f"<b>{MARKS[result.status]} {_escape(f'{exercise.id} {exercise.title}')}</b>: "
        f"{_escape(headline(result))}",
        *(_box(heading, _broken(words)) for heading, words in (*notes, *mistake(result))),
    ]
    if result.status == "wrong":
        picture = next((p.picture for p in result.properties if p.picture is not None), None)
        parts += [draw(picture)] if picture is not None else []
        parts.append(_lists(result))
    parts += [_box(heading, f"<pre>{_escape(words)}</pre>") for heading, words in printed(result)]
    parts.append(hints)
    if result.status == "wrong" and result.properties and reading:
        parts.append(f"<p><b>Read more:</b> {_link(exercise, reading)}</p>")
    parts.append("</div>")
    return "".join(parts)


def _box(heading: str, body: str) -> str:
    return f'<div class="said"><b>{_escape(heading)}:</b> {body}</div>'


def _broken(words: str) -> str:
    return "<br>".join(map(_escape, words.splitlines()))


def _link(exercise: Exercise, reading: str) -> str:
    if not reading.startswith(("http://", "https://")):
        return _escape(reading)
    title = _escape(f"{section(exercise)} (week {exercise.week} of the book)")
    return f'<a href="{_escape(reading)}" target="_blank">{title}</a>'


def _lists(result: Result) -> str:
    """List what fails, the first few unfolded, then what holds."""
    groups, items = failing(result), []
    for property, said, others in groups:
        message = f"<pre>{_escape(said)}</pre>" if said else ""
        if others:
            alike = "".join(f'<li class="bad">{_escape(p.sentence)}</li>' for p in others)
            message += _folded(_alike(others), alike)
        items.append(f'<li class="bad">{_escape(property.sentence)}{message}</li>')
    few, more = items[:FEW], items[FEW:]
    holds = [f'<li class="good">{_escape(p.sentence)}</li>' for p in result.properties if p.ok]
    return "".join(
        [
            f"<ul>{''.join(few)}</ul>" if few else "",
            _folded(f"and {_left(groups)} more", "".join(more)) if more else "",
            f"<ul>{''.join(holds)}</ul>" if holds else "",
        ]
    )


def _folded(summary: str, items: str) -> str:
    return f"<details><summary>{summary}</summary><ul>{items}</ul></details>"


# No kernel is needed: which hints were opened is kept by the browser, and what fails there is no harm.
_REMEMBER = "try { localStorage.setItem(this.dataset.hint, this.open) } catch {}"
_RECALL = """<script>try {
 for (const hint of document.querySelectorAll(".lab-card [data-hint]"))
  hint.open = (localStorage.getItem(hint.dataset.hint) ?? String(hint.open)) === "true";
} catch {}</script>"""


def hint_panel(exercise: Exercise, seen: int, workspace: str) -> str:
    """Fold all hints of an exercise into each other; those that were asked for before are open.

    `workspace` tells one workspace from another in the memory of the browser.
    """
    panel = ""
    for rung, hint in reversed(list(enumerate(exercise.hints, 1))):
        key = _escape(f"lab-hint {workspace} {exercise.id} {rung}")
        ask = "Give me a hint" if rung == 1 else "Another hint"
        panel = (
            f'<details data-hint="{key}" ontoggle="{_REMEMBER}"{" open" if rung <= seen else ""}>'
            f"<summary>{ask} ({rung} of {len(exercise.hints)})</summary>"
            f"<p>{_escape(hint)}</p>{panel}</details>"
        )
    return panel + _RECALL


def _escape(words: str) -> str:
    return html.escape(words)


_LEFT, _TOP = 26, 38  # of a grid, for the numbers of the marked row and column


def draw(picture: Picture) -> str:
    """Lay expected and actual numbers side by side, with a scale; mark the entry that a message names.

    A figure for any page, light or dark; where the page is narrow, one grid stands below the other.
    """
    rows, columns = len(picture.expected), len(picture.expected[0])
    cell = max(6, min(26, 260 // max(rows, columns)))
    flat = [n for grid in (picture.expected, picture.actual) for row in grid for n in row]
    finite = [n for n in flat if math.isfinite(n)]
    top = max(map(abs, finite), default=1.0) or 1.0
    caption = f"{picture.what}: rows are {picture.axes[0]}, columns are {picture.axes[1]}."
    if picture.worst is not None:
        i, j = picture.worst
        caption += (
            f" Marked: {picture.axes[0]} {i}, {picture.axes[1]} {j}, expected "
            f"{picture.expected[i][j]:.4g}, yours {picture.actual[i][j]:.4g}."
        )
    if len(finite) < len(flat):
        caption += " A cross is no finite number."
    grids = (
        _grid(title, numbers, picture, cell, top)
        for title, numbers in (("expected", picture.expected), ("yours", picture.actual))
    )
    scale = _scale(-top if min(finite, default=0.0) < 0 else 0.0, top)
    return (
        '<figure style="margin: .5em 0; display: flex; flex-wrap: wrap; gap: .3em 1.5em; '
        f'align-items: flex-end">{"".join(grids)}{scale}'
        f'<figcaption style="flex-basis: 100%; font-size: 13px">{_escape(caption)}</figcaption>'
        "</figure>"
    )


def _grid(title: str, numbers: Numbers, picture: Picture, cell: int, top: float) -> str:
    width = max(_LEFT + len(numbers[0]) * cell + 2, 90)
    height = _TOP + len(numbers) * cell + 2
    parts = [_svg(width, height, f"{title}: {picture.what}"), _label(_LEFT, 13, title)]
    for i, row in enumerate(numbers):
        for j, number in enumerate(row):
            parts.append(_square(number, _LEFT + j * cell, _TOP + i * cell, cell, top))
    if picture.worst is not None:
        i, j = picture.worst
        x, y = _LEFT + j * cell, _TOP + i * cell
        parts.append(_label(x + cell // 2, _TOP - 6, str(j), "middle"))
        parts.append(_label(_LEFT - 5, y + cell // 2 + 4, str(i), "end"))
        parts.append(
            f'<rect class="worst" x="{x - 1}" y="{y - 1}" width="{cell + 1}" height="{cell + 1}" '
            'fill="none" stroke="currentColor" stroke-width="2"/>'
        )
    return "".join([*parts, "</svg>"])


def _scale(low: float, top: float) -> str:
    """Draw which colour is which number."""
    steps = 9 if low else 5
    parts = [_svg(steps * 18 + 50, 38, f"the scale, from {low:.3g} to {top:.3g}")]
    for step in range(steps):
        number = low + (top - low) * step / (steps - 1)
        parts.append(_square(number, 16 + step * 18, 2, 18, top))
    for number in dict.fromkeys((low, 0.0, top)):
        middle = 25 + round((steps - 1) * 18 * (number - low) / (top - low))
        parts.append(_label(middle, 34, f"{number:.3g}", "middle"))
    return "".join([*parts, "</svg>"])


def _svg(width: int, height: int, label: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" style="max-width: 100%; height: auto" '
        f'role="img" aria-label="{_escape(label)}">'
    )


def _label(x: int, y: int, words: str, anchor: str = "start") -> str:
    place = f'x="{x}" y="{y}" text-anchor="{anchor}"'
    return f'<text {place} font-size="13" fill="currentColor">{words}</text>'


def _square(number: float, x: int, y: int, cell: int, top: float) -> str:
    """Draw blue for a positive number, orange for a negative one, and a cross for what is none."""
    if math.isfinite(number):
        colour = "#0072b2" if number >= 0 else "#d55e00"
        return (
            f'<rect x="{x}" y="{y}" width="{cell - 1}" height="{cell - 1}" fill="{colour}" '
            f'fill-opacity="{0.06 + 0.94 * min(1.0, abs(number) / top):.2f}">'
            f"<title>{number:.4g}</title></rect>"
        )
    side = cell - 5
    return (
        f'<path d="M{x + 2} {y + 2}l{side} {side}m0 -{side}l-{side} {side}" '
        f'stroke="#cc0000" stroke-width="2"><title>{number}</title></path>'
    )
