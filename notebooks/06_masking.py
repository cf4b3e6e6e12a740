# %% [markdown]
# # Notebook 6: Not looking ahead
#
# In training the whole target sentence lies on the table; when the model writes, the next word does not
# exist yet. How can it learn from all positions at once without copying the answer? You build the masks
# and the loss that make this possible, and then train a model that cheats, to see what it is worth.
# [The chapter](../book/06_masking.md) has the story; here you build it.

# %%
# %load_ext lab_check

# %%
import math
import random
import re

import ipywidgets
import matplotlib.pyplot as plt
import torch
from torch import nn

from lab_transformer import decoder, encoder, loss, masking, positional
from lab_transformer.notebook import compare, progress, rounded, seconds

torch.set_num_threads(1)  # sums in one order: the same digits in every run


def show(mask):
    """Print a mask: a square where a query (row) may see a key (column)."""
    for row in mask.tolist():
        print(" ".join("■" if allowed else "·" for allowed in row))


# %% [markdown]
# ## 6.1 The causal mask
#
# Row t is the query at position t, column t' a key. True means "may attend", as in
# `scaled_dot_product_attention`; beware that `nn.MultiheadAttention` means the opposite. The mask is
# `(query, key)`, square, and the same for all sentences of this length.
#
# In scope in the cells from 6.1 to 6.3: `torch`, `math` and `Tensor`.


# %%
# %%exercise 6.1
def causal_mask(length: int) -> Bool[Tensor, "query key"]:
    """Allow every position to attend to itself and to what came before it."""
    raise NotImplementedError("Exercise 6.1: The causal mask")


# %%
show(masking.causal_mask(5))


# %% [markdown]
# ## 6.2 The padding mask
#
# Padding must not be looked at, so it is hidden as a key: a matter of columns. The shape
# `(batch, 1, 1, key)` broadcasts over heads and queries. Both masks together are joined by "and": a key
# must be allowed by both.


# %%
# %%exercise 6.2
def padding_mask(
    tokens: Int[Tensor, "batch key"],
    pad_id: int,
) -> Bool[Tensor, "batch 1 1 key"]:
    """Allow every query to attend to real words: padding is hidden as a key."""
    check_shapes(tokens=(tokens, "batch key"))
    raise NotImplementedError("Exercise 6.2: The padding mask")


# %%
PAD = 0
tokens = torch.tensor([[4, 7, 5, 2, 9], [6, 3, 8, PAD, PAD]])
padding = masking.padding_mask(tokens, PAD)
print("shape:", tuple(padding.shape))
show((masking.causal_mask(5) & padding)[1, 0])


# %% [markdown]
# The last two rows are pads that ask. They may: nobody reads their answer, and the loss will skip them.
# What if the rows are hidden instead of the columns? Four words of weight 1 and a pad of weight 100
# show who is averaged in.

# %%
numbers = torch.tensor([1.0, 1, 1, 1, 100])
pads = torch.tensor([[4, 7, 5, 2, PAD]])
columns = masking.padding_mask(pads, PAD)[0, 0].expand(5, 5)
for name, mask in [("columns", columns), ("rows", columns.mT)]:
    shares = mask / mask.sum(dim=-1, keepdim=True).clamp(min=1)
    seen = round((shares @ numbers)[0].item(), 1)
    print(f"{name:>7} hidden: the first word sees", seen)

# %% [markdown]
# ## 6.3 Softmax under a mask
#
# A hidden score becomes -inf before the softmax, so its weight is exactly zero and the others still sum
# to one. Where nothing is allowed the weights are zeros, not NaN. The shape of the scores stays.


# %%
# %%exercise 6.3
def masked_softmax(
    scores: Float[Tensor, "..."],
    mask: Bool[Tensor, "..."],
    dim: int = -1,
) -> Float[Tensor, "..."]:
    """Softmax over the allowed scores; hidden ones weigh exactly zero.

    The mask broadcasts to the scores. Where nothing is allowed along dim, all
    weights are zero, and so are the gradients of the scores. All scores are
    finite, hidden ones too.
    """
    check_mask(mask, scores.shape)
    raise NotImplementedError("Exercise 6.3: Softmax under a mask")


# %% [markdown]
# **Predict, run, explain.** Three scores are 2, 1 and 3, and the third is hidden. Someone takes the
# softmax of all three and then sets the third weight to zero. What do the two remaining weights sum to?

