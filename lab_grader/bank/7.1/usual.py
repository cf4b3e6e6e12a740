"""Exercise 7.1, the usual way."""

import torch
from torch.nn import functional as F

from lab_transformer.attention import merge_heads, scaled_dot_product_attention, split_heads


def returned(output, weights):
    """Give both results."""
    return output, weights


def cross_attention(decoder_states, memory, attention, memory_mask=None):
    x, mask = decoder_states, memory_mask
    query, key, value = x, memory, memory
    output, weights = attention(query, key, value, mask)
    return returned(output, weights)
