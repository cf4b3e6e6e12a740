# %% [markdown]
# # Notebook 8: Choosing words
#
# A trained model gives probabilities for the next word, never a sentence. How does one choose, word
# after word, and is the best word at each step the way to the best sentence? You build greedy search,
# beams and sampling, find where each fails, and a cache that makes all of them faster without changing
# a number. The [chapter](../book/08_beam_search.md) tells the story.

# %%
# %load_ext lab_check

# %%
import heapq
import itertools
import math
import random
import re
import textwrap
import time
from collections import Counter
from pydoc_data.topics import topics

import ipywidgets
import matplotlib.pyplot as plt
import torch

from lab_transformer import (
    attention,
    decoding,
    generation,
    loss,
    masking,
    transformer,
)
from lab_transformer.notebook import compare, progress

torch.set_num_threads(1)


# %% [markdown]
# A model made of a small tree, so that every probability can be checked by hand. A model is anything
# that takes prefixes `(n, t)` and gives log-probabilities `(n, vocab)`.

# %%
TREE = {
    "": {"the": 0.6, "a": 0.4},
    "the": {"dog": 0.4, "cat": 0.35, "bird": 0.25},
    "a": {"dog": 0.9, "cat": 0.1},
    "the dog": {"barks": 0.55, "sleeps": 0.45},
    "the cat": {"sleeps": 0.6, "purrs": 0.4},
    "the bird": {"sings": 1.0},
    "a dog": {"barks": 0.8, "sleeps": 0.2},
    "a cat": {"purrs": 1.0},
}
WORDS = ["<start>", "<end>", *dict.fromkeys(itertools.chain(*TREE.values()))]
START, END = 0, 1


def words(tokens):
    """Write tokens as words, without start and end."""
    middle = [token for token in tokens if token not in (START, END)]
    return " ".join(WORDS[token] for token in middle)


def step(prefixes):
    """Give the log-probabilities of the next word.

    What the tree does not name ends there.
    """
    rows = []
    for prefix in prefixes.tolist():
        chances = TREE.get(words(prefix), {"<end>": 1.0})
        rows.append([chances.get(word, 0.0) for word in WORDS])
    return torch.tensor(rows).log()


def probability(tokens):
    """Multiply the probabilities along a sentence."""
    total = 0.0
    for end in range(1, len(tokens)):
        total += step(torch.tensor([tokens[:end]]))[0, tokens[end]].item()
    return math.exp(total)


# %% [markdown]
# ## 8.1 Greedy decoding
#
# Start with the start token, ask for the next word, append the most probable one, repeat. It ends with
# the end token or at `max_length` tokens, start token included.
#
# In scope in all cells of this week: `torch`, `math`, `Tensor`, and `Step`, the type of such a model.


# %%
# %%exercise 8.1
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
    raise NotImplementedError("Exercise 8.1: Greedy decoding")


# %% [markdown]
# **Predict, run, explain.** Look at the tree above. Which sentence does greedy choose, and which one is
# the most probable of all?

# %%
my_prediction = None  # such as ("the cat purrs", "the cat sleeps")

# %%
greedy = decoding.greedy_decode(step, START, END, max_length=5)
triples = itertools.product(range(2, len(WORDS)), repeat=3)
everything = [[START, *triple, END] for triple in triples]
best, second = sorted(everything, key=probability, reverse=True)[:2]
named = {"greedy": greedy, "most probable": best, "second": second}
for name, tokens in named.items():
    print(f"{name:>13}: {words(tokens)}, probability {probability(tokens):.3f}")
compare(my_prediction, (words(greedy), words(best)))


# %% [markdown]
# The first step looked good and led into a region where probability is spread thin.
#
# ## 8.2 The length penalty
#
# Log-probabilities are negative and add up, so every further word costs. A score that is divided by a
# growing number makes long and short sentences comparable. The length counts generated tokens, the end
# token included.


# %%
# %%exercise 8.2
def length_normalised(score: float, length: int, penalty: float) -> float:
    """Divide a sum of log-probabilities by ((5 + length) / 6) ** penalty.

    The length counts generated tokens: the end token is one of them, the start
    token is not.
    """
    raise NotImplementedError("Exercise 8.2: The length penalty")


# %%
print("penalty   3 tokens, sum -3   8 tokens, sum -4.5")
for penalty in (0.0, 0.6, 1.0):
    short = decoding.length_normalised(-3.0, 3, penalty)
    long = decoding.length_normalised(-4.5, 8, penalty)
    print(f"{penalty:7}   {short:16.2f}   {long:18.2f}")


