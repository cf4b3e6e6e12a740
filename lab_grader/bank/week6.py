"""Wrong turns of week 6: masks, teacher forcing, the loss, the causal block."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

from lab_grader.bank import ALONE, On, Turn, right, space, wrong
from lab_transformer.decoder import CausalBlock
from lab_transformer.loss import sequence_loss as reference_loss
from lab_transformer.masking import causal_mask as causal
from lab_transformer.normalization import post_norm, pre_norm

# Both masks can come out as numbers instead of booleans.
NUMBERS = (
    Turn(
        "ones-and-zeros",
        "type",
        "Your mask holds the numbers 1.0 and 0.0. A mask of this course is boolean, True where one "
        "may look: only then can it be combined with & and turned round with ~.",
    ),
    Turn(
        "integers",
        "type",
        "Your mask holds integers. A mask of this course is boolean, True where one may look: `~` of "
        "an integer is not what you want, and indexing with integers means something else.",
    ),
    Turn(
        "zeros-and-minus-infinity",
        "type",
        "Your mask holds 0 and minus infinity, to be added to the scores. Here a mask is boolean, "
        "True where one may look; what happens to the scores is decided where the softmax is.",
    ),
    Turn(
        "zeros-and-a-large-number",
        "type",
        "Your mask holds 0 and a large negative number, to be added to the scores. Here a mask is "
        "boolean, True where one may look; what happens to the scores is decided where the softmax "
        "is.",
    ),
    Turn(
        "zeros-and-ten-thousand",
        ALONE,
        "Your mask holds 0 and -10000, to be added to the scores. Here a mask is boolean, True where "
        "one may look; what happens to the scores is decided where the softmax is.",
    ),
    Turn(
        "zero-times-infinity",
        ALONE,
        "Your mask has NaN in it: zero times infinity is not zero. And a mask of this course is "
        "boolean, True where one may look, with no infinities in it.",
    ),
)


def _as_numbers(on: On, mask: Any) -> Any:
    if on("ones-and-zeros"):
        return mask.float()
    if on("integers"):
        return mask.long()
    if on("zero-times-infinity"):
        return (~mask).float() * -math.inf
    if on("zeros-and-a-large-number"):
        return (~mask).float() * -1e9
    if on("zeros-and-ten-thousand"):
        return (~mask).float() * -1e4
    if on("zeros-and-minus-infinity"):
        return torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
    return mask


# Windows and sizes that a causal mask may be tied to.
_BACK = (2, 3, 4)
_DIAGONALS = {
    "hides-the-last-two": ("itself and the word before are hidden", True, -2),
    "sees-two-words-ahead": ("two words ahead can be seen", True, 2),
    "sees-three-words-ahead": ("three words ahead can be seen", True, 3),
    "ahead-and-one-back": ("the future can be seen, and the past is hidden", False, -1),
    "ahead-and-two-back": ("the future can be seen, and most of the past is hidden", False, -2),
    "only-from-two-ahead": ("only words from two ahead on can be seen", False, 2),
}
_LENGTHS = (4, 5, 6, 8, 10, 16, 64, 128, 512)


@space(
    "6.1",
    Turn(
        "hides-itself",
        "triangle",
        "A word may not look at itself in your mask. The first word would then see nothing at all. "
        "Think about whether the diagonal belongs to the past or to the future.",
    ),
    Turn(
        "sees-the-next-word",
        "triangle",
        "Your triangle reaches one place too far: every word also sees the one after it, which is the "
        "very word it has to predict. Look at where the diagonal of your triangle runs.",
    ),
    Turn(
        "upper-triangle",
        "triangle",
        "Your mask allows the future and hides the past. Rows are queries and columns are keys: "
        "decide for row 0, which stands first, what it may see.",
    ),
    Turn(
        "inverted",
        "triangle",
        "Your mask is True for what must be hidden. In this course True means that one may look, as "
        "in torch's own scaled_dot_product_attention; nn.MultiheadAttention has it the other way "
        "round.",
    ),
    Turn(
        "everything-allowed",
        "triangle",
        "Everything is allowed: your mask hides no future word. What is missing is the triangle.",
    ),
    Turn(
        "nothing-allowed",
        ALONE,
        "Nothing is allowed: all of your mask is False. A triangle cut out of zeros is still all "
        "zeros; look at what you start from.",
    ),
    Turn(
        "only-itself",
        "triangle",
        "Every word sees itself and nothing else: you have the diagonal of the square. The words "
        "before it belong to what it may see.",
    ),
    Turn(
        "only-the-word-before",
        ALONE,
        "Every word sees itself and the one before it, but not those further back. Attention is not a "
        "recurrent network: all of the past is in reach.",
    ),
    Turn(
        "mirrored",
        ALONE,
        "Your triangle leans to the other side: the first word sees the last one. Columns count from "
        "the left, from the first word on.",
    ),
    Turn(
        "one-too-long",
        "size",
        "Your mask has one row and one column too many. The start token is already among the words "
        "that are counted: a text of so many words needs a square of just that size.",
    ),
    Turn(
        "one-too-short",
        ALONE,
        "Your mask lacks a row and a column. Every word needs its row, and the last word its column "
        "too.",
    ),
    Turn(
        "with-a-batch-axis",
        "axes",
        "Your mask has an axis of size one in front. Two axes are asked for, query and key: "
        "broadcasting adds those in front by itself.",
    ),
    Turn(
        "with-batch-and-head-axes",
        "axes",
        "Your mask has axes for batch and heads in front. Two axes are asked for, query and key: "
        "broadcasting adds the others by itself.",
    ),
    Turn(
        "nested-lists",
        ALONE,
        "You return lists of lists. A tensor is asked for: only that can be combined with other masks "
        "and applied to scores.",
    ),
    Turn(
        "numpy-array",
        ALONE,
        "You return a NumPy array. A tensor is asked for: only that can be combined with other masks "
        "and applied to scores.",
    ),
    *(
        Turn(
            name,
            ALONE,
            f"Your triangle begins at the wrong diagonal ({words}). A word may look at itself, at all "
            "that came before it, and at nothing after it.",
        )
        for name, (words, *_) in _DIAGONALS.items()
    ),
    Turn(
        "one-row",
        ALONE,
        "Your mask is a single row. Every query has a row of its own: the mask is a square.",
    ),
    Turn(
        "one-column",
        ALONE,
        "Your mask is a single column. Every query has a row with a place for each key: the mask is a "
        "square.",
    ),
    Turn(
        "half-as-fast",
        ALONE,
        "What a word may see grows too slowly from row to row. Each row allows one place more than the "
        "row above it.",
    ),
    Turn(
        "first-row-open",
        ALONE,
        "Your first word sees everything, though the other rows are right. It has nothing before it, "
        "but it may look at itself: its row is not empty and needs no exception.",
    ),
    Turn(
        "hides-itself-but-the-first",
        ALONE,
        "Only the first word may look at itself. Every word may: the diagonal belongs to the mask.",
    ),
    Turn(
        "everything-but-itself",
        ALONE,
        "Your words see all others and not themselves. It is the other way round with the future: a "
        "word may look at itself and at what came before it.",
    ),
    Turn(
        "only-the-first-word",
        ALONE,
        "Every word sees the first word only. It may look at itself and at all that came before it.",
    ),
    *(
        Turn(
            f"only-{back}-words-back",
            ALONE,
            f"Your words look back {back} words at most. Everything that came before may be seen, "
            "however long ago it was.",
        )
        for back in _BACK
    ),
    *(
        Turn(
            f"always-{length}-long",
            ALONE,
            f"Your mask is for {length} words whatever the length is. The argument decides.",
        )
        for length in _LENGTHS
    ),
    *NUMBERS,
)
def causal_mask(on: On) -> Any:
    def block(length: int) -> Any:
        length += on("one-too-long") - on("one-too-short")
        length = next((fixed for fixed in _LENGTHS if on(f"always-{fixed}-long")), length)
        full = torch.ones(length, length, dtype=torch.bool)
        first = torch.arange(length) == 0
        shapes = {
            "hides-itself": full.tril(-1),
            "sees-the-next-word": full.tril(1),
            "upper-triangle": full.triu(),
            "inverted": full.triu(1),
            "everything-allowed": full,
            "nothing-allowed": ~full,
            "only-itself": full.tril().triu(),
            "only-the-word-before": full.tril().triu(-1),
            "mirrored": full.tril().flip(-1),
            "first-row-open": full.tril() | first[:, None],
            "hides-itself-but-the-first": full.tril(-1) | first & first[:, None],
            "everything-but-itself": ~full.tril().triu(),
            **{
                name: full.tril(place) if lower else full.triu(place)
                for name, (_, lower, place) in _DIAGONALS.items()
            },
            "one-row": full[:1],
            "one-column": full[:, :1],
            "half-as-fast": torch.arange(length) <= torch.arange(length)[:, None] // 2,
            "only-the-first-word": full & first,
            **{f"only-{back}-words-back": full.tril().triu(-back) for back in _BACK},
        }
        mask = next((wrong for name, wrong in shapes.items() if on(name)), full.tril())
        if on("with-a-batch-axis"):
            mask = mask[None]
        if on("with-batch-and-head-axes"):
            mask = mask[None, None]
        if on("nested-lists"):
            return mask.tolist()
        return mask.numpy() if on("numpy-array") else _as_numbers(on, mask)

    return block


@right("6.1")
def causal_by_comparison(length: int) -> Any:
    places = torch.arange(length)
    return places[:, None] >= places


@right("6.1")
def causal_by_loop(length: int) -> Any:
    return torch.tensor([[key <= query for key in range(length)] for query in range(length)])


@right("6.1")
def causal_by_upper_triangle(length: int) -> Any:
    return torch.triu(torch.ones(length, length), diagonal=1) == 0


@right("6.1")
def causal_by_running_sum(length: int) -> Any:
    return torch.ones(length, length).cumsum(dim=0) >= torch.arange(1, length + 1)


@space(
    "6.2",
    Turn(
        "inverted",
        "content",
        "Your mask is True at padding. In this course True means that one may look, so words are True "
        "and padding is False; torch's key_padding_mask has it the other way round.",
    ),
    Turn(
        "zero-taken-for-padding",
        "content",
        "You take token 0 for padding, whatever pad_id says. In another vocabulary 0 is a word; "
        "compare with the id that is given.",
    ),
    Turn(
        "zero-hidden-too",
        ALONE,
        "You hide token 0 besides the padding. Where padding has another id, 0 is a word; compare "
        "with the id that is given and nothing else.",
    ),
    Turn(
        "greater-than-padding",
        "content",
        "You allow ids greater than pad_id only. Ids have no order that matters: a word may well have "
        "a smaller id than padding.",
    ),
    Turn(
        "smaller-than-padding",
        ALONE,
        "You allow ids smaller than pad_id only. Ids have no order that matters: a word may well have "
        "a greater id than padding.",
    ),
    Turn(
        "nothing-hidden",
        ALONE,
        "Your mask is True everywhere: padding is not hidden. Each token must be compared with pad_id.",
    ),
    Turn(
        "words-counted-from-the-front",
        "content",
        "You count the words of a sentence and allow that many places from the front. That is right "
        "only while all padding stands at the end; look at each token itself.",
    ),
    Turn(
        "hidden-from-the-first-pad-on",
        "content",
        "You hide everything from the first padding token on. Padding may stand in front of the words "
        "too; look at each token by itself.",
    ),
    Turn(
        "one-mask-for-the-batch",
        ALONE,
        "One mask serves all sentences of your batch: a place is hidden for all of them when it is "
        "padding in one. Every sentence has its own padding.",
    ),
    Turn(
        "two-axes",
        "axes",
        "Your mask has the axes (batch, key). Added to scores of the axes (batch, head, query, key) "
        "it would be lined up from the right, batch under query. Two axes of size one are missing.",
    ),
    Turn(
        "three-axes",
        "axes",
        "Your mask has the axes (batch, 1, key). Lined up from the right with scores (batch, head, "
        "query, key), its batch would meet the heads. One more axis of size one is missing.",
    ),
    Turn(
        "rows-hidden",
        "axes",
        "You hide rows of the weights: what a padding token looks at. What has to go are columns: "
        "nobody may look at padding. Look at which axis of the mask is that of the keys.",
    ),
    Turn(
        "keys-in-the-place-of-heads",
        ALONE,
        "The tokens stand on the axis of the heads in your mask. The keys are the last axis of the "
        "scores, so the axes of size one belong between batch and key.",
    ),
    Turn(
        "batch-in-the-place-of-queries",
        "axes",
        "You put both axes of size one in front, so the batch stands where the queries are. The batch "
        "comes first and the keys last; the axes of size one belong between them.",
    ),
    Turn(
        "rows-and-columns-hidden",
        "axes",
        "You build a whole square and hide the rows of padding as well as its columns. Only keys are "
        "to be hidden, and the axis of the queries stays of size one.",
    ),
    Turn(
        "rows-of-a-square-hidden",
        ALONE,
        "You build a whole square and hide the rows of padding in it: what padding looks at. What has "
        "to go are columns, and the axis of the queries stays of size one.",
    ),
    Turn(
        "spread-over-queries",
        ALONE,
        "You repeat the mask for every query, as if there were as many queries as keys. In "
        "cross-attention there are not: leave that axis at size one, broadcasting does the rest.",
    ),
    Turn(
        "tokens-overwritten",
        "in place",
        "You write into the tokens that you were given. The caller still needs them: build the mask "
        "as a tensor of its own.",
    ),
    Turn(
        "at-least-padding",
        ALONE,
        "You allow tokens that are not smaller than pad_id, and padding itself is not smaller. A word "
        "is whatever differs from pad_id, larger or smaller.",
    ),
    Turn(
        "hidden-where-all-are-padding",
        ALONE,
        "You hide a position only where all sentences have padding there. Every sentence has a mask of "
        "its own.",
    ),
    Turn(
        "first-sentence-only",
        ALONE,
        "Your mask is that of the first sentence alone. Every sentence of the batch has padding of its "
        "own.",
    ),
    Turn(
        "last-token-taken-for-padding",
        ALONE,
        "You take the last token of each sentence for padding. A sentence may have none: compare with "
        "pad_id.",
    ),
    Turn(
        "only-leading-padding",
        ALONE,
        "You hide padding in front only. Padding after and between words must not be looked at either: "
        "compare every token.",
    ),
    Turn(
        "last-key-left-out",
        ALONE,
        "The last key has no place in your mask. Every token has one: the mask is as long as the "
        "sentence.",
    ),
    Turn(
        "first-key-left-out",
        ALONE,
        "The first key has no place in your mask. Every token has one: the mask is as long as the "
        "sentence.",
    ),
    Turn(
        "one-answer-a-sentence",
        ALONE,
        "You give one answer for each sentence. Every token has its own: compare and keep the axis of "
        "the keys.",
    ),
    Turn(
        "counted-not-marked",
        ALONE,
        "Your mask counts words instead of marking them. It should say True or False for every token.",
    ),
    Turn(
        "only-trailing-padding",
        ALONE,
        "You hide padding at the end only. Padding in front or between words must not be looked at "
        "either: compare every token.",
    ),
    Turn(
        "empty-sentence-opened",
        ALONE,
        "A sentence of nothing but padding has nothing hidden in your mask. The mask says what is a "
        "word; what happens where there is none is decided where the softmax is.",
    ),
    Turn(
        "not-compared",
        ALONE,
        "You return the tokens themselves, with more axes. A mask says True or False: compare the "
        "tokens with pad_id first.",
    ),
    Turn(
        "one-answer-for-all",
        ALONE,
        "You return one answer for the whole batch. Every token has its own: compare the tensor and "
        "keep what comes out.",
    ),
    Turn(
        "batch-in-the-place-of-heads",
        ALONE,
        "Your new axes stand in the wrong places: the batch has become the axis of the heads. Batch "
        "comes first, key last, and two axes of size one stand between them.",
    ),
    Turn(
        "one-axis-too-many",
        ALONE,
        "Your mask has five axes. Four are asked for: batch, two of size one for heads and queries, and"
        " key.",
    ),
    Turn(
        "batch-and-key-exchanged",
        ALONE,
        "Batch and key have changed places: your mask is transposed. Batch comes first and key last.",
    ),
    Turn(
        "nested-lists",
        ALONE,
        "You return lists. A tensor is asked for: only that can be combined with other masks and "
        "applied to scores.",
    ),
    Turn(
        "numpy-array",
        ALONE,
        "You return a NumPy array. A tensor is asked for: only that can be combined with other masks "
        "and applied to scores.",
    ),
    *NUMBERS,
)
def padding_mask(on: On) -> Any:
    def block(tokens: Any, pad_id: int) -> Any:
        real = tokens != pad_id
        if on("inverted"):
            real = ~real
        if on("zero-taken-for-padding"):
            real = tokens != 0
        if on("zero-hidden-too"):
            real = real & (tokens != 0)
        if on("greater-than-padding"):
            real = tokens > pad_id
        if on("smaller-than-padding"):
            real = tokens < pad_id
        if on("at-least-padding"):
            real = tokens >= pad_id
        if on("hidden-where-all-are-padding"):
            real = real.any(dim=0).expand_as(real)
        if on("last-token-taken-for-padding"):
            real = tokens != tokens[:, -1:]
        if on("only-trailing-padding"):
            real = real.flip(1).cumsum(dim=1).flip(1) > 0
        if on("empty-sentence-opened"):
            real = real | ~real.any(dim=1, keepdim=True)
        if on("only-leading-padding"):
            real = real.cumsum(dim=1) > 0
        if on("last-key-left-out"):
            real = real[:, :-1]
        if on("first-key-left-out"):
            real = real[:, 1:]
        if on("one-answer-a-sentence"):
            real = real.all(dim=1, keepdim=True)
        if on("counted-not-marked"):
            return real.cumsum(dim=1)[:, None, None, :]
        if on("not-compared"):
            return tokens[:, None, None, :]
        if on("one-answer-for-all"):
            return bool(real.all())
        if on("first-sentence-only"):
            return real[:1, None, None, :]
        if on("batch-in-the-place-of-heads"):
            return real[None, :, None, :]
        if on("one-axis-too-many"):
            return real[:, None, None, None, :]
        if on("batch-and-key-exchanged"):
            return real.T[:, None, None, :]
        if on("nested-lists"):
            return real.tolist()
        if on("numpy-array"):
            return real[:, None, None, :].numpy()
        if on("nothing-hidden"):
            real = torch.ones_like(real)
        if on("words-counted-from-the-front"):
            real = torch.arange(tokens.shape[1]) < real.sum(dim=1, keepdim=True)
        if on("hidden-from-the-first-pad-on"):
            real = real.cumprod(dim=1).bool()
        if on("one-mask-for-the-batch"):
            real = real.all(dim=0).expand_as(real)
        if on("tokens-overwritten"):
            tokens.copy_(real)
        mask = real[:, None, None, :]
        if on("two-axes"):
            mask = real
        if on("three-axes"):
            mask = real[:, None]
        if on("rows-hidden"):
            mask = real[:, None, :, None]
        if on("keys-in-the-place-of-heads"):
            mask = real[:, :, None, None]
        if on("batch-in-the-place-of-queries"):
            mask = real[None, None]
        if on("rows-and-columns-hidden"):
            mask = mask & mask.mT
        if on("rows-of-a-square-hidden"):
            mask = mask.mT.expand(-1, -1, -1, tokens.shape[1])
        if on("spread-over-queries"):
            mask = mask.expand(-1, -1, tokens.shape[1], -1)
        return _as_numbers(on, mask)

    return block


@right("6.2")
def padding_by_ne(tokens: Any, pad_id: int) -> Any:
    return tokens.ne(pad_id).unsqueeze(1).unsqueeze(2)


@right("6.2")
def padding_by_reshape(tokens: Any, pad_id: int) -> Any:
    batch, key = tokens.shape
    return torch.logical_not(tokens == pad_id).reshape(batch, 1, 1, key)


@right("6.2")
def padding_by_loop(tokens: Any, pad_id: int) -> Any:
    return torch.tensor([[[[token != pad_id for token in row]]] for row in tokens.tolist()])


@right("6.2")
def padding_on_an_own_copy(tokens: Any, pad_id: int) -> Any:
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[tokens == pad_id] = False
    return mask.view(tokens.size(0), 1, 1, -1)


# Scores that seem low enough to hide something.
_FILLS = (1, 10, 50)


@space(
    "6.3",
    Turn(
        "inverted",
        "mask",
        "You hide what is allowed and keep what is hidden. True means that one may look: it is where "
        "the mask is False that a score must go.",
    ),
    Turn(
        "mask-ignored",
        "fill",
        "The mask changes nothing in your weights: this is a softmax over all scores. Hidden scores "
        "must be out of the game before it.",
    ),
    Turn(
        "zero-before-softmax",
        "fill",
        "You set hidden scores to 0 (by a product with the mask, say, or by a fill as small as 1e-9) "
        "before the softmax. A score of 0 is a score like any other, and exp(0) is 1. Which score "
        "gives a weight of exactly 0?",
    ),
    Turn(
        "plus-infinity",
        ALONE,
        "You fill hidden scores with plus infinity, so they would win everything, and softmax turns "
        "to NaN. Look at the sign.",
    ),
    Turn(
        "finite-fill",
        "fill",
        "You fill hidden scores with a large negative number such as -1e9. It holds only while all "
        "allowed scores are above it; then the hidden ones win. Only minus infinity is below every "
        "score.",
    ),
    Turn(
        "lowest-finite-fill",
        "fill",
        "You fill hidden scores with the lowest number of the dtype. It is still a number: a row with "
        "scores as low as that gives weight to hidden ones. Only minus infinity is below every score.",
    ),
    Turn(
        "finite-number-added",
        "fill",
        "You add a large negative number to hidden scores. It holds only while the allowed scores are "
        "not as low themselves; minus infinity is below every score.",
    ),
    Turn(
        "finite-fill-then-zeroed",
        ALONE,
        "You fill hidden scores with a large negative number and set their weights to zero "
        "afterwards. Where the allowed scores are lower than that number, the hidden ones win first "
        "and the whole weight is lost. Only minus infinity is below every score.",
    ),
    Turn(
        "scores-times-mask-renormalised",
        ALONE,
        "You multiply scores by the mask before the softmax, and take hidden weights out afterwards. A "
        "hidden score of zero is far above allowed ones that are very low: nothing is left for them. "
        "Only minus infinity is below every score.",
    ),
    Turn(
        "lowest-finite-fill-then-zeroed",
        ALONE,
        "You fill hidden scores with the lowest number of the dtype and set their weights to zero "
        "afterwards. It is still a number: in a row with scores as low as that, part of the weight is "
        "lost. Only minus infinity is below every score.",
    ),
    Turn(
        "ten-thousand-subtracted",
        "fill",
        "You take a number such as 10000 off hidden scores. A hidden score as large as that is seen "
        "again, and allowed ones as low as that lose against hidden ones. Only minus infinity is "
        "below every score.",
    ),
    Turn(
        "mask-added",
        ALONE,
        "You add the mask to the scores, as 1 and 0. That moves allowed scores up by one and hides "
        "nothing. A hidden score must become one that softmax turns into exactly 0.",
    ),
    Turn(
        "exponentials-times-mask",
        "fill",
        "You multiply exponentials by the mask. At scores of a thousand exp overflows, and infinity "
        "times zero is NaN; at minus a thousand a whole row vanishes. Hide the scores first, and take "
        "the row's largest allowed score off before you exponentiate.",
    ),
    Turn(
        "zero-after-softmax",
        "fill",
        "You take the softmax over everything and then set hidden weights to zero. The hidden scores "
        "have had their share by then, and what is left no longer sums to one. Mask before, not "
        "after.",
    ),
    Turn(
        "renormalised-after-softmax",
        "fill",
        "The hidden scores take part in your maximum and your exponentials, and you take them out "
        "afterwards. A large hidden score then drowns all allowed ones in rounding. Hide them first.",
    ),
    Turn(
        "minus-infinity-after-softmax",
        ALONE,
        "You put minus infinity into the weights instead of the scores. It belongs before the "
        "softmax, which turns it into a weight of zero.",
    ),
    Turn(
        "infinity-added",
        "fill",
        "Your weights are right, but where nothing is allowed the gradient is NaN: adding minus "
        "infinity lets the gradient of an undefined softmax pass. Replace hidden scores instead of "
        "adding to them.",
    ),
    Turn(
        "empty-row-not-zeroed",
        "empty",
        "Where nothing is allowed your weights are not zero: a softmax of nothing but minus infinity "
        "is NaN, and of nothing but one finite number an even spread. Such a row needs a step of its "
        "own.",
    ),
    Turn(
        "empty-row-spread-evenly",
        ALONE,
        "Where nothing is allowed you spread the weight evenly. There is nothing to look at: such a "
        "row should be all zeros.",
    ),
    Turn(
        "zeroed-unless-all-allowed",
        "empty",
        "You set a whole row to zero as soon as one of its scores is hidden. Only a row in which "
        "nothing at all is allowed should be zero.",
    ),
    Turn(
        "empty-rows-along-the-last-axis",
        "empty",
        "You look for rows with nothing allowed along the last axis, while the softmax may run along "
        "another one. Both must look along dim.",
    ),
    Turn(
        "mask-not-expanded",
        ALONE,
        "You ask the mask about axis dim before it has the axes of the scores. A mask may have fewer "
        "of them, and then dim means another axis or none at all.",
    ),
    Turn(
        "full-masks-only",
        ALONE,
        "You index the scores with the mask, which works only where both have the same shape. A mask "
        "may be smaller and broadcast: bring it to the shape of the scores first, or use an operation "
        "that broadcasts.",
    ),
    Turn(
        "all-rows-zeroed",
        ALONE,
        "As soon as one row has nothing allowed, all weights of the batch become zero. Only that row "
        "should.",
    ),
    Turn(
        "dim-ignored",
        "axis",
        "Your softmax always runs over the last axis. The argument dim says which one to take.",
    ),
    Turn(
        "over-queries",
        "axis",
        "Your softmax runs over the axis before the last, so the weights of one query do not sum to "
        "one. The argument dim says which axis to take; the last one is the default.",
    ),
    Turn(
        "over-the-first-axis",
        ALONE,
        "Your softmax runs over the first axis and mixes sentences that have nothing to do with each "
        "other. The argument dim says which axis to take; the last one is the default.",
    ),
    Turn(
        "no-maximum",
        "softmax",
        "You exponentiate the scores as they are. At scores of a thousand exp overflows, at minus a "
        "thousand all of a row vanishes, and the division gives NaN. Take the row's largest allowed "
        "score off first.",
    ),
    Turn(
        "one-maximum-for-all",
        "softmax",
        "You subtract one maximum of the whole tensor. Rows far below it vanish to zero, and their "
        "division gives NaN. Each row needs the maximum of its own allowed scores.",
    ),
    Turn(
        "no-maximum-guarded",
        ALONE,
        "You exponentiate the scores as they are. At scores of a thousand exp overflows, and at minus "
        "a thousand all of a row vanishes; keeping the division from failing does not bring it back. "
        "Take the row's largest allowed score off first.",
    ),
    Turn(
        "one-maximum-for-all-guarded",
        ALONE,
        "You subtract one maximum of the whole tensor. Rows far below it vanish to zero, and keeping "
        "the division from failing does not bring them back. Each row needs the maximum of its own "
        "allowed scores.",
    ),
    Turn(
        "one-maximum-and-hidden-scores",
        ALONE,
        "You subtract one maximum of the whole tensor, hidden scores included, and take the hidden "
        "ones out afterwards. Rows far below it vanish to zero. Hide first, and give each row the "
        "maximum of its own allowed scores.",
    ),
    Turn(
        "axis-lost-in-the-sum",
        ALONE,
        "The sum (or the maximum) over dim loses its axis, and no longer lines up with the scores "
        "that you divide by it. Keep the axis, with size one.",
    ),
    Turn(
        "not-normalised",
        ALONE,
        "Your weights do not sum to one along dim: exponentials still have to be divided by their sum."
        " Look at what a softmax does last, and along which axis.",
    ),
    Turn(
        "log-weights",
        ALONE,
        "You return logarithms of the weights. This is softmax, not log-softmax.",
    ),
    Turn(
        "no-softmax",
        ALONE,
        "You return masked scores: the softmax over them is missing."
        " Scores are no weights yet: they may be negative, and do not sum to one.",
    ),
    Turn(
        "detached",
        ALONE,
        "Your weights are cut off from the scores (detach, .data, numpy, a new tensor), so nothing "
        "can be learned through them. Compute with the tensor that you were given.",
    ),
    Turn(
        "through-numpy",
        ALONE,
        "You leave PyTorch for NumPy on the way. That works on plain numbers, but a tensor that is "
        "being trained refuses it, because its gradient would be lost. Stay with tensor operations.",
    ),
    Turn(
        "always-float32",
        ALONE,
        "You turn the scores into float32. Whoever computes in double precision loses half of their "
        "digits: keep the dtype that comes in.",
    ),
    Turn(
        "infinity-times-mask",
        ALONE,
        "You multiply minus infinity by the mask and add it. Where nothing is hidden that is zero times"
        " infinity, which is NaN, not zero. Fill the hidden places instead of multiplying.",
    ),
    Turn(
        "smallest-score-fill",
        ALONE,
        "You give hidden places the smallest of all scores. Its exponential is not zero, so they still "
        "get a weight.",
    ),
    *(
        Turn(
            f"filled-with-minus-{fill}",
            ALONE,
            "You give hidden places a score that is low but not low enough: its exponential is not "
            "zero, and other scores can be lower still. Only minus infinity becomes exactly zero.",
        )
        for fill in _FILLS
    ),
    Turn(
        "exponentials-times-mask-guarded",
        ALONE,
        "You exponentiate the scores as they are and multiply by the mask. At scores of a thousand exp "
        "overflows, at minus a thousand all of a row vanishes, and your guard then gives zeros. Take "
        "the row's largest allowed score off first.",
    ),
    Turn(
        "softmax-twice",
        ALONE,
        "You take the softmax of a softmax. Weights are no scores: the second one makes them nearly "
        "equal and gives hidden places weight again.",
    ),
    Turn(
        "zero-before-and-after",
        ALONE,
        "You set hidden scores to zero before the softmax and hidden weights to zero after it. A score "
        "of zero has taken its share by then, and the others do not sum to one. Hide with minus "
        "infinity.",
    ),
    Turn(
        "absolute-scores",
        ALONE,
        "You take the absolute value of the scores. A negative score means a small weight: the softmax "
        "takes them as they come.",
    ),
    Turn(
        "scores-negated",
        ALONE,
        "You turn the sign of the scores, so the lowest gets the largest weight. The softmax takes "
        "them as they come.",
    ),
    Turn(
        "even-shares",
        ALONE,
        "Your weights are equal for all allowed places. They depend on the scores: a softmax gives the "
        "larger share to the larger score.",
    ),
    Turn(
        "over-everything",
        ALONE,
        "Your softmax runs over all scores of the tensor at once. Only the scores along dim compete "
        "with each other.",
    ),
    Turn(
        "sigmoid-instead",
        ALONE,
        "You use a sigmoid, which looks at each score alone: nothing makes the weights sum to one. It "
        "is a softmax along dim.",
    ),
    Turn(
        "scores-divided-by-their-sum",
        ALONE,
        "You divide the scores by their sum, without the exponential. Scores may be negative, and their"
        " sum may be zero; a softmax exponentiates first.",
    ),
    Turn(
        "only-the-largest",
        ALONE,
        "You give all the weight to the largest allowed score. A softmax shares it among all allowed "
        "ones, and lets gradients through.",
    ),
    Turn(
        "scores-scaled",
        ALONE,
        "You divide the scores by the root of the width once more. That was done when they were "
        "computed: the softmax takes them as they come.",
    ),
    Turn(
        "mask-returned-too",
        ALONE,
        "You return the mask beside the weights. Only the weights are asked for.",
    ),
    Turn(
        "scores-overwritten",
        "in place",
        "You write minus infinity into the scores that you were given. The caller may still need "
        "them, and autograd refuses it: use the version of the operation that gives a new tensor.",
    ),
)
def masked_softmax(on: On) -> Any:
    def block(scores: Any, mask: Any, dim: int = -1) -> Any:
        if on("detached"):
            scores = scores.detach()
        if on("always-float32"):
            scores = scores.float()
        if on("inverted"):
            mask = ~mask
        if on("dim-ignored"):
            dim = -1
        if on("over-queries"):
            dim = max(-2, -scores.ndim)
        if on("over-the-first-axis"):
            dim = 0
        if on("through-numpy"):
            scores = torch.from_numpy(scores.numpy())
        if on("full-masks-only"):
            scores[~mask].sum()
        given, mask = mask, mask.expand_as(scores)
        if on("scores-overwritten"):
            scores[~mask] = -math.inf
        if on("sigmoid-instead"):
            return torch.sigmoid(scores) * mask
        if on("scores-divided-by-their-sum"):
            kept = scores.masked_fill(~mask, 0.0)
            return kept / kept.sum(dim=dim, keepdim=True)
        if on("only-the-largest"):
            top = scores.masked_fill(~mask, -math.inf).argmax(dim=dim, keepdim=True)
            return torch.zeros_like(scores).scatter(dim, top, 1.0) * mask
        if on("over-everything"):
            return scores.masked_fill(~mask, -math.inf).flatten().softmax(0).view_as(scores)
        if on("exponentials-times-mask-guarded"):
            raised = scores.exp() * mask
            total = raised.sum(dim=dim, keepdim=True)
            return torch.where(total > 0, raised / total.where(total > 0, 1.0), 0.0)
        if on("absolute-scores"):
            scores = scores.abs()
        if on("scores-negated"):
            scores = -scores
        if on("zero-before-and-after"):
            return scores.masked_fill(~mask, 0.0).softmax(dim) * mask
        if on("softmax-twice"):
            once = scores.masked_fill(~mask, -math.inf).softmax(dim)
            return once.softmax(dim).masked_fill(~mask.any(dim=dim, keepdim=True), 0.0)
        if on("even-shares"):
            return mask.to(scores.dtype) / mask.sum(dim=dim, keepdim=True).clamp(min=1)
        if on("scores-scaled"):
            scores = scores / scores.shape[dim] ** 0.5
        weights = _mask_weights(on, _softmax(on, _filled(on, scores, mask), dim), mask, dim)
        if on("empty-row-not-zeroed"):
            return weights
        some = mask.any(dim=dim, keepdim=True)
        if on("zeroed-unless-all-allowed"):
            some = mask.all(dim=dim, keepdim=True)
        if on("empty-rows-along-the-last-axis"):
            some = mask.any(dim=-1, keepdim=True)
        if on("all-rows-zeroed"):
            some = some.all()
        if on("mask-not-expanded"):
            some = given.any(dim=dim, keepdim=True)
        even = 1 / scores.shape[dim] if on("empty-row-spread-evenly") else 0.0
        weights = weights.masked_fill(~some, even)
        return (weights, mask) if on("mask-returned-too") else weights

    return block


def _filled(on: On, scores: Any, mask: Any) -> Any:
    if on("finite-number-added"):
        return scores - 1e9 * (~mask).to(scores.dtype)
    if on("ten-thousand-subtracted"):
        return scores - 1e4 * (~mask).to(scores.dtype)
    if on("mask-added"):
        return scores + mask.to(scores.dtype)
    if on("infinity-added"):
        return scores + torch.zeros_like(scores).masked_fill(~mask, -math.inf)
    if on("infinity-times-mask"):
        return scores + (~mask) * -math.inf
    if on("smallest-score-fill"):
        return scores.masked_fill(~mask, float(scores.detach().min()))
    fills = {
        **{f"filled-with-minus-{fill}": -fill for fill in _FILLS},
        "zero-before-softmax": 0.0,
        "scores-times-mask-renormalised": 0.0,
        "plus-infinity": math.inf,
        "finite-fill": -1e9,
        "finite-fill-then-zeroed": -1e9,
        "lowest-finite-fill-then-zeroed": torch.finfo(scores.dtype).min,
        "lowest-finite-fill": torch.finfo(scores.dtype).min,
    }
    fill = next((value for name, value in fills.items() if on(name)), -math.inf)
    after = (
        "mask-ignored",
        "exponentials-times-mask",
        "one-maximum-and-hidden-scores",
        "zero-after-softmax",
        "renormalised-after-softmax",
        "minus-infinity-after-softmax",
    )
    return scores if any(map(on, after)) else scores.masked_fill(~mask, fill)


def _softmax(on: On, scores: Any, dim: int) -> Any:
    if on("no-softmax"):
        return scores
    if on("log-weights"):
        return torch.log_softmax(scores, dim=dim)
    if on("exponentials-times-mask"):
        return scores.exp()
    plain = on("no-maximum") or on("no-maximum-guarded")
    if plain or on("one-maximum-for-all") or on("one-maximum-for-all-guarded"):
        raised = (scores if plain else scores - scores.max()).exp()
        total = raised.sum(dim=dim, keepdim=True)
        guarded = on("no-maximum-guarded") or on("one-maximum-for-all-guarded")
        return raised / (total.clamp(min=1e-300) if guarded else total)
    if on("one-maximum-and-hidden-scores"):
        return (scores - scores.max()).exp()
    if on("axis-lost-in-the-sum"):
        raised = (scores - scores.amax(dim=dim, keepdim=True)).exp()
        return raised / raised.sum(dim=dim)
    if on("not-normalised"):
        return scores.exp()
    return torch.softmax(scores, dim=dim)


def _mask_weights(on: On, weights: Any, mask: Any, dim: int) -> Any:
    zeroed = ("zero-after-softmax", "finite-fill-then-zeroed", "lowest-finite-fill-then-zeroed")
    if any(map(on, zeroed)):
        return weights * mask
    divided = (
        "renormalised-after-softmax",
        "exponentials-times-mask",
        "one-maximum-and-hidden-scores",
        "scores-times-mask-renormalised",
    )
    if any(map(on, divided)):
        weights = weights * mask
        total = weights.sum(dim=dim, keepdim=True)
        return weights / (total if on("empty-row-not-zeroed") else total.clamp(min=1e-12))
    if on("minus-infinity-after-softmax"):
        return weights.masked_fill(~mask, -math.inf)
    return weights


@right("6.3")
def softmax_without_nan(scores: Any, mask: Any, dim: int = -1) -> Any:
    return torch.where(mask, scores, float("-inf")).softmax(dim).nan_to_num(0.0)


@right("6.3")
def softmax_by_exponentials(scores: Any, mask: Any, dim: int = -1) -> Any:
    hidden = scores.masked_fill(~mask, -math.inf)
    top = hidden.amax(dim=dim, keepdim=True).detach()
    raised = (hidden - top.masked_fill(top.isinf(), 0.0)).exp()
    total = raised.sum(dim=dim, keepdim=True)
    return raised / total.masked_fill(total == 0, 1.0)


@right("6.3")
def softmax_in_double_precision(scores: Any, mask: Any, dim: int = -1) -> Any:
    hidden = scores.double().masked_fill(~mask, -math.inf)
    nothing = ~mask.expand_as(scores).any(dim, True)
    return hidden.masked_fill(nothing, 0.0).softmax(dim).masked_fill(nothing, 0.0).to(scores.dtype)


@right("6.3")
def softmax_on_an_own_copy(scores: Any, mask: Any, dim: int = -1) -> Any:
    mask = torch.broadcast_to(mask, scores.shape)
    copy = scores.clone()
    copy[~mask] = float("-inf")
    weights = F.softmax(copy, dim=dim)
    return torch.where(weights.isnan(), torch.zeros_like(weights), weights)


@right("6.3")
def softmax_by_logsumexp(scores: Any, mask: Any, dim: int = -1) -> Any:
    hidden = scores.masked_fill(~mask, -math.inf)
    total = hidden.logsumexp(dim=dim, keepdim=True)
    return (hidden - total.masked_fill(total.isinf(), 0.0)).exp()


@space(
    "6.4",
    Turn(
        "shifted-left",
        "shift",
        "You move the targets to the left and put the start token at the end. Then every place holds "
        "the word after the one it should write: the answer is in the question. Move to the right.",
    ),
    Turn(
        "start-token-at-the-end",
        "shift",
        "The words stay where they are and the start token comes last. The model would be shown the "
        "very word it has to write; the start token comes first and pushes all words one place on.",
    ),
    Turn(
        "first-word-overwritten",
        "shift",
        "You put the start token in the place of the first word, and all others stay where they are. "
        "Place t must hold the word before target t: it is the last word that goes, not the first.",
    ),
    Turn(
        "last-word-comes-round",
        "shift",
        "Your words move in a circle: the last one comes back at the front, where the start token "
        "should be."
        " The decoder would be told how the sentence ends: look at what fills the first place.",
    ),
    Turn(
        "sentences-shifted",
        "shift",
        "You shift along the batch: sentences move down by one instead of words to the right. The "
        "sequence is the last axis.",
    ),
    Turn(
        "words-moved-to-the-next-sentence",
        ALONE,
        "Your words move along the batch, into the next sentence, and only the start tokens stand "
        "right. The sequence is the last axis.",
    ),
    Turn(
        "first-sentence-overwritten",
        ALONE,
        "You overwrite the whole first sentence of a batch with the start token, and in all others "
        "the last word comes back at the front. The start token belongs into the first place of every "
        "sentence.",
    ),
    Turn(
        "shifted-by-two",
        "shift",
        "Your words move two places. When word t is to be written, word t - 1 is already there.",
    ),
    Turn(
        "start-token-everywhere",
        "shift",
        "Every place holds the start token: while you move the words you overwrite the one that you "
        "need next. Copy from the untouched targets.",
    ),
    Turn(
        "first-word-everywhere",
        ALONE,
        "After the start token every place holds the first word: while you move the words you "
        "overwrite the one that you need next. Copy from the untouched targets.",
    ),
    Turn(
        "nothing-moved",
        "shift",
        "You return the targets as they came. The decoder would see the word that it has to write.",
    ),
    Turn(
        "nothing-dropped",
        "length",
        "Your result is one token longer than the targets: the start token comes in but the last word "
        "stays. Input and target must have the same length.",
    ),
    Turn(
        "nothing-put-in-front",
        "length",
        "Your result is one token shorter than the targets: a word goes but no start token comes in. "
        "Input and target must have the same length.",
    ),
    Turn(
        "first-word-cut-off",
        ALONE,
        "You return the targets without their first word. The start token comes in at the front and "
        "the last word goes out, so that input and target have the same length.",
    ),
    Turn(
        "zero-as-start-token",
        "start",
        "Your sentences begin with 0, whatever bos_id says. The first input is the start token that "
        "is given.",
    ),
    Turn(
        "one-as-start-token",
        "start",
        "Your sentences begin with 1, whatever bos_id says. The first input is the start token that "
        "is given.",
    ),
    Turn(
        "first-word-repeated",
        "start",
        "Your sentences begin with their own first word, which is then there twice. The first input "
        "is the start token: before the first word nothing has been written.",
    ),
    Turn(
        "batches-only",
        "axes",
        "Your code counts axes from the front and holds for (batch, seq) only. A single sentence, or "
        "one more axis in front, should work too: count from the end.",
    ),
    Turn(
        "single-sentences-only",
        ALONE,
        "Your code holds for a single sentence only. With a batch in front, every sentence needs its "
        "own start token: count axes from the end, the sequence is the last one.",
    ),
    Turn(
        "overlapping-copy",
        ALONE,
        "You copy words within one tensor, onto places that are still to be read, and torch refuses "
        "it. Read from the untouched targets and write into a tensor of its own.",
    ),
    Turn(
        "floating-point",
        "dtype",
        "Your tokens come out as floating point numbers: a tensor of floats was put together with "
        "them. Ids are integers; make the start column of the same kind as the targets.",
    ),
    Turn(
        "always-int64",
        "dtype",
        "Your tokens come out as int64, whatever they were. Make the start column of the same dtype "
        "as the targets.",
    ),
    Turn(
        "targets-overwritten",
        "in place",
        "You write into the targets that you were given. The loss still needs them as they are: work "
        "on a copy.",
    ),
    Turn(
        "one-start-token",
        ALONE,
        "Only the first sentence gets a start token; in all others the last word comes back at the "
        "front. Every sentence starts with one.",
    ),
    Turn(
        "words-cross-sentences",
        ALONE,
        "You shift the batch as one long line: the last word of a sentence comes first in the next one."
        " Every sentence is shifted on its own and starts with the start token.",
    ),
    Turn(
        "two-words-dropped",
        ALONE,
        "You drop the last two words, so the input is one token shorter than the target. One comes in "
        "and one goes out.",
    ),
    Turn(
        "start-token-negated",
        ALONE,
        "You start with the opposite of bos_id. The start token is bos_id itself.",
    ),
    Turn(
        "moved-left-behind-the-start",
        ALONE,
        "The start token stands right, but the words move to the left: every place holds a word that is"
        " still to come. Move to the right.",
    ),
    Turn(
        "turned-round",
        ALONE,
        "You turn the sentence round. Shifting right keeps the order of the words and moves each by one"
        " place.",
    ),
    Turn(
        "start-token-after-the-first-word",
        ALONE,
        "The start token stands in the second place. It comes first, before all words.",
    ),
    Turn(
        "start-token-at-both-ends",
        ALONE,
        "You put the start token in front and at the end. It comes first only; what was the last but "
        "one word ends the sentence.",
    ),
    Turn(
        "start-token-plus-one",
        ALONE,
        "You start with bos_id plus one. The start token is bos_id itself.",
    ),
    Turn(
        "always-int32",
        ALONE,
        "Your tokens come out as int32, whatever they were. Make the start column of the same dtype as "
        "the targets.",
    ),
    Turn(
        "nested-lists",
        ALONE,
        "You return lists. A tensor is asked for: the decoder cannot take anything else.",
    ),
    Turn(
        "targets-returned-too",
        ALONE,
        "You return the targets beside the shifted ones. Only the decoder's input is asked for.",
    ),
)
def shift_right(on: On) -> Any:
    def block(targets: Any, bos_id: int) -> Any:
        if on("zero-as-start-token") or on("one-as-start-token"):
            bos_id = int(on("one-as-start-token"))
        if on("batches-only") and targets.ndim != 2:
            # What slices along axis 1 do: fail on a sentence, cut the wrong axis of nested batches.
            start = torch.full_like(targets[:, :1], bos_id)
            return torch.cat([start, targets[:, :-1]], dim=1)
        if on("single-sentences-only"):
            return torch.cat([torch.tensor([bos_id]), targets[:-1]])
        if on("overlapping-copy"):
            targets[..., 1:] = targets[..., :-1]
            targets[..., 0] = bos_id
            return targets
        start = torch.full_like(targets[..., :1], bos_id + on("start-token-plus-one"))
        if on("first-word-repeated"):
            start = targets[..., :1]
        shifted = _shifted(on, targets, start)
        if on("targets-overwritten") and shifted.shape == targets.shape:
            targets.copy_(shifted)
        if on("floating-point"):
            return shifted.float()
        if on("always-int32"):
            return shifted.int()
        if on("nested-lists"):
            return shifted.tolist()
        if on("targets-returned-too"):
            return shifted, targets
        return shifted.long() if on("always-int64") else shifted

    return block


def _shifted(on: On, targets: Any, start: Any) -> Any:
    if on("shifted-left"):
        return torch.cat([targets[..., 1:], start], dim=-1)
    if on("start-token-at-the-end"):
        return torch.cat([targets[..., :-1], start], dim=-1)
    if on("first-word-overwritten"):
        return torch.cat([start, targets[..., 1:]], dim=-1)
    if on("last-word-comes-round"):
        return targets.roll(1, dims=-1)
    if on("words-moved-to-the-next-sentence"):
        shifted = targets.roll(1, dims=0)
        shifted[..., :1] = start
        return shifted
    if on("first-sentence-overwritten"):
        shifted = targets.roll(1, dims=-1)
        shifted[0] = start.flatten()[0]
        return shifted
    if on("one-start-token"):
        shifted = targets.roll(1, dims=-1)
        shifted.view(-1)[:1] = start.flatten()[0]
        return shifted
    if on("words-cross-sentences"):
        return torch.cat([start.flatten()[:1], targets.flatten()[:-1]]).view_as(targets)
    if on("two-words-dropped"):
        return torch.cat([start, targets[..., :-2]], dim=-1)
    if on("start-token-negated"):
        return torch.cat([-start, targets[..., :-1]], dim=-1)
    if on("moved-left-behind-the-start"):
        return torch.cat([start, targets.roll(-1, dims=-1)[..., 1:]], dim=-1)
    if on("turned-round"):
        return torch.cat([start, targets.flip(-1)[..., :-1]], dim=-1)
    if on("start-token-after-the-first-word"):
        return torch.cat([targets[..., :1], start, targets[..., 1:]], -1)[..., : targets.shape[-1]]
    if on("start-token-at-both-ends"):
        return torch.cat([start, targets[..., :-2], start], dim=-1)[..., : targets.shape[-1]]
    if on("sentences-shifted"):
        shifted = targets.roll(1, dims=0)
        shifted[:1] = start.flatten()[0]
        return shifted
    if on("shifted-by-two"):
        return torch.cat([start, start, targets], dim=-1)[..., : targets.shape[-1]]
    if on("start-token-everywhere"):
        return start.expand_as(targets).clone()
    if on("first-word-everywhere"):
        return torch.cat([start, targets[..., :1].expand_as(targets)[..., 1:]], dim=-1)
    if on("nothing-moved"):
        return targets.clone()
    if on("nothing-dropped"):
        return torch.cat([start, targets], dim=-1)
    if on("first-word-cut-off"):
        return targets[..., 1:]
    if on("nothing-put-in-front"):
        return targets[..., :-1]
    return torch.cat([start, targets[..., :-1]], dim=-1)


@right("6.4")
def shifted_by_roll(targets: Any, bos_id: int) -> Any:
    shifted = targets.roll(1, dims=-1)
    shifted[..., 0] = bos_id
    return shifted


@right("6.4")
def shifted_by_pad(targets: Any, bos_id: int) -> Any:
    return F.pad(targets, (1, -1), value=bos_id)


@right("6.4")
def shifted_into_new(targets: Any, bos_id: int) -> Any:
    shifted = torch.empty_like(targets)
    shifted[..., 0] = bos_id
    for t in range(1, targets.shape[-1]):
        shifted[..., t] = targets[..., t - 1]
    return shifted


@right("6.4")
def shifted_then_cut(targets: Any, bos_id: int) -> Any:
    start = targets.new_full((*targets.shape[:-1], 1), bos_id)
    return torch.cat((start, targets), -1)[..., :-1]


@wrong(
    "6.4",
    "two-axes-assumed",
    "Your code takes it that the targets have two axes. There may be no batch, or several leading "
    "axes: seq is the last axis, so count from the end.",
)
def two_axes(targets: Any, bos_id: int) -> Any:
    batch, seq = targets.shape
    shifted = torch.full((batch, seq), bos_id, dtype=targets.dtype)
    shifted[:, 1:] = targets[:, :-1]
    return shifted


@space(
    "6.5",
    Turn(
        "mean-over-padding",
        "mean",
        "You divide by all places, padding included. The more padding a batch has, the smaller its "
        "loss looks. Divide by the number of words.",
    ),
    Turn(
        "summed",
        "mean",
        "You add up the losses of all words and do not divide. A longer batch would weigh more; the "
        "mean over the words is asked for.",
    ),
    Turn(
        "divided-by-sentences",
        "mean",
        "You divide by the number of sentences. Long sentences would then cost more; divide by the "
        "number of words.",
    ),
    Turn(
        "mean-of-sentence-means",
        "mean",
        "You take the mean of every sentence and then the mean of those. A word in a short sentence "
        "would then count more than one in a long sentence; every word of the batch counts the same.",
    ),
    Turn(
        "one-word-too-many",
        ALONE,
        "You divide by one more than the number of words. What keeps a batch without words from "
        "dividing by zero must not change the others.",
    ),
    Turn(
        "divided-by-the-vocabulary",
        ALONE,
        "Your mean runs over the vocabulary too, so the loss is too small by its size. Over the "
        "vocabulary the cross-entropy is a sum; the mean is over words of the text.",
    ),
    Turn(
        "loss-per-token",
        ALONE,
        "You return one loss for every token. One number is asked for: the mean over all words.",
    ),
    Turn(
        "loss-per-sentence",
        ALONE,
        "You return one loss for every sentence. One number is asked for: the mean over all words of "
        "the batch.",
    ),
    Turn(
        "with-an-axis-left",
        ALONE,
        "Your loss is a tensor with an axis of size one. A plain number in a tensor without axes is "
        "asked for; look for an axis that was kept.",
    ),
    Turn(
        "perplexity",
        ALONE,
        "You return the exponential of the loss. That is the perplexity; the loss is what stands in "
        "the exponent.",
    ),
    Turn(
        "padding-counted",
        "padding",
        "Padding counts as a word to be predicted in your loss: pad_id makes no difference. The model "
        "would be praised for writing padding.",
    ),
    Turn(
        "stand-in-counted",
        ALONE,
        "You put another token in the place of padding and then count it as a word. Those places must "
        "go, from the sum and from the number that it is divided by.",
    ),
    Turn(
        "zero-taken-for-padding",
        "padding",
        "You leave out token 0, whatever pad_id says. In another vocabulary 0 is a word; compare with "
        "the id that is given.",
    ),
    Turn(
        "only-padding-counted",
        ALONE,
        "You count padding and leave out the words: your mask is the wrong way round."
        " What is learned is to predict nothing: look at what is compared with the padding"
        " token.",
    ),
    Turn(
        "padding-looked-up",
        "padding",
        "You look up the probability of every target, padding too, before you leave padding out. "
        "Where its id is not in the vocabulary (-100), there is nothing to look up.",
    ),
    Turn(
        "padding-indexed",
        "padding",
        "You use every target as an index, padding too, before you leave padding out. Where its id is "
        "not in the vocabulary (-100), there is nothing to find.",
    ),
    Turn(
        "logits-zeroed-at-padding",
        ALONE,
        "You set the logits at padding to zero and count them. Equal logits are a guess like any "
        "other, and it costs the log of the vocabulary. It is the loss of these places that must go.",
    ),
    Turn(
        "first-token-left-out",
        "padding",
        "You leave the first token of every sentence out. Its prediction, from the start token, "
        "counts like all others.",
    ),
    Turn(
        "last-token-left-out",
        ALONE,
        "You leave the last token of every sentence out. Every target that is not padding counts.",
    ),
    Turn(
        "shifted-once-more",
        "padding",
        "You compare each prediction with the target after it. Inputs were shifted right before the "
        "model saw them, so logits and targets already belong together place by place.",
    ),
    Turn(
        "smoothing-ignored",
        "smoothing",
        "The argument smoothing makes no difference in your loss. Part of the target's probability "
        "should be spread over the vocabulary.",
    ),
    Turn(
        "always-smoothed",
        ALONE,
        "You smooth by 0.1 whatever the argument smoothing says. Take what is given; without it there "
        "is no smoothing.",
    ),
    Turn(
        "spread-over-the-others",
        "smoothing",
        "You spread the smoothing over all words but the target. Here, as in torch, the target gets "
        "its even share of it too: it is spread over the whole vocabulary.",
    ),
    Turn(
        "spread-over-all-but-padding",
        "smoothing",
        "You leave both the target and the padding token out when you spread the smoothing. Here, as "
        "in torch, every entry of the vocabulary gets the same share.",
    ),
    Turn(
        "divided-by-one-word-less",
        "smoothing",
        "You sum over the whole vocabulary and divide by one word less. Here, as in torch, the target "
        "gets its even share too: every word gets smoothing over the number of all words.",
    ),
    Turn(
        "target-without-its-even-share",
        "smoothing",
        "The target gets the rest, but not its even share of the smoothing, so the shares sum to less "
        "than one. Every word of the vocabulary gets its share, the target included.",
    ),
    Turn(
        "divided-by-two-words-less",
        ALONE,
        "You spread the smoothing over two words less than the vocabulary has. Here, as in torch, "
        "every entry of the vocabulary gets the same share, target and padding included.",
    ),
    Turn(
        "target-keeps-everything",
        "smoothing",
        "You add the smoothing on top: the target keeps its full weight, and the shares sum to more "
        "than one. What the others get must be taken from the target.",
    ),
    Turn(
        "shares-exchanged",
        "smoothing",
        "The target gets the share `smoothing` and the rest is spread: just the other way round."
        " With little smoothing the model learns to avoid the right word: look at which share"
        " belongs to whom.",
    ),
    Turn(
        "spread-summed",
        ALONE,
        "Every word of the vocabulary gets the whole share `smoothing` in your loss. It must be "
        "divided among them.",
    ),
    Turn(
        "only-the-target-reduced",
        ALONE,
        "You take the smoothing away from the target and give it to nobody. The shares must still sum "
        "to one.",
    ),
    Turn(
        "kl-divergence",
        ALONE,
        "You compute the divergence from the smoothed target, which is the cross-entropy less a "
        "constant. Gradients are the same, the loss is not: asked for is the cross-entropy itself.",
    ),
    Turn(
        "smoothing-counts-padding",
        "smoothing",
        "Padding is left out of the target's part of your loss, but not of the part that is spread "
        "over the vocabulary. Both are means over words only.",
    ),
    Turn(
        "smoothing-averaged-over-padding",
        "smoothing",
        "The part of your loss that is spread over the vocabulary is a mean over all places, padding "
        "included. Both parts are means over words only.",
    ),
    Turn(
        "axis-not-squeezed",
        ALONE,
        "The looked-up probabilities still have an axis of size one at the end. Put together with a "
        "tensor without it, positions meet sentences, or each other. Look at both shapes.",
    ),
    Turn(
        "sign-forgotten",
        "log",
        "Your loss is negative: training would make it worse. The loss is minus the log of the "
        "probability.",
    ),
    Turn(
        "no-softmax",
        "log",
        "You use logits as if they were log-probabilities. They still have to be normalised over the "
        "vocabulary.",
    ),
    Turn(
        "no-log",
        "log",
        "You average probabilities, not their logarithms. The loss is minus the log of the "
        "probability of the target.",
    ),
    Turn(
        "softmax-twice",
        "log",
        "You apply softmax and then a loss that applies it again. Probabilities lie between 0 and 1, "
        "so the second one makes them all nearly equal. The loss wants logits.",
    ),
    Turn(
        "log-of-softmax",
        "log",
        "You take the log of a softmax. A probability that rounds to zero has the log minus infinity: "
        "at large logits the loss is no number any more. There is one step that does both safely.",
    ),
    Turn(
        "softmax-by-hand",
        ALONE,
        "You exponentiate logits as they are (or less one maximum of the whole tensor), divide and "
        "take the log. At large logits that is infinity over infinity or zero over zero: NaN. There "
        "is one step that does it all safely.",
    ),
    Turn(
        "log-of-clamped-softmax",
        "log",
        "You keep the log away from zero by a small number. That caps the loss: however wrong the "
        "model is, it pays no more, and gets no gradient. There is one step that does both safely.",
    ),
    Turn(
        "log-base-2",
        ALONE,
        "Your logarithm has base 2, which gives bits. The cross-entropy here uses the natural "
        "logarithm.",
    ),
    Turn(
        "softmax-over-positions",
        ALONE,
        "Your softmax runs over the positions of the sentence. Words of the vocabulary compete with "
        "each other, and they are the last axis.",
    ),
    Turn(
        "nan-without-words",
        "empty",
        "A batch of nothing but padding gives NaN: zero divided by zero words. Its loss should be 0.",
    ),
    Turn(
        "number-without-words",
        ALONE,
        "For a batch of nothing but padding you return a plain Python number. A tensor is asked for "
        "there too, so that training can go on with it.",
    ),
    Turn(
        "batches-only",
        "axes",
        "Your code fits logits of the axes (batch, seq, vocab) only. A single sentence, or one more "
        "axis in front, should work too.",
    ),
    Turn(
        "contiguous-only",
        "axes",
        "Your code reshapes with view, which refuses a tensor that was transposed before. There is a "
        "method that copies where it must.",
    ),
    Turn(
        "detached",
        ALONE,
        "Your loss is a new tensor, cut off from the logits (item, detach, numpy): nothing can be "
        "learned from it. Compute with the tensors that you were given.",
    ),
    Turn(
        "made-from-a-number",
        ALONE,
        "You make a new tensor from a plain number. It is cut off from the logits, so nothing can be "
        "learned from it, and it has forgotten their dtype. Return what you computed.",
    ),
    Turn(
        "through-numpy",
        ALONE,
        "You leave PyTorch for NumPy on the way. That works on plain numbers, but a tensor that is "
        "being trained refuses it, because its gradient would be lost. Stay with tensor operations.",
    ),
    Turn(
        "plain-number",
        ALONE,
        "You return a plain Python number. It knows nothing of where it came from, so there are no "
        "gradients: return the tensor.",
    ),
    Turn(
        "always-float32",
        ALONE,
        "Your loss is float32 whatever the logits are. Keep the dtype that comes in.",
    ),
    Turn(
        "only-positive-counted",
        ALONE,
        "You count tokens greater than zero, whatever pad_id says. In another vocabulary 0 is a word "
        "and padding has another id; compare with the id that is given.",
    ),
    Turn(
        "greater-than-padding-counted",
        ALONE,
        "You count tokens greater than pad_id. A word is whatever differs from pad_id, larger or "
        "smaller.",
    ),
    Turn(
        "stops-at-the-first-pad",
        ALONE,
        "You count words up to the first padding of a sentence. Padding may stand in front or between "
        "words: every target that is not padding counts.",
    ),
    Turn(
        "only-the-last-token",
        ALONE,
        "Your loss is that of the last token alone. Every target that is not padding counts.",
    ),
    Turn(
        "only-the-first-sentence",
        ALONE,
        "Your loss is that of the first sentence alone. Every target of the batch that is not padding "
        "counts.",
    ),
    Turn(
        "padding-without-a-share",
        ALONE,
        "You leave the padding token out when you spread the smoothing. Here, as in torch, every entry "
        "of the vocabulary gets the same share, padding included.",
    ),
    Turn(
        "zeroed-logits-in-the-sum",
        ALONE,
        "You set the logits at padding to zero and still add up their losses. Equal logits cost the log"
        " of the vocabulary. It is the loss of these places that must go.",
    ),
    Turn(
        "squared-error",
        ALONE,
        "You measure the squared distance between probabilities and the one that is wanted. The "
        "cross-entropy is minus the logarithm of the target's probability.",
    ),
    Turn(
        "binary-cross-entropy",
        ALONE,
        "You ask yes or no for every word of the vocabulary on its own. Exactly one word comes next: a "
        "softmax over the vocabulary makes them compete.",
    ),
    Turn(
        "axes-reread",
        ALONE,
        "You exchange axes with reshape or view, or reshape what was transposed, so numbers of "
        "different words are mixed. Flatten all axes before the vocabulary, in their order.",
    ),
    Turn(
        "divided-by-the-length",
        ALONE,
        "You divide the sum by the length of the sequence. It is divided by the number of targets that "
        "are not padding, in the whole batch.",
    ),
    Turn(
        "not-zero-without-words",
        ALONE,
        "A batch of nothing but padding gives a loss of one. There is nothing to learn from it: its "
        "loss should be 0.",
    ),
    Turn(
        "divided-twice",
        ALONE,
        "You take a mean and divide once more by the number of words. Divide the sum once, by the "
        "number of targets that are not padding.",
    ),
    Turn(
        "likeliest-word",
        ALONE,
        "You take the loss of the likeliest word, whatever the target is. It is the target's "
        "probability that counts.",
    ),
    Turn(
        "logits-smoothed",
        ALONE,
        "You smooth the logits. It is the target that is smoothed: part of its probability goes to all "
        "words of the vocabulary.",
    ),
    Turn(
        "log-base-10",
        ALONE,
        "You take logarithms to the base 10. The cross-entropy uses the natural one, as log_softmax "
        "does.",
    ),
    Turn(
        "share-of-wrong-words",
        ALONE,
        "You return the share of words that are not the likeliest. That has no gradient: the loss is "
        "minus the logarithm of the target's probability.",
    ),
    Turn(
        "losses-returned-too",
        ALONE,
        "You return something beside the loss. One number is asked for, as a tensor.",
    ),
    Turn(
        "targets-overwritten",
        ALONE,
        "You write into the targets that you were given, to get padding out of the way. The caller "
        "still needs them: work on a copy.",
    ),
)
def sequence_loss(on: On) -> Any:
    def block(logits: Any, targets: Any, pad_id: int, smoothing: float = 0.0) -> Any:
        if on("batches-only"):
            _, _, _ = logits.shape
        if on("contiguous-only"):
            logits.view(-1, logits.shape[-1])
        if on("detached"):
            logits = logits.detach()
        if on("through-numpy"):
            logits = torch.from_numpy(logits.numpy())
        if on("always-float32"):
            logits = logits.float()
        if on("made-from-a-number"):
            logits = logits.detach().float()
        if on("always-smoothed"):
            smoothing = 0.1
        if on("first-token-left-out"):
            logits, targets = logits[..., 1:, :], targets[..., 1:]
        if on("last-token-left-out"):
            logits, targets = logits[..., :-1, :], targets[..., :-1]
        if on("shifted-once-more"):
            logits, targets = logits[..., :-1, :], targets[..., 1:]
        if on("only-the-last-token"):
            logits, targets = logits[..., -1:, :], targets[..., -1:]
        if on("only-the-first-sentence") and targets.ndim > 1:
            logits, targets = logits[:1], targets[:1]
        if on("logits-smoothed"):
            logits, smoothing = logits * (1 - smoothing), 0.0
        if on("axes-reread") and logits.ndim > 2:
            logits = logits.transpose(-1, -2).reshape(logits.shape)
        real = targets != pad_id
        if on("zeroed-logits-in-the-sum"):
            logits = logits * real[..., None]
        if on("padding-counted") or on("logits-zeroed-at-padding"):
            if on("logits-zeroed-at-padding"):
                logits, targets = logits * real[..., None], targets.where(real, 0)
            real = torch.ones_like(real)
        if on("zero-taken-for-padding"):
            real = targets != 0
        if on("only-padding-counted"):
            real = ~real
        if on("only-positive-counted"):
            real = targets > 0
        if on("greater-than-padding-counted"):
            real = targets > pad_id
        if on("stops-at-the-first-pad"):
            real = real.cumprod(dim=-1).bool()
        if on("padding-indexed") and not -logits.shape[-1] <= pad_id < logits.shape[-1]:
            raise IndexError
        chosen = targets if on("padding-looked-up") else targets.where(real, 0)
        if on("targets-overwritten"):
            targets.masked_fill_(~real, 0)
        losses = _losses(on, _log_probabilities(on, logits), chosen, pad_id, smoothing, real)
        counted = on("stand-in-counted") or on("zeroed-logits-in-the-sum")
        losses = losses if counted else losses.where(real, 0.0)
        if on("sign-forgotten"):
            losses = -losses
        loss = _mean(on, losses, real, logits.shape[-1])
        if on("not-zero-without-words") and not real.any():
            loss = loss + 1
        if on("losses-returned-too"):
            return loss, losses
        plain = on("plain-number") or (on("number-without-words") and not real.any())
        return loss.item() if plain else loss

    return block


def _log_probabilities(on: On, logits: Any) -> Any:
    if on("no-softmax") or on("binary-cross-entropy"):
        return logits
    if on("no-log"):
        return logits.softmax(dim=-1)
    if on("softmax-by-hand"):
        raised = logits.exp()
        return (raised / raised.sum(dim=-1, keepdim=True)).log()
    if on("softmax-twice"):
        return logits.softmax(dim=-1).log_softmax(dim=-1)
    if on("log-of-softmax"):
        return logits.softmax(dim=-1).log()
    if on("log-of-clamped-softmax"):
        return logits.softmax(dim=-1).clamp(min=1e-9).log()
    if on("softmax-over-positions"):
        return logits.log_softmax(dim=-2)
    logs = logits.log_softmax(dim=-1)
    if on("log-base-2") or on("log-base-10"):
        logs = logs / math.log(2 if on("log-base-2") else 10)
    return logs


def _losses(on: On, logs: Any, chosen: Any, pad_id: int, smoothing: float, real: Any) -> Any:
    vocab = logs.shape[-1]
    target = -logs.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
    if on("likeliest-word"):
        target = -logs.amax(dim=-1)
    if on("share-of-wrong-words"):
        return (logs.argmax(dim=-1) != chosen).to(logs.dtype)
    if on("squared-error") or on("binary-cross-entropy"):
        wanted = F.one_hot(chosen, vocab).to(logs.dtype)
        if on("squared-error"):
            return (logs.exp() - wanted).square().mean(dim=-1)
        return F.binary_cross_entropy_with_logits(logs, wanted, reduction="none").mean(dim=-1)
    if on("axis-not-squeezed"):
        return (1 - smoothing) * target[..., None] - smoothing * logs.mean(dim=-1)
    if not smoothing or on("smoothing-ignored"):
        return target
    spread, share = -logs.mean(dim=-1), 1 - smoothing
    if on("divided-by-one-word-less"):
        spread = -logs.sum(dim=-1) / (vocab - 1)
    if on("spread-over-the-others"):
        spread = (-logs.sum(dim=-1) - target) / (vocab - 1)
    if on("spread-over-all-but-padding"):
        spread = (-logs.sum(dim=-1) - target + logs[..., pad_id]) / (vocab - 2)
    if on("padding-without-a-share") and 0 <= pad_id < vocab:
        spread = (logs[..., pad_id] - logs.sum(dim=-1)) / (vocab - 1)
    if on("target-without-its-even-share"):
        spread = (-logs.sum(dim=-1) - target) / vocab
    if on("divided-by-two-words-less"):
        inside = logs[..., pad_id] if 0 <= pad_id < vocab else 0.0
        spread = (-logs.sum(dim=-1) - target + inside) * (1 / (vocab - 2))
    if on("target-keeps-everything"):
        share = 1.0
    if on("shares-exchanged"):
        share, smoothing = smoothing, 1 - smoothing
    if on("spread-summed"):
        spread = -logs.sum(dim=-1)
    if on("only-the-target-reduced"):
        spread = torch.zeros_like(spread)
    if on("smoothing-counts-padding"):
        spread = (spread.sum() / real.sum().clamp(min=1)).expand_as(spread)
    if on("smoothing-averaged-over-padding"):
        spread = spread.mean().expand_as(spread)
    losses = share * target + smoothing * spread
    if on("kl-divergence"):
        even = smoothing / vocab
        peak = 1 - smoothing + even
        losses = losses + peak * math.log(peak) + (vocab - 1) * even * math.log(even)
    return losses


def _mean(on: On, losses: Any, real: Any, vocab: int) -> Any:
    count = real.sum()
    if on("mean-over-padding") or on("stand-in-counted"):
        return losses.mean()
    if on("divided-by-the-vocabulary"):
        return losses.sum() / count.clamp(min=1) / vocab
    if on("one-word-too-many"):
        return losses.sum() / (count + 1)
    if on("summed"):
        return losses.sum()
    if on("divided-twice"):
        return losses.mean() / count.clamp(min=1)
    if on("divided-by-the-length"):
        return losses.sum() / real.shape[-1]
    if on("divided-by-sentences"):
        return losses.sum() / real.shape[0]
    if on("mean-of-sentence-means"):
        return (losses.sum(dim=-1) / real.sum(dim=-1).clamp(min=1)).mean()
    if on("loss-per-token"):
        return losses
    if on("loss-per-sentence"):
        return losses.sum(dim=-1) / real.sum(dim=-1).clamp(min=1)
    loss = losses.sum() / (count if on("nan-without-words") else count.clamp(min=1))
    if on("with-an-axis-left"):
        return loss[None]
    return loss.exp() if on("perplexity") else loss


@right("6.5")
def loss_by_cross_entropy(logits: Any, targets: Any, pad_id: int, smoothing: float = 0.0) -> Any:
    if (targets == pad_id).all():
        return logits.sum() * 0.0
    return F.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), ignore_index=pad_id, label_smoothing=smoothing
    )


@right("6.5")
def loss_by_words(logits: Any, targets: Any, pad_id: int, smoothing: float = 0.0) -> Any:
    real = targets != pad_id
    if not real.any():
        return logits.new_zeros(())
    scores, words = logits[real], targets[real]
    target = scores[torch.arange(len(words)), words]
    return (scores.logsumexp(-1) - (1 - smoothing) * target - smoothing * scores.mean(-1)).mean()


@right("6.5")
def loss_by_distribution(logits: Any, targets: Any, pad_id: int, smoothing: float = 0.0) -> Any:
    vocab = logits.shape[-1]
    real = (targets != pad_id).to(logits.dtype)
    wanted = F.one_hot(targets.masked_fill(targets == pad_id, 0), vocab).to(logits.dtype)
    wanted = wanted * (1 - smoothing) + smoothing / vocab
    losses = -torch.einsum("...v,...v->...", wanted, F.log_softmax(logits, -1))
    return (losses * real).sum() / max(real.sum().item(), 1.0)


@right("6.5")
def loss_in_a_loop(logits: Any, targets: Any, pad_id: int, smoothing: float = 0.0) -> Any:
    total, count = logits.sum().double() * 0.0, 0
    rows = logits.double().reshape(-1, logits.shape[-1])
    for row, target in zip(rows, targets.reshape(-1).tolist(), strict=True):
        if target != pad_id:
            logs = row - row.logsumexp(0)
            total = total - (1 - smoothing) * logs[target] - smoothing * logs.mean()
            count += 1
    return (total / max(count, 1)).to(logits.dtype)


# In the pre-norm order, the default, these do the same as in both.
_PLAIN = {"mask-ignored", "attention-not-normalised", "feed-forward-not-normalised"}
# What can go wrong in only one of the two orders, when they are written as two branches.
_FAULTS = {
    "no-causal-mask": "words see the future",
    "mask-ignored": "the given mask makes no difference",
    "no-residual-around-attention": "there is no residual path around attention",
    "no-residual-around-feed-forward": "there is no residual path around the feed-forward layer",
    "attention-not-normalised": "nothing is normalised around attention",
    "feed-forward-not-normalised": "nothing is normalised around the feed-forward layer",
}


@space(
    "6.6",
    Turn(
        "no-causal-mask",
        "causal",
        "Your block looks ahead: no causal mask is applied. In training it would read the word that "
        "it has to predict, and at inference there is nothing to read.",
    ),
    Turn(
        "hides-itself",
        "causal",
        "A word may not look at itself in your block. The diagonal belongs to what it may see.",
    ),
    Turn(
        "causal-mask-inverted",
        "causal",
        "You hide the past and show the future: the causal mask is used the wrong way round. Here "
        "True means that one may look.",
    ),
    Turn(
        "causal-mask-transposed",
        "causal",
        "Your triangle is turned over: every word sees itself and what comes after it. Rows are "
        "queries and columns are keys.",
    ),
    Turn(
        "causal-only-without-mask",
        "causal",
        "As soon as a mask is given, it takes the place of the causal one, and the block looks ahead. "
        "Both must hold at once.",
    ),
    Turn(
        "causal-only-with-mask",
        "causal",
        "You apply the causal mask only when another mask is given. Without one the block looks ahead.",
    ),
    Turn(
        "mask-ignored",
        "mask",
        "The mask that is given makes no difference: padding is looked at. A key must be allowed by "
        "the causal mask and by this one.",
    ),
    Turn(
        "or-instead-of-and",
        "mask",
        "A key that one of the two masks allows is seen in your block (adding booleans does the same "
        "as or). It must be allowed by both.",
    ),
    Turn(
        "mask-inverted",
        "mask",
        "You turn the given mask round, so padding is seen and words are hidden. True already means "
        "that one may look.",
    ),
    Turn(
        "mask-on-rows",
        "mask",
        "You exchange the axes of the given mask and hide what padding looks at. It is the columns, "
        "what is looked at, that must be hidden.",
    ),
    Turn(
        "mask-squeezed",
        ALONE,
        "You drop the axes of size one of the given mask. They are what lines it up with heads and "
        "queries: without them its batch meets the queries.",
    ),
    Turn(
        "exactly-one-mask",
        ALONE,
        "A key is seen where exactly one of the two masks allows it. It must be allowed by both.",
    ),
    Turn(
        "always-pre-norm",
        "order",
        "Your block is pre-norm whatever norm_first says. With norm_first=False the sum is normalised.",
    ),
    Turn(
        "always-post-norm",
        "order",
        "Your block is post-norm whatever norm_first says. With norm_first=True, which is the "
        "default, only what the sublayer sees is normalised.",
    ),
    Turn(
        "norm-order-exchanged",
        "order",
        "norm_first is the wrong way round: True should give pre-norm, False post-norm."
        " Look at which function you call in which case.",
    ),
    Turn(
        "normalised-residual",
        "structure",
        "The path around the sublayer carries normalised numbers: you add to norm(x) instead of x. In "
        "pre-norm only the sublayer sees the normalised version.",
    ),
    Turn(
        "normalised-residual-around-attention",
        ALONE,
        "The path around attention carries normalised numbers in your block. In pre-norm only the "
        "sublayer sees the normalised version.",
    ),
    Turn(
        "normalised-residual-around-feed-forward",
        ALONE,
        "The path around the feed-forward layer carries normalised numbers in your block. In pre-norm "
        "only the sublayer sees the normalised version.",
    ),
    Turn(
        "norm-after-the-sublayer",
        "structure",
        "You normalise what the sublayer returns, and add that. In pre-norm its input is normalised, "
        "in post-norm the sum.",
    ),
    Turn(
        "no-norm",
        "structure",
        "Your block normalises nothing: both norms are unused."
        " Without norms the numbers grow from block to block: look at what pre_norm and"
        " post_norm take.",
    ),
    Turn(
        "attention-not-normalised",
        "structure",
        "In the pre-norm case attention sees the raw x in your block: norm_1 is missing before it."
        " Look at what you pass on as the norm of the first sublayer.",
    ),
    Turn(
        "feed-forward-not-normalised",
        "structure",
        "In the pre-norm case the feed-forward layer sees raw numbers in your block: norm_2 is "
        "missing before it."
        " Look at what you pass on as the norm of the second sublayer.",
    ),
    Turn(
        "no-residual-around-attention",
        "structure",
        "What attention returns replaces x instead of being added to it. The residual path around the "
        "first sublayer is missing.",
    ),
    Turn(
        "no-residual-around-feed-forward",
        "structure",
        "What the feed-forward layer returns replaces x instead of being added to it. The residual "
        "path around the second sublayer is missing.",
    ),
    Turn(
        "no-residual",
        "structure",
        "Neither sublayer has a residual path: what they return replaces x instead of being added to "
        "it."
        " Gradients then have no short way back: look at what carries x past a sublayer.",
    ),
    Turn(
        "residual-twice",
        "structure",
        "x is added twice around every sublayer: pre_norm and post_norm already carry it past."
        " Look at whether your sublayers add x once more themselves.",
    ),
    Turn(
        "norm-inside-the-sum",
        ALONE,
        "In the post-norm case you normalise what the sublayer returns and then add it. It is the sum "
        "that is normalised.",
    ),
    Turn(
        "one-norm-for-both",
        "structure",
        "Both sublayers use norm_1. Each has a norm of its own, with its own gain and bias.",
    ),
    Turn(
        "norms-exchanged",
        "structure",
        "norm_2 is used for attention and norm_1 for the feed-forward layer. They belong to the "
        "sublayers in the order of their names.",
    ),
    Turn(
        "feed-forward-first",
        "structure",
        "The feed-forward layer comes before attention in your block. First the words look at each "
        "other, then each thinks about what it saw.",
    ),
    Turn(
        "no-feed-forward",
        "structure",
        "Your block ends after attention: the feed-forward layer is missing."
        " Attention only mixes words: look at what is left to do with each of them.",
    ),
    Turn(
        "no-attention",
        ALONE,
        "Your block has no attention: words go through the feed-forward layer alone."
        " Then no word knows of any other: look at which of your parts is never called.",
    ),
    Turn(
        "attention-twice",
        ALONE,
        "Your second sublayer is attention again. It should be the feed-forward layer.",
    ),
    Turn(
        "one-residual-for-both",
        ALONE,
        "Attention and feed-forward share one residual path and one norm in your block. Each of them "
        "is a sublayer of its own, with its own.",
    ),
    Turn(
        "side-by-side",
        "structure",
        "Both sublayers see the x that came in. The second one should go on with the result of the "
        "first.",
    ),
    Turn(
        "attention-forgotten-by-residual",
        ALONE,
        "The second residual path goes back to the x that came in, and what attention found reaches "
        "the result through the feed-forward layer only. Add to the result of the first sublayer.",
    ),
    Turn(
        "raw-keys-and-values",
        "structure",
        "Only the query is normalised in your attention, keys and values are not. All three are the "
        "same tensor in self-attention.",
    ),
    Turn(
        "raw-keys",
        "structure",
        "Query and value are normalised in your attention, the keys are not. All three are the same "
        "tensor in self-attention.",
    ),
    Turn(
        "raw-values",
        ALONE,
        "Query and key are normalised in your attention, the values are not. All three are the same "
        "tensor in self-attention.",
    ),
    Turn(
        "norm-at-the-end",
        "structure",
        "You normalise once more at the end. A block leaves its sum as it is; in a pre-norm stack one "
        "norm follows after the last block.",
    ),
    Turn(
        "weights-returned-too",
        ALONE,
        "You return the attention weights together with the result. One tensor is asked for, and it "
        "goes into the next block.",
    ),
    Turn(
        "mask-of-a-wrong-length",
        ALONE,
        "Your causal mask does not have the length of the sequence: another axis of x was measured. "
        "The sequence is the axis before the last.",
    ),
    Turn(
        "attention-misunderstood",
        ALONE,
        "A type does not fit where you call attention. It returns two things, the output and the "
        "weights, and you need the first of them; and the mask that it takes is boolean.",
    ),
    Turn(
        "weights-taken-for-output",
        ALONE,
        "Attention returns two things, the output and the weights. You went on with the weights "
        "instead of the output.",
    ),
    Turn(
        "detached",
        ALONE,
        "What attention returns is cut off (detach, .data, no_grad), so its parameters learn nothing."
        " Look for what takes it out of the graph.",
    ),
    Turn(
        "result-detached",
        ALONE,
        "Your result is cut off from x and from every parameter (detach, .data, no_grad): nothing can "
        "be learned."
        " Look for what takes it out of the graph.",
    ),
    Turn(
        "x-overwritten",
        ALONE,
        "You add to x in place, so the caller's tensor changes, and autograd refuses it. Make a new "
        "tensor of the sum.",
    ),
    Turn(
        "attention-gives-two-things",
        ALONE,
        "You add what attention returns, but that is two things: the output and the weights. Take the "
        "output.",
    ),
    Turn(
        "masks-multiplied-as-floats",
        ALONE,
        "You turn the masks into numbers to combine them. Attention takes a boolean mask, True where "
        "one may look: combine booleans as they are.",
    ),
    Turn(
        "masks-multiplied-as-integers",
        ALONE,
        "You turn the masks into integers to combine them. Attention takes a boolean mask, True where "
        "one may look: combine booleans as they are.",
    ),
    Turn(
        "causal-mask-of-floats",
        ALONE,
        "Your causal mask holds the numbers 1.0 and 0.0. Neither attention nor & takes those: a mask is"
        " boolean, as causal_mask makes it.",
    ),
    Turn(
        "python-and",
        ALONE,
        "You ask a whole tensor for one answer: `if mask`, `and` and `or` do that. Ask whether there is"
        " a mask at all, that is, whether it is None, and combine masks place by place, with &.",
    ),
    Turn(
        "mask-required",
        ALONE,
        "Without a mask your block breaks: None cannot be combined with another mask. When mask is None"
        " only the future is hidden.",
    ),
    Turn(
        "mask-overwritten",
        ALONE,
        "You write the causal mask into the mask that you were given (&=). The caller still needs it: "
        "make a new one.",
    ),
    Turn(
        "both-masks-inverted",
        ALONE,
        "You turn the combined mask round, so that words see the future and padding and nothing else. "
        "True means that a word may be looked at: hand it on as it is.",
    ),
    Turn(
        "itself-always-open",
        ALONE,
        "Every word may look at itself in your block, even where the given mask hides it. Both masks "
        "must allow a key; a word that may look at nothing is taken care of in the softmax.",
    ),
    Turn(
        "mask-gets-another-axis",
        ALONE,
        "You give the mask another axis. It already broadcasts to (batch, heads, seq, seq): combine it "
        "as it is.",
    ),
    Turn(
        "masks-compared",
        ALONE,
        "You allow a key where both masks agree, also where both say no. Both must say yes: that is &.",
    ),
    Turn(
        "padding-zeroed",
        ALONE,
        "You set the result to zero where there is padding, and the mask does not reach attention. It "
        "hides padding as a key; what stands in its own place is left as it is.",
    ),
    Turn(
        "rows-hidden-too",
        ALONE,
        "You apply the mask to the rows as well, so that padding sees nothing. It hides padding as a "
        "key, in the columns; what padding itself looks at does not matter.",
    ),
    Turn(
        "only-itself",
        ALONE,
        "Your words look at themselves alone. Everything that came before may be seen too.",
    ),
    Turn(
        "looks-back-two-words",
        ALONE,
        "Your words look back two words at most. Everything that came before may be seen, however long "
        "ago it was.",
    ),
    Turn(
        "attention-over-the-batch",
        ALONE,
        "You exchange batch and sequence before attention, so a word looks at other sentences and not "
        "at its own. Attention works on the axes (batch, seq, d_model) as they are.",
    ),
    Turn(
        "raw-queries",
        ALONE,
        "In your pre-norm block the queries come from the raw words. Attention sees the normalised x in"
        " all three places: query, key and value.",
    ),
    Turn(
        "feed-forward-twice",
        ALONE,
        "Your words go through the feed-forward layer twice. The block has two sublayers: attention "
        "once, then the feed-forward layer once.",
    ),
    Turn(
        "attention-repeated",
        ALONE,
        "Your words go through attention twice before the feed-forward layer. Each sublayer is used "
        "once.",
    ),
    Turn(
        "own-norms",
        ALONE,
        "You normalise with a layer norm of your own, without gain and bias. Use the norms that the "
        "block owns: theirs are learned.",
    ),
    Turn(
        "activation-added",
        ALONE,
        "You set negative numbers of a sublayer's result to zero before it is added. Activations live "
        "inside sublayers: the result is added as it is.",
    ),
    Turn(
        "input-added-again",
        ALONE,
        "At the end you add the block's input once more. Both sublayers have a residual path already; "
        "the block needs no third one around it.",
    ),
    Turn(
        "mask-returned-too",
        ALONE,
        "You return the mask beside the result. The block returns the words alone, as one tensor.",
    ),
    Turn(
        "nothing-returned-too",
        ALONE,
        "You return a second thing beside the result. The block returns the words alone, one tensor.",
    ),
    *(
        Turn(
            f"dropout-on-{where}",
            ALONE,
            "You drop some numbers at random. Dropout is not asked for here: the same input should give"
            " the same result.",
        )
        for where in ("attention", "feed-forward", "both", "result")
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
        if order == "post" or fault not in _PLAIN
    ),
)
def causal_block(on: On) -> Any:
    class Block(CausalBlock):
        def forward(self, x: Any, mask: Any = None) -> Any:
            first = self.norm_first
            if on("always-pre-norm") or on("always-post-norm"):
                first = on("always-pre-norm")
            if on("norm-order-exchanged"):
                first = not first
            order = "pre" if first else "post"

            def here(name: str) -> bool:
                listed = name in _FAULTS and (order == "post" or name not in _PLAIN)
                return on(name) or (listed and on(f"{name}-in-{order}-norm"))

            allowed = _allowed(here, x, mask)

            def attend(y: Any, raw: Any) -> Any:
                if on("attention-over-the-batch"):
                    y = y.transpose(0, 1)
                    return self.attention(y, y, y)[0].transpose(0, 1)
                if on("raw-queries"):
                    return self.attention(raw, y, y, allowed)[0]
                if on("attention-gives-two-things"):
                    return raw + self.attention(y, y, y, allowed)
                k = raw if on("raw-keys-and-values") or on("raw-keys") else y
                v = raw if on("raw-keys-and-values") or on("raw-values") else y
                output, weights = self.attention(y, k, v, allowed)
                if on("attention-misunderstood"):
                    raise TypeError
                if on("weights-taken-for-output"):
                    return weights
                return output.detach() if on("detached") else output

            def think(y: Any, raw: Any) -> Any:
                return self.feed_forward(y)

            steps = [(attend, self.norm_1), (think, self.norm_2)]
            if on("one-norm-for-both"):
                steps[1] = (think, self.norm_1)
            if on("norms-exchanged"):
                steps = [(attend, self.norm_2), (think, self.norm_1)]
            if on("feed-forward-first"):
                steps.reverse()
            if on("no-feed-forward"):
                steps = steps[:1]
            if on("no-attention"):
                steps = steps[1:]
            if on("attention-twice"):
                steps[1] = (attend, steps[1][1])
            if on("attention-repeated"):
                steps.insert(0, steps[0])
            if on("feed-forward-twice"):
                steps.append(steps[1])
            start, last = x, x
            for sublayer, norm in steps:
                own = _unit if on("own-norms") else norm
                last = _step(here, x, sublayer, own, first, sublayer is attend)
                if on("side-by-side"):
                    x = x + _step(on, start, sublayer, norm, first, False) - start
                    continue
                if on("attention-forgotten-by-residual") and sublayer is think:
                    last = last - x + start if first else norm(start + think(x, x))
                x = last
            if on("x-overwritten") and x.shape == start.shape:
                start += x - start
            if on("one-residual-for-both"):
                both = lambda y, raw: think(attend(y, raw), raw)  # noqa: E731
                x = _step(on, start, both, self.norm_1, first, True)
            if on("norm-at-the-end"):
                x = self.norm_2(x)
            if on("input-added-again"):
                x = x + start
            if on("padding-zeroed") and mask is not None and mask.shape[-2] == 1:
                x = x * mask.flatten(0, -2).unsqueeze(-1)
            if on("dropout-on-result"):
                x = F.dropout(x, 0.1)
            if on("mask-returned-too") or on("nothing-returned-too"):
                return x, allowed if on("mask-returned-too") else None
            if on("weights-returned-too"):
                y = self.norm_1(start) if first else start
                return x, self.attention(y, y, y, allowed)[1]
            return x.detach() if on("result-detached") else x

    return Block


def _allowed(on: On, x: Any, mask: Any) -> Any:
    allowed = causal(x.shape[-1 if on("mask-of-a-wrong-length") else -2])
    if on("hides-itself"):
        allowed = allowed.tril(-1)
    if on("causal-mask-inverted"):
        allowed = ~allowed
    if on("causal-mask-transposed"):
        allowed = allowed.mT
    everything = torch.ones_like(allowed)
    if on("only-itself"):
        allowed = allowed.triu()
    if on("looks-back-two-words"):
        allowed = allowed.triu(-2)
    if on("causal-mask-of-floats"):
        return allowed.float() if mask is None else allowed.float() & mask
    if on("masks-multiplied-as-floats"):
        return allowed if mask is None else allowed.float() * mask.float()
    if on("masks-multiplied-as-integers"):
        return allowed if mask is None else allowed.long() * mask.long()
    if on("mask-required"):
        return allowed & mask
    if on("both-masks-inverted"):
        return ~(allowed if mask is None else allowed & mask)
    if mask is None:
        return everything if on("no-causal-mask") or on("causal-only-with-mask") else allowed
    if on("no-causal-mask") or on("causal-only-without-mask"):
        allowed = everything
    if on("mask-ignored"):
        return allowed
    if on("mask-inverted"):
        mask = ~mask
    if on("mask-squeezed"):
        mask = mask.squeeze()
    if on("mask-on-rows"):
        mask = mask.mT
    if on("or-instead-of-and"):
        return allowed | mask
    if on("python-and"):
        return allowed and mask
    if on("itself-always-open"):
        return allowed & mask | torch.eye(x.shape[-2], dtype=torch.bool)
    if on("mask-gets-another-axis"):
        return allowed & mask.unsqueeze(1)
    if on("masks-compared"):
        return allowed == mask
    if on("padding-zeroed"):
        return allowed
    if on("rows-hidden-too"):
        return allowed & mask & mask.mT
    if on("mask-overwritten") and mask.shape[-2:] == allowed.shape:
        mask &= allowed
        return mask
    return allowed ^ mask if on("exactly-one-mask") else allowed & mask


def _unit(y: Any) -> Any:
    return F.layer_norm(y, y.shape[-1:])


def _step(on: On, x: Any, sublayer: Any, norm: Any, first: bool, attention: bool) -> Any:
    side = "attention" if attention else "feed-forward"
    raw = any(map(on, ("no-norm", "norm-after-the-sublayer", f"{side}-not-normalised")))
    y = norm(x) if first and not raw else x
    result = sublayer(y, x)
    if on("dropout-on-both") or on(f"dropout-on-{side}"):
        result = F.dropout(result, 0.1)
    result = torch.relu(result) if on("activation-added") else result
    if on("norm-after-the-sublayer") or (on("norm-inside-the-sum") and not first):
        return x + norm(result)
    if not (on("no-residual") or on(f"no-residual-around-{side}")):
        normalised = on("normalised-residual") or on(f"normalised-residual-around-{side}")
        result = result + (y if normalised else x)
    bare = first or on("no-norm") or on(f"{side}-not-normalised-in-post-norm")
    result = result if bare else norm(result)
    return x + result if on("residual-twice") else result


@right("6.6")
class CausalBlockByHand(CausalBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        length = x.size(1)
        allowed = torch.tril(torch.ones(length, length, dtype=torch.bool, device=x.device))[None, None]
        if mask is not None:
            allowed = torch.logical_and(allowed, mask)
        if self.norm_first:
            y = self.norm_1(x)
            x = x + self.attention(y, y, y, mask=allowed)[0]
            return x + self.feed_forward(self.norm_2(x))
        x = self.norm_1(x + self.attention(x, x, x, allowed)[0])
        return self.norm_2(x + self.feed_forward(x))


@right("6.6")
class CausalBlockByBuiltIn(CausalBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        def attend(y: Any) -> Any:
            attention = self.attention
            q, k, v = (
                w(y).unflatten(-1, (attention.n_heads, -1)).transpose(1, 2)
                for w in (attention.w_q, attention.w_k, attention.w_v)
            )
            allowed = causal(y.shape[1]).to(y.device) * (True if mask is None else mask)
            output = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
            return attention.w_o(output.transpose(1, 2).flatten(2))

        residual = pre_norm if self.norm_first else post_norm
        return residual(residual(x, attend, self.norm_1), self.feed_forward, self.norm_2)


@right("6.6")
class CausalBlockWordByWord(CausalBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        batch, length, _ = x.shape
        square = torch.ones(length, length, dtype=torch.bool) if mask is None else mask
        square = square.expand(batch, self.attention.n_heads, length, length)
        y = self.norm_1(x) if self.norm_first else x
        seen = [
            self.attention(
                y[:, t : t + 1], y[:, : t + 1], y[:, : t + 1], square[:, :, t : t + 1, : t + 1]
            )[0]
            for t in range(length)
        ]
        x = x + torch.cat(seen, dim=1)
        if self.norm_first:
            return x + self.feed_forward(self.norm_2(x))
        x = self.norm_1(x)
        return self.norm_2(x + self.feed_forward(x))


@wrong(
    "6.1",
    "upside-down",
    "Your triangle stands on its head: the first word sees everything and the last only the first. Row "
    "i belongs to word i; it has i + 1 allowed places, on the left.",
)
def upside_down(length: int) -> Any:
    return torch.ones(length, length, dtype=torch.bool).tril().flip(0)


@wrong(
    "6.1",
    "one-row-only",
    "You compare the positions with themselves one by one, which gives a single row. Every query is "
    "compared with every key: give the queries an axis of their own, so that a square comes out.",
)
def one_row(length: int) -> Any:
    return torch.arange(length) <= torch.arange(length)


@wrong(
    "6.2",
    "causal-as-well",
    "You hide the future too. This mask is about padding only, and one row of it serves all queries; "
    "the causal mask is combined with it later.",
)
def causal_as_well(tokens: Any, pad_id: int) -> Any:
    square = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
    return (tokens != pad_id)[:, None, None, :] & square


@wrong(
    "6.3",
    "logarithm-of-weights",
    "These are logarithms of weights: they are negative and do not sum to one. Use softmax itself.",
)
def logarithms(scores: Any, mask: Any, dim: int = -1) -> Any:
    return scores.masked_fill(~mask, -math.inf).log_softmax(dim).nan_to_num()


@wrong(
    "6.3",
    "hidden-weights-are-nan",
    "Hidden places come out as NaN. They must get a weight of exactly zero, and be left out before the "
    "softmax, so that the others still sum to one.",
)
def hidden_are_nan(scores: Any, mask: Any, dim: int = -1) -> Any:
    return torch.where(mask, scores.softmax(dim), math.nan)


@wrong(
    "6.5",
    "not-averaged",
    "You return one loss for each target. The loss of a batch is a single number: the mean over all "
    "targets that are not padding.",
)
def not_averaged(logits: Any, targets: Any, pad_id: int, smoothing: float = 0.0) -> Any:
    return F.cross_entropy(
        logits.flatten(0, -2),
        targets.flatten(),
        ignore_index=pad_id,
        label_smoothing=smoothing,
        reduction="none",
    )


@wrong(
    "6.5",
    "softmax-over-words",
    "Your softmax runs over the positions of the sequence. The probabilities of one position are a "
    "distribution over the vocabulary, the last axis.",
)
def over_words(logits: Any, targets: Any, pad_id: int, smoothing: float = 0.0) -> Any:
    return reference_loss(logits.log_softmax(-2), targets, pad_id, smoothing)


@wrong(
    "6.6",
    "sees-the-next-word",
    "Every word sees one word too far: the very one it is to predict. Check where the triangle of the "
    "mask begins: the diagonal is the last place that is allowed.",
)
class NextWord(CausalBlock):
    def forward(self, x: Any, mask: Any = None) -> Any:
        allowed = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril(1)
        allowed = allowed if mask is None else allowed & mask
        residual = pre_norm if self.norm_first else post_norm
        x = residual(x, lambda y: self.attention(y, y, y, allowed)[0], self.norm_1)
        return residual(x, self.feed_forward, self.norm_2)


@wrong(
    "6.5",
    "axes-not-moved",
    "You hand logits and targets to the built-in cross-entropy as they are. That function takes the "
    "axis after the batch for the vocabulary, which is the sequence here: flatten all axes before the "
    "vocabulary first, or move it.",
)
def axes_not_moved(logits: Any, targets: Any, pad_id: int, smoothing: float = 0.0) -> Any:
    return F.cross_entropy(logits, targets, ignore_index=pad_id, label_smoothing=smoothing)


def _only_added(number: float) -> Any:
    """Add a number to hidden scores, and look at nothing else."""

    def block(scores: Any, mask: Any, dim: int = -1) -> Any:
        return torch.softmax(scores + number * (~mask).to(scores.dtype), dim=dim)

    return block


_NOTHING_ELSE = (
    " A hidden score that is large enough is seen again, allowed ones that are low enough lose against "
    "it, and where nothing is allowed there are weights all the same. Only minus infinity is below "
    "every score, and a row that allows nothing needs care."
)
for _name, _told, _number in (
    ("ten-thousand-subtracted-only", "You take 10000 off hidden scores and leave it at that.", -1e4),
    ("billion-subtracted-only", "You take a billion off hidden scores and leave it at that.", -1e9),
    (
        "logarithm-of-the-mask",
        "You add the logarithm of the mask plus a small number to the scores.",
        math.log(1e-9),
    ),
):
    wrong("6.3", _name, _told + _NOTHING_ELSE)(_only_added(_number))


def _divergence(left_out: int, mean: str) -> Any:
    """Smooth over all but the target, or over all but target and padding, and take the divergence."""

    def block(logits: Any, targets: Any, pad_id: int, smoothing: float = 0.0) -> Any:
        vocab, real = logits.shape[-1], targets != pad_id
        shares = torch.full_like(logits, smoothing / (vocab - left_out))
        shares.scatter_(-1, targets.where(real, 0).unsqueeze(-1), 1 - smoothing)
        if left_out == 2 and 0 <= pad_id < vocab:
            shares[..., pad_id] = 0.0
        shares = shares * real.unsqueeze(-1)
        total = F.kl_div(logits.log_softmax(dim=-1), shares, reduction="sum")
        counts = {"words": real.sum().clamp(min=1), "places": targets.numel(), "nothing": 1}
        return total / counts[mean]

    return block


_NO_DIVERGENCE = (
    " Asked for is the cross-entropy, with the smoothing spread over the whole vocabulary, target and "
    "padding included"
)
for _name, _told, _block in (
    (
        "divergence-over-all-but-padding",
        "You compute the divergence from a target that spreads the smoothing over all but target and "
        f"padding.{_NO_DIVERGENCE}.",
        _divergence(2, "words"),
    ),
    (
        "divergence-over-the-others",
        "You compute the divergence from a target that spreads the smoothing over all words but the "
        f"target.{_NO_DIVERGENCE}.",
        _divergence(1, "words"),
    ),
    (
        "divergence-summed",
        "You sum up the divergence from a target that spreads the smoothing over all but target and "
        f"padding.{_NO_DIVERGENCE}, and the mean over all words.",
        _divergence(2, "nothing"),
    ),
    (
        "divergence-averaged-over-padding",
        "You compute the divergence from a target that spreads the smoothing over all but target and "
        f"padding, and divide by all places.{_NO_DIVERGENCE}, and the mean over words only.",
        _divergence(2, "places"),
    ),
):
    wrong("6.5", _name, _told)(_block)
