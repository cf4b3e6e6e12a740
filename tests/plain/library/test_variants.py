"""The blocks of week 12 against PyTorch's own, against the papers' numbers, and against loops."""

import itertools
import math

import pytest
import torch
from comparison import assert_close, assert_same_function, random_weights, strided
from torch import nn
from torch.nn import functional as F

from lab_transformer.attention import scaled_dot_product_attention
from lab_transformer.masking import causal_mask
from lab_transformer.notebook import peak_memory
from lab_transformer.variants import (
    Llama,
    MixtureOfExperts,
    ModernBlock,
    RMSNorm,
    SwiGLU,
    alibi_bias,
    balance_loss,
    grouped_query_attention,
    llama_from_transformers,
    rms_norm,
    route,
    sliding_window_mask,
    swiglu,
    tiled_attention,
)


@pytest.mark.parametrize("shape", [(8,), (1, 8), (2, 5, 8), (2, 3, 5, 13)])
@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_rms_norm_equals_torch(shape, eps, draw):
    x, gain = draw(*shape), draw(shape[-1])
    assert_same_function(
        lambda x, gain: rms_norm(x, gain, eps),
        lambda x, gain: F.rms_norm(x, shape[-1:], gain, eps),
        x,
        gain,
    )


def test_rms_norm_takes_inputs_that_are_not_contiguous(draw):
    assert_same_function(
        rms_norm, lambda x, gain: F.rms_norm(x, (8,), gain, 1e-5), strided(draw(2, 5, 8)), draw(8)
    )


def test_the_norm_with_a_gain_of_its_own_equals_torch(draw, device, dtype):
    ours, theirs = RMSNorm(8, 1e-3).to(device, dtype), nn.RMSNorm(8, 1e-3).to(device, dtype)
    random_weights(ours)
    theirs.load_state_dict(ours.state_dict())
    assert_same_function(ours, theirs, draw(2, 5, 8))


def test_swiglu_equals_silu_times_a_linear_map(draw):
    assert_same_function(
        swiglu,
        lambda x, gate, up, down: F.linear(F.silu(F.linear(x, gate.T)) * F.linear(x, up.T), down.T),
        draw(2, 5, 8),
        draw(8, 13),
        draw(8, 13),
        draw(13, 8),
    )


def test_the_gated_layer_uses_its_own_weights(draw, device, dtype):
    layer = SwiGLU(8, 13).to(device, dtype)
    x = draw(2, 5, 8)
    assert_close(layer(x), layer.w_down(F.silu(layer.w_gate(x)) * layer.w_up(x)))


# As in the paper: of 8 heads, and by its rule for those that are no power of two.
SLOPES = {
    1: [8],
    2: [4, 8],
    3: [4, 8, 2],
    4: [2, 4, 6, 8],
    6: [2, 4, 6, 8, 1, 3],
    7: [2, 4, 6, 8, 1, 3, 5],
    8: [1, 2, 3, 4, 5, 6, 7, 8],
    12: [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5],
    16: [0.5 * i for i in range(1, 17)],
}


@pytest.mark.parametrize("n_heads", SLOPES)
def test_slopes_are_those_of_the_paper(n_heads):
    bias = alibi_bias(n_heads, 1, 3)
    slopes = [2**-exponent for exponent in SLOPES[n_heads]]
    assert bias[:, 0, 1].tolist() == pytest.approx([-slope for slope in slopes], rel=1e-6)
    assert bias[:, 0, 0].tolist() == pytest.approx([-2 * slope for slope in slopes], rel=1e-6)


@pytest.mark.parametrize(("query", "key"), [(1, 1), (1, 6), (3, 6), (6, 6)])
def test_the_bias_of_some_queries_is_the_end_of_the_square(query, key):
    whole = alibi_bias(3, key, key)
    assert torch.equal(alibi_bias(3, query, key), whole[:, key - query :])
    assert torch.equal(whole, whole.mT)
    assert (whole.diagonal(dim1=1, dim2=2) == 0).all()


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
@pytest.mark.parametrize("masked", [False, True])
def test_grouped_queries_equal_torch(kv_heads, masked, draw, device):
    mask = torch.ones(5, 7, dtype=torch.bool, device=device).tril(1) if masked else None
    assert_same_function(
        lambda q, k, v: grouped_query_attention(q, k, v, mask),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True),
        draw(2, 6, 5, 8),
        draw(2, kv_heads, 7, 8),
        draw(2, kv_heads, 7, 9),
    )


