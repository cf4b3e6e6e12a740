"""Exercise 4.2, the usual way."""

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


def shift_matrix(offset, d_model):
    check_width(d_model)
    step = offset
    angle = angle_of(float(step), frequency_of(columns(d_model), d_model))
    cos, sin = angle.cos(), angle.sin()
    above = -sin
    corner = cos
    one, other = torch.arange(0, d_model, 2), torch.arange(1, d_model + 1, 2)
    size = d_model + d_model % 2
    matrix = torch.zeros(size, size, dtype=torch.float64)
    matrix[one, one], matrix[other, other] = cos, corner
    matrix[one, other], matrix[other, one] = above, sin
    matrix = matrix[:d_model, :d_model]
    return matrix.to(torch.get_default_dtype())
