"""Reports that are safe to open, whatever students write, and pleasant to use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gradebooks import TURN, a_class, feedback
from small_class import HOSTILE, a_grade, command, run

from lab_grader.grading.gradebook import exports, reports
from lab_grader.grading.gradebook.book import Gradebook
from lab_grader.grading.model import HandedIn


def test_text_of_students_stays_text(out: Path) -> None:
    for path in [out / "index.html", *out.glob("feedback/*.html"), *out.glob("feedback/*.md")]:
        assert "<script>document" not in path.read_text(encoding="utf-8"), path


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


def test_there_is_no_box_where_nothing_needs_attention(begun: Gradebook) -> None:
    assert "Needs attention" not in (begun.folder / "index.html").read_text(encoding="utf-8")


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


def test_the_notebook_of_a_week_has_a_plain_address() -> None:
    found = reports.link("3.notebook", "https://example.org/course/book/")
    assert found == "https://example.org/course/notebooks/03_scaling.html"


def test_three_reasons_are_shown_and_the_others_are_folded(tmp_path: Path) -> None:
    names = [f"property {letter}" for letter in "abcdef"]
    said = ["slow", "slow", "loud", "blue", "odd", "even"]
    wrong = a_grade("student-01", "6.1", 0.5, failed=names, extra={"said": said})
    a_class(tmp_path, wrong).close()
    page = feedback(tmp_path / "grades", "student-01").read_text()
    shown, folded = page.split("<details><summary>and 2 more</summary>")
    assert "and 1 more for the same reason" in shown
    assert [name in shown for name in names] == [True, True, True, True, False, False]
    assert "property e" in folded
    assert "property f" in folded
