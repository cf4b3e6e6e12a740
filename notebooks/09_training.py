# %% [markdown]
# # Notebook 9: The recipe
#
# In week 7 a translator learned from a training loop that was simply there. Now you write that loop:
# what is dropped, which sentences share a batch, how fast it learns, what one step does, and how to
# tell whether it has learned anything. Then you train with it. [The chapter](../book/09_training.md)
# has the story; here you build it.

# %%
# %load_ext lab_check

# %%
import copy
import itertools
import math
import random
import statistics
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import nn

from lab_transformer import (
    corpus,
    loss,
    metrics,
    pairs,
    training,
    transformer,
)
from lab_transformer.notebook import compare, progress, rounded

torch.set_num_threads(1)  # small matrices: more threads would mostly wait


# %% [markdown]
# ## 9.1 Dropout
#
# While a model trains, some of its numbers are set to zero, drawn anew at every step. What is kept is
# scaled up, so that the mean stays. The shape stays, too.
#
# In scope in the cells from 9.1 to 9.6: `torch`, `nn` and `Tensor`.


# %%
# %%exercise 9.1
def dropout(
    x: Float[Tensor, "..."],
    p: float,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "..."]:
    """Set each number to zero with probability p; scale up what is kept.

    Every number of x has a draw of its own. What is kept is divided by 1 - p,
    so that the mean stays what it was. With p = 0 the result is x (as it is,
    or a copy), with p = 1 it is all zeros, and so are the gradients. All
    randomness comes from the generator: two in the same state drop the same
    numbers. Which numbers those are is up to you. All numbers in x are finite.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p is a probability from 0 to 1, it is {p}")
    raise NotImplementedError("Exercise 9.1: Dropout")


# %% [markdown]
# **Predict, run, explain.** A hundred thousand ones, and p = 0.2. Which numbers can be in the result?

# %%
my_prediction = None  # such as (0.0, 1.0)

# %%
draw = torch.Generator().manual_seed(0)
dropped = training.dropout(torch.ones(100_000), 0.2, draw)
found = sorted(set(rounded(dropped, 2)))
print("share of zeros:", round((dropped == 0).float().mean().item(), 1))
print("mean:", round(dropped.mean().item(), 1))
compare(my_prediction, found)

# %% [markdown]
# In the library's `Transformer` dropout acts on the output of every sublayer, and on the sums of
# embeddings and positions. It belongs to training: `train()` switches it on, `eval()` off.

# %%
torch.manual_seed(0)
sizes = {"n_layers": 1, "d_model": 32, "n_heads": 4, "d_ff": 64}
model = transformer.Transformer(50, 50, **sizes, dropout=0.1)
words = torch.tensor([[5, 9, 7, 12]])
for name, training_mode in [("training", True), ("in use", False)]:
    model.train(training_mode)
    with torch.no_grad():
        same = torch.allclose(model(words, words), model(words, words))
    print(f"{name:>8}: two passes give the same: {same}")


# %% [markdown]
# ## 9.2 Batches of like length
#
# A batch is a rectangle, so short sentences beside a long one are mostly padding. Sort by length, and
# let each batch hold as many sentences as a budget of tokens allows.


# %%
# %%exercise 9.2
def token_batches(
    lengths: Sequence[int],
    max_tokens: int,
) -> list[list[int]]:
    """Put sentences of like length into batches of at most max_tokens tokens.

    A batch is a list of indices into lengths. Every index is in exactly one
    batch, and no batch is empty. A batch is padded to its longest sentence, so
    it costs that length times the number of its sentences.

    Sentences of like length are together: sorted by length, each batch is a
    stretch of the sentences, and there are as few batches as the budget allows.
    Batches may come in any order, so may the indices within one, and sentences
    of equal length may change places. Without lengths there are no batches.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens is at least 1, not {max_tokens}")
    for index, length in enumerate(lengths):
        if length < 1:
            raise ValueError(f"sentence {index} has the length {length}")
        if length > max_tokens:
            wrong = f"sentence {index} has {length} tokens"
            raise ValueError(f"{wrong}: max_tokens is {max_tokens}")
    raise NotImplementedError("Exercise 9.2: Batches of like length")


