"""Exercise 9.2, the usual way."""

import random

import torch


def in_order(lengths):
    return sorted(range(len(lengths)), key=lambda index: lengths[index])


def token_batches(lengths, max_tokens):
    order = in_order(lengths)
    batches = []
    batch = []
    for index in order:
        longest = lengths[index]
        count = len(batch) + 1
        cost = longest * count
        if cost > max_tokens:
            batches.append(batch)
            batch = []
        batch.append(index)
    if batch:
        batches.append(batch)
    return batches
