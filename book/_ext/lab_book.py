"""What the chapters use beyond Markdown: figures and numbers that code made, questions, solutions."""

from __future__ import annotations

import ast
import html
import json
import random
import re
import shutil
from pathlib import Path
from typing import Any, ClassVar

import yaml
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

from lab_check import source
from lab_check.exercises import select
from lab_check.paths import package_folder

FIGURES = Path(__file__).parents[1] / "figures"
EXPLORE = Path(__file__).parents[1] / "explore"
MAP = Path(__file__).parents[1] / "_static" / "map.svg"


class Drawn(SphinxDirective):
    """Puts a drawing of `book/figures` into the page itself, so that it takes the page's colours.

    The argument names the drawing, `:alt:` says what it shows, the content is its caption. Several
    names are the panels of one picture, which stand in a row where there is room.
    """

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Any]] = {"alt": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        if "alt" not in self.options:
            raise self.error("a drawing needs an :alt: text")
        drawings = [self._drawing(name) for name in self.arguments[0].split()]
        kind = "panels" if all('class="lab"' in svg for svg in drawings) else "wide"
        alt = html.escape(self.options["alt"])
        caption = nodes.caption()
        children, messages = self.parse_inline("\n".join(self.content), lineno=self.lineno)
        caption += children
        inner = f'<div class="{kind}" role="img" aria-label="{alt}">{"".join(drawings)}</div>'
        figure = nodes.figure("", nodes.raw("", inner, format="html"), caption, classes=["drawn"])
        return [figure, *messages]

    def _drawing(self, name: str) -> str:
        path = FIGURES / "drawn" / f"{name}.svg"
        self.env.note_dependency(str(path))
        if not path.exists():
            raise self.error(f"there is no drawing {path.name}: run its script in book/figures")
        svg = path.read_text(encoding="utf-8")
        svg = svg[svg.index("<svg") :]
        # Ids are global in a page: two drawings must not share theirs.
        prefix = re.sub(r"\W", "-", name)
        svg = re.sub(r'id="([^"]+)"', rf'id="{prefix}-\1"', svg)
        return re.sub(r'(href="|url\()#', rf"\1#{prefix}-", svg)


class Here(SphinxDirective):
    """Shows the map of the front page, small, with the parts of one week lit."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        week = self.arguments[0]
        self.env.note_dependency(str(MAP))
        # Words would be too small to read; the parts are named below.
        svg = re.sub(r"<(title|desc)\b.*?</\1>", "", MAP.read_text(encoding="utf-8"))
        named: dict[str, None] = {}

        def light(part: re.Match[str]) -> str:
            name, weeks = re.findall(r"<text[^>]*>(.*?)</text>", part[0])
            if week not in weeks.split(", "):
                return part[0]
            named[name.removeprefix("+ ")] = None
            return part[0].replace('class="', 'class="lit ', 1)

        svg = re.sub(r"<g class=.*?</g>", light, svg)
        if not named:
            raise self.error(f"no part of {MAP.name} belongs to week {week}")
        svg = re.sub(r"\s*<text.*?</text>", "", svg)
        svg = re.sub(r' role="img" aria-labelledby="[^"]*"', ' aria-hidden="true"', svg)
        svg = svg.replace(' id="map"', "")
        place = self.env.app.builder.get_relative_uri(self.env.docname, "book/intro")
        words = html.escape(f"You are here: {', '.join(named)}")
        link = f'<a class="here" href="{place}#map">{svg}<span>{words}</span></a>'
        return [nodes.raw("", link, format="html")]


class Explorable(SphinxDirective):
    """Puts a figure into the page that answers to the reader, by the script `book/explore/NAME.js`.

    The arguments are NAME and a title. The content's first paragraph says what to try; the others say
    what there is to see, and stay closed until the reader has tried.
    """

    has_content = True
    required_arguments = 2
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        name, title = self.arguments
        if not (EXPLORE / f"{name}.js").exists():
            raise self.error(f"there is no explorable {name}.js in book/explore")
        content = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, content)
        if len(content) < 2:
            raise self.error("an explorable needs a paragraph on what to try, and one on what to see")
        # Relative, so that the book works in any folder of any host.
        folder = "../" * self.env.docname.count("/") + "_static/explore"
        return [
            self._raw(
                f'<figure class="explorable" id="explorable-{name}">'
                f'<link rel="stylesheet" href="{folder}/explore.css">'
                f"<figcaption><span>Try it</span> {html.escape(title)}</figcaption>"
            ),
            nodes.container("", content[0], classes=["try"]),
            self._raw(
                '<div class="stage"></div><noscript><p>This figure moves with JavaScript, '
                "which is switched off here.</p></noscript>"
                '<p class="trouble" hidden>The script of this figure could not be loaded. Open the '
                "book with <code>make serve</code> instead of as a file.</p>"
                '<details class="see"><summary>What you should see</summary>'
            ),
            *content[1:],
            self._raw(
                f'</details><script type="module" src="{folder}/{name}.js" onerror="this.parentElement'
                ".querySelector('.trouble').hidden = false\"></script></figure>"
            ),
        ]

    def _raw(self, text: str) -> nodes.Node:
        return nodes.raw("", text, format="html")


class Quiz(SphinxDirective):
    """Asks questions that answer back, with no script: every answer opens and says why.

    The content is YAML: a list of questions, each with `question` and `answers`; an answer has `text`,
    `why`, and `correct: true` where it is. Answers are shuffled, in the same way at every build.
    """

    has_content = True

    def run(self) -> list[nodes.Node]:
        questions = yaml.safe_load("\n".join(self.content))
        quiz = nodes.container(classes=["quiz"])
        order = random.Random(self.env.docname)
        for number, entry in enumerate(questions, start=1):
            right = [answer for answer in entry["answers"] if answer.get("correct")]
            if len(right) != 1 or not all(answer.get("why") for answer in entry["answers"]):
                raise self.error(f"question {number} needs one right answer, and a why for each")
            quiz += self._part(f"**{number}.** {entry['question']}", "question")
            for answer in order.sample(entry["answers"], len(entry["answers"])):
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

    def _part(self, text: object, kind: str) -> nodes.Node:
        part = nodes.container(classes=[kind])
        self.state.nested_parse([str(text)], self.content_offset, part)
        return part


class Solutions(SphinxDirective):
    """Gives one way to write each exercise of a week, behind a click that says what it gives away."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        parts: list[nodes.Node] = []
        for exercise in select([self.arguments[0]]):
            path = package_folder() / f"{exercise.module}.py"
            self.env.note_dependency(str(path))
            code = _without_words(source.block_text(path.read_text(encoding="utf-8"), exercise.name))
            title = html.escape(f"Exercise {exercise.id}, {exercise.title}: give it away")
            parts += [
                nodes.raw("", f'<details class="solution"><summary>{title}</summary>', format="html"),
                nodes.literal_block(code, code, language="python"),
                nodes.raw("", "</details>", format="html"),
            ]
        return parts


def _without_words(code: str) -> str:
    """Leave out the docstrings, which a reader has before them, and the markers."""
    lines = code.splitlines(keepends=True)
    dropped = {i for i, line in enumerate(lines, 1) if line.strip() in (source.BEGIN, source.END)}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, source.Definition) and ast.get_docstring(node) is not None:
            said = node.body[0]
            dropped |= set(range(said.lineno, (said.end_lineno or said.lineno) + 1))
    kept = "".join(line for i, line in enumerate(lines, 1) if i not in dropped)
    return kept.replace(":\n\n", ":\n").strip()


