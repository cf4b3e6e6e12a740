# %% [markdown]
# # Notebook 4: Giving order to a set
#
# Attention sees a set of words: "dog bites man" and "man bites dog" are the same to it. What can be
# added to a word's vector so that its place is known, for any length, and so that distances are easy to
# read off? You build the waves of the 2017 paper, the matrix that moves them, and the rotation that
# most models use today.

# %%
# %load_ext lab_check

# %%
import math

import ipywidgets
import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn import functional

from lab_transformer import attention, positional
from lab_transformer.notebook import compare, progress

# %% [markdown]
# ## 4.1 Sinusoidal positions
#
# A counter grows without bound, and a single sine repeats itself. Many sines of different speed do
# neither, like the bits of a binary number: some flip at each step, some hardly ever. Columns 2i and
# 2i + 1 are a sine and a cosine of the same speed. The table has the shape `(seq, d_model)`, as wide as
# the embeddings, because it will be added to them.
#
# In scope in all cells of this week: `torch`, `math`, `Tensor`, and `BASE`, which is 10000.0.


# %%
# %%exercise 4.1
def sinusoidal_positions(
    length: int,
    d_model: int,
) -> Float[Tensor, "seq d_model"]:
    """Compute the position table of the 2017 paper, in the default dtype.

    In the row of position p, column 2i is the sine and column 2i + 1 the cosine
    of the angle p * 10000 ** (-2i / d_model), in radians. Angles in single or
    double precision are both fine; they are 4e-4 apart by position 5,000.
    """
    check_even(d_model)
    raise NotImplementedError("Exercise 4.1: Sinusoidal positions")


# %%
table = positional.sinusoidal_positions(50, 128)
low, high = table.min().item(), table.max().item()
print(f"smallest and largest number: {low:.1f} {high:.1f}")


def nearest(rows):
    """Give the distance of the closest two rows."""
    return torch.cdist(rows, rows).fill_diagonal_(torch.inf).min().item()


print(f"the closest two positions are {nearest(table):.1f} apart")
single = torch.arange(50.0).sin()[:, None]
print(f"with a single sine they are {nearest(single):.4f} apart")

# %% tags=["nbval-ignore-output"]
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
    print(f"{first} · {second}: {products[first, second].item():.1f}")


def against(product):
    """Say how a product compares with that of positions 10 and 15."""
    if torch.isclose(product, products[10, 15], rtol=1e-4):
        return "same"
    return "larger" if product > products[10, 15] else "smaller"


compare(my_prediction, (against(products[30, 35]), against(products[10, 5])))

# %% tags=["nbval-ignore-output"]
lines = {position: products[position] for position in (0, 20, 40)}
figure, axes = plt.subplots()
for position, line in lines.items():
    distance = torch.arange(50) - position
    axes.plot(distance, line, label=f"from position {position}")
axes.set(xlabel="distance", ylabel="dot product")
_ = axes.legend()

# %% [markdown]
# A common belief is that positions repeat beyond the base, 10000. Take your table far beyond it and
# look for the position that is closest to position 0. Neighbours are the scale to compare with.

# %%
far = positional.sinusoidal_positions(200_000, 128)
apart = (far - far[0]).norm(dim=-1)
print(f"position 1 is {apart[1].item():.2f} away from position 0")
for start in (10_000, 62_832, 150_000):
    closest = apart[start:].min().item()
    print(f"from {start:7,} on, the closest is {closest:.1f} away")

# %% [markdown]
# Turn the knob: a pair of columns and its wave. From which pair on does the wave not come back within
# 200 positions? (The control needs a running kernel.)

# %% tags=["nbval-ignore-output"]
long_table = positional.sinusoidal_positions(200, 128)


