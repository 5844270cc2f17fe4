"""The log of what happened to memories: who did what and when, without a word of what a memory says.

An entry belongs to its memory: it moves with it and is gone with it. When it is forgotten, an entry without its id
is left for as long as its scope holds anything else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from memory_retrievers.backends.sql import selection as where
from memory_retrievers.backends.sql.connection import OF_SCOPE, Connection, Cursor, Database, Part, Whole, joining, one
from memory_retrievers.backends.sql.requests import under_way
from memory_retrievers.backends.sql.rows import BELOW, Plan, below, decode_names, encode_time, readable
from memory_retrievers.models import MemoryKey
from memory_retrievers.models.fields import moment
from memory_retrievers.models.management import Channel, MemoryEvent, MemoryEventType, acting

KEPT_OF_A_TYPE: Final = 20
"""Entries of one type that a memory keeps, the newest: so many reviews push out no other entries."""

KEPT_FORGOTTEN: Final = 1_000  # entries about forgotten memories that a scope keeps, the newest

KEPT: Final = 1_000_000
"""Entries that a store keeps; on PostgreSQL each scope keeps those among the last so many of the store."""

_MESSAGES: Final = "messages"  # the field of an entry that tells of queued messages
_BETWEEN_LOOKS: Final = 1_000  # entries that a process writes before it looks again whether there are too many in all

_EVENT: Final = Plan({"type": MemoryEventType, "at": moment, "channel": Channel, "actor": None, "fields": decode_names})
_COLUMNS: Final = "scope_id, memory, type, at, channel, actor, fields"
_VALUES: Final = "CAST(:type AS TEXT), CAST(:at AS BIGINT), CAST(:channel AS TEXT), CAST(:actor AS TEXT), :fields"
_NOTE: Final = f"""INSERT INTO events ({_COLUMNS}) SELECT m.scope_id, m.row, {_VALUES} FROM memories m
    WHERE m.{OF_SCOPE} AND m.id = :id"""
_NOTE_FORGOTTEN: Final = f"""INSERT INTO events ({_COLUMNS}) SELECT s.id, CAST(NULL AS BIGINT), {_VALUES}
    FROM scopes s WHERE s.scope = :scope"""
_NOTE_IMPORTED: Final = f"""INSERT INTO events ({_COLUMNS}) SELECT m.scope_id, m.row, {_VALUES} FROM memories m
    WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.scope_id = m.scope_id AND e.memory = m.row)"""
_BOUND: Final = """DELETE FROM events WHERE {of_scope} AND {which} AND id <= (SELECT id FROM events
    WHERE {of_scope} AND {which} ORDER BY id DESC LIMIT 1 OFFSET {kept})"""
_OF_MEMORY: Final = f"memory = (SELECT row FROM memories WHERE {OF_SCOPE} AND id = :id)"
_BOUND_OF_TYPE: Final = _BOUND.format(of_scope=OF_SCOPE, which=f"{_OF_MEMORY} AND type = :type", kept=KEPT_OF_A_TYPE)
_NOTE_OF_ROW: Final = f"""WITH old AS (
    {_BOUND.format(of_scope="scope_id = :scope_id", which="memory = :row AND type = :type", kept=KEPT_OF_A_TYPE - 1)})
    INSERT INTO events ({_COLUMNS}) SELECT CAST(:scope_id AS BIGINT), CAST(:row AS BIGINT), {_VALUES}"""
_BOUND_FORGOTTEN: Final = _BOUND.format(of_scope=OF_SCOPE, which="memory IS NULL", kept=KEPT_FORGOTTEN)
_READ: Final = """SELECT s.scope, m.id, e.type, e.at, e.channel, e.actor, e.fields
    FROM events e JOIN scopes s ON s.id = e.scope_id LEFT JOIN memories m ON m.row = e.memory"""
OF_SCOPES: Final = "FROM events e JOIN scopes s ON s.id = e.scope_id WHERE e.scope_id IN ({scopes})"


class SQLEvents(Part):
    """The part of the ledger that tells what happened to memories."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._unlooked = _BETWEEN_LOOKS  # the first write of a process looks

    def note(
        self,
        keys: Collection[MemoryKey],
        type: MemoryEventType,
        *,
        at: datetime,
        fields: tuple[str, ...] = (),
        places: Collection[tuple[int, int]] = (),
    ) -> None:
        """Note what happens to memories, in the transaction in which it does; those that are not there are left out.

        Args:
            keys: The memories; of those that are forgotten only their scopes are noted.
            type: What happens.
            at: When.
            fields: Names of the fields that change.
            places: Of what may happen again, the row ids of each memory's scope and of itself, if they are known.
        """
        channel, actor = acting.get()
        is_gone = type in {MemoryEventType.FORGOTTEN, MemoryEventType.EXPIRED}
        if not is_gone and (request := under_way.get()) is not None:
            request.quoted.update(keys)
        event = partial(MemoryEvent, type=type, at=at, channel=channel, actor=actor, fields=fields)
        self._store([event(scope=key.scope, id=None if is_gone else key.id) for key in keys], places)

    def restore(self, events: Sequence[MemoryEvent]) -> int:
        """Store entries as they are, in their order; returns how many, without those of memories that are not there."""
        return sum(cursor.rowcount for cursor in self._store(events))

    def _store(self, events: Sequence[MemoryEvent], places: Collection[tuple[int, int]] = ()) -> list[Cursor]:
        """Store entries, whose cursors know how many; none is waited for."""
        stored: list[Cursor] = []
        if not events:
            return stored
        with joining(self.database, *{event.scope for event in events}) as connection:
            forms = [(False, _NOTE, _BOUND_OF_TYPE), (True, _NOTE_FORGOTTEN, _BOUND_FORGOTTEN)]
            if places and connection.dialect.keyed_by_scope:  # by one statement, which looks nothing up
                known = zip(map(_values, events), places, strict=True)
                rows = [{**values, "scope_id": scope_id, "row": row} for values, (scope_id, row) in known]
                stored.append(connection.executemany(_NOTE_OF_ROW, rows))
                forms = []
            for forgotten, note, bound in forms:
                rows = [_values(event) for event in events if (event.id is None) is forgotten]
                if not rows:
                    continue
                stored.append(connection.executemany(note, rows))
                again = [row for row in rows if row["type"] != MemoryEventType.CREATED]  # which happens once
                if again:
                    bounded = {(row["scope"], row["id"], row["type"]) for row in again}
                    names = ("scope", "id", "type")
                    connection.executemany(bound, [dict(zip(names, each, strict=True)) for each in sorted(bounded)])
            self._unlooked += len(events)
            if self._unlooked >= _BETWEEN_LOOKS:
                self._unlooked = 0
                _bound_all(connection, {event.scope for event in events})
        return stored

    def note_unheard(self, scope: str, *, at: datetime) -> None:
        """Note that queued messages of a scope are forgotten, in the transaction in which they are."""
        self.note([MemoryKey(scope=scope, id="")], MemoryEventType.FORGOTTEN, at=at, fields=(_MESSAGES,))

    def unheard_since(self, scope: str) -> datetime | None:
        """Return when queued messages of a scope, or below, were last forgotten, which what was asked may quote."""
        within = f"SELECT id FROM scopes WHERE {BELOW}"
        last = f"SELECT max(at) FROM events WHERE scope_id IN ({within}) AND memory IS NULL AND fields = :fields"
        at = self.value(last, below(scope) | {"fields": _MESSAGES})
        return None if at is None else moment(at)

    def note_imported(self, *, at: datetime) -> None:
        """Note of every memory of which nothing is known that it came with an import."""
        channel, actor = acting.get()
        came = MemoryEvent(scope="", id=None, type=MemoryEventType.IMPORTED, at=at, channel=channel, actor=actor)
        with self.database.write() as connection:
            connection.execute(_NOTE_IMPORTED, _values(came))

    def events(self, scope: str, *, id: str | None, now: datetime, limit: int) -> list[MemoryEvent]:
        """List what happened to a memory, or to the memories of a scope, newest first.

        Args:
            scope: The scope.
            id: Of this memory alone; None is all, and those that are forgotten.
            now: Leave out memories that expired by this time.
            limit: Maximum number of entries.
        """
        which = "" if id is None else f"AND e.{_OF_MEMORY}"
        found = self.query(
            f"""{_READ} {self.dialect.beside("m", "e")}
            WHERE e.{OF_SCOPE} {which} AND {where.NOT_EXPIRED} ORDER BY e.id DESC LIMIT :limit""",
            {"scope": scope, "id": id, "now": encode_time(now), "limit": limit},
        )
        return [_event(row) for row in found]


