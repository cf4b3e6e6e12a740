# %% [markdown]
# # Notebook 3: The root of d_k, and many heads
#
# A dot product of long vectors is a large number, and softmax answers large numbers by looking at one
# word only. By what must the scores be divided so that the width of the vectors does not matter? You
# measure it, build the attention of the 2017 paper, and then let several heads look at once.

# %%
# %load_ext lab_check

# %%
import itertools
import math

import ipywidgets
import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn import functional

from lab_transformer import attention
from lab_transformer.notebook import compare, progress, seconds

# %% [markdown]
# ## 3.1 The variance of a dot product
#
# Take two vectors of d independent numbers, each of mean 0 and variance 1. Their dot product adds d
# products, each of variance 1. Independent variances add up. With components of +1 and -1 it can be
# counted: all 16 outcomes for d = 4.

# %%
sums = [sum(products) for products in itertools.product([-1, 1], repeat=4)]
for total in (-4, -2, 0, 2, 4):
    print(f"sum {total:2}: {sums.count(total)} of 16")
print("mean of the squares:", sum(total**2 for total in sums) / 16)

# %% [markdown]
# Your function measures it for normal components, on many pairs, and gives one float.
#
# In scope in all cells of this week: `torch`, `math`, `Tensor`, `nn`, and the blocks of earlier cells.


# %%
# %%exercise 3.1
def dot_product_variance(
    d: int,
    samples: int,
    generator: torch.Generator,
) -> float:
    """Estimate the variance of the dot product q . k of two random vectors.

    Each sample is a new pair of q and k, with d independent standard normal
    components each. All randomness comes from the generator. The variance may
    divide by samples - 1 or by samples, and may use the sample mean or the
    true mean, zero.
    """
    if d < 1 or samples < 2:
        raise ValueError(
            "the estimate of a variance needs d >= 1 and samples >= 2, "
            f"but d = {d} and samples = {samples}"
        )
    raise NotImplementedError("Exercise 3.1: The variance of a dot product")


# %% [markdown]
# **Predict, run, explain.** The variance is 4 at d = 4. What is it at d = 64 and at d = 512? And by
# what must a score be divided to have variance 1 again, if Var(cX) = c² Var(X)?

# %%
my_prediction = None  # the variance at 64, at 512, the divisor at 64

# %%
sizes = [4, 16, 64, 256, 512]
variance = {}
for d in sizes:
    generator = torch.Generator().manual_seed(d)
    variance[d] = attention.dot_product_variance(d, 30_000, generator)
    print(f"d = {d:3}: variance / d = {variance[d] / d:.1f}")
low, high = variance[64] / 64, variance[512] / 512
divisor = variance[64] ** 0.5
compare(
    my_prediction,
    f"{low:.1f} times 64, {high:.1f} times 512, divisor {divisor:.0f}",
)

# %% tags=["nbval-ignore-output"]
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
#
# In scope: `softmax` from 2.2.


# %%
# %%exercise 3.2
def scaled_dot_product_attention(
    q: Float[Tensor, "... query d_head"],
    k: Float[Tensor, "... key d_head"],
    v: Float[Tensor, "... key d_value"],
    mask: Bool[Tensor, "... query key"] | None = None,
) -> tuple[Float[Tensor, "... query d_value"], Float[Tensor, "... query key"]]:
    """Weigh the values by how well each query matches each key.

    Returns the weighted values and the weights. The mask is True where a query
    may attend to a key, and may broadcast. A query that may attend to nothing
    gets zeros.
    """
    check_shapes(
        q=(q, "... query d_head"),
        k=(k, "... key d_head"),
        v=(v, "... key d_value"),
    )
    check_mask(mask, torch.Size([*q.shape[:-1], k.shape[-2]]))
    raise NotImplementedError("Exercise 3.2: Scaled dot-product attention")