def draw(pair):
    """Draw the sine and the cosine of one pair of columns."""
    figure, axes = plt.subplots()
    for column in (2 * pair, 2 * pair + 1):
        axes.plot(long_table[:, column], label=f"column {column}")
    wavelength = 2 * math.pi * 10000 ** (2 * pair / 128)
    axes.set(xlabel="position", title=f"wavelength {wavelength:.0f}")
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

    PE is the table of `sinusoidal_positions`. A negative offset moves back. M
    has the default dtype.
    """
    check_even(d_model)
    raise NotImplementedError(
        "Exercise 4.2: A fixed matrix moves every position",
    )


# %%
ahead = positional.shift_matrix(7, 128)
back = positional.shift_matrix(-7, 128)
twice = positional.shift_matrix(14, 128)
random_table = torch.randn(50, 128, generator=torch.Generator().manual_seed(0))


def moves(rows):
    """Tell whether the matrix turns every row into the seventh after it."""
    return torch.allclose(rows[:-7] @ ahead, rows[7:], atol=1e-4)


nothing = torch.allclose(ahead @ back, torch.eye(128), atol=1e-4)
print("moves all positions by 7:", moves(table))
print("there and back is nothing:", nothing)
print("7 and 7 is 14:", torch.allclose(ahead @ ahead, twice, atol=1e-4))
print("moves random positions by 7:", moves(random_table))


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

    The table of positions may be longer than the sequence; its first rows are
    used.
    """
    check_shapes(
        embeddings=(embeddings, "... seq d_model"),
        positions=(positions, "length d_model"),
    )
    seq, d_model = embeddings.shape[-2:]
    if seq > len(positions):
        raise ValueError(f"seq is {seq}, but only {len(positions)} positions")
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
sentences = torch.stack([dog, bites, man, man, bites, dog]).view(2, 3, d_model)
places = positional.sinusoidal_positions(10, d_model)


def dog_apart(x):
    """Attend, and give the distance between the two results for "dog"."""
    output, _ = attention.scaled_dot_product_attention(x, x, x)
    return (output[0, 0] - output[1, 2]).norm().item()


without = dog_apart(sentences * d_model**0.5)
given = dog_apart(positional.add_positions(sentences, places))
print(f"without positions: {without:.2f}")
print(f"with positions:    {'more than 1' if given > 1 else f'{given:.2f}'}")
pair = ["zero" if apart < 1e-4 else "not zero" for apart in (without, given)]
compare(my_prediction, tuple(pair))


# %% [markdown]
# Without positions every word's result moved along with the word: attention is equivariant. It is the
# sum over all words that is the same for every order.
#
# ### A model that cannot know who came first
#
# Six words. A and B are always among them, and the question is which of the two came first. The model
# is an embedding, your attention of four heads, a mean over the words, and a linear layer.
#
# **Predict, run, explain.** After 250 steps of training, how many answers are right without positions?
# With them?

# %%
my_prediction = None  # such as ("70%", "90%")


# %%
class Reader(nn.Module):
    """One layer of attention; places are given in one of several ways."""

    def __init__(self, places, results, words=20, d_model=32, n_heads=4):
        super().__init__()
        self.places = places
        self.word = nn.Embedding(words, d_model)
        nn.init.normal_(self.word.weight, std=d_model**-0.5)
        self.attention = attention.MultiHeadAttention(d_model, n_heads)
        self.out = nn.Linear(d_model, results)
        self.learned = nn.Parameter(torch.randn(100, d_model) / 2)

    def table(self, length, d_model):
        """Give what is added to the words."""
        if self.places == "waves":
            return positional.sinusoidal_positions(length, d_model)
        if self.places == "learned":
            return self.learned
        return torch.zeros(length, d_model)

    def forward(self, words, mask=None):
        x = self.word(words)
        x = positional.add_positions(x, self.table(*x.shape[-2:]))
        heads = self.attention
        q = attention.split_heads(heads.w_q(x), heads.n_heads)
        k = attention.split_heads(heads.w_k(x), heads.n_heads)
        v = attention.split_heads(heads.w_v(x), heads.n_heads)
        if self.places == "RoPE":
            place = torch.arange(words.shape[-1])
            q, k = positional.rotate(q, place), positional.rotate(k, place)
        if self.places == "ALiBi":
            q, k = with_distance(q, k)  # defined further down
        output, _ = attention.scaled_dot_product_attention(q, k, v, mask)
        return self.out(heads.w_o(attention.merge_heads(output)))


