"""Exercise 10.6, other right ways."""

from __future__ import annotations

from typing import Any

import torch

Batch = tuple[Any, Any]


def with_one_longer_piece(tokens: Any, batch: int, context: int, generator: Any) -> Batch:
    last = tokens.shape[0] - context - 1
    rows = []
    for _ in range(batch):
        start = int(torch.randint(0, last + 1, (), generator=generator, device=generator.device))
        rows.append(tokens[start : start + context + 1])
    pieces = torch.stack(rows)
    return pieces[:, :-1], pieces[:, 1:]


def with_windows(tokens: Any, batch: int, context: int, generator: Any) -> Batch:
    windows = tokens.unfold(0, context + 1, 1)
    chosen = torch.randint(
        len(windows), (batch,), generator=generator, device=generator.device, dtype=torch.int32
    )
    pieces = windows[chosen.to(tokens.device)]
    return pieces[..., :context].clone(), pieces[..., 1:].clone()


def with_shares_of_one(tokens: Any, batch: int, context: int, generator: Any) -> Batch:
    shares = torch.rand(batch, 1, generator=generator, device=generator.device, dtype=torch.float64)
    starts = (shares * (len(tokens) - context)).floor().long().to(tokens.device)
    places = starts + torch.arange(context, device=tokens.device)
    inputs = torch.take(tokens, places)
    return inputs, torch.take(tokens[1:], places)


def with_gather(tokens: Any, batch: int, context: int, generator: Any) -> Batch:
    weights = torch.ones(tokens.numel() - context, device=generator.device)
    starts = torch.multinomial(weights, batch, replacement=True, generator=generator)
    places = starts[:, None].to(tokens.device) + torch.arange(context + 1, device=tokens.device)
    pieces = tokens.expand(batch, -1).gather(1, places)
    return pieces.narrow(1, 0, context), pieces.narrow(1, 1, context)


def filled_in(tokens: Any, batch: int, context: int, generator: Any) -> Batch:
    inputs = tokens.new_zeros(batch, context)
    targets = torch.empty_like(inputs)
    for row in range(batch):
        start = torch.randint(tokens.size(0) - context, (1,), generator=generator).item()
        for place in range(context):
            inputs[row, place] = tokens[start + place]
            targets[row, place] = tokens[start + place + 1]
    return inputs, targets


def with_split_and_roll(tokens: Any, batch: int, context: int, generator: Any) -> Batch:
    following = tokens.roll(-1)
    starts = torch.randint(high=len(tokens) - context, size=(batch,), generator=generator)
    cut = [(tokens[s : s + context], following[s : s + context]) for s in starts]
    inputs, targets = zip(*cut, strict=True)
    return torch.stack(inputs), torch.stack(targets)
