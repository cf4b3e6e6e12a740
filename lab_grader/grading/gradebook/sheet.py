"""CSV that no spreadsheet takes for a program, wherever it splits the lines."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

# What begins a formula; spreadsheets of the East take the wide and small forms for the same.
_SIGNS = "=+\\-@＝＋－＠﹦﹢﹣﹫−"
# What may stand before the sign and is not looked at: spaces, quotes, and what has no width.
_UNSEEN = '\\s"\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff'
# A spreadsheet that splits at semicolons knows no quotes in the middle of a line: a cell is what begins
# the text, and what follows a separator in it.
_FORMULA = re.compile(f"(^|[;,|])([{_UNSEEN}]*)([{_SIGNS}])")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def to_csv(rows: list[list[Any]]) -> str:
    """Write rows as CSV in which no text is a formula, and which Excel reads in the right encoding."""
    out = io.StringIO()
    # All texts in quotes: some programs split at a semicolon, too, and none asks which.
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerows([harmless(cell) for cell in row] for row in rows)
    text = out.getvalue()
    # Without this mark Excel takes letters beyond ASCII for others; a file without them needs none.
    return text if text.isascii() else "\ufeff" + text


def harmless(cell: Any) -> Any:
    """Put a quote wherever in a text a spreadsheet would begin a formula."""
    if not isinstance(cell, str):
        return cell
    return _FORMULA.sub(r"\1'\2\3", _CONTROL.sub(" ", cell))
