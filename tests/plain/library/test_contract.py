"""What holds for every block: inputs stay as they are, dtype is kept, gradients arrive."""

import pytest
import torch
from torch import Tensor, nn

from lab_transformer.attention import (
    MultiHeadAttention,
    contextualize,
    cross_attention,
    merge_heads,
    project_qkv,
    scaled_dot_product_attention,
    similarity_scores,
    softmax,
    split_heads,
)
from lab_transformer.decoder import CausalBlock, Decoder, DecoderBlock
from lab_transformer.decoding import CachedAttention, sample_token
from lab_transformer.embedding import embed
from lab_transformer.encoder import Encoder, EncoderBlock
from lab_transformer.feedforward import FeedForward, feed_forward
from lab_transformer.gpt import GPT
from lab_transformer.loss import sequence_loss
from lab_transformer.masking import masked_softmax
from lab_transformer.normalization import batch_norm, layer_norm, post_norm, pre_norm
from lab_transformer.positional import add_positions, rotate
from lab_transformer.rnn import clip_gradients, rnn_cell, rnn_forward
from lab_transformer.transformer import Transformer
from lab_transformer.variants import (
    Llama,
    MixtureOfExperts,
    ModernBlock,
    balance_loss,
    grouped_query_attention,
    rms_norm,
    route,
    swiglu,
    tiled_attention,
)

MASK = torch.tensor([[True, True, False, True, False, True, True]])
TARGETS = torch.tensor([[3, 4, 0, 1, 5], [1, 0, 0, 2, 2]])
MEMORY = MultiHeadAttention(24, 3)

# Every block with the shapes of the inputs that it reads.
FUNCTIONS = {
    "embed": (embed, [(2, 5, 11), (11, 8)]),
    "rnn_cell": (rnn_cell, [(3, 6), (3, 4), (6, 4), (4, 4), (4,)]),
    "rnn_forward": (rnn_forward, [(3, 7, 6), (3, 4), (6, 4), (4, 4), (4,)]),
    "clip_gradients": (lambda *tensors: tuple(clip_gradients(list(tensors), 0.5)), [(5, 7), (3,)]),
    "similarity_scores": (similarity_scores, [(2, 5, 8)]),
    "softmax": (softmax, [(2, 5, 7)]),
    "contextualize": (contextualize, [(2, 5, 8)]),
    "project_qkv": (project_qkv, [(2, 5, 8), (8, 3), (8, 3), (8, 4)]),
    "scaled_dot_product_attention": (
        lambda q, k, v: scaled_dot_product_attention(q, k, v, MASK.to(q.device)),
        [(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 9)],
    ),
    "split_heads": (lambda x: split_heads(x, 3), [(2, 5, 24)]),
    "merge_heads": (merge_heads, [(2, 3, 5, 8)]),
    "add_positions": (add_positions, [(2, 5, 8), (5, 8)]),
    "rotate": (lambda x: rotate(x, torch.arange(5, device=x.device)), [(2, 5, 8)]),
    "layer_norm": (layer_norm, [(2, 5, 8), (8,), (8,)]),
    "batch_norm": (batch_norm, [(2, 5, 8), (8,), (8,)]),
    "batch_norm with padding": (
        lambda x, gain, bias: batch_norm(x, gain, bias, MASK.to(x.device).expand(2, 7)),
        [(2, 7, 8), (8,), (8,)],
    ),
    "pre_norm": (lambda x: pre_norm(x, torch.sin, torch.tanh), [(2, 5, 8)]),
    "post_norm": (lambda x: post_norm(x, torch.sin, torch.tanh), [(2, 5, 8)]),
    "feed_forward": (feed_forward, [(2, 5, 8), (8, 13), (13,), (13, 8), (8,)]),
    "masked_softmax": (lambda scores: masked_softmax(scores, MASK.to(scores.device)), [(2, 5, 7)]),
    "sequence_loss": (
        lambda logits: sequence_loss(logits, TARGETS.to(logits.device), 0, 0.1),
        [(2, 5, 11)],
    ),
    "rms_norm": (rms_norm, [(2, 5, 8), (8,)]),
    "swiglu": (swiglu, [(2, 5, 8), (8, 13), (8, 13), (13, 8)]),
    "grouped_query_attention": (
        lambda q, k, v: grouped_query_attention(q, k, v, MASK.to(q.device)),
        [(2, 6, 5, 8), (2, 3, 7, 8), (2, 3, 7, 9)],
    ),
    "tiled_attention": (
        lambda q, k, v: tiled_attention(q, k, v, 3, MASK.to(q.device)),
        [(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 9)],
    ),
    "route": (lambda logits: route(logits, 2)[0], [(2, 5, 4)]),
    "balance_loss": (
        lambda probabilities: balance_loss(probabilities, torch.zeros_like(probabilities).long()),
        [(2, 5, 4)],
    ),
}
MODULES = {
    "MultiHeadAttention": (MEMORY, [(2, 5, 24), (2, 7, 24), (2, 7, 24)]),
    "FeedForward": (FeedForward(24, 40), [(2, 5, 24)]),
    "EncoderBlock": (EncoderBlock(24, 3, 40), [(2, 5, 24)]),
    "Encoder": (Encoder(2, 24, 3, 40), [(2, 5, 24)]),
    "CausalBlock": (CausalBlock(24, 3, 40), [(2, 5, 24)]),
    "DecoderBlock": (DecoderBlock(24, 3, 40), [(2, 5, 24), (2, 7, 24)]),
    "Decoder": (Decoder(2, 24, 3, 40), [(2, 5, 24), (2, 7, 24)]),
    "ModernBlock": (ModernBlock(24, 6, 3, 40), [(2, 5, 24)]),
    "MixtureOfExperts": (MixtureOfExperts(24, 40, 3, 2), [(2, 5, 24)]),
}

