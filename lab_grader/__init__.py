"""Everything that checks: exercises, tests, diagnosis, release and grading of Lab Transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Answer `%load_ext lab_grader`: in a workspace with the code that lies there."""
    import importlib
    import sys

    from lab_grader.exercises import foreign_workspace

    root = foreign_workspace()
    if root is not None:
        sys.path.insert(0, str(root))
        for name in [
            name for name in sys.modules if name.startswith(("lab_grader", "lab_transformer"))
        ]:
            del sys.modules[name]
    importlib.import_module("lab_grader.notebook").load(shell)
