"""Draws the pictures of the chapters in the language of `language.py`; every number comes from a block.

Nothing is trained here: all pictures together take seconds. `tests/plain/test_pictures.py` draws them
again and compares.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from language import Panel, number
from torch import Tensor

from lab_transformer.attention import (
    MultiHeadAttention,
    alignment_error_rate,
    alignment_from_attention,
    cross_attention,
    merge_heads,
    project_qkv,
    scaled_dot_product_attention,
    softmax,
    split_heads,
)
from lab_transformer.corpus import NOUNS
from lab_transformer.decoding import greedy_decode
from lab_transformer.loss import shift_right
from lab_transformer.masking import causal_mask, padding_mask
from lab_transformer.positional import sinusoidal_positions

DRAWN = Path(__file__).parent / "drawn"
# What the translator of week 7 wrote, and where it looked; `week7.py` trained it.
TRANSLATOR = json.loads((DRAWN / "translator.json").read_text(encoding="utf-8"))
ITALIAN = [entry for entry in TRANSLATOR["sentences"] if entry["language"] == "italian"]


def shape(tensor: Tensor) -> str:
    """Write the shape of a tensor."""
    return f"({', '.join(str(size) for size in tensor.shape)})"


# Week 2: the words, the features and the three matrices that the chapter makes up by hand.
BANK = ["money", "bank", "grows"]
VECTORS = torch.tensor([[2.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 1.0], [0.5, 0.0, 1.5, 0.0]])
W_Q = torch.tensor([[0.0], [0.0], [0.0], [3.0]])
W_K = torch.tensor([[1.0], [1.0], [0.0], [-2.0]])
W_V = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])


def draw_views() -> Panel:
    """Draw each word's vector and its three views."""
    panel = Panel(196)
    views = project_qkv(VECTORS, W_Q, W_K, W_V)
    panel.text(0, 10, "1  Three views of each word", "left title")
    panel.text(102, 34, "vector")
    for i, word in enumerate(BANK):
        panel.text(44, 60 + 30 * i, word, "right" if word != "bank" else "right strong")
        panel.grid(50, 48 + 30 * i, [VECTORS[i].tolist()], form="g", cell=(26, 24), most=2)
    panel.arrow((102, 138), (102, 152), (312, 152), plain=True)
    for name, kind, view, matrix, middle in [
        ("W^Q", "query", views[0], W_Q, 196),
        ("W^K", "key", views[1], W_K, 249),
        ("W^V", "value", views[2], W_V, 312),
    ]:
        panel.text(middle, 34, kind, kind)
        width = 26 * view.shape[1]
        for i in range(3):
            row = [view[i].tolist()]
            panel.grid(
                middle - width / 2, 48 + 30 * i, row, kind, "g", (26, 24), view.abs().max().item()
            )
        panel.arrow((middle, 152), (middle, 136), kind=kind)
        panel.text(middle, 166, name, kind)
        panel.shape(middle, 184, shape(matrix))
    panel.shape(102, 166, shape(VECTORS))
    return panel


def draw_scores() -> Panel:
    """Draw the table of scores between its queries and keys, and the weights that it becomes."""
    panel = Panel(196)
    q, k, _ = project_qkv(VECTORS, W_Q, W_K, W_V)
    scores = q @ k.mT
    weights = softmax(scores)
    panel.text(0, 10, "2  Every query meets every key", "left title")
    for i, word in enumerate(BANK):
        panel.text(44, 92 + 28 * i, word, "right" if word != "bank" else "right strong")
        panel.grid(48, 79 + 28 * i, [q[i].tolist()], "query", "g", (26, 26), 3)
        panel.text(104 + 44 * i, 34, word, "digits")
        panel.grid(82 + 44 * i, 46, [k[i].tolist()], "key", "g", (44, 24), 2)
        panel.grid(82, 79 + 28 * i, [scores[i].tolist()], form="g", cell=(44, 26), most=6)
        panel.grid(236, 79 + 28 * i, [weights[i].tolist()], cell=(34, 26), most=1)
    panel.arrow((217, 120), (234, 120))
    panel.text(148, 176, "scores")
    panel.shape(148, 190, shape(scores))
    panel.text(287, 58, "softmax of")
    panel.text(287, 71, "each row")
    panel.text(287, 176, "weights")
    panel.shape(287, 190, shape(weights))
    return panel


