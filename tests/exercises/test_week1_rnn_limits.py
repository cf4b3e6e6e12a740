"""Week 1: words as numbers, one step after the other, and gradients that fade or explode."""

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

# Sizes never coincide: an exchanged axis cannot go unnoticed. Where a test makes two of them equal, it
# does so to see an exchange that would otherwise only be an error.
BATCH, GROUP, SEQ, VOCAB, D_MODEL = 2, 3, 5, 7, 8
D_IN, D_HIDDEN, D_NARROW = 4, 6, 3
CELL = ("x", "h", "w_x", "w_h", "b")
FORWARD = ("xs", "h0", "w_x", "w_h", "b")


# 1.1 one_hot


@exercise("1.1")
def test_every_token_of_a_batch_gets_a_one_at_its_place(submission, expected, draw):
    tokens = draw.integers(0, VOCAB, batch=BATCH, seq=SEQ)
    right = expected.embedding.one_hot(tokens, VOCAB)
    agree(submission.embedding.one_hot(tokens, VOCAB), right, "the entry", "batch seq vocab")


@exercise("1.1")
def test_the_first_and_the_last_word_of_the_vocabulary_have_a_place(submission, device):
    tokens = torch.tensor([0, 3, 0], device=device)
    rows = submission.embedding.one_hot(tokens, 4)
    agree(
        rows,
        torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]]),
        "for the tokens 0, 3, 0 of a vocabulary of 4 the entry",
        "seq vocab",
    )


@exercise("1.1")
def test_one_sentence_without_a_batch_axis_works(submission, expected, draw):
    tokens = draw.integers(0, VOCAB, seq=SEQ)
    right = expected.embedding.one_hot(tokens, VOCAB)
    agree(submission.embedding.one_hot(tokens, VOCAB), right, "the entry", "seq vocab")


@exercise("1.1")
def test_a_single_token_without_any_axis_gets_one_row(submission, expected, draw):
    token = draw.integers(1, VOCAB)
    right = expected.embedding.one_hot(token, VOCAB)
    agree(submission.embedding.one_hot(token, VOCAB), right, "for a single token the entry", "vocab")


@exercise("1.1")
def test_any_number_of_axes_is_kept_before_the_new_one(submission, expected, draw):
    tokens = draw.integers(0, VOCAB, batch=BATCH, group=GROUP, seq=SEQ)
    right = expected.embedding.one_hot(tokens, VOCAB)
    agree(submission.embedding.one_hot(tokens, VOCAB), right, "the entry", "batch group seq vocab")


@exercise("1.1")
def test_the_rows_are_as_wide_as_the_vocabulary_when_its_last_words_are_absent(
    submission, expected, draw
):
    # A batch of one: its axis stays, too.
    tokens = draw.integers(0, 4, batch=1, seq=SEQ)
    right = expected.embedding.one_hot(tokens, 11)
    rows = submission.embedding.one_hot(tokens, 11)
    agree(rows, right, "with a vocabulary of 11 words the entry", "batch seq vocab")


@exercise("1.1")
def test_with_as_many_tokens_as_words_the_axes_keep_their_order(submission, expected, draw):
    tokens = draw.integers(0, SEQ, batch=BATCH, seq=SEQ)
    right = expected.embedding.one_hot(tokens, SEQ)
    rows = submission.embedding.one_hot(tokens, SEQ)
    agree(rows, right, "with as many tokens as words the entry", "batch seq vocab")


@exercise("1.1")
def test_every_row_sums_to_one(submission, draw):
    tokens = draw.integers(0, VOCAB, batch=BATCH, seq=SEQ)
    rows = submission.embedding.one_hot(tokens, VOCAB)
    agree(rows.sum(dim=-1), 1.0, "the sum of a row", "batch seq")


@exercise("1.1")
def test_the_largest_entry_of_a_row_stands_at_the_token(submission, draw):
    tokens = draw.integers(0, VOCAB, batch=BATCH, seq=SEQ)
    rows = submission.embedding.one_hot(tokens, VOCAB)
    require(rows.ndim == 3, f"the rows should have the axes batch, seq, vocab, they have {rows.ndim}")
    same_items(rows.argmax(dim=-1), tokens, "the place of the largest entry")


@exercise("1.1")
def test_tokens_that_come_out_of_a_transpose_are_welcome(submission, expected, draw):
    tokens = draw.integers(0, VOCAB, seq=SEQ, batch=BATCH).T
    right = expected.embedding.one_hot(tokens, VOCAB)
    rows = submission.embedding.one_hot(tokens, VOCAB)
    agree(rows, right, "for transposed tokens the entry", "batch seq vocab")


