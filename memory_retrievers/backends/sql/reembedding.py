"""The vectors of another embedder in a table of their own, until they take the place of those in use."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from memory_retrievers.backends.sql.connection import Database, one
from memory_retrievers.backends.sql.records import PUT_NOTE
from memory_retrievers.protocols import UnembeddedPassage

if TYPE_CHECKING:
    from memory_retrievers.passages import Vectors

_NOTE: Final = "reembedding"

_MISSING: Final = """
    SELECT p.id, m.row, p.part, c.text FROM passages p JOIN memories m ON m.row = p.memory
    JOIN passage_contents c ON c.passage = p.id
    WHERE p.id > ? AND NOT EXISTS (SELECT 1 FROM new_vectors n WHERE n.passage = p.id) ORDER BY p.id LIMIT ?
"""


class SQLNewVectors:
    """A ``protocols.NewVectors`` beside the ledger's tables.

    Args:
        database: Where the passages are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def moving(self) -> AbstractContextManager[bool]:
        """See ``protocols.NewVectors``."""
        return self._database.moving()

    def label(self) -> str | None:
        """See ``protocols.NewVectors``."""
        with self._database.read() as connection:
            label = one(connection, "SELECT value FROM notes WHERE name = ?", (_NOTE,))
        return None if label is None else str(label)

    def begin(self, label: str) -> None:
        """See ``protocols.NewVectors``."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM new_vectors")
            connection.execute(PUT_NOTE, (_NOTE, label))

    def missing(self, *, after: int = 0, limit: int) -> list[UnembeddedPassage]:
        """See ``protocols.NewVectors``."""
        with self._database.read() as connection:
            return [
                UnembeddedPassage(id=passage, memory=memory, part=part, text=text)
                for passage, memory, part, text in connection.execute(_MISSING, (after, limit))
            ]

    def keep(self, passages: Sequence[int], vectors: Vectors) -> None:
        """See ``protocols.NewVectors``."""
        with self._database.write() as connection:
            dialect = connection.dialect
            table = "new_vectors (scope_id, passage, vector)" if dialect.keyed_by_scope else "new_vectors"
            columns = "scope_id, passage" if dialect.keyed_by_scope else "passage"
            connection.executemany("DELETE FROM new_vectors WHERE passage = ?", [(passage,) for passage in passages])
            connection.executemany(
                f"INSERT INTO {table} SELECT {columns}, {dialect.vector_value} FROM passage_contents WHERE passage = ?",
                [(dialect.vector(vector), passage) for passage, vector in zip(passages, vectors, strict=True)],
            )

    def counts(self) -> tuple[int, int]:
        """See ``protocols.NewVectors``."""
        with self._database.read(snapshot=True) as connection:
            kept = one(connection, "SELECT count(*) FROM new_vectors")
            return int(kept), int(one(connection, "SELECT count(*) FROM passage_contents"))

    def take_over(self) -> None:
        """See ``protocols.NewVectors``."""
        with self._database.write() as connection:
            connection.execute(
                """UPDATE passage_contents SET vector = new_vectors.vector FROM new_vectors
                WHERE new_vectors.passage = passage_contents.passage"""
            )
            connection.execute("DELETE FROM new_vectors")
            connection.execute("DELETE FROM notes WHERE name = ?", (_NOTE,))
            connection.execute("UPDATE scopes SET version = version + 1")
