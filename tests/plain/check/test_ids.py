"""Ids of two digits: 10.1 is not 10.10, and week 10 comes after week 9."""

import itertools
from pathlib import Path

import pytest

from lab_check.exercises import UnknownExerciseError, catalogue, read_exercises, select, topics
from lab_check.running.tests import load_tests

BLOCK = """
#: id = "{id}"
#: title = "Block {n}"
#: points = 1
#: difficulty = 1
#: minutes = 5
#: needs = []
#: hints = ["One.", "Two.", "Three."]
def block_{n}(x: int) -> int:
    \"\"\"Do nothing.\"\"\"
    ### BEGIN SOLUTION
    return x
    ### END SOLUTION
"""


def test_exercises_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    ids = ["10.10", "10.2", "9.1", "10.1", "1.1", "10.11", "9.10", "9.9"]
    text = "\n".join(BLOCK.format(id=id, n=n) for n, id in enumerate(ids))
    (tmp_path / "blocks.py").write_text(text)
    found = sorted(read_exercises(tmp_path), key=lambda exercise: exercise.order)
    assert [exercise.id for exercise in found] == [
        "1.1", "9.1", "9.9", "9.10", "10.1", "10.2", "10.10", "10.11",
    ]  # fmt: skip
    assert [exercise.week for exercise in found] == [1, 9, 9, 9, 10, 10, 10, 10]


def test_the_catalogue_counts_weeks_and_exercises() -> None:
    orders = [exercise.order for exercise in catalogue().values()]
    assert orders == sorted(orders)
    assert list(topics()) == sorted(topics())
    for week, own in itertools.groupby(orders, key=lambda order: order[0]):
        numbers = [number for _, number in own]
        assert numbers == list(range(1, len(numbers) + 1)), f"week {week}"


def test_a_week_and_an_exercise_are_chosen_by_the_whole_number() -> None:
    assert {exercise.week for exercise in select(["1"])} == {1}
    assert {exercise.week for exercise in select(["10"])} == {10}
    assert [exercise.id for exercise in select(["10.1"])] == ["10.1"]
    assert [exercise.id for exercise in select(["10.10", "10.1", "8.5"])] == ["8.5", "10.1", "10.10"]
    with pytest.raises(UnknownExerciseError):
        select(["10.100"])


def test_an_exercise_has_its_own_tests_and_no_others() -> None:
    tests = load_tests()
    for id in ("1.1", "10.1", "10.10"):
        assert tests[id], id
        assert {test.exercise for test in tests[id]} == {id}
