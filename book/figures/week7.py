"""The figures and numbers of week 7: a translator at work, and where it looks while it writes.

It also writes `drawn/translator.json`, with which a page can draw the cross-attention anew:

    languages   {"italian": {"layer", "heads", "d_head", "exact_match", "error_rate"}, "hindi": ...}
                layer (from 0) is the decoder block whose cross-attention agrees best with the gold
                alignment; exact_match and error_rate are shares of held-out sentences
    sentences   a list of held-out sentences that were translated without a mistake, each with
        language    "italian" or "hindi"
        source      English words
        output      the words that the model wrote
        latin       the same in Latin letters (equal to output in Italian)
        sure        gold links [source, output], counted from 0
        possible    further links that are not wrong
        queries     (heads, output, d_head): row t is the query of the step that writes output word t
        keys        (heads, source, d_head)
        weights     (heads, output, source): softmax(queries keys^T / sqrt(d_head)) of these numbers
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import statistics
import time
from dataclasses import dataclass

import common
import torch
from common import BLUE, GREEN, ORANGE, PINK, RED
from matplotlib import pyplot as plt
from torch import Tensor, nn

from lab_transformer.attention import (
    MultiHeadAttention,
    alignment_error_rate,
    alignment_from_attention,
    cross_attention,
    scaled_dot_product_attention,
    split_heads,
)
from lab_transformer.corpus import (
    Pair,
    Vocabulary,
    batches,
    draw_pairs,
    romanise,
    split_pairs,
    to_batch,
    vocabularies,
)
from lab_transformer.loss import sequence_loss, shift_right
from lab_transformer.transformer import Transformer

N_PAIRS, N_TEST = 51_001, 1_000
CHOSEN, REPORTED = slice(0, N_TEST // 2), slice(N_TEST // 2, N_TEST)
STEPS, BATCH, RATE = 700, 64, 4e-3
SIZES = {"n_layers": 2, "d_model": 64, "n_heads": 4, "d_ff": 256}
SENTENCES = 12
SHOWN = "a hungry queen walks in the empty room"  # held out, too
COLOURS = {"italian": BLUE, "hindi": ORANGE}

numbers: dict[str, float | int | str] = {}


@dataclass
class Translator:
    """A trained model, its words, and sentences that it has never seen."""

    language: str
    model: Transformer
    source: Vocabulary
    target: Vocabulary
    test: list[Pair]

    @torch.no_grad()
    def translate(
        self, pairs: list[Pair], pads: int = 0, masked: bool = True
    ) -> tuple[list[tuple[str, ...]], float]:
        """Translate greedily beside some pads; returns also the attention that pads get."""
        tokens, _ = to_batch(pairs, self.source, self.target)
        tokens = nn.functional.pad(tokens, (0, pads), value=self.source.pad_id)
        memory, mask = self.model.encode(tokens)
        seen = mask if masked else None
        written = torch.full((len(pairs), 1), self.target.bos_id)
        for _ in range(max(len(pair.target) for pair in pairs) + 1):
            logits, weights = self.model.decode(written, memory, seen)
            written = torch.cat([written, logits[:, -1:].argmax(dim=-1)], dim=1)
        lengths = torch.tensor([[len(pair.target)] for pair in pairs])
        writes = torch.arange(weights.shape[-2]) < lengths  # what follows the end is not looked at
        on_pads = (weights * ~mask[:, None]).sum(dim=-1).mean(dim=(1, 2))[writes].mean().item()
        return [self.target.decode(row) for row in written.tolist()], on_pads

    def exact_match(self, pads: int = 0, masked: bool = True) -> tuple[float, float]:
        """Give the share of held-out sentences without a mistake, and the attention on pads."""
        outputs, on_pads = self.translate(self.test, pads, masked)
        right = sum(output == pair.target for output, pair in zip(outputs, self.test, strict=True))
        return right / len(self.test), on_pads

    @torch.no_grad()
    def maps(self, pair: Pair) -> Tensor:
        """Give the weights (layers, heads, query, key) with which the gold translation is written."""
        tokens, target = to_batch([pair], self.source, self.target)
        memory, mask = self.model.encode(tokens)
        _, weights = self.model.decode(shift_right(target, self.target.bos_id), memory, mask)
        return weights[0, :, :, : len(pair.target)]  # without the row that writes the end token

    @functools.cached_property
    def test_maps(self) -> list[Tensor]:
        """Keep the weights of all held-out sentences."""
        return [self.maps(pair) for pair in self.test]


def train(
    language: str,
    masked: bool = True,
    sizes: dict[str, int] = SIZES,
    steps: int = STEPS,
    rate: float = RATE,
    seed: int = 0,
) -> Translator:
    """Train a translator; the sentence that is shown is held out, too.

    Without the mask its cross-attention sees the padding of the batch.
    """
    kept, test = split_pairs(draw_pairs(language, N_PAIRS), N_TEST)
    kept = [pair for pair in kept if pair.source != tuple(SHOWN.split())]
    source, target = vocabularies(kept)
    torch.manual_seed(seed)
    model = Transformer(len(source), len(target), **sizes, max_length=64)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, steps, pct_start=0.15)
    epochs = (batches(kept, source, target, BATCH, seed) for seed in itertools.count())
    for words, wanted in itertools.islice(itertools.chain.from_iterable(epochs), steps):
        memory, mask = model.encode(words)
        given = shift_right(wanted, target.bos_id)
        logits, _ = model.decode(given, memory, mask if masked else None)
        optimiser.zero_grad()
        sequence_loss(logits, wanted, target.pad_id).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return Translator(language, model.eval(), source, target, test)


def find(language: str, sentence: str) -> Pair:
    """Find a sentence of the corpus."""
    return next(p for p in draw_pairs(language, N_PAIRS) if p.source == tuple(sentence.split()))


def error_rate(translator: Translator, part: slice, layer: int | None, head: int | None) -> float:
    """Average the error rate of one head, or of all heads together, over a part of the sentences."""
    chosen = slice(None) if layer is None else layer, slice(None) if head is None else head
    links = [alignment_from_attention(weights[chosen]) for weights in translator.test_maps[part]]
    return mean_error(translator.test[part], links)


def mean_error(pairs: list[Pair], links: list[set[tuple[int, int]]]) -> float:
    """Average the alignment error rate over sentences."""
    return statistics.fmean(
        alignment_error_rate(found, set(pair.sure), set(pair.possible))
        for pair, found in zip(pairs, links, strict=True)
    )


def best_layer(translator: Translator) -> int:
    """Find the layer that agrees best with gold, on half of the held-out sentences; report the rest."""
    name, layers = translator.language, range(SIZES["n_layers"])
    best = min(layers, key=lambda layer: error_rate(translator, CHOSEN, layer, None))
    numbers[f"{name}_best_layer"] = best + 1
    for layer in layers:
        numbers[f"{name}_error_layer_{layer + 1}"] = error_rate(translator, REPORTED, layer, None)
    numbers[f"{name}_error_best"] = numbers[f"{name}_error_layer_{best + 1}"]
    numbers[f"{name}_error_all"] = error_rate(translator, REPORTED, None, None)
    pairs = translator.test[REPORTED]
    diagonal = [{(min(t, len(p.source) - 1), t) for t in range(len(p.target))} for p in pairs]
    numbers[f"{name}_error_diagonal"] = mean_error(pairs, diagonal)
    return best


def choose(translator: Translator) -> list[Pair]:
    """Choose sentences to show: translated without a mistake, different in shape, not too long."""
    candidates = [pair for pair in translator.test if 4 <= len(pair.source) <= 9]
    outputs, _ = translator.translate(candidates)
    by_shape: dict[tuple[int, ...], Pair] = {}
    for pair, output in zip(candidates, outputs, strict=True):
        crossings = sum(s > u and t < v for (s, t), (u, v) in itertools.product(pair.sure, repeat=2))
        if output == pair.target and crossings:
            by_shape.setdefault((len(pair.source), len(pair.target), crossings), pair)
    shapes = sorted(by_shape)
    return [by_shape[shapes[i * len(shapes) // SENTENCES]] for i in range(SENTENCES)]


@torch.no_grad()
def export(translator: Translator, layer: int) -> list[dict[str, object]]:
    """Take queries and keys of one layer, rounded, and the weights that follow from them."""
    attention = translator.model.decoder.blocks[layer].cross_attention
    taken: dict[str, Tensor] = {}
    hooks = [
        part.register_forward_hook(lambda _, __, result, name=name: taken.update({name: result}))
        for name, part in [("queries", attention.w_q), ("keys", attention.w_k)]
    ]
    entries: list[dict[str, object]] = []
    for pair in choose(translator):
        translator.maps(pair)
        q, k = (split_heads(taken[n][0], SIZES["n_heads"]).double() for n in ("queries", "keys"))
        q, k = q[:, : len(pair.target)].round(decimals=4), k.round(decimals=4)
        _, weights = scaled_dot_product_attention(q, k, k)
        entries.append(
            {
                "language": translator.language,
                "source": pair.source,
                "output": pair.target,
                "latin": [romanise(word) for word in pair.target],
                "sure": sorted(pair.sure),
                "possible": sorted(pair.possible),
                "queries": q.tolist(),
                "keys": k.tolist(),
                "weights": weights.round(decimals=8).tolist(),
            }
        )
    for hook in hooks:
        hook.remove()
    return entries


def latin(pair: Pair) -> list[str]:
    """Write a translation in Latin letters, which every reader's fonts have."""
    return [romanise(word) for word in pair.target]


