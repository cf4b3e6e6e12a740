"""Exercise 10.10, the usual way."""

import math

import torch


def counted(text, vocab_size):
    """Count how often each token follows each."""
    counts = torch.zeros(vocab_size, vocab_size)
    first, second = text[:-1].tolist(), text[1:].tolist()
    for a, b in zip(first, second, strict=True):
        counts[a, b] += 1
    return counts


def bigram_model(tokens, vocab_size, smoothing):
    text = tokens
    counts = counted(text, vocab_size)
    smoothed = counts + smoothing
    totals = smoothed.sum(dim=-1, keepdim=True)
    shares = smoothed / totals
    shares = shares.where(totals > 0, 1 / vocab_size)
    return shares