# %%
my_prediction = None  # a number between 0 and 1

# %%
scores = torch.tensor([[2.0, 1.0, 3.0], [2.0, 1.0, 3.0]])
mask = torch.tensor([[True, True, False], [False, False, False]])
late = scores.softmax(dim=-1) * mask
weights = masking.masked_softmax(scores, mask)
print("zero after the softmax:", rounded(late[0], 3))
print("        -inf before it:", rounded(weights[0], 3))
print("    nothing to look at:", weights[1].tolist())
compare(my_prediction, round(late[0].sum().item(), 3))


# %% [markdown]
# The late zero also leaks: the hidden score decides how small the others are. And a finite number in
# place of -inf? In a row where nothing is allowed it gives the mean of all that should be hidden:

# %%
filled = scores.masked_fill(~mask, -1e9).softmax(dim=-1)[1]
print("-1e9, nothing to look at:", rounded(filled, 3))

# %% [markdown]
# ## 6.4 Shifted right
#
# At position t the model sees the words before t and must write word t. So the input is the target
# moved by one place, with the start token in front: `(..., seq)` to `(..., seq)`. All positions are
# trained in one pass; that is teacher forcing. The decoder's first input is the start token, not
# nothing.
#
# In scope here and in 6.5: `torch` and `Tensor`.


# %%
# %%exercise 6.4
def shift_right(
    targets: Int[Tensor, "... seq"],
    bos_id: int,
) -> Int[Tensor, "... seq"]:
    """Make the decoder's input: bos_id, then all of the target but its last."""
    check_shapes(targets=(targets, "... seq"))
    raise NotImplementedError("Exercise 6.4: Shifted right")


# %%
names = ["<start>", "<end>", "the", "cat", "sleeps"]
target = torch.tensor([[2, 3, 4, 1]])
inputs = loss.shift_right(target, 0)
for seen, wanted in zip(inputs[0], target[0], strict=True):
    print(f"reads {names[seen]:>8}, must write {names[wanted]}")


# %% [markdown]
# ## 6.5 A loss that ignores padding
#
# Logits are `(..., seq, vocab)`, targets `(..., seq)`, the result is one number: the mean over real
# words. Label smoothing asks for a little probability everywhere, so that no logit has to run off to
# infinity.