def draw_mixture() -> Panel:
    """Draw how bank mixes the values by its weights."""
    panel = Panel(210)
    q, k, v = project_qkv(VECTORS, W_Q, W_K, W_V)
    mixed, weights = scaled_dot_product_attention(q, k, v)  # of width 1: the root changes nothing
    panel.text(0, 10, "3  “bank” mixes the values", "left title")
    middles = [60, 170, 280]
    panel.attention([(170, 166)], [(x, 74) for x in middles], [weights[1].tolist()], "value")
    for i, (word, middle) in enumerate(zip(BANK, middles, strict=True)):
        panel.text(middle, 34, word, "strong" if word == "bank" else "")
        panel.grid(middle - 30, 46, [v[i].tolist()], "value", "g", (30, 26), 2)
        panel.text(middle + (-24 if i == 0 else 24), 96, number(weights[1, i].item()), "digits")
    panel.grid(130, 166, [mixed[1].tolist()], "value", ".2f", (40, 26), 2)
    panel.text(122, 179, "“bank” is now", "right")
    panel.shape(218, 179, f"one row of {shape(mixed)}", "left")
    return panel


# Week 3: four words of six numbers, in two heads.
def draw_cut(title: str, heads: Callable[[Tensor], Tensor]) -> Panel:
    """Draw which numbers of four words reach head 0, named by word and column."""
    panel = Panel(138)
    x = torch.arange(24).reshape(4, 6)
    chosen = set(heads(x)[0].flatten().tolist())
    panel.text(0, 10, title, "left title")
    for i, row in enumerate(x.tolist()):
        panel.text(66, 40 + 28 * i, f"word {i}", "right")
        for j, place in enumerate(row):
            panel.cell(
                74 + 40 * j, 28 + 28 * i, 40, 24, "query" if place in chosen else "", place in chosen
            )
            panel.text(94 + 40 * j, 40 + 28 * i, f"{i}{j}", "digits")
    return panel


def draw_to_heads() -> Panel:
    """Draw how the words become queries, keys and values, and these become heads."""
    panel = Panel(318)
    x = torch.zeros(2, 4, 6)
    heads = split_heads(x, 2)
    panel.text(0, 10, "1  From words to heads", "left title")
    panel.block(137, 30, 4, 6)
    panel.text(128, 46, "words", "right")
    panel.shape(128, 62, "(4 of 6 numbers)", "right")
    panel.shape(212, 46, "(batch, seq, d_model)", "left")
    panel.shape(212, 62, shape(x), "left")
    for name, kind, middle in [("W^Q", "query", 58), ("W^K", "key", 170), ("W^V", "value", 282)]:
        panel.arrow((170, 78), (middle, 124), kind=kind)
        panel.text(
            middle + (14 if middle == 170 else 0) * 1.5, 102 if middle == 170 else 96, name, kind
        )
        panel.text(middle, 184, {"query": "queries", "key": "keys", "value": "values"}[kind], kind)
        panel.arrow((middle, 212), (middle, 240), kind=kind)
        for head, tint in enumerate((1.0, 0.3)):
            panel.block(middle - 33 + 33 * head, 128, 4, 3, kind, tint)
            panel.block(middle - 38 + 43 * head, 244, 4, 3, kind, tint)
    panel.shape(170, 200, f"each (batch, seq, d_model)  {shape(x)}")
    panel.text(176, 226, "split_heads", "left")
    panel.shape(170, 308, f"each (batch, heads, seq, d_head)  {shape(heads)}")
    return panel


