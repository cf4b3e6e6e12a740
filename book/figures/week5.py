"""Figures and numbers of week 5: norms, residual paths, and what a warm-up is for."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from common import BLUE, GREEN, INK, ORANGE, RED, save, save_numbers
from matplotlib import pyplot as plt
from torch import Tensor, nn

from lab_transformer.encoder import Encoder, EncoderBlock
from lab_transformer.feedforward import FeedForward
from lab_transformer.normalization import batch_norm, layer_norm, post_norm, pre_norm
from lab_transformer.positional import add_positions, sinusoidal_positions

torch.set_num_threads(1)

WORDS = ["the", "old", "cat", "sleeps", "well"]
# Chosen so that every row and every column has a whole mean and a whole standard deviation.
TABLE = torch.tensor(
    [[10.0, 4, 4, 2], [7, 7, 3, 3], [6, 6, 0, 0], [4, 10, 2, 4], [8, 8, 6, 6]], dtype=torch.float64
)
LAYERS = 12
PADS = (0, 1, 2, 5, 10, 20, 50, 100)


def plain(norm: Callable[..., Tensor], x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Normalise with gain 1 and bias 0."""
    ones = torch.ones(x.shape[-1], dtype=x.dtype)
    return norm(x, ones, 0 * ones) if mask is None else norm(x, ones, 0 * ones, mask)


def draw_tables() -> None:
    """Draw the table of the running example, and what each norm makes of it."""
    figure, axes = plt.subplots(1, 3, figsize=(7.4, 3.0))
    titles = ["five words, four features", "layer norm: every row", "batch norm: every column"]
    tables = [TABLE, plain(layer_norm, TABLE), plain(batch_norm, TABLE[None])[0]]
    for ax, title, table in zip(axes, titles, tables, strict=True):
        raw = table is TABLE
        ax.imshow(
            table, cmap="Blues" if raw else "PuOr_r", vmin=0 if raw else -3.2, vmax=22 if raw else 3.2
        )
        for i, row in enumerate(table.tolist()):
            for j, value in enumerate(row):
                text = f"{value:.0f}" if raw else f"{value:.2f}".replace("-", "\N{MINUS SIGN}")
                ax.text(j, i, text, ha="center", va="center", fontsize=9, color="black")
        ax.set_title(title)
        ax.set_xticks([])
        ax.set_yticks(range(5), WORDS if raw else [""] * 5)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
    save(figure, "week5-norm-tables")


def padding() -> dict[str, float]:
    """Pad a batch without touching its words, and see what becomes of the first word."""
    generator = torch.Generator().manual_seed(0)
    sentence = torch.randn(3, 64, generator=generator) + 0.5 * torch.randn(64, generator=generator)
    neighbours = torch.randn(7, 12, 64, generator=generator) + 0.5
    changes: dict[str, list[float]] = {"batch norm": [], "batch norm with a mask": [], "layer norm": []}
    first: dict[str, Tensor] = {}
    for pads in PADS:
        x = torch.zeros(8, 12 + pads, 64)
        x[0, :3] = sentence
        x[1:, :12] = neighbours
        mask = torch.zeros(8, 12 + pads, dtype=torch.bool)
        mask[0, :3] = True
        mask[1:, :12] = True
        results = {
            "batch norm": plain(batch_norm, x),
            "batch norm with a mask": plain(batch_norm, x, mask),
            "layer norm": plain(layer_norm, x),
        }
        for name, result in results.items():
            words = result[0, :3]
            first.setdefault(name, words)
            changes[name].append(((words - first[name]).norm() / first[name].norm()).item())
    figure, ax = plt.subplots(figsize=(6.4, 3.0))
    colours = {"batch norm": RED, "batch norm with a mask": ORANGE, "layer norm": BLUE}
    styles = {"batch norm": "o-", "batch norm with a mask": "s-", "layer norm": "^--"}
    for name, values in changes.items():
        ax.plot(PADS, [100 * value for value in values], styles[name], color=colours[name], label=name)
    ax.set(xlabel="pads added to every sentence of the batch", ylabel="change of our sentence (%)")
    ax.grid(True)
    ax.legend()
    save(figure, "week5-padding-poison")

    # The extreme of the text: three words, a hundred pads, one feature.
    alone = torch.zeros(1, 103, 1, dtype=torch.float64)
    alone[0, :3, 0] = torch.tensor([2.0, 4.0, 6.0])
    counted = plain(batch_norm, alone)[0, :3, 0]
    masked = plain(batch_norm, alone, torch.arange(103)[None] < 3)[0, :3, 0]
    return {
        "pad_change": 100 * changes["batch norm"][-1],
        "pad_change_ten": 100 * changes["batch norm"][PADS.index(10)],
        "pad_change_masked": 100 * changes["batch norm with a mask"][-1],
        "pad_change_layer": 100 * changes["layer norm"][-1],
        "pad_mean": alone.mean().item(),
        "pad_std": alone.std(correction=0).item(),
        **{f"pad_counted_{i}": counted[i].item() for i in range(3)},
        **{f"pad_masked_{i}": masked[i].item() for i in range(3)},
    }


