"""What the judge has heard before: the same answers to the same questions need no second judgement.

What a test asks next, and how it ends, follows from the seed and from what it has heard so far. So its
conversations are kept, and a submission that says, to the last byte, what an earlier one said gets that
one's result. Whoever says something new is judged by the test itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from lab_check.diagnosing import fingerprints
from lab_check.running.results import Property
from lab_grader.grading.judging.remote import Ear, Line, Talk

# What is kept of one test: so many conversations, each of so many messages and bytes at most. A class
# knows few ways to write a block, and a stranger must not fill the judge's memory.
_CONVERSATIONS, _MESSAGES, _BYTES = 100, 50, 2**18
_HEARD = 16 * 2**20  # bytes of the answers of a conversation; of a longer one nothing is written down
_ALL = 64 * 2**20  # bytes of the conversations of all tests in this process
_ENTRY = 100  # bytes of one entry of a trace, roughly

# Where a conversation starts. All sums have one length: no answer can pass for a sum and an answer.
_START = bytes(32)

# What the judge says: whether that is a new question, and the message.
Said = tuple[bool, bytes]


class Remembered:
    """The conversations of one test with all submissions so far."""

    def __init__(self) -> None:
        # What comes next, by a sum of all that was heard before: something to say, or the result.
        self._next: dict[bytes, Said | Property] = {}
        self._count = 0

    bytes_of_all = 0

    def judge(
        self, line: Line, deadline: float, check: Callable[[Talk], Property], ear: Ear | None = None
    ) -> Property:
        """Try a submission: without the test as far as the conversation is known, then with it."""
        talk = _Conversation(line, deadline, ear)
        heard = _START
        while (known := self._next.get(heard)) is not None:
            if isinstance(known, Property):
                return known
            answer = talk.ahead(known)
            if answer is None:
                break
            heard = _sum(heard, answer)
        try:
            property = check(talk)
        except _Deviation:
            return check(Talk(line, deadline, ear))
        # What the judge had no memory for depends on what else it held.
        if not (talk.lost or talk.endless or property.symptom == "memory"):
            self._keep(talk, property)
        return property

    def _keep(self, talk: _Conversation, property: Property) -> None:
        size = sum(len(message) for _, message in talk.said) + _ENTRY * fingerprints.size(
            property.trace
        )
        if self._count == _CONVERSATIONS or size > _BYTES:
            return
        if Remembered.bytes_of_all + size > _ALL:
            return
        Remembered.bytes_of_all += size
        self._count += 1
        heard = _START
        for said, answer in zip(talk.said, talk.heard, strict=True):
            self._next[heard] = said
            heard = _sum(heard, answer)
        self._next[heard] = property


def _sum(heard: bytes, answer: bytes) -> bytes:
    return hashlib.blake2b(heard + answer, digest_size=len(_START)).digest()


class _Deviation(BaseException):
    """The test says something else than it did before: rounding in the judge itself may do that."""


class _Conversation(Talk):
    """A talk that is written down; what was said ahead of the test is not said again."""

    def __init__(self, line: Line, deadline: float, ear: Ear | None) -> None:
        super().__init__(line, deadline, ear)
        self.said: list[Said] = []
        self.heard: list[bytes] = []
        self.lost = self.endless = False
        self._size = 0
        self._error: Exception | None = None
        self._sent = self._given = 0  # how much of it the test has been through

    def ahead(self, said: Said) -> bytes | None:
        """Say what the test will say, and give what comes back; if that fails, the test will fail."""
        new, message = said
        try:
            (super().ask if new else super().tell)(message)
            self.said.append(said)
            self.heard.append(super().hear())
        except Exception as error:
            self._error = error
            return None
        return self.heard[-1]

    def ask(self, message: bytes) -> None:
        if self._is_new(True, message):
            super().ask(message)

    def tell(self, message: bytes) -> None:
        if self._is_new(False, message):
            super().tell(message)

    def hear(self) -> bytes:
        if self._given < len(self.heard):
            self._given += 1
            return self.heard[self._given - 1]
        self._fail()
        message = super().hear()
        if not self.endless:
            self.heard.append(message)
            self._given += 1
            self._size += len(message)
            self.endless = len(self.heard) > _MESSAGES or self._size > _HEARD
        return message

    def drop(self) -> None:
        self.lost = True
        super().drop()

    def _is_new(self, new: bool, message: bytes) -> bool:
        self._sent += 1
        if self._sent <= len(self.said):
            if self.said[self._sent - 1] != (new, message):
                raise _Deviation
            return False
        self._fail()
        if not self.endless:
            self.said.append((new, message))
        return True

    def _fail(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
