"""The judge's end of a worker: a backend that trusts nothing that comes back."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from lab_check.calling import codec, failures, messages
from lab_check.calling.calls import Made, Reply, Target, changeable, changed
from lab_check.calling.messages import (
    Answer,
    Backward,
    Callback,
    CallbackFailed,
    Failed,
    FromWorker,
    Returned,
)
from lab_check.errors import UserError
from lab_check.exercises import catalogue
from lab_grader.grading.model import Limits

# What one answer may cost the judge: calls back, what they keep and how large their arguments are.
_CALLBACKS = 20_000
_KEPT, _KEPT_BYTES = 200, 8 * 2**20
_ARGUMENTS = 2**20
# What all answers and calls back of an exercise may cost: bytes, those of descriptions many times, for
# each takes the judge as much longer. The longest right answers come to a fifth of it.
_HEARD, _DESCRIBED = 32 * 2**20, 100
_MESSAGE = 2000
# What a worker can find out; everything else the judge sees for itself.
_KNOWN = {name: getattr(failures, name) for name in ("WrongType", "Missing")}


class WorkerLost(Exception):
    """The worker is gone or does not answer; `status` is timeout, crashed or memory."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class Line(Protocol):
    """A worker to talk to, with a deadline on everything."""

    def open(self, deadline: float) -> messages.Stream:
        """Give the stream to the worker; every wait on it ends at the deadline with WorkerLost."""
        ...

    def fileno(self) -> int:
        """Give the descriptor that an open line ends with."""
        ...

    def fate(self) -> WorkerLost:
        """Say how the worker of a line that was cut ended."""
        ...

    def limit(self, limits: Limits) -> None:
        """Set what the code may use from now on; other memory needs another worker."""
        ...

    def drop(self) -> None:
        """End the worker; the next call starts another."""
        ...

    def close(self) -> None:
        """End the worker, and leave nothing of it."""
        ...


class Ear:
    """Hears out one exercise of a submission, but not for ever."""

    def __init__(self) -> None:
        self._left = _HEARD

    def hear(self, message: bytes) -> None:
        """Count a message, before it is read."""
        self._left -= len(message) + _DESCRIBED * codec.description(message)
        if self._left < 0:
            raise WorkerLost("crashed", "the answers are many times as long as any that is asked for")


class Talk:
    """Questions to a worker, with one deadline for all, and the messages that answer them."""

    def __init__(self, line: Line, deadline: float, ear: Ear | None = None) -> None:
        self._line, self._deadline, self._ear = line, deadline, ear or Ear()
        self._id = b""

    def ask(self, message: bytes) -> None:
        """Ask something new."""
        self._id = secrets.token_bytes(messages.ID)
        self._stream = self._line.open(self._deadline)
        self._send(message)

    def tell(self, message: bytes) -> None:
        """Send a message that belongs to the question."""
        self._send(message)

    def _send(self, message: bytes) -> None:
        messages.send_frame(self._stream, self._id + message)

    def hear(self) -> bytes:
        """Wait for the next message that belongs to the question."""
        message = messages.receive_frame(self._stream, messages.ANSWER)
        if message[: messages.ID] != self._id:
            raise codec.CodecError("an answer that nobody asked for")
        message = message[messages.ID :]
        self._ear.hear(message)
        return message

    def drop(self) -> None:
        """End the worker; the next question goes to another."""
        self._line.drop()


class LostCall(failures.Failure):
    """A call that the worker did not survive, or did not finish in time."""

    def __init__(self, lost: WorkerLost) -> None:
        super().__init__(str(lost))
        self.symptom = lost.status


