"""LoRA: fine-tuning that leaves a model's weights alone and trains thin matrices beside them."""

import copy
import math
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lab_transformer._checks import check_shapes

M = TypeVar("M", bound=nn.Module)


#: id = "10.11"
#: title = "LoRA: a layer with two thin matrices beside it"
#: points = 5
#: difficulty = 3
#: minutes = 30
#: needs = []
#: hints = [
#:     "What must the product of the two matrices be, so that nothing changes at the start?",
#:     "One is random, the other zero: both zero would never learn. The old layer needs no gradient.",
#:     "x goes through down, then up, times alpha / rank. nn.Linear stores its weight as (out, in).",
#: ]
class LoRALinear(nn.Module):
    """A linear layer that is kept as it is, and a product that learns.

    The result is base(x) + alpha / rank * x @ down @ up. At the start up is
    zero, and down is random: independent normal numbers with mean 0 and
    standard deviation 1 / sqrt(d_in), all drawn from the generator. So at first
    the layer does what `base` does. Only down and up are trained: the
    parameters of `base` need no gradient any more. It is the layer that was
    given, not a copy, and its numbers never change.
    """

    def __init__(
        self,
        base: nn.Linear,
        rank: int,
        alpha: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        d_out, d_in = base.weight.shape
        if not 1 <= rank <= min(d_in, d_out):
            raise ValueError(
                f"the rank is from 1 to {min(d_in, d_out)} "
                f"for a layer from {d_in} to {d_out}, not {rank}"
            )
        self.base, self.rank, self.alpha = base, rank, alpha
        self.down = nn.Parameter(base.weight.new_empty(d_in, rank))
        self.up = nn.Parameter(base.weight.new_empty(rank, d_out))
        ### BEGIN SOLUTION
        base.requires_grad_(False)
        nn.init.normal_(
            self.down,
            std=1 / math.sqrt(d_in),
            generator=generator,
        )
        nn.init.zeros_(self.up)
        ### END SOLUTION

    def forward(
        self,
        x: Float[Tensor, "... d_in"],
    ) -> Float[Tensor, "... d_out"]:
        """Apply the layer that is kept, and add what was learned."""
        check_shapes(x=(x, "... d_in"), down=(self.down, "d_in rank"))
        ### BEGIN SOLUTION
        learned = x @ self.down @ self.up
        output: Tensor = self.base(x) + self.alpha / self.rank * learned
        return output
        ### END SOLUTION

    def merged_weight(self) -> Float[Tensor, "d_out d_in"]:
        """Give the weight of one nn.Linear that does the same as this layer.

        Its bias is that of `base`. Nothing changes by asking: the layer goes on
        as before, and the second answer is like the first.
        """
        ### BEGIN SOLUTION
        learned = (self.down @ self.up).mT
        return self.base.weight + self.alpha / self.rank * learned
        ### END SOLUTION

    @property
    def weight(self) -> Float[Tensor, "d_out d_in"]:
        """What stands for the weight where a linear layer is expected."""
        return self.merged_weight()

    @property
    def bias(self) -> Float[Tensor, "d_out"] | None:
        """The bias of the layer that is kept."""
        return self.base.bias


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """List the parameters that training changes, by name."""
    return {name: one for name, one in module.named_parameters() if one.requires_grad}


def add_lora(
    model: M,
    rank: int,
    alpha: float,
    generator: torch.Generator,
    names: tuple[str, ...] = ("w_q", "w_v"),
) -> M:
    """Freeze a model, and put a LoRALinear around every layer of these names; the model is changed."""
    children = [
        (part, name, child) for part in model.modules() for name, child in part.named_children()
    ]
    places = [place for place in children if place[1] in names]
    if not places:
        raise ValueError(f"the model has no layer named {' or '.join(names)}")
    model.requires_grad_(False)
    for part, name, layer in places:
        if not isinstance(layer, nn.Linear):
            raise ValueError(f"{name} is no linear layer but a {type(layer).__name__}")
        setattr(part, name, LoRALinear(layer, rank, alpha, generator))
    return model


@torch.no_grad()
def merge_lora(model: M) -> M:
    """Put plain linear layers that do the same in the place of all LoRALinear; the model is changed.

    Its parameters can be trained again.
    """
    for part in list(model.modules()):
        for name, layer in list(part.named_children()):
            if isinstance(layer, LoRALinear):
                plain = copy.deepcopy(layer.base)
                plain.weight.copy_(layer.merged_weight())
                setattr(part, name, plain)
    return model.requires_grad_(True)
