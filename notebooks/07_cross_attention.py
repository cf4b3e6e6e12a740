# %% [markdown]
# # Notebook 7: Two sequences meet
#
# A translator writes one sentence while it looks at another, of another length and in another order.
# How does a word of the output find the words of the source that it needs? You build the attention
# between two sequences, the decoder around it, the whole Transformer, and a measure of where it looks.

# %%
# %load_ext lab_check

# %%
import itertools

import ipywidgets
import matplotlib.pyplot as plt
import torch
from torch.nn import functional

from lab_transformer import attention, corpus, decoder, loss, transformer
from lab_transformer.notebook import compare, progress


def show(rows, columns, numbers):
    """Print a table with a name for every row and column."""
    print(" " * 8 + "".join(f"{name:>8}" for name in columns))
    for name, row in zip(rows, numbers, strict=True):
        print(f"{name:>8}" + "".join(f"{number.item():8.2f}" for number in row))


# %% [markdown]
# An English sentence, its Italian translation, and made-up vectors: a word and its translation share a
# direction. In Italian the adjective follows its noun.

# %%
english = ["the", "red", "house", "sleeps"]
italian = ["la", "casa", "rossa", "dorme"]
means = {"la": "the", "casa": "house", "rossa": "red", "dorme": "sleeps"}
memory = torch.eye(4)[None]  # every English word is a direction of its own
states = memory[:, [english.index(means[word]) for word in italian]]


def plain_attention(sharpness):
    """Make a head that changes nothing but the size of the queries."""
    layer = attention.MultiHeadAttention(d_model=4, n_heads=1)
    with torch.no_grad():
        for linear in (layer.w_q, layer.w_k, layer.w_v, layer.w_o):
            linear.weight.copy_(torch.eye(4))
            if linear.bias is not None:
                linear.bias.zero_()
        layer.w_q.weight.mul_(sharpness)
    return layer.requires_grad_(False)


# %% [markdown]
# ## 7.1 Cross-attention
#
# The output side asks, `(..., query, d_model)`; keys and values come from the encoder's result, the
# memory `(..., key, d_model)`. They are learned projections of it, not the memory itself. There are as
# many results as queries, whatever the length of the source.
#
# In scope: `MultiHeadAttention` from 3.5, `torch` and `Tensor`.


# %%
# %%exercise 7.1
def cross_attention(
    decoder_states: Float[Tensor, "... query d_model"],
    memory: Float[Tensor, "... key d_model"],
    attention: MultiHeadAttention,
    memory_mask: Bool[Tensor, "... query key"] | None = None,
) -> tuple[
    Float[Tensor, "... query d_model"],
    Float[Tensor, "... heads query key"],
]:
    """Let every position of the output side look at the encoder's result.

    Returns what `attention` returns. The mask hides the source's padding; it
    broadcasts to (..., heads, query, key).
    """
    check_shapes(
        decoder_states=(decoder_states, "... query d_model"),
        memory=(memory, "... key d_model"),
    )
    raise NotImplementedError("Exercise 7.1: Cross-attention")


# %%
_, weights = attention.cross_attention(states, memory, plain_attention(6))
show(italian, english, weights[0, 0])
output, _ = attention.cross_attention(states[:, :2], memory, plain_attention(6))
print("two queries, four keys:", tuple(output.shape))

# %% [markdown]
# "casa" and "rossa" cross over: the map is no diagonal.
#
# **Predict, run, explain.** The source is filled up with four pads, zero vectors that match nothing. It
# is sometimes said that cross-attention needs no mask. What share of its attention does "casa" spend on
# the four pads when nothing hides them?

# %%
my_prediction = None  # a share between 0 and 1

