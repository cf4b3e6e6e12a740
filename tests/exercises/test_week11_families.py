"""Week 11: three families: what is hidden, who may look where, and what is asked for."""

import torch

from lab_check.running.testing import (
    agree,
    exercise,
    finite,
    gradients,
    gradients_agree,
    guard,
    keeps_dtype,
    leaves_inputs_alone,
    require,
    same_items,
)

# Sizes never coincide: an exchanged axis cannot go unnoticed.
LAYERS, HEADS, BATCH, CLASSES, SEQ, D_FF, D_MODEL = 2, 3, 5, 4, 7, 8, 12
VOCAB, PAD, LENGTH = 13, 0, 10
STATES, LOGITS = "batch seq d_model", "batch seq vocab"
T, F = True, False


# 11.1 Words to be guessed

MASK, SPECIAL, WORDS = 3, [0, 1, 9], 24  # mask_id is not among the special ones here
COPIES = 300


def draw_text(draw, copies=COPIES, words=WORDS):
    """A text in which every third token is special, over and over again: (copies, 90)."""
    text = draw.integers(4, words, places=90)
    text[text == 9] = 8
    text[::3] = torch.tensor([0, 1, 9, 3, 0, 9] * 5, device=text.device)
    return text.repeat(copies, 1)


def is_special(tokens, special=(*SPECIAL, MASK)):
    return torch.isin(tokens, torch.tensor(special, device=tokens.device))


def share(hits, among):
    return float(hits.double().sum() / max(int(among.sum()), 1))


def shares(tokens, inputs, labels, special=(*SPECIAL, MASK), mask_id=MASK):
    """How often what happens to a token: of the ordinary ones, and of those that are asked for."""
    asked, ordinary = labels != -100, ~is_special(tokens, special)
    masked, same = inputs == mask_id, inputs == tokens
    other = asked & ~masked & ~same
    return {
        "asked": share(asked & ordinary, ordinary),
        "masked": share(masked & asked & ordinary, asked & ordinary),
        "kept": share(same & asked & ordinary, asked & ordinary),
        "random": share(other & ordinary, asked & ordinary),
        "random and special": share(other & is_special(inputs, special), other),
        "special and asked": share(asked & ~ordinary, ~ordinary),
        "special and changed": share(~same & ~ordinary, ~ordinary),
        "not asked and changed": share(~asked & ~same, ~asked),
    }


def brief(tokens):
    """What recognition may look at: shares, whatever the luck of the draw, and what labels hold."""

    def seen(result):
        inputs, labels = result
        odd = (labels != -100) & (labels != tokens)
        asked = (labels != -100) & ~is_special(tokens)
        return [
            torch.tensor(list(shares(tokens, inputs, labels).values())),
            share(odd, torch.ones_like(odd)) > 0.001,
            sorted({*labels[is_special(tokens)].tolist()}),
            bool((asked & (inputs == tokens)).any()),
            asked.ndim == 2 and len({*asked.sum(dim=-1).tolist()}) == 1,
            str(labels.dtype),
            int(inputs.min()) < 0,
            int(inputs.max()) >= WORDS,
        ]

    return seen


def masker(submission, tokens):
    return submission.families.mask_tokens.seen_as(brief(tokens), 0.07)


def mask(submission, draw, tokens=None, **options):
    """Mask a long text: the text, the inputs, the labels."""
    tokens = draw_text(draw) if tokens is None else tokens
    call = masker(submission, tokens)
    inputs, labels = call(tokens, MASK, WORDS, SPECIAL, draw.generator(), **options)
    return tokens, inputs, labels


def near(found, wanted, count, what):
    """Six standard deviations of a share of `count` draws: chance will not explain more."""
    allowed = 6 * (wanted * (1 - wanted) / count) ** 0.5
    require(
        abs(found - wanted) <= allowed,
        f"{what} should be about {wanted:.3g}, and it is {found:.3g}",
    )


@exercise("11.1")
def test_labels_say_what_stood_there_and_minus_100_elsewhere(submission, draw):
    tokens, inputs, labels = mask(submission, draw)
    asked = labels != -100
    require(bool(asked.any()), "no token is asked for: every label is -100")
    require(not asked.all(), "every token is asked for: no label is -100")
    wrong = asked & (labels != tokens)
    require(
        not wrong.any(),
        f"{int(wrong.sum())} labels are neither -100 nor the token that stood there in the text",
    )
    changed = ~asked & (inputs != tokens)
    require(
        not changed.any(),
        f"{int(changed.sum())} tokens are changed in the inputs although their label is -100: "
        "where nothing is asked, the text stays as it is",
    )


@exercise("11.1")
def test_ordinary_tokens_are_asked_for_at_the_rate(submission, draw):
    for rate in (0.15, 0.5):
        options = {} if rate == 0.15 else {"rate": rate}
        tokens, _, labels = mask(submission, draw, **options)
        ordinary = ~is_special(tokens)
        asked = share((labels != -100) & ordinary, ordinary)
        near(asked, rate, int(ordinary.sum()), f"at a rate of {rate} the share that is asked for")


@exercise("11.1")
def test_special_tokens_are_never_asked_for_and_stay(submission, draw):
    tokens, inputs, labels = mask(submission, draw, rate=0.6)
    for token in (*SPECIAL, MASK):
        here = tokens == token
        name = "mask_id, which counts as special," if token == MASK else f"the special token {token}"
        require(not (here & (labels != -100)).any(), f"{name} is asked for: its label is not -100")
        require(not (here & (inputs != token)).any(), f"{name} was changed in the inputs")
    require(bool((labels != -100).any()), "no token is asked for: every label is -100")


@exercise("11.1")
def test_of_those_asked_for_most_are_masked_some_random_some_kept(submission, draw):
    tokens, inputs, labels = mask(submission, draw, rate=0.5)
    found, count = shares(tokens, inputs, labels), int((labels != -100).sum())
    # One random token in twenty is the one that stood there.
    same = 0.1 / 20
    near(found["masked"], 0.8, count, "of the tokens asked for, the share that becomes mask_id")
    near(found["kept"], 0.1 + same, count, "of the tokens asked for, the share that stays as it is")
    near(found["random"], 0.1 - same, count, "of the tokens asked for, the share that is replaced")


