"""Week 3: why scores are divided by the root of d_k, and many heads."""

import math
import statistics

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
)

# Sizes never coincide: an exchanged axis cannot go unnoticed.
BATCH, HEADS, QUERY, KEY, D_HEAD, D_VALUE = 2, 3, 5, 7, 8, 6
SEQ, D_MODEL = 5, 12
QKV = ("q", "k", "v")


# 3.1 The variance of a dot product

SAMPLES = 4000


def size(estimate):
    """What recognition may look at: how large an estimate is, whatever the luck of the draw."""
    return math.copysign(math.log1p(abs(estimate)), estimate) if abs(estimate) > 0.5 else 0.0


def estimate_variance(submission, d, generator):
    estimate = submission.attention.dot_product_variance.seen_as(size, tolerance=0.12)
    return estimate(d, SAMPLES, generator)


@guard("3.1")
def test_the_product_of_two_random_numbers_has_variance_one(submission, draw):
    estimate = estimate_variance(submission, 1, draw.generator())
    agree(estimate, 1.0, "with d = 1 the variance", rel=0.35)


@exercise("3.1")
def test_the_variance_of_a_dot_product_is_the_number_of_its_terms(submission, draw):
    estimate = estimate_variance(submission, 20, draw.generator())
    agree(estimate, 20.0, "with d = 20 the variance", rel=0.18)


@exercise("3.1")
def test_the_variance_keeps_growing_for_wide_vectors(submission, draw):
    estimate = estimate_variance(submission, 50, draw.generator())
    agree(estimate, 50.0, "with d = 50 the variance", rel=0.18)


@exercise("3.1")
def test_four_times_the_width_gives_four_times_the_variance(submission, draw):
    narrow_generator, wide_generator = draw.generator(), draw.generator()
    narrow = estimate_variance(submission, 7, narrow_generator)
    wide = estimate_variance(submission, 28, wide_generator)
    require(
        narrow != 0 and abs(wide / narrow / 4 - 1) < 0.25,
        "from d = 7 to d = 28 the variance should grow fourfold, "
        f"it went from {narrow:.3g} to {wide:.3g}",
    )


def scattered(estimates, share):
    """Tell whether estimates differ from each other by more than a share of their mean."""
    mean = statistics.fmean(estimates)
    return math.isfinite(mean) and statistics.pstdev(estimates) > share * abs(mean)


@exercise("3.1")
def test_estimates_from_few_samples_are_scattered(submission, draw):
    # From 8 samples they differ by half of their mean, from a hundred still by a seventh.
    *generators, last = [draw.generator() for _ in range(24)]
    variance = submission.attention.dot_product_variance
    estimates = [variance.seen_as(lambda _: "one of many", 0.0)(20, 8, g) for g in generators]
    seen = variance.seen_as(lambda estimate: scattered([*estimates, estimate], 0.25), 0.0)
    estimates.append(seen(20, 8, last))
    require(
        scattered(estimates, 0.25),
        "estimates from only 8 samples should differ a lot from each other, but yours go from "
        f"{min(estimates):.3g} to {max(estimates):.3g}: are as many samples drawn as asked for?",
    )


@guard("3.1")
def test_estimates_from_many_samples_are_close_to_each_other(submission, draw):
    generators = [draw.generator() for _ in range(12)]
    estimates = []
    for generator in generators:
        so_far = tuple(estimates)
        seen = submission.attention.dot_product_variance.seen_as(
            lambda estimate, so_far=so_far: len(so_far) > 2 and scattered([*so_far, estimate], 0.3), 0.0
        )
        estimates.append(seen(5, 1000, generator))
    require(
        not scattered(estimates, 0.3),
        "estimates from 1000 samples should be close to each other, but yours go from "
        f"{min(estimates):.3g} to {max(estimates):.3g}: is every sample a new pair of vectors?",
    )


@exercise("3.1")
def test_another_generator_gives_another_estimate(submission, draw):
    one, other = draw.generator(), draw.generator()
    variance = submission.attention.dot_product_variance
    first = variance.seen_as(lambda value: value == 30, 0.0)(30, 100, one)
    second = variance.seen_as(lambda value: value == first, 0.0)(30, 100, other)
    require(
        first != second,
        f"two generators in different states gave the very same estimate, {first:.6g}: "
        "an estimate comes from random numbers",
    )