# %%
padded = torch.cat([memory, torch.zeros(1, 4, 4)], dim=1)
real = (torch.arange(8) < 4)[None, None, None]
head = plain_attention(6)
_, unmasked = attention.cross_attention(states, padded, head)
_, masked = attention.cross_attention(states, padded, head, real)
same = torch.allclose(masked[..., :4], weights, atol=1e-6)
print("on pads with the mask:", round(masked[0, 0, 1, 4:].sum().item(), 2))
print("as if there were no pads:", same)
compare(my_prediction, round(unmasked[0, 0, 1, 4:].sum().item(), 2))

# %% [markdown]
# Turn the knob: longer queries look harder. At 0 every output word gets the mean of the source. (The
# control needs a running kernel.)

# %% tags=["nbval-ignore-output"]
pictures = {}
for sharpness in range(13):
    head = plain_attention(sharpness)
    _, picture = attention.cross_attention(states, memory, head)
    pictures[sharpness] = picture[0, 0]


def draw(sharpness):
    """Draw the map for one length of the queries."""
    _, axes = plt.subplots()
    axes.imshow(pictures[sharpness], vmin=0, vmax=1, cmap="cividis")
    axes.set_xticks(range(4), english)
    axes.set_yticks(range(4), italian)
    axes.set(xlabel="looked at", ylabel="written")
    plt.show()


knob = ipywidgets.SelectionSlider(options=list(pictures), value=6)
_ = ipywidgets.interact(draw, sharpness=knob)


# %% [markdown]
# ## 7.2 The decoder block
#
# Three sublayers: masked self-attention over what is written, cross-attention to the source,
# feed-forward. `x` is `(batch, query, d_model)`, the memory `(batch, key, d_model)`. The future of the
# target is hidden, the source is open from end to end, but for its padding.
#
# In scope: `torch`, `nn`, `MultiHeadAttention`, `FeedForward`, `pre_norm` and `post_norm`, as in 5.6,
# `causal_mask` from 6.1 and `cross_attention` from 7.1.


# %%
# %%exercise 7.2
class DecoderBlock(nn.Module):
    """Masked self-attention, cross-attention to the source, feed-forward.

    `causal_mask`, `cross_attention`, `pre_norm` and `post_norm` are in scope.
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
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm_1 = nn.LayerNorm(d_model)
        self.norm_2 = nn.LayerNorm(d_model)
        self.norm_3 = nn.LayerNorm(d_model)

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"],
        mask: Bool[Tensor, "... query query"] | None = None,
        memory_mask: Bool[Tensor, "... query key"] | None = None,
    ) -> tuple[
        Float[Tensor, "batch query d_model"],
        Float[Tensor, "batch heads query key"],
    ]:
        """Return the new states and the weights of the cross-attention.

        `mask` hides padding of the target on top of the future; `memory_mask`
        hides padding of the source. Both broadcast over heads and queries.
        A residual path may go through pre_norm or post_norm, or be written out.
        """
        check_shapes(
            x=(x, "... query d_model"),
            memory=(memory, "... key d_model"),
            norm_1=(self.norm_1.weight, "d_model"),
        )
        check_boolean(mask)
        raise NotImplementedError("Exercise 7.2: The decoder block")


# %%
torch.manual_seed(0)
block = decoder.DecoderBlock(d_model=8, n_heads=2, d_ff=16)
block.requires_grad_(False)
x, source = torch.randn(1, 5, 8), torch.randn(1, 6, 8)


def touched(new_x, new_source):
    """List the outputs that differ from those of the unchanged input."""
    old, _ = block(x, source)
    new, _ = block(new_x, new_source)
    apart = (old - new)[0].norm(dim=-1)
    return (apart > 1e-4).nonzero().flatten().tolist()


late_x, late_source = x.clone(), source.clone()
late_x[0, 3, 0] += 1
late_source[0, 5, 0] += 1
print("target word 3 changes; outputs that change:", touched(late_x, source))
print("source word 5 changes; outputs that change:", touched(x, late_source))


# %% [markdown]
# ## 7.3 The decoder: a stack of blocks
#
# The states go from block to block, the memory is the same for all of them. Every block's map is kept:
# `(batch, layers, heads, query, key)`.
#
# In scope: `DecoderBlock` from 7.2, `torch` and `nn`.


# %%
# %%exercise 7.3
class Decoder(nn.Module):
    """A stack of decoder blocks, with a final norm in the pre-norm case."""

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
            self.blocks.append(DecoderBlock(d_model, n_heads, d_ff, norm_first))
        self.norm = nn.LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"],
        mask: Bool[Tensor, "... query query"] | None = None,
        memory_mask: Bool[Tensor, "... query key"] | None = None,
    ) -> tuple[
        Float[Tensor, "batch query d_model"],
        Float[Tensor, "batch layers heads query key"],
    ]:
        """Return the final states and every block's cross-attention weights."""
        check_shapes(
            x=(x, "... query d_model"),
            memory=(memory, "... key d_model"),
        )
        raise NotImplementedError(
            "Exercise 7.3: The decoder: a stack of blocks",
        )