def random_tokens(submission, draw, words=WORDS, special=SPECIAL, mask_id=MASK):
    """Ask for every token of a text of one word: which, and how often every id stands in its place."""
    ordinary = [n for n in range(words) if n not in special and n != mask_id]
    token = ordinary[draw.number(0, len(ordinary))]
    tokens = torch.full((60, 400), token, device=draw.generator().device)

    def count(inputs):
        return [share(inputs == n, inputs == inputs) for n in range(words)]

    def seen(result):
        found = count(result[0])
        drawn = [found[n] for n in ordinary if n != token]
        usual = 0.1 / len(ordinary)
        came = sorted({*result[0].flatten().tolist()})
        uneven = [min(drawn) < usual / 2, max(drawn) > 2 * usual]
        return [came, uneven, torch.tensor([found[token], found[mask_id]])]

    call = submission.families.mask_tokens.seen_as(seen, 0.025)
    inputs, _ = call(tokens, mask_id, words, special, draw.generator(), rate=1.0)
    return token, ordinary, tokens.numel(), count(inputs)


def check_random_tokens(submission, draw, *given, when):
    token, ordinary, count, found = random_tokens(submission, draw, *given)
    mask_id = given[2]
    for n, here in enumerate(found):
        what = f"{when}, of all tokens asked for, the share that becomes {n}"
        if n == mask_id:
            near(here, 0.8, count, f"{what}, which is mask_id,")
        elif n not in ordinary:
            require(here == 0, f"{when}, the special token {n} is drawn as a random one")
        elif n == token:
            what = f"{when}, of all tokens {n} the share that stays (kept, or drawn again by chance)"
            near(here, 0.1 + 0.1 / len(ordinary), count, what)
        else:
            near(here, 0.1 / len(ordinary), count, what)


@exercise("11.1")
def test_random_tokens_are_any_but_the_special_ones_equally_often(submission, draw):
    check_random_tokens(
        submission, draw, WORDS, SPECIAL, MASK, when=f"with {WORDS} ids, 4 of them special"
    )
    check_random_tokens(submission, draw, 10, [0, 9], 1, when="with 10 ids, 3 of them special")


@exercise("11.1")
def test_the_token_that_stood_there_may_be_drawn_again(submission, draw):
    check_random_tokens(submission, draw, 6, [5, 0, 1], 2, when="with 2 ids that are not special")


@exercise("11.1")
def test_mask_id_may_be_named_among_the_special_tokens(submission, draw):
    check_random_tokens(submission, draw, 12, [2, 0, 1], 2, when="with mask_id among the special ids")


@exercise("11.1")
def test_without_special_ids_only_mask_id_is_special(submission, draw):
    check_random_tokens(submission, draw, 9, [], 8, when="without special ids")


def spread(counts, trials, rate):
    """Compare how numbers of hits scatter with what independent draws do."""
    return float(counts.double().var() / (trials * rate * (1 - rate)))


@exercise("11.1")
def test_every_token_is_chosen_by_a_draw_of_its_own(submission, draw):
    tokens = torch.full((200, 200), draw.number(4, 8), device=draw.generator().device)

    def seen(result):
        asked = result[1] != -100
        spreads = [spread(asked.sum(dim=dim), 200, 0.3) for dim in (1, 0)]
        return [[s < 0.4, s > 2] for s in spreads]

    call = submission.families.mask_tokens.seen_as(seen, 0.0)
    _, labels = call(tokens, MASK, WORDS, SPECIAL, draw.generator(), rate=0.3)
    asked = labels != -100
    rows = spread(asked.sum(dim=1), 200, 0.3)
    require(
        rows > 0.4,
        "every text has nearly the same number of tokens asked for: each is to be chosen with the "
        "probability rate, whatever happens to the others",
    )
    require(
        rows < 2,
        "some texts have nearly all tokens asked for and others hardly any: each token is chosen by a "
        "draw of its own",
    )
    columns = spread(asked.sum(dim=0), 200, 0.3)
    require(
        columns < 2,
        "the same places are asked for in many texts: each token is chosen by a draw of its own",
    )
    require(
        columns > 0.4,
        "every place is asked for in nearly as many texts: each token is chosen by a draw of its own",
    )


@exercise("11.1")
def test_how_many_are_chosen_is_a_matter_of_chance_too(submission, draw):
    tokens = torch.full((4, 30), draw.number(4, 8), device=draw.generator().device)
    counts = []

    def seen(result):
        counts.append(int((result[1] != -100).sum()))
        return len(counts) > 4 and len({*counts}) == 1

    call = submission.families.mask_tokens.seen_as(seen, 0.0)
    for generator in [draw.generator() for _ in range(8)]:
        call(tokens, MASK, WORDS, SPECIAL, generator, rate=0.5)
    require(
        len({*counts}) > 1,
        f"of 120 tokens, {counts[0]} are asked for in each of eight draws: each is to be chosen with "
        "the probability rate, whatever happens to the others",
    )


@exercise("11.1")
def test_what_becomes_of_a_token_is_a_draw_of_its_own(submission, draw):
    tokens = torch.full((200, 200), draw.number(4, 8), device=draw.generator().device)

    def counts(inputs):
        return [
            spread(hits.sum(dim=dim), 200, rate)
            for hits, rate in ((inputs == MASK, 0.8), (inputs == tokens, 0.1 + 0.1 / 20))
            for dim in (1, 0)
        ]

    def seen(result):
        kinds = [len({*row}) > 2 for row in result[0].tolist()]
        return [[s < 0.4, s > 2] for s in counts(result[0])] + [sum(kinds) > 100]

    call = submission.families.mask_tokens.seen_as(seen, 0.0)
    inputs, _ = call(tokens, MASK, WORDS, SPECIAL, draw.generator(), rate=1.0)
    spreads = counts(inputs)
    for what, found in (("becomes mask_id", spreads[:2]), ("stays as it is", spreads[2:])):
        require(
            all(0.4 < one < 2 for one in found),
            f"whether a token that is asked for {what} depends on its place, or on what happens to the "
            "others: it is a matter of chance, drawn for each of them",
        )
    drawn = inputs[(inputs != MASK) & (inputs != tokens)]
    require(
        len(drawn) > 0 and len({*drawn[:200].tolist()}) > 5,
        "hardly any different random tokens are drawn: each place gets one of its own",
    )


