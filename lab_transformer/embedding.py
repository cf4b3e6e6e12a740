"""Words as numbers: a one-hot row picks a row of a table."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lab_transformer._checks import check_shapes


#: id = "1.1"
#: title = "One-hot vectors"
#: points = 2
#: difficulty = 1
#: minutes = 10
#: needs = []
#: hints = [
#:     "For one token, which entry of its row is 1, and what do all the others hold?",
#:     "Compare every token with every number from 0 to vocab_size - 1: broadcasting does the loop.",
#:     "tokens.unsqueeze(-1) == torch.arange(vocab_size, ...) is the answer as booleans.",
#: ]
def one_hot(
    tokens: Int[Tensor, "..."],
    vocab_size: int,
) -> Float[Tensor, "... vocab"]:
    """Turn every token into a row of zeros with a single 1.0 at its place.

    The rows are floating point (the default dtype), so that they can be
    multiplied with a table.
    """
    if tokens.numel():
        lowest, highest = int(tokens.min()), int(tokens.max())
        if lowest < 0 or highest >= vocab_size:
            raise ValueError(
                f"tokens run from {lowest} to {highest}, "
                f"but the vocabulary has the ids 0 to {vocab_size - 1}"
            )
    ### BEGIN SOLUTION
    ids = torch.arange(vocab_size, device=tokens.device)
    return (tokens.unsqueeze(-1) == ids).to(torch.get_default_dtype())
    ### END SOLUTION


#: id = "1.2"
#: title = "Embedding as a matrix product"
#: points = 2
#: difficulty = 1
#: minutes = 5
#: needs = []
#: hints = [
#:     "What is left of a matrix when a row with a single 1 is multiplied with it?",
#:     "A row vector times a matrix is a weighted sum of the matrix's rows.",
#:     "One matrix product of the two arguments, in the order of the signature.",
#: ]
def embed(
    one_hot_tokens: Float[Tensor, "... vocab"],
    table: Float[Tensor, "vocab d_model"],
) -> Float[Tensor, "... d_model"]:
    """Look up every token's embedding: multiply its one-hot row with the table.

    A row need not be one-hot: one that mixes several words gets the same
    mixture of their embeddings. The embeddings have the dtype and the
    precision of the table.
    """
    check_shapes(
        one_hot_tokens=(one_hot_tokens, "... vocab"),
        table=(table, "vocab d_model"),
    )
    ### BEGIN SOLUTION
    return one_hot_tokens.to(table.dtype) @ table
    ### END SOLUTION