# %%
torch.manual_seed(0)
stack = decoder.Decoder(n_layers=3, d_model=8, n_heads=2, d_ff=16)
stack.requires_grad_(False)
result, maps = stack(x, source)
print("states:", tuple(result.shape), " maps:", tuple(maps.shape))
whole = torch.allclose(maps.sum(dim=-1), torch.ones(1, 3, 2, 5))
print("every row of every map sums to one:", whole)


# %% [markdown]
# ## 7.4 The Transformer
#
# `encode` turns a source `(batch, key)` into memory and mask, once. `decode` gives logits
# `(batch, query, vocab)` for every position, as often as words are written. The size of the vocabulary
# shows at the two ends only: in the embeddings and in the last linear map, which shares its matrix with
# the target embedding. No block between them knows it.
#
# In scope: `math`, `nn`, `add_positions` and `sinusoidal_positions` from week 4, `padding_mask` from
# 6.2, `Encoder` from 5.7 and `Decoder` from 7.3.


# %%
# %%exercise 7.4
class Transformer(nn.Module):
    """Encoder and decoder, with sinusoidal positions.

    The output layer and the target embedding are one matrix: what trains one
    trains the other. Which of the two takes the other's, and so which initial
    numbers it has, is up to you. `padding_mask` and `add_positions` are in
    scope.

    `dropout` and `shared` are given, for week 9: dropout acts in training mode,
    on the sums of embeddings and positions and on every sublayer's output;
    `shared` makes the source embedding the same matrix, too, where source and
    target have one vocabulary.
    """

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        n_layers: int = 2,
        d_model: int = 128,
        n_heads: int = 4,
        d_ff: int = 512,
        norm_first: bool = True,
        pad_id: int = 0,
        max_length: int = 512,
        dropout: float = 0.0,
        shared: bool = False,
    ) -> None:
        super().__init__()
        check_probability(dropout)
        if shared and source_vocab != target_vocab:
            raise ValueError(
                "one matrix for both sides needs one vocabulary, but there are "
                f"{source_vocab} source words and {target_vocab} target words"
            )
        self.pad_id = pad_id
        self.source_embedding = nn.Embedding(source_vocab, d_model)
        self.target_embedding = nn.Embedding(target_vocab, d_model)
        self.encoder = Encoder(n_layers, d_model, n_heads, d_ff, norm_first)
        self.decoder = Decoder(n_layers, d_model, n_heads, d_ff, norm_first)
        self.output = nn.Linear(d_model, target_vocab, bias=False)
        self.positions: Tensor
        positions = sinusoidal_positions(max_length, d_model)
        self.register_buffer("positions", positions, persistent=False)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=1 / math.sqrt(d_model))
        raise NotImplementedError("Exercise 7.4: The Transformer")
        if shared:
            self.source_embedding.weight = self.target_embedding.weight
        add_dropout(self, dropout)

    def encode(
        self,
        source: Int[Tensor, "batch key"],
    ) -> tuple[
        Float[Tensor, "batch key d_model"],
        Bool[Tensor, "batch 1 1 key"],
    ]:
        """Read the source: its states, and the mask that hides its padding."""
        check_shapes(source=(source, "batch key"))
        raise NotImplementedError("Exercise 7.4: The Transformer")

    def decode(
        self,
        target: Int[Tensor, "batch query"],
        memory: Float[Tensor, "batch key d_model"],
        memory_mask: Bool[Tensor, "... query key"] | None = None,
        offset: int = 0,
    ) -> tuple[
        Float[Tensor, "batch query vocab"],
        Float[Tensor, "batch layers heads query key"],
    ]:
        """Give each next word's logits, and the cross-attention weights.

        Padding of the target is hidden as a key, like that of the source. The
        first target token has the position `offset`: 0, unless earlier tokens
        are cached.
        """
        check_shapes(
            target=(target, "batch query"),
            memory=(memory, "... key d_model"),
        )
        raise NotImplementedError("Exercise 7.4: The Transformer")

    def forward(
        self,
        source: Int[Tensor, "batch key"],
        target: Int[Tensor, "batch query"],
    ) -> Float[Tensor, "batch query vocab"]:
        """Give each next word's logits, the target known (teacher forcing)."""
        memory, memory_mask = self.encode(source)
        return self.decode(target, memory, memory_mask)[0]


