# %% [markdown]
# # Notebook 12: What changed since 2017
#
# Years of work on the Transformer, and it is still the Transformer. What changed are parts, one
# at a time: another norm, another feed-forward layer, other positions, fewer keys and values,
# attention in tiles, many feed-forward layers of which few are asked. You build each one, see what it
# saves and what it costs, and put them together to the block of today's models. The
# [chapter](../book/12_variants.md) tells the story.

# %%
# %load_ext lab_check

# %%
import statistics

import matplotlib.pyplot as plt
import torch

from lab_transformer import attention, decoder, variants
from lab_transformer.notebook import compare, peak_memory, progress, rounded

torch.set_num_threads(1)


# %% [markdown]
# ## 12.1 RMS norm
#
# Layer norm subtracts a word's mean and divides by its spread. RMS norm only divides: by the root of
# the mean square of the word's own features. No mean, no bias.
#
# In scope in all cells of this week: `torch`, `math`, `nn`, `Tensor`, and `F`, which is
# `torch.nn.functional`.


# %%
# %%exercise 12.1
def rms_norm(
    x: Float[Tensor, "... d_model"],
    gain: Float[Tensor, "d_model"],
    eps: float = 1e-5,
) -> Float[Tensor, "... d_model"]:
    """Divide every word by the root of its mean square, then scale it.

    No mean is subtracted and no bias is added. The mean is over the word's own
    features; eps is added to it, inside the root.
    """
    check_shapes(x=(x, "... d_model"), gain=(gain, "d_model"))
    raise NotImplementedError("Exercise 12.1: RMS norm")


# %% [markdown]
# **Predict, run, explain.** The word is (3, 4). What is left of it after RMS norm? The mean square is
# 12.5, and its root 3.54.

# %%
my_prediction = None  # such as [1.0, 1.0]

# %%
word = torch.tensor([3.0, 4.0])
normed = variants.rms_norm(word, torch.ones(2))
compare(my_prediction, rounded(normed, 2))

# %% [markdown]
# Which changes of a word does each norm overlook?

# %%
torch.manual_seed(0)
words = torch.randn(4, 16)
gain = torch.ones(16)


def layer(x):
    """Normalise as weeks 5 to 10 did."""
    return torch.nn.functional.layer_norm(x, (16,))


def rms(x):
    """Normalise as this week does."""
    return variants.rms_norm(x, gain)


for name, norm in (("layer norm", layer), ("RMS norm", rms)):
    doubled = torch.allclose(norm(2 * words), norm(words), atol=1e-3)
    shifted = torch.allclose(norm(words + 5), norm(words), atol=1e-3)
    print(f"{name:>10}: doubled words look the same: {doubled}, ", end="")
    print(f"shifted ones: {shifted}")


# %% [markdown]
# Both forget how long a word's vector is. Only layer norm also forgets what all of its features have in
# common. Leaving that step out costs no quality that anybody has found, and it is one pass over the
# numbers less.
#
# ## 12.2 A gate in the feed-forward layer
#
# The layer of 2017 widens, cuts off what is negative, and narrows. SwiGLU widens twice: one copy,
# through SiLU, says how much of the other one passes.


# %%
# %%exercise 12.2
def swiglu(
    x: Float[Tensor, "... d_model"],
    w_gate: Float[Tensor, "d_model d_ff"],
    w_up: Float[Tensor, "d_model d_ff"],
    w_down: Float[Tensor, "d_ff d_model"],
) -> Float[Tensor, "... d_model"]:
    """Widen a word twice, let one copy gate the other, and narrow again.

    The gate is the copy by w_gate, through SiLU: silu(z) = z * sigmoid(z). It
    multiplies the copy by w_up, feature by feature; w_down narrows the product.
    There are no biases. `F` is torch.nn.functional.
    """
    check_shapes(
        x=(x, "... d_model"),
        w_gate=(w_gate, "d_model d_ff"),
        w_up=(w_up, "d_model d_ff"),
        w_down=(w_down, "d_ff d_model"),
    )
    raise NotImplementedError(
        "Exercise 12.2: SwiGLU: a feed-forward layer with a gate",
    )


