"""Week 5: layer norm, batch norm, residual paths, the feed-forward layer and the encoder."""

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
BATCH, HEADS, SEQ, D_MODEL, D_FF = 2, 3, 5, 12, 20
WORDS = "batch seq d_model"
NORM = ("x", "gain", "bias")
FEED = ("x", "w_1", "b_1", "w_2", "b_2")
EXACT = torch.float64


def draw_words(draw, dtype=torch.float32, scale=1.0):
    return draw.normal(batch=BATCH, seq=SEQ, d_model=D_MODEL, dtype=dtype, scale=scale)


def draw_gain_and_bias(draw, dtype=torch.float32):
    return draw.normal(d_model=D_MODEL, dtype=dtype), draw.normal(d_model=D_MODEL, dtype=dtype)


def near(right):
    """Tell of a result only whether it is near: what is off by rounding is off in many ways."""
    return lambda result: bool(((result - right).abs() <= 0.01 + 0.01 * right.abs()).all())


# Layer norm


@exercise("5.1")
def test_every_word_is_normalised_over_its_own_features(submission, expected, draw):
    x, (gain, bias) = draw_words(draw, scale=3.0), draw_gain_and_bias(draw)
    right = expected.normalization.layer_norm(x, gain, bias)
    agree(submission.normalization.layer_norm(x, gain, bias), right, "the result", WORDS)


@exercise("5.1")
def test_a_sentence_without_a_batch_and_a_single_word_are_fine(submission, expected, draw):
    sentence, word = draw.normal(seq=SEQ, d_model=D_MODEL), draw.normal(d_model=D_MODEL)
    gain, bias = draw_gain_and_bias(draw)
    right_sentence = expected.normalization.layer_norm(sentence, gain, bias)
    right_word = expected.normalization.layer_norm(word, gain, bias)
    agree(
        submission.normalization.layer_norm(sentence, gain, bias),
        right_sentence,
        "for one sentence the result",
        "seq d_model",
    )
    agree(
        submission.normalization.layer_norm(word, gain, bias),
        right_word,
        "for one word the result",
        "d_model",
    )


@exercise("5.1")
def test_any_number_of_axes_and_any_memory_order_is_fine(submission, expected, draw):
    x = draw.normal(batch=BATCH, d_model=D_MODEL, seq=SEQ, heads=HEADS).transpose(1, 3)
    gain, bias = draw_gain_and_bias(draw)
    right = expected.normalization.layer_norm(x, gain, bias)
    agree(
        submission.normalization.layer_norm(x, gain, bias),
        right,
        "for a transposed x the result",
        "batch heads seq d_model",
    )


@exercise("5.1")
def test_four_features_by_hand(submission, device):
    x = torch.tensor([[1.0, 1.0, 5.0, 5.0]], device=device)  # mean 3, variance 4
    gain = torch.tensor([1.0, 2.0, 3.0, 4.0], device=device)
    bias = torch.tensor([10.0, 20.0, 30.0, 40.0], device=device)
    result = submission.normalization.layer_norm(x, gain, bias, 1e-9)
    agree(
        result,
        torch.tensor([[9.0, 18.0, 33.0, 44.0]], device=device),
        "for the features 1, 1, 5, 5 the result",
        "word d_model",
    )


@exercise("5.1")
def test_eps_is_added_to_the_variance_by_hand(submission, device):
    x = torch.tensor([[1.0, 1.0, 5.0, 5.0]], device=device)  # 4 + 5 is the square of 3
    one, zero = torch.ones(4, device=device), torch.zeros(4, device=device)
    result = submission.normalization.layer_norm(x, one, zero, eps=5.0)
    agree(
        result,
        torch.tensor([[-2 / 3, -2 / 3, 2 / 3, 2 / 3]], device=device),
        "for the features 1, 1, 5, 5 and eps = 5 the result",
        "word d_model",
    )


@exercise("5.1")
def test_the_eps_that_is_given_is_used(submission, expected, draw):
    x, (gain, bias) = draw_words(draw, EXACT), draw_gain_and_bias(draw, EXACT)
    right = expected.normalization.layer_norm(x, gain, bias, 0.3)
    agree(
        submission.normalization.layer_norm(x, gain, bias, 0.3),
        right,
        "with eps = 0.3 the result",
        WORDS,
    )


@exercise("5.1")
def test_features_that_hardly_differ_are_not_blown_up(submission, expected, draw):
    x, (gain, bias) = draw_words(draw, EXACT, scale=2e-3), draw_gain_and_bias(draw, EXACT)
    right = expected.normalization.layer_norm(x, gain, bias)
    agree(
        submission.normalization.layer_norm(x, gain, bias),
        right,
        "for features that differ by about 0.002 the result",
        WORDS,
    )


@exercise("5.1")
def test_a_word_whose_features_are_all_equal_becomes_the_bias(submission, draw):
    level = draw.normal(batch=BATCH, seq=SEQ, one=1, dtype=EXACT)
    gain, bias = draw_gain_and_bias(draw, EXACT)
    x = level.expand(BATCH, SEQ, D_MODEL).clone()
    result = submission.normalization.layer_norm(x, gain, bias)
    agree(result, bias.expand_as(x), "for a word of equal features the result", WORDS)


@exercise("5.1")
def test_without_gain_and_bias_every_word_has_mean_zero_and_size_one(submission, draw, device):
    x = draw_words(draw, scale=4.0) + 2.0
    one, zero = torch.ones(D_MODEL, device=device), torch.zeros(D_MODEL, device=device)
    result = submission.normalization.layer_norm(x, one, zero)
    agree(result.mean(dim=-1), 0.0, "the mean of a word's features", "batch seq", abs=1e-4)
    agree(result.square().mean(dim=-1), 1.0, "the mean square of a word's features", "batch seq")


@exercise("5.1")
def test_an_offset_common_to_all_features_is_lost(submission, expected, draw):
    x, (gain, bias) = draw_words(draw, EXACT), draw_gain_and_bias(draw, EXACT)
    right = expected.normalization.layer_norm(x + 1e5, gain, bias)
    agree(
        submission.normalization.layer_norm(x + 1e5, gain, bias),
        right,
        "for features around 1e5 in double precision the result",
        WORDS,
        rel=1e-4,
        abs=1e-4,
    )


