"""The notebook's side: exercise cells, hints, progress, and cells that wait for an exercise."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import io
import linecache
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib as mpl
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.display import display

from lab_check import card, cells, checking, importing, undoing
from lab_check.errors import UserError
from lab_check.exercises import Exercise, UnknownExerciseError, catalogue, reading, select
from lab_check.paths import HOME, in_workspace, workspace_around
from lab_check.running.results import Result
from lab_check.source import is_untouched
from lab_check.workspace import Workspace, course_checkout, current

_WAITS = "__lab_waits__"
_VALUE = "__lab_value__"


def load(shell: InteractiveShell) -> None:
    """Register the magics, size figures, let cells wait, and stand guard before the package."""
    magics = LabMagics(shell)
    shell.register_magics(magics)
    mpl.rc("figure", figsize=(5, 3), dpi=80)
    mpl.rc("figure.constrained_layout", use=True)
    shell.ast_transformers = [t for t in shell.ast_transformers if not isinstance(t, _Waiting)]
    shell.ast_transformers.append(_Waiting(magics))
    shell.user_ns[_WAITS] = magics.waits
    with _said_plainly():
        magics.stand_guard()


def _find_workspace() -> Workspace:
    """Find the workspace of a notebook: around it, or else the one that this package belongs to."""
    if in_workspace() and workspace_around(Path.cwd()) is None:
        return Workspace(HOME)
    return course_checkout() or current()


@magics_class
class LabMagics(Magics):
    """`%%exercise`, `%hint`, `%undo` and `%progress`."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell=shell)
        self._shell = shell
        self._pending: dict[str, str] = {}
        self._guard: importing.Guard | None = None
        # At the start: a cell may go to another folder.
        self._found: Workspace | None = None
        with contextlib.suppress(UserError):
            self._found = _find_workspace()

    @property
    def _workspace(self) -> Workspace:
        return self._found or _find_workspace()

    def stand_guard(self) -> None:
        """Let no module in that would end this kernel, and bring those that change up to date."""
        if self._workspace.is_course:
            return
        sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, importing.Guard)]
        self._guard = importing.Guard(self._workspace.package)
        self._guard.forget_changes()
        sys.meta_path.insert(0, self._guard)
        _adopt(self._shell.user_ns)
        events = self._shell.events
        for callback in list(events.callbacks["pre_run_cell"]):
            if isinstance(getattr(callback, "__self__", None), LabMagics):
                events.unregister("pre_run_cell", callback)
        events.register("pre_run_cell", self._catch_up)

    def _catch_up(self, *_: object) -> None:
        """Load what changed on disk since it was loaded, or say why that cannot be."""
        if self._guard is None or not (changed := self._guard.changed()):
            return
        failed = _reload(self._shell.user_ns)
        for name in changed:
            file = f"{name.replace('.', '/')}.py"
            if name in failed:
                print(f"{file} has changed, and this notebook goes on with what it had: {failed[name]}")
            else:
                print(f"{file} has changed: it was loaded anew.")
        self._guard.forget_changes()

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
            elif untouched:
                self._show(_check(self._workspace, exercise))
            else:
                self._put(exercise, code)

    def _show_syntax_error(self, line: str, cell: str) -> None:
        """Show a mistake of the cell where it stands in the cell, first line included."""
        number = len(self._shell.user_ns["In"]) - 1
        name = self._shell.compile.cache(f"%%exercise {line}\n{cell}", number)
        try:
            compile(f"\n{cell}", name, "exec")
        except SyntaxError:
            self._shell.showsyntaxerror()

    def _put(self, exercise: Exercise, code: str) -> None:
        """Write the cell into the file, unless it cannot be imported there, and check it."""
        workspace, name = self._workspace, exercise.module
        cell = cells.read_cell(code, exercise)
        change = cells.plan_cell(workspace, exercise, cell)
        file = f"lab_transformer/{name}.py"
        ill = importing.troubles(workspace.package, [name], {name: change.result})
        if name in ill:
            result = checking.not_imported(exercise, _in_cell(ill[name], cell, change))
            self._show(result, [("Nothing was kept", f"{file} is as it was before this cell")])
            return
        notes = []
        if change.hits_other_work:
            said = f"{file} held another version of this block, which no cell wrote: "
            notes.append(("Kept", f"{said}`lab undo {exercise.id}` brings it back"))
        change.make(from_cell=True)
        importlib.import_module(f"lab_transformer.{name}")
        for other, error in _reload(self._shell.user_ns).items():
            print(f"{other.replace('.', '/')}.py cannot be loaded with this: {error}")
        if self._guard is not None:
            self._guard.forget_changes()
        module = vars(sys.modules[f"lab_transformer.{name}"])
        self._shell.user_ns.update({n: module[n] for n in cell.names if n in module})
        if cell.tried:
            self._shell.run_cell(cell.tried)
        self._show(_told(_check(workspace, exercise), lambda said: _in_cell(said, cell, change)), notes)

    def _show(self, result: Result, notes: card.Notes = ()) -> None:
        """Display the card, with hints where they can help."""
        exercise, root = result.exercise, str(self._workspace.root)
        hints = ""
        if result.status != "right" and (result.properties or result.diagnosis is None):
            seen = len(self._workspace.hints_seen(exercise))
            hints = card.hint_panel(exercise, seen, root)
        where = reading(exercise) if result.properties and result.status != "right" else ""
        html = card.card(result, notes, hints, where)
        display({"text/html": html, "text/plain": card.text(result, notes, where)}, raw=True)

    @line_magic
    def hint(self, line: str) -> None:
        """Show the hints of an exercise so far, and the next one."""
        from lab_check.cli import hint_lines

        with _said_plainly():
            exercise = _one(line)
            print(f"{exercise.id} {exercise.title}")
            print("\n".join(hint_lines(exercise, self._workspace.next_hint(exercise))))

    @line_magic
    def undo(self, line: str) -> None:
        """Bring back what stood in a block before; `--yes` does not ask."""
        with _said_plainly():
            sure = "--yes" in line.split()
            undoing.undo(self._workspace, _one(line.replace("--yes", "")), None, print, sure)
            self._catch_up()

    @line_magic
    def progress(self, line: str) -> None:
        """Show how far you are, week by week."""
        from rich.console import Console

        from lab_check.cli import progress_table

        with _said_plainly():
            out = io.StringIO()
            Console(file=out, width=90, force_jupyter=False, color_system=None).print(
                progress_table(self._workspace)
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
        except importing.CannotImport as error:
            print(f"✗ {error}\nMend it in the file, then run this cell again.")
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
    """Show a learner's slip, and that something was stopped, as a sentence, not as a traceback."""
    try:
        yield
    except (UserError, UnknownExerciseError) as error:
        print(error.args[0])
    except OSError as error:
        print(error)
    except KeyboardInterrupt:
        print("Stopped: this check did not come to its end.")


def _one(line: str) -> Exercise:
    found = select([line.strip()]) if line.strip() else []
    if len(found) != 1:
        raise UserError("name one exercise, such as 3.2")
    return found[0]


def _check(workspace: Workspace, exercise: Exercise) -> Result:
    (result,) = checking.check_exercises(workspace, [exercise])
    return result


def _in_cell(said: str, cell: cells.ExerciseCell, change: cells.Change) -> str:
    """Name the cell's own lines where a message names lines of the file that come from the cell."""

    def line(found: re.Match[str]) -> str:
        index = int(found[1]) - change.first_line
        if not 0 <= index < len(cell.lines):
            return found[0]
        return f"this cell, line {cell.lines[index] + 1}"  # the line with the magic counts

    return re.sub(rf"lab_transformer/{change.exercise.module}\.py, line (\d+)", line, said)


def _told(result: Result, reword: Callable[[str], str]) -> Result:
    """Give a result with its messages in other words."""
    properties = [dataclasses.replace(p, message=reword(p.message)) for p in result.properties]
    said = result.diagnosis
    if said is not None:
        said = dataclasses.replace(said, message=reword(said.message))
    return dataclasses.replace(result, properties=properties, diagnosis=said)


def _reload(user_ns: dict[str, Any]) -> dict[str, str]:
    """Load the learner's package anew, so that every module and cell sees it as it is.

    Gives what is the matter with modules that could not be loaded; they stay as they were.
    """
    linecache.checkcache()
    importlib.invalidate_caches()
    failed = {}
    for name in _in_order([name for name in sys.modules if name.startswith("lab_transformer.")]):
        try:
            importlib.reload(sys.modules[name])
        except Exception as error:
            failed[name] = str(error) or type(error).__name__
    _adopt(user_ns)
    return failed


def _adopt(user_ns: dict[str, Any]) -> None:
    """Let the names of cells mean what is loaded now."""
    for name, value in list(user_ns.items()):
        home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if not isinstance(home, str) or not home.startswith("lab_transformer.") or name.startswith("_"):
            continue
        with contextlib.suppress(ImportError):
            module = importlib.import_module(home)
            fresh = vars(module).get(getattr(value, "__name__", ""))
            user_ns[name] = module if isinstance(value, ModuleType) else fresh or value


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