# %% [markdown]
# ## 8.3 Beam search
#
# Keep several prefixes instead of one. All their continuations compete by the sum of log-probabilities;
# two winners may have the same parent. What has ended is put aside, never extended. The result is a
# list of (tokens, score), best first.
#
# In scope: `length_normalised` from 8.2.


# %%
# %%exercise 8.3
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
    raise NotImplementedError("Exercise 8.3: Beam search")


# %%
for width in (1, 2, 4):
    print(f"width {width}")
    found = decoding.beam_search(step, START, END, width, max_length=5)
    for tokens, score in found:
        print(f"   {math.exp(score):.3f}  {words(tokens)}")

# %% [markdown]
# Width 1 is greedy; width 2 finds the winner, but not the second best: "the bird" fell out at step 2.
# Only width 4 ranks it right.
#
# ### The truth, for comparison
#
# Sums of log-probabilities only fall. So always go on with the most probable prefix of all: the first
# one that is finished when its turn comes is the most probable sentence, for certain.


# %%
def exact_search(step, start, end, max_length):
    """Find the most probable sentence and its log-probability.

    Gives also how many prefixes it had to ask about.
    """
    queue, asked = [(0.0, [start])], 0
    while True:
        cost, tokens = heapq.heappop(queue)
        if len(tokens) == max_length or (len(tokens) > 1 and tokens[-1] == end):
            return tokens, -cost, asked
        asked += 1
        log_probabilities = step(torch.tensor([tokens]))[0].tolist()
        for token, gain in enumerate(log_probabilities):
            if gain > -math.inf:
                heapq.heappush(queue, (cost - gain, [*tokens, token]))


tokens, total, asked = exact_search(step, START, END, 5)
print(f"{words(tokens)}, probability {math.exp(total):.3f}, ", end="")
print(f"after asking about {asked} prefixes")

# %% [markdown]
# A wider beam finds more probable sentences. Are they better ones?
#
# **Predict, run, explain.** A model of one word, "very": after each it goes on with probability 0.8 and
# ends with 0.2, at most ten tokens. Without a length penalty, how many tokens has the winner of a wide
# beam, start and end included? And with penalty 1?

# %%
my_prediction = None  # such as (10, 10)


# %%
def chatter(prefixes):
    """Go on with probability 0.8, end with 0.2."""
    return torch.tensor([0.0, 0.2, 0.8]).log().expand(len(prefixes), 3)


print("width   tokens   tokens with penalty 1")
for width in (1, 12):  # there are fewer than 12 sentences: none falls out
    lengths = []
    for penalty in (0.0, 1.0):
        found = decoding.beam_search(chatter, START, END, width, 10, penalty)
        lengths.append(len(found[0][0]))
    print(f"{width:5}   {lengths[0]:6}   {lengths[1]:21}")
compare(my_prediction, tuple(lengths))

# %% [markdown]
# On average this model says four words. Its most probable sentence has none.
#
# ### A translator that falls silent
#
# Now a trained one, of your own blocks: lists of English adjectives into Italian. Most words have
# several good translations, and 10 of 100 training pairs break off early, as in corpora from the web. A
# translation is right when every word is rendered by one of its synonyms, in order. (Training takes
# about ten seconds.)

# %%
SYNONYMS = {
    "beautiful": ["bello", "stupendo", "splendido", "magnifico"],
    "big": ["grande", "grosso", "enorme"],
    "small": ["piccolo", "minuto"],
    "happy": ["felice", "contento", "lieto", "allegro"],
    "sad": ["triste", "mesto"],
    "fast": ["veloce", "rapido", "svelto"],
    "clever": ["intelligente", "furbo", "sveglio"],
    "tired": ["stanco", "esausto"],
    "calm": ["calmo", "tranquillo", "sereno", "quieto"],
    "strange": ["strano", "bizzarro", "curioso", "insolito"],
    "old": ["vecchio", "anziano"],
    "poor": ["povero"],
}
ENGLISH = ["<pad>", *SYNONYMS]
ITALIAN = ["<pad>", "<start>", "<end>", *itertools.chain(*SYNONYMS.values())]
PAD, GO, STOP = 0, 1, 2


def make_pair(rng, broken):
    """Draw a list and a translation; a broken one stops too early."""
    english = rng.choices(ENGLISH[1:], k=rng.randint(2, 9))
    italian = [rng.choice(SYNONYMS[word]) for word in english]
    if rng.random() < broken:
        italian = italian[: rng.randrange(len(english))]
    source = [ENGLISH.index(word) for word in english]
    target = [ITALIAN.index(word) for word in italian]
    return source, [*target, STOP]


