"""Random inputs for comparing the library with PyTorch's own modules."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    torch.manual_seed(0)


@pytest.fixture
def draw(device: torch.device, dtype: torch.dtype) -> Callable[..., Tensor]:
    """Draw standard normal numbers that want a gradient, on the device and in the dtype of the test."""

    def standard_normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64).to(device, dtype).requires_grad_()

    return standard_normal