# %%
# %%exercise 6.5
def sequence_loss(
    logits: Float[Tensor, "... seq vocab"],
    targets: Int[Tensor, "... seq"],
    pad_id: int,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Average the cross-entropy over all targets that are not padding.

    Label smoothing gives every word of the vocabulary, the target included,
    smoothing / vocab of the probability, and the rest to the target, as
    F.cross_entropy does. A batch of nothing but padding has the loss 0. The
    padding id may lie outside the vocabulary, as -100 does. All logits are
    finite: smoothed, a word of probability 0 would cost infinitely much.
    """
    check_shapes(logits=(logits, "... seq vocab"), targets=(targets, "... seq"))
    if not 0.0 <= smoothing <= 1.0:
        raise ValueError(f"smoothing is a share from 0 to 1, it is {smoothing}")
    raise NotImplementedError("Exercise 6.5: A loss that ignores padding")


# %% [markdown]
# **Predict, run, explain.** A model of five words knows nothing: every word has probability 1/5, so a
# word costs log 5 = 1.61. A batch has 4 real words and 12 pads, and a model that has learned to write
# pads perfectly. What is its loss when the pads are counted?

# %%
my_prediction = None  # a number

# %%
targets = torch.tensor([[2, 3, 4, 1] + [PAD] * 12])
logits = torch.zeros(1, 16, 5)
logits[:, 4:, PAD] = 50.0
counted = loss.sequence_loss(logits, targets, pad_id=-100).item()
ignored = loss.sequence_loss(logits, targets, pad_id=PAD).item()
print("ignoring pads:", round(ignored, 2))
compare(my_prediction, round(counted, 2))

# %% [markdown]
# Counting pads makes a model look good that has learned nothing. Now turn the knob: which confidence in
# the right word, of five, does a smoothed loss like best? (The control needs a running kernel.)

# %%
shares = (0.0, 0.1, 0.2, 0.4)
confidence = torch.linspace(0.21, 0.999, 300)
rest = ((1 - confidence) / 4)[:, None].expand(-1, 4)
log_probabilities = torch.cat([confidence[:, None], rest], dim=1).log()


def curve(share):
    """Give the smoothed loss for every confidence."""
    word, rows = torch.tensor([0]), log_probabilities[:, None]
    losses = [loss.sequence_loss(row, word, -100, share) for row in rows]
    return torch.stack(losses)


curves = {share: curve(share) for share in shares}
for share in shares:
    best = confidence[curves[share].argmin()].item()
    print(f"smoothing {share}: lowest loss at confidence {best:.2f}")


# %% tags=["nbval-ignore-output"]
def draw(smoothing):
    """Draw the loss against the probability that the right word gets."""
    _, axes = plt.subplots()
    axes.plot(confidence, curves[smoothing])
    axes.set(xlabel="probability of the right word", ylabel="loss", ylim=(0, 3))
    plt.show()


knob = ipywidgets.SelectionSlider(options=list(curves), value=0.1)
_ = ipywidgets.interact(draw, smoothing=knob)


# %% [markdown]
# ## 6.6 The decoder-only block
#
# An encoder block with the causal mask inside: `(batch, seq, d_model)` in and out. A mask from outside
# hides padding on top. A stack of these, and an output layer, is a GPT.
#
# In scope: `nn`, `MultiHeadAttention`, `FeedForward`, `pre_norm` and `post_norm`, as in 5.6, and
# `causal_mask` from 6.1.


# %%
# %%exercise 6.6
class CausalBlock(nn.Module):
    """An encoder block that never looks ahead: the building block of a GPT.

    `causal_mask`, `pre_norm` and `post_norm` are in scope.
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
        self.feed_forward: nn.Module = FeedForward(d_model, d_ff)
        self.norm_1 = nn.LayerNorm(d_model)
        self.norm_2 = nn.LayerNorm(d_model)

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
        mask: Bool[Tensor, "... seq seq"] | None = None,
    ) -> Float[Tensor, "batch seq d_model"]:
        """Let every word look at itself and at earlier words, then think.

        The mask hides padding on top; it broadcasts to
        (batch, heads, seq, seq).
        """
        check_shapes(
            x=(x, "... seq d_model"),
            norm_1=(self.norm_1.weight, "d_model"),
        )
        check_boolean(mask)
        raise NotImplementedError("Exercise 6.6: The decoder-only block")


# %% [markdown]
# Which inputs does each output depend on? Ask the gradient: row t is output t, column t' input t'.


# %%
def influence(block):
    """Tell for every output and input whether a gradient flows between them."""
    x = torch.randn(1, 6, 8, requires_grad=True)
    y = block(x)
    rows = []
    for t in range(6):
        output = y[0, t].sin().sum()
        rows += torch.autograd.grad(output, x, retain_graph=True)
    return torch.cat(rows).norm(dim=-1) > 0


torch.manual_seed(0)
print("encoder block")
show(influence(encoder.EncoderBlock(8, 2, 16)))
print("causal block")
show(influence(decoder.CausalBlock(8, 2, 16)))

# %% [markdown]
# A triangle: no road leads from a later input to an earlier output, through any projection, norm or
# residual path. This test works for every model, whoever wrote it.
#
# ## The leak
#
# A toy language: a thing is an article, sometimes an adjective, and a noun; a sentence is a thing, a
# verb, and after half of the verbs another thing. Much is left to chance, so no honest model can get
# below a loss of 1.32 a word: that is the language's entropy.

# %%
ARTICLES, ADJECTIVES = ["the", "a"], ["small", "young", "black", "shy"]
NOUNS = ["cat", "dog", "bird", "fox", "horse"]
SEEING = ["sees", "likes", "follows", "hears"]  # verbs with an object
SLEEPING = ["sleeps", "sings", "runs", "waits"]  # verbs without
words = ["<pad>", "<start>", "<end>", *ARTICLES, *ADJECTIVES, *NOUNS]
words += [*SEEING, *SLEEPING]
START, LONGEST = 1, 8


def one_thing(rng):
    """Make a thing, such as `the shy cat`."""
    adjective = [rng.choice(ADJECTIVES)] if rng.random() < 0.5 else []
    return [rng.choice(ARTICLES), *adjective, rng.choice(NOUNS)]


def one_act(rng):
    """Make a verb, with an object or without."""
    if rng.random() < 0.5:
        return [rng.choice(SEEING), *one_thing(rng)]
    return [rng.choice(SLEEPING)]


