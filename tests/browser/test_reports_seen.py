"""Reports as a browser shows them: on a phone, in the dark, in print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from gradebooks import TURN, a_class, feedback
from playwright.sync_api import Browser, Page
from small_class import HOSTILE, a_grade

from lab_grader.grading.gradebook import reports
from lab_grader.grading.gradebook.book import Gradebook
from lab_grader.grading.model import HandedIn


def names(page: Page) -> list[str]:
    return page.locator("#grades tbody th:visible").all_inner_texts()


@pytest.fixture
def page(browser: Browser, out: Path) -> Iterator[Page]:
    """The class's page; whatever it asks for outside or complains about is a failure."""
    page = browser.new_page(viewport={"width": 390, "height": 800})
    trouble: list[str] = []
    page.on("request", lambda r: None if r.url.startswith("file:") else trouble.append(r.url))
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.goto((out / "index.html").as_uri())
    yield page
    page.close()
    assert trouble == []


def test_a_hostile_name_runs_nothing_and_can_be_read(page: Page, out: Path) -> None:
    assert page.title() == "Grades"
    assert HOSTILE in names(page)
    page.goto(feedback(out, HOSTILE).as_uri())
    assert page.title() == HOSTILE
    assert page.locator("h1").inner_text() == HOSTILE
    assert "</pre>" + HOSTILE in page.locator("pre.code").inner_text()


def test_the_line_that_went_wrong_is_marked(page: Page, out: Path) -> None:
    page.goto(feedback(out, HOSTILE).as_uri())
    assert page.locator("mark").all_inner_texts() == ["   3     return 1 / 0"]


def test_the_table_can_be_sorted_both_ways(page: Page) -> None:
    page.get_by_role("button", name="total").click()
    assert names(page) == [HOSTILE, "student-02", "student-01"]
    page.get_by_role("button", name="total").click()
    assert names(page) == ["student-01", "student-02", HOSTILE]
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("total")


def test_a_student_can_be_found(page: Page) -> None:
    page.get_by_role("searchbox").fill("T-02")
    assert names(page) == ["student-02"]
    assert page.get_by_role("status").inner_text() == "1 of 3"


def test_no_page_scrolls_sideways_on_a_phone(page: Page, out: Path) -> None:
    for path in [out / "index.html", *sorted(out.glob("feedback/*.html"))]:
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_in_the_heat_map_can_be_read(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    measured = page.evaluate(
        """() => [...document.querySelectorAll("#grades td, .legend span, .soft")].map(cell => {
            const draw = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
            const light = (...colours) => {
                for (const colour of colours) { draw.fillStyle = colour; draw.fillRect(0, 0, 1, 1); }
                const parts = [...draw.getImageData(0, 0, 1, 1).data].slice(0, 3)
                    .map(part => part / 255)
                    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
            };
            const own = getComputedStyle(cell), page = getComputedStyle(document.body).backgroundColor;
            const pair = [light(page, own.backgroundColor), light(own.color)].sort((a, b) => b - a);
            return (pair[0] + 0.05) / (pair[1] + 0.05);
        })"""
    )
    assert min(measured) >= 4.5


def test_the_head_of_the_table_stands_on_every_printed_page(page: Page, tmp_path: Path) -> None:
    book = Gradebook(tmp_path / "large")
    students = [HandedIn(f"student-{number:03}", {}) for number in range(120)]
    book.receive(students, [])
    for one in students:
        book.enter(one, [(a_grade(one.student, "6.1", 1.0), "key")])
    reports.write(book.folder, book)
    book.close()
    page.goto((book.folder / "index.html").as_uri())
    # With nothing else in bold, a second font on a page that links to students is that of the head.
    page.add_style_tag(content="main *:not(th) { font-weight: 400 !important }")
    printed = re.findall(rb"/Type /Page\n.*?endobj", page.pdf(format="A4"), re.S)
    fonts = [len(re.findall(rb"/F\d+ \d+ 0 R", one)) for one in printed if b"/Annots" in one]
    assert len(fonts) > 2
    assert set(fonts[1:]) == {2}


def test_the_class_is_told_what_needs_attention_and_what_to_do(page: Page, tmp_path: Path) -> None:
    book = Gradebook(tmp_path / "odd")
    same = {"masking.py": b"same"}
    book.receive(
        [
            HandedIn("student-01", same, entry="same"),
            HandedIn("student-02", same, entry="same", rostered=False),
            HandedIn("student-03", {}, missing=True),
            HandedIn("student-04", {}, unreadable="student-04.zip is damaged"),
        ],
        [],
    )
    for student, one in book.submissions().items():
        status = (
            "timeout" if student == "student-01" else "unreadable" if one["unreadable"] else "wrong"
        )
        grade = a_grade(student, "6.1", 0.0, status=status)
        book.enter(HandedIn(student, {}), [(grade, "key")])
    book.trouble("student-02", "8.2", "Traceback")
    reports.write(book.folder, book)
    book.close()
    page.goto((book.folder / "index.html").as_uri())
    box = page.get_by_role("region", name="Needs attention")
    assert box.locator("summary").all_inner_texts() == [
        "1 could not be read", "1 where the grader itself failed", "1 not on the roster",
        "1 on the roster, and nothing handed in", "2 identical to another, to the byte",
        "1 out of time",
    ]  # fmt: skip
    assert box.locator("p").count() == 6
    assert box.locator("li").all_inner_texts() == [
        "student-04: student-04.zip is damaged", "student-02: 8.2", "student-02", "student-03",
        "student-01, student-02", "student-01: 6.1",
    ]  # fmt: skip
    box.get_by_role("link", name="student-04").click()
    assert page.title() == "student-04"


def test_those_count_who_tried_and_a_click_shows_who(page: Page, tmp_path: Path) -> None:
    book = a_class(
        tmp_path,
        a_grade("student-01", "6.1", 2.0),
        *(a_grade(f"student-0{n}", "6.1", 0.0, diagnosis=TURN) for n in (2, 3)),
        a_grade("student-04", "6.1", 0.0, status="not_started", failed=[]),
        a_grade("student-05", "6.1", 0.0, status="waiting"),
        a_grade("student-06", "6.1", 0.0, status="unreadable", failed=[]),
    )
    book.close()
    page.goto((book.folder / "index.html").as_uri())
    hardest, turns = page.locator(".hardest li"), page.locator(".turns li")
    assert "33% of the points, among 3 who tried" in hardest.inner_text()
    assert "2 of 3 who tried 6.1: inverted" in turns.inner_text()
    for row in (hardest, turns):
        assert not row.get_by_role("link", name="student-02").is_visible()
        row.locator("summary").click()
        assert row.locator("details a").all_inner_texts() == ["student-02", "student-03"]
    turns.get_by_role("link", name="student-03").click()
    assert page.url.endswith("feedback/student-03.html#exercise-6.1")