@guard("1.1")
def test_the_tokens_are_left_alone(submission, draw):
    tokens = draw.integers(0, VOCAB, batch=BATCH, seq=SEQ)
    leaves_inputs_alone(submission.embedding.one_hot, tokens, VOCAB, names=("tokens",))


@guard("1.1")
def test_the_rows_have_the_default_floating_point_dtype(submission, draw):
    tokens = draw.integers(0, VOCAB, batch=BATCH, seq=SEQ)
    rows = submission.embedding.one_hot(tokens, VOCAB)
    require(
        rows.dtype == torch.float32,
        f"the rows should be torch.float32, the default dtype, they are {rows.dtype}",
    )


# 1.2 embed


def draw_table(draw, dtype=torch.float32, scale=1.0, d_model=D_MODEL):
    return draw.normal(vocab=VOCAB, d_model=d_model, dtype=dtype, scale=scale)


@exercise("1.2")
def test_every_token_of_a_batch_gets_its_row_of_the_table(submission, expected, draw):
    tokens, table = draw.integers(0, VOCAB, batch=BATCH, seq=SEQ), draw_table(draw)
    rows = expected.embedding.one_hot(tokens, VOCAB)
    right = expected.embedding.embed(rows, table)
    agree(submission.embedding.embed(rows, table), right, "the embedding", "batch seq d_model")


@exercise("1.2")
def test_the_second_word_of_a_small_table_is_its_second_row(submission, device):
    table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], device=device)
    row = torch.tensor([[0.0, 1.0, 0.0]], device=device)
    agree(submission.embedding.embed(row, table), torch.tensor([[3.0, 4.0]]), "the embedding", "seq d")


@exercise("1.2")
def test_a_single_row_gives_a_single_embedding(submission, expected, draw):
    token, table = draw.integers(0, VOCAB), draw_table(draw)
    row = expected.embedding.one_hot(token, VOCAB)
    right = expected.embedding.embed(row, table)
    agree(submission.embedding.embed(row, table), right, "the embedding of a single row", "d_model")


@exercise("1.2")
def test_one_sentence_without_a_batch_axis_is_embedded(submission, expected, draw):
    tokens, table = draw.integers(0, VOCAB, seq=SEQ), draw_table(draw)
    rows = expected.embedding.one_hot(tokens, VOCAB)
    right = expected.embedding.embed(rows, table)
    agree(submission.embedding.embed(rows, table), right, "the embedding", "seq d_model")


@exercise("1.2")
def test_any_number_of_axes_is_embedded(submission, expected, draw):
    tokens = draw.integers(0, VOCAB, batch=BATCH, group=GROUP, seq=SEQ)
    table = draw_table(draw)
    rows = expected.embedding.one_hot(tokens, VOCAB)
    right = expected.embedding.embed(rows, table)
    agree(submission.embedding.embed(rows, table), right, "the embedding", "batch group seq d_model")


@exercise("1.2")
def test_rows_not_columns_are_taken_from_a_square_table(submission, expected, draw):
    tokens, table = draw.integers(0, VOCAB, batch=BATCH, seq=SEQ), draw_table(draw, d_model=VOCAB)
    rows = expected.embedding.one_hot(tokens, VOCAB)
    right = expected.embedding.embed(rows, table)
    embedded = submission.embedding.embed(rows, table)
    agree(embedded, right, "with a square table the embedding", "batch seq d_model")


@exercise("1.2")
def test_a_mixture_of_words_gets_the_mixture_of_their_embeddings(submission, expected, draw):
    mixture = draw.normal(batch=BATCH, seq=SEQ, vocab=VOCAB, dtype=torch.float64)
    table = draw_table(draw, torch.float64)
    right = expected.embedding.embed(mixture, table)
    embedded = submission.embedding.embed(mixture, table)
    agree(embedded, right, "for rows that mix several words the embedding", "batch seq d_model")


@exercise("1.2")
def test_a_transposed_table_with_large_numbers_is_looked_up(submission, expected, draw):
    tokens = draw.integers(0, VOCAB, batch=BATCH, seq=SEQ)
    table = draw.normal(d_model=D_MODEL, vocab=VOCAB, scale=1e4).T
    rows = expected.embedding.one_hot(tokens, VOCAB)
    right = expected.embedding.embed(rows, table)
    agree(submission.embedding.embed(rows, table), right, "the embedding", "batch seq d_model")


