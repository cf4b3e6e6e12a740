"""Reports that are safe to open, whatever students write, and pleasant to use."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from small_class import HOSTILE, a_grade, command, run

from lab_grader.grading.gradebook import exports, reports
from lab_grader.grading.gradebook.book import Gradebook
from lab_grader.grading.model import Grade, HandedIn


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
    hostile = ["../x", "..", "/x", "x", "X", "x/", "X x", "", "ö" * 300, "𝔘" * 300, "a\0b", "CON", "x.",
               "\udc80", "ö", "o\u0308"]  # fmt: skip
    # Nobody can take the name that somebody else's page has.
    hostile += [reports.file_name(name) for name in hostile if name != "x"]
    found = [reports.file_name(name) for name in hostile]
    assert len({name.casefold() for name in found}) == len(hostile)
    assert all(re.fullmatch(r"[\w-][\w.-]{0,80}", name) for name in found)
    assert max(len(name.encode()) for name in found) < 220


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


@pytest.mark.parametrize("book", ["", "https://example.org/book/"])
def test_no_link_is_dead(filled: Gradebook, book: str) -> None:
    filled.remember("book", book)
    reports.write(filled.folder, filled)
    pages = {path: path.read_text(encoding="utf-8") for path in filled.folder.rglob("*.html")}
    assert len(pages) == (4 if book else 5)
    links = [(path, link) for path, text in pages.items() for link in re.findall('href="(.*?)"', text)]
    assert links
    for path, link in links:
        file, _, anchor = link.partition("#")
        if book and link.startswith(book):
            assert file.endswith(".html")
        else:
            assert f'id="{anchor}"' in pages[(path.parent / file).resolve()] or not anchor, link
    assert not any("127.0.0.1" in text for text in pages.values())


def test_what_to_read_stands_on_the_page_where_no_book_is_published(out: Path) -> None:
    text = feedback(out, HOSTILE).read_text(encoding="utf-8")
    assert "def causal_mask(length: int)" in text
    assert "Hint 3" in text
    assert "notebooks/06_masking.ipynb" in text


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


def a_class(folder: Path, *grades: Grade) -> Gradebook:
    """Enter grades of students, all of whom handed in something of their own, and write the pages."""
    book = Gradebook(folder / "grades")
    students = dict.fromkeys(grade.student for grade in grades)
    handed_in = {one: HandedIn(one, {"masking.py": one.encode()}) for one in students}
    book.receive(handed_in.values(), [])
    for grade in grades:
        book.enter(handed_in[grade.student], [(grade, "key")])
    reports.write(book.folder, book)
    return book


TURN = {"name": "inverted", "kind": "turn", "message": "It is the wrong way round."}


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


def test_there_is_no_box_where_nothing_needs_attention(begun: Gradebook) -> None:
    assert "Needs attention" not in (begun.folder / "index.html").read_text(encoding="utf-8")


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


def test_one_wrong_turn_is_one_whatever_error_it_raises(tmp_path: Path) -> None:
    grades = [
        a_grade(f"student-{n}", "6.1", 0.0, extra={"said": [raised]},
                diagnosis=TURN | {"message": f"{raised}\n{TURN['message']}"})
        for n, raised in enumerate(["ValueError: 5\n  at line 3", "ValueError: 7\n  at line 9"])
    ]  # fmt: skip
    book = a_class(tmp_path, *grades)
    book.close()
    text = (book.folder / "index.html").read_text(encoding="utf-8")
    assert "2 of 2 who tried" in text
    assert "ValueError" not in text


def test_feedback_shows_the_learners_numbers_and_every_list_once(tmp_path: Path) -> None:
    drawn = {"what": "mask", "axes": ["query", "key"], "expected": [[1, 0]], "actual": [[0, "nan"]],
             "worst": [0, 1]}  # fmt: skip
    said = ["the shape is (2, 3)", "the shape is (4, 5)", "", TURN["message"]]
    example = {"property": "it is a mask", "said": "it is 0 at query 0", "picture": drawn}
    book = a_class(
        tmp_path,
        a_grade("student-01", "6.1", 0.5, diagnosis=TURN, failed=["aa", "bb", "cc", "dd"],
                passed=["ee"], extra={"said": said, "example": example}),
    )  # fmt: skip
    book.close()
    text = feedback(book.folder, "student-01").read_text(encoding="utf-8")
    assert text.count("<svg") >= 2
    assert "it is 0 at query 0" in text
    for sentence in ("aa", "bb", "cc", "dd", "ee"):
        assert text.count(f"<li>{sentence}</li>") == 1
    assert text.count("the shape is (2, 3)") == 1
    assert "(4, 5)" not in text
    assert text.count(TURN["message"]) == 1


def test_a_page_that_fails_says_so_and_the_others_are_written(tmp_path: Path) -> None:
    bad = {"property": "x", "said": "x", "picture": {"what": "no more than this"}}
    book = a_class(
        tmp_path,
        a_grade("student-01", "6.1", 2.0),
        a_grade("student-02", "6.1", 0.0, extra={"example": bad}),
        a_grade("student-03", "6.1", 2.0),
    )
    assert [(who, what) for who, what, _ in book.troubles()] == [("student-02", reports.FEEDBACK)]
    assert "KeyError" in book.troubles()[0][2]
    page = feedback(book.folder, "student-02")
    assert "could not be made" in page.read_text(encoding="utf-8")
    assert "could not be made" in page.with_suffix(".md").read_text(encoding="utf-8")
    for student in ("student-01", "student-03"):
        assert "Everything is right" in feedback(book.folder, student).read_text(encoding="utf-8")
    index = (book.folder / "index.html").read_text(encoding="utf-8")
    assert "1 where the grader itself failed" in index
    # What can be made the next time is no trouble any more.
    book.enter(HandedIn("student-02", {}), [(a_grade("student-02", "6.1", 2.0), "key")])
    reports.write(book.folder, book)
    assert book.troubles() == []
    book.close()


def test_an_error_that_quotes_half_a_character_is_recorded(filled: Gradebook) -> None:
    filled.trouble("student-01", "6.1", "ValueError: \udc80")
    assert filled.troubles() == [("student-01", "6.1", r"ValueError: \udc80")]
    reports.write(filled.folder, filled)


def test_a_page_of_the_class_that_fails_says_so_and_the_students_have_theirs(tmp_path: Path) -> None:
    book = a_class(tmp_path, a_grade("student-01", "6.1", 2.0, status="unheard of", extra={}))
    assert {what for _, what, _ in book.troubles()} == {reports.FEEDBACK, reports.CLASS}
    assert "could not be made" in (book.folder / "index.html").read_text(encoding="utf-8")
    book.close()


ODD = {
    "deep": "def causal_mask(length):\n    return " + "-" * 20_000 + "1\n",
    "deeper": "x = " + "(" * 20_000 + "\n",
    "steering": "def causal_mask(length):\n    return 1  # \u202e\x1b[2J\x07\u2066\n",
    "long": "def causal_mask(length):\n    x = '" + "y" * 900_000 + "'\n",
    "tall": "def causal_mask(length):\n" + "    x = 1\n" * 50_000,
    "feeds": "x = 1  # \x0c\u2028\x85\n\n\ndef causal_mask(length):\n    return 1\n",
    "null": "def causal_mask(length):\n    return '\0'\n",
    "bytes": "def causal_mask(length):\n    return '\udc80'\n",
}


@pytest.mark.parametrize("code", ODD.values(), ids=ODD.keys())
def test_odd_code_and_words_make_a_page_that_can_be_read(tmp_path: Path, code: str) -> None:
    book = Gradebook(tmp_path / "grades")
    one = HandedIn("student-01", {"masking.py": code.encode("utf-8", "surrogateescape")})
    book.receive([one], [])
    said = {"name": "exception", "message": "\u202e\x00\x1b" + "long " * 100_000}
    book.enter(one, [(a_grade("student-01", "6.1", 0.0, status="error", diagnosis=said), "key")])
    reports.write(book.folder, book)
    assert book.troubles() == []
    book.close()
    for path in (feedback(book.folder, "student-01"), book.folder / "index.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
        assert len(text) < 250_000
    page = feedback(book.folder, "student-01").read_text(encoding="utf-8")
    assert r"\u202e\u0000\u001b" in page
    assert "more characters are left out" in page


def test_lines_are_counted_as_python_counts_them(tmp_path: Path) -> None:
    book = Gradebook(tmp_path / "grades")
    one = HandedIn("student-01", {"masking.py": ODD["feeds"].encode()})
    book.receive([one], [])
    where = "ValueError\n  at lab_transformer/masking.py, line 5: return 1"
    book.enter(one, [(a_grade("student-01", "6.1", 0.0, status="error", feedback=where), "key")])
    reports.write(book.folder, book)
    book.close()
    text = feedback(book.folder, "student-01").read_text(encoding="utf-8")
    assert "<mark>   5     return 1</mark>" in text


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Gradebook]:
    """A student who began with week 3, and whose notebook of the week differs."""
    book = Gradebook(tmp_path / "grades")
    one = HandedIn("student-01", {})
    book.receive([one], [])
    wrong = a_grade("student-01", "3.2", 1.0)
    grades = [
        a_grade("student-01", "1.1", 0.0, status="not_started", failed=[]),
        wrong,
        dataclasses.replace(
            wrong, exercise="3.notebook", failed=["cell 5"], feedback="✗ cell 5\n  it prints 7, not 8"
        ),
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
    one = HandedIn("student-01", {})
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
    text = feedback(begun.folder, "student-01").read_text(encoding="utf-8")
    assert "it prints 7, not 8" in text
    assert text.count("cell 5") == 1
    titles = exports.canvas(begun)[0][5:]
    assert [title.split()[0] for title in titles] == ["1.1", "3.2", "3.notebook"]
