"""Training and its parts, against PyTorch's own and the paper's numbers."""

import math

import pytest
import torch
from comparison import assert_close
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from lab_transformer.loss import sequence_loss, shift_right
from lab_transformer.training import (
    AdamW,
    Descent,
    WordModel,
    adamw_step,
    dropout,
    evaluate,
    noam_rate,
    token_batches,
    train_step,
)
from lab_transformer.transformer import Transformer

PAD, BOS = 0, 1


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_has_the_moments_of_torchs(p):
    x = torch.linspace(-2, 3, 50, dtype=torch.float64).repeat(6000, 1)
    generator = torch.Generator().manual_seed(3)
    torch.manual_seed(4)
    ours, theirs = dropout(x, p, generator), F.dropout(x, p)
    for result in (ours, theirs):
        lost = (result == 0).double().mean(dim=0)
        assert (lost - p).abs().max() < 5 * (p * (1 - p) / len(x)) ** 0.5
    spread = (x[0].abs() * (p / (1 - p)) ** 0.5) / len(x) ** 0.5
    assert ((ours.mean(dim=0) - x[0]).abs() < 5 * spread + 1e-12).all()
    assert ((ours.mean(dim=0) - theirs.mean(dim=0)).abs() < 7 * spread + 1e-12).all()
    ratio = ours.var(dim=0) / (x[0].square() * p / (1 - p))
    assert (ratio - 1).abs().max() < 0.1
    # Neither neighbours in a row nor those in a column are lost together.
    kept = (ours != 0).double() - (1 - p)
    for a, b in ((kept[:, 1:], kept[:, :-1]), (kept[1:], kept[:-1])):
        assert (a * b).mean().abs() < 5 * p * (1 - p) / a.numel() ** 0.5


def test_dropout_at_its_ends():
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.equal(dropout(x, 0.0), x)
    assert torch.equal(dropout(x, 1.0), torch.zeros_like(x))
    (gradient,) = torch.autograd.grad(dropout(x, 1.0).sum(), x)
    assert torch.equal(gradient, torch.zeros_like(x))


lengths_and_budgets = st.lists(st.integers(1, 30), max_size=60).flatmap(
    lambda lengths: st.tuples(st.just(lengths), st.integers(max(lengths, default=1), 200))
)


