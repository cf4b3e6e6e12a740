"""The figures and numbers of week 9: the recipe, part by part, and translators that learn by it.

Everything takes about half an hour of processor. `python week9.py rates scores` makes some parts anew
and keeps the numbers of the others; `python week9.py` makes all.
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import sacrebleu
import torch
from common import BLUE, DRAWN, GREEN, INK, ORANGE, PINK, RED, plt, save, save_numbers
from torch import Tensor, nn

from lab_transformer.corpus import (
    NOUNS,
    Pair,
    Vocabulary,
    draw_pairs,
    romanise,
    split_pairs,
    to_batch,
    to_text,
)
from lab_transformer.loss import sequence_loss, shift_right
from lab_transformer.metrics import bleu
from lab_transformer.training import (
    adamw_step,
    dropout,
    evaluate,
    noam_rate,
    token_batches,
    train_step,
)
from lab_transformer.transformer import Transformer

Numbers = dict[str, float | int | str]

LANGUAGES = ("italian", "hindi")
COLOURS = {"italian": BLUE, "hindi": ORANGE}
N_PAIRS, N_TEST, N_LONG = 51_001, 1_000, 500
LONGEST = 8  # words of an English sentence in training
BUDGET = 640  # tokens of a batch
STEPS, WARMUP, SEEDS = 2_000, 400, 3
SHORT = 800  # steps of the models that lack a part of the recipe
SIZES = {"n_layers": 2, "d_model": 64, "n_heads": 4, "d_ff": 256}
PAD, START, END = Vocabulary.pad_id, Vocabulary.bos_id, Vocabulary.eos_id


# The corpus ----------------------------------------------------------------------------------------


@dataclass
class Corpus:
    """Pairs to learn from, pairs held out, and pairs that are longer than all of those."""

    language: str
    kept: list[Pair]
    test: list[Pair]
    long: list[Pair]
    source: Vocabulary
    target: Vocabulary

    def batch(self, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
        """Number the words of some pairs."""
        return to_batch(pairs, self.source, self.target)

    def stream(self, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Give batches of like length, epoch after epoch, in an order that the seed decides."""
        rng = random.Random(seed)
        while True:
            pairs = rng.sample(self.kept, len(self.kept))
            batches = token_batches([cost(pair) for pair in pairs], BUDGET)
            rng.shuffle(batches)
            for indices in batches:
                yield self.batch([pairs[i] for i in indices])


def cost(pair: Pair) -> int:
    """Count the tokens that a pair needs in a batch: its longer side, with the end token."""
    return max(len(pair.source), len(pair.target) + 1)


def corpus(language: str, shared: bool = True) -> Corpus:
    """Draw pairs; with one vocabulary, its words are those of both languages."""
    pairs = draw_pairs(language, N_PAIRS)
    short = [pair for pair in pairs if len(pair.source) <= LONGEST]
    longer = [pair for pair in pairs if len(pair.source) > LONGEST]
    kept, test = split_pairs(short, N_TEST)
    sides = [[pair.source for pair in pairs], [pair.target for pair in pairs]]
    if shared:
        source = target = Vocabulary(itertools.chain(*sides))
    else:
        source, target = map(Vocabulary, sides)
    return Corpus(language, kept, test, random.Random(0).sample(longer, N_LONG), source, target)


# Training ------------------------------------------------------------------------------------------


@dataclass
class Trained:
    """A model, what it learned from, and how it got there."""

    corpus: Corpus
    model: Transformer
    losses: list[float] = field(default_factory=list)
    clipped: list[bool] = field(default_factory=list)  # at each step: was the gradient longer than 1?
    history: list[tuple[int, float, float]] = field(default_factory=list)  # step, loss, exact match
    seconds: float = 0.0

    @torch.no_grad()
    def translate(self, pairs: Sequence[Pair]) -> list[tuple[str, ...]]:
        """Write the most probable word again and again, for all sentences at once."""
        self.model.eval()
        source, _ = self.corpus.batch(pairs)
        memory, mask = self.model.encode(source)
        written = torch.full((len(pairs), 1), START)
        for _ in range(max(len(pair.target) for pair in pairs) + 2):
            logits, _ = self.model.decode(written, memory, mask)
            written = torch.cat([written, logits[:, -1:].argmax(dim=-1)], dim=1)
        return [self.corpus.target.decode(row) for row in written.tolist()]

    def exact(self, pairs: Sequence[Pair]) -> float:
        """Give the share of sentences that are translated without a mistake."""
        found = zip(self.translate(pairs), pairs, strict=True)
        return statistics.fmean(output == pair.target for output, pair in found)

    def loss(self, pairs: Sequence[Pair]) -> float:
        """Give the loss of a word of these pairs."""
        parts = [pairs[i : i + 250] for i in range(0, len(pairs), 250)]
        return evaluate(self.model, [self.corpus.batch(part) for part in parts], START, PAD)


