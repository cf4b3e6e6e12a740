"""Mutation testing: which changes it makes to a solution, and that it tells who survives."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from lab_check.errors import UserError
from lab_check.exercises import catalogue, select
from lab_grader.mutants import scores
from lab_grader.mutants.scores import Mutant, mutate

BLOCK = '''
def block(a, b, mask=None):
    """Say what it does."""
    check(a, 1)
    ### BEGIN SOLUTION
    {}
    ### END SOLUTION
'''


def becomes(solution: str) -> set[str]:
    text = BLOCK.format(textwrap.indent(solution, "    ").strip())
    return {mutant.becomes for mutant in mutate(text, "block", "1.1")}


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("return a + b", ["return a - b", "return a", "return b", "return b + b"]),
        ("return a @ b", ["return b @ a", "return a * b", "return (a @ b).detach()"]),
        ("return a < 2", ["return a <= 2", "return a >= 2", "return a < 3", "return a < -2"]),
        ("return a and b", ["return a or b", "return a"]),
        ("return ~a", ["return a"]),
        ("return a.mT", ["return a", "return b.mT"]),
        ("return a.sum(dim=-1)", ["return a.sum()", "return a.mean(dim=-1)", "return a.sum(dim=0)"]),
        ("return f(a, dim=b)", ["return f(a, dim=0)", "return f(b, dim=b)", "return f(a)"]),
        ("return f(a, b)", ["return f(b, a)", "return f(a)", "return a"]),
        ("return a, b", ["return (b, a)"]),
        ("return a[:b]", ["return a[b:]", "return a[:b + 1]", "return a[:]", "return a"]),
        ("return -math.inf", ["return math.inf", "return -1000000000.0"]),
        ("return a if mask else b", ["return a", "return b if mask else a"]),
        ("return a.tril()", ["return a.triu()", "return a.tril(1)", "return a"]),
        ("return a.clamp(max=1)", ["return a.clamp(min=1)", "return a.clamp(max=0)"]),
        ("if mask:\n    a = b", ["if True:", "if False:", "pass"]),
        ("for x in a:\n    b(x)", ["for x in list(a)[1:]:", "for x in list(a)[::-1]:"]),
        ("a += b", ["a = b", "pass"]),
    ],
)  # fmt: skip
def test_operators_make_the_changes_that_people_make(line: str, changed: list[str]) -> None:
    assert becomes(line).issuperset(changed)


def test_only_solutions_are_changed() -> None:
    lines = {mutant.line for mutant in mutate(BLOCK.format("return a"), "block", "1.1")}
    assert lines == {"return a"}


def test_every_mutant_is_another_program_of_one_changed_line() -> None:
    made = list(mutate(BLOCK.format("return torch.relu(a @ b) + 1"), "block", "1.1"))
    assert len({mutant.text for mutant in made}) == len(made) > 10
    assert all(mutant.line != mutant.becomes for mutant in made)


def test_every_exercise_has_mutants() -> None:
    assert all(scores.mutants_of(exercise) for exercise in catalogue().values())


def test_a_wrong_change_is_killed_and_one_without_effect_survives() -> None:
    (exercise,) = select(["2.1"])
    assert scores.outcome(exercise, _mutant("return x @ x.mT")) == "survived"
    assert scores.outcome(exercise, _mutant("return (x @ x.mT).detach()")) == "gradient"


def test_an_endless_loop_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "SECONDS", 0.5)
    (exercise,) = select(["2.1"])
    assert scores.outcome(exercise, _mutant("while True: pass")) == "timeout"


def _mutant(line: str) -> Mutant:
    text = f"def similarity_scores(x):\n    {line}\n"
    return Mutant("2.1", "by hand", "", line, text)


def test_tests_notice_every_mutant_of_an_exercise() -> None:
    (score,) = scores.score(select(["2.1"]))
    assert score.survivors == []
    assert score.problems == []
    assert score.killed == score.mutants > 5


def test_an_entry_for_a_mutant_that_is_killed_is_a_problem() -> None:
    (exercise,) = select(["2.1"])
    mutant = _mutant("return x @ x")
    assert scores._score(exercise, [(mutant, "value")], {mutant.key: "no effect"}).problems
    assert not scores._score(exercise, [(mutant, "survived")], {mutant.key: "no effect"}).problems


def test_every_listed_mutant_exists_and_says_why() -> None:
    made = {m.key for exercise in catalogue().values() for m in scores.mutants_of(exercise)}
    for key, why in scores.listed().items():
        assert key in made, f"take this off {scores.LISTED.name}: there is no such mutant: {key}"
        assert why.endswith(".")


def test_a_mutant_listed_twice_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = '[[equivalent]]\nexercise = "2.1"\nwhy = "No effect."\nchanges = [["a", "b"]]\n'
    path = tmp_path / "mutants.toml"
    path.write_text(group * 2)
    monkeypatch.setattr(scores, "LISTED", path)
    with pytest.raises(UserError, match="listed twice"):
        scores.listed()