# %%
lengths = [3, 9, 4, 3, 8, 2]
for batch in training.token_batches(lengths, max_tokens=18):
    held = sorted(lengths[i] for i in batch)
    print(f"lengths {held}: {len(held)} x {held[-1]} tokens")

# %% [markdown]
# **Predict, run, explain.** Now 20,000 sentence pairs of week 7. In batches of 64, in the order in
# which they come: what share of all tokens is padding?

# %%
my_prediction = None  # a share between 0 and 1


# %%
def cost(pair):
    """Count the tokens of the longer side, with its end token."""
    return max(len(pair.source), len(pair.target) + 1)


def padding(lengths, batches):
    """Give the share of padding in some batches."""
    taken = sum(len(one) * max(lengths[i] for i in one) for one in batches)
    return 1 - sum(lengths) / taken


drawn = corpus.draw_pairs("italian", 20_000)
lengths = [cost(pair) for pair in drawn]
by_number = [range(i, min(i + 64, 20_000)) for i in range(0, 20_000, 64)]
by_tokens = training.token_batches(lengths, 640)
shares = [padding(lengths, one) for one in (by_number, by_tokens)]
print("more than a fifth as they come:", shares[0] > 0.2)
print("less than a hundredth like with like:", shares[1] < 0.01)
compare(my_prediction, round(shares[0], 1))


# %% [markdown]
# ## 9.3 The rate of 2017
#
# It rises in a straight line for `warmup` steps, and then falls with the root of the step.


# %%
# %%exercise 9.3
def noam_rate(step: int, d_model: int, warmup: int) -> float:
    """Give the learning rate of a step; the first step is number 1.

    The smaller one of 1 / sqrt(step) and step / warmup ** 1.5, divided by the
    root of d_model: a line that rises until step is warmup, then a slow fall.
    """
    for name, number in (
        ("step", step),
        ("d_model", d_model),
        ("warmup", warmup),
    ):
        if number < 1:
            raise ValueError(f"{name} is at least 1, not {number}")
    raise NotImplementedError("Exercise 9.3: The learning rate of 2017")


# %% [markdown]
# **Predict, run, explain.** The base model of the paper: width 512, 4,000 steps of warm-up. Compare
# the rate at step 1,000 with its highest, and that at step 16,000. Which shares are they?

# %%
my_prediction = None  # such as (0.5, 0.5)

# %%
highest = training.noam_rate(4_000, 512, 4_000)
print(f"highest rate: {highest:.4f}")
parts = [training.noam_rate(step, 512, 4_000) for step in (1_000, 16_000)]
compare(my_prediction, tuple(round(part / highest, 2) for part in parts))

# %% tags=["nbval-ignore-output"]
steps = range(1, 20_000, 20)
_, axes = plt.subplots()
for warmup in (2_000, 4_000, 8_000):
    curve = [training.noam_rate(step, 512, warmup) for step in steps]
    axes.plot(steps, curve, label=f"warm-up {warmup}")
axes.set(xlabel="step", ylabel="rate")
axes.legend()
plt.show()


# %% [markdown]
# ## 9.4 A step of AdamW
#
# Adam divides a running mean of the gradient by the size that gradients have had lately. Both means
# begin at zero and are corrected for it. Decay shrinks the parameter, apart from all that.


# %%
# %%exercise 9.4
def adamw_step(
    parameter: Float[Tensor, "..."],
    gradient: Float[Tensor, "..."],
    state: tuple[int, Tensor, Tensor] | None,
    rate: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[Float[Tensor, "..."], tuple[int, Tensor, Tensor]]:
    """Make one step of AdamW: returns the new parameter and the new state.

    The state is (step, mean, square): how many steps were made, and the running
    means of the gradient and of its square, not corrected. Before the first
    step it is None, and the means start at zero.

    1. The parameter is multiplied by 1 - rate * weight_decay.
    2. mean becomes betas[0] * mean + (1 - betas[0]) * gradient, and square the
       same of the squared gradient, with betas[1].
    3. Both are corrected for their start at zero: divided by 1 - beta ** step,
       where the first step is number 1.
    4. From the parameter goes rate * mean / (root of square + eps).

    This is what `torch.optim.AdamW` does; write it without that. All results
    are new tensors: nothing that is given is changed. No gradient need flow
    through the step.
    """
    check_shapes(parameter=(parameter, "..."), gradient=(gradient, "..."))
    if parameter.shape != gradient.shape:
        raise ValueError(
            f"the parameter {tuple(parameter.shape)} and its gradient "
            f"{tuple(gradient.shape)} differ in shape"
        )
    if rate < 0 or eps < 0 or weight_decay < 0:
        raise ValueError("rate, eps and weight_decay are not negative")
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"both betas are from 0 to below 1, not {betas}")
    raise NotImplementedError("Exercise 9.4: A step of AdamW")


