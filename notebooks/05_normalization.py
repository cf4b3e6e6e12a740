# %% [markdown]
# # Notebook 5: Norms, residuals, the encoder block
#
# A deep stack works only if its numbers keep a sensible size from the first block to the last. What
# should a word be measured against: its own features, or the other words of the batch? You build both
# answers, see padding spoil one of them, stack attention and feed-forward layers into an encoder, and
# watch a deep stack fail at the easiest task there is. [The chapter](../book/05_normalization.md) has
# the story; here you build it.

# %%
# %load_ext lab_check

# %%
import ipywidgets
import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn import functional

from lab_transformer import encoder, feedforward, normalization, positional
from lab_transformer.notebook import compare, progress

torch.set_num_threads(1)  # sums in one order: the same digits in every run


def show(numbers):
    """Print a table, a row for every word."""
    for row in numbers:
        print("".join(f"{number.item():8.2f}" for number in row))


# %% [markdown]
# ## 5.1 Layer norm
#
# Every word is measured against itself: mean and variance are taken over its own `d_model` features.
# The shape `(..., d_model)` stays, and no other word has a say. Gain and bias, one number a feature,
# let the model set the scale and the level of every feature. They cannot undo the norm: they are the
# same for all words, and each word lost a mean and a size of its own. Those of batch norm, below, can.
#
# In scope in the cells from 5.1 to 5.4: `Tensor` and its methods. Import what else you need there.


# %%
# %%exercise 5.1
def layer_norm(
    x: Float[Tensor, "... d_model"],
    gain: Float[Tensor, "d_model"],
    bias: Float[Tensor, "d_model"],
    eps: float = 1e-5,
) -> Float[Tensor, "... d_model"]:
    """Normalise every word over its own features, then scale and shift them.

    Uses the biased variance, with eps inside the root. It is right also where
    the mean of the features is large against their spread.
    """
    check_shapes(
        x=(x, "... d_model"),
        gain=(gain, "d_model"),
        bias=(bias, "d_model"),
    )
    raise NotImplementedError("Exercise 5.1: Layer norm")


# %% [markdown]
# Five words with four features, the table of the chapter. Every row has a whole mean and a whole
# standard deviation, so you can check your block by hand: 7, 7, 3, 3 has mean 5 and deviation 2.

# %%
five = torch.tensor(
    [
        [10.0, 4, 4, 2],
        [7, 7, 3, 3],
        [6, 6, 0, 0],
        [4, 10, 2, 4],
        [8, 8, 6, 6],
    ]
)
gain, bias = torch.ones(4), torch.zeros(4)
show(normalization.layer_norm(five, gain, bias))

# %% [markdown]
# The second, third and fifth row are the same: three different words, one result. Layer norm keeps the
# pattern of a word and forgets how high and how strong it was.
#
# Many hand-written layer norms use `x.std()`, which divides by d - 1. Is that the same?

# %%
old = five[1]
ways = {
    "yours": normalization.layer_norm(old, gain, bias),
    "nn.LayerNorm": functional.layer_norm(old, (4,)),
    "x.std()": (old - old.mean()) / old.std(),
}
for name, result in ways.items():
    print(f"{name:>12}:", round(result[0].item(), 3))
quiet = (old - old.mean()) / 1000
print("the same word a thousand times smaller:", end="")
show(normalization.layer_norm(quiet, gain, bias)[None])


# %% [markdown]
# The last line is not 1, 1, -1, -1: the variance is smaller than eps, so eps, inside the root, holds
# the numbers back. Where there is nearly nothing, the norm does not make something of it.
#
# ## 5.2 Batch norm that does not count padding
#
# Here every feature is measured over all words of the batch, so `x` is `(batch, seq, d_model)` and
# there is one mean and one variance a feature. Sentences are filled up to a common length, and those
# pads are words to a plain mean. The mask `(batch, seq)` says which are real.


