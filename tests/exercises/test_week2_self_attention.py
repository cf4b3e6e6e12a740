"""Week 2: from static to contextual vectors."""

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
)

# Sizes never coincide, so that an exchanged axis cannot go unnoticed. Only where a test says so is a
# sequence as long as its vectors are wide: there a wrong product has the right shape.
BATCH, HEADS, SEQ, D_MODEL, D_HEAD, D_VALUE = 2, 3, 5, 8, 6, 9
SQUARE = 6
WEIGHTS = ("x", "w_q", "w_k", "w_v")


def draw_words(draw, dtype=torch.float32, scale=1.0, **axes):
    return draw.normal(
        **(axes or {"batch": BATCH, "seq": SEQ, "d_model": D_MODEL}), dtype=dtype, scale=scale
    )


# 2.1 ------------------------------------------------------------------------------------------------


@exercise("2.1")
def test_a_score_is_the_dot_product_of_two_words(submission, expected, draw):
    x = draw_words(draw)
    right = expected.attention.similarity_scores(x)
    agree(submission.attention.similarity_scores(x), right, "the score", "batch word word")


@exercise("2.1")
def test_three_short_words_have_the_scores_found_by_hand(submission, device):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [0.0, -1.0]], device=device)
    right = torch.tensor([[5.0, 11.0, -2.0], [11.0, 25.0, -4.0], [-2.0, -4.0, 1.0]], device=device)
    scores = submission.attention.similarity_scores(x)
    agree(scores, right, "for the words (1, 2), (3, 4), (0, -1) the score", "word word")


@exercise("2.1")
def test_words_are_compared_even_when_there_are_as_many_as_columns(submission, expected, draw):
    x = draw_words(draw, batch=BATCH, seq=SQUARE, d_model=SQUARE)
    right = expected.attention.similarity_scores(x)
    scores = submission.attention.similarity_scores(x)
    agree(scores, right, "for as many words as columns the score", "batch word word")


@exercise("2.1")
def test_any_number_of_leading_axes_will_do(submission, expected, draw):
    x = draw_words(draw, batch=BATCH, heads=HEADS, seq=SEQ, d_model=D_MODEL)
    right = expected.attention.similarity_scores(x)
    scores = submission.attention.similarity_scores(x)
    agree(scores, right, "with two leading axes the score", "batch head word word")


@exercise("2.1")
def test_a_single_word_is_compared_with_itself(submission, expected, draw):
    x = draw_words(draw, batch=1, seq=1, d_model=D_MODEL)
    right = expected.attention.similarity_scores(x)
    agree(submission.attention.similarity_scores(x), right, "for a single word the score")


@exercise("2.1")
def test_the_score_of_a_word_with_itself_is_its_squared_length(submission, draw):
    x = draw_words(draw, seq=SEQ, d_model=D_MODEL)
    scores = submission.attention.similarity_scores(x)
    squared = (x * x).sum(dim=-1)
    agree(scores.diagonal(), squared, "the score of a word with itself", "word")


@exercise("2.1")
def test_sentences_of_a_batch_do_not_see_each_other(submission, expected, draw):
    x = draw_words(draw, batch=3, seq=SEQ, d_model=D_MODEL)
    alone = expected.attention.similarity_scores(x[1])
    scores = submission.attention.similarity_scores(x)
    agree(scores[1], alone, "in a batch, the second sentence's score", "word word")


@exercise("2.1")
def test_large_transposed_vectors_keep_their_scores(submission, expected, draw):
    x = draw_words(draw, scale=1e4, batch=BATCH, d_model=D_MODEL, seq=SEQ).mT
    right = expected.attention.similarity_scores(x)
    scores = submission.attention.similarity_scores(x)
    # Where terms of 1e8 cancel, rounding leaves a difference of a few hundred.
    agree(scores, right, "for vectors of size 1e4 the score", "batch word word", abs=1e3)


@exercise("2.1")
def test_gradients_reach_every_word_through_both_sides(submission, expected, draw):
    x = draw_words(draw, torch.float64)
    block, right = submission.attention.similarity_scores, expected.attention.similarity_scores
    gradients_agree(block, right, x, names=("x",))


@guard("2.1")
def test_similarity_leaves_its_input_alone(submission, draw):
    leaves_inputs_alone(submission.attention.similarity_scores, draw_words(draw), names=("x",))


