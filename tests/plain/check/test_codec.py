"""The codec and the messages: what goes in comes out, and what does not add up is refused in a line."""

from __future__ import annotations

import json
import math
import struct
import tracemalloc
from typing import Any

import pytest
import torch

from lab_check.calling import codec, messages
from lab_check.calling.codec import Bounds, CodecError, Described


def written(header: Any, rest: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + rest


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -(2**70), 1.5, math.inf, "", "ü\n\u2028😀", [], [1, [2, []]], (), (1, (2,)),
        set(), {1, "a", (2, 3)}, {}, {"a": 1, 2: None, (3,): [4]}, {"dict": []}, {"tensor": 1},
        Described("Any", (1, [2], "x")), Described("", ()),
    ],
)  # fmt: skip
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    found = codec.unpack(codec.pack(value))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("dtype", sorted(codec._DTYPES))
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)])
def test_tensors_come_back_to_the_last_bit(dtype: str, shape: tuple[int, ...]) -> None:
    tensor = (torch.randn(shape) * 3).to(codec._DTYPES[dtype])
    found = codec.unpack(codec.pack([tensor, tensor.mT if tensor.ndim > 1 else tensor]))
    assert found[0].dtype == tensor.dtype
    assert torch.equal(found[0], tensor)
    assert found[1].shape == (tensor.mT if tensor.ndim > 1 else tensor).shape


def test_not_a_number_keeps_its_bits() -> None:
    tensor = torch.tensor([math.nan, math.inf, -0.0])
    found = codec.unpack(codec.pack(tensor))
    assert torch.equal(found.view(torch.int32), tensor.view(torch.int32))


@pytest.mark.parametrize(
    "value", [object(), 1j, b"x", torch.ones(2).to_sparse(), torch.ones(2).cfloat()]
)
def test_what_it_does_not_speak_is_refused(value: Any) -> None:
    with pytest.raises(CodecError, match="cannot be sent"):
        codec.pack(value)


MALFORMED: dict[str, bytes] = {
    "nothing": b"",
    "too short for a length": b"\1\2",
    "a header that is not there": struct.pack("<Q", 2**63),
    "a header that is no JSON": written(b"{"),
    "a header that is no text": written(b'"\xff"'),
    "half a character": written(b'"\\ud800"'),
    "bytes too many": written(1, b"x"),
    "no kind": written({}),
    "two kinds": written({"tuple": [], "set": []}),
    "an unknown kind": written({"object": []}),
    "a tuple of no items": written({"tuple": "abc"}),
    "a set with a list in it": written({"set": [[1]]}),
    "a dictionary with a tensor for a key": written({"dict": [[{"tensor": ["bool", []]}, 1]]}, b"\1"),
    "a dictionary without values": written({"dict": [[1]]}),
    "a tensor without a shape": written({"tensor": ["float32"]}),
    "a tensor of objects": written({"tensor": ["object", [1]]}, bytes(8)),
    "a negative axis": written({"tensor": ["float32", [-1, -4]]}, bytes(16)),
    "an axis that is no number": written({"tensor": ["float32", [True]]}, bytes(4)),
    "a shape of another size": written({"tensor": ["float32", [3]]}, bytes(11)),
    "a truth value of another kind": written({"tensor": ["bool", [1]]}, b"\2"),
    "something described without a kind": written({"described": []}),
    "something described by a number": written({"described": [1]}),
    "containers without end": written(b"[" * 10**5 + b"]" * 10**5),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_malformed_is_refused_in_a_line(what: str) -> None:
    with pytest.raises(CodecError) as refused:
        codec.unpack(MALFORMED[what])
    assert 0 < len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("data", "bounds"),
    [
        (written({"tensor": ["float64", [2**40]]}), Bounds()),
        (written({"tensor": ["float32", [0, 2**28]]}), Bounds(axis=2**20)),
        (written({"tensor": ["uint8", [2**20]]}, bytes(2**20)), Bounds(elements=2**10)),
        (written([[]] * 10**5), Bounds(items=1000)),
        (written({"set": list(range(10**5))}), Bounds(keys=1000)),
        (written(b" " * 2**22), Bounds(header=2**10)),
    ],
)  # fmt: skip
def test_nothing_is_made_before_its_size_is_known(data: bytes, bounds: Bounds) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CodecError):
            codec.unpack(data, bounds)
        assert tracemalloc.get_traced_memory()[1] < 20 * len(data) + 2**16  # JSON's own lists
    finally:
        tracemalloc.stop()


def test_a_message_comes_back_as_it_was() -> None:
    call = messages.Call(7, "attention", "softmax", None, [], [torch.ones(2)], {"dim": -1}, True)
    found = messages.unpack(messages.pack(call), messages.Call)
    assert torch.equal(found.args[0], call.args[0])
    assert (found.seed, found.name, found.kwargs) == (7, "softmax", {"dim": -1})


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("Ended", ()),
        ("Ended", (None, None)),
        ("Ended", (True,)),
        ("Ended", ("1",)),
        ("Started", (None,)),
        ("Answer", (None, {}, {}, 5)),
        ("Answer", (None, {"x": 1}, {}, "")),
        ("Answer", (None, {1: None}, {}, "")),
        ("Answer", (None, {}, {"0": [1]}, "")),
        ("Callback", (0, [], [True])),
        ("Callback", (0, (), [])),
        ("__class__", ()),
    ],
)  # fmt: skip
def test_a_message_of_another_kind_or_with_other_parts_is_refused(
    kind: str, parts: tuple[Any, ...]
) -> None:
    expected = messages.Ended | messages.FromWorker
    with pytest.raises(CodecError):
        messages.unpack(codec.pack(Described(kind, parts)), expected)


def test_a_dictionary_of_somebodys_is_no_message_and_no_part_of_one() -> None:
    with pytest.raises(CodecError, match="a message is expected"):
        messages.unpack(codec.pack({"kind": "Ended", "code": 0}), messages.Ended)
    lookalike = {"described": ["KeptModule", 0], "number": 0}
    assert messages.restore(codec.unpack(codec.pack(lookalike)), lambda part: 1 / 0) == lookalike
