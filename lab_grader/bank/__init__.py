"""The bank of wrong turns: for every exercise the reference with switches.

A module a week. Each space is a function that takes `on`, asks it which wrong turns to take, and
returns the block. Turns of one slot exclude each other; turns of different slots can come in pairs.
A turn of the slot `ALONE` makes no pairs: it is rare, or hides whatever else is wrong. Such a turn can
be a whole block of its own.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from lab_check.calling.calls import InProcess, import_block
from lab_check.diagnosing.fingerprints import Trace, Turns
from lab_check.diagnosing.turns import KnownTurns
from lab_check.errors import UserError
from lab_check.exercises import catalogue
from lab_check.running.bench import Bench, check, trace_test
from lab_check.running.tape import PUBLISHED_SEED
from lab_check.running.tests import Test, load_tests

On = Callable[[str], bool]
ALONE = "alone"
_FREQUENT = 4  # so many turns of a slot, the first ones, make pairs: two rare mistakes hardly meet


@dataclass(frozen=True)
class Turn:
    """A known mistake: its name, what to tell the learner, and the slot of the code it takes."""

    name: str
    slot: str
    message: str


@dataclass(frozen=True)
class Space:
    """All known wrong turns of one exercise, and other ways to do it right."""

    exercise: str
    turns: tuple[Turn, ...]
    build: Callable[[On], Any]
    right: tuple[Callable[[], Any], ...] = ()
    wrong: dict[str, Any] = field(default_factory=dict)

    def variant(self, *names: str) -> Any:
        """Build the block with these wrong turns taken."""
        return self.watched(names, set())

    def watched(self, names: tuple[str, ...], asked: set[str]) -> Any:
        """Build the block with these wrong turns taken; which turns its code asks for is noted."""
        known = self._names
        assert known.issuperset(names), names
        if names and names[0] in self.wrong:
            return self.wrong[names[0]]

        def on(name: str) -> bool:
            assert name in known, f"{name} is not declared in the space of {self.exercise}"
            asked.add(name)
            return name in names

        return self.build(on)

    @functools.cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(turn.name for turn in self.turns)

    def combinations(self) -> Iterator[tuple[str, ...]]:
        """List every wrong turn, then every pair of frequent ones that can be taken together."""
        yield from ((turn.name,) for turn in self.turns)
        count: Counter[str] = Counter()
        frequent = []
        for turn in self.turns:
            count[turn.slot] += 1
            if turn.slot != ALONE and count[turn.slot] <= _FREQUENT:
                frequent.append(turn)
        for a, b in itertools.combinations(frequent, 2):
            if a.slot != b.slot:
                yield a.name, b.name


_SPACES: dict[str, Space] = {}


def space(exercise: str, *turns: Turn) -> Callable[[Callable[[On], Any]], Callable[[On], Any]]:
    """Declare the wrong turns of an exercise."""
    names = [turn.name for turn in turns]
    assert len(names) == len(set(names)), f"{exercise} has a turn twice"

    def register(build: Callable[[On], Any]) -> Callable[[On], Any]:
        _SPACES[exercise] = Space(exercise, turns, build)
        return build

    return register


def right(exercise: str) -> Callable[[Any], Any]:
    """Declare another right way to write the block of an exercise: a function or a class."""

    def register(block: Any) -> Any:
        known = _SPACES[exercise]
        _SPACES[exercise] = replace(known, right=(*known.right, block))
        return block

    return register


def wrong(exercise: str, name: str, message: str) -> Callable[[Any], Any]:
    """Declare a wrong turn that is a whole block: a function or a class."""

    def register(block: Any) -> Any:
        known = _SPACES[exercise]
        assert name not in {turn.name for turn in known.turns}, f"{exercise} has two turns {name}"
        turns = (*known.turns, Turn(name, ALONE, message))
        _SPACES[exercise] = replace(known, turns=turns, wrong=known.wrong | {name: block})
        return block

    return register


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

# What can be done to a result after all is said and done.
ENDINGS = tuple(_SLIPS)[tuple(_SLIPS).index("doubled") :]

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


_AS_THEY_ARE = " They go into it as they are: anything else changes how the weights are shared out."

# What can be done to scores before the softmax: what to tell the learner, and what is done.
OTHER_SCORES: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    name: (told + _AS_THEY_ARE, change)
    for name, told, change in (
        ("scores-doubled", "You double the scores before the softmax.", lambda s: s * 2),
        ("scores-halved", "You halve the scores before the softmax.", lambda s: s / 2),
        ("scores-divided-by-ten", "You divide the scores by ten before the softmax.", lambda s: s / 10),
        ("scores-rectified", "Negative scores become zero before the softmax.", Tensor.relu),
        ("scores-squashed", "You squash the scores with a tanh before the softmax.", Tensor.tanh),
        ("scores-to-sigmoids", "You squash the scores with a sigmoid first.", Tensor.sigmoid),
        ("scores-without-sign", "You take the absolute values of the scores first.", Tensor.abs),
        ("scores-squared", "You square the scores before the softmax.", Tensor.square),
        ("scores-exponentiated", "You raise e to the scores before the softmax.", Tensor.exp),
    )
}


def slips(
    exercise: str,
    *names: str,
    first: bool = False,
    changed: tuple[str, ...] = (),
    cut: tuple[str, ...] = (),
    treated: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
) -> None:
    """Declare slips that can happen in any block, made by the reference.

    The names say what is done to its results, or only to the first of them. `changed`, `cut` and
    `treated` name the arguments that are changed in place, cut off from their gradient, or treated in
    some way before they are used. `without` names turns that are known by another name already.
    """
    place = catalogue()[exercise]
    block = import_block(place.module, place.name)
    for name in names:
        if name in without:
            continue
        match name:
            case "nothing-returned":
                message = (
                    "Your code ends without returning anything, so its result is None. Look at its "
                    "last line, and at every way through it."
                )
                turned = _around(block, after=lambda _: None)
            case "in-a-tuple":
                message = (
                    "Your result comes packed in a tuple of its own, perhaps because of a comma at the "
                    "end of the line. What the signature promises is asked for, and nothing around it."
                )
                turned = _around(block, after=lambda result: (result,))
            case "through-numpy":
                message = (
                    "You leave PyTorch for NumPy (or for plain numbers) on the way. A tensor that is "
                    "being trained refuses it, because its gradient would be lost: stay with tensors."
                )
                turned = _around(block, before=_map(lambda t: torch.from_numpy(t.numpy())))
            case _:
                message, do = _SLIPS[name]
                turned = _around(block, after=_at_first(do) if first else _map(do))
        wrong(exercise, name, message)(turned)
    for name in changed:
        message = (
            f"You change the argument {name} itself, and with it the caller's tensor. Make a new one: "
            "mind operators such as += and methods that end in an underscore."
        )
        wrong(exercise, f"{name}-changed", message)(_around(block, before=_at(name, _overwrite)))
    for name in cut:
        message = (
            f"The values are right, but no gradient reaches {name}: it is cut off by detach, .data or "
            "no_grad, or by a new tensor made from its numbers. Then it could never be learned."
        )
        wrong(exercise, f"{name}-cut-off", message)(_around(block, before=_at(name, Tensor.detach)))
    for name, (kind, (message, do)) in itertools.product(treated, _BEFORE.items()):
        if f"{name}-{kind}" not in without:
            turned = _around(block, before=_at(name, do))
            wrong(exercise, f"{name}-{kind}", message.format(name=name))(turned)


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


@functools.cache
def spaces() -> dict[str, Space]:
    """Load the whole bank, by exercise."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return {id: _SPACES[id] for id in catalogue() if id in _SPACES}


