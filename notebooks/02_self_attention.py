# %% [markdown]
# # Notebook 2: From static to contextual vectors
#
# A table of embeddings gives "bank" one vector, whether money or a river stands beside it. How can a
# word's vector come to depend on its neighbours? You build the plainest answer, a weighted sum with
# weights from dot products, find its limits, and add the three learned views that remove them.
#
# The chapter "From static to contextual vectors" works the same example by hand.

# %%
# %load_ext lab_check

# %%
import ipywidgets
import matplotlib.pyplot as plt
import torch
from torch import nn

from lab_transformer import attention
from lab_transformer.notebook import compare, progress, rounded, seconds


def show(names, numbers):
    """Print a table with a name for every row and column."""
    print(" " * 6 + "".join(f"{name:>7}" for name in names))
    for name, row in zip(names, numbers, strict=True):
        print(f"{name:>6}" + "".join(f"{number.item():7.2f}" for number in row))


# %% [markdown]
# Some words by hand, with four features: finance, water, change, place. "bank" stands between its two
# meanings, as a vector that was averaged over many texts does.

# %%
table = {
    "money": torch.tensor([2.0, 0.0, 0.0, 0.0]),
    "river": torch.tensor([0.0, 2.0, 0.0, 0.0]),
    "bank": torch.tensor([1.0, 1.0, 0.0, 1.0]),
    "grows": torch.tensor([0.5, 0.0, 1.5, 0.0]),
    "flows": torch.tensor([0.0, 0.5, 1.5, 0.0]),
    "beside": torch.tensor([0.0, 0.0, 0.0, 1.0]),
    "the": torch.tensor([0.0, 0.0, 0.0, 0.0]),
}
money, river = ["money", "bank", "grows"], ["river", "bank", "flows"]
x_money = torch.stack([table[word] for word in money])
x_river = torch.stack([table[word] for word in river])

# A static vector is an average over a data set.
# Were money beside the bank in nine texts of ten:
static = 0.9 * table["money"] + 0.1 * table["river"]
for word in ("money", "river"):
    cosine = torch.cosine_similarity(static, table[word], dim=0).item()
    print(f"cosine of the averaged bank with {word}: {cosine:.2f}")


# %% [markdown]
# ## 2.1 Similarity of every word with every word
#
# The dot product of two vectors is large when they point the same way. One product of the matrix
# `(..., seq, d_model)` with its own transpose gives all of them at once, as `(..., seq, seq)`. No word
# waits for another. The diagonal holds each word with itself.
#
# In scope in all cells of this week: `torch`, `math`, `Tensor`, and the blocks of earlier cells.


# %%
# %%exercise 2.1
def similarity_scores(
    x: Float[Tensor, "... seq d_model"],
) -> Float[Tensor, "... seq seq"]:
    """Compute how similar every word of a sequence is to every word of it.

    The similarity of two words is the dot product of their vectors.
    """
    check_shapes(x=(x, "... seq d_model"))
    raise NotImplementedError(
        "Exercise 2.1: Similarity of every word with every word",
    )


# %%
scores = attention.similarity_scores(x_money)
show(money, scores)
print("the same from both sides:", torch.allclose(scores, scores.mT))


# %% [markdown]
# ## 2.2 A softmax that does not overflow
#
# Weights should be positive and sum to one along `dim`; the shape stays. The exponential does the first
# and a division the second. But `exp` leaves the range of a float soon after 88. Taking the same number
# off all scores changes nothing in the result, so there is a number that makes every row safe.


# %%
# %%exercise 2.2
def softmax(
    scores: Float[Tensor, "..."],
    dim: int = -1,
) -> Float[Tensor, "..."]:
    """Turn scores, however large, into weights that sum to one along dim.

    No weight is negative. A score of -inf beside finite ones gets the weight
    zero. Where all scores along dim are -inf, there is nothing to weigh: NaN
    and zeros are both fine.
    """
    raise NotImplementedError("Exercise 2.2: A softmax that does not overflow")


# %%
high = torch.tensor([1000.0, 1001.0, 1002.0])
plain = high.exp() / high.exp().sum()
print("plain formula:", plain.tolist())
print("yours:        ", rounded(attention.softmax(high), 3))
print("of 0, 1, 2:   ", rounded(attention.softmax(high - 1000), 3))


