"""Exercise 10.4, other right ways."""

from __future__ import annotations

import heapq
import re
from functools import cache
from itertools import pairwise
from typing import Any

from lab_transformer.tokenizer import merge, pre_tokens


def encode_merge_after_merge(text: Any, merges: Any, special: Any = ()) -> Any:
    """Go through the merges in the order in which they were learned, in every piece."""
    pattern = "|".join(re.escape(name) for name in sorted(special, key=len, reverse=True))
    tokens: list[int] = []
    for part in re.split(f"({pattern})", text) if pattern else [text]:
        if part in special:
            tokens.append(256 + len(merges) + list(special).index(part))
            continue
        for piece in pre_tokens(part):
            word = list(piece.encode())
            for new_id, pair in enumerate(merges, 256):
                word = merge(word, pair, new_id)
            tokens += word
    return tokens


def encode_all_pieces_together(text: Any, merges: Any, special: Any = ()) -> Any:
    """Keep the pieces in one list, and merge in all of them at once."""
    words: list[Any] = []
    rest = text
    names = sorted(special, key=lambda name: -len(name))
    while rest:
        found = [(rest.find(name), -len(name), name) for name in names if name in rest]
        place, _, name = min(found, default=(len(rest), 0, None))
        words += [list(piece.encode()) for piece in pre_tokens(rest[:place])]
        if name is not None:
            words.append([256 + len(merges) + special.index(name)])
        rest = rest[place + len(name or "") :]
    for number, (left, right) in enumerate(merges):
        words = [merge(word, (left, right), 256 + number) for word in words]
    return [token for word in words for token in word]


def encode_with_a_heap(text: Any, merges: Any, special: Any = ()) -> Any:
    """Merge one place after the other: the earliest learned, and of these the leftmost."""
    ids = {tuple(pair): 256 + rank for rank, pair in enumerate(merges)}

    @cache
    def of_piece(piece: str) -> tuple[int, ...]:
        tokens: list[int] = list(piece.encode())
        after = [*range(1, len(tokens)), -1]
        before = [-1, *range(len(tokens) - 1)]
        heap = [(ids[pair], place) for place, pair in enumerate(pairwise(tokens)) if pair in ids]
        heapq.heapify(heap)
        while heap:
            new_id, left = heapq.heappop(heap)
            right = after[left]
            if right < 0 or ids.get((tokens[left], tokens[right])) != new_id:
                continue
            tokens[left], tokens[right], after[left] = new_id, -1, after[right]
            if after[left] >= 0:
                before[after[left]] = left
            for one in (before[left], left):
                if one >= 0 and after[one] >= 0:
                    pair = (tokens[one], tokens[after[one]])
                    if pair in ids:
                        heapq.heappush(heap, (ids[pair], one))
        return tuple(token for token in tokens if token >= 0)

    def of_text(text: str) -> list[int]:
        return [token for piece in pre_tokens(text) for token in of_piece(piece)]

    if not special:
        return of_text(text)
    one = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))))
    tokens, end = [], 0
    for match in one.finditer(text):
        tokens += of_text(text[end : match.start()])
        tokens.append(256 + len(merges) + list(special).index(match[0]))
        end = match.end()
    return tokens + of_text(text[end:])


def encode_letter_by_letter(text: Any, merges: Any, special: Any = ()) -> Any:
    """Look at every place for a special token."""
    names = sorted(special, key=len, reverse=True)
    tokens: list[int] = []

    def flush(between: str) -> None:
        for piece in pre_tokens(between):
            word = list(piece.encode())
            while True:
                ranks = [merges.index(pair) for pair in pairwise(word) if pair in merges]
                if not ranks:
                    break
                word = merge(word, merges[min(ranks)], 256 + min(ranks))
            tokens.extend(word)

    place, between = 0, ""
    while place < len(text):
        name = next((name for name in names if text.startswith(name, place)), None)
        if name is None:
            between += text[place]
            place += 1
        else:
            flush(between)
            between = ""
            tokens.append(256 + len(merges) + special.index(name))
            place += len(name)
    flush(between)
    return tokens


def encode_by_text(text: Any, merges: Any, special: Any = ()) -> Any:
    """Let str.replace merge, with a character for each token."""
    names = sorted(special, key=len, reverse=True)
    parts = re.split("(" + "|".join(map(re.escape, names)) + ")", text) if names else [text]
    result = ""
    for place, part in enumerate(parts):
        if place % 2:
            result += chr(256 + len(merges) + list(special).index(part))
            continue
        for piece in pre_tokens(part):
            word = piece.encode().decode("latin-1")
            for rank, (left, right) in enumerate(merges):
                word = word.replace(chr(left) + chr(right), chr(256 + rank))
            result += word
    return list(map(ord, result))
