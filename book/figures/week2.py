"""Draws the figures of week 2: two banks, a table of weights, what repeats melt, what looking costs."""

from __future__ import annotations

import time

import torch
from common import BLUE, GREEN, INK, ORANGE, RED, plt, save, save_numbers
from torch import Tensor, nn

from lab_transformer.attention import contextualize, project_qkv, similarity_scores, softmax

# Four features by hand: finance, water, change, place.
TABLE = {
    "money": [2.0, 0.0, 0.0, 0.0],
    "river": [0.0, 2.0, 0.0, 0.0],
    "bank": [1.0, 1.0, 0.0, 1.0],
    "grows": [0.5, 0.0, 1.5, 0.0],
    "flows": [0.0, 0.5, 1.5, 0.0],
    "beside": [0.0, 0.0, 0.0, 1.0],
    "the": [0.0, 0.0, 0.0, 0.0],
}


def vectors(sentence: str) -> Tensor:
    """Look up the static vector of every word."""
    return torch.tensor([TABLE[word] for word in sentence.split()])


def cosine(a: Tensor, b: Tensor) -> float:
    """Measure whether two vectors point the same way."""
    return torch.cosine_similarity(a, b, dim=0).item()


def draw_banks() -> dict[str, float]:
    """Draw how the one vector of bank becomes two."""
    money, river = vectors("money bank grows"), vectors("river bank flows")
    scores = similarity_scores(money)
    (with_money, weights), (with_river, _) = contextualize(money), contextualize(river)
    figure, axes = plt.subplots(figsize=(5.2, 3.8))
    for word, colour in [("money", ORANGE), ("river", BLUE), ("bank", INK)]:
        x, y = TABLE[word][:2]
        axes.plot(x, y, "o", color=colour)
        axes.annotate(word, (x, y), (7, 7), textcoords="offset points", color=colour)
    for after, colour, name, at in [
        (with_money[1], ORANGE, "bank, beside money", (8, -12)),
        (with_river[1], BLUE, "bank, beside river", (6, 8)),
    ]:
        end = (after[0].item(), after[1].item())
        axes.annotate(
            "", end, (1, 1), arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.5}
        )
        axes.annotate(name, end, at, textcoords="offset points", color=colour)
    axes.set(xlabel="finance", ylabel="water", xlim=(-0.1, 2.4), ylim=(-0.1, 2.4))
    axes.grid(visible=True)
    save(figure, "week2-banks")
    numbers = {f"bank_{i}": value for i, value in enumerate(with_money[1].tolist())}
    numbers |= {f"weight_{i}": value for i, value in enumerate(weights[1].tolist())}
    numbers |= {f"exp_{i}": value for i, value in enumerate(scores[1].exp().tolist())}
    return numbers | {
        "exp_sum": scores[1].exp().sum().item(),
        "bank_cosine": cosine(with_money[1], with_river[1]),
        "bank_distance": (with_money[1] - with_river[1]).norm().item(),
    }


def static_average() -> dict[str, float]:
    """Compute the vector of a word that means money in nine texts of ten."""
    static = 0.9 * torch.tensor(TABLE["money"]) + 0.1 * torch.tensor(TABLE["river"])
    return {
        "static_money": cosine(static, torch.tensor(TABLE["money"])),
        "static_river": cosine(static, torch.tensor(TABLE["river"])),
    }


def draw_weights() -> dict[str, float]:
    """Draw the weights of a sentence of six words."""
    words = ["the", "river", "beside", "the", "bank", "flows"]
    context, weights = contextualize(vectors(" ".join(words)))
    figure, axes = plt.subplots(figsize=(4.9, 4.1))
    axes.imshow(weights, vmin=0, vmax=1, rasterized=True)
    for row in range(6):
        for column in range(6):
            share = weights[row, column].item()
            axes.text(column, row, f"{share:.2f}", ha="center", va="center", fontsize=9,
                      color="#ffffff" if share < 0.5 else "#000000")  # fmt: skip
    axes.set_xticks(range(6), words)
    axes.set_yticks(range(6), words)
    axes.set(xlabel="looked at (key)", ylabel="looking (query)")
    axes.spines[:].set_visible(False)
    save(figure, "week2-weights")
    assert torch.equal(context[0], context[3])
    return {"the_weight": weights[0, 0].item(), "bank_river": weights[4, 1].item()}


def draw_melt() -> dict[str, float]:
    """Draw what repeated averaging does to the words of one sentence."""
    left, right = vectors("money bank grows"), vectors("river bank flows")
    inside, between = [torch.pdist(left).max().item()], [1.0]
    for _ in range(10):
        left, right = contextualize(left)[0], contextualize(right)[0]
        inside.append(torch.pdist(left).max().item())
        between.append(cosine(left[1], right[1]))
    figure, axes = plt.subplots(figsize=(6.0, 3.2))
    axes.plot(inside, "o-", color=RED, markersize=4)
    axes.text(2.4, 0.95, "largest distance between\nwords of one sentence", color=RED)
    axes.plot(between, "o-", color=BLUE, markersize=4)
    axes.text(7.2, between[7] + 0.1, "cosine of the two banks", color=BLUE, ha="center")
    axes.set(xlabel="rounds of contextualize", ylim=(0, None))
    axes.grid(visible=True)
    save(figure, "week2-melt")
    return {"melt_0": inside[0], "melt_1": inside[1], "melt_5": inside[5], "melt_10": inside[10]}


