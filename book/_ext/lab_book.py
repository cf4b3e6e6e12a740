"""What the chapters use beyond Markdown: figures drawn by code, and numbers that code printed."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any, ClassVar

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
    """Register the directive and the role."""
    app.add_directive("drawn", Drawn)
    app.add_role("number", Number())
    return {"parallel_read_safe": True}
