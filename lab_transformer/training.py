"""Training by the recipe of 2017: dropout, batches by length, a rate that rises and falls, AdamW."""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lab_transformer._checks import check_shapes
from lab_transformer.loss import sequence_loss, shift_right
from lab_transformer.rnn import clip_gradients

# Steps so far, and the running means of a gradient and of its square.
Moments = tuple[int, Tensor, Tensor]
Batch = tuple[Tensor, Tensor]


#: id = "9.1"
#: title = "Dropout"
#: points = 3
#: difficulty = 2
#: minutes = 15
#: needs = []
#: hints = [
#:     "If half of the numbers are lost, what must happen to the others for the sum to stay?",
#:     "Each number is kept or lost by a draw of its own, with the chance 1 - p of being kept.",
#:     "keep = torch.rand(x.shape, generator=generator) >= p; what is kept is divided by 1 - p.",
#: ]
def dropout(
    x: Float[Tensor, "..."],
    p: float,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "..."]:
    """Set each number to zero with probability p; scale up what is kept.

    Every number of x has a draw of its own. What is kept is divided by 1 - p,
    so that the mean stays what it was. With p = 0 the result is x (as it is,
    or a copy), with p = 1 it is all zeros, and so are the gradients. All
    randomness comes from the generator: two in the same state drop the same
    numbers. Which numbers those are is up to you. All numbers in x are finite.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p is a probability from 0 to 1, it is {p}")
    ### BEGIN SOLUTION
    if p == 1.0:
        return x * 0.0
    noise = torch.rand(x.shape, generator=generator, device=x.device)
    return x.where(noise >= p, 0.0) / (1 - p)
    ### END SOLUTION


#: id = "9.2"
#: title = "Batches of like length"
#: points = 4
#: difficulty = 3
#: minutes = 25
#: needs = []
#: hints = [
#:     "How many tokens, padding included, has a batch of sentences of 3, 4 and 9 words?",
#:     "Walk through the sentences from the shortest to the longest, and fill one batch at a time.",
#:     "In this order the sentence that comes is the longest: with it, how much does the batch cost?",
#: ]
def token_batches(
    lengths: Sequence[int],
    max_tokens: int,
) -> list[list[int]]:
    """Put sentences of like length into batches of at most max_tokens tokens.

    A batch is a list of indices into lengths. Every index is in exactly one
    batch, and no batch is empty. A batch is padded to its longest sentence, so
    it costs that length times the number of its sentences.

    Sentences of like length are together: sorted by length, each batch is a
    stretch of the sentences, and there are as few batches as the budget allows.
    Batches may come in any order, so may the indices within one, and sentences
    of equal length may change places. Without lengths there are no batches.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens is at least 1, not {max_tokens}")
    for index, length in enumerate(lengths):
        if length < 1:
            raise ValueError(f"sentence {index} has the length {length}")
        if length > max_tokens:
            wrong = f"sentence {index} has {length} tokens"
            raise ValueError(f"{wrong}: max_tokens is {max_tokens}")
    ### BEGIN SOLUTION
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batches and lengths[index] * (len(batches[-1]) + 1) <= max_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
    ### END SOLUTION


#: id = "9.3"
#: title = "The learning rate of 2017"
#: points = 2
#: difficulty = 1
#: minutes = 10
#: needs = []
#: hints = [
#:     "Which of the two terms is the smaller one at the first step, and which one in the end?",
#:     "Warm-up is a straight line; after it the rate falls with the root of the step.",
#:     "Both terms are equal at step = warmup: there the rate is (d_model * warmup) ** -0.5.",
#: ]
def noam_rate(step: int, d_model: int, warmup: int) -> float:
    """Give the learning rate of a step; the first step is number 1.

    The smaller one of 1 / sqrt(step) and step / warmup ** 1.5, divided by the
    root of d_model: a line that rises until step is warmup, then a slow fall.
    """
    for name, number in (
        ("step", step),
        ("d_model", d_model),
        ("warmup", warmup),
    ):
        if number < 1:
            raise ValueError(f"{name} is at least 1, not {number}")
    ### BEGIN SOLUTION
    return float(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))
    ### END SOLUTION