def train(
    learned: Corpus,
    *,
    drop: float = 0.1,
    smoothing: float = 0.1,
    warm: bool = True,
    shared: bool = True,
    norm_first: bool = True,
    factor: float = 1.0,
    steps: int = STEPS,
    seed: int = 0,
    watch: int = 0,
) -> Trained:
    """Train a translator by the recipe, or by one that lacks a part of it."""
    torch.manual_seed(seed)
    sizes = len(learned.source), len(learned.target)
    model = Transformer(
        *sizes, **SIZES, norm_first=norm_first, max_length=64, dropout=drop, shared=shared
    )
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0)
    result = Trained(learned, model)
    start = time.process_time()
    batches = learned.stream(seed)
    for step in range(1, steps + 1):
        # Without a warm-up the rate begins at its highest.
        rate = factor * noam_rate(step if warm else max(step, WARMUP), SIZES["d_model"], WARMUP)
        optimizer.param_groups[0]["lr"] = rate
        source, target = next(batches)
        model.train()
        result.losses.append(train_step(model, optimizer, source, target, START, PAD, 1.0, smoothing))
        gradients = [one.grad.norm() for one in model.parameters() if one.grad is not None]
        result.clipped.append(torch.stack(gradients).norm().item() > 0.999)
        if watch and step % watch == 0:
            paused = time.process_time()
            some = learned.test[:300]
            result.history.append((step, result.loss(some), result.exact(some)))
            start += time.process_time() - paused
    result.seconds = time.process_time() - start
    model.eval()
    return result


@functools.cache
def usual(language: str, seed: int) -> Trained:
    """Train by the whole recipe."""
    return train(corpus(language), seed=seed, watch=50 if seed == 0 else 0)


# Parts of the chapter ------------------------------------------------------------------------------


def draw_batches() -> Numbers:
    """Count the padding in batches by number and in batches by tokens, and draw some of each."""
    learned = corpus("italian")
    pairs = random.Random(0).sample(learned.kept + learned.long, 20_000)
    lengths = [cost(pair) for pair in pairs]
    words = sum(lengths)

    def padding(batches: list[list[int]]) -> float:
        """Give the share of tokens that are padding."""
        size = sum(len(one) * max(lengths[i] for i in one) for one in batches)
        return 1 - words / size

    by_number = [list(range(i, min(i + 64, len(pairs)))) for i in range(0, len(pairs), 64)]
    by_tokens = token_batches(lengths, BUDGET)
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.2))
    few = lengths[:30]
    for panel, batches, title in [
        (
            axes[0],
            [list(range(i, i + 10)) for i in range(0, 30, 10)],
            "ten sentences each, as they come",
        ),
        (axes[1], token_batches(few, 90), "at most 90 tokens each, like with like"),
    ]:
        row = 0.0
        for batch in batches:
            longest = max(few[i] for i in batch)
            panel.add_patch(
                plt.Rectangle((0, row), longest, len(batch), facecolor="none", edgecolor=INK)
            )
            for i in batch:
                panel.add_patch(plt.Rectangle((0, row + 0.12), few[i], 0.76, facecolor=BLUE))
                row += 1
            row += 1.2
        panel.set(xlim=(-0.3, 11), ylim=(row, -0.5), title=title, yticks=[])
        panel.set_xlabel("tokens")
        panel.spines["left"].set_visible(False)
    save(figure, "week9-batches")
    return {
        "pads_by_number": padding(by_number),
        "pads_by_tokens": padding(by_tokens),
        "batches_by_number": len(by_number),
        "batches_by_tokens": len(by_tokens),
        "smallest_batch": min(map(len, by_tokens)),
        "largest_batch": max(map(len, by_tokens)),
    }


