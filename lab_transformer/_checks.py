"""What every block says before any arithmetic when its inputs do not fit."""

from __future__ import annotations

import torch
from torch import Tensor


def check_shapes(**arrays: tuple[Tensor, str]) -> None:
    """Raise a ValueError, in the words of the axes, where sizes of one name differ.

    Each array comes with its axes, as in ``q=(q, "... query d_head")``; ``...`` stands for any number
    of leading axes.
    """
    if torch.compiler.is_compiling():
        return
    seen: dict[str, tuple[str, int]] = {}
    for name, (array, axes) in arrays.items():
        names = axes.split()
        open_ended = names[0] == "..."
        names = names[1:] if open_ended else names
        if array.ndim < len(names) or (array.ndim > len(names) and not open_ended):
            raise ValueError(
                f"{name} needs the axes ({', '.join(axes.split())}), "
                f"but it has {array.ndim}: its shape is {tuple(array.shape)}"
            )
        for axis, size in zip(names, array.shape[array.ndim - len(names) :], strict=True):
            first, expected = seen.setdefault(axis, (name, size))
            if size != expected:
                raise ValueError(
                    f"{axis} is {expected} in {first} {tuple(arrays[first][0].shape)} "
                    f"but {size} in {name} {tuple(array.shape)}"
                )


def check_mask(mask: Tensor | None, scores: torch.Size) -> None:
    """Raise an error unless the mask is boolean and broadcasts to the scores (..., query, key)."""
    if mask is None or torch.compiler.is_compiling():
        return
    if mask.dtype != torch.bool:
        raise TypeError(
            f"a mask is boolean, True where a query may attend, but this one is {mask.dtype}"
        )
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
