"""Exercise 5.3, the usual way."""

import torch
from torch.nn import functional as F


def join(x, path, given):
    """Bring the residual path and the sublayer's result together."""
    return path + given


def leave(result):
    return result


def post_norm(x, sublayer, norm):
    given = sublayer(x)
    summed = join(x, x, given)
    result = norm(summed)
    return leave(result)