def draw_rates() -> Numbers:
    """Draw the rate of 2017 against the step, and the two powers that it is made of."""
    steps = torch.logspace(0, 5, 400).round().unique().tolist()
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.1))
    line = range(1, 20_000, 20)
    axes[0].plot(
        line, [1e4 * noam_rate(step, 512, 4000) for step in line], color=BLUE, label="warm-up 4,000"
    )
    axes[0].plot(
        line,
        [1e4 * noam_rate(step, 512, 8000) for step in line],
        "--",
        color=ORANGE,
        label="warm-up 8,000",
    )
    axes[0].set(xlabel="step", ylabel="rate, in ten-thousandths", title="width 512")
    axes[0].grid(True)
    axes[0].legend()
    axes[1].loglog(
        steps, [noam_rate(int(step), 512, 4000) for step in steps], color=BLUE, label="the smaller one"
    )
    axes[1].loglog(
        steps,
        [512**-0.5 * step * 4000**-1.5 for step in steps],
        ":",
        color=RED,
        label="step / warmup$^{1.5}$",
    )
    axes[1].loglog(
        steps, [512**-0.5 * step**-0.5 for step in steps], "--", color=GREEN, label="1 / √step"
    )
    axes[1].set(xlabel="step", title="both on logarithmic axes", ylim=(1e-7, 1e-1))
    axes[1].minorticks_off()
    axes[1].legend(fontsize=9)
    save(figure, "week9-rate")
    return {
        "rate_first": noam_rate(1, 512, 4000),
        "rate_peak": noam_rate(4000, 512, 4000),
        "rate_last": noam_rate(100_000, 512, 4000),
        "rate_ours": noam_rate(WARMUP, SIZES["d_model"], WARMUP),
    }


def draw_decay() -> Numbers:
    """Let a loud and a quiet weight shrink by decay through the gradient, and beside it."""
    steps, rate, decay = 400, 0.01, 0.1
    generator = torch.Generator().manual_seed(0)
    sizes = torch.tensor([1.0, 0.01]).double()
    noise = torch.randn(steps, 2_000, 2, generator=generator, dtype=torch.float64) * sizes
    curves = {}
    for name, apart in [("AdamW", True), ("Adam, decay in the gradient", False)]:
        weights, state, path = torch.ones(2_000, 2, dtype=torch.float64), None, []
        for gradient in noise:
            gradient = gradient if apart else gradient + decay * weights
            weights, state = adamw_step(
                weights, gradient, state, rate, weight_decay=decay if apart else 0.0
            )
            path.append(weights.mean(dim=0).tolist())
        curves[name] = path
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 2.9), sharey=True)
    for panel, (name, path) in zip(axes, curves.items(), strict=True):
        for column, (label, colour, style) in enumerate(
            [("large gradients", RED, "-"), ("small gradients", BLUE, "--")]
        ):
            panel.plot([row[column] for row in path], style, color=colour, label=label)
        panel.set(title=name, xlabel="step", ylim=(-0.1, 1.05))
        panel.grid(True)
    axes[0].set_ylabel("weight, mean of 2,000")
    axes[1].legend(fontsize=9)
    save(figure, "week9-decay")
    (loud, quiet), (loud_in, quiet_in) = (path[-1] for path in curves.values())
    return {
        "decay_loud": loud,
        "decay_quiet": quiet,
        "decay_in_loud": loud_in,
        "decay_in_quiet": abs(quiet_in),
        "decay_alone": (1 - rate * decay) ** steps,
    }


def first_loss() -> Numbers:
    """Measure the loss before any training, and where what is above the logarithm comes from."""
    learned = corpus("italian")
    source, target = learned.batch(learned.test[:500])
    inputs = shift_right(target, START)
    rows = []
    for seed in range(5):
        torch.manual_seed(seed)
        sizes = len(learned.source), len(learned.target)
        model = Transformer(*sizes, **SIZES, max_length=64, shared=True).eval()
        with torch.no_grad():
            logits = model(source, inputs)
            real = target != PAD
            read = logits.gather(-1, inputs[..., None])[..., 0][real]
            spread = logits[real].var(dim=-1).mean().item()
            without = logits.scatter(-1, inputs[..., None], 0.0)
            nn.init.normal_(model.output.weight, std=0.02)
            small = sequence_loss(model(source, inputs), target, PAD).item()
            rows.append(
                (
                    sequence_loss(logits, target, PAD).item(),
                    read.mean().item(),
                    spread,
                    sequence_loss(without, target, PAD).item(),
                    small,
                )
            )
    loss, read, spread, without, small = (
        statistics.fmean(column) for column in zip(*rows, strict=True)
    )
    losses = [row[0] for row in rows]
    return {
        "vocabulary": len(learned.target),
        "log_vocabulary": math.log(len(learned.target)),
        "first_loss": loss,
        "first_loss_least": min(losses),
        "first_loss_most": max(losses),
        "first_read": read,
        "first_spread": spread,
        "first_without": without,
        "first_small": small,
    }


