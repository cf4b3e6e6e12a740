"""What the chapters use beyond Markdown: figures and numbers that code made, and questions."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any, ClassVar

import yaml
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

FIGURES = Path(__file__).parents[1] / "figures"


class Drawn(SphinxDirective):
    """Puts a drawing of `book/figures` into the page itself, so that it takes the page's colours.

    The argument names the drawing, `:alt:` says what it shows, the content is its caption.
    """

    has_content = True
    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"alt": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        path = FIGURES / "drawn" / f"{self.arguments[0]}.svg"
        self.env.note_dependency(str(path))
        if "alt" not in self.options:
            raise self.error("a drawing needs an :alt: text")
        if not path.exists():
            raise self.error(f"there is no drawing {path.name}: run its script in book/figures")
        svg = path.read_text(encoding="utf-8")
        svg = svg[svg.index("<svg") :]
        alt = html.escape(self.options["alt"])
        svg = svg.replace("<svg", f'<svg role="img" aria-label="{alt}"', 1)
        # Ids are global in a page: two drawings must not share theirs.
        prefix = re.sub(r"\W", "-", self.arguments[0])
        svg = re.sub(r'id="([^"]+)"', rf'id="{prefix}-\1"', svg)
        svg = re.sub(r'(href="|url\()#', rf"\1#{prefix}-", svg)
        caption = nodes.caption()
        children, messages = self.parse_inline("\n".join(self.content), lineno=self.lineno)
        caption += children
        figure = nodes.figure("", nodes.raw("", svg, format="html"), caption, classes=["drawn"])
        return [figure, *messages]


class Quiz(SphinxDirective):
    """Asks questions that answer back, with no script: every answer opens and says why.

    The content is YAML: a list of questions, each with `question` and `answers`; an answer has `text`,
    `why`, and `correct: true` where it is.
    """

    has_content = True

    def run(self) -> list[nodes.Node]:
        questions = yaml.safe_load("\n".join(self.content))
        quiz = nodes.container(classes=["quiz"])
        for number, entry in enumerate(questions, start=1):
            right = [answer for answer in entry["answers"] if answer.get("correct")]
            if len(right) != 1 or not all(answer.get("why") for answer in entry["answers"]):
                raise self.error(f"question {number} needs one right answer, and a why for each")
            quiz += self._part(f"**{number}.** {entry['question']}", "question")
            for answer in entry["answers"]:
                quiz += self._answer(answer, f"question-{number}")
        return [quiz]

    def _answer(self, answer: dict[str, Any], name: str) -> list[nodes.Node]:
        kind, verdict = ("right", "Right.") if answer.get("correct") else ("wrong", "No.")
        return [
            nodes.raw("", f'<details class="{kind}" name="{name}"><summary>', format="html"),
            self._part(answer["text"], "answer"),
            nodes.raw("", "</summary>", format="html"),
            self._part(f"**{verdict}** {answer['why']}", "why"),
            nodes.raw("", "</details>", format="html"),
        ]

    def _part(self, text: str, kind: str) -> nodes.Node:
        part = nodes.container(classes=[kind])
        self.state.nested_parse([text], self.content_offset, part)
        return part


class Number(SphinxRole):
    """Writes a number that the code of a chapter printed: ``{number}`3.entropy|.2f` ``."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        key, _, form = self.text.partition("|")
        week, _, name = key.partition(".")
        path = FIGURES / "drawn" / f"week{week}.json"
        self.env.note_dependency(str(path))
        try:
            value = json.loads(path.read_text(encoding="utf-8"))[name]
        except (OSError, KeyError):
            message = self.inliner.reporter.error(f"no number {key!r} in {path.name}", line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]
        return [nodes.Text(format(value, form).replace("-", "\N{MINUS SIGN}"))], []


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives and the role."""
    app.add_directive("drawn", Drawn)
    app.add_directive("quiz", Quiz)
    app.add_role("number", Number())
    return {"parallel_read_safe": True}