@exercise("3.1")
def test_an_estimate_is_not_rounded(submission, draw):
    generator = draw.generator()
    variance = submission.attention.dot_product_variance
    estimate = variance.seen_as(lambda value: value % 1 == 0, 0.0)(30, 100, generator)
    require(
        estimate % 1 != 0,
        f"the estimate is {estimate:.6g}, a whole number: what random numbers give hardly ever is one",
    )


@guard("3.1")
def test_the_same_generator_gives_the_same_estimate(submission, draw):
    generator = draw.generator()
    variance = submission.attention.dot_product_variance
    first = variance.seen_as(lambda _: "first", 0.0)(30, 100, generator)
    second = variance.seen_as(lambda value: value == first, 0.0)(30, 100, generator)
    require(
        first == second or (math.isnan(first) and math.isnan(second)),
        f"two generators in the same state gave {first:.6g} and {second:.6g}: "
        "every random number must come from the generator that is passed in",
    )


# 3.2 Scaled dot-product attention


def draw_qkv(draw, dtype=torch.float32, scale=1.0):
    return (
        draw.normal(batch=BATCH, heads=HEADS, query=QUERY, d_head=D_HEAD, dtype=dtype, scale=scale),
        draw.normal(batch=BATCH, heads=HEADS, key=KEY, d_head=D_HEAD, dtype=dtype, scale=scale),
        draw.normal(batch=BATCH, heads=HEADS, key=KEY, d_value=D_VALUE, dtype=dtype),
    )


@exercise("3.2")
def test_output_and_weights_follow_the_formula(submission, expected, draw):
    q, k, v = draw_qkv(draw)
    right_output, right_weights = expected.attention.scaled_dot_product_attention(q, k, v)
    output, weights = submission.attention.scaled_dot_product_attention(q, k, v)
    agree(weights, right_weights, "the weight", "batch head query key")
    agree(output, right_output, "the output", "batch head query d_value")


@exercise("3.2")
def test_a_small_example_by_hand(submission, device):
    # Two keys with scores ln 3 and 0, once divided by the root of 4: odds of three to one.
    q = torch.tensor([[2 * math.log(3), 0.0, 0.0, 5.0]], device=device)
    k = torch.tensor([[1.0, 0.0, 9.0, 0.0], [0.0, 1.0, -9.0, 0.0]], device=device)
    v = torch.tensor([[4.0, 0.0, 8.0], [0.0, 4.0, 8.0]], device=device)
    output, weights = submission.attention.scaled_dot_product_attention(q, k, v)
    agree(weights, torch.tensor([[0.75, 0.25]]), "the weight", "query key")
    agree(output, torch.tensor([[3.0, 1.0, 8.0]]), "the output", "query d_value")


@exercise("3.2")
def test_it_works_in_double_precision_and_without_heads(submission, expected, draw):
    q = draw.normal(query=QUERY, d_head=D_HEAD, dtype=torch.float64)
    k = draw.normal(key=KEY, d_head=D_HEAD, dtype=torch.float64)
    v = draw.normal(key=KEY, d_value=D_VALUE, dtype=torch.float64)
    right_output, right_weights = expected.attention.scaled_dot_product_attention(q, k, v)
    output, weights = submission.attention.scaled_dot_product_attention(q, k, v)
    agree(weights, right_weights, "the weight", "query key")
    agree(output, right_output, "the output", "query d_value")


@exercise("3.2")
def test_it_works_on_transposed_inputs_with_wide_heads(submission, expected, draw):
    q = draw.normal(batch=BATCH, d_head=32, query=QUERY).mT
    k = draw.normal(batch=BATCH, d_head=32, key=KEY).mT
    v = draw.normal(batch=BATCH, d_value=D_VALUE, key=KEY).mT
    right_output, right_weights = expected.attention.scaled_dot_product_attention(q, k, v)
    output, weights = submission.attention.scaled_dot_product_attention(q, k, v)
    agree(weights, right_weights, "with heads 32 wide the weight", "batch query key")
    agree(output, right_output, "with heads 32 wide the output", "batch query d_value")


