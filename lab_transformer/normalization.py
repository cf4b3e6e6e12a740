"""Keeping numbers in range: layer norm, batch norm, and the two ways around a residual path."""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor

from lab_transformer._checks import check_boolean, check_shapes


#: id = "5.1"
#: title = "Layer norm"
#: points = 4
#: difficulty = 2
#: minutes = 15
#: needs = []
#: hints = [
#:     "Does the result of one word depend on any other word?",
#:     "Mean and biased variance over the features of each word; eps belongs under the root.",
#:     "(x - mean) / (variance + eps).sqrt(), times gain, plus bias; keepdim helps.",
#: ]
def layer_norm(
    x: Float[Tensor, "... d_model"],
    gain: Float[Tensor, "d_model"],
    bias: Float[Tensor, "d_model"],
    eps: float = 1e-5,
) -> Float[Tensor, "... d_model"]:
    """Normalise every word over its own features, then scale and shift them.

    Uses the biased variance, with eps inside the root. It is right also where
    the mean of the features is large against their spread.
    """
    check_shapes(
        x=(x, "... d_model"),
        gain=(gain, "d_model"),
        bias=(bias, "d_model"),
    )
    ### BEGIN SOLUTION
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return centred / (variance + eps).sqrt() * gain + bias
    ### END SOLUTION


#: id = "5.2"
#: title = "Batch norm that does not count padding"
#: points = 5
#: difficulty = 3
#: minutes = 25
#: needs = []
#: hints = [
#:     "A batch holds 3 words and 100 pads: what is the mean of a feature, and what should it be?",
#:     "One mean and one variance a feature, over batch and positions, from unmasked words only.",
#:     "x[mask] gives the real words as rows; without a mask, flatten batch and positions.",
#: ]
def batch_norm(
    x: Float[Tensor, "batch seq d_model"],
    gain: Float[Tensor, "d_model"],
    bias: Float[Tensor, "d_model"],
    mask: Bool[Tensor, "batch seq"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "batch seq d_model"]:
    """Normalise every feature over all words, then scale and shift it.

    Where the mask is False there is padding: it is left out of mean and
    (biased) variance, and normalised with them like every other position.
    The variance is right also where the mean is large against the spread.
    All numbers in x are finite, those at padding too.
    """
    check_shapes(
        x=(x, "batch seq d_model"),
        gain=(gain, "d_model"),
        bias=(bias, "d_model"),
    )
    if mask is not None:
        check_boolean(mask)
        check_shapes(x=(x, "batch seq d_model"), mask=(mask, "batch seq"))
        if not mask.any():
            raise ValueError("the mask leaves no word to take statistics from")
    ### BEGIN SOLUTION
    words = x.flatten(0, 1) if mask is None else x[mask]
    mean = words.mean(dim=0)
    variance = (words - mean).square().mean(dim=0)
    return (x - mean) / (variance + eps).sqrt() * gain + bias
    ### END SOLUTION


#: id = "5.3"
#: title = "Post-norm: the residual of 2017"
#: points = 2
#: difficulty = 1
#: minutes = 5
#: needs = []
#: hints = [
#:     "What does the residual path carry around the sublayer?",
#:     "Add first, normalise the sum.",
#:     "norm of (x plus the sublayer of x).",
#: ]
def post_norm(
    x: Float[Tensor, "..."],
    sublayer: Callable[[Tensor], Tensor],
    norm: Callable[[Tensor], Tensor],
) -> Float[Tensor, "..."]:
    """Add the sublayer's result to its input and normalise the sum.

    The sublayer is called once: it may draw at random, or keep what it sees.
    """
    ### BEGIN SOLUTION
    return norm(x + sublayer(x))
    ### END SOLUTION


#: id = "5.4"
#: title = "Pre-norm: the path stays free"
#: points = 2
#: difficulty = 1
#: minutes = 5
#: needs = []
#: hints = [
#:     "Which version of x should reach the next block untouched?",
#:     "Only the sublayer sees normalised numbers; the path around it stays raw.",
#:     "x plus the sublayer of (norm of x).",
#: ]
def pre_norm(
    x: Float[Tensor, "..."],
    sublayer: Callable[[Tensor], Tensor],
    norm: Callable[[Tensor], Tensor],
) -> Float[Tensor, "..."]:
    """Normalise what the sublayer sees; add its result to the raw input.

    The sublayer is called once: it may draw at random, or keep what it sees.
    """
    ### BEGIN SOLUTION
    return x + sublayer(norm(x))
    ### END SOLUTION
