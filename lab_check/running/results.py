"""How a test and how an exercise ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from lab_check.calling.failures import Picture
from lab_check.diagnosing.fingerprints import Trace
from lab_check.diagnosing.turns import Diagnosis
from lab_check.exercises import Exercise


@dataclass(frozen=True)
class Property:
    """How one test ended."""

    sentence: str
    guard: bool
    ok: bool
    message: str = ""
    symptom: str = ""
    reached_stub: str | None = None
    trace: Trace = field(default_factory=dict, repr=False)
    picture: Picture | None = field(default=None, repr=False)
    relation: str = ""
    printed: str = ""

    @property
    def said(self) -> str:
        """The message, with how wrong numbers relate to right ones where that is simple."""
        return f"{self.message}: {self.relation}" if self.relation else self.message


class Status(StrEnum):
    """How an exercise stands; one that waits does so for another that is not right yet."""

    RIGHT = "right"
    WRONG = "wrong"
    NOT_STARTED = "not_started"
    WAITING = "waiting"


@dataclass
class Result:
    """How one exercise ended."""

    exercise: Exercise
    status: Status
    properties: list[Property] = field(default_factory=list)
    waits_for: str | None = None
    diagnosis: Diagnosis | None = None
    seconds: float = 0.0

    @property
    def points(self) -> float:
        """Partial credit by property. A guard earns nothing, but costs as much when it is broken."""
        earned = sum(property.ok and not property.guard for property in self.properties)
        counted = sum(not property.guard or not property.ok for property in self.properties)
        return round(self.exercise.points * earned / counted, 2) if counted else 0.0

    @property
    def broken(self) -> list[Property]:
        """The properties that do not hold."""
        return [property for property in self.properties if not property.ok]
