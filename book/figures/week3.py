"""The figures and numbers of week 3: what the root is for, and what many heads bring."""

from __future__ import annotations

import itertools
import math

import common
import torch
from common import BLUE, GREEN, INK, ORANGE, PINK
from matplotlib import pyplot as plt
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from lab_transformer.attention import (
    MultiHeadAttention,
    dot_product_variance,
    merge_heads,
    scaled_dot_product_attention,
    softmax,
    split_heads,
)

DIVISORS = {"the root of d": 0.5, "nothing": 0.0, "d": 1.0}
COLOURS = {"the root of d": BLUE, "nothing": ORANGE, "d": GREEN}

WIDTH = 16  # of a word in the experiment with two roles, and words in its list

numbers: dict[str, float | int | str] = {}


def scores_by_hand() -> None:
    """Keep the numbers that the chapter works out by hand."""
    scores = torch.tensor([4.0, 2.0, 0.0])
    for name, divided in [("plain", scores), ("root", scores / 2), ("wide", scores * 4)]:
        for place, weight in enumerate(softmax(divided).tolist()):
            numbers[f"hand_{name}_{place}"] = weight
    for gap in (1, 4, 8, 16):
        weight = 1 / (1 + math.exp(-gap))
        numbers[f"slope_{gap}"] = weight * (1 - weight)


def draw_walk() -> None:
    """Draw dot products as walks: the sum after 1, 2, ... 512 products."""
    generator = torch.Generator().manual_seed(3)
    q, k = torch.randn(2, 30, 512, generator=generator)
    walks = (q * k).cumsum(dim=-1)
    steps = torch.arange(1, 513)
    figure, axes = plt.subplots()
    # Every fourth step is enough for the eye and keeps the file small.
    axes.plot(steps[3::4], walks[:, 3::4].T, color=INK, alpha=0.25, linewidth=0.8)
    for side in (1, -1):
        label = "± the root of d" if side == 1 else None
        axes.plot(steps, side * steps.sqrt(), color=ORANGE, label=label)
    axes.set(xlabel="d, products added so far", ylabel="sum so far", xlim=(0, 512))
    axes.legend(loc="upper left")
    common.save(figure, "week3-walk")
    for d in (4, 64, 512):
        variance = dot_product_variance(d, 100_000, torch.Generator().manual_seed(d))
        numbers[f"variance_{d}"] = variance
    inside = (walks[:, -1].abs() < 512**0.5).float().mean().item()
    numbers["walks_inside"] = round(30 * inside)


def random_weights(d: int, power: float, keys: int = 10) -> Tensor:
    """Give the weights of 4000 random queries over random keys, scores divided by d ** power."""
    generator = torch.Generator().manual_seed(d)
    q = torch.randn(4000, 1, d, generator=generator)
    k = torch.randn(4000, keys, d, generator=generator)
    weights = scaled_dot_product_attention(q * d ** (0.5 - power), k, k)[1]
    return weights.squeeze(-2)


def entropy(weights: Tensor) -> float:
    """Give the mean entropy in bits."""
    return float(-torch.special.xlogy(weights, weights).sum(-1).mean() / math.log(2))


def slopes(weights: Tensor) -> Tensor:
    """Give the size of the softmax's matrix of derivatives for every query."""
    jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
    return jacobian.norm(dim=(1, 2))


def draw_saturation() -> None:
    """Draw how decided the softmax is, and how much gradient it lets through, against d."""
    sizes = [2**power for power in range(2, 11)]
    figure, (left, right) = plt.subplots(1, 2)
    for name, power in DIVISORS.items():
        weights = [random_weights(d, power) for d in sizes]
        bits, norms = [entropy(w) for w in weights], [float(slopes(w).mean()) for w in weights]
        left.plot(sizes, bits, "o-", color=COLOURS[name], markersize=4, label=f"by {name}")
        right.plot(sizes, norms, "o-", color=COLOURS[name], markersize=4)
        at = sizes.index(512)
        short = {"the root of d": "root", "nothing": "plain", "d": "whole"}[name]
        numbers[f"entropy_{short}"] = bits[at]
        numbers[f"jacobian_{short}"] = norms[at]
        numbers[f"largest_{short}"] = float(weights[at].amax(-1).mean())
    left.axhline(math.log2(10), color=INK, linewidth=0.8, linestyle=":")
    left.set(xscale="log", xlabel="d", title="entropy in bits", ylim=(0, 3.5))
    right.set(xscale="log", xlabel="d", title="size of the derivatives", ylim=(0, None))
    left.legend(title="scores divided", loc="center right", bbox_to_anchor=(1.02, 0.56))
    common.save(figure, "week3-saturation")


