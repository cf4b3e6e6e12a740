"""Mistakes without a name: how the wrong numbers relate to the right ones."""

import pytest
import torch

from lab_check.calling.failures import WrongValue
from lab_check.diagnosing.patterns import relation
from lab_check.running.testing import agree

RIGHT = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
SQUARE = torch.randn(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
WEIGHTS = SQUARE.softmax(dim=-1)


@pytest.mark.parametrize(
    ("actual", "wanted", "said"),
    [
        (RIGHT * 0, RIGHT, "it is zero everywhere"),
        (RIGHT * 0 + 0.25, RIGHT, "it is 0.25 everywhere"),
        (-RIGHT, RIGHT, "every sign is reversed"),
        (RIGHT * 2.5, RIGHT, "every number is 2.5 times what it should be"),
        (
            RIGHT * 1.00002,
            RIGHT,
            "all numbers are nearly right, as when a step is done in a smaller dtype or adds an eps",
        ),
        (RIGHT - 3, RIGHT, "every number is 3 too small"),
        (SQUARE.mT, SQUARE, "rows and columns are exchanged"),
        (RIGHT.flip(0), RIGHT, "the order along query is reversed"),
        (RIGHT.roll(1, dims=1), RIGHT, "along key, everything stands one place too late"),
        (RIGHT.roll(-1, dims=1), RIGHT, "along key, everything stands one place too early"),
        (SQUARE.softmax(dim=0), WEIGHTS, "the numbers sum to one over query, not over key"),
        (SQUARE.exp(), WEIGHTS, "the numbers do not sum to one over key"),
        (RIGHT.sin(), RIGHT, None),
        (RIGHT * torch.nan, RIGHT, None),
    ],
)
def test_a_simple_relation_is_said_in_words(actual, wanted, said):
    assert relation(actual, wanted, "query key") == said


def test_a_comparison_that_fails_carries_the_relation_and_a_picture():
    with pytest.raises(WrongValue, match=r"the weight is .* at query .*, key .*, expected") as raised:
        agree(RIGHT * 2, RIGHT, "the weight", "query key")
    assert raised.value.relation == "every number is 2 times what it should be"
    assert raised.value.picture is not None
    assert raised.value.picture.expected == RIGHT.tolist()
