"""Teacher forcing: the inputs that a target gives, and the loss on its words."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lab_transformer._checks import check_shapes


#: id = "6.4"
#: title = "Shifted right"
#: points = 2
#: difficulty = 1
#: minutes = 10
#: needs = []
#: hints = [
#:     "When the model must write word t, which words has it already written?",
#:     "The input is the target moved by one place: the start token comes in, the last word goes out.",
#:     "Concatenate a column of bos_id with targets[..., :-1].",
#: ]
def shift_right(
    targets: Int[Tensor, "... seq"],
    bos_id: int,
) -> Int[Tensor, "... seq"]:
    """Make the decoder's input: bos_id, then all of the target but its last."""
    check_shapes(targets=(targets, "... seq"))
    ### BEGIN SOLUTION
    start = torch.full_like(targets[..., :1], bos_id)
    return torch.cat([start, targets[..., :-1]], dim=-1)
    ### END SOLUTION


#: id = "6.5"
#: title = "A loss that ignores padding"
#: points = 5
#: difficulty = 3
#: minutes = 25
#: needs = []
#: hints = [
#:     "By how many tokens is the sum of losses divided: all, or those that are words?",
#:     "With smoothing s the target is a mixture: 1 - s on the word, s spread evenly over all of V.",
#:     "(1 - s) * -log p[target] + s * the mean of -log p; mean over the tokens that are not padding.",
#: ]
def sequence_loss(
    logits: Float[Tensor, "... seq vocab"],
    targets: Int[Tensor, "... seq"],
    pad_id: int,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Average the cross-entropy over all targets that are not padding.

    Label smoothing gives every word of the vocabulary, the target included,
    smoothing / vocab of the probability, and the rest to the target, as
    F.cross_entropy does. A batch of nothing but padding has the loss 0. The
    padding id may lie outside the vocabulary, as -100 does. All logits are
    finite: smoothed, a word of probability 0 would cost infinitely much.
    """
    check_shapes(logits=(logits, "... seq vocab"), targets=(targets, "... seq"))
    if not 0.0 <= smoothing <= 1.0:
        raise ValueError(f"smoothing is a share from 0 to 1, it is {smoothing}")
    ### BEGIN SOLUTION
    log_probabilities = torch.log_softmax(logits, dim=-1)
    # A padding id outside the vocabulary needs a harmless stand-in.
    real = targets != pad_id
    chosen = targets.where(real, 0).unsqueeze(-1)
    losses = -(1 - smoothing) * log_probabilities.gather(-1, chosen).squeeze(-1)
    if smoothing:
        losses = losses - smoothing * log_probabilities.mean(dim=-1)
    return losses.where(real, 0.0).sum() / real.sum().clamp(min=1)
    ### END SOLUTION
