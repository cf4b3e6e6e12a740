"""Search against brute force over all sequences, sampling against its probabilities."""

import itertools
import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lab_transformer.decoding import beam_search, greedy_decode, length_normalised, sample_token

BOS, EOS = 0, 1


class RandomStep:
    """A made-up model: every prefix has its own random distribution over the next token."""

    def __init__(self, seed: int, vocab: int, forbidden: float = 0.0) -> None:
        self.seed, self.vocab, self.forbidden = seed, vocab, forbidden
        self.seen: list[list[int]] = []

    def row(self, prefix: list[int]) -> torch.Tensor:
        dice = random.Random(f"{self.seed} {prefix}")
        logits = [dice.gauss(0, 2) for _ in range(self.vocab)]
        for token in range(1, self.vocab):
            if dice.random() < self.forbidden:
                logits[token] = -math.inf
        return torch.tensor(logits, dtype=torch.float64).log_softmax(dim=-1)

    def __call__(self, prefixes: torch.Tensor) -> torch.Tensor:
        self.seen += prefixes.tolist()
        return torch.stack([self.row(prefix) for prefix in prefixes.tolist()])


def all_sequences(step: RandomStep, max_length: int, penalty: float) -> list[tuple[list[int], float]]:
    """Rank every sequence that ends with EOS, and every one of max_length tokens that does not."""
    found = []
    others = [token for token in range(step.vocab) if token != EOS]
    for length in range(max_length):
        for body in itertools.product(others, repeat=length):
            for end in ([EOS], []) if length < max_length - 1 else ([],):
                tokens = [BOS, *body, *end]
                if not end and len(tokens) < max_length:
                    continue
                score = sum(float(step.row(tokens[:t])[tokens[t]]) for t in range(1, len(tokens)))
                if score > -math.inf:
                    found.append((tokens, score / ((5 + len(tokens) - 1) / 6) ** penalty))
    return sorted(found, key=lambda pair: -pair[1])


def assert_same_ranking(found, expected):
    assert [tokens for tokens, _ in found] == [tokens for tokens, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected])


penalties = st.sampled_from([-1.0, 0.0, 0.6, 1.0, 2.0])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    vocab=st.integers(2, 4),
    max_length=st.integers(1, 5),
    penalty=penalties,
    forbidden=st.sampled_from([0.0, 0.4]),
)
def test_a_beam_as_wide_as_the_tree_ranks_all_sequences(seed, vocab, max_length, penalty, forbidden):
    step = RandomStep(seed, vocab, forbidden)
    expected = all_sequences(step, max_length, penalty)
    found = beam_search(step, BOS, EOS, 400, max_length, penalty)
    assert_same_ranking(found, expected)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), max_length=st.integers(2, 5), penalty=penalties)
def test_a_wide_beam_that_may_stop_early_still_finds_the_best_sequences(seed, max_length, penalty):
    # 81 prefixes at most are alive, so none is ever dropped; but there are more sequences than that,
    # so the search may stop before the last step, and must not lose anything by it.
    step = RandomStep(seed, vocab=4)
    expected = all_sequences(step, max_length, penalty)[:81]
    assert_same_ranking(beam_search(step, BOS, EOS, 81, max_length, penalty), expected)


def plain_beam_search(step, width, max_length, penalty):
    """The definition, in the plainest words: lists, no early stop."""
    alive, finished = [([BOS], 0.0)], []
    for _ in range(max_length - 1):
        options = [
            ([*tokens, token], total + float(value))
            for tokens, total in alive
            for token, value in enumerate(step.row(tokens))
        ]
        options.sort(key=lambda pair: -pair[1])
        finished += [(tokens, total) for tokens, total in options[:width] if tokens[-1] == EOS]
        alive = [(tokens, total) for tokens, total in options if tokens[-1] != EOS][:width]
    ranked = [
        (tokens, total / ((5 + len(tokens) - 1) / 6) ** penalty) for tokens, total in finished + alive
    ]
    return sorted(ranked, key=lambda pair: -pair[1])[:width]


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    width=st.integers(1, 6),
    vocab=st.integers(2, 7),
    max_length=st.integers(1, 7),
    penalty=penalties,
)
def test_a_narrow_beam_equals_the_plain_definition(seed, width, vocab, max_length, penalty):
    step = RandomStep(seed, vocab)
    expected = plain_beam_search(step, width, max_length, penalty)
    assert_same_ranking(beam_search(step, BOS, EOS, width, max_length, penalty), expected)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), max_length=st.integers(1, 9))