def by_heart() -> Numbers:
    """Learn one batch by heart, with the loop as it should be and with what goes wrong in it."""
    learned = corpus("italian")
    pairs = learned.kept[:16]
    source, target = learned.batch(pairs)

    def run(
        rate: float = 3e-3, clear: bool = True, frozen: bool = False, shift: bool = True
    ) -> list[float]:
        torch.manual_seed(0)
        sizes = len(learned.source), len(learned.target)
        model = Transformer(*sizes, **SIZES, max_length=64, shared=True)
        if frozen:
            # The wrong model in the optimizer: what is trained is a copy.
            optimizer = torch.optim.Adam(copy.deepcopy(model).parameters(), rate)
        else:
            optimizer = torch.optim.Adam(model.parameters(), rate)
        losses = []
        for _ in range(120):
            inputs = shift_right(target, START) if shift else target
            loss = sequence_loss(model(source, inputs), target, PAD)
            if clear:
                model.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return losses

    curves = {
        "as it should be": (run(), BLUE, "-"),
        "gradients never cleared": (run(clear=False), ORANGE, "--"),
        "rate 30 times as high": (run(rate=0.09), RED, "-."),
        "optimizer holds a copy": (run(frozen=True), PINK, ":"),
        "target not shifted": (run(shift=False), GREEN, (0, (5, 1))),
    }
    figure, axes = plt.subplots(figsize=(6.6, 3.3))
    for name, (losses, colour, style) in curves.items():
        axes.plot(range(1, len(losses) + 1), losses, color=colour, linestyle=style, label=name)
    axes.set(xlabel="step", ylabel="loss on these 16 sentences", ylim=(0, 9))
    axes.grid(True)
    axes.legend(fontsize=9, loc="center right")
    save(figure, "week9-by-heart")
    names = ["heart", "heart_kept", "heart_high", "heart_copy", "heart_leak"]
    ends = {name: losses[-1] for name, (losses, _, _) in zip(names, curves.values(), strict=True)}
    first = {"heart_first": curves["as it should be"][0][0]}
    return {**ends, **first, "heart_leak_first": curves["target not shifted"][0][0]}


