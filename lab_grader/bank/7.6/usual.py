"""Exercise 7.6, the usual way."""

import torch


def score_of(predicted, sure, possible, found, fine):
    """Give the share that is right."""
    return (found + fine) / (len(predicted) + len(sure))


def alignment_error_rate(predicted, sure, possible):
    found = len(predicted & sure)
    fine = len(predicted & (sure | possible))
    total = len(predicted) + len(sure)
    if total == 0:
        return 0.0
    score = score_of(predicted, sure, possible, found, fine)
    return 1 - score
