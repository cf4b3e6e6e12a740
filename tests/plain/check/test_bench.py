"""Running the exercise tests on results that nobody foresaw."""

from lab_check.running.bench import Bench, check
from lab_check.running.tests import load_tests
from lab_grader import bank


def test_a_result_that_cannot_be_looked_at_breaks_the_property_and_not_the_check() -> None:
    bench = Bench(lambda: bank.backend("7.5", lambda weights: {1, 2}))
    broken = [property for test in load_tests()["7.5"] if not (property := check(test, bench)).ok]
    assert broken
    assert any("cannot be compared" in property.message for property in broken)
