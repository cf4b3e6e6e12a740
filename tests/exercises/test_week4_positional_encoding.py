"""Week 4: giving order to a set."""

import math

import torch

from lab_check.running.testing import (
    agree,
    exercise,
    gradients_agree,
    guard,
    keeps_dtype,
    leaves_inputs_alone,
    refuses,
    require,
)

# Sizes never coincide, so that an exchanged axis cannot go unnoticed.
BATCH, HEADS, SEQ, D_HEAD, D_MODEL, LENGTH = 2, 3, 5, 8, 12, 9
# Angles may be computed in single or in double precision. Far out, single precision has few digits left
# behind the point: at position 5,000 it is off by 4e-4, times the length of what is turned.
ANGLE = {"rel": 2e-4, "abs": 1e-4}
FAR = {"rel": 0.0, "abs": 5e-3}


def draw_width(draw):
    return 2 * draw.number(7, 14)


def make_table(submission, length, d_model):
    table = submission.positional.sinusoidal_positions(length, d_model)
    require(
        tuple(table.shape) == (length, d_model),
        f"the table should have the shape (length {length}, d_model {d_model}), "
        f"it has {tuple(table.shape)}",
    )
    return table


def make_matrix(submission, offset, d_model):
    moves = submission.positional.shift_matrix(offset, d_model)
    require(
        tuple(moves.shape) == (d_model, d_model),
        f"the matrix should have the shape (d_model {d_model}, d_model {d_model}), "
        f"it has {tuple(moves.shape)}",
    )
    return moves.to(torch.get_default_dtype())


# 4.1 ------------------------------------------------------------------------------------------------


@exercise("4.1")
def test_columns_are_sines_and_cosines_of_ever_slower_waves(submission, expected):
    right = expected.positional.sinusoidal_positions(SEQ, 6)
    table = submission.positional.sinusoidal_positions(SEQ, 6)
    agree(table, right, "the table", "position column", **ANGLE)


@exercise("4.1")
def test_four_columns_have_the_values_found_by_hand(submission, device):
    table = submission.positional.sinusoidal_positions(4, 4)
    right = torch.tensor(
        [
            [0.0, 1.0, 0.0, 1.0],
            [0.841471, 0.540302, 0.01, 0.99995],
            [0.909297, -0.416147, 0.019999, 0.9998],
            [0.14112, -0.989992, 0.029996, 0.99955],
        ],
        device=device,
    )
    agree(table, right, "with d_model = 4 the table", "position column", **ANGLE)


@exercise("4.1")
def test_tables_of_any_size_follow_the_formula(submission, expected, draw):
    length, d_model = draw.number(30, 50), draw_width(draw)
    right = expected.positional.sinusoidal_positions(length, d_model)
    table = submission.positional.sinusoidal_positions(length, d_model)
    what = f"with length {length} and d_model = {d_model} the table"
    agree(table, right, what, "position column", **ANGLE)


@exercise("4.1")
def test_wide_tables_follow_the_formula(submission, expected):
    right = expected.positional.sinusoidal_positions(11, 64)
    table = submission.positional.sinusoidal_positions(11, 64)
    agree(table, right, "with d_model = 64 the table", "position column", **ANGLE)


@exercise("4.1")
def test_the_first_position_is_zero_and_one_in_turn(submission, device):
    table = submission.positional.sinusoidal_positions(1, 6)
    right = torch.tensor([[0.0, 1.0, 0.0, 1.0, 0.0, 1.0]], device=device)
    agree(table, right, "position 0", "position column")


@exercise("4.1")
def test_two_columns_are_one_wave(submission, expected):
    right = expected.positional.sinusoidal_positions(7, 2)
    table = submission.positional.sinusoidal_positions(7, 2)
    agree(table, right, "with d_model = 2 the table", "position column", **ANGLE)


@exercise("4.1")
def test_as_many_positions_as_columns_do_not_confuse_the_axes(submission, expected):
    right = expected.positional.sinusoidal_positions(6, 6)
    table = submission.positional.sinusoidal_positions(6, 6)
    agree(table, right, "with as many positions as columns the table", "position column", **ANGLE)


@exercise("4.1")
def test_a_longer_table_begins_with_the_shorter_one(submission, expected):
    right = expected.positional.sinusoidal_positions(LENGTH, 4)
    table = make_table(submission, 13, 4)
    what = "the beginning of a longer table"
    agree(table[:LENGTH], right, what, "position column", **ANGLE)


