"""One architecture, three families: what is hidden, who may look where, and what is asked for."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from lab_transformer._checks import check_boolean, check_mask, check_shapes
from lab_transformer.encoder import Encoder
from lab_transformer.feedforward import FeedForward
from lab_transformer.masking import causal_mask, padding_mask


#: id = "11.1"
#: title = "Words to be guessed"
#: points = 6
#: difficulty = 3
#: minutes = 30
#: needs = []
#: hints = [
#:     "Which tokens are asked for, and what does the model see in the place of each?",
#:     "Draw twice: once for all tokens, to choose; once more for those chosen, to share out.",
#:     "torch.where, three times: labels; a random ordinary token; mask_id. The rest stays.",
#: ]
def mask_tokens(
    tokens: Int[Tensor, "..."],
    mask_id: int,
    vocab_size: int,
    special_ids: list[int],
    generator: torch.Generator,
    rate: float = 0.15,
) -> tuple[Int[Tensor, "..."], Int[Tensor, "..."]]:
    """Choose tokens to be guessed and damage the text there, as BERT does.

    Returns the damaged text and the labels: what stood there where a token was
    chosen, -100 everywhere else.

    Each token is chosen with probability `rate`, whatever happens to the
    others; tokens in special_ids never are. Of those chosen, 80% become
    mask_id, 10% a random token, 10% stay as they are, each by a draw of its
    own. A random token is any id from 0 to vocab_size - 1 but the special ones,
    all equally likely, the one that stood there among them. mask_id counts as
    special, whether special_ids names it or not.

    All chance comes from the generator, in whatever order you draw. It lives on
    the device of the tokens. Both results have the dtype of the tokens.
    """
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"rate is a share from 0 to 1, it is {rate}")
    if not 0 <= mask_id < vocab_size:
        raise ValueError(f"mask_id {mask_id} is none of 0 to {vocab_size - 1}")
    if {*range(vocab_size)} <= {mask_id, *special_ids}:
        raise ValueError("all tokens are special: none is left to draw from")
    ### BEGIN SOLUTION
    special = torch.tensor([mask_id, *special_ids], device=tokens.device)
    vocabulary = torch.arange(vocab_size, device=tokens.device)
    ordinary = vocabulary[~torch.isin(vocabulary, special)].to(tokens.dtype)

    def draw() -> Tensor:
        device = tokens.device
        return torch.rand(tokens.shape, generator=generator, device=device)

    chosen = (draw() < rate) & ~torch.isin(tokens, special)
    labels = torch.where(chosen, tokens, -100)
    random = ordinary[(draw() * len(ordinary)).long()]
    fate = draw()
    inputs = torch.where(chosen & (fate < 0.9), random, tokens)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, inputs)
    return inputs, labels
    ### END SOLUTION


class BertFeedForward(FeedForward):
    """The feed-forward layer as BERT and ViT have it: GELU, in its exact form."""

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """Apply the layer to every word alone."""
        output: Tensor = self.w_2(F.gelu(self.w_1(x)))
        return output


def gelu_encoder(
    n_layers: int, d_model: int, n_heads: int, d_ff: int, norm_first: bool = True
) -> Encoder:
    """Make an encoder whose feed-forward layers have GELU in the place of ReLU."""
    encoder = Encoder(n_layers, d_model, n_heads, d_ff, norm_first)
    for block in encoder.blocks:
        block.feed_forward = BertFeedForward(d_model, d_ff)
    return encoder


#: id = "11.2"
#: title = "A masked language model"
#: points = 6
#: difficulty = 3
#: minutes = 30
#: needs = ["5.7", "6.2"]
#: hints = [
#:     "Which three things does BERT know of a token before any token looks at another?",
#:     "Add three embeddings, normalise the sum; hide padding as a key, and nothing else.",
#:     "self.encoder(self.norm(sum), mask); forward sends its states through head and output.",
#: ]
class MaskedLanguageModel(nn.Module):
    """BERT: an encoder over whole texts, and a guess for every place.

    The output layer and the token embedding are one matrix: what trains one
    trains the other. Which of the two takes the other's is up to you; the bias
    of the output stays its own. `padding_mask` is in scope.
    """

    def __init__(
        self,
        vocab_size: int,
        n_layers: int = 2,
        d_model: int = 128,
        n_heads: int = 4,
        d_ff: int = 512,
        norm_first: bool = True,
        pad_id: int = 0,
        max_length: int = 128,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.pad_id = pad_id
        self.max_length = max_length
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Embedding(max_length, d_model)
        self.segment_embedding = nn.Embedding(2, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.encoder = gelu_encoder(
            n_layers,
            d_model,
            n_heads,
            d_ff,
            norm_first,
        )
        self.head = nn.Sequential(
            nn.Linear(d_model, d_model),
            nn.GELU(),
            nn.LayerNorm(d_model),
        )
        self.output = nn.Linear(d_model, vocab_size)
        nn.init.zeros_(self.output.bias)
        for module in self.children():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        ### BEGIN SOLUTION
        self.output.weight = self.token_embedding.weight
        ### END SOLUTION

    def encode(
        self,
        tokens: Int[Tensor, "batch seq"],
        segments: Int[Tensor, "batch seq"] | None = None,
        mask: Bool[Tensor, "... seq seq"] | None = None,
    ) -> Float[Tensor, "batch seq d_model"]:
        """Read a text: the encoder's state at every place.

        What the encoder gets is the sum of three embeddings, normalised: of the
        token, of its position, counted from 0, and of its segment, 0 for the
        first text and 1 for the second. Without `segments` all are 0.

        Every token sees all that are not padding, before and after it. A `mask`
        hides more on top of the padding, and broadcasts to
        (batch, heads, seq, seq). What comes out at padding is up to you.
        """
        check_shapes(tokens=(tokens, "batch seq"))
        batch, seq = tokens.shape
        if seq > self.max_length:
            raise ValueError(f"{seq} tokens do not fit into {self.max_length}")
        if segments is not None:
            check_shapes(
                tokens=(tokens, "batch seq"),
                segments=(segments, "batch seq"),
            )
        check_mask(mask, torch.Size([batch, self.n_heads, seq, seq]))
        ### BEGIN SOLUTION
        if segments is None:
            segments = torch.zeros_like(tokens)
        real = padding_mask(tokens, self.pad_id)
        positions = torch.arange(seq, device=tokens.device)
        x = (
            self.token_embedding(tokens)
            + self.position_embedding(positions)
            + self.segment_embedding(segments)
        )
        visible = real if mask is None else real & mask
        states: Tensor = self.encoder(self.norm(x), visible)
        return states
        ### END SOLUTION

    def forward(
        self,
        tokens: Int[Tensor, "batch seq"],
        segments: Int[Tensor, "batch seq"] | None = None,
        mask: Bool[Tensor, "... seq seq"] | None = None,
    ) -> Float[Tensor, "batch seq vocab"]:
        """Give the logits of the token at every place (not of the next one).

        The encoder's states go through `head`, then through `output`.
        """
        check_shapes(tokens=(tokens, "batch seq"))
        ### BEGIN SOLUTION
        states = self.encode(tokens, segments, mask)
        logits: Tensor = self.output(self.head(states))
        return logits
        ### END SOLUTION


#: id = "11.3"
#: title = "Spans that went missing"
#: points = 5
#: difficulty = 3
#: minutes = 25
#: needs = []
#: hints = [
#:     "How does the reader of the target know which gap a word belongs to?",
#:     "Walk through the text: entering a gap writes its sentinel on both sides.",
#:     "Sort the spans and join those that touch; then slices of the text between them and in them.",
#: ]
def corrupt_spans(
    tokens: list[int],
    spans: list[tuple[int, int]],
    sentinels: list[int],
) -> tuple[list[int], list[int]]:
    """Cut spans out of a text, as T5 does: returns inputs and targets.

    A span (start, end) takes the tokens from start to end - 1. Spans come in
    any order; those that overlap or touch are one. In the inputs each of them
    is replaced by a sentinel. The targets hold, span by span, that sentinel and
    the tokens that it stands for, and at the end the next sentinel, which says
    that nothing more is missing.

    Sentinels are used in their order, along the text: the first span gets the
    first one. There is at least one more than there are spans; those that are
    left over are not used. Without spans, the inputs are the tokens and the
    targets the first sentinel alone.
    """
    for start, end in spans:
        if not 0 <= start < end <= len(tokens):
            raise ValueError(
                f"the span ({start}, {end}) takes nothing, or more than the "
                f"{len(tokens)} tokens that there are"
            )
    if len(sentinels) <= len(spans):
        raise ValueError(
            f"{len(spans)} spans need a sentinel each and one at the end, "
            f"which are more than the {len(sentinels)} that there are"
        )
    ### BEGIN SOLUTION
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            before, until = joined.pop()
            start, end = before, max(until, end)
        joined.append((start, end))
    inputs: list[int] = []
    targets: list[int] = []
    at = 0
    for (start, end), sentinel in zip(joined, sentinels, strict=False):
        inputs += [*tokens[at:start], sentinel]
        targets += [sentinel, *tokens[start:end]]
        at = end
    return inputs + tokens[at:], [*targets, sentinels[len(joined)]]
    ### END SOLUTION


def draw_spans(
    length: int, generator: torch.Generator, rate: float = 0.15, mean: float = 3.0
) -> list[tuple[int, int]]:
    """Draw spans as T5 does: about `rate` of the tokens, in spans of about `mean`.

    As there, a text begins with what stays and ends with what goes, and spans never touch.
    """
    if length < 2:
        raise ValueError(f"a text of at least two tokens can lose one, not one of {length}")
    gone = min(max(round(length * rate), 1), length - 1)
    number = min(max(round(gone / mean), 1), length - gone)

    def parts(total: int) -> list[int]:
        """Cut a number into parts of at least one, all ways equally likely."""
        cuts = torch.randperm(total - 1, generator=generator)[: number - 1].sort().values + 1
        ends = [*cuts.tolist(), total]
        return [end - start for start, end in zip([0, *ends], ends, strict=False)]

    spans, at = [], 0
    for kept, taken in zip(parts(length - gone), parts(gone), strict=True):
        spans.append((at + kept, at + kept + taken))
        at += kept + taken
    return spans


#: id = "11.4"
#: title = "A mask with a prefix"
#: points = 3
#: difficulty = 2
#: minutes = 15
#: needs = ["6.1"]
#: hints = [
#:     "Which keys may the first word of the prefix see, and which the first word after it?",
#:     "A key is visible if it stands in the prefix, or if it is not in the future: one is enough.",
#:     "The causal mask, or (|) a row that is True below the prefix's length, for each text.",
#: ]
def prefix_mask(
    prefix_lengths: Int[Tensor, "batch"],
    length: int,
) -> Bool[Tensor, "batch 1 query key"]:
    """Let the prefix be read in both directions, and the rest be written.

    Every position may look at the whole prefix of its text, at itself and at
    what came before it. A prefix of 0 leaves the causal mask, one of `length`
    hides nothing. The mask lives on the device of prefix_lengths.
    `causal_mask` is in scope.
    """
    check_shapes(prefix_lengths=(prefix_lengths, "batch"))
    if ((prefix_lengths < 0) | (prefix_lengths > length)).any():
        found = prefix_lengths.tolist()
        raise ValueError(f"a prefix is from 0 to {length}, not {found}")
    ### BEGIN SOLUTION
    keys = torch.arange(length, device=prefix_lengths.device)
    prefix = keys < prefix_lengths[:, None, None, None]
    return prefix | causal_mask(length).to(prefix_lengths.device)
    ### END SOLUTION


#: id = "11.5"
#: title = "A text as one vector"
#: points = 3
#: difficulty = 2
#: minutes = 15
#: needs = []
#: hints = [
#:     "By how many words must the sum be divided: all places, or those that hold a word?",
#:     "Padding adds nothing to the sum and nothing to the count; each text has its own count.",
#:     "Zero where the mask is False, sum over seq, divide by the count, which is at least 1.",
#: ]
def mean_pool(
    states: Float[Tensor, "batch seq d_model"],
    mask: Bool[Tensor, "batch seq"],
) -> Float[Tensor, "batch d_model"]:
    """Average the states of every text over the places where the mask is True.

    A text without any such place gets zeros, and its states get no gradient.
    All numbers in states are finite, those at padding too.
    """
    check_boolean(mask)
    check_shapes(
        states=(states, "batch seq d_model"),
        mask=(mask, "batch seq"),
    )
    ### BEGIN SOLUTION
    total = states.where(mask.unsqueeze(-1), 0.0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)
    ### END SOLUTION


#: id = "11.6"
#: title = "A classifier on what was learned before"
#: points = 4
#: difficulty = 2
#: minutes = 20
#: needs = ["11.2", "11.5"]
#: hints = [
#:     "How many vectors does the encoder give for a text, and how many does a classifier need?",
#:     "The state of the first token, or the mean over all that are not padding.",
#:     "self.encoder.encode(tokens, segments), then one of the two, then self.output.",
#: ]
class Classifier(nn.Module):
    """Put texts into classes: a pre-trained encoder and one new layer.

    `pooling` is "cls", the state of the first token, where the caller puts
    [CLS]; or "mean", the mean over all tokens that are not padding, [CLS]
    included. The encoder is part of the classifier: it is trained on (fine-
    tuned), and not copied. `mean_pool` is in scope.
    """

    def __init__(
        self,
        encoder: MaskedLanguageModel,
        classes: int,
        pooling: str = "cls",
    ) -> None:
        super().__init__()
        if pooling not in ("cls", "mean"):
            raise ValueError(f'pooling is "cls" or "mean", not {pooling!r}')
        self.encoder = encoder
        self.pooling = pooling
        self.output = nn.Linear(encoder.norm.weight.shape[0], classes)

    def forward(
        self,
        tokens: Int[Tensor, "batch seq"],
        segments: Int[Tensor, "batch seq"] | None = None,
    ) -> Float[Tensor, "batch classes"]:
        """Give every text's logits, one for each class."""
        check_shapes(tokens=(tokens, "batch seq"))
        ### BEGIN SOLUTION
        states = self.encoder.encode(tokens, segments)
        if self.pooling == "cls":
            pooled = states[:, 0]
        else:
            pooled = mean_pool(states, tokens != self.encoder.pad_id)
        logits: Tensor = self.output(pooled)
        return logits
        ### END SOLUTION