@exercise("1.2")
def test_all_digits_of_a_double_precision_table_are_kept(submission, expected, draw):
    mixture = draw.normal(batch=BATCH, seq=SEQ, vocab=VOCAB, dtype=torch.float64)
    table = draw_table(draw, torch.float64)
    right = expected.embedding.embed(mixture, table)

    def exact(embedded):
        return bool(((embedded - right).abs() <= 1e-11).all())

    embedded = submission.embedding.embed.seen_as(exact, 0.0)(mixture, table)
    what = "in double precision, to eleven places, the embedding"
    agree(embedded, right, what, "batch seq d_model", rel=0.0, abs=1e-11)


@exercise("1.2")
def test_gradients_reach_the_rows_and_the_table(submission, expected, draw):
    rows = draw.normal(batch=BATCH, seq=SEQ, vocab=VOCAB, dtype=torch.float64)
    table = draw_table(draw, torch.float64)
    gradients_agree(
        submission.embedding.embed,
        expected.embedding.embed,
        rows, table,
        names=("one_hot_tokens", "table"),
    )  # fmt: skip


@guard("1.2")
def test_rows_and_table_are_left_alone(submission, draw):
    rows = draw.normal(batch=BATCH, seq=SEQ, vocab=VOCAB)
    leaves_inputs_alone(
        submission.embedding.embed, rows, draw_table(draw), names=("one_hot_tokens", "table")
    )


@guard("1.2")
def test_embeddings_have_the_dtype_of_the_table(submission, draw):
    for dtype in (torch.float32, torch.float64):
        rows = draw.normal(batch=BATCH, seq=SEQ, vocab=VOCAB, dtype=dtype)
        table = draw_table(draw, dtype)
        keeps_dtype(submission.embedding.embed(rows, table), dtype, "the embedding")


# 1.3 rnn_cell


def draw_weights(draw, dtype=torch.float32, scale=0.5, d_in=D_IN):
    return (
        draw.normal(d_in=d_in, d_hidden=D_HIDDEN, dtype=dtype, scale=scale),
        draw.normal(d_hidden=D_HIDDEN, d_hidden_too=D_HIDDEN, dtype=dtype, scale=scale),
        draw.normal(d_hidden=D_HIDDEN, dtype=dtype, scale=scale),
    )


def draw_cell(draw, dtype=torch.float32, d_in=D_IN, **axes):
    x = draw.normal(**axes, d_in=d_in, dtype=dtype)
    h = draw.normal(**axes, d_hidden=D_HIDDEN, dtype=dtype)
    return x, h, *draw_weights(draw, dtype, d_in=d_in)


@exercise("1.3")
def test_a_step_mixes_input_state_and_bias(submission, expected, draw):
    arguments = draw_cell(draw, batch=BATCH)
    right = expected.rnn.rnn_cell(*arguments)
    agree(submission.rnn.rnn_cell(*arguments), right, "the new state", "batch d_hidden")


@exercise("1.3")
def test_a_step_works_without_a_batch_axis(submission, expected, draw):
    arguments = draw_cell(draw)
    right = expected.rnn.rnn_cell(*arguments)
    agree(submission.rnn.rnn_cell(*arguments), right, "the new state", "d_hidden")


@exercise("1.3")
def test_a_step_works_with_any_number_of_leading_axes(submission, expected, draw):
    arguments = draw_cell(draw, batch=BATCH, group=GROUP, seq=SEQ)
    right = expected.rnn.rnn_cell(*arguments)
    agree(submission.rnn.rnn_cell(*arguments), right, "the new state", "batch group seq d_hidden")


@exercise("1.3")
def test_each_weight_belongs_to_its_own_vector_when_both_are_equally_wide(submission, expected, draw):
    arguments = draw_cell(draw, d_in=D_HIDDEN, batch=BATCH)
    right = expected.rnn.rnn_cell(*arguments)
    new = submission.rnn.rnn_cell(*arguments)
    agree(new, right, "with input and state of one width the new state", "batch d_hidden")


@exercise("1.3")
def test_the_bias_alone_gives_the_numbers_worked_out_by_hand(submission, device):
    def nothing(*shape):
        return torch.zeros(shape, device=device)

    b = torch.tensor([math.log(2), math.log(3)], device=device)
    new = submission.rnn.rnn_cell(nothing(1, 3), nothing(1, 2), nothing(3, 2), nothing(2, 2), b)
    agree(
        new,
        torch.tensor([[0.6, 0.8]]),
        "for a bias of ln 2 and ln 3, and zeros else, the new state",
        "batch d_hidden",
    )


