"""Draws the figures of week 8: a tree of sentences, beams too wide, draws, and what a cache saves."""

from __future__ import annotations

import heapq
import itertools
import math
import random
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pydoc_data.topics import topics

import torch
from common import BLUE, GREEN, INK, ORANGE, RED, plt, save, save_numbers
from torch import Tensor

from lab_transformer.decoding import Step, beam_search, greedy_decode, sample_token
from lab_transformer.generation import gpt_step, translation_step
from lab_transformer.gpt import GPT
from lab_transformer.loss import sequence_loss, shift_right
from lab_transformer.transformer import Transformer

Numbers = dict[str, float | int | str]

TREE = {
    "": {"the": 0.6, "a": 0.4},
    "the": {"dog": 0.4, "cat": 0.35, "bird": 0.25},
    "a": {"dog": 0.9, "cat": 0.1},
    "the dog": {"barks": 0.55, "sleeps": 0.45},
    "the cat": {"sleeps": 0.6, "purrs": 0.4},
    "the bird": {"sings": 1.0},
    "a dog": {"barks": 0.8, "sleeps": 0.2},
    "a cat": {"purrs": 1.0},
}
# English adjectives and the Italian ones that are as good as each other.
SYNONYMS = {
    line.split()[0]: line.split()[1:]
    for line in """
    beautiful bello stupendo splendido magnifico
    big grande grosso enorme
    small piccolo minuto
    happy felice contento lieto allegro
    sad triste mesto
    fast veloce rapido svelto
    clever intelligente furbo sveglio
    tired stanco esausto
    calm calmo tranquillo sereno quieto
    strange strano bizzarro curioso insolito
    angry arrabbiato furioso
    kind gentile cortese
    old vecchio anziano
    rich ricco benestante
    poor povero
    cold freddo gelido
    """.strip().splitlines()
}
ENGLISH = ["<pad>", *SYNONYMS]
PAD, START, END = 0, 1, 2
ITALIAN = ["<pad>", "<start>", "<end>", *itertools.chain(*SYNONYMS.values())]
SHORTEST, LONGEST = 2, 10
WIDTHS = [1, 2, 4, 8, 16, 32, 64]


# A tree by hand ------------------------------------------------------------------------------------


def draw_tree() -> Numbers:
    """Draw all sentences of a small model, with the way of greedy and that of two beams."""
    kept = {"the", "a", "the dog", "a dog", "a dog barks", "the dog barks"}
    leaves = [f"{pair} {word}" for pair in list(TREE)[3:] for word in TREE[pair]]
    height = {leaf: -float(place) for place, leaf in enumerate(leaves)}
    chance = {"": 1.0}
    for prefix, choices in TREE.items():
        for word, share in choices.items():
            chance[f"{prefix} {word}".strip()] = chance[prefix] * share
    for prefix in reversed(TREE):
        height[prefix] = statistics.mean(height[f"{prefix} {word}".strip()] for word in TREE[prefix])
    figure, axes = plt.subplots(figsize=(7.2, 4.4))
    columns = [0.0, 1.0, 2.15, 3.4]
    for prefix, choices in TREE.items():
        depth = len(prefix.split())
        for word, share in choices.items():
            child = f"{prefix} {word}".strip()
            xs, ys = columns[depth : depth + 2], [height[prefix], height[child]]
            on_beam = child in kept
            axes.plot([xs[0] + 0.28, xs[1] - 0.28], ys, color=GREEN if on_beam else INK,
                      alpha=1.0 if on_beam else 0.35, linewidth=2.4 if on_beam else 1.0)  # fmt: skip
            # Above a line that falls, and left of one that rises.
            side = "center" if ys[0] == ys[1] else "right" if ys[0] < ys[1] else "left"
            axes.text(statistics.mean(xs), statistics.mean(ys) + 0.04, f" {share:g} ", ha=side,
                      va="bottom", fontsize=9)  # fmt: skip
    for prefix, y in height.items():
        depth = len(prefix.split())
        word = prefix.split()[-1] if prefix else "<start>"
        weight = "bold" if prefix in kept else "normal"
        axes.text(columns[depth], y, word, ha="center", va="center", weight=weight)
        if depth:
            note = f"{chance[prefix]:.3f}".rstrip("0")
            axes.text(columns[depth], y - 0.36, note, ha="center", va="center", fontsize=8.5,
                      color=GREEN if prefix in kept else INK)  # fmt: skip
    winner, greedy = "a dog barks", "the dog barks"
    for leaf, says in [
        (winner, "most probable"),
        (greedy, "greedy"),
        ("the bird sings", "second best"),
    ]:
        axes.text(columns[3] + 0.42, height[leaf], f"← {says}", va="center", fontsize=9.5)
    axes.set(xlim=(-0.3, 4.6), ylim=(min(height.values()) - 0.6, 0.5))
    axes.axis("off")
    save(figure, "week8-tree")
    words = ["<start>", "<end>", *sorted({word for choices in TREE.values() for word in choices})]

    def step(prefixes: Tensor) -> Tensor:
        rows = []
        for prefix in prefixes.tolist():
            choices = TREE.get(" ".join(words[token] for token in prefix[1:]), {"<end>": 1.0})
            rows.append(
                [math.log(choices.get(word) or 0.0) if word in choices else -math.inf for word in words]
            )
        return torch.tensor(rows, dtype=torch.float64)

    def said(tokens: list[int]) -> str:
        return " ".join(words[token] for token in tokens[1:-1])

    beams = beam_search(step, 0, 1, 2, 5)
    assert said(greedy_decode(step, 0, 1, 5)) == greedy
    assert [said(tokens) for tokens, _ in beams] == [winner, greedy]
    assert said(exact_search(step, 0, 1, 5)[0]) == winner
    return {
        "greedy": chance[greedy],
        "best": chance[winner],
        "second": chance["the bird sings"],
        "best_log": math.log(chance[winner]),
        "greedy_log": math.log(chance[greedy]),
    }


