"""Wrong turns of week 5: norms, residual paths, the feed-forward layer and the encoder."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from lab_grader.bank import _SPACES, ALONE, On, Turn, right, space, wrong
from lab_transformer.encoder import Encoder, EncoderBlock

# What layer norm and batch norm have in common: the divisor, gain and bias, gradients, dtypes.
_OTHER_EPS = (1e-6, 1e-8, 1e-12)
_COMMON = (
    Turn(
        "unbiased-variance",
        "variance",
        "Your variance is the unbiased one, which divides by one less than the number of values. "
        "`var` and `std` do that unless told otherwise; a norm uses the biased variance, the plain "
        "mean of the squared distances.",
    ),
    Turn(
        "sum-of-squares",
        "variance",
        "You divide by the root of the summed squares. The variance is their mean: without dividing "
        "by the number of values, results shrink as there are more of them.",
    ),
    Turn(
        "mean-absolute-distance",
        ALONE,
        "You measure the spread by the mean absolute distance from the mean. The norm uses the "
        "standard deviation, which squares the distances before it averages them.",
    ),
    Turn(
        "eps-outside-root",
        "root",
        "You add eps to the standard deviation, after the root. It belongs to the variance, under the"
        " root: where all values are nearly equal the two differ a lot.",
    ),
    Turn(
        "eps-on-std-under-root",
        "root",
        "You take the root of the standard deviation plus eps, so there are two roots. Eps is added "
        "to the variance, and one root is taken of that sum.",
    ),
    Turn(
        "no-root",
        "root",
        "You divide by the variance itself. Its unit is the square of that of x; look for the root in"
        " the formula.",
    ),
    Turn(
        "squared-not-rooted",
        ALONE,
        "You divide by the square of the variance plus eps. The exponent should undo a square, not "
        "add another one.",
    ),
    Turn(
        "multiplied-by-std",
        ALONE,
        "You multiply by the standard deviation where you should divide by it, or divide by a "
        "reciprocal root. Large values become larger still.",
    ),
    Turn(
        "eps-added-to-quotient",
        ALONE,
        "You add eps to the normalised value, not to what you divide by. Eps is there to keep the "
        "divisor away from zero; check your brackets.",
    ),
    Turn(
        "no-eps",
        "eps",
        "Eps is missing. Where all values are equal the variance is zero, and dividing by its root "
        "gives NaN or infinity.",
    ),
    Turn(
        "eps-ignored",
        "eps",
        "You use 1e-5 whatever the caller asks for. The argument eps should decide; 1e-5 is only what"
        " it is when nothing is given.",
    ),
    *(
        Turn(
            f"eps-fixed-at-{eps:.0e}",
            ALONE,
            f"You use an eps of about {eps:.0e}, whatever the caller asks for and whatever the default "
            "says. The argument eps should decide.",
        )
        for eps in _OTHER_EPS
    ),
    Turn(
        "gain-ignored",
        "gain",
        "The gain is not used. After normalising, every feature is multiplied by its own gain, so "
        "that the model can undo the norm where that helps.",
    ),
    Turn(
        "one-gain-for-all",
        "gain",
        "You multiply all features by one number, the mean of the gains. Every feature has a gain of "
        "its own.",
    ),
    Turn(
        "first-gain-for-all",
        ALONE,
        "You multiply all features by the first gain. Every feature has a gain of its own.",
    ),
    Turn(
        "gain-plus-one",
        ALONE,
        "You multiply by one plus the gain. Some libraries store their gains that way; here the gain "
        "is the factor itself.",
    ),
    Turn(
        "gain-after-bias",
        ALONE,
        "You add the bias before you multiply by the gain, so the bias is scaled too. The bias is the"
        " last thing that happens.",
    ),
    Turn(
        "gain-and-bias-swapped",
        ALONE,
        "Gain and bias have changed places: you multiply by the bias and add the gain. Look at the "
        "order of the arguments.",
    ),
    Turn(
        "bias-ignored",
        "bias",
        "The bias is not added. Without it every normalised feature stays centred on zero.",
    ),
    Turn(
        "bias-subtracted",
        ALONE,
        "You subtract the bias. It is added, after the gain.",
    ),
    Turn(
        "statistics-detached",
        "gradient",
        "The values are right, but mean and variance are cut off from the gradient (detach, no_grad "
        "or .data). They depend on x too, so gradients must flow through them.",
    ),
    Turn(
        "variance-detached",
        ALONE,
        "The values are right, but no gradient flows through the divisor (detach, no_grad, .data or "
        ".item()). The variance depends on x too.",
    ),
    Turn(
        "mean-detached",
        ALONE,
        "The values are right, but no gradient flows through the mean (detach, no_grad, .data or "
        ".item()). It depends on x too.",
    ),
    Turn(
        "x-detached",
        ALONE,
        "The values are right, but x is cut off from the result: gain and bias get gradients, x gets "
        "none. Look for detach, .data, no_grad or a new tensor made from numbers.",
    ),
    Turn(
        "result-detached",
        "gradient",
        "The values are right, but the result has no gradient at all. Look for detach, .data, "
        "no_grad, numpy, or a new tensor made from numbers.",
    ),
    Turn(
        "float32-result",
        ALONE,
        "Your result is always float32. A block keeps the dtype of its input: nothing in it should "
        "name a dtype.",
    ),
    Turn(
        "float32-inside",
        ALONE,
        "You compute in float32 and turn the result back, which throws away half of the digits of "
        "float64 inputs. Work in the dtype that x comes in.",
    ),
    Turn(
        "x-changed-in-place",
        "in place",
        "You change x itself (-=, sub_ or an assignment to x[...]). The caller still needs it: make a"
        " new tensor.",
    ),
    Turn(
        "eps-squared",
        ALONE,
        "You add the square of eps. It is added to the variance as it is: it is already small.",
    ),
    Turn(
        "eps-as-a-floor",
        ALONE,
        "You use eps as the smallest variance allowed. It is added to the variance, always, not only "
        "where the variance is small.",
    ),
    Turn(
        "gains-summed",
        ALONE,
        "You multiply all features by the sum of the gains. Every feature has a gain of its own.",
    ),
    Turn(
        "gain-times-sum",
        ALONE,
        "You multiply by the sum of gain and bias. The gain multiplies, then the bias is added.",
    ),
    Turn(
        "gain-and-bias-detached",
        ALONE,
        "The values are right, but gain and bias get no gradient. They are what the model learns: use"
        " them as they came, not a copy of their numbers.",
    ),
    Turn(
        "squared-after-averaging",
        ALONE,
        "You average the distances from the mean and square then: that average is always zero. Square"
        " each distance first.",
    ),
    Turn(
        "brackets-missing",
        ALONE,
        "You divide the mean alone, and subtract that from x. Division comes before subtraction in "
        "Python too: the difference needs brackets.",
    ),
    Turn(
        "first-gain-and-bias-for-all",
        ALONE,
        "You use the first gain and the first bias for all features. Every feature has its own.",
    ),
    Turn(
        "mean-gain-and-bias-for-all",
        ALONE,
        "You use the mean of the gains and of the biases for all features. Every feature has its own.",
    ),
    Turn(
        "mean-subtracted-after-dividing",
        ALONE,
        "You divide x and subtract the mean then, which was never divided. The mean comes off first, "
        "and the difference is what is divided.",
    ),
    Turn(
        "not-divided",
        ALONE,
        "You subtract the mean, but nothing is divided. After centring, the spread is brought to one "
        "by dividing.",
    ),
    Turn(
        "gain-before-norm",
        ALONE,
        "You multiply x by the gain first and normalise then. The gain comes after the norm: before it,"
        " it changes mean and variance too.",
    ),
    Turn(
        "eps-added-to-numerator",
        ALONE,
        "You add eps to what is divided as well. It is there to keep the divisor away from zero, and "
        "belongs there alone.",
    ),
    Turn(
        "eps-in-both-places",
        ALONE,
        "You add eps twice, under the root and after it. Once is enough: to the variance, under the "
        "root.",
    ),
    Turn(
        "eps-subtracted",
        ALONE,
        "You subtract eps from the variance. It is added: it should keep the divisor away from zero.",
    ),
    Turn(
        "normalised-twice",
        ALONE,
        "You normalise, scale and shift, and do all of it a second time. Once is enough: gain and bias "
        "would be applied two times.",
    ),
    Turn(
        "residual-added",
        ALONE,
        "You add x to the result. The residual path is not part of a norm: pre_norm and post_norm bring"
        " it.",
    ),
    Turn(
        "divided-by-root-of-width",
        ALONE,
        "You divide by the root of the number of features. That belongs to attention scores: a norm "
        "divides by the spread of the numbers themselves.",
    ),
    Turn(
        "divided-by-gain",
        ALONE,
        "You divide by the gain. Every normalised feature is multiplied by it.",
    ),
    Turn(
        "divided-by-the-largest",
        ALONE,
        "You divide by the largest distance from the mean. A norm divides by the standard deviation, to"
        " which all distances contribute.",
    ),
    Turn(
        "squashed",
        ALONE,
        "You end with a tanh or something like it. A norm ends with gain and bias: large numbers may "
        "stay large.",
    ),
    Turn(
        "statistics-returned-too",
        ALONE,
        "You return mean and variance beside the result. Only the normalised numbers are asked for.",
    ),
)


def _float32(on: On, *tensors: Any) -> Any:
    return (t.float() for t in tensors) if on("float32-result") or on("float32-inside") else tensors


def _spread(on: On, squares: Any, variance: Any, count: Any, axes: Any) -> Any:
    """Change a variance by the wrong turns about it; the squares hold zero where nothing counts."""
    if on("unbiased-variance"):
        return variance * count / (count - 1)
    if on("sum-of-squares"):
        return variance * count
    if on("squared-after-averaging"):
        return 0.0 * variance
    if on("mean-absolute-distance"):
        return (squares.sqrt().sum(dim=axes, keepdim=True) / count).square()
    return variance


def _finish(on: On, x: Any, centred: Any, variance: Any, gain: Any, bias: Any, eps: float) -> Any:
    """Divide, scale and shift."""
    if on("eps-ignored"):
        eps = 1e-5
    eps = next((other for other in _OTHER_EPS if on(f"eps-fixed-at-{other:.0e}")), eps)
    if on("no-eps"):
        eps = 0.0
    if on("statistics-detached") or on("variance-detached"):
        variance = variance.detach()
    divisor = (variance + eps).sqrt()
    if on("eps-in-both-places"):
        divisor = divisor + eps
    if on("eps-subtracted"):
        divisor = (variance - eps).sqrt()
    if on("not-divided"):
        divisor = 1.0
    if on("divided-by-root-of-width"):
        divisor = x.shape[-1] ** 0.5
    if on("divided-by-the-largest"):
        divisor = centred.abs().amax(dim=-1, keepdim=True) + eps
    if on("divided-by-gain"):
        gain = 1 / gain
    if on("eps-squared"):
        divisor = (variance + eps**2).sqrt()
    if on("eps-as-a-floor"):
        divisor = variance.clamp(min=eps).sqrt()
    if on("eps-outside-root"):
        divisor = variance.sqrt() + eps
    if on("eps-on-std-under-root"):
        divisor = (variance.sqrt() + eps).sqrt()
    if on("no-root"):
        divisor = variance + eps
    if on("squared-not-rooted"):
        divisor = (variance + eps) ** 2
    if on("multiplied-by-std"):
        divisor = 1 / divisor
    result = (centred + eps if on("eps-added-to-numerator") else centred) / divisor
    if on("mean-subtracted-after-dividing"):
        result = x / divisor - (x - centred)
    if on("brackets-missing"):
        return x - (x - centred) / divisor * gain + bias
    if on("eps-added-to-quotient"):
        result = centred / variance.sqrt() + eps
    if on("gain-and-bias-swapped"):
        gain, bias = bias, gain
    if on("gain-and-bias-detached"):
        gain, bias = gain.detach(), bias.detach()
    if on("first-gain-and-bias-for-all"):
        gain, bias = gain[0], bias[0]
    if on("mean-gain-and-bias-for-all"):
        gain, bias = gain.mean(), bias.mean()
    if on("gains-summed"):
        gain = gain.sum()
    if on("gain-times-sum"):
        gain, bias = gain + bias, 0.0
    if on("one-gain-for-all"):
        gain = gain.mean()
    if on("first-gain-for-all"):
        gain = gain[0]
    if on("gain-plus-one"):
        gain = 1 + gain
    if on("gain-ignored"):
        gain = 1.0
    if on("bias-subtracted"):
        bias = -bias
    if on("bias-ignored"):
        bias = 0.0
    result = (result + bias) * gain if on("gain-after-bias") else result * gain + bias
    result = result + x if on("residual-added") else result
    result = torch.tanh(result) if on("squashed") else result
    if on("statistics-returned-too"):
        return result, x - centred, variance
    return result.detach() if on("result-detached") else result


@space(
    "5.1",
    *_COMMON,
    Turn(
        "over-the-words",
        "axes",
        "You take mean and variance over the words of a sentence. Layer norm looks at one word at a "
        "time, over its features: the last axis.",
    ),
    Turn(
        "over-the-batch",
        "axes",
        "You take mean and variance over the first axis. For a batch that mixes sentences; layer norm"
        " looks at one word at a time, over its features, the last axis.",
    ),
    Turn(
        "over-words-and-features",
        ALONE,
        "You take one mean and one variance for a whole sentence. Layer norm has one of each for "
        "every word: only the last axis is averaged.",
    ),
    Turn(
        "over-everything",
        "axes",
        "You take one mean and one variance over all numbers of x. Then a word's result depends on "
        "every other word; average over the features only, and keep that axis so that it broadcasts.",
    ),
    Turn(
        "like-batch-norm",
        "axes",
        "You take mean and variance of every feature over all words: that is batch norm. Layer norm "
        "averages over the features of one word.",
    ),
    Turn(
        "second-axis",
        ALONE,
        "You name axis 1, which is the last axis only when there is no batch. Count from the end, so "
        "that the same code works for any number of axes.",
    ),
    Turn(
        "third-axis",
        ALONE,
        "You name axis 2, which exists only when x has a batch and a sequence axis. Count from the "
        "end, so that the same code works for any number of axes.",
    ),
    Turn(
        "averaged-axis-lost",
        ALONE,
        "Mean and variance have lost their last axis, so they do not line up with x: broadcasting "
        "compares axes from the right. Keep the averaged axis with size one.",
    ),
    Turn(
        "mean-not-subtracted",
        "mean",
        "You divide by the standard deviation but do not subtract the mean first. The features should"
        " be centred on zero.",
    ),
    Turn(
        "rms-norm",
        ALONE,
        "You divide by the root of the mean square, with no mean taken off anywhere: that is RMS "
        "norm. Layer norm centres the features first and measures their spread around the mean.",
    ),
    Turn(
        "spread-around-zero",
        ALONE,
        "You subtract the mean from x, but your variance is the mean square of the raw x. Variance is"
        " the mean squared distance from the mean.",
    ),
    Turn(
        "mean-added",
        ALONE,
        "You add the mean where it should be subtracted. The features should be centred on zero.",
    ),
    Turn(
        "median-subtracted",
        ALONE,
        "You subtract the median. The features are centred on their mean.",
    ),
    Turn(
        "scaled-to-the-range",
        ALONE,
        "You scale the features to their range, from the smallest to the largest. A norm subtracts "
        "the mean and divides by the standard deviation.",
    ),
    Turn(
        "not-normalised",
        ALONE,
        "You only multiply by the gain and add the bias: nothing is normalised. First subtract the "
        "mean of each word and divide by its spread.",
    ),
    Turn(
        "gain-and-bias-before-norm",
        ALONE,
        "You apply gain and bias first and normalise then, which undoes much of them. They come last.",
    ),
    Turn(
        "loops-over-two-axes",
        ALONE,
        "Your loops take the first two axes for batch and words, whatever x has. Any number of axes "
        "may stand before the features: average over the last axis and let the others be.",
    ),
    Turn(
        "three-axes-only",
        ALONE,
        "Your code works only when x has exactly the axes batch, seq and d_model. Any number of axes "
        "may stand before the features: count axes from the end.",
    ),
    Turn(
        "math-sqrt",
        ALONE,
        "You take the root with `math.sqrt`, which knows plain numbers only: it fails as soon as "
        "there is more than one word, and cuts the gradient for a single one. Tensors have a root of "
        "their own.",
    ),
    Turn(
        "mean-over-the-words",
        ALONE,
        "Your variance is that of each word, but the mean you subtract is taken over the words. Both "
        "are taken over the features of one word: the last axis.",
    ),
    Turn(
        "variance-over-the-words",
        ALONE,
        "You subtract the mean of each word, but your variance is taken over the words. Both are taken "
        "over the features of one word: the last axis.",
    ),
    Turn(
        "wrong-count",
        ALONE,
        "You divide the sum of squares by the size of another axis. The mean is over the features: "
        "divide by how many there are.",
    ),
)
def layer_norm(on: On) -> Any:
    def norm(word: Any, gain: Any, bias: Any, eps: float) -> Any:
        return (word - word.mean()) / (word.var(correction=0) + eps).sqrt() * gain + bias

    def block(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
        dtype = x.dtype
        raw, (x, gain, bias) = x, _float32(on, x, gain, bias)
        x = x.detach() if on("x-detached") else x
        if on("three-axes-only"):
            _batch, _seq, _width = x.shape
        if on("loops-over-two-axes"):
            rows = [[norm(word, gain, bias, eps) for word in sentence] for sentence in x]
            return torch.stack([torch.stack(row) for row in rows])
        if on("not-normalised"):
            return x * gain + bias
        if on("scaled-to-the-range"):
            low, high = x.amin(dim=-1, keepdim=True), x.amax(dim=-1, keepdim=True)
            return (x - low) / (high - low + eps) * gain + bias
        if on("gain-and-bias-before-norm"):
            return F.layer_norm(x * gain + bias, x.shape[-1:], eps=eps)
        if on("gain-before-norm"):
            return F.layer_norm(x * gain, x.shape[-1:], eps=eps) + bias
        if on("normalised-twice"):
            x = F.layer_norm(x, x.shape[-1:], gain, bias, eps)
        axes: tuple[int, ...] = (-1,)
        if on("over-the-words"):
            axes = (-2,)
        if on("over-the-batch"):
            axes = (0,)
        if on("over-words-and-features"):
            axes = (-2, -1)
        if on("over-everything"):
            axes = tuple(range(x.ndim))
        if on("like-batch-norm"):
            axes = tuple(range(x.ndim - 1))
        if on("second-axis"):
            axes = (1,)
        if on("third-axis"):
            axes = (2,)
        mean = x.mean(dim=axes, keepdim=not on("averaged-axis-lost"))
        mean = mean.detach() if on("statistics-detached") or on("mean-detached") else mean
        centred = raw.sub_(mean) if on("x-changed-in-place") else x - mean
        around_zero = on("rms-norm") or on("spread-around-zero")
        squares = (x if around_zero else centred).square()
        count = x.numel() // mean.numel()
        variance = squares.mean(dim=axes, keepdim=not on("averaged-axis-lost"))
        variance = _spread(on, squares, variance, count, axes)
        if on("wrong-count"):
            variance = squares.sum(dim=axes, keepdim=True) / x.shape[1]
        if on("math-sqrt"):
            return centred / math.sqrt((variance + eps).item()) * gain + bias
        if on("mean-not-subtracted") or on("rms-norm"):
            centred = x
        if on("mean-added"):
            centred = x + mean
        if on("mean-over-the-words") and x.ndim > 1:
            centred = x - x.mean(dim=-2, keepdim=True)
        if on("variance-over-the-words") and x.ndim > 1:
            variance = x.var(dim=-2, correction=0, keepdim=True)
        if on("median-subtracted"):
            centred = x - x.median(dim=-1, keepdim=True).values
        result = _finish(on, x, centred, variance, gain, bias, eps)
        return result.to(dtype) if on("float32-inside") else result

    return block


@right("5.1")
def layer_norm_built_in(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    return F.layer_norm(x, x.shape[-1:], gain, bias, eps)


@right("5.1")
def layer_norm_with_var_mean(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return torch.addcmul(bias, (x - mean) * torch.rsqrt(variance + eps), gain)


_CANCELS = (
    "You take the square of the mean off the mean of the squares. Where the mean is large against the "
    "spread, these are two huge numbers that hardly differ, and single precision rounds the difference "
    "away: take the mean off before you square."
)


@wrong("5.1", "variance-cancels", _CANCELS)
def layer_norm_by_moments(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    mean = torch.einsum("...d->...", x)[..., None] / x.shape[-1]
    variance = x.pow(2).mean(-1, keepdim=True) - mean**2
    return gain * (x - mean) / torch.sqrt(variance + eps) + bias


@right("5.1")
def layer_norm_by_moments_in_double(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    return layer_norm_by_moments(x.double(), gain.double(), bias.double(), eps).to(x.dtype)


@right("5.1")
def layer_norm_word_by_word(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    words = []
    for word in x.reshape(-1, x.shape[-1]):
        mean = sum(word) / len(word)
        variance = sum((feature - mean) ** 2 for feature in word) / len(word)
        words.append((word - mean) / (variance + eps) ** 0.5 * gain + bias)
    return torch.stack(words).reshape(x.shape)


@right("5.1")
def layer_norm_in_double_on_a_copy(x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    wide = x.double().clone()
    wide -= wide.mean(dim=-1, keepdim=True)
    wide = wide / torch.sqrt(torch.var(wide, dim=-1, unbiased=False, keepdim=True) + eps)
    return (wide * gain + bias).to(x.dtype)


@space(
    "5.2",
    *_COMMON,
    Turn(
        "padding-counted",
        "mask",
        "The mask makes no difference to your statistics: padding is counted like words. Mean and "
        "variance should come from the positions where the mask is True.",
    ),
    Turn(
        "mask-inverted",
        "mask",
        "Your statistics come from the padding and leave out the words. The mask is True where there "
        "is a word.",
    ),
    Turn(
        "padding-counted-as-zeros",
        "mask",
        "You set padding to zero and then average over all positions. A zero is a number like any "
        "other: it pulls the mean towards zero, and the count must be that of the words.",
    ),
    Turn(
        "sums-over-words-count-over-all",
        "mask",
        "You sum over the words only but divide by the number of all positions, padding included. "
        "Divide by the number of words.",
    ),
    Turn(
        "padding-in-variance",
        ALONE,
        "Your mean leaves padding out, but your variance still counts it. Both come from the same "
        "words.",
    ),
    Turn(
        "padding-zeros-in-variance",
        ALONE,
        "Your mean leaves padding out, but in the variance the zeroed padding still counts: its "
        "distance from the mean is not zero. Mask the squared distances, not x.",
    ),
    Turn(
        "padding-in-mean",
        ALONE,
        "Your variance leaves padding out, but your mean still counts it. Both come from the same "
        "words.",
    ),
    Turn(
        "count-of-features-too",
        ALONE,
        "You divide by the number of words times the number of features. Every feature has a mean of "
        "its own, so only words are counted: look at the shape of the mask you sum.",
    ),
    Turn(
        "mask-required",
        "no mask",
        "Without a mask your function breaks. When mask is None every position is a word: the "
        "argument is optional.",
    ),
    Turn(
        "like-layer-norm",
        "axes",
        "You take mean and variance over the features of each word: that is layer norm. Batch norm "
        "has one mean and one variance for every feature, over all words of the batch.",
    ),
    Turn(
        "per-sentence",
        "axes",
        "You take mean and variance over the words of each sentence. Batch norm has one of each for "
        "every feature, over batch and positions together.",
    ),
    Turn(
        "per-position",
        "axes",
        "You take mean and variance over the batch for each position. Batch norm has one of each for "
        "every feature, over batch and positions together.",
    ),
    Turn(
        "one-mean-for-all-features",
        ALONE,
        "You take one mean and one variance over all numbers of x. Every feature should have its own:"
        " the last axis stays.",
    ),
    Turn(
        "mean-of-sentence-means",
        ALONE,
        "You average every sentence first and then the sentences. A short sentence then counts as "
        "much as a long one; every word should count the same.",
    ),
    Turn(
        "mean-not-subtracted",
        "mean",
        "You divide by the standard deviation but do not subtract the mean first. Every feature "
        "should be centred on zero.",
    ),
    Turn(
        "spread-around-zero",
        ALONE,
        "You subtract the mean from x, but your variance is the mean square of the raw x. Variance is"
        " the mean squared distance from the mean.",
    ),
    Turn(
        "padding-zeroed-in-result",
        "result",
        "You set the result to zero where there is padding. Padding is left out of the statistics "
        "only; its positions are normalised like all others.",
    ),
    Turn(
        "padding-zeroed-before",
        "result",
        "You normalise x with its padding set to zero. The zeros may help with the sums, but what is "
        "normalised in the end is x as it came.",
    ),
    Turn(
        "padding-left-raw",
        "result",
        "You leave the positions of padding as they were. They are left out of the statistics only, "
        "and normalised like all others.",
    ),
    Turn(
        "only-words-returned",
        ALONE,
        "You return the words as rows, without the padding. The result has the shape of x: use the "
        "selected words for mean and variance only.",
    ),
    Turn(
        "view-needs-contiguous",
        ALONE,
        "You flatten with view, which fails for a tensor that a transpose has left in another memory "
        "order. reshape and flatten copy when they must.",
    ),
    Turn(
        "padding-overwritten-in-place",
        ALONE,
        "You write into the padding of x itself. The caller still needs it: make a new tensor.",
    ),
    Turn(
        "none-used-as-mask",
        ALONE,
        "When mask is None you still index with it, and x[None] is not all words: it is x with one "
        "more axis. Take care of that case first.",
    ),
    Turn(
        "mask-needed-for-arithmetic",
        ALONE,
        "Without a mask your function breaks, because None is no number and has no opposite. When "
        "mask is None every position is a word: the argument is optional.",
    ),
    Turn(
        "mean-over-all-variance-over-words",
        ALONE,
        "Your variance comes from the words, but the mean you subtract counts padding too. Both come "
        "from the same words.",
    ),
    Turn(
        "mean-over-words-variance-over-all",
        ALONE,
        "The mean comes from the words, but your variance is that of all positions, padding included."
        " Both come from the same words.",
    ),
    Turn(
        "variance-sums-padding-too",
        ALONE,
        "Your mean is right, but the variance sums the squared distances of padding too and divides "
        "by the number of words. Leave padding out of that sum as well.",
    ),
    Turn(
        "variance-counts-all-positions",
        ALONE,
        "Your mean is right, but the variance divides by the number of all positions, padding "
        "included. Both are averages over the words.",
    ),
    Turn(
        "mask-asked-for-its-truth",
        ALONE,
        "You ask whether the mask is true (`if mask`, `mask or ...`). A tensor of many answers has no "
        "single one; what you want to know is whether there is a mask at all, that is, whether it is "
        "None.",
    ),
    Turn(
        "padding-made-nan",
        ALONE,
        "The values are right, but the gradients are NaN: you fill padding with NaN and skip it when "
        "you average. The gradient does not skip it. Select the words instead.",
    ),
    Turn(
        "first-sentence-only",
        ALONE,
        "Your mean and variance come from the first sentence alone. They are taken over all words of "
        "the whole batch.",
    ),
    Turn(
        "last-sentence-only",
        ALONE,
        "Your mean and variance come from the last sentence alone. They are taken over all words of "
        "the whole batch.",
    ),
    Turn(
        "first-words-only",
        ALONE,
        "Your mean and variance come from the first word of each sentence. They are taken over all "
        "words of the batch.",
    ),
    Turn(
        "mean-of-position-means",
        ALONE,
        "You average over the batch at every position first and then over the positions. A position "
        "with few words then counts as much as one with many; every word should count the same.",
    ),
    Turn(
        "shared-positions-only",
        ALONE,
        "You take statistics only from positions at which every sentence has a word. A long sentence "
        "then loses its end: every word counts, wherever it stands.",
    ),
    Turn(
        "full-sentences-only",
        ALONE,
        "You take statistics only from sentences without any padding. The words of the others count "
        "too: leave out positions, not sentences.",
    ),
    Turn(
        "sentences-with-any-word",
        ALONE,
        "You leave out sentences of nothing but padding, and count all positions of the others. "
        "Padding at the end of a sentence must go too: leave out positions, not sentences.",
    ),
    Turn(
        "padding-not-scaled",
        ALONE,
        "Gain and bias reach the words only. Padding is left out of the statistics and nothing else: "
        "its positions are scaled and shifted like all others.",
    ),
)
def batch_norm(on: On) -> Any:
    def block(x: Any, gain: Any, bias: Any, mask: Any = None, eps: float = 1e-5) -> Any:
        dtype = x.dtype
        raw, (x, gain, bias) = x, _float32(on, x, gain, bias)
        x = x.detach() if on("x-detached") else x
        if on("view-needs-contiguous"):
            x.view(-1, x.shape[-1])
        if mask is None and on("mask-required"):
            raise AttributeError("'NoneType' object has no attribute 'unsqueeze'")
        if mask is None and on("mask-needed-for-arithmetic"):
            raise TypeError("bad operand type for unary ~: 'NoneType'")
        if mask is None and on("none-used-as-mask"):
            return (x - x[mask].mean(dim=0)) / eps**0.5 * gain + bias
        real = torch.ones_like(x[..., :1]) if mask is None else mask.unsqueeze(-1).to(x.dtype)
        if on("mask-asked-for-its-truth") and mask is not None:
            bool(mask)
        if on("gain-before-norm"):
            x, gain = x * gain, torch.ones_like(gain)
        if on("normalised-twice"):
            words = x.flatten(0, 1) if mask is None else x[mask]
            spread, centre = torch.var_mean(words, dim=0, correction=0)
            x = (x - centre) / (spread + eps).sqrt() * gain + bias
        if on("padding-overwritten-in-place") and mask is not None:
            x = raw.mul_(real)
        seen, every = real, torch.ones_like(real)
        if on("padding-counted"):
            seen = every
        if on("mask-inverted") and mask is not None:
            seen = 1 - seen
        if on("first-sentence-only") or on("last-sentence-only"):
            seen = torch.zeros_like(seen)
            seen[0 if on("first-sentence-only") else -1] = real[0 if on("first-sentence-only") else -1]
        if on("first-words-only"):
            seen = torch.zeros_like(seen)
            seen[:, 0] = real[:, 0]
        if on("shared-positions-only"):
            seen = real * real.amin(dim=0, keepdim=True)
        if on("full-sentences-only"):
            seen = real * real.amin(dim=1, keepdim=True)
        if on("sentences-with-any-word"):
            seen = torch.ones_like(real) * real.amax(dim=1, keepdim=True)
        axes: tuple[int, ...] = (0, 1)
        if on("like-layer-norm"):
            axes = (2,)
        if on("per-sentence"):
            axes = (1,)
        if on("per-position"):
            axes = (0,)
        if on("one-mean-for-all-features"):
            axes = (0, 1, 2)

        def average(values: Any, chosen: Any) -> Any:
            counted = chosen
            if on("padding-counted-as-zeros") or on("sums-over-words-count-over-all"):
                counted = every
            if on("mean-of-sentence-means"):
                sums = (values * chosen).sum(dim=1, keepdim=True)
                return (sums / counted.sum(dim=1, keepdim=True)).mean(dim=0, keepdim=True)
            if on("mean-of-position-means"):
                sums = (values * chosen).sum(dim=0, keepdim=True)
                each = sums / counted.sum(dim=0, keepdim=True).clamp(min=1)
                return each.mean(dim=1, keepdim=True)
            count = counted.expand_as(values).sum(dim=axes, keepdim=True)
            if on("count-of-features-too"):
                count = count * x.shape[-1]
            return (values * chosen).sum(dim=axes, keepdim=True) / count

        mean = average(x, every if on("padding-in-mean") else seen)
        mean = mean.detach() if on("statistics-detached") or on("mean-detached") else mean
        squares = (x if on("spread-around-zero") else x - mean).square()
        chosen = seen
        if on("padding-counted-as-zeros") or on("padding-zeros-in-variance"):
            squares, chosen = (x * seen - mean).square(), every
        if on("padding-in-variance"):
            chosen = every
        variance = average(squares, chosen)
        if on("padding-zeros-in-variance"):
            variance = variance * every.sum() / seen.sum()
        variance = _spread(on, squares * chosen, variance, chosen.expand_as(x).sum(axes, True), axes)
        if on("variance-sums-padding-too"):
            variance = squares.sum(dim=axes, keepdim=True) / seen.sum()
        if on("variance-counts-all-positions"):
            variance = (squares * seen).mean(dim=axes, keepdim=True)
        if on("padding-made-nan"):
            holes = x.masked_fill(real == 0, math.nan)
            mean = holes.nanmean(dim=axes, keepdim=True)
            variance = (holes - mean).square().nanmean(dim=axes, keepdim=True)
        if on("mean-over-all-variance-over-words"):
            mean = x.mean(dim=axes, keepdim=True)
        if on("mean-over-words-variance-over-all"):
            variance = x.var(dim=axes, correction=0, keepdim=True)
        source = x * real if on("padding-zeroed-before") else x
        centred = source if on("mean-not-subtracted") else source - mean
        if on("x-changed-in-place"):
            centred = raw.sub_(mean)
        result = _finish(on, x, centred, variance, gain, bias, eps)
        if on("padding-zeroed-in-result"):
            result = result * real
        if on("padding-not-scaled"):
            result = torch.where(real.bool(), result, centred / (variance + eps).sqrt())
        if on("padding-left-raw"):
            result = torch.where(real.bool(), result, x)
        if on("only-words-returned") and mask is not None:
            result = result[mask]
        return result.to(dtype) if on("float32-inside") else result

    return block


@right("5.2")
def batch_norm_with_weights(x: Any, gain: Any, bias: Any, mask: Any = None, eps: float = 1e-5) -> Any:
    weights = torch.ones_like(x[..., 0]) if mask is None else mask.to(x.dtype)
    weights = weights / weights.sum()
    mean = torch.einsum("bs,bsd->d", weights, x)
    variance = torch.einsum("bs,bsd->d", weights, (x - mean) ** 2)
    return gain * (x - mean) * torch.rsqrt(variance + eps) + bias


@wrong("5.2", "variance-cancels", _CANCELS)
def batch_norm_by_moments(x: Any, gain: Any, bias: Any, mask: Any = None, eps: float = 1e-5) -> Any:
    mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
    words = x.masked_fill(~mask.unsqueeze(-1), 0.0)
    mean = words.sum(dim=(0, 1)) / mask.sum()
    variance = words.pow(2).sum(dim=(0, 1)) / mask.sum() - mean**2
    return (x - mean) / torch.sqrt(variance + eps) * gain + bias


@right("5.2")
def batch_norm_by_moments_in_double(
    x: Any, gain: Any, bias: Any, mask: Any = None, eps: float = 1e-5
) -> Any:
    return batch_norm_by_moments(x.double(), gain.double(), bias.double(), mask, eps).to(x.dtype)


@right("5.2")
def batch_norm_built_in(x: Any, gain: Any, bias: Any, mask: Any = None, eps: float = 1e-5) -> Any:
    words = x.reshape(-1, x.shape[-1]) if mask is None else x[mask]
    if mask is None:
        return F.batch_norm(words, None, None, gain, bias, training=True, eps=eps).reshape(x.shape)
    variance, mean = torch.var_mean(words, dim=0, correction=0)
    return (x - mean) / torch.sqrt(variance + eps) * gain + bias


@right("5.2")
def batch_norm_feature_by_feature(
    x: Any, gain: Any, bias: Any, mask: Any = None, eps: float = 1e-5
) -> Any:
    columns = []
    for feature in range(x.shape[-1]):
        column = x[:, :, feature].double()
        words = column.flatten() if mask is None else torch.masked_select(column, mask)
        spread = torch.sqrt(words.var(unbiased=False) + eps)
        columns.append((column - words.mean()) / spread * gain[feature] + bias[feature])
    return torch.stack(columns, dim=-1).to(x.dtype)


# What both ways around a residual path have in common.
_RESIDUAL = (
    Turn(
        "residual-missing",
        "path",
        "The residual path is missing: x is not added to what the sublayer gives. Without it "
        "gradients must pass every sublayer on their way back.",
    ),
    Turn(
        "residual-doubled",
        "path",
        "You add x twice. The residual path carries it once.",
    ),
    Turn(
        "residual-detached",
        ALONE,
        "The values are right, but the residual path lets no gradient through: x is detached there. "
        "That path is what carries gradients through deep stacks.",
    ),
    Turn(
        "sublayer-subtracted",
        "join",
        "You subtract where you should add: the result is x plus what the sublayer gives."
        " The residual path carries x on unchanged: look at the signs.",
    ),
    Turn(
        "multiplied-not-added",
        ALONE,
        "You multiply x by the sublayer's result. A residual path adds them.",
    ),
    Turn(
        "averaged-not-added",
        ALONE,
        "You take the mean of x and the sublayer's result. A residual path adds them, with no factor.",
    ),
    Turn(
        "concatenated-not-added",
        ALONE,
        "You put x and the sublayer's result side by side. A residual path adds them, so the width "
        "stays the same.",
    ),
    Turn(
        "own-layer-norm",
        "norm function",
        "You normalise with a layer norm of your own and ignore the function you were given. Call "
        "`norm`: it brings its own gain and bias.",
    ),
    Turn(
        "sublayer-detached",
        ALONE,
        "The values are right, but no gradient comes back through the sublayer. Look for detach, "
        ".data or no_grad around its call or around what it is given.",
    ),
    Turn(
        "result-detached",
        "gradient",
        "The values are right, but the result has no gradient at all. Look for detach, .data, no_grad"
        " or a new tensor made from numbers.",
    ),
    Turn(
        "float32-result",
        ALONE,
        "Your result is always float32. A block keeps the dtype of its input: nothing in it should "
        "name a dtype.",
    ),
    Turn(
        "x-changed-in-place",
        "in place",
        "You add into x itself (+= or add_). The caller still needs it: make a new tensor.",
    ),
    Turn(
        "dropout-added",
        ALONE,
        "You drop some of the sublayer's numbers at random. Dropout is not asked for here: the same "
        "input should give the same result.",
    ),
    Turn(
        "x-overwritten",
        ALONE,
        "You overwrite x with what the sublayer gives and then add it to itself. Keep the x that came"
        " in: it is what the residual path carries.",
    ),
    Turn(
        "sum-scaled",
        ALONE,
        "You scale the sum down. A residual path adds, with no factor.",
    ),
    Turn(
        "sublayer-scaled",
        ALONE,
        "You scale what the sublayer gives before it is added. A residual path adds, with no factor.",
    ),
    Turn(
        "activation-added",
        ALONE,
        "You set the negative numbers of what the sublayer gives to zero. The residual path adds it as "
        "it is: activations live inside sublayers.",
    ),
    Turn(
        "sublayer-of-sublayer",
        ALONE,
        "You send what the sublayer gives through the sublayer again. One residual path holds one "
        "sublayer, which runs once.",
    ),
    Turn(
        "sublayer-returned-too",
        ALONE,
        "You return what the sublayer gave beside the result. Only the result is asked for.",
    ),
)


def _join(on: On, x: Any, path: Any, given: Any) -> Any:
    """Bring the residual path and the sublayer's result together."""
    given = F.dropout(given, 0.1) if on("dropout-added") else given
    given = given.detach() if on("sublayer-detached") else given
    given = given / 2 if on("sublayer-scaled") else given
    given = torch.relu(given) if on("activation-added") else given
    if on("residual-missing"):
        return given
    if on("x-overwritten"):
        return given + given
    if on("sum-scaled"):
        return (path + given) / 2**0.5
    if on("residual-doubled"):
        path = 2 * path
    if on("residual-detached"):
        path = path.detach()
    if on("sublayer-subtracted"):
        return path - given
    if on("multiplied-not-added"):
        return path * given
    if on("averaged-not-added"):
        return (path + given) / 2
    if on("concatenated-not-added"):
        return torch.cat([path, given], dim=-1)
    return x.add_(given) if on("x-changed-in-place") else path + given


