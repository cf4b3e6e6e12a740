"""Grading a class: ours against nbgrader, otter-grader and a fresh pytest process, on two cores.

Everybody grades the same three functions of the same submissions, and takes two at a time. Ours runs
all properties of the exercises 3.2, 3.3 and 3.4 in full isolation, and writes gradebook and reports.
The others run twelve checks, with no isolation. A peer's environment is made below `_build/bench` the
first time, with torch taken from the first of them, so that it is installed once. Peers take the same
time for every submission, so they are given a few only; ours is given whole classes, from 10 to 2,000,
and its start counts. It does not judge the same answer twice, and students answer alike; so one class
more is graded in which no two do, because each rounds in a way of its own, and one in which every tenth
submission does all it can to keep the judge busy. What people wait for at the terminal, a release or a
check, is counted too.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "_build" / "bench"
WORK = BENCH / "work"
CORES = 2
PR_SET_CHILD_SUBREAPER = 36
PEERS = {
    "pytest": ["torch==2.13.0", "numpy", "pytest==9.2.0"],
    "nbgrader": ["nbgrader==0.9.6"],
    "otter-grader": ["otter-grader==7.0.0", "ipykernel"],
}

# How students write the three functions: ways that are right, then ways that are not.
SCORES = """
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = {scores}
    if mask is not None:
        scores = scores.masked_fill({hidden}, float("-inf"))
    weights = torch.nan_to_num({weights})
    return weights @ v, weights
"""
USUAL = {
    "scores": "q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])",
    "hidden": "~mask",
    "weights": "torch.softmax(scores, dim=-1)",
}
EINSUM = 'torch.einsum("...qd,...kd->...qk", q, k) * q.size(-1) ** -0.5'
ATTENTION = [
    [
        SCORES.format(**USUAL),
        SCORES.format(**USUAL | {"scores": "(q / q.size(-1) ** 0.5) @ k.mT"}),
        SCORES.format(**USUAL | {"scores": EINSUM}),
        SCORES.format(**USUAL | {"weights": "scores.softmax(-1)", "hidden": "mask == 0"}),
    ],
    [
        SCORES.format(**USUAL | {"scores": "q @ k.mT"}),
        SCORES.format(**USUAL | {"weights": "torch.softmax(scores, dim=-2)"}),
        SCORES.format(**USUAL | {"hidden": "mask"}),
    ],
]  # fmt: skip
SPLIT = [
    [
        "x.reshape(*x.shape[:-1], n_heads, -1).transpose(-3, -2)",
        "x.unflatten(-1, (n_heads, x.shape[-1] // n_heads)).movedim(-2, -3)",
        "torch.stack(x.chunk(n_heads, dim=-1), dim=-3)",
    ],
    [
        "x.reshape(*x.shape[:-2], n_heads, x.shape[-2], -1)",
        "x.unflatten(-1, (-1, n_heads)).movedim(-1, -3)",
    ],
]  # fmt: skip
MERGE = [
    [
        "x.transpose(-3, -2).flatten(-2)",
        "x.movedim(-3, -2).reshape(*x.shape[:-3], x.shape[-2], -1)",
        "torch.cat(x.unbind(-3), dim=-1)",
    ],
    [
        "x.reshape(*x.shape[:-3], x.shape[-2], -1)",
        "x.movedim(-3, -1).flatten(-2)",
    ],
]  # fmt: skip

# What the peers check, four points for each function.
PREPARE = "import math, torch\ntorch.manual_seed(5)\n"
QKV = "q, k, v = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 6)\n"
RIGHT = "torch.nn.functional.scaled_dot_product_attention"
CHECKS = {
    "scaled_dot_product_attention": [
        QKV + "output, weights = scaled_dot_product_attention(q, k, v)\n"
        f"assert torch.allclose(output, {RIGHT}(q, k, v), atol=1e-5)\n"
        "assert torch.allclose(weights.sum(-1), torch.ones(2, 3, 5))",
        QKV + "mask = torch.rand(5, 7) < 0.6\nmask[:, 0] = True\n"
        "output, _ = scaled_dot_product_attention(q, k, v, mask)\n"
        f"assert torch.allclose(output, {RIGHT}(q, k, v, mask), atol=1e-5)",
        QKV + "output, _ = scaled_dot_product_attention(q.double(), k.double(), v.double())\n"
        "assert output.dtype == torch.float64",
        QKV + "output, weights = scaled_dot_product_attention(q, k, v, torch.zeros(5, 7).bool())\n"
        "assert not output.any() and not weights.any()",
    ],
    "split_heads": [
        "x = torch.randn(2, 5, 12)\nheads = split_heads(x, 3)\nassert heads.shape == (2, 3, 5, 4)\n"
        "for h in range(3):\n    assert torch.equal(heads[:, h], x[..., 4 * h : 4 * h + 4])",
        "x = torch.randn(5, 12)\nassert torch.equal(split_heads(x, 1)[0], x)",
        "assert split_heads(torch.randn(2, 5, 12).half(), 4).dtype == torch.float16",
        "x = torch.randn(2, 5, 12, requires_grad=True)\nsplit_heads(x, 3).sum().backward()\n"
        "assert torch.equal(x.grad, torch.ones(2, 5, 12))",
    ],
    "merge_heads": [
        "x = torch.randn(2, 3, 5, 4)\nmerged = merge_heads(x)\nassert merged.shape == (2, 5, 12)\n"
        "for h in range(3):\n    assert torch.equal(merged[..., 4 * h : 4 * h + 4], x[:, h])",
        "x = torch.randn(1, 5, 12)\nassert torch.equal(merge_heads(x), x[0])",
        "assert merge_heads(torch.randn(2, 3, 5, 4).half()).dtype == torch.float16",
        "x = torch.randn(2, 3, 5, 4, requires_grad=True)\nmerge_heads(x).sum().backward()\n"
        "assert torch.equal(x.grad, torch.ones(2, 3, 5, 4))",
    ],
}  # fmt: skip


# Another last bit in every number, another one for every student.
ROUNDED = """

