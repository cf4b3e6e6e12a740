# %% [markdown]
# # Notebook 11: Three families
#
# One architecture, three ways to use it: read a text as a whole, write it word by word, or read one and
# write another. What makes the difference is who may look where, and what the model is asked for. You
# build what BERT is asked, what T5 is asked, the mask between the two, and a Transformer that reads
# pictures. The [chapter](../book/11_families.md) tells the story.

# %%
# %load_ext lab_check

# %%
import copy
import statistics
import time

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression

from lab_transformer import acceptability, corpus, families, masking, vision
from lab_transformer.notebook import compare, progress

torch.set_num_threads(1)
cross_entropy = torch.nn.functional.cross_entropy


# %% [markdown]
# ## 11.1 Words to be guessed
#
# A model that may look everywhere cannot be asked for the next word: it sees it. So BERT hides some
# words and asks for those. Not all that are asked for are hidden, because in use no word is.
#
# In scope in all cells of this week: `torch`, `nn`, `Tensor`.


# %%
# %%exercise 11.1
def mask_tokens(
    tokens: Int[Tensor, "..."],
    mask_id: int,
    vocab_size: int,
    special_ids: list[int],
    generator: torch.Generator,
    rate: float = 0.15,
) -> tuple[Int[Tensor, "..."], Int[Tensor, "..."]]:
    """Choose tokens to be guessed and damage the text there, as BERT does.

    Returns the damaged text and the labels: what stood there where a token was
    chosen, -100 everywhere else.

    Each token is chosen with probability `rate`, whatever happens to the
    others; tokens in special_ids never are. Of those chosen, 80% become
    mask_id, 10% a random token, 10% stay as they are, each by a draw of its
    own. A random token is any id from 0 to vocab_size - 1 but the special ones,
    all equally likely, the one that stood there among them. mask_id counts as
    special, whether special_ids names it or not.

    All chance comes from the generator, in whatever order you draw. It lives on
    the device of the tokens. Both results have the dtype of the tokens.
    """
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"rate is a share from 0 to 1, it is {rate}")
    if not 0 <= mask_id < vocab_size:
        raise ValueError(f"mask_id {mask_id} is none of 0 to {vocab_size - 1}")
    if {*range(vocab_size)} <= {mask_id, *special_ids}:
        raise ValueError("all tokens are special: none is left to draw from")
    raise NotImplementedError("Exercise 11.1: Words to be guessed")


# %% [markdown]
# **Predict, run, explain.** 100,000 tokens, BERT's rates. What share of all of them shows the mask, and
# what share is asked for although nothing was changed? In percent.

# %%
my_prediction = None  # such as (15, 0)

# %%
generator = torch.Generator().manual_seed(0)
tokens = torch.randint(5, 1000, (1000, 100))
inputs, labels = families.mask_tokens(tokens, 4, 1000, [0, 1, 2, 3], generator)
asked = labels != -100
hidden = inputs == 4
unchanged = asked & (inputs == tokens)
percent = [100 * part.float().mean().item() for part in (hidden, unchanged)]
compare(my_prediction, tuple(round(2 * share) / 2 for share in percent))
print("where nothing is asked, nothing changed:", end=" ")
print(torch.equal(inputs[~asked], tokens[~asked]))


# %% [markdown]
# ## 11.2 A masked language model
#
# An encoder over the whole text, and a guess at every place. The last matrix is the first one again.
#
# In scope: `padding_mask`.