@exercise("4.1")
def test_far_positions_follow_the_formula_too(submission, expected, draw, device):
    position, d_model = draw.number(4000, 5000), 16
    start = torch.tensor([0.0, 1.0] * (d_model // 2), device=device)
    right = start @ expected.positional.shift_matrix(position, d_model)
    # Of a table this long, recognition looks at the end only.
    table = submission.positional.sinusoidal_positions.seen_as(lambda table: table[-1:], 1e-2)
    row = table(position + 1, d_model)[-1:]
    agree(row, right[None], f"position {position}", "position column", **FAR)


@exercise("4.1")
def test_every_pair_of_columns_lies_on_the_unit_circle(submission):
    table = make_table(submission, SEQ, 4)
    squares = table.square().unflatten(-1, (-1, 2)).sum(dim=-1)
    agree(squares, 1.0, "the squared length of two neighbouring columns", "position pair", **ANGLE)


@exercise("4.1")
def test_the_dot_product_of_two_positions_depends_on_their_distance_only(submission):
    table = make_table(submission, 7, 4)
    products = table @ table.mT
    agree(products.diagonal(), 4 / 2, "the dot product of a position with itself", "position")
    for distance in (1, 4):
        along = products.diagonal(distance)
        what = f"the dot product of positions {distance} apart"
        agree(along, along[:1].expand_as(along), what, "position", rel=1e-3, abs=1e-3)


@exercise("4.1")
def test_no_two_positions_look_alike(submission):
    table = make_table(submission, 50, 4)
    distances = torch.cdist(table, table).fill_diagonal_(math.inf)
    require(
        bool(distances.min() > 0.1),
        "two of the first 50 positions are (nearly) the same vector: a model could not tell them apart",
    )


@guard("4.1")
def test_an_odd_width_is_refused(submission):
    # Whatever comes back for an odd width, the mistake is that something does.
    refuses(submission.positional.sinusoidal_positions.seen_as(lambda _: "accepted", 0.0), 4, 7)


@guard("4.1")
def test_the_table_has_the_default_dtype(submission):
    table = submission.positional.sinusoidal_positions(LENGTH, 4)
    require(
        table.dtype == torch.get_default_dtype(),
        f"the table should have the default dtype {torch.get_default_dtype()}, it is {table.dtype}",
    )


# 4.2 ------------------------------------------------------------------------------------------------


@exercise("4.2")
def test_the_matrix_moves_every_position_forward(submission, expected):
    table = expected.positional.sinusoidal_positions(20, D_MODEL)
    matrix = make_matrix(submission, 3, D_MODEL)
    agree(table[:-3] @ matrix, table[3:], "a position times M(3)", "position column", **ANGLE)


@exercise("4.2")
def test_a_negative_offset_moves_back(submission, expected):
    table = expected.positional.sinusoidal_positions(20, D_MODEL)
    matrix = make_matrix(submission, -4, D_MODEL)
    agree(table[4:] @ matrix, table[:-4], "a position times M(-4)", "position column", **ANGLE)


@exercise("4.2")
def test_the_matrix_has_a_turn_for_every_pair_of_columns(submission, expected):
    right = expected.positional.shift_matrix(1, D_MODEL)
    agree(submission.positional.shift_matrix(1, D_MODEL), right, "M(1)", "row column", **ANGLE)


@exercise("4.2")
def test_any_offset_and_width_will_do(submission, expected, draw):
    offset, d_model = draw.number(5, 40), draw_width(draw)
    right = expected.positional.shift_matrix(offset, d_model)
    matrix = submission.positional.shift_matrix(offset, d_model)
    agree(matrix, right, f"with d_model = {d_model}, M({offset})", "row column", **ANGLE)


@exercise("4.2")
def test_two_columns_turn_by_the_offset_itself(submission, device):
    matrix = submission.positional.shift_matrix(1, 2)
    right = torch.tensor([[0.540302, -0.841471], [0.841471, 0.540302]], device=device)
    agree(matrix, right, "with d_model = 2, M(1)", "row column", **ANGLE)


@exercise("4.2")
def test_the_start_is_moved_to_where_four_columns_were_found_by_hand(submission, device):
    start = torch.tensor([0.0, 1.0, 0.0, 1.0], device=device)
    right = torch.tensor([0.909297, -0.416147, 0.019999, 0.9998], device=device)
    matrix = make_matrix(submission, 2, 4)
    agree(start @ matrix, right, "with d_model = 4, position 0 times M(2)", "column", **ANGLE)


@exercise("4.2")
def test_an_offset_of_zero_moves_nothing(submission, device):
    matrix = submission.positional.shift_matrix(0, 6)
    agree(matrix, torch.eye(6, device=device), "M(0)", "row column", **ANGLE)


@exercise("4.2")
def test_two_moves_make_one(submission, expected):
    right = expected.positional.shift_matrix(7, D_MODEL)
    once = make_matrix(submission, 2, D_MODEL)
    again = make_matrix(submission, 5, D_MODEL)
    agree(once @ again, right, "M(2) times M(5), which is M(7),", "row column", **ANGLE)


@exercise("4.2")
def test_there_and_back_is_where_it_was(submission, device):
    there = make_matrix(submission, 6, D_MODEL)
    back = make_matrix(submission, -6, D_MODEL)
    identity = torch.eye(D_MODEL, device=device)
    agree(there @ back, identity, "M(6) times M(-6)", "row column", **ANGLE)


@guard("4.2")
def test_an_odd_width_has_no_matrix(submission):
    refuses(submission.positional.shift_matrix.seen_as(lambda _: "accepted", 0.0), 3, 7)


@guard("4.2")
def test_the_matrix_has_the_default_dtype(submission):
    matrix = submission.positional.shift_matrix(3, D_MODEL)
    require(
        matrix.dtype == torch.get_default_dtype(),
        f"the matrix should have the default dtype {torch.get_default_dtype()}, it is {matrix.dtype}",
    )


# 4.3 ------------------------------------------------------------------------------------------------

ADDED = ("embeddings", "positions")


def draw_sum(draw, dtype=torch.float32, length=SEQ, d_model=D_MODEL, **axes):
    leading = axes or {"batch": BATCH, "seq": SEQ}
    return (
        draw.normal(**leading, d_model=d_model, dtype=dtype),
        draw.normal(length=length, d_model=d_model, dtype=dtype),
    )


@exercise("4.3")
def test_embeddings_are_scaled_and_positions_added(submission, expected, draw):
    embeddings, positions = draw_sum(draw)
    right = expected.positional.add_positions(embeddings, positions)
    result = submission.positional.add_positions(embeddings, positions)
    agree(result, right, "the sum", "batch word column")


@exercise("4.3")
def test_four_columns_are_doubled(submission, device):
    embeddings = torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, -1.0, 0.5, 2.0]], device=device)
    positions = torch.tensor([[0.0, 1.0, 0.0, 1.0], [10.0, 20.0, 30.0, 40.0]], device=device)
    right = torch.tensor([[2.0, 5.0, 6.0, 9.0], [10.0, 18.0, 31.0, 44.0]], device=device)
    result = submission.positional.add_positions(embeddings, positions)
    agree(result, right, "with d_model = 4, whose root is 2, the sum", "word column")


