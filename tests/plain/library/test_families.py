"""Week 11's blocks against their definitions: shares of masked tokens, T5's spans, masks, pictures."""

import itertools

import pytest
import torch
from comparison import assert_close, assert_same_function, random_weights
from torch import nn
from torch.nn import functional as F

from lab_transformer.decoder import CausalBlock
from lab_transformer.families import (
    Classifier,
    MaskedLanguageModel,
    corrupt_spans,
    draw_spans,
    mask_tokens,
    masked_model_from_bert,
    mean_pool,
    prefix_mask,
)
from lab_transformer.masking import causal_mask
from lab_transformer.vision import VisionTransformer, patches

VOCAB, MASK, SPECIAL = 20, 3, [0, 1, 2]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# Words to be guessed


def masked(rate: float = 0.15, count: int = 400_000):
    tokens = torch.randint(VOCAB, (count // 100, 100), generator=seeded(1))
    return tokens, *mask_tokens(tokens, MASK, VOCAB, SPECIAL, seeded(), rate)


def near(share, wanted: float, count: float, what: str) -> None:
    """Five standard deviations of a share of that many draws."""
    found = float(share)
    assert abs(found - wanted) < 5 * (wanted * (1 - wanted) / count) ** 0.5 + 1e-12, (what, found)


@pytest.mark.parametrize("rate", [0.0, 0.15, 0.5, 1.0])
def test_ordinary_tokens_are_asked_for_at_the_rate_and_special_ones_never(rate):
    tokens, _, labels = masked(rate)
    ordinary = ~torch.isin(tokens, torch.tensor([MASK, *SPECIAL]))
    asked = labels != -100
    assert not asked[~ordinary].any()
    near(asked[ordinary].double().mean(), rate, ordinary.sum(), "asked")
    assert torch.equal(labels[asked], tokens[asked])


def test_of_those_asked_for_four_fifths_are_masked_and_a_tenth_is_random():
    tokens, inputs, labels = masked()
    asked = labels != -100
    assert torch.equal(inputs[~asked], tokens[~asked])
    given, true = inputs[asked], tokens[asked]
    near((given == MASK).double().mean(), 0.8, len(given), "masked")
    # One in sixteen of the random tokens is the one that stood there.
    near((given == true).double().mean(), 0.1 + 0.1 / 16, len(given), "kept")
    drawn = given[(given != MASK) & (given != true)]
    counts = drawn.bincount(minlength=VOCAB)
    assert counts[:4].sum() == 0
    for count in counts[4:]:
        near(count / len(drawn), 1 / 16, len(drawn), "one random token")


def test_choices_do_not_depend_on_each_other():
    tokens = torch.randint(4, VOCAB, (20_000, 10), generator=seeded(1))
    _, labels = mask_tokens(tokens, MASK, VOCAB, SPECIAL, seeded(), 0.3)
    counts = (labels != -100).sum(dim=1).double()
    assert counts.mean().item() == pytest.approx(3.0, abs=0.05)
    assert counts.var().item() == pytest.approx(10 * 0.3 * 0.7, rel=0.05)


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.int16])
def test_masked_tokens_keep_dtype_and_shape(kind):
    tokens = torch.randint(4, VOCAB, (2, 3, 5)).to(kind)
    for result in mask_tokens(tokens, MASK, VOCAB, SPECIAL, seeded()):
        assert (result.dtype, result.shape) == (kind, tokens.shape)


def test_the_same_generator_gives_the_same_masks_and_goes_on():
    tokens = torch.randint(4, VOCAB, (10, 50))
    generator = seeded()
    one = mask_tokens(tokens, MASK, VOCAB, SPECIAL, generator)
    other = mask_tokens(tokens, MASK, VOCAB, SPECIAL, generator)
    again = mask_tokens(tokens, MASK, VOCAB, SPECIAL, seeded())
    assert all(torch.equal(*pair) for pair in zip(one, again, strict=True))
    assert not torch.equal(one[1], other[1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rate": 1.5}, "rate is a share from 0 to 1"),
        ({"rate": -0.1}, "rate is a share from 0 to 1"),
        ({"mask_id": 20}, "mask_id 20 is none of 0 to 19"),
        ({"special_ids": list(range(20))}, "all tokens are special"),
    ],
)
def test_what_cannot_be_masked_is_refused(options, words):
    given = {"mask_id": MASK, "special_ids": SPECIAL, "rate": 0.15} | options
    with pytest.raises(ValueError, match=words):
        mask_tokens(torch.zeros(2, 3, dtype=torch.long), vocab_size=VOCAB, generator=seeded(), **given)