@exercise("5.1")
def test_a_mean_far_above_the_spread_leaves_the_variance_right(submission, expected, draw):
    x, (gain, bias) = draw_words(draw) + 1e3, draw_gain_and_bias(draw)
    right = expected.normalization.layer_norm(x, gain, bias)
    result = submission.normalization.layer_norm.seen_as(near(right), 0.0)(x, gain, bias)
    what = "for features of 1000, give or take 1, in single precision the result"
    agree(result, right, what, WORDS, rel=0.01, abs=0.01)


@exercise("5.1")
def test_large_features_are_brought_into_range(submission, expected, draw):
    x, (gain, bias) = draw_words(draw, scale=1e4), draw_gain_and_bias(draw)
    right = expected.normalization.layer_norm(x, gain, bias)
    result = submission.normalization.layer_norm(x, gain, bias)
    finite(result, "for features of about 1e4 the result")
    agree(result, right, "for features of about 1e4 the result", WORDS)


@exercise("5.1")
def test_gradients_reach_words_gain_and_bias(submission, expected, draw):
    x, (gain, bias) = draw_words(draw, EXACT), draw_gain_and_bias(draw, EXACT)
    gradients_agree(
        submission.normalization.layer_norm,
        expected.normalization.layer_norm,
        x, gain, bias,
        names=NORM,
    )  # fmt: skip


@exercise("5.1")
def test_gradients_are_right_for_a_single_word(submission, expected, draw):
    x, (gain, bias) = draw.normal(d_model=D_MODEL, dtype=EXACT), draw_gain_and_bias(draw, EXACT)
    gradients_agree(
        submission.normalization.layer_norm,
        expected.normalization.layer_norm,
        x, gain, bias, 0.3,
        names=NORM,
    )  # fmt: skip


@guard("5.1")
def test_a_changed_word_changes_no_other_word(submission, draw):
    x, (gain, bias) = draw_words(draw), draw_gain_and_bias(draw)
    before = submission.normalization.layer_norm(x, gain, bias)
    changed = x.clone()
    changed[1, 3] = 7.0 - 2.0 * changed[1, 3]
    after = submission.normalization.layer_norm(changed, gain, bias)
    after[1, 3] = before[1, 3]
    agree(after, before, "after a change of another word the result", WORDS)


@guard("5.1")
def test_layer_norm_leaves_its_inputs_alone(submission, draw):
    x, (gain, bias) = draw_words(draw), draw_gain_and_bias(draw)
    leaves_inputs_alone(submission.normalization.layer_norm, x, gain, bias, names=NORM)


@guard("5.1")
def test_layer_norm_keeps_the_dtype(submission, draw):
    for dtype in (torch.float32, torch.float64):
        x, (gain, bias) = draw_words(draw, dtype), draw_gain_and_bias(draw, dtype)
        keeps_dtype(submission.normalization.layer_norm(x, gain, bias), dtype)


# Batch norm


def draw_mask(draw):
    """Draw which positions are words; both sentences have some, and not the same number."""
    mask = draw.mask(batch=BATCH, seq=SEQ)
    mask[0] = False
    mask[0, draw.number(0, SEQ)] = True
    mask[1, 1:4] = True
    return mask


@exercise("5.2")
def test_every_feature_is_normalised_over_all_words_of_the_batch(submission, expected, draw):
    x, (gain, bias) = draw_words(draw, scale=3.0) + 1.5, draw_gain_and_bias(draw)
    right = expected.normalization.batch_norm(x, gain, bias)
    agree(submission.normalization.batch_norm(x, gain, bias), right, "the result", WORDS)


@exercise("5.2")
def test_padding_is_left_out_of_mean_and_variance(submission, expected, draw):
    x, (gain, bias) = draw_words(draw, scale=3.0) + 1.5, draw_gain_and_bias(draw)
    mask = draw_mask(draw)
    right = expected.normalization.batch_norm(x, gain, bias, mask)
    agree(
        submission.normalization.batch_norm(x, gain, bias, mask),
        right,
        "under a mask the result",
        WORDS,
    )


@exercise("5.2")
def test_three_words_are_not_drowned_by_a_hundred_pads(submission, expected, draw):
    x = torch.nn.functional.pad(draw.normal(batch=1, seq=3, d_model=D_MODEL) + 2.0, (0, 0, 0, 100))
    gain, bias = draw_gain_and_bias(draw)
    mask = torch.arange(103, device=x.device).unsqueeze(0) < 3
    right = expected.normalization.batch_norm(x, gain, bias, mask)
    agree(
        submission.normalization.batch_norm(x, gain, bias, mask),
        right,
        "for three words and a hundred zeros of padding the result",
        WORDS,
    )


@exercise("5.2")
def test_a_sentence_that_is_all_padding_takes_no_part(submission, expected, draw):
    x, (gain, bias) = draw_words(draw) + 1.5, draw_gain_and_bias(draw)
    mask = draw_mask(draw)
    mask[0] = False
    right = expected.normalization.batch_norm(x, gain, bias, mask)
    agree(
        submission.normalization.batch_norm(x, gain, bias, mask),
        right,
        "with one sentence of nothing but padding the result",
        WORDS,
    )


@exercise("5.2")
def test_padding_is_normalised_like_every_other_position(submission, expected, draw):
    x, (gain, bias) = draw_words(draw) - 1.0, draw_gain_and_bias(draw)
    mask = draw_mask(draw)
    right = expected.normalization.batch_norm(x, gain, bias, mask)
    result = submission.normalization.batch_norm(x, gain, bias, mask)
    agree(
        result.masked_fill(mask.unsqueeze(-1), 0.0),
        right.masked_fill(mask.unsqueeze(-1), 0.0),
        "at a position of padding the result",
        WORDS,
    )


@exercise("5.2")
def test_four_words_by_hand(submission, device):
    # Feature 0 has mean 3 and variance 4, feature 1 has mean 1 and variance 9.
    x = torch.tensor([[[1.0, 4.0], [1.0, -2.0]], [[5.0, 4.0], [5.0, -2.0]]], device=device)
    gain = torch.tensor([1.0, 2.0], device=device)
    bias = torch.tensor([10.0, 20.0], device=device)
    result = submission.normalization.batch_norm(x, gain, bias, eps=1e-9)
    wanted = [[[9.0, 22.0], [9.0, 18.0]], [[11.0, 22.0], [11.0, 18.0]]]
    agree(result, torch.tensor(wanted, device=device), "for four words by hand the result", WORDS)