# %%
# %%exercise 5.2
def batch_norm(
    x: Float[Tensor, "batch seq d_model"],
    gain: Float[Tensor, "d_model"],
    bias: Float[Tensor, "d_model"],
    mask: Bool[Tensor, "batch seq"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "batch seq d_model"]:
    """Normalise every feature over all words, then scale and shift it.

    Where the mask is False there is padding: it is left out of mean and
    (biased) variance, and normalised with them like every other position.
    The variance is right also where the mean is large against the spread.
    All numbers in x are finite, those at padding too.
    """
    check_shapes(
        x=(x, "batch seq d_model"),
        gain=(gain, "d_model"),
        bias=(bias, "d_model"),
    )
    if mask is not None:
        check_boolean(mask)
        check_shapes(x=(x, "batch seq d_model"), mask=(mask, "batch seq"))
        if not mask.any():
            raise ValueError("the mask leaves no word to take statistics from")
    raise NotImplementedError(
        "Exercise 5.2: Batch norm that does not count padding",
    )


# %%
show(normalization.batch_norm(five[None], gain, bias)[0])

# %% [markdown]
# Now the columns have mean 0 and deviation 1, and "cat" (low everywhere) differs from "well" (high).
# This norm keeps more. But every number depends on the other words, and on what else stands in the
# batch.
#
# **Predict, run, explain.** A sentence of three words stands in a batch beside 100 pads (zeros). The
# first feature of its first word is normalised with all 103 positions, and again with the mask. By what
# factor does the number grow when the pads are counted?

# %%
my_prediction = None  # a factor, such as 1.0

# %%
sentence = torch.tensor([[3.0, 1.0], [2.0, -1.0], [2.5, 0.0]])
neutral = torch.ones(2), torch.zeros(2)  # a gain and a bias


def first_word(pads, masked):
    """Normalise beside some pads; give the first number of the first word."""
    x = torch.cat([sentence, torch.zeros(pads, 2)])[None]
    mask = (torch.arange(3 + pads) < 3)[None] if masked else None
    return normalization.batch_norm(x, *neutral, mask)[0, 0, 0].item()


alone = normalization.layer_norm(sentence, *neutral)[0, 0].item()
print("pads   counted   masked   layer norm")
for pads in (0, 3, 10, 100):
    counted, masked = first_word(pads, False), first_word(pads, True)
    print(f"{pads:4}   {counted:7.2f}   {masked:6.2f}   {alone:10.2f}")
compare(my_prediction, f"{counted / masked:.1f}")

# %% [markdown]
# The sentence did not change, only the pads beside it. Batch norm reports one fact: "these are not
# pads." Turn the knob: how many pads does it take until all three words look alike? (The control needs
# a running kernel.)

# %% tags=["nbval-ignore-output"]
rows = {}
for pads in (0, 1, 3, 10, 30, 100):
    padded = torch.cat([sentence, torch.zeros(pads, 2)])[None]
    rows[pads] = normalization.batch_norm(padded, *neutral)[0, :3, 0]


def draw(pads):
    """Draw the first feature of the three words beside so many pads."""
    _, axes = plt.subplots()
    axes.bar(["word 1", "word 2", "word 3"], rows[pads])
    axes.set(ylabel="after batch norm", ylim=(-2, 7))
    plt.show()


knob = ipywidgets.SelectionSlider(options=list(rows), value=0)
_ = ipywidgets.interact(draw, pads=knob)


# %% [markdown]
# ## 5.3 Post-norm: the residual of 2017
#
# A residual path carries `x` around a sublayer, so a block only has to learn a change. In 2017 the norm
# came last and took in the whole sum. All shapes are equal: `(..., d_model)` in and out.


# %%
# %%exercise 5.3
def post_norm(
    x: Float[Tensor, "..."],
    sublayer: Callable[[Tensor], Tensor],
    norm: Callable[[Tensor], Tensor],
) -> Float[Tensor, "..."]:
    """Add the sublayer's result to its input and normalise the sum.

    The sublayer is called once: it may draw at random, or keep what it sees.
    """
    raise NotImplementedError("Exercise 5.3: Post-norm: the residual of 2017")


# %%
norm = nn.LayerNorm(3)
x = torch.tensor([[10.0, 20.0, 60.0]])
print("a sublayer that adds nothing:", end="")
with torch.no_grad():
    show(normalization.post_norm(x, torch.zeros_like, norm))


# %% [markdown]
# ## 5.4 Pre-norm: the path stays free
#
# Moving the norm into the branch leaves the path itself untouched: `x` goes on as it came. It is often
# said that the normalised input is added. Look at what your block gives.


# %%
# %%exercise 5.4
def pre_norm(
    x: Float[Tensor, "..."],
    sublayer: Callable[[Tensor], Tensor],
    norm: Callable[[Tensor], Tensor],
) -> Float[Tensor, "..."]:
    """Normalise what the sublayer sees; add its result to the raw input.

    The sublayer is called once: it may draw at random, or keep what it sees.
    """
    raise NotImplementedError("Exercise 5.4: Pre-norm: the path stays free")


# %%
with torch.no_grad():
    print("a sublayer that adds nothing:", end="")
    show(normalization.pre_norm(x, torch.zeros_like, norm))
    print("a sublayer that adds its input:", end="")
    show(normalization.pre_norm(x, lambda y: y, norm))


# %% [markdown]
# The raw numbers are in the result, small changes on top. Twelve sublayers that all give zero:

# %%
kept, lost = x, x
with torch.no_grad():
    for _ in range(12):
        kept = normalization.pre_norm(kept, torch.zeros_like, norm)
        lost = norm(lost) + torch.zeros_like(lost)
    print("pre-norm:", end="")
    show(kept)
    print("if the normalised input were added:", end="")
    show(lost)

# %% [markdown]
# ## 5.5 The feed-forward layer
#
# Attention moves information between words; this layer works on each word alone. It widens `(...,
# d_model)` to `d_ff`, four times as much in 2017 (512 to 2048), drops what is negative, and comes back.
# Without the ReLU the two maps would be one.
#
# In scope: `torch` and `Tensor`.


# %%
# %%exercise 5.5
def feed_forward(
    x: Float[Tensor, "... d_model"],
    w_1: Float[Tensor, "d_model d_ff"],
    b_1: Float[Tensor, "d_ff"],
    w_2: Float[Tensor, "d_ff d_model"],
    b_2: Float[Tensor, "d_model"],
) -> Float[Tensor, "... d_model"]:
    """Widen a word to d_ff features, keep the positive ones, narrow again."""
    check_shapes(
        x=(x, "... d_model"),
        w_1=(w_1, "d_model d_ff"),
        b_1=(b_1, "d_ff"),
        w_2=(w_2, "d_ff d_model"),
        b_2=(b_2, "d_model"),
    )
    raise NotImplementedError("Exercise 5.5: The feed-forward layer")


# %%
torch.manual_seed(0)
w_1, b_1 = torch.randn(4, 16), torch.zeros(16)
w_2, b_2 = torch.randn(16, 4), torch.zeros(4)
words = torch.randn(5, 4)
changed = words.clone()
changed[2] += 1
before = feedforward.feed_forward(words, w_1, b_1, w_2, b_2)
after = feedforward.feed_forward(changed, w_1, b_1, w_2, b_2)
touched = (before != after).any(dim=1).nonzero().flatten()
print("word 2 changes; results that change:", touched.tolist())
opposite = feedforward.feed_forward(-words, w_1, b_1, w_2, b_2)
linear = torch.allclose(opposite, -before)
print("a linear map gives f(-x) = -f(x); does this one?", linear)

# %% [markdown]
# The layer can be read as a memory: column i of `w_1` is a key, row i of `w_2` its value, and the
# result is the sum of the values whose keys match. Attention over parameters, with ReLU instead of
# softmax.

# %%
matches = torch.relu(words[0] @ w_1 + b_1)
memory = sum(matches[i] * w_2[i] for i in range(16)) + b_2
print("all keys match word 0:", (matches > 0).all().item())
same = torch.allclose(memory, before[0], atol=1e-4)
print("the sum of their values is the layer's result:", same)
print("no number in the result is negative:", (before >= 0).all().item())

# %% [markdown]
# Negative numbers, no sum of one: this is not a distribution over words. It is a change to be added to
# the path; probabilities come once, at the very top of the model.


# %% [markdown]
# ## 5.6 The encoder block
#
# Self-attention, then feed-forward, each with its residual path: `(batch, seq, d_model)` in and out.
# Because the shape stays, blocks can be stacked. The mask says which keys may be seen.
#
# In scope: `nn`, `MultiHeadAttention` from 3.5, `FeedForward`, a module around what you wrote in 5.5,
# `post_norm` from 5.3 and `pre_norm` from 5.4.


# %%
# %%exercise 5.6
class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward, each with a residual path and norm.

    `pre_norm` and `post_norm` are in scope.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm_1 = nn.LayerNorm(d_model)
        self.norm_2 = nn.LayerNorm(d_model)

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
        mask: Bool[Tensor, "... seq seq"] | None = None,
    ) -> Float[Tensor, "batch seq d_model"]:
        """Let the words look at each other, then think about what they saw.

        `norm_first` chooses pre-norm or post-norm. The mask broadcasts to
        (batch, heads, seq, seq).
        """
        check_shapes(
            x=(x, "... seq d_model"),
            norm_1=(self.norm_1.weight, "d_model"),
        )
        raise NotImplementedError("Exercise 5.6: The encoder block")


