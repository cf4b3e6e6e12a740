"""`make portable`: other seeds reach the kernels, and what differs is told."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

TOOLS = Path(__file__).resolve().parents[2] / "tools"
UNSEEDED = "import random\nimport numpy as np\nimport torch\nprint('ready')"
SEEDED = [
    "torch.manual_seed(0)\nprint(torch.randint(10**9, ()).item())",
    "print(torch.randint(10**9, (), generator=torch.Generator().manual_seed(0)).item())",
    "print(random.Random(0).randrange(10**9))",
    "random.seed(0)\nprint(random.randrange(10**9))",
    "print(np.random.default_rng(0).integers(10**9))",
    "from lab_transformer import corpus\nprint(corpus.draw_pairs('italian', 3, seed=0)[0].source)",
]


@pytest.fixture
def portable(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """tools/portable.py."""
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module("portable")


def test_a_shift_reaches_every_seed_of_a_kernel(portable: ModuleType, tmp_path: Path) -> None:
    sources = [UNSEEDED, *SEEDED]
    said = subprocess.run(
        [sys.executable, "-c", "\nprint('---')\n".join(sources)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.split("---\n")
    cells = [
        new_code_cell(
            source, execution_count=1, outputs=[new_output("stream", name="stdout", text=text)]
        )
        for source, text in zip(sources, said, strict=True)
    ]
    cells.append(new_code_cell("assert not random, 'it is there'", execution_count=1))
    notebook = tmp_path / "01_small.ipynb"
    nbformat.write(new_notebook(cells=cells), notebook)
    found = portable.differences({portable.SHIFT: "1000"}, notebook)
    assert [one.cell for one in found] == list(range(1, len(cells)))
    assert [one.stored for one in found[:-1]] == [text.strip() for text in said[1:]]
    assert all(one.printed != one.stored for one in found)
    assert found[-1].printed == "AssertionError: it is there"


def test_what_is_not_there_is_said(
    portable: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, answer in [("99", "no notebook 99"), ("--settings=avx9", "no setting avx9")]:
        monkeypatch.setattr(sys, "argv", ["portable.py", words])
        with pytest.raises(SystemExit) as ended:
            portable.main()
        assert ended.value.code == 2
        assert answer in capsys.readouterr().err


def test_no_run_is_lost_or_repeated(
    portable: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    notebook, keep = tmp_path / "01_small.ipynb", tmp_path / "runs.jsonl"
    notebook.write_text("first")
    asked: list[str] = []

    def differences(variables: dict[str, str], notebook: Path) -> list[object]:
        asked.append(variables[portable.SHIFT])
        if asked == ["1000", "2000"]:
            raise portable.Failed("pytest ended with: nothing")
        return [portable.Difference(7, "stored", "printed")] if asked[-1] == "1000" else []

    monkeypatch.setattr(portable, "NOTEBOOKS", tmp_path)
    monkeypatch.setattr(portable, "unsupported", set)
    monkeypatch.setattr(portable, "differences", differences)
    command = ["portable.py", "--settings=", "--seeds=2", "--jobs=1", f"--keep={keep}"]
    monkeypatch.setattr(sys, "argv", command)
    assert portable.main() == 1
    told = capsys.readouterr().out
    assert "differs: 7" in told
    assert "not run" in told
    assert "1 of 2 runs ended; 1 cells differed." in told
    assert portable.main() == 1
    assert asked == ["1000", "2000", "2000"]
    assert "2 of 2 runs ended; 1 cells differed." in capsys.readouterr().out
    notebook.write_text("second")
    portable.main()
    assert asked[3:] == ["1000", "2000"]