def work_by_hand() -> None:
    """Keep the numbers that the chapter works out by hand."""
    memory = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])  # the, red, house
    states = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # the steps that write lal and ghar
    layer = MultiHeadAttention(d_model=2, n_heads=1).requires_grad_(False)
    plain = {
        "w_q": 2 * torch.eye(2),
        "w_k": 2 * torch.eye(2),
        "w_v": torch.diag(torch.tensor([3.0, 1.0])),
    }
    for name, matrix in {**plain, "w_o": torch.eye(2)}.items():
        getattr(layer, name).weight.copy_(matrix.T)
        getattr(layer, name).bias.zero_()
    output, weights = cross_attention(states, memory, layer)
    padded = torch.cat([memory, torch.zeros(2, 2)])
    _, open_weights = cross_attention(states, padded, layer)
    for row, word in enumerate(("lal", "ghar")):
        for column, name in enumerate(("the", "red", "house")):
            numbers[f"hand_{word}_{name}"] = weights[0, row, column].item()
        for column in range(2):
            numbers[f"hand_{word}_out_{column}"] = output[row, column].item()
    numbers["hand_open_red"] = open_weights[0, 0, 1].item()
    numbers["hand_open_pads"] = open_weights[0, 0, 3:].sum().item()


def draw_crossing(pairs: dict[str, Pair]) -> None:
    """Draw gold links of one English sentence: to Italian above it, to Hindi below."""
    figure, axes = plt.subplots(figsize=(7.0, 3.2))
    rows = {"italian": 1.0, "hindi": -1.0}
    width = max(len(pair.target) for pair in pairs.values()) - 1
    for language, pair in pairs.items():
        english = len(pair.source) - 1
        for links, style in [(pair.possible - pair.sure, ":"), (pair.sure, "-")]:
            for s, t in sorted(links):
                ends = [s * width / english, t * width / (len(pair.target) - 1)]
                heights = [0.12 * rows[language], 0.86 * rows[language]]
                axes.plot(ends, heights, style, color=COLOURS[language], linewidth=1.8)
        for t, word in enumerate(latin(pair)):
            place = t * width / (len(pair.target) - 1)
            axes.text(place, rows[language], word, ha="center", va="center", fontsize=11)
        for s, word in enumerate(pair.source):
            axes.text(
                s * width / english, 0, word, ha="center", va="center", fontsize=11, weight="bold"
            )
    axes.set(xlim=(-0.5, width + 0.5), ylim=(-1.2, 1.2))
    axes.axis("off")
    common.save(figure, "week7-crossing")


