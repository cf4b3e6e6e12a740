"""Exercise 10.5, the usual way."""

import unicodedata


def table(merges, special):
    """Give the bytes of every token."""
    pieces = [bytes([byte]) for byte in range(256)]
    for left, right in merges:
        pieces.append(pieces[left] + pieces[right])
    for name in special:
        pieces.append(name.encode("utf-8"))
    return pieces


def as_text(data):
    return data.decode("utf-8", errors="replace")


def finished(text):
    return text


def decode(tokens, merges, special=()):
    pieces = table(merges, special)
    data = b""
    for token in tokens:
        piece = pieces[token]
        data += piece
    text = as_text(data)
    return finished(text)
