"""Requests that were done once under a key of their sender, so that no other process of the store does them again.

A request is noted in the transaction of its first change: both are there, or neither. What is noted is a hash of the
key, a hash of the request, when it was, and which memories it has made; no word of what it said, which would outlive
what is forgotten. The notes stand among the store's metadata, under names that nothing else has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_retrievers.models.requests import (
    KEEP_SECONDS,
    TIME_DIGITS,
    DoneRequest,
    RequestUnderWay,
    is_old,
    now,
    under_way,
)

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.connection import Connection, Database

KEPT: Final = 1_000
"""Requests that are kept at least, the last ones; of more the oldest are forgotten now and then."""

_PREFIX: Final = "request:"
_BEHIND: Final = "request;"
_SWEEP_EVERY: Final = 16

OTHER_NOTES: Final = f"(name < '{_PREFIX}' OR name >= '{_BEHIND}')"
"""A condition on a row of ``notes``: it is no request."""

_ADD: Final = "INSERT INTO notes VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_PUT: Final = "UPDATE notes SET value = ? WHERE name = ?"
_READ: Final = "SELECT value FROM notes WHERE name = ?"
_ALL: Final = f"name >= '{_PREFIX}' AND name < '{_BEHIND}'"


class RepeatedRequestError(Exception):
    """Another process has changed the store under the same key meanwhile; nothing was written."""


def note_request(connection: Connection) -> None:
    """Note the request that this context works for, if any; in the transaction of a change.

    Raises:
        RepeatedRequestError: Somebody else has done it; the transaction must be undone.
    """
    request = under_way.get()
    if request is None:
        return
    name, value = _PREFIX + request.key, request.value
    request.is_noted = True
    if connection.execute(_ADD, (name, value)).rowcount:
        if int(request.key[:8], 16) % _SWEEP_EVERY == 0:
            _sweep(connection, at=request.at)
        return
    known = _read(connection, name)
    if known is not None and known.by != request.by and not is_old(known, at=request.at):
        raise RepeatedRequestError
    connection.execute(_PUT, (value, name))


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
            done = _read(connection, _PREFIX + key)
        return None if done is None or is_old(done, at=now()) else done

    def has_lost(self, done: DoneRequest) -> bool:
        """True if a memory that a request has made is forgotten."""
        asked = "SELECT 1 FROM memories WHERE scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ?"
        with self._database.read() as connection:
            made = [key for key, _ in done.made or ()]
            return any(connection.execute(asked, (key.scope, key.id)).fetchone() is None for key in made)

    def forget(self, request: RequestUnderWay) -> None:
        """Let a request be done again, which has failed after some of its changes."""
        name = _PREFIX + request.key
        with self._database.write() as connection:
            done = _read(connection, name)
            if done is not None and done.by == request.by:
                connection.execute("DELETE FROM notes WHERE name = ?", (name,))


def _read(connection: Connection, name: str) -> DoneRequest | None:
    found = connection.execute(_READ, (name,)).fetchone()
    return None if found is None else DoneRequest.parse(found[0])


def _sweep(connection: Connection, *, at: float) -> None:
    old = f"{int(at - KEEP_SECONDS):0{TIME_DIGITS}}"
    connection.execute(f"DELETE FROM notes WHERE {_ALL} AND value < ?", (old,))
    connection.execute(
        f"""DELETE FROM notes WHERE {_ALL} AND name NOT IN
        (SELECT name FROM notes WHERE {_ALL} ORDER BY value DESC LIMIT {KEPT})"""
    )
