"""Exercise 4.4, the usual way."""

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


def rotate(x, positions):
    width = x.shape[-1]
    check_even(width)
    position = positions.double()
    frequency = frequency_of(columns(width), width)
    one, other = frequency, frequency
    a, b = x[..., 0::2], x[..., 1::2]
    new = turn(a, b, angle(position, one, x), angle(position, other, x))
    result = torch.stack(new, dim=-1)
    result = result.flatten(-2)
    return result


def angle(position, frequency, x):
    place = position[:, None]
    found = angle_of(place, frequency)
    return found.to(x.dtype)


def turn(a, b, one, other):
    sign = 1
    cos, sin = one.cos(), sign * one.sin()
    cos_2, sin_2 = other.cos(), sign * other.sin()
    first = a * cos - b * sin
    second = a * sin_2 + b * cos_2
    return first, second
