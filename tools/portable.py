"""Run the notebooks as on other machines, and with other seeds: does each cell print what is stored?

Each run is one notebook under one setting. nbval compares every cell as `make test` does.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

TOOLS = Path(__file__).resolve().parent
NOTEBOOKS = TOOLS.parent / "notebooks"
# What decides how PyTorch rounds: its own kernels, the number of threads, MKL's and oneDNN's kernels.
SETTINGS = {
    "aten-default": {"ATEN_CPU_CAPABILITY": "default", "OMP_NUM_THREADS": "1"},
    "aten-avx2": {"ATEN_CPU_CAPABILITY": "avx2", "OMP_NUM_THREADS": "1"},
    "aten-avx512": {"ATEN_CPU_CAPABILITY": "avx512", "OMP_NUM_THREADS": "1"},
    "threads-1": {"OMP_NUM_THREADS": "1"},
    "threads-2": {"OMP_NUM_THREADS": "2"},
    "threads-4": {"OMP_NUM_THREADS": "4"},
    "threads-unset": {},
    "low-mkl-onednn": {
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OMP_NUM_THREADS": "1",
    },
}
SHIFT = "LAB_SEED_SHIFT"
STEP = 1000  # between two shifts: more than any notebook counts its seeds up
KNOWN = {SHIFT, *(name for setting in SETTINGS.values() for name in setting)}


@dataclass(frozen=True)
class Difference:
    """What one cell printed, beside what is stored."""

    cell: int
    stored: str
    printed: str


class Failed(Exception):
    """pytest itself ended before it had compared the cells."""


def unsupported() -> set[str]:
    """Name the settings that ask for instructions which this processor does not have."""
    levels = ["DEFAULT", "AVX2", "AVX512"]
    command = [sys.executable, "-c", "import torch; print(torch.backends.cpu.get_cpu_capability())"]
    said = subprocess.run(command, env=environment({}), stdout=subprocess.PIPE, text=True, check=True)
    has = levels.index(said.stdout.strip()) if said.stdout.strip() in levels else 0
    return {f"aten-{level.lower()}" for level in levels[has + 1 :]}


def environment(variables: dict[str, str]) -> dict[str, str]:
    """Give the environment with these variables of ours and no others."""
    others = {name: value for name, value in os.environ.items() if name not in KNOWN}
    # A thread that waits leaves its core to the runs beside it.
    return others | {"OMP_WAIT_POLICY": "passive"} | variables


def differences(variables: dict[str, str], notebook: Path) -> list[Difference]:
    """Run a notebook under a setting; give the cells that did not print what is stored."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.xml"
        command = [sys.executable, "-m", "pytest", "-vv", "-p", "no:cacheprovider", "-p", "no:xdist"]
        command += ["--nbval", "--nbval-sanitize-with", str(NOTEBOOKS / "nbval.cfg")]
        env = environment(variables)
        if SHIFT in variables:
            profile = Path(folder) / "profile_default"
            profile.mkdir()
            (profile / "ipython_kernel_config.py").write_text(
                "get_config().InteractiveShellApp.extensions = ['seeds']\n"
            )
            env["IPYTHONDIR"] = folder
            env["PYTHONPATH"] = os.pathsep.join([str(TOOLS), *filter(None, [env.get("PYTHONPATH")])])
        run = subprocess.run(
            [*command, f"--junitxml={told}", str(notebook)],
            cwd=TOOLS.parent,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if run.returncode not in (0, 1) or not told.exists():
            last = (run.stdout.strip() or "nothing").splitlines()[-1]
            raise Failed(f"pytest ended with: {last}")
        return [
            Difference(int(case.attrib["name"].split()[-1]), *pair(wrong))
            for case in ET.parse(told).iter("testcase")
            for wrong in [case.find("failure"), case.find("error")]
            if wrong is not None
        ]


def pair(wrong: ET.Element) -> tuple[str, str]:
    """Give the lines that were stored and printed, or the error that came instead."""
    text = re.sub(r"(\x1b|#x1B)\[[\d;]*m", "", wrong.text or "")  # without colours
    said, _, trace = text.partition("\nTraceback:\n")
    stored, printed = (re.findall(rf"^ {{2,}}{sign} (.*)", trace, re.M) for sign in (r"\+", "-"))
    if stored or printed:
        return "\n".join(stored), "\n".join(printed)
    return "", trace.strip().splitlines()[-1] if trace else said.partition("\n\nInput:")[0]


def short(text: str, lines: int = 3, width: int = 60) -> str:
    """Cut a text that is long."""
    kept = text.splitlines()
    more = [f"and {len(kept) - lines} more"] if len(kept) > lines else []
    return "\n".join(
        [line if len(line) <= width else f"{line[:width]}..." for line in kept[:lines]] + more
    )


def ask(notebooks: list[Path]) -> argparse.Namespace:
    """Read and check the command line."""
    parser = argparse.ArgumentParser(prog="portable.py", description=__doc__)
    parser.add_argument("weeks", nargs="*", type=int, help="such as 3 5 (default: all)")
    parser.add_argument(
        "--settings",
        type=lambda words: [word for word in words.split(",") if word],
        default=list(SETTINGS),
        help=f"some of {','.join(SETTINGS)} (default: all; an empty word for none)",
    )
    parser.add_argument(
        "--seeds", type=int, default=20, help="number of other seeds (default: %(default)s)"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="runs at a time (default: cores)"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="note each run there as it ends, and repeat none that it holds of the same notebook",
    )
    asked = parser.parse_args()
    weeks = [week_of(notebook) for notebook in notebooks]
    for week in asked.weeks:
        if week not in weeks:
            parser.error(f"there is no notebook {week}: weeks run from {min(weeks)} to {max(weeks)}")
    for setting in asked.settings:
        if setting not in SETTINGS:
            parser.error(f"there is no setting {setting}: choose from {', '.join(SETTINGS)}")
    return asked


def week_of(notebook: Path) -> int:
    """Read the week from a notebook's name."""
    return int(notebook.name[:2])


def digest(notebook: Path) -> str:
    """Tell the states of a notebook apart, and of the blocks that it runs."""
    read = hashlib.sha256(notebook.read_bytes())
    for source in sorted((TOOLS.parent / "lab_transformer").rglob("*.py")):
        read.update(source.read_bytes())
    return read.hexdigest()[:16]


class Kept:
    """The runs that have ended, in a file of one line each, so that none is lost or repeated."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path and path.exists() else []
        self.runs = {
            (one["setting"], one["notebook"], one["digest"]): [
                Difference(**each) for each in one["differences"]
            ]
            for one in map(json.loads, lines)
        }

    def add(self, setting: str, notebook: Path, found: list[Difference], seconds: float) -> None:
        """Remember a run."""
        self.runs[setting, notebook.stem, digest(notebook)] = found
        if self.path:
            told = {
                "setting": setting,
                "notebook": notebook.stem,
                "digest": digest(notebook),
                "seconds": round(seconds, 1),
                "differences": [asdict(one) for one in found],
            }
            with self.path.open("a") as file:
                file.write(json.dumps(told) + "\n")

    def get(self, setting: str, notebook: Path) -> list[Difference] | None:
        """Give what a run of this notebook, as it is now, found; None if there was none."""
        return self.runs.get((setting, notebook.stem, digest(notebook)))


def timed(variables: dict[str, str], notebook: Path) -> tuple[list[Difference], float]:
    """Run a notebook under a setting, and say how many seconds it took."""
    start = time.monotonic()
    return differences(variables, notebook), time.monotonic() - start


def run_all(
    console: Console, runs: list[tuple[str, dict[str, str], Path]], kept: Kept, jobs: int
) -> bool:
    """Run what is not kept yet, and tell each as it ends; say whether nobody interrupted it."""
    missing = [run for run in runs if kept.get(run[0], run[2]) is None]
    if len(missing) < len(runs):
        console.print(f"{len(runs) - len(missing)} of {len(runs)} runs are in {kept.path} already.")
    with ThreadPoolExecutor(jobs) as pool:
        waiting = {
            pool.submit(timed, variables, notebook): (setting, notebook)
            for setting, variables, notebook in missing
        }
        try:
            for count, done in enumerate(as_completed(waiting), 1):
                setting, notebook = waiting[done]
                try:
                    found, seconds = done.result()
                except Failed as failed:
                    told = str(failed)
                else:
                    kept.add(setting, notebook, found, seconds)
                    told = f"{seconds:.0f} s, {cells(found)}"
                console.print(f"{count}/{len(missing)} {notebook.stem} {setting}: {told}", markup=False)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            console.print("Interrupted: what has ended is told.")
            return False
    return True


def cells(found: list[Difference] | None) -> str:
    """Say in short which cells differ."""
    if found is None:
        return "not run"
    return f"differs: {', '.join(str(one.cell) for one in found)}" if found else "same"


def main() -> int:
    """Run what is asked for; print tables of what differed."""
    console = Console(width=None if sys.stdout.isatty() else 160)  # in a log, too, rows stay readable
    notebooks = sorted(NOTEBOOKS.glob("*.ipynb"))
    asked = ask(notebooks)
    missing = unsupported()
    for setting in asked.settings:
        if setting in missing:
            console.print(f"{setting} is left out: this processor does not have it.")
    settings = {setting: SETTINGS[setting] for setting in asked.settings if setting not in missing}
    for number in range(1, asked.seeds + 1):
        settings[f"seed-{number}"] = {"OMP_NUM_THREADS": "1", SHIFT: str(STEP * number)}
    notebooks = [one for one in notebooks if not asked.weeks or week_of(one) in asked.weeks]
    runs = [
        (setting, variables, notebook)
        for setting, variables in settings.items()
        for notebook in notebooks
    ]
    kept = Kept(asked.keep)
    whole = run_all(console, runs, kept, asked.jobs)

    table = Table("notebook", "cell", "setting", "stored", "printed", show_lines=True)
    results = [(notebook, setting, kept.get(setting, notebook)) for setting, _, notebook in runs]
    rows = [
        (notebook.stem, one.cell, setting, short(one.stored), short(one.printed))
        for notebook, setting, found in results
        for one in found or []
    ]
    for row in sorted(rows, key=lambda row: row[:2]):
        table.add_row(*(escape(str(word)) for word in row))
    if rows:
        console.print(table)
    overview = Table("", *(f"week {week_of(notebook)}" for notebook in notebooks))
    for setting in settings:
        overview.add_row(setting, *(cells(kept.get(setting, notebook)) for notebook in notebooks))
    console.print(overview)
    ended = sum(found is not None for _, _, found in results)
    console.print(f"{ended} of {len(runs)} runs ended; {len(rows) or 'no'} cells differed.")
    return 130 if not whole else int(bool(rows) or ended < len(runs))


if __name__ == "__main__":
    sys.exit(main())
