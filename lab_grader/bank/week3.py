"""Wrong turns of week 3: scaling and heads."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from lab_grader.bank import ALONE, ENDINGS, OTHER_SCORES, On, Turn, right, slips, space, wrong
from lab_transformer import attention as reference


@space(
    "3.1",
    Turn(
        "one-vector-for-both",
        "draw",
        "Your variance is twice too large, as when a vector is multiplied with itself, or two are "
        "added. A query and a key are two independent draws, and their components are multiplied.",
    ),
    Turn(
        "one-key-for-all",
        ALONE,
        "You draw one vector and use it in every pair, so your result depends on how long that one "
        "happens to be. Every sample is a new pair of vectors.",
    ),
    Turn(
        "uniform-numbers",
        "draw",
        "Your numbers are not standard normal: they look uniform between 0 and 1. Such numbers have a "
        "mean of a half and a small variance; look for the draw with mean 0 and variance 1.",
    ),
    Turn(
        "generator-ignored",
        "generator",
        "Your random numbers do not come from the generator that is passed in, so the same generator "
        "gives another result each time. Hand it to every call that draws.",
    ),
    Turn(
        "seed-fixed-inside",
        "generator",
        "You set a seed inside the function, so every call draws the very same numbers. The caller "
        "decides about randomness, through the generator.",
    ),
    Turn(
        "d-fixed",
        "sizes",
        "Your result does not depend on d: the width of the vectors is written into the function. Use "
        "the d that is passed in.",
    ),
    Turn(
        "d-fixed-at-512",
        ALONE,
        "Your result is near 512 for any d: the width of a whole model is written into the function. "
        "Use the d that is passed in.",
    ),
    Turn(
        "samples-ignored",
        "sizes",
        "The number of pairs you draw is not the number asked for: with few samples your estimates "
        "should scatter, and they do not. Use the argument samples.",
    ),
    Turn(
        "one-whatever-the-width",
        "sum",
        "Your result stays near one, however long the vectors are. Either the products are not added "
        "up to one number per pair, or something divides by d (or its root) on the way: here the dot "
        "product is wanted as it is, before any scaling.",
    ),
    Turn(
        "mean-of-products",
        "sum",
        "Your variance shrinks as vectors get longer. You average the products of a pair (or "
        "normalise the vectors) where a dot product adds them up.",
    ),
    Turn(
        "summed-over-samples",
        "sum",
        "You add up over the samples instead of over the components, so your result grows with the "
        "number of samples. A dot product sums along the d numbers of one pair.",
    ),
    Turn(
        "everything-summed",
        "sum",
        "You add up all products of all pairs to a single number, and one number has no variance: the "
        "result is NaN. Keep one dot product for every pair.",
    ),
    Turn(
        "standard-deviation",
        "spread",
        "You return a standard deviation, which is the root of what is asked for: the variance."
        " It grows only with the root of d, so the law you are after stays hidden.",
    ),
    Turn(
        "mean-not-variance",
        "spread",
        "You return the mean of the dot products, which is near zero whatever d is. The question is "
        "how far they spread around it.",
    ),
    Turn(
        "squares-summed",
        "spread",
        "Your result grows with the number of samples: you add up the squared deviations and do not "
        "divide by how many there are."
        " A variance is a mean: look at what happens after the squares.",
    ),
    Turn(
        "squared-again",
        "spread",
        "Your result grows with the square of d. A variance is squared already: somewhere it is "
        "squared or multiplied by d once more.",
    ),
    Turn(
        "theory-returned",
        ALONE,
        "You return what theory predicts, not an estimate: no random number goes into it. Draw "
        "vectors and measure, so that the theory can be checked.",
    ),
    Turn(
        "tensor-returned",
        ALONE,
        "You return a tensor. One plain Python float is asked for: the variance of all your dot "
        "products.",
    ),
    Turn(
        "list-returned",
        ALONE,
        "You return a list of numbers. One plain float is asked for: the variance of all your dot "
        "products.",
    ),
    Turn(
        "nothing-returned",
        ALONE,
        "Your function ends without returning anything, so its result is None. Look at its last line.",
    ),
)
def dot_product_variance(on: On) -> Any:
    def spread(dots: Any, d: int) -> Any:
        if dots.numel() < 2:
            return torch.tensor(math.nan)
        if on("standard-deviation"):
            return dots.std()
        if on("mean-not-variance"):
            return dots.mean()
        if on("squares-summed"):
            return (dots - dots.mean()).square().sum()
        if on("squared-again"):
            return dots.var() * d
        return dots.var()

    def block(d: int, samples: int, generator: Any) -> Any:
        if on("theory-returned"):
            return float(d)
        source = None if on("generator-ignored") else generator
        if on("seed-fixed-inside"):
            source = torch.Generator(generator.device).manual_seed(0)
        shape = 1000 if on("samples-ignored") else samples, 64 if on("d-fixed") else d
        if on("d-fixed-at-512"):
            shape = samples, 512
        draw = torch.rand if on("uniform-numbers") else torch.randn
        q = draw(shape, generator=source, device=generator.device)
        k = q if on("one-vector-for-both") else draw(shape, generator=source, device=generator.device)
        if on("one-key-for-all"):
            k = k[:1]
        products = q * k
        dots = products.sum(dim=0 if on("summed-over-samples") else -1)
        if on("one-whatever-the-width"):
            dots = products
        if on("mean-of-products"):
            dots = products.mean(dim=-1)
        if on("everything-summed"):
            dots = products.sum()
        variance = spread(dots, d)
        if on("tensor-returned"):
            return variance
        if on("list-returned"):
            return dots.tolist()
        return None if on("nothing-returned") else float(variance)

    return block


@right("3.1")
def sample_by_sample(d: int, samples: int, generator: Any) -> float:
    def vector() -> Any:
        return torch.randn(d, generator=generator, device=generator.device)

    dots = [float(vector() @ vector()) for _ in range(samples)]
    mean = sum(dots) / samples
    return sum((dot - mean) ** 2 for dot in dots) / (samples - 1)


@right("3.1")
def in_double_precision_around_zero(d: int, samples: int, generator: Any) -> float:
    # The mean is known to be zero, so the mean square is an estimate of the variance too.
    options: Any = {"generator": generator, "device": generator.device, "dtype": torch.float64}
    q, k = torch.randn(samples, d, **options), torch.randn(samples, d, **options)
    return torch.einsum("nd,nd->n", q, k).square().mean().item()


@right("3.1")
def with_columns_and_biased_variance(d: int, samples: int, generator: Any) -> float:
    q = torch.empty(d, samples, device=generator.device).normal_(generator=generator)
    k = torch.normal(torch.zeros_like(q), 1.0, generator=generator)
    return (q * k).sum(dim=0).var(correction=0).item()


@right("3.1")
def with_batched_products(d: int, samples: int, generator: Any) -> float:
    pairs = torch.randn(samples, 2, d, generator=generator, device=generator.device)
    return (pairs[:, :1] @ pairs[:, 1:].mT).std().item() ** 2


@space(
    "3.2",
    Turn(
        "no-scale",
        "scale",
        "Your scores are not scaled. The variance of a dot product grows with the number of terms it "
        "sums, so wide heads would saturate the softmax. Look at what stands below the fraction bar "
        "in the formula.",
    ),
    Turn(
        "scaled-by-d_k",
        "scale",
        "You divide the scores by the width of the keys itself, or by its root twice. That makes them "
        "too small: it is the variance that grows with the width, and a standard deviation is its "
        "root.",
    ),
    Turn(
        "multiplied-by-root",
        "scale",
        "You multiply the scores by the root of the width, or divide by its inverse. Scaling is there "
        "to bring large scores down, and this makes them larger still.",
    ),
    Turn(
        "scaled-after-softmax",
        "scale",
        "You scale the weights, after the softmax. By then the scores have saturated already, and the "
        "weights no longer sum to one: scale what goes into the softmax.",
    ),
    Turn(
        "multiplied-by-d_k",
        ALONE,
        "You multiply the scores by the width of the keys. Scaling is there to bring large scores "
        "down, and this makes them larger still.",
    ),
    Turn(
        "scaled-by-sequence-length",
        "scale",
        "You divide by the root of the number of keys. The sentence's length has nothing to do with "
        "it: the variance grows with the width of a key, the number of terms in each dot product.",
    ),
    Turn(
        "scaled-by-query-length",
        ALONE,
        "You divide by the root of the number of queries. The length of a sequence has nothing to do "
        "with it: the variance grows with the width of a query, the number of terms in a dot product.",
    ),
    Turn(
        "scaled-by-value-width",
        ALONE,
        "You divide by the root of the width of the values. They take no part in the scores: what "
        "counts is the width of the vectors whose dot product is taken.",
    ),
    Turn(
        "scaled-by-d_model",
        ALONE,
        "You divide by the root of the whole model width, all heads together. Each head's dot product "
        "sums over its own numbers only: the last axis of q says how many.",
    ),
    Turn(
        "width-from-axis-one",
        ALONE,
        "You take the width from the axis number 1, which is the width only when there is no batch. "
        "The width is the last axis, however many stand before it: count from the end.",
    ),
    Turn(
        "half-the-width",
        ALONE,
        "You divide by half the width instead of its root. Python computes `d ** 1 / 2` as (d ** 1) / "
        "2: mind which operator binds first.",
    ),
    Turn(
        "root-cut-to-integer",
        ALONE,
        "You cut the root of the width to a whole number. The root of 8 is not 2: keep its fraction.",
    ),
    Turn(
        "fourth-root",
        ALONE,
        "You divide by the fourth root of the width. That is right where both q and k are divided by "
        "it; here only one of them is.",
    ),
    Turn(
        "scale-hard-coded",
        ALONE,
        "You divide by a fixed number, which fits only heads that are 64 wide. Take the width from "
        "the inputs.",
    ),
    Turn(
        "softmax-over-queries",
        "softmax",
        "Your softmax runs over the queries: the weights of each key sum to one. Every query has to "
        "share out its attention among the keys, so normalise along the axis of the keys.",
    ),
    Turn(
        "softmax-over-axis-one",
        "softmax",
        "Your softmax runs over axis 1, which are the heads when there are four axes. The keys are "
        "the last axis, however many stand before it: count from the end.",
    ),
    Turn(
        "no-softmax",
        "softmax",
        "Your weights are the scores themselves. They have to become positive and sum to one for "
        "every query before they can weigh anything.",
    ),
    Turn(
        "softmax-overflows",
        "softmax",
        "Your softmax overflows: the exponential of a large score is infinite, and infinity over "
        "infinity is NaN. Softmax stays the same when a number is taken off all scores of a row.",
    ),
    Turn(
        "one-maximum-for-all",
        ALONE,
        "Your softmax takes the same maximum off all rows. A row whose scores all lie far below it "
        "underflows to zero over zero: every row needs its own maximum.",
    ),
    Turn(
        "one-maximum-for-all-cleaned",
        ALONE,
        "Your softmax takes the same maximum off all rows. A row whose scores all lie far below it "
        "underflows to zero over zero, and cleaning that up leaves it without any weight: every row "
        "needs its own maximum.",
    ),
    Turn(
        "softmax-over-batch",
        ALONE,
        "Your softmax runs over the first axis, so sentences of a batch share their attention. The "
        "keys are the last axis: every query shares out its attention among them.",
    ),
    Turn(
        "softmax-axis-left-to-torch",
        ALONE,
        "You do not say along which axis the softmax runs, and torch picks an axis that is not the "
        "keys. Name the axis of the keys.",
    ),
    Turn(
        "softmax-over-everything",
        ALONE,
        "Your weights sum to one over all queries together. Every query has its own distribution over "
        "the keys: normalise along one axis only.",
    ),
    Turn(
        "sigmoid",
        ALONE,
        "You squash every score by itself, with a sigmoid. Weights of one query compete for a sum of "
        "one, which is what softmax does.",
    ),
    Turn(
        "not-normalised",
        ALONE,
        "Your weights are exponentials that nobody divided by their sum, so they do not sum to one "
        "for a query."
        " The output is then longer than any value: look at what a softmax does last.",
    ),
    Turn(
        "divided-by-the-sum",
        ALONE,
        "You divide the scores by their sum. Scores can be negative and their sum near zero, so these "
        "are no weights: softmax makes them positive first.",
    ),
    Turn(
        "distance-not-product",
        ALONE,
        "Your scores come from the distance between query and key. The formula takes their dot "
        "product, which also grows with the length of the vectors.",
    ),
    Turn(
        "softmax-twice",
        ALONE,
        "You apply softmax twice. The second one flattens the weights and gives masked keys a share "
        "again.",
    ),
    Turn(
        "log-softmax",
        ALONE,
        "Your weights are logarithms: negative numbers that do not sum to one. A weighted sum needs "
        "the probabilities themselves.",
    ),
    Turn(
        "mask-ignored",
        "mask",
        "Your mask has no effect. Where it is False the query must not see the key, so the score of "
        "that key must not reach the softmax. If you use masked_fill, note that it returns a new "
        "tensor.",
    ),
    Turn(
        "mask-inverted",
        "mask",
        "Your mask works the wrong way round: True means that a query may attend to a key. You hide "
        "what should be seen and show what should be hidden.",
    ),
    Turn(
        "mask-after-softmax",
        "mask",
        "You apply the mask after the softmax. Hidden keys had their share by then, so the weights of "
        "the others sum to less than one. Hide the scores, before they become weights.",
    ),
    Turn(
        "finite-fill",
        "empty row",
        "You hide scores behind a large negative number. Real scores can be lower than that, and a "
        "query that may attend to nothing then gets the mean of all values instead of zeros: only "
        "minus infinity hides for certain.",
    ),
    Turn(
        "masked-scores-are-zero",
        "mask",
        "You set masked scores to zero, or nearly. Zero is an ordinary score, and its exponential is "
        "one: masked keys keep a share. Which score has the exponential zero?",
    ),
    Turn(
        "renormalised-after-softmax",
        "mask",
        "You hide weights after the softmax and divide by what is left. When a hidden key has by far "
        "the largest score, nothing is left, and zero over zero is NaN. Hide the scores, before the "
        "softmax.",
    ),
    Turn(
        "renormalised-with-a-small-number",
        ALONE,
        "You hide weights after the softmax and divide by what is left plus a small number. When a "
        "hidden key has by far the largest score, nothing is left for the others and they get zeros. "
        "Hide the scores, before the softmax.",
    ),
    Turn(
        "scores-times-mask-renormalised",
        ALONE,
        "You multiply scores by the mask before the softmax, and take hidden weights out afterwards. A "
        "hidden score of zero is far above visible ones that are very low: nothing is left for them. "
        "Hide the scores for certain instead.",
    ),
    Turn(
        "finite-fill-rows-zeroed",
        ALONE,
        "You hide scores behind a large negative number. When all other scores are lower still, the "
        "hidden keys win: only minus infinity hides for certain.",
    ),
    Turn(
        "finite-number-added",
        ALONE,
        "You hide scores by adding a large negative number to them. A large score survives that, and "
        "a query that may attend to nothing still attends: only minus infinity hides for certain.",
    ),
    Turn(
        "mask-added",
        ALONE,
        "You add the mask to the scores, so allowed keys get one more and hidden keys stay as they "
        "are. A boolean mask says which scores to replace.",
    ),
    Turn(
        "mask-gets-another-axis",
        ALONE,
        "You put another axis into the mask, and the result grows an axis with it. The mask comes "
        "with all the axes it needs, and broadcasts by itself.",
    ),
    Turn(
        "mask-as-condition",
        ALONE,
        "Your code asks whether the mask is true, but a mask has many entries and each has its own "
        "answer. Ask whether there is a mask at all.",
    ),
    Turn(
        "mask-not-optional",
        ALONE,
        "Without a mask your function fails: mask is None then. Only a mask that is there can hide "
        "anything.",
    ),
    Turn(
        "always-causal",
        ALONE,
        "You hide later keys from every query, whatever the mask says. This block hides only what its "
        "mask hides; a causal mask is one that callers can pass in.",
    ),
    Turn(
        "infinity-after-softmax",
        ALONE,
        "You put minus infinity into the weights, after the softmax, and it goes on into the output. "
        "Minus infinity is a score: it belongs in front of the softmax, which makes a zero of it.",
    ),
    Turn(
        "mask-on-values-only",
        ALONE,
        "Your hidden keys keep their weights, and only what they contribute to the output is left "
        "out. The others should share the whole weight: hide the scores, before the softmax.",
    ),
    Turn(
        "nan-on-masked-row",
        "empty row",
        "A query that may attend to nothing comes out as NaN, because softmax of nothing but minus "
        "infinity divides zero by zero. Such a query should get zeros.",
    ),
    Turn(
        "mean-on-masked-row",
        "empty row",
        "A query that may attend to nothing gets the mean of all values, because all its scores are "
        "the same large negative number. Such a query should get zeros.",
    ),
    Turn(
        "nan-gradient-of-masked-row",
        ALONE,
        "Your results are right, but the gradient is NaN where a query may attend to nothing: it goes "
        "back through a softmax that divided zero by zero. Replace scores rather than adding infinity "
        "to them, or keep such rows out of the softmax.",
    ),
    Turn(
        "nan-left-in-weights",
        ALONE,
        "For a query that may attend to nothing your output is zero, but the weights you return are "
        "not. Clean up the weights first, and make the output from them.",
    ),
    Turn(
        "nan-left-in-output",
        ALONE,
        "For a query that may attend to nothing your weights are zero, but the output is NaN: it was "
        "made before the weights were cleaned up."
        " Look at the order of the two steps.",
    ),
    Turn(
        "any-mask-zeroes-the-row",
        ALONE,
        "Every query that has some key hidden gets zeros. Only a query that may attend to nothing at "
        "all should; mind the difference between all and any.",
    ),
    Turn(
        "results-swapped",
        "result",
        "You return the weights first and the output second. The signature asks for the output first.",
    ),
    Turn(
        "only-the-output",
        "result",
        "You return the output only. Two results are asked for: the output and the weights.",
    ),
    Turn(
        "scores-returned-for-weights",
        "result",
        "The second result should be the weights, after the softmax. You return the scores before it.",
    ),
    Turn(
        "weights-without-mask",
        ALONE,
        "Your output is right, but the weights you return know nothing of the mask. Return the "
        "weights that made the output.",
    ),
    Turn(
        "scores-times-values",
        ALONE,
        "Your weights are right, but the output is made with the scores. It is the weights that weigh "
        "the values.",
    ),
    Turn(
        "keys-instead-of-values",
        ALONE,
        "Your output is a weighted sum of the keys. Keys say where to look, values say what is found "
        "there: the output is made of values.",
    ),
    Turn(
        "nothing-returned",
        ALONE,
        "Your function ends without returning anything, so its result is None. Look at its last line.",
    ),
    Turn(
        "gradient-cut",
        ALONE,
        "No gradient comes back through your function: somewhere the numbers leave torch's graph, by "
        "detach, data, numpy, item, no_grad or a new tensor. Without it nothing can be learned.",
    ),
    Turn(
        "weights-cut-from-gradient",
        ALONE,
        "Your output passes no gradient to queries and keys: the weights that make it are cut off "
        "from the graph, by detach, data or no_grad. Then nobody learns where to look.",
    ),
    Turn(
        "weights-cut-altogether",
        ALONE,
        "No gradient reaches queries and keys: the weights are cut off from the graph, by detach, "
        "data or no_grad. Then nobody learns where to look.",
    ),
    Turn(
        "float32-only",
        ALONE,
        "Your results are float32 whatever comes in. A block keeps the dtype of its inputs.",
    ),
    Turn(
        "weights-in-float32",
        ALONE,
        "Your weights are float32 whatever comes in, and the output loses precision with them. A "
        "block keeps the dtype of its inputs.",
    ),
    Turn(
        "changes-q",
        ALONE,
        "You change the argument q in place, and the caller's tensor with it. Make a new tensor "
        "instead; mind operators such as /= and methods that end in an underscore.",
    ),
    Turn(
        "changes-k",
        ALONE,
        "You change the argument k in place, and the caller's tensor with it. Make a new tensor "
        "instead; mind operators such as /= and methods that end in an underscore.",
    ),
    Turn(
        "keys-not-transposed",
        ALONE,
        "The shapes in a matrix product of yours do not fit. Most likely queries and keys meet as "
        "they are: every query meets every key along their width, so one of the two has to be turned.",
    ),
    Turn(
        "all-axes-reversed",
        ALONE,
        "You turn the keys with .T, which reverses all axes and is right for a matrix only. With a "
        "batch or heads in front, exchange the last two axes alone.",
    ),
    Turn(
        "only-three-axes",
        ALONE,
        "Your code works only for inputs of three axes. There may be none or several in front of the "
        "last two: count axes from the end.",
    ),
    Turn(
        "only-four-axes",
        ALONE,
        "Your code works only for inputs of four axes. There may be fewer in front of the last two: "
        "count axes from the end.",
    ),
    Turn(
        "only-four-axes-named",
        ALONE,
        "Your code names exactly four axes, so it works only for inputs that have four. There may be "
        "fewer in front of the last two: let whatever leads be.",
    ),
)
def scaled_dot_product_attention(on: On) -> Any:
    def scale(q: Any, k: Any, v: Any) -> float:
        width = q.shape[-1]
        for turn, other in (
            ("no-scale", 1.0),
            ("scaled-by-d_k", width**2),
            ("multiplied-by-root", 1 / width),
            ("multiplied-by-d_k", 1 / width**2),
            ("scaled-after-softmax", 1.0),
            ("scaled-by-sequence-length", k.shape[-2]),
            ("scaled-by-query-length", q.shape[-2]),
            ("scaled-by-value-width", v.shape[-1]),
            ("scaled-by-d_model", width * (q.shape[-3] if q.ndim > 3 else 1)),
            ("width-from-axis-one", q.shape[1]),
            ("half-the-width", (width / 2) ** 2),
            ("root-cut-to-integer", math.isqrt(width) ** 2),
            ("scale-hard-coded", 64),
            ("fourth-root", math.sqrt(width)),
        ):
            if on(turn):
                return math.sqrt(other)
        return math.sqrt(width)

    def products(q: Any, k: Any) -> Any:
        if on("distance-not-product"):
            return -(q.unsqueeze(-2) - k.unsqueeze(-3)).norm(dim=-1)
        if on("keys-not-transposed"):
            return q @ k
        if on("all-axes-reversed"):
            return q @ k.permute(*range(k.ndim - 1, -1, -1))
        if on("only-three-axes"):
            return q @ k.transpose(1, 2)
        if on("only-four-axes-named"):
            return torch.einsum("bhqd,bhkd->bhqk", q, k)
        if on("only-four-axes"):
            return q @ k.transpose(2, 3)
        return q @ k.mT

    def hide(scores: Any, mask: Any) -> Any:
        if on("mask-ignored") or on("mask-on-values-only"):
            return scores
        if on("mask-after-softmax") or on("infinity-after-softmax"):
            return scores
        if on("renormalised-after-softmax") or on("renormalised-with-a-small-number"):
            return scores
        if on("finite-number-added"):
            return scores + torch.where(mask, 0.0, -1e4)
        if on("scores-times-mask-renormalised"):
            return scores * mask
        if on("mask-added"):
            return scores + mask
        if on("nan-gradient-of-masked-row"):
            return scores + torch.where(mask, 0.0, -math.inf)
        if on("mask-gets-another-axis"):
            mask = mask.unsqueeze(1)
        hidden = mask if on("mask-inverted") else ~mask
        fill = -math.inf
        if on("finite-fill") or on("finite-fill-rows-zeroed"):
            fill = -1e9
        if on("mean-on-masked-row"):
            fill = torch.finfo(scores.dtype).min
        if on("masked-scores-are-zero"):
            fill = 0.0
        return scores.masked_fill(hidden, fill)

    def normalise(scores: Any) -> Any:
        if on("no-softmax"):
            return scores
        if on("softmax-overflows"):
            return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
        if on("one-maximum-for-all") or on("one-maximum-for-all-cleaned"):
            raised = (scores - scores.max()).exp()
            weights = raised / raised.sum(dim=-1, keepdim=True)
            return weights.nan_to_num() if on("one-maximum-for-all-cleaned") else weights
        if on("softmax-over-everything"):
            return scores.flatten(-2).softmax(dim=-1).unflatten(-1, scores.shape[-2:])
        if on("sigmoid"):
            return scores.sigmoid()
        if on("divided-by-the-sum"):
            return scores / scores.sum(dim=-1, keepdim=True)
        if on("not-normalised"):
            return (scores - scores.amax(dim=-1, keepdim=True)).exp()
        if on("softmax-twice"):
            return scores.softmax(dim=-1).softmax(dim=-1)
        if on("log-softmax"):
            return scores.log_softmax(dim=-1)
        dim = -2 if on("softmax-over-queries") else -1
        if on("softmax-over-axis-one"):
            dim = 1
        if on("softmax-over-batch"):
            dim = 0
        if on("softmax-axis-left-to-torch"):
            dim = 0 if scores.ndim == 3 else 1
        return scores.softmax(dim=dim)

    def clean(weights: Any, mask: Any) -> Any:
        if on("mask-after-softmax"):
            return weights * mask
        if on("infinity-after-softmax"):
            return weights.masked_fill(~mask, -math.inf)
        if on("renormalised-after-softmax"):
            weights = weights * mask
            weights = weights / weights.sum(dim=-1, keepdim=True)
        if on("renormalised-with-a-small-number") or on("scores-times-mask-renormalised"):
            weights = weights * mask
            weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-9)
        if any(map(on, ("nan-on-masked-row", "mean-on-masked-row", "finite-fill"))):
            return weights
        # Who goes wrong with the mask itself has hardly thought of empty rows.
        if any(map(on, ("mask-ignored", "mask-inverted", "mask-added", "finite-number-added"))):
            return weights
        if on("masked-scores-are-zero"):
            return weights
        if any(map(on, ("softmax-over-queries", "softmax-over-axis-one", "softmax-over-batch"))):
            return weights.nan_to_num()
        if on("mask-gets-another-axis"):
            return weights.nan_to_num()
        empty = ~mask.any(dim=-1, keepdim=True)
        if on("any-mask-zeroes-the-row"):
            empty = ~mask.all(dim=-1, keepdim=True)
        return weights.masked_fill(empty, 0.0)

    def attend(q: Any, k: Any, v: Any, mask: Any) -> Any:
        root = scale(q, k, v)
        scores = products(q, k) / root
        if on("always-causal"):
            later = torch.ones_like(scores, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        if on("mask-as-condition") and mask:
            pass
        if mask is not None or on("mask-not-optional"):
            scores = hide(scores, mask)
        dirty = weights = normalise(scores.float() if on("weights-in-float32") else scores)
        if on("scaled-after-softmax"):
            weights = weights / math.sqrt(q.shape[-1])
        if mask is not None:
            weights = clean(weights, mask)
        weighing = dirty if on("nan-left-in-output") else weights
        if on("mask-on-values-only") and mask is not None:
            weighing = weights * mask
        if on("scores-times-values"):
            weighing = scores
        if on("weights-cut-from-gradient"):
            weighing = weighing.detach()
        if on("weights-cut-altogether"):
            weighing = weights = weights.detach()
        output = weighing.to(v.dtype) @ (k if on("keys-instead-of-values") else v)
        if on("nan-left-in-weights"):
            weights = dirty
        if on("weights-without-mask"):
            weights = (q @ k.mT / root).softmax(dim=-1)
        return output, scores if on("scores-returned-for-weights") else weights

    def block(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        if on("changes-q"):
            q /= math.sqrt(q.shape[-1])
            return attend(q * math.sqrt(q.shape[-1]), k, v, mask)
        if on("changes-k"):
            k /= math.sqrt(q.shape[-1])
            return attend(q, k * math.sqrt(q.shape[-1]), v, mask)
        if on("float32-only"):
            q, k, v = q.float(), k.float(), v.float()
        output, weights = attend(q, k, v, mask)
        if on("gradient-cut"):
            output, weights = output.detach(), weights.detach()
        if on("nothing-returned"):
            return None
        if on("only-the-output"):
            return weights if on("results-swapped") else output
        return (weights, output) if on("results-swapped") else (output, weights)

    return block


@right("3.2")
def with_einsum(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = torch.einsum("...qd,...kd->...qk", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, float("-inf"))
    weights = F.softmax(scores, dim=-1).nan_to_num()
    return torch.einsum("...qk,...kv->...qv", weights, v), weights


@right("3.2")
def with_own_softmax_in_place(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = (q / q.shape[-1] ** 0.5) @ k.transpose(-2, -1)
    if mask is not None:
        scores.masked_fill_(mask.logical_not(), -torch.inf)
    top = scores.amax(dim=-1, keepdim=True)
    raised = torch.exp(scores - top.masked_fill(top == -torch.inf, 0.0))
    total = raised.sum(dim=-1, keepdim=True)
    weights = raised / total.masked_fill(total == 0, 1.0)
    return weights.matmul(v), weights


@right("3.2")
def with_the_built_in(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    # Values that are the identity bring out the weights.
    key = k.shape[-2]
    one = torch.eye(key, dtype=v.dtype, device=v.device).expand(*k.shape[:-1], key)
    weights = F.scaled_dot_product_attention(q, k, one, attn_mask=mask)
    if mask is not None:
        weights = weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    return weights @ v, weights


@right("3.2")
def query_by_query_in_double(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    kind, shape = q.dtype, (*q.shape[:-1], k.shape[-2])
    allowed = (
        torch.ones(shape, dtype=torch.bool, device=q.device) if mask is None else mask.expand(shape)
    )
    rows = []
    for i in range(shape[-2]):
        scores = (q[..., i : i + 1, :].double() * k.double()).sum(dim=-1) / math.sqrt(q.size(-1))
        nothing = ~allowed[..., i, :].any(dim=-1, keepdim=True)
        seen = allowed[..., i, :] | nothing
        rows.append(scores.masked_fill(~seen, -math.inf).softmax(-1).masked_fill(nothing, 0.0))
    weights = torch.stack(rows, dim=-2)
    return (weights @ v.double()).to(kind), weights.to(kind)


@right("3.2")
def with_the_lowest_number_and_zeroed_weights(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = torch.matmul(q, k.transpose(-1, -2)).div(math.sqrt(k.size(-1)))
    if mask is None:
        return scores.softmax(-1) @ v, scores.softmax(-1)
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(mask == 0, lowest).softmax(-1) * mask
    return weights @ v, weights


@space(
    "3.3",
    Turn(
        "words-mixed",
        "cut",
        "You reshape straight to (heads, seq, d_head). The numbers then fill up the new axes in their "
        "old order, and every head gets pieces of different words. Cut each word first, then move the "
        "heads.",
    ),
    Turn(
        "heads-poured-first",
        ALONE,
        "You reshape straight to a first axis of heads, so the heads get pieces of different words "
        "and sentences. Cut each word first, then move the heads in front of the words.",
    ),
    Turn(
        "words-mixed-by-transpose",
        "cut",
        "You exchange words and numbers before you cut and reshape, so every head gets pieces of "
        "different words. Cut each word first, then move the heads.",
    ),
    Turn(
        "every-nth-number",
        "cut",
        "Your heads take every n-th number of a word. Head 0 should get the first d_head numbers, "
        "head 1 the next: mind which of the two new axes comes first when you cut.",
    ),
    Turn(
        "heads-and-width-exchanged",
        "cut",
        "You cut words into parts that are n_heads wide. There should be n_heads parts, each d_model "
        "/ n_heads wide.",
    ),
    Turn(
        "overlapping-parts",
        "cut",
        "The parts of your heads overlap: each starts one number after the one before. A part starts "
        "where the one before ended.",
    ),
    Turn(
        "whole-word-in-every-head",
        "cut",
        "Every head of yours gets the whole word. Each should get its own part, d_model / n_heads "
        "wide.",
    ),
    Turn(
        "first-head-everywhere",
        "cut",
        "All your heads hold the same part of the word, the first. Each should get its own.",
    ),
    Turn(
        "heads-after-words",
        "order",
        "Your words are cut well, but the axis of the heads still stands behind the axis of the "
        "words. Heads come first, so that each can be treated like a batch of its own.",
    ),
    Turn(
        "heads-at-the-end",
        "order",
        "The heads are the last axis of your result. They should stand before the words, and the "
        "numbers of a head should come last.",
    ),
    Turn(
        "words-at-the-end",
        "order",
        "The last two axes of your result are exchanged: the words of a head come last. Each head "
        "should be a sequence of words, (seq, d_head).",
    ),
    Turn(
        "heads-before-batch",
        "order",
        "The heads are the very first axis of your result, in front of the batch. They belong "
        "directly in front of the words, behind everything that leads.",
    ),
    Turn(
        "axes-counted-from-the-front",
        "order",
        "You exchange the axes 1 and 2, which is right for exactly one leading axis. There may be "
        "none or several: count axes from the end.",
    ),
    Turn(
        "heads-into-batch",
        "order",
        "You put heads and batch together into one axis. The result should keep the leading axes as "
        "they are, and have one of its own for the heads.",
    ),
    Turn(
        "heads-lined-up",
        "order",
        "You line up the heads along the first axis, behind each other. They need an axis of their "
        "own, directly in front of the words.",
    ),
    Turn(
        "only-three-axes",
        ALONE,
        "Your code takes it that x has three axes. There may be no batch, or several leading axes: "
        "use the last two and leave the others as they are.",
    ),
    Turn(
        "only-three-axes-permuted",
        ALONE,
        "You put exactly four axes into a new order, so x must have three. There may be no batch, or "
        "several leading axes: exchange two axes, counted from the end.",
    ),
    Turn(
        "only-three-axes-sized",
        ALONE,
        "You take it that the first two axes of x are batch and sequence. There may be no batch, or "
        "several leading axes: use the last two and leave the others as they are.",
    ),
    Turn(
        "only-three-axes-reshaped",
        ALONE,
        "You take it that the first axis of x is the batch and pour the rest into new axes. There may "
        "be no batch, or several leading axes: leave them as they are.",
    ),
    Turn(
        "heads-always-second",
        ALONE,
        "Your heads are always axis 1, which is right for exactly one leading axis. There may be none "
        "or several: count axes from the end.",
    ),
    Turn(
        "list-of-heads",
        ALONE,
        "You return the heads as a list or tuple of tensors. One tensor is asked for, with an axis "
        "for the heads.",
    ),
    Turn(
        "nothing-returned",
        ALONE,
        "Your function ends without returning anything, so its result is None. Look at its last line.",
    ),
    Turn(
        "unchanged",
        ALONE,
        "You return x as it came. Reshaping and exchanging axes return a new tensor: what they return "
        "has to be kept.",
    ),
    Turn(
        "gradient-cut",
        "graph",
        "No gradient comes back through your function: somewhere the numbers leave torch's graph, by "
        "detach, data, numpy, tolist or a new tensor."
        " Moving numbers to another place must not cut them off: look for what makes a copy"
        " outside of it.",
    ),
    Turn(
        "float32-only",
        "dtype",
        "Your result is float32 whatever comes in, perhaps because it is written into a new tensor of "
        "zeros. A block keeps the dtype of its inputs.",
    ),
)
def split_heads(on: On) -> Any:
    def cut(x: Any, n: int) -> Any:
        """Cut words into (..., seq, heads, d_head)."""
        width = x.shape[-1] // n
        if on("words-mixed"):
            return x.reshape(*x.shape[:-2], n, -1, width).transpose(-3, -2)
        if on("words-mixed-by-transpose"):
            return x.mT.reshape(*x.shape[:-2], n, -1, width).transpose(-3, -2)
        if on("every-nth-number"):
            return x.unflatten(-1, (width, n)).mT
        if on("heads-and-width-exchanged"):
            return x.unflatten(-1, (width, n))
        if on("overlapping-parts"):
            return torch.stack([x[..., i : i + width] for i in range(n)], dim=-2)
        if on("whole-word-in-every-head"):
            return torch.stack([x] * n, dim=-2)
        if on("first-head-everywhere"):
            return torch.stack([x[..., :width]] * n, dim=-2)
        return x.unflatten(-1, (n, width))

    def order(parts: Any) -> Any:
        """Move the heads to where they belong."""
        if on("heads-after-words"):
            return parts
        if on("heads-at-the-end"):
            return parts.mT
        if on("words-at-the-end"):
            return parts.movedim(-3, -1)
        if on("heads-before-batch"):
            return parts.movedim(-2, 0)
        if on("axes-counted-from-the-front"):
            return parts.transpose(1, 2)
        if on("heads-lined-up"):
            return torch.cat(parts.unbind(dim=-2), dim=0)
        heads = parts.transpose(-3, -2)
        return heads.flatten(0, -3) if on("heads-into-batch") else heads

    def block(x: Any, n_heads: int) -> Any:
        if on("only-three-axes"):
            batch, seq, d_model = x.shape
            return x.reshape(batch, seq, n_heads, d_model // n_heads).transpose(1, 2)
        if on("only-three-axes-reshaped"):
            return x.reshape(x.size(0), -1, n_heads, x.size(-1) // n_heads).transpose(1, 2)
        if on("only-three-axes-permuted"):
            return x.unflatten(-1, (n_heads, -1)).permute(0, 2, 1, 3)
        if on("only-three-axes-sized"):
            return x.reshape(x.size(0), x.size(1), n_heads, -1).transpose(1, 2)
        if on("heads-always-second"):
            return torch.stack(x.chunk(n_heads, dim=-1), dim=1)
        if on("heads-poured-first"):
            return x.reshape(n_heads, *x.shape[:-1], -1)
        if on("list-of-heads"):
            return list(x.chunk(n_heads, dim=-1))
        if on("nothing-returned"):
            return None
        if on("unchanged"):
            return x
        heads = order(cut(x.detach() if on("gradient-cut") else x, n_heads))
        return heads.float() if on("float32-only") else heads

    return block


@right("3.3")
def with_chunks(x: Any, n_heads: int) -> Any:
    return torch.stack(x.chunk(n_heads, dim=-1), dim=-3)


@right("3.3")
def head_by_head(x: Any, n_heads: int) -> Any:
    *leading, seq, d_model = x.shape
    width = d_model // n_heads
    heads = x.new_zeros(*leading, n_heads, seq, width)
    for head in range(n_heads):
        heads[..., head, :, :] = x[..., head * width : (head + 1) * width]
    return heads


@right("3.3")
def with_a_view_and_movedim(x: Any, n_heads: int) -> Any:
    return x.view(*x.shape[:-1], n_heads, x.shape[-1] // n_heads).movedim(-2, -3).contiguous()


@right("3.3")
def with_a_product(x: Any, n_heads: int) -> Any:
    width = x.shape[-1] // n_heads
    pick = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device).reshape(-1, n_heads, width)
    return torch.einsum("...sm,mhd->...hsd", x, pick)


@space(
    "3.4",
    Turn(
        "words-mixed",
        "order",
        "You reshape to (seq, d_model) while the heads still stand in front of the words, so a word "
        "gets pieces of other words. First bring the parts of each word together.",
    ),
    Turn(
        "heads-interleaved",
        "order",
        "Your words are put together number by number, one of each head in turn. The parts should "
        "stay whole, one head's after the other's: mind the order of the two axes that you join.",
    ),
    Turn(
        "last-axes-exchanged",
        "order",
        "You exchange the words with the numbers of a head before joining, so a word gets pieces of "
        "other words. It is the heads that have to move, behind the words.",
    ),
    Turn(
        "heads-exchanged-with-width",
        "order",
        "You exchange the heads with the numbers of a head. It is heads and words that have to change "
        "places, so that the parts of each word come together.",
    ),
    Turn(
        "axes-counted-from-the-front",
        "order",
        "You exchange the axes 1 and 2, which is right for exactly one leading axis. There may be "
        "none or several: count axes from the end.",
    ),
    Turn(
        "not-flattened",
        "join",
        "You bring the parts of each word together, but leave them as two axes. The heads should "
        "disappear: join the last two axes to one.",
    ),
    Turn(
        "heads-behind-each-other",
        "join",
        "You line up the heads behind each other, so the sequence gets longer. The parts of a word "
        "belong side by side: it is the width that grows.",
    ),
    Turn(
        "heads-averaged",
        "join",
        "You average the heads. Each has found something else, and the mean of it loses what each "
        "found: put them side by side.",
    ),
    Turn(
        "heads-summed",
        "join",
        "You add up the heads, so that they can no longer be told apart. Put them side by side.",
    ),
    Turn(
        "words-at-the-end",
        "join",
        "The last two axes of your result are exchanged. The words come first, then the numbers of "
        "each word.",
    ),
    Turn(
        "one-head-only",
        "join",
        "Your result holds one head only, and the others are lost. All parts of a word belong into "
        "it, side by side.",
    ),
    Turn(
        "view-fails",
        ALONE,
        "You use view after exchanging axes. The numbers of a word no longer stand next to each other "
        "in memory then, and view refuses to move them: there is a method that copies where it must.",
    ),
    Turn(
        "only-four-axes",
        ALONE,
        "Your code takes it that x has four axes. There may be no batch, or several leading axes: use "
        "the last three and leave the others as they are.",
    ),
    Turn(
        "only-four-axes-permuted",
        ALONE,
        "You put exactly four axes into a new order, so x must have four. There may be no batch, or "
        "several leading axes: exchange two axes, counted from the end.",
    ),
    Turn(
        "only-four-axes-flattened",
        ALONE,
        "You count axes from the front, which is right for exactly one leading axis: with another "
        "number of them other axes are joined. Count from the end.",
    ),
    Turn(
        "heads-always-second",
        ALONE,
        "You take it that the heads are axis 1, which is right for exactly one leading axis. There "
        "may be none or several: count axes from the end.",
    ),
    Turn(
        "sequence-flattened",
        ALONE,
        "You join too many axes: all words of a sentence become one long vector. Only the heads and "
        "the width of a head become one axis.",
    ),
    Turn(
        "heads-not-moved",
        ALONE,
        "You join the words of each head instead of the heads of each word. First bring the parts of "
        "each word together, then join them.",
    ),
    Turn(
        "batch-side-by-side",
        ALONE,
        "You walk over the first axis and put sentences side by side. It is the heads that belong "
        "side by side, the third axis from the end.",
    ),
    Turn(
        "only-four-axes-sized",
        ALONE,
        "You count the axes of x from the front, as if there were always four. There may be no batch, "
        "or several leading axes: count from the end.",
    ),
    Turn(
        "batch-joined",
        ALONE,
        "You join too many axes: sentences of a batch run into each other. Only the heads and the "
        "width of a head become one axis.",
    ),
    Turn(
        "nothing-returned",
        ALONE,
        "Your function ends without returning anything, so its result is None. Look at its last line.",
    ),
    Turn(
        "unchanged",
        ALONE,
        "You return x as it came. Reshaping and exchanging axes return a new tensor: what they return "
        "has to be kept.",
    ),
    Turn(
        "gradient-cut",
        "graph",
        "No gradient comes back through your function: somewhere the numbers leave torch's graph, by "
        "detach, data, numpy, tolist or a new tensor."
        " Moving numbers to another place must not cut them off: look for what makes a copy"
        " outside of it.",
    ),
    Turn(
        "float32-only",
        "dtype",
        "Your result is float32 whatever comes in, perhaps because it is written into a new tensor of "
        "zeros. A block keeps the dtype of its inputs.",
    ),
)
def merge_heads(on: On) -> Any:
    def order(x: Any) -> Any:
        """Bring the parts of a word together: (..., seq, heads, d_head)."""
        if on("words-mixed"):
            return x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3], x.shape[-1])
        if on("heads-interleaved"):
            return x.movedim(-3, -1)
        if on("heads-exchanged-with-width"):
            return x.transpose(-3, -1)
        if on("last-axes-exchanged"):
            return x.mT.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3], x.shape[-1])
        return x.transpose(1, 2) if on("axes-counted-from-the-front") else x.transpose(-3, -2)

    def join(parts: Any) -> Any:
        if on("not-flattened"):
            return parts
        if on("heads-behind-each-other"):
            return parts.transpose(-3, -2).flatten(-3, -2)
        if on("heads-averaged"):
            return parts.mean(dim=-2)
        if on("heads-summed"):
            return parts.sum(dim=-2)
        if on("one-head-only"):
            return parts[..., 0, :]
        words = parts.flatten(-2)
        return words.mT if on("words-at-the-end") else words

    def block(x: Any) -> Any:
        if on("view-fails"):
            parts = x.transpose(-3, -2)
            return parts.view(*parts.shape[:-2], -1)
        if on("only-four-axes"):
            batch, heads, seq, width = x.shape
            return x.transpose(1, 2).reshape(batch, seq, heads * width)
        if on("only-four-axes-permuted"):
            return x.permute(0, 2, 1, 3).flatten(2)
        if on("only-four-axes-flattened"):
            return x.transpose(1, 2).flatten(2)
        if on("heads-always-second"):
            return torch.cat(x.unbind(dim=1), dim=-1)
        if on("only-four-axes-sized"):
            return x.transpose(1, 2).reshape(x.shape[0], -1, x.shape[1] * x.shape[3])
        if on("heads-not-moved"):
            return x.flatten(-2)
        if on("batch-side-by-side"):
            return torch.cat(list(x), dim=-1)
        if on("sequence-flattened"):
            return x.transpose(-3, -2).flatten(1)
        if on("batch-joined"):
            return x.transpose(-3, -2).reshape(-1, x.shape[-3] * x.shape[-1])
        if on("nothing-returned"):
            return None
        if on("unchanged"):
            return x
        words = join(order(x.detach() if on("gradient-cut") else x))
        return words.float() if on("float32-only") else words

    return block


@right("3.4")
def with_concatenation(x: Any) -> Any:
    return torch.cat(x.unbind(dim=-3), dim=-1)


@right("3.4")
def part_by_part(x: Any) -> Any:
    *leading, heads, seq, width = x.shape
    words = x.new_empty(*leading, seq, heads * width)
    for head in range(heads):
        words[..., head * width : (head + 1) * width] = x[..., head, :, :]
    return words


@right("3.4")
def with_a_view_of_a_copy(x: Any) -> Any:
    parts = x.movedim(-3, -2).contiguous()
    return parts.view(*parts.shape[:-2], parts.shape[-2] * parts.shape[-1])


@right("3.4")
def by_products(x: Any) -> Any:
    heads, width = x.shape[-3], x.shape[-1]
    place = torch.eye(heads * width, dtype=x.dtype, device=x.device).reshape(heads, width, -1)
    return torch.einsum("...hsd,hdm->...sm", x, place)


@space(
    "3.5",
    Turn(
        "keys-and-values-from-query",
        "inputs",
        "Keys and values of yours are made from the query input, and what was passed in as key and "
        "value is not used. This works only where a sequence attends to itself.",
    ),
    Turn(
        "values-from-key",
        "inputs",
        "You make the values from the key input. The value input may be another one: each of the "
        "three inputs has its own projection.",
    ),
    Turn(
        "keys-and-values-exchanged",
        "inputs",
        "Keys and values have changed places: you compare with the values and collect the keys. Keys "
        "say where to look, values what is found there.",
    ),
    Turn(
        "w_q-for-keys",
        "projections",
        "You use the projection of the queries for the keys too. Every view has its own matrix: "
        "asking and being found are two different things.",
    ),
    Turn(
        "w_k-for-values",
        "projections",
        "You use the projection of the keys for the values too. Every view has its own matrix.",
    ),
    Turn(
        "w_q-for-everything",
        "projections",
        "You use the projection of the queries for all three. Every view has its own matrix.",
    ),
    Turn(
        "w_q-and-w_k-exchanged",
        ALONE,
        "The projections of queries and keys have changed places. Each goes with the input of its "
        "name.",
    ),
    Turn(
        "w_k-and-w_v-exchanged",
        ALONE,
        "The projections of keys and values have changed places. Each goes with the input of its name.",
    ),
    Turn(
        "no-projections",
        "projections",
        "You split the inputs as they are, without their projections. Then no head has learned what "
        "to look at: each input first goes through the layer of its own.",
    ),
    Turn(
        "values-not-projected",
        ALONE,
        "Queries and keys go through their projections, the values do not. They have one too.",
    ),
    Turn(
        "biases-left-out",
        ALONE,
        "You multiply with the weights of the layers and leave out their biases. Call the layers "
        "themselves: they do both.",
    ),
    Turn(
        "biases-left-out-throughout",
        ALONE,
        "You multiply with the weights of all four layers and leave out their biases. Call the layers "
        "themselves: they do both.",
    ),
    Turn(
        "weights-not-turned",
        ALONE,
        "You multiply with the weights of the layers the wrong way round. A linear layer of torch "
        "keeps its matrix as (out, in); call the layer itself, and it takes care of that.",
    ),
    Turn(
        "weights-not-turned-throughout",
        ALONE,
        "You multiply with the weights of all four layers the wrong way round, and leave out their "
        "biases. A linear layer of torch keeps its matrix as (out, in); call the layer itself, and it "
        "takes care of that.",
    ),
    Turn(
        "words-mixed-in-split",
        "split",
        "You reshape straight to (heads, seq, d_head), so every head gets pieces of different words. "
        "Cut each word first, then move the heads; your split_heads does this.",
    ),
    Turn(
        "every-nth-number",
        ALONE,
        "Your heads take every n-th number of a projection. Head 0 should get the first d_head "
        "numbers, head 1 the next, as in your split_heads.",
    ),
    Turn(
        "heads-and-width-exchanged",
        "split",
        "The number of heads and their width have changed places: you work with d_model / n_heads "
        "heads. There should be n_heads of them.",
    ),
    Turn(
        "one-wide-head",
        "split",
        "You attend once, with the full width. The projections should be split into n_heads heads "
        "that each attend on their own.",
    ),
    Turn(
        "heads-not-moved",
        ALONE,
        "You cut the words into heads, but leave the heads behind the words, so heads attend to heads "
        "inside a word. Heads belong in front of the words.",
    ),
    Turn(
        "projected-after-split",
        ALONE,
        "The shapes in a matrix product of yours do not fit. Most likely the inputs are split before "
        "their projections, whose layers take whole words: project first, then split.",
    ),
    Turn(
        "words-mixed-in-merge",
        "merge",
        "You reshape the heads' findings to (seq, d_model) while the heads still stand in front of "
        "the words, so a word gets pieces of others. Your merge_heads brings the parts together "
        "first.",
    ),
    Turn(
        "heads-interleaved-in-merge",
        ALONE,
        "You put the heads' findings together number by number, one of each head in turn. One head's "
        "part should follow the other's, as in your merge_heads.",
    ),
    Turn(
        "heads-averaged",
        ALONE,
        "You average the heads (and repeat the mean) instead of putting them side by side. Each head "
        "has found something else, and w_o decides how to mix it.",
    ),
    Turn(
        "w_o-missing",
        "output",
        "The last projection is missing. The heads' findings stand side by side until w_o mixes them.",
    ),
    Turn(
        "w_o-twice",
        ALONE,
        "You apply the last projection twice."
        " Its weights are learned for one pass: look at what happens after the heads are"
        " merged.",
    ),
    Turn(
        "w_v-for-output",
        ALONE,
        "The last projection of yours is one of the first three. The output has its own, w_o.",
    ),
    Turn(
        "residual-added",
        ALONE,
        "You add the query to the output. The residual path comes around this block, not inside it.",
    ),
    Turn(
        "scaled-by-d_model",
        "scale",
        "Your scores are divided by the root of d_model. Each head's dot product sums over d_head "
        "numbers only; your scaled_dot_product_attention knows the width by itself.",
    ),
    Turn(
        "scaled-twice",
        ALONE,
        "You scale twice: once here and once in your scaled_dot_product_attention, which does it "
        "already."
        " The weights come out too even: look at what you do to the queries or keys before you"
        " pass them on.",
    ),
    Turn(
        "no-scale",
        "scale",
        "The scores of your heads are not scaled. If you write the attention anew here, mind the root "
        "of d_head; your scaled_dot_product_attention does it all.",
    ),
    Turn(
        "mask-ignored",
        "mask",
        "Your mask does not reach the attention. Pass it on.",
    ),
    Turn(
        "mask-of-the-first-head",
        ALONE,
        "You cut the mask down to its first head. It may have its own page for every head, or fewer "
        "axes than that: pass it on as it is.",
    ),
    Turn(
        "mask-inverted",
        "mask",
        "Your mask works the wrong way round: True means that a query may attend to a key, here and "
        "in your scaled_dot_product_attention. Pass it on as it is.",
    ),
    Turn(
        "mask-gets-an-axis-for-heads",
        ALONE,
        "You put an axis for the heads into the mask. The mask already broadcasts to (heads, query, "
        "key): pass it on as it is.",
    ),
    Turn(
        "mask-grows-the-result",
        ALONE,
        "You put another axis into the mask, and the result grows with it. The mask already "
        "broadcasts to (heads, query, key): use it as it is.",
    ),
    Turn(
        "nan-on-masked-row",
        ALONE,
        "A query that may attend to nothing gets NaN. If you write the attention anew here, such a "
        "query needs zeros; your scaled_dot_product_attention takes care of it.",
    ),
    Turn(
        "finite-fill",
        ALONE,
        "A query that may attend to nothing gets the mean of all values: you hide scores behind a "
        "large negative number. Such a query needs zeros; your scaled_dot_product_attention takes "
        "care of it.",
    ),
    Turn(
        "finite-number-added",
        ALONE,
        "You hide scores by adding a large negative number to them. A large score survives that, and a "
        "query that may attend to nothing still attends; your scaled_dot_product_attention hides for "
        "certain.",
    ),
    Turn(
        "scores-times-mask-renormalised",
        ALONE,
        "You multiply scores by the mask before the softmax, and take hidden weights out afterwards. A "
        "hidden score of zero is far above visible ones that are very low; your "
        "scaled_dot_product_attention hides for certain.",
    ),
    Turn(
        "softmax-over-queries",
        ALONE,
        "Your softmax runs over the queries: the weights of each key sum to one. Every query has to "
        "share out its attention among the keys.",
    ),
    Turn(
        "softmax-over-heads",
        ALONE,
        "Your softmax runs over the heads, so they compete with each other for each key. Every head "
        "shares out its own attention among the keys.",
    ),
    Turn(
        "mask-after-softmax",
        ALONE,
        "You apply the mask after the softmax. Hidden keys had their share by then, so the weights of "
        "the others sum to less than one; your scaled_dot_product_attention hides the scores.",
    ),
    Turn(
        "masked-scores-are-zero",
        ALONE,
        "You set masked scores to zero, or nearly. Zero is an ordinary score, and masked keys keep a "
        "share; your scaled_dot_product_attention hides them for certain.",
    ),
    Turn(
        "results-swapped",
        "result",
        "You return the weights first and the output second. The signature asks for the output first.",
    ),
    Turn(
        "only-the-output",
        "result",
        "You return the output only. Two results are asked for: the output and every head's weights.",
    ),
    Turn(
        "weights-averaged",
        ALONE,
        "You return the mean of the heads' weights. Every head's own weights are asked for.",
    ),
    Turn(
        "weights-summed",
        ALONE,
        "You return the sum of the heads' weights. Every head's own weights are asked for.",
    ),
    Turn(
        "weights-averaged-in-one-head",
        ALONE,
        "You return the mean of the heads' weights, as if there were one head. Every head's own "
        "weights are asked for.",
    ),
    Turn(
        "softmax-of-output",
        ALONE,
        "You put a softmax behind the last projection. The output is a vector of any numbers: softmax "
        "belongs to the weights.",
    ),
    Turn(
        "nothing-returned",
        ALONE,
        "Your method ends without returning anything, so its result is None. Look at its last line.",
    ),
    Turn(
        "dropout-of-weights",
        ALONE,
        "Some of your weights are zero at random, and the others larger. No dropout is asked for "
        "here: the block gives the same output every time.",
    ),
    Turn(
        "gradient-cut",
        ALONE,
        "No gradient comes back through your module: somewhere the numbers leave torch's graph, by "
        "detach, data, numpy, item, no_grad or a new tensor. Without it nothing can be learned.",
    ),
    Turn(
        "gradient-cut-before-w_o",
        ALONE,
        "No gradient comes back through your heads; only w_o would learn. Somewhere before it the "
        "numbers leave torch's graph, by detach, data, numpy or no_grad.",
    ),
    Turn(
        "weights-cut-from-gradient",
        ALONE,
        "No gradient reaches w_q and w_k through the output: the weights that make it are cut off "
        "from the graph, by detach, data or no_grad. Then no head learns where to look.",
    ),
    Turn(
        "only-with-batch",
        ALONE,
        "Your code takes it that the inputs have three axes. There may be no batch, or several "
        "leading axes: count axes from the end.",
    ),
    Turn(
        "only-with-batch-reshaped",
        ALONE,
        "You take it that the first axis of the inputs is the batch. There may be no batch, or "
        "several leading axes: count axes from the end.",
    ),
)
def MultiHeadAttention(on: On) -> Any:
    anew = (
        "mask-grows-the-result",
        "nan-on-masked-row",
        "finite-fill",
        "finite-number-added",
        "scores-times-mask-renormalised",
        "softmax-over-queries",
        "softmax-over-heads",
        "mask-after-softmax",
        "masked-scores-are-zero",
        "dropout-of-weights",
        "weights-cut-from-gradient",
    )

    def choose(query: Any, key: Any, value: Any) -> Any:
        if on("keys-and-values-from-query"):
            return query, query, query
        if on("values-from-key"):
            return query, key, key
        return (query, value, key) if on("keys-and-values-exchanged") else (query, key, value)

    def layers(self: Any) -> Any:
        q, k, v = self.w_q, self.w_k, self.w_v
        for turn, chosen in (
            ("w_q-for-keys", (q, q, v)),
            ("w_k-for-values", (q, k, k)),
            ("w_q-for-everything", (q, q, q)),
            ("w_q-and-w_k-exchanged", (k, q, v)),
            ("w_k-and-w_v-exchanged", (q, v, k)),
            ("no-projections", (nn.Identity(), nn.Identity(), nn.Identity())),
            ("values-not-projected", (q, k, nn.Identity())),
        ):
            if on(turn):
                return chosen
        return q, k, v

    def apply(layer: Any, x: Any) -> Any:
        if on("biases-left-out") or on("biases-left-out-throughout"):
            return x @ layer.weight.mT
        if on("weights-not-turned") or on("weights-not-turned-throughout"):
            return x @ layer.weight
        return layer(x)

    def split(x: Any, n: int) -> Any:
        width = x.shape[-1] // n
        if on("words-mixed-in-split"):
            return x.reshape(*x.shape[:-2], n, -1, width)
        if on("every-nth-number"):
            return x.unflatten(-1, (width, n)).movedim(-1, -3)
        if on("heads-not-moved"):
            return x.unflatten(-1, (n, width))
        return reference.split_heads(x, width if on("heads-and-width-exchanged") else n)

    def merge(heads: Any) -> Any:
        if on("heads-not-moved"):
            return heads.flatten(-2)
        if on("words-mixed-in-merge"):
            return heads.reshape(*heads.shape[:-3], heads.shape[-2], -1)
        if on("heads-interleaved-in-merge"):
            return heads.movedim(-3, -1).flatten(-2)
        if on("heads-averaged"):
            return torch.cat([heads.mean(dim=-3)] * heads.shape[-3], dim=-1)
        return reference.merge_heads(heads)

    def attend_anew(q: Any, k: Any, v: Any, mask: Any) -> Any:
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None and on("scores-times-mask-renormalised"):
            weights = (scores * mask).softmax(dim=-1) * mask
            weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-9)
            return weights @ v, weights
        if mask is not None and on("finite-number-added"):
            scores = scores + torch.where(mask, 0.0, -1e4)
        elif mask is not None and not on("mask-after-softmax"):
            fill = -1e9 if on("finite-fill") else -math.inf
            scores = scores.masked_fill(~mask, 0.0 if on("masked-scores-are-zero") else fill)
        dim = -2 if on("softmax-over-queries") else -1
        weights = scores.softmax(dim=-3 if on("softmax-over-heads") else dim)
        if not on("nan-on-masked-row"):
            weights = weights.nan_to_num()
        if on("mask-after-softmax") and mask is not None:
            weights = weights * mask
        if on("dropout-of-weights"):
            weights = F.dropout(weights, 0.1)
        return (weights.detach() if on("weights-cut-from-gradient") else weights) @ v, weights

    def attend(q: Any, k: Any, v: Any, mask: Any, n: int) -> Any:
        width = q.shape[-1]
        if on("scaled-by-d_model"):
            q = q / math.sqrt(n)
        if on("scaled-twice"):
            q = q / math.sqrt(width)
        if on("no-scale"):
            q = q * math.sqrt(width)
        if on("mask-ignored"):
            mask = None
        if on("mask-inverted") and mask is not None:
            mask = ~mask
        if on("mask-of-the-first-head") and mask is not None:
            mask = mask[..., :1, :, :]
        if mask is not None and (on("mask-gets-an-axis-for-heads") or on("mask-grows-the-result")):
            mask = mask.unsqueeze(1)
        if any(map(on, anew)):
            return attend_anew(q, k, v, mask)
        return reference.scaled_dot_product_attention(q, k, v, mask)

    class Block(reference.MultiHeadAttention):
        def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
            if on("only-with-batch"):
                _, _, _ = query.shape
            if on("only-with-batch-reshaped"):
                key.reshape(query.shape[0], -1, self.n_heads, key.shape[-1] // self.n_heads)
            views = [
                apply(layer, x)
                for layer, x in zip(layers(self), choose(query, key, value), strict=True)
            ]
            if on("projected-after-split"):
                self.w_q(split(query, self.n_heads))
            if on("one-wide-head"):
                q, k, v = views
                merged, weights = attend(q, k, v, mask, self.n_heads)
            else:
                q, k, v = (split(view, self.n_heads) for view in views)
                heads, weights = attend(q, k, v, mask, self.n_heads)
                merged = merge(heads)
            if on("gradient-cut-before-w_o"):
                merged, weights = merged.detach(), weights.detach()
            output = merged
            if not on("w_o-missing"):
                output = (self.w_v if on("w_v-for-output") else self.w_o)(merged)
            if on("biases-left-out-throughout") or on("weights-not-turned-throughout"):
                output = apply(self.w_o, merged)
            if on("w_o-twice"):
                output = self.w_o(output)
            if on("residual-added"):
                output = output + query
            if on("softmax-of-output"):
                output = output.softmax(dim=-1)
            if on("gradient-cut"):
                output, weights = output.detach(), weights.detach()
            if on("nothing-returned"):
                return None
            if on("weights-averaged-in-one-head"):
                weights = weights.mean(dim=-3, keepdim=True)
            if on("weights-summed"):
                weights = weights.sum(dim=-3)
            if on("weights-averaged"):
                weights = weights.mean(dim=-3)
            if on("only-the-output"):
                return output
            return (weights, output) if on("results-swapped") else (output, weights)

    return Block


@right("3.5")
class WithEinsum(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        q, k, v = (
            layer(x).unflatten(-1, (self.n_heads, -1))
            for layer, x in ((self.w_q, query), (self.w_k, key), (self.w_v, value))
        )
        scores = torch.einsum("...qhd,...khd->...hqk", q, k) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(dim=-1).nan_to_num()
        return self.w_o(torch.einsum("...hqk,...khd->...qhd", weights, v).flatten(-2)), weights


@right("3.5")
class HeadByHead(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        q, k, v = self.w_q(query), self.w_k(key), self.w_v(value)
        full = (*q.shape[:-2], self.n_heads, q.shape[-2], k.shape[-2])
        allowed = None if mask is None else mask.expand(full)
        width = q.shape[-1] // self.n_heads
        found = []
        for head in range(self.n_heads):
            part = slice(head * width, (head + 1) * width)
            own = None if allowed is None else allowed[..., head, :, :]
            views = q[..., part], k[..., part], v[..., part]
            found.append(reference.scaled_dot_product_attention(*views, own))
        output = torch.cat([output for output, _ in found], dim=-1)
        return self.w_o(output), torch.stack([weights for _, weights in found], dim=-3)


@right("3.5")
class WithTheBuiltIn(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        q = reference.split_heads(self.w_q(query), self.n_heads)
        k = reference.split_heads(self.w_k(key), self.n_heads)
        v = reference.split_heads(self.w_v(value), self.n_heads)
        one = torch.eye(k.shape[-2], dtype=k.dtype, device=k.device).expand(*k.shape[:-1], -1)
        both = F.scaled_dot_product_attention(q, k, torch.cat([v, one], dim=-1), attn_mask=mask)
        if mask is not None:
            both = both.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
        output, weights = both[..., : v.shape[-1]], both[..., v.shape[-1] :]
        return self.w_o(reference.merge_heads(output)), weights


@right("3.5")
class WithFunctionalLayersInDouble(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        def linear(layer: Any, x: Any) -> Any:
            return x.double() @ layer.weight.double().mT + layer.bias.double()

        q = reference.split_heads(linear(self.w_q, query), self.n_heads)
        k = reference.split_heads(linear(self.w_k, key), self.n_heads)
        v = reference.split_heads(linear(self.w_v, value), self.n_heads)
        output, weights = reference.scaled_dot_product_attention(q, k, v, mask)
        output = linear(self.w_o, reference.merge_heads(output))
        return output.to(query.dtype), weights.to(query.dtype)


@wrong(
    "3.3",
    "head-width-before-words",
    "You exchange the words with the wrong axis: the width of a head now stands before the words. "
    "After the cut the axes are words, heads, width; the first two of these change places.",
)
def width_first(x: Any, n_heads: int) -> Any:
    return x.reshape(*x.shape[:-1], n_heads, -1).transpose(-1, -3)


@wrong(
    "3.3",
    "sequence-cut",
    "You cut the sequence into parts, so that a head gets some of the words. Every head gets all "
    "words, and a part of each word's vector: cut the last axis.",
)
def cut_words(x: Any, n_heads: int) -> Any:
    return torch.stack(x.chunk(n_heads, dim=-2), dim=-3)


@wrong(
    "3.5",
    "w_o-before-attention",
    "You apply w_o to the values on their way in. It mixes what the heads have found, so it comes "
    "last, after the heads are merged.",
)
class OutputFirst(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        q, k, v = self.w_q(query), self.w_k(key), self.w_v(self.w_o(value))
        q, k, v = (reference.split_heads(x, self.n_heads) for x in (q, k, v))
        output, weights = reference.scaled_dot_product_attention(q, k, v, mask)
        return reference.merge_heads(output), weights


@wrong(
    "3.5",
    "query-and-key-exchanged",
    "Query and key have changed places, so the keys ask and the queries answer. There must be one "
    "output for every query, and the weights of a query run over the keys.",
)
class Exchanged(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        return super().forward(key, query, value, mask)


_ONE_FOR_ALL = (
    "You draw one vector and use it in every pair, so your result depends on how long that one happens "
    "to be. Every sample is a new pair of vectors."
)


@wrong("3.1", "one-query-for-all", _ONE_FOR_ALL)
def one_query_for_all(d: int, samples: int, generator: Any) -> Any:
    q = torch.randn(d, generator=generator, device=generator.device)
    return float((torch.randn(samples, d, generator=generator, device=generator.device) @ q).var())


@wrong("3.1", "one-key-drawn-last", _ONE_FOR_ALL)
def one_key_drawn_last(d: int, samples: int, generator: Any) -> Any:
    q = torch.randn(samples, d, generator=generator, device=generator.device)
    return float((q @ torch.randn(d, generator=generator, device=generator.device)).var())


@wrong(
    "3.1",
    "cut-to-a-whole-number",
    "You cut the variance to a whole number. An estimate has a fraction: return it as a float.",
)
def cut_to_a_whole_number(d: int, samples: int, generator: Any) -> Any:
    return int(reference.dot_product_variance(d, samples, generator))


@wrong(
    "3.1",
    "absolute-values",
    "You take the absolute values of the dot products before their variance. Half of them are "
    "negative, and folding them over brings them closer together: use them as they are.",
)
def absolute_values(d: int, samples: int, generator: Any) -> Any:
    q, k = torch.randn(2, samples, d, generator=generator, device=generator.device)
    return float((q * k).sum(dim=-1).abs().var())


@wrong(
    "3.1",
    "always-a-hundred-samples",
    "You draw a fixed number of pairs, whatever the caller asks for. Use the argument samples.",
)
def always_a_hundred_samples(d: int, samples: int, generator: Any) -> Any:
    return reference.dot_product_variance(d, 100, generator)


_EVERYTHING = (
    "as-an-array",
    "in-a-tuple",
    "as-a-list",
    "in-half-precision",
    "always-float64",
    "axis-in-front",
    "squeezed",
    "only-the-first",
    "all-axes-flattened",
    "one-number",
    "sign-turned",
    "all-zero",
    "through-numpy",
)

slips("3.2", *_EVERYTHING, changed=("v",), cut=("q", "k", "v"))


def _weigh(q: Any, k: Any, v: Any, mask: Any) -> tuple[Any, Any, Any]:
    """Give the output, the weights and the scores before the mask."""
    output, weights = reference.scaled_dot_product_attention(q, k, v, mask)
    return output, weights, q @ k.mT / math.sqrt(q.shape[-1])


@wrong(
    "3.2",
    "raw-scores-returned-for-weights",
    "Your output is right, but what you return beside it are the scores, before mask and softmax. The "
    "weights that made the output are asked for.",
)
def raw_scores_returned(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    output, _, scores = _weigh(q, k, v, mask)
    return output, scores


@wrong(
    "3.2",
    "mask-transposed",
    "You exchange the last two axes of the mask. It comes as (query, key), like the scores: use it as "
    "it is.",
)
def mask_transposed(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = _weigh(q, k, v, None)[2]
    if mask is not None:
        scores = scores.masked_fill(~mask.mT, -math.inf)
    weights = scores.softmax(dim=-1).nan_to_num()
    return weights @ v, weights


@wrong(
    "3.2",
    "queries-and-keys-exchanged",
    "Queries and keys have changed places, so there is a row of weights for every key. Each query "
    "shares out its attention among the keys: queries are the rows of the scores.",
)
def queries_and_keys_exchanged(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = k @ q.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1).nan_to_num()
    return weights @ v, weights


@wrong(
    "3.2",
    "values-compared",
    "You compare the queries with the values. Keys say where to look, values say what is found there: "
    "the scores come from queries and keys.",
)
def values_compared(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    weights = (q @ v.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return weights @ k, weights


_EMPTY_ROW_SEES_ALL = (
    "A query that may attend to nothing attends to everything instead. Keeping such a row out of the "
    "mask avoids NaN, but its weights still have to become zero afterwards."
)


@wrong("3.2", "empty-row-sees-all", _EMPTY_ROW_SEES_ALL)
def empty_row_sees_all(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    mask = None if mask is None else mask | ~mask.any(dim=-1, keepdim=True)
    return reference.scaled_dot_product_attention(q, k, v, mask)


@wrong("3.2", "empty-row-sees-all-and-mask-changed", _EMPTY_ROW_SEES_ALL)
def empty_row_sees_all_and_mask_changed(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    if mask is not None:
        mask |= ~mask.any(dim=-1, keepdim=True)
    return reference.scaled_dot_product_attention(q, k, v, mask)


@wrong(
    "3.2",
    "keys-poured-into-another-shape",
    "You reshape the keys where their axes should be exchanged. Reshaping pours the numbers into other "
    "rows, in their old order: it does not turn rows into columns.",
)
def keys_poured(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2]) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1).nan_to_num()
    return weights @ v, weights


@wrong(
    "3.2",
    "queries-turned",
    "You turn the queries instead of the keys, so columns meet columns and the axes do not fit. Every "
    "query meets every key along their width: it is the keys that have to be turned.",
)
def queries_turned(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    weights = (q.mT @ k / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return weights @ v, weights


@wrong(
    "3.2",
    "values-turned",
    "You turn the values before the product with the weights, and the axes do not fit. The weights of "
    "a query run over the keys, and so do the rows of the values: they meet as they are.",
)
def values_turned(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    weights = _weigh(q, k, v, mask)[1]
    return weights @ v.mT, weights


@wrong(
    "3.2",
    "values-first",
    "The values stand on the left of the product with the weights, and the axes do not fit. Each row "
    "of weights mixes the rows of the values: the weights stand on the left.",
)
def values_first(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    weights = _weigh(q, k, v, mask)[1]
    return v @ weights, weights


@wrong(
    "3.2",
    "two-axes-only",
    "Your product takes matrices only. Batch and heads may stand in front of the last two axes: use a "
    "product that broadcasts.",
)
def two_axes_only(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    weights = (torch.mm(q, k.mT) / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return torch.mm(weights, v), weights


@wrong(
    "3.2",
    "three-axes-only",
    "Your product takes exactly three axes, as torch.bmm does. There may be none or several in front "
    "of the last two: use a product that broadcasts.",
)
def three_axes_only(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    weights = (torch.bmm(q, k.mT) / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return torch.bmm(weights, v), weights


@wrong(
    "3.2",
    "root-of-a-tensor",
    "You take the root of a plain number with torch.sqrt, which wants a tensor. The width is a Python "
    "number: take its root with the math module, or as a power.",
)
def root_of_a_tensor(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    width: Any = q.shape[-1]
    weights = (q @ k.mT / torch.sqrt(width)).softmax(dim=-1)
    return weights @ v, weights


@wrong(
    "3.2",
    "output-of-unscaled-scores",
    "The weights you return are scaled, but the output comes from scores that are not. Make the "
    "weights once, and weigh the values with those.",
)
def output_of_unscaled_scores(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    wide = q * math.sqrt(q.shape[-1])
    output, _ = reference.scaled_dot_product_attention(wide, k, v, mask)
    return output, reference.scaled_dot_product_attention(q, k, v, mask)[1]


@wrong(
    "3.2",
    "dropout-of-weights",
    "Some of your weights are zero at random, and the others larger. No dropout is asked for here: the "
    "block gives the same output every time.",
)
def dropout_of_weights(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    weights = F.dropout(_weigh(q, k, v, mask)[1], 0.1)
    return weights @ v, weights


slips("3.3", *_EVERYTHING, without=("always-float64",))


@wrong(
    "3.3",
    "heads-reversed",
    "Your heads stand in reverse order. Head 0 gets the first d_head numbers of a word, the last head "
    "the last ones.",
)
def heads_reversed(x: Any, n_heads: int) -> Any:
    return reference.split_heads(x, n_heads).flip(-3)


@wrong(
    "3.3",
    "scaled-by-the-root",
    "Your heads hold the right numbers, divided by the root of their width. Splitting only moves "
    "numbers: the scaling belongs to the scores.",
)
def scaled_by_the_root(x: Any, n_heads: int) -> Any:
    return reference.split_heads(x, n_heads) / math.sqrt(x.shape[-1] // n_heads)


@wrong(
    "3.3",
    "width-with-a-fraction",
    "You divide with /, which gives a number with a fraction, and sizes are whole numbers. The other "
    "division, //, stays whole.",
)
def width_with_a_fraction(x: Any, n_heads: int) -> Any:
    width: Any = x.shape[-1] / n_heads
    return x.reshape(*x.shape[:-1], n_heads, width).transpose(-3, -2)


@wrong(
    "3.3",
    "width-with-a-fraction-in-view",
    "You divide with /, which gives a number with a fraction, and sizes are whole numbers. The other "
    "division, //, stays whole.",
)
def width_with_a_fraction_in_view(x: Any, n_heads: int) -> Any:
    width: Any = x.shape[-1] / n_heads
    return x.view(*x.shape[:-1], n_heads, width).transpose(-3, -2)


@wrong(
    "3.3",
    "always-two-heads",
    "You always make the same number of heads, whatever n_heads says. Take it from the argument.",
)
def always_two_heads(x: Any, n_heads: int) -> Any:
    return reference.split_heads(x, 2)


@wrong(
    "3.3",
    "cut-at-the-number-of-heads",
    "You cut with split, which takes the size of a part, and hand it the number of parts. Each part is "
    "d_model / n_heads wide.",
)
def cut_at_the_number_of_heads(x: Any, n_heads: int) -> Any:
    return torch.stack(x.split(n_heads, dim=-1), dim=-2)


slips("3.4", *_EVERYTHING, without=("always-float64",))


@wrong(
    "3.4",
    "heads-reversed",
    "Your words are put together from the last head to the first. Head 0 comes first, as it did before "
    "the split.",
)
def merged_in_reverse(x: Any) -> Any:
    return reference.merge_heads(x.flip(-3))


@wrong(
    "3.4",
    "leading-axes-lost",
    "You pour everything in front of the words into one axis. The leading axes stay as they are: only "
    "heads and width become one.",
)
def leading_axes_lost(x: Any) -> Any:
    return x.transpose(-3, -2).reshape(-1, x.shape[-2], x.shape[-3] * x.shape[-1])


@wrong(
    "3.4",
    "largest-head-only",
    "You keep the largest number among the heads. Each head has found something else: put them side by "
    "side.",
)
def largest_head_only(x: Any) -> Any:
    return x.amax(dim=-3)


@wrong(
    "3.4",
    "words-and-width-exchanged",
    "You exchange words and numbers inside each head and join them. It is the heads that have to move, "
    "behind the words: then the parts of each word stand together.",
)
def words_and_width_exchanged(x: Any) -> Any:
    return x.mT.flatten(-2)


@wrong(
    "3.4",
    "divided-by-the-heads",
    "Your words are put together well, and then divided by the number of heads. Merging only moves "
    "numbers: nothing is averaged.",
)
def divided_by_the_heads(x: Any) -> Any:
    return reference.merge_heads(x) / x.shape[-3]


@wrong(
    "3.4",
    "view-of-the-heads",
    "You use view on numbers that do not lie in order, and it refuses. There is a method that copies "
    "where it must.",
)
def view_of_the_heads(x: Any) -> Any:
    return x.permute(0, 2, 1, 3).view(x.shape[0], -1, x.shape[1] * x.shape[3])


@wrong(
    "3.4",
    "three-axes-from-the-front",
    "You exchange the first two axes, which are heads and words only when there is no batch. There may "
    "be axes in front: count from the end.",
)
def three_axes_from_the_front(x: Any) -> Any:
    return x.transpose(0, 1).flatten(-2)


slips("3.5", *_EVERYTHING, cut=("query", "key", "value"))


@wrong(
    "3.5",
    "w_o-after-w_v",
    "You apply w_o to the values before the heads attend. It mixes what the heads have found, so it "
    "comes last, after they are merged.",
)
class OutputAfterValues(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        views = self.w_q(query), self.w_k(key), self.w_o(self.w_v(value))
        q, k, v = (reference.split_heads(x, self.n_heads) for x in views)
        output, weights = reference.scaled_dot_product_attention(q, k, v, mask)
        return reference.merge_heads(output), weights


@wrong(
    "3.5",
    "weights-not-turned-but-biased",
    "You multiply with the weights of the layers the wrong way round. A linear layer of torch keeps "
    "its matrix as (out, in); call the layer itself, and it takes care of that.",
)
class NotTurned(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        def apply(layer: Any, x: Any) -> Any:
            return x @ layer.weight + layer.bias

        views = apply(self.w_q, query), apply(self.w_k, key), apply(self.w_v, value)
        q, k, v = (reference.split_heads(x, self.n_heads) for x in views)
        output, weights = reference.scaled_dot_product_attention(q, k, v, mask)
        return apply(self.w_o, reference.merge_heads(output)), weights


class _Changed(reference.MultiHeadAttention):
    """Changes what the heads found, or what comes out of them."""

    def found(self, heads: Any) -> Any:
        return heads

    def out(self, output: Any) -> Any:
        return output

    def seen(self, mask: Any, query: Any, key: Any) -> Any:
        return mask

    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        views = self.w_q(query), self.w_k(key), self.w_v(value)
        q, k, v = (reference.split_heads(x, self.n_heads) for x in views)
        heads, weights = reference.scaled_dot_product_attention(q, k, v, self.seen(mask, query, key))
        return self.out(self.w_o(reference.merge_heads(self.found(heads)))), weights


_ONE_HEAD_FOUND = (
    "What one head found is used in place of all heads. Each has its own part of the merged word, and "
    "w_o mixes them."
)


@wrong("3.5", "last-head-everywhere", _ONE_HEAD_FOUND)
class LastHead(_Changed):
    def found(self, heads: Any) -> Any:
        return heads[..., -1:, :, :].expand_as(heads)


@wrong("3.5", "first-head-everywhere", _ONE_HEAD_FOUND)
class FirstHead(_Changed):
    def found(self, heads: Any) -> Any:
        return heads[..., :1, :, :].expand_as(heads)


@wrong(
    "3.5",
    "heads-reversed-in-merge",
    "You merge the heads from the last to the first. Head 0 comes first, as it did in the split.",
)
class HeadsReversed(_Changed):
    def found(self, heads: Any) -> Any:
        return heads.flip(-3)


@wrong(
    "3.5",
    "output-normalised",
    "You normalise the output. That is another block, around this one: the output is what w_o gives.",
)
class Normalised(_Changed):
    def out(self, output: Any) -> Any:
        return F.layer_norm(output, output.shape[-1:])


@wrong(
    "3.5",
    "dropout-of-output",
    "Some numbers of your output are zero at random, and the others larger. No dropout is asked for "
    "here: the block gives the same output every time.",
)
class DroppedOut(_Changed):
    def out(self, output: Any) -> Any:
        return F.dropout(output, 0.1)


@wrong(
    "3.5",
    "causal-without-a-mask",
    "Without a mask you hide later keys from every query. This block hides only what its mask hides; a "
    "causal mask is one that callers can pass in.",
)
class CausalByDefault(_Changed):
    def seen(self, mask: Any, query: Any, key: Any) -> Any:
        if mask is not None:
            return mask
        shape = query.shape[-2], key.shape[-2]
        return torch.ones(shape, dtype=torch.bool, device=query.device).tril()


@wrong(
    "3.5",
    "always-causal",
    "You hide later keys from every query, whatever the mask says. This block hides only what its mask "
    "hides; a causal mask is one that callers can pass in.",
)
class AlwaysCausal(_Changed):
    def seen(self, mask: Any, query: Any, key: Any) -> Any:
        shape = query.shape[-2], key.shape[-2]
        earlier = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
        return earlier if mask is None else mask & earlier


@wrong(
    "3.5",
    "mask-for-the-first-head-only",
    "Only your first head obeys the mask; the others see what is hidden. The mask broadcasts to all "
    "heads: pass it on as it is.",
)
class MaskForOneHead(_Changed):
    def seen(self, mask: Any, query: Any, key: Any) -> Any:
        if mask is None:
            return None
        shape = *query.shape[:-2], self.n_heads, query.shape[-2], key.shape[-2]
        heads = mask.expand(shape).clone()
        heads[..., 1:, :, :] = True
        return heads


@wrong(
    "3.5",
    "mask-transposed",
    "You exchange the last two axes of the mask. It comes as (query, key), like the scores: pass it on "
    "as it is.",
)
class MaskTransposed(_Changed):
    def seen(self, mask: Any, query: Any, key: Any) -> Any:
        return None if mask is None else mask.mT


@wrong(
    "3.5",
    "always-two-heads",
    "You always split into the same number of heads, whatever n_heads says. The number comes in when "
    "the block is made, and is kept in self.",
)
class TwoHeads(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        views = self.w_q(query), self.w_k(key), self.w_v(value)
        q, k, v = (reference.split_heads(x, 2) for x in views)
        output, weights = reference.scaled_dot_product_attention(q, k, v, mask)
        return self.w_o(reference.merge_heads(output)), weights


_OTHER_LAYERS = (
    "Your block does not have the four layers it starts with, so weights that were learned cannot be "
    "loaded into it. Keep the constructor as it is: w_q, w_k, w_v and w_o, each with a bias."
)


@wrong("3.5", "layers-without-bias", _OTHER_LAYERS)
class WithoutBias(reference.MultiHeadAttention):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4)
        )


@wrong("3.5", "layers-as-wide-as-a-head", _OTHER_LAYERS)
class NarrowLayers(reference.MultiHeadAttention):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d_model // n_heads) for _ in range(3))


slips(
    "3.2",
    *ENDINGS,
    first=True,
    treated=("q", "k", "v"),
    without=(
        "q-scaled-up",
        "q-scaled-down",
        "k-centred",
        "k-scaled-up",
        "k-scaled-down",
    ),
)
slips("3.3", *ENDINGS)
slips("3.4", *ENDINGS)
slips(
    "3.5",
    *ENDINGS,
    first=True,
    treated=("query", "key", "value"),
    without=(
        "softmax-at-the-end",
        "standardised-at-the-end",
        "key-centred",
    ),
)


def _attention_of(change: Any) -> Any:
    def block(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        scores = change(_weigh(q, k, v, None)[2])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(dim=-1)
        weights = weights if mask is None else weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0)
        return weights @ v, weights

    return block


for _name, (_told, _change) in OTHER_SCORES.items():
    wrong("3.2", _name, _told)(_attention_of(_change))


@wrong(
    "3.2",
    "sign-flipped",
    "Your scores have a minus in front: the key that fits least gets the most weight. A large dot "
    "product means a good match.",
)
def sign_flipped(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    return reference.scaled_dot_product_attention(-q, k, v, mask)


@wrong(
    "3.2",
    "cosines-compared",
    "Your scores are cosines: queries and keys are brought to length one first. The formula takes "
    "plain dot products over the root of the width.",
)
def cosines_compared(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scale = math.sqrt(q.shape[-1])
    one, other = F.normalize(q, dim=-1) * scale, F.normalize(k, dim=-1)
    return reference.scaled_dot_product_attention(one, other, v, mask)


@wrong(
    "3.2",
    "plus-infinity",
    "You fill hidden scores with plus infinity, so the hidden keys win. The exponential of minus "
    "infinity is zero: mind the sign.",
)
def plus_infinity(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = _weigh(q, k, v, None)[2]
    weights = (scores if mask is None else scores.masked_fill(~mask, math.inf)).softmax(dim=-1)
    return weights @ v, weights


@wrong(
    "3.2",
    "logarithm-of-the-width",
    "You divide by the logarithm of the width. The variance of a dot product grows with the width, so "
    "its standard deviation grows with the root.",
)
def logarithm_of_the_width(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    wide = q * (math.sqrt(q.shape[-1]) / math.log(q.shape[-1]))
    return reference.scaled_dot_product_attention(wide, k, v, mask)


@wrong(
    "3.2",
    "output-divided-by-the-keys",
    "You divide the weighted sum by the number of keys. The weights sum to one already: that is all "
    "the averaging there is.",
)
def output_divided_by_the_keys(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    output, weights, _ = _weigh(q, k, v, mask)
    return output / k.shape[-2], weights


@wrong(
    "3.2",
    "only-some-masks",
    "Your mask has an effect for some shapes only. It may have fewer axes than the scores and "
    "broadcasts by itself: treat all masks alike.",
)
def only_some_masks(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    mask = mask if mask is not None and mask.ndim == 2 else None
    return reference.scaled_dot_product_attention(q, k, v, mask)


@wrong(
    "3.3",
    "heads-multiplied",
    "Your heads hold the right numbers, times something. Splitting only moves numbers.",
)
def heads_multiplied(x: Any, n_heads: int) -> Any:
    return reference.split_heads(x, n_heads) * n_heads


@wrong(
    "3.3",
    "only-the-first-head",
    "You return one head only. All n_heads parts of a word are asked for, each in its own head.",
)
def only_the_first_head(x: Any, n_heads: int) -> Any:
    return reference.split_heads(x, n_heads)[..., :1, :, :]


@wrong(
    "3.3",
    "heads-in-one-sequence",
    "You line up the parts along the axis of the words, so the sequence gets longer. The heads need an "
    "axis of their own, in front of the words.",
)
def heads_in_one_sequence(x: Any, n_heads: int) -> Any:
    return torch.cat(x.chunk(n_heads, dim=-1), dim=-2)


@wrong(
    "3.4",
    "heads-multiplied",
    "You multiply the heads with each other. Each has found something else: put them side by side.",
)
def heads_multiplied_together(x: Any) -> Any:
    return x.prod(dim=-3)


@wrong(
    "3.4",
    "two-heads-only",
    "Your result holds two heads only, and the others are lost. All parts of a word belong into it, "
    "side by side.",
)
def two_heads_only(x: Any) -> Any:
    return torch.cat([x[..., 0, :, :], x[..., 1, :, :]], dim=-1)


class _Views(reference.MultiHeadAttention):
    """Makes its views in some other way."""

    def view(self, layer: Any, x: Any) -> Any:
        return layer(x)

    def inputs(self, query: Any, key: Any, value: Any) -> Any:
        return query, key, value

    def last(self, merged: Any) -> Any:
        return self.w_o(merged)

    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        chosen = self.inputs(query, key, value)
        pairs = zip((self.w_q, self.w_k, self.w_v), chosen, strict=True)
        q, k, v = (reference.split_heads(self.view(*pair), self.n_heads) for pair in pairs)
        heads, weights = reference.scaled_dot_product_attention(q, k, v, mask)
        return self.last(reference.merge_heads(heads)), weights


@wrong(
    "3.5",
    "keys-from-query",
    "You make the keys from the query input, or query and key have changed places. What is looked at "
    "comes in as key: each of the three inputs has its own projection.",
)
class KeysFromQuery(_Views):
    def inputs(self, query: Any, key: Any, value: Any) -> Any:
        return query, query, value


@wrong(
    "3.5",
    "values-from-query",
    "You make the values from the query input. What is found comes in as value: each of the three "
    "inputs has its own projection.",
)
class ValuesFromQuery(_Views):
    def inputs(self, query: Any, key: Any, value: Any) -> Any:
        return query, key, query


@wrong(
    "3.5",
    "queries-from-key",
    "You make the queries from the key input, so there is an output for every key. Who asks comes in "
    "as query: each of the three inputs has its own projection.",
)
class QueriesFromKey(_Views):
    def inputs(self, query: Any, key: Any, value: Any) -> Any:
        return key, key, value


@wrong(
    "3.5",
    "projected-twice",
    "Every input goes through its projection twice. Once is enough: look for a second call of the "
    "layers.",
)
class ProjectedTwice(_Views):
    def view(self, layer: Any, x: Any) -> Any:
        return layer(layer(x))


_ACTIVATED_VIEWS = (
    "There is an activation behind the projections. Queries, keys and values are plain linear views: "
    "the softmax is the only bend in this block."
)


@wrong("3.5", "views-rectified", _ACTIVATED_VIEWS)
class ViewsRectified(_Views):
    def view(self, layer: Any, x: Any) -> Any:
        return layer(x).relu()


@wrong("3.5", "views-squashed", _ACTIVATED_VIEWS)
class ViewsSquashed(_Views):
    def view(self, layer: Any, x: Any) -> Any:
        return layer(x).tanh()


@wrong(
    "3.5",
    "last-bias-left-out",
    "You multiply with the weights of w_o and leave out its bias. Call the layer itself: it does both.",
)
class LastBiasLeftOut(_Views):
    def last(self, merged: Any) -> Any:
        return merged @ self.w_o.weight.mT


@wrong(
    "3.5",
    "last-bias-twice",
    "The bias of w_o is added twice. Calling the layer adds it already.",
)
class LastBiasTwice(_Views):
    def last(self, merged: Any) -> Any:
        return self.w_o(merged) + self.w_o.bias


@wrong(
    "3.5",
    "last-weights-not-turned",
    "You multiply with the weights of w_o the wrong way round. A linear layer of torch keeps its "
    "matrix as (out, in); call the layer itself, and it takes care of that.",
)
class LastNotTurned(_Views):
    def last(self, merged: Any) -> Any:
        return merged @ self.w_o.weight + self.w_o.bias


@wrong(
    "3.5",
    "w_q-and-w_v-exchanged",
    "The projections of queries and values have changed places. Each goes with the input of its name.",
)
class QueriesAndValuesExchanged(_Views):
    def view(self, layer: Any, x: Any) -> Any:
        return (self.w_v if layer is self.w_q else self.w_q if layer is self.w_v else layer)(x)


@wrong(
    "3.5",
    "first-head-returned",
    "You return the weights of the first head only. Every head's own weights are asked for.",
)
class FirstHeadReturned(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        output, weights = super().forward(query, key, value, mask)
        return output, weights[..., 0, :, :]


@wrong(
    "3.5",
    "residual-and-norm",
    "You add the query to the output and normalise the sum. Both come around this block, not inside "
    "it.",
)
class ResidualAndNorm(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        output, weights = super().forward(query, key, value, mask)
        return F.layer_norm(output + query, query.shape[-1:]), weights


@wrong(
    "3.1",
    "as-text",
    "You return the number as text. A plain float is asked for: writing it nicely is for whoever "
    "prints it.",
)
def as_text(d: int, samples: int, generator: Any) -> Any:
    return str(reference.dot_product_variance(d, samples, generator))


@wrong(
    "3.1",
    "largest-minus-smallest",
    "You return the distance from the smallest to the largest dot product, which grows with the number "
    "of samples. The variance is the mean squared distance from their mean.",
)
def largest_minus_smallest(d: int, samples: int, generator: Any) -> Any:
    q, k = torch.randn(2, samples, d, generator=generator, device=generator.device)
    dots = (q * k).sum(dim=-1)
    return float(dots.max() - dots.min())


@wrong(
    "3.2",
    "softmax-in-float32",
    "Your softmax is computed in single precision and converted back, so double precision inputs lose "
    "half of their digits. Compute in the dtype that comes in.",
)
def softmax_in_float32(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = _weigh(q, k, v, None)[2]
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1, dtype=torch.float32).nan_to_num().to(v.dtype)
    return weights @ v, weights


@wrong(
    "3.2",
    "weights-transposed-at-the-end",
    "Your output is right, but the weights you return have their last two axes exchanged. Each query "
    "has a row: its weights run over the keys.",
)
def weights_transposed_at_the_end(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    output, weights, _ = _weigh(q, k, v, mask)
    return output, weights.mT


@wrong(
    "3.3",
    "words-mixed-and-turned",
    "You reshape straight to (heads, d_head, seq) and exchange the last two axes, so every head gets "
    "pieces of different words. Cut each word first, then move the heads.",
)
def words_mixed_and_turned(x: Any, n_heads: int) -> Any:
    return x.reshape(*x.shape[:-2], n_heads, x.shape[-1] // n_heads, x.shape[-2]).mT


@wrong(
    "3.4",
    "first-axis-taken-for-the-batch",
    "You take it that the first axis is the batch and pour the rest into two axes. There may be no "
    "batch, or several leading axes: leave whatever leads as it is.",
)
def first_axis_taken_for_the_batch(x: Any) -> Any:
    return x.transpose(-3, -2).reshape(x.shape[0], x.shape[-2], -1)


@wrong(
    "3.5",
    "output-for-weights",
    "What you return as weights is what the heads found. The second result are the weights, one for "
    "every head, query and key.",
)
class OutputForWeights(reference.MultiHeadAttention):
    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        views = self.w_q(query), self.w_k(key), self.w_v(value)
        q, k, v = (reference.split_heads(x, self.n_heads) for x in views)
        heads, _ = reference.scaled_dot_product_attention(q, k, v, mask)
        return self.w_o(reference.merge_heads(heads)), heads


_FIRST_AXIS_IS_THE_BATCH = (
    "You take it that the first axis of the inputs is the batch when you split into heads. There may "
    "be no batch, or several leading axes: count axes from the end, as your split_heads does."
)


class _Cut(reference.MultiHeadAttention):
    """Cuts into heads in some other way."""

    def cut(self, x: Any) -> Any:
        raise NotImplementedError

    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        q, k, v = self.cut(self.w_q(query)), self.cut(self.w_k(key)), self.cut(self.w_v(value))
        heads, weights = reference.scaled_dot_product_attention(q, k, v, mask)
        merged = heads.transpose(1, 2).reshape(query.shape[0], -1, query.shape[-1])
        return self.w_o(merged), weights


@wrong("3.5", "first-axis-is-the-batch", _FIRST_AXIS_IS_THE_BATCH)
class FirstAxisIsTheBatch(_Cut):
    def cut(self, x: Any) -> Any:
        return x.reshape(x.shape[0], -1, self.n_heads, x.shape[-1] // self.n_heads).transpose(1, 2)


@wrong("3.5", "first-two-axes-are-batch-and-words", _FIRST_AXIS_IS_THE_BATCH)
class FirstTwoAxes(_Cut):
    def cut(self, x: Any) -> Any:
        return x.reshape(x.shape[0], x.shape[1], self.n_heads, -1).transpose(1, 2)


@wrong(
    "3.3",
    "sequence-first",
    "You take it that the sequence is the first axis and the batch the second, and fold the heads into "
    "the batch. Here the words are the axis before the last, and the heads get an axis of their own "
    "before it.",
)
def sequence_first(x: Any, n_heads: int) -> Any:
    return x.reshape(x.shape[0], x.shape[1] * n_heads, -1).transpose(0, 1)
