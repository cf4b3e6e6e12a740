"""Recording: nothing is done twice, and nothing comes out otherwise for that."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lab_check.calling.calls import InProcess, Target
from lab_check.diagnosing.fingerprints import Trace, store, turns_from
from lab_check.errors import UserError
from lab_check.exercises import catalogue
from lab_check.paths import package_folder
from lab_check.running.bench import Bench, trace_test
from lab_check.running.tape import PUBLISHED_SEED
from lab_grader import bank, record

EXERCISE = "4.1"


def test_a_change_that_a_run_never_reaches_takes_over_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    space, count = bank.spaces()[EXERCISE], 0
    changed = {turn.name for turn in space.turns if turn.change}
    some = [(), *(names for names in space.combinations() if names[0] in changed)][::4]
    wanted = [bank.trace(EXERCISE, space.variant(*names)) for names in some]

    def counted(test: Any, bench: Bench) -> tuple[bool, Trace]:
        nonlocal count
        count += 1
        return trace_test(test, bench)

    monkeypatch.setattr(bank, "trace_test", counted)
    runs = bank._Runs(EXERCISE, PUBLISHED_SEED)
    assert [runs.of(names) for names in some] == wanted
    assert count < len(runs._done)


def test_nothing_is_recorded_where_the_reference_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bank, "trace_test", lambda *_: (False, {}))
    with pytest.raises(UserError, match=r"the reference of 4\.1 fails"):
        bank.reference(EXERCISE, PUBLISHED_SEED)


def test_stored_turns_are_read_as_they_were() -> None:
    right = {"a/0": ["value", 1.0], "a/1": ["value", 2.0], "b/0": ["value", 3.0]}
    turns = [(("x",), right | {"b/0": ["value", 4.0]}), (("x", "y"), {"a/0": ["failure"], "c/0": [1]})]
    stored = store(turns, right)
    assert stored[0] == [["x"], {"b/0": ["value", 4.0]}, []]
    assert turns_from(stored, right) == turns


@pytest.mark.parametrize(
    ("changed", "outdated"),
    [
        ("rnn.py", {"1.3"}),
        ("attention.py", {"3.2", "7.4"}),  # a Transformer attends
        ("transformer.py", {"7.4"}),
        ("corpus.py", set()),
    ],
)
def test_a_module_outdates_what_imports_it(
    changed: str, outdated: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / package_folder().name
    shutil.copytree(package_folder(), library)
    some = [catalogue()[id] for id in ("1.3", "3.2", "7.4")]
    monkeypatch.setattr(record, "package_folder", lambda: library)
    before = [record.digest([exercise]) for exercise in some]
    with (library / changed).open("a") as file:
        file.write("# more\n")
    after = [record.digest([exercise]) for exercise in some]
    changes = zip(some, before, after, strict=True)
    assert {one.id for one, was, now in changes if was != now} == outdated


class Odd(nn.Module):
    """Tied parameters, buffers kept and not kept."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width), nn.Linear(width, width)])
        self.layers[1].weight = self.layers[0].weight
        self.register_buffer("table", torch.zeros(2))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)
        self.norm = nn.BatchNorm1d(2)


class Hooked(nn.Linear):
    """Does something of its own when it is loaded."""

    def _load_from_state_dict(self, *args: object) -> None:
        super()._load_from_state_dict(*args)  # type: ignore[arg-type]
        self.bias.data.fill_(7)


def loaded(make: type[nn.Module], state: dict[str, Tensor]) -> dict[str, Tensor]:
    code = InProcess(lambda module, name: make)
    code.call(Target("m", "Block"), (), {}, False)
    code.call(Target("m", "Block.load_state_dict", 0), (state,), {}, False)
    return code._made[0].state_dict()


class Small(nn.Linear):
    """A usual module."""

    def __init__(self) -> None:
        super().__init__(3, 2)


class SmallHooked(Hooked):
    """One with a way of its own."""

    def __init__(self) -> None:
        super().__init__(3, 2)


@pytest.mark.parametrize("make", [Small, SmallHooked, Odd])
def test_parameters_are_loaded_as_the_module_itself_does(make: type[nn.Module]) -> None:
    state = {name: torch.rand(value.shape) for name, value in make().state_dict().items()}
    if make is Odd:
        state["norm.num_batches_tracked"] = torch.tensor(3)
    own = make()
    own.load_state_dict(state)
    found = loaded(make, state)
    assert found.keys() == own.state_dict().keys()
    assert all(torch.equal(found[name], value) for name, value in own.state_dict().items())


@pytest.mark.parametrize("module", ["release", "grading.run", "grading.gradebook.reports"])
def test_what_needs_no_torch_does_not_wait_for_it(module: str) -> None:
    code = f"import sys; sys.modules['torch'] = None; import lab_grader.{module}"
    subprocess.run([sys.executable, "-c", code], check=True)


BUSY = """
import os, time
from lab_grader.record import processes

if __name__ == "__main__":
    with processes() as pool:
        pool.submit(os.getpid).result()
        for _ in range(os.cpu_count()):
            pool.submit(time.sleep, 50)
        print("busy", flush=True)
"""


def test_processes_that_record_end_with_the_command(tmp_path: Path) -> None:
    script = tmp_path / "busy.py"
    script.write_text(BUSY, encoding="utf-8")
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == "busy\n"
        command.terminate()
        # They hold the same pipe, which ends when the last of them has ended.
        command.communicate(timeout=30)