# %% [markdown]
# **Predict, run, explain.** Ten keys and one query, all of random numbers, d = 512. With the root, the
# largest weight is about 0.3 on average. What is it without?

# %%
my_prediction = None  # a number between 0.1 and 1


# %%
def weights_of(d, root, queries=4000, keys=10):
    """Give the weights of random queries over random keys."""
    torch.manual_seed(d)
    q, k = torch.randn(queries, 1, d), torch.randn(queries, keys, d)
    factor = 1 if root else d**0.5  # takes the root back out
    _, weights = attention.scaled_dot_product_attention(q * factor, k, k)
    return weights.squeeze(-2)


def entropy(weights):
    """Count in bits how undecided the weights are.

    One word only is 0 bits, ten words alike are log2(10).
    """
    nats = -torch.special.xlogy(weights, weights).sum(-1)
    return nats.mean().item() / math.log(2)


def slope(weights):
    """Give the mean size of the softmax's Jacobian.

    It is what a gradient is multiplied by on its way back.
    """
    products = weights[:, :, None] * weights[:, None, :]
    jacobian = torch.diag_embed(weights) - products
    return jacobian.norm(dim=(1, 2)).mean()


print("       largest weight    entropy in bits    size of the Jacobian")
print("  d    root   no root    root   no root      root   no root")
for d in (4, 16, 256):
    pair = [weights_of(d, root=True), weights_of(d, root=False)]
    largest = "   ".join(f"{w.amax(-1).mean().item():7.1f}" for w in pair)
    bits = "   ".join(f"{entropy(w):7.0f}" for w in pair)
    slopes = "   ".join(f"{slope(w).item():7.1f}" for w in pair)
    print(f"{d:3} {largest} {bits}   {slopes}")
without = weights_of(512, root=False).amax(-1).mean()
compare(my_prediction, "above 0.9" if without > 0.9 else "at most 0.9")

# %% [markdown]
# Without the root the softmax has made up its mind before any training, and hardly any gradient comes
# through to change it. Turn the knob: one query, ten keys. (The control needs a running kernel.)

# %% tags=["nbval-ignore-output"]
bars = {
    d: [weights_of(d, root, queries=1)[0] for root in (True, False)]
    for d in (1, 4, 16, 64, 256, 1024)
}


def draw(d_head):
    """Draw the weights of one query with and without the root."""
    figure, axes = plt.subplots(1, 2, sharey=True)
    for ax, weights in zip(axes, bars[d_head], strict=True):
        ax.bar(range(10), weights)
        ax.set(xlabel="key", ylim=(0, 1))
    axes[0].set(title="with the root", ylabel="weight")
    axes[1].set(title="without")
    plt.show()


knob = ipywidgets.SelectionSlider(options=list(bars), value=64)
_ = ipywidgets.interact(draw, d_head=knob)

# %% [markdown]
# A common belief is that scores are divided by the root of the sentence's *length*. Look at what that
# does to your weights when the sentence grows and d_k stays: the entropy should only follow the number
# of keys, and not leave it.

# %%
print("keys   most bits there are   by the root of d_k   by that of the keys")
for keys in (4, 64, 1024):
    torch.manual_seed(keys)
    q, k = torch.randn(400, 1, 64), torch.randn(400, keys, 64)
    _, by_width = attention.scaled_dot_product_attention(q, k, k)
    # Takes the root of d_k back out, and divides by the other root.
    longer = q * (64 / keys) ** 0.5
    _, by_length = attention.scaled_dot_product_attention(longer, k, k)
    most, right, wrong = math.log2(keys), entropy(by_width), entropy(by_length)
    print(f"{keys:4}   {most:19.0f}   {right:18.0f}   {wrong:19.0f}")

# %% [markdown]
# By the right root the weights stay within a bit of the most there is, however long the sentence. By
# the wrong one they are too sharp in short sentences and nearly equal in long ones.
#
# ### Does the root matter for training?
#
# The task: 16 pairs of words are shown, then one word of a pair; the answer is its partner. One head
# of width 128 learns it. The two runs have the same start, the same data and the same learning rate.
#
# **Predict, run, explain.** Guessing among 64 words has a loss of 4.2. What is the loss after 100
# steps, with the root and without?