def draw_from_heads() -> Panel:
    """Draw how every head attends, and how the heads become words again."""
    panel = Panel(362)
    heads = split_heads(torch.zeros(2, 4, 6), 2)
    mixed, weights = scaled_dot_product_attention(heads, heads, heads)
    merged = merge_heads(mixed)
    panel.text(0, 10, "2  And back", "left title")

    def row(
        y: float, widths: tuple[int, int], gap: float, kind: str, words: tuple[str, str, str]
    ) -> None:
        left = 62 - (11 * sum(widths) + gap) / 2
        for width, start, tint in zip(
            widths, (left, left + 11 * widths[0] + gap), (1, 0.3), strict=True
        ):
            panel.block(start, y, 4, width, kind, tint)
        panel.text(126, y + 5, words[0], "left")
        panel.shape(126, y + 22, words[1], "left")
        panel.shape(126, y + 38, words[2], "left")

    panel.text(28, 36, "queries", "query")
    panel.text(96, 36, "keys", "key")
    panel.arrow((62, 40), (62, 60))
    panel.text(126, 44, "compare, softmax", "left")
    row(66, (4, 4), 8, "query", ("weights of each head", "(batch, heads, seq, seq)", shape(weights)))
    panel.arrow((62, 114), (62, 142))
    panel.text(72, 128, "× values", "left value")
    row(148, (3, 3), 8, "value", ("what each head found", "(batch, heads, seq, d_head)", shape(mixed)))
    panel.arrow((62, 196), (62, 224))
    panel.text(72, 210, "merge_heads", "left")
    row(230, (3, 3), 0, "value", ("heads side by side", "(batch, seq, d_model)", shape(merged)))
    panel.arrow((62, 278), (62, 306))
    panel.text(72, 292, "× W^O", "left")
    panel.block(29, 312, 4, 6)
    panel.text(126, 317, "words, as wide as before", "left")
    panel.shape(126, 334, "(batch, seq, d_model)", "left")
    panel.shape(126, 350, shape(merged), "left")
    return panel


# Week 4: three words of two numbers.
DOG, BITES, MAN = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
WORDS = {"dog": DOG, "bites": BITES, "man": MAN}


def draw_places(*words: str) -> Panel:
    """Draw the words of a sentence, what their places add, and what attention makes of the sum."""
    panel = Panel(138)
    x = torch.stack([WORDS[word] for word in words])
    places = sinusoidal_positions(3, 2)
    output, _ = scaled_dot_product_attention(x + places, x + places, x + places)
    panel.text(0, 10, " ".join(words), "left title")
    for middle, name in [(61, "word"), (127, "place"), (209, "goes in"), (303, "comes out")]:
        panel.text(middle, 34, name)
    for i, word in enumerate(words):
        top = 46 + 30 * i
        panel.text(38, top + 12, word, "right")
        panel.text(86, top + 12, "+")
        panel.text(168, top + 12, "=")
        panel.grid(42, top, [x[i].tolist()], form="g", cell=(19, 24), most=2)
        for left, vectors in [(92, places), (174, x + places), (268, output)]:
            panel.grid(left, top, [vectors[i].tolist()], cell=(35, 24), most=2)
        panel.arrow((246, top + 12), (266, top + 12))
    return panel


def draw_twice() -> Panel:
    """Draw what attention makes of one word at two places, without positions and with them."""
    panel = Panel(138)
    words = ["dog", "bites", "dog"]
    x = torch.stack([WORDS[word] for word in words])
    placed = x + sinusoidal_positions(3, 2)
    panel.text(0, 10, "dog bites dog", "left title")
    panel.text(64, 34, "word")
    panel.text(153, 34, "out, no places")
    panel.text(280, 34, "out, with places")
    for middle, given in [(153, x), (280, placed)]:
        output, _ = scaled_dot_product_attention(given, given, given)
        for i in range(3):
            panel.grid(middle - 34, 46 + 30 * i, [output[i].tolist()], cell=(34, 24), most=2)
        same = torch.allclose(output[0], output[2])
        edge = middle + 38
        panel.arrow((edge, 58), (edge + 6, 58), (edge + 6, 118), (edge, 118), plain=True)
        panel.text(edge + 10, 88, "=" if same else "≠", "left strong")
    for i, word in enumerate(words):
        panel.text(40, 58 + 30 * i, word, "right")
        panel.grid(44, 46 + 30 * i, [x[i].tolist()], form="g", cell=(20, 24), most=2)
    return panel


