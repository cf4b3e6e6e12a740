"""Exercise 1.5, other right ways."""

from __future__ import annotations

from typing import Any

import torch


def gradient_of_all_units_at_once(states: Any, inputs: Any) -> Any:
    last = states[..., -1, :]
    width = last.shape[-1]
    pick = torch.eye(width, dtype=last.dtype).reshape(width, *(1,) * (last.ndim - 1), width)
    (jacobian,) = torch.autograd.grad(
        last, inputs, grad_outputs=pick.expand(width, *last.shape), is_grads_batched=True
    )
    return torch.linalg.vector_norm(jacobian, dim=(0, -1))


def gradient_by_backward(states: Any, inputs: Any) -> Any:
    last = states[..., -1, :].reshape(-1, states.shape[-1]).sum(dim=0)
    rows = []
    for unit in last:
        inputs.grad = None
        unit.backward(retain_graph=True)
        rows.append(inputs.grad)
    inputs.grad = None
    return torch.cat(rows, dim=-1).norm(dim=-1)


def gradient_that_uses_the_graph_up(states: Any, inputs: Any) -> Any:
    squares, before = 0.0, 0.0
    *others, last = states[..., -1, :].unbind(dim=-1)
    for unit in others:
        unit.sum().backward(retain_graph=True)
        squares = squares + (inputs.grad - before).square().sum(dim=-1)
        before = inputs.grad.clone()
    last.sum().backward()
    return (squares + (inputs.grad - before).square().sum(dim=-1)).sqrt()


def gradient_with_the_graph_kept(states: Any, inputs: Any) -> Any:
    rows = [
        torch.autograd.grad(states[..., -1, unit].sum(), inputs, create_graph=True)[0]
        for unit in range(states.shape[-1])
    ]
    return torch.stack(rows, dim=-1).pow(2).sum(dim=(-2, -1)) ** 0.5


def gradient_sentence_by_sentence_in_double(states: Any, inputs: Any) -> Any:
    total = torch.zeros(inputs.shape[:-1], dtype=torch.float64)
    for entry in states[..., -1, :].flatten():
        (row,) = torch.autograd.grad(entry, inputs, retain_graph=True)
        total += row.double().norm(dim=-1) ** 2
    return total.sqrt().to(inputs.dtype)
