"""Trains the GPT of week 10 and draws what it and its tokenizer do.

`python book/figures/week10.py train` makes the long run anew and stores its weights; without the word
the stored ones are used. Other words name the parts to draw, all unless some are named.
"""

from __future__ import annotations

import copy
import inspect
import json
import math
import statistics
import sys
import textwrap
import time
from collections.abc import Callable
from pydoc_data.topics import topics

import torch
from common import BLUE, DRAWN, GREEN, ORANGE, RED, plt, save, save_numbers
from torch import Tensor, nn
from torch.nn import functional as F

from lab_transformer.corpus import draw_pairs, to_text
from lab_transformer.generation import generate
from lab_transformer.gpt import GPT
from lab_transformer.language import NGram, bigram_model, next_token_batch
from lab_transformer.lora import add_lora, trainable
from lab_transformer.reference import (
    HELD_OUT,
    PLANTED,
    passages,
    planted,
    planted_codes,
    reference_gpt,
    reference_text,
    save_gpt,
)
from lab_transformer.tokenizer import decode, encode, train_bpe

Numbers = dict[str, float | int | str]
Pair = tuple[int, int]

VOCAB, CONTEXT, HEADS = 1024, 128, 4
TRAINED = DRAWN / "week10-run.json"


# The long run --------------------------------------------------------------------------------------


def drop_out(model: GPT, rate: float) -> list[torch.utils.hooks.RemovableHandle]:
    """Let dropout stand where the paper has it: after the embeddings, and after every sublayer."""

    def dropped(module: nn.Module, _: object, output: Tensor) -> Tensor:
        return F.dropout(output, rate, module.training)

    hooks = []
    for block in model.blocks:
        hooks.append(block.attention.w_o.register_forward_hook(dropped))
        hooks.append(block.feed_forward.w_2.register_forward_hook(dropped))
    hooks.append(
        model.blocks.register_forward_pre_hook(
            lambda module, given: (F.dropout(given[0], rate, module.training),)
        )
    )
    return hooks


def optimizers_for(
    model: nn.Module, rate: float, muon: float, decay: float
) -> list[torch.optim.Optimizer]:
    """Make an AdamW, and where `muon` is a rate a Muon for the matrices of the blocks.

    Muon makes the update of a matrix orthogonal, so that no direction in it is neglected. Embeddings,
    biases and gains are no maps from vectors to vectors: they are left to AdamW, without decay.
    """
    named = {name: one for name, one in model.named_parameters() if one.requires_grad}
    inner = [name for name, one in named.items() if one.ndim > 1 and "embedding" not in name]
    outer = [one for name, one in named.items() if name not in inner]
    matrices = [named[name] for name in inner]
    groups = [{"params": outer, "weight_decay": 0.0}]
    made: list[torch.optim.Optimizer] = []
    if muon:
        made.append(torch.optim.Muon(matrices, lr=muon, weight_decay=decay))
    else:
        groups.append({"params": matrices, "weight_decay": decay})
    made.append(torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.99)))
    for optimizer in made:
        for group in optimizer.param_groups:
            group["most"] = group["lr"]
    return made


