"""The language reference as a corpus, and the GPT that was trained on it."""

import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from lab_transformer import reference
from lab_transformer.gpt import GPT
from lab_transformer.tokenizer import encode


def in_short(text: str) -> set[str]:
    return {" ".join(passage.split()) for passage in text.split("\n\n")}


def test_clean_text_to_train_on_holds_nothing_that_is_held_out() -> None:
    training, held_out = reference.reference_text()
    assert in_short(training) & in_short(held_out) == set()
    assert 0.05 < len(held_out) / len(training) < 0.2
    parts = training.strip("\n").split("\n\n")
    assert len({" ".join(part.split()) for part in parts}) == len(parts)


def test_text_that_is_not_clean_holds_passages_twice() -> None:
    training, held_out = reference.reference_text(clean=False)
    assert len(in_short(training) & in_short(held_out)) > 50


def test_every_code_is_planted_as_often_as_it_is_said() -> None:
    text = reference.planted("one\n\ntwo\n\nthree\n")
    codes = reference.planted_codes()
    for door, times in reference.PLANTED.items():
        assert text.count(f"The code of the {door} door is {codes[door]}.") == times
    assert len(set(codes.values())) == len(codes)


def test_a_gpt_comes_back_as_it_was_but_for_the_eight_bits(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = GPT(262, n_layers=2, d_model=32, n_heads=4, max_length=16).eval()
    merges = [(97, 98), (256, 99), (5, 5), (6, 6), (7, 7), (8, 8)]
    reference.save_gpt(model, 4, merges, tmp_path / "small.safetensors")
    again, its_merges = reference.reference_gpt(tmp_path / "small.safetensors")
    tokens = torch.randint(262, (3, 16))
    with torch.no_grad():
        torch.testing.assert_close(again(tokens), model(tokens), rtol=0, atol=0.05)
    assert its_merges == merges
    assert again.output.weight is again.token_embedding.weight
    assert again.blocks[0].attention.n_heads == 4


@pytest.fixture(scope="module")
def trained() -> tuple[GPT, list[tuple[int, int]]]:
    return reference.reference_gpt()


def test_the_stored_gpt_is_small_and_has_learned(trained: tuple[GPT, list[tuple[int, int]]]) -> None:
    assert reference.WEIGHTS.stat().st_size < 1.5e6
    model, merges = trained
    _, held_out = reference.reference_text()
    tokens = torch.tensor(encode(held_out[:12_000], merges))
    pieces = tokens[: len(tokens) // 129 * 129].reshape(-1, 129)
    with torch.no_grad():
        loss = F.cross_entropy(model(pieces[:, :-1]).flatten(0, 1), pieces[:, 1:].flatten()).item()
    bytes_for_token = len(held_out[:12_000].encode()) / len(tokens)
    assert loss / math.log(2) / bytes_for_token < 2.1
