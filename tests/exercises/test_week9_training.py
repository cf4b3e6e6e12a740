"""Week 9: what training is made of, and what tells whether it worked."""

import itertools
import math

import torch

from lab_check.calling.failures import WrongType
from lab_check.running.testing import (
    agree,
    exercise,
    fail,
    gradients,
    guard,
    keeps_dtype,
    leaves_inputs_alone,
    require,
)

# Sizes never coincide: an exchanged axis cannot go unnoticed.
BATCH, QUERY, KEY, D_MODEL = 3, 5, 7, 6
SOURCE_VOCAB, TARGET_VOCAB, PAD, BOS = 11, 13, 0, 1


# 9.1 Dropout


def lost_and_kept(x, p):
    """Make what recognition looks at in a random result: shares, sizes, and what was lost together."""

    def seen(out):
        if not isinstance(out, torch.Tensor) or out.shape != x.shape:
            return out
        lost, ratio = out == 0, (out / x).flatten()
        kept = ratio[~lost.flatten()]
        quantiles = [kept.quantile(share).item() for share in (0.02, 0.3, 0.98)] if len(kept) else []
        near = bool(len(kept)) and bool((kept * (1 - p) - 1).abs().max() < 1e-3)
        share = lost.double().mean().item()
        rows = lost.reshape(-1, lost.shape[-1])
        return [
            str(out.dtype),
            round(share, 1) if x.numel() >= 1000 else share > 0,
            near,
            [str(number) if not math.isfinite(number) else number for number in quantiles],
            bool((rows == rows[:, :1]).all()),
            len(rows) > 1 and bool((rows == rows[:1]).all()),
            bool((lost == lost[:1]).all()) and x.ndim > 2,
            bool(lost[x < 0].any()) == bool(lost[x > 0].any()),
        ]

    return seen


def drop(submission, x, p, generator=None):
    """Drop numbers of x, none of which is zero."""
    function = submission.training.dropout.seen_as(lost_and_kept(x, p), 0.04)
    out = function(x, p, generator) if generator is not None else function(x, p)
    require(out.shape == x.shape, f"the shape should stay {tuple(x.shape)}, it is {tuple(out.shape)}")
    return out


def draw_numbers(draw, dtype=torch.float32, **axes):
    """Draw numbers of which none is close to zero."""
    x = draw.normal(dtype=dtype, **axes)
    return x + x.sign() * 0.1 + (x == 0)


@exercise("9.1")
def test_what_is_kept_is_divided_by_the_chance_to_be_kept(submission, draw):
    x = draw_numbers(draw, batch=BATCH, seq=40, d_model=50)
    for p in (0.2, 0.5, 0.9):
        out = drop(submission, x, p, draw.generator())
        kept = out != 0
        require(bool(kept.any()), f"with p = {p} nothing was kept")
        what = f"with p = {p} a number that was 1 and was kept"
        agree((out / x)[kept], 1 / (1 - p), what)


@exercise("9.1")
def test_the_share_that_is_lost_is_p(submission, draw):
    x = draw_numbers(draw, batch=BATCH, seq=40, d_model=50)
    for p in (0.1, 0.3, 0.7):
        out = drop(submission, x, p, draw.generator())
        share = (out == 0).double().mean().item()
        require(abs(share - p) < 0.04, f"with p = {p} a share of {share:.2f} is lost")


@exercise("9.1")
def test_the_mean_stays_what_it_was(submission, draw):
    x = draw_numbers(draw, batch=BATCH, seq=60, d_model=50).abs()
    for p in (0.1, 0.5, 0.7):
        out = drop(submission, x, p, draw.generator())
        require(bool((out == 0).any()), f"with p = {p} nothing is lost")
        ratio = out.mean().item() / x.mean().item()
        require(
            0.92 < ratio < 1.08,
            f"with p = {p} the mean should stay, up to chance; it is {ratio:.2f} times what it was",
        )


@exercise("9.1")
def test_every_number_has_a_draw_of_its_own(submission, draw):
    x = draw_numbers(draw, batch=4, seq=30, d_model=40)
    lost = (drop(submission, x, 0.5, draw.generator()) == 0).double()
    require(0.3 < lost.mean().item() < 0.7, f"with p = 0.5 a share of {lost.mean():.2f} is lost")
    for axis, name in enumerate(("sentence", "word", "feature")):
        along = lost.mean(dim=[other for other in range(3) if other != axis])
        require(
            along.min().item() > 0.1 and along.max().item() < 0.9,
            f"a whole {name} is lost or kept at once: each number needs a draw of its own",
        )
    for axis, name in enumerate(("sentences", "words", "features")):
        same = (lost == lost.narrow(axis, 0, 1)).double().mean().item()
        require(same < 0.8, f"all {name} lose the same numbers: each number needs a draw of its own")


@exercise("9.1")
def test_how_many_are_lost_is_left_to_chance(submission, draw):
    x, counts = draw_numbers(draw, seq=50, d_model=40), []

    def as_many_as_first(out):
        counts.append(int((out == 0).sum()) if isinstance(out, torch.Tensor) else -1)
        return counts[0] == counts[-1]

    function = submission.training.dropout.seen_as(as_many_as_first, 0.0)
    for generator in [draw.generator() for _ in range(4)]:
        function(x, 0.5, generator)
    require(
        len(set(counts)) > 1,
        f"four times exactly {counts[0]} of 2000 numbers are lost: let each have a draw of its own",
    )


@exercise("9.1")
def test_the_generator_decides_what_is_lost(submission, draw):
    x, one, other = draw_numbers(draw, seq=30, d_model=20), draw.generator(), draw.generator()
    came = []

    def same_as_first(out):
        came.append(out)
        return bool(torch.equal(came[0], out))

    function = submission.training.dropout.seen_as(same_as_first, 0.0)
    for generator in (one, one, other):
        function(x, 0.4, generator)
    require(
        bool(torch.equal(came[0], came[1])),
        "two generators in the same state should drop the same numbers, they dropped different ones",
    )
    require(
        not torch.equal(came[0], came[2]),
        "two generators in different states should drop different numbers, they dropped the same ones",
    )


