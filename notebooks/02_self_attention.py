# %% [markdown]
# # Week 2: From static to contextual vectors
#
# A table of embeddings gives "bank" one vector, whether money or a river stands beside it. How can a
# word's vector come to depend on its neighbours? You build the plainest answer, a weighted sum with
# weights from dot products, find its limits, and add the three learned views that remove them.

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


def show(names, numbers):
    """Print a table with a name for every row and column."""
    print(" " * 6 + "".join(f"{name:>7}" for name in names))
    for name, row in zip(names, numbers, strict=True):
        print(f"{name:>6}" + "".join(f"{number.item():7.2f}" for number in row))


# %% [markdown]
# Five words by hand, with four features: finance, water, change, place. "bank" stands between its two
# meanings, as a vector that was averaged over many texts does.

# %%
table = {
    "money": torch.tensor([2.0, 0.0, 0.0, 0.0]),
    "river": torch.tensor([0.0, 2.0, 0.0, 0.0]),
    "bank": torch.tensor([1.0, 1.0, 0.0, 1.0]),
    "grows": torch.tensor([0.5, 0.0, 1.5, 0.0]),
    "flows": torch.tensor([0.0, 0.5, 1.5, 0.0]),
}
money, river = ["money", "bank", "grows"], ["river", "bank", "flows"]
x_money, x_river = (torch.stack([table[word] for word in words]) for words in (money, river))


# %% [markdown]
# ## 2.1 Similarity of every word with every word
#
# The dot product of two vectors is large when they point the same way. One product of the matrix
# `(..., seq, d_model)` with its own transpose gives all of them at once, as `(..., seq, seq)`. No word
# waits for another. The diagonal holds each word with itself.


# %%
# %%exercise 2.1
def similarity_scores(x: Float[Tensor, "... seq d_model"]) -> Float[Tensor, "... seq seq"]:
    """Compute the dot product of every word vector with every word vector of its sequence."""
    check_shapes(x=(x, "... seq d_model"))
    raise NotImplementedError("Exercise 2.1: Similarity of every word with every word")


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
def softmax(scores: Float[Tensor, "..."], dim: int = -1) -> Float[Tensor, "..."]:
    """Turn scores into weights that are positive and sum to one along dim, however large they are."""
    raise NotImplementedError("Exercise 2.2: A softmax that does not overflow")


# %%
high = torch.tensor([1000.0, 1001.0, 1002.0])
plain = high.exp() / high.exp().sum()
print("plain formula:", plain.tolist())
print("yours:        ", [round(weight, 3) for weight in attention.softmax(high).tolist()])
print("of 0, 1, 2:   ", [round(weight, 3) for weight in attention.softmax(high - 1000).tolist()])


# %% [markdown]
# ## 2.3 Vectors that know their neighbours
#
# Every word becomes a weighted sum of all words of its sentence. Row i of the weights, of shape
# `(..., seq, seq)`, says how much word i takes from each. There is no parameter in it. The vectors
# alone decide.


# %%
# %%exercise 2.3
def contextualize(
    x: Float[Tensor, "... seq d_model"],
) -> tuple[Float[Tensor, "... seq d_model"], Float[Tensor, "... seq seq"]]:
    """Replace every word vector by a weighted sum of its sequence, with no parameters at all.

    Returns the context vectors and the weights; row i of the weights belongs to word i.
    """
    check_shapes(x=(x, "... seq d_model"))
    raise NotImplementedError("Exercise 2.3: Vectors that know their neighbours")


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
print("bank beside money:", [round(number, 2) for number in context_money[1].tolist()])
print("bank beside river:", [round(number, 2) for number in context_river[1].tolist()])
cosine = torch.cosine_similarity(context_money[1], context_river[1], dim=0).item()
apart = (context_money[1] - context_river[1]).norm().item()
before = (x_money[1] - x_river[1]).norm().item()
print(f"distance between the two: before {before:.2f}, after {apart:.2f}")
compare(my_prediction, f"cosine {cosine:.2f}")

