"""Fused attention gives what ours gives, and trains the same weights."""

import torch
from comparison import assert_close
from torch.nn import functional as F

from lab_transformer.fused import fused
from lab_transformer.gpt import GPT


def gpt():
    torch.manual_seed(0)
    return GPT(13, 2, 24, 3, 8).double()


def test_a_fused_twin_gives_the_same_logits_and_gradients():
    model, tokens = gpt(), torch.randint(13, (3, 7))
    gradients = []
    for one in (model, fused(model)):
        model.zero_grad()
        logits = one(tokens)
        assert_close(logits, model(tokens))
        logits.sin().sum().backward()
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})
    assert_close(gradients[1], gradients[0])


def test_who_trains_the_twin_trains_the_model():
    model, tokens = gpt(), torch.randint(13, (3, 8))
    twin = fused(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = F.cross_entropy(twin(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert_close(twin(tokens), model(tokens))
    assert len(list(twin.parameters())) == len(list(model.parameters()))


def test_the_model_itself_goes_on_showing_its_weights():
    model = gpt()
    fused(model)
    x = torch.randn(2, 5, 24, dtype=torch.float64)
    assert model.blocks[0].attention(x, x, x)[1].shape == (2, 3, 5, 5)
