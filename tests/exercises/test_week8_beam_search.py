"""Week 8: choosing words, one after the other."""

import math

import torch

from lab_check.running.testing import (
    agree,
    exercise,
    finite,
    guard,
    keeps_dtype,
    leaves_inputs_alone,
    require,
    same_items,
)

VOCAB = 7
LONGEST = 16  # no search of these tests has a reason to go further,
PATIENCE = 600  # or to ask about more prefixes
BATCH, HEADS, SEQ, D_MODEL = 2, 3, 6, 12


# Steps: what stands in for a model ------------------------------------------------------------------


def careful(table):
    """Make a step that looks at the prefixes before it answers, and notices a loop without end.

    It raises what a model would raise, in words, unless the prefixes are integers of shape (n, t).
    """
    asked = 0

    def step(prefixes):
        nonlocal asked
        kind = type(prefixes).__name__
        if not isinstance(prefixes, torch.Tensor):
            raise TypeError(f"step takes the prefixes as a tensor, it was given a {kind}")
        if prefixes.is_floating_point() or prefixes.dtype == torch.bool:
            raise TypeError(f"step takes integer tokens, it was given {prefixes.dtype}")
        shape = tuple(prefixes.shape)
        if len(shape) != 2 or 0 in shape:
            raise ValueError(f"step takes prefixes of shape (n, t), one or more rows, not {shape}")
        asked += shape[0]
        if shape[1] >= LONGEST or asked > PATIENCE:
            raise RuntimeError(
                "step was asked about more or longer prefixes than this search needs: does the loop "
                "end, and do only the best prefixes go on?"
            )
        return table(prefixes.cpu().long()).to(prefixes.device)

    return step


def draw_step(draw, vocab, impossible=(), last=0, ends=None):
    """Draw a model whose next token depends on every token of the prefix and on its place.

    The tokens in `impossible` have probability zero; so has the token `ends`, except as number `last`.
    """
    effects = draw.normal(place=LONGEST, token=vocab, next=vocab, dtype=torch.float64).cpu()

    def table(tokens):
        logits = effects[torch.arange(tokens.shape[1]), tokens].sum(dim=1)
        for token in impossible:
            logits[:, token] = -math.inf
        if ends is not None and tokens.shape[1] != last:
            logits[:, ends] = -math.inf
        return logits.log_softmax(dim=-1)

    return careful(table)


def draw_names(draw):
    """Draw which number stands for which token: the start, the end ($), and the letters a to e."""
    start, end, *letters = (draw.normal(vocab=VOCAB - 1).argsort() + 1).tolist()
    return {"^": start, "$": end} | dict(zip("abcde", [*letters, 0], strict=True))


def tree_step(names, tree):
    """Make a model from a few probabilities, as in {"": {"a": 0.6, "b": 0.4}, "ab": {"$": 0.9}}.

    What is left at a branch is shared out unevenly; so is everything after words that are not listed.
    """
    letters = {number: letter for letter, number in names.items()}

    def row(prefix):
        known = tree.get("".join(letters[token] for token in prefix[1:]), {})
        others = [number for letter, number in names.items() if letter not in known]
        shares = [0.0] * VOCAB
        for letter, probability in known.items():
            shares[names[letter]] = probability
        for place, number in enumerate(reversed(others)):
            shares[number] = (1 - sum(known.values())) * 2.0**-place / (2 - 2.0 ** (1 - len(others)))
        return shares

    def table(tokens):
        return torch.tensor([row(prefix) for prefix in tokens.tolist()], dtype=torch.float64).log()

    return careful(table)


def spell(names, word):
    return [names["^"], *(names[letter] for letter in word)]


def spoken(names, tokens):
    letters = {number: letter for letter, number in names.items()}
    return "".join(letters.get(token, "?") for token in tokens)


# 8.1 ------------------------------------------------------------------------------------------------


@exercise("8.1")
def test_the_most_probable_token_is_appended_again_and_again(submission, expected, draw):
    step = draw_step(draw, VOCAB, ends=2)
    right = expected.decoding.greedy_decode(step, 4, 2, 9)
    same_items(submission.decoding.greedy_decode(step, 4, 2, 9), right, "the token list")


@exercise("8.1")
def test_decoding_ends_with_the_end_token(submission, draw):
    names = draw_names(draw)
    # The start token in the middle is a token like any other.
    tree = {"": {"b": 0.7}, "b": {"^": 0.6}, "b^": {"a": 0.6}, "b^a": {"$": 0.8}, "b^a$": {"c": 0.9}}
    tokens = submission.decoding.greedy_decode(tree_step(names, tree), names["^"], names["$"], 9)
    same_items(tokens, spell(names, "b^a$"), "where b, start, a, end are most probable, the list")


@exercise("8.1")
def test_the_end_token_can_come_first(submission, draw):
    names = draw_names(draw)
    step = tree_step(names, {"": {"$": 0.5, "a": 0.4}, "$": {"a": 0.9}})
    tokens = submission.decoding.greedy_decode(step, names["^"], names["$"], 6)
    same_items(tokens, spell(names, "$"), "where the end token comes first, the list")


