"""Exercise 7.5. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

from typing import Any

from lab_grader.bank.engine import Wrong

wrong = Wrong()


def _first_axis_only(rest: Any) -> Any:
    """Average over the first leading axis, and deal otherwise with those that are left."""

    def block(weights: Any) -> Any:
        mean = weights.mean(dim=0) if weights.ndim > 2 else weights
        matrices = rest(mean.reshape(-1, *mean.shape[-2:]))
        return {(s, t) for matrix in matrices for t, s in enumerate(matrix.argmax(dim=-1).tolist())}

    return block


for _name, _told, _rest in (
    ("first-of-the-other-axes", "take the first entry of any other", lambda stacked: stacked[:1]),
    ("last-of-the-other-axes", "take the last entry of any other", lambda stacked: stacked[-1:]),
    ("links-of-the-other-axes", "collect the links of every entry of any other", list),
    (
        "largest-over-the-other-axes",
        "take the largest weights over any other",
        lambda stacked: stacked.amax(dim=0, keepdim=True),
    ),
):
    wrong(
        _name,
        f"You average over the first leading axis only, and {_told}. All axes before query and key "
        "(heads, layers) are averaged in the same way.",
    )(_first_axis_only(_rest))