# %% [markdown]
# **Predict, run, explain.** Two parameters, never moved before. The gradient of one is 0.61, of the
# other 0.00019. The rate is 0.001, without decay. By how much does each move?

# %%
my_prediction = None  # two numbers

# %%
start = torch.tensor([1.0, 1.0], dtype=torch.float64)
gradient = torch.tensor([0.61, 0.00019], dtype=torch.float64)
moved, state = training.adamw_step(
    start, gradient, None, rate=0.001, weight_decay=0.0
)
print("after the first step:", rounded(moved, 4))
compare(my_prediction, rounded(start - moved, 4))

# %% [markdown]
# The first step is as long as the rate, however small the gradient. So it is also a first step on
# trust: its direction comes from one batch. That is what a warm-up is for.
#
# Is it the same as PyTorch's? Fifty steps, side by side:

# %%
draw = torch.Generator().manual_seed(0)
slopes = torch.randn(50, 6, generator=draw, dtype=torch.float64)
theirs = nn.Parameter(torch.ones(6, dtype=torch.float64))
optimizer = torch.optim.AdamW([theirs], lr=0.01, weight_decay=0.1)
ours, state = torch.ones(6, dtype=torch.float64), None
for slope in slopes:
    theirs.grad = slope.clone()
    optimizer.step()
    ours, state = training.adamw_step(
        ours, slope, state, rate=0.01, weight_decay=0.1
    )
print("same as torch.optim.AdamW:", torch.allclose(ours, theirs.detach()))

# %% [markdown]
# **Predict, run, explain.** Decay can also be added to the gradient, as an L2 penalty does. Four
# thousand weights start at 1. Half of them have gradients of size 1, half of size 0.01, pure noise
# around 0. After 400 steps with decay 0.1 *beside* the gradient, both halves have shrunk to about 0.7.
# And with the decay *in* the gradient?

# %%
my_prediction = None  # two numbers: large gradients, small gradients


# %%
def shrink(apart):
    """Let weights decay for 400 steps; give the mean of each half."""
    draw = torch.Generator().manual_seed(0)
    sizes = torch.tensor([1.0, 0.01], dtype=torch.float64)
    weights, state = torch.ones(2_000, 2, dtype=torch.float64), None
    for _ in range(400):
        noise = torch.randn(2_000, 2, generator=draw, dtype=torch.float64)
        slope = noise * sizes
        if not apart:
            slope = slope + 0.1 * weights
        decay = 0.1 if apart else 0.0
        weights, state = training.adamw_step(
            weights, slope, state, rate=0.01, weight_decay=decay
        )
    return [round(mean, 1) + 0.0 for mean in weights.mean(dim=0).tolist()]


beside, inside = shrink(apart=True), shrink(apart=False)
print("beside it:", beside)
compare(my_prediction, inside)


# %% [markdown]
# In the gradient, decay is divided by the gradient's size like everything else. Where gradients are
# small it becomes a force that nothing holds against. So with Adam, weight decay and an L2 penalty are
# two things.
#
# ## 9.5 A step of training
#
# Forget the old gradients, look at a batch, compute the loss, go back, clip, move.
#
# In scope, besides the names above: `shift_right` and `sequence_loss` from week 6, and
# `clip_gradients` from 1.6.


