# %% [markdown]
# # Week 4: Giving order to a set
#
# Attention sees a set of words: "dog bites man" and "man bites dog" are the same to it. What can be
# added to a word's vector so that its place is known, for any length, and so that distances are easy to
# read off? You build the waves of the 2017 paper, the matrix that moves them, and the rotation that
# most models use today.

# %%
# %load_ext lab_grader

# %%
import ipywidgets
import matplotlib.pyplot as plt
import torch

from lab_transformer import attention, positional

plt.rcParams.update({"figure.figsize": (5, 3), "figure.dpi": 80, "figure.constrained_layout.use": True})


def compare(predicted, measured):
    """Put what you expected beside what came out."""
    if predicted is None:
        print(f"no prediction written; measured: {measured}")
    else:
        print(f"you predicted {predicted}; measured: {measured}")


# %% [markdown]
# ## 4.1 Sinusoidal positions
#
# A counter grows without bound, and a single sine repeats itself. Many sines of different speed do
# neither, like the bits of a binary number: some flip at each step, some hardly ever. Columns 2i and
# 2i + 1 are a sine and a cosine of the same speed. The table has the shape `(seq, d_model)`, as wide as
# the embeddings, because it will be added to them.


# %%
# %%exercise 4.1
def sinusoidal_positions(length: int, d_model: int) -> Float[Tensor, "seq d_model"]:
    """Compute the position table of the 2017 paper: column 2i a sine, column 2i + 1 its cosine."""
    check_even(d_model)
    raise NotImplementedError("Exercise 4.1: Sinusoidal positions")


# %%
table = positional.sinusoidal_positions(50, 128)
print("smallest and largest number:", round(table.min().item(), 1), round(table.max().item(), 1))
nearest = torch.cdist(table, table).fill_diagonal_(torch.inf).min().item()
print("the closest two positions are", f"{nearest:.1f}", "apart")
single = torch.arange(50.0).sin()[:, None]
nearest = torch.cdist(single, single).fill_diagonal_(torch.inf).min().item()
print("with a single sine they are", f"{nearest:.4f}", "apart")

# %%
# NBVAL_IGNORE_OUTPUT
# A figure's bytes depend on the fonts of the machine.
rows = table.numpy()
figure, axes = plt.subplots()
picture = axes.imshow(rows, cmap="cividis", aspect="auto")
axes.set(xlabel="column", ylabel="position")
_ = figure.colorbar(picture)

# %% [markdown]
# **Predict, run, explain.** The dot product of positions 10 and 15 is some number. Is that of 30 and 35
# smaller, larger or the same? And 10 with 5?

# %%
my_prediction = None  # such as ("smaller", "same")

# %%
products = table @ table.mT
for first, second in [(10, 15), (30, 35), (10, 5), (10, 40)]:
    print(f"{first} · {second}: {products[first, second].item():.2f}")


def against(product):
    """Say how a product compares with that of positions 10 and 15."""
    if torch.isclose(product, products[10, 15], rtol=1e-4):
        return "same"
    return "larger" if product > products[10, 15] else "smaller"


compare(my_prediction, (against(products[30, 35]), against(products[10, 5])))

# %%
# NBVAL_IGNORE_OUTPUT
# A figure's bytes depend on the fonts of the machine.
lines = {position: products[position] for position in (0, 20, 40)}
figure, axes = plt.subplots()
for position, line in lines.items():
    axes.plot(torch.arange(50) - position, line, label=f"from position {position}")
axes.set(xlabel="distance", ylabel="dot product")
_ = axes.legend()

# %% [markdown]
# Turn the knob: a pair of columns and its wave. From which pair on does the wave not come back within
# 200 positions? (The control needs a running kernel.)

# %%
# NBVAL_IGNORE_OUTPUT
# A control is drawn by the browser; its ids differ in every run.
long_table = positional.sinusoidal_positions(200, 128)


def draw(pair):
    """Draw the sine and the cosine of one pair of columns."""
    figure, axes = plt.subplots()
    axes.plot(long_table[:, 2 * pair], label=f"column {2 * pair}")
    axes.plot(long_table[:, 2 * pair + 1], label=f"column {2 * pair + 1}")
    axes.set(xlabel="position", title=f"wavelength {2 * torch.pi * 10000 ** (2 * pair / 128):.0f}")
    axes.legend(loc="lower left")
    plt.show()


_ = ipywidgets.interact(draw, pair=ipywidgets.IntSlider(value=8, min=0, max=63))


# %% [markdown]
# ## 4.2 A fixed matrix moves every position
#
# A sine and a cosine of the same speed are a point on a circle, and a step ahead is a turn. So there is
# one matrix of shape `(d_model, d_model)` that moves every position by the same offset, wherever it
# stands. A learned linear layer can therefore express "three words back". A table of learned positions
# need not have such a matrix.


# %%
# %%exercise 4.2
def shift_matrix(offset: int, d_model: int) -> Float[Tensor, "d_model d_model"]:
    """Build the matrix M with PE[p + offset] == PE[p] @ M for every position p.

    PE is the table of `sinusoidal_positions`. A negative offset moves back.
    """
    check_even(d_model)
    raise NotImplementedError("Exercise 4.2: A fixed matrix moves every position")


