"""What changed since 2017: drop-ins for blocks already built, and the block they add up to."""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from lab_transformer._checks import (
    check_boolean,
    check_even,
    check_heads,
    check_mask,
    check_shapes,
)
from lab_transformer.attention import merge_heads, scaled_dot_product_attention, split_heads
from lab_transformer.masking import causal_mask
from lab_transformer.positional import BASE, rotate


#: id = "12.1"
#: title = "RMS norm"
#: points = 3
#: difficulty = 2
#: minutes = 10
#: needs = []
#: hints = [
#:     "Which two steps of layer norm are left out here?",
#:     "The root of the mean square of each word's features; eps belongs under the root.",
#:     "x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt(), times gain.",
#: ]
def rms_norm(
    x: Float[Tensor, "... d_model"],
    gain: Float[Tensor, "d_model"],
    eps: float = 1e-5,
) -> Float[Tensor, "... d_model"]:
    """Divide every word by the root of its mean square, then scale it.

    No mean is subtracted and no bias is added. The mean is over the word's own
    features; eps is added to it, inside the root.
    """
    check_shapes(x=(x, "... d_model"), gain=(gain, "d_model"))
    ### BEGIN SOLUTION
    mean_square = x.square().mean(dim=-1, keepdim=True)
    return x / (mean_square + eps).sqrt() * gain
    ### END SOLUTION


#: id = "12.2"
#: title = "SwiGLU: a feed-forward layer with a gate"
#: points = 3
#: difficulty = 1
#: minutes = 10
#: needs = []
#: hints = [
#:     "There are three matrices: which two of them see the word itself?",
#:     "One widened copy goes through SiLU and opens or closes the other, feature by feature.",
#:     "F.silu(x @ w_gate) times (x @ w_up), and the product times w_down.",
#: ]
def swiglu(
    x: Float[Tensor, "... d_model"],
    w_gate: Float[Tensor, "d_model d_ff"],
    w_up: Float[Tensor, "d_model d_ff"],
    w_down: Float[Tensor, "d_ff d_model"],
) -> Float[Tensor, "... d_model"]:
    """Widen a word twice, let one copy gate the other, and narrow again.

    The gate is the copy by w_gate, through SiLU: silu(z) = z * sigmoid(z). It
    multiplies the copy by w_up, feature by feature; w_down narrows the product.
    There are no biases. `F` is torch.nn.functional.
    """
    check_shapes(
        x=(x, "... d_model"),
        w_gate=(w_gate, "d_model d_ff"),
        w_up=(w_up, "d_model d_ff"),
        w_down=(w_down, "d_ff d_model"),
    )
    ### BEGIN SOLUTION
    return (F.silu(x @ w_gate) * (x @ w_up)) @ w_down
    ### END SOLUTION


def _check_window(query: int, key: int) -> None:
    """Raise a ValueError unless the queries can be the last of the keys."""
    if not 1 <= query <= key:
        raise ValueError(
            "the queries are the last of the keys: from 1 query to as many as keys, "
            f"but query = {query} and key = {key}"
        )


#: id = "12.3"
#: title = "ALiBi: a bias that grows with the distance"
#: points = 4
#: difficulty = 3
#: minutes = 25
#: needs = []
#: hints = [
#:     "Two heads look at the same distance: what makes one see further than the other?",
#:     "Slopes fall by a constant factor, from 2 ** (-8 / n) to 1/256; queries are the last keys.",
#:     "minus slopes[:, None, None] times (positions of queries[:, None] - those of keys).abs().",
#: ]
def alibi_bias(
    n_heads: int,
    query: int,
    key: int,
) -> Float[Tensor, "heads query key"]:
    """Compute what ALiBi adds to the scores: minus slope times distance.

    The keys have the positions 0 to key - 1, and the queries are the last of
    them: the last query stands where the last key stands. The distance counts
    in both directions, so no entry is above zero.

    Where the number of heads n is a power of two, the slopes are
    2 ** (-8 * i / n) for i = 1 to n, in this order. Where it is not, take the
    slopes for the next smaller power of two, and after them the first, third,
    fifth ... slope for twice that power, until there are n. The result has the
    default dtype.
    """
    if n_heads < 1:
        raise ValueError(f"n_heads is at least 1, not {n_heads}")
    _check_window(query, key)
    ### BEGIN SOLUTION
    power = 2 ** (n_heads.bit_length() - 1)
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    between = [2 ** (-4 * i / power) for i in range(1, 2 * power, 2)]
    slopes = (slopes + between)[:n_heads]
    positions = torch.arange(key)
    distance = (positions[-query:, None] - positions).abs()
    return -torch.tensor(slopes)[:, None, None] * distance
    ### END SOLUTION