@exercise("3.2")
def test_a_single_key_gets_all_the_weight(submission, draw):
    q = draw.normal(batch=BATCH, heads=HEADS, query=QUERY, d_head=D_HEAD)
    k = draw.normal(batch=BATCH, heads=HEADS, key=1, d_head=D_HEAD)
    v = draw.normal(batch=BATCH, heads=HEADS, key=1, d_value=D_VALUE)
    output, weights = submission.attention.scaled_dot_product_attention(q, k, v)
    agree(weights, 1.0, "with a single key the weight", "batch head query key")
    agree(output, v.expand_as(output), "with a single key the output", "batch head query d_value")


@exercise("3.2")
def test_weights_of_each_query_are_positive_and_sum_to_one(submission, draw):
    _, weights = submission.attention.scaled_dot_product_attention(*draw_qkv(draw))
    require(bool((weights >= 0).all()), "a weight is negative: weights come out of a softmax")
    agree(weights.sum(dim=-1), 1.0, "the sum of the weights over the keys", "batch head query")


@exercise("3.2")
def test_masked_keys_get_no_weight_and_the_others_share_it(submission, expected, draw):
    q, k, v = draw_qkv(draw)
    mask = draw.mask(batch=BATCH, heads=HEADS, query=QUERY, key=KEY)
    right_output, right_weights = expected.attention.scaled_dot_product_attention(q, k, v, mask)
    output, weights = submission.attention.scaled_dot_product_attention(q, k, v, mask)
    agree(weights, right_weights, "under a mask the weight", "batch head query key")
    agree(output, right_output, "under a mask the output", "batch head query d_value")


@exercise("3.2")
def test_a_mask_for_all_heads_and_queries_broadcasts(submission, expected, draw):
    q, k, v = draw_qkv(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=1, key=KEY)
    right_output, _ = expected.attention.scaled_dot_product_attention(q, k, v, mask)
    output, _ = submission.attention.scaled_dot_product_attention(q, k, v, mask)
    agree(output, right_output, "under a broadcast mask the output", "batch head query d_value")


@exercise("3.2")
def test_what_stands_at_masked_keys_changes_nothing(submission, expected, draw):
    q, k, v = draw_qkv(draw)
    mask = draw.mask(query=1, key=KEY)
    right_output, _ = expected.attention.scaled_dot_product_attention(q, k, v, mask)
    # Loud keys would win the softmax, if anything of them went into it.
    loud = torch.where(mask.mT, 1.0, 1e4)
    output, _ = submission.attention.scaled_dot_product_attention(q, k * loud, v * loud, mask)
    agree(
        output, right_output, "with large numbers at masked keys the output", "batch head query d_value"
    )


@guard("3.2")
def test_masked_keys_get_exactly_zero_even_when_all_scores_are_very_low(submission, draw):
    q, k, v = draw_qkv(draw, dtype=torch.float64)
    mask = draw.mask(batch=BATCH, heads=HEADS, query=QUERY, key=KEY)
    # Scores of allowed keys far below any finite stand-in for minus infinity.
    _, weights = submission.attention.scaled_dot_product_attention(
        -q.abs() * 1e20, k.abs() * 1e20, v, mask
    )
    agree(weights.masked_fill(mask, 0.0), 0.0, "the weight of a masked key", "batch head query key")


@exercise("3.2")
def test_visible_keys_share_the_weight_even_when_their_scores_are_very_low(submission, expected, draw):
    q, k, v = draw_qkv(draw, dtype=torch.float64)
    mask = draw.mask(batch=BATCH, heads=1, query=1, key=KEY)
    # One feature takes the visible keys far down, and leaves the hidden ones where they are.
    q[..., 0] = 1.0
    k[..., 0] = torch.where(mask[..., 0, :], -1e10, 0.0)
    _, right_weights = expected.attention.scaled_dot_product_attention(q, k, v, mask)
    _, weights = submission.attention.scaled_dot_product_attention(q, k, v, mask)
    what = "at visible scores below -1e9 the weight"
    agree(weights, right_weights, what, "batch head query key", rel=1e-3)