@exercise("8.1")
def test_max_length_counts_the_start_token_too(submission, draw):
    names = draw_names(draw)
    step = tree_step(names, {"": {"c": 0.6}, "c": {"a": 0.6}, "ca": {"d": 0.6}, "cad": {"b": 0.9}})
    for length in (2, 4):
        tokens = submission.decoding.greedy_decode(step, names["^"], names["$"], length)
        same_items(tokens, spell(names, "cadb"[: length - 1]), f"with max_length {length} the list")


@exercise("8.1")
def test_the_end_token_may_be_the_last_one_that_fits(submission, draw):
    names = draw_names(draw)
    step = tree_step(names, {"": {"e": 0.6}, "e": {"d": 0.6}, "ed": {"$": 0.6}})
    tokens = submission.decoding.greedy_decode(step, names["^"], names["$"], 4)
    same_items(tokens, spell(names, "ed$"), "where the end token is the last that fits, the list")


@exercise("8.1")
def test_step_sees_the_whole_prefix(submission, draw):
    names = draw_names(draw)
    # The last token is c three times; only the tokens before it tell what comes next.
    tree = {"": {"c": 0.9}, "c": {"c": 0.9}, "cc": {"c": 0.9}, "ccc": {"a": 0.9}, "ccca": {"$": 0.9}}
    tokens = submission.decoding.greedy_decode(tree_step(names, tree), names["^"], names["$"], 8)
    same_items(tokens, spell(names, "ccca$"), "where the whole prefix decides, the list")


@exercise("8.1")
def test_only_the_next_token_counts_not_what_it_leads_to(submission, draw):
    names = draw_names(draw)
    tree = {"": {"a": 0.5, "b": 0.4}, "a": {"c": 0.3, "d": 0.25}, "b": {"$": 0.99}, "ac": {"$": 0.4}}
    tokens = submission.decoding.greedy_decode(tree_step(names, tree), names["^"], names["$"], 6)
    same_items(tokens, spell(names, "ac$"), "where the best first word leads astray, the greedy list")


@guard("8.1")
def test_with_room_for_one_token_only_the_start_token_is_there(submission, draw):
    names = draw_names(draw)
    tokens = submission.decoding.greedy_decode(tree_step(names, {}), names["^"], names["$"], 1)
    same_items(tokens, spell(names, ""), "with max_length 1 the list")


@guard("8.1")
def test_greedy_tokens_are_plain_integers(submission, draw):
    step = draw_step(draw, VOCAB)
    tokens = submission.decoding.greedy_decode(step, 3, 5, 6)
    plain = all(isinstance(token, int) for token in tokens)
    require(plain, "the list should hold plain integers, some of its entries are something else")


# 8.2 ------------------------------------------------------------------------------------------------


def draw_scores(draw, count):
    """Draw sums of log-probabilities, as plain numbers below zero."""
    return [-1.0 - 5.0 * abs(x) for x in draw.normal(number=count, dtype=torch.float64).tolist()]


@exercise("8.2")
def test_the_normalised_score_follows_the_formula(submission, expected, draw):
    scores, lengths = draw_scores(draw, 3), [draw.number(2, 40) for _ in range(3)]
    cases = list(zip(scores, lengths, (0.6, 1.0, 1.7), strict=True))
    right = [expected.decoding.length_normalised(*case) for case in cases]
    for case, wanted in zip(cases, right, strict=True):
        found = submission.decoding.length_normalised(*case)
        agree(found, wanted, "score {:.3g} at length {} with penalty {} normalised".format(*case))


@exercise("8.2")
def test_seven_tokens_halve_the_score_at_penalty_one(submission):
    agree(submission.decoding.length_normalised(-6.0, 7, 1.0), -3.0, "score -6 at length 7, penalty 1,")


@exercise("8.2")
def test_the_penalty_is_an_exponent(submission):
    # (5 + 7) / 6 is 2, and (5 + 19) / 6 is 4.
    agree(submission.decoding.length_normalised(-6.0, 7, 2.0), -1.5, "score -6 at length 7, penalty 2,")
    agree(
        submission.decoding.length_normalised(-6.0, 19, 0.5),
        -3.0,
        "score -6 at length 19, penalty 0.5,",
    )


@exercise("8.2")
def test_a_longer_sentence_is_punished_less(submission, draw):
    (score,) = draw_scores(draw, 1)
    found = [submission.decoding.length_normalised(score, length, 0.8) for length in (3, 9, 30)]
    require(
        found[0] < found[1] < found[2],
        f"one sum of log-probabilities should rank higher when it belongs to a longer sentence: at the "
        f"lengths 3, 9 and 30 a sum of {score:.3g} became "
        + ", ".join(f"{value:.3g}" for value in found),
    )


@exercise("8.2")
def test_a_negative_penalty_works_the_other_way(submission):
    agree(
        submission.decoding.length_normalised(-6.0, 7, -1.0), -12.0, "score -6 at length 7, penalty -1,"
    )


@exercise("8.2")
def test_a_score_above_zero_is_divided_too(submission):
    agree(submission.decoding.length_normalised(8.0, 19, 1.0), 2.0, "score 8 at length 19, penalty 1,")


@guard("8.2")
def test_nothing_changes_at_length_one_or_penalty_zero(submission, draw):
    one, other = draw_scores(draw, 2)
    agree(submission.decoding.length_normalised(one, 1, 1.3), one, "the score of a single token")
    agree(submission.decoding.length_normalised(other, 12, 0.0), other, "the score at penalty 0")


