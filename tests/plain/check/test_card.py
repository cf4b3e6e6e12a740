"""The card and its plain twin: one message a cause, a picture that shows where, links."""

import re

import pytest
from learner import EXERCISES

from lab_check import card
from lab_check.calling.failures import Picture
from lab_check.diagnosing.turns import Diagnosis
from lab_check.exercises import read_more
from lab_check.running.results import Property, Result


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
        assert "and 1 more for the same reason: is fast" in shown
        assert all(property.sentence in shown for property in properties)


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


def test_links_lead_to_the_published_book_or_to_what_every_learner_has() -> None:
    exercise = EXERCISES["3.2"]
    for address in ("https://example.org/book", "https://example.org/book/"):
        assert (
            read_more(exercise, address)
            == "https://example.org/book/03_scaling.html#scaled-dot-product-attention"
        )
    assert read_more(exercise, "") == "notebooks/03_scaling.ipynb, section 3.2"