def _leave(on: On, result: Any) -> Any:
    result = result.detach() if on("result-detached") else result
    return result.float() if on("float32-result") else result


def _unit(y: Any) -> Any:
    return F.layer_norm(y, y.shape[-1:])


@space(
    "5.3",
    *_RESIDUAL,
    Turn(
        "pre-norm-instead",
        "order",
        "This is pre-norm: you normalise what the sublayer sees and add its result to the raw x. "
        "Post-norm adds first and normalises the sum.",
    ),
    Turn(
        "norm-missing",
        "norm",
        "You add, but nothing is normalised. Post-norm ends with the norm of the sum.",
    ),
    Turn(
        "only-sublayer-normalised",
        "norm",
        "You normalise what the sublayer gives and then add x. The norm comes after the addition, so "
        "that it sees the sum.",
    ),
    Turn(
        "residual-around-norm",
        ALONE,
        "You add x once more after the norm. In post-norm the norm is the last thing that happens.",
    ),
    Turn(
        "norm-twice",
        ALONE,
        "You normalise the sum twice. Once is enough: gain and bias would be applied two times.",
    ),
    Turn(
        "residual-normalised",
        "input",
        "You add the normalised x, and the norm of the sum comes on top or is missing. In post-norm x"
        " is added as it came, and only the sum is normalised.",
    ),
    Turn(
        "norms-added",
        ALONE,
        "You normalise x and the sublayer's result each on its own and add them. Add first: it is the"
        " sum that is normalised.",
    ),
    Turn(
        "normalised-x-plus-sublayer",
        ALONE,
        "You normalise x alone and add the sublayer's result to it. Add first: it is the sum that is "
        "normalised.",
    ),
    Turn(
        "all-on-normalised-x",
        ALONE,
        "You normalise x first and then work with that alone. Post-norm gives the raw x to the "
        "sublayer and to the sum, and normalises the sum.",
    ),
    Turn(
        "sublayer-sees-normalised-input",
        "input",
        "Your sublayer is given the normalised x. That is how pre-norm does it; in post-norm the "
        "sublayer sees x as it came.",
    ),
    Turn(
        "norm-then-sublayer",
        ALONE,
        "You normalise x and send it through the sublayer, and that is all. The residual path is "
        "missing, and the norm stands at the wrong end.",
    ),
    Turn(
        "sublayer-never-called",
        ALONE,
        "The sublayer is not called: your result is the norm of x alone. Add what the sublayer makes "
        "of x before you normalise.",
    ),
    Turn(
        "sublayer-of-the-sum",
        ALONE,
        "You send the sum of x and its norm through the sublayer. The sublayer sees x alone; its "
        "result is added to x and the sum is normalised.",
    ),
    Turn(
        "normalised-first-and-last",
        ALONE,
        "You normalise x first, work with that alone, and normalise the sum again. In post-norm the "
        "raw x goes to the sublayer and into the sum, and only the sum is normalised.",
    ),
)
def post_norm(on: On) -> Any:
    def block(x: Any, sublayer: Callable[[Any], Any], norm: Callable[[Any], Any]) -> Any:
        norm = _unit if on("own-layer-norm") else norm
        if on("normalised-first-and-last"):
            return _leave(on, norm(_join(on, x, norm(x), sublayer(norm(x)))))
        if on("norms-added"):
            return _leave(on, _join(on, x, norm(x), norm(sublayer(x))))
        if on("normalised-x-plus-sublayer"):
            return _leave(on, _join(on, x, norm(x), sublayer(x)))
        if on("all-on-normalised-x"):
            return _leave(on, _join(on, x, norm(x), sublayer(norm(x))))
        if on("pre-norm-instead"):
            return _leave(on, _join(on, x, x, sublayer(norm(x))))
        if on("norm-then-sublayer"):
            return _leave(on, sublayer(norm(x)))
        if on("sublayer-never-called"):
            return _leave(on, norm(x))
        if on("sublayer-of-the-sum"):
            return _leave(on, sublayer(x + norm(x)))
        given = sublayer(norm(x) if on("sublayer-sees-normalised-input") else x)
        given = sublayer(given) if on("sublayer-of-sublayer") else given
        given = norm(given) if on("only-sublayer-normalised") else given
        summed = _join(on, x, norm(x) if on("residual-normalised") else x, given)
        if on("norm-missing") or on("only-sublayer-normalised"):
            return _leave(on, summed)
        result = norm(norm(summed)) if on("norm-twice") else norm(summed)
        if on("sublayer-returned-too"):
            return result, given
        return _leave(on, x + result if on("residual-around-norm") else result)

    return block