def draw_trained() -> Numbers:
    """Train translators into both languages; measure them on new sentences, and on longer ones."""
    numbers: Numbers = {"n_test": N_TEST, "n_long": N_LONG, "longest": LONGEST, "steps": STEPS}
    figure, panels = plt.subplots(1, 2, figsize=(7.2, 3.0))
    bars, bar = plt.subplots(figsize=(6.6, 3.0))
    for language in LANGUAGES:
        learned = corpus(language)
        numbers[f"{language}_kept"] = len(learned.kept)
        runs = [usual(language, seed) for seed in range(SEEDS)]
        tests, longs = [[run.exact(part) for run in runs] for part in (learned.test, learned.long)]
        first = runs[0]
        found, gold = first.translate(learned.test), [pair.target for pair in learned.test]
        found_long, gold_long = first.translate(learned.long), [pair.target for pair in learned.long]
        numbers |= {
            f"{language}_minutes": statistics.fmean(run.seconds for run in runs) / 60,
            f"{language}_right": first.exact(learned.test),
            f"{language}_right_least": min(tests),
            f"{language}_right_most": max(tests),
            f"{language}_long": longs[0],
            f"{language}_long_least": min(longs),
            f"{language}_long_most": max(longs),
            f"{language}_loss": first.loss(learned.test),
            f"{language}_bleu": bleu(found, gold),
            f"{language}_long_bleu": bleu(found_long, gold_long),
            f"{language}_chrf": chrf(found, gold),
            f"{language}_long_chrf": chrf(found_long, gold_long),
            f"{language}_long_mean_bleu": statistics.fmean(
                bleu([one], [other]) for one, other in zip(found_long, gold_long, strict=True)
            ),
        }
        mistakes = [
            (pair, output)
            for pair, output in zip(learned.long, found_long, strict=True)
            if output != pair.target
        ]
        for i, (pair, output) in enumerate(mistakes[:4]):
            write = romanise if language == "hindi" else str
            numbers[f"{language}_slip_{i}_source"] = to_text(pair.source)
            numbers[f"{language}_slip_{i}_gold"] = write(to_text(pair.target))
            numbers[f"{language}_slip_{i}_said"] = write(to_text(output))
        shorter = [len(o) < len(p.target) for p, o in mistakes]
        numbers[f"{language}_slips_short"] = statistics.fmean(shorter)
        steps, losses, exact = zip(*first.history, strict=True)
        colour, style = COLOURS[language], "-" if language == "italian" else "--"
        panels[0].plot(steps, losses, style, color=colour, label=f"to {language.capitalize()}")
        panels[1].plot(steps, exact, style, color=colour, label=f"to {language.capitalize()}")
        lengths = sorted({len(pair.source) for pair in learned.test + learned.long})
        pairs = learned.test + learned.long
        shares = [
            statistics.fmean(
                run.exact([pair for pair in pairs if len(pair.source) == length]) for run in runs
            )
            for length in lengths
        ]
        bar.plot(lengths, shares, style, marker="o", color=colour, label=f"to {language.capitalize()}")
        for length, share in zip(lengths, shares, strict=True):
            numbers[f"{language}_length_{length}"] = share
    panels[0].set(xlabel="step", title="held-out loss per word", ylim=(0, None))
    panels[1].set(xlabel="step", title="without a mistake", ylim=(0, 1.03))
    for panel in panels:
        panel.grid(True)
        panel.legend(fontsize=9)
    save(figure, "week9-training")
    bar.axvline(LONGEST + 0.5, color=INK, lw=1, ls=":")
    bar.annotate("seen in training", (LONGEST + 0.4, 0.08), ha="right", fontsize=9)
    bar.annotate("longer", (LONGEST + 0.6, 0.08), fontsize=9)
    bar.set(xlabel="words of the English sentence", ylabel="without a mistake", ylim=(0, 1.03))
    bar.grid(True)
    bar.legend(fontsize=9)
    save(bars, "week9-length")
    return numbers


PARTS: dict[str, dict[str, float | bool]] = {
    "all of it": {},
    "no dropout": {"drop": 0.0},
    "no smoothing": {"smoothing": 0.0},
    "no warm-up": {"warm": False},
    "two matrices": {"shared": False},
}


def draw_parts() -> Numbers:
    """Leave one part of the recipe out at a time, and train for a shorter time."""
    numbers: Numbers = {"short": SHORT}
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.0), sharey=True)
    for row, (name, changed) in enumerate(PARTS.items()):
        learned = corpus("italian", shared=bool(changed.get("shared", True)))
        runs = [train(learned, steps=SHORT, seed=seed, **changed) for seed in (0, 1)]  # type: ignore[arg-type]
        key = name.replace(" ", "_").replace("-", "_")
        numbers |= confident(runs[0], key)
        for panel, part, title in zip(
            axes, (learned.test, learned.long), ("test", "long"), strict=True
        ):
            shares = [run.exact(part) for run in runs]
            panel.plot(shares, [row] * len(shares), "o", color=BLUE, alpha=0.7)
            panel.plot(statistics.fmean(shares), row, "|", color=RED, ms=16, mew=2)
            numbers[f"{key}_{title}"] = statistics.fmean(shares)
            numbers[f"{key}_{title}_least"], numbers[f"{key}_{title}_most"] = min(shares), max(shares)
    axes[0].set_yticks(range(len(PARTS)), PARTS)
    axes[0].invert_yaxis()
    axes[0].set(title="new sentences", xlabel="without a mistake")
    axes[1].set(title="longer ones", xlabel="without a mistake")
    for panel in axes:
        panel.grid(True, axis="x")
    save(figure, "week9-parts")
    return numbers


