"""Wrong turns of week 4: positions as waves, moves, sums and turns."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

from lab_grader.bank import ALONE, ENDINGS, On, Turn, right, slips, space, wrong
from lab_transformer import positional as reference
from lab_transformer._checks import check_even

_NO_GRADIENT = (
    "Your result is right, but it is cut off from its inputs: no gradient can flow back, so nothing "
    "before this block would ever learn. Look for detach, .data, .item(), no_grad or a new tensor "
    "made from numbers."
)
_NUMPY = (
    "You leave PyTorch for NumPy on the way. That works on plain numbers, but a tensor that is being "
    "trained refuses it, because its gradient would be lost. Stay with tensor operations."
)
_FLOAT32 = (
    "Your result is always single precision, even for double precision inputs. A block keeps the "
    "dtype of what it is given: look for .float() or a fixed dtype."
)
_FLOAT64 = (
    "Your result comes out in double precision. Computing angles in double precision is fine, but "
    "the result should have the dtype that everything else has: convert it at the end."
)
_KEPT = (
    "Your result is double precision, even for single precision inputs. Calculating in double "
    "precision is fine, but a block keeps the dtype of what it is given: convert the result at the "
    "end."
)
_SQUEEZED = (
    "You squeeze the result, which drops every axis of size one. A batch of one sentence or a "
    "sentence of one word then loses an axis that the next block counts on."
)
_ODD_ACCEPTED = (
    "An odd width gets through. Every sine has its cosine beside it, so columns come in pairs: say "
    "so with a ValueError before computing anything."
)
_ODD_CRASH = (
    "An odd width crashes somewhere in the middle, with an error that does not say why. Every sine "
    "has its cosine beside it: check the width first and say so with a ValueError."
)
_EXTRA_AXIS = (
    "Your result has an axis too many, or one too few. A single table is asked for, with no batch "
    "axis: whoever uses it lets it broadcast."
)
_THREE_AXES = (
    "Your code counts on a fixed number of axes, and fails when there are more or fewer in front. "
    "Words and columns are the last two axes: count from the end, and let everything before them be."
)
_ROLLED = (
    "Your matrix moves columns to other places. It is the position that moves: each pair of columns "
    "turns by an angle, in place."
)
_ROOT = (
    "You scale by a fixed or rounded number instead of the root of the width you are given. Take the "
    "width from the embeddings, and do not round its root."
)

# The same three blocks go wrong in the same ways at their frequencies.
_FREQUENCIES = (
    Turn(
        "exponent-not-doubled",
        "frequency",
        "Your exponent is i over the width, where i counts the pairs. The formula has 2i, so your "
        "waves slow down only half as fast, as with a base of 100. Check whether your i counts pairs "
        "or columns.",
    ),
    Turn(
        "exponent-doubled-twice",
        "frequency",
        "Your exponent grows twice as fast as it should: a step of two and a factor of two, or half "
        "the width below the bar. The exponent runs from 0 to almost 1.",
    ),
    Turn(
        "exponent-off-by-one",
        "frequency",
        "Your first pair does not have frequency one: the pairs are counted from 1. The exponent of "
        "the first pair is zero.",
    ),
    Turn(
        "exponent-to-the-end",
        "frequency",
        "Your last pair reaches the base itself: you divide by the number of pairs less one. Some "
        "libraries do, but in the formula the exponent is 2i over the width, which stays below one.",
    ),
    Turn(
        "frequency-grows",
        "frequency",
        "Your waves get faster from pair to pair, because the power of the base multiplies the "
        "position. It should divide it: the sign of the exponent is turned around.",
    ),
    Turn(
        "one-frequency",
        "frequency",
        "All pairs turn at the same speed, so they all say the same. The exponent has no effect: "
        "look for an integer division, or a frequency that does not depend on the pair.",
    ),
    Turn(
        "base-1000",
        "frequency",
        "The base is 1000, a zero is missing. The slow waves are too fast.",
    ),
    Turn(
        "base-100000",
        "frequency",
        "The base is 100000, a zero too many. The slow waves are too slow.",
    ),
    Turn(
        "base-e",
        "frequency",
        "Your base is e: the exponent is right, but the logarithm of 10000 is missing from the "
        "exponential. All waves are fast.",
    ),
    Turn(
        "wrong-logarithm",
        "frequency",
        "You write the power as an exponential, but with a logarithm to base ten. The exponential "
        "needs the natural logarithm of the base.",
    ),
    Turn(
        "logarithm-to-base-two",
        ALONE,
        "You write the power as an exponential, but with a logarithm to base two. The exponential "
        "needs the natural logarithm of the base.",
    ),
    Turn(
        "odd-exponents",
        ALONE,
        "Your exponents are those of the odd columns: the first pair does not have frequency one. A "
        "pair takes the exponent of its even column.",
    ),
    Turn(
        "base-not-raised",
        ALONE,
        "You divide the position by the base itself, for every pair alike. The base is raised to a "
        "power that grows from pair to pair.",
    ),
    Turn(
        "product-instead-of-power",
        ALONE,
        "You multiply the base with the exponent where it should be raised to it. The first pair "
        "then divides by zero.",
    ),
    Turn(
        "exponent-without-brackets",
        ALONE,
        "The power binds first: you raise the base to 2i and divide what comes out by the width. The "
        "division belongs into the exponent, so put it in brackets.",
    ),
    Turn(
        "degrees",
        "angle",
        "You convert the angles between degrees and radians. They are radians already: sine and "
        "cosine take them as they are.",
    ),
    Turn(
        "whole-turns",
        "angle",
        "You multiply the angles by two pi. The formula has no pi in it: the fastest wave takes "
        "about 6.28 positions, not one.",
    ),
)


def _frequency(on: On, column: Any, width: int) -> Any:
    """Give the frequency of each column (2i for the pair i), or one of the wrong ones."""
    exponent = column / width
    if on("exponent-not-doubled"):
        exponent = exponent / 2
    if on("exponent-doubled-twice"):
        exponent = exponent * 2
    if on("exponent-off-by-one"):
        exponent = (column + 2) / width
    if on("odd-exponents"):
        exponent = (column + 1) / width
    if on("exponent-to-the-end"):
        exponent = column / 2 / max(width / 2 - 1, 1)
    if on("one-frequency"):
        exponent = exponent * 0
    if on("base-not-raised"):
        exponent = exponent * 0 + 1
    if on("product-instead-of-power"):
        return 1 / (10000.0 * exponent)
    if on("exponent-without-brackets"):
        return 10000.0**-column / width
    base = 1000.0 if on("base-1000") else 100000.0 if on("base-100000") else 10000.0
    base = math.e if on("base-e") else math.e**4 if on("wrong-logarithm") else base
    base = math.exp(math.log2(10000.0)) if on("logarithm-to-base-two") else base
    return base ** (exponent if on("frequency-grows") else -exponent)


def _angle(on: On, position: Any, frequency: Any) -> Any:
    angle = position * frequency
    angle = angle * math.pi / 180 if on("degrees") else angle
    return angle * 2 * math.pi if on("whole-turns") else angle


def _columns(width: int) -> Any:
    return torch.arange(0, width, 2, dtype=torch.float64)


def _check_width(on: On, width: int) -> None:
    if width % 2:
        # What slices, loops and asserts raise of their own.
        if on("odd-width-crashes"):
            raise RuntimeError("The size of tensor a must match the size of tensor b")
        if on("odd-width-runs-over"):
            raise IndexError("index out of range")
        if on("odd-width-asserted"):
            raise AssertionError
    if not on("odd-width-accepted"):
        check_even(width)


@space(
    "4.1",
    *_FREQUENCIES,
    Turn(
        "cosine-has-its-own-frequency",
        "partner",
        "Your cosines have other frequencies than the sines beside them: the exponent uses the odd "
        "column number. A pair shares one frequency, that of its even column; only then does it lie "
        "on a circle.",
    ),
    Turn(
        "sine-and-cosine-swapped",
        "order",
        "Sine and cosine have changed places. Even columns, counted from zero, are sines.",
    ),
    Turn(
        "half-split",
        "columns",
        "All sines stand in the first half and all cosines in the second. They should take turns, "
        "column by column.",
    ),
    Turn(
        "sines-only",
        "columns",
        "Every column is a sine. With no cosine beside it, a sine takes the same value at two places "
        "of its wave.",
    ),
    Turn(
        "cosines-only",
        "columns",
        "Every column is a cosine. With no sine beside it, a cosine cannot tell p from -p, and all "
        "columns are flat at the start.",
    ),
    Turn(
        "rows-take-turns",
        ALONE,
        "Sines and cosines take turns by position. They should take turns by column: every position "
        "has both.",
    ),
    Turn(
        "frequencies-tiled",
        ALONE,
        "Sines and cosines take turns, but the frequencies do not come in pairs: they run through "
        "once and start again in the middle. Neighbouring columns share a frequency.",
    ),
    Turn(
        "columns-reversed",
        ALONE,
        "The slowest wave comes first. The first pair is the fastest one.",
    ),
    Turn(
        "half-the-columns",
        ALONE,
        "Sine and cosine of a pair are added up, or only one of them is there: there are d_model / 2 "
        "columns. Each pair has two columns.",
    ),
    Turn(
        "sines-only-in-half-the-columns",
        ALONE,
        "There are only d_model / 2 columns, all sines. Each pair has two columns: a sine and the "
        "cosine beside it.",
    ),
    Turn(
        "columns-overwritten",
        ALONE,
        "Your columns overwrite each other: pair i is written to columns i and i + 1, so the next "
        "pair covers its cosine, and the second half stays empty. Pair i belongs into columns 2i and "
        "2i + 1.",
    ),
    Turn(
        "no-waves",
        ALONE,
        "You return the angles themselves. Each pair of columns holds the sine and the cosine of its "
        "angle.",
    ),
    Turn(
        "last-pair-missing",
        ALONE,
        "The last pair of columns is empty: your loop stops one pair too early."
        " Every pair has its own wavelength, the slowest one too: look at where the count of"
        " pairs ends.",
    ),
    Turn(
        "plain-counter",
        ALONE,
        "Every column holds the position itself. Such a counter grows without bound and would drown "
        "the embeddings; sines and cosines stay between -1 and 1.",
    ),
    Turn(
        "counted-from-one",
        "position",
        "Your first position is 1. Counting starts at 0, where all sines are zero and all cosines one.",
    ),
    Turn(
        "positions-divided-by-length",
        "position",
        "You divide the position by the length. The same place then looks different in a longer "
        "table, and neighbours are closer together: positions are plain counts.",
    ),
    Turn(
        "positions-reversed",
        ALONE,
        "Your table counts down. The first row is position 0.",
    ),
    Turn(
        "one-row-too-many",
        ALONE,
        "Your table has one row too many. There are `length` positions, from 0 to length - 1.",
    ),
    Turn(
        "one-row-too-few",
        ALONE,
        "Your table has one row too few. There are `length` positions, from 0 to length - 1.",
    ),
    Turn(
        "first-row-empty",
        ALONE,
        "Your first row is all zeros. At position 0 the sines are zero, but the cosines are one.",
    ),
    Turn(
        "transposed",
        "result",
        "Your table lies on its side. Each position is a row, each wave a column.",
    ),
    Turn("extra-axis", "result", _EXTRA_AXIS),
    Turn("extra-axis-in-the-middle", ALONE, _EXTRA_AXIS),
    Turn("always-float64", "result", _FLOAT64),
    Turn(
        "table-scaled",
        ALONE,
        "You multiply the table by a root of the width. It is the embeddings that are scaled, in a "
        "later block; sines and cosines stay between -1 and 1.",
    ),
    Turn("odd-width-accepted", "width", _ODD_ACCEPTED),
    Turn("odd-width-crashes", "width", _ODD_CRASH),
    Turn("odd-width-runs-over", ALONE, _ODD_CRASH),
    Turn(
        "odd-width-asserted",
        ALONE,
        "An odd width is refused, but not with a ValueError. Whoever calls the block can only catch "
        "what it promises: raise a ValueError that says why.",
    ),
)
def sinusoidal_positions(on: On) -> Any:
    def block(length: int, d_model: int) -> Any:
        _check_width(on, d_model)
        position = torch.arange(length, dtype=torch.float64)
        position = position + 1 if on("counted-from-one") else position
        position = position / length if on("positions-divided-by-length") else position
        position = position.flip(0) if on("positions-reversed") else position
        if on("one-row-too-many"):
            position = torch.arange(length + 1, dtype=torch.float64)
        if on("one-row-too-few"):
            position = torch.arange(length - 1, dtype=torch.float64)
        column = _columns(d_model)
        for_cosine = column + 1 if on("cosine-has-its-own-frequency") else column
        a = _angle(on, position[:, None], _frequency(on, column, d_model))
        b = _angle(on, position[:, None], _frequency(on, for_cosine, d_model))
        table = arrange(position, a, b)[:, :d_model]
        table = table.flip(-1) if on("columns-reversed") else table
        table = table * math.sqrt(d_model) if on("table-scaled") else table
        if on("first-row-empty"):
            table[:1] = 0.0
        table = table if on("always-float64") else table.to(torch.get_default_dtype())
        table = table.unsqueeze(0) if on("extra-axis") else table
        table = table.unsqueeze(1) if on("extra-axis-in-the-middle") else table
        return table.mT if on("transposed") else table

    def arrange(position: Any, a: Any, b: Any) -> Any:
        one, other = a.sin(), b.cos()
        if on("sine-and-cosine-swapped"):
            one, other = other, one
        if on("sines-only"):
            other = b.sin()
        if on("cosines-only"):
            one = a.cos()
        if on("half-the-columns"):
            return one + other
        if on("sines-only-in-half-the-columns"):
            return one
        if on("no-waves"):
            one, other = a, b
        if on("columns-overwritten"):
            return torch.cat([one, other[:, -1:], other[:, 1:] * 0], dim=-1)
        if on("half-split"):
            return torch.cat([one, other], dim=-1)
        if on("rows-take-turns"):
            even = (torch.arange(len(position)) % 2 == 0)[:, None]
            doubled = a.repeat_interleave(2, dim=-1)
            return torch.where(even, doubled.sin(), doubled.cos())
        if on("frequencies-tiled"):
            tiled = torch.cat([a, b], dim=-1)
            one, other = tiled[:, 0::2].sin(), tiled[:, 1::2].cos()
        if on("plain-counter"):
            return position[:, None].expand(-1, 2 * a.shape[-1])
        if on("last-pair-missing"):
            one[:, -1:], other[:, -1:] = 0.0, 0.0
        return torch.stack([one, other], dim=-1).flatten(-2)

    return block


@right("4.1")
def waves_in_single_precision(length: int, d_model: int) -> Any:
    check_even(d_model)
    table = torch.zeros(length, d_model)
    position = torch.arange(length).unsqueeze(1)
    slow = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    table[:, 0::2] = torch.sin(position * slow)
    table[:, 1::2] = torch.cos(position * slow)
    return table


@right("4.1")
def waves_by_loop(length: int, d_model: int) -> Any:
    check_even(d_model)

    def entry(p: int, c: int) -> float:
        angle = p / 10000 ** ((c - c % 2) / d_model)
        return math.cos(angle) if c % 2 else math.sin(angle)

    return torch.tensor([[entry(p, c) for c in range(d_model)] for p in range(length)])


@right("4.1")
def waves_by_complex_numbers(length: int, d_model: int) -> Any:
    check_even(d_model)
    step = torch.pow(10000, -torch.arange(d_model // 2) / (d_model // 2))
    angle = torch.einsum("p,i->pi", torch.arange(length).float(), step)
    # The sine of an angle is the cosine of what it lacks to a right one.
    return torch.view_as_real(torch.polar(torch.ones_like(angle), math.pi / 2 - angle)).flatten(1)


@space(
    "4.2",
    *_FREQUENCIES,
    Turn(
        "moves-the-other-way",
        "turn",
        "Your matrix moves positions the other way: the minus stands at the other sine, or the "
        "matrix is made for columns. Positions are rows here, and they multiply from the left.",
    ),
    Turn(
        "minus-missing",
        "turn",
        "Both sines of a block have the same sign, so it stretches instead of turning. Look again at "
        "the cosine of a sum: one of its two terms is subtracted.",
    ),
    Turn(
        "minus-twice",
        ALONE,
        "Both sines of a block have a minus, so it stretches instead of turning. Look again at the "
        "sine and the cosine of a sum: only one of the four terms is subtracted.",
    ),
    Turn(
        "mirrored",
        "turn",
        "Your blocks mirror instead of turning: the minus stands at a cosine. For an offset of zero "
        "nothing may change, so both cosines are positive.",
    ),
    Turn(
        "mirrored-at-the-other-cosine",
        ALONE,
        "Your blocks mirror instead of turning: the minus stands at a cosine. For an offset of zero "
        "nothing may change, so both cosines are positive.",
    ),
    Turn(
        "sine-and-cosine-swapped",
        "turn",
        "Sine and cosine have changed places in the blocks. For an offset of zero the matrix must be "
        "the identity.",
    ),
    Turn(
        "blocks-upside-down",
        ALONE,
        "Your blocks are made for pairs in which the cosine comes first, or their rows are "
        "exchanged. In our table the sine comes first, and an offset of zero gives the identity.",
    ),
    Turn(
        "cosines-only",
        "turn",
        "Your matrix has only its diagonal. A sine of a sum needs the cosine too: each column of a "
        "pair takes something from the other.",
    ),
    Turn(
        "sines-only",
        ALONE,
        "Your matrix has nothing on its diagonal. For an offset of zero it must be the identity.",
    ),
    Turn(
        "half-split",
        "layout",
        "You pair column i with column i plus half the width. In our table sine and cosine stand "
        "side by side: columns 2i and 2i + 1 are a pair.",
    ),
    Turn(
        "each-column-its-own-frequency",
        ALONE,
        "The two columns of a pair turn by different angles: every column has a frequency of its "
        "own. A pair shares that of its even column.",
    ),
    Turn(
        "one-pair-only",
        ALONE,
        "Only the first pair of columns is turned. Every pair has a block of its own, with its own "
        "angle.",
    ),
    Turn(
        "blocks-not-assembled",
        ALONE,
        "You return the blocks, or the angles, as they are. One matrix of d_model rows and columns "
        "is asked for, with the blocks along its diagonal.",
    ),
    Turn(
        "pairs-off-by-one",
        ALONE,
        "Your blocks sit one place too far to the right or left. The first pair is columns 0 and 1.",
    ),
    Turn(
        "identity-rolled",
        ALONE,
        _ROLLED,
    ),
    Turn("identity-rolled-back", ALONE, _ROLLED),
    Turn(
        "nothing-moved",
        ALONE,
        "Your matrix is the identity whatever the offset: nothing moves. Each pair of columns must "
        "turn by an angle that grows with the offset.",
    ),
    Turn(
        "offset-off-by-one",
        "offset",
        "Your matrix moves one position too far, or one too little. An offset of zero moves nothing.",
    ),
    Turn(
        "offset-one-too-few",
        ALONE,
        "Your matrix moves one position too little. An offset of zero moves nothing, an offset of "
        "one moves by one.",
    ),
    Turn(
        "always-one-step",
        "offset",
        "Your matrix always moves by one position: the offset has no effect on the angle."
        " Look at which argument your angles never use.",
    ),
    Turn(
        "sign-ignored",
        "offset",
        "A negative offset moves forward: its sign gets lost. It should move back.",
    ),
    Turn(
        "multiplied-by-offset",
        ALONE,
        "You multiply the matrix of one step by the offset. Several steps turn several times: the "
        "offset belongs into the angle.",
    ),
    Turn("always-float64", "result", _FLOAT64),
    Turn("extra-axis", ALONE, _EXTRA_AXIS),
    Turn("odd-width-accepted", "width", _ODD_ACCEPTED),
    Turn("odd-width-crashes", "width", _ODD_CRASH),
    Turn("odd-width-runs-over", ALONE, _ODD_CRASH),
    Turn(
        "odd-width-asserted",
        ALONE,
        "An odd width is refused, but not with a ValueError. Whoever calls the block can only catch "
        "what it promises: raise a ValueError that says why.",
    ),
)
def shift_matrix(on: On) -> Any:
    def block(offset: int, d_model: int) -> Any:
        _check_width(on, d_model)
        if on("identity-rolled"):
            return torch.eye(d_model).roll(offset, dims=1)
        if on("identity-rolled-back") or on("nothing-moved"):
            return torch.eye(d_model).roll(0 if on("nothing-moved") else offset, dims=0)
        step = offset + 1 if on("offset-off-by-one") else offset
        step = offset - 1 if on("offset-one-too-few") else step
        step = 1 if on("always-one-step") or on("multiplied-by-offset") else step
        step = abs(offset) if on("sign-ignored") else step
        angle = _angle(on, float(step), _frequency(on, _columns(d_model), d_model))
        cos, sin = angle.cos(), angle.sin()
        if on("one-pair-only"):
            cos, sin = cos.clone(), sin.clone()
            cos[1:], sin[1:] = 1.0, 0.0
        if on("sine-and-cosine-swapped"):
            cos, sin = sin, cos
        cos = cos * 0 if on("sines-only") else cos
        sin = sin * 0 if on("cosines-only") else sin
        sin = -sin if on("moves-the-other-way") else sin
        above = sin if on("minus-missing") or on("mirrored") else -sin
        corner = -cos if on("mirrored") else cos
        sin = -sin if on("minus-twice") else sin
        if on("mirrored-at-the-other-cosine"):
            cos, above = -cos, sin
        if on("each-column-its-own-frequency"):
            partner = _angle(on, float(step), _frequency(on, _columns(d_model) + 1, d_model))
            corner, sin = partner.cos(), partner.sin()
        if on("blocks-upside-down"):
            cos, above, sin, corner = sin, cos, cos, -sin
        if on("blocks-not-assembled"):
            blocks = torch.stack([torch.stack([cos, above], -1), torch.stack([sin, corner], -1)], -2)
            return blocks.to(torch.get_default_dtype())
        one, other = torch.arange(0, d_model, 2), torch.arange(1, d_model + 1, 2)
        if on("half-split"):
            one = torch.arange(len(angle))
            other = one + d_model // 2
        if on("pairs-off-by-one"):
            one, other = one + 1, (other + 1) % d_model
        size = d_model + d_model % 2
        matrix = torch.zeros(size, size, dtype=torch.float64)
        matrix[one, one], matrix[other, other] = cos, corner
        matrix[one, other], matrix[other, one] = above, sin
        matrix = matrix[:d_model, :d_model] * (offset if on("multiplied-by-offset") else 1)
        matrix = matrix.unsqueeze(0) if on("extra-axis") else matrix
        return matrix if on("always-float64") else matrix.to(torch.get_default_dtype())

    return block


@right("4.2")
def matrix_of_blocks(offset: int, d_model: int) -> Any:
    check_even(d_model)
    angles = offset / 10000 ** (torch.arange(0, d_model, 2).float() / d_model)
    blocks = [torch.stack([a.cos(), -a.sin(), a.sin(), a.cos()]).view(2, 2) for a in angles]
    return torch.block_diag(*blocks)  # type: ignore[no-untyped-call]


@right("4.2")
def matrix_by_loop(offset: int, d_model: int) -> Any:
    check_even(d_model)
    matrix = torch.eye(d_model)
    for i in range(0, d_model, 2):
        angle = offset * math.exp(-i * math.log(10000) / d_model)
        matrix[i, i] = matrix[i + 1, i + 1] = math.cos(angle)
        matrix[i + 1, i] = math.sin(angle)
        matrix[i, i + 1] = -matrix[i + 1, i]
    return matrix


@right("4.2")
def matrix_by_exponential(offset: int, d_model: int) -> Any:
    check_even(d_model)
    speed = 10000 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    below = torch.stack([speed, torch.zeros_like(speed)], dim=-1).flatten()[:-1].diag(-1)
    return torch.matrix_exp(offset * (below - below.T)).float()


@space(
    "4.3",
    Turn(
        "not-scaled",
        "scale",
        "The embeddings are not scaled. They start out small, and the positions, which reach from -1 "
        "to 1, would drown them: a root of the width is missing.",
    ),
    Turn(
        "scaled-by-width",
        "scale",
        "You multiply the embeddings by the width itself. They become far larger than the positions: "
        "it is the root of the width.",
    ),
    Turn(
        "divided-by-root",
        "scale",
        "You divide the embeddings by the root of the width. They are small already; they should "
        "become larger. The division belongs to the scores of attention.",
    ),
    Turn(
        "root-of-length",
        "scale",
        "You scale by the root of the number of words. A word's vector would depend on how long its "
        "sentence is: it is the width that counts.",
    ),
    Turn(
        "root-of-table",
        ALONE,
        "You scale by the root of the number of positions in the table. It is the width of the "
        "embeddings that counts.",
    ),
    Turn(
        "sum-scaled",
        "scale",
        "You scale the sum, and with it the positions. Only the embeddings are scaled, before the "
        "positions are added.",
    ),
    Turn(
        "positions-scaled-instead",
        "scale",
        "You scale the positions and leave the embeddings as they are. It is the embeddings that are "
        "too small.",
    ),
    Turn(
        "root-by-halving",
        ALONE,
        "You scale by half the width. The root is something else than half: a power of one half.",
    ),
    Turn("root-rounded", ALONE, _ROOT),
    Turn("root-of-512", ALONE, _ROOT),
    Turn("root-of-half", ALONE, _ROOT),
    Turn(
        "root-of-everything",
        ALONE,
        "You take the root of the embeddings too. Negative numbers have none, and only the width is "
        "under the root.",
    ),
    Turn(
        "root-added",
        ALONE,
        "You add the root of the width to the embeddings. They are multiplied by it.",
    ),
    Turn(
        "width-from-axis-2",
        ALONE,
        "You read the width from axis 2. That is right for a batch of sentences only: with another "
        "number of axes it is something else, or nothing. Count from the end.",
    ),
    Turn("sizes-from-axes-1-and-2", ALONE, _THREE_AXES),
    Turn(
        "embeddings-normalised",
        ALONE,
        "You bring the embeddings to a fixed length. They are multiplied by one number for all "
        "words, and keep their differences in length.",
    ),
    Turn(
        "concatenated",
        "sum",
        "You put the positions beside the embeddings. They are added, entry by entry, so that the "
        "width stays what it was.",
    ),
    Turn(
        "concatenated-as-words",
        ALONE,
        "You put the positions behind the words, so the sentence gets longer. They are added, entry "
        "by entry.",
    ),
    Turn(
        "multiplied",
        "sum",
        "You multiply embeddings and positions. They are added; a product would wipe out every "
        "column where the position is zero.",
    ),
    Turn(
        "subtracted",
        "sum",
        "You subtract the positions. They are added.",
    ),
    Turn(
        "positions-forgotten",
        "sum",
        "The positions are not in the result, so the order of the words is still lost."
        " Look at which of the two arguments is left out of what you return.",
    ),
    Turn(
        "embeddings-forgotten",
        ALONE,
        "The embeddings are not in the result: every sentence comes out as the same positions."
        " Look at which of the two arguments is left out of what you return.",
    ),
    Turn(
        "table-not-cut",
        "rows",
        "A table that is longer than the sentence gives an error: you add all of its rows. Use as "
        "many rows as there are words.",
    ),
    Turn(
        "last-rows",
        "rows",
        "You use the last rows of the table. The first word stands at position 0, so the first rows "
        "are needed.",
    ),
    Turn(
        "rows-off-by-one",
        "rows",
        "You start with the second row of the table. The first word stands at position 0.",
    ),
    Turn(
        "same-position-for-all",
        "rows",
        "Every word gets the same position. Word i needs row i of the table.",
    ),
    Turn(
        "positions-averaged",
        ALONE,
        "You add an average or a sum of the positions, the same for every word. Word i needs row i "
        "of the table.",
    ),
    Turn(
        "positions-summed",
        ALONE,
        "You add an average or a sum of the positions, the same for every word. Word i needs row i "
        "of the table.",
    ),
    Turn(
        "positions-reversed",
        ALONE,
        "The positions run backwards: the last word gets the first row. Word i needs row i of the "
        "table.",
    ),
    Turn(
        "positions-on-the-batch-axis",
        ALONE,
        "You line the positions up with the sentences of the batch. They belong to the words, the "
        "last axis but one.",
    ),
    Turn(
        "positions-by-sentence",
        "rows",
        "Positions follow the sentences of the batch: all words of one sentence get the same. They "
        "should follow the words.",
    ),
    Turn(
        "positions-transposed",
        ALONE,
        "The table is on its side when you add it. Its rows are positions, as the rows of a sentence "
        "are words.",
    ),
    Turn(
        "words-counted-on-axis-1",
        "rows",
        "You read the number of words from axis 1. That is right for a batch of sentences only: with "
        "another number of axes it is something else. Count from the end.",
    ),
    Turn(
        "words-counted-on-axis-0",
        "rows",
        "You read the number of words from the first axis. That is right for a single sentence only: "
        "with a batch it counts sentences. Count from the end.",
    ),
    Turn("three-axes-unpacked", ALONE, _THREE_AXES),
    Turn(
        "batch-axis-added",
        ALONE,
        "You give the positions a batch axis of their own. A single sentence without a batch then "
        "gets one in the result; broadcasting needs no help here.",
    ),
    Turn(
        "words-and-columns-confused",
        ALONE,
        "You cut the table by the width, or by columns. It has a row for each position: cut it to "
        "the number of words.",
    ),
    Turn("squeezed", ALONE, _SQUEEZED),
    Turn(
        "embeddings-overwritten",
        "care",
        "You scale or add inside the embeddings you were given, so the caller's tensor is different "
        "after the call. Look for *=, += or a method that ends in an underscore.",
    ),
    Turn("gradient-cut", "care", _NO_GRADIENT),
    Turn(
        "gradient-not-to-positions",
        "care",
        "The sum is right, but the positions are detached. A table of learned positions would never "
        "learn: gradients must reach both arguments.",
    ),
    Turn(
        "gradient-not-to-embeddings",
        ALONE,
        "The sum is right, but the embeddings are detached, so they would never learn: gradients "
        "must reach both arguments."
        " Look for what takes them out of the graph.",
    ),
    Turn("through-numpy", ALONE, _NUMPY),
    Turn("always-float32", "care", _FLOAT32),
    Turn("always-float64", ALONE, _KEPT),
)
def add_positions(on: On) -> Any:
    def block(embeddings: Any, positions: Any) -> Any:
        given, length = embeddings, len(positions)
        if on("through-numpy"):
            embeddings = torch.from_numpy(embeddings.numpy())
            positions = torch.from_numpy(positions.numpy())
        embeddings = embeddings.detach() if on("gradient-not-to-embeddings") else embeddings
        positions = positions.detach() if on("gradient-not-to-positions") else positions
        seq, d_model = embeddings.shape[-2:]
        scale = math.sqrt(d_model)
        scale = d_model if on("scaled-by-width") else scale
        scale = 1 / scale if on("divided-by-root") else scale
        scale = math.sqrt(seq) if on("root-of-length") else scale
        scale = math.sqrt(length) if on("root-of-table") else scale
        scale = d_model / 2 if on("root-by-halving") else scale
        scale = math.sqrt(d_model // 2) if on("root-of-half") else scale
        if on("width-from-axis-2") or on("sizes-from-axes-1-and-2"):
            scale = math.sqrt(embeddings.shape[2])
        scale = int(scale) if on("root-rounded") else math.sqrt(512) if on("root-of-512") else scale
        rows = choose(embeddings, positions)
        if on("positions-scaled-instead"):
            rows = rows * scale
        if on("embeddings-normalised"):
            embeddings = F.normalize(embeddings, dim=-1)
        if on("root-of-everything"):
            embeddings, scale = (embeddings * d_model).sqrt(), 1
        if on("root-added"):
            embeddings, scale = embeddings + scale, 1
        if not (on("not-scaled") or on("sum-scaled") or on("positions-scaled-instead")):
            embeddings = embeddings * scale
        result = combine(embeddings, rows)
        result = result * scale if on("sum-scaled") else result
        result = result.squeeze() if on("squeezed") else result
        result = result.detach() if on("gradient-cut") else result
        if on("embeddings-overwritten"):
            return given.copy_(result)
        result = result.double() if on("always-float64") else result
        return result.float() if on("always-float32") else result

    def choose(embeddings: Any, positions: Any) -> Any:
        seq = embeddings.shape[-2]
        if on("table-not-cut"):
            return positions
        if on("three-axes-unpacked"):
            _, _, _ = embeddings.shape
        if on("batch-axis-added"):
            return positions[None, :seq]
        if on("last-rows"):
            return positions[-seq:]
        if on("rows-off-by-one"):
            return positions.roll(-1, dims=0)[:seq]
        if on("same-position-for-all"):
            return positions[0]
        if on("positions-averaged"):
            return positions[:seq].mean(dim=0)
        if on("positions-summed"):
            return positions[:seq].sum(dim=0)
        if on("positions-reversed"):
            return positions[:seq].flip(0)
        if on("positions-on-the-batch-axis") and embeddings.ndim > 2:
            return positions[:seq, None]
        if on("positions-by-sentence") and embeddings.ndim > 2:
            return positions[: embeddings.shape[-3], None]
        if on("positions-transposed"):
            return positions[:seq].mT
        if on("words-counted-on-axis-1") or on("sizes-from-axes-1-and-2"):
            return positions[: embeddings.shape[1]]
        if on("words-counted-on-axis-0"):
            return positions[: len(embeddings)]
        if on("words-and-columns-confused"):
            return positions[:, :seq]
        return positions[:seq]

    def combine(embeddings: Any, rows: Any) -> Any:
        if on("concatenated"):
            return torch.cat([embeddings, rows.expand_as(embeddings)], dim=-1)
        if on("concatenated-as-words"):
            return torch.cat([embeddings, rows.expand_as(embeddings)], dim=-2)
        if on("multiplied"):
            return embeddings * rows
        if on("subtracted"):
            return embeddings - rows
        if on("positions-forgotten"):
            return embeddings
        if on("embeddings-forgotten"):
            return embeddings * 0 + rows
        return embeddings + rows

    return block


@right("4.3")
def sum_by_index(embeddings: Any, positions: Any) -> Any:
    places = torch.arange(embeddings.size(-2), device=embeddings.device)
    return F.embedding(places, positions) + embeddings * embeddings.size(-1) ** 0.5


@right("4.3")
def sum_on_a_copy(embeddings: Any, positions: Any) -> Any:
    result = embeddings.clone()
    result *= torch.sqrt(torch.tensor(embeddings.shape[-1]))
    result += positions[: embeddings.shape[-2]]
    return result


@right("4.3")
def sum_by_addition_with_weight(embeddings: Any, positions: Any) -> Any:
    seq, d_model = embeddings.shape[-2:]
    rows = positions.narrow(0, 0, seq).expand_as(embeddings)
    return torch.add(rows, embeddings, alpha=math.sqrt(d_model))


@right("4.3")
def sum_by_loop(embeddings: Any, positions: Any) -> Any:
    root = embeddings.shape[-1] ** 0.5
    words = [word.double() * root + positions[i] for i, word in enumerate(embeddings.unbind(-2))]
    return torch.stack(words, dim=-2).to(embeddings.dtype)


@space(
    "4.4",
    *_FREQUENCIES,
    Turn(
        "half-split",
        "pairs",
        "You pair column i with column i plus half the width, as some libraries do. Here pairs are "
        "neighbours: columns 2i and 2i + 1.",
    ),
    Turn(
        "halves-with-paired-frequencies",
        "pairs",
        "Your frequencies are laid out for neighbouring columns, but you rotate halves: the two "
        "columns of a pair turn by different angles. Columns 2i and 2i + 1 are a pair, in both steps.",
    ),
    Turn(
        "pairs-with-tiled-frequencies",
        "pairs",
        "You rotate neighbouring columns, but your frequencies run through once and start again in "
        "the middle, as for halves. The two columns of a pair then turn by different angles.",
    ),
    Turn(
        "not-interleaved-again",
        "pairs",
        "Each pair is turned well, but put back into the wrong columns: all first ones, then all "
        "second ones. They belong back where they came from, side by side.",
    ),
    Turn(
        "pairs-not-joined",
        ALONE,
        "Your result has an axis too many: the pairs are still apart. They belong back into the "
        "columns they came from, side by side.",
    ),
    Turn(
        "halves-interleaved",
        ALONE,
        "You pair columns of the two halves and then put them back side by side, so columns come out "
        "in other places. Pairs are neighbours, columns 2i and 2i + 1, before and after.",
    ),
    Turn(
        "each-column-its-own-frequency",
        "pairs",
        "The two columns of a pair turn by different angles: every column has a frequency of its "
        "own. A pair shares that of its even column.",
    ),
    Turn(
        "turned-backwards",
        "turn",
        "You turn in the other direction: the minus stands in the wrong line, or the position has "
        "the wrong sign. Scores would not show it, but the block is asked to turn from the first "
        "column towards the second.",
    ),
    Turn(
        "minus-missing",
        "turn",
        "A minus is missing: with two plus signs the pair is stretched instead of turned, and "
        "changes its length."
        " Look at how a plane is rotated: one of the four products is negative.",
    ),
    Turn(
        "minus-in-both-lines",
        "turn",
        "There is a minus in both lines, so the pair is mirrored instead of turned. Only one of the "
        "two lines subtracts.",
    ),
    Turn(
        "minus-before-the-first",
        ALONE,
        "There is a minus in both lines, once before the second column and once before the first. "
        "The second line adds: only one of the two subtracts.",
    ),
    Turn(
        "second-line-wrong",
        "turn",
        "The first column of each pair is right, the second is not. There the sine goes with the "
        "first column and the cosine with the second, and both are added.",
    ),
    Turn(
        "sine-and-cosine-swapped",
        "turn",
        "Sine and cosine have changed places. At position 0 nothing may turn.",
    ),
    Turn(
        "cosines-only",
        "turn",
        "You only multiply by the cosine. In a turn each column also takes something from its "
        "partner, with the sine.",
    ),
    Turn(
        "partners-exchanged",
        "turn",
        "The two columns of each pair come out in each other's place. At position 0 nothing may "
        "change.",
    ),
    Turn(
        "partner-already-changed",
        "turn",
        "You overwrite the first column of a pair and then use the new value for the second. Both "
        "lines need the old pair.",
    ),
    Turn(
        "positions-added",
        ALONE,
        "You add sines and cosines to the vectors, as in the 2017 paper. Rotary positions turn the "
        "vectors, and leave their length as it is.",
    ),
    Turn(
        "multiplied-by-waves",
        ALONE,
        "You multiply each column by its sine or cosine. In a turn each new column is made of both "
        "columns of its pair.",
    ),
    Turn(
        "half-of-it-turned",
        ALONE,
        "Only the first half of the columns is turned. Here all pairs are.",
    ),
    Turn(
        "positions-ignored",
        "given",
        "You count the words yourself and ignore the positions you are given. A word that comes "
        "alone, at position 17, must be turned by 17.",
    ),
    Turn(
        "counted-from-one",
        "position",
        "You add one to the positions. They are used as they are given: at position 0 nothing turns.",
    ),
    Turn(
        "relative-to-the-first",
        "position",
        "You turn by the distance to the first word. The positions are used as they are given: a "
        "word that comes alone is turned too.",
    ),
    Turn(
        "first-position-for-all",
        ALONE,
        "All words turn by the position of the first. Each word has its own.",
    ),
    Turn(
        "positions-on-another-axis",
        ALONE,
        "The positions run along another axis than the words: heads or sentences are turned instead. "
        "Words are the last axis but one.",
    ),
    Turn(
        "heads-after-words",
        ALONE,
        "You count on words before heads, as in (batch, words, heads, columns). Here heads come "
        "first: words are the last axis but one.",
    ),
    Turn("four-axes-unpacked", ALONE, _THREE_AXES),
    Turn("three-axes-unpacked", ALONE, _THREE_AXES),
    Turn("always-float64", "care", _FLOAT64),
    Turn("always-float32", "care", _FLOAT32),
    Turn("gradient-cut", "care", _NO_GRADIENT),
    Turn("through-numpy", ALONE, _NUMPY),
    Turn("squeezed", ALONE, _SQUEEZED),
    Turn(
        "input-overwritten",
        ALONE,
        "You write the turned columns into the tensor you were given, so the caller's vectors are "
        "gone. Make a new tensor for the result.",
    ),
    Turn(
        "input-overwritten-too-early",
        ALONE,
        "You write into the tensor you were given while you still need it: the second column of a "
        "pair is made with the new first one, and the caller's vectors are gone. Make a new tensor.",
    ),
)
def rotate(on: On) -> Any:
    def block(x: Any, positions: Any) -> Any:
        given, width = x, x.shape[-1]
        check_even(width)
        x = torch.from_numpy(x.numpy()) if on("through-numpy") else x
        if on("four-axes-unpacked"):
            _, _, _, _ = x.shape
        if on("three-axes-unpacked"):
            _, _, _ = x.shape
        position = torch.arange(x.shape[-2]) if on("positions-ignored") else positions.double()
        position = position + 1 if on("counted-from-one") else position
        position = position - position[0] if on("relative-to-the-first") else position
        position = position[0].expand_as(position) if on("first-position-for-all") else position
        frequency = _frequency(on, _columns(width), width)
        tiled, paired = torch.cat([frequency, frequency]), frequency.repeat_interleave(2)
        one, other = frequency, frequency
        if on("pairs-with-tiled-frequencies"):
            one, other = tiled[0::2], tiled[1::2]
        if on("halves-with-paired-frequencies"):
            one, other = paired.chunk(2)
        if on("each-column-its-own-frequency"):
            other = _frequency(on, _columns(width) + 1, width)
        halves = on("half-split") or on("halves-interleaved") or on("halves-with-paired-frequencies")
        a, b = x.chunk(2, dim=-1) if halves else (x[..., 0::2], x[..., 1::2])
        new = turn(a, b, angle(position, one, x), angle(position, other, x))
        if (halves and not on("halves-interleaved")) or on("not-interleaved-again"):
            result = torch.cat(new, dim=-1)
        else:
            result = torch.stack(new, dim=-1)
            result = result if on("pairs-not-joined") else result.flatten(-2)
        if on("half-of-it-turned"):
            half = width // 4 * 2
            result = torch.cat([result[..., :half], x[..., half:]], dim=-1)
        result = result.squeeze() if on("squeezed") else result
        result = result.detach() if on("gradient-cut") else result
        if on("input-overwritten") or on("input-overwritten-too-early"):
            return given.copy_(result)
        return result.float() if on("always-float32") else result

    def angle(position: Any, frequency: Any, x: Any) -> Any:
        place = position[:, None, None] if on("positions-on-another-axis") else position[:, None]
        place = position[None, :, None, None] if on("heads-after-words") else place
        found = _angle(on, place, frequency)
        return found if on("always-float64") else found.to(x.dtype)

    def turn(a: Any, b: Any, one: Any, other: Any) -> tuple[Any, Any]:
        sign = -1 if on("turned-backwards") else 1
        cos, sin = one.cos(), sign * one.sin()
        cos_2, sin_2 = other.cos(), sign * other.sin()
        if on("sine-and-cosine-swapped"):
            cos, sin, cos_2, sin_2 = sin, cos, sin_2, cos_2
        if on("positions-added"):
            return a + sin, b + cos
        if on("multiplied-by-waves"):
            return a * sin, b * cos
        if on("cosines-only"):
            return a * cos, b * cos_2
        if on("minus-missing"):
            return a * cos + b * sin, a * sin_2 + b * cos_2
        first = a * cos - b * sin
        if on("partner-already-changed") or on("input-overwritten-too-early"):
            return first, first * sin_2 + b * cos_2
        if on("minus-before-the-first"):
            return first, b * cos_2 - a * sin_2
        if on("minus-in-both-lines"):
            return first, a * sin_2 - b * cos_2
        if on("second-line-wrong"):
            return first, a * cos_2 + b * sin_2
        second = a * sin_2 + b * cos_2
        return (second, first) if on("partners-exchanged") else (first, second)

    return block


@right("4.4")
def turns_by_complex_numbers(x: Any, positions: Any) -> Any:
    speed = 1.0 / (10000 ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1]))
    angle = torch.outer(positions.float(), speed)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2).type_as(x)


@right("4.4")
def turns_with_exchanged_partners(x: Any, positions: Any) -> Any:
    speed = torch.exp(torch.arange(0, x.shape[-1], 2) * (-math.log(10000.0) / x.shape[-1]))
    angle = (positions[:, None] * speed).repeat_interleave(2, dim=-1)
    partner = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape(x.shape)
    return x * angle.cos() + partner * angle.sin()


@right("4.4")
def turns_by_matrices(x: Any, positions: Any) -> Any:
    column = torch.arange(0, x.shape[-1], 2, dtype=torch.float64)
    angle = positions[:, None] / 10000 ** (column / x.shape[-1])
    rows = [torch.stack([angle.cos(), -angle.sin()], -1), torch.stack([angle.sin(), angle.cos()], -1)]
    pairs = x.double().unflatten(-1, (-1, 2))
    return torch.einsum("siab,...sib->...sia", torch.stack(rows, -2), pairs).flatten(-2).to(x.dtype)


@right("4.4")
def turns_on_a_copy(x: Any, positions: Any) -> Any:
    result = x.clone()
    for i in range(0, x.shape[-1], 2):
        angle = positions * 10000 ** (-i / x.shape[-1])
        result[..., i] = x[..., i] * angle.cos() - x[..., i + 1] * angle.sin()
        result[..., i + 1] = x[..., i] * angle.sin() + x[..., i + 1] * angle.cos()
    return result


@wrong(
    "4.1",
    "width-less-one",
    "Your frequencies fall a little too fast: the exponent is divided by d_model - 1. Column 2i has "
    "the exponent 2i over d_model itself, so that the last pair stays above 1 / 10000.",
)
def width_less_one(length: int, d_model: int) -> Any:
    column = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * 10000 ** (-column / (d_model - 1))
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2).to(torch.get_default_dtype())


# Any other base: which one it is cannot be seen from afar, that it is another can.
_OTHER_BASES = {"500000": 500000.0, "2": 2.0, "10": 10.0}


def _other_base(base: str) -> str:
    return (
        f"Your base is {base}. The waves of this course have the base 10000: look at the number that "
        "is raised to a power."
    )


def _waves(position: Any, width: int, base: float = 10000.0) -> Any:
    """Give the angles of all positions and pairs."""
    return torch.outer(position.double(), base ** (-_columns(width) / width))


def _table(one: Any, other: Any) -> Any:
    return torch.stack([one, other], dim=-1).flatten(-2).to(torch.get_default_dtype())


slips(
    "4.1",
    "nothing-returned",
    "as-an-array",
    "in-a-tuple",
    "as-a-list",
    "in-half-precision",
    "squeezed",
    "only-the-first",
    "all-axes-flattened",
    "one-number",
    "sign-turned",
    "all-zero",
)


def _table_with_base(base: float) -> Any:
    def block(length: int, d_model: int) -> Any:
        check_even(d_model)
        angle = _waves(torch.arange(length), d_model, base)
        return _table(angle.sin(), angle.cos())

    return block


for _name, _base in _OTHER_BASES.items():
    wrong("4.1", f"base-{_name}", _other_base(_name))(_table_with_base(_base))


@wrong(
    "4.1",
    "odd-columns-empty",
    "Every odd column of your table is zero. Each sine has its cosine beside it: the odd columns hold "
    "the cosines of the same angles.",
)
def odd_columns_empty(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(length), d_model)
    return _table(angle.sin(), angle.cos() * 0)


@wrong(
    "4.1",
    "even-columns-empty",
    "Every even column of your table is zero. The even columns hold the sines of the angles, and each "
    "has its cosine beside it.",
)
def even_columns_empty(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(length), d_model)
    return _table(angle.sin() * 0, angle.cos())


@wrong(
    "4.1",
    "sines-turned",
    "Your sines have the wrong sign: the angles run backwards, or a minus stands before the sine. The "
    "angle of a position is the position times the frequency, both positive.",
)
def sines_turned(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(length), d_model)
    return _table(-angle.sin(), angle.cos())


@wrong(
    "4.1",
    "cosines-turned",
    "Your cosines have the wrong sign. Position 0 has sines of zero and cosines of one: look for a "
    "minus before the cosine.",
)
def cosines_turned(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(length), d_model)
    return _table(angle.sin(), -angle.cos())


_FIXED_LENGTH = (
    "Your table always has the same number of rows, whatever length says. Whoever calls it decides how "
    "many positions there are."
)


@wrong("4.1", "always-512-rows", _FIXED_LENGTH)
def always_512_rows(length: int, d_model: int) -> Any:
    return reference.sinusoidal_positions(512, d_model)


@wrong("4.1", "always-5000-rows", _FIXED_LENGTH)
def always_5000_rows(length: int, d_model: int) -> Any:
    return reference.sinusoidal_positions(5000, d_model)


@wrong(
    "4.1",
    "sizes-exchanged",
    "Length and width have changed places: your table has d_model positions and is as wide as the "
    "sequence is long. Rows are positions, columns are waves.",
)
def sizes_exchanged(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(d_model), length)
    return _table(angle.sin(), angle.cos())[:, :length]


@wrong(
    "4.1",
    "twice-as-wide",
    "Your table has twice as many columns as asked for: a sine and a cosine for every column. Pairs "
    "share a frequency, so there are d_model / 2 of them.",
)
def twice_as_wide(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(length), 2 * d_model)
    return _table(angle.sin(), angle.cos())


@wrong(
    "4.1",
    "positions-along-the-pairs",
    "Positions and frequencies meet entry by entry, and their axes do not line up. Every position "
    "meets every frequency: one of the two needs an axis of its own.",
)
def positions_along_the_pairs(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = torch.arange(length) * 10000 ** (-_columns(d_model) / d_model)
    return _table(angle.sin(), angle.cos())


slips(
    "4.2",
    "nothing-returned",
    "as-an-array",
    "in-a-tuple",
    "as-a-list",
    "in-half-precision",
    "only-the-first",
    "all-axes-flattened",
    "one-number",
    "sign-turned",
    "all-zero",
)


def _block_matrix(angle: Any) -> Any:
    """Build the matrix that turns every pair by its angle."""
    blocks: list[Any] = [
        torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]) for a in angle.tolist()
    ]
    return torch.block_diag(*blocks)  # type: ignore[no-untyped-call]


def _matrix_with_base(base: float) -> Any:
    def block(offset: int, d_model: int) -> Any:
        check_even(d_model)
        return _block_matrix(_waves(torch.tensor([offset]), d_model, base)[0])

    return block


for _name, _base in _OTHER_BASES.items():
    wrong("4.2", f"base-{_name}", _other_base(_name))(_matrix_with_base(_base))


@wrong(
    "4.2",
    "no-move-back",
    "A negative offset moves nothing: your matrix is the identity there. Going back is a turn by a "
    "negative angle, which needs no case of its own.",
)
def no_move_back(offset: int, d_model: int) -> Any:
    return reference.shift_matrix(max(offset, 0), d_model)


@wrong(
    "4.2",
    "negative-offset-fails",
    "A negative offset ends in an error. Going back is a turn by a negative angle: nothing has to be "
    "counted, looked up or multiplied step by step for it.",
)
def negative_offset_fails(offset: int, d_model: int) -> Any:
    table = reference.sinusoidal_positions(offset + 1, d_model)
    return reference.shift_matrix(offset, d_model) + 0 * table[offset, 0]


@wrong(
    "4.2",
    "a-row-of-the-table",
    "You put the numbers of one position on the diagonal. Multiplying by sines and cosines one by one "
    "does not move a position: sin(a + b) mixes the sine and the cosine of a.",
)
def a_row_of_the_table(offset: int, d_model: int) -> Any:
    return torch.diag(reference.sinusoidal_positions(abs(offset) + 1, d_model)[abs(offset)])


@wrong(
    "4.2",
    "an-outer-product",
    "Your matrix is an outer product of two positions, so it gives every position the same direction. "
    "Each pair of columns has to turn by its own angle.",
)
def an_outer_product(offset: int, d_model: int) -> Any:
    table = reference.sinusoidal_positions(abs(offset) + 1, d_model)
    return torch.outer(table[0], table[abs(offset)])


@wrong(
    "4.2",
    "offset-not-times-the-frequency",
    "Your angles are the frequencies plus the offset. A pair turns by its frequency for every step: "
    "the angle is a product.",
)
def offset_not_times_the_frequency(offset: int, d_model: int) -> Any:
    check_even(d_model)
    return _block_matrix(offset + 10000 ** (-_columns(d_model) / d_model))


slips(
    "4.3",
    "nothing-returned",
    "as-an-array",
    "in-a-tuple",
    "as-a-list",
    "in-half-precision",
    "axis-in-front",
    "only-the-first",
    "all-axes-flattened",
    "one-number",
    "sign-turned",
    "all-zero",
    changed=("positions",),
)


@wrong(
    "4.3",
    "dropout-added",
    "Some numbers of your sum are zero at random, and the others larger. Models do drop out here while "
    "they are trained, but in a block of its own: the sum is always the same.",
)
def dropout_added(embeddings: Any, positions: Any) -> Any:
    return F.dropout(reference.add_positions(embeddings, positions), 0.1)


@wrong(
    "4.3",
    "averaged",
    "You take the mean of embeddings and positions. They are added as they are, after the embeddings "
    "were scaled.",
)
def averaged(embeddings: Any, positions: Any) -> Any:
    return reference.add_positions(embeddings, positions) / 2


@wrong(
    "4.3",
    "sum-normalised",
    "You normalise the sum. A layer norm may follow in the model, as a block of its own: here only the "
    "scaling and the sum are asked for.",
)
def sum_normalised(embeddings: Any, positions: Any) -> Any:
    return F.layer_norm(reference.add_positions(embeddings, positions), embeddings.shape[-1:])


@wrong(
    "4.3",
    "root-with-torch",
    "You take the root of a plain number with torch.sqrt, which wants a tensor. The width is a Python "
    "number: take its root with the math module, or as a power.",
)
def root_with_torch(embeddings: Any, positions: Any) -> Any:
    width: Any = embeddings.shape[-1]
    return embeddings * torch.sqrt(width) + positions[: embeddings.shape[-2]]


@wrong(
    "4.3",
    "positions-without-columns",
    "Every word gets the same share of the positions, their sum over the columns. A position is a "
    "whole vector: it is added column by column.",
)
def positions_summed_over_columns(embeddings: Any, positions: Any) -> Any:
    share = positions[: embeddings.shape[-2]].sum(dim=-1, keepdim=True)
    return embeddings * math.sqrt(embeddings.shape[-1]) + share


slips(
    "4.4",
    "nothing-returned",
    "as-an-array",
    "in-a-tuple",
    "as-a-list",
    "in-half-precision",
    "axis-in-front",
    "only-the-first",
    "all-axes-flattened",
    "one-number",
    "sign-turned",
    "all-zero",
)


def _turned(x: Any, angle: Any) -> Any:
    """Turn all pairs by these angles."""
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


def _turns_with_base(base: float) -> Any:
    def block(x: Any, positions: Any) -> Any:
        check_even(x.shape[-1], "d_head")
        return _turned(x, _waves(positions, x.shape[-1], base))

    return block


for _name, _base in _OTHER_BASES.items():
    wrong("4.4", f"base-{_name}", _other_base(_name))(_turns_with_base(_base))


@wrong(
    "4.4",
    "multiplied-by-waves-cosines-first",
    "You multiply the columns by cosines and sines in turn. A turn mixes the two columns of a pair: "
    "each new number needs both old ones.",
)
def multiplied_by_waves(x: Any, positions: Any) -> Any:
    check_even(x.shape[-1], "d_head")
    angle = _waves(positions, x.shape[-1])
    return x * torch.stack([angle.cos(), angle.sin()], dim=-1).flatten(-2).to(x.dtype)


@wrong(
    "4.4",
    "scaled-by-the-root",
    "You turn well, but multiply or divide by the root of the width as well. A turn leaves the length "
    "of a vector as it is: nothing is scaled here.",
)
def scaled_by_the_root(x: Any, positions: Any) -> Any:
    return reference.rotate(x, positions) * math.sqrt(x.shape[-1])


@wrong(
    "4.4",
    "divided-by-the-root",
    "You turn well, but divide by the root of the width as well. A turn leaves the length of a vector "
    "as it is: nothing is scaled here.",
)
def divided_by_the_root(x: Any, positions: Any) -> Any:
    return reference.rotate(x, positions) / math.sqrt(x.shape[-1])


@wrong(
    "4.4",
    "one-pair-only",
    "Only the first pair of columns is turned, the others stay as they are. Every pair turns, each at "
    "its own speed.",
)
def one_pair_only(x: Any, positions: Any) -> Any:
    return torch.cat([reference.rotate(x, positions)[..., :2], x[..., 2:]], dim=-1)


@wrong(
    "4.4",
    "first-columns-left-alone",
    "The first pair of columns is not turned. Its frequency is one, not zero: every pair turns.",
)
def first_columns_left_alone(x: Any, positions: Any) -> Any:
    return torch.cat([x[..., :2], reference.rotate(x, positions)[..., 2:]], dim=-1)


@wrong(
    "4.4",
    "batch-axis-added",
    "Your angles have a batch axis of their own, so a single sentence comes out with an axis too many. "
    "Angles for words and pairs broadcast by themselves to whatever stands in front.",
)
def batch_axis_added(x: Any, positions: Any) -> Any:
    check_even(x.shape[-1], "d_head")
    return _turned(x, _waves(positions, x.shape[-1]).unsqueeze(0))


@wrong(
    "4.4",
    "positions-reversed",
    "The words are turned by the positions in reverse order. The first position belongs to the first "
    "word.",
)
def turned_in_reverse(x: Any, positions: Any) -> Any:
    return reference.rotate(x, positions.flip(0))


@wrong(
    "4.4",
    "positions-divided",
    "You divide the positions by the largest one or by their number, so that all turns are small. The "
    "angle is the position itself times the frequency: otherwise the same distance would be another "
    "angle in another sentence.",
)
def positions_divided(x: Any, positions: Any) -> Any:
    check_even(x.shape[-1], "d_head")
    return _turned(x, _waves(positions / positions.max().clamp(min=1), x.shape[-1]))


@wrong(
    "4.4",
    "positions-divided-by-the-length",
    "You divide the positions by the number of words, so that all turns are small. The angle is the "
    "position itself times the frequency: otherwise the same distance would be another angle in "
    "another sentence.",
)
def positions_divided_by_the_length(x: Any, positions: Any) -> Any:
    check_even(x.shape[-1], "d_head")
    return _turned(x, _waves(positions / len(positions), x.shape[-1]))


@wrong(
    "4.4",
    "not-turned",
    "Your vectors come back as they were. What is computed has to be kept: look at what you return.",
)
def not_turned(x: Any, positions: Any) -> Any:
    reference.rotate(x, positions)
    return x


@wrong(
    "4.4",
    "turned-twice",
    "Every pair is turned twice as far as it should be: the turn is applied two times, or the angle is "
    "doubled. The angle is the position times the frequency.",
)
def turned_twice(x: Any, positions: Any) -> Any:
    return reference.rotate(reference.rotate(x, positions), positions)


slips(
    "4.1",
    *ENDINGS,
    without=(
        "last-axis-reversed",
        "rows-reversed",
    ),
)
slips("4.2", *ENDINGS, without=("length-one-at-the-end",))
slips(
    "4.3",
    *ENDINGS,
    treated=("embeddings", "positions"),
    without=(
        "halved",
        "standardised-at-the-end",
        "embeddings-normalised",
        "embeddings-scaled-up",
        "embeddings-scaled-down",
        "positions-scaled-up",
    ),
)
slips(
    "4.4",
    *ENDINGS,
    treated=("x",),
    without=(
        "x-normalised",
        "x-scaled-up",
        "x-scaled-down",
    ),
)


@wrong(
    "4.1",
    "between-zero-and-one",
    "Your waves run between 0 and 1. Sine and cosine run between -1 and 1, and the table takes them as "
    "they are.",
)
def between_zero_and_one(length: int, d_model: int) -> Any:
    return (reference.sinusoidal_positions(length, d_model) + 1) / 2


@wrong(
    "4.1",
    "counted-from-the-middle",
    "Your positions are counted from the middle of the sequence. The first position is 0, so that a "
    "word's vector does not depend on how long the sentence is.",
)
def counted_from_the_middle(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(length) - length // 2, d_model)
    return _table(angle.sin(), angle.cos())


@wrong(
    "4.1",
    "frequencies-on-a-line",
    "Your frequencies fall along a straight line, from 1 towards 0. They fall by the same factor from "
    "pair to pair: powers of the base.",
)
def frequencies_on_a_line(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = torch.outer(torch.arange(length).double(), 1 - _columns(d_model) / d_model)
    return _table(angle.sin(), angle.cos())


_FREQUENCIES_REVERSED = (
    "Your frequencies stand in reverse order: the slowest wave comes first. The exponent starts at 0 "
    "and grows from pair to pair."
)


@wrong("4.1", "frequencies-reversed", _FREQUENCIES_REVERSED)
def frequencies_reversed(length: int, d_model: int) -> Any:
    check_even(d_model)
    angle = _waves(torch.arange(length), d_model).flip(-1)
    return _table(angle.sin(), angle.cos())


@wrong("4.2", "frequencies-reversed", _FREQUENCIES_REVERSED)
def matrix_frequencies_reversed(offset: int, d_model: int) -> Any:
    check_even(d_model)
    return _block_matrix(_waves(torch.tensor([offset]), d_model)[0].flip(-1))


@wrong(
    "4.2",
    "moved-twice-as-far",
    "Your matrix moves by twice the offset. The angle of a pair is the offset times its frequency, "
    "once.",
)
def moved_twice_as_far(offset: int, d_model: int) -> Any:
    return reference.shift_matrix(2 * offset, d_model)


@wrong(
    "4.2",
    "moved-half-as-far",
    "Your matrix moves by half the offset. The angle of a pair is the offset times its frequency.",
)
def moved_half_as_far(offset: int, d_model: int) -> Any:
    check_even(d_model)
    return _block_matrix(_waves(torch.tensor([offset / 2]), d_model)[0])


@wrong(
    "4.3",
    "positions-doubled",
    "The positions count twice. They are added once, as they are.",
)
def positions_doubled(embeddings: Any, positions: Any) -> Any:
    return reference.add_positions(embeddings, positions * 2)


@wrong(
    "4.3",
    "logarithm-of-width",
    "You scale by the logarithm of the width. It is the root of the width that brings embeddings to "
    "the size of positions.",
)
def logarithm_of_width(embeddings: Any, positions: Any) -> Any:
    words = embeddings * math.log(embeddings.shape[-1])
    return words + positions[: embeddings.shape[-2]].to(embeddings)


@wrong(
    "4.3",
    "another-root",
    "You take another root of the width than the square root. Look at the exponent.",
)
def another_root(embeddings: Any, positions: Any) -> Any:
    words = embeddings * embeddings.shape[-1] ** (1 / 3)
    return words + positions[: embeddings.shape[-2]].to(embeddings)


@wrong(
    "4.3",
    "first-sentence-only",
    "Only the first sentence of the batch gets its positions. They broadcast to all sentences by "
    "themselves.",
)
def first_sentence_only(embeddings: Any, positions: Any) -> Any:
    result = embeddings * math.sqrt(embeddings.shape[-1])
    share = positions[: embeddings.shape[-2]].to(embeddings)
    if result.ndim == 2:
        return result + share
    return torch.cat([result[:1] + share, result[1:]])


@wrong(
    "4.3",
    "first-word-without-position",
    "The first word gets no position. Its position is 0, and row 0 of the table is not zero: it is "
    "added like the others.",
)
def first_word_without_position(embeddings: Any, positions: Any) -> Any:
    share = positions[: embeddings.shape[-2]].to(embeddings)
    share = torch.cat([share[:1] * 0, share[1:]])
    return embeddings * math.sqrt(embeddings.shape[-1]) + share


@wrong(
    "4.4",
    "vector-added",
    "The turned vector is added to the one that came in. A turn replaces a vector, and keeps its "
    "length.",
)
def vector_added(x: Any, positions: Any) -> Any:
    return x + reference.rotate(x, positions)


@wrong("4.4", "frequencies-reversed", _FREQUENCIES_REVERSED)
def turned_frequencies_reversed(x: Any, positions: Any) -> Any:
    check_even(x.shape[-1], "d_head")
    return _turned(x, _waves(positions, x.shape[-1]).flip(-1))


@wrong(
    "4.4",
    "first-line-turned",
    "The first number of each pair has the wrong sign. The new pair is a turn of the old one: the "
    "cosine keeps its sign in both lines.",
)
def first_line_turned(x: Any, positions: Any) -> Any:
    new = reference.rotate(x, positions)
    return torch.stack([-new[..., 0::2], new[..., 1::2]], dim=-1).flatten(-2)


_HALF_TURNED = (
    "Only one of the two columns of each pair is turned, the other stays as it was. A turn gives two "
    "new numbers, each made of both old ones."
)


@wrong("4.4", "odd-columns-only", _HALF_TURNED)
def odd_columns_only(x: Any, positions: Any) -> Any:
    new = reference.rotate(x, positions)
    return torch.stack([x[..., 0::2], new[..., 1::2]], dim=-1).flatten(-2)


@wrong("4.4", "even-columns-only", _HALF_TURNED)
def even_columns_only(x: Any, positions: Any) -> Any:
    new = reference.rotate(x, positions)
    return torch.stack([new[..., 0::2], x[..., 1::2]], dim=-1).flatten(-2)


@wrong(
    "4.4",
    "position-plus-frequency",
    "Your angles are positions plus frequencies. A pair turns by its frequency for every position: the "
    "angle is a product.",
)
def position_plus_frequency(x: Any, positions: Any) -> Any:
    check_even(x.shape[-1], "d_head")
    width = x.shape[-1]
    return _turned(x, positions.double()[:, None] + 10000 ** (-_columns(width) / width))


@wrong(
    "4.3",
    "positions-divided",
    "You divide the positions by the length of their table. They are added as they are: the embeddings "
    "are scaled to meet them.",
)
def table_divided(embeddings: Any, positions: Any) -> Any:
    return reference.add_positions(embeddings, positions / len(positions))


@wrong(
    "4.3",
    "positions-halved",
    "The positions count half. They are added as they are: the embeddings are scaled to meet them.",
)
def positions_halved(embeddings: Any, positions: Any) -> Any:
    return reference.add_positions(embeddings, positions / 2)


@wrong(
    "4.2",
    "last-pair-missing",
    "The last pair of columns is missing from your matrix: its block is zero. Look at where your loop "
    "ends.",
)
def last_pair_missing(offset: int, d_model: int) -> Any:
    matrix = reference.shift_matrix(offset, d_model).clone()
    matrix[-2:] = 0.0
    return matrix


def _overlapping(count: int, exponent: float, add: bool) -> Any:
    """Put blocks one column apart: one a pair, or count less than there are columns."""

    def block(offset: int, d_model: int) -> Any:
        check_even(d_model)
        matrix = torch.zeros(d_model, d_model)
        for i in range(d_model - count if count else d_model // 2):
            angle = torch.tensor(offset / 10000 ** (exponent * i / d_model))
            turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(2, 2)
            here = matrix[i : i + 2, i : i + 2]
            here.copy_(here + turn if add else turn)
        return matrix

    return block


_APART = "A pair takes two columns, so that no two blocks share one."
for _name, _told, _block in (
    (
        "blocks-overlap",
        "Your blocks stand one column apart, so each overwrites a part of the one before.",
        _overlapping(0, 2, add=False),
    ),
    (
        "blocks-overlap-and-add-up",
        "Your blocks stand one column apart, and their entries add up where they overlap.",
        _overlapping(0, 2, add=True),
    ),
    (
        "a-block-at-every-column",
        "You put a block at every column, each over a part of the one before.",
        _overlapping(1, 1, add=False),
    ),
    (
        "a-block-at-every-column-of-a-pair",
        "You put a block at every column, with the frequencies of twice as many, each over a part of "
        "the one before.",
        _overlapping(1, 2, add=False),
    ),
):
    wrong("4.2", _name, f"{_told} {_APART}")(_block)


@wrong(
    "4.4",
    "half-turned-by-its-own-width",
    "You turn the first half of the columns only, with the frequencies of that half, as some models "
    "do. Here every pair of columns turns, and the frequencies belong to the whole width.",
)
def half_turned(x: Any, positions: Any) -> Any:
    half = x.shape[-1] // 4 * 2
    turned = reference.rotate(x[..., :half], positions) if half else x[..., :0]
    return torch.cat([turned, x[..., half:]], dim=-1)