def draw_wiring(title: str, norm_first: bool) -> Panel:
    """Draw one sublayer beside the path, with the norm in the branch or on the path."""
    panel = Panel(206, 160)
    path, branch = 36, 112
    panel.text(0, 10, title, "left title")
    panel.text(path, 196, "x", "strong")
    panel.arrow((path, 186), (path, 91), kind="path")
    panel.plus(path, 82)
    panel.arrow((path, 176), (branch, 176), (branch, 162 if norm_first else 128))
    panel.box(branch - 44, 98, 88, 28, "sublayer")
    panel.arrow((branch, 98), (branch, 82), (path + 9, 82))
    if norm_first:
        panel.box(branch - 34, 138, 68, 22, "norm")
        panel.arrow((branch, 138), (branch, 128))
        panel.arrow((path, 73), (path, 22), kind="path")
    else:
        panel.arrow((path, 73), (path, 64), kind="path", plain=True)
        panel.box(path - 34, 42, 68, 22, "norm")
        panel.arrow((path, 42), (path, 22), kind="path")
    return panel


# Weeks 5 to 7: the blocks, read from bottom to top like the map of the front page.
# The source has three words and a pad; the target has the start token, three words and a pad.
SOURCE, TARGET = torch.tensor([[5, 6, 7, 0]]), torch.tensor([[1, 5, 6, 7, 0]])
SELF_SOURCE = padding_mask(SOURCE, 0)[0, 0].expand(4, 4)
SELF_TARGET = causal_mask(5) & padding_mask(TARGET, 0)[0, 0]
CROSS = padding_mask(SOURCE, 0)[0, 0].expand(5, 4)
PATH, BRANCH = 46, 160


def add_sublayer(panel: Panel, bottom: float, name: str, norm: str, kind: str = "") -> float:
    """Draw a pre-norm sublayer beside the path, from `bottom` up; returns where its sum stands."""
    top = bottom - 106
    panel.arrow((PATH, bottom), (PATH, top + 9), kind="path")
    panel.arrow((PATH, bottom - 8), (BRANCH, bottom - 8), (BRANCH, bottom - 20))
    panel.box(BRANCH - 40, bottom - 42, 80, 22, norm)
    panel.arrow((BRANCH, bottom - 42), (BRANCH, bottom - 54))
    panel.box(BRANCH - 62, bottom - 84, 124, 30, name, kind)
    panel.arrow((BRANCH, bottom - 84), (BRANCH, top), (PATH + 9, top))
    panel.plus(PATH, top)
    return top


def add_path(panel: Panel, bottom: float, top: float, name: str, length: str, tip: bool) -> None:
    """Draw a part of the path between sublayers, with what goes along it."""
    panel.arrow((PATH, bottom), (PATH, top), kind="path", plain=not tip)
    panel.text(PATH + 14, (bottom + top) / 2, name, "left strong")
    panel.shape(PATH + 40, (bottom + top) / 2, f"(batch, {length}, d_model)", "left")


def add_mask(
    panel: Panel, bottom: float, allowed: Tensor, words: str, sizes: str, rise: float = 69
) -> None:
    """Draw the mask of a sublayer to the right of it."""
    size = 40 / len(allowed)
    panel.mask(264, bottom - rise - 20, allowed.tolist(), size, padded=1)
    panel.arrow((260, bottom - 69), (BRANCH + 64, bottom - 69), kind="mask")
    panel.text(340, bottom - rise - 31, words, "right")
    panel.shape(340, bottom - 31, sizes, "right")


def add_feed_forward(panel: Panel, bottom: float, norm: str) -> float:
    """Draw the last sublayer of a block."""
    panel.text(227, bottom - 86, "each token alone", "left")
    panel.shape(227, bottom - 69, "d_model → d_ff", "left")
    panel.shape(227, bottom - 53, "→ d_model", "left")
    return add_sublayer(panel, bottom, "feed-forward", norm)


