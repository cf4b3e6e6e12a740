"""Wrong turns of week 2: similarity, softmax, context, and the three views."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from lab_grader.bank import ALONE, ENDINGS, OTHER_SCORES, On, Turn, right, slips, space, wrong

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
    "Your result is double precision, even for single precision inputs. Calculating in double "
    "precision is fine, but a block keeps the dtype of what it is given: convert the result at the "
    "end."
)
_SQUEEZED = (
    "You squeeze the result, which drops every axis of size one. A batch of one sentence or a "
    "sentence of one word then loses an axis that the next block counts on."
)
_TWO_AXES = (
    "Your code is right for a single sentence, but not for a batch of them: it exchanges or names "
    "the first two axes. Words and columns are always the last two axes; count from the end."
)
_THREE_AXES = (
    "Your code counts on exactly three axes (batch, words, columns). A sentence without a batch, or "
    "one with heads in front, fails. Count axes from the end, and let everything before them be."
)
_ONLY_ITSELF = (
    "You take the dot product of every word with itself only: one number a word. What is asked for "
    "is one number for every pair of words, a square for each sentence."
)
_RESCALED = (
    "You rescale every row of scores before the power, to fit a fixed range or spread. The "
    "differences between scores are what the weights come from: only a subtraction leaves them as "
    "they are."
)
_ONE_CONTEXT = (
    "All words of a sentence get one context: you sum or average over the words at the end. Each "
    "word has a weighted sum of its own."
)
_NO_SELF = (
    "You leave out the score of a word with itself: the diagonal is empty. Every word is compared "
    "with every word, itself included."
)
_LOST_BATCH = (
    "Your result has lost the batch: all sentences came out as one. Every sentence has its own "
    "square of scores, so the leading axes stay."
)


@space(
    "2.1",
    Turn(
        "normalised-vectors",
        "vectors",
        "You divide every vector by its length first, which gives the cosine of the angle. The score "
        "here is the plain dot product: a longer vector gets larger scores.",
    ),
    Turn(
        "one-side-normalised",
        "vectors",
        "You divide by the length of one of the two words only, so the score of a with b is no "
        "longer that of b with a. The plain dot product needs no division at all.",
    ),
    Turn(
        "centred-vectors",
        "vectors",
        "You subtract a mean before multiplying, which gives covariances. The score is the plain dot "
        "product of the vectors as they are.",
    ),
    Turn(
        "normalised-as-a-whole",
        ALONE,
        "You divide all vectors by one number, the size of the whole tensor. A score would then "
        "depend on the other sentences; the plain dot product needs no division at all.",
    ),
    Turn(
        "input-normalised-in-place",
        ALONE,
        "You divide the vectors by their length, and you do it inside the tensor you were given. The "
        "caller's words are changed after the call. Neither is asked for: the score is the plain dot "
        "product, and inputs stay as they are.",
    ),
    Turn(
        "not-transposed",
        "product",
        "You multiply x with itself as it stands. Rows of the first then meet columns of the second, "
        "so words are multiplied with features. To let words meet words, the second needs its last "
        "two axes exchanged.",
    ),
    Turn(
        "columns-compared",
        "product",
        "You compare the columns of x with each other, not its rows: the result has as many rows as "
        "the vectors are wide. The transpose stands on the wrong side of the product.",
    ),
    Turn(
        "elementwise-product",
        ALONE,
        "You multiply x with itself entry by entry. A dot product also sums over the columns, and it "
        "is taken for every pair of words, not only for a word with itself.",
    ),
    Turn(
        "only-with-itself",
        ALONE,
        _ONLY_ITSELF,
    ),
    Turn("only-with-itself-as-a-column", ALONE, _ONLY_ITSELF),
    Turn(
        "not-summed",
        ALONE,
        "You multiply every word with every word, but leave the products of the columns side by "
        "side: there is an axis too many. A dot product sums over the columns.",
    ),
    Turn(
        "summed-over-words",
        ALONE,
        "You sum over the words where the columns should be summed. A dot product sums over the "
        "columns and leaves one number for every pair of words.",
    ),
    Turn(
        "distance",
        "product",
        "You compute distances between words. A small distance means similar, a large dot product "
        "means similar: the softmax that follows needs the second.",
    ),
    Turn(
        "distance-squared",
        "product",
        "You compute squared distances between words. A small distance means similar, a large dot "
        "product means similar: the softmax that follows needs the second.",
    ),
    Turn("two-axes-only", ALONE, _TWO_AXES),
    Turn("three-axes-only", ALONE, _THREE_AXES),
    Turn("axes-counted-from-the-front", ALONE, _THREE_AXES),
    Turn("three-axes-unpacked", "axes", _THREE_AXES),
    Turn(
        "batch-mixed",
        "product",
        "Words meet words of other sentences: your product sums or averages over the batch. Every "
        "sentence has its own scores, and the other sentences do not change them.",
    ),
    Turn(
        "batch-flattened",
        "product",
        _LOST_BATCH,
    ),
    Turn("batch-summed", ALONE, _LOST_BATCH),
    Turn(
        "compared-with-first-sentence",
        ALONE,
        "Every sentence is compared with the first sentence of the batch. Each word meets the words "
        "of its own sentence only.",
    ),
    Turn(
        "scaled-by-root",
        "scale",
        "You divide the scores by the root of the width. That idea comes in week 3; here the score "
        "is the plain dot product.",
    ),
    Turn(
        "scaled-by-width",
        "scale",
        "Your scores are too small by the width of the vectors: you took a mean over the columns, or "
        "divided by their number. A dot product is a sum.",
    ),
    Turn(
        "scaled-by-length",
        "scale",
        "Your scores are divided by the number of words or its root. How similar two words are does "
        "not depend on how long the sentence is.",
    ),
    Turn(
        "softmax-too-early",
        "after",
        "Your rows already sum to one: there is a softmax in it. Here only the raw scores are asked "
        "for; the softmax is the next block.",
    ),
    Turn(
        "softmax-too-early-down-the-columns",
        ALONE,
        "There is a softmax in it, down the columns. Here only the raw scores are asked for; the "
        "softmax is the next block.",
    ),
    Turn(
        "exponentiated",
        ALONE,
        "You raise e to the scores. Here only the raw scores are asked for; powers and weights are "
        "the next block.",
    ),
    Turn(
        "no-self-score",
        "after",
        _NO_SELF,
    ),
    Turn("self-score-masked", ALONE, _NO_SELF),
    Turn("self-score-very-low", ALONE, _NO_SELF),
    Turn(
        "half-the-pairs",
        "after",
        "Half of the square is empty: you fill the pairs on one side of the diagonal only. The score "
        "of a with b is needed in the row of a and in the row of b.",
    ),
    Turn(
        "half-the-pairs-without-self",
        ALONE,
        "Only the pairs above the diagonal are filled. The score of a with b is needed in the row of "
        "a and in the row of b, and every word is compared with itself too.",
    ),
    Turn(
        "future-hidden",
        ALONE,
        "The scores of later words are missing. There is no mask in this block: every word is "
        "compared with every word, before and after it.",
    ),
    Turn(
        "sign-lost",
        ALONE,
        "Negative scores have become positive: there is an absolute value or a square in it. Two "
        "words that point in opposite directions have a negative score.",
    ),
    Turn(
        "negative-scores-cut",
        ALONE,
        "Negative scores have become zero. Two words that point in opposite directions have a "
        "negative score, and that is worth knowing.",
    ),
    Turn(
        "sign-flipped",
        "after",
        "Your scores have the wrong sign. Vectors that point in the same direction have a positive "
        "dot product.",
    ),
    Turn("squeezed", ALONE, _SQUEEZED),
    Turn("gradient-cut", "care", _NO_GRADIENT),
    Turn(
        "gradient-one-sided",
        ALONE,
        "The gradient reaches x through one side of the product only; the other side is detached. A "
        "word changes the scores in its row and in its column, and both must count.",
    ),
    Turn("through-numpy", ALONE, _NUMPY),
    Turn("always-float32", "care", _FLOAT32),
    Turn("always-float64", ALONE, _FLOAT64),
)
def similarity_scores(on: On) -> Any:
    def block(x: Any) -> Any:
        if on("input-normalised-in-place"):
            x /= x.norm(dim=-1, keepdim=True)
        if on("through-numpy"):
            x = torch.from_numpy(x.numpy())
        if on("three-axes-unpacked"):
            _, _, _ = x.shape
        one, other = x, x.detach() if on("gradient-one-sided") else x
        if on("normalised-vectors"):
            one, other = F.normalize(x, dim=-1), F.normalize(x, dim=-1)
        if on("one-side-normalised"):
            one = F.normalize(x, dim=-1)
        if on("normalised-as-a-whole"):
            one = other = x / x.norm()
        if on("centred-vectors"):
            one = other = x - x.mean(dim=-1, keepdim=True)
        scores = product(one, other)
        scores = scores / (x.shape[-1] ** 0.5 if on("scaled-by-root") else 1)
        scores = scores / (x.shape[-1] if on("scaled-by-width") else 1)
        scores = scores / (x.shape[-2] if on("scaled-by-length") else 1)
        scores = after(scores)
        scores = scores.detach() if on("gradient-cut") else scores
        scores = scores.double() if on("always-float64") else scores
        return scores.float() if on("always-float32") else scores

    def product(x: Any, y: Any) -> Any:
        if on("not-transposed"):
            return x @ y
        if on("columns-compared"):
            return x.mT @ y
        if on("elementwise-product"):
            return x * y
        if on("only-with-itself"):
            return (x * y).sum(dim=-1)
        if on("only-with-itself-as-a-column"):
            return (x * y).sum(dim=-1, keepdim=True)
        if on("distance"):
            return torch.cdist(x, y)
        if on("distance-squared"):
            return (x.unsqueeze(-2) - y.unsqueeze(-3)).square().sum(dim=-1)
        if on("not-summed"):
            return x.unsqueeze(-2) * y.unsqueeze(-3)
        if on("summed-over-words"):
            return (x.unsqueeze(-2) * y.unsqueeze(-3)).sum(dim=-2)
        if on("two-axes-only"):
            return torch.mm(x, y.t())
        if on("three-axes-only"):
            return torch.bmm(x, y.permute(0, 2, 1))
        if on("axes-counted-from-the-front"):
            return x @ y.transpose(1, 2)
        if x.ndim > 2 and on("batch-mixed"):
            return x @ y.flatten(0, -3).sum(dim=0).mT
        if x.ndim > 2 and on("batch-flattened"):
            return x.reshape(-1, x.shape[-1]) @ y.reshape(-1, y.shape[-1]).mT
        if x.ndim > 2 and on("batch-summed"):
            return (x @ y.mT).flatten(0, -3).sum(dim=0)
        if x.ndim > 2 and on("compared-with-first-sentence"):
            return x @ y.flatten(0, -3)[0].mT
        return x @ y.mT

    def after(scores: Any) -> Any:
        if on("softmax-too-early"):
            return torch.softmax(scores, dim=-1)
        if on("softmax-too-early-down-the-columns"):
            return torch.softmax(scores, dim=-2)
        if on("exponentiated"):
            return scores.exp()
        if on("negative-scores-cut"):
            return scores.relu()
        if on("no-self-score"):
            return scores - torch.diag_embed(scores.diagonal(dim1=-2, dim2=-1))
        if on("self-score-masked") or on("self-score-very-low"):
            itself = torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device)
            return scores.masked_fill(itself, -torch.inf if on("self-score-masked") else -1e9)
        if on("half-the-pairs-without-self"):
            return scores.triu(1)
        if on("half-the-pairs"):
            return scores.triu()
        if on("future-hidden"):
            return scores.tril()
        if on("sign-lost"):
            return scores.abs()
        if on("sign-flipped"):
            return -scores
        return scores.squeeze() if on("squeezed") else scores

    return block


@right("2.1")
def scores_by_einsum(x: Any) -> Any:
    return torch.einsum("...id,...jd->...ij", x, x)


@right("2.1")
def scores_by_broadcasting(x: Any) -> Any:
    return (x.unsqueeze(-2) * x.unsqueeze(-3)).sum(dim=-1)


@right("2.1")
def scores_by_loop(x: Any) -> Any:
    words = x.unbind(dim=-2)
    return torch.stack([torch.stack([(a * b).sum(-1) for b in words], -1) for a in words], -2)


@right("2.1")
def scores_in_double(x: Any) -> Any:
    wide = x.double()
    return torch.matmul(wide, wide.transpose(-1, -2)).to(x.dtype)


@space(
    "2.2",
    Turn(
        "dim-ignored",
        "axis",
        "The argument dim has no effect: you always work along the last axis. Whoever calls your "
        "softmax with another dim gets weights that sum to one in the wrong direction.",
    ),
    Turn(
        "always-first-axis",
        "axis",
        "You always work along the first axis, which is the batch: the scores of different sentences "
        "compete. Use the axis that dim names, in every step.",
    ),
    Turn(
        "always-second-axis",
        "axis",
        "You always work along the second axis. That fits a plain table of scores, but not a batch, "
        "and it ignores what the caller asked for. Use the axis that dim names, in every step.",
    ),
    Turn(
        "first-axis-by-default",
        "axis",
        "Without a dim you work along the first axis. The signature says that the last axis is the "
        "default.",
    ),
    Turn(
        "second-axis-by-default",
        ALONE,
        "Without a dim you work along axis 1. The signature says that the last axis is the default.",
    ),
    Turn(
        "dim-not-taken",
        ALONE,
        "Your function does not take the argument dim, so a caller who names an axis gets an error. "
        "Keep the signature as it was.",
    ),
    Turn(
        "sum-over-last-axis",
        "axis",
        "You divide by a sum over the last axis, whatever dim says. The maximum and the sum must go "
        "along the same axis, the one that the caller names.",
    ),
    Turn(
        "sum-over-first-axis",
        ALONE,
        "You divide by a sum over the first axis of the batch. The sum must go along the axis that "
        "dim names, and only there do the weights sum to one.",
    ),
    Turn(
        "sum-over-everything",
        "axis",
        "You divide by the sum of all entries, so all weights together sum to one. Each row along "
        "dim has its own sum.",
    ),
    Turn(
        "sum-per-sentence",
        ALONE,
        "All weights of one sentence of the batch together sum to one. Each row along dim has its "
        "own maximum and its own sum.",
    ),
    Turn(
        "sum-loses-its-axis",
        "axis",
        "The sum has lost the axis it was taken over. It then lines up with the wrong axis when you "
        "divide: an error for most shapes, and silently wrong for a square. Look at what keepdim "
        "does.",
    ),
    Turn(
        "maximum-loses-its-axis",
        "axis",
        "The maximum has lost the axis it was taken over. It then lines up with the wrong axis when "
        "you subtract: an error for most shapes, and silently wrong for a square. Look at what "
        "keepdim does.",
    ),
    Turn(
        "sum-and-maximum-lose-their-axis",
        ALONE,
        "Both the maximum and the sum have lost the axis they were taken over. They then line up "
        "with the wrong axis: an error for most shapes, and silently wrong for a square. Look at "
        "what keepdim does.",
    ),
    Turn(
        "axis-put-back-at-the-end",
        ALONE,
        "You put the lost axis back at the end. That is right for the last axis only: for another "
        "dim it must come back where it was. Look at what keepdim does.",
    ),
    Turn(
        "maximum-is-a-pair",
        ALONE,
        "Your code stops with a TypeError. A common reason: max along an axis gives two things, the "
        "largest values and their places, and one cannot calculate with such a pair.",
    ),
    Turn(
        "no-maximum",
        "maximum",
        "You exponentiate the scores as they come. For large scores that overflows to infinity, and "
        "infinity over infinity is NaN; for very low ones all powers vanish, and zero over zero is "
        "NaN. What may you take off a whole row without changing its softmax?",
    ),
    Turn(
        "unstable-logarithm",
        ALONE,
        "You divide by way of logarithms, but the sum of the powers still overflows for large scores "
        "and vanishes for low ones. What may you take off a whole row without changing its softmax?",
    ),
    Turn(
        "nan-papered-over",
        ALONE,
        "You let the powers overflow and then replace NaN by zero. The largest score should get the "
        "most weight, and now it gets none. Keep the overflow from happening instead.",
    ),
    Turn(
        "epsilon-below",
        ALONE,
        "You exponentiate the scores as they come and add a small number below the bar. That hides "
        "zero over zero, but the weights of low scores vanish, and large scores still overflow. Keep "
        "the powers from vanishing or overflowing instead.",
    ),
    Turn(
        "global-maximum",
        "maximum",
        "You subtract one maximum of the whole tensor. A row far below it then vanishes altogether: "
        "zero over zero, NaN. Each row needs its own maximum.",
    ),
    Turn(
        "maximum-per-sentence",
        ALONE,
        "You subtract one maximum for a whole sentence of the batch. A row far below it then "
        "vanishes altogether: zero over zero, NaN. Each row along dim needs its own maximum.",
    ),
    Turn(
        "maximum-over-first-axis",
        "maximum",
        "You take the maximum over another axis than the sum, so different entries of one row lose "
        "different amounts, and that changes the weights. Only the same number for the whole row "
        "cancels out.",
    ),
    Turn(
        "maximum-over-last-axis",
        "maximum",
        "You take the maximum over the last axis even when dim names another. Entries that share a "
        "sum then lose different amounts, and that changes the weights.",
    ),
    Turn(
        "mean-subtracted",
        "maximum",
        "You subtract the mean of a row. The largest score can still be far above the mean, and its "
        "power overflows. Which number of the row makes sure that none stays above zero?",
    ),
    Turn(
        "minimum-subtracted",
        "maximum",
        "You subtract the smallest score, so that all are positive: that makes the powers larger and "
        "the overflow worse. Which number of the row makes sure that none stays above zero?",
    ),
    Turn(
        "maximum-added",
        "maximum",
        "You add the maximum where it should be taken off. The weights of small scores do not show "
        "it, large ones overflow all the sooner.",
    ),
    Turn(
        "largest-magnitude-subtracted",
        ALONE,
        "You subtract the largest absolute value. In a row of very negative scores that pushes all "
        "of them further down until every power is zero, and zero over zero is NaN.",
    ),
    Turn(
        "divided-by-maximum",
        "maximum",
        "You divide the scores by their maximum instead of subtracting it. That changes the ratios "
        "of the powers, so the weights change too; only a subtraction cancels out.",
    ),
    Turn(
        "divided-by-largest-magnitude",
        ALONE,
        "You divide the scores by their largest absolute value instead of subtracting the maximum. "
        "That changes the ratios of the powers, so the weights change too; only a subtraction "
        "cancels out.",
    ),
    Turn(
        "scores-clamped",
        ALONE,
        "You clip large scores before the power. No overflow, but all clipped scores become equal "
        "and share the weight. The largest must keep its lead.",
    ),
    Turn(
        "scores-clamped-on-both-sides",
        ALONE,
        "You clip large and small scores before the power. No overflow, but all clipped scores "
        "become equal and share the weight. The largest must keep its lead.",
    ),
    Turn("scores-squeezed-to-one", ALONE, _RESCALED),
    Turn("scores-standardised", ALONE, _RESCALED),
    Turn(
        "not-divided",
        "form",
        "Your weights are positive but do not sum to one: you stop at the powers, or divide them by "
        "the largest. Divide them by their sum.",
    ),
    Turn(
        "no-exponential",
        "form",
        "You divide the scores by their sum without raising e to them. Negative scores then give "
        "negative weights, and a sum near zero blows everything up.",
    ),
    Turn(
        "log-softmax",
        "form",
        "Your result is the logarithm of the weights: all negative. The weights themselves are asked "
        "for.",
    ),
    Turn(
        "softmin",
        "form",
        "The lowest score gets the most weight: a sign is turned around before the power."
        " The largest score should win: look at the signs.",
    ),
    Turn(
        "sigmoid",
        ALONE,
        "You squash every score on its own, as a sigmoid does. In a softmax the scores of a row "
        "compete for one unit of weight.",
    ),
    Turn(
        "power-of-two",
        ALONE,
        "You raise another number than e to the scores. The weights sum to one, but they are not "
        "those of a softmax.",
    ),
    Turn(
        "divided-by-mean",
        ALONE,
        "You divide by the mean of the powers: your weights sum to the number of scores, not to one."
        " Weights are shares of a whole: look at what the whole is.",
    ),
    Turn(
        "divided-by-norm",
        ALONE,
        "You divide by the root of the sum of squares, so the weights have length one. They should "
        "sum to one.",
    ),
    Turn(
        "absolute-values",
        ALONE,
        "You divide absolute values by their sum. A very negative score would get a large weight: "
        "the weights of a softmax are powers of e.",
    ),
    Turn(
        "scaled-by-root",
        "form",
        "You divide the scores by the root of their number first. Softmax takes the scores as they "
        "are; scaling is a later week's matter, and by another width.",
    ),
    Turn(
        "softmax-twice",
        "form",
        "The softmax is applied twice, so the weights are almost equal. Once is enough.",
    ),
    Turn(
        "times-scores",
        ALONE,
        "You multiply the weights with the scores again. The weights alone are the result.",
    ),
    Turn(
        "winner-takes-all",
        ALONE,
        "The largest score gets all the weight. That is an argmax: softmax is its soft form, in "
        "which every score gets a share.",
    ),
    Turn("squeezed", ALONE, _SQUEEZED),
    Turn("gradient-cut", "care", _NO_GRADIENT),
    Turn(
        "gradient-not-through-sum",
        ALONE,
        "The values are right, but the gradient ignores the sum that you divide by. A larger score "
        "takes weight from all the others: that part of the gradient is missing.",
    ),
    Turn("through-numpy", ALONE, _NUMPY),
    Turn("always-float32", "care", _FLOAT32),
    Turn("always-float64", ALONE, _FLOAT64),
    Turn(
        "input-changed",
        ALONE,
        "You subtract inside the tensor you were given, so the caller's scores are different after "
        "the call. Make a new tensor instead of using -= or a method that ends in an underscore.",
    ),
)
def softmax(on: On) -> Any:
    def block(scores: Any, dim: Any = None) -> Any:
        if dim is not None and on("dim-not-taken"):
            raise TypeError("softmax() got an unexpected keyword argument 'dim'")
        if dim is None:
            dim = 0 if on("first-axis-by-default") else 1 if on("second-axis-by-default") else -1
        if on("axis-put-back-at-the-end") and dim not in (-1, scores.ndim - 1):
            scores = scores - scores.amax(dim=dim).unsqueeze(-1)
        if on("maximum-is-a-pair"):
            scores = scores - scores.max(dim=dim, keepdim=True)
        dim = -1 if on("dim-ignored") else dim
        dim = 0 if on("always-first-axis") else dim
        dim = 1 if on("always-second-axis") else dim
        if on("through-numpy"):
            scores = torch.from_numpy(scores.numpy())
        given = scores
        scores = -scores if on("softmin") else scores
        scores = scores / scores.shape[dim] ** 0.5 if on("scaled-by-root") else scores
        if on("divided-by-maximum"):
            scores = scores / scores.amax(dim=dim, keepdim=True)
        elif on("divided-by-largest-magnitude"):
            scores = scores / scores.abs().amax(dim=dim, keepdim=True)
        elif on("scores-clamped"):
            scores = scores.clamp(max=80.0)
        elif on("scores-clamped-on-both-sides"):
            scores = scores.clamp(-80.0, 80.0)
        elif on("scores-squeezed-to-one"):
            low, high = scores.amin(dim=dim, keepdim=True), scores.amax(dim=dim, keepdim=True)
            scores = (scores - low) / (high - low)
        elif on("scores-standardised"):
            scores = scores - scores.mean(dim=dim, keepdim=True)
            spread = scores.square().sum(dim=dim, keepdim=True) / (scores.shape[dim] - 1)
            scores = scores / spread.sqrt()
        elif on("input-changed"):
            given -= level(given, dim)
            scores = given
        else:
            scores = scores - level(scores, dim)
        weights = share(scores, given, dim)
        weights = weights.nan_to_num(0.0) if on("nan-papered-over") else weights
        weights = weights.softmax(dim=dim) if on("softmax-twice") else weights
        weights = weights * given if on("times-scores") else weights
        weights = weights.double() if on("always-float64") else weights
        weights = weights.squeeze() if on("squeezed") else weights
        weights = weights.detach() if on("gradient-cut") else weights
        return weights.float() if on("always-float32") else weights

    def level(scores: Any, dim: int) -> Any:
        if on("no-maximum") or on("nan-papered-over") or on("epsilon-below"):
            return 0.0
        if on("global-maximum"):
            return scores.max()
        if on("maximum-per-sentence"):
            return scores.amax(dim=tuple(range(1, scores.ndim)) or 0, keepdim=True)
        if on("maximum-over-first-axis"):
            return scores.amax(dim=0, keepdim=True)
        if on("maximum-over-last-axis"):
            return scores.amax(dim=-1, keepdim=True)
        if on("mean-subtracted"):
            return scores.mean(dim=dim, keepdim=True)
        if on("minimum-subtracted"):
            return scores.amin(dim=dim, keepdim=True)
        if on("largest-magnitude-subtracted"):
            return scores.abs().amax(dim=dim, keepdim=True)
        lost = on("maximum-loses-its-axis") or on("sum-and-maximum-lose-their-axis")
        top = scores.amax(dim=dim, keepdim=not lost)
        return -top if on("maximum-added") else top

    def share(scores: Any, given: Any, dim: int) -> Any:
        if on("sigmoid"):
            return torch.sigmoid(given)
        if on("unstable-logarithm"):
            return (given - given.exp().sum(dim=dim, keepdim=True).log()).exp()
        if on("sum-per-sentence"):
            return (
                given.flatten(1).softmax(dim=-1).reshape(given.shape)
                if given.ndim > 1
                else given * 0 + 1
            )
        if on("winner-takes-all"):
            return (scores == scores.amax(dim=dim, keepdim=True)).to(scores.dtype)
        raised = 2.0**scores if on("power-of-two") else scores.exp()
        raised = given if on("no-exponential") else given.abs() if on("absolute-values") else raised
        if on("not-divided"):
            return raised
        lost = on("sum-loses-its-axis") or on("sum-and-maximum-lose-their-axis")
        axis = -1 if on("sum-over-last-axis") else 0 if on("sum-over-first-axis") else dim
        total = raised.sum() if on("sum-over-everything") else raised.sum(dim=axis, keepdim=not lost)
        if on("divided-by-mean"):
            total = total / scores.shape[dim]
        if on("divided-by-norm"):
            total = raised.norm(dim=dim, keepdim=True)
        if on("epsilon-below"):
            total = total + 1e-9
        if on("gradient-not-through-sum"):
            total = total.detach()
        return scores - total.log() if on("log-softmax") else raised / total

    return block


@right("2.2")
def softmax_built_in(scores: Any, dim: int = -1) -> Any:
    return F.softmax(scores, dim)


@right("2.2")
def softmax_by_logarithms(scores: Any, dim: int = -1) -> Any:
    return torch.exp(scores - torch.logsumexp(scores, dim=dim, keepdim=True))


@right("2.2")
def softmax_on_a_copy(scores: Any, dim: int = -1) -> Any:
    own = scores.clone()
    own -= scores.max(dim=dim, keepdim=True).values.detach()
    raised = torch.exp(own)
    return raised / raised.sum(dim).unsqueeze(dim)


@right("2.2")
def softmax_in_double(scores: Any, dim: int = -1) -> Any:
    rows = scores.double().movedim(dim, -1)
    raised = torch.e ** (rows - rows.amax(-1, True))
    return (raised * raised.sum(-1, True).reciprocal()).movedim(-1, dim).to(scores.dtype)


@space(
    "2.3",
    Turn(
        "softmax-over-words-that-ask",
        "weights",
        "Your softmax goes down the columns: the weights that a word receives sum to one, not those "
        "that it gives. Row i belongs to word i, so each row must sum to one.",
    ),
    Turn(
        "softmax-over-second-axis",
        "weights",
        "Your softmax goes over axis 1. That is right for one sentence, but with a batch in front it "
        "is another axis. Count from the end.",
    ),
    Turn(
        "softmax-over-first-axis",
        "weights",
        "Your softmax goes over the first axis: the words that ask, or with a batch the sentences. "
        "Each row of the weights must sum to one.",
    ),
    Turn(
        "softmax-over-everything",
        "weights",
        "All weights of a sentence together sum to one. Each word has one unit of weight of its own "
        "to give: each row sums to one.",
    ),
    Turn(
        "no-softmax",
        "weights",
        "You use the raw scores as weights. They can be negative and sum to anything, so long "
        "vectors take over. Between scores and weights stands a softmax.",
    ),
    Turn(
        "no-exponential",
        ALONE,
        "You divide the scores by their sum, without the softmax. Negative scores give negative "
        "weights, and a sum near zero blows the context up.",
    ),
    Turn(
        "softmax-of-the-vectors",
        ALONE,
        "You apply the softmax to the vectors before comparing them. It belongs to the scores: first "
        "compare words, then turn each row of scores into weights.",
    ),
    Turn(
        "softmax-twice",
        "weights",
        "The softmax is applied twice, so all words get almost the same weight. Once is enough.",
    ),
    Turn(
        "log-softmax",
        ALONE,
        "You use the logarithm of the weights: all negative, and no row sums to one. The weights "
        "themselves are asked for.",
    ),
    Turn(
        "no-self-weight-afterwards",
        ALONE,
        "You take away a word's weight for itself after the softmax, so its weights no longer sum to "
        "one. Every word looks at the whole sentence, itself included.",
    ),
    Turn(
        "weights-averaged-over-batch",
        ALONE,
        "You average the weights over the batch. Each sentence has its own weights.",
    ),
    Turn(
        "unstable-softmax",
        "weights",
        "Your softmax overflows for long vectors: infinity over infinity is NaN. Use the softmax of "
        "the block before, which takes off the maximum.",
    ),
    Turn(
        "global-maximum",
        ALONE,
        "Your softmax subtracts one maximum of the whole tensor. Words whose scores lie far below it "
        "lose all their weights: zero over zero, NaN. Each row needs its own maximum.",
    ),
    Turn(
        "sigmoid",
        ALONE,
        "Every score is squashed on its own, so a word's weights do not sum to one. In a softmax the "
        "neighbours compete for one unit of weight.",
    ),
    Turn(
        "hard-choice",
        ALONE,
        "Each word takes the single most similar word only. The softmax gives every word of the "
        "sentence a share.",
    ),
    Turn(
        "scaled-by-root",
        "scores",
        "You divide the scores by the root of the width. That idea comes in week 3; here the scores "
        "go into the softmax as they are.",
    ),
    Turn(
        "scaled-by-width",
        "scores",
        "You divide the scores by the width of the vectors. Here the scores go into the softmax as "
        "they are.",
    ),
    Turn(
        "normalised-vectors",
        "scores",
        "Your weights come from cosines: you divide the vectors by their length before comparing. "
        "Here the plain dot products go into the softmax.",
    ),
    Turn(
        "no-self-weight",
        "scores",
        "A word gives itself no weight: you leave the diagonal out. Every word looks at the whole "
        "sentence, itself included.",
    ),
    Turn(
        "future-hidden",
        "scores",
        "Words do not see what comes after them. There is no mask in this block: every word looks at "
        "the whole sentence.",
    ),
    Turn(
        "future-zeroed",
        ALONE,
        "The scores of later words are set to zero, so some of them are hidden and yet get weight. "
        "There is no mask in this block: every word looks at the whole sentence.",
    ),
    Turn(
        "sign-flipped",
        ALONE,
        "Your scores have a minus in front: words that are unlike each other get the most weight."
        " A large dot product means that two words are alike: look at the signs.",
    ),
    Turn(
        "distance",
        ALONE,
        "Your weights come from distances. Here they come from dot products, as in the block of the "
        "scores.",
    ),
    Turn(
        "batch-mixed-weights",
        "scores",
        "The weights come from a mixture of the whole batch. Each sentence has its own scores and "
        "its own weights.",
    ),
    Turn(
        "weights-transposed",
        "sum",
        "The weighted sum runs over the wrong axis of the weights: word i is built with column i, "
        "the weights that others gave it. Row i of the weights belongs to word i.",
    ),
    Turn(
        "weights-times-scores",
        "sum",
        "You multiply the weights with the scores. The context is a sum of word vectors, so the "
        "weights must meet x; the scores have done their work.",
    ),
    Turn(
        "scores-times-words",
        "sum",
        "The weights you return are right, but the context is made with the raw scores. Use the "
        "weights for the sum.",
    ),
    Turn(
        "word-added",
        "sum",
        "The word itself is added on top of the weighted sum. That residual path comes in week 5; "
        "the context is the weighted sum alone.",
    ),
    Turn(
        "same-context-for-all",
        ALONE,
        _ONE_CONTEXT,
    ),
    Turn("contexts-averaged", ALONE, _ONE_CONTEXT),
    Turn("contexts-averaged-in-place", ALONE, _ONE_CONTEXT),
    Turn("contexts-summed", ALONE, _ONE_CONTEXT),
    Turn(
        "context-softmaxed",
        ALONE,
        "There is a softmax on the context too. It belongs to the scores only; the context is a "
        "plain weighted sum.",
    ),
    Turn(
        "context-normalised",
        ALONE,
        "You bring the context to a fixed length. It is a plain weighted sum.",
    ),
    Turn(
        "weights-applied-twice",
        ALONE,
        "The weights are applied twice: the sum is taken of what is already a sum. Once is enough.",
    ),
    Turn(
        "elementwise-product",
        ALONE,
        "You multiply weights and words entry by entry. The context is a matrix product: each word "
        "sums the vectors of all its neighbours.",
    ),
    Turn(
        "divided-by-length",
        ALONE,
        "You divide the weighted sum by the number of words. The weights sum to one already: that is "
        "all the averaging there is.",
    ),
    Turn(
        "normalised-words-summed",
        "sum",
        "You sum vectors of length one. The context is a weighted sum of the words as they were given.",
    ),
    Turn(
        "values-of-first-sentence",
        ALONE,
        "The weighted sum takes its words from the first sentence of the batch. Each sentence is a "
        "sum of its own words.",
    ),
    Turn(
        "words-overwritten",
        ALONE,
        "You overwrite words while later ones still need them: word 2 is built from the new word 1. "
        "All words look at the sentence as it was at the start.",
    ),
    Turn(
        "results-swapped",
        "results",
        "You return the weights first and the context second. The signature promises the context "
        "first.",
    ),
    Turn(
        "one-result",
        ALONE,
        "You return one thing where two are promised: the context and, after it, the weights."
        " Look at the last line, and at what the signature says comes back.",
    ),
    Turn(
        "only-weights",
        ALONE,
        "You return the weights alone. Two results are promised: the context first, then the weights.",
    ),
    Turn(
        "third-result",
        ALONE,
        "You return three results. Two are promised: the context and, after it, the weights.",
    ),
    Turn(
        "scores-returned",
        "results",
        "The context is right, but what you return as weights are the raw scores. The second result "
        "is what comes out of the softmax.",
    ),
    Turn(
        "transposed-weights-returned",
        "results",
        "The context is right, but the weights you return are exchanged: row i should belong to word "
        "i and sum to one."
        " Look at whether you transpose between the sum and the return.",
    ),
    Turn(
        "powers-returned",
        ALONE,
        "The context is right, but what you return as weights are the powers before they are divided "
        "by their sum: rows do not sum to one, and long vectors overflow."
        " Look at which of your intermediate results you give back.",
    ),
    Turn("squeezed", ALONE, _SQUEEZED),
    Turn("gradient-cut", "care", _NO_GRADIENT),
    Turn(
        "gradient-not-through-weights",
        ALONE,
        "The values are right, but no gradient flows through the weights: they are detached. A word "
        "changes the context through what it is and through how much it is looked at, and both count.",
    ),
    Turn(
        "gradient-not-through-values",
        ALONE,
        "The values are right, but the words that are summed are detached. A word changes the "
        "context through what it is and through how much it is looked at, and both count.",
    ),
    Turn(
        "weights-detached",
        ALONE,
        "The values are right, but the weights are cut off from their inputs, where they are used "
        "and where they are returned. A word changes the context through how much it is looked at, "
        "too.",
    ),
    Turn("through-numpy", ALONE, _NUMPY),
    Turn("always-float32", "care", _FLOAT32),
    Turn("always-float64", ALONE, _FLOAT64),
    Turn(
        "input-overwritten",
        ALONE,
        "You write the context into the tensor you were given, so the caller's words are gone after "
        "the call. Make a new tensor for the result.",
    ),
    Turn(
        "input-overwritten-word-by-word",
        ALONE,
        "You overwrite the words you were given one after the other: later words are built from the "
        "new ones, and the caller's tensor is gone. All words look at the sentence as it was at the "
        "start.",
    ),
    Turn("two-axes-only", ALONE, _TWO_AXES),
    Turn("three-axes-only", ALONE, _THREE_AXES),
    Turn("axes-counted-from-the-front", ALONE, _THREE_AXES),
    Turn("three-axes-unpacked", ALONE, _THREE_AXES),
)
def contextualize(on: On) -> Any:
    def block(x: Any) -> Any:
        if on("two-axes-only") or on("three-axes-only"):
            # The error that torch.mm and torch.bmm raise themselves.
            (torch.mm(x, x.t()) if on("two-axes-only") else torch.bmm(x, x.permute(0, 2, 1)))
        if on("axes-counted-from-the-front"):
            x @ x.transpose(1, 2)
        if on("three-axes-unpacked"):
            _, _, _ = x.shape
        given = x
        x = torch.from_numpy(x.numpy()) if on("through-numpy") else x
        scores = compare(F.softmax(x, dim=-1) if on("softmax-of-the-vectors") else x)
        weights = weigh(scores)
        values = x.detach() if on("gradient-not-through-values") else x
        weights = weights.detach() if on("weights-detached") else weights
        used = weights.detach() if on("gradient-not-through-weights") else weights
        context = combine(used, scores, values)
        weights = scores if on("scores-returned") else weights
        weights = weights.mT if on("transposed-weights-returned") else weights
        weights = scores.exp() if on("powers-returned") else weights
        if on("squeezed"):
            context, weights = context.squeeze(), weights.squeeze()
        if on("gradient-cut"):
            context, weights = context.detach(), weights.detach()
        if on("always-float32"):
            context, weights = context.float(), weights.float()
        if on("input-overwritten") or on("input-overwritten-word-by-word"):
            context = given.copy_(context)
        if on("always-float64"):
            context, weights = context.double(), weights.double()
        if on("third-result"):
            return context, weights, scores
        if on("one-result") or on("only-weights"):
            return context if on("one-result") else weights
        return (weights, context) if on("results-swapped") else (context, weights)

    def compare(x: Any) -> Any:
        if on("normalised-vectors"):
            x = F.normalize(x, dim=-1)
        scores = x @ x.mT
        if on("batch-mixed-weights") and x.ndim > 2:
            mean = x.flatten(0, -3).mean(dim=0)
            scores = (mean @ mean.mT).expand_as(scores)
        scores = scores / (x.shape[-1] ** 0.5 if on("scaled-by-root") else 1)
        scores = scores / (x.shape[-1] if on("scaled-by-width") else 1)
        scores = -scores if on("sign-flipped") else scores
        scores = -torch.cdist(x, x) if on("distance") else scores
        scores = scores.tril() if on("future-zeroed") else scores
        places = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device)
        if on("no-self-weight"):
            scores = scores.masked_fill(places.diagonal().diag(), -torch.inf)
        if on("future-hidden"):
            scores = scores.masked_fill(~places.tril(), -torch.inf)
        return scores

    def weigh(scores: Any) -> Any:
        if on("log-softmax"):
            return scores.log_softmax(dim=-1)
        if on("no-self-weight-afterwards"):
            return scores.softmax(dim=-1) * (1 - torch.eye(scores.shape[-1], device=scores.device))
        if on("weights-averaged-over-batch") and scores.ndim > 2:
            return scores.softmax(dim=-1).mean(dim=0, keepdim=True).expand_as(scores)
        if on("softmax-over-words-that-ask"):
            return scores.softmax(dim=-2)
        if on("softmax-over-second-axis"):
            return scores.softmax(dim=1)
        if on("softmax-over-first-axis"):
            return scores.softmax(dim=0)
        if on("softmax-over-everything"):
            return scores.flatten(-2).softmax(dim=-1).reshape(scores.shape)
        if on("no-softmax") or on("softmax-of-the-vectors"):
            return scores
        if on("no-exponential"):
            return scores / scores.sum(dim=-1, keepdim=True)
        if on("softmax-twice"):
            return scores.softmax(dim=-1).softmax(dim=-1)
        if on("unstable-softmax"):
            return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
        if on("global-maximum"):
            raised = (scores - scores.max()).exp()
            return raised / raised.sum(dim=-1, keepdim=True)
        if on("sigmoid"):
            return scores.sigmoid()
        if on("hard-choice"):
            return F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores.dtype)
        return scores.softmax(dim=-1)

    def combine(weights: Any, scores: Any, x: Any) -> Any:
        if on("weights-transposed"):
            return weights.mT @ x
        if on("weights-times-scores"):
            return weights @ scores
        if on("scores-times-words"):
            return scores @ x
        if on("values-of-first-sentence") and x.ndim > 2:
            return weights @ x.flatten(0, -3)[0]
        if on("normalised-words-summed"):
            return weights @ F.normalize(x, dim=-1)
        if on("elementwise-product"):
            return weights * x
        if on("words-overwritten") or on("input-overwritten-word-by-word"):
            words = list(x.unbind(dim=-2))
            for i in range(len(words)):
                words[i] = (weights[..., i, :, None] * torch.stack(words, dim=-2)).sum(dim=-2)
            return torch.stack(words, dim=-2)
        context = weights @ x
        if on("word-added"):
            context = context + x
        if on("same-context-for-all"):
            context = context.mean(dim=-2, keepdim=True).expand_as(x)
        if on("contexts-averaged") or on("contexts-averaged-in-place"):
            context = context.mean(dim=-2, keepdim=on("contexts-averaged-in-place"))
        if on("contexts-summed"):
            context = context.sum(dim=-2)
        if on("context-normalised"):
            context = F.normalize(context, dim=-1)
        if on("weights-applied-twice"):
            context = weights @ context
        if on("context-softmaxed"):
            context = context.softmax(dim=-1)
        return context / x.shape[-2] if on("divided-by-length") else context

    return block


@right("2.3")
def context_by_einsum(x: Any) -> Any:
    weights = torch.einsum("...id,...jd->...ij", x, x).softmax(-1)
    return torch.einsum("...ij,...jd->...id", weights, x), weights


@right("2.3")
def context_by_loop(x: Any) -> Any:
    rows = [torch.softmax((x * x[..., i : i + 1, :]).sum(-1), -1) for i in range(x.shape[-2])]
    context = [(row.unsqueeze(-1) * x).sum(-2) for row in rows]
    return torch.stack(context, -2), torch.stack(rows, -2)


@right("2.3")
def context_in_double(x: Any) -> list[Any]:
    wide = x.double()
    scores = wide @ wide.transpose(-2, -1)
    raised = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = raised / raised.sum(-1, keepdim=True)
    return [(weights @ wide).to(x), weights.to(x)]


@right("2.3")
def context_built_in(x: Any) -> Any:
    def attend(values: Any) -> Any:
        return F.scaled_dot_product_attention(x, x, values, scale=1.0)

    words = torch.eye(x.shape[-2], dtype=x.dtype, device=x.device)
    return attend(x), attend(words.expand(*x.shape[:-2], -1, -1))


@space(
    "2.4",
    Turn(
        "query-and-key-swapped",
        "which",
        "Query and key have changed places. The first result belongs to w_q, the second to w_k.",
    ),
    Turn(
        "key-and-value-swapped",
        "which",
        "Key and value have changed places. The second result belongs to w_k, the third to w_v.",
    ),
    Turn(
        "query-and-value-swapped",
        "which",
        "Query and value have changed places. The order is query, key, value, as in the name.",
    ),
    Turn(
        "order-shifted",
        "which",
        "The three results are shifted by one place. The order is query, key, value, as in the name.",
    ),
    Turn(
        "order-shifted-back",
        ALONE,
        "The three results are shifted by one place. The order is query, key, value, as in the name.",
    ),
    Turn(
        "query-weight-for-key",
        "which",
        "The key is made with the query's matrix, so both are the same view. Each view has its own "
        "matrix.",
    ),
    Turn(
        "key-weight-for-query",
        "which",
        "The query is made with the key's matrix, so both are the same view. Each view has its own "
        "matrix.",
    ),
    Turn(
        "query-weight-for-value",
        "which",
        "The value is made with the query's matrix. Each view has its own matrix, and the value may "
        "even have another width.",
    ),
    Turn(
        "key-weight-for-value",
        "which",
        "The value is made with the key's matrix. Each view has its own matrix, and the value may "
        "even have another width.",
    ),
    Turn(
        "value-weight-for-key",
        ALONE,
        "The key is made with the value's matrix. Each view has its own matrix, and the value may "
        "even have another width.",
    ),
    Turn(
        "value-weight-for-query",
        ALONE,
        "The query is made with the value's matrix. Each view has its own matrix, and the value may "
        "even have another width.",
    ),
    Turn(
        "one-weight-for-all",
        "which",
        "All three views are made with the query's matrix. Three learned views need three matrices.",
    ),
    Turn(
        "value-is-the-word",
        "which",
        "The value is the word itself. It too is a learned view: the third matrix is not used.",
    ),
    Turn(
        "key-is-the-word",
        ALONE,
        "The key is the word itself. It too is a learned view: the second matrix is not used.",
    ),
    Turn(
        "words-returned",
        ALONE,
        "You return the words as they came, three times. Each view is the words times a matrix of "
        "its own.",
    ),
    Turn(
        "weights-transposed",
        "product",
        "You multiply with the transposed weights, as nn.Linear does with its own. Plain matrices "
        "here have the shape (in, out) and multiply from the right as they are.",
    ),
    Turn(
        "weights-from-the-left",
        "product",
        "The matrix stands on the left of x. Words are rows here, so the weights multiply from the "
        "right.",
    ),
    Turn(
        "one-view-of-another",
        "product",
        "You project the query again to get the key, and the key to get the value. All three views "
        "start from the same x.",
    ),
    Turn(
        "elementwise-product",
        ALONE,
        "You multiply entry by entry. A view is a matrix product: every new column is a weighted sum "
        "of all old ones.",
    ),
    Turn(
        "not-summed",
        ALONE,
        "You multiply words and weights, but leave the products side by side: there is an axis too "
        "many. Every new column is a sum over all old ones.",
    ),
    Turn("two-axes-only", ALONE, _TWO_AXES),
    Turn("three-axes-only", ALONE, _THREE_AXES),
    Turn("three-axes-unpacked", ALONE, _THREE_AXES),
    Turn(
        "product-always-fails",
        ALONE,
        "Your product fails whatever it is given. A common reason is torch.bmm, which wants a batch "
        "on both sides: x may have one, the weights have none.",
    ),
    Turn(
        "contiguous-only",
        ALONE,
        "You use view on x, which fails when x is a transposed tensor, because its numbers do not "
        "lie in order. The product needs no reshaping at all, and reshape can copy where view cannot.",
    ),
    Turn(
        "batch-averaged",
        ALONE,
        "You average over the sentences of the batch before projecting, so they all get the same "
        "views. Each word of each sentence has its own.",
    ),
    Turn(
        "words-averaged",
        ALONE,
        "You average over the words of the sentence before projecting. Every word has a query, a key "
        "and a value of its own.",
    ),
    Turn(
        "batch-flattened",
        ALONE,
        "You flatten batch and words into one axis and leave it so. The views keep all leading axes "
        "of x.",
    ),
    Turn(
        "own-linear-layers",
        ALONE,
        "You make new layers with random numbers of their own and ignore the weights you were given. "
        "The learned matrices come in as arguments.",
    ),
    Turn(
        "own-linear-layers-without-bias",
        ALONE,
        "You make new layers with random numbers of their own and ignore the weights you were given. "
        "The learned matrices come in as arguments.",
    ),
    Turn(
        "query-scaled",
        "extra",
        "You divide the query by the root of its width. The scaling belongs to the scores of week 3; "
        "here the views are plain products.",
    ),
    Turn(
        "query-and-key-scaled",
        ALONE,
        "You divide query and key by the root of their width. The scaling belongs to the scores of "
        "week 3; here the views are plain products.",
    ),
    Turn(
        "all-scaled",
        "extra",
        "You divide the views by a root of the width. Scaling belongs to the scores of week 3; here "
        "the views are plain products.",
    ),
    Turn(
        "words-scaled",
        ALONE,
        "You divide by the root of d_model. Scaling belongs to the scores of week 3, and by another "
        "width; here the views are plain products.",
    ),
    Turn(
        "relu-added",
        "extra",
        "Negative numbers have become zero: there is an activation after the product. The views are "
        "linear.",
    ),
    Turn(
        "tanh-added",
        ALONE,
        "Your results are squashed between -1 and 1: there is an activation after the product. The "
        "views are linear.",
    ),
    Turn(
        "softmax-added",
        ALONE,
        "Your views sum to one: there is a softmax in it. The softmax belongs to the scores; the "
        "views are linear.",
    ),
    Turn(
        "views-normalised",
        ALONE,
        "You bring the views to length one. They are plain products: their length carries meaning.",
    ),
    Turn(
        "words-normalised",
        ALONE,
        "You normalise the words before the product. The views are plain products of the words as "
        "they are.",
    ),
    Turn(
        "word-added",
        "extra",
        "You add the word to its view. That only fits when the widths agree, and the view is the "
        "product alone.",
    ),
    Turn(
        "views-transposed",
        ALONE,
        "The last two axes of your views are exchanged. Each word keeps its row; the transpose comes "
        "later, when scores are made.",
    ),
    Turn(
        "key-transposed",
        ALONE,
        "The last two axes of the key are exchanged. Each word keeps its row; the transpose comes "
        "later, when scores are made.",
    ),
    Turn("squeezed", ALONE, _SQUEEZED),
    Turn(
        "one-tensor",
        ALONE,
        "You return one tensor with everything in it, or too few results. Three are promised, "
        "because the value may have another width than the query and the key.",
    ),
    Turn(
        "cut-in-equal-parts",
        ALONE,
        "You make one wide product and cut it into three equal parts. The value may have another "
        "width than query and key: cut where the matrices meet.",
    ),
    Turn(
        "stacked",
        ALONE,
        "You stack the three views into one tensor. That fails as soon as the value has another "
        "width, and three results are promised.",
    ),
    Turn(
        "value-missing",
        ALONE,
        "You return two results. Three are promised: query, key and value.",
    ),
    Turn(
        "named-results",
        ALONE,
        "You return a dictionary. Three results are promised, as a tuple: query, key, value.",
    ),
    Turn("gradient-cut", "care", _NO_GRADIENT),
    Turn(
        "gradient-not-to-weights",
        ALONE,
        "The values are right, but the weights are detached: no gradient reaches them, so the three "
        "views could never be learned."
        " Look for what takes the weights out of the graph.",
    ),
    Turn(
        "gradient-not-to-value-weight",
        ALONE,
        "The values are right, but w_v is detached: no gradient reaches it. Gradients must reach all "
        "four arguments.",
    ),
    Turn(
        "gradient-not-to-words",
        ALONE,
        "The values are right, but x is detached: the weights would learn, and nothing before them. "
        "Gradients must reach all four arguments.",
    ),
    Turn("through-numpy", ALONE, _NUMPY),
    Turn("always-float32", "care", _FLOAT32),
    Turn("always-float64", ALONE, _FLOAT64),
)
def project_qkv(on: On) -> Any:
    orders = {
        "query-and-key-swapped": (1, 0, 2),
        "key-and-value-swapped": (0, 2, 1),
        "query-and-value-swapped": (2, 1, 0),
        "order-shifted": (1, 2, 0),
        "order-shifted-back": (2, 0, 1),
        "query-weight-for-key": (0, 0, 2),
        "key-weight-for-query": (1, 1, 2),
        "query-weight-for-value": (0, 1, 0),
        "key-weight-for-value": (0, 1, 1),
        "value-weight-for-key": (0, 2, 2),
        "value-weight-for-query": (2, 1, 2),
        "one-weight-for-all": (0, 0, 0),
    }

    def block(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
        weights: tuple[Any, ...] = (w_q, w_k, w_v)
        for name, order in orders.items():
            if on(name):
                weights = tuple(weights[i] for i in order)
        if on("through-numpy"):
            x = torch.from_numpy(x.numpy())
            weights = tuple(torch.from_numpy(w.numpy()) for w in weights)
        if on("gradient-not-to-weights"):
            weights = tuple(w.detach() for w in weights)
        if on("gradient-not-to-value-weight"):
            weights = (*weights[:2], weights[2].detach())
        x = x.detach() if on("gradient-not-to-words") else x
        x = F.layer_norm(x, x.shape[-1:]) if on("words-normalised") else x
        x = x.mean(dim=-2, keepdim=True) if on("words-averaged") else x
        views = [finish(product(x, w), x) for w in weights]
        if on("one-view-of-another"):
            q = product(x, weights[0])
            k = product(q, weights[1])
            views = [finish(view, x) for view in (q, k, product(k, weights[2]))]
        if on("value-is-the-word"):
            views[2] = x
        if on("key-is-the-word"):
            views[1] = x
        if on("words-returned"):
            views = [x, x, x]
        if on("query-scaled") or on("query-and-key-scaled"):
            views[0] = views[0] / w_q.shape[-1] ** 0.5
        if on("query-and-key-scaled"):
            views[1] = views[1] / w_k.shape[-1] ** 0.5
        if on("gradient-cut"):
            views = [view.detach() for view in views]
        if on("always-float64"):
            views = [view.double() for view in views]
        if on("always-float32"):
            views = [view.float() for view in views]
        if on("cut-in-equal-parts"):
            return torch.cat(views, dim=-1).chunk(3, dim=-1)
        if on("stacked"):
            return torch.stack(views)
        if on("named-results"):
            return dict(zip(("q", "k", "v"), views, strict=True))
        if on("key-transposed"):
            views[1] = views[1].mT
        if on("value-missing"):
            views.pop()
        return torch.cat(views, dim=-1) if on("one-tensor") else tuple(views)

    def product(x: Any, w: Any) -> Any:
        if on("weights-transposed"):
            return x @ w.mT
        if on("weights-from-the-left"):
            return w @ x
        if on("elementwise-product"):
            return x * w
        if on("not-summed"):
            return x.unsqueeze(-1) * w
        if on("product-always-fails"):
            return torch.bmm(x, w)
        if on("two-axes-only"):
            return torch.mm(x, w)
        if on("three-axes-only"):
            return torch.bmm(x, w.expand(len(x), -1, -1))
        if on("contiguous-only"):
            return (x.view(-1, x.shape[-1]) @ w).view(*x.shape[:-1], -1)
        if on("batch-averaged") and x.ndim > 2:
            return (x.mean(dim=0, keepdim=True) @ w).expand(*x.shape[:-1], -1)
        if on("own-linear-layers"):
            return nn.Linear(*w.shape)(x)
        if on("own-linear-layers-without-bias"):
            return nn.Linear(w.shape[0], w.shape[1], bias=False)(x)
        if on("batch-flattened"):
            return x.reshape(-1, x.shape[-1]) @ w
        if on("three-axes-unpacked"):
            _, _, _ = x.shape
        return x @ w

    def finish(view: Any, x: Any) -> Any:
        if on("all-scaled"):
            return view / view.shape[-1] ** 0.5
        if on("words-scaled"):
            return view / x.shape[-1] ** 0.5
        if on("relu-added"):
            return view.relu()
        if on("tanh-added"):
            return view.tanh()
        if on("softmax-added"):
            return view.softmax(dim=-1)
        if on("views-normalised"):
            return F.normalize(view, dim=-1)
        if on("word-added"):
            return view + x
        if on("views-transposed"):
            return view.mT
        return view.squeeze() if on("squeezed") else view

    return block


@right("2.4")
def views_by_einsum(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    return [torch.einsum("...i,io->...o", x, w) for w in (w_q, w_k, w_v)]


@right("2.4")
def views_of_one_product(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    everything = x @ torch.cat([w_q, w_k, w_v], dim=1)
    return everything.split([w_q.shape[1], w_k.shape[1], w_v.shape[1]], dim=-1)


@right("2.4")
def views_by_linear(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    return F.linear(x, w_q.T), F.linear(x, w_k.T), F.linear(x, w_v.T)


@right("2.4")
def views_in_double(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    rows = x.double().reshape(-1, x.shape[-1])
    q, k, v = ((rows @ w.double()).to(x).reshape(*x.shape[:-1], -1) for w in (w_q, w_k, w_v))
    return q, k, v


_EVERYTHING = (
    "nothing-returned",
    "as-an-array",
    "in-a-tuple",
    "as-a-list",
    "in-half-precision",
    "axis-in-front",
    "only-the-first",
    "all-axes-flattened",
    "one-number",
    "all-zero",
)

slips("2.1", *_EVERYTHING, changed=("x",))


@wrong("2.1", "all-axes-reversed", _TWO_AXES)
def all_axes_reversed(x: Any) -> Any:
    return x @ x.permute(*reversed(range(x.ndim)))


@wrong("2.1", "first-two-axes-exchanged", _TWO_AXES)
def first_two_axes_exchanged(x: Any) -> Any:
    return x @ x.transpose(0, 1)


@wrong("2.1", "two-axes-named", _TWO_AXES)
def two_axes_named(x: Any) -> Any:
    return torch.einsum("id,jd->ij", x, x)


@wrong("2.1", "three-axes-named", _THREE_AXES)
def three_axes_named(x: Any) -> Any:
    return torch.einsum("bid,bjd->bij", x, x)


@wrong(
    "2.1",
    "poured-into-another-shape",
    "You reshape x where its axes should be exchanged. Reshaping pours the numbers into other rows, in "
    "their old order: it does not turn rows into columns.",
)
def poured_into_another_shape(x: Any) -> Any:
    return x @ x.reshape(*x.shape[:-2], x.shape[-1], x.shape[-2])


@wrong(
    "2.1",
    "negative-distance",
    "Your scores are distances with a minus in front. Near words then get the largest scores, but the "
    "length of a word no longer counts: the score is the plain dot product.",
)
def negative_distance(x: Any) -> Any:
    return -torch.cdist(x, x)


@wrong("2.1", "cosine-with-itself", _ONLY_ITSELF)
def cosine_with_itself(x: Any) -> Any:
    return F.cosine_similarity(x, x, dim=-1)


slips("2.2", *_EVERYTHING, "sign-turned")


@wrong(
    "2.2",
    "exponential-of-one-number",
    "You use the exponential of the math module, which takes a single number. Torch has one that works "
    "on a whole tensor and passes gradients on.",
)
def exponential_of_one_number(scores: Any, dim: int = -1) -> Any:
    return math.exp((scores - scores.amax(dim=dim, keepdim=True)).detach())


@wrong(
    "2.2",
    "one-added-below",
    "You add one to the sum that you divide by, so the weights sum to less than one. Softmax divides "
    "by the sum of the powers and nothing else.",
)
def one_added_below(scores: Any, dim: int = -1) -> Any:
    raised = (scores - scores.amax(dim=dim, keepdim=True)).exp()
    return raised / (1 + raised.sum(dim=dim, keepdim=True))


@wrong(
    "2.2",
    "small-number-added-below",
    "You add a small number to the sum that you divide by, and the weights no longer sum to one. After "
    "the maximum is taken off, the sum is never below one: nothing has to be added.",
)
def small_number_added_below(scores: Any, dim: int = -1) -> Any:
    raised = (scores - scores.amax(dim=dim, keepdim=True)).exp()
    return raised / (raised.sum(dim=dim, keepdim=True) + 1e-3)


@wrong(
    "2.2",
    "sigmoids-divided-by-their-sum",
    "You squash every score with a sigmoid before you divide by the sum. Softmax raises e to the "
    "scores: a sigmoid flattens the large ones, and very low ones vanish to zero over zero.",
)
def sigmoids_divided_by_their_sum(scores: Any, dim: int = -1) -> Any:
    squashed = torch.sigmoid(scores)
    return squashed / squashed.sum(dim=dim, keepdim=True)


@wrong(
    "2.2",
    "powers-overwritten",
    "You overwrite the powers in place, and autograd still needs them for the gradient of the "
    "exponential. The values are right, but training stops with an error: make a new tensor when you "
    "divide.",
)
def powers_overwritten(scores: Any, dim: int = -1) -> Any:
    raised = (scores - scores.amax(dim=dim, keepdim=True)).exp()
    raised /= raised.sum(dim=dim, keepdim=True)
    return raised


@wrong(
    "2.2",
    "always-last-but-one-axis",
    "You always work along the last axis but one, whatever dim says. Use the axis that dim names, in "
    "every step.",
)
def always_last_but_one_axis(scores: Any, dim: int = -1) -> Any:
    return scores.softmax(dim=-2)


@wrong(
    "2.2",
    "squares-instead-of-powers",
    "You square the scores instead of raising e to them. A very low score would get as much weight as "
    "a very high one.",
)
def squares_instead_of_powers(scores: Any, dim: int = -1) -> Any:
    return scores.square() / scores.square().sum(dim=dim, keepdim=True)


slips("2.3", *_EVERYTHING, "sign-turned")


@wrong("2.3", "all-axes-reversed", _TWO_AXES)
def context_all_axes_reversed(x: Any) -> Any:
    weights = (x @ x.permute(*reversed(range(x.ndim)))).softmax(dim=-1)
    return weights @ x, weights


@wrong("2.3", "first-two-axes-exchanged", _TWO_AXES)
def context_first_two_axes_exchanged(x: Any) -> Any:
    weights = (x @ x.transpose(0, 1)).softmax(dim=-1)
    return weights @ x, weights


@wrong("2.3", "three-axes-named", _THREE_AXES)
def context_three_axes_named(x: Any) -> Any:
    weights = torch.einsum("bid,bjd->bij", x, x).softmax(dim=-1)
    return weights @ x, weights


@wrong(
    "2.3",
    "equal-weights",
    "Every word gets the same weight, so all contexts are the mean of the sentence. The weights come "
    "from how similar two words are.",
)
def equal_weights(x: Any) -> Any:
    weights = (x @ x.mT * 0).softmax(dim=-1)
    return weights @ x, weights


@wrong(
    "2.3",
    "columns-compared",
    "You compare the columns of x with each other and mix columns. It is the words, the rows, that are "
    "compared and mixed: each sentence has a square of weights as wide as it has words.",
)
def columns_compared(x: Any) -> Any:
    weights = (x.mT @ x).softmax(dim=-1)
    return x @ weights, weights


@wrong(
    "2.3",
    "words-softmaxed",
    "You send the words through a softmax before summing them. Only the scores need one: the context "
    "is a weighted sum of the words as they are.",
)
def words_softmaxed(x: Any) -> Any:
    weights = (x @ x.mT).softmax(dim=-1)
    return weights @ x.softmax(dim=-1), weights


@wrong(
    "2.3",
    "words-times-weights",
    "The words stand on the left of the product with the weights, and the axes do not fit. Row i of "
    "the weights belongs to word i: the weights multiply the words from the left.",
)
def words_times_weights(x: Any) -> Any:
    weights = (x @ x.mT).softmax(dim=-1)
    return x @ weights, weights


@wrong(
    "2.3",
    "named-results",
    "You return a dictionary. Two results are promised, as a tuple: first the context, then weights.",
)
def context_named_results(x: Any) -> Any:
    weights = (x @ x.mT).softmax(dim=-1)
    return {"context": weights @ x, "weights": weights}


@wrong(
    "2.3",
    "context-transposed",
    "The last two axes of your context are exchanged. Each word keeps its row: the context has the "
    "shape of the words that came in.",
)
def context_transposed(x: Any) -> Any:
    weights = (x @ x.mT).softmax(dim=-1)
    return (weights @ x).mT, weights


@wrong(
    "2.3",
    "scored-by-cosine-and-root",
    "You divide the vectors by their length and scale the scores as well. Here the plain dot products "
    "go into the softmax.",
)
def scored_by_cosine_and_root(x: Any) -> Any:
    one = F.normalize(x, dim=-1)
    weights = (one @ one.mT / x.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ x, weights


slips(
    "2.4",
    *_EVERYTHING,
    "sign-turned",
    changed=("x", "w_q", "w_k", "w_v"),
    cut=("w_q", "w_k"),
)


@wrong(
    "2.4",
    "value-softmaxed",
    "The value goes through a softmax, query and key do not. All three are plain linear views.",
)
def value_softmaxed(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    return x @ w_q, x @ w_k, (x @ w_v).softmax(dim=-1)


@wrong(
    "2.4",
    "scores-returned",
    "You go on to compare queries with keys and return the scores. Only the three views are asked for "
    "here: query, key and value.",
)
def scores_returned(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    return (x @ w_q) @ (x @ w_k).mT, x @ w_v


@wrong(
    "2.4",
    "words-summed",
    "You sum over the words of the sentence before projecting, and their axis is gone. Every word has "
    "a query, a key and a value of its own.",
)
def words_summed(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    total = x.sum(dim=-2)
    return total @ w_q, total @ w_k, total @ w_v


@wrong(
    "2.4",
    "words-averaged-away",
    "You average over the words of the sentence before projecting, and their axis is gone. Every word "
    "has a query, a key and a value of its own.",
)
def words_averaged_away(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    mean = x.mean(dim=-2)
    return mean @ w_q, mean @ w_k, mean @ w_v


@wrong("2.4", "three-axes-named", _THREE_AXES)
def views_three_axes_named(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    q, k, v = (torch.einsum("bsi,io->bso", x, w) for w in (w_q, w_k, w_v))
    return q, k, v


@wrong(
    "2.4",
    "words-transposed",
    "You exchange words and columns of x before the product, so the axes do not fit. Words are rows "
    "and weights multiply from the right: nothing has to be turned.",
)
def words_transposed(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    return x.mT @ w_q, x.mT @ w_k, x.mT @ w_v


slips(
    "2.1",
    *ENDINGS,
    treated=("x",),
    without=(
        "absolute-at-the-end",
        "relu-at-the-end",
        "softmax-at-the-end",
        "x-normalised",
        "x-scaled-down",
    ),
)
slips(
    "2.2",
    *ENDINGS,
    without=(
        "absolute-at-the-end",
        "relu-at-the-end",
    ),
)
slips(
    "2.3",
    *ENDINGS,
    first=True,
    treated=("x",),
    without=(
        "softmax-at-the-end",
        "length-one-at-the-end",
        "one-row-for-all",
    ),
)
slips(
    "2.4",
    *ENDINGS,
    treated=("x",),
    without=(
        "relu-at-the-end",
        "tanh-at-the-end",
        "softmax-at-the-end",
        "length-one-at-the-end",
        "x-standardised",
        "x-scaled-down",
        "x-turned-around",
        "x-moved-by-one",
    ),
)


def _softmax_of(change: Any) -> Any:
    return lambda scores, dim=-1: change(scores).softmax(dim=dim)


def _context_of(change: Any) -> Any:
    def block(x: Any) -> Any:
        weights = change(x @ x.mT).softmax(dim=-1)
        return weights @ x, weights

    return block


for _name, (_told, _change) in OTHER_SCORES.items():
    wrong("2.2", _name, _told)(_softmax_of(_change))
    wrong("2.3", _name, _told)(_context_of(_change))


@wrong(
    "2.1",
    "sums-multiplied",
    "You add up each vector first and multiply the sums. A dot product multiplies column by column and "
    "adds up afterwards.",
)
def sums_multiplied(x: Any) -> Any:
    total = x.sum(dim=-1, keepdim=True)
    return total @ total.mT


@wrong(
    "2.1",
    "compared-with-the-first-word",
    "You compare every word with one word only. Every word meets every word: a square for each "
    "sentence.",
)
def compared_with_the_first_word(x: Any) -> Any:
    return x @ x[..., :1, :].mT


@wrong(
    "2.1",
    "compared-with-the-next-word",
    "Each word is compared with its neighbours, in shifted places. Column j of a row belongs to "
    "word j.",
)
def compared_with_the_next_word(x: Any) -> Any:
    return x @ x.roll(1, dims=-2).mT


@wrong(
    "2.2",
    "sum-clamped",
    "You keep the sum that you divide by inside a range, which does not keep the powers from "
    "overflowing. What may you take off a whole row without changing its softmax?",
)
def sum_clamped(scores: Any, dim: int = -1) -> Any:
    return scores.exp() / scores.exp().sum(dim=dim, keepdim=True).clamp(min=1e-9, max=1e30)


@wrong(
    "2.3",
    "word-taken-off",
    "You take the word itself off the weighted sum. The context is the weighted sum alone.",
)
def word_taken_off(x: Any) -> Any:
    weights = (x @ x.mT).softmax(dim=-1)
    return weights @ x - x, weights


@wrong(
    "2.3",
    "weights-made-symmetric",
    "You average the weights with their transpose, so rows no longer sum to one. How much a gives to b "
    "is not how much b gives to a.",
)
def weights_made_symmetric(x: Any) -> Any:
    weights = (x @ x.mT).softmax(dim=-1)
    weights = (weights + weights.mT) / 2
    return weights @ x, weights


@wrong(
    "2.3",
    "scaled-by-length",
    "You divide the scores by the root of the number of words. How similar two words are does not "
    "depend on how long the sentence is: the scores go into the softmax as they are.",
)
def context_scaled_by_length(x: Any) -> Any:
    weights = (x @ x.mT / x.shape[-2] ** 0.5).softmax(dim=-1)
    return weights @ x, weights


@wrong(
    "2.4",
    "one-added",
    "You add something to every number of the views. A view is the words times a matrix, without a "
    "bias.",
)
def one_added(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    return x @ w_q + 1, x @ w_k + 1, x @ w_v + 1


@wrong(
    "2.4",
    "weights-averaged",
    "Query and key are made with a mean of their two matrices, so both are the same view. Each view "
    "has its own matrix.",
)
def weights_averaged(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    mean = (w_q + w_k) / 2
    return x @ mean, x @ mean, x @ w_v


@wrong(
    "2.3",
    "centred-vectors-compared",
    "Your weights come from vectors that had a mean taken off. Here the plain dot products of the "
    "words as they are go into the softmax.",
)
def centred_vectors_compared(x: Any) -> Any:
    centred = x - x.mean(dim=-2, keepdim=True)
    weights = (centred @ centred.mT).softmax(dim=-1)
    return weights @ x, weights


@wrong(
    "2.3",
    "centred-columns-compared",
    "Your weights come from vectors that had their own mean taken off. Here the plain dot products of "
    "the words as they are go into the softmax.",
)
def centred_columns_compared(x: Any) -> Any:
    centred = x - x.mean(dim=-1, keepdim=True)
    weights = (centred @ centred.mT).softmax(dim=-1)
    return weights @ x, weights


@wrong(
    "2.4",
    "query-and-key-joined",
    "You return query and key joined to one tensor. Three results are promised, each on its own: "
    "query, key and value.",
)
def query_and_key_joined(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    return torch.cat([x @ w_q, x @ w_k], dim=-2), x @ w_v


@wrong("2.1", "matrices-only", _TWO_AXES)
def matrices_only(x: Any) -> Any:
    return torch.mm(x, x.mT)


@wrong("2.3", "matrices-only", _TWO_AXES)
def context_of_matrices_only(x: Any) -> Any:
    weights = torch.mm(x, x.mT).softmax(dim=-1)
    return torch.mm(weights, x), weights


@wrong(
    "2.4",
    "only-the-query",
    "You return the query only. Three results are promised: query, key and value.",
)
def only_the_query(x: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    return x @ w_q
