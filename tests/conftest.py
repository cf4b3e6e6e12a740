"""What all tests share: the devices of this machine, and the dtypes that they know."""

import pytest
import torch


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
