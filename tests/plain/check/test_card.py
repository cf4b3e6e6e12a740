"""The card and its plain twin: one message a cause, a picture that shows where, links."""

import io
import re
import threading
from pathlib import Path

import pytest
from learner import EXERCISES
from rich.console import Console
from rich.text import Text

from lab_check import card, served
from lab_check.calling.failures import Picture
from lab_check.cli import print_hanging
from lab_check.diagnosing.turns import Diagnosis
from lab_check.exercises import read_more, reading, section
from lab_check.paths import NOTEBOOKS
from lab_check.running.results import Property, Result
from lab_grader.serve import bind


def broken(sentence: str, message: str, symptom: str = "property", **facts: object) -> Property:
    return Property(sentence, False, False, message, symptom, **facts)  # type: ignore[arg-type]


def test_what_learners_write_is_escaped_in_the_card() -> None:
    evil = "<script>alert('x')</script>&"
    picture = Picture(evil, (evil, evil), [[0.0, 1.0]], [[float("nan"), -1.0]], (0, 1))
    property = broken(evil, evil, printed=evil, picture=picture)
    html = card.card(Result(EXERCISES["2.1"], "wrong", [property], diagnosis=Diagnosis(evil, evil)))
    assert "<script>alert" not in html
    assert html.count("&lt;script&gt;") >= 6


def test_the_card_and_its_plain_twin_say_the_same() -> None:
    property = broken("rows sum to one", "row 0 sums to 3")
    result = Result(
        EXERCISES["2.2"], "wrong", [property], diagnosis=Diagnosis("name", "You forgot it.")
    )
    for words in ("rows sum to one", "row 0 sums to 3", "You forgot it.", "0 of 1 properties hold"):
        assert words in card.card(result)
        assert words in card.text(result)


def test_failures_that_say_the_same_are_folded() -> None:
    properties = [
        broken(
            "rows sum to one", "NameError: name 'y'\n  at lab_transformer/a.py, line 3: y", "exception"
        ),
        Property("keeps the dtype", False, True),
        broken("knows a mask", "row 0 sums to 3"),
        # The same error in the same line, with other sizes.
        broken("is fast", "NameError: name 'z'\n  at lab_transformer/a.py, line 3: y", "exception"),
        broken("knows a batch", "row 0 sums to 3"),
        broken("is slow", "NameError: name 'y'\n  at lab_transformer/a.py, line 4: y", "exception"),
    ]
    result = Result(EXERCISES["2.2"], "wrong", properties)
    for shown in (card.text(result), re.sub(r"<[^>]+>", "\n", card.card(result))):
        assert shown.count("row 0 sums to 3") == 1
        assert shown.count("line 3: y") == 1
        assert shown.count("line 4: y") == 1
        assert shown.count("and 1 more for the same reason") == 2
    assert "is fast" not in card.text(result)
    assert "all 5 by name: lab check 2.2 --all" in card.text(result)
    for shown in (card.text(result, whole=True), card.card(result)):
        assert all(property.sentence in shown for property in properties)


def places(shown: str, *words: str) -> list[int]:
    return [shown.index(word) for word in words]


def test_the_mistake_comes_first_then_what_fails_then_what_holds() -> None:
    properties = [Property("keeps the dtype", False, True), broken("rows sum to one", "sums to 3")]
    result = Result(
        EXERCISES["2.2"], "wrong", properties, diagnosis=Diagnosis("name", "You forgot it.")
    )
    order = ("You forgot it.", "rows sum to one", "keeps the dtype", "Read more")
    for shown in (card.text(result, reading="a chapter"), card.card(result, reading="a chapter")):
        assert places(shown, *order) == sorted(places(shown, *order))


def test_three_failures_are_shown_and_the_others_on_demand() -> None:
    properties = [broken(f"property {n}", f"it is {n}") for n in range(5)]
    result = Result(EXERCISES["2.2"], "wrong", properties)
    told = card.text(result)
    assert [f"property {n}" in told for n in range(5)] == [True, True, True, False, False]
    assert "    and 2 more: lab check 2.2 --all\n" in told
    everything = card.text(result, whole=True)
    assert all(f"it is {n}" in everything for n in range(5))
    assert "--all" not in everything
    unfolded, folded = card.card(result).split("<details><summary>and 2 more</summary>")
    assert "property 2" in unfolded
    assert "property 3" not in unfolded
    assert "property 4" in folded


