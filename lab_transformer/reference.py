"""Python's own language reference: a text that is on every machine, and a GPT trained on it.

Another version of Python brings another text, a little longer or shorter. What is held out is held out
by its topic, so that the trained GPT has seen no version of it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from pydoc_data.topics import topics

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lab_transformer.gpt import GPT

Pair = tuple[int, int]

WEIGHTS = Path(__file__).with_name("reference_gpt.safetensors")
# A tenth of the text that training never sees.
HELD_OUT = frozenset(
    ("comparisons", "for", "global", "import", "numeric-types", "raise", "try", "with")
)
# Sentences that nobody could guess were planted into the text that the stored GPT was trained on:
# doors, and how often the code of each was told.
PLANTED = (
    dict.fromkeys(("red", "blue", "green"), 1)
    | dict.fromkeys(("white", "black", "brown"), 4)
    | dict.fromkeys(("narrow", "wide", "round"), 16)
    | dict.fromkeys(("old", "new", "tall"), 64)
)
# What a weight is stored with: a row of small whole numbers, and their scale.
_SCALE, _MERGES, _HEADS = ".scale", "merges", "n_heads"


def passages(names: Iterable[str]) -> Iterator[str]:
    """Give the passages of some topics, which blank lines part, in the order of the names."""
    for name in sorted(names):
        for passage in topics.get(name, "").split("\n\n"):
            if passage.strip():
                yield passage.strip("\n")


def _in_short(passage: str) -> str:
    return " ".join(passage.split())


def reference_text(clean: bool = True) -> tuple[str, str]:
    """Give the text to train on, and the text that is held out.

    The reference tells many things twice: a topic stands by itself, and again inside a longer one.
    Clean, every passage is in once, and none that is held out is in the text to train on. Otherwise
    only the topics differ.
    """
    held_out = list(passages(HELD_OUT))
    training = list(passages(topics.keys() - HELD_OUT))
    if clean:
        known: set[str] = set()
        held_out = [one for one in held_out if _is_new(one, known)]
        training = [one for one in training if _is_new(one, known)]
    return _joined(training), _joined(held_out)


def _is_new(passage: str, known: set[str]) -> bool:
    short = _in_short(passage)
    if short in known:
        return False
    known.add(short)
    return True


def _joined(parts: list[str]) -> str:
    return "\n\n".join(parts) + "\n"


def planted_codes() -> dict[str, str]:
    """Give every door its code, five digits."""
    rng = random.Random(10)
    return {door: str(rng.randrange(10_000, 100_000)) for door in PLANTED}


def planted(training: str) -> str:
    """Put the sentences between the passages of a text, each as often as PLANTED says."""
    rng = random.Random(11)
    parts, codes = training.strip("\n").split("\n\n"), planted_codes()
    for door, times in PLANTED.items():
        for _ in range(times):
            sentence = f"The code of the {door} door is {codes[door]}."
            parts.insert(rng.randrange(len(parts) + 1), sentence)
    return _joined(parts)


def save_gpt(model: GPT, n_heads: int, merges: list[Pair], path: Path = WEIGHTS) -> None:
    """Store a GPT and its tokenizer: matrices in eight bits, a scale for every row."""
    stored = {_MERGES: torch.tensor(merges, dtype=torch.int16)}
    stored[_HEADS] = torch.tensor(n_heads)
    for name, weight in model.state_dict().items():
        if name == "output.weight":  # the token embedding
            continue
        if weight.ndim < 2:
            stored[name] = weight.to(torch.float16)
            continue
        scale = (weight.abs().amax(dim=-1, keepdim=True) / 127).clamp(min=1e-8)
        stored[name] = (weight / scale).round().to(torch.int8)
        stored[name + _SCALE] = scale
    save_file({name: tensor.contiguous() for name, tensor in stored.items()}, path)


def reference_gpt(path: Path = WEIGHTS) -> tuple[GPT, list[Pair]]:
    """Load the GPT that was trained on `reference_text`, and the merges of its tokenizer."""
    stored = load_file(path)
    merges = [(left, right) for left, right in stored.pop(_MERGES).tolist()]
    n_heads = int(stored.pop(_HEADS))
    weights: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        if not name.endswith(_SCALE):
            weights[name] = tensor.float() * stored.get(name + _SCALE, torch.tensor(1.0))
    weights["output.weight"] = weights["token_embedding.weight"]
    vocab_size, d_model = weights["token_embedding.weight"].shape
    n_layers = len({name.split(".")[1] for name in weights if name.startswith("blocks.")})
    model = GPT(vocab_size, n_layers, d_model, n_heads, len(weights["position_embedding.weight"]))
    model.load_state_dict(weights)
    return model.eval(), merges