class Number(SphinxRole):
    """Writes a number that the code of a chapter printed: ``{number}`3.entropy|.2f` ``.

    Before the point stands the week, or the name of another file in `drawn`.
    """

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        key, _, form = self.text.partition("|")
        place, _, name = key.partition(".")
        path = FIGURES / "drawn" / f"{'week' * place.isdigit()}{place}.json"
        self.env.note_dependency(str(path))
        try:
            value = json.loads(path.read_text(encoding="utf-8"))[name]
        except (OSError, KeyError):
            message = self.inliner.reporter.error(f"no number {key!r} in {path.name}", line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]
        return [nodes.Text(format(value, form).replace("-", "\N{MINUS SIGN}"))], []


def copy_explorables(app: Sphinx, exception: Exception | None) -> None:
    """Bring the scripts beside the pages; in `html_static_path` they would run on every page."""
    if exception is None and app.builder.format == "html":
        folder = Path(app.outdir) / "_static" / "explore"
        shutil.copytree(EXPLORE, folder, dirs_exist_ok=True)
        for name in ("translator.json", "walk.json", "tokenizer.json"):
            shutil.copy(FIGURES / "drawn" / name, folder)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives, the role and the scripts."""
    app.add_directive("drawn", Drawn)
    app.add_directive("explorable", Explorable)
    app.add_directive("here", Here)
    app.add_directive("quiz", Quiz)
    app.add_directive("solutions", Solutions)
    app.add_role("number", Number())
    app.connect("build-finished", copy_explorables)
    return {"parallel_read_safe": True}