@right("5.3")
def post_norm_in_steps(x: Any, sublayer: Any, norm: Any) -> Any:
    summed = x.clone()
    summed += sublayer(x)
    return norm(summed)


@right("5.3")
def post_norm_with_add(x: Any, sublayer: Any, norm: Any) -> Any:
    residual = x
    x = sublayer(x)
    return norm(torch.add(x, residual))


@right("5.3")
def post_norm_with_stack(x: Any, sublayer: Any, norm: Any) -> Any:
    return norm(torch.stack([x, sublayer(x)]).sum(dim=0))


@space(
    "5.4",
    *_RESIDUAL,
    Turn(
        "post-norm-instead",
        "order",
        "This is post-norm: you add first and normalise the sum. Pre-norm normalises what the "
        "sublayer sees and leaves the residual path raw.",
    ),
    Turn(
        "norm-missing",
        "order",
        "You add, but nothing is normalised. In pre-norm the sublayer sees the normalised x.",
    ),
    Turn(
        "norm-after-sublayer",
        "order",
        "You normalise what the sublayer gives. The norm comes before the sublayer: it normalises "
        "what the sublayer sees.",
    ),
    Turn(
        "residual-normalised",
        "residual",
        "You add the normalised x. The residual path carries x as it came: only the sublayer sees "
        "normalised numbers.",
    ),
    Turn(
        "only-residual-normalised",
        "order",
        "You normalise the residual path and give the raw x to the sublayer. It is the other way "
        "round.",
    ),
    Turn(
        "sum-normalised-too",
        "norm",
        "You normalise the sum as well. In pre-norm the sum leaves the block raw, so that the path "
        "through all blocks stays free.",
    ),
    Turn(
        "sublayer-result-normalised-too",
        "norm",
        "You normalise both what the sublayer sees and what it gives. In pre-norm only what it sees "
        "is normalised.",
    ),
    Turn(
        "norm-twice",
        ALONE,
        "You normalise x twice before the sublayer. Once is enough: gain and bias would be applied "
        "two times.",
    ),
    Turn(
        "sublayer-never-called",
        ALONE,
        "The sublayer is not called: you add the norm of x to x. Send the normalised x through the "
        "sublayer first.",
    ),
    Turn(
        "sublayer-of-the-sum",
        ALONE,
        "You add x to its norm and send the sum through the sublayer. The sublayer sees the "
        "normalised x alone; x is added to its result.",
    ),
    Turn(
        "sublayer-sees-the-sum",
        ALONE,
        "Your sublayer is given x plus its norm. It sees the normalised x alone.",
    ),
    Turn(
        "raw-and-normalised-added",
        ALONE,
        "You add both the raw x and the normalised one to what the sublayer gives. The residual path "
        "carries the raw x alone.",
    ),
)
def pre_norm(on: On) -> Any:
    def block(x: Any, sublayer: Callable[[Any], Any], norm: Callable[[Any], Any]) -> Any:
        norm = _unit if on("own-layer-norm") else norm
        path = norm(x) if on("residual-normalised") else x
        if on("post-norm-instead"):
            return _leave(on, norm(_join(on, x, path, sublayer(x))))
        if on("norm-missing"):
            return _leave(on, _join(on, x, path, sublayer(x)))
        if on("norm-after-sublayer"):
            return _leave(on, _join(on, x, path, norm(sublayer(x))))
        if on("sublayer-of-the-sum"):
            return _leave(on, sublayer(x + norm(x)))
        if on("sublayer-sees-the-sum"):
            return _leave(on, _join(on, x, path, sublayer(x + norm(x))))
        if on("only-residual-normalised"):
            return _leave(on, _join(on, x, norm(x), sublayer(x)))
        if on("sublayer-never-called"):
            return _leave(on, _join(on, x, path, norm(x)))
        normalised = norm(norm(x)) if on("norm-twice") else norm(x)
        given = sublayer(normalised)
        given = sublayer(given) if on("sublayer-of-sublayer") else given
        given = norm(given) if on("sublayer-result-normalised-too") else given
        path = x + norm(x) if on("raw-and-normalised-added") else path
        result = _join(on, x, path, given)
        if on("sublayer-returned-too"):
            return result, given
        return _leave(on, norm(result) if on("sum-normalised-too") else result)

    return block


