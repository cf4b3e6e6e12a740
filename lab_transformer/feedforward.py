"""The feed-forward layer: the same small network for every word."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lab_transformer._checks import check_shapes


#: id = "5.5"
#: title = "The feed-forward layer"
#: points = 3
#: difficulty = 1
#: minutes = 10
#: needs = []
#: hints = [
#:     "How many linear maps are there, and what stands between them?",
#:     "Widen, set negative numbers to zero, narrow again. Nothing follows the second map.",
#:     "relu(x @ w_1 + b_1), then the second map in the same way.",
#: ]
def feed_forward(
    x: Float[Tensor, "... d_model"],
    w_1: Float[Tensor, "d_model d_ff"],
    b_1: Float[Tensor, "d_ff"],
    w_2: Float[Tensor, "d_ff d_model"],
    b_2: Float[Tensor, "d_model"],
) -> Float[Tensor, "... d_model"]:
    """Widen a word to d_ff features, keep the positive ones, narrow again."""
    check_shapes(
        x=(x, "... d_model"),
        w_1=(w_1, "d_model d_ff"),
        b_1=(b_1, "d_ff"),
        w_2=(w_2, "d_ff d_model"),
        b_2=(b_2, "d_model"),
    )
    ### BEGIN SOLUTION
    return torch.relu(x @ w_1 + b_1) @ w_2 + b_2
    ### END SOLUTION


class FeedForward(nn.Module):
    """`feed_forward` with weights of its own."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Apply the layer to every word alone."""
        # nn.Linear stores its weight as (out, in).
        return feed_forward(x, self.w_1.weight.mT, self.w_1.bias, self.w_2.weight.mT, self.w_2.bias)