@exercise("5.2")
def test_batch_norm_uses_the_eps_that_is_given(submission, expected, draw):
    x, (gain, bias) = draw_words(draw, EXACT), draw_gain_and_bias(draw, EXACT)
    mask = draw_mask(draw)
    right = expected.normalization.batch_norm(x, gain, bias, mask, 0.3)
    right_unmasked = expected.normalization.batch_norm(x, gain, bias, eps=2.0)
    agree(
        submission.normalization.batch_norm(x, gain, bias, mask, 0.3),
        right,
        "with eps = 0.3 the result",
        WORDS,
    )
    agree(
        submission.normalization.batch_norm(x, gain, bias, eps=2.0),
        right_unmasked,
        "with eps = 2 and no mask the result",
        WORDS,
    )


@exercise("5.2")
def test_words_that_hardly_differ_are_not_blown_up(submission, expected, draw):
    x, (gain, bias) = draw_words(draw, EXACT, scale=2e-3), draw_gain_and_bias(draw, EXACT)
    right = expected.normalization.batch_norm(x, gain, bias)
    agree(
        submission.normalization.batch_norm(x, gain, bias),
        right,
        "for words that differ by about 0.002 the result",
        WORDS,
    )


@exercise("5.2")
def test_a_feature_that_is_the_same_in_all_words_becomes_its_bias(submission, draw):
    x, (gain, bias) = draw_words(draw, EXACT), draw_gain_and_bias(draw, EXACT)
    mask = draw_mask(draw)
    x[..., 4] = 2.5
    result = submission.normalization.batch_norm(x, gain, bias, mask)
    agree(
        result[..., 4],
        bias[4].expand(BATCH, SEQ),
        "for a feature that is 2.5 in every word the result",
        "batch seq",
    )


@exercise("5.2")
def test_without_gain_and_bias_every_feature_has_mean_zero_and_size_one(submission, draw, device):
    x, mask = draw_words(draw, scale=4.0) + 2.0, draw_mask(draw)
    one, zero = torch.ones(D_MODEL, device=device), torch.zeros(D_MODEL, device=device)
    words = submission.normalization.batch_norm(x, one, zero, mask)[mask]
    agree(words.mean(dim=0), 0.0, "the mean of a feature over the words", "d_model", abs=1e-4)
    agree(
        words.square().mean(dim=0), 1.0, "the mean square of a feature over the words", "d_model",
        rel=1e-3,
    )  # fmt: skip


@exercise("5.2")
def test_an_offset_common_to_all_words_is_lost(submission, expected, draw):
    x, (gain, bias) = draw_words(draw, EXACT), draw_gain_and_bias(draw, EXACT)
    mask = draw_mask(draw)
    right = expected.normalization.batch_norm(x + 1e5, gain, bias, mask)
    agree(
        submission.normalization.batch_norm(x + 1e5, gain, bias, mask),
        right,
        "for features around 1e5 in double precision the result",
        WORDS,
        rel=1e-4,
        abs=1e-4,
    )


@exercise("5.2")
def test_a_mean_of_words_far_above_their_spread_leaves_the_variance_right(submission, expected, draw):
    x, (gain, bias) = draw_words(draw) + 1e3, draw_gain_and_bias(draw)
    mask = draw_mask(draw)
    right = expected.normalization.batch_norm(x, gain, bias, mask)
    result = submission.normalization.batch_norm.seen_as(near(right), 0.0)(x, gain, bias, mask)
    what = "for features of 1000, give or take 1, in single precision the result"
    agree(result, right, what, WORDS, rel=0.01, abs=0.01)


@exercise("5.2")
def test_large_features_and_loud_padding_do_no_harm(submission, expected, draw):
    x, (gain, bias) = draw_words(draw, scale=1e4), draw_gain_and_bias(draw)
    mask = draw_mask(draw)
    x = x.where(mask.unsqueeze(-1), 10.0 * x)
    right = expected.normalization.batch_norm(x, gain, bias, mask)
    result = submission.normalization.batch_norm(x, gain, bias, mask)
    finite(result, "for features of about 1e4 the result")
    agree(result, right, "for features of about 1e4 the result", WORDS)


@exercise("5.2")
def test_x_and_mask_may_lie_in_memory_in_any_order(submission, expected, draw):
    x = draw.normal(seq=SEQ, batch=BATCH, d_model=D_MODEL).transpose(0, 1)
    gain, bias = draw_gain_and_bias(draw)
    mask = draw_mask(draw).mT.contiguous().mT
    right = expected.normalization.batch_norm(x, gain, bias)
    right_masked = expected.normalization.batch_norm(x, gain, bias, mask)
    agree(
        submission.normalization.batch_norm(x, gain, bias),
        right,
        "for a transposed x the result",
        WORDS,
    )
    agree(
        submission.normalization.batch_norm(x, gain, bias, mask),
        right_masked,
        "for a transposed x and mask the result",
        WORDS,
    )


@exercise("5.2")
def test_gradients_of_batch_norm_reach_words_gain_and_bias(submission, expected, draw):
    x, (gain, bias) = draw_words(draw, EXACT), draw_gain_and_bias(draw, EXACT)
    gradients_agree(
        submission.normalization.batch_norm,
        expected.normalization.batch_norm,
        x, gain, bias,
        names=NORM,
    )  # fmt: skip


@exercise("5.2")
def test_gradients_of_batch_norm_are_right_under_a_mask(submission, expected, draw):
    x, (gain, bias) = draw_words(draw, EXACT), draw_gain_and_bias(draw, EXACT)
    mask = draw_mask(draw)
    gradients_agree(
        submission.normalization.batch_norm,
        expected.normalization.batch_norm,
        x, gain, bias, mask,
        names=NORM,
    )  # fmt: skip