@guard("2.1")
def test_scores_keep_the_dtype(submission, draw):
    single, double = draw_words(draw), draw_words(draw, torch.float64)
    keeps_dtype(submission.attention.similarity_scores(single), torch.float32, "the scores")
    keeps_dtype(submission.attention.similarity_scores(double), torch.float64, "the scores")


# 2.2 ------------------------------------------------------------------------------------------------

# A right softmax may round at the level of the scores themselves, where they are large.
AT_LARGE = {"rel": 5e-3, "abs": 5e-3}


def draw_scores(draw, dtype=torch.float32, scale=1.0):
    return draw.normal(batch=BATCH, query=SEQ, key=7, dtype=dtype, scale=scale)


@exercise("2.2")
def test_scores_become_weights_along_the_last_axis(submission, expected, draw):
    scores = draw_scores(draw)
    right = expected.attention.softmax(scores)
    agree(submission.attention.softmax(scores), right, "the weight", "batch query key")


@exercise("2.2")
def test_three_scores_have_the_weights_found_by_hand(submission, device):
    # exp of these is 1, 2 and 5
    scores = torch.tensor([0.0, 0.69314718, 1.60943791], device=device)
    right = torch.tensor([0.125, 0.25, 0.625], device=device)
    agree(
        submission.attention.softmax(scores), right, "for the logarithms of 1, 2, 5 the weight", "score"
    )


@exercise("2.2")
def test_dim_chooses_the_axis_of_the_weights(submission, expected, draw):
    scores = draw_scores(draw)
    right = expected.attention.softmax(scores, dim=1)
    agree(
        submission.attention.softmax(scores, dim=1), right, "with dim=1 the weight", "batch query key"
    )


@exercise("2.2")
def test_dim_may_be_the_first_axis_and_given_by_place(submission, expected, draw):
    scores = draw_scores(draw)
    right = expected.attention.softmax(scores, 0)
    agree(submission.attention.softmax(scores, 0), right, "with dim 0 the weight", "batch query key")


@exercise("2.2")
def test_dim_may_count_from_the_end(submission, expected, draw):
    scores = draw.normal(batch=BATCH, heads=HEADS, query=SEQ, key=7)
    right = expected.attention.softmax(scores, dim=-2)
    weights = submission.attention.softmax(scores, dim=-2)
    agree(weights, right, "with dim=-2 the weight", "batch head query key")


@exercise("2.2")
def test_weights_are_positive_and_sum_to_one(submission, draw):
    weights = submission.attention.softmax(draw_scores(draw, scale=3.0))
    require(bool((weights >= 0).all()), "a weight is negative: powers of e never are")
    agree(weights.sum(dim=-1), 1.0, "the sum of the weights along the last axis", "batch query")


@exercise("2.2")
def test_a_square_of_scores_is_weighed_row_by_row(submission, expected, draw):
    scores = draw.normal(query=SQUARE, key=SQUARE, scale=2.0)
    right = expected.attention.softmax(scores)
    weights = submission.attention.softmax(scores)
    agree(weights, right, "for as many queries as keys the weight", "query key")


@exercise("2.2")
def test_scores_of_ten_thousand_do_not_overflow(submission, expected, draw):
    scores = draw_scores(draw, scale=1e4)
    right = expected.attention.softmax(scores)
    weights = submission.attention.softmax(scores)
    finite(weights, "at scores of 1e4 the weight")
    agree(weights, right, "at scores of 1e4 the weight", "batch query key", **AT_LARGE)


@exercise("2.2")
def test_rows_at_very_different_heights_do_not_disturb_each_other(submission, expected, draw):
    scores = draw_scores(draw)
    scores[0, 1] += 3e3
    scores[0, 2] -= 3e3
    scores[1] -= 1e3
    right = expected.attention.softmax(scores)
    weights = submission.attention.softmax(scores)
    finite(weights, "with one row near 3000 and another near -3000, the weight")
    what = "with one row near 3000 and another near -3000, the weight"
    agree(weights, right, what, "batch query key", **AT_LARGE)


@exercise("2.2")
def test_very_low_scores_do_not_vanish(submission, expected, draw):
    scores = draw_scores(draw) - 2e3
    right = expected.attention.softmax(scores)
    weights = submission.attention.softmax(scores)
    finite(weights, "at scores near -2000 the weight")
    agree(weights, right, "at scores near -2000 the weight", "batch query key", **AT_LARGE)


