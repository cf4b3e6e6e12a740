"""The exercise cell in a running kernel: what it writes, keeps, shows and never loses."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from learner import EXERCISES, Answer, Learner, enter, in_fork, solution

from lab_check import cells
from lab_check.errors import UserError
from lab_check.paths import checker_in, workspace_around
from lab_check.workspace import Workspace

WRONG = "def similarity_scores(x):\n    return x @ x\n"
RIGHT = "def similarity_scores(x):\n    return x @ x.mT\n"


class Notebook:
    """An IPython shell in a fork, as a kernel would run it; cells are run in order."""

    def __init__(
        self, root: Path, installed: Path | None = None, *cells: str, name: str = "lab_check"
    ) -> None:
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        config.HistoryManager.enabled = False
        enter(installed or root)
        os.chdir(root / "notebooks")
        self.shell = InteractiveShell.instance(config=config)
        self.shell.colors = "nocolor"
        self.shown: list[dict[str, str]] = []
        publish: Callable[..., None] = lambda data, **_: self.shown.append(data)  # noqa: E731
        self.shell.display_pub.publish = publish  # type: ignore[method-assign]
        self.run(*cells, f"%load_ext {name}")

    def run(self, *cells: str) -> None:
        for cell in cells:
            self.shell.run_cell(cell, store_history=True)
            while self.shown:
                print(self.shown.pop(0).get("text/plain"))

    def exercise(self, id: str, code: str) -> None:
        self.run(f"%%exercise {id}\n{code}")


@pytest.fixture
def kernel(learner: Learner) -> Callable[[Callable[[Notebook], object]], Answer]:
    """Run something in a notebook of a learner's workspace."""

    def run(session: Callable[[Notebook], object]) -> Answer:
        def main() -> int:
            session(Notebook(learner.root))
            return 0

        answer = in_fork(main)
        assert answer.code == 0, answer.out + answer.err
        return answer

    return run


Kernel = Callable[[Callable[[Notebook], object]], Answer]


def test_a_notebook_of_the_first_edition_works_and_is_told_the_new_name(learner: Learner) -> None:
    def session() -> int:
        Notebook(learner.root, name="lab_grader").exercise("2.1", RIGHT)
        return 0

    answer = in_fork(session)
    assert answer.code == 0, answer.out + answer.err
    assert answer.out.count("lab_grader is called lab_check now") == 1
    assert "✓ 2.1" in answer.out


def test_a_workspace_of_the_first_edition_is_still_one(tmp_path: Path) -> None:
    (tmp_path / "lab_grader").mkdir()
    (tmp_path / "lab_grader" / "exercises.json").write_text("{}")
    (tmp_path / "notebooks").mkdir()
    assert workspace_around(tmp_path / "notebooks") == tmp_path
    assert checker_in(tmp_path) == "lab_grader"


def test_a_cell_changes_its_block_and_not_one_other_byte(learner: Learner, kernel: Kernel) -> None:
    before = learner.file("2.1").read_text()
    answer = kernel(lambda notebook: notebook.exercise("2.1", RIGHT))
    assert "✓ 2.1" in answer.out
    assert learner.file("2.1").read_text() == before.replace(EXERCISES["2.1"].stub, RIGHT)


def test_windows_line_ends_stay(learner: Learner, kernel: Kernel) -> None:
    path = learner.file("2.1")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    kernel(lambda notebook: notebook.exercise("2.1", RIGHT))
    assert b"return x @ x.mT\r\n" in path.read_bytes()
    assert b"\n" not in path.read_bytes().replace(b"\r\n", b"")


def test_figures_have_the_size_of_the_book(kernel: Kernel) -> None:
    answer = kernel(lambda notebook: notebook.run("import matplotlib.pyplot as plt; plt.figure()"))
    assert "<Figure size 400x240 with 0 Axes>" in answer.out


