"""Exercise 1.1, the usual way."""

import torch
from torch.nn import functional as F


def one_hot(tokens, vocab_size):
    column = tokens.unsqueeze(-1)
    width = vocab_size
    ids = torch.arange(width)
    hot = column == ids
    rows = hot.to(torch.get_default_dtype())
    return rows
