"""The weekly notebooks are what their texts and the blocks give."""

from lab_check.exercises import topics
from lab_grader.notebooks import problems, texts


def test_every_week_has_a_notebook() -> None:
    assert [path.stem for path in texts([])] == [
        f"{week:02}_{topic}" for week, topic in topics().items()
    ]


def test_no_notebook_is_out_of_step_or_stores_an_error() -> None:
    assert [problem for path in texts([]) for problem in problems(path)] == []