def padded(rows):
    """Make rows equally long."""
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def is_right(source, tokens):
    """Tell whether every word is rendered by one of its synonyms, in order."""
    italian = [ITALIAN[token] for token in tokens if token not in (GO, STOP)]
    if len(italian) != len(source):
        return False
    both = zip(source, italian, strict=True)
    return all(word in SYNONYMS[ENGLISH[token]] for token, word in both)


def asking(source):
    """Encode a list once; give the step that continues its translation."""
    with torch.no_grad():
        memory, memory_mask = model.encode(torch.tensor([source]))

    @torch.no_grad()
    def ask(prefixes):
        copies = memory.expand(len(prefixes), -1, -1)
        logits, _ = model.decode(prefixes, copies, memory_mask)
        logits[..., PAD] = -math.inf
        return logits[:, -1].log_softmax(dim=-1)

    return ask


# %%
torch.manual_seed(0)
rng = random.Random(0)
model = transformer.Transformer(
    len(ENGLISH), len(ITALIAN), n_layers=1, d_model=48, n_heads=4, d_ff=96
)
optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
for number in progress(range(450), "training"):
    rate = 3e-3 * min((number + 1) / 50, 1.02 - number / 450)
    optimizer.param_groups[0]["lr"] = rate
    batch = [make_pair(rng, broken=0.1) for _ in range(48)]
    source = padded([source for source, _ in batch])
    target = padded([target for _, target in batch])
    answer = model(source, loss.shift_right(target, GO))
    value = loss.sequence_loss(answer, target, PAD)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
_ = model.eval()

# %% [markdown]
# **Predict, run, explain.** Forty new lists, searched with wider and wider beams. Which width gets the
# most lists right, 1, 2, 4, 16 or 64? And which the fewest?

# %%
my_prediction = None  # such as (64, 1)

# %% tags=["nbval-ignore-output"]
rng = random.Random(1)
lists = [make_pair(rng, broken=0.0)[0] for _ in range(40)]
WIDTHS = (1, 2, 4, 16, 64)


def search(width, penalty):
    """Translate all lists.

    Gives the mean score, and how many translations are right, and empty.
    """
    scores, right, silent = [], 0, 0
    for source in lists:
        ask = asking(source)
        found = decoding.beam_search(ask, GO, STOP, width, 13, penalty)
        tokens, score = found[0]
        scores.append(score)
        right += is_right(source, tokens)
        silent += len(tokens) == 2
    return sum(scores) / len(scores), right, silent


plain = {width: search(width, 0.0) for width in WIDTHS}
penalised = {width: search(width, 1.0) for width in WIDTHS}
print("        no penalty                      penalty 1")
print("width   log-probability  right  empty   right  empty")
for width in WIDTHS:
    score, right, empty = plain[width]
    print(f"{width:5}   {score:15.2f}  {right:5}  {empty:5}", end="   ")
    _, right, empty = penalised[width]
    print(f"{right:5}  {empty:5}")
ranking = sorted(WIDTHS, key=lambda width: -plain[width][1])
compare(my_prediction, (ranking[0], ranking[-1]))

# %%
(low, narrow, _), (high, wide, _) = plain[1], plain[64]
rescued = penalised[64][1]
assert high > low, "the widest beam found nothing more probable"
assert wide < 0.8 * narrow, "the widest beam was not worse this time"
assert rescued > (narrow + wide) / 2, "the penalty did not help"
print("the widest beam finds the most probable translations,")
print("and the fewest right ones")
print("with a length penalty of 1 most of them are back")

# %% [markdown]
# And the perfect search? No beam can find anything more probable, and it is silent, too.

# %%
asks = [asking(source) for source in lists[:20]]
exact = [exact_search(ask, GO, STOP, 13) for ask in asks]
beams = [decoding.beam_search(ask, GO, STOP, 4, 13)[0] for ask in asks]
for (_, total, _), (_, score) in zip(exact, beams, strict=True):
    assert total >= score - 1e-4
print("no beam of width 4 beats exact search in probability")
silent = any(len(tokens) == 2 for tokens, _, _ in exact)
print("exact search finds empty translations:", silent)

# %% tags=["nbval-ignore-output"]
curves = {"no penalty": plain, "penalty 1": penalised}
_, axes = plt.subplots()
for name, curve in curves.items():
    axes.plot(WIDTHS, [curve[width][1] for width in WIDTHS], "o-", label=name)
axes.set(xlabel="beam width", xscale="log")
axes.set(ylabel=f"right, of {len(lists)}", ylim=(0, len(lists)))
axes.set_xticks(WIDTHS, map(str, WIDTHS))
axes.legend()
plt.show()

