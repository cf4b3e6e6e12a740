"""Recurrence: one step waits for the other, and gradients fade with the distance."""

import torch
from jaxtyping import Float
from torch import Tensor

from lab_transformer._checks import check_shapes


#: id = "1.3"
#: title = "One step of a recurrent network"
#: points = 3
#: difficulty = 1
#: minutes = 10
#: needs = []
#: hints = [
#:     "Which two things does the new state depend on, and how are they brought to the same width?",
#:     "Weights multiply from the right. Add both products and the bias, then squash.",
#:     "tanh of (x times w_x, plus h times w_h, plus b).",
#: ]
def rnn_cell(
    x: Float[Tensor, "... d_in"],
    h: Float[Tensor, "... d_hidden"],
    w_x: Float[Tensor, "d_in d_hidden"],
    w_h: Float[Tensor, "d_hidden d_hidden"],
    b: Float[Tensor, "d_hidden"],
) -> Float[Tensor, "... d_hidden"]:
    """Mix the input with the state so far and squash the sum with tanh."""
    check_shapes(
        x=(x, "... d_in"),
        h=(h, "... d_hidden"),
        w_x=(w_x, "d_in d_hidden"),
        w_h=(w_h, "d_hidden d_hidden"),
        b=(b, "d_hidden"),
    )
    ### BEGIN SOLUTION
    return torch.tanh(x @ w_x + h @ w_h + b)
    ### END SOLUTION


#: id = "1.4"
#: title = "Unrolling a recurrent network"
#: points = 4
#: difficulty = 2
#: minutes = 15
#: needs = ["1.3"]
#: hints = [
#:     "What has to be known before step t can be computed?",
#:     "Walk along the seq axis, keep the newest state in a variable, and collect every state.",
#:     "For each t: h = rnn_cell(xs[..., t, :], h, ...), append it; at the end stack along dim -2.",
#: ]
def rnn_forward(
    xs: Float[Tensor, "... seq d_in"],
    h0: Float[Tensor, "... d_hidden"],
    w_x: Float[Tensor, "d_in d_hidden"],
    w_h: Float[Tensor, "d_hidden d_hidden"],
    b: Float[Tensor, "d_hidden"],
) -> tuple[Float[Tensor, "... seq d_hidden"], Float[Tensor, "... d_hidden"]]:
    """Run the cell along the sequence, starting from the state h0.

    Returns the states after every input, and the last of them. h0 is not among
    the states.
    """
    check_shapes(
        xs=(xs, "... seq d_in"),
        h0=(h0, "... d_hidden"),
        w_x=(w_x, "d_in d_hidden"),
    )
    if xs.shape[-2] == 0:
        raise ValueError("xs has no step to run: its seq axis is empty")
    ### BEGIN SOLUTION
    h, states = h0, []
    for x in xs.unbind(dim=-2):
        h = rnn_cell(x, h, w_x, w_h, b)
        states.append(h)
    return torch.stack(states, dim=-2), h
    ### END SOLUTION


#: id = "1.5"
#: title = "How much of the first word is left"
#: points = 5
#: difficulty = 3
#: minutes = 25
#: needs = []
#: hints = [
#:     "The last state has d_hidden numbers and input t has d_in: how large is their Jacobian?",
#:     "torch.autograd.grad of one entry of the last state gives one row of every Jacobian at once.",
#:     "Add up the squared gradients over all d_hidden rows and over d_in, then take the root.",
#: ]
def gradient_by_distance(
    states: Float[Tensor, "... seq d_hidden"],
    inputs: Float[Tensor, "... seq d_in"],
) -> Float[Tensor, "... seq"]:
    """Measure how strongly the last state depends on the input of every step.

    For every step t: the Frobenius norm of the Jacobian
    d(last state) / d(input t). The states must have been computed from inputs
    that require gradients. Nobody needs the graph behind the states
    afterwards: it may be kept or used up, and inputs.grad may be written.
    """
    check_shapes(
        states=(states, "... seq d_hidden"),
        inputs=(inputs, "... seq d_in"),
    )
    if not states.requires_grad or not inputs.requires_grad:
        raise ValueError(
            "the states carry no gradient: call inputs.requires_grad_() "
            "before the states are computed from them"
        )
    ### BEGIN SOLUTION
    last = states[..., -1, :]
    squares = torch.zeros_like(inputs[..., 0])
    for unit in last.unbind(dim=-1):
        # Sentences do not mix, so the sum over the batch keeps each
        # sentence's own gradient.
        (gradient,) = torch.autograd.grad(unit.sum(), inputs, retain_graph=True)
        squares = squares + gradient.square().sum(dim=-1)
    return squares.sqrt()
    ### END SOLUTION


#: id = "1.6"
#: title = "Clipping gradients by their global norm"
#: points = 4
#: difficulty = 2
#: minutes = 15
#: needs = []
#: hints = [
#:     "If each tensor were clipped alone, would the direction of the whole step stay the same?",
#:     "One norm over all numbers of all tensors; one factor for all of them, never above 1.",
#:     "factor = max_norm / norm if the norm exceeds max_norm, else 1; return new tensors times it.",
#: ]
def clip_gradients(
    gradients: list[Float[Tensor, "..."]],
    max_norm: float,
) -> list[Float[Tensor, "..."]]:
    """Shrink all gradients by one factor, to a common norm of at most max_norm.

    Gradients whose global norm is already below max_norm come back unchanged:
    as they are or as copies, both are fine. The given tensors are never
    changed. An empty list stays empty.
    """
    if max_norm <= 0:
        raise ValueError(f"max_norm must be positive, it is {max_norm}")
    if not gradients:
        return []
    ### BEGIN SOLUTION
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    factor = (max_norm / norm).clamp(max=1.0)
    return [gradient * factor for gradient in gradients]
    ### END SOLUTION
