"""Exercise 8.3. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

import math
from typing import Any

import torch

from lab_grader.bank.engine import Wrong
from lab_transformer.decoding import length_normalised

wrong = Wrong()


def length_penalty(on: On) -> Any:
    def fraction(length: int) -> float:
        if on("plain-length"):
            return float(length)
        if on("not-divided-by-six"):
            return 5 + length
        if on("length-alone-over-six"):
            return 5 + length / 6
        if on("five-and-six-exchanged"):
            return (6 + length) / 5
        if on("whole-numbers-only"):
            return float((5 + length) // 6)
        return (5 + length + on("length-plus-one") - on("length-minus-one")) / 6

    def power(base: float, penalty: float) -> float:
        if on("penalty-ignored"):
            return base
        if on("factor-times-penalty"):
            return base * penalty
        if on("penalty-to-the-factor"):
            return float(abs(penalty) ** base)
        if on("root-of-the-factor"):
            return float(base ** (1 / penalty)) if penalty else base
        return float(base**penalty)

    def block(score: Any, length: Any, penalty: Any) -> Any:
        factor = power(fraction(length), penalty)
        if on("six-not-in-the-power"):
            factor = (5 + length) / power(6, penalty)
        if on("factor-only"):
            return factor
        if on("only-the-sum-in-the-power"):
            factor = power(5 + length, penalty) / 6
        if on("six-divides-the-score"):
            factor = power(5 + length, penalty) * 6
        if on("divided-by-both"):
            factor = (5 + length) * power(6, penalty)
        if on("divided-by-both-without-the-penalty"):
            factor = (5 + length) * 6.0
        if on("penalty-multiplies-the-result"):
            return score / fraction(length) * penalty
        if on("reward-per-token"):
            return score + penalty * length
        if on("power-of-the-whole"):
            return (score / fraction(length)) ** penalty
        if on("multiplied"):
            result = score * factor
        elif on("subtracted"):
            result = score - factor
        else:
            result = score / (math.log(factor) if on("logarithm-of-the-factor") else factor)
        if on("sign-lost"):
            return abs(result)
        if on("rounded"):
            return float(round(result))
        return torch.tensor(result) if on("returned-a-tensor") else result

    return block


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