# Spans


def t5(tokens, hidden, sentinels):
    """T5's definition: a run of hidden tokens is one sentinel; in the targets every other run is."""

    def collapse(gone):
        names, kept = iter(sentinels), []
        for is_gone, run in itertools.groupby(zip(tokens, gone, strict=True), key=lambda pair: pair[1]):
            kept += [next(names)] if is_gone else [token for token, _ in run]
        return kept

    return collapse(hidden), collapse([not gone for gone in hidden])


@pytest.mark.parametrize("seed", range(50))
def test_spans_are_those_of_t5(seed):
    generator = seeded(seed)
    length = int(torch.randint(6, 30, (), generator=generator))
    tokens = torch.randint(100, 200, (length,), generator=generator).tolist()
    # As in T5's own definition the text begins and ends with what stays.
    hidden = (torch.rand(length, generator=generator) < 0.4).tolist()
    hidden[0] = hidden[-1] = False
    hidden[1] = True
    spans = [(place, place + 1) for place, gone in enumerate(hidden) if gone]
    order = torch.randperm(len(spans), generator=generator).tolist()
    sentinels = list(range(999, 900, -1))
    found = corrupt_spans(tokens, [spans[i] for i in order], sentinels)
    assert found == t5(tokens, hidden, sentinels)


def test_the_example_of_the_paper():
    text = ["Thank", "you", "for", "inviting", "me", "to", "your", "party", "last", "week", "."]
    inputs, targets = corrupt_spans(text, [(2, 4), (8, 9)], ["<X>", "<Y>", "<Z>", "unused"])
    assert " ".join(inputs) == "Thank you <X> me to your party <Y> week ."
    assert " ".join(targets) == "<X> for inviting <Y> last <Z>"


def test_nothing_and_everything_may_be_cut_out():
    assert corrupt_spans([5, 6], [], [9]) == ([5, 6], [9])
    assert corrupt_spans([5, 6], [(0, 2)], [9, 8]) == ([9], [9, 5, 6, 8])
    assert corrupt_spans([], [], [9]) == ([], [9])


def test_spans_that_overlap_are_one():
    assert corrupt_spans([1, 2, 3, 4, 5], [(3, 4), (1, 4), (2, 3)], [9, 8, 7, 6]) == (
        [1, 9, 5],
        [9, 2, 3, 4, 8],
    )


def test_the_lists_are_left_alone():
    tokens, spans, sentinels = [1, 2, 3, 4], [(2, 3), (0, 1)], [9, 8, 7]
    corrupt_spans(tokens, spans, sentinels)
    assert (tokens, spans, sentinels) == ([1, 2, 3, 4], [(2, 3), (0, 1)], [9, 8, 7])


@pytest.mark.parametrize("span", [(2, 2), (3, 2), (-1, 2), (2, 5)])
def test_a_span_takes_something_that_is_there(span):
    with pytest.raises(ValueError, match="takes nothing, or more than the 4 tokens"):
        corrupt_spans([1, 2, 3, 4], [span], [9, 8])


def test_there_is_a_sentinel_for_the_end():
    with pytest.raises(ValueError, match=r"2 spans need .* more than the 2"):
        corrupt_spans([1, 2, 3, 4], [(0, 1), (2, 3)], [9, 8])


@pytest.mark.parametrize("length", [2, 3, 7, 12, 100, 512])
def test_drawn_spans_take_their_share_and_never_touch(length):
    generator = seeded()
    for _ in range(50):
        spans = draw_spans(length, generator)
        assert sum(end - start for start, end in spans) == max(1, round(0.15 * length))
        edges = [0, *itertools.chain(*spans)]
        assert edges == sorted(set(edges))
        assert spans[-1][1] == length


def test_drawn_spans_have_their_mean_length_and_go_everywhere():
    generator = seeded()
    drawn = [draw_spans(100, generator) for _ in range(400)]
    assert all(len(spans) == 5 for spans in drawn)
    assert {end - start for spans in drawn for start, end in spans} >= {1, 2, 3, 4, 5, 6}
    assert {start for spans in drawn for start, _ in spans} >= set(range(5, 95))