# %% [markdown]
# **Predict, run, explain.** A model for 1000 words on each side, with `d_model` 32 and one layer. What
# share of its parameters is saved by tying the output layer to the target embedding?

# %%
my_prediction = None  # a share between 0 and 1

# %%
torch.manual_seed(0)
model = transformer.Transformer(
    1000, 1000, n_layers=1, d_model=32, n_heads=4, d_ff=128
)
model.requires_grad_(False)
matrix = model.target_embedding.weight
ends = ("target_embedding.weight", "output.weight")
sizes = {name: weight.numel() for name, weight in model.named_parameters()}
rest = sum(size for name, size in sizes.items() if name not in ends)
tied, untied = rest + matrix.numel(), rest + 2 * matrix.numel()
sentence = torch.tensor([[5, 9, 3]])
before = model(sentence, sentence)
# Nobody reads word 7: its logit doubles if the output uses the same matrix.
matrix[7] *= 2
after = model(sentence, sentence)
doubled = torch.allclose(after[..., 7], 2 * before[..., 7], atol=1e-4)
print("one matrix:", doubled)
print(f"parameters: {tied}, untied {untied}")
compare(my_prediction, f"{1 - tied / untied:.2f}")

# %% [markdown]
# The encoder reads once, however long the answer. And padding of the source changes nothing:

# %%
runs = []
hook = model.encoder.register_forward_hook(lambda *_: runs.append(1))
short = torch.tensor([[5, 9, 7]])
memory_short, mask_short = model.encode(short)
written = torch.tensor([[1]])
for _ in range(6):
    logits, _ = model.decode(written, memory_short, mask_short)
    written = torch.cat([written, logits[:, -1:].argmax(dim=-1)], dim=1)
hook.remove()
print("words written: 6, encoder runs:", len(runs))
with_pads = torch.tensor([[5, 9, 7, 0, 0, 0]])
_, mask = model.encode(with_pads)
print("the mask:", mask.int().flatten().tolist())
alone, beside = model(short, written), model(with_pads, written)
same = torch.allclose(alone, beside, atol=1e-4)
print("same logits beside three pads:", same)


# %% [markdown]
# ## A translator of your own
#
# All parts are there. The course has a grammar that writes English sentences and their translations
# side by side, with agreement, articles and word order as they should be. Sentences of five to seven
# words are quickest to learn from. Three sentences in two languages, Hindi also in Latin letters:

# %%
pairs = {}
for language in ("italian", "hindi"):
    drawn = corpus.draw_pairs(language, 31_000)
    pairs[language] = [pair for pair in drawn if len(pair.source) <= 7]
