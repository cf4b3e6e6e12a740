"""Exercise 9.2. Mistakes of those who begin with the longest sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab_grader.bank.engine import Wrong

wrong = Wrong()

# What a batch costs with a newcomer: of its lengths, and the newcomer's.
Cost = Callable[[list[int], int], float]


def _exact(inside: list[int], length: int) -> float:
    return inside[0] * (len(inside) + 1) if inside else length


def _descending(cost: Cost = _exact, last: bool = True, next_one: bool = True, full: int = 0) -> Any:
    def block(lengths: Any, max_tokens: int) -> Any:
        batches: list[list[int]] = []
        batch: list[int] = []
        for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
            if batch and cost([lengths[i] for i in batch], lengths[index]) > max_tokens - full:
                batches.append(batch)
                batch = []
                if not next_one:
                    continue
            batch.append(index)
        return [*batches, batch] if batch and last else batches

    return block


for _name, _told, _block in (
    (
        "pads-not-counted-from-the-longest",
        "You add up the lengths of the sentences, and padding costs nothing. A batch is filled up to "
        "its longest sentence, so each of them costs as much as that one.",
        _descending(lambda inside, length: sum(inside) + length),
    ),
    (
        "sentences-counted-from-the-longest",
        "You count sentences where tokens are allowed. A batch costs the length of its longest "
        "sentence times their number.",
        _descending(lambda inside, length: len(inside) + 1),
    ),
    (
        "last-batch-lost-from-the-longest",
        "The batch that is open at the end is lost, with the shortest sentences. After the loop there "
        "is still something to put away.",
        _descending(last=False),
    ),
    (
        "full-batch-loses-the-next-from-the-longest",
        "The sentence that did not fit any more is lost. It opens the next batch: put it there.",
        _descending(next_one=False),
    ),
    (
        "budget-not-used-up-from-the-longest",
        "You close a batch that costs exactly what is allowed. At most max_tokens means that "
        "max_tokens itself is fine: look at the comparison.",
        _descending(full=1),
    ),
    (
        "newcomer-not-counted-from-the-longest",
        "You look at what the batch costs without the sentence that comes, and then put it in all the "
        "same. Ask what the batch would cost with it.",
        _descending(lambda inside, length: inside[0] * len(inside)),
    ),
):
    wrong(_name, _told)(_block)
