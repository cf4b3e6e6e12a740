"""The exercises' tests: one file a week, one property a test."""

from __future__ import annotations

import functools
import importlib.util
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab_check.paths import TESTS


@dataclass(frozen=True)
class Test:
    """One property of one exercise, as its file defines it."""

    exercise: str
    guard: bool
    name: str
    function: Callable[..., None]

    @property
    def sentence(self) -> str:
        """The test's name as words."""
        return self.name.removeprefix("test_").replace("_", " ")

    @functools.cached_property
    def wants(self) -> list[str]:
        """The fixtures it asks for."""
        return list(inspect.signature(self.function).parameters)


class _Tests(dict[str, list[Test]]):
    """The tests by exercise, in the order of their file, which is read when one is asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def __missing__(self, exercise: str) -> list[Test]:
        week = exercise.split(".")[0]
        for path in sorted(self._folder.glob(f"test_week{week}_*.py")):
            spec = importlib.util.spec_from_file_location(f"lab_exercise_tests.{path.stem}", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            for name, function in vars(module).items():
                if name.startswith("test_") and hasattr(function, "exercise"):
                    test = Test(function.exercise, function.guard, name, function)
                    self.setdefault(test.exercise, []).append(test)
        if exercise not in self:
            raise KeyError(exercise)
        return self[exercise]


@functools.cache
def load_tests(folder: Path = TESTS) -> dict[str, list[Test]]:
    """Give the tests of a folder by exercise."""
    return _Tests(folder)