@exercise("1.3")
def test_the_old_state_alone_makes_a_new_one(submission, expected, draw):
    x, h, w_x, w_h, b = draw_cell(draw, torch.float64, batch=BATCH)
    right = expected.rnn.rnn_cell(x * 0, h, w_x, w_h, b * 0)
    new = submission.rnn.rnn_cell(x * 0, h, w_x, w_h, b * 0)
    agree(new, right, "without input and bias the new state", "batch d_hidden")


@exercise("1.3")
def test_the_input_alone_makes_a_new_state(submission, expected, draw):
    x, h, w_x, w_h, b = draw_cell(draw, torch.float64, batch=BATCH)
    right = expected.rnn.rnn_cell(x, h * 0, w_x, w_h, b * 0)
    new = submission.rnn.rnn_cell(x, h * 0, w_x, w_h, b * 0)
    agree(new, right, "from an empty state and without bias the new state", "batch d_hidden")


@guard("1.3")
def test_turning_all_signs_turns_the_sign_of_the_state(submission, draw):
    x, h, w_x, w_h, b = draw_cell(draw, torch.float64, batch=BATCH)
    new = submission.rnn.rnn_cell(x, h, w_x, w_h, b)
    turned = submission.rnn.rnn_cell(-x, -h, w_x, w_h, -b)
    require(bool(new.any()), "the new state is zero everywhere")
    agree(turned, -new, "with all signs turned the new state", "batch d_hidden")


@exercise("1.3")
def test_large_inputs_leave_the_state_between_minus_one_and_one(submission, expected, draw):
    x, h, w_x, w_h, b = draw_cell(draw, batch=BATCH)
    right = expected.rnn.rnn_cell(x * 1e4, h, w_x, w_h, b)
    new = submission.rnn.rnn_cell(x * 1e4, h, w_x, w_h, b)
    finite(new, "for inputs of 1e4 the new state")
    agree(new, right, "for inputs of 1e4 the new state", "batch d_hidden")


@exercise("1.3")
def test_gradients_reach_everything_a_step_depends_on(submission, expected, draw):
    arguments = draw_cell(draw, torch.float64, batch=BATCH)
    gradients_agree(submission.rnn.rnn_cell, expected.rnn.rnn_cell, *arguments, names=CELL)


@guard("1.3")
def test_a_step_leaves_its_inputs_alone(submission, draw):
    leaves_inputs_alone(submission.rnn.rnn_cell, *draw_cell(draw, batch=BATCH), names=CELL)


@guard("1.3")
def test_a_step_keeps_the_dtype(submission, draw):
    for dtype in (torch.float32, torch.float64):
        arguments = draw_cell(draw, dtype, batch=BATCH)
        keeps_dtype(submission.rnn.rnn_cell(*arguments), dtype, "the new state")


# 1.4 rnn_forward


def draw_forward(draw, dtype=torch.float32, seq=SEQ, **axes):
    xs = draw.normal(**axes, seq=seq, d_in=D_IN, dtype=dtype)
    h0 = draw.normal(**axes, d_hidden=D_HIDDEN, dtype=dtype)
    return xs, h0, *draw_weights(draw, dtype)


@exercise("1.4")
def test_states_and_last_state_of_a_batch(submission, expected, draw):
    arguments = draw_forward(draw, batch=BATCH)
    right_states, right_last = expected.rnn.rnn_forward(*arguments)
    states, last = submission.rnn.rnn_forward(*arguments)
    agree(states, right_states, "the state", "batch seq d_hidden")
    agree(last, right_last, "the last state", "batch d_hidden")


@exercise("1.4")
def test_a_single_sentence_runs_without_a_batch_axis(submission, expected, draw):
    arguments = draw_forward(draw)
    right_states, right_last = expected.rnn.rnn_forward(*arguments)
    states, last = submission.rnn.rnn_forward(*arguments)
    agree(states, right_states, "the state", "seq d_hidden")
    agree(last, right_last, "the last state", "d_hidden")


@exercise("1.4")
def test_sentences_run_along_the_seq_axis_with_any_number_of_leading_axes(submission, expected, draw):
    arguments = draw_forward(draw, batch=BATCH, group=GROUP)
    right_states, right_last = expected.rnn.rnn_forward(*arguments)
    states, last = submission.rnn.rnn_forward(*arguments)
    agree(states, right_states, "the state", "batch group seq d_hidden")
    agree(last, right_last, "the last state", "batch group d_hidden")


