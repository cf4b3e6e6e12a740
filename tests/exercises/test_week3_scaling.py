"""Week 3: why scores are divided by the root of d_k, and many heads."""

import torch

from lab_grader.testing import (
    agree,
    exercise,
    finite,
    gradients_agree,
    guard,
    keeps_dtype,
    leaves_inputs_alone,
    require,
)

# Sizes never coincide: an exchanged axis cannot go unnoticed.
BATCH, HEADS, QUERY, KEY, D_HEAD, D_VALUE = 2, 3, 5, 7, 8, 6
SEQ, D_MODEL = 5, 12
QKV = ("q", "k", "v")


def draw_qkv(draw, dtype=torch.float32, scale=1.0):
    return (
        draw.normal(batch=BATCH, heads=HEADS, query=QUERY, d_head=D_HEAD, dtype=dtype, scale=scale),
        draw.normal(batch=BATCH, heads=HEADS, key=KEY, d_head=D_HEAD, dtype=dtype, scale=scale),
        draw.normal(batch=BATCH, heads=HEADS, key=KEY, d_value=D_VALUE, dtype=dtype),
    )


@exercise("3.2")
def test_output_and_weights_follow_the_formula(submission, expected, draw):
    q, k, v = draw_qkv(draw)
    output, weights = submission.attention.scaled_dot_product_attention(q, k, v)
    right_output, right_weights = expected.attention.scaled_dot_product_attention(q, k, v)
    agree(weights, right_weights, "the weight", "batch head query key")
    agree(output, right_output, "the output", "batch head query d_value")


@exercise("3.2")
def test_it_works_in_double_precision_and_without_heads(submission, expected, draw):
    q = draw.normal(query=QUERY, d_head=D_HEAD, dtype=torch.float64)
    k = draw.normal(key=KEY, d_head=D_HEAD, dtype=torch.float64)
    v = draw.normal(key=KEY, d_value=D_VALUE, dtype=torch.float64)
    output, weights = submission.attention.scaled_dot_product_attention(q, k, v)
    right_output, right_weights = expected.attention.scaled_dot_product_attention(q, k, v)
    agree(weights, right_weights, "the weight", "query key")
    agree(output, right_output, "the output", "query d_value")


@exercise("3.2")
def test_weights_of_each_query_are_positive_and_sum_to_one(submission, draw):
    _, weights = submission.attention.scaled_dot_product_attention(*draw_qkv(draw))
    require(bool((weights >= 0).all()), "a weight is negative: weights come out of a softmax")
    agree(weights.sum(dim=-1), 1.0, "the sum of the weights over the keys", "batch head query")


@exercise("3.2")
def test_masked_keys_get_no_weight_and_the_others_share_it(submission, expected, draw):
    q, k, v = draw_qkv(draw)
    mask = draw.mask(batch=BATCH, heads=HEADS, query=QUERY, key=KEY)
    output, weights = submission.attention.scaled_dot_product_attention(q, k, v, mask)
    right_output, right_weights = expected.attention.scaled_dot_product_attention(q, k, v, mask)
    agree(weights, right_weights, "under a mask the weight", "batch head query key")
    agree(output, right_output, "under a mask the output", "batch head query d_value")


@exercise("3.2")
def test_a_mask_for_all_heads_and_queries_broadcasts(submission, expected, draw):
    q, k, v = draw_qkv(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=1, key=KEY)
    output, _ = submission.attention.scaled_dot_product_attention(q, k, v, mask)
    right_output, _ = expected.attention.scaled_dot_product_attention(q, k, v, mask)
    agree(output, right_output, "under a broadcast mask the output", "batch head query d_value")


@exercise("3.2")
def test_masked_keys_get_exactly_zero_even_when_all_scores_are_very_low(submission, draw):
    q, k, v = draw_qkv(draw, dtype=torch.float64)
    mask = draw.mask(batch=BATCH, heads=HEADS, query=QUERY, key=KEY)
    # Scores of allowed keys far below any finite stand-in for minus infinity.
    _, weights = submission.attention.scaled_dot_product_attention(
        -q.abs() * 1e8, k.abs() * 1e8, v, mask
    )
    agree(weights.masked_fill(mask, 0.0), 0.0, "the weight of a masked key", "batch head query key")


@exercise("3.2")
def test_a_query_that_may_attend_to_nothing_gets_zeros(submission, expected, draw):
    q, k, v = draw_qkv(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    mask[0, :, 2] = False
    output, weights = submission.attention.scaled_dot_product_attention(q, k, v, mask)
    right_output, right_weights = expected.attention.scaled_dot_product_attention(q, k, v, mask)
    agree(weights, right_weights, "with a fully masked query the weight", "batch head query key")
    agree(output, right_output, "with a fully masked query the output", "batch head query d_value")


@exercise("3.2")
def test_large_scores_stay_finite(submission, expected, draw):
    q, k, v = draw_qkv(draw, scale=1e4)
    _, weights = submission.attention.scaled_dot_product_attention(q, k, v)
    finite(weights, "the weight at scores of 1e8")
    _, right_weights = expected.attention.scaled_dot_product_attention(q, k, v)
    agree(weights, right_weights, "at scores of 1e8 the weight", "batch head query key")


@exercise("3.2")
def test_gradients_reach_queries_keys_and_values(submission, expected, draw):
    q, k, v = draw_qkv(draw, dtype=torch.float64)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    mask[1, :, 3] = False
    gradients_agree(
        submission.attention.scaled_dot_product_attention,
        expected.attention.scaled_dot_product_attention,
        q, k, v, mask,
        names=QKV,
    )  # fmt: skip


@guard("3.2")
def test_inputs_are_left_alone(submission, draw):
    q, k, v = draw_qkv(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    leaves_inputs_alone(
        submission.attention.scaled_dot_product_attention, q, k, v, mask, names=(*QKV, "mask")
    )


@guard("3.2")
def test_the_dtype_is_kept(submission, draw):
    for dtype in (torch.float32, torch.float64):
        output, weights = submission.attention.scaled_dot_product_attention(*draw_qkv(draw, dtype))
        keeps_dtype(output, dtype, "the output")
        keeps_dtype(weights, dtype, "the weights")
