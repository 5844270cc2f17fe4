"""Associations, the audit log, and the queries of the memory tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final

from memory_retrievers.backends.sql import characters, removal
from memory_retrievers.backends.sql import selection as where
from memory_retrievers.backends.sql.connection import (
    OF_KEY,
    OF_SCOPE,
    Connection,
    Dialect,
    Part,
    Whole,
    ids_by_scope,
    insert,
    joining,
    one,
    places_of,
    scope_id_of,
)
from memory_retrievers.backends.sql.rows import BELOW, Plan, below, encode_time, load
from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.models import AnyMemory, Kind, MemoryKey
from memory_retrievers.models.fields import MICROSECOND, moment
from memory_retrievers.models.management import Association, AssociationType, AuditEntry, AuditType, MemoryFilter

_GIVEN: Final = "(SELECT row FROM memories WHERE scope_id = (SELECT id FROM scopes WHERE scope = :of) AND id = :id)"
_FIELDS: Final = "a.type, a.strength, a.auto_generated, a.created_at"
_ASSOCIATION: Final = Plan({"type": AssociationType, "strength": None, "auto_generated": bool, "created_at": moment})
_ENTRY: Final = Plan({"type": AuditType, "at": moment, "old": None, "new": None, "reason": None})

BETWEEN: Final = """FROM associations a
    JOIN memories m ON m.row = a.source JOIN scopes s ON s.id = m.scope_id
    JOIN memories n ON n.row = a.target JOIN scopes t ON t.id = n.scope_id
    WHERE m.scope_id IN ({scopes}) AND n.scope_id IN ({scopes})"""


def read_all_associations(whole: Whole) -> Iterator[Association]:
    """Read the associations whose memories both belong to the scopes, by scope and id."""
    found = whole.execute(
        f"""SELECT s.scope, m.id, t.scope, n.id, {_FIELDS} {BETWEEN.format(scopes=whole.scopes)}
        ORDER BY s.scope, m.id, t.scope, n.id"""
    )
    for source_scope, source_id, target_scope, target_id, *fields in found:
        source, target = MemoryKey(scope=source_scope, id=source_id), MemoryKey(scope=target_scope, id=target_id)
        yield Association(source=source, target=target, **_ASSOCIATION.decoded(fields))


def _oriented(key: MemoryKey, row: Sequence[Any]) -> Association:
    """Return the association as seen from one memory, whichever of the two it was made from."""
    *fields, is_source, other_scope, other_id = row
    other = MemoryKey(scope=other_scope, id=other_id)
    source, target = (key, other) if is_source else (other, key)
    return Association(source=source, target=target, **_ASSOCIATION.decoded(fields))


OF_SCOPES: Final = """FROM audit a JOIN memories m ON m.row = a.memory JOIN scopes s ON s.id = m.scope_id
    WHERE m.scope_id IN ({scopes})"""


def read_all_audit(whole: Whole) -> Iterator[AuditEntry]:
    """Read the audit entries of the memories of the scopes, by scope, id and time."""
    found = whole.execute(
        f"""SELECT s.scope, m.id, a.type, a.at, a.old, a.new, a.reason {OF_SCOPES.format(scopes=whole.scopes)}
        ORDER BY s.scope, m.id, a.at, a.id"""
    )
    for scope, id, *row in found:  # noqa: A001
        yield AuditEntry(memory=MemoryKey(scope=scope, id=id), **_ENTRY.decoded(row))


_ALL: Final = 2**62  # a limit that is none


class SQLManagement(Part):
    """Operations of a ledger for the memory tools. Methods that write may be called inside a transaction."""

    def select(
        self, filter: MemoryFilter, *, now: datetime, limit: int | None = None, offset: int = 0
    ) -> list[AnyMemory]:
        """List the memories that match a filter and have not expired, newest first.

        Args:
            filter: Conditions that the memories must meet.
            now: Leave out memories that expired by this time.
            limit: Maximum number of memories; None sets no limit.
            offset: Number of memories to skip.
        """
        in_scope = "s.scope" if filter.include_child_scopes else "m.id"  # one scope needs no third key
        with self.database.read() as connection:
            condition, values = _condition(self.dialect, filter, now)
            # The rows first, from an index where one will do; what is skipped is never read as a whole.
            rows = connection.execute(
                f"""SELECT m.row FROM memories m JOIN scopes s ON s.id = m.scope_id WHERE {condition}
                ORDER BY m.created_at DESC, m.id, {in_scope} LIMIT :limit OFFSET :offset""",
                {**values, "limit": _ALL if limit is None else limit, "offset": offset},
            )
            numbers = [row for (row,) in rows]
            memories = load(connection, numbers)
        return [memories[number] for number in numbers]

    def count(self, filter: MemoryFilter, *, now: datetime) -> int:
        """Count the memories that :meth:`select` would return without a limit."""
        condition, values = _condition(self.dialect, filter, now)
        return int(self.value(f"SELECT count(*) FROM memories m WHERE {condition}", values))

    def scopes(self, root: str, *, now: datetime) -> dict[str, int]:
        """Count the memories of ``root`` and of each scope below it, sorted by scope; empty scopes are left out.

        Memories that expired by ``now`` and invalidated facts are not counted.
        """
        found = self.query(
            f"""SELECT s.scope, count(*) FROM scopes s JOIN memories m ON m.scope_id = s.id
            WHERE {BELOW} AND m.invalid_at IS NULL AND {where.NOT_EXPIRED} GROUP BY s.scope ORDER BY s.scope""",
            below(root) | {"now": encode_time(now)},
        )
        return dict(found)

    def passages(self, keys: Sequence[MemoryKey]) -> dict[MemoryKey, int]:
        """Map each existing, searchable memory to the passage that holds its own text."""
        with self.database.read() as connection:
            dialect = connection.dialect
            sql = f"""SELECT m.id, p.id FROM memories m JOIN passages p ON p.memory = m.row {dialect.beside("p", "m")}
                WHERE m.{OF_SCOPE} AND {dialect.among("m.id", ":ids")} AND p.part = m.kind"""
            return {
                MemoryKey(scope=scope, id=id): passage
                for scope, ids in ids_by_scope(keys).items()
                for id, passage in connection.execute(sql, {"scope": scope, "ids": dialect.listed(ids)})  # noqa: A001
            }

    def write_use(self, memories: Sequence[AnyMemory]) -> None:
        """Write the importance, pin and access counts of stored memories, and nothing else."""
        use = attrgetter("importance", "importance_pinned", "access_count")
        with self.database.write(*{memory.scope for memory in memories}) as connection:
            connection.executemany(
                f"""UPDATE memories SET importance = ?, importance_pinned = ?, access_count = ?, last_accessed_at = ?
                WHERE {OF_KEY}""",
                [(*use(memory), encode_time(memory.last_accessed_at), memory.scope, memory.id) for memory in memories],
            )

    def move(self, keys: Sequence[MemoryKey], *, target_scope: str) -> None:
        """Move memories to another scope; their rows, passages and associations are kept.

        They leave the pending reviews of the scope they had, and what waits there for its judge with their words goes.
        Lists of ids in other memories stay as they are.

        Raises:
            ValidationError: An id is taken in the target; nothing was moved.
        """
        with self.database.write() as connection:
            target = scope_id_of(connection, target_scope)
            leaving = [key for key in keys if key.scope != target_scope]
            for scope, ids in ids_by_scope(leaving).items():
                removal.drop_conversations(connection, scope, ids)
                for id in ids:  # noqa: A001
                    _move(connection, MemoryKey(scope=scope, id=id), target)
                removal.strike_out(connection, scope, {MemoryKey(scope=scope, id=id) for id in ids}.__contains__)  # noqa: A001
                characters.strike_out(connection, scope, ids)
                removal.forget_empty_scopes(connection, scope)

    def associate(self, associations_: Sequence[Association]) -> int:
        """Associate pairs of memories; of two associations of one pair the stronger stays.

        One that names a memory that is not there, or one memory twice, is left out. Gives how many pairs are new.
        """
        ends = {end for association in associations_ for end in (association.source, association.target)}
        least, greatest = (f"{end}(source, target)" for end in (self.dialect.least, self.dialect.greatest))
        with joining(self.database, *{end.scope for end in ends}) as connection:
            places = places_of(connection, ends)
            asked: dict[tuple[int, int], dict[str, Any]] = {}
            for each in associations_:
                if each.source == each.target or not places.keys() >= {each.source, each.target}:
                    continue
                source, target = places[each.source].row, places[each.target].row
                values = {"source": source, "target": target, **_ASSOCIATION.encoded(each)}
                values["strength"] = min(1.0, max(0.0, each.strength))  # a cosine may be off by its rounding
                best = asked.setdefault((min(source, target), max(source, target)), values)
                if best["strength"] < values["strength"]:
                    best.update(values)
            found = connection.execute(  # by one end: by both, SQLite would look for each with each
                f"""SELECT {least}, {greatest}, strength FROM associations
                WHERE {self.dialect.among(least, ":rows")}""",
                {"rows": self.dialect.listed([*{first for first, _ in asked}])},
            )
            known = {(first, second): strength for first, second, strength in found}
            stronger = [pair for pair, values in asked.items() if known.get(pair, -1.0) < values["strength"]]
            weaker = [pair for pair in stronger if pair in known]
            connection.executemany(f"DELETE FROM associations WHERE {least} = ? AND {greatest} = ?", weaker)
            scope_ids = {place.row: place.scope_id for place in places.values()}
            insert(connection, "associations", [(scope_ids[asked[pair]["source"]], asked[pair]) for pair in stronger])
        return len(stronger) - len(weaker)

    def associations(
        self, key: MemoryKey, *, within: str, now: datetime, limit: int | None = None
    ) -> list[Association]:
        """List a memory's associations, the strongest first, then the newest.

        Args:
            key: The memory.
            within: Only associations with memories of this scope and those below it.
            now: Leave out memories that expired by this time, and invalidated facts.
            limit: Maximum number of associations; None sets no limit.
        """
        ends = [
            f"""SELECT {_FIELDS}, a.{its} = a.source AS is_source, s.scope AS scope, m.id AS id
            FROM associations a JOIN memories m ON m.row = a.{other} JOIN scopes s ON s.id = m.scope_id
            WHERE a.{its} = {_GIVEN} AND {BELOW} AND m.invalid_at IS NULL AND {where.NOT_EXPIRED}"""
            for its, other in (("source", "target"), ("target", "source"))
        ]
        found = self.query(
            f"SELECT * FROM ({' UNION ALL '.join(ends)}) AS ends ORDER BY strength DESC, created_at DESC, id, scope"
            f"{'' if limit is None else ' LIMIT :limit'}",
            {"of": key.scope, "id": key.id, "now": encode_time(now), "limit": limit, **below(within)},
        )
        return [_oriented(key, row) for row in found]

    def note(self, entries: Sequence[AuditEntry], *, spacing: timedelta | None = None) -> int:
        """Append to the audit log; entries about memories that do not exist are left out. Gives how many were appended.

        One that follows another of the same memory and type by less than ``spacing`` is skipped.
        """
        with self.database.write(*{entry.memory.scope for entry in entries}) as connection:
            places = places_of(connection, {entry.memory for entry in entries})
            last: dict[tuple[int, str], int] = {}
            if spacing is not None:
                noted = connection.execute(
                    f"""SELECT memory, type, max(at) FROM audit
                    WHERE {self.dialect.among("memory", ":rows")}
                    AND {self.dialect.among("type", ":types")} AND at > :since GROUP BY memory, type""",
                    {
                        "types": self.dialect.listed([*{entry.type for entry in entries}]),
                        "rows": self.dialect.listed([place.row for place in places.values()]),
                        "since": encode_time(min(entry.at for entry in entries) - spacing) if entries else 0,
                    },
                )
                last = {(row, type): at for row, type, at in noted}  # noqa: A001
            appended = []
            for entry in entries:
                if (place := places.get(entry.memory)) is not None:
                    values = {"memory": place.row, **_ENTRY.encoded(entry)}
                    before = last.get((place.row, entry.type))
                    if spacing is None or before is None or values["at"] - before >= spacing // MICROSECOND:
                        last[place.row, entry.type] = values["at"]
                        appended.append((place.scope_id, values))
            insert(connection, "audit", appended)
        return len(appended)

    def audit(self, key: MemoryKey) -> list[AuditEntry]:
        """List the audit entries of a memory, oldest first."""
        found = self.query(
            f"""SELECT type, at, old, new, reason FROM audit
            WHERE memory = (SELECT row FROM memories WHERE {OF_KEY}) ORDER BY at, id""",
            (key.scope, key.id),
        )
        return [AuditEntry(memory=key, **_ENTRY.decoded(row)) for row in found]

    def forget_audit(self, *, before: datetime) -> None:
        """Delete audit entries older than a time."""
        at = (encode_time(before),)
        scopes = self.column(
            """SELECT DISTINCT s.scope FROM audit a JOIN memories m ON m.row = a.memory
            JOIN scopes s ON s.id = m.scope_id WHERE a.at < ?""",
            at,
        )
        if scopes:
            with self.database.write(*scopes) as connection:
                connection.execute("DELETE FROM audit WHERE at < ?", at)


def _condition(dialect: Dialect, filter: MemoryFilter, now: datetime) -> tuple[str, dict[str, Any]]:
    """SQL condition for memories ``m`` of both kinds to match the filter, and its parameters."""
    selection = filter.selection(Kind.SEMANTIC, now=now)
    conditions = [
        f"m.scope_id {where.scope_condition(selection)}",
        where.NOT_EXPIRED,
        *where.narrowing(dialect, selection),
        *([] if filter.include_invalidated else ["m.invalid_at IS NULL"]),
    ]
    return " AND ".join(conditions), where.parameters(dialect, selection)


def _move(connection: Connection, key: MemoryKey, target: int) -> None:
    if one(connection, "SELECT 1 FROM memories WHERE scope_id = ? AND id = ?", (target, key.id)) is not None:
        raise ValidationError(f"id {key.id!r} is already taken in the target scope; nothing was moved")
    moved = f"UPDATE memories SET scope_id = ? WHERE {OF_KEY}"
    if not connection.execute(moved, (target, key.scope, key.id)).rowcount:
        raise NotFoundError(f"Memory not found: {key.id}")