def diagonal_wins() -> dict[str, float]:
    """Measure how often a word attends to itself most, in three settings."""
    torch.manual_seed(0)
    n, d = 10, 8
    x = nn.functional.normalize(torch.randn(2000, n, d), dim=-1) * d**0.5
    louder = x * torch.rand(2000, n, 1) * 2
    projected = []
    for sentences in x.split(10):  # other matrices for every ten sentences
        q, k, _ = project_qkv(sentences, *(torch.randn(3, d, d) / d**0.5))
        projected.append(softmax(q @ k.mT))

    def share(weights: Tensor) -> float:
        return (weights.argmax(-1) == torch.arange(n)).float().mean().item()

    return {
        "diagonal_equal": share(contextualize(x)[1]),
        "diagonal_unequal": share(contextualize(louder)[1]),
        "diagonal_projected": share(torch.cat(projected)),
    }


def questions(count: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Make sentences of eight words with a name and a content each, and a ninth that asks for a name.

    Returns the sentences, the asking word last, and the content that was asked for.
    """
    names = torch.rand(count, 8, generator=draw).argsort(-1)
    contents = torch.randint(4, (count, 8), generator=draw)
    one_hot = nn.functional.one_hot
    words = torch.cat([one_hot(names, 8), one_hot(contents, 4)], -1).float()
    asked = torch.randint(8, (count, 1), generator=draw)
    asker = torch.cat([one_hot(names.gather(1, asked), 8), torch.zeros(count, 1, 4)], -1)
    return torch.cat([words, asker], 1), contents.gather(1, asked)[:, 0]


class LookUp(nn.Module):
    """Answers what was asked, by attention with three learned views or with no parameters."""

    def __init__(self, learned: bool) -> None:
        super().__init__()
        self.learned = learned
        self.views = nn.ParameterList([torch.randn(12, 8) / 12**0.5 for _ in range(3)])
        self.readout = nn.Linear(8 if learned else 12, 4)

    def forward(self, x: Tensor) -> Tensor:
        if not self.learned:
            return self.readout(contextualize(x)[0][:, -1])
        q, k, v = project_qkv(x, *self.views)
        return self.readout((softmax(q @ k.mT) @ v)[:, -1])


def draw_dictionary() -> dict[str, float]:
    """Draw what learned views change: a look-up by name, with and without them."""
    figure, axes = plt.subplots(figsize=(6.0, 3.2))
    test, wanted = questions(4000, torch.Generator().manual_seed(1))
    numbers = {}
    for name, learned, colour in [
        ("queries, keys, values", True, GREEN),
        ("no parameters in the attention", False, ORANGE),
    ]:
        torch.manual_seed(0)
        model = LookUp(learned)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
        draw, curve = torch.Generator().manual_seed(0), []
        for step in range(301):
            if step % 10 == 0:
                with torch.no_grad():
                    curve.append((model(test).argmax(-1) == wanted).float().mean().item())
            x, content = questions(64, draw)
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x), content).backward()
            optimiser.step()
        axes.plot(range(0, 301, 10), curve, color=colour, label=name)
        numbers[f"lookup_{'learned' if learned else 'plain'}"] = curve[-1]
        if learned:
            names, contents = (model.views[0] @ model.views[1].T).detach()[:8].split([8, 4], dim=-1)
            numbers |= {"same_name": names.diag().mean().item(), "any_content": contents.mean().item()}
            numbers["other_name"] = (names.sum() - names.trace()).item() / 56
    axes.axhline(0.25, color=INK, linewidth=1, linestyle=":")
    axes.text(300, 0.27, "guessing", ha="right", fontsize=9)
    axes.set(xlabel="training steps", ylabel="right answers", ylim=(0, 1.05))
    axes.grid(visible=True)
    axes.legend(loc="center right")
    save(figure, "week2-lookup")
    return numbers


def seconds(x: Tensor, repeats: int = 25) -> float:
    """Measure the processor time of a round, whatever else runs on the machine: the least of a few."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        contextualize(x)
        times.append(time.process_time() - start)
    return min(times)


def slope(sizes: list[int], times: list[float]) -> float:
    """Fit a straight line through the logarithms: the exponent with which the time grows."""
    x, y = torch.tensor(sizes).log(), torch.tensor(times).log()
    return (((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()).item()


def draw_cost() -> dict[str, float]:
    """Measure the time of one round of attention against the length and against the width."""
    lengths, widths = [64, 128, 256, 512, 1024], [128, 256, 512, 1024, 2048, 4096]
    by_length = [seconds(torch.ones(n, 256)) for n in lengths]
    by_width = [seconds(torch.ones(256, d)) for d in widths]
    figure, (left, right) = plt.subplots(1, 2, sharey=True)
    for axes, sizes, times, power, name in [
        (left, lengths, by_length, 2, "words n, at width 256"),
        (right, widths, by_width, 1, "width d, at 256 words"),
    ]:
        axes.loglog(sizes, [1e3 * t for t in times], "o-", color=GREEN, markersize=4, label="measured")
        middle = torch.tensor([t / size**power for size, t in zip(sizes, times, strict=True)]).median()
        guide = [1e3 * middle * size**power for size in sizes]
        axes.loglog(sizes, guide, ":", color=INK, linewidth=1.2, label=f"slope {power}")
        axes.set_xlabel(name)
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8)
        axes.minorticks_off()
        axes.grid(visible=True)
        axes.legend(loc="upper left")
    left.set_ylabel("milliseconds")
    save(figure, "week2-cost")
    return {"slope_n": slope(lengths, by_length), "slope_d": slope(widths, by_width)}


def overflow() -> dict[str, float]:
    """Find the largest whole number whose exponential a float holds."""
    return {"largest_exp": max(x for x in range(200) if torch.tensor(float(x)).exp().isfinite())}


if __name__ == "__main__":
    torch.set_num_threads(1)
    numbers = draw_banks() | static_average() | draw_weights() | draw_melt() | diagonal_wins()
    numbers |= draw_dictionary() | draw_cost() | overflow()
    save_numbers(2, numbers)
