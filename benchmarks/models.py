"""Our models against the same models written with PyTorch's own modules: time as a ratio.

Both sides take turns in one process, on one thread, and the processor's time is counted, so that a busy
machine changes little; what is printed is the median over the turns. A ratio below 1 means that ours
takes less time.

PyTorch's side is written as its documentation shows it: `nn.TransformerEncoderLayer` and
`nn.TransformerDecoderLayer` without dropout, and decoding that runs over the whole prefix again at
every step, because these modules have no key-value cache. Two cases compare the GPT with others of
its kind: a training step with the design of nanoGPT (query, key and value in one projection, PyTorch's
fused attention), and writing with `generate` of the `transformers` package, on the same weights and
with its cache.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lab_transformer.attention import MultiHeadAttention
from lab_transformer.decoding import beam_search, greedy_decode
from lab_transformer.fused import fused
from lab_transformer.generation import generate, translation_step
from lab_transformer.gpt import GPT, gpt_from_gpt2
from lab_transformer.loss import sequence_loss, shift_right
from lab_transformer.masking import padding_mask
from lab_transformer.positional import sinusoidal_positions
from lab_transformer.transformer import Transformer

PAD, BOS, VOCAB, MAX_LENGTH = 0, 1, 1000, 256
# No token has this id, so every decoding runs to its full length on both sides.
NEVER = VOCAB

Run = Callable[[], object]


def tanh_gelu(x: Tensor) -> Tensor:
    """GELU as GPT-2 has it."""
    return F.gelu(x, approximate="tanh")


class TorchTransformer(nn.Module):
    """The encoder-decoder of `lab_transformer.transformer`, from PyTorch's own layers."""

    def __init__(self, n_layers: int, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        self.source_embedding = nn.Embedding(VOCAB, d_model)
        self.target_embedding = nn.Embedding(VOCAB, d_model)
        options = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(d_model, n_heads, d_ff, **options),
            n_layers,
            nn.LayerNorm(d_model),
            enable_nested_tensor=False,
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(d_model, n_heads, d_ff, **options),
            n_layers,
            nn.LayerNorm(d_model),
        )
        self.output = nn.Linear(d_model, VOCAB, bias=False)
        self.output.weight = self.target_embedding.weight
        self.register_buffer("positions", sinusoidal_positions(MAX_LENGTH, d_model), persistent=False)

    def place(self, embedded: Tensor) -> Tensor:
        """Scale the embeddings and add the positions."""
        return embedded * math.sqrt(embedded.shape[-1]) + self.positions[: embedded.shape[1]]

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Read the source once; here a mask is True where there is padding."""
        hidden = source == PAD
        embedded = self.place(self.source_embedding(source))
        return self.encoder(embedded, src_key_padding_mask=hidden), hidden

    def decode(self, target: Tensor, memory: Tensor, hidden: Tensor) -> Tensor:
        """Give the logits of the word after each target position."""
        length = target.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=target.device).triu(1)
        states = self.decoder(
            self.place(self.target_embedding(target)),
            memory,
            tgt_mask=future,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=hidden,
        )
        return self.output(states)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Give the logits of every next word, with the whole target known."""
        return self.decode(target, *self.encode(source))


