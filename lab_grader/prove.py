"""The figures that prove the checks: right solutions pass, wrong ones fail and are named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.console import Console

from lab_check.calling.calls import import_block
from lab_check.exercises import Exercise, select
from lab_check.running.tape import PUBLISHED_SEED
from lab_grader import bank, record


@dataclass
class Proof:
    """What was tried of one exercise, and what did not come out as it should."""

    exercise: Exercise
    right: int = 0
    turns: int = 0
    pairs: int = 0
    pairs_named: int = 0
    problems: list[str] = field(default_factory=list)


def print_proofs(what: list[str], seed: int) -> int:
    """Print all figures; the exit code is 1 when one is not as it must be."""
    console = Console(highlight=False, soft_wrap=True)
    proofs = []
    for proof in prove(select(what), seed):
        proofs.append(proof)
        console.print(
            f"{proof.exercise.id} {proof.exercise.title}: {proof.right} right ways, "
            f"{proof.turns} wrong turns, {proof.pairs_named} of {proof.pairs} pairs named"
        )
        for problem in proof.problems:
            console.print(f"    [red]✗[/] {problem}", markup=True)
    problems = sum(len(proof.problems) for proof in proofs)
    pairs = sum(proof.pairs for proof in proofs)
    named = sum(proof.pairs_named for proof in proofs)
    console.print(
        f"[bold]{len(proofs)} exercises, {sum(proof.right for proof in proofs)} right ways, "
        f"{sum(proof.turns for proof in proofs)} wrong turns, {named} of {pairs} pairs named, "
        f"{problems} problems[/]"
    )
    return 1 if problems else 0


def prove(exercises: list[Exercise], seed: int = PUBLISHED_SEED, step: int = 1) -> Iterator[Proof]:
    """Try the right and the wrong solutions in the bank on their exercise's tests, on all cores.

    With a step, only every `step`-th single turn is tried, and no pair of turns.
    """
    with record.processes() as pool:
        count = len(exercises)
        yield from pool.map(_prove, exercises, [seed] * count, [step] * count)


def _prove(exercise: Exercise, seed: int, step: int) -> Proof:
    proof = Proof(exercise)
    here = bank.space(exercise.id)
    for name in here.drafts:
        proof.problems.append(f"{name} in turns.md still needs its name or its message")
    known = record.known(exercise) if seed == PUBLISHED_SEED else bank.known(exercise.id, seed)
    for block in (import_block(exercise.module, exercise.name), here.variant(), *here.right):
        proof.right += 1
        if not bank.trace(exercise.id, block, seed)[0]:
            proof.problems.append(f"a right way does not pass: {block.__qualname__}")
    named: dict[tuple[str, ...], str] = {}
    # As the blocks behave here and now: recordings may come from another machine.
    tried = bank.turns(exercise.id, seed, 1, step)
    if step == 1:
        tried += bank.turns(exercise.id, seed, 2)
    for names, trace in tried:
        diagnosis = known.recognise(trace)
        named[names] = diagnosis.name if diagnosis else ""
    for turn in here.turns[::step]:
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