def details() -> dict[str, float]:
    """Measure what the divisor and the place of eps change."""
    row = TABLE[1]
    ours = plain(layer_norm, row)
    sample = (row - row.mean()) / (row.std() + 1e-5)
    quiet = 1e-3 * (row - row.mean())
    inside = plain(layer_norm, quiet)
    outside = quiet / (quiet.std(correction=0) + 1e-5)
    same = plain(layer_norm, torch.full((4,), 7.0, dtype=torch.float64))
    wide = torch.randn(512, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gap = plain(layer_norm, wide) / ((wide - wide.mean()) / wide.std())
    return {
        "biased": ours[0].item(),
        "sample": sample[0].item(),
        "torch_gap": (ours - nn.functional.layer_norm(row, (4,))).abs().max().item(),
        "eps_inside": inside[0].item(),
        "eps_outside": outside[0].item(),
        "flat_word": same.abs().max().item(),
        "wide_gap": 100 * (gap.mean().item() - 1),
    }


def initialise(model: nn.Module, factor: float = 1.0) -> None:
    """Give all matrices the initial weights that are usual for Transformers, times a factor."""
    for weight in model.parameters():
        if weight.dim() > 1:
            nn.init.xavier_uniform_(weight, factor)


def sizes(
    x: Tensor, residual: Callable[..., Tensor] | None, normed: bool, factor: float = 1.0
) -> tuple[list[float], float]:
    """Follow the size of the numbers through a stack; say too how alike its words are at the end."""
    torch.manual_seed(0)
    result = [x.std().item()]
    with torch.no_grad():
        for _ in range(LAYERS):
            block = EncoderBlock(64, 4, 256)
            initialise(block, factor)
            sublayers = [
                (lambda y, b=block: b.attention(y, y, y)[0], block.norm_1),
                (block.feed_forward, block.norm_2),
            ]
            for sublayer, norm in sublayers:
                keep = norm if normed else nn.Identity()
                x = sublayer(x) if residual is None else residual(x, sublayer, keep)
            result.append(x.std().item())
    unit = x / x.norm(dim=-1, keepdim=True)
    cosines = unit @ unit.mT
    others = ~torch.eye(x.shape[1], dtype=torch.bool)
    return result, cosines[:, others].mean().item()


def stability() -> dict[str, float]:
    """Show what the numbers on the path become, with and without norm and residual path."""
    torch.manual_seed(1)
    x = torch.randn(8, 16, 64)
    curves = {
        "neither residual path nor norm": (sizes(x, None, False), GREEN, "s-"),
        "residual path, no norm": (sizes(x, pre_norm, False), RED, "D-"),
        "pre-norm": (sizes(x, pre_norm, True), ORANGE, "o-"),
        "post-norm": (sizes(x, post_norm, True), BLUE, "^-"),
    }
    figure, ax = plt.subplots(figsize=(6.4, 3.4))
    for name, ((values, _), colour, style) in curves.items():
        ax.semilogy(range(LAYERS + 1), values, style, color=colour, label=name, markersize=5)
    ax.set(xlabel="block", ylabel="size of the numbers (std)", xticks=range(0, LAYERS + 1, 2))
    ax.grid(True)
    ax.legend(fontsize=9)
    save(figure, "week5-path-size")
    bare, grown, pre, post = (run for run, _, _ in curves.values())
    return {
        "size_bare": bare[0][-1],
        "size_grown": grown[0][-1],
        "size_pre": pre[0][-1],
        "size_post": post[0][-1],
        "alike_bare": bare[1],
        "alike_pre": pre[1],
    }


def starts() -> dict[str, float]:
    """Halve and double all matrices of the stacks, and see what size the numbers end with."""
    torch.manual_seed(1)
    x = torch.randn(8, 16, 64)
    numbers = {}
    for name, residual, normed in [
        ("grown", pre_norm, False),
        ("pre", pre_norm, True),
        ("post", post_norm, True),
    ]:
        numbers[f"size_{name}_half"] = sizes(x, residual, normed, 0.5)[0][-1]
        numbers[f"size_{name}_double"] = sizes(x, residual, normed, 2.0)[0][-1]
    # Only its first digit means something, and it is printed with all of them.
    numbers["size_grown_double"] = float(f"{numbers['size_grown_double']:.1g}")
    return numbers


def gradients(layers: int, norm_first: bool) -> list[float]:
    """Give the gradient norm of the second feed-forward matrix of every block, before any training."""
    norms = torch.zeros(layers)
    for seed in range(3):
        torch.manual_seed(seed)
        model = Encoder(layers, 64, 4, 256, norm_first)
        initialise(model)
        x, target = torch.randn(8, 16, 64), torch.randint(0, 64, (128,))
        nn.functional.cross_entropy(model(x).flatten(0, 1), target).backward()
        norms += torch.stack([block.feed_forward.w_2.weight.grad.norm() for block in model.blocks]) / 3
    return norms.tolist()


def slopes() -> dict[str, float]:
    """Draw the gradient of every block at the first step, and that of the last against depth."""
    depths = (2, 4, 6, 12, 18, 24)
    post = {layers: gradients(layers, False) for layers in depths}
    pre = {layers: gradients(layers, True) for layers in depths}
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.1))
    for name, norms, colour, style in [
        ("post-norm", post, BLUE, "^-"),
        ("pre-norm", pre, ORANGE, "o-"),
    ]:
        left.plot(range(1, LAYERS + 1), norms[LAYERS], style, color=colour, label=name, markersize=5)
        right.plot(
            depths, [norms[d][-1] for d in depths], style, color=colour, label=name, markersize=5
        )
    left.set(title="a stack of twelve", xlabel="block", ylabel="gradient norm", ylim=(0, None))
    right.set(title="the last block", xlabel="blocks in the stack", ylim=(0, None), xticks=depths)
    left.set_xticks(range(2, LAYERS + 1, 2))
    for ax in (left, right):
        ax.grid(True)
    left.legend()
    save(figure, "week5-gradient-by-block")
    return {
        "slope_post_first": post[LAYERS][0],
        "slope_post_last": post[LAYERS][-1],
        "slope_pre_first": pre[LAYERS][0],
        "slope_pre_last": pre[LAYERS][-1],
        "slope_ratio": post[LAYERS][-1] / pre[LAYERS][-1],
        "slope_post_two": post[2][-1],
        "slope_post_deep": post[24][-1],
        "slope_pre_two": pre[2][-1],
        "slope_pre_deep": pre[24][-1],
        "slope_fall": pre[2][-1] / pre[24][-1],
    }


