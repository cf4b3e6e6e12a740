"""Dropout in whole models: where PyTorch's own layers have it, and only while a model trains."""

import copy
import io

import pytest
import torch
from comparison import assert_close, random_weights, torch_state
from torch import nn

from lab_transformer.decoder import Decoder, DecoderBlock
from lab_transformer.encoder import Encoder, EncoderBlock
from lab_transformer.generation import translation_step
from lab_transformer.masking import causal_mask
from lab_transformer.regularisation import add_dropout
from lab_transformer.transformer import Transformer

D_MODEL, HEADS, D_FF, P = 24, 3, 40, 0.3
SIZES = {"n_layers": 2, "d_model": D_MODEL, "n_heads": HEADS, "d_ff": D_FF, "max_length": 20}

both_norm_orders = pytest.mark.parametrize("norm_first", [True, False], ids=["pre-norm", "post-norm"])


def torch_layer(kind, norm_first, p):
    """PyTorch's layer, with dropout where the paper has it and not inside the sublayers."""
    layer = kind(D_MODEL, HEADS, D_FF, dropout=p, batch_first=True, norm_first=norm_first)
    layer.self_attn.dropout = layer.dropout.p = 0.0
    if kind is nn.TransformerDecoderLayer:
        layer.multihead_attn.dropout = 0.0
    return layer


def stacks(norm_first, p):
    """Our two stacks and PyTorch's, with the same weights and dropout at the same places."""
    pairs = []
    for ours, kind, whole in (
        (Encoder, nn.TransformerEncoderLayer, nn.TransformerEncoder),
        (Decoder, nn.TransformerDecoderLayer, nn.TransformerDecoder),
    ):
        mine = ours(2, D_MODEL, HEADS, D_FF, norm_first)
        random_weights(mine)
        norm = nn.LayerNorm(D_MODEL) if norm_first else None
        options = {"enable_nested_tensor": False} if whole is nn.TransformerEncoder else {}
        theirs = whole(torch_layer(kind, norm_first, p), 2, norm, **options)
        theirs.load_state_dict(torch_state(mine))
        pairs.append((mine, theirs))
    return pairs


def run(seed, module, *args, **options):
    torch.manual_seed(seed)
    result = module(*args, **options)
    return result[0] if isinstance(result, tuple) else result


@both_norm_orders
@pytest.mark.parametrize("p", [0.0, P, 0.8])
def test_stacks_in_training_equal_those_of_torch_draw_for_draw(norm_first, p):
    # Of several sentences, torch keeps its result turned around, and draws in that order.
    x, memory = torch.randn(1, 5, D_MODEL), torch.randn(1, 7, D_MODEL)
    (encoder, torch_encoder), (decoder, torch_decoder) = stacks(norm_first, p)
    for module in (encoder, decoder):
        add_dropout(module, p)
    drop = nn.Dropout(p)  # on the sum of embeddings and positions
    assert_close(run(1, encoder, x), run(1, lambda: torch_encoder(drop(x))))
    theirs = run(2, lambda: torch_decoder(drop(x), memory, tgt_mask=~causal_mask(5)))
    assert_close(run(2, decoder, x, memory), theirs)


@both_norm_orders
@pytest.mark.parametrize("kind", [EncoderBlock, DecoderBlock])
def test_a_block_alone_drops_the_outputs_of_its_sublayers(kind, norm_first):
    block = kind(D_MODEL, HEADS, D_FF, norm_first)
    random_weights(block)
    plain = copy.deepcopy(block)
    add_dropout(block, P)
    inputs = [torch.randn(2, 5, D_MODEL), torch.randn(2, 7, D_MODEL)][: 1 + (kind is DecoderBlock)]
    assert not torch.allclose(run(1, block, *inputs), run(2, block, *inputs))
    assert_close(run(1, block.eval(), *inputs), run(2, plain, *inputs))
    # With everything dropped, what is left is the residual path, and the biases of the norms.
    everything = add_dropout(plain, 1.0)
    left = inputs[0]
    if not norm_first:
        for name in ("norm_1", "norm_2", "norm_3"):
            left = getattr(plain, name, nn.Identity())(left)
    assert_close(run(1, everything, *inputs), left)


