"""What passes in process passes through a worker: all right ways of the bank, and ways in place."""

from __future__ import annotations

import ast
import functools
import inspect
import operator
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from near import Near
from torch import Tensor

from lab_check.calling.calls import Backend, import_block
from lab_check.exercises import Exercise, catalogue
from lab_check.running.bench import Bench, check
from lab_check.running.tape import PUBLISHED_SEED
from lab_check.running.tests import load_tests
from lab_grader import bank
from lab_grader.grading.judging.remote import InWorker, Talk

EXERCISES = list(catalogue().values())
IN_PLACE = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_", ast.Div: "div_"}
PLAIN = {"add_": operator.add, "sub_": operator.sub, "mul_": operator.mul, "div_": operator.truediv}


def in_place(method: str, left: Any, right: Any) -> Any:
    """Do arithmetic in the memory of what was just computed, where the result fits into it."""
    if isinstance(left, Tensor) and left.is_floating_point():
        other = right if isinstance(right, Tensor) else torch.tensor(0.0)
        fits = torch.broadcast_shapes(left.shape, other.shape) == left.shape
        if fits and torch.result_type(left, right) == left.dtype:
            return getattr(left, method)(right)
    return PLAIN[method](left, right)


class Rewritten(ast.NodeTransformer):
    """Turns arithmetic on what a call gives into arithmetic in place."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        method = IN_PLACE.get(type(node.op))
        left, right = node.left, node.right
        if method in ("add_", "mul_") and not isinstance(left, ast.Call | ast.BinOp):
            left, right = right, left
        if method is None or not isinstance(left, ast.Call | ast.BinOp):
            return node
        return ast.Call(ast.Name("in_place", ast.Load()), [ast.Constant(method), left, right], [])


def rewritten(block: Any) -> Any:
    """Write a block anew, with arithmetic in place; give None where there is none."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(block)))
    tree.body[0].decorator_list = []  # type: ignore[attr-defined]
    before = ast.dump(tree)
    tree = ast.fix_missing_locations(Rewritten().visit(tree))
    if ast.dump(tree) == before:
        return None
    names = vars(sys.modules[block.__module__]) | {"in_place": in_place}
    exec(compile(tree, block.__name__, "exec"), names)
    return names[block.__name__]


def broken(exercise: Exercise, backend: Callable[[], Backend]) -> list[str]:
    bench = Bench(backend, replay=bank.tapes(exercise.id, PUBLISHED_SEED))
    properties = (check(test, bench) for test in load_tests()[exercise.id])
    return [f"{p.sentence}: {p.message}" for p in properties if not p.ok]


def broken_far(exercise: Exercise, block: Any) -> list[str]:
    line = Near(functools.partial(bank.backend, exercise.id, block))
    try:
        return broken(exercise, lambda: InWorker(Talk(line, time.monotonic() + 60)))
    finally:
        line.close()


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_right_ways_pass_through_a_worker(exercise: Exercise) -> None:
    for block in bank.spaces()[exercise.id].right:
        assert broken_far(exercise, block) == [], block.__name__


def test_what_may_be_done_in_place_may_be_done_in_a_worker() -> None:
    tried = set()
    for exercise in EXERCISES:
        reference = import_block(exercise.module, exercise.name)
        for block in map(rewritten, (reference, *bank.spaces()[exercise.id].right)):
            here = functools.partial(bank.backend, exercise.id, block)
            if block is not None and not broken(exercise, here):
                assert broken_far(exercise, block) == [], (exercise.id, block.__name__)
                tried.add(exercise.id)
    assert len(tried) >= 20
    assert "5.3" in tried  # what a sublayer of the tests returns
