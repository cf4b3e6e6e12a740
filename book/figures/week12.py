"""Figures and numbers of week 12: what each change saves, what it costs, and all of them together."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable

import torch
from common import BLUE, GREEN, INK, ORANGE, PINK, RED, SKY, plt, save, save_numbers
from torch import Tensor, nn
from torch.nn import functional as F

from lab_transformer.attention import merge_heads, scaled_dot_product_attention, split_heads
from lab_transformer.feedforward import FeedForward
from lab_transformer.masking import causal_mask
from lab_transformer.notebook import peak_memory
from lab_transformer.positional import rotate
from lab_transformer.variants import (
    MixtureOfExperts,
    RMSNorm,
    SwiGLU,
    alibi_bias,
    grouped_query_attention,
    route,
    sliding_window_mask,
    tiled_attention,
)

Numbers = dict[str, float | int | str]

torch.set_num_threads(1)

STARTS = range(5)
WORDS, WIDTH, HEADS, LENGTH = 11, 32, 4, 12
LEARNED = 0.1  # the loss below which a rule counts as learned
MOST = 400  # steps


# One change at a time ---------------------------------------------------------------------------------


class Block(nn.Module):
    """A causal block in which each change since 2017 can be made alone."""

    def __init__(self, changes: frozenset[str]) -> None:
        super().__init__()
        self.changes = changes
        self.kv_heads = 2 if "grouped queries" in changes else HEADS
        narrow = self.kv_heads * WIDTH // HEADS
        self.w_q, self.w_o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.w_k, self.w_v = nn.Linear(WIDTH, narrow), nn.Linear(WIDTH, narrow)
        norm = RMSNorm if "RMS norm" in changes else nn.LayerNorm
        self.norm_1, self.norm_2 = norm(WIDTH), norm(WIDTH)
        gated = "SwiGLU" in changes
        # Two thirds as wide, for as many parameters.
        self.feed_forward = SwiGLU(WIDTH, 86) if gated else FeedForward(WIDTH, 4 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Let every word look at itself and at earlier words, then think."""
        y, seq = self.norm_1(x), x.shape[1]
        q = split_heads(self.w_q(y), HEADS)
        k, v = (split_heads(w(y), self.kv_heads) for w in (self.w_k, self.w_v))
        if "RoPE" in self.changes:
            q, k = (rotate(part, torch.arange(seq)) for part in (q, k))
        mask = causal_mask(seq)
        if "ALiBi" in self.changes:
            scores = q @ k.mT / (WIDTH // HEADS) ** 0.5 + alibi_bias(HEADS, seq, seq)
            found = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1) @ v
        elif self.kv_heads < HEADS:
            found, _ = grouped_query_attention(q, k, v, mask)
        else:
            found, _ = scaled_dot_product_attention(q, k, v, mask)
        x = x + self.w_o(merge_heads(found))
        output: Tensor = x + self.feed_forward(self.norm_2(x))
        return output


