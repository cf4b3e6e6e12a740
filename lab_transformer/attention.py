"""Attention: every word becomes a weighted sum of words, and the weights depend on the words."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lab_transformer._checks import check_heads, check_mask, check_shapes


#: id = "2.1"
#: title = "Similarity of every word with every word"
#: points = 2
#: difficulty = 1
#: minutes = 10
#: needs = []
#: hints = [
#:     "Which number says how well two vectors point in the same direction?",
#:     "All dot products of the rows of a matrix with each other are one matrix product.",
#:     "x times x with its last two axes exchanged.",
#: ]
def similarity_scores(
    x: Float[Tensor, "... seq d_model"],
) -> Float[Tensor, "... seq seq"]:
    """Compute how similar every word of a sequence is to every word of it.

    The similarity of two words is the dot product of their vectors.
    """
    check_shapes(x=(x, "... seq d_model"))
    ### BEGIN SOLUTION
    return x @ x.mT
    ### END SOLUTION


#: id = "2.2"
#: title = "A softmax that does not overflow"
#: points = 4
#: difficulty = 2
#: minutes = 15
#: needs = []
#: hints = [
#:     "What is exp(1000) in floating point, and what becomes of inf / inf?",
#:     "Softmax does not change when the same number is taken off every score of a row.",
#:     "Subtract amax(dim, keepdim=True), exponentiate, divide by the sum over the same dim.",
#: ]
def softmax(
    scores: Float[Tensor, "..."],
    dim: int = -1,
) -> Float[Tensor, "..."]:
    """Turn scores, however large, into weights that sum to one along dim.

    No weight is negative. A score of -inf beside finite ones gets the weight
    zero. Where all scores along dim are -inf, there is nothing to weigh: NaN
    and zeros are both fine.
    """
    ### BEGIN SOLUTION
    raised = (scores - scores.amax(dim=dim, keepdim=True)).exp()
    return raised / raised.sum(dim=dim, keepdim=True)
    ### END SOLUTION


#: id = "2.3"
#: title = "Vectors that know their neighbours"
#: points = 3
#: difficulty = 2
#: minutes = 15
#: needs = ["2.1", "2.2"]
#: hints = [
#:     "What are the weights of one word over all words, and what must they sum to?",
#:     "Scores, then softmax over the words that are looked at, then a weighted sum of the vectors.",
#:     "The weights are the softmax of the similarity scores; the context is weights times x.",
#: ]
def contextualize(
    x: Float[Tensor, "... seq d_model"],
) -> tuple[Float[Tensor, "... seq d_model"], Float[Tensor, "... seq seq"]]:
    """Replace every word vector by a weighted sum of its sequence.

    There are no parameters at all. Returns the context vectors and the
    weights; row i of the weights belongs to word i.
    """
    check_shapes(x=(x, "... seq d_model"))
    ### BEGIN SOLUTION
    weights = softmax(similarity_scores(x))
    return weights @ x, weights
    ### END SOLUTION


#: id = "2.4"
#: title = "Three views of one vector: query, key, value"
#: points = 2
#: difficulty = 1
#: minutes = 10
#: needs = []
#: hints = [
#:     "How many matrices are there, and how many results?",
#:     "Each view is the same x times its own matrix; weights multiply from the right.",
#:     "Return x @ w_q, then the same for the key and the value, in this order.",
#: ]
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
    """Give every word a query, a key and a value.

    They are three learned linear views of its vector.
    """
    check_shapes(
        x=(x, "... seq d_model"),
        w_q=(w_q, "d_model d_head"),
        w_k=(w_k, "d_model d_head"),
        w_v=(w_v, "d_model d_value"),
    )
    ### BEGIN SOLUTION
    return x @ w_q, x @ w_k, x @ w_v
    ### END SOLUTION


#: id = "3.1"
#: title = "The variance of a dot product"
#: points = 2
#: difficulty = 1
#: minutes = 10
#: needs = []
#: hints = [
#:     "A dot product of two random vectors is a sum of d products: what happens to its variance?",
#:     "Draw `samples` pairs of standard normal vectors of length d and take each pair's dot product.",
#:     "(q * k).sum(dim=-1).var() of two draws of shape (samples, d), as a float.",
#: ]
def dot_product_variance(
    d: int,
    samples: int,
    generator: torch.Generator,
) -> float:
    """Estimate the variance of the dot product q . k of two random vectors.

    Each sample is a new pair of q and k, with d independent standard normal
    components each. All randomness comes from the generator. The variance may
    divide by samples - 1 or by samples, and may use the sample mean or the
    true mean, zero.
    """
    if d < 1 or samples < 2:
        raise ValueError(
            "the estimate of a variance needs d >= 1 and samples >= 2, "
            f"but d = {d} and samples = {samples}"
        )
    ### BEGIN SOLUTION
    shape = 2, samples, d
    q, k = torch.randn(shape, generator=generator, device=generator.device)
    return float((q * k).sum(dim=-1).var())
    ### END SOLUTION


#: id = "3.2"
#: title = "Scaled dot-product attention"
#: points = 6
#: difficulty = 3
#: minutes = 30
#: needs = []
#: hints = [
#:     "Over which axis must one query's weights sum to one, and how large is the scores' variance?",
#:     "Scores over the root of the key's width; where the mask is False, -inf before the softmax.",
#:     "A row that may attend to nothing is NaN after softmax: set those rows to zero, then times v.",
#: ]
def scaled_dot_product_attention(
    q: Float[Tensor, "... query d_head"],
    k: Float[Tensor, "... key d_head"],
    v: Float[Tensor, "... key d_value"],
    mask: Bool[Tensor, "... query key"] | None = None,
) -> tuple[Float[Tensor, "... query d_value"], Float[Tensor, "... query key"]]:
    """Weigh the values by how well each query matches each key.

    Returns the weighted values and the weights. The mask is True where a query
    may attend to a key, and may broadcast. A query that may attend to nothing
    gets zeros.
    """
    check_shapes(
        q=(q, "... query d_head"),
        k=(k, "... key d_head"),
        v=(v, "... key d_value"),
    )
    check_mask(mask, torch.Size([*q.shape[:-1], k.shape[-2]]))
    ### BEGIN SOLUTION
    scores = (q / math.sqrt(q.shape[-1])) @ k.mT
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        # Softmax over nothing but -inf is NaN, so a query that sees nothing
        # keeps its scores for now.
        sees = mask.any(dim=-1, keepdim=True)
        hidden = torch.zeros_like(mask, dtype=q.dtype).masked_fill(
            ~mask & sees,
            -math.inf,
        )
        weights = torch.softmax(scores + hidden, dim=-1) * sees
    return weights @ v, weights
    ### END SOLUTION


#: id = "3.3"
#: title = "Splitting into heads"
#: points = 3
#: difficulty = 2
#: minutes = 15
#: needs = []
#: hints = [
#:     "Which numbers of a word belong to head 0: the first d_head of them, or every n-th?",
#:     "First cut the last axis into (heads, d_head), then move the heads in front of the sequence.",
#:     "x.reshape(*x.shape[:-1], n_heads, -1), then exchange the axes -3 and -2.",
#: ]
def split_heads(
    x: Float[Tensor, "... seq d_model"],
    n_heads: int,
) -> Float[Tensor, "... heads seq d_head"]:
    """Cut every word vector into n_heads parts of equal width.

    The axis of the heads comes before that of the words.
    """
    check_shapes(x=(x, "... seq d_model"))
    check_heads(x.shape[-1], n_heads)
    ### BEGIN SOLUTION
    return x.reshape(*x.shape[:-1], n_heads, -1).transpose(-3, -2)
    ### END SOLUTION


#: id = "3.4"
#: title = "Merging the heads again"
#: points = 2
#: difficulty = 2
#: minutes = 10
#: needs = []
#: hints = [
#:     "What must merge_heads(split_heads(x, n)) give?",
#:     "Undo the steps in the opposite order: first the axes, then the cut.",
#:     "Exchange the axes -3 and -2, then flatten the last two.",
#: ]
def merge_heads(
    x: Float[Tensor, "... heads seq d_head"],
) -> Float[Tensor, "... seq d_model"]:
    """Put all heads side by side again: the inverse of split_heads."""
    check_shapes(x=(x, "... heads seq d_head"))
    ### BEGIN SOLUTION
    return x.transpose(-3, -2).flatten(-2)
    ### END SOLUTION


#: id = "3.5"
#: title = "Multi-head attention"
#: points = 6
#: difficulty = 3
#: minutes = 30
#: needs = ["3.2", "3.3", "3.4"]
#: hints = [
#:     "Which of the three inputs does each of the three projections see?",
#:     "Project, split into heads, attend in all heads at once, merge, project once more.",
#:     "split_heads(self.w_q(query), self.n_heads) and its two sisters go into the attention.",
#: ]
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
    ) -> tuple[
        Float[Tensor, "... query d_model"],
        Float[Tensor, "... heads query key"],
    ]:
        """Return the mixed output of all heads, and every head's weights.

        The mask broadcasts to (..., heads, query, key).
        """
        check_shapes(
            query=(query, "... query d_model"),
            key=(key, "... key d_model"),
            value=(value, "... key d_model"),
            w_q=(self.w_q.weight, "d_model d_model"),
        )
        ### BEGIN SOLUTION
        q = split_heads(self.w_q(query), self.n_heads)
        k = split_heads(self.w_k(key), self.n_heads)
        v = split_heads(self.w_v(value), self.n_heads)
        output, weights = scaled_dot_product_attention(q, k, v, mask)
        return self.w_o(merge_heads(output)), weights
        ### END SOLUTION


#: id = "7.1"
#: title = "Cross-attention"
#: points = 3
#: difficulty = 2
#: minutes = 15
#: needs = ["3.5"]
#: hints = [
#:     "Who asks, and who is asked?",
#:     "As many outputs as there are queries: they come from the side that is being written.",
#:     "Call attention with the decoder's states once and the memory twice, and pass the mask on.",
#: ]
def cross_attention(
    decoder_states: Float[Tensor, "... query d_model"],
    memory: Float[Tensor, "... key d_model"],
    attention: MultiHeadAttention,
    memory_mask: Bool[Tensor, "... query key"] | None = None,
) -> tuple[
    Float[Tensor, "... query d_model"],
    Float[Tensor, "... heads query key"],
]:
    """Let every position of the output side look at the encoder's result.

    Returns what `attention` returns. The mask hides the source's padding; it
    broadcasts to (..., heads, query, key).
    """
    check_shapes(
        decoder_states=(decoder_states, "... query d_model"),
        memory=(memory, "... key d_model"),
    )
    ### BEGIN SOLUTION
    output, weights = attention(decoder_states, memory, memory, memory_mask)
    return output, weights
    ### END SOLUTION


#: id = "7.5"
#: title = "An alignment from attention weights"
#: points = 3
#: difficulty = 2
#: minutes = 15
#: needs = []
#: hints = [
#:     "Each word of the output was written while looking at the source: where did it look most?",
#:     "Average the heads, then find the key with the largest weight for every query.",
#:     "Pairs (source, target) = (argmax over the last axis, index of the query).",
#: ]
def alignment_from_attention(
    weights: Float[Tensor, "... query key"],
) -> set[tuple[int, int]]:
    """Link every target word to the source word that it attends to most.

    The weights are averaged over all leading axes (heads, layers). Returns
    pairs (source, target), one for each target word: of source words with
    equal weights, any will do.
    """
    check_shapes(weights=(weights, "... query key"))
    ### BEGIN SOLUTION
    mean = weights.reshape(-1, *weights.shape[-2:]).mean(dim=0)
    sources = mean.argmax(dim=-1).tolist()
    return {(source, target) for target, source in enumerate(sources)}
    ### END SOLUTION


#: id = "7.6"
#: title = "The alignment error rate"
#: points = 3
#: difficulty = 2
#: minutes = 15
#: needs = []
#: hints = [
#:     "Which predicted links are right for certain, and which are merely not wrong?",
#:     "Sure links count for recall, possible ones for precision; every sure link is possible too.",
#:     "1 - (links in sure + links in possible) / (number predicted + number sure).",
#: ]
def alignment_error_rate(
    predicted: set[tuple[int, int]],
    sure: set[tuple[int, int]],
    possible: set[tuple[int, int]],
) -> float:
    """Compare an alignment with a gold one: 0.0 is perfect, 1.0 all wrong.

    A sure link is possible too, whether `possible` repeats it or not. Nothing
    predicted where nothing is sure is no error.
    """
    ### BEGIN SOLUTION
    total = len(predicted) + len(sure)
    if total == 0:
        return 0.0
    right = len(predicted & sure) + len(predicted & (sure | possible))
    return 1 - right / total
    ### END SOLUTION
