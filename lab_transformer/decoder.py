"""The decoder: blocks that may not look ahead, alone (GPT) or beside an encoder."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lab_transformer._checks import check_boolean, check_shapes
from lab_transformer.attention import MultiHeadAttention, cross_attention
from lab_transformer.feedforward import FeedForward
from lab_transformer.masking import causal_mask
from lab_transformer.normalization import post_norm, pre_norm


#: id = "6.6"
#: title = "The decoder-only block"
#: points = 4
#: difficulty = 3
#: minutes = 20
#: needs = ["3.5", "5.3", "5.4", "5.5", "6.1"]
#: hints = [
#:     "In what does this block differ from the encoder block?",
#:     "A key must be allowed by both masks: not in the future, and not padding.",
#:     "Combine causal_mask (moved to the device of x) and the given mask with &.",
#: ]
class CausalBlock(nn.Module):
    """An encoder block that never looks ahead: the building block of a GPT.

    `causal_mask`, `pre_norm` and `post_norm` are in scope.
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
        self.feed_forward: nn.Module = FeedForward(d_model, d_ff)
        self.norm_1 = nn.LayerNorm(d_model)
        self.norm_2 = nn.LayerNorm(d_model)

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
        mask: Bool[Tensor, "... seq seq"] | None = None,
    ) -> Float[Tensor, "batch seq d_model"]:
        """Let every word look at itself and at earlier words, then think.

        The mask hides padding on top; it broadcasts to
        (batch, heads, seq, seq).
        """
        check_shapes(
            x=(x, "... seq d_model"),
            norm_1=(self.norm_1.weight, "d_model"),
        )
        check_boolean(mask)
        ### BEGIN SOLUTION
        causal = causal_mask(x.shape[-2]).to(x.device)
        mask = causal if mask is None else causal & mask
        residual = pre_norm if self.norm_first else post_norm
        x = residual(x, lambda y: self.attention(y, y, y, mask)[0], self.norm_1)
        return residual(x, self.feed_forward, self.norm_2)
        ### END SOLUTION


#: id = "7.2"
#: title = "The decoder block"
#: points = 5
#: difficulty = 4
#: minutes = 30
#: needs = ["3.5", "5.3", "5.4", "5.5", "6.1", "7.1"]
#: hints = [
#:     "Three sublayers: in which order, and which of them may see the whole source?",
#:     "Masked self-attention, cross-attention, feed-forward; each through pre_norm or post_norm.",
#:     "Cross-attention returns weights, too: write its path out, with self.norm_2 first or last.",
#: ]
class DecoderBlock(nn.Module):
    """Masked self-attention, cross-attention to the source, feed-forward.

    `causal_mask`, `cross_attention`, `pre_norm` and `post_norm` are in scope.
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
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm_1 = nn.LayerNorm(d_model)
        self.norm_2 = nn.LayerNorm(d_model)
        self.norm_3 = nn.LayerNorm(d_model)

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"],
        mask: Bool[Tensor, "... query query"] | None = None,
        memory_mask: Bool[Tensor, "... query key"] | None = None,
    ) -> tuple[
        Float[Tensor, "batch query d_model"],
        Float[Tensor, "batch heads query key"],
    ]:
        """Return the new states and the weights of the cross-attention.

        `mask` hides padding of the target on top of the future; `memory_mask`
        hides padding of the source. Both broadcast over heads and queries.
        A residual path may go through pre_norm or post_norm, or be written out.
        """
        check_shapes(
            x=(x, "... query d_model"),
            memory=(memory, "... key d_model"),
            norm_1=(self.norm_1.weight, "d_model"),
        )
        check_boolean(mask)
        ### BEGIN SOLUTION
        causal = causal_mask(x.shape[-2]).to(x.device)
        mask = causal if mask is None else causal & mask
        residual = pre_norm if self.norm_first else post_norm
        x = residual(x, lambda y: self.attention(y, y, y, mask)[0], self.norm_1)
        # This path is written out: its sublayer returns weights, too.
        y = self.norm_2(x) if self.norm_first else x
        found, weights = cross_attention(
            y,
            memory,
            self.cross_attention,
            memory_mask,
        )
        x = x + found if self.norm_first else self.norm_2(x + found)
        return residual(x, self.feed_forward, self.norm_3), weights
        ### END SOLUTION


#: id = "7.3"
#: title = "The decoder: a stack of blocks"
#: points = 3
#: difficulty = 2
#: minutes = 15
#: needs = ["7.2"]
#: hints = [
#:     "Does the memory change from block to block?",
#:     "Each block continues with the states of the one before; all look at the same memory.",
#:     "Collect every block's weights and stack them along dim 1; self.norm comes last.",
#: ]
class Decoder(nn.Module):
    """A stack of decoder blocks, with a final norm in the pre-norm case."""

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
            self.blocks.append(DecoderBlock(d_model, n_heads, d_ff, norm_first))
        self.norm = nn.LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"],
        mask: Bool[Tensor, "... query query"] | None = None,
        memory_mask: Bool[Tensor, "... query key"] | None = None,
    ) -> tuple[
        Float[Tensor, "batch query d_model"],
        Float[Tensor, "batch layers heads query key"],
    ]:
        """Return the final states and every block's cross-attention weights."""
        check_shapes(
            x=(x, "... query d_model"),
            memory=(memory, "... key d_model"),
        )
        ### BEGIN SOLUTION
        collected = []
        for block in self.blocks:
            x, weights = block(x, memory, mask, memory_mask)
            collected.append(weights)
        return self.norm(x), torch.stack(collected, dim=1)
        ### END SOLUTION