@guard("8.2")
def test_the_score_of_no_tokens_is_a_number(submission):
    agree(submission.decoding.length_normalised(0.0, 0, 0.9), 0.0, "the score 0 of no tokens")


# 8.3 ------------------------------------------------------------------------------------------------


# With 4 tokens and max_length 4 there are 1 + 3 + 9 sequences that end, and 27 that do not.
EVERY = 40


def check_pairs(pairs):
    """Require a list of pairs (tokens, score)."""
    require(len(pairs) > 0, "beam search should return at least one pair (tokens, score), none came")
    for pair in pairs:
        require(
            isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], list),
            "beam search should return pairs of a token list and a score",
        )
        require(
            isinstance(pair[1], int | float) and all(isinstance(token, int) for token in pair[0]),
            "tokens should be plain integers and scores plain numbers, some are something else",
        )


def same_pairs(pairs, wanted, what):
    """Require the wanted sequences in their order, with their scores."""
    check_pairs(pairs)
    require(
        len(pairs) == len(wanted),
        f"{what}: {len(wanted)} sequences should come back, it is {len(pairs)}",
    )
    for place, (pair, right) in enumerate(zip(pairs, wanted, strict=True)):
        same_items(pair[0], right[0], f"{what}: sequence {place} (0 is the best)")
        agree_score(pair[1], right[1], f"{what}: the score of sequence {place}")


def agree_score(score, wanted, what):
    agree(score, wanted, what, rel=1e-4, abs=1e-5)


def best_only(pairs):
    return pairs[:1] if isinstance(pairs, list) else pairs


def check_best(submission, names, tree, width, length, word, probability, what):
    """Require the best sequence of a tree and, without a penalty, the log of its probability."""
    search = submission.decoding.beam_search.seen_as(best_only, 0.0)
    pairs = search(tree_step(names, tree), names["^"], names["$"], width, length)
    check_pairs(pairs)
    same_items(pairs[0][0], spell(names, word), what)
    agree_score(pairs[0][1], math.log(probability), "the score of the best sequence")


@exercise("8.3")
def test_one_beam_without_a_penalty_is_greedy(submission, expected, draw):
    names = draw_names(draw)
    # To end at once would be better in the end, but it is not the best first step.
    tree = {"": {"a": 0.5, "$": 0.4}, "a": {"b": 0.3, "c": 0.25}, "ab": {"$": 0.5}}
    right = spell(names, "ab$")
    cases = [(tree_step(names, tree), names["^"], names["$"], 6, right)]
    for vocab, length in ((VOCAB, 8), (4, 10)):
        step = draw_step(draw, vocab)
        cases.append((step, 3, 1, length, expected.decoding.greedy_decode(step, 3, 1, length)))
    for step, start, end, length, right in cases:
        pairs = submission.decoding.beam_search(step, start, end, 1, length)
        check_pairs(pairs)
        same_items(pairs[0][0], right, "with one beam the best sequence")


@exercise("8.3")
def test_the_best_prefixes_of_all_beams_go_on(submission, expected, draw):
    # No sequence can end before the last step, so that only the choice of beams matters.
    for width, length in ((3, 6), (5, 5)):
        step = draw_step(draw, VOCAB, ends=5, last=length - 1)
        right = expected.decoding.beam_search(step, 2, 5, width, length)
        pairs = submission.decoding.beam_search(step, 2, 5, width, length)
        same_pairs(pairs, right, f"with {width} beams")


@exercise("8.3")
def test_a_second_beam_finds_what_greedy_misses(submission, draw):
    tree = {
        "": {"a": 0.5, "b": 0.4},
        "a": {"c": 0.35, "d": 0.32, "e": 0.29}, "b": {"d": 0.9},
        "ac": {"$": 0.5}, "bd": {"$": 0.9},
    }  # fmt: skip
    for width in (2, 3):
        names = draw_names(draw)
        what = f"with {width} beams the best sequence (b d end, probability 0.324)"
        check_best(submission, names, tree, width, 5, "bd$", 0.324, what)


@exercise("8.3")
def test_both_beams_may_have_the_same_parent(submission, draw):
    names = draw_names(draw)
    tree = {
        "": {"a": 0.6, "b": 0.3},
        "a": {"c": 0.5, "d": 0.45}, "b": {"e": 0.6},
        "ac": {"e": 0.4, "b": 0.3}, "ad": {"$": 0.95}, "be": {"$": 0.99},
    }  # fmt: skip
    what = "the best sequence (a d end: the second best continuation of a)"
    check_best(submission, names, tree, 2, 5, "ad$", 0.6 * 0.45 * 0.95, what)


@exercise("8.3")
def test_a_search_as_wide_as_the_tree_finds_every_sequence_in_order(submission, expected, draw):
    step = draw_step(draw, 4)
    right = expected.decoding.beam_search(step, 3, 1, EVERY, 4)
    pairs = submission.decoding.beam_search(step, 3, 1, EVERY, 4)
    same_pairs(pairs, right, "with room for all sequences")


@exercise("8.3")
def test_a_penalty_normalises_every_score_and_ranks_by_it(submission, expected, draw):
    step = draw_step(draw, 4)
    right = expected.decoding.beam_search(step, 2, 3, EVERY, 4, 1.6)
    pairs = submission.decoding.beam_search(step, 2, 3, EVERY, 4, 1.6)
    same_pairs(pairs, right, "with room for all sequences and penalty 1.6")


