"""Week 12: what changed since 2017, one drop-in at a time, and the block they add up to."""

import math

import torch

from lab_check.running.testing import (
    agree,
    exercise,
    finite,
    gradients_agree,
    guard,
    keeps_dtype,
    leaves_inputs_alone,
    require,
    same_items,
)

# Sizes never coincide: an exchanged axis cannot go unnoticed.
BATCH, HEADS, KV_HEADS, QUERY, KEY, D_HEAD, D_VALUE = 2, 6, 3, 5, 7, 8, 9
SEQ, D_MODEL, D_FF = 5, 12, 10
QKV = ("q", "k", "v")
WORDS = "batch seq d_model"
EXACT = torch.float64
T, F = True, False


# 12.1 RMS norm


def draw_words(draw, dtype=torch.float32, scale=1.0):
    return draw.normal(batch=BATCH, seq=SEQ, d_model=D_MODEL, dtype=dtype, scale=scale)


def draw_gain(draw, dtype=torch.float32):
    return draw.normal(d_model=D_MODEL, dtype=dtype)


@exercise("12.1")
def test_every_word_is_divided_by_the_root_of_its_mean_square(submission, expected, draw):
    x, gain = draw_words(draw, scale=3.0), draw_gain(draw)
    right = expected.variants.rms_norm(x, gain)
    agree(submission.variants.rms_norm(x, gain), right, "the result", WORDS)


@exercise("12.1")
def test_a_word_of_four_features_by_hand(submission, device):
    # The squares sum to 25, their mean is 6.25, and its root is 2.5.
    x = torch.tensor([[1.0, -2.0, 2.0, 4.0]], device=device)
    gain = torch.tensor([1.0, 5.0, 10.0, -1.0], device=device)
    wanted = torch.tensor([[0.4, -4.0, 8.0, -1.6]], device=device)
    agree(submission.variants.rms_norm(x, gain, 0.0), wanted, "for 1 -2 2 4 the result", "word d_model")


@exercise("12.1")
def test_the_mean_stays_in(submission, expected, draw):
    x, gain = draw_words(draw) + 10.0, draw_gain(draw)
    right = expected.variants.rms_norm(x, gain)
    agree(
        submission.variants.rms_norm(x, gain),
        right,
        "for words with a mean of about 10 the result",
        WORDS,
    )


@exercise("12.1")
def test_eps_is_added_inside_the_root(submission, expected, draw):
    x, gain = draw_words(draw, EXACT, scale=1e-3), draw_gain(draw, EXACT)
    right = expected.variants.rms_norm(x, gain)
    agree(submission.variants.rms_norm(x, gain), right, "for features of about 0.001 the result", WORDS)


@exercise("12.1")
def test_the_eps_that_is_passed_decides(submission, expected, draw):
    x, gain = draw_words(draw, EXACT, scale=0.1), draw_gain(draw, EXACT)
    right = [expected.variants.rms_norm(x, gain, eps) for eps in (0.5, 1e-3)]
    large, small = [submission.variants.rms_norm(x, gain, eps) for eps in (0.5, 1e-3)]
    agree(large, right[0], "with an eps of 0.5 the result", WORDS)
    agree(small, right[1], "with an eps of 0.001 the result", WORDS)


@exercise("12.1")
def test_a_word_of_zeros_beside_others_does_no_harm(submission, expected, draw):
    x, gain = draw_words(draw), draw_gain(draw)
    x[1, 2] = 0.0
    right = expected.variants.rms_norm(x, gain)
    result = submission.variants.rms_norm(x, gain)
    finite(result, "with a word of zeros the result")
    agree(result, right, "with a word of zeros the result", WORDS)


@exercise("12.1")
def test_a_single_word_and_more_axes_go_through(submission, expected, draw):
    gain = draw_gain(draw)
    one, many = draw.normal(d_model=D_MODEL), draw.normal(a=2, b=3, seq=4, d_model=D_MODEL)
    turned = draw.normal(d_model=D_MODEL, seq=SEQ).mT
    right = [expected.variants.rms_norm(x, gain) for x in (one, many, turned)]
    results = [submission.variants.rms_norm(x, gain) for x in (one, many, turned)]
    agree(results[0], right[0], "for a single word the result", "d_model")
    agree(results[1], right[1], "for words in four axes the result", "a b seq d_model")
    agree(results[2], right[2], "for a transposed x the result", "seq d_model")


@exercise("12.1")
def test_large_features_come_down_to_size_one(submission, expected, draw):
    x, gain = draw_words(draw, scale=1e4), torch.ones(D_MODEL)
    right = expected.variants.rms_norm(x, gain.to(x))
    agree(
        submission.variants.rms_norm(x, gain.to(x)),
        right,
        "for features of about 1e4 the result",
        WORDS,
    )


@exercise("12.1")
def test_gradients_reach_the_words_and_the_gain(submission, expected, draw):
    x, gain = draw_words(draw, EXACT), draw_gain(draw, EXACT)
    gradients_agree(
        submission.variants.rms_norm, expected.variants.rms_norm, x, gain, names=("x", "gain")
    )


@guard("12.1")
def test_a_word_does_not_see_its_neighbours(submission, draw):
    x, gain = draw_words(draw), draw_gain(draw)
    before = submission.variants.rms_norm(x, gain)
    changed = x.clone()
    changed[1, 3] = 7.0 - 2.0 * changed[1, 3]
    after = submission.variants.rms_norm(changed, gain)
    after[1, 3] = before[1, 3]
    agree(after, before, "after a change of another word the result", WORDS)


@guard("12.1")
def test_rms_norm_leaves_its_inputs_alone(submission, draw):
    leaves_inputs_alone(
        submission.variants.rms_norm, draw_words(draw), draw_gain(draw), names=("x", "gain")
    )


@guard("12.1")
def test_rms_norm_keeps_the_dtype(submission, draw):
    for dtype in (torch.float32, EXACT):
        x, gain = draw_words(draw, dtype), draw_gain(draw, dtype)
        keeps_dtype(submission.variants.rms_norm(x, gain), dtype)


# 12.2 SwiGLU

GATED = ("x", "w_gate", "w_up", "w_down")


def draw_gated(draw, dtype=torch.float32, scale=1.0):
    return (
        draw_words(draw, dtype, scale),
        draw.normal(d_model=D_MODEL, d_ff=D_FF, dtype=dtype, scale=0.4),
        draw.normal(d_model=D_MODEL, d_ff=D_FF, dtype=dtype, scale=0.4),
        draw.normal(d_ff=D_FF, d_model=D_MODEL, dtype=dtype, scale=0.4),
    )


@exercise("12.2")
def test_the_gate_opens_and_closes_every_feature(submission, expected, draw):
    inputs = draw_gated(draw)
    right = expected.variants.swiglu(*inputs)
    agree(submission.variants.swiglu(*inputs), right, "the result", WORDS)


@exercise("12.2")
def test_one_word_through_two_hidden_features_by_hand(submission, device):
    # The gates are log 3 and 0: sigmoid gives 3/4 for the first, and zero shuts the second.
    x = torch.tensor([[1.0, 2.0]], device=device)
    w_gate = torch.tensor([[math.log(3.0), 2.0], [0.0, -1.0]], device=device)
    w_up = torch.tensor([[2.0, 5.0], [1.0, 3.0]], device=device)  # 4 and 11
    w_down = torch.tensor([[1.0, -2.0], [7.0, 9.0]], device=device)
    wanted = torch.tensor([[3 * math.log(3.0), -6 * math.log(3.0)]], device=device)
    result = submission.variants.swiglu(x, w_gate, w_up, w_down)
    agree(result, wanted, "for one word by hand the result", "word d_model")