@right("5.4")
def pre_norm_in_steps(x: Any, sublayer: Any, norm: Any) -> Any:
    result = x.clone()
    result += sublayer(norm(x))
    return result


@right("5.4")
def pre_norm_with_add(x: Any, sublayer: Any, norm: Any) -> Any:
    residual = x
    x = norm(x)
    return torch.add(sublayer(x), residual)


@right("5.4")
def pre_norm_with_stack(x: Any, sublayer: Any, norm: Any) -> Any:
    return torch.stack([sublayer(norm(x)), x]).sum(dim=0)


_ACTIVATIONS = {
    "mish": "Mish",
    "selu": "SELU",
    "hard-swish": "hard swish",
    "gelu-with-tanh": "GELU, in its tanh form,",
    "gelu-with-sigmoid": "GELU, in its sigmoid form,",
    "square": "the square",
    "exponential": "the exponential",
    "softsign": "softsign",
}


@space(
    "5.5",
    Turn(
        "no-relu",
        "activation",
        "There is no ReLU between the two maps. Without it the two together are one linear map, "
        "however wide the layer in the middle is.",
    ),
    Turn(
        "relu-after-second-map",
        "activation",
        "Your ReLU comes after the second map. It belongs between the two maps; the result may be "
        "negative.",
    ),
    Turn(
        "relu-after-both-maps",
        "activation",
        "You use ReLU after the second map too. Nothing follows the second map: the result may be "
        "negative.",
    ),
    Turn(
        "relu-before-first-map",
        "activation",
        "You cut off the negative features of x, before the first map. ReLU belongs between the two "
        "maps, on the d_ff wide features.",
    ),
    Turn(
        "gelu",
        "activation",
        "You use GELU. Many later models do; the layer of 2017 that is asked for here uses ReLU.",
    ),
    Turn(
        "silu",
        ALONE,
        "You use SiLU (swish). Many later models do; the layer of 2017 that is asked for here uses "
        "ReLU.",
    ),
    Turn(
        "leaky-relu",
        ALONE,
        "Your activation lets a little of the negative numbers through. ReLU sets them to zero.",
    ),
    Turn(
        "sigmoid",
        ALONE,
        "You use a sigmoid between the maps. Here it is ReLU: positive numbers pass unchanged, "
        "negative ones become zero.",
    ),
    Turn(
        "tanh",
        ALONE,
        "You use tanh between the maps. Here it is ReLU: positive numbers pass unchanged, negative "
        "ones become zero.",
    ),
    Turn(
        "softmax",
        ALONE,
        "You use softmax between the maps. Nothing here must sum to one: it is ReLU, which sets "
        "negative numbers to zero.",
    ),
    Turn(
        "absolute-value",
        ALONE,
        "You flip the sign of negative numbers. ReLU sets them to zero.",
    ),
    Turn(
        "relu-upside-down",
        ALONE,
        "You keep the negative numbers and drop the positive ones. ReLU is the maximum of zero and "
        "the number.",
    ),
    Turn(
        "relu-capped",
        ALONE,
        "Your activation is capped from above. ReLU lets every positive number through unchanged.",
    ),
    Turn(
        "first-bias-missing",
        "first bias",
        "The first bias is not added. It comes after the first map and before the ReLU.",
    ),
    Turn(
        "first-bias-after-relu",
        "first bias",
        "You add the first bias after the ReLU. It belongs to the first map, before the ReLU, where "
        "it decides which features are kept.",
    ),
    Turn(
        "second-bias-missing",
        "second bias",
        "The second bias is not added. Both maps have one.",
    ),
    Turn(
        "second-map-is-first-transposed",
        ALONE,
        "You go back with the first matrix transposed. The second map has weights of its own.",
    ),
    Turn(
        "second-map-missing",
        ALONE,
        "You return the d_ff wide features. A second map brings every word back to d_model.",
    ),
    Turn(
        "residual-added",
        "result",
        "You add x to the result. The residual path is not part of this layer: pre_norm and post_norm"
        " bring it.",
    ),
    Turn(
        "residual-added-in-place",
        ALONE,
        "You add the result into x itself. The residual path is not part of this layer, and a block "
        "never changes its input.",
    ),
    Turn(
        "result-normalised",
        ALONE,
        "You normalise the result. The norm is not part of this layer: pre_norm and post_norm bring "
        "it.",
    ),
    Turn(
        "dropout-added",
        ALONE,
        "You drop some of the hidden features at random. Dropout is not asked for here: the same "
        "input should give the same result.",
    ),
    Turn(
        "weights-do-not-fit",
        ALONE,
        "A matrix or a bias does not fit. Weights are (in, out) here and multiply from the right, "
        "unlike those of nn.Linear; the first pair widens to d_ff, the second comes back.",
    ),
    Turn(
        "three-axes-only",
        ALONE,
        "Your code works only when x has exactly the axes batch, seq and d_model. Any number of axes "
        "may stand before the features: let the matrix product take care of them.",
    ),
    Turn(
        "two-axes-only",
        ALONE,
        "Your code works only when x is a matrix. Any number of axes may stand before the features: "
        "the operator @ takes care of them, mm and addmm do not.",
    ),
    Turn(
        "hidden-detached",
        "gradient",
        "The values are right, but no gradient comes back to x and the first map. Look for detach, "
        ".data or no_grad around the hidden features.",
    ),
    Turn(
        "x-detached",
        ALONE,
        "The values are right, but x gets no gradient. Look for detach, .data or no_grad around it.",
    ),
    Turn(
        "result-detached",
        "gradient",
        "The values are right, but the result has no gradient at all. Look for detach, .data, "
        "no_grad, numpy, or a new tensor made from numbers.",
    ),
    Turn(
        "float32-result",
        ALONE,
        "Your result is always float32. A block keeps the dtype of its input: nothing in it should "
        "name a dtype.",
    ),
    Turn(
        "leaky-relu-steep",
        ALONE,
        "Your activation lets a tenth of the negative numbers through. ReLU sets them to zero.",
    ),
    Turn(
        "elu",
        ALONE,
        "You use ELU between the maps. Here it is ReLU: negative numbers become zero.",
    ),
    Turn(
        "softplus",
        ALONE,
        "You use softplus between the maps. Here it is ReLU, which has a sharp corner: negative "
        "numbers become exactly zero.",
    ),
    Turn(
        "step-function",
        ALONE,
        "You turn every hidden feature into zero or one. ReLU keeps positive numbers as they are.",
    ),
    Turn(
        "relu-squared",
        ALONE,
        "You square what the ReLU gives. Positive numbers should pass unchanged.",
    ),
    Turn(
        "first-bias-subtracted",
        ALONE,
        "You subtract the first bias. Both biases are added.",
    ),
    Turn(
        "second-bias-subtracted",
        ALONE,
        "You subtract the second bias. Both biases are added.",
    ),
    Turn(
        "residual-and-norm-added",
        ALONE,
        "You add x and normalise the sum. Residual path and norm are not part of this layer: pre_norm"
        " and post_norm bring them.",
    ),
    Turn(
        "dropout-on-result",
        ALONE,
        "You drop some of the result at random. Dropout is not asked for here: the same input should "
        "give the same result.",
    ),
    Turn(
        "softmax-on-result",
        ALONE,
        "You end with a softmax. The feed-forward layer gives features, not a distribution: nothing "
        "follows the second map.",
    ),
    Turn(
        "relu-before-second-bias",
        ALONE,
        "You use ReLU once more, before the second bias is added. There is one ReLU, between the two "
        "maps.",
    ),
    Turn(
        "relu-capped-at-one",
        ALONE,
        "Your activation is capped at one. ReLU lets every positive number through unchanged.",
    ),
    *(
        Turn(
            name,
            ALONE,
            f"You use {words} between the maps. Here it is ReLU: positive numbers pass unchanged, "
            "negative ones become zero.",
        )
        for name, words in _ACTIVATIONS.items()
    ),
    Turn(
        "relu-of-the-opposite",
        ALONE,
        "You turn the sign before the ReLU, so it keeps what it should drop. Look at the minus in front"
        " of the hidden features.",
    ),
    Turn(
        "relu-on-the-weights",
        ALONE,
        "You cut off the negative weights. ReLU belongs to what the first map gives, not to the map "
        "itself.",
    ),
    Turn(
        "floor-above-zero",
        ALONE,
        "Your activation lifts every number to at least one. ReLU takes the larger of it and zero.",
    ),
    Turn(
        "whole-words-dropped",
        ALONE,
        "You drop or keep all hidden features of a word together. ReLU looks at each number alone.",
    ),
    Turn(
        "x-overwritten",
        ALONE,
        "You set the negative features of x itself to zero, in place. ReLU belongs between the two "
        "maps, and a block never changes its input.",
    ),
    Turn(
        "last-word-only",
        ALONE,
        "Only the last word goes through the layer. Every word goes through the same two maps: the "
        "matrix product takes care of all of them at once.",
    ),
    Turn(
        "first-word-only",
        ALONE,
        "Only the first word goes through the layer. Every word goes through the same two maps: the "
        "matrix product takes care of all of them at once.",
    ),
    Turn(
        "words-averaged",
        ALONE,
        "You average over the words on the way. Every word goes through the layer alone: the words have"
        " met in attention already.",
    ),
    Turn(
        "relu-around-first-bias",
        ALONE,
        "You use ReLU before the first bias and again after it. There is one ReLU, after the bias.",
    ),
    Turn(
        "hidden-normalised",
        ALONE,
        "You normalise the hidden features. The norm is not part of this layer: pre_norm and post_norm "
        "bring it.",
    ),
    Turn(
        "x-normalised",
        ALONE,
        "You normalise x before the first map. The norm is not part of this layer: pre_norm and "
        "post_norm bring it.",
    ),
    Turn(
        "hidden-scaled",
        ALONE,
        "You divide the hidden features by the root of their number. That belongs to attention scores: "
        "here nothing is scaled.",
    ),
    Turn(
        "hidden-returned-too",
        ALONE,
        "You return the hidden features beside the result. Only the result is asked for.",
    ),
)
def feed_forward(on: On) -> Any:
    activations: dict[str, Callable[[Any], Any]] = {
        "no-relu": lambda hidden: hidden,
        "relu-after-second-map": lambda hidden: hidden,
        "relu-before-first-map": lambda hidden: hidden,
        "gelu": F.gelu,
        "silu": F.silu,
        "leaky-relu": F.leaky_relu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "softmax": lambda hidden: hidden.softmax(dim=-1),
        "leaky-relu-steep": lambda hidden: F.leaky_relu(hidden, 0.1),
        "elu": F.elu,
        "softplus": F.softplus,
        "step-function": lambda hidden: (hidden > 0).to(hidden.dtype),
        "relu-squared": lambda hidden: torch.relu(hidden) ** 2,
        "absolute-value": torch.abs,
        "relu-upside-down": lambda hidden: hidden.clamp(max=0),
        "relu-capped": F.relu6,
        "relu-capped-at-one": lambda hidden: hidden.clamp(0, 1),
        "mish": F.mish,
        "selu": F.selu,
        "hard-swish": F.hardswish,
        "gelu-with-tanh": lambda hidden: F.gelu(hidden, approximate="tanh"),
        "gelu-with-sigmoid": lambda hidden: hidden * torch.sigmoid(1.702 * hidden),
        "square": torch.square,
        "exponential": torch.exp,
        "softsign": F.softsign,
        "relu-of-the-opposite": lambda hidden: torch.relu(-hidden),
        "relu-on-the-weights": lambda hidden: hidden,
        "floor-above-zero": lambda hidden: hidden.clamp(min=1),
        "whole-words-dropped": lambda hidden: hidden * (hidden.sum(dim=-1, keepdim=True) > 0),
        "x-overwritten": lambda hidden: hidden,
    }

    def block(x: Any, w_1: Any, b_1: Any, w_2: Any, b_2: Any) -> Any:
        activate = next((activations[name] for name in activations if on(name)), torch.relu)
        raw = x
        if on("float32-result"):
            x, w_1, b_1, w_2, b_2 = (t.float() for t in (x, w_1, b_1, w_2, b_2))
        if on("three-axes-only"):
            torch.einsum("bsd,df->bsf", x, w_1)
        if on("two-axes-only"):
            torch.mm(x, w_1)
        if on("weights-do-not-fit"):
            F.linear(x, w_1)
        x = x.detach() if on("x-detached") else x
        x = torch.relu(x) if on("relu-before-first-map") else x
        x = raw.relu_() if on("x-overwritten") else x
        x = _unit(x) if on("x-normalised") else x
        if on("relu-on-the-weights"):
            w_1 = torch.relu(w_1)
        early = 0.0 if on("first-bias-missing") or on("first-bias-after-relu") else b_1
        early = -b_1 if on("first-bias-subtracted") else early
        b_2 = -b_2 if on("second-bias-subtracted") else b_2
        hidden = activate(x @ w_1 + early)
        hidden = hidden + b_1 if on("first-bias-after-relu") else hidden
        hidden = F.dropout(hidden, 0.1) if on("dropout-added") else hidden
        hidden = hidden.detach() if on("hidden-detached") else hidden
        hidden = _unit(hidden) if on("hidden-normalised") else hidden
        if on("words-averaged") and hidden.ndim > 1:
            hidden = hidden.mean(dim=-2, keepdim=True).expand_as(hidden)
        if on("relu-around-first-bias"):
            hidden = torch.relu(torch.relu(x @ w_1) + b_1)
        hidden = hidden / hidden.shape[-1] ** 0.5 if on("hidden-scaled") else hidden
        if on("second-map-missing"):
            return hidden.detach() if on("result-detached") else hidden
        back = w_1.mT if on("second-map-is-first-transposed") else w_2
        result = hidden @ back + (0.0 if on("second-bias-missing") else b_2)
        if on("relu-before-second-bias"):
            result = torch.relu(hidden @ w_2) + b_2
        if on("relu-after-second-map") or on("relu-after-both-maps"):
            result = torch.relu(result)
        if on("residual-added"):
            result = x + result
        if on("residual-added-in-place"):
            result = raw.add_(result)
        if on("result-normalised"):
            result = _unit(result)
        if on("softmax-on-result"):
            result = result.softmax(dim=-1)
        if on("residual-and-norm-added"):
            result = _unit(x + result)
        result = F.dropout(result, 0.1) if on("dropout-on-result") else result
        if (on("last-word-only") or on("first-word-only")) and x.ndim > 1:
            kept = torch.zeros(x.shape[-2], 1, dtype=x.dtype, device=x.device)
            kept[-1 if on("last-word-only") else 0] = 1
            result = result * kept
        if on("hidden-returned-too"):
            return result, hidden
        return result.detach() if on("result-detached") else result

    return block


