"""Exercise 6.5. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from lab_grader.bank.engine import Wrong

wrong = Wrong()


def _divergence(left_out: int, mean: str) -> Any:
    """Smooth over all but the target, or over all but target and padding, and take the divergence."""

    def block(logits: Any, targets: Any, pad_id: int, smoothing: float = 0.0) -> Any:
        vocab, real = logits.shape[-1], targets != pad_id
        shares = torch.full_like(logits, smoothing / (vocab - left_out))
        shares.scatter_(-1, targets.where(real, 0).unsqueeze(-1), 1 - smoothing)
        if left_out == 2 and 0 <= pad_id < vocab:
            shares[..., pad_id] = 0.0
        shares = shares * real.unsqueeze(-1)
        total = F.kl_div(logits.log_softmax(dim=-1), shares, reduction="sum")
        counts = {"words": real.sum().clamp(min=1), "places": targets.numel(), "nothing": 1}
        return total / counts[mean]

    return block


_NO_DIVERGENCE = (
    " Asked for is the cross-entropy, with the smoothing spread over the whole vocabulary, target and "
    "padding included"
)


for _name, _told, _block in (
    (
        "divergence-over-all-but-padding",
        "You compute the divergence from a target that spreads the smoothing over all but target and "
        f"padding.{_NO_DIVERGENCE}.",
        _divergence(2, "words"),
    ),
    (
        "divergence-over-the-others",
        "You compute the divergence from a target that spreads the smoothing over all words but the "
        f"target.{_NO_DIVERGENCE}.",
        _divergence(1, "words"),
    ),
    (
        "divergence-summed",
        "You sum up the divergence from a target that spreads the smoothing over all but target and "
        f"padding.{_NO_DIVERGENCE}, and the mean over all words.",
        _divergence(2, "nothing"),
    ),
    (
        "divergence-averaged-over-padding",
        "You compute the divergence from a target that spreads the smoothing over all but target and "
        f"padding, and divide by all places.{_NO_DIVERGENCE}, and the mean over words only.",
        _divergence(2, "places"),
    ),
):
    wrong(_name, _told)(_block)
