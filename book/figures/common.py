"""One look for all figures of the book, readable on a light and on a dark page."""

from __future__ import annotations

import json
import os
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

mpl.use("svg")

DRAWN = Path(os.environ.get("LAB_DRAWN", Path(__file__).parent / "drawn"))

# Okabe and Ito's colours, which colour-blind readers can tell apart, in an order for lines.
BLUE, ORANGE, GREEN, PINK, SKY, RED, YELLOW = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442",
)  # fmt: skip
# Stands for the colour of the page's text; `save` puts that in its place.
INK = "#010203"

plt.rcParams.update(
    {
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.prop_cycle": mpl.cycler(color=[BLUE, ORANGE, GREEN, PINK, SKY, RED]),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlecolor": INK,
        "axes.titlesize": 11,
        "figure.constrained_layout.use": True,
        "figure.figsize": (7.0, 3.4),
        "font.family": "sans-serif",
        "font.size": 10,
        "grid.alpha": 0.25,
        "grid.color": INK,
        "image.cmap": "cividis",
        "legend.frameon": False,
        "legend.labelcolor": INK,
        "lines.linewidth": 2.0,
        "savefig.transparent": True,
        "svg.fonttype": "none",
        "svg.hashsalt": "lab",
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
    }
)


def save(figure: Figure, name: str) -> None:
    """Write a figure as `drawn/NAME.svg`; the same figure gives the same bytes."""
    DRAWN.mkdir(parents=True, exist_ok=True)
    path = DRAWN / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    text = path.read_text(encoding="utf-8").replace(INK, "currentColor")
    path.write_text(text, encoding="utf-8")


def save_numbers(week: int, numbers: dict[str, float | int | str]) -> None:
    """Write the numbers that the chapter's text quotes, as `drawn/weekN.json`."""
    DRAWN.mkdir(parents=True, exist_ok=True)
    text = json.dumps(numbers, indent=1, sort_keys=True) + "\n"
    (DRAWN / f"week{week}.json").write_text(text, encoding="utf-8")
