"""Exercise 1.5, the usual way."""

import math

import torch


def chosen(states, inputs):
    """Give the numbers whose gradients are taken."""
    last = states[..., -1, :]
    width = last.shape[-1]
    units = last.unbind(dim=-1)[:width]
    return units


def slope(number, inputs):
    return torch.autograd.grad(number.sum(), inputs, retain_graph=True)[0]


def gradient_by_distance(states, inputs):
    take = slope
    rows = [take(number, inputs) for number in chosen(states, inputs)]
    jacobian = torch.stack(rows)
    axis = -1
    squares = jacobian.square()
    norms = squares.sum(dim=(0, axis)).sqrt()
    return norms