class Model(nn.Module):
    """Two blocks between an embedding and the next token's logits."""

    def __init__(self, changes: frozenset[str]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        learned = not changes & {"RoPE", "ALiBi"}
        self.positions = nn.Embedding(LENGTH, WIDTH) if learned else None
        self.blocks = nn.Sequential(Block(changes), Block(changes))
        self.norm = RMSNorm(WIDTH) if "RMS norm" in changes else nn.LayerNorm(WIDTH)
        self.output = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        """Give the logits of the next token."""
        x = self.embedding(tokens)
        if self.positions is not None:
            x = x + self.positions.weight[: tokens.shape[1]]
        logits: Tensor = self.output(self.norm(self.blocks(x)))
        return logits


def sums(rows: int = 64) -> tuple[Tensor, Tensor]:
    """Draw texts in which each token is the sum of the two before it."""
    text = torch.randint(0, WORDS, (rows, LENGTH + 1))
    for place in range(2, LENGTH + 1):
        text[:, place] = (text[:, place - 1] + text[:, place - 2]) % WORDS
    return text[:, :-1], text[:, 1:]


def learn(changes: frozenset[str], start: int) -> tuple[list[float], float]:
    """Train until the rule is learned; give the losses, and the processor seconds of a step."""
    torch.manual_seed(start)
    model = Model(changes)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses: list[float] = []
    began = time.process_time()
    while len(losses) < MOST and (len(losses) < 10 or statistics.mean(losses[-10:]) > LEARNED):
        inputs, targets = sums()
        # The second token is drawn, so nobody can know it.
        loss = F.cross_entropy(model(inputs)[:, 1:].flatten(0, 1), targets[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, (time.process_time() - began) / len(losses)


CHANGES = {
    "2017": frozenset[str](),
    "RMS norm": frozenset({"RMS norm"}),
    "SwiGLU": frozenset({"SwiGLU"}),
    "grouped queries": frozenset({"grouped queries"}),
    "ALiBi": frozenset({"ALiBi"}),
    "RoPE": frozenset({"RoPE"}),
    "all, with RoPE": frozenset({"RMS norm", "SwiGLU", "grouped queries", "RoPE"}),
}


def draw_changes() -> Numbers:
    """Draw how soon a rule is learned, with each change alone and with all of them."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.2))
    numbers: Numbers = {}
    steps: dict[str, list[int]] = {}
    colors = [INK, SKY, ORANGE, PINK, GREEN, BLUE, RED]
    for (name, changes), color in zip(CHANGES.items(), colors, strict=True):
        runs = [learn(changes, start) for start in STARTS]
        steps[name] = [len(losses) for losses, _ in runs]
        key = name.replace(", with", "").replace(" ", "_").lower()
        numbers[f"steps_{key}"] = statistics.median(steps[name])
        numbers[f"least_{key}"], numbers[f"most_{key}"] = min(steps[name]), max(steps[name])
        numbers[f"seconds_{key}"] = statistics.median(len(losses) * cost for losses, cost in runs)
        if name in ("2017", "SwiGLU", "ALiBi", "RoPE", "all, with RoPE"):
            left.plot(runs[0][0], color=color, label=name)
    left.set(xlabel="steps", ylabel="loss", ylim=(0, 2.6))
    left.legend(fontsize=8)
    places = range(len(steps))
    right.barh(places, [statistics.median(n) for n in steps.values()], color=colors, alpha=0.7)
    for place, found in zip(places, steps.values(), strict=True):
        right.plot(found, [place] * len(found), "o", color=INK, markersize=3)
    right.set(xlabel="steps until the loss is below 0.1")
    right.set_yticks(list(places), list(steps))
    right.invert_yaxis()
    save(figure, "week12-changes")
    return numbers


# What they save ---------------------------------------------------------------------------------------


def draw_memory() -> Numbers:
    """Draw the memory of attention, in whole rows and in tiles, against the length."""

    def memory(attend: Callable[[Tensor, Tensor, Tensor], Tensor], length: int) -> float:
        q, k, v = torch.randn(3, 1, 2, length, 32).requires_grad_()
        return peak_memory(lambda: attend(q, k, v).sum().backward()) / 2**20

    lengths = [128, 256, 512, 1024, 2048, 4096]
    rows = [memory(lambda *x: scaled_dot_product_attention(*x)[0], n) for n in lengths]
    tiles = [memory(lambda *x: tiled_attention(*x, 64), n) for n in lengths]
    figure, axes = plt.subplots(figsize=(6, 3))
    axes.loglog(lengths, rows, marker="o", color=RED, label="whole rows (week 3)")
    axes.loglog(lengths, tiles, marker="o", color=BLUE, label="tiles of 64 keys")
    axes.set(xlabel="words", ylabel="megabytes, both ways")
    axes.set_xticks(lengths, [f"{n:,}" for n in lengths])
    axes.minorticks_off()
    axes.legend()
    save(figure, "week12-memory")
    return {
        "rows_megabytes": rows[-1],
        "tiles_megabytes": tiles[-1],
        "memory_ratio": rows[-1] / tiles[-1],
        "rows_growth": rows[-1] / rows[-2],
        "tiles_growth": tiles[-1] / tiles[-2],
    }


def draw_slopes() -> Numbers:
    """Draw where ALiBi's heads look when all words match alike."""
    weights = alibi_bias(8, 1, 60)[:, 0].softmax(dim=-1)
    figure, axes = plt.subplots(figsize=(6, 2.8))
    for head, color in zip((0, 2, 4, 7), (BLUE, GREEN, ORANGE, RED), strict=True):
        axes.plot(range(59, -1, -1), weights[head], color=color, label=f"head {head + 1}")
    axes.set(xlabel="words back", ylabel="weight", xlim=(40, 0), ylim=(0, 0.45))
    axes.legend(loc="upper left")
    save(figure, "week12-slopes")
    long = alibi_bias(8, 1, 400)[:, 0].softmax(dim=-1).flip(-1).cumsum(dim=-1)
    half = (long < 0.5).sum(dim=-1) + 1
    return {"half_first": int(half[0]), "half_last": int(half[-1])}


def draw_window() -> Numbers:
    """Draw how much of each earlier word reaches the last output through a stack with a window."""
    figure, axes = plt.subplots(figsize=(6, 2.8))
    layers, window, length = 4, 8, 40
    means = {}
    for name, mask in (
        ("window of 8", sliding_window_mask(length, length, window)),
        ("all earlier words", causal_mask(length)),
    ):
        found = []
        for start in range(20):
            torch.manual_seed(start)
            text = torch.randn(1, length, 16).requires_grad_()
            x = text
            for _ in range(layers):
                w_q, w_k, w_v = torch.randn(3, 16, 16) / 4
                y = F.layer_norm(x, (16,))
                x = x + scaled_dot_product_attention(y @ w_q, y @ w_k, y @ w_v, mask)[0]
            (gradient,) = torch.autograd.grad(x[0, -1].sum(), text)
            found.append(gradient[0].norm(dim=-1).flip(0))
        means[name] = torch.stack(found).mean(dim=0)
        axes.semilogy(means[name], label=name, color=BLUE if "window" in name else ORANGE)
    reach = layers * (window - 1)
    axes.axvline(reach, color=INK, linewidth=1, linestyle=":")
    axes.set(xlabel="words back", ylabel="gradient of the last output", ylim=(1e-7, 10))
    axes.legend()
    save(figure, "week12-window")
    near, far = means["window of 8"][1].item(), means["window of 8"][reach].item()
    return {
        "reach": reach,
        "near_over_far": near / far,
        "beyond": float(means["window of 8"][reach + 1]),
    }


def shares(start: int, weight: float) -> tuple[list[float], float]:
    """Train a mixture on eight kinds of words; give the experts' shares, and the error."""
    torch.manual_seed(start)
    mixture = MixtureOfExperts(16, 32, 8, 2)
    matrices, centres = torch.randn(8, 16, 16) / 4, torch.randn(8, 16)
    optimizer = torch.optim.Adam(mixture.parameters(), 3e-3)

    def draw(rows: int) -> tuple[Tensor, Tensor]:
        kinds = torch.randint(0, 8, (rows, 32))
        x = centres[kinds] + 0.3 * torch.randn(rows, 32, 16)
        return x, (matrices[kinds] @ x[..., None])[..., 0]

    for _ in range(150):
        x, wanted = draw(4)
        found, balance = mixture(x)
        loss = (found - wanted).square().mean() + weight * balance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        x, wanted = draw(32)
        error = (mixture(x)[0] - wanted).square().mean().item()
        counts = torch.bincount(route(mixture.router(x), 2)[1].flatten(), minlength=8)
    return sorted((counts / counts.sum()).tolist(), reverse=True), error


def draw_experts() -> Numbers:
    """Draw how often experts are asked, with and without the balance loss."""
    figure, axes = plt.subplots(figsize=(6, 2.8))
    numbers: Numbers = {}
    for place, (weight, color, name) in enumerate(
        ((0.0, RED, "without the balance loss"), (0.1, BLUE, "with it"))
    ):
        runs = [shares(start, weight) for start in STARTS]
        each = torch.tensor([found for found, _ in runs])
        middle = each.median(dim=0).values
        axes.bar(torch.arange(8) + 0.4 * place, 100 * middle, 0.38, color=color, label=name)
        key = "balanced" if weight else "free"
        numbers[f"busiest_{key}"] = 100 * middle[0].item()
        numbers[f"idlest_{key}"] = 100 * middle[-1].item()
        numbers[f"error_{key}"] = statistics.median(error for _, error in runs)
    axes.axhline(12.5, color=INK, linewidth=1, linestyle=":")
    axes.set(xlabel="experts, the busiest first", ylabel="share of the choices, %")
    axes.set_xticks([])
    axes.legend()
    save(figure, "week12-experts")
    return numbers


if __name__ == "__main__":
    parts = (draw_slopes, draw_memory, draw_window, draw_experts, draw_changes)
    save_numbers(12, dict(itertools.chain.from_iterable(part().items() for part in parts)))
