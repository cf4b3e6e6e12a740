import torch


def softmax(scores, dim=-1):
    return torch.softmax(scores, dim=dim)


def split_heads(x, n_heads):
    print("<b>ninety-six copies</b>" * 96)
    return x.unflatten(-1, (n_heads, -1)).transpose(-3, -2)
