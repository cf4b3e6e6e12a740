"""The whole Transformer: an encoder that reads once, a decoder that writes."""

import math

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lab_transformer._checks import check_shapes
from lab_transformer.decoder import Decoder
from lab_transformer.encoder import Encoder
from lab_transformer.masking import padding_mask
from lab_transformer.positional import add_positions, sinusoidal_positions
from lab_transformer.regularisation import add_dropout, check_probability


#: id = "7.4"
#: title = "The Transformer"
#: points = 6
#: difficulty = 4
#: minutes = 40
#: needs = ["4.1", "4.3", "5.7", "6.2", "7.3"]
#: hints = [
#:     "Which parts see the source, which the target, and which matrix is used twice?",
#:     "Embed and add positions on both sides; hide the source's padding from encoder and decoder.",
#:     "self.output.weight = self.target_embedding.weight ties; encode returns memory and its mask.",
#: ]
class Transformer(nn.Module):
    """Encoder and decoder, with sinusoidal positions.

    The output layer and the target embedding are one matrix: what trains one
    trains the other. Which of the two takes the other's, and so which initial
    numbers it has, is up to you. `padding_mask` and `add_positions` are in
    scope.

    `dropout` and `shared` are given, for week 9: dropout acts in training mode,
    on the sums of embeddings and positions and on every sublayer's output;
    `shared` makes the source embedding the same matrix, too, where source and
    target have one vocabulary.
    """

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        n_layers: int = 2,
        d_model: int = 128,
        n_heads: int = 4,
        d_ff: int = 512,
        norm_first: bool = True,
        pad_id: int = 0,
        max_length: int = 512,
        dropout: float = 0.0,
        shared: bool = False,
    ) -> None:
        super().__init__()
        check_probability(dropout)
        if shared and source_vocab != target_vocab:
            raise ValueError(
                "one matrix for both sides needs one vocabulary, but there are "
                f"{source_vocab} source words and {target_vocab} target words"
            )
        self.pad_id = pad_id
        self.source_embedding = nn.Embedding(source_vocab, d_model)
        self.target_embedding = nn.Embedding(target_vocab, d_model)
        self.encoder = Encoder(n_layers, d_model, n_heads, d_ff, norm_first)
        self.decoder = Decoder(n_layers, d_model, n_heads, d_ff, norm_first)
        self.output = nn.Linear(d_model, target_vocab, bias=False)
        self.positions: Tensor
        positions = sinusoidal_positions(max_length, d_model)
        self.register_buffer("positions", positions, persistent=False)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=1 / math.sqrt(d_model))
        ### BEGIN SOLUTION
        self.output.weight = self.target_embedding.weight
        ### END SOLUTION
        if shared:
            self.source_embedding.weight = self.target_embedding.weight
        add_dropout(self, dropout)

    def encode(
        self,
        source: Int[Tensor, "batch key"],
    ) -> tuple[
        Float[Tensor, "batch key d_model"],
        Bool[Tensor, "batch 1 1 key"],
    ]:
        """Read the source: its states, and the mask that hides its padding."""
        check_shapes(source=(source, "batch key"))
        ### BEGIN SOLUTION
        mask = padding_mask(source, self.pad_id)
        embedded = add_positions(self.source_embedding(source), self.positions)
        return self.encoder(embedded, mask), mask
        ### END SOLUTION

    def decode(
        self,
        target: Int[Tensor, "batch query"],
        memory: Float[Tensor, "batch key d_model"],
        memory_mask: Bool[Tensor, "... query key"] | None = None,
        offset: int = 0,
    ) -> tuple[
        Float[Tensor, "batch query vocab"],
        Float[Tensor, "batch layers heads query key"],
    ]:
        """Give each next word's logits, and the cross-attention weights.

        Padding of the target is hidden as a key, like that of the source. The
        first target token has the position `offset`: 0, unless earlier tokens
        are cached.
        """
        check_shapes(
            target=(target, "batch query"),
            memory=(memory, "... key d_model"),
        )
        ### BEGIN SOLUTION
        mask = padding_mask(target, self.pad_id)
        embedded = add_positions(
            self.target_embedding(target),
            self.positions[offset:],
        )
        states, weights = self.decoder(embedded, memory, mask, memory_mask)
        return self.output(states), weights
        ### END SOLUTION

    def forward(
        self,
        source: Int[Tensor, "batch key"],
        target: Int[Tensor, "batch query"],
    ) -> Float[Tensor, "batch query vocab"]:
        """Give each next word's logits, the target known (teacher forcing)."""
        memory, memory_mask = self.encode(source)
        return self.decode(target, memory, memory_mask)[0]