def _check_groups(heads: int, kv_heads: int) -> None:
    """Raise a ValueError unless each key-value head serves as many query heads."""
    if kv_heads < 1 or heads % kv_heads:
        raise ValueError(f"{heads} query heads cannot share {kv_heads} key-value heads equally")


#: id = "12.4"
#: title = "Grouped-query attention"
#: points = 4
#: difficulty = 3
#: minutes = 20
#: needs = ["3.2"]
#: hints = [
#:     "Six query heads and two key-value heads: which of the six share the first one?",
#:     "Every key-value head serves heads // kv_heads query heads that stand side by side.",
#:     "repeat_interleave along the axis of the heads, for keys and values; the rest is 3.2.",
#: ]
def grouped_query_attention(
    q: Float[Tensor, "... heads query d_head"],
    k: Float[Tensor, "... kv_heads key d_head"],
    v: Float[Tensor, "... kv_heads key d_value"],
    mask: Bool[Tensor, "... heads query key"] | None = None,
) -> tuple[
    Float[Tensor, "... heads query d_value"],
    Float[Tensor, "... heads query key"],
]:
    """Attend with fewer key-value heads than query heads.

    Consecutive query heads share a key-value head: with 6 heads and 2
    key-value heads, the heads 0, 1, 2 use the first and 3, 4, 5 the second.
    One key-value head for all (multi-query) and one for each are the two ends.

    Returns the output and the weights of every query head. The mask is True
    where a query may attend to a key, and broadcasts to (..., heads, query,
    key). A query that may attend to nothing gets zeros.
    `scaled_dot_product_attention` is in scope.
    """
    check_shapes(
        q=(q, "... heads query d_head"),
        k=(k, "... kv_heads key d_head"),
        v=(v, "... kv_heads key d_value"),
    )
    heads, kv_heads = q.shape[-3], k.shape[-3]
    _check_groups(heads, kv_heads)
    check_mask(mask, torch.Size([*q.shape[:-1], k.shape[-2]]))
    ### BEGIN SOLUTION
    k = k.repeat_interleave(heads // kv_heads, dim=-3)
    v = v.repeat_interleave(heads // kv_heads, dim=-3)
    return scaled_dot_product_attention(q, k, v, mask)
    ### END SOLUTION


#: id = "12.5"
#: title = "A sliding window"
#: points = 2
#: difficulty = 2
#: minutes = 10
#: needs = []
#: hints = [
#:     "With a window of 1, what may a word see?",
#:     "Two conditions: not after the query, and fewer than `window` steps before it.",
#:     "distance = positions of queries[:, None] - positions of keys; 0 <= distance < window.",
#: ]
def sliding_window_mask(
    query: int,
    key: int,
    window: int,
) -> Bool[Tensor, "query key"]:
    """Allow every query to see itself and the window - 1 keys before it.

    The keys have the positions 0 to key - 1, and the queries are the last of
    them: the last query stands where the last key stands. Nobody sees what
    comes later. A window may be longer than the text.
    """
    _check_window(query, key)
    if window < 1:
        raise ValueError(f"window is at least 1, the word itself, not {window}")
    ### BEGIN SOLUTION
    positions = torch.arange(key)
    distance = positions[-query:, None] - positions
    return (distance >= 0) & (distance < window)
    ### END SOLUTION


Attention = Callable[..., Tensor]


def recompute_tiles(attention: Attention) -> Attention:
    """Let gradients through attention in tiles without keeping the tiles.

    Autograd would keep every tile of scores for the way back, and so all rows. Here the attention
    runs without a record, and the way back computes each tile anew.
    """

    @functools.wraps(attention)
    def tiled(q: Tensor, k: Tensor, v: Tensor, tile: int, mask: Tensor | None = None) -> Tensor:
        if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
            output: Tensor = _Recomputed.apply(attention, q, k, v, tile, mask)  # type: ignore[no-untyped-call]
            return output
        return attention(q, k, v, tile, mask)

    return tiled


class _Recomputed(torch.autograd.Function):
    """Attention in tiles, forwards without a record; backwards in tiles, too."""

    @staticmethod
    def forward(
        ctx: Any,
        attention: Attention,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        tile: int,
        mask: Tensor | None,
    ) -> Tensor:
        output = attention(q, k, v, tile, mask)
        ctx.save_for_backward(q, k, v, mask, output)
        ctx.tile = tile
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        mask: Tensor | None
        q, k, v, mask, output = ctx.saved_tensors
        scale = 1 / math.sqrt(q.shape[-1])
        tiles = [slice(start, start + ctx.tile) for start in range(0, k.shape[-2], ctx.tile)]
        if mask is not None:
            mask = mask.expand(*mask.shape[:-1], k.shape[-2])
            tiles = [tile for tile in tiles if mask[..., tile].any()]

        def scores(tile: slice) -> Tensor:
            found: Tensor = (q * scale) @ k[..., tile, :].mT
            return found if mask is None else found.masked_fill(~mask[..., tile], -math.inf)

        # The logarithm of every row's sum: all that is needed to get its weights again.
        total = q.new_full((*q.shape[:-1], 1), -math.inf)
        for tile in tiles:
            total = torch.logaddexp(total, scores(tile).logsumexp(dim=-1, keepdim=True))
        total = total.masked_fill(total == -math.inf, 0.0)
        # Through the softmax, a score moves by how its weight's gradient differs from the row's mean.
        mean = (gradient * output).sum(dim=-1, keepdim=True)
        for_q = torch.zeros_like(q)
        for_k, for_v = torch.zeros_like(k), torch.zeros_like(v)
        for tile in tiles:
            weights = (scores(tile) - total).exp()
            for_scores = weights * (gradient @ v[..., tile, :].mT - mean) * scale
            for_q += for_scores @ k[..., tile, :]
            for_k[..., tile, :] = for_scores.mT @ q
            for_v[..., tile, :] = weights.mT @ gradient
        return None, for_q, for_k, for_v, None, None


#: id = "12.6"
#: title = "Attention in tiles"
#: points = 8
#: difficulty = 5
#: minutes = 60
#: needs = []
#: hints = [
#:     "A later tile holds a higher score than all before: what must happen to the sum so far?",
#:     "Keep maximum, sum and output of every row; times exp(old maximum - new) they stay right.",
#:     "Where the new maximum is still -inf, subtract 0 instead; divide by the sum at the very end.",
#: ]
@recompute_tiles
def tiled_attention(
    q: Float[Tensor, "... query d_head"],
    k: Float[Tensor, "... key d_head"],
    v: Float[Tensor, "... key d_value"],
    tile: int,
    mask: Bool[Tensor, "... query key"] | None = None,
) -> Float[Tensor, "... query d_value"]:
    """Give the output of scaled dot-product attention, `tile` keys at a time.

    No whole row of scores exists at any time: go through the keys in tiles and
    keep of every query the highest score so far, the sum of its exponentiated
    scores, and the weighted sum of the values. When a higher score comes, sum
    and output are scaled down to it. The last tile may be shorter, and a tile
    longer than all keys is one tile.

    The leading axes of q, k and v are the same. The mask is True where a query
    may attend to a key, and may broadcast. A query that may attend to nothing
    gets zeros. A tile that no query may see is skipped: whatever its keys and
    values hold, NaN too, makes no difference.

    Gradients are taken care of: `recompute_tiles` runs this function without a
    record and computes each tile anew on the way back. Without it, autograd
    would keep all tiles.
    """
    check_shapes(
        q=(q, "... query d_head"),
        k=(k, "... key d_head"),
        v=(v, "... key d_value"),
    )
    check_mask(mask, torch.Size([*q.shape[:-1], k.shape[-2]]))
    if q.shape[:-2] != k.shape[:-2] or q.shape[:-2] != v.shape[:-2]:
        raise ValueError("the leading axes of q, k and v are not the same")
    if tile < 1:
        raise ValueError(f"a tile holds at least one key, not {tile}")
    if mask is not None:  # so that it, too, can be cut into tiles
        mask = mask.expand(*mask.shape[:-1], k.shape[-2])
    ### BEGIN SOLUTION
    highest = torch.full_like(q[..., :1], -math.inf)
    total = torch.zeros_like(highest)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, k.shape[-2], tile):
        some = slice(start, start + tile)
        scores = q @ k[..., some, :].mT / math.sqrt(q.shape[-1])
        if mask is not None:
            if not mask[..., some].any():
                continue
            scores = scores.masked_fill(~mask[..., some], -math.inf)
        now = torch.maximum(highest, scores.amax(dim=-1, keepdim=True))
        # Where nothing was seen yet, -inf minus -inf would be NaN.
        base = now.masked_fill(now == -math.inf, 0.0)
        kept = (highest - base).exp()
        raised = (scores - base).exp()
        total = total * kept + raised.sum(dim=-1, keepdim=True)
        output = output * kept + raised @ v[..., some, :]
        highest = now
    return output / total.masked_fill(total == 0, 1.0)
    ### END SOLUTION


#: id = "12.7"
#: title = "Routing: which experts a token goes to"
#: points = 3
#: difficulty = 2
#: minutes = 15
#: needs = []
#: hints = [
#:     "What must a token's weights sum to, when only k of its experts are asked?",
#:     "Find the k largest logits; the softmax runs over these k alone.",
#:     "topk along the last axis gives both, values and numbers; the softmax is over its values.",
#: ]
def route(
    logits: Float[Tensor, "... n_experts"],
    k: int,
) -> tuple[Float[Tensor, "... k"], Int[Tensor, "... k"]]:
    """Send every token to the k experts with the largest logits.

    Returns the weights of the chosen experts and their numbers, best first. The
    weights are the softmax over the k chosen logits: they sum to one. Of
    experts with equal logits any may be chosen.
    """
    check_shapes(logits=(logits, "... n_experts"))
    if not 1 <= k <= logits.shape[-1]:
        raise ValueError(f"k is from 1 to {logits.shape[-1]} experts, not {k}")
    ### BEGIN SOLUTION
    best, experts = logits.topk(k, dim=-1)
    return best.softmax(dim=-1), experts
    ### END SOLUTION


#: id = "12.8"
#: title = "A loss that keeps the experts busy"
#: points = 3
#: difficulty = 3
#: minutes = 20
#: needs = []
#: hints = [
#:     "A count has no gradient: through what can the loss move the router?",
#:     "Share of the choices times mean probability, summed over the experts: 1 / n at its best.",
#:     "F.one_hot(experts, n) gives the choices as 0 and 1; average them over all but the last axis.",
#: ]
def balance_loss(
    probabilities: Float[Tensor, "... n_experts"],
    experts: Int[Tensor, "... k"],
) -> Float[Tensor, ""]:
    """Measure how unevenly the experts are used: 1.0 when all are used alike.

    `probabilities` are each token's over all experts, `experts` the numbers of
    those it was sent to. The loss is the sum over the experts of the share of
    all choices that fell on the expert times its mean probability over all
    tokens, times the number of experts. The shares are counts: gradients reach
    the probabilities only. `F` is torch.nn.functional.
    """
    check_shapes(
        probabilities=(probabilities, "... n_experts"),
        experts=(experts, "... k"),
    )
    if probabilities.shape[:-1] != experts.shape[:-1]:
        raise ValueError(
            "probabilities and experts are not of the same tokens: "
            f"{tuple(probabilities.shape)} and {tuple(experts.shape)}"
        )
    ### BEGIN SOLUTION
    n_experts = probabilities.shape[-1]
    chosen = F.one_hot(experts, n_experts).reshape(-1, n_experts)
    share = chosen.to(probabilities).mean(dim=0)
    mean = probabilities.reshape(-1, n_experts).mean(dim=0)
    return n_experts * (share * mean).sum()
    ### END SOLUTION


class RMSNorm(nn.Module):
    """`rms_norm` with a gain of its own."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Normalise every word over its own features."""
        return rms_norm(x, self.weight, self.eps)


class SwiGLU(nn.Module):
    """`swiglu` with weights of its own."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.w_gate = nn.Linear(d_model, d_ff, bias=False)
        self.w_up = nn.Linear(d_model, d_ff, bias=False)
        self.w_down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Apply the layer to every word alone."""
        # nn.Linear stores its weight as (out, in).
        return swiglu(x, self.w_gate.weight.mT, self.w_up.weight.mT, self.w_down.weight.mT)


#: id = "12.9"
#: title = "A mixture of experts"
#: points = 6
#: difficulty = 4
#: minutes = 40
#: needs = ["12.2", "12.7", "12.8"]
#: hints = [
#:     "Who decides where a token goes, and what does the token see of the other experts?",
#:     "For each expert: find the tokens that chose it, run them through it, add weight times result.",
#:     "token, slot = (experts == e).nonzero(as_tuple=True); index_add brings results to their rows.",
#: ]
class MixtureOfExperts(nn.Module):
    """Many feed-forward layers, of which every token runs through k.

    `route` and `balance_loss` are in scope.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        n_experts: int,
        k: int,
    ) -> None:
        super().__init__()
        if not 1 <= k <= n_experts:
            raise ValueError(f"k is between 1 and {n_experts}, not {k}")
        self.k = k
        self.router = nn.Linear(d_model, n_experts, bias=False)
        self.experts = nn.ModuleList()
        for _ in range(n_experts):
            self.experts.append(SwiGLU(d_model, d_ff))

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
    ) -> tuple[Float[Tensor, "batch seq d_model"], Float[Tensor, ""]]:
        """Return each token's weighted sum of experts, and the balance loss.

        The router's output are the logits; `balance_loss` gets their softmax
        over all experts. An expert runs on the tokens that chose it and on no
        others: what it would make of the others, NaN too, makes no difference.
        One that nobody chose may run on no token, or not at all.
        """
        check_shapes(
            x=(x, "batch seq d_model"),
            router=(self.router.weight, "n_experts d_model"),
        )
        ### BEGIN SOLUTION
        tokens = x.flatten(0, 1)
        logits = self.router(tokens)
        weights, experts = route(logits, self.k)
        output = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            token, slot = (experts == number).nonzero(as_tuple=True)
            found = weights[token, slot, None] * expert(tokens[token])
            output = output.index_add(0, token, found)
        loss = balance_loss(logits.softmax(dim=-1), experts)
        return output.reshape(x.shape), loss
        ### END SOLUTION


#: id = "12.10"
#: title = "The modern block"
#: points = 6
#: difficulty = 4
#: minutes = 40
#: needs = ["3.3", "3.4", "4.4", "6.1", "12.1", "12.2", "12.4"]
#: hints = [
#:     "Which of query, key and value learn where they stand?",
#:     "Pre-norm twice; split keys and values into n_kv_heads heads, and rotate queries and keys.",
#:     "rotate(split_heads(self.w_q(y), self.n_heads), positions), with positions 0 to seq - 1.",
#: ]
class ModernBlock(nn.Module):
    """A causal block as LLaMA has it: what changed since 2017, in one place.

    RMS norm before each sublayer, rotary positions, grouped queries, SwiGLU, no
    biases. `split_heads`, `merge_heads`, `rotate`, `causal_mask` and
    `grouped_query_attention` are in scope.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        d_ff: int,
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        check_heads(d_model, n_heads)
        d_head = d_model // n_heads
        check_even(d_head, "d_head")
        _check_groups(n_heads, n_kv_heads)
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.w_v = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)
        self.feed_forward: nn.Module = SwiGLU(d_model, d_ff)
        self.norm_1 = RMSNorm(d_model, eps)
        self.norm_2 = RMSNorm(d_model, eps)

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
        mask: Bool[Tensor, "... seq seq"] | None = None,
    ) -> Float[Tensor, "batch seq d_model"]:
        """Let every word look at itself and at earlier words, then think.

        Queries and keys are rotated by their positions, 0 to seq - 1, after
        they are split into heads; values are not. The mask hides more on top of
        the future; it broadcasts to (batch, heads, seq, seq).
        """
        check_shapes(
            x=(x, "batch seq d_model"),
            norm_1=(self.norm_1.weight, "d_model"),
        )
        check_boolean(mask)
        ### BEGIN SOLUTION
        positions = torch.arange(x.shape[-2], device=x.device)
        causal = causal_mask(x.shape[-2]).to(x.device)
        mask = causal if mask is None else causal & mask
        y = self.norm_1(x)
        q = rotate(split_heads(self.w_q(y), self.n_heads), positions)
        k = rotate(split_heads(self.w_k(y), self.n_kv_heads), positions)
        v = split_heads(self.w_v(y), self.n_kv_heads)
        found, _ = grouped_query_attention(q, k, v, mask)
        x = x + self.w_o(merge_heads(found))
        thought: Tensor = self.feed_forward(self.norm_2(x))
        return x + thought
        ### END SOLUTION


