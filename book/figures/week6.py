"""Figures and numbers of week 6: masks, the leak, teacher forcing, and the loss."""

from __future__ import annotations

import math
import random
import re
import time

import torch
from common import BLUE, GREEN, INK, ORANGE, RED, save, save_numbers
from matplotlib import pyplot as plt
from torch import Tensor, nn

from lab_transformer.decoder import CausalBlock
from lab_transformer.encoder import EncoderBlock
from lab_transformer.loss import sequence_loss, shift_right
from lab_transformer.masking import masked_softmax, padding_mask
from lab_transformer.positional import add_positions, sinusoidal_positions

torch.set_num_threads(1)

ARTICLES = ["the", "a"]
ADJECTIVES = ["small", "young", "black", "shy"]
NOUNS = ["cat", "dog", "bird", "fox", "horse"]
SEEING = ["sees", "likes", "follows", "hears"]  # verbs with an object
SLEEPING = ["sleeps", "sings", "runs", "waits"]  # verbs without
WORDS = ["<pad>", "<start>", "<end>", *ARTICLES, *ADJECTIVES, *NOUNS, *SEEING, *SLEEPING]
IDS = {word: number for number, word in enumerate(WORDS)}
PAD, START, END = 0, 1, 2
LONGEST = 8

_THING = f"({'|'.join(ARTICLES)})( ({'|'.join(ADJECTIVES)}))? ({'|'.join(NOUNS)})"
GRAMMAR = re.compile(f"{_THING} (({'|'.join(SLEEPING)})|({'|'.join(SEEING)}) {_THING}) <end>")


def sentence(rng: random.Random) -> list[str]:
    """Make one sentence of the toy language."""

    def thing() -> list[str]:
        adjective = [rng.choice(ADJECTIVES)] if rng.random() < 0.5 else []
        return [rng.choice(ARTICLES), *adjective, rng.choice(NOUNS)]

    rest = [rng.choice(SEEING), *thing()] if rng.random() < 0.5 else [rng.choice(SLEEPING)]
    return [*thing(), *rest, "<end>"]


def batch(rng: random.Random, number: int) -> Tensor:
    """Make sentences as token ids, filled up with padding."""
    sentences = [sentence(rng) for _ in range(number)]
    rows = [[IDS[word] for word in words] + [PAD] * (LONGEST - len(words)) for words in sentences]
    return torch.tensor(rows)


def lowest_loss() -> float:
    """Compute the entropy of the language per token: no honest model can stay below it."""
    thing = math.log(2) + math.log(2) + 0.5 * math.log(4) + math.log(5)
    return (1.5 * thing + math.log(2) + math.log(4)) / (1.5 * 2.5 + 1 + 1)


class Model(nn.Module):
    """Embedding, positions, one block, and a score for every word."""

    def __init__(self, kind: type[EncoderBlock] | type[CausalBlock]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), 32)
        nn.init.normal_(self.embedding.weight, std=32**-0.5)
        self.block = kind(32, 2, 128)
        self.output = nn.Linear(32, len(WORDS))
        self.positions = sinusoidal_positions(64, 32)

    def forward(self, tokens: Tensor) -> Tensor:
        """Score the next word at every position."""
        x = add_positions(self.embedding(tokens), self.positions[: tokens.shape[1]])
        result: Tensor = self.output(self.block(x, padding_mask(tokens, PAD)))
        return result


