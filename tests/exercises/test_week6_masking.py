"""Week 6: not looking ahead, not looking at padding, and a loss that counts words only."""

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
BATCH, HEADS, QUERY, KEY = 2, 3, 5, 7
SEQ, D_MODEL, D_FF, VOCAB = 5, 12, 20, 11
T, F = True, False


# 6.1 The causal mask


@exercise("6.1")
def test_four_words_give_four_rows_each_one_word_longer(submission):
    mask = submission.masking.causal_mask(4)
    by_hand = torch.tensor([[T, F, F, F], [T, T, F, F], [T, T, T, F], [T, T, T, T]])
    same_items(mask, by_hand, "the causal mask of 4 words")


@exercise("6.1")
def test_the_mask_is_right_for_every_length(submission, expected, draw):
    lengths = [draw.number(5, 9), draw.number(9, 17), draw.number(17, 30)]
    right = [expected.masking.causal_mask(length) for length in lengths]
    masks = [submission.masking.causal_mask(length) for length in lengths]
    for length, mask, wanted in zip(lengths, masks, right, strict=True):
        agree(mask, wanted, f"the causal mask of {length} words", "query key")


@exercise("6.1")
def test_a_word_sees_itself_and_the_one_before_but_not_the_next(submission, draw):
    length = draw.number(6, 12)
    mask = submission.masking.causal_mask(length)
    require(mask.shape == (length, length), f"{length} words need a square of {length} by {length}")
    for t in range(length):
        require(bool(mask[t, t]), f"word {t} may not look at itself: entry ({t}, {t}) is False")
        require(t == 0 or bool(mask[t, t - 1]), f"word {t} may not look at word {t - 1} before it")
        if t + 1 < length:
            require(not mask[t, t + 1], f"word {t} may look at word {t + 1}, which comes after it")


@exercise("6.1")
def test_word_t_sees_as_many_words_as_have_come(submission, draw):
    length = draw.number(6, 12)
    mask = submission.masking.causal_mask(length)
    for t, row in enumerate(mask.tolist()):
        require(sum(row) == t + 1, f"word {t} sees {sum(row)} words; {t + 1} have come, with itself")


@exercise("6.1")
def test_the_first_word_sees_one_word_and_the_last_sees_all(submission, draw):
    length = draw.number(6, 12)
    mask = submission.masking.causal_mask(length)
    require(mask[0].sum().item() == 1, "the first word has nothing before it: it sees itself only")
    require(bool(mask[-1].all()), "the last word has everything before it: it sees all words")


@exercise("6.1")
def test_a_longer_text_does_not_change_what_its_beginning_sees(submission, expected, draw):
    short, long = draw.number(3, 7), draw.number(8, 14)
    right = expected.masking.causal_mask(short)
    mask = submission.masking.causal_mask(long)
    same_items(mask[:short, :short], right, f"the first {short} rows and columns of {long}")


@guard("6.1")
def test_a_single_word_sees_itself(submission):
    mask = submission.masking.causal_mask(1)
    same_items(mask, torch.tensor([[T]]), "the causal mask of a single word")


# 6.2 The padding mask


def draw_tokens(draw, pad_id, low=0):
    """Two sentences with 3 and 1 pads at the end; nothing else is padding."""
    tokens = draw.integers(low, 20, batch=BATCH, key=KEY)
    tokens[tokens == pad_id] = pad_id + 1
    tokens[0, -3:] = pad_id
    tokens[1, -1:] = pad_id
    return tokens


@exercise("6.2")
def test_words_are_seen_and_padding_is_hidden(submission, expected, draw):
    tokens = draw_tokens(draw, pad_id=0)
    right = expected.masking.padding_mask(tokens, 0)
    same_items(submission.masking.padding_mask(tokens, 0), right, "the padding mask")


@exercise("6.2")
def test_one_sentence_by_hand(submission, device):
    tokens = torch.tensor([[8, 3, 9, 2, 2]], device=device)
    mask = submission.masking.padding_mask(tokens, 2)
    same_items(mask, torch.tensor([[[[T, T, T, F, F]]]]), "the mask of 8 3 9 pad pad")