@exercise("9.1")
def test_without_a_generator_numbers_are_lost_too(submission, draw):
    x = draw_numbers(draw, batch=BATCH, seq=30, d_model=20)
    share = (drop(submission, x, 0.4) == 0).double().mean().item()
    require(
        abs(share - 0.4) < 0.08, f"without a generator and with p = 0.4 a share of {share:.2f} is lost"
    )


@exercise("9.1")
def test_gradients_go_where_numbers_were_kept_and_are_scaled_like_them(submission, draw):
    x, p = draw_numbers(draw, torch.float64, batch=BATCH, seq=6, d_model=D_MODEL), 0.4

    function = submission.training.dropout.seen_as(lost_and_kept(x, p), 0.04)
    generator = draw.generator()
    out = function(x, p, generator)
    found = gradients(function, x, p, generator)["0"]
    require(found is not None, "no gradient reaches x: the result is cut off from it")
    kept = out != 0
    require(bool(kept.any()), "nothing was kept")
    places = torch.arange(1, x.numel() + 1, device=x.device, dtype=torch.float32)
    weights = places.mul(1.7).cos().reshape(x.shape).double()
    agree(found / weights, kept / (1 - p), "the gradient of a number", "batch seq d_model")


@guard("9.1")
def test_with_p_0_nothing_changes(submission, draw):
    x, generator = draw.normal(batch=BATCH, seq=QUERY, d_model=D_MODEL), draw.generator()
    agree(submission.training.dropout(x, 0.0, generator), x, "with p = 0 the result")


@guard("9.1")
def test_with_p_1_all_is_zero_and_so_are_the_gradients(submission, draw):
    x, generator = draw.normal(batch=BATCH, seq=QUERY, d_model=D_MODEL), draw.generator()
    agree(submission.training.dropout(x, 1.0, generator), 0.0, "with p = 1 the result")
    found = gradients(submission.training.dropout, x, 1.0, generator)["0"]
    if found is not None:
        agree(found, 0.0, "with p = 1 the gradient")


@guard("9.1")
def test_dropout_keeps_shape_and_dtype(submission, draw):
    for dtype in (torch.float32, torch.float64):
        x = draw_numbers(draw, dtype, batch=1, seq=9, d_model=8)
        keeps_dtype(drop(submission, x, 0.3, draw.generator()), dtype)
    x = draw_numbers(draw, d_model=400)
    drop(submission, x, 0.3, draw.generator())


@guard("9.1")
def test_dropout_leaves_its_input_alone(submission, draw):
    x = draw_numbers(draw, seq=9, d_model=8)
    function = submission.training.dropout.seen_as(lambda out: None, 0.0)
    leaves_inputs_alone(function, x, 0.5, draw.generator(), names=("x",))


# 9.2 Batches of like length


def as_batches(result):
    """Require lists of plain indices."""
    for batch in result:
        if not isinstance(batch, list | tuple):
            raise WrongType(f"every batch should be a list of indices, one is {batch!r}")
        for index in batch:
            if type(index) is not int:
                raise WrongType(f"an index should be a plain integer, one is {index!r}")
    return [list(batch) for batch in result]


def by_length(lengths):
    """Make what recognition looks at: the lengths in each batch, and which indices are odd."""

    def seen(result):
        try:
            batches = as_batches(result)
            sizes = sorted(sorted(lengths[index] for index in batch) for batch in batches)
        except (WrongType, IndexError, TypeError):
            return result
        flat = sorted(index for batch in batches for index in batch)
        return [sizes, flat == list(range(len(lengths)))]

    return seen


def what_is_wrong(lengths, budget):
    """Make what recognition looks at, whichever end the batches were begun from."""

    def seen(result):
        try:
            batches = as_batches(result)
            costs = [max(lengths[i] for i in batch) * len(batch) for batch in batches if batch]
        except (WrongType, IndexError, TypeError):
            return result
        flat = [index for batch in batches for index in batch]
        return [
            len(batches),
            len(lengths) - len(set(flat)),
            len(flat) - len(set(flat)),
            sum(cost > budget for cost in costs) > 0,
            are_stretches([[lengths[i] for i in batch] for batch in batches if batch]),
            len(costs) < len(batches),
        ]

    return seen


def are_stretches(batches):
    """Tell whether batches, put in order, hold lengths that only rise."""
    ordered = sorted((sorted(batch) for batch in batches), key=lambda batch: (batch[0], batch[-1]))
    return all(a[-1] <= b[0] for a, b in itertools.pairwise(ordered))


def draw_lengths(draw, count, low=1, high=20):
    return draw.integers(low, high, sentences=count).tolist()


def make_batches(submission, lengths, budget, exact=False):
    summary = by_length(lengths) if exact else what_is_wrong(lengths, budget)
    return as_batches(submission.training.token_batches.seen_as(summary, 0.0)(lengths, budget))


def check_indices(batches, count):
    flat = sorted(index for batch in batches for index in batch)
    missing = sorted(set(range(count)) - set(flat))
    require(not missing, f"of {count} sentences these are in no batch: {missing[:5]}")
    twice = sorted(index for index in set(flat) if flat.count(index) > 1)
    require(not twice, f"these sentences are in a batch more than once: {twice[:5]}")
    extra = sorted(set(flat) - set(range(count)))
    require(not extra, f"there are indices that belong to no sentence: {extra[:5]}")


@exercise("9.2")
def test_every_sentence_is_in_exactly_one_batch(submission, draw):
    for count in (2, 9, 40):
        lengths = draw_lengths(draw, count)
        batches = make_batches(submission, lengths, 30, exact=True)
        check_indices(batches, count)


@exercise("9.2")
def test_no_batch_costs_more_than_the_budget_with_its_padding(submission, draw):
    for count, budget in ((30, 25), (50, 60), (40, 21)):
        lengths = draw_lengths(draw, count)
        batches = make_batches(submission, lengths, budget)
        check_indices(batches, count)
        for batch in batches:
            inside = [lengths[index] for index in batch if 0 <= index < count]
            cost = max(inside, default=0) * len(batch)
            require(
                cost <= budget,
                f"a batch of the lengths {sorted(inside)} costs {cost} tokens with its padding; "
                f"{budget} are allowed",
            )


