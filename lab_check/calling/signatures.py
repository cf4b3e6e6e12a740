"""What a block promises in its signature: the axes of its results, by name."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lab_check.calling.failures import WrongShape, WrongType

_KINDS = {"Float": "floating point", "Int": "integer", "Bool": "boolean"}
_ORDINALS = ("first", "second", "third", "fourth")

# The names of a tensor's axes, for the tensors that a test has drawn.
AxisNames = dict[int, tuple[str, ...]]


@dataclass(frozen=True)
class Contract:
    """The annotations of one function: its parameters in order, and what it returns."""

    parameters: tuple[tuple[str, ast.expr | None], ...]
    returns: ast.expr | None

    @classmethod
    def of(cls, function: ast.FunctionDef) -> Contract:
        """Read a function's signature, `self` left out."""
        arguments = [a for a in function.args.args + function.args.kwonlyargs if a.arg != "self"]
        return cls(tuple((a.arg, a.annotation) for a in arguments), function.returns)

    def check(
        self, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any], names: AxisNames
    ) -> None:
        """Raise a failure in the words of the axes unless the value is what the signature says."""
        if self.returns is None:
            return
        sizes = _Sizes()
        given = self._arguments(args, kwargs)
        for name, annotation in self.parameters:
            # A mask may broadcast, so its axes say nothing about sizes.
            if annotation is not None and isinstance(given.get(name), Tensor) and "mask" not in name:
                sizes.bind(annotation, given[name], names.get(id(given[name])))
        sizes.expect(self.returns, value, "the result")

    def given(self, args: tuple[Any, ...], kwargs: dict[str, Any], names: AxisNames) -> str:
        """Tell the shapes of the tensors that a call was given, with the names of their axes."""
        shapes = []
        arguments = self._arguments(args, kwargs)
        for name, annotation in self.parameters:
            value = arguments.get(name)
            if isinstance(value, Tensor):
                spec = _axes(annotation) if annotation is not None else None
                axes = names.get(id(value)) or tuple(spec[1] if spec else ())
                axes = ("",) * (value.ndim - len(axes)) + axes[max(0, len(axes) - value.ndim) :]
                sizes = (f"{axis} {size}".strip() for axis, size in zip(axes, value.shape, strict=True))
                shapes.append(f"{name} ({', '.join(sizes)})")
        return ", ".join(shapes)

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return dict(zip((name for name, _ in self.parameters), args, strict=False)) | kwargs


@dataclass
class _Sizes:
    """The sizes that the arguments give to axis names."""

    named: dict[str, int] = field(default_factory=dict)
    leading: tuple[tuple[str, int], ...] = ()

    def bind(self, annotation: ast.expr, tensor: Tensor, names: tuple[str, ...] | None) -> None:
        spec = _axes(annotation)
        if spec is None:
            return
        open_ended, axes = spec
        if tensor.ndim < len(axes):
            return
        split = tensor.ndim - len(axes)
        for axis, size in zip(axes, tensor.shape[split:], strict=True):
            self.named.setdefault(axis, size)
        if open_ended and split > len(self.leading):
            known = names if names and len(names) == tensor.ndim else ("",) * tensor.ndim
            self.leading = tuple(zip(known[:split], tensor.shape[:split], strict=True))

    def expect(self, annotation: ast.expr, value: Any, what: str) -> None:
        match annotation:
            case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=parts)):
                if not isinstance(value, tuple | list) or len(value) != len(parts):
                    raise WrongType(f"{what} should be {len(parts)} things; it is {describe(value)}")
                if any(_axes(part) is None for part in parts):
                    return
                for i, (part, item) in enumerate(zip(parts, value, strict=True)):
                    self.expect(part, item, f"the {_ORDINALS[i]} of the {len(parts)} results")
            case ast.Subscript(value=ast.Name(id=("list" | "set") as container), slice=inner):
                wanted = list if container == "list" else (set, frozenset, list, tuple)
                if not isinstance(value, wanted):
                    raise WrongType(f"{what} should be a {container}; it is {describe(value)}")
                if _axes(inner) is not None:
                    for i, item in enumerate(value):
                        _expect_tensor(inner, item, f"entry {i} of {what}")
            case ast.Name(id=("float" | "int") as kind):
                number = isinstance(value, int | float) and not isinstance(value, bool)
                if not number or (kind == "int" and not isinstance(value, int)):
                    raise WrongType(f"{what} should be a plain {kind}; it is {describe(value)}")
            case _ if _axes(annotation) is not None:
                _expect_tensor(annotation, value, what)
                self.expect_shape(annotation, value, what)

    def expect_shape(self, annotation: ast.expr, value: Tensor, what: str) -> None:
        spec = _axes(annotation)
        assert spec is not None
        open_ended, axes = spec
        wanted: list[tuple[str, int | None]] = list(self.leading) if open_ended else []
        wanted += [("", int(axis)) if axis.isdigit() else (axis, self.named.get(axis)) for axis in axes]
        got = tuple(value.shape)
        if len(got) == len(wanted) and all(
            size in (None, have) for (_, size), have in zip(wanted, got, strict=True)
        ):
            return
        asked = ", ".join(f"{name} {size if size is not None else ''}".strip() for name, size in wanted)
        wish = f"have the axes ({asked})" if wanted else "be a single number"
        message = f"{what} should {wish}, but its shape is {got}"
        if sizes_exchanged([size for _, size in wanted], got):
            message += ": the last two axes are exchanged"
        elif wanted and len(got) != len(wanted):
            message += f": {len(wanted)} axes expected, {len(got)} came"
        raise WrongShape(message)


def sizes_exchanged(wanted: list[int | None], got: tuple[int, ...]) -> bool:
    """Tell whether a shape is the wanted one with its last two axes exchanged."""
    return len(wanted) == len(got) >= 2 and [*got[:-2], got[-1], got[-2]] == list(wanted)


@functools.cache
def _axes(annotation: ast.expr) -> tuple[bool, list[str]] | None:
    """Read ``Float[Tensor, "... query key"]`` as (True, ["query", "key"])."""
    match annotation:
        case ast.Subscript(
            value=ast.Name(id=kind), slice=ast.Tuple(elts=[_, ast.Constant(value=str(text))])
        ) if kind in _KINDS:
            words = text.split()
            return "..." in words, [word for word in words if word != "..."]
    return None


def _expect_tensor(annotation: ast.expr, value: Any, what: str) -> None:
    assert isinstance(annotation, ast.Subscript)
    assert isinstance(annotation.value, ast.Name)
    kind = _KINDS[annotation.value.id]
    if not isinstance(value, Tensor):
        raise WrongType(f"{what} should be a tensor; it is {describe(value)}")
    integer = not value.is_floating_point() and not value.is_complex() and value.dtype != torch.bool
    fits = {
        "floating point": value.is_floating_point(),
        "integer": integer,
        "boolean": value.dtype == torch.bool,
    }
    if not fits[kind]:
        raise WrongType(f"{what} should be {kind}, but its dtype is {value.dtype}")


def describe(value: Any) -> str:
    """Say in a few words what a value is."""
    match value:
        case None:
            return "None: is a return missing?"
        case Tensor():
            return f"a tensor of shape {tuple(value.shape)}"
        case tuple() | list() | set() | dict():
            return f"a {type(value).__name__} of {len(value)}"
        case bool() | int() | float() | str():
            text = repr(value)
            return f"the {type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
    return f"a {type(value).__name__}"
