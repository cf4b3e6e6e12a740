"""The small changes that mutation testing makes, as a tired programmer would make them."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator

_ARITHMETIC: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.MatMult: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.FloorDiv: (ast.Mod,),
    ast.Mod: (ast.FloorDiv,),
    ast.BitAnd: (ast.BitOr, ast.BitXor),
    ast.BitOr: (ast.BitAnd, ast.BitXor),
}
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq, ast.LtE, ast.GtE),
    ast.NotEq: (ast.Eq, ast.Lt, ast.Gt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
# What is easily taken for each other.
_SIBLINGS = {
    "amax": ("amin", "mean"),
    "any": ("all",),
    "arange": ("ones",),
    "argmax": ("argmin",),
    "cat": ("stack",),
    "cos": ("sin",),
    "cumsum": ("cumprod",),
    "exp": ("exp2", "sigmoid"),
    "float32": ("float64", "float16"),
    "float64": ("float32",),
    "keys": ("values",),
    "log_softmax": ("softmax",),
    "max": ("min",),
    "mean": ("sum", "median"),
    "min": ("max",),
    "norm": ("sum",),
    "norm_1": ("norm_2",),
    "norm_2": ("norm_1",),
    "norm_3": ("norm_1", "norm_2"),
    "ones": ("zeros",),
    "outer": ("dot",),
    "post_norm": ("pre_norm",),
    "pre_norm": ("post_norm",),
    "randn": ("rand",),
    "relu": ("abs", "sigmoid", "tanh"),
    "sin": ("cos",),
    "softmax": ("log_softmax", "sigmoid"),
    "source_embedding": ("target_embedding",),
    "split_heads": ("merge_heads",),
    "sqrt": ("square", "exp"),
    "square": ("abs", "sqrt"),
    "stack": ("cat",),
    "sum": ("mean", "prod", "amax"),
    "tanh": ("sigmoid", "relu"),
    "target_embedding": ("source_embedding",),
    "tril": ("triu",),
    "values": ("keys",),
    "var": ("std",),
    "w_k": ("w_q", "w_v"),
    "w_o": ("w_v",),
    "w_q": ("w_k", "w_v"),
    "w_v": ("w_k", "w_o"),
    "zeros": ("ones",),
    "zeros_like": ("ones_like",),
}
# What a call may be given too much.
_EXTRAS = {"tril": ("tril(1)", "tril(-1)"), "var": ("var(correction=0)",)}
_ONE_WAY = (ast.Sub, ast.Div, ast.MatMult, ast.Pow, ast.FloorDiv, ast.Mod)

Change = tuple[str, ast.AST]


def changes_of_statement(node: ast.stmt) -> Iterator[Change]:
    """Change a statement as a whole."""
    match node:
        case (
            ast.Assign()
            | ast.AugAssign()
            | ast.AnnAssign()
            | ast.Expr()
            | ast.Nonlocal()
            | ast.Return()
        ):
            yield "statement deleted", ast.Pass()
    match node:
        case ast.AugAssign(target=target, value=value):
            yield "adding replaced", ast.copy_location(ast.Assign([target], value), node)
        case ast.Assign(value=value) | ast.Return(value=ast.expr() as value):
            for detached in _detached(value):
                changed = copy.copy(node)
                changed.value = detached
                yield "gradient cut", changed
        case ast.If() | ast.While():
            for forced in (ast.Constant(True), ast.Constant(False)):
                branch = copy.copy(node)
                branch.test = forced
                yield "condition forced", branch
        case ast.For(iter=walked):
            for part in ("[1:]", "[:-1]", "[::-1]"):
                loop = copy.copy(node)
                loop.iter = _expression(f"list({ast.unparse(walked)}){part}")
                yield "loop shortened or turned", loop


def _detached(value: ast.expr) -> Iterator[ast.expr]:
    match value:
        case ast.BinOp() | ast.Call():
            yield _expression(f"({ast.unparse(value)}).detach()")
        case ast.Tuple(elts=parts):
            for i, part in enumerate(parts):
                for detached in _detached(part):
                    yield ast.Tuple([*parts[:i], detached, *parts[i + 1 :]], ast.Load())


def changes_of_expression(node: ast.expr, names: list[str]) -> Iterator[Change]:
    """Change one expression in every way that fits it; `names` are the arguments of the function."""
    match node:
        case ast.Constant(value=value):
            yield from (("constant", ast.Constant(other)) for other in _constants(value))
        case ast.BinOp(left=a, op=op, right=b):
            for other in _ARITHMETIC.get(type(op), ()):
                yield "operator", ast.BinOp(a, other(), b)
            if isinstance(op, _ONE_WAY):
                yield "operands exchanged", ast.BinOp(b, op, a)
            yield "operand dropped", a
            yield "operand dropped", b
        case ast.UnaryOp(op=op, operand=operand):
            yield "sign or negation dropped", operand
            if isinstance(op, ast.USub) and ast.unparse(operand) == "math.inf":
                yield "finite instead of -inf", ast.Constant(-1e9)
                yield "finite instead of -inf", ast.Constant(-1e4)
        case ast.Compare(left=a, ops=[op], comparators=[b]):
            for compared in _COMPARISONS[type(op)]:
                yield "comparison", ast.Compare(a, [compared()], [b])
        case ast.BoolOp(op=op, values=values):
            joined = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "and, or", ast.BoolOp(joined, values)
            for i in range(len(values)):
                rest = values[:i] + values[i + 1 :]
                yield "condition dropped", rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.IfExp(test=test, body=a, orelse=b):
            yield "condition forced", a
            yield "condition forced", b
            yield "condition forced", ast.IfExp(test, b, a)
        case ast.Call():
            yield from _changes_of_call(node)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for i, j in itertools.combinations(range(len(parts)), 2):
                swapped = list(parts)
                swapped[i], swapped[j] = swapped[j], swapped[i]
                yield "elements exchanged", type(node)(swapped, node.ctx)
        case ast.Subscript(value=value, slice=index, ctx=ast.Load()):
            yield "subscript dropped", value
            if isinstance(index, ast.Slice):
                yield from (("slice", ast.Subscript(value, s, ast.Load())) for s in _slices(index))
        case ast.Slice():
            yield from (("slice", other) for other in _slices(node))
        case ast.Attribute(value=value, attr=name, ctx=ctx):
            if name in ("T", "mT"):
                yield "transposition dropped", value
            for sibling in _SIBLINGS.get(name, ()):
                yield "sibling", ast.Attribute(value, sibling, ctx)
        case ast.Name(id=name, ctx=ctx):
            for sibling in _SIBLINGS.get(name, ()):
                yield "sibling", ast.Name(sibling, ctx)
            if name in names and isinstance(ctx, ast.Load):
                yield from (("arguments confused", ast.Name(argument, ctx)) for argument in names)


def _constants(value: object) -> Iterator[bool | float]:
    match value:
        case bool():
            yield not value
        case int() | float():
            yield from (value + 1, value - 1)
            if value:
                yield from (value * 2, -value)


def _changes_of_call(node: ast.Call) -> Iterator[Change]:
    function, args, keywords = node.func, node.args, node.keywords
    if isinstance(function, ast.Attribute) and not _is_library(function.value):
        yield "call skipped", function.value
    elif args and not isinstance(args[0], ast.Starred):
        yield "call skipped", args[0]
    for i in range(len(args) - 1):
        exchanged = [*args[:i], args[i + 1], args[i], *args[i + 2 :]]
        yield "arguments exchanged", ast.Call(function, exchanged, keywords)
    for i in range(len(args)):
        yield "argument dropped", ast.Call(function, args[:i] + args[i + 1 :], keywords)
    for i, keyword in enumerate(keywords):
        rest = keywords[:i] + keywords[i + 1 :]
        yield "keyword dropped", ast.Call(function, args, rest)
        if keyword.arg in ("min", "max"):
            other = ast.keyword({"min": "max", "max": "min"}[keyword.arg], keyword.value)
            yield "sibling", ast.Call(function, args, [*rest, other])
        if keyword.arg == "dim" and not isinstance(keyword.value, ast.Constant):
            for axis in (-2, -1, 0):
                other = ast.keyword("dim", ast.Constant(axis))
                yield "axis", ast.Call(function, args, [other, *rest])
    if isinstance(function, ast.Attribute):
        for extra in _EXTRAS.get(function.attr, ()):
            yield "argument added", _expression(f"({ast.unparse(function.value)}).{extra}")


def _is_library(node: ast.expr) -> bool:
    return ast.unparse(node) in ("torch", "math", "self", "torch.autograd")


def _slices(node: ast.Slice) -> Iterator[ast.Slice]:
    lower, upper, step = node.lower, node.upper, node.step
    if lower:
        yield ast.Slice(None, upper, step)
        yield from (ast.Slice(moved, upper, step) for moved in _moved(lower))
    if upper:
        yield ast.Slice(lower, None, step)
        yield from (ast.Slice(lower, moved, step) for moved in _moved(upper))
    if step:
        yield ast.Slice(lower, upper, None)
    if lower or upper:
        yield ast.Slice(upper, lower, step)


def _moved(bound: ast.expr) -> Iterator[ast.expr]:
    if not isinstance(bound, ast.Constant):
        yield ast.BinOp(bound, ast.Add(), ast.Constant(1))
        yield ast.BinOp(bound, ast.Sub(), ast.Constant(1))


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
