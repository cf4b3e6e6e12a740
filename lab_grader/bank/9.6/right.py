"""Exercise 9.6, other right ways."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from lab_transformer.loss import sequence_loss, shift_right


@torch.no_grad()
def with_a_decorator(model: Any, batches: Any, bos_id: int, pad_id: int) -> Any:
    was_training = model.training
    model.eval()
    losses, counts = [], []
    for source, target in batches:
        logits = model(source, shift_right(target, bos_id))
        losses.append(sequence_loss(logits, target, pad_id).item())
        counts.append(int((target != pad_id).sum()))
    if was_training:
        model.train()
    return sum(a * b for a, b in zip(losses, counts, strict=True)) / sum(counts)


def with_summed_cross_entropy(model: Any, batches: Any, bos_id: int, pad_id: int) -> Any:
    training = model.training
    model.train(False)
    total, words = 0.0, 0
    with torch.inference_mode():
        for source, target in batches:
            logits = model(source, shift_right(target, bos_id)).flatten(0, 1)
            total += F.cross_entropy(
                logits, target.flatten(), ignore_index=pad_id, reduction="sum"
            ).item()
            words += target.ne(pad_id).sum().item()
    model.train(training)
    return total / words


def with_all_losses_in_one_list(model: Any, batches: Any, bos_id: int, pad_id: int) -> Any:
    mode = model.training
    try:
        model.eval()
        found = []
        with torch.no_grad():
            for source, target in batches:
                logs = model(source, shift_right(target, bos_id)).log_softmax(dim=-1)
                chosen = logs.gather(-1, target.unsqueeze(-1)).squeeze(-1)
                found.append(-chosen[target != pad_id])
    finally:
        model.train(mode)
    return torch.cat(found).mean().item()


def with_a_running_mean(model: Any, batches: Any, bos_id: int, pad_id: int) -> Any:
    training = model.training
    model.eval()
    mean, seen = 0.0, 0
    for source, target in batches:
        words = int((target != pad_id).sum())
        if not words:
            continue
        with torch.no_grad():
            loss = sequence_loss(model(source, shift_right(target, bos_id)), target, pad_id)
        seen += words
        mean += (float(loss) - mean) * words / seen
    model.train(training)
    return mean


def with_the_modes_of_all_parts(model: Any, batches: Any, bos_id: int, pad_id: int) -> Any:
    """Keep the mode of every part, should they differ."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    sums = torch.zeros(2, dtype=torch.float64)
    with torch.no_grad():
        for source, target in batches:
            real = (target != pad_id).double()
            given = torch.cat([torch.full_like(target[:, :1], bos_id), target[:, :-1]], dim=1)
            logits = model(source, given).transpose(1, 2)
            losses = F.cross_entropy(logits, target, reduction="none")
            sums += torch.stack([(losses * real).sum(), real.sum()])
    for part, mode in modes:
        part.training = mode
    return (sums[0] / sums[1]).item()


def one_sentence_at_a_time(model: Any, batches: Any, bos_id: int, pad_id: int) -> Any:
    training = model.training
    model.eval()
    total, words = 0.0, 0
    with torch.no_grad():
        for source, target in batches:
            logs = model(source, shift_right(target, bos_id)).log_softmax(dim=-1).tolist()
            for rows, sentence in zip(logs, target.tolist(), strict=True):
                for row, word in zip(rows, sentence, strict=True):
                    if word != pad_id:
                        total -= row[word]
                        words += 1
    model.train(training)
    return total / words
