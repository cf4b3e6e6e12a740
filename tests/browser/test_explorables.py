"""The figures that answer to the reader: their arithmetic beside the Python blocks, and their knobs."""

import json
import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Locator, Page, expect
from torch import Tensor

from lab_grader.serve import BOOK as HTML
from lab_transformer import (
    attention,
    decoding,
    families,
    masking,
    metrics,
    normalization,
    positional,
    rnn,
    tokenizer,
)
from lab_transformer.gpt import GPT
from lab_transformer.variants import Llama

WEEKS = {
    "gradient": 1, "attention": 2, "scaling": 3, "positions": 4,
    "norms": 5, "masking": 6, "translator": 7, "beams": 8,
    "bleu": 9, "tokenizer": 10, "families": 11, "guesses": 11, "weight": 12,
}  # fmt: skip


@pytest.fixture(scope="module")
def page(browser: Browser, address: str) -> Page:
    return browser.new_page()


def page_of(name: str) -> str:
    """The page of the book that holds an explorable."""
    (path,) = HTML.glob(f"book/{WEEKS[name]:02}_*.html")
    return f"book/{path.name}"


@pytest.fixture
def run(page: Page, address: str) -> Callable[..., Any]:
    """Call JavaScript with the names of a module of book/explore in its scope."""

    def call(module: str, code: str, **values: object) -> Any:
        if not page.url.endswith("notation.html"):
            page.goto(address + "book/notation.html")
        source = f"{address}_static/explore/{module}.js"
        names = ", ".join(values)
        return page.evaluate(
            f"async ([source, {{ {names} }}]) => {{ const m = await import(source); return {code}; }}",
            [source, values],
        )

    return call


@pytest.fixture
def figure(page: Page, address: str) -> Callable[[str], Locator]:
    """Open the page of an explorable and give its figure."""

    def visit(name: str) -> Locator:
        page.goto(address + page_of(name))
        found = page.locator(f"#explorable-{name}")
        expect(found.get_by_role("status")).not_to_be_empty()
        return found

    return visit


