"""The learner's modules: tried in a child before they are let into this process, and kept up to date.

A module that ends Python, never ends or cannot be read is found out without harm.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import linecache
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, ModuleType

from lab_check.calling.calls import import_block
from lab_check.calling.failures import Failure, TimeIsUp
from lab_check.running.children import SECONDS, LostJob, load_from_disk, run_apart

_PREFIX = "lab_transformer."
_LONGEST = 0.8 * SECONDS  # so that a child can say itself where it hangs
_START = 60.0  # seconds for a new Python to import torch, where there is no fork
# What was imported well once needs no second trial: digests of a module and of all that it imports.
_good: set[str] = set()


class CannotImport(ImportError):
    """A module of the learner's that cannot be imported; the message is for the learner."""


def troubles(package: Path, wanted: list[str], texts: dict[str, str] | None = None) -> dict[str, str]:
    """Try modules, and what they import, in a child; say what is the matter with those that fail.

    `texts` stand in for what is on disk. A module that imports one in trouble has the same trouble.
    """
    modules = _Modules(package, texts or {})
    waiting = [name for name in modules.in_order(wanted) if modules.digest(name) not in _good]
    found: dict[str, str] = {}
    while waiting:
        for name, trouble in _try(package, list(waiting), modules.texts):
            waiting.remove(name)
            if trouble:
                found[name] = trouble
                break
            _good.add(modules.digest(name))
        for name in list(waiting):
            if ill := next((other for other in modules.needs(name) if other in found), None):
                found[name] = found[ill]
                waiting.remove(name)
    return found


@functools.lru_cache(maxsize=64)
def _words(text: str) -> list[str]:
    """List all words of the names that a module imports."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    found = [
        f"{getattr(node, 'module', None)}.{alias.name}".split(".")
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    return list(dict.fromkeys(word for words in found for word in words))


class _Modules:
    """The files of a package, some of them replaced, and what each imports of the others."""

    def __init__(self, package: Path, texts: dict[str, str]) -> None:
        self.texts = texts
        self._package = package

    def text(self, name: str) -> str:
        if name in self.texts:
            return self.texts[name]
        try:
            return (self._package / f"{name}.py").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def needs(self, name: str) -> list[str]:
        words = _words(self.text(name))
        return [word for word in words if word != name and (self._package / f"{word}.py").is_file()]

    def in_order(self, wanted: list[str]) -> list[str]:
        """List modules and what they import, each after those that it imports."""
        ordered: dict[str, None] = {}

        def add(name: str, above: tuple[str, ...]) -> None:
            for other in self.needs(name):
                if other not in above:
                    add(other, (*above, name))
            ordered[name] = None

        for name in wanted:
            add(name, (name,))
        return list(ordered)

    def digest(self, name: str) -> str:
        texts = (self.text(other) for other in self.in_order([name]))
        return hashlib.sha256("\0".join([str(self._package), name, *texts]).encode()).hexdigest()


def _try(package: Path, names: list[str], texts: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Import modules in a child, one after the other: each with what is the matter, or nothing."""
    if sys.platform == "linux":
        jobs = [functools.partial(_trouble, package, name, texts) for name in names]
        answers = run_apart(jobs, SECONDS)
    else:
        answers = _answers_of_new_python(package, names, texts)
    for name, answer in zip(names, answers, strict=False):
        if isinstance(answer, LostJob):
            yield name, f"importing lab_transformer/{name}.py: {answer.message}"
        else:
            yield name, answer


def _trouble(package: Path, name: str, texts: dict[str, str]) -> str:
    """Import a module in the child, and give what is the matter with it, in words."""
    for replaced, text in texts.items():
        path = str(package / f"{replaced}.py")
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    finder = _Finder(package, texts)
    sys.meta_path.insert(0, finder)
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _time_is_up)
        signal.setitimer(signal.ITIMER_REAL, _LONGEST)
    try:
        import_block(name, "__name__")
    except Failure as failure:
        return str(failure)
    except TimeIsUp as late:
        return (
            f"importing lab_transformer/{name}.py takes longer than {_LONGEST:g} seconds: is there a "
            f"loop that never ends?{_innermost(late, package)}"
        )
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        sys.meta_path.remove(finder)
    return ""


def _innermost(error: BaseException, package: Path) -> str:
    """Name the innermost line of the learner's in which an error arose."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).parent == package]
    if not own:
        return ""
    return (
        f"\n  at lab_transformer/{Path(own[-1].filename).name}, line {own[-1].lineno}: {own[-1].line}"
    )


def _time_is_up(number: int, frame: FrameType | None) -> None:
    raise TimeIsUp


def _answers_of_new_python(
    package: Path, names: list[str], texts: dict[str, str]
) -> Iterator[str | LostJob]:
    """Have a new Python import modules: fork is not safe with torch everywhere."""
    question = json.dumps([str(package), names, texts])
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__], input=question, stdout=subprocess.PIPE, encoding="utf-8",
            stderr=subprocess.DEVNULL, timeout=_START, cwd=package.parent,
        )  # fmt: skip
        said, end = done.stdout, f"the code ended Python (exit code {done.returncode})"
    except subprocess.TimeoutExpired as late:
        said = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        end = f"no answer within {_START:g} seconds: is there a loop that never ends?"
    yield from (json.loads(line) for line in said.splitlines())
    yield LostJob("crash", end)


def answer_from_input() -> None:
    """Be the new Python: try the modules that standard input names, and answer line by line."""
    package, names, texts = json.load(sys.stdin)
    out = sys.stdout
    sys.stdout = sys.stderr  # what modules print is no answer
    load_from_disk()
    for name in names:
        print(json.dumps(_trouble(Path(package), name, texts)), file=out, flush=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of a package on disk, whatever else is installed; some with another text."""

    def __init__(self, package: Path, texts: dict[str, str]) -> None:
        self._package, self._texts = package, texts

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        name = fullname.removeprefix(_PREFIX)
        file = self._package / f"{name}.py"
        if name == fullname or not file.is_file():
            return None
        loader = _Source(fullname, str(file), self._texts.get(name))
        return importlib.util.spec_from_file_location(fullname, file, loader=loader)


class _Source(importlib.machinery.SourceFileLoader):
    """Compiles a module from its source, never from bytecode that may be older."""

    def __init__(self, fullname: str, path: str, text: str | None) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path) if self._text is None else self._text.encode()
        return self.source_to_code(source, self.path)


class Guard(_Finder):
    """Stands before the learner's package in a kernel, and refuses in words what would harm it."""

    def __init__(self, package: Path) -> None:
        super().__init__(package, {})
        self._loaded: dict[str, str] = {}

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = super().find_spec(fullname, path, target)
        if spec is not None:
            name = fullname.removeprefix(_PREFIX)
            trouble = troubles(self._package, [name]).get(name)
            if trouble:
                raise CannotImport(trouble)
            self._loaded[fullname] = self._sha(fullname)
        return spec

    def changed(self) -> list[str]:
        """List the modules that are loaded, and are something else on disk by now."""
        loaded = [name for name in sys.modules if name.startswith(_PREFIX)]
        return [name for name in loaded if self._loaded.get(name) != self._sha(name)]

    def forget_changes(self) -> None:
        """Take what is loaded for what is on disk, until that changes again."""
        self._loaded |= {name: self._sha(name) for name in self.changed()}

    def _sha(self, fullname: str) -> str:
        try:
            content = (self._package / f"{fullname.removeprefix(_PREFIX)}.py").read_bytes()
        except OSError:
            return ""
        return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    answer_from_input()