def exact_search(step: Step, start: int, end: int, max_length: int) -> tuple[list[int], float, int]:
    """Find the most probable sentence for sure: always go on with the most probable prefix."""
    queue, asked = [(0.0, [start])], 0
    while True:
        cost, tokens = heapq.heappop(queue)
        if len(tokens) == max_length or (len(tokens) > 1 and tokens[-1] == end):
            return tokens, -cost, asked
        asked += 1
        for token, log_probability in enumerate(step(torch.tensor([tokens]))[0].tolist()):
            if log_probability > -math.inf:
                heapq.heappush(queue, (cost - log_probability, [*tokens, token]))


# A translator with synonyms ------------------------------------------------------------------------


def make_pair(rng: random.Random, broken: float) -> tuple[list[int], list[int]]:
    """Draw a list of adjectives and a translation; a broken one stops too early."""
    english = rng.choices(ENGLISH[1:], k=rng.randint(SHORTEST, LONGEST))
    italian = [rng.choice(SYNONYMS[word]) for word in english]
    if rng.random() < broken:
        italian = italian[: rng.randrange(len(english))]
    return [ENGLISH.index(w) for w in english], [*(ITALIAN.index(w) for w in italian), END]


def padded(rows: list[list[int]]) -> Tensor:
    """Make rows equally long."""
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def train_translator(broken: float, steps: int = 700) -> Transformer:
    """Train on pairs of which a share is broken."""
    torch.manual_seed(0)
    rng = random.Random(0)
    model = Transformer(len(ENGLISH), len(ITALIAN), n_layers=1, d_model=64, n_heads=4, d_ff=128)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for number in range(steps):
        optimizer.param_groups[0]["lr"] = 2.5e-3 * min((number + 1) / 50, 1.02 - number / steps)
        sources, targets = zip(*(make_pair(rng, broken) for _ in range(48)), strict=True)
        source, target = padded(list(sources)), padded(list(targets))
        loss = sequence_loss(model(source, shift_right(target, START)), target, PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def is_right(source: list[int], tokens: list[int]) -> bool:
    """Tell whether every word is translated by one of its synonyms, in order."""
    english = [ENGLISH[token] for token in source]
    italian = [ITALIAN[token] for token in tokens[1:-1]]
    return len(english) == len(italian) and all(
        word in SYNONYMS[of] for of, word in zip(english, italian, strict=True)
    )


def search_with_widths(
    model: Transformer, test: list[list[int]], widths: list[int], penalty: float
) -> list[list[float]]:
    """Measure score, length ratio, and shares of right and of empty translations for each width."""
    rows = []
    for width in widths:
        found = [
            beam_search(translation_step(model, torch.tensor(source)), START, END, width, LONGEST + 4,
                        penalty)[0]
            for source in test
        ]  # fmt: skip
        pairs = list(zip(test, found, strict=True))
        rows.append(
            [
                statistics.mean(score for _, score in found),
                statistics.mean((len(tokens) - 2) / len(source) for source, (tokens, _) in pairs),
                statistics.mean(is_right(source, tokens) for source, (tokens, _) in pairs),
                statistics.mean(len(tokens) == 2 for tokens, _ in found),
            ]
        )
    return rows


def draw_widths() -> Numbers:
    """Draw what happens to score, length and quality as the beam gets wider."""
    model = train_translator(broken=0.05)
    rng = random.Random(1)
    test = [make_pair(rng, 0.0)[0] for _ in range(100)]
    few = WIDTHS[::2]
    plain = search_with_widths(model, test, WIDTHS, 0.0)
    penalised = search_with_widths(model, test, few, 1.0)
    exact = [
        exact_search(translation_step(model, torch.tensor(source)), START, END, LONGEST + 4)
        for source in test
    ]
    truth = statistics.mean(total for _, total, _ in exact)
    figure, axes = plt.subplots(1, 3, figsize=(7.6, 2.9))
    titles = ["log-probability found", "length / source length", "right translations"]
    for panel, title, column in zip(axes, titles, (0, 1, 2), strict=True):
        panel.plot(WIDTHS, [row[column] for row in plain], "o-", color=BLUE, label="no penalty")
        if column:
            panel.plot(few, [row[column] for row in penalised], "s--", color=ORANGE, label="penalty 1")
            panel.set_ylim(0, 1.08)
        panel.set(xscale="log", xlabel="beam width", title=title)
        panel.set_xticks(WIDTHS, map(str, WIDTHS), fontsize=8)
        panel.minorticks_off()
        panel.grid(axis="y")
    axes[0].axhline(truth, color=RED, linestyle=":", label="exact search")
    axes[0].legend(loc="lower right", fontsize=9)
    axes[2].legend(loc="lower left", fontsize=9)
    save(figure, "week8-width")
    numbers: Numbers = {"exact": truth, "exact_asked": statistics.mean(a for _, _, a in exact)}
    numbers["exact_empty"] = 100 * statistics.mean(len(tokens) == 2 for tokens, _, _ in exact)
    numbers["exact_right"] = 100 * statistics.mean(
        is_right(source, tokens) for source, (tokens, _, _) in zip(test, exact, strict=True)
    )
    for kind, widths, rows in [("plain", WIDTHS, plain), ("penalty", few, penalised)]:
        for width, (score, length, right, empty) in zip(widths, rows, strict=True):
            numbers |= {
                f"{kind}_score_{width}": score,
                f"{kind}_length_{width}": length,
                f"{kind}_right_{width}": 100 * right,
                f"{kind}_empty_{width}": 100 * empty,
            }
    return numbers | draw_mode(model)


def draw_mode(model: Transformer) -> Numbers:
    """Compare the most probable full translation with the empty one, by length of the source."""
    rng = random.Random(2)
    lengths = list(range(SHORTEST, LONGEST + 1))
    full, empty, together = [], [], []
    for length in lengths:
        rows = []
        for _ in range(20):
            english = rng.choices(ENGLISH[1:], k=length)
            step = translation_step(model, torch.tensor([ENGLISH.index(word) for word in english]))
            tokens, total, shared = [START], 0.0, 0.0
            nothing = float(step(torch.tensor([tokens]))[0, END])
            for word in english:
                row = step(torch.tensor([tokens]))[0]
                right = torch.tensor([ITALIAN.index(synonym) for synonym in SYNONYMS[word]])
                total += float(row[right].max())
                # All synonyms together; what follows hardly depends on which of them was taken.
                shared += float(row[right].logsumexp(dim=0))
                tokens.append(int(right[row[right].argmax()]))
            ending = float(step(torch.tensor([tokens]))[0, END])
            rows.append((total + ending, nothing, math.exp(shared + ending)))
        for series, column in zip((full, empty, together), zip(*rows, strict=True), strict=True):
            series.append(statistics.mean(column))
    figure, axes = plt.subplots(figsize=(6.4, 3.1))
    axes.plot(lengths, full, "o-", color=GREEN, label="one full, right translation")
    axes.plot(lengths, empty, "s-", color=RED, label="the empty sentence")
    axes.set(xlabel="words of the source", ylabel="log-probability")
    axes.grid(axis="y")
    axes.legend()
    save(figure, "week8-mode")
    eight = lengths.index(8)
    crossing = next(length for length, f, e in zip(lengths, full, empty, strict=True) if f < e)
    return {
        "crossing": crossing,
        "empty_percent": 100 * math.exp(empty[eight]),
        "full_percent": 100 * math.exp(full[eight]),
        "together_percent": 100 * together[eight],
    }


# Open text -----------------------------------------------------------------------------------------


class Trigrams:
    """A language model that counted: the next word after the last two, softened by shorter contexts."""

    def __init__(self, words: list[str], vocabulary: list[str]) -> None:
        self.index = {word: number for number, word in enumerate(vocabulary)}
        tokens = [self.index[word] for word in words]
        self.followers: dict[tuple[int, ...], Counter[int]] = {}
        for context in range(3):
            for place in range(context, len(tokens)):
                seen = self.followers.setdefault(tuple(tokens[place - context : place]), Counter())
                seen[tokens[place]] += 1

    def __call__(self, prefixes: Tensor) -> Tensor:
        """Take 0.75 off every count and give it to the next shorter context (absolute discounting)."""
        rows = torch.full((len(prefixes), len(self.index)), 1 / len(self.index), dtype=torch.float64)
        for row, prefix in zip(rows, prefixes.tolist(), strict=True):
            for context in range(3):
                seen = self.followers.get(tuple(prefix[len(prefix) - context :]))
                if seen is not None:
                    row *= 0.75 * len(seen) / seen.total()
                    row[list(seen)] += (torch.tensor(list(seen.values())) - 0.75) / seen.total()
        return rows.log()


def draw_text() -> Numbers:
    """Draw how surprising real, greedy, beam and drawn text is, word by word."""
    # Some passages stand under several topics: each sentence counts once.
    text = " ".join(topics[name] for name in sorted(topics)).lower()
    sentences = list(dict.fromkeys(re.split(r"(?<=\.)\s+", text)))
    parts: list[list[str]] = [[], []]
    for number, sentence in enumerate(sentences):
        parts[number % 100 >= 90] += re.findall(r"[a-z]+|[.]", sentence)
    kept, held_out = parts
    vocabulary = sorted(set(kept) | set(held_out))
    model = Trigrams(kept, vocabulary)
    prompt = [model.index[word] for word in ("the", "value")]
    length = 60

    def continued(choose: Callable[[Tensor], int]) -> list[int]:
        tokens = list(prompt)
        while len(tokens) < length + 2:
            tokens.append(choose(model(torch.tensor([tokens]))[0]))
        return tokens

    generator = torch.Generator().manual_seed(1)
    nobody = len(vocabulary)  # no end token: open text goes on

    def from_prompt(prefixes: Tensor) -> Tensor:
        return model(torch.cat([torch.tensor([prompt[:1]]).expand(len(prefixes), 1), prefixes], dim=1))

    start = 400
    real = [model.index[word] for word in held_out[start : start + length + 2]]
    texts = {
        "greedy": continued(lambda row: int(row.argmax())),
        "beam, width 8": prompt[:1] + beam_search(from_prompt, prompt[1], nobody, 8, length + 1)[0][0],
        "sampling, top-p 0.9": continued(
            lambda row: int(sample_token(row, top_p=0.9, generator=generator))
        ),
        "sampling": continued(lambda row: int(sample_token(row, generator=generator))),
        "written by people": real,
    }
    figure, axes = plt.subplots(figsize=(7.2, 3.2))
    numbers: Numbers = {"corpus": len(kept), "corpus_words": len(vocabulary)}
    drawn = {"beam, width 8": RED, "sampling, top-p 0.9": BLUE, "written by people": INK}
    for name, tokens in texts.items():
        surprise = [
            float(model(torch.tensor([tokens[place - 2 : place]]))[0, tokens[place]])
            for place in range(2, len(tokens))
        ]
        key = re.sub(r"\W+", "_", name)
        numbers[f"text_log_{key}"] = statistics.mean(surprise)
        numbers[f"text_distinct_{key}"] = 100 * len(set(tokens[2:])) / length
        numbers[f"text_{key}"] = " ".join(vocabulary[token] for token in tokens[:32])
        if name in drawn:
            axes.plot(range(1, length + 1), surprise, color=drawn[name], label=name, linewidth=1.6,
                      alpha=0.6 if drawn[name] == INK else 1.0)  # fmt: skip
    axes.set(xlabel="word of the text", ylabel="log-probability")
    axes.legend(loc="lower right", ncols=3, fontsize=9)
    save(figure, "week8-text")
    return numbers


def draw_sampling() -> None:
    """Draw what temperature, top-k and top-p do to one distribution."""
    words = ["dog", "cat", "child", "bird", "train", "king", "moon", "comma"]
    logits = torch.tensor([0.38, 0.24, 0.14, 0.09, 0.06, 0.04, 0.03, 0.02]).log()
    settings: list[tuple[str, dict[str, float], str]] = [
        ("as it is", {}, INK),
        ("temperature 0.5", {"temperature": 0.5}, RED),
        ("temperature 2", {"temperature": 2.0}, ORANGE),
        ("top-k 3", {"top_k": 3}, BLUE),
        ("top-p 0.8", {"top_p": 0.8}, GREEN),
    ]
    figure, axes = plt.subplots(1, 5, figsize=(7.6, 2.6), sharey=True, sharex=True)
    for panel, (title, setting, color) in zip(axes, settings, strict=True):
        drawn = sample_token(
            logits.expand(200_000, -1), generator=torch.Generator().manual_seed(0), **setting
        )  # type: ignore[arg-type]
        shares = torch.bincount(drawn, minlength=len(words)) / len(drawn)
        panel.barh(words, shares.tolist(), color=color, alpha=0.6 if color == INK else 1.0)
        panel.set_title(title, fontsize=9.5)
        panel.set_xticks([0, 0.3, 0.6])
        panel.set_xlabel("share", fontsize=9)
    axes[0].invert_yaxis()
    save(figure, "week8-sampling")


# The cache -----------------------------------------------------------------------------------------


def draw_cache() -> Numbers:
    """Measure the time of each new token with and without the cache."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = GPT(1000, n_layers=4, d_model=128, n_heads=4, max_length=512).eval()
    tokens = torch.randint(1000, (1, 512))

    @torch.no_grad()
    def whole(prefixes: Tensor) -> Tensor:
        return model(prefixes)[:, -1].log_softmax(dim=-1)

    # Without the cache any length can be timed alone; with it, what came before must be kept first.
    lengths = [8, 32, 64, 128, 192, 256, 320, 384, 448, 511]
    rows: dict[str, list[float]] = {"without": [], "with": []}
    for length in lengths:
        times: dict[str, list[float]] = {"without": [], "with": []}
        step = gpt_step(model)
        for extra in range(-6, 1):
            step_at = tokens[:, : length + extra]
            for name, run in (("without", whole), ("with", step)):
                # The processor's time: on one thread it is the time it takes, unless others interfere.
                begin = time.process_time()
                answer = run(step_at)
                times[name].append(time.process_time() - begin)
                if name == "without":
                    expected = answer
            assert torch.allclose(expected, answer, atol=1e-4)
        for name, values in times.items():
            rows[name].append(1000 * min(values[1:]))
    figure, axes = plt.subplots(figsize=(6.4, 3.1))
    axes.plot(lengths, rows["without"], "o-", color=RED, label="whole prefix again")
    axes.plot(lengths, rows["with"], "s-", color=GREEN, label="key-value cache")
    axes.set(xlabel="tokens so far", ylabel="milliseconds for one token", ylim=(0, None))
    axes.legend()
    axes.grid(axis="y")
    save(figure, "week8-cache")
    seconds = {
        name: torch.trapezoid(torch.tensor(row), torch.tensor(lengths)) for name, row in rows.items()
    }
    return {
        "cache_ratio_last": rows["without"][-1] / rows["with"][-1],
        "cache_ratio_first": rows["without"][0] / rows["with"][0],
        "cache_ratio_text": float(seconds["without"] / seconds["with"]),
        "tokens_without": 1000 * (lengths[-1] - lengths[0]) / float(seconds["without"]),
        "tokens_with": 1000 * (lengths[-1] - lengths[0]) / float(seconds["with"]),
    }


def small_facts() -> Numbers:
    """Compute what the text says in passing."""
    product, words = torch.tensor(1.0), 0
    while product > 0:
        product, words = product * 0.1, words + 1
    return {
        "underflow": words,
        "exponent": math.log10(32_000) * 10,
        "gpt2_cache_megabytes": 2 * 12 * 768 * 4 * 1024 / 1e6,
    }


if __name__ == "__main__":
    draw_sampling()
    numbers = {**draw_tree(), **small_facts(), **draw_text(), **draw_cache(), **draw_widths()}
    save_numbers(8, numbers)