def test_helpers_decorators_imports_and_their_constants_are_kept_and_trials_are_not(
    learner: Learner, kernel: Kernel
) -> None:
    helpers = (
        "from functools import cache\n\nFACTOR = 1\n\n\n@cache\ndef one():\n    return FACTOR\n\n\n"
        "def similarity_scores(x):\n    return x @ x.mT * one()\n"
    )
    trials = "\nx = torch.eye(2)\nprint('tried', tuple(similarity_scores(x).shape))\n"
    answer = kernel(
        lambda notebook: notebook.run("import torch", "%%exercise 2.1\n" + helpers + trials)
    )
    text = learner.file("2.1").read_text()
    assert helpers in text
    assert "eye" not in text
    assert "tried (2, 2)" in answer.out
    assert "✓ 2.1" in answer.out


def test_running_a_cell_again_replaces_what_it_wrote_before(learner: Learner, kernel: Kernel) -> None:
    before = learner.file("2.1").read_text()

    def session(notebook: Notebook) -> None:
        notebook.exercise("2.1", "def double(x):\n    return 2 * x\n\n\n" + WRONG)
        notebook.exercise("2.1", "def half(x):\n    return x / 2\n\n\n" + WRONG)
        notebook.exercise("2.1", RIGHT)

    answer = kernel(session)
    assert learner.file("2.1").read_text() == before.replace(EXERCISES["2.1"].stub, RIGHT)
    assert "another version" not in answer.out


def test_a_block_that_was_edited_elsewhere_is_kept_and_comes_back(
    learner: Learner, kernel: Kernel
) -> None:
    path = learner.file("2.1")

    def session(notebook: Notebook) -> None:
        notebook.exercise("2.1", WRONG)
        path.write_text(path.read_text().replace("x @ x\n", "x @ x  # my own note\n"))
        notebook.exercise("2.1", RIGHT)
        notebook.run("%undo 2.1 --yes")

    answer = kernel(session)
    assert "held another version of this block, which no cell wrote: `lab undo 2.1`" in answer.out
    assert "✓ 2.1" in answer.out
    assert "+    return x @ x  # my own note" in answer.out
    assert "# my own note" in path.read_text()


def test_a_block_from_an_editor_survives_cells_of_its_own_and_of_its_neighbours(
    learner: Learner, kernel: Kernel
) -> None:
    learner.body("2.2", "return scores  # my first try")

    def session(notebook: Notebook) -> None:
        notebook.exercise("2.1", RIGHT)
        notebook.exercise("2.2", solution("2.2"))

    answer = kernel(session)
    assert answer.out.count("brings it back") == 1
    before = learner.file("2.2").read_text()
    assert "# my first try" not in before
    assert learner.lab("undo", "2.2", "--yes").code == 0
    assert "# my first try" in learner.file("2.2").read_text()
    assert learner.lab("undo", "2.2", "--yes").code == 0
    assert learner.file("2.2").read_text() == before


def test_a_syntax_error_writes_nothing_and_is_shown_where_it_stands(
    learner: Learner, kernel: Kernel
) -> None:
    before = learner.file("2.1").read_bytes()
    code = "def similarity_scores(x):\n    return x @@ x\n"
    answer = kernel(lambda notebook: notebook.exercise("2.1", code))
    assert learner.file("2.1").read_bytes() == before
    said = answer.out + answer.err
    assert "SyntaxError: invalid syntax" in said
    assert "    return x @@ x" in said
    assert re.search(r"(:|line )3\n", said)
    assert "During handling" not in said


@pytest.mark.parametrize(
    "line", ["import no_such_package", "raise_this = 1 / 0\nkeep = lambda: raise_this"]
)
def test_a_cell_that_cannot_be_imported_leaves_file_and_kernel_as_they_were(
    learner: Learner, kernel: Kernel, line: str
) -> None:
    def session(notebook: Notebook) -> None:
        notebook.exercise("2.1", RIGHT)
        kept = learner.file("2.1").read_bytes()
        notebook.exercise("2.1", f"{line}\ndef similarity_scores(x):\n    return keep(x)\n")
        assert learner.file("2.1").read_bytes() == kept
        notebook.run("import torch", "print('still', similarity_scores(torch.eye(2)).sum().item())")

    answer = kernel(session)
    assert "Nothing was kept" in answer.out
    assert "still 2.0" in answer.out


def test_an_untouched_stub_writes_nothing_and_is_not_started(learner: Learner, kernel: Kernel) -> None:
    before = learner.file("2.1").read_bytes()
    answer = kernel(lambda notebook: notebook.exercise("2.1", EXERCISES["2.1"].stub))
    assert "· 2.1 Similarity of every word with every word: not started" in answer.out
    assert learner.file("2.1").read_bytes() == before