def test_mean_and_variance_over_many_draws_are_those_of_dropout():
    block = add_dropout(EncoderBlock(D_MODEL, HEADS, D_FF), P)
    for parameter in block.feed_forward.w_2.parameters():
        nn.init.zeros_(parameter)  # then the attention alone is drawn
    x, count = torch.randn(1, 3, D_MODEL), 4000
    draws = torch.stack([block(x) for _ in range(count)]).detach()
    attended = (block.eval()(x) - x).detach()
    spread = attended.abs() * (P / (1 - P)) ** 0.5
    assert ((draws.mean(dim=0) - x - attended).abs() <= 5 * spread / count**0.5 + 1e-6).all()
    assert 0.98 < (draws.std(dim=0).mean() / spread.mean()).item() < 1.02


def batch():
    source = torch.tensor([[3, 4, 5, 6, 7, 8, 9], [3, 4, 5, 6, 0, 0, 0]])
    target = torch.tensor([[1, 10, 3, 4, 5], [1, 6, 2, 0, 0]])
    return source, target


@both_norm_orders
def test_a_transformer_drops_in_training_only(norm_first):
    model = Transformer(11, 13, **SIZES, norm_first=norm_first, dropout=P)
    plain = Transformer(11, 13, **SIZES, norm_first=norm_first)
    plain.load_state_dict(model.state_dict())
    assert not torch.allclose(run(1, model, *batch()), run(2, model, *batch()))
    assert torch.equal(run(1, model, *batch()), run(1, model, *batch()))
    assert_close(run(1, model.eval(), *batch()), run(2, plain, *batch()))


def test_the_sums_of_embeddings_and_positions_are_dropped_on_both_sides():
    model, given = Transformer(11, 13, **SIZES, dropout=P), {}
    for side in ("encoder", "decoder"):
        first = getattr(model, side).blocks[0]
        first.register_forward_pre_hook(lambda block, args, side=side: given.update({side: args[0]}))
    model(*batch())
    for embedded in given.values():
        assert 0.2 < (embedded == 0).float().mean().item() < 0.4


def test_without_dropout_nothing_is_drawn():
    model = Transformer(11, 13, **SIZES)
    before = torch.get_rng_state()
    model(*batch())
    assert torch.equal(torch.get_rng_state(), before)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_a_model_with_dropout_can_be_copied_saved_and_decoded():
    model = Transformer(11, 13, **SIZES, dropout=P)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    read = torch.load(file, weights_only=False)
    for twin in (copy.deepcopy(model), read):
        assert_close(run(3, twin, *batch()), run(3, model, *batch()))
    model.eval()
    step = translation_step(model, torch.tensor([3, 4, 5]))
    logits = model(torch.tensor([[3, 4, 5]]), torch.tensor([[1, 6, 2]]))[:, -1]
    logits[:, 0] = -torch.inf
    for prefix in ([1], [1, 6], [1, 6, 2]):
        found = step(torch.tensor([prefix]))
    assert_close(found, logits.log_softmax(dim=-1))


def test_one_matrix_can_serve_both_sides_and_the_output():
    model = Transformer(13, 13, **SIZES, shared=True)
    assert model.source_embedding.weight is model.target_embedding.weight is model.output.weight
    assert sum(parameter.shape == (13, D_MODEL) for parameter in model.parameters()) == 1
    separate = Transformer(13, 13, **SIZES)
    assert separate.source_embedding.weight is not separate.target_embedding.weight
    separate.load_state_dict(model.state_dict())
    assert_close(model(*batch()), separate(*batch()))


def test_one_matrix_needs_one_vocabulary():
    with pytest.raises(ValueError, match=r"one vocabulary.*11 source words and 13 target words"):
        Transformer(11, 13, **SIZES, shared=True)


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_the_share_that_is_dropped_is_a_probability(p):
    with pytest.raises(ValueError, match="from 0 to 1"):
        Transformer(11, 13, **SIZES, dropout=p)
    with pytest.raises(ValueError, match="from 0 to 1"):
        add_dropout(EncoderBlock(D_MODEL, HEADS, D_FF), p)
