"""Recognition by behaviour: what counts as the same mistake."""

import torch

from lab_grader.diagnosis import Known, fingerprint
from lab_grader.failures import Raised, WrongType
from lab_grader.submission import Reply, Seen

RIGHT = fingerprint(Seen(Reply(torch.tensor([True, False]))))


def wrong_type(mask: torch.Tensor) -> list:
    return fingerprint(Seen(WrongType("not boolean"), returned=Reply(mask)))


def raised(kind: str) -> list:
    return fingerprint(Seen(Raised("does not fit", kind)))


def test_a_wrong_kind_of_number_is_the_same_mistake_in_every_width() -> None:
    ones = torch.tensor([1, 0])
    assert wrong_type(ones.int()) == wrong_type(ones.byte()) == wrong_type(ones)
    assert wrong_type(ones.float()) == wrong_type(ones.double())
    assert wrong_type(ones.float()) != wrong_type(ones)


def test_a_misfit_of_axes_is_recognised_whichever_error_it_raises() -> None:
    known = Known({"call": RIGHT}, [(("axes",), {"call": raised("IndexError")})], {"axes": "words"})
    named = known.recognise({"call": raised("ValueError")})
    assert named is not None
    assert (named.name, named.exact) == ("axes", False)
    assert known.recognise({"call": raised("TypeError")}) is None


def test_the_turn_that_raises_the_very_same_error_comes_first() -> None:
    turns = [((kind,), {"call": raised(kind)}) for kind in ("IndexError", "ValueError")]
    known = Known({"call": RIGHT}, turns, {"IndexError": "", "ValueError": ""})
    named = known.recognise({"call": raised("ValueError")})
    assert named is not None
    assert (named.name, named.exact) == ("ValueError", True)