# %% [markdown]
# One word of one feature, all matrices 1: what remains is silu(x) times x. Beside it, ReLU.

# %% tags=["nbval-ignore-output"]
one = torch.ones(1, 1)
xs = torch.linspace(-4, 4, 81)[:, None]
gated = variants.swiglu(xs, one, one, one)
figure, axes = plt.subplots(figsize=(5, 2.6))
_ = axes.plot(xs, xs.relu(), label="ReLU")
_ = axes.plot(xs, torch.nn.functional.silu(xs), label="SiLU")
_ = axes.plot(xs, gated, label="SwiGLU, all matrices 1")
_ = axes.set(xlabel="x", ylim=(-1, 6))
_ = axes.legend()

# %% [markdown]
# Three matrices weigh more than two. To compare fairly, SwiGLU gets fewer features.
#
# **Predict, run, explain.** At width 512, ReLU has 2048 hidden features. How many may SwiGLU have, for
# the same number of parameters?

# %%
my_prediction = None  # such as 1024

# %%
relu_parameters = 2 * 512 * 2048
compare(my_prediction, round(relu_parameters / (3 * 512)))


# %% [markdown]
# Two thirds. That is why LLaMA's hidden layers have such odd sizes: two thirds of four times the width,
# rounded up to what the hardware likes.
#
# ## 12.3 ALiBi
#
# No positions are added to the words. Instead, every head takes off points for distance: a straight
# line, steep in the first head and nearly flat in the last.
#
# In scope: nothing but `torch`.


# %%
# %%exercise 12.3
def alibi_bias(
    n_heads: int,
    query: int,
    key: int,
) -> Float[Tensor, "heads query key"]:
    """Compute what ALiBi adds to the scores: minus slope times distance.

    The keys have the positions 0 to key - 1, and the queries are the last of
    them: the last query stands where the last key stands. The distance counts
    in both directions, so no entry is above zero.

    Where the number of heads n is a power of two, the slopes are
    2 ** (-8 * i / n) for i = 1 to n, in this order. Where it is not, take the
    slopes for the next smaller power of two, and after them the first, third,
    fifth ... slope for twice that power, until there are n. The result has the
    default dtype.
    """
    if n_heads < 1:
        raise ValueError(f"n_heads is at least 1, not {n_heads}")
    _check_window(query, key)
    raise NotImplementedError(
        "Exercise 12.3: ALiBi: a bias that grows with the distance",
    )


# %%
bias = variants.alibi_bias(8, 1, 5)[:, 0]
print("slopes:", rounded(-bias[:, 3], 4))
print("first head, five keys:", rounded(bias[0] + 0.0, 2))

# %% [markdown]
# If all words matched equally well, where would each head look? Here is how far back the nearest keys
# are that together get half of its weight, of 200 keys.

# %%
weights = variants.alibi_bias(8, 1, 200)[:, 0].softmax(dim=-1)
from_the_end = weights.flip(-1).cumsum(dim=-1)
reach = (from_the_end < 0.5).sum(dim=-1) + 1
print("half of the weight within:", reach.tolist(), "words")


# %% [markdown]
# Heads that see near and heads that see far, without a parameter. A longer text needs no new positions:
# the line just goes on.
#
# ## 12.4 Fewer keys and values
#
# When a model writes, the cache of week 8 holds keys and values of all earlier words, in every layer,
# for every head. Let several query heads share one pair.
#
# In scope: `scaled_dot_product_attention` from 3.2.


