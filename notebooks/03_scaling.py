# %% [markdown]
# # Week 3: Why divide by a root, and many heads
#
# A dot product of long vectors is a large number, and softmax answers large numbers by looking at one
# word only. By what must the scores be divided so that the width of the vectors does not matter? You
# measure it, build the attention of the 2017 paper, and then let several heads look at once.

# %%
# %load_ext lab_grader

# %%
import ipywidgets
import matplotlib.pyplot as plt
import torch

from lab_transformer import attention

plt.rcParams.update({"figure.figsize": (5, 3), "figure.dpi": 80, "figure.constrained_layout.use": True})


def compare(predicted, measured):
    """Put what you expected beside what came out."""
    if predicted is None:
        print(f"no prediction written; measured: {measured}")
    else:
        print(f"you predicted {predicted}; measured: {measured}")


# %% [markdown]
# ## 3.1 The variance of a dot product
#
# Take two vectors of d independent numbers, each of mean 0 and variance 1. Their dot product adds d
# products, each of variance 1. Independent variances add up. Your function measures this on many pairs
# and gives one float.


# %%
# %%exercise 3.1
def dot_product_variance(d: int, samples: int, generator: torch.Generator) -> float:
    """Estimate the variance of q . k for q and k with d independent standard normal components."""
    if d < 1 or samples < 2:
        raise ValueError(f"needs d >= 1 and samples >= 2, got d = {d} and samples = {samples}")
    raise NotImplementedError("Exercise 3.1: The variance of a dot product")


# %% [markdown]
# **Predict, run, explain.** The variance is 4 at d = 4. What is it at d = 64 and at d = 512? And by
# what must a score be divided to have variance 1 again, if Var(cX) = c² Var(X)?

# %%
my_prediction = None  # three numbers: the variance at 64, at 512, the divisor at 64

# %%
sizes = [4, 16, 64, 256, 512]
variance = {
    d: attention.dot_product_variance(d, 20_000, torch.Generator().manual_seed(d)) for d in sizes
}
for d in sizes:
    print(f"d = {d:3}: variance / d = {variance[d] / d:.1f}")
shares = f"{variance[64] / 64:.1f} times 64, {variance[512] / 512:.1f} times 512"
compare(my_prediction, f"{shares}, divisor {variance[64] ** 0.5:.0f}")

# %%
# NBVAL_IGNORE_OUTPUT
# A figure's bytes depend on the fonts of the machine.
measured = list(variance.values())
figure, axes = plt.subplots()
axes.loglog(sizes, measured, "o", label="measured")
axes.loglog(sizes, sizes, label="d")
axes.set(xlabel="d", ylabel="variance of q · k")
_ = axes.legend()


# %% [markdown]
# ## 3.2 Scaled dot-product attention
#
# Queries `(..., query, d_head)` meet keys `(..., key, d_head)`: scores of shape `(..., query, key)`,
# divided by the root of `d_head`. Where the mask is False the score is -inf, so that softmax gives an
# exact 0. The weights mix the values `(..., key, d_value)`. A query that may look at nothing gets
# zeros.


# %%
# %%exercise 3.2
def scaled_dot_product_attention(
    q: Float[Tensor, "... query d_head"],
    k: Float[Tensor, "... key d_head"],
    v: Float[Tensor, "... key d_value"],
    mask: Bool[Tensor, "... query key"] | None = None,
) -> tuple[Float[Tensor, "... query d_value"], Float[Tensor, "... query key"]]:
    """Weigh the values by how well each query matches each key.

    Returns the weighted values and the weights. The mask is True where a query may attend to a key,
    and may broadcast. A query that may attend to nothing gets zeros.
    """
    check_shapes(q=(q, "... query d_head"), k=(k, "... key d_head"), v=(v, "... key d_value"))
    check_mask(mask, torch.Size([*q.shape[:-1], k.shape[-2]]))
    raise NotImplementedError("Exercise 3.2: Scaled dot-product attention")


# %% [markdown]
# **Predict, run, explain.** Ten keys and one query, all of random numbers, d = 512. With the root, the
# largest weight is about 0.3 on average. What is it without?

# %%
my_prediction = None  # a number between 0.1 and 1


