"""Two implementations side by side: same results, same gradients, same weights under other names."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lab_transformer.attention import MultiHeadAttention
from lab_transformer.decoder import CausalBlock, DecoderBlock
from lab_transformer.encoder import EncoderBlock

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-10}


def assert_close(actual: Any, expected: Any) -> None:
    """Compare tensors, or tuples and dicts of them, as closely as their dtype allows."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for name in expected:
            assert_close(actual[name], expected[name])
    elif isinstance(expected, tuple | list):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_close(one, other)
    else:
        tolerance = TOLERANCE[expected.dtype]
        # A small number may be the sum of large ones that cancel: it rounds as they do.
        size = expected.detach().abs().max().clamp(min=1.0).item() if expected.numel() else 1.0
        torch.testing.assert_close(actual, expected, rtol=10 * tolerance, atol=size * tolerance)


def assert_same_function(ours: Callable[..., Any], theirs: Callable[..., Any], *inputs: Tensor) -> None:
    """Compare what both give for the inputs, and the gradients of every input that wants one.

    Only the first result is compared where a function gives several.
    """
    wanting = [tensor for tensor in inputs if tensor.requires_grad]
    results, gradients = [], []
    for function in (ours, theirs):
        result = function(*inputs)
        result = result[0] if isinstance(result, tuple) else result
        weights = torch.linspace(-1, 1, result.numel()).to(result).reshape(result.shape)
        results.append(result.detach())
        gradients.append(torch.autograd.grad((result * weights).sum(), wanting))
    assert_close(*results)
    assert_close(*gradients)


def strided(tensor: Tensor) -> Tensor:
    """Make a copy of the same values whose memory is transposed and has gaps."""
    copy = tensor.detach().mT.repeat_interleave(2, dim=-1)[..., ::2].mT
    assert not copy.is_contiguous()
    return copy.requires_grad_()


Value = Callable[[nn.Parameter], Tensor]


def values(parameter: nn.Parameter) -> Tensor:
    """A parameter's numbers."""
    return parameter.detach()


def gradients(parameter: nn.Parameter) -> Tensor:
    """A parameter's gradient."""
    assert parameter.grad is not None
    return parameter.grad


def torch_state(module: nn.Module, value: Value = values) -> dict[str, Tensor]:
    """Give the module's weights, or their gradients, by the names PyTorch's own module has for them."""
    match module:
        case MultiHeadAttention():
            three = (module.w_q, module.w_k, module.w_v)
            return {
                "in_proj_weight": torch.cat([value(layer.weight) for layer in three]),
                "in_proj_bias": torch.cat([value(layer.bias) for layer in three]),
                "out_proj.weight": value(module.w_o.weight),
                "out_proj.bias": value(module.w_o.bias),
            }
        case EncoderBlock() | CausalBlock():
            parts = {
                "self_attn": module.attention,
                "linear1": module.feed_forward.w_1,
                "linear2": module.feed_forward.w_2,
                "norm1": module.norm_1,
                "norm2": module.norm_2,
            }
        case DecoderBlock():
            parts = {
                "self_attn": module.attention,
                "multihead_attn": module.cross_attention,
                "linear1": module.feed_forward.w_1,
                "linear2": module.feed_forward.w_2,
                "norm1": module.norm_1,
                "norm2": module.norm_2,
                "norm3": module.norm_3,
            }
        case nn.Linear() | nn.LayerNorm():
            return {name: value(parameter) for name, parameter in module.named_parameters()}
        case _:  # a stack of blocks and its final norm
            parts = {f"layers.{i}": block for i, block in enumerate(module.blocks)}
            if isinstance(module.norm, nn.LayerNorm):
                parts["norm"] = module.norm
    return {
        f"{prefix}.{name}": tensor
        for prefix, part in parts.items()
        for name, tensor in torch_state(part, value).items()
    }


def assert_same_weight_gradients(ours: nn.Module, theirs: nn.Module) -> None:
    """Compare the gradients that a backward pass left in both modules."""
    assert_close(
        torch_state(ours, gradients),
        {name: gradients(parameter) for name, parameter in theirs.named_parameters()},
    )


def random_weights(module: nn.Module) -> None:
    """Give every parameter random numbers, so that no bias is zero and no gain is one."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
