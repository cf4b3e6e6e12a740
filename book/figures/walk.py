"""The model of the walk: a translator so small that every number in it can be shown.

It writes `drawn/walk.json`, from which the page computes each station by itself:

    parameters      how many numbers were learned
    sizes           n_layers, d_model, n_heads, d_ff
    steps, n_test   of the training; sentences kept out of it
    right           how many of those it translates without a mistake
    source, target  the sentence of the walk, and its translation: not among those of the training
    english         the words of the source side, in the order of their ids
    italian         the words of the target side
    weights         the parameters by their names in `Transformer`, rounded; the output layer is the
                    target embedding, and stands there only
"""

from __future__ import annotations

import json

import common
import torch
import week7

from lab_transformer.corpus import Pair, draw_pairs

# The texts of the page name these sizes.
SIZES = {"n_layers": 1, "d_model": 16, "n_heads": 2, "d_ff": 64}
STEPS, RATE = 3000, 1.2e-2
DIGITS = 6
# "The" turns up twice and becomes two Italian words; the adjective and the noun change places.
SENTENCE = "the princess opens the heavy backpack"
TRANSLATION = "la principessa apre lo zaino pesante"


@torch.no_grad()
def main() -> None:
    """Train, round, measure what the rounded model can do, write."""
    with torch.enable_grad():
        translator = week7.train("italian", sizes=SIZES, steps=STEPS, rate=RATE)
    parameters = dict(translator.model.named_parameters())
    for parameter in parameters.values():
        parameter.copy_(parameter.double().round(decimals=DIGITS))
    pair = Pair(tuple(SENTENCE.split()), tuple(TRANSLATION.split()))
    assert all(pair.source != drawn.source for drawn in draw_pairs("italian", week7.N_PAIRS))
    (written,), _ = translator.translate([pair])
    if written != pair.target:
        raise SystemExit(f"The model writes {' '.join(written)!r}: choose another sentence.")
    share, _ = translator.exact_match()
    found = {
        "parameters": sum(parameter.numel() for parameter in parameters.values()),
        "sizes": SIZES,
        "steps": STEPS,
        "n_test": len(translator.test),
        "right": round(share * len(translator.test)),
        "source": pair.source,
        "target": pair.target,
        "english": translator.source.words,
        "italian": translator.target.words,
        "weights": {
            name: parameter.double().round(decimals=DIGITS).tolist()
            for name, parameter in parameters.items()
        },
    }
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    common.DRAWN.mkdir(parents=True, exist_ok=True)
    (common.DRAWN / "walk.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
