"""Encoder and decoder, block and stack, against nn.TransformerEncoder and nn.TransformerDecoder."""

import pytest
import torch
from comparison import (
    assert_close,
    assert_same_weight_gradients,
    random_weights,
    strided,
    torch_state,
)
from torch import nn

from lab_transformer.decoder import CausalBlock, Decoder, DecoderBlock
from lab_transformer.encoder import Encoder, EncoderBlock
from lab_transformer.masking import causal_mask
from lab_transformer.transformer import Transformer

D_MODEL, HEADS, D_FF = 24, 3, 40

both_norm_orders = pytest.mark.parametrize("norm_first", [True, False], ids=["pre-norm", "post-norm"])


def torch_layer(kind, norm_first):
    return kind(D_MODEL, HEADS, D_FF, dropout=0.0, batch_first=True, norm_first=norm_first)


def torch_encoder(n_layers, norm_first):
    layer = torch_layer(nn.TransformerEncoderLayer, norm_first)
    norm = nn.LayerNorm(D_MODEL) if norm_first else None
    return nn.TransformerEncoder(layer, n_layers, norm, enable_nested_tensor=False)


def torch_decoder(n_layers, norm_first):
    layer = torch_layer(nn.TransformerDecoderLayer, norm_first)
    return nn.TransformerDecoder(layer, n_layers, nn.LayerNorm(D_MODEL) if norm_first else None)


def same_weights(ours, theirs, device, dtype):
    random_weights(ours)
    ours.to(device, dtype)
    theirs.to(device, dtype).load_state_dict(torch_state(ours))
    return ours, theirs


def real_words(device, length, *lengths):
    """True for the words of sentences of the given lengths, False for their padding."""
    return torch.arange(length, device=device) < torch.tensor(lengths, device=device)[:, None]


def assert_same_training(ours, theirs, inputs, our_options, their_options, compared=slice(None)):
    """Compare outputs, gradients of the inputs and gradients of all weights."""
    results, gradients = [], []
    for module, options in ((ours, our_options), (theirs, their_options)):
        result = module(*inputs, **options)
        result = (result[0] if isinstance(result, tuple) else result)[compared]
        gradients.append(torch.autograd.grad(result.sin().sum(), inputs, retain_graph=True))
        result.sin().sum().backward()
        results.append(result.detach())
    assert_close(*results)
    assert_close(*gradients)
    assert_same_weight_gradients(ours, theirs)


@both_norm_orders
@pytest.mark.parametrize("length", [1, 7])
def test_encoder_block_equals_torch(norm_first, length, draw, device, dtype):
    ours, theirs = same_weights(
        EncoderBlock(D_MODEL, HEADS, D_FF, norm_first),
        torch_layer(nn.TransformerEncoderLayer, norm_first),
        device,
        dtype,
    )
    assert_same_training(ours, theirs, [draw(2, length, D_MODEL)], {}, {})


@both_norm_orders
def test_encoder_block_hides_padding_as_torch_does(norm_first, draw, device, dtype):
    ours, theirs = same_weights(
        EncoderBlock(D_MODEL, HEADS, D_FF, norm_first),
        torch_layer(nn.TransformerEncoderLayer, norm_first),
        device,
        dtype,
    )
    real = real_words(device, 7, 7, 4)
    assert_same_training(
        ours,
        theirs,
        [strided(draw(2, 7, D_MODEL))],
        {"mask": real[:, None, None]},
        {"src_key_padding_mask": ~real},
    )


@both_norm_orders
@pytest.mark.parametrize("n_layers", [1, 3])
def test_encoder_equals_torch(norm_first, n_layers, draw, device, dtype):
    ours, theirs = same_weights(
        Encoder(n_layers, D_MODEL, HEADS, D_FF, norm_first),
        torch_encoder(n_layers, norm_first),
        device,
        dtype,
    )
    real = real_words(device, 7, 7, 4)
    assert_same_training(
        ours,
        theirs,
        [draw(2, 7, D_MODEL)],
        {"mask": real[:, None, None]},
        {"src_key_padding_mask": ~real},
    )


@both_norm_orders
def test_causal_block_equals_a_torch_encoder_layer_under_a_causal_mask(norm_first, draw, device, dtype):
    ours, theirs = same_weights(
        CausalBlock(D_MODEL, HEADS, D_FF, norm_first),
        torch_layer(nn.TransformerEncoderLayer, norm_first),
        device,
        dtype,
    )
    real = real_words(device, 7, 7, 4)
    assert_same_training(
        ours,
        theirs,
        [draw(2, 7, D_MODEL)],
        {"mask": real[:, None, None]},
        {"src_mask": ~causal_mask(7).to(device), "src_key_padding_mask": ~real},
    )


