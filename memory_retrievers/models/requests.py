"""Requests that are done once under a key of their sender, whichever process of a store is asked again."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import uuid_utils

from memory_retrievers.models.memories import AnyMemory, MemoryKey, SemanticMemory

KEEP_SECONDS: Final = 24 * 3600
"""How long it is known that a request is done."""


def now() -> float:
    """Return the seconds since 1970, by which all processes count."""
    return time.time()


class Made(NamedTuple):
    """A memory that a request has made, or confirmed.

    Attributes:
        key: Which one.
        was_known: It was there before, and is confirmed.
    """

    key: MemoryKey
    was_known: bool


@dataclass(frozen=True, slots=True)
class DoneRequest:
    """What is noted of a request.

    Attributes:
        request: The hash of what was asked.
        at: When, in seconds since 1970.
        by: Who has done it, a number that nothing else has.
        made: The memories that it has made and that are still there, in order; None if they are too many.
        has_lost: One that its answer may quote is forgotten, or they are too many to tell.
    """

    request: str
    at: float
    by: str
    made: tuple[Made, ...] | None
    has_lost: bool


@dataclass(slots=True)
class RequestUnderWay:
    """A request whose changes are being made in this context.

    Attributes:
        key: The hash of its key, in hexadecimal digits.
        request: The hash of what is asked.
        made: The memories that it has made so far.
        quoted: All that its answer may quote: what it has made or changed so far, and what that may contradict.
        at: Since when.
        by: A number that nothing else has.
        is_noted: It has begun to change something.
    """

    key: str
    request: str
    is_noted: bool = False
    made: list[Made] = field(default_factory=list)
    quoted: set[MemoryKey] = field(default_factory=set)
    at: float = field(default_factory=now)
    by: str = field(default_factory=lambda: str(uuid_utils.uuid7()))

    def note_made(self, memories: Iterable[AnyMemory]) -> None:
        """Have made these memories; before the transaction ends that stores them."""
        self.made += [
            Made(each.key, isinstance(each, SemanticMemory) and each.duplicate_of is not None) for each in memories
        ]


under_way: Final[ContextVar[RequestUnderWay | None]] = ContextVar("memory_retrievers_request", default=None)
"""The request of this context, whose first change notes it."""


def is_old(done: DoneRequest, *, at: float) -> bool:
    """True if a request may be done again under its key."""
    return at - done.at >= KEEP_SECONDS
