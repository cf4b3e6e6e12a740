"""Wrong turns of week 8: choosing words."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lab_grader.bank import ALONE, ENDINGS, On, Turn, right, slips, space, wrong
from lab_transformer.attention import merge_heads, scaled_dot_product_attention, split_heads
from lab_transformer.decoding import CachedAttention, length_normalised
from lab_transformer.masking import causal_mask


@space(
    "8.1",
    Turn(
        "start-token-missing",
        "result",
        "The start token is not in your result. It is the first token of the list and of every prefix "
        "that step is asked about.",
    ),
    Turn(
        "starts-with-zero",
        "start",
        "Your list starts with a fixed token instead of bos_id. Which number stands for the start is "
        "up to the vocabulary: take it from the argument.",
    ),
    Turn(
        "end-token-missing",
        "end",
        "You stop at the end token but leave it out of the result. Where it was reached it is the "
        "last token of the list: append first, then look whether it is time to stop.",
    ),
    Turn(
        "never-stops-at-the-end",
        "end",
        "Your loop goes on after the end token until max_length is reached. What a model says after "
        "the end of a sentence means nothing: stop there.",
    ),
    Turn(
        "stops-at-the-start-token",
        ALONE,
        "You compare the new token with the start token. Decoding is over when the end token, eos_id, "
        "has been appended.",
    ),
    Turn(
        "stops-one-after-the-end",
        ALONE,
        "One token too many follows the end token. You look at the last token before you append the "
        "next one to it, and append it all the same.",
    ),
    Turn(
        "end-token-forced",
        ALONE,
        "Where max_length cuts a sequence off, you put the end token in its last place. It belongs "
        "there only when the model chose it.",
    ),
    Turn(
        "end-token-always-added",
        ALONE,
        "You add an end token yourself, even where the model never gave one. It is part of the list "
        "only where it was reached.",
    ),
    Turn(
        "length-without-the-start",
        "length",
        "Your list gets one token longer than max_length. The limit counts all tokens, the start "
        "token too, so one less can be generated.",
    ),
    Turn(
        "one-token-short",
        "length",
        "You stop one token before max_length. The list may become exactly as long as max_length.",
    ),
    Turn(
        "no-limit",
        ALONE,
        "You ignore max_length. A model that never gives the end token would keep you in the loop "
        "forever: the limit has to end it too.",
    ),
    Turn(
        "only-the-last-token",
        "prefix",
        "You show step the last token only. It takes whole prefixes: what comes next depends on "
        "everything that was said before.",
    ),
    Turn(
        "prefix-without-the-start",
        ALONE,
        "The prefixes you give to step lack the start token after the first step. A prefix is the "
        "whole list so far, the start token included.",
    ),
    Turn(
        "prefix-without-the-last-token",
        ALONE,
        "The prefixes you give to step lack the newest token. What comes next depends on it most of "
        "all: show the whole list so far.",
    ),
    Turn(
        "prefix-never-grows",
        ALONE,
        "You ask step about the start token again and again. Each new token must become part of the "
        "prefix before the next question.",
    ),
    Turn(
        "prefix-padded",
        ALONE,
        "You pad the prefix to its full length before you ask. step reads every token it is given as "
        "said: give it only the tokens that are there.",
    ),
    Turn(
        "least-probable",
        "choice",
        "You append the least probable token. Log-probabilities are negative, and the one nearest to "
        "zero belongs to the most probable token.",
    ),
    Turn(
        "argmax-over-the-rows",
        ALONE,
        "Your tokens are all zero or nearly so. Either your argmax runs over the prefixes instead of "
        "the vocabulary, the last axis of (n, vocab), or you append the best value instead of its "
        "place.",
    ),
    Turn(
        "sampled",
        ALONE,
        "You draw the next token at random. Greedy decoding always takes the most probable one.",
    ),
    Turn(
        "second-best",
        ALONE,
        "You append the second best token instead of the best. Look at the order of your sort and at "
        "the place you take from it.",
    ),
    Turn(
        "end-token-avoided",
        ALONE,
        "You never choose the end token, even where it is the most probable one. It competes with all "
        "others, at the first step too.",
    ),
    Turn(
        "prefix-is-one-row",
        ALONE,
        "You give step a single row of tokens. It takes many prefixes at once, with the axes (n, t), "
        "even where there is only one.",
    ),
    Turn(
        "prefix-is-no-integer-tensor",
        ALONE,
        "You give step a list, or tokens that are not integers. It takes an integer tensor of shape "
        "(n, t), as a model would.",
    ),
    Turn(
        "tokens-as-tensors",
        "result",
        "The entries of your list are tensors, not integers. Turn each token into a plain number "
        "before you append it.",
    ),
    Turn(
        "returned-a-tensor",
        ALONE,
        "You return a tensor. The result is a plain list of integers.",
    ),
    Turn(
        "returned-a-nested-list",
        ALONE,
        "Your result is a list that holds the list of tokens. Only one sequence is decoded: return "
        "its tokens alone.",
    ),
    Turn(
        "score-returned-too",
        ALONE,
        "You return a score beside the tokens. Greedy decoding returns the list of tokens only.",
    ),
)
def greedy_decode(on: On) -> Any:
    def choose(row: Tensor, eos_id: int) -> Tensor:
        if on("least-probable"):
            return row.argmin()
        if on("sampled"):
            return torch.multinomial(row.exp(), 1)[0]
        if on("second-best"):
            return row.argsort()[-2]
        if on("end-token-avoided"):
            row = row.clone()
            row[eos_id] = -math.inf
        return row.argmax()

    def shown(tokens: list[int], max_length: int) -> Any:
        if on("prefix-is-no-integer-tensor"):
            return [tokens]
        if on("only-the-last-token"):
            tokens = tokens[-1:]
        if on("prefix-without-the-start"):
            tokens = tokens[1:] or tokens
        if on("prefix-never-grows"):
            tokens = tokens[:1]
        if on("prefix-without-the-last-token"):
            tokens = tokens[:-1] or tokens
        if on("prefix-padded"):
            tokens = tokens + [0] * (max_length - len(tokens))
        return torch.tensor(tokens if on("prefix-is-one-row") else [tokens])

    def block(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
        tokens = [0 if on("starts-with-zero") else bos_id]
        stop = bos_id if on("stops-at-the-start-token") else eos_id
        short = on("one-token-short") or on("end-token-forced")
        limit = max_length + on("length-without-the-start") - short
        while len(tokens) < limit or on("no-limit"):
            table = step(shown(tokens, max_length))
            last = tokens[-1]
            if on("argmax-over-the-rows"):
                tokens.append(int(table.argmax(dim=0)[0]))
            else:
                tokens.append(int(choose(table[0], eos_id)))
            seen = last if on("stops-one-after-the-end") else tokens[-1]
            if seen == stop and not on("never-stops-at-the-end"):
                if on("end-token-missing"):
                    tokens.pop()
                break
        if on("end-token-forced") and tokens[-1] != eos_id and len(tokens) < max_length:
            tokens.append(eos_id)
        if on("end-token-always-added") and tokens[-1] != eos_id:
            tokens.append(eos_id)
        if on("start-token-missing"):
            return tokens[1:]
        if on("tokens-as-tensors"):
            return [bos_id, *(torch.tensor(token) for token in tokens[1:])]
        if on("returned-a-tensor"):
            return torch.tensor(tokens)
        if on("returned-a-nested-list"):
            return [tokens]
        return (tokens, 0.0) if on("score-returned-too") else tokens

    return block


def _greedy(step: Any, tokens: list[int], eos_id: int, max_length: int) -> list[int]:
    while len(tokens) < max_length and (len(tokens) == 1 or tokens[-1] != eos_id):
        tokens.append(int(step(torch.tensor([tokens]))[0].argmax()))
    return tokens


@wrong(
    "8.1",
    "filled-up-after-the-end",
    "After the end token you fill the list up until it has max_length tokens. It ends with the end "
    "token: how long the list may become is a limit, not a size.",
)
def filled_up(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    tokens = _greedy(step, [bos_id], eos_id, max_length)
    return tokens + [eos_id] * (max_length - len(tokens))


@wrong(
    "8.1",
    "end-token-twice",
    "The end token stands twice at the end of your list. It is appended when the model chooses it: "
    "nothing has to be added when the loop is over.",
)
def end_twice(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    tokens = _greedy(step, [bos_id], eos_id, max_length)
    return [*tokens, eos_id] if tokens[-1] == eos_id else tokens


@wrong(
    "8.1",
    "tokens-as-rows",
    "The entries of your list are tensors with an axis, not integers. The argmax was taken for a whole "
    "table of one row: take that row's and turn it into a plain number.",
)
def tokens_as_rows(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    tokens = _greedy(step, [bos_id], eos_id, max_length)
    return [bos_id, *(torch.tensor([token]) for token in tokens[1:])]


@wrong(
    "8.1",
    "token-numbers-shifted",
    "The tokens you append are one off. The place of the largest log-probability in the row is the "
    "token itself, and places are counted from zero.",
)
def shifted(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    tokens = [bos_id]
    while len(tokens) < max_length and (len(tokens) == 1 or tokens[-1] != eos_id):
        row = step(torch.tensor([tokens]))[0]
        tokens.append(int(row.argmax() + 1) % len(row))
    return tokens


def _without(banned: Callable[[list[int], int], list[int]]) -> Any:
    """Decode with some tokens ruled out, which the prefix and the start token decide."""

    def block(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
        tokens = [bos_id]
        while len(tokens) < max_length and (len(tokens) == 1 or tokens[-1] != eos_id):
            row = step(torch.tensor([tokens]))[0].clone()
            row[banned(tokens, bos_id)] = -math.inf
            tokens.append(int(row.argmax()))
        return tokens

    return block


wrong(
    "8.1",
    "start-token-avoided",
    "You rule out a token that the model may choose, such as the start token. Greedy decoding takes "
    "the most probable token of the whole vocabulary, whatever it is.",
)(_without(lambda tokens, bos_id: [bos_id]))
wrong(
    "8.1",
    "token-zero-avoided",
    "You never choose token 0. Which number stands for what is up to the vocabulary: all of its tokens "
    "compete.",
)(_without(lambda tokens, bos_id: [0]))
wrong(
    "8.1",
    "repetition-avoided",
    "You do not let a token come twice. Greedy decoding takes the most probable token, also when it "
    "was said before.",
)(_without(lambda tokens, bos_id: tokens))
wrong(
    "8.1",
    "same-token-in-a-row-avoided",
    "You do not let a token follow itself. Greedy decoding takes the most probable token, also when it "
    "is the same again.",
)(_without(lambda tokens, bos_id: tokens[-1:]))


@wrong(
    "8.1",
    "prefix-of-floats",
    "You give step tokens that are not integers. Token numbers are looked up, not computed with: keep "
    "the prefix an integer tensor.",
)
def float_prefix(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    return _greedy(lambda prefix: step(prefix.float()), [bos_id], eos_id, max_length)


@wrong(
    "8.1",
    "starts-with-the-end-token",
    "Your list starts with the end token. Decoding starts with bos_id, the start token.",
)
def from_the_end(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    return _greedy(step, [eos_id], eos_id, max_length)


@wrong("8.1", "returned-a-tuple", "You return a tuple. The result is a plain list of integers.")
def as_a_tuple(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    return tuple(_greedy(step, [bos_id], eos_id, max_length))


def _stops_at(token: int) -> Any:
    def block(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
        return _greedy(step, [bos_id], token, max_length)

    return block


for _token in range(4):
    wrong(
        "8.1",
        f"stops-at-token-{_token}",
        "You stop at a fixed token number. Which number stands for the end is up to the vocabulary: "
        "take it from eos_id.",
    )(_stops_at(_token))


@wrong(
    "8.1",
    "prefix-reversed",
    "You show step the prefix backwards, or put new tokens at its front. A prefix is read from the "
    "start token on, and the newest token is its last.",
)
def reversed_prefix(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    return _greedy(lambda prefix: step(prefix.flip(-1)), [bos_id], eos_id, max_length)


@wrong(
    "8.1",
    "stops-after-one-token",
    "You append one token and stop. Each new token becomes part of the prefix, and step is asked "
    "again, until the end token or max_length.",
)
def one_token(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    return _greedy(step, [bos_id], eos_id, min(max_length, 2))


@right("8.1")
def with_a_growing_tensor(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    prefix = torch.full((1, 1), bos_id, dtype=torch.int32)
    for _ in range(max_length - 1):
        best = step(prefix).max(dim=-1, keepdim=True).indices
        prefix = torch.cat([prefix, best.to(prefix)], dim=1)
        if best.item() == eos_id:
            break
    return prefix[0].tolist()


@right("8.1")
def with_recursion(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    def after(tokens: list[int]) -> list[int]:
        if len(tokens) == max_length or (len(tokens) > 1 and tokens[-1] == eos_id):
            return tokens
        row = step(torch.tensor(tokens).unsqueeze(0)).exp().squeeze(0).tolist()
        return after([*tokens, row.index(max(row))])

    return after([bos_id])


@right("8.1")
def with_a_buffer(step: Any, bos_id: int, eos_id: int, max_length: int) -> Any:
    buffer = torch.zeros(1, max_length, dtype=torch.long)
    buffer[0, 0] = bos_id
    length = 1
    while length < max_length:
        buffer[0, length] = step(buffer[:, :length]).topk(1).indices[0, 0]
        length += 1
        if buffer[0, length - 1] == eos_id:
            break
    return [int(token) for token in buffer[0, :length]]


@space(
    "8.2",
    Turn(
        "multiplied",
        "operation",
        "You multiply by the length factor. Sums of log-probabilities are negative, so that makes "
        "long sentences even worse: the factor belongs below the fraction bar.",
    ),
    Turn(
        "subtracted",
        ALONE,
        "You subtract the length factor from the score. The score is divided by it.",
    ),
    Turn(
        "logarithm-of-the-factor",
        ALONE,
        "You take the logarithm of the length factor before you divide. The score is a sum of "
        "logarithms, but it is divided by the factor as it is.",
    ),
    Turn(
        "penalty-ignored",
        "power",
        "Your result does not depend on the penalty. It is the exponent of the length factor: at "
        "penalty 0 nothing changes, and the larger it is, the more the length counts.",
    ),
    Turn(
        "factor-times-penalty",
        "power",
        "You multiply the length factor by the penalty. The penalty is its exponent.",
    ),
    Turn(
        "penalty-multiplies-the-result",
        ALONE,
        "You multiply the normalised score by the penalty. The penalty is the exponent of the length "
        "factor.",
    ),
    Turn(
        "reward-per-token",
        ALONE,
        "You add the penalty once for every token. The score is divided by a power of the length "
        "factor.",
    ),
    Turn(
        "penalty-to-the-factor",
        ALONE,
        "Base and exponent have changed places. The length factor is raised to the penalty.",
    ),
    Turn(
        "root-of-the-factor",
        ALONE,
        "You raise the factor to one over the penalty. The penalty itself is the exponent.",
    ),
    Turn(
        "plain-length",
        "base",
        "You use the length itself as the base. The formula adds 5 and divides by 6, which is gentler "
        "to short sentences.",
    ),
    Turn(
        "not-divided-by-six",
        "base",
        "The division by 6 is missing. It makes the factor 1 for a single token.",
    ),
    Turn(
        "six-not-in-the-power",
        "base",
        "Only a part of the fraction is raised to the penalty. Both 5 + length and 6 stand inside the "
        "bracket: mind which operation Python does first.",
    ),
    Turn(
        "only-the-sum-in-the-power",
        ALONE,
        "You raise 5 + length to the penalty and divide by 6 afterwards. The whole fraction is "
        "raised: it needs brackets.",
    ),
    Turn(
        "six-divides-the-score",
        ALONE,
        "The 6 ends up dividing the score instead of the sum 5 + length. In Python a / b / c divides "
        "by both: put brackets around the fraction.",
    ),
    Turn(
        "divided-by-both",
        ALONE,
        "You divide the score by 5 + length and by the power of 6. The 6 stands below 5 + length: put "
        "brackets around the fraction and raise all of it.",
    ),
    Turn(
        "divided-by-both-without-the-penalty",
        ALONE,
        "You divide the score by 5 + length and by 6, and the penalty does nothing. Put brackets "
        "around the fraction, and raise it to the penalty.",
    ),
    Turn(
        "power-of-the-whole",
        ALONE,
        "You raise the divided score to the penalty. Only the length factor is raised, before the "
        "score is divided by it.",
    ),
    Turn(
        "length-alone-over-six",
        "base",
        "You divide only the length by 6 and then add 5. The sum comes first: it needs brackets.",
    ),
    Turn(
        "length-plus-one",
        "base",
        "Your length is one too large. The formula counts generated tokens, and the length you are "
        "given does so already.",
    ),
    Turn(
        "length-minus-one",
        "base",
        "Your length is one too small. The end token is a generated token like the others: nothing "
        "has to be taken off.",
    ),
    Turn(
        "five-and-six-exchanged",
        ALONE,
        "The two constants have changed places. At length 1 the factor should be 1.",
    ),
    Turn(
        "whole-numbers-only",
        ALONE,
        "You round the fraction down to a whole number. Use the division that keeps the decimals.",
    ),
    Turn(
        "sign-lost",
        "result",
        "Your result has lost the sign of the score. Scores are negative, and the best is the one "
        "nearest to zero.",
    ),
    Turn(
        "returned-a-tensor",
        ALONE,
        "You return a tensor. The result is a plain number.",
    ),
    Turn(
        "rounded",
        ALONE,
        "You round the result. Ranking needs all its decimals.",
    ),
    Turn(
        "factor-only",
        ALONE,
        "You return the length factor itself. The score has to be divided by it.",
    ),
)
def length_penalty(on: On) -> Any:
    def fraction(length: int) -> float:
        if on("plain-length"):
            return float(length)
        if on("not-divided-by-six"):
            return 5 + length
        if on("length-alone-over-six"):
            return 5 + length / 6
        if on("five-and-six-exchanged"):
            return (6 + length) / 5
        if on("whole-numbers-only"):
            return float((5 + length) // 6)
        return (5 + length + on("length-plus-one") - on("length-minus-one")) / 6

    def power(base: float, penalty: float) -> float:
        if on("penalty-ignored"):
            return base
        if on("factor-times-penalty"):
            return base * penalty
        if on("penalty-to-the-factor"):
            return float(abs(penalty) ** base)
        if on("root-of-the-factor"):
            return float(base ** (1 / penalty)) if penalty else base
        return float(base**penalty)

    def block(score: Any, length: Any, penalty: Any) -> Any:
        factor = power(fraction(length), penalty)
        if on("six-not-in-the-power"):
            factor = (5 + length) / power(6, penalty)
        if on("factor-only"):
            return factor
        if on("only-the-sum-in-the-power"):
            factor = power(5 + length, penalty) / 6
        if on("six-divides-the-score"):
            factor = power(5 + length, penalty) * 6
        if on("divided-by-both"):
            factor = (5 + length) * power(6, penalty)
        if on("divided-by-both-without-the-penalty"):
            factor = (5 + length) * 6.0
        if on("penalty-multiplies-the-result"):
            return score / fraction(length) * penalty
        if on("reward-per-token"):
            return score + penalty * length
        if on("power-of-the-whole"):
            return (score / fraction(length)) ** penalty
        if on("multiplied"):
            result = score * factor
        elif on("subtracted"):
            result = score - factor
        else:
            result = score / (math.log(factor) if on("logarithm-of-the-factor") else factor)
        if on("sign-lost"):
            return abs(result)
        if on("rounded"):
            return float(round(result))
        return torch.tensor(result) if on("returned-a-tensor") else result

    return block


# Formulas that are not the one.
for _name, _message, _formula in (
    (
        "not-normalised",
        "The score comes back as it was. It is divided by the length factor, raised to the penalty.",
        lambda score, length, penalty: score,
    ),
    (
        "logarithm-subtracted",
        "You subtract a logarithm of the length factor, as if the score were the logarithm of "
        "what is to be divided. Here the sum of log-probabilities itself is divided.",
        lambda score, length, penalty: score - penalty * math.log((5 + length) / 6),
    ),
    (
        "score-exponentiated",
        "You turn the score into a probability first. The sum of log-probabilities itself is "
        "divided, and it stays negative.",
        lambda score, length, penalty: math.exp(score) / ((5 + length) / 6) ** penalty,
    ),
    (
        "one-instead-of-five",
        "You add 1 to the length. The formula adds 5, so that the factor is 1 for a single token.",
        lambda score, length, penalty: score / ((1 + length) / 6) ** penalty,
    ),
    (
        "five-instead-of-six",
        "You divide by 5, the number that you add. The formula divides by 6, so that the factor "
        "is 1 for a single token.",
        lambda score, length, penalty: score / ((5 + length) / 5) ** penalty,
    ),
    (
        "nothing-added",
        "You divide the length by 6 without adding 5 to it. With both the factor is 1 for a "
        "single token.",
        lambda score, length, penalty: score / (max(length, 1) / 6) ** penalty,
    ),
    (
        "punished-per-token",
        "You subtract the penalty once for every token, which makes long sentences worse still. "
        "The score is divided by a power of the length factor.",
        lambda score, length, penalty: score - penalty * length,
    ),
    (
        "divided-by-penalty-times-length",
        "You divide by the penalty times the length. The penalty is the exponent of the length factor.",
        lambda score, length, penalty: score / (penalty * length or 1.0),
    ),
    (
        "mean-per-token",
        "You divide by the length and leave the penalty out. The length factor is (5 + length) / "
        "6, and the penalty is its exponent.",
        lambda score, length, penalty: score / max(length, 1),
    ),
    (
        "half-the-penalty",
        "You take a root of the length factor besides. Its exponent is the penalty, nothing else.",
        lambda score, length, penalty: score / math.sqrt((5 + length) / 6) ** penalty,
    ),
    (
        "factor-added",
        "You add the length factor to the score. The score is divided by it.",
        lambda score, length, penalty: score + ((5 + length) / 6) ** penalty,
    ),
    (
        "divided-by-the-score",
        "You divide the length factor by the score. It is the score that is divided.",
        lambda score, length, penalty: ((5 + length) / 6) ** penalty / score,
    ),
    (
        "decimals-cut-off",
        "You cut the decimals off the result. Ranking needs all of them.",
        lambda score, length, penalty: int(score / ((5 + length) / 6) ** penalty),
    ),
    (
        "penalty-added-to-the-factor",
        "You add the penalty to the length factor. It is the factor's exponent.",
        lambda score, length, penalty: score / ((5 + length) / 6 + penalty),
    ),
    (
        "penalty-added-to-the-length",
        "You add the penalty to the length or to the 5. It is the exponent of the whole fraction.",
        lambda score, length, penalty: score / ((5 + length + penalty) / 6),
    ),
    (
        "exponential-of-the-factor",
        "You raise e to the factor times the penalty. The factor itself is the base, and the "
        "penalty is its exponent.",
        lambda score, length, penalty: score / math.exp(penalty * (5 + length) / 6),
    ),
    (
        "exponent-one-minus-the-penalty",
        "Your exponent is 1 - penalty. The penalty itself is the exponent: at 0 nothing changes.",
        lambda score, length, penalty: score / ((5 + length) / 6) ** (1 - penalty),
    ),
    (
        "length-over-five-plus-length",
        "You normalise with the length over 5 + length. The factor is (5 + length) / 6: it grows "
        "without limit and is 1 for a single token.",
        lambda score, length, penalty: score / (max(length, 1) / (5 + length)) ** penalty,
    ),
    (
        "score-raised-too",
        "You raise the score to the penalty, too. Only the length factor is raised.",
        lambda score, length, penalty: -(abs(score) ** penalty) / ((5 + length) / 6) ** penalty,
    ),
):
    wrong("8.2", _name, _message)(_formula)


@right("8.2")
def with_a_negative_exponent(score: Any, length: Any, penalty: Any) -> Any:
    return score * ((5 + length) / 6) ** -penalty


@right("8.2")
def with_two_powers(score: Any, length: Any, penalty: Any) -> Any:
    return score * 6**penalty / (5 + length) ** penalty


@right("8.2")
def with_logarithms(score: Any, length: Any, penalty: Any) -> Any:
    return score / math.exp(penalty * (math.log(length + 5) - math.log(6)))


@right("8.2")
def with_tensors(score: Any, length: Any, penalty: Any) -> Any:
    return (score / ((5 + torch.tensor(length, dtype=torch.float64)) / 6) ** penalty).item()


Pair = tuple[list[int], float]


@space(
    "8.3",
    Turn(
        "probabilities-summed",
        "sum",
        "You add up probabilities. The probability of a sequence is the product of its steps, so it "
        "is the log-probabilities that add, just as step gives them.",
    ),
    Turn(
        "log-probabilities-multiplied",
        ALONE,
        "You multiply log-probabilities. Probabilities multiply; their logarithms add.",
    ),
    Turn(
        "only-the-last-step",
        "sum",
        "The score of a beam is only that of its last token. A beam takes the sum of all its steps "
        "with it.",
    ),
    Turn(
        "sum-starts-at-one",
        ALONE,
        "All your scores are too high by one: the sum of the first beam starts at 1. An empty product "
        "of probabilities is 1, and its logarithm is what a sum starts with.",
    ),
    Turn(
        "end-token-not-in-the-score",
        "sum",
        "The log-probability of the end token is missing in your scores. To end here is a decision of "
        "the model like any other word: its score counts.",
    ),
    Turn(
        "end-token-free-where-it-is-likely",
        ALONE,
        "Where the end token is among the best continuations of a beam, its log-probability is missing "
        "in your scores. To end here is a decision of the model like any other word: its score counts.",
    ),
    Turn(
        "end-token-lost-when-it-is-put-aside",
        ALONE,
        "A sequence that ends keeps the sum it had before its end token. To end is a decision of the "
        "model like any other word: its log-probability belongs to the score.",
    ),
    Turn(
        "score-is-the-mean",
        "score",
        "Your scores are means over the tokens. The score is the sum, and how much the length counts "
        "is left to the penalty.",
    ),
    Turn(
        "score-is-a-probability",
        ALONE,
        "Your scores are probabilities. The score is a sum of log-probabilities, below zero.",
    ),
    Turn(
        "score-is-negated",
        ALONE,
        "Your scores have the opposite sign, as costs. The score is the sum of log-probabilities "
        "itself.",
    ),
    Turn(
        "penalty-ignored",
        "penalty",
        "length_penalty changes nothing in your search. What is returned and ranked is the normalised "
        "score.",
    ),
    Turn(
        "penalty-sign",
        "penalty",
        "Your penalty works the wrong way round: it favours short sequences. A sum of log- "
        "probabilities is negative, so dividing by a larger number makes it better.",
    ),
    Turn(
        "start-token-counted",
        "penalty",
        "The length you normalise with counts the start token. It counts generated tokens only.",
    ),
    Turn(
        "end-token-not-counted",
        ALONE,
        "The length you normalise with leaves out the end token. It was generated, so it counts.",
    ),
    Turn(
        "divided-by-the-plain-length",
        ALONE,
        "You normalise with a power of the length itself. The formula of length_normalised adds 5 and "
        "divides by 6: use that block.",
    ),
    Turn(
        "divided-by-the-length-of-the-list",
        ALONE,
        "You normalise with a power of the length of the whole list. Use length_normalised, and count "
        "generated tokens only.",
    ),
    Turn(
        "normalised-at-every-step",
        ALONE,
        "You normalise the sum again at every step and add to the result. Keep the plain sum beside "
        "the tokens and normalise a copy when you rank.",
    ),
    Turn(
        "finished-normalised-twice",
        ALONE,
        "Sequences that end early are normalised twice, once when they end and once more when all are "
        "ranked. Keep plain sums until the end.",
    ),
    Turn(
        "unfinished-not-normalised",
        ALONE,
        "Sequences that reach max_length keep their plain sum in your result. They are ranked with "
        "the others, so they are normalised like the others.",
    ),
    Turn(
        "plain-sums-returned",
        ALONE,
        "You rank by the normalised scores but return the plain sums. The score that comes back is the "
        "normalised one.",
    ),
    Turn(
        "ranked-by-the-plain-sum",
        ALONE,
        "You return normalised scores but rank by the plain sums. The best normalised score comes "
        "first.",
    ),
    Turn(
        "not-sorted",
        "order",
        "Your result is in the order in which the sequences came to an end. Sort it, the best first.",
    ),
    Turn(
        "worst-first",
        "order",
        "Your result has the worst sequence first. Log-probabilities are negative: the best score is "
        "the largest, nearest to zero.",
    ),
    Turn(
        "unfinished-after-finished",
        ALONE,
        "You put all finished sequences before those that reached max_length. They are ranked "
        "together, by score alone.",
    ),
    Turn(
        "finished-extended",
        "end",
        "You go on extending sequences that have ended. A beam with the end token is finished: it "
        "keeps its score and gets no further tokens.",
    ),
    Turn(
        "finished-filled-up",
        ALONE,
        "You append end tokens to sequences that have ended already, and return them. A sequence has "
        "one end token, and it is the last.",
    ),
    Turn(
        "cut-at-the-end-token-afterwards",
        ALONE,
        "You go on extending sequences that have ended, and cut them at the end token when all is "
        "over. Their scores then hold steps that are not theirs: freeze them when they end.",
    ),
    Turn(
        "first-finished-returned",
        "end",
        "You stop as soon as one sequence has ended. A longer one that is still going on may have the "
        "better score: finished sequences wait until nothing better can come.",
    ),
    Turn(
        "cut-short-at-the-first-end",
        ALONE,
        "You stop as soon as one sequence has ended, and return the others as far as they came. A "
        "longer one may have the better score: go on until no beam is left or max_length is reached.",
    ),
    Turn(
        "end-token-never-taken",
        ALONE,
        "Continuations with the end token do not appear in your result at all. They compete like the "
        "others; when chosen, they are finished and put aside.",
    ),
    Turn(
        "finished-lost",
        "end",
        "Sequences that end before max_length do not appear in your result. Put them aside when they "
        "end, and rank them with the rest.",
    ),
    Turn(
        "stops-when-the-best-ends",
        ALONE,
        "You stop when the best beam of a step has ended. Another one can still win in the end, and "
        "others belong to the result too: go on until no beam is left or max_length is reached.",
    ),
    Turn(
        "ended-outside-the-beam",
        ALONE,
        "You also collect sequences that end without being among the best of their step. Only those "
        "among the best beam_width count, or one beam would not be greedy any more.",
    ),
    Turn(
        "unfinished-lost",
        "limit",
        "Sequences that reach max_length without an end token do not appear in your result. They are "
        "taken as they are and ranked with the finished ones.",
    ),
    Turn(
        "unfinished-only-when-nothing-ended",
        ALONE,
        "You drop the sequences that reached max_length as soon as any other has ended. They are "
        "ranked together, by score alone.",
    ),
    Turn(
        "length-without-the-start",
        "limit",
        "Your sequences get one token longer than max_length. The limit counts the start token too.",
    ),
    Turn(
        "one-token-short",
        "limit",
        "Your search stops one token before max_length. Sequences may become exactly that long.",
    ),
    Turn(
        "one-beam-per-parent",
        "beam",
        "You keep one continuation of every beam. All continuations of all beams compete: the best "
        "two may well have the same parent.",
    ),
    Turn(
        "beams-chosen-by-the-last-step",
        ALONE,
        "You choose the beams by the log-probability of their last token alone. They compete by the "
        "sum of all their steps.",
    ),
    Turn(
        "first-children-kept",
        ALONE,
        "The continuations of the first beam fill the whole beam. Bring the continuations of all "
        "beams together and sort them before you keep the best.",
    ),
    Turn(
        "never-pruned",
        ALONE,
        "You keep more prefixes than beam_width. Of all continuations of all beams together, only the "
        "best beam_width go on.",
    ),
    Turn(
        "greedy",
        "beam",
        "Only one prefix goes on at every step, so beam_width makes no difference. Keep the best "
        "beam_width of them.",
    ),
    Turn(
        "worst-kept",
        ALONE,
        "You keep the least probable prefixes. Log-probabilities are negative: the best are the "
        "largest.",
    ),
    Turn(
        "one-beam-too-few",
        ALONE,
        "One beam fewer than beam_width goes on. Look at the ends of your slices.",
    ),
    Turn(
        "parent-mixed-up",
        ALONE,
        "The tokens of your sequences do not belong to their scores: a continuation was attached to "
        "another beam than its own. In the flattened table, work out again which parent and which "
        "token an index stands for.",
    ),
    Turn(
        "index-split-by-beam_width",
        ALONE,
        "You split the index of a continuation with beam_width. The flattened table has a row of "
        "vocab numbers for every beam: it is the size of the vocabulary that tells parent and token "
        "apart.",
    ),
    Turn(
        "beams-not-reordered",
        ALONE,
        "You append new tokens to the beams in their old order. When the best are chosen, each brings "
        "its own parent along: reorder the prefixes first.",
    ),
    Turn(
        "copies-of-the-start",
        ALONE,
        "You start with beam_width copies of the start token, so the same sequence fills several "
        "beams. At the first step there is one prefix only.",
    ),
    Turn(
        "only-the-last-token",
        ALONE,
        "You show step only the last token of each beam. It takes whole prefixes.",
    ),
    Turn(
        "end-token-stripped",
        "result",
        "Your sequences lack their end token. Where it was reached it is part of the list.",
    ),
    Turn(
        "start-token-stripped",
        ALONE,
        "Your sequences lack their start token. It is the first token of every list.",
    ),
    Turn(
        "all-returned",
        ALONE,
        "You return more sequences than beam_width. Only the best beam_width come back.",
    ),
    Turn(
        "leftovers-returned",
        ALONE,
        "You return more sequences than beam_width. When some end while others go on, there are more "
        "than that in the end: only the best beam_width come back.",
    ),
    Turn(
        "only-the-best-returned",
        ALONE,
        "You return the best sequence only. The result is a list of up to beam_width pairs, best "
        "first.",
    ),
    Turn(
        "one-pair-returned",
        ALONE,
        "You return a single pair. The result is a list of up to beam_width pairs (tokens, score), "
        "best first.",
    ),
    Turn(
        "scores-missing",
        ALONE,
        "You return token lists without their scores. The result is a list of pairs (tokens, score).",
    ),
    Turn(
        "score-before-tokens",
        ALONE,
        "The two parts of your pairs have changed places: the tokens come first, then the score."
        " Whoever reads them takes a score for a sequence.",
    ),
    Turn(
        "tensors-returned",
        ALONE,
        "Your pairs hold tensors. Tokens are a list of integers and the score is a plain number.",
    ),
    Turn(
        "score-is-a-tensor",
        ALONE,
        "Your scores are tensors. A score is a plain number: convert it before you return it.",
    ),
    Turn(
        "penalty-subtracted-per-token",
        ALONE,
        "You subtract the penalty once for every token. The score is the sum divided by a power of the "
        "length factor: use length_normalised.",
    ),
    Turn(
        "penalty-added-per-token",
        ALONE,
        "You add the penalty once for every token, as a reward. The score is the sum divided by a "
        "power of the length factor: use length_normalised.",
    ),
    Turn(
        "normalised-with-max_length",
        ALONE,
        "You normalise every sequence with the same length. Each is normalised with the number of its "
        "own generated tokens.",
    ),
    Turn(
        "sorted-by-tokens",
        ALONE,
        "Your result is sorted by the tokens, because they come first in the pairs. Sort by the score, "
        "the best first.",
    ),
    Turn(
        "sorted-by-tokens-falling",
        ALONE,
        "Your result is sorted by the tokens, because they come first in the pairs, the largest first. "
        "Sort by the score.",
    ),
    Turn(
        "tokens-of-the-best-returned",
        ALONE,
        "You return the tokens of the best sequence alone. The result is a list of up to beam_width "
        "pairs (tokens, score), best first.",
    ),
    Turn(
        "tokens-and-scores-apart",
        ALONE,
        "You return all token lists and all scores apart. They belong together: the result is a list "
        "of pairs (tokens, score).",
    ),
    Turn(
        "one-beam-too-many",
        ALONE,
        "One beam more than beam_width goes on. Look at the ends of your slices.",
    ),
    Turn(
        "no-limit",
        ALONE,
        "You ignore max_length. A beam that never ends would keep you in the loop forever: prefixes of "
        "max_length tokens are taken as they are.",
    ),
    Turn(
        "length-and-penalty-exchanged",
        ALONE,
        "Length and penalty have changed places when you normalise. The length comes before the "
        "penalty: give arguments by name where they are easily confused.",
    ),
    Turn(
        "prefix-is-one-row",
        ALONE,
        "You give step a single row of tokens. It takes many prefixes at once, with the axes (n, t), "
        "even where there is only one.",
    ),
    Turn(
        "prefix-is-no-integer-tensor",
        ALONE,
        "You give step lists, or tokens that are not integers. It takes an integer tensor of shape "
        "(n, t), as a model would.",
    ),
    Turn(
        "first-row-for-all",
        ALONE,
        "All beams go on with the log-probabilities of the first one. step gives a row for every "
        "prefix: each beam has its own.",
    ),
    Turn(
        "end-token-forced",
        ALONE,
        "Sequences that reach max_length get an end token from you. They are taken as they are: the "
        "model did not end them.",
    ),
    Turn(
        "costs-sorted-the-wrong-way",
        ALONE,
        "You add up costs, the negative log-probabilities, and keep the largest. The best sequence has "
        "the lowest cost; and the score that is asked for is the sum of log-probabilities itself.",
    ),
    Turn(
        "wider-than-the-vocabulary",
        ALONE,
        "Your search fails when beam_width is larger than the number of continuations, as at the "
        "first step of a small vocabulary. You cannot ask for more of the best than there are.",
    ),
    Turn(
        "stops-when-enough-have-ended",
        ALONE,
        "You stop as soon as beam_width sequences have ended. A prefix that is still growing can "
        "become better than they are: go on until none can.",
    ),
    Turn(
        "stops-by-the-score-so-far",
        ALONE,
        "You stop when the sums or scores of the unfinished prefixes are below those of the finished "
        "ones. A penalty divides by more as a prefix grows, so its score can still rise: think of the "
        "longest it could become.",
    ),
)
def beam_search(on: On) -> Any:
    def normalise(total: float, tokens: list[int], eos_id: int, penalty: float) -> float:
        length = len(tokens) - 1 + on("start-token-counted")
        if on("end-token-not-counted") and tokens[-1] == eos_id:
            length -= 1
        if on("penalty-ignored"):
            return total
        if on("divided-by-the-plain-length"):
            return float(total / max(length, 1) ** penalty)
        if on("divided-by-the-length-of-the-list"):
            return float(total / len(tokens) ** penalty)
        if on("penalty-subtracted-per-token") or on("penalty-added-per-token"):
            return total + length * (penalty if on("penalty-added-per-token") else -penalty)
        if on("length-and-penalty-exchanged"):
            return length_normalised(total, penalty, length)  # type: ignore[arg-type]
        return length_normalised(total, length, -penalty if on("penalty-sign") else penalty)

    def add(total: float, step: float, tokens: list[int], eos_id: int, penalty: float) -> float:
        if on("probabilities-summed"):
            return total + math.exp(step)
        if on("log-probabilities-multiplied"):
            return step if len(tokens) == 2 or step == -math.inf else total * step
        if on("only-the-last-step"):
            return step
        if on("end-token-not-in-the-score") and tokens[-1] == eos_id:
            return total
        if on("normalised-at-every-step"):
            return normalise(total + step, tokens, eos_id, penalty)
        return total + step

    def choose(families: list[list[Pair]], width: int) -> list[Pair]:
        """Give the continuations that compete, best first."""
        sign = 1 if on("worst-kept") or on("costs-sorted-the-wrong-way") else -1
        if on("one-beam-per-parent") and len(families) > 1:
            families = [[max(family, key=lambda pair: pair[1])] for family in families]
        every = [pair for family in families for pair in family]
        if on("wider-than-the-vocabulary") and width > len(every):
            raise RuntimeError("selected index k out of range")
        every = sorted(every, key=lambda pair: sign * pair[1])
        if on("first-children-kept"):
            every = [pair for family in families for pair in sorted(family, key=lambda p: -p[1])]
        return [pair for pair in every if pair[1] > -math.inf]

    def rows(step: Any, shown: list[list[int]]) -> list[list[float]]:
        """Ask the model about all prefixes."""
        if on("prefix-is-one-row"):
            return [step(torch.tensor(tokens)).tolist() for tokens in shown]
        if on("prefix-is-no-integer-tensor"):
            shown = step(shown)
        table: list[list[float]] = step(torch.tensor(shown)).tolist()
        return [table[0]] * len(table) if on("first-row-for-all") else table

    def attach(best: list[Pair], families: list[list[Pair]], width: int) -> list[Pair]:
        """Exchange the parents of continuations."""
        parents = [family[0][0][:-1] for family in families]
        every = {tuple(pair[0]): i for i, pair in enumerate(p for f in families for p in f)}

        def attached(place: int, tokens: list[int]) -> list[int]:
            index = every[tuple(tokens)]
            if on("index-split-by-beam_width"):
                return [*parents[index // width], index % width]
            return parents[(index if on("parent-mixed-up") else place) % len(parents)] + tokens[-1:]

        return [(attached(i, tokens), total) for i, (tokens, total) in enumerate(best)]

    def stops(ended: list[Pair], best: Pair, eos_id: int, width: int, penalty: float) -> bool:
        """Tell whether to stop although a prefix could still win."""
        if len(ended) < width:
            return False
        if on("stops-by-the-score-so-far"):
            scores = [normalise(total, tokens, eos_id, penalty) for tokens, total in ended]
            return normalise(best[1], best[0], eos_id, penalty) <= sorted(scores)[-width]
        return on("stops-when-enough-have-ended")

    def block(
        step: Any,
        bos_id: int,
        eos_id: int,
        beam_width: int,
        max_length: int,
        length_penalty: float = 0.0,
    ) -> Any:
        copies = beam_width if on("copies-of-the-start") else 1
        live: list[Pair] = [([bos_id], float(on("sum-starts-at-one")))] * copies
        ended: list[Pair] = []
        keep = beam_width - on("one-beam-too-few") + on("one-beam-too-many")
        keep = 1 if on("greedy") else max(keep, 1)
        limit = max_length + on("length-without-the-start") - on("one-token-short")
        while live and (len(live[0][0]) < limit or on("no-limit")):
            shown = [tokens[-1:] if on("only-the-last-token") else tokens for tokens, _ in live]
            families = [
                [
                    ([*tokens, token], add(total, value, [*tokens, token], eos_id, length_penalty))
                    for token, value in enumerate(row)
                ]
                for (tokens, total), row in zip(live, rows(step, shown), strict=True)
            ]
            if on("end-token-free-where-it-is-likely"):
                families = [
                    [
                        (tokens, before if tokens[-1] == eos_id else total)
                        for tokens, total in heapq.nlargest(2 * beam_width, family, lambda p: p[1])
                    ]
                    for (_, before), family in zip(live, families, strict=True)
                ]
            if on("finished-filled-up"):
                families = [
                    [([*tokens, eos_id], total)] if eos_id in tokens[1:] else family
                    for (tokens, total), family in zip(live, families, strict=True)
                ]
            ranked = choose(families, beam_width)
            if on("beams-chosen-by-the-last-step"):
                before = {tuple(tokens): total for tokens, total in live}
                ranked.sort(key=lambda pair: before[tuple(pair[0][:-1])] - pair[1])
            if any(map(on, ("parent-mixed-up", "beams-not-reordered", "index-split-by-beam_width"))):
                ranked = attach(ranked[:beam_width], families, beam_width)
            if any(
                map(on, ("finished-extended", "finished-filled-up", "cut-at-the-end-token-afterwards"))
            ):
                live = ranked[:keep]
                continue
            ends = [pair[0][-1] == eos_id for pair in ranked]
            width = len(ranked) if on("ended-outside-the-beam") else 1 if on("greedy") else beam_width
            new = [pair for pair, end in zip(ranked[:width], ends, strict=False) if end]
            if on("end-token-lost-when-it-is-put-aside"):
                before = {tuple(tokens): total for tokens, total in live}
                new = [(tokens, before[tuple(tokens[:-1])]) for tokens, _ in new]
            ended += new
            live = [pair for pair, end in zip(ranked, ends, strict=True) if not end]
            live = live if on("never-pruned") else live[:keep]
            if on("leftovers-returned"):
                live = [pair for pair in ranked[:beam_width] if pair[0][-1] != eos_id]
            if ended and on("first-finished-returned"):
                live = []
            if ended and on("cut-short-at-the-first-end"):
                break
            if on("finished-lost"):
                ended = ended if len(ranked[0][0]) == limit else []
                live = [pair for pair in ranked[:beam_width] if pair[0][-1] != eos_id]
            if ends and ends[0] and on("stops-when-the-best-ends"):
                break
            if live and stops(ended, live[0], eos_id, beam_width, length_penalty):
                live = []
        if on("end-token-never-taken"):
            ended = []
        if on("unfinished-lost") or (on("unfinished-only-when-nothing-ended") and ended):
            live = []

        def score(pair: Pair, finished: bool) -> Pair:
            tokens, total = pair
            if not on("normalised-at-every-step") and (finished or not on("unfinished-not-normalised")):
                counted = [0] * max_length if on("normalised-with-max_length") else tokens
                total = normalise(total, counted, eos_id, length_penalty)
            if on("finished-normalised-twice") and len(tokens) < max_length:
                total = normalise(total, tokens, eos_id, length_penalty)
            if on("cut-at-the-end-token-afterwards") and eos_id in tokens[1:]:
                tokens = tokens[: tokens.index(eos_id, 1) + 1]
            if on("score-is-the-mean"):
                total /= max(len(tokens) - 1, 1)
            if on("score-is-a-probability"):
                total = math.exp(total)
            return tokens, total

        def place(item: tuple[Pair, Pair, bool]) -> tuple[float, float]:
            (_, plain), (_, total), finished = item
            later = on("unfinished-after-finished") and not finished
            return float(later), -(plain if on("ranked-by-the-plain-sum") else total)

        items = [(pair, score(pair, finished), finished) for pair, finished in
                 [*((pair, True) for pair in ended), *((pair, False) for pair in live)]]  # fmt: skip
        if not on("not-sorted"):
            items.sort(key=place)
        pairs = [plain if on("plain-sums-returned") else pair for plain, pair, _ in items]
        if on("sorted-by-tokens") or on("sorted-by-tokens-falling"):
            pairs.sort(reverse=on("sorted-by-tokens-falling"))
        if not on("all-returned") and not on("leftovers-returned"):
            pairs = pairs[: 1 if on("only-the-best-returned") else beam_width]
        if on("worst-first"):
            pairs.reverse()
        if on("end-token-forced"):
            pairs = [(t if t[-1] == eos_id else [*t, eos_id], total) for t, total in pairs]
        if on("score-is-negated") or on("costs-sorted-the-wrong-way"):
            pairs = [(tokens, -total) for tokens, total in pairs]
        if on("end-token-stripped"):
            pairs = [(t[:-1] if t[-1] == eos_id else t, total) for t, total in pairs]
        if on("start-token-stripped"):
            pairs = [(tokens[1:], total) for tokens, total in pairs]
        return _packed(on, pairs)

    return block


def _packed(on: On, pairs: list[Pair]) -> Any:
    """Give the pairs in the wrong kind of box."""
    if on("one-pair-returned"):
        return pairs[0]
    if on("tokens-of-the-best-returned"):
        return pairs[0][0]
    if on("tokens-and-scores-apart"):
        return [tokens for tokens, _ in pairs], [total for _, total in pairs]
    if on("scores-missing"):
        return [tokens for tokens, _ in pairs]
    if on("score-before-tokens"):
        return [(total, tokens) for tokens, total in pairs]
    if on("score-is-a-tensor"):
        return [(tokens, torch.tensor(total, dtype=torch.float64)) for tokens, total in pairs]
    if on("tensors-returned"):
        return [(torch.tensor(tokens), torch.tensor(total)) for tokens, total in pairs]
    return pairs


@right("8.3")
def with_frozen_beams(
    step: Any, bos_id: int, eos_id: int, beam_width: int, max_length: int, length_penalty: float = 0.0
) -> Any:
    """Let finished beams keep their place and compete with the rest."""
    beams: list[Pair] = [([bos_id], 0.0)]

    def finished(tokens: list[int]) -> bool:
        return len(tokens) > 1 and tokens[-1] == eos_id

    for _ in range(max_length - 1):
        candidates = []
        for tokens, total in beams:
            if finished(tokens):
                candidates.append((tokens, total))
                continue
            row = step(torch.tensor([tokens]))[0].float()
            candidates += [([*tokens, i], total + value.item()) for i, value in enumerate(row)]
        beams = sorted(candidates, key=lambda pair: pair[1], reverse=True)[:beam_width]
        if all(finished(tokens) for tokens, _ in beams):
            break
    done = [(t, length_normalised(total, len(t) - 1, length_penalty)) for t, total in beams]
    return sorted(done, key=lambda pair: pair[1], reverse=True)


@right("8.3")
def with_beams_that_leave(
    step: Any, bos_id: int, eos_id: int, beam_width: int, max_length: int, length_penalty: float = 0.0
) -> Any:
    """Take finished sequences out of the best; those that go on are fewer at this step."""
    beams: list[Pair] = [([bos_id], 0.0)]
    done: list[Pair] = []
    while beams and len(beams[0][0]) < max_length:
        table = step(torch.tensor([tokens for tokens, _ in beams]))
        best = heapq.nlargest(
            beam_width,
            (
                (total + value, [*tokens, i])
                for (tokens, total), row in zip(beams, table.tolist(), strict=True)
                for i, value in enumerate(row)
                if value > -math.inf
            ),
        )
        done += [(tokens, total) for total, tokens in best if tokens[-1] == eos_id]
        beams = [(tokens, total) for total, tokens in best if tokens[-1] != eos_id]
    ranked = [(length_normalised(total, len(t) - 1, length_penalty), t) for t, total in done + beams]
    ranked.sort(key=lambda pair: pair[0], reverse=True)
    return [(tokens, score) for score, tokens in ranked[:beam_width]]


@right("8.3")
def with_a_narrowing_beam(
    step: Any, bos_id: int, eos_id: int, beam_width: int, max_length: int, length_penalty: float = 0.0
) -> Any:
    """Give every finished sequence one place of the beam for good, in tensors."""
    prefixes, totals = torch.full((1, 1), bos_id), torch.zeros(1, 1)
    width, done = beam_width, []
    while width and len(prefixes) and prefixes.shape[1] < max_length:
        summed = totals + step(prefixes).float()
        best, index = summed.reshape(-1).topk(min(width, summed.numel()))
        best, index = best[best > -math.inf], index[best > -math.inf]
        parent = torch.div(index, summed.shape[1], rounding_mode="floor")
        prefixes = torch.hstack([prefixes[parent], (index % summed.shape[1]).unsqueeze(1)])
        over = prefixes[:, -1] == eos_id
        done += list(zip(prefixes[over].tolist(), best[over].tolist(), strict=True))
        prefixes, totals = prefixes[~over], best[~over].unsqueeze(1)
        width -= int(over.sum())
    done += list(zip(prefixes.tolist(), totals.flatten().tolist(), strict=True))
    scored = [(t, length_normalised(total, len(t) - 1, length_penalty)) for t, total in done]
    return sorted(scored, key=lambda pair: -pair[1])[:beam_width]


@right("8.3")
def with_padded_finished_beams(
    step: Any, bos_id: int, eos_id: int, beam_width: int, max_length: int, length_penalty: float = 0.0
) -> Any:
    """Keep finished beams in the tensor: they can only be followed by end tokens, at no cost."""
    prefixes, totals = torch.tensor([[bos_id]]), torch.zeros(1)
    over = torch.zeros(1, dtype=torch.bool)
    lengths = torch.zeros(1, dtype=torch.long)
    for _ in range(max_length - 1):
        rows = step(prefixes).float()
        free = torch.full_like(rows, -math.inf)
        free[:, eos_id] = 0.0
        rows = torch.where(over[:, None], free, rows)
        summed = (totals[:, None] + rows).flatten()
        totals, index = summed.topk(min(beam_width, len(summed)))
        parent, token = index // rows.shape[1], index % rows.shape[1]
        prefixes = torch.cat([prefixes[parent], token[:, None]], dim=1)
        lengths = lengths[parent] + (~over[parent]).long()
        over = over[parent] | (token == eos_id)
        if over.all():
            break
    pairs = [
        (tokens[: length + 1], length_normalised(total, length, length_penalty))
        for tokens, length, total in zip(
            prefixes.tolist(), lengths.tolist(), totals.tolist(), strict=True
        )
    ]
    return sorted(pairs, key=lambda pair: -pair[1])


def _cut_afterwards(merge: bool) -> Any:
    """Search as if nothing ended, then cut sequences and scores at the end token."""

    def block(
        step: Any,
        bos_id: int,
        eos_id: int,
        beam_width: int,
        max_length: int,
        length_penalty: float = 0.0,
    ) -> Any:
        # The sums after every token, so that they can be cut, too.
        beams: list[tuple[list[int], list[float]]] = [([bos_id], [0.0])]
        while len(beams[0][0]) < max_length:
            table = step(torch.tensor([tokens for tokens, _ in beams])).tolist()
            every = [
                ([*tokens, token], [*sums, sums[-1] + value])
                for (tokens, sums), row in zip(beams, table, strict=True)
                for token, value in enumerate(row)
                if value > -math.inf
            ]
            beams = sorted(every, key=lambda beam: -beam[1][-1])[:beam_width]
        pairs = []
        for tokens, sums in beams:
            length = [*tokens[1:], eos_id].index(eos_id) + 1
            tokens = tokens[: length + 1]
            total = sums[len(tokens) - 1]
            pair = (tokens, length_normalised(total, len(tokens) - 1, length_penalty))
            if not merge or pair not in pairs:
                pairs.append(pair)
        return sorted(pairs, key=lambda pair: -pair[1])

    return block


wrong(
    "8.3",
    "score-cut-at-the-end-token-too",
    "You let all sequences run to max_length and cut them, with their scores, at the end token "
    "afterwards. What followed the end token has decided which of them stayed in the beam, and one "
    "sequence can come twice: put it aside when it ends.",
)(_cut_afterwards(merge=False))
wrong(
    "8.3",
    "cut-at-the-end-token-and-merged",
    "You let all sequences run to max_length, cut them at the end token afterwards and drop those that "
    "are the same then. What followed the end token has taken places in the beam: put a sequence aside "
    "when it ends.",
)(_cut_afterwards(merge=True))


@space(
    "8.4",
    Turn(
        "temperature-multiplied",
        "temperature",
        "You multiply by the temperature. A low temperature should make the distribution sharper: it "
        "stands below the fraction bar.",
    ),
    Turn(
        "temperature-ignored",
        "temperature",
        "The temperature changes nothing in your draws. It acts on the logits, before they become "
        "probabilities: a factor on probabilities is lost again when they are made to sum to one.",
    ),
    Turn(
        "temperature-after-the-nucleus",
        "temperature",
        "You choose the nucleus before the temperature has acted. The temperature comes first: the "
        "nucleus is a matter of the probabilities that you draw from.",
    ),
    Turn(
        "temperature-squared",
        ALONE,
        "The temperature acts twice in your draws. Divide the logits by it once.",
    ),
    Turn(
        "top_k-ignored",
        "top_k",
        "top_k changes nothing in your draws. All but the k most probable tokens must be ruled out "
        "before you draw.",
    ),
    Turn(
        "top_k-one-too-few",
        "top_k",
        "You keep one token fewer than top_k. The k-th best is still in: look at your comparison or "
        "at the end of your slice.",
    ),
    Turn(
        "top_k-one-too-many",
        "top_k",
        "You keep one token more than top_k. Look at your comparison or at the end of your slice.",
    ),
    Turn(
        "top_k-keeps-the-worst",
        ALONE,
        "You keep the k least probable tokens. Look at the direction of your sort.",
    ),
    Turn(
        "top_k-of-all-rows",
        ALONE,
        "Your k best tokens are those of all rows together. Every row has its own best tokens: work "
        "along the last axis only.",
    ),
    Turn(
        "one-threshold-for-all-rows",
        ALONE,
        "You compare all rows with one threshold. The k-th best logit of each row is that row's own: "
        "keep its axis.",
    ),
    Turn(
        "ruled-out-set-to-zero",
        "fill",
        "You set the logits of ruled-out tokens to zero. A logit of zero is not a probability of "
        "zero: what does the softmax make of it?",
    ),
    Turn(
        "top_p-ignored",
        "top_p",
        "top_p changes nothing in your draws. Tokens outside the nucleus must be ruled out before you "
        "draw, and it is probabilities, not logits, whose sum reaches top_p.",
    ),
    Turn(
        "top_p-ignored-beside-top_k",
        "top_p",
        "You use only one of top_k and top_p when both are given. First top_k acts, then top_p on "
        "what is left.",
    ),
    Turn(
        "nucleus-one-short",
        "top_p",
        "Your nucleus lacks the token with which the sum reaches top_p. Up to the token before it the "
        "sum is still too small, so that token belongs in.",
    ),
    Turn(
        "nucleus-can-be-empty",
        "top_p",
        "Your nucleus cuts the token with which the sum reaches top_p, and nothing is left when the "
        "first token alone is above top_p. The most probable token is always in.",
    ),
    Turn(
        "nucleus-one-too-many",
        "top_p",
        "Your nucleus has one token too many. It is complete with the first token that brings the sum "
        "to top_p.",
    ),
    Turn(
        "nucleus-goes-past-an-exact-sum",
        ALONE,
        "Where the probabilities sum to top_p exactly, your nucleus takes one token more. It is "
        "complete as soon as the sum is top_p or more: what does your comparison do with equal "
        "numbers?",
    ),
    Turn(
        "nucleus-not-sorted",
        ALONE,
        "You sum up the probabilities in the order of the vocabulary. The nucleus is made of the most "
        "probable tokens: sort first.",
    ),
    Turn(
        "nucleus-mask-not-put-back",
        ALONE,
        "You work out the nucleus in sorted order and apply it in the order of the vocabulary. Bring "
        "the one to the order of the other first.",
    ),
    Turn(
        "nucleus-mask-put-back-wrongly",
        ALONE,
        "You bring the nucleus from sorted order back to the order of the vocabulary the wrong way "
        "round. The sort tells which token stands at each place, not at which place each token "
        "stands.",
    ),
    Turn(
        "nucleus-of-the-worst",
        ALONE,
        "Your nucleus is made of the least probable tokens. Look at the direction of your sort.",
    ),
    Turn(
        "nucleus-of-the-rest",
        ALONE,
        "Your nucleus holds the share 1 - top_p instead of top_p. Look at which side of the sum you "
        "compare with.",
    ),
    Turn(
        "nucleus-inverted",
        ALONE,
        "You rule out the nucleus and keep the rest. Look at the direction of your comparison.",
    ),
    Turn(
        "nucleus-in-vocabulary-order",
        ALONE,
        "You sum up the probabilities in the order of the vocabulary and cut where the sum passes "
        "top_p. The nucleus is made of the most probable tokens: sort first.",
    ),
    Turn(
        "top_p-as-a-threshold",
        ALONE,
        "You compare the probability of each token with top_p. It is the sum over the tokens, from "
        "the most probable one on, that has to reach top_p.",
    ),
    Turn(
        "nucleus-before-top_k",
        "top_p",
        "Your nucleus is that of the full distribution. top_k acts first, and the probabilities of "
        "the tokens that it left sum to one again.",
    ),
    Turn(
        "first-row-rules",
        ALONE,
        "All rows are ruled by the best tokens of the first one. Each row has its own.",
    ),
    Turn(
        "most-probable-token",
        "draw",
        "You always take the most probable token. A token is drawn at random, each as often as its "
        "probability says.",
    ),
    Turn(
        "drawn-evenly",
        ALONE,
        "All tokens that are left come equally often in your draws. Each should come as often as its "
        "probability says.",
    ),
    Turn(
        "softmax-twice",
        ALONE,
        "You apply the softmax twice, so the distribution is much too flat. Either give logits to a "
        "softmax or probabilities to the draw.",
    ),
    Turn(
        "weights-are-not-probabilities",
        ALONE,
        "You draw with logits or log-probabilities as weights, and some are negative. Turn them into "
        "probabilities first.",
    ),
    Turn(
        "noise-is-not-gumbel",
        ALONE,
        "You add noise of the wrong kind to the logits and take the best: normal noise, or Gumbel "
        "noise with the wrong sign. Only with Gumbel noise do tokens come as often as the softmax "
        "says.",
    ),
    Turn(
        "noise-is-even",
        ALONE,
        "You add evenly distributed noise to the logits and take the best. That trick works with "
        "Gumbel noise only: two logarithms are missing.",
    ),
    Turn(
        "overflow",
        ALONE,
        "Your draw fails for large logits, because their exponential is infinite. The built-in "
        "softmax takes the maximum off first.",
    ),
    Turn(
        "softmax-over-the-rows",
        ALONE,
        "Your softmax runs over the rows, not over the vocabulary. The probabilities of each row sum "
        "to one along the last axis.",
    ),
    Turn(
        "rank-returned",
        "index",
        "You return the place of the token in your sorted list. The caller needs the token itself: "
        "look up which one stood at that place before you sorted.",
    ),
    Turn(
        "rank-among-top_k-returned",
        "index",
        "With top_k you return the place among the k best. The caller needs the token itself: look up "
        "which one stood at that place.",
    ),
    Turn(
        "rank-in-the-nucleus-returned",
        "index",
        "With top_p you return the place in the sorted list. The caller needs the token itself: look "
        "up which one stood at that place.",
    ),
    Turn(
        "one-draw-for-all-rows",
        ALONE,
        "You draw once and give the result to all rows. Every row has its own draw.",
    ),
    Turn(
        "generator-ignored",
        "generator",
        "You do not use the generator. With a generator in the same state the same tokens should be "
        "drawn again: pass it on to what draws.",
    ),
    Turn(
        "always-the-same-seed",
        ALONE,
        "You set a seed yourself, so every call draws the same. The state of the generator belongs to "
        "the caller: only draw from it.",
    ),
    Turn(
        "axis-left-over",
        ALONE,
        "Your result keeps an axis of size one for the vocabulary. One token is drawn per row, and "
        "the axis goes away.",
    ),
    Turn(
        "only-one-or-two-axes",
        ALONE,
        "Your draw fails when the logits have more than two axes. The vocabulary is the last axis, "
        "and any number of axes may stand before it.",
    ),
    Turn(
        "rows-flattened",
        ALONE,
        "Your result is flat. It has the axes of the logits, without the last one.",
    ),
    Turn(
        "logits-changed",
        ALONE,
        "You change the logits of the caller in place. Work on a copy.",
    ),
    Turn(
        "logits-changed-by-top_k",
        ALONE,
        "Where top_k rules tokens out you write into the logits, and without a temperature these are "
        "the caller's own. Make a new tensor instead of assigning to places of this one.",
    ),
    Turn(
        "logits-changed-by-top_p",
        ALONE,
        "Where top_p rules tokens out you write into the logits, and without a temperature these are "
        "the caller's own. Make a new tensor instead of assigning to places of this one.",
    ),
    Turn(
        "top_k-beyond-the-vocabulary",
        ALONE,
        "Your code fails when top_k is larger than the vocabulary. You cannot ask for more of the best "
        "than there are: then all tokens are kept.",
    ),
    Turn(
        "list-returned",
        ALONE,
        "You return a list or a plain number. The result is an integer tensor with the axes of the "
        "logits, without the last one.",
    ),
    Turn(
        "single-number-taken",
        ALONE,
        "You take a single number out of the draw, which works only for one row. The result is a "
        "tensor with one token per row.",
    ),
    Turn(
        "only-the-first-row-drawn",
        ALONE,
        "You return the token of the first row as a plain number. Every row of logits gets its "
        "token, in a tensor with the axes of the logits, without the last one.",
    ),
    Turn(
        "tokens-are-floats",
        ALONE,
        "Your tokens are floating-point numbers. They are places in the vocabulary: integers.",
    ),
    Turn(
        "drawn-evenly-with-top_k",
        ALONE,
        "With top_k the tokens that are left come equally often. They keep their probabilities, which "
        "are made to sum to one again.",
    ),
    Turn(
        "finite-fill",
        ALONE,
        "Tokens that are ruled out get a large negative logit. When all logits are lower still, they "
        "are drawn all the same: minus infinity is always lower.",
    ),
    Turn(
        "one-hot-returned",
        ALONE,
        "You return a one-hot row for every token. What is wanted is the token itself, an integer.",
    ),
    Turn(
        "negative-logits-ruled-out",
        ALONE,
        "You use the logits themselves as weights, with the negative ones set to zero. Only the "
        "softmax makes probabilities of them: a negative logit is not an impossible token.",
    ),
    Turn(
        "top_k-of-the-sorted-values",
        ALONE,
        "With top_k you draw among the k best values and return the place among them, and top_p is not "
        "looked at. The caller needs the token that stood at that place.",
    ),
    Turn(
        "probabilities-returned",
        ALONE,
        "You return probabilities. What is wanted is one token per row, drawn from them.",
    ),
)
def sample_token(on: On) -> Any:
    def cut_top_k(scaled: Tensor, top_k: int) -> Tensor:
        """Tell which of the sorted tokens go."""
        places = torch.arange(scaled.shape[-1]).expand(scaled.shape)
        if on("top_k-ignored"):
            return places < 0
        if on("top_k-keeps-the-worst"):
            return places < scaled.shape[-1] - top_k
        if on("one-threshold-for-all-rows"):
            return scaled < scaled[..., min(top_k, scaled.shape[-1]) - 1].min()
        if on("top_k-of-all-rows"):
            return scaled < torch.tensor(sorted(set(scaled.flatten().tolist()))[-top_k:][0]).to(scaled)
        return places >= top_k - on("top_k-one-too-few") + on("top_k-one-too-many")

    def cut_top_p(full: Tensor, scaled: Tensor, order: Tensor, top_p: float) -> Tensor:
        """Tell which of the sorted tokens are not in the nucleus."""
        p = (full if on("nucleus-before-top_k") else scaled).softmax(dim=-1)
        before = p.cumsum(dim=-1) - p
        if on("nucleus-not-sorted"):
            place = order.argsort(dim=-1)
            plain = p.gather(-1, place)
            before = (plain.cumsum(dim=-1) - plain).gather(-1, order)
        if on("nucleus-of-the-worst"):
            before = 1 - p.cumsum(dim=-1)
        outside = before >= (1 - top_p if on("nucleus-of-the-rest") else top_p)
        if on("nucleus-goes-past-an-exact-sum"):
            outside = before > top_p
        if on("nucleus-one-short") or on("nucleus-can-be-empty"):
            outside = before + p > top_p
        if on("nucleus-one-too-many"):
            outside = outside.roll(1, dims=-1)
        if on("top_p-as-a-threshold"):
            outside = p < top_p
        if on("nucleus-inverted"):
            return before + p < top_p
        if on("nucleus-in-vocabulary-order"):
            return (p.gather(-1, order.argsort(dim=-1)).cumsum(dim=-1) > top_p).gather(-1, order)
        if on("nucleus-mask-put-back-wrongly"):
            outside[..., 0] = False
            return outside.gather(-1, order.gather(-1, order))
        if on("nucleus-mask-not-put-back"):
            outside = outside.gather(-1, order)
        elif not on("nucleus-can-be-empty") and not on("nucleus-of-the-worst"):
            outside[..., 0] = False
        return outside

    def draw(scaled: Tensor, generator: Any) -> Tensor:
        if on("most-probable-token"):
            return scaled.argmax(dim=-1)
        if on("noise-is-not-gumbel"):
            return (scaled + torch.randn(scaled.shape, generator=generator)).argmax(dim=-1)
        if on("noise-is-even"):
            return (scaled + torch.rand(scaled.shape, generator=generator)).argmax(dim=-1)
        p = scaled.softmax(dim=0 if on("softmax-over-the-rows") else -1)
        if on("drawn-evenly"):
            p = (p > 0).float()
        if on("softmax-twice"):
            p = p.softmax(dim=-1)
        if on("overflow"):
            p = scaled.exp()
        if on("negative-logits-ruled-out"):
            p = scaled.clamp(min=0) + 1e-9
        if on("weights-are-not-probabilities"):
            p = scaled.log_softmax(dim=-1)
        if not on("only-one-or-two-axes"):
            p = p.reshape(-1, p.shape[-1])
        if on("one-draw-for-all-rows"):
            p = p[:1]
        if on("generator-ignored"):
            generator = None
        if on("always-the-same-seed"):
            generator = torch.Generator(p.device).manual_seed(0)
        drawn = torch.multinomial(p, 1, generator=generator)
        return drawn.expand(scaled.shape[:-1].numel(), 1).reshape(scaled.shape[:-1])

    def block(
        logits: Any,
        temperature: float = 1.0,
        top_k: Any = None,
        top_p: Any = None,
        generator: Any = None,
    ) -> Any:
        if on("logits-changed"):
            logits.div_(temperature)
            temperature = 1.0
        if top_k is not None and top_k > logits.shape[-1] and on("top_k-beyond-the-vocabulary"):
            raise RuntimeError("selected index k out of range")
        if on("temperature-multiplied"):
            temperature = 1 / temperature
        if on("temperature-squared"):
            temperature = temperature**2
        if on("temperature-ignored"):
            temperature = 1.0
        late = temperature if on("temperature-after-the-nucleus") else 1.0
        full, order = (logits / (temperature / late)).sort(dim=-1, descending=True, stable=True)
        cut = torch.zeros_like(full, dtype=torch.bool)
        if top_k is not None:
            cut = cut_top_k(full, top_k)
        scaled = full.masked_fill(cut, -math.inf)
        only_one = on("top_p-ignored-beside-top_k") and top_k is not None
        only_one = only_one or on("top_k-of-the-sorted-values")
        if top_p is not None and not on("top_p-ignored") and not only_one:
            cut = cut | cut_top_p(full, scaled, order, top_p)
        if on("first-row-rules"):
            gone = cut.gather(-1, order.argsort(dim=-1)).reshape(-1, cut.shape[-1])[:1]
            cut = gone.expand_as(cut.reshape(-1, cut.shape[-1])).reshape(cut.shape).gather(-1, order)
        fill = 0.0 if on("ruled-out-set-to-zero") else -1e9 if on("finite-fill") else -math.inf
        scaled = full.masked_fill(cut, fill) / late
        by_k = top_k is not None and on("logits-changed-by-top_k")
        by_p = top_p is not None and on("logits-changed-by-top_p")
        if temperature == 1.0 and (by_k or by_p):
            logits.copy_(scaled.gather(-1, order.argsort(dim=-1)))
        if on("drawn-evenly-with-top_k") and top_k is not None:
            scaled = torch.zeros_like(scaled).masked_fill(cut, -math.inf)
        if on("probabilities-returned"):
            return scaled.softmax(dim=-1).gather(-1, order.argsort(dim=-1))
        rank = draw(scaled, generator)
        token = order.gather(-1, rank.unsqueeze(-1)).squeeze(-1)
        among = on("rank-among-top_k-returned") or on("top_k-of-the-sorted-values")
        lost = (among and top_k) or (on("rank-in-the-nucleus-returned") and top_p)
        if lost or on("rank-returned"):
            token = rank
        if on("list-returned"):
            return token.tolist()
        if on("tokens-are-floats"):
            return token.float()
        if on("one-hot-returned"):
            return F.one_hot(token, logits.shape[-1])
        if on("only-the-first-row-drawn"):
            return int(token.flatten()[0])
        if on("single-number-taken"):
            return token.item()
        if on("rows-flattened"):
            return token.reshape(-1)
        return token.unsqueeze(-1) if on("axis-left-over") else token

    return block


@right("8.4")
def with_gumbel_noise(
    logits: Any, temperature: float = 1.0, top_k: Any = None, top_p: Any = None, generator: Any = None
) -> Any:
    logits = logits.double() / temperature
    if top_k is not None:
        top_k = min(top_k, logits.shape[-1])
        logits = logits.where(logits >= logits.topk(top_k).values[..., -1:], -math.inf)
    if top_p is not None:
        p, order = logits.softmax(dim=-1).sort(dim=-1)
        gone = torch.zeros_like(p, dtype=torch.bool).scatter(-1, order, p.cumsum(dim=-1) <= 1 - top_p)
        gone = gone & (logits < logits.amax(dim=-1, keepdim=True))
        logits = logits.masked_fill(gone, -math.inf)
    noise = torch.rand(logits.shape, generator=generator, dtype=logits.dtype, device=logits.device)
    return (logits - (-noise.log()).log()).argmax(dim=-1)


@right("8.4")
def with_the_inverse_of_the_sum(
    logits: Any, temperature: float = 1.0, top_k: Any = None, top_p: Any = None, generator: Any = None
) -> Any:
    p, order = F.softmax(logits.double() / temperature, dim=-1).sort(dim=-1, descending=True)
    if top_k is not None:
        p = torch.cat([p[..., :top_k], torch.zeros_like(p[..., top_k:])], dim=-1)
        p = p / p.sum(dim=-1, keepdim=True)
    if top_p is not None:
        total = p.cumsum(dim=-1)
        reached = (total >= top_p - 1e-12).int().argmax(dim=-1, keepdim=True)
        p = p * (torch.arange(p.shape[-1], device=p.device) <= reached)
    total = p.cumsum(dim=-1)
    level = torch.rand(total.shape[:-1], generator=generator, device=p.device).unsqueeze(-1)
    place = (total <= level * total[..., -1:]).sum(dim=-1, keepdim=True)
    return order.gather(-1, place.clamp(max=p.shape[-1] - 1)).squeeze(-1)


@right("8.4")
def with_a_categorical(
    logits: Any, temperature: float = 1.0, top_k: Any = None, top_p: Any = None, generator: Any = None
) -> Any:
    """Go through the rows one by one where something is to be ruled out."""
    rows = (logits / temperature).reshape(-1, logits.shape[-1]).clone()
    kinds, which = rows.unique(dim=0, return_inverse=True)
    for row in kinds:
        if top_k is not None:
            row[row.argsort(descending=True)[top_k:]] = -math.inf
        if top_p is not None:
            p, total = row.softmax(dim=0), 0.0
            for token in p.argsort(descending=True).tolist():
                if total >= top_p:
                    row[token] = -math.inf
                total += float(p[token])
    drawn = torch.multinomial(kinds.softmax(dim=-1)[which], 1, generator=generator)
    return drawn.reshape(logits.shape[:-1])


class _Unbiased(nn.Module):
    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.weight: Tensor = linear.weight

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T


@space(
    "8.5",
    Turn(
        "nothing-kept",
        "keep",
        "Each call sees only its own words. Keys and values of earlier words must be kept and put "
        "before the new ones.",
    ),
    Turn(
        "only-the-last-call-kept",
        "keep",
        "You keep only the keys and values of the last call. What is kept has to grow: store the old "
        "ones and the new ones together.",
    ),
    Turn(
        "only-the-first-call-kept",
        "keep",
        "What you keep stops growing after the first call. Store the joined keys and values again "
        "each time.",
    ),
    Turn(
        "keys-and-values-exchanged",
        "keep",
        "The kept keys are used as values, or the other way round. Look at what is stored under which "
        "name.",
    ),
    Turn(
        "keys-only",
        ALONE,
        "You keep the keys but not the values, so from the second call on there are fewer values than "
        "weights. Both are needed again.",
    ),
    Turn(
        "kept-keys-as-values",
        ALONE,
        "The kept keys are put before the new values too. Keys go with keys, values with values.",
    ),
    Turn(
        "kept-detached",
        ALONE,
        "You detach keys and values and then use the detached ones, so no gradient reaches key and "
        "value. Use what was just computed; a copy may be kept.",
    ),
    Turn(
        "empty-cache-joined",
        ALONE,
        "At the first call nothing is kept yet, and you join it all the same. None cannot be joined: "
        "look first.",
    ),
    Turn(
        "new-before-old",
        "keep",
        "You put the new keys and values before the old ones. Words stay in the order in which they "
        "came: the new ones go to the end.",
    ),
    Turn(
        "joined-along-the-heads",
        ALONE,
        "You join the old and the new keys along the wrong axis. It is the sequence that grows, and "
        "once the heads are split that is not the second axis.",
    ),
    Turn(
        "projected-twice",
        ALONE,
        "Kept keys and values go through their projection again at every call. Either keep the words "
        "and project them each time, or keep what was projected.",
    ),
    Turn(
        "appended-too-late",
        ALONE,
        "New words do not see themselves: you attend to what was kept before, and append afterwards. "
        "A word may look at itself, so append first.",
    ),
    Turn(
        "no-mask",
        "mask",
        "Words that come together in one call see each other in both directions. Among the new words "
        "the order decides: the cache gives no mask of its own.",
    ),
    Turn(
        "mask-only-on-the-first-call",
        "mask",
        "Your mask is missing when something is cached already. Several new words at once need it "
        "then, too.",
    ),
    Turn(
        "mask-from-the-top",
        "mask",
        "New words see the first words instead of all earlier ones: you took the mask's rows from the "
        "top. The new words are the last rows of the full mask.",
    ),
    Turn(
        "mask-of-the-new-words-only",
        "mask",
        "Your mask has no columns for the cached words. The new words may see all of them, and among "
        "themselves only what came before.",
    ),
    Turn(
        "one-word-too-few",
        "mask",
        "Your position is off by one: a word does not see itself. The mask's diagonal belongs in.",
    ),
    Turn(
        "one-word-too-many",
        "mask",
        "Your position is off by one: a word sees the next one of its call. Look at where the mask's "
        "rows start.",
    ),
    Turn(
        "cache-not-seen",
        ALONE,
        "Your mask hides the cached words from the new ones. Everything that was kept is earlier, so "
        "all of it may be seen.",
    ),
    Turn(
        "new-words-not-seen",
        ALONE,
        "New words see the cached ones, but neither themselves nor each other. A word may look at "
        "itself and at what came before it in the same call.",
    ),
    Turn(
        "finite-fill",
        ALONE,
        "Hidden words get a large negative score instead of minus infinity. When all other scores are "
        "lower still, the future shines through.",
    ),
    Turn(
        "mask-after-softmax",
        ALONE,
        "You hide words after the softmax, so what is left does not sum to one. Hide them before.",
    ),
    Turn(
        "past-from-the-wrong-axis",
        ALONE,
        "You read the number of cached words from the wrong axis. Once the heads are split, the axes "
        "are (batch, heads, seq, d_head).",
    ),
    Turn(
        "mask-inverted",
        ALONE,
        "Your mask hides what came before and shows what comes later. True means that a word may be "
        "seen.",
    ),
    Turn(
        "passed-mask-used",
        "mask",
        "You use the mask that was passed instead of your own. It is there so that this block can "
        "stand in the place of another; what may be seen follows from the order alone.",
    ),
    Turn(
        "passed-mask-added",
        ALONE,
        "You combine your mask with the one that was passed. That one is not used: what may be seen "
        "follows from the order alone.",
    ),
    Turn(
        "query-for-all",
        "inputs",
        "You project the query three times. Keys come from the key and values from the value.",
    ),
    Turn(
        "key-for-value",
        ALONE,
        "You project the key for the values too. The three inputs may differ.",
    ),
    Turn(
        "w_q-for-keys",
        "projection",
        "The keys go through the projection of the queries. Each of the three has its own.",
    ),
    Turn(
        "w_k-for-values",
        ALONE,
        "The values go through the projection of the keys. Each of the three has its own.",
    ),
    Turn(
        "keys-not-projected",
        ALONE,
        "The keys are not projected before they are kept. Only the query is, so the two do not fit "
        "each other.",
    ),
    Turn(
        "w_k-and-w_v-exchanged",
        ALONE,
        "The projections of keys and values have changed places."
        " Keys are compared with queries and values are mixed: look at what goes where.",
    ),
    Turn(
        "nothing-projected",
        ALONE,
        "Queries, keys and values are not projected at all. Each goes through its own linear layer of "
        "the attention first.",
    ),
    Turn(
        "bias-missing",
        ALONE,
        "You multiply by the weights of the projections and leave out their biases. Call the layers "
        "themselves.",
    ),
    Turn(
        "w_o-missing",
        "output",
        "The last projection is missing. It mixes what the heads found.",
    ),
    Turn(
        "merged-by-a-reshape",
        "output",
        "The heads are merged by a plain reshape, so numbers of different words are mixed. Bring the "
        "words before the heads first.",
    ),
    Turn(
        "no-heads",
        "heads",
        "You attend with one wide head. Split queries, keys and values into the heads of the "
        "attention.",
    ),
    Turn(
        "split-by-a-reshape",
        ALONE,
        "The heads are split by a plain reshape, so words are mixed. First cut the last axis, then "
        "move the heads.",
    ),
    Turn(
        "no-scale",
        "scale",
        "Your scores are not divided by the root of the head's width. The full pass does so.",
    ),
    Turn(
        "scaled-by-d_model",
        ALONE,
        "You scale by the width of the model. It is the width of one head that counts.",
    ),
    Turn(
        "softmax-over-queries",
        ALONE,
        "Your softmax runs over the queries. The weights of each query sum to one over the keys.",
    ),
    Turn(
        "weights-of-the-new-words-only",
        ALONE,
        "You return only the weights over the new words. They are asked for over all words so far.",
    ),
    Turn(
        "weights-averaged",
        ALONE,
        "You return the mean of the weights over the heads. Every head's weights are asked for.",
    ),
    Turn(
        "only-the-output",
        ALONE,
        "You return the output only. The weights of the new words come with it.",
    ),
    Turn(
        "weights-first",
        ALONE,
        "Output and weights have changed places. The output comes first.",
    ),
    Turn(
        "weights-of-the-last-word-only",
        ALONE,
        "You return the weights of the last new word only. Every new word has its own.",
    ),
    Turn(
        "cache-returned-too",
        ALONE,
        "You return what is kept as a third result. The cache stays inside the block: output and "
        "weights come back.",
    ),
    Turn(
        "cache-returned-for-the-weights",
        ALONE,
        "Your second result is what is kept. The cache stays inside the block: the weights are asked "
        "for.",
    ),
    Turn(
        "residual-added",
        ALONE,
        "You add the query to the output. The residual connection is not part of attention: it is the "
        "layer around it that adds.",
    ),
    Turn(
        "mask-of-all-words",
        ALONE,
        "Your mask has a row for every word so far. Only the new words ask: take the rows that are "
        "theirs.",
    ),
    Turn(
        "query-and-key-exchanged",
        ALONE,
        "Queries and keys have changed places. The new words ask, and all words so far are asked.",
    ),
    Turn(
        "all-words-answered",
        ALONE,
        "You return outputs for the cached words too. Only the new words ask.",
    ),
    Turn(
        "only-the-last-word-answered",
        ALONE,
        "You return the output of the last new word only. All words of a call get an answer.",
    ),
    Turn(
        "gradient-cut",
        "gradient",
        "No gradient gets through: the result is cut off by no_grad, detach or the like. This block "
        "must be usable in training too.",
    ),
    Turn(
        "cache-shared",
        ALONE,
        "What one cache keeps shows up in another one. Keys and values belong to the instance, not to "
        "the class or to the attention it was made from.",
    ),
)
def cached_attention(on: On) -> Any:
    class Cached(CachedAttention):
        def join(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
            store: Any = self.attention if on("cache-shared") else self
            past = None if on("nothing-kept") else getattr(store, "kept", None)
            new = (k, v)
            if on("empty-cache-joined") and past is None:
                k = torch.cat([past, k])  # type: ignore[list-item]
            if past is not None:
                if on("projected-twice"):
                    old_k, old_v = (merge_heads(old) for old in past)
                    n_heads = self.attention.n_heads
                    past = (
                        split_heads(self.attention.w_k(old_k), n_heads),
                        split_heads(self.attention.w_v(old_v), n_heads),
                    )
                old_k, old_v = reversed(past) if on("keys-and-values-exchanged") else past
                axis = 1 if on("joined-along-the-heads") else -2
                pairs = [(k, old_k), (v, old_v)] if on("new-before-old") else [(old_k, k), (old_v, v)]
                k, v = (torch.cat(pair, dim=axis) for pair in pairs)
                if on("keys-only"):
                    v = new[1]
                if on("kept-keys-as-values"):
                    v = torch.cat([old_k, new[1]], dim=-2)
            if on("kept-detached"):
                k, v = k.detach(), v.detach()
            if not (on("only-the-first-call-kept") and past is not None):
                store.__dict__["kept"] = new if on("only-the-last-call-kept") else (k, v)
            if on("appended-too-late") and past is not None:
                return old_k, old_v
            return k, v

        def allowed(self, new: int, total: int, mask: Any) -> Any:
            full, past = causal_mask(total), total - new
            if on("no-mask") or (on("mask-only-on-the-first-call") and past):
                return None
            if on("appended-too-late") and past > 0:
                return causal_mask(total + new)[-new:, :total]
            if on("passed-mask-used") and mask is not None:
                return mask
            if on("passed-mask-added") and mask is not None:
                return full[-new:] & mask
            if on("past-from-the-wrong-axis"):
                return torch.ones(new, total).tril(self.attention.n_heads if past else 0).bool()
            if on("new-words-not-seen"):
                return (torch.arange(total) < past).expand(new, total)
            if on("mask-of-all-words"):
                return full
            if on("mask-from-the-top"):
                return full[:new]
            if on("mask-of-the-new-words-only"):
                return causal_mask(new)
            if on("one-word-too-few"):
                return torch.ones(new, total).tril(past - 1).bool()
            if on("one-word-too-many"):
                return torch.ones(new, total).tril(past + 1).bool()
            if on("cache-not-seen"):
                return full[-new:].triu(past - new + 1) & (torch.arange(total) >= past)
            return ~full[-new:] if on("mask-inverted") else full[-new:]

        def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not on("gradient-cut")):
                return self.answer(query, key, value, mask)

        def answer(self, query: Any, key: Any, value: Any, mask: Any) -> Any:
            inner = self.attention
            if on("query-for-all"):
                key = value = query
            if on("key-for-value"):
                value = key
            if on("all-words-answered"):
                query = torch.cat([*self.__dict__.get("asked", []), query], dim=1)
                self.__dict__["asked"] = [query]

            def split(x: Tensor) -> Tensor:
                heads = 1 if on("no-heads") else inner.n_heads
                if on("split-by-a-reshape"):
                    return x.reshape(x.shape[0], heads, x.shape[1], -1)
                return split_heads(x, heads)

            w_q: nn.Module = inner.w_q
            w_k: nn.Module = inner.w_q if on("w_q-for-keys") else inner.w_k
            w_v: nn.Module = inner.w_k if on("w_k-for-values") else inner.w_v
            if on("w_k-and-w_v-exchanged"):
                w_k, w_v = w_v, w_k
            if on("nothing-projected"):
                w_q = w_k = w_v = nn.Identity()
            if on("keys-not-projected"):
                w_k = nn.Identity()
            w_o: nn.Module = inner.w_o
            if on("bias-missing"):
                w_q, w_k, w_v, w_o = (_Unbiased(w) for w in (w_q, w_k, w_v, w_o))
            q, k, v = split(w_q(query)), split(w_k(key)), split(w_v(value))
            k, v = self.join(k, v)
            if on("no-scale"):
                q = q * math.sqrt(q.shape[-1])
            if on("scaled-by-d_model"):
                q = q * math.sqrt(q.shape[-1] / query.shape[-1])
            visible = self.allowed(q.shape[-2], k.shape[-2], mask)
            if on("query-and-key-exchanged"):
                q, k, visible = k, q, visible.mT
            output, weights = scaled_dot_product_attention(q, k, v, visible)
            if any(map(on, ("finite-fill", "mask-after-softmax", "softmax-over-queries"))):
                scores = q @ k.mT / math.sqrt(q.shape[-1])
                if not on("mask-after-softmax"):
                    scores = scores.masked_fill(~visible, -1e9 if on("finite-fill") else -math.inf)
                weights = scores.softmax(dim=-2 if on("softmax-over-queries") else -1).nan_to_num()
                if on("mask-after-softmax"):
                    weights = weights * visible
                output = weights @ v
            if on("merged-by-a-reshape"):
                output = output.reshape(query.shape[0], query.shape[1], -1)
            else:
                output = merge_heads(output)
            output = output if on("w_o-missing") else w_o(output)
            if on("weights-of-the-new-words-only"):
                weights = weights[..., -q.shape[-2] :]
            if on("weights-averaged"):
                weights = weights.mean(dim=1)
            if on("only-the-last-word-answered"):
                output, weights = output[:, -1:], weights[:, :, -1:]
            if on("residual-added"):
                output = output + query
            if on("weights-of-the-last-word-only"):
                weights = weights[:, :, -1:]
            if on("cache-returned-too"):
                return output, weights, (k, v)
            if on("cache-returned-for-the-weights"):
                return output, (k, v)
            if on("only-the-output"):
                return output
            return (weights, output) if on("weights-first") else (output, weights)

    return Cached


@right("8.5")
class KeepsWords(CachedAttention):
    """Keep the inputs and run the full pass again."""

    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        if self.keys is not None and self.values is not None:
            key = torch.cat([self.keys, key], dim=1)
            value = torch.cat([self.values, value], dim=1)
        self.keys, self.values = key, value
        new, total = query.shape[1], key.shape[1]
        places = torch.arange(total, device=query.device)
        return self.attention(query, key, value, places <= places[total - new :, None])


@right("8.5")
class KeepsProjections(CachedAttention):
    """Keep the projections before the heads are split, and use the built-in attention."""

    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        inner = self.attention
        k, v = inner.w_k(key), inner.w_v(value)
        if self.keys is not None and self.values is not None:
            k, v = torch.cat([self.keys, k], dim=1), torch.cat([self.values, v], dim=1)
        self.keys, self.values = k, v
        q, k, v = (split_heads(x, inner.n_heads) for x in (inner.w_q(query), k, v))
        new, total = q.shape[-2], k.shape[-2]
        hidden = torch.ones(new, total, device=q.device).triu(total - new + 1).bool()
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=~hidden)
        bias = torch.zeros(new, total, dtype=q.dtype, device=q.device).masked_fill(hidden, -math.inf)
        weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + bias).softmax(dim=-1)
        return inner.w_o(output.transpose(1, 2).flatten(2)), weights


@right("8.5")
class KeepsListsOfWords(CachedAttention):
    """Go word by word, with keys and values in lists, and einsum."""

    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        inner = self.attention
        past: list[tuple[Tensor, Tensor]] = self.__dict__.setdefault("past", [])
        q, k, v = (
            x.unflatten(-1, (inner.n_heads, -1))
            for x in (inner.w_q(query), inner.w_k(key), inner.w_v(value))
        )
        outputs, weights = [], []
        total = len(past) + q.shape[1]
        for i in range(q.shape[1]):
            past.append((k[:, i], v[:, i]))
            keys = torch.stack([old for old, _ in past], dim=1)
            values = torch.stack([old for _, old in past], dim=1)
            scores = torch.einsum("bhd,bthd->bht", q[:, i], keys) * q.shape[-1] ** -0.5
            share = scores.softmax(dim=-1)
            outputs.append(torch.einsum("bht,bthd->bhd", share, values).flatten(1))
            weights.append(F.pad(share, (0, total - share.shape[-1])))
        return inner.w_o(torch.stack(outputs, dim=1)), torch.stack(weights, dim=2)


for _exercise in ("8.1", "8.2", "8.3", "8.4", "8.5"):
    slips(_exercise, "nothing-returned", "in-a-tuple")
slips("8.4", "as-an-array", "axis-in-front", "only-the-first", "one-number", "rows-reversed")
slips(
    "8.5",
    *("as-an-array", "in-half-precision", "always-float64", "axis-in-front", "squeezed"),
    *("only-the-first", "all-axes-flattened", "sign-turned", "all-zero", "through-numpy"),
)
slips("8.5", *ENDINGS, first=True, treated=("query", "key", "value"))


@wrong(
    "8.2",
    "plain-length-plus-one",
    "You use the length plus one as the base. The formula adds 5 and divides by 6, which is gentler to "
    "short sentences.",
)
def plain_length_plus_one(score: float, length: int, penalty: float) -> float:
    return float(score / (length + 1) ** penalty)
