"""Attention: every word becomes a weighted sum of words, and the weights depend on the words."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lab_transformer._checks import check_heads, check_mask, check_shapes


# Exercise 2.1: Similarity of every word with every word (2 points, about 10 minutes)
def similarity_scores(x: Float[Tensor, "... seq d_model"]) -> Float[Tensor, "... seq seq"]:
    """Compute the dot product of every word vector with every word vector of its sequence."""
    check_shapes(x=(x, "... seq d_model"))
    raise NotImplementedError("Exercise 2.1: Similarity of every word with every word")


# Exercise 2.2: A softmax that does not overflow (4 points, about 15 minutes)
def softmax(scores, dim=-1):
    shifted = scores - scores.max(dim=dim, keepdim=True).values
    powers = torch.exp(shifted)
    return powers / powers.sum(dim=dim, keepdim=True)


# Exercise 2.3: Vectors that know their neighbours (3 points, about 15 minutes)
def contextualize(
    x: Float[Tensor, "... seq d_model"],
) -> tuple[Float[Tensor, "... seq d_model"], Float[Tensor, "... seq seq"]]:
    """Replace every word vector by a weighted sum of its sequence, with no parameters at all.

    Returns the context vectors and the weights; row i of the weights belongs to word i.
    """
    check_shapes(x=(x, "... seq d_model"))
    raise NotImplementedError("Exercise 2.3: Vectors that know their neighbours")


# Exercise 2.4: Three views of one vector: query, key, value (2 points, about 10 minutes)
def project_qkv(
    x: Float[Tensor, "... seq d_model"],
    w_q: Float[Tensor, "d_model d_head"],
    w_k: Float[Tensor, "d_model d_head"],
    w_v: Float[Tensor, "d_model d_value"],
) -> tuple[
    Float[Tensor, "... seq d_head"],
    Float[Tensor, "... seq d_head"],
    Float[Tensor, "... seq d_value"],
]:
    """Give every word a query, a key and a value: three learned linear views of its vector."""
    check_shapes(
        x=(x, "... seq d_model"),
        w_q=(w_q, "d_model d_head"),
        w_k=(w_k, "d_model d_head"),
        w_v=(w_v, "d_model d_value"),
    )
    raise NotImplementedError("Exercise 2.4: Three views of one vector: query, key, value")


# Exercise 3.1: The variance of a dot product (2 points, about 10 minutes)
def dot_product_variance(d: int, samples: int, generator: torch.Generator) -> float:
    """Estimate the variance of q . k for q and k with d independent standard normal components."""
    if d < 1 or samples < 2:
        raise ValueError(f"needs d >= 1 and samples >= 2, got d = {d} and samples = {samples}")
    raise NotImplementedError("Exercise 3.1: The variance of a dot product")


# Exercise 3.2: Scaled dot-product attention (6 points, about 30 minutes)
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


# Exercise 3.3: Splitting into heads (3 points, about 15 minutes)
def split_heads(x, n_heads):
    *rest, seq, d_model = x.shape
    return x.reshape(*rest, seq, n_heads, d_model // n_heads)


# Exercise 3.4: Merging the heads again (2 points, about 10 minutes)
def merge_heads(x: Float[Tensor, "... heads seq d_head"]) -> Float[Tensor, "... seq d_model"]:
    """Put the parts of all heads side by side again: the inverse of split_heads."""
    check_shapes(x=(x, "... heads seq d_head"))
    raise NotImplementedError("Exercise 3.4: Merging the heads again")


# Exercise 3.5: Multi-head attention (6 points, about 30 minutes)
class MultiHeadAttention(nn.Module):
    """Attend in several subspaces at once and mix what the heads found."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        check_heads(d_model, n_heads)
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(
        self,
        query: Float[Tensor, "... query d_model"],
        key: Float[Tensor, "... key d_model"],
        value: Float[Tensor, "... key d_model"],
        mask: Bool[Tensor, "... query key"] | None = None,
    ) -> tuple[Float[Tensor, "... query d_model"], Float[Tensor, "... heads query key"]]:
        """Return the mixed output of all heads, and every head's weights.

        The mask broadcasts to (..., heads, query, key).
        """
        check_shapes(
            query=(query, "... query d_model"),
            key=(key, "... key d_model"),
            value=(value, "... key d_model"),
            w_q=(self.w_q.weight, "d_model d_model"),
        )
        raise NotImplementedError("Exercise 3.5: Multi-head attention")


# Exercise 7.1: Cross-attention (3 points, about 15 minutes)
def cross_attention(
    decoder_states: Float[Tensor, "... query d_model"],
    memory: Float[Tensor, "... key d_model"],
    attention: MultiHeadAttention,
    memory_mask: Bool[Tensor, "... query key"] | None = None,
) -> tuple[Float[Tensor, "... query d_model"], Float[Tensor, "... heads query key"]]:
    """Let every position of the output side look at the encoder's result.

    Returns what `attention` returns. The mask hides the source's padding; it broadcasts to
    (..., heads, query, key).
    """
    check_shapes(
        decoder_states=(decoder_states, "... query d_model"), memory=(memory, "... key d_model")
    )
    raise NotImplementedError("Exercise 7.1: Cross-attention")


# Exercise 7.5: An alignment from attention weights (3 points, about 15 minutes)
def alignment_from_attention(weights: Float[Tensor, "... query key"]) -> set[tuple[int, int]]:
    """Link every target word to the source word that it attends to most.

    The weights are averaged over all leading axes (heads, layers). Returns pairs (source, target).
    """
    check_shapes(weights=(weights, "... query key"))
    raise NotImplementedError("Exercise 7.5: An alignment from attention weights")


# Exercise 7.6: The alignment error rate (3 points, about 15 minutes)
def alignment_error_rate(
    predicted: set[tuple[int, int]],
    sure: set[tuple[int, int]],
    possible: set[tuple[int, int]],
) -> float:
    """Compare a predicted alignment with a gold one: 0.0 is perfect, 1.0 has nothing right.

    A sure link is possible too, whether `possible` repeats it or not. Nothing predicted where nothing
    is sure is no error.
    """
    raise NotImplementedError("Exercise 7.6: The alignment error rate")