# %% [markdown]
# ## 2.3 Vectors that know their neighbours
#
# Every word becomes a weighted sum of all words of its sentence. Row i of the weights, of shape
# `(..., seq, seq)`, says how much word i takes from each. There is no parameter in it. The vectors
# alone decide.
#
# In scope: `similarity_scores` from 2.1 and `softmax` from 2.2.


# %%
# %%exercise 2.3
def contextualize(
    x: Float[Tensor, "... seq d_model"],
) -> tuple[Float[Tensor, "... seq d_model"], Float[Tensor, "... seq seq"]]:
    """Replace every word vector by a weighted sum of its sequence.

    There are no parameters at all. Returns the context vectors and the
    weights; row i of the weights belongs to word i.
    """
    check_shapes(x=(x, "... seq d_model"))
    raise NotImplementedError(
        "Exercise 2.3: Vectors that know their neighbours",
    )


# %% [markdown]
# **Predict, run, explain.** Before: both "bank" vectors are the same, so their cosine is 1. After one
# round of context, in "money bank grows" and in "river bank flows": what is their cosine?

# %%
my_prediction = None  # a number between 0 and 1

# %%
context_money, weights_money = attention.contextualize(x_money)
context_river, weights_river = attention.contextualize(x_river)
show(money, weights_money)
print()
by_money, by_river = context_money[1], context_river[1]
print("bank beside money:", rounded(by_money, 2))
print("bank beside river:", rounded(by_river, 2))
cosine = torch.cosine_similarity(by_money, by_river, dim=0).item()
apart = (by_money - by_river).norm().item()
before = (x_money[1] - x_river[1]).norm().item()
print(f"distance between the two: before {before:.2f}, after {apart:.2f}")
compare(my_prediction, f"cosine {cosine:.2f}")

# %% [markdown]
# A longer sentence. "the" is a vector of zeros. Look at its two rows, and at how far "bank" reaches.

# %%
six = ["the", "river", "beside", "the", "bank", "flows"]
x_six = torch.stack([table[word] for word in six])
context, weights = attention.contextualize(x_six)
show(six, weights)
print("both rows of 'the' are the same:", torch.equal(weights[0], weights[3]))
sums = weights.sum(-1)
print("every row sums to 1:", torch.allclose(sums, torch.ones(6)))

# %% [markdown]
# A vector of zeros does not switch attention off: it takes the plain average. And "the" at place 1 and
# "the" at place 4 become the same vector. Attention does not see the order; week 4 gives it back.
#
# One round moved the banks apart. Would ten rounds move them further?

# %%
left, right = x_money, x_river
print("rounds   cosine of the banks   largest distance inside a sentence")
for rounds in range(1, 11):
    left, _ = attention.contextualize(left)
    right, _ = attention.contextualize(right)
    if rounds in (1, 2, 3, 5, 10):
        banks = torch.cosine_similarity(left[1], right[1], dim=0).item()
        inside = torch.pdist(left).max().item()
        print(f"{rounds:6}   {banks:19.2f}   {inside:34.2f}")

# %% [markdown]
# The two banks do move apart, and each sentence melts into a single vector. Averages of averages have
# no other way to go. It takes learned parameters, and a path around the average (week 5), to stack
# rounds.
#
# **Predict, run, explain.** It is often said that a word attends to itself most. Here is "money" with
# three times the norm. Which word does "bank" attend to most, and with what weight?

# %%
my_prediction = None  # such as ("bank", 0.5)

# %%
loud = x_money.clone()
loud[0] *= 3
_, weights = attention.contextualize(loud)
show(money, weights)
most = int(weights[1].argmax())
compare(my_prediction, (money[most], round(weights[1, most].item(), 2)))

# %% [markdown]
# A vector with a large norm shouts. Only when all norms are equal is the diagonal bound to win.
#
# Turn the knob: all vectors times a factor. Small vectors look at everyone, large ones at one word
# only. Next week asks which size is right. (The control needs a running kernel.)

# %% tags=["nbval-ignore-output"]
pictures = {
    factor / 4: attention.contextualize(x_money * factor / 4)[1]
    for factor in range(13)
}


def draw(factor):
    """Draw the weights of the money sentence for one factor."""
    figure, axes = plt.subplots(figsize=(3.4, 3))
    axes.imshow(pictures[factor], vmin=0, vmax=1, cmap="cividis")
    axes.set_xticks(range(3), money)
    axes.set_yticks(range(3), money)
    axes.set(xlabel="looked at", ylabel="looking")
    plt.show()


