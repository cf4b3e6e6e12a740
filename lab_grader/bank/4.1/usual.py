"""Exercise 4.1, the usual way."""

import math

import torch

from lab_transformer import positional as reference
from lab_transformer._checks import check_even


def frequency_of(column, width):
    """Give the frequency of each column (2i for the pair i)."""
    exponent = column / width
    base = 10000.0
    return base ** (-exponent)


def angle_of(position, frequency):
    angle = position * frequency
    return angle


def columns(width):
    return torch.arange(0, width, 2, dtype=torch.float64)


def check_width(width):
    check_even(width)


def sinusoidal_positions(length, d_model):
    check_width(d_model)
    position = torch.arange(length, dtype=torch.float64)
    column = columns(d_model)
    for_cosine = column
    a = angle_of(position[:, None], frequency_of(column, d_model))
    b = angle_of(position[:, None], frequency_of(for_cosine, d_model))
    table = arrange(position, a, b)[:, :d_model]
    table = table.to(torch.get_default_dtype())
    return table


def arrange(position, a, b):
    one, other = a.sin(), b.cos()
    return torch.stack([one, other], dim=-1).flatten(-2)
