"""Bad input is refused before any arithmetic, in words that say what does not fit."""

import pytest
import torch

from lab_transformer.attention import (
    MultiHeadAttention,
    cross_attention,
    dot_product_variance,
    merge_heads,
    project_qkv,
    scaled_dot_product_attention,
    split_heads,
)
from lab_transformer.decoder import CausalBlock, DecoderBlock
from lab_transformer.decoding import CachedAttention, beam_search, greedy_decode, sample_token
from lab_transformer.embedding import embed, one_hot
from lab_transformer.encoder import EncoderBlock
from lab_transformer.feedforward import feed_forward
from lab_transformer.generation import generate, gpt_step, translation_step
from lab_transformer.gpt import GPT, gpt_from_gpt2
from lab_transformer.loss import sequence_loss
from lab_transformer.masking import masked_softmax, padding_mask
from lab_transformer.normalization import batch_norm, layer_norm
from lab_transformer.positional import add_positions, rotate, shift_matrix, sinusoidal_positions
from lab_transformer.rnn import clip_gradients, gradient_by_distance, rnn_cell, rnn_forward
from lab_transformer.transformer import Transformer


def zeros(*shape):
    return torch.zeros(shape)


def tokens(*shape):
    return torch.zeros(shape, dtype=torch.long)


def never(prefixes):
    raise AssertionError("the step was called before the input was checked")


def refuses(error, *words):
    """Expect an error whose message has all the words, in this order."""
    return pytest.raises(error, match="(?s)" + ".*".join(words))


@pytest.mark.parametrize("d_model", [1, 7, 0, -2])
@pytest.mark.parametrize(
    "make", [lambda d: sinusoidal_positions(5, d), lambda d: shift_matrix(3, d)], ids=["table", "shift"]
)
def test_sinusoids_need_an_even_width(make, d_model):
    with refuses(ValueError, "d_model must be even", str(d_model)):
        make(d_model)


def test_rotation_needs_an_even_width():
    with refuses(ValueError, "d_head must be even", "7"):
        rotate(zeros(2, 5, 7), torch.arange(5))


def test_a_transformer_of_odd_width_is_refused():
    with refuses(ValueError, "d_model must be even", "15"):
        Transformer(11, 13, d_model=15, n_heads=3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MultiHeadAttention(24, 5),
        lambda: EncoderBlock(24, 5, 40),
        lambda: CausalBlock(24, 5, 40),
        lambda: DecoderBlock(24, 5, 40),
        lambda: Transformer(11, 13, d_model=24, n_heads=5),
        lambda: GPT(13, d_model=24, n_heads=5),
        lambda: split_heads(zeros(2, 7, 24), 5),
    ],
)
def test_the_width_must_split_into_the_heads(make):
    with refuses(ValueError, "d_model = 24", "5 equal heads"):
        make()


@pytest.mark.parametrize("n_heads", [0, -1])
def test_there_is_at_least_one_head(n_heads):
    with refuses(ValueError, "d_model = 24", str(n_heads)):
        MultiHeadAttention(24, n_heads)


