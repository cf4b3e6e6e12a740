"""Exercise 1.3. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from lab_grader.bank.engine import Wrong

wrong = Wrong()


_OTHER_SQUASHES = {
    "gelu": F.gelu,
    "elu": F.elu,
    "leaky-relu": F.leaky_relu,
    "softplus": F.softplus,
    "softsign": F.softsign,
    "arctangent": torch.atan,
    "sine": torch.sin,
    "error-function": torch.erf,
}


def _cell_with(squash: Any) -> Any:
    return lambda x, h, w_x, w_h, b: squash(x @ w_x + h @ w_h + b)


for _name, _squash in _OTHER_SQUASHES.items():
    wrong(
        _name,
        "You use another function than tanh. The cell asks for tanh, which keeps the state between -1 "
        "and 1 and lets it be negative.",
    )(_cell_with(_squash))
