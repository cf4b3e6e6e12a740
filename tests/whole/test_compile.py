"""The models compile as one graph, and the compiled ones give the same.

The graph is taken and run, forward and backward, but not made into machine code: that takes half a
minute for a single module, and tests the compiler rather than the modules.
"""

import pytest
import torch
from comparison import assert_close

from lab_transformer.attention import MultiHeadAttention
from lab_transformer.decoder import Decoder
from lab_transformer.encoder import EncoderBlock
from lab_transformer.gpt import GPT
from lab_transformer.masking import causal_mask
from lab_transformer.transformer import Transformer
from lab_transformer.variants import Llama


@pytest.fixture(autouse=True)
def _nothing_compiled_before():
    torch.compiler.reset()


def assert_compiled_is_same(module, *inputs, backend):
    expected, compiled = module(*inputs), torch.compile(module, fullgraph=True, backend=backend)
    found = compiled(*inputs)
    assert_close(found, expected)
    gradients = []
    for result in (expected, found):
        loss = (result[0] if isinstance(result, tuple) else result).sin().sum()
        gradients.append(torch.autograd.grad(loss, list(module.parameters())))
    assert_close(*gradients)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_multi_head_attention_is_one_graph(backend):
    query, memory = torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    mask = torch.rand(5, 7) < 0.5
    assert_compiled_is_same(MultiHeadAttention(24, 3), query, memory, memory, mask, backend=backend)


@pytest.mark.parametrize("norm_first", [True, False])
def test_encoder_block_is_one_graph(norm_first):
    block = EncoderBlock(24, 3, 40, norm_first)
    assert_compiled_is_same(block, torch.randn(2, 5, 24), causal_mask(5), backend="eager")


def test_decoder_is_one_graph():
    decoder = Decoder(1, 24, 3, 40)
    assert_compiled_is_same(decoder, torch.randn(2, 5, 24), torch.randn(2, 7, 24), backend="eager")


def test_transformer_is_one_graph():
    model = Transformer(11, 13, n_layers=1, d_model=24, n_heads=3, d_ff=40)
    assert_compiled_is_same(
        model, torch.randint(11, (2, 7)), torch.randint(13, (2, 5)), backend="eager"
    )


def test_gpt_is_one_graph():
    model = GPT(13, n_layers=1, d_model=24, n_heads=3, max_length=16)
    assert_compiled_is_same(model, torch.randint(13, (2, 7)), backend="eager")


def test_llama_is_one_graph():
    assert_compiled_is_same(Llama(11, 1, 24, 6, 3, 40), torch.randint(11, (2, 7)), backend="eager")
