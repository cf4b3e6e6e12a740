# %% [markdown]
# # Week 6: Not looking ahead
#
# In training the whole target sentence lies on the table; when the model writes, the next word does not
# exist yet. How can it learn from all positions at once without copying the answer? You build the masks
# and the loss that make this possible, and then train a model that cheats, to see what it is worth.

# %%
# %load_ext lab_grader

# %%
import ipywidgets
import matplotlib.pyplot as plt
import torch
from torch import nn

from lab_transformer import decoder, encoder, loss, masking, positional

plt.rcParams.update({"figure.figsize": (5, 3), "figure.dpi": 80, "figure.constrained_layout.use": True})


def compare(predicted, measured):
    """Put what you expected beside what came out."""
    if predicted is None:
        print(f"no prediction written; measured: {measured}")
    else:
        print(f"you predicted {predicted}; measured: {measured}")


def show(mask):
    """Print a mask: a square where a query (row) may attend to a key (column)."""
    for row in mask.tolist():
        print(" ".join("■" if allowed else "·" for allowed in row))


# %% [markdown]
# ## 6.1 The causal mask
#
# Row t is the query at position t, column t' a key. True means "may attend", as in
# `scaled_dot_product_attention`; beware that `nn.MultiheadAttention` means the opposite. The mask is
# `(query, key)`, square, and the same for all sentences of this length.


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
# `(batch, 1, 1, key)` broadcasts over heads and queries. Both masks together are joined by "and".


# %%
# %%exercise 6.2
def padding_mask(tokens: Int[Tensor, "batch key"], pad_id: int) -> Bool[Tensor, "batch 1 1 key"]:
    """Allow every query to attend to real words only: padding is hidden as a key."""
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
#
# ## 6.3 Softmax under a mask
#
# A hidden score becomes -inf before the softmax, so its weight is exactly zero and the others still sum
# to one. Where nothing is allowed the weights are zeros, not NaN. The shape of the scores stays.


# %%
# %%exercise 6.3
def masked_softmax(
    scores: Float[Tensor, "..."], mask: Bool[Tensor, "..."], dim: int = -1
) -> Float[Tensor, "..."]:
    """Softmax over the allowed scores only; hidden ones get a weight of exactly zero.

    The mask broadcasts to the scores. Where nothing is allowed along dim, all weights are zero.
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
for name, table in [("zero after the softmax", late), ("-inf before it", weights)]:
    print(f"{name:>22}:", [round(weight, 3) for weight in table[0].tolist()])
print("    nothing to look at:", weights[1].tolist())
compare(my_prediction, round(late[0].sum().item(), 3))


# %% [markdown]
# The late zero also leaks: the hidden score decides how small the others are.
#
# ## 6.4 Shifted right
#
# At position t the model sees the words before t and must write word t. So the input is the target
# moved by one place, with the start token in front: `(..., seq)` to `(..., seq)`. All positions are
# trained in one pass; that is teacher forcing. The decoder's first input is the start token, not
# nothing.


# %%
# %%exercise 6.4
def shift_right(targets: Int[Tensor, "... seq"], bos_id: int) -> Int[Tensor, "... seq"]:
    """Make the decoder's input from its target: start with bos_id, drop the last token."""
    check_shapes(targets=(targets, "... seq"))
    raise NotImplementedError("Exercise 6.4: Shifted right")


# %%
names = ["<start>", "<end>", "the", "cat", "sleeps"]
target = torch.tensor([[2, 3, 4, 1]])
for seen, wanted in zip(loss.shift_right(target, 0)[0].tolist(), target[0].tolist(), strict=True):
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

    Label smoothing gives every word of the vocabulary, the target included, smoothing / vocab of the
    probability, and the rest to the target, as F.cross_entropy does. A batch of nothing but padding
    has the loss 0. The padding id may lie outside the vocabulary, as -100 does.
    """
    check_shapes(logits=(logits, "... seq vocab"), targets=(targets, "... seq"))
    if not 0.0 <= smoothing <= 1.0:
        raise ValueError(f"smoothing is a share between 0 and 1, it is {smoothing}")
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
print("ignoring pads:", round(loss.sequence_loss(logits, targets, pad_id=PAD).item(), 2))
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
    word = torch.tensor([0])
    return torch.stack([loss.sequence_loss(row[None], word, -100, share) for row in log_probabilities])


curves = {share: curve(share) for share in shares}
for share in shares:
    print(
        f"smoothing {share}: lowest loss at confidence {confidence[curves[share].argmin()].item():.2f}"
    )


# %%
# NBVAL_IGNORE_OUTPUT
# A control is drawn by the browser; its ids differ in every run.
def draw(smoothing):
    """Draw the loss against the probability that the right word gets."""
    _, axes = plt.subplots()
    axes.plot(confidence, curves[smoothing])
    axes.set(xlabel="probability of the right word", ylabel="loss", ylim=(0, 3))
    plt.show()


_ = ipywidgets.interact(draw, smoothing=ipywidgets.SelectionSlider(options=list(curves), value=0.1))


# %% [markdown]
# ## 6.6 The decoder-only block
#
# An encoder block with the causal mask inside: `(batch, seq, d_model)` in and out. A mask from outside
# hides padding on top. A stack of these, and an output layer, is a GPT.


# %%
# %%exercise 6.6
class CausalBlock(nn.Module):
    """An encoder block that never looks ahead: the building block of a GPT."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, norm_first: bool = True) -> None:
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
        """Let every word look at itself and at earlier words, then think about what it saw.

        The mask hides padding on top; it broadcasts to (batch, heads, seq, seq).
        """
        check_shapes(x=(x, "... seq d_model"), norm_1=(self.norm_1.weight, "d_model"))
        check_boolean(mask)
        raise NotImplementedError("Exercise 6.6: The decoder-only block")