def doubles(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def same(numbers: Any, block: Tensor) -> None:
    torch.testing.assert_close(torch.tensor(numbers, dtype=torch.float64), block, rtol=1e-6, atol=1e-6)


def number(figure: Locator, name: str) -> float:
    """Read a live number; one far from 1 is written as 2.5 × 10⁻³."""
    text = figure.locator("dl > div", has=figure.page.get_by_text(name, exact=True)).locator("dd")
    plain = text.inner_text().replace("\N{MINUS SIGN}", "-").split()
    raised = (
        plain[2][2:].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")) if len(plain) > 2 else 0
    )
    return float(plain[0]) * 10 ** int(raised)


def turn(figure: Locator, label: str, key: str) -> None:
    """Move a slider by a key, as a reader without a mouse does."""
    slider = figure.get_by_role("slider", name=label)
    slider.focus()
    slider.press(key)


# The arithmetic


def test_softmax_agrees_with_the_block_even_for_huge_scores(run: Callable[..., Any]) -> None:
    scores = torch.cat([300 * doubles(3, 7), doubles(3, 7)])
    same(run("math", "scores.map(m.softmax)", scores=scores.tolist()), attention.softmax(scores))


def test_gradient_of_softmax_agrees_with_autograd(run: Callable[..., Any]) -> None:
    scores = doubles(7)
    jacobian = torch.autograd.functional.jacobian(attention.softmax, scores)
    same(run("math", "m.softmaxJacobian(m.softmax(scores))", scores=scores.tolist()), jacobian)


def test_layer_norm_agrees_with_the_block(run: Callable[..., Any]) -> None:
    x, gain, bias = doubles(5, 8), doubles(8, seed=1), doubles(8, seed=2)
    values = {"x": x.tolist(), "gain": gain.tolist(), "bias": bias.tolist()}
    numbers = run("math", "x.map((row) => m.layerNorm(row, gain, bias))", **values)
    same(numbers, normalization.layer_norm(x, gain, bias))


def test_random_numbers_are_standard_normal(run: Callable[..., Any]) -> None:
    numbers = torch.tensor(run("math", "m.randomMatrix(1, 20000, m.normals(7))[0]"))
    assert numbers.mean().abs() < 0.03
    assert (numbers.var() - 1).abs() < 0.05
    assert (numbers.abs() < 1).double().mean() == pytest.approx(math.erf(math.sqrt(0.5)), abs=0.02)


@pytest.mark.parametrize(("radius", "size"), [(0.7, 1e-3), (1.3, 1e-3), (1.3, 1.0)])
def test_gradient_through_time_agrees_with_the_blocks(
    run: Callable[..., Any], radius: float, size: float
) -> None:
    code = """(() => {
        const n = m.network(radius, 12, size);
        const states = m.rnnForward(n.xs, n.h0, n.wx, n.wh, n.b);
        return { ...n, norms: m.gradientByDistance(states, n.wx, n.wh) };
    })()"""
    found = run("gradient", code, radius=radius, size=size)
    names = ("xs", "h0", "wx", "wh", "b")
    xs, h0, w_x, w_h, b = (torch.tensor(found[name], dtype=torch.float64) for name in names)
    states, _ = rnn.rnn_forward(xs.requires_grad_(), h0, w_x, w_h, b)
    same(found["norms"], rnn.gradient_by_distance(states, xs).detach())
    assert torch.linalg.eigvals(w_h).abs().max().item() == pytest.approx(radius)


@pytest.mark.parametrize("rounds", [1, 3])
def test_context_of_a_sentence_agrees_with_the_block(run: Callable[..., Any], rounds: int) -> None:
    words = ["the", "bank", "by", "the", "river", "pays", "cash"]
    found = run("attention", "({x: m.embed(words), ...m.attend(words, n)})", words=words, n=rounds)
    context = torch.tensor(found["x"], dtype=torch.float64)
    for _ in range(rounds):
        context, weights = attention.contextualize(context)
    same(found["context"], context)
    same(found["weights"], weights)


@pytest.mark.parametrize("d", [1, 64, 512])
def test_weights_with_and_without_the_root_agree_with_the_blocks(
    run: Callable[..., Any], d: int
) -> None:
    code = """(() => {
        const v = m.draw(4);
        const at = (divisor) => m.look(m.scores(v, d, 12, divisor));
        return { ...v, rooted: at(Math.sqrt(d)), plain: at(1) };
    })()"""
    found = run("scaling", code, d=d)
    q, k = (torch.tensor(found[name], dtype=torch.float64)[..., :d] for name in ("q", "keys"))
    _, (rooted,) = attention.scaled_dot_product_attention(q[None], k, k)
    plain = attention.softmax(k @ q)
    for name, weights in (("rooted", rooted), ("plain", plain)):
        same(found[name]["weights"], weights)
        same(found[name]["bits"], torch.special.entr(weights).sum() / math.log(2))
        jacobian = torch.diag(weights) - torch.outer(weights, weights)
        same(found[name]["gradient"], jacobian.norm())


@pytest.mark.parametrize(("d_model", "base"), [(2, 10000.0), (64, 10000.0), (6, 30.0)])
def test_positions_agree_with_the_block(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, d_model: int, base: float
) -> None:
    monkeypatch.setattr(positional, "BASE", base)
    table = run("positions", "m.sinusoidalPositions(100, d, base)", d=d_model, base=base)
    same(table, positional.sinusoidal_positions(100, d_model).double())


def test_batch_norm_agrees_with_the_block(run: Callable[..., Any]) -> None:
    x, gain, bias = doubles(7, 5), doubles(5, seed=1), doubles(5, seed=2)
    counts = [True, True, False, True, False, True, True]
    values = {"x": x.tolist(), "gain": gain.tolist(), "bias": bias.tolist(), "counts": counts}
    numbers = run("norms", "m.batchNorm(x, gain, bias, counts)", **values)
    same(numbers, normalization.batch_norm(x[None], gain, bias, torch.tensor([counts]))[0])


def test_softmax_under_a_mask_agrees_with_the_block(run: Callable[..., Any]) -> None:
    scores, mask = 5 * doubles(6, 7), doubles(6, 7, seed=1) > 0
    mask[2] = False
    numbers = run("masking", "m.maskedSoftmax(s, mask)", s=scores.tolist(), mask=mask.tolist())
    same(numbers, masking.masked_softmax(scores, mask))


@pytest.mark.parametrize("prefix", [0, 1, 4, 6])
def test_the_mask_with_a_prefix_agrees_with_the_block(run: Callable[..., Any], prefix: int) -> None:
    found = run("families", "m.prefixMask(prefix, 6)", prefix=prefix)
    assert found == families.prefix_mask(torch.tensor([prefix]), 6)[0, 0].tolist()


def test_no_family_asks_for_a_word_that_is_seen(run: Callable[..., Any]) -> None:
    code = "[...Array(8).keys()].map(i => m.asked(kind, i, 3, 8))"
    goals = {kind: run("families", code, kind=kind) for kind in ("encoder", "prefix", "decoder")}
    assert goals["encoder"] == [*range(8)]
    assert goals["decoder"] == [*range(1, 8), None]
    assert goals["prefix"] == [None, None, *range(3, 8), None]


def test_weights_of_the_translator_agree_with_the_block_and_with_what_was_trained(
    run: Callable[..., Any],
) -> None:
    data = json.loads((HTML / "_static" / "explore" / "translator.json").read_text(encoding="utf-8"))
    for one in data["sentences"]:
        q, k, v = (torch.tensor(one[x], dtype=torch.float64) for x in ("queries", "keys", "weights"))
        found = run("translator", "m.weigh(q, k)", q=one["queries"], k=one["keys"])
        _, weights = attention.scaled_dot_product_attention(q, k, k)
        same(found, weights)
        torch.testing.assert_close(weights, v, rtol=0, atol=1e-4)
        code = "m.errorRate(m.align(m.average(w)), sure, possible)"
        rate = run("translator", code, w=found, sure=one["sure"], possible=one["possible"])
        sure, possible = ({tuple(link) for link in one[kind]} for kind in ("sure", "possible"))
        links = attention.alignment_from_attention(weights)
        assert rate == pytest.approx(attention.alignment_error_rate(links, sure, possible))


@pytest.mark.parametrize("penalty", [0.0, 0.7, 2.0])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_beam_search_agrees_with_the_block(run: Callable[..., Any], width: int, penalty: float) -> None:
    found = run(
        "beams",
        """({ results: m.beamSearch(m.step, 0, m.WORDS.length - 1, width, 7, penalty).results,
             table: m.WORDS.map((_, word) => m.step([word]).map(Math.exp)) })""",
        width=width,
        penalty=penalty,
    )
    table = torch.tensor(found["table"], dtype=torch.float64).log()
    results = decoding.beam_search(lambda p: table[p[:, -1]], 0, len(table) - 1, width, 7, penalty)
    assert [tokens for tokens, _ in found["results"]] == [tokens for tokens, _ in results]
    same([score for _, score in found["results"]], torch.tensor([s for _, s in results]).double())


def test_bleu_agrees_with_the_block(run: Callable[..., Any]) -> None:
    rng = random.Random(0)

    def sentence() -> list[str]:
        return rng.choices(["the", "cat", "sits", "constructor"], k=rng.randint(1, 9))

    for most in (1, 2, 4):
        for length in (1, 2, 5, 20):
            hypotheses, references = ([sentence() for _ in range(length)] for _ in range(2))
            values = {"h": hypotheses, "r": references, "most": most}
            found = run("bleu", "m.bleu(h, r, most).score", **values)
            assert found == pytest.approx(metrics.bleu(hypotheses, references, most))
    score = run("bleu", "m.bleu([w], [w]).score", w=["a", "b", "c", "d"])
    assert score == pytest.approx(100)


# What a tokenizer stumbles over: scripts, marks, joined emoji, numbers that are no digits, odd spaces.
ODD_TEXTS = [
    "", " ", "  the  value\tof\r\n\n    x", "The princess opens the heavy backpack.", "l'età è naïve",
    "राजकुमारी भारी बैग खोलती है।", "हिन्दी में १२३", "e\u0301a\u200db\u200cc \u0301", "家 かな 한국어 ไทย",
    "שלום مرحبا", "🙂🙃👩‍👩‍👧 🇮🇹", "1234 x2 ²½Ⅷ ٣", "__init__ _a_ a_b",
    "\x00\x1c\x85\xa0\u2003\u3000\ufeff!",
    "aaaaaaaaa bbbbbbb", "ß ﬁ İ ǅ", "𝔘𐍈𝟘 \U000e0100", "for i in range(10):\n    print(i)\n",
    " \u0903a \u0e33",
]  # fmt: skip


@pytest.mark.parametrize("vocabulary", ["reference", "mixed"])
def test_tokens_agree_with_the_block(run: Callable[..., Any], vocabulary: str) -> None:
    data = json.loads((HTML / "_static" / "explore" / "tokenizer.json").read_text(encoding="utf-8"))
    merges = [(left, right) for left, right in data[vocabulary]]
    code = "texts.map((text) => [m.preTokens(text), m.encode(text, merges)])"
    found = run("tokenizer", code, texts=ODD_TEXTS, merges=data[vocabulary])
    for text, (pieces, tokens) in zip(ODD_TEXTS, found, strict=True):
        assert pieces == tokenizer.pre_tokens(text), ascii(text)
        assert tokens == tokenizer.encode(text, merges), ascii(text)


def test_each_merge_joins_the_pair_that_was_learned_first(run: Callable[..., Any]) -> None:
    merges = [(97, 110), (98, 97), (256, 97)]
    steps = run("tokenizer", "m.mergeSteps('banana', merges)", merges=merges)
    assert [step["tokens"] for step in steps] == [
        [*b"banana"], [98, 256, 256, 97], [98, 256, 258],
    ]  # fmt: skip
    assert [step.get("id") for step in steps] == [None, 256, 258]


# The knobs


def test_radius_decides_between_a_gradient_that_vanishes_and_one_that_explodes(
    figure: Callable[[str], Locator],
) -> None:
    gradient = figure("gradient")
    turn(gradient, "Spectral radius", "Home")
    assert number(gradient, "first word ÷ last word") == pytest.approx(0.5**29, rel=0.05)
    turn(gradient, "Spectral radius", "End")
    assert number(gradient, "first word ÷ last word") > 1e4
    expect(gradient.get_by_role("status")).to_contain_text("exploded")


def test_large_inputs_let_the_gradient_vanish_whatever_the_radius(
    figure: Callable[[str], Locator],
) -> None:
    gradient = figure("gradient")
    turn(gradient, "Spectral radius", "End")
    turn(gradient, "Size of the inputs", "End")
    assert number(gradient, "first word ÷ last word") < 1e-3
    assert number(gradient, "the radius alone") > 1e4


def test_bank_leans_to_the_words_that_the_reader_types(figure: Callable[[str], Locator]) -> None:
    bank = figure("attention")
    place = bank.locator("dl > div").nth(2).locator("dd")
    expect(place).to_contain_text("finance 1.23")
    bank.get_by_label("Your sentence").fill("river bank flows")
    expect(place).to_contain_text("water 1.23")
    assert number(bank, "cosine with the point kept") == 1


def test_word_that_looks_is_chosen_by_keyboard(figure: Callable[[str], Locator]) -> None:
    sentence = figure("attention")
    bank = sentence.get_by_role("radio", name="bank")
    expect(bank).to_be_checked()
    bank.press("ArrowRight")
    expect(sentence.get_by_role("radio", name="grows")).to_be_checked()
    expect(sentence.get_by_role("radio", name="grows")).to_be_focused()
    expect(sentence.get_by_role("status")).to_contain_text("“grows” moves")


def test_words_that_the_table_does_not_know_are_named(figure: Callable[[str], Locator]) -> None:
    sentence = figure("attention")
    sentence.get_by_label("Your sentence").fill("the <b>bank</b>")
    expect(sentence.get_by_role("status")).to_contain_text("zeros: the, b.")


def test_motion_is_left_out_for_those_who_ask_for_less(figure: Callable[[str], Locator]) -> None:
    sentence = figure("attention")
    button = sentence.get_by_role("button", name="river bank flows")
    jump = """(button) => {
        const dot = button.closest("figure").querySelector("svg[viewBox] circle.fill.first");
        const before = dot.getAttribute("cx");
        button.click();
        return before !== dot.getAttribute("cx");
    }"""
    assert not button.evaluate(jump)
    sentence.page.emulate_media(reduced_motion="reduce")
    sentence.get_by_role("button", name="money bank grows").click()
    assert button.evaluate(jump)
    sentence.page.emulate_media(reduced_motion="no-preference")


def test_wide_keys_saturate_the_softmax_only_without_the_root(figure: Callable[[str], Locator]) -> None:
    scaling = figure("scaling")
    turn(scaling, "Width d_k", "Home")
    assert number(scaling, "entropy without") == number(scaling, "entropy with the root")
    turn(scaling, "Width d_k", "End")
    assert number(scaling, "entropy without") < 0.5
    assert number(scaling, "entropy with the root") > 1.5
    assert number(scaling, "gradient without") < number(scaling, "gradient with the root") / 5


def test_dot_product_of_two_positions_depends_on_their_distance_only(
    figure: Callable[[str], Locator],
) -> None:
    positions = figure("positions")
    before = number(positions, "dot product of the two")
    turn(positions, "First position", "End")
    assert number(positions, "dot product of the two") == before
    turn(positions, "Distance to the second", "ArrowRight")
    assert number(positions, "dot product of the two") != before


def test_base_and_width_change_the_table(figure: Callable[[str], Locator]) -> None:
    positions = figure("positions")
    image = positions.locator("image")
    seen = {image.get_attribute("href")}
    for knob in ("Width", "Base"):
        turn(positions, knob, "ArrowLeft")
        seen.add(image.get_attribute("href"))
    assert len(seen) == 3


def test_padding_moves_batch_norm_and_not_layer_norm(figure: Callable[[str], Locator]) -> None:
    norms = figure("norms")
    turn(norms, "Rows of padding", "End")
    assert number(norms, "“old”, batch norm") > 0.5
    assert number(norms, "“old”, layer norm") == 1
    norms.get_by_label("Leave padding out").press("Space")
    assert number(norms, "“old”, batch norm") == 0


def test_a_mask_can_be_built_by_keyboard_and_shows_what_leaks(
    figure: Callable[[str], Locator],
) -> None:
    mask = figure("masking")
    ahead = mask.locator("dl > div").nth(0).locator("dd")
    expect(ahead).not_to_have_text("0%")
    mask.get_by_role("button", name="Causal", exact=True).press("Enter")
    expect(ahead).to_have_text("0%")
    mask.get_by_label("the may look at cat").press("Space")
    expect(ahead).not_to_have_text("0%")
    expect(mask.get_by_role("status")).to_contain_text("a leak")


def test_weights_hidden_too_late_no_longer_sum_to_one(figure: Callable[[str], Locator]) -> None:
    mask = figure("masking")
    whole = mask.locator("dl > div").nth(2).locator("dd")
    mask.get_by_role("button", name="Both").click()
    expect(whole).to_have_text("6 of 6")
    mask.get_by_label("Hide after the softmax").check()
    expect(whole).not_to_have_text("6 of 6")


def test_a_word_sees_what_its_family_lets_it_see(figure: Callable[[str], Locator]) -> None:
    sentence = figure("families")
    seen = sentence.locator("dl > div").nth(0).locator("dd")
    expect(seen).to_have_text("7 of 8")
    sentence.get_by_label("Family").select_option("decoder")
    expect(seen).to_have_text("4 of 8")
    sentence.get_by_role("radio").nth(3).press("ArrowRight")
    expect(seen).to_have_text("5 of 8")
    expect(sentence.get_by_role("status")).to_contain_text("next word")


def test_a_covered_word_is_guessed(figure: Callable[[str], Locator]) -> None:
    guesses = figure("guesses")
    data = json.loads((HTML / "_static" / "explore" / "guesses.json").read_text(encoding="utf-8"))
    for place, word in enumerate(data[0]["words"]):
        guesses.get_by_role("radio").nth(place).check()
        best = data[0]["places"][place]
        expect(guesses.locator("dd").nth(0)).to_have_text(f"“{word}”")
        expect(guesses.locator("dd").nth(1)).to_have_text(str(best["rank"]))
        expect(guesses.get_by_role("img")).to_contain_text(best["guesses"][0][0])


def test_a_written_word_shows_where_the_translator_looked(figure: Callable[[str], Locator]) -> None:
    translator = figure("translator")
    first = translator.get_by_role("status").inner_text()
    translator.get_by_role("radio").nth(2).hover()
    expect(translator.get_by_role("status")).not_to_have_text(first)
    translator.get_by_label("Language").select_option("Hindi")
    translator.get_by_role("radio").first.press("ArrowRight")
    expect(translator.get_by_role("radio").nth(1)).to_be_checked()


def test_width_finds_what_greedy_misses_and_the_penalty_prefers_longer_sentences(
    figure: Callable[[str], Locator],
) -> None:
    beams = figure("beams")
    best = beams.locator("dl > div").nth(0).locator("dd")
    expect(best).to_have_text("the dog barks loudly")
    turn(beams, "Beam width", "ArrowRight")
    expect(best).to_have_text("a dog")
    turn(beams, "Beam width", "End")
    turn(beams, "Length penalty", "End")
    expect(best).to_have_text("a dog barks loudly")


def test_a_beam_grows_step_by_step(figure: Callable[[str], Locator]) -> None:
    beams = figure("beams")
    # As its text says: with width 1, at the first step.
    expect(beams.get_by_role("slider", name="Beam width")).to_have_value("1")
    expect(beams.get_by_role("slider", name="Steps")).to_have_value("1")
    before = beams.locator("svg circle").count()
    beams.get_by_role("button", name="One step").click()
    assert beams.locator("svg circle").count() > before
    beams.get_by_role("button", name="From the start").click()
    expect(beams.locator("svg circle")).to_have_count(before)


def test_bleu_falls_to_zero_where_no_run_of_four_is_left(figure: Callable[[str], Locator]) -> None:
    bleu = figure("bleu")
    assert number(bleu, "BLEU") == 80.9
    bleu.get_by_label("Your translation").fill("The cat lies on the red mat")
    assert number(bleu, "BLEU") == 48.9
    expect(bleu.get_by_role("status")).to_contain_text("1 of 4 runs of four")
    bleu.get_by_role("button", name="Always the same word").click()
    assert number(bleu, "BLEU") == 0
    expect(bleu.locator(".runs .clipped")).to_have_count(5)
    expect(bleu.get_by_role("status")).to_contain_text("5 words are there more often")
    bleu.get_by_role("button", name="Half of it").click()
    assert number(bleu, "BLEU") == 47.2
    assert number(bleu, "brevity penalty") == 0.47
    bleu.get_by_role("button", name="Word for word").click()
    assert number(bleu, "BLEU") == 100
    bleu.get_by_label("Your translation").fill("")
    expect(bleu.get_by_role("status")).to_contain_text("Type a translation")


def test_hindi_is_dear_with_one_vocabulary_and_not_with_the_other(
    figure: Callable[[str], Locator],
) -> None:
    tokens = figure("tokenizer")
    english = number(tokens, "tokens")
    tokens.get_by_role("button", name="Hindi").click()
    assert number(tokens, "tokens") > 3 * english
    tokens.get_by_label("Vocabulary learned from").select_option("mixed")
    assert number(tokens, "tokens") < 2 * english


def test_bytes_of_a_word_are_merged_one_after_the_other(figure: Callable[[str], Locator]) -> None:
    tokens = figure("tokenizer")
    tokens.get_by_label("Your text").fill("the the 🙂")
    expect(tokens.locator(".chip")).to_have_count(4)
    rows = tokens.locator(".merging li")
    expect(rows).to_have_count(1)
    expect(rows.first.locator(".token")).to_have_count(4)
    tokens.get_by_role("button", name="One merge").click()
    expect(rows).to_have_count(2)
    tokens.get_by_role("button", name="All merges").click()
    expect(tokens.get_by_role("status")).to_contain_text("nothing is left to merge")
    tokens.get_by_role("radio").first.check(force=True)
    expect(rows).to_have_count(1)
    expect(rows.first.locator(".token")).to_have_count(3)
    tokens.get_by_label("Your text").fill("")
    expect(tokens.get_by_role("status")).to_contain_text("an empty text has no tokens")


def test_the_squares_of_a_mask_are_one_stop_for_the_tab_key(figure: Callable[[str], Locator]) -> None:
    squares = figure("masking").locator(".mask input")
    assert squares.count() == 36
    squares.first.focus()
    squares.first.press("ArrowRight")
    expect(squares.nth(1)).to_be_focused()
    squares.nth(1).press("ArrowDown")
    expect(squares.nth(7)).to_be_focused()
    squares.nth(7).press(" ")
    expect(squares.nth(7)).not_to_be_checked()
    squares.nth(7).press("Tab")
    assert not squares.page.evaluate("document.activeElement.closest('.mask')")
    squares.page.keyboard.press("Shift+Tab")
    expect(squares.nth(7)).to_be_focused()


# The pages


def test_only_pages_with_an_explorable_load_scripts_for_it() -> None:
    loading = {path.name for path in HTML.glob("**/*.html") if "_static/explore" in path.read_text()}
    holding = {path.name for path in HTML.glob("**/*.html") if 'class="explorable"' in path.read_text()}
    assert loading == holding


@pytest.mark.parametrize("name", WEEKS)
def test_page_says_so_where_scripts_are_switched_off(name: str) -> None:
    _, found, figure = (HTML / page_of(name)).read_text().partition(f'id="explorable-{name}"')
    assert found
    assert "JavaScript" in figure.partition("<noscript>")[2].partition("</noscript>")[0]


def test_page_opened_as_a_file_says_how_to_open_it(page: Page) -> None:
    page.goto((HTML / page_of("gradient")).as_uri())
    expect(page.locator("#explorable-gradient .trouble")).to_be_visible()


def test_a_model_weighs_what_its_blocks_have(run: Callable[..., Any]) -> None:
    shape = {"layers": 3, "width": 64, "heads": 8, "pairs": 2, "words": 50, "context": 32}
    modern = shape | {"modern": True, "hidden": 2.5}
    plain = shape | {"modern": False, "hidden": 4, "pairs": 8}
    llama = Llama(50, n_layers=3, d_model=64, n_heads=8, n_kv_heads=2, d_ff=160)
    gpt = GPT(50, n_layers=3, d_model=64, n_heads=8, max_length=32)
    for facts, model in ((modern, llama), (plain, gpt)):
        weight = run("weight", "m.weigh(facts)", facts=facts)
        assert weight["parameters"] == sum(p.numel() for p in model.parameters())
        assert weight["cache"] == 2 * 3 * facts["pairs"] * 8 * 32


def test_known_models_weigh_what_their_makers_say(run: Callable[..., Any]) -> None:
    weights = run("weight", "Object.values(m.MODELS).map((one) => m.weigh(one).parameters)")
    assert [round(n / 1e9, 1) for n in weights] == [0.1, 174.6, 6.7, 7.2, 69.0]
    assert weights[0] == 124_439_808


def test_key_value_heads_are_halved_and_the_cache_with_them(figure: Callable[[str], Locator]) -> None:
    weight = figure("weight")
    cache = weight.locator("dl > div").nth(2).locator("dd")
    expect(cache).to_have_text("1.00 GB")
    weight.get_by_label("Model").select_option(label="Mistral 7B (2023)")
    expect(weight.get_by_role("slider", name="Key-value heads")).to_have_value("8")
    expect(cache).to_have_text("1.00 GB")  # a quarter of the heads, four times the context
    turn(weight, "Context", "ArrowRight")
    expect(cache).to_have_text("2.00 GB")
    expect(weight.get_by_label("Model")).to_have_value("5")