# %%
# %%exercise 12.4
def grouped_query_attention(
    q: Float[Tensor, "... heads query d_head"],
    k: Float[Tensor, "... kv_heads key d_head"],
    v: Float[Tensor, "... kv_heads key d_value"],
    mask: Bool[Tensor, "... heads query key"] | None = None,
) -> tuple[
    Float[Tensor, "... heads query d_value"],
    Float[Tensor, "... heads query key"],
]:
    """Attend with fewer key-value heads than query heads.

    Consecutive query heads share a key-value head: with 6 heads and 2
    key-value heads, the heads 0, 1, 2 use the first and 3, 4, 5 the second.
    One key-value head for all (multi-query) and one for each are the two ends.

    Returns the output and the weights of every query head. The mask is True
    where a query may attend to a key, and broadcasts to (..., heads, query,
    key). A query that may attend to nothing gets zeros.
    `scaled_dot_product_attention` is in scope.
    """
    check_shapes(
        q=(q, "... heads query d_head"),
        k=(k, "... kv_heads key d_head"),
        v=(v, "... kv_heads key d_value"),
    )
    heads, kv_heads = q.shape[-3], k.shape[-3]
    _check_groups(heads, kv_heads)
    check_mask(mask, torch.Size([*q.shape[:-1], k.shape[-2]]))
    raise NotImplementedError("Exercise 12.4: Grouped-query attention")


# %% [markdown]
# **Predict, run, explain.** A model of 32 layers, 32 heads of 128 features, 8,192 words of context, two
# bytes a number. How many gigabytes (2 to the power of 30 bytes) does the cache of one text take, if
# every head has keys and values of its own?

# %%
my_prediction = None  # such as 1.0


# %%
def cache_bytes(layers, kv_heads, d_head, words, bytes_each=2):
    """Weigh keys and values of all layers."""
    return 2 * layers * kv_heads * d_head * words * bytes_each


for kv_heads in (32, 8, 1):
    gigabytes = cache_bytes(32, kv_heads, 128, 8192) / 2**30
    print(f"{kv_heads:2} key-value heads: {gigabytes:.3f} GB")
compare(my_prediction, cache_bytes(32, 32, 128, 8192) / 2**30)

# %% [markdown]
# Sharing is not an approximation of something: it is another model. But one that is a special case:
# with equal keys and values in each group, ordinary attention is the same.

# %%
torch.manual_seed(1)
q = torch.randn(1, 6, 5, 8)
k, v = torch.randn(2, 1, 2, 7, 8)
shared, _ = variants.grouped_query_attention(q, k, v)
copied_k = k[:, [0, 0, 0, 1, 1, 1]]
copied_v = v[:, [0, 0, 0, 1, 1, 1]]
full, _ = attention.scaled_dot_product_attention(q, copied_k, copied_v)
print("the same as with copies:", torch.allclose(shared, full, atol=1e-5))


# %% [markdown]
# ## 12.5 A sliding window
#
# Let a word see only itself and the few before it. Work and cache then stop growing with the text.


# %%
# %%exercise 12.5
def sliding_window_mask(
    query: int,
    key: int,
    window: int,
) -> Bool[Tensor, "query key"]:
    """Allow every query to see itself and the window - 1 keys before it.

    The keys have the positions 0 to key - 1, and the queries are the last of
    them: the last query stands where the last key stands. Nobody sees what
    comes later. A window may be longer than the text.
    """
    _check_window(query, key)
    if window < 1:
        raise ValueError(f"window is at least 1, the word itself, not {window}")
    raise NotImplementedError("Exercise 12.5: A sliding window")


# %%
mask = variants.sliding_window_mask(6, 6, 3)
for row in mask.tolist():
    print(" ".join("#" if seen else "." for seen in row))

# %% [markdown]
# But then the words before the window are lost? Not in a stack: what a word has read, the next layer
# can read from it.
#
# **Predict, run, explain.** Three layers, a window of 4. How many words back does the last output
# still depend on? (You build the layer in 12.10; for this question attention alone will do.)

# %%
my_prediction = None  # such as 3

# %%
torch.manual_seed(2)
text = (0.1 * torch.randn(1, 20, 8)).requires_grad_()
window = variants.sliding_window_mask(20, 20, 4)
x = text
for _ in range(3):
    x = x + attention.scaled_dot_product_attention(x, x, x, window)[0]