def test_grouped_queries_with_a_head_each_are_plain_attention(draw):
    q, k, v = draw(2, 3, 5, 8), draw(2, 3, 7, 8), draw(2, 3, 7, 9)
    assert_close(grouped_query_attention(q, k, v), scaled_dot_product_attention(q, k, v))


@pytest.mark.parametrize("window", [1, 2, 5, 9])
@pytest.mark.parametrize(("query", "key"), [(1, 1), (1, 6), (3, 6), (6, 6)])
def test_the_window_holds_itself_and_what_came_just_before(query, key, window):
    mask = sliding_window_mask(query, key, window)
    assert mask.shape == (query, key)
    for row in range(query):
        place = key - query + row
        seen = [other for other in range(key) if mask[row, other]]
        assert seen == list(range(max(0, place - window + 1), place + 1))


TILES = [1, 2, 3, 7, 12]


def attention_masks(device):
    causal = causal_mask(7)[2:].to(device)
    some = torch.rand(2, 3, 5, 7, device=device) < 0.6
    empty = some.clone()
    empty[0, 1], empty[:, :, 2] = False, False
    padding = torch.tensor([True] * 4 + [False] * 3, device=device).expand(2, 1, 1, 7)
    rows = torch.tensor([True, False, True, True, False], device=device)[:, None]
    return [None, causal, causal.flip(-1), some, empty, padding, padding.flip(-1), rows]


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("number", range(8))
def test_tiles_equal_plain_attention(tile, number, draw, device):
    mask = attention_masks(device)[number]
    assert_same_function(
        lambda q, k, v: tiled_attention(q, k, v, tile, mask),
        lambda q, k, v: scaled_dot_product_attention(q, k, v, mask),
        draw(2, 3, 5, 8),
        draw(2, 3, 7, 8),
        draw(2, 3, 7, 9),
    )


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("number", [0, 1, 5])
def test_tiles_equal_torch(tile, number, draw, device):
    mask = attention_masks(device)[number]
    assert_same_function(
        lambda q, k, v: tiled_attention(q, k, v, tile, mask),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask),
        strided(draw(2, 3, 5, 8)),
        draw(2, 3, 7, 8),
        strided(draw(2, 3, 7, 9)),
    )


@pytest.mark.parametrize("wanting", [(0,), (1,), (2,), (0, 2)])
def test_tiles_give_gradients_to_those_who_want_them(wanting, draw):
    inputs = [draw(5, 8), draw(7, 8), draw(7, 9)]
    inputs = [x if place in wanting else x.detach() for place, x in enumerate(inputs)]
    assert_same_function(
        lambda q, k, v: tiled_attention(q, k, v, 3), scaled_dot_product_attention, *inputs
    )


def test_a_tile_that_nobody_sees_may_hold_anything_on_the_way_back_too(draw, device):
    q, k, v = draw(5, 8), draw(9, 8), draw(9, 4)
    mask = torch.ones(5, 9, dtype=torch.bool, device=device)
    mask[:, 3:6] = False
    expected = scaled_dot_product_attention(q, k, v, mask)[0]
    right = torch.autograd.grad(expected.sin().sum(), (q, k, v))
    with torch.no_grad():
        k[3:6], v[3:6] = math.nan, math.inf
    found = tiled_attention(q, k, v, 3, mask)
    assert_close(found, expected)
    assert_close(torch.autograd.grad(found.sin().sum(), (q, k, v)), right)


def test_scores_beyond_what_can_be_exponentiated_are_no_trouble(draw):
    q, k, v = draw(5, 8) * 12, draw(7, 8) * 12, draw(7, 9)
    assert_same_function(
        lambda q, k, v: tiled_attention(q, k, v, 2), scaled_dot_product_attention, q, k, v
    )


def test_tiles_give_gradients_that_finite_differences_give(device):
    q, k, v = (torch.randn(n, 3, dtype=torch.float64, device=device) for n in (4, 5, 5))
    mask = causal_mask(5)[1:].to(device)
    inputs = [x.requires_grad_() for x in (q, k, v)]
    assert torch.autograd.gradcheck(lambda q, k, v: tiled_attention(q, k, v, 2, mask), inputs)


