"""Exercise 11.1, the usual way."""

import torch


def mask_tokens(tokens, mask_id, vocab_size, special_ids, generator, rate=0.15):
    source = generator
    special = sorted({mask_id, *special_ids})
    barred = special
    ids = range(vocab_size)
    ordinary = torch.tensor([n for n in ids if n not in barred])
    protected = torch.isin(tokens, torch.tensor(special))

    def draw():
        return torch.rand(tokens.shape, generator=source, dtype=torch.float64)

    lot = draw()
    chosen = lot < rate
    chosen = chosen & ~protected
    labels = torch.where(chosen, tokens, -100)
    places = chosen
    fate = draw()
    rolls = draw()
    picks = (rolls * len(ordinary)).long()
    random = ordinary[picks].to(tokens.dtype)
    masked = places & (fate < 0.8)
    replaced = places & (fate >= 0.8) & (fate < 0.9)
    inputs = torch.where(masked, mask_id, tokens)
    inputs = torch.where(replaced, random, inputs)
    return inputs, labels