# %% [markdown]
# Which inputs does each output depend on? Ask the gradient: row t is output t, column t' input t'.


# %%
def influence(block):
    """Tell for every output and input whether a gradient flows between them."""
    x = torch.randn(1, 6, 8, requires_grad=True)
    y = block(x)
    rows = [torch.autograd.grad(y[0, t].sin().sum(), x, retain_graph=True)[0] for t in range(6)]
    return torch.cat(rows).norm(dim=-1) > 0


torch.manual_seed(0)
print("encoder block")
show(influence(encoder.EncoderBlock(8, 2, 16)))
print("causal block")
show(influence(decoder.CausalBlock(8, 2, 16)))

# %% [markdown]
# ## The leak
#
# A game with ten words: the first is any of them, and after word a comes a + 1 or a + 3 (modulo 10),
# each with probability 1/2. In walks of ten words nobody can do better than (log 10 + 9 log 2) / 10 =
# 0.85 a word. Two models train on it, one block each, the same but for the mask.
#
# **Predict, run, explain.** The model without the mask reaches a far lower loss. When both write by
# themselves, what share of the leaky model's steps is legal? (Blind guessing gives 0.2.)

# %%
my_prediction = None  # a share between 0 and 1

# %%
START = 10


class TinyModel(nn.Module):
    """Embedding, positions, one block, and a score for every word."""

    def __init__(self, block):
        super().__init__()
        self.embedding = nn.Embedding(11, 32)
        nn.init.normal_(self.embedding.weight, std=32**-0.5)
        self.block = block
        self.output = nn.Linear(32, 10)
        self.positions = positional.sinusoidal_positions(12, 32)

    def forward(self, tokens):
        return self.output(self.block(positional.add_positions(self.embedding(tokens), self.positions)))


def walks(number, length):
    """Play the game."""
    steps = torch.where(torch.rand(number, length) < 0.5, 1, 3)
    steps[:, 0] = torch.randint(0, 10, (number,))
    return steps.cumsum(dim=1) % 10


def train(model):
    """Train with teacher forcing; give the loss of the last steps."""
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    losses = []
    for _ in range(200):
        target = walks(48, 10)
        now = loss.sequence_loss(model(loss.shift_right(target, START)), target, pad_id=-100)
        optimizer.zero_grad()
        now.backward()
        optimizer.step()
        losses.append(now.item())
    return sum(losses[-20:]) / 20


@torch.no_grad()
def legal_share(model):
    """Let the model write 200 walks, word by word; give the share of legal steps."""
    tokens = torch.full((200, 1), START)
    for _ in range(9):
        chances = model(tokens)[:, -1].softmax(dim=-1)
        tokens = torch.cat([tokens, chances.multinomial(1)], dim=1)
    steps = (tokens[:, 2:] - tokens[:, 1:-1]) % 10
    return ((steps == 1) | (steps == 3)).float().mean().item()


torch.set_num_threads(1)


def play(kind):
    """Train one model, then let it write."""
    torch.manual_seed(0)
    model = TinyModel(kind(32, 2, 64))
    return train(model), legal_share(model)


results = {"leaky": play(encoder.EncoderBlock), "causal": play(decoder.CausalBlock)}

# %%
# NBVAL_IGNORE_OUTPUT
# The digits of a trained model differ a little from processor to processor; the next cell holds
# everywhere.
for name, (final, share) in results.items():
    print(f"{name:>6}: loss {final:.2f}, legal steps when writing alone {share:.2f}")
compare(my_prediction, f"{results['leaky'][1]:.2f}")

# %%
print("the leaky loss is below what is possible:", results["leaky"][0] < 0.5)
print("the causal loss is not:", results["causal"][0] > 0.8)
print("the causal model writes at least 9 of 10 steps right:", results["causal"][1] > 0.9)
print("the leaky model fewer than 6 of 10:", results["leaky"][1] < 0.6)

# %% [markdown]
# ## What you have seen
#
# A loss that is too good is a leak until shown otherwise: the model learned to read the next word, and
# there is none when it writes. Masks hide the future and the padding before the softmax, the target
# shifted right gives one training example a position, and the loss counts words only. Next week: a
# second sequence to look at.
