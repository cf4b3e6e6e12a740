"""Exercise 10.6, the usual way."""

import random

import torch


def drawn(count, batch, source, device):
    """Draw a start for each row."""
    return torch.randint(count, (batch,), generator=source, device=device)


def next_token_batch(tokens, batch, context, generator):
    source = generator
    device = generator.device
    text = tokens
    count = len(text) - context
    starts = drawn(count, batch, source, device).tolist()
    inputs = [text[start : start + context] for start in starts]
    targets = [text[start + 1 : start + 1 + context] for start in starts]
    return torch.stack(inputs), torch.stack(targets)
