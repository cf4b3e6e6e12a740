"""Draws the masks of the three families of Transformers."""

from __future__ import annotations

import numpy as np
import torch
from common import BLUE, GREEN, INK, ORANGE, PINK, plt, save
from matplotlib.patches import Rectangle

from lab_transformer.masking import causal_mask


def draw_masks() -> None:
    """Draw who may look at whom; a filled cell is allowed."""
    source, target = 5, 4
    causal = causal_mask(source)
    prefix = causal.clone()
    prefix[:, :3] = True
    panels = [
        ("encoder", torch.ones(source, source), BLUE, "looks at", "word"),
        ("decoder", causal, ORANGE, "looks at", ""),
        ("decoder, self", causal_mask(target), GREEN, "looks at", "target word"),
        ("decoder, cross", torch.ones(target, source), GREEN, "looks at source", ""),
        ("prefix", prefix, PINK, "looks at", ""),
    ]
    figure, axes = plt.subplots(1, 5, figsize=(7.6, 2.3))
    for panel, (title, mask, color, below, left) in zip(axes, panels, strict=True):
        for (row, column), allowed in np.ndenumerate(mask.bool().numpy()):
            face = color if allowed else "none"
            panel.add_patch(
                Rectangle((column, row), 1, 1, facecolor=face, edgecolor=INK, linewidth=0.6)
            )
        panel.set(xlim=(-0.05, mask.shape[1] + 0.05), ylim=(mask.shape[0] + 0.05, -0.05))
        panel.set_aspect("equal")
        panel.set_title(title, fontsize=9.5)
        panel.set_xlabel(below, fontsize=9)
        panel.set_ylabel(left, fontsize=9)
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set_visible(False)
    save(figure, "families-masks")


# A model: its year, its place across the page, and the one that it goes on from.
MODELS = {
    "Transformer": (2017, 0.0, None),
    "BERT": (2018, -1.6, "Transformer"),
    "GPT": (2018, 1.6, "Transformer"),
    "RoBERTa": (2019, -2.2, "BERT"),
    "BART": (2019, -0.4, "Transformer"),
    "T5": (2019, 0.4, "Transformer"),
    "GPT-2": (2019, 1.6, "GPT"),
    "ELECTRA": (2020, -1.4, "BERT"),
    "ViT": (2020, -0.6, "BERT"),
    "GPT-3": (2020, 1.6, "GPT-2"),
    "Whisper": (2022, 0.4, "Transformer"),
    "LLaMA": (2023, 1.6, "GPT-3"),
}


def draw_tree() -> None:
    """Draw who goes on from whom: encoders on the left, decoders on the right, both in the middle."""
    figure, axes = plt.subplots(figsize=(7.2, 4.2))
    for name, (year, x, parent) in MODELS.items():
        color = GREEN if abs(x) < 0.5 else BLUE if x < 0 else ORANGE
        if parent is not None:
            above, across, _ = MODELS[parent]
            axes.plot([across, x], [above + 0.3, year - 0.3], color=INK, linewidth=0.8, alpha=0.6)
        box = {"boxstyle": "round", "facecolor": color, "edgecolor": color, "alpha": 0.25}
        axes.text(x, year, name, ha="center", va="center", bbox=box)
    for x, title in ((-1.6, "encoder"), (0, "both"), (1.6, "decoder")):
        axes.text(x, 2016.2, title, ha="center", va="center", fontsize=9)
    axes.set(xlim=(-2.7, 2.2), ylim=(2023.5, 2015.9), xticks=[], yticks=range(2017, 2024))
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    save(figure, "families-tree")


if __name__ == "__main__":
    draw_masks()
    draw_tree()