class Llama(nn.Module):
    """A decoder-only model of modern blocks: no table of positions, a final RMS norm, no biases."""

    def __init__(
        self,
        vocab_size: int,
        n_layers: int = 4,
        d_model: int = 128,
        n_heads: int = 4,
        n_kv_heads: int = 2,
        d_ff: int = 344,
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(
            ModernBlock(d_model, n_heads, n_kv_heads, d_ff, eps) for _ in range(n_layers)
        )
        self.norm = RMSNorm(d_model, eps)
        self.output = nn.Linear(d_model, vocab_size, bias=False)
        nn.init.normal_(self.token_embedding.weight, std=0.02)

    def forward(
        self,
        tokens: Int[Tensor, "batch seq"],
        mask: Bool[Tensor, "... seq seq"] | None = None,
    ) -> Float[Tensor, "batch seq vocab"]:
        """Give the logits of the token after each position.

        The mask hides more on top of the future: padding, or what is outside a window.
        """
        check_shapes(tokens=(tokens, "batch seq"))
        states = self.token_embedding(tokens)
        for block in self.blocks:
            states = block(states, mask)
        logits: Tensor = self.output(self.norm(states))
        return logits


# The name that `transformers` gives a part inside a block, and ours.
_LLAMA_PARTS = {
    "input_layernorm": "norm_1",
    "self_attn.q_proj": "w_q",
    "self_attn.k_proj": "w_k",
    "self_attn.v_proj": "w_v",
    "self_attn.o_proj": "w_o",
    "post_attention_layernorm": "norm_2",
    "mlp.gate_proj": "feed_forward.w_gate",
    "mlp.up_proj": "feed_forward.w_up",
    "mlp.down_proj": "feed_forward.w_down",
}


def llama_from_transformers(
    state: dict[str, Tensor], n_heads: int, eps: float = 1e-6, base: float = BASE
) -> Llama:
    """Build a Llama from the weights of a `transformers` LLaMA.

    Its configuration has what the weights do not tell: num_attention_heads, rms_norm_eps and
    rope_theta, which must be ours.
    """
    if base != BASE:
        raise ValueError(f"positions are rotated with the base {BASE:g} here, not {base:g}")
    state = {name.removeprefix("model."): tensor for name, tensor in state.items()}
    try:
        tokens, keys = state["embed_tokens.weight"], state["layers.0.self_attn.k_proj.weight"]
    except KeyError as missing:
        raise ValueError(f"this is not a LLaMA style state dict: {missing} is missing") from None
    d_head = tokens.shape[1] // n_heads
    renamed = {
        "token_embedding.weight": tokens,
        "norm.weight": state["norm.weight"],
        # Where the output is tied to the tokens, a state dict may leave it out.
        "output.weight": state.get("lm_head.weight", tokens),
    }
    n_layers = len({name.split(".")[1] for name in state if name.startswith("layers.")})
    parts = {f"layers.{layer}.{part}.weight" for layer in range(n_layers) for part in _LLAMA_PARTS}
    known = {"embed_tokens.weight", "norm.weight", "lm_head.weight", *parts}
    unknown = [name for name in state if name not in known and "rotary_emb" not in name]
    if unknown:
        raise ValueError(f"a Llama has no place for {unknown[0]}: it belongs to another model")
    for layer in range(n_layers):
        for theirs, ours in _LLAMA_PARTS.items():
            weight = state[f"layers.{layer}.{theirs}.weight"]
            if ours in ("w_q", "w_k"):
                weight = _interleaved(weight, d_head)
            renamed[f"blocks.{layer}.{ours}.weight"] = weight
    d_ff = len(state["layers.0.mlp.gate_proj.weight"])
    model = Llama(len(tokens), n_layers, tokens.shape[1], n_heads, len(keys) // d_head, d_ff, eps).to(
        tokens.dtype
    )
    model.load_state_dict(renamed)
    return model


def _interleaved(weight: Float[Tensor, "out d_model"], d_head: int) -> Float[Tensor, "out d_model"]:
    """Bring the rows of each head from halves to pairs.

    `transformers` turns column i of a head together with column i + d_head / 2, we turn 2i with
    2i + 1: the same turns, of columns in another order. A dot product of query and key does not
    mind the order of columns as long as both have the same, so it is enough to reorder the rows of
    the two matrices that make them; values and all else stay as they are.
    """
    heads = weight.reshape(-1, 2, d_head // 2, weight.shape[-1])
    return heads.transpose(1, 2).flatten(0, 2)