# %%
# %%exercise 11.2
class MaskedLanguageModel(nn.Module):
    """BERT: an encoder over whole texts, and a guess for every place.

    The output layer and the token embedding are one matrix: what trains one
    trains the other. Which of the two takes the other's is up to you; the bias
    of the output stays its own. `padding_mask` is in scope.
    """

    def __init__(
        self,
        vocab_size: int,
        n_layers: int = 2,
        d_model: int = 128,
        n_heads: int = 4,
        d_ff: int = 512,
        norm_first: bool = True,
        pad_id: int = 0,
        max_length: int = 128,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.pad_id = pad_id
        self.max_length = max_length
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Embedding(max_length, d_model)
        self.segment_embedding = nn.Embedding(2, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.encoder = gelu_encoder(
            n_layers,
            d_model,
            n_heads,
            d_ff,
            norm_first,
        )
        self.head = nn.Sequential(
            nn.Linear(d_model, d_model),
            nn.GELU(),
            nn.LayerNorm(d_model),
        )
        self.output = nn.Linear(d_model, vocab_size)
        nn.init.zeros_(self.output.bias)
        for module in self.children():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        raise NotImplementedError("Exercise 11.2: A masked language model")

    def encode(
        self,
        tokens: Int[Tensor, "batch seq"],
        segments: Int[Tensor, "batch seq"] | None = None,
        mask: Bool[Tensor, "... seq seq"] | None = None,
    ) -> Float[Tensor, "batch seq d_model"]:
        """Read a text: the encoder's state at every place.

        What the encoder gets is the sum of three embeddings, normalised: of the
        token, of its position, counted from 0, and of its segment, 0 for the
        first text and 1 for the second. Without `segments` all are 0.

        Every token sees all that are not padding, before and after it. A `mask`
        hides more on top of the padding, and broadcasts to
        (batch, heads, seq, seq). What comes out at padding is up to you.
        """
        check_shapes(tokens=(tokens, "batch seq"))
        batch, seq = tokens.shape
        if seq > self.max_length:
            raise ValueError(f"{seq} tokens do not fit into {self.max_length}")
        if segments is not None:
            check_shapes(
                tokens=(tokens, "batch seq"),
                segments=(segments, "batch seq"),
            )
        check_mask(mask, torch.Size([batch, self.n_heads, seq, seq]))
        raise NotImplementedError("Exercise 11.2: A masked language model")

    def forward(
        self,
        tokens: Int[Tensor, "batch seq"],
        segments: Int[Tensor, "batch seq"] | None = None,
        mask: Bool[Tensor, "... seq seq"] | None = None,
    ) -> Float[Tensor, "batch seq vocab"]:
        """Give the logits of the token at every place (not of the next one).

        The encoder's states go through `head`, then through `output`.
        """
        check_shapes(tokens=(tokens, "batch seq"))
        raise NotImplementedError("Exercise 11.2: A masked language model")


# %% [markdown]
# A little language to learn from: English sentences of our corpus. Some of them have a twin with one
# mistake made on purpose. The masked model reads the right ones only.

# %%
pairs = acceptability.draw_contrasts("english", 4000)
held_out, known = pairs[:800], pairs[800:]
vocabulary = corpus.Vocabulary([*(p.right for p in pairs), ("<mask>",)])
(mask_id,) = vocabulary.encode(["<mask>"])
special = [0, 1, 2, 3]  # padding, start, end, unknown


def numbered(sentences):
    """Number sentences; the start token stands where BERT has [CLS]."""
    rows = [[vocabulary.bos_id, *vocabulary.encode(s)] for s in sentences]
    return corpus.pad(rows, vocabulary.pad_id)


for pair in pairs[:2]:
    print(" ".join(pair.right), "|", " ".join(pair.wrong))


# %%
def fresh():
    """Make a small masked language model."""
    return families.MaskedLanguageModel(
        len(vocabulary), 2, 48, 4, 96, max_length=16
    )


def pretrain(steps):
    """Let a model guess masked words; slower and slower, as in week 9."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model, texts = fresh(), numbered([pair.right for pair in known])
    optimizer = torch.optim.Adam(model.parameters())
    for step in progress(range(steps), "pre-training"):
        optimizer.param_groups[0]["lr"] = (
            3e-3 * min(1, (step + 1) / 50) * (1 - step / steps)
        )
        rows = torch.randint(0, len(texts), (64,), generator=generator)
        inputs, labels = families.mask_tokens(
            texts[rows], mask_id, len(vocabulary), special, generator
        )
        logits = model(inputs).flatten(0, 1)
        loss = cross_entropy(logits, labels.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


pretrained = pretrain(1000)

# %% [markdown]
# **Predict, run, explain.** Nobody told it of singular and plural. Hide the verb of sentences that it
# has never seen, and look at two words only: the right form and the wrong one. Is the right one the
# more probable in more than 70 % of the sentences?

# %%
my_prediction = None  # True or False

# %%
contrasts = [pair for pair in held_out if pair.mistake == "agreement"]
right = numbered([pair.right for pair in contrasts])
wrong = numbered([pair.wrong for pair in contrasts])
differs = right != wrong
with torch.no_grad():
    logits = pretrained(torch.where(differs, mask_id, right))
of_right = logits.gather(-1, right[..., None])[..., 0]
of_wrong = logits.gather(-1, wrong[..., None])[..., 0]
better = (of_right > of_wrong)[differs].float().mean().item()
compare(my_prediction, better > 0.7)

# %% tags=["nbval-ignore-output"]
print(f"the right form wins in {100 * better:.0f} % of the sentences")
for row in range(3):
    place = differs[row].nonzero()[0, 0]
    best = logits[row, place].topk(3).indices.tolist()
    text = list(vocabulary.decode(right[row].tolist()))
    text[place - 1] = "____"
    print(" ".join(text), "->", ", ".join(vocabulary.words[i] for i in best))


# %% [markdown]
# ## 11.3 Spans that went missing
#
# T5 cuts whole spans out of a text and writes what is missing. A number stands for each gap, on both
# sides.
#
# In scope: nothing but Python.


# %%
# %%exercise 11.3
def corrupt_spans(
    tokens: list[int],
    spans: list[tuple[int, int]],
    sentinels: list[int],
) -> tuple[list[int], list[int]]:
    """Cut spans out of a text, as T5 does: returns inputs and targets.

    A span (start, end) takes the tokens from start to end - 1. Spans come in
    any order; those that overlap or touch are one. In the inputs each of them
    is replaced by a sentinel. The targets hold, span by span, that sentinel and
    the tokens that it stands for, and at the end the next sentinel, which says
    that nothing more is missing.

    Sentinels are used in their order, along the text: the first span gets the
    first one. There is at least one more than there are spans; those that are
    left over are not used. Without spans, the inputs are the tokens and the
    targets the first sentinel alone.
    """
    for start, end in spans:
        if not 0 <= start < end <= len(tokens):
            raise ValueError(
                f"the span ({start}, {end}) takes nothing, or more than the "
                f"{len(tokens)} tokens that there are"
            )
    if len(sentinels) <= len(spans):
        raise ValueError(
            f"{len(spans)} spans need a sentinel each and one at the end, "
            f"which are more than the {len(sentinels)} that there are"
        )
    raise NotImplementedError("Exercise 11.3: Spans that went missing")


# %%
text = ["the", "black", "cat", "sleeps", "on", "the", "warm", "stone"]
ids = list(range(len(text)))
words = dict(enumerate(text)) | {100: "<A>", 101: "<B>", 102: "<C>"}
inputs, targets = families.corrupt_spans(ids, [(1, 3), (5, 6)], [100, 101, 102])
print("reads: ", *(words[i] for i in inputs))
print("writes:", *(words[i] for i in targets))

# %% [markdown]
# **Predict, run, explain.** A text of 100 tokens loses 15 of them in 5 spans. How many tokens does T5
# read, and how many does it write?

# %%
my_prediction = None  # such as (100, 15)

# %%
spans = families.draw_spans(100, torch.Generator().manual_seed(1))
inputs, targets = families.corrupt_spans(
    list(range(100)), spans, list(range(200, 210))
)
compare(my_prediction, (len(inputs), len(targets)))


# %% [markdown]
# ## 11.4 A mask with a prefix
#
# Between reading everything and looking only back: the beginning is read, the rest is written.
#
# In scope: `causal_mask`.


# %%
# %%exercise 11.4
def prefix_mask(
    prefix_lengths: Int[Tensor, "batch"],
    length: int,
) -> Bool[Tensor, "batch 1 query key"]:
    """Let the prefix be read in both directions, and the rest be written.

    Every position may look at the whole prefix of its text, at itself and at
    what came before it. A prefix of 0 leaves the causal mask, one of `length`
    hides nothing. The mask lives on the device of prefix_lengths.
    `causal_mask` is in scope.
    """
    check_shapes(prefix_lengths=(prefix_lengths, "batch"))
    if ((prefix_lengths < 0) | (prefix_lengths > length)).any():
        found = prefix_lengths.tolist()
        raise ValueError(f"a prefix is from 0 to {length}, not {found}")
    raise NotImplementedError("Exercise 11.4: A mask with a prefix")


# %%
everything = torch.ones(8, 8, dtype=torch.bool)
prefix = families.prefix_mask(torch.tensor([6]), 8)
masks = {
    "everything": everything,
    "prefix of 6": prefix,
    "causal": masking.causal_mask(8),
}

# %% tags=["nbval-ignore-output"]
figure, axes = plt.subplots(1, 3, figsize=(6, 2.2))
for place, (name, mask) in zip(axes, masks.items(), strict=True):
    _ = place.imshow(mask.reshape(8, 8), cmap="Blues", vmax=1.5)
    _ = place.set(title=name, xticks=[], yticks=[])

# %% [markdown]
# The same data through the three masks. Texts of eight letters that read the same from both ends: four
# are drawn, four mirror them. One place is hidden, and the model is asked what stood there. Whoever may
# look at its mirror image knows.
#
# **Predict, run, explain.** Each mask has a model of its own, trained on the same texts. At how many of
# the eight places can it know the letter: with no mask, with the prefix of 6, with the causal mask?

# %%
my_prediction = None  # such as (8, 8, 8)


# %%
def mirrored(rows):
    """Draw texts that read the same from both ends."""
    half = torch.randint(1, 9, (rows, 4))
    return torch.cat([half, half.flip(1)], dim=1)


def places_known(mask, steps=300):
    """Train on texts with one gap; count the places where it can be filled."""
    torch.manual_seed(0)
    model = families.MaskedLanguageModel(10, 2, 32, 4, 64, max_length=8)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in progress(range(steps), "training"):
        text = mirrored(64)
        gaps = torch.nn.functional.one_hot(torch.randint(0, 8, (64,)), 8) == 1
        logits = model(torch.where(gaps, 9, text), mask=mask)
        loss = cross_entropy(logits[gaps], text[gaps])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    text, count = mirrored(200), 0
    for place in range(8):
        damaged = text.clone()
        damaged[:, place] = 9
        guess = model(damaged, mask=mask)[:, place].argmax(dim=-1)
        count += ((guess == text[:, place]).float().mean() > 0.6).item()
    return count


compare(my_prediction, tuple(places_known(mask) for mask in masks.values()))


# %% [markdown]
# ## 11.5 A text as one vector
#
# To judge a whole text, one vector is needed. One way is the mean over its words, and only over its
# words.
#
# In scope: nothing but `torch`.


# %%
# %%exercise 11.5
def mean_pool(
    states: Float[Tensor, "batch seq d_model"],
    mask: Bool[Tensor, "batch seq"],
) -> Float[Tensor, "batch d_model"]:
    """Average the states of every text over the places where the mask is True.

    A text without any such place gets zeros, and its states get no gradient.
    All numbers in states are finite, those at padding too.
    """
    check_boolean(mask)
    check_shapes(
        states=(states, "batch seq d_model"),
        mask=(mask, "batch seq"),
    )
    raise NotImplementedError("Exercise 11.5: A text as one vector")


# %%
states = torch.tensor([[[2.0], [4.0], [90.0]]])
mask = torch.tensor([[True, True, False]])
print("mean of 2 and 4:", families.mean_pool(states, mask).item())
print("of nothing:", families.mean_pool(states, mask & False).item())


# %% [markdown]
# ## 11.6 Fine-tuning
#
# One new layer on top of what was learned before, and everything is trained on.
#
# In scope: `mean_pool`.


# %%
# %%exercise 11.6
class Classifier(nn.Module):
    """Put texts into classes: a pre-trained encoder and one new layer.

    `pooling` is "cls", the state of the first token, where the caller puts
    [CLS]; or "mean", the mean over all tokens that are not padding, [CLS]
    included. The encoder is part of the classifier: it is trained on (fine-
    tuned), and not copied. `mean_pool` is in scope.
    """

    def __init__(
        self,
        encoder: MaskedLanguageModel,
        classes: int,
        pooling: str = "cls",
    ) -> None:
        super().__init__()
        if pooling not in ("cls", "mean"):
            raise ValueError(f'pooling is "cls" or "mean", not {pooling!r}')
        self.encoder = encoder
        self.pooling = pooling
        self.output = nn.Linear(encoder.norm.weight.shape[0], classes)

    def forward(
        self,
        tokens: Int[Tensor, "batch seq"],
        segments: Int[Tensor, "batch seq"] | None = None,
    ) -> Float[Tensor, "batch classes"]:
        """Give every text's logits, one for each class."""
        check_shapes(tokens=(tokens, "batch seq"))
        raise NotImplementedError(
            "Exercise 11.6: A classifier on what was learned before",
        )


# %% [markdown]
# Is a sentence right, or was a mistake made in it? Half of them have a wrong verb form or two words
# that changed places. There are labels for 1,000 sentences.
#
# **Predict, run, explain.** Guessing is right in half of the cases. Medians over three starts: is the
# pre-trained model right in more than 80 %? The same model from scratch?

# %%
my_prediction = None  # such as (True, True), the pre-trained one first

# %%
judged = acceptability.judged(known[:500], 1)
texts, verdicts = (
    numbered([words for words, _ in judged]),
    torch.tensor([label for _, label in judged]),
)
unseen = acceptability.judged(held_out[:300])
test = numbered([words for words, _ in unseen])
test_verdicts = torch.tensor([label for _, label in unseen])


def fine_tuned(model, labels, start, steps=200):
    """Train a classifier on so many labels; give its share of right answers."""
    torch.manual_seed(start)
    classifier = families.Classifier(copy.deepcopy(model), 2)
    optimizer = torch.optim.Adam(classifier.parameters(), 1e-3)
    for _ in progress(range(steps), "fine-tuning"):
        rows = torch.randint(0, labels, (32,))
        loss = cross_entropy(classifier(texts[rows]), verdicts[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        guesses = classifier(test).argmax(dim=-1)
    return (guesses == test_verdicts).float().mean().item()


torch.manual_seed(0)
scratch = fresh()
found = {
    (name, labels): statistics.median(
        fine_tuned(model, labels, start) for start in range(3)
    )
    for name, model in (("pre-trained", pretrained), ("scratch", scratch))
    for labels in (10, 1000)
}
compare(
    my_prediction,
    (found["pre-trained", 1000] > 0.8, found["scratch", 1000] > 0.8),
)

# %% tags=["nbval-ignore-output"]
for (name, labels), share in found.items():
    print(f"{name:>11}, {labels:4} labels: {100 * share:.0f} % right")

# %% [markdown]
# With ten labels both are near guessing: what was learned before is no verdict yet, and ten examples
# do not say which of all the things that a model knows is asked for.
#
# ## 11.7 Patches
#
# A Transformer reads vectors. Whatever can be cut into vectors can be read; a picture is cut into
# squares.
#
# In scope: nothing but `torch`.


# %%
# %%exercise 11.7
def patches(
    images: Float[Tensor, "batch channels height width"],
    size: int,
) -> Float[Tensor, "batch seq d_patch"]:
    """Cut pictures into squares of size by size pixels, each a row of numbers.

    The patches come as one reads: the top row from left to right, then the
    next. In a patch come all pixels of the first channel, row by row, then
    those of the second.
    """
    check_shapes(images=(images, "batch channels height width"))
    height, width = images.shape[-2:]
    if size < 1 or height % size or width % size:
        sides = f"{height} by {width}"
        raise ValueError(f"{sides} does not split into squares of {size}")
    raise NotImplementedError("Exercise 11.7: Patches of a picture")


# %%
picture = torch.arange(16.0).reshape(1, 1, 4, 4)
for patch in vision.patches(picture, 2)[0]:
    print(patch.int().tolist())


# %% [markdown]
# ## 11.8 A Transformer that sees
#
# In scope: `patches`.


# %%
# %%exercise 11.8
class VisionTransformer(nn.Module):
    """Put pictures into classes: patches are embedded and read like words.

    `patches` is in scope.
    """

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        channels: int,
        classes: int,
        n_layers: int = 2,
        d_model: int = 64,
        n_heads: int = 4,
        d_ff: int = 128,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        if patch_size < 1 or image_size % patch_size:
            sides = f"{image_size} does not split into parts of {patch_size}"
            raise ValueError(f"pictures do not split into patches: {sides}")
        self.image_shape = (channels, image_size, image_size)
        self.patch_size = patch_size
        n_patches = (image_size // patch_size) ** 2
        self.embedding = nn.Linear(channels * patch_size**2, d_model)
        self.cls = nn.Parameter(torch.zeros(d_model))
        self.position_embedding = nn.Embedding(n_patches + 1, d_model)
        self.encoder = gelu_encoder(
            n_layers,
            d_model,
            n_heads,
            d_ff,
            norm_first,
        )
        self.output = nn.Linear(d_model, classes)
        nn.init.normal_(self.position_embedding.weight, std=0.02)

    def forward(
        self,
        images: Float[Tensor, "batch channels height width"],
    ) -> Float[Tensor, "batch classes"]:
        """Give every picture's logits, one for each class.

        Each patch goes through `embedding`. In front of the patches stands
        `cls`, the same for all pictures. Every one of these vectors, `cls`
        first, gets its position added: number 0 is that of `cls`. The encoder's
        state at `cls` goes through `output`.
        """
        check_shapes(images=(images, "batch channels height width"))
        shape = tuple(images.shape[1:])
        if shape != self.image_shape:
            raise ValueError(f"pictures are {self.image_shape}, not {shape}")
        raise NotImplementedError("Exercise 11.8: A Transformer that sees")


# %% [markdown]
# Real handwriting: 1,797 digits of 8 by 8 pixels. Each becomes 16 patches of 2 by 2.
#
# **Predict, run, explain.** Ten rounds through 1,200 digits. Without positions, the model sees a bag
# of patches. Which of these is right on more than 85 % of the other digits: the model with positions,
# without them, and a linear model on the 64 pixels?

# %%
my_prediction = None  # such as (True, True, True)

# %%
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
names = torch.tensor(digits.target)
torch.manual_seed(0)
order = torch.randperm(len(images))
seen, new = order[:1200], order[1200:]


def seeing(positions, rounds=10):
    """Train a small vision Transformer; give its share of right answers."""
    torch.manual_seed(0)
    model = vision.VisionTransformer(8, 2, 1, 10, 2, 32, 4, 64)
    if not positions:
        model.position_embedding.weight.requires_grad_(False).zero_()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in progress(range(rounds), "training"):
        for rows in seen[torch.randperm(len(seen))].split(64):
            loss = cross_entropy(model(images[rows]), names[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        guesses = model(images[new]).argmax(dim=-1)
    return (guesses == names[new]).float().mean().item()


linear = LogisticRegression(max_iter=1000)
_ = linear.fit(images[seen].flatten(1), names[seen])
by_line = linear.score(images[new].flatten(1), names[new])
shares = (seeing(True), seeing(False), by_line)
compare(my_prediction, tuple(share > 0.85 for share in shares))

# %% tags=["nbval-ignore-output"]
kinds = ("with positions", "without", "linear")
for name, share in zip(kinds, shares, strict=True):
    print(f"{name:>14}: {100 * share:.0f} % right")


# %% [markdown]
# The linear model is in no way worse. A Transformer has to learn what a picture is; with 1,200 of
# them it learns enough to keep up, and no more.
#
# ## The wrong tool
#
# 200 rows of a table, 30 measurements each: is a tumour benign? The Transformer reads every
# measurement as a word.
#
# **Predict, run, explain.** Is it better than a line by more than one percent point, and does the
# line take less than a tenth of the time? Medians over three draws of the rows.

# %%
my_prediction = None  # such as (True, True)

# %%
table = load_breast_cancer()
answers = torch.tensor(table.target)


class TableReader(torch.nn.Module):
    """Reads a row of numbers: every column has a vector and a position."""

    def __init__(self, columns, width=32):
        super().__init__()
        self.columns = torch.nn.Parameter(0.2 * torch.randn(columns, width))
        self.positions = torch.nn.Parameter(
            0.2 * torch.randn(columns + 1, width)
        )
        self.encoder = families.gelu_encoder(2, width, 4, 2 * width)
        self.output = torch.nn.Linear(width, 2)

    def forward(self, rows):
        """Give the logits of the two answers."""
        x = torch.nn.functional.pad(
            rows[..., None] * self.columns, (0, 0, 1, 0)
        )
        return self.output(self.encoder(x + self.positions)[:, 0])


def both(start):
    """Give the shares of right answers and the times of the two models."""
    torch.manual_seed(start)
    order = torch.randperm(len(answers))
    seen, new = order[:200], order[200:]
    numbers = torch.tensor(table.data, dtype=torch.float32)
    numbers = (numbers - numbers[seen].mean(0)) / numbers[seen].std(0)
    began = time.process_time()
    line = LogisticRegression(max_iter=1000)
    _ = line.fit(numbers[seen], answers[seen])
    middle = time.process_time()
    model = TableReader(30)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(150):
        rows = seen[torch.randint(0, 200, (32,))]
        loss = cross_entropy(model(numbers[rows]), answers[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    end = time.process_time()
    with torch.no_grad():
        guesses = model(numbers[new]).argmax(dim=-1)
    share = (guesses == answers[new]).float().mean().item()
    by_line = line.score(numbers[new], answers[new])
    return share - by_line, (end - middle) / (middle - began)


gains, ratios = zip(*(both(start) for start in range(3)), strict=True)
compare(
    my_prediction,
    (statistics.median(gains) > 0.01, statistics.median(ratios) > 10),
)

# %% [markdown]
# Nothing in such a row has an order, nothing depends on who stands where, and there are few rows. What
# attention is good at is not asked for here.