@exercise("12.2")
def test_the_two_widened_copies_have_different_jobs(submission, expected, draw):
    x, w_gate, w_up, w_down = draw_gated(draw, EXACT)
    right = expected.variants.swiglu(x, w_gate * 5, w_up * -0.1, w_down)
    result = submission.variants.swiglu(x, w_gate * 5, w_up * -0.1, w_down)
    agree(result, right, "with large gates and small values the result", WORDS)


@exercise("12.2")
def test_a_closed_gate_lets_almost_nothing_through_and_an_open_one_all(submission, expected, draw):
    x, w_gate, w_up, w_down = draw_gated(draw, EXACT)
    w_gate[:, ::2], w_gate[:, 1::2] = -5.0, 5.0
    right = expected.variants.swiglu(x.abs(), w_gate, w_up, w_down)
    result = submission.variants.swiglu(x.abs(), w_gate, w_up, w_down)
    agree(result, right, "with gates far below and far above zero the result", WORDS)


@exercise("12.2")
def test_very_large_features_stay_finite(submission, expected, draw):
    inputs = draw_gated(draw, scale=1e3)
    right = expected.variants.swiglu(*inputs)
    result = submission.variants.swiglu(*inputs)
    finite(result, "for features of about 1000 the result")
    agree(result, right, "for features of about 1000 the result", WORDS, abs=0.5)


@exercise("12.2")
def test_small_features_are_multiplied_too(submission, expected, draw):
    inputs = draw_gated(draw, EXACT, scale=1e-2)
    right = expected.variants.swiglu(*inputs)
    agree(submission.variants.swiglu(*inputs), right, "for features of about 0.01 the result", WORDS,
          abs=1e-12)  # fmt: skip


@exercise("12.2")
def test_a_single_word_and_a_transposed_sentence_go_through(submission, expected, draw):
    _, *weights = draw_gated(draw)
    one, turned = draw.normal(d_model=D_MODEL), draw.normal(d_model=D_MODEL, seq=SEQ).mT
    right = [expected.variants.swiglu(x, *weights) for x in (one, turned)]
    results = [submission.variants.swiglu(x, *weights) for x in (one, turned)]
    agree(results[0], right[0], "for a single word the result", "d_model")
    agree(results[1], right[1], "for a transposed x the result", "seq d_model")


@exercise("12.2")
def test_gradients_reach_the_words_and_the_three_matrices(submission, expected, draw):
    inputs = draw_gated(draw, EXACT)
    gradients_agree(submission.variants.swiglu, expected.variants.swiglu, *inputs, names=GATED)


@guard("12.2")
def test_swiglu_takes_each_word_alone(submission, draw):
    x, *weights = draw_gated(draw)
    before = submission.variants.swiglu(x, *weights)
    changed = x.clone()
    changed[1, 3] = 7.0 - 2.0 * changed[1, 3]
    after = submission.variants.swiglu(changed, *weights)
    after[1, 3] = before[1, 3]
    agree(after, before, "after a change of another word the result", WORDS)


@guard("12.2")
def test_there_is_no_bias_so_a_word_of_zeros_gives_zeros(submission, draw):
    x, *weights = draw_gated(draw)
    agree(submission.variants.swiglu(x * 0, *weights), x * 0, "for words of zeros the result", WORDS)


@guard("12.2")
def test_swiglu_leaves_its_inputs_alone(submission, draw):
    leaves_inputs_alone(submission.variants.swiglu, *draw_gated(draw), names=GATED)


@guard("12.2")
def test_swiglu_keeps_the_dtype(submission, draw):
    for dtype in (torch.float32, EXACT):
        keeps_dtype(submission.variants.swiglu(*draw_gated(draw, dtype)), dtype)


# 12.3 ALiBi

BIAS = "head query key"


@exercise("12.3")
def test_eight_heads_have_the_slopes_of_the_paper(submission):
    bias = submission.variants.alibi_bias(8, 2, 2)
    require(bias.shape == (8, 2, 2), "8 heads, 2 queries and 2 keys need the shape (8, 2, 2)")
    slopes = torch.tensor([1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256])
    agree(-bias[:, 1, 0].cpu(), slopes, "what a head takes off at distance 1", "head")


@exercise("12.3")
def test_two_heads_by_hand(submission):
    bias = submission.variants.alibi_bias(2, 3, 3)
    distance = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    wanted = torch.stack([-distance / 16, -distance / 256])
    agree(bias, wanted, "the bias of 2 heads for 3 words", BIAS)


@exercise("12.3")
def test_any_power_of_two_spreads_its_slopes_evenly(submission, expected):
    right = [expected.variants.alibi_bias(n, 3, 4) for n in (1, 4, 16, 32)]
    results = [submission.variants.alibi_bias(n, 3, 4) for n in (1, 4, 16, 32)]
    for n, result, wanted in zip((1, 4, 16, 32), results, right, strict=True):
        agree(result, wanted, f"the bias of {n} heads", BIAS, abs=1e-7)


@exercise("12.3")
def test_other_numbers_of_heads_borrow_slopes_from_twice_the_power(submission, expected):
    right = [expected.variants.alibi_bias(n, 3, 4) for n in (3, 6, 7, 12)]
    results = [submission.variants.alibi_bias(n, 3, 4) for n in (3, 6, 7, 12)]
    for n, result, wanted in zip((3, 6, 7, 12), results, right, strict=True):
        agree(result, wanted, f"the bias of {n} heads", BIAS, abs=1e-7)


@exercise("12.3")
def test_five_heads_by_the_rule(submission):
    bias = submission.variants.alibi_bias(5, 2, 2)
    slopes = torch.tensor([1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2])
    agree(-bias[:, 1, 0].cpu(), slopes, "what a head of 5 takes off at distance 1", "head")


@exercise("12.3")
def test_the_bias_is_right_for_every_length(submission, expected, draw):
    lengths = [draw.number(5, 9), draw.number(9, 17), draw.number(17, 30)]
    right = [expected.variants.alibi_bias(4, length, length) for length in lengths]
    results = [submission.variants.alibi_bias(4, length, length) for length in lengths]
    for length, result, wanted in zip(lengths, results, right, strict=True):
        agree(result, wanted, f"the bias for {length} words", BIAS, abs=1e-7)


@exercise("12.3")
def test_fewer_queries_are_the_last_of_the_keys(submission, expected, draw):
    key = draw.number(6, 12)
    right = [expected.variants.alibi_bias(4, query, key) for query in (1, 2, 5)]
    results = [submission.variants.alibi_bias(4, query, key) for query in (1, 2, 5)]
    for query, result, wanted in zip((1, 2, 5), results, right, strict=True):
        agree(result, wanted, f"the bias for the last {query} of {key} words", BIAS, abs=1e-7)