@exercise("11.1")
def test_the_generator_decides_what_is_masked(submission, draw):
    tokens = draw_text(draw, copies=4)
    one, other = draw.generator(), draw.generator()
    results = []

    def same_as_first(result):
        results.append(result)
        return [bool(torch.equal(a, b)) for a, b in zip(result, results[0], strict=True)]

    call = submission.families.mask_tokens.seen_as(same_as_first, 0.0)
    for generator in (one, one, other):
        call(tokens, MASK, WORDS, SPECIAL, generator, rate=0.5)
    for i, what in enumerate(("inputs", "labels")):
        require(
            bool(torch.equal(results[0][i], results[1][i])),
            f"two generators in the same state gave different {what}: all chance should come from the "
            "generator that is passed in",
        )
    require(
        not torch.equal(results[0][1], results[2][1]),
        "generators in different states asked for the very same tokens: is anything drawn at random?",
    )


@exercise("11.1")
def test_at_a_rate_of_one_all_ordinary_tokens_are_asked_for(submission, draw):
    tokens, _, labels = mask(submission, draw, rate=1.0)
    right = torch.where(is_special(tokens), -100, tokens)
    missing = int((labels != right).sum())
    require(missing == 0, f"at a rate of 1, {missing} labels are wrong: all but special ones are asked")


@exercise("11.1")
def test_tokens_of_any_shape_keep_shape_and_dtype(submission, draw):
    generator = draw.generator()
    for axes in ({"seq": 40}, {"batch": 2, "beam": 3, "seq": 40}):
        for kind in (torch.int64, torch.int32):
            tokens = draw.integers(4, 9, **axes).to(kind)

            def seen(result, tokens=tokens):
                kinds = [[list(part.shape), str(part.dtype)] for part in result]
                return [kinds, result[1].tolist() == tokens.tolist(), bool((result[0] == MASK).any())]

            call = submission.families.mask_tokens.seen_as(seen, 0.0)
            inputs, labels = call(tokens, MASK, WORDS, SPECIAL, generator, rate=1.0)
            for result, what in ((inputs, "the inputs"), (labels, "the labels")):
                require(
                    result.shape == tokens.shape,
                    f"{what} should have the shape of the tokens, {tuple(tokens.shape)}, "
                    f"not {tuple(result.shape)}",
                )
                keeps_dtype(result, kind, what)
            same_items(labels, tokens, "at a rate of 1 the labels")
            require(bool((inputs == MASK).any()), "at a rate of 1 not one of the tokens is masked")


@guard("11.1")
def test_at_a_rate_of_zero_nothing_is_asked_for(submission, draw):
    tokens = draw.integers(0, WORDS, batch=3, seq=8)
    call = submission.families.mask_tokens
    inputs, labels = call(tokens, MASK, WORDS, SPECIAL, draw.generator(), rate=0.0)
    same_items(inputs, tokens, "at a rate of 0 the inputs")
    same_items(labels, torch.full_like(tokens, -100), "at a rate of 0 the labels")


@guard("11.1")
def test_the_text_is_left_alone(submission, draw):
    call = submission.families.mask_tokens.seen_as(lambda _: "whatever came back", 0.0)
    given = draw_text(draw, copies=2), MASK, WORDS, SPECIAL, draw.generator()
    leaves_inputs_alone(call, *given, rate=0.9, names=("tokens",))


# 11.2 A masked language model

SIZES = {"n_layers": 1, "d_model": D_MODEL, "n_heads": HEADS, "d_ff": D_FF, "max_length": LENGTH}
TIED = ("output.weight", "token_embedding.weight")


def twins(draw, mine, theirs, dtype=torch.float32, tied=None, compared=True):
    """Give the module under test and the right one the same drawn parameters."""
    if dtype == torch.float64:
        theirs.double()
        mine.double()
    state = draw.state(theirs)
    if tied is not None:
        state[tied[0]] = state[tied[1]]
    for module in (theirs, mine) if compared else (mine,):
        module.load_state_dict(state)
    return mine, theirs


def models(submission, expected, draw, dtype=torch.float32, compared=True, **options):
    theirs = expected.families.MaskedLanguageModel(VOCAB, **SIZES | options)
    mine = submission.families.MaskedLanguageModel(VOCAB, **SIZES | options)
    return twins(draw, mine, theirs, dtype, TIED, compared)


def draw_tokens(draw, pad=PAD, seq=SEQ):
    """Draw texts; three of them have padding, which is not always at the end."""
    tokens = draw.integers(1, VOCAB, batch=BATCH, seq=seq)
    tokens[tokens == pad] = pad + 1
    tokens[0, -3:] = tokens[1, -1:] = tokens[2, 1:3] = pad
    return tokens


def draw_words(draw, seq=SEQ):
    """Draw texts without padding."""
    return draw.integers(1, VOCAB, batch=BATCH, seq=seq)


def draw_segments(draw, seq=SEQ):
    segments = draw.integers(0, 2, batch=BATCH, seq=seq)
    segments[:, 0], segments[:, -1] = 0, 1
    return segments


def compare_encode(modules, tokens, segments=None, mask=None, when="", pad=PAD):
    mine, right = modules
    wanted, states = right.encode(tokens, segments, mask), mine.encode(tokens, segments, mask)
    compare_words(states, wanted, tokens, pad, f"{when}the state", STATES)


def compare_logits(modules, tokens, segments=None, mask=None, when="", pad=PAD):
    mine, right = modules
    wanted, logits = right(tokens, segments, mask), mine(tokens, segments, mask)
    compare_words(logits, wanted, tokens, pad, f"{when}the logit", LOGITS)


def compare_words(found, wanted, tokens, pad, what, axes):
    """What comes out at padding is nobody's business."""
    real = (tokens != pad)[..., None]
    agree(found.where(real, 0.0), wanted.where(real, 0.0), what, axes)


@exercise("11.2")
def test_a_text_is_read_with_positions_and_one_segment(submission, expected, draw):
    compare_encode(models(submission, expected, draw), draw_words(draw))


