"""Attention against F.scaled_dot_product_attention and nn.MultiheadAttention."""

import math

import pytest
import torch
from comparison import (
    assert_close,
    assert_same_function,
    assert_same_weight_gradients,
    random_weights,
    strided,
    torch_state,
)
from torch import nn
from torch.nn import functional as F

from lab_transformer.attention import (
    MultiHeadAttention,
    alignment_error_rate,
    alignment_from_attention,
    contextualize,
    cross_attention,
    dot_product_variance,
    merge_heads,
    project_qkv,
    scaled_dot_product_attention,
    similarity_scores,
    softmax,
    split_heads,
)

# (leading axes, query, key, d_head, d_value): all different, odd, and as short as can be.
SHAPES = [
    ((2, 3), 5, 7, 8, 9),
    ((2, 3), 7, 5, 8, 8),
    ((4,), 1, 6, 3, 5),
    ((), 6, 1, 5, 3),
    ((2, 1, 3), 1, 1, 1, 1),
    ((1, 2), 11, 13, 17, 19),
]


def some_allowed(*shape: int) -> torch.Tensor:
    """Draw a mask in which every query may attend to at least one key."""
    mask = torch.rand(shape) < 0.5
    return mask | F.one_hot(torch.randint(shape[-1], shape[:-1]), shape[-1]).bool()


@pytest.mark.parametrize(("lead", "query", "key", "d_head", "d_value"), SHAPES)
def test_attention_equals_torch(lead, query, key, d_head, d_value, draw):
    q, k, v = draw(*lead, query, d_head), draw(*lead, key, d_head), draw(*lead, key, d_value)
    assert_same_function(scaled_dot_product_attention, F.scaled_dot_product_attention, q, k, v)


@pytest.mark.parametrize(("lead", "query", "key", "d_head", "d_value"), SHAPES)
def test_masked_attention_equals_torch(lead, query, key, d_head, d_value, draw, device):
    q, k, v = draw(*lead, query, d_head), draw(*lead, key, d_head), draw(*lead, key, d_value)
    mask = some_allowed(*lead, query, key).to(device)
    assert_same_function(scaled_dot_product_attention, F.scaled_dot_product_attention, q, k, v, mask)


@pytest.mark.parametrize("mask_shape", [(5, 7), (1, 7), (2, 1, 1, 7), (3, 5, 7), (5, 1), (7,)])
def test_a_mask_broadcasts_to_all_heads_and_queries(mask_shape, draw, device):
    q, k, v = draw(2, 3, 5, 8), draw(2, 3, 7, 8), draw(2, 3, 7, 9)
    mask = some_allowed(*mask_shape).to(device)
    full = mask.expand(2, 3, 5, 7)
    assert_close(
        scaled_dot_product_attention(q, k, v, mask), scaled_dot_product_attention(q, k, v, full)
    )
    assert_close(
        scaled_dot_product_attention(q, k, v, mask)[0], F.scaled_dot_product_attention(q, k, v, full)
    )


@pytest.mark.parametrize("masked", [False, True])
def test_attention_takes_inputs_that_are_not_contiguous(masked, draw, device):
    q, k, v = (strided(draw(2, 3, *shape)) for shape in ((5, 8), (7, 8), (7, 9)))
    mask = some_allowed(7, 5).to(device).mT if masked else None
    if masked:
        mask = mask | ~mask.any(dim=-1, keepdim=True)
    assert_same_function(
        lambda *qkv: scaled_dot_product_attention(*qkv, mask),
        lambda *qkv: F.scaled_dot_product_attention(*qkv, mask),
        q,
        k,
        v,
    )


def test_one_memory_serves_a_batch_of_queries(draw):
    q, k, v = draw(2, 3, 5, 8), draw(1, 3, 7, 8), draw(1, 3, 7, 9)
    expanded = k.expand(2, -1, -1, -1), v.expand(2, -1, -1, -1)
    assert_close(scaled_dot_product_attention(q, k, v), scaled_dot_product_attention(q, *expanded))


def test_weights_are_the_softmax_of_the_scaled_scores(draw):
    q, k, v = draw(2, 3, 5, 8), draw(2, 3, 7, 8), draw(2, 3, 7, 9)
    weights = scaled_dot_product_attention(q, k, v)[1]
    assert_close(weights, torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(8), dim=-1))


