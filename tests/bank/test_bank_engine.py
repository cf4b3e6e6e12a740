"""The bank's form: changes are found by what they show, and two go together when they do not touch."""

from pathlib import Path

import pytest
import torch

from lab_check.calling.calls import import_block
from lab_check.errors import UserError
from lab_check.exercises import catalogue
from lab_grader.bank import changes, engine, entries, slips
from lab_grader.bank.changes import Edit
from lab_grader.bank.engine import Space

EXERCISE = "2.2"
USUAL = """\
def softmax(scores, dim=-1):
    top = scores.amax(dim=dim, keepdim=True)
    raised = (scores - top).exp()
    total = raised.sum(dim=dim, keepdim=True)
    return raised / total
"""
TURNS = """\
# 2.2 Softmax

What stands here is for those who read it.

- without `squeezed`: for the sake of this test.

## not-normalised (frequent)

You raise e to the scores and do not divide.
Look at the last line.

```diff
     total = raised.sum(dim=dim, keepdim=True)
-    return raised / total
+    return raised
```

## no-maximum (frequent)

You take nothing off. Large scores overflow.

```diff
-    raised = (scores - top).exp()
+    raised = scores.exp()
```

## signs-turned (frequent)

You turn the signs. Larger scores get more, not less.

```diff
     top = scores.amax(dim=dim, keepdim=True)
-    raised = (scores - top).exp()
+    raised = (top - scores).exp()
```

## halved-first

You halve the scores first. They go in as they are.

```python
def softmax(scores, dim=-1):
    return (scores / 2).softmax(dim=dim)
```
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "usual.py").write_text(USUAL)
    (tmp_path / "turns.md").write_text(TURNS)
    return tmp_path


def refusal(folder: Path, old: str, new: str) -> str:
    assert TURNS.count(old) == 1
    (folder / "turns.md").write_text(TURNS.replace(old, new))
    with pytest.raises(UserError) as raised:
        Space(EXERCISE, folder)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_name_message_and_change_are_read_from_one_place(folder: Path) -> None:
    space = Space(EXERCISE, folder)
    first, second = space.turns[:2]
    assert (first.name, first.frequent) == ("not-normalised", True)
    assert first.message == "You raise e to the scores and do not divide. Look at the last line."
    assert first.change == (Edit(4, 5, ("    return raised",)),)
    assert second.change == (Edit(2, 3, ("    raised = scores.exp()",)),)
    assert not space.turns[3].frequent


def test_variants_do_what_their_changes_say(folder: Path) -> None:
    space, x = Space(EXERCISE, folder), torch.tensor([1.0, 2.0])
    torch.testing.assert_close(space.variant()(x), x.softmax(0))
    torch.testing.assert_close(space.variant("no-maximum", "not-normalised")(x), x.exp())
    torch.testing.assert_close(space.variant("halved-first")(x), (x / 2).softmax(0))


def test_two_changes_of_one_line_make_no_pair(folder: Path) -> None:
    pairs = [names for names in Space(EXERCISE, folder).combinations() if len(names) == 2]
    assert pairs == [("not-normalised", "no-maximum"), ("not-normalised", "signs-turned")]


def test_what_is_put_into_one_gap_comes_in_the_order_of_the_book() -> None:
    lines = changes.apply(["a", "b"], [Edit(1, 1, ("one",)), Edit(1, 1, ("two",)), Edit(1, 2, ("B",))])
    assert [line for _, line in lines] == ["a", "one", "two", "B"]


@pytest.mark.parametrize(
    ("one", "other", "touch"),
    [
        (Edit(2, 3), Edit(2, 3), True),
        (Edit(1, 3), Edit(2, 4), True),
        (Edit(1, 2), Edit(2, 3), False),
        (Edit(2, 2), Edit(2, 3), False),
        (Edit(2, 2), Edit(1, 3), True),
        (Edit(2, 2), Edit(2, 2), False),
    ],
)
def test_changes_touch_where_they_take_the_same_line(one: Edit, other: Edit, touch: bool) -> None:
    assert one.touches(other) is touch
    assert other.touches(one) is touch


def test_a_change_that_starts_from_what_is_not_there_is_refused(folder: Path) -> None:
    said = refusal(folder, "-    return raised / total", "-    return raised / sum")
    assert said == (
        "2.2/turns.md `not-normalised`, line 13: what the diff starts from stands in usual.py nowhere"
    )


def test_a_change_that_fits_in_two_places_is_refused(folder: Path) -> None:
    (folder / "usual.py").write_text(USUAL + USUAL)
    with pytest.raises(UserError, match=r"`not-normalised`, line 13: .* 2 times: show more lines"):
        Space(EXERCISE, folder)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("-    raised = (scores - top).exp()\n+    raised = scores.exp()\n", "", "changes nothing"),
        ("-    raised = (scores - top).exp()\n+    raised = scores.exp()", "+    x = 1", "show a line"),
        ("+    return raised\n", "return raised\n", "begins with a blank"),
        ("## halved-first", "## no-maximum", "no-maximum is there twice"),
        ("## halved-first", "## halved first", "a heading is a name"),
        ("```python", "```rust", "ends in one block"),
        ("You halve the scores first. They go in as they are.\n", "", "no message"),
    ],
)
def test_an_entry_that_is_none_is_refused(folder: Path, old: str, new: str, said: str) -> None:
    assert said in refusal(folder, old, new)


def test_a_diff_is_written_as_it_is_read() -> None:
    usual = ["a", "x", "b", "x", "c"]
    for other in (["a", "x", "b", "y", "c"], ["a", "b", "x", "c"], ["n", *usual], [*usual, "n"], ["q"]):
        edits = changes.read(changes.diff(usual, other), usual, "here", 1)
        assert [line for _, line in changes.apply(usual, edits)] == other


def test_slips_fit_the_signature_and_give_way_to_turns_of_their_name(folder: Path) -> None:
    named = {turn.name for turn in Space(EXERCISE, folder).turns}
    assert {"nothing-returned", "doubled", "scores-cut-off", "scores-normalised"} <= named
    assert "squeezed" not in named
    (folder / "turns.md").write_text(TURNS.replace("## halved-first", "## doubled"))
    (doubled,) = [turn for turn in Space(EXERCISE, folder).turns if turn.name == "doubled"]
    assert doubled.message.startswith("You halve the scores")


def test_slips_of_a_block_without_tensors_are_few() -> None:
    place = catalogue()["8.2"]
    assert [name for name, *_ in slips.of(import_block(place.module, place.name))] == [
        "nothing-returned",
        "in-a-tuple",
    ]


def test_an_entry_that_has_still_to_be_written_is_no_turn(folder: Path) -> None:
    message = "You take nothing off. Large scores overflow."
    for old, new in (("halved-first", entries.DRAFT), (message, entries.TELL)):
        (folder / "turns.md").write_text(TURNS.replace(old, new))
        space = Space(EXERCISE, folder)
        assert len(space.drafts) == 1
        assert space.drafts[0] not in {turn.name for turn in space.turns}


def test_a_folder_of_the_bank_holds_what_the_engine_reads() -> None:
    files = [path for path in engine.FOLDER.glob("*/*.*") if path.parent.name in catalogue()]
    assert {path.name for path in files} == {"usual.py", "right.py", "turns.md", "more.py"}


def test_no_slip_is_left_out_that_there_is_none_of() -> None:
    for id, space in engine.spaces().items():
        place = catalogue()[id]
        book = entries.read(space.folder / "turns.md", id)
        names = {name for name, *_ in slips.of(import_block(place.module, place.name))}
        assert book.without <= names - {entry.name for entry in book.entries}, id