@right("5.5")
def feed_forward_with_linear(x: Any, w_1: Any, b_1: Any, w_2: Any, b_2: Any) -> Any:
    return F.linear(F.relu(F.linear(x, w_1.T, b_1), inplace=True), w_2.T, b_2)


@right("5.5")
def feed_forward_with_einsum(x: Any, w_1: Any, b_1: Any, w_2: Any, b_2: Any) -> Any:
    hidden = (torch.einsum("...d,df->...f", x.double(), w_1.double()) + b_1).clamp(min=0)
    return (torch.einsum("...f,fd->...d", hidden, w_2.double()) + b_2).to(x.dtype)


@right("5.5")
def feed_forward_word_by_word(x: Any, w_1: Any, b_1: Any, w_2: Any, b_2: Any) -> Any:
    words = []
    for word in x.reshape(-1, x.shape[-1]):
        hidden = word @ w_1 + b_1
        words.append(torch.where(hidden > 0, hidden, 0.0) @ w_2 + b_2)
    return torch.stack(words).reshape(x.shape)


@right("5.5")
def feed_forward_as_memory(x: Any, w_1: Any, b_1: Any, w_2: Any, b_2: Any) -> Any:
    matches = torch.maximum(x @ w_1 + b_1, torch.zeros_like(b_1))
    return (matches.unsqueeze(-1) * w_2).sum(dim=-2) + b_2


