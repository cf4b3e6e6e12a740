"""The figures and numbers of week 4: what order is to attention, and how waves give it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import common
import torch
from common import BLUE, GREEN, INK, ORANGE, PINK
from matplotlib import pyplot as plt
from torch import Tensor, nn
from torch.nn import functional

from lab_transformer.attention import (
    MultiHeadAttention,
    merge_heads,
    scaled_dot_product_attention,
    split_heads,
)
from lab_transformer.positional import add_positions, rotate, shift_matrix, sinusoidal_positions

WORDS = 20
TRAINED = 20

numbers: dict[str, float | int | str] = {}


def work_by_hand() -> None:
    """Keep the numbers that the chapter works out by hand."""
    dog, bites, man = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    for name, rows in [("dog_first", (dog, bites, man)), ("man_first", (man, bites, dog))]:
        x = torch.stack(rows)
        output, weights = scaled_dot_product_attention(x, x, x)
        numbers[f"{name}_mean"] = output.mean(dim=0)[0].item()
        for row in range(3):
            numbers[f"{name}_{row}_0"], numbers[f"{name}_{row}_1"] = output[row].tolist()
            if row == 0:
                numbers[f"{name}_weights"] = ", ".join(f"{w:.2f}" for w in weights[0].tolist())

    places = sinusoidal_positions(3, 2)
    for name, rows in [
        ("placed_dog_first", (dog, bites, man)),
        ("placed_man_first", (man, bites, dog)),
    ]:
        x = torch.stack(rows) + places
        mean = scaled_dot_product_attention(x, x, x)[0].mean(dim=0)
        numbers[f"{name}_mean_0"], numbers[f"{name}_mean_1"] = mean.tolist()
    x = torch.stack((dog, bites, dog))
    placed, _ = scaled_dot_product_attention(x + places, x + places, x + places)
    for row in (0, 2):
        name = f"placed_dog_twice_{row}"
        numbers[f"{name}_0"], numbers[f"{name}_1"] = placed[row].tolist()
    both = scaled_dot_product_attention(x, x, x)[0]
    assert torch.allclose(both[0], both[2])
    numbers["dog_twice_0"], numbers["dog_twice_1"] = both[0].tolist()

    far = torch.tensor([[501.0, 500.0], [500.0, 501.0]])
    numbers["counter_cosine"] = functional.cosine_similarity(far[0], far[1], dim=0).item()
    numbers["sine_355"] = math.sin(355)
    numbers["circle_710"] = 2 * abs(math.sin(355))

    table = sinusoidal_positions(12, 4)
    for position in range(4):
        for column in range(4):
            numbers[f"pe_{position}_{column}"] = table[position, column].item()
    numbers["dot_0_3"] = (table[0] @ table[3]).item()
    numbers["dot_8_11"] = (table[8] @ table[11]).item()
    moved = table[:-3] @ shift_matrix(3, 4)
    assert torch.allclose(moved, table[3:], atol=1e-6)
    numbers["position_norm"] = sinusoidal_positions(1, 512).norm().item()


def draw_counters() -> None:
    """Draw 50 positions twice: as the bits of a binary number, and as waves."""
    positions = torch.arange(50)
    bits = (positions[:, None] >> torch.arange(6)) & 1
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.0, 3.8), width_ratios=[1, 2.6])
    left.imshow(bits, aspect="auto")
    left.set(title="bits", xlabel="bit", ylabel="position", xticks=range(6))
    picture = right.imshow(sinusoidal_positions(50, 128), aspect="auto")
    right.set(title="waves", xlabel="column", yticks=[])
    figure.colorbar(picture, ticks=[-1, 0, 1])
    common.save(figure, "week4-heat")


def draw_distance() -> None:
    """Draw the dot product of two positions against their distance, from three starting points."""
    table = sinusoidal_positions(100, 128)
    products = table @ table.mT
    figure, axes = plt.subplots()
    for start, style in [(10, "-"), (50, "--"), (90, ":")]:
        axes.plot(torch.arange(100) - start, products[start], style, label=f"from position {start}")
    axes.set(xlabel="distance", ylabel="dot product", ylim=(0, None))
    axes.legend(loc="upper right")
    common.save(figure, "week4-distance")
    numbers["near_10_15"], numbers["near_70_75"] = products[10, 15].item(), products[70, 75].item()
    numbers["same_place"] = products[10, 10].item()
    numbers["far_10_60"] = products[10, 60].item()


def likeness(base: float, furthest: int, d_model: int = 128) -> Tensor:
    """Give the dot products of the waves of two positions that are 0, 1, 2, ... words apart."""
    frequency = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    apart = torch.arange(furthest + 1, dtype=torch.float64)
    return torch.cos(apart[:, None] * frequency).sum(dim=-1)


def measure_ripples() -> None:
    """Measure how the likeness of two positions falls with their distance: on average only."""
    small, usual = likeness(100.0, 50_000), likeness(10_000.0, 50_000)
    table = sinusoidal_positions(200, 128)
    assert torch.allclose(usual[:200], (table @ table[0]).double(), atol=1e-3)
    numbers["like_40"], numbers["like_44"] = usual[40].item(), usual[44].item()
    numbers["ripples"] = int((usual[:200].diff() > 0).sum())

    def mean(curve: Tensor, low: int, high: int) -> float:
        return curve[low : high + 1].mean().item()

    for low, high in [(1, 9), (10, 49), (50, 199)]:
        numbers[f"mean_100_{low}"] = mean(small, low, high)
        numbers[f"mean_10000_{low}"] = mean(usual, low, high)
    numbers["mean_10000_600"] = mean(usual, 600, 1499)
    assert abs(mean(small, 200, 1499)) < 0.5, "the text says: about 0 beyond"
    assert abs(mean(usual, 5000, 50_000)) < 1 < mean(usual, 1500, 4999), "close to 0 only beyond 5,000"


class Reader(nn.Module):
    """One layer of attention over words whose places are given in one of several ways."""

    def __init__(self, places: str, results: int, d_model: int = 32, n_heads: int = 4) -> None:
        super().__init__()
        self.places = places
        self.word = nn.Embedding(WORDS, d_model)
        nn.init.normal_(self.word.weight, std=d_model**-0.5)
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.out = nn.Linear(d_model, results)
        self.learned = nn.Parameter(torch.randn(100, d_model) / 2)

    def forward(self, words: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.word(words)
        d_model = x.shape[-1]
        if self.places == "waves":
            x = add_positions(x, sinusoidal_positions(words.shape[-1], d_model))
        elif self.places == "learned":
            x = add_positions(x, self.learned)
        else:
            x = x * math.sqrt(d_model)
        heads = self.attention
        q, k, v = (split_heads(w(x), heads.n_heads) for w in (heads.w_q, heads.w_k, heads.w_v))
        if self.places == "RoPE":
            q, k = (rotate(y, torch.arange(words.shape[-1])) for y in (q, k))
        if self.places == "ALiBi":
            q, k = with_distance(q, k)
        output, _ = scaled_dot_product_attention(q, k, v, mask)
        result: Tensor = self.out(heads.w_o(merge_heads(output)))
        return result


def with_distance(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Lower every score by slope times distance, as ALiBi does, with one more column.

    The score of query i and key j <= i gets slope * (j - i). What depends on i alone does not change
    a softmax, so slope * j is enough.
    """
    heads, seq, d_head = q.shape[-3:]
    slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
    places = (slopes[:, None] * torch.arange(seq) * math.sqrt(d_head + 1)).expand(k.shape[:-1])
    # The wider key has a larger root: what was there before keeps its score.
    q = q * math.sqrt((d_head + 1) / d_head)
    return torch.cat([q, torch.ones_like(q[..., :1])], -1), torch.cat([k, places[..., None]], -1)