def train(model: Model, steps: int = 200, shuffled: bool = False, seed: int = 0) -> list[float]:
    """Train with teacher forcing; return the losses."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(steps):
        target = batch(rng, 64)
        inputs = shift_right(target, START)
        if shuffled:
            target = target.clone()
            real = target != PAD
            words = target[real]
            target[real] = words[torch.randperm(len(words))]
        loss = sequence_loss(model(inputs), target, PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def write(model: Model, number: int) -> list[str]:
    """Let the model write sentences, word by word."""
    torch.manual_seed(0)
    tokens = torch.full((number, 1), START)
    for _ in range(LONGEST):
        chances = model(tokens)[:, -1].softmax(dim=-1)
        tokens = torch.cat([tokens, chances.multinomial(1)], dim=1)
    texts = [" ".join(WORDS[token] for token in row) for row in tokens[:, 1:].tolist()]
    return [text[: text.index("<end>") + 5] if "<end>" in text else text for text in texts]


def different(texts: list[str]) -> int:
    """Count the different correct sentences."""
    return len({text for text in texts if GRAMMAR.fullmatch(text)})


@torch.no_grad()
def loss_alone(model: Model) -> float:
    """Give the loss when later words are not there yet, as when writing: a pass for every prefix."""
    target = batch(random.Random(1), 500)
    inputs = shift_right(target, START)
    last = [model(inputs[:, : t + 1])[:, -1:] for t in range(LONGEST)]
    return sequence_loss(torch.cat(last, dim=1), target, PAD).item()


def mean(losses: list[float]) -> float:
    """Average the last steps."""
    return sum(losses[-20:]) / 20


def leak() -> tuple[Model, dict[str, float | int | str]]:
    """Train the same model with and without the causal mask, and let both write."""
    torch.manual_seed(0)
    leaky = Model(EncoderBlock)
    torch.manual_seed(0)
    causal = Model(CausalBlock)
    curves = {"no causal mask": train(leaky), "causal mask": train(causal)}
    floor = lowest_loss()
    texts = {"leaky": write(leaky, 500), "causal": write(causal, 500)}
    leaks = [leaky]
    for seed in range(1, 5):
        torch.manual_seed(seed)
        leaks.append(Model(EncoderBlock))
        train(leaks[-1], seed=seed)

    figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.1), width_ratios=[3, 1.4])
    for (name, losses), colour, style in zip(curves.items(), (RED, BLUE), ("--", "-"), strict=True):
        left.plot(losses, style, color=colour, label=name)
    left.axhline(floor, color=INK, lw=1, ls=":", label="lowest honest loss")
    left.set(xlabel="training step", ylabel="loss per word", ylim=(0, 3.2))
    left.grid(True)
    left.legend()
    counts = [different(written) for written in texts.values()]
    right.bar(["no mask", "mask"], counts, color=[RED, BLUE], width=0.6)
    right.set(title="different correct sentences", ylim=(0, 500))
    save(figure, "week6-leak")

    probe = torch.tensor(
        [[IDS[word] for word in ["the", "black", "cat", "sees", "a", "bird", "<end>"]]]
    )
    tokens = shift_right(probe, START)
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.6))
    for ax, model, title in ((axes[0], leaky, "no causal mask"), (axes[1], causal, "causal mask")):
        with torch.no_grad():
            x = model.block.norm_1(add_positions(model.embedding(tokens), model.positions[:7]))
            mask = None if model is leaky else causal_mask(7)
            weights = model.block.attention(x, x, x, mask)[1][0].mean(dim=0)
        ax.imshow(weights, vmin=0, vmax=1)
        names = [WORDS[token] for token in tokens[0].tolist()]
        ax.set_xticks(range(7), names, rotation=60, ha="right")
        ax.set_yticks(range(7), names)
        ax.set_title(title)
        ax.spines[:].set_visible(False)
    axes[0].set_ylabel("word that looks")
    figure.supxlabel("word that is looked at", fontsize=10)
    save(figure, "week6-leak-weights")
    with torch.no_grad():
        x = leaky.block.norm_1(add_positions(leaky.embedding(tokens), leaky.positions[:7]))
        ahead = leaky.block.attention(x, x, x)[1][0].mean(dim=0).diagonal(1).mean().item()
        nothing = causal.output(causal.embedding(torch.empty(1, 0, dtype=torch.long)))
        first = causal(torch.tensor([[START]])).softmax(dim=-1)[0, 0]

    torch.manual_seed(0)
    blind = Model(CausalBlock)
    often = torch.bincount(batch(random.Random(1), 4000).flatten(), minlength=len(WORDS))[1:].double()
    shares = often[often > 0] / often.sum()
    thousand = batch(random.Random(2), 1000)
    return causal, {
        "floor": floor,
        "leaky_loss": mean(curves["no causal mask"]),
        "causal_loss": mean(curves["causal mask"]),
        "causal_share": sum(bool(GRAMMAR.fullmatch(text)) for text in texts["causal"]) / 5,
        "causal_different": different(texts["causal"]),
        "leaky_different": different(texts["leaky"]),
        "leaky_different_most": max(different(write(one, 500)) for one in leaks),
        "leaky_alone_least": min(map(loss_alone, leaks)),
        "guessing": math.log(20),
        **{f"leaky_text_{i}": texts["leaky"][i] for i in range(4)},
        **{f"causal_text_{i}": texts["causal"][i] for i in range(4)},
        "ahead": ahead,
        "nothing_positions": nothing.shape[1],
        "first_the": first[IDS["the"]].item(),
        "first_a": first[IDS["a"]].item(),
        "first_other": 1 - first[IDS["the"]].item() - first[IDS["a"]].item(),
        "shuffled_loss": mean(train(blind, 150, shuffled=True)),
        "unigram": -(shares * shares.log()).sum().item(),
        "labels": int((thousand != PAD).sum()),
    }


def triangle() -> dict[str, float]:
    """Ask the gradient which inputs each output depends on."""
    figure, axes = plt.subplots(1, 2, figsize=(6.4, 3.2))
    above = {}
    for ax, kind, title in (
        (axes[0], EncoderBlock, "encoder block"),
        (axes[1], CausalBlock, "causal block"),
    ):
        torch.manual_seed(0)
        block = kind(32, 4, 128)
        x = torch.randn(1, 8, 32, requires_grad=True)
        y = block(x)
        rows = [
            torch.autograd.grad(y[0, t].square().sum(), x, retain_graph=True)[0][0] for t in range(8)
        ]
        norms = torch.stack(rows).norm(dim=-1)
        above[title] = norms.triu(1).max().item()
        # The word itself comes through the residual path too: a common scale would hide the others.
        shown = norms / norms.max(dim=1, keepdim=True).values
        ax.imshow(shown.masked_fill(norms == 0, math.nan).sqrt(), vmin=0, vmax=1)
        ax.set(title=title, xlabel="input", xticks=range(8), yticks=range(8))
        ax.set_xticklabels(range(1, 9))
        ax.set_yticklabels(range(1, 9))
    axes[0].set_ylabel("output")
    save(figure, "week6-gradient-triangle")
    torch.manual_seed(0)
    causal, free = CausalBlock(32, 4, 128), EncoderBlock(32, 4, 128)
    free.load_state_dict(causal.state_dict())
    x = torch.randn(2, 8, 32)
    with torch.no_grad():
        gap = (causal(x) - free(x, causal_mask(8))).abs().max().item()
    return {
        "above_encoder": above["encoder block"],
        "above_causal": above["causal block"],
        "block_gap": gap,
    }


def parallel(model: Model) -> dict[str, float]:
    """Train one step on all positions at once, and on one prefix after another."""

    def at_once(target: Tensor) -> Tensor:
        return sequence_loss(model(shift_right(target, START)), target, PAD)

    def by_steps(target: Tensor) -> Tensor:
        inputs = shift_right(target, START)
        losses = [
            sequence_loss(model(inputs[:, : t + 1])[:, -1:], target[:, t : t + 1], PAD)
            for t in range(target.shape[1])
        ]
        return torch.stack(losses).mean()

    def gradient(loss: Tensor) -> Tensor:
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])

    def seconds(loss, target: Tensor) -> float:
        best = math.inf
        for _ in range(5):
            start = time.perf_counter()
            gradient(loss(target))
            best = min(best, time.perf_counter() - start)
        return best

    lengths = (4, 8, 16, 32, 64)
    torch.manual_seed(0)
    targets = {n: torch.randint(2, len(WORDS), (8, n)) for n in lengths}
    fast = [seconds(at_once, targets[n]) for n in lengths]
    slow = [seconds(by_steps, targets[n]) for n in lengths]
    figure, ax = plt.subplots(figsize=(6.0, 3.1))
    ax.loglog(lengths, [1000 * s for s in slow], "s--", color=RED, label="word by word")
    ax.loglog(lengths, [1000 * s for s in fast], "o-", color=BLUE, label="all positions at once")
    ax.set_xticks(lengths, lengths)
    ax.minorticks_off()
    ax.set(xlabel="length of the target", ylabel="one training step (ms)")
    ax.grid(True)
    ax.legend()
    save(figure, "week6-teacher-forcing-time")
    together, apart = gradient(at_once(targets[16])), gradient(by_steps(targets[16]))
    return {
        "time_ratio_short": round(slow[1] / fast[1]),
        "time_ratio_long": round(slow[-1] / fast[-1], -1),
        "forcing_gap": ((together - apart).norm() / together.norm()).item(),
    }


def losses() -> dict[str, float]:
    """Draw what label smoothing rewards, and compute the worked examples."""
    confidence = torch.linspace(0.21, 0.9999, 400, dtype=torch.float64)
    rest = ((1 - confidence) / 4)[:, None].expand(-1, 4)
    logits = torch.cat([confidence[:, None], rest], dim=1).log()
    figure, ax = plt.subplots(figsize=(6.0, 3.1))
    for share, colour, style in ((0.0, BLUE, "-"), (0.1, ORANGE, "--"), (0.4, GREEN, "-.")):
        values = torch.stack(
            [sequence_loss(row[None], torch.tensor([0]), PAD - 1, share) for row in logits]
        )
        ax.plot(confidence, values, style, color=colour, label=f"smoothing {share:g}")
        if share:
            lowest = int(values.argmin())
            ax.plot(confidence[lowest], values[lowest], "o", color=colour)
    ax.set(xlabel="probability of the right word, of five", ylabel="loss", ylim=(0, 2.5))
    ax.grid(True)
    ax.legend()
    save(figure, "week6-label-smoothing")

    scores = torch.tensor([[2.0, 1.0, 3.0]])
    allowed = torch.tensor([[True, True, False]])
    late = (scores.softmax(dim=-1) * allowed)[0]
    weights = masked_softmax(scores, allowed)[0]
    filled = scores.masked_fill(torch.ones_like(allowed), -1e9).softmax(dim=-1)[0]
    targets = torch.tensor([[2, 3, 4, 1] + [PAD] * 12])
    know_nothing = torch.zeros(1, 16, 5)
    know_nothing[:, 4:, PAD] = 50.0
    best = torch.tensor([[0.92, 0.02, 0.02, 0.02, 0.02]], dtype=torch.float64).log()
    return {
        **{f"late_{i}": late[i].item() for i in range(2)},
        "late_sum": late.sum().item(),
        **{f"weight_{i}": weights[i].item() for i in range(3)},
        "filled": filled[0].item(),
        "loss_words": sequence_loss(know_nothing, targets, PAD).item(),
        "loss_pads": sequence_loss(know_nothing, targets, -100).item(),
        "smooth_best": sequence_loss(best, torch.tensor([0]), -100, 0.1).item(),
    }


def main() -> None:
    """Draw everything."""
    causal, numbers = leak()
    save_numbers(6, {**numbers, **triangle(), **parallel(causal), **losses()})


if __name__ == "__main__":
    main()
