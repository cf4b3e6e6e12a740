"""Figures and numbers of week 11: who looks where, what pre-training gives, where lines are enough."""

from __future__ import annotations

import copy
import itertools
import json
import os
import statistics
from pathlib import Path

import common
import torch
from common import BLUE, INK, ORANGE, plt, save, save_numbers
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn import functional as F

from lab_transformer.acceptability import Words, draw_contrasts, judged
from lab_transformer.corpus import Vocabulary, pad
from lab_transformer.families import (
    Classifier,
    MaskedLanguageModel,
    gelu_encoder,
    mask_tokens,
    prefix_mask,
)
from lab_transformer.masking import causal_mask
from lab_transformer.vision import VisionTransformer

Numbers = dict[str, float | int | str]

# Data of a figure that answers; it lies beside its script, and in a trial run beside the drawings.
EXPLORE = common.DRAWN if "LAB_DRAWN" in os.environ else Path(__file__).parents[1] / "explore"

torch.set_num_threads(1)

STARTS = range(3)
LABELS = (10, 100, 1000)

PAIRS = draw_contrasts("english", 4000)
HELD_OUT, KNOWN = PAIRS[:800], PAIRS[800:]
VOCABULARY = Vocabulary([*(pair.right for pair in PAIRS), ("<mask>",)])
(MASK,) = VOCABULARY.encode(["<mask>"])


def draw_masks() -> Numbers:
    """Draw who may look at whom, in the three families."""
    figure, parts = plt.subplots(1, 3, figsize=(7, 3.1))
    masks = {
        "encoder: everything": torch.ones(8, 8),
        "prefix of 3": prefix_mask(torch.tensor([3]), 8)[0, 0],
        "decoder: causal": causal_mask(8),
    }
    for axes, (name, mask) in zip(parts, masks.items(), strict=True):
        axes.set(title=name, xticks=[], yticks=[], xlabel="looked at", aspect="equal")
        for row, column in mask.nonzero().tolist():
            axes.add_patch(plt.Rectangle((column + 0.05, 7.05 - row), 0.9, 0.9, color=BLUE, alpha=0.7))
        axes.set(xlim=(0, 8), ylim=(0, 8))
    parts[0].set_ylabel("looks")
    save(figure, "week11-masks")
    return {f"pairs_{i}": int(mask.sum()) for i, mask in enumerate(masks.values())}


def numbered(sentences: list[Words]) -> Tensor:
    """Number sentences behind the start token, which stands for [CLS]."""
    rows = [[VOCABULARY.bos_id, *VOCABULARY.encode(words)] for words in sentences]
    return pad(rows, VOCABULARY.pad_id)


def fresh() -> MaskedLanguageModel:
    """Make a small masked language model."""
    return MaskedLanguageModel(len(VOCABULARY), 2, 48, 4, 96, max_length=16)