def draw_encoder_block() -> Panel:
    """Draw the encoder block with its path, shapes and mask."""
    panel = Panel(300)
    add_path(panel, 298, 270, "x", "seq", tip=False)
    first = add_sublayer(panel, 270, "self-attention", "norm 1", "query")
    add_mask(panel, 270, SELF_SOURCE, "hides pads", "(batch, 1, 1, seq)")
    add_path(panel, first - 9, first - 28, "h", "seq", tip=False)
    second = add_feed_forward(panel, first - 28, "norm 2")
    add_path(panel, second - 9, 2, "y", "seq", tip=True)
    return panel


def draw_decoder_block() -> Panel:
    """Draw the decoder block with its path, shapes and masks, and the memory that it asks."""
    panel = Panel(434)
    add_path(panel, 432, 404, "S", "query", tip=False)
    first = add_sublayer(panel, 404, "self-attention", "norm 1", "query")
    add_mask(panel, 404, SELF_TARGET, "hides future, pads", "(batch, 1, query, query)")
    add_path(panel, first - 9, first - 28, "S′", "query", tip=False)
    bottom = first - 28
    second = add_sublayer(panel, bottom, "cross-attention", "norm 2", "query")
    panel.mask(264, bottom - 122, CROSS.tolist(), 8, padded=1)
    panel.arrow(
        (260, bottom - 102), (245, bottom - 102), (245, bottom - 76), (224, bottom - 76), kind="mask"
    )
    panel.text(302, bottom - 110, "hides", "left")
    panel.text(302, bottom - 95, "pads", "left")
    panel.box(244, bottom - 36, 94, 22, "memory M")
    panel.shape(340, bottom - 4, "(batch, key, d_model)", "right")
    panel.arrow((260, bottom - 36), (260, bottom - 60), (224, bottom - 60), kind="key")
    panel.arrow((276, bottom - 36), (276, bottom - 68), (224, bottom - 68), kind="value")
    panel.text(282, bottom - 66, "values", "left value")
    panel.text(282, bottom - 50, "keys", "left key")
    add_path(panel, second - 9, second - 28, "S″", "query", tip=False)
    third = add_feed_forward(panel, second - 28, "norm 3")
    add_path(panel, third - 9, 2, "S‴", "query", tip=True)
    return panel


def draw_model() -> Panel:
    """Draw the whole model, with the shape of what goes along every arrow and its three masks."""
    panel = Panel(426)
    left, right = 80, 260

    def boxed(middle: float, y: float, words: str) -> None:
        panel.box(middle - 76, y, 152, 24, words)

    def masked(middle: float, y: float, words: str, mask: Tensor) -> None:
        panel.box(middle - 76, y, 152, 40, "", "query")
        panel.text(middle - 70, y + 20, words, "left")
        panel.mask(middle + 38, y + 4, mask.tolist(), 32 / len(mask), padded=1)

    def shaped(middle: float, y: float, sizes: str) -> None:
        panel.shape(middle, y - 10, sizes)
        panel.arrow((middle, y - 18), (middle, y - 30))

    def tokens(
        x: float, y: float, widths: Sequence[float], words: Sequence[str], kind: str = ""
    ) -> None:
        for width, word in zip(widths, words, strict=True):
            pad = word == "pad"
            panel.token(x, y, width, word, "pad" if pad else kind, 0.6 * (pad or bool(kind)))
            x += width

    tokens(2, 402, (24, 36, 56, 40), ("a", "red", "flower", "pad"))
    tokens(181, 402, (27, 33, 37, 36, 26), ("<s>", "un", "fiore", "rosso", "pad"))
    for middle, length, mask in [(left, "key", SELF_SOURCE), (right, "query", SELF_TARGET)]:
        shaped(middle, 402, f"(batch, {length})")
        boxed(middle, 348, "embedding, positions")
        shaped(middle, 348, f"(batch, {length}, d_model)")
        masked(middle, 276, "self-attention", mask)
        panel.arrow((middle, 276), (middle, 264 if middle == right else 260))
    panel.frame(1, 208, 158, 112)
    panel.text(10, 221, "encoder", "left strong")
    panel.text(150, 221, "× N", "right strong")
    boxed(left, 234, "feed-forward")
    panel.arrow((left, 234), (left, 200))
    boxed(left, 174, "norm")
    panel.text(left, 162, "memory", "strong")
    panel.shape(left, 147, "(batch, key, d_model)")
    panel.arrow((left - 4, 138), (left - 4, 128), (173, 128), (173, 238), (183, 238), kind="key")
    panel.arrow((left + 4, 138), (left + 4, 135), (166, 135), (166, 246), (183, 246), kind="value")
    panel.frame(181, 150, 158, 170)
    panel.text(190, 163, "decoder", "left strong")
    panel.text(330, 163, "× N", "right strong")
    masked(right, 222, "cross-attention", CROSS)
    panel.arrow((right, 222), (right, 204))
    boxed(right, 178, "feed-forward")
    panel.arrow((right, 178), (right, 142))
    boxed(right, 116, "norm")
    shaped(right, 116, "(batch, query, d_model)")
    boxed(right, 62, "linear, softmax")
    shaped(right, 62, "(batch, query, vocab)")
    tokens(181, 8, (27, 33, 37, 36, 26), ("un", "fiore", "rosso", "<e>", "pad"), "plus")
    panel.cell(4, 12, 12, 12, "query", 0.6)
    panel.text(22, 18, "may look", "left")
    panel.hatch(4, 34, 12, "mask")
    panel.text(22, 40, "hidden: the future", "left")
    panel.hatch(4, 56, 12, "pad")
    panel.text(22, 62, "hidden: padding", "left")
    return panel