# %%
# %%exercise 9.5
def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    source: Int[Tensor, "batch key"],
    target: Int[Tensor, "batch query"],
    bos_id: int,
    pad_id: int,
    max_norm: float = 1.0,
    smoothing: float = 0.0,
) -> float:
    """Make one update from one batch; returns the loss before it.

    The model is called with the source and the decoder's input: the target
    shifted right behind bos_id. What is minimised and returned, as a plain
    number, is the mean loss of all words of the target (padding is none),
    smoothed. Gradients left from earlier do not count. Those of all parameters
    together are clipped to the norm max_norm, then the optimizer makes its
    step. A parameter that the loss does not reach has no gradient (None): it
    stays as it is.

    The model is in training mode already, and the optimizer has its rate. The
    model is called once. `shift_right`, `sequence_loss` and `clip_gradients`
    are in scope; you may use PyTorch's own clipping instead.
    """
    check_batch(source, target, pad_id)
    if max_norm <= 0:
        raise ValueError(f"max_norm must be positive, it is {max_norm}")
    if not 0.0 <= smoothing <= 1.0:
        raise ValueError(f"smoothing is a share from 0 to 1, it is {smoothing}")
    raise NotImplementedError("Exercise 9.5: A step of training")


# %% [markdown]
# Does it learn? Before you train for long, ask two questions that take seconds.
#
# **The first loss.** A model that knows nothing gives all V words the same probability, and a word
# costs log V.
#
# **Predict, run, explain.** Our fresh model shares one matrix between embeddings and output. Is its
# first loss lower than log V, about that, or clearly higher?

# %%
my_prediction = None  # "lower", "about" or "higher"

# %%
short = corpus.draw_pairs("italian", 31_000)
short = [pair for pair in short if len(pair.source) <= 7]
kept, held_out = corpus.split_pairs(short, 1_000)
both = itertools.chain.from_iterable((p.source, p.target) for p in short)
known = corpus.Vocabulary(both)  # one vocabulary for both languages
PAD, START = known.pad_id, known.bos_id
SIZES = {"n_layers": 1, "d_model": 64, "n_heads": 2, "d_ff": 256}


def fresh(seed, dropout=0.0):
    """Make a model whose embeddings and output are one matrix."""
    torch.manual_seed(seed)
    size = len(known)
    return transformer.Transformer(
        size, size, **SIZES, dropout=dropout, shared=True
    )


def to_batch(chosen):
    """Number the words of some pairs."""
    return corpus.to_batch(chosen, known, known)


def first_loss(model):
    """Give the loss on some sentences before any training."""
    source, target = to_batch(held_out[:200])
    logits = model(source, loss.shift_right(target, START))
    return loss.sequence_loss(logits, target, PAD).item()


plain, small = fresh(0), fresh(0)
nn.init.normal_(small.output.weight, std=0.02)
firsts = [first_loss(model) - math.log(len(known)) for model in (plain, small)]
print("with tiny numbers, within 0.1 of log V:", abs(firsts[1]) < 0.1)
judged = "higher" if firsts[0] > 0.3 else "about"
compare(my_prediction, judged)

# %% [markdown]
# Two reasons. Logits of variance 1 cost about 0.5 even where they mean nothing. And the word just read
# comes along the residual path to the output, where its own row of the matrix waits: its logit is far
# above the others, and the next word is almost never the same one.

# %% tags=["nbval-ignore-output"]
source, target = to_batch(held_out[:200])
inputs = loss.shift_right(target, START)
with torch.no_grad():
    logits = plain(source, inputs)
read = logits.gather(-1, inputs[..., None])[..., 0][target != PAD]
print(f"log V: {math.log(len(known)):.2f}, first loss: {first_loss(plain):.2f}")
print(f"variance of the logits: {logits.var(dim=-1).mean():.2f}")
print(f"mean logit of the word just read: {read.mean():.2f}")
assert read.mean() > 3

# %% [markdown]
# **One batch by heart.** A loop that is right can learn sixteen sentences by heart. If yours cannot,
# no amount of data will help.

# %%
source, target = to_batch(kept[:16])
model = fresh(0).train()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
heart = [
    training.train_step(model, optimizer, source, target, START, PAD)
    for _ in range(100)
]


def translate(model, chosen):
    """Write greedily, all sentences at once."""
    source, _ = to_batch(chosen)
    with torch.no_grad():
        memory, mask = model.encode(source)
        written = torch.full((len(chosen), 1), START)
        for _ in range(2 + max(len(pair.target) for pair in chosen)):
            logits, _ = model.decode(written, memory, mask)
            best = logits[:, -1:].argmax(dim=-1)
            written = torch.cat([written, best], dim=1)
    return [known.decode(row) for row in written.tolist()]