# BERT's names and ours; the more specific ones come first.
_BERT_NAMES = {
    "bert.": "",
    "embeddings.word_embeddings": "token_embedding",
    "embeddings.position_embeddings": "position_embedding",
    "embeddings.token_type_embeddings": "segment_embedding",
    "embeddings.LayerNorm": "norm",
    "encoder.layer": "encoder.blocks",
    "attention.self.query": "attention.w_q",
    "attention.self.key": "attention.w_k",
    "attention.self.value": "attention.w_v",
    "attention.output.dense": "attention.w_o",
    "attention.output.LayerNorm": "norm_1",
    "intermediate.dense": "feed_forward.w_1",
    "output.dense": "feed_forward.w_2",
    "output.LayerNorm": "norm_2",
    "cls.predictions.transform.dense": "head.0",
    "cls.predictions.transform.LayerNorm": "head.2",
    "cls.predictions.bias": "output.bias",
}


def masked_model_from_bert(state: dict[str, Tensor], n_heads: int) -> MaskedLanguageModel:
    """Build a masked language model from the weights of a BERT style checkpoint."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in state.items():
        for theirs, ours in _BERT_NAMES.items():
            name = name.replace(theirs, ours)
        renamed[name] = tensor
    try:
        tokens, positions = renamed["token_embedding.weight"], renamed["position_embedding.weight"]
        d_ff = len(renamed["encoder.blocks.0.feed_forward.w_1.weight"])
    except KeyError as missing:
        raise ValueError(f"this is not a BERT style state dict: {missing} is missing") from None
    renamed["output.weight"] = tokens
    n_layers = len({name.split(".")[2] for name in renamed if name.startswith("encoder.blocks.")})
    sizes = len(tokens), n_layers, tokens.shape[1], n_heads, d_ff
    model = MaskedLanguageModel(*sizes, norm_first=False, max_length=len(positions)).to(tokens.dtype)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-12
    # Checkpoints hold more than we need: a pooler, say, or a second head.
    model.load_state_dict({name: renamed[name] for name in model.state_dict() if name in renamed})
    return model
