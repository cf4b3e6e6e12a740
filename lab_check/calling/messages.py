"""What judge, fork server and worker say to each other: every kind of message, in one place.

A message is a value of one of the classes below. It crosses as its kind and its fields, in the codec's
bytes, and is checked field by field before it becomes a value again: whoever reads says which kinds may
come now, and all else is a CodecError.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from lab_check.calling import codec
from lab_check.calling.codec import Bounds, CodecError, Described

FRAME = 64 * 2**20  # the longest message of a judge: a package
# What a worker may say in one message: several times what any known solution says.
ANSWER = 8 * 2**20
BOUNDS = Bounds(header=2**19, items=20_000, keys=500, depth=12, axis=2**20, elements=2**20)
ID = 16  # every message of a conversation starts with the id of the question that it belongs to
_QUOTED = 40


@dataclass(frozen=True)
class Ready:
    """Fork server or worker: all is imported."""


@dataclass(frozen=True)
class Start:
    """Judge to fork server: start a worker, on the sockets that follow."""

    worker: int
    memory: int
    sockets: int


@dataclass(frozen=True)
class Started:
    """Fork server to judge: the worker is there, or what went wrong."""

    error: str | None


@dataclass(frozen=True)
class End:
    """Judge to fork server: end a worker, which may have a moment to end by itself."""

    worker: int
    wait: bool


@dataclass(frozen=True)
class Ended:
    """Fork server to judge: how a worker ended by itself, if it did."""

    code: int | None


@dataclass(frozen=True)
class Files:
    """Judge to worker, first of all: the learner's package, each file as its bytes."""

    files: dict[str, Tensor]


@dataclass(frozen=True)
class Key:
    """Judge to a worker that is to be a notebook's kernel: what signs its messages."""

    key: str


@dataclass(frozen=True)
class Call:
    """Judge to worker: call something of the learner's.

    Where there is a seed, what earlier tests made is forgotten, and randomness starts there.
    """

    seed: int | None
    module: str
    name: str
    handle: int | None
    leaves: list[Tensor]
    args: list[Any]
    kwargs: dict[str, Any]
    gradients: bool


@dataclass(frozen=True)
class Answer:
    """Worker to judge: what a call returned, and what its arguments are after it."""

    value: Any
    gradients: dict[str, Tensor | None]
    after: dict[str, Tensor | set[Any]]
    printed: str


@dataclass(frozen=True)
class Failed:
    """Worker to judge: a call that ended in a failure."""

    failure: str
    said: str
    kind: str
    printed: str


@dataclass(frozen=True)
class Callback:
    """Worker to judge, while a call lasts: call a function of the judge's.

    `keep` are the places of the arguments by which gradients will be asked for.
    """

    function: int
    args: list[Any]
    keep: list[int]


@dataclass(frozen=True)
class Backward:
    """Worker to judge: pass gradients back through a call that was kept."""

    call: int
    args: list[Any]


@dataclass(frozen=True)
class Returned:
    """Judge to worker: what a callback gave, and the number under which it is kept."""

    value: Any
    call: int | None = None


@dataclass(frozen=True)
class CallbackFailed:
    """Judge to worker: a callback that ended in an error."""

    reason: str


# Parts of messages: what stands in the place of a value that cannot cross.


@dataclass(frozen=True)
class KeptModule:
    """A module that the worker made before."""

    number: int


@dataclass(frozen=True)
class Function:
    """A function of the judge's."""

    number: int


@dataclass(frozen=True)
class Generator:
    """A random generator, by its state."""

    state: Tensor


@dataclass(frozen=True)
class Leaf:
    """A tensor by which the test takes gradients."""

    number: int


@dataclass(frozen=True)
class Linked:
    """A tensor that was computed from leaves: its value, and its first derivatives by them."""

    tensor: Tensor
    jacobians: list[Tensor]


Part = KeptModule | Function | Generator | Leaf | Linked
_PARTS: dict[str, type[Part]] = {kind.__name__: kind for kind in typing.get_args(Part)}