(gradient,) = torch.autograd.grad(x[0, -1].sum(), text)
reached = (gradient[0].norm(dim=-1) > 0).nonzero()[0].item()
compare(my_prediction, 19 - reached)


# %% [markdown]
# Layers times (window minus one). How well a fact survives the relay is another question: at each stop,
# it has to be worth passing on.
#
# ## 12.6 Attention in tiles
#
# The table of scores has a row for each query and a column for each key. A softmax seems to need
# whole rows, for their sum. It does not: keep the highest score so far, the sum so far and the output
# so far, and put them right when a higher score comes. This is the idea of flash attention. The
# result is exact.


# %%
# %%exercise 12.6
@recompute_tiles
def tiled_attention(
    q: Float[Tensor, "... query d_head"],
    k: Float[Tensor, "... key d_head"],
    v: Float[Tensor, "... key d_value"],
    tile: int,
    mask: Bool[Tensor, "... query key"] | None = None,
) -> Float[Tensor, "... query d_value"]:
    """Give the output of scaled dot-product attention, `tile` keys at a time.

    No whole row of scores exists at any time: go through the keys in tiles and
    keep of every query the highest score so far, the sum of its exponentiated
    scores, and the weighted sum of the values. When a higher score comes, sum
    and output are scaled down to it. The last tile may be shorter, and a tile
    longer than all keys is one tile.

    The leading axes of q, k and v are the same. The mask is True where a query
    may attend to a key, and may broadcast. A query that may attend to nothing
    gets zeros. A tile that no query may see is skipped: whatever its keys and
    values hold, NaN too, makes no difference.

    Gradients are taken care of: `recompute_tiles` runs this function without a
    record and computes each tile anew on the way back. Without it, autograd
    would keep all tiles.
    """
    check_shapes(
        q=(q, "... query d_head"),
        k=(k, "... key d_head"),
        v=(v, "... key d_value"),
    )
    check_mask(mask, torch.Size([*q.shape[:-1], k.shape[-2]]))
    if q.shape[:-2] != k.shape[:-2] or q.shape[:-2] != v.shape[:-2]:
        raise ValueError("the leading axes of q, k and v are not the same")
    if tile < 1:
        raise ValueError(f"a tile holds at least one key, not {tile}")
    if mask is not None:  # so that it, too, can be cut into tiles
        mask = mask.expand(*mask.shape[:-1], k.shape[-2])
    raise NotImplementedError("Exercise 12.6: Attention in tiles")


# %%
torch.manual_seed(3)
q, k, v = torch.randn(3, 2, 4, 50, 16)
whole, _ = attention.scaled_dot_product_attention(q, k, v)
for tile in (1, 7, 50, 64):
    tiled = variants.tiled_attention(q, k, v, tile)
    print(
        f"tiles of {tile:2}: the same:", torch.allclose(tiled, whole, atol=1e-5)
    )

# %% [markdown]
# **Predict, run, explain.** The text becomes twice as long. By how much does the memory grow, with
# whole rows and with tiles of 64 keys? Forwards and backwards, counted in tensors that are alive at
# once.

# %%
my_prediction = None  # such as (2, 2)


# %%
def memory_of(attend, length):
    """Count the bytes that one pass, forwards and backwards, has alive."""
    q, k, v = torch.randn(3, 1, 2, length, 32).requires_grad_()

    def run():
        attend(q, k, v).sum().backward()

    return peak_memory(run)


def in_rows(q, k, v):
    """Attend as in week 3."""
    return attention.scaled_dot_product_attention(q, k, v)[0]


def in_tiles(q, k, v):
    """Attend 64 keys at a time."""
    return variants.tiled_attention(q, k, v, 64)


