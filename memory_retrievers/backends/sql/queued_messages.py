"""Queued messages as what a search reads of them, and their vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from memory_retrievers.backends.sql.connection import Database
from memory_retrievers.backends.sql.removal import forget_empty_scopes
from memory_retrievers.backends.sql.snapshots import state_of
from memory_retrievers.models.fields import moment
from memory_retrievers.models.messages import Message
from memory_retrievers.models.selection import Embedded
from memory_retrievers.models.storage import OpenMessage, OpenPlace

_OF_SCOPE: Final = "scope_id = (SELECT id FROM scopes WHERE scope = :scope)"


class SQLOpenEpisodes:
    """Queued messages, by the number of their row, which is never used again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def places(self, scope: str, *, include_child_scopes: bool = False) -> list[OpenPlace]:
        """List what is queued in a scope, conversation by conversation, in the order it came."""
        with self._database.read() as connection:
            return state_of(connection, scope, include_child_scopes=include_child_scopes).queued

    def scopes(self) -> list[str]:
        """List the scopes in which a message has no vector yet, sorted."""
        with self._database.read() as connection:
            rows = connection.execute(
                """SELECT scope FROM scopes s WHERE EXISTS
                (SELECT 1 FROM queued_messages m WHERE m.scope_id = s.id AND m.vector IS NULL) ORDER BY scope"""
            )
            return [scope for (scope,) in rows]

    def read(self, rows: Sequence[int]) -> list[OpenMessage]:
        """Read messages by their rows, ascending; those that are queued no more are left out."""
        if not rows:
            return []
        with self._database.read() as connection:
            dialect = connection.dialect
            found = connection.execute(
                f"""SELECT m.row, s.scope, m.conversation, m.id, m.role, m.content, m.timestamp, m.vector, m.tokens
                FROM queued_messages m JOIN scopes s ON s.id = m.scope_id
                WHERE {dialect.among("m.row", ":ids")} ORDER BY m.row""",
                {"ids": dialect.listed(rows)},
            ).fetchall()
            return [
                OpenMessage(
                    row=row,
                    scope=scope,
                    conversation=conversation or None,
                    id=its_id,
                    message=Message.trusted({"role": role, "content": content, "timestamp": moment(timestamp)}),
                    embedded=None if vector is None else Embedded(dialect.stacked([vector])[0], tokens),
                )
                for row, scope, conversation, its_id, role, content, timestamp, vector, tokens in found
            ]

    def keep_vectors(self, scopes: Sequence[str], vectors: Mapping[int, Embedded]) -> None:
        """Store the vectors of messages by row; of those that are queued no more nothing is stored."""
        with self._database.write(*scopes) as connection:
            dialect = connection.dialect
            connection.executemany(
                f"UPDATE queued_messages SET vector = {dialect.vector_value}, tokens = ? WHERE row = ?",
                [(dialect.vector(each.vector), each.tokens, row) for row, each in vectors.items()],
            )

    def forget_vectors(self) -> None:
        """Delete all vectors, because another embedder takes over."""
        with self._database.write() as connection:
            connection.execute("UPDATE queued_messages SET vector = NULL, tokens = NULL WHERE vector IS NOT NULL")

    def forget(self, scope: str, conversation: str | None) -> None:
        """Delete the queued messages of a conversation, the lease of whoever works on them, and the scope's reviews."""
        key = {"scope": scope, "conversation": conversation or ""}
        with self._database.write(scope) as connection:
            for table in ("queued_messages", "queues"):
                connection.execute(f"DELETE FROM {table} WHERE {_OF_SCOPE} AND conversation = :conversation", key)
            for table in ("pending_reviews", "review_jobs"):  # which tell what was said
                connection.execute(f"DELETE FROM {table} WHERE {_OF_SCOPE}", key)
            forget_empty_scopes(connection, scope)