ToForkServer = Start | End
ToWorker = Files | Key | Call | Returned | CallbackFailed
FromWorker = Answer | Failed | Callback | Backward
Message = ToForkServer | ToWorker | FromWorker | Ready | Started | Ended
M = TypeVar("M")


def pack(message: Message) -> bytes:
    """Turn a message into bytes."""
    return codec.pack(_described(message))


def unpack(data: bytes, kinds: type[M] | types.UnionType, bounds: Bounds = codec.OWN) -> M:
    """Read a message of one kind, or of one of some kinds; anything else is a CodecError."""
    said = codec.unpack(data, bounds)
    if not isinstance(said, Described):
        raise CodecError("a message is expected")
    allowed: dict[str, type[M]] = {kind.__name__: kind for kind in typing.get_args(kinds) or (kinds,)}
    if said.kind not in allowed:
        raise CodecError(f"{said.kind[:_QUOTED]!r} where only {' or '.join(allowed)} may come")
    return _checked(allowed[said.kind], said.parts)


def _described(message: Any) -> Described:
    parts = (getattr(message, field.name) for field in dataclasses.fields(message))
    return Described(type(message).__name__, tuple(parts))


def _checked(kind: type[M], parts: tuple[Any, ...]) -> M:
    hints = _hints(kind.__name__)
    if len(parts) != len(hints):
        raise CodecError(f"{kind.__name__} has {len(hints)} parts, not {len(parts)}")
    for (name, hint), part in zip(hints.items(), parts, strict=True):
        if not _fits(part, hint):
            raise CodecError(f"{kind.__name__} has a {name} of another type")
    return kind(*parts)


@functools.cache
def _hints(kind: str) -> dict[str, Any]:
    return typing.get_type_hints(globals()[kind])


def _fits(value: Any, hint: Any) -> bool:
    """Tell whether a value is of a type to the letter: a truth value is no number."""
    if hint is Any:
        return True
    if isinstance(hint, types.UnionType):
        return any(_fits(value, option) for option in typing.get_args(hint))
    plain = typing.get_origin(hint) or hint
    if type(value) is not plain:
        return False
    inner = typing.get_args(hint)
    if plain is dict:
        keys, values = inner
        return all(_fits(k, keys) and _fits(v, values) for k, v in value.items())
    return not inner or inner == (Any,) or all(_fits(item, inner[0]) for item in value)


class Stream(Protocol):
    """A way to the other side."""

    def send(self, data: bytes) -> None:
        """Send all of it."""
        ...

    def receive(self, count: int) -> bytes:
        """Wait for exactly so many bytes."""
        ...


def send(stream: Stream, message: Message, id: bytes = b"") -> None:
    """Send one message."""
    send_frame(stream, id + pack(message))


def receive(stream: Stream, kinds: type[M] | types.UnionType) -> M:
    """Wait for one message of somebody who is trusted."""
    return unpack(receive_frame(stream), kinds)


def send_frame(stream: Stream, data: bytes) -> None:
    """Send bytes, and before them how many they are."""
    stream.send(struct.pack("<Q", len(data)) + data)


def receive_frame(stream: Stream, longest: int = FRAME) -> bytes:
    """Wait for the bytes of one message; a message too long is an error before it is read."""
    (length,) = struct.unpack("<Q", stream.receive(8))
    if length > longest:
        raise ValueError(f"a message of {length} bytes is too long")
    return stream.receive(length)


def describe(value: Any, special: Callable[[Any], Part | None]) -> Any:
    """Put parts in the place of what the codec does not speak; `special` gives them, or None."""
    part = special(value)
    if part is not None:
        return _described(part)
    if isinstance(value, list | tuple):
        return type(value)(describe(item, special) for item in value)
    if isinstance(value, dict):
        return {key: describe(item, special) for key, item in value.items()}
    return value


def restore(value: Any, special: Callable[[Part], Any]) -> Any:
    """Undo `describe`: `special` makes an object of each part."""
    if isinstance(value, Described):
        if value.kind not in _PARTS:
            raise CodecError(f"{value.kind[:_QUOTED]!r} in the place of a value")
        return special(_checked(_PARTS[value.kind], value.parts))
    if isinstance(value, dict):
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