@guard("5.2")
def test_what_stands_in_the_padding_changes_no_word(submission, draw):
    x, (gain, bias), mask = draw_words(draw), draw_gain_and_bias(draw), draw_mask(draw)
    other = draw_words(draw, scale=5.0).where(~mask.unsqueeze(-1), x)
    before = submission.normalization.batch_norm(x, gain, bias, mask)
    after = submission.normalization.batch_norm(other, gain, bias, mask)
    agree(after[mask], before[mask], "with other padding the result of a word", "word d_model")


@guard("5.2")
def test_batch_norm_leaves_its_inputs_alone(submission, draw):
    x, (gain, bias), mask = draw_words(draw), draw_gain_and_bias(draw), draw_mask(draw)
    leaves_inputs_alone(submission.normalization.batch_norm, x, gain, bias, mask, names=(*NORM, "mask"))


@guard("5.2")
def test_batch_norm_keeps_the_dtype(submission, draw):
    for dtype in (torch.float32, torch.float64):
        x, (gain, bias) = draw_words(draw, dtype), draw_gain_and_bias(draw, dtype)
        mask = draw_mask(draw)
        keeps_dtype(submission.normalization.batch_norm(x, gain, bias), dtype)
        keeps_dtype(
            submission.normalization.batch_norm(x, gain, bias, mask), dtype, "under a mask the result"
        )


# Post-norm and pre-norm


def draw_sublayer_and_norm(draw, dtype=torch.float32):
    """Make a sublayer and a norm that nobody can take for each other or for a layer norm."""
    w = draw.normal(d_in=D_MODEL, d_out=D_MODEL, scale=0.5, dtype=dtype)
    gain, bias = draw_gain_and_bias(draw, dtype)

    def sublayer(y):
        return torch.tanh(y) @ w + 0.3

    def norm(y):
        return y / (1.0 + y.square().mean(dim=-1, keepdim=True)) * gain + bias

    return sublayer, norm


def remembering(function, seen):
    """Let a function keep what it is given."""

    def remember(y):
        seen.append(y.detach().clone())
        return function(y)

    return remember


def counting(function, seen):
    """Let a function keep what it is given, and give more at every call."""

    def count(y):
        seen.append(y.detach().clone())
        return function(y) + 3.0 * len(seen)

    return count


def runs_once(seen):
    require(len(seen) > 0, "the sublayer is never called")
    require(len(seen) == 1, f"the sublayer should be called once, it was called {len(seen)} times")


def square(y):
    return y * y


def tenfold_less_one(y):
    return 10.0 * y - 1.0


@exercise("5.3")
def test_the_sum_of_input_and_sublayer_is_normalised(submission, expected, draw):
    x, (sublayer, norm) = draw_words(draw), draw_sublayer_and_norm(draw)
    right = expected.normalization.post_norm(x, sublayer, norm)
    agree(submission.normalization.post_norm(x, sublayer, norm), right, "the result", WORDS)


@exercise("5.3")
def test_post_norm_of_two_numbers_by_hand(submission, device):
    x = torch.tensor([1.0, 3.0], device=device)
    result = submission.normalization.post_norm(x, square, tenfold_less_one)
    agree(
        result,
        torch.tensor([19.0, 119.0], device=device),
        "for x = 1, 3, a sublayer that squares and a norm that gives 10 y - 1 the result",
        "d_model",
    )


@exercise("5.3")
def test_post_norm_takes_any_shape(submission, expected, draw):
    word = draw.normal(d_model=D_MODEL)
    heads = draw.normal(d_model=D_MODEL, seq=SEQ, heads=HEADS, batch=BATCH).transpose(0, 3)
    sublayer, norm = draw_sublayer_and_norm(draw)
    right_word = expected.normalization.post_norm(word, sublayer, norm)
    right_heads = expected.normalization.post_norm(heads, sublayer, norm)
    agree(
        submission.normalization.post_norm(word, sublayer, norm),
        right_word,
        "for one word the result",
        "d_model",
    )
    agree(
        submission.normalization.post_norm(heads, sublayer, norm),
        right_heads,
        "for a transposed x of four axes the result",
        "batch seq heads d_model",
    )


@exercise("5.3")
def test_in_post_norm_the_sublayer_sees_the_raw_input(submission, draw):
    x, (sublayer, norm), seen = draw_words(draw), draw_sublayer_and_norm(draw), []
    submission.normalization.post_norm(x, remembering(sublayer, seen), norm)
    require(len(seen) > 0, "the sublayer is never called")
    agree(seen[0], x, "what the sublayer is given", WORDS)


@exercise("5.3")
def test_in_post_norm_the_sublayer_is_called_once(submission, draw):
    x, (sublayer, norm), seen = draw_words(draw), draw_sublayer_and_norm(draw), []
    submission.normalization.post_norm(x, counting(sublayer, seen), norm)
    runs_once(seen)


@exercise("5.3")
def test_in_post_norm_the_norm_comes_last(submission, expected, draw):
    x, (sublayer, norm), seen = draw_words(draw), draw_sublayer_and_norm(draw), []
    plain_sum = expected.normalization.post_norm(x, sublayer, torch.clone)
    right = expected.normalization.post_norm(x, sublayer, norm)
    result = submission.normalization.post_norm(x, sublayer, remembering(norm, seen))
    require(len(seen) > 0, "the norm is never called")
    agree(seen[-1], plain_sum, "what the norm is given", WORDS)
    agree(result, right, "the result", WORDS)


@exercise("5.3")
def test_post_norm_of_a_sublayer_that_gives_zeros_is_the_norm_of_the_input(submission, draw):
    x, (_, norm) = draw_words(draw), draw_sublayer_and_norm(draw)
    result = submission.normalization.post_norm(x, torch.zeros_like, norm)
    agree(result, norm(x), "with a sublayer that gives zeros the result", WORDS)


@exercise("5.3")
def test_post_norm_works_at_large_numbers_and_in_double_precision(submission, expected, draw):
    x, (sublayer, norm) = draw_words(draw, EXACT, scale=1e4), draw_sublayer_and_norm(draw, EXACT)
    right = expected.normalization.post_norm(x, sublayer, norm)
    agree(
        submission.normalization.post_norm(x, sublayer, norm),
        right,
        "for features of about 1e4 the result",
        WORDS,
    )


