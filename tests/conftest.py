"""What all tests share: the order in which they run, and the devices of this machine."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
import torch

# A job in the background ignores Ctrl-C, and would hand that down to what tests start and stop by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What takes longest comes first, then the notebooks, so that no core idles at the end.
LONGEST = [
    "test_pages.py",
    "test_bank.py",
    "test_week_notebook.py",
    "test_notebook_attacks.py",
    "test_attacks.py",
    "test_gradebook.py",
]

# Sandboxes are made of what only Linux has; marked tests look into /proc, set limits that macOS
# ignores, or give files names that its disks refuse.
SANDBOX = Path(__file__).with_name("sandbox")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if sys.platform != "linux":
        skip = pytest.mark.skip(reason="it needs what only Linux has")
        for item in items:
            if SANDBOX in item.path.parents or item.get_closest_marker("linux"):
                item.add_marker(skip)
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    if item.path.name in LONGEST:
        return LONGEST.index(item.path.name)
    return len(LONGEST) + (item.path.suffix != ".ipynb")


def available_devices() -> list[str]:
    devices = ["cpu"]
    if torch.cuda.is_available():
        devices.append("cuda")
    if torch.backends.mps.is_available():
        devices.append("mps")
    return devices


@pytest.fixture(params=available_devices())
def device(request: pytest.FixtureRequest) -> torch.device:
    """The CPU always, and every accelerator that is present."""
    return torch.device(request.param)


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest, device: torch.device) -> torch.dtype:
    """Single and double precision; MPS has no double."""
    if device.type == "mps" and request.param == torch.float64:
        pytest.skip("MPS has no float64")
    return request.param
