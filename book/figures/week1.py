"""Draws the figures of week 1: what a loop costs, how gradients fade, what a state can hold."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

import torch
from common import BLUE, GREEN, INK, ORANGE, RED, plt, save, save_numbers
from torch import Tensor, nn

from lab_transformer.attention import contextualize, scaled_dot_product_attention
from lab_transformer.embedding import embed, one_hot
from lab_transformer.rnn import clip_gradients, gradient_by_distance, rnn_cell, rnn_forward

WORDS, WIDTH, LONGEST = 4, 64, 40
NAMES = {
    "rnn": ("recurrent network", BLUE),
    "lstm": ("LSTM", ORANGE),
    "attention": ("attention", GREEN),
}


def draw_path() -> None:
    """Draw the unrolled network, and how far the first word is from the last state."""
    words = ["the", "report", "that", "they", "signed"]
    figure, axes = plt.subplots(figsize=(7.0, 2.5))
    box = {"boxstyle": "round,pad=0.45", "facecolor": "none"}
    arrow = {"arrowstyle": "-|>", "mutation_scale": 13, "linewidth": 1.5}
    axes.text(-0.95, 1, "$h_0$", ha="center", va="center", fontsize=12)
    for place, word in enumerate(words):
        axes.text(place, 0, word, ha="center", va="center")
        axes.text(place, 1, f"$h_{place + 1}$", ha="center", va="center", fontsize=12,
                  bbox={**box, "edgecolor": BLUE, "linewidth": 1.5})  # fmt: skip
        first = place == 0
        axes.annotate("", (place, 0.72), (place, 0.14),
                      arrowprops={**arrow, "color": RED if first else INK})  # fmt: skip
        axes.annotate("", (place - 0.26, 1), (place - 0.74, 1),
                      arrowprops={**arrow, "color": INK if first else RED})  # fmt: skip
        if place:
            axes.text(place - 0.5, 1.17, "$W_h$", ha="center", color=RED)
    axes.text(0.1, 0.42, "$W_x$", color=RED)
    axes.set(xlim=(-1.2, 4.5), ylim=(-0.25, 1.5))
    axes.axis("off")
    save(figure, "week1-path")


def seconds(run: Callable[[], object], repeats: int = 15) -> float:
    """Measure the processor time of a call, whatever else runs on the machine: the least of a few."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def draw_times() -> dict[str, float]:
    """Measure the time per word of a loop, of one product and of attention."""
    lengths = [2**power for power in range(2, 12)]
    w_x, w_h, bias = torch.randn(WIDTH, WIDTH) / 8, torch.randn(WIDTH, WIDTH) / 8, torch.zeros(WIDTH)
    loop, product, attention = [], [], []
    for n in lengths:
        xs, h0 = torch.randn(n, WIDTH), torch.zeros(WIDTH)
        loop.append(seconds(lambda xs=xs, h0=h0: rnn_forward(xs, h0, w_x, w_h, bias)) / n)
        product.append(seconds(lambda xs=xs: torch.tanh(xs @ w_x + bias)) / n)
        attention.append(seconds(lambda xs=xs: contextualize(xs)) / n)
    figure, axes = plt.subplots()
    for curve, colour, name in [
        (loop, BLUE, "loop: one word after the other"),
        (attention, GREEN, "attention: every word with every word"),
        (product, ORANGE, "one matrix product: all words at once"),
    ]:
        axes.loglog(lengths, [1e6 * t for t in curve], "o-", color=colour, label=name, markersize=4)
    axes.set(xlabel="words in the sentence", ylabel="microseconds per word", ylim=(None, 400))
    axes.grid(visible=True)
    axes.legend(loc="upper left")
    save(figure, "week1-time")
    at = lengths.index(1024)
    return {
        "loop_product_ratio": float(f"{loop[at] / product[at]:.1g}"),
        "loop_microseconds": float(f"{1e6 * loop[at]:.1g}"),
    }


def measure_waiting() -> dict[str, float]:
    """Compare the loop with the same loop in which no step has to wait for another."""
    draw = torch.Generator().manual_seed(0)
    xs, h0, bias = torch.randn(1024, WIDTH, generator=draw), torch.zeros(WIDTH), torch.zeros(WIDTH)
    w_x, w_h = torch.randn(2, WIDTH, WIDTH, generator=draw) / 8

    def loop(waits: bool) -> None:
        state, states = h0, []
        for x in xs:
            states.append(rnn_cell(x, state if waits else h0, w_x, w_h, bias))
            state = states[-1]

    # The machine's speed changes while we measure, so the two take turns, and turns are compared.
    ratios = [seconds(lambda: loop(True), 1) / seconds(lambda: loop(False), 1) for _ in range(101)]
    return {"waiting_ratio": round(statistics.median(ratios), 1)}