# %%
torch.manual_seed(0)
block = encoder.EncoderBlock(d_model=8, n_heads=2, d_ff=32)
x = torch.randn(1, 5, 8)
order = torch.tensor([3, 0, 4, 1, 2])
with torch.no_grad():
    shuffled_after = block(x)[:, order]
    shuffled_before = block(x[:, order])
same = torch.allclose(shuffled_after, shuffled_before, atol=1e-5)
print("shuffling before or after the block is the same:", same)


# %% [markdown]
# The block has no idea of order: that is what week 4's positions are for.
#
# ## 5.7 The encoder: a stack of blocks
#
# Every block takes what the one before gave. In a pre-norm stack nobody has normalised the sum that
# leaves the last block, so one more norm ends it. The shape is still `(batch, seq, d_model)`.
#
# In scope: `EncoderBlock` from 5.6, and `nn`.


# %%
# %%exercise 5.7
class Encoder(nn.Module):
    """A stack of encoder blocks, with a final norm in the pre-norm case."""

    def __init__(
        self,
        n_layers: int,
        d_model: int,
        n_heads: int,
        d_ff: int,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList()
        for _ in range(n_layers):
            self.blocks.append(EncoderBlock(d_model, n_heads, d_ff, norm_first))
        self.norm = nn.LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
        mask: Bool[Tensor, "... seq seq"] | None = None,
    ) -> Float[Tensor, "batch seq d_model"]:
        """Send x through all blocks and the final norm."""
        check_shapes(x=(x, "... seq d_model"))
        raise NotImplementedError(
            "Exercise 5.7: The encoder: a stack of blocks",
        )


