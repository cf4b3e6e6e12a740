"""Exercise 8.1. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from lab_grader.bank.engine import Wrong

wrong = Wrong()


def _greedy(step: Any, tokens: list[int], eos_id: int, max_length: int) -> list[int]:
    while len(tokens) < max_length and (len(tokens) == 1 or tokens[-1] != eos_id):
        tokens.append(int(step(torch.tensor([tokens]))[0].argmax()))
    return tokens


@wrong(
    "filled-up-after-the-end",
    "After the end token you fill the list up until it has max_length tokens. It ends with the end "
    "token: how long the list may become is a limit, not a size.",
)
def filled_up(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    tokens = _greedy(step, [bos_id], eos_id, max_length)
    return tokens + [eos_id] * (max_length - len(tokens))


@wrong(
    "end-token-twice",
    "The end token stands twice at the end of your list. It is appended when the model chooses it: "
    "nothing has to be added when the loop is over.",
)
def end_twice(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    tokens = _greedy(step, [bos_id], eos_id, max_length)
    return [*tokens, eos_id] if tokens[-1] == eos_id else tokens


@wrong(
    "tokens-as-rows",
    "The entries of your list are tensors with an axis, not integers. The argmax was taken for a whole "
    "table of one row: take that row's and turn it into a plain number.",
)
def tokens_as_rows(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    tokens = _greedy(step, [bos_id], eos_id, max_length)
    return [bos_id, *(torch.tensor([token]) for token in tokens[1:])]


def _without(banned: Callable[[list[int], int], list[int]]) -> Any:
    """Decode with some tokens ruled out, which the prefix and the start token decide."""

    def block(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
        tokens = [bos_id]
        while len(tokens) < max_length and (len(tokens) == 1 or tokens[-1] != eos_id):
            row = step(torch.tensor([tokens]))[0].clone()
            row[banned(tokens, bos_id)] = -math.inf
            tokens.append(int(row.argmax()))
        return tokens

    return block


wrong(
    "start-token-avoided",
    "You rule out a token that the model may choose, such as the start token. Greedy decoding takes "
    "the most probable token of the whole vocabulary, whatever it is.",
)(_without(lambda tokens, bos_id: [bos_id]))


wrong(
    "token-zero-avoided",
    "You never choose token 0. Which number stands for what is up to the vocabulary: all of its tokens "
    "compete.",
)(_without(lambda tokens, bos_id: [0]))


wrong(
    "repetition-avoided",
    "You do not let a token come twice. Greedy decoding takes the most probable token, also when it "
    "was said before.",
)(_without(lambda tokens, bos_id: tokens))


wrong(
    "same-token-in-a-row-avoided",
    "You do not let a token follow itself. Greedy decoding takes the most probable token, also when it "
    "is the same again.",
)(_without(lambda tokens, bos_id: tokens[-1:]))


@wrong(
    "prefix-of-floats",
    "You give step tokens that are not integers. Token numbers are looked up, not computed with: keep "
    "the prefix an integer tensor.",
)
def float_prefix(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    return _greedy(lambda prefix: step(prefix.float()), [bos_id], eos_id, max_length)


@wrong(
    "starts-with-the-end-token",
    "Your list starts with the end token. Decoding starts with bos_id, the start token.",
)
def from_the_end(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    return _greedy(step, [eos_id], eos_id, max_length)


@wrong("returned-a-tuple", "You return a tuple. The result is a plain list of integers.")
def as_a_tuple(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    return tuple(_greedy(step, [bos_id], eos_id, max_length))


def _stops_at(token: int) -> Any:
    def block(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
        return _greedy(step, [bos_id], token, max_length)

    return block


for _token in range(4):
    wrong(
        f"stops-at-token-{_token}",
        "You stop at a fixed token number. Which number stands for the end is up to the vocabulary: "
        "take it from eos_id.",
    )(_stops_at(_token))


@wrong(
    "prefix-reversed",
    "You show step the prefix backwards, or put new tokens at its front. A prefix is read from the "
    "start token on, and the newest token is its last.",
)
def reversed_prefix(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    return _greedy(lambda prefix: step(prefix.flip(-1)), [bos_id], eos_id, max_length)


@wrong(
    "stops-after-one-token",
    "You append one token and stop. Each new token becomes part of the prefix, and step is asked "
    "again, until the end token or max_length.",
)
def one_token(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    return _greedy(step, [bos_id], eos_id, min(max_length, 2))