# Week 6: the mask of the chapter's puzzle.
def draw_mask(title: str, causal: bool, padding: bool) -> Panel:
    """Draw who may look at whom under a causal mask, a padding mask, or both."""
    panel = Panel(196, 216)
    words = ["<start>", "the", "cat", "sleeps", "<pad>", "<pad>"]
    allowed = torch.ones(6, 6, dtype=torch.bool)
    if causal:
        allowed &= causal_mask(6)
    if padding:
        allowed &= padding_mask(torch.tensor([[1, 2, 3, 4, 0, 0]]), 0)[0, 0]
    panel.text(0, 10, title, "left title")
    for i, word in enumerate(words):
        panel.text(54, 73 + 22 * i, word, "right")
        panel.text(71 + 22 * i, 56, word, "left", turn=-50)
    panel.mask(60, 62, allowed.tolist(), 22, padded=2 if padding else 0)
    return panel


# Weeks 6 and 8: writing as frames, and training as a single one.
def add_frame(
    panel: Panel,
    y: float,
    width: float,
    given: Sequence[str],
    read: Sequence[str],
    appended: bool = False,
) -> None:
    """Draw what goes in and, below it, one row for each token: with a word in it if it is read."""
    for i, (word, said) in enumerate(zip(given, read, strict=True)):
        left = 44 + width * i
        new = appended and i == len(given) - 1
        panel.token(left, y, width - 4, word, "plus" if new else "", 0.4 * new)
        panel.arrow((left + width / 2 - 2, y + 22), (left + width / 2 - 2, y + 34))
        panel.token(left, y + 36, width - 4, said, "plus" if said else "mask", float(bool(said)))


def write(sentence: Sequence[str]) -> list[list[str]]:
    """Give what goes in, frame by frame, while greedy decoding writes a sentence that is certain."""
    words, prefixes = ["<start>", *sentence, "<end>"], []

    def step(tokens: Tensor) -> Tensor:
        prefixes.append([words[token] for token in tokens[0].tolist()])
        return torch.eye(len(words))[tokens.shape[1]].log()[None]

    greedy_decode(step, 0, len(words) - 1, len(words))
    return prefixes


def draw_writing(*sentence: str) -> Panel:
    """Draw the frames of writing: what goes in, which row is read, what is appended."""
    frames = write(sentence)
    said = [*sentence, "<end>"]
    width, pitch = 296 / len(frames), 78
    panel = Panel(24 + pitch * len(frames) - 14)
    panel.text(0, 10, f"Writing: {len(frames)} frames", "left title")
    for i, given in enumerate(frames):
        y = 28 + pitch * i
        panel.text(0, y + 11, f"in {i + 1}", "left")
        panel.text(0, y + 47, "out", "left")
        add_frame(panel, y, width, given, [""] * i + [said[i]], appended=i > 0)
        if i + 1 < len(frames):
            left = 44 + width * i + width / 2 - 2
            panel.arrow(
                (left, y + 58),
                (left, y + 68),
                (left + width, y + 68),
                (left + width, y + 76),
                kind="plus",
            )
    return panel


