"""What a learner's code prints."""

from __future__ import annotations

import io

_LONGEST = 2000


class Tail(io.TextIOBase):
    """Keeps the end of what is printed: a loop that prints must not fill the memory."""

    def __init__(self) -> None:
        self._kept = ""

    def write(self, text: str) -> int:
        self._kept = (self._kept + text)[-_LONGEST:]
        return len(text)

    def text(self) -> str:
        """Give what was kept, without characters that cannot be sent."""
        return self._kept.encode("utf-8", "replace").decode("utf-8")
