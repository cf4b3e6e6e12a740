"""The seam between tests and the code they test.

A test says ``submission.attention.softmax(scores)``. Where the code runs (in this process, behind a
recording, in a sandbox) is the backend's matter; what comes back are values, never live objects:
tensors without history, and handles for modules that stay on the other side.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab_check.calling.calls import Backend, Made, Reply, Target
from lab_check.calling.failures import Failure, Raised, WrongType
from lab_check.calling.signatures import AxisNames, Contract
from lab_check.exercises import catalogue


class Submission:
    """The package under test; its modules are attributes.

    What is `proven` keeps what signatures promise: that was seen when it was recorded.
    """

    def __init__(self, backend: Backend, proven: bool = False) -> None:
        self._backend, self._proven = backend, proven
        self._names: AxisNames = {}
        self._watch: Callable[[Seen], None] = _look_away

    def __getattr__(self, module: str) -> _Module:
        if module.startswith("_"):
            raise AttributeError(module)
        return _Module(self, module)


@dataclass(frozen=True)
class _Module:
    submission: Submission
    name: str

    def __getattr__(self, name: str) -> RemoteFunction:
        return RemoteFunction(
            self.submission, Target(self.name, name), _contract(self.name, name, "forward")
        )


@dataclass(frozen=True)
class Handle(Made):
    """An object that stays where it was made; calling it and its methods is all one can do."""

    submission: Submission
    target: Target

    def __getattr__(self, method: str) -> RemoteFunction:
        if method.startswith("__"):
            raise AttributeError(method)
        target = Target(self.target.module, f"{self.target.name}.{method}", self.number)
        return RemoteFunction(
            self.submission, target, _contract(self.target.module, self.target.name, method)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)


@dataclass(frozen=True)
class RemoteFunction:
    """A function, class or method on the other side."""

    submission: Submission
    target: Target
    contract: Contract | None
    summary: Callable[[Any], Any] | None = None
    tolerance: float = 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.observe(*args, **kwargs).value

    def seen_as(self, summary: Callable[[Any], Any], tolerance: float) -> RemoteFunction:
        """Let recognition look at a summary of the value only, for results that are random."""
        return dataclasses.replace(self, summary=summary, tolerance=tolerance)

    def observe(self, *args: Any, gradients: bool = False, **kwargs: Any) -> Reply:
        """Call it and see more than the value: gradients, and arguments changed in place."""
        watch = self.submission._watch
        reply = None
        try:
            reply = self.submission._backend.call(self.target, args, kwargs, gradients)
            if self.contract is not None and not self.submission._proven:
                if not isinstance(reply.value, Made):
                    self.contract.check(reply.value, args, kwargs, self.submission._names)
                elif not _is_class(self.target):
                    raise WrongType(f"{self.target.name} returned a module, not what it computes")
        except Failure as failure:
            watch(Seen(failure, returned=self._kind(reply) if self.summary else reply))
            if isinstance(failure, Raised) and self.contract is not None:
                failure.add_shapes(self.contract.given(args, kwargs, self.submission._names))
            raise
        if isinstance(reply.value, Made):
            reply.value = Handle(reply.value.number, self.submission, self.target)
        elif self.summary is not None:
            watch(Seen(Reply(self.summary(reply.value)), self.tolerance))
        else:
            watch(Seen(reply))
        return reply

    @staticmethod
    def _kind(reply: Reply | None) -> Reply | None:
        """Keep of a random result only what kind of thing it is."""
        return None if reply is None else Reply(type(reply.value).__name__)


@dataclass(frozen=True)
class Seen:
    """How one call ended, for whoever recognises mistakes by what they do."""

    outcome: Reply | Failure
    tolerance: float = 0.0
    returned: Reply | None = None  # what came back although it is a failure: a wrong shape, say


def _look_away(seen: Seen) -> None:
    pass


@functools.cache
def _definition(module: str, block: str) -> ast.stmt | None:
    """Find the stub of a block."""
    for exercise in catalogue().values():
        if exercise.module == module and exercise.name == block:
            (definition,) = ast.parse(exercise.stub).body
            return definition
    return None


@functools.cache
def _contract(module: str, block: str, method: str) -> Contract | None:
    """Find the signature of a block, or of a method of a block that is a class."""
    match _definition(module, block):
        case ast.FunctionDef() as definition:
            return Contract.of(definition)
        case ast.ClassDef(body=body):
            for node in body:
                if isinstance(node, ast.FunctionDef) and node.name == method:
                    return Contract.of(node)
    return None


def _is_class(target: Target) -> bool:
    """Tell a class from a function or a method of something made earlier."""
    definition = _definition(target.module, target.name)
    return target.handle is None and isinstance(definition, ast.ClassDef)