def backend(exercise: str, block: Any) -> InProcess:
    """Run the reference, with one block exchanged."""
    place = catalogue()[exercise]

    def resolve(module: str, name: str) -> Any:
        return block if (module, name) == (place.module, place.name) else import_block(module, name)

    return InProcess(resolve)


@functools.cache
def tapes(exercise: str, seed: int) -> dict[str, list[Any]]:
    """Record the inputs and expectations of an exercise's tests, which are the same for every block."""
    kept: dict[str, list[Any]] = {}
    for test in load_tests()[exercise]:
        check(test, Bench(seed=seed, keep=kept))
    return kept


def trace(exercise: str, block: Any, seed: int = PUBLISHED_SEED) -> tuple[bool, Trace]:
    """Run an exercise's tests on a block: whether all hold, and what its calls did."""
    bench = Bench(lambda: backend(exercise, block), seed=seed, replay=tapes(exercise, seed))
    return _joined([trace_test(test, bench) for test in load_tests()[exercise]])


def _joined(runs: Iterable[tuple[bool, Trace]]) -> tuple[bool, Trace]:
    holds = True
    merged: Trace = {}
    for passes, one in runs:
        holds &= passes
        merged |= one
    return holds, merged


class _Runs:
    """Runs of an exercise's tests on the variants of a block.

    What code does follows from the answers that it gets when it asks for wrong turns. So a turn that a
    test's run never asked for changes nothing in it, and that run need not be repeated.
    """

    def __init__(self, exercise: str, seed: int) -> None:
        self._space, self._exercise, self._seed = spaces()[exercise], exercise, seed
        # By turns taken: the block, the set in which its questions are noted, those of its making.
        self._blocks: dict[tuple[str, ...], tuple[Any, set[str], set[str]]] = {}
        # By turns taken and by test: which turns were asked for, and how it ended.
        self._done: dict[tuple[tuple[str, ...], str], tuple[set[str], tuple[bool, Trace]]] = {}

    def of(self, names: tuple[str, ...]) -> tuple[bool, Trace]:
        """Run all tests on the block with these wrong turns taken."""
        return _joined(self.one(names, test) for test in load_tests()[self._exercise])

    def one(self, names: tuple[str, ...], test: Test) -> tuple[bool, Trace]:
        """Run one test on the block with these wrong turns taken."""
        return self._run(names, test)[1]

    def _run(self, names: tuple[str, ...], test: Test) -> tuple[set[str], tuple[bool, Trace]]:
        key = names, test.name
        if key not in self._done:
            self._done[key] = self._unchanged(names, test) or self._new(names, test)
        return self._done[key]

    def _unchanged(
        self, names: tuple[str, ...], test: Test
    ) -> tuple[set[str], tuple[bool, Trace]] | None:
        """Find the run with a turn less, if that never asks for the turn."""
        if names and names[0] in self._space.wrong:
            return None
        for name in names:
            fewer = self._run(tuple(other for other in names if other != name), test)
            if name not in fewer[0]:
                return fewer
        return None

    def _new(self, names: tuple[str, ...], test: Test) -> tuple[set[str], tuple[bool, Trace]]:
        if names not in self._blocks:
            asked: set[str] = set()
            block = self._space.watched(names, asked)
            self._blocks[names] = block, asked, set(asked)
        block, asked, built = self._blocks[names]
        asked.clear()
        tape = tapes(self._exercise, self._seed)
        bench = Bench(lambda: backend(self._exercise, block), seed=self._seed, replay=tape)
        found = trace_test(test, bench)
        return built | asked, found


