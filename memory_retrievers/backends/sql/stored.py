"""Stored memories, looked up: by id, by row, by age, by what they have replaced; and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from memory_retrievers.backends.sql.connection import Database, Dialect, one
from memory_retrievers.backends.sql.rows import COLUMNS, decode, encode_time
from memory_retrievers.models import AnyMemory, EpisodicMemory, Kind, MemoryKey, ScopeStatistics, SemanticMemory
from memory_retrievers.paging import Position

_FIELDS: Final = f"{', '.join(f'm.{column}' for column in COLUMNS)}, m.kind, m.content"

_OF_SCOPE: Final = "m.scope_id = (SELECT id FROM scopes WHERE scope = :scope)"
_BEGINNING: Final = Position(created_at=2**63 - 1, id="")
_PAGE: Final = """
    WHERE m.scope_id = (SELECT id FROM scopes WHERE scope = :scope) AND m.kind = :kind
    AND (m.expires_at IS NULL OR m.expires_at > :now)
    AND m.created_at <= :created_at AND (m.created_at < :created_at OR m.id > :id)
    ORDER BY m.created_at DESC, m.id LIMIT :limit
"""


def memory_query(dialect: Dialect, *, first: str = "") -> str:
    """Reads what ``rows.decode`` takes, of memories ``m``, behind the columns named first; conditions go behind it."""
    return f"""SELECT {first}{_FIELDS}, (SELECT s.scope FROM scopes s WHERE s.id = m.scope_id),
        (SELECT e.messages FROM excerpts e WHERE e.memory = m.row {dialect.beside("e", "m")}) FROM memories m"""


class StoredRecords:
    """The part of the ledger that reads memories as a whole.

    Args:
        database: Where they are.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    def get(self, *, scope: str, id: str) -> AnyMemory | None:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            row = connection.execute(
                f"{memory_query(connection.dialect)} WHERE {_OF_SCOPE} AND m.id = :id", {"scope": scope, "id": id}
            ).fetchone()
        return None if row is None else decode(row)

    def load(self, rows: Sequence[int]) -> dict[int, AnyMemory]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            dialect = connection.dialect
            found = connection.execute(
                f"{memory_query(dialect, first='m.row, ')} WHERE {dialect.among('m.row', ':ids')}",
                {"ids": dialect.listed(rows)},
            ).fetchall()
        return {row[0]: decode(row[1:]) for row in found}

    def recent(self, *, scope: str, limit: int, now: datetime, since: datetime | None) -> list[EpisodicMemory]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            rows = connection.execute(
                f"""{memory_query(connection.dialect)} WHERE {_OF_SCOPE} AND m.kind = 'episodic'
                AND (m.expires_at IS NULL OR m.expires_at > :now)
                AND (CAST(:since AS BIGINT) IS NULL OR m.created_at >= :since)
                ORDER BY m.created_at DESC, m.id LIMIT :limit""",
                {"scope": scope, "now": encode_time(now), "since": encode_time(since), "limit": limit},
            ).fetchall()
        return [memory for memory in map(decode, rows) if isinstance(memory, EpisodicMemory)]

    def episode_rows(self, *, after: int, limit: int) -> list[int]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            rows = connection.execute(
                "SELECT row FROM memories WHERE kind = 'episodic' AND row > ? ORDER BY row LIMIT ?", (after, limit)
            )
            return [int(row) for (row,) in rows]

    def unconsolidated(self, scope: str, *, limit: int) -> list[EpisodicMemory]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            rows = connection.execute(
                f"""{memory_query(connection.dialect)} WHERE {_OF_SCOPE} AND m.kind = 'episodic'
                AND m.consolidated_at IS NULL ORDER BY m.created_at, m.id LIMIT :limit""",
                {"scope": scope, "limit": limit},
            ).fetchall()
        return [memory for memory in map(decode, rows) if isinstance(memory, EpisodicMemory)]

    def unconsolidated_scopes(self) -> list[str]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            rows = connection.execute(
                """SELECT scope FROM scopes s WHERE EXISTS (SELECT 1 FROM memories m WHERE m.scope_id = s.id
                AND m.kind = 'episodic' AND m.consolidated_at IS NULL) ORDER BY scope"""
            )
            return [scope for (scope,) in rows]

    def scenes(self, scope: str, *, now: datetime) -> list[EpisodicMemory]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            rows = connection.execute(
                f"""{memory_query(connection.dialect)} WHERE {_OF_SCOPE} AND m.scene IS NOT NULL
                AND (m.expires_at IS NULL OR m.expires_at > :now) ORDER BY m.created_at, m.id""",
                {"scope": scope, "now": encode_time(now)},
            ).fetchall()
        return [memory for memory in map(decode, rows) if isinstance(memory, EpisodicMemory)]

    def versions(self, *, scope: str, id: str) -> list[SemanticMemory]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            rows = connection.execute(
                f"""WITH RECURSIVE before (id) AS (
                    SELECT m.id FROM memories m WHERE {_OF_SCOPE} AND m.id = :id
                    UNION SELECT m.id FROM memories m JOIN before b ON m.replaced_by = b.id WHERE {_OF_SCOPE}
                ), after (id) AS (
                    SELECT id FROM before
                    UNION SELECT m.replaced_by FROM memories m JOIN after a ON m.id = a.id
                    WHERE {_OF_SCOPE} AND m.replaced_by IS NOT NULL
                )
                {memory_query(connection.dialect)} WHERE {_OF_SCOPE} AND m.kind = 'semantic'
                AND m.id IN (SELECT id FROM after)
                ORDER BY m.valid_at, m.created_at, m.id""",
                {"scope": scope, "id": id},
            ).fetchall()
        return [memory for memory in map(decode, rows) if isinstance(memory, SemanticMemory)]

    def page(
        self, scope: str, *, kinds: Sequence[Kind], after: Position | None, limit: int, now: datetime
    ) -> list[AnyMemory]:
        """See ``protocols.Ledger``."""
        values = {"scope": scope, "now": encode_time(now), "limit": limit, **(after or _BEGINNING)._asdict()}
        with self.database.read(snapshot=True) as connection:
            # One kind after the other, so that each is read from the index in its order.
            query = f"{memory_query(connection.dialect)} {_PAGE}"
            rows = [row for kind in kinds for row in connection.execute(query, {"kind": kind, **values})]
        newest_first = sorted(map(decode, rows), key=lambda memory: memory.id)
        newest_first.sort(key=lambda memory: memory.created_at, reverse=True)
        return newest_first[:limit]

    def expired(self, now: datetime) -> list[MemoryKey]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            rows = connection.execute(
                "SELECT s.scope, m.id FROM memories m JOIN scopes s ON s.id = m.scope_id WHERE m.expires_at <= ?",
                (encode_time(now),),
            )
            return [MemoryKey(scope=scope, id=its_id) for scope, its_id in rows]

    def scopes(self) -> list[str]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            found = connection.execute(
                """SELECT scope FROM scopes s WHERE EXISTS (SELECT 1 FROM memories m WHERE m.scope_id = s.id)
                ORDER BY scope"""
            )
            return [scope for (scope,) in found]

    def statistics(self, scope: str | None) -> ScopeStatistics:
        """See ``protocols.Ledger``."""
        in_scope = "(CAST(:scope AS TEXT) IS NULL OR scope_id = (SELECT id FROM scopes WHERE scope = :scope))"
        with self.database.read(snapshot=True) as connection:
            episodes, facts, invalidated = connection.execute(
                f"""SELECT count(*) FILTER (WHERE kind = 'episodic'),
                count(*) FILTER (WHERE kind = 'semantic' AND invalid_at IS NULL),
                count(*) FILTER (WHERE kind = 'semantic' AND invalid_at IS NOT NULL)
                FROM memories WHERE {in_scope}""",
                {"scope": scope},
            ).fetchone()
            pending, queued = (
                one(connection, f"SELECT count(*) FROM {table} WHERE {in_scope}", {"scope": scope})
                for table in ("pending_reviews", "queued_messages")
            )
        return ScopeStatistics(
            episodes=episodes,
            facts=facts,
            invalidated_facts=invalidated,
            pending_reviews=pending,
            queued_messages=queued,
        )