@torch.no_grad()
def losses_of(model: GPT, tokens: Tensor) -> Tensor:
    """Give the loss of each token but the first, in nats, with at least half a context before it."""
    model.eval()
    size = model.max_length
    found = []
    for start in range(0, max(1, len(tokens) - 1 - size // 2), size // 2):
        piece = tokens[start : start + size + 1]
        loss = F.cross_entropy(model(piece[None, :-1])[0], piece[1:], reduction="none")
        found.append(loss if start == 0 else loss[size // 2 :])
    return torch.cat(found)


def bits(losses: Tensor, n_bytes: int) -> float:
    """Turn losses in nats into bits per byte."""
    return float(losses.sum()) / math.log(2) / n_bytes


def train(
    model: GPT,
    tokens: Tensor,
    steps: int,
    batch: int,
    rate: float,
    warmup: int,
    muon: float = 0.0,
    decay: float = 0.1,
    dropout: float = 0.0,
    seed: int = 0,
    at: dict[int, object] | None = None,
) -> dict[int, object]:
    """Train, and call what `at` holds for a step after that many steps; gives what the calls gave."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    hooks = drop_out(model, dropout) if dropout else []
    optimizers = optimizers_for(model, rate, muon, decay)
    noted: dict[int, object] = {}
    for step in range(steps + 1):
        if at and step in at:
            noted[step] = at[step]()  # type: ignore[operator]
        if step == steps:
            break
        share = min((step + 1) / warmup, (steps - step) / (steps - warmup))
        model.train()
        inputs, targets = next_token_batch(tokens, batch, model.max_length, generator)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = share * group["most"]
            optimizer.step()
    for hook in hooks:
        hook.remove()
    model.eval()
    return noted


STEPS, BATCH, WARMUP = 2400, 8, 40
RATE, MUON, DECAY, DROPOUT = 3e-3, 0.02, 0.1, 0.2


def long_run() -> None:
    """Train the GPT for about four minutes on two cores, and store it with what was seen on the way."""
    training, held_out = reference_text()
    text = planted(training)
    merges = train_bpe(text, VOCAB)
    tokens, test = torch.tensor(encode(text, merges)), torch.tensor(encode(held_out, merges))
    torch.manual_seed(0)
    model = GPT(VOCAB, 4, 128, HEADS, CONTEXT)
    n_bytes = len(held_out.encode())
    prompt = encode("The value of", merges)

    def look() -> dict[str, float | str]:
        draw = torch.Generator().manual_seed(0)
        written = generate(model.eval(), prompt, 60, temperature=0.8, top_p=0.95, generator=draw)
        seen = losses_of(model, tokens[:4000])
        part = decode(tokens[1:4000].tolist(), merges)
        row = {
            "held_out": bits(losses_of(model, test), n_bytes),
            "training": bits(seen, len(part.encode())),
            "text": decode(written, merges),
            "seconds": time.process_time() - begin,
        }
        print(f"{row['seconds']:.0f} s: {row['held_out']:.3f}, {row['training']:.3f}", flush=True)
        return row

    begin = time.process_time()
    moments = [0, 10, 30, 100, 300, 1000, 1700, STEPS]
    rows = train(model, tokens, STEPS, BATCH, RATE, WARMUP, MUON, DECAY, DROPOUT,
                 at=dict.fromkeys(moments, look))  # fmt: skip
    save_gpt(model, HEADS, merges)
    TRAINED.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


# The tokenizer ---------------------------------------------------------------------------------------


def sentences(count: int = 1000) -> dict[str, str]:
    """Give the same sentences in three languages."""
    italian, hindi = (draw_pairs(language, count) for language in ("italian", "hindi"))
    return {
        "English": "\n".join(to_text(pair.source) for pair in italian),
        "Italian": "\n".join(to_text(pair.target) for pair in italian),
        "Hindi": "\n".join(to_text(pair.target) for pair in hindi),
    }


def draw_prices(merges: list[Pair]) -> Numbers:
    """Draw the tokens of a word in several languages, with two vocabularies; store both."""
    texts = sentences()
    mixed = train_bpe("\n".join(texts.values()), VOCAB)
    vocabularies = {"reference": merges, "mixed": mixed}
    path = DRAWN / "tokenizer.json"
    path.write_text(json.dumps(vocabularies, separators=(",", ":")) + "\n", encoding="utf-8")
    shown = texts | {"code": inspect.getsource(textwrap)}
    numbers: Numbers = {}
    for kind, learned in vocabularies.items():
        counts = {name: len(encode(text, learned)) for name, text in shown.items()}
        for name, text in shown.items():
            numbers[f"{kind}_{name.lower()}_each"] = counts[name] / len(text.split())
            numbers[f"{kind}_{name.lower()}_times"] = counts[name] / counts["English"]
    figure, axes = plt.subplots(figsize=(7.0, 3.0))
    names = {
        "reference": "learned from Python's reference",
        "mixed": "learned from the three languages",
    }
    for place, (kind, colour) in enumerate(zip(vocabularies, (BLUE, ORANGE), strict=True)):
        heights = [numbers[f"{kind}_{name.lower()}_each"] for name in shown]
        at = [number + 0.36 * (place - 0.5) for number in range(len(shown))]
        bars = axes.bar(at, heights, 0.34, color=colour, label=names[kind])
        axes.bar_label(bars, fmt="%.1f", padding=2)
    axes.set_xticks(range(len(shown)), shown)
    axes.set(ylabel="tokens for a word")
    axes.legend(loc="upper left")
    save(figure, "week10-price")
    for place in range(8):
        merged = decode([256 + place], merges)
        numbers[f"merge_{place}"] = merged.replace(" ", "␣").replace("-", "\N{HYPHEN}")
    return numbers


# What was learned ------------------------------------------------------------------------------------


def measure_bars(model: GPT, merges: list[Pair]) -> Numbers:
    """Measure the trained GPT beside what counting gives, on clean and on leaking text."""
    numbers: Numbers = {}
    training, held_out = reference_text()
    n_bytes = len(held_out.encode())
    tokens, test = torch.tensor(encode(training, merges)), torch.tensor(encode(held_out, merges))
    raw, raw_test = torch.tensor(list(training.encode())), torch.tensor(list(held_out.encode()))
    for name, one, other, size in [("bytes", raw, raw_test, 256), ("tokens", tokens, test, VOCAB)]:
        best = min(
            (bits(-bigram_model(one, size, smoothing)[other[:-1], other[1:]].log(), n_bytes), smoothing)
            for smoothing in (0.003, 0.01, 0.02, 0.05, 0.1)
        )
        numbers[f"bigram_{name}"], numbers[f"bigram_{name}_smoothing"] = best
        numbers[f"perplexity_{name}"] = 2 ** (best[0] * n_bytes / (len(other) - 1))
    grams = {n: NGram(tokens, VOCAB, n).losses(test) for n in (2, 3, 4, 5)}
    numbers |= {f"gram_{n}": bits(losses, n_bytes) for n, losses in grams.items()}
    gpt = losses_of(model, test)
    numbers["gpt"] = bits(gpt, n_bytes)
    numbers["gpt_perplexity"] = math.exp(gpt.mean())
    numbers["parameters"] = sum(one.numel() for one in model.parameters())
    numbers["training_tokens"], numbers["training_bytes"] = len(tokens), len(training.encode())
    numbers["held_out_bytes"], numbers["bytes_for_token"] = n_bytes, n_bytes / len(test)
    counted = grams[3][1:]
    numbers["gpt_ahead"] = min(float(numbers[f"gram_{n}"]) for n in grams) - float(numbers["gpt"])
    mixture = -(0.5 * (-gpt).exp() + 0.5 * (-counted).exp()).log()
    numbers["mixture"] = bits(mixture, n_bytes)
    numbers["gpt_wins"] = 100 * float((gpt < counted).float().mean())
    careless, again = reference_text(clean=False)
    leaking = torch.tensor(encode(careless, merges))
    other = torch.tensor(encode(again, merges))
    for n in (2, 3, 4, 5):
        numbers[f"leak_{n}"] = bits(NGram(leaking, VOCAB, n).losses(other), len(again.encode()))
    known = {" ".join(one.split()) for one in passages(topics.keys() - HELD_OUT)}
    parts = [" ".join(one.split()) for one in passages(HELD_OUT)]
    twice = sum(len(one) for one in parts if one in known)
    numbers["leak_percent"] = 100 * twice / sum(map(len, parts))
    # The same passage twice in one context: what is surprising the second time?
    losses = []
    for start in range(0, len(test) - 60, 300):
        piece = test[start : start + 60]
        losses.append(losses_of_row(model, torch.cat([piece, piece])))
    both = torch.stack(losses).mean(dim=0)
    # Bytes in the middle of a passage, where both have something before them.
    for name, part in (("first", both[20:59]), ("second", both[80:119])):
        numbers[f"again_{name}"] = float(part.mean()) / math.log(2) / float(numbers["bytes_for_token"])
    return numbers


@torch.no_grad()
def losses_of_row(model: GPT, row: Tensor) -> Tensor:
    """Give the losses of all tokens of a row but the first."""
    return F.cross_entropy(model(row[None, :-1])[0], row[1:], reduction="none")


def draw_run(numbers: Numbers) -> Numbers:
    """Draw the long run, with the bars that counting sets."""
    rows = {int(step): row for step, row in json.loads(TRAINED.read_text(encoding="utf-8")).items()}
    steps = [step for step in rows if step]
    figure, axes = plt.subplots(figsize=(7.0, 3.4))
    axes.plot(
        steps, [rows[step]["held_out"] for step in steps], "o-", color=BLUE, label="GPT, held out"
    )
    bars = [("bigram_bytes", "bigram on bytes", RED), ("bigram_tokens", "bigram on tokens", ORANGE),
            ("gram_3", "trigram with back-off", GREEN)]  # fmt: skip
    for name, label, colour in bars:
        axes.axhline(float(numbers[name]), color=colour, linestyle="--", linewidth=1.4)
        axes.text(10, float(numbers[name]) + 0.02, label, color=colour, va="bottom", fontsize=9)
    axes.set(xscale="log", xlabel="steps", ylabel="bits per byte")
    axes.grid(axis="y")
    axes.legend(loc="upper right")
    save(figure, "week10-run")
    found: Numbers = {"seconds": rows[steps[-1]]["seconds"], "steps": steps[-1]}
    found["run_tokens"] = steps[-1] * BATCH * CONTEXT
    found["epochs"] = float(found["run_tokens"]) / float(numbers["training_tokens"])
    found["minutes"], found["dropout"] = float(found["seconds"]) / 60, DROPOUT
    for step in (10, 100, 1000, steps[-1]):
        found[f"text_{step if step != steps[-1] else 'end'}"] = spelled(rows[step]["text"])
    return found


def spelled(text: str) -> str:
    """Write a sample on one line; its hyphens are none of a number's minus signs."""
    return " ".join(text.split()).replace("-", "\N{HYPHEN}")[:170]


def measure_memory(model: GPT, merges: list[Pair]) -> Numbers:
    """Measure how much of the planted codes the model has by heart, by how often they were told."""
    found: dict[int, list[tuple[float, bool]]] = {}
    codes = planted_codes()
    for door, times in PLANTED.items():
        asked = encode(f"The code of the {door} door is", merges)
        whole = encode(f"The code of the {door} door is {codes[door]}.", merges)
        losses = losses_of_row(model, torch.tensor(whole))[len(asked) - 1 : -1]
        said = decode(generate(model, asked, 8, top_k=1), merges)
        found.setdefault(times, []).append((float(losses.sum()) / math.log(2), codes[door] in said))
    numbers: Numbers = {}
    for times, rows in found.items():
        numbers[f"secret_bits_{times}"] = statistics.mean(cost for cost, _ in rows)
        numbers[f"secret_known_{times}"] = sum(known for _, known in rows)
    return numbers | {"secret_chance": math.log2(90_000)}


# Size and data ---------------------------------------------------------------------------------------


def draw_sizes(merges: list[Pair]) -> Numbers:
    """Draw the loss against the number of parameters, with a fit, and against the amount of text."""
    training, held_out = reference_text()
    n_bytes = len(held_out.encode())
    tokens, test = torch.tensor(encode(training, merges)), torch.tensor(encode(held_out, merges))

    def trained(width: int, share: float = 1.0, steps: int = 400) -> tuple[int, float, float]:
        torch.manual_seed(0)
        model = GPT(VOCAB, 2, width, 2, 64)
        some = tokens[: int(share * len(tokens))]
        train(model, some, steps, 8, 4e-3, 40, MUON, DECAY)
        count = sum(one.numel() for one in model.parameters())
        seen = losses_of(model, some[:4000])
        part = len(decode(some[1:4000].tolist(), merges).encode())
        return count, bits(losses_of(model, test), n_bytes), bits(seen, part)

    rows = [trained(width) for width in (4, 8, 16, 32, 64, 128, 256)]
    counts, losses = [row[0] for row in rows], [row[1] for row in rows]
    few = 4  # the fit sees only these
    xs, ys = [math.log(count) for count in counts[:few]], [math.log(loss) for loss in losses[:few]]
    slope = statistics.linear_regression(xs, ys)
    guesses = [math.exp(slope.intercept + slope.slope * math.log(count)) for count in counts]
    shares = [1 / 64, 1 / 16, 1 / 4, 1.0]
    less = [trained(64, share) for share in shares]
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.2))
    left.plot(counts, losses, "o", color=BLUE, label="measured")
    left.plot(counts[:few], guesses[:few], "-", color=ORANGE, label="fit to the four smallest")
    left.plot(counts[few - 1 :], guesses[few - 1 :], ":", color=ORANGE, label="the fit, continued")
    left.set(xscale="log", yscale="log", xlabel="parameters", ylabel="bits per byte, held out")
    ticks = [1.5, 2.0, 2.5, 3.0, 3.5]
    left.set_yticks(ticks, map(str, ticks))
    left.minorticks_off()
    left.legend(fontsize=9, loc="lower left")
    size = [share * len(training) / 1000 for share in shares]
    right.plot(size, [row[1] for row in less], "o-", color=BLUE, label="held out")
    right.plot(size, [row[2] for row in less], "s--", color=GREEN, label="seen in training")
    right.set(xscale="log", xlabel="kilobytes of text", ylabel="bits per byte", ylim=(0, None))
    right.set_xticks(size, [f"{one:.0f}" for one in size])
    right.minorticks_off()
    right.legend(fontsize=9)
    save(figure, "week10-size")
    numbers: Numbers = {"power": -slope.slope, "guess_last": guesses[-1], "size_tokens": 400 * 8 * 64}
    for place, (count, loss, _) in enumerate(rows):
        numbers[f"size_{place}"], numbers[f"size_loss_{place}"] = count, loss
    for place, (_, loss, seen) in enumerate(less):
        numbers[f"less_{place}"], numbers[f"less_seen_{place}"] = loss, seen
    return numbers


# A head that copies ----------------------------------------------------------------------------------

LETTERS, LONG = 12, 32
COPY_STEPS = 900


def ruled(rows: int, draw: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw rows, each by a rule of its own of what follows what; tell where it has been seen."""
    rule = torch.rand(rows, LETTERS, generator=draw).argsort(dim=1)
    text = [torch.randint(LETTERS, (rows, 1), generator=draw)]
    known, seen = torch.zeros(rows, LETTERS, dtype=torch.bool), []
    for _ in range(LONG):
        now = text[-1]
        other = torch.randint(LETTERS, (rows, 1), generator=draw)
        jumps = torch.rand(rows, 1, generator=draw) < 0.1
        text.append(torch.where(jumps, other, rule.gather(1, now)))
        before = known.gather(1, now)
        seen.append(before & ~jumps)
        known.scatter_(1, now, before | ~jumps)
    whole = torch.cat(text, dim=1)
    return whole[:, :-1], whole[:, 1:], torch.cat(seen, dim=1)


def learn_to_copy(n_layers: int, seed: int) -> tuple[GPT, list[float]]:
    """Train on such rows; give the model and its share of right copies on the way."""
    torch.manual_seed(seed)
    draw = torch.Generator().manual_seed(seed)
    model = GPT(LETTERS, n_layers, 48, n_heads=2, max_length=LONG)
    for embedding in (model.token_embedding, model.position_embedding):
        nn.init.normal_(embedding.weight, std=0.1)
    optimizers = optimizers_for(model, 5e-3, 0.02, 0.01)
    right = []
    for step in range(COPY_STEPS + 1):
        if step % 50 == 0:
            inputs, targets, seen = ruled(200, torch.Generator().manual_seed(99))
            with torch.no_grad():
                hit = model(inputs).argmax(dim=-1) == targets
            right.append(float(hit[seen].float().mean()))
        inputs, targets, _ = ruled(32, draw)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        model.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["most"] * min((step + 1) / 50, 1 - step / (COPY_STEPS + 1))
            optimizer.step()
    return model, right


def heads_of(model: GPT, tokens: Tensor) -> Tensor:
    """Give the weights of all heads, as (batch, layers, heads, query, key)."""
    found: list[Tensor] = []
    hooks = [
        block.attention.register_forward_hook(lambda _, __, output: found.append(output[1].detach()))
        for block in model.blocks
    ]
    with torch.no_grad():
        model(tokens)
    for hook in hooks:
        hook.remove()
    return torch.stack(found, dim=1)


def draw_copying() -> Numbers:
    """Draw how one and two layers learn to copy, and the two heads that do it."""
    runs = {layers: [learn_to_copy(layers, seed) for seed in range(3)] for layers in (1, 2)}
    figure, (curves, first, second) = plt.subplots(1, 3, figsize=(7.8, 2.9))
    for layers, colour in ((1, ORANGE), (2, BLUE)):
        for place, (_, right) in enumerate(runs[layers]):
            label = f"{layers} layer{'s' * (layers > 1)}" if place == 0 else None
            at = range(0, COPY_STEPS + 1, 50)
            curves.plot(at, right, color=colour, label=label, linewidth=1.5)
    curves.set(xlabel="steps", ylabel="right copies", ylim=(0, 1.02))
    curves.legend(fontsize=9)
    rows, _, _ = ruled(200, torch.Generator().manual_seed(1))
    weights = heads_of(runs[2][0][0], rows)
    later = torch.arange(1, LONG)
    back = weights[:, 0, :, later, later - 1].mean(dim=(0, 2))
    # The places whose letter before is the letter at hand.
    behind = torch.zeros(len(rows), LONG, LONG)
    behind[:, :, 1:] = (rows[:, :, None] == rows[:, None, :-1]).float()
    behind = behind.tril()
    on_them = (weights[:, 1] * behind[:, None]).sum(dim=-1)
    copies = on_them.transpose(1, 2)[behind.any(dim=-1)].mean(dim=0)
    names = ["abcdefghijkl"[letter] for letter in rows[0]]
    for panel, head, title in [
        (first, weights[0, 0, back.argmax()], "layer 1"),
        (second, weights[0, 1, copies.argmax()], "layer 2"),
    ]:
        panel.imshow(head, vmin=0, vmax=1)
        panel.set(title=title, xlabel="looked at", ylabel="looks")
        panel.set_xticks(range(LONG), names, fontsize=5)
        panel.set_yticks(range(LONG), names, fontsize=5)
    save(figure, "week10-copy")
    numbers: Numbers = {"copy_before": 100 * float(back.max()), "copy_after": 100 * float(copies.max())}
    for layers, found in runs.items():
        last = [right[-1] for _, right in found]
        numbers[f"copy_{layers}_low"] = 100 * min(last)
        numbers[f"copy_{layers}_high"] = 100 * max(last)
    return numbers


# Fine-tuning -----------------------------------------------------------------------------------------


def draw_forgetting(model: GPT, merges: list[Pair]) -> Numbers:
    """Draw what is learned of Italian, and what is forgotten of English, with all weights and LoRA."""
    lines = [to_text(pair.target) for pair in draw_pairs("italian", 3000)]
    italian = torch.tensor(encode("\n".join(lines[:2700]), merges))
    rest = "\n".join(lines[2700:])
    new = torch.tensor(encode(rest, merges))
    _, held_out = reference_text()
    old = torch.tensor(encode(held_out, merges))[:6000]
    old_bytes = len(decode(old[1:].tolist(), merges).encode())
    moments = [0, 5, 10, 20, 40, 80, 160]
    names = ("w_q", "w_k", "w_v", "w_o", "w_1", "w_2")
    runs: dict[str, dict[int, tuple[float, float]]] = {}
    numbers: Numbers = {}
    for name in ("all weights", "LoRA"):
        one = copy.deepcopy(model)
        if name == "LoRA":
            one = add_lora(one, 4, 8.0, torch.Generator().manual_seed(0), names)
            numbers["lora_parameters"] = sum(part.numel() for part in trainable(one).values())

        def look(one: GPT = one) -> tuple[float, float]:
            english = bits(losses_of(one, old), old_bytes)
            return bits(losses_of(one, new), len(rest.encode())), english

        rate = 5e-3 if name == "LoRA" else 1e-3
        runs[name] = train(one, italian, moments[-1], 8, rate, 10, at=dict.fromkeys(moments, look))  # type: ignore[assignment]
    figure, axes = plt.subplots(figsize=(6.4, 3.4))
    for (name, rows), colour in zip(runs.items(), (BLUE, ORANGE), strict=True):
        points = [rows[step] for step in moments]
        axes.plot(*zip(*points, strict=True), "o-", color=colour, label=name)
    start = runs["LoRA"][0]
    axes.annotate("before", start, xytext=(-8, 10), textcoords="offset points", ha="right")
    axes.set(xlabel="Italian, bits per byte (left is better)", ylabel="English, bits per byte")
    axes.grid()
    axes.legend()
    save(figure, "week10-forget")
    for name, rows in runs.items():
        short = "full" if name == "all weights" else "lora"
        numbers[f"italian_{short}"], numbers[f"english_{short}"] = rows[moments[-1]]
    whole = sum(part.numel() for part in model.parameters())
    numbers["lora_percent"] = 100 * float(numbers["lora_parameters"]) / whole
    numbers["italian_before"], numbers["english_before"] = start
    return numbers


def main(wanted: list[str]) -> None:
    """Do the parts that are named, or all but the training; what was measured before is kept."""
    if "train" in wanted:
        long_run()
    model, merges = reference_gpt()
    path = DRAWN / "week10.json"
    numbers: Numbers = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    parts: dict[str, Callable[[], Numbers]] = {
        "bars": lambda: measure_bars(model, merges),
        "run": lambda: draw_run(numbers),
        "prices": lambda: draw_prices(merges),
        "memory": lambda: measure_memory(model, merges),
        "forgetting": lambda: draw_forgetting(model, merges),
        "copying": draw_copying,
        "sizes": lambda: draw_sizes(merges),
    }
    for name, part in parts.items():
        if name in wanted or not wanted or wanted == ["train"]:
            numbers |= part()
            save_numbers(10, numbers)


if __name__ == "__main__":
    main(sys.argv[1:])
