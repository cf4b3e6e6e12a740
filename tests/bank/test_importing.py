"""Modules that are tried before they are let in: here in a fork, elsewhere in a new Python."""

from learner import Learner, enter, in_fork

from lab_check import importing
from lab_check.running.children import LostJob


def test_what_a_broken_module_is_imported_by_has_the_same_trouble_and_others_have_none(
    learner: Learner,
) -> None:
    package = learner.root / "lab_transformer"

    def main() -> int:
        enter(learner.root)
        from lab_check import importing

        texts = {"attention": "import os\n\nos._exit(4)\n"}
        found = importing.troubles(package, ["encoder", "positional"], texts)
        assert found.keys() == {"attention", "encoder"}
        assert found["attention"] == found["encoder"]
        assert (
            "importing lab_transformer/attention.py: the code ended Python (exit code 4)"
            in (found["encoder"])
        )
        assert importing.troubles(package, ["encoder"]) == {}
        return 0

    answer = in_fork(main)
    assert answer.code == 0, answer.err


def test_where_there_is_no_fork_a_new_python_tries_them(learner: Learner) -> None:
    package = learner.root / "lab_transformer"
    texts = {
        "masking": "print('no answer')\n",
        "loss": "1 / 0\n",
        "rnn": "import os\n\nos._exit(5)\n",
    }
    names = ["attention", "masking", "loss", "rnn"]
    answers = list(importing._answers_of_new_python(package, names, texts))
    assert answers == [
        "",
        "",
        "ZeroDivisionError: division by zero\n  at lab_transformer/loss.py, line 1: 1 / 0",
        LostJob("crash", "the code ended Python (exit code 5)"),
    ]
