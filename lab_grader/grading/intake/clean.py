"""Text from outside, made harmless once, where it comes in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

NAME, SENTENCE, SENTENCES = 120, 400, 20
_DIGITS = 16
# What Python takes for printable and nobody sees: fillers, joiners, an empty Braille cell, and marks
# that choose among forms of a letter.
_UNSEEN = frozenset(
    chr(code)
    for first, last in (
        (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800),
        (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)  # fmt: skip


def clean(text: str) -> str:
    """Make a sentence that can be shown anywhere: what cannot be seen is written as its number."""
    # Control, direction marks, nothing of width zero, half characters, and spaces of other kinds.
    shown = "".join(char if _is_seen(char) else _number(char) for char in text)
    return shown if len(shown) <= SENTENCE else shown[: SENTENCE - 1] + "…"


def clean_all(texts: Iterable[str]) -> tuple[str, ...]:
    """Make sentences clean, and not too many of them."""
    all_ = [clean(text) for text in texts]
    more = len(all_) - SENTENCES
    return (*all_[:SENTENCES], f"and {more} more like these") if more > 0 else tuple(all_)


def clean_name(name: str) -> str:
    """Make a name that can be shown anywhere, and is never that of another.

    A backslash is doubled, so that no name can look like another's numbers. Only what is cut has the
    full length, and a sum of all of it at the end.
    """
    edges = {0, len(name) - 1}
    shown = "".join(_shown(char, place in edges) for place, char in enumerate(name))
    if len(shown) < NAME:
        return shown
    sum_ = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{shown[: NAME - _DIGITS - 1]}…{sum_}"


def _shown(char: str, at_edge: bool) -> str:
    if char == "\\":
        return "\\\\"
    return char if _is_seen(char) and not (char == " " and at_edge) else _number(char)


def _is_seen(char: str) -> bool:
    return char.isprintable() and char not in _UNSEEN


def _number(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
