import math

import torch


def softmax(scores, dim=-1):
    powers = torch.exp(scores)
    return powers / powers.sum(dim=dim, keepdim=True)


def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / q.size(-1)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(torch.softmax(scores, dim=-1))
    return weights @ v, weights


def split_heads(x, n_heads):
    *rest, seq, d_model = x.shape
    return x.reshape(*rest, n_heads, seq, d_model // n_heads)
