"""Exercise 12.3, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch


def alibi_recursively(n_heads: int, query: int, key: int) -> Any:
    def slopes(n: int) -> list[float]:
        if math.log2(n).is_integer():
            start = 2 ** (-(2 ** -(math.log2(n) - 3)))
            return [start * start**i for i in range(n)]
        closest = 2 ** math.floor(math.log2(n))
        return slopes(closest) + slopes(2 * closest)[0::2][: n - closest]

    distance = torch.arange(key - query, key).unsqueeze(1) - torch.arange(key).unsqueeze(0)
    return -distance.abs() * torch.tensor(slopes(n_heads)).view(-1, 1, 1)


def alibi_with_powers_of_tensors(n_heads: int, query: int, key: int) -> Any:
    power = 1
    while power * 2 <= n_heads:
        power *= 2
    slopes = torch.pow(2.0, -8.0 * torch.arange(1, power + 1) / power)
    if power < n_heads:
        odd = torch.arange(1, 2 * (n_heads - power), 2)
        slopes = torch.cat([slopes, 2.0 ** (-4.0 * odd / power)])
    places = torch.arange(key)
    return torch.einsum("h,qk->hqk", slopes, -(places[None] - places[-query:, None]).abs().float())


def alibi_by_loops(n_heads: int, query: int, key: int) -> Any:
    power = 2 ** int(math.log2(n_heads))
    bias = torch.zeros(n_heads, query, key)
    for head in range(n_heads):
        exponent = 8 * (head + 1) / power if head < power else 4 * (2 * (head - power) + 1) / power
        for row in range(query):
            for column in range(key):
                bias[head, row, column] = -(0.5**exponent) * abs(key - query + row - column)
    return bias


def alibi_cut_from_a_square(n_heads: int, query: int, key: int) -> Any:
    power = 2 ** (n_heads.bit_length() - 1)
    exponents = [8 * i / power for i in range(1, power + 1)]
    exponents += [8 * i / (2 * power) for i in range(1, 2 * power, 2)]
    slopes = torch.tensor([2.0**-exponent for exponent in exponents[:n_heads]])
    square = -torch.cdist(torch.arange(key)[:, None].float(), torch.arange(key)[:, None].float(), p=1)
    return (slopes[:, None, None] * square)[:, -query:]