# %% [markdown]
# Each right translation has only a thin slice of the probability: four adjectives with three synonyms
# each can be rendered in 81 ways. The empty sentence has no synonyms. Greedy never sees it, because at
# the first step any right word beats the end token.
#
# Turn the knobs: at which width does this list fall silent, and which penalty brings it back? (The
# controls need a running kernel.)

# %% tags=["nbval-ignore-output"]
EXAMPLE = "happy calm strange beautiful fast clever big"
translate = asking([*map(ENGLISH.index, EXAMPLE.split())])


def show(width, penalty):
    """Print the best translations of the example."""
    print(EXAMPLE)
    found = decoding.beam_search(translate, GO, STOP, width, 13, penalty)
    for tokens, score in found[:3]:
        middle = [token for token in tokens if token not in (GO, STOP)]
        italian = " ".join(ITALIAN[token] for token in middle)
        print(f"{score:7.2f}  {italian or '(nothing)'}")


widths, penalties = [1, 2, 4, 8, 16, 32, 64], [0.0, 0.2, 0.4, 0.6, 1.0, 2.0]
_ = ipywidgets.interact(
    show,
    width=ipywidgets.SelectionSlider(options=widths, value=2),
    penalty=ipywidgets.SelectionSlider(options=penalties, value=0.0),
)


# %% [markdown]
# ## 8.4 Sampling with temperature, top-k and top-p
#
# For open text the most probable sentence is dull, so one draws. The temperature sharpens or flattens,
# `top_k` keeps a number of words, `top_p` the smallest set that holds a share. Logits are
# `(..., vocab)`, the result `(...)`.


# %%
# %%exercise 8.4
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
    raise NotImplementedError(
        "Exercise 8.4: Sampling with temperature, top-k and top-p",
    )


# %%
logits = torch.tensor([0.5, 0.25, 0.15, 0.07, 0.03]).log().expand(20000, 5)
print("20000 draws from five words")
print("with probabilities 0.5, 0.25, 0.15, 0.07, 0.03")
settings = [{}, {"temperature": 0.5}, {"temperature": 3.0}]
settings += [{"top_k": 2}, {"top_p": 0.92}]
for setting in settings:
    draw = torch.Generator().manual_seed(0)
    drawn = decoding.sample_token(logits, generator=draw, **setting)
    first = (drawn == 0).float().mean().item()
    print(f"{setting!s:>20}: share of the first {first:.1f}, ", end="")
    print(f"words drawn {drawn.unique().tolist()}")

# %% [markdown]
# With `top_p` 0.92 four words remain: three of them sum to 0.90 only.
#
# ### Why draw at all
#
# A model of real text, made by counting: what followed the last two words in the language reference
# that comes with Python. Let your greedy search continue a text, then your sampling. (The reference is
# that of your Python: another version writes another text.)


# %%
class Trigrams:
    """A language model that counted, softened by shorter contexts."""

    def __init__(self, text):
        self.words = sorted(set(text))
        self.index = {word: number for number, word in enumerate(self.words)}
        tokens = [self.index[word] for word in text]
        self.followers = {}
        for context in range(3):
            for place in range(context, len(tokens)):
                before = tuple(tokens[place - context : place])
                seen = self.followers.setdefault(before, Counter())
                seen[tokens[place]] += 1

    def __call__(self, prefixes):
        size = len(prefixes), len(self.words)
        rows = torch.full(size, 1 / len(self.words), dtype=torch.float64)
        for row, prefix in zip(rows, prefixes.tolist(), strict=True):
            for context in range(3):
                before = tuple(prefix[len(prefix) - context :])
                seen = self.followers.get(before)
                if seen is not None:
                    counts = torch.tensor(list(seen.values()))
                    row *= 0.75 * len(seen) / seen.total()
                    row[list(seen)] += (counts - 0.75) / seen.total()
        return rows.log()


reference = " ".join(topics[name] for name in sorted(topics)).lower()
sentences = re.split(r"(?<=\.)\s+", reference)
text = re.findall(r"[a-z]+|[.]", " ".join(dict.fromkeys(sentences)))
counted = Trigrams(text)

# %% tags=["nbval-ignore-output"]
LENGTH = 120
beginning, no_end = counted.index["the"], len(counted.words)


def sampled(**setting):
    """Draw a text, word by word."""
    draw, tokens = torch.Generator().manual_seed(0), [beginning]
    while len(tokens) < LENGTH:
        row = counted(torch.tensor([tokens]))[0]
        token = decoding.sample_token(row, generator=draw, **setting)
        tokens.append(int(token))
    return tokens