def blocks() -> dict[str, float]:
    """Count parameters, and take the feed-forward layer apart."""
    torch.manual_seed(0)
    block = EncoderBlock(512, 8, 2048)
    count = {name: sum(p.numel() for p in part.parameters()) for name, part in block.named_children()}
    layer = FeedForward(8, 32)
    x = torch.randn(1, 8)
    with torch.no_grad():
        result = layer(x)
        match = torch.relu(x @ layer.w_1.weight.T + layer.w_1.bias)[0]
        memories = sum(match[i] * layer.w_2.weight[:, i] for i in range(32)) + layer.w_2.bias
        raw = torch.tensor([[10.0, 20.0, 60.0]])
        norm = nn.LayerNorm(3)
        state, wrong = raw, raw
        for _ in range(12):
            state = pre_norm(state, torch.zeros_like, norm)
            wrong = norm(wrong) + torch.zeros_like(wrong)
    return {
        "parameters_attention": count["attention"] / 1e6,
        "parameters_feed_forward": count["feed_forward"] / 1e6,
        "share_feed_forward": 100 * count["feed_forward"] / sum(count.values()),
        "parameters_encoder": 6 * sum(count.values()) / 1e6,
        "memory_gap": (memories - result[0]).abs().max().item(),
        "memory_on": int((match > 0).sum()),
        "ff_sum": result.sum().item(),
        "ff_negative": int((result < 0).sum()),
        "path_kept": state[0, 2].item(),
        "path_lost": wrong[0, 2].item(),
    }


