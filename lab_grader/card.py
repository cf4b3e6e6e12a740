"""How a result is shown: as text for terminals, as HTML for notebooks, with the same words."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator

from lab_grader.exercises import Exercise, book_address
from lab_grader.failures import Numbers, Picture
from lab_grader.runner import Result

MARKS = {"right": "✓", "wrong": "✗", "not_started": "·", "waiting": "…"}
COLOURS = {"right": "green", "wrong": "red", "not_started": "dim", "waiting": "yellow"}


def headline(result: Result) -> str:
    """Say in one line how an exercise stands."""
    exercise, properties = result.exercise, result.properties
    holds = sum(property.ok for property in properties)
    match result.status:
        case "right":
            return f"all {len(properties)} properties hold, {exercise.points} points"
        case "wrong":
            return f"{holds} of {len(properties)} properties hold"
        case "waiting":
            return f"waiting for exercise {result.waits_for}"
    return "not started"


def advice(result: Result) -> Iterator[tuple[str, str]]:
    """Give what to say beyond the properties, as pairs of a heading and a text."""
    if result.diagnosis is not None:
        exact = result.diagnosis.exact and result.diagnosis.name != ""
        yield "What happened" if exact else "Most likely", result.diagnosis.message
        yield "Read more", read_more(result.exercise)
    if result.status == "waiting":
        yield "First", f"finish exercise {result.waits_for}: this one is built on it"
    printed = next((property.printed for property in result.properties if property.printed.strip()), "")
    if printed and result.status != "right":
        yield "Your code printed", printed.strip()


def read_more(exercise: Exercise) -> str:
    """Say where the book explains the block."""
    return f"{book_address()}{exercise.page}"


def lines(result: Result) -> Iterator[list[tuple[str, str]]]:
    """Show a result in lines of words, each with the style that a terminal may give it."""
    exercise = result.exercise
    title = (f"{exercise.id} {exercise.title}", "bold")
    yield [(f"{MARKS[result.status]} ", COLOURS[result.status]), title, (f": {headline(result)}", "")]
    if result.status == "wrong":
        for property in result.properties:
            if property.ok:
                yield [(f"    ✓ {property.sentence}", "dim")]
            else:
                yield [("    ✗ ", "red"), (property.sentence, "")]
                yield from ([(f"        {line}", "")] for line in property.said.splitlines())
    for heading, words in advice(result):
        first, *rest = words.splitlines()
        yield [(f"  {heading}: ", "bold"), (first, "")]
        yield from ([(f"    {line}", "")] for line in rest)
    if result.status == "wrong":
        yield [("  Next: ", "bold"), (f"lab hint {exercise.id}", "")]


def text(result: Result) -> str:
    """Show a result in plain words."""
    return "\n".join("".join(words for words, _ in line) for line in lines(result))


# The colours follow the notebook's theme; a card must be readable on white and on black.
_STYLE = """
.lab-card { --good: #1a7f37; --bad: #c9302c; --soft: rgba(127,127,127,.14); border: 1px solid
 rgba(127,127,127,.4); border-left: .35em solid var(--tone); border-radius: .4em; padding: .6em .9em;
 margin: .3em 0; max-width: 52em; font-size: 14px; line-height: 1.45; color: inherit; }
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
.lab-card svg { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) { .lab-card { --good: #3fb950; --bad: #ff7b72; } }
[data-jp-theme-light="false"] .lab-card, [data-theme="dark"] .lab-card
 { --good: #3fb950; --bad: #ff7b72; }
[data-jp-theme-light="true"] .lab-card, [data-theme="light"] .lab-card
 { --good: #1a7f37; --bad: #c9302c; }
"""
_TONES = {"right": "var(--good)", "wrong": "var(--bad)", "waiting": "#b8860b", "not_started": "#888"}


def card(result: Result) -> str:
    """Show a result as HTML that reads well in light and dark."""
    exercise = result.exercise
    parts = [
        f"<style>{_STYLE}</style>",
        f'<div class="lab-card" style="--tone: {_TONES[result.status]}" role="status">',
        f"<b>{MARKS[result.status]} {_escape(f'{exercise.id} {exercise.title}')}</b>: "
        f"{_escape(headline(result))}",
    ]
    for heading, words in advice(result):
        body = f"<pre>{_escape(words)}</pre>" if heading.endswith("printed") else _paragraphs(words)
        parts.append(f'<div class="said"><b>{_escape(heading)}:</b> {body}</div>')
    picture = next((p.picture for p in result.properties if p.picture is not None), None)
    if picture is not None and result.status == "wrong":
        parts.append(draw(picture))
    if result.status == "wrong":
        parts.append("<ul>")
        for property in result.properties:
            message = f"<pre>{_escape(property.said)}</pre>" if property.message else ""
            kind = "good" if property.ok else "bad"
            parts.append(f'<li class="{kind}">{_escape(property.sentence)}{message}</li>')
        parts.append("</ul>")
    parts.append("</div>")
    return "".join(parts)


def _escape(words: str) -> str:
    return html.escape(words)


def _paragraphs(words: str) -> str:
    lines = []
    for line in words.splitlines():
        if line.startswith(("http://", "https://")):
            lines.append(f'<a href="{_escape(line)}" target="_blank">{_escape(line)}</a>')
        else:
            lines.append(_escape(line))
    return "<br>".join(lines)


def draw(picture: Picture) -> str:
    """Lay expected and actual numbers side by side, as squares."""
    rows, columns = len(picture.expected), len(picture.expected[0])
    cell = max(6, min(26, 260 // max(rows, columns)))
    flat = [abs(n) for grid in (picture.expected, picture.actual) for row in grid for n in row]
    top = max((n for n in flat if math.isfinite(n)), default=1.0) or 1.0
    width, height = columns * cell, rows * cell
    label = f"{picture.what}: rows are {picture.axes[0]}, columns are {picture.axes[1]}"
    parts = [
        f'<svg viewBox="0 0 {2 * width + 60} {height + 44}" width="{2 * width + 60}" role="img" '
        f'aria-label="{_escape(label)}, expected and yours">'
    ]
    for x, title, numbers in (
        (10, "expected", picture.expected),
        (width + 40, "yours", picture.actual),
    ):
        parts.append(f'<text x="{x}" y="14" font-size="13" fill="currentColor">{title}</text>')
        parts += _squares(numbers, x, cell, top)
    parts.append(
        f'<text x="10" y="{height + 38}" font-size="12" fill="currentColor">'
        f"{_escape(label)}</text></svg>"
    )
    return "".join(parts)


def _squares(numbers: Numbers, left: int, cell: int, top: float) -> Iterator[str]:
    """Draw blue for positive, orange for negative numbers, and a cross for what is no number."""
    for i, row in enumerate(numbers):
        for j, number in enumerate(row):
            x, y = left + j * cell, 22 + i * cell
            if math.isfinite(number):
                colour = "#0072b2" if number >= 0 else "#d55e00"
                yield (
                    f'<rect x="{x}" y="{y}" width="{cell - 1}" height="{cell - 1}" fill="{colour}" '
                    f'fill-opacity="{0.06 + 0.94 * min(1.0, abs(number) / top):.2f}">'
                    f"<title>{number:.4g}</title></rect>"
                )
            else:
                side = cell - 5
                yield (
                    f'<path d="M{x + 2} {y + 2}l{side} {side}m0 -{side}l-{side} {side}" '
                    f'stroke="#cc0000" stroke-width="2"><title>{number}</title></path>'
                )
