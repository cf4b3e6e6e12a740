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
#:     "The even columns are the 2i of the formula: all frequencies at once, each for two columns.",
#:     "An outer product of positions and frequencies gives all angles; write with [:, 0::2].",
#: ]
def sinusoidal_positions(
    length: int,
    d_model: int,
) -> Float[Tensor, "seq d_model"]:
    """Compute the position table of the 2017 paper, in the default dtype.

    In the row of position p, column 2i is the sine and column 2i + 1 the cosine
    of the angle p * 10000 ** (-2i / d_model), in radians. Angles in single or
    double precision are both fine; they are 4e-4 apart by position 5,000.
    """
    check_even(d_model)
    ### BEGIN SOLUTION
    # In double precision: far positions would lose digits of their angle.
    position = torch.arange(length, dtype=torch.float64)
    column = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = torch.outer(position, BASE ** (-column / d_model))
    table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)
    return table.to(torch.get_default_dtype())
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

    PE is the table of `sinusoidal_positions`. A negative offset moves back. M
    has the default dtype.
    """
    check_even(d_model)
    ### BEGIN SOLUTION
    even = torch.arange(0, d_model, 2)
    angle = offset * BASE ** (-even.double() / d_model)
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

    The table of positions may be longer than the sequence; its first rows are
    used.
    """
    check_shapes(
        embeddings=(embeddings, "... seq d_model"),
        positions=(positions, "length d_model"),
    )
    seq, d_model = embeddings.shape[-2:]
    if seq > len(positions):
        raise ValueError(f"seq is {seq}, but only {len(positions)} positions")
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
    x: Float[Tensor, "... seq d_head"],
    positions: Int[Tensor, "seq"],
) -> Float[Tensor, "... seq d_head"]:
    """Turn every pair of columns (2i, 2i + 1) by an angle of its own.

    The angle is the word's position times 10000 ** (-2i / d_head), in radians,
    from the first column towards the second. Angles in single or double
    precision are both fine, whatever the dtype of x, which the result keeps.
    """
    check_shapes(x=(x, "... seq d_head"), positions=(positions, "seq"))
    check_even(x.shape[-1], "d_head")
    ### BEGIN SOLUTION
    dtype = torch.promote_types(x.dtype, torch.float32)
    column = torch.arange(0, x.shape[-1], 2, dtype=dtype, device=x.device)
    frequency = BASE ** (-column / x.shape[-1])
    angle = torch.outer(positions.to(x.device, dtype), frequency)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    turned = [a * cos - b * sin, a * sin + b * cos]
    return torch.stack(turned, dim=-1).flatten(-2)
    ### END SOLUTION