@exercise("6.2")
def test_the_padding_id_is_the_one_that_is_given(submission, expected, draw):
    pad_ids = [draw.number(4, 15), draw.number(4, 15), -1]
    batches = [draw_tokens(draw, pad_id) for pad_id in pad_ids]
    for tokens in batches:
        tokens[0, 1] = 0  # a word like any other, where padding is not 0
        tokens[1, 2] = 19
    right = [expected.masking.padding_mask(*pair) for pair in zip(batches, pad_ids, strict=True)]
    masks = [submission.masking.padding_mask(*pair) for pair in zip(batches, pad_ids, strict=True)]
    for mask, wanted, pad_id in zip(masks, right, pad_ids, strict=True):
        same_items(mask, wanted, f"the mask for padding with {pad_id}")


@exercise("6.2")
def test_padding_is_hidden_wherever_it_stands(submission, expected, draw):
    pad_id = draw.number(4, 9)
    tokens = draw_tokens(draw, pad_id, low=0)
    tokens[0, :2] = pad_id
    tokens[1, 3] = pad_id
    right = expected.masking.padding_mask(tokens, pad_id)
    mask = submission.masking.padding_mask(tokens, pad_id)
    same_items(mask, right, "with padding in front and between words, the mask")


@exercise("6.2")
def test_padding_is_hidden_as_a_key_from_every_query(submission, expected, draw):
    tokens = draw_tokens(draw, pad_id=0)
    right = expected.masking.padding_mask(tokens, 0)
    mask = submission.masking.padding_mask(tokens, 0)
    allowed = torch.ones(BATCH, HEADS, QUERY, KEY, dtype=torch.bool, device=mask.device) & mask
    wanted = right.expand(BATCH, HEADS, QUERY, KEY)
    agree(allowed, wanted, "for weights of 3 heads and 5 queries, the mask", "batch head query key")


@exercise("6.2")
def test_a_sentence_of_nothing_but_padding_hides_everything(submission, expected, draw):
    tokens = draw_tokens(draw, pad_id=1)
    tokens[1] = 1
    right = expected.masking.padding_mask(tokens, 1)
    mask = submission.masking.padding_mask(tokens, 1)
    agree(mask, right, "with a sentence of padding only, the mask", "batch head query key")


@exercise("6.2")
def test_a_sentence_has_its_own_padding(submission, expected, draw):
    tokens = draw_tokens(draw, pad_id=0)
    alone = expected.masking.padding_mask(tokens[1:], 0)
    together = submission.masking.padding_mask(tokens, 0)
    agree(together[1:], alone, "the mask of the second sentence", "batch head query key")


@guard("6.2")
def test_without_padding_everything_is_seen(submission, draw):
    tokens = draw.integers(1, 9, batch=3, key=4)
    mask = submission.masking.padding_mask(tokens, 0)
    require(bool(mask.all()), "a batch without padding has something hidden")


@guard("6.2")
def test_the_tokens_are_left_alone(submission, draw):
    tokens = draw_tokens(draw, pad_id=3)
    leaves_inputs_alone(submission.masking.padding_mask, tokens, 3, names=("tokens",))


# 6.3 Softmax under a mask


def draw_scores(draw, dtype=torch.float32, scale=1.0):
    return draw.normal(batch=BATCH, heads=HEADS, query=QUERY, key=KEY, dtype=dtype, scale=scale)


@exercise("6.3")
def test_the_allowed_scores_share_the_weight(submission, expected, draw):
    scores = draw_scores(draw)
    mask = draw.mask(batch=BATCH, heads=HEADS, query=QUERY, key=KEY)
    right = expected.masking.masked_softmax(scores, mask)
    weights = submission.masking.masked_softmax(scores, mask)
    agree(weights, right, "the weight", "batch head query key")


@exercise("6.3")
def test_three_scores_by_hand(submission, device):
    scores = torch.tensor([0.0, math.log(3.0), 5.0], device=device)
    mask = torch.tensor([T, T, F], device=device)
    weights = submission.masking.masked_softmax(scores, mask)
    right = torch.tensor([0.25, 0.75, 0.0], device=device)
    agree(weights, right, "with the third score hidden, the weight of 0, log 3, 5", "key")


