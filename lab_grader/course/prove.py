"""The figures that prove the checks: right solutions pass, wrong ones fail and are named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lab_grader.course import bank
from lab_grader.exercises import Exercise
from lab_grader.submission import import_block
from lab_grader.tape import PUBLISHED_SEED


@dataclass
class Proof:
    """What was tried of one exercise, and what did not come out as it should."""

    exercise: Exercise
    right: int = 0
    turns: int = 0
    pairs: int = 0
    pairs_named: int = 0
    problems: list[str] = field(default_factory=list)


def prove(exercises: list[Exercise], seed: int = PUBLISHED_SEED) -> Iterator[Proof]:
    """Try every right and every wrong solution in the bank on its exercise's tests."""
    for exercise in exercises:
        yield _prove(exercise, seed)


def _prove(exercise: Exercise, seed: int) -> Proof:
    proof = Proof(exercise)
    here = bank.spaces()[exercise.id]
    known = bank.known(exercise.id, seed)
    for block in (import_block(exercise.module, exercise.name), here.variant(), *here.right):
        proof.right += 1
        if not bank.trace(exercise.id, block, seed)[0]:
            proof.problems.append(f"a right way does not pass: {block.__qualname__}")
    named: dict[tuple[str, ...], str] = {}
    for names, trace in known.turns:
        diagnosis = known.recognise(trace)
        named[names] = diagnosis.name if diagnosis else ""
    for turn in here.turns:
        proof.turns += 1
        if (turn.name,) not in named:
            proof.problems.append(f"{turn.name} passes the tests")
        elif named[turn.name,] != turn.name:
            proof.problems.append(f"{turn.name} is taken for {named[turn.name,] or 'nothing known'}")
    for names, name in named.items():
        if len(names) == 2:
            proof.pairs += 1
            # A pair may do no more than one of its two turns: then that one is what to say.
            proof.pairs_named += name in (" + ".join(names), *names)
    return proof