# %% [markdown]
# One round moved them apart. Would ten rounds move them further?

# %%
left, right = x_money, x_river
print("rounds   cosine of the banks   largest distance inside a sentence")
for rounds in range(1, 11):
    left, right = attention.contextualize(left)[0], attention.contextualize(right)[0]
    if rounds in (1, 2, 3, 5, 10):
        banks = torch.cosine_similarity(left[1], right[1], dim=0).item()
        inside = torch.pdist(left).max().item()
        print(f"{rounds:6}   {banks:19.2f}   {inside:34.2f}")

# %% [markdown]
# The two banks do move apart, and each sentence melts into a single vector. Averages of averages have
# no other way to go. It takes learned parameters, and a path around the average (week 5), to stack
# rounds.
#
# **Predict, run, explain.** It is often said that a word attends to itself most. Here is "money" three
# times as long as before. Which word does "bank" attend to most, and with what weight?

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
# A long vector shouts. Only with vectors of equal length is the diagonal bound to win.
#
# Turn the knob: all vectors times a factor. Small vectors look at everyone, large ones at one word
# only. Next week asks which size is right. (The control needs a running kernel.)

# %%
# NBVAL_IGNORE_OUTPUT
# A control is drawn by the browser; its ids differ in every run.
pictures = {factor / 4: attention.contextualize(x_money * factor / 4)[1] for factor in range(13)}


def draw(factor):
    """Draw the weights of the money sentence for one factor."""
    figure, axes = plt.subplots(figsize=(3.4, 3))
    axes.imshow(pictures[factor], vmin=0, vmax=1, cmap="cividis")
    axes.set_xticks(range(3), money)
    axes.set_yticks(range(3), money)
    axes.set(xlabel="looked at", ylabel="looking")
    plt.show()


_ = ipywidgets.interact(draw, factor=ipywidgets.SelectionSlider(options=list(pictures), value=1.0))


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
    """Give every word a query, a key and a value: three learned linear views of its vector."""
    check_shapes(
        x=(x, "... seq d_model"),
        w_q=(w_q, "d_model d_head"),
        w_k=(w_k, "d_model d_head"),
        w_v=(w_v, "d_model d_value"),
    )
    raise NotImplementedError("Exercise 2.4: Three views of one vector: query, key, value")


# %% [markdown]
# With matrices chosen by hand: places ask, finance and water answer, values say which.
# Now "bank" may find "money" while "money" does not look for "bank".

# %%
w_q = torch.tensor([[0.0], [0.0], [0.0], [3.0]])  # places ask
w_k = torch.tensor([[1.0], [1.0], [0.0], [-2.0]])  # finance and water answer, places do not
w_v = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])  # they say which of the two
for words, x in [(money, x_money), (river, x_river)]:
    q, k, v = attention.project_qkv(x, w_q, w_k, w_v)
    weights = attention.softmax(q @ k.mT)
    show(words, weights)
    print("bank is (finance, water):", [round(number, 2) for number in (weights @ v)[1].tolist()], "\n")

# %% [markdown]
# The cost of a view of all words at once: every pair has a score.

# %%
# NBVAL_IGNORE_OUTPUT
# A figure's bytes depend on the fonts of the machine.
lengths = range(1, 201)
pairs = [attention.similarity_scores(torch.zeros(length, 1)).numel() for length in lengths]
figure, axes = plt.subplots()
axes.plot(lengths, pairs, label="scores")
axes.plot(lengths, lengths, label="steps of a recurrent network")
axes.set(xlabel="words", ylabel="number")
_ = axes.legend()

# %% [markdown]
# ## What you have seen
#
# A weighted sum makes vectors depend on their sentence, all words at once, at a price that grows with
# the square of the length. Without parameters it listens to whoever is loudest and melts when repeated.
# Queries, keys and values give it something to learn. Next week: why the scores are divided by a root.