@exercise("5.3")
def test_gradients_of_post_norm_reach_the_input_by_both_ways(submission, expected, draw):
    x, (sublayer, norm) = draw_words(draw, EXACT), draw_sublayer_and_norm(draw, EXACT)
    gradients_agree(
        submission.normalization.post_norm,
        expected.normalization.post_norm,
        x, sublayer, norm,
        names=("x",),
    )  # fmt: skip


@guard("5.3")
def test_post_norm_leaves_its_input_alone(submission, draw):
    x, (sublayer, norm) = draw_words(draw), draw_sublayer_and_norm(draw)
    leaves_inputs_alone(submission.normalization.post_norm, x, sublayer, norm, names=("x",))


@guard("5.3")
def test_post_norm_keeps_the_dtype(submission, draw):
    for dtype in (torch.float32, torch.float64):
        x, (sublayer, norm) = draw_words(draw, dtype), draw_sublayer_and_norm(draw, dtype)
        keeps_dtype(submission.normalization.post_norm(x, sublayer, norm), dtype)


@exercise("5.4")
def test_only_the_sublayer_sees_normalised_numbers(submission, expected, draw):
    x, (sublayer, norm) = draw_words(draw), draw_sublayer_and_norm(draw)
    right = expected.normalization.pre_norm(x, sublayer, norm)
    agree(submission.normalization.pre_norm(x, sublayer, norm), right, "the result", WORDS)


@exercise("5.4")
def test_pre_norm_of_two_numbers_by_hand(submission, device):
    x = torch.tensor([1.0, 3.0], device=device)
    result = submission.normalization.pre_norm(x, square, tenfold_less_one)
    agree(
        result,
        torch.tensor([82.0, 844.0], device=device),
        "for x = 1, 3, a sublayer that squares and a norm that gives 10 y - 1 the result",
        "d_model",
    )


@exercise("5.4")
def test_pre_norm_takes_any_shape(submission, expected, draw):
    word = draw.normal(d_model=D_MODEL)
    heads = draw.normal(d_model=D_MODEL, seq=SEQ, heads=HEADS, batch=BATCH).transpose(0, 3)
    sublayer, norm = draw_sublayer_and_norm(draw)
    right_word = expected.normalization.pre_norm(word, sublayer, norm)
    right_heads = expected.normalization.pre_norm(heads, sublayer, norm)
    agree(
        submission.normalization.pre_norm(word, sublayer, norm),
        right_word,
        "for one word the result",
        "d_model",
    )
    agree(
        submission.normalization.pre_norm(heads, sublayer, norm),
        right_heads,
        "for a transposed x of four axes the result",
        "batch seq heads d_model",
    )


@exercise("5.4")
def test_in_pre_norm_the_norm_sees_the_raw_input(submission, draw):
    x, (sublayer, norm), seen = draw_words(draw), draw_sublayer_and_norm(draw), []
    submission.normalization.pre_norm(x, sublayer, remembering(norm, seen))
    require(len(seen) > 0, "the norm is never called")
    agree(seen[0], x, "what the norm is given", WORDS)


@exercise("5.4")
def test_in_pre_norm_the_sublayer_sees_what_the_norm_gives(submission, draw):
    x, (sublayer, norm), seen = draw_words(draw), draw_sublayer_and_norm(draw), []
    submission.normalization.pre_norm(x, remembering(sublayer, seen), norm)
    require(len(seen) > 0, "the sublayer is never called")
    agree(seen[0], norm(x), "what the sublayer is given", WORDS)


@exercise("5.4")
def test_in_pre_norm_the_sublayer_is_called_once(submission, draw):
    x, (sublayer, norm), seen = draw_words(draw), draw_sublayer_and_norm(draw), []
    submission.normalization.pre_norm(x, counting(sublayer, seen), norm)
    runs_once(seen)


@exercise("5.4")
def test_in_pre_norm_the_residual_path_carries_the_raw_input(submission, draw):
    x, (_, norm) = draw_words(draw), draw_sublayer_and_norm(draw)
    result = submission.normalization.pre_norm(x, lambda y: torch.full_like(y, 5.0), norm)
    agree(result, x + 5.0, "with a sublayer that always gives 5 the result", WORDS)


@exercise("5.4")
def test_pre_norm_works_at_large_numbers_and_in_double_precision(submission, expected, draw):
    x, (sublayer, norm) = draw_words(draw, EXACT, scale=1e4), draw_sublayer_and_norm(draw, EXACT)
    right = expected.normalization.pre_norm(x, sublayer, norm)
    agree(
        submission.normalization.pre_norm(x, sublayer, norm),
        right,
        "for features of about 1e4 the result",
        WORDS,
    )


@exercise("5.4")
def test_gradients_of_pre_norm_reach_the_input_by_both_ways(submission, expected, draw):
    x, (sublayer, norm) = draw_words(draw, EXACT), draw_sublayer_and_norm(draw, EXACT)
    gradients_agree(
        submission.normalization.pre_norm,
        expected.normalization.pre_norm,
        x, sublayer, norm,
        names=("x",),
    )  # fmt: skip


@guard("5.4")
def test_pre_norm_of_a_sublayer_that_gives_zeros_is_the_input(submission, draw):
    x, (_, norm) = draw_words(draw), draw_sublayer_and_norm(draw)
    result = submission.normalization.pre_norm(x, torch.zeros_like, norm)
    agree(result, x, "with a sublayer that gives zeros the result", WORDS)


@guard("5.4")
def test_pre_norm_leaves_its_input_alone(submission, draw):
    x, (sublayer, norm) = draw_words(draw), draw_sublayer_and_norm(draw)
    leaves_inputs_alone(submission.normalization.pre_norm, x, sublayer, norm, names=("x",))


@guard("5.4")
def test_pre_norm_keeps_the_dtype(submission, draw):
    for dtype in (torch.float32, torch.float64):
        x, (sublayer, norm) = draw_words(draw, dtype), draw_sublayer_and_norm(draw, dtype)
        keeps_dtype(submission.normalization.pre_norm(x, sublayer, norm), dtype)


# The feed-forward layer


def draw_feed_forward(draw, dtype=torch.float32):
    return (
        draw.normal(d_model=D_MODEL, d_ff=D_FF, dtype=dtype),
        draw.normal(d_ff=D_FF, dtype=dtype),
        draw.normal(d_ff=D_FF, d_model=D_MODEL, dtype=dtype),
        draw.normal(d_model=D_MODEL, dtype=dtype),
    )


