"""Language models against what they are by definition, and against PyTorch's own modules."""

import math
from itertools import product

import pytest
import torch
from comparison import assert_close
from torch.nn import functional as F

from lab_transformer.generation import generate, gpt_step
from lab_transformer.gpt import GPT
from lab_transformer.language import (
    NGram,
    bigram_model,
    bits_per_byte,
    next_token_batch,
    perplexity,
)


def refuses(error, *words):
    """Expect an error whose message has all the words, in this order."""
    return pytest.raises(error, match="(?s)" + ".*".join(words))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def some_text(length=400, vocab=7):
    """A text in which the last two tokens say much about the next one."""
    text, noise = [0, 1], torch.rand(length, generator=generator()).tolist()
    for chance in noise:
        text.append((text[-1] + 2 * text[-2] + (chance > 0.8)) % vocab)
    return torch.tensor(text)


# Batches


@pytest.mark.parametrize("context", [1, 6, 19])
def test_rows_are_pieces_and_targets_are_the_pieces_one_further_on(context):
    text = torch.arange(20)
    inputs, targets = next_token_batch(text, 300, context, generator())
    assert inputs.shape == targets.shape == (300, context)
    assert torch.equal(inputs, inputs[:, :1] + torch.arange(context))
    assert torch.equal(targets, inputs + 1)
    assert {int(start) for start in inputs[:, 0]} == set(range(20 - context))


def test_a_batch_leaves_the_generator_further_on():
    text, one = torch.arange(1000), generator()
    first, second = (next_token_batch(text, 8, 5, one)[0] for _ in range(2))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_a_batch_keeps_the_dtype_of_the_text(dtype):
    for rows in next_token_batch(torch.arange(20).to(dtype), 3, 4, generator()):
        assert rows.dtype == dtype


@pytest.mark.parametrize("length", [0, 1, 5])
def test_a_context_longer_than_the_text_is_refused(length):
    with refuses(ValueError, "5 tokens", "6 tokens", f"the text has {length}"):
        next_token_batch(torch.zeros(length, dtype=torch.long), 3, 5, generator())


@pytest.mark.parametrize("sizes", [{"batch": 0, "context": 5}, {"batch": 3, "context": -1}])
def test_a_batch_has_at_least_one_row_of_one_token(sizes):
    with refuses(ValueError, "is at least 1, not"):
        next_token_batch(torch.arange(20), **sizes, generator=generator())


def test_a_text_is_one_row_of_tokens():
    with refuses(ValueError, "tokens needs the axes", "length"):
        next_token_batch(torch.zeros(2, 20, dtype=torch.long), 3, 5, generator())


# The GPT


def test_a_gpt_is_look_ups_blocks_norm_and_output():
    model = GPT(11, 2, 24, 3, 9)
    tokens = torch.randint(11, (2, 5))
    x = model.token_embedding.weight[tokens] + model.position_embedding.weight[2:7]
    for block in model.blocks:
        x = block(x)
    expected = F.linear(model.norm(x), model.token_embedding.weight)
    assert_close(model(tokens, offset=2), expected)


def test_one_matrix_reads_and_writes_tokens():
    model = GPT(11, 2, 24, 3, 9)
    names = [name for name, _ in model.named_parameters()]
    assert model.output.weight is model.token_embedding.weight
    assert "output.weight" not in names
    assert 0.015 < model.token_embedding.weight.std().item() < 0.025


def test_an_untrained_gpt_finds_all_tokens_equally_likely():
    model = GPT(1000, 2, 24, 3, 9)
    tokens = torch.randint(1000, (8, 10))
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).item()
    assert loss == pytest.approx(math.log(1000), abs=0.2)