@exercise("1.4")
def test_a_sentence_of_one_word_is_one_step(submission, expected, draw):
    arguments = draw_forward(draw, seq=1, batch=BATCH)
    right_states, right_last = expected.rnn.rnn_forward(*arguments)
    states, last = submission.rnn.rnn_forward(*arguments)
    agree(states, right_states, "the only state", "batch seq d_hidden")
    agree(last, right_last, "after one word the last state", "batch d_hidden")


@exercise("1.4")
def test_as_many_sentences_as_words_keep_their_axes(submission, expected, draw):
    arguments = draw_forward(draw, batch=SEQ)
    right_states, right_last = expected.rnn.rnn_forward(*arguments)
    states, last = submission.rnn.rnn_forward(*arguments)
    agree(states, right_states, "with as many sentences as words the state", "batch seq d_hidden")
    agree(last, right_last, "with as many sentences as words the last state", "batch d_hidden")


@guard("1.4")
def test_the_last_state_is_the_one_at_the_end_of_the_states(submission, draw):
    states, last = submission.rnn.rnn_forward(*draw_forward(draw, torch.float64, batch=BATCH))
    require(bool(last.any()), "the last state is zero everywhere")
    agree(last, states[..., -1, :], "the last state", "batch d_hidden")


@exercise("1.4")
def test_a_later_word_changes_no_earlier_state(submission, expected, draw):
    xs, h0, *weights = draw_forward(draw, torch.float64, batch=BATCH)
    other = xs.clone()
    other[:, 3:] += 1.0
    right_states, _ = expected.rnn.rnn_forward(other, h0, *weights)
    before, _ = submission.rnn.rnn_forward(xs, h0, *weights)
    after, _ = submission.rnn.rnn_forward(other, h0, *weights)
    agree(after[:, :3], before[:, :3], "after a change at step 3 the state", "batch seq d_hidden")
    agree(after, right_states, "after a change at step 3 the state", "batch seq d_hidden")


@guard("1.4")
def test_a_sentence_in_two_parts_ends_in_the_same_states(submission, draw):
    xs, h0, *weights = draw_forward(draw, torch.float64, batch=BATCH)
    states, last = submission.rnn.rnn_forward(xs, h0, *weights)
    _, middle = submission.rnn.rnn_forward(xs[:, :2], h0, *weights)
    rest, end = submission.rnn.rnn_forward(xs[:, 2:], middle, *weights)
    require(bool(end.any()), "the last state is zero everywhere")
    agree(rest, states[:, 2:], "when the run is taken up again at step 2, the state", "batch seq d")
    agree(end, last, "when the run is taken up again at step 2, the last state", "batch d_hidden")


@exercise("1.4")
def test_the_first_state_starts_from_h0(submission, expected, draw):
    xs, h0, *weights = draw_forward(draw, torch.float64, batch=BATCH)
    right_states, _ = expected.rnn.rnn_forward(xs * 0, h0, *weights)
    states, _ = submission.rnn.rnn_forward(xs * 0, h0, *weights)
    agree(states, right_states, "without inputs the state", "batch seq d_hidden")


@exercise("1.4")
def test_large_inputs_that_come_out_of_a_transpose_stay_finite(submission, expected, draw):
    xs = draw.normal(seq=SEQ, batch=BATCH, d_in=D_IN, scale=1e4).transpose(0, 1)
    h0 = draw.normal(batch=BATCH, d_hidden=D_HIDDEN)
    weights = draw_weights(draw)
    right_states, right_last = expected.rnn.rnn_forward(xs, h0, *weights)
    states, last = submission.rnn.rnn_forward(xs, h0, *weights)
    agree(states, right_states, "for inputs of 1e4 the state", "batch seq d_hidden")
    agree(last, right_last, "for inputs of 1e4 the last state", "batch d_hidden")


@exercise("1.4")
def test_gradients_reach_back_to_the_first_word_and_h0(submission, expected, draw):
    arguments = draw_forward(draw, torch.float64, batch=BATCH)
    gradients_agree(submission.rnn.rnn_forward, expected.rnn.rnn_forward, *arguments, names=FORWARD)


@guard("1.4")
def test_a_run_leaves_its_inputs_alone(submission, draw):
    leaves_inputs_alone(submission.rnn.rnn_forward, *draw_forward(draw, batch=BATCH), names=FORWARD)