@exercise("4.3")
def test_the_first_rows_of_a_longer_table_are_used(submission, expected, draw):
    embeddings, positions = draw_sum(draw, length=17)
    right = expected.positional.add_positions(embeddings, positions)
    result = submission.positional.add_positions(embeddings, positions)
    agree(result, right, "with a table of 17 positions the sum", "batch word column")


@exercise("4.3")
def test_a_single_sentence_needs_no_batch(submission, expected, draw):
    embeddings, positions = draw_sum(draw, length=17, seq=SEQ)
    right = expected.positional.add_positions(embeddings, positions)
    result = submission.positional.add_positions(embeddings, positions)
    agree(result, right, "without a batch the sum", "word column")


@exercise("4.3")
def test_two_leading_axes_get_positions_too(submission, expected, draw):
    embeddings, positions = draw_sum(draw, length=17, group=HEADS, batch=BATCH, seq=SEQ)
    right = expected.positional.add_positions(embeddings, positions)
    result = submission.positional.add_positions(embeddings, positions)
    agree(result, right, "with two leading axes the sum", "group batch word column")


@exercise("4.3")
def test_one_word_gets_the_first_position(submission, expected, draw):
    embeddings, positions = draw_sum(draw, length=17, batch=1, seq=1)
    right = expected.positional.add_positions(embeddings, positions)
    result = submission.positional.add_positions(embeddings, positions)
    agree(result, right, "for a single word the sum", "batch word column")