def exact(model, chosen):
    """Give the share of sentences without a mistake."""
    both = zip(translate(model, chosen), chosen, strict=True)
    return statistics.fmean(said == pair.target for said, pair in both)


print("last loss below 0.1:", heart[-1] < 0.1)
print("learned by heart:", f"{exact(model.eval(), kept[:16]):.0%}")
print("of new sentences at most a few:", exact(model, held_out[:200]) < 0.2)


# %% [markdown]
# ## 9.6 The loss on held-out sentences
#
# The loss of a batch that is being learned says little. The one to watch is that of sentences which
# the model never trains on, without dropout, every word counted alike.
#
# In scope: as in 9.5.


# %%
# %%exercise 9.6
def evaluate(
    model: nn.Module,
    batches: Sequence[tuple[Tensor, Tensor]],
    bos_id: int,
    pad_id: int,
) -> float:
    """Give the mean loss of all words of all batches, as a plain number.

    A batch is a pair (source, target); the model is called with the source and
    the target shifted right, as in training. Every word counts the same, in
    whichever batch it stands; padding is no word. There is no smoothing.

    Dropout is off while the model is called, and no gradients are recorded.
    Afterwards the model is in the mode, training or not, in which it came; its
    parameters and their gradients are what they were. `shift_right` and
    `sequence_loss` are in scope.
    """
    for source, target in batches:
        check_shapes(
            source=(source, "batch key"),
            target=(target, "batch query"),
        )
    if not any((target != pad_id).any() for _, target in batches):
        raise ValueError("there is no word to evaluate on: all is padding")
    raise NotImplementedError("Exercise 9.6: The loss on held-out sentences")


# %% [markdown]
# **Predict, run, explain.** A model gives every word the same three chances: word 3 gets 1/2, word 4
# gets 1/4, word 5 gets 1/8. One batch has nine words, all of them 3, so each costs 0.69. Another has a
# single word, a 5, which costs 2.08. What is the loss per word?

# %%
my_prediction = None  # a number


# %%
class Stubborn(nn.Module):
    """Says the same whatever it reads."""

    def forward(self, source, target):
        chances = torch.tensor([1 / 16, 1 / 32, 1 / 32, 1 / 2, 1 / 4, 1 / 8])
        return chances.log().expand(*target.shape, 6)


many, one = torch.full((3, 3), 3), torch.tensor([[5, 0, 0]])
batches = [(many, many), (one, one)]
together = training.evaluate(Stubborn(), batches, START, PAD)
each = [training.evaluate(Stubborn(), [part], START, PAD) for part in batches]
print("of each batch:", [round(value, 2) for value in each])
print("mean of the two means:", round(statistics.fmean(each), 2))
compare(my_prediction, round(together, 2))

# %% [markdown]
# ## A translator learns
#
# All of it together: batches of like length, dropout, label smoothing, the rate, AdamW, clipping. The
# model is that of week 7, with one matrix in three places.

# %%
WARMUP, STEPS, EARLY = 240, 480, 180


def stream(seed):
    """Give batches of like length, epoch after epoch."""
    rng = random.Random(seed)
    while True:
        mixed = rng.sample(kept, len(kept))
        groups = training.token_batches([cost(p) for p in mixed], 512)
        rng.shuffle(groups)
        for group in groups:
            yield to_batch([mixed[i] for i in group])


def learn(seed):
    """Train by the recipe; give the model, and an earlier copy."""
    model = fresh(seed, dropout=0.1).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0
    )
    batches = itertools.islice(stream(seed), STEPS)
    for step, (source, target) in enumerate(progress(batches), start=1):
        rate = training.noam_rate(step, SIZES["d_model"], WARMUP)
        optimizer.param_groups[0]["lr"] = rate
        training.train_step(
            model, optimizer, source, target, START, PAD, smoothing=0.1
        )
        if step == EARLY:
            early = copy.deepcopy(model).eval()
        if step % 80 == 0:
            parts = [to_batch(held_out[i : i + 100]) for i in (0, 100)]
            value = training.evaluate(model, parts, START, PAD)
            print(f"step {step}: held-out loss {value:.3f}")
    return model.eval(), early