@guard("1.4")
def test_a_run_keeps_the_dtype(submission, draw):
    for dtype in (torch.float32, torch.float64):
        states, last = submission.rnn.rnn_forward(*draw_forward(draw, dtype, batch=BATCH))
        keeps_dtype(states, dtype, "the states")
        keeps_dtype(last, dtype, "the last state")


# 1.5 gradient_by_distance


def draw_inputs(draw, dtype=torch.float64, seq=SEQ, d_in=D_NARROW, **axes):
    return draw.normal(**axes, seq=seq, d_in=d_in, dtype=dtype).requires_grad_()


def draw_memory(draw, dtype=torch.float64, seq=SEQ, d_in=D_NARROW):
    """Draw how much each state keeps of each earlier input, and how features are mixed."""
    kept = draw.normal(seq=seq, seq_too=seq, dtype=dtype)
    return kept, draw.normal(d_in=d_in, d_hidden=D_HIDDEN, dtype=dtype)


def remember(inputs, kept, mix):
    """Make states that depend on the inputs up to their own step, and on no other sentence."""
    return (kept.tril() @ inputs.sin() @ mix).sigmoid()


def fade(inputs, rate):
    """Make states that keep the fraction `rate` of the input one step before, and so on."""
    steps = torch.arange(inputs.shape[-2], device=inputs.device, dtype=inputs.dtype)
    return (rate ** (steps[:, None] - steps)).tril() @ inputs


@exercise("1.5")
def test_the_gradient_norm_is_measured_for_every_step_of_every_sentence(submission, expected, draw):
    inputs, memory = draw_inputs(draw, batch=BATCH), draw_memory(draw)
    right = expected.rnn.gradient_by_distance(remember(inputs, *memory), inputs)
    norms = submission.rnn.gradient_by_distance(remember(inputs, *memory), inputs)
    agree(norms, right, "the gradient norm", "batch seq")


@exercise("1.5")
def test_single_precision_is_enough(submission, expected, draw):
    inputs = draw_inputs(draw, torch.float32, batch=BATCH)
    memory = draw_memory(draw, torch.float32)
    right = expected.rnn.gradient_by_distance(remember(inputs, *memory), inputs)
    norms = submission.rnn.gradient_by_distance(remember(inputs, *memory), inputs)
    agree(norms, right, "the gradient norm", "batch seq")


@exercise("1.5")
def test_the_gradient_norm_of_one_sentence_needs_no_batch_axis(submission, expected, draw):
    inputs, memory = draw_inputs(draw), draw_memory(draw)
    right = expected.rnn.gradient_by_distance(remember(inputs, *memory), inputs)
    norms = submission.rnn.gradient_by_distance(remember(inputs, *memory), inputs)
    agree(norms, right, "the gradient norm", "seq")


@exercise("1.5")
def test_the_gradient_norm_takes_any_number_of_leading_axes(submission, expected, draw):
    inputs = draw_inputs(draw, d_in=D_IN, batch=BATCH, group=GROUP)
    memory = draw_memory(draw, d_in=D_IN)
    right = expected.rnn.gradient_by_distance(remember(inputs, *memory), inputs)
    norms = submission.rnn.gradient_by_distance(remember(inputs, *memory), inputs)
    agree(norms, right, "the gradient norm", "batch group seq")


@exercise("1.5")
def test_a_sentence_of_one_word_has_one_gradient_norm(submission, expected, draw):
    inputs, memory = draw_inputs(draw, seq=1, batch=BATCH), draw_memory(draw, seq=1)
    right = expected.rnn.gradient_by_distance(remember(inputs, *memory), inputs)
    norms = submission.rnn.gradient_by_distance(remember(inputs, *memory), inputs)
    agree(norms, right, "the gradient norm of a single word", "batch seq")


@exercise("1.5")
def test_equal_sizes_do_not_hide_an_exchanged_axis(submission, expected, draw):
    inputs = draw_inputs(draw, seq=SEQ, d_in=SEQ, batch=SEQ)
    memory = draw_memory(draw, d_in=SEQ)
    right = expected.rnn.gradient_by_distance(remember(inputs, *memory), inputs)
    norms = submission.rnn.gradient_by_distance(remember(inputs, *memory), inputs)
    agree(norms, right, "with as many sentences as words the gradient norm", "batch seq")