def draw_maps(
    translators: dict[str, Translator], layers: dict[str, int], pairs: dict[str, Pair]
) -> None:
    """Draw where the trained models look, with the gold links as frames."""
    figure, panels = plt.subplots(1, 2, figsize=(7.4, 3.8))
    for axes, (language, pair) in zip(panels, pairs.items(), strict=True):
        weights = translators[language].maps(pair)[layers[language]].mean(dim=0)
        image = axes.pcolormesh(weights, vmin=0, vmax=1, cmap="cividis", rasterized=True)
        for s, t in sorted(pair.sure):
            axes.add_patch(plt.Rectangle((s, t), 1, 1, fill=False, edgecolor=RED, linewidth=2))
        axes.invert_yaxis()
        axes.set_xticks(
            [s + 0.5 for s in range(len(pair.source))], pair.source, rotation=60, ha="right"
        )
        axes.set_yticks([t + 0.5 for t in range(len(pair.target))], latin(pair))
        axes.set(xlabel="looked at", title=f"to {language.capitalize()}", aspect="equal")
    panels[0].set_ylabel("written")
    figure.colorbar(image, ax=panels, label="attention weight", shrink=0.8)
    common.save(figure, "week7-maps")


def draw_heads(translators: dict[str, Translator]) -> None:
    """Draw the error rate of every single head beside that of all heads of its layer together."""
    figure, panels = plt.subplots(1, 2, figsize=(7.0, 3.0), sharey=True)
    for axes, (language, translator) in zip(panels, translators.items(), strict=True):
        heads = []
        for layer, head in itertools.product(range(SIZES["n_layers"]), range(SIZES["n_heads"])):
            heads.append(error_rate(translator, REPORTED, layer, head))
            axes.plot(layer + 1 + (head - 1.5) / 8, heads[-1], "o", color=COLOURS[language])
        for layer in range(SIZES["n_layers"]):
            together = float(numbers[f"{language}_error_layer_{layer + 1}"])
            axes.plot([layer + 0.7, layer + 1.3], [together] * 2, color=GREEN)
            axes.annotate("all heads", (layer + 1.32, together), va="center", fontsize=8.5)
        diagonal = float(numbers[f"{language}_error_diagonal"])
        axes.axhline(diagonal, color=PINK, linestyle="--")
        axes.annotate(
            "word for word", (0.55, diagonal), xytext=(0, 4), textcoords="offset points", fontsize=8.5
        )
        layer_names = [f"layer {layer + 1}" for layer in range(SIZES["n_layers"])]
        axes.set_xticks(range(1, SIZES["n_layers"] + 1), layer_names)
        axes.set(
            title=f"to {language.capitalize()}", xlim=(0.5, SIZES["n_layers"] + 0.75), ylim=(0, 0.8)
        )
        for layer in range(SIZES["n_layers"]):
            own = heads[layer * SIZES["n_heads"] : (layer + 1) * SIZES["n_heads"]]
            numbers[f"{language}_error_layer_{layer + 1}_head_best"] = min(own)
            numbers[f"{language}_error_layer_{layer + 1}_head_worst"] = max(own)
    panels[0].set_ylabel("alignment error rate")
    common.save(figure, "week7-heads")


