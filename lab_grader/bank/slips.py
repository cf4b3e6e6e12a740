"""Slips that can happen in any block: what is done to its results or to its arguments.

Every exercise has those that fit its signature, unless one of its turns has the name already, or
its turns.md says `- without` it: then it passes, or it is known by another name.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

# What can happen to the result of any block: what to tell the learner, and what is done.
_SLIPS: dict[str, tuple[str, Callable[[Tensor], Any]]] = {
    "as-an-array": (
        "You return a NumPy array. Blocks pass tensors on to each other, and an array carries no "
        "gradient: stay with tensors to the end.",
        lambda t: t.detach().numpy(),
    ),
    "as-a-list": (
        "You return lists of Python numbers. The result is a tensor, so that the next block can "
        "compute with it.",
        lambda t: t.tolist(),
    ),
    "in-half-precision": (
        "Your result comes out in half precision, whatever goes in. A block keeps the dtype of what it "
        "is given: look for .half() or a fixed dtype.",
        lambda t: t.half(),
    ),
    "always-float32": (
        "Your result is always single precision, even for double precision inputs. A block keeps the "
        "dtype of what it is given: look for .float() or a fixed dtype.",
        lambda t: t.float(),
    ),
    "always-float64": (
        "Your result is double precision, even for single precision inputs. Calculating in double "
        "precision is fine, but a block keeps the dtype of what it is given: convert at the end.",
        lambda t: t.double(),
    ),
    "axis-in-front": (
        "Your result has an axis of size 1 too many in front. It may have helped on the way, but it "
        "does not belong to the result.",
        lambda t: t.unsqueeze(0),
    ),
    "squeezed": (
        "You squeeze the result, which drops every axis of size one. A batch of one sentence or a "
        "sentence of one word then loses an axis that the next block counts on.",
        lambda t: t.squeeze(),
    ),
    "only-the-first": (
        "Your result is the first entry of the first axis only: of a batch, the first sentence. All of "
        "them are asked for, so look for an index that takes one out.",
        lambda t: t[0],
    ),
    "all-axes-flattened": (
        "All numbers of your result stand in one long row. The signature says which axes come back: "
        "keep them apart.",
        lambda t: t.flatten(),
    ),
    "one-number": (
        "You add up everything to a single number. The signature says which axes come back: sum over "
        "none of those.",
        lambda t: t.sum(),
    ),
    "sign-turned": (
        "Every number of your result has the wrong sign. Look for a minus too many, or for two things "
        "that are subtracted in the wrong order.",
        lambda t: -t,
    ),
    "all-zero": (
        "Your result is zero everywhere. Perhaps it starts as zeros and is never filled: what is "
        "computed has to be kept.",
        lambda t: t * 0,
    ),
    "doubled": (
        "Every number of your result is twice what it should be. Something is added or multiplied in "
        "two times.",
        lambda t: t * 2,
    ),
    "halved": (
        "Every number of your result is half of what it should be. Look for a mean of two things, or "
        "for a division that is not asked for.",
        lambda t: t / 2,
    ),
    "absolute-at-the-end": (
        "Your result has no negative numbers: there is an absolute value at the end. The signs belong "
        "to the result.",
        lambda t: t.abs(),
    ),
    "squared-at-the-end": (
        "Your result is squared. What is asked for is the number itself: look at the last step.",
        lambda t: t.square(),
    ),
    "relu-at-the-end": (
        "Negative numbers of your result have become zero: there is an activation at the end. None is "
        "asked for here.",
        lambda t: t.relu(),
    ),
    "gelu-at-the-end": (
        "Negative numbers of your result have all but vanished: there is an activation at the end. "
        "None is asked for here.",
        lambda t: torch.nn.functional.gelu(t),
    ),
    "tanh-at-the-end": (
        "Your result is squashed between -1 and 1: there is a tanh at the end. None is asked for here.",
        lambda t: t.tanh(),
    ),
    "sigmoid-at-the-end": (
        "Your result is squashed between 0 and 1: there is a sigmoid at the end. None is asked for.",
        lambda t: t.sigmoid(),
    ),
    "softmax-at-the-end": (
        "Your result sums to one over its last axis: there is a softmax at the end. None is asked for "
        "here.",
        lambda t: t.softmax(dim=-1),
    ),
    "length-one-at-the-end": (
        "Your result is brought to length one over its last axis. Nothing is to be normalised here: "
        "its length says something.",
        lambda t: torch.nn.functional.normalize(t, dim=-1),
    ),
    "standardised-at-the-end": (
        "Your result has mean 0 and variance 1 over its last axis, as after a layer norm. That is "
        "another block: here the numbers stay as they are.",
        lambda t: torch.nn.functional.layer_norm(t, t.shape[-1:]),
    ),
    "last-axis-reversed": (
        "The last axis of your result runs backwards. Look for a flip, a loop from the end, or parts "
        "put together in the wrong order.",
        lambda t: t.flip(-1),
    ),
    "rows-reversed": (
        "The rows of your result stand in reverse order. Look for a flip, a loop from the end, or "
        "parts put together in the wrong order.",
        lambda t: t.flip(-2 if t.ndim > 1 else -1),
    ),
    "one-row-late": (
        "Every row of your result stands one place too late, and the last one has come round to the "
        "front. Look at where your counting starts.",
        lambda t: t.roll(1, dims=-2 if t.ndim > 1 else -1),
    ),
    "one-row-early": (
        "Every row of your result stands one place too early, and the first one has gone round to the "
        "end. Look at where your counting starts.",
        lambda t: t.roll(-1, dims=-2 if t.ndim > 1 else -1),
    ),
    "rows-added-up-on-the-way": (
        "Each row of your result holds the sum of all rows up to it. A variable is added to in a loop "
        "where it should be set anew.",
        lambda t: t.cumsum(dim=-2 if t.ndim > 1 else -1),
    ),
    "one-row-for-all": (
        "All rows of your result are alike: they hold the mean over all of them. Each word has a row "
        "of its own.",
        lambda t: t.mean(dim=-2 if t.ndim > 1 else -1, keepdim=True).expand_as(t),
    ),
}


# What can be done to an argument before it is used: name, what to tell, and what is done.
_BEFORE: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "normalised": (
        "You bring {name} to length one before you use it. Its length counts: use it as it is.",
        lambda t: torch.nn.functional.normalize(t, dim=-1),
    ),
    "standardised": (
        "You bring {name} to mean 0 and variance 1 before you use it, as a layer norm does. That is "
        "another block: use it as it is.",
        lambda t: torch.nn.functional.layer_norm(t, t.shape[-1:]),
    ),
    "centred": (
        "You take the mean over its rows off {name} before you use it. Nothing is to be centred here: "
        "use it as it is.",
        lambda t: t - t.mean(dim=-2 if t.ndim > 1 else -1, keepdim=True),
    ),
    "rectified": (
        "Negative numbers of {name} have become zero before it is used: there is an activation too "
        "many. Use it as it is.",
        lambda t: t.relu(),
    ),
    "squashed": (
        "You squash {name} with a tanh before you use it. Use it as it is: there is no activation at "
        "that place.",
        lambda t: t.tanh(),
    ),
    "softmaxed": (
        "You send {name} through a softmax before you use it. Use it as it is: these are no scores.",
        lambda t: t.softmax(dim=-1),
    ),
    "scaled-up": (
        "You multiply {name} by the root of its width before you use it. Use it as it is.",
        lambda t: t * t.shape[-1] ** 0.5,
    ),
    "scaled-down": (
        "You divide {name} by the root of its width before you use it. Use it as it is.",
        lambda t: t / t.shape[-1] ** 0.5,
    ),
    "turned-around": (
        "The rows of {name} are used in reverse order. Keep the order in which they come.",
        lambda t: t.flip(-2 if t.ndim > 1 else -1),
    ),
    "moved-by-one": (
        "The rows of {name} are used one place too late: each gets its neighbour's. Look at where your "
        "counting starts.",
        lambda t: t.roll(1, dims=-2 if t.ndim > 1 else -1),
    ),
}

_NOTHING = (
    "Your code ends without returning anything, so its result is None. Look at its last line, and at "
    "every way through it."
)
_TUPLE = (
    "Your result comes packed in a tuple of its own, perhaps because of a comma at the end of the "
    "line. What the signature promises is asked for, and nothing around it."
)
_NUMPY = (
    "You leave PyTorch for NumPy (or for plain numbers) on the way. A tensor that is being trained "
    "refuses it, because its gradient would be lost: stay with tensors."
)
_CHANGED = (
    "You change the argument {name} itself, and with it the caller's tensor. Make a new one: mind "
    "operators such as += and methods that end in an underscore."
)
_CUT = (
    "The values are right, but no gradient reaches {name}: it is cut off by detach, .data or no_grad, "
    "or by a new tensor made from its numbers. Then it could never be learned."
)
# What can be done to a result that does not hold fractions.
_ANY_TENSOR = (
    "as-an-array", "as-a-list", "axis-in-front", "squeezed", "only-the-first", "all-axes-flattened",
    "one-number", "last-axis-reversed", "rows-reversed", "one-row-late", "one-row-early",
)  # fmt: skip
# From here on slips are what is done to a result after all is said and done.
_FIRST_ENDING = "doubled"

Slip = tuple[str, str, Any]


def of(block: Any) -> Iterator[Slip]:
    """List the slips that a block's signature allows: name, message, and the block that slipped."""
    forward = inspect.getattr_static(block, "forward") if isinstance(block, type) else block
    signature = inspect.signature(forward)
    returns = str(signature.return_annotation)
    yield "nothing-returned", _NOTHING, _around(block, after=lambda _: None)
    yield "in-a-tuple", _TUPLE, _around(block, after=lambda result: (result,))
    # Of two results the second is a by-product: who does something at the end does it to the first.
    pair = returns.startswith("tuple[") and returns.count("Tensor") == 2
    ending = False
    for name, (message, do) in _SLIPS.items():
        ending |= name == _FIRST_ENDING
        if "Float[Tensor" in returns or ("[Tensor" in returns and name in _ANY_TENSOR):
            yield name, message, _around(block, after=_at_first(do) if pair and ending else _map(do))
    floats = [
        name
        for name, parameter in signature.parameters.items()
        if re.match(r"<class 'jaxtyping.Float\[Tensor", str(parameter.annotation))
    ]
    if floats:
        numpy = _around(block, before=_map(lambda t: torch.from_numpy(t.numpy())))
        yield "through-numpy", _NUMPY, numpy
    for name in floats:
        yield (
            f"{name}-changed",
            _CHANGED.format(name=name),
            _around(block, before=_at(name, _overwrite)),
        )
        yield f"{name}-cut-off", _CUT.format(name=name), _around(block, before=_at(name, Tensor.detach))
        for kind, (message, do) in _BEFORE.items():
            turned = _around(block, before=_at(name, do))
            yield f"{name}-{kind}", message.format(name=name), turned


