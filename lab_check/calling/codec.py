"""Values as bytes and back: numbers, text, containers and tensors, and nothing that can run.

A JSON header describes the value; the tensors' bytes follow it. Both sides of a grading run speak this,
and so do the recordings in a learner's workspace.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64,
    )
}  # fmt: skip


class CodecError(ValueError):
    """Bytes or a value that this codec does not speak."""


@dataclass(frozen=True)
class Described:
    """Something that is no plain value, by its kind and what belongs to it."""

    kind: str
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Bounds:
    """How much there may be in one message; more is a CodecError before any of it is made."""

    header: int = 2**30  # bytes; a header unpacks to many times its size
    items: int = 2**30  # all values together
    keys: int = 2**30  # of one set or dictionary: hashes can be made to collide
    depth: int = 32  # containers within containers, and axes of a tensor
    axis: int = 2**62  # of an empty tensor, too
    elements: int = 2**62  # of one tensor


OWN = Bounds()  # of what is trusted


def description(data: bytes) -> int:
    """Tell how many bytes of a message describe, and do not hold, what tensors hold."""
    return min(int.from_bytes(data[:8], "little"), len(data))


def pack(value: object) -> bytes:
    """Turn a value into bytes."""
    buffers: list[bytes] = []
    header = json.dumps(_describe(value, buffers), ensure_ascii=False).encode(errors="replace")
    return b"".join([struct.pack("<Q", len(header)), header, *buffers])


def _describe(value: object, buffers: list[bytes]) -> object:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Tensor():
            kind = str(value.dtype).removeprefix("torch.")
            if kind not in _DTYPES or value.layout != torch.strided:
                raise CodecError(f"a {kind} tensor of layout {value.layout} cannot be sent")
            flat = value.detach().cpu().contiguous().reshape(-1)
            buffers.append(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
            return {"tensor": [kind, list(value.shape)]}
        case list():
            return [_describe(item, buffers) for item in value]
        case Described():
            return {"described": [value.kind, *(_describe(part, buffers) for part in value.parts)]}
        case tuple():
            return {"tuple": [_describe(item, buffers) for item in value]}
        case set() | frozenset():
            # By their texts: not all that can be in a set can be sorted.
            return {"set": [_describe(item, buffers) for item in sorted(value, key=repr)]}
        case dict():
            pairs = [[_describe(k, buffers), _describe(v, buffers)] for k, v in value.items()]
            return {"dict": pairs}
    raise CodecError(f"a value of type {type(value).__name__} cannot be sent")


def unpack(data: bytes | memoryview, bounds: Bounds = OWN) -> Any:
    """Turn bytes into the value they stand for; anything that does not add up is a CodecError."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        if length > bounds.header:
            raise CodecError(f"a header of {length} bytes is too long")
        header = json.loads(bytes(data[8 : 8 + length]))
        reader = _Reader(memoryview(data)[8 + length :], bounds)
        value = reader.value(header)
    except CodecError:
        raise
    except Exception as error:
        raise CodecError(f"malformed: {type(error).__name__}: {str(error)[:200]}") from error
    if len(reader.rest):
        raise CodecError(f"{len(reader.rest)} bytes too many")
    return value


class _Reader:
    def __init__(self, data: memoryview, bounds: Bounds) -> None:
        self.rest = data
        self._bounds = bounds
        self._items = 0

    def value(self, header: object, depth: int = 0) -> Any:
        if depth > self._bounds.depth:
            raise CodecError("containers within containers, too deep")
        self._items += 1
        if self._items > self._bounds.items:
            raise CodecError(f"more than {self._bounds.items} values")
        if isinstance(header, str):
            header.encode()  # half a character is an error here, not where it is shown
        if isinstance(header, list):
            return [self.value(item, depth + 1) for item in header]
        if not isinstance(header, dict):
            return header
        ((kind, content),) = header.items()
        kind = kind[:40]  # it is quoted where it is none
        if kind == "tensor":
            return self.tensor(*content)
        if type(content) is not list:
            raise CodecError(f"a {kind!r} of something else than items")
        if kind == "tuple":
            return tuple(self.value(item, depth + 1) for item in content)
        if kind == "described":
            named, *parts = content
            if not isinstance(named, str):
                raise CodecError("a kind is a text")
            return Described(named, tuple(self.value(part, depth + 1) for part in parts))
        if len(content) > self._bounds.keys:
            raise CodecError(f"a {kind!r} of {len(content)} keys")
        if kind == "set":
            return {self.key(item, depth + 1) for item in content}
        if kind == "dict":
            return {self.key(key, depth + 1): self.value(item, depth + 1) for key, item in content}
        raise CodecError(f"unknown kind {kind!r}")

    def key(self, header: object, depth: int) -> Any:
        """Read something that others are found by: a tensor is found by nothing but itself."""
        value = self.value(header, depth)
        if not _is_plain(value):
            raise CodecError(f"a {type(value).__name__} for a key")
        return value

    def tensor(self, kind: str, shape: list[int]) -> Tensor:
        dtype = _DTYPES[kind]
        count = 1
        if type(shape) is not list or len(shape) > self._bounds.depth:
            raise CodecError("a shape of too many axes, or none")
        for axis in shape:
            if type(axis) is not int or not 0 <= axis <= self._bounds.axis:
                raise CodecError(f"bad shape {_brief(shape)}")
            count *= axis
        size = count * dtype.itemsize
        if count > self._bounds.elements or size > len(self.rest):
            raise CodecError(
                f"a tensor of shape {_brief(shape)} is too large, or {len(self.rest)} bytes too few"
            )
        chunk, self.rest = self.rest[:size], self.rest[size:]
        if not size:
            return torch.empty(shape, dtype=dtype)
        whole = bytearray(chunk)
        if dtype is torch.bool and torch.frombuffer(whole, dtype=torch.uint8).max() > 1:
            raise CodecError("a truth value that is neither true nor false")
        return torch.frombuffer(whole, dtype=dtype).reshape(shape)


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _brief(shape: list[int]) -> str:
    return str(shape)[:100]
