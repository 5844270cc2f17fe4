"""Requests that were done once under a key of their sender, so that no other process of the store does them again.

A request is noted in the transaction of its first change: both are there, or neither. What is noted is a hash of the
key, a hash of the request, when it was, and which memories it has made; no word of what it said, which would outlive
what is forgotten. The notes stand among the store's metadata, under names that nothing else has.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import uuid_utils

from memory_retrievers.backends.sql.connection import Connection, Database, one
from memory_retrievers.models import AnyMemory, MemoryKey, SemanticMemory

KEEP_SECONDS: Final = 24 * 3600
"""How long it is known that a request is done."""

KEPT: Final = 1_000
"""Requests that are kept at least, the last ones; of more the oldest are forgotten now and then."""

_MOST_MADE: Final = 100
"""Memories that are noted; of a request that has made more, only that it was done."""

_PREFIX: Final = "request:"
_BEHIND: Final = "request;"
_SWEEP_EVERY: Final = 16

OTHER_NOTES: Final = f"(name < '{_PREFIX}' OR name >= '{_BEHIND}')"
"""A condition on a row of ``notes``: it is no request."""

_ADD: Final = "INSERT INTO notes VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_PUT: Final = "UPDATE notes SET value = ? WHERE name = ?"
_READ: Final = "SELECT value FROM notes WHERE name = ?"
_ALL: Final = f"name >= '{_PREFIX}' AND name < '{_BEHIND}'"


def _now() -> float:
    return time.time()


class RepeatedRequestError(Exception):
    """Another process has changed the store under the same key meanwhile; nothing was written."""


class Made(NamedTuple):
    """A memory that a request has made, or confirmed.

    Attributes:
        key: Which one.
        was_known: It was there before, and was told again.
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
        made: The memories that it has made, in order; None if they are too many.
    """

    request: str
    at: float
    by: str
    made: tuple[Made, ...] | None

    @classmethod
    def parse(cls, value: str) -> DoneRequest:
        """Read what :meth:`RequestUnderWay.note` has written."""
        at, request, by, made = json.loads(value[_TIME_DIGITS:])
        known = None if made is None else tuple(Made(MemoryKey(scope=scope, id=id), old) for scope, id, old in made)  # noqa: A001
        return cls(request, at, by, known)


_TIME_DIGITS: Final = 12


@dataclass(slots=True)
class RequestUnderWay:
    """A request whose changes are being made in this context.

    Attributes:
        key: The hash of its key, in hexadecimal digits.
        request: The hash of what is asked.
        made: The memories that it has made so far.
        at: Since when.
        by: A number that nothing else has.
        is_noted: It has begun to change something.
    """

    key: str
    request: str
    is_noted: bool = False
    made: list[Made] = field(default_factory=list)
    at: float = field(default_factory=_now)
    by: str = field(default_factory=lambda: str(uuid_utils.uuid7()))

    @property
    def value(self) -> str:
        """What is noted: the time first, by which notes are sorted."""
        made = (
            [(each.key.scope, each.key.id, each.was_known) for each in self.made]
            if len(self.made) <= _MOST_MADE
            else None
        )
        return f"{int(self.at):0{_TIME_DIGITS}}{json.dumps([self.at, self.request, self.by, made])}"

    def note(self, connection: Connection) -> None:
        """Note the request in the transaction of a change.

        Raises:
            RepeatedRequestError: Somebody else has done it.
        """
        name, value = _PREFIX + self.key, self.value
        self.is_noted = True
        if connection.execute(_ADD, (name, value)).rowcount:
            if int(self.key[:8], 16) % _SWEEP_EVERY == 0:
                _sweep(connection, now=self.at)
            return
        known = DoneRequest.parse(one(connection, _READ, (name,)))
        if known.by != self.by and not is_old(known, now=self.at):
            raise RepeatedRequestError
        connection.execute(_PUT, (value, name))


under_way: Final[ContextVar[RequestUnderWay | None]] = ContextVar("memory_retrievers_request", default=None)
"""The request of this context, whose first change notes it."""


def note_request(connection: Connection) -> None:
    """Note the request that this context works for, if any; in the transaction of a change.

    Raises:
        RepeatedRequestError: Somebody else has done it; the transaction must be undone.
    """
    if (request := under_way.get()) is not None:
        request.note(connection)


def note_made(memories: Iterable[AnyMemory]) -> None:
    """Let the request of this context have made these memories; before its transaction ends."""
    if (request := under_way.get()) is not None:
        request.made += [
            Made(each.key, isinstance(each, SemanticMemory) and each.duplicate_of is not None) for each in memories
        ]


def is_old(done: DoneRequest, *, now: float) -> bool:
    """True if a request may be done again under its key."""
    return now - done.at >= KEEP_SECONDS


class SQLRequests:
    """The part of the ledger that knows which requests are done.

    Args:
        database: Where they are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, key: str) -> DoneRequest | None:
        """Return what is noted of the request of a key; None if there is none, or it is too long ago."""
        with self._database.read() as connection:
            value = one(connection, _READ, (_PREFIX + key,))
        done = None if value is None else DoneRequest.parse(value)
        return None if done is None or is_old(done, now=_now()) else done

    def has_lost(self, done: DoneRequest) -> bool:
        """True if a memory that a request has made is forgotten."""
        asked = "SELECT 1 FROM memories WHERE scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ?"
        with self._database.read() as connection:
            return any(one(connection, asked, (key.scope, key.id)) is None for key, _ in done.made or ())

    def forget(self, request: RequestUnderWay) -> None:
        """Let a request be done again, which has failed after some of its changes."""
        name = _PREFIX + request.key
        with self._database.write() as connection:
            value = one(connection, _READ, (name,))
            if value is not None and DoneRequest.parse(value).by == request.by:
                connection.execute("DELETE FROM notes WHERE name = ?", (name,))


def _sweep(connection: Connection, *, now: float) -> None:
    old = f"{int(now - KEEP_SECONDS):0{_TIME_DIGITS}}"
    connection.execute(f"DELETE FROM notes WHERE {_ALL} AND value < ?", (old,))
    connection.execute(
        f"""DELETE FROM notes WHERE {_ALL} AND name NOT IN
        (SELECT name FROM notes WHERE {_ALL} ORDER BY value DESC LIMIT {KEPT})"""
    )
