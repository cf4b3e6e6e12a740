# %% [markdown]
# # Week 5: Norms, residuals and the encoder block
#
# A deep stack works only if its numbers keep a sensible size from the first block to the last. What
# should a word be measured against: its own features, or the other words of the batch? You build both
# answers, see padding spoil one of them, and stack attention and feed-forward layers into an encoder.

# %%
# %load_ext lab_grader

# %%
import ipywidgets
import matplotlib.pyplot as plt
import torch

from lab_transformer import encoder, feedforward, normalization

plt.rcParams.update({"figure.figsize": (5, 3), "figure.dpi": 80, "figure.constrained_layout.use": True})


def compare(predicted, measured):
    """Put what you expected beside what came out."""
    if predicted is None:
        print(f"no prediction written; measured: {measured}")
    else:
        print(f"you predicted {predicted}; measured: {measured}")


def show(numbers):
    """Print a table, a row for every word."""
    for row in numbers:
        print("".join(f"{number.item():8.2f}" for number in row))


# %% [markdown]
# ## 5.1 Layer norm
#
# Every word is measured against itself: mean and variance are taken over its own `d_model` features.
# The shape `(..., d_model)` stays, and no other word has a say. Gain and bias, one number a feature,
# let the model undo what it does not need.


# %%
# %%exercise 5.1
def layer_norm(
    x: Float[Tensor, "... d_model"],
    gain: Float[Tensor, "d_model"],
    bias: Float[Tensor, "d_model"],
    eps: float = 1e-5,
) -> Float[Tensor, "... d_model"]:
    """Normalise every word over its own features, then scale and shift each feature.

    Uses the biased variance, with eps inside the root.
    """
    check_shapes(x=(x, "... d_model"), gain=(gain, "d_model"), bias=(bias, "d_model"))
    raise NotImplementedError("Exercise 5.1: Layer norm")


# %% [markdown]
# Five words with three features. The fifth is the first, a hundred times as long.

# %%
five = torch.tensor([[1.0, 2, 3], [4, 4, 1], [0, 6, 0], [2, 2, 5], [100, 200, 300]])
gain, bias = torch.ones(3), torch.zeros(3)
show(normalization.layer_norm(five, gain, bias))


# %% [markdown]
# The first row and the fifth are the same: layer norm keeps the direction and forgets the length.
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
    """Normalise every feature over all words of the batch, then scale and shift it.

    Where the mask is False there is padding: it is left out of mean and (biased) variance, and
    normalised with them like every other position.
    """
    check_shapes(x=(x, "batch seq d_model"), gain=(gain, "d_model"), bias=(bias, "d_model"))
    if mask is not None:
        check_boolean(mask)
        check_shapes(x=(x, "batch seq d_model"), mask=(mask, "batch seq"))
        if not mask.any():
            raise ValueError("the mask leaves no word to take statistics from")
    raise NotImplementedError("Exercise 5.2: Batch norm that does not count padding")


# %%
columns = normalization.batch_norm(five[None], gain, bias)[0]
show(columns)
print("mean of every column:", [round(abs(number), 2) for number in columns.mean(dim=0).tolist()])

# %% [markdown]
# One long word pressed the other four together: they are no longer judged on their own.
#
# **Predict, run, explain.** A sentence of three words stands in a batch beside 100 pads (zeros). The
# first feature of its first word is normalised with all 103 positions, and again with the mask. By what
# factor does the number grow when the pads are counted?

# %%
my_prediction = None  # a factor, such as 1.0

# %%
sentence = torch.tensor([[3.0, 1.0], [2.0, -1.0], [2.5, 0.0]])


def first_word(pads, masked):
    """Normalise the sentence beside some pads; give the first feature of its first word."""
    x = torch.cat([sentence, torch.zeros(pads, 2)])[None]
    mask = (torch.arange(3 + pads) < 3)[None] if masked else None
    return normalization.batch_norm(x, torch.ones(2), torch.zeros(2), mask)[0, 0, 0].item()


print("pads   counted   masked")
for pads in (0, 3, 10, 100):
    print(f"{pads:4}   {first_word(pads, False):7.2f}   {first_word(pads, True):6.2f}")