texts = {
    "greedy": decoding.greedy_decode(counted, beginning, no_end, LENGTH),
    "top-p 0.9": sampled(top_p=0.9),
    "top-k 5": sampled(top_k=5),
    "plain": sampled(),
}
different = {name: len(set(tokens)) / LENGTH for name, tokens in texts.items()}
for name, tokens in texts.items():
    print(f"{name} ({different[name]:.0%} different words)")
    start = " ".join(counted.words[token] for token in tokens[:24])
    print(textwrap.indent(textwrap.fill(f"{start} ..."), "    "))
assert different["greedy"] < different["top-p 0.9"]

# %% [markdown]
# Greedy runs in circles, and must: the model sees two words, so one day the same two come again, and
# then everything after them does. Sampling leaves the circle.
#
# ## 8.5 Attention with a key-value cache
#
# A new token asks one question; the keys and values of earlier tokens are what they were. Keep them, as
# `(batch, heads, seq, d_head)`, and only the new token has to be projected. The result must be that of
# the full pass under a causal mask.
#
# In scope: `nn`, `MultiHeadAttention`, `split_heads`, `scaled_dot_product_attention` and `merge_heads`
# from week 3, and `causal_mask` from 6.1.


# %%
# %%exercise 8.5
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
        raise NotImplementedError(
            "Exercise 8.5: Attention with a key-value cache",
        )


# %%
torch.manual_seed(0)
full = attention.MultiHeadAttention(d_model=16, n_heads=4)
cached = decoding.CachedAttention(full)
x = torch.randn(1, 12, 16)
with torch.no_grad():
    whole, _ = full(x, x, x, masking.causal_mask(12))
    pieces = [cached(token, token, token) for token in x.split(1, dim=1)]
outputs = torch.cat([output for output, _ in pieces], dim=1)
print("same result:", torch.allclose(whole, outputs, atol=1e-5))
print("tokens that the last one looks at:", pieces[-1][1].shape[-1])

# %% [markdown]
# **Predict, run, explain.** To write 100 tokens without a cache, the whole prefix goes into the layer
# at every step. How many times as many tokens go in as with the cache?

# %%
my_prediction = None  # a factor


# %%
def written(layer, length, whole_prefix):
    """Write tokens; give how many went into the layer, and its last output."""
    torch.manual_seed(0)
    text, given = torch.randn(1, length, 16), 0
    with torch.no_grad():
        for end in range(1, length + 1):
            new = text[:, :end] if whole_prefix else text[:, end - 1 : end]
            output, _ = layer(new, new, new)
            given += new.shape[1]
    return given, output[:, -1]


print("tokens   without   with   same result")
for length in (10, 50, 100):
    without, slow = written(full, length, True)
    with_cache, quick = written(decoding.CachedAttention(full), length, False)
    same = torch.allclose(slow, quick, atol=1e-4)
    print(f"{length:6}   {without:7}   {with_cache:4}   {same}")
compare(my_prediction, without / with_cache)

# %% [markdown]
# And on the clock, for a whole model: a Transformer of your blocks, untrained, because how fast it is
# does not depend on what it has learned.

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
writer = transformer.Transformer(
    500, 500, n_layers=3, d_model=96, n_heads=4, d_ff=384
).eval()
source = torch.randint(1, 500, (20,))
tokens = torch.randint(1, 500, (1, 257))


@torch.no_grad()
def whole_prefix(prefixes):
    """Compute everything again, but for the source."""
    logits, _ = writer.decode(prefixes, memory, memory_mask)
    logits[..., writer.pad_id] = -math.inf  # padding is never a word
    return logits[:, -1].log_softmax(dim=-1)


with torch.no_grad():
    memory, memory_mask = writer.encode(source[None])
with_cache = generation.translation_step(writer, source)
answers = {}
for name, ask in [("without cache", whole_prefix), ("with cache", with_cache)]:
    begin = time.process_time()
    answers[name] = torch.cat([ask(tokens[:, :end]) for end in range(1, 257)])
    rate = 256 / (time.process_time() - begin)
    print(f"{name:>13}: {rate:6.0f} tokens per second")
assert torch.allclose(*answers.values(), atol=1e-3)

# %% [markdown]
# ## What you have seen
#
# Greedy is a search of width one and can miss the most probable sentence; a wider beam finds it, and
# with it a taste for silence that a penalty must balance. For open text one draws instead: top-k and
# top-p cut the tail of the distribution off, a temperature makes it thinner or thicker. The cache
# changes the work, never the words. You have now built every block of a Transformer that reads and
# writes.
