"""Reports that are safe to open, whatever students write, and pleasant to use."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from small_class import HOSTILE, a_grade, command, run

from lab_grader.course.grading import exports, reports
from lab_grader.course.grading.gradebook import Gradebook
from lab_grader.course.grading.model import Submission


@pytest.fixture
def out(filled: Gradebook) -> Path:
    reports.write(filled.folder, filled)
    return filled.folder


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


def feedback(out: Path, student: str) -> Path:
    return out / "feedback" / f"{reports.file_name(student)}.html"


def names(page: Page) -> list[str]:
    return page.locator("#grades tbody th:visible").all_inner_texts()


def test_text_of_students_stays_text(out: Path) -> None:
    for path in [out / "index.html", *out.glob("feedback/*.html"), *out.glob("feedback/*.md")]:
        assert "<script>document" not in path.read_text(encoding="utf-8"), path


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


def test_nobody_reads_of_anybody_else(out: Path) -> None:
    students = ["student-01", "student-02", HOSTILE]
    for student in students:
        for path in (feedback(out, student), feedback(out, student).with_suffix(".md")):
            text = path.read_text(encoding="utf-8")
            others = [name for name in students if name != student]
            assert not any(name in text or name[1:20] in text for name in others)


def test_file_names_are_safe_and_never_shared() -> None:
    hostile = ["../x", "..", "/x", "x", "x/", "X x", "", "ö" * 300, "a\0b", "CON"]
    found = [reports.file_name(name) for name in hostile]
    assert len(set(found)) == len(hostile)
    assert all(re.fullmatch(r"[\w-][\w.-]{0,80}", name) for name in found)


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
    students = [Submission(f"student-{number:03}", {}) for number in range(120)]
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


def test_links_lead_to_the_book_of_the_course(filled: Gradebook) -> None:
    filled.remember("book", "https://example.org/book/")
    reports.write(filled.folder, filled)
    for path in [filled.folder / "index.html", *filled.folder.glob("feedback/*.*")]:
        assert "127.0.0.1" not in path.read_text(encoding="utf-8")
    page = feedback(filled.folder, HOSTILE).read_text(encoding="utf-8")
    assert "https://example.org/book/06_masking.html#" in page


def test_a_page_in_markdown_has_the_next_step(out: Path) -> None:
    text = feedback(out, HOSTILE).with_suffix(".md").read_text(encoding="utf-8")
    assert "Next step: exercise 6.1" in text


def test_report_writes_everything_again(out: Path) -> None:
    before = {path: path.read_bytes() for path in out.rglob("*.html")}
    for path in before:
        path.unlink()
    done = run(command("report", out))
    assert done.returncode == 0, done.stderr
    assert {path: path.read_bytes() for path in out.rglob("*.html")} == before
    assert (out / "results.jsonl").exists()


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Gradebook]:
    """A student who began with week 3, and whose notebook of the week differs."""
    book = Gradebook(tmp_path / "grades")
    one = Submission("student-01", {})
    book.receive([one], [])
    wrong = a_grade("student-01", "3.2", 1.0)
    grades = [
        a_grade("student-01", "1.1", 0.0, status="not_started", failed=[]),
        wrong,
        dataclasses.replace(wrong, exercise="3.notebook", block="notebook", failed=["cell 5"]),
    ]
    book.enter(one, [(grade, "key") for grade in grades])
    reports.write(book.folder, book)
    yield book
    book.close()


def test_the_next_step_is_what_is_begun(begun: Gradebook) -> None:
    text = feedback(begun.folder, "student-01").read_text(encoding="utf-8")
    assert "Next step:</b> exercise 3.2" in text
    assert "what is begun is worth 12" in text
    assert "Not started: 1, for 2 points" in text


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        ("wrong", "turn", "stands below"),
        ("error", "symptom", "stands below"),
        ("wrong", "symptom", "A question to start with"),
    ],
)
def test_a_question_comes_with_the_next_step_where_the_mistake_has_no_name(
    tmp_path: Path, status: str, kind: str, said: str
) -> None:
    book = Gradebook(tmp_path / "grades")
    one = Submission("student-01", {})
    book.receive([one], [])
    diagnosis = {"name": "inverted", "kind": kind, "message": "It went wrong."}
    book.enter(one, [(a_grade("student-01", "6.1", 0, status=status, diagnosis=diagnosis), "key")])
    reports.write(book.folder, book)
    book.close()
    assert said in feedback(book.folder, "student-01").read_text(encoding="utf-8")


def test_the_class_is_seen_by_what_somebody_has_begun(begun: Gradebook) -> None:
    text = (begun.folder / "index.html").read_text(encoding="utf-8")
    assert "Nobody has begun week 1." in text
    assert re.findall(r'<button type="button" title="[^"]*">(.*?)</button>', text) == ["3.2", "3 nb"]


def test_a_notebook_stands_beside_the_exercises(begun: Gradebook) -> None:
    assert "cell 5" in feedback(begun.folder, "student-01").read_text(encoding="utf-8")
    titles = exports.canvas(begun)[0][5:]
    assert [title.split()[0] for title in titles] == ["1.1", "3.2", "3.notebook"]