# %% tags=["nbval-ignore-output"]
model, early = learn(seed=0)

# %% [markdown]
# **Predict, run, explain.** Trained on sentences of at most seven words. What share of new sentences
# of that length does it translate without a mistake? And of sentences of nine words and more?

# %%
my_prediction = None  # two shares

# %% tags=["nbval-ignore-output"]
longer = [p for p in corpus.draw_pairs("italian", 20_000) if len(p.source) > 8]
tests = {"new": held_out[:300], "longer": longer[:300]}
right = {name: exact(model, chosen) for name, chosen in tests.items()}
print({name: f"{share:.0%}" for name, share in right.items()})
compare(my_prediction, tuple(right.values()))
for pair, said in zip(longer[:3], translate(model, longer[:3]), strict=True):
    print(corpus.to_text(pair.source))
    print("   wanted:", corpus.to_text(pair.target))
    print("   said:  ", corpus.to_text(said))

# %%
print("new sentences: more than 9 of 10 right:", right["new"] > 0.9)
print("longer ones: less than half right:", right["longer"] < 0.5)


# %% [markdown]
# It has learned the words and the grammar, but not what to do at positions where it has never been.
#
# ### The true word all the same
#
# Here is the same model as it was well before the end of its training. Behind a teacher it reads the
# true words, whatever it would have said; alone it reads its own.
#
# **Predict, run, explain.** Over many sentences: when does it get more words wrong, behind the teacher
# or alone?

# %%
my_prediction = None  # "behind the teacher" or "alone"

# %% tags=["nbval-ignore-output"]
chosen = held_out[:400]
source, target = to_batch(chosen)
with torch.no_grad():
    best = early(source, loss.shift_right(target, START)).argmax(dim=-1)
alone = translate(early, chosen)
wrong = {"behind the teacher": 0, "alone": 0}
shown, most = None, 0
for pair, row, own in zip(chosen, best.tolist(), alone, strict=True):
    gold = [*pair.target, "<end>"]
    said = [known.words[token] for token in row[: len(gold)]]
    own = [*own, "<end>"]
    slips = sum(a != b for a, b in zip(said, gold, strict=True))
    off = sum(a != b for a, b in itertools.zip_longest(own, gold))
    wrong["behind the teacher"] += slips
    wrong["alone"] += off
    if slips == 1 and off > most:
        shown, most = (pair, gold, said, own), off
if shown:
    pair, gold, said, own = shown
    print(corpus.to_text(pair.source))
    for i, word in enumerate(said):
        read = ["<start>", *gold][i]
        mark = " " if word == gold[i] else "<- wrong"
        print(f"  reads {read:>14}, says {word:>14} {mark}")
    print("alone:", corpus.to_text(own[:9]))

# %%
compare(my_prediction, max(wrong, key=wrong.get))


# %% [markdown]
# After the wrong word the next line reads the true one: the mistake costs, and goes nowhere. Alone,
# the model has to go on from what it said. That is all there is to "parallel in training,
# autoregressive in use".
#
# ## 9.7 BLEU
#
# One wrong ending and a sentence counts as wrong. BLEU gives part of the credit: it counts runs of one
# to four words that are also in a reference.
#
# In scope: `math` and `Counter`.


# %%
# %%exercise 9.7
def bleu(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    max_n: int = 4,
) -> float:
    """Compare translations with their references: BLEU, from 0 to 100.

    Sentences are lists of words; hypotheses[i] has the one reference
    references[i]. For every n from 1 to max_n, the precision is the number of
    n-grams in the hypotheses that match, divided by the number of all n-grams
    in them. An n-gram of a hypothesis matches as often as its own reference has
    it, and no more (clipping). Both numbers are added up over the whole corpus
    before they are divided.

    BLEU is 100 times the geometric mean of the precisions, times the brevity
    penalty exp(1 - r / c) where c, the words of all hypotheses, are fewer than
    r, the words of all references. Nothing is smoothed: where a precision is 0,
    or there is no n-gram of some order at all, BLEU is 0. This is what
    sacrebleu gives for the same words, without smoothing.
    """
    check_corpus(hypotheses, references)
    if max_n < 1:
        raise ValueError(f"max_n is at least 1, not {max_n}")
    raise NotImplementedError("Exercise 9.7: BLEU")