def draw_training(*sentence: str) -> Panel:
    """Draw the one frame of training: all rows are read, each is held against its target.

    The second row is wrong, as in the chapter's table, and its word goes nowhere.
    """
    words = [*sentence, "<end>", "<start>"]
    target = torch.arange(len(words) - 1)
    given = [words[token] for token in shift_right(target, len(words) - 1).tolist()]
    width = 296 / len(given)
    panel = Panel(154)
    panel.text(0, 10, "Training: one frame", "left title")
    panel.text(0, 39, "in", "left")
    panel.text(0, 75, "out", "left")
    panel.text(0, 119, "target", "left")
    favourites = [sentence[0], "dog", *sentence[2:], "<end>"]
    add_frame(panel, 28, width, given, favourites)
    for i, token in enumerate(target.tolist()):
        middle = 44 + width * i + width / 2 - 2
        panel.token(44 + width * i, 108, width - 4, words[token])
        panel.text(middle, 97, "=" if words[token] == favourites[i] else "≠", "strong")
    panel.text(0, 146, "Every row is read, and nothing is appended.", "left")
    return panel


# Week 7: the two attentions, by the numbers that the chapter works out by hand.
MEMORY = {"the": [0.0, 0.0], "red": [0.0, 1.0], "house": [1.0, 0.0]}
STATES = {"lāl": [0.0, 1.0], "ghar": [1.0, 0.0]}


def by_hand() -> MultiHeadAttention:
    """Make the attention of the chapter's example."""
    layer = MultiHeadAttention(d_model=2, n_heads=1).requires_grad_(False)
    matrices = {
        "w_q": 2 * torch.eye(2),
        "w_k": 2 * torch.eye(2),
        "w_v": torch.diag(torch.tensor([3.0, 1.0])),
    }
    for name, matrix in {**matrices, "w_o": torch.eye(2)}.items():
        getattr(layer, name).weight.copy_(matrix.T)
        getattr(layer, name).bias.zero_()
    return layer


def draw_who_asks(title: str, asking: dict[str, list[float]], asked: str, sizes: str) -> Panel:
    """Draw who asks below and who is asked above, with a line of attention between each two."""
    panel = Panel(250)
    states, memory = torch.tensor(list(asking.values())), torch.tensor(list(MEMORY.values()))
    output, weights = cross_attention(states, memory, by_hand())
    queries = [(60 + 220 * i / (len(asking) - 1), 164) for i in range(len(asking))]
    keys = [(60 + 110 * j, 98) for j in range(3)]
    panel.text(0, 10, title, "left title")
    panel.text(60, 38, f"keys = {asked} W^K", "key")
    panel.text(250, 38, f"values = {asked} W^V", "value")
    panel.attention(queries, keys, weights[0].tolist())
    for (x, y), word in zip(keys, MEMORY, strict=True):
        panel.text(x, y - 34, word)
        panel.cell(x - 34, y - 22, 34, 22, "key", 0.8)
        panel.cell(x, y - 22, 34, 22, "value", 0.8)
    for (x, y), word in zip(queries, asking, strict=True):
        panel.token(x - 34, y, 68, word, "query", 0.5)
    panel.text(170, 202, "queries = S W^Q", "query")
    panel.shape(170, 224, f"weights {sizes}  {shape(weights[0])}")
    panel.shape(170, 242, f"one new vector for each query  {shape(output)}")
    return panel


# Italian words that take their form from a noun.
ARTICLES = {
    "il",
    "lo",
    "la",
    "i",
    "gli",
    "le",
    "un",
    "uno",
    "una",
    "questo",
    "questa",
    "questi",
    "queste",
    "quest'",
}
HEADS = "the queen does not lift the yellow beds"