@exercise("8.3")
def test_a_penalty_lets_a_long_sentence_win(submission, draw):
    names = draw_names(draw)
    tree = {
        "": {"a": 0.5, "b": 0.45}, "a": {"$": 0.6, "c": 0.2}, "b": {"d": 0.9},
        "bd": {"e": 0.9}, "bde": {"c": 0.9}, "bdec": {"a": 0.9}, "bdeca": {"$": 0.9},
    }  # fmt: skip
    search = submission.decoding.beam_search.seen_as(best_only, 0.0)
    for penalty, word, why in (
        (0.0, "a$", "is the most probable one"),
        (1.2, "bdeca$", "has more words to share its score"),
    ):
        pairs = search(tree_step(names, tree), names["^"], names["$"], 3, 8, length_penalty=penalty)
        check_pairs(pairs)
        found, wanted = spoken(names, pairs[0][0]), "^" + word
        require(
            found == wanted,
            f"with penalty {penalty:g} the sequence {' '.join(wanted)} should come first, because it "
            f"{why}; it is {' '.join(found)}",
        )


@exercise("8.3")
def test_the_search_goes_on_while_an_unfinished_prefix_can_still_win(submission, draw):
    names = draw_names(draw)
    start = {"": {"a": 0.6, "$": 0.29}, "a": {"c": 0.5, "$": 0.45}}  # after two steps two have ended
    what = "the best sequence (a c end, 0.294, while the end at once has 0.29)"
    check_best(submission, names, start | {"ac": {"$": 0.98}}, 2, 6, "ac$", 0.294, what)
    # Now a c d is worse than both, and a few words that are almost certain make it the best in the end:
    # -2.02 / 2 is above -1.31 / 1.17 and above -1.24.
    tree = start | {
        "ac": {"d": 0.5, "e": 0.2}, "acd": {"b": 0.97}, "acdb": {"e": 0.97}, "acdbe": {"a": 0.97},
        "acdbea": {"$": 0.97},
    }  # fmt: skip
    search = submission.decoding.beam_search.seen_as(best_only, 0.0)
    pairs = search(tree_step(names, tree), names["^"], names["$"], 2, 9, length_penalty=1.0)
    check_pairs(pairs)
    same_items(pairs[0][0], spell(names, "acdbea$"), "the best sequence (the longest, at penalty 1)")


@exercise("8.3")
def test_a_finished_sequence_waits_while_a_better_one_goes_on(submission, draw):
    names = draw_names(draw)
    tree = {"": {"a": 0.6, "$": 0.3}, "a": {"c": 0.9, "d": 0.09}, "ac": {"$": 0.9}, "$": {"b": 0.99}}
    pairs = submission.decoding.beam_search(tree_step(names, tree), names["^"], names["$"], 2, 6)
    wanted = [(spell(names, "ac$"), math.log(0.486)), (spell(names, "$"), math.log(0.3))]
    same_pairs(pairs, wanted, "where one sequence ends at once and a better one later")


@exercise("8.3")
def test_a_finished_sequence_wins_over_all_that_end_later_and_worse(submission, draw):
    names = draw_names(draw)
    tree = {"": {"a": 0.5, "b": 0.45}, "a": {"$": 0.8, "d": 0.1}, "b": {"c": 0.6, "e": 0.3},
            "bc": {"d": 0.7}, "bcd": {"$": 0.9}, "a$": {"c": 0.99}}  # fmt: skip
    what = "the best sequence (a end, probability 0.4, is complete after two steps)"
    check_best(submission, names, tree, 2, 7, "a$", 0.4, what)


@exercise("8.3")
def test_prefixes_that_reach_max_length_are_ranked_with_the_finished_ones(submission, draw):
    names = draw_names(draw)
    tree = {"": {"a": 0.6, "$": 0.3}, "a": {"c": 0.9, "d": 0.08}, "ac": {"b": 0.8, "e": 0.15}}
    pairs = submission.decoding.beam_search(tree_step(names, tree), names["^"], names["$"], 2, 4)
    wanted = [(spell(names, "acb"), math.log(0.432)), (spell(names, "$"), math.log(0.3))]
    same_pairs(pairs, wanted, "where max_length cuts the best sequence off")


@exercise("8.3")
def test_impossible_tokens_take_no_place_in_the_beam(submission, expected, draw):
    step = draw_step(draw, VOCAB, impossible=(0, 3), ends=4, last=5)
    # Only one token can come first: at that step there is less to choose from than there are beams.
    one = draw.number(5, VOCAB)
    only = torch.full((VOCAB,), -math.inf, dtype=torch.float64)
    only[one] = 0.0

    def narrow(prefixes):
        rows = step(prefixes)
        return only.expand_as(rows).clone() if prefixes.shape[1] == 1 else rows

    right = expected.decoding.beam_search(narrow, 1, 4, 3, 6)
    pairs = submission.decoding.beam_search(narrow, 1, 4, 3, 6)
    same_pairs(pairs, right, "where some tokens have probability zero")


