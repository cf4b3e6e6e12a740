"""Wrong turns of week 7: cross-attention, the decoder, the whole Transformer, alignments."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any, cast

import torch
from torch import nn
from torch.nn import functional as F

from lab_grader.bank import ALONE, On, Turn, right, space, wrong
from lab_transformer.attention import (
    merge_heads,
    scaled_dot_product_attention,
    split_heads,
)
from lab_transformer.decoder import Decoder, DecoderBlock
from lab_transformer.masking import causal_mask, padding_mask
from lab_transformer.normalization import post_norm, pre_norm
from lab_transformer.positional import add_positions
from lab_transformer.transformer import Transformer

Mask = torch.Tensor | None


def _both(a: Mask, b: Mask) -> Mask:
    return b if a is None else a if b is None else a & b


def _unit(y: Any) -> Any:
    return F.layer_norm(y, y.shape[-1:])


def _triangle(x: Any, memory: Any) -> Any:
    """A causal mask of the shape (query, key)."""
    return torch.ones(x.shape[-2], memory.shape[-2], dtype=torch.bool, device=x.device).tril()


def _returned(on: On, output: Any, weights: Any) -> Any:
    """Give both results, or what a learner may give instead."""
    if on("weights-returned-first"):
        return weights, output
    if on("only-one-result"):
        return output
    if on("weights-averaged-over-heads"):
        weights = weights.mean(dim=-3)
    if on("weights-detached"):
        weights = weights.detach()
    if on("weights-summed-over-heads"):
        weights = weights.sum(dim=-3)
    if on("weights-transposed"):
        weights = weights.mT
    if on("weights-forgotten"):
        return output, None
    if on("dropout-on-result"):
        output = F.dropout(output, 0.1)
    return output, weights


_RETURNED = (
    Turn(
        "weights-summed-over-heads",
        ALONE,
        "The weights come back summed over the heads. Each head looks somewhere else, and the axis of "
        "the heads belongs to the result: give the weights as the attention gave them.",
    ),
    Turn(
        "weights-transposed",
        ALONE,
        "The last two axes of the weights are exchanged. Rows belong to the queries and columns to the "
        "keys: give the weights as the attention gave them.",
    ),
    Turn(
        "weights-forgotten",
        ALONE,
        "Where the weights should be you return None. The attention gives them beside its output: keep "
        "them and pass them on.",
    ),
    Turn(
        "dropout-on-result",
        ALONE,
        "You drop some numbers of the result at random. Dropout is not asked for here: the same input "
        "should give the same result.",
    ),
    Turn(
        "weights-returned-first",
        "result",
        "You return the weights first and the states second. The order is part of the signature: "
        "first what goes on through the network, then the weights for whoever wants to look at them.",
    ),
    Turn(
        "only-one-result",
        "result",
        "You return the states alone. The weights of the cross-attention are asked for as well: the "
        "alignment between the two languages will be read from them.",
    ),
    Turn(
        "weights-averaged-over-heads",
        "result",
        "The weights come back averaged over the heads. Each head looks somewhere else, and the axis "
        "of the heads belongs to the result: give the weights as the attention gave them.",
    ),
    Turn(
        "weights-detached",
        "result",
        "The weights you return are cut off from the graph, so no gradient flows back through them. "
        "Pass them on as they came.",
    ),
)


@space(
    "7.1",
    Turn(
        "memory-ignored",
        "inputs",
        "Queries, keys and values all come from the decoder: that is self-attention again, and the "
        "source is never looked at. Ask who should answer the question that the decoder's states "
        "ask.",
    ),
    Turn(
        "all-from-memory",
        "inputs",
        "Queries, keys and values all come from the memory, so the source talks to itself and the "
        "result has the source's length. Somebody on the output side should be asking.",
    ),
    Turn(
        "roles-exchanged",
        "inputs",
        "The memory asks and the decoder answers: it should be the other way round. There must be as "
        "many outputs as decoder states, and the number of outputs is the number of queries.",
    ),
    Turn(
        "keys-from-decoder",
        "inputs",
        "Your keys come from the decoder and your values from the memory. Key and value are two "
        "views of the same word: what is compared with the query and what is handed over belong "
        "together.",
    ),
    Turn(
        "values-from-decoder",
        "inputs",
        "You compare with the memory, but hand over values from the decoder. What reaches the output "
        "side should be what the source says: look at where the values come from.",
    ),
    Turn(
        "no-learned-projections",
        "inputs",
        "You compare the raw vectors of the two sides with each other. Keys and values of "
        "cross-attention are learned projections, and `attention` already holds them: let it work.",
    ),
    Turn(
        "projected-twice",
        "inputs",
        "You project the two sides before you call the attention, which projects them itself. Every "
        "projection then happens twice.",
    ),
    Turn(
        "memory-mean-only",
        "inputs",
        "You squeeze the memory into a single vector before anybody looks at it. That is the "
        "bottleneck which attention was invented to remove: every source word must stay visible by "
        "itself.",
    ),
    Turn(
        "attention-module-not-used",
        ALONE,
        "You compare the raw vectors of the two sides, in one head. Keys and values of "
        "cross-attention are learned projections, and there are several heads: the module "
        "`attention` has all of it, so let it work.",
    ),
    Turn(
        "last-memory-state-only",
        ALONE,
        "Only the last state of the memory can be seen. That is the bottleneck which attention was "
        "invented to remove: every source word must stay visible by itself.",
    ),
    Turn(
        "target-joined-to-memory",
        ALONE,
        "You let the decoder's states be looked at together with the memory. They have looked at "
        "each other in the self-attention already: here the source alone is asked.",
    ),
    Turn(
        "value-left-out",
        ALONE,
        "Your call of `attention` has no value, so the mask takes its place. It takes three "
        "sequences before the mask: who asks, what is compared, and what is handed over.",
    ),
    Turn(
        "call-does-not-fit",
        ALONE,
        "Python cannot make your call: the arguments do not fit. Look at what the forward of "
        "MultiHeadAttention takes, in which order and by which names: three sequences, then the "
        "mask.",
    ),
    Turn(
        "mask-ignored",
        "mask",
        "The mask has no effect: padding of the source gets weight. Cross-attention needs the "
        "source's padding mask as much as the encoder does; look at whether it reaches the "
        "attention.",
    ),
    Turn(
        "mask-inverted",
        "mask",
        "You hide the real words and show the padding. In this course True means that a place may be "
        "seen; `nn.MultiheadAttention` uses the opposite.",
    ),
    Turn(
        "mask-transposed",
        "mask",
        "Your mask hides queries instead of keys: its last two axes are exchanged. Padding of the "
        "source is a matter of columns of the weights, since keys stand there.",
    ),
    Turn(
        "causal-cross-attention",
        "mask",
        "You keep target word t from seeing source words after t. The source is known from start to "
        "end, so nothing of it is the future: only self-attention on the output side is causal.",
    ),
    Turn(
        "mask-after-attention",
        "mask",
        "You set weights of hidden words to zero after the attention has been computed. The others "
        "then do not sum to one, and the output still contains the padding. The mask must act before "
        "softmax.",
    ),
    Turn(
        "mask-axes-changed",
        ALONE,
        "Your solution fails wherever a mask is given: its axes no longer broadcast to (..., heads, "
        "query, key). The mask comes in the right form and can be passed on as it is.",
    ),
    Turn(
        "mask-not-boolean",
        ALONE,
        "You turn the mask into numbers, or give another one that is not boolean. A mask of this "
        "course is boolean, True where something may be seen, and can be passed on as it is.",
    ),
    Turn(
        "padding-set-to-zero",
        ALONE,
        "You set the padding of the memory to zero and let it be looked at. A key of zeros still "
        "gets weight, because a score of zero is not minus infinity: the mask must reach the "
        "attention.",
    ),
    Turn(
        "queries-normalised",
        ALONE,
        "You normalise the decoder's states before they ask. Norms are the business of the block around"
        " this function; here the states go in as they came.",
    ),
    Turn(
        "memory-normalised",
        ALONE,
        "You normalise the memory before it is looked at. The encoder has done what is needed; here the"
        " memory goes in as it came.",
    ),
    Turn(
        "output-normalised",
        ALONE,
        "You normalise the output. Norms are the business of the block around this function; here only "
        "what the attention gives should come back.",
    ),
    Turn(
        "residual-and-norm-added",
        ALONE,
        "You add the decoder's states and normalise the sum. Both are the business of the block around "
        "this function; here only what the attention gives should come back.",
    ),
    Turn(
        "attention-twice",
        ALONE,
        "You look at the memory twice, the second time with what the first look gave. Once is enough.",
    ),
    Turn(
        "first-memory-state-only",
        ALONE,
        "Only the first state of the memory can be seen. Every source word must stay visible by itself:"
        " hand the whole memory on.",
    ),
    Turn(
        "memory-cut-to-the-target",
        ALONE,
        "You cut the memory to the length of the target. The two sides have lengths of their own, and "
        "attention joins them without any cutting.",
    ),
    Turn(
        "weights-times-memory",
        ALONE,
        "You build the output from the weights and the raw memory. What is handed over are learned "
        "projections of it, mixed at the end: the attention's own output is that.",
    ),
    Turn(
        "first-row-of-the-mask",
        ALONE,
        "You use the first row of the mask for all queries. A mask may differ from query to query: pass"
        " it on as it is.",
    ),
    Turn(
        "first-sentence-of-the-mask",
        ALONE,
        "You use the first sentence's mask for the whole batch. Every sentence has padding of its own: "
        "pass the mask on as it is.",
    ),
    Turn(
        "mask-gets-one-more-axis",
        ALONE,
        "You give the mask another axis. It already broadcasts to (..., heads, query, key): pass it on "
        "as it is.",
    ),
    Turn(
        "mask-gets-two-more-axes",
        ALONE,
        "You give the mask two more axes. It already broadcasts to (..., heads, query, key): pass it on"
        " as it is.",
    ),
    Turn(
        "mask-asked-for-its-truth",
        ALONE,
        "You ask whether the mask is true (`if mask`, `mask or ...`). A tensor of many answers has no "
        "single one; None may simply be passed on.",
    ),
    Turn(
        "residual-added",
        "extra",
        "You add the decoder's states to the output. The residual path is the business of the block "
        "around this function; here only what the attention gives should come back.",
    ),
    Turn(
        "memory-detached",
        "gradient",
        "No gradient reaches the memory, so the encoder would never learn from the decoder's errors. "
        "Something cuts the memory off from the graph: detach, .data, no_grad or a new tensor.",
    ),
    Turn(
        "states-detached",
        "gradient",
        "No gradient reaches the decoder's states. Something cuts them off from the graph: detach, "
        ".data, no_grad or a new tensor.",
    ),
    Turn(
        "output-detached",
        "gradient",
        "The output is cut off from both of its inputs, so nothing before it can learn. Look for "
        "detach, .data, no_grad or a new tensor made from numbers.",
    ),
    *_RETURNED,
)
def cross_attention(on: On) -> Any:
    def block(decoder_states: Any, memory: Any, attention: Any, memory_mask: Mask = None) -> Any:
        x, mask = decoder_states, memory_mask
        if on("memory-detached"):
            memory = memory.detach()
        if on("states-detached"):
            x = x.detach()
        if on("memory-mean-only"):
            memory = memory.mean(dim=-2, keepdim=True).expand_as(memory)
        if mask is not None:
            if on("mask-inverted"):
                mask = ~mask
            if on("mask-transposed"):
                mask = mask.mT
            if on("mask-axes-changed"):
                mask = mask.squeeze(1)
            if on("mask-not-boolean"):
                mask = mask.float()
            if on("first-row-of-the-mask"):
                mask = mask[..., :1, :]
            if on("first-sentence-of-the-mask"):
                mask = mask[:1]
            if on("mask-gets-one-more-axis"):
                mask = mask.unsqueeze(1)
            if on("mask-gets-two-more-axes"):
                mask = mask[:, None, None]
            if on("mask-asked-for-its-truth"):
                bool(mask)
            if on("padding-set-to-zero"):
                memory = memory * mask.any(dim=-2)[:, 0, :, None]
                mask = None
        if on("mask-ignored") or on("mask-after-attention"):
            mask = None
        if on("queries-normalised"):
            x = _unit(x)
        if on("memory-normalised"):
            memory = _unit(memory)
        if on("memory-cut-to-the-target"):
            memory = memory[..., : x.shape[-2], :]
            mask = mask if mask is None else mask[..., : x.shape[-2]]
        if on("causal-cross-attention"):
            mask = _both(mask, _triangle(x, memory))
        query, key, value = x, memory, memory
        if on("memory-ignored"):
            key = value = x
        if on("all-from-memory"):
            query = memory
        if on("roles-exchanged"):
            query, key, value = memory, x, x
        if on("keys-from-decoder"):
            key = x
        if on("values-from-decoder"):
            value = x
        if on("first-memory-state-only"):
            key = value = memory[..., :1, :]
            mask = None
        if on("last-memory-state-only"):
            key = value = memory[..., -1:, :]
        if on("target-joined-to-memory"):
            key = value = torch.cat([memory, x], dim=-2)
        if on("projected-twice"):
            query, key, value = attention.w_q(x), attention.w_k(memory), attention.w_v(memory)
        if on("value-left-out"):
            output, weights = attention(query, key, mask)
        elif on("call-does-not-fit"):
            output, weights = attention(query, key, mask=mask)
        elif on("attention-module-not-used"):
            output, weights = scaled_dot_product_attention(query, key, value, mask)
        elif on("no-learned-projections"):
            q, k, v = (split_heads(y, attention.n_heads) for y in (query, key, value))
            output, weights = scaled_dot_product_attention(q, k, v, mask)
            output = merge_heads(output)
        else:
            output, weights = attention(query, key, value, mask)
        if on("attention-twice"):
            output, weights = attention(output, key, value, mask)
        if on("weights-times-memory"):
            output = weights.mean(dim=-3) @ memory
        if on("output-normalised"):
            output = _unit(output)
        if on("residual-and-norm-added"):
            output = _unit(output + x)
        if on("mask-after-attention") and memory_mask is not None:
            weights = weights.masked_fill(~memory_mask, 0.0)
        if on("residual-added"):
            output = output + x
        if on("output-detached"):
            output, weights = output.detach(), weights.detach()
        return _returned(on, output, weights)

    return block


@right("7.1")
def with_keywords(decoder_states: Any, memory: Any, attention: Any, memory_mask: Mask = None) -> Any:
    return attention(query=decoder_states, key=memory, value=memory, mask=memory_mask)


@right("7.1")
def by_hand(decoder_states: Any, memory: Any, attention: Any, memory_mask: Mask = None) -> Any:
    q = split_heads(attention.w_q(decoder_states), attention.n_heads)
    k = split_heads(attention.w_k(memory), attention.n_heads)
    v = split_heads(attention.w_v(memory), attention.n_heads)
    scores = torch.einsum("...qd,...kd->...qk", q, k) * q.shape[-1] ** -0.5
    if memory_mask is not None:
        scores = scores.masked_fill(memory_mask.logical_not(), float("-inf"))
    weights = scores.softmax(dim=-1).nan_to_num()
    return attention.w_o(merge_heads(weights @ v)), weights


@right("7.1")
def with_a_mask_always(
    decoder_states: Any, memory: Any, attention: Any, memory_mask: Mask = None
) -> Any:
    if memory_mask is None:
        memory_mask = torch.ones(1, memory.shape[-2], dtype=torch.bool, device=memory.device)
    source = memory.clone().contiguous()
    return list(attention(decoder_states + 0.0, source, source, memory_mask))


# Which norm each sublayer uses; 0 is none.
_NORMS = {
    "one-norm-for-all": (
        (1, 1, 1),
        "around",
        "You use the first norm for all three sublayers. Each sublayer has a norm of its own.",
    ),
    "norms-1-and-2-exchanged": (
        (2, 1, 3),
        ALONE,
        "The norms of the two attentions have changed places. They are numbered in the order of the "
        "sublayers.",
    ),
    "norms-2-and-3-exchanged": (
        (1, 3, 2),
        ALONE,
        "The norms of the cross-attention and of the feed-forward layer have changed places. They are "
        "numbered in the order of the sublayers.",
    ),
    "first-norm-used-twice": (
        (1, 1, 3),
        ALONE,
        "The cross-attention uses the norm of the self-attention. Each sublayer has a norm of its own.",
    ),
    "norms-1-1-2": (
        (1, 1, 2),
        ALONE,
        "Both attentions use the first norm, and the third one is not used at all. Each sublayer has a "
        "norm of its own, in this order.",
    ),
    "second-norm-used-twice": (
        (1, 2, 2),
        ALONE,
        "The feed-forward layer uses the norm of the cross-attention. Each sublayer has a norm of its "
        "own.",
    ),
    "no-norm": (
        (0, 0, 0),
        ALONE,
        "Nothing is normalised in your block. Each sublayer has a norm, before it or after the sum.",
    ),
    "self-attention-not-normalised": (
        (0, 2, 3),
        ALONE,
        "The sublayer of the self-attention goes without its norm. All three sublayers take the same "
        "way around: residual path and norm.",
    ),
    "cross-attention-not-normalised": (
        (1, 0, 3),
        ALONE,
        "The sublayer of the cross-attention goes without its norm. All three sublayers take the same "
        "way around: residual path and norm.",
    ),
    "feed-forward-not-normalised": (
        (1, 2, 0),
        ALONE,
        "The feed-forward layer goes without its norm. All three sublayers take the same way around: "
        "residual path and norm.",
    ),
}


_SUBLAYERS = {
    "self-attention": "self-attention",
    "cross-attention": "cross-attention",
    "feed-forward": "feed-forward layer",
}
# What can go wrong in only one of the two orders, when they are written as two branches.
_FAULTS = {
    "no-causal-mask": "words see the future",
    "memory-mask-ignored": "the mask of the source makes no difference",
    **{
        f"no-residual-around-{name}": f"the {words} has no residual path"
        for name, words in _SUBLAYERS.items()
    },
}


@space(
    "7.2",
    Turn(
        "no-causal-mask",
        "self",
        "A target word sees the words after it. In training the whole target is there, so the block "
        "would copy the answer and be useless when it has to write: self-attention needs a causal "
        "mask.",
    ),
    Turn(
        "mask-replaces-causal-mask",
        "self",
        "As soon as a padding mask is given, your block looks into the future. The given mask comes "
        "on top of the causal one: a key must be allowed by both.",
    ),
    Turn(
        "target-mask-ignored",
        "self",
        "Padding of the target is not hidden: `mask` has no effect on the self-attention. It comes "
        "on top of the causal mask.",
    ),
    Turn(
        "or-instead-of-and",
        "self",
        "You allow a key if one of the two masks allows it. It must be allowed by both: not in the "
        "future, and not padding.",
    ),
    Turn(
        "strictly-causal",
        "self",
        "A target word does not see itself, and the first one sees nothing. The diagonal belongs to "
        "the causal mask: the input was already shifted to the right.",
    ),
    Turn(
        "looks-only-ahead",
        ALONE,
        "Your causal mask is turned over: a word sees itself and the future, but not the past. Look "
        "at which of the two axes is the query.",
    ),
    Turn(
        "causal-mask-inverted",
        ALONE,
        "Your causal mask says the opposite: words see only what comes after them. In this course "
        "True means that a place may be seen.",
    ),
    Turn(
        "self-attention-reads-the-source",
        ALONE,
        "Your first sublayer already looks at the memory. First the target words look at each other; "
        "the source comes in the second sublayer.",
    ),
    Turn(
        "causal-mask-not-boolean",
        ALONE,
        "Your causal mask holds numbers. A mask of this course is boolean, True where something may "
        "be seen: `causal_mask` of week 6 gives one, and & combines two of them.",
    ),
    Turn(
        "tuple-not-unpacked",
        ALONE,
        "An attention returns two things, its output and its weights, and you use them as if they "
        "were one tensor. A sublayer should give the output alone; the weights are kept aside.",
    ),
    Turn(
        "memory-mask-ignored",
        "cross",
        "Padding of the source gets weight: `memory_mask` does not reach the cross-attention. How "
        "much padding a batch needs would then change the translation.",
    ),
    Turn(
        "memory-mask-inverted",
        ALONE,
        "The cross-attention sees padding and no real word. In this course True means that a place "
        "may be seen.",
    ),
    Turn(
        "target-mask-on-the-source",
        "cross",
        "You hide source words by the mask of the target. Two sequences, two masks: keys of the "
        "cross-attention are source words, so it needs the source's.",
    ),
    Turn(
        "masks-exchanged",
        ALONE,
        "The two masks have changed places: each of the two attentions gets the one that belongs to "
        "the other. Ask for each whose words its keys are.",
    ),
    Turn(
        "causal-mask-of-the-target-on-the-source",
        ALONE,
        "The cross-attention gets the mask that you made for the self-attention: causal, and of the "
        "target's length. Its keys are source words, known from start to end: it needs the source's "
        "own mask.",
    ),
    Turn(
        "causal-cross-attention",
        "cross",
        "You keep target word t from seeing source words after t. The source is known from start to "
        "end, so nothing of it is the future: only self-attention is causal.",
    ),
    Turn(
        "cross-attends-to-the-target",
        "cross",
        "Your second attention never looks at the memory: keys and values come from the decoder's "
        "own states. The source must come in somewhere, and this is the place.",
    ),
    Turn(
        "roles-exchanged",
        "cross",
        "In the cross-attention the memory asks and the decoder answers, so the result has the "
        "length of the source. There must be as many outputs as target words.",
    ),
    Turn(
        "values-from-decoder",
        ALONE,
        "The cross-attention compares with the memory, but hands over values from the decoder's "
        "states. What comes across should be what the source says.",
    ),
    Turn(
        "keys-from-decoder",
        ALONE,
        "The cross-attention compares with the decoder's own states and hands over values of the "
        "memory. Key and value are two views of the same source word.",
    ),
    Turn(
        "one-attention-for-both",
        "cross",
        "You use the weights of the self-attention for the cross-attention as well. The block has "
        "two attention modules, since looking at oneself and at the source are two tasks.",
    ),
    Turn(
        "attentions-exchanged",
        ALONE,
        "The two attention modules have changed places: the one made for the source is used on the "
        "target, and the other way round. Saved weights would no longer fit.",
    ),
    Turn(
        "asks-with-the-block's-input",
        ALONE,
        "The queries of the cross-attention are made from the block's input. They should be made "
        "from what the self-attention left: each sublayer continues where the one before it stopped.",
    ),
    Turn(
        "memory-normalised",
        ALONE,
        "You send the memory through a norm of the block. It comes from the encoder, which has "
        "already normalised it; the norm of a sublayer is for the decoder's own states.",
    ),
    Turn(
        "cross-attention-first",
        "around",
        "Your block looks at the source first and at the target afterwards. It should be the other "
        "way round: a word has to know what was written before it can ask the source a good "
        "question.",
    ),
    Turn(
        "feed-forward-before-cross-attention",
        ALONE,
        "Your feed-forward layer comes before the cross-attention. It should come last, to think "
        "about what both attentions have found.",
    ),
    Turn(
        "sublayers-in-parallel",
        ALONE,
        "All three sublayers see the block's input, and their results are added up. They should come "
        "one after the other, each on the result of the one before.",
    ),
    Turn(
        "no-self-attention",
        ALONE,
        "The self-attention is missing from the result: target words never look at each other. A "
        "decoder block has three sublayers.",
    ),
    Turn(
        "no-cross-attention",
        ALONE,
        "What the cross-attention found is not used: the states do not depend on the source. Its "
        "output belongs into the residual path, its weights into the result.",
    ),
    Turn(
        "no-feed-forward",
        "around",
        "The feed-forward layer is missing. A decoder block has three sublayers; the last one lets "
        "every word think about what it saw.",
    ),
    Turn(
        "always-pre-norm",
        "around",
        "Your block uses pre-norm even where `norm_first` is False. Both orders are asked for; the "
        "block was told at its making which one it is.",
    ),
    Turn(
        "always-post-norm",
        "around",
        "Your block uses post-norm even where `norm_first` is True. Both orders are asked for; the "
        "block was told at its making which one it is.",
    ),
    Turn(
        "norm-order-inverted",
        ALONE,
        "Pre-norm and post-norm have changed places: `norm_first` means that the norm comes before "
        "the sublayer."
        " Look at which function you call in which case.",
    ),
    *(Turn(name, slot, message) for name, (_, slot, message) in _NORMS.items()),
    Turn(
        "norm-of-the-sublayer-only",
        ALONE,
        "You normalise what a sublayer gives and add it to the states. Pre-norm normalises what goes "
        "into a sublayer, post-norm the whole sum: look at what your norm is given.",
    ),
    Turn(
        "extra-norm-at-the-end",
        ALONE,
        "A pre-norm block of yours normalises its result once more. The residual path should leave "
        "the block raw: the decoder has one final norm for the whole stack.",
    ),
    Turn(
        "keys-and-values-not-normalised",
        ALONE,
        "In pre-norm only the queries of your self-attention are normalised. Queries, keys and "
        "values are views of the same states: all three see normalised numbers.",
    ),
    Turn(
        "residual-from-the-block's-input",
        ALONE,
        "Every sublayer's result is added to the block's input. It should be added to the states "
        "that went into that sublayer, or else the one before it is lost.",
    ),
    Turn(
        "no-residual",
        "around",
        "There is no residual path: every sublayer replaces the states. Its result should be added "
        "to what went in.",
    ),
    Turn(
        "no-residual-around-cross-attention",
        ALONE,
        "The cross-attention replaces the states of the target by what it found in the source. Its "
        "result should be added, as that of every sublayer.",
    ),
    Turn(
        "no-residual-around-self-attention",
        ALONE,
        "The self-attention replaces the states. Its result should be added to what went in, as that "
        "of every sublayer.",
    ),
    Turn(
        "no-residual-around-feed-forward",
        ALONE,
        "The feed-forward layer replaces the states. Its result should be added to what went in, as "
        "that of every sublayer.",
    ),
    Turn(
        "residual-adds-the-normalised-input",
        "around",
        "In pre-norm you add the normalised states to the sublayer's result. The residual path "
        "should carry the raw ones: only the sublayer sees normalised numbers.",
    ),
    *(
        Turn(
            f"{name}-twice",
            ALONE,
            f"Your states go through the {words} twice. The block has three sublayers, and each is used"
            " once.",
        )
        for name, words in _SUBLAYERS.items()
    ),
    *(
        Turn(
            f"dropout-on-{name}",
            ALONE,
            f"You drop some numbers of what the {words} gives at random. Dropout is not asked for here:"
            " the same input should give the same result.",
        )
        for name, words in _SUBLAYERS.items()
    ),
    *(
        Turn(
            f"{fault}-in-{order}-norm",
            ALONE,
            f"With norm_first={order == 'pre'} {words}, though the other order is right. Both orders "
            "differ in the place of the norm only.",
        )
        for fault, words in _FAULTS.items()
        for order in ("pre", "post")
    ),
    Turn(
        "dropout-everywhere",
        ALONE,
        "You drop some numbers of what each sublayer gives at random. Dropout is not asked for here: "
        "the same input should give the same result.",
    ),
    Turn(
        "cross-attention-for-both",
        ALONE,
        "You use the module of the cross-attention for the self-attention too. The block has two, each "
        "with weights of its own.",
    ),
    Turn(
        "masked-cross-attention-to-the-target",
        ALONE,
        "Where the block should look at the source it looks at the target once more, under the causal "
        "mask. Keys and values of the cross-attention come from the memory.",
    ),
    Turn(
        "attentions-in-parallel",
        ALONE,
        "In your pre-norm block both attentions start from the block's input. The cross-attention asks "
        "with what the self-attention and its residual path gave.",
    ),
    Turn(
        "mask-required",
        ALONE,
        "Without a mask your block breaks: None cannot be combined with another mask. When mask is None"
        " only the future is hidden.",
    ),
    Turn(
        "mask-asked-for-its-truth",
        ALONE,
        "You ask whether the mask is true (`if mask`, `and`, `or`). A tensor of many answers has no "
        "single one: ask whether it is None, and combine masks place by place.",
    ),
    Turn(
        "target-mask-overwritten",
        ALONE,
        "You write the causal mask into the mask that you were given (&=). The caller still needs it: "
        "make a new one.",
    ),
    Turn(
        "target-mask-inverted",
        ALONE,
        "You turn the mask of the target round: its words are hidden and its padding is seen. True "
        "means that a place may be looked at.",
    ),
    Turn(
        "target-mask-on-rows",
        ALONE,
        "You exchange the last two axes of the target's mask. It hides padding as a key, in the "
        "columns: hand it on as it is.",
    ),
    Turn(
        "sees-the-next-word",
        ALONE,
        "Every word sees one word too far: the very one it is to predict. Check where the triangle of "
        "the mask begins: the diagonal is the last place that is allowed.",
    ),
    Turn(
        "itself-always-open",
        ALONE,
        "Every word may look at itself in your block, even where the given mask hides it. Both masks "
        "must allow a key; a word that may look at nothing is taken care of in the softmax.",
    ),
    Turn(
        "own-norms",
        ALONE,
        "You normalise with a layer norm of your own, without gain and bias. Use the norms that the "
        "block owns: theirs are learned.",
    ),
    Turn(
        "raw-queries-in-self-attention",
        ALONE,
        "In your pre-norm block the queries of the self-attention come from raw states. It sees the "
        "normalised states in all three places.",
    ),
    Turn(
        "raw-values-in-self-attention",
        ALONE,
        "In your pre-norm block the values of the self-attention come from raw states. It sees the "
        "normalised states in all three places.",
    ),
    Turn(
        "raw-queries-in-cross-attention",
        ALONE,
        "In your pre-norm block the cross-attention asks with raw states. Like every sublayer it sees "
        "normalised ones.",
    ),
    Turn(
        "input-added-again",
        ALONE,
        "At the end you add the block's input once more. Every sublayer has a residual path already; "
        "the block needs none around it.",
    ),
    Turn(
        "weights-from-the-block's-input",
        ALONE,
        "The states are right, but the weights come from a second look, with the block's input as the "
        "question. Keep the weights of the look that made the states.",
    ),
    Turn(
        "weights-from-the-result",
        ALONE,
        "The states are right, but the weights come from a second look, with the finished states as the"
        " question. Keep the weights of the look that made the states.",
    ),
    Turn(
        "both-weights-in-a-pair",
        ALONE,
        "Your second result is a pair of weights. Those of the cross-attention alone are asked for.",
    ),
    Turn(
        "three-results",
        ALONE,
        "You return three things: the states and the weights of both attentions. Two are asked for, and"
        " the weights are those of the cross-attention.",
    ),
    Turn(
        "weights-of-one-head",
        ALONE,
        "You return the weights of the first head only. Every head looks in its own way: return the "
        "weights of all of them, with their axis.",
    ),
    Turn(
        "weights-of-the-self-attention",
        "result",
        "You return the weights of the self-attention. Those of the cross-attention are asked for: "
        "they say which source word each target word looked at.",
    ),
    Turn(
        "memory-detached",
        "cross",
        "No gradient reaches the memory, so the encoder would never learn from the decoder's errors. "
        "Something cuts the memory off from the graph: detach, .data, no_grad or a new tensor.",
    ),
    *_RETURNED,
)
def decoder_block(on: On) -> Any:
    class Block(DecoderBlock):
        def forward(self, x: Any, memory: Any, mask: Mask = None, memory_mask: Mask = None) -> Any:
            start = x
            if on("memory-detached"):
                memory = memory.detach()
            if on("masks-exchanged"):
                mask, memory_mask = memory_mask, mask
            if on("target-mask-on-the-source"):
                memory_mask = mask
            if on("memory-mask-inverted") and memory_mask is not None:
                memory_mask = ~memory_mask
            if self.faulty("memory-mask-ignored"):
                memory_mask = None
            if on("mask-asked-for-its-truth") and mask is not None:
                bool(mask)
            if on("causal-cross-attention"):
                memory_mask = _both(memory_mask, _triangle(x, memory))
            if on("causal-mask-of-the-target-on-the-source"):
                memory_mask = self.allowed(x, mask)
            first, second = self.attention, self.cross_attention
            if on("attentions-exchanged"):
                first, second = second, first
            if on("one-attention-for-both"):
                second = first
            if on("cross-attention-for-both"):
                first = second
            kept: list[Any] = [None, None]

            def attend(y: Any) -> Any:
                source = memory if on("self-attention-reads-the-source") else y
                allowed = None if source is memory else self.allowed(y, mask)
                if on("keys-and-values-not-normalised"):
                    source = x
                found = first(
                    x if on("raw-queries-in-self-attention") else y,
                    source,
                    x if on("raw-values-in-self-attention") else source,
                    allowed,
                )
                kept[0] = found[1]
                return found if on("tuple-not-unpacked") else found[0]

            def look(y: Any) -> Any:
                query, key, value = y, memory, memory
                if on("asks-with-the-block's-input"):
                    query = self.norm_2(start) if self.norm_first else start
                if on("memory-normalised"):
                    key = value = self.norm_2(memory)
                if on("cross-attends-to-the-target"):
                    key = value = y
                if on("roles-exchanged"):
                    query, key, value = memory, y, y
                if on("values-from-decoder"):
                    value = y
                if on("keys-from-decoder"):
                    key = y
                if on("raw-queries-in-cross-attention"):
                    query = x
                if on("masked-cross-attention-to-the-target"):
                    output, kept[1] = second(y, y, y, self.allowed(y, mask))
                    return output
                output, kept[1] = second(query, key, value, memory_mask)
                return output

            steps = self.steps(attend, look)
            if on("attentions-in-parallel") and self.norm_first:
                x = x + sum(self.residual(x, *step) - x for step in steps[:2])
                x = self.residual(x, *steps[2])
            elif on("sublayers-in-parallel"):
                x = x + sum(self.residual(x, *step) - x for step in steps)
            else:
                for sublayer, norm, name in steps:
                    x = self.residual(x, sublayer, norm, name, start)
            if on("extra-norm-at-the-end") and self.norm_first:
                x = self.norm_3(x)
            x = x + start if on("input-added-again") else x
            weights = kept[0 if on("weights-of-the-self-attention") else 1]
            if on("weights-from-the-block's-input") or on("weights-from-the-result"):
                asking = x if on("weights-from-the-result") else start
                weights = second(asking, memory, memory, memory_mask)[1]
            if on("both-weights-in-a-pair"):
                return x, tuple(kept)
            if on("three-results"):
                return x, *kept
            if on("weights-of-one-head"):
                weights = weights[:, 0]
            return _returned(on, x, weights)

        def faulty(self, name: str) -> bool:
            """Tell whether something is wrong in the order that is asked for."""
            order = "pre" if self.norm_first else "post"
            return on(name) or (name in _FAULTS and on(f"{name}-in-{order}-norm"))

        def allowed(self, y: Any, mask: Mask) -> Mask:
            causal = causal_mask(y.shape[-2]).to(y.device)
            if on("strictly-causal"):
                causal = causal.tril(-1)
            if on("looks-only-ahead"):
                causal = causal.mT
            if on("causal-mask-inverted"):
                causal = ~causal
            if on("causal-mask-not-boolean"):
                causal = causal.float()
            if self.faulty("no-causal-mask"):
                return mask
            if on("sees-the-next-word"):
                causal = torch.ones_like(causal).tril(1)
            if on("mask-required"):
                return causal & cast(torch.Tensor, mask)
            if mask is None or on("target-mask-ignored"):
                return causal
            if on("mask-replaces-causal-mask"):
                return mask
            if on("target-mask-inverted"):
                return causal & ~mask
            if on("target-mask-on-rows"):
                return causal & mask.mT
            if on("itself-always-open"):
                return causal & mask | torch.eye(y.shape[-2], dtype=torch.bool)
            if on("target-mask-overwritten") and mask.shape[-2:] == causal.shape:
                mask &= causal
                return mask
            return causal | mask if on("or-instead-of-and") else causal & mask

        def steps(self, attend: Any, look: Any) -> list[Any]:
            used = next((used for name, (used, *_) in _NORMS.items() if on(name)), (1, 2, 3))
            norms = [(nn.Identity(), self.norm_1, self.norm_2, self.norm_3)[i] for i in used]
            names = ["self-attention", "cross-attention", "feed-forward"]
            steps = list(zip([attend, look, self.feed_forward], norms, names, strict=True))
            if on("cross-attention-first"):
                steps = [steps[1], steps[0], steps[2]]
            if on("feed-forward-before-cross-attention"):
                steps = [steps[0], steps[2], steps[1]]
            return [step for step in steps for _ in range(2 if on(f"{step[2]}-twice") else 1)]

        def residual(self, x: Any, sublayer: Any, norm: Any, name: str, start: Any = None) -> Any:
            norm_first = self.norm_first
            if on("always-pre-norm") or on("always-post-norm"):
                norm_first = on("always-pre-norm")
            if on("norm-order-inverted"):
                norm_first = not norm_first
            if on("norm-of-the-sublayer-only"):
                return x + norm(sublayer(x))
            norm = _unit if on("own-norms") else norm
            seen = norm(x) if norm_first else x
            found = sublayer(seen)
            if on("dropout-everywhere") or on(f"dropout-on-{name}"):
                found = F.dropout(found, 0.1)
            if on(f"no-{name}"):
                return x
            if on("no-residual") or self.faulty(f"no-residual-around-{name}"):
                total = found
            elif on("residual-adds-the-normalised-input"):
                total = seen + found
            elif on("residual-from-the-block's-input"):
                total = start + found
            else:
                total = x + found
            return total if norm_first else norm(total)

    return Block


@right("7.2")
class WrittenOut(DecoderBlock):
    def forward(self, x: Any, memory: Any, mask: Mask = None, memory_mask: Mask = None) -> Any:
        length = x.size(1)
        allowed = ~torch.triu(torch.ones(length, length, device=x.device), diagonal=1).bool()
        if mask is not None:
            allowed = torch.logical_and(allowed, mask)
        if self.norm_first:
            y = self.norm_1(x)
            x = x + self.attention(y, y, y, allowed)[0]
            output, weights = self.cross_attention(self.norm_2(x), memory, memory, memory_mask)
            x = x + output
            return x + self.feed_forward(self.norm_3(x)), weights
        x = self.norm_1(x + self.attention(x, x, x, allowed)[0])
        output, weights = self.cross_attention(x, memory, memory, memory_mask)
        x = self.norm_2(x + output)
        return self.norm_3(x + self.feed_forward(x)), weights


@right("7.2")
class WithBuiltIns(DecoderBlock):
    def forward(self, x: Any, memory: Any, mask: Mask = None, memory_mask: Mask = None) -> Any:
        kept: list[Any] = []

        def attend(y: Any) -> Any:
            q, k, v = (
                split_heads(w(y), self.attention.n_heads)
                for w in (self.attention.w_q, self.attention.w_k, self.attention.w_v)
            )
            causal = causal_mask(y.shape[-2]).to(y.device)
            allowed = causal if mask is None else causal * mask
            found = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed).nan_to_num()
            return self.attention.w_o(merge_heads(found))

        def look(y: Any) -> Any:
            kept.extend(self.cross_attention(y, memory, memory, memory_mask))
            return kept[0]

        def think(y: Any) -> Any:
            layer = self.feed_forward
            return layer.w_2(F.relu(layer.w_1(y)))

        around = (post_norm, pre_norm)[self.norm_first]
        for sublayer, norm in ((attend, self.norm_1), (look, self.norm_2), (think, self.norm_3)):
            x = around(x, sublayer, norm)
        return x, kept[1]


@right("7.2")
class WordByWord(DecoderBlock):
    def forward(self, x: Any, memory: Any, mask: Mask = None, memory_mask: Mask = None) -> Any:
        def attend(y: Any) -> Any:
            outputs = []
            for t in range(y.shape[1]):
                seen = y[:, : t + 1]
                hidden = mask
                if mask is not None:
                    hidden = mask.expand(-1, -1, y.shape[1], -1)[..., t : t + 1, : t + 1]
                outputs.append(self.attention(y[:, t : t + 1], seen, seen, hidden)[0])
            return torch.cat(outputs, dim=1)

        before = self.norm_1(x) if self.norm_first else x
        x = x + attend(before)
        x = x if self.norm_first else self.norm_1(x)
        before = self.norm_2(x) if self.norm_first else x
        found, weights = self.cross_attention(before, memory, memory, memory_mask)
        x = found.add_(x) if self.norm_first else self.norm_2(x + found)
        before = self.norm_3(x) if self.norm_first else x
        x = x + self.feed_forward(before)
        return (x if self.norm_first else self.norm_3(x)), weights


@space(
    "7.3",
    Turn(
        "states-not-carried",
        "blocks",
        "Every block starts again from the decoder's input. It should continue with the states of "
        "the block before it; only the memory stays the same.",
    ),
    Turn(
        "first-block-repeated",
        "blocks",
        "You use one block again and again. Each layer has parameters of its own: go through all of "
        "`self.blocks`.",
    ),
    Turn(
        "blocks-in-reverse",
        ALONE,
        "You go through the blocks from the last to the first. The first one should see the input.",
    ),
    Turn(
        "last-block-skipped",
        "blocks",
        "The last block is never used: one layer is missing from states and weights."
        " Look at where your loop over the blocks ends.",
    ),
    Turn(
        "first-block-skipped",
        ALONE,
        "The first block is never used: one layer is missing from states and weights."
        " Look at where your loop over the blocks begins.",
    ),
    Turn(
        "residual-around-blocks",
        ALONE,
        "You add a block's input to its result. The residual paths are inside the blocks already, "
        "one around every sublayer.",
    ),
    Turn(
        "memory-replaced-by-states",
        "memory",
        "After the first block you hand over the decoder's states as memory. All blocks should look "
        "at the same memory: the encoder's result does not change on the way.",
    ),
    Turn(
        "states-and-memory-exchanged",
        ALONE,
        "You give the blocks the memory as their states and the states as their memory. The first "
        "argument of a block is the side that is being written.",
    ),
    Turn(
        "memory-normalised",
        ALONE,
        "You send the memory through the final norm. It comes from the encoder, which has already "
        "normalised it; `self.norm` is for the decoder's last states.",
    ),
    Turn(
        "no-final-norm",
        "norm",
        "The final norm is missing. In a pre-norm stack nobody has normalised the sum that leaves "
        "the last block.",
    ),
    Turn(
        "norm-after-every-block",
        "norm",
        "You normalise after every block. `self.norm` belongs behind the last one only: between the "
        "blocks the residual path should stay raw.",
    ),
    Turn(
        "norm-before-the-blocks",
        ALONE,
        "You normalise the input of the stack instead of its result. In a pre-norm stack it is the "
        "sum that leaves the last block which nobody has normalised.",
    ),
    Turn(
        "norm-before-every-block",
        ALONE,
        "You normalise before every block. The blocks normalise what their sublayers see themselves: "
        "`self.norm` belongs behind the last block only.",
    ),
    Turn(
        "norm-after-every-block-and-at-the-end",
        ALONE,
        "You normalise after every block and once more at the end. `self.norm` belongs behind the "
        "last block only, once: between the blocks the residual path should stay raw.",
    ),
    Turn(
        "target-mask-not-passed",
        "masks",
        "`mask` does not reach the blocks, so padding of the target is seen."
        " Look at what you hand to every block, and in which order.",
    ),
    Turn(
        "memory-mask-not-passed",
        "masks",
        "`memory_mask` does not reach the blocks, so padding of the source gets weight in the "
        "cross-attention."
        " Look at what you hand to every block, and in which order.",
    ),
    Turn(
        "no-mask-passed",
        "masks",
        "Neither of the two masks reaches the blocks, so padding is seen on both sides."
        " Look at what you hand to every block besides states and memory.",
    ),
    Turn(
        "masks-exchanged",
        "masks",
        "The two masks have changed places: look at the order of a block's arguments."
        " One hides the padding of the target, the other that of the source.",
    ),
    Turn(
        "masks-for-the-first-block-only",
        ALONE,
        "Only the first block gets the masks. Padding is padding in every layer.",
    ),
    Turn(
        "weights-of-the-last-block-only",
        "result",
        "You return the weights of the last block alone. Those of every block are asked for, with "
        "the layers as an axis behind the batch.",
    ),
    Turn(
        "layers-as-first-axis",
        "result",
        "The layers are the first axis of your weights. The batch comes first everywhere in this "
        "course; the layers come right behind it.",
    ),
    Turn(
        "layers-behind-heads",
        ALONE,
        "The layers come behind the heads in your weights. They should come right behind the batch, "
        "before the heads.",
    ),
    Turn(
        "layers-joined-with-heads",
        "result",
        "The weights of all blocks are joined along the heads. Layers are an axis of their own: put "
        "the blocks' weights on top of each other, not side by side.",
    ),
    Turn(
        "layers-joined-with-batch",
        ALONE,
        "The weights of all blocks are joined along the batch. Layers are an axis of their own: put "
        "the blocks' weights on top of each other, not one after the other.",
    ),
    Turn(
        "weights-averaged-over-layers",
        "result",
        "You average the weights of the layers. Every block's own weights are asked for, with the "
        "layers as an axis behind the batch.",
    ),
    Turn(
        "weights-added-up",
        ALONE,
        "You add up the weights of the layers. Every block's own weights are asked for, with the "
        "layers as an axis behind the batch.",
    ),
    Turn(
        "states-collected",
        ALONE,
        "You collect the states of the blocks where their weights are asked for. A block returns two "
        "things: go on with the first and keep the second.",
    ),
    Turn(
        "layers-as-last-axis",
        ALONE,
        "The layers are the last axis of your weights. They should come right behind the batch.",
    ),
    Turn(
        "block-not-unpacked",
        ALONE,
        "A block returns two things, states and weights, and you hand both to the next block as if "
        "they were one tensor. Go on with the first and keep the second.",
    ),
    Turn(
        "weights-as-a-list",
        "result",
        "You return the weights as a list, one entry a block. One tensor is asked for, with the "
        "layers as an axis behind the batch.",
    ),
    Turn(
        "weights-in-reverse",
        ALONE,
        "The layers of your weights are in reverse order. Layer 0 should be the block that sees the "
        "input.",
    ),
    Turn(
        "weights-of-one-block-repeated",
        ALONE,
        "All layers of your weights are the same. Collect a block's weights when it has run, not "
        "those of the last one again and again.",
    ),
    Turn(
        "memory-detached",
        "memory",
        "No gradient reaches the memory, so the encoder would never learn from the decoder's errors. "
        "Something cuts the memory off from the graph: detach, .data, no_grad or a new tensor.",
    ),
    Turn(
        "detached-between-blocks",
        ALONE,
        "The states are cut off from the graph between two blocks, so only the last block learns "
        "from what comes out. Look for detach, .data or no_grad in the loop.",
    ),
    Turn(
        "weights-detached",
        ALONE,
        "The weights you return are cut off from the graph, so no gradient flows back through them. "
        "Pass them on as they came.",
    ),
    Turn(
        "weights-returned-first",
        ALONE,
        "You return the weights first and the states second. The order is part of the signature: "
        "first what goes on through the network, then the weights for whoever wants to look at them.",
    ),
    Turn(
        "only-one-result",
        "result",
        "You return the states alone. The weights of every block's cross-attention are asked for too.",
    ),
    Turn(
        "first-block-only",
        ALONE,
        "Your states go through the first block only. Look at where your loop returns, and what it "
        "carries from one block to the next.",
    ),
    Turn(
        "last-block-repeated",
        ALONE,
        "Your states go through the last block again and again. Every block of the stack has weights of"
        " its own and is used once.",
    ),
    Turn(
        "stack-run-twice",
        ALONE,
        "Your states go through the whole stack twice. Every block is used once.",
    ),
    Turn(
        "first-block-twice",
        ALONE,
        "Your states go through the first block twice: once before the loop and once in it. Every block"
        " is used once.",
    ),
    Turn(
        "residual-around-the-stack",
        ALONE,
        "You add the stack's input to its result. The blocks have their residual paths inside; nothing "
        "goes around the whole stack.",
    ),
    Turn(
        "blocks-averaged",
        ALONE,
        "You average the states of the blocks. They form a chain: each gets what the one before it "
        "gave, and the last states count.",
    ),
    Turn(
        "own-final-norm",
        ALONE,
        "You end with a layer norm of your own, without its gain and bias or where there should be "
        "none. Use self.norm: it is already the right thing for both norm orders.",
    ),
    Turn(
        "norm-of-last-block",
        ALONE,
        "You end with a norm of the last block. The stack has a norm of its own.",
    ),
    Turn(
        "norm-twice",
        ALONE,
        "You use the final norm twice at the end. Once is enough: its gain and bias would be applied "
        "two times.",
    ),
    Turn(
        "norm-in-post-norm-too",
        ALONE,
        "You end with a norm in the post-norm case too. There every block ends with a norm already; "
        "self.norm is the right thing for both cases.",
    ),
    Turn(
        "norm-before-and-after",
        ALONE,
        "You normalise before the first block as well as after the last. The blocks normalise what they"
        " need themselves.",
    ),
    Turn(
        "memory-normalised-again-and-again",
        ALONE,
        "You normalise the memory after every block. All blocks look at the same memory, as it came.",
    ),
    Turn(
        "memory-ignored",
        ALONE,
        "Your blocks look at their own states where the memory should be. All of them look at the same "
        "memory, that of the encoder.",
    ),
    Turn(
        "target-mask-for-the-first-block-only",
        ALONE,
        "Only the first block gets the mask of the target. Padding that is hidden once leaks in again "
        "in the next block: all of them need it.",
    ),
    Turn(
        "memory-mask-for-the-first-block-only",
        ALONE,
        "Only the first block gets the mask of the source. Padding that is hidden once leaks in again "
        "in the next block: all of them need it.",
    ),
    Turn(
        "masks-for-the-last-block-only",
        ALONE,
        "Only the last block gets the masks. By then the earlier blocks have let padding in: all of "
        "them need them.",
    ),
    Turn(
        "target-mask-inverted",
        ALONE,
        "You turn the mask of the target round. True means that a place may be looked at: hand it on as"
        " it is.",
    ),
    Turn(
        "memory-mask-inverted",
        ALONE,
        "You turn the mask of the source round. True means that a place may be looked at: hand it on as"
        " it is.",
    ),
    Turn(
        "detached-after-every-block",
        ALONE,
        "The values are right, but no gradient comes back through the blocks. Look for detach, .data or"
        " no_grad in your loop.",
    ),
    Turn(
        "last-weights-with-an-axis",
        ALONE,
        "You return the weights of the last block, with an axis of one for the layers. Those of every "
        "block are asked for: collect them in the loop.",
    ),
    Turn(
        "first-weights-with-an-axis",
        ALONE,
        "You return the weights of the first block, with an axis of one for the layers. Those of every "
        "block are asked for: collect them in the loop.",
    ),
    Turn(
        "weights-averaged-over-heads",
        ALONE,
        "The weights come back averaged over the heads. Each head looks somewhere else, and the axis of"
        " the heads belongs to the result.",
    ),
    Turn(
        "weights-of-the-first-block-repeated",
        ALONE,
        "You return the weights of the first block once for every layer. Each block has weights of its "
        "own: collect them in the loop.",
    ),
    Turn(
        "layers-reshaped-not-moved",
        ALONE,
        "Your weights have the right shape but the wrong order: reshape or view keeps the numbers in "
        "their row, it does not exchange axes. Stack along the axis where the layers should be.",
    ),
    Turn(
        "weights-forgotten",
        ALONE,
        "Where the weights should be you return None. Every block gives its weights beside the states: "
        "collect them.",
    ),
    Turn(
        "dropout-on-result",
        ALONE,
        "You drop some numbers of the result at random. Dropout is not asked for here: the same input "
        "should give the same result.",
    ),
)
def decoder(on: On) -> Any:
    class Stack(Decoder):
        def forward(self, x: Any, memory: Any, mask: Mask = None, memory_mask: Mask = None) -> Any:
            start = x
            if on("memory-detached"):
                memory = memory.detach()
            if on("memory-normalised"):
                memory = self.norm(memory)
            if on("target-mask-not-passed") or on("no-mask-passed"):
                mask = None
            if on("memory-mask-not-passed") or on("no-mask-passed"):
                memory_mask = None
            if on("masks-exchanged"):
                mask, memory_mask = memory_mask, mask
            if on("target-mask-inverted") and mask is not None:
                mask = ~mask
            if on("memory-mask-inverted") and memory_mask is not None:
                memory_mask = ~memory_mask
            masks = mask, memory_mask
            if on("masks-for-the-last-block-only"):
                mask = memory_mask = None
            if on("norm-before-the-blocks") or on("norm-before-and-after"):
                x = self.norm(x)
            if on("states-and-memory-exchanged"):
                x, memory = memory, x
            collected: list[Any] = []
            passed: list[Any] = []
            for block in self.layers():
                if on("masks-for-the-last-block-only") and len(collected) == len(self.blocks) - 1:
                    mask, memory_mask = masks
                if on("memory-ignored"):
                    memory, memory_mask = x, None
                given = start if on("states-not-carried") else x
                if on("norm-before-every-block"):
                    given = self.norm(given)
                if on("block-not-unpacked"):
                    x = block(given, memory, mask, memory_mask)
                    continue
                x, weights = block(given, memory, mask, memory_mask)
                collected.append(x if on("states-collected") else weights)
                if on("residual-around-blocks"):
                    x = x + given
                if on("norm-after-every-block") or on("norm-after-every-block-and-at-the-end"):
                    x = self.norm(x)
                if on("memory-replaced-by-states"):
                    memory, memory_mask = x, None
                if on("masks-for-the-first-block-only"):
                    mask = memory_mask = None
                if on("target-mask-for-the-first-block-only"):
                    mask = None
                if on("memory-mask-for-the-first-block-only"):
                    memory_mask = None
                if on("memory-normalised-again-and-again"):
                    memory = self.norm(memory)
                if on("detached-after-every-block"):
                    x = x.detach()
                passed.append(x)
                if on("detached-between-blocks") and len(collected) < len(self.blocks):
                    x = x.detach()
            if on("residual-around-the-stack"):
                x = x + start
            if on("blocks-averaged"):
                x = torch.stack(passed).mean(dim=0)
            if on("norm-twice"):
                x = self.norm(x)
            if on("norm-of-last-block"):
                x = list(self.blocks)[-1].get_submodule("norm_3")(x)
            elif on("own-final-norm"):
                x = _unit(x)
            elif not (
                on("no-final-norm") or on("norm-after-every-block") or on("norm-before-the-blocks")
            ):
                x = self.norm(x)
            if on("norm-in-post-norm-too") and isinstance(self.norm, nn.Identity):
                x = _unit(x)
            if on("dropout-on-result"):
                x = F.dropout(x, 0.1)
            if on("weights-forgotten"):
                return x, None
            stacked = self.stack(collected)
            if on("weights-detached"):
                stacked = stacked.detach() if isinstance(stacked, torch.Tensor) else stacked
            if on("only-one-result"):
                return x
            return (stacked, x) if on("weights-returned-first") else (x, stacked)

        def layers(self) -> list[Any]:
            blocks = list(self.blocks)
            if on("first-block-repeated"):
                return [blocks[0] for _ in blocks]
            if on("last-block-repeated"):
                return [blocks[-1] for _ in blocks]
            if on("first-block-only"):
                return blocks[:1]
            if on("first-block-twice"):
                return [*blocks[:1], *blocks]
            if on("stack-run-twice"):
                return [*blocks, *blocks]
            if on("blocks-in-reverse"):
                return blocks[::-1]
            if on("last-block-skipped"):
                return blocks[:-1]
            return blocks[1:] if on("first-block-skipped") else blocks

        def stack(self, collected: list[Any]) -> Any:
            if on("weights-of-the-last-block-only"):
                return collected[-1]
            if on("first-block-twice"):
                collected = collected[1:]
            if on("stack-run-twice"):
                collected = collected[len(self.blocks) :]
            if on("last-weights-with-an-axis"):
                return collected[-1][:, None]
            if on("first-weights-with-an-axis"):
                return collected[0][:, None]
            if on("weights-averaged-over-heads"):
                return torch.stack(collected, dim=1).mean(dim=2)
            if on("weights-of-the-first-block-repeated"):
                collected = [collected[0] for _ in collected]
            if on("layers-reshaped-not-moved"):
                layers = torch.stack(collected)
                return layers.reshape(layers.shape[1], layers.shape[0], *layers.shape[2:])
            if on("layers-joined-with-heads"):
                return torch.cat(collected, dim=1)
            if on("layers-joined-with-batch"):
                return torch.cat(collected, dim=0)
            if on("weights-averaged-over-layers"):
                return torch.stack(collected).mean(dim=0)
            if on("weights-added-up"):
                return torch.stack(collected).sum(dim=0)
            if on("layers-as-last-axis"):
                return torch.stack(collected, dim=-1)
            if on("weights-as-a-list"):
                return collected
            if on("weights-in-reverse"):
                collected = collected[::-1]
            if on("weights-of-one-block-repeated"):
                collected = [collected[-1] for _ in collected]
            if on("layers-behind-heads"):
                return torch.stack(collected, dim=2)
            return torch.stack(collected, dim=0 if on("layers-as-first-axis") else 1)

    return Stack


@right("7.3")
class WithAnIndex(Decoder):
    def forward(self, x: Any, memory: Any, mask: Mask = None, memory_mask: Mask = None) -> Any:
        parts = []
        for i in range(len(self.blocks)):
            x, w = self.blocks[i].forward(x, memory, mask=mask, memory_mask=memory_mask)
            parts.append(w.unsqueeze(1))
        return self.norm(x), torch.cat(parts, 1)


@right("7.3")
class IntoOneTensor(Decoder):
    def forward(self, x: Any, memory: Any, mask: Mask = None, memory_mask: Mask = None) -> Any:
        everything = None
        for i, block in enumerate(self.blocks):
            x, weights = block(x, memory, mask, memory_mask)
            if everything is None:
                batch, *others = weights.shape
                everything = weights.new_zeros(batch, len(self.blocks), *others)
            everything[:, i] = weights
        return self.norm(x), everything


@right("7.3")
class Recursive(Decoder):
    def forward(self, x: Any, memory: Any, mask: Mask = None, memory_mask: Mask = None) -> Any:
        def go(states: Any, left: list[Any]) -> tuple[Any, list[Any]]:
            if not left:
                return states, []
            states, first = left[0](states, memory, mask, memory_mask)
            states, others = go(states, left[1:])
            return states, [first, *others]

        x, weights = go(x, list(self.blocks))
        return self.norm(x), torch.stack(weights).transpose(0, 1)


# What can go wrong where embeddings get their positions, on either side.
_PLACED = {
    "positions-twice": "The {0} gets its positions twice. They are added once: add_positions does it.",
    "positions-from-one": (
        "Positions of the {0} start at the second row of the table. The first word has position 0."
    ),
    "_last-positions-in": (
        "You take the last rows of the table for the {0}. The first word has position 0: it is the "
        "first rows that are used."
    ),
    "positions-over-the-batch": (
        "You give every sentence of the {0} one position and all its words the same. Positions count "
        "words, along the sequence."
    ),
    "scaled-after-positions": (
        "You add positions to the {0} and scale the sum. Only the embeddings are scaled: add_positions "
        "does it in the right order."
    ),
    "divided-by-the-root": (
        "You divide the embeddings of the {0} by the root of d_model. They are small already: they are "
        "multiplied by it."
    ),
    "zeroed-at-padding": (
        "You set the embeddings of padding in the {0} to zero. The mask hides padding from those who "
        "look; what stands in its own place is left as it is."
    ),
    "normalised": (
        "You normalise the embeddings of the {0}. The blocks bring their own norms: only scaling and "
        "positions come before them."
    ),
    "_dropout-on": (
        "You drop some numbers of the {0} at random. Dropout is not asked for here: the same input "
        "should give the same result."
    ),
    "positions-detached": (
        "The embeddings of the {0} get no gradient. Look for detach, .data or no_grad where positions "
        "are added."
    ),
}


@space(
    "7.4",
    Turn(
        "weights-not-tied",
        "tie",
        "The output layer has a matrix of its own. It should be the matrix of the target embedding: "
        "one parameter with two uses, trained by both.",
    ),
    Turn(
        "weights-copied-not-tied",
        "tie",
        "You copy the target embedding into the output layer. The two are equal at first and drift "
        "apart with the first step of training: they should be one parameter, not two with the same "
        "numbers.",
    ),
    Turn(
        "tied-numbers-but-two-parameters",
        "tie",
        "Output layer and target embedding share their numbers, but they are still two parameters: "
        "each gets half of the gradient, and an optimizer treats them apart. Share the parameter, "
        "not its data.",
    ),
    Turn(
        "tied-to-a-wrong-matrix",
        ALONE,
        "After your tie a matrix has the wrong shape. What writes target words shares its matrix, of "
        "the shape (target_vocab, d_model), with what reads target words: nothing is transposed, and "
        "the embedding of the source has nothing to do with it.",
    ),
    Turn(
        "no-positions-in-source",
        "source",
        "The source has no positions, so to the encoder it is a bag of words. Both sides need them.",
    ),
    Turn(
        "source-not-scaled",
        "source",
        "The source embeddings are not scaled before positions are added. They start out small, and "
        "the positions would drown them: week 4 has a block for the sum.",
    ),
    Turn(
        "source-embedding-alone",
        "source",
        "The source embeddings go into the encoder as they are: neither scaled nor with positions. "
        "Week 4 has a block for both.",
    ),
    Turn(
        "source-scaled-by-d_model",
        ALONE,
        "The source embeddings are scaled by d_model itself. Its root is enough: the embeddings "
        "start with a standard deviation of one over that root.",
    ),
    Turn(
        "source-positions-not-cut",
        ALONE,
        "You add the whole table of positions to the source. It has max_length rows: take as many as "
        "there are words, as the block of week 4 does.",
    ),
    Turn(
        "target-embedding-for-source",
        ALONE,
        "You embed the source with the table of the target language. Each side has its own.",
    ),
    Turn(
        "source-mask-not-in-encoder",
        "source mask",
        "The encoder sees the padding of the source. `encode` has the mask at hand and returns it, "
        "but the encoder needs it too.",
    ),
    Turn(
        "source-mask-hides-rows",
        ALONE,
        "Inside the encoder your mask hides padding as a query. Padding must not be looked at: that "
        "is a matter of keys, of columns of the weights.",
    ),
    Turn(
        "source-mask-inverted",
        "source mask",
        "Your source mask is True for padding. In this course True means that a place may be seen.",
    ),
    Turn(
        "pad-is-always-zero",
        "source mask",
        "You take 0 for padding whatever `pad_id` says. The model was told at its making which token "
        "it is.",
    ),
    Turn(
        "causal-encoder",
        ALONE,
        "Your encoder may not look ahead. The source is known from start to end, so each of its "
        "words may look at all the others: only the decoder is causal.",
    ),
    Turn(
        "mask-of-two-axes",
        ALONE,
        "`encode` returns a mask of the axes (batch, key). It has to broadcast over heads and "
        "queries: two axes of size one belong in between.",
    ),
    Turn(
        "source-not-encoded",
        ALONE,
        "`encode` returns the embedded source: the encoder never runs."
        " The decoder then reads words that know nothing of each other: look at which of your"
        " parts is never called.",
    ),
    Turn(
        "encoder-without-gradient",
        ALONE,
        "No gradient reaches the encoder, so it never learns. That the source is read once does not "
        "mean that it is read without a graph: look for detach or no_grad.",
    ),
    Turn(
        "encode-returns-memory-only",
        ALONE,
        "`encode` returns the memory alone. The mask of the source belongs to it: the decoder needs "
        "it to stay away from the padding.",
    ),
    Turn(
        "encode-returns-mask-first",
        ALONE,
        "`encode` returns the mask first and the memory second. The signature asks for the memory "
        "first.",
    ),
    Turn(
        "no-positions-in-target",
        "target",
        "The target has no positions, so the decoder cannot tell the order of what it wrote. Both "
        "sides need them.",
    ),
    Turn(
        "target-not-scaled",
        "target",
        "The target embeddings are not scaled before positions are added. They start out small, and "
        "the positions would drown them: week 4 has a block for the sum.",
    ),
    Turn(
        "target-embedding-alone",
        "target",
        "The target embeddings go into the decoder as they are: neither scaled nor with positions. "
        "Week 4 has a block for both.",
    ),
    Turn(
        "target-scaled-by-d_model",
        ALONE,
        "The target embeddings are scaled by d_model itself. Its root is enough: the embeddings "
        "start with a standard deviation of one over that root.",
    ),
    Turn(
        "target-positions-not-cut",
        ALONE,
        "You add the whole rest of the table of positions to the target. Take as many rows as there "
        "are words, as the block of week 4 does.",
    ),
    Turn(
        "offset-ignored",
        "target",
        "Your target always begins at position 0. When earlier tokens are cached, its first token "
        "has the position `offset`.",
    ),
    Turn(
        "offset-by-one",
        ALONE,
        "The positions of your target are off by one. The first token has the position `offset`, and "
        "that is 0 unless earlier tokens are cached.",
    ),
    Turn(
        "source-embedding-for-target",
        ALONE,
        "You embed the target with the table of the source language. Each side has its own.",
    ),
    Turn(
        "target-mask-missing",
        "target mask",
        "Padding of the target is not hidden in the decoder: it needs a padding mask of the target "
        "on top of the causal one that its blocks make."
        " Look at which masks reach it.",
    ),
    Turn(
        "target-mask-hides-rows",
        ALONE,
        "Your target mask hides padding as a query. Padding must not be looked at: that is a matter "
        "of keys, of columns of the weights.",
    ),
    Turn(
        "target-mask-inverted",
        "target mask",
        "Your target mask is True for padding. In this course True means that a place may be seen.",
    ),
    Turn(
        "target-pad-is-always-zero",
        "target mask",
        "In the target you take 0 for padding whatever `pad_id` says. The model was told at its "
        "making which token it is.",
    ),
    Turn(
        "memory-mask-not-in-decoder",
        "memory mask",
        "The decoder sees the padding of the source: `decode` gets the source's mask and does not "
        "pass it on. Cross-attention needs it.",
    ),
    Turn(
        "target-mask-for-memory",
        ALONE,
        "In the cross-attention you use the mask of the target. Its keys are source words: the "
        "source's mask belongs there.",
    ),
    Turn(
        "memory-mask-in-place-of-target-mask",
        ALONE,
        "The decoder gets the mask of the source where it takes that of the target, and none for the "
        "source."
        " Look at the names of the two masks that it takes.",
    ),
    Turn(
        "masks-exchanged",
        ALONE,
        "The decoder gets the two masks in the wrong order: that of the target comes first."
        " Look at its signature, or pass them by name.",
    ),
    Turn(
        "encoded-again",
        ALONE,
        "`decode` sends the memory through the encoder once more. The source is read once, in "
        "`encode`; the decoder runs many times on the same memory.",
    ),
    Turn(
        "memory-detached",
        ALONE,
        "No gradient reaches the memory, so the encoder never learns from the decoder's errors. Look "
        "for detach, .data or no_grad in `decode`.",
    ),
    Turn(
        "probabilities-instead-of-logits",
        "output",
        "You return probabilities. Logits are asked for: the loss takes the softmax itself, and "
        "taking it twice flattens everything.",
    ),
    Turn(
        "log-probabilities-instead-of-logits",
        "output",
        "You return log-probabilities. Logits are asked for, as the output layer gives them: whoever "
        "needs probabilities normalises them.",
    ),
    Turn(
        "last-position-only",
        ALONE,
        "You return the logits of the last position only. In training the words after all positions "
        "are predicted in one step, so every position needs its logits.",
    ),
    Turn(
        "last-position-as-an-axis-of-one",
        ALONE,
        "You return one position only. In training the words after all positions are predicted in "
        "one step, so every position needs its logits.",
    ),
    Turn(
        "tokens-instead-of-logits",
        ALONE,
        "You choose the best word already. Logits are asked for, one number for every word of the "
        "vocabulary: the loss needs them, and choosing is the matter of week 8.",
    ),
    Turn(
        "softmax-over-positions",
        ALONE,
        "You take a softmax, and over the positions. Logits are asked for, as the output layer gives "
        "them.",
    ),
    Turn(
        "weights-averaged-over-layers",
        ALONE,
        "You average the weights over the layers. `decode` gives those of all layers, as the decoder "
        "gave them.",
    ),
    Turn(
        "states-instead-of-logits",
        ALONE,
        "You return the decoder's states. The output layer, which turns them into one number for "
        "every word of the vocabulary, is missing.",
    ),
    Turn(
        "logits-scaled",
        ALONE,
        "You scale the states or the logits by the root of d_model. The scale belongs to the "
        "embedding on the way in; the logits stay as the output layer gives them.",
    ),
    Turn(
        "logits-multiplied",
        ALONE,
        "You multiply the states or the logits by the root of d_model. The scale belongs to the "
        "embedding on the way in; the logits stay as the output layer gives them.",
    ),
    Turn(
        "logits-scaled-instead-of-embeddings",
        ALONE,
        "You divide the logits by the root of d_model and do not scale the embeddings. The scale "
        "belongs to the way in, on both sides: add_positions takes care of it.",
    ),
    Turn(
        "logits-multiplied-instead-of-embeddings",
        ALONE,
        "You multiply the logits by the root of d_model and do not scale the embeddings. The scale "
        "belongs to the way in, on both sides: add_positions takes care of it.",
    ),
    Turn(
        "logits-scaled-instead-of-the-target",
        ALONE,
        "You divide the logits by the root of d_model and do not scale the embeddings of the target. "
        "The scale belongs to the way in, on both sides: add_positions takes care of it.",
    ),
    Turn(
        "weights-of-the-last-layer-only",
        ALONE,
        "You return the weights of one layer. `decode` gives those of all layers, as the decoder "
        "gave them.",
    ),
    *(
        Turn(f"{side}-{name}" if name[0] != "_" else f"{name[1:]}-{side}", ALONE, message.format(side))
        for side in ("source", "target")
        for name, message in _PLACED.items()
        if side == "source" or name != "positions-from-one"  # for the target that is an offset
    ),
    Turn(
        "embedding-as-output-layer",
        ALONE,
        "You put the embedding itself in the place of the output layer. An embedding looks up rows by "
        "token; the output layer multiplies by the same matrix. Share the matrix, not the module.",
    ),
    Turn(
        "encode-returns-no-mask",
        ALONE,
        "`encode` returns None where the mask should be. The decoder needs it to leave the source's "
        "padding alone.",
    ),
    Turn(
        "returned-mask-inverted",
        ALONE,
        "The memory is right, but the mask that `encode` returns is turned round. True means that a "
        "word may be looked at, here as in the encoder.",
    ),
    Turn(
        "memory-zeroed-at-padding",
        ALONE,
        "You set the memory to zero where the source has padding. The mask hides padding from those who"
        " look; what stands in its own place does not matter and is left as it is.",
    ),
    Turn(
        "logits-zeroed-at-padding",
        ALONE,
        "You set the logits to zero where the target has padding. The mask hides padding as a key; what"
        " is predicted in its own place does not matter and is left to the loss.",
    ),
    Turn(
        "source-encoded-twice",
        ALONE,
        "The source goes through the encoder twice. It is read once: the encoder is a whole stack "
        "already.",
    ),
    Turn(
        "target-shifted-again",
        ALONE,
        "You shift the target to the right inside the model. That is done before the model sees it: "
        "decode takes the target as it comes.",
    ),
    Turn(
        "last-target-token-dropped",
        ALONE,
        "You drop the last target token inside the model. That is done before the model sees it: decode"
        " takes the target as it comes.",
    ),
    Turn(
        "memory-turned-round",
        ALONE,
        "You turn the memory round before the decoder looks at it. Memory and mask belong together "
        "place by place: hand it on as it is.",
    ),
    Turn(
        "logits-normalised",
        ALONE,
        "You normalise the states once more before the output layer. The decoder ends with a norm "
        "already where one is needed.",
    ),
    Turn(
        "dropout-on-logits",
        ALONE,
        "You drop some numbers at random. Dropout is not asked for here: the same input should give the"
        " same result.",
    ),
    Turn(
        "weights-averaged-over-heads",
        ALONE,
        "The weights come back averaged over the heads. `decode` gives those of all layers and heads, "
        "as the decoder gave them.",
    ),
    Turn(
        "weights-averaged-over-all",
        ALONE,
        "The weights come back averaged over layers and heads. `decode` gives those of all layers and "
        "heads, as the decoder gave them.",
    ),
    Turn(
        "decode-forgets-the-weights",
        ALONE,
        "`decode` returns None where the weights should be. The decoder gives them beside its states: "
        "pass them on.",
    ),
    Turn(
        "causal-mask-on-the-source",
        ALONE,
        "In decode you hide from target word t the source words after t. The source is known from start"
        " to end: only its padding is hidden.",
    ),
    Turn(
        "decode-returns-logits-only",
        "output",
        "`decode` returns the logits alone. The weights of the cross-attention are asked for as well.",
    ),
    Turn(
        "decode-returns-weights-first",
        ALONE,
        "`decode` returns the weights first and the logits second. The signature asks for the logits "
        "first.",
    ),
)
def transformer(on: On) -> Any:
    class Model(Transformer):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            table = self.target_embedding.weight
            if on("weights-not-tied"):
                self.output.weight = nn.Parameter(torch.rand_like(table))
            if on("weights-copied-not-tied"):
                self.output.weight = nn.Parameter(table.detach().clone())
            if on("tied-numbers-but-two-parameters"):
                self.output.weight = nn.Parameter(table.detach())
            if on("tied-to-a-wrong-matrix"):
                self.output.weight = self.source_embedding.weight
            if on("embedding-as-output-layer"):
                self._modules["output"] = self.target_embedding

        def encode(self, source: Any) -> Any:
            pad = 0 if on("pad-is-always-zero") else self.pad_id
            mask = padding_mask(source, pad)
            if on("source-mask-inverted"):
                mask = ~mask
            embedding = self.source_embedding
            if on("target-embedding-for-source"):
                embedding = self.target_embedding
            embedded = embedding(source)
            if not on("source-embedding-alone"):
                embedded = self.placed("source", embedded, self.positions, source)
            seen: Mask = mask
            if on("source-mask-not-in-encoder"):
                seen = None
            if on("source-mask-hides-rows"):
                seen = mask.mT
            if on("causal-encoder"):
                seen = mask & _triangle(embedded, embedded)
            memory = embedded if on("source-not-encoded") else self.encoder(embedded, seen)
            if on("source-encoded-twice"):
                memory = self.encoder(memory, seen)
            if on("memory-zeroed-at-padding"):
                memory = memory * mask[:, 0, 0, :, None]
            if on("encode-returns-no-mask"):
                return memory, None
            if on("returned-mask-inverted"):
                mask = ~mask
            if on("encoder-without-gradient"):
                memory = memory.detach()
            if on("mask-of-two-axes"):
                mask = mask[:, 0, 0]
            if on("encode-returns-memory-only"):
                return memory
            return (mask, memory) if on("encode-returns-mask-first") else (memory, mask)

        def decode(self, target: Any, memory: Any, memory_mask: Mask = None, offset: int = 0) -> Any:
            if on("target-shifted-again"):
                target = torch.cat([torch.ones_like(target[:, :1]), target[:, :-1]], dim=1)
            if on("last-target-token-dropped"):
                target = target[:, :-1]
            if on("memory-turned-round"):
                memory = memory.flip(1)
            if on("causal-mask-on-the-source"):
                memory_mask = _both(memory_mask, _triangle(target[..., None], memory))
            pad = 0 if on("target-pad-is-always-zero") else self.pad_id
            mask: Mask = padding_mask(target, pad)
            if on("target-mask-inverted"):
                mask = target[:, None, None] == pad
            if on("target-mask-hides-rows"):
                mask = padding_mask(target, pad).mT
            if on("target-mask-missing"):
                mask = None
            if on("memory-mask-not-in-decoder"):
                memory_mask = None
            if on("target-mask-for-memory"):
                memory_mask = padding_mask(target, pad)
            if on("masks-exchanged"):
                mask, memory_mask = memory_mask, mask
            if on("memory-mask-in-place-of-target-mask"):
                mask, memory_mask = memory_mask, None
            if on("encoded-again"):
                memory = self.encoder(memory, memory_mask)
            if on("memory-detached"):
                memory = memory.detach()
            if on("offset-ignored"):
                offset = 0
            if on("offset-by-one"):
                offset = offset + 1
            embedding = self.target_embedding
            if on("source-embedding-for-target"):
                embedding = self.source_embedding
            embedded = embedding(target)
            if not on("target-embedding-alone"):
                embedded = self.placed("target", embedded, self.positions[offset:], target)
            states, weights = self.decoder(embedded, memory, mask, memory_mask)
            if on("logits-normalised"):
                states = _unit(states)
            if on("logits-zeroed-at-padding"):
                return self.output(states) * (target != self.pad_id)[..., None], weights
            return self.results(states, weights)

        def placed(self, side: str, embedded: Any, positions: Any, tokens: Any) -> Any:
            """Scale the embeddings of one side and add its positions."""
            length, d_model = embedded.shape[-2:]
            if on(f"{side}-positions-twice"):
                return add_positions(embedded, positions) + positions[:length]
            if side == "source" and on("source-positions-from-one"):
                return add_positions(embedded, positions[1:])
            if on(f"last-positions-in-{side}"):
                return add_positions(embedded, positions[-length:])
            if on(f"{side}-positions-over-the-batch"):
                return embedded * math.sqrt(d_model) + positions[: len(embedded), None]
            if on(f"{side}-scaled-after-positions"):
                return (embedded + positions[:length]) * math.sqrt(d_model)
            if on(f"{side}-divided-by-the-root"):
                return embedded / math.sqrt(d_model) + positions[:length]
            if on(f"{side}-zeroed-at-padding"):
                return add_positions(embedded, positions) * (tokens != self.pad_id)[..., None]
            if on(f"{side}-normalised"):
                return _unit(add_positions(embedded, positions))
            if on(f"dropout-on-{side}"):
                return F.dropout(add_positions(embedded, positions), 0.1)
            if on(f"{side}-positions-detached"):
                return add_positions(embedded.detach(), positions)
            if on(f"no-positions-in-{side}"):
                return embedded * math.sqrt(d_model)
            instead = on("logits-scaled-instead-of-embeddings")
            instead = instead or on("logits-multiplied-instead-of-embeddings")
            if side == "target" and on("logits-scaled-instead-of-the-target"):
                instead = True
            if on(f"{side}-not-scaled") or instead:
                return embedded + positions[:length]
            if on(f"{side}-scaled-by-d_model"):
                return embedded * d_model + positions[:length]
            if on(f"{side}-positions-not-cut"):
                return embedded * math.sqrt(d_model) + positions
            return add_positions(embedded, positions)

        def results(self, states: Any, weights: Any) -> Any:
            if on("last-position-only"):
                states = states[:, -1]
            if on("last-position-as-an-axis-of-one"):
                states = states[:, -1:]
            logits = states if on("states-instead-of-logits") else self.output(states)
            if on("probabilities-instead-of-logits"):
                logits = logits.softmax(dim=-1)
            if on("log-probabilities-instead-of-logits"):
                logits = logits.log_softmax(dim=-1)
            instead = on("logits-scaled-instead-of-embeddings")
            if on("logits-scaled") or instead or on("logits-scaled-instead-of-the-target"):
                logits = logits / math.sqrt(states.shape[-1])
            if on("logits-multiplied") or on("logits-multiplied-instead-of-embeddings"):
                logits = logits * math.sqrt(states.shape[-1])
            if on("softmax-over-positions"):
                logits = logits.softmax(dim=1)
            if on("tokens-instead-of-logits"):
                logits = logits.argmax(dim=-1)
            if on("weights-of-the-last-layer-only"):
                weights = weights[:, -1]
            if on("weights-averaged-over-layers"):
                weights = weights.mean(dim=1)
            if on("weights-averaged-over-heads"):
                weights = weights.mean(dim=2)
            if on("weights-averaged-over-all"):
                weights = weights.mean(dim=(1, 2))
            if on("dropout-on-logits"):
                logits = F.dropout(logits, 0.1)
            if on("decode-forgets-the-weights"):
                return logits, None
            if on("decode-returns-logits-only"):
                return logits
            return (weights, logits) if on("decode-returns-weights-first") else (logits, weights)

    return Model


@right("7.4")
class TiedTheOtherWay(Transformer):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.target_embedding.weight = self.output.weight

    def encode(self, source: Any) -> Any:
        mask = source.ne(self.pad_id).unsqueeze(1).unsqueeze(1)
        scale = self.source_embedding.embedding_dim**0.5
        x = self.source_embedding(source) * scale + self.positions[: source.size(1)]
        return self.encoder(x, mask), mask

    def decode(self, target: Any, memory: Any, memory_mask: Mask = None, offset: int = 0) -> Any:
        length = target.size(1)
        place = torch.arange(offset, offset + length, device=target.device)
        table = self.target_embedding.weight
        x = F.embedding(target, table) * table.shape[1] ** 0.5 + self.positions[place]
        mask = (target != self.pad_id).view(-1, 1, 1, length)
        states, weights = self.decoder(x, memory, mask=mask, memory_mask=memory_mask)
        return torch.einsum("bqd,vd->bqv", states, self.output.weight), weights


@right("7.4")
class SharedInUse(Transformer):
    """The output layer's own matrix stays unused: the target embedding is used twice."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.output.weight = nn.Parameter(torch.zeros_like(self.output.weight))

    def decode(self, target: Any, memory: Any, memory_mask: Mask = None, offset: int = 0) -> Any:
        hidden = padding_mask(target, self.pad_id)
        x = add_positions(self.target_embedding(target), self.positions[offset:])
        states, weights = self.decoder(x, memory, hidden, memory_mask)
        return F.linear(states, self.target_embedding.weight), weights


