"""How a check ends when it does not hold, in words for the learner."""

from __future__ import annotations

from dataclasses import dataclass

Numbers = list[list[float]]
# What torch raises when axes do not fit each other.
MISFITS = {"IndexError", "RuntimeError", "ValueError"}


@dataclass(frozen=True)
class Picture:
    """Expected and actual numbers to lay side by side: rows, columns and their names.

    `worst` is the row and the column of the entry that the message names.
    """

    what: str
    axes: tuple[str, str]
    expected: Numbers
    actual: Numbers
    worst: tuple[int, int] | None = None


class TimeIsUp(BaseException):
    """Raised from outside into code that takes too long."""


class Failure(AssertionError):
    """A property that does not hold; the message is for the learner."""

    symptom = "property"

    @property
    def relation(self) -> str | None:
        """How wrong numbers relate to the right ones, where that is simple."""
        return None

    @property
    def picture(self) -> Picture | None:
        """Wrong numbers beside the right ones, where they are few."""
        return None


class WrongShape(Failure):
    """A result whose axes are not the ones asked for."""

    symptom = "shape"


class WrongType(Failure):
    """A result that is not the kind of thing asked for."""

    symptom = "type"


class WrongValue(Failure):
    """Numbers that differ from what they should be."""

    symptom = "value"


class NotFinite(Failure):
    """A NaN or an infinity where a number should be."""

    symptom = "not-finite"


class NoGradient(Failure):
    """A gradient that does not arrive."""

    symptom = "gradient"


class ChangedInput(Failure):
    """An argument that was changed in place."""

    symptom = "in-place"


class Raised(Failure):
    """The learner's code raised an exception."""

    symptom = "exception"

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind

    @property
    def said(self) -> str:
        """What the exception itself says, without the place."""
        return str(self).partition("\n")[0]

    def add_shapes(self, shapes: str) -> None:
        """Tell what the code was called with, where axes may not fit each other."""
        if shapes and self.kind in MISFITS:
            self.args = (f"{self}\n  called with {shapes}",)


class Missing(Failure):
    """A function, class or parameter that is not there."""

    symptom = "missing"


class NotStarted(Failure):
    """The code reached the stub of an exercise that has not been written yet."""

    symptom = "not-started"

    def __init__(self, exercise: str) -> None:
        super().__init__(f"exercise {exercise} is not written yet")
        self.exercise = exercise