def attention_memory(attention, length, gradients):
    """The most bytes that are alive at once during attention, and its way back where asked for."""
    q, k, v = (torch.randn(length, 16, requires_grad=gradients) for _ in range(3))

    def run():
        output = attention(q, k, v)
        if gradients:
            output.sum().backward()

    return peak_memory(run)


@pytest.mark.parametrize("gradients", [False, True], ids=["forward", "with the way back"])
def test_memory_of_tiles_grows_with_the_length_and_that_of_rows_with_its_square(gradients):
    plain = [
        attention_memory(lambda *qkv: scaled_dot_product_attention(*qkv)[0], length, gradients)
        for length in (256, 512, 1024)
    ]
    tiled = [
        attention_memory(lambda *qkv: tiled_attention(*qkv, 32), length, gradients)
        for length in (256, 512, 1024)
    ]
    for shorter, longer in itertools.pairwise(plain):
        assert longer > 3.7 * shorter
    for shorter, longer in itertools.pairwise(tiled):
        assert longer < 2.1 * shorter
    # A whole table of scores would be 4 MiB.
    assert tiled[-1] < 1024 * 1024 * 4 / 4


def test_autograd_alone_would_keep_all_tiles():
    tiled = attention_memory(lambda *qkv: tiled_attention(*qkv, 32), 1024, True)
    recorded = attention_memory(lambda *qkv: tiled_attention.__wrapped__(*qkv, 32), 1024, True)
    assert recorded > 4 * tiled


def test_peak_memory_counts_what_is_alive_at_once():
    def run():
        a = torch.zeros(1000)  # 4,000 bytes
        b = a + 1  # 8,000
        del a
        c = b + 1  # 8,000 again
        return c.view(10, 100)[0]  # a view holds nothing of its own

    assert peak_memory(run) == 8000
    held = torch.zeros(1000)
    assert peak_memory(lambda: held.add_(1)) == 0


@pytest.mark.parametrize("k", [1, 2, 5])
def test_routes_are_the_softmax_over_the_largest(k, draw):
    logits = draw(2, 7, 5)
    weights, experts = route(logits, k)
    assert weights.shape == experts.shape == (2, 7, k)
    hidden = torch.full_like(logits, -math.inf).scatter(-1, experts, logits.gather(-1, experts))
    assert_close(weights, hidden.softmax(-1).gather(-1, experts))
    assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    rest = torch.ones_like(logits, dtype=torch.bool).scatter(-1, experts, False)
    if k < 5:
        largest_left_out = logits.masked_fill(~rest, -math.inf).amax(-1)
        assert (logits.gather(-1, experts).amin(-1) >= largest_left_out).all()


def test_balance_loss_by_a_loop(draw):
    probabilities = draw(2, 7, 4).softmax(-1)
    experts = probabilities.topk(2).indices
    loss = sum(
        (experts == number).double().mean() * 2 / 2 * probabilities[..., number].mean()
        for number in range(4)
    )
    assert_close(balance_loss(probabilities, experts), (4 * loss).to(probabilities))


def test_balance_is_best_at_one_and_worst_at_the_number_of_experts(device, dtype):
    even = torch.full((8, 4), 0.25, device=device, dtype=dtype)
    turns = torch.arange(8, device=device)[:, None] % 4
    assert_close(balance_loss(even, turns), even.new_tensor(1.0))
    sure = F.one_hot(turns * 0, 4)[:, 0].to(even)
    assert_close(balance_loss(sure, turns * 0), even.new_tensor(4.0))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_a_mixture_equals_a_loop_over_tokens(k, draw, device, dtype):
    mixture = MixtureOfExperts(8, 13, 4, k).to(device, dtype)
    random_weights(mixture)

    def loop(x):
        logits = x @ mixture.router.weight.T
        rows = []
        for token, scores in zip(x.flatten(0, 1), logits.flatten(0, 1), strict=True):
            best = scores.argsort(descending=True)[:k]
            shares = scores[best].softmax(0)
            rows.append(
                sum(w * mixture.experts[int(e)](token) for w, e in zip(shares, best, strict=True))
            )
        loss = balance_loss(logits.softmax(-1), logits.topk(k).indices)
        return torch.cat([torch.stack(rows).flatten(), loss[None]])

    def ours(x):
        output, loss = mixture(x)
        return torch.cat([output.flatten(), loss[None]])

    assert_same_function(ours, loop, draw(2, 5, 8))