@functools.cache
def _runs(exercise: str, seed: int) -> _Runs:
    return _Runs(exercise, seed)


@functools.cache
def known(exercise: str, seed: int = PUBLISHED_SEED) -> KnownTurns:
    """Run all wrong turns of an exercise, and pairs of them, on the inputs of a seed."""
    right, messages = reference(exercise, seed)
    return KnownTurns(right, turns(exercise, seed, 1) + turns(exercise, seed, 2), messages)


def reference(exercise: str, seed: int) -> tuple[Trace, dict[str, str]]:
    """Run the right solution on the inputs of a seed, and give the messages of all wrong turns."""
    place = catalogue()[exercise]
    passes, right = trace(exercise, import_block(place.module, place.name), seed)
    if not passes:
        raise UserError(f"the reference of {exercise} fails its own tests on the inputs of seed {seed}")
    return right, {turn.name: turn.message for turn in spaces()[exercise].turns}


def turns(exercise: str, seed: int, count: int) -> Turns:
    """Run wrong turns of an exercise, so many at a time, on the inputs of a seed."""
    here, runs, found = spaces()[exercise], _runs(exercise, seed), []
    for names in here.combinations():
        if len(names) == count:
            passes, theirs = runs.of(names)
            if not passes:  # two wrong turns can cancel out
                found.append((names, theirs))
    return found


def suspects(exercise: str, seed: int, test: str, same: Callable[[Trace], bool]) -> Turns:
    """Find the single wrong turns that do the same in one test, and run the other tests on them."""
    found: Turns = []
    runs = _runs(exercise, seed)
    (one,) = (other for other in load_tests()[exercise] if other.name == test)
    for turn in spaces()[exercise].turns:
        if same(runs.one((turn.name,), one)[1]):
            passes, theirs = runs.of((turn.name,))
            if not passes:
                found.append(((turn.name,), theirs))
    return found