@exercise("8.3")
def test_each_score_is_the_sum_of_the_log_probabilities_of_its_tokens(submission, draw):
    step = draw_step(draw, VOCAB)
    pairs = submission.decoding.beam_search.seen_as(best_only, 0.0)(step, 5, 2, 4, 7)
    check_pairs(pairs)
    for tokens, score in pairs:
        steps = [
            float(step(torch.tensor([tokens[:end]]))[0, tokens[end]]) for end in range(1, len(tokens))
        ]
        agree_score(score, math.fsum(steps), f"the score of {tokens}")


@guard("8.3")
def test_sequences_start_and_end_where_they_should(submission, draw):
    step = draw_step(draw, VOCAB)
    pairs = submission.decoding.beam_search.seen_as(best_only, 0.0)(step, 6, 3, 4, 6, 0.7)
    check_pairs(pairs)
    require(len(pairs) <= 4, f"at most beam_width = 4 sequences should come back, it is {len(pairs)}")
    for tokens, _ in pairs:
        require(tokens[:1] == [6], f"every sequence should begin with the start token 6, not {tokens}")
        require(3 not in tokens[1:-1], f"nothing should follow the end token 3, as it does in {tokens}")
        require(len(tokens) <= 6, f"max_length is 6, but {tokens} has {len(tokens)} tokens")
        whole = tokens[-1] == 3 or len(tokens) == 6
        require(whole, f"{tokens} neither ends with the end token 3 nor has max_length = 6 tokens")
    require(
        len({tuple(tokens) for tokens, _ in pairs}) == len(pairs), "no sequence should come back twice"
    )
    scores = [score for _, score in pairs]
    require(scores == sorted(scores, reverse=True), f"the best should come first; the scores: {scores}")


@guard("8.3")
def test_with_room_for_one_token_the_start_token_has_the_score_zero(submission, draw):
    step = draw_step(draw, VOCAB)
    pairs = submission.decoding.beam_search(step, 5, 2, 3, 1)
    same_pairs(pairs, [([5], 0.0)], "with max_length 1")


# 8.4 ------------------------------------------------------------------------------------------------

ROWS = 5000
# The seven tokens in falling order, and what temperatures make of them.
SHARES = (0.34, 0.24, 0.16, 0.11, 0.08, 0.05, 0.02)
SHARPER = (0.5250, 0.2616, 0.1163, 0.0550, 0.0291, 0.0114, 0.0018)
FLATTER = (0.2377, 0.1997, 0.1631, 0.1352, 0.1153, 0.0912, 0.0577)


def draw_logits(draw, shares=SHARES, shift=1.5):
    """Give logits with these softmax probabilities, in a drawn order, and the probabilities."""
    order = draw.normal(vocab=len(shares)).argsort()
    probabilities = torch.tensor(shares, device=order.device)[order]
    return probabilities.log() + shift, probabilities


def frequencies(tokens):
    """Count how often each token was drawn, as shares, over the last axis."""
    return torch.stack([(tokens == token).double().mean(dim=-1) for token in range(VOCAB)], dim=-1)


def sampler(submission):
    def seen(tokens):
        # Where only one token ever came, chance may have decided which.
        found = frequencies(tokens)
        return found.where(found.amax(dim=-1, keepdim=True) < 1, -1.0)

    return submission.decoding.sample_token.seen_as(seen, 0.1)


def check_frequencies(submission, draw, wanted, what, **options):
    """Draw many tokens from one distribution, and compare how often each came with `wanted`.

    `wanted` is ordered by falling probability and filled up with zeros.
    """
    logits, probabilities = draw_logits(draw)
    tokens = sampler(submission)(logits.expand(ROWS, VOCAB), **options, generator=draw.generator())
    found = frequencies(tokens)[probabilities.argsort(descending=True).cpu()].cpu()
    right = torch.zeros(VOCAB, dtype=torch.float64)
    right[: len(wanted)] = torch.tensor(wanted, dtype=torch.float64)
    never = [rank for rank in range(VOCAB) if right[rank] == 0 < found[rank]]
    require(not never, f"{what}, these tokens should never be drawn (0 is the most probable): {never}")
    agree(found, right, f"{what}, how often the tokens come (0 is the most probable one)", "token",
          rel=0.0, abs=0.036)  # fmt: skip


@exercise("8.4")
def test_tokens_come_as_often_as_the_softmax_says(submission, draw):
    check_frequencies(submission, draw, SHARES, "with no options")


@exercise("8.4")
def test_a_low_temperature_sharpens(submission, draw):
    check_frequencies(submission, draw, SHARPER, "at temperature 0.5", temperature=0.5)


@exercise("8.4")
def test_a_high_temperature_flattens(submission, draw):
    check_frequencies(submission, draw, FLATTER, "at temperature 2", temperature=2.0)


@exercise("8.4")
def test_top_k_leaves_the_k_best_and_their_proportions(submission, draw):
    wanted = (0.4595, 0.3243, 0.2162)  # 0.34, 0.24 and 0.16 of 0.74
    check_frequencies(submission, draw, wanted, "with top_k = 3", top_k=3)


@exercise("8.4")
def test_a_top_k_above_the_vocabulary_leaves_all_tokens(submission, draw):
    what = f"with top_k = {VOCAB + 2}, more than there are tokens"
    check_frequencies(submission, draw, SHARES, what, top_k=VOCAB + 2)


