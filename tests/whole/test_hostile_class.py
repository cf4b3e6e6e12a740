"""A class in which every tenth entry is hostile or broken: the others are graded as without them.

LAB_CLASS says how large the class is.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path

import pytest
from small_class import RIGHT, WRONG, command, lines, run

HEAD = "import os, sys, time, torch\nfrom torch import nn\n\n\ndef causal_mask(length):\n    "
HOSTILE: list[bytes] = [
    *(
        (HEAD + body + "\n").encode()
        for body in (
            "raise ValueError",
            "os._exit(0)",
            "while True: pass",
            "return {1, 'a', None, float('nan')}",
            "return [bytearray(2**28) for _ in range(99)]",
            "return torch.zeros(0, 2**40)",
            "return torch.zeros(2**23, dtype=torch.bool)",
            "return {number * (2**61 - 1): 0 for number in range(10**5)}",
            "return nn.Identity()",
            "print('\\ud800\\x1b[2J' * 10**6); raise SystemExit('\\ud800')",
            "return 'right' * 10**6",
            "return [[[[[[[[[[[[[[[[length]]]]]]]]]]]]]]]]",
            "os.close(3); os.closerange(3, 99)",
        )
    ),
    b"\xff\xfe\0\0not Python",
    b"x = 1" + b" + 1" * 10**5,
    b"",
]


def honest(number: int) -> str:
    return f"{WRONG if number % 7 == 0 else RIGHT}# {number}\n"


def started(mark: str) -> list[str]:
    """Find the processes that have a mark in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
    return found


def test_honest_grades_are_the_same_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A short name: sockets lie in it.
    scratch = Path(tempfile.mkdtemp(prefix="lab-"))
    monkeypatch.setenv("TMPDIR", str(scratch))
    size = int(os.environ.get("LAB_CLASS", "40"))
    took = {}
    for name in ("honest", "mixed"):
        folder = tmp_path / name
        folder.mkdir()
        for number in range(size):
            path = folder / f"student-{number:03}.py"
            if number % 10 != 5:
                path.write_text(honest(number))
            elif name == "mixed":
                path.write_bytes(HOSTILE[number // 10 % len(HOSTILE)])
            else:
                path.write_text(honest(number))
        start = time.monotonic()
        words = ["--exercises", "6.1", "--isolation", "full", "--seed", 7, "--timeout", 2]
        done = run(command("grade", folder, "--out", tmp_path / f"{name}-grades", *words))
        took[name] = time.monotonic() - start
        assert done.returncode == 0, done.stderr
        assert list(scratch.iterdir()) == []
        assert started(str(scratch)) == []
    scratch.rmdir()
    print(", ".join(f"{name}: {seconds:.1f} s" for name, seconds in took.items()))
    there = [
        [line for line in lines(tmp_path / f"{name}-grades") if int(line["student"][-3:]) % 10 != 5]
        for name in ("honest", "mixed")
    ]
    assert len(there[0]) == size - size // 10
    assert there[0] == there[1]
    rest = [line for line in lines(tmp_path / "mixed-grades") if int(line["student"][-3:]) % 10 == 5]
    assert len(rest) == size // 10
    assert {line["points"] for line in rest} == {0.0}
    assert all(line["feedback"] for line in rest)