def test_later_cells_and_other_modules_see_the_new_function_without_a_restart(
    learner: Learner, kernel: Kernel
) -> None:
    def session(notebook: Notebook) -> None:
        notebook.run(
            "from lab_transformer.attention import similarity_scores, softmax, contextualize",
            "from lab_transformer import attention, encoder",
            "import torch; x = torch.eye(2)",
        )
        notebook.exercise("2.1", WRONG)
        notebook.exercise("2.1", RIGHT)
        notebook.exercise("2.2", solution("2.2"))
        notebook.exercise("2.3", solution("2.3"))
        notebook.exercise("3.5", solution("3.5"))
        notebook.run("print('context', contextualize(x)[1].sum().item())")
        notebook.run("print('same', attention.similarity_scores is similarity_scores)")
        notebook.run("print('taken over', encoder.MultiHeadAttention is attention.MultiHeadAttention)")

    answer = kernel(session)
    assert "context 2.0" in answer.out
    assert "same True" in answer.out
    assert "taken over True" in answer.out


def test_a_cell_waits_for_its_exercise_and_so_do_cells_that_need_its_results(kernel: Kernel) -> None:
    def session(notebook: Notebook) -> None:
        notebook.run(
            "from lab_transformer.attention import softmax; import torch",
            "weights = softmax(torch.zeros(1, 2))",
            "total = weights.sum()",
            "print('then', total)",
            "other = 1 / 0",
            "print(undefined)",
        )
        notebook.exercise("2.2", solution("2.2"))
        notebook.run("weights = softmax(torch.zeros(1, 2))", "total = weights.sum()", "total.item()")

    answer = kernel(session)
    assert (
        answer.out.count("… This cell waits for exercise 2.2, A softmax that does not overflow.") == 3
    )
    assert "ZeroDivisionError" in answer.out
    assert "NameError: name 'undefined' is not defined" in answer.out
    assert "1.0" in answer.out.splitlines()[-1]


def test_the_mistake_in_a_cell_is_named_with_a_picture(kernel: Kernel) -> None:
    code = solution("3.2").replace("math.sqrt(q.shape[-1])", "q.shape[-1]")

    def session(notebook: Notebook) -> None:
        notebook.shell.run_cell(f"%%exercise 3.2\n{code}")
        (card,) = notebook.shown
        print(card["text/html"])

    answer = kernel(session)
    assert "<b>What happened:</b> You divide the scores by the width of the keys" in answer.out
    assert "<svg" in answer.out


def test_a_card_holds_the_hints_and_those_that_were_asked_for_are_open(
    learner: Learner, kernel: Kernel
) -> None:
    def session(notebook: Notebook) -> None:
        notebook.run("%hint 2.1", "%hint 2.1")
        for code in (EXERCISES["2.1"].stub, WRONG, RIGHT):
            notebook.shell.run_cell(f"%%exercise 2.1\n{code}")
            (card,) = notebook.shown
            notebook.shown.clear()
            print("open", len(re.findall(r"<details[^>]* open>", card["text/html"])))
            print("hints", card["text/html"].count("<details data-hint"))

    answer = kernel(session)
    assert re.findall(r"(?:open|hints) \d", answer.out) == [
        "open 2", "hints 3", "open 2", "hints 3", "open 0", "hints 0",
    ]  # fmt: skip
    assert "hint 1 of 3" in answer.out.split("hint 2 of 3")[0]
    assert "hint 3 of 3" in learner.lab("hint", "2.1").out


def test_progress_is_shown_in_the_notebook(kernel: Kernel) -> None:
    def session(notebook: Notebook) -> None:
        notebook.exercise("2.1", RIGHT)
        notebook.run("%progress")

    assert "1 of 15" in kernel(session).out