@exercise("12.3")
def test_a_later_key_loses_as_much_as_an_earlier_one(submission, draw):
    length = draw.number(6, 12)
    bias = submission.variants.alibi_bias(3, length, length)
    agree(bias, bias.mT, "the bias with its queries and keys exchanged", BIAS)
    require(float(bias.max()) <= 0, f"an entry is {float(bias.max()):.4g}: no distance adds to a score")
    require(float(bias.min()) < 0, "no entry is below zero: distance should take something off")


@guard("12.3")
def test_a_word_takes_nothing_off_itself(submission, draw):
    length = draw.number(3, 9)
    bias = submission.variants.alibi_bias(4, length, length)
    agree(bias.diagonal(dim1=-2, dim2=-1), 0.0, "the bias of a word for itself", "head word")


@guard("12.3")
def test_the_bias_has_the_default_dtype(submission):
    keeps_dtype(submission.variants.alibi_bias(3, 2, 4), torch.get_default_dtype(), "the bias")


# 12.4 Grouped-query attention


def draw_qkv(draw, dtype=torch.float32, scale=1.0, heads=HEADS, kv_heads=KV_HEADS):
    shape = {"batch": BATCH, "heads": kv_heads, "key": KEY}
    return (
        draw.normal(batch=BATCH, heads=heads, query=QUERY, d_head=D_HEAD, dtype=dtype, scale=scale),
        draw.normal(**shape, d_head=D_HEAD, dtype=dtype, scale=scale),
        draw.normal(**shape, d_value=D_VALUE, dtype=dtype),
    )


def both_agree(found, right, when=""):
    when = f"{when} " if when else ""
    agree(found[1], right[1], f"{when}the weight", "batch head query key")
    agree(found[0], right[0], f"{when}the output", "batch head query d_value")


@exercise("12.4")
def test_neighbouring_query_heads_share_keys_and_values(submission, expected, draw):
    q, k, v = draw_qkv(draw)
    right = expected.variants.grouped_query_attention(q, k, v)
    found = submission.variants.grouped_query_attention(q, k, v)
    both_agree(found, right)


@exercise("12.4")
def test_with_a_single_key_every_head_shows_whose_value_it_uses(submission, draw):
    q = draw.normal(heads=6, query=QUERY, d_head=D_HEAD)
    k = draw.normal(heads=2, key=1, d_head=D_HEAD)
    v = torch.tensor([[[10.0]], [[20.0]]], device=q.device)
    output, _ = submission.variants.grouped_query_attention(q, k, v)
    wanted = torch.tensor([10.0, 10.0, 10.0, 20.0, 20.0, 20.0])[:, None, None].expand(6, QUERY, 1)
    agree(output, wanted, "where the two heads hold 10 and 20 the output", "head query d_value")


@exercise("12.4")
def test_one_pair_of_keys_and_values_for_all_is_multi_query_attention(submission, expected, draw):
    q, k, v = draw_qkv(draw, kv_heads=1)
    right = expected.variants.grouped_query_attention(q, k, v)
    found = submission.variants.grouped_query_attention(q, k, v)
    both_agree(found, right, "with one key-value head")


@exercise("12.4")
def test_as_many_key_value_heads_as_query_heads_is_the_attention_of_2017(submission, expected, draw):
    q, k, v = draw_qkv(draw, kv_heads=HEADS)
    right = expected.variants.grouped_query_attention(q, k, v)
    found = submission.variants.grouped_query_attention(q, k, v)
    both_agree(found, right, "with a key-value head for every query head")


@exercise("12.4")
def test_other_group_sizes_work(submission, expected, draw):
    two, four = draw_qkv(draw, heads=8, kv_heads=2), draw_qkv(draw, heads=8, kv_heads=4)
    right = [expected.variants.grouped_query_attention(*qkv) for qkv in (two, four)]
    found = [submission.variants.grouped_query_attention(*qkv) for qkv in (two, four)]
    both_agree(found[0], right[0], "with 2 key-value heads for 8")
    both_agree(found[1], right[1], "with 4 key-value heads for 8")


@exercise("12.4")
def test_every_query_head_may_have_a_mask_of_its_own(submission, expected, draw):
    q, k, v = draw_qkv(draw)
    mask = draw.mask(batch=BATCH, heads=HEADS, query=QUERY, key=KEY)
    right = expected.variants.grouped_query_attention(q, k, v, mask)
    found = submission.variants.grouped_query_attention(q, k, v, mask)
    both_agree(found, right, "under a mask for every head")


@exercise("12.4")
def test_smaller_masks_broadcast_over_the_heads(submission, expected, draw):
    q, k, v = draw_qkv(draw)
    padding, pairs = draw.mask(batch=BATCH, heads=1, query=1, key=KEY), draw.mask(query=QUERY, key=KEY)
    right = [expected.variants.grouped_query_attention(q, k, v, mask) for mask in (padding, pairs)]
    found = [submission.variants.grouped_query_attention(q, k, v, mask) for mask in (padding, pairs)]
    both_agree(found[0], right[0], "under a mask (batch, 1, 1, key)")
    both_agree(found[1], right[1], "under a mask (query, key)")


@exercise("12.4")
def test_where_a_query_may_attend_to_nothing_its_head_gives_zeros(submission, expected, draw):
    q, k, v = draw_qkv(draw)
    mask = draw.mask(batch=BATCH, heads=HEADS, query=QUERY, key=KEY)
    mask[1, 4, 2] = False
    mask[0, :, 3] = False
    right = expected.variants.grouped_query_attention(q, k, v, mask)
    found = submission.variants.grouped_query_attention(q, k, v, mask)
    both_agree(found, right, "with queries that may attend to nothing")


@exercise("12.4")
def test_visible_keys_share_the_weight_however_low_their_scores(submission, expected, draw):
    q, k, v = draw_qkv(draw, EXACT)
    mask = draw.mask(batch=BATCH, heads=1, query=1, key=KEY)
    q[..., 0] = 1.0
    k[..., 0] = torch.where(mask[:, 0], -1e10, 0.0)
    _, right = expected.variants.grouped_query_attention(q, k, v, mask)
    _, weights = submission.variants.grouped_query_attention(q, k, v, mask)
    what = "at visible scores below -1e9 the weight"
    agree(weights, right, what, "batch head query key", rel=1e-3)


@exercise("12.4")
def test_it_works_without_a_batch_and_on_transposed_inputs(submission, expected, draw):
    q = draw.normal(heads=HEADS, d_head=D_HEAD, query=QUERY).mT
    k = draw.normal(key=KEY, heads=KV_HEADS, d_head=D_HEAD).transpose(0, 1)
    v = draw.normal(key=KEY, heads=KV_HEADS, d_value=D_VALUE).transpose(0, 1)
    right_output, right_weights = expected.variants.grouped_query_attention(q, k, v)
    output, weights = submission.variants.grouped_query_attention(q, k, v)
    agree(weights, right_weights, "without a batch the weight", "head query key")
    agree(output, right_output, "without a batch the output", "head query d_value")


@exercise("12.4")
def test_gradients_of_shared_keys_and_values_add_up(submission, expected, draw):
    q, k, v = draw_qkv(draw, EXACT)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    mask[1, :, 3] = False
    gradients_agree(
        submission.variants.grouped_query_attention,
        expected.variants.grouped_query_attention,
        q, k, v, mask,
        names=QKV,
    )  # fmt: skip