# %%
my_prediction = None  # such as (1.0, 2.0)


# %%
def recall(root, d=128, words=64, pairs=16, batch=32, steps=100):
    """Train one head to find a word's partner, and give the losses."""
    torch.manual_seed(0)
    first, second = torch.randn(2, words, d)
    w_q, w_k, w_v = (nn.Parameter(torch.randn(d, d) / d**0.5) for _ in range(3))
    w_out = nn.Parameter(torch.zeros(d, words))
    optimizer = torch.optim.Adam([w_q, w_k, w_v, w_out], lr=0.005)
    losses = []
    for _ in progress(range(steps), "training"):
        keys = torch.rand(batch, words).argsort(dim=-1)[:, :pairs]
        values = torch.randint(words, (batch, pairs))
        asked = torch.randint(pairs, (batch, 1))
        q = first[keys.gather(1, asked)] @ w_q
        q = q if root else q * d**0.5  # takes the root back out
        k, v = first[keys] @ w_k, second[values] @ w_v
        output, _ = attention.scaled_dot_product_attention(q, k, v)
        logits = output.squeeze(1) @ w_out / d**0.5
        partner = values.gather(1, asked).squeeze(1)
        loss = functional.cross_entropy(logits, partner)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def told_loss(loss):
    """Tell a loss by fixed marks: its digits depend on the machine."""
    if loss < 0.2:
        return "below 0.2"
    return "above 1.5" if loss > 1.5 else "between"


losses = {"with the root": recall(root=True), "without": recall(root=False)}
last = {name: sum(curve[-20:]) / 20 for name, curve in losses.items()}
results = [f"{name} {told_loss(loss)}" for name, loss in last.items()]
compare(my_prediction, ", ".join(results))

# %% tags=["nbval-ignore-output"]
drawn = losses.items()
figure, axes = plt.subplots()
for name, curve in drawn:
    axes.plot(curve, label=name)
axes.set(xlabel="training step", ylabel="loss", ylim=(0, None))
_ = axes.legend()

# %% [markdown]
# Explain: a model without the root could learn smaller matrices and compute the very same thing. What
# keeps it from doing so?
#
# And the mask, with a query that may look at nothing:

# %%
# All queries and keys are alike: only the mask decides.
q, k, v = torch.zeros(3, 4), torch.zeros(5, 4), torch.ones(5, 2)
mask = torch.arange(5) < torch.tensor([[5], [2], [0]])
output, weights = attention.scaled_dot_product_attention(q, k, v, mask)
for row, allowed in zip(weights, mask, strict=True):
    shares = [f"{weight:.2f}" for weight in row.tolist()]
    print(f"may look at {int(allowed.sum())}:", shares)
print("output of the last query:", output[2].abs().tolist())


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
    x: Float[Tensor, "... seq d_model"],
    n_heads: int,
) -> Float[Tensor, "... heads seq d_head"]:
    """Cut every word vector into n_heads parts of equal width.

    The axis of the heads comes before that of the words.
    """
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
def merge_heads(
    x: Float[Tensor, "... heads seq d_head"],
) -> Float[Tensor, "... seq d_model"]:
    """Put all heads side by side again: the inverse of split_heads."""
    check_shapes(x=(x, "... heads seq d_head"))
    raise NotImplementedError("Exercise 3.4: Merging the heads again")


# %%
merged = attention.merge_heads(attention.split_heads(x, 2))
print("there and back:", torch.equal(merged, x))
reshaped = attention.split_heads(x, 2).reshape(4, 6)
print("word 1 after a reshape only:", reshaped[1].int().tolist())