def test_an_endless_loop_in_a_cell_gives_the_kernel_back(kernel: Kernel) -> None:
    def session(notebook: Notebook) -> None:
        notebook.exercise("2.1", "def similarity_scores(x):\n    while True:\n        pass\n")
        notebook.run("print('the kernel', 'lives')")

    answer = kernel(session)
    assert "is there a loop that never ends?" in answer.out
    assert "the kernel lives" in answer.out


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%%exercise\ndef f(): pass", "name one exercise, such as 3.2"),
        ("%%exercise 2\ndef f(): pass", "name one exercise, such as 3.2"),
        ("%%exercise 9.9\ndef f(): pass", "there is no exercise '9.9'"),
        (
            "%%exercise 2.1\ndef similarity(x):\n    return x",
            "this cell defines no `similarity_scores`",
        ),
        ("%%exercise 2.1\nfrom __future__ import annotations\n" + RIGHT, "nothing was written"),
        ("%hint 9.9", "there is no exercise '9.9'"),
    ],
)
def test_a_slip_in_a_cell_is_a_sentence(kernel: Kernel, cell: str, words: str) -> None:
    answer = kernel(lambda notebook: notebook.run(cell))
    assert words in answer.out
    assert "Traceback" not in answer.out + answer.err


def test_a_magic_in_an_exercise_cell_runs_and_is_not_kept(learner: Learner, kernel: Kernel) -> None:
    answer = kernel(lambda notebook: notebook.exercise("2.1", RIGHT + "%env SOME_NAME=magic\n"))
    assert "env: SOME_NAME=magic" in answer.out
    assert "SOME_NAME" not in learner.file("2.1").read_text()


def test_a_broken_file_is_mended_by_hand_before_cells_write_again(
    learner: Learner, kernel: Kernel
) -> None:
    learner.body("2.2", "return (scores")
    before = learner.file("2.1").read_bytes()
    answer = kernel(lambda notebook: notebook.exercise("2.1", RIGHT))
    assert "lab_transformer/attention.py has a syntax error in line" in answer.out
    assert learner.file("2.1").read_bytes() == before


def test_the_courses_own_source_is_never_written(course: Path) -> None:
    before = (course / "lab_transformer" / "attention.py").read_bytes()
    cell = cells.read_cell(RIGHT, EXERCISES["2.1"])
    with pytest.raises(UserError, match="lab release FOLDER"):
        cells.plan_cell(Workspace(course), EXERCISES["2.1"], cell)
    assert (course / "lab_transformer" / "attention.py").read_bytes() == before


def test_the_installed_course_hands_a_notebook_over_to_its_workspace(
    learner: Learner, course: Path
) -> None:
    before = (course / "lab_transformer" / "attention.py").read_bytes()

    def main() -> int:
        Notebook(learner.root, installed=course).exercise("2.1", RIGHT)
        return 0

    answer = in_fork(main)
    assert "✓ 2.1" in answer.out, answer.out + answer.err
    assert RIGHT in learner.file("2.1").read_text()
    assert (course / "lab_transformer" / "attention.py").read_bytes() == before


ENDS = "import os\n\nQUIT = os._exit(3)\n\n\ndef similarity_scores(x):\n    return QUIT\n"
LOOPS = (
    "def forever():\n    while True:\n        pass\n\n\nNEVER = forever()\n\n\n"
    "def similarity_scores(x):\n    return NEVER\n"
)


@pytest.mark.parametrize(
    ("code", "words"),
    [(ENDS, "ended Python (exit code 3)"), (LOOPS, "at this cell, line 3: while True:")],
)
def test_a_cell_that_would_end_the_kernel_is_found_out_in_a_child(
    learner: Learner, kernel: Kernel, code: str, words: str
) -> None:
    before = learner.file("2.1").read_bytes()

    def session(notebook: Notebook) -> None:
        sys.modules["lab_check.importing"]._LONGEST = 0.2  # type: ignore[attr-defined]
        notebook.exercise("2.1", code)
        notebook.run("print('the kernel', 'lives')")

    answer = kernel(session)
    assert words in answer.out
    assert "Nothing was kept" in answer.out
    assert "the kernel lives" in answer.out
    assert learner.file("2.1").read_bytes() == before