@exercise("2.2")
def test_a_score_of_minus_infinity_gets_no_weight(submission, expected, draw):
    scores = draw_scores(draw)
    scores[0, 1, 2] = scores[1, 3, 0] = -math.inf
    right = expected.attention.softmax(scores)
    weights = submission.attention.softmax(scores)
    agree(weights, right, "with a score of -inf in a row the weight", "batch query key")


@exercise("2.2")
def test_a_row_of_nothing_but_minus_infinity_leaves_the_others_alone(submission, expected, draw):
    scores = draw_scores(draw)
    right = expected.attention.softmax(scores)
    scores[1, 2], right[1, 2] = -math.inf, 0.0

    def with_zeros(weights):
        return weights.nan_to_num(nan=0.0)

    # Such a row may be NaN or zeros: what is recognised as a mistake must not depend on that.
    weights = submission.attention.softmax.seen_as(with_zeros, 0.0)(scores)
    what = "with a row of nothing but -inf (where NaN counts as 0) the weight"
    agree(with_zeros(weights), right, what, "batch query key")


@guard("2.2")
def test_a_single_score_gets_all_the_weight(submission, expected, draw):
    scores = draw.normal(batch=1, query=SEQ, key=1)
    right = expected.attention.softmax(scores)
    agree(submission.attention.softmax(scores), right, "a single key's weight", "batch query key")


@exercise("2.2")
def test_gradients_of_softmax_are_right(submission, expected, draw):
    scores = draw_scores(draw, torch.float64)
    block, right = submission.attention.softmax, expected.attention.softmax
    gradients_agree(block, right, scores, dim=1, names=("scores",))


@guard("2.2")
def test_softmax_leaves_its_input_alone(submission, draw):
    leaves_inputs_alone(submission.attention.softmax, draw_scores(draw), names=("scores",))


@guard("2.2")
def test_weights_keep_the_dtype(submission, draw):
    single, double = draw_scores(draw), draw_scores(draw, torch.float64)
    keeps_dtype(submission.attention.softmax(single), torch.float32, "the weights")
    keeps_dtype(submission.attention.softmax(double), torch.float64, "the weights")


# 2.3 ------------------------------------------------------------------------------------------------


@exercise("2.3")
def test_each_word_becomes_a_weighted_sum_of_its_sentence(submission, expected, draw):
    x = draw_words(draw, scale=0.7)
    right_context, right_weights = expected.attention.contextualize(x)
    context, weights = submission.attention.contextualize(x)
    agree(weights, right_weights, "the weight", "batch word neighbour")
    agree(context, right_context, "the context", "batch word d_model")


@exercise("2.3")
def test_one_sentence_alone_needs_no_batch(submission, expected, draw):
    x = draw_words(draw, scale=0.7, seq=SEQ, d_model=D_MODEL)
    right_context, right_weights = expected.attention.contextualize(x)
    context, weights = submission.attention.contextualize(x)
    agree(weights, right_weights, "without a batch the weight", "word neighbour")
    agree(context, right_context, "without a batch the context", "word d_model")


@exercise("2.3")
def test_two_leading_axes_give_contexts_too(submission, expected, draw):
    x = draw_words(draw, scale=0.7, batch=BATCH, heads=HEADS, seq=SEQ, d_model=D_MODEL)
    right_context, right_weights = expected.attention.contextualize(x)
    context, weights = submission.attention.contextualize(x)
    agree(weights, right_weights, "with two leading axes the weight", "batch head word neighbour")
    agree(context, right_context, "with two leading axes the context", "batch head word d_model")


@exercise("2.3")
def test_context_and_weights_are_told_apart_when_both_are_square(submission, expected, draw):
    x = draw_words(draw, scale=0.7, batch=BATCH, seq=SQUARE, d_model=SQUARE)
    right_context, right_weights = expected.attention.contextualize(x)
    context, weights = submission.attention.contextualize(x)
    agree(context, right_context, "for as many words as columns the context", "batch word d_model")
    agree(weights, right_weights, "for as many words as columns the weight", "batch word neighbour")