def test_what_happened_is_no_guess_and_a_guess_is_called_one() -> None:
    raised = "RuntimeError: no\n  at lab_transformer/a.py, line 3: y"
    result = Result(EXERCISES["2.2"], "wrong", [broken("is fast", raised, "exception")])
    result.diagnosis = Diagnosis("exception", raised, exact=False)
    assert card.text(result).splitlines()[1] == "  What happened: RuntimeError: no"
    assert "Most likely" not in card.text(result)
    result.diagnosis = Diagnosis("a", f"{raised}\nYou forgot it.", exact=False, kind="turn")
    for shown in (card.text(result), re.sub(r"</?b>", "", card.card(result))):
        assert "What happened: RuntimeError: no" in shown
        assert "Most likely: You forgot it." in shown


def test_what_the_diagnosis_says_is_not_said_again() -> None:
    property = broken("rows sum to one", "row 0 sums to 3")
    result = Result(
        EXERCISES["2.2"],
        "wrong",
        [property],
        diagnosis=Diagnosis("property", property.said, exact=False),
    )
    assert card.text(result).count("row 0 sums to 3") == 1


def test_the_picture_marks_the_entry_that_the_text_names_and_has_a_scale() -> None:
    torch = pytest.importorskip("torch")
    from lab_check.calling.failures import WrongValue
    from lab_check.running.testing import agree

    wanted = torch.zeros(2, 3, 4)
    actual = wanted.clone()
    actual[1, 2, 1] = -0.5
    with pytest.raises(WrongValue, match="batch 1, query 2, key 1") as raised:
        agree(actual, wanted, "the weights", "batch query key")
    picture = raised.value.picture
    assert picture is not None
    assert picture.worst == (2, 1)
    drawn = card.draw(picture)
    assert drawn.count('class="worst"') == 2
    assert "Marked: query 2, key 1, expected 0, yours -0.5." in drawn
    assert ">-0.5</text>" in drawn
    assert ">0.5</text>" in drawn
    caption = re.search("<figcaption.*?</figcaption>", drawn)
    assert caption
    assert "weights (batch 1): rows are query, columns are key" in caption[0]


def test_links_lead_to_the_published_book_or_sections_are_named() -> None:
    exercise = EXERCISES["3.3"]
    for address in ("https://example.org/book", "https://example.org/book/"):
        assert read_more(exercise, address) == "https://example.org/book/03_scaling.html#split-heads"
    assert (
        read_more(exercise, "")
        == '"Heads are slices" in week 3 of the book, or section 3.3 of notebooks/03_scaling.ipynb'
    )
    result = Result(exercise, "wrong", [broken("is fast", "it is slow")])
    html = card.card(result, reading="https://example.org/book/03_scaling.html#split-heads")
    assert '<a href="https://example.org/book/03_scaling.html#split-heads"' in html
    assert ">Heads are slices (week 3 of the book)</a>" in html


def test_every_exercise_has_a_section_of_the_book_and_of_its_notebook() -> None:
    for exercise in EXERCISES.values():
        assert section(exercise)
        text = (NOTEBOOKS / Path(exercise.notebook).name).with_suffix(".py").read_text()
        assert f"# ## {exercise.id} " in text


def test_a_link_leads_to_the_book_only_while_it_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    exercise = EXERCISES["3.3"]
    by_title = read_more(exercise, "")
    assert reading(exercise) == by_title
    page = tmp_path / "html" / exercise.page.partition("#")[0]
    with bind(tmp_path / "html", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with served.noted(server.server_port):
            assert reading(exercise) == by_title  # something is served, but not this book
            page.parent.joinpath("book").mkdir(parents=True)
            page.parent.joinpath("book", page.name).touch()
            here = f"http://127.0.0.1:{server.server_port}/book/{exercise.page}"
            assert reading(exercise) == here
        assert reading(exercise) == by_title
        with served.noted(server.server_port):
            server.shutdown()
            server.server_close()
            assert reading(exercise) == by_title  # as after a crash: the note is there, nobody answers


def test_in_a_terminal_what_does_not_fit_goes_on_below_where_the_words_begin() -> None:
    result = Result(EXERCISES["2.2"], "wrong", [broken("a sentence of six words or more", "no")])
    for terminal, wanted in (
        (True, "    ✗ a sentence of six\n      words or more\n        no\n"),
        (False, "    ✗ a sentence of six words or more\n        no\n"),  # for programs
    ):
        out = io.StringIO()
        console = Console(
            file=out, width=26, force_terminal=terminal, color_system=None, soft_wrap=True
        )
        for line in card.lines(result):
            print_hanging(console, Text.assemble(*line))
        assert wanted in out.getvalue()