compare(my_prediction, f"{first_word(100, False) / first_word(100, True):.1f}")

# %% [markdown]
# The sentence did not change, its neighbours did. Turn the knob: how many pads does it take until all
# three words look alike? (The control needs a running kernel.)

# %%
# NBVAL_IGNORE_OUTPUT
# A control is drawn by the browser; its ids differ in every run.
rows = {}
for pads in (0, 1, 3, 10, 30, 100):
    padded = torch.cat([sentence, torch.zeros(pads, 2)])[None]
    rows[pads] = normalization.batch_norm(padded, torch.ones(2), torch.zeros(2))[0, :3, 0]


def draw(pads):
    """Draw the first feature of the three words beside so many pads."""
    _, axes = plt.subplots()
    axes.bar(["word 1", "word 2", "word 3"], rows[pads])
    axes.set(ylabel="after batch norm", ylim=(-2, 7))
    plt.show()


_ = ipywidgets.interact(draw, pads=ipywidgets.SelectionSlider(options=list(rows), value=0))


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
    """Add the sublayer's result to its input and normalise the sum."""
    raise NotImplementedError("Exercise 5.3: Post-norm: the residual of 2017")


# %%
norm = torch.nn.LayerNorm(3)
x = torch.tensor([[10.0, 20.0, 60.0]])
print("a sublayer that adds nothing:", end="")
with torch.no_grad():
    show(normalization.post_norm(x, torch.zeros_like, norm))


# %% [markdown]
# ## 5.4 Pre-norm: the residual of 2020
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
    """Normalise only what the sublayer sees, and add its result to the raw input."""
    raise NotImplementedError("Exercise 5.4: Pre-norm: the residual of 2020")


# %%
with torch.no_grad():
    print("a sublayer that adds nothing:", end="")
    show(normalization.pre_norm(x, torch.zeros_like, norm))
    print("a sublayer that adds its input:", end="")
    show(normalization.pre_norm(x, lambda y: y, norm))


# %% [markdown]
# The raw numbers are in the result, small changes on top.
#
# ## 5.5 The feed-forward layer
#
# Attention moves information between words; this layer works on each word alone. It widens `(...,
# d_model)` to `d_ff`, four times as much in 2017 (512 to 2048), drops what is negative, and comes back.
# Without the ReLU the two maps would be one.


# %%
# %%exercise 5.5
def feed_forward(
    x: Float[Tensor, "... d_model"],
    w_1: Float[Tensor, "d_model d_ff"],
    b_1: Float[Tensor, "d_ff"],
    w_2: Float[Tensor, "d_ff d_model"],
    b_2: Float[Tensor, "d_model"],
) -> Float[Tensor, "... d_model"]:
    """Widen every word to d_ff features, keep the positive ones, and come back to d_model."""
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
w_1, b_1, w_2, b_2 = torch.randn(4, 16), torch.zeros(16), torch.randn(16, 4), torch.zeros(4)
words = torch.randn(5, 4)
changed = words.clone()
changed[2] += 1
before = feedforward.feed_forward(words, w_1, b_1, w_2, b_2)
after = feedforward.feed_forward(changed, w_1, b_1, w_2, b_2)
print("word 2 changes; results that change:", (before != after).any(dim=1).nonzero().flatten().tolist())
twice = feedforward.feed_forward(-words, w_1, b_1, w_2, b_2)
print("a linear map would give f(-x) = -f(x):", torch.allclose(twice, -before))


# %% [markdown]
# ## 5.6 The encoder block
#
# Self-attention, then feed-forward, each with its residual path: `(batch, seq, d_model)` in and out.
# Because the shape stays, blocks can be stacked. The mask says which keys may be seen.


