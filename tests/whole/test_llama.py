"""The `transformers` package as an oracle: a LLaMA's weights in our blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from lab_transformer.variants import Llama, llama_from_transformers

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

HEADS, EPS = 6, 1e-3


def tiny_llama(kv_heads: int = 3, seed: int = 0, tied: bool = False) -> LlamaForCausalLM:
    """A random LLaMA with weights large enough that words differ."""
    from transformers import LlamaConfig, LlamaForCausalLM  # seconds, where no other process needs it

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=11,
        hidden_size=48,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=kv_heads,
        rms_norm_eps=EPS,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
    )
    model = LlamaForCausalLM(config).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def ours_from(theirs: LlamaForCausalLM) -> Llama:
    return llama_from_transformers(theirs.state_dict(), HEADS, EPS)


# Their norms and their sines are computed in single precision, whatever the model's.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
@pytest.mark.parametrize("length", [1, 9])
def test_llama_weights_give_llama_logits(kv_heads, length):
    theirs = tiny_llama(kv_heads)
    tokens = torch.randint(11, (2, length))
    torch.testing.assert_close(ours_from(theirs)(tokens), theirs(tokens).logits, **CLOSE)


def test_one_block_gives_what_their_layer_gives():
    theirs = tiny_llama()
    tokens = torch.randint(11, (2, 9))
    states = theirs(tokens, output_hidden_states=True).hidden_states
    torch.testing.assert_close(ours_from(theirs).blocks[0](states[0]), states[1], **CLOSE)


def test_padding_in_front_is_hidden_as_theirs_is():
    theirs = tiny_llama()
    tokens, real = torch.randint(11, (2, 9)), torch.ones(2, 9, dtype=torch.bool)
    real[1, :4] = False
    # Their positions count from the first real word; only distances matter, so ours need not.
    expected = theirs(tokens, attention_mask=real.long()).logits
    found = ours_from(theirs)(tokens, real[:, None, None])
    torch.testing.assert_close(found[real], expected[real], **CLOSE)


def test_llama_weights_give_llama_gradients():
    theirs = tiny_llama()
    ours = ours_from(theirs)
    tokens = torch.randint(11, (2, 9))
    for logits in (ours(tokens), theirs(tokens).logits):
        logits.sin().sum().backward()
    layer, block = theirs.model.layers[1], ours.blocks[1]
    pairs = [
        (ours.token_embedding.weight, theirs.model.embed_tokens.weight),
        (ours.output.weight, theirs.lm_head.weight),
        (block.norm_1.weight, layer.input_layernorm.weight),
        (block.w_v.weight, layer.self_attn.v_proj.weight),
        (block.feed_forward.w_gate.weight, layer.mlp.gate_proj.weight),
        (block.feed_forward.w_down.weight, layer.mlp.down_proj.weight),
    ]
    for mine, other in pairs:
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-4)


def test_without_the_other_order_of_columns_the_logits_differ(monkeypatch):
    theirs = tiny_llama()
    tokens = torch.randint(11, (2, 9))
    monkeypatch.setattr("lab_transformer.variants._interleaved", lambda weight, d_head: weight)
    assert (ours_from(theirs)(tokens) - theirs(tokens).logits).abs().max() > 0.01


def test_a_tied_output_and_a_state_without_a_head_load_too():
    theirs = tiny_llama(tied=True)
    tokens = torch.randint(11, (2, 9))
    state = {name: tensor for name, tensor in theirs.state_dict().items() if "lm_head" not in name}
    ours = llama_from_transformers(state, HEADS, EPS)
    torch.testing.assert_close(ours(tokens), theirs(tokens).logits, **CLOSE)


def test_loaded_weights_are_a_copy():
    theirs = tiny_llama()
    torch.nn.init.zeros_(ours_from(theirs).token_embedding.weight)
    assert theirs.model.embed_tokens.weight.abs().sum() > 0


def test_weights_that_have_no_place_are_named():
    state = dict(tiny_llama().state_dict())
    state["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(48)
    with pytest.raises(ValueError, match=r"no place for layers\.0\.self_attn\.q_proj\.bias"):
        llama_from_transformers(state, HEADS, EPS)
