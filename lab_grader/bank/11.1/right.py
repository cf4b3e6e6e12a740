"""Exercise 11.1, other right ways."""

from __future__ import annotations

from typing import Any

import torch


def mask_by_bernoulli(
    tokens: Any, mask_id: int, vocab_size: int, special_ids: Any, generator: Any, rate: float = 0.15
) -> Any:
    """As libraries do it: probabilities, and half of what is left becomes random."""
    inputs, labels = tokens.clone(), tokens.clone()
    special = set(special_ids) | {mask_id}
    probability = torch.full(tokens.shape, rate)
    for token in special:
        probability.masked_fill_(tokens == token, 0.0)
    chosen = torch.bernoulli(probability, generator=generator).bool()
    labels[~chosen] = -100
    masked = torch.bernoulli(torch.full(tokens.shape, 0.8), generator=generator).bool() & chosen
    inputs[masked] = mask_id
    half = torch.bernoulli(torch.full(tokens.shape, 0.5), generator=generator).bool()
    replaced = half & chosen & ~masked
    ordinary = torch.tensor(sorted(set(range(vocab_size)) - special), dtype=tokens.dtype)
    picks = torch.randint(len(ordinary), (int(replaced.sum()),), generator=generator)
    inputs[replaced] = ordinary[picks]
    return inputs, labels


def mask_in_a_loop(
    tokens: Any, mask_id: int, vocab_size: int, special_ids: Any, generator: Any, rate: float = 0.15
) -> Any:
    special = {*special_ids, mask_id}
    ordinary = [n for n in range(vocab_size) if n not in special]
    chances = iter(torch.rand(3 * tokens.numel(), generator=generator).tolist())
    inputs, labels = [], []
    for token in tokens.flatten().tolist():
        choice, fate, pick = next(chances), next(chances), next(chances)
        if token in special or choice >= rate:
            inputs.append(token)
            labels.append(-100)
            continue
        labels.append(token)
        if fate < 0.1:
            inputs.append(ordinary[int(pick * len(ordinary))])
        elif fate < 0.2:
            inputs.append(token)
        else:
            inputs.append(mask_id)
    return (
        torch.tensor(inputs, dtype=tokens.dtype).reshape(tokens.shape),
        torch.tensor(labels, dtype=tokens.dtype).reshape(tokens.shape),
    )


def mask_only_where_chosen(
    tokens: Any, mask_id: int, vocab_size: int, special_ids: Any, generator: Any, rate: float = 0.15
) -> Any:
    """Draw a fate for the chosen ones alone, as a number from 0 to 9."""
    allowed = torch.ones(vocab_size, dtype=torch.bool)
    allowed[[mask_id, *special_ids]] = False
    ordinary = allowed.nonzero().squeeze(1).to(tokens.dtype)
    chosen = (torch.rand(tokens.shape, generator=generator) < rate) & allowed[tokens.long()]
    labels = torch.full_like(tokens, -100)
    labels[chosen] = tokens[chosen]
    here = tokens[chosen]
    fate = torch.randint(10, here.shape, generator=generator)
    weights = torch.ones(len(ordinary))
    random = here.clone()
    if len(here):
        random = ordinary[torch.multinomial(weights, len(here), replacement=True, generator=generator)]
    here = torch.where(fate == 9, random, here)
    here = here.masked_fill(fate < 8, mask_id)
    inputs = tokens.clone()
    inputs[chosen] = here
    return inputs, labels


def mask_by_redrawing(
    tokens: Any, mask_id: int, vocab_size: int, special_ids: Any, generator: Any, rate: float = 0.15
) -> Any:
    """Draw any id, and again where it is a special one."""
    special = torch.tensor([mask_id, *special_ids])
    random = torch.randint(0, vocab_size, tokens.shape, generator=generator, dtype=tokens.dtype)
    while (bad := torch.isin(random, special)).any():
        again = torch.randint(0, vocab_size, (int(bad.sum()),), generator=generator, dtype=tokens.dtype)
        random = random.masked_scatter(bad, again)
    fates = torch.tensor([0.8, 0.1, 0.1])
    fate = torch.multinomial(fates, tokens.numel(), replacement=True, generator=generator)
    options = torch.stack([torch.full_like(tokens, mask_id), random, tokens])
    damaged = options.gather(0, fate.reshape(1, *tokens.shape))[0]
    chosen = (torch.rand(tokens.shape, generator=generator) < rate) & ~torch.isin(tokens, special)
    return torch.where(chosen, damaged, tokens), tokens.masked_fill(~chosen, -100)
