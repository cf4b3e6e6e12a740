import math

import torch


def softmax(scores, dim=-1):
    return torch.zeros(10**12)