def train_order(places: str, steps: int = 400) -> list[float]:
    """Train a model to say which of two words came first; give its accuracy every 10 steps."""
    torch.manual_seed(0)
    model = Reader(places, results=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    shares = []
    for step in range(steps):
        count = 500 if step % 10 == 0 else 64
        # Words 0 and 1 are always there, among four others.
        others = torch.rand(count, WORDS - 2).argsort(dim=-1)[:, :4] + 2
        words = torch.cat([torch.tensor([[0, 1]]).expand(count, 2), others], dim=-1)
        words = words.gather(1, torch.rand(count, 6).argsort(dim=-1))
        first = ((words == 0).int().argmax(-1) < (words == 1).int().argmax(-1)).long()
        logits = model(words).mean(dim=1)
        if count == 500:
            shares.append((logits.argmax(-1) == first).float().mean().item())
        loss = functional.cross_entropy(logits, first)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return shares


def draw_order() -> None:
    """Draw how two models learn which of two words came first."""
    figure, axes = plt.subplots()
    steps = range(0, 400, 10)
    for places, label, colour in [
        ("waves", "with positions", BLUE),
        ("none", "without positions", ORANGE),
    ]:
        shares = train_order(places)
        axes.plot(steps, shares, color=colour, label=label)
        numbers[f"order_{places}"] = 100 * sum(shares[-10:]) / 10
    axes.axhline(0.5, color=INK, linewidth=0.8, linestyle=":")
    axes.set(xlabel="training step", ylabel="right answers", ylim=(0.3, 1.03))
    axes.legend(loc="center right")
    common.save(figure, "week4-order")


def three_back(words: Tensor) -> Tensor:
    """Ask for the word three places back; -1 where there is none."""
    return functional.pad(words[:, :-3], (3, 0), value=-1)


def latest_name(words: Tensor) -> Tensor:
    """Ask for the latest of the words 0 to 3; -1 where none has come yet."""
    place = torch.where(words < 4, torch.arange(words.shape[-1]), -1).cummax(dim=-1).values
    return torch.where(place >= 0, words.gather(1, place.clamp(min=0)), -1)


def train_lengths(places: str, task: Callable[[Tensor], Tensor], steps: int = 600) -> Tensor:
    """Train on sequences of 20 words; give the accuracy at each of 100 places."""
    torch.manual_seed(0)
    model = Reader(places, results=WORDS)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(steps):
        words = torch.randint(WORDS, (64, TRAINED))
        logits = model(words, torch.ones(TRAINED, TRAINED, dtype=torch.bool).tril())
        loss = functional.cross_entropy(logits.mT, task(words), ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    words = torch.randint(WORDS, (500, 100))
    with torch.no_grad():
        said = model(words, torch.ones(100, 100, dtype=torch.bool).tril()).argmax(-1)
    asked = task(words)
    return ((said == asked) & (asked >= 0)).sum(0) / (asked >= 0).sum(0)


def draw_lengths() -> None:
    """Draw two tasks, four kinds of positions: accuracy at places that training never had."""
    figure, panels = plt.subplots(1, 2, sharey=True, figsize=(7.4, 3.4))
    tasks = [("the word three back", three_back), ("the latest name", latest_name)]
    colours = {"waves": BLUE, "learned": ORANGE, "RoPE": GREEN, "ALiBi": PINK}
    for axes, (title, task) in zip(panels, tasks, strict=True):
        for places, colour in colours.items():
            share = train_lengths(places, task)[3:]
            smooth = functional.avg_pool1d(share[None], 3, 1)[0]
            axes.plot(torch.arange(len(smooth)) + 5, smooth, color=colour, label=places)
            short = "back" if task is three_back else "latest"
            for name, low, high in [("inside", 5, 20), ("near", 20, 25), ("mid", 25, 40),
                                    ("far", 80, 100)]:  # fmt: skip
                numbers[f"{short}_{places.lower()}_{name}"] = (
                    100 * share[low - 3 : high - 3].mean().item()
                )
        axes.axvspan(0, TRAINED, color=INK, alpha=0.08, linewidth=0)
        axes.set(title=title, xlabel="place in the sequence", xlim=(0, 100), ylim=(0, 1.03))
    panels[0].set_ylabel("right answers")
    panels[0].text(10, 0.6, "trained", ha="center")
    panels[0].legend(loc="upper right", bbox_to_anchor=(1.0, 0.95))
    common.save(figure, "week4-lengths")


def distances(base: float, furthest: int, d_model: int = 128) -> Tensor:
    """Give how far apart the waves of two positions are that are 1, 2, ... words apart."""
    frequency = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    squares = torch.zeros(furthest, dtype=torch.float64)
    for speed in frequency:
        squares += 2 - 2 * torch.cos(speed * torch.arange(1, furthest + 1, dtype=torch.float64))
    return squares.sqrt()


def draw_base() -> None:
    """Draw how far apart two positions are, far beyond the longest wave."""
    figure, axes = plt.subplots()
    furthest = 1_000_000
    for base, colour in [(100.0, ORANGE), (10_000.0, BLUE)]:
        apart = distances(base, furthest)
        longest = 2 * math.pi * base ** (126 / 128)
        # The smallest distance in each of 120 stretches that grow: collisions would touch zero.
        edges = torch.logspace(0, 6, 121).long().unique()
        lows = [apart[a - 1 : b].min().item() for a, b in itertools.pairwise(edges)]
        axes.plot(edges[:-1], lows, color=colour, label=f"base {base:,.0f}")
        axes.axvline(longest, color=colour, linewidth=1, linestyle=":")
        numbers[f"longest_{base:.0f}"] = longest
        numbers[f"step_{base:.0f}"] = apart[0].item()
        numbers[f"closest_{base:.0f}"] = apart[int(longest) :].min().item()
    axes.set(
        xscale="log", xlabel="words apart", ylabel="smallest distance of the waves", ylim=(0, None)
    )
    axes.legend(loc="upper left")
    common.save(figure, "week4-base")


def draw_turns() -> None:
    """Draw a query and a key turned to two pairs of places that are equally far apart."""
    figure, panels = plt.subplots(1, 2, figsize=(6.4, 3.0))
    q, k = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.96, 0.28]])
    for axes, (query_place, key_place) in zip(panels, [(2, 1), (6, 5)], strict=True):
        turned = [
            (rotate(x, torch.tensor([place]))[0], name, colour)
            for x, place, name, colour in [
                (q, query_place, "query", BLUE),
                (k, key_place, "key", ORANGE),
            ]
        ]
        around = torch.linspace(0, 2 * math.pi, 80)
        axes.plot(around.cos(), around.sin(), color=INK, linewidth=0.6, alpha=0.5)
        for point, name, colour in turned:
            axes.annotate(
                "", point.tolist(), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2}
            )
            x, y = (1.25 * point).tolist()
            axes.text(x, y, name, color=INK, ha="center", va="center")
        score = float(turned[0][0] @ turned[1][0])
        axes.set(title=f"query at {query_place}, key at {key_place}: score {score:.2f}",
                 xlim=(-1.6, 1.6), ylim=(-1.45, 1.45), aspect="equal")  # fmt: skip
        axes.axis("off")
        numbers[f"turn_{query_place}_{key_place}"] = score
    common.save(figure, "week4-turns")


if __name__ == "__main__":
    torch.set_num_threads(1)
    work_by_hand()
    draw_counters()
    draw_distance()
    measure_ripples()
    draw_order()
    draw_lengths()
    draw_base()
    draw_turns()
    common.save_numbers(4, numbers)