@exercise("6.3")
def test_a_smaller_mask_broadcasts_to_the_scores(submission, expected, draw):
    scores = draw_scores(draw)
    keys = draw.mask(batch=BATCH, heads=1, query=1, key=KEY)
    square = draw.mask(query=QUERY, key=KEY)
    right = [expected.masking.masked_softmax(scores, mask) for mask in (keys, square)]
    weights = [submission.masking.masked_softmax(scores, mask) for mask in (keys, square)]
    agree(weights[0], right[0], "under a mask (batch, 1, 1, key) the weight", "batch head query key")
    agree(weights[1], right[1], "under a mask (query, key) the weight", "batch head query key")


@exercise("6.3")
def test_the_softmax_runs_over_the_axis_that_is_asked_for(submission, expected, draw):
    scores = draw_scores(draw)
    mask = draw.mask(batch=BATCH, heads=HEADS, query=QUERY, key=KEY)
    mask[0, 1, :, 2] = False
    smaller = draw.mask(query=QUERY, key=KEY)
    smaller[:, 4] = False
    cases = [(mask, 1), (mask, -2), (smaller, 2), (smaller, 3)]
    right = [expected.masking.masked_softmax(scores, some, dim=dim) for some, dim in cases]
    weights = [submission.masking.masked_softmax(scores, some, dim=dim) for some, dim in cases]
    for (_, dim), got, wanted in zip(cases, weights, right, strict=True):
        agree(got, wanted, f"with dim={dim} the weight", "batch head query key")