@exercise("11.2")
def test_a_text_is_read_by_post_norm_blocks(submission, expected, draw):
    modules = models(submission, expected, draw, norm_first=False, n_layers=LAYERS)
    compare_encode(modules, draw_words(draw), when="with norm_first=False ")


@exercise("11.2")
def test_the_second_segment_has_a_vector_of_its_own(submission, expected, draw):
    modules = models(submission, expected, draw)
    compare_encode(modules, draw_words(draw), draw_segments(draw), when="with two segments ")


@exercise("11.2")
def test_padding_is_hidden_from_all_words(submission, expected, draw):
    compare_encode(models(submission, expected, draw), draw_tokens(draw), when="with padding ")


@exercise("11.2")
def test_any_token_can_be_the_padding(submission, expected, draw):
    modules = models(submission, expected, draw, pad_id=4)
    tokens = draw_tokens(draw, pad=4)
    tokens[3, 1] = tokens[4, 2] = 0  # a word like any other here
    compare_encode(modules, tokens, when="with pad_id 4 ", pad=4)


@exercise("11.2")
def test_a_mask_hides_more_on_top_of_the_padding(submission, expected, draw):
    modules = models(submission, expected, draw)
    tokens = draw_tokens(draw)
    square = draw.mask(query=SEQ, key=SEQ) | torch.eye(SEQ, dtype=torch.bool, device=tokens.device)
    full = draw.mask(batch=BATCH, heads=HEADS, query=SEQ, key=SEQ)
    full[..., 0] = True
    causal = torch.ones(SEQ, SEQ, dtype=torch.bool, device=tokens.device).tril()
    compare_encode(modules, tokens, mask=square, when="under a mask (seq, seq) ")
    compare_encode(modules, tokens, mask=full, when="under a mask (batch, heads, seq, seq) ")
    compare_encode(modules, tokens, mask=causal, when="under a causal mask ")


@exercise("11.2")
def test_a_mask_that_allows_everything_does_not_show_padding(submission, expected, draw):
    modules = models(submission, expected, draw)
    everything = torch.ones(SEQ, SEQ, dtype=torch.bool, device=draw.generator().device)
    compare_encode(modules, draw_tokens(draw), mask=everything, when="under a mask of True ")


@exercise("11.2")
def test_a_later_word_changes_what_is_guessed_before_it(submission, expected, draw):
    mine, _ = models(submission, expected, draw, compared=False)
    tokens = draw_words(draw)
    other = tokens.clone()
    other[:, -1] = (tokens[:, -1] % (VOCAB - 1)) + 1
    first, second = mine(tokens), mine(other)
    change = (first - second)[:, 0].abs().amax(dim=-1)
    require(
        bool((change > 1e-4).all()),
        "the guess at the first place does not depend on the last word: an encoder looks both ways",
    )


@exercise("11.2")
def test_states_go_through_head_and_output(submission, expected, draw):
    modules = models(submission, expected, draw)
    compare_logits(modules, draw_words(draw))


@exercise("11.2")
def test_segments_mask_and_padding_reach_the_logits(submission, expected, draw):
    modules = models(submission, expected, draw, norm_first=False)
    tokens, segments = draw_tokens(draw), draw_segments(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=SEQ, key=SEQ)
    mask[..., 0] = True
    compare_logits(modules, tokens, segments, when="with two segments ")
    compare_logits(modules, tokens, segments, mask, when="with two segments and a mask ")


@exercise("11.2")
def test_texts_may_be_of_any_length_that_fits(submission, expected, draw):
    modules = models(submission, expected, draw)
    for seq in (1, LENGTH):
        compare_logits(modules, draw_words(draw, seq=seq), when=f"for {seq} tokens ")


@guard("11.2")
def test_more_padding_changes_nothing(submission, expected, draw):
    mine, _ = models(submission, expected, draw, compared=False)
    tokens = draw_words(draw)
    longer = torch.cat([tokens, tokens.new_full((BATCH, 3), PAD)], dim=1)
    logits, again = mine(tokens), mine(longer)
    agree(again[:, :SEQ], logits, "with more padding the logit", LOGITS)


@guard("11.2")
def test_a_text_of_nothing_but_padding_spoils_no_other(submission, expected, draw):
    mine, _ = models(submission, expected, draw, compared=False)
    tokens = draw_words(draw)
    alone = mine(tokens[1:])
    tokens[0] = PAD
    logits = mine(tokens)
    finite(logits, "beside a text of padding the logits")
    agree(logits[1:], alone, "beside a text of padding the logit", LOGITS)


def shares_values(state):
    return bool(torch.equal(state[TIED[0]], state[TIED[1]])) if TIED[0] in state else None


@exercise("11.2")
def test_output_and_token_embedding_learn_one_matrix(submission, expected, draw):
    mine, right = models(submission, expected, draw, torch.float64)
    tokens = draw_words(draw)
    wanted = gradients(right, tokens)["parameter token_embedding.weight"]
    # How values are shared, before and after two different matrices are loaded, tells mistakes apart.
    new = submission.families.MaskedLanguageModel(VOCAB, **SIZES)
    state = new.state_dict.seen_as(shares_values, 0.0)()
    new.load_state_dict(state | {TIED[0]: state[TIED[0]] + 1.0})
    new.state_dict.seen_as(shares_values, 0.0)()
    found = gradients(mine, tokens)["parameter token_embedding.weight"]
    require(
        found is not None and torch.allclose(found, wanted, rtol=1e-5, atol=1e-7),
        "the gradient for the token embedding is not that of one matrix with two uses: it should be "
        "trained by the look-up of tokens and by the output layer, both",
    )


@exercise("11.2")
def test_gradients_reach_all_parameters_of_the_model(submission, expected, draw):
    mine, right = models(submission, expected, draw, torch.float64)
    gradients_agree(mine, right, draw_words(draw), draw_segments(draw))


@guard("11.2")
def test_the_model_leaves_its_inputs_alone(submission, expected, draw):
    mine, _ = models(submission, expected, draw, compared=False)
    tokens, segments = draw_tokens(draw), draw_segments(draw)
    # A mask of the size of the padding mask: only such a one could be combined with it in place.
    mask = draw.mask(batch=BATCH, heads=1, query=1, key=SEQ)
    mask[..., 0] = True
    leaves_inputs_alone(mine, tokens, segments, mask, names=("tokens", "segments", "mask"))


