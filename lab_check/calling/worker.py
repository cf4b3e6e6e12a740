"""The untrusted side: holds the learner's package and answers calls with values.

Nothing here decides anything. Whatever the learner's code does to this process, the judge sees only
bytes, and checks them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lab_check.calling import codec, messages
from lab_check.calling.calls import InProcess, Made, Target
from lab_check.calling.failures import Failure, NotStarted, Raised
from lab_check.calling.messages import (
    Answer,
    Backward,
    Call,
    Callback,
    CallbackFailed,
    Failed,
    Message,
    Returned,
)
from lab_check.calling.printing import Tail
from lab_check.calling.streams import SocketStream


class Worker:
    """Answers one judge."""

    def __init__(self, stream: messages.Stream, code: Callable[[], InProcess] = InProcess) -> None:
        self._stream, self._fresh = stream, code
        self._code = code()
        self._id = b""

    @staticmethod
    def unpack(stream: messages.Stream, folder: Path) -> None:
        """Receive the learner's files, and write them where Python will import them."""
        package = folder / "lab_transformer"
        package.mkdir()
        for name, content in messages.receive(stream, messages.Files).files.items():
            path = package / name
            assert path.parent == package, name
            path.write_bytes(content.numpy().tobytes())

    def serve(self) -> None:
        """Answer until the judge hangs up."""
        with contextlib.suppress(EOFError):
            while True:
                self._reply(self._answer(self.hear(Call)))

    def hear(self, kinds: type[messages.M] | types.UnionType) -> messages.M:
        """Wait for what the judge says next."""
        message = messages.receive_frame(self._stream)
        self._id = message[: messages.ID]
        return messages.unpack(message[messages.ID :], kinds)

    def say(self, message: Message) -> None:
        """Send a message to the judge."""
        messages.send(self._stream, message, self._id)

    def _reply(self, answer: Answer | Failed) -> None:
        try:
            self.say(answer)
        except Exception as error:  # tensors of other kinds have errors of their own
            said = str(error) if isinstance(error, codec.CodecError) else f"no plain values: {error}"
            self.say(Failed("WrongType", said, "", ""))

    def _answer(self, call: Call) -> Answer | Failed:
        if call.seed is not None:
            self._code = self._fresh()
            # Not torch.manual_seed: for devices that are not there it writes down the stack each time.
            torch.default_generator.manual_seed(call.seed)
        printed = Tail()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                value, gradients, after = self._call(call)
            except NotStarted as failure:
                failed = "NotStarted", failure.exercise, ""
            except Raised as failure:
                failed = "Raised", str(failure), failure.kind
            except Failure as failure:
                failed = type(failure).__name__, str(failure), ""
            except BaseException as error:
                failed = "Raised", *_words(error)
            else:
                # Whether something was changed in place, the judge sees for itself.
                return Answer(messages.describe(value, _made), gradients, after, printed.text())
        return Failed(*failed, printed.text())

    def _call(self, call: Call) -> tuple[Any, dict[str, Tensor | None], dict[str, Tensor | set[Any]]]:
        # Copies: what was received is a view, and autograd forbids things to views.
        leaves: list[Tensor] = [tensor.clone().requires_grad_() for tensor in call.leaves]

        def special(part: messages.Part) -> Any:
            match part:
                case messages.KeptModule(number):
                    return self._code._made[number]
                case messages.Function(number):
                    return _Callback(self, number)
                case messages.Generator(state):
                    generator = torch.Generator()
                    generator.set_state(state)
                    return generator
                case messages.Leaf(number):
                    return leaves[number]
                case messages.Linked(tensor, jacobians):
                    return messages.relink(tensor, leaves, jacobians)

        args, kwargs = messages.restore((tuple(call.args), call.kwargs), special)
        target = Target(call.module, call.name, call.handle)
        return self._code.run(target, args, kwargs, call.gradients)


def _made(value: Any) -> messages.KeptModule | None:
    return messages.KeptModule(value.number) if isinstance(value, Made) else None


class _Callback(nn.Module):
    """A function that lives with the judge; gradients pass through it."""

    def __init__(self, worker: Worker, number: int) -> None:
        super().__init__()
        self._worker, self._number = worker, number

    def forward(self, *args: Any) -> Any:
        if torch.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return _Far.apply(self, *args)  # type: ignore[no-untyped-call]
        return _own(self.call(list(args), []).value)

    def call(self, args: list[Any], keep: list[int]) -> Returned:
        return self.ask(Callback(self._number, args, keep))

    def ask(self, question: Callback | Backward) -> Returned:
        self._worker.say(question)
        answer: Returned | CallbackFailed = self._worker.hear(Returned | CallbackFailed)
        if isinstance(answer, CallbackFailed):
            raise ValueError(answer.reason)
        return answer


class _Far(torch.autograd.Function):
    """A call to the judge's function, and the way back through it."""

    @staticmethod
    def forward(ctx: Any, callback: _Callback, *args: Any) -> Any:
        kept = [i for i, needed in enumerate(ctx.needs_input_grad[1:]) if needed]
        answer = callback.call(list(args), kept)
        ctx.callback, ctx.call, ctx.kept, ctx.count = callback, answer.call, kept, len(args)
        return _own(answer.value)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        answer = ctx.callback.ask(Backward(ctx.call, list(gradients)))
        found = dict(zip(ctx.kept, answer.value, strict=True))
        return None, *(found.get(i) for i in range(ctx.count))


def _words(error: BaseException) -> tuple[str, str]:
    """Say what an error is, and of which kind, where it may refuse to say so itself."""
    try:
        return repr(error), type(error).__name__
    except BaseException:
        return "an error that cannot be shown", "Exception"


def _own(value: Any) -> Any:
    """Make a tensor that was received one like any other: autograd forbids things to views."""
    return value.clone() if isinstance(value, Tensor) else value


def serve(descriptor: int, listeners: list[int]) -> None:
    """Put the learner's package into the current folder, and answer calls or be a kernel."""
    stream = SocketStream(socket.socket(fileno=descriptor))
    Worker.unpack(stream, Path.cwd())
    if listeners:
        from lab_check.calling import kernel

        kernel.serve(listeners, messages.receive(stream, messages.Key).key)
    else:
        Worker(stream).serve()


def _end_with(judge: int, folder: Path) -> None:
    """End with a judge that was killed, whatever loop the code is in, and leave no folder behind."""
    while os.getppid() == judge:
        time.sleep(1)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def main(memory: int, descriptor: int, *listeners: int) -> None:
    """Serve on inherited sockets, with as much memory as a platform can bound."""
    torch.set_num_threads(1)
    sys.path.insert(0, str(Path.cwd()))
    threading.Thread(target=_end_with, args=(os.getppid(), Path.cwd()), daemon=True).start()
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # there is none on Windows, and macOS has no /proc

        from lab_check.calling.confine import mapped

        bound = memory + mapped()
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    with contextlib.suppress(BrokenPipeError, ConnectionError):
        with socket.socket(fileno=os.dup(descriptor)) as judge:
            messages.send(SocketStream(judge), messages.Ready())
        serve(descriptor, list(listeners))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