def measure_typical() -> None:
    """Look behind the mean size of the derivatives: at the median, and at the fifth that carries it."""
    for short, power in [("root", 0.5), ("plain", 0.0)]:
        norms = slopes(random_weights(512, power)).sort(descending=True).values
        numbers[f"jacobian_median_{short}"] = norms.median().item()
    fifth = norms[: len(norms) // 5].sum() / norms.sum()
    numbers["jacobian_fifth_plain"] = 100 * fifth.item()


def measure_lengths() -> None:
    """Divide by the root of the sentence's length instead, and look at the scores' variance."""
    for n, d in [(10, 16), (10, 256), (100, 16), (100, 256)]:
        generator = torch.Generator().manual_seed(n + d)
        q, k = torch.randn(2, 400, n, d, generator=generator)
        scores = q @ k.mT
        numbers[f"by_root_d_{n}_{d}"] = (scores / d**0.5).var().item()
        numbers[f"by_root_n_{n}_{d}"] = (scores / n**0.5).var().item()


def recall(power: float, d: int = 256, steps: int = 250, rate: float = 0.003) -> list[float]:
    """Train one head to find, among 16 pairs of words, the partner of a word; give the losses.

    The scores are divided by d ** power.
    """
    torch.manual_seed(0)
    words, pairs, batch = 64, 16, 32
    first, second = torch.randn(2, words, d)
    # Standard deviation root of 1 / d: queries and keys have components of variance 1.
    w_q, w_k, w_v = (nn.Parameter(torch.randn(d, d) / d**0.5) for _ in range(3))
    w_out = nn.Parameter(torch.zeros(d, words))
    optimizer = torch.optim.Adam([w_q, w_k, w_v, w_out], lr=rate)
    losses = []
    for _ in range(steps):
        keys = torch.rand(batch, words).argsort(dim=-1)[:, :pairs]
        values = torch.randint(words, (batch, pairs))
        asked = torch.randint(pairs, (batch, 1))
        q = first[keys.gather(1, asked)] @ w_q
        output, _ = scaled_dot_product_attention(
            q * d ** (0.5 - power), first[keys] @ w_k, second[values] @ w_v
        )
        logits = output.squeeze(1) @ w_out / d**0.5
        loss = functional.cross_entropy(logits, values.gather(1, asked).squeeze(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def draw_training() -> None:
    """Draw the loss of three heads that differ in the divisor only."""
    figure, axes = plt.subplots()
    for name, power in DIVISORS.items():
        losses = torch.tensor(recall(power))
        smooth = losses.unfold(0, 10, 5).mean(dim=-1)
        axes.plot(torch.arange(len(smooth)) * 5 + 10, smooth, color=COLOURS[name], label=f"by {name}")
        short = {"the root of d": "root", "nothing": "plain", "d": "whole"}[name]
        numbers[f"loss_{short}"] = losses[-25:].mean().item()
    axes.axhline(math.log(64), color=INK, linewidth=0.8, linestyle=":")
    axes.text(250, math.log(64) + 0.08, "guessing", ha="right")
    axes.set(xlabel="training step", ylabel="loss", ylim=(0, 4.7), xlim=(0, 252))
    axes.legend(title="scores divided", loc="center right")
    common.save(figure, "week3-training")


def draw_telescope() -> None:
    """Draw where "telescope" looks when one head must serve two readings, and when two may."""
    words = ["the", "man", "saw", "the", "astronomer", "with", "a", "telescope"]
    features = {"saw": 0, "astronomer": 1, "telescope": 2}
    x = torch.eye(4)[[features.get(word, 3) for word in words]]

    def by_hand(n_heads: int, columns: tuple[int, int]) -> Tensor:
        block = MultiHeadAttention(4, n_heads)
        with torch.no_grad():
            for parameter in block.parameters():
                parameter.zero_()
            for column, word in zip(columns, ["saw", "astronomer"], strict=True):
                block.w_q.weight[column, features["telescope"]] = 8.0
                block.w_k.weight[column, features[word]] = 1.0
            weights: Tensor = block(x, x, x)[1]
        return weights[:, -1]

    # Of two heads of width 2, columns 0 and 1 are the first, 2 and 3 the second.
    rows = torch.cat([by_hand(1, (0, 1)), by_hand(2, (0, 2))])
    figure, axes = plt.subplots(figsize=(7.0, 2.2))
    picture = axes.imshow(rows, vmin=0, vmax=1, aspect="auto")
    for row in range(3):
        for column in range(8):
            if rows[row, column] > 0.1:
                axes.text(
                    column, row, f"{rows[row, column]:.2f}", ha="center", va="center",
                    color="black" if rows[row, column] > 0.6 else "white",
                )  # fmt: skip
    axes.set_xticks(range(8), words, fontsize=9)
    axes.set_yticks(range(3), ["one head", "two heads: first", "two heads: second"])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.colorbar(picture, label="weight")
    common.save(figure, "week3-telescope")
    numbers["telescope_one"] = rows[0, 2].item()
    numbers["telescope_two"] = rows[1, 2].item()


class TwoRoles(nn.Module):
    """Gives back the word that did it and the word to which it was done, from one look."""

    def __init__(self, n_heads: int, d_model: int = 64) -> None:
        super().__init__()
        self.enter = nn.Linear(WIDTH + 3, d_model)
        self.question = nn.Parameter(torch.randn(1, d_model))
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.tell = nn.Linear(d_model, 2 * WIDTH)

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        x = self.enter(words)
        found, weights = self.attention(self.question.expand(len(x), 1, -1), x, x)
        return self.tell(found[:, 0]).unflatten(-1, (2, WIDTH)), weights[:, :, 0]


def sentences(count: int, listed: bool) -> tuple[Tensor, Tensor]:
    """Draw eight words a sentence, one marked as the agent, one as the patient.

    Words are rows of random numbers, or one-hot rows of a list of WIDTH words. Returns the words with
    their marks, and agent and patient alone.
    """
    if listed:
        words = torch.eye(WIDTH)[torch.rand(count, WIDTH).argsort(dim=-1)[:, :8]]
    else:
        words = torch.randn(count, 8, WIDTH)
    places = torch.rand(count, 8).argsort(dim=-1)[:, :2]
    roles = torch.zeros(count, 8, dtype=torch.long)
    roles = roles.scatter(1, places, torch.tensor([[1, 2]]).expand(count, 2))
    wanted = words.gather(1, places[:, :, None].expand(count, 2, WIDTH))
    return torch.cat([words, functional.one_hot(roles, 3)], dim=-1), wanted


def train_roles(n_heads: int, listed: bool, seed: int = 0, steps: int = 600) -> TwoRoles:
    """Train a model with some number of heads: to name words of a list, or to repeat numbers."""
    torch.manual_seed(seed)
    model = TwoRoles(n_heads)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(steps):
        words, wanted = sentences(64, listed)
        said, _ = model(words)
        if listed:
            loss = functional.cross_entropy(said.flatten(0, 1), wanted.argmax(-1).flatten())
        else:
            loss = functional.mse_loss(said, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def both_named(model: TwoRoles, held_out: tuple[Tensor, Tensor]) -> float:
    """Give the share of sentences in which both words are named."""
    words, wanted = held_out
    with torch.no_grad():
        right = model(words)[0].argmax(-1) == wanted.argmax(-1)
    return right.all(dim=-1).float().mean().item()


def prune(model: TwoRoles, head: int) -> None:
    """Let nobody hear a head: its columns of w_o become zero."""
    width = model.question.shape[-1] // model.attention.n_heads
    with torch.no_grad():
        model.attention.w_o.weight[:, head * width : (head + 1) * width] = 0


def measure_roles() -> None:
    """Measure how much of two words one head can give back, and two."""
    torch.manual_seed(99)
    words, wanted = sentences(2000, listed=False)
    for n_heads in (1, 2):
        model = train_roles(n_heads, listed=False)
        with torch.no_grad():
            said, _ = model(words)
        numbers[f"roles_{n_heads}"] = 100 * (1 - functional.mse_loss(said, wanted).item())


def draw_heads() -> None:
    """Draw what more heads bring, and what remains when heads are taken away."""
    torch.manual_seed(99)
    held_out = sentences(2000, listed=True)
    counts = [2, 4, 8]
    models = {count: train_roles(count, listed=True) for count in counts}
    shares = [both_named(models[count], held_out) for count in counts]
    for count, share in zip(counts, shares, strict=True):
        numbers[f"named_{count}"] = 100 * share

    model = models[8]
    compare_weights(model, held_out[0])
    compare_untrained(held_out[0])
    kept = [shares[-1]]
    alive = list(range(8))
    while len(alive) > 1:
        # The head that is missed least goes next.
        stored = model.attention.w_o.weight.detach().clone()
        after = {}
        for head in alive:
            prune(model, head)
            after[head] = both_named(model, held_out)
            model.attention.w_o.weight.data.copy_(stored)
        gone = max(after, key=lambda head: after[head])
        prune(model, gone)
        alive.remove(gone)
        kept.append(after[gone])
    left = [8 - gone for gone in range(8)]
    numbers.update({f"kept_{count}": 100 * share for count, share in zip(left, kept, strict=True)})

    figure, axes = plt.subplots()
    axes.plot(counts, shares, "o-", color=BLUE, label="trained with so many heads")
    axes.plot(left, kept, "s--", color=PINK, label="trained with 8, the others taken away")
    axes.set(xlabel="heads", ylabel="both words named", xticks=range(1, 9), ylim=(0, 1.05))
    axes.legend(loc="lower right")
    common.save(figure, "week3-heads")


def moved(weights: Tensor, others: Tensor) -> float:
    """Give the share (%) of the weight (sentence, head, word) that lies elsewhere in another model.

    That is half the sum of differences. The order of heads means nothing, so every head is paired with
    a head of the other model, as well as it can be done.
    """
    heads = weights.shape[1]
    apart = (weights[:, :, None] - others[:, None]).abs().sum(-1).mean(0) / 2
    pairings = torch.tensor(list(itertools.permutations(range(heads))))
    return 100 * apart[torch.arange(heads), pairings].mean(-1).min().item()


def compare_weights(model: TwoRoles, words: Tensor) -> None:
    """Compare two models that answer alike: do they look alike?"""
    twin = train_roles(8, listed=True, seed=1)
    with torch.no_grad():
        said, weights = model(words)
        twin_said, twin_weights = twin(words)
    same = (said.argmax(-1) == twin_said.argmax(-1)).all(dim=-1)
    numbers["twin_same"] = 100 * same.float().mean().item()
    numbers["twin_moved"] = moved(weights, twin_weights)


def compare_untrained(words: Tensor) -> None:
    """Say what the share that lies elsewhere is before training, and for heads that look anywhere."""
    with torch.no_grad():
        first, second = (train_roles(8, listed=True, seed=seed, steps=0)(words)[1] for seed in (0, 1))
    numbers["twin_fresh"] = moved(first, second)
    looks = torch.randint(8, (2, len(words), 8), generator=torch.Generator().manual_seed(0))
    numbers["twin_random"] = moved(*functional.one_hot(looks, 8).float())


def count_costs() -> None:
    """Count multiplications and parameters of one wide head and of many narrow ones."""
    x = torch.randn(1, 128, 512)
    for n_heads in (1, 8, 64):
        block = MultiHeadAttention(512, n_heads)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            _, weights = block(x, x, x)
        numbers[f"flops_{n_heads}"] = counter.get_total_flops() / 2e6
        numbers[f"parameters_{n_heads}"] = sum(p.numel() for p in block.parameters())
        numbers[f"weights_{n_heads}"] = weights.numel()


def check_merge() -> None:
    """Make sure of what the chapter says about the way back."""
    x = torch.randn(2, 5, 12)
    assert torch.equal(merge_heads(split_heads(x, 3)), x)


if __name__ == "__main__":
    torch.set_num_threads(1)
    scores_by_hand()
    draw_walk()
    draw_saturation()
    measure_typical()
    measure_lengths()
    draw_training()
    draw_telescope()
    measure_roles()
    draw_heads()
    count_costs()
    check_merge()
    common.save_numbers(3, numbers)
