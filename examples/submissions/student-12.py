import math

import torch


def softmax(scores, dim=-1):
    shifted = scores - scores.max(dim=dim, keepdim=True).values
    powers = torch.exp(shifted)
    return powers / powers.sum(dim=dim, keepdim=True)


def scaled_dot_product_attention(q, k, v, mask=None):
    while True:
        scores = q @ k.transpose(-2, -1)


def split_heads(x, n_heads):
    *rest, seq, d_model = x.shape
    return x.reshape(*rest, seq, n_heads, d_model // n_heads).transpose(-3, -2)
