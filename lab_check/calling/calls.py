"""Calling blocks: what to call, what comes back, and how a learner's errors are told.

Values come back, never live objects: tensors without history, and numbers for modules that stay where
they were made.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import linecache
import os
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from lab_check.calling.failures import Failure, Missing, NotStarted, Raised, TimeIsUp, WrongType
from lab_check.calling.signatures import describe


@dataclass(frozen=True)
class Target:
    """What to call: a name of a module, or a method of something made earlier."""

    module: str
    name: str
    handle: int | None = None

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass
class Reply:
    """What came back from one call."""

    value: Any
    gradients: dict[str, Tensor | None] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)


class Backend(Protocol):
    """Where the code runs."""

    def call(
        self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], gradients: bool
    ) -> Reply:
        """Call the target, or raise a Failure that says what went wrong."""
        ...


@dataclass(frozen=True)
class Made:
    """A module that a backend keeps, by number."""

    number: int


class InProcess:
    """Runs the code here, as a learner's own check does; what it is given it gets as copies."""

    def __init__(self, resolve: Callable[[str, str], Any] | None = None) -> None:
        self._resolve = resolve or import_block
        self._made: list[nn.Module] = []

    def call(
        self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], gradients: bool
    ) -> Reply:
        """Call the target on copies of the arguments, and compare those with what they were."""
        given = {
            # Only a tensor with a gradient is handed over itself, and not a copy of it.
            name: value.detach().clone() if isinstance(value, Tensor) and value.requires_grad else value
            for name, value in changeable(args, kwargs).items()
        }
        value, found, after = self.run(target, args, kwargs, gradients)
        return Reply(value, found, changed(given, after))

    def run(
        self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], gradients: bool
    ) -> tuple[Any, dict[str, Tensor | None], dict[str, Tensor | set[Any]]]:
        """Call the target: what it returns, gradients, and what its arguments are after the call."""
        owner = self._made[target.handle] if target.handle is not None else None
        given = dict(enumerate(args)) | kwargs
        copies: dict[Any, Any] = {key: self._copy(value, gradients) for key, value in given.items()}
        _place(owner, copies)
        function = self._find(target, owner)
        with _learner_errors(target):
            positional = tuple(copies[i] for i in range(len(args)))
            named = {key: copies[key] for key in kwargs}
            value = function(*positional, **named)
            found = _gradients(value, copies, owner) if gradients else {}
        return self._keep(value, target), found, changeable(positional, named)

    def _find(self, target: Target, owner: nn.Module | None) -> Callable[..., Any]:
        if owner is None:
            found: Callable[..., Any] = self._resolve(target.module, target.name)
            return found
        method = target.name.rpartition(".")[2]
        if method == "forward":
            return owner
        if method == "load_state_dict":
            return functools.partial(_load, owner)
        if not hasattr(owner, method):
            raise Missing(f"{target.name.partition('.')[0]} has no method `{method}`")
        return getattr(owner, method)  # type: ignore[no-any-return]

    def _copy(self, value: Any, gradients: bool) -> Any:
        match value:
            case Made():
                return self._made[value.number]
            case Tensor() if value.requires_grad:
                return value
            case Tensor():
                # Strides are kept: a block must cope with what a transpose leaves behind.
                twin = value.detach().clone(memory_format=torch.preserve_format)
                wants = gradients and value.is_floating_point()
                return twin.requires_grad_() if wants else twin
            case torch.Generator():
                return value.clone_state()
            case list() | tuple() | set():
                return type(value)(self._copy(item, gradients) for item in value)
            case dict():
                return {key: self._copy(item, gradients) for key, item in value.items()}
        return value

    def _keep(self, value: Any, target: Target) -> Any:
        match value:
            case nn.Module():
                self._made.append(value)
                return Made(len(self._made) - 1)
            case Tensor():
                return value.detach().clone()
            case None | bool() | int() | float() | str():
                return value
            case list() | tuple() | set() | frozenset():
                kind = type(value) if type(value) in (list, tuple, set) else tuple
                return kind(self._keep(item, target) for item in value)
            case dict():
                return {key: self._keep(item, target) for key, item in value.items()}
        if target.name.endswith("load_state_dict"):
            return None
        raise WrongType(f"{target.name} returned {describe(value)}")


def _load(module: nn.Module, state: dict[str, Tensor]) -> Any:
    """Load parameters as the module itself does, which takes much longer where all is as usual."""
    own: dict[str, Tensor] = {}
    usual = type(module).load_state_dict is nn.Module.load_state_dict
    for path, part in module.named_modules(remove_duplicate=False):
        usual = usual and not (
            part._load_state_dict_pre_hooks
            or part._load_state_dict_post_hooks
            or type(part)._load_from_state_dict is not nn.Module._load_from_state_dict
            or type(part).get_extra_state is not nn.Module.get_extra_state
        )
        prefix = f"{path}." if path else ""
        for name, one in (*part._parameters.items(), *part._buffers.items()):
            if one is not None and name not in part._non_persistent_buffers_set:
                own[prefix + name] = one
    if not usual or _shapes(own) != _shapes(state):
        return module.load_state_dict(state)
    with torch.no_grad():
        for name, one in own.items():
            one.copy_(state[name])
    return [], []


def _shapes(state: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in state.items()}