# %%
reference = "the cat sits on the red mat"
gold = reference.split()
tries = [
    "the cat sits on the red box",
    "the the the the the the the",
    "mat the on sits red cat the",
    "the cat sits on",
    "on the red mat sits the cat",
]
for text in tries:
    one = metrics.bleu([text.split()], [gold], max_n=1)
    print(f"{text}: {metrics.bleu([text.split()], [gold]):.1f}, ", end="")
    print(f"with single words only {one:.1f}")

# %% [markdown]
# **Predict, run, explain.** Two translations. The first is perfect: 100. The second shares four words
# and two pairs of words with its reference, but no run of three: 0. What is the BLEU of both together?

# %%
my_prediction = None  # a number from 0 to 100

# %%
texts = [reference, "a dog runs to the old house"]
said = [text.split() for text in texts]
texts = [reference, "a dog barks at the old horse"]
wanted = [text.split() for text in texts]
both = zip(said, wanted, strict=True)
alone = [metrics.bleu([one], [other]) for one, other in both]
print("each:", [round(score) for score in alone])
print("mean of both:", round(statistics.fmean(alone)))
compare(my_prediction, round(metrics.bleu(said, wanted)))

# %% [markdown]
# Counts are added up before anything is divided, so the second sentence brings in what it has, and
# BLEU is not a mean of BLEUs. Now your translator:

# %%
scores = {}
for name, chosen in tests.items():
    gold = [pair.target for pair in chosen]
    scores[name] = metrics.bleu(translate(model, chosen), gold)
print("new sentences: BLEU above 95:", scores["new"] > 95)
print("longer ones: lower:", scores["longer"] < scores["new"] - 5)

# %% [markdown]
# And what BLEU cannot see. Three changes to right translations: one is just as right, one says
# something else, one says the opposite.

# %%
negated = [list(p.target) for p in drawn if "non" in p.target][:300]
timed = [list(p.target) for p in drawn if p.target[0] == "ogni"][:300]
nouns = [list(p.target) for p in drawn if p.target[-1] == "gatto"][:300]
changes = {
    "the time said last": ([[*w[2:], *w[:2]] for w in timed], timed),
    "a dog for a cat": ([[*w[:-1], "cane"] for w in nouns], nouns),
    "without the not": (
        [[x for x in w if x != "non"] for w in negated],
        negated,
    ),
}
for name, (said, gold) in changes.items():
    print(f"{name}: {metrics.bleu(said, gold) / 10:.0f} of 10")

# %% [markdown]
# ## Real text
#
# Every translated program carries sentence pairs: its messages, in *catalogues* that end in `.po` or
# `.mo`. Here is a small one, and what the library's reader makes of it. Marks for keys go, places to
# fill in are numbered, and what cannot be used is left out with a reason.

# %%
CATALOGUE = r"""
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\n"

msgid "_Open the file"
msgstr "_Apri il file"

msgid "%d page was printed"
msgid_plural "%d pages were printed"
msgstr[0] "%d pagina è stata stampata"
msgstr[1] "%d pagine sono state stampate"

#, fuzzy
msgid "Save all"
msgstr "Salva la pagina"

msgid "Paste"
msgstr ""
"""
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "it.po"
    path.write_text(CATALOGUE, encoding="utf-8")
    loaded = pairs.load_pairs(path)
for pair in loaded.pairs:
    english, italian = map(corpus.to_text, (pair.source, pair.target))
    print(f"{english} - {italian}")
print("left out:", *loaded.left_out, sep="\n  ")

# %% [markdown]
# A folder of catalogues works, too, and so does a table of your own: a pair a line, with a tab
# between. With pairs enough (some ten thousand) put them in the place of `kept` above, give the rare
# words the number of the unknown one, and train for some minutes.
#
# ## What you have seen
#
# A model learns by a recipe, and each part of it can be looked at alone: what dropout keeps is scaled
# up, pads cost nothing where sentences are alike, the first step of Adam is as long as the rate, and
# decay is no penalty. A first loss tells whether the numbers are in order, a batch learned by heart
# whether the loop moves anything, and only held-out sentences whether the model has learned. Longer
# ones show what it has not. BLEU counts runs of words, over a whole text, and knows nothing of
# meaning.