for number in (1, 3, 8):
    print(corpus.to_text(pairs["italian"][number].source))
    for language in pairs:
        text = corpus.to_text(pairs[language][number].target)
        print("   ", text)
    print("   ", corpus.romanise(text))

# %% [markdown]
# A thousand pairs are held out: the model never sees them in training. `batches` gives padded numbers,
# `(batch, key)` and `(batch, query)`, every target with its end token.

# %%
splits = {name: corpus.split_pairs(pairs[name], 1_000) for name in pairs}
kept, held_out = splits["italian"]
words, wanted = next(corpus.batches(kept, *corpus.vocabularies(kept), size=3))
print(words, wanted, sep="\n")

# %% [markdown]
# Training is what you know: shift right, logits, loss, a step. The learning rate rises for the first
# sixth of the steps and then falls to zero. One layer, two heads and 64 numbers a word are enough here;
# it takes about ten seconds.

# %%
STEPS, SIZE, RATE = 450, 64, 6e-3
torch.set_num_threads(1)  # small matrices: more threads would mostly wait


def train(language):
    """Train a translator; give the model and the words of both sides."""
    kept, _ = splits[language]
    known = corpus.vocabularies(kept)
    torch.manual_seed(7)
    model = transformer.Transformer(
        *map(len, known), n_layers=1, d_model=64, n_heads=2, d_ff=256
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, RATE, STEPS, pct_start=0.15
    )
    epochs = (
        corpus.batches(kept, *known, size=SIZE, seed=epoch)
        for epoch in itertools.count()
    )
    stream = itertools.chain.from_iterable(epochs)
    batches = itertools.islice(stream, STEPS)
    steps = enumerate(progress(batches, "training", total=STEPS), start=1)
    for step, (source, target) in steps:
        logits = model(source, loss.shift_right(target, known[1].bos_id))
        cost = loss.sequence_loss(logits, target, known[1].pad_id)
        optimiser.zero_grad()
        cost.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 90 == 0:
            print(f"step {step}: loss {cost.item():.3f}")
    return model.requires_grad_(False), known


# %% tags=["nbval-ignore-output"]
translators = {"italian": train("italian")}

# %% [markdown]
# **Predict, run, explain.** The model has seen every word, but none of these thousand sentences. It
# counts as right only when every word is. What share does it get right?

# %%
my_prediction = None  # a share between 0 and 1


# %%
def translate(language, chosen, pads=0, masked=True):
    """Write greedily, all sentences at once.

    Gives the translations, and the share of attention that went to pads.
    """
    model, (english, other) = translators[language]
    source, _ = corpus.to_batch(chosen, english, other)
    source = functional.pad(source, (0, pads), value=english.pad_id)
    memory, real = model.encode(source)  # once
    mask = real if masked else None
    lengths = [len(pair.target) for pair in chosen]
    written = torch.full((len(chosen), 1), other.bos_id)
    for _ in range(1 + max(lengths)):  # once for every word
        logits, maps = model.decode(written, memory, mask)
        written = torch.cat([written, logits[:, -1:].argmax(dim=-1)], dim=1)
    on_pads = (maps * ~real[:, None]).sum(dim=-1).mean(dim=(1, 2))
    # What follows the end of a sentence does not count.
    counts = torch.arange(maps.shape[-2]) < torch.tensor(lengths)[:, None]
    texts = [other.decode(row) for row in written.tolist()]
    return texts, on_pads[counts].mean().item()


def share_right(language, number=1_000, **how):
    """Give the share of held-out sentences that come out without a mistake."""
    chosen = splits[language][1][:number]
    written, _ = translate(language, chosen, **how)
    both = zip(written, chosen, strict=True)
    return sum(words == pair.target for words, pair in both) / number


right = share_right("italian")
assert right >= 0.9, f"only {right:.1%} of the new sentences are right"
compare(my_prediction, "more than 9 of 10 sentences without a mistake")


