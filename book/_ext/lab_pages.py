"""What every page of the book gets: reading time, the way to its notebook, links to the repository."""

from __future__ import annotations

import math
import os
import re
from pathlib import PurePosixPath
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

WORDS_A_MINUTE = 200
_SIGNATURE = r'<dl>\n(<dd><em class="sig-param">.*?)</dl>(?=\s*<span class="sig-paren">)'
_PARAMETERS = re.compile(_SIGNATURE, re.DOTALL)
_WEEK = re.compile(r"(book|notebooks)/(\d\d_\w+)$")


def lead_to_repository(app: Sphinx, config: Config) -> None:
    """Let the buttons for editing, asking and launching lead to the repository that is being built.

    `LAB_REPOSITORY` names it, `LAB_BRANCH` the branch, `LAB_JUPYTERHUB` a hub for the launch button.
    """
    options: dict[str, Any] = config.html_theme_options
    options["repository_url"] = os.environ.get("LAB_REPOSITORY") or options["repository_url"]
    options["repository_branch"] = os.environ.get("LAB_BRANCH") or "main"
    if hub := os.environ.get("LAB_JUPYTERHUB"):
        options["launch_buttons"] = options["launch_buttons"] | {"jupyterhub_url": hub}


def minutes(doctree: nodes.document) -> int:
    """Estimate how long a page takes to read, without its drawings and programs."""
    words = sum(
        len(text.split())
        for text in doctree.findall(nodes.Text)
        if not isinstance(text.parent, nodes.raw | nodes.literal_block)
    )
    return max(1, math.ceil(words / WORDS_A_MINUTE))


def _lines(parameters: re.Match[str]) -> str:
    """Sphinx writes the parameters of a long signature as a list of definitions that has no terms."""
    inner = parameters[1].replace("<dd>", "<div>").replace("</dd>", "</div>")
    return f'<div class="parameters">{inner}</div>'


def head_page(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document
) -> None:
    """Put a line below the title of a week's page: how long it takes, and where its notebook is."""
    if "body" in context:
        # A list that has no items, for those who hear the page.
        body = context["body"].replace('<div role="list" class="citation-list">', "<div>")
        context["body"] = _PARAMETERS.sub(_lines, body)
    place = _WEEK.match(pagename)
    if place is None or doctree is None:
        return
    notebook = f"notebooks/{place[2]}"
    if place[1] == "book":
        target = context["pathto"](notebook)
        shown = f'{minutes(doctree)} minutes · <a class="notebook" href="{target}"'
    else:
        # Only `lab serve --lab` has a place where this notebook runs.
        shown = '<a class="notebook" href="" hidden'
    path = PurePosixPath(notebook).with_suffix(".ipynb")
    line = f'<p class="reading">{shown} data-notebook="{path}">Open this week\'s notebook</a></p>'
    context["body"] = context["body"].replace("</h1>", f"</h1>\n{line}", 1)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect both to the build."""
    app.connect("config-inited", lead_to_repository)
    app.connect("html-page-context", head_page)
    return {"parallel_read_safe": True}
