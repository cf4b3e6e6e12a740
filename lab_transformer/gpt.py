"""A decoder-only model: a stack of causal blocks that predicts the next token."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from lab_transformer._checks import check_shapes
from lab_transformer._token_checks import check_tokens
from lab_transformer.decoder import CausalBlock
from lab_transformer.feedforward import FeedForward


class GeluFeedForward(FeedForward):
    """The feed-forward layer as GPT-2 has it: GELU, in its tanh form, instead of ReLU."""

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Apply the layer to every word alone."""
        output: Tensor = self.w_2(F.gelu(self.w_1(x), approximate="tanh"))
        return output


#: id = "10.7"
#: title = "A GPT"
#: points = 5
#: difficulty = 3
#: minutes = 25
#: needs = ["6.6"]
#: hints = [
#:     "What does a position add to a token, and which of the parts is used twice?",
#:     "Two look-ups are added, then come the blocks, the norm and the output layer. No softmax.",
#:     "torch.arange(seq) + offset gives the rows of position_embedding; a weight can have two owners.",
#: ]
class GPT(nn.Module):
    """A decoder without an encoder: it predicts the token after every place.

    Positions are learned: place p adds row p of `position_embedding` to its
    token's vector. Neither of the two look-ups is scaled. The blocks follow,
    then `norm`, then `output`, which gives logits: no softmax. `output` and
    `token_embedding` are one matrix: what trains one trains the other. Which of
    the two takes the other's is up to you.
    """

    def __init__(
        self,
        vocab_size: int,
        n_layers: int = 4,
        d_model: int = 128,
        n_heads: int = 4,
        max_length: int = 256,
    ) -> None:
        super().__init__()
        self.max_length = max_length
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Embedding(max_length, d_model)
        self.blocks = nn.Sequential()
        for _ in range(n_layers):
            self.blocks.append(CausalBlock(d_model, n_heads, 4 * d_model))
        for block in self.blocks:
            block.feed_forward = GeluFeedForward(d_model, 4 * d_model)
        self.norm = nn.LayerNorm(d_model)
        self.output = nn.Linear(d_model, vocab_size, bias=False)
        ### BEGIN SOLUTION
        self.output.weight = self.token_embedding.weight
        ### END SOLUTION
        for embedding in (self.token_embedding, self.position_embedding):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(
        self,
        tokens: Int[Tensor, "batch seq"],
        offset: int = 0,
    ) -> Float[Tensor, "batch seq vocab"]:
        """Give the logits of the token after each place.

        The first token has the position `offset`: 0, unless earlier tokens are
        cached.
        """
        check_shapes(tokens=(tokens, "batch seq"))
        check_tokens(tokens, self.token_embedding.num_embeddings)
        if offset < 0 or offset + tokens.shape[1] > self.max_length:
            after = f" after {offset}" if offset else ""
            wrong = f"{tokens.shape[1]} tokens{after} do not fit"
            raise ValueError(f"{wrong} into a context of {self.max_length}")
        ### BEGIN SOLUTION
        places = torch.arange(tokens.shape[1], device=tokens.device) + offset
        x = self.token_embedding(tokens) + self.position_embedding(places)
        logits: Tensor = self.output(self.norm(self.blocks(x)))
        return logits
        ### END SOLUTION


# GPT-2's name of a part inside a block, and ours. Its matrices are stored as (in, out).
_GPT2_PARTS = {
    "ln_1": "norm_1",
    "attn.c_proj": "attention.w_o",
    "ln_2": "norm_2",
    "mlp.c_fc": "feed_forward.w_1",
    "mlp.c_proj": "feed_forward.w_2",
}


def gpt_from_gpt2(state: dict[str, Tensor], n_heads: int) -> GPT:
    """Build a GPT from the weights of a GPT-2 style checkpoint."""
    state = {name.removeprefix("transformer."): tensor for name, tensor in state.items()}
    try:
        tokens, positions = state["wte.weight"], state["wpe.weight"]
    except KeyError as missing:
        raise ValueError(f"this is not a GPT-2 style state dict: {missing} is missing") from None
    n_layers = len({name.split(".")[1] for name in state if name.startswith("h.")})
    renamed = {
        "token_embedding.weight": tokens,
        "output.weight": tokens,
        "position_embedding.weight": positions,
        "norm.weight": state["ln_f.weight"],
        "norm.bias": state["ln_f.bias"],
    }
    for layer in range(n_layers):
        for kind in ("weight", "bias"):
            fused = state[f"h.{layer}.attn.c_attn.{kind}"].chunk(3, dim=-1)
            for ours, part in zip(("w_q", "w_k", "w_v"), fused, strict=True):
                renamed[f"blocks.{layer}.attention.{ours}.{kind}"] = part.t()
            for theirs, ours in _GPT2_PARTS.items():
                renamed[f"blocks.{layer}.{ours}.{kind}"] = state[f"h.{layer}.{theirs}.{kind}"].t()
    model = GPT(len(tokens), n_layers, tokens.shape[1], n_heads, len(positions)).to(tokens.dtype)
    model.load_state_dict(renamed)
    return model