def draw_mask(masked: Translator, unmasked: Translator) -> None:
    """Draw what pads do to the translation of the same sentences, with and without the mask."""
    pads = [0, 4, 8, 16, 24, 48]
    curves = {
        "with the mask": [masked.exact_match(n) for n in pads],
        "mask forgotten when translating": [masked.exact_match(n, masked=False) for n in pads],
        "never a mask, not even in training": [unmasked.exact_match(n, masked=False) for n in pads],
    }
    figure, axes = plt.subplots()
    for (name, curve), colour, marker in zip(curves.items(), (BLUE, ORANGE, PINK), "osv", strict=True):
        axes.plot(pads, [right for right, _ in curve], marker=marker, color=colour, label=name)
    axes.set(
        xlabel="pads added to every sentence", ylabel="translated without a mistake", ylim=(0.75, 1.01)
    )
    axes.legend(loc="lower left")
    common.save(figure, "week7-mask")
    for key, name in zip(("masked", "forgotten", "never"), curves, strict=True):
        for n, (right, on_pads) in zip(pads, curves[name], strict=True):
            numbers[f"{key}_right_{n}"] = right
            numbers[f"{key}_on_pads_{n}"] = on_pads


def count(translators: dict[str, Translator]) -> None:
    """Keep the sizes of corpus and model, and what tying saves."""
    for name, value in SIZES.items():
        numbers[name] = value
    numbers.update({"n_train": N_PAIRS - N_TEST - 1, "n_test": N_TEST, "steps": STEPS, "batch": BATCH})
    for language, translator in translators.items():
        numbers[f"words_{language}"] = len(translator.target) - 4
        unequal = [len(pair.source) != len(pair.target) for pair in translator.test]
        numbers[f"{language}_unequal"] = sum(unequal) / N_TEST
    italian = translators["italian"]
    numbers["words_english"] = len(italian.source) - 4
    lengths = [len(pair.target) for pair in italian.test]
    numbers["mean_target"] = sum(lengths) / N_TEST
    numbers["mean_steps"] = sum(lengths) / N_TEST + 1
    model = italian.model
    tied = sum(parameter.numel() for parameter in model.parameters())
    numbers["parameters"] = tied
    numbers["parameters_saved"] = model.output.weight.numel()
    numbers["parameters_share"] = model.output.weight.numel() / (tied + model.output.weight.numel())


