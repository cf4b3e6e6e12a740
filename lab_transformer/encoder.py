"""The encoder: self-attention and feed-forward, a block at a time, a stack of blocks."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from lab_transformer._checks import check_shapes
from lab_transformer.attention import MultiHeadAttention
from lab_transformer.feedforward import FeedForward
from lab_transformer.normalization import post_norm, pre_norm


#: id = "5.6"
#: title = "The encoder block"
#: points = 5
#: difficulty = 3
#: minutes = 25
#: needs = ["3.5", "5.3", "5.4", "5.5"]
#: hints = [
#:     "Which two sublayers does the block have, and which norm belongs to which?",
#:     "Each sublayer goes through pre_norm or post_norm; attention needs three times the same input.",
#:     "A sublayer takes one argument: lambda y: self.attention(y, y, y, mask)[0].",
#: ]
class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward, each with a residual path and norm.

    `pre_norm` and `post_norm` are in scope.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm_1 = nn.LayerNorm(d_model)
        self.norm_2 = nn.LayerNorm(d_model)

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
        mask: Bool[Tensor, "... seq seq"] | None = None,
    ) -> Float[Tensor, "batch seq d_model"]:
        """Let the words look at each other, then think about what they saw.

        `norm_first` chooses pre-norm or post-norm. The mask broadcasts to
        (batch, heads, seq, seq).
        """
        check_shapes(
            x=(x, "... seq d_model"),
            norm_1=(self.norm_1.weight, "d_model"),
        )
        ### BEGIN SOLUTION
        residual = pre_norm if self.norm_first else post_norm
        x = residual(x, lambda y: self.attention(y, y, y, mask)[0], self.norm_1)
        return residual(x, self.feed_forward, self.norm_2)
        ### END SOLUTION


#: id = "5.7"
#: title = "The encoder: a stack of blocks"
#: points = 3
#: difficulty = 2
#: minutes = 10
#: needs = ["5.6"]
#: hints = [
#:     "In a pre-norm stack, has the sum that leaves the last block been normalised by anyone?",
#:     "Every block gets what the one before it gave, and the same mask; self.norm comes last.",
#:     "Loop over self.blocks, then return self.norm(x).",
#: ]
class Encoder(nn.Module):
    """A stack of encoder blocks, with a final norm in the pre-norm case."""

    def __init__(
        self,
        n_layers: int,
        d_model: int,
        n_heads: int,
        d_ff: int,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList()
        for _ in range(n_layers):
            self.blocks.append(EncoderBlock(d_model, n_heads, d_ff, norm_first))
        self.norm = nn.LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
        mask: Bool[Tensor, "... seq seq"] | None = None,
    ) -> Float[Tensor, "batch seq d_model"]:
        """Send x through all blocks and the final norm."""
        check_shapes(x=(x, "... seq d_model"))
        ### BEGIN SOLUTION
        for block in self.blocks:
            x = block(x, mask)
        normalised: Tensor = self.norm(x)
        return normalised
        ### END SOLUTION