# %% tags=["nbval-ignore-output"]
def show_translations(language):
    """Print five new sentences and what the translator makes of them."""
    some = splits[language][1][:5]
    written, _ = translate(language, some)
    for pair, words in zip(some, written, strict=True):
        print(corpus.to_text(pair.source))
        print("   ", corpus.to_text(words))


count = len(held_out)
print(f"to Italian: {right:.1%} of {count} new sentences without a mistake")
show_translations("italian")

# %% [markdown]
# Nothing in the code knows Italian. The same lines learn Hindi, in another script, with the verb at the
# end:

# %% tags=["nbval-ignore-output"]
translators["hindi"] = train("hindi")
show_translations("hindi")

# %%
assert share_right("hindi") >= 0.9
print("to Hindi: more than 9 of 10 sentences without a mistake")


# %% [markdown]
# ## 7.5 An alignment from attention weights
#
# Which source word does each target word belong to? Average the maps over all leading axes, and take
# for each query of `(..., query, key)` the key it looks at most. Links are pairs (source, target).
#
# In scope: `torch` and `Tensor`.


# %%
# %%exercise 7.5
def alignment_from_attention(
    weights: Float[Tensor, "... query key"],
) -> set[tuple[int, int]]:
    """Link every target word to the source word that it attends to most.

    The weights are averaged over all leading axes (heads, layers). Returns
    pairs (source, target), one for each target word: of source words with
    equal weights, any will do.
    """
    check_shapes(weights=(weights, "... query key"))
    raise NotImplementedError(
        "Exercise 7.5: An alignment from attention weights",
    )


# %%
links = attention.alignment_from_attention(weights)
for source_word, target_word in sorted(links):
    print(f"{english[source_word]:>7} - {italian[target_word]}")

# %% [markdown]
# That was made up. Now the trained translators. Row `t` of a map belongs to the position that writes
# word `t`; the last row, which writes the end token, is left out. Frames mark the gold links.


# %%
def maps_of(language, pair):
    """Give the weights (layers, heads, query, key) behind a translation."""
    model, known = translators[language]
    source, target = corpus.to_batch([pair], *known)
    memory, memory_mask = model.encode(source)
    inputs = loss.shift_right(target, known[1].bos_id)
    _, maps = model.decode(inputs, memory, memory_mask)
    return maps[0, :, :, : len(pair.target)]


# %% tags=["nbval-ignore-output"]
heads = {"all heads": slice(0, 2), "head 1": slice(0, 1), "head 2": slice(1, 2)}


def draw_map(language, sentence, head):
    """Draw where a translator looks while it writes one sentence."""
    pair = splits[language][1][sentence]
    weights = maps_of(language, pair)[0, heads[head]].mean(dim=0)
    _, axes = plt.subplots(figsize=(5, 3.4))
    axes.imshow(weights, vmin=0, vmax=1, cmap="cividis")
    frame = {"fill": False, "edgecolor": "orangered", "linewidth": 2}
    for s, t in pair.sure:
        axes.add_patch(plt.Rectangle((s - 0.5, t - 0.5), 1, 1, **frame))
    source = pair.source
    target = [corpus.romanise(word) for word in pair.target]
    axes.set_xticks(range(len(source)), source, rotation=45, ha="right")
    axes.set_yticks(range(len(target)), target)
    axes.set(xlabel="looked at", ylabel="written")
    plt.show()


for language in translators:
    draw_map(language, 0, "all heads")

# %% [markdown]
# Turn the knobs: other sentences, and one head at a time. Which head is it that aligns? (The controls
# need a running kernel.)

# %% tags=["nbval-ignore-output"]
_ = ipywidgets.interact(
    draw_map,
    language=list(translators),
    sentence=ipywidgets.IntSlider(2, 0, 50),
    head=list(heads),
)


# %% [markdown]
# ## 7.6 The alignment error rate
#
# People who link words by hand mark sure links and possible ones. A missed sure link is an error, a
# predicted link that is not even possible is one too. 0 is perfect, 1 has nothing right.


