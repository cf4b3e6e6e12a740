"""Language models: what they are fed, how they are measured, and the bars they must beat."""

import math
from collections import Counter, defaultdict

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lab_transformer._checks import check_shapes
from lab_transformer._token_checks import check_counts, check_tokens


#: id = "10.6"
#: title = "A batch for predicting the next token"
#: points = 4
#: difficulty = 2
#: minutes = 20
#: needs = []
#: hints = [
#:     "Where may a piece start, so that its last token still has a successor?",
#:     "Draw a start for each row, cut out the piece, and cut once more one place further on.",
#:     "randint excludes its upper end: what is the first start that is too late?",
#: ]
def next_token_batch(
    tokens: Int[Tensor, "length"],
    batch: int,
    context: int,
    generator: torch.Generator,
) -> tuple[Int[Tensor, "batch context"], Int[Tensor, "batch context"]]:
    """Cut pieces out of a text, and beside each the tokens that follow.

    Each row is `context` neighbouring tokens of the text. Its target at every
    place is the token that comes next in the text. Rows start anywhere, each
    independently of the others and every start as likely as any other: the
    first is 0, the last is the last one whose targets are all in the text. All
    randomness comes from the generator. Both results keep the dtype of the
    tokens.
    """
    check_shapes(tokens=(tokens, "length"))
    check_counts(batch=batch, context=context)
    if len(tokens) < context + 1:
        raise ValueError(
            f"a piece of {context} tokens and the one after it need "
            f"{context + 1} tokens, but the text has {len(tokens)}"
        )
    ### BEGIN SOLUTION
    starts = torch.randint(
        len(tokens) - context,
        (batch, 1),
        generator=generator,
        device=generator.device,
    )
    places = starts.to(tokens.device) + torch.arange(
        context,
        device=tokens.device,
    )
    return tokens[places], tokens[places + 1]
    ### END SOLUTION


def _check_batches(losses: list[float], tokens: list[int]) -> None:
    """Raise a ValueError unless every batch has its loss and its count."""
    if len(losses) != len(tokens) or not losses:
        raise ValueError(
            "each batch has one loss and one number of tokens, "
            f"but there are {len(losses)} losses and {len(tokens)} numbers"
        )
    check_counts(**{f"tokens[{i}]": count for i, count in enumerate(tokens)})
    for i, loss in enumerate(losses):
        if not loss >= 0:
            raise ValueError(f"losses[{i}] is {loss}, but no loss is below 0")


#: id = "10.8"
#: title = "Bits per byte"
#: points = 3
#: difficulty = 2
#: minutes = 15
#: needs = []
#: hints = [
#:     "Of two tokenizers one makes fewer tokens of a text: whose loss per token is larger?",
#:     "What did the whole text cost? A batch of many tokens has a larger part in it than a small one.",
#:     "Add up loss times count; divide by log(2), as nats are no bits, and by the bytes.",
#: ]
def bits_per_byte(
    losses: list[float],
    tokens: list[int],
    n_bytes: int,
) -> float:
    """Say how many bits a model needs for one byte of a text.

    The text was scored in batches of different sizes. `losses` are their mean
    losses per token, in nats, as F.cross_entropy gives them; `tokens` are their
    numbers of tokens; `n_bytes` is the length of the whole text in bytes. You
    may take it that all sums are finite.
    """
    _check_batches(losses, tokens)
    check_counts(n_bytes=n_bytes)
    ### BEGIN SOLUTION
    nats = sum(n * loss for n, loss in zip(tokens, losses, strict=True))
    return nats / math.log(2) / n_bytes
    ### END SOLUTION


#: id = "10.9"
#: title = "Perplexity"
#: points = 2
#: difficulty = 1
#: minutes = 10
#: needs = []
#: hints = [
#:     "A model that hesitates between k tokens has the loss log k: which function gives k back?",
#:     "First one mean over all tokens of all batches, and only then that function.",
#:     "math.exp of (the sum of loss times count) over (the sum of counts).",
#: ]
def perplexity(losses: list[float], tokens: list[int]) -> float:
    """Say between how many tokens, equally likely, a model hesitates.

    It is exp of the mean loss per token of the whole text. The text was scored
    in batches of different sizes: `losses` are their mean losses per token, in
    nats, as F.cross_entropy gives them; `tokens` are their numbers of tokens.
    You may take it that the result is finite.
    """
    _check_batches(losses, tokens)
    ### BEGIN SOLUTION
    nats = sum(n * loss for n, loss in zip(tokens, losses, strict=True))
    return math.exp(nats / sum(tokens))
    ### END SOLUTION