@torch.no_grad()
def project_nothing(translator: Translator) -> None:
    """Measure a translator whose keys and values are the memory itself."""
    spoiled = copy.deepcopy(translator)
    for block in spoiled.model.decoder.blocks:
        for linear in (block.cross_attention.w_k, block.cross_attention.w_v):
            linear.weight.copy_(torch.eye(SIZES["d_model"]))
            linear.bias.zero_()
    numbers["identity_right"], _ = spoiled.exact_match()


@torch.no_grad()
def read_again(translator: Translator) -> None:
    """Measure how much longer it takes to run the encoder anew for every word."""
    model, seconds = translator.model, {"once": [], "again": []}
    for pair, _ in itertools.product(translator.test[:40], range(2)):
        tokens, target = to_batch([pair], translator.source, translator.target)
        for name, measured in seconds.items():
            start = time.process_time()
            memory, mask = model.encode(tokens)
            for length in range(1, target.shape[1] + 1):
                if name == "again" and length > 1:
                    memory, mask = model.encode(tokens)
                model.decode(shift_right(target, 1)[:, :length], memory, mask)
            measured.append(time.process_time() - start)
    numbers["encoder_again"] = statistics.median(seconds["again"]) / statistics.median(seconds["once"])


def train_again() -> None:
    """Measure a second Italian model, from other random numbers: what is this one's alone?"""
    other = train("italian", seed=1)
    for pads in (0, 48):
        numbers[f"other_forgotten_right_{pads}"], _ = other.exact_match(pads, masked=False)
    for layer in range(SIZES["n_layers"]):
        numbers[f"other_error_layer_{layer + 1}"] = error_rate(other, REPORTED, layer, None)


@torch.no_grad()
def look_through(translator: Translator) -> None:
    """Read a word off the states after each decoder block, as if it were the last."""
    model, name = translator.model, translator.language
    taken: list[Tensor] = []
    hooks = [
        block.register_forward_hook(lambda _, __, result: taken.append(result[0]))
        for block in model.decoder.blocks
    ]
    tokens, target = to_batch(translator.test, translator.source, translator.target)
    memory, mask = model.encode(tokens)
    model.decode(shift_right(target, translator.target.bos_id), memory, mask)
    for hook in hooks:
        hook.remove()
    is_word = target != translator.target.pad_id
    for layer, states in enumerate(taken, start=1):
        logits = model.output(model.decoder.norm(states))[is_word]
        sure = logits.softmax(dim=-1).gather(1, target[is_word][:, None])
        hits = (logits.argmax(dim=-1) == target[is_word]).double()
        numbers[f"{name}_lens_right_{layer}"] = hits.mean().item()
        numbers[f"{name}_lens_sure_{layer}"] = sure.mean().item()


def main() -> None:
    """Train four translators, draw, count, export."""
    work_by_hand()
    translators = {language: train(language) for language in COLOURS}
    layers = {}
    for language, translator in translators.items():
        numbers[f"{language}_right"], _ = translator.exact_match()
        layers[language] = best_layer(translator)
        look_through(translator)
    facts = {
        language: {
            "layer": layers[language],
            "heads": SIZES["n_heads"],
            "d_head": SIZES["d_model"] // SIZES["n_heads"],
            "exact_match": numbers[f"{language}_right"],
            "error_rate": round(float(numbers[f"{language}_error_best"]), 4),
        }
        for language in translators
    }
    entries = [entry for name in translators for entry in export(translators[name], layers[name])]
    text = json.dumps(
        {"languages": facts, "sentences": entries}, ensure_ascii=False, separators=(",", ":")
    )
    common.DRAWN.mkdir(parents=True, exist_ok=True)
    (common.DRAWN / "translator.json").write_text(text + "\n", encoding="utf-8")
    shown = {name: find(name, SHOWN) for name in translators}
    draw_crossing(shown)
    draw_maps(translators, layers, shown)
    draw_heads(translators)
    draw_mask(translators["italian"], train("italian", masked=False))
    count(translators)
    project_nothing(translators["italian"])
    read_again(translators["italian"])
    train_again()
    common.save_numbers(7, numbers)


if __name__ == "__main__":
    main()