class TorchGPT(nn.Module):
    """The decoder-only model of `lab_transformer.gpt`, from PyTorch's own layers."""

    def __init__(self, n_layers: int, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(VOCAB, d_model)
        self.position_embedding = nn.Embedding(MAX_LENGTH, d_model)
        layer = nn.TransformerEncoderLayer(
            d_model, n_heads, 4 * d_model, 0.0, tanh_gelu, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(
            layer, n_layers, nn.LayerNorm(d_model), enable_nested_tensor=False
        )
        self.output = nn.Linear(d_model, VOCAB, bias=False)
        self.output.weight = self.token_embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Give the logits of the token after each position."""
        length = tokens.shape[1]
        future = nn.Transformer.generate_square_subsequent_mask(length, tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding.weight[:length]
        return self.output(self.blocks(x, mask=future, is_causal=True))


class PlainBlock(nn.Module):
    """A block as nanoGPT has it."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.w_1, self.w_2 = nn.Linear(d_model, 4 * d_model), nn.Linear(4 * d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Attend, then think."""
        batch, length, d_model = x.shape
        q, k, v = (
            part.view(batch, length, self.n_heads, d_model // self.n_heads).transpose(1, 2)
            for part in self.qkv(self.norm_1(x)).split(d_model, dim=2)
        )
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.w_o(found.transpose(1, 2).contiguous().view(batch, length, d_model))
        return x + self.w_2(tanh_gelu(self.w_1(self.norm_2(x))))


class PlainGPT(nn.Module):
    """The decoder-only model of `lab_transformer.gpt`, in the design of nanoGPT."""

    def __init__(self, n_layers: int, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(VOCAB, d_model)
        self.position_embedding = nn.Embedding(MAX_LENGTH, d_model)
        self.blocks = nn.ModuleList(PlainBlock(d_model, n_heads) for _ in range(n_layers))
        self.norm = nn.LayerNorm(d_model)
        self.output = nn.Linear(d_model, VOCAB, bias=False)
        self.token_embedding.weight = self.output.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Give the logits of the token after each position."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(places)
        for block in self.blocks:
            x = block(x)
        return self.output(self.norm(x))


def padded_batch(batch: int, length: int) -> Tensor:
    """Draw sentences of between half and the full length, padded at the end."""
    tokens = torch.randint(2, VOCAB, (batch, length))
    lengths = torch.randint(length // 2, length + 1, (batch, 1))
    return tokens.where(torch.arange(length) < lengths, PAD)


def update(model: nn.Module, loss: Callable[[nn.Module], Tensor]) -> Run:
    """Make one training step of the model: loss, gradient, Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def run() -> None:
        optimizer.zero_grad()
        loss(model).backward()
        optimizer.step()

    return run


def attention_forward_backward(batch: int, length: int, d_model: int) -> tuple[Run, Run]:
    """Attention alone, both returning every head's weights."""
    x = torch.randn(batch, length, d_model)
    mask = padding_mask(padded_batch(batch, length), PAD)
    ours = MultiHeadAttention(d_model, n_heads=4)
    torch_own = nn.MultiheadAttention(d_model, num_heads=4, batch_first=True)
    hidden = ~mask[:, 0, 0]
    return (
        lambda: ours(x, x, x, mask)[0].sum().backward(),
        lambda: torch_own(x, x, x, hidden, average_attn_weights=False)[0].sum().backward(),
    )


def train_transformer(batch: int, length: int, d_model: int) -> tuple[Run, Run]:
    """A training step of the encoder-decoder, with padding and label smoothing."""
    source, target = padded_batch(batch, length), padded_batch(batch, length - 2)
    shifted = shift_right(target, BOS)
    ours = Transformer(VOCAB, VOCAB, 2, d_model, 4, 4 * d_model, pad_id=PAD, max_length=MAX_LENGTH)
    torch_own = TorchTransformer(2, d_model, 4, 4 * d_model)

    def torch_loss(model: nn.Module) -> Tensor:
        logits = model(source, shifted).flatten(0, 1)
        return F.cross_entropy(logits, target.flatten(), ignore_index=PAD, label_smoothing=0.1)

    return (
        update(ours, lambda model: sequence_loss(model(source, shifted), target, PAD, 0.1)),
        update(torch_own, torch_loss),
    )


def train_gpt(
    other: type[nn.Module],
    batch: int,
    length: int,
    d_model: int,
    prepare: Callable[[GPT], GPT] = lambda model: model,
) -> tuple[Run, Run]:
    """A training step of the decoder-only model."""
    tokens = torch.randint(VOCAB, (batch, length + 1))
    inputs, targets = tokens[:, :-1], tokens[:, 1:]

    def loss(model: nn.Module) -> Tensor:
        return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())

    return (
        update(prepare(GPT(VOCAB, 4, d_model, 4, MAX_LENGTH)), loss),
        update(other(4, d_model, 4), loss),
    )


def translate(beam_width: int, length: int, d_model: int) -> tuple[Run, Run]:
    """Translate one sentence, greedily or with beams; both sides are driven by our search."""
    source = torch.randint(2, VOCAB, (length,))
    ours = Transformer(VOCAB, VOCAB, 2, d_model, 4, 4 * d_model, max_length=MAX_LENGTH).eval()
    torch_own = TorchTransformer(2, d_model, 4, 4 * d_model).eval()

    @torch.no_grad()
    def whole_prefixes() -> Callable[[Tensor], Tensor]:
        memory, hidden = torch_own.encode(source[None])

        @torch.no_grad()
        def step(prefixes: Tensor) -> Tensor:
            n = len(prefixes)
            logits = torch_own.decode(prefixes, memory.expand(n, -1, -1), hidden.expand(n, -1))
            return logits[:, -1].log_softmax(dim=-1)

        return step

    if beam_width == 1:
        search = partial(greedy_decode, bos_id=BOS, eos_id=NEVER, max_length=length)
    else:
        search = partial(
            beam_search, bos_id=BOS, eos_id=NEVER, beam_width=beam_width, max_length=length
        )
    return (lambda: search(translation_step(ours, source)), lambda: search(whole_prefixes()))


def write_text(batch: int, length: int, d_model: int) -> tuple[Run, Run]:
    """Sample a text of the given length from the decoder-only model."""
    ours = GPT(VOCAB, 4, d_model, 4, MAX_LENGTH).eval()
    torch_own = TorchGPT(4, d_model, 4).eval()

    @torch.no_grad()
    def whole_prefixes() -> None:
        tokens = torch.tensor([[BOS]])
        for _ in range(length):
            probabilities = torch_own(tokens)[:, -1].softmax(dim=-1)
            tokens = torch.cat([tokens, torch.multinomial(probabilities, 1)], dim=1)

    return (lambda: generate(ours, [BOS], length), whole_prefixes)


def write_like_transformers(batch: int, length: int, d_model: int) -> tuple[Run, Run]:
    """Sample a text with `transformers`, from a GPT-2 of the same weights and with its cache."""
    from transformers import GPT2Config, GPT2LMHeadModel, logging

    logging.set_verbosity_error()
    config = GPT2Config(
        vocab_size=VOCAB,
        n_positions=MAX_LENGTH,
        n_embd=d_model,
        n_layer=4,
        n_head=4,
        bos_token_id=BOS,
        eos_token_id=None,
        pad_token_id=PAD,
    )
    theirs = GPT2LMHeadModel(config).eval()
    ours = gpt_from_gpt2(theirs.state_dict(), n_heads=4).eval()
    prompt = torch.tensor([[BOS]])
    return (
        lambda: generate(ours, [BOS], length),
        lambda: theirs.generate(prompt, max_new_tokens=length, do_sample=True),
    )


@dataclass
class Case:
    """Two ways to do the same, and the sizes at which they are compared."""

    name: str
    make: Callable[[int, int, int], tuple[Run, Run]]
    sizes: list[tuple[int, int, int]]


CASES = [
    Case(
        "attention, forward and backward", attention_forward_backward, [(64, 20, 128), (32, 128, 256)]
    ),
    Case("training step, encoder-decoder", train_transformer, [(64, 20, 128), (32, 64, 256)]),
    Case("training step, decoder-only", partial(train_gpt, TorchGPT), [(64, 32, 128), (32, 128, 128)]),
    Case("training step, like nanoGPT", partial(train_gpt, PlainGPT), [(64, 32, 128), (16, 128, 128)]),
    Case(
        "training step, fused, like nanoGPT",
        partial(train_gpt, PlainGPT, prepare=fused),
        [(64, 32, 128), (16, 128, 128)],
    ),
    Case("translation, greedy", translate, [(1, 20, 128), (1, 64, 256)]),
    Case("translation, 4 beams", translate, [(4, 20, 128), (4, 64, 256)]),
    Case("text, sampled", write_text, [(1, 64, 128), (1, 128, 256)]),
    Case("text, like transformers", write_like_transformers, [(1, 100, 128), (1, 200, 256)]),
]


def seconds(run: Run) -> float:
    """Give the processor time of one run."""
    start = time.process_time()
    run()
    return time.process_time() - start


def compare(ours: Run, torch_own: Run, turns: int) -> tuple[float, float, float]:
    """Run both in turns; give both medians, and the median of the turns' ratios."""
    ours(), torch_own()
    pairs = []
    for turn in range(turns):
        # Who goes first changes, so that neither profits from the other's warm caches.
        first, second = (ours, torch_own) if turn % 2 else (torch_own, ours)
        times = {first: seconds(first), second: seconds(second)}
        pairs.append((times[ours], times[torch_own]))
    ratio = statistics.median(mine / theirs for mine, theirs in pairs)
    return (*(statistics.median(side) for side in zip(*pairs, strict=True)), ratio)


def main() -> None:
    """Print a table of all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=9, help="how often each side runs")
    parser.add_argument("--only", default="", help="run the cases whose name contains this")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one CPU thread\n")
    print(f"{'':34} batch length d_model     ours    torch  ratio")
    for case in CASES:
        if options.only not in case.name:
            continue
        for sizes in case.sizes:
            ours, torch_own, ratio = compare(*case.make(*sizes), options.turns)
            batch, length, d_model = sizes
            print(
                f"{case.name:34} {batch:5} {length:6} {d_model:7} "
                f"{1000 * ours:6.1f}ms {1000 * torch_own:6.1f}ms {ratio:6.2f}"
            )


if __name__ == "__main__":
    main()
