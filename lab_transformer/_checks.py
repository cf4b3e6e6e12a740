"""What every block says before any arithmetic when its inputs do not fit."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


def check_shapes(**arrays: tuple[Tensor, str]) -> None:
    """Raise a ValueError, in the words of the axes, where sizes of one name differ.

    Each array comes with its axes, as in ``q=(q, "... query d_head")``; ``...`` stands for any number
    of leading axes, which must broadcast with each other.
    """
    if not torch.compiler.is_compiling():
        _check_sizes(tuple([(name, axes, array.shape) for name, (array, axes) in arrays.items()]))


# A model asks the same again and again: what fitted once is not looked at twice.
@lru_cache(maxsize=4096)
def _check_sizes(arrays: tuple[tuple[str, str, tuple[int, ...]], ...]) -> None:
    sizes: dict[str, tuple[int, str]] = {}
    leading: dict[tuple[int, ...], str] = {}
    for name, axes, shape in arrays:
        names = axes.split()
        named = [axis for axis in names if axis != "..."]
        extra = len(shape) - len(named)
        if extra < 0 or (extra > 0 and named == names):
            raise ValueError(
                f"{name} needs the axes ({', '.join(names)}), "
                f"but it has {len(shape)}: its shape is {tuple(shape)}"
            )
        described = f"{name} {tuple(shape)}"
        for axis, size in zip(named, shape[extra:], strict=True):
            expected, first = sizes.setdefault(axis, (size, described))
            if size != expected:
                raise ValueError(f"{axis} is {expected} in {first} but {size} in {described}")
        for other, first in leading.items():
            if not _broadcasts(shape[:extra], other):
                raise ValueError(f"the leading axes of {first} and {described} do not fit each other")
        leading[tuple(shape[:extra])] = described


def _broadcasts(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Tell whether two shapes broadcast with each other."""
    pairs = zip(reversed(shape), reversed(other), strict=False)
    return all(size == wanted or 1 in (size, wanted) for size, wanted in pairs)


def check_boolean(mask: Tensor | None) -> None:
    """Raise a TypeError unless the mask is boolean."""
    if mask is not None and mask.dtype != torch.bool:
        raise TypeError(
            f"a mask is boolean, True where something may be seen, but this one is {mask.dtype}: "
            "compare, as in tokens != pad_id, or convert with .bool()"
        )


def check_mask(mask: Tensor | None, scores: torch.Size) -> None:
    """Raise an error unless the mask is boolean and broadcasts to the scores (..., query, key)."""
    if mask is None or torch.compiler.is_compiling():
        return
    check_boolean(mask)
    aligned = zip(reversed(mask.shape), reversed(scores), strict=False)
    if mask.ndim > len(scores) or any(size not in (1, wanted) for size, wanted in aligned):
        raise ValueError(
            f"the mask {tuple(mask.shape)} does not broadcast to the scores "
            f"(..., query, key) = {tuple(scores)}"
        )


def check_heads(d_model: int, n_heads: int) -> None:
    """Raise a ValueError unless d_model splits evenly into n_heads."""
    if n_heads < 1 or d_model % n_heads:
        raise ValueError(f"d_model = {d_model} does not split into {n_heads} equal heads")


def check_even(width: int, name: str = "d_model") -> None:
    """Raise a ValueError unless sine and cosine columns pair up."""
    if width < 2 or width % 2:
        raise ValueError(
            f"{name} must be even, because every sine has its cosine beside it; it is {width}"
        )