#: id = "9.4"
#: title = "A step of AdamW"
#: points = 5
#: difficulty = 3
#: minutes = 30
#: needs = []
#: hints = [
#:     "Both means start at zero: are they too large or too small after the first step?",
#:     "Decay shrinks the parameter by itself; the gradient only goes into the two means.",
#:     "Divide the means by 1 - beta ** step, each with its own beta; eps is added to the root.",
#: ]
def adamw_step(
    parameter: Float[Tensor, "..."],
    gradient: Float[Tensor, "..."],
    state: tuple[int, Tensor, Tensor] | None,
    rate: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[Float[Tensor, "..."], tuple[int, Tensor, Tensor]]:
    """Make one step of AdamW: returns the new parameter and the new state.

    The state is (step, mean, square): how many steps were made, and the running
    means of the gradient and of its square, not corrected. Before the first
    step it is None, and the means start at zero.

    1. The parameter is multiplied by 1 - rate * weight_decay.
    2. mean becomes betas[0] * mean + (1 - betas[0]) * gradient, and square the
       same of the squared gradient, with betas[1].
    3. Both are corrected for their start at zero: divided by 1 - beta ** step,
       where the first step is number 1.
    4. From the parameter goes rate * mean / (root of square + eps).

    This is what `torch.optim.AdamW` does; write it without that. All results
    are new tensors: nothing that is given is changed. No gradient need flow
    through the step.
    """
    check_shapes(parameter=(parameter, "..."), gradient=(gradient, "..."))
    if parameter.shape != gradient.shape:
        raise ValueError(
            f"the parameter {tuple(parameter.shape)} and its gradient "
            f"{tuple(gradient.shape)} differ in shape"
        )
    if rate < 0 or eps < 0 or weight_decay < 0:
        raise ValueError("rate, eps and weight_decay are not negative")
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"both betas are from 0 to below 1, not {betas}")
    ### BEGIN SOLUTION
    step, mean, square = state or (
        0,
        torch.zeros_like(parameter),
        torch.zeros_like(parameter),
    )
    step += 1
    mean = betas[0] * mean + (1 - betas[0]) * gradient
    square = betas[1] * square + (1 - betas[1]) * gradient.square()
    direction = mean / (1 - betas[0] ** step)
    size = (square / (1 - betas[1] ** step)).sqrt() + eps
    decayed = parameter * (1 - rate * weight_decay)
    return decayed - rate * direction / size, (step, mean, square)
    ### END SOLUTION


#: id = "9.5"
#: title = "A step of training"
#: points = 5
#: difficulty = 3
#: minutes = 30
#: needs = ["1.6", "6.4", "6.5"]
#: hints = [
#:     "What does the decoder read while the target is known, and what is still in the gradients?",
#:     "Forget the old gradients, compute the loss, go backward, clip all gradients as one, step.",
#:     "model(source, shift_right(target, bos_id)) gives logits that belong to target, place by place.",
#: ]
def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    source: Int[Tensor, "batch key"],
    target: Int[Tensor, "batch query"],
    bos_id: int,
    pad_id: int,
    max_norm: float = 1.0,
    smoothing: float = 0.0,
) -> float:
    """Make one update from one batch; returns the loss before it.

    The model is called with the source and the decoder's input: the target
    shifted right behind bos_id. What is minimised and returned, as a plain
    number, is the mean loss of all words of the target (padding is none),
    smoothed. Gradients left from earlier do not count. Those of all parameters
    together are clipped to the norm max_norm, then the optimizer makes its
    step. A parameter that the loss does not reach has no gradient (None): it
    stays as it is.

    The model is in training mode already, and the optimizer has its rate. The
    model is called once. `shift_right`, `sequence_loss` and `clip_gradients`
    are in scope; you may use PyTorch's own clipping instead.
    """
    check_batch(source, target, pad_id)
    if max_norm <= 0:
        raise ValueError(f"max_norm must be positive, it is {max_norm}")
    if not 0.0 <= smoothing <= 1.0:
        raise ValueError(f"smoothing is a share from 0 to 1, it is {smoothing}")
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    logits = model(source, shift_right(target, bos_id))
    loss = sequence_loss(logits, target, pad_id, smoothing)
    loss.backward()
    reached = [p for p in model.parameters() if p.grad is not None]
    gradients = [p.grad for p in reached if p.grad is not None]
    clipped = clip_gradients(gradients, max_norm)
    for parameter, gradient in zip(reached, clipped, strict=True):
        parameter.grad = gradient
    optimizer.step()
    return loss.item()
    ### END SOLUTION