@exercise("8.4")
def test_the_nucleus_holds_the_token_that_reaches_top_p(submission, draw):
    wanted = (0.4, 0.2824, 0.1882, 0.1294)  # 0.34 + 0.24 + 0.16 is 0.74, and with 0.11 it is 0.85
    check_frequencies(submission, draw, wanted, "with top_p = 0.8", top_p=0.8)


@exercise("8.4")
def test_the_most_probable_token_is_in_every_nucleus(submission, draw):
    check_frequencies(submission, draw, (1.0,), "with top_p = 0.2, below any token", top_p=0.2)


@exercise("8.4")
def test_a_nucleus_that_sums_to_exactly_top_p_is_complete(submission, draw):
    # Powers of two, which floating point holds exactly, as it does their sums.
    _, probabilities = draw_logits(draw, (0.5, 0.25, 0.125, 0.125, 0.0, 0.0, 0.0))
    rows = probabilities.double().log().expand(ROWS, VOCAB)
    found = frequencies(sampler(submission)(rows, top_p=0.5, generator=draw.generator())).cpu()
    best = float(found[probabilities.cpu().argmax()])
    require(
        best == 1.0,
        "the best token has the probability 0.5 exactly, so with top_p = 0.5 it is the whole nucleus; "
        f"its share of the draws is {best:.3g}",
    )


@exercise("8.4")
def test_the_nucleus_is_taken_of_what_top_k_left(submission, draw):
    # Of the five best, the shares are 0.366, 0.258, 0.172, ...: three of them reach 0.78.
    wanted = (0.4595, 0.3243, 0.2162)
    check_frequencies(submission, draw, wanted, "with top_k = 5, top_p = 0.78", top_k=5, top_p=0.78)


@exercise("8.4")
def test_the_nucleus_is_taken_at_the_given_temperature(submission, draw):
    # The flattened shares are 0.238, 0.2, 0.163, ...: three of them reach 0.5.
    wanted = (0.3958, 0.3326, 0.2716)
    what = "with temperature = 2, top_p = 0.5"
    check_frequencies(submission, draw, wanted, what, temperature=2.0, top_p=0.5)


@exercise("8.4")
def test_every_row_has_its_own_distribution(submission, draw):
    favourites = draw.integers(0, VOCAB, batch=2, beam=3)
    logits = draw.normal(batch=2, beam=3, vocab=VOCAB)
    logits = logits.scatter_add(-1, favourites[..., None], torch.full_like(logits, 200.0))
    same_items(submission.decoding.sample_token(logits), favourites, "the tokens that are certain")


@exercise("8.4")
def test_a_single_row_gives_a_single_token(submission, draw):
    favourite = draw.integers(0, VOCAB)
    logits = draw.normal(vocab=VOCAB, dtype=torch.float64)
    logits[favourite] += 200.0
    token = submission.decoding.sample_token(logits, top_k=4, top_p=0.9)
    same_items(token, favourite, "the token of a single row that is certain")


@exercise("8.4")
def test_every_row_has_its_own_best_tokens(submission, draw):
    # The second row lies far above the first; each has its two best tokens.
    low, first = draw_logits(draw)
    # What is rare in the first row is frequent in the second.
    second = first.sort(descending=True).values[first.argsort().argsort()]
    high = second.log() + 40.0
    logits = torch.stack([low, high])[:, None].expand(2, ROWS, VOCAB)
    ranks = torch.stack([first, second]).argsort(descending=True).cpu()
    for options, wanted in (
        ({"top_k": 2}, (0.5862, 0.4138)),
        ({"top_p": 0.6}, (0.4595, 0.3243, 0.2162)),
    ):
        found = frequencies(sampler(submission)(logits, **options, generator=draw.generator())).cpu()
        right = torch.zeros(2, VOCAB, dtype=torch.float64)
        right[:, : len(wanted)] = torch.tensor(wanted, dtype=torch.float64)
        (option,) = options
        what = f"with {option} = {options[option]}, how often the tokens come in each row"
        agree(found.gather(1, ranks), right, what, "row token", rel=0.0, abs=0.036)


@exercise("8.4")
def test_the_generator_decides_what_is_drawn(submission, draw):
    logits, _ = draw_logits(draw)
    logits = logits.expand(200, VOCAB)
    one, other = draw.generator(), draw.generator()
    drawn = []

    def same_as_first(tokens):
        drawn.append(tokens)
        return bool(torch.equal(drawn[0], tokens))

    sample = submission.decoding.sample_token.seen_as(same_as_first, 0.0)
    for generator in (one, one, other):
        sample(logits, top_k=6, generator=generator)
    require(
        bool(torch.equal(drawn[0], drawn[1])),
        "two generators in the same state should draw the same tokens, they drew different ones",
    )
    require(
        not torch.equal(drawn[0], drawn[2]),
        "generators in different states drew the same 200 tokens: is anything drawn at random?",
    )