# What can go wrong with a mask that is only passed on.
_MASK = (
    Turn(
        "mask-not-passed",
        "mask",
        "The mask makes no difference: every word looks at every other. Hand it on to where the "
        "looking is done.",
    ),
    Turn(
        "mask-inverted",
        "mask",
        "Your mask hides what should be seen and shows what should be hidden. True means that a word "
        "may be looked at, and it can be handed on as it is.",
    ),
    Turn(
        "mask-transposed",
        "mask",
        "You exchange the last two axes of the mask. Its rows are the words that look and its columns"
        " those that are looked at: hand it on as it is.",
    ),
    Turn(
        "mask-gets-another-axis",
        ALONE,
        "You give the mask another axis. It already broadcasts to (batch, heads, seq, seq): hand it "
        "on as it is.",
    ),
    Turn(
        "causal-mask-added",
        ALONE,
        "Your words see only those before them. The encoder reads the whole sentence: nothing but the"
        " given mask hides words.",
    ),
    Turn(
        "result-detached",
        "gradient",
        "The values are right, but the result has no gradient at all. Look for detach, .data or "
        "no_grad.",
    ),
    Turn(
        "x-changed-in-place",
        "in place",
        "You add into x itself (+= or add_). The caller still needs it: make a new tensor.",
    ),
    Turn(
        "dropout-added",
        ALONE,
        "You drop some numbers at random. Dropout is not asked for here: the same input should give "
        "the same result.",
    ),
)


def _masked(on: On, mask: Any, x: Any) -> Any:
    """Change a mask by the wrong turns about it."""
    if on("mask-not-passed"):
        return None
    if on("causal-mask-added"):
        below = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool, device=x.device).tril()
        return below if mask is None else mask & below
    if mask is None:
        return None
    if on("mask-inverted"):
        return ~mask
    if on("mask-transposed"):
        return mask.mT
    return mask.unsqueeze(1) if on("mask-gets-another-axis") else mask


# What can go wrong in only one of the two orders, when they are written as two branches.
_FAULTS = {
    "no-residual-around-attention": "there is no residual path around attention",
    "no-residual-around-feed-forward": "there is no residual path around the feed-forward layer",
    "no-residuals": "there is no residual path around either sublayer",
    "first-norm-missing": "nothing is normalised around attention",
    "second-norm-missing": "nothing is normalised around the feed-forward layer",
    "norms-missing": "nothing is normalised",
}


@space(
    "5.6",
    *_MASK,
    Turn(
        "always-pre-norm",
        "order of norms",
        "Your block is pre-norm whatever norm_first says. With norm_first=False each sum is "
        "normalised, and the sublayers see raw numbers.",
    ),
    Turn(
        "always-post-norm",
        "order of norms",
        "Your block is post-norm whatever norm_first says. With norm_first=True, the default, the "
        "sublayers see normalised numbers and the sums stay raw.",
    ),
    Turn(
        "norm-first-inverted",
        "order of norms",
        "Pre-norm and post-norm have changed places. norm_first=True means that the norm comes before"
        " the sublayer.",
    ),
    Turn(
        "feed-forward-other-order",
        ALONE,
        "Attention has its norm where norm_first says, but the feed-forward layer has it at the other"
        " end. Both sublayers follow norm_first.",
    ),
    Turn(
        "norm-1-twice",
        "which norm",
        "You use norm_1 for both sublayers. Each has a norm of its own: norm_1 for attention, norm_2 "
        "for the feed-forward layer.",
    ),
    Turn(
        "norm-2-twice",
        ALONE,
        "You use norm_2 for both sublayers. Each has a norm of its own: norm_1 for attention, norm_2 "
        "for the feed-forward layer.",
    ),
    Turn(
        "norms-exchanged",
        "which norm",
        "The two norms have changed places. norm_1 belongs to attention, norm_2 to the feed-forward "
        "layer.",
    ),
    Turn(
        "feed-forward-first",
        "sublayers",
        "The feed-forward layer comes before attention. First the words look at each other, then each"
        " thinks about what it saw.",
    ),
    Turn(
        "sublayers-in-parallel",
        ALONE,
        "Both sublayers work on the block's input. The feed-forward layer should get what came out of"
        " attention and its residual path.",
    ),
    Turn(
        "feed-forward-missing",
        "sublayers",
        "The feed-forward layer is missing, or its result is not used. The block has two sublayers.",
    ),
    Turn(
        "attention-missing",
        ALONE,
        "Attention is missing, or its result is not used, so no word sees another. The block has two "
        "sublayers.",
    ),
    Turn(
        "no-residual-around-attention",
        "residual",
        "There is no residual path around attention. What goes into a sublayer is added to what comes"
        " out, for both of them.",
    ),
    Turn(
        "no-residual-around-feed-forward",
        "residual",
        "There is no residual path around the feed-forward layer. What goes into a sublayer is added "
        "to what comes out, for both of them.",
    ),
    Turn(
        "no-residuals",
        "residual",
        "There is no residual path around either sublayer. What goes into a sublayer is added to what"
        " comes out.",
    ),
    Turn(
        "second-residual-from-block-input",
        ALONE,
        "Around the feed-forward layer you add the block's input. The second residual path starts "
        "after attention: add what the feed-forward layer was built on.",
    ),
    Turn(
        "residual-normalised",
        "residual",
        "In your pre-norm block the residual path carries the normalised x. Only the sublayer sees "
        "normalised numbers: the raw x is added.",
    ),
    Turn(
        "attention-residual-normalised",
        ALONE,
        "In your pre-norm block the residual path around attention carries the normalised x. Only the"
        " sublayer sees normalised numbers: the raw x is added.",
    ),
    Turn(
        "feed-forward-residual-normalised",
        ALONE,
        "In your pre-norm block the residual path around the feed-forward layer carries normalised "
        "numbers. Only the sublayer sees those: what came out of attention is added raw.",
    ),
    Turn(
        "sums-normalised-in-pre-norm",
        "place of norm",
        "Your pre-norm block normalises the sum. In pre-norm the norm comes before the sublayer, and "
        "the sum leaves raw.",
    ),
    Turn(
        "sublayer-result-normalised",
        "place of norm",
        "Your post-norm block normalises what the sublayer gives and then adds x. The norm comes "
        "after the addition.",
    ),
    Turn(
        "first-norm-missing",
        "place of norm",
        "Nothing is normalised around attention. Each of the two sublayers has a norm.",
    ),
    Turn(
        "second-norm-missing",
        "place of norm",
        "Nothing is normalised around the feed-forward layer. Each of the two sublayers has a norm.",
    ),
    Turn(
        "norms-missing",
        ALONE,
        "Nothing is normalised in your block. Each of the two sublayers has a norm.",
    ),
    Turn(
        "only-queries-normalised",
        "attention input",
        "In your pre-norm block only the queries come from normalised words. Attention sees the "
        "normalised x in all three places.",
    ),
    Turn(
        "norm-at-the-end-too",
        ALONE,
        "Your block normalises once more at its end. A final norm comes once, at the end of the whole"
        " stack.",
    ),
    Turn(
        "attention-gives-two-things",
        ALONE,
        "You add what attention returns, but that is two things: the output and the weights. Take the"
        " output.",
    ),
    Turn(
        "weights-instead-of-output",
        ALONE,
        "You take the attention weights where you need the output. Attention returns the output first.",
    ),
    Turn(
        "weights-returned-too",
        ALONE,
        "You return the attention weights beside the result. The block returns the words alone.",
    ),
    Turn(
        "attention-detached",
        ALONE,
        "The values are right, but no gradient comes back through attention. Look for detach, .data "
        "or no_grad around its call.",
    ),
    Turn(
        "feed-forward-detached",
        ALONE,
        "The values are right, but no gradient comes back through the feed-forward layer. Look for "
        "detach, .data or no_grad around its call.",
    ),
    Turn(
        "values-not-normalised",
        ALONE,
        "In your pre-norm block the values come from the raw words. Attention sees the normalised x "
        "in all three places: query, key and value.",
    ),
    Turn(
        "feed-forward-sees-attention-alone",
        ALONE,
        "In your pre-norm block the feed-forward layer gets what attention gave, without the residual"
        " path. It works on the sum.",
    ),
    Turn(
        "normalised-around-the-path-too",
        ALONE,
        "You normalise x before it enters the residual path, which normalises again. The raw x goes "
        "in: the path knows what to normalise.",
    ),
    Turn(
        "residual-added-twice",
        ALONE,
        "You add x to what came out of a residual path, which has added it already. Once is enough.",
    ),
    Turn(
        "queries-not-normalised",
        ALONE,
        "In your pre-norm block the queries come from the raw words. Attention sees the normalised x "
        "in all three places: query, key and value.",
    ),
    Turn(
        "one-residual-around-both",
        ALONE,
        "You send x through attention and the feed-forward layer and go around both with one residual"
        " path and one norm. Each sublayer has its own.",
    ),
    Turn(
        "keys-not-normalised",
        ALONE,
        "In your pre-norm block the keys come from the raw words. Attention sees the normalised x in "
        "all three places: query, key and value.",
    ),
    Turn(
        "mask-not-passed-in-pre-norm",
        ALONE,
        "With norm_first=True the mask makes no difference, though the other order is right. Hand it on"
        " in both.",
    ),
    Turn(
        "mask-not-passed-in-post-norm",
        ALONE,
        "With norm_first=False the mask makes no difference, though the other order is right. Hand it "
        "on in both.",
    ),
    Turn(
        "attention-twice",
        ALONE,
        "Your words go through attention twice. The block has two sublayers: attention once, then the "
        "feed-forward layer once.",
    ),
    Turn(
        "feed-forward-twice",
        ALONE,
        "Your words go through the feed-forward layer twice. The block has two sublayers: attention "
        "once, then the feed-forward layer once.",
    ),
    Turn(
        "attention-over-the-batch",
        ALONE,
        "You exchange batch and sequence before attention, so a word looks at other sentences and not "
        "at its own. Attention works on the axes (batch, seq, d_model) as they are.",
    ),
    Turn(
        "sublayers-scaled",
        ALONE,
        "You scale what the sublayers give before it is added. A residual path adds, with no factor.",
    ),
    Turn(
        "residual-doubled-around-attention",
        ALONE,
        "Around attention the input is added twice: once by you and once by the residual path. Once is "
        "enough.",
    ),
    Turn(
        "residual-doubled-around-feed-forward",
        ALONE,
        "Around the feed-forward layer its input is added twice: once by you and once by the residual "
        "path. Once is enough.",
    ),
    Turn(
        "padding-zeroed",
        ALONE,
        "You set the result to zero where there is padding. The mask hides padding from those who look;"
        " what stands in its own place does not matter and is left as it is.",
    ),
    Turn(
        "own-norms",
        ALONE,
        "You normalise with a layer norm of your own, without gain and bias. Use the norms that the "
        "block owns: theirs are learned.",
    ),
    Turn(
        "activation-added",
        ALONE,
        "You set negative numbers of a sublayer's result to zero before it is added. Activations live "
        "inside sublayers: the result is added as it is.",
    ),
    Turn(
        "nothing-returned-too",
        ALONE,
        "You return a second thing beside the result. The block returns the words alone, one tensor.",
    ),
    *(
        Turn(
            f"dropout-{where}",
            ALONE,
            "You drop some numbers at random. Dropout is not asked for here: the same input should give"
            " the same result.",
        )
        for where in ("on-attention", "on-feed-forward", "on-result")
    ),
    *(
        Turn(
            f"{fault}-in-{order}",
            ALONE,
            f"With norm_first={order == 'pre-norm'} {_FAULTS[fault]}, though the other order is right. "
            "Both sublayers have a residual path and a norm in either order.",
        )
        for fault in _FAULTS
        for order in ("pre-norm", "post-norm")
    ),
)
def encoder_block(on: On) -> Any:
    class Block(EncoderBlock):
        def forward(self, x: Any, mask: Any = None) -> Any:
            mask = _masked(on, mask, x)
            start = x
            first, second = self.norm_1, self.norm_2
            if on("norm-2-twice") or on("norms-exchanged"):
                first = self.norm_2
            if on("norm-1-twice") or on("norms-exchanged"):
                second = self.norm_1
            weights = None

            def attend(y: Any) -> Any:
                nonlocal weights
                around = start if on("only-queries-normalised") else y
                value = start if on("values-not-normalised") else around
                asking = start if on("queries-not-normalised") else y
                around = start if on("keys-not-normalised") else around
                hidden = mask
                if on(f"mask-not-passed-in-{'pre' if self.norm_first else 'post'}-norm"):
                    hidden = None
                if on("attention-over-the-batch"):
                    y = y.transpose(0, 1)
                    return self.attention(y, y, y)[0].transpose(0, 1)
                output, weights = self.attention(asking, around, value, hidden)
                if on("attention-gives-two-things"):
                    return (output, weights)
                output = weights if on("weights-instead-of-output") else output
                return output.detach() if on("attention-detached") else output

            def residual(x: Any, sublayer: Any, norm: Any, name: str) -> Any:
                x = norm(x) if on("normalised-around-the-path-too") else x
                result = self.around(x, sublayer, norm, name, start)
                return x + result if on("residual-added-twice") else result

            def think(y: Any) -> Any:
                result = self.feed_forward(y)
                return result.detach() if on("feed-forward-detached") else result

            if on("one-residual-around-both"):
                x = residual(x, lambda y: think(attend(y)), first, "attention")
            elif on("feed-forward-first"):
                x = residual(x, think, second, "feed-forward")
                x = residual(x, attend, first, "attention")
            elif on("sublayers-in-parallel"):
                attended = residual(x, attend, first, "attention")
                x = attended + residual(x, think, second, "feed-forward") - x
            elif on("feed-forward-sees-attention-alone") and self.norm_first:
                attended = residual(x, attend, first, "attention")
                x = attended + think(second(attended - x))
            else:
                if not on("attention-missing"):
                    x = residual(x, attend, first, "attention")
                if on("attention-twice"):
                    x = residual(x, attend, first, "attention")
                if not on("feed-forward-missing"):
                    x = residual(x, think, second, "feed-forward")
                if on("feed-forward-twice"):
                    x = residual(x, think, second, "feed-forward")
            x = second(x) if on("norm-at-the-end-too") else x
            x = x.detach() if on("result-detached") else x
            x = F.dropout(x, 0.1) if on("dropout-on-result") else x
            if on("padding-zeroed") and mask is not None and mask.shape[-2] == 1:
                x = x * mask.flatten(0, -2).unsqueeze(-1)
            if on("nothing-returned-too"):
                return x, None
            return (x, weights) if on("weights-returned-too") else x

        def around(self, x: Any, sublayer: Any, norm: Any, name: str, start: Any) -> Any:
            """Go around one sublayer, in the order that norm_first asks for."""
            pre = self.norm_first
            if on("norm-first-inverted") or (on("feed-forward-other-order") and name == "feed-forward"):
                pre = not pre
            pre = (pre or on("always-pre-norm")) and not on("always-post-norm")
            order = "pre-norm" if pre else "post-norm"

            def faulty(fault: str) -> bool:
                return on(fault) or on(f"{fault}-in-{order}")

            missing = "first-norm-missing" if name == "attention" else "second-norm-missing"
            if faulty("norms-missing") or faulty(missing):
                norm = nn.Identity()
            norm = _unit if on("own-norms") else norm
            seen = norm(x) if pre else x
            path = x
            if on("second-residual-from-block-input") and name == "feed-forward":
                path = start
            if pre and (on("residual-normalised") or on(f"{name}-residual-normalised")):
                path = norm(x)
            given = sublayer(seen)
            dropped = on("dropout-added") or on(f"dropout-on-{name}")
            given = F.dropout(given, 0.1) if dropped else given
            given = torch.relu(given) if on("activation-added") else given
            given = given / 2 if on("sublayers-scaled") else given
            given = given + seen if on(f"residual-doubled-around-{name}") else given
            if on("sublayer-result-normalised") and not pre:
                return path + norm(given)
            if faulty("no-residuals") or faulty(f"no-residual-around-{name}"):
                summed = given
            elif on("x-changed-in-place") and name == "attention":
                summed = path.add_(given)
            else:
                summed = path + given
            return norm(summed) if not pre or on("sums-normalised-in-pre-norm") else summed

    return Block