@guard("12.4")
def test_grouped_attention_leaves_its_inputs_alone(submission, draw):
    q, k, v = draw_qkv(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    leaves_inputs_alone(
        submission.variants.grouped_query_attention, q, k, v, mask, names=(*QKV, "mask")
    )


@guard("12.4")
def test_grouped_attention_keeps_the_dtype(submission, draw):
    for dtype in (torch.float32, EXACT):
        output, weights = submission.variants.grouped_query_attention(*draw_qkv(draw, dtype))
        keeps_dtype(output, dtype, "the output")
        keeps_dtype(weights, dtype, "the weights")


# 12.5 A sliding window


@exercise("12.5")
def test_five_words_and_a_window_of_three_by_hand(submission):
    mask = submission.variants.sliding_window_mask(5, 5, 3)
    rows = [
        [T, F, F, F, F],
        [T, T, F, F, F],
        [T, T, T, F, F],
        [F, T, T, T, F],
        [F, F, T, T, T],
    ]
    same_items(mask, torch.tensor(rows), "with a window of 3 the mask of 5 words")


@exercise("12.5")
def test_the_window_is_right_for_every_length_and_width(submission, expected, draw):
    cases = [(draw.number(8, 20), draw.number(2, 7)) for _ in range(3)]
    right = [expected.variants.sliding_window_mask(n, n, window) for n, window in cases]
    masks = [submission.variants.sliding_window_mask(n, n, window) for n, window in cases]
    for (n, window), mask, wanted in zip(cases, masks, right, strict=True):
        agree(mask, wanted, f"the mask of {n} words with a window of {window}", "query key")


@exercise("12.5")
def test_with_a_window_of_one_a_word_sees_itself_only(submission, draw):
    length = draw.number(4, 9)
    mask = submission.variants.sliding_window_mask(length, length, 1)
    same_items(mask, torch.eye(length).bool(), "with a window of 1 the mask")


@exercise("12.5")
def test_a_word_sees_as_many_words_as_the_window_holds(submission, draw):
    length, window = draw.number(8, 14), draw.number(3, 6)
    mask = submission.variants.sliding_window_mask(length, length, window)
    for t, row in enumerate(mask.tolist()):
        wanted = min(t + 1, window)
        require(sum(row) == wanted, f"word {t} sees {sum(row)} words, not {wanted}")


@exercise("12.5")
def test_nobody_sees_what_comes_later(submission, draw):
    length, window = draw.number(6, 12), draw.number(2, 5)
    mask = submission.variants.sliding_window_mask(length, length, window)
    require(not mask.triu(1).any(), "a word may look at one that comes after it")
    require(bool(mask.any()), "nobody may see anything")


@exercise("12.5")
def test_a_window_longer_than_the_text_is_a_causal_mask(submission, expected, draw):
    length = draw.number(4, 9)
    right = expected.masking.causal_mask(length)
    for window in (length, length + 5):
        mask = submission.variants.sliding_window_mask(length, length, window)
        same_items(mask, right, f"with a window of {window} the mask of {length} words")


@exercise("12.5")
def test_the_queries_are_the_last_of_the_keys(submission, expected, draw):
    key, window = draw.number(8, 14), draw.number(2, 5)
    right = [expected.variants.sliding_window_mask(query, key, window) for query in (1, 2, 5)]
    masks = [submission.variants.sliding_window_mask(query, key, window) for query in (1, 2, 5)]
    for query, mask, wanted in zip((1, 2, 5), masks, right, strict=True):
        agree(mask, wanted, f"the mask of the last {query} of {key} words", "query key")


@exercise("12.5")
def test_one_new_word_sees_the_end_of_what_is_cached(submission):
    mask = submission.variants.sliding_window_mask(1, 6, 4)
    same_items(mask, torch.tensor([[F, F, T, T, T, T]]), "the mask of the last of 6 words")


@guard("12.5")
def test_one_word_alone_sees_itself(submission):
    mask = submission.variants.sliding_window_mask(1, 1, 3)
    same_items(mask, torch.tensor([[T]]), "the mask of a single word")


# 12.6 Attention in tiles


def draw_tiles(draw, dtype=torch.float32, scale=1.0, key=KEY):
    return (
        draw.normal(batch=BATCH, heads=3, query=QUERY, d_head=D_HEAD, dtype=dtype, scale=scale),
        draw.normal(batch=BATCH, heads=3, key=key, d_head=D_HEAD, dtype=dtype, scale=scale),
        draw.normal(batch=BATCH, heads=3, key=key, d_value=D_VALUE, dtype=dtype),
    )


OUTPUT = "batch head query d_value"


@exercise("12.6")
def test_tiles_of_any_size_give_the_output_of_attention(submission, expected, draw):
    q, k, v = draw_tiles(draw)
    right, _ = expected.attention.scaled_dot_product_attention(q, k, v)
    for tile in (1, 2, 3, 4):
        output = submission.variants.tiled_attention(q, k, v, tile)
        agree(output, right, f"with tiles of {tile} the output", OUTPUT)


@exercise("12.6")
def test_a_tile_as_long_as_the_keys_or_longer_is_plain_attention(submission, expected, draw):
    q, k, v = draw_tiles(draw)
    right, _ = expected.attention.scaled_dot_product_attention(q, k, v)
    for tile in (KEY, KEY + 4):
        output = submission.variants.tiled_attention(q, k, v, tile)
        agree(output, right, f"with one tile of {tile} the output", OUTPUT)


@exercise("12.6")
def test_three_keys_in_two_tiles_by_hand(submission, device):
    # Scores log 1, log 2, log 5 after the division by the root of 4: weights 1/8, 2/8, 5/8.
    q = torch.tensor([[2.0, 0.0, 0.0, 0.0]], device=device)
    k = torch.zeros(3, 4, device=device)
    k[:, 0] = torch.tensor([1.0, 2.0, 5.0]).log()
    v = torch.tensor([[8.0, 0.0], [0.0, 8.0], [8.0, 8.0]], device=device)
    wanted = torch.tensor([[6.0, 7.0]], device=device)
    for tile in (1, 2):
        output = submission.variants.tiled_attention(q, k, v, tile)
        agree(output, wanted, f"for three keys in tiles of {tile} the output", "query d_value")


@exercise("12.6")
def test_scores_that_rise_from_tile_to_tile_scale_down_what_came_before(submission, expected, draw):
    q, k, v = draw_tiles(draw, EXACT)
    q[..., 0] = 4.0
    k[..., 0] = torch.arange(KEY, dtype=EXACT, device=k.device)
    right, _ = expected.attention.scaled_dot_product_attention(q, k, v)
    for tile in (1, 3):
        output = submission.variants.tiled_attention(q, k, v, tile)
        agree(output, right, f"with rising scores, in tiles of {tile}, the output", OUTPUT)


@exercise("12.6")
def test_scores_that_fall_from_tile_to_tile_count_for_less(submission, expected, draw):
    q, k, v = draw_tiles(draw, EXACT)
    q[..., 0] = 4.0
    k[..., 0] = -torch.arange(KEY, dtype=EXACT, device=k.device)
    right, _ = expected.attention.scaled_dot_product_attention(q, k, v)
    for tile in (1, 3):
        output = submission.variants.tiled_attention(q, k, v, tile)
        agree(output, right, f"with falling scores, in tiles of {tile}, the output", OUTPUT)


@exercise("12.6")
def test_scores_of_all_sizes_stay_finite(submission, expected, draw):
    q, k, v = draw_tiles(draw, EXACT, scale=100.0)
    right, _ = expected.attention.scaled_dot_product_attention(q, k, v)
    output = submission.variants.tiled_attention(q, k, v, 2)
    finite(output, "at scores of some 10,000 the output")
    agree(output, right, "at scores of some 10,000 the output", OUTPUT)


@exercise("12.6")
def test_scores_far_below_zero_share_the_weight(submission, expected, draw):
    q, k, v = draw_tiles(draw, EXACT)
    q[..., 0] = 1.0
    far, further = k.clone(), k.clone()
    far[..., 0], further[..., 0] = -1e4, -1e10
    right = [expected.attention.scaled_dot_product_attention(q, some, v)[0] for some in (far, further)]
    output = submission.variants.tiled_attention(q, far, v, 3)
    agree(output, right[0], "at scores below -1000 the output", OUTPUT)
    output = submission.variants.tiled_attention(q, further, v, 3)
    agree(output, right[1], "at scores below -1e9 the output", OUTPUT, rel=1e-3, abs=1e-4)


@exercise("12.6")
def test_it_works_without_heads_on_wide_transposed_inputs(submission, expected, draw):
    q = draw.normal(d_head=32, query=QUERY).mT
    k = draw.normal(d_head=32, key=KEY).mT
    v = draw.normal(d_value=D_VALUE, key=KEY).mT
    right, _ = expected.attention.scaled_dot_product_attention(q, k, v)
    output = submission.variants.tiled_attention(q, k, v, 3)
    agree(output, right, "with heads 32 wide the output", "query d_value")


@exercise("12.6")
def test_a_mask_hides_keys_in_every_tile(submission, expected, draw):
    q, k, v = draw_tiles(draw)
    mask = draw.mask(batch=BATCH, heads=3, query=QUERY, key=KEY)
    right, _ = expected.attention.scaled_dot_product_attention(q, k, v, mask)
    for tile in (1, 3):
        output = submission.variants.tiled_attention(q, k, v, tile, mask)
        agree(output, right, f"under a mask, in tiles of {tile}, the output", OUTPUT)


@exercise("12.6")
def test_smaller_masks_broadcast(submission, expected, draw):
    q, k, v = draw_tiles(draw)
    masks = [draw.mask(batch=BATCH, heads=1, query=1, key=KEY), draw.mask(query=QUERY, key=KEY)]
    masks.append(draw.mask(batch=BATCH, heads=3, key=QUERY)[..., None])
    attention = expected.attention.scaled_dot_product_attention
    right = [attention(q, k, v, mask)[0] for mask in masks]
    results = [submission.variants.tiled_attention(q, k, v, 3, mask) for mask in masks]
    agree(results[0], right[0], "under a mask (batch, 1, 1, key) the output", OUTPUT)
    agree(results[1], right[1], "under a mask (query, key) the output", OUTPUT)
    agree(results[2], right[2], "under a mask (batch, heads, query, 1) the output", OUTPUT)


@exercise("12.6")
def test_a_causal_mask_leaves_the_first_queries_nothing_in_later_tiles(submission, expected, draw):
    q, k, v = draw_tiles(draw)
    right_mask = expected.masking.causal_mask(KEY)
    # Both ways round: nothing to see in the last tiles, and nothing in the first ones.
    for mask in (right_mask[2:], right_mask.flip(-1)[2:]):
        mask = mask.to(q.device)
        right, _ = expected.attention.scaled_dot_product_attention(q, k, v, mask)
        output = submission.variants.tiled_attention(q, k, v, 2, mask)
        finite(output, "where some tiles are hidden from a query the output")
        agree(output, right, "where some tiles are hidden from a query the output", OUTPUT)


@exercise("12.6")
def test_queries_that_may_attend_to_nothing_get_zeros(submission, expected, draw):
    q, k, v = draw_tiles(draw)
    mask = draw.mask(batch=BATCH, heads=3, query=QUERY, key=KEY)
    mask[0, 1, 2] = False
    mask[1, :, 4] = False
    right, _ = expected.attention.scaled_dot_product_attention(q, k, v, mask)
    output = submission.variants.tiled_attention(q, k, v, 3, mask)
    finite(output, "with queries that may attend to nothing the output")
    agree(output, right, "with queries that may attend to nothing the output", OUTPUT)


@guard("12.6")
def test_where_everything_is_hidden_all_is_zero(submission, draw):
    q, k, v = draw_tiles(draw)
    mask = torch.zeros(QUERY, KEY, dtype=torch.bool, device=q.device)
    output = submission.variants.tiled_attention(q, k, v, 3, mask)
    wanted = torch.zeros(BATCH, 3, QUERY, D_VALUE)
    agree(output, wanted, "where everything is hidden the output", OUTPUT)


@exercise("12.6")
def test_what_hidden_keys_hold_makes_no_difference(submission, expected, draw):
    q, k, v = draw_tiles(draw)
    mask = draw.mask(query=1, key=KEY)
    right, _ = expected.attention.scaled_dot_product_attention(q, k, v, mask)
    loud = torch.where(mask.mT, 1.0, 1e4)
    output = submission.variants.tiled_attention(q, k * loud, v * loud, 2, mask)
    agree(output, right, "with large numbers at hidden keys the output", OUTPUT)


@exercise("12.6")
def test_a_tile_that_no_query_may_see_is_skipped(submission, expected, draw):
    q, k, v = draw_tiles(draw, key=9)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=9)
    mask[..., 4:6] = False
    right, _ = expected.attention.scaled_dot_product_attention(q, k, v, mask)
    k[..., 4:6, :], v[..., 4, :] = math.nan, math.nan
    output = submission.variants.tiled_attention(q, k, v, 2, mask)
    finite(output, "with NaN in a tile that nobody may see the output")
    agree(output, right, "with NaN in a tile that nobody may see the output", OUTPUT)


