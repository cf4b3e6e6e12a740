"""Dropout in a whole model, at the places that the paper of 2017 names."""

import functools
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.nn import functional as F

from lab_transformer.attention import MultiHeadAttention
from lab_transformer.decoder import Decoder
from lab_transformer.encoder import Encoder

M = TypeVar("M", bound=nn.Module)


def check_probability(p: float, name: str = "dropout") -> None:
    """Raise a ValueError unless a number is a probability."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{name} is a probability from 0 to 1, it is {p}")


def add_dropout(model: M, p: float) -> M:
    """Let dropout act in a model that is made of blocks, while it trains; gives the model back.

    It acts on the output of every sublayer (attention or feed-forward), before that is added to the
    residual path, and on the sums of embeddings and positions that go into an encoder or a decoder.
    Parameters and their names stay. It may be added to a block, a stack of them, or a whole model,
    but once only; p = 0 adds nothing.
    """
    check_probability(p)
    if p == 0.0:
        return model
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            # The last thing that attention does, and the only one whose result is no tuple.
            part.w_o.register_forward_hook(functools.partial(_drop_output, p))
        inner = getattr(part, "feed_forward", None)
        if isinstance(inner, nn.Module):
            inner.register_forward_hook(functools.partial(_drop_output, p))
        if isinstance(part, Encoder | Decoder):
            part.register_forward_pre_hook(functools.partial(_drop_input, p), with_kwargs=True)
    return model


def _drop_output(p: float, part: nn.Module, given: Any, output: Tensor) -> Tensor:
    return F.dropout(output, p, part.training)


def _drop_input(
    p: float, part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if not args:
        return args, kwargs | {"x": F.dropout(kwargs["x"], p, part.training)}
    return (F.dropout(args[0], p, part.training), *args[1:]), kwargs
