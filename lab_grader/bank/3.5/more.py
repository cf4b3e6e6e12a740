"""Exercise 3.5. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from lab_grader.bank.engine import Wrong
from lab_transformer import attention as reference

wrong = Wrong()


class _Changed(reference.MultiHeadAttention):
    """Changes what the heads found, or what comes out of them."""

    def found(self, heads: Any) -> Any:
        return heads

    def out(self, output: Any) -> Any:
        return output

    def seen(self, mask: Any, query: Any, key: Any) -> Any:
        return mask

    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        views = self.w_q(query), self.w_k(key), self.w_v(value)
        q, k, v = (reference.split_heads(x, self.n_heads) for x in views)
        heads, weights = reference.scaled_dot_product_attention(q, k, v, self.seen(mask, query, key))
        return self.out(self.w_o(reference.merge_heads(self.found(heads)))), weights


_ONE_HEAD_FOUND = (
    "What one head found is used in place of all heads. Each has its own part of the merged word, and "
    "w_o mixes them."
)


@wrong("last-head-everywhere", _ONE_HEAD_FOUND)
class LastHead(_Changed):
    def found(self, heads: Any) -> Any:
        return heads[..., -1:, :, :].expand_as(heads)


@wrong("first-head-everywhere", _ONE_HEAD_FOUND)
class FirstHead(_Changed):
    def found(self, heads: Any) -> Any:
        return heads[..., :1, :, :].expand_as(heads)


@wrong(
    "heads-reversed-in-merge",
    "You merge the heads from the last to the first. Head 0 comes first, as it did in the split.",
)
class HeadsReversed(_Changed):
    def found(self, heads: Any) -> Any:
        return heads.flip(-3)


@wrong(
    "output-normalised",
    "You normalise the output. That is another block, around this one: the output is what w_o gives.",
)
class Normalised(_Changed):
    def out(self, output: Any) -> Any:
        return F.layer_norm(output, output.shape[-1:])


@wrong(
    "dropout-of-output",
    "Some numbers of your output are zero at random, and the others larger. No dropout is asked for "
    "here: the block gives the same output every time.",
)
class DroppedOut(_Changed):
    def out(self, output: Any) -> Any:
        return F.dropout(output, 0.1)


@wrong(
    "causal-without-a-mask",
    "Without a mask you hide later keys from every query. This block hides only what its mask hides; a "
    "causal mask is one that callers can pass in.",
)
class CausalByDefault(_Changed):
    def seen(self, mask: Any, query: Any, key: Any) -> Any:
        if mask is not None:
            return mask
        shape = query.shape[-2], key.shape[-2]
        return torch.ones(shape, dtype=torch.bool, device=query.device).tril()


@wrong(
    "always-causal",
    "You hide later keys from every query, whatever the mask says. This block hides only what its mask "
    "hides; a causal mask is one that callers can pass in.",
)
class AlwaysCausal(_Changed):
    def seen(self, mask: Any, query: Any, key: Any) -> Any:
        shape = query.shape[-2], key.shape[-2]
        earlier = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
        return earlier if mask is None else mask & earlier


@wrong(
    "mask-for-the-first-head-only",
    "Only your first head obeys the mask; the others see what is hidden. The mask broadcasts to all "
    "heads: pass it on as it is.",
)
class MaskForOneHead(_Changed):
    def seen(self, mask: Any, query: Any, key: Any) -> Any:
        if mask is None:
            return None
        shape = *query.shape[:-2], self.n_heads, query.shape[-2], key.shape[-2]
        heads = mask.expand(shape).clone()
        heads[..., 1:, :, :] = True
        return heads


@wrong(
    "mask-transposed",
    "You exchange the last two axes of the mask. It comes as (query, key), like the scores: pass it on "
    "as it is.",
)
class MaskTransposed(_Changed):
    def seen(self, mask: Any, query: Any, key: Any) -> Any:
        return None if mask is None else mask.mT


class _Views(reference.MultiHeadAttention):
    """Makes its views in some other way."""

    def view(self, layer: Any, x: Any) -> Any:
        return layer(x)

    def inputs(self, query: Any, key: Any, value: Any) -> Any:
        return query, key, value

    def last(self, merged: Any) -> Any:
        return self.w_o(merged)

    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        chosen = self.inputs(query, key, value)
        pairs = zip((self.w_q, self.w_k, self.w_v), chosen, strict=True)
        q, k, v = (reference.split_heads(self.view(*pair), self.n_heads) for pair in pairs)
        heads, weights = reference.scaled_dot_product_attention(q, k, v, mask)
        return self.last(reference.merge_heads(heads)), weights


@wrong(
    "keys-from-query",
    "You make the keys from the query input, or query and key have changed places. What is looked at "
    "comes in as key: each of the three inputs has its own projection.",
)
class KeysFromQuery(_Views):
    def inputs(self, query: Any, key: Any, value: Any) -> Any:
        return query, query, value


@wrong(
    "values-from-query",
    "You make the values from the query input. What is found comes in as value: each of the three "
    "inputs has its own projection.",
)
class ValuesFromQuery(_Views):
    def inputs(self, query: Any, key: Any, value: Any) -> Any:
        return query, key, query


@wrong(
    "queries-from-key",
    "You make the queries from the key input, so there is an output for every key. Who asks comes in "
    "as query: each of the three inputs has its own projection.",
)
class QueriesFromKey(_Views):
    def inputs(self, query: Any, key: Any, value: Any) -> Any:
        return key, key, value


@wrong(
    "projected-twice",
    "Every input goes through its projection twice. Once is enough: look for a second call of the "
    "layers.",
)
class ProjectedTwice(_Views):
    def view(self, layer: Any, x: Any) -> Any:
        return layer(layer(x))


_ACTIVATED_VIEWS = (
    "There is an activation behind the projections. Queries, keys and values are plain linear views: "
    "the softmax is the only bend in this block."
)


@wrong("views-rectified", _ACTIVATED_VIEWS)
class ViewsRectified(_Views):
    def view(self, layer: Any, x: Any) -> Any:
        return layer(x).relu()


@wrong("views-squashed", _ACTIVATED_VIEWS)
class ViewsSquashed(_Views):
    def view(self, layer: Any, x: Any) -> Any:
        return layer(x).tanh()


@wrong(
    "last-bias-left-out",
    "You multiply with the weights of w_o and leave out its bias. Call the layer itself: it does both.",
)
class LastBiasLeftOut(_Views):
    def last(self, merged: Any) -> Any:
        return merged @ self.w_o.weight.mT


@wrong(
    "last-bias-twice",
    "The bias of w_o is added twice. Calling the layer adds it already.",
)
class LastBiasTwice(_Views):
    def last(self, merged: Any) -> Any:
        return self.w_o(merged) + self.w_o.bias


@wrong(
    "last-weights-not-turned",
    "You multiply with the weights of w_o the wrong way round. A linear layer of torch keeps its "
    "matrix as (out, in); call the layer itself, and it takes care of that.",
)
class LastNotTurned(_Views):
    def last(self, merged: Any) -> Any:
        return merged @ self.w_o.weight + self.w_o.bias


@wrong(
    "w_q-and-w_v-exchanged",
    "The projections of queries and values have changed places. Each goes with the input of its name.",
)
class QueriesAndValuesExchanged(_Views):
    def view(self, layer: Any, x: Any) -> Any:
        return (self.w_v if layer is self.w_q else self.w_q if layer is self.w_v else layer)(x)


_FIRST_AXIS_IS_THE_BATCH = (
    "You take it that the first axis of the inputs is the batch when you split into heads. There may "
    "be no batch, or several leading axes: count axes from the end, as your split_heads does."
)


class _Cut(reference.MultiHeadAttention):
    """Cuts into heads in some other way."""

    def cut(self, x: Any) -> Any:
        raise NotImplementedError

    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        q, k, v = self.cut(self.w_q(query)), self.cut(self.w_k(key)), self.cut(self.w_v(value))
        heads, weights = reference.scaled_dot_product_attention(q, k, v, mask)
        merged = heads.transpose(1, 2).reshape(query.shape[0], -1, query.shape[-1])
        return self.w_o(merged), weights


@wrong("first-axis-is-the-batch", _FIRST_AXIS_IS_THE_BATCH)
class FirstAxisIsTheBatch(_Cut):
    def cut(self, x: Any) -> Any:
        return x.reshape(x.shape[0], -1, self.n_heads, x.shape[-1] // self.n_heads).transpose(1, 2)


@wrong("first-two-axes-are-batch-and-words", _FIRST_AXIS_IS_THE_BATCH)
class FirstTwoAxes(_Cut):
    def cut(self, x: Any) -> Any:
        return x.reshape(x.shape[0], x.shape[1], self.n_heads, -1).transpose(1, 2)