def articles_on_nouns() -> tuple[list[int], int]:
    """Count for each head how many articles look most at a noun, in all sentences; and all articles."""
    nouns = {word for noun in NOUNS for word in noun.english}
    counts, articles = [0] * 4, 0
    for entry in ITALIAN:
        looked = torch.tensor(entry["weights"]).argmax(dim=-1).tolist()
        for t, word in enumerate(entry["output"]):
            if word in ARTICLES:
                articles += 1
                for head, row in enumerate(looked):
                    counts[head] += entry["source"][row[t]] in nouns
    return counts, articles


def draw_head(agreeing: bool) -> Panel:
    """Draw where a head of the trained translator looks while it writes one sentence.

    Either the head whose articles look at nouns, or the head that agrees best with the gold alignment.
    """
    entry = next(entry for entry in ITALIAN if " ".join(entry["source"]) == HEADS)
    counts, articles = articles_on_nouns()
    assert max(counts) == articles == 18, "the text says: all eighteen"
    assert len(ITALIAN) == 12, "the text says: in the twelve sentences"
    weights = torch.tensor(entry["weights"])
    sure, possible = ({(s, t) for s, t in entry[kind]} for kind in ("sure", "possible"))
    errors = [alignment_error_rate(alignment_from_attention(head), sure, possible) for head in weights]
    head = errors.index(min(errors)) if agreeing else counts.index(articles)
    source, output = entry["source"], entry["output"]
    panel = Panel(48 + 26 * max(len(source), len(output)))
    panel.text(0, 10, f"Head {head + 1} of {len(weights)}", "left title")
    panel.text(112, 34, "looked at", "right key")
    panel.text(230, 34, "being written", "left query")
    queries = [(224, 60 + 26 * t) for t in range(len(output))]
    keys = [(118, 60 + 26 * s) for s in range(len(source))]
    panel.attention(queries, keys, weights[head].tolist())
    for word, (x, y) in zip(source, keys, strict=True):
        panel.text(x - 6, y, word, "right")
    for word, (x, y) in zip(output, queries, strict=True):
        panel.text(x + 6, y, word, "left strong" if word in ARTICLES else "left")
    return panel


PICTURES: dict[str, Callable[[], Panel]] = {
    "week2-views": draw_views,
    "week2-scores": draw_scores,
    "week2-mixture": draw_mixture,
    "week3-split": lambda: draw_cut("Split: a part of every word", lambda x: split_heads(x, 2)),
    "week3-reshape": lambda: draw_cut("Reshape: all of two words", lambda x: x.reshape(2, 4, 3)),
    "week3-to-heads": draw_to_heads,
    "week3-from-heads": draw_from_heads,
    "week4-dog-first": lambda: draw_places("dog", "bites", "man"),
    "week4-man-first": lambda: draw_places("man", "bites", "dog"),
    "week4-dog-twice": draw_twice,
    "week5-post-norm": lambda: draw_wiring("Post-norm", norm_first=False),
    "week5-pre-norm": lambda: draw_wiring("Pre-norm", norm_first=True),
    "week5-encoder-block": draw_encoder_block,
    "week6-causal": lambda: draw_mask("Causal", causal=True, padding=False),
    "week6-padding": lambda: draw_mask("Padding", causal=False, padding=True),
    "week6-both": lambda: draw_mask("Both", causal=True, padding=True),
    "week6-writing": lambda: draw_writing("the", "dog", "sleeps"),
    "week6-training": lambda: draw_training("the", "cat", "sleeps"),
    "week7-self": lambda: draw_who_asks("Self-attention: one sentence", MEMORY, "S", "(seq, seq)"),
    "week7-cross": lambda: draw_who_asks("Cross-attention: two sentences", STATES, "M", "(query, key)"),
    "week7-decoder-block": draw_decoder_block,
    "week7-model": draw_model,
    "week7-head-words": lambda: draw_head(agreeing=True),
    "week7-head-nouns": lambda: draw_head(agreeing=False),
    "week8-writing": lambda: draw_writing("la", "casa", "rossa", "dorme"),
}


def main(folder: Path) -> None:
    """Draw all pictures into a folder."""
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main(DRAWN)