def test_a_mixture_of_one_expert_is_that_expert(draw, device, dtype):
    mixture = MixtureOfExperts(8, 13, 1, 1).to(device, dtype)
    x = draw(2, 5, 8)
    output, loss = mixture(x)
    assert_close(output, mixture.experts[0](x))
    assert_close(loss, x.new_tensor(1.0))


def test_the_modern_block_sees_distances_only(draw, device, dtype):
    block = ModernBlock(24, 6, 3, 40).to(device, dtype)
    x = draw(1, 9, 24)
    # Under a window, the last word of a text stands where it stands in the window alone.
    mask = sliding_window_mask(9, 9, 1).to(device)
    assert_close(block(x, mask)[:, 4:], block(x[:, 4:], mask[4:, 4:]))
    long = block(x, sliding_window_mask(9, 9, 3).to(device))
    short = block(x[:, 2:], sliding_window_mask(7, 7, 3).to(device))
    assert_close(long[:, 4:], short[:, 2:])


def test_a_later_token_changes_no_earlier_logit(device):
    model = Llama(11, 2, 24, 6, 3, 40).to(device)
    one, other = torch.tensor([[[3, 1, 4, 1, 5]], [[3, 1, 4, 9, 2]]], device=device)
    assert_close(model(one)[:, :3], model(other)[:, :3])


def test_every_head_may_hide_something_else_in_the_modern_block(draw, device, dtype):
    block = ModernBlock(24, 6, 3, 40).to(device, dtype)
    x = draw(2, 5, 24)
    assert_close(block(x, causal_mask(5).to(device)), block(x))


REFUSED = {
    "more queries than keys": (lambda: alibi_bias(4, 3, 2), "last of the keys"),
    "no query": (lambda: sliding_window_mask(0, 2, 1), "last of the keys"),
    "no heads": (lambda: alibi_bias(0, 2, 2), "n_heads is at least 1"),
    "no window": (lambda: sliding_window_mask(2, 2, 0), "window is at least 1"),
    "heads that do not share": (
        lambda: grouped_query_attention(torch.ones(6, 2, 4), torch.ones(4, 2, 4), torch.ones(4, 2, 4)),
        "6 query heads cannot share 4",
    ),
    "no tile": (lambda: tiled_attention(*[torch.ones(2, 4)] * 3, 0), "at least one key"),
    "other leading axes": (
        lambda: tiled_attention(torch.ones(2, 2, 4), torch.ones(2, 4), torch.ones(2, 4), 1),
        "leading axes",
    ),
    "a mask of other keys": (
        lambda: tiled_attention(*[torch.ones(2, 4)] * 3, 1, torch.ones(2, 3).bool()),
        "does not broadcast",
    ),
    "too many experts": (lambda: route(torch.ones(2, 3), 4), "from 1 to 3 experts, not 4"),
    "no experts": (lambda: MixtureOfExperts(4, 6, 3, 0), "between 1 and 3"),
    "other tokens": (
        lambda: balance_loss(torch.ones(2, 3), torch.ones(4, 1).long()),
        "2",
    ),
    "an odd head": (lambda: ModernBlock(9, 3, 3, 4), "must be even"),
    "blocks that do not share": (lambda: ModernBlock(24, 6, 4, 4), "cannot share 4"),
    "another gain": (lambda: rms_norm(torch.ones(2, 4), torch.ones(3)), "d_model"),
    "another width": (
        lambda: swiglu(torch.ones(2, 4), torch.ones(4, 6), torch.ones(4, 5), torch.ones(6, 4)),
        "d_ff",
    ),
    "another model": (lambda: llama_from_transformers({"wte.weight": torch.ones(2, 4)}, 2), "LLaMA"),
    "another base": (lambda: llama_from_transformers({}, 2, base=5e5), "base 10000"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_in_words(name):
    call, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        call()


def test_a_mask_of_numbers_is_refused():
    with pytest.raises(TypeError, match="boolean"):
        tiled_attention(*[torch.ones(2, 4)] * 3, 1, torch.ones(2, 2))
