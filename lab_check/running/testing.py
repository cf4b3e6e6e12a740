"""What the exercise tests are written with.

A test is one property of one exercise, named as a sentence. It takes the fixtures it needs:
`submission` (the code under test), `expected` (the right results), `draw` (inputs from a seed).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from lab_check.calling.calls import Reply
from lab_check.calling.failures import (
    ChangedInput,
    Failure,
    NoGradient,
    NotFinite,
    Picture,
    Raised,
    WrongShape,
    WrongType,
    WrongValue,
)
from lab_check.calling.signatures import describe, sizes_exchanged
from lab_check.diagnosing.patterns import relation
from lab_check.running.submission import Handle, RemoteFunction

__all__ = [
    "agree", "exercise", "fail", "finite", "gradients", "gradients_agree", "guard", "keeps_dtype",
    "leaves_inputs_alone", "refuses", "require", "same_items",
]  # fmt: skip

Test = TypeVar("Test", bound=Callable[..., None])


def exercise(id: str) -> Callable[[Test], Test]:
    """Mark a test as a property of an exercise."""

    def mark(test: Test) -> Test:
        test.exercise, test.guard = id, False  # type: ignore[attr-defined]
        return test

    return mark


def guard(id: str) -> Callable[[Test], Test]:
    """Mark a property that an empty answer may have too: it must hold, and earns nothing by itself."""

    def mark(test: Test) -> Test:
        test.exercise, test.guard = id, True  # type: ignore[attr-defined]
        return test

    return mark


def fail(message: str) -> None:
    """End the test with a sentence for the learner."""
    raise Failure(message)


def require(condition: bool, message: str) -> None:
    """End the test with a sentence for the learner unless the condition holds."""
    if not condition:
        raise Failure(message)


def tolerance(dtype: torch.dtype) -> tuple[float, float]:
    """Give the relative and absolute difference that rounding may explain."""
    return (1e-6, 1e-8) if dtype == torch.float64 else (2e-4, 2e-5)


def agree(
    actual: Any,
    wanted: Any,
    what: str = "the result",
    axes: str = "",
    rel: float | None = None,
    abs: float | None = None,
) -> None:
    """Compare numbers or tensors; say in words where they differ most.

    `axes` names the axes of a tensor, as "batch query key".
    """
    if isinstance(wanted, int | float) and not isinstance(actual, Tensor):
        if isinstance(actual, bool) or not isinstance(actual, int | float):
            raise WrongType(f"{what} should be a number; it is {describe(actual)}")
        actual, wanted = (
            torch.tensor(actual, dtype=torch.float64),
            torch.tensor(wanted, dtype=torch.float64),
        )
    if not isinstance(actual, Tensor):
        raise WrongType(f"{what} should be a tensor; it is {describe(actual)}")
    if not isinstance(wanted, Tensor):
        wanted = torch.as_tensor(wanted, device=actual.device).expand(actual.shape)
    if actual.shape != wanted.shape:
        message = (
            f"{what} should have the shape {_shape(wanted.shape, axes)}, it has {tuple(actual.shape)}"
        )
        if sizes_exchanged(list(wanted.shape), tuple(actual.shape)):
            message += ": the last two axes are exchanged"
        raise WrongShape(message)
    if actual.dtype == wanted.dtype and torch.equal(actual, wanted):
        return
    a, w = actual.detach().cpu().double(), wanted.detach().cpu().double()
    relative, absolute = tolerance(actual.dtype if actual.is_floating_point() else torch.float32)
    allowed = (abs if abs is not None else absolute) + (rel if rel is not None else relative) * w.abs()
    off = ~(((a - w).abs() <= allowed) | (a == w))
    if not off.any():
        return
    lost = off & ~a.isfinite() & w.isfinite()
    if lost.any():
        place = _place(lost.flatten().to(torch.int8).argmax(), a.shape, axes)
        raise NotFinite(
            f"{what} is {_number(a[lost][0])} {place}".rstrip()
            + f", where {_number(w[lost][0])} is expected ({_count(lost)})"
        )
    raise _Different(a, w, off, what, axes)


class _Different(WrongValue):
    """Numbers that differ; where and how is found out only when somebody asks."""

    def __init__(self, actual: Tensor, wanted: Tensor, off: Tensor, what: str, axes: str) -> None:
        super().__init__()
        self._actual, self._wanted, self._off = actual, wanted, off
        self._what, self._axes = what, axes

    @functools.cached_property
    def _worst(self) -> Tensor:
        distance = (self._actual - self._wanted).abs().nan_to_num(nan=math.inf)
        return distance.masked_fill(~self._off, -1.0).flatten().argmax()

    def __str__(self) -> str:
        got, expected = self._actual.flatten()[self._worst], self._wanted.flatten()[self._worst]
        place = _place(self._worst, self._actual.shape, self._axes)
        return (
            f"{self._what} is {_number(got)} {place}".rstrip()
            + f", expected {_number(expected)}"
            + (f" ({_count(self._off)})" if self._off.numel() > 1 else "")
        )

    @property
    def relation(self) -> str | None:
        return relation(self._actual, self._wanted, self._axes)

    @property
    def picture(self) -> Picture | None:
        return _picture(self._actual, self._wanted, self._worst, self._what, self._axes)


def _picture(actual: Tensor, wanted: Tensor, worst: Tensor, what: str, axes: str) -> Picture | None:
    """Cut out the rows and columns around the largest difference, where they are few."""
    names = axes.split()
    if actual.ndim < 2 or len(names) != actual.ndim or max(actual.shape[-2:]) > 64:
        return None
    *outer, row, column = _unravelled(worst, actual.shape)
    place = tuple(outer)
    where = ", ".join(f"{name} {i}" for name, i in zip(names, place, strict=False))
    title = f"{what.removeprefix('the ')}" + (f" ({where})" if where else "")
    return Picture(
        title, (names[-2], names[-1]), wanted[place].tolist(), actual[place].tolist(), (row, column)
    )


def _shape(shape: Iterable[int], axes: str) -> str:
    sizes = list(shape)
    names = axes.split()
    if len(names) != len(sizes):
        return str(tuple(sizes))
    return "(" + ", ".join(f"{name} {size}" for name, size in zip(names, sizes, strict=True)) + ")"


def _place(index: Tensor, shape: torch.Size, axes: str) -> str:
    if not shape:
        return ""
    names = axes.split()
    where = _unravelled(index, shape)
    if len(names) != len(shape):
        return f"at index {list(where)}"
    return "at " + ", ".join(f"{name} {i}" for name, i in zip(names, where, strict=True))


def _unravelled(index: Tensor, shape: torch.Size) -> tuple[int, ...]:
    # Not torch.unravel_index: its first call imports sympy, and every forked check would wait for that.
    return tuple(int(i) for i in np.unravel_index(int(index), shape))


def _count(off: Tensor) -> str:
    return f"{int(off.sum())} of {off.numel()} entries differ"


def _number(value: Tensor) -> str:
    return f"{value.item():.4g}"


def same_items(actual: Any, wanted: Any, what: str = "the result") -> None:
    """Compare lists, sets or masks whose entries must be equal to the last one."""
    if isinstance(wanted, set | frozenset):
        try:
            actual = {tuple(int(n) for n in pair) for pair in actual}
        except TypeError:
            raise WrongType(f"{what} should be a set of pairs; it is {describe(actual)}") from None
    if isinstance(wanted, Tensor):
        if not isinstance(actual, Tensor):
            raise WrongType(f"{what} should be a tensor; it is {describe(actual)}")
        if actual.shape != wanted.shape:
            raise WrongShape(
                f"{what} should have the shape {tuple(wanted.shape)}, it has {tuple(actual.shape)}"
            )
        actual, wanted = actual.tolist(), wanted.tolist()
    if actual != wanted:
        raise WrongValue(f"{what} should be {_brief(wanted)}, it is {_brief(actual)}")


def _brief(value: Any) -> str:
    text = str(sorted(value) if isinstance(value, set | frozenset) else value)
    text = text.replace("True", "T").replace("False", "F") if len(text) > 60 else text
    return text if len(text) <= 200 else text[:197] + "..."


def finite(actual: Any, what: str = "the result") -> None:
    """Require that every number of a tensor is finite."""
    if not isinstance(actual, Tensor):
        raise WrongType(f"{what} should be a tensor; it is {describe(actual)}")
    bad = ~torch.isfinite(actual)
    if bad.any():
        place = _place(bad.flatten().to(torch.int8).argmax(), actual.shape, "")
        raise NotFinite(
            f"{what} is {_number(actual[bad][0])} {place} ({int(bad.sum())} entries are not finite)"
        )


def gradients(function: RemoteFunction | Handle, *args: Any, **kwargs: Any) -> dict[str, Tensor | None]:
    """Give the gradients of a fixed weighted sum of all results, by argument (and parameter)."""
    return _observe(function, *args, gradients=True, **kwargs).gradients


def _observe(function: RemoteFunction | Handle, *args: Any, **kwargs: Any) -> Reply:
    return (function.forward if isinstance(function, Handle) else function).observe(*args, **kwargs)


def gradients_agree(
    submitted: RemoteFunction | Handle,
    expected: RemoteFunction | Handle,
    *args: Any,
    expected_args: tuple[Any, ...] | None = None,
    names: tuple[str, ...] = (),
    **kwargs: Any,
) -> None:
    """Require the gradients of the reference, for every argument and parameter that has one.

    `expected_args` stands in for `args` on the expected side, where handles are passed.
    """
    wanted = gradients(expected, *(expected_args or args), **kwargs)
    found = gradients(submitted, *args, **kwargs)
    drawn = submitted.submission._names
    for name, gradient in wanted.items():
        label = names[int(name)] if name.isdigit() and int(name) < len(names) else name
        what = f"the gradient for {label}"
        if gradient is None:
            continue
        got = found.get(name)
        if got is None:
            if gradient.any():
                raise NoGradient(f"{what} does not arrive: somewhere the result is cut off from it")
            continue
        axes = drawn.get(id(args[int(name)]), ()) if name.isdigit() else ()
        exact = got.dtype == torch.float64
        agree(
            got,
            gradient,
            what,
            " ".join(axes),
            rel=1e-5 if exact else 2e-3,
            abs=1e-7 if exact else 2e-4,
        )


def leaves_inputs_alone(
    function: RemoteFunction | Handle, *args: Any, names: tuple[str, ...] = (), **kwargs: Any
) -> None:
    """Require that no argument is changed in place."""
    changed = _observe(function, *args, **kwargs).changed
    if changed:
        key = changed[0].partition("[")[0]
        label = names[int(key)] if key.isdigit() and int(key) < len(names) else changed[0]
        raise ChangedInput(f"the argument {label} was changed in place: work on a copy")


def keeps_dtype(result: Any, dtype: torch.dtype, what: str = "the result") -> None:
    """Require a dtype."""
    if not isinstance(result, Tensor):
        raise WrongType(f"{what} should be a tensor; it is {describe(result)}")
    if result.dtype != dtype:
        raise WrongType(f"{what} should keep the dtype {dtype} of its inputs, it is {result.dtype}")


def refuses(function: RemoteFunction, *args: Any, error: str = "ValueError", **kwargs: Any) -> None:
    """Require an error for bad input."""
    try:
        value = function(*args, **kwargs)
    except Raised as raised:
        if raised.kind == error:
            return
        raise Failure(f"bad input should raise a {error}, it raised {raised}") from None
    raise Failure(f"bad input should raise a {error}, it returned {describe(value)}")