@right("5.6")
class InlineBlock(EncoderBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        if self.norm_first:
            y = self.norm_1(x)
            x = x + self.attention(y, y, y, mask)[0]
            return x + self.feed_forward(self.norm_2(x))
        attended, _ = self.attention(query=x, key=x, value=x, mask=mask)
        x = self.norm_1(attended + x)
        return self.norm_2(self.feed_forward(x) + x)


@right("5.6")
class LoopBlock(EncoderBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        def attend(y: Any) -> Any:
            output, _ = self.attention(y, y, y, mask)
            return output

        for sublayer, norm in ((attend, self.norm_1), (self.feed_forward, self.norm_2)):
            before, after = (norm, nn.Identity()) if self.norm_first else (nn.Identity(), norm)
            x = after(x + sublayer(before(x)))
        return x


@right("5.6")
class BuiltInAttentionBlock(EncoderBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        def heads(y: Any) -> Any:
            return y.unflatten(-1, (self.attention.n_heads, -1)).transpose(1, 2)

        def attend(y: Any) -> Any:
            q, k, v = (
                heads(w(y)) for w in (self.attention.w_q, self.attention.w_k, self.attention.w_v)
            )
            output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).nan_to_num()
            return self.attention.w_o(output.transpose(1, 2).reshape(y.shape))

        result = x.clone()
        result += attend(self.norm_1(x) if self.norm_first else x)
        x = result if self.norm_first else self.norm_1(result)
        deeper = self.feed_forward.w_1(self.norm_2(x) if self.norm_first else x).relu()
        x = x + self.feed_forward.w_2(deeper)
        return x if self.norm_first else self.norm_2(x)


@space(
    "5.7",
    *_MASK,
    Turn(
        "final-norm-missing",
        "norm",
        "The final norm is missing. In a pre-norm stack nobody has normalised the sum that leaves the"
        " last block.",
    ),
    Turn(
        "norm-after-every-block",
        "norm",
        "You use the final norm after every block. It comes once, after the last.",
    ),
    Turn(
        "norm-before-every-block",
        ALONE,
        "You use the final norm before every block. It comes once, after the last.",
    ),
    Turn(
        "norm-before-the-blocks",
        "norm",
        "You normalise before the first block and not after the last. The blocks normalise what they "
        "need themselves; it is the end of the stack that has no norm yet.",
    ),
    Turn(
        "norm-twice",
        ALONE,
        "You use the final norm twice at the end. Once is enough: its gain and bias would be applied "
        "two times.",
    ),
    Turn(
        "own-final-norm",
        ALONE,
        "You end with a layer norm of your own, without its gain and bias or where there should be "
        "none. Use self.norm: it is already the right thing for both norm orders.",
    ),
    Turn(
        "norm-of-last-block",
        ALONE,
        "You end with a norm of the last block. The stack has a norm of its own.",
    ),
    Turn(
        "residual-around-final-norm",
        ALONE,
        "You add the normalised sum to the raw one at the end. The stack ends with the norm alone.",
    ),
    Turn(
        "first-block-only",
        "blocks",
        "Your words go through the first block only. Look at where your loop returns, and what it "
        "carries from one block to the next.",
    ),
    Turn(
        "last-block-skipped",
        "blocks",
        "The last block is skipped. Look at where your loop ends.",
    ),
    Turn(
        "first-block-skipped",
        "blocks",
        "The first block is skipped. Look at where your loop starts.",
    ),
    Turn(
        "blocks-reversed",
        ALONE,
        "Your words go through the blocks in the opposite order. The first block comes first.",
    ),
    Turn(
        "one-block-repeated",
        "blocks",
        "Your words go through the same block again and again. Every block of the stack has weights "
        "of its own and is used once.",
    ),
    Turn(
        "blocks-not-chained",
        "blocks",
        "Every block gets the original words, and only the last result counts. Each block should get "
        "what the one before it gave.",
    ),
    Turn(
        "blocks-averaged",
        ALONE,
        "You average the results of the blocks. They form a chain: each gets what the one before it "
        "gave, and the last result counts.",
    ),
    Turn(
        "blocks-summed",
        ALONE,
        "You sum up the results of the blocks. They form a chain: each gets what the one before it "
        "gave, and the last result counts.",
    ),
    Turn(
        "residual-around-each-block",
        "residual",
        "You add what went into a block to what came out. The blocks have their residual paths inside.",
    ),
    Turn(
        "residual-around-the-stack",
        "residual",
        "You add the stack's input to its result. The blocks have their residual paths inside; "
        "nothing goes around the whole stack.",
    ),
    Turn(
        "mask-for-first-block-only",
        "mask",
        "Only the first block gets the mask. Padding that is hidden once leaks in again in the next "
        "block: all of them need it.",
    ),
    Turn(
        "mask-for-last-block-only",
        ALONE,
        "Only the last block gets the mask. By then the earlier blocks have let padding in: all of "
        "them need it.",
    ),
    Turn(
        "blocks-detached",
        "gradient",
        "The values are right, but gradients do not pass from one block to the one before it. Look "
        "for detach, .data or no_grad inside the loop.",
    ),
    Turn(
        "all-results-returned",
        ALONE,
        "You return the results of all blocks. Only what leaves the final norm is asked for.",
    ),
    Turn(
        "norm-before-and-after",
        ALONE,
        "You normalise before the first block as well as after the last. The blocks normalise what "
        "they need themselves.",
    ),
    Turn(
        "norm-after-every-block-and-last",
        ALONE,
        "You use the final norm after every block and once more at the end. It comes once, after the "
        "last.",
    ),
    Turn(
        "norm-in-post-norm-too",
        ALONE,
        "You end with a norm in the post-norm case too. There every block ends with a norm already; "
        "self.norm is the right thing for both cases.",
    ),
    Turn(
        "block-results-dropped",
        ALONE,
        "The results of the blocks are not used: only the final norm is applied to the words. Carry "
        "what a block gives to the next one.",
    ),
    Turn(
        "blocks-without-gradient",
        ALONE,
        "The values are right, but no gradient comes back through the blocks. Look for detach, .data "
        "or no_grad around your loop.",
    ),
    Turn(
        "all-results-stacked",
        ALONE,
        "You return the results of all blocks as one tensor. Only what leaves the final norm is asked"
        " for.",
    ),
    Turn(
        "norm-before-every-block-and-last",
        ALONE,
        "You use the final norm before every block and once more at the end. It comes once, after the"
        " last.",
    ),
    Turn(
        "blocks-side-by-side",
        ALONE,
        "Every block gets the original words and you sum up what they give. They form a chain: each "
        "gets what the one before it gave.",
    ),
    Turn(
        "results-listed",
        ALONE,
        "You return a list with the result of every block. Only the last result is asked for, after the"
        " final norm, as one tensor.",
    ),
    Turn(
        "every-second-block-skipped",
        ALONE,
        "Every second block is skipped. Look at the step of your loop.",
    ),
    Turn(
        "mask-not-for-the-last-block",
        ALONE,
        "All blocks but the last get the mask. There padding leaks in again: all of them need it.",
    ),
    Turn(
        "norm-between-blocks",
        ALONE,
        "You use the final norm between the blocks and not after the last. It comes once, at the end.",
    ),
    Turn(
        "stack-run-twice",
        ALONE,
        "Your words go through the whole stack twice. Every block is used once.",
    ),
    Turn(
        "first-block-twice",
        ALONE,
        "Your words go through the first block twice: once before the loop and once in it. Every block "
        "is used once.",
    ),
    Turn(
        "last-block-repeated",
        ALONE,
        "Your words go through the last block again and again. Every block of the stack has weights of "
        "its own and is used once.",
    ),
    Turn(
        "mask-returned-too",
        ALONE,
        "You return the mask beside the result. Only the words are asked for, as one tensor.",
    ),
    Turn(
        "padding-zeroed",
        ALONE,
        "You set the result to zero where there is padding. The mask hides padding from those who look;"
        " what stands in its own place does not matter and is left as it is.",
    ),
    Turn(
        "dropout-on-result",
        ALONE,
        "You drop some numbers of the result at random. Dropout is not asked for here: the same input "
        "should give the same result.",
    ),
)
def encoder(on: On) -> Any:
    class Stack(Encoder):
        def forward(self, x: Any, mask: Any = None) -> Any:
            mask = _masked(on, mask, x)
            start, blocks, results = x, list(self.blocks), []
            if on("first-block-only"):
                blocks = blocks[:1]
            if on("last-block-skipped"):
                blocks = blocks[:-1]
            if on("first-block-skipped"):
                blocks = blocks[1:]
            if on("blocks-reversed"):
                blocks = blocks[::-1]
            if on("one-block-repeated"):
                blocks = blocks[:1] * len(blocks)
            if on("every-second-block-skipped"):
                blocks = blocks[::2]
            if on("last-block-repeated"):
                blocks = blocks[-1:] * len(blocks)
            if on("first-block-twice"):
                blocks = [*blocks[:1], *blocks]
            if on("stack-run-twice"):
                blocks = [*blocks, *blocks]
            early = on("norm-before-the-blocks") or on("norm-before-and-after")
            x = self.norm(x) if early else x
            for i, block in enumerate(blocks):
                hidden = on("mask-for-first-block-only") and i > 0
                hidden = hidden or (on("mask-for-last-block-only") and i < len(blocks) - 1)
                hidden = hidden or (on("mask-not-for-the-last-block") and i == len(blocks) - 1)
                y = start if on("blocks-not-chained") or on("blocks-side-by-side") else x
                first = on("norm-before-every-block") or on("norm-before-every-block-and-last")
                y = self.norm(y) if first else y
                result = block(y, None if hidden else mask)
                result = F.dropout(result, 0.1) if on("dropout-added") else result
                result = x + result if on("residual-around-each-block") else result
                every = on("norm-after-every-block") or on("norm-after-every-block-and-last")
                every = every or (on("norm-between-blocks") and i < len(blocks) - 1)
                result = self.norm(result) if every else result
                if on("block-results-dropped"):
                    result = x
                if on("blocks-without-gradient"):
                    result = result.detach()
                x = x.copy_(result) if on("x-changed-in-place") else result
                x = x.detach() if on("blocks-detached") and i < len(blocks) - 1 else x
                results.append(x)
            if on("blocks-summed") or on("blocks-side-by-side"):
                x = torch.stack(results).sum(dim=0)
            if on("blocks-averaged"):
                x = torch.stack(results).mean(dim=0)
            x = start + x if on("residual-around-the-stack") else x
            moved = on("norm-before-the-blocks") or on("norm-before-every-block")
            if on("norm-of-last-block"):
                x = list(self.blocks)[-1].get_submodule("norm_2")(x)
            elif on("own-final-norm"):
                x = _unit(x)
            elif on("residual-around-final-norm"):
                x = x + self.norm(x)
            elif not (
                moved
                or on("norm-between-blocks")
                or on("final-norm-missing")
                or on("norm-after-every-block")
            ):
                x = self.norm(self.norm(x)) if on("norm-twice") else self.norm(x)
            if on("norm-in-post-norm-too") and isinstance(self.norm, nn.Identity):
                x = _unit(x)
            x = x.detach() if on("result-detached") else x
            x = F.dropout(x, 0.1) if on("dropout-on-result") else x
            if on("padding-zeroed") and mask is not None and mask.shape[-2] == 1:
                x = x * mask.flatten(0, -2).unsqueeze(-1)
            if on("mask-returned-too"):
                return x, mask
            if on("results-listed"):
                return results
            if on("all-results-stacked"):
                return torch.stack(results)
            return [*results, x] if on("all-results-returned") else x

    return Stack


@right("5.7")
class IndexedEncoder(Encoder):
    def forward(self, x: Any, mask: Any = None) -> Any:
        states = [x]
        for i in range(len(self.blocks)):
            states.append(self.blocks[i](states[-1], mask=mask))
        return self.norm(states[-1])


@right("5.7")
class RecursiveEncoder(Encoder):
    def forward(self, x: Any, mask: Any = None) -> Any:
        def climb(y: Any, blocks: list[Any]) -> Any:
            return climb(blocks[0](y, mask), blocks[1:]) if blocks else y

        return self.norm(climb(x, list(self.blocks)))


@right("5.7")
class NormByHandEncoder(Encoder):
    def forward(self, x: Any, mask: Any = None) -> Any:
        y = x.clone()
        for block in self.blocks:
            y = block.forward(y, mask)
        if not isinstance(self.norm, nn.LayerNorm):
            return y
        y = y - y.mean(dim=-1, keepdim=True)
        spread = torch.sqrt(y.pow(2).mean(dim=-1, keepdim=True) + self.norm.eps)
        return y / spread * self.norm.weight + self.norm.bias


@wrong(
    "5.2",
    "built-in-without-moving-axes",
    "You hand the tensor to the built-in batch norm as it is. That function takes the axis after the "
    "batch for the features, which are words here: the axes must change places before and after.",
)
def built_in_as_is(x: Any, gain: Any, bias: Any, mask: Any = None, eps: float = 1e-5) -> Any:
    return F.batch_norm(x, None, None, gain, bias, True, 0.1, eps)


_TWICE = (
    "sublayer-added-twice",
    "The sublayer's result comes in twice. It is added to its input once.",
)
_AGAIN = (
    "sublayer-run-twice",
    "You send the result through the sublayer a second time. One residual path holds one sublayer, "
    "which runs once.",
)


@wrong("5.3", *_TWICE)
def post_twice(x: Any, sublayer: Any, norm: Any) -> Any:
    return norm(x + sublayer(x) + sublayer(x))


@wrong("5.4", *_TWICE)
def pre_twice(x: Any, sublayer: Any, norm: Any) -> Any:
    return x + sublayer(norm(x)) + sublayer(norm(x))


@wrong("5.3", *_AGAIN)
def post_again(x: Any, sublayer: Any, norm: Any) -> Any:
    return norm(x + sublayer(x + sublayer(x)))


@wrong("5.4", *_AGAIN)
def pre_again(x: Any, sublayer: Any, norm: Any) -> Any:
    return x + sublayer(norm(x + sublayer(norm(x))))


@wrong(
    "5.4",
    "only-the-norm",
    "You only normalise: the sublayer is never called, and the raw input is lost. Normalise what the "
    "sublayer sees, and add its result to the raw input.",
)
def only_norm(x: Any, sublayer: Any, norm: Any) -> Any:
    return norm(x)


@wrong(
    "5.6",
    "input-added-again",
    "At the end you add the block's input once more. Both sublayers have a residual path already; the "
    "block needs no third one around it.",
)
class AddedAgain(EncoderBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        return x + super().forward(x, mask)


@wrong(
    "5.2",
    "built-in-with-own-statistics",
    "You hand your statistics to the built-in batch norm as running ones. It takes those for constants "
    "and refuses to send gradients through them; subtract and divide yourself.",
)
def built_in_with_statistics(x: Any, gain: Any, bias: Any, mask: Any = None, eps: float = 1e-5) -> Any:
    words = x.flatten(0, 1) if mask is None else x[mask]
    spread, centre = torch.var_mean(words, dim=0, correction=0)
    moved = F.batch_norm(x.flatten(0, 1), centre, spread, gain, bias, False, 0.1, eps)
    return moved.reshape(x.shape)


@wrong(
    "5.5",
    "layers-of-its-own",
    "You make new layers inside the function and ignore the weights you were given: every call would "
    "draw other ones. Use w_1, b_1, w_2 and b_2.",
)
def layers_of_its_own(x: Any, w_1: Any, b_1: Any, w_2: Any, b_2: Any) -> Any:
    wide, narrow = nn.Linear(*w_1.shape), nn.Linear(*w_2.shape)
    return narrow(torch.relu(wide(x)))


# Sums of these parts, alone or inside a norm or the sublayer, are what else may be written for a
# residual path. Most are rare, but what was written can be said back.
_PARTS: dict[str, Callable[..., Any]] = {
    "x": lambda x, sublayer, norm: x,
    "norm(x)": lambda x, sublayer, norm: norm(x),
    "sublayer(x)": lambda x, sublayer, norm: sublayer(x),
    "sublayer(norm(x))": lambda x, sublayer, norm: sublayer(norm(x)),
    "norm(sublayer(x))": lambda x, sublayer, norm: norm(sublayer(x)),
    "norm(sublayer(norm(x)))": lambda x, sublayer, norm: norm(sublayer(norm(x))),
}
Formula = tuple[str, tuple[str, ...], tuple[str, ...]]


def _formulas() -> Iterator[Formula]:
    """List formulas as what stands outside, the parts inside, and what is added at the end."""
    for count in (1, 2):
        for inside in itertools.combinations_with_replacement(_PARTS, count):
            yield "", inside, ()
            yield "sublayer", inside, ()
            for added in ((), ("x",), ("sublayer(x)",), ("norm(x)",)):
                yield "norm", inside, added
    yield from (("", inside, ()) for inside in itertools.combinations(_PARTS, 3))


def _written(formula: Formula) -> str:
    outside, inside, added = formula
    text = " + ".join(inside)
    return " + ".join([f"{outside}({text})" if outside else text, *added])


def _computed(formula: Formula) -> Callable[[Any, Any, Any], Any]:
    outside, inside, added = formula

    def block(x: Any, sublayer: Any, norm: Any) -> Any:
        result = functools.reduce(operator.add, [_PARTS[part](x, sublayer, norm) for part in inside])
        result = norm(result) if outside == "norm" else result
        result = sublayer(result) if outside == "sublayer" else result
        return functools.reduce(operator.add, [_PARTS[p](x, sublayer, norm) for p in added], result)

    return block


def _declare(exercise: str, advice: str) -> None:
    """Declare every formula that does something else than the right way and the turns above."""
    x = torch.arange(1.0, 13.0, dtype=torch.float64).sin().reshape(2, 6) * 3
    weight = torch.arange(36.0, dtype=torch.float64).cos().reshape(6, 6)

    def did(block: Any) -> Any:
        given = block(x.clone(), lambda y: torch.tanh(y @ weight) + 0.3, lambda y: 2 * _unit(y) + 0.7)
        given = given if isinstance(given, torch.Tensor) else x
        return tuple(round(number, 6) for number in given.flatten().tolist())

    known = _SPACES[exercise]
    with torch.random.fork_rng(devices=[]):
        taken = {did(known.variant(*names)) for names in ((), *known.combinations())}
    for formula in _formulas():
        block = _computed(formula)
        result = did(block)
        if result not in taken:
            taken.add(result)
            text = _written(formula)
            wrong(exercise, text.replace(" ", ""), f"You compute {text}. {advice}")(block)


_declare("5.3", "Post-norm adds the sublayer's result to its raw input, and normalises that sum, once.")
_declare(
    "5.4", "Pre-norm normalises what the sublayer sees, once, and adds its result to the raw input."
)
