"""Exercise 10.2, other right ways."""

from __future__ import annotations

from typing import Any


def merge_by_looking_back(tokens: Any, pair: Any, new_id: Any) -> Any:
    """Take the token before back out where the pair is complete."""
    result: list[int] = []
    free = False  # whether the last token is one of the text
    for token in tokens:
        if free and (result[-1], token) == pair:
            result[-1] = new_id
            free = False
        else:
            result.append(token)
            free = True
    return result


def merge_by_skipping(tokens: Any, pair: Any, new_id: Any) -> Any:
    result = []
    skip = False
    for left, right in zip(tokens, [*tokens[1:], None], strict=False):
        if skip:
            skip = False
            continue
        skip = (left, right) == pair
        result.append(new_id if skip else left)
    return result


def merge_by_an_iterator(tokens: Any, pair: Any, new_id: Any) -> Any:
    result, rest = [], iter(tokens)
    held = next(rest, None)
    while held is not None:
        following = next(rest, None)
        if (held, following) == pair:
            result.append(new_id)
            held = next(rest, None)
        else:
            result.append(held)
            held = following
    return result


def merge_by_recursion(tokens: Any, pair: Any, new_id: Any) -> Any:
    if len(tokens) < 2:
        return list(tokens)
    if tuple(tokens[:2]) == pair:
        return [new_id, *merge_by_recursion(tokens[2:], pair, new_id)]
    return [tokens[0], *merge_by_recursion(tokens[1:], pair, new_id)]


def merge_by_text(tokens: Any, pair: Any, new_id: Any) -> Any:
    """Let str.replace do it, with a character for each token."""
    text = "".join(map(chr, tokens))
    return [ord(one) for one in text.replace("".join(map(chr, pair)), chr(new_id))]


def merge_by_slices(tokens: Any, pair: Any, new_id: Any) -> Any:
    result, place = list(tokens), 0
    while place < len(result) - 1:
        if result[place : place + 2] == list(pair):
            result[place : place + 2] = [new_id]
        place += 1
    return result


def merge_in_place(tokens: Any, pair: Any, new_id: Any) -> Any:
    write, read = 0, 0
    tokens = tokens.copy()
    while read < len(tokens):
        both = read + 1 < len(tokens) and (tokens[read], tokens[read + 1]) == pair
        tokens[write] = new_id if both else tokens[read]
        write, read = write + 1, read + 1 + both
    del tokens[write:]
    return tokens