# %%
def weights_of(d, root, queries=400, keys=10):
    """Give the weights of random queries over random keys, with or without the root of d."""
    torch.manual_seed(d)
    q, k = torch.randn(queries, 1, d), torch.randn(queries, keys, d)
    factor = 1 if root else d**0.5  # takes the root back out
    return attention.scaled_dot_product_attention(q * factor, k, k)[1].squeeze(-2)


def entropy(weights):
    """Count in bits how undecided the weights are: 0 for one word only, log2(10) for all alike."""
    return -torch.special.xlogy(weights, weights).sum(-1).mean().item() / torch.tensor(2.0).log().item()


def slope(weights):
    """Give the mean size of the softmax's Jacobian, which is what a gradient is multiplied by."""
    return (
        (torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]).norm(dim=(1, 2)).mean()
    )


print("       largest weight    entropy in bits    size of the Jacobian")
print("  d    root   no root    root   no root      root   no root")
for d in sizes:
    both = [weights_of(d, root=True), weights_of(d, root=False)]
    largest = "   ".join(f"{w.amax(-1).mean().item():7.2f}" for w in both)
    bits = "   ".join(f"{entropy(w):7.2f}" for w in both)
    slopes = "   ".join(f"{slope(w).item():7.2f}" for w in both)
    print(f"{d:3} {largest} {bits}   {slopes}")
compare(my_prediction, f"{weights_of(512, root=False).amax(-1).mean().item():.2f}")

# %% [markdown]
# Without the root the softmax has made up its mind before any training, and hardly any gradient comes
# through to change it. Turn the knob: one query, ten keys. (The control needs a running kernel.)

# %%
# NBVAL_IGNORE_OUTPUT
# A control is drawn by the browser; its ids differ in every run.
bars = {
    d: (weights_of(d, root=True)[0], weights_of(d, root=False)[0]) for d in (1, 4, 16, 64, 256, 1024)
}


def draw(d_head):
    """Draw the weights of one query with and without the root."""
    figure, axes = plt.subplots(1, 2, sharey=True)
    for ax, weights, title in zip(axes, bars[d_head], ["with the root", "without"], strict=True):
        ax.bar(range(10), weights)
        ax.set(title=title, xlabel="key", ylim=(0, 1))
    axes[0].set_ylabel("weight")
    plt.show()


_ = ipywidgets.interact(draw, d_head=ipywidgets.SelectionSlider(options=list(bars), value=64))

# %% [markdown]
# And the mask, with a query that may look at nothing:

# %%
torch.manual_seed(5)
q, k, v = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 2)
mask = torch.tensor([[True] * 5, [True, True, False, False, False], [False] * 5])
output, weights = attention.scaled_dot_product_attention(q, k, v, mask)
for row, allowed in zip(weights, mask, strict=True):
    print(f"may look at {int(allowed.sum())}:", [f"{weight:.2f}" for weight in row.tolist()])
print("output of the last query:", [abs(number) for number in output[2].tolist()])


# %% [markdown]
# ## 3.3 Splitting into heads
#
# One softmax gives one set of weights, so one head has one view of a sentence. Several heads share the
# width: 512 numbers become 8 heads of 64. Words of shape `(..., seq, d_model)` become
# `(..., heads, seq, d_head)`, and head 0 has the first `d_head` numbers of every word. A reshape alone
# gives the right shape and the wrong numbers.


# %%
# %%exercise 3.3
def split_heads(
    x: Float[Tensor, "... seq d_model"], n_heads: int
) -> Float[Tensor, "... heads seq d_head"]:
    """Cut every word vector into n_heads parts of equal width, and put the heads before the words."""
    check_shapes(x=(x, "... seq d_model"))
    check_heads(x.shape[-1], n_heads)
    raise NotImplementedError("Exercise 3.3: Splitting into heads")


# %%
# Word 0 is 0 1 2 3 4 5, word 1 is 10 11 12 13 14 15, and so on.
x = (torch.arange(4)[:, None] * 10 + torch.arange(6)).float()
split = attention.split_heads(x, 2)
print("head 0, split:  ", split[0].int().tolist())
print("head 0, reshape:", x.reshape(2, 4, 3)[0].int().tolist())


# %% [markdown]
# The reshape gave head 0 two whole words instead of a part of all four. Nothing would crash.
#
# ## 3.4 Merging the heads again
#
# After attention, each head has its own result of shape `(..., heads, seq, d_head)`. They are laid side
# by side again as `(..., seq, d_model)`. It is the way back of the split.


