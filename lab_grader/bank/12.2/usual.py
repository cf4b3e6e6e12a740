"""Exercise 12.2, the usual way."""

import torch
from torch.nn import functional as F


def activate(z):
    return F.silu(z)


def swiglu(x, w_gate, w_up, w_down):
    left = x @ w_gate
    right = x @ w_up
    gate = activate(left)
    hidden = gate * right
    result = hidden @ w_down
    return result