# %% [markdown]
# **Predict, run, explain.** Twelve blocks with fresh weights, before any training. Follow the size of
# the numbers on the path (their standard deviation, 1 at the start). How large is it after the last
# block of a pre-norm stack, before the final norm?

# %%
my_prediction = None  # a number

# %%
LAYERS = 12


def fresh(norm_first, draw=0):
    """Make a deep encoder with the usual initial weights of Transformers."""
    torch.manual_seed(draw)
    model = encoder.Encoder(
        LAYERS, d_model=32, n_heads=4, d_ff=128, norm_first=norm_first
    )
    for weight in model.parameters():
        if weight.dim() > 1:
            nn.init.xavier_uniform_(weight)
    return model


torch.manual_seed(1)
x, target = torch.randn(8, 10, 32), torch.randint(0, 32, (80,))


def size_by_block(model):
    """Follow the size of the numbers through the stack."""
    state, sizes = x, []
    with torch.no_grad():
        for block in model.blocks:
            state = block(state)
            sizes.append(state.std().item())
    return sizes


sizes = {
    "post-norm": size_by_block(fresh(norm_first=False)),
    "pre-norm": size_by_block(fresh(norm_first=True)),
}
steady = all(abs(size - 1) < 0.01 for size in sizes["post-norm"])
first, sixth, last = (sizes["pre-norm"][i] for i in (0, 5, 11))
print("post-norm, 1 after every block:", steady)
print(
    "pre-norm, larger after block 6 than after 1, and after 12 than after 6:",
    first < sixth < last,
)
compare(my_prediction, "between 2 and 5" if 2 < last < 5 else last)

# %% [markdown]
# And without? Leave the norms out, or the residual path too, with the same weights.


# %%
def size_without_norm(model, path):
    """Go through the bare sublayers.

    Gives the size at the end, and which part of it differs from word to word.
    """
    state = x
    with torch.no_grad():
        for block in model.blocks:
            looked, _ = block.attention(state, state, state)
            state = state + looked if path else looked
            thought = block.feed_forward(state)
            state = state + thought if path else thought
    own = state - state.mean(dim=(0, 1))  # without what all words share
    return state.std().item(), (own.norm() / state.norm()).item()


grown, _ = size_without_norm(fresh(norm_first=True), path=True)
shrunk, differing = size_without_norm(fresh(norm_first=True), path=False)
print("residual path, no norm: more than 50 times as large:", grown > 50)
print("neither path nor norm: less than half as large:", shrunk < 0.5)
print("and the words hardly differ any more:", differing < 0.02)

# %% [markdown]
# A path alone grows by a factor in every block. Bare sublayers forget what came in: what is left at the
# end is mostly the biases.
#
# And the gradients, block by block, at the first step of training (the mean of five draws of the
# weights):


# %%
def gradient_by_block(norm_first):
    """Give the norm of a gradient in every block, for random targets."""
    norms = torch.zeros(LAYERS)
    for draw in range(5):
        model = fresh(norm_first, draw)
        functional.cross_entropy(model(x).flatten(0, 1), target).backward()
        for number, block in enumerate(model.blocks):
            norms[number] += block.feed_forward.w_2.weight.grad.norm() / 5
    return norms.tolist()