# %%
ahead = positional.shift_matrix(7, 128)
print("moves all positions by 7:", torch.allclose(table[:-7] @ ahead, table[7:], atol=1e-4))
back = positional.shift_matrix(-7, 128)
print("there and back is nothing:", torch.allclose(ahead @ back, torch.eye(128), atol=1e-4))
twice = positional.shift_matrix(14, 128)
print("7 and 7 is 14:", torch.allclose(ahead @ ahead, twice, atol=1e-4))
random_table = torch.randn(50, 128, generator=torch.Generator().manual_seed(0))
print(
    "moves random positions by 7:",
    torch.allclose(random_table[:-7] @ ahead, random_table[7:], atol=1e-4),
)


# %% [markdown]
# ## 4.3 Adding positions
#
# Positions are added to the embeddings, `(..., seq, d_model)` each, so the width stays. Embeddings
# usually start small, with a variance of 1 / d_model; the factor root of `d_model` makes them as large
# as the waves. Only the first `seq` rows of the table are used.


# %%
# %%exercise 4.3
def add_positions(
    embeddings: Float[Tensor, "... seq d_model"],
    positions: Float[Tensor, "length d_model"],
) -> Float[Tensor, "... seq d_model"]:
    """Scale the embeddings by the root of d_model and add a position to each.

    The table of positions may be longer than the sequence; its first rows are used.
    """
    check_shapes(embeddings=(embeddings, "... seq d_model"), positions=(positions, "length d_model"))
    seq, d_model = embeddings.shape[-2:]
    if seq > len(positions):
        raise ValueError(f"seq is {seq}, but there are only {len(positions)} positions")
    raise NotImplementedError("Exercise 4.3: Adding positions to embeddings")


# %% [markdown]
# **Predict, run, explain.** The sentence "dog bites man" goes through the attention that you built last
# week, and so does "man bites dog". How far apart are the two results for "dog", first without, then
# with positions: zero or not?

# %%
my_prediction = None  # such as ("zero", "not zero")

# %%
torch.manual_seed(4)
d_model = 32
dog, bites, man = torch.randn(3, d_model) / d_model**0.5
sentences = torch.stack([torch.stack([dog, bites, man]), torch.stack([man, bites, dog])])
places = positional.sinusoidal_positions(10, d_model)


def dog_apart(x):
    """Attend, and give the distance between the two results for "dog"."""
    output, _ = attention.scaled_dot_product_attention(x, x, x)
    return (output[0, 0] - output[1, 2]).norm().item()


without = dog_apart(sentences * d_model**0.5)
given = dog_apart(positional.add_positions(sentences, places))
print(f"without positions: {without:.2f}")
print(f"with positions:    {given:.2f}")
compare(
    my_prediction, ("zero" if without < 1e-4 else "not zero", "zero" if given < 1e-4 else "not zero")
)


# %% [markdown]
# Without positions every word's result moved along with the word: attention is equivariant. It is the
# sum over all words that is the same for every order.
#
# ## 4.4 Rotary positions
#
# Instead of adding a position, turn each query and key by it: every pair of columns of `x`, of shape
# `(..., seq, d_head)`, turns by the word's position times the speed of the pair. The length of a vector
# stays. The dot product of two turned vectors depends on the difference of the two turns. So the score
# knows the distance, and nothing had to be added to the words.


# %%
# %%exercise 4.4
def rotate(
    x: Float[Tensor, "... seq d_head"], positions: Int[Tensor, "seq"]
) -> Float[Tensor, "... seq d_head"]:
    """Turn every pair of columns (2i, 2i + 1) by its word's position times 10000 ** (-2i / d_head)."""
    check_shapes(x=(x, "... seq d_head"), positions=(positions, "seq"))
    check_even(x.shape[-1], "d_head")
    raise NotImplementedError("Exercise 4.4: Rotary positions")


# %%
torch.manual_seed(6)
query, key = torch.randn(2, 1, 64)


def score(query_place, key_place):
    """Give the dot product of the query and the key, turned to two places."""
    turned = positional.rotate(query, torch.tensor([query_place]))
    return (turned @ positional.rotate(key, torch.tensor([key_place])).mT).item()


for query_place, key_place in [(5, 2), (105, 102), (1005, 1002), (2, 5)]:
    print(f"query at {query_place:4}, key at {key_place:4}: {score(query_place, key_place):.2f}")
print("not turned:                   ", f"{(query @ key.mT).item():.2f}")
stays = torch.allclose(positional.rotate(query, torch.tensor([77])).norm(), query.norm())
print("length stays:", stays)

# %% [markdown]
# The score falls off with the distance on average, but not smoothly:

# %%
# NBVAL_IGNORE_OUTPUT
# A figure's bytes depend on the fonts of the machine.
ones = torch.ones(1, 64)
turned = positional.rotate(ones.expand(100, 64), torch.arange(100))
figure, axes = plt.subplots()
axes.plot(turned @ turned[0])
_ = axes.set(xlabel="distance", ylabel="score of equal vectors")

# %% [markdown]
# ## What you have seen
#
# Waves of many speeds make every place unique and every distance a turn. The 2017 paper adds them once,
# at the bottom; rotation puts them into every score. Attention now knows what stands where. Next week
# its results are kept in range, layer after layer.