@exercise("3.2")
def test_a_query_that_may_attend_to_nothing_gets_zeros(submission, expected, draw):
    q, k, v = draw_qkv(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    mask[0, :, 2] = False
    right_output, right_weights = expected.attention.scaled_dot_product_attention(q, k, v, mask)
    output, weights = submission.attention.scaled_dot_product_attention(q, k, v, mask)
    agree(weights, right_weights, "with a fully masked query the weight", "batch head query key")
    agree(output, right_output, "with a fully masked query the output", "batch head query d_value")


@exercise("3.2")
def test_large_scores_stay_finite(submission, expected, draw):
    q, k, v = draw_qkv(draw, scale=1e4)
    _, right_weights = expected.attention.scaled_dot_product_attention(q, k, v)
    _, weights = submission.attention.scaled_dot_product_attention(q, k, v)
    finite(weights, "the weight at scores of 1e8")
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


@exercise("3.2")
def test_gradients_reach_queries_keys_and_values_without_a_mask_too(submission, expected, draw):
    gradients_agree(
        submission.attention.scaled_dot_product_attention,
        expected.attention.scaled_dot_product_attention,
        *draw_qkv(draw, dtype=torch.float64),
        names=QKV,
    )


@guard("3.2")
def test_inputs_are_left_alone(submission, draw):
    q, k, v = draw_qkv(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    leaves_inputs_alone(
        submission.attention.scaled_dot_product_attention, q, k, v, mask, names=(*QKV, "mask")
    )


@guard("3.2")
def test_the_dtype_is_kept(submission, draw):
    single, double = draw_qkv(draw), draw_qkv(draw, torch.float64)
    for dtype, qkv in ((torch.float32, single), (torch.float64, double)):
        output, weights = submission.attention.scaled_dot_product_attention(*qkv)
        keeps_dtype(output, dtype, "the output")
        keeps_dtype(weights, dtype, "the weights")


# 3.3 Splitting into heads

SPLIT = "batch head seq d_head"


@exercise("3.3")
def test_every_head_gets_its_part_of_every_word(submission, expected, draw):
    x = draw.normal(batch=BATCH, seq=SEQ, d_model=D_MODEL)
    right_heads = expected.attention.split_heads(x, HEADS)
    agree(submission.attention.split_heads(x, HEADS), right_heads, "the number", SPLIT)


@exercise("3.3")
def test_two_words_split_by_hand(submission, device):
    words = torch.tensor([[0.0, 1, 2, 3, 4, 5], [10.0, 11, 12, 13, 14, 15]], device=device)
    heads = submission.attention.split_heads(words, 3)
    by_hand = [[[0.0, 1], [10, 11]], [[2.0, 3], [12, 13]], [[4.0, 5], [14, 15]]]
    agree(heads, torch.tensor(by_hand), "the number", "head seq d_head")


@exercise("3.3")
def test_splitting_a_single_sequence_needs_no_batch(submission, expected, draw):
    x = draw.normal(seq=SEQ, d_model=D_MODEL, dtype=torch.float64)
    right_heads = expected.attention.split_heads(x, HEADS)
    heads = submission.attention.split_heads(x, HEADS)
    agree(heads, right_heads, "without a batch the number", "head seq d_head")


@exercise("3.3")
def test_splitting_works_below_several_leading_axes(submission, expected, draw):
    x = draw.normal(layer=4, batch=BATCH, seq=SEQ, d_model=D_MODEL)
    right_heads = expected.attention.split_heads(x, HEADS)
    heads = submission.attention.split_heads(x, HEADS)
    agree(heads, right_heads, "with two leading axes the number", "layer batch head seq d_head")


@exercise("3.3")
def test_one_head_takes_the_whole_word(submission, draw):
    x = draw.normal(batch=BATCH, seq=SEQ, d_model=D_MODEL)
    agree(submission.attention.split_heads(x, 1), x[:, None], "in a single head the number", SPLIT)


@exercise("3.3")
def test_as_many_heads_as_numbers_take_one_number_each(submission, draw):
    x = draw.normal(batch=BATCH, seq=SEQ, d_model=D_MODEL)
    heads = submission.attention.split_heads(x, D_MODEL)
    agree(heads, x.mT[..., None], "with as many heads as numbers the number", SPLIT)


@exercise("3.3")
def test_a_changed_word_changes_only_its_own_place_in_every_head(submission, draw):
    x = draw.normal(batch=BATCH, seq=SEQ, d_model=D_MODEL)
    place = draw.number(1, SEQ - 1)
    changed = x.clone()
    changed[:, place] += 1.0
    before = submission.attention.split_heads(x, HEADS)
    after = submission.attention.split_heads(changed, HEADS)
    moved = (after - before).abs().amax(dim=(0, 1, -1)) > 0.5
    require(
        moved.tolist() == [i == place for i in range(SEQ)],
        f"only word {place} was changed, but the heads differ at the places "
        f"{moved.nonzero().flatten().tolist()}: a head must not mix words",
    )


@exercise("3.3")
def test_splitting_works_on_transposed_inputs_of_one_word(submission, expected, draw):
    x = draw.normal(seq=1, batch=BATCH, d_model=D_MODEL).transpose(0, 1)
    right_heads = expected.attention.split_heads(x, 4)
    agree(submission.attention.split_heads(x, 4), right_heads, "for a single word the number", SPLIT)


@exercise("3.3")
def test_gradients_pass_through_the_split(submission, expected, draw):
    x = draw.normal(batch=BATCH, seq=SEQ, d_model=D_MODEL, dtype=torch.float64)
    gradients_agree(
        submission.attention.split_heads, expected.attention.split_heads, x, HEADS, names=("x",)
    )


@guard("3.3")
def test_splitting_leaves_its_input_alone(submission, draw):
    x = draw.normal(batch=BATCH, seq=SEQ, d_model=D_MODEL)
    leaves_inputs_alone(submission.attention.split_heads, x, HEADS, names=("x",))


@guard("3.3")
def test_splitting_keeps_the_dtype(submission, draw):
    x = draw.normal(batch=BATCH, seq=SEQ, d_model=D_MODEL, dtype=torch.float64)
    keeps_dtype(submission.attention.split_heads(x, HEADS), torch.float64)


# 3.4 Merging the heads again

MERGED = "batch seq d_model"


@exercise("3.4")
def test_parts_of_a_word_stand_side_by_side_again(submission, expected, draw):
    x = draw.normal(batch=BATCH, heads=HEADS, seq=SEQ, d_head=D_HEAD)
    right_words = expected.attention.merge_heads(x)
    agree(submission.attention.merge_heads(x), right_words, "the number", MERGED)


@exercise("3.4")
def test_two_words_merged_by_hand(submission, device):
    heads = torch.tensor([[[0.0, 1], [10, 11]], [[2.0, 3], [12, 13]], [[4.0, 5], [14, 15]]])
    words = submission.attention.merge_heads(heads.to(device))
    by_hand = torch.tensor([[0.0, 1, 2, 3, 4, 5], [10.0, 11, 12, 13, 14, 15]])
    agree(words, by_hand, "the number", "seq d_model")


@exercise("3.4")
def test_merging_undoes_splitting(submission, expected, draw):
    x = draw.normal(batch=BATCH, seq=SEQ, d_model=D_MODEL)
    heads = expected.attention.split_heads(x, HEADS)
    agree(submission.attention.merge_heads(heads), x, "after splitting and merging the number", MERGED)


@exercise("3.4")
def test_merging_a_single_sequence_needs_no_batch(submission, expected, draw):
    x = draw.normal(heads=HEADS, seq=SEQ, d_head=D_HEAD, dtype=torch.float64)
    right_words = expected.attention.merge_heads(x)
    words = submission.attention.merge_heads(x)
    agree(words, right_words, "without a batch the number", "seq d_model")


@exercise("3.4")
def test_merging_works_below_several_leading_axes(submission, expected, draw):
    x = draw.normal(layer=4, batch=BATCH, heads=HEADS, seq=SEQ, d_head=D_HEAD)
    right_words = expected.attention.merge_heads(x)
    words = submission.attention.merge_heads(x)
    agree(words, right_words, "with two leading axes the number", "layer batch seq d_model")


@exercise("3.4")
def test_a_single_head_is_the_whole_word(submission, draw):
    x = draw.normal(batch=BATCH, heads=1, seq=SEQ, d_head=D_HEAD)
    agree(submission.attention.merge_heads(x), x[:, 0], "from a single head the number", MERGED)


@exercise("3.4")
def test_a_changed_head_changes_only_its_own_part_of_every_word(submission, draw):
    x = draw.normal(batch=BATCH, heads=HEADS, seq=SEQ, d_head=D_HEAD)
    head = draw.number(0, HEADS)
    changed = x.clone()
    changed[:, head] += 1.0
    before = submission.attention.merge_heads(x)
    after = submission.attention.merge_heads(changed)
    part = torch.arange(HEADS * D_HEAD, device=x.device) // D_HEAD == head
    what = f"when only head {head} grows by one, the change"
    agree(after - before, part.float().expand(BATCH, SEQ, -1), what, MERGED, abs=1e-4)


@exercise("3.4")
def test_merging_works_on_transposed_inputs_of_one_word(submission, expected, draw):
    x = draw.normal(batch=BATCH, heads=HEADS, d_head=D_HEAD, seq=1).mT
    right_words = expected.attention.merge_heads(x)
    agree(submission.attention.merge_heads(x), right_words, "for a single word the number", MERGED)


@exercise("3.4")
def test_gradients_pass_through_the_merge(submission, expected, draw):
    x = draw.normal(batch=BATCH, heads=HEADS, seq=SEQ, d_head=D_HEAD, dtype=torch.float64)
    gradients_agree(submission.attention.merge_heads, expected.attention.merge_heads, x, names=("x",))


@guard("3.4")
def test_merging_leaves_its_input_alone(submission, draw):
    x = draw.normal(batch=BATCH, heads=HEADS, seq=SEQ, d_head=D_HEAD)
    leaves_inputs_alone(submission.attention.merge_heads, x, names=("x",))


@guard("3.4")
def test_merging_keeps_the_dtype(submission, draw):
    x = draw.normal(batch=BATCH, heads=HEADS, seq=SEQ, d_head=D_HEAD, dtype=torch.float64)
    keeps_dtype(submission.attention.merge_heads(x), torch.float64)


# 3.5 Multi-head attention

OUTPUT, WEIGHTS = "batch query d_model", "batch head query key"
INPUTS = ("query", "key", "value")


def draw_inputs(draw, d_model=D_MODEL, dtype=torch.float32):
    return (
        draw.normal(batch=BATCH, query=QUERY, d_model=d_model, dtype=dtype),
        draw.normal(batch=BATCH, key=KEY, d_model=d_model, dtype=dtype),
        draw.normal(batch=BATCH, key=KEY, d_model=d_model, dtype=dtype),
    )


def twins(submission, expected, draw, d_model=D_MODEL, n_heads=HEADS, double=False):
    """Make the learner's module and the reference with the same drawn parameters."""
    right = expected.attention.MultiHeadAttention(d_model, n_heads)
    if double:
        right.double()
    state = draw.state(right)
    right.load_state_dict(state)
    mine = submission.attention.MultiHeadAttention(d_model, n_heads)
    if double:
        mine.double()
    mine.load_state_dict(state)
    return mine, right, state


@exercise("3.5")
def test_all_heads_attend_and_their_findings_are_mixed(submission, expected, draw):
    inputs = draw_inputs(draw)
    mine, right, _ = twins(submission, expected, draw)
    right_output, right_weights = right(*inputs)
    output, weights = mine(*inputs)
    agree(weights, right_weights, "the weight", WEIGHTS)
    agree(output, right_output, "the output", OUTPUT)


@exercise("3.5")
def test_a_single_sequence_needs_no_batch(submission, expected, draw):
    query = draw.normal(query=QUERY, d_model=D_MODEL, dtype=torch.float64)
    key = draw.normal(key=KEY, d_model=D_MODEL, dtype=torch.float64)
    value = draw.normal(key=KEY, d_model=D_MODEL, dtype=torch.float64)
    mine, right, _ = twins(submission, expected, draw, double=True)
    right_output, right_weights = right(query, key, value)
    output, weights = mine(query, key, value)
    agree(weights, right_weights, "without a batch the weight", "head query key")
    agree(output, right_output, "without a batch the output", "query d_model")


@exercise("3.5")
def test_a_sequence_can_attend_to_itself_with_wider_heads(submission, expected, draw):
    x = draw.normal(seq=SEQ, batch=BATCH, d_model=20).transpose(0, 1)
    mine, right, _ = twins(submission, expected, draw, d_model=20, n_heads=2)
    right_output, right_weights = right(x, x, x)
    output, weights = mine(x, x, x)
    agree(weights, right_weights, "with two heads of ten the weight", WEIGHTS)
    agree(output, right_output, "with two heads of ten the output", OUTPUT)


@exercise("3.5")
def test_a_single_head_is_plain_attention(submission, expected, draw):
    inputs = draw_inputs(draw)
    mine, right, _ = twins(submission, expected, draw, n_heads=1)
    right_output, right_weights = right(*inputs)
    output, weights = mine(*inputs)
    agree(weights, right_weights, "with a single head the weight", WEIGHTS)
    agree(output, right_output, "with a single head the output", OUTPUT)


@exercise("3.5")
def test_every_head_can_have_its_own_mask(submission, expected, draw):
    inputs = draw_inputs(draw)
    mask = draw.mask(batch=BATCH, heads=HEADS, query=QUERY, key=KEY)
    mine, right, _ = twins(submission, expected, draw)
    right_output, right_weights = right(*inputs, mask)
    output, weights = mine(*inputs, mask)
    agree(weights, right_weights, "with a mask for every head the weight", WEIGHTS)
    agree(output, right_output, "with a mask for every head the output", OUTPUT)


@exercise("3.5")
def test_padding_that_is_masked_changes_nothing(submission, expected, draw):
    query, key, value = draw_inputs(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=1, key=KEY)
    mine, right, _ = twins(submission, expected, draw)
    right_output, _ = right(query, key, value, mask)
    loud = torch.where(mask[:, 0].mT, 1.0, 1e3)
    output, _ = mine(query, key * loud, value * loud, mask)
    agree(output, right_output, "with large numbers in the padding the output", OUTPUT)


@exercise("3.5")
def test_a_later_word_changes_nothing_earlier_under_a_causal_mask(submission, expected, draw, device):
    x = draw.normal(batch=BATCH, seq=SEQ, d_model=D_MODEL)
    mine, right, _ = twins(submission, expected, draw)
    earlier_or_same = torch.ones(SEQ, SEQ, dtype=torch.bool, device=device).tril()
    right_output, _ = right(x, x, x, earlier_or_same)
    changed = x.clone()
    changed[:, -1] += 3.0
    output, _ = mine(changed, changed, changed, earlier_or_same)
    agree(output[:, :-1], right_output[:, :-1], "before the word that was changed the output", OUTPUT)


@exercise("3.5")
def test_a_query_with_nothing_to_attend_to_gets_only_the_last_bias(submission, expected, draw):
    inputs = draw_inputs(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    mask[1, :, 3] = False
    mine, _, state = twins(submission, expected, draw)
    output, weights = mine(*inputs, mask)
    agree(weights[1, :, 3], 0.0, "for a fully masked query the weight", "head key")
    agree(output[1, 3], state["w_o.bias"], "for a fully masked query the output", "d_model")


@exercise("3.5")
def test_the_order_of_the_keys_does_not_matter(submission, expected, draw):
    query, key, value = draw_inputs(draw)
    mine, right, _ = twins(submission, expected, draw)
    right_output, right_weights = right(query, key, value)
    output, weights = mine(query, key.flip(1), value.flip(1))
    agree(weights.flip(-1), right_weights, "with keys in another order the weight", WEIGHTS)
    agree(output, right_output, "with keys in another order the output", OUTPUT)


@exercise("3.5")
def test_gradients_reach_all_inputs_and_all_parameters(submission, expected, draw):
    inputs = draw_inputs(draw, dtype=torch.float64)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    mine, right, _ = twins(submission, expected, draw, double=True)
    gradients_agree(mine, right, *inputs, mask, names=INPUTS)


@exercise("3.5")
def test_masked_keys_stay_hidden_and_visible_ones_seen_at_very_large_scores(submission, expected, draw):
    query, key, value = draw_inputs(draw, dtype=torch.float64)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    mine, right, _ = twins(submission, expected, draw, double=True)
    _, right_weights = right(query * 1e5, key, value, mask)
    _, weights = mine(query * 1e5, key, value, mask)
    agree(weights, right_weights, "at scores of 1e5 the weight", "batch head query key", abs=1e-3)


@guard("3.5")
def test_multi_head_attention_leaves_its_inputs_alone(submission, expected, draw):
    inputs = draw_inputs(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    mine, _, _ = twins(submission, expected, draw)
    leaves_inputs_alone(mine, *inputs, mask, names=(*INPUTS, "mask"))


@guard("3.5")
def test_multi_head_attention_keeps_the_dtype(submission, expected, draw):
    inputs = draw_inputs(draw, dtype=torch.float64)
    mine, _, _ = twins(submission, expected, draw, double=True)
    output, weights = mine(*inputs)
    keeps_dtype(output, torch.float64, "the output")
    keeps_dtype(weights, torch.float64, "the weights")
