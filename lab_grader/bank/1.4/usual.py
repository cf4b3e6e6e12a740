"""Exercise 1.4, the usual way."""

import torch
from torch import nn

from lab_transformer.rnn import rnn_cell as reference_cell


def rnn_forward(xs, h0, w_x, w_h, b):
    h = h0
    before = [h]
    collected = []
    along = -2
    words = list(xs.unbind(dim=along))
    for t, x in enumerate(words):
        start = h
        new = reference_cell(x, start, w_x, w_h, b)
        h = new
        before.append(new)
        collected.append(new)
    last = before[-1]
    axis = -2
    stacked = torch.stack(collected, dim=axis)
    return stacked, last
