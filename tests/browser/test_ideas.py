"""Every idea of the course is in the book, at a place that can be linked to."""

import functools
import re
import tomllib
from pathlib import Path

from lab_check.exercises import topics
from lab_grader.serve import BOOK as HTML

# What a week's file names no page for is in that week's chapter.
CHAPTERS = {f"week{week}": f"book/{week:02}_{topic}" for week, topic in topics().items()}
IDEAS = {
    path.stem: [
        {"page": CHAPTERS.get(path.stem), **entry}
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["idea"]
    ]
    for path in sorted(Path(__file__).with_name("ideas").glob("*.toml"))
}
LISTED = (Path(__file__).parents[2] / "book" / "myths.md").read_text(encoding="utf-8")
MYTHS = sorted(map(int, re.findall(r"^\(belief-(\d+)\)=$", LISTED, re.MULTILINE)))


@functools.cache
def places(page: str) -> frozenset[str]:
    """Find the ids of a page of the built book; none where there is no such page."""
    path = HTML / f"{page}.html"
    return frozenset(
        re.findall(r'\sid="([^"]+)"', path.read_text(encoding="utf-8")) if path.exists() else ()
    )


def test_every_idea_has_a_page_and_a_place_in_it() -> None:
    assert HTML.exists(), "the book is not built: run `make book` first"
    entries = [entry for entries in IDEAS.values() for entry in entries]
    lost = [entry for entry in entries if entry["anchor"] not in places(entry["page"])]
    assert lost == []


def test_every_week_that_has_a_chapter_lists_its_ideas() -> None:
    listed = {week: {entry["page"] for entry in IDEAS.get(week, [])} for week in CHAPTERS}
    assert [week for week, page in CHAPTERS.items() if page not in listed[week]] == []


def test_no_idea_is_listed_twice() -> None:
    names = [entry["idea"] for entries in IDEAS.values() for entry in entries]
    assert sorted(names) == sorted(set(names))


def test_every_myth_is_corrected_on_one_page_and_named_on_the_page_of_all_myths() -> None:
    assert len(set(MYTHS)) == len(MYTHS) > 22
    pages = [str(path.relative_to(HTML).with_suffix("")) for path in HTML.glob("book/*.html")]
    corrected = {
        number: [page for page in pages if f"myth-{number}" in places(page)] for number in MYTHS
    }
    assert {number: homes for number, homes in corrected.items() if len(homes) != 1} == {}
    assert [number for number in MYTHS if f"belief-{number}" not in places("book/myths")] == []
