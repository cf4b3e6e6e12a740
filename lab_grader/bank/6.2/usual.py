"""Exercise 6.2, the usual way."""

import math

import torch


def as_numbers(mask):
    return mask


def padding_mask(tokens, pad_id):
    real = tokens != pad_id
    mask = real[:, None, None, :]
    return as_numbers(mask)
