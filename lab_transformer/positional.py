"""Order for a set: positions as vectors that can be told apart and compared."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lab_transformer._checks import check_even, check_shapes

BASE = 10000.0


#: id = "4.1"
#: title = "Sinusoidal positions"
#: points = 5
#: difficulty = 3
#: minutes = 30
#: needs = []
#: hints = [
#:     "How many different frequencies are there for d_model columns, and who shares one?",
#:     "Frequency i is 10000 to the power -2i / d_model; sines fill even columns, cosines odd ones.",
#:     "An outer product of positions and frequencies gives all angles; write with [:, 0::2].",
#: ]
def sinusoidal_positions(length: int, d_model: int) -> Float[Tensor, "seq d_model"]:
    """Compute the position table of the 2017 paper: column 2i a sine, column 2i + 1 its cosine."""
    check_even(d_model)
    ### BEGIN SOLUTION
    # In double precision: far positions would lose digits of their angle otherwise.
    position = torch.arange(length, dtype=torch.float64)
    frequency = BASE ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angle = torch.outer(position, frequency)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2).to(torch.get_default_dtype())
    ### END SOLUTION


#: id = "4.2"
#: title = "A fixed matrix moves every position"
#: points = 5
#: difficulty = 4
#: minutes = 30
#: needs = []
#: hints = [
#:     "What are sin(a + b) and cos(a + b) in terms of the sines and cosines of a and b?",
#:     "Every pair of columns turns by its own angle, frequency times offset: 2 x 2 blocks.",
#:     "Row vectors multiply from the left: a block is [[cos, -sin], [sin, cos]].",
#: ]
def shift_matrix(offset: int, d_model: int) -> Float[Tensor, "d_model d_model"]:
    """Build the matrix M with PE[p + offset] == PE[p] @ M for every position p.

    PE is the table of `sinusoidal_positions`. A negative offset moves back.
    """
    check_even(d_model)
    ### BEGIN SOLUTION
    angle = offset * BASE ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    even = torch.arange(0, d_model, 2)
    matrix = torch.zeros(d_model, d_model, dtype=torch.float64)
    matrix[even, even] = matrix[even + 1, even + 1] = angle.cos()
    matrix[even, even + 1] = -angle.sin()
    matrix[even + 1, even] = angle.sin()
    return matrix.to(torch.get_default_dtype())
    ### END SOLUTION


#: id = "4.3"
#: title = "Adding positions to embeddings"
#: points = 2
#: difficulty = 1
#: minutes = 10
#: needs = []
#: hints = [
#:     "Embeddings start out small: which of the two would drown the other in the sum?",
#:     "Scale the embeddings by the root of their width, and use as many positions as there are words.",
#:     "embeddings times the root of d_model, plus the first seq rows of positions.",
#: ]
def add_positions(
    embeddings: Float[Tensor, "... seq d_model"],
    positions: Float[Tensor, "length d_model"],
) -> Float[Tensor, "... seq d_model"]:
    """Scale the embeddings by the root of d_model and add a position to each.

    The table of positions may be longer than the sequence; its first rows are used.
    """
    check_shapes(embeddings=(embeddings, "... seq d_model"), positions=(positions, "length d_model"))
    seq, d_model = embeddings.shape[-2:]
    if seq > len(positions):
        raise ValueError(f"seq is {seq}, but there are only {len(positions)} positions")
    ### BEGIN SOLUTION
    return embeddings * math.sqrt(d_model) + positions[:seq].to(embeddings)
    ### END SOLUTION


#: id = "4.4"
#: title = "Rotary positions"
#: points = 5
#: difficulty = 4
#: minutes = 30
#: needs = []
#: hints = [
#:     "If query and key are both turned by their position, what does their dot product see?",
#:     "Columns 2i and 2i + 1 are a point in the plane; turn it by position times frequency i.",
#:     "New pair: (a cos - b sin, a sin + b cos), put back into the same two columns.",
#: ]
def rotate(
    x: Float[Tensor, "... seq d_head"], positions: Int[Tensor, "seq"]
) -> Float[Tensor, "... seq d_head"]:
    """Turn every pair of columns (2i, 2i + 1) by its word's position times 10000 ** (-2i / d_head)."""
    check_shapes(x=(x, "... seq d_head"), positions=(positions, "seq"))
    check_even(x.shape[-1], "d_head")
    ### BEGIN SOLUTION
    dtype = torch.promote_types(x.dtype, torch.float32)
    column = torch.arange(0, x.shape[-1], 2, dtype=dtype, device=x.device)
    angle = torch.outer(positions.to(x.device, dtype), BASE ** (-column / x.shape[-1]))
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
    ### END SOLUTION
