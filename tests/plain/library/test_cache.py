"""A step with a key-value cache gives what the whole pass gives."""

import pytest
import torch
from comparison import assert_close

from lab_transformer.attention import MultiHeadAttention
from lab_transformer.decoding import CachedAttention, beam_search, greedy_decode, sample_token
from lab_transformer.generation import generate, gpt_step, translation_step
from lab_transformer.gpt import GPT
from lab_transformer.masking import causal_mask
from lab_transformer.transformer import Transformer

BOS, EOS = 1, 2


@pytest.fixture
def translator(device, dtype) -> Transformer:
    # pad_id -1: no token of the target is padding, so a prefix may hold any of them.
    model = Transformer(
        source_vocab=11, target_vocab=13, d_model=24, n_heads=3, d_ff=40, pad_id=-1, max_length=20
    )
    return model.to(device, dtype).eval()


@pytest.fixture
def gpt(device, dtype) -> GPT:
    model = GPT(vocab_size=13, n_layers=2, d_model=24, n_heads=3, max_length=8).to(device, dtype)
    # At its initial size the model is almost indifferent; sharpen it, so that words differ.
    torch.nn.init.normal_(model.token_embedding.weight, std=0.7)
    return model.eval()


def uncached_translation_step(model, source):
    memory, mask = model.encode(source[None])

    @torch.no_grad()
    def step(prefixes):
        prefixes = prefixes.to(memory.device)
        logits = model.decode(prefixes, memory.expand(len(prefixes), -1, -1), mask)[0]
        return logits[:, -1].log_softmax(dim=-1)

    return step


def uncached_gpt_step(model):
    device = model.token_embedding.weight.device
    with torch.no_grad():
        return lambda prefixes: model(prefixes.to(device))[:, -1].log_softmax(dim=-1).detach()


@pytest.mark.parametrize("pieces", [[7], [1] * 7, [3, 1, 3], [1, 6], [6, 1]])
def test_cached_attention_in_pieces_equals_one_causal_pass(pieces, draw, device, dtype):
    attention = MultiHeadAttention(24, 3).to(device, dtype)
    x = draw(2, 7, 24)
    output, weights = attention(x, x, x, causal_mask(7).to(device))
    cached, start = CachedAttention(attention), 0
    for piece in pieces:
        end = start + piece
        new = x[:, start:end]
        result = cached(new, new, new)
        assert_close(result, (output[:, start:end], weights[:, :, start:end, :end]))
        start = end


def test_greedy_translation_is_the_same_with_a_cache(translator, device):
    for seed in range(5):
        source = torch.randint(11, (7,), generator=torch.Generator().manual_seed(seed)).to(device)
        cached = greedy_decode(translation_step(translator, source), BOS, EOS, 15)
        assert cached == greedy_decode(uncached_translation_step(translator, source), BOS, EOS, 15)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("width", [1, 2, 5])
def test_beams_are_the_same_with_a_cache(width, penalty, translator, device):
    source = torch.randint(11, (7,), device=device)
    cached, uncached = (
        beam_search(make(translator, source), BOS, EOS, width, 9, penalty)
        for make in (translation_step, uncached_translation_step)
    )
    assert [tokens for tokens, _ in cached] == [tokens for tokens, _ in uncached]
    assert [score for _, score in cached] == pytest.approx([score for _, score in uncached], rel=1e-4)


def test_a_cache_follows_prefixes_that_are_reordered_repeated_and_dropped(translator, device):
    source = torch.randint(11, (7,), device=device)
    cached, uncached = (
        translation_step(translator, source),
        uncached_translation_step(translator, source),
    )
    for prefixes in (
        [[1]],
        [[1, 5], [1, 6], [1, 7]],
        [[1, 7, 3], [1, 5, 4], [1, 7, 8]],
        [[1, 7, 8, 2], [1, 7, 8, 9]],
        [[1, 7, 8, 9, 4]],
        [[1, 4, 4]],  # another sentence: everything is forgotten
        [[1, 4, 4, 6]],
        [[1, 4, 4, 6]],  # asked once more
    ):
        assert_close(cached(torch.tensor(prefixes)), uncached(torch.tensor(prefixes)))


def test_source_padding_stays_hidden_with_a_cache(device, dtype):
    model = Transformer(11, 13, d_model=24, n_heads=3, d_ff=40, max_length=20).to(device, dtype)
    source = torch.tensor([3, 4, 5, 6], device=device)
    padded = torch.nn.functional.pad(source, (0, 3))
    cached, step = translation_step(model, padded), translation_step(model, source)
    for prefixes in ([[1]], [[1, 5], [1, 6]], [[1, 6, 7]]):
        assert_close(cached(torch.tensor(prefixes)), step(torch.tensor(prefixes)))


def test_two_sentences_do_not_share_a_cache(translator, device):
    one, other = torch.randint(11, (2, 7), device=device)
    steps = [translation_step(translator, source) for source in (one, other)]
    for prefixes in ([[1]], [[1, 5]], [[1, 5, 7]]):
        for step, source in zip(steps, (one, other), strict=True):
            expected = uncached_translation_step(translator, source)(torch.tensor(prefixes))
            assert_close(step(torch.tensor(prefixes)), expected)


def test_decoding_with_a_cache_leaves_the_model_as_it_was(translator, device):
    names = [name for name, _ in translator.named_modules()]
    source, target = torch.randint(11, (2, 7), device=device), torch.randint(13, (2, 5), device=device)
    before = translator(source, target)
    greedy_decode(translation_step(translator, source[0]), BOS, EOS, 9)
    assert [name for name, _ in translator.named_modules()] == names
    assert torch.equal(translator(source, target), before)


def test_a_gpt_step_equals_the_whole_pass(gpt):
    cached, uncached = gpt_step(gpt), uncached_gpt_step(gpt)
    for prefixes in ([[4, 5]], [[4, 5, 6]], [[4, 5, 6, 7], [4, 5, 6, 1]], [[4, 5, 6, 1, 1]], [[9]]):
        assert_close(cached(torch.tensor(prefixes)), uncached(torch.tensor(prefixes)))


@pytest.mark.parametrize("prompt", [[3], [3, 4, 5, 6, 7, 8], list(range(12))])
def test_text_is_the_same_with_a_cache_even_when_the_window_moves(prompt, gpt, device):
    text = generate(gpt, prompt, 15, generator=torch.Generator(device).manual_seed(4))
    tokens, generator, step = (
        list(prompt),
        torch.Generator(device).manual_seed(4),
        uncached_gpt_step(gpt),
    )
    for _ in range(15):
        log_probabilities = step(torch.tensor([tokens[-gpt.max_length :]]))
        tokens.append(int(sample_token(log_probabilities[0], generator=generator)))
    assert text == tokens


def test_a_text_of_one_repeated_token_does_not_confuse_the_window(gpt, device):
    cached, uncached = gpt_step(gpt), uncached_gpt_step(gpt)
    for length in (*range(1, 9), 8, 8):
        prefixes = torch.full((1, length), 5)
        assert_close(cached(prefixes), uncached(prefixes))


def test_text_ends_with_the_end_token_where_it_is_drawn(gpt, device):
    generator = torch.Generator(device).manual_seed(0)
    text = generate(gpt, [3], 200, temperature=50.0, generator=generator, eos_id=EOS)
    assert text[-1] == EOS
    assert EOS not in text[:-1]