class InWorker:
    """Runs the code in a worker."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._fresh = True
        self._callbacks: list[Callable[..., Any]] = []
        self._kept: list[tuple[list[Tensor], Tensor]] = []
        self._kept_bytes = 0
        self.printed = ""

    def call(
        self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], gradients: bool
    ) -> Reply:
        """Ask the worker to call the target; check its answer before it becomes a value."""
        leaves = [
            item
            for item in (*args, *kwargs.values())
            if isinstance(item, Tensor) and item.is_leaf and item.requires_grad
        ]
        request = messages.Call(
            seed=torch.initial_seed() if self._fresh else None,
            module=target.module,
            name=target.name,
            handle=target.handle,
            leaves=leaves,
            args=self._describe(list(args), leaves),
            kwargs=self._describe(kwargs, leaves),
            gradients=gradients,
        )
        try:
            answer = self._ask(request)
            self._fresh = False
            return _reply(answer, args, kwargs, gradients)
        except WorkerLost as lost:
            self._talk.drop()
            raise LostCall(lost) from None
        except (failures.Failure, UserError):
            raise
        except Exception as error:  # whatever a stranger's bytes do, they do it to the stranger
            self._talk.drop()
            reason = printable(str(error) or type(error).__name__)[:200]
            said = f"the answer could not be read: {reason}"
            raise LostCall(WorkerLost("crashed", said)) from None

    def _describe(self, value: Any, leaves: list[Tensor]) -> Any:
        def special(item: Any) -> messages.Part | None:
            match item:
                case Made():
                    return messages.KeptModule(item.number)
                case torch.Generator():
                    return messages.Generator(item.get_state())
                case Tensor() if item.grad_fn is not None:
                    found = [messages.jacobian(item, leaf) for leaf in leaves]
                    return messages.Linked(item.detach(), found)
                case Tensor() if item.requires_grad:
                    return messages.Leaf(next(i for i, leaf in enumerate(leaves) if leaf is item))
                case _ if callable(item):
                    self._callbacks.append(item)
                    return messages.Function(len(self._callbacks) - 1)
            return None

        return messages.describe(value, special)

    def _ask(self, request: messages.Call) -> Answer | Failed:
        self._talk.ask(messages.pack(request))
        for _ in range(_CALLBACKS):
            message = self._talk.hear()
            said: FromWorker = messages.unpack(message, FromWorker, messages.BOUNDS)
            if isinstance(said, Answer | Failed):
                self.printed = printable(said.printed)
                return said
            self._talk.tell(messages.pack(self._call_back(said, len(message))))
        raise codec.CodecError("too many callbacks")

    def _call_back(self, question: Callback | Backward, size: int) -> Returned | CallbackFailed:
        try:
            if size > _ARGUMENTS:
                raise ValueError("the arguments are too large")
            if isinstance(question, Backward):
                return self._back(question)
            function, given = self._callbacks[question.function], question.args
            if not question.keep:
                with torch.no_grad():
                    return Returned(function(*given))
            self._kept_bytes += size
            if len(self._kept) == _KEPT or self._kept_bytes > _KEPT_BYTES:
                raise ValueError("too many calls that keep their history")
            inputs = [given[place].requires_grad_() for place in question.keep]
            with torch.enable_grad():
                output = function(*given)
            self._kept.append((inputs, output))
            return Returned(output.detach(), len(self._kept) - 1)
        except Exception as error:
            return CallbackFailed(printable(f"{type(error).__name__}: {error}"))

    def _back(self, question: Backward) -> Returned:
        inputs, output = self._kept[question.call]
        (gradient,) = question.args
        if not output.requires_grad:
            return Returned([None] * len(inputs))
        found = torch.autograd.grad(output, inputs, gradient, retain_graph=True, allow_unused=True)
        return Returned(list(found))


def printable(said: str, longest: int = _MESSAGE) -> str:
    """Make a stranger's text fit to be shown: not too long, and nothing that steers a terminal."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in said[-longest:]
    )


def _reply(
    answer: Answer | Failed, args: tuple[Any, ...], kwargs: dict[str, Any], gradients: bool
) -> Reply:
    if isinstance(answer, Failed):
        name, kind = printable(answer.failure), printable(answer.kind)
        message = printable(answer.said).strip() or "it failed without a word"
        if name == "NotStarted" and message in catalogue():
            raise failures.NotStarted(message)
        if kind == "MemoryError" or "can't allocate memory" in message:
            raise LostCall(WorkerLost("memory", message))
        if name == "Raised":
            raise failures.Raised(message, kind)
        raise _KNOWN.get(name, failures.Failure)(message)

    given = changeable(args, kwargs)
    if not all(_is_gradient(*item, given) for item in answer.gradients.items()):
        raise codec.CodecError("gradients have the names and shapes of arguments")
    if answer.gradients and not gradients:
        raise codec.CodecError("gradients that nobody asked for")
    return Reply(messages.restore(answer.value, _made), answer.gradients, changed(given, answer.after))


def _made(part: messages.Part) -> Made:
    if not isinstance(part, messages.KeptModule) or part.number < 0:
        raise codec.CodecError(f"a {type(part).__name__} in the place of a value")
    return Made(part.number)


def _is_gradient(name: str, gradient: Tensor | None, given: dict[str, Any]) -> bool:
    """Tell whether there can be such a gradient: the judge knows arguments, not parameters."""
    if gradient is None or name.startswith("parameter "):
        return True
    return gradient.shape == getattr(given.get(name), "shape", None)