functions = pytest.mark.parametrize(("block", "shapes"), FUNCTIONS.values(), ids=FUNCTIONS)
modules = pytest.mark.parametrize(("block", "shapes"), MODULES.values(), ids=MODULES)


def results(block, inputs) -> tuple[Tensor, ...]:
    result = block(*inputs)
    return result if isinstance(result, tuple) else (result,)


def assert_keeps_the_contract(block, inputs) -> None:
    copies = [tensor.detach().clone() for tensor in inputs]
    found = results(block, inputs)
    for tensor, copy in zip(inputs, copies, strict=True):
        assert torch.equal(tensor, copy), "an input was changed"
    for result in found:
        assert result.dtype == inputs[0].dtype
        assert result.device == inputs[0].device
    for gradient in torch.autograd.grad(sum(result.sin().sum() for result in found), inputs):
        assert gradient.isfinite().all()
        assert gradient.abs().sum() > 0


@functions
def test_a_function_keeps_inputs_and_dtype_and_lets_gradients_through(block, shapes, draw):
    assert_keeps_the_contract(block, [draw(*shape) for shape in shapes])


@modules
def test_a_module_keeps_inputs_and_dtype_and_lets_gradients_through(block, shapes, draw, device, dtype):
    module = block.to(device, dtype)
    assert_keeps_the_contract(module, [draw(*shape) for shape in shapes])


@functions
def test_a_function_keeps_half_precision(block, shapes, device):
    inputs = [torch.randn(shape).to(device, torch.bfloat16) for shape in shapes]
    assert all(result.dtype == torch.bfloat16 for result in results(block, inputs))


@modules
def test_every_weight_of_a_module_gets_a_gradient(block, shapes, draw, device, dtype):
    module = block.to(device, dtype)
    module.zero_grad()
    results(module, [draw(*shape) for shape in shapes])[0].sin().sum().backward()
    silent = [
        name
        for name, parameter in module.named_parameters()
        if parameter.grad is None or (parameter.grad == 0).all()
    ]
    # A bias that is added to all keys alike moves no weight: softmax takes it out again.
    assert [name for name in silent if not name.endswith("w_k.bias")] == []


@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (Transformer(11, 13, d_model=24, n_heads=3, d_ff=40), [(2, 7), (2, 5)]),
        (GPT(11, 2, 24, 3, 16), [(2, 7)]),
        (Llama(11, 2, 24, 6, 3, 40), [(2, 7)]),
    ],
    ids=["Transformer", "GPT", "Llama"],
)
def test_every_weight_of_a_model_gets_a_gradient(model: nn.Module, shapes, device, dtype):
    model.to(device, dtype).zero_grad()
    tokens = [torch.randint(1, 11, shape, device=device) for shape in shapes]
    copies = [tensor.clone() for tensor in tokens]
    logits = model(*tokens)
    assert logits.dtype == dtype
    logits.sin().sum().backward()
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(tokens, copies, strict=True))
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_cross_attention_lets_gradients_through_on_both_sides(draw, device, dtype):
    attention = MEMORY.to(device, dtype)
    assert_keeps_the_contract(
        lambda states, memory: cross_attention(states, memory, attention),
        [draw(2, 5, 24), draw(2, 7, 24)],
    )


def test_cached_attention_lets_gradients_through(draw, device, dtype):
    attention = MEMORY.to(device, dtype)
    assert_keeps_the_contract(lambda x: CachedAttention(attention)(x, x, x), [draw(2, 5, 24)])


def test_sampling_leaves_the_logits_as_they_were(draw):
    logits = draw(3, 7).detach()
    copy = logits.clone()
    sample_token(logits, temperature=0.5, top_k=3, top_p=0.9)
    assert torch.equal(logits, copy)