@guard("11.2")
def test_the_model_computes_in_its_own_precision(submission, expected, draw):
    mine, _ = models(submission, expected, draw, torch.float64, compared=False)
    keeps_dtype(mine(draw_words(draw)), torch.float64, "the logits")


# 11.3 Spans that went missing


def compare_spans(submission, tokens, spans, sentinels, wanted, when=""):
    found = submission.families.corrupt_spans(tokens, spans, sentinels)
    for i, what in enumerate(("inputs", "targets")):
        require(
            isinstance(found[i], list | tuple),
            f"the {what} should be a list of tokens, they are a {type(found[i]).__name__}",
        )
        same_items(list(found[i]), wanted[i], f"{when}the {what}")


def draw_list(draw, low, high, count):
    return draw.integers(low, high, places=count).tolist()


def draw_sentinels(draw, count):
    """Sentinels in no order that could be guessed."""
    return (draw.normal(sentinels=count).argsort() + 900).tolist()


@exercise("11.3")
def test_one_word_each_way_by_hand(submission):
    tokens, spans, sentinels = [11, 12, 13, 14, 15, 16, 17], [(1, 3), (5, 6)], [99, 98, 97]
    wanted = [11, 99, 14, 15, 98, 17], [99, 12, 13, 98, 16, 97]
    compare_spans(submission, tokens, spans, sentinels, wanted, "for 11 12 13 14 15 16 17 ")


def compare_drawn(submission, expected, draw, spans, length=20, extra=1, when=""):
    tokens = draw_list(draw, 10, 100, length)
    sentinels = draw_sentinels(draw, len(spans) + extra)
    wanted = expected.families.corrupt_spans(tokens, spans, sentinels)
    compare_spans(submission, tokens, spans, sentinels, wanted, when)


@exercise("11.3")
def test_every_span_is_one_sentinel_and_stands_in_the_targets(submission, expected, draw):
    start = draw.number(2, 5)
    spans = [(start, start + 2), (start + 4, start + 5), (13, 17)]
    compare_drawn(submission, expected, draw, spans)


@exercise("11.3")
def test_spans_may_come_in_any_order(submission, expected, draw):
    spans = [(15, 17), (1, 2), (draw.number(9, 11), 12), (4, 7)]
    compare_drawn(submission, expected, draw, spans, when="for spans in another order ")


@exercise("11.3")
def test_spans_that_touch_are_one(submission, expected, draw):
    middle = draw.number(5, 8)
    spans = [(3, middle), (middle, 10), (14, 15)]
    compare_drawn(submission, expected, draw, spans, when="for spans that touch ")


@exercise("11.3")
def test_many_spans_that_touch_in_any_order_are_one(submission, expected, draw):
    spans = [(6, 7), (3, 4), (5, 6), (4, 5), (12, 13), (11, 12)]
    compare_drawn(submission, expected, draw, spans, when="for spans of one token in a row ")


@exercise("11.3")
def test_spans_that_overlap_are_one(submission, expected, draw):
    end = draw.number(8, 12)
    compare_drawn(submission, expected, draw, [(3, 7), (5, end), (15, 18)], when="for overlaps ")
    inside = [(2, 12), (4, end - 3), (9, 10), (14, 15)]
    compare_drawn(submission, expected, draw, inside, when="for spans within another one ")
    compare_drawn(submission, expected, draw, [(4, 6), (4, 6), (9, 11)], when="for one span twice ")


@exercise("11.3")
def test_spans_with_one_word_between_them_stay_two(submission, expected, draw):
    middle = draw.number(5, 8)
    spans = [(3, middle), (middle + 1, 10)]
    compare_drawn(submission, expected, draw, spans, when="for spans with one word between them ")


@exercise("11.3")
def test_the_first_and_the_last_token_may_go(submission, expected, draw):
    length = draw.number(12, 18)
    compare_drawn(
        submission, expected, draw, [(0, 2), (length - 3, length)], length, when="at both ends "
    )
    compare_drawn(submission, expected, draw, [(0, 1)], length, when="for the first token alone ")
    compare_drawn(
        submission, expected, draw, [(length - 1, length)], length, when="for the last alone "
    )


@exercise("11.3")
def test_everything_may_go(submission, expected, draw):
    compare_drawn(submission, expected, draw, [(0, 9)], length=9, when="with everything cut out ")


@exercise("11.3")
def test_sentinels_that_are_left_over_are_not_used(submission, expected, draw):
    spans = [(2, 4), (7, 8), (11, 15)]
    compare_drawn(submission, expected, draw, spans, extra=5, when="with sentinels left over ")


@exercise("11.3")
def test_without_spans_the_targets_are_the_first_sentinel(submission, expected, draw):
    compare_drawn(submission, expected, draw, [], extra=3, when="without spans ")


@exercise("11.3")
def test_equal_tokens_are_no_trouble(submission, expected, draw):
    tokens = [7, 7, 8, 7, 7, 8, 7, 7, 8, 7]
    spans, sentinels = [(1, 3), (4, 6), (8, 9)], draw_sentinels(draw, 4)
    wanted = expected.families.corrupt_spans(tokens, spans, sentinels)
    compare_spans(submission, tokens, spans, sentinels, wanted, "for a text that repeats itself ")


# 11.4 A mask with a prefix

MASKS = "batch head query key"


def draw_prefixes(draw, length):
    """One prefix of nothing, one of everything, and three between."""
    prefixes = draw.integers(1, length, batch=BATCH)
    prefixes[1], prefixes[3] = 0, length
    return prefixes


@exercise("11.4")
def test_a_prefix_of_two_words_in_four_by_hand(submission, device):
    mask = submission.families.prefix_mask(torch.tensor([2], device=device), 4)
    by_hand = torch.tensor([[[[T, T, F, F], [T, T, F, F], [T, T, T, F], [T, T, T, T]]]])
    same_items(mask, by_hand, "the mask of 4 words, 2 of them the prefix,")