def draw_warm_up() -> Numbers:
    """Train for a short time at several rates, with warm-up and without, in both wirings."""
    learned = corpus("italian")
    factors = (1.0, 2.0, 4.0)
    numbers: Numbers = {}
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.0), sharey=True)
    for panel, norm_first in zip(axes, (True, False), strict=True):
        wiring = "pre" if norm_first else "post"
        for warm, colour, style in [(True, BLUE, "o-"), (False, RED, "s--")]:
            losses = []
            for factor in factors:
                run = train(learned, warm=warm, norm_first=norm_first, factor=factor, steps=WARMUP)
                losses.append(run.loss(learned.test[:500]))
                name = f"warm_{wiring}_{'with' if warm else 'without'}_{factor:g}"
                numbers[name.replace(".", "_")] = losses[-1]
            panel.plot(factors, losses, style, color=colour, label="warm-up" if warm else "none")
        panel.set(
            title=f"{wiring}-norm", xlabel="highest rate, times that of the formula", xscale="log"
        )
        panel.set_xticks(factors, [f"{factor:g}" for factor in factors])
        panel.minorticks_off()
        panel.grid(True)
    axes[0].set_ylabel(f"held-out loss after {WARMUP} steps")
    axes[1].legend(fontsize=9)
    save(figure, "week9-warm-up")
    return numbers


@torch.no_grad()
def confident(run: Trained, name: str) -> Numbers:
    """Ask a model how sure it is of what it says, behind the teacher, in long sentences."""
    source, target = run.corpus.batch(run.corpus.long)
    logits = run.model(source, shift_right(target, START))
    sure, said = logits.softmax(dim=-1).max(dim=-1)
    real, right = target != PAD, said == target
    return {
        f"sure_{name}": sure[real].mean().item(),
        f"sure_{name}_share": right[real].float().mean().item(),
        f"sure_{name}_wrong": sure[real & ~right].mean().item(),
    }


def forced() -> Numbers:
    """Compare what a half-trained model says behind a teacher with what it writes alone."""
    learned = corpus("italian")
    half = train(learned, steps=260)
    pairs = learned.test[:500]
    source, target = learned.batch(pairs)
    with torch.no_grad():
        said = half.model(source, shift_right(target, START)).argmax(dim=-1)
    alone = half.translate(pairs)
    best: tuple[int, Pair, list[str], list[str], int] | None = None
    wrong_forced = wrong_alone = words = 0
    for pair, row, own in zip(pairs, said.tolist(), alone, strict=True):
        gold = [*pair.target, "<end>"]
        guess = [learned.target.words[token] for token in row[: len(gold)]]
        written = [*own, "<end>"]
        slips = [i for i, (a, b) in enumerate(zip(guess, gold, strict=True)) if a != b]
        off = sum(a != b for a, b in itertools.zip_longest(written, gold))
        wrong_forced += len(slips)
        wrong_alone += off
        words += len(gold)
        early = len(slips) == 1 and 0 < slips[0] < len(gold) - 3
        like = len(written) == len(gold) <= 8
        if early and like and (best is None or off > best[4]):
            best = (slips[0], pair, guess, written, off)
    assert best is not None
    place, pair, guess, written, off = best
    numbers: Numbers = {
        "clipped_first": statistics.fmean(half.clipped[:100]),
        "clipped_last": statistics.fmean(half.clipped[-100:]),
        "forced_wrong": wrong_forced / words,
        "alone_wrong": wrong_alone / words,
        "forced_source": to_text(pair.source),
        "forced_place": place + 1,
        "forced_off": off,
        "forced_length": len(guess),
    }
    for i, (a, b, c) in enumerate(zip(guess, [*pair.target, "<end>"], written, strict=True)):
        numbers |= {f"forced_said_{i}": a, f"forced_gold_{i}": b, f"forced_alone_{i}": c}
    return numbers


