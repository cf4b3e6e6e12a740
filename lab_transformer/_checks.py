"""What every block says before any arithmetic when its inputs do not fit."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import torch
from torch import Tensor


@cache
def _split_axes(axes: str) -> tuple[tuple[str, ...], bool]:
    """Give the names of the axes, and whether any number of axes may stand before them."""
    first, *others = axes.split()
    return (tuple(others), True) if first == "..." else ((first, *others), False)


def check_shapes(**arrays: tuple[Tensor, str]) -> None:
    """Raise a ValueError, in the words of the axes, where sizes of one name differ.

    Each array comes with its axes, as in ``q=(q, "... query d_head")``; ``...`` stands for any number
    of leading axes, which must broadcast with each other.
    """
    if torch.compiler.is_compiling():
        return
    sizes: dict[str, int] = {}
    leading: dict[tuple[int, ...], str] = {}
    for name, (array, axes) in arrays.items():
        names, open_ended = _split_axes(axes)
        shape = tuple(array.shape)
        extra = len(shape) - len(names)
        if extra < 0 or (extra > 0 and not open_ended):
            raise ValueError(
                f"{name} needs the axes ({', '.join(axes.split())}), "
                f"but it has {len(shape)}: its shape is {shape}"
            )
        for axis, size in zip(names, shape[extra:], strict=True):
            if sizes.setdefault(axis, size) != size:
                first = next(other for other in arrays if axis in arrays[other][1].split())
                raise ValueError(
                    f"{axis} is {sizes[axis]} in {first} {tuple(arrays[first][0].shape)} "
                    f"but {size} in {name} {shape}"
                )
        if extra:
            leading.setdefault(shape[:extra], name)
    for (shape, name), (other_shape, other) in combinations(leading.items(), 2):
        if not _broadcasts(shape, other_shape):
            raise ValueError(
                f"the leading axes of {name} and {other} do not fit each other: "
                f"{tuple(arrays[name][0].shape)} and {tuple(arrays[other][0].shape)}"
            )


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
