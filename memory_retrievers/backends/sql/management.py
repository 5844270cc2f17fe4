"""What the memory tools ask of the ledger: lists by filter, use, moves, and removal of many."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from memory_retrievers import scopes
from memory_retrievers.backends.sql import associations, audit, characters, records, removal, reviews
from memory_retrievers.backends.sql import selection as where
from memory_retrievers.backends.sql.connection import Connection, Database, Dialect, one
from memory_retrievers.backends.sql.rows import decode, encode_time
from memory_retrievers.backends.sql.stored import memory_query
from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.managed import Association, AuditEntry, MemoryFilter
from memory_retrievers.models import AnyMemory, Kind, MemoryKey

_ALL: Final = 2**62
"""A limit that is none."""


class SQLManagement:
    """A ``protocols.Management`` beside the ledger's tables.

    Args:
        database: Where the memories are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def select(
        self,
        filter: MemoryFilter,
        *,
        now: datetime,
        limit: int | None = None,
        offset: int = 0,
        newest_first: bool = True,
    ) -> list[AnyMemory]:
        """See ``protocols.Management``."""
        in_scope = "s.scope" if filter.include_child_scopes else "m.id"  # one scope needs no third key
        direction = "DESC" if newest_first else "ASC"
        with self._database.read() as connection:
            dialect = connection.dialect
            condition, values = _condition(dialect, filter, now)
            # The rows first, from an index where one will do; what is skipped is never read as a whole.
            rows = connection.execute(
                f"""SELECT m.row FROM memories m JOIN scopes s ON s.id = m.scope_id WHERE {condition}
                ORDER BY m.created_at {direction}, m.id, {in_scope} LIMIT :limit OFFSET :offset""",
                {**values, "limit": _ALL if limit is None else limit, "offset": offset},
            )
            numbers = [row for (row,) in rows]
            found = connection.execute(
                f"{memory_query(dialect, first='m.row, ')} WHERE {dialect.among('m.row', ':rows')}",
                {"rows": dialect.listed(numbers)},
            )
            memories = {row[0]: decode(row[1:]) for row in found}
        return [memories[number] for number in numbers]

    def count(self, filter: MemoryFilter, *, now: datetime) -> int:
        """See ``protocols.Management``."""
        with self._database.read() as connection:
            condition, values = _condition(connection.dialect, filter, now)
            return int(one(connection, f"SELECT count(*) FROM memories m WHERE {condition}", values))

    def scopes(self, root: str, *, now: datetime) -> dict[str, int]:
        """See ``protocols.Management``."""
        with self._database.read() as connection:
            found = connection.execute(
                f"""SELECT s.scope, count(*) FROM scopes s JOIN memories m ON m.scope_id = s.id
                WHERE {removal.SCOPE_AND_CHILDREN} AND m.invalid_at IS NULL
                AND (m.expires_at IS NULL OR m.expires_at > :now) GROUP BY s.scope ORDER BY s.scope""",
                {"now": encode_time(now), **removal.scope_values(root, include_child_scopes=True)},
            )
            return dict(found.fetchall())

    def passages(self, keys: Sequence[MemoryKey]) -> dict[MemoryKey, int]:
        """See ``protocols.Management``."""
        with self._database.read() as connection:
            dialect = connection.dialect
            sql = f"""SELECT m.id, p.id FROM memories m JOIN passages p ON p.memory = m.row {dialect.beside("p", "m")}
                WHERE m.scope_id = (SELECT id FROM scopes WHERE scope = :scope) AND {dialect.among("m.id", ":ids")}
                AND p.part = m.kind"""
            return {
                MemoryKey(scope=scope, id=id): passage
                for scope, ids in _by_scope(keys).items()
                for id, passage in connection.execute(sql, {"scope": scope, "ids": dialect.listed(ids)})  # noqa: A001
            }

    def write_use(self, memories: Sequence[AnyMemory]) -> None:
        """See ``protocols.Management``."""
        with self._database.write(*{memory.scope for memory in memories}) as connection:
            connection.executemany(
                """UPDATE memories SET importance = ?, importance_pinned = ?, access_count = ?, last_accessed_at = ?
                WHERE scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ?""",
                [
                    (
                        memory.importance,
                        memory.importance_pinned,
                        memory.access_count,
                        encode_time(memory.last_accessed_at),
                        memory.scope,
                        memory.id,
                    )
                    for memory in memories
                ],
            )

    def remove(self, keys: Sequence[MemoryKey]) -> int:
        """See ``protocols.Management``."""
        with self._database.write(*{each for key in keys for each in scopes.lineage(key.scope)}) as connection:
            by_scope = _by_scope(keys).items()
            return sum(removal.remove_all(connection, scope=scope, ids=ids) for scope, ids in by_scope)

    def move(self, keys: Sequence[MemoryKey], *, target_scope: str) -> None:
        """See ``protocols.Management``."""
        with self._database.write() as connection:
            target = records.scope_id_of(connection, target_scope)
            for key in keys:
                if key.scope != target_scope:
                    _move(connection, key, target)
            for scope, ids in _by_scope(keys).items():
                if scope != target_scope:
                    reviews.strike_out(connection, scope, {MemoryKey(scope=scope, id=id) for id in ids}.__contains__)  # noqa: A001
                    characters.strike_out(connection, scope, ids)
                    removal.forget_empty_scopes(connection, scope)

    def associate(self, associations_: Sequence[Association]) -> int:
        """See ``protocols.Management``."""
        ends = {end.scope for association in associations_ for end in (association.source, association.target)}
        with self._database.write(*ends) as connection:
            return sum(associations.write(connection, association) for association in associations_)

    def associations(
        self, key: MemoryKey, *, within: str, now: datetime, limit: int | None = None
    ) -> list[Association]:
        """See ``protocols.Management``."""
        with self._database.read() as connection:
            return associations.read(connection, key, within=within, now=now, limit=limit)

    def note(self, entries: Sequence[AuditEntry], *, spacing: timedelta | None = None) -> None:
        """See ``protocols.Management``."""
        with self._database.write(*{entry.memory.scope for entry in entries}) as connection:
            for entry in entries:
                audit.write(connection, entry, spacing=spacing)

    def audit(self, key: MemoryKey) -> list[AuditEntry]:
        """See ``protocols.Management``."""
        with self._database.read() as connection:
            return audit.read(connection, key)

    def forget_audit(self, *, before: datetime) -> None:
        """See ``protocols.Management``."""
        with self._database.read() as connection:
            scopes = audit.scopes_before(connection, before)
        if scopes:
            with self._database.write(*scopes) as connection:
                audit.forget(connection, before)