# %%
# %%exercise 5.6
class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward, each with a residual path and a norm."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, norm_first: bool = True) -> None:
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

        `norm_first` chooses pre-norm or post-norm. The mask broadcasts to (batch, heads, seq, seq).
        """
        check_shapes(x=(x, "... seq d_model"), norm_1=(self.norm_1.weight, "d_model"))
        raise NotImplementedError("Exercise 5.6: The encoder block")


# %%
torch.manual_seed(0)
block = encoder.EncoderBlock(d_model=8, n_heads=2, d_ff=32)
x = torch.randn(1, 5, 8)
order = torch.tensor([3, 0, 4, 1, 2])
with torch.no_grad():
    shuffled_after = block(x)[:, order]
    shuffled_before = block(x[:, order])
print(
    "shuffling before or after the block is the same:",
    torch.allclose(shuffled_after, shuffled_before, atol=1e-5),
)


# %% [markdown]
# The block has no idea of order: that is what week 4's positions are for.
#
# ## 5.7 The encoder: a stack of blocks
#
# Every block takes what the one before gave. In a pre-norm stack nobody has normalised the sum that
# leaves the last block, so one more norm ends it. The shape is still `(batch, seq, d_model)`.


# %%
# %%exercise 5.7
class Encoder(nn.Module):
    """A stack of encoder blocks, with a final norm in the pre-norm case."""

    def __init__(
        self, n_layers: int, d_model: int, n_heads: int, d_ff: int, norm_first: bool = True
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            EncoderBlock(d_model, n_heads, d_ff, norm_first) for _ in range(n_layers)
        )
        self.norm = nn.LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
        mask: Bool[Tensor, "... seq seq"] | None = None,
    ) -> Float[Tensor, "batch seq d_model"]:
        """Send x through all blocks and the final norm."""
        check_shapes(x=(x, "... seq d_model"))
        raise NotImplementedError("Exercise 5.7: The encoder: a stack of blocks")


# %% [markdown]
# **Predict, run, explain.** Twelve blocks with fresh weights, before any training. Follow the size of
# the numbers on the path (their standard deviation, 1 at the start). How large is it after the last
# block of a pre-norm stack, before the final norm?

# %%
my_prediction = None  # a number

# %%
LAYERS = 12


def fresh(norm_first):
    """Make a deep encoder with the initial weights that are usual for Transformers."""
    torch.manual_seed(0)
    model = encoder.Encoder(LAYERS, d_model=32, n_heads=4, d_ff=128, norm_first=norm_first)
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.xavier_uniform_(weight)
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


kinds = {"post-norm": False, "pre-norm": True}
sizes = {name: size_by_block(fresh(norm_first)) for name, norm_first in kinds.items()}
for name in sizes:
    print(f"{name:>9}, size after block 1, 6, 12:", [round(sizes[name][i], 1) for i in (0, 5, 11)])
compare(my_prediction, round(sizes["pre-norm"][-1], 1))

# %% [markdown]
# And the gradients, block by block, at the first step of training:


# %%
def gradient_by_block(model):
    """Give the norm of a gradient in every block, for random targets."""
    torch.nn.functional.cross_entropy(model(x).flatten(0, 1), target).backward()
    return [block.feed_forward.w_2.weight.grad.norm().item() for block in model.blocks]


slopes = {name: gradient_by_block(fresh(norm_first)) for name, norm_first in kinds.items()}
for name in slopes:
    print(f"{name:>9}, gradient in block 1, 6, 12:", [round(slopes[name][i], 2) for i in (0, 5, 11)])

# %%
# NBVAL_IGNORE_OUTPUT
# A figure's bytes depend on the fonts of the machine.
_, axes = plt.subplots()
for name, norms in slopes.items():
    axes.plot(range(1, LAYERS + 1), norms, marker="o", label=name)
axes.set(xlabel="block", ylabel="gradient norm", ylim=(0, None))
_ = axes.legend()

# %% [markdown]
# With post-norm the last block's gradient is nearly three times that of pre-norm: the first steps there
# must be small, and that is what a warm-up of the learning rate is for. Pre-norm's path grows with
# depth, so each later block weighs less in the sum, and its gradients are gentler. Easier to train does
# not mean better in the end: both are still in use.
#
# ## What you have seen
#
# Layer norm asks no other word, so padding and batch cannot disturb it. A residual path carries the raw
# input, and where the norm stands decides how large the numbers and the gradients become. Attention and
# feed-forward between such paths are the encoder. Next week: what a model that writes may not see.