def read_all(whole: Whole) -> Iterator[MemoryEvent]:
    """Read what happened to the memories of the scopes, by scope and in order, which a copy keeps."""
    found = whole.execute(
        f"""{_READ} {whole.connection.dialect.beside("m", "e")} WHERE e.scope_id IN ({whole.scopes})
        ORDER BY s.scope, e.id"""
    )
    return (_event(row) for row in found)


def problems(connection: Connection) -> Iterator[str]:
    """Describe entries that belong to no memory, or that cannot be read."""
    lost = """SELECT count(*) FROM events e WHERE memory IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.row = e.memory AND m.scope_id = e.scope_id)"""
    if count := int(one(connection, lost)):
        yield f"{count} entries of the log belong to no memory: purge removes them"
    known = ", ".join(f"'{each}'" for each in MemoryEventType)
    if count := int(one(connection, f"SELECT count(*) FROM events WHERE type NOT IN ({known})")):
        yield f"{count} entries of the log tell of something that this version does not know"


def sweep(connection: Connection) -> None:
    """Delete entries that belong to no memory, and the oldest beyond those that are kept."""
    connection.execute(
        """DELETE FROM events WHERE memory IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.row = events.memory AND m.scope_id = events.scope_id)"""
    )
    connection.execute(f"DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - {KEPT}")


def _bound_all(connection: Connection, scopes: Collection[str]) -> None:
    """Delete the oldest entries beyond those that are kept; on PostgreSQL of the scopes that this transaction has."""
    if not connection.dialect.keyed_by_scope:
        connection.execute(f"DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - {KEPT}")
        return
    for scope in sorted(scopes):
        connection.execute(
            f"""DELETE FROM events WHERE {OF_SCOPE}
            AND id <= (SELECT max(id) FROM events WHERE {OF_SCOPE}) - {KEPT}""",
            {"scope": scope},
        )


def _values(event: MemoryEvent) -> dict[str, Any]:
    return {"scope": event.scope, "id": event.id, **_EVENT.encoded(event)}


def _event(row: Sequence[Any]) -> MemoryEvent:
    scope, id, *fields = row  # noqa: A001
    with readable(f"an entry of the log of scope {scope!r}"):
        return MemoryEvent(scope=scope, id=id, **_EVENT.decoded(fields))