@exercise("2.3")
def test_weights_of_each_word_sum_to_one(submission, draw):
    _, weights = submission.attention.contextualize(draw_words(draw, scale=0.7))
    require(bool((weights >= 0).all()), "a weight is negative: weights come out of a softmax")
    agree(weights.sum(dim=-1), 1.0, "the sum of a word's weights over its neighbours", "batch word")


@exercise("2.3")
def test_equal_words_stay_as_they_are(submission, draw):
    x = draw.normal(batch=BATCH, seq=1, d_model=D_MODEL).expand(BATCH, SEQ, D_MODEL)
    context, weights = submission.attention.contextualize(x)
    agree(weights, 1 / SEQ, "in a sentence of one repeated word, the weight", "batch word neighbour")
    agree(context, x, "in a sentence of one repeated word, the context", "batch word d_model")


@exercise("2.3")
def test_a_word_alone_in_its_sentence_stays_as_it_is(submission, draw):
    x = draw_words(draw, batch=1, seq=1, d_model=D_MODEL)
    context, weights = submission.attention.contextualize(x)
    agree(weights, 1.0, "the weight of the only word")
    agree(context, x, "the context of the only word", "batch word d_model")


@exercise("2.3")
def test_exchanging_words_exchanges_their_contexts(submission, expected, draw):
    x = draw_words(draw, torch.float64, 0.7)
    order = [3, 0, 4, 1, 2]
    right_context, right_weights = expected.attention.contextualize(x)
    context, weights = submission.attention.contextualize(x[:, order])
    what = "with the words in another order, the context"
    agree(context, right_context[:, order], what, "batch word d_model")
    what = "with the words in another order, the weight"
    agree(weights, right_weights[:, order][:, :, order], what, "batch word neighbour")


@exercise("2.3")
def test_another_sentence_in_the_batch_changes_nothing(submission, expected, draw):
    x = draw_words(draw, scale=0.7, batch=3, seq=SEQ, d_model=D_MODEL)
    right_context, right_weights = expected.attention.contextualize(x[2])
    context, weights = submission.attention.contextualize(x)
    agree(weights[2], right_weights, "in a batch, the third sentence's weight", "word neighbour")
    agree(context[2], right_context, "in a batch, the third sentence's context", "word d_model")


@guard("2.3")
def test_long_vectors_give_no_nan(submission, expected, draw):
    x = draw_words(draw, scale=1e4, batch=BATCH, d_model=D_MODEL, seq=SEQ).mT
    right_context, _ = expected.attention.contextualize(x)
    context, weights = submission.attention.contextualize(x)
    finite(weights, "for vectors of size 1e4 the weight")
    agree(context, right_context, "for vectors of size 1e4 the context", "batch word d_model", abs=1.0)


@exercise("2.3")
def test_gradients_flow_through_the_values_and_the_weights(submission, expected, draw):
    x = draw_words(draw, torch.float64, 0.7)
    block, right = submission.attention.contextualize, expected.attention.contextualize
    gradients_agree(block, right, x, names=("x",))


@guard("2.3")
def test_contextualize_leaves_its_input_alone(submission, draw):
    leaves_inputs_alone(submission.attention.contextualize, draw_words(draw), names=("x",))


@guard("2.3")
def test_context_and_weights_keep_the_dtype(submission, draw):
    for x in (draw_words(draw), draw_words(draw, torch.float64)):
        context, weights = submission.attention.contextualize(x)
        keeps_dtype(context, x.dtype, "the context")
        keeps_dtype(weights, x.dtype, "the weights")


# 2.4 ------------------------------------------------------------------------------------------------


def draw_projection(draw, dtype=torch.float32, d_head=D_HEAD, d_value=D_VALUE, d_model=D_MODEL, **axes):
    leading = axes or {"batch": BATCH, "seq": SEQ}
    return (
        draw.normal(**leading, d_model=d_model, dtype=dtype),
        draw.normal(d_model=d_model, d_head=d_head, dtype=dtype),
        draw.normal(d_model=d_model, d_head=d_head, dtype=dtype),
        draw.normal(d_model=d_model, d_value=d_value, dtype=dtype),
    )


def agree_on_three(found, wanted, where, axes):
    for name, got, right in zip(("query", "key", "value"), found, wanted, strict=True):
        agree(got, right, f"{where} the {name}".strip(), axes)