@exercise("5.5")
def test_two_maps_with_a_relu_between_them(submission, expected, draw):
    x, weights = draw_words(draw), draw_feed_forward(draw)
    right = expected.feedforward.feed_forward(x, *weights)
    agree(submission.feedforward.feed_forward(x, *weights), right, "the result", WORDS)


@exercise("5.5")
def test_a_sentence_without_a_batch_and_a_single_word_go_through_too(submission, expected, draw):
    sentence, word = draw.normal(seq=SEQ, d_model=D_MODEL), draw.normal(d_model=D_MODEL)
    weights = draw_feed_forward(draw)
    right_sentence = expected.feedforward.feed_forward(sentence, *weights)
    right_word = expected.feedforward.feed_forward(word, *weights)
    agree(
        submission.feedforward.feed_forward(sentence, *weights),
        right_sentence,
        "for one sentence the result",
        "seq d_model",
    )
    agree(
        submission.feedforward.feed_forward(word, *weights),
        right_word,
        "for one word the result",
        "d_model",
    )


@exercise("5.5")
def test_more_axes_and_transposed_arguments_go_through_too(submission, expected, draw):
    x = draw.normal(d_model=D_MODEL, seq=SEQ, heads=HEADS, batch=BATCH).transpose(0, 3)
    w_1 = draw.normal(d_ff=D_FF, d_model=D_MODEL).mT
    w_2 = draw.normal(d_model=D_MODEL, d_ff=D_FF).mT
    b_1, b_2 = draw.normal(d_ff=D_FF), draw.normal(d_model=D_MODEL)
    right = expected.feedforward.feed_forward(x, w_1, b_1, w_2, b_2)
    agree(
        submission.feedforward.feed_forward(x, w_1, b_1, w_2, b_2),
        right,
        "for transposed arguments the result",
        "batch seq heads d_model",
    )


@exercise("5.5")
def test_one_word_by_hand(submission, device):
    x = torch.tensor([[1.0, 2.0]], device=device)
    w_1 = torch.tensor([[1.0, -1.0, 2.0], [0.0, 1.0, -3.0]], device=device)
    b_1 = torch.tensor([1.0, 2.0, 1.0], device=device)  # hidden features 2, 3, -3
    w_2 = torch.tensor([[1.0, -2.0], [3.0, -1.0], [5.0, 7.0]], device=device)
    b_2 = torch.tensor([0.5, 1.0], device=device)
    result = submission.feedforward.feed_forward(x, w_1, b_1, w_2, b_2)
    agree(
        result,
        torch.tensor([[11.5, -6.0]], device=device),
        "for one word by hand the result",
        "word d_model",
    )


@exercise("5.5")
def test_where_every_hidden_feature_is_negative_only_the_second_bias_is_left(submission, draw):
    x, (w_1, b_1, w_2, b_2) = draw_words(draw), draw_feed_forward(draw)
    result = submission.feedforward.feed_forward(x, w_1, -1e3 - b_1.abs(), w_2, b_2)
    agree(result, b_2.expand_as(x), "with hidden features that are all negative the result", WORDS)


@exercise("5.5")
def test_where_every_hidden_feature_is_positive_nothing_is_cut_off(submission, expected, draw):
    x, (w_1, b_1, w_2, b_2) = draw_words(draw, EXACT), draw_feed_forward(draw, EXACT)
    right = expected.feedforward.feed_forward(x, w_1, b_1.abs() + 50.0, w_2, b_2)
    agree(
        submission.feedforward.feed_forward(x, w_1, b_1.abs() + 50.0, w_2, b_2),
        right,
        "with hidden features that are all positive the result",
        WORDS,
    )


@exercise("5.5")
def test_the_result_may_be_negative(submission, expected, draw):
    x, (w_1, b_1, w_2, b_2) = draw_words(draw), draw_feed_forward(draw)
    right = expected.feedforward.feed_forward(x, w_1, b_1, w_2, b_2 - 100.0)
    result = submission.feedforward.feed_forward(x, w_1, b_1, w_2, b_2 - 100.0)
    agree(result, right, "with a second bias of about -100 the result", WORDS)


@exercise("5.5")
def test_a_word_of_zeros_still_meets_both_biases(submission, expected, draw, device):
    x, weights = torch.zeros(BATCH, SEQ, D_MODEL, device=device), draw_feed_forward(draw)
    right = expected.feedforward.feed_forward(x, *weights)
    agree(
        submission.feedforward.feed_forward(x, *weights),
        right,
        "for words of zeros the result",
        WORDS,
    )


@exercise("5.5")
def test_large_features_go_through(submission, expected, draw):
    x, weights = draw_words(draw, EXACT, scale=1e4), draw_feed_forward(draw, EXACT)
    right = expected.feedforward.feed_forward(x, *weights)
    agree(
        submission.feedforward.feed_forward(x, *weights),
        right,
        "for features of about 1e4 the result",
        WORDS,
        abs=1e-5,
    )


@exercise("5.5")
def test_gradients_reach_the_words_and_all_weights(submission, expected, draw):
    x, weights = draw_words(draw, EXACT), draw_feed_forward(draw, EXACT)
    gradients_agree(
        submission.feedforward.feed_forward,
        expected.feedforward.feed_forward,
        x, *weights,
        names=FEED,
    )  # fmt: skip


@guard("5.5")
def test_each_word_goes_through_alone(submission, draw):
    x, weights = draw_words(draw), draw_feed_forward(draw)
    before = submission.feedforward.feed_forward(x, *weights)
    changed = x.clone()
    changed[1, 3] = 7.0 - 2.0 * changed[1, 3]
    after = submission.feedforward.feed_forward(changed, *weights)
    after[1, 3] = before[1, 3]
    agree(after, before, "after a change of another word the result", WORDS)


@guard("5.5")
def test_feed_forward_leaves_its_inputs_alone(submission, draw):
    x, weights = draw_words(draw), draw_feed_forward(draw)
    leaves_inputs_alone(submission.feedforward.feed_forward, x, *weights, names=FEED)


