"""Exercise 9.4, other right ways."""

from __future__ import annotations

import math
from typing import Any

import torch


def with_lerp(
    parameter: Any, gradient: Any, state: Any, rate: Any, betas: Any = (0.9, 0.999),
    eps: Any = 1e-8, weight_decay: Any = 0.01,
) -> Any:  # fmt: skip
    if state is None:
        state = 0, torch.zeros_like(parameter), torch.zeros_like(parameter)
    step = state[0] + 1
    mean = torch.lerp(state[1], gradient, 1 - betas[0])
    square = state[2].mul(betas[1]).addcmul(gradient, gradient, value=1 - betas[1])
    root = (square.sqrt() / math.sqrt(1 - betas[1] ** step)).add(eps)
    new = parameter.mul(1 - rate * weight_decay)
    return new.addcdiv(mean, root, value=-rate / (1 - betas[0] ** step)), (step, mean, square)


def with_decay_beside_the_step(
    parameter: Any, gradient: Any, state: Any, rate: Any, betas: Any = (0.9, 0.999),
    eps: Any = 1e-8, weight_decay: Any = 0.01,
) -> Any:  # fmt: skip
    (b1, b2), (step, m, v) = betas, state or (0, 0.0, 0.0)
    step += 1
    m = b1 * m + (1 - b1) * gradient
    v = b2 * v + (1 - b2) * gradient.square()
    update = (m / (1 - b1**step)) / (torch.sqrt(v / (1 - b2**step)) + eps)
    return parameter - rate * (update + weight_decay * parameter), [step, m, v]


def in_place_on_copies(
    parameter: Any, gradient: Any, state: Any, rate: Any, betas: Any = (0.9, 0.999),
    eps: Any = 1e-8, weight_decay: Any = 0.01,
) -> Any:  # fmt: skip
    if state is None:
        step, mean, square = 0, torch.zeros_like(gradient), torch.zeros_like(gradient)
    else:
        step, mean, square = state[0], state[1].clone(), state[2].clone()
    step += 1
    mean.mul_(betas[0]).add_(gradient, alpha=1 - betas[0])
    square.mul_(betas[1]).add_(gradient**2, alpha=1 - betas[1])
    correction = 1 - betas[0] ** step, 1 - betas[1] ** step
    new = parameter.clone()
    new -= rate * weight_decay * new
    new -= rate * (mean / correction[0]) / ((square / correction[1]) ** 0.5 + eps)
    return new, (step, mean, square)


def number_by_number(
    parameter: Any, gradient: Any, state: Any, rate: Any, betas: Any = (0.9, 0.999),
    eps: Any = 1e-8, weight_decay: Any = 0.01,
) -> Any:  # fmt: skip
    step = 1 if state is None else state[0] + 1
    zeros = [0.0] * parameter.numel()
    means = zeros if state is None else state[1].flatten().tolist()
    squares = list(zeros) if state is None else state[2].flatten().tolist()
    new = []
    for i, (p, g) in enumerate(
        zip(parameter.flatten().tolist(), gradient.flatten().tolist(), strict=True)
    ):
        means[i] = betas[0] * means[i] + (1 - betas[0]) * g
        squares[i] = betas[1] * squares[i] + (1 - betas[1]) * g * g
        m, v = means[i] / (1 - betas[0] ** step), squares[i] / (1 - betas[1] ** step)
        new.append(p - rate * weight_decay * p - rate * m / (math.sqrt(v) + eps))

    def shaped(numbers: list[float]) -> Any:
        return torch.tensor(numbers, dtype=parameter.dtype).reshape(parameter.shape)

    return shaped(new), (step, shaped(means), shaped(squares))


def with_the_change_of_the_mean(
    parameter: Any, gradient: Any, state: Any, rate: Any, betas: Any = (0.9, 0.999),
    eps: Any = 1e-8, weight_decay: Any = 0.01,
) -> Any:  # fmt: skip
    step, mean, square = (0, gradient * 0, gradient * 0) if state is None else state
    mean = mean + (1 - betas[0]) * (gradient - mean)
    square = square + (1 - betas[1]) * (gradient * gradient - square)
    bias_1, bias_2 = (1 - beta ** (step + 1) for beta in betas)
    denominator = square.sqrt() / bias_2**0.5 + eps
    step_size = rate / bias_1
    return (1 - rate * weight_decay) * parameter - step_size * mean / denominator, (
        step + 1,
        mean,
        square,
    )
