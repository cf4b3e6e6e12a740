"""The fixtures of the exercise tests, for pytest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import lab_check
import lab_transformer
from lab_check.running.bench import Bench, find_device
from lab_check.running.submission import Submission
from lab_check.running.tape import PUBLISHED_SEED, Draw
from lab_check.running.tests import Test

# Another copy may be installed, or be loaded already: its blocks would be tested in the place of these.
for package in (lab_transformer, lab_check):
    home = Path(str(package.__file__)).resolve().parents[1]
    if home != Path(__file__).resolve().parents[2]:
        pytest.exit(
            f"Python finds {package.__name__} in {home}, not in {Path(__file__).resolve().parents[2]}: "
            "run pytest there, with nothing else of it loaded",
            returncode=pytest.ExitCode.USAGE_ERROR,
        )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=PUBLISHED_SEED, help="the seed of all inputs")
    parser.addoption("--device", default="auto", help="cpu, cuda, mps, or auto (the default)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        function = getattr(item, "function", None)  # a notebook's cell has none
        if exercise := getattr(function, "exercise", None):
            item.add_marker(pytest.mark.exercise(exercise))
            if function.guard:
                item.add_marker(pytest.mark.guard)


@pytest.fixture
def offered(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    function, options = request.function, request.config.option
    bench = Bench(seed=options.seed, device=find_device(options.device))
    test = Test(function.exercise, function.guard, function.__name__, function)
    with bench.fixtures(test) as fixtures:
        yield fixtures


@pytest.fixture
def submission(offered: dict[str, Any]) -> Submission:
    return offered["submission"]


@pytest.fixture
def expected(offered: dict[str, Any]) -> Submission:
    return offered["expected"]


@pytest.fixture
def draw(offered: dict[str, Any]) -> Draw:
    return offered["draw"]


@pytest.fixture
def device(offered: dict[str, Any]) -> torch.device:
    return offered["device"]