@guard("5.5")
def test_feed_forward_keeps_the_dtype(submission, draw):
    for dtype in (torch.float32, torch.float64):
        x, weights = draw_words(draw, dtype), draw_feed_forward(draw, dtype)
        keeps_dtype(submission.feedforward.feed_forward(x, *weights), dtype)


# The encoder block


def twin_blocks(submission, expected, draw, dtype=torch.float32, edit=None, **options):
    """Make the block under test and the right one, with the same weights."""
    sizes = (D_MODEL, HEADS, D_FF)
    return _with_same_weights(
        submission.encoder.EncoderBlock,
        expected.encoder.EncoderBlock,
        sizes,
        options,
        draw,
        dtype,
        edit,
    )


def twin_encoders(submission, expected, draw, dtype=torch.float32, layers=3, edit=None, **options):
    """Make the encoder under test and the right one, with the same weights."""
    sizes = (layers, D_MODEL, HEADS, D_FF)
    return _with_same_weights(
        submission.encoder.Encoder, expected.encoder.Encoder, sizes, options, draw, dtype, edit
    )


def _with_same_weights(submitted, right, sizes, options, draw, dtype, edit):
    theirs = right(*sizes, **options)
    mine = submitted(*sizes, **options)
    if dtype == EXACT:
        theirs.double()
        mine.double()
    state = draw.state(theirs)
    if edit is not None:
        edit(state)
    theirs.load_state_dict(state)
    mine.load_state_dict(state)
    return mine, theirs


def silence_sublayers(state):
    """Make every sublayer give zeros, and every norm leave its result as it is."""
    for name, tensor in state.items():
        if ".w_o." in f".{name}" or ".w_2." in f".{name}":
            tensor.zero_()
        if "norm" in name:
            tensor.fill_(1.0 if name.endswith("weight") else 0.0)


def draw_padding(draw):
    return draw.mask(batch=BATCH, heads=1, query=1, key=SEQ)


@exercise("5.6")
def test_pre_norm_is_the_default(submission, expected, draw):
    mine, right = twin_blocks(submission, expected, draw)
    x = draw_words(draw)
    agree(mine(x), right(x), "in a pre-norm block the result", WORDS)


@exercise("5.6")
def test_post_norm_is_used_when_norm_first_is_false(submission, expected, draw):
    mine, right = twin_blocks(submission, expected, draw, norm_first=False)
    x = draw_words(draw)
    agree(mine(x), right(x), "in a post-norm block the result", WORDS)


@exercise("5.6")
def test_padded_words_are_hidden_by_the_mask(submission, expected, draw):
    for norm_first in (True, False):
        mine, right = twin_blocks(submission, expected, draw, norm_first=norm_first)
        x, mask = draw_words(draw), draw_padding(draw)
        agree(
            mine(x, mask),
            right(x, mask),
            f"under a padding mask, with norm_first={norm_first}, the result",
            WORDS,
        )


@exercise("5.6")
def test_a_mask_may_say_who_looks_at_whom(submission, expected, draw):
    mine, right = twin_blocks(submission, expected, draw)
    x, pairs = draw_words(draw), draw.mask(query=SEQ, key=SEQ)
    by_head = draw.mask(batch=BATCH, heads=HEADS, query=SEQ, key=SEQ)
    agree(mine(x, pairs), right(x, pairs), "under a mask (seq, seq) the result", WORDS)
    agree(
        mine(x, by_head), right(x, by_head), "under a mask (batch, heads, seq, seq) the result", WORDS
    )


@exercise("5.6")
def test_a_word_that_may_look_at_nothing_is_fine(submission, expected, draw):
    mine, right = twin_blocks(submission, expected, draw, norm_first=False)
    x, mask = draw_words(draw), draw.mask(batch=BATCH, heads=1, query=SEQ, key=SEQ)
    mask[1, :, 2] = False
    agree(mine(x, mask), right(x, mask), "where one word may look at nothing the result", WORDS)


@exercise("5.6")
def test_each_sublayer_has_its_own_norm(submission, expected, draw):
    def edit(state):
        state["norm_1.weight"] *= 3.0
        state["norm_2.weight"] *= -0.5
        state["norm_2.bias"] += 2.0

    mine, right = twin_blocks(submission, expected, draw, EXACT, edit)
    post, right_post = twin_blocks(submission, expected, draw, EXACT, edit, norm_first=False)
    x = draw_words(draw, EXACT)
    agree(mine(x), right(x), "in a pre-norm block with two very different norms the result", WORDS)
    agree(
        post(x), right_post(x), "in a post-norm block with two very different norms the result", WORDS
    )


@exercise("5.6")
def test_with_silent_sublayers_post_norm_still_normalises(submission, expected, draw):
    mine, right = twin_blocks(submission, expected, draw, edit=silence_sublayers, norm_first=False)
    x = draw_words(draw, scale=3.0)
    wanted = right(x)
    result = mine(x)
    agree(result.mean(dim=-1), 0.0, "the mean of a word's features", "batch seq", abs=1e-4)
    agree(result, wanted, "with sublayers that give zeros the result", WORDS)


@exercise("5.6")
def test_a_pre_norm_block_takes_large_words(submission, expected, draw):
    mine, right = twin_blocks(submission, expected, draw)
    x = draw_words(draw, scale=1e4)
    agree(mine(x), right(x), "for features of about 1e4 the result", WORDS, abs=1e-2)


@exercise("5.6")
def test_a_sentence_of_one_word_and_a_transposed_one_go_through(submission, expected, draw):
    mine, right = twin_blocks(submission, expected, draw)
    word = draw.normal(batch=BATCH, seq=1, d_model=D_MODEL)
    x = draw.normal(d_model=D_MODEL, seq=SEQ, batch=BATCH).transpose(0, 2)
    agree(mine(word), right(word), "for sentences of one word the result", WORDS)
    agree(mine(x), right(x), "for a transposed x the result", WORDS)


@exercise("5.6")
def test_gradients_reach_the_words_and_all_parameters_of_a_pre_norm_block(submission, expected, draw):
    mine, right = twin_blocks(submission, expected, draw, EXACT)
    x, mask = draw_words(draw, EXACT), draw_padding(draw)
    gradients_agree(mine, right, x, mask, names=("x",))