@exercise("1.5")
def test_a_memory_that_halves_at_every_step_halves_the_gradient(submission, draw):
    inputs = draw_inputs(draw, d_in=4, batch=BATCH)
    norms = submission.rnn.gradient_by_distance(fade(inputs, 0.5), inputs)
    # The last state holds each of its four inputs as they are, so the norm begins at the root of 4.
    right = torch.tensor([0.125, 0.25, 0.5, 1.0, 2.0], dtype=torch.float64).expand(BATCH, SEQ)
    agree(norms, right, "where each step keeps half, the gradient norm", "batch seq")


@exercise("1.5")
def test_exploding_gradients_are_measured_too(submission, draw):
    inputs = draw_inputs(draw, d_in=4, batch=BATCH)
    norms = submission.rnn.gradient_by_distance(fade(inputs, 10.0), inputs)
    right = torch.tensor([2e4, 2e3, 2e2, 2e1, 2.0], dtype=torch.float64).expand(BATCH, SEQ)
    agree(norms, right, "where each step multiplies by ten, the gradient norm", "batch seq")


@exercise("1.5")
def test_a_forgotten_word_has_gradient_zero(submission, expected, draw):
    inputs, (kept, mix) = draw_inputs(draw, batch=BATCH), draw_memory(draw)
    kept[-1, 1] = 0.0
    right = expected.rnn.gradient_by_distance(remember(inputs, kept, mix), inputs)
    norms = submission.rnn.gradient_by_distance(remember(inputs, kept, mix), inputs)
    agree(norms[..., 1], 0.0, "the gradient norm of a word that the last state forgot", "batch")
    agree(norms, right, "beside a forgotten word the gradient norm", "batch seq")


@exercise("1.5")
def test_all_units_of_the_last_state_count_and_none_cancels_another(submission, draw):
    inputs = draw_inputs(draw, d_in=4, batch=BATCH)
    # Two units that move against each other: their sum stands still, each of them does not.
    opposed = torch.cat([fade(inputs, 0.5), -fade(inputs, 0.5)], dim=-1)
    norms = submission.rnn.gradient_by_distance(opposed, inputs)
    right = torch.tensor([0.125, 0.25, 0.5, 1.0, 2.0], dtype=torch.float64).expand(BATCH, SEQ)
    agree(norms, right * math.sqrt(2), "with units of opposite sign the gradient norm", "batch seq")


@guard("1.5")
def test_measuring_leaves_states_and_inputs_alone(submission, draw):
    inputs, memory = draw_inputs(draw, batch=BATCH), draw_memory(draw)
    leaves_inputs_alone(
        submission.rnn.gradient_by_distance,
        remember(inputs, *memory),
        inputs,
        names=("states", "inputs"),
    )


@guard("1.5")
def test_gradient_norms_keep_the_dtype(submission, draw):
    for dtype in (torch.float32, torch.float64):
        inputs, memory = draw_inputs(draw, dtype, batch=BATCH), draw_memory(draw, dtype)
        norms = submission.rnn.gradient_by_distance(remember(inputs, *memory), inputs)
        keeps_dtype(norms, dtype, "the gradient norm")


# 1.6 clip_gradients


def draw_gradients(draw, dtype=torch.float32, scale=1.0):
    """Draw gradients of different shapes: a matrix, a bias, a tensor of three axes, a number."""
    return [
        draw.normal(d_in=D_IN, d_hidden=D_HIDDEN, dtype=dtype, scale=scale),
        draw.normal(d_hidden=D_HIDDEN, dtype=dtype, scale=scale),
        draw.normal(batch=BATCH, seq=SEQ, d_model=D_MODEL, dtype=dtype, scale=scale),
        draw.normal(dtype=dtype, scale=scale),
    ]


def make_gradients(draw, device):
    """Make gradients whose norm is known: a multiple of 3, 4 and 12 has that multiple of 13."""
    size = float(draw.number(2, 9))
    matrix = torch.tensor([[3.0, 0.0, 0.0], [0.0, -4.0, 0.0]], dtype=torch.float64, device=device)
    bias = torch.tensor([0.0, 12.0], dtype=torch.float64, device=device)
    return [size * matrix, size * bias], size


def agree_all(clipped, right, what):
    came, wanted = len(clipped), len(right)
    require(came == wanted, f"{wanted} gradients went in, so {wanted} should come out, not {came}")
    for i, (mine, its) in enumerate(zip(clipped, right, strict=True)):
        agree(mine, its, f"{what} gradient {i}", " ".join(f"axis{n}" for n in range(its.ndim)))