def rounded(x):
    noise = torch.cos({number} + torch.arange(x.numel())).reshape(x.shape)
    return x * (1 + 4 * torch.finfo(x.dtype).eps * noise).to(x.dtype)


def apart(function):
    def answer(*args, **kwargs):
        results = function(*args, **kwargs)
        return tuple(map(rounded, results)) if isinstance(results, tuple) else rounded(results)

    return answer


scaled_dot_product_attention = apart(scaled_dot_product_attention)
split_heads, merge_heads = apart(split_heads), apart(merge_heads)
"""

# What a hostile student's functions return, or do instead.
HOSTILE = [
    "torch.zeros(2**20, dtype=torch.float64)",
    "torch.zeros(0, 2**19), torch.zeros(2**19, 0)",
    "[float(i) for i in range(19_000)]",
    "{i * (2**61 - 1): i for i in range(490)}",
    "[torch.zeros(2**16) for _ in range(30)]",
    "['x' * 1000] * 400",
    "torch.zeros(2**22)",
    "{i * (2**61 - 1): i for i in range(10**6)}",
    "[bytearray(2**28) for _ in range(99)]",
    "__import__('os').abort()",
]


def hostile(number: int) -> str:
    """Write what a student hands in who wants the judge to work."""
    code = HOSTILE[number // 10 % len(HOSTILE)]
    return (
        f"# student {number}\nimport torch\n\n\ndef scaled_dot_product_attention(*args, **more):\n"
        f"    return {code}\n\n\nsplit_heads = merge_heads = scaled_dot_product_attention\n"
    )


def submission(number: int, kind: str = "alike") -> str:
    """Write what one student hands in: four of five functions are right."""
    if kind == "hostile" and number % 10 == 5:
        return hostile(number)
    choice = random.Random(number)
    attention, split, merge = (
        choice.choice(ways[choice.random() < 0.2]) for ways in (ATTENTION, SPLIT, MERGE)
    )
    return (
        f"# student {number}\nimport math\n\nimport torch\n\n{attention}\n\n"
        f"def split_heads(x, n_heads):\n    return {split}\n\n\n"
        f"def merge_heads(x):\n    return {merge}\n"
        + (ROUNDED.format(number=number) if kind == "apart" else "")
    )


def say(text: str) -> None:
    """Tell what is going on, apart from the tables."""
    print(text, file=sys.stderr, flush=True)


def run(words: list[object], folder: Path) -> None:
    """Run a command to its end, with the programs that lie beside it; if it fails, so do we."""
    path = f"{Path(str(words[0])).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=os.environ | {"PATH": path}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout[-3000:]}")


def program(peer: str, name: str) -> Path:
    """Name a program of a peer's environment."""
    return BENCH / peer / "bin" / name


