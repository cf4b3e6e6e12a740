# %% [markdown]
# # Week 8: Choosing words
#
# A trained model gives probabilities for the next word, never a sentence. How does one choose, word
# after word, and is the best word at each step the way to the best sentence? You build greedy search,
# beams and sampling, find where each fails, and a cache that makes all of them faster without changing
# a number.

# %%
# %load_ext lab_grader

# %%
import itertools
import math

import ipywidgets
import matplotlib.pyplot as plt
import torch

from lab_transformer import attention, decoding, masking

plt.rcParams.update({"figure.figsize": (5, 3), "figure.dpi": 80, "figure.constrained_layout.use": True})


def compare(predicted, measured):
    """Put what you expected beside what came out."""
    if predicted is None:
        print(f"no prediction written; measured: {measured}")
    else:
        print(f"you predicted {predicted}; measured: {measured}")


# %% [markdown]
# A model made of a small tree, so that every probability can be checked by hand. A model is anything
# that takes prefixes `(n, t)` and gives log-probabilities `(n, vocab)`.

# %%
WORDS = ["<start>", "<end>", "the", "a", "dog", "cat", "bird"]
START, END = 0, 1
TREE = {
    "<start>": {"the": 0.6, "a": 0.4},
    "<start> the": {"dog": 0.35, "cat": 0.33, "bird": 0.32},
    "<start> a": {"dog": 0.9, "cat": 0.1},
}


def words(tokens):
    """Write tokens as words."""
    return " ".join(WORDS[token] for token in tokens)


def step(prefixes):
    """Give the log-probabilities of the next word; what the tree does not name ends there."""
    rows = []
    for prefix in prefixes.tolist():
        chances = TREE.get(words(prefix), {"<end>": 1.0})
        rows.append([math.log(chances[word]) if word in chances else -math.inf for word in WORDS])
    return torch.tensor(rows)


def probability(tokens):
    """Multiply the probabilities along a sentence."""
    steps = [step(torch.tensor([tokens[:end]]))[0, tokens[end]] for end in range(1, len(tokens))]
    return math.exp(sum(steps))


# %% [markdown]
# ## 8.1 Greedy decoding
#
# Start with the start token, ask for the next word, append the most probable one, repeat. It ends with
# the end token or at `max_length` tokens, start token included.


# %%
# %%exercise 8.1
def greedy_decode(step: Step, bos_id: int, eos_id: int, max_length: int) -> list[int]:
    """Append the most probable token again and again, until the end token or max_length tokens.

    The result starts with bos_id; it ends with eos_id where that was reached.
    """
    if max_length < 1:
        raise ValueError(f"max_length counts the start token, so it is at least 1, not {max_length}")
    raise NotImplementedError("Exercise 8.1: Greedy decoding")


# %% [markdown]
# **Predict, run, explain.** Look at the tree above. Which sentence does greedy choose, and which one is
# the most probable?

# %%
my_prediction = None  # such as ("the cat", "the dog")

# %%
greedy = decoding.greedy_decode(step, START, END, max_length=5)
everything = [[START, *middle, END] for middle in itertools.product(range(2, 7), repeat=2)]
best = max(everything, key=probability)
for name, tokens in [("greedy", greedy), ("best of all", best)]:
    print(f"{name:>11}: {words(tokens)}, probability {probability(tokens):.2f}")