@right("7.4")
class CausalMaskTwice(Transformer):
    def decode(self, target: Any, memory: Any, memory_mask: Mask = None, offset: int = 0) -> Any:
        length = target.shape[1]
        mask = padding_mask(target, self.pad_id) & causal_mask(length).to(target.device)
        x = self.target_embedding(target).mul(math.sqrt(memory.shape[-1]))
        x += self.positions[offset : offset + length]
        states, weights = self.decoder(x, memory, mask, memory_mask)
        return states @ self.target_embedding.weight.T, weights


@space(
    "7.5",
    Turn(
        "pairs-turned-round",
        "pair",
        "Your pairs are (target, source). The links of this course say (source, target): the key "
        "comes first, the query second.",
    ),
    Turn(
        "counted-from-one",
        "pair",
        "You count words from one. Positions start at zero here, as everywhere in Python.",
    ),
    Turn(
        "largest-query-for-every-key",
        "axis",
        "You look for the target word that looks most at each source word. It should be the other "
        "way round: every target word is linked to the source word that it attends to most.",
    ),
    Turn(
        "smallest-weight",
        "axis",
        "You link to the source word with the smallest weight."
        " A word was written while looking where the weight is largest: look at which end you"
        " search for.",
    ),
    Turn(
        "threshold",
        "axis",
        "You link to every source word whose weight is above a threshold. Every target word should "
        "get exactly one link: to the word with the largest weight.",
    ),
    Turn(
        "above-one-half",
        ALONE,
        "You link to source words that get more than half of the weight. Every target word should "
        "get exactly one link, to the word with the largest weight, however small that is.",
    ),
    Turn(
        "both-directions",
        "axis",
        "You keep a link only where both words choose each other. Here every target word gets its "
        "link, whoever else looks at the same source word.",
    ),
    Turn(
        "one-to-one",
        "axis",
        "You give every source word to one target word only. Two target words may be linked to the "
        "same source word.",
    ),
    Turn(
        "mean-row-only",
        "axis",
        "You find one source word for the whole sentence. Each target word, each row of the weights, "
        "has its own.",
    ),
    Turn(
        "first-head-only",
        "heads",
        "You look at the first head only. All heads and layers should be averaged before the largest "
        "weight is taken.",
    ),
    Turn(
        "last-head-only",
        "heads",
        "You look at the last head only. All heads and layers should be averaged before the largest "
        "weight is taken.",
    ),
    Turn(
        "last-layer-only",
        "heads",
        "You look at one layer only. All leading axes should be averaged, the layers like the heads.",
    ),
    Turn(
        "largest-over-heads",
        "heads",
        "You take the largest weight of any head instead of their mean. One head that is very sure "
        "then outvotes all the others.",
    ),
    Turn(
        "links-of-every-head",
        "heads",
        "You collect the links of every head, so a target word gets several. The heads should be "
        "averaged first, and one link be taken from the mean.",
    ),
    Turn(
        "heads-vote",
        "heads",
        "Every head has one vote for a source word in your solution. The weights should be averaged: "
        "a head that is undecided should count less than one that is sure.",
    ),
    Turn(
        "heads-multiplied",
        "heads",
        "You multiply the weights of the heads, or average their logarithms. The plain mean is asked "
        "for: a single head that gives zero must not decide.",
    ),
    Turn(
        "averaged-over-queries",
        ALONE,
        "You average over axis 1 whatever it is: with one leading axis that is the query. All axes "
        "before the last two are to be averaged, and only those.",
    ),
    Turn(
        "first-axis-always-averaged",
        ALONE,
        "You average over the first axis, once, whatever it is. There may be no leading axis, or "
        "several (layers and heads): all axes before the last two are to be averaged, and only "
        "those.",
    ),
    Turn(
        "two-leading-axes-needed",
        ALONE,
        "You average over two leading axes. There may be one, or none: all axes before the last two "
        "are to be averaged, and only those.",
    ),
    Turn(
        "needs-contiguous-weights",
        ALONE,
        "Your solution fails for weights that do not lie in memory in the order of their axes, as a "
        "transpose or permute leaves them. view cannot cope with that; other ways to reshape can.",
    ),
    Turn(
        "only-one-leading-axis",
        "leading",
        "Your average works for one leading axis only. There may be none, or several (layers and "
        "heads): all axes before the last two are averaged.",
    ),
    Turn(
        "only-with-leading-axes",
        "leading",
        "You average over an axis even where there is none in front of (query, key). Weights without "
        "heads are welcome too.",
    ),
    Turn(
        "list-instead-of-set",
        "type",
        "You return a list. A set is asked for: links have no order, and sets can be compared with "
        "gold alignments.",
    ),
    Turn(
        "tensors-in-pairs",
        "type",
        "Your pairs hold tensors. Two tensors with the same number are two different things to a "
        "set: turn them into plain integers.",
    ),
    Turn(
        "tensor-of-sources",
        ALONE,
        "You return a tensor that says where every target word looks. A set of pairs of plain "
        "integers is asked for: a link names both words, (source, target).",
    ),
    Turn(
        "sources-only",
        "type",
        "You return where every target word looks, but no pairs. A link names both words: (source, "
        "target).",
    ),
    Turn(
        "as-a-dictionary",
        "type",
        "You return a dictionary. A set of pairs (source, target) is asked for.",
    ),
    Turn(
        "set-of-sources",
        ALONE,
        "You return the set of source words that are looked at, but no pairs. A link names both words: "
        "(source, target).",
    ),
    Turn(
        "pairs-without-order",
        ALONE,
        "Your links are sets of two numbers. A link is a pair with an order: (source, target), as a "
        "tuple.",
    ),
    Turn(
        "links-as-text",
        ALONE,
        "Your links are text. A link is a pair of plain integers: (source, target).",
    ),
    Turn(
        "second-axis-averaged",
        ALONE,
        "You average over one axis only and count on through all that is left, so target words have "
        "numbers that do not exist. All axes before (query, key) are averaged.",
    ),
    Turn(
        "heads-not-averaged",
        ALONE,
        "Nothing is averaged: you count on through the rows of all heads as if they were more target "
        "words. The weights are averaged over all axes before (query, key) first.",
    ),
    Turn(
        "only-without-leading-axes",
        ALONE,
        "Your code works only for weights without heads and layers. Average over all axes before "
        "(query, key) first.",
    ),
    Turn(
        "axes-reread",
        ALONE,
        "You bring the axes into the wrong order with reshape or view, so numbers of different words "
        "are mixed. Query and key are the last two axes and stay there.",
    ),
    Turn(
        "query-for-key",
        ALONE,
        "You look for the largest weight along the queries but count the results as target words. For "
        "every query the largest weight is looked for along the keys, the last axis.",
    ),
    Turn(
        "columns-normalised",
        ALONE,
        "You divide the weights of each source word by their sum before you compare. The weights of a "
        "target word are compared as they are.",
    ),
    Turn(
        "equal-weights-all-linked",
        ALONE,
        "Where several source words share the largest weight you link them all. Every target word gets "
        "exactly one link.",
    ),
    Turn(
        "best-link-only",
        ALONE,
        "You look for the largest weight of the whole matrix and link that alone. Every target word "
        "gets a link of its own.",
    ),
    Turn(
        "last-target-word-left-out",
        ALONE,
        "The last target word has no link. Every target word gets exactly one.",
    ),
    Turn(
        "first-target-word-left-out",
        ALONE,
        "The first target word has no link. Every target word gets exactly one.",
    ),
    Turn(
        "word-by-word",
        ALONE,
        "You link every target word to the source word in the same place. Words move in translation: "
        "the weights say where each was looked for.",
    ),
    Turn(
        "second-largest",
        ALONE,
        "You link to the source word with the second largest weight. It is the largest that counts.",
    ),
    Turn(
        "two-links-each",
        ALONE,
        "You link every target word to two source words. Each gets exactly one link: to the word with "
        "the largest weight.",
    ),
)
def alignment_from_attention(on: On) -> Any:
    def block(weights: Any) -> Any:
        return _typed(on, _links(on, _averaged(on, weights)))

    return block