def sentences(rng, number):
    """Make sentences as token ids, filled up with padding."""
    rows = []
    for _ in range(number):
        act = one_act(rng)
        sentence = [*one_thing(rng), *act, "<end>"]
        row = [words.index(word) for word in sentence]
        rows.append(row + [PAD] * (LONGEST - len(row)))
    return torch.tensor(rows)


def any_of(words):
    """Write a pattern that matches any of the words."""
    return f"({'|'.join(words)})"


thing = f"{any_of(ARTICLES)}( {any_of(ADJECTIVES)})? {any_of(NOUNS)}"
act = f"({any_of(SLEEPING)}|{any_of(SEEING)} {thing})"
GRAMMAR = re.compile(f"{thing} {act} <end>")


def is_correct(text):
    """Tell whether a text is a sentence of the language."""
    return bool(GRAMMAR.fullmatch(text))


for text in [
    "a shy bird waits <end>",
    "the horse likes a small fox <end>",
    "the horse likes <end>",
]:
    print(f"{is_correct(text)!s:>5}: {text}")
drawn = [
    " ".join(words[token] for token in row if token != PAD)
    for row in sentences(random.Random(0), 1000).tolist()
]
print("all of 1000 sentences are correct:", all(map(is_correct, drawn)))


# %% [markdown]
# Two models learn to predict the next word. They are the same but for the mask: one is made with last
# week's `EncoderBlock`, which hides padding only, the other with your `CausalBlock`.
#
# **Predict, run, explain.** The model without the causal mask reaches a far lower loss. Then both write
# 300 sentences by themselves. How many different correct ones are among its sentences?

# %%
my_prediction = None  # a number from 0 to 300


# %%
class TinyModel(nn.Module):
    """Embedding, positions, one block, and a score for every word."""

    def __init__(self, kind):
        super().__init__()
        self.embedding = nn.Embedding(len(words), 32)
        nn.init.normal_(self.embedding.weight, std=32**-0.5)
        self.block = kind(32, 2, 128)
        self.output = nn.Linear(32, len(words))
        self.positions = positional.sinusoidal_positions(64, 32)

    def forward(self, tokens):
        x = positional.add_positions(self.embedding(tokens), self.positions)
        return self.output(self.block(x, masking.padding_mask(tokens, PAD)))


def train(kind):
    """Train with teacher forcing; give the model and its losses."""
    torch.manual_seed(0)
    rng, model = random.Random(0), TinyModel(kind)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in progress(range(200), "training"):
        target = sentences(rng, 64)
        logits = model(loss.shift_right(target, START))
        now = loss.sequence_loss(logits, target, PAD)
        optimizer.zero_grad()
        now.backward()
        optimizer.step()
        losses.append(now.item())
    return model, losses


@torch.no_grad()
def write(model, number):
    """Let the model write sentences, word by word."""
    tokens = torch.full((number, 1), START)
    for _ in range(LONGEST):
        chances = model(tokens)[:, -1].softmax(dim=-1)
        tokens = torch.cat([tokens, chances.multinomial(1)], dim=1)
    texts = []
    for row in tokens[:, 1:].tolist():
        before, end, _ = " ".join(words[t] for t in row).partition(" <end>")
        texts.append(before + end)
    return texts


@torch.no_grad()
def loss_alone(model, target):
    """Give the loss when later words are not there yet, as when writing.

    It takes a pass for every prefix.
    """
    inputs = loss.shift_right(target, START)
    last = [model(inputs[:, : t + 1])[:, -1:] for t in range(LONGEST)]
    return loss.sequence_loss(torch.cat(last, dim=1), target, PAD).item()


models, curves = {}, {}
models["leaky"], curves["leaky"] = train(encoder.EncoderBlock)
models["causal"], curves["causal"] = train(decoder.CausalBlock)

# %% [markdown]
# What a trained model writes, and the last digits of its loss, differ a little from processor to
# processor: your numbers may not be these. What the second cell prints holds everywhere.