@exercise("8.4")
def test_huge_logits_and_impossible_tokens_are_no_trouble(submission, draw):
    logits, probabilities = draw_logits(draw, shift=2e3)
    best = probabilities.argsort(descending=True)
    logits[best[0]] = -math.inf  # this token is ruled out from the start
    options = {"temperature": 0.5, "top_p": 0.6}
    tokens = sampler(submission)(logits.expand(ROWS, VOCAB), **options, generator=draw.generator())
    found = frequencies(tokens)[best.cpu()].cpu()
    # Without 0.34 the squares of 0.24 and 0.16 have shares of 0.55 and 0.24: together 0.79.
    right = torch.tensor([0.0, 0.6923, 0.3077, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    what = "with logits of 2000 and the best token impossible, how often the tokens come"
    agree(found, right, what, "token", rel=0.0, abs=0.036)
    # Far below zero, steps of 1024 make the best token certain, and float32 still holds them.
    ranks = draw.normal(batch=5, vocab=VOCAB).argsort(dim=-1)
    certain = ranks.argmax(dim=-1)
    sample = submission.decoding.sample_token.seen_as(lambda tokens: tokens == certain, 0.0)
    for options in ({"top_k": 2}, {"top_p": 0.9}):
        found = sample(ranks * 1024.0 - 2.0**33, **options)
        same_items(found.tolist(), certain.tolist(), "with logits of about -9e9 the tokens")


@guard("8.4")
def test_the_logits_are_left_alone(submission, draw):
    # One token of each row is certain, so that nothing here depends on chance.
    ranks = draw.normal(batch=2, vocab=VOCAB).argsort(dim=-1)
    sample = submission.decoding.sample_token
    for options in ({"temperature": 0.5, "top_k": 4, "top_p": 0.9}, {"top_k": 3}, {"top_p": 0.6}):
        leaves_inputs_alone(sample, ranks * 100.0, **options, names=("logits",))


@guard("8.4")
def test_one_token_is_drawn_for_every_row_and_it_is_in_the_vocabulary(submission, draw):
    logits = draw.normal(batch=2, beam=3, vocab=VOCAB, dtype=torch.float64)
    sample = submission.decoding.sample_token.seen_as(lambda tokens: list(tokens.shape), 0.0)
    tokens = sample(logits, temperature=0.9, top_k=5, top_p=0.95)
    require(tuple(tokens.shape) == (2, 3), f"tokens should be (batch 2, beam 3), not {tokens.shape}")
    inside = bool(((tokens >= 0) & (tokens < VOCAB)).all())
    require(inside, f"tokens should be from 0 to {VOCAB - 1}, but some are not")


# 8.5 ------------------------------------------------------------------------------------------------


def draw_attentions(submission, expected, draw, double=True):
    """Give an attention of the submission and one of the reference, with the same weights."""
    right = expected.attention.MultiHeadAttention(D_MODEL, HEADS)
    if double:
        right.double()
    state = draw.state(right)
    right.load_state_dict(state)
    mine = submission.attention.MultiHeadAttention(D_MODEL, HEADS)
    if double:
        mine.double()
    mine.load_state_dict(state)
    return mine, right


def draw_words(draw, dtype=torch.float64, seq=SEQ):
    return draw.normal(batch=BATCH, seq=seq, d_model=D_MODEL, dtype=dtype)


def feed(cached, chunks, words, right_output, right_weights, what):
    """Feed the words in chunks of these sizes and compare each answer with the full pass."""
    start = 0
    for size in chunks:
        end = start + size
        new = words[:, start:end]
        output, weights = cached(new, new, new)
        place = (
            f"{what}, for the words {start} to {end - 1}" if size > 1 else f"{what}, for word {start}"
        )
        agree(
            weights, right_weights[:, :, start:end, :end], f"{place} the weight", "batch head query key"
        )
        agree(output, right_output[:, start:end], f"{place} the output", "batch query d_model")
        start = end


def check_chunks(submission, expected, draw, chunks, what):
    words = draw_words(draw)
    causal = expected.masking.causal_mask(SEQ)
    mine, right = draw_attentions(submission, expected, draw)
    right_output, right_weights = right(words, words, words, causal)
    cached = submission.decoding.CachedAttention(mine)
    feed(cached, chunks, words, right_output, right_weights, what)


@exercise("8.5")
def test_one_word_at_a_time_gives_the_full_pass(submission, expected, draw):
    check_chunks(submission, expected, draw, (1,) * SEQ, "one word at a time")


@exercise("8.5")
def test_all_words_at_once_see_no_future(submission, expected, draw):
    check_chunks(submission, expected, draw, (SEQ,), "all words at once")


@exercise("8.5")
def test_a_prompt_and_then_single_words_give_the_full_pass(submission, expected, draw):
    check_chunks(submission, expected, draw, (4, 1, 1), "after a prompt of four words")


@exercise("8.5")
def test_a_few_words_at_a_time_give_the_full_pass(submission, expected, draw):
    check_chunks(submission, expected, draw, (1, 3, 2), "a few words at a time")


@exercise("8.5")
def test_query_key_and_value_may_differ(submission, expected, draw):
    query, key, value = (draw_words(draw) for _ in range(3))
    causal = expected.masking.causal_mask(SEQ)
    mine, right = draw_attentions(submission, expected, draw)
    right_output, right_weights = right(query, key, value, causal)
    cached = submission.decoding.CachedAttention(mine)
    for start, end in ((0, 2), (2, 6)):
        parts = (each[:, start:end] for each in (query, key, value))
        output, weights = cached(*parts)
        what = f"with three different inputs, for the words {start} to {end - 1}"
        agree(
            weights, right_weights[:, :, start:end, :end], f"{what} the weight", "batch head query key"
        )
        agree(output, right_output[:, start:end], f"{what} the output", "batch query d_model")


@exercise("8.5")
def test_the_weights_of_a_new_word_sum_to_one_over_all_words_so_far(submission, expected, draw):
    words = draw_words(draw)
    mine, _ = draw_attentions(submission, expected, draw)
    cached = submission.decoding.CachedAttention(mine)
    for start, end in ((0, 3), (3, 4), (4, 6)):
        new = words[:, start:end]
        _, weights = cached(new, new, new)
        shape = (BATCH, HEADS, end - start, end)
        require(
            tuple(weights.shape) == shape,
            f"with {end} words so far, {end - start} of them new, the weights should have the axes "
            f"(batch, heads, query, key) = {shape}, not {tuple(weights.shape)}",
        )
        agree(weights.sum(dim=-1), 1.0, "the sum of the weights over the keys", "batch head query")


@exercise("8.5")
def test_a_mask_that_is_passed_changes_nothing(submission, expected, draw, device):
    words = draw_words(draw)
    causal = expected.masking.causal_mask(SEQ)
    mine, right = draw_attentions(submission, expected, draw)
    right_output, _ = right(words, words, words, causal)
    cached = submission.decoding.CachedAttention(mine)
    for start, end, visible in ((0, 3, True), (3, 5, True), (5, 6, False)):
        mask = torch.full((end - start, end), visible, device=device)
        mask[:, 0] = True
        new = words[:, start:end]
        output, _ = cached(new, new, new, mask)
        agree(output, right_output[:, start:end], "under a mask the output", "batch query d_model")


@exercise("8.5")
def test_two_caches_on_one_attention_do_not_mix(submission, expected, draw):
    words, others = draw_words(draw), draw_words(draw, seq=4)
    causal, short = expected.masking.causal_mask(SEQ), expected.masking.causal_mask(4)
    mine, right = draw_attentions(submission, expected, draw)
    right_output, right_weights = right(words, words, words, causal)
    right_other, right_other_weights = right(others, others, others, short)
    first = submission.decoding.CachedAttention(mine)
    second = submission.decoding.CachedAttention(mine)
    feed(first, (3,), words, right_output, right_weights, "in the first cache")
    feed(second, (3, 1), others, right_other, right_other_weights, "in the second cache")
    output, _ = first(words[:, 3:], words[:, 3:], words[:, 3:])
    agree(output, right_output[:, 3:], "in the first cache again, the output", "batch query d_model")


@exercise("8.5")
def test_gradients_reach_the_new_words_and_the_weights(submission, expected, draw):
    query, key, value = (draw_words(draw, seq=5) for _ in range(3))
    causal = expected.masking.causal_mask(5)
    mine, right = draw_attentions(submission, expected, draw)
    wanted = right.forward.observe(query, key, value, causal, gradients=True).gradients
    cached = submission.decoding.CachedAttention(mine)
    found = cached.forward.observe(query, key, value, gradients=True).gradients
    for place, name in enumerate(("query", "key", "value")):
        gradient = found.get(str(place))
        require(gradient is not None, f"no gradient arrives at {name}: somewhere it is cut off")
        agree(gradient, wanted[str(place)], f"the gradient for {name}", "batch seq d_model", rel=1e-5)
    for name in ("w_q", "w_k", "w_v", "w_o"):
        gradient = found.get(f"parameter attention.{name}.weight")
        require(gradient is not None, f"no gradient arrives at the weight of {name}: it is cut off")
        right_one = wanted[f"parameter {name}.weight"]
        agree(gradient, right_one, f"the gradient for the weight of {name}", "out in", rel=1e-5)


@exercise("8.5")
def test_the_future_stays_hidden_even_when_scores_are_huge(submission, expected, draw):
    words = draw_words(draw) * 1e6
    causal = expected.masking.causal_mask(SEQ)
    mine, right = draw_attentions(submission, expected, draw)
    _, right_weights = right(words, words, words, causal)
    cached = submission.decoding.CachedAttention(mine)
    for start, end in ((0, 4), (4, 6)):
        new = words[:, start:end]
        output, weights = cached(new, new, new)
        finite(output, "the output for words of 1e6")
        what = "for words of 1e6 the weight"
        agree(weights, right_weights[:, :, start:end, :end], what, "batch head query key", abs=1e-3)


@guard("8.5")
def test_the_new_words_are_left_alone(submission, expected, draw):
    words = draw_words(draw)
    mine, _ = draw_attentions(submission, expected, draw)
    cached = submission.decoding.CachedAttention(mine)
    for start, end in ((0, 4), (4, 6)):
        new = words[:, start:end]
        leaves_inputs_alone(cached, new, new + 1, new + 2, names=("query", "key", "value"))


@guard("8.5")
def test_outputs_keep_the_dtype_of_the_words(submission, expected, draw):
    for double, dtype in ((False, torch.float32), (True, torch.float64)):
        words = draw_words(draw, dtype)
        mine, _ = draw_attentions(submission, expected, draw, double)
        output, weights = submission.decoding.CachedAttention(mine)(words, words, words)
        keeps_dtype(output, dtype, "the output")
        keeps_dtype(weights, dtype, "the weights")
