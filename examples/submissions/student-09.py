import math

import torch


def softmax(scores, dim=-1):
    powers = torch.exp(scores - scores.max(dim=dim, keepdim=True).values)
    return (powers / powers.sum(dim=dim, keepdim=True)).detach()


def scaled_dot_product_attention(q, k, v, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(torch.softmax(scores, dim=-1))
    return weights @ v, weights