def test_hidden_keys_get_a_weight_of_exactly_zero(draw, device):
    q, k, v = draw(2, 3, 5, 8), draw(2, 3, 7, 8), draw(2, 3, 7, 9)
    mask = some_allowed(5, 7).to(device)
    weights = scaled_dot_product_attention(q, k, v, mask)[1]
    assert (weights.masked_select(~mask) == 0).all()
    assert_close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))


@pytest.mark.parametrize("hidden_rows", [[2], [0, 4], [0, 1, 2, 3, 4]])
def test_a_query_that_sees_nothing_gets_zeros_and_finite_gradients(hidden_rows, draw, device):
    q, k, v = draw(2, 3, 5, 8), draw(2, 3, 7, 8), draw(2, 3, 7, 9)
    mask = torch.ones(5, 7, dtype=torch.bool, device=device)
    mask[hidden_rows] = False
    # Anomaly detection stops at any NaN on the way, even one that a mask hides in the end.
    with torch.autograd.set_detect_anomaly(True):
        output, weights = scaled_dot_product_attention(q, k, v, mask)
        gradients = torch.autograd.grad(output.square().sum() + weights.square().sum(), (q, k, v))
    assert (output[..., hidden_rows, :] == 0).all()
    assert (weights[..., hidden_rows, :] == 0).all()
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (gradients[0][..., hidden_rows, :] == 0).all()


def test_a_query_that_sees_nothing_leaves_the_other_queries_alone(draw, device):
    q, k, v = draw(2, 3, 5, 8), draw(2, 3, 7, 8), draw(2, 3, 7, 9)
    mask = some_allowed(5, 7).to(device)
    without = mask.clone()
    without[2] = False
    rows = [0, 1, 3, 4]
    expected = scaled_dot_product_attention(q, k, v, mask)[0][..., rows, :]
    assert_close(scaled_dot_product_attention(q, k, v, without)[0][..., rows, :], expected)


def test_large_scores_give_finite_weights(draw):
    q, k, v = draw(2, 5, 8) * 1e4, draw(2, 7, 8) * 1e4, draw(2, 7, 9)
    output, weights = scaled_dot_product_attention(q, k, v)
    assert output.isfinite().all()
    assert_close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))


@pytest.mark.parametrize("dim", [-1, 0, 1])
@pytest.mark.parametrize("scale", [1.0, 1e4, -1e4])
def test_softmax_equals_torch(dim, scale, draw):
    scores = draw(3, 5, 7)
    assert_same_function(lambda s: softmax(scale * s, dim), lambda s: F.softmax(scale * s, dim), scores)


def test_contextualize_is_attention_with_no_scale_and_no_parameters(draw):
    x = draw(2, 5, 8)
    assert_same_function(contextualize, lambda y: F.scaled_dot_product_attention(y, y, y, scale=1.0), x)
    assert_close(similarity_scores(x), torch.einsum("bqd,bkd->bqk", x, x))


def test_projections_multiply_from_the_right(draw):
    x, w_q, w_k, w_v = draw(2, 5, 8), draw(8, 3), draw(8, 3), draw(8, 4)
    expected = tuple(F.linear(x, w.mT) for w in (w_q, w_k, w_v))
    assert_close(project_qkv(x, w_q, w_k, w_v), expected)


@pytest.mark.parametrize("shape", [(5, 24), (2, 5, 24), (2, 4, 1, 24)])
@pytest.mark.parametrize("n_heads", [1, 3, 24])
def test_heads_are_consecutive_columns_and_merge_undoes_split(shape, n_heads, draw):
    x = draw(*shape)
    heads = split_heads(x, n_heads)
    expected = torch.stack(x.chunk(n_heads, dim=-1), dim=-3)
    assert torch.equal(heads, expected)
    assert torch.equal(merge_heads(heads), x)


def attention_pair(device, dtype) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    ours = MultiHeadAttention(24, 3).to(device, dtype)
    random_weights(ours)
    theirs = nn.MultiheadAttention(24, 3, batch_first=True).to(device, dtype)
    theirs.load_state_dict(torch_state(ours))
    return ours, theirs


