"""How wrong numbers relate to the right ones, for mistakes that nobody has a name for yet."""

from __future__ import annotations

from torch import Tensor


def relation(actual: Tensor, wanted: Tensor, axes: str = "") -> str | None:
    """Say what would turn the right numbers into the actual ones, where that is simple."""
    if actual.numel() < 4 or not (actual.isfinite().all() and wanted.isfinite().all()):
        return None
    names = axes.split()
    if len(names) != actual.ndim:
        names = [f"axis {i}" for i in range(actual.ndim)]
    return _constant(actual, wanted) or _arithmetic(actual, wanted) or _order(actual, wanted, names)


def _alike(a: Tensor, b: Tensor) -> bool:
    scale = max(float(a.abs().max()), float(b.abs().max()), 1e-12)
    return bool(((a - b).abs() <= 2e-4 * scale).all())


def _constant(actual: Tensor, wanted: Tensor) -> str | None:
    first = actual.flatten()[0].expand_as(actual)
    if _alike(wanted, wanted.flatten()[0].expand_as(wanted)) or not _alike(actual, first):
        return None
    value = float(actual.flatten()[0])
    return "it is zero everywhere" if value == 0 else f"it is {value:.4g} everywhere"


def _arithmetic(actual: Tensor, wanted: Tensor) -> str | None:
    square = float((wanted * wanted).sum())
    if square == 0:
        return None
    if _alike(actual, wanted):
        return "all numbers are nearly right, as when a step is done in a smaller dtype or adds an eps"
    if _alike(actual, -wanted):
        return "every sign is reversed"
    factor = float((actual * wanted).sum()) / square
    if factor != 0 and _alike(actual / factor, wanted):
        return f"every number is {factor:.4g} times what it should be"
    gap = float((actual - wanted).mean())
    if _alike(actual - gap, wanted):
        return f"every number is {abs(gap):.4g} too {'large' if gap > 0 else 'small'}"
    return None


def _order(actual: Tensor, wanted: Tensor, names: list[str]) -> str | None:
    if actual.ndim >= 2 and actual.shape[-1] == actual.shape[-2] and _alike(actual, wanted.mT):
        return "rows and columns are exchanged"
    for axis, name in enumerate(names):
        size = actual.shape[axis]
        if size < 2:
            continue
        if _alike(actual, wanted.flip(axis)):
            return f"the order along {name} is reversed"
        for late in (True, False):
            inner = wanted if late else actual
            outer = actual if late else wanted
            if size > 2 and _alike(outer.narrow(axis, 1, size - 1), inner.narrow(axis, 0, size - 1)):
                return f"along {name}, everything stands one place too {'late' if late else 'early'}"
    return _sums(actual, wanted, names)


def _sums(actual: Tensor, wanted: Tensor, names: list[str]) -> str | None:
    """Weights that sum to one, over the wrong axis or over none."""
    for axis, name in enumerate(names):
        sums = wanted.sum(dim=axis)
        if (wanted < 0).any() or not _alike(sums, sums.new_ones(()).expand_as(sums)):
            continue
        for other, wrong in enumerate(names):
            sums = actual.sum(dim=other)
            if other != axis and _alike(sums, sums.new_ones(()).expand_as(sums)):
                return f"the numbers sum to one over {wrong}, not over {name}"
        sums = actual.sum(dim=axis)
        if not _alike(sums, sums.new_ones(()).expand_as(sums)):
            return f"the numbers do not sum to one over {name}"
    return None