@exercise("2.4")
def test_each_word_gets_a_query_a_key_and_a_value(submission, expected, draw):
    given = draw_projection(draw)
    right = expected.attention.project_qkv(*given)
    agree_on_three(submission.attention.project_qkv(*given), right, "", "batch word column")


@exercise("2.4")
def test_the_three_views_come_in_order_when_all_have_one_width(submission, expected, draw):
    given = draw_projection(draw, d_value=D_HEAD)
    right = expected.attention.project_qkv(*given)
    found = submission.attention.project_qkv(*given)
    agree_on_three(found, right, "with views of one width,", "batch word column")


@exercise("2.4")
def test_square_weights_multiply_from_the_right(submission, expected, draw):
    given = draw_projection(draw, d_head=D_MODEL, d_value=D_MODEL)
    right = expected.attention.project_qkv(*given)
    found = submission.attention.project_qkv(*given)
    agree_on_three(found, right, "with square weights", "batch word column")


@exercise("2.4")
def test_as_many_words_as_columns_do_not_confuse_the_axes(submission, expected, draw):
    given = draw_projection(
        draw, d_head=SQUARE, d_value=SQUARE, d_model=SQUARE, batch=BATCH, seq=SQUARE
    )
    right = expected.attention.project_qkv(*given)
    found = submission.attention.project_qkv(*given)
    agree_on_three(found, right, "with as many words as columns", "batch word column")


@exercise("2.4")
def test_the_identity_gives_the_words_back(submission, draw, device):
    x = draw.normal(batch=BATCH, seq=SEQ, d_model=D_MODEL)
    identity = torch.eye(D_MODEL, device=device)
    query, key, value = submission.attention.project_qkv(x, 2 * identity, -identity, identity)
    agree(query, 2 * x, "for twice the identity as w_q, the query", "batch word column")
    agree(key, -x, "for minus the identity as w_k, the key", "batch word column")
    agree(value, x, "for the identity as w_v, the value", "batch word column")


@exercise("2.4")
def test_a_single_sentence_is_projected_without_a_batch(submission, expected, draw):
    given = draw_projection(draw, seq=SEQ)
    right = expected.attention.project_qkv(*given)
    found = submission.attention.project_qkv(*given)
    agree_on_three(found, right, "without a batch", "word column")


@exercise("2.4")
def test_more_leading_axes_are_projected_too(submission, expected, draw):
    given = draw_projection(draw, batch=BATCH, heads=HEADS, seq=SEQ)
    right = expected.attention.project_qkv(*given)
    found = submission.attention.project_qkv(*given)
    agree_on_three(found, right, "with two leading axes", "batch head word column")


@exercise("2.4")
def test_one_word_in_one_sentence_keeps_its_axes(submission, expected, draw):
    given = draw_projection(draw, batch=1, seq=1)
    right = expected.attention.project_qkv(*given)
    found = submission.attention.project_qkv(*given)
    agree_on_three(found, right, "for a single word", "batch word column")


@exercise("2.4")
def test_large_transposed_inputs_are_projected(submission, expected, draw):
    x = draw.normal(batch=BATCH, d_model=D_MODEL, seq=SEQ, scale=1e4).mT
    _, *weights = draw_projection(draw)
    right = expected.attention.project_qkv(x, *weights)
    found = submission.attention.project_qkv(x, *weights)
    for name, got, wanted in zip(("query", "key", "value"), found, right, strict=True):
        agree(got, wanted, f"for words of size 1e4 the {name}", "batch word column", abs=0.1)


@exercise("2.4")
def test_gradients_reach_the_words_and_all_three_weights(submission, expected, draw):
    given = draw_projection(draw, torch.float64)
    block, right = submission.attention.project_qkv, expected.attention.project_qkv
    gradients_agree(block, right, *given, names=WEIGHTS)


@guard("2.4")
def test_projection_leaves_its_inputs_alone(submission, draw):
    leaves_inputs_alone(submission.attention.project_qkv, *draw_projection(draw), names=WEIGHTS)


@guard("2.4")
def test_views_keep_the_dtype(submission, draw):
    for given in (draw_projection(draw), draw_projection(draw, torch.float64)):
        found = submission.attention.project_qkv(*given)
        for name, got in zip(("queries", "keys", "values"), found, strict=True):
            keeps_dtype(got, given[0].dtype, f"the {name}")
