"""Exercise 10.5, other right ways."""

from __future__ import annotations

import codecs
from functools import cache
from typing import Any


def decode_by_recursion(tokens: Any, merges: Any, special: Any = ()) -> Any:
    @cache
    def piece(token: int) -> bytes:
        if token < 256:
            return bytes([token])
        if token - 256 < len(merges):
            left, right = merges[token - 256]
            return piece(left) + piece(right)
        return special[token - 256 - len(merges)].encode()

    return b"".join(map(piece, tokens)).decode("utf-8", "replace")


def decode_by_unmerging(tokens: Any, merges: Any, special: Any = ()) -> Any:
    """Take the merges back, the last one first, until only bytes are left."""
    first = 256 + len(merges)
    spelled: list[int] = []
    for token in tokens:
        spelled += special[token - first].encode() if token >= first else [token]
    for new_id in reversed(range(256, first)):
        left, right = merges[new_id - 256]
        spelled = [b for token in spelled for b in ((left, right) if token == new_id else (token,))]
    return bytes(spelled).decode(errors="replace")


def decode_with_a_stack(tokens: Any, merges: Any, special: Any = ()) -> Any:
    data, stack = bytearray(), list(reversed(tokens))
    while stack:
        token = stack.pop()
        if token >= 256 + len(merges):
            data.extend(special[token - 256 - len(merges)].encode("utf8"))
        elif token >= 256:
            stack.extend(reversed(merges[token - 256]))
        else:
            data.append(token)
    return str(data, "utf-8", "replace")


def decode_in_parts(tokens: Any, merges: Any, special: Any = ()) -> Any:
    """Decode between special tokens, whose texts need no bytes."""
    pieces = {byte: bytes((byte,)) for byte in range(256)}
    for number, (left, right) in enumerate(merges, 256):
        pieces[number] = pieces[left] + pieces[right]
    names = dict(enumerate(special, 256 + len(merges)))
    text, data = "", b""
    for token in tokens:
        if token in names:
            text += data.decode(errors="replace") + names[token]
            data = b""
        else:
            data += pieces[token]
    return text + data.decode(errors="replace")


def decode_byte_by_byte(tokens: Any, merges: Any, special: Any = ()) -> Any:
    """Let a decoder remember the bytes of a letter that is not complete."""
    pieces = [bytes([byte]) for byte in range(256)]
    pieces += [b"" for _ in merges]
    for number, (left, right) in enumerate(merges, 256):
        pieces[number] = pieces[left] + pieces[right]
    pieces += [name.encode() for name in special]
    reader = codecs.getincrementaldecoder("utf-8")("replace")
    return "".join(reader.decode(pieces[token]) for token in tokens) + reader.decode(b"", final=True)