# %%
# %%exercise 7.6
def alignment_error_rate(
    predicted: set[tuple[int, int]],
    sure: set[tuple[int, int]],
    possible: set[tuple[int, int]],
) -> float:
    """Compare an alignment with a gold one: 0.0 is perfect, 1.0 all wrong.

    A sure link is possible too, whether `possible` repeats it or not. Nothing
    predicted where nothing is sure is no error.
    """
    raise NotImplementedError("Exercise 7.6: The alignment error rate")


# %%
sure = {(0, 0), (1, 2), (2, 1), (3, 3)}
diagonal = {(place, place) for place in range(4)}
for name, predicted in [("your map", links), ("word for word", diagonal)]:
    rate = attention.alignment_error_rate(predicted, sure, set())
    print(f"{name:>13}: {rate:.2f}")
possible = {(1, 1)}
rate = attention.alignment_error_rate(diagonal, sure, possible)
print(f"  if red-casa is possible: {rate:.3f}")

# %% [markdown]
# **Predict, run, explain.** On average over 300 held-out sentences: which of the two has the higher
# error rate, Italian or Hindi, when one aligns word for word? And the trained maps?

# %%
my_prediction = None  # for example "hindi, italian"


# %%
def mean_error(language, links_of):
    """Average the alignment error rate over held-out sentences."""
    rates = [
        attention.alignment_error_rate(links_of(pair), pair.sure, pair.possible)
        for pair in splits[language][1][:300]
    ]
    return sum(rates) / len(rates)


def word_for_word(pair):
    """Link every word with the one at the same place, or with the last."""
    return {(min(t, len(pair.source) - 1), t) for t in range(len(pair.target))}


def looked_at(language):
    """Give the function that reads a pair's alignment from its map."""

    def links_of(pair):
        return attention.alignment_from_attention(maps_of(language, pair))

    return links_of


errors = {
    language: (
        mean_error(language, word_for_word),
        mean_error(language, looked_at(language)),
    )
    for language in translators
}
assert all(by_map < 0.5 * plain for plain, by_map in errors.values())
order = max(errors, key=lambda language: errors[language][0])
compare(my_prediction, f"word for word {order}")
print("both maps have less than half of the errors of word for word")

# %% tags=["nbval-ignore-output"]
print(f"{'':>8}{'word for word':>16}{'attention':>12}")
for language, (plain, by_map) in errors.items():
    print(f"{language:>8}{plain:16.2f}{by_map:12.2f}")

# %% [markdown]
# Nobody told the models which word belongs to which. Still, a map is one view of what a model does, not
# its reason: look at the heads one by one above, they do not agree.
#
# ## What breaks without the source mask
#
# The same sentences, the same translator to Hindi, and more and more pads behind every source.

# %%
PADS = (0, 24, 120)


def shares_right(masked):
    """Give the share of right translations for each number of pads."""
    return [share_right("hindi", 300, pads=n, masked=masked) for n in PADS]


with_mask, without = shares_right(masked=True), shares_right(masked=False)
changed = max(with_mask) - min(with_mask) > 0.01
print("with the mask, pads change the result:", changed)
spoiled = without[2] < 0.8 * with_mask[2]
print("without it, 120 pads spoil at least a fifth:", spoiled)

# %% tags=["nbval-ignore-output"]
print("with the mask   ", [f"{share:.1%}" for share in with_mask])
print("without the mask", [f"{share:.1%}" for share in without])
some = splits["hindi"][1][:200]
for pads in PADS:
    _, share = translate("hindi", some, pads, masked=False)
    print(f"{pads:3} pads get {share:.0%} of the attention")

# %% [markdown]
# Nothing warned you: no error, no NaN. A sentence is translated well or badly depending on the longest
# sentence that happens to share its batch.
#
# ## What you have seen
#
# Queries from one side, keys and values from the other: two sequences of any two lengths meet, and the
# source's padding has to be hidden. A decoder block puts this between masked self-attention and
# feed-forward; the encoder reads once. Next week: how to choose words from what the decoder says.
