"""The notebook's side: exercise cells, hints, progress, and cells that wait for an exercise."""

from __future__ import annotations

import ast
import contextlib
import html
import importlib
import io
import linecache
import re
import sys
from collections.abc import Iterator
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.display import display

from lab_grader import writing
from lab_grader.errors import UserError
from lab_grader.exercises import Exercise, UnknownExerciseError, catalogue, select
from lab_grader.runner import Result
from lab_grader.source import is_untouched
from lab_grader.workspace import Workspace, current

_WAITS = "__lab_waits__"
_VALUE = "__lab_value__"


def load(shell: InteractiveShell) -> None:
    """Register the magics, and let cells wait instead of failing."""
    magics = LabMagics(shell)
    shell.register_magics(magics)
    shell.ast_transformers = [t for t in shell.ast_transformers if not isinstance(t, _Waiting)]
    shell.ast_transformers.append(_Waiting(magics))
    shell.user_ns[_WAITS] = magics.waits


@magics_class
class LabMagics(Magics):
    """`%%exercise`, `%hint` and `%progress`."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell=shell)
        self._shell = shell
        self._pending: dict[str, str] = {}

    @cell_magic
    def exercise(self, line: str, cell: str) -> None:
        """Put the cell's block into your lab_transformer, and check it."""
        with _said_plainly():
            exercise = _one(line)
            code = self._shell.transform_cell(cell)  # a magic in the cell becomes a call
            untouched: bool | None = None
            with contextlib.suppress(SyntaxError):
                untouched = is_untouched(code, exercise.name, exercise.stub)
            if untouched is None:
                self._show_syntax_error(line, cell)
                return
            workspace = current()
            if not untouched and not self._put(workspace, exercise, code):
                return
            _show(workspace, _check(workspace, exercise))

    def _show_syntax_error(self, line: str, cell: str) -> None:
        """Show a mistake of the cell where it stands in the cell, first line included."""
        number = len(self._shell.user_ns["In"]) - 1
        name = self._shell.compile.cache(f"%%exercise {line}\n{cell}", number)
        try:
            compile(f"\n{cell}", name, "exec")
        except SyntaxError:
            self._shell.showsyntaxerror()

    def _put(self, workspace: Workspace, exercise: Exercise, code: str) -> bool:
        """Write the cell into the file and load it anew; tell whether that worked."""
        cell = writing.read_cell(code, exercise)
        written = writing.write_cell(workspace, exercise, cell)
        file = f"lab_transformer/{exercise.module}.py"
        if written.backup is not None:
            copy = written.backup.relative_to(workspace.root)
            print(f"{file} was changed since a cell last wrote it: a copy is in {copy}")
        try:
            module = _reload(exercise, self._shell.user_ns)
        except BaseException:
            written.undo()
            self._shell.showtraceback()
            print(f"Nothing was kept: {file} is as it was before this cell.")
            with contextlib.suppress(Exception):
                _reload(exercise, self._shell.user_ns)
            return False
        self._shell.user_ns.update({n: vars(module)[n] for n in cell.names if n in vars(module)})
        if cell.tried:
            self._shell.run_cell(cell.tried)
        return True

    @line_magic
    def hint(self, line: str) -> None:
        """Show the next hint of an exercise."""
        with _said_plainly():
            exercise = _one(line)
            rung, hint = current().next_hint(exercise)
            print(f"{exercise.id} {exercise.title}, hint {rung} of {len(exercise.hints)}: {hint}")

    @line_magic
    def progress(self, line: str) -> None:
        """Show how far you are, week by week."""
        from rich.console import Console

        from lab_grader.cli import progress_table

        out = io.StringIO()
        Console(file=out, width=90, force_jupyter=False, color_system=None).print(
            progress_table(current())
        )
        print("\n".join(line.rstrip() for line in out.getvalue().splitlines()))

    @contextlib.contextmanager
    def waits(self, names: tuple[str, ...]) -> Iterator[None]:
        """Run a cell; where it reaches an exercise that is not written yet, say what it waits for."""
        try:
            yield
        except NotImplementedError as error:
            stub = re.match(r"Exercise (\d+\.\d+):", str(error))
            if stub is None:
                raise
            self._wait(stub[1], names)
        except NameError as error:
            if error.name not in self._pending:
                raise
            self._wait(self._pending[error.name], names)
        else:
            for name in names:
                self._pending.pop(name, None)

    def _wait(self, id: str, names: tuple[str, ...]) -> None:
        for name in names:
            if name not in self._shell.user_ns:
                self._pending[name] = id
        title = catalogue()[id].title if id in catalogue() else ""
        print(f"… This cell waits for exercise {id}, {title}.")