def _map(do: Callable[[Tensor], Any]) -> Callable[[Any], Any]:
    """Do something to every tensor of some results or arguments."""

    def deep(value: Any) -> Any:
        match value:
            case Tensor():
                return do(value)
            case tuple() | list():
                return type(value)(map(deep, value))
            case dict():
                return {key: deep(item) for key, item in value.items()}
        return value

    return deep


def _at(name: str, do: Callable[[Tensor], Tensor]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Do something to one argument."""
    return lambda given: given | {name: do(given[name])}


def _at_first(do: Callable[[Tensor], Any]) -> Callable[[Any], Any]:
    """Do something to the first of several results."""
    return lambda results: (do(results[0]), *results[1:])


def _overwrite(tensor: Tensor) -> Tensor:
    copy = tensor.clone()
    tensor.add_(1)
    return copy


def _same(value: Any) -> Any:
    return value


def _around(
    block: Any, before: Callable[[Any], Any] = _same, after: Callable[[Any], Any] = _same
) -> Any:
    """Take a block, and do something to its arguments or to its results."""
    if isinstance(block, type):
        forward = _around(inspect.getattr_static(block, "forward"), before, after)
        return type(block.__name__, (block,), {"forward": forward})
    signature = inspect.signature(block)

    def slipped(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        return after(block(**before(given.arguments)))

    return slipped