ATTENTION = MultiHeadAttention(24, 3)
# What is called, and the words its message must have: the axis, who has which size.
MISFITS = {
    "d_head of q and k": (
        lambda: scaled_dot_product_attention(zeros(2, 5, 8), zeros(2, 7, 9), zeros(2, 7, 8)),
        ["d_head is 8 in q", "but 9 in k"],
    ),
    "key of k and v": (
        lambda: scaled_dot_product_attention(zeros(2, 5, 8), zeros(2, 7, 8), zeros(2, 6, 8)),
        ["key is 7 in k", "but 6 in v"],
    ),
    "no sequence axis": (
        lambda: scaled_dot_product_attention(zeros(8), zeros(7, 8), zeros(7, 8)),
        ["q needs the axes", "query, d_head", r"shape is \(8,\)"],
    ),
    "batch of q and k": (
        lambda: scaled_dot_product_attention(zeros(2, 5, 8), zeros(3, 7, 8), zeros(3, 7, 8)),
        [r"leading axes of q \(2, 5, 8\) and k \(3, 7, 8\)"],
    ),
    "mask": (
        lambda: scaled_dot_product_attention(
            zeros(2, 5, 8), zeros(2, 7, 8), zeros(2, 7, 8), torch.ones(7, 5, dtype=torch.bool)
        ),
        [r"mask \(7, 5\) does not broadcast", r"query, key\) = \(2, 5, 7\)"],
    ),
    "mask with too many axes": (
        lambda: scaled_dot_product_attention(
            zeros(5, 8), zeros(7, 8), zeros(7, 8), torch.ones(2, 5, 7, dtype=torch.bool)
        ),
        [r"mask \(2, 5, 7\) does not broadcast"],
    ),
    "mask of masked_softmax": (
        lambda: masked_softmax(zeros(5, 7), torch.ones(7, 5, dtype=torch.bool)),
        [r"mask \(7, 5\) does not broadcast"],
    ),
    "projection": (
        lambda: project_qkv(zeros(2, 5, 8), zeros(9, 3), zeros(8, 3), zeros(8, 3)),
        ["d_model is 8 in x", "but 9 in w_q"],
    ),
    "key and value of multi-head attention": (
        lambda: ATTENTION(zeros(2, 5, 24), zeros(2, 7, 24), zeros(2, 6, 24)),
        ["key is 7 in key", "but 6 in value"],
    ),
    "width of multi-head attention": (
        lambda: ATTENTION(zeros(2, 5, 16), zeros(2, 7, 16), zeros(2, 7, 16)),
        ["d_model is 16 in query", "but 24 in w_q"],
    ),
    "width of the memory": (
        lambda: cross_attention(zeros(2, 5, 24), zeros(2, 7, 16), ATTENTION),
        ["d_model is 24 in decoder_states", "but 16 in memory"],
    ),
    "heads to merge": (lambda: merge_heads(zeros(5, 8)), ["x needs the axes", "heads, seq, d_head"]),
    "width of an encoder block": (
        lambda: EncoderBlock(24, 3, 40)(zeros(2, 5, 16)),
        ["d_model is 16 in x", "but 24 in norm_1"],
    ),
    "width of a causal block": (
        lambda: CausalBlock(24, 3, 40)(zeros(2, 5, 16)),
        ["d_model is 16 in x", "but 24 in norm_1"],
    ),
    "memory of a decoder block": (
        lambda: DecoderBlock(24, 3, 40)(zeros(2, 5, 24), zeros(2, 7, 16)),
        ["d_model is 24 in x", "but 16 in memory"],
    ),
    "cached attention": (
        lambda: CachedAttention(ATTENTION)(zeros(2, 1, 24), zeros(2, 2, 24), zeros(2, 2, 24)),
        ["query is 1 in query", "but 2 in key"],
    ),
    "gain of layer norm": (
        lambda: layer_norm(zeros(2, 5, 8), zeros(7), zeros(8)),
        ["d_model is 8 in x", "but 7 in gain"],
    ),
    "bias of batch norm": (
        lambda: batch_norm(zeros(2, 5, 8), zeros(8), zeros(7)),
        ["d_model is 8 in x", "but 7 in bias"],
    ),
    "mask of batch norm": (
        lambda: batch_norm(zeros(2, 5, 8), zeros(8), zeros(8), torch.ones(2, 4, dtype=torch.bool)),
        ["seq is 5 in x", "but 4 in mask"],
    ),
    "feed-forward": (
        lambda: feed_forward(zeros(2, 5, 8), zeros(8, 13), zeros(12), zeros(13, 8), zeros(8)),
        ["d_ff is 13 in w_1", "but 12 in b_1"],
    ),
    "loss": (
        lambda: sequence_loss(zeros(2, 5, 11), tokens(2, 6), 0),
        ["seq is 5 in logits", "but 6 in targets"],
    ),
    "embedding table": (
        lambda: embed(zeros(5, 11), zeros(12, 8)),
        ["vocab is 11 in one_hot_tokens", "but 12 in table"],
    ),
    "recurrent cell": (
        lambda: rnn_cell(zeros(3, 6), zeros(3, 4), zeros(6, 4), zeros(5, 5), zeros(4)),
        ["d_hidden is 4 in h", "but 5 in w_h"],
    ),
    "recurrent input": (
        lambda: rnn_forward(zeros(3, 7, 5), zeros(3, 4), zeros(6, 4), zeros(4, 4), zeros(4)),
        ["d_in is 5 in xs", "but 6 in w_x"],
    ),
    "rotation": (
        lambda: rotate(zeros(2, 5, 8), torch.arange(4)),
        ["seq is 5 in x", "but 4 in positions"],
    ),
    "width of positions": (
        lambda: add_positions(zeros(2, 5, 8), zeros(9, 10)),
        ["d_model is 8 in embeddings", "but 10 in positions"],
    ),
    "too few positions": (lambda: add_positions(zeros(2, 5, 8), zeros(4, 8)), ["seq is 5", "only 4"]),
    "padding mask of one sentence": (
        lambda: padding_mask(tokens(5), 0),
        ["tokens needs the axes", "batch, key", r"shape is \(5,\)"],
    ),
    "source without a batch": (
        lambda: Transformer(11, 13, d_model=24, n_heads=3).encode(tokens(5)),
        ["source needs the axes", "batch, key"],
    ),
    "context of a GPT": (
        lambda: GPT(13, 1, 24, 3, max_length=8)(tokens(2, 9)),
        ["9 tokens do not fit", "context of 8"],
    ),
}


@pytest.mark.parametrize(("call", "words"), MISFITS.values(), ids=MISFITS.keys())
def test_shapes_that_do_not_fit_are_named_by_their_axes(call, words):
    with refuses(ValueError, *words):
        call()