@settings(deadline=None, max_examples=100)
@given(lengths_and_budgets)
def test_batches_hold_every_sentence_once_within_the_budget_and_by_length(case):
    lengths, budget = case
    batches = token_batches(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    inside = [sorted(lengths[index] for index in batch) for batch in batches]
    assert all(batch[-1] * len(batch) <= budget for batch in inside)
    assert [length for batch in inside for length in batch] == sorted(lengths)
    assert len(batches) == fewest(sorted(lengths), budget)


def fewest(ordered, budget):
    """The least number of stretches, by trying every last one."""
    best = [0]
    for end in range(1, len(ordered) + 1):
        fits = (s for s in range(end) if ordered[end - 1] * (end - s) <= budget)
        best.append(1 + min(best[s] for s in fits))
    return best[-1]


def test_the_rate_of_the_paper():
    # d_model 512, warm-up 4000: the base model of 2017, and its 100,000 steps.
    assert noam_rate(4000, 512, 4000) == pytest.approx(6.98771e-4, rel=1e-5)
    assert noam_rate(1, 512, 4000) == pytest.approx(6.98771e-4 / 4000, rel=1e-5)
    assert noam_rate(100_000, 512, 4000) == pytest.approx(6.98771e-4 / 5, rel=1e-5)
    rates = [noam_rate(step, 512, 4000) for step in range(1, 20_000)]
    assert max(range(len(rates)), key=rates.__getitem__) + 1 == 4000
    assert all(type(rate) is float for rate in rates)


def groups():
    generator = torch.Generator().manual_seed(5)
    shapes = [(4, 3), (7,), (), (2, 3, 5)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def test_fifty_steps_of_several_groups_equal_those_of_torch():
    options = [
        {"lr": 0.02, "betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.0},
        {"lr": 0.5, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1},
        {"lr": 1e-3, "betas": (0.0, 0.999), "eps": 1e-8, "weight_decay": 0.01},
    ]
    theirs = [[nn.Parameter(tensor) for tensor in groups()] for _ in options]
    torch_own = torch.optim.AdamW(
        [{"params": own, **option} for own, option in zip(theirs, options, strict=True)]
    )
    ours = [[(tensor, None) for tensor in groups()] for _ in options]
    generator = torch.Generator().manual_seed(6)
    for step in range(50):
        for group, own, option in zip(ours, theirs, options, strict=True):
            for i, parameter in enumerate(own):
                gradient = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                gradient = gradient * 10.0 ** (step % 5 - 2)
                parameter.grad = gradient.clone()
                tensor, state = group[i]
                group[i] = adamw_step(
                    tensor, gradient, state, option["lr"], option["betas"], option["eps"],
                    option["weight_decay"],
                )  # fmt: skip
        torch_own.step()
        for group, own in zip(ours, theirs, strict=True):
            for (tensor, state), parameter in zip(group, own, strict=True):
                torch.testing.assert_close(tensor, parameter.detach(), rtol=1e-12, atol=1e-14)
                kept = torch_own.state[parameter]
                assert state[0] == int(kept["step"]) == step + 1
                torch.testing.assert_close(state[1], kept["exp_avg"], rtol=1e-12, atol=1e-14)
                torch.testing.assert_close(state[2], kept["exp_avg_sq"], rtol=1e-12, atol=1e-14)


def batch(seed=0, rows=5, vocab=(11, 13)):
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(2, vocab[0], (rows, 7), generator=generator)
    target = torch.randint(2, vocab[1], (rows, 6), generator=generator)
    source[0, -3:] = target[0, -2:] = target[1, 1:] = PAD
    return source, target


def transformer(dropout=0.0):
    torch.manual_seed(7)
    sizes = {"n_layers": 1, "d_model": 24, "n_heads": 3, "d_ff": 40, "max_length": 20}
    return Transformer(11, 13, **sizes, dropout=dropout).double()


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_steps_of_training_equal_those_written_with_torchs_own_parts(smoothing):
    ours, theirs = transformer(), transformer()
    mine = AdamW(ours.parameters(), 0.01, (0.9, 0.98), 1e-9, 0.1)
    own = torch.optim.AdamW(theirs.parameters(), 0.01, (0.9, 0.98), 1e-9, 0.1)
    for step in range(5):
        source, target = batch(step)
        loss = train_step(ours, mine, source, target, BOS, PAD, 0.5, smoothing)
        shifted = F.pad(target[:, :-1], (1, 0), value=BOS)
        logits = theirs(source, shifted).transpose(1, 2)
        expected = F.cross_entropy(logits, target, ignore_index=PAD, label_smoothing=smoothing)
        own.zero_grad()
        expected.backward()
        norm = nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        assert norm > 0.5
        own.step()
        assert loss == pytest.approx(expected.item(), rel=1e-6)
    for name, parameter in ours.state_dict().items():
        # Torch's clipping adds a millionth to the norm.
        torch.testing.assert_close(parameter, theirs.state_dict()[name], rtol=1e-4, atol=1e-6)


def test_the_first_loss_is_near_the_logarithm_of_the_vocabulary_and_a_batch_is_learned_by_heart():
    model = WordModel(11, 13, 24)
    nn.init.zeros_(model.output.weight)
    nn.init.zeros_(model.output.bias)
    optimizer = torch.optim.AdamW(model.parameters(), 0.02)
    losses = [train_step(model, optimizer, *batch(), BOS, PAD) for _ in range(200)]
    assert losses[0] == pytest.approx(math.log(13), rel=1e-5)
    assert losses[-1] < 0.5


@pytest.mark.parametrize("mode", [True, False])
def test_evaluation_is_a_mean_over_words_without_dropout(mode):
    model = transformer(dropout=0.4).train(mode)
    batches = [batch(seed, rows) for seed, rows in ((1, 2), (2, 9))]
    found = evaluate(model, batches, BOS, PAD)
    assert model.training is mode
    assert all(part.training is mode for part in model.modules())
    assert torch.is_grad_enabled()
    model.eval()
    total, words = 0.0, 0
    for source, target in batches:
        logs = model(source, shift_right(target, BOS)).log_softmax(dim=-1)
        chosen = logs.gather(-1, target[..., None])[..., 0]
        total -= chosen[target != PAD].sum().item()
        words += int((target != PAD).sum())
    assert found == pytest.approx(total / words, rel=1e-9)


def test_a_batch_without_words_adds_nothing():
    model = WordModel(11, 13, 24)
    source, target = batch()
    empty = (source, torch.zeros_like(target))
    alone = evaluate(model, [(source, target)], BOS, PAD)
    assert evaluate(model, [empty, (source, target)], BOS, PAD) == pytest.approx(alone)


def test_what_the_checks_train_moves_like_torchs_own_descent():
    models = [WordModel(11, 13, 6).double() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = Descent(models[0], 0.3), torch.optim.SGD(models[1].parameters(), 0.3)
    for model, optimizer in zip(models, optimizers, strict=True):
        logits = model(batch()[0], shift_right(batch()[1], BOS))
        sequence_loss(logits, batch()[1], PAD).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert_close(one.detach(), other.detach())
        assert one.grad is None or not one.grad.any()


def reads_as(error, *words):
    return pytest.raises(error, match="(?s)" + ".*".join(words))


@pytest.mark.parametrize("p", [-0.01, 1.01, math.nan])
def test_dropout_needs_a_probability(p):
    with reads_as(ValueError, "probability from 0 to 1", str(p)):
        dropout(torch.zeros(3), p)


@pytest.mark.parametrize(
    ("lengths", "budget", "words"),
    [
        ([3, 9, 4], 8, ["sentence 1", "9 tokens", "max_tokens is 8"]),
        ([3, 0], 8, ["sentence 1", "length 0"]),
        ([3, -2], 8, ["sentence 1", "length -2"]),
        ([], 0, ["max_tokens", "0"]),
    ],
)
def test_batches_need_room_for_every_sentence(lengths, budget, words):
    with reads_as(ValueError, *words):
        token_batches(lengths, budget)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((0, 512, 4000), ["step is at least 1, not 0"]),
        ((-3, 512, 4000), ["step is at least 1, not -3"]),
        ((1, 0, 4000), ["d_model is at least 1"]),
        ((1, 512, 0), ["warmup is at least 1"]),
    ],
)
def test_there_is_no_step_0(numbers, words):
    with reads_as(ValueError, *words):
        noam_rate(*numbers)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gradient": torch.zeros(3)}, [r"\(2, 3\)", r"\(3,\)", "differ in shape"]),
        ({"rate": -0.1}, ["not negative"]),
        ({"eps": -0.1}, ["not negative"]),
        ({"weight_decay": -0.1}, ["not negative"]),
        ({"betas": (1.0, 0.9)}, ["betas", "below 1"]),
        ({"betas": (0.9, -0.1)}, ["betas"]),
    ],
)
def test_numbers_out_of_range_make_no_step(change, words):
    usual = {"parameter": torch.zeros(2, 3), "gradient": torch.zeros(2, 3), "state": None, "rate": 0.1}
    with reads_as(ValueError, *words):
        adamw_step(**usual | change)


class Untouchable(nn.Module):
    def forward(self, *_):
        raise AssertionError("the model was called before the input was checked")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target": torch.zeros(5, 6, dtype=torch.long)}, ["no word"]),
        ({"target": torch.ones(4, 6, dtype=torch.long)}, ["batch is 5", "4"]),
        ({"source": torch.ones(5, dtype=torch.long)}, ["source", "axes"]),
        ({"max_norm": 0.0}, ["max_norm", "positive"]),
        ({"smoothing": 1.2}, ["smoothing", "0 to 1"]),
    ],
)
def test_a_step_needs_words_and_a_limit(change, words):
    source, target = batch()
    usual = {"source": source, "target": target, "bos_id": BOS, "pad_id": PAD}
    with reads_as(ValueError, *words):
        train_step(Untouchable(), None, **usual | change)


def test_evaluation_needs_words():
    source, target = batch()
    for batches in ([], [(source, torch.zeros_like(target))]):
        with reads_as(ValueError, "no word"):
            evaluate(Untouchable(), batches, BOS, PAD)
    with reads_as(ValueError, "batch is 5"):
        evaluate(Untouchable(), [(source, target[1:])], BOS, PAD)