def _place(owner: nn.Module | None, arguments: dict[Any, Any]) -> None:
    """Bring modules, which are made on the CPU, to the device of the tensors they are called with."""
    device = next((tensor.device for _, tensor in _tensors(arguments)), None)
    if device is None or device.type == "cpu":
        return
    for module in (owner, *arguments.values()):
        if isinstance(module, nn.Module):
            module.to(device)


def import_block(module: str, name: str) -> Any:
    """Find a block in the `lab_transformer` that Python imports."""
    path = f"lab_transformer/{module}.py"
    with _learner_errors(Target(module, name)):
        try:
            found = importlib.import_module(f"lab_transformer.{module}")
        except ModuleNotFoundError as error:
            if error.name != f"lab_transformer.{module}":
                raise
            raise Missing(f"there is no file {path}") from None
    package = importlib.import_module("lab_transformer")
    # For every call of a submission: pathlib would take longer than the import.
    if (found.__file__ or "").rpartition(os.sep)[0] not in package.__path__:
        # An installed copy of the course stands in for what is not there.
        raise Missing(f"there is no file {path}")
    if not hasattr(found, name):
        raise Missing(f"{path} defines no `{name}`")
    return getattr(found, name)


@contextlib.contextmanager
def _learner_errors(target: Target) -> Iterator[None]:
    """Turn what the learner's code raises into a failure that names their own line."""
    try:
        yield
    except (Failure, KeyboardInterrupt, TimeIsUp):
        raise
    except NotImplementedError as error:
        stub = re.match(r"Exercise (\d+\.\d+):", str(error))
        if stub is None:
            raise _raised(error) from error
        raise NotStarted(stub[1]) from error
    except BaseException as error:
        if target.name.endswith("load_state_dict") and isinstance(error, RuntimeError):
            raise Missing(_parameters_sentence(target, str(error))) from error
        raise _raised(error) from error


def _parameters_sentence(target: Target, message: str) -> str:
    details = " ".join(message.split("\n")[1:]).replace("\t", "").strip()
    return (
        f"the parameters of {target.name.partition('.')[0]} are not the ones it starts with: {details}"
    )


def _raised(error: BaseException) -> Raised:
    kind = type(error).__name__
    text = str(error).strip().splitlines()
    message = f"{kind}: {text[0]}" if text else kind
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).parent.name == "lab_transformer"
    ]
    if isinstance(error, SyntaxError):
        place = f" in {_short(error.filename)}" if error.filename else ""
        line = f", line {error.lineno}" if error.lineno else ""
        message = f"{kind}{place}{line}: {error.msg}"
    elif frames:
        # The learner's own line is the innermost one that is not one of the library's own checks.
        own = [f for f in frames if not f.filename.endswith("_checks.py")] or frames
        code = linecache.getline(own[-1].filename, own[-1].lineno or 0).strip()
        message += f"\n  at {_short(own[-1].filename)}, line {own[-1].lineno}: {code}"
    return Raised(message, kind)


def _short(filename: str) -> str:
    return f"lab_transformer/{Path(filename).name}"


def _tensors(values: dict[Any, Any]) -> Iterator[tuple[str, Tensor]]:
    """Walk over all tensors in arguments, each with a name that says where it stands."""

    def walk(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
        match value:
            case Tensor():
                yield name, value
            case list() | tuple():
                for i, item in enumerate(value):
                    yield from walk(f"{name}[{i}]", item)

    for key, value in values.items():
        yield from walk(str(key), value)


def changeable(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Tensor | set[Any]]:
    """Give what a call could change in place, by name: tensors, those in lists, and sets."""
    given: dict[Any, Any] = dict(enumerate(args)) | kwargs
    sets = {str(key): value for key, value in given.items() if isinstance(value, set)}
    return dict(_tensors(given)) | sets


def changed(before: dict[str, Tensor | set[Any]], after: dict[str, Tensor | set[Any]]) -> list[str]:
    """Name the arguments that are not what they were before the call."""
    return [
        name
        for name in before | after
        if name not in before or name not in after or not _identical(before[name], after[name])
    ]


def _identical(a: Tensor | set[Any], b: Tensor | set[Any]) -> bool:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return isinstance(a, set) and isinstance(b, set) and a == b
    # Most are equal as they are; where they are not, NaN may be why.
    return (a.shape, a.dtype) == (b.shape, b.dtype) and (
        torch.equal(a, b) or torch.equal(a.detach().nan_to_num(), b.detach().nan_to_num())
    )


def cotangent(like: Tensor) -> Tensor:
    """Give the fixed weights with which results are summed up before gradients are taken."""
    waves = torch.arange(1, like.numel() + 1, device=like.device, dtype=torch.float32)
    return waves.mul(1.7).cos().reshape(like.shape).to(like.dtype)


def _gradients(
    value: Any, arguments: dict[Any, Any], owner: nn.Module | None
) -> dict[str, Tensor | None]:
    """Take the gradient of a fixed weighted sum of all results, with respect to all inputs."""
    results = [
        item for _, item in _tensors({"": value}) if item.is_floating_point() and item.requires_grad
    ]
    inputs = {name: tensor for name, tensor in _tensors(arguments) if tensor.requires_grad}
    if owner is not None:
        inputs |= {f"parameter {name}": tensor for name, tensor in owner.named_parameters()}
    if not results or not inputs:
        return dict.fromkeys(inputs)
    total = torch.stack([(item * cotangent(item)).sum().cpu().double() for item in results]).sum()
    found = torch.autograd.grad(total, list(inputs.values()), allow_unused=True)
    return dict(zip(inputs, found, strict=True))
