"""`make portable`: other seeds reach the kernels, and what differs is told."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

TOOLS = Path(__file__).resolve().parents[1] / "tools"
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
    found = portable.differences("shifted", {portable.SHIFT: "1000"}, notebook)
    assert [one.cell for one in found] == list(range(1, len(cells)))
    assert [one.stored for one in found[:-1]] == [text.strip() for text in said[1:]]
    assert all(one.printed != one.stored for one in found)
    assert found[-1].printed == "AssertionError: it is there"


def test_what_is_not_there_is_said(
    portable: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, answer in [("9", "no notebook 9"), ("--settings=avx9", "no setting avx9")]:
        monkeypatch.setattr(sys, "argv", ["portable.py", words])
        with pytest.raises(SystemExit) as ended:
            portable.main()
        assert ended.value.code == 2
        assert answer in capsys.readouterr().err