def chrf(found: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> float:
    """Give the chrF of words that are written as one would."""
    texts = [to_text(words) for words in found], [[to_text(words) for words in gold]]
    score: float = sacrebleu.corpus_chrf(*texts).score
    return score


def scores() -> Numbers:
    """Change right translations a little, and see what BLEU and chrF say."""
    pairs = draw_pairs("italian", N_PAIRS)

    def without_not(words: list[str]) -> list[str]:
        return [word for word in words if word != "non"]

    def time_last(words: list[str]) -> list[str]:
        return [*words[2:], *words[:2]] if words[0] == "ogni" else words

    def other_ending(words: list[str]) -> list[str]:
        """Give the first red or white thing the other gender."""
        changed = list(words)
        for i, word in enumerate(words):
            if word in SWAPPED:
                changed[i] = SWAPPED[word]
                break
        return changed

    def shuffled(words: list[str]) -> list[str]:
        return random.Random(len(words)).sample(words, len(words))

    rng = random.Random(0)
    kinds = {
        noun.italian[many]: (noun.italian_gender, many) for noun in NOUNS for many in (False, True)
    }

    def other_last(words: list[str]) -> list[str]:
        """Put another noun of the same gender and number at the end."""
        if words[-1] not in kinds:
            return words
        like = [noun for noun in kinds if kinds[noun] == kinds[words[-1]] and noun != words[-1]]
        return [*words[:-1], rng.choice(like)]

    changes: dict[str, Callable[[list[str]], list[str]]] = {
        "not": without_not,
        "time": time_last,
        "ending": other_ending,
        "last": other_last,
        "shuffled": shuffled,
    }
    numbers: Numbers = {}
    for name, change in changes.items():
        both = [(change(list(pair.target)), list(pair.target)) for pair in pairs[:20_000]]
        found, touched = zip(*[(a, b) for a, b in both if a != b][:500], strict=True)
        assert abs(bleu(found, touched) - reference_bleu(found, touched)) < 1e-6
        numbers |= {
            f"score_{name}_bleu": bleu(found, touched),
            f"score_{name}_chrf": chrf(found, touched),
            f"score_{name}_gold": to_text(touched[0]),
            f"score_{name}_said": to_text(found[0]),
            f"score_{name}_n": len(touched),
        }
    # By hand: one sentence right, one with half of its words.
    texts = [REFERENCE, "a dog barks at the old horse", "a dog runs to the old house"]
    gold, said = [text.split() for text in texts[:2]], [text.split() for text in texts[::2]]
    box, few = [text.split() for text in ("the cat sits on the red box", "the cat sits on")]
    numbers |= {
        "two_together": bleu(said, gold),
        "two_first": bleu(said[:1], gold[:1]),
        "two_second": bleu(said[1:], gold[1:]),
        "hand": bleu([box], gold[:1]),
        "hand_short": bleu([few], gold[:1]),
    }
    return numbers


REFERENCE = "the cat sits on the red mat"
SWAPPED = {"rossa": "rosso", "rosso": "rossa", "bianca": "bianco", "bianco": "bianca"}


def reference_bleu(found: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> float:
    """Ask sacrebleu, about the same words."""
    texts = [" ".join(words) for words in found], [[" ".join(words) for words in gold]]
    score: float = sacrebleu.corpus_bleu(
        *texts, tokenize="none", smooth_method="none", force=True
    ).score
    return score


def drops() -> Numbers:
    """Check by many draws what dropout does to a mean, and what a whole model loses to it."""
    generator = torch.Generator().manual_seed(0)
    x = torch.tensor([1.0, -2.0, 3.0, 0.5]).expand(100_000, 4)
    dropped = dropout(x, 0.1, generator)
    share = 0.1 / len(corpus("italian").target)
    kept = 0.9 + share
    rest = len(corpus("italian").target) - 1
    return {
        "budget": BUDGET,
        "warmup": WARMUP,
        "smooth_floor": -kept * math.log(kept) - rest * share * math.log(share),
        "drop_mean": dropped[:, 2].mean().item(),
        "drop_zero": (dropped == 0).float().mean().item(),
    }


ALL: dict[str, Callable[[], Numbers]] = {
    "drops": drops,
    "batches": draw_batches,
    "rates": draw_rates,
    "decay": draw_decay,
    "start": first_loss,
    "heart": by_heart,
    "scores": scores,
    "forced": forced,
    "trained": draw_trained,
    "warm": draw_warm_up,
    "parts": draw_parts,
}


def main(names: list[str]) -> None:
    """Draw these parts, and keep the numbers of the others."""
    path = DRAWN / "week9.json"
    for name in names or ALL:
        numbers = ALL[name]()
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        save_numbers(9, kept | numbers)


if __name__ == "__main__":
    main(sys.argv[1:])