def influence(radius: float, size: float, seq: int = 31) -> Tensor:
    """Give the gradient norm of every word, the nearest first, as a share of the last word's."""
    torch.manual_seed(3)
    d = 16
    turn = torch.linalg.qr(torch.randn(d, d))[0]  # keeps every length, so a factor sets its radius
    xs = (size * torch.randn(seq, d)).requires_grad_()
    states, _ = rnn_forward(xs, torch.zeros(d), 0.5 * torch.randn(d, d), radius * turn, torch.zeros(d))
    norms = gradient_by_distance(states, xs).detach()
    return (norms / norms[-1]).flip(0)


def draw_gradients() -> dict[str, float]:
    """Draw the gradient against the distance for three radii, with tiny and with usual words."""
    figure, both = plt.subplots(1, 2, sharey=True)
    numbers = {}
    for axes, size, title in [
        (both[0], 1e-6, "tiny words: tanh is a line"),
        (both[1], 1.0, "words of size 1"),
    ]:
        for radius, colour in [(1.3, RED), (1.0, GREEN), (0.7, BLUE)]:
            curve = influence(radius, size)
            axes.semilogy(curve, color=colour, label=f"radius {radius}")
            numbers[f"left_{round(10 * radius)}_{'tiny' if size < 1 else 'usual'}"] = curve[30].item()
        axes.set(xlabel="distance in words", title=title, ylim=(1e-13, 1e5))
        axes.grid(visible=True)
    both[0].set_ylabel("gradient, last word = 1")
    both[0].legend(loc="lower left")
    save(figure, "week1-gradient")
    assert numbers["left_13_usual"] < 1e-6, "the text says: less than a millionth"
    return numbers


