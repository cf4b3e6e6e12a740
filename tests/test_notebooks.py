"""The weekly notebooks are what their texts and the blocks give."""

from lab_grader.course.notebooks import problems, texts
from lab_grader.exercises import TOPICS


def test_every_week_has_a_notebook() -> None:
    assert [path.stem for path in texts([])] == [f"{week:02}_{topic}" for week, topic in TOPICS.items()]


def test_no_notebook_is_out_of_step_or_stores_an_error() -> None:
    assert [problem for path in texts([]) for problem in problems(path)] == []