@exercise("12.6")
def test_gradients_reach_queries_keys_and_values_through_the_tiles(submission, expected, draw):
    gradients_agree(
        submission.variants.tiled_attention,
        expected.variants.tiled_attention,
        *draw_tiles(draw, EXACT), 3,
        names=QKV,
    )  # fmt: skip


@exercise("12.6")
def test_gradients_are_right_under_a_mask_with_empty_rows_too(submission, expected, draw):
    q, k, v = draw_tiles(draw, EXACT)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    mask[1, :, 3] = False
    mask[0, :, 1, :4] = False
    gradients_agree(
        submission.variants.tiled_attention,
        expected.variants.tiled_attention,
        q, k, v, 2, mask,
        names=QKV,
    )  # fmt: skip


@guard("12.6")
def test_tiled_attention_leaves_its_inputs_alone(submission, draw):
    q, k, v = draw_tiles(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    names = (*QKV, "tile", "mask")
    leaves_inputs_alone(submission.variants.tiled_attention, q, k, v, 3, mask, names=names)


@guard("12.6")
def test_tiled_attention_keeps_the_dtype(submission, draw):
    for dtype in (torch.float32, EXACT):
        keeps_dtype(submission.variants.tiled_attention(*draw_tiles(draw, dtype), 3), dtype)


# 12.7 Routing

EXPERTS = 5


def draw_logits(draw, dtype=torch.float32, scale=1.0):
    return draw.normal(batch=BATCH, token=7, expert=EXPERTS, dtype=dtype, scale=scale)


def routes_agree(found, right, when=""):
    when = f"{when} " if when else ""
    same_items(found[1].flatten(), right[1].flatten(), f"{when}the experts of all tokens")
    agree(found[0], right[0], f"{when}the weight", "batch token choice")


@exercise("12.7")
def test_the_largest_logits_share_the_weight_best_first(submission, expected, draw):
    logits = draw_logits(draw)
    right = expected.variants.route(logits, 2)
    routes_agree(submission.variants.route(logits, 2), right)


@exercise("12.7")
def test_one_token_and_four_experts_by_hand(submission, device):
    logits = torch.tensor([[0.0, math.log(2.0), 5.0, math.log(6.0) + 5.0]], device=device)
    weights, experts = submission.variants.route(logits, 2)
    same_items(experts, torch.tensor([[3, 2]]), "the experts")
    agree(weights, torch.tensor([[6 / 7, 1 / 7]]), "the weight", "token choice")


@exercise("12.7")
def test_any_number_of_experts_may_be_asked_for(submission, expected, draw):
    logits = draw_logits(draw)
    right = [expected.variants.route(logits, k) for k in (1, 3, EXPERTS)]
    found = [submission.variants.route(logits, k) for k in (1, 3, EXPERTS)]
    for k, one, wanted in zip((1, 3, EXPERTS), found, right, strict=True):
        routes_agree(one, wanted, f"with k = {k}")


@exercise("12.7")
def test_the_weights_of_the_chosen_sum_to_one(submission, draw):
    logits = draw_logits(draw)
    weights, _ = submission.variants.route(logits, 3)
    agree(weights.sum(dim=-1), 1.0, "the sum of a token's weights", "batch token")
    require(bool((weights >= 0).all()), "a weight is negative: weights come out of a softmax")


@exercise("12.7")
def test_logits_that_are_all_negative_are_routed_like_others(submission, expected, draw):
    logits = draw_logits(draw) - 20.0
    right = expected.variants.route(logits, 2)
    routes_agree(submission.variants.route(logits, 2), right, "for logits of about -20")


@exercise("12.7")
def test_logits_beyond_what_can_be_exponentiated_stay_finite(submission, expected, draw):
    logits = draw_logits(draw) + 100.0
    right = expected.variants.route(logits, 2)
    weights, experts = submission.variants.route(logits, 2)
    finite(weights, "at logits of about 100 the weight")
    routes_agree((weights, experts), right, "at logits of about 100")


@exercise("12.7")
def test_a_single_token_without_other_axes_is_routed(submission, expected, draw):
    logits = draw.normal(expert=EXPERTS, scale=3.0)
    right_weights, right_experts = expected.variants.route(logits, 2)
    weights, experts = submission.variants.route(logits, 2)
    same_items(experts, right_experts, "the experts of a single token")
    agree(weights, right_weights, "for a single token the weight", "choice")


@exercise("12.7")
def test_gradients_reach_the_logits_of_the_chosen(submission, expected, draw):
    gradients_agree(
        submission.variants.route, expected.variants.route, draw_logits(draw, EXACT), 3,
        names=("logits",),
    )  # fmt: skip


@exercise("12.7")
def test_no_expert_is_asked_twice(submission, draw):
    _, experts = submission.variants.route(draw_logits(draw), EXPERTS)
    same_items(
        experts.sort(dim=-1).values,
        torch.arange(EXPERTS).expand(BATCH, 7, EXPERTS),
        "with k = 5 of 5 experts those of every token, sorted,",
    )


@guard("12.7")
def test_the_logits_are_left_alone(submission, draw):
    leaves_inputs_alone(submission.variants.route, draw_logits(draw), 2, names=("logits",))


@guard("12.7")
def test_the_weights_keep_the_dtype(submission, draw):
    for dtype in (torch.float32, EXACT):
        weights, _ = submission.variants.route(draw_logits(draw, dtype), 2)
        keeps_dtype(weights, dtype, "the weights")


# 12.8 A loss that keeps the experts busy


def draw_choices(draw, k=2, dtype=torch.float32):
    """Probabilities of all experts, and k different experts a token, the last never chosen."""
    logits = draw.normal(batch=BATCH, token=7, expert=EXPERTS, dtype=dtype)
    places = draw.normal(batch=BATCH, token=7, expert=EXPERTS - 1)
    return logits.softmax(dim=-1), places.topk(k, dim=-1).indices


@exercise("12.8")
def test_the_loss_is_shares_times_mean_probabilities(submission, expected, draw):
    probabilities, experts = draw_choices(draw)
    right = expected.variants.balance_loss(probabilities, experts)
    agree(submission.variants.balance_loss(probabilities, experts), right, "the loss")


@exercise("12.8")
def test_four_tokens_and_two_experts_by_hand(submission, device):
    # Shares 3/4 and 1/4, mean probabilities 5/8 and 3/8: 2 * (15/32 + 3/32).
    probabilities = torch.tensor([[1.0, 0.0], [0.75, 0.25], [0.5, 0.5], [0.25, 0.75]], device=device)
    experts = torch.tensor([[0], [0], [0], [1]], device=device)
    loss = submission.variants.balance_loss(probabilities, experts)
    agree(loss, torch.tensor(1.125), "for four tokens by hand the loss")


@guard("12.8")
def test_experts_that_are_used_alike_give_one(submission, device):
    probabilities = torch.full((6, 3), 1 / 3, device=device)
    experts = torch.tensor([[0, 1], [1, 2], [2, 0], [0, 1], [1, 2], [2, 0]], device=device)
    two = submission.variants.balance_loss(probabilities, experts)
    one = submission.variants.balance_loss(probabilities, experts[:, :1])
    agree(two, torch.tensor(1.0), "with two experts a token, all used alike, the loss")
    agree(one, torch.tensor(1.0), "with one expert a token, all used alike, the loss")


@exercise("12.8")
def test_one_expert_for_all_tokens_gives_the_number_of_experts(submission, device):
    sure = torch.tensor([[0.0, 0.0, 1.0]], device=device).expand(4, 3)
    loss = submission.variants.balance_loss(sure, torch.full((4, 1), 2, device=device))
    agree(loss, torch.tensor(3.0), "where one of three experts gets all tokens the loss")


@exercise("12.8")
def test_one_three_or_all_experts_a_token_work(submission, expected, draw):
    cases = [draw_choices(draw, k) for k in (1, 3, 4)]
    right = [expected.variants.balance_loss(*case) for case in cases]
    losses = [submission.variants.balance_loss(*case) for case in cases]
    for k, loss, wanted in zip((1, 3, 4), losses, right, strict=True):
        agree(loss, wanted, f"with {k} experts a token the loss")


@exercise("12.8")
def test_tokens_may_come_in_any_number_of_axes(submission, expected, draw):
    probabilities, experts = draw_choices(draw, dtype=EXACT)
    flat = probabilities[0], experts[0]
    deep = probabilities.reshape(2, 7, 1, -1), experts.reshape(2, 7, 1, -1)
    single = probabilities[0, 0], experts[0, 0]
    right = [expected.variants.balance_loss(*pair) for pair in (flat, deep, single)]
    losses = [submission.variants.balance_loss(*pair) for pair in (flat, deep, single)]
    agree(losses[0], right[0], "for tokens in one axis the loss")
    agree(losses[1], right[1], "for tokens in three axes the loss")
    agree(losses[2], right[2], "for a single token the loss")


@exercise("12.8")
def test_all_tokens_of_a_batch_are_counted_together(submission, expected, draw):
    probabilities, _ = draw_choices(draw, dtype=EXACT)
    # Each sentence uses one expert only, and both together are even.
    experts = torch.zeros(BATCH, 7, 1, dtype=torch.long, device=probabilities.device)
    experts[1] = 3
    right = expected.variants.balance_loss(probabilities, experts)
    loss = submission.variants.balance_loss(probabilities, experts)
    agree(loss, right, "where every sentence has an expert of its own the loss")


@exercise("12.8")
def test_gradients_reach_the_probabilities(submission, expected, draw):
    probabilities, experts = draw_choices(draw, dtype=EXACT)
    gradients_agree(
        submission.variants.balance_loss, expected.variants.balance_loss, probabilities, experts,
        names=("probabilities",),
    )  # fmt: skip


@guard("12.8")
def test_probabilities_and_choices_are_left_alone(submission, draw):
    names = ("probabilities", "experts")
    leaves_inputs_alone(submission.variants.balance_loss, *draw_choices(draw), names=names)


@guard("12.8")
def test_the_loss_keeps_the_dtype(submission, draw):
    for dtype in (torch.float32, EXACT):
        loss = submission.variants.balance_loss(*draw_choices(draw, dtype=dtype))
        keeps_dtype(loss, dtype, "the loss")


# 12.9 A mixture of experts


def twins(mine, theirs, draw, sizes, dtype=torch.float32, edit=None):
    """Make the module under test and the right one, with the same weights."""
    theirs, mine = theirs(*sizes), mine(*sizes)
    if dtype == EXACT:
        theirs.double()
        mine.double()
    state = draw.state(theirs)
    if edit is not None:
        edit(state)
    theirs.load_state_dict(state)
    mine.load_state_dict(state)
    return mine, theirs


def twin_mixtures(submission, expected, draw, dtype=torch.float32, k=2, edit=None):
    return twins(
        submission.variants.MixtureOfExperts,
        expected.variants.MixtureOfExperts,
        draw,
        (D_MODEL, D_FF, 4, k),
        dtype,
        edit,
    )


def mixtures_agree(found, right, when=""):
    when = f"{when} " if when else ""
    agree(found[0], right[0], f"{when}the output", WORDS)
    agree(found[1], right[1], f"{when}the balance loss")


@exercise("12.9")
def test_every_token_gets_the_weighted_sum_of_its_experts(submission, expected, draw):
    mine, right = twin_mixtures(submission, expected, draw)
    x = draw_words(draw)
    wanted = right(x)
    agree(mine(x)[0], wanted[0], "the output", WORDS)


@exercise("12.9")
def test_the_balance_loss_is_that_of_the_same_routes(submission, expected, draw):
    mine, right = twin_mixtures(submission, expected, draw)
    x = draw_words(draw)
    wanted = right(x)
    agree(mine(x)[1], wanted[1], "the balance loss")


@exercise("12.9")
def test_a_token_may_have_one_expert_three_or_all(submission, expected, draw):
    pairs = [twin_mixtures(submission, expected, draw, k=k) for k in (1, 3, 4)]
    x = draw_words(draw)
    wanted = [right(x) for _, right in pairs]
    for k, (mine, _), one in zip((1, 3, 4), pairs, wanted, strict=True):
        mixtures_agree(mine(x), one, f"with {k} of 4 experts a token")


def shun(state, expert):
    """Let no token choose an expert, whose first feature is one."""
    state["router.weight"][expert] = 0.0
    state["router.weight"][expert, 0] = -100.0


@exercise("12.9")
def test_an_expert_that_nobody_chose_makes_no_difference(submission, expected, draw):
    def edit(state):
        shun(state, 1)
        state["experts.1.w_down.weight"].fill_(math.nan)

    mine, right = twin_mixtures(submission, expected, draw, edit=edit)
    x = draw_words(draw)
    x[..., 0] = 1.0
    wanted, found = right(x), mine(x)
    finite(found[0], "where an expert that nobody chose would give NaN the output")
    mixtures_agree(found, wanted, "where an expert that nobody chose would give NaN")


@exercise("12.9")
def test_an_expert_runs_on_the_tokens_that_chose_it_only(submission, expected, draw):
    def edit(state):
        # The sign of the first feature decides whether a token goes to expert 2 or shuns it.
        state["router.weight"][2] = 0.0
        state["router.weight"][2, 0] = 100.0
        # Only expert 2 looks at the second feature, which is too large to be squared in half of them.
        for name, tensor in state.items():
            if tensor.shape[-1] == D_MODEL and not name.startswith("experts.2."):
                tensor[:, 1] = 0.0

    mine, right = twin_mixtures(submission, expected, draw, edit=edit)
    x = draw_words(draw)
    shunning = torch.arange(SEQ, device=x.device) % 2 == 1
    x[..., 0] = torch.where(shunning, -1.0, 1.0)
    x[..., 1] = torch.where(shunning, 1e30, 0.5)
    wanted, found = right(x), mine(x)
    finite(found[0], "where an expert would give infinity for tokens of others the output")
    mixtures_agree(found, wanted, "where an expert would give infinity for tokens of others")


@exercise("12.9")
def test_all_tokens_may_choose_the_same_expert(submission, expected, draw):
    def edit(state):
        state["router.weight"][3, 0] = 100.0

    mine, right = twin_mixtures(submission, expected, draw, k=1, edit=edit)
    x = draw_words(draw)
    x[..., 0] = 1.0
    wanted = right(x)
    mixtures_agree(mine(x), wanted, "where all tokens choose the same expert")


@exercise("12.9")
def test_one_sentence_of_one_word_goes_through(submission, expected, draw):
    mine, right = twin_mixtures(submission, expected, draw)
    x, turned = draw.normal(batch=1, seq=1, d_model=D_MODEL), draw.normal(seq=SEQ, batch=BATCH,
                                                                        d_model=D_MODEL)  # fmt: skip
    turned = turned.transpose(0, 1)
    wanted = right(x), right(turned)
    mixtures_agree(mine(x), wanted[0], "for a sentence of one word")
    mixtures_agree(mine(turned), wanted[1], "for a transposed x")


@exercise("12.9")
def test_gradients_reach_the_words_the_router_and_the_experts(submission, expected, draw):
    mine, right = twin_mixtures(submission, expected, draw, EXACT)
    gradients_agree(mine, right, draw_words(draw, EXACT), names=("x",))


@guard("12.9")
def test_a_token_is_routed_by_itself(submission, expected, draw):
    mine, _ = twin_mixtures(submission, expected, draw)
    x = draw_words(draw)
    agree(mine(x[1:])[0], mine(x)[0][1:], "for the last sentence alone the output", WORDS)


@guard("12.9")
def test_the_mixture_leaves_its_input_alone(submission, expected, draw):
    mine, _ = twin_mixtures(submission, expected, draw)
    leaves_inputs_alone(mine, draw_words(draw), names=("x",))


@guard("12.9")
def test_the_mixture_keeps_the_dtype(submission, expected, draw):
    for dtype in (torch.float32, EXACT):
        mine, _ = twin_mixtures(submission, expected, draw, dtype)
        output, loss = mine(draw_words(draw, dtype))
        keeps_dtype(output, dtype, "the output")
        keeps_dtype(loss, dtype, "the loss")


# 12.10 The modern block

WIDTH = 24  # six heads, four wide


def twin_blocks(submission, expected, draw, dtype=torch.float32, kv_heads=KV_HEADS, edit=None):
    return twins(
        submission.variants.ModernBlock,
        expected.variants.ModernBlock,
        draw,
        (WIDTH, HEADS, kv_heads, D_FF),
        dtype,
        edit,
    )


def draw_wide(draw, dtype=torch.float32, scale=1.0, seq=SEQ):
    return draw.normal(batch=BATCH, seq=seq, d_model=WIDTH, dtype=dtype, scale=scale)


def silence(state):
    """Make both sublayers give zeros."""
    state["w_o.weight"].zero_()
    state["feed_forward.w_down.weight"].zero_()


@exercise("12.10")
def test_words_look_back_then_think(submission, expected, draw):
    mine, right = twin_blocks(submission, expected, draw)
    x = draw_wide(draw)
    wanted = right(x)
    agree(mine(x), wanted, "the result", WORDS)


@exercise("12.10")
def test_order_is_in_the_rotation_of_queries_and_keys(submission, expected, draw):
    def edit(state):
        state["feed_forward.w_down.weight"].zero_()
        state["w_q.weight"] *= 3.0

    mine, right = twin_blocks(submission, expected, draw, EXACT, edit=edit)
    x = draw_wide(draw, EXACT, seq=11)
    wanted = right(x)
    agree(mine(x), wanted, "for eleven words, with a silent feed-forward layer, the result", WORDS)


@exercise("12.10")
def test_one_word_has_nothing_to_look_back_to(submission, expected, draw):
    mine, right = twin_blocks(submission, expected, draw)
    x, turned = draw_wide(draw, seq=1), draw.normal(seq=SEQ, batch=BATCH, d_model=WIDTH).transpose(0, 1)
    wanted = right(x), right(turned)
    agree(mine(x), wanted[0], "for sentences of one word the result", WORDS)
    agree(mine(turned), wanted[1], "for a transposed x the result", WORDS)


@exercise("12.10")
def test_one_key_value_head_or_one_for_every_query_head_work(submission, expected, draw):
    pairs = [twin_blocks(submission, expected, draw, kv_heads=kv_heads) for kv_heads in (1, HEADS)]
    x = draw_wide(draw)
    wanted = [right(x) for _, right in pairs]
    agree(pairs[0][0](x), wanted[0], "with one key-value head the result", WORDS)
    agree(pairs[1][0](x), wanted[1], "with a key-value head for every query head the result", WORDS)


@exercise("12.10")
def test_padding_is_hidden_on_top_of_the_future(submission, expected, draw):
    mine, right = twin_blocks(submission, expected, draw)
    x, mask = draw_wide(draw), draw.mask(batch=BATCH, heads=1, query=1, key=SEQ)
    wanted = right(x, mask)
    agree(mine(x, mask), wanted, "under a padding mask the result", WORDS)


@exercise("12.10")
def test_any_mask_that_broadcasts_hides_more(submission, expected, draw):
    mine, right = twin_blocks(submission, expected, draw)
    x, pairs = draw_wide(draw), draw.mask(query=SEQ, key=SEQ)
    by_head = draw.mask(batch=BATCH, heads=HEADS, query=SEQ, key=SEQ)
    wanted = right(x, pairs), right(x, by_head)
    agree(mine(x, pairs), wanted[0], "under a mask (seq, seq) the result", WORDS)
    agree(mine(x, by_head), wanted[1], "under a mask (batch, heads, seq, seq) the result", WORDS)


@exercise("12.10")
def test_each_sublayer_has_the_norm_of_its_own(submission, expected, draw):
    def edit(state):
        state["norm_1.weight"] *= 3.0
        state["norm_2.weight"] *= -0.5

    mine, right = twin_blocks(submission, expected, draw, EXACT, edit=edit)
    x = draw_wide(draw, EXACT)
    wanted = right(x)
    agree(mine(x), wanted, "with two very different norms the result", WORDS)


@exercise("12.10")
def test_the_path_around_the_sublayers_is_not_normalised(submission, expected, draw):
    mine, right = twin_blocks(submission, expected, draw, EXACT)
    x = draw_wide(draw, EXACT, scale=50.0)
    wanted = right(x)
    agree(mine(x), wanted, "for features of about 50 the result", WORDS)


@exercise("12.10")
def test_attention_alone_is_right_when_the_feed_forward_layer_is_silent(submission, expected, draw):
    def edit(state):
        state["feed_forward.w_down.weight"].zero_()

    mine, right = twin_blocks(submission, expected, draw, EXACT, edit=edit)
    x = draw_wide(draw, EXACT)
    wanted = right(x)
    agree(mine(x), wanted, "with a silent feed-forward layer the result", WORDS)


@exercise("12.10")
def test_the_feed_forward_layer_alone_is_right_when_attention_is_silent(submission, expected, draw):
    def edit(state):
        state["w_o.weight"].zero_()

    mine, right = twin_blocks(submission, expected, draw, EXACT, edit=edit)
    x = draw_wide(draw, EXACT)
    wanted = right(x)
    agree(mine(x), wanted, "with a silent attention the result", WORDS)


@exercise("12.10")
def test_gradients_reach_the_words_and_all_weights_of_the_block(submission, expected, draw):
    mine, right = twin_blocks(submission, expected, draw, EXACT)
    x, mask = draw_wide(draw, EXACT), draw.mask(batch=BATCH, heads=1, query=1, key=SEQ)
    gradients_agree(mine, right, x, mask, names=("x",))


@guard("12.10")
def test_with_silent_sublayers_the_block_gives_back_its_input(submission, expected, draw):
    mine, _ = twin_blocks(submission, expected, draw, edit=silence)
    x = draw_wide(draw, scale=3.0)
    agree(mine(x), x, "with sublayers that give zeros the result", WORDS)


@guard("12.10")
def test_a_later_word_changes_no_earlier_one(submission, expected, draw):
    mine, _ = twin_blocks(submission, expected, draw)
    x = draw_wide(draw)
    before = mine(x)
    changed = x.clone()
    changed[:, 3] = 2.0 - changed[:, 3]
    after = mine(changed)
    agree(after[:, :3], before[:, :3], "after a change of a later word the result", WORDS)


@guard("12.10")
def test_the_modern_block_leaves_its_inputs_alone(submission, expected, draw):
    mine, _ = twin_blocks(submission, expected, draw)
    mask = draw.mask(batch=BATCH, heads=1, query=1, key=SEQ)
    leaves_inputs_alone(mine, draw_wide(draw), mask, names=("x", "mask"))


@guard("12.10")
def test_the_modern_block_keeps_the_dtype(submission, expected, draw):
    for dtype in (torch.float32, EXACT):
        mine, _ = twin_blocks(submission, expected, draw, dtype)
        keeps_dtype(mine(draw_wide(draw, dtype)), dtype)
