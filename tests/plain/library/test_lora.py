"""LoRA: the layer, and models that have it inside."""

import copy

import pytest
import torch
from comparison import assert_close
from torch import nn
from torch.nn import functional as F

from lab_transformer.generation import generate
from lab_transformer.gpt import GPT
from lab_transformer.lora import LoRALinear, add_lora, merge_lora, trainable


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def learned(layer):
    """Give the thin matrices other numbers, as training would."""
    for matrix in (layer.down, layer.up):
        nn.init.normal_(matrix)
    return layer


@pytest.mark.parametrize("bias", [True, False])
def test_it_is_a_linear_layer_of_the_merged_weight(bias):
    base = nn.Linear(7, 5, bias=bias).double()
    layer = learned(LoRALinear(base, 3, 6.0, generator()))
    x = torch.randn(2, 4, 7, dtype=torch.float64)
    expected = F.linear(x, base.weight + 2.0 * (layer.down @ layer.up).T, base.bias)
    assert_close(layer(x), expected)
    assert_close(F.linear(x, layer.merged_weight(), base.bias), expected)
    # In the place of a layer whose numbers are used, and not the layer.
    assert_close(F.linear(x, layer.weight, layer.bias), expected)


def test_an_optimizer_changes_the_thin_matrices_only():
    base = nn.Linear(7, 5)
    before = copy.deepcopy(base)
    layer = LoRALinear(base, 3, 6.0, generator())
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    x, y = torch.randn(50, 7), torch.randn(50, 5)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = F.mse_loss(layer(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    assert_close(dict(base.named_parameters()), dict(before.named_parameters()))
    assert list(trainable(layer)) == ["down", "up"]


@pytest.mark.parametrize("rank", [0, -1, 6])
def test_a_rank_that_is_not_thin_is_refused(rank):
    with pytest.raises(ValueError, match=f"rank is from 1 to 5 for a layer from 7 to 5, not {rank}"):
        LoRALinear(nn.Linear(7, 5), rank, 1.0, generator())


@pytest.mark.parametrize("names", [("w_q", "w_v"), ("w_q", "w_k", "w_v", "w_o"), ("w_1", "w_2")])
def test_a_model_with_lora_starts_as_it_was_and_merges_into_what_it_became(names):
    torch.manual_seed(0)
    model = GPT(13, 2, 24, 3, 8)
    tokens = torch.randint(13, (2, 7))
    before = model(tokens)
    add_lora(model, 2, 4.0, generator(), names)
    assert_close(model(tokens), before)
    assert len(trainable(model)) == 2 * len(names) * 2
    assert {name.rpartition(".")[2] for name in trainable(model)} == {"down", "up"}
    for layer in model.modules():
        if isinstance(layer, LoRALinear):
            learned(layer)
    became = model(tokens)
    assert (became - before).abs().max() > 1e-3
    merge_lora(model)
    assert not any(isinstance(part, LoRALinear) for part in model.modules())
    assert_close(model(tokens), became)
    assert len(trainable(model)) == len(list(model.parameters()))


def test_merging_leaves_the_wrapped_layers_as_they_were():
    model = GPT(13, 1, 24, 3, 8)
    base = model.blocks[0].attention.w_q
    numbers = base.weight.detach().clone()
    add_lora(model, 2, 4.0, generator(), ("w_q",))
    learned(model.blocks[0].attention.w_q)
    merge_lora(model)
    assert torch.equal(base.weight, numbers)


def test_a_model_with_lora_writes_what_the_merged_one_writes():
    torch.manual_seed(0)
    model = add_lora(GPT(13, 2, 24, 3, 8), 2, 4.0, generator()).eval()
    for layer in model.modules():
        if isinstance(layer, LoRALinear):
            learned(layer)
    text = generate(model, [3], 12, generator=generator(1))
    assert text == generate(merge_lora(model), [3], 12, generator=generator(1))


def test_layers_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="no layer named w_x or w_y"):
        add_lora(GPT(13, 1, 24, 3, 8), 2, 4.0, generator(), ("w_x", "w_y"))
    with pytest.raises(ValueError, match="attention is no linear layer but a MultiHeadAttention"):
        add_lora(GPT(13, 1, 24, 3, 8), 2, 4.0, generator(), ("attention",))