def six_words(count):
    """Draw words 0 and 1 and four others; say whether 0 came before 1."""
    others = torch.rand(count, 18).argsort(dim=-1)[:, :4] + 2
    words = torch.cat([torch.tensor([[0, 1]]).expand(count, 2), others], dim=-1)
    words = words.gather(1, torch.rand(count, 6).argsort(dim=-1))
    place_0 = (words == 0).int().argmax(-1)
    place_1 = (words == 1).int().argmax(-1)
    return words, (place_0 < place_1).long()


def train_order(places, steps=250):
    """Train a model to say which came first.

    Gives its share of right answers on new words every 25 steps.
    """
    torch.manual_seed(0)
    model = Reader(places, results=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    held_out, first = six_words(4000)
    shares = []
    for step in progress(range(steps), "training"):
        words, answer = six_words(64)
        loss = functional.cross_entropy(model(words).mean(dim=1), answer)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 24:
            with torch.no_grad():
                said = model(held_out).mean(dim=1).argmax(-1)
            shares.append((said == first).float().mean().item())
    return shares


def told(share):
    """Tell a share by fixed marks: its digits depend on the machine."""
    if share > 0.97:
        return "above 97%"
    if share > 0.56:
        return "between 56% and 97%"
    return "at chance" if share > 0.44 else "below 44%"


curves = {
    "with positions": train_order("waves"),
    "without": train_order("none"),
}
ends = [f"{name} {told(curve[-1])}" for name, curve in curves.items()]
compare(my_prediction, ", ".join(ends))

# %% tags=["nbval-ignore-output"]
drawn = curves.items()
figure, axes = plt.subplots()
for name, curve in drawn:
    axes.plot(range(25, 251, 25), curve, label=name)
axes.axhline(0.5, color="grey", linewidth=0.8, linestyle=":")
axes.set(xlabel="training step", ylabel="right answers", ylim=(0.3, 1.03))
_ = axes.legend()

# %% [markdown]
# Would more layers, more data or more patience help the model without positions? Why not?
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
    x: Float[Tensor, "... seq d_head"],
    positions: Int[Tensor, "seq"],
) -> Float[Tensor, "... seq d_head"]:
    """Turn every pair of columns (2i, 2i + 1) by an angle of its own.

    The angle is the word's position times 10000 ** (-2i / d_head), in radians,
    from the first column towards the second. Angles in single or double
    precision are both fine, whatever the dtype of x, which the result keeps.
    """
    check_shapes(x=(x, "... seq d_head"), positions=(positions, "seq"))
    check_even(x.shape[-1], "d_head")
    raise NotImplementedError("Exercise 4.4: Rotary positions")


# %%
query, key = torch.linspace(1, 2, 64)[None], torch.linspace(2, -1, 64)[None]


def score(query_place, key_place):
    """Give the dot product of the query and the key, turned to two places."""
    q = positional.rotate(query, torch.tensor([query_place]))
    k = positional.rotate(key, torch.tensor([key_place]))
    return (q @ k.mT).item()


for i, j in [(5, 2), (105, 102), (1005, 1002), (2, 5)]:
    print(f"query at {i:4}, key at {j:4}: {score(i, j):.2f}")
print("not turned:                   ", f"{(query @ key.mT).item():.2f}")
turned = positional.rotate(query, torch.tensor([77]))
print("length stays:", torch.allclose(turned.norm(), query.norm()))

# %% [markdown]
# The score falls off with the distance on average, but not smoothly:

# %% tags=["nbval-ignore-output"]
ones = torch.ones(1, 64)
turned = positional.rotate(ones.expand(100, 64), torch.arange(100))
figure, axes = plt.subplots()
axes.plot(turned @ turned[0])
_ = axes.set(xlabel="distance", ylabel="score of equal vectors")

# %% [markdown]
# ### ALiBi is one more column
#
# ALiBi lowers the score of query i and key j by slope times (i - j). What depends on i alone does not
# change a softmax, so it is enough to add slope times j: a column with the position in the keys, and a
# column of ones in the queries. Your attention from week 3 needs no change.