def _condition(dialect: Dialect, filter: MemoryFilter, now: datetime) -> tuple[str, dict[str, Any]]:
    """Which memories ``m`` the filter lets through, of both kinds, and the values that this refers to."""
    selection = filter.selection(Kind.SEMANTIC, now=now)
    conditions = [
        f"m.scope_id {where.scope_condition(selection)}",
        where.NOT_EXPIRED,
        *where.narrowing(dialect, selection),
        *([] if filter.include_invalidated else ["m.invalid_at IS NULL"]),
    ]
    return " AND ".join(conditions), where.parameters(dialect, selection)


def _by_scope(keys: Sequence[MemoryKey]) -> dict[str, list[str]]:
    ids: dict[str, list[str]] = {}
    for key in keys:
        ids.setdefault(key.scope, []).append(key.id)
    return ids


def _move(connection: Connection, key: MemoryKey, target: int) -> None:
    if one(connection, "SELECT 1 FROM memories WHERE scope_id = ? AND id = ?", (target, key.id)) is not None:
        raise ValidationError(f"id {key.id!r} is already taken in the target scope; nothing was moved")
    moved = connection.execute(
        "UPDATE memories SET scope_id = ? WHERE scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ?",
        (target, key.scope, key.id),
    )
    if not moved.rowcount:
        raise NotFoundError(f"Memory not found: {key.id}")