@exercise("5.6")
def test_gradients_reach_the_words_and_all_parameters_of_a_post_norm_block(submission, expected, draw):
    mine, right = twin_blocks(submission, expected, draw, EXACT, norm_first=False)
    x = draw_words(draw, EXACT)
    gradients_agree(mine, right, x, names=("x",))


@guard("5.6")
def test_with_silent_sublayers_a_pre_norm_block_gives_back_its_input(submission, expected, draw):
    mine, _ = twin_blocks(submission, expected, draw, edit=silence_sublayers)
    x = draw_words(draw, scale=3.0)
    agree(mine(x), x, "with sublayers that give zeros the result", WORDS)


@guard("5.6")
def test_words_in_another_order_give_the_same_results_in_that_order(submission, expected, draw):
    mine, _ = twin_blocks(submission, expected, draw)
    x = draw_words(draw)
    order = torch.tensor([3, 0, 4, 2, 1], device=x.device)
    agree(mine(x[:, order]), mine(x)[:, order], "for words in another order the result", WORDS)


@guard("5.6")
def test_a_sentence_does_not_see_the_others_of_its_batch(submission, expected, draw):
    mine, _ = twin_blocks(submission, expected, draw)
    x = draw_words(draw)
    agree(mine(x[1:]), mine(x)[1:], "for the last sentence alone the result", WORDS)


@guard("5.6")
def test_the_block_leaves_its_inputs_alone(submission, expected, draw):
    mine, _ = twin_blocks(submission, expected, draw)
    leaves_inputs_alone(mine, draw_words(draw), draw_padding(draw), names=("x", "mask"))


@guard("5.6")
def test_the_block_keeps_the_dtype(submission, expected, draw):
    for dtype in (torch.float32, torch.float64):
        mine, _ = twin_blocks(submission, expected, draw, dtype)
        keeps_dtype(mine(draw_words(draw, dtype)), dtype)


# The encoder


@exercise("5.7")
def test_the_words_go_through_all_blocks_and_the_final_norm(submission, expected, draw):
    mine, right = twin_encoders(submission, expected, draw)
    x = draw_words(draw)
    agree(mine(x), right(x), "the result", WORDS)


@exercise("5.7")
def test_a_post_norm_stack_needs_no_final_norm(submission, expected, draw):
    mine, right = twin_encoders(submission, expected, draw, norm_first=False)
    x = draw_words(draw)
    agree(mine(x), right(x), "in a post-norm stack the result", WORDS)


@exercise("5.7")
def test_a_stack_of_one_and_a_stack_of_two_work(submission, expected, draw):
    one, right_one = twin_encoders(submission, expected, draw, layers=1)
    two, right_two = twin_encoders(submission, expected, draw, layers=2)
    x = draw_words(draw)
    agree(one(x), right_one(x), "in a stack of one block the result", WORDS)
    agree(two(x), right_two(x), "in a stack of two blocks the result", WORDS)


@exercise("5.7")
def test_every_block_gets_the_mask(submission, expected, draw):
    mine, right = twin_encoders(submission, expected, draw)
    x, mask = draw_words(draw), draw_padding(draw)
    agree(mine(x, mask), right(x, mask), "under a padding mask the result", WORDS)


@exercise("5.7")
def test_every_block_gets_a_mask_that_says_who_looks_at_whom(submission, expected, draw):
    mine, right = twin_encoders(submission, expected, draw, norm_first=False)
    x, mask = draw_words(draw), draw.mask(query=SEQ, key=SEQ)
    agree(mine(x, mask), right(x, mask), "under a mask (seq, seq) the result", WORDS)


@exercise("5.7")
def test_without_gain_and_bias_the_final_norm_leaves_mean_zero_and_size_one(submission, expected, draw):
    def edit(state):
        state["norm.weight"].fill_(1.0)
        state["norm.bias"].zero_()

    mine, _ = twin_encoders(submission, expected, draw, edit=edit)
    result = mine(draw_words(draw, scale=3.0))
    agree(result.mean(dim=-1), 0.0, "the mean of a word's features", "batch seq", abs=1e-4)
    agree(result.square().mean(dim=-1), 1.0, "the mean square of a word's features", "batch seq")


@exercise("5.7")
def test_a_final_norm_of_gain_zero_leaves_only_its_bias(submission, expected, draw):
    def edit(state):
        state["norm.weight"].zero_()

    mine, right = twin_encoders(submission, expected, draw, edit=edit)
    x = draw_words(draw)
    agree(mine(x), right(x), "with a final norm of gain zero the result", WORDS)


@exercise("5.7")
def test_with_silent_blocks_only_the_final_norm_is_left(submission, expected, draw):
    mine, right = twin_encoders(submission, expected, draw, edit=silence_sublayers)
    x = draw_words(draw, scale=1e4)
    agree(mine(x), right(x), "with blocks that add nothing the result", WORDS)


@exercise("5.7")
def test_gradients_reach_the_words_and_the_parameters_of_every_block(submission, expected, draw):
    mine, right = twin_encoders(submission, expected, draw, EXACT)
    x, mask = draw_words(draw, EXACT), draw_padding(draw)
    gradients_agree(mine, right, x, mask, names=("x",))


@guard("5.7")
def test_padding_changes_no_word(submission, expected, draw):
    mine, _ = twin_encoders(submission, expected, draw)
    x, other = draw_words(draw), draw_words(draw)
    mask = draw_padding(draw)
    words = mask[:, 0, 0]
    before = mine(x, mask)
    after = mine(other.where(~words.unsqueeze(-1), x), mask)
    agree(after[words], before[words], "with other padding the result of a word", "word d_model")


@guard("5.7")
def test_the_encoder_leaves_its_inputs_alone(submission, expected, draw):
    mine, _ = twin_encoders(submission, expected, draw, layers=2)
    leaves_inputs_alone(mine, draw_words(draw), draw_padding(draw), names=("x", "mask"))


@guard("5.7")
def test_the_encoder_keeps_the_dtype(submission, expected, draw):
    for dtype in (torch.float32, torch.float64):
        mine, _ = twin_encoders(submission, expected, draw, dtype, layers=2)
        keeps_dtype(mine(draw_words(draw, dtype)), dtype)
