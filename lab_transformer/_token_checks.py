"""What blocks of language models say before any arithmetic when counts or tokens cannot be."""

import torch
from torch import Tensor


def check_counts(**counts: int) -> None:
    """Raise a ValueError where there is less than one of something."""
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} is at least 1, not {count}")


def check_tokens(tokens: Tensor, vocab_size: int) -> None:
    """Raise an error unless all tokens are whole numbers from 0 to vocab_size - 1."""
    if torch.compiler.is_compiling() or tokens.numel() == 0:
        return
    if tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise TypeError(f"tokens are whole numbers, but these are {tokens.dtype}")
    low, high = (int(end) for end in torch.aminmax(tokens))
    if low < 0 or high >= vocab_size:
        wrong = low if low < 0 else high
        last = vocab_size - 1
        raise ValueError(f"there is no token {wrong}: a vocabulary of {vocab_size} ends at {last}")
