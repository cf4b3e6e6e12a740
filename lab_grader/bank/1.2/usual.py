"""Exercise 1.2, the usual way."""

import math

import torch
from torch import nn
from torch.nn import functional as F


def embed(rows, table):
    result = rows @ table
    return result
