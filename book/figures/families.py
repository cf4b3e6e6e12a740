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


if __name__ == "__main__":
    draw_masks()