# %% [markdown]
# ## 3.5 Multi-head attention
#
# Project `query`, `key` and `value` to `d_model` each, split, attend in all heads at once, merge, and
# mix with `w_o`. Without the last matrix, no head's result would ever meet another's. The weights come
# back with a heads axis: `(..., heads, query, key)`.
#
# In scope: `split_heads`, `scaled_dot_product_attention` and `merge_heads`.


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
    ) -> tuple[
        Float[Tensor, "... query d_model"],
        Float[Tensor, "... heads query key"],
    ]:
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
    """Build an attention in which instruments ask and given keys answer."""
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
        looks = zip(words, row, strict=True)
        best = [f"{word} {share:.2f}" for word, share in looks if share > 0.1]
        print(f"{name}, head {head}: telescope looks at {', '.join(best)}")

# %% [markdown]
# One head with both keys must split its weight; two heads keep both readings apart.
#
# ### What one head cannot report
#
# Now heads that learn. Eight words, each a row of 16 random numbers; one is marked as the agent, one as
# the patient. A question looks at them once, and a linear layer must give both rows back.
#
# **Predict, run, explain.** Which share of the two words does a model with one head give back? And one
# with two heads?

# %%
my_prediction = None  # such as ("80%", "90%")


# %%
class TwoRoles(nn.Module):
    """Gives back the agent and the patient, from one look."""

    def __init__(self, n_heads, d_model=32, width=16):
        super().__init__()
        self.enter = nn.Linear(width + 3, d_model)
        self.question = nn.Parameter(torch.randn(1, d_model))
        self.attention = attention.MultiHeadAttention(d_model, n_heads)
        self.tell = nn.Linear(d_model, 2 * width)

    def forward(self, words):
        x = self.enter(words)
        asks = self.question.expand(len(x), 1, -1)
        found, weights = self.attention(asks, x, x)
        return self.tell(found[:, 0]).unflatten(-1, (2, -1)), weights[:, :, 0]


def sentences(count, listed):
    """Draw sentences with marked words, and their agents and patients alone.

    A word is random numbers, or one of a list of 16.
    """
    if listed:
        words = torch.eye(16)[torch.rand(count, 16).argsort(dim=-1)[:, :8]]
    else:
        words = torch.randn(count, 8, 16)
    places = torch.rand(count, 8).argsort(dim=-1)[:, :2]
    roles = torch.zeros(count, 8, dtype=torch.long)
    roles = roles.scatter(1, places, torch.tensor([[1, 2]]).expand(count, 2))
    wanted = words.gather(1, places[:, :, None].expand(count, 2, 16))
    return torch.cat([words, functional.one_hot(roles, 3)], dim=-1), wanted


