"""An extension of IPython: every seed that a notebook's own cells set is shifted by LAB_SEED_SHIFT.

A cell is changed after it was parsed: its text stays, and the checks of exercises, which have seeds of
their own, draw what they always draw.
"""

import ast
import os

import torch
from IPython.core.interactiveshell import InteractiveShell

SEEDED = {"manual_seed", "seed", "Random", "default_rng"}


class Shift(ast.NodeTransformer):
    """Adds a number to the argument of every call that sets a seed."""

    def __init__(self, shift: int) -> None:
        self.shift = shift

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        called = getattr(node.func, "attr", getattr(node.func, "id", None))
        if called in SEEDED and node.args:
            node.args[0] = self._more(node.args[0])
        for keyword in node.keywords:
            if keyword.arg == "seed":
                keyword.value = self._more(keyword.value)
        return node

    def _more(self, seed: ast.expr) -> ast.expr:
        more = ast.BinOp(seed, ast.Add(), ast.Constant(self.shift))
        return ast.fix_missing_locations(ast.copy_location(more, seed))


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Shift what comes; what is drawn before any seed is set differs, too."""
    shift = int(os.environ["LAB_SEED_SHIFT"])
    torch.manual_seed(shift)
    shell.ast_transformers.append(Shift(shift))
