"""Whatever bytes a worker sends: they become a value within bounds, or are refused in a line."""

from __future__ import annotations

import re
import struct
import time
import tracemalloc
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from stranger import Stranger, anything, damaged, framed, said, values, written

from lab_check.calling import codec, messages
from lab_check.calling.calls import Reply, Target
from lab_check.calling.failures import Failure
from lab_grader.grading.judging.remote import InWorker, Talk


def read(message: bytes) -> Any:
    """Read as the judge does; a refusal is one line."""
    try:
        return codec.unpack(message, messages.BOUNDS)
    except codec.CodecError as error:
        said = str(error)
    assert 0 < len(said) < 400
    return None


@given(st.binary(max_size=400) | st.binary(max_size=60).map(lambda b: struct.pack("<Q", len(b)) + b))
def test_noise_is_refused(message: bytes) -> None:
    read(message)


@given(written())
def test_a_message_that_claims_too_much_is_refused_before_it_costs(message: bytes) -> None:
    tracemalloc.start()
    try:
        read(message)
        assert tracemalloc.get_traced_memory()[1] < 200_000 + 200 * len(message)
    finally:
        tracemalloc.stop()


@given(damaged(said))
def test_a_damaged_answer_is_refused_or_is_another_answer(message: bytes) -> None:
    read(message)


@given(values)
def test_what_can_be_packed_comes_back(value: Any) -> None:
    packed = codec.pack(value)
    found = read(packed)
    # Half characters are replaced on the way, and a set may come in another order then; of what is no
    # number a set may hold two, and comes back with one.
    if found is not None and not re.search(r"\\ud[89a-f]|nan.*nan", repr(value)):
        assert codec.pack(found) == packed


@given(st.lists(anything, min_size=1, max_size=3), st.binary(max_size=30), st.booleans())
def test_a_call_ends_with_a_reply_or_a_failure(parts: list[bytes], rest: bytes, own: bool) -> None:
    def answer(id: bytes) -> bytes:
        return b"".join(framed(id if own else bytes(16), part) for part in parts) + rest

    remote = InWorker(Talk(Stranger(answer), time.monotonic() + 10))
    x = torch.ones(2, 3)
    try:
        ended: Any = remote.call(Target("normalization", "post_norm"), (x, torch.sin), {}, True)
    except Failure as failure:
        ended = str(failure)
    assert isinstance(ended, Reply) or len(ended) < 3000
    assert torch.equal(x, torch.ones(2, 3))