knob = ipywidgets.SelectionSlider(options=list(pictures), value=1.0)
_ = ipywidgets.interact(draw, factor=knob)


# %% [markdown]
# ## 2.4 Three views of one vector
#
# So far a word asks, is found, and answers with the same vector. Three matrices part these roles: the
# query `(..., seq, d_head)` asks, the key `(..., seq, d_head)` is matched, the value
# `(..., seq, d_value)` is handed over. It is a dictionary with soft look-ups: every entry answers, by
# how well its key fits. The matrices are what is learned.


# %%
# %%exercise 2.4
def project_qkv(
    x: Float[Tensor, "... seq d_model"],
    w_q: Float[Tensor, "d_model d_head"],
    w_k: Float[Tensor, "d_model d_head"],
    w_v: Float[Tensor, "d_model d_value"],
) -> tuple[
    Float[Tensor, "... seq d_head"],
    Float[Tensor, "... seq d_head"],
    Float[Tensor, "... seq d_value"],
]:
    """Give every word a query, a key and a value.

    They are three learned linear views of its vector.
    """
    check_shapes(
        x=(x, "... seq d_model"),
        w_q=(w_q, "d_model d_head"),
        w_k=(w_k, "d_model d_head"),
        w_v=(w_v, "d_model d_value"),
    )
    raise NotImplementedError(
        "Exercise 2.4: Three views of one vector: query, key, value",
    )


# %% [markdown]
# With matrices chosen by hand: places ask, finance and water answer, values say which.
# Now "bank" may find "money" while "money" does not look for "bank".

# %%
# Rows: finance, water, change, place.
w_q = torch.tensor([[0.0], [0.0], [0.0], [3.0]])  # places ask
w_k = torch.tensor([[1.0], [1.0], [0.0], [-2.0]])  # places do not answer
w_v = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
for words, x in [(money, x_money), (river, x_river)]:
    q, k, v = attention.project_qkv(x, w_q, w_k, w_v)
    weights = attention.softmax(q @ k.mT)
    show(words, weights)
    print("bank is (finance, water):", rounded((weights @ v)[1], 2), "\n")

# %% [markdown]
# Look at the row of "bank": its smallest weight is the one on itself. With a query and a key that are
# learned apart from each other, nothing favours the diagonal any more. With random matrices it wins as
# often as any other place:

# %%
torch.manual_seed(4)
words, d = 10, 8
x = nn.functional.normalize(torch.randn(2000, words, d), dim=-1) * d**0.5
own = torch.arange(words)
plain = (attention.contextualize(x)[1].argmax(-1) == own).float().mean().item()
hits = []
for sentences in x.split(10):  # other matrices for every ten sentences
    q, k, _ = attention.project_qkv(sentences, *(torch.randn(3, d, d) / d**0.5))
    hits.append((attention.softmax(q @ k.mT).argmax(-1) == own).float().mean())
viewed = torch.stack(hits).mean().item()
print("vectors of equal length, no parameters: ", end="")
print(f"the diagonal wins in {plain:.0%} of the rows")
assert 0.05 < viewed < 0.2, f"{viewed:.2f} of the rows, not about 0.1"
print("with random queries and keys: in about one row of ten, which is chance")

# %% [markdown]
# ## What learning adds
#
# A dictionary, written as a sentence. Eight words have a name (one of eight) and a content (one of
# four). A ninth word has a name only: it asks for the content that belongs to this name. Attention
# answers; a learned linear layer reads the answer from the ninth word's new vector.


# %%
def questions(count, draw):
    """Make sentences of eight entries and an asking word, and the answers."""
    names = torch.rand(count, 8, generator=draw).argsort(-1)
    contents = torch.randint(4, (count, 8), generator=draw)
    asked = torch.randint(8, (count, 1), generator=draw)
    one_hot = nn.functional.one_hot
    entries = torch.cat([one_hot(names, 8), one_hot(contents, 4)], -1).float()
    name = one_hot(names.gather(1, asked), 8)
    asker = torch.cat([name, torch.zeros(count, 1, 4)], -1)
    return torch.cat([entries, asker], 1), contents.gather(1, asked)[:, 0]


