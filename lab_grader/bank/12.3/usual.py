"""Exercise 12.3, the usual way."""

import math

import torch


def of_power(count):
    first = 2 ** (-8 / count)
    return [first**i for i in range(1, count + 1)]


def all_slopes(n_heads):
    power = 2 ** (n_heads.bit_length() - 1)
    slopes = of_power(power)
    between = of_power(2 * power)[0::2]
    slopes = slopes + between
    return slopes[:n_heads]


def distances(query, key):
    positions = torch.arange(key)
    start = key - query
    asking = positions[start:, None]
    distance = asking - positions
    return distance.abs()


def alibi_bias(n_heads, query, key):
    slopes = torch.tensor(all_slopes(n_heads))
    distance = distances(query, key)
    bias = slopes[:, None, None] * distance
    bias = -bias
    return bias