@exercise("11.4")
def test_every_text_has_its_own_prefix(submission, expected, draw):
    for length in (draw.number(6, 9), draw.number(9, 15)):
        prefixes = draw_prefixes(draw, length)
        right = expected.families.prefix_mask(prefixes, length)
        mask = submission.families.prefix_mask(prefixes, length)
        agree(mask, right, f"for {length} words and prefixes of {prefixes.tolist()}, the mask", MASKS)


@exercise("11.4")
def test_the_first_word_sees_the_whole_prefix_and_no_more(submission, draw):
    length = draw.number(7, 12)
    prefix = draw.number(3, length - 2)
    prefixes = torch.tensor([prefix, prefix], device=draw.generator().device)
    row = submission.families.prefix_mask(prefixes, length)[0, 0, 0]
    require(bool(row[:prefix].all()), f"the first word does not see all {prefix} words of the prefix")
    require(not row[prefix:].any(), "the first word sees words behind the prefix")


@exercise("11.4")
def test_behind_the_prefix_no_word_sees_the_next_one(submission, draw):
    length = draw.number(8, 12)
    prefix = draw.number(2, 5)
    prefixes = torch.tensor([prefix], device=draw.generator().device)
    square = submission.families.prefix_mask(prefixes, length)[0, 0]
    for t in range(prefix, length):
        require(bool(square[t, : t + 1].all()), f"word {t} does not see all words up to itself")
        require(not square[t, t + 1 :].any(), f"word {t} sees a word that comes after it")


@exercise("11.4")
def test_the_mask_broadcasts_over_heads(submission, expected, draw):
    prefixes = draw_prefixes(draw, SEQ)
    right = expected.families.prefix_mask(prefixes, SEQ)
    mask = submission.families.prefix_mask(prefixes, SEQ)
    scores = torch.ones(BATCH, HEADS, SEQ, SEQ, dtype=torch.bool, device=mask.device)
    agree(scores & mask, scores & right, "for weights of 3 heads the mask", MASKS)


@exercise("11.4")
def test_a_prefix_of_nothing_is_causal_and_a_single_word_sees_itself(submission, expected, draw):
    for length in (1, SEQ):
        prefixes = draw.integers(0, 1, batch=BATCH)
        right = expected.families.prefix_mask(prefixes, length)
        mask = submission.families.prefix_mask(prefixes, length)
        agree(mask, right, f"for {length} words without a prefix, the mask", MASKS)


@guard("11.4")
def test_a_prefix_of_everything_hides_nothing(submission, draw):
    prefixes = draw.integers(SEQ, SEQ + 1, batch=BATCH)
    mask = submission.families.prefix_mask(prefixes, SEQ)
    require(bool(mask.all()), "something is hidden although the whole text is the prefix")


@guard("11.4")
def test_the_prefix_lengths_are_left_alone(submission, draw):
    prefixes = draw_prefixes(draw, SEQ)
    leaves_inputs_alone(submission.families.prefix_mask, prefixes, SEQ, names=("prefix_lengths",))


# 11.5 A text as one vector

POOLED = "batch d_model"


def draw_states(draw, dtype=torch.float32, scale=1.0):
    return draw.normal(batch=BATCH, seq=SEQ, d_model=D_MODEL, dtype=dtype, scale=scale)


def draw_places(draw):
    """Words anywhere in the text; no two texts have as many."""
    order = draw.normal(batch=BATCH, seq=SEQ).argsort(dim=-1)
    return order < torch.arange(1, BATCH + 1, device=order.device)[:, None]


@exercise("11.5")
def test_the_mean_is_over_the_words_of_each_text(submission, expected, draw):
    states, mask = draw_states(draw), draw_places(draw)
    right = expected.families.mean_pool(states, mask)
    agree(submission.families.mean_pool(states, mask), right, "the mean", POOLED)


@exercise("11.5")
def test_two_words_and_two_pads_by_hand(submission, device):
    states = torch.tensor([[[1.0, 10.0, 0.0], [3.0, -20.0, 6.0], [50.0, 60.0, 70.0], [0.0, 0.0, 80.0]]])
    mask = torch.tensor([[T, T, F, F]], device=device)
    pooled = submission.families.mean_pool(states.to(device), mask)
    right = torch.tensor([[2.0, -5.0, 3.0]], device=device)
    agree(pooled, right, "the mean of (1, 10, 0) and (3, -20, 6)", POOLED)


@exercise("11.5")
def test_without_padding_it_is_the_plain_mean(submission, expected, draw):
    states, mask = draw_states(draw), torch.ones(BATCH, SEQ, dtype=torch.bool)
    mask = mask.to(states.device)
    right = expected.families.mean_pool(states, mask)
    pooled = submission.families.mean_pool(states, mask)
    agree(pooled, right, "without padding the mean", POOLED)


@exercise("11.5")
def test_what_stands_at_padding_makes_no_difference(submission, expected, draw):
    states, mask = draw_states(draw), draw_places(draw)
    right = expected.families.mean_pool(states, mask)
    for number in (1e4, -1e4):
        loud = states.masked_fill(~mask[..., None], number)
        pooled = submission.families.mean_pool(loud, mask)
        agree(pooled, right, f"with {number:g} at padding the mean", POOLED)


@exercise("11.5")
def test_words_of_zeros_and_negative_words_count(submission, expected, draw):
    states, mask = -draw_states(draw).abs(), draw_places(draw)
    states[:, ::3] = 0.0
    right = expected.families.mean_pool(states, mask)
    pooled = submission.families.mean_pool(states, mask)
    agree(pooled, right, "with words of zeros the mean", POOLED)


@exercise("11.5")
def test_a_text_without_words_gets_zeros_and_spoils_no_other(submission, expected, draw):
    states, mask = draw_states(draw), draw_places(draw)
    mask[2] = False
    right = expected.families.mean_pool(states, mask)
    pooled = submission.families.mean_pool(states, mask)
    finite(pooled, "beside a text without words the mean")
    agree(pooled, right, "beside a text without words the mean", POOLED)


