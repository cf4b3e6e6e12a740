"""The language of the book's pictures: strips, grids, arrows, lines of attention, boxes, masks.

A vector is a strip of cells, a matrix a grid. A line of attention is as wide as its weight. What a
thing is decides its colour, everywhere the same: `query`, `key`, `value`, `mask`, `pad`, and `plus` and
`minus` for numbers. Classes name it, `lab.css` knows the colours of each theme, text takes the page's.

A panel is no wider than a phone, so that its words are never shrunk. The panels of a picture stand in a
row where there is room, and in a column where there is none.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence

WIDTH = 340
CELL = 26

Point = tuple[float, float]


def number(value: float, form: str = ".2f") -> str:
    """Write a number as the book does, with a real minus sign and no negative zero."""
    text = format(value, form)
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "\N{MINUS SIGN}")


def _at(value: float) -> str:
    """Write a coordinate in tenths of a pixel, so that every machine writes the same."""
    return f"{round(value, 1) + 0:g}"


class Panel:
    """A drawing of one width to which parts are added; coordinates are pixels, from the top left."""

    def __init__(self, height: float, width: float = WIDTH) -> None:
        self._height, self._width = height, width
        self._parts: list[str] = []

    def svg(self) -> str:
        """Give the whole drawing as a file."""
        width, height = _at(self._width), _at(self._height)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="lab" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">'
        )
        return "\n".join([head, *self._parts, "</svg>\n"])

    def _add(self, tag: str, kind: str, inner: str = "", **attributes: float | str) -> None:
        shown = {name.replace("_", "-"): value for name, value in attributes.items()}
        pairs = [
            f'{name}="{value if isinstance(value, str) else _at(value)}"'
            for name, value in shown.items()
        ]
        text = " ".join([f"<{tag}", *([f'class="{kind}"'] if kind else []), *pairs])
        self._parts.append(f"{text}>{inner}</{tag}>" if inner else f"{text}/>")

    def text(self, x: float, y: float, words: str, kind: str = "", turn: float = 0) -> None:
        """Write words around a point; `left` and `right` in the kind name the end that stands there.

        A last letter after ^ stands high, as in W^Q. The turn is in degrees, clockwise.
        """
        inner = html.escape(words, quote=False)
        raised = r'<tspan class="raised" dy="-4">\1</tspan>'
        turned = {"transform": f"rotate({_at(turn)} {_at(x)} {_at(y)})"} if turn else {}
        self._add("text", kind, re.sub(r"\^(\w)$", raised, inner), x=x, y=y, **turned)

    def shape(self, x: float, y: float, words: str, kind: str = "") -> None:
        """Write the shape of what goes along an arrow."""
        self.text(x, y, words, f"shape {kind}".strip())

    def cell(
        self, x: float, y: float, width: float, height: float, kind: str = "", tint: float = 0
    ) -> None:
        """Draw a cell, filled with its colour as much as the tint says, from 0 to 1."""
        self._add(
            "rect", f"cell {kind}".strip(), x=x, y=y, width=width, height=height,
            fill_opacity=str(round(0.45 * tint, 2)),
        )  # fmt: skip

    def hatch(self, x: float, y: float, size: float, kind: str = "mask") -> None:
        """Draw a cell that is hidden."""
        self.cell(x, y, size, size, kind)
        steps = [size * part / 3 for part in (1, 2, 3)]
        strokes = [f"M{_at(x)} {_at(y + s)}L{_at(x + s)} {_at(y)}" for s in steps]
        strokes += [f"M{_at(x + s)} {_at(y + size)}L{_at(x + size)} {_at(y + s)}" for s in steps[:2]]
        self._add("path", f"hatch {kind}", d="".join(strokes))

    def grid(
        self,
        x: float,
        y: float,
        rows: Sequence[Sequence[float]],
        kind: str = "",
        form: str = ".2f",
        cell: Point = (CELL, CELL),
        most: float = 0,
    ) -> None:
        """Draw a matrix; without a kind the sign of a number chooses its colour, its size the tint.

        `most` is the number that gets the full tint, by default the largest here.
        """
        most = most or max(abs(value) for row in rows for value in row) or 1
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                left, top = x + j * cell[0], y + i * cell[1]
                own = kind or ("minus" if value < 0 else "plus")
                self.cell(left, top, *cell, own, min(1, abs(value) / most))
                self.text(left + cell[0] / 2, top + cell[1] / 2, number(value, form), "digits")

    def block(
        self,
        x: float,
        y: float,
        rows: int,
        columns: int,
        kind: str = "",
        tint: float = 1,
        size: float = 11,
    ) -> None:
        """Draw a matrix whose numbers do not matter, only its shape."""
        width, height = columns * size, rows * size
        self.cell(x, y, width, height, kind, tint)
        across = [f"M{_at(x)} {_at(y + i * size)}h{_at(width)}" for i in range(1, rows)]
        down = [f"M{_at(x + j * size)} {_at(y)}v{_at(height)}" for j in range(1, columns)]
        self._add("path", f"hatch {kind}".strip(), d="".join(across + down))

    def mask(
        self, x: float, y: float, allowed: Sequence[Sequence[bool]], size: float, padded: int = 0
    ) -> None:
        """Draw who may look at whom: open cells may, hatched ones not; the last columns may be pads."""
        for i, row in enumerate(allowed):
            for j, may in enumerate(row):
                if may:
                    self.cell(x + j * size, y + i * size, size, size, "query", 0.6)
                else:
                    kind = "pad" if j >= len(row) - padded else "mask"
                    self.hatch(x + j * size, y + i * size, size, kind)

    def arrow(self, *points: Point, kind: str = "", plain: bool = False) -> None:
        """Draw a line through the points, with a tip at its end unless it is plain."""
        (x0, y0), (x1, y1) = points[-2:]
        length = math.hypot(x1 - x0, y1 - y0)
        along, across = (x1 - x0) / length, (y1 - y0) / length
        ends = list(points) if plain else [*points[:-1], (x1 - 5 * along, y1 - 5 * across)]
        way = "L".join(f"{_at(x)} {_at(y)}" for x, y in ends)
        self._add("path", f"arrow {kind}".strip(), d=f"M{way}")
        if not plain:
            back_x, back_y = x1 - 7 * along, y1 - 7 * across
            corners = [
                (x1, y1),
                (back_x - 3.5 * across, back_y + 3.5 * along),
                (back_x + 3.5 * across, back_y - 3.5 * along),
            ]
            way = "L".join(f"{_at(x)} {_at(y)}" for x, y in corners)
            self._add("path", f"tip {kind}".strip(), d=f"M{way}Z")

    def attention(
        self,
        queries: Sequence[Point],
        keys: Sequence[Point],
        weights: Sequence[Sequence[float]],
        kind: str = "query",
    ) -> None:
        """Draw a line from every query to every key, as wide as its weight: 14 pixels for all of it."""
        for query, row in zip(queries, weights, strict=True):
            for key, weight in zip(keys, row, strict=True):
                if weight >= 0.01:
                    way = f"M{_at(query[0])} {_at(query[1])}L{_at(key[0])} {_at(key[1])}"
                    self._add("path", f"look {kind}", d=way, stroke_width=14 * weight)

    def box(self, x: float, y: float, width: float, height: float, words: str, kind: str = "") -> None:
        """Draw a part of the model with its name in it."""
        self._add("rect", f"box {kind}".strip(), x=x, y=y, width=width, height=height, rx=6)
        self.text(x + width / 2, y + height / 2, words)

    def frame(self, x: float, y: float, width: float, height: float) -> None:
        """Draw the border of parts that belong together."""
        self._add("rect", "frame", x=x, y=y, width=width, height=height, rx=8)

    def plus(self, x: float, y: float) -> None:
        """Draw the place where two paths are added."""
        self._add("circle", "box", cx=x, cy=y, r=9)
        self._add(
            "path", "arrow", d=f"M{_at(x - 4)} {_at(y)}H{_at(x + 4)}M{_at(x)} {_at(y - 4)}V{_at(y + 4)}"
        )

    def token(
        self, x: float, y: float, width: float, word: str, kind: str = "", tint: float = 0
    ) -> None:
        """Draw a token as a cell with its word."""
        self.cell(x, y, width, 22, kind, tint)
        self.text(x + width / 2, y + 11, word)