def train_roles(n_heads, listed, steps=400):
    """Train a model to repeat both words, or to name them from the list."""
    torch.manual_seed(0)
    model = TwoRoles(n_heads)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in progress(range(steps), "training"):
        words, wanted = sentences(64, listed)
        said, _ = model(words)
        if listed:
            named = wanted.argmax(-1).flatten()
            loss = functional.cross_entropy(said.flatten(0, 1), named)
        else:
            loss = functional.mse_loss(said, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def told_share(share):
    """Tell a share by fixed marks: its digits depend on the machine."""
    if share > 0.95:
        return "above 95%"
    return "between 40% and 60%" if 0.4 < share < 0.6 else "else"


words, wanted = sentences(1000, listed=False)
given_back = {}
for n_heads in (1, 2):
    model = train_roles(n_heads, listed=False)
    with torch.no_grad():
        said, _ = model(words)
    given_back[n_heads] = 1 - functional.mse_loss(said, wanted).item()
results = [f"{n_heads} {told_share(x)}" for n_heads, x in given_back.items()]
compare(my_prediction, ", ".join(results))

# %% [markdown]
# One head returns a mixture of the two words. However it divides its weight, what it can tell of one is
# lost for the other. The chapter shows why the two losses add up to one whole word.
#
# ### Whose weights explain what?
#
# Eight heads where two are enough, and words from a list, to be named. What a head found reaches the
# word through its columns of `w_o.weight` (rows of $W^O$), so zeros there make it unheard. Take each
# head away alone:

# %% tags=["nbval-ignore-output"]
model = train_roles(8, listed=True)
width = 32 // 8
words, wanted = sentences(1000, listed=True)


def both_named():
    """Give the share of sentences in which the model names both words."""
    with torch.no_grad():
        said, _ = model(words)
    right = said.argmax(-1) == wanted.argmax(-1)
    return right.all(dim=-1).float().mean().item()


stored = model.attention.w_o.weight.detach().clone()
all_heads, without_head = both_named(), []
for head in range(8):
    with torch.no_grad():
        model.attention.w_o.weight[:, head * width : (head + 1) * width] = 0
    without_head.append(both_named())
    with torch.no_grad():
        model.attention.w_o.weight.copy_(stored)
with torch.no_grad():
    looked = model(words)[1]
marked = words[..., 17] + words[..., 18]
on_roles = (looked * marked[:, None]).sum(-1).mean(0).tolist()
print(f"all eight heads: both words named in {all_heads:.0%}")
print("head   weight on agent and patient   without this head")
for head in range(8):
    print(f"{head:4}   {on_roles[head]:27.2f}   {without_head[head]:17.0%}")
assert all_heads > 0.95
assert max(without_head) > 0.8

# %% [markdown]
# Compare the two columns. Is the head that looks at the right words most the one that is missed most?
# And exchange two heads altogether:

# %%
order = torch.tensor([1, 0, 2, 3, 4, 5, 6, 7])
columns = torch.arange(32).reshape(8, width)[order].flatten()
twin = TwoRoles(8)
twin.load_state_dict(model.state_dict())
with torch.no_grad():
    for linear in (twin.attention.w_q, twin.attention.w_k, twin.attention.w_v):
        linear.weight.copy_(linear.weight[columns])
        linear.bias.copy_(linear.bias[columns])
    twin.attention.w_o.weight.copy_(twin.attention.w_o.weight[:, columns])
    before, after = model(words), twin(words)
print("same answers:", torch.allclose(before[0], after[0], atol=1e-3))
same = torch.allclose(before[1][:, 0], after[1][:, 0], atol=1e-2)
print("same weights in head 0:", same)

# %% [markdown]
# "Head 0" means nothing by itself. A map of weights is one view of what happened, and a hypothesis; to
# test it, change something and look at the answers, as you just did.
#
# ### What heads cost
#
# **Predict, run, explain.** With 512 numbers a word, how many times as many parameters do 8 heads have
# as 1 head?

# %%
my_prediction = None  # a factor

# %%
counts = {}
for heads in (1, 8, 64):
    block = attention.MultiHeadAttention(512, heads)
    count = counts[heads] = sum(p.numel() for p in block.parameters())
    print(f"n_heads {heads:2}, d_head {512 // heads:3}: {count:,} parameters")
compare(my_prediction, counts[8] / counts[1])

# %% tags=["nbval-ignore-output"]
x = torch.randn(1, 128, 512)
fastest = {}
for heads in (1, 8, 64):
    block = attention.MultiHeadAttention(512, heads).requires_grad_(False)
    fastest[heads] = seconds(block, x, x, x, times=20)
    ratio = fastest[heads] / fastest[1]
    _, weights = block(x, x, x)
    print(f"{heads:2} heads: {ratio:.1f} times the time of one, ", end="")
    print(f"{weights.numel():,} weights to keep")

# %% [markdown]
# ## What you have seen
#
# The divisor is the root of the key's width, not of the sentence's length: it undoes the growth of the
# variance, and a head without it hardly starts to learn. Heads are cheap because they share the width,
# and two of them keep apart what one would mix. Their weights show where a head looked, not why the
# model decided. What attention still cannot see is the order of the words. That is next week.
