"""The walk through the whole model: its numbers beside the blocks, its stations, the ways to them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect
from torch import Tensor

from lab_grader.serve import BOOK as HTML
from lab_transformer.attention import softmax, split_heads
from lab_transformer.loss import shift_right
from lab_transformer.transformer import Transformer

WALK = "book/walk.html"
START = 1
SOURCE = Path(__file__).parents[2] / "book" / "walk.md"
STATIONS = re.findall(r"^\(station-([\w-]+)\)=$", SOURCE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (HTML / "_static" / "explore" / "walk.json").read_text(encoding="utf-8")
    )
    return found


@pytest.fixture(scope="module")
def model(data: dict[str, Any]) -> Transformer:
    """The translator, built of the book's blocks from the stored weights."""
    weights = {name: torch.tensor(rows, dtype=torch.float64) for name, rows in data["weights"].items()}
    weights["output.weight"] = weights["target_embedding.weight"]
    built = Transformer(len(data["english"]), len(data["italian"]), **data["sizes"]).double()
    built.load_state_dict(weights)
    return built.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def page(browser: Browser, address: str) -> Page:
    return browser.new_page(viewport={"width": 1360, "height": 900})


@pytest.fixture(scope="module")
def run(page: Page, address: str) -> Any:
    """All that the page's script computes for its sentence."""
    page.goto(address + WALK)
    code = """async (folder) => {
        const { walk } = await import(`${folder}/walk.js`);
        return walk(await (await fetch(`${folder}/walk.json`)).json());
    }"""
    return page.evaluate(code, f"{address}_static/explore")


@pytest.fixture
def figure(page: Page, address: str) -> Locator:
    return visit(page, address + WALK)


def visit(page: Page, where: str) -> Locator:
    """Open the page anew; with a fragment alone, the browser would stay on it."""
    page.goto("about:blank")
    page.goto(where)
    found = page.locator("#explorable-walk")
    expect(found.get_by_role("status")).not_to_be_empty()
    return found


def slider(figure: Locator, name: str) -> Locator:
    return figure.get_by_role("slider", name=name, exact=True)


def station_shown(figure: Locator, name: str) -> None:
    """Check that this station is the one that is seen, and no other."""
    expect(figure.locator(".station:visible")).to_have_count(1)
    expect(figure.locator(f".station:has(#station-{name})")).to_be_visible()
    expect(slider(figure, "Station")).to_have_value(str(STATIONS.index(name) + 1))


# The numbers


def record(model: Transformer, call: Any) -> dict[str, Tensor]:
    """Run the model and keep what every part of it gives; of a pair, what it attends to, too."""
    kept: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        def hook(_: Any, __: Any, result: Any) -> None:
            if isinstance(result, tuple):
                kept[name], kept[f"{name}.weights"] = result[0][0], result[1][0]
            else:
                kept[name] = result[0]

        return hook

    hooks = [part.register_forward_hook(keep(name)) for name, part in model.named_modules() if name]
    call()
    for hook in hooks:
        hook.remove()
    return kept


