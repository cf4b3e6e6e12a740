"""Trained models at work: steps that compute only what is new, translation, free text."""

import copy
import math
from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from lab_transformer._checks import check_shapes
from lab_transformer.decoder import CausalBlock, DecoderBlock
from lab_transformer.decoding import CachedAttention, Step, sample_token
from lab_transformer.gpt import GPT
from lab_transformer.masking import causal_mask
from lab_transformer.transformer import Transformer

M = TypeVar("M", bound=nn.Module)


class Once(nn.Module):
    """A layer that answers every call with the result of its first one."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.result: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer the first time, and never again."""
        if self.result is None:
            self.result = self.layer(x)
        return self.result


class FusedCache(CachedAttention):
    """The same by PyTorch's fused kernel, which is quick and keeps its weights to itself."""

    def forward(
        self,
        query: Float[Tensor, "batch query d_model"],
        key: Float[Tensor, "batch query d_model"],
        value: Float[Tensor, "batch query d_model"],
        mask: Tensor | None = None,
    ) -> tuple[Float[Tensor, "batch query d_model"], Float[Tensor, "0"]]:
        """Take the new tokens only; return their output, and nothing in the place of their weights."""
        own = self.attention
        heads = *query.shape[:2], own.n_heads, -1
        q = own.w_q(query).view(heads).transpose(1, 2)
        k = own.w_k(key).view(heads).transpose(1, 2)
        v = own.w_v(value).view(heads).transpose(1, 2)
        if self.keys is not None and self.values is not None:
            k, v = torch.cat([self.keys, k], dim=2), torch.cat([self.values, v], dim=2)
        self.keys, self.values = k, v
        allowed = None  # a single new token sees all others
        if query.shape[1] > 1:
            allowed = causal_mask(k.shape[2])[-query.shape[1] :].to(q.device)
        found = F.scaled_dot_product_attention(q, k, v, allowed)
        return own.w_o(found.transpose(1, 2).flatten(2)), found.new_empty(0)


def with_cache(module: M, cache: type[CachedAttention] = CachedAttention) -> M:
    """Make a twin that shares all weights and keeps keys and values between its calls.

    Self-attention appends to what it keeps. Cross-attention projects the memory of its first call only:
    a twin is good for one source.
    """
    twin = copy.copy(module)
    children = module._modules.items()
    twin._modules = {name: child and with_cache(child, cache) for name, child in children}
    if isinstance(twin, CausalBlock | DecoderBlock):
        twin._modules["attention"] = cache(twin.attention)
    if isinstance(twin, DecoderBlock):
        source = twin.cross_attention
        source._modules |= {"w_k": Once(source.w_k), "w_v": Once(source.w_v)}
    return twin


class CachedStep:
    """A `step` for decoding that feeds the model only the last token of each prefix.

    `model` is a twin with caches, and `advance(tokens, offset)` gives its logits for new tokens. When
    prefixes are reordered or dropped, as beams are, the caches follow.
    """

    def __init__(self, model: nn.Module, advance: Callable[[Tensor, int], Tensor]) -> None:
        self.caches = [part for part in model.modules() if isinstance(part, CachedAttention)]
        self.advance = advance
        self.rows: dict[tuple[int, ...], int] = {}

    @torch.no_grad()
    def __call__(self, prefixes: Int[Tensor, "n seq"]) -> Float[Tensor, "n vocab"]:
        """Give the log-probabilities of the next token after every prefix."""
        check_shapes(prefixes=(prefixes, "n seq"))
        if prefixes.shape[1] == 0:
            raise ValueError("the prefixes are empty: give at least one token to continue")
        prompts = [tuple(prefix) for prefix in prefixes.tolist()]
        known = [self.rows.get(prompt[:-1]) for prompt in prompts]
        start = 0 if None in known else prefixes.shape[1] - 1
        for cache in self.caches:
            if start == 0 or cache.keys is None or cache.values is None:
                cache.keys = cache.values = None
            elif known != list(range(len(cache.keys))):
                cache.keys, cache.values = cache.keys[known], cache.values[known]
        logits = self.advance(prefixes[:, start:], start)[:, -1]
        self.rows = {prompt: row for row, prompt in enumerate(prompts)}
        return logits.log_softmax(dim=-1)


@torch.no_grad()
def translation_step(model: Transformer, source: Int[Tensor, "key"]) -> Step:
    """Encode one source sentence and give the `step` that decodes its translation.

    Padding is never a word: its probability is zero.
    """
    check_shapes(source=(source, "key"))
    if len(source) == 0:
        raise ValueError("there is nothing to translate: the source is empty")
    memory, memory_mask = model.encode(source[None])
    twin = with_cache(model)

    def advance(tokens: Tensor, offset: int) -> Tensor:
        logits = twin.decode(tokens.to(memory.device), memory, memory_mask, offset)[0]
        if 0 <= model.pad_id < logits.shape[-1]:
            logits[..., model.pad_id] = -math.inf
        return logits

    return CachedStep(twin.decoder, advance)


def gpt_step(model: GPT) -> Step:
    """Give the `step` that continues any prompt with the model."""
    twin = with_cache(model, FusedCache)
    device = model.token_embedding.weight.device
    return CachedStep(twin, lambda tokens, offset: twin(tokens.to(device), offset))


def generate(
    model: GPT,
    prompt: list[int],
    max_new: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    eos_id: int | None = None,
) -> list[int]:
    """Continue the prompt with sampled tokens; the last `max_length` tokens are the context."""
    if not prompt:
        raise ValueError("the prompt is empty: give at least one token to continue")
    if max_new < 0:
        raise ValueError(f"max_new is 0 or more, not {max_new}")
    step, tokens = gpt_step(model), list(prompt)
    for _ in range(max_new):
        log_probabilities = step(torch.tensor([tokens[-model.max_length :]]))
        drawn = int(sample_token(log_probabilities[0], temperature, top_k, top_p, generator))
        tokens.append(drawn)
        if drawn == eos_id:
            break
    return tokens
