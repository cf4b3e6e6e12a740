"""What all tests share: what they need, the devices of this machine, and a browser."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# A job in the background ignores Ctrl-C, and would hand that down to what tests start and stop by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

BROWSERS = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
]


# What takes longest comes first, so that no core idles at the end.
LONGEST = ["test_bank.py", "07_cross_attention.ipynb"]

# Some needs show by the fixture that a test asks for; files with others say so in `pytestmark`.
NEEDS = {"browser": "browser", "released": "bank", "host": "sandbox"}

# Sandboxes are made of what only Linux has; some tests look into /proc, set limits that macOS ignores,
# or give files names that its disks refuse.
LINUX = ["sandbox", "linux"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for fixture, need in NEEDS.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(need)
        if sys.platform != "linux" and any(map(item.get_closest_marker, LINUX)):
            item.add_marker(pytest.mark.skip(reason="it needs what only Linux has"))
    items.sort(
        key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST)
    )


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


# Closed after each file: while it is open, nothing else in the process can run an event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; where there is none, a test that needs it fails."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