# %%
# %%exercise 3.4
def merge_heads(x: Float[Tensor, "... heads seq d_head"]) -> Float[Tensor, "... seq d_model"]:
    """Put the parts of all heads side by side again: the inverse of split_heads."""
    check_shapes(x=(x, "... heads seq d_head"))
    raise NotImplementedError("Exercise 3.4: Merging the heads again")


# %%
merged = attention.merge_heads(attention.split_heads(x, 2))
print("there and back:", torch.equal(merged, x))
print("word 1 after a reshape only:", attention.split_heads(x, 2).reshape(4, 6)[1].int().tolist())


# %% [markdown]
# ## 3.5 Multi-head attention
#
# Project `query`, `key` and `value` to `d_model` each, split, attend in all heads at once, merge, and
# mix with `w_o`. Without the last matrix, no head's result would ever meet another's. The weights come
# back with a heads axis: `(..., heads, query, key)`.


# %%
# %%exercise 3.5
class MultiHeadAttention(nn.Module):
    """Attend in several subspaces at once and mix what the heads found."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        check_heads(d_model, n_heads)
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(
        self,
        query: Float[Tensor, "... query d_model"],
        key: Float[Tensor, "... key d_model"],
        value: Float[Tensor, "... key d_model"],
        mask: Bool[Tensor, "... query key"] | None = None,
    ) -> tuple[Float[Tensor, "... query d_model"], Float[Tensor, "... heads query key"]]:
        """Return the mixed output of all heads, and every head's weights.

        The mask broadcasts to (..., heads, query, key).
        """
        check_shapes(
            query=(query, "... query d_model"),
            key=(key, "... key d_model"),
            value=(value, "... key d_model"),
            w_q=(self.w_q.weight, "d_model d_model"),
        )
        raise NotImplementedError("Exercise 3.5: Multi-head attention")


# %% [markdown]
# "The man saw the astronomer with a telescope" can be read in two ways: who has the telescope? Here the
# projections are written by hand, so that head 0 ties "telescope" to the seeing and head 1 to the
# person.

# %%
words = ["the", "man", "saw", "the", "astronomer", "with", "a", "telescope"]
# Features: seeing, person looked at, instrument, anything else.
features = {"saw": 0, "astronomer": 1, "telescope": 2}
x = torch.eye(4)[[features.get(word, 3) for word in words]]


def by_hand(n_heads, key_rows):
    """Build an attention in which instruments ask and the given columns of the keys answer."""
    block = attention.MultiHeadAttention(4, n_heads)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.zero_()
        for column, feature in key_rows:
            block.w_q.weight[column, features["telescope"]] = 6.0
            block.w_k.weight[column, feature] = 1.0
        block.w_v.weight.copy_(torch.eye(4))
        block.w_o.weight.copy_(torch.eye(4))
    return block


# Two heads of width 2: columns 0 and 1 are head 0, columns 2 and 3 are head 1.
two = by_hand(2, [(0, features["saw"]), (2, features["astronomer"])])
one = by_hand(1, [(0, features["saw"]), (1, features["astronomer"])])
for name, block in [("two heads", two), ("one head", one)]:
    _, weights = block(x, x, x)
    for head, row in enumerate(weights[:, -1]):
        best = ", ".join(
            f"{w} {weight:.2f}" for w, weight in zip(words, row, strict=True) if weight > 0.1
        )
        print(f"{name}, head {head}: telescope looks at {best}")

# %% [markdown]
# One head with both keys must split its weight; two heads keep both readings apart.
#
# **Predict, run, explain.** With 512 numbers a word, how many times as many parameters do 8 heads have
# as 1 head?

# %%
my_prediction = None  # a factor

# %%
counts = {
    heads: sum(p.numel() for p in attention.MultiHeadAttention(512, heads).parameters())
    for heads in (1, 8, 64)
}
for heads, count in counts.items():
    print(f"n_heads {heads:2}, d_head {512 // heads:3}: {count:,} parameters")
compare(my_prediction, counts[8] / counts[1])

# %% [markdown]
# ## What you have seen
#
# The divisor is the root of the key's width, not of the sentence's length: it undoes the growth of the
# variance. Heads are cheap because they share the width. What attention still cannot see is the order
# of the words. That is next week.