#: id = "10.10"
#: title = "The bar to beat: a bigram model"
#: points = 4
#: difficulty = 2
#: minutes = 20
#: needs = []
#: hints = [
#:     "How often did b come after a, and how often did anything come after a?",
#:     "Count pairs into a square, a row for each first token; add the smoothing; divide each row.",
#:     "Pairs are tokens[:-1] with tokens[1:]; an index a * vocab_size + b makes one count of both.",
#: ]
def bigram_model(
    tokens: Int[Tensor, "length"],
    vocab_size: int,
    smoothing: float,
) -> Float[Tensor, "vocab vocab"]:
    """Estimate from a text which token comes after which.

    Row a, column b of the result is the probability that b comes next after a.
    It is how often b follows a in the text, with `smoothing` added to the count
    of every pair of the vocabulary, as a share of its row. A row with nothing
    in it (no smoothing, and a token that is followed by none) gives every token
    the same probability. The result is float32 or float64.
    """
    check_shapes(tokens=(tokens, "length"))
    check_counts(vocab_size=vocab_size)
    check_tokens(tokens, vocab_size)
    if not 0 <= smoothing < math.inf:
        raise ValueError(f"smoothing is 0 or more, it is {smoothing}")
    ### BEGIN SOLUTION
    pairs = tokens[:-1].long() * vocab_size + tokens[1:].long()
    counts = torch.bincount(pairs, minlength=vocab_size**2)
    counts = counts.reshape(vocab_size, vocab_size) + smoothing
    totals = counts.sum(dim=-1, keepdim=True)
    return (counts / totals).where(totals > 0, 1 / vocab_size)
    ### END SOLUTION


class NGram:
    """A model that counts what followed the last n - 1 tokens, and backs off.

    Where a context was seen c times before t different tokens, its own counts weigh c / (c + t), and
    the context that is shorter by its first token has the rest (Witten and Bell). The shortest context
    is empty, and behind it every token of the vocabulary is equally likely. So every token has a
    probability, and a context that was never seen leaves everything to the shorter one.
    """

    def __init__(self, tokens: Int[Tensor, "length"], vocab_size: int, n: int = 3) -> None:
        check_shapes(tokens=(tokens, "length"))
        check_counts(vocab_size=vocab_size, n=n)
        check_tokens(tokens, vocab_size)
        self.vocab_size, self.n = vocab_size, n
        self.counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        text = tokens.tolist()
        for place, token in enumerate(text):
            for length in range(min(n - 1, place) + 1):
                self.counts[tuple(text[place - length : place])][token] += 1
        self.totals = {context: followers.total() for context, followers in self.counts.items()}

    def probability(self, context: tuple[int, ...], token: int) -> float:
        """Give the probability of a token after its context, of which the last n - 1 tokens count."""
        context = context[max(0, len(context) - self.n + 1) :]
        found = 1 / self.vocab_size
        for length in range(len(context) + 1):
            followers = self.counts.get(context[len(context) - length :])
            if followers is None:
                break  # what was not seen was not seen with more before it
            different = len(followers)
            total = self.totals[context[len(context) - length :]]
            found = (followers[token] + different * found) / (total + different)
        return found

    def losses(self, tokens: Int[Tensor, "length"]) -> Float[Tensor, "length"]:
        """Give the loss of every token of a text after those before it, in nats."""
        check_shapes(tokens=(tokens, "length"))
        check_tokens(tokens, self.vocab_size)
        text = tokens.tolist()
        found = [
            -math.log(self.probability(tuple(text[max(0, place - self.n + 1) : place]), token))
            for place, token in enumerate(text)
        ]
        return torch.tensor(found)
