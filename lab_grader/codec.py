"""Values as bytes and back: numbers, text, containers and tensors, and nothing that can run.

A JSON header describes the value; the tensors' bytes follow it. Both sides of a grading run speak this,
and so do the recordings in a learner's workspace.
"""

from __future__ import annotations

import json
import struct
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


_DEPTH = 32


class CodecError(ValueError):
    """Bytes or a value that this codec does not speak."""


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
        case tuple():
            return {"tuple": [_describe(item, buffers) for item in value]}
        case set() | frozenset():
            return {"set": [_describe(item, buffers) for item in sorted(value)]}
        case dict():
            pairs = [[_describe(k, buffers), _describe(v, buffers)] for k, v in value.items()]
            return {"dict": pairs}
    raise CodecError(f"a value of type {type(value).__name__} cannot be sent")


def unpack(data: bytes, longest_header: int = 1 << 30) -> Any:
    """Turn bytes into the value they stand for; anything that does not add up is a CodecError.

    A header unpacks to many times its size, so what comes from a stranger needs a bound.
    """
    try:
        (length,) = struct.unpack_from("<Q", data)
        if length > longest_header:
            raise CodecError(f"a header of {length} bytes is too long")
        header = json.loads(data[8 : 8 + length])
        reader = _Reader(memoryview(data)[8 + length :])
        value = reader.value(header)
    except CodecError:
        raise
    except Exception as error:
        raise CodecError(f"malformed: {error}") from error
    if len(reader.rest):
        raise CodecError(f"{len(reader.rest)} bytes too many")
    return value


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self.rest = data

    def value(self, header: object, depth: int = 0) -> Any:
        if depth > _DEPTH:
            raise CodecError("containers within containers, too deep")
        if isinstance(header, str):
            header.encode()  # half a character is an error here, not where it is shown
        if isinstance(header, list):
            return [self.value(item, depth + 1) for item in header]
        if not isinstance(header, dict):
            return header
        ((kind, content),) = header.items()
        match kind:
            case "tensor":
                return self.tensor(*content)
            case "tuple":
                return tuple(self.value(item, depth + 1) for item in content)
            case "set":
                return {self.value(item, depth + 1) for item in content}
            case "dict":
                return {
                    self.value(key, depth + 1): self.value(item, depth + 1) for key, item in content
                }
        raise CodecError(f"unknown kind {kind!r}")

    def tensor(self, kind: str, shape: list[int]) -> Tensor:
        dtype = _DTYPES[kind]
        size = dtype.itemsize
        if len(shape) > _DEPTH:
            raise CodecError(f"a tensor of {len(shape)} axes")
        for axis in shape:
            if type(axis) is not int or axis < 0:
                raise CodecError(f"bad shape {shape}")
            size *= axis
        if size > len(self.rest):
            raise CodecError(f"a tensor of shape {shape} needs {size} bytes, {len(self.rest)} are left")
        chunk, self.rest = self.rest[:size], self.rest[size:]
        if not size:
            return torch.empty(shape, dtype=dtype)
        whole = bytearray(chunk)
        if dtype is torch.bool and torch.frombuffer(whole, dtype=torch.uint8).max() > 1:
            raise CodecError("a truth value that is neither true nor false")
        return torch.frombuffer(whole, dtype=dtype).reshape(shape)
