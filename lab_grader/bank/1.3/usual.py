"""Exercise 1.3, the usual way."""

import math

import torch
from torch import nn
from torch.nn import functional as F


def rnn_cell(x, h, w_x, w_h, b):
    from_x, from_h = x @ w_x, h @ w_h
    total = from_x + from_h + b
    new = torch.tanh(total)
    return new