RATE, WARMUP = 2e-3, 80


def train(
    layers: int, norm_first: bool, warmup: int, seed: int, steps: int, ordered: bool = False
) -> tuple[list[float], float, float]:
    """Teach a stack to repeat eight digits, or to sort them.

    Gives all losses, the loss at the end, and the share (%) of the output's mean square in which the
    words of one sentence differ.
    """
    torch.manual_seed(seed)
    stack = Encoder(layers, 32, 4, 128, norm_first)
    initialise(stack)
    embedding, output = nn.Embedding(10, 32), nn.Linear(32, 10)
    nn.init.normal_(embedding.weight, std=32**-0.5)
    positions = sinusoidal_positions(8, 32)
    model = nn.ModuleList([stack, embedding, output])
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)

    def loss(number: int) -> Tensor:
        digits = torch.randint(0, 10, (number, 8))
        wanted = digits.sort(dim=1).values if ordered else digits
        logits = output(stack(add_positions(embedding(digits), positions)))
        return nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())

    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / warmup) if warmup else RATE
            if ordered:  # comes to rest, so that the end is not a matter of the last batch
                group["lr"] *= 1 - step / steps
        now = loss(32 if ordered else 16)
        optimizer.zero_grad()
        now.backward()
        optimizer.step()
        losses.append(now.item())
    with torch.no_grad():
        states = stack(add_positions(embedding(torch.randint(0, 10, (500, 8))), positions))
        within = (states - states.mean(dim=1, keepdim=True)).square().mean()
        return losses, loss(2000).item(), 100 * (within / states.square().mean()).item()


def warm_up() -> dict[str, float]:
    """Train a deep stack with and without warm-up, and a shallow one to its end."""
    runs = {
        "post-norm, no warm-up": (train(LAYERS, False, 0, 0, 160), RED, "-"),
        "post-norm, warm-up": (train(LAYERS, False, WARMUP, 0, 160), BLUE, "--"),
        "pre-norm, no warm-up": (train(LAYERS, True, 0, 0, 160), ORANGE, "-."),
    }
    figure, ax = plt.subplots(figsize=(6.4, 3.2))
    for name, ((losses, _, _), colour, style) in runs.items():
        ax.plot(losses, style, color=colour, label=name)
    ax.axhline(math.log(10), color=INK, lw=1, ls=":", label="guessing")
    ax.set(xlabel="training step", ylabel="loss", ylim=(0, 3.2))
    ax.grid(True)
    ax.legend(fontsize=9)
    save(figure, "week5-warm-up")
    cold, warm, pre = (run for run, _, _ in runs.values())
    ends = {
        norm_first: [train(2, norm_first, WARMUP, seed, 400, ordered=True)[1] for seed in range(3)]
        for norm_first in (False, True)
    }
    return {
        "guessing": math.log(10),
        "cold_post": cold[1],
        "warm_post": warm[1],
        "cold_pre": pre[1],
        "within_fresh": train(LAYERS, False, 0, 0, 0)[2],
        "within_fresh_pre": train(LAYERS, True, 0, 0, 0)[2],
        "within_cold": cold[2],
        "within_warm": warm[2],
        "sort_post": sum(ends[False]) / 3,
        "sort_pre": sum(ends[True]) / 3,
    }


def main() -> None:
    """Draw everything."""
    draw_tables()
    numbers = padding() | details() | stability() | starts() | slopes() | blocks() | warm_up()
    save_numbers(5, numbers)


if __name__ == "__main__":
    main()