post, pre = gradient_by_block(False), gradient_by_block(True)
slopes = {"post-norm": post, "pre-norm": pre}
print(
    "pre-norm, the first block's gradient is 1.5 times the last's or more:",
    pre[0] > 1.5 * pre[-1],
)
print(
    "post-norm's in the last block is twice that of pre-norm or more:",
    post[-1] > 2 * pre[-1],
)

# %% tags=["nbval-ignore-output"]
_, pair = plt.subplots(1, 2, figsize=(7, 3))
for axes, curves in zip(pair, (sizes, slopes), strict=True):
    for name, curve in curves.items():
        axes.plot(range(1, LAYERS + 1), curve, marker="o", label=name)
    axes.set(xlabel="block", ylim=(0, None))
pair[0].set_ylabel("size")
pair[1].set_ylabel("gradient norm")
_ = axes.legend()

# %% [markdown]
# With post-norm the last block's gradient is about three times that of pre-norm. Pre-norm's path grows
# with depth, so each later block weighs less in the sum, and its gradients are gentler.
#
# ## Warm-up
#
# What do large gradients at the top do? We give a stack of twelve blocks the easiest task there is:
# eight digits come in, and the same eight digits must come out. Guessing costs log 10 = 2.3 a digit. A
# warm-up of n steps raises the learning rate from zero to its full value over the first n steps.
#
# **Predict, run, explain.** Post-norm without warm-up, post-norm with 120 steps of it, pre-norm
# without: which of the three have learned to repeat a digit after 160 steps?

# %%
my_prediction = None  # a list of names, such as ["pre-norm"]


# %%
def train(norm_first, warmup, steps=160, rate=3e-3):
    """Teach a fresh stack to repeat digits.

    Gives the losses, and the share in which the words of a sentence differ.
    """
    stack = fresh(norm_first)
    embedding, output = nn.Embedding(10, 32), nn.Linear(32, 10)
    nn.init.normal_(embedding.weight, std=32**-0.5)
    positions = positional.sinusoidal_positions(8, 32)
    model = nn.ModuleList([stack, embedding, output])
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses = []

    def states_of(digits):
        return stack(positional.add_positions(embedding(digits), positions))

    for step in progress(range(steps), "training"):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / warmup)
        digits = torch.randint(0, 10, (16, 8))
        logits = output(states_of(digits)).flatten(0, 1)
        loss = functional.cross_entropy(logits, digits.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        states = states_of(torch.randint(0, 10, (200, 8)))
        within = (states - states.mean(dim=1, keepdim=True)).square().mean()
    return losses, (within / states.square().mean()).item()


runs = {
    "post-norm": train(norm_first=False, warmup=1),
    "post-norm, warm-up": train(norm_first=False, warmup=120),
    "pre-norm": train(norm_first=True, warmup=1),
}

# %%
end = {name: sum(losses[-10:]) / 10 for name, (losses, _) in runs.items()}
learned = [name for name in runs if end[name] < 1.0]
compare(my_prediction, learned)
failed = end["post-norm"] > 2.0
print("post-norm without warm-up has learned next to nothing:", failed)

# %% tags=["nbval-ignore-output"]
_, axes = plt.subplots()
for name, (losses, _) in runs.items():
    axes.plot(losses, label=name)
axes.axhline(2.303, color="gray", linestyle=":", label="guessing")
axes.set(xlabel="training step", ylabel="loss", ylim=(0, 3.2))
_ = axes.legend()

# %% [markdown]
# The failed run is not slow. What happened to it? Take the mean square of the numbers that leave a
# stack, and ask which share of it is a difference between words of one sentence.


# %%
def told(share):
    """Tell a share by fixed marks: its digits depend on the machine."""
    if share < 0.001:
        return "nothing"
    return "most of it" if share > 0.5 else "some"


for name, (_, share) in runs.items():
    what = "share in which the words of a sentence differ"
    print(f"{name:>18}, {what}: {told(share)}")

# %% [markdown]
# The failed stack gives the same vector for all eight digits of a sentence. Attention in twelve fresh
# blocks averages the words until they hardly differ, and the first large steps, in random directions,
# wipe out what difference was left. Small first steps prevent that; so does a free path. Easier to
# train does not mean better in the end: with two blocks both end at the same loss, as the chapter
# shows.
#
# ## What you have seen
#
# Layer norm asks no other word, so padding and batch cannot disturb it. A residual path carries the raw
# input, and where the norm stands decides how large the numbers and the gradients become, and whether
# the start must be gentle. Attention and feed-forward between such paths are the encoder. Next week:
# what a model that writes may not see.