@pytest.mark.parametrize("line", ["import os; os._exit(3)", "def broken(:", "1 / 0"])
def test_a_file_that_cannot_be_imported_harms_no_kernel_and_is_mended_in_an_editor(
    learner: Learner, kernel: Kernel, line: str
) -> None:
    path = learner.file("2.1")
    good = path.read_text()
    path.write_text(f"{good}\n{line}\n")

    def session(notebook: Notebook) -> None:
        notebook.run("from lab_transformer import attention", "print('the kernel', 'lives')")
        notebook.exercise("2.1", EXERCISES["2.1"].stub)
        path.write_text(good)
        notebook.run("from lab_transformer import attention", "print(attention.__name__)")

    answer = kernel(session)
    assert "✗ " in answer.out
    assert "lab_transformer/attention.py" in answer.out
    assert "the kernel lives" in answer.out
    assert "Traceback" not in answer.out + answer.err
    assert "lab_transformer.attention\n" in answer.out


def test_the_verdict_is_that_of_the_file_and_later_cells_see_it(
    learner: Learner, kernel: Kernel
) -> None:
    def session(notebook: Notebook) -> None:
        notebook.run("import torch", "from lab_transformer import attention")
        notebook.run("from lab_transformer.attention import similarity_scores")
        notebook.exercise("2.1", EXERCISES["2.1"].stub)
        learner.write("2.1", RIGHT)
        notebook.exercise("2.1", EXERCISES["2.1"].stub)
        # As long as before, within the same second: bytecode would be taken for new.
        learner.write("2.1", RIGHT.replace("x @ x.mT", "x * x.mT"))
        notebook.run("print('module', attention.similarity_scores(torch.ones(2, 2)).sum().item())")
        notebook.run("print('name', similarity_scores(torch.ones(2, 2)).sum().item())")
        notebook.exercise("2.1", EXERCISES["2.1"].stub)

    answer = kernel(session)
    assert "· 2.1" in answer.out
    assert "lab_transformer/attention.py has changed: it was loaded anew." in answer.out
    assert "✓ 2.1" in answer.out
    assert "module 4.0" in answer.out
    assert "name 4.0" in answer.out
    assert "✗ 2.1" in answer.out.partition("name 4.0")[2]


def test_what_is_broken_on_disk_is_not_hidden_by_what_the_kernel_holds(
    learner: Learner, kernel: Kernel
) -> None:
    def session(notebook: Notebook) -> None:
        notebook.exercise("2.1", RIGHT)
        path = learner.file("2.1")
        path.write_text(path.read_text().replace("x @ x.mT", "x @@ x.mT"))
        notebook.run("print('still', attention.__name__ if 'attention' in dir() else 'here')")
        notebook.exercise("2.1", EXERCISES["2.1"].stub)

    answer = kernel(session)
    assert (
        "this notebook goes on with what it had: SyntaxError in lab_transformer/attention.py"
        in answer.out
    )
    assert "still here" in answer.out
    assert "✗ 2.1 Similarity of every word with every word: lab_transformer/attention.py cannot be" in (
        answer.out
    )


def test_an_error_names_the_lines_of_the_cell(kernel: Kernel) -> None:
    code = "print('tried')\n\n\ndef helper(x):\n    return x.nothing\n\n\n" + RIGHT.replace(
        "x @ x.mT", "helper(x)"
    )
    answer = kernel(lambda notebook: notebook.exercise("2.1", code))
    assert "at this cell, line 6: return x.nothing" in answer.out
    assert answer.out.count("return x.nothing") == 1


def test_names_that_were_imported_before_the_extension_become_the_workspaces(
    learner: Learner, course: Path
) -> None:
    learner.write("2.1", RIGHT.replace("x @ x.mT", "'mine'"))

    def main() -> int:
        notebook = Notebook(
            learner.root, course, "from lab_transformer import attention",
            "from lab_transformer.attention import similarity_scores",
        )  # fmt: skip
        notebook.run("print(attention.similarity_scores(1), similarity_scores(1))")
        return 0

    answer = in_fork(main)
    assert "mine mine" in answer.out, answer.out + answer.err


def test_an_interrupted_check_is_one_line(kernel: Kernel) -> None:
    def session(notebook: Notebook) -> None:
        checking = sys.modules["lab_check.checking"]

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        checking.check_exercises = interrupted  # type: ignore[attr-defined]
        notebook.exercise("2.1", RIGHT)

    answer = kernel(session)
    assert answer.out + answer.err == "Stopped: this check did not come to its end.\n"