def _averaged(on: On, weights: Any) -> list[Any]:
    """Give the matrices of weights from which links are read."""
    stacked = weights.reshape(-1, *weights.shape[-2:])
    if on("only-one-leading-axis") and weights.ndim > 3:
        raise ValueError("too many axes")
    if on("only-with-leading-axes") and weights.ndim == 2:
        raise IndexError("Dimension out of range")
    if on("averaged-over-queries") and weights.ndim > 2:
        return [weights.mean(dim=1)]
    if on("first-axis-always-averaged"):
        return [weights.mean(dim=0)]
    if on("two-leading-axes-needed"):
        return [weights.mean(dim=(0, 1))]
    if on("needs-contiguous-weights"):
        stacked = weights.view(-1, *weights.shape[-2:])
    if on("first-head-only"):
        return [stacked[0]]
    if on("last-head-only"):
        return [stacked[-1]]
    if on("last-layer-only") and weights.ndim > 3:
        return [weights[-1].mean(dim=0)]
    if on("largest-over-heads"):
        return [stacked.amax(dim=0)]
    if on("links-of-every-head"):
        return list(stacked)
    if on("heads-vote"):
        return [F.one_hot(stacked.argmax(dim=-1), weights.shape[-1]).sum(dim=0)]
    if on("heads-multiplied"):
        return [stacked.double().prod(dim=0)]
    if on("second-axis-averaged"):
        return [weights.mean(dim=1)]
    if on("heads-not-averaged") or on("only-without-leading-axes"):
        return [weights]
    if on("axes-reread"):
        return [weights.reshape(*weights.shape[-2:], -1).mean(dim=-1)]
    return [stacked.mean(dim=0)]