lengths = [256, 512, 1024, 2048]
rows = [memory_of(in_rows, length) for length in lengths]
tiles = [memory_of(in_tiles, length) for length in lengths]
compare(
    my_prediction, (round(rows[-1] / rows[-2]), round(tiles[-1] / tiles[-2]))
)
print(f"at {lengths[-1]} words, rows take more than 10 times as much:", end=" ")
print(rows[-1] > 10 * tiles[-1])

# %% tags=["nbval-ignore-output"]
figure, axes = plt.subplots(figsize=(5, 2.8))
_ = axes.loglog(
    lengths, [n / 2**20 for n in rows], marker="o", label="whole rows"
)
_ = axes.loglog(
    lengths, [n / 2**20 for n in tiles], marker="o", label="tiles of 64"
)
_ = axes.set(xlabel="words", ylabel="megabytes")
_ = axes.legend()


# %% [markdown]
# The arithmetic did not become less: every query still meets every key, and on the way back once more.
# On graphics cards tiles are faster all the same, because a tile fits into the small memory that is
# close to where the arithmetic is done.
#
# ## 12.7 Routing
#
# A wider feed-forward layer knows more and costs more. Cut it into experts, and ask only a few of them
# for each word. A small matrix, the router, gives every expert a logit.


# %%
# %%exercise 12.7
def route(
    logits: Float[Tensor, "... n_experts"],
    k: int,
) -> tuple[Float[Tensor, "... k"], Int[Tensor, "... k"]]:
    """Send every token to the k experts with the largest logits.

    Returns the weights of the chosen experts and their numbers, best first. The
    weights are the softmax over the k chosen logits: they sum to one. Of
    experts with equal logits any may be chosen.
    """
    check_shapes(logits=(logits, "... n_experts"))
    if not 1 <= k <= logits.shape[-1]:
        raise ValueError(f"k is from 1 to {logits.shape[-1]} experts, not {k}")
    raise NotImplementedError(
        "Exercise 12.7: Routing: which experts a token goes to",
    )


# %%
logits = torch.tensor([[2.0, 0.0, 1.0, -1.0]])
weights, experts = variants.route(logits, 2)
print("experts", experts[0].tolist(), "with weights", rounded(weights[0], 2))


# %% [markdown]
# ## 12.8 Keeping the experts busy
#
# An expert that is asked more often learns more and is asked more often. The loss below has its least
# value, 1, when all are used alike.
#
# In scope: `F`, for `F.one_hot`.


# %%
# %%exercise 12.8
def balance_loss(
    probabilities: Float[Tensor, "... n_experts"],
    experts: Int[Tensor, "... k"],
) -> Float[Tensor, ""]:
    """Measure how unevenly the experts are used: 1.0 when all are used alike.

    `probabilities` are each token's over all experts, `experts` the numbers of
    those it was sent to. The loss is the sum over the experts of the share of
    all choices that fell on the expert times its mean probability over all
    tokens, times the number of experts. The shares are counts: gradients reach
    the probabilities only. `F` is torch.nn.functional.
    """
    check_shapes(
        probabilities=(probabilities, "... n_experts"),
        experts=(experts, "... k"),
    )
    if probabilities.shape[:-1] != experts.shape[:-1]:
        raise ValueError(
            "probabilities and experts are not of the same tokens: "
            f"{tuple(probabilities.shape)} and {tuple(experts.shape)}"
        )
    raise NotImplementedError(
        "Exercise 12.8: A loss that keeps the experts busy",
    )


# %%
even = torch.full((4, 4), 0.25)
fair = variants.balance_loss(even, torch.tensor([[0], [1], [2], [3]]))
sure = torch.tensor([[0.97, 0.01, 0.01, 0.01]]).expand(4, 4)
unfair = variants.balance_loss(sure, torch.zeros(4, 1, dtype=torch.long))
print(f"all alike: {fair:.2f}, all words to one of four: {unfair:.2f}")


# %% [markdown]
# ## 12.9 A mixture of experts
#
# In scope: `route` and `balance_loss`.


