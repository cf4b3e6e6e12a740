"""Pictures as sequences: patches are the words."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lab_transformer._checks import check_shapes
from lab_transformer.families import gelu_encoder


#: id = "11.7"
#: title = "Patches of a picture"
#: points = 4
#: difficulty = 3
#: minutes = 20
#: needs = []
#: hints = [
#:     "Which pixels belong to the first patch: the first size * size of the picture, or others?",
#:     "Cut height and width into two axes each, then bring the axes of one patch side by side.",
#:     "(batch, channels, rows, size, columns, size): move axes 2 and 4 behind batch, then flatten.",
#: ]
def patches(
    images: Float[Tensor, "batch channels height width"],
    size: int,
) -> Float[Tensor, "batch seq d_patch"]:
    """Cut pictures into squares of size by size pixels, each a row of numbers.

    The patches come as one reads: the top row from left to right, then the
    next. In a patch come all pixels of the first channel, row by row, then
    those of the second.
    """
    check_shapes(images=(images, "batch channels height width"))
    height, width = images.shape[-2:]
    if size < 1 or height % size or width % size:
        sides = f"{height} by {width}"
        raise ValueError(f"{sides} does not split into squares of {size}")
    ### BEGIN SOLUTION
    batch, channels = images.shape[:2]
    rows, columns = height // size, width // size
    cut = images.reshape(batch, channels, rows, size, columns, size)
    return cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
    ### END SOLUTION


#: id = "11.8"
#: title = "A Transformer that sees"
#: points = 5
#: difficulty = 3
#: minutes = 30
#: needs = ["5.7", "11.7"]
#: hints = [
#:     "What in a picture is a word, and what says where it stood?",
#:     "Patches, embedded; [CLS] in front of them; a position for each, [CLS] too; encode.",
#:     "Expand self.cls to (batch, 1, d_model) and concatenate; self.output sees the first state.",
#: ]
class VisionTransformer(nn.Module):
    """Put pictures into classes: patches are embedded and read like words.

    `patches` is in scope.
    """

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        channels: int,
        classes: int,
        n_layers: int = 2,
        d_model: int = 64,
        n_heads: int = 4,
        d_ff: int = 128,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        if patch_size < 1 or image_size % patch_size:
            sides = f"{image_size} does not split into parts of {patch_size}"
            raise ValueError(f"pictures do not split into patches: {sides}")
        self.image_shape = (channels, image_size, image_size)
        self.patch_size = patch_size
        n_patches = (image_size // patch_size) ** 2
        self.embedding = nn.Linear(channels * patch_size**2, d_model)
        self.cls = nn.Parameter(torch.zeros(d_model))
        self.position_embedding = nn.Embedding(n_patches + 1, d_model)
        self.encoder = gelu_encoder(
            n_layers,
            d_model,
            n_heads,
            d_ff,
            norm_first,
        )
        self.output = nn.Linear(d_model, classes)
        nn.init.normal_(self.position_embedding.weight, std=0.02)

    def forward(
        self,
        images: Float[Tensor, "batch channels height width"],
    ) -> Float[Tensor, "batch classes"]:
        """Give every picture's logits, one for each class.

        Each patch goes through `embedding`. In front of the patches stands
        `cls`, the same for all pictures. Every one of these vectors, `cls`
        first, gets its position added: number 0 is that of `cls`. The encoder's
        state at `cls` goes through `output`.
        """
        check_shapes(images=(images, "batch channels height width"))
        shape = tuple(images.shape[1:])
        if shape != self.image_shape:
            raise ValueError(f"pictures are {self.image_shape}, not {shape}")
        ### BEGIN SOLUTION
        words = self.embedding(patches(images, self.patch_size))
        cls = self.cls.expand(len(words), 1, -1)
        x = torch.cat([cls, words], dim=1) + self.position_embedding.weight
        logits: Tensor = self.output(self.encoder(x)[:, 0])
        return logits
        ### END SOLUTION
