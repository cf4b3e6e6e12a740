"""The rendered book in a browser: every page, in both themes, on a wide and on a narrow screen."""

import functools
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from lab_check.exercises import catalogue
from lab_grader.serve import BOOK as HTML

PAGES = sorted(
    str(page.relative_to(HTML))
    for folder in ("book", "notebooks")
    for page in HTML.glob(f"{folder}/**/*.html")
)
CHAPTERS = [page for page in PAGES if re.match(r"book/\d\d_", page)]
NOTEBOOKS = [page for page in PAGES if page.startswith("notebooks/")]


def typeset(page: Page, where: str) -> None:
    """Open a page and wait until it is whole: a network at rest says nothing of formulas being set."""
    page.goto(where, wait_until="networkidle")
    page.wait_for_function("!document.querySelector('.math') || window.MathJax?.startup?.promise")
    page.evaluate("window.MathJax?.startup?.promise")


def test_every_week_has_a_chapter_and_a_notebook() -> None:
    weeks = sorted({f"{exercise.week:02}" for exercise in catalogue().values()})
    assert [Path(page).name[:2] for page in CHAPTERS] == weeks
    assert [Path(page).name[:2] for page in NOTEBOOKS] == weeks


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1360, "light")])
def test_pages_ask_nobody_else_raise_no_error_and_never_scroll_sideways(
    browser: Browser, address: str, width: int, scheme: str
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    trouble: list[str] = []
    page.on("request", lambda r: r.url.startswith((address, "data:")) or trouble.append(r.url))
    page.on("response", lambda r: r.status < 400 or trouble.append(f"{r.status} {r.url}"))
    page.on("console", lambda m: m.type == "error" and trouble.append(m.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    for name in ["index.html", "search.html", *PAGES]:
        typeset(page, address + name)
        root = "document.documentElement"
        if page.evaluate(f"{root}.scrollWidth > {root}.clientWidth"):
            trouble.append(f"{name} scrolls sideways")
    page.close()
    assert trouble == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_keeps_a_reader_out(browser: Browser, address: str, scheme: str) -> None:
    page = browser.new_page(viewport={"width": 1360, "height": 900}, color_scheme=scheme)
    # What the theme changes are colours: the dark one needs no second look at the structure.
    options: dict[str, object] = {"resultTypes": ["violations"]}
    if scheme == "dark":
        options["runOnly"] = ["color-contrast"]
    axe, trouble = Axe(), []
    for name in PAGES if scheme == "light" else ["book/intro.html", *CHAPTERS]:
        page.goto(address + name)
        for violation in axe.run(page, options=options).response["violations"]:
            if violation["impact"] in ("serious", "critical"):
                places = [node["html"][:160] for node in violation["nodes"][:3]]
                trouble.append((name, violation["id"], len(violation["nodes"]), places))
    page.close()
    assert trouble == []


class Links(HTMLParser):
    """The links and the ids of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.ids = {""}
        self.feed((HTML / page).read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids.add(found.get("id") or "")
        if tag == "a" and found.get("href"):
            self.links.add(found["href"] or "")


@functools.cache
def links(page: str) -> Links:
    return Links(page)


def test_links_inside_the_book_lead_somewhere() -> None:
    broken = []
    for page in [*PAGES, "search.html"]:
        for link in links(page).links:
            path, anchor = urldefrag(unquote(link))
            if re.match(r"[a-z]+:|//", link):
                continue
            target = (HTML / page).parent / path if path else HTML / page
            if not target.is_file():
                broken.append((page, link))
            elif target.suffix == ".html":
                place = str(target.resolve().relative_to(HTML.resolve()))
                if anchor not in links(place).ids:
                    broken.append((page, link))
    assert broken == []


@pytest.fixture
def context(browser: Browser) -> BrowserContext:
    return browser.new_context(viewport={"width": 1360, "height": 900})


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


def test_search_finds_a_word_of_a_chapter(page: Page, address: str) -> None:
    page.goto(f"{address}search.html?q=teacher+forcing")
    expect(page.locator("#search-results li a").first).to_be_visible()
    found = [link.get_attribute("href") for link in page.locator("#search-results li a").all()]
    assert any("06_masking" in (link or "") for link in found)


def test_the_theme_switches_and_stays(page: Page, address: str) -> None:
    page.goto(address + CHAPTERS[0])
    theme = page.locator("html")
    button = page.locator(".theme-switch-button").first
    seen = set()
    for _ in range(3):
        button.click()
        seen.add(theme.get_attribute("data-theme"))
        chosen = theme.get_attribute("data-mode")
    assert seen == {"light", "dark"}
    page.goto(address + CHAPTERS[1])
    assert theme.get_attribute("data-mode") == chosen


def test_every_question_answers_back(page: Page, address: str) -> None:
    for chapter in CHAPTERS:
        page.goto(address + chapter)
        questions = page.locator(".quiz .question")
        assert 6 <= questions.count() <= 10, chapter
        for kind, word in (("right", "Right."), ("wrong", "No.")):
            answer = page.locator(f".quiz details.{kind}").first
            why = answer.locator(".why")
            expect(why).not_to_be_visible()
            answer.locator("summary").focus()
            page.keyboard.press("Enter")
            expect(why).to_be_visible()
            expect(why).to_contain_text(word)


def test_the_right_answer_stands_at_no_place_of_its_own() -> None:
    for chapter in CHAPTERS:
        text = (HTML / chapter).read_text(encoding="utf-8")
        kinds = re.findall(r'<details class="(right|wrong)" name="(question-\d+)">', text)
        questions = {name: [kind for kind, other in kinds if other == name] for _, name in kinds}
        places = [answers.index("right") for answers in questions.values()]
        most = max(places.count(place) for place in places)
        assert most <= 0.6 * len(places), (chapter, places)


def test_a_phone_shows_formulas_and_drawings_at_a_size_to_read(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    for chapter in CHAPTERS:
        typeset(page, address + chapter)
        beyond = "all => all.filter(e => e.getBoundingClientRect().right > innerWidth).length"
        assert page.locator("mjx-container").count() > 0
        assert page.eval_on_selector_all("mjx-container", beyond) == 0, chapter
        assert page.locator("mjx-merror").count() == 0, chapter
        widths = "all => all.map(e => e.getBoundingClientRect().width)"
        assert min(page.eval_on_selector_all("figure.drawn .wide svg", widths), default=500) >= 500, (
            chapter
        )
        # A panel fits the page without being shrunk: its words are as large as they were written.
        assert page.eval_on_selector_all("svg.lab", beyond) == 0, chapter
        sizes = """all => all.map(e => parseFloat(getComputedStyle(e).fontSize)
            * e.ownerSVGElement.clientWidth / e.ownerSVGElement.viewBox.baseVal.width)"""
        assert min(page.eval_on_selector_all("svg.lab text, svg.lab tspan", sizes), default=11) >= 11
    page.close()


def test_no_word_of_a_picture_sticks_out_of_it(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 1360, "height": 900})
    out = """all => all.filter(e => {
        const own = e.getBoundingClientRect(), all = e.ownerSVGElement.getBoundingClientRect();
        return own.left < all.left - 1 || own.right > all.right + 1
            || own.top < all.top - 1 || own.bottom > all.bottom + 1;
    }).map(e => e.textContent)"""
    for chapter in CHAPTERS:
        page.goto(address + chapter)
        assert page.eval_on_selector_all("svg.lab text", out) == [], chapter
    page.close()


def test_every_chapter_shows_its_place_on_the_map(page: Page, address: str) -> None:
    for week, chapter in enumerate(CHAPTERS, start=1):
        page.goto(address + chapter)
        place = page.locator("a.here")
        expect(place).to_have_text(re.compile("You are here: "))
        lit = page.locator("a.here g.lit")
        assert 1 <= lit.count() < page.locator("a.here g").count(), week


def test_a_page_loads_what_it_needs_and_no_more(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(address + CHAPTERS[2], wait_until="networkidle")
    sizes = "performance.getEntries().map(one => [one.decodedBodySize ?? 0, one.name])"
    loaded = sorted(page.evaluate(sizes))
    assert 1e6 < sum(size for size, _ in loaded) < 2.2e6, loaded[-5:]
    # Icons come from a font.
    icon = page.locator(".search-button i, .theme-switch-button i").first
    family = icon.evaluate("one => getComputedStyle(one, '::before').fontFamily")
    assert "Font Awesome" in family
    page.close()


def test_a_chapter_says_how_long_it_takes_and_leads_to_its_notebook(page: Page, address: str) -> None:
    for chapter in CHAPTERS:
        page.goto(address + chapter)
        line = page.locator("h1 + .reading")
        expect(line).to_have_text(re.compile(r"^\d+ minutes · Open this week's notebook$"))
        assert (line.locator("a").get_attribute("href") or "").endswith(Path(chapter).name)


def test_a_week_read_to_its_end_is_remembered(page: Page, address: str) -> None:
    page.goto(address + CHAPTERS[1])
    week = page.locator(".bd-sidebar-primary a", has_text=page.title().split(" — ")[0]).first
    expect(week).not_to_have_class(re.compile(r"\bread\b"))
    page.locator(".prev-next-footer").scroll_into_view_if_needed()
    expect(week).to_have_class(re.compile(r"\bread\b"))
    page.goto(address + "book/intro.html")
    expect(page.locator("#reading-progress")).to_have_text(
        re.compile(f"1 of {len(CHAPTERS)} weeks read")
    )


def test_a_notebook_can_be_launched_downloaded_edited_and_asked_about(page: Page, address: str) -> None:
    for notebook in NOTEBOOKS:
        page.goto(address + notebook)
        name = Path(notebook).with_suffix(".ipynb").name
        targets = {
            link.get_attribute("href") for link in page.locator(".article-header-buttons a").all()
        }
        assert any("colab" in target and name in target for target in targets), targets
        assert any("binder" in target and name in target for target in targets), targets
        assert any("/edit/" in target and name in target for target in targets), targets
        assert any("/issues/new" in target for target in targets), targets
        (source,) = [target for target in targets if target.startswith("../_sources/")]
        assert (HTML / "notebooks" / source).is_file()


def test_paper_shows_the_text_and_nothing_around_it(page: Page, address: str) -> None:
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 794, "height": 1123})
    page.goto(address + CHAPTERS[2], wait_until="networkidle")
    # The theme puts a title and the contents of its own on top.
    expect(page.locator("#jb-print-docs-body h1")).to_be_visible()
    expect(page.locator("article section p").first).to_be_visible()
    for around in (".bd-sidebar-primary", ".bd-sidebar-secondary", ".prev-next-footer"):
        expect(page.locator(around).first).not_to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= 794")


def test_a_dark_page_is_printed_on_white(browser: Browser, address: str) -> None:
    page = browser.new_page(color_scheme="dark")
    page.goto(address + CHAPTERS[2], wait_until="networkidle")
    theme = page.locator("html")
    expect(theme).to_have_attribute("data-theme", "dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(theme).to_have_attribute("data-theme", "light")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(theme).to_have_attribute("data-theme", "dark")
    page.close()


def test_previous_and_next_lead_through_the_weeks(page: Page, address: str) -> None:
    page.goto(address + CHAPTERS[0])
    visited = [page.url.removeprefix(address)]
    for _ in range(2 * len(CHAPTERS) - 1):
        page.locator("a.right-next").click()
        visited.append(page.url.removeprefix(address).partition("#")[0])
    assert visited == sorted(CHAPTERS + NOTEBOOKS, key=lambda place: (Path(place).name, place))