@exercise("9.2")
def test_sentences_of_like_length_are_together(submission, draw):
    for count, budget in ((30, 40), (60, 50)):
        lengths = draw_lengths(draw, count)
        batches = make_batches(submission, lengths, budget)
        inside = [[lengths[i] for i in batch if 0 <= i < count] for batch in batches]
        inside = [batch for batch in inside if batch]
        check_indices(batches, count)
        if not are_stretches(inside):
            shown = sorted(map(sorted, inside))[:4]
            fail(f"batches of the lengths {shown} overlap: sorted by length, each should be a stretch")


@exercise("9.2")
def test_there_are_as_few_batches_as_the_budget_allows(submission, expected, draw):
    cases = [(draw_lengths(draw, count), budget) for count, budget in ((30, 40), (50, 24), (45, 90))]
    right = [len(expected.training.token_batches(*case)) for case in cases]
    for (lengths, budget), wanted in zip(cases, right, strict=True):
        batches = make_batches(submission, lengths, budget)
        check_indices(batches, len(lengths))
        came = len([batch for batch in batches if batch])
        require(
            came == wanted,
            f"{len(lengths)} sentences came in {came} batches of at most {budget} tokens; sorted by "
            f"length they go into {wanted}",
        )


@exercise("9.2")
def test_six_sentences_by_hand(submission):
    lengths = [3, 8, 4, 4, 7, 3]
    batches = make_batches(submission, lengths, 16, exact=True)
    found = sorted(map(sorted, batches))
    require(
        found == [[0, 2, 3, 5], [1, 4]],
        f"the lengths 3 8 4 4 7 3 with 16 tokens should give [[0, 2, 3, 5], [1, 4]], it is {found}",
    )


@exercise("9.2")
def test_a_batch_may_cost_exactly_the_budget(submission, draw):
    length, count = draw.number(3, 9), draw.number(4, 8)
    lengths = [length] * (3 * count)
    batches = make_batches(submission, lengths, count * length, exact=True)
    check_indices(batches, len(lengths))
    sizes = sorted(map(len, batches))
    require(
        sizes == [count] * 3,
        f"{3 * count} sentences of {length} tokens with {count * length} allowed should come "
        f"{count} at a time, they come as {sizes}",
    )


@exercise("9.2")
def test_a_sentence_as_long_as_the_budget_is_a_batch_of_its_own(submission, draw):
    lengths = [*draw_lengths(draw, 9, 6, 11), 23, 23]
    batches = make_batches(submission, lengths, 23, exact=True)
    alone = sorted(batch for batch in batches if 9 in batch or 10 in batch)
    require(
        alone == [[9], [10]], f"two sentences with all the tokens allowed should be alone, not {alone}"
    )


@exercise("9.2")
def test_many_short_sentences_fit_where_few_long_ones_do(submission, draw):
    lengths = [20, 1, 20, 1, 2, 20, *[1] * draw.number(8, 11), 2, 20]
    batches = make_batches(submission, lengths, 40, exact=True)
    check_indices(batches, len(lengths))
    sizes = sorted(len(batch) for batch in batches)
    wanted = [2, 2, len(lengths) - 4]
    require(
        sizes == wanted, f"short sentences share a batch, long ones come by twos: {wanted}, not {sizes}"
    )


@guard("9.2")
def test_one_sentence_is_one_batch_and_none_are_none(submission, draw):
    length = draw.number(2, 9)
    one = make_batches(submission, [length], length + 3, exact=True)
    require(one == [[0]], f"one sentence should give [[0]], it gives {one}")
    none = make_batches(submission, [], 9)
    require(none == [], f"without sentences there should be no batch, there is {none}")


@guard("9.2")
def test_no_batch_is_empty(submission, draw):
    lengths = [*draw_lengths(draw, 12, 3, 17), 17]
    batches = make_batches(submission, lengths, 17)
    require(all(batches), "there is a batch without a sentence")


# 9.3 The learning rate of 2017


@exercise("9.3")
def test_the_rate_of_the_paper_at_its_own_numbers(submission):
    rate = submission.training.noam_rate
    agree(rate(4000, 512, 4000), 1 / math.sqrt(512 * 4000), "the paper's rate at its peak", rel=1e-6)
    agree(rate(1, 512, 4000), 1.746928e-7, "the paper's rate at the first step", rel=1e-5)
    agree(rate(100_000, 512, 4000), 1.397542e-4, "the paper's rate at its last step", rel=1e-5)


