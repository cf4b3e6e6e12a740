"""The course as one file to install: on the nodes of a cluster, on the machine of another system."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import subprocess
import sys
import zipfile
from pathlib import Path

from lab_check.errors import UserError
from lab_check.paths import COURSE, HOME

NAME = "lab-transformer"


def build(folder: Path) -> Path:
    """Write the wheel into a folder: built from a checkout, or put together from what is installed."""
    return _built(folder) if COURSE == HOME else _packed_again(folder)


def _built(folder: Path) -> Path:
    words = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *words, "--wheel-dir", folder, HOME],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if done.returncode:
        raise UserError(f"the wheel could not be built: {done.stdout.strip().splitlines()[-1]}")
    return next(folder.glob("lab_transformer-*.whl"))


def _packed_again(folder: Path) -> Path:
    """Make a wheel of the files that a wheel has installed."""
    installed = importlib.metadata.distribution(NAME)
    info = f"lab_transformer-{installed.version}.dist-info"
    members = {
        str(path): Path(str(installed.locate_file(path))).read_bytes()
        for path in installed.files or ()
        if path.parts[0].startswith("lab_") and path.suffix != ".pyc"
    }
    # What an installer adds about this installation does not belong to the next.
    for name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
        members.pop(f"{info}/{name}", None)
    rows = [f"{name},sha256={_sum(content)},{len(content)}" for name, content in members.items()]
    members[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    out = folder / f"lab_transformer-{installed.version}-py3-none-any.whl"
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out


def _sum(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
