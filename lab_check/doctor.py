"""What of the environment is there, and how to get what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One part of the environment; `needed` says whether learning works without it."""

    what: str
    ok: bool
    state: str
    needed: bool = True


def examine() -> Iterator[Finding]:
    """Look at everything that the course can use."""
    fits = sys.version_info >= (3, 11)
    version = platform.python_version()
    yield Finding("Python", fits, version if fits else f"{version} is too old: install 3.11 or newer")
    yield from _torch()
    for name, why in (("ipywidgets", "sliders in notebooks"), ("matplotlib", "figures")):
        yield _package(name, why)
    yield _package("jupyterlab", "working in notebooks")
    yield _notebook_extension()


def _torch() -> Iterator[Finding]:
    if importlib.util.find_spec("torch") is None:
        yield Finding("PyTorch", False, "not installed: pip install -r requirements.txt")
        return
    import torch

    yield Finding("PyTorch", True, torch.__version__)
    if torch.accelerator.is_available():
        yield Finding("device", True, str(torch.accelerator.current_accelerator()), needed=False)
    else:
        yield Finding("device", True, "cpu (no accelerator found; the course needs none)", needed=False)


def _package(name: str, why: str) -> Finding:
    try:
        return Finding(name, True, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(
            name, False, f"not installed, needed for {why}: pip install {name}", needed=False
        )


def _notebook_extension() -> Finding:
    ready = importlib.util.find_spec("IPython") is not None
    state = "%load_ext lab_check is ready" if ready else "IPython is missing: pip install ipykernel"
    return Finding("notebook extension", ready, state, needed=False)