def pretrain(steps: int = 1000) -> MaskedLanguageModel:
    """Let a model guess masked words."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model, texts = fresh(), numbered([pair.right for pair in KNOWN])
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 3e-3 * min(1, (step + 1) / 50) * (1 - step / steps)
        rows = torch.randint(0, len(texts), (64,), generator=generator)
        inputs, labels = mask_tokens(texts[rows], MASK, len(VOCABULARY), [0, 1, 2, 3], generator)
        logits = model(inputs).flatten(0, 1)
        loss = F.cross_entropy(logits, labels.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def agreement(model: MaskedLanguageModel) -> float:
    """Give the share of unseen sentences in which the right form of the verb beats the wrong one."""
    contrasts = [pair for pair in HELD_OUT if pair.mistake == "agreement"]
    right = numbered([pair.right for pair in contrasts])
    wrong = numbered([pair.wrong for pair in contrasts])
    differs = right != wrong
    with torch.no_grad():
        logits = model(torch.where(differs, MASK, right))
    of_right, of_wrong = (logits.gather(-1, form[..., None])[..., 0] for form in (right, wrong))
    return (of_right > of_wrong)[differs].float().mean().item()


def write_guesses(model: MaskedLanguageModel) -> None:
    """Write what the model guesses at each place of unseen sentences, for a page to show."""
    shown = []
    for pair in [pair for pair in HELD_OUT if 6 <= len(pair.right) <= 8][:8]:
        (text,) = numbered([pair.right])
        covered = text.repeat(len(pair.right), 1)
        covered[range(len(pair.right)), range(1, len(text))] = MASK
        with torch.no_grad():
            logits = model(covered)
        best = []
        for place, row in enumerate(logits[range(len(pair.right)), range(1, len(text))].softmax(-1)):
            shares, words = row.topk(5)
            rank = int((row > row[text[place + 1]]).sum()) + 1
            guesses = [
                [VOCABULARY.words[word], round(share, 3)]
                for word, share in zip(words.tolist(), shares.tolist(), strict=True)
            ]
            best.append({"guesses": guesses, "rank": rank})
        shown.append({"words": pair.right, "places": best})
    text_out = json.dumps(shown, separators=(",", ":"))
    (EXPLORE / "guesses.json").write_text(text_out + "\n", encoding="utf-8")


def draw_acceptability() -> Numbers:
    """Draw how many labels it takes to tell right from wrong, with and without pre-training."""
    known, unseen = judged(KNOWN[:500], 1), judged(HELD_OUT[:300])
    texts, verdicts = numbered([x for x, _ in known]), torch.tensor([y for _, y in known])
    test, wanted = numbered([x for x, _ in unseen]), torch.tensor([y for _, y in unseen])

    def share(model: MaskedLanguageModel, labels: int, start: int) -> float:
        torch.manual_seed(start)
        classifier = Classifier(copy.deepcopy(model), 2)
        optimizer = torch.optim.Adam(classifier.parameters(), 1e-3)
        for _ in range(200):
            rows = torch.randint(0, labels, (32,))
            loss = F.cross_entropy(classifier(texts[rows]), verdicts[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            return (classifier(test).argmax(dim=-1) == wanted).float().mean().item()

    pretrained = pretrain()
    write_guesses(pretrained)
    numbers: Numbers = {"agreement": 100 * agreement(pretrained)}
    torch.manual_seed(0)
    models = {"pretrained": pretrained, "scratch": fresh()}
    figure, axes = plt.subplots(figsize=(6, 2.9))
    for (name, model), color in zip(models.items(), (BLUE, ORANGE), strict=True):
        found = [[100 * share(model, labels, start) for start in STARTS] for labels in LABELS]
        middle = [statistics.median(shares) for shares in found]
        label = "pre-trained" if name == "pretrained" else "from scratch"
        axes.semilogx(LABELS, middle, color=color, marker="o", label=label)
        for labels, shares in zip(LABELS, found, strict=True):
            axes.plot([labels] * len(shares), shares, "o", color=INK, markersize=3)
        numbers |= {f"{name}_{n}": value for n, value in zip(LABELS, middle, strict=True)}
    axes.axhline(50, color=INK, linewidth=1, linestyle=":")
    axes.set(xlabel="labelled sentences", ylabel="right, %", ylim=(45, 100))
    axes.set_xticks(LABELS, [str(labels) for labels in LABELS])
    axes.legend()
    save(figure, "week11-acceptability")
    return numbers


def measure_digits() -> Numbers:
    """Measure a small vision Transformer on real digits, with and without positions, and a line."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    names = torch.tensor(digits.target)

    def run(positions: bool, start: int, rounds: int) -> tuple[float, float]:
        torch.manual_seed(start)
        order = torch.randperm(len(images))
        seen, new = order[:1200], order[1200:]
        model = VisionTransformer(8, 2, 1, 10, 2, 32, 4, 64)
        if not positions:
            nn.init.zeros_(model.position_embedding.weight.requires_grad_(False))
        optimizer = torch.optim.Adam(model.parameters())
        for step in range(rounds):
            optimizer.param_groups[0]["lr"] = 3e-3 * (1 - step / rounds)
            for rows in seen[torch.randperm(len(seen))].split(64):
                loss = F.cross_entropy(model(images[rows]), names[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        with torch.no_grad():
            share = (model(images[new]).argmax(dim=-1) == names[new]).float().mean().item()
        line = LogisticRegression(max_iter=1000).fit(images[seen].flatten(1), names[seen])
        return 100 * share, 100 * line.score(images[new].flatten(1), names[new])

    ordered = [run(True, start, 30) for start in STARTS]
    bags = [run(False, start, 30) for start in STARTS]
    return {
        "digits": statistics.median(share for share, _ in ordered),
        "digits_bag": statistics.median(share for share, _ in bags),
        "digits_line": statistics.median(line for _, line in ordered),
    }


class TableReader(nn.Module):
    """Reads a row of numbers: every column has a vector and a position."""

    def __init__(self, columns: int, width: int = 32) -> None:
        super().__init__()
        self.columns = nn.Parameter(0.2 * torch.randn(columns, width))
        self.positions = nn.Parameter(0.2 * torch.randn(columns + 1, width))
        self.encoder = gelu_encoder(2, width, 4, 2 * width)
        self.output = nn.Linear(width, 2)

    def forward(self, rows: Tensor) -> Tensor:
        """Give the logits of the two answers."""
        x = F.pad(rows[..., None] * self.columns, (0, 0, 1, 0))
        logits: Tensor = self.output(self.encoder(x + self.positions)[:, 0])
        return logits


def measure_table() -> Numbers:
    """Measure a Transformer and a line on 200 rows of a table."""
    table = load_breast_cancer()
    answers = torch.tensor(table.target)
    shares, lines = [], []
    for start in STARTS:
        torch.manual_seed(start)
        order = torch.randperm(len(answers))
        seen, new = order[:200], order[200:]
        numbers = torch.tensor(table.data, dtype=torch.float32)
        numbers = (numbers - numbers[seen].mean(0)) / numbers[seen].std(0)
        line = LogisticRegression(max_iter=1000).fit(numbers[seen], answers[seen])
        model = TableReader(30)
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        for _ in range(150):
            rows = seen[torch.randint(0, 200, (32,))]
            loss = F.cross_entropy(model(numbers[rows]), answers[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = model(numbers[new]).argmax(dim=-1) == answers[new]
        shares.append(100 * right.float().mean().item())
        lines.append(100 * line.score(numbers[new], answers[new]))
    return {
        "table": statistics.median(shares),
        "table_line": statistics.median(lines),
        "table_parameters": sum(p.numel() for p in TableReader(30).parameters()),
    }


if __name__ == "__main__":
    parts = (draw_masks, draw_acceptability, measure_digits, measure_table)
    save_numbers(11, dict(itertools.chain.from_iterable(part().items() for part in parts)))