# %%
def with_distance(q, k):
    """Lower every score by slope times distance, with one more column."""
    heads, seq, d_head = q.shape[-3:]
    slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
    places = slopes[:, None] * torch.arange(seq) * math.sqrt(d_head + 1)
    places = places.expand(k.shape[:-1])[..., None]
    # The wider key has a larger root: what was there before keeps its score.
    q = q * math.sqrt((d_head + 1) / d_head)
    ones = torch.ones_like(q[..., :1])
    return torch.cat([q, ones], -1), torch.cat([k, places], -1)


def no_look_ahead(n):
    """Let every word look at itself and at the words before it."""
    return torch.ones(n, n, dtype=torch.bool).tril()


# Four heads and eight words, all alike: only the distance decides.
alike = torch.zeros(4, 8, 16)
q, k = with_distance(alike, alike)
mask = no_look_ahead(8)
_, weights = attention.scaled_dot_product_attention(q, k, alike, mask)
for head in range(4):
    shares = (f"{weight:.2f}" for weight in weights[head, -1].tolist())
    print(f"head {head}, last word looks at:", *shares)

# %% [markdown]
# ### Longer than anything seen
#
# Four kinds of positions, two tasks. Training has sequences of 20 words, in which no word looks ahead.
# Then come places up to 100. The first task asks for the word three places back, the second for the
# latest of four words that are names.
#
# **Predict, run, explain.** Which kind still works (four answers of five are right) at places 80 to
# 100, for each task? More than one may be right, or none.

# %%
my_prediction = None  # such as (["waves", "RoPE"], ["ALiBi"])


# %%
def three_back(words):
    """Ask for the word three places back; -1 where there is none."""
    return functional.pad(words[:, :-3], (3, 0), value=-1)


def latest_name(words):
    """Ask for the latest of the words 0 to 3; -1 where none has come yet."""
    named = torch.where(words < 4, torch.arange(words.shape[-1]), -1)
    place = named.cummax(dim=-1).values  # of the latest name so far
    return torch.where(place >= 0, words.gather(1, place.clamp(min=0)), -1)


def train_lengths(places, task, steps=300, trained=20):
    """Train on sequences of 20 words; give the accuracy at 100 places."""
    torch.manual_seed(0)
    model = Reader(places, results=20)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in progress(range(steps), "training"):
        words = torch.randint(20, (32, trained))
        logits = model(words, no_look_ahead(trained))
        loss = functional.cross_entropy(logits.mT, task(words), ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    words = torch.randint(20, (200, 100))
    with torch.no_grad():
        said = model(words, no_look_ahead(100)).argmax(-1)
    asked = task(words)
    right, counted = (said == asked) & (asked >= 0), asked >= 0
    return right.sum(0)[3:] / counted.sum(0)[3:]


kinds = ["waves", "learned", "RoPE", "ALiBi"]
lengths = {
    task.__name__: {places: train_lengths(places, task) for places in kinds}
    for task in (three_back, latest_name)
}
works = {}
for task, curves in lengths.items():
    inside = [kind for kind in kinds if curves[kind][2:17].mean() > 0.8]
    works[task] = [kind for kind in kinds if curves[kind][77:].mean() > 0.8]
    print(f"{task}: inside the trained length {', '.join(inside)} work")
compare(my_prediction, works)

# %% tags=["nbval-ignore-output"]
drawn = lengths.items()
figure, panels = plt.subplots(1, 2, sharey=True, figsize=(6.5, 3))
for axes, (task, curves) in zip(panels, drawn, strict=True):
    for places, curve in curves.items():
        axes.plot(range(3, 100), curve, label=places, linewidth=1)
    axes.axvspan(0, 20, color="grey", alpha=0.2)
    axes.set(title=task, xlabel="place")
panels[0].set_ylabel("right answers")
_ = panels[0].legend()

# %% [markdown]
# The fixed matrix of 4.2 would have worked at every place. Twenty words did not force the model to find
# it: many other matrices fit the same twenty places. ALiBi has nearness built in. It is at home where
# nearness decides, and lost where the third word back does.
#
# ## What you have seen
#
# Waves of many speeds make every place unique and every distance a turn. The 2017 paper adds them once,
# at the bottom; rotation puts them into every score. A model without any of it stays at chance, and a
# model with it still has to be trained on the lengths it will meet. Attention now knows what stands
# where. Next week its results are kept in range, layer after layer.