#: id = "9.6"
#: title = "The loss on held-out sentences"
#: points = 4
#: difficulty = 2
#: minutes = 20
#: needs = ["6.4", "6.5"]
#: hints = [
#:     "Does a word of a small batch count as much as a word of a large one?",
#:     "Add up the losses of all words and count the words; divide once, at the end.",
#:     "model.eval() before, torch.no_grad() around; sequence_loss times the words of the batch.",
#: ]
def evaluate(
    model: nn.Module,
    batches: Sequence[tuple[Tensor, Tensor]],
    bos_id: int,
    pad_id: int,
) -> float:
    """Give the mean loss of all words of all batches, as a plain number.

    A batch is a pair (source, target); the model is called with the source and
    the target shifted right, as in training. Every word counts the same, in
    whichever batch it stands; padding is no word. There is no smoothing.

    Dropout is off while the model is called, and no gradients are recorded.
    Afterwards the model is in the mode, training or not, in which it came; its
    parameters and their gradients are what they were. `shift_right` and
    `sequence_loss` are in scope.
    """
    for source, target in batches:
        check_shapes(
            source=(source, "batch key"),
            target=(target, "batch query"),
        )
    if not any((target != pad_id).any() for _, target in batches):
        raise ValueError("there is no word to evaluate on: all is padding")
    ### BEGIN SOLUTION
    was_training = model.training
    model.eval()
    total, words = 0.0, 0
    with torch.no_grad():
        for source, target in batches:
            logits = model(source, shift_right(target, bos_id))
            count = int((target != pad_id).sum())
            total += sequence_loss(logits, target, pad_id).item() * count
            words += count
    model.train(was_training)
    return total / words
    ### END SOLUTION


def check_batch(source: Tensor, target: Tensor, pad_id: int) -> None:
    """Raise a ValueError unless source and target are a batch with words."""
    check_shapes(source=(source, "batch key"), target=(target, "batch query"))
    if not (target != pad_id).any():
        raise ValueError("the target has no word to learn from: all is padding")


class AdamW:
    """`adamw_step` for many parameters at once, with the methods of torch.optim.

    `rate` may be set anew before every step.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        rate: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.98),
        eps: float = 1e-9,
        weight_decay: float = 0.0,
    ) -> None:
        self.parameters = list(parameters)
        self.states: list[Moments | None] = [None] * len(self.parameters)
        self.rate = rate
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for i, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                moved, self.states[i] = adamw_step(
                    parameter,
                    parameter.grad,
                    self.states[i],
                    self.rate,
                    self.betas,
                    self.eps,
                    self.weight_decay,
                )
                parameter.copy_(moved)


# What the checks train: small, and the same for everybody.


class WordModel(nn.Module):
    """The least that can be trained like a Transformer.

    It predicts a word from the one before it and the mean of the source. It
    remembers how it was called.
    """

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        d_model: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.source_embedding = nn.Embedding(source_vocab, d_model)
        self.target_embedding = nn.Embedding(target_vocab, d_model)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(d_model, target_vocab)
        # No loss reaches it, so it never has a gradient.
        self.spare = nn.Parameter(torch.ones(d_model))
        self.calls: list[tuple[bool, bool]] = []

    def forward(
        self,
        source: Int[Tensor, "batch key"],
        target: Int[Tensor, "batch query"],
    ) -> Float[Tensor, "batch query vocab"]:
        """Give each next word's logits, the target known."""
        self.calls.append((self.training, torch.is_grad_enabled()))
        read = self.source_embedding(source).mean(dim=1, keepdim=True)
        mixed = torch.tanh(self.target_embedding(target) + read)
        logits: Tensor = self.output(self.dropout(mixed))
        return logits

    def is_training(self) -> bool:
        """Tell in which mode the model is."""
        return self.training

    def seen(self) -> list[tuple[bool, bool]]:
        """Tell of every call whether it was in training mode, with gradients."""
        return self.calls

    def set_gradients(self, number: float) -> None:
        """Leave gradients behind, as an earlier step would."""
        for parameter in self.parameters():
            parameter.grad = torch.full_like(parameter, number)

    def gradients(self) -> list[Tensor | None]:
        """Give the gradients that are there."""
        return [parameter.grad for parameter in self.parameters()]


class Descent(nn.Module):
    """Plain gradient descent, with the methods of torch.optim."""

    def __init__(self, model: nn.Module, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.moved = list(model.parameters())
        self.param_groups = [{"params": self.moved, "lr": rate}]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        for parameter in self.moved:
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for parameter in self.moved:
            if parameter.grad is not None:
                parameter.sub_(self.rate * parameter.grad)