def make_environments() -> None:
    """Make an environment for each peer, unless it is there."""
    for peer, packages in PEERS.items():
        ready = BENCH / peer / ".ready"
        if ready.exists() and ready.read_text() == " ".join(packages):
            continue
        say(f"making the environment of {peer}, once; that takes some minutes")
        venv.create(BENCH / peer, clear=True, with_pip=True)
        run([program(peer, "python"), "-m", "pip", "install", "--quiet", *packages], BENCH)
        if peer != "pytest":
            (shared,) = (BENCH / "pytest").glob("lib/python*/site-packages")
            (own,) = (BENCH / peer).glob("lib/python*/site-packages")
            (own / "torch.pth").write_text(f"{shared}\n")
        ready.write_text(" ".join(packages))


class Cost:
    """What something took: seconds on the clock, and seconds that processors worked for it."""

    def __init__(self) -> None:
        self.clock, self.work = -time.perf_counter(), -_worked()

    def stop(self) -> Cost:
        """Stop counting, when every process that was started has ended, and those that they started."""
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        self.clock, self.work = self.clock + time.perf_counter(), self.work + _worked()
        return self


def _worked() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def two_at_a_time(work: Callable[[int], object], numbers: range) -> Cost:
    """Do something for each number, two at a time."""
    cost = Cost()
    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(work, numbers))
    return cost.stop()


def pytest(count: int) -> Cost:
    """Grade by a fresh pytest process for each submission."""
    tests = [PREPARE + "from submission import *\n"]
    for function, checks in CHECKS.items():
        for number, check in enumerate(checks):
            body = "\n".join(f"    {line}" for line in check.splitlines())
            tests.append(f"def test_{function}_{number}():\n{body}\n")
    for number in range(count):
        folder = WORK / "pytest" / str(number)
        folder.mkdir(parents=True)
        (folder / "submission.py").write_text(submission(number))
        (folder / "test_submission.py").write_text("\n\n".join(tests))

    def grade(number: int) -> None:
        words = [program("pytest", "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        subprocess.run(words, cwd=WORK / "pytest" / str(number), stdout=subprocess.DEVNULL, check=False)

    return two_at_a_time(grade, range(count))


def notebook(cells: list[tuple[str, dict[str, object]]]) -> str:
    """Write a notebook of code cells, each with its metadata."""
    written = [
        {
            "cell_type": "code", "id": f"cell{number}", "execution_count": None, "outputs": [],
            "metadata": metadata, "source": code,
        }
        for number, (code, metadata) in enumerate(cells)
    ]  # fmt: skip
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"cells": written, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})


def nbgrader(count: int) -> Cost:
    """Grade by `nbgrader autograde`, in two course folders so that no database is waited for."""

    def cell(id: str, points: int | None) -> dict[str, object]:
        facts = {
            "grade_id": id, "schema_version": 3, "task": False,
            "grade": points is not None, "solution": points is None, "locked": points is not None,
        }  # fmt: skip
        return {"nbgrader": facts if points is None else facts | {"points": points}}

    tests = [
        (PREPARE + check, cell(f"{function}-{number}", 1))
        for function, checks in CHECKS.items()
        for number, check in enumerate(checks)
    ]
    for half in range(CORES):
        course = WORK / "nbgrader" / str(half)
        for student in range(half, count, CORES):
            folder = course / "submitted" / f"student-{student}" / "week3"
            folder.mkdir(parents=True)
            (folder / "week3.ipynb").write_text(
                notebook([(submission(student), cell("answer", None)), *tests])
            )
        source = course / "source" / "week3"
        source.mkdir(parents=True)
        solution = f"### BEGIN SOLUTION\n{submission(0)}### END SOLUTION"
        (source / "week3.ipynb").write_text(notebook([(solution, cell("answer", None)), *tests]))
        (course / "nbgrader_config.py").write_text("c = get_config()\n")
        run([program("nbgrader", "nbgrader"), "generate_assignment", "week3"], course)
    return two_at_a_time(
        lambda half: run(
            [program("nbgrader", "nbgrader"), "autograde", "week3"], WORK / "nbgrader" / str(half)
        ),
        range(CORES),
    )


