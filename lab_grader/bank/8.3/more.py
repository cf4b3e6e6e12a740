"""Exercise 8.3. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

import math
from typing import Any

import torch

from lab_grader.bank.engine import Wrong
from lab_transformer.decoding import length_normalised

wrong = Wrong()


def _cut_afterwards(merge: bool) -> Any:
    """Search as if nothing ended, then cut sequences and scores at the end token."""

    def block(
        step: Any,
        bos_id: int,
        eos_id: int,
        beam_width: int,
        max_length: int,
        length_penalty: float = 0.0,
    ) -> Any:
        # The sums after every token, so that they can be cut, too.
        beams: list[tuple[list[int], list[float]]] = [([bos_id], [0.0])]
        while len(beams[0][0]) < max_length:
            table = step(torch.tensor([tokens for tokens, _ in beams])).tolist()
            every = [
                ([*tokens, token], [*sums, sums[-1] + value])
                for (tokens, sums), row in zip(beams, table, strict=True)
                for token, value in enumerate(row)
                if value > -math.inf
            ]
            beams = sorted(every, key=lambda beam: -beam[1][-1])[:beam_width]
        pairs = []
        for tokens, sums in beams:
            length = [*tokens[1:], eos_id].index(eos_id) + 1
            tokens = tokens[: length + 1]
            total = sums[len(tokens) - 1]
            pair = (tokens, length_normalised(total, len(tokens) - 1, length_penalty))
            if not merge or pair not in pairs:
                pairs.append(pair)
        return sorted(pairs, key=lambda pair: -pair[1])

    return block


wrong(
    "score-cut-at-the-end-token-too",
    "You let all sequences run to max_length and cut them, with their scores, at the end token "
    "afterwards. What followed the end token has decided which of them stayed in the beam, and one "
    "sequence can come twice: put it aside when it ends.",
)(_cut_afterwards(merge=False))


wrong(
    "cut-at-the-end-token-and-merged",
    "You let all sequences run to max_length, cut them at the end token afterwards and drop those that "
    "are the same then. What followed the end token has taken places in the beam: put a sequence aside "
    "when it ends.",
)(_cut_afterwards(merge=True))
