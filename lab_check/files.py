"""Writing files so that whoever reads them sees the old content or the new, never half of it."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Put content in the place of what a file holds, in one step; text is written as it is."""
    # Not with_suffix: of 3.1 and of 3.2 it would make the same file.
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        fresh.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
