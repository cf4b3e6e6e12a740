"""Exercise 4.3, the usual way."""

import math

import torch
from torch.nn import functional as F

from lab_transformer import positional as reference


def add_positions(embeddings, positions):
    seq, d_model = embeddings.shape[-2:]
    scale = math.sqrt(d_model)
    rows = choose(embeddings, positions)
    embeddings = embeddings * scale
    result = combine(embeddings, rows)
    return result


def choose(embeddings, positions):
    seq = embeddings.shape[-2]
    return positions[:seq]


def combine(embeddings, rows):
    return embeddings + rows
