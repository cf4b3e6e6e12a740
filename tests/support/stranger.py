"""A worker that says what it is told to say, byte by byte, and strategies for what that may be."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st

from lab_check.calling import codec, messages
from lab_grader.grading.judging.remote import WorkerLost
from lab_grader.grading.model import Limits


class Stranger:
    """A line on which every question is answered by a function of the id that it came with."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer
        self._waiting = b""
        self._left = 0

    def open(self, deadline: float) -> Stranger:
        self._left = 5  # messages, where another line would have seconds
        return self

    def send(self, data: bytes) -> None:
        self._left -= 1
        if self._left < 0:
            raise WorkerLost("timeout", "no answer in time")
        self._waiting = self._answer(data[8 : 8 + messages.ID])

    def receive(self, count: int) -> bytes:
        if len(self._waiting) < count:
            raise WorkerLost("crashed", "it hung up")
        given, self._waiting = self._waiting[:count], self._waiting[count:]
        return given

    def fileno(self) -> int:
        return -1

    def fate(self) -> WorkerLost:
        return WorkerLost("crashed", "it hung up")

    def limit(self, limits: Limits) -> None:
        pass

    def drop(self) -> None:
        self._waiting = b""

    close = drop


def framed(id: bytes, message: bytes) -> bytes:
    return struct.pack("<Q", len(id) + len(message)) + id + message


DTYPES = sorted(codec._DTYPES)
numbers = st.one_of(
    st.integers(), st.floats(), st.sampled_from([2**63, -(2**70), 10**400, 2**61 - 1, math.nan])
)
texts = st.text(st.characters(exclude_categories=()), max_size=20) | st.sampled_from(
    ["", "\ud800", "\x1b[2J", "\u202e", "\n\n", "__lab__", "tensor", "number", "failure", "x" * 5000]
)
plain = st.none() | st.booleans() | numbers | texts
shapes = st.lists(st.integers(0, 5), max_size=4)
tensors = st.builds(
    lambda shape, dtype, fill: torch.full(shape, fill).to(codec._DTYPES[dtype]),
    shapes, st.sampled_from(DTYPES), st.sampled_from([0.0, 1.0, -1.5, 3e38, math.nan, math.inf]),
)  # fmt: skip
keys = st.recursive(plain, lambda inner: st.tuples(inner, inner) | st.tuples(inner), max_leaves=3)
values = st.recursive(
    plain | tensors,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.sets(keys, max_size=5),
        st.dictionaries(keys, inner, max_size=5),
    ),
    max_leaves=12,
)  # fmt: skip

# Headers as a stranger may write them: nearly right, wrong in kind, or too much.
sizes = st.sampled_from([0, 1, 3, -1, 2**28, 2**62, 2**70, 1.5, "2", None, True])
claims = st.builds(
    lambda dtype, shape: {"tensor": [dtype, shape]},
    st.sampled_from([*DTYPES, "object", "complex64", ""]),
    st.lists(sizes, max_size=5) | sizes,
)
headers = st.recursive(
    plain | claims | sizes,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.builds(
            lambda kind, content: {kind: content},
            st.sampled_from(["tuple", "set", "dict", "tensor", "described", "list", ""]),
            inner | st.lists(st.lists(inner, min_size=2, max_size=2), max_size=4),
        ),
        st.dictionaries(texts, inner, max_size=3),
    ),
    max_leaves=15,
)  # fmt: skip


@st.composite
def written(draw: st.DrawFn, header: st.SearchStrategy[Any] = headers) -> bytes:
    """Write a message by hand; the length of its header may be a lie."""
    text = json.dumps(draw(header)).encode()
    length = draw(st.just(len(text)) | st.sampled_from([0, 1, 2**20, 2**63, 2**64 - 1]))
    return struct.pack("<Q", length) + text + draw(st.binary(max_size=64))


@st.composite
def damaged(draw: st.DrawFn, sound: st.SearchStrategy[bytes]) -> bytes:
    """Cut, change or repeat some of a sound message."""
    data = bytearray(draw(sound))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.integers(0, 3)):
            case 0:
                del data[place:]
            case 1:
                data[place : place + 1] = draw(st.binary(max_size=4))
            case 2:
                data += data[place:]
            case 3:
                del data[place : place + draw(st.integers(1, 9))]
    return bytes(data)


def some(kind: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[codec.Described]:
    """Draw messages of a kind; some have a part too many, too few or of another type."""
    odd = st.lists(values, max_size=5).map(tuple)
    return st.builds(codec.Described, st.just(kind), st.tuples(*parts) | odd)


answers = some(
    "Answer",
    values
    | st.builds(codec.Described, st.sampled_from(["KeptModule", "Leaf", "Call"]), st.tuples(numbers)),
    st.dictionaries(texts, tensors | st.none(), max_size=2),
    st.dictionaries(st.sampled_from(["0", "1", "x"]), tensors | st.sets(keys), max_size=2),
    texts,
)
failures = some(
    "Failed",
    st.sampled_from(["Raised", "WrongType", "Missing", "NotStarted", "Lost", ""]),
    texts,
    texts,
    texts,
)
arguments = st.lists(values, max_size=3)
questions = some("Callback", numbers, arguments, st.lists(numbers, max_size=2))
back = some("Backward", numbers, arguments)
others = st.sampled_from(["Ready", "Call", "Returned", "Start", "", "__class__"]).flatmap(some)
said = st.one_of(answers, failures, questions, back, others).map(codec.pack)
anything = st.one_of(said, damaged(said), written(), st.binary(max_size=200))