compare(my_prediction, (words(greedy[1:-1]), words(best[1:-1])))


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

    The length counts generated tokens: the end token is one of them, the start token is not.
    """
    raise NotImplementedError("Exercise 8.2: The length penalty")


# %%
print("penalty   3 words, sum -3   8 words, sum -5")
for penalty in (0.0, 0.6, 1.0):
    short, long = (decoding.length_normalised(*pair, penalty) for pair in [(-3.0, 3), (-5.0, 8)])
    print(f"{penalty:7}   {short:15.2f}   {long:15.2f}")


# %% [markdown]
# ## 8.3 Beam search
#
# Keep several prefixes instead of one. All their continuations compete by the sum of log-probabilities;
# two winners may have the same parent. What has ended is put aside, never extended. The result is a
# list of (tokens, score), best first.


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
    """Keep the beam_width most probable prefixes at every step, and rank what they become.

    At every step all one-token continuations of the unfinished prefixes compete by their summed
    log-probability. Those among the best beam_width that end with eos_id are finished and never
    extended; the best beam_width of the others go on. Prefixes of max_length tokens are taken as they
    are. Returns at most beam_width pairs (tokens, score), best first; the score is the
    length-normalised sum of the log-probabilities.
    """
    if beam_width < 1:
        raise ValueError(f"beam_width is at least 1, not {beam_width}")
    if max_length < 1:
        raise ValueError(f"max_length counts the start token, so it is at least 1, not {max_length}")
    raise NotImplementedError("Exercise 8.3: Beam search")


# %%
for width in (1, 2, 3):
    print(f"width {width}")
    for tokens, score in decoding.beam_search(step, START, END, width, max_length=5):
        print(f"   {math.exp(score):.3f}  {words(tokens)}")

# %% [markdown]
# Width 1 is greedy; width 2 already finds the truth. A wider beam finds more probable sentences. Are
# they better ones?
#
# **Predict, run, explain.** A model of one word, "very": after each it goes on with probability 0.8 and
# ends with 0.2, at most ten tokens. Without a length penalty, how many tokens has the winner of a wide
# beam, start and end included? And with penalty 1?

# %%
my_prediction = None  # such as (10, 10)


# %%
def chatter(prefixes):
    """Go on with probability 0.8, end with 0.2."""
    return torch.tensor([-math.inf, math.log(0.2), math.log(0.8)]).expand(len(prefixes), 3)


print("width   tokens   tokens with penalty 1")
for width in (1, 2, 5):
    plain, penalised = (
        decoding.beam_search(chatter, START, END, width, 10, penalty)[0][0] for penalty in (0.0, 1.0)
    )
    print(f"{width:5}   {len(plain):6}   {len(penalised):21}")
compare(my_prediction, (len(plain), len(penalised)))

# %% [markdown]
# Turn the knob: the best score of each length, under a penalty. The summit moves from short to long.
# (The control needs a running kernel.)

# %%
# NBVAL_IGNORE_OUTPUT
# A control is drawn by the browser; its ids differ in every run.
sums = {length: (length - 1) * math.log(0.8) + math.log(0.2) for length in range(1, 31)}
heights = {
    penalty / 4: [decoding.length_normalised(total, n, penalty / 4) for n, total in sums.items()]
    for penalty in range(9)
}


def draw(penalty):
    """Draw the score of a sentence against its length."""
    _, axes = plt.subplots()
    axes.plot(list(sums), heights[penalty])
    axes.set(xlabel="generated tokens", ylabel="score")
    plt.show()


_ = ipywidgets.interact(draw, penalty=ipywidgets.SelectionSlider(options=list(heights), value=0.0))


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
    """Draw the next token: divide by the temperature, keep the top_k best, then the top_p nucleus.

    The nucleus is the smallest set of most probable tokens whose probabilities sum to top_p or more;
    the most probable token is always in it.
    """
    check_shapes(logits=(logits, "... vocab"))
    if temperature <= 0:
        raise ValueError(f"temperature must be above 0, it is {temperature}; for 0 take the argmax")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k is at least 1, not {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is above 0 and at most 1, not {top_p}")
    raise NotImplementedError("Exercise 8.4: Sampling with temperature, top-k and top-p")


# %%
logits = torch.tensor([0.5, 0.25, 0.15, 0.07, 0.03]).log()
settings = [{}, {"temperature": 0.5}, {"temperature": 3.0}, {"top_k": 2}, {"top_p": 0.92}]
print("20000 draws from five words with probabilities 0.5, 0.25, 0.15, 0.07, 0.03")
for setting in settings:
    generator = torch.Generator().manual_seed(0)
    drawn = decoding.sample_token(logits.expand(20000, 5), generator=generator, **setting)
    first = (drawn == 0).float().mean().item()
    print(f"{setting!s:>20}: share of the first {first:.1f}, words drawn {drawn.unique().tolist()}")

# %% [markdown]
# With `top_p` 0.92 four words remain: three of them sum to 0.90 only.
#
# ## 8.5 Attention with a key-value cache
#
# A new token asks one question; the keys and values of earlier tokens are what they were. Keep them, as
# `(batch, heads, seq, d_head)`, and only the new token has to be projected. The result must be that of
# the full pass under a causal mask.


# %%
# %%exercise 8.5
class CachedAttention(nn.Module):
    """Causal self-attention that keeps the keys and values of earlier tokens.

    It shares the weights of `attention` and can stand in its place: fed one token at a time, or a few,
    it gives what the full pass gives under a causal mask.
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
    ) -> tuple[Float[Tensor, "batch query d_model"], Float[Tensor, "batch heads query key"]]:
        """Take the new tokens only; return their output, and their weights over all tokens so far.

        The mask is not used: what is cached is earlier, and among the new tokens the order decides.
        """
        check_shapes(
            query=(query, "... query d_model"),
            key=(key, "... query d_model"),
            value=(value, "... query d_model"),
        )
        raise NotImplementedError("Exercise 8.5: Attention with a key-value cache")


# %%
torch.manual_seed(0)
full = attention.MultiHeadAttention(d_model=16, n_heads=4)
cached = decoding.CachedAttention(full)
x = torch.randn(1, 12, 16)
with torch.no_grad():
    whole, _ = full(x, x, x, masking.causal_mask(12))
    pieces = [cached(token, token, token)[0] for token in x.split(1, dim=1)]
print("same result:", torch.allclose(whole, torch.cat(pieces, dim=1), atol=1e-5))
print("kept keys:", tuple(cached.keys.shape))

# %% [markdown]
# **Predict, run, explain.** To write 100 tokens without a cache, the whole prefix is projected at every
# step. How many times as many tokens go through the projections as with the cache?

# %%
my_prediction = None  # a factor


# %%
def projected(layer, length, whole_prefix):
    """Count the tokens that go through the key projection while writing so many tokens."""
    seen = []
    hook = full.w_k.register_forward_hook(
        lambda module, inputs, output: seen.append(inputs[0].shape[1])
    )
    text = torch.randn(1, length, 16)
    with torch.no_grad():
        for end in range(1, length + 1):
            new = text[:, :end] if whole_prefix else text[:, end - 1 : end]
            layer(new, new, new)
    hook.remove()
    return sum(seen)


print("tokens   without   with")
for length in (10, 50, 100):
    without = projected(full, length, True)
    with_cache = projected(decoding.CachedAttention(full), length, False)
    print(f"{length:6}   {without:7}   {with_cache:4}")
compare(my_prediction, without / with_cache)

# %% [markdown]
# ## What you have seen
#
# Greedy is a search of width one and can miss the most probable sentence; a wider beam finds it, and
# with it the taste for short ones that a penalty must balance. For open text one draws instead, from a
# distribution with its tail cut off. The cache changes the work, never the words. You have now built
# every block of a Transformer that reads and writes.