@exercise("11.5")
def test_numbers_of_any_strides_and_size_are_no_problem(submission, expected, draw):
    states = draw.normal(batch=BATCH, d_model=D_MODEL, seq=SEQ, dtype=torch.float64, scale=1e4).mT
    mask = draw_places(draw)
    right = expected.families.mean_pool(states, mask)
    pooled = submission.families.mean_pool(states, mask)
    agree(pooled, right, "for numbers of 1e4 the mean", POOLED)


@exercise("11.5")
def test_gradients_reach_words_and_no_padding(submission, expected, draw):
    states, mask = draw_states(draw, torch.float64), draw_places(draw)
    mask[3] = False
    gradients_agree(
        submission.families.mean_pool,
        expected.families.mean_pool,
        states, mask,
        names=("states",),
    )  # fmt: skip


@guard("11.5")
def test_states_and_mask_are_left_alone(submission, draw):
    states, mask = draw_states(draw), draw_places(draw)
    leaves_inputs_alone(submission.families.mean_pool, states, mask, names=("states", "mask"))


@guard("11.5")
def test_the_mean_keeps_the_dtype_of_the_states(submission, draw):
    mask = draw_places(draw)
    for dtype in (torch.float32, torch.float64):
        pooled = submission.families.mean_pool(draw_states(draw, dtype), mask)
        keeps_dtype(pooled, dtype, "the mean")


# 11.6 A classifier on what was learned before

CLASS_LOGITS = "batch class"


def classifiers(submission, expected, draw, pooling, dtype=torch.float32, compared=True, **options):
    made = []
    for package in (expected, submission):
        encoder = package.families.MaskedLanguageModel(VOCAB, **SIZES | options)
        more = () if pooling is None else (pooling,)
        made.append(package.families.Classifier(encoder, CLASSES, *more))
    theirs, mine = made
    tied = tuple(f"encoder.{name}" for name in TIED)
    return twins(draw, mine, theirs, dtype, tied, compared)


def compare_classes(modules, tokens, segments=None, when=""):
    mine, right = modules
    wanted, logits = right(tokens, segments), mine(tokens, segments)
    agree(logits, wanted, f"{when}the logit", CLASS_LOGITS)


@exercise("11.6")
def test_the_first_token_stands_for_the_text(submission, expected, draw):
    modules = classifiers(submission, expected, draw, "cls")
    compare_classes(modules, draw_words(draw))


@exercise("11.6")
def test_the_mean_of_all_tokens_stands_for_the_text(submission, expected, draw):
    modules = classifiers(submission, expected, draw, "mean")
    compare_classes(modules, draw_words(draw), when='with pooling "mean" ')


@exercise("11.6")
def test_the_first_token_is_the_default(submission, expected, draw):
    modules = classifiers(submission, expected, draw, None, norm_first=False)
    compare_classes(modules, draw_words(draw), when="without a word about pooling ")


@exercise("11.6")
def test_padding_is_not_in_the_mean(submission, expected, draw):
    modules = classifiers(submission, expected, draw, "mean")
    compare_classes(modules, draw_tokens(draw), when='with padding and pooling "mean" ')


@exercise("11.6")
def test_padding_is_hidden_from_the_first_token(submission, expected, draw):
    modules = classifiers(submission, expected, draw, "cls")
    compare_classes(modules, draw_tokens(draw), when='with padding and pooling "cls" ')


@exercise("11.6")
def test_the_encoder_says_which_token_is_padding(submission, expected, draw):
    modules = classifiers(submission, expected, draw, "mean", pad_id=4)
    tokens = draw_tokens(draw, pad=4)
    tokens[3, 1] = tokens[4, 2] = 0
    compare_classes(modules, tokens, when='with pad_id 4 and pooling "mean" ')


@exercise("11.6")
def test_segments_are_passed_on(submission, expected, draw):
    for pooling in ("cls", "mean"):
        modules = classifiers(submission, expected, draw, pooling)
        compare_classes(modules, draw_tokens(draw), draw_segments(draw), when="with two segments ")


@exercise("11.6")
def test_a_text_of_one_token_has_logits_too(submission, expected, draw):
    for pooling in ("cls", "mean"):
        modules = classifiers(submission, expected, draw, pooling)
        compare_classes(modules, draw_words(draw, seq=1), when="for texts of one token ")


@guard("11.6")
def test_more_padding_changes_no_class(submission, expected, draw):
    for pooling in ("cls", "mean"):
        mine, _ = classifiers(submission, expected, draw, pooling, compared=False)
        tokens = draw_words(draw)
        longer = torch.cat([tokens, tokens.new_full((BATCH, 3), PAD)], dim=1)
        logits, again = mine(tokens), mine(longer)
        agree(again, logits, f'with more padding and pooling "{pooling}" the logit', CLASS_LOGITS)


@exercise("11.6")
def test_fine_tuning_by_the_first_token_reaches_the_encoder(submission, expected, draw):
    mine, right = classifiers(submission, expected, draw, "cls", torch.float64)
    gradients_agree(mine, right, draw_tokens(draw), draw_segments(draw))


@exercise("11.6")
def test_fine_tuning_by_the_mean_reaches_the_encoder(submission, expected, draw):
    mine, right = classifiers(submission, expected, draw, "mean", torch.float64)
    gradients_agree(mine, right, draw_tokens(draw), draw_segments(draw))


@guard("11.6")
def test_the_classifier_leaves_its_inputs_alone(submission, expected, draw):
    for pooling in ("cls", "mean"):
        mine, _ = classifiers(submission, expected, draw, pooling, compared=False)
        leaves_inputs_alone(mine, draw_tokens(draw), draw_segments(draw), names=("tokens", "segments"))


# 11.7 Patches of a picture

CHANNELS, SIZE, ROWS, COLUMNS = 3, 2, 4, 6
PATCHES = "batch patch number"


def draw_images(draw, dtype=torch.float32, height=ROWS * SIZE, width=COLUMNS * SIZE):
    return draw.normal(batch=BATCH, channels=CHANNELS, height=height, width=width, dtype=dtype)


def compare_patches(submission, expected, images, size, when=""):
    right = expected.vision.patches(images, size)
    agree(submission.vision.patches(images, size), right, f"{when}the number", PATCHES)


