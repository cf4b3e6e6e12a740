"""The same model with PyTorch's fused attention: sooner trained, without weights to look at."""

import copy
from typing import TypeVar

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from lab_transformer.attention import MultiHeadAttention

M = TypeVar("M", bound=nn.Module)


class FusedAttention(nn.Module):
    """Multi-head attention with the layers of another one, by PyTorch's fused kernel.

    Every query must be allowed to attend to something.
    """

    def __init__(self, attention: MultiHeadAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(
        self,
        query: Float[Tensor, "batch query d_model"],
        key: Float[Tensor, "batch key d_model"],
        value: Float[Tensor, "batch key d_model"],
        mask: Bool[Tensor, "... query key"] | None = None,
    ) -> tuple[Float[Tensor, "batch query d_model"], Float[Tensor, "0"]]:
        """Return the mixed output of all heads, and nothing in the place of their weights."""
        own = self.attention
        q = own.w_q(query).unflatten(-1, (own.n_heads, -1)).transpose(1, 2)
        k = own.w_k(key).unflatten(-1, (own.n_heads, -1)).transpose(1, 2)
        v = own.w_v(value).unflatten(-1, (own.n_heads, -1)).transpose(1, 2)
        found = F.scaled_dot_product_attention(q, k, v, mask)
        return own.w_o(found.transpose(1, 2).flatten(2)), found.new_empty(0)


def fused(module: M) -> M:
    """Make a twin that shares all weights and attends by the fused kernel: training it trains both."""
    twin = copy.copy(module)
    twin._modules = {name: child and fused(child) for name, child in module._modules.items()}
    for name, child in twin._modules.items():
        if isinstance(child, MultiHeadAttention):
            twin._modules[name] = FusedAttention(child)
    return twin
