"""The untrusted side: holds the learner's package and answers calls with values.

Nothing here decides anything. Whatever the learner's code does to this process, the judge sees only
bytes, and checks them.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lab_grader import codec
from lab_grader.course.grading import wire
from lab_grader.failures import Failure, NotStarted, Raised
from lab_grader.submission import InProcess, Made, Target

_PRINTED = 2000


class SocketStream:
    """A connected socket, read and written to the last byte."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, count: int) -> bytes:
        chunks = []
        while count:
            chunk = self._socket.recv(min(count, 1 << 20))
            if not chunk:
                raise EOFError
            chunks.append(chunk)
            count -= len(chunk)
        return b"".join(chunks)


class Worker:
    """Answers one judge."""

    def __init__(self, stream: wire.Stream, code: Callable[[], InProcess] = InProcess) -> None:
        self._stream, self._fresh = stream, code
        self._code = code()
        self._id = b""

    @staticmethod
    def unpack(stream: wire.Stream, folder: Path) -> None:
        """Receive the learner's files, and write them where Python will import them."""
        package = folder / "lab_transformer"
        package.mkdir()
        for name, content in codec.unpack(wire.receive_frame(stream)).items():
            path = package / name
            assert path.parent == package, name
            path.write_bytes(content.numpy())

    def serve(self) -> None:
        """Answer until the judge hangs up."""
        with contextlib.suppress(EOFError):
            while True:
                self._reply(self._answer(self.hear()))

    def hear(self) -> dict[str, Any]:
        """Wait for what the judge says next."""
        message = wire.receive_frame(self._stream)
        self._id = message[: wire.ID]
        said: dict[str, Any] = codec.unpack(message[wire.ID :])
        return said

    def say(self, packed: bytes) -> None:
        """Send a message to the judge."""
        wire.send_frame(self._stream, self._id + packed)

    def _reply(self, answer: dict[str, Any]) -> None:
        try:
            packed = codec.pack(answer)
        except Exception as error:  # tensors of other kinds have errors of their own
            said = str(error) if isinstance(error, codec.CodecError) else f"no plain values: {error}"
            packed = codec.pack({"failure": ["WrongType", said, ""], "printed": ""})
        self.say(packed)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["seed"] is not None:
            self._code = self._fresh()
            # Not torch.manual_seed: for devices that are not there it writes down the stack each time.
            torch.default_generator.manual_seed(request["seed"])
        printed = _Tail()
        answer: dict[str, Any]
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                answer = self._call(request)
            except NotStarted as failure:
                answer = {"failure": ["NotStarted", failure.exercise, ""]}
            except Raised as failure:
                answer = {"failure": ["Raised", str(failure), failure.kind]}
            except Failure as failure:
                answer = {"failure": [type(failure).__name__, str(failure), ""]}
            except BaseException as error:
                answer = {"failure": ["Raised", *_words(error)]}
        return answer | {"printed": printed.text()}

    def _call(self, request: dict[str, Any]) -> dict[str, Any]:
        # Copies: what was received is a view, and autograd forbids things to views.
        leaves: list[Tensor] = [tensor.clone().requires_grad_() for tensor in request["leaves"]]

        def special(description: dict[str, Any]) -> Any:
            match description[wire.TAG]:
                case "handle":
                    return self._code._made[description["number"]]
                case "callable":
                    return _Callback(self, description["number"])
                case "generator":
                    generator = torch.Generator()
                    generator.set_state(description["state"])
                    return generator
                case "leaf":
                    return leaves[description["number"]]
                case "linked":
                    return wire.relink(description["tensor"], leaves, description["jacobians"])
            raise ValueError(description[wire.TAG])

        module, name, handle = request["target"]
        args, kwargs = wire.restore((tuple(request["args"]), request["kwargs"]), special)
        value, gradients, after = self._code.run(
            Target(module, name, handle), args, kwargs, request["gradients"]
        )

        def made(value: Any) -> Any:
            return {wire.TAG: "made", "number": value.number} if isinstance(value, Made) else None

        return {
            "value": wire.describe(value, made),
            "gradients": gradients,
            "after": after,  # whether something was changed in place, the judge sees for itself
        }


class _Callback(nn.Module):
    """A function that lives with the judge; gradients pass through it."""

    def __init__(self, worker: Worker, number: int) -> None:
        super().__init__()
        self._worker, self._number = worker, number

    def forward(self, *args: Any) -> Any:
        if torch.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return _Far.apply(self, *args)  # type: ignore[no-untyped-call]
        return _own(self.ask({"args": list(args), "keep": []})["value"])

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        question = {"callback": self._number} | question
        self._worker.say(codec.pack(question))
        answer = self._worker.hear()
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer


class _Far(torch.autograd.Function):
    """A call to the judge's function, and the way back through it."""

    @staticmethod
    def forward(ctx: Any, callback: _Callback, *args: Any) -> Any:
        kept = [i for i, needed in enumerate(ctx.needs_input_grad[1:]) if needed]
        answer = callback.ask({"args": list(args), "keep": kept})
        ctx.callback, ctx.call, ctx.kept, ctx.count = callback, answer["call"], kept, len(args)
        return _own(answer["value"])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        answer = ctx.callback.ask({"backward": ctx.call, "args": list(gradients)})
        found = dict(zip(ctx.kept, answer["value"], strict=True))
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


class _Tail(io.TextIOBase):
    """Keeps the last of what is printed, however much that is."""

    def __init__(self) -> None:
        self._kept = ""

    def write(self, text: str) -> int:
        self._kept = (self._kept + text)[-_PRINTED:]
        return len(text)

    def text(self) -> str:
        """Give what was kept, without characters that cannot be sent."""
        return self._kept.encode("utf-8", "replace").decode("utf-8")


def serve(descriptor: int, listeners: list[int]) -> None:
    """Put the learner's package into the current folder, and answer calls or be a kernel."""
    stream = SocketStream(socket.socket(fileno=descriptor))
    Worker.unpack(stream, Path.cwd())
    if listeners:
        from lab_grader.course.grading import kernel

        kernel.serve(listeners, codec.unpack(wire.receive_frame(stream)))
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

        from lab_grader.course.grading.confine import mapped

        bound = memory + mapped()
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    with contextlib.suppress(BrokenPipeError, ConnectionError):
        with socket.socket(fileno=os.dup(descriptor)) as judge:
            wire.send_frame(SocketStream(judge), codec.pack("ready"))
        serve(descriptor, list(listeners))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