@exercise("11.7")
def test_sixteen_numbered_pixels_by_hand(submission, device):
    image = torch.arange(16.0, device=device).reshape(1, 1, 4, 4)
    by_hand = [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    right = torch.tensor([by_hand], dtype=torch.float32, device=device)
    agree(submission.vision.patches(image, 2), right, "for the pixels 0 to 15 the number", PATCHES)


@exercise("11.7")
def test_the_channels_of_a_patch_come_one_after_the_other(submission, device):
    image = torch.arange(24.0, device=device).reshape(1, 3, 2, 4)
    by_hand = [[0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21], [2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23]]
    right = torch.tensor([by_hand], dtype=torch.float32, device=device)
    agree(submission.vision.patches(image, 2), right, "for three channels the number", PATCHES)


@exercise("11.7")
def test_patches_come_as_one_reads(submission, expected, draw):
    compare_patches(submission, expected, draw_images(draw), SIZE)


@exercise("11.7")
def test_pictures_may_be_higher_than_wide(submission, expected, draw):
    images = draw_images(draw, height=15, width=6)
    compare_patches(submission, expected, images, 3, "for 15 by 6 pixels in squares of 3 ")


@exercise("11.7")
def test_a_patch_may_be_one_pixel_or_the_whole_picture(submission, expected, draw):
    images = draw_images(draw, height=4, width=4)
    compare_patches(submission, expected, images, 1, "for patches of one pixel ")
    compare_patches(submission, expected, images, 4, "for one patch ")


@exercise("11.7")
def test_a_row_or_a_column_of_patches_works(submission, expected, draw):
    compare_patches(submission, expected, draw_images(draw, height=3, width=12), 3, "for one row ")
    compare_patches(submission, expected, draw_images(draw, height=12, width=3), 3, "for one column ")


@exercise("11.7")
def test_every_picture_has_patches_of_its_own(submission, expected, draw):
    images = draw_images(draw)
    right = expected.vision.patches(images[3:4], SIZE)
    found = submission.vision.patches(images, SIZE)
    agree(found[3:4], right, "for the fourth picture the number", PATCHES)


@exercise("11.7")
def test_pictures_with_other_strides_are_no_problem(submission, expected, draw):
    # Channels come last in memory, as files hold them.
    drawn = draw.normal(batch=BATCH, height=ROWS * SIZE, width=COLUMNS * SIZE, channels=CHANNELS)
    compare_patches(submission, expected, drawn.permute(0, 3, 1, 2), SIZE, "with channels last ")


@exercise("11.7")
def test_gradients_reach_every_pixel(submission, expected, draw):
    images = draw_images(draw, torch.float64)
    gradients_agree(submission.vision.patches, expected.vision.patches, images, SIZE, names=("images",))


@guard("11.7")
def test_the_pictures_are_left_alone(submission, draw):
    leaves_inputs_alone(submission.vision.patches, draw_images(draw), SIZE, names=("images",))


@guard("11.7")
def test_patches_keep_the_dtype_of_the_pictures(submission, draw):
    for dtype in (torch.float32, torch.float64):
        found = submission.vision.patches(draw_images(draw, dtype), SIZE)
        keeps_dtype(found, dtype, "the patches")


# 11.8 A Transformer that sees

IMAGE = 8  # in squares of 2: sixteen patches
VISION = {"n_layers": 1, "d_model": D_MODEL, "n_heads": HEADS, "d_ff": D_FF}


def seers(
    submission, expected, draw, dtype=torch.float32, compared=True, image=IMAGE, size=SIZE, **options
):
    made = [
        package.vision.VisionTransformer(image, size, CHANNELS, CLASSES, **VISION | options)
        for package in (expected, submission)
    ]
    theirs, mine = made
    return twins(draw, mine, theirs, dtype, compared=compared)


def draw_squares(draw, dtype=torch.float32, image=IMAGE):
    return draw_images(draw, dtype, height=image, width=image)


def compare_pictures(modules, images, when=""):
    mine, right = modules
    wanted, logits = right(images), mine(images)
    agree(logits, wanted, f"{when}the logit", CLASS_LOGITS)


@exercise("11.8")
def test_a_picture_becomes_logits(submission, expected, draw):
    compare_pictures(seers(submission, expected, draw), draw_squares(draw))


@exercise("11.8")
def test_a_picture_is_read_by_post_norm_blocks(submission, expected, draw):
    modules = seers(submission, expected, draw, norm_first=False, n_layers=LAYERS)
    compare_pictures(modules, draw_squares(draw), "with norm_first=False ")


@exercise("11.8")
def test_patches_of_another_size_work(submission, expected, draw):
    modules = seers(submission, expected, draw, image=9, size=3)
    compare_pictures(modules, draw_squares(draw, image=9), "for 9 patches of 3 by 3 ")


@exercise("11.8")
def test_a_picture_of_one_patch_works(submission, expected, draw):
    modules = seers(submission, expected, draw, image=2, size=2)
    compare_pictures(modules, draw_squares(draw, image=2), "for a single patch ")


@exercise("11.8")
def test_it_makes_a_difference_where_a_patch_stands(submission, expected, draw):
    mine, _ = seers(submission, expected, draw, compared=False)
    images = draw_squares(draw)
    turned = torch.cat([images[:, :, 4:], images[:, :, :4]], dim=2)
    first, second = mine(images), mine(turned)
    require(
        bool(((first - second).abs().amax(dim=-1) > 1e-4).all()),
        "the lower half of a picture above the upper one gives the same logits: are positions missing?",
    )


@exercise("11.8")
def test_a_picture_does_not_depend_on_the_others(submission, expected, draw):
    mine, right = seers(submission, expected, draw)
    images = draw_squares(draw)
    wanted = right(images[2:3])
    agree(mine(images)[2:3], wanted, "for the third picture of five the logit", CLASS_LOGITS)


@exercise("11.8")
def test_gradients_reach_pixels_and_all_parameters(submission, expected, draw):
    mine, right = seers(submission, expected, draw, torch.float64)
    gradients_agree(mine, right, draw_squares(draw, torch.float64), names=("images",))


@guard("11.8")
def test_the_model_leaves_its_pictures_alone(submission, expected, draw):
    mine, _ = seers(submission, expected, draw, compared=False)
    leaves_inputs_alone(mine, draw_squares(draw), names=("images",))
