"""Exercise 9.4, the usual way."""

import torch


def adamw_step(parameter, gradient, state, rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
    beta_1, beta_2 = betas
    zeros = torch.zeros_like(parameter)
    before, mean, square = state if state is not None else (0, zeros, zeros)
    step = before + 1
    slope = gradient
    mean = beta_1 * mean + (1 - beta_1) * slope
    square = beta_2 * square + (1 - beta_2) * slope**2
    direction = mean / (1 - beta_1**step)
    unbiased = square / (1 - beta_2**step)
    size = unbiased.sqrt() + eps
    shrunk = parameter * (1 - rate * weight_decay)
    moved = shrunk - rate * direction / size
    state = (step, mean, square)
    return moved, state