def qkv():
    return zeros(2, 3, 5, 8), zeros(2, 3, 7, 8), zeros(2, 3, 7, 8)


@pytest.mark.parametrize("kind", [torch.float32, torch.int64, torch.uint8])
@pytest.mark.parametrize(
    "call",
    [
        lambda mask: scaled_dot_product_attention(*qkv(), mask(5, 7)),
        lambda mask: masked_softmax(zeros(5, 7), mask(5, 7)),
        lambda mask: ATTENTION(zeros(2, 5, 24), zeros(2, 7, 24), zeros(2, 7, 24), mask(5, 7)),
        lambda mask: cross_attention(zeros(2, 5, 24), zeros(2, 7, 24), ATTENTION, mask(5, 7)),
        lambda mask: EncoderBlock(24, 3, 40)(zeros(2, 5, 24), mask(5, 5)),
        lambda mask: CausalBlock(24, 3, 40)(zeros(2, 5, 24), mask(5, 5)),
        lambda mask: DecoderBlock(24, 3, 40)(zeros(2, 5, 24), zeros(2, 7, 24), mask(5, 5)),
        lambda mask: DecoderBlock(24, 3, 40)(zeros(2, 5, 24), zeros(2, 7, 24), None, mask(5, 7)),
        lambda mask: batch_norm(zeros(2, 5, 8), zeros(8), zeros(8), mask(2, 5)),
    ],
)
def test_a_mask_that_is_not_boolean_is_refused(call, kind):
    with refuses(TypeError, "a mask is boolean", str(kind), r"\.bool\(\)"):
        call(lambda *shape: torch.ones(shape, dtype=kind))


@pytest.mark.parametrize("width", [0, -1])
def test_a_beam_is_at_least_one_wide(width):
    with refuses(ValueError, "beam_width is at least 1", str(width)):
        beam_search(never, 0, 1, width, 5)


def test_a_sequence_has_room_for_its_start_token():
    with refuses(ValueError, "max_length", "at least 1", "0"):
        beam_search(never, 0, 1, 2, 0)
    with refuses(ValueError, "max_length", "at least 1", "0"):
        greedy_decode(never, 0, 1, 0)


def test_an_empty_prompt_is_refused():
    model = GPT(13, 1, 24, 3, 8)
    with refuses(ValueError, "prompt is empty", "at least one token"):
        generate(model, [], 5)
    with refuses(ValueError, "empty", "at least one token"):
        gpt_step(model)(tokens(1, 0))


def test_an_empty_source_is_refused():
    with refuses(ValueError, "source is empty"):
        translation_step(Transformer(11, 13, d_model=24, n_heads=3), tokens(0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": 0.0}, ["temperature must be above 0", "argmax"]),
        ({"temperature": -1.0}, ["temperature must be above 0"]),
        ({"top_k": 0}, ["top_k is at least 1"]),
        ({"top_p": 0.0}, ["top_p is above 0"]),
        ({"top_p": 1.5}, ["top_p is above 0 and at most 1", "1.5"]),
    ],
)
def test_sampling_options_out_of_range_are_refused(options, words):
    with refuses(ValueError, *words):
        sample_token(zeros(7), **options)


@pytest.mark.parametrize("bad", [-1, 11])
def test_a_token_outside_the_vocabulary_has_no_one_hot_row(bad):
    with refuses(ValueError, str(bad), "ids 0 to 10"):
        one_hot(torch.tensor([3, bad, 5]), 11)


def test_smoothing_is_a_share():
    with refuses(ValueError, "smoothing is a share from 0 to 1", "1.1"):
        sequence_loss(zeros(2, 5, 11), tokens(2, 5), 0, smoothing=1.1)


def test_gradients_by_distance_need_inputs_that_want_gradients():
    with refuses(ValueError, r"requires_grad_\(\)"):
        gradient_by_distance(zeros(3, 7, 4), zeros(3, 7, 6))


def test_clipping_needs_a_positive_norm():
    with refuses(ValueError, "max_norm must be positive", "0"):
        clip_gradients([zeros(3)], 0.0)


def test_statistics_need_at_least_one_word():
    with refuses(ValueError, "no word"):
        batch_norm(zeros(2, 5, 8), zeros(8), zeros(8), torch.zeros(2, 5, dtype=torch.bool))


def test_a_recurrent_network_needs_at_least_one_step():
    with refuses(ValueError, "seq axis is empty"):
        rnn_forward(zeros(3, 0, 6), zeros(3, 4), zeros(6, 4), zeros(4, 4), zeros(4))


def test_a_variance_needs_two_samples():
    with refuses(ValueError, "samples >= 2", "samples = 1"):
        dot_product_variance(8, 1, torch.Generator())


def test_a_state_dict_of_something_else_is_refused():
    with refuses(ValueError, "not a GPT-2 style state dict", "wte.weight"):
        gpt_from_gpt2({"weight": zeros(3, 4)}, n_heads=1)