@exercise("6.3")
def test_where_nothing_is_allowed_all_weights_are_zero(submission, expected, draw):
    scores = draw_scores(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    mask[0, :, 2] = False
    mask[1, :, 4] = False
    right = expected.masking.masked_softmax(scores, mask)
    weights = submission.masking.masked_softmax(scores, mask)
    agree(weights, right, "with a row that allows nothing, the weight", "batch head query key")


@exercise("6.3")
def test_what_a_hidden_score_is_makes_no_difference(submission, expected, draw):
    scores = draw_scores(draw, dtype=torch.float64)
    mask = draw.mask(batch=BATCH, heads=HEADS, query=QUERY, key=KEY)
    right = expected.masking.masked_softmax(scores, mask)
    towering = scores.masked_fill(~mask, 1e4)
    weights = submission.masking.masked_softmax(towering, mask)
    agree(weights, right, "with hidden scores of 1e4 the weight", "batch head query key")


@exercise("6.3")
def test_allowed_scores_far_below_zero_still_share_the_weight(submission, expected, draw):
    scores = draw_scores(draw, dtype=torch.float64)
    mask = draw.mask(batch=BATCH, heads=HEADS, query=QUERY, key=KEY)
    low = (scores - 1e10).where(mask, scores)
    right = expected.masking.masked_softmax(low, mask)
    weights = submission.masking.masked_softmax(low, mask)
    agree(weights, right, "at allowed scores of -1e10 the weight", "batch head query key", rel=1e-3)


@guard("6.3")
def test_a_hidden_score_gets_no_weight_even_beside_the_lowest_number_there_is(submission, draw):
    scores = draw_scores(draw, dtype=torch.float64)
    mask = draw.mask(batch=BATCH, heads=HEADS, query=QUERY, key=KEY)
    lowest = scores.masked_fill(mask, torch.finfo(torch.float64).min)
    weights = submission.masking.masked_softmax(lowest, mask)
    agree(weights.masked_fill(mask, 0.0), 0.0, "the weight of a hidden score", "batch head query key")
    kept = weights.sum(dim=-1).min().item()
    require(kept > 0.999, f"at the lowest scores there are, the weights of a row sum to {kept:.4g}")


@exercise("6.3")
def test_rows_of_very_different_size_stay_finite(submission, expected, draw):
    scores = draw_scores(draw, dtype=torch.float64)
    mask = draw.mask(batch=BATCH, heads=HEADS, query=QUERY, key=KEY)
    steps = torch.linspace(-1e4, 1e4, QUERY, dtype=torch.float64, device=scores.device)
    spread = scores + steps[:, None]
    right = expected.masking.masked_softmax(spread, mask)
    weights = submission.masking.masked_softmax(spread, mask)
    finite(weights, "at scores from -1e4 to 1e4 the weight")
    agree(weights, right, "at scores from -1e4 to 1e4 the weight", "batch head query key")


@exercise("6.3")
def test_gradients_reach_the_allowed_scores(submission, expected, draw):
    scores = draw_scores(draw, dtype=torch.float64)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    gradients_agree(
        submission.masking.masked_softmax,
        expected.masking.masked_softmax,
        scores, mask,
        names=("scores",),
    )  # fmt: skip


@exercise("6.3")
def test_a_row_that_allows_nothing_does_not_spoil_the_gradients(submission, expected, draw):
    scores = draw_scores(draw, dtype=torch.float64)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    mask[1, :, 3] = False
    gradients_agree(
        submission.masking.masked_softmax,
        expected.masking.masked_softmax,
        scores, mask,
        names=("scores",),
    )  # fmt: skip


@guard("6.3")
def test_scores_and_mask_are_left_alone(submission, draw):
    scores = draw_scores(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    leaves_inputs_alone(submission.masking.masked_softmax, scores, mask, names=("scores", "mask"))


@guard("6.3")
def test_weights_keep_the_dtype_of_the_scores(submission, draw):
    mask = draw.mask(query=QUERY, key=KEY)
    for dtype in (torch.float32, torch.float64):
        weights = submission.masking.masked_softmax(draw_scores(draw, dtype), mask)
        keeps_dtype(weights, dtype, "the weights")


# 6.4 Shifted right


@exercise("6.4")
def test_the_start_token_comes_in_and_the_last_token_goes_out(submission, expected, draw):
    targets, bos_id = draw.integers(3, 30, batch=BATCH, seq=SEQ), draw.number(30, 40)
    right = expected.loss.shift_right(targets, bos_id)
    same_items(submission.loss.shift_right(targets, bos_id), right, "the shifted batch")


@exercise("6.4")
def test_one_sentence_by_hand_without_a_batch(submission, device):
    targets = torch.tensor([7, 9, 4, 5], device=device)
    shifted = submission.loss.shift_right(targets, 6)
    same_items(shifted, torch.tensor([6, 7, 9, 4]), "7 9 4 5 shifted right, started by 6,")


@exercise("6.4")
def test_place_t_holds_the_target_of_the_place_before(submission, expected, draw):
    targets, bos_id = draw.integers(3, 30, batch=4, seq=9), draw.number(30, 40)
    right = expected.loss.shift_right(targets, bos_id)
    shifted = submission.loss.shift_right(targets, bos_id)
    agree(shifted[:, 1:], right[:, 1:], "after the start token the input", "batch seq")


@exercise("6.4")
def test_every_sentence_begins_with_the_start_token_that_is_given(submission, expected, draw):
    targets = draw.integers(3, 30, batch=4, seq=6)
    ids = [draw.number(30, 40), 0, 1]
    right = [expected.loss.shift_right(targets, bos_id) for bos_id in ids]
    batches = [submission.loss.shift_right(targets, bos_id) for bos_id in ids]
    for shifted, wanted, bos_id in zip(batches, right, ids, strict=True):
        agree(shifted[:, 0], bos_id, f"with the start token {bos_id} the first input", "batch")
        agree(shifted, wanted, f"with the start token {bos_id} the input", "batch seq")


@exercise("6.4")
def test_padding_and_other_special_tokens_move_like_words(submission, expected, draw):
    bos_id, eos_id, pad_id = 1, 2, 0
    targets = draw.integers(3, 30, batch=BATCH, seq=7)
    targets[0, 3:] = torch.tensor([eos_id, pad_id, pad_id, pad_id])
    targets[1, 2] = bos_id
    right = expected.loss.shift_right(targets, bos_id)
    shifted = submission.loss.shift_right(targets, bos_id)
    same_items(shifted, right, "a batch with end and padding tokens, shifted,")


@exercise("6.4")
def test_any_number_of_axes_may_stand_before_the_sequence(submission, expected, draw):
    bos_id = draw.number(30, 40)
    single = draw.integers(3, 30, seq=SEQ)
    nested = draw.integers(3, 30, documents=2, batch=3, seq=4)
    right = [expected.loss.shift_right(targets, bos_id) for targets in (single, nested)]
    agree(submission.loss.shift_right(single, bos_id), right[0], "without a batch the input", "seq")
    shifted = submission.loss.shift_right(nested, bos_id)
    agree(shifted, right[1], "with two leading axes the input", "document batch seq")


@exercise("6.4")
def test_a_batch_that_is_a_transposed_view_is_shifted_along_its_sequence(submission, expected, draw):
    columns, bos_id = draw.integers(3, 30, seq=SEQ, batch=3), draw.number(30, 40)
    right = expected.loss.shift_right(columns.T, bos_id)
    shifted = submission.loss.shift_right(columns.T, bos_id)
    agree(shifted, right, "from a transposed view the input", "batch seq")


@guard("6.4")
def test_a_target_of_one_token_gives_the_start_token_alone(submission, draw):
    targets, bos_id = draw.integers(3, 30, batch=3, seq=1), draw.number(30, 40)
    shifted = submission.loss.shift_right(targets, bos_id)
    require(shifted.shape == (3, 1), f"3 targets of one token should give (3, 1), not {shifted.shape}")
    agree(shifted, bos_id, "for a target of one token the input", "batch seq")


@guard("6.4")
def test_the_targets_are_left_alone(submission, draw):
    targets = draw.integers(3, 30, batch=BATCH, seq=SEQ)
    leaves_inputs_alone(submission.loss.shift_right, targets, 1, names=("targets",))


@guard("6.4")
def test_tokens_keep_their_dtype(submission, draw):
    targets = draw.integers(3, 30, batch=BATCH, seq=SEQ)
    for dtype in (torch.int64, torch.int32):
        shifted = submission.loss.shift_right(targets.to(dtype), 1)
        keeps_dtype(shifted, dtype, "the shifted batch")


# 6.5 A loss that ignores padding


def draw_logits(draw, dtype=torch.float64, scale=1.0):
    return draw.normal(batch=3, seq=SEQ, vocab=VOCAB, dtype=dtype, scale=scale)


def draw_targets(draw, pad_id=None):
    """Draw words only; with a pad_id, sentences of 2, 5 and 4 words, one of them with a gap."""
    targets = draw.integers(0, VOCAB, batch=3, seq=SEQ)
    if pad_id is not None:
        targets[targets == pad_id] = (pad_id + 1) % VOCAB
        targets[0, 2:] = pad_id
        targets[2, 4:] = pad_id
        targets[2, 1] = pad_id
    return targets


@exercise("6.5")
def test_without_padding_it_is_the_mean_cross_entropy(submission, expected, draw):
    logits, targets = draw_logits(draw), draw_targets(draw)
    right = expected.loss.sequence_loss(logits, targets, -1)
    agree(submission.loss.sequence_loss(logits, targets, -1), right, "without padding the loss")


@exercise("6.5")
def test_one_word_by_hand(submission, device):
    # The target has probability 3/4, the other word 1/4.
    logits = torch.tensor([[0.0, math.log(3.0)]], device=device)
    targets = torch.tensor([1], device=device)
    plain = submission.loss.sequence_loss(logits, targets, -1)
    smooth = submission.loss.sequence_loss(logits, targets, -1, 0.2)
    agree(plain, 0.287682, "for a word of probability 3/4 the loss")
    agree(smooth, 0.397543, "for a word of probability 3/4 and smoothing 0.2 the loss")


@exercise("6.5")
def test_sentences_of_one_word_have_a_loss(submission, expected, draw):
    logits, targets = draw_logits(draw)[:, :1], draw_targets(draw)[:, :1]
    right = expected.loss.sequence_loss(logits, targets, -1)
    agree(submission.loss.sequence_loss(logits, targets, -1), right, "for one word each the loss")


@exercise("6.5")
def test_the_mean_is_over_words_and_not_over_padding(submission, expected, draw):
    pad_ids = [0, draw.number(2, VOCAB)]
    logits = draw_logits(draw)
    targets = [draw_targets(draw, pad_id) for pad_id in pad_ids]
    targets[1][1, 0] = 0  # a word like any other, where padding is not 0
    right = [expected.loss.sequence_loss(logits, t, p) for t, p in zip(targets, pad_ids, strict=True)]
    losses = [
        submission.loss.sequence_loss(logits, t, p) for t, p in zip(targets, pad_ids, strict=True)
    ]
    for loss, wanted, pad_id in zip(losses, right, pad_ids, strict=True):
        agree(loss, wanted, f"for padding with {pad_id} the loss")


@exercise("6.5")
def test_more_padding_changes_nothing(submission, expected, draw):
    logits, targets = draw_logits(draw), draw_targets(draw, pad_id=4)
    tail = draw.normal(batch=3, pads=6, vocab=VOCAB, dtype=torch.float64)
    right = expected.loss.sequence_loss(logits, targets, 4, smoothing=0.1)
    longer = torch.cat([targets, torch.full_like(tail[..., 0], 4, dtype=torch.int64)], dim=1)
    loss = submission.loss.sequence_loss(torch.cat([logits, tail], dim=1), longer, 4, smoothing=0.1)
    agree(loss, right, "with six more pads a sentence the loss")


@exercise("6.5")
def test_what_the_model_says_at_padding_changes_nothing(submission, expected, draw):
    logits, targets = draw_logits(draw), draw_targets(draw, pad_id=4)
    right = expected.loss.sequence_loss(logits, targets, 4)
    other = draw_logits(draw, scale=30.0).where((targets == 4)[..., None], logits)
    loss = submission.loss.sequence_loss(other, targets, 4)
    agree(loss, right, "with other logits at padding the loss")


@exercise("6.5")
def test_smoothing_gives_every_word_its_share(submission, expected, draw):
    logits, targets = draw_logits(draw), draw_targets(draw)
    shares = (0.1, 0.3, 1.0)
    right = [expected.loss.sequence_loss(logits, targets, -1, share) for share in shares]
    losses = [submission.loss.sequence_loss(logits, targets, -1, share) for share in shares]
    for share, loss, wanted in zip(shares, losses, right, strict=True):
        agree(loss, wanted, f"with smoothing {share} the loss")


@exercise("6.5")
def test_smoothing_leaves_padding_out_too(submission, expected, draw):
    pad_id = draw.number(0, VOCAB)
    logits, targets = draw_logits(draw), draw_targets(draw, pad_id)
    right = expected.loss.sequence_loss(logits, targets, pad_id, smoothing=0.2)
    loss = submission.loss.sequence_loss(logits, targets, pad_id, smoothing=0.2)
    agree(loss, right, "with padding and smoothing 0.2 the loss")


@exercise("6.5")
def test_a_model_that_knows_nothing_pays_the_log_of_the_vocabulary(submission, draw):
    pad_id = draw.number(0, VOCAB)
    targets = draw_targets(draw, pad_id)
    logits = torch.full((3, SEQ, VOCAB), 2.0, device=targets.device)
    plain = submission.loss.sequence_loss(logits, targets, pad_id)
    smooth = submission.loss.sequence_loss(logits, targets, pad_id, smoothing=0.3)
    agree(plain, math.log(VOCAB), "with equal logits for 11 words the loss")
    agree(smooth, math.log(VOCAB), "with equal logits and smoothing the loss")


@exercise("6.5")
def test_one_sentence_and_nested_batches_work_too(submission, expected, draw):
    single = draw.normal(seq=SEQ, vocab=VOCAB), draw.integers(0, VOCAB, seq=SEQ)
    nested = (
        draw.normal(documents=2, batch=3, seq=4, vocab=VOCAB),
        draw.integers(0, VOCAB, documents=2, batch=3, seq=4),
    )
    right = [expected.loss.sequence_loss(*batch, 0, 0.1) for batch in (single, nested)]
    agree(submission.loss.sequence_loss(*single, 0, 0.1), right[0], "of a single sentence the loss")
    agree(submission.loss.sequence_loss(*nested, 0, 0.1), right[1], "of nested batches the loss")


@exercise("6.5")
def test_logits_that_are_a_transposed_view_work_too(submission, expected, draw):
    logits = draw.normal(seq=SEQ, batch=3, vocab=VOCAB).transpose(0, 1)
    targets = draw.integers(0, VOCAB, seq=SEQ, batch=3).T
    right = expected.loss.sequence_loss(logits, targets, 2)
    agree(submission.loss.sequence_loss(logits, targets, 2), right, "of a transposed view the loss")


@exercise("6.5")
def test_the_padding_id_may_lie_outside_the_vocabulary(submission, expected, draw):
    logits, targets = draw_logits(draw), draw_targets(draw, pad_id=0)
    targets[targets == 0] = -100
    right = expected.loss.sequence_loss(logits, targets, -100, smoothing=0.1)
    loss = submission.loss.sequence_loss(logits, targets, -100, smoothing=0.1)
    agree(loss, right, "for padding with -100 the loss")


@exercise("6.5")
def test_very_large_logits_give_a_finite_loss(submission, expected, draw):
    logits, targets = draw_logits(draw, torch.float32, scale=1e4), draw_targets(draw)
    right = expected.loss.sequence_loss(logits, targets, -1, smoothing=0.1)
    loss = submission.loss.sequence_loss(logits, targets, -1, smoothing=0.1)
    finite(loss, "at logits of 1e4 the loss")
    agree(loss, right, "at logits of 1e4 the loss")


@exercise("6.5")
def test_gradients_reach_the_logits_of_words(submission, expected, draw):
    logits, targets = draw_logits(draw), draw_targets(draw, pad_id=5)
    gradients_agree(
        submission.loss.sequence_loss,
        expected.loss.sequence_loss,
        logits, targets, 5, 0.1,
        names=("logits",),
    )  # fmt: skip


@guard("6.5")
def test_nothing_but_padding_costs_nothing(submission, draw):
    logits = draw_logits(draw)
    targets = torch.full((3, SEQ), 2, device=logits.device)
    loss = submission.loss.sequence_loss(logits, targets, 2)
    agree(loss, 0.0, "of a batch of nothing but padding the loss")


@guard("6.5")
def test_logits_and_targets_are_left_alone(submission, draw):
    logits, targets = draw_logits(draw), draw_targets(draw, pad_id=5)
    leaves_inputs_alone(
        submission.loss.sequence_loss, logits, targets, 5, 0.1, names=("logits", "targets")
    )


@guard("6.5")
def test_the_loss_keeps_the_dtype_of_the_logits(submission, draw):
    targets = draw_targets(draw, pad_id=5)
    for dtype in (torch.float32, torch.float64):
        loss = submission.loss.sequence_loss(draw_logits(draw, dtype), targets, 5)
        keeps_dtype(loss, dtype, "the loss")


# 6.6 The decoder-only block


def blocks(submission, expected, draw, norm_first=True):
    """Make the block under test and the right one, with the same parameters in double precision."""
    right = expected.decoder.CausalBlock(D_MODEL, HEADS, D_FF, norm_first)
    right.double()
    state = draw.state(right)
    right.load_state_dict(state)
    mine = submission.decoder.CausalBlock(D_MODEL, HEADS, D_FF, norm_first)
    mine.double()
    mine.load_state_dict(state)
    return mine, right


def draw_x(draw, seq=SEQ):
    return draw.normal(batch=BATCH, seq=seq, d_model=D_MODEL, dtype=torch.float64)


def draw_padding(draw):
    """Hide some keys of each sentence, never the first one."""
    mask = draw.mask(batch=BATCH, heads=1, query=1, key=SEQ)
    mask[..., 0] = True
    mask[..., 2] = False
    return mask


@exercise("6.6")
def test_the_block_follows_the_pre_norm_recipe(submission, expected, draw):
    mine, right = blocks(submission, expected, draw)
    x = draw_x(draw)
    wanted = right(x)
    agree(mine(x), wanted, "the output", "batch seq d_model")


@exercise("6.6")
def test_the_block_follows_the_post_norm_recipe(submission, expected, draw):
    mine, right = blocks(submission, expected, draw, norm_first=False)
    x = draw_x(draw)
    wanted = right(x)
    agree(mine(x), wanted, "with norm_first=False the output", "batch seq d_model")


@exercise("6.6")
def test_pre_norm_is_the_default_and_single_precision_works(submission, expected, draw):
    right = expected.decoder.CausalBlock(D_MODEL, HEADS, D_FF)
    state = draw.state(right)
    right.load_state_dict(state)
    x = draw.normal(batch=3, seq=SEQ, d_model=D_MODEL)
    wanted = right(x)
    mine = submission.decoder.CausalBlock(D_MODEL, HEADS, D_FF)
    mine.load_state_dict(state)
    output = mine(x)
    keeps_dtype(output, torch.float32, "the output")
    agree(output, wanted, "in single precision the output", "batch seq d_model")


@exercise("6.6")
def test_a_future_word_changes_no_earlier_output(submission, expected, draw):
    mine, right = blocks(submission, expected, draw)
    x, other, t = draw_x(draw), draw_x(draw), draw.number(2, SEQ)
    wanted = right(x)
    changed = torch.cat([x[:, :t], other[:, t:]], dim=1)
    output = mine(changed)
    agree(output[:, :t], wanted[:, :t], "with other words to come the output", "batch seq d_model")


@exercise("6.6")
def test_the_padding_mask_hides_keys_on_top_of_the_future(submission, expected, draw):
    for norm_first in (True, False):
        mine, right = blocks(submission, expected, draw, norm_first)
        x, mask = draw_x(draw), draw_padding(draw)
        wanted = right(x, mask)
        agree(mine(x, mask), wanted, "under a padding mask the output", "batch seq d_model")


@exercise("6.6")
def test_what_stands_at_padding_changes_nothing_elsewhere(submission, expected, draw):
    mine, right = blocks(submission, expected, draw)
    x, other, mask = draw_x(draw), draw_x(draw), draw_padding(draw)
    wanted = right(x, mask)
    real = mask[:, 0, 0]
    output = mine(x.where(real[..., None], other), mask)
    agree(output[real], wanted[real], "with other vectors at padding the output", "word d_model")


@exercise("6.6")
def test_a_mask_of_queries_and_keys_broadcasts_over_heads(submission, expected, draw):
    mine, right = blocks(submission, expected, draw)
    x = draw_x(draw)
    square = draw.mask(query=SEQ, key=SEQ)
    full = draw.mask(batch=BATCH, heads=HEADS, query=SEQ, key=SEQ)
    square[:, 0] = full[..., 0] = True
    wanted = right(x, square), right(x, full)
    output = mine(x, square), mine(x, full)
    agree(output[0], wanted[0], "under a mask (seq, seq) the output", "batch seq d_model")
    agree(output[1], wanted[1], "under a mask (batch, heads, seq, seq) the output", "batch seq d_model")


@exercise("6.6")
def test_a_mask_that_allows_everything_does_not_open_the_future(submission, expected, draw):
    mine, right = blocks(submission, expected, draw)
    x = draw_x(draw)
    wanted = right(x)
    everything = torch.ones(BATCH, 1, 1, SEQ, dtype=torch.bool, device=x.device)
    output = mine(x, everything)
    agree(output, wanted, "under a mask that allows everything the output", "batch seq d_model")


@exercise("6.6")
def test_a_sentence_that_begins_with_padding_stays_finite(submission, expected, draw):
    mine, right = blocks(submission, expected, draw)
    x = draw_x(draw)
    mask = torch.ones(BATCH, 1, 1, SEQ, dtype=torch.bool, device=x.device)
    mask[1, ..., :2] = False
    wanted = right(x, mask)
    output = mine(x, mask)
    finite(output, "with padding at the beginning the output")
    agree(output, wanted, "with padding at the beginning the output", "batch seq d_model")


@exercise("6.6")
def test_one_block_takes_texts_of_any_length(submission, expected, draw):
    mine, right = blocks(submission, expected, draw)
    single, long = draw_x(draw, seq=1), draw_x(draw, seq=8)
    wanted = right(single), right(long)
    output = mine(single), mine(long)
    agree(output[0], wanted[0], "for a single word the output", "batch seq d_model")
    agree(output[1], wanted[1], "for eight words the output", "batch seq d_model")


@exercise("6.6")
def test_gradients_reach_the_input_and_every_parameter(submission, expected, draw):
    for norm_first in (True, False):
        mine, right = blocks(submission, expected, draw, norm_first)
        x, mask = draw_x(draw), draw_padding(draw)
        gradients_agree(mine, right, x, mask, names=("x",))


@guard("6.6")
def test_x_and_mask_are_left_alone(submission, expected, draw):
    mine, _ = blocks(submission, expected, draw)
    # A mask of the size of the causal one: only such a mask could be combined with it in place.
    x, mask = draw_x(draw), draw_padding(draw).repeat(1, 1, SEQ, 1)
    leaves_inputs_alone(mine, x, mask, names=("x", "mask"))
