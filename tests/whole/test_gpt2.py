"""The `transformers` package as an oracle: GPT-2 weights and beam search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from lab_transformer.decoding import beam_search, greedy_decode
from lab_transformer.generation import gpt_step
from lab_transformer.gpt import gpt_from_gpt2

if TYPE_CHECKING:
    from transformers import GPT2LMHeadModel

BOS, EOS, PAD = 0, 1, 2


def tiny_gpt2(seed: int = 0) -> GPT2LMHeadModel:
    """A random GPT-2 with weights large enough that words differ, and no bias of zero."""
    from transformers import GPT2Config, GPT2LMHeadModel  # seconds, where no other process needs it

    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=11,
        n_positions=12,
        n_embd=24,
        n_layer=2,
        n_head=3,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    model = GPT2LMHeadModel(config).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


@pytest.mark.parametrize("length", [1, 7, 12])
def test_gpt2_weights_give_gpt2_logits(length):
    theirs = tiny_gpt2()
    ours = gpt_from_gpt2(theirs.state_dict(), n_heads=3)
    tokens = torch.randint(11, (2, length))
    torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=1e-10, atol=1e-10)


def test_gpt2_weights_give_gpt2_gradients():
    theirs = tiny_gpt2()
    ours = gpt_from_gpt2(theirs.state_dict(), n_heads=3)
    tokens = torch.randint(11, (2, 7))
    for logits in (ours(tokens), theirs(tokens).logits):
        logits.sin().sum().backward()
    pairs = [
        (ours.token_embedding.weight, theirs.transformer.wte.weight),
        (ours.position_embedding.weight, theirs.transformer.wpe.weight),
        (ours.blocks[0].norm_1.bias, theirs.transformer.h[0].ln_1.bias),
        (ours.blocks[1].feed_forward.w_1.bias, theirs.transformer.h[1].mlp.c_fc.bias),
    ]
    for mine, other in pairs:
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-9, atol=1e-9)


def test_a_state_dict_without_the_language_head_loads_too():
    theirs = tiny_gpt2()
    ours = gpt_from_gpt2(theirs.transformer.state_dict(), n_heads=3)
    tokens = torch.randint(11, (2, 7))
    torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=1e-10, atol=1e-10)


def test_loaded_weights_are_a_copy():
    theirs = tiny_gpt2()
    ours = gpt_from_gpt2(theirs.state_dict(), n_heads=3)
    torch.nn.init.zeros_(ours.token_embedding.weight)
    assert theirs.transformer.wte.weight.abs().sum() > 0


@pytest.mark.parametrize("seed", range(4))
def test_greedy_text_equals_transformers(seed):
    theirs = tiny_gpt2(seed)
    ours = gpt_from_gpt2(theirs.state_dict(), n_heads=3)
    expected = theirs.generate(torch.tensor([[BOS]]), max_length=10, do_sample=False)[0].tolist()
    assert greedy_decode(gpt_step(ours), BOS, EOS, 10) == expected


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("width", [2, 3, 5])
def test_beams_equal_transformers(seed, width):
    theirs = tiny_gpt2(seed)
    ours = gpt_from_gpt2(theirs.state_dict(), n_heads=3)
    # "never" stops only when no beam can still win, which is what we do.
    expected = theirs.generate(
        torch.tensor([[BOS]]),
        max_length=8,
        num_beams=width,
        num_return_sequences=width,
        length_penalty=0.0,
        early_stopping="never",
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
    )
    found = beam_search(gpt_step(ours), BOS, EOS, width, 8)
    ended = [
        tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens
        for tokens in expected.sequences.tolist()
    ]
    assert [tokens for tokens, _ in found] == ended
    # transformers adds up in single precision.
    assert [score for _, score in found] == pytest.approx(expected.sequences_scores.tolist(), abs=1e-4)
