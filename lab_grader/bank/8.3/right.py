"""Exercise 8.3, other right ways."""

from __future__ import annotations

import heapq
import math
from typing import Any

import torch

from lab_transformer.decoding import length_normalised

Pair = tuple[list[int], float]


def with_frozen_beams(
    step: Any, bos_id: int, eos_id: int, beam_width: int, max_length: int, length_penalty: float = 0.0
) -> Any:
    """Let finished beams keep their place and compete with the rest."""
    beams: list[Pair] = [([bos_id], 0.0)]

    def finished(tokens: list[int]) -> bool:
        return tokens[-1] == eos_id

    for _ in range(max_length - 1):
        candidates = []
        for tokens, total in beams:
            if finished(tokens):
                candidates.append((tokens, total))
                continue
            row = step(torch.tensor([tokens]))[0].float()
            candidates += [([*tokens, i], total + value.item()) for i, value in enumerate(row)]
        beams = sorted(candidates, key=lambda pair: pair[1], reverse=True)[:beam_width]
        if all(finished(tokens) for tokens, _ in beams):
            break
    done = [(t, length_normalised(total, len(t) - 1, length_penalty)) for t, total in beams]
    return sorted(done, key=lambda pair: pair[1], reverse=True)


def with_beams_that_leave(
    step: Any, bos_id: int, eos_id: int, beam_width: int, max_length: int, length_penalty: float = 0.0
) -> Any:
    """Take finished sequences out of the best; those that go on are fewer at this step."""
    beams: list[Pair] = [([bos_id], 0.0)]
    done: list[Pair] = []
    while beams and len(beams[0][0]) < max_length:
        table = step(torch.tensor([tokens for tokens, _ in beams]))
        best = heapq.nlargest(
            beam_width,
            (
                (total + value, [*tokens, i])
                for (tokens, total), row in zip(beams, table.tolist(), strict=True)
                for i, value in enumerate(row)
                if value > -math.inf
            ),
        )
        done += [(tokens, total) for total, tokens in best if tokens[-1] == eos_id]
        beams = [(tokens, total) for total, tokens in best if tokens[-1] != eos_id]
    ranked = [(length_normalised(total, len(t) - 1, length_penalty), t) for t, total in done + beams]
    ranked.sort(key=lambda pair: pair[0], reverse=True)
    return [(tokens, score) for score, tokens in ranked[:beam_width]]


def with_a_narrowing_beam(
    step: Any, bos_id: int, eos_id: int, beam_width: int, max_length: int, length_penalty: float = 0.0
) -> Any:
    """Give every finished sequence one place of the beam for good, in tensors."""
    prefixes, totals = torch.full((1, 1), bos_id), torch.zeros(1, 1)
    width, done = beam_width, []
    while width and len(prefixes) and prefixes.shape[1] < max_length:
        summed = totals + step(prefixes).float()
        best, index = summed.reshape(-1).topk(min(width, summed.numel()))
        best, index = best[best > -math.inf], index[best > -math.inf]
        parent = torch.div(index, summed.shape[1], rounding_mode="floor")
        prefixes = torch.hstack([prefixes[parent], (index % summed.shape[1]).unsqueeze(1)])
        over = prefixes[:, -1] == eos_id
        done += list(zip(prefixes[over].tolist(), best[over].tolist(), strict=True))
        prefixes, totals = prefixes[~over], best[~over].unsqueeze(1)
        width -= int(over.sum())
    done += list(zip(prefixes.tolist(), totals.flatten().tolist(), strict=True))
    scored = [(t, length_normalised(total, len(t) - 1, length_penalty)) for t, total in done]
    return sorted(scored, key=lambda pair: -pair[1])[:beam_width]


def with_padded_finished_beams(
    step: Any, bos_id: int, eos_id: int, beam_width: int, max_length: int, length_penalty: float = 0.0
) -> Any:
    """Keep finished beams in the tensor: they can only be followed by end tokens, at no cost."""
    prefixes, totals = torch.tensor([[bos_id]]), torch.zeros(1)
    over = torch.zeros(1, dtype=torch.bool)
    lengths = torch.zeros(1, dtype=torch.long)
    for _ in range(max_length - 1):
        rows = step(prefixes).float()
        free = torch.full_like(rows, -math.inf)
        free[:, eos_id] = 0.0
        rows = torch.where(over[:, None], free, rows)
        summed = (totals[:, None] + rows).flatten()
        totals, index = summed.topk(min(beam_width, len(summed)))
        parent, token = index // rows.shape[1], index % rows.shape[1]
        prefixes = torch.cat([prefixes[parent], token[:, None]], dim=1)
        lengths = lengths[parent] + (~over[parent]).long()
        over = over[parent] | (token == eos_id)
        if over.all():
            break
    pairs = [
        (tokens[: length + 1], length_normalised(total, length, length_penalty))
        for tokens, length, total in zip(
            prefixes.tolist(), lengths.tolist(), totals.tolist(), strict=True
        )
    ]
    return sorted(pairs, key=lambda pair: -pair[1])