@exercise("4.3")
def test_as_many_sentences_as_words_do_not_confuse_the_axes(submission, expected, draw):
    embeddings, positions = draw_sum(draw, length=6, d_model=6, batch=6, seq=6)
    right = expected.positional.add_positions(embeddings, positions)
    result = submission.positional.add_positions(embeddings, positions)
    agree(result, right, "with as many sentences as words and columns the sum", "batch word column")


@exercise("4.3")
def test_every_sentence_gets_the_same_positions(submission, draw):
    _, positions = draw_sum(draw)
    still = torch.zeros(BATCH, SEQ, D_MODEL, device=positions.device)
    result = submission.positional.add_positions(still, positions)
    what = "for embeddings that are all zero, the sum"
    agree(result, positions.expand(BATCH, -1, -1), what, "batch word column")


@exercise("4.3")
def test_large_transposed_embeddings_keep_their_positions(submission, expected, draw):
    embeddings = draw.normal(batch=BATCH, d_model=D_MODEL, seq=SEQ, dtype=torch.float64, scale=1e4).mT
    _, positions = draw_sum(draw, torch.float64, length=17)
    right = expected.positional.add_positions(embeddings, positions)
    result = submission.positional.add_positions(embeddings, positions)
    agree(result, right, "for embeddings of size 1e4 the sum", "batch word column", abs=1e-2)


@exercise("4.3")
def test_gradients_reach_embeddings_and_positions(submission, expected, draw):
    embeddings, positions = draw_sum(draw, torch.float64, length=LENGTH)
    block, right = submission.positional.add_positions, expected.positional.add_positions
    gradients_agree(block, right, embeddings, positions, names=ADDED)


@guard("4.3")
def test_embeddings_and_positions_are_left_alone(submission, draw):
    block = submission.positional.add_positions
    leaves_inputs_alone(block, *draw_sum(draw, length=LENGTH), names=ADDED)


@guard("4.3")
def test_the_sum_keeps_the_dtype(submission, draw):
    single, double = draw_sum(draw), draw_sum(draw, torch.float64)
    keeps_dtype(submission.positional.add_positions(*single), torch.float32, "the sum")
    keeps_dtype(submission.positional.add_positions(*double), torch.float64, "the sum")


# 4.4 ------------------------------------------------------------------------------------------------

TURNED = ("x", "positions")


def draw_heads(draw, dtype=torch.float32, **axes):
    leading = axes or {"batch": BATCH, "heads": HEADS, "seq": SEQ}
    return (
        draw.normal(**leading, d_head=D_HEAD, dtype=dtype),
        draw.integers(0, 40, seq=leading["seq"]),
    )


@exercise("4.4")
def test_every_pair_turns_by_its_position_and_frequency(submission, expected, draw):
    x, positions = draw_heads(draw)
    right = expected.positional.rotate(x, positions)
    result = submission.positional.rotate(x, positions)
    agree(result, right, "the turned vector", "batch head word column", **ANGLE)


@exercise("4.4")
def test_four_columns_turn_to_where_they_were_found_by_hand(submission, device):
    x = torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]], device=device)
    positions = torch.tensor([1, 2], device=device)
    right = torch.tensor(
        [[0.540302, 0.841471, 0.99995, 0.01], [-0.909297, -0.416147, -0.019999, 0.9998]], device=device
    )
    result = submission.positional.rotate(x, positions)
    what = "for the vectors (1, 0, 1, 0) at position 1 and (0, 1, 0, 1) at position 2, the result"
    agree(result, right, what, "word column", **ANGLE)


@exercise("4.4")
def test_words_in_a_row_turn_further_and_further(submission, expected, draw, device):
    x = draw.normal(seq=SEQ, d_head=D_HEAD)
    positions = torch.arange(SEQ, device=device)
    right = expected.positional.rotate(x, positions)
    result = submission.positional.rotate(x, positions)
    agree(result, right, "for a single sentence the turned vector", "word column", **ANGLE)


