"""What crosses the boundary between judge and worker, beyond plain values.

Handles, callables, random generators and tensors with a history are described by dictionaries with the
key ``__lab__``; everything else is the codec's matter.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from lab_check.calling.codec import Bounds

TAG = "__lab__"
FRAME = 64 * 2**20  # the longest message of a judge: a package
# What a worker may say in one message: several times what any known solution says.
ANSWER = 8 * 2**20
BOUNDS = Bounds(header=2**19, items=20_000, keys=2_000, depth=12, axis=2**20, elements=2**20)
ID = 16  # every message starts with the id of the question that it belongs to


class Stream(Protocol):
    """A way to the other side."""

    def send(self, data: bytes) -> None:
        """Send all of it."""
        ...

    def receive(self, count: int) -> bytes:
        """Wait for exactly so many bytes."""
        ...


def send_frame(stream: Stream, data: bytes) -> None:
    """Send one message."""
    stream.send(struct.pack("<Q", len(data)) + data)


def receive_frame(stream: Stream, longest: int = FRAME) -> bytes:
    """Wait for one message; one that claims to be too long is an error before it is read."""
    (length,) = struct.unpack("<Q", stream.receive(8))
    if length > longest:
        raise ValueError(f"a message of {length} bytes is too long")
    return stream.receive(length)


def describe(value: Any, special: Callable[[Any], Any]) -> Any:
    """Replace what the codec does not speak by its description; `special` gives it, or None."""
    described = special(value)
    if described is not None:
        return described
    if isinstance(value, list | tuple):
        return type(value)(describe(item, special) for item in value)
    if isinstance(value, dict):
        return {key: describe(item, special) for key, item in value.items()}
    return value


def restore(value: Any, special: Callable[[dict[str, Any]], Any]) -> Any:
    """Undo `describe`: `special` makes an object of each description."""
    if isinstance(value, dict):
        if TAG in value:
            return special(value)
        return {key: restore(item, special) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(restore(item, special) for item in value)
    return value


def jacobian(result: Tensor, leaf: Tensor) -> Tensor:
    """Give d result / d leaf as a matrix, so that a history can be rebuilt on the other side."""
    rows = torch.eye(result.numel(), dtype=result.dtype).reshape(-1, *result.shape)
    (found,) = torch.autograd.grad(
        result, leaf, rows, is_grads_batched=True, retain_graph=True, allow_unused=True
    )
    if found is None:
        return torch.zeros(result.numel(), leaf.numel(), dtype=result.dtype)
    return found.reshape(result.numel(), leaf.numel())


def relink(value: Tensor, leaves: list[Tensor], jacobians: list[Tensor]) -> Tensor:
    """Rebuild a tensor with a history: its value, and its first derivatives by the leaves."""
    linked = value
    for leaf, matrix in zip(leaves, jacobians, strict=True):
        linked = linked + (matrix @ (leaf - leaf.detach()).flatten()).reshape(value.shape)
    return linked