class Reciter(nn.Module):
    """Reads a sentence of any length, then says every word of it, the last word first."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.table = nn.Parameter(torch.randn(WORDS, WIDTH))
        if kind == "lstm":
            self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        elif kind == "rnn":
            self.w_x = nn.Parameter(torch.randn(WIDTH, WIDTH) / math.sqrt(WIDTH))
            self.w_h = nn.Parameter(torch.linalg.qr(torch.randn(WIDTH, WIDTH))[0])
            self.b = nn.Parameter(torch.zeros(WIDTH))
        else:
            self.places = nn.Parameter(torch.randn(LONGEST, WIDTH))
            self.questions = nn.Parameter(torch.randn(LONGEST, WIDTH))
        answers = WORDS if kind == "attention" else LONGEST * WORDS
        self.answer = nn.Linear(WIDTH, answers)

    def last_state(self, tokens: Tensor) -> Tensor:
        xs = embed(one_hot(tokens, WORDS), self.table)
        if self.kind == "lstm":
            return self.lstm(xs)[0][:, -1]
        return rnn_forward(xs, torch.zeros(len(xs), WIDTH), self.w_x, self.w_h, self.b)[1]

    def forward(self, tokens: Tensor) -> Tensor:
        """Give the logits (batch, place, word); place 0 is the last word of the sentence."""
        n = tokens.shape[1]
        if self.kind == "attention":
            # Places are counted from the end, as they are asked for.
            xs = embed(one_hot(tokens.flip(1), WORDS), self.table) + self.places[:n]
            return self.answer(scaled_dot_product_attention(self.questions[:n], xs, xs)[0])
        return self.answer(self.last_state(tokens)).view(-1, LONGEST, WORDS)[:, :n]


def train(model: Reciter, steps: int, first_only: bool = False, seed: int = 0) -> None:
    """Train on random sentences of all lengths; on all their words or on the first one only."""
    draw = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        n = int(torch.randint(1, LONGEST + 1, (), generator=draw))
        tokens = torch.randint(WORDS, (64, n), generator=draw)
        if first_only:
            logits, answers = model.answer(model.last_state(tokens))[:, :WORDS], tokens[:, 0]
        else:
            logits, answers = model(tokens).flatten(0, 1), tokens.flip(1).flatten()
        optimiser.zero_grad()
        nn.functional.cross_entropy(logits, answers).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()


def recall(model: Reciter, n: int) -> Tensor:
    """Measure the share of right answers for every word of n, the first word first."""
    tokens = torch.randint(WORDS, (2000, n), generator=torch.Generator().manual_seed(n))
    with torch.no_grad():
        return (model(tokens).argmax(-1).flip(1) == tokens).float().mean(0)


def draw_recall() -> dict[str, float]:
    """Draw how well three networks recall the first word, and each word of thirty."""
    lengths = [1, 3, 5, 7, 10, 12, 15, 17, 20, 22, 25, 27, 30, 35, 40]
    figure, (left, right) = plt.subplots(1, 2, sharey=True)
    numbers: dict[str, float] = {}
    for kind, (name, colour) in NAMES.items():
        torch.manual_seed(0)
        model = Reciter(kind)
        train(model, 1500)
        curve = [recall(model, n)[0].item() for n in lengths]
        left.plot(lengths, curve, "o-", color=colour, markersize=4)
        right.plot(range(1, 31), recall(model, 30), color=colour, label=name)
        numbers |= {f"{kind}_{n}": share for n, share in zip(lengths, curve, strict=True)}
    torch.manual_seed(0)
    brief = Reciter("rnn")
    train(brief, 500)
    numbers["brief_15"] = recall(brief, 15)[0].item()
    for axes in (left, right):
        axes.axhline(1 / WORDS, color=INK, linewidth=1, linestyle=":")
        axes.set_ylim(0, 1.05)
        axes.grid(visible=True)
    left.text(1, 1 / WORDS - 0.07, "guessing", fontsize=9)
    left.set(xlabel="words in the sentence", ylabel="recall", title="the first word")
    right.set(xlabel="place of the word", title="every word of thirty")
    right.legend(loc="lower right", fontsize=8.5, labelspacing=0.2, borderpad=0.1, borderaxespad=0.2)
    save(figure, "week1-recall")
    return numbers


def keep_one() -> dict[str, float]:
    """Train to keep the first word only, as gates can; five times, because luck has a part in it."""
    tokens = torch.randint(WORDS, (2000, 100), generator=torch.Generator().manual_seed(1))
    numbers = {}
    for kind in ("rnn", "lstm"):
        shares = []
        for seed in range(5):
            torch.manual_seed(seed)
            model = Reciter(kind)
            train(model, 400, first_only=True, seed=seed)
            with torch.no_grad():
                said = model.answer(model.last_state(tokens))[:, :WORDS].argmax(-1)
            shares.append((said == tokens[:, 0]).float().mean().item())
        numbers |= {f"one_{kind}_least": min(shares), f"one_{kind}_most": max(shares)}
    return numbers


def worked() -> dict[str, float]:
    """Compute the examples that the text works by hand."""
    one, half, zero = torch.ones(1, 1), torch.full((1, 1), 0.5), torch.zeros(1)
    xs = torch.tensor([[1.0], [0.0], [0.0]]).requires_grad_()
    states, last = rnn_forward(xs, zero, one, half, zero)
    slopes = gradient_by_distance(states, xs)
    assert torch.equal(rnn_cell(xs[0], zero, one, half, zero), states[0])
    gradients = [torch.tensor([30.0, 40.0]), torch.tensor([0.3, 0.4])]
    alone = torch.cat([gradient / gradient.norm().clamp(min=1.0) for gradient in gradients])
    whole = torch.cat(gradients)
    clipped = torch.cat(clip_gradients(gradients, 1.0))
    return {
        **{f"h_{step + 1}": state.item() for step, state in enumerate(states)},
        **{f"slope_{step + 1}": slope.item() for step, slope in enumerate(slopes)},
        "clip_norm": whole.norm().item(),
        "clip_small": clipped[2:].norm().item(),
        "cosine_alone": torch.cosine_similarity(alone, whole, dim=0).item(),
        "gate_90": 0.9**30,
        "gate_99": 0.99**30,
        "state_bytes": last.element_size() * 512,
        "weights_megabytes": contextualize(torch.randn(1000, 8))[1].nbytes / 1e6,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    draw_path()
    numbers = worked() | draw_gradients() | draw_times() | measure_waiting()
    numbers |= keep_one() | draw_recall()
    save_numbers(1, numbers)