@exercise("4.4")
def test_a_word_alone_is_turned_by_the_position_it_is_given(submission, expected, draw, device):
    x = draw.normal(batch=1, heads=1, seq=1, d_head=D_HEAD)
    positions = torch.tensor([17], device=device)
    right = expected.positional.rotate(x, positions)
    result = submission.positional.rotate(x, positions)
    agree(result, right, "at position 17 the turned vector", "batch head word column", **ANGLE)


@exercise("4.4")
def test_two_columns_are_a_single_pair(submission, expected, draw):
    x = draw.normal(batch=BATCH, seq=SEQ, d_head=2)
    positions = draw.integers(1, 40, seq=SEQ)
    right = expected.positional.rotate(x, positions)
    result = submission.positional.rotate(x, positions)
    agree(result, right, "with d_head = 2 the turned vector", "batch word column", **ANGLE)


@exercise("4.4")
def test_as_many_heads_as_words_do_not_confuse_the_axes(submission, expected, draw):
    x = draw.normal(batch=SEQ, heads=SEQ, seq=SEQ, d_head=6)
    positions = draw.integers(1, 40, seq=SEQ)
    right = expected.positional.rotate(x, positions)
    result = submission.positional.rotate(x, positions)
    what = "with as many heads as words the turned vector"
    agree(result, right, what, "batch head word column", **ANGLE)


@exercise("4.4")
def test_far_words_are_turned_too(submission, expected, draw):
    x, positions = draw.normal(batch=BATCH, seq=SEQ, d_head=D_HEAD), draw.integers(4000, 5000, seq=SEQ)
    right = expected.positional.rotate(x, positions)
    result = submission.positional.rotate(x, positions)
    what = "at positions of 4000 to 5000 the turned vector"
    agree(result, right, what, "batch word column", **FAR)


@exercise("4.4")
def test_scores_depend_on_the_distance_of_two_words_only(submission, expected, draw):
    query, positions = draw_heads(draw, torch.float64, batch=BATCH, seq=SEQ)
    key = draw.normal(batch=BATCH, seq=SEQ, d_head=D_HEAD, dtype=torch.float64)
    near = (expected.positional.rotate(query, positions), expected.positional.rotate(key, positions))
    far_query = submission.positional.rotate(query, positions + 13)
    far_key = submission.positional.rotate(key, positions + 13)
    what = "with all words 13 positions later, the score"
    agree(far_query @ far_key.mT, near[0] @ near[1].mT, what, "batch query key", rel=1e-3, abs=1e-3)


@exercise("4.4")
def test_large_vectors_from_exchanged_axes_are_turned(submission, expected, draw):
    x = draw.normal(batch=BATCH, seq=SEQ, heads=HEADS, d_head=D_HEAD, scale=1e4).transpose(1, 2)
    positions = draw.integers(0, 40, seq=SEQ)
    right = expected.positional.rotate(x, positions)
    result = submission.positional.rotate(x, positions)
    what = "for vectors of size 1e4 the turned vector"
    agree(result, right, what, "batch head word column", abs=2.0)


@exercise("4.4")
def test_gradients_are_turned_back(submission, expected, draw):
    x, positions = draw_heads(draw)
    block, right = submission.positional.rotate, expected.positional.rotate
    gradients_agree(block, right, x, positions, names=TURNED)


@guard("4.4")
def test_position_zero_turns_nothing(submission, draw, device):
    x = draw.normal(batch=BATCH, seq=SEQ, d_head=D_HEAD)
    nowhere = torch.zeros(SEQ, dtype=torch.long, device=device)
    result = submission.positional.rotate(x, nowhere)
    agree(result, x, "at position 0 the turned vector", "batch word column", **ANGLE)


@guard("4.4")
def test_turning_keeps_the_length_of_every_vector(submission, draw):
    x, positions = draw_heads(draw)
    result = submission.positional.rotate(x, positions)
    what = "the length of a turned vector"
    agree(result.norm(dim=-1), x.norm(dim=-1), what, "batch head word", **ANGLE)


@guard("4.4")
def test_vectors_and_positions_are_left_alone(submission, draw):
    leaves_inputs_alone(submission.positional.rotate, *draw_heads(draw), names=TURNED)


@guard("4.4")
def test_turned_vectors_keep_the_dtype(submission, draw):
    single, double = draw_heads(draw), draw_heads(draw, torch.float64)
    keeps_dtype(submission.positional.rotate(*single), torch.float32, "the turned vector")
    keeps_dtype(submission.positional.rotate(*double), torch.float64, "the turned vector")