@pytest.mark.parametrize("wrong", [-1, 13, 400])
def test_a_token_that_does_not_exist_is_refused(wrong):
    model, tokens = GPT(13, 1, 24, 3, 8), torch.tensor([[3, wrong, 5]])
    with refuses(ValueError, f"there is no token {wrong}", "a vocabulary of 13 ends at 12"):
        model(tokens)
    with refuses(ValueError, f"there is no token {wrong}"):
        gpt_step(model)(tokens)
    with refuses(ValueError, f"there is no token {wrong}"):
        generate(model, tokens[0].tolist(), 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_tokens_are_whole_numbers(dtype):
    with refuses(TypeError, "tokens are whole numbers", str(dtype)):
        GPT(13, 1, 24, 3, 8)(torch.zeros(2, 3).to(dtype))


@pytest.mark.parametrize("offset", [-1, 4, 9])
def test_positions_outside_the_context_are_refused(offset):
    with refuses(ValueError, "5 tokens", "do not fit", "context of 8"):
        GPT(13, 1, 24, 3, max_length=8)(torch.zeros(2, 5, dtype=torch.long), offset)


def test_a_text_does_not_become_shorter():
    with refuses(ValueError, "max_new is 0 or more", "-1"):
        generate(GPT(13, 1, 24, 3, 8), [1], -1)


# Bits per byte and perplexity


def test_both_measures_are_those_of_the_whole_text():
    torch.manual_seed(0)
    logits, targets = torch.randn(50, 11, dtype=torch.float64), torch.randint(11, (50,))
    whole = F.cross_entropy(logits, targets).item()
    for cuts in ([50], [20, 30], [7, 40, 3], [1] * 50):
        pieces = list(zip(logits.split(cuts), targets.split(cuts), strict=True))
        losses = [F.cross_entropy(*piece).item() for piece in pieces]
        assert perplexity(losses, cuts) == pytest.approx(math.exp(whole))
        assert bits_per_byte(losses, cuts, 120) == pytest.approx(whole * 50 / math.log(2) / 120)


@pytest.mark.parametrize("measure", [perplexity, lambda *pair: bits_per_byte(*pair, 20)])
@pytest.mark.parametrize(
    ("losses", "tokens", "words"),
    [
        ([], [], ["0 losses"]),
        ([1.0, 2.0], [5], ["2 losses", "1 numbers"]),
        ([1.0, 2.0], [5, 0], [r"tokens\[1\] is at least 1, not 0"]),
        ([1.0, -2.0], [5, 4], [r"losses\[1\] is -2.0"]),
        ([math.nan], [5], [r"losses\[0\] is nan"]),
    ],
)
def test_scores_that_cannot_be_are_refused(measure, losses, tokens, words):
    with refuses(ValueError, *words):
        measure(losses, tokens)


def test_a_text_has_at_least_one_byte():
    with refuses(ValueError, "n_bytes is at least 1, not 0"):
        bits_per_byte([1.0], [5], 0)


# Bigrams and longer


@pytest.mark.parametrize("smoothing", [0.0, 0.5, 3.0])
def test_a_bigram_model_is_shares_of_counts(smoothing):
    text = torch.randint(1, 6, (80,), generator=generator())
    table = bigram_model(text, 7, smoothing)
    pairs = list(zip(text.tolist(), text.tolist()[1:], strict=False))
    for a, b in product(range(7), repeat=2):
        followed = sum(first == a for first, _ in pairs)
        total = followed + 7 * smoothing
        share = (pairs.count((a, b)) + smoothing) / total if total else 1 / 7
        assert table[a, b].item() == pytest.approx(share)


def test_without_smoothing_it_is_the_likeliest_table_there_is():
    text = some_text()
    logits = torch.zeros(7, 7, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=200)

    def loss():
        optimizer.zero_grad()
        total = F.cross_entropy(logits[text[:-1]], text[1:])
        total.backward()
        return total

    optimizer.step(loss)
    best = loss().item()
    ours = F.nll_loss(bigram_model(text, 7, 0.0).log()[text[:-1]], text[1:]).item()
    assert ours == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize("wrong", [-1, 5])
def test_a_bigram_model_of_tokens_that_do_not_exist_is_refused(wrong):
    with refuses(ValueError, f"there is no token {wrong}", "5 ends at 4"):
        bigram_model(torch.tensor([1, wrong, 2]), 5, 0.1)
    with refuses(ValueError, f"there is no token {wrong}"):
        NGram(torch.tensor([1, wrong, 2]), 5)


@pytest.mark.parametrize("smoothing", [-0.1, math.inf, math.nan])
def test_smoothing_is_no_less_than_nothing(smoothing):
    with refuses(ValueError, "smoothing is 0 or more"):
        bigram_model(torch.tensor([1, 2]), 5, smoothing)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_probabilities_of_an_n_gram_model_sum_to_one(n):
    model = NGram(some_text(60), 9, n)
    for context in [(), (3,), (8,), (1, 2), (6, 5, 4), (8, 8, 8), (0, 1, 3, 5, 1)]:
        every = [model.probability(context, token) for token in range(9)]
        assert sum(every) == pytest.approx(1)
        assert min(every) > 0


def test_an_n_gram_model_by_hand():
    # Alone: 2 of 5 are 0, and 3 different tokens came: (2 + 3 / 4) / 8.
    model = NGram(torch.tensor([0, 1, 0, 1, 2]), 4, 2)
    alone = (2 + 3 / 4) / 8
    assert model.probability((), 0) == pytest.approx(alone)
    # After 1 came 0 and 2, once each: (1 + 2 * alone) / 4.
    assert model.probability((1,), 0) == pytest.approx((1 + 2 * alone) / 4)
    # Nothing came after 2: what is known of 0 alone is left.
    assert model.probability((2,), 0) == pytest.approx(alone)


def test_a_longer_context_helps_where_there_is_something_in_it():
    text = some_text(3000)
    learned, held_out = text[:2500], text[2500:]
    losses = [NGram(learned, 7, n).losses(held_out).mean().item() for n in (1, 2, 3)]
    assert losses[2] < losses[1] - 0.2
    bigrams = bigram_model(learned, 7, 0.1).log()[held_out[:-1]]
    assert losses[2] < F.nll_loss(bigrams, held_out[1:]).item() - 0.2


def test_losses_are_those_of_the_probabilities():
    model, text = NGram(some_text(100), 7, 3), torch.tensor([3, 0, 6, 6])
    contexts = [(), (3,), (3, 0), (0, 6)]
    pairs = zip(contexts, text.tolist(), strict=True)
    wanted = [-math.log(model.probability(*pair)) for pair in pairs]
    assert model.losses(text).tolist() == pytest.approx(wanted, rel=1e-5)


def test_an_n_gram_holds_at_least_one_token():
    with refuses(ValueError, "n is at least 1, not 0"):
        NGram(torch.tensor([1, 2]), 5, 0)
