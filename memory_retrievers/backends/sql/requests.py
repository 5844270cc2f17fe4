"""Requests that were carried out under a key of their sender, so that no other process of the store repeats them.

A request is noted in the transaction of its first change: both are there, or neither. What is noted is a hash of the
key, a hash of the request, when it was, and the numbers of the rows that it has made, and of others that its answer may
quote, with the moments of their last changes; no word, id or scope, which would outlive what is forgotten. The notes
stand among the store's metadata, under names that nothing else has.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import uuid_utils

from memory_retrievers.backends.sql.connection import Part, places_of
from memory_retrievers.models import AnyMemory, MemoryKey, SemanticMemory
from memory_retrievers.models.fields import moment

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.connection import Connection

KEEP_SECONDS: Final = 24 * 3600  # how long it is known that a request is done
KEPT: Final = 1_000  # requests that are kept at least, the last ones; of more the oldest are forgotten now and then
_MOST_QUOTED: Final = 256  # memories that are noted; of a request that has made or changed more, only that it was done
_TIME_DIGITS: Final = 12  # digits of the seconds that a note begins with, by which notes are sorted

_PREFIX: Final = "request:"
_BEHIND: Final = "request;"
_SWEEP_EVERY: Final = 16

OTHER_NOTES: Final = f"(name < '{_PREFIX}' OR name >= '{_BEHIND}')"
"""A condition on a row of ``notes``: it is no request."""

ADD_NOTE: Final = "INSERT INTO notes VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_ALL: Final = f"name >= '{_PREFIX}' AND name < '{_BEHIND}'"


def now() -> float:
    """Return the seconds since 1970, by which all processes count."""
    return time.time()


class Made(NamedTuple):
    """A memory that a request has made, or confirmed since it was there before."""

    key: MemoryKey
    was_known: bool


@dataclass(frozen=True, slots=True)
class DoneRequest:
    """What is noted of a request."""

    request: str  # the hash of what was asked
    at: float  # when, in seconds since 1970
    by: str  # who has done it, a number that nothing else has
    # the memories that it has made and that are still there, in order; None if they are too many
    made: tuple[Made, ...] | None
    has_lost: bool  # one that its answer may quote is forgotten, or they are too many to tell
    has_changed: bool = False  # one that its answer may quote has changed since
    expires_at: datetime | None = None  # when the first of these expires

    def is_outdated(self, *, now: datetime) -> bool:
        """True if an answer that was given then may quote what is not so any more."""
        return self.has_lost or self.has_changed or (self.expires_at is not None and self.expires_at <= now)


@dataclass(slots=True)
class RequestUnderWay:
    """A request whose changes are being made in this context."""

    key: str  # the hash of its key, in hexadecimal digits
    request: str  # the hash of what is asked
    is_noted: bool = False  # it has changed something
    noted: int = 0  # how many memories its answer was known to tell when it was noted last
    made: list[Made] = field(default_factory=list)  # the memories that it has made so far
    # all that its answer may quote: what it has made or changed so far, and what that may contradict
    quoted: set[MemoryKey] = field(default_factory=set)
    at: float = field(default_factory=now)  # since when
    by: str = field(default_factory=lambda: str(uuid_utils.uuid7()))  # a number that nothing else has

    @property
    def told(self) -> set[MemoryKey]:
        """All that its answer may tell."""
        return {key for key, _ in self.made} | self.quoted

    def note_made(self, memories: Iterable[AnyMemory]) -> None:
        """Record that these memories were made; called before the transaction that stores them ends."""
        self.made += [
            Made(each.key, isinstance(each, SemanticMemory) and each.duplicate_of is not None) for each in memories
        ]


under_way: Final[ContextVar[RequestUnderWay | None]] = ContextVar("memory_retrievers_request", default=None)
"""The request of this context, whose first change notes it."""


@contextmanager
def beside_request() -> Iterator[None]:
    """Change what the request of this context did not ask for: it does not note it as done."""
    token = under_way.set(None)
    try:
        yield
    finally:
        under_way.reset(token)


class RepeatedRequestError(Exception):
    """Another process has changed the store under the same key meanwhile; nothing was written."""


@contextmanager
def noting(connection: Connection, request: RequestUnderWay) -> Iterator[None]:
    """Note the request of this context in the transaction of a change, which the block commits.

    Raises:
        RepeatedRequestError: Somebody else has done it; the transaction must be undone.
    """
    name, value = _PREFIX + request.key, _value(connection, request)
    request.noted = len(request.told)
    if connection.execute(ADD_NOTE, (name, value)).rowcount:
        if int(request.key[:8], 16) % _SWEEP_EVERY == 0:
            _sweep(connection, at=request.at)
    else:
        known = _read(connection, name)
        if known is not None and known.by != request.by and request.at - known.at < KEEP_SECONDS:
            raise RepeatedRequestError
        connection.execute("UPDATE notes SET value = ? WHERE name = ?", (value, name))
    yield
    request.is_noted = True  # where a lost connection leaves open whether it is committed, the note alone knows


class SQLRequests(Part):
    """The part of the ledger that knows which requests are done."""

    def find(self, key: str) -> DoneRequest | None:
        """Return what is noted of the request of a key; None if there is none, or it is too long ago."""
        with self.database.read() as connection:
            done = _read(connection, _PREFIX + key)
        return None if done is None or now() - done.at >= KEEP_SECONDS else done

    def note_quoted(self, request: RequestUnderWay) -> None:
        """Note what the answer of the request of this context quotes beside what it has changed."""
        if len(request.told) > request.noted:
            with self.database.write(*{key.scope for key in request.told}):
                pass  # noted at its end

    def forget(self, request: RequestUnderWay) -> None:
        """Allow a request that failed after some of its changes to be made again."""
        name = _PREFIX + request.key
        with self.database.write() as connection:
            done = _read(connection, name)
            if done is not None and done.by == request.by:
                connection.execute("DELETE FROM notes WHERE name = ?", (name,))


def _value(connection: Connection, request: RequestUnderWay) -> str:
    rows: list[tuple[int, bool]] | None = None
    others: list[int] = []
    changed: dict[int, int] = {}
    made = {key for key, _ in request.made}
    told = request.told
    found = places_of(connection, told) if len(told) <= _MOST_QUOTED else {}
    if len(found) == len(told):  # of what is gone by now no answer is given again
        rows = [(found[key].row, old) for key, old in request.made]
        others = [place.row for key, place in found.items() if key not in made]
        changed = {place.row: place.updated_at for place in found.values()}
    note = json.dumps([request.at, request.request, request.by, rows, others, [*changed.items()]])
    return f"{int(request.at):0{_TIME_DIGITS}}{note}"


def _read(connection: Connection, name: str) -> DoneRequest | None:
    found = connection.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
    if found is None:
        return None
    note: list[Any] = json.loads(found[0][_TIME_DIGITS:])
    at, request, by, rows, others, changed = note + [[], []][len(note) - 4 :]  # earlier versions noted less
    if rows is None:
        return DoneRequest(request, at, by, None, has_lost=True)
    known = {*others, *(row for row, _ in rows)}
    dialect = connection.dialect
    found = connection.execute(
        f"""SELECT m.row, s.scope, m.id, m.updated_at, m.expires_at FROM memories m JOIN scopes s ON s.id = m.scope_id
        WHERE {dialect.among("m.row", ":rows")}""",
        {"rows": dialect.listed([*known])},
    ).fetchall()
    there = {row: MemoryKey(scope=scope, id=id) for row, scope, id, *_ in found}  # noqa: A001
    made = tuple(Made(there[row], old) for row, old in rows if row in there)
    before = dict(changed)
    has_changed = any(before.get(row, at) != at for row, _, _, at, _ in found)
    expires_at = min((moment(ends) for *_, ends in found if ends is not None), default=None)
    return DoneRequest(request, at, by, made, len(there) < len(known), has_changed, expires_at)


def _sweep(connection: Connection, *, at: float) -> None:
    old = f"{int(at - KEEP_SECONDS):0{_TIME_DIGITS}}"
    connection.execute(f"DELETE FROM notes WHERE {_ALL} AND value < ?", (old,))
    connection.execute(
        f"""DELETE FROM notes WHERE {_ALL} AND name NOT IN
        (SELECT name FROM notes WHERE {_ALL} ORDER BY value DESC LIMIT {KEPT})"""
    )