@exercise("1.6")
def test_gradients_above_the_limit_are_shrunk(submission, expected, draw):
    gradients = draw_gradients(draw)
    right = expected.rnn.clip_gradients(gradients, 1.5)
    agree_all(submission.rnn.clip_gradients(gradients, 1.5), right, "clipped to 1.5,")


@exercise("1.6")
def test_a_norm_of_13_is_halved_to_6_and_a_half(submission, draw, device):
    gradients, size = make_gradients(draw, device)
    clipped = submission.rnn.clip_gradients(gradients, 6.5 * size)
    agree_all(clipped, [g / 2 for g in gradients], "clipped to half of its norm,")


@guard("1.6")
def test_a_limit_just_above_the_norm_changes_nothing(submission, draw, device):
    gradients, size = make_gradients(draw, device)
    clipped = submission.rnn.clip_gradients(gradients, 13.5 * size)
    agree_all(clipped, gradients, "with a norm just below the limit,")


@exercise("1.6")
def test_a_limit_just_below_the_norm_already_shrinks(submission, draw, device):
    gradients, size = make_gradients(draw, device)
    clipped = submission.rnn.clip_gradients(gradients, 12.35 * size)
    agree_all(clipped, [g * 0.95 for g in gradients], "with a norm just above the limit,")


@guard("1.6")
def test_small_gradients_come_back_unchanged(submission, draw):
    gradients = draw_gradients(draw, torch.float64)
    agree_all(submission.rnn.clip_gradients(gradients, 1e3), gradients, "far below the limit,")


@guard("1.6")
def test_gradients_of_zero_stay_zero(submission, draw):
    gradients = [gradient * 0 for gradient in draw_gradients(draw)]
    agree_all(submission.rnn.clip_gradients(gradients, 1.0), gradients, "at zero,")


@guard("1.6")
def test_one_factor_for_all_keeps_the_direction(submission, draw):
    gradients = draw_gradients(draw, torch.float64)
    # Were each clipped alone, the small one would keep its length and the large one would not.
    gradients[1] = gradients[1] * 1e-3
    clipped = submission.rnn.clip_gradients(gradients, 2.0)
    require(bool(clipped) and bool(clipped[0].any()), "gradient 0 is zero or missing after clipping")
    kept = clipped[0].abs().max() / gradients[0].abs().max()
    agree_all([mine / kept for mine in clipped], gradients, "grown back by the factor of the first,")


@exercise("1.6")
def test_beyond_the_limit_the_size_of_the_gradients_does_not_matter(submission, expected, draw):
    gradients = draw_gradients(draw)
    right = expected.rnn.clip_gradients(gradients, 1.0)
    clipped = submission.rnn.clip_gradients([gradient * 1e4 for gradient in gradients], 1.0)
    agree_all(clipped, right, "ten thousand times too large,")


@exercise("1.6")
def test_a_single_transposed_gradient_is_clipped(submission, expected, draw):
    gradients = [draw.normal(d_hidden=D_HIDDEN, d_in=D_IN).T]
    right = expected.rnn.clip_gradients(gradients, 0.7)
    agree_all(submission.rnn.clip_gradients(gradients, 0.7), right, "alone in the list,")


@exercise("1.6")
def test_gradients_of_one_shape_share_one_norm(submission, expected, draw):
    gradients = [draw.normal(d_in=D_IN, d_out=1, dtype=torch.float64) for _ in range(3)]
    right = expected.rnn.clip_gradients(gradients, 2.5)
    agree_all(submission.rnn.clip_gradients(gradients, 2.5), right, "among others of its shape,")


@guard("1.6")
def test_clipping_leaves_the_given_gradients_alone(submission, draw):
    leaves_inputs_alone(
        submission.rnn.clip_gradients, draw_gradients(draw), 1.0, names=("gradients", "max_norm")
    )


@guard("1.6")
def test_clipped_gradients_keep_shape_and_dtype(submission, draw):
    for dtype in (torch.float32, torch.float64):
        gradients = draw_gradients(draw, dtype)
        clipped = submission.rnn.clip_gradients(gradients, 1.0)
        for i, (mine, given) in enumerate(zip(clipped, gradients, strict=False)):
            keeps_dtype(mine, dtype, f"gradient {i}")
            require(
                mine.shape == given.shape,
                f"gradient {i} should keep its shape {tuple(given.shape)}, it has {tuple(mine.shape)}",
            )