@pytest.mark.parametrize("length", [0, 1])
def test_a_text_needs_two_tokens_to_lose_one(length):
    with pytest.raises(ValueError, match="at least two"):
        draw_spans(length, seeded())


# The prefix


def test_the_prefix_is_seen_by_all_and_the_rest_is_causal(device):
    prefixes = torch.tensor([0, 1, 3, 5], device=device)
    mask = prefix_mask(prefixes, 5)
    assert mask.shape == (4, 1, 5, 5)
    for prefix, square in zip(prefixes.tolist(), mask[:, 0], strict=True):
        for query, key in itertools.product(range(5), repeat=2):
            assert square[query, key] == (key < prefix or key <= query)


def test_a_prefix_of_nothing_is_causal_and_of_everything_hides_nothing():
    mask = prefix_mask(torch.tensor([0, 6]), 6)
    assert torch.equal(mask[0, 0], causal_mask(6))
    assert mask[1].all()


@pytest.mark.parametrize("prefix", [-1, 6])
def test_a_prefix_fits_into_the_text(prefix):
    with pytest.raises(ValueError, match="from 0 to 5"):
        prefix_mask(torch.tensor([2, prefix]), 5)


# Pooling


def test_mean_pool_is_the_mean_of_the_words(draw, device):
    states = draw(3, 5, 8)
    mask = torch.tensor(
        [[True, True, False, True, False], [True] * 5, [False, True, False, False, False]],
        device=device,
    )
    assert_same_function(
        lambda s: mean_pool(s, mask),
        lambda s: torch.stack([row[seen].mean(dim=0) for row, seen in zip(s, mask, strict=True)]),
        states,
    )