def otter(count: int) -> Cost:
    """Grade by `otter run`, one process for each submission."""
    folder = WORK / "otter"
    (folder / "tests").mkdir(parents=True)
    for question, (function, checks) in enumerate(CHECKS.items(), 1):
        text = f'from otter.test_files import test_case\n\nOK_FORMAT = False\nname = "q{question}"\n'
        text += "points = 4\n"
        for number, check in enumerate(checks):
            body = "\n".join(f"    {line}" for line in (PREPARE + check).splitlines())
            text += f"\n\n@test_case(points=1)\ndef test_{number}({function}):\n{body}\n"
        (folder / "tests" / f"q{question}.py").write_text(text)
    run([program("otter-grader", "otter"), "generate", "-t", "tests", "-o", "grader.zip"], folder)
    for number in range(count):
        (folder / str(number)).mkdir()
        (folder / str(number) / "week3.ipynb").write_text(notebook([(submission(number), {})]))

    def grade(number: int) -> None:
        words = [
            program("otter-grader", "otter"),
            "run",
            "-a",
            "../grader.zip",
            "--no-logo",
            "week3.ipynb",
        ]
        run(words, folder / str(number))  # fmt: skip

    return two_at_a_time(grade, range(count))


class Memory(threading.Thread):
    """Watches how much memory a process and the judges that it starts have needed at most, in kB."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        self._process = process
        self.main = self.judge = 0

    def run(self) -> None:
        while self._process.poll() is None:
            main, *judges = _judges(self._process.pid)
            self.main = max(self.main, _peak(main))
            self.judge = max(self.judge, *map(_peak, judges), 0)
            time.sleep(0.1)


def _judges(process: int) -> list[int]:
    """List a process and those below it, but for the sandbox."""
    found = [process]
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        for child in map(int, children):
            if b"bwrap" not in Path(f"/proc/{child}/cmdline").read_bytes():
                found += _judges(child)
    except OSError:
        pass  # it has just ended
    return found


def _peak(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def ours(count: int, kind: str = "alike") -> tuple[Cost, Memory]:
    """Grade a class of a size by `lab grade`: what it took in all."""
    name = f"{count}-{kind}"
    folder = WORK / f"class-{name}"
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"student-{number:04}.py").write_text(submission(number, kind))
    words = [
        sys.executable, "-m", "lab_grader", "grade", folder, "--out", WORK / f"grades-{name}",
        "--exercises", "3.2,3.3,3.4", "--jobs", CORES, "--seed", 7, "--isolation", "full",
    ]  # fmt: skip
    cost = Cost()
    process = subprocess.Popen([str(word) for word in words], cwd=ROOT, stdout=subprocess.DEVNULL)
    memory = Memory(process)
    memory.start()
    if process.wait():
        sys.exit(f"lab grade ended with {process.returncode}")
    cost.stop()
    memory.join()
    return cost, memory


def counted(words: list[object], folder: Path) -> Cost:
    """Run a command and count what it takes."""
    cost = Cost()
    subprocess.run([str(word) for word in words], cwd=folder, stdout=subprocess.DEVNULL, check=False)
    return cost.stop()


def waits() -> dict[str, Cost]:
    """Count what people wait for: a release in a clone where nothing is recorded, another, a check."""
    clone, workspace = WORK / "clone", WORK / "workspace"
    left_out = shutil.ignore_patterns("_build", ".venv", ".git", ".*_cache", "__pycache__")
    shutil.copytree(ROOT, clone, ignore=left_out)
    released = [sys.executable, "-m", "lab_grader", "release"]
    found = {
        "first `lab release`": counted([*released, WORK / "first"], clone),
        "second `lab release`": counted([*released, workspace], clone),
        "`import torch`": counted([sys.executable, "-c", "import torch"], WORK),
    }
    block = workspace / "lab_transformer" / "attention.py"
    solution = (clone / "lab_transformer" / "attention.py").read_text()
    check = [Path(sys.executable).with_name("lab"), "check", "3.2"]
    for name, text in {
        "`lab check 3.2`, right": solution,
        "`lab check 3.2`, wrong": solution.replace("math.sqrt(q.shape[-1])", "q.shape[-1]"),
    }.items():
        block.write_text(text)
        found[name] = counted(check, workspace)
    return found


def main() -> None:
    """Run all and print three tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--peers", type=int, default=8, help="submissions for each peer; 0 for none")
    options.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 500, 2000])
    chosen = options.parse_args()
    if not hasattr(os, "sched_setaffinity"):
        sys.exit("this benchmark needs Linux: full isolation, and two cores for everybody")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    os.environ |= {"OMP_NUM_THREADS": "1"}
    # Whoever outlives its parent becomes our child: what it worked is counted when it ends.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    shutil.rmtree(WORK, ignore_errors=True)
    theirs: dict[str, Cost] = {}
    if chosen.peers:
        BENCH.mkdir(parents=True, exist_ok=True)
        make_environments()
        peers = {
            "fresh pytest process": pytest,
            "nbgrader 0.9.6": nbgrader,
            "otter-grader 7.0.0": otter,
        }
        for name, grade in peers.items():
            say(f"{name}: {chosen.peers} submissions")
            theirs[name] = grade(chosen.peers)
            say(f"  {theirs[name].clock:.1f} s, processors {theirs[name].work:.1f} s")
    say("what people wait for")
    waited = waits()
    found: dict[int, tuple[Cost, Memory]] = {}
    for size in chosen.sizes:
        say(f"lab grade: {size} submissions")
        found[size] = ours(size)
        say(f"  {found[size][0].clock:.1f} s, processors {found[size][0].work:.1f} s")
    size = max(n for n in found if n <= max(500, min(found)))
    say(f"lab grade: {size} submissions, no two answers alike")
    apart, memory = ours(size, "apart")
    say(f"  {apart.clock:.1f} s, processors {apart.work:.1f} s")
    say(f"lab grade: {size} submissions, every tenth hostile")
    attacked, worst = ours(size, "hostile")
    say(f"  {attacked.clock:.1f} s, processors {attacked.work:.1f} s")
    own, work = found[size][0].clock / size, found[size][0].work / size
    ours_by_name = {
        f"`lab grade`, full isolation, a class of {size}": found[size][0],
        "the same, no two answers alike": apart,
        "the same, every tenth hostile": attacked,
    }
    rows = [(name, cost, size) for name, cost in ours_by_name.items()]
    rows += [(name, cost, chosen.peers) for name, cost in theirs.items()]
    print("\n| grader | seconds a submission | times ours | processor seconds | times ours |")
    print("|---|---|---|---|---|")
    for name, cost, count in rows:
        seconds, worked = cost.clock / count, cost.work / count
        print(f"| {name} | {seconds:.3f} | {seconds / own:.1f} | {worked:.3f} | {worked / work:.1f} |")
    print("\n| class | seconds | a submission | each more | a judge's memory | the main process's |")
    print("|---|---|---|---|---|---|")
    before, start = 0, 0.0
    for size, (cost, needed) in found.items():
        more = (cost.clock - start) / (size - before)
        print(
            f"| {size} | {cost.clock:.1f} | {cost.clock / size:.3f} | {more:.3f} "
            f"| {needed.judge / 1000:.0f} MB | {needed.main / 1000:.0f} MB |"
        )
        before, start = size, cost.clock
    print("\n| what | seconds | processor seconds |")
    print("|---|---|---|")
    for name, cost in waited.items():
        print(f"| {name} | {cost.clock:.1f} | {cost.work:.1f} |")
    print(f"\nA judge's memory where no two answers are alike: {memory.judge / 1000:.0f} MB;")
    print(f"where every tenth submission is hostile: {worst.judge / 1000:.0f} MB.")


if __name__ == "__main__":
    main()
