"""Wrong turns of week 1: one-hot rows, recurrence, gradients that fade, clipping."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from lab_grader.bank import ALONE, ENDINGS, On, Turn, right, slips, space, wrong
from lab_transformer.rnn import rnn_cell as reference_cell


@space(
    "1.1",
    Turn(
        "ids-from-one",
        "place",
        "You count the words from 1, so every 1 stands one place too far left and token 0 finds no "
        "place at all. Token ids start at 0: token 0 owns the first column.",
    ),
    Turn(
        "place-before-the-token",
        "place",
        "The 1 stands one column before the token's own, and token 0 wraps around to the last column. "
        "Token ids already start at 0, so nothing has to be subtracted.",
    ),
    Turn(
        "place-after-the-token",
        "place",
        "The 1 stands one column after the token's own, and the last word of the vocabulary finds no "
        "place. Token ids start at 0, like the columns: token 0 owns the first one.",
    ),
    Turn(
        "counted-from-the-end",
        ALONE,
        "The places run backwards: token 0 has its 1 in the last column. The column's number should be "
        "the token's.",
    ),
    Turn(
        "ones-up-to-the-token",
        "place",
        "Your rows are filled with ones up to the token, like a thermometer. A one-hot row has a "
        "single 1: ask whether a column is the token's own, not whether it comes before it.",
    ),
    Turn(
        "ones-and-zeros-exchanged",
        "place",
        "Your rows hold a 0 at the token's place and ones everywhere else. It is the other way round: "
        "the token's own column is the hot one.",
    ),
    Turn(
        "every-row-gets-all-tokens",
        "place",
        "All rows are alike: each holds a 1 for every token of the input. Every row should see its own "
        "token only, so pair each row with its token when you write the ones.",
    ),
    Turn(
        "token-zero-left-out",
        ALONE,
        "Token 0 gets a row of zeros, as if it were nothing. It is a word like any other here: padding "
        "is dealt with later, by masks.",
    ),
    Turn(
        "token-instead-of-one",
        "number",
        "You write the token's number at its place instead of 1. Words would then weigh more the "
        "higher their id, and an id says nothing about a word.",
    ),
    Turn(
        "ones-divided-by-their-number",
        ALONE,
        "Your rows are scaled: the hot entry should be exactly 1, so that the row picks an embedding "
        "as it is and does not shrink it."
        " Look for a division that has no business there.",
    ),
    Turn(
        "integer-rows",
        "dtype",
        "Your rows are integers. They are there to be multiplied with a table of floating point "
        "numbers, and torch does not multiply an integer matrix with one: convert them.",
    ),
    Turn(
        "boolean-rows",
        "dtype",
        "Your rows say True and False. That is the right pattern, but a table cannot be multiplied "
        "with truth values: turn them into floating point numbers.",
    ),
    Turn(
        "double-rows",
        "dtype",
        "Your rows have another floating point dtype than torch's default. Multiplying them with an "
        "ordinary table would fail: use the default dtype.",
    ),
    Turn(
        "width-from-largest-token",
        "width",
        "The width of your rows comes from the largest token that happens to be there, not from "
        "vocab_size. Two sentences would get rows of different widths, and none would fit the table.",
    ),
    Turn(
        "width-from-distinct-tokens",
        ALONE,
        "The width of your rows is the number of different tokens that happen to be there, and the "
        "places are their ranks. The vocabulary is known beforehand: each of its vocab_size words has "
        "a column of its own, whether it occurs or not.",
    ),
    Turn(
        "one-column-too-many",
        "width",
        "Your rows have one column more than the vocabulary has words. The ids run from 0 to "
        "vocab_size - 1, so vocab_size columns hold them all.",
    ),
    Turn(
        "one-column-too-few",
        "width",
        "Your rows have one column less than the vocabulary has words, so the last word has no place. "
        "The ids run from 0 to vocab_size - 1, both included.",
    ),
    Turn(
        "vocab-axis-not-last",
        "axes",
        "The vocabulary axis stands before the axis of the sequence. Each token becomes a row, so the "
        "new axis comes last.",
    ),
    Turn(
        "tokens-flattened",
        "axes",
        "The axes of the tokens are lost: all rows stand in one long list. A batch of sentences should "
        "stay a batch of sentences, with one axis more at the end.",
    ),
    Turn(
        "rows-added-up",
        "axes",
        "You add the rows of a sentence, which counts words and forgets their order: a bag of words. "
        "Every token keeps a row of its own.",
    ),
    Turn(
        "axis-left-over",
        "axes",
        "There is an axis of size 1 too many before the vocabulary. It was needed to compare or to "
        "fill, but it does not belong to the result.",
    ),
    Turn(
        "no-axis-to-compare-along",
        ALONE,
        "The tokens have no axis on which the vocabulary could unfold, so torch tries to line up the "
        "sequence with the vocabulary and fails. Give the tokens a new last axis first.",
    ),
    Turn(
        "only-one-axis",
        ALONE,
        "Your code works for a flat list of tokens only. Tokens come with any number of axes (a batch "
        "of sentences has two, a single token none), and all of them stay in front of the new one.",
    ),
    Turn(
        "only-two-axes",
        ALONE,
        "Your code works for tokens with the axes batch and sequence only. A single sentence has one "
        "axis and a single token none: treat the axes in front alike, however many there are.",
    ),
    Turn(
        "tokens-changed-in-place",
        "in place",
        "You change the tokens themselves: a method whose name ends in an underscore works on the "
        "caller's tensor. Use the one without the underscore, or work on a copy.",
    ),
    Turn(
        "vocab-axis-first",
        "axes",
        "The vocabulary axis stands in front of all others. Each token becomes a row, so the new axis "
        "comes last.",
    ),
    Turn(
        "rows-merged",
        "axes",
        "All words of a sentence share one row, with a 1 for each of them: their order is lost. Every "
        "token keeps a row of its own.",
    ),
    Turn(
        "one-row-a-sentence",
        ALONE,
        "Your loop walks along the first axis only, so in a batch a whole sentence lands in one row, "
        "and a single token has no axis to walk along. Tokens come with any number of axes: every "
        "single one of them gets a row.",
    ),
    Turn(
        "ones-not-kept",
        ALONE,
        "Your rows are zero everywhere: the ones are never written. A method without an underscore at "
        "the end of its name returns a new tensor and leaves the old one as it was.",
    ),
    Turn(
        "half-rows",
        "dtype",
        "Your rows are in half precision. Multiplying them with an ordinary table would fail: use "
        "torch's default dtype.",
    ),
    Turn(
        "as-a-list",
        ALONE,
        "You return nested lists of Python numbers. The result is a tensor, so that it can be "
        "multiplied with a table.",
    ),
    Turn(
        "ones-before-the-token",
        ALONE,
        "Your rows are filled with ones before the token, like a thermometer. A one-hot row has a "
        "single 1: ask whether a column is the token's own, not whether it comes before it.",
    ),
    Turn(
        "not-for-transposed",
        ALONE,
        "You flatten with view, which fails for tokens that came out of a transpose. Use something "
        "that does not depend on how the numbers lie in memory.",
    ),
    Turn(
        "two-axes-looped",
        ALONE,
        "Your loops walk along a batch axis and a sequence axis. A single sentence has one axis, a "
        "single token none, and there may be more: treat the axes in front alike, however many there "
        "are.",
    ),
)
def one_hot(on: On) -> Any:
    def block(tokens: Any, vocab_size: int) -> Any:
        if on("only-two-axes"):
            _, _ = tokens.shape
        if on("only-one-axis"):
            flat = torch.zeros(len(tokens), vocab_size)
            flat[torch.arange(len(tokens)), tokens] = 1.0
            return flat
        if on("two-axes-looped"):
            grid = torch.zeros(tokens.shape[0], tokens.shape[1], vocab_size)
            for i in range(tokens.shape[0]):
                for j in range(tokens.shape[1]):
                    grid[i, j, tokens[i, j]] = 1.0
            return grid
        if on("not-for-transposed"):
            tokens = tokens.view(-1).view(tokens.shape)
        if on("one-row-a-sentence"):
            flat = torch.zeros(len(tokens), vocab_size)
            for row, token in zip(flat, tokens, strict=True):
                row[token] = 1.0
            return flat
        column = tokens.unsqueeze_(-1) if on("tokens-changed-in-place") else tokens.unsqueeze(-1)
        if on("no-axis-to-compare-along"):
            column = tokens
        width = vocab_size
        if on("width-from-largest-token"):
            width = int(tokens.max()) + 1
        if on("width-from-distinct-tokens"):
            present, column = column.unique(return_inverse=True)
            width = len(present)
        if on("one-column-too-many"):
            width += 1
        if on("one-column-too-few"):
            width -= 1
        ids = torch.arange(width)
        if on("ids-from-one"):
            ids = ids + 1
        if on("place-after-the-token"):
            ids = ids - 1
        if on("place-before-the-token"):
            column = (column - 1) % width
        if on("counted-from-the-end"):
            ids = ids.flip(0)
        hot = column == ids
        if on("ones-up-to-the-token"):
            hot = column >= ids
        if on("ones-before-the-token"):
            hot = column > ids
        if on("ones-and-zeros-exchanged"):
            hot = ~hot
        if on("every-row-gets-all-tokens"):
            hot = hot.reshape(-1, width).any(dim=0).expand_as(hot)
        if on("token-zero-left-out"):
            hot = hot & (column != 0)
        rows = hot.to(torch.get_default_dtype())
        if on("token-instead-of-one"):
            rows = rows * column
        if on("ones-divided-by-their-number"):
            rows = rows / width
        if on("vocab-axis-not-last") and rows.ndim > 1:
            rows = rows.mT
        if on("vocab-axis-first"):
            rows = rows.movedim(-1, 0)
        if on("tokens-flattened"):
            rows = rows.reshape(-1, width)
        if on("rows-merged"):
            rows = rows.amax(dim=-2)
        if on("rows-added-up"):
            rows = rows.sum(dim=-2)
        if on("axis-left-over"):
            rows = rows.unsqueeze(-2)
        if on("integer-rows"):
            rows = rows.long()
        if on("boolean-rows"):
            rows = rows.bool()
        if on("double-rows"):
            rows = rows.double()
        if on("half-rows"):
            rows = rows.half()
        if on("ones-not-kept"):
            rows = rows * 0
        return rows.tolist() if on("as-a-list") else rows

    return block


@right("1.1")
def one_hot_built_in(tokens: Any, vocab_size: int) -> Any:
    return F.one_hot(tokens, vocab_size).float()


@right("1.1")
def one_hot_from_the_identity(tokens: Any, vocab_size: int) -> Any:
    return torch.eye(vocab_size, device=tokens.device)[tokens]


@right("1.1")
def one_hot_by_scattering(tokens: Any, vocab_size: int) -> Any:
    rows = torch.zeros(*tokens.shape, vocab_size, device=tokens.device)
    return rows.scatter_(-1, tokens[..., None], 1.0)


@right("1.1")
def one_hot_in_a_loop(tokens: Any, vocab_size: int) -> Any:
    rows = torch.zeros(tokens.numel(), vocab_size)
    for row, token in zip(rows, tokens.flatten().tolist(), strict=True):
        row[token] = 1.0
    return rows.reshape(*tokens.shape, vocab_size)


@space(
    "1.2",
    Turn(
        "table-transposed",
        "product",
        "You multiply with the transposed table, so columns are picked instead of rows (and unless the "
        "table is square, the sizes do not fit). Each row of the table belongs to one word.",
    ),
    Turn(
        "table-first",
        "product",
        "The table stands on the left of the product. A row that picks rows of a table stands on the "
        "left of it: look at which axis the two have in common.",
    ),
    Turn(
        "looked-up-by-argmax",
        "product",
        "You find the position of the largest entry and index the table with it. That gives the same "
        "for a pure one-hot row, but no gradient comes back to the row, and a mixture of words is "
        "lost. The exercise is to see that the look-up is a matrix product.",
    ),
    Turn(
        "looked-up-by-mask",
        "product",
        "You only ask which entries are not zero and forget their size. That gives the same for a pure "
        "one-hot row, but no gradient comes back to it, and a mixture of words loses its weights.",
    ),
    Turn(
        "added-over-d_model",
        "product",
        "You add over the axis of the embedding instead of the axis of the vocabulary. What should "
        "disappear in the look-up is the vocabulary.",
    ),
    Turn(
        "vocabulary-not-summed",
        "product",
        "You multiply entry by entry and stop there: every token still has a whole table, empty but "
        "for one row. A sum over the vocabulary is missing.",
    ),
    Turn(
        "mean-over-the-vocabulary",
        "product",
        "You take the mean over the vocabulary instead of the sum: every embedding comes out divided "
        "by the number of words."
        " Only one word is hot, so a sum over the others adds nothing.",
    ),
    Turn(
        "largest-over-the-vocabulary",
        ALONE,
        "You take the largest entry over the vocabulary instead of the sum. The zeros of the other "
        "words then win against every negative number of the table.",
    ),
    Turn(
        "column-vectors",
        ALONE,
        "Your product treats the one-hot tokens as columns. It works for a single one, but in this "
        "course vectors are rows and weights multiply from the right, so that any axes can stand in "
        "front.",
    ),
    Turn(
        "only-two-axes",
        ALONE,
        "Your product takes matrices only. One-hot tokens come with any number of axes in front (a "
        "batch of sentences, or a single row): use a product that broadcasts.",
    ),
    Turn(
        "only-three-axes",
        ALONE,
        "Your product takes a batch of sentences only. One-hot tokens come with any number of axes in "
        "front, down to a single row: use a product that broadcasts.",
    ),
    Turn(
        "scaled-by-root-of-d_model",
        "after",
        "You multiply the embeddings with the root of d_model. The Transformer does that when it adds "
        "positions, in a later week; a look-up gives the row as it stands in the table.",
    ),
    Turn(
        "embeddings-normalised",
        ALONE,
        "You bring every embedding to length one. A look-up gives the row as it stands in the table.",
    ),
    Turn(
        "rows-normalised",
        ALONE,
        "You send the one-hot rows through a softmax first, so every word gets a share. They already "
        "say how much of each word to take: use them as they are.",
    ),
    Turn(
        "words-added-up",
        "axes",
        "You add the embeddings of a sentence to one vector. Every token keeps an embedding of its "
        "own.",
    ),
    Turn(
        "words-averaged",
        "axes",
        "You average the embeddings of a sentence to one vector. Every token keeps an embedding of its "
        "own.",
    ),
    Turn(
        "result-transposed",
        "axes",
        "The result stands on its side: d_model comes before the sequence. An embedding is a row, as "
        "the one-hot token was.",
    ),
    Turn(
        "axis-left-over",
        "axes",
        "There is an axis of size 1 too many before d_model. It comes from a product with a single "
        "row, and does not belong to the result.",
    ),
    Turn(
        "table-cut-off",
        "gradient",
        "The table is cut off from the result (by detach, .data, a new tensor or a detour through "
        "numpy), so it would never be trained. Use it as it is.",
    ),
    Turn(
        "rows-cut-off",
        "gradient",
        "The one-hot rows are cut off from the result (by detach, .data or a conversion to integers), "
        "so no gradient comes back to them. Use them as they are.",
    ),
    Turn(
        "everything-cut-off",
        "gradient",
        "The result is cut off from rows and table (by detach, no_grad or a detour through numpy): no "
        "gradient comes back. Stay with operations of torch from the arguments to the result.",
    ),
    Turn(
        "always-float32",
        "dtype",
        "You convert to float32 whatever comes in. A table in double precision should give embeddings "
        "in double precision.",
    ),
    Turn(
        "rows-changed-in-place",
        "in place",
        "You change the one-hot rows themselves: a method whose name ends in an underscore, or an "
        "augmented assignment, works on the caller's tensor. Work on a new one.",
    ),
    Turn(
        "looked-up-by-nonzero",
        ALONE,
        "You look for the entries that are not zero and index the table with their places. That gives "
        "the same for a pure one-hot row, but no gradient comes back to the row, and a mixture of "
        "words breaks it. The exercise is to see that the look-up is a matrix product.",
    ),
    Turn(
        "rows-as-integers",
        ALONE,
        "You turn the one-hot rows into integers on the way. Fractions are cut off and no gradient "
        "comes back to the rows: use them as they are.",
    ),
    Turn(
        "axes-unpacked",
        ALONE,
        "You unpack the shape into batch, seq and vocab, which fails for a single sentence or a single "
        "row. Any number of axes may stand in front: a product that broadcasts needs none of their "
        "sizes.",
    ),
    Turn(
        "axes-flattened",
        "axes",
        "The axes in front are lost: all embeddings stand in one long list. A batch of sentences "
        "should stay a batch of sentences.",
    ),
    Turn(
        "divided-by-root-of-d_model",
        "after",
        "You divide the embeddings by the root of d_model. A look-up gives the row as it stands in the "
        "table.",
    ),
    Turn(
        "rows-divided-by-their-sum",
        "after",
        "You divide the one-hot rows by their sum first. They already say how much of each word to "
        "take: use them as they are.",
    ),
    Turn(
        "looked-up-by-ones",
        ALONE,
        "You look for the entries that are 1 and index the table with their places. That gives the "
        "same for a pure one-hot row, but no gradient comes back to the row, and a mixture of words "
        "breaks it. The exercise is to see that the look-up is a matrix product.",
    ),
    Turn(
        "always-float64",
        ALONE,
        "You convert to double precision and do not convert back. Calculate as precisely as you like, "
        "but return the dtype that came in.",
    ),
)
def embed(on: On) -> Any:
    def block(rows: Any, table: Any) -> Any:
        single = rows.ndim == 1
        if on("rows-changed-in-place"):
            rows = rows.unsqueeze_(0).squeeze(0)
        if on("only-two-axes"):
            return torch.mm(rows, table)
        if on("only-three-axes"):
            return torch.einsum("bsv,vd->bsd", rows, table)
        if on("axes-unpacked"):
            _, _, _ = rows.shape
        if on("column-vectors"):
            return table.T @ rows
        if on("looked-up-by-nonzero"):
            return table[rows.nonzero()[:, -1]].reshape(*rows.shape[:-1], -1)
        if on("looked-up-by-ones"):
            return table[(rows == 1).nonzero()[:, -1]].reshape(*rows.shape[:-1], table.shape[-1])
        if on("always-float64"):
            rows, table = rows.double(), table.double()
        if on("rows-as-integers"):
            rows = rows.long().to(table.dtype)
        if on("always-float32"):
            rows, table = rows.float(), table.float()
        if on("table-cut-off"):
            table = table.detach()
        if on("rows-cut-off"):
            rows = rows.detach()
        if on("everything-cut-off"):
            rows, table = rows.detach(), table.detach()
        if on("rows-normalised"):
            rows = torch.softmax(rows, dim=-1)
        if on("rows-divided-by-their-sum"):
            rows = rows / rows.sum(dim=-1, keepdim=True)
        if on("table-transposed"):
            result = rows @ table.T
        elif on("table-first"):
            result = table @ rows
        elif on("looked-up-by-argmax"):
            result = table[rows.argmax(dim=-1)]
        elif on("looked-up-by-mask"):
            result = (rows != 0).to(table.dtype) @ table
        elif on("added-over-d_model"):
            result = (rows.unsqueeze(-1) * table).sum(dim=-1)
        elif on("vocabulary-not-summed"):
            result = rows.unsqueeze(-1) * table
        elif on("mean-over-the-vocabulary"):
            result = (rows.unsqueeze(-1) * table).mean(dim=-2)
        elif on("largest-over-the-vocabulary"):
            result = (rows.unsqueeze(-1) * table).amax(dim=-2)
        else:
            result = rows @ table
        if on("scaled-by-root-of-d_model"):
            result = result * math.sqrt(table.shape[-1])
        if on("divided-by-root-of-d_model"):
            result = result / math.sqrt(table.shape[-1])
        if on("embeddings-normalised"):
            result = F.normalize(result, dim=-1)
        if on("words-added-up"):
            result = result.sum(dim=-2)
        if on("words-averaged"):
            result = result.mean(dim=-2)
        if on("result-transposed") and not single:
            result = result.mT
        if on("axes-flattened"):
            result = result.reshape(-1, result.shape[-1])
        if on("axis-left-over"):
            result = result.unsqueeze(-2)
        return result

    return block


@right("1.2")
def embed_with_einsum(rows: Any, table: Any) -> Any:
    return torch.einsum("...v,vd->...d", rows, table)


@right("1.2")
def embed_as_a_sum(rows: Any, table: Any) -> Any:
    return (rows.unsqueeze(-1) * table).sum(dim=-2)


@right("1.2")
def embed_as_a_linear_layer(rows: Any, table: Any) -> Any:
    return F.linear(rows, table.T)


@right("1.2")
def embed_flat_in_double(rows: Any, table: Any) -> Any:
    flat = rows.reshape(-1, rows.shape[-1]).double() @ table.double()
    return flat.reshape(*rows.shape[:-1], -1).to(table.dtype)


@space(
    "1.3",
    Turn(
        "no-tanh",
        "squash",
        "The sum is not squashed. Without the non-linearity the state can grow at every step, and many "
        "steps are no more than one linear map.",
    ),
    Turn(
        "sigmoid",
        "squash",
        "You squash with the sigmoid, which gives numbers between 0 and 1. The cell asks for tanh, "
        "which lets the state be negative too.",
    ),
    Turn(
        "relu",
        "squash",
        "You use ReLU, which cuts off everything negative and bounds nothing. The cell asks for tanh.",
    ),
    Turn(
        "clamped",
        ALONE,
        "You cut the sum off at -1 and 1. Tanh bends smoothly towards them, and its gradient fades "
        "instead of breaking off.",
    ),
    Turn(
        "tanh-overflows",
        "squash",
        "You write tanh with exponentials, which overflow for large inputs and leave NaN. Torch has a "
        "tanh that does not.",
    ),
    Turn(
        "tanh-twice",
        ALONE,
        "The sum is squashed twice. Once is enough: look for a second tanh.",
    ),
    Turn(
        "tanh-of-each-part",
        "squash",
        "You squash the share of the input and the share of the state each by itself and add them "
        "afterwards. The result can leave the range from -1 to 1: add everything first, the bias too, "
        "and squash once.",
    ),
    Turn(
        "tanh-of-the-input-only",
        "squash",
        "Only the share of the input is squashed, and the state is added afterwards, so it can grow "
        "from step to step. Look at where the brackets of tanh close: the whole sum belongs inside.",
    ),
    Turn(
        "tanh-of-the-state-only",
        ALONE,
        "Only the share of the state is squashed, and the input is added afterwards. Look at where the "
        "brackets of tanh close: the whole sum belongs inside.",
    ),
    Turn(
        "bias-after-tanh",
        "squash",
        "The bias is added after the tanh. The result can leave the range from -1 to 1: the bias is "
        "part of the sum that is squashed.",
    ),
    Turn(
        "softmax",
        ALONE,
        "You use a softmax, which makes the state a distribution. The cell squashes every unit by "
        "itself, with tanh.",
    ),
    Turn(
        "w_h-transposed",
        "weights",
        "The weights of the state are transposed. They are square, so no error tells you: in this "
        "course weights have the shape (in, out) and multiply from the right, unlike those of "
        "nn.Linear.",
    ),
    Turn(
        "w_x-transposed",
        "weights",
        "The weights of the input are transposed. In this course weights have the shape (in, out) and "
        "multiply from the right, unlike those of nn.Linear.",
    ),
    Turn(
        "both-weights-transposed",
        "weights",
        "Both weights are transposed. In this course weights have the shape (in, out) and multiply "
        "from the right, unlike those of nn.Linear.",
    ),
    Turn(
        "weights-exchanged",
        "weights",
        "The input meets the weights of the state, and the state those of the input. Look at which "
        "weight goes with which vector.",
    ),
    Turn(
        "joined-in-another-order",
        ALONE,
        "You join input and state to one vector, and their weights to one matrix, but in different "
        "orders. The sizes fit all the same: the parts have to stand in one order on both sides.",
    ),
    Turn(
        "w_h-entry-by-entry",
        ALONE,
        "The state meets only the diagonal of its weights, so no unit hears of another. Every unit of "
        "the new state depends on all units of the old one.",
    ),
    Turn(
        "no-bias",
        "bias",
        "The bias is missing from the sum."
        " Without it a state of zeros and a word of zeros always give zero again: look at"
        " which arguments you never use.",
    ),
    Turn(
        "bias-subtracted",
        "bias",
        "The bias is subtracted instead of added."
        " It shifts every unit the wrong way: look at the signs in your sum.",
    ),
    Turn(
        "bias-twice",
        "bias",
        "The bias is counted twice, once with the input and once with the state. nn.RNN has two "
        "biases; this cell has one.",
    ),
    Turn(
        "state-ignored",
        "sum",
        "The old state does not enter the new one, so the cell has no memory. Look at what h is for.",
    ),
    Turn(
        "input-ignored",
        "sum",
        "The input does not enter the new state, so the cell hears nothing. Look at what x is for.",
    ),
    Turn(
        "state-not-weighted",
        "sum",
        "The old state is added as it is, without its weights. Both the input and the state go through "
        "a matrix of their own.",
    ),
    Turn(
        "multiplied-not-added",
        ALONE,
        "You multiply the shares of the input and of the state entry by entry. They are added: a share "
        "of zero should not silence the other.",
    ),
    Turn(
        "averaged",
        ALONE,
        "You take the mean of the shares of input and state. They are added as they are.",
    ),
    Turn(
        "state-subtracted",
        ALONE,
        "The share of the state is subtracted. It is added to the share of the input.",
    ),
    Turn(
        "old-state-added",
        "result",
        "You add the old state to the new one, like a residual connection. A plain cell replaces its "
        "state: the old one enters through its weights only.",
    ),
    Turn(
        "returned-twice",
        "result",
        "You return two things, as nn.RNN does. The cell has one result: the new state.",
    ),
    Turn(
        "axis-in-front",
        ALONE,
        "Your result has an axis too many in front. It was useful for a product of matrices, and does "
        "not belong to the new state.",
    ),
    Turn(
        "state-cut-off",
        "gradient",
        "The old state is cut off (by detach or .data), so no gradient flows back to earlier steps. "
        "That is how the network learns what to remember: use the state as it is.",
    ),
    Turn(
        "everything-cut-off",
        "gradient",
        "The result is cut off from its inputs (by detach, no_grad, .data or a detour through numpy or "
        "math): nothing could be trained. Stay with operations of torch.",
    ),
    Turn(
        "always-float32",
        "dtype",
        "You convert to float32 whatever comes in. Inputs in double precision should give a state in "
        "double precision.",
    ),
    Turn(
        "state-changed-in-place",
        "in place",
        "You write the new state into the old one. The caller still needs it: make a new tensor.",
    ),
    Turn(
        "only-two-axes",
        ALONE,
        "Your product takes matrices only. Input and state come with any number of axes in front, also "
        "with none: use a product that broadcasts.",
    ),
    Turn(
        "column-vectors",
        ALONE,
        "Your code works for a single vector, but not for a batch. Either the weights stand on the "
        "left of the products, as for columns, or vectors are joined along the wrong axis: in this "
        "course vectors are rows, along the last axis, and weights multiply from the right.",
    ),
    Turn(
        "tanh-of-each-part-bias-with-the-input",
        ALONE,
        "You squash the share of the input and the share of the state each by itself and add them "
        "afterwards. The result can leave the range from -1 to 1: add everything first, the bias too, "
        "and squash once.",
    ),
    Turn(
        "tanh-of-each-part-bias-outside",
        ALONE,
        "You squash the share of the input and the share of the state each by itself and add them "
        "afterwards. The result can leave the range from -1 to 1: add everything first, the bias too, "
        "and squash once.",
    ),
    Turn(
        "tanh-of-the-input-and-the-bias",
        ALONE,
        "Only the share of the input is squashed, and the state is added afterwards, so it can grow "
        "from step to step. Look at where the brackets of tanh close: the whole sum belongs inside.",
    ),
    Turn(
        "tanh-of-the-state-without-the-bias",
        ALONE,
        "Only the share of the state is squashed, and the input is added afterwards. Look at where the "
        "brackets of tanh close: the whole sum belongs inside.",
    ),
    Turn(
        "tanh-overflows-above",
        ALONE,
        "You write tanh with exponentials, which overflow for large inputs and leave NaN. Torch has a "
        "tanh that does not.",
    ),
    Turn(
        "tanh-overflows-below",
        ALONE,
        "You write tanh with exponentials, which overflow for large inputs and leave NaN. Torch has a "
        "tanh that does not.",
    ),
    Turn(
        "tanh-inside-tanh",
        ALONE,
        "The share of the state is squashed twice: by itself, and again with the sum. Once, around the "
        "whole sum, is enough.",
    ),
    Turn(
        "state-squashed-before",
        ALONE,
        "You squash the old state before it meets its weights. It has been squashed when it was made: "
        "use it as it is.",
    ),
    Turn(
        "input-through-both-weights",
        "sum",
        "The share of the input goes through the weights of the state as well. Each has its own "
        "weights, and only then they are added: look at your brackets.",
    ),
    Turn(
        "joined-in-yet-another-order",
        ALONE,
        "You join input and state to one vector, and their weights to one matrix, but in different "
        "orders. The sizes fit all the same: the parts have to stand in one order on both sides.",
    ),
    Turn(
        "input-cut-off",
        "gradient",
        "The input is cut off from the result (by detach or .data), so its embedding would never be "
        "trained. Use it as it is.",
    ),
    Turn(
        "input-and-state-cut-off",
        "gradient",
        "Input and old state are cut off from the result (by detach or .data), so no gradient flows "
        "back to the words and to earlier steps. Use them as they are.",
    ),
    Turn(
        "weights-cut-off",
        "gradient",
        "The weights are cut off from the result (by detach, .data or a new tensor), so they would "
        "never be trained. Use them as they are.",
    ),
    Turn(
        "own-weights",
        ALONE,
        "You make a new cell, with weights of its own that are drawn at random, and the ones given are "
        "not used. Mix with the weights that come as arguments.",
    ),
    Turn(
        "always-float64",
        ALONE,
        "You convert to double precision and do not convert back. Calculate as precisely as you like, "
        "but return the dtype that came in.",
    ),
)
def rnn_cell(on: On) -> Any:
    def block(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
        old = h
        if on("always-float32"):
            x, h, w_x, w_h, b = x.float(), h.float(), w_x.float(), w_h.float(), b.float()
        if on("always-float64"):
            x, h, w_x, w_h, b = x.double(), h.double(), w_x.double(), w_h.double(), b.double()
        if on("own-weights"):
            return nn.RNNCell(x.shape[-1], h.shape[-1])(x, h)
        if on("state-cut-off") or on("input-and-state-cut-off"):
            h = h.detach()
        if on("input-cut-off") or on("input-and-state-cut-off"):
            x = x.detach()
        if on("weights-cut-off"):
            w_x, w_h = w_x.detach(), w_h.detach()
        if on("everything-cut-off"):
            x, h, w_x, w_h, b = x.detach(), h.detach(), w_x.detach(), w_h.detach(), b.detach()
        if on("only-two-axes"):
            return torch.tanh(torch.mm(x, w_x) + torch.mm(h, w_h) + b)
        if on("column-vectors"):
            return torch.tanh(w_x.T @ x + w_h.T @ h + b)
        if on("w_x-transposed") or on("both-weights-transposed"):
            w_x = w_x.T
        if on("w_h-transposed") or on("both-weights-transposed"):
            w_h = w_h.T
        if on("weights-exchanged"):
            w_x, w_h = w_h, w_x
        if on("w_h-entry-by-entry"):
            w_h = w_h.diag().diag()
        if on("joined-in-another-order"):
            joined = torch.cat([w_h, w_x])
            w_x, w_h = joined[: x.shape[-1]], joined[x.shape[-1] :]
        if on("joined-in-yet-another-order"):
            joined = torch.cat([w_x, w_h])
            w_h, w_x = joined[: h.shape[-1]], joined[h.shape[-1] :]
        if on("state-squashed-before"):
            h = torch.tanh(h)
        from_x, from_h = x @ w_x, h @ w_h
        if on("state-ignored"):
            from_h = torch.zeros_like(from_h)
        if on("input-ignored"):
            from_x = torch.zeros_like(from_x)
        if on("input-through-both-weights"):
            from_x = from_x @ w_h
        if on("tanh-inside-tanh"):
            from_h = torch.tanh(from_h + b) - b
        if on("state-not-weighted"):
            from_h = h
        if on("state-subtracted"):
            from_h = -from_h
        if on("averaged"):
            from_x, from_h = from_x / 2, from_h / 2
        if on("multiplied-not-added"):
            from_x, from_h = from_x * from_h, from_x * 0
        if on("no-bias"):
            b = torch.zeros_like(b)
        if on("bias-subtracted"):
            b = -b
        if on("bias-twice"):
            b = b + b
        total = from_x + from_h + b
        if on("no-tanh"):
            new = total
        elif on("sigmoid"):
            new = torch.sigmoid(total)
        elif on("relu"):
            new = torch.relu(total)
        elif on("clamped"):
            new = total.clamp(-1, 1)
        elif on("tanh-overflows"):
            new = (total.exp() - (-total).exp()) / (total.exp() + (-total).exp())
        elif on("tanh-twice"):
            new = torch.tanh(torch.tanh(total))
        elif on("tanh-of-each-part"):
            new = torch.tanh(from_x) + torch.tanh(from_h + b)
        elif on("tanh-of-the-input-only"):
            new = torch.tanh(from_x) + from_h + b
        elif on("tanh-of-the-input-and-the-bias"):
            new = torch.tanh(from_x + b) + from_h
        elif on("tanh-of-the-state-only"):
            new = from_x + torch.tanh(from_h + b)
        elif on("tanh-of-the-state-without-the-bias"):
            new = from_x + torch.tanh(from_h) + b
        elif on("tanh-of-each-part-bias-with-the-input"):
            new = torch.tanh(from_x + b) + torch.tanh(from_h)
        elif on("tanh-of-each-part-bias-outside"):
            new = torch.tanh(from_x) + torch.tanh(from_h) + b
        elif on("tanh-overflows-above"):
            new = ((2 * total).exp() - 1) / ((2 * total).exp() + 1)
        elif on("tanh-overflows-below"):
            new = (1 - (-2 * total).exp()) / (1 + (-2 * total).exp())
        elif on("bias-after-tanh"):
            new = torch.tanh(from_x + from_h) + b
        elif on("softmax"):
            new = torch.softmax(total, dim=-1)
        else:
            new = torch.tanh(total)
        if on("old-state-added"):
            new = new + h
        if on("axis-in-front"):
            new = new.unsqueeze(0)
        if on("state-changed-in-place"):
            new = old.copy_(new)
        return (new, new) if on("returned-twice") else new

    return block


@right("1.3")
def cell_with_einsum(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    shares = torch.einsum("...i,io->...o", x, w_x), torch.einsum("...i,io->...o", h, w_h)
    return (b + shares[1] + shares[0]).tanh()


@right("1.3")
def cell_of_joined_vectors(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return torch.tanh(torch.cat([x, h], dim=-1) @ torch.cat([w_x, w_h]) + b)


@right("1.3")
def cell_of_linear_layers(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return torch.tanh(F.linear(x, w_x.T, b) + F.linear(h, w_h.mT))


@right("1.3")
def cell_by_the_sigmoid(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    total = x @ w_x
    total += h @ w_h
    total += b
    return 2 * torch.sigmoid(2 * total) - 1


@right("1.3")
def cell_in_double(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    total = x.double() @ w_x.double() + h.double() @ w_h.double() + b.double()
    return total.tanh().to(x.dtype)


@space(
    "1.4",
    Turn(
        "state-not-carried",
        "carry",
        "Every step starts from h0 again, so no step hears of an earlier one. The state that one step "
        "gives is what the next one starts from.",
    ),
    Turn(
        "h0-ignored",
        "carry",
        "Your run starts from zeros, whatever h0 is. The first step starts from the state that is "
        "given: a run may go on from an earlier one.",
    ),
    Turn(
        "run-backwards",
        "carry",
        "You run through the sequence from its end. Step 0 comes first, and each state knows the words "
        "up to its own.",
    ),
    Turn(
        "first-word-skipped",
        ALONE,
        "The first word never enters: the state is the same before and after it. The first step "
        "already mixes it with h0.",
    ),
    Turn(
        "first-word-at-every-step",
        ALONE,
        "Every step gets the same word. Move along the sequence together with the state.",
    ),
    Turn(
        "state-added-up",
        ALONE,
        "You add the new state to the old one at every step. The cell gives the whole new state, which "
        "replaces the old one.",
    ),
    Turn(
        "squashed-again",
        ALONE,
        "The states are squashed a second time. The cell does that already.",
    ),
    Turn(
        "no-tanh",
        ALONE,
        "The states are not squashed, so they can grow at every step. Let the cell do the step: it has "
        "the tanh inside.",
    ),
    Turn(
        "batch-walked-through",
        "carry",
        "Your loop runs along the first axis, which is the batch: one sentence continues in the next. "
        "Walk along the seq axis, the last but one.",
    ),
    Turn(
        "h0-among-the-states",
        "states",
        "Your states begin with h0 and lack the last one: they are off by one. A state is collected "
        "after its step, and h0 is not among them.",
    ),
    Turn(
        "h0-in-front-of-the-states",
        "states",
        "Your states begin with h0, so there is one more than there are words. Collect what comes out "
        "of the steps only.",
    ),
    Turn(
        "last-step-missing",
        "states",
        "The run stops one step too early: there is one state less than there are words. Check where "
        "your loop ends.",
    ),
    Turn(
        "states-reversed",
        ALONE,
        "The states stand in reverse order. State 0 is the one after the first word.",
    ),
    Turn(
        "one-state-everywhere",
        ALONE,
        "All your states are the last one. If you write each new state into the same tensor, the list "
        "holds that one tensor many times: keep a new tensor for every step.",
    ),
    Turn(
        "stacked-in-front",
        "axes",
        "The steps stand in front of the batch. The seq axis belongs where it is in xs: last but one.",
    ),
    Turn(
        "stacked-behind-the-first-axis",
        "axes",
        "You place the steps on axis 1. That is right for a batch of sentences only: count the axis "
        "from the end, so that a single sentence works too, and any number of axes in front.",
    ),
    Turn(
        "stacked-at-the-end",
        "axes",
        "The steps stand on the last axis, behind the features. The seq axis belongs where it is in "
        "xs: last but one.",
    ),
    Turn(
        "joined-not-stacked",
        ALONE,
        "You join the states end to end on an axis they already have. They need a new axis for the "
        "steps.",
    ),
    Turn(
        "states-as-a-list",
        ALONE,
        "You return the states as a Python list. The result is one tensor, with the steps as its last "
        "but one axis.",
    ),
    Turn(
        "results-exchanged",
        "results",
        "The two results are exchanged: first come all states, then the last one."
        " Whoever unpacks them gets a sequence where one state should be.",
    ),
    Turn(
        "only-the-states",
        "results",
        "You return the states only. The last state is asked for as a second result.",
    ),
    Turn(
        "only-the-last-state",
        ALONE,
        "You return the last state only. All states are asked for as well, as the first of two "
        "results.",
    ),
    Turn(
        "last-is-the-first",
        "last",
        "What you return as the last state is the one after the first word."
        " It knows nothing of the rest of the sentence: look at which end of the states you"
        " take.",
    ),
    Turn(
        "last-is-h0",
        "last",
        "What you return as the last state is h0, the one before the first word. The variable that is "
        "carried along has the last state after the loop.",
    ),
    Turn(
        "last-but-one",
        "last",
        "What you return as the last state lacks the last word."
        " It is the state from before the last step: look at when you keep it.",
    ),
    Turn(
        "last-is-the-mean",
        ALONE,
        "What you return as the last state is the mean (or sum) of all states. The last one is simply "
        "where the run ends.",
    ),
    Turn(
        "last-of-the-batch",
        ALONE,
        "You take the last entry of the first axis: the states of the last sentence, not the last "
        "state of every sentence. The steps are the last but one axis.",
    ),
    Turn(
        "last-keeps-its-axis",
        "last",
        "The last state still has a seq axis of size 1. It is one state for every sentence: take a "
        "single index, not a slice.",
    ),
    Turn(
        "carried-state-cut-off",
        "gradient",
        "The state is cut off from its past before it is carried on (by detach or .data), so gradients "
        "reach one step back and no further. Carry it as it is.",
    ),
    Turn(
        "states-cut-off",
        "gradient",
        "The collected states are cut off from their history (by detach, .data, or a new tensor made "
        "from them). They are as much a result as the last one: gradients must flow through them.",
    ),
    Turn(
        "everything-cut-off",
        "gradient",
        "The results are cut off from their inputs (by detach, no_grad or a detour through numpy): "
        "nothing could be trained."
        " Stay with torch's own operations from the inputs to the results.",
    ),
    Turn(
        "w_h-transposed",
        ALONE,
        "The weights of the state are transposed. They are square, so no error tells you: weights "
        "multiply from the right.",
    ),
    Turn(
        "no-bias",
        ALONE,
        "The bias does not enter the states. Every step adds it.",
    ),
    Turn(
        "always-float32",
        "dtype",
        "You convert to float32 whatever comes in. Inputs in double precision should give states in "
        "double precision.",
    ),
    Turn(
        "states-always-float32",
        "dtype",
        "The tensor in which you collect the states is always float32. Take its dtype from the inputs.",
    ),
    Turn(
        "h0-changed-in-place",
        "in place",
        "You write the new states into h0. The caller still needs it: let every step make a new "
        "tensor.",
    ),
    Turn(
        "only-three-axes",
        ALONE,
        "Your code takes a batch of sentences only. xs may have any number of axes in front of seq, "
        "also none: count axes from the end.",
    ),
    Turn(
        "second-axis-taken-for-seq",
        ALONE,
        "Your code takes a batch of sentences only. xs may have any number of axes in front of seq, "
        "also none: count axes from the end.",
    ),
    Turn(
        "sentences-continue-each-other",
        ALONE,
        "Your loop runs along the first axis, which is the batch: one sentence continues in the next. "
        "Walk along the seq axis, the last but one.",
    ),
    Turn(
        "state-cut-off-before-its-step",
        "gradient",
        "The state is cut off from its past before each step (by detach or .data), the first one "
        "included, so gradients reach no further than one step. Use it as it is.",
    ),
    Turn(
        "run-backwards-and-turned",
        ALONE,
        "You run through the sequence from its end and put the states back in order. Each state then "
        "knows the words after its own: step 0 comes first.",
    ),
    Turn(
        "last-unit",
        "last",
        "You take the last entry of the last axis: one unit of every state. The last state is the last "
        "entry of the axis before, with all its units.",
    ),
    Turn(
        "joined-along-the-first-axis",
        ALONE,
        "You join the states end to end on an axis they already have. They need a new axis for the "
        "steps.",
    ),
    Turn(
        "returned-inside-the-loop",
        ALONE,
        "There is one state only: the return stands inside the loop and ends it after the first step. "
        "Check the indentation.",
    ),
    Turn(
        "starts-at-the-second-word",
        ALONE,
        "The run starts at the second word, so there is one state less than there are words. The first "
        "step takes the first word and h0.",
    ),
    Turn(
        "one-tensor-for-all-states",
        ALONE,
        "You write every new state into the tensor that was h0. The caller's h0 is changed, and all "
        "collected states are that one tensor: let every step make a new one.",
    ),
    Turn(
        "squashed-too-late",
        ALONE,
        "The states are squashed when they are collected, but what is carried to the next step is not "
        "squashed, so it can grow without bound. Let the cell do the step: it has the tanh inside.",
    ),
    Turn(
        "squashed-too-late-and-last-raw",
        ALONE,
        "The states are squashed when they are collected, but what is carried to the next step is not "
        "squashed, so it can grow without bound. Let the cell do the step: it has the tanh inside.",
    ),
    Turn(
        "last-with-an-axis-in-front",
        "last",
        "The last state has an axis of size 1 in front. nn.RNN has one there, for its layers; here it "
        "is one state for every sentence.",
    ),
    Turn(
        "states-twice",
        "results",
        "You return all states twice. The second result is the last of them only.",
    ),
    Turn(
        "fresh-zeros",
        ALONE,
        "Your run starts from zeros (always float32, whatever the inputs are), and h0 is not used. The "
        "first step starts from the state that is given: a run may go on from an earlier one.",
    ),
    Turn(
        "own-weights",
        ALONE,
        "You make a new network, with weights of its own that are drawn at random, and the ones given "
        "are not used. Take every step with the weights that come as arguments.",
    ),
    Turn(
        "last-cut-off",
        "gradient",
        "The last state is cut off from its history (by detach or .data). It is what a translator "
        "would pass on: gradients must flow through it.",
    ),
    Turn(
        "bias-twice",
        ALONE,
        "The bias is counted twice, once with the input and once with the state. nn.RNN has two "
        "biases; this one has one.",
    ),
    Turn(
        "weights-copied",
        ALONE,
        "You copy the weights into a network of torch. The numbers are right, but the copies are cut "
        "off: no gradient comes back to the weights that were given, and there may be more axes in "
        "front than nn.RNN takes.",
    ),
)
def rnn_forward(on: On) -> Any:
    def block(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
        given = h0
        if on("only-three-axes"):
            _, _, _ = xs.shape
        if on("always-float32"):
            xs, h0, w_x, w_h, b = xs.float(), h0.float(), w_x.float(), w_h.float(), b.float()
        if on("everything-cut-off"):
            xs, h0, w_x, w_h, b = (t.detach() for t in (xs, h0, w_x, w_h, b))
        if on("w_h-transposed"):
            w_h = w_h.T
        if on("no-bias"):
            b = torch.zeros_like(b)
        h = torch.zeros_like(h0) if on("h0-ignored") else h0
        if on("fresh-zeros"):
            h = torch.zeros(h0.shape)
        if on("bias-twice"):
            b = b + b
        if on("own-weights") or on("weights-copied"):
            dtype = xs.dtype if on("weights-copied") else torch.float32
            network = nn.RNN(*w_x.shape, batch_first=True, dtype=dtype)
            if on("weights-copied"):
                for inside, value in zip(network.parameters(), (w_x.T, w_h.T, b, b * 0), strict=True):
                    inside.data.copy_(value)
            run, end = network(xs, h0.unsqueeze(0))
            return run, end.squeeze(0)
        before: list[Any] = [h]
        collected: list[Any] = []
        along = -2
        if on("batch-walked-through") or on("sentences-continue-each-other"):
            along = 0
        if on("second-axis-taken-for-seq"):
            along = 1
        words = list(xs.unbind(dim=along))
        if on("run-backwards") or on("run-backwards-and-turned"):
            words.reverse()
        if on("last-step-missing"):
            words = words[:-1]
        if on("starts-at-the-second-word"):
            words = words[1:]
        if on("returned-inside-the-loop"):
            words = words[:1]
        late = on("squashed-too-late") or on("squashed-too-late-and-last-raw")
        raw = late or on("no-tanh")
        elsewhere = on("sentences-continue-each-other") or on("second-axis-taken-for-seq")
        inline = raw or elsewhere or on("fresh-zeros")
        for t, x in enumerate(words):
            if on("first-word-at-every-step"):
                x = words[0]
            start = h0 if on("state-not-carried") else h
            if on("state-cut-off-before-its-step"):
                start = start.detach()
            new: Any = x @ w_x + start @ w_h + b if inline else reference_cell(x, start, w_x, w_h, b)
            if inline and not raw:
                new = torch.tanh(new)
            if on("squashed-again"):
                new = torch.tanh(new)
            if on("state-added-up"):
                new = new + start
            if on("first-word-skipped") and t == 0:
                new = start
            if on("h0-changed-in-place"):
                given.copy_(new.detach())
            if on("one-tensor-for-all-states"):
                new = given.copy_(new)
            h = new.detach() if on("carried-state-cut-off") else new
            before.append(new)
            collected.append(new)
        last = torch.tanh(before[-1]) if on("squashed-too-late") else before[-1]
        if late:
            collected = [torch.tanh(state) for state in collected]
        if on("last-is-the-first"):
            last = before[1]
        if on("last-is-h0"):
            last = h0
        if on("last-but-one"):
            last = before[-2]
        if on("h0-among-the-states"):
            collected = before[:-1]
        if on("h0-in-front-of-the-states"):
            collected = before
        if on("states-reversed") or on("run-backwards-and-turned"):
            collected = collected[::-1]
        if on("one-state-everywhere"):
            collected = [last] * len(collected)
        if on("states-cut-off"):
            collected = [state.detach() for state in collected]
        axis = -2
        if on("stacked-in-front"):
            axis = 0
        if on("stacked-behind-the-first-axis"):
            axis = 1
        if on("stacked-at-the-end"):
            axis = -1
        if on("batch-walked-through") or on("sentences-continue-each-other"):
            axis = 0
        if on("second-axis-taken-for-seq"):
            axis = 1
        stacked: Any = torch.stack(collected, dim=axis)
        if on("states-always-float32"):
            stacked = stacked.float()
        if on("last-unit"):
            last = stacked[..., -1]
        if on("last-is-the-mean"):
            last = stacked.mean(dim=-2)
        if on("last-of-the-batch"):
            last = stacked[-1]
        if on("last-keeps-its-axis"):
            last = last.unsqueeze(-2)
        if on("last-cut-off"):
            last = last.detach()
        if on("last-with-an-axis-in-front"):
            last = last.unsqueeze(0)
        if on("joined-not-stacked"):
            stacked = torch.cat(collected, dim=-1)
        if on("joined-along-the-first-axis"):
            stacked = torch.cat(collected, dim=0)
        if on("states-as-a-list"):
            stacked = collected
        if on("states-twice"):
            return stacked, stacked
        if on("only-the-states"):
            return stacked
        if on("only-the-last-state"):
            return last
        return (last, stacked) if on("results-exchanged") else (stacked, last)

    return block


@right("1.4")
def forward_into_a_buffer(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    states = xs.new_empty(*xs.shape[:-1], w_h.shape[-1])
    h = h0
    for t in range(xs.shape[-2]):
        h = torch.tanh(xs[..., t, :] @ w_x + h @ w_h + b)
        states[..., t, :] = h
    return states, states[..., -1, :]


@right("1.4")
def forward_with_inputs_first(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    drive = xs @ w_x + b
    states = [h0]
    for t in range(xs.shape[-2]):
        states.append(torch.tanh(drive.select(-2, t) + states[-1] @ w_h))
    return torch.cat([state.unsqueeze(-2) for state in states[1:]], dim=-2), states[-1]


@right("1.4")
def forward_by_recursion(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    h = reference_cell(xs[..., 0, :], h0, w_x, w_h, b)
    if xs.shape[-2] == 1:
        return h[..., None, :], h
    rest, last = forward_by_recursion(xs[..., 1:, :], h, w_x, w_h, b)
    return torch.cat([h[..., None, :], rest], dim=-2), last


@right("1.4")
def forward_built_in(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    flat, start = xs.reshape(-1, *xs.shape[-2:]), h0.reshape(1, -1, h0.shape[-1])
    rnn = nn.RNN(*w_x.shape, batch_first=True, dtype=xs.dtype)
    weights = {"weight_ih_l0": w_x.T, "weight_hh_l0": w_h.T, "bias_ih_l0": b, "bias_hh_l0": b * 0}
    states, last = torch.func.functional_call(rnn, weights, (flat, start))
    return states.reshape(*xs.shape[:-1], -1), last.reshape(h0.shape)


@space(
    "1.5",
    Turn(
        "units-added-first",
        "rows",
        "You take the gradient of the sum of the last state's units. Units that move in opposite "
        "directions cancel in it: the Jacobian has a row for every unit, and each counts by itself.",
    ),
    Turn(
        "units-averaged-first",
        ALONE,
        "You take the gradient of the mean of the last state's units. Units that move in opposite "
        "directions cancel in it: the Jacobian has a row for every unit, and each counts by itself.",
    ),
    Turn(
        "gradient-of-the-norm",
        ALONE,
        "You take the gradient of the last state's norm (or of its square). That is one number for the "
        "whole state; the Jacobian has a row for every unit.",
    ),
    Turn(
        "first-unit-only",
        "rows",
        "You look at the first unit of the last state only. The Jacobian has a row for every unit.",
    ),
    Turn(
        "last-unit-only",
        ALONE,
        "You look at the last unit only. The Jacobian has a row for every unit of the last state.",
    ),
    Turn(
        "units-left-out",
        ALONE,
        "You go through as many units as the input is wide. The last state has d_hidden of them, and "
        "each has a row in the Jacobian.",
    ),
    Turn(
        "gradients-pile-up",
        "rows",
        "The gradients of one unit are added to those of the units before it: backward() adds to .grad "
        "and never clears it. Take the gradient of every unit by itself.",
    ),
    Turn(
        "autograd-stops",
        ALONE,
        "Autograd stops with an error, and its words say why. A second time means that the graph "
        "was thrown away after the first unit and has to be kept; scalar outputs, that it wants one "
        "unit at a time, added up over the batch. Something not used in the graph is a slice made "
        "afterwards, which is not where the states came from: ask for the whole inputs.",
    ),
    Turn(
        "all-states-added",
        "state",
        "You take the gradient of all states together, so words near the end hardly have to be "
        "remembered at all. The question is what is left of each word in the last state.",
    ),
    Turn(
        "first-state",
        "state",
        "You look at the first state, which depends on the first word only. The question is what is "
        "left of each word in the last one.",
    ),
    Turn(
        "last-but-one-state",
        ALONE,
        "You look at the state before the last, which has not heard the last word yet."
        " Its gradient for the last word is zero: look at which step you start from.",
    ),
    Turn(
        "last-unit-of-every-state",
        ALONE,
        "You take the last entry of the last axis: one unit of every state. The last state is the last "
        "entry of the axis before, with all its units.",
    ),
    Turn(
        "last-sentence",
        "state",
        "You take the last entry of the first axis. In a batch that is the last sentence, not the last "
        "state: count the seq axis from the end.",
    ),
    Turn(
        "own-state-of-each-word",
        "state",
        "You measure how each state depends on the word of its own step. The question is how the last "
        "state depends on the words before.",
    ),
    Turn(
        "no-root",
        "norm",
        "The squares are added, but the root is missing. A norm is the root of the sum of squares.",
    ),
    Turn(
        "sum-of-absolute-values",
        "norm",
        "You add absolute values. The Frobenius norm is the root of the sum of squares.",
    ),
    Turn(
        "largest-absolute-value",
        ALONE,
        "You take the largest entry of the Jacobian. The Frobenius norm is the root of the sum of all "
        "squares.",
    ),
    Turn(
        "entries-added",
        ALONE,
        "You add the entries of the Jacobian with their signs, so that they cancel. A norm squares "
        "them first.",
    ),
    Turn(
        "root-of-the-mean",
        "norm",
        "You take a mean of squares where the sum is asked for: the norm then depends on how many "
        "units or features share it."
        " A norm is the root of a sum: look at what you divide by.",
    ),
    Turn(
        "mean-over-units",
        "norm",
        "You average the squares over the units of the state. The Frobenius norm adds them all up.",
    ),
    Turn(
        "norms-of-units-added",
        "norm",
        "You take a norm for every unit and add the norms. The Frobenius norm adds the squares of all "
        "entries and takes one root at the end.",
    ),
    Turn(
        "norms-of-units-averaged",
        ALONE,
        "You take a norm for every unit and average the norms. The Frobenius norm adds the squares of "
        "all entries and takes one root at the end.",
    ),
    Turn(
        "spectral-norm",
        ALONE,
        "You take the largest singular value of the Jacobian. The exercise asks for the Frobenius "
        "norm: the root of the sum of all squares.",
    ),
    Turn(
        "norm-over-the-sequence",
        "axis",
        "You add up over the sequence, so that one number is left for every feature. The result has "
        "one for every step: add up over the features.",
    ),
    Turn(
        "one-norm-for-the-batch",
        "axis",
        "You add up over the batch as well, so all sentences share their norms. Each sentence has its "
        "own.",
    ),
    Turn(
        "features-not-summed",
        ALONE,
        "Your result still has the features of the input. The Jacobian of a step has one norm, over "
        "all its units and features.",
    ),
    Turn(
        "axis-left-over",
        ALONE,
        "Your result keeps an axis of size 1 for the features. It has one number for every step.",
    ),
    Turn(
        "ordered-by-distance",
        "order",
        "Your norms stand in the order of the distance, the last word first. The result has the order "
        "of the sequence: entry t is for input t.",
    ),
    Turn(
        "relative-to-the-largest",
        "after",
        "You divide the norms by the largest or the last one, or by their sum. The norms themselves "
        "are asked for: whether gradients explode could not be seen otherwise.",
    ),
    Turn(
        "relative-to-the-last",
        ALONE,
        "You divide the norms by that of the last word. The norms themselves are asked for: whether "
        "gradients explode could not be seen otherwise.",
    ),
    Turn(
        "relative-to-their-sum",
        ALONE,
        "You divide the norms by their sum. The norms themselves are asked for: whether gradients "
        "explode could not be seen otherwise.",
    ),
    Turn(
        "logarithm",
        ALONE,
        "You return the logarithm of the norms. That is how one plots them; the norms themselves are "
        "asked for.",
    ),
    Turn(
        "always-float32",
        "dtype",
        "The norms are always float32 (a tensor made from Python numbers is). Take the dtype from the "
        "inputs.",
    ),
    Turn(
        "as-a-list",
        "dtype",
        "You return Python numbers in a list. The result is a tensor with one number for every step.",
    ),
    Turn(
        "only-three-axes",
        ALONE,
        "Your code takes a batch of sentences only. There may be any number of axes in front of seq, "
        "also none: count axes from the end.",
    ),
    Turn(
        "gradient-of-the-square",
        ALONE,
        "You take the gradient of the last state's squared norm. That is one number for the whole "
        "state; the Jacobian has a row for every unit.",
    ),
    Turn(
        "mean-over-features",
        "norm",
        "You average the squares over the features of the input. The Frobenius norm adds them all up.",
    ),
    Turn(
        "mean-of-absolute-values",
        "norm",
        "You average absolute values. The Frobenius norm is the root of the sum of squares.",
    ),
    Turn(
        "one-norm-for-all",
        "axis",
        "You end with a single number. There is one norm for every step of every sentence: add up over "
        "units and features only.",
    ),
    Turn(
        "first-word-in-every-state",
        "state",
        "You measure how every state depends on the first word. The question is how the last state "
        "depends on every word.",
    ),
    Turn(
        "second-axis-taken-for-seq",
        ALONE,
        "You take the last entry of the second axis. That is the last state in a batch of sentences "
        "only: count the seq axis from the end, so that one sentence works too, and any number of axes "
        "in front.",
    ),
    Turn(
        "all-states-averaged",
        "state",
        "You take the gradient of the mean of all states. The question is what is left of each word in "
        "the last one.",
    ),
    Turn(
        "largest-norm-of-a-unit",
        ALONE,
        "You take a norm for every unit and keep the largest. The Frobenius norm adds the squares of "
        "all entries and takes one root at the end.",
    ),
    Turn(
        "units-not-summed",
        "axis",
        "Your result still has an axis for the units of the state. The Jacobian of a step has one "
        "norm, over all its units and features.",
    ),
    Turn(
        "averaged-over-the-batch",
        ALONE,
        "You average the norms over the sentences. Each sentence has its own.",
    ),
    Turn(
        "relative-to-the-largest-of-all",
        ALONE,
        "You divide the norms by the largest of all. The norms themselves are asked for: whether "
        "gradients explode could not be seen otherwise.",
    ),
    Turn(
        "collected-as-plain-numbers",
        "axis",
        "You turn the norm of each step into a plain number and collect those: all sentences of the "
        "batch share it, and the dtype is lost. Keep tensors, and add up over units and features only.",
    ),
    Turn(
        "gradient-of-each-norm",
        ALONE,
        "You take the gradient of the norm of each last state. That is one number for the whole state; "
        "the Jacobian has a row for every unit.",
    ),
    Turn(
        "batch-averaged-first",
        ALONE,
        "You take the gradient of each unit's mean over the batch, which divides every norm by the "
        "number of sentences. Sentences do not mix, so add them up instead.",
    ),
)
def gradient_by_distance(on: On) -> Any:
    def chosen(states: Any, inputs: Any) -> Any:
        """Give the numbers whose gradients are taken."""
        last = states[..., -1, :]
        if on("all-states-added"):
            last = states.sum(dim=-2)
        if on("all-states-averaged"):
            last = states.mean(dim=-2)
        if on("first-state"):
            last = states[..., 0, :]
        if on("last-but-one-state") and states.shape[-2] > 1:
            last = states[..., -2, :]
        if on("last-unit-of-every-state"):
            last = states[..., -1]
        if on("last-sentence"):
            last = states[-1]
        if on("second-axis-taken-for-seq"):
            last = states[:, -1, :]
        if on("own-state-of-each-word") or on("first-word-in-every-state"):
            last = states
        if on("units-added-first"):
            return [last.sum(dim=-1)]
        if on("units-averaged-first"):
            return [last.mean(dim=-1) / last[..., 0].numel()]
        if on("gradient-of-the-norm"):
            return [last.norm()]
        if on("gradient-of-each-norm"):
            return [last.norm(dim=-1)]
        if on("gradient-of-the-square"):
            return [last.square()]
        if on("first-unit-only"):
            return [last[..., 0]]
        if on("last-unit-only"):
            return [last[..., -1]]
        width = inputs.shape[-1] if on("units-left-out") else last.shape[-1]
        units = last.unbind(dim=-1)[:width]
        return [unit.mean() for unit in units] if on("batch-averaged-first") else units

    def slope(number: Any, inputs: Any) -> Any:
        return torch.autograd.grad(number.sum(), inputs, retain_graph=not on("autograd-stops"))[0]

    def slope_by_state(unit: Any, inputs: Any) -> Any:
        own = on("own-state-of-each-word")
        steps = [slope(step, inputs) for step in unit.unbind(dim=-1)]
        rows = [row[..., t if own else 0, :] for t, row in enumerate(steps)]
        return torch.stack(rows, dim=-2)

    def block(states: Any, inputs: Any) -> Any:
        if on("only-three-axes"):
            _, _, _ = states.shape
        by_state = on("own-state-of-each-word") or on("first-word-in-every-state")
        take = slope_by_state if by_state else slope
        rows = [take(number, inputs) for number in chosen(states, inputs)]
        jacobian = torch.stack(rows)  # (unit, ..., seq, d_in)
        if on("gradients-pile-up"):
            jacobian = jacobian.cumsum(dim=0)
        if on("always-float32"):
            jacobian = jacobian.float()
        mixed = on("one-norm-for-the-batch") or on("collected-as-plain-numbers")
        if mixed and jacobian.ndim > 3:
            size = math.prod(jacobian.shape[1:-2])
            whole = jacobian.reshape(-1, size, *jacobian.shape[-2:])
            jacobian = whole.transpose(1, 2).flatten(-2)
        if on("features-not-summed"):
            return jacobian.square().sum(dim=0).sqrt()
        axis = -2 if on("norm-over-the-sequence") else -1
        squares = jacobian.square()
        norms = squares.sum(dim=(0, axis)).sqrt()
        if on("no-root"):
            norms = norms.square()
        if on("sum-of-absolute-values"):
            norms = jacobian.abs().sum(dim=(0, axis))
        if on("largest-absolute-value"):
            norms = jacobian.abs().amax(dim=(0, axis))
        if on("entries-added"):
            norms = jacobian.sum(dim=(0, axis))
        if on("root-of-the-mean"):
            norms = squares.mean(dim=(0, axis)).sqrt()
        if on("mean-over-features"):
            norms = squares.mean(dim=axis).sum(dim=0).sqrt()
        if on("mean-of-absolute-values"):
            norms = jacobian.abs().sum(dim=0).mean(dim=axis)
        if on("one-norm-for-all"):
            return squares.sum().sqrt()
        if on("mean-over-units"):
            norms = squares.mean(dim=0).sum(dim=axis).sqrt()
        if on("norms-of-units-added"):
            norms = squares.sum(dim=axis).sqrt().sum(dim=0)
        if on("norms-of-units-averaged"):
            norms = squares.sum(dim=axis).sqrt().mean(dim=0)
        if on("spectral-norm"):
            norms = torch.linalg.matrix_norm(jacobian.movedim((0, axis), (-2, -1)), ord=2)
        if on("largest-norm-of-a-unit"):
            norms = squares.sum(dim=axis).sqrt().amax(dim=0)
        if on("units-not-summed"):
            return squares.sum(dim=axis).sqrt().movedim(0, -1)
        if on("averaged-over-the-batch") and norms.ndim > 1:
            norms = norms.mean(dim=0)
        if on("collected-as-plain-numbers"):
            norms = norms.float()
        if on("relative-to-the-largest-of-all"):
            norms = norms / norms.max()
        if on("ordered-by-distance"):
            norms = norms.flip(-1)
        if on("relative-to-the-largest"):
            norms = norms / norms.amax(dim=-1, keepdim=True)
        if on("relative-to-the-last"):
            norms = norms / norms[..., -1:]
        if on("relative-to-their-sum"):
            norms = norms / norms.sum(dim=-1, keepdim=True)
        if on("logarithm"):
            norms = norms.log()
        if on("axis-left-over"):
            norms = norms.unsqueeze(-1)
        return norms.tolist() if on("as-a-list") else norms

    return block


@right("1.5")
def gradient_of_all_units_at_once(states: Any, inputs: Any) -> Any:
    last = states[..., -1, :]
    width = last.shape[-1]
    pick = torch.eye(width, dtype=last.dtype).reshape(width, *(1,) * (last.ndim - 1), width)
    (jacobian,) = torch.autograd.grad(
        last, inputs, grad_outputs=pick.expand(width, *last.shape), is_grads_batched=True
    )
    return torch.linalg.vector_norm(jacobian, dim=(0, -1))


@right("1.5")
def gradient_by_backward(states: Any, inputs: Any) -> Any:
    last = states[..., -1, :].reshape(-1, states.shape[-1]).sum(dim=0)
    rows = []
    for unit in last:
        inputs.grad = None
        unit.backward(retain_graph=True)
        rows.append(inputs.grad)
    inputs.grad = None
    return torch.cat(rows, dim=-1).norm(dim=-1)


@right("1.5")
def gradient_with_the_graph_kept(states: Any, inputs: Any) -> Any:
    rows = [
        torch.autograd.grad(states[..., -1, unit].sum(), inputs, create_graph=True)[0]
        for unit in range(states.shape[-1])
    ]
    return torch.stack(rows, dim=-1).pow(2).sum(dim=(-2, -1)) ** 0.5


@right("1.5")
def gradient_sentence_by_sentence_in_double(states: Any, inputs: Any) -> Any:
    total = torch.zeros(inputs.shape[:-1], dtype=torch.float64)
    for entry in states[..., -1, :].flatten():
        (row,) = torch.autograd.grad(entry, inputs, retain_graph=True)
        total += row.double().norm(dim=-1) ** 2
    return total.sqrt().to(inputs.dtype)


@space(
    "1.6",
    Turn(
        "each-clipped-alone",
        "norm",
        "Each gradient is clipped by its own norm. Large ones shrink and small ones do not, so the "
        "direction of the whole step changes: all tensors share one norm.",
    ),
    Turn(
        "norms-added",
        "norm",
        "You add the norms of the tensors. The norm of all numbers together is smaller: it is their "
        "squares that add up.",
    ),
    Turn(
        "norms-averaged",
        "norm",
        "You average over the tensors. The norm of all numbers together has nothing divided in it, so "
        "the gradients keep too much.",
    ),
    Turn(
        "largest-norm",
        ALONE,
        "You take the norm of the largest tensor. The others count too: all numbers of all tensors "
        "have one norm.",
    ),
    Turn(
        "first-tensor-only",
        ALONE,
        "You take the norm of one tensor, not of all. All numbers of all tensors have one norm.",
    ),
    Turn(
        "last-tensor-only",
        ALONE,
        "You take the norm of the last tensor: perhaps a variable is overwritten in the loop instead "
        "of added to. All numbers of all tensors have one norm.",
    ),
    Turn(
        "no-root",
        "norm",
        "The squares are added, but the root is missing, so what you compare with max_norm is the "
        "square of the norm."
        " For long gradients it is far too large, and for short ones too small.",
    ),
    Turn(
        "absolute-values-added",
        "norm",
        "You add absolute values. The norm meant here is the root of the sum of squares.",
    ),
    Turn(
        "largest-entry",
        ALONE,
        "You take the largest entry as the norm. The norm meant here is the root of the sum of all "
        "squares.",
    ),
    Turn(
        "root-of-the-mean",
        "norm",
        "You take the mean of the squares instead of their sum, so large networks are hardly clipped."
        " A norm counts every entry in full: look at what you divide by.",
    ),
    Turn(
        "norm-over-one-axis",
        "norm",
        "You take norms along one axis of each tensor, so that every row is clipped by itself. All "
        "numbers of all tensors have one norm.",
    ),
    Turn(
        "each-entry-clamped",
        "norm",
        "You cut every entry off at max_norm. That bounds entries, not the norm, and it changes the "
        "direction: shrink all gradients by one factor instead.",
    ),
    Turn(
        "entries-added",
        ALONE,
        "You add the entries with their signs before squaring, so that they cancel. Each entry is "
        "squared by itself.",
    ),
    Turn(
        "scaled-up",
        "when",
        "Gradients below the limit are scaled up to it. A limit only takes away: the factor is never "
        "above 1.",
    ),
    Turn(
        "only-small-ones-scaled",
        "when",
        "Your condition is the wrong way round: gradients above the limit stay as they are, and those "
        "below it are scaled up."
        " Clipping only ever makes gradients shorter: look at the comparison.",
    ),
    Turn(
        "never-clipped",
        ALONE,
        "The gradients come back as they were. Check that what you return is what you scaled, and that "
        "the condition can become true.",
    ),
    Turn(
        "squashed-smoothly",
        ALONE,
        "Your factor is below 1 for every gradient, also for one below the limit. Those should come "
        "back unchanged.",
    ),
    Turn(
        "nan-for-zero",
        "when",
        "Gradients that are all zero come out as NaN, because you divide by their norm. Nothing is "
        "above the limit there: they should come back as they are.",
    ),
    Turn(
        "factor-upside-down",
        "factor",
        "Your factor is upside down: it makes large gradients larger. It should bring the norm down to "
        "max_norm.",
    ),
    Turn(
        "shrunk-to-length-one",
        "factor",
        "Gradients above the limit are shrunk to length one, whatever max_norm is. The new norm should "
        "be max_norm.",
    ),
    Turn(
        "only-divided-by-the-limit",
        "factor",
        "You divide by max_norm. The norm of the result then still depends on the norm of the "
        "gradients; it should be max_norm.",
    ),
    Turn(
        "only-multiplied-by-the-limit",
        ALONE,
        "You multiply with max_norm without dividing by the norm first. The norm of the result should "
        "be max_norm.",
    ),
    Turn(
        "excess-subtracted",
        ALONE,
        "You subtract something from the gradients. That changes their direction: multiply all of them "
        "with one factor.",
    ),
    Turn(
        "root-of-the-factor",
        ALONE,
        "You take the root of the factor (or one root too many), so the gradients stay too long."
        " After clipping the norm should be the limit itself: check it on one small example.",
    ),
    Turn(
        "limit-shared-out",
        ALONE,
        "You share the limit out among the tensors, so that all of them together stay below it. The "
        "limit holds for the norm of all of them at once.",
    ),
    Turn(
        "changed-in-place",
        "in place",
        "You change the given gradients themselves. Make new tensors: the caller may still need the "
        "old ones.",
    ),
    Turn(
        "norm-returned",
        ALONE,
        "You return the norm, as torch's own function does. The clipped gradients are asked for.",
    ),
    Turn(
        "norm-returned-too",
        "result",
        "You return the norm beside the gradients. Only the list of clipped gradients is asked for.",
    ),
    Turn(
        "as-a-tuple",
        "result",
        "You return a tuple or a generator. The result is a list, as the argument is.",
    ),
    Turn(
        "nothing-returned",
        ALONE,
        "Nothing comes back: a return is missing, or the function works on its arguments only."
        " The clipped gradients are asked for as a result: look at the end of the function.",
    ),
    Turn(
        "joined-to-one",
        ALONE,
        "You return all gradients joined to one long vector. Each should come back in its own shape, "
        "in a list.",
    ),
    Turn(
        "shapes-flattened",
        ALONE,
        "The gradients come back flat. Each should keep its shape.",
    ),
    Turn(
        "order-changed",
        ALONE,
        "The gradients come back in another order. Each belongs to a parameter: keep their places.",
    ),
    Turn(
        "always-float32",
        "dtype",
        "The gradients come back as float32 whatever they were. Keep their dtype.",
    ),
    Turn(
        "only-one-shape",
        ALONE,
        "You stack the gradients, which works only if all have one shape. The gradients of a network "
        "have many: bring each down to one number first.",
    ),
    Turn(
        "not-for-transposed",
        ALONE,
        "You flatten with view, which fails for a tensor that came out of a transpose. Use something "
        "that does not depend on how the numbers lie in memory.",
    ),
    Turn(
        "only-matrices",
        ALONE,
        "Your code fails for some shapes of gradients. They may have any number of axes, also none: "
        "bring each down to one number without counting its axes.",
    ),
    Turn(
        "divided-by-zero",
        ALONE,
        "Gradients that are all zero end in a division by zero. Nothing is above the limit there: they "
        "should come back as they are.",
    ),
    Turn(
        "means-of-squares-added",
        ALONE,
        "You take the mean of each tensor's squares and add the means. All squares of all tensors are "
        "added, without any mean.",
    ),
    Turn(
        "sums-squared",
        ALONE,
        "You add the entries of each tensor with their signs and square the sums, so that entries "
        "cancel. Each entry is squared by itself.",
    ),
    Turn(
        "as-a-generator",
        ALONE,
        "You return a generator: round brackets around a comprehension make one. The result is a list.",
    ),
    Turn(
        "nothing-returned-below",
        ALONE,
        "Nothing comes back for gradients below the limit: one way through your function ends without "
        "a return."
        " They are asked for unchanged: look at every way through the function.",
    ),
    Turn(
        "only-long-ones-shrunk",
        ALONE,
        "The factor is right, but only tensors that are longer than the limit by themselves are "
        "shrunk. The direction of the whole step changes: all of them get the same factor.",
    ),
    Turn(
        "limit-of-one",
        ALONE,
        "The limit is always 1, whatever max_norm says. Look at where max_norm enters.",
    ),
    Turn(
        "entries-cut-above",
        ALONE,
        "You cut every entry off at max_norm, on the positive side only. That bounds entries, not the "
        "norm, and it changes the direction: shrink all gradients by one factor instead.",
    ),
    Turn(
        "norm-returned-too-as-a-number",
        ALONE,
        "You return the norm beside the gradients. Only the list of clipped gradients is asked for.",
    ),
    Turn(
        "root-of-absolute-values",
        ALONE,
        "You add absolute values and take the root. The norm is the root of the sum of squares: both "
        "belong together.",
    ),
    Turn(
        "factor-squared",
        "factor",
        "The factor is applied twice (or squared), so the gradients become too short."
        " After clipping the norm should be the limit itself: look at where the factor is"
        " used.",
    ),
    Turn(
        "norm-over-the-first-axis",
        ALONE,
        "You take norms along one axis of each tensor, so that every column is clipped by itself. All "
        "numbers of all tensors have one norm.",
    ),
    Turn(
        "always-float64",
        ALONE,
        "You convert to double precision and do not convert back. Calculate as precisely as you like, "
        "but return the dtype that came in.",
    ),
)
def clip_gradients(on: On) -> Any:
    def size_of(gradients: Any) -> Any:
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        norms = torch.stack([gradient.norm() for gradient in gradients])
        if on("norms-added"):
            return norms.sum()
        if on("norms-averaged"):
            return norms.mean()
        if on("largest-norm"):
            return norms.max()
        if on("first-tensor-only"):
            return norms[0]
        if on("last-tensor-only"):
            return norms[-1]
        if on("no-root"):
            return flat.square().sum()
        if on("absolute-values-added"):
            return flat.abs().sum()
        if on("largest-entry"):
            return flat.abs().max()
        if on("root-of-the-mean"):
            return flat.square().mean().sqrt()
        if on("entries-added"):
            return flat.sum().abs()
        if on("root-of-absolute-values"):
            return flat.abs().sum().sqrt()
        if on("means-of-squares-added"):
            return torch.stack([gradient.square().mean() for gradient in gradients]).sum().sqrt()
        if on("sums-squared"):
            return torch.stack([gradient.sum() for gradient in gradients]).norm()
        return flat.norm()

    def scaled(gradients: Any, norm: Any, limit: float) -> Any:
        factor = limit / norm
        if on("factor-upside-down"):
            factor = norm / limit
        if on("shrunk-to-length-one"):
            factor = 1 / norm
        if on("only-divided-by-the-limit"):
            factor = torch.ones_like(norm) / limit
        if on("only-multiplied-by-the-limit"):
            factor = torch.ones_like(norm) * limit
        if on("root-of-the-factor"):
            factor = factor.sqrt()
        if on("factor-squared"):
            factor = factor.square()
        if on("limit-shared-out"):
            factor = factor / len(gradients)
        above = norm > limit
        if on("only-small-ones-scaled"):
            above = norm < limit
        if on("scaled-up"):
            above = torch.ones_like(above)
        if on("nan-for-zero"):
            above = above | (norm == 0)
            factor = torch.where(norm == 0, norm / norm, factor)
        factor = torch.where(above, factor, 1.0)
        if on("squashed-smoothly"):
            factor = limit / (limit + norm)
        if on("never-clipped"):
            factor = 1.0
        if on("excess-subtracted"):
            return [gradient - (norm - limit).clamp(min=0) for gradient in gradients]
        return [gradient * factor for gradient in gradients]

    def block(gradients: Any, max_norm: float) -> Any:
        if on("only-one-shape"):
            torch.stack(gradients)
        if on("not-for-transposed"):
            _ = [gradient.view(-1) for gradient in gradients]
        if on("only-matrices"):
            _ = [gradient.sum(dim=(0, 1)) for gradient in gradients]
        norm = size_of(gradients)
        if on("divided-by-zero"):
            _ = max_norm / float(norm)
        if on("limit-of-one"):
            max_norm = 1.0
        if on("nothing-returned-below") and norm <= max_norm:
            return None
        if on("each-clipped-alone"):
            clipped = [scaled([gradient], gradient.norm(), max_norm)[0] for gradient in gradients]
        elif on("norm-over-one-axis") or on("norm-over-the-first-axis"):
            axis = -1 if on("norm-over-one-axis") else 0
            clipped = [
                scaled([gradient], gradient.norm(dim=axis, keepdim=True), max_norm)[0]
                for gradient in gradients
            ]
        elif on("each-entry-clamped"):
            clipped = [gradient.clamp(-max_norm, max_norm) for gradient in gradients]
        elif on("entries-cut-above"):
            clipped = [gradient.clamp(max=max_norm) for gradient in gradients]
        else:
            clipped = scaled(gradients, norm, max_norm)
        if on("only-long-ones-shrunk"):
            clipped = [
                new if old.norm() > max_norm else old
                for old, new in zip(gradients, clipped, strict=True)
            ]
        if on("always-float32"):
            clipped = [gradient.float() for gradient in clipped]
        if on("always-float64"):
            clipped = [gradient.double() for gradient in clipped]
        if on("changed-in-place"):
            clipped = [old.copy_(new) for old, new in zip(gradients, clipped, strict=True)]
        if on("norm-returned"):
            return norm
        if on("norm-returned-too"):
            return clipped, norm
        if on("norm-returned-too-as-a-number"):
            return clipped, float(norm)
        if on("as-a-generator"):
            return (gradient for gradient in clipped)
        if on("as-a-tuple"):
            return tuple(clipped)
        if on("nothing-returned"):
            return None
        if on("joined-to-one"):
            return torch.cat([gradient.reshape(-1) for gradient in clipped])
        if on("shapes-flattened"):
            return [gradient.reshape(-1) for gradient in clipped]
        if on("order-changed"):
            return clipped[::-1]
        return clipped

    return block


@right("1.6")
def clip_with_plain_numbers(gradients: Any, max_norm: float) -> Any:
    norm = math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients))
    if norm <= max_norm:
        return gradients
    return [gradient * (max_norm / norm) for gradient in gradients]


@right("1.6")
def clip_built_in(gradients: Any, max_norm: float) -> Any:
    parameters = [nn.Parameter(torch.empty_like(gradient)) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    nn.utils.clip_grad_norm_(parameters, max_norm)
    return [parameter.grad for parameter in parameters]


@right("1.6")
def clip_joined(gradients: Any, max_norm: float) -> Any:
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    flat = flat / max(1.0, float(flat.norm()) / max_norm)
    parts = torch.split(flat, [gradient.numel() for gradient in gradients])
    return [part.view(like.shape) for part, like in zip(parts, gradients, strict=True)]


@right("1.6")
def clip_on_copies(gradients: Any, max_norm: float) -> Any:
    copies = [gradient.clone() for gradient in gradients]
    norm = sum((copy * copy).sum() for copy in copies) ** 0.5
    for copy in copies:
        copy *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    return copies


@wrong(
    "1.6",
    "too-long-is-dropped",
    "Where the norm is too large you return zeros, so nothing would be learned from that step. "
    "Clipping keeps the direction and shortens the step.",
)
def dropped(gradients: Any, max_norm: float) -> Any:
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    return [gradient * (norm <= max_norm) for gradient in gradients]


@wrong(
    "1.1",
    "batch-and-vocabulary-exchanged",
    "Your rows are right, but the first and the last axis have changed places. The axes of the tokens "
    "stay in front, and the vocabulary comes last.",
)
def exchanged(tokens: Any, vocab_size: int) -> Any:
    rows = F.one_hot(tokens, vocab_size).to(torch.get_default_dtype())
    return rows.transpose(0, -1) if rows.ndim > 2 else rows


slips(
    "1.1",
    "nothing-returned",
    "as-an-array",
    "in-a-tuple",
    "axis-in-front",
    "squeezed",
    "only-the-first",
    "all-axes-flattened",
    "one-number",
    "sign-turned",
)
slips(
    "1.2",
    "nothing-returned",
    "as-an-array",
    "in-a-tuple",
    "as-a-list",
    "in-half-precision",
    "axis-in-front",
    "squeezed",
    "only-the-first",
    "all-axes-flattened",
    "one-number",
    "sign-turned",
    "all-zero",
    "through-numpy",
    changed=("table",),
)


@wrong(
    "1.2",
    "batched-product",
    "Your product wants a batch on both sides, as torch.bmm does: the rows may have one, the table has "
    "none. Use a product that broadcasts.",
)
def batched_product(rows: Any, table: Any) -> Any:
    return torch.bmm(rows, table)


@wrong(
    "1.2",
    "multiplied-entry-by-entry",
    "You multiply rows and table entry by entry, and their axes do not line up. A matrix product pairs "
    "the vocabulary of both and sums over it.",
)
def entry_by_entry(rows: Any, table: Any) -> Any:
    return rows * table


@wrong(
    "1.2",
    "rows-as-indices",
    "You index the table with the one-hot rows themselves, as if they were token ids. A row says how "
    "much of each word to take: multiply it with the table.",
)
def rows_as_indices(rows: Any, table: Any) -> Any:
    return table[rows]


@wrong(
    "1.2",
    "zeros-and-ones-as-indices",
    "You index the table with the zeros and ones of the rows, so only its first two rows are ever "
    "looked up. A row says how much of each word to take: multiply it with the table.",
)
def zeros_and_ones_as_indices(rows: Any, table: Any) -> Any:
    return table[rows.long()]


@wrong(
    "1.2",
    "rows-to-the-embedding-function",
    "You hand the one-hot rows to torch's embedding function, which takes token ids and refuses "
    "numbers with a fraction. The exercise is to do the look-up as a matrix product.",
)
def rows_to_the_embedding_function(rows: Any, table: Any) -> Any:
    return F.embedding(rows, table)


@wrong(
    "1.2",
    "row-after-the-word",
    "Every token gets the row after its own. The row's number is the token's, and a matrix product "
    "picks it without any counting.",
)
def row_after_the_word(rows: Any, table: Any) -> Any:
    return rows @ table.roll(-1, dims=0)


@wrong(
    "1.2",
    "row-after-the-largest",
    "You look up by the place of the largest entry, and take the row after it. Neither is needed: a "
    "matrix product picks the row, and lets gradients through to the one-hot rows.",
)
def row_after_the_largest(rows: Any, table: Any) -> Any:
    return table.roll(-1, dims=0)[rows.argmax(dim=-1)]


@wrong(
    "1.2",
    "row-before-the-word",
    "Every token gets the row before its own. The row's number is the token's, and a matrix product "
    "picks it without any counting.",
)
def row_before_the_word(rows: Any, table: Any) -> Any:
    return rows @ table.roll(1, dims=0)


@wrong(
    "1.2",
    "embeddings-standardised",
    "You bring every embedding to mean 0 and variance 1, as a layer norm does. That is another block; "
    "a look-up gives the row as it stands in the table.",
)
def embeddings_standardised(rows: Any, table: Any) -> Any:
    return F.layer_norm(rows @ table, table.shape[-1:])


slips(
    "1.3",
    "nothing-returned",
    "as-an-array",
    "as-a-list",
    "in-half-precision",
    "squeezed",
    "only-the-first",
    "all-axes-flattened",
    "one-number",
    "sign-turned",
    "all-zero",
    "through-numpy",
    changed=("x", "w_x", "w_h", "b"),
    cut=("w_x", "w_h", "b"),
)


@wrong(
    "1.3",
    "tanh-of-one-number",
    "You use the tanh of the math module, which takes a single number. Torch has one that squashes a "
    "whole tensor and passes gradients on.",
)
def tanh_of_one_number(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return math.tanh((x @ w_x + h @ w_h + b).detach())


@wrong(
    "1.3",
    "multiplied-entry-by-entry",
    "You multiply vectors and weights entry by entry, and their axes do not line up. Each share is a "
    "matrix product: every unit sums over all entries of the vector.",
)
def cell_entry_by_entry(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return torch.tanh(x * w_x + h * w_h + b)


@wrong(
    "1.3",
    "weights-from-the-left",
    "The weights stand on the left of the products. In this course vectors are rows, so weights of the "
    "shape (in, out) multiply from the right.",
)
def cell_weights_from_the_left(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return torch.tanh(w_x @ x + w_h @ h + b)


@wrong(
    "1.3",
    "joined-along-the-batch",
    "You join input and state along the first axis, where they have the batch. Side by side means "
    "along the last axis: name it when you join.",
)
def cell_joined_along_the_batch(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return torch.tanh(torch.cat([x, h]) @ torch.cat([w_x, w_h]) + b)


@wrong(
    "1.3",
    "one-product-for-both",
    "You add input and state first, and multiply afterwards. They have different widths and weights of "
    "their own: each goes through its own matrix before they are added.",
)
def cell_one_product_for_both(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return torch.tanh((x + h) @ w_h + b)


slips(
    "1.4",
    "nothing-returned",
    "as-an-array",
    "in-a-tuple",
    "as-a-list",
    "in-half-precision",
    "always-float64",
    "axis-in-front",
    "squeezed",
    "only-the-first",
    "all-axes-flattened",
    "one-number",
    "sign-turned",
    "all-zero",
    "through-numpy",
    changed=("xs", "w_x", "w_h", "b"),
    cut=("xs", "h0", "w_x", "w_h", "b"),
)

_ONE_BATCH_AXIS = (
    "Your code takes it that axis 0 is the batch and axis 1 the sequence. There may be no batch, or "
    "several axes in front of seq: count axes from the end."
)


def _walk(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> list[Any]:
    """Collect the states of words that come one by one."""
    states = [h0]
    for x in xs:
        states.append(reference_cell(x, states[-1], w_x, w_h, b))
    return states[1:]


@wrong("1.4", "cell-along-axis-one", _ONE_BATCH_AXIS)
def cell_along_axis_one(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    states = _walk([xs[:, t] for t in range(xs.shape[1])], h0, w_x, w_h, b)
    return torch.stack(states, dim=1), states[-1]


@wrong("1.4", "three-axes-indexed", _ONE_BATCH_AXIS)
def three_axes_indexed(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    states = _walk([xs[:, t, :] for t in range(xs.shape[1])], h0, w_x, w_h, b)
    return torch.stack(states, dim=1), states[-1]


@wrong(
    "1.4",
    "states-made-into-numbers",
    "You make a tensor from a list of tensors as if they were plain numbers. Tensors that exist "
    "already are put together by stacking them, which keeps their gradients.",
)
def states_made_into_numbers(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    states = _walk(xs.unbind(dim=-2), h0, w_x, w_h, b)
    return torch.tensor([float(state.detach()) for state in states]), states[-1]


@wrong(
    "1.4",
    "room-for-one-sentence",
    "The tensor in which you collect the states has room for one sentence only. Whatever axes stand in "
    "front of seq stand in front of the states, too.",
)
def room_for_one_sentence(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    states = _walk(xs.unbind(dim=-2), h0, w_x, w_h, b)
    room = xs.new_zeros(len(states), w_h.shape[-1])
    for t, state in enumerate(states):
        room[t] = state
    return room, states[-1]


slips(
    "1.5",
    "nothing-returned",
    "as-an-array",
    "in-a-tuple",
    "in-half-precision",
    "always-float64",
    "axis-in-front",
    "squeezed",
    "only-the-first",
    "all-axes-flattened",
    "one-number",
    "sign-turned",
    "all-zero",
)


def _jacobian(states: Any, inputs: Any) -> Any:
    """Give the Jacobian of the last state, its units in front."""
    units = states[..., -1, :].unbind(dim=-1)
    return torch.stack([torch.autograd.grad(u.sum(), inputs, retain_graph=True)[0] for u in units])


@wrong(
    "1.5",
    "not-one-number-at-a-time",
    "You ask autograd for the gradient of many numbers at once, and it wants a single one. Go through "
    "the units one by one, and add each up over the batch: sentences do not mix.",
)
def not_one_number_at_a_time(states: Any, inputs: Any) -> Any:
    (gradient,) = torch.autograd.grad(states[..., -1, :], inputs, retain_graph=True)
    return gradient.norm(dim=-1)


@wrong(
    "1.5",
    "one-unit-of-the-whole-batch",
    "You ask autograd for the gradient of one unit of every sentence at once, and it wants a single "
    "number. Add each unit up over the batch: sentences do not mix, so each keeps its own gradient.",
)
def one_unit_of_the_whole_batch(states: Any, inputs: Any) -> Any:
    rows = [
        torch.autograd.grad(unit, inputs, retain_graph=True)[0]
        for unit in states[..., -1, :].unbind(dim=-1)
    ]
    return torch.stack(rows).square().sum(dim=(0, -1)).sqrt()


@wrong(
    "1.5",
    "slices-of-the-inputs",
    "You ask for the gradient of a slice of the inputs, but the states were not computed from that "
    "slice: autograd has never seen it. Ask for the whole inputs, and take the step out of the result.",
)
def slices_of_the_inputs(states: Any, inputs: Any) -> Any:
    (gradient,) = torch.autograd.grad(states[..., -1, :].sum(), inputs[..., 0, :], retain_graph=True)
    return gradient


@wrong(
    "1.5",
    "divided-by-the-units",
    "You divide the norms by the number of units. The Frobenius norm is the root of the sum of all "
    "squares, with nothing divided.",
)
def divided_by_the_units(states: Any, inputs: Any) -> Any:
    return _jacobian(states, inputs).square().sum(dim=(0, -1)).sqrt() / states.shape[-1]


@wrong(
    "1.5",
    "norm-over-the-first-axes",
    "You take the norm over the units and the first axis of the inputs, which is the batch or the "
    "sequence. What has to disappear besides the units are the features, the last axis.",
)
def norm_over_the_first_axes(states: Any, inputs: Any) -> Any:
    return _jacobian(states, inputs).norm(dim=(0, 1))


slips(
    "1.6",
    "in-a-tuple",
    "as-a-list",
    "in-half-precision",
    "axis-in-front",
    "squeezed",
    "one-number",
    "sign-turned",
    "all-zero",
)


@wrong(
    "1.6",
    "one-added-to-the-norm",
    "You add something to the norm before you divide, so the gradients come out shorter than the "
    "limit. A tiny number against division by zero does no harm, a large one does.",
)
def one_added_to_the_norm(gradients: Any, max_norm: float) -> Any:
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    return [gradient * (max_norm / (norm + 1)).clamp(max=1.0) for gradient in gradients]


slips(
    "1.1",
    *ENDINGS,
    without=(
        "absolute-at-the-end",
        "squared-at-the-end",
        "relu-at-the-end",
        "length-one-at-the-end",
        "last-axis-reversed",
    ),
)
slips(
    "1.2",
    *ENDINGS,
    treated=("table",),
    without=(
        "length-one-at-the-end",
        "standardised-at-the-end",
        "table-scaled-up",
        "table-scaled-down",
        "table-moved-by-one",
    ),
)
slips(
    "1.3",
    *ENDINGS,
    treated=("x", "h"),
    without=(
        "tanh-at-the-end",
        "h-squashed",
    ),
)
slips(
    "1.4",
    *ENDINGS,
    first=True,
    treated=("xs",),
    without=(
        "rows-reversed",
        "xs-turned-around",
    ),
)
slips(
    "1.5",
    *ENDINGS,
    without=(
        "absolute-at-the-end",
        "relu-at-the-end",
        "squared-at-the-end",
        "last-axis-reversed",
    ),
)


@wrong(
    "1.1",
    "first-column-dropped",
    "Your rows lack the first column, so token 0 has no place. The ids start at 0, and each of the "
    "vocab_size words has a column.",
)
def first_column_dropped(tokens: Any, vocab_size: int) -> Any:
    return F.one_hot(tokens, vocab_size).to(torch.get_default_dtype())[..., 1:]


@wrong(
    "1.1",
    "tokens-counted",
    "You count how often each word occurs in the whole input. Every token keeps a row of its own.",
)
def tokens_counted(tokens: Any, vocab_size: int) -> Any:
    return F.one_hot(tokens.flatten(), vocab_size).to(torch.get_default_dtype()).sum(dim=0)


@wrong(
    "1.2",
    "wrong-axes-contracted",
    "You sum over an axis of the table that is not the vocabulary, and the sizes do not fit. The last "
    "axis of the rows meets the first of the table.",
)
def wrong_axes_contracted(rows: Any, table: Any) -> Any:
    return torch.tensordot(rows, table, dims=([-1], [1]))


@wrong(
    "1.2",
    "dropout-added",
    "Some numbers of your embeddings are zero at random, and the others larger. No dropout is asked "
    "for here: a look-up gives the row as it stands in the table.",
)
def embed_with_dropout(rows: Any, table: Any) -> Any:
    return F.dropout(rows @ table, 0.1)


_OTHER_SQUASHES = {
    "gelu": F.gelu,
    "elu": F.elu,
    "leaky-relu": F.leaky_relu,
    "softplus": F.softplus,
    "softsign": F.softsign,
    "arctangent": torch.atan,
    "sine": torch.sin,
    "error-function": torch.erf,
}


def _cell_with(squash: Any) -> Any:
    return lambda x, h, w_x, w_h, b: squash(x @ w_x + h @ w_h + b)


for _name, _squash in _OTHER_SQUASHES.items():
    wrong(
        "1.3",
        _name,
        "You use another function than tanh. The cell asks for tanh, which keeps the state between -1 "
        "and 1 and lets it be negative.",
    )(_cell_with(_squash))


@wrong(
    "1.3",
    "bias-multiplied",
    "The bias is multiplied in. It is added to the sum: a bias of zero should not silence the cell.",
)
def bias_multiplied(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return torch.tanh((x @ w_x + h @ w_h) * b)


@wrong(
    "1.3",
    "sum-standardised",
    "You normalise the sum before the tanh, as a layer norm would. A plain cell squashes the sum as it "
    "is.",
)
def sum_standardised(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return torch.tanh(F.layer_norm(x @ w_x + h @ w_h + b, b.shape))


@wrong(
    "1.3",
    "old-state-mixed-in",
    "Your result is a mean of the old and the new state, as with a gate. A plain cell replaces its "
    "state: the old one enters through its weights only.",
)
def old_state_mixed_in(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return (h + torch.tanh(x @ w_x + h @ w_h + b)) / 2


@wrong(
    "1.4",
    "words-added-up",
    "Every step gets the sum of all words so far. The state is what remembers: each step gets its own "
    "word only.",
)
def words_added_up(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    states = _walk(xs.cumsum(dim=-2).unbind(dim=-2), h0, w_x, w_h, b)
    return torch.stack(states, dim=-2), states[-1]


@wrong(
    "1.4",
    "cell-arguments-exchanged",
    "You hand the cell its arguments in another order: the state arrives where the word belongs. Look "
    "at the signature of your cell.",
)
def cell_arguments_exchanged(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return reference_cell(h0, xs[..., 0, :], w_x, w_h, b)


@wrong(
    "1.4",
    "weights-exchanged",
    "You hand the cell its weights in another order: those of the state where those of the word "
    "belong. Look at the signature of your cell.",
)
def cell_weights_exchanged(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return reference_cell(xs[..., 0, :], h0, w_h, w_x, b)


@wrong(
    "1.4",
    "two-steps-a-word",
    "You take two steps for every word. One word is one step of the cell: look for a second call.",
)
def two_steps_a_word(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    words = [x for x in xs.unbind(dim=-2) for _ in range(2)]
    states = _walk(words, h0, w_x, w_h, b)[1::2]
    return torch.stack(states, dim=-2), states[-1]


@wrong(
    "1.5",
    "third-powers",
    "You take another norm than asked for. The Frobenius norm is the root of the sum of squares: "
    "squares below the root, and a square root.",
)
def third_powers(states: Any, inputs: Any) -> Any:
    return _jacobian(states, inputs).abs().pow(3).sum(dim=(0, -1)).pow(1 / 3)


@wrong(
    "1.5",
    "divided-by-the-features",
    "You divide the norms by the width of the inputs. The Frobenius norm is the root of the sum of all "
    "squares, with nothing divided.",
)
def divided_by_the_features(states: Any, inputs: Any) -> Any:
    return _jacobian(states, inputs).square().sum(dim=(0, -1)).sqrt() / inputs.shape[-1]


@wrong(
    "1.6",
    "only-the-first-clipped",
    "You clip the first tensor only, and the others come back as they were. All of them get the same "
    "factor.",
)
def only_the_first_clipped(gradients: Any, max_norm: float) -> Any:
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    return [gradients[0] * (max_norm / norm).clamp(max=1.0), *gradients[1:]]


@wrong(
    "1.6",
    "only-the-last-clipped",
    "You clip the last tensor only, and the others come back as they were. All of them get the same "
    "factor: look at what is inside your loop.",
)
def only_the_last_clipped(gradients: Any, max_norm: float) -> Any:
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    return [*gradients[:-1], gradients[-1] * (max_norm / norm).clamp(max=1.0)]


@wrong(
    "1.6",
    "limit-divided-by-a-root",
    "You share the limit out among the tensors, by the root of their number. The limit holds for the "
    "norm of all of them at once.",
)
def limit_divided_by_a_root(gradients: Any, max_norm: float) -> Any:
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm() * len(gradients) ** 0.5
    return [gradient * (max_norm / norm).clamp(max=1.0) for gradient in gradients]


@wrong(
    "1.6",
    "entries-squashed",
    "You squash every entry below the limit, one by one. That changes the direction, and small "
    "gradients too: shrink all of them by one factor.",
)
def entries_squashed(gradients: Any, max_norm: float) -> Any:
    return [torch.tanh(gradient / max_norm) * max_norm for gradient in gradients]


@wrong(
    "1.6",
    "spread-instead-of-norm",
    "You take the standard deviation of all entries for their norm. The norm is the root of the sum of "
    "squares: nothing is divided or centred.",
)
def spread_instead_of_norm(gradients: Any, max_norm: float) -> Any:
    spread = torch.cat([gradient.flatten() for gradient in gradients]).std()
    return [gradient * (max_norm / spread).clamp(max=1.0) for gradient in gradients]


@wrong(
    "1.6",
    "norms-multiplied",
    "You multiply the norms of the tensors. The norm of all numbers together is the root of the sum of "
    "the squared norms.",
)
def norms_multiplied(gradients: Any, max_norm: float) -> Any:
    norm = torch.stack([gradient.norm() for gradient in gradients]).prod()
    return [gradient * (max_norm / norm).clamp(max=1.0) for gradient in gradients]


@wrong(
    "1.6",
    "clipped-too-late",
    "Gradients a little above the limit come back as they were. As soon as the norm exceeds max_norm "
    "they are shrunk: look at what you compare with.",
)
def clipped_too_late(gradients: Any, max_norm: float) -> Any:
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    return [gradient * (max_norm / norm if norm > 2 * max_norm else 1.0) for gradient in gradients]


@wrong(
    "1.5",
    "added-up-along-the-sequence",
    "Each of your norms holds the sum of all norms before it. A variable is added to in a loop where "
    "it should be set anew: every step has a norm of its own.",
)
def added_up_along_the_sequence(states: Any, inputs: Any) -> Any:
    return _jacobian(states, inputs).square().sum(dim=(0, -1)).sqrt().cumsum(dim=-1)


@wrong(
    "1.5",
    "squares-added-up-along-the-sequence",
    "You add the squares of one step to those of the steps before it. Every step has a norm of its "
    "own: start from zero for each.",
)
def squares_added_up_along_the_sequence(states: Any, inputs: Any) -> Any:
    return _jacobian(states, inputs).square().sum(dim=(0, -1)).cumsum(dim=-1).sqrt()


_THERMOMETER = (
    "Your rows are filled with ones behind the token, like a thermometer upside down. A one-hot row "
    "has a single 1: ask whether a column is the token's own, not whether it comes after it."
)


@wrong(
    "1.1",
    "ids-taken-one-too-low",
    "Your ones stand one place too far to the left: you count the ids from one. They start at 0, and "
    "token i has its one at place i.",
)
def one_too_low(tokens: Any, vocab_size: int) -> Any:
    return F.one_hot((tokens - 1).clamp(min=0), vocab_size).float()


@wrong("1.1", "ones-from-the-token-on", _THERMOMETER)
def ones_from_the_token_on(tokens: Any, vocab_size: int) -> Any:
    return (torch.arange(vocab_size) >= tokens.unsqueeze(-1)).to(torch.get_default_dtype())


@wrong("1.1", "ones-after-the-token", _THERMOMETER)
def ones_after_the_token(tokens: Any, vocab_size: int) -> Any:
    return (torch.arange(vocab_size) > tokens.unsqueeze(-1)).to(torch.get_default_dtype())


@wrong(
    "1.3",
    "gated",
    "Your new state goes through a gate, a sigmoid that multiplies it. That is how an LSTM begins; "
    "this cell squashes the sum with tanh and nothing else.",
)
def gated(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    total = x @ w_x + h @ w_h + b
    return torch.sigmoid(total) * torch.tanh(total)


@wrong(
    "1.3",
    "matrices-and-bias-only",
    "Your product takes matrices only, as torch.addmm does. Input and state come with any number of "
    "axes in front, also with none: use a product that broadcasts.",
)
def matrices_and_bias_only(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return torch.tanh(torch.addmm(b, x, w_x) + torch.mm(h, w_h))


@wrong(
    "1.3",
    "batched-product",
    "Your product wants three axes on both sides, as torch.bmm does. Input and state come with any "
    "number of axes in front, and the weights with none: use a product that broadcasts.",
)
def cell_batched_product(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return torch.tanh(torch.bmm(x, w_x) + torch.bmm(h, w_h) + b)


@wrong(
    "1.4",
    "last-state-twice",
    "You return the last state twice. The first result are all states, one for every step: collect "
    "them on the way.",
)
def last_state_twice(xs: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    last = _walk(xs.unbind(dim=-2), h0, w_x, w_h, b)[-1]
    return last, last


@wrong(
    "1.6",
    "root-of-the-summed-norms",
    "You add the norms of the tensors and take the root of the sum. Under the root belong their "
    "squares: the norm of all numbers together is the root of the sum of squared norms.",
)
def root_of_the_summed_norms(gradients: Any, max_norm: float) -> Any:
    norm = torch.stack([gradient.norm() for gradient in gradients]).sum().sqrt()
    return [gradient * (max_norm / norm).clamp(max=1.0) for gradient in gradients]


@wrong(
    "1.6",
    "rooted-twice",
    "You take the root of the norm once more, so large gradients keep too much. One root of the sum of "
    "squares is the norm.",
)
def rooted_twice(gradients: Any, max_norm: float) -> Any:
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm().sqrt()
    return [gradient * (max_norm / norm).clamp(max=1.0) for gradient in gradients]


@wrong(
    "1.2",
    "float32-inside",
    "You calculate in single precision, whatever goes in, and convert the result. The digits that a "
    "double precision table has more are lost on the way: calculate in the dtype of the table.",
)
def in_single_precision(one_hot_tokens: Any, table: Any) -> Any:
    return (one_hot_tokens.float() @ table.float()).to(table.dtype)


@wrong(
    "1.2",
    "table-of-its-own",
    "You make a new table of random numbers, as nn.Embedding does, and look words up in that. The "
    "table is given: it is what is learned.",
)
def own_table(one_hot_tokens: Any, table: Any) -> Any:
    return nn.Embedding(*table.shape)(one_hot_tokens.argmax(dim=-1))


@wrong(
    "1.3",
    "sigmoid-stretched",
    "You stretch a sigmoid to the range from -1 to 1. That is a tanh of half the sum: the sigmoid "
    "needs twice its argument to become the tanh.",
)
def stretched_cell(x: Any, h: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    return 2 * torch.sigmoid(x @ w_x + h @ w_h + b) - 1