def _links(on: On, matrices: list[Any]) -> list[tuple[int, int]]:
    """List pairs (source, target), or what a learner may take for them."""
    links: list[tuple[int, int]] = []
    for mean in matrices:
        best = mean.argmax(dim=-1)
        if on("second-axis-averaged") or on("heads-not-averaged"):
            best = best.flatten()
        forward = [(s, t) for t, s in enumerate(best.tolist())]
        if mean.ndim != 2:
            return forward
        backward = [(s, t) for s, t in enumerate(mean.argmax(dim=-2).tolist())]
        if on("largest-query-for-every-key"):
            forward = backward
        if on("query-for-key"):
            forward = [(s, t) for t, s in enumerate(mean.argmax(dim=-2).tolist())]
        if on("columns-normalised"):
            shares = mean / mean.sum(dim=0)
            forward = [(s, t) for t, s in enumerate(shares.argmax(dim=-1).tolist())]
        if on("equal-weights-all-linked"):
            top = mean == mean.amax(dim=-1, keepdim=True)
            forward = [(s, t) for t, s in top.nonzero().tolist()]
        if on("best-link-only"):
            place = int(mean.argmax())
            forward = [(place % mean.shape[-1], place // mean.shape[-1])]
        if on("last-target-word-left-out"):
            forward = forward[:-1]
        if on("first-target-word-left-out"):
            forward = forward[1:]
        if on("word-by-word"):
            forward = [(t, t) for t in range(len(mean))]
        if on("second-largest") or on("two-links-each"):
            order = mean.argsort(dim=-1, descending=True).tolist()
            ranks = slice(1, 2) if on("second-largest") else slice(0, 2)
            forward = [(s, t) for t, row in enumerate(order) for s in row[ranks]]
        if on("smallest-weight"):
            forward = [(s, t) for t, s in enumerate(mean.argmin(dim=-1).tolist())]
        if on("threshold"):
            forward = [(int(s), int(t)) for t, s in (mean > 1 / mean.shape[-1]).nonzero().tolist()]
        if on("above-one-half"):
            forward = [(int(s), int(t)) for t, s in (mean > 0.5).nonzero().tolist()]
        if on("both-directions"):
            forward = [link for link in forward if link in backward]
        if on("one-to-one"):
            forward = list({s: (s, t) for s, t in reversed(forward)}.values())
        if on("mean-row-only"):
            forward = [(int(mean.sum(dim=0).argmax()), t) for t in range(len(mean))]
        links += forward
    if on("pairs-turned-round"):
        links = [(t, s) for s, t in links]
    if on("counted-from-one"):
        links = [(s + 1, t + 1) for s, t in links]
    return links


def _typed(on: On, links: list[tuple[int, int]]) -> Any:
    if on("list-instead-of-set"):
        return links
    if on("tensors-in-pairs"):
        return {(torch.tensor(s), t) for s, t in links}
    if on("tensor-of-sources"):
        return torch.tensor([s for s, _ in links])
    if on("sources-only"):
        return [s for s, _ in links]
    if on("set-of-sources"):
        return {s for s, _ in links}
    if on("pairs-without-order"):
        return {frozenset(link) for link in links}
    if on("links-as-text"):
        return {f"{s}-{t}" for s, t in links}
    return {t: s for s, t in links} if on("as-a-dictionary") else set(links)


@right("7.5")
def with_loops(weights: Any) -> Any:
    mean = weights.detach().double()
    while mean.ndim > 2:
        mean = mean.mean(dim=0)
    links = set()
    for target in range(mean.shape[0]):
        row = mean[target].tolist()
        links.add((row.index(max(row)), target))
    return links


@right("7.5")
def with_a_sum(weights: Any) -> Any:
    total = weights.clone()
    if total.ndim > 2:
        total = total.flatten(0, -3).sum(0)
    sources = total.max(-1).indices
    return set(zip(sources.tolist(), range(sources.numel()), strict=True))


@right("7.5")
def with_numpy(weights: Any) -> Any:
    array = weights.detach().cpu().numpy()
    mean = array.mean(axis=tuple(range(array.ndim - 2)))
    return frozenset((int(s), t) for t, s in enumerate(mean.argmax(axis=1)))


@wrong(
    "7.5",
    "one-leading-axis-averaged",
    "You average over the first axis, once. There may be no axis before query and key, or several "
    "(heads, layers): average over all of them, and over none where there is none.",
)
def one_leading_axis(weights: Any) -> Any:
    sources = weights.mean(dim=0).argmax(dim=-1)
    return {(source.item(), target) for target, source in enumerate(sources)}


def _first_axis_only(rest: Any) -> Any:
    """Average over the first leading axis, and deal otherwise with those that are left."""

    def block(weights: Any) -> Any:
        mean = weights.mean(dim=0) if weights.ndim > 2 else weights
        matrices = rest(mean.reshape(-1, *mean.shape[-2:]))
        return {(s, t) for matrix in matrices for t, s in enumerate(matrix.argmax(dim=-1).tolist())}

    return block


for _name, _told, _rest in (
    ("first-of-the-other-axes", "take the first entry of any other", lambda stacked: stacked[:1]),
    ("last-of-the-other-axes", "take the last entry of any other", lambda stacked: stacked[-1:]),
    ("links-of-the-other-axes", "collect the links of every entry of any other", list),
    (
        "largest-over-the-other-axes",
        "take the largest weights over any other",
        lambda stacked: stacked.amax(dim=0, keepdim=True),
    ),
):
    wrong(
        "7.5",
        _name,
        f"You average over the first leading axis only, and {_told}. All axes before query and key "
        "(heads, layers) are averaged in the same way.",
    )(_first_axis_only(_rest))


# Numbers that are added to a total so that it is never zero.
_ADDED = (1e-9, 1e-8, 1e-6, 1e-3, 1)


@space(
    "7.6",
    Turn(
        "sure-links-not-possible",
        "possible",
        "You look up possible links in `possible` alone. A sure link is possible too, whether "
        "`possible` repeats it or not.",
    ),
    Turn(
        "possible-ignored",
        "possible",
        "You count sure links twice and possible ones never. A predicted link that is possible is "
        "not wrong, even if it is not sure.",
    ),
    Turn(
        "every-link-counted-once",
        "possible",
        "You count a sure link only once. In the formula it counts twice: as one that was found "
        "(sure) and as one that is not wrong (possible).",
    ),
    Turn(
        "sure-ignored",
        "possible",
        "You count possible links twice. Of the two counts, one is of predicted links that are sure: "
        "that is the recall in this measure.",
    ),
    Turn(
        "sure-and-possible-exchanged",
        "possible",
        "Sure and possible links have changed places. Recall is measured on the sure ones: they are "
        "the ones that must be found, so their number is part of the total.",
    ),
    Turn(
        "sure-counted-once-only",
        ALONE,
        "You count predicted links that are sure, once. Above the fraction bar stand two counts: of "
        "sure and of possible links among the predicted ones.",
    ),
    Turn(
        "union-instead-of-intersection",
        ALONE,
        "You count the links of two sets together where those are asked for that both have in common."
        " A link is right only where the prediction and the gold agree: look at how you"
        " combine the sets.",
    ),
    Turn(
        "rate-of-what-is-right",
        "sign",
        "You return the share that is right. An error rate is what is missing from one: 0 is perfect.",
    ),
    Turn(
        "percent",
        "sign",
        "You return percent. The rate should lie between 0 and 1.",
    ),
    Turn(
        "rounded",
        "sign",
        "You round the rate. Leave it as it is: whoever prints it can round it.",
    ),
    Turn(
        "parentheses-missing",
        ALONE,
        "Only the second of the two counts is divided by the total. Add the counts first, then divide.",
    ),
    Turn(
        "whole-number-division",
        ALONE,
        "You divide whole numbers and drop the rest, so every rate is 0 or 1."
        " Look at which of the two divisions you use.",
    ),
    Turn(
        "total-of-possible",
        "total",
        "You divide by the numbers of predicted and of possible links. Possible links need not be "
        "found: the total is made of predicted and sure ones.",
    ),
    Turn(
        "total-of-all",
        "total",
        "You divide by the number of different links in both sets. A link that is predicted and sure "
        "belongs to the total twice, since it can earn two points.",
    ),
    Turn(
        "total-of-predicted",
        "total",
        "You divide by predicted links only, so a sure link that was not found costs nothing. The "
        "total is made of predicted and sure links.",
    ),
    Turn(
        "total-of-sure",
        "total",
        "You divide by sure links only, so wrong links cost nothing. The total is made of predicted "
        "and sure links.",
    ),
    Turn(
        "one-minus-f-measure",
        "formula",
        "You compute precision and recall and one minus their harmonic mean. That is another "
        "measure: here the two counts are added and divided by the sum of the two numbers of links.",
    ),
    Turn(
        "mean-of-precision-and-recall",
        "formula",
        "You compute one minus the plain mean of precision and recall. Here the two counts are added "
        "and divided by the sum of the two numbers of links, which weighs them by size.",
    ),
    Turn(
        "precision-only",
        "formula",
        "You measure precision only: an alignment that predicts one safe link would be perfect. Sure "
        "links that were not found should count as errors.",
    ),
    Turn(
        "recall-only",
        "formula",
        "You measure recall only: an alignment that links everything with everything would be "
        "perfect. Predicted links that are not possible should count as errors.",
    ),
    Turn(
        "jaccard-distance",
        "formula",
        "You divide the sure links that were found by all links of both sets. The measure asked for "
        "has two counts above the fraction bar, since possible links are not wrong.",
    ),
    Turn(
        "empty-divides-by-zero",
        "empty",
        "Your solution divides by zero where nothing is predicted and nothing is sure. That is no "
        "error: the rate is 0.",
    ),
    Turn(
        "empty-is-all-wrong",
        "empty",
        "You call it all wrong where nothing is predicted and nothing is sure. Nothing was missed "
        "and nothing was made up: the rate is 0.",
    ),
    Turn(
        "no-prediction-is-no-error",
        "empty",
        "You return 0 whenever nothing is predicted. If there are sure links, all of them were "
        "missed: only where nothing is sure either there is no error.",
    ),
    Turn(
        "no-sure-link-is-no-error",
        "empty",
        "You return 0 whenever nothing is sure. Predicted links can still be wrong: only where "
        "nothing is predicted either there is no error.",
    ),
    Turn(
        "one-empty-set-is-all-wrong",
        ALONE,
        "You return 1 whenever one of the two sets is empty. Where nothing is sure, predicted links "
        "can still be possible.",
    ),
    Turn(
        "sets-changed-in-place",
        "in place",
        "Your solution adds links to a set that belongs to the caller. Make a new set: the next "
        "comparison would start from a changed gold alignment.",
    ),
    Turn(
        "links-turned-round",
        ALONE,
        "You turn the predicted links round before you compare them. They say (source, target) like the"
        " gold ones: compare them as they are.",
    ),
    Turn(
        "sources-compared-only",
        ALONE,
        "You compare the source words of the links and forget the target words. A link is right when "
        "both agree.",
    ),
    *(
        Turn(
            f"{number:g}-added-to-the-total",
            ALONE,
            f"You add {number:g} to what you divide by. Then a perfect alignment has an error, and "
            "nothing at all is wrong from start to end: take care of the empty case apart.",
        )
        for number in _ADDED
    ),
    Turn(
        "only-possible-counts-half",
        ALONE,
        "You count a link that is only possible as a half. Count each predicted link once if it is sure"
        " and once if it is possible, and every sure link is possible.",
    ),
    Turn(
        "total-of-merely-possible",
        ALONE,
        "You divide by the number of predicted and of possible links. It is the sure links that must "
        "be found: divide by the number of predicted and of sure links.",
    ),
    Turn(
        "as-a-tensor",
        ALONE,
        "You return a tensor. A plain number is asked for.",
    ),
    Turn(
        "direction-of-links-ignored",
        "links",
        "You take (1, 0) and (0, 1) for the same link. The first number is a source word and the "
        "second a target word: they are two different links.",
    ),
)
def alignment_error_rate(on: On) -> Any:
    def block(predicted: Any, sure: Any, possible: Any) -> Any:
        if on("sets-changed-in-place"):
            possible |= sure
        if on("direction-of-links-ignored"):
            predicted, sure, possible = (
                {tuple(sorted(link)) for link in links} for links in (predicted, sure, possible)
            )
        if on("links-turned-round"):
            predicted = {link[::-1] for link in predicted}
        if on("sources-compared-only"):
            predicted, sure, possible = (
                {source for source, _ in links} for links in (predicted, sure, possible)
            )
        if on("sure-and-possible-exchanged"):
            sure, possible = possible, sure
        if on("no-prediction-is-no-error") and not predicted:
            return 0.0
        if on("no-sure-link-is-no-error") and not sure:
            return 0.0
        if on("one-empty-set-is-all-wrong") and bool(predicted) != bool(sure):
            return 1.0
        found: float = len(predicted & sure)
        fine: float = len(predicted & (sure | possible))
        if on("union-instead-of-intersection"):
            found, fine = len(predicted | sure), len(predicted | sure | possible)
        if on("sure-counted-once-only"):
            fine = 0
        if on("sure-links-not-possible"):
            fine = len(predicted & possible)
        if on("possible-ignored"):
            fine = found
        if on("every-link-counted-once"):
            fine = len(predicted & (possible - sure))
        if on("sure-ignored"):
            found = fine
        if on("only-possible-counts-half"):
            fine = (fine - found) / 2
        total = len(predicted) + len(sure)
        if on("total-of-merely-possible"):
            total = len(predicted) + len(possible)
            return 1 - (found + fine) / total if total else 0.0
        for number in _ADDED:
            if on(f"{number:g}-added-to-the-total"):
                return 1 - (found + fine) / (total + number)
        if total == 0 and not on("empty-divides-by-zero"):
            return 1.0 if on("empty-is-all-wrong") else 0.0
        score = _score(on, predicted, sure, possible, found, fine)
        if on("as-a-tensor"):
            return torch.tensor(1 - score)
        if on("rate-of-what-is-right"):
            return score
        if on("percent"):
            return 100 * (1 - score)
        return round(1 - score, 2) if on("rounded") else 1 - score

    return block


def _score(on: On, predicted: Any, sure: Any, possible: Any, found: float, fine: float) -> float:
    """Give the share that is right; where a learner's formula would divide by zero, so does this."""
    if on("parentheses-missing"):
        return found - fine / (len(predicted) + len(sure))
    if on("whole-number-division"):
        return (found + fine) // (len(predicted) + len(sure))
    if on("total-of-possible"):
        return (found + fine) / (len(predicted) + len(sure | possible))
    if on("total-of-all"):
        return (found + fine) / len(predicted | sure)
    if on("total-of-predicted"):
        return (found + fine) / len(predicted)
    if on("total-of-sure"):
        return (found + fine) / len(sure)
    if on("jaccard-distance"):
        return found / len(predicted | sure)
    precision = fine / len(predicted) if predicted else 0.0
    recall = found / len(sure) if sure else 0.0
    if on("one-minus-f-measure"):
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    if on("mean-of-precision-and-recall"):
        return (precision + recall) / 2
    if on("precision-only"):
        return precision
    return recall if on("recall-only") else (found + fine) / (len(predicted) + len(sure))


@right("7.6")
def with_counts(predicted: Any, sure: Any, possible: Any) -> float:
    if not predicted and not sure:
        return 0
    points = sum((link in sure) + (link in sure or link in possible) for link in predicted)
    return 1.0 - points / (len(predicted) + len(sure))


@right("7.6")
def as_errors(predicted: Any, sure: Any, possible: Any) -> float:
    wrong = len(predicted.difference(sure, possible))
    missed = len(sure - predicted)
    total = len(predicted) + len(sure)
    return (wrong + missed) / total if total else 0.0


@right("7.6")
def with_counters(predicted: Any, sure: Any, possible: Any) -> float:
    counts = Counter(itertools.chain(predicted, sure))
    total = sum(counts.values())
    good = len([link for link in predicted if link in sure | possible])
    good += len(predicted.intersection(sure))
    try:
        return (total - good) / total
    except ZeroDivisionError:
        return 0.0


@wrong(
    "7.1",
    "first-head-returned",
    "You return the weights of the first head only. Every head looks in its own way: return the "
    "weights of all of them, with their axis.",
)
def first_head(decoder_states: Any, memory: Any, attention: Any, memory_mask: Any = None) -> Any:
    output, weights = attention(decoder_states, memory, memory, memory_mask)
    return output, weights[..., 0, :, :]


@wrong(
    "7.1",
    "both-sides-as-keys",
    "You join the decoder's states and the memory, and let the queries look at both. Keys and values "
    "of cross-attention come from the memory alone; the decoder's own words had their turn before.",
)
def both_sides(decoder_states: Any, memory: Any, attention: Any, memory_mask: Any = None) -> Any:
    joined = torch.cat([decoder_states, memory], dim=-2)
    return attention(decoder_states, joined, joined)


@wrong(
    "7.1",
    "memory-added-to-queries",
    "You add the memory to the decoder's states. The two sequences may have different lengths and "
    "never meet by adding: they meet through the weights.",
)
def added(decoder_states: Any, memory: Any, attention: Any, memory_mask: Any = None) -> Any:
    return attention(decoder_states + memory, memory, memory, memory_mask)


@wrong(
    "7.2",
    "triangle-on-the-source",
    "The cross-attention gets a causal mask. The source is known to its end, so nothing of it is the "
    "future: what hides there is its padding, and memory_mask says where.",
)
class Triangle(DecoderBlock):
    def forward(self, x: Any, memory: Any, mask: Any = None, memory_mask: Any = None) -> Any:
        triangle = torch.ones(x.shape[-2], memory.shape[-2], dtype=torch.bool).tril()
        return super().forward(x, memory, mask, triangle)


@wrong(
    "7.2",
    "source-never-seen",
    "Your block never looks at the source: the result does not depend on the memory. Between "
    "self-attention and feed-forward the decoder asks the encoder's result.",
)
class NoSource(DecoderBlock):
    def forward(self, x: Any, memory: Any, mask: Any = None, memory_mask: Any = None) -> Any:
        allowed = causal_mask(x.shape[-2]) if mask is None else causal_mask(x.shape[-2]) & mask
        residual = pre_norm if self.norm_first else post_norm
        weights = None

        def look(y: Any) -> Any:
            nonlocal weights
            output, weights = self.attention(y, y, y, allowed)
            return output

        x = residual(x, look, self.norm_1)
        return residual(x, self.feed_forward, self.norm_3), weights
