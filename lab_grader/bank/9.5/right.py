"""Exercise 9.5, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from lab_transformer.loss import sequence_loss, shift_right
from lab_transformer.rnn import clip_gradients


def with_torchs_clipping(
    model: Any, optimizer: Any, source: Any, target: Any, bos_id: int, pad_id: int,
    max_norm: float = 1.0, smoothing: float = 0.0,
) -> Any:  # fmt: skip
    model.train()
    loss = sequence_loss(model(source, shift_right(target, bos_id)), target, pad_id, smoothing)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


def with_cross_entropy(
    model: Any, optimizer: Any, source: Any, target: Any, bos_id: int, pad_id: int,
    max_norm: float = 1.0, smoothing: float = 0.0,
) -> Any:  # fmt: skip
    start = torch.full((target.shape[0], 1), bos_id, dtype=target.dtype)
    logits = model(source, torch.cat([start, target[:, :-1]], dim=1))
    loss = F.cross_entropy(
        logits.transpose(1, 2), target, ignore_index=pad_id, label_smoothing=smoothing
    )
    model.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.grad is not None], max_norm)
    optimizer.step()
    return float(loss.detach())


def with_autograd(
    model: Any, optimizer: Any, source: Any, target: Any, bos_id: int, pad_id: int,
    max_norm: float = 1.0, smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Ask for the gradients, and hand them to the optimizer clipped."""
    parameters = list(model.parameters())
    loss = sequence_loss(model(source, shift_right(target, bos_id)), target, pad_id, smoothing)
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    clipped = iter(clip_gradients([g for g in found if g is not None], max_norm))
    for parameter, gradient in zip(parameters, found, strict=True):
        parameter.grad = None if gradient is None else next(clipped)
    optimizer.step()
    return loss.item()


def clipped_by_hand(
    model: Any, optimizer: Any, source: Any, target: Any, bos_id: int, pad_id: int,
    max_norm: float = 1.0, smoothing: float = 0.0,
) -> Any:  # fmt: skip
    for parameter in model.parameters():
        parameter.grad = None
    given = torch.roll(target, 1, dims=1)
    given[:, 0] = bos_id
    loss = sequence_loss(model(source, given), target, pad_id, smoothing)
    loss.backward()
    squares = [p.grad.square().sum() for p in model.parameters() if p.grad is not None]
    norm = sum(squares) ** 0.5
    if norm > max_norm:
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad *= max_norm / norm
    optimizer.step()
    return loss.tolist()


def word_by_word(
    model: Any, optimizer: Any, source: Any, target: Any, bos_id: int, pad_id: int,
    max_norm: float = 1.0, smoothing: float = 0.0,
) -> Any:  # fmt: skip
    optimizer.zero_grad(set_to_none=False)
    logs = model(source, shift_right(target, bos_id)).log_softmax(dim=-1)
    losses = [
        -(1 - smoothing) * logs[i, t, word] - smoothing * logs[i, t].mean()
        for i, sentence in enumerate(target.tolist())
        for t, word in enumerate(sentence)
        if word != pad_id
    ]
    loss = torch.stack(losses).mean()
    loss.backward()
    with torch.no_grad():
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        for gradient in gradients:
            gradient.mul_((max_norm / norm).clamp(max=1.0))
    optimizer.step()
    return loss.item()


def emptied_afterwards(
    model: Any, optimizer: Any, source: Any, target: Any, bos_id: int, pad_id: int,
    max_norm: float = 1.0, smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Empty the gradients before and after, and return the number first found."""
    optimizer.zero_grad()
    logits = model(source, shift_right(target, bos_id))
    loss = sequence_loss(logits, target, pad_id, smoothing)
    value = loss.item()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return value