def test_a_text_without_words_pools_to_zero_with_finite_gradients(draw, device):
    states = draw(2, 5, 8)
    mask = torch.zeros(2, 5, dtype=torch.bool, device=device)
    mask[0, :2] = True
    pooled = mean_pool(states, mask)
    (gradient,) = torch.autograd.grad(pooled.sin().sum(), states)
    assert (pooled[1] == 0).all()
    assert gradient.isfinite().all()
    assert (gradient[1] == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_pooling_keeps_the_dtype(dtype):
    states = torch.randn(2, 5, 8).to(dtype)
    assert mean_pool(states, torch.ones(2, 5, dtype=torch.bool)).dtype == dtype


def test_pooling_refuses_masks_that_do_not_fit():
    with pytest.raises(TypeError, match="a mask is boolean"):
        mean_pool(torch.zeros(2, 5, 8), torch.ones(2, 5))
    with pytest.raises(ValueError, match="seq is 5 in states"):
        mean_pool(torch.zeros(2, 5, 8), torch.ones(2, 4, dtype=torch.bool))


# Models


def small(**options) -> MaskedLanguageModel:
    sizes = {"n_layers": 2, "d_model": 24, "n_heads": 3, "d_ff": 40, "max_length": 9} | options
    model = MaskedLanguageModel(VOCAB, **sizes).double()
    random_weights(model)
    return model


def test_output_and_token_embedding_are_one_matrix():
    model = small()
    assert model.output.weight is model.token_embedding.weight
    assert model.output.bias is not None


@pytest.mark.parametrize("norm_first", [True, False])
def test_every_weight_of_the_models_gets_a_gradient(norm_first):
    tokens = torch.randint(1, VOCAB, (3, 7))
    model = small(norm_first=norm_first)
    model(tokens, torch.randint(2, (3, 7))).sin().sum().backward()
    pictures = VisionTransformer(8, 2, 3, 5, d_model=24, n_heads=3, d_ff=40, norm_first=norm_first)
    random_weights(pictures)
    pictures(torch.randn(3, 3, 8, 8)).sin().sum().backward()
    for part in (model, pictures):
        silent = [n for n, p in part.named_parameters() if p.grad is None or (p.grad == 0).all()]
        assert [name for name in silent if not name.endswith("w_k.bias")] == []


def test_under_a_causal_mask_the_model_is_a_stack_of_causal_blocks():
    model = small()
    tokens = torch.randint(1, VOCAB, (3, 7))
    x = model.token_embedding(tokens) + model.position_embedding.weight[:7]
    x = model.norm(x + model.segment_embedding.weight[0])
    for block in model.encoder.blocks:
        causal = CausalBlock(24, 3, 40).double()
        causal.feed_forward = block.feed_forward
        causal.load_state_dict(block.state_dict())
        x = causal(x)
    assert_close(model.encode(tokens, mask=causal_mask(7)), model.encoder.norm(x))


def test_padding_changes_nothing_before_it():
    model = small()
    tokens = torch.randint(1, VOCAB, (3, 5))
    padded = F.pad(tokens, (0, 3))
    assert_close(model(padded)[:, :5], model(tokens))
    for pooling in ("cls", "mean"):
        classifier = Classifier(model, 4, pooling).double()
        assert_close(classifier(padded), classifier(tokens))


def test_a_classifier_trains_the_encoder_that_it_is_given():
    model = small()
    classifier = Classifier(model, 4, "mean").double()
    classifier(torch.randint(1, VOCAB, (3, 5))).sin().sum().backward()
    assert classifier.encoder is model
    assert model.token_embedding.weight.grad.abs().sum() > 0


def test_classifier_pools_by_first_token_or_mean():
    model = small()
    tokens = torch.randint(1, VOCAB, (3, 5))
    states = model.encode(tokens)
    for pooling, pooled in (("cls", states[:, 0]), ("mean", states.mean(dim=1))):
        classifier = Classifier(model, 4, pooling).double()
        assert_close(classifier(tokens), classifier.output(pooled))


def test_models_refuse_what_does_not_fit():
    model = small()
    with pytest.raises(ValueError, match="10 tokens do not fit into 9"):
        model(torch.ones(2, 10, dtype=torch.long))
    with pytest.raises(ValueError, match=r"seq is 5 in tokens .* but 4 in segments"):
        model(torch.ones(2, 5, dtype=torch.long), torch.ones(2, 4, dtype=torch.long))
    with pytest.raises(ValueError, match=r"mask .* does not broadcast"):
        model(torch.ones(2, 5, dtype=torch.long), mask=torch.ones(4, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match='pooling is "cls" or "mean"'):
        Classifier(model, 4, "max")
    with pytest.raises(ValueError, match="not a BERT style state dict"):
        masked_model_from_bert({"weight": torch.zeros(3, 4)}, n_heads=1)
    with pytest.raises(ValueError, match=r"9 .* parts of 2"):
        VisionTransformer(9, 2, 1, 10)
    with pytest.raises(ValueError, match=r"pictures are \(1, 8, 8\), not \(1, 8, 6\)"):
        VisionTransformer(8, 2, 1, 10)(torch.zeros(2, 1, 8, 6))


# Pictures


@pytest.mark.parametrize(("height", "width", "size"), [(6, 10, 2), (4, 8, 4), (5, 3, 1), (9, 6, 3)])
def test_patches_are_those_of_unfold(height, width, size, draw):
    assert_same_function(
        lambda images: patches(images, size),
        lambda images: F.unfold(images, size, stride=size).mT,
        draw(2, 3, height, width),
    )


def test_embedded_patches_are_a_convolution(draw, dtype, device):
    images = draw(2, 3, 8, 12)
    convolution = nn.Conv2d(3, 7, 4, stride=4).to(device, dtype)
    linear = nn.Linear(3 * 4 * 4, 7).to(device, dtype)
    linear.load_state_dict({"weight": convolution.weight.flatten(1), "bias": convolution.bias})
    assert_close(linear(patches(images, 4)), convolution(images).flatten(2).mT)


@pytest.mark.parametrize("size", [4, 5, 0, 9])
def test_pictures_split_evenly(size):
    with pytest.raises(ValueError, match=f"8 by 6 does not split into squares of {size}"):
        patches(torch.zeros(2, 3, 8, 6), size)


def test_without_positions_the_order_of_patches_makes_no_difference():
    model = VisionTransformer(8, 2, 1, 5, d_model=24, n_heads=3).double()
    random_weights(model)
    images = torch.randn(3, 1, 8, 8, dtype=torch.float64)
    turned = torch.cat([images[:, :, 4:], images[:, :, :4]], dim=2)
    assert not torch.allclose(model(turned), model(images))
    nn.init.zeros_(model.position_embedding.weight)
    assert_close(model(turned), model(images))