# %% tags=["nbval-ignore-output"]
new = sentences(random.Random(1), 300)
alone = {name: loss_alone(model, new) for name, model in models.items()}
final, correct, different = {}, {}, {}
for name, model in models.items():
    texts = write(model, 300)
    right = [text for text in texts if is_correct(text)]
    correct[name], different[name] = len(right), len(set(right))
    final[name] = sum(curves[name][-20:]) / 20
    print(f"{name}: loss {final[name]:.3f}, ", end="")
    print(f"with no later word to see {alone[name]:.2f}")
    print(f"    of 300 sentences {correct[name]} are correct, ", end="")
    print(f"{different[name]} of them different")
    for text in texts[:4]:
        print("   ", text)
compare(my_prediction, different["leaky"])

# %%
worse = alone["leaky"] > math.log(len(words))
often, many = correct["causal"] > 240, different["causal"] > 150
print("the leaky loss is nearly zero:", final["leaky"] < 0.1)
print("with no later word to see, it is worse than guessing:", worse)
print("the causal loss is not below what is possible:", final["causal"] > 1.25)
print("the causal model writes at least 8 of 10 sentences right:", often)
print("it has written more than 150 different right ones:", many)
print("the leaky model fewer than 50:", different["leaky"] < 50)

# %% [markdown]
# The mark of a leak: a loss that is too good, and results that are useless. Some leaky models write
# nonsense, others the same few sentences again and again; it depends on the draw of the weights. Where
# did it look? Row: the word that looks, column: the word that is looked at.

# %% tags=["nbval-ignore-output"]
probe = ["the", "black", "cat", "sees", "a", "bird"]
inputs = torch.tensor([[START, *map(words.index, probe)]])
_, both = plt.subplots(1, 2, figsize=(6.5, 3))
for axes, (name, model) in zip(both, models.items(), strict=True):
    with torch.no_grad():
        embedded = model.embedding(inputs)
        x = positional.add_positions(embedded, model.positions)
        x = model.block.norm_1(x)
        seen = None if name == "leaky" else masking.causal_mask(7)
        weights = model.block.attention(x, x, x, seen)[1][0].mean(dim=0)
    axes.imshow(weights, vmin=0, vmax=1)
    names = [words[token] for token in inputs[0].tolist()]
    axes.set_xticks(range(7), names, rotation=60)
    axes.set_yticks(range(7), names)
    axes.set_title(name)

# %% [markdown]
# The leaky model looks one step ahead, at the answer. When it writes, that place is empty.
#
# And if the decoder starts with nothing, not even a start token?

# %%
empty = torch.empty(1, 0, dtype=torch.long)
vectors = models["causal"].embedding(empty)
scores = models["causal"].output(vectors)
print(f"vectors: {vectors.shape[1]} scores for {scores.shape[1]} positions")

# %% [markdown]
# ## All positions at once
#
# Without a mask one would train on every prefix in turn: n passes for a sentence of n words. With it,
# one pass does the same work. The same? Compare the gradients, then the time.
#
# **Predict, run, explain.** By what factor is one pass faster for 32 words?

# %%
my_prediction = None  # a factor


# %%
def at_once(model, target):
    """Give the loss of all positions, in one pass."""
    logits = model(loss.shift_right(target, START))
    return loss.sequence_loss(logits, target, PAD)


def by_steps(model, target):
    """Give the same loss, a pass for every prefix."""
    inputs, passes = loss.shift_right(target, START), []
    for end in range(1, target.shape[1] + 1):
        last = model(inputs[:, :end])[:, -1:]
        passes.append(loss.sequence_loss(last, target[:, end - 1 : end], PAD))
    return torch.stack(passes).mean()


def gradient(way):
    """Give the gradient of a loss, all parameters in one vector."""
    model = models["causal"]
    parts = torch.autograd.grad(way(model, target), list(model.parameters()))
    return torch.cat([part.flatten() for part in parts])


torch.manual_seed(0)
target = torch.randint(2, len(words), (8, 32))
one, many = gradient(at_once), gradient(by_steps)
print("the gradients are the same:", torch.allclose(one, many, atol=1e-5))


# %% tags=["nbval-ignore-output"]
slow = seconds(gradient, by_steps, times=3)
factor = slow / seconds(gradient, at_once, times=3)
assert factor > 2, "one pass must be faster than 32"
compare(my_prediction, f"about {factor:.0f} times")

# %% [markdown]
# ## What you have seen
#
# A loss that is too good is a leak until shown otherwise: the model learned to read the next word, and
# there is none when it writes. Masks hide the future and the padding before the softmax, the target
# shifted right gives one training example a position, all in one pass, and the loss counts words only.
# Next week: a second sequence to look at.