# %%
# %%exercise 12.9
class MixtureOfExperts(nn.Module):
    """Many feed-forward layers, of which every token runs through k.

    `route` and `balance_loss` are in scope.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        n_experts: int,
        k: int,
    ) -> None:
        super().__init__()
        if not 1 <= k <= n_experts:
            raise ValueError(f"k is between 1 and {n_experts}, not {k}")
        self.k = k
        self.router = nn.Linear(d_model, n_experts, bias=False)
        self.experts = nn.ModuleList()
        for _ in range(n_experts):
            self.experts.append(SwiGLU(d_model, d_ff))

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
    ) -> tuple[Float[Tensor, "batch seq d_model"], Float[Tensor, ""]]:
        """Return each token's weighted sum of experts, and the balance loss.

        The router's output are the logits; `balance_loss` gets their softmax
        over all experts. An expert runs on the tokens that chose it and on no
        others: what it would make of the others, NaN too, makes no difference.
        One that nobody chose may run on no token, or not at all.
        """
        check_shapes(
            x=(x, "batch seq d_model"),
            router=(self.router.weight, "n_experts d_model"),
        )
        raise NotImplementedError("Exercise 12.9: A mixture of experts")


# %% [markdown]
# Eight kinds of words, each to be changed by a matrix of its own; eight experts, two for each word. We
# train from three starts, without and with the balance loss, and look at the expert that gets most.
#
# **Predict, run, explain.** A fair share is one in eight, 12.5 %. Does the busiest expert get more than
# 16 % without the balance loss? With it?

# %%
my_prediction = None  # such as (True, True)


# %%
def shares(start, weight):
    """Train a mixture; give the share of the choices of each expert."""
    torch.manual_seed(start)
    mixture = variants.MixtureOfExperts(16, 32, 8, 2)
    matrices = torch.randn(8, 16, 16) / 4
    centres = torch.randn(8, 16)
    optimizer = torch.optim.Adam(mixture.parameters(), 3e-3)
    for _ in progress(range(150), "training"):
        kinds = torch.randint(0, 8, (4, 32))
        x = centres[kinds] + 0.3 * torch.randn(4, 32, 16)
        wanted = (matrices[kinds] @ x[..., None])[..., 0]
        found, balance = mixture(x)
        loss = (found - wanted).square().mean() + weight * balance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    _, experts = variants.route(mixture.router(x), 2)
    counts = torch.bincount(experts.flatten(), minlength=8)
    return counts / counts.sum()


busiest = {
    weight: statistics.median(
        shares(start, weight).max().item() for start in range(3)
    )
    for weight in (0.0, 0.1)
}
compare(my_prediction, tuple(share > 0.16 for share in busiest.values()))

# %% [markdown]
# All parameters of eight experts, and the arithmetic of two.

# %%
mixture = variants.MixtureOfExperts(16, 32, 8, 2)
parameters = sum(p.numel() for p in mixture.experts.parameters())
print(
    f"{parameters} parameters in the experts, {parameters // 4} used for a word"
)


# %% [markdown]
# ## 12.10 The modern block
#
# All together: RMS norm before each sublayer, queries and keys that are rotated by their positions
# (4.4), grouped queries, SwiGLU, no biases. This is the block of LLaMA and of many models since.
#
# In scope: `split_heads`, `merge_heads`, `rotate`, `causal_mask`, `grouped_query_attention`.


# %%
# %%exercise 12.10
class ModernBlock(nn.Module):
    """A causal block as LLaMA has it: what changed since 2017, in one place.

    RMS norm before each sublayer, rotary positions, grouped queries, SwiGLU, no
    biases. `split_heads`, `merge_heads`, `rotate`, `causal_mask` and
    `grouped_query_attention` are in scope.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        d_ff: int,
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        check_heads(d_model, n_heads)
        d_head = d_model // n_heads
        check_even(d_head, "d_head")
        _check_groups(n_heads, n_kv_heads)
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.w_v = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)
        self.feed_forward: nn.Module = SwiGLU(d_model, d_ff)
        self.norm_1 = RMSNorm(d_model, eps)
        self.norm_2 = RMSNorm(d_model, eps)

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
        mask: Bool[Tensor, "... seq seq"] | None = None,
    ) -> Float[Tensor, "batch seq d_model"]:
        """Let every word look at itself and at earlier words, then think.

        Queries and keys are rotated by their positions, 0 to seq - 1, after
        they are split into heads; values are not. The mask hides more on top of
        the future; it broadcasts to (batch, heads, seq, seq).
        """
        check_shapes(
            x=(x, "batch seq d_model"),
            norm_1=(self.norm_1.weight, "d_model"),
        )
        check_boolean(mask)
        raise NotImplementedError("Exercise 12.10: The modern block")


