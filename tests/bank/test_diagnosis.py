"""Recognition by behaviour: what counts as the same mistake."""

import torch

from lab_check.calling.calls import Reply
from lab_check.calling.failures import Raised, WrongType
from lab_check.diagnosing.fingerprints import fingerprint
from lab_check.diagnosing.turns import KnownTurns
from lab_check.running.submission import Seen


def wrong_type(mask: torch.Tensor) -> list:
    return fingerprint(Seen(WrongType("not boolean"), returned=Reply(mask)))


def raised(said: str, kind: str = "RuntimeError") -> list:
    return fingerprint(Seen(Raised(f"{kind}: {said}\n  at line 3", kind)))


def value(number: float) -> list:
    return fingerprint(Seen(Reply(torch.tensor([number, 1.0]))))


def known(**turns: dict) -> KnownTurns:
    calls = {key for trace in turns.values() for key in trace}
    listed = [(tuple(name.split("_")), trace) for name, trace in turns.items()]
    words = {name: f"{name}." for names, _ in listed for name in names}
    return KnownTurns(dict.fromkeys(calls, value(0.0)), listed, words)


def test_a_wrong_kind_of_number_is_the_same_mistake_in_every_width() -> None:
    ones = torch.tensor([1, 0])
    assert wrong_type(ones.int()) == wrong_type(ones.byte()) == wrong_type(ones)
    assert wrong_type(ones.float()) == wrong_type(ones.double())
    assert wrong_type(ones.float()) != wrong_type(ones)


def test_an_error_is_recognised_by_what_it_says() -> None:
    turns = known(a={"call": raised("size 5 does not match")}, b={"call": raised("no axis 3")})
    assert turns.recognise({"call": raised("no axis 3")}).name == "b"
    assert turns.recognise({"call": raised("size 7 does not match")}).name == "a"


def test_an_error_that_says_something_else_is_not_named() -> None:
    turns = known(a={"call": raised("size 5 does not match")})
    assert turns.recognise({"call": raised("something new")}) is None


def test_a_mistake_made_in_some_cases_only_is_named() -> None:
    turns = known(a={str(i): value(i + 2.0) for i in range(6)})
    trace = {str(i): value(i + 2.0 if i < 2 else 0.0) for i in range(6)}
    found = turns.recognise(trace)
    assert (found.name, found.exact) == ("a", False)


def test_a_single_turn_comes_before_a_pair_that_explains_little_more() -> None:
    calls = {str(i): value(i + 2.0) for i in range(20)}
    turns = known(a=calls | {"0": value(9.0)}, a_b=calls | {"1": value(9.0)}, b={"0": value(2.0)})
    assert turns.recognise(calls).name == "a"


def test_of_pairs_that_do_the_same_the_likelier_is_named() -> None:
    both = {"0": value(3.0), "1": value(4.0)}
    turns = known(
        a={"0": value(7.0), "1": value(4.0)},
        b={"0": value(3.0), "1": value(8.0)},
        a_c=both,
        a_b=both,
        c={"0": value(5.0), "1": value(5.0)},
    )
    assert turns.recognise(both).name == "a + b"


def test_two_mistakes_are_named_where_one_is_an_error_that_hides_the_other() -> None:
    right = {f"{test}/0": value(0.0) for test in "abcdef"}
    turns = known(
        fails=right | {"a/0": raised("no axis 3"), "b/0": raised("no axis 3")},
        off=right | {f"{test}/0": value(7.0) for test in "bcd"},
    )
    both = right | {"a/0": raised("no axis 3"), "b/0": raised("no axis 3")}
    both |= {"c/0": value(7.0), "d/0": value(7.0)}
    found = turns.recognise(both)
    assert (found.name, found.message) == ("fails + off", "fails.\noff.")


def test_what_is_wrong_past_an_error_of_unknown_cause_is_named() -> None:
    right = {f"{test}/0": value(0.0) for test in "abcdef"}
    turns = known(off=right | {f"{test}/0": value(7.0) for test in "bcd"})
    failed = {f"{test}/0": raised("something new") for test in "abe"}
    found = turns.recognise(right | failed | {"c/0": value(7.0), "d/0": value(7.0)})
    assert found.name == "off"


def test_errors_in_the_same_tests_are_the_same_mistake_whatever_they_say() -> None:
    right = {f"{test}/0": value(0.0) for test in "abcd"}
    turns = known(
        batches=right | {"a/0": raised("no axis 3")}, all={key: raised("no axis 3") for key in right}
    )
    assert turns.recognise(right | {"a/0": raised("expected 3 axes")}).name == "batches"
    assert turns.recognise(right | {"b/0": raised("expected 3 axes")}) is None
    assert turns.recognise(right | {"a/0": raised("what?", "KeyError")}) is None
    assert turns.recognise({key: raised("expected 3 axes") for key in right}) is None