class _Waiting(ast.NodeTransformer):
    """Puts the body of every cell under `waits`; what a cell ends in is still displayed."""

    def __init__(self, magics: LabMagics) -> None:
        self._magics = magics

    def visit_Module(self, module: ast.Module) -> ast.Module:
        body = module.body
        magic = any(isinstance(n, ast.Name) and n.id == "get_ipython" for n in ast.walk(module))
        future = any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in body)
        if not body or magic or future:
            return module
        self._magics._shell.user_ns[_WAITS] = self._magics.waits
        names = {
            n.id for n in ast.walk(module) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        names |= {n.name for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        last = body[-1]
        shown: list[ast.stmt] = []
        if isinstance(last, ast.Expr):
            body = [*body[:-1], ast.Assign([ast.Name(_VALUE, ast.Store())], last.value)]
            shown = [ast.Expr(ast.Name(_VALUE, ast.Load()))]
        names_given = ast.Tuple([ast.Constant(name) for name in sorted(names)], ast.Load())
        call = ast.Call(ast.Name(_WAITS, ast.Load()), [names_given], [])
        empty = ast.Assign([ast.Name(_VALUE, ast.Store())], ast.Constant(None))
        module.body = [empty, ast.With([ast.withitem(call)], body), *shown]
        for node in [empty, *module.body[1:]]:
            ast.copy_location(node, last)
        return ast.fix_missing_locations(module)


@contextlib.contextmanager
def _said_plainly() -> Iterator[None]:
    """Show a learner's slip as a sentence, not as a traceback."""
    try:
        yield
    except (UserError, UnknownExerciseError) as error:
        print(error.args[0])


def _one(line: str) -> Exercise:
    found = select([line.strip()]) if line.strip() else []
    if len(found) != 1:
        raise UserError("name one exercise, such as 3.2")
    return found[0]


def _check(workspace: Workspace, exercise: Exercise) -> Result:
    from lab_grader.checking import check_exercises

    (result,) = check_exercises(workspace, [exercise])
    return result


def _reload(exercise: Exercise, user_ns: dict[str, Any]) -> Any:
    """Load the learner's package anew, so that every module and cell sees the new block."""
    linecache.checkcache()
    importlib.invalidate_caches()
    wanted = f"lab_transformer.{exercise.module}"
    importlib.import_module(wanted)
    loaded = [name for name in sys.modules if name.startswith("lab_transformer.")]
    for name in _in_order(loaded):
        importlib.reload(sys.modules[name])
    for name, value in list(user_ns.items()):
        home = getattr(value, "__module__", None)
        if isinstance(home, str) and home.startswith("lab_transformer.") and home in sys.modules:
            fresh = vars(sys.modules[home]).get(getattr(value, "__name__", ""))
            if fresh is not None and not name.startswith("_"):
                user_ns[name] = fresh
    return sys.modules[wanted]


def _in_order(names: list[str]) -> list[str]:
    """Sort modules so that each comes after those it imports."""
    ordered: list[str] = []

    def add(name: str) -> None:
        if name in ordered:
            return
        homes = {getattr(value, "__module__", None) for value in vars(sys.modules[name]).values()}
        for other in names:
            if other != name and other in homes:
                add(other)
        ordered.append(name)

    for name in names:
        add(name)
    return ordered


def _show(workspace: Workspace, result: Result) -> None:
    """Display the card, and a button for hints where they can help."""
    from lab_grader import card

    display({"text/html": card.card(result), "text/plain": card.text(result)}, raw=True)
    if result.status != "wrong":
        return
    try:
        import ipywidgets
    except ImportError:
        return
    button = ipywidgets.Button(description="Give me a hint", icon="lightbulb-o")
    said = ipywidgets.HTML()

    def clicked(_: object) -> None:
        rung, hint = workspace.next_hint(result.exercise)
        said.value += f"<p>Hint {rung} of {len(result.exercise.hints)}: {html.escape(hint)}</p>"

    button.on_click(clicked)
    display(ipywidgets.VBox([button, said]))
