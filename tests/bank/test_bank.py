"""The proof of the checks: right ways pass, wrong turns are named, empty answers earn nothing."""

import functools
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from lab_check import source
from lab_check.calling.calls import import_block
from lab_check.exercises import Exercise, catalogue
from lab_check.paths import package_folder
from lab_check.running.bench import Bench, check
from lab_check.running.results import Result
from lab_check.running.tape import PUBLISHED_SEED
from lab_check.running.tests import load_tests
from lab_grader import bank
from lab_grader.prove import prove
from lab_grader.record import outdated

EXERCISES = list(catalogue().values())


def test_every_right_way_passes_and_every_tenth_wrong_turn_fails_and_is_named() -> None:
    proofs = prove(EXERCISES, step=10)  # `lab prove` tries all, and the thousands of pairs
    assert [(proof.exercise.id, problem) for proof in proofs for problem in proof.problems] == []


def test_what_releases_carry_is_recorded_from_these_sources() -> None:
    assert [exercise.id for exercise in outdated(EXERCISES)] == [], "run `lab record`"


def test_there_are_at_least_250_wrong_turns_and_three_right_ways_of_every_block() -> None:
    assert list(bank.spaces()) == list(catalogue())
    assert sum(len(space.turns) for space in bank.spaces().values()) >= 250
    assert [id for id, space in bank.spaces().items() if len(space.right) < 3] == []


def sentences(message: str) -> int:
    return len(re.findall(r"[.?!](?=\s|$)", message))


def test_messages_are_two_or_three_sentences() -> None:
    turns = [(id, turn) for id, space in bank.spaces().items() for turn in space.turns]
    odd = [(id, turn.name) for id, turn in turns if not 2 <= sentences(turn.message) <= 3]
    assert odd == []


def test_no_message_gives_a_solution_line_away() -> None:
    text = "\n".join(path.read_text() for path in package_folder().glob("*.py"))
    computing = [line for line in source.solution_lines(text) if re.search(r"[-+*/@(]", line)]
    squeezed = {"".join(line.split()) for line in computing}
    told = [
        turn.name
        for space in bank.spaces().values()
        for turn in space.turns
        if any(line in "".join(turn.message.split()) for line in squeezed)
    ]
    assert told == []


def replaced(value: Any, tensor: Callable[[Tensor], Tensor], number: int) -> Any:
    """Keep the kind and the shape of a result, and nothing of what was computed."""
    inner = functools.partial(replaced, tensor=tensor, number=number)
    match value:
        case Tensor():
            return tensor(value)
        case bool() | int() | float():
            return type(value)(number)
        case tuple() | list():
            return type(value)(map(inner, value))
        case set() | dict() | str():
            return type(value)()
    return value


def zeros(value: Any, given: list[Tensor]) -> Any:
    return replaced(value, torch.zeros_like, 0)


def ones(value: Any, given: list[Tensor]) -> Any:
    return replaced(value, torch.ones_like, 1)


def echo(value: Any, given: list[Tensor]) -> Any:
    """Give back an argument that fits."""

    def fitting(wanted: Tensor) -> Tensor:
        fits = (t for t in given if (t.shape, t.dtype) == (wanted.shape, wanted.dtype))
        return next(fits, torch.zeros_like(wanted))

    return replaced(value, fitting, 0)


def tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors(value)


def emptied(function: Callable[..., Any], empty: Callable[[Any, list[Tensor]], Any]) -> Any:
    """Write a function, or every method of a class, so that it only looks like an answer."""
    if isinstance(function, type):
        methods = {n: m for n, m in vars(function).items() if isinstance(m, types.FunctionType)}
        hollow = {n: emptied(m, empty) for n, m in methods.items() if not n.startswith("__")}
        return type(function.__name__, (function,), hollow)

    def answer(*args: Any, **kwargs: Any) -> Any:
        # What is passed to be called is not called by an empty answer.
        quiet = [torch.nn.Identity() if isinstance(a, types.FunctionType) else a for a in args]
        return empty(function(*quiet, **kwargs), list(tensors([*args, *kwargs.values()])))

    return answer


@pytest.mark.parametrize("empty", [zeros, ones, echo])
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_an_answer_that_only_looks_like_one_earns_nothing(
    exercise: Exercise, empty: Callable[[Any, list[Tensor]], Any]
) -> None:
    block = emptied(import_block(exercise.module, exercise.name), empty)
    replay = bank.tapes(exercise.id, PUBLISHED_SEED)
    bench = Bench(lambda: bank.backend(exercise.id, block), replay=replay)
    properties = [check(test, bench) for test in load_tests()[exercise.id]]
    assert [p.sentence for p in properties if p.ok and not p.guard] == []
    assert Result(exercise, "wrong", properties).points == 0