@both_norm_orders
@pytest.mark.parametrize(("query", "key"), [(5, 7), (7, 5), (1, 7), (5, 1)])
def test_decoder_block_equals_torch(norm_first, query, key, draw, device, dtype):
    ours, theirs = same_weights(
        DecoderBlock(D_MODEL, HEADS, D_FF, norm_first),
        torch_layer(nn.TransformerDecoderLayer, norm_first),
        device,
        dtype,
    )
    assert_same_training(
        ours,
        theirs,
        [draw(2, query, D_MODEL), draw(2, key, D_MODEL)],
        {},
        {"tgt_mask": ~causal_mask(query).to(device)},
    )


@both_norm_orders
def test_decoder_equals_torch_with_padding_on_both_sides(norm_first, draw, device, dtype):
    ours, theirs = same_weights(
        Decoder(2, D_MODEL, HEADS, D_FF, norm_first), torch_decoder(2, norm_first), device, dtype
    )
    target, source = real_words(device, 5, 5, 3), real_words(device, 7, 4, 7)
    assert_same_training(
        ours,
        theirs,
        [strided(draw(2, 5, D_MODEL)), strided(draw(2, 7, D_MODEL))],
        {"mask": target[:, None, None], "memory_mask": source[:, None, None]},
        {
            "tgt_mask": ~causal_mask(5).to(device),
            "tgt_key_padding_mask": ~target,
            "memory_key_padding_mask": ~source,
        },
    )


def test_decoder_returns_the_cross_attention_weights_of_every_layer(draw, device, dtype):
    decoder = Decoder(2, D_MODEL, HEADS, D_FF).to(device, dtype)
    states, memory = draw(2, 5, D_MODEL), draw(2, 7, D_MODEL)
    weights = decoder(states, memory)[1]
    assert weights.shape == (2, 2, HEADS, 5, 7)  # batch, layers, heads, query, key
    first, first_weights = decoder.blocks[0](states, memory)
    assert_close(weights[:, 0], first_weights)
    assert_close(weights[:, 1], decoder.blocks[1](first, memory)[1])


def transformer(device, dtype, norm_first=True):
    model = Transformer(
        source_vocab=11,
        target_vocab=13,
        n_layers=2,
        d_model=D_MODEL,
        n_heads=HEADS,
        d_ff=D_FF,
        norm_first=norm_first,
        max_length=20,
    )
    return model.to(device, dtype)


@both_norm_orders
def test_transformer_equals_torch_encoder_and_decoder_between_embedding_and_output(
    norm_first, device, dtype
):
    model = transformer(device, dtype, norm_first)
    encoder, decoder = torch_encoder(2, norm_first), torch_decoder(2, norm_first)
    for ours, theirs in ((model.encoder, encoder), (model.decoder, decoder)):
        same_weights(ours, theirs, device, dtype)
    source = torch.tensor([[3, 4, 5, 6, 7, 8, 9], [3, 4, 5, 6, 0, 0, 0]], device=device)
    target = torch.tensor([[1, 12, 3, 4, 5], [1, 6, 2, 0, 0]], device=device)
    embedded = [
        table.weight[tokens] * D_MODEL**0.5 + model.positions[: tokens.shape[1]]
        for table, tokens in ((model.source_embedding, source), (model.target_embedding, target))
    ]
    memory = encoder(embedded[0], src_key_padding_mask=source == 0)
    states = decoder(
        embedded[1],
        memory,
        tgt_mask=~causal_mask(5).to(device),
        memory_key_padding_mask=source == 0,
    )
    # What stands at a padded place of the target is never read.
    real = target != 0
    expected = states @ model.target_embedding.weight.T
    assert_close(model(source, target)[real].detach(), expected[real].detach())


def test_transformer_output_shares_the_target_embedding():
    model = transformer("cpu", torch.float32)
    assert model.output.weight is model.target_embedding.weight
    assert sum(parameter.shape == (13, D_MODEL) for parameter in model.parameters()) == 1


def test_more_padding_of_source_and_target_changes_no_logit(device, dtype):
    model = transformer(device, dtype)
    source, target = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[1, 6, 2]])
    padded = [nn.functional.pad(tokens, (0, 4)).to(device) for tokens in (source, target)]
    expected = model(source.to(device), target.to(device))
    assert_close(model(*padded)[:, :3], expected)


def test_a_future_target_token_changes_no_earlier_logit(device, dtype):
    model = transformer(device, dtype)
    source = torch.tensor([[3, 4, 5, 6]], device=device)
    one, other = torch.tensor([[[1, 6, 2, 8, 9]], [[1, 6, 2, 7, 3]]], device=device)
    assert_close(model(source, one)[:, :3], model(source, other)[:, :3])