# %%
torch.manual_seed(4)
block = variants.ModernBlock(32, 4, 2, 86)
words = torch.randn(1, 10, 32)
later = words.clone()
later[0, 7] += 1
same = torch.isclose(block(later), block(words), atol=1e-6).all(dim=-1)[0]
print("words that a change of word 7 leaves alone:", same.sum().item())
swapped = block(words[:, [1, 0, *range(2, 10)]])
moved = not torch.allclose(swapped[0, 2], block(words)[0, 2], atol=1e-4)
print("word 2 notices that words 0 and 1 were exchanged:", moved)

# %% [markdown]
# Stacked, with an embedding below and a norm and a linear layer above, that is a LLaMA. The class holds
# weights of a real one (`variants.llama_from_transformers`).

# %%
llama = variants.Llama(vocab_size=100, n_layers=2, d_model=32, n_heads=4)
logits = llama(torch.randint(0, 100, (1, 12)))
print("logits for each place:", tuple(logits.shape))

# %% [markdown]
# What does it buy? Two blocks of each kind learn a rule: every token is the sum of the two before it,
# modulo 11. So a model must find the last two words, wherever it is in the text. Same width, same
# steps; the new model even has somewhat fewer parameters.
#
# **Predict, run, explain.** After 100 steps, guessing costs 2.4. Whose loss is below 0.2?

# %%
my_prediction = None  # such as (True, True), the old one first


# %%
class Old(torch.nn.Module):
    """Two causal blocks of 2017, with learned positions."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 32)
        self.positions = torch.nn.Embedding(16, 32)
        blocks = (decoder.CausalBlock(32, 4, 128) for _ in range(2))
        self.blocks = torch.nn.ModuleList(blocks)
        self.norm = torch.nn.LayerNorm(32)
        self.output = torch.nn.Linear(32, 11)

    def forward(self, tokens):
        """Give the logits of the next token."""
        x = self.embedding(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.output(self.norm(x))


def new():
    """Make two modern blocks."""
    return variants.Llama(11, 2, 32, 4, n_kv_heads=2, d_ff=86)


def sums(rows=64, length=12):
    """Draw texts in which each token is the sum of the two before it."""
    text = torch.randint(0, 11, (rows, length + 1))
    for place in range(2, length + 1):
        text[:, place] = (text[:, place - 1] + text[:, place - 2]) % 11
    return text[:, :-1], text[:, 1:]


def loss_after(make, start, steps=100):
    """Train a model; give its loss on what it has not seen."""
    torch.manual_seed(start)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in progress(range(steps), "training"):
        inputs, targets = sums()
        # The second token is drawn, so nobody can know it.
        logits = model(inputs)[:, 1:].flatten(0, 1)
        wanted = targets[:, 1:].flatten()
        loss = torch.nn.functional.cross_entropy(logits, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


old = statistics.median(loss_after(Old, start) for start in range(3))
modern = statistics.median(loss_after(new, start) for start in range(3))
compare(my_prediction, (old < 0.2, modern < 0.2))

# %% [markdown]
# With 200 steps the old blocks get there, too. On a task about the last two words, angles that say how
# far apart two words are help at once; learned positions have to be learned first, each for itself. The
# chapter takes the changes one by one, and tells where nothing changes.
