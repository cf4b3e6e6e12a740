"""Inputs drawn from a seed and the results that are expected for them, live or from a recording.

Where the solutions are, inputs are drawn and expectations computed as a test asks for them, and can be
recorded. Where they are not (a learner's workspace), the recording is played back in the same order.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lab_check.calling import codec
from lab_check.calling.calls import Backend, InProcess, Made, Reply, Target
from lab_check.calling.signatures import AxisNames
from lab_check.running.submission import Handle, Submission

PUBLISHED_SEED = 2017


class Tape:
    """What one test draws and expects, in order."""

    def __init__(self, entries: list[Any] | None = None) -> None:
        self.replaying = entries is not None
        self.entries: list[Any] = entries or []
        self._next = 0

    def take(self, compute: Callable[[], Any]) -> Any:
        """Give the next entry: the recorded one, or a new one that is kept."""
        if self.replaying:
            self._next += 1
            return self.entries[self._next - 1]
        value = compute()
        self.entries.append(value)
        return value


def pack(tapes: dict[str, list[Any]]) -> bytes:
    """Put the entries of many tests into bytes; the same entries give the same bytes."""
    return gzip.compress(codec.pack(tapes), 6, mtime=0)


def load(path: Path) -> dict[str, list[Any]]:
    """Read from a file what `pack` gave."""
    tapes: dict[str, list[Any]] = codec.unpack(gzip.decompress(path.read_bytes()))
    return tapes


class Draw:
    """Random inputs for one test: the same seed and test give the same inputs."""

    def __init__(self, tape: Tape, seed: int, test: str, device: torch.device) -> None:
        self._seed = f"{seed}/{test}"
        self._tape = tape
        self._device = device
        self.names: AxisNames = {}
        self._kept: list[Tensor] = []

    @functools.cached_property
    def _generator(self) -> torch.Generator:
        digest = hashlib.sha256(self._seed.encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))

    def normal(self, *, scale: float = 1.0, dtype: torch.dtype = torch.float32, **axes: int) -> Tensor:
        """Draw standard normal numbers; the keywords name the axes and give their sizes."""
        shape = tuple(axes.values())
        return self._named(
            axes,
            lambda: (torch.randn(shape, generator=self._generator, dtype=torch.float64) * scale).to(
                dtype
            ),
        )

    def integers(self, low: int, high: int, **axes: int) -> Tensor:
        """Draw integers from low to high - 1."""
        shape = tuple(axes.values())
        return self._named(axes, lambda: torch.randint(low, high, shape, generator=self._generator))

    def mask(self, **axes: int) -> Tensor:
        """Draw a boolean mask with at least one True and one False along its last axis."""

        def compute() -> Tensor:
            noise = torch.rand(tuple(axes.values()), generator=self._generator)
            allowed = noise < 0.6
            allowed |= noise == noise.amin(dim=-1, keepdim=True)
            return allowed & (noise != noise.amax(dim=-1, keepdim=True))

        return self._named(axes, compute)

    def number(self, low: int, high: int) -> int:
        """Draw one integer from low to high - 1."""
        drawn: int = self._tape.take(
            lambda: int(torch.randint(low, high, (), generator=self._generator))
        )
        return drawn

    def generator(self) -> torch.Generator:
        """Make a fresh random generator for code that wants one."""
        return torch.Generator(device=self._device).manual_seed(self.number(0, 2**31))

    def state(self, module: Handle, scale: float = 0.5) -> dict[str, Tensor]:
        """Draw a value for every parameter of a module; load it with `load_state_dict`."""
        shapes = module.state_dict()
        return {
            name: self.normal(scale=scale, dtype=tensor.dtype, **_axes_of(tensor))
            for name, tensor in shapes.items()
        }

    def _named(self, axes: dict[str, int], compute: Callable[[], Tensor]) -> Tensor:
        # A copy: a test may change what it drew, and the recording must not notice.
        tensor: Tensor = self._tape.take(compute).to(self._device, copy=True)
        self._kept.append(tensor)  # an id must not be used twice while names hang on it
        self.names[id(tensor)] = tuple(axes)
        return tensor


def _axes_of(tensor: Tensor) -> dict[str, int]:
    return {f"axis{i}": size for i, size in enumerate(tensor.shape)}


class _Taped:
    """The reference, computed and kept; or what was kept of it."""

    def __init__(self, tape: Tape, inner: Backend | None, device: torch.device) -> None:
        self._tape, self._inner, self._device = tape, inner, device

    def call(
        self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], gradients: bool
    ) -> Reply:
        """Answer from the reference or from the recording."""

        def compute() -> list[Any]:
            assert self._inner is not None
            reply = self._inner.call(target, args, kwargs, gradients)
            made = isinstance(reply.value, Made)
            return [made, reply.value.number if made else reply.value, reply.gradients]

        made, value, found = self._tape.take(compute)
        moved = {name: None if g is None else g.to(self._device) for name, g in found.items()}
        return Reply(Made(value) if made else to_device(value, self._device), moved)


def to_device(value: Any, device: torch.device) -> Any:
    """Move every tensor in a value."""
    match value:
        case Tensor():
            return value.to(device)
        case list() | tuple():
            return type(value)(to_device(item, device) for item in value)
        case dict():
            return {key: to_device(item, device) for key, item in value.items()}
    return value


def expectation(
    tape: Tape, draw: Draw, device: torch.device, reference: Backend | None = None
) -> Submission:
    """Make the fixture `expected` of one test: the reference, as a submission on a tape."""
    inner = None if tape.replaying else (reference or InProcess())
    expected = Submission(_Taped(tape, inner, device), proven=tape.replaying)
    expected._names = draw.names
    return expected