def attention(kept: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    projected = {which: split_heads(kept[f"{name}.w_{which}"], 2) for which in "qkv"}
    looks = kept[f"{name}.weights"]
    return projected | {"looks": looks, "found": looks @ projected["v"], "output": kept[name]}


def entering(model: Transformer, rows: Tensor) -> dict[str, Tensor]:
    positions = model.positions[: len(rows)]
    return {
        "embedded": rows,
        "scaled": 4 * rows,
        "positions": positions,
        "input": 4 * rows + positions,
    }


def fed(model: Transformer, kept: dict[str, Tensor], block: str, norm: str) -> dict[str, Tensor]:
    widen = model.get_submodule(f"{block}.feed_forward.w_1")
    return {
        "hidden": widen(kept[f"{block}.{norm}"]).relu(),
        "output": kept[f"{block}.feed_forward"],
    }


def reading(model: Transformer, ids: list[int]) -> dict[str, Any]:
    kept = record(model, lambda: model.encode(torch.tensor([ids])))
    block = "encoder.blocks.0"
    entered = entering(model, kept["source_embedding"])
    return entered | {
        "normed": kept[f"{block}.norm_1"],
        "attention": attention(kept, f"{block}.attention"),
        "attended": entered["input"] + kept[f"{block}.attention"],
        "fed": fed(model, kept, block, "norm_2"),
        "states": kept[block],
        "memory": kept["encoder.norm"],
    }


def writing(model: Transformer, ids: list[int], memory: Tensor) -> dict[str, Any]:
    kept = record(model, lambda: model.decode(torch.tensor([ids]), memory[None]))
    block = "decoder.blocks.0"
    entered = entering(model, kept["target_embedding"])
    attended = entered["input"] + kept[f"{block}.attention"]
    return entered | {
        "normed": kept[f"{block}.norm_1"],
        "attention": attention(kept, f"{block}.attention"),
        "attended": attended,
        "cross": attention(kept, f"{block}.cross_attention"),
        "crossed": attended + kept[f"{block}.cross_attention"],
        "fed": fed(model, kept, block, "norm_3"),
        "states": kept[block],
        "final": kept["decoder.norm"],
        "logits": kept["output"],
        "probabilities": softmax(kept["output"]),
    }


def same(found: Any, block: Any, where: str = "") -> None:
    """Compare all numbers of a tree of them, and that neither side has more than the other."""
    if isinstance(block, dict):
        assert set(found) - {"chosen"} == set(block), where
        for name, part in block.items():
            same(found[name], part, f"{where} {name}")
    else:
        numbers = torch.tensor(found, dtype=torch.float64)
        torch.testing.assert_close(
            numbers, block, rtol=1e-6, atol=1e-6, msg=lambda text: f"{where}: {text}"
        )


def test_every_number_of_the_encoder_is_that_of_the_blocks(run: Any, model: Transformer) -> None:
    same(run["encoder"], reading(model, run["ids"]))


def test_every_number_of_the_training_pass_is_that_of_the_blocks(run: Any, model: Transformer) -> None:
    memory, _ = model.encode(torch.tensor([run["ids"]]))
    (given,) = shift_right(torch.tensor([run["answers"]]), START).tolist()
    same(run["training"], writing(model, given, memory[0]))


def test_every_number_of_every_writing_pass_is_that_of_the_blocks(run: Any, model: Transformer) -> None:
    memory, _ = model.encode(torch.tensor([run["ids"]]))
    written = [START]
    for found in run["writing"]:
        right = writing(model, written, memory[0])
        same(found, right)
        assert found["chosen"] == right["logits"][-1].argmax().item()
        written.append(found["chosen"])
    assert written[1:] == run["answers"]


def test_stored_model_is_whole_and_small(
    data: dict[str, Any], model: Transformer, figure: Locator
) -> None:
    assert sum(parameter.numel() for parameter in model.parameters()) == data["parameters"]
    assert (HTML / "_static" / "explore" / "walk.json").stat().st_size < 300_000
    assert f"{data['parameters']:,} parameters" in figure.page.locator("article").inner_text()


def test_the_heads_look_where_the_page_says(run: Any, data: dict[str, Any]) -> None:
    """Its text speaks of this sentence and this model: another model needs another text."""
    princess, heavy, backpack = (data["source"].index(w) for w in ("princess", "heavy", "backpack"))
    first, second = 0, 3
    assert data["source"][first] == data["source"][second] == "the"
    looks = torch.tensor(run["encoder"]["attention"]["looks"])
    assert looks[:, first].max(dim=0).values.argmax() == princess
    assert looks[:, second].max(dim=0).values.argmax() == backpack
    cross = torch.tensor(run["training"]["cross"]["looks"]).argmax(dim=-1)
    words = [data["italian"][answer] for answer in run["answers"]]
    assert cross[:, words.index("lo")].tolist() == [second, second]
    assert cross[:, words.index("zaino")].tolist() == [backpack, backpack]
    assert cross[:, words.index("pesante")].tolist() == [heavy, heavy]


# The stations


def test_keys_lead_from_the_first_station_to_the_last(figure: Locator) -> None:
    station_shown(figure, "tokens")
    knob = slider(figure, "Station")
    knob.focus()
    for name in STATIONS[1:]:
        knob.press("ArrowRight")
        station_shown(figure, name)
    knob.press("Home")
    station_shown(figure, STATIONS[0])
    knob.press("End")
    station_shown(figure, STATIONS[-1])
    assert figure.page.url.endswith(f"#station-{STATIONS[-1]}")
    figure.get_by_role("button", name="Back").press("Enter")
    station_shown(figure, STATIONS[-2])


def test_every_station_has_a_picture_and_says_another_sentence(figure: Locator) -> None:
    said = set()
    for name in STATIONS:
        figure.locator(f"nav a[href='#station-{name}']").click()
        station_shown(figure, name)
        picture = figure.locator(".station:visible .picture")
        sentence = picture.get_attribute("aria-label") or ""
        expect(figure.get_by_role("status")).to_have_text(sentence)
        assert picture.locator("svg, table, ol").count() >= 1
        said.add(sentence)
        expect(figure.locator("nav [aria-current=step]")).to_have_attribute("href", f"#station-{name}")
    assert len(said) == len(STATIONS)


def test_writing_has_a_row_more_with_each_pass_and_training_always_all(
    page: Page, address: str
) -> None:
    figure = visit(page, f"{address}{WALK}#station-state")
    knob = slider(figure, "Pass")
    training, writing = figure.locator(".station:visible .frame").all()
    cells = "svg rect:is(.plus, .minus)"
    knob.press("Home")
    for written in range(1, 8):
        expect(writing.locator(cells)).to_have_count(16 * written)
        expect(writing.locator(".read")).to_have_count(1)
        expect(training.locator(cells)).to_have_count(16 * 7)
        knob.press("ArrowRight")
    expect(figure.get_by_role("status")).to_contain_text("“<end>”")


def test_mask_hatches_what_lies_ahead(page: Page, address: str) -> None:
    figure = visit(page, f"{address}{WALK}#station-masked-attention")
    slider(figure, "Pass").press("Home")
    training, writing = figure.locator(".station:visible .frame").all()
    expect(training.locator("path.closed")).to_have_count(2 * 21)
    expect(writing.locator("path.closed")).to_have_count(0)


def test_only_the_decoder_has_passes(page: Page, address: str) -> None:
    figure = visit(page, f"{address}{WALK}#station-memory")
    expect(slider(figure, "Pass")).to_have_count(0)
    slider(figure, "Station").press("ArrowRight")
    expect(slider(figure, "Pass")).to_be_visible()


# The ways in and out


def test_address_opens_a_station_and_so_does_the_list_of_contents(page: Page, address: str) -> None:
    figure = visit(page, f"{address}{WALK}#station-cross-attention")
    station_shown(figure, "cross-attention")
    expect(figure.locator(".station:visible h2")).to_be_in_viewport()
    page.locator(".bd-sidebar-secondary a", has_text="Feed-forward").click()
    station_shown(figure, "feed-forward")


def test_a_phone_that_follows_a_link_sees_slider_and_station(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    for name in ("tokens", "cross-attention", "loop"):
        figure = visit(page, f"{address}{WALK}#station-{name}")
        page.wait_for_timeout(1000)  # the browser scrolls to the place by itself, too: who is the last?
        expect(slider(figure, "Station")).to_be_in_viewport()
        expect(figure.locator(".station:visible h2")).to_be_in_viewport()
    page.close()


def test_a_chapter_leads_to_its_station_and_the_station_back(page: Page, address: str) -> None:
    (chapter,) = HTML.glob("book/07_*.html")
    page.goto(f"{address}book/{chapter.name}")
    page.locator("a[href='walk.html#station-cross-attention']").click()
    station_shown(page.locator("#explorable-walk"), "cross-attention")
    page.locator(".station:visible a", has_text="Week 7").click()
    expect(page).to_have_url(re.compile(r"07_\w+\.html#cross-attention$"))


def test_chapters_and_stations_lead_to_each_other() -> None:
    there = {
        (chapter.name[:2], station)
        for chapter in HTML.glob("book/[0-9][0-9]_*.html")
        for station in re.findall(r'href="walk.html#station-([\w-]+)"', chapter.read_text("utf-8"))
    }
    parts = re.split(r'id="station-', (HTML / WALK).read_text("utf-8").partition("</article>")[0])
    back = {
        (week, part.partition('"')[0])
        for part in parts[1:]
        for week in re.findall(r'href="(\d\d)_\w+\.html#', part)
    }
    assert there == back
    assert {f"{week:02}" for week in range(1, 9)} <= {week for week, _ in there}
    assert {station for _, station in there} == set(STATIONS)


# Everybody


@pytest.mark.parametrize("width", [390, 1360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_station_keeps_a_reader_out_or_is_too_wide(
    browser: Browser, address: str, scheme: str, width: int
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    visit(page, f"{address}{WALK}#station-state")
    # All of them in view: one look instead of sixteen.
    page.add_style_tag(content=".walk .station { display: block !important; }")
    expect(page.locator(".station:visible")).to_have_count(len(STATIONS))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shrunk = """all => all.filter(
        (one) => one.getBoundingClientRect().width < one.viewBox.baseVal.width - 1).length"""
    assert page.eval_on_selector_all(".station svg", shrunk) == 0
    found = Axe().run(page, context="#explorable-walk").response["violations"]
    page.close()
    assert [(one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in found] == []


def test_paper_shows_all_stations_with_their_pictures(figure: Locator) -> None:
    figure.page.emulate_media(media="print")
    expect(figure.locator(".station:visible .picture")).to_have_count(len(STATIONS))
    expect(figure.locator("nav")).not_to_be_visible()
    expect(slider(figure, "Station")).to_have_count(0)
    figure.page.emulate_media(media="screen")


def test_without_scripts_the_stations_can_be_read(browser: Browser, address: str) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(address + WALK)
    expect(page.locator("article section section h2")).to_have_count(len(STATIONS))
    expect(page.locator("article section section h2").last).to_be_visible()
    assert "JavaScript" in page.content().partition("<noscript>")[2].partition("</noscript>")[0]
    page.close()