class LookUp(nn.Module):
    """Answers by your attention, with learned views or with no parameters."""

    def __init__(self, learned):
        super().__init__()
        self.learned = learned
        views = [torch.randn(12, 8) / 12**0.5 for _ in range(3)]
        self.views = nn.ParameterList(views)
        self.readout = nn.Linear(8 if learned else 12, 4)

    def weights_and_values(self, x):
        if not self.learned:
            return attention.contextualize(x)[1], x
        q, k, v = attention.project_qkv(x, *self.views)
        return attention.softmax(q @ k.mT), v

    def forward(self, x):
        weights, values = self.weights_and_values(x)
        return self.readout((weights @ values)[:, -1])


def train(learned):
    """Train for 500 steps; give the model and its curve.

    The curve is the share of right answers at every twentieth step.
    """
    torch.manual_seed(0)
    model, draw, curve = LookUp(learned), torch.Generator().manual_seed(0), []
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in progress(range(501), "training"):
        if step % 20 == 0:
            with torch.no_grad():
                right = model(test).argmax(-1) == wanted
            curve.append(right.float().mean().item())
        x, content = questions(64, draw)
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), content).backward()
        optimiser.step()
    return model, curve


test, wanted = questions(2000, torch.Generator().manual_seed(1))

# %% [markdown]
# **Predict, run, explain.** How often is each right after 500 steps of training, with and without
# learned views? Guessing gives 0.25.

# %%
my_prediction = None  # two shares: (with learned views, without)

# %% tags=["nbval-ignore-output"]
trained = {learned: train(learned) for learned in (True, False)}
figure, axes = plt.subplots()
for learned, (_, curve) in trained.items():
    name = "query, key, value" if learned else "no parameters"
    axes.plot(range(0, 501, 20), curve, label=name)
axes.set(xlabel="training steps", ylabel="right answers", ylim=(0, 1.05))
_ = axes.legend()

# %%
right = {learned: curve[-1] for learned, (_, curve) in trained.items()}
assert right[True] > 0.98, "with learned views it should be always right"
assert 0.6 < right[False] < 0.9, "without, it should be right 3 times in 4"
compare(my_prediction, "always right, and about three times in four")

# %% [markdown]
# Why? Compare the weights of the asking word. The right entry is the one whose name it holds.

# %%
for learned, (model, _) in trained.items():
    with torch.no_grad():
        weights = model.weights_and_values(test)[0][:, -1]
    holds = (test[:, :8, :8] * test[:, 8:, :8]).sum(-1).bool()
    on_right = weights[:, :8][holds]
    if learned:
        often = (on_right > 0.5).float().mean().item()
        assert often > 0.9, f"most of the weight only in {often:.0%}"
        print("learned views: the right entry gets most of the weight,")
        print("               in 9 of 10 sentences or more")
    else:
        mean = on_right.mean().item()
        print(f"no parameters: the right entry gets {mean:.2f} of the weight")

# %% [markdown]
# ## The price
#
# Every pair of words has a score, so the work grows with the square of the length n, and in proportion
# to the width d. **Predict, run, explain.** From 64 to 1,024 words at the same width, 16 times as many:
# how many times longer does your `contextualize` take? And from 64 to 1,024 numbers for each word?

# %%
my_prediction = None  # two factors: (for n, for d)


# %% tags=["nbval-ignore-output"]
sizes = [64, 128, 256, 512, 1024]


def milliseconds(n, d):
    x = torch.ones(n, d)
    return 1e3 * seconds(attention.contextualize, x, times=7)


by_length = [milliseconds(n, 256) for n in sizes]
by_width = [milliseconds(256, d) for d in sizes]
figure, axes = plt.subplots()
axes.loglog(sizes, by_length, "o-", label="n words of width 256")
axes.loglog(sizes, by_width, "o-", label="256 words of width d")
axes.set(xlabel="n or d", ylabel="milliseconds")
_ = axes.legend()
for_n, for_d = by_length[-1] / by_length[0], by_width[-1] / by_width[0]
assert for_n > 2 * for_d, "n should cost more than d"
compare(my_prediction, f"{for_n:.0f} and {for_d:.0f}")

# %% [markdown]
# What the table of the 2017 paper calls constant are the steps that wait for each other, and the path
# between two words. The work is not.
#
# ## What you have seen
#
# A weighted sum makes vectors depend on their sentence, all words at once, at a price that grows with
# the square of the length. Without parameters it listens to whoever is loudest and melts when repeated.
# Queries, keys and values give it something to learn. Next week: why the scores are divided by a root.
