"""Gradebooks to look into, and the same random numbers every time."""

import pytest
import torch
from gradebooks import filled

__all__ = ["filled"]


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    torch.manual_seed(0)
