"""Choosing words: greedy, beams, sampling, and a cache that saves work."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lab_transformer._checks import check_shapes
from lab_transformer.attention import (
    MultiHeadAttention,
    merge_heads,
    scaled_dot_product_attention,
    split_heads,
)
from lab_transformer.masking import causal_mask

# Takes whole prefixes, integers of shape (n, t), and gives the log-probabilities of the next
# token, of shape (n, vocab).
Step = Callable[[Tensor], Tensor]


#: id = "8.1"
#: title = "Greedy decoding"
#: points = 3
#: difficulty = 2
#: minutes = 15
#: needs = []
#: hints = [
#:     "Where does the first input come from, and when does the loop end?",
#:     "Ask step for the next token's log-probabilities of the whole prefix, append the best, repeat.",
#:     "step(torch.tensor([tokens]))[0].argmax(); stop after eos_id or at max_length tokens.",
#: ]
def greedy_decode(
    step: Step,
    bos_id: int,
    eos_id: int,
    max_length: int,
) -> list[int]:
    """Append the most probable token again and again.

    The result starts with bos_id. It ends with the first eos_id that comes, or
    has max_length tokens, the start included. Of equally probable tokens any
    will do. You may take it that bos_id and eos_id differ.
    """
    if max_length < 1:
        raise ValueError(f"max_length is at least 1, not {max_length}")
    ### BEGIN SOLUTION
    tokens = [bos_id]
    while len(tokens) < max_length:
        tokens.append(int(step(torch.tensor([tokens]))[0].argmax()))
        if tokens[-1] == eos_id:
            break
    return tokens
    ### END SOLUTION


#: id = "8.2"
#: title = "The length penalty"
#: points = 2
#: difficulty = 1
#: minutes = 5
#: needs = []
#: hints = [
#:     "Log-probabilities are negative: does a longer sentence score higher or lower?",
#:     "Divide by a number that grows with the length; with penalty 0 nothing changes.",
#:     "score / ((5 + length) / 6) ** penalty.",
#: ]
def length_normalised(score: float, length: int, penalty: float) -> float:
    """Divide a sum of log-probabilities by ((5 + length) / 6) ** penalty.

    The length counts generated tokens: the end token is one of them, the start
    token is not.
    """
    ### BEGIN SOLUTION
    return score / math.pow((5 + length) / 6, penalty)
    ### END SOLUTION


#: id = "8.3"
#: title = "Beam search"
#: points = 8
#: difficulty = 5
#: minutes = 60
#: needs = ["8.2"]
#: hints = [
#:     "Must the best beams of the next step come from different beams of this one?",
#:     "Log-probabilities add. All continuations of all beams compete; ended ones are put aside.",
#:     "(scores[:, None] + step(prefixes)).flatten().topk(...): index // vocab is the parent beam.",
#: ]
def beam_search(
    step: Step,
    bos_id: int,
    eos_id: int,
    beam_width: int,
    max_length: int,
    length_penalty: float = 0.0,
) -> list[tuple[list[int], float]]:
    """Extend the beam_width most probable prefixes, step by step.

    1. All one-token continuations of the prefixes compete by their summed
       log-probability. Impossible ones (-inf) lose to all others: you may
       drop them.
    2. Those among the best beam_width that end with eos_id are put aside:
       they are finished.
    3. The best beam_width of the others go on, up to max_length tokens, the
       start included.

    Returns the best beam_width, or fewer, of all that are finished or have
    max_length tokens, as pairs (tokens, score), best first. The score is the
    length-normalised sum of the log-probabilities. Stop early only when no
    prefix can come among them any more: a length penalty can lift one that is
    behind now.

    Finished prefixes may instead take places in the beam, once or for good. Of
    equal sums any may come first. You may take it that bos_id and eos_id
    differ. `length_normalised` is in scope.
    """
    if beam_width < 1:
        raise ValueError(f"beam_width is at least 1, not {beam_width}")
    if max_length < 1:
        raise ValueError(f"max_length is at least 1, not {max_length}")
    ### BEGIN SOLUTION
    prefixes, sums = (
        torch.tensor([[bos_id]]),
        torch.zeros(1, dtype=torch.float64),
    )
    finished: list[tuple[list[int], float]] = []

    def rank(tokens: list[int], total: float) -> tuple[list[int], float]:
        return tokens, length_normalised(total, len(tokens) - 1, length_penalty)

    while prefixes.shape[1] < max_length and len(prefixes):
        log_probabilities = step(prefixes).to(sums)
        vocab = log_probabilities.shape[1]
        totals = (sums[:, None] + log_probabilities).flatten()
        # Each prefix has one end: so many hold beam_width that do not end.
        totals, order = totals.topk(
            min(beam_width + len(prefixes), totals.numel()),
        )
        possible = totals > -math.inf
        totals, order = totals[possible], order[possible]
        tokens = order % vocab
        extended = torch.cat([prefixes[order // vocab], tokens[:, None]], dim=1)
        ends = tokens == eos_id
        best = torch.arange(len(ends)) < beam_width
        finished += map(
            rank,
            extended[ends & best].tolist(),
            totals[ends & best].tolist(),
        )
        prefixes, sums = (
            extended[~ends][:beam_width],
            totals[~ends][:beam_width],
        )
        finished = sorted(finished, key=lambda pair: -pair[1])[:beam_width]
        if len(finished) == beam_width and len(sums):
            # Sums only fall: does the best win at its most lenient length?
            lengths = (prefixes.shape[1] - 1, max_length - 1)
            bound = max(
                length_normalised(
                    float(sums[0]),
                    n,
                    length_penalty,
                )
                for n in lengths
            )
            if bound <= finished[-1][1]:
                return finished
    finished += map(rank, prefixes.tolist(), sums.tolist())
    return sorted(finished, key=lambda pair: -pair[1])[:beam_width]
    ### END SOLUTION


#: id = "8.4"
#: title = "Sampling with temperature, top-k and top-p"
#: points = 6
#: difficulty = 4
#: minutes = 40
#: needs = []
#: hints = [
#:     "Does a low temperature make the distribution sharper or flatter?",
#:     "Divide, then set the logits of all tokens that are ruled out to -inf, then draw.",
#:     "Sorted probabilities: drop a token when those before it already sum to top_p or more.",
#: ]
def sample_token(
    logits: Float[Tensor, "... vocab"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "..."]:
    """Draw the next token: temperature first, then top_k, then the nucleus.

    The logits are divided by the temperature. The top_k best stay, or all where
    there are no more than top_k. Of these the nucleus stays: the smallest set
    of most probable tokens whose probabilities sum to top_p or more. It is
    complete where the sum is exactly top_p, and the most probable token is
    always in it. With both, the probabilities are those among the top_k. Where
    tokens tie for the last place, you may keep any of them, or all. The
    caller's logits are left as they are.
    """
    check_shapes(logits=(logits, "... vocab"))
    if temperature <= 0:
        wrong = f"temperature must be above 0, it is {temperature}"
        raise ValueError(f"{wrong}; for 0 take the argmax")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k is at least 1, not {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is above 0 and at most 1, not {top_p}")
    ### BEGIN SOLUTION
    scaled, order = (logits / temperature).sort(
        dim=-1,
        descending=True,
        stable=True,
    )
    if top_k is not None:
        scaled[..., top_k:] = -math.inf
    probabilities = scaled.softmax(dim=-1)
    if top_p is not None:
        before = probabilities.cumsum(dim=-1) - probabilities
        outside = before >= top_p
        outside[..., 0] = False
        probabilities = probabilities.masked_fill(outside, 0.0)
    rows = probabilities.reshape(-1, probabilities.shape[-1])
    drawn = torch.multinomial(rows, 1, generator=generator).reshape(
        *logits.shape[:-1],
        1,
    )
    return order.gather(-1, drawn).squeeze(-1)
    ### END SOLUTION


#: id = "8.5"
#: title = "Attention with a key-value cache"
#: points = 6
#: difficulty = 4
#: minutes = 40
#: needs = ["3.2", "3.3", "3.4", "6.1"]
#: hints = [
#:     "Which of query, key and value of an earlier token is needed again when a new token comes?",
#:     "Append the new keys and values to the kept ones; only the new tokens ask.",
#:     "causal_mask(past + new)[-new:] is what the new tokens may see; seq is the axis -2 of a head.",
#: ]
class CachedAttention(nn.Module):
    """Causal self-attention that keeps the keys and values of earlier tokens.

    It shares the weights of `attention` and can stand in its place: fed one
    token at a time, or a few, it gives what the full pass gives under a causal
    mask. What it keeps may be detached: gradients need only reach the tokens
    and the weights of the same call. `split_heads`, `merge_heads`,
    `scaled_dot_product_attention` and `causal_mask` are in scope.
    """

    def __init__(self, attention: MultiHeadAttention) -> None:
        super().__init__()
        self.attention = attention
        self.keys: Float[Tensor, "batch heads seq d_head"] | None = None
        self.values: Float[Tensor, "batch heads seq d_head"] | None = None

    def forward(
        self,
        query: Float[Tensor, "batch query d_model"],
        key: Float[Tensor, "batch query d_model"],
        value: Float[Tensor, "batch query d_model"],
        mask: Bool[Tensor, "... query key"] | None = None,
    ) -> tuple[
        Float[Tensor, "batch query d_model"],
        Float[Tensor, "batch heads query key"],
    ]:
        """Take the new tokens only; return their output and their weights.

        The weights are over all tokens so far. The mask is not used: what is
        cached is earlier, and among the new tokens the order decides.
        """
        check_shapes(
            query=(query, "... query d_model"),
            key=(key, "... query d_model"),
            value=(value, "... query d_model"),
        )
        ### BEGIN SOLUTION
        n_heads = self.attention.n_heads
        q = split_heads(self.attention.w_q(query), n_heads)
        k = split_heads(self.attention.w_k(key), n_heads)
        v = split_heads(self.attention.w_v(value), n_heads)
        if self.keys is not None and self.values is not None:
            k = torch.cat([self.keys, k], dim=-2)
            v = torch.cat([self.values, v], dim=-2)
        self.keys, self.values = k, v
        allowed = causal_mask(k.shape[-2])[-q.shape[-2] :].to(q.device)
        output, weights = scaled_dot_product_attention(q, k, v, allowed)
        return self.attention.w_o(merge_heads(output)), weights
        ### END SOLUTION