@pytest.mark.parametrize(("query", "key"), [(5, 7), (7, 5), (1, 7), (5, 1), (1, 1)])
@pytest.mark.parametrize("masked", [False, True])
def test_multi_head_attention_equals_torch(query, key, masked, draw, device, dtype):
    ours, theirs = attention_pair(device, dtype)
    inputs = draw(2, query, 24), draw(2, key, 24), draw(2, key, 24)
    mask = some_allowed(query, key).to(device) if masked else None
    # nn.MultiheadAttention means the opposite by True: it hides.
    hidden = ~mask if masked else None
    results = [
        ours(*inputs, mask),
        theirs(*inputs, attn_mask=hidden, average_attn_weights=False),
    ]
    assert_close(*results)
    gradients = []
    for output, weights in results:
        loss = output.square().sum() + weights.square().sum()
        gradients.append(torch.autograd.grad(loss, inputs, retain_graph=True))
        loss.backward()
    assert_close(*gradients)
    assert_same_weight_gradients(ours, theirs)


def test_multi_head_attention_takes_a_padding_mask_for_each_sentence(draw, device, dtype):
    ours, theirs = attention_pair(device, dtype)
    x = draw(2, 7, 24)
    real = torch.tensor([[True] * 7, [True] * 4 + [False] * 3], device=device)
    expected = theirs(x, x, x, key_padding_mask=~real, average_attn_weights=False)
    assert_close(ours(x, x, x, real[:, None, None]), expected)


def test_multi_head_attention_takes_inputs_that_are_not_contiguous(draw, device, dtype):
    ours, theirs = attention_pair(device, dtype)
    inputs = [strided(draw(2, 5, 24)), strided(draw(2, 7, 24)), strided(draw(2, 7, 24))]
    assert_same_function(ours, theirs, *inputs)


def test_multi_head_attention_needs_no_batch_axis(draw, device, dtype):
    ours = attention_pair(device, dtype)[0]
    query, key = draw(5, 24), draw(7, 24)
    batched = ours(query[None], key[None], key[None])
    assert_close(ours(query, key, key), tuple(result[0] for result in batched))


def test_cross_attention_asks_with_the_decoder_states(draw, device, dtype):
    ours, theirs = attention_pair(device, dtype)
    states, memory = draw(2, 5, 24), draw(2, 7, 24)
    real = torch.tensor([[True] * 7, [True] * 4 + [False] * 3], device=device)
    expected = theirs(states, memory, memory, key_padding_mask=~real, average_attn_weights=False)
    assert_close(cross_attention(states, memory, ours, real[:, None, None]), expected)


@pytest.mark.parametrize("d", [1, 16, 100])
def test_the_variance_of_a_dot_product_is_its_width(d):
    estimate = dot_product_variance(d, 20_000, torch.Generator().manual_seed(1))
    assert estimate == pytest.approx(d, rel=0.1)


def test_alignment_links_each_target_to_its_heaviest_source_on_average():
    one, other = (
        torch.tensor([[0.6, 0.4, 0.0], [0.3, 0.3, 0.4]]),
        torch.tensor([[0.1, 0.9, 0.0], [0.2, 0.1, 0.7]]),
    )
    assert alignment_from_attention(torch.stack([one, other])) == {(1, 0), (2, 1)}


@pytest.mark.parametrize(
    ("predicted", "sure", "possible", "expected"),
    [
        ({(0, 0), (1, 1)}, {(0, 0), (1, 1)}, set(), 0.0),
        ({(0, 1)}, {(0, 0)}, set(), 1.0),
        ({(0, 0), (1, 0)}, {(0, 0)}, {(1, 0)}, 0.0),
        ({(0, 0), (2, 2)}, {(0, 0), (1, 1)}, {(2, 2), (0, 0)}, 1 - 3 / 4),
        (set(), set(), {(0, 0)}, 0.0),
        (set(), {(0, 0)}, set(), 1.0),
    ],
)
def test_alignment_error_rate_of_small_cases_by_hand(predicted, sure, possible, expected):
    assert alignment_error_rate(predicted, sure, possible) == pytest.approx(expected)