def test_one_beam_without_penalty_is_greedy(seed, max_length):
    step = RandomStep(seed, vocab=5)
    [(tokens, score)] = beam_search(step, BOS, EOS, 1, max_length)
    assert tokens == greedy_decode(step, BOS, EOS, max_length)
    assert score == pytest.approx(
        sum(float(step.row(tokens[:t])[tokens[t]]) for t in range(1, len(tokens)))
    )


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), width=st.integers(1, 5))
def test_a_finished_beam_is_never_extended(seed, width):
    step = RandomStep(seed, vocab=5)
    beam_search(step, BOS, EOS, width, 8)
    assert not any(EOS in prefix for prefix in step.seen)


def test_greedy_is_not_always_the_most_probable():
    tree = {(0,): [0, 0, 0.6, 0.4], (0, 2): [0, 0.4, 0.3, 0.3], (0, 3): [0, 0.9, 0.05, 0.05]}

    def step(prefixes):
        rows = [tree.get(tuple(prefix), [0, 1, 0, 0]) for prefix in prefixes.tolist()]
        return torch.tensor(rows).log()

    assert greedy_decode(step, BOS, EOS, 5) == [0, 2, 1]
    best, score = beam_search(step, BOS, EOS, 2, 5)[0]
    assert best == [0, 3, 1]
    assert score == pytest.approx(math.log(0.36))


@pytest.mark.parametrize("max_length", [1, 2, 6])
def test_search_stops_at_max_length_tokens_without_an_end(max_length):
    def step(prefixes):
        return torch.tensor([-math.inf, -math.inf, 0.0]).expand(len(prefixes), 3)

    assert greedy_decode(step, BOS, EOS, max_length) == [0] + [2] * (max_length - 1)
    assert beam_search(step, BOS, EOS, 3, max_length) == [([0] + [2] * (max_length - 1), 0.0)]


def test_the_start_token_may_be_the_end_token_too():
    def step(prefixes):
        return torch.tensor([0.1, 0.2, 0.7]).log().expand(len(prefixes), 3)

    assert greedy_decode(step, bos_id=2, eos_id=2, max_length=9) == [2, 2]
    assert beam_search(step, 2, 2, 1, 9)[0][0] == [2, 2]


@given(st.floats(-100, 0), st.integers(1, 50), st.floats(-2, 2))
def test_length_normalised_follows_its_formula(score, length, penalty):
    expected = score / ((5 + length) / 6) ** penalty
    assert length_normalised(score, length, penalty) == pytest.approx(expected)


def frequencies(logits: torch.Tensor, draws: int = 40_000, **options: object) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    drawn = sample_token(logits.expand(draws, -1), generator=generator, **options)
    return torch.bincount(drawn, minlength=logits.shape[-1]) / draws


LOGITS = torch.tensor([0.2, 1.5, -0.7, 2.0, 0.0])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("top_k", [None, 1, 3, 99])
def test_tokens_are_drawn_as_often_as_their_probability_says(temperature, top_k):
    allowed = LOGITS.argsort(descending=True)[: top_k or 5]
    kept = torch.full_like(LOGITS, -math.inf).scatter(0, allowed, LOGITS[allowed])
    expected = torch.softmax(kept / temperature, dim=-1)
    found = frequencies(LOGITS, temperature=temperature, top_k=top_k)
    # Four standard deviations of a mean of 40 000 draws are at most 0.01.
    torch.testing.assert_close(found, expected, rtol=0, atol=0.01)
    assert (found[expected == 0] == 0).all()


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [(1e-6, [0]), (0.49, [0]), (0.51, [0, 1]), (0.79, [0, 1]), (0.81, [0, 1, 2]), (1.0, [0, 1, 2, 3])],
)
def test_the_nucleus_is_the_smallest_set_that_reaches_top_p(top_p, kept):
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
    found = frequencies(probabilities.log(), top_p=top_p)
    expected = torch.zeros(4).scatter(0, torch.tensor(kept), probabilities[kept].float())
    torch.testing.assert_close(found, expected / expected.sum(), rtol=0, atol=0.01)
    assert found.nonzero().flatten().tolist() == kept


def test_top_k_comes_before_top_p():
    # Of the best two, the first has 0.5 / 0.8 = 0.625 of the probability: enough for 0.6 alone.
    probabilities = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    assert frequencies(probabilities.log(), top_k=2, top_p=0.6)[0] == 1.0


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 7)])
def test_one_token_is_drawn_for_every_row(shape, device):
    generator = torch.Generator(device).manual_seed(0)
    drawn = sample_token(torch.randn(shape, device=device), generator=generator)
    assert drawn.shape == shape[:-1]
    assert drawn.dtype == torch.int64


def test_the_same_generator_draws_the_same_tokens():
    one, other = (
        sample_token(torch.zeros(50, 9), generator=torch.Generator().manual_seed(5)) for _ in range(2)
    )
    assert torch.equal(one, other)