@exercise("9.3")
def test_the_rate_is_right_at_every_step(submission, expected, draw):
    d_model, warmup = draw.number(20, 700), draw.number(50, 900)
    steps = [1, 2, warmup // 2, warmup - 1, warmup, warmup + 1, 3 * warmup, 50 * warmup]
    right = [expected.training.noam_rate(step, d_model, warmup) for step in steps]
    for step, wanted in zip(steps, right, strict=True):
        rate = submission.training.noam_rate(step, d_model, warmup)
        agree(
            rate,
            wanted,
            f"with d_model {d_model} and warmup {warmup} the rate at step {step}",
            rel=1e-6,
        )


@exercise("9.3")
def test_warm_up_is_a_line_that_begins_at_the_first_step(submission, draw):
    warmup = draw.number(30, 400)
    rates = [submission.training.noam_rate(step, 64, warmup) for step in (1, 2, 5, warmup)]
    require(rates[0] > 0, "the rate of the first step is zero: nothing would be learned in it")
    for times, rate in zip((2, 5, warmup), rates[1:], strict=True):
        agree(rate / rates[0], float(times), f"the rate of step {times}, in rates of step 1,", rel=1e-6)


@exercise("9.3")
def test_after_warm_up_four_times_the_step_halves_the_rate(submission, draw):
    warmup = draw.number(30, 400)
    peak, later, last = (submission.training.noam_rate(n * warmup, 64, warmup) for n in (1, 4, 16))
    require(peak > 0, "the rate at the end of warm-up is zero")
    agree(later / peak, 0.5, "four times as far as the peak, the rate in peaks", rel=1e-6)
    agree(last / peak, 0.25, "sixteen times as far as the peak, the rate in peaks", rel=1e-6)


@exercise("9.3")
def test_the_rate_is_highest_where_warm_up_ends(submission, draw):
    warmup = draw.number(10, 40)
    rates = [submission.training.noam_rate(step, 64, warmup) for step in range(1, 3 * warmup)]
    highest = 1 + rates.index(max(rates))
    require(highest == warmup, f"with warmup {warmup} the rate is highest at step {highest}")


@exercise("9.3")
def test_a_wider_model_learns_at_a_lower_rate(submission, draw):
    warmup = draw.number(30, 400)
    for step in (3, 10 * warmup):
        narrow, wide = (submission.training.noam_rate(step, d_model, warmup) for d_model in (32, 512))
        require(narrow > 0, f"the rate of step {step} is zero")
        agree(wide / narrow, 0.25, "with d_model 512 the rate, in rates of d_model 32,", rel=1e-6)


@exercise("9.3")
def test_a_longer_warm_up_has_a_lower_peak_and_the_same_end(submission, draw):
    step = draw.number(9000, 20000)
    short, long = (submission.training.noam_rate(step, 64, warmup) for warmup in (100, 400))
    require(short > 0, "the rate is zero")
    agree(long / short, 1.0, "long after warm-up, the rate with four times its steps", rel=1e-6)
    peaks = [submission.training.noam_rate(warmup, 64, warmup) for warmup in (100, 400)]
    require(peaks[0] > 0, "the rate at the end of warm-up is zero")
    agree(peaks[1] / peaks[0], 0.5, "the peak with four times the warm-up, in peaks,", rel=1e-6)


@exercise("9.3")
def test_a_warm_up_of_one_step_falls_from_the_beginning(submission, expected, draw):
    d_model = draw.number(20, 700)
    right = [expected.training.noam_rate(step, d_model, 1) for step in (1, 2, 9)]
    for step, wanted in zip((1, 2, 9), right, strict=True):
        rate = submission.training.noam_rate(step, d_model, 1)
        agree(rate, wanted, f"with a warm-up of one step the rate at step {step}", rel=1e-6)


# 9.4 A step of AdamW


def draw_step(draw, dtype=torch.float64, **axes):
    """Draw a parameter, its gradient, and a state after some steps."""
    axes = axes or {"d_in": 4, "d_out": 3}
    parameter, gradient, mean = (draw.normal(dtype=dtype, **axes) for _ in range(3))
    square = draw.normal(dtype=dtype, **axes).square()
    return parameter, gradient, (draw.number(3, 40), 0.3 * mean, 0.4 * square)


def read_state(state):
    """Require a state of a number and two tensors."""
    fits = isinstance(state, tuple | list) and len(state) == 3
    if not fits or not all(isinstance(part, torch.Tensor) for part in state[1:]):
        raise WrongType("the state should be (step, mean, square): a number and two tensors")
    if isinstance(state[0], bool) or not isinstance(state[0], int | float):
        raise WrongType("the step in the state should be a plain number")
    return state


def compare_step(submission, expected, *args, when="", **options):
    right, right_state = expected.training.adamw_step(*args, **options)
    moved, state = submission.training.adamw_step(*args, **options)
    state = read_state(state)
    axes = "d_in d_out" if right.ndim == 2 else ""
    agree(moved, right, f"{when}the parameter", axes)
    agree(state[0], right_state[0], f"{when}the step in the state")
    agree(state[1], right_state[1], f"{when}the running mean", axes)
    agree(state[2], right_state[2], f"{when}the running mean square", axes)


@exercise("9.4")
def test_the_first_step_moves_by_the_rate(submission, expected, draw):
    parameter, gradient, _ = draw_step(draw)
    options = {"weight_decay": 0.0}
    compare_step(
        submission, expected, parameter, gradient, None, 0.02, when="after the first step ", **options
    )


@exercise("9.4")
def test_a_later_step_continues_from_the_state(submission, expected, draw):
    parameter, gradient, state = draw_step(draw)
    compare_step(submission, expected, parameter, gradient, state, 0.02, weight_decay=0.0)


@exercise("9.4")
def test_decay_shrinks_the_parameter_and_leaves_the_means_alone(submission, expected, draw):
    parameter, gradient, state = draw_step(draw)
    options = {"weight_decay": 0.3}
    compare_step(submission, expected, parameter, gradient, state, 0.05, when="with decay ", **options)


@exercise("9.4")
def test_decay_works_alone_where_the_gradient_is_zero(submission, expected, draw):
    parameter, gradient, _ = draw_step(draw)
    gradient = gradient * 0
    right, _ = expected.training.adamw_step(parameter, gradient, None, 0.1, weight_decay=0.5)
    moved, _ = submission.training.adamw_step(parameter, gradient, None, 0.1, weight_decay=0.5)
    agree(moved, right, "with a gradient of zero, rate 0.1 and decay 0.5 the parameter", "d_in d_out")


@exercise("9.4")
def test_the_betas_are_the_ones_that_are_given(submission, expected, draw):
    parameter, gradient, state = draw_step(draw)
    for betas in ((0.5, 0.8), (0.8, 0.5)):
        what = f"with betas {betas} "
        compare_step(submission, expected, parameter, gradient, state, 0.02, betas, when=what)


@exercise("9.4")
def test_eps_is_added_to_the_root(submission, expected, draw):
    parameter, gradient, state = draw_step(draw)
    state = (state[0], state[1] * 0.01, state[2] * 1e-4)
    options = {"eps": 0.01, "weight_decay": 0.0}
    args = parameter, gradient * 0.01, state, 0.5
    compare_step(submission, expected, *args, when="with small gradients and eps 0.01 ", **options)


@exercise("9.4")
def test_ten_steps_end_where_torch_would(submission, expected, draw):
    start, _, _ = draw_step(draw)
    steps = [draw.normal(dtype=torch.float64, d_in=4, d_out=3) for _ in range(10)]
    parameter, state = start, None
    for gradient in steps:
        parameter, state = expected.training.adamw_step(parameter, gradient, state, 0.03)
    mine, its = start, None
    for gradient in steps:
        mine, its = submission.training.adamw_step(mine, gradient, its, 0.03)
        its = tuple(read_state(its))
    agree(mine, parameter, "after ten steps the parameter", "d_in d_out")


@exercise("9.4")
def test_the_first_step_does_not_depend_on_the_size_of_the_gradient(submission, draw):
    parameter, gradient, _ = draw_step(draw)
    gradient = gradient + gradient.sign()
    for size in (1.0, 1e3):
        moved, _ = submission.training.adamw_step(
            parameter, size * gradient, None, 0.01, weight_decay=0.0
        )
        what = f"with gradients of the size {size:g} the first step, in rates,"
        agree((parameter - moved) / 0.01 * gradient.sign(), 1.0, what, "d_in d_out", rel=1e-4)


@exercise("9.4")
def test_the_rate_may_change_from_step_to_step(submission, expected, draw):
    parameter, gradient, state = draw_step(draw)
    for rate in (0.5, 0.004):
        what = f"with the rate {rate} "
        compare_step(
            submission, expected, parameter, gradient, state, rate, when=what, weight_decay=0.1
        )


@exercise("9.4")
def test_a_vector_and_a_single_number_are_parameters_too(submission, expected, draw):
    for axes in ({"d_out": 5}, {}, {"d_in": 1, "d_out": 3}):
        tensors = [draw.normal(dtype=torch.float64, **axes) for _ in range(2)]
        compare_step(submission, expected, *tensors, None, 0.02)


@guard("9.4")
def test_a_rate_of_zero_moves_nothing(submission, draw):
    parameter, gradient, state = draw_step(draw)
    moved, _ = submission.training.adamw_step(parameter, gradient, state, 0.0)
    agree(moved, parameter, "with the rate 0 the parameter", "d_in d_out")


@guard("9.4")
def test_a_gradient_of_zero_gives_no_nan(submission, draw):
    parameter, gradient, _ = draw_step(draw)
    moved, _ = submission.training.adamw_step(parameter, gradient * 0, None, 0.1, weight_decay=0.0)
    agree(moved, parameter, "with a gradient of zero and no decay the parameter", "d_in d_out")


@guard("9.4")
def test_parameter_gradient_and_state_are_left_alone(submission, draw):
    parameter, gradient, state = draw_step(draw)
    names = ("parameter", "gradient", "state")
    leaves_inputs_alone(submission.training.adamw_step, parameter, gradient, state, 0.1, names=names)
    leaves_inputs_alone(submission.training.adamw_step, parameter, gradient, None, 0.1, names=names)


@guard("9.4")
def test_parameter_and_state_keep_their_dtype(submission, draw):
    for dtype in (torch.float32, torch.float64):
        parameter, gradient, state = draw_step(draw, dtype)
        for before in (None, state):
            moved, after = submission.training.adamw_step(parameter, gradient, before, 0.1)
            for tensor, what in zip(
                (moved, *read_state(after)[1:]), ("parameter", "mean", "square"), strict=True
            ):
                keeps_dtype(tensor, dtype, f"the {what}")


# 9.5 A step of training


def draw_batch(draw, pad_id=PAD, rows=BATCH, longest=QUERY):
    """Draw sentences with padding on both sides; no word is the padding or the start token."""
    source = draw.integers(2, SOURCE_VOCAB, batch=rows, key=KEY)
    target = draw.integers(2, TARGET_VOCAB, batch=rows, query=longest)
    source[source == pad_id] = 2
    target[target == pad_id] = 2
    source[0, -3:] = pad_id
    target[0, -2:] = target[-1, -1:] = pad_id
    return source, target


def models(submission, expected, draw, dropout=0.0, scale=0.5):
    """Make a small model on both sides, with the same drawn parameters."""
    theirs = expected.training.WordModel(SOURCE_VOCAB, TARGET_VOCAB, D_MODEL, dropout)
    mine = submission.training.WordModel(SOURCE_VOCAB, TARGET_VOCAB, D_MODEL, dropout)
    theirs.double()
    mine.double()
    state = draw.state(theirs, scale)
    for model in (theirs, mine):
        model.load_state_dict(state)
    return mine, theirs


def take_steps(code, model, batches, rate, *options, **more):
    """Make steps of plain gradient descent: gives the losses, and the parameters in the end."""
    optimizer = code.training.Descent(model, rate)
    losses = [
        code.training.train_step(model, optimizer, *batch, BOS, PAD, *options, **more)
        for batch in batches
    ]
    return losses, model.state_dict()


def compare_training(losses, state, right_losses, right_state, when=""):
    for number, (mine, wanted) in enumerate(zip(losses, right_losses, strict=True)):
        which = f"the loss of step {number + 1}" if len(losses) > 1 else "the loss"
        agree(mine, wanted, f"{when}{which}", rel=1e-5)
    require(state.keys() == right_state.keys(), "the model has other parameters than before")
    for name, wanted in right_state.items():
        agree(state[name], wanted, f"{when}after the step, {name}", rel=1e-4, abs=1e-6)


@exercise("9.5")
def test_one_step_moves_the_model_against_the_gradient(submission, expected, draw):
    (mine, theirs), batch = models(submission, expected, draw), draw_batch(draw)
    right = take_steps(expected, theirs, [batch], 0.5, 1e3)
    compare_training(*take_steps(submission, mine, [batch], 0.5, 1e3), *right)


@exercise("9.5")
def test_the_loss_is_that_of_before_the_step(submission, expected, draw):
    (mine, theirs), batch = models(submission, expected, draw), draw_batch(draw)
    right, _ = take_steps(expected, theirs, [batch], 5.0, 1e3)
    losses, _ = take_steps(submission, mine, [batch], 5.0, 1e3)
    agree(losses[0], right[0], "the loss before the step", rel=1e-5)


@exercise("9.5")
def test_gradients_of_the_last_step_do_not_count(submission, expected, draw):
    (mine, theirs), batches = models(submission, expected, draw), [draw_batch(draw) for _ in range(3)]
    right = take_steps(expected, theirs, batches, 0.5, 1e3)
    compare_training(*take_steps(submission, mine, batches, 0.5, 1e3), *right, "in three steps ")


@exercise("9.5")
def test_gradients_that_somebody_left_behind_do_not_count(submission, expected, draw):
    (mine, theirs), batch = models(submission, expected, draw), draw_batch(draw)
    for model in (theirs, mine):
        model.set_gradients(0.7)
    right = take_steps(expected, theirs, [batch], 0.5, 1e3)
    found = take_steps(submission, mine, [batch], 0.5, 1e3)
    compare_training(*found, *right, "with old gradients lying about, ")


@exercise("9.5")
def test_all_gradients_are_clipped_as_one(submission, expected, draw):
    (mine, theirs), batch = models(submission, expected, draw), draw_batch(draw)
    right = take_steps(expected, theirs, [batch], 2.0, 0.05)
    found = take_steps(submission, mine, [batch], 2.0, 0.05)
    mine.gradients()  # whatever is left tells mistakes apart
    compare_training(*found, *right, "with gradients clipped to 0.05, ")


@exercise("9.5")
def test_gradients_below_the_limit_stay_as_they_are(submission, expected, draw):
    (mine, theirs), batch = models(submission, expected, draw, scale=4.0), draw_batch(draw)
    right = take_steps(expected, theirs, [batch], 0.1, 90.0)
    compare_training(*take_steps(submission, mine, [batch], 0.1, 90.0), *right, "below the limit, ")


@exercise("9.5")
def test_the_target_is_smoothed(submission, expected, draw):
    (mine, theirs), batch = models(submission, expected, draw), draw_batch(draw)
    right = take_steps(expected, theirs, [batch], 0.5, 1e3, 0.3)
    compare_training(
        *take_steps(submission, mine, [batch], 0.5, 1e3, 0.3), *right, "with smoothing 0.3 "
    )


@exercise("9.5")
def test_limit_and_smoothing_have_defaults(submission, expected, draw):
    (mine, theirs), batch = models(submission, expected, draw), draw_batch(draw)
    right = take_steps(expected, theirs, [batch], 0.5)
    compare_training(*take_steps(submission, mine, [batch], 0.5), *right, "with the defaults ")


@exercise("9.5")
def test_padding_and_start_token_are_those_that_are_given(submission, expected, draw):
    mine, theirs = models(submission, expected, draw)
    source, target = draw_batch(draw, pad_id=4)
    target[1, 2] = source[1, 1] = 0  # a word like any other here
    results = []
    for code, model in ((expected, theirs), (submission, mine)):
        optimizer = code.training.Descent(model, 0.5)
        loss = code.training.train_step(model, optimizer, source, target, 7, 4, 1e3)
        results.append(([loss], model.state_dict()))
    compare_training(*results[1], *results[0], "with start token 7 and padding 4 ")


@exercise("9.5")
def test_a_batch_of_sentences_of_very_different_length_counts_words(submission, expected, draw):
    mine, theirs = models(submission, expected, draw)
    source, target = draw_batch(draw, longest=9)
    target[0, 1:] = PAD
    right = take_steps(expected, theirs, [(source, target)], 0.5, 1e3)
    found = take_steps(submission, mine, [(source, target)], 0.5, 1e3)
    compare_training(*found, *right, "with a sentence of one word ")


@exercise("9.5")
def test_a_batch_can_be_learned_by_heart(submission, expected, draw):
    (mine, _), batch = models(submission, expected, draw), draw_batch(draw)
    losses, _ = take_steps(submission, mine, [batch] * 15, 4.0, 1e3)
    require(
        losses[0] > 1.5, f"before the first step the loss of 13 words should not be {losses[0]:.2f}"
    )
    require(
        losses[-1] < 0.6 * losses[0],
        f"after 15 steps on one batch the loss went from {losses[0]:.2f} to {losses[-1]:.2f} only",
    )


@exercise("9.5")
def test_a_model_in_half_the_precision_is_trained_too(submission, expected, draw):
    theirs = expected.training.WordModel(SOURCE_VOCAB, TARGET_VOCAB, D_MODEL)
    mine = submission.training.WordModel(SOURCE_VOCAB, TARGET_VOCAB, D_MODEL)
    state, batch = draw.state(theirs), draw_batch(draw)
    for model in (theirs, mine):
        model.load_state_dict(state)
    right = take_steps(expected, theirs, [batch], 0.5, 0.3)
    losses, after = take_steps(submission, mine, [batch], 0.5, 0.3)
    agree(losses[0], right[0][0], "in single precision the loss", rel=1e-3)
    for name, wanted in right[1].items():
        agree(after[name], wanted, f"in single precision {name}", rel=1e-3, abs=1e-4)


@guard("9.5")
def test_the_model_is_called_once_in_training_mode_and_stays_in_it(submission, expected, draw):
    (mine, _), batch = models(submission, expected, draw), draw_batch(draw)
    take_steps(submission, mine, [batch], 0.5)
    seen = mine.seen()
    require(len(seen) == 1, f"the model should be called once, it was called {len(seen)} times")
    require(seen[0][0], "while it is trained, the model should be in training mode")
    require(mine.is_training(), "after the step the model should still be in training mode")


@guard("9.5")
def test_a_step_of_training_leaves_the_batch_alone(submission, expected, draw):
    (mine, _), batch = models(submission, expected, draw), draw_batch(draw)
    optimizer = submission.training.Descent(mine, 0.5)
    names = ("model", "optimizer", "source", "target")
    leaves_inputs_alone(submission.training.train_step, mine, optimizer, *batch, BOS, PAD, names=names)


# 9.6 The loss on held-out sentences


def draw_batches(draw, pad_id=PAD):
    """Draw batches of different sizes, and with different shares of padding."""
    first, second = (
        draw_batch(draw, pad_id, rows=6, longest=4),
        draw_batch(draw, pad_id, rows=2, longest=9),
    )
    first[1][2:, 1:] = pad_id
    return [first, second]


@exercise("9.6")
def test_every_word_of_all_batches_counts_the_same(submission, expected, draw):
    (mine, theirs), batches = models(submission, expected, draw), draw_batches(draw)
    right = expected.training.evaluate(theirs, batches, BOS, PAD)
    loss = submission.training.evaluate(mine, batches, BOS, PAD)
    agree(loss, right, "the loss of two batches of different sizes", rel=1e-6)


@exercise("9.6")
def test_one_batch_has_the_loss_of_its_words(submission, expected, draw):
    (mine, theirs), batches = models(submission, expected, draw), draw_batches(draw)
    for batch, which in zip(batches, ("first", "second"), strict=True):
        right = expected.training.evaluate(theirs, [batch], BOS, PAD)
        loss = submission.training.evaluate(mine, [batch], BOS, PAD)
        agree(loss, right, f"the loss of the {which} batch alone", rel=1e-6)


@exercise("9.6")
def test_dropout_is_off(submission, expected, draw):
    (mine, theirs), batches = models(submission, expected, draw, dropout=0.5), draw_batches(draw)
    right = expected.training.evaluate(theirs, batches, BOS, PAD)
    function = submission.training.evaluate.seen_as(lambda loss: abs(loss - right) < 1e-6, 0.0)
    agree(function(mine, batches, BOS, PAD), right, "with dropout in the model, the loss", rel=1e-6)


@exercise("9.6")
def test_cutting_the_batches_otherwise_changes_nothing(submission, expected, draw):
    mine, theirs = models(submission, expected, draw)
    source, target = draw_batch(draw, rows=7, longest=6)
    target[1:4, 2:] = PAD
    cut = [(source[:1], target[:1]), (source[1:4], target[1:4]), (source[4:], target[4:])]
    whole = expected.training.evaluate(theirs, [(source, target)], BOS, PAD)
    parts = submission.training.evaluate(mine, cut, BOS, PAD)
    agree(parts, whole, "the loss of a batch that is cut into three", rel=1e-6)


@exercise("9.6")
def test_a_batch_without_words_adds_nothing(submission, expected, draw):
    (mine, theirs), batches = models(submission, expected, draw), draw_batches(draw)
    right = expected.training.evaluate(theirs, batches, BOS, PAD)
    source, target = batches[1]
    empty = (source, target * 0 + PAD)
    loss = submission.training.evaluate(mine, [batches[0], empty, batches[1]], BOS, PAD)
    agree(loss, right, "with a batch of nothing but padding in between, the loss", rel=1e-6)


@exercise("9.6")
def test_evaluation_takes_the_padding_and_the_start_token_that_are_given(submission, expected, draw):
    (mine, theirs), batches = models(submission, expected, draw), draw_batches(draw, pad_id=4)
    batches[0][1][1, 1] = batches[1][1][0, 0] = 0  # a word like any other here
    right = expected.training.evaluate(theirs, batches, 7, 4)
    loss = submission.training.evaluate(mine, batches, 7, 4)
    agree(loss, right, "with start token 7 and padding 4 the loss", rel=1e-6)


@exercise("9.6")
def test_a_model_that_is_not_training_is_evaluated_too(submission, expected, draw):
    (mine, theirs), batches = models(submission, expected, draw, dropout=0.5), draw_batches(draw)
    for model in (theirs, mine):
        model.eval()
    right = expected.training.evaluate(theirs, batches, BOS, PAD)
    loss = submission.training.evaluate(mine, batches, BOS, PAD)
    agree(loss, right, "of a model in evaluation mode the loss", rel=1e-6)


@exercise("9.6")
def test_three_batches_of_one_word_each(submission, expected, draw):
    mine, theirs = models(submission, expected, draw)
    batches = [draw_batch(draw, rows=1, longest=4) for _ in range(3)]
    for _, target in batches:
        target[:, 1:] = PAD
    right = expected.training.evaluate(theirs, batches, BOS, PAD)
    loss = submission.training.evaluate(mine, batches, BOS, PAD)
    agree(loss, right, "the loss of three batches of one word each", rel=1e-6)


@guard("9.6")
def test_afterwards_the_model_is_in_the_mode_in_which_it_came(submission, expected, draw):
    (mine, _), batches = models(submission, expected, draw), draw_batches(draw)
    submission.training.evaluate(mine, batches, BOS, PAD)
    after_training = mine.is_training()
    mine.eval()
    submission.training.evaluate(mine, batches, BOS, PAD)
    after_none = mine.is_training()
    require(after_training, "a model that was training should be training again afterwards")
    require(not after_none, "a model that was not training should not be training afterwards")


@guard("9.6")
def test_no_gradients_are_recorded_and_each_batch_is_read_once(submission, expected, draw):
    (mine, _), batches = models(submission, expected, draw), draw_batches(draw)
    submission.training.evaluate(mine, batches, BOS, PAD)
    seen = mine.seen()
    require(
        not any(recorded for _, recorded in seen),
        "while the model is called, gradients are recorded: that costs memory for nothing",
    )
    require(
        not any(training for training, _ in seen), "while it is called, the model is in training mode"
    )


@guard("9.6")
def test_parameters_and_their_gradients_stay(submission, expected, draw):
    (mine, _), batches = models(submission, expected, draw), draw_batches(draw)
    mine.set_gradients(0.7)
    before = mine.state_dict()
    submission.training.evaluate(mine, batches, BOS, PAD)
    for name, after in mine.state_dict().items():
        agree(after, before[name], f"after evaluation {name}")
    for gradient in mine.gradients():
        require(gradient is not None, "after evaluation the gradients that were there are gone")
        agree(gradient, 0.7, "after evaluation a gradient that was 0.7")


@guard("9.6")
def test_evaluation_leaves_the_batches_alone(submission, expected, draw):
    (mine, _), batches = models(submission, expected, draw), draw_batches(draw)
    names = ("model", "batches")
    leaves_inputs_alone(submission.training.evaluate, mine, batches, BOS, PAD, names=names)


# 9.7 BLEU

WORDS = ("the", "a", "cat", "dog", "sits", "sleeps", "on", "under", "mat", "red", "old", "small")


def cut(text):
    return text.split()


def draw_sentences(draw, count, low=5, high=12, words=12):
    """Draw references, and hypotheses that share stretches with them."""
    references, hypotheses = [], []
    for _ in range(count):
        length = draw.number(low, high)
        reference = draw.integers(0, words, seq=length).tolist()
        noise = draw.integers(0, words, seq=length).tolist()
        start, end = draw.number(0, 3), draw.number(0, 3)
        hypothesis = noise[:start] + reference[start : length - end] + noise[: draw.number(0, 4)]
        references.append([WORDS[i] for i in reference])
        hypotheses.append([WORDS[i] for i in hypothesis])
    return hypotheses, references


def compare_bleu(submission, expected, hypotheses, references, what, *options):
    right = expected.metrics.bleu(hypotheses, references, *options)
    found = submission.metrics.bleu(hypotheses, references, *options)
    agree(found, right, what, rel=1e-6, abs=1e-6)


@exercise("9.7")
def test_the_bleu_of_a_corpus(submission, expected, draw):
    for count in (4, 9):
        compare_bleu(
            submission, expected, *draw_sentences(draw, count), f"the BLEU of {count} sentences"
        )


@exercise("9.7")
def test_a_perfect_translation_has_100(submission, draw):
    _, references = draw_sentences(draw, 5)
    agree(submission.metrics.bleu(references, references), 100.0, "the BLEU of a perfect translation")


@exercise("9.7")
def test_five_words_by_hand(submission):
    hypothesis, reference = cut("the cat sits on mats"), cut("the cat sits on the mat")
    # 4 of 5 words, 3 of 4 pairs, 2 of 3, 1 of 2: their product is 1/5; and one word of six is missing.
    right = 100 * 0.2**0.25 * math.exp(1 - 6 / 5)
    found = submission.metrics.bleu([hypothesis], [reference])
    agree(found, right, "the BLEU of `the cat sits on mats` for `the cat sits on the mat`", rel=1e-6)


@exercise("9.7")
def test_a_word_matches_as_often_as_the_reference_has_it(submission):
    hypothesis, reference = (
        cut("the the the the the the the"),
        cut("the cat sits on the mat today"),
    )
    found = submission.metrics.bleu([hypothesis], [reference], 1)
    agree(
        found,
        200 / 7,
        "with max_n 1, the BLEU of seven times `the` where the reference has two",
        rel=1e-6,
    )


@exercise("9.7")
def test_repeated_stretches_are_clipped_at_every_order(submission, expected, draw):
    hypotheses, references = draw_sentences(draw, 5, words=3)
    compare_bleu(submission, expected, hypotheses, references, "with three words in all, the BLEU")


@exercise("9.7")
def test_counts_are_added_up_before_they_are_divided(submission, expected, draw):
    hypotheses, references = draw_sentences(draw, 3)
    hypotheses.append(cut("old dog"))
    references.append(cut("the old dog sleeps under a tree"))
    what = "the BLEU of sentences of which one is far too short"
    compare_bleu(submission, expected, hypotheses, references, what)


@exercise("9.7")
def test_a_match_must_be_in_the_sentences_own_reference(submission, expected, draw):
    hypotheses, references = draw_sentences(draw, 4)
    hypotheses, references = hypotheses + references[:2], references + references[2:4]
    what = "where some translations belong to other sentences, the BLEU"
    compare_bleu(submission, expected, hypotheses, references, what)


@exercise("9.7")
def test_translations_that_are_too_short_pay(submission, expected, draw):
    hypotheses, references = draw_sentences(draw, 4, low=9, high=13)
    hypotheses = [sentence[:6] for sentence in references]
    what = "of translations that break off after six words, the BLEU"
    compare_bleu(submission, expected, hypotheses, references, what)


@exercise("9.7")
def test_translations_that_are_too_long_pay_by_precision_alone(submission, expected, draw):
    _, references = draw_sentences(draw, 4)
    hypotheses = [[*sentence, "and", "so", "on"] for sentence in references]
    compare_bleu(submission, expected, hypotheses, references, "of translations that go on, the BLEU")


@exercise("9.7")
def test_the_penalty_compares_the_whole_corpus(submission, expected, draw):
    _, references = draw_sentences(draw, 4, low=8, high=12)
    hypotheses = [references[0][:5], [*references[1], "and", "so", "on", "then"], *references[2:]]
    what = "where one translation is too short and another too long, the BLEU"
    compare_bleu(submission, expected, hypotheses, references, what)


@exercise("9.7")
def test_the_highest_order_is_the_one_that_is_given(submission, expected, draw):
    hypotheses, references = draw_sentences(draw, 5)
    for max_n in (1, 2, 3, 5):
        what = f"with n-grams of at most {max_n} words the BLEU"
        compare_bleu(submission, expected, hypotheses, references, what, max_n)


def is_above_0(score):
    # How much above, depends on the number with which somebody smooths.
    return score > 0 if isinstance(score, float) else score


@guard("9.7")
def test_nothing_is_smoothed(submission, device):
    bleu = submission.metrics.bleu.seen_as(is_above_0, 0.0)
    hypothesis, reference = cut("a dog sits on a mat"), cut("the dog sleeps on the mat")
    agree(bleu([hypothesis], [reference]), 0.0, "where no pair of words matches, the BLEU")
    agree(bleu([["dog"]], [["dog"]]), 0.0, "where there is no n-gram of four words, the BLEU")
    agree(bleu([["mice"]], [["dog"]]), 0.0, "where nothing matches, the BLEU")


@exercise("9.7")
def test_an_empty_translation_counts_by_what_it_lacks(submission, expected, draw):
    hypotheses, references = draw_sentences(draw, 4)
    hypotheses[1] = []
    compare_bleu(submission, expected, hypotheses, references, "with an empty translation, the BLEU")


@guard("9.7")
def test_nothing_but_empty_translations_has_0(submission):
    found = submission.metrics.bleu([[], []], [["a", "dog"], ["the", "cat"]])
    agree(found, 0.0, "the BLEU of empty translations")


@exercise("9.7")
def test_the_order_of_the_sentences_does_not_matter(submission, expected, draw):
    hypotheses, references = draw_sentences(draw, 6)
    right = expected.metrics.bleu(hypotheses, references)
    found = submission.metrics.bleu(hypotheses[::-1], references[::-1])
    agree(found, right, "the BLEU of the sentences in reverse order", rel=1e-6)
