"""The ledger in PostgreSQL with pgvector, and its vector index: HNSW in wide scopes, exact comparison in small ones."""

from __future__ import annotations

import logging
import threading
from typing import Final

from memory_retrievers.backends.postgres.database import Database
from memory_retrievers.backends.postgres.schema import PARTITIONS
from memory_retrievers.backends.sql import selection as where
from memory_retrievers.backends.sql.connection import Connection, one
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.vectors import ExactVectorIndex
from memory_retrievers.errors import BackendError, ConfigurationError
from memory_retrievers.models.selection import Hits, Selection, Vector

__all__ = ["Database", "HNSWVectorIndex"]

MOST_NUMBERS: Final = 2_000
"""pgvector indexes no longer vectors in single precision; up to twice as long ones it indexes in half of that."""

_BY_INDEX: Final = """
    BEGIN READ ONLY; SET LOCAL enable_sort = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off
"""
"""The planner takes a scan of the index for dearer than it is, and would rather sort all that is in the scope."""

_logger = logging.getLogger("memory_retrievers")


class HNSWVectorIndex(ExactVectorIndex):
    """A vector index that is exact up to a number of passages in scope, and uses pgvector's HNSW beyond.

    The index is made at the first search that is wide enough, in a thread of its own, partition by partition, while the
    tables stay in use; until it is there, such searches are exact too.

    Args:
        ledger: Where the vectors are.
        database: Its database.
        exact_limit: Up to so many passages in scope the search is exact; None makes all searches exact.
    """

    def __init__(self, ledger: SQLLedger, *, database: Database, exact_limit: int | None) -> None:
        super().__init__(ledger)
        self._postgres = database
        self.exact_limit = exact_limit
        self._ready: set[int] = set()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def rebuild(self) -> None:
        """See :class:`ExactVectorIndex`: the next wide search has the index made anew, and none is left till then."""
        self._postgres.require_writable()
        super().rebuild()
        with self._postgres.session() as connection:
            made = "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema AND starts_with(indexname, ?)"
            for (name,) in connection.execute(made, (_PREFIX,)).fetchall():
                connection.run(f'DROP INDEX CONCURRENTLY IF EXISTS "{name}"')
        self._ready.clear()

    def close(self) -> None:
        """See :class:`ExactVectorIndex`; the partition whose index is being made is finished first."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        super().close()

    def make(self, dimension: int) -> None:
        """Create the missing parts of the index for vectors of this length, unless another process is doing it."""
        with self._postgres.alone("indexing") as connection:
            for partition in range(PARTITIONS):
                if connection is None or self._stop.is_set():
                    return
                if not _is_valid(connection, _name(dimension, partition)):
                    # one that was interrupted is there and of no use
                    connection.run(f"DROP INDEX CONCURRENTLY IF EXISTS {_name(dimension, partition)}")
                    connection.run(_making(dimension, partition))
                    # nothing of its vectors in what ANALYZE keeps, as of the column
                    connection.run(f"ALTER INDEX {_name(dimension, partition)} ALTER COLUMN 1 SET STATISTICS 0")

    def _is_ready(self, dimension: int) -> bool:
        if dimension in self._ready:
            return True
        if dimension > 2 * MOST_NUMBERS:
            return False
        with self._postgres.read() as connection:
            names = (_name(dimension, partition) for partition in range(PARTITIONS))
            if all(_is_valid(connection, name) for name in names):
                self._ready.add(dimension)
                return True
        self._start(dimension)
        return False

    def _start(self, dimension: int) -> None:
        with self._starting:
            if not self._stop.is_set() and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(
                    target=self._in_background, args=(dimension,), name="memory-retrievers-hnsw"
                )
                self._thread.start()

    def _in_background(self, dimension: int) -> None:
        try:
            self.make(dimension)
        except ConfigurationError as error:
            self._stop.set()  # it is for the owner of the tables to make it, and not for whoever only looks
            _logger.warning("this connection cannot build the vector index, searches stay exact: %s", error)
        except BackendError as error:
            _logger.warning("the vector index could not be built, searches stay exact: %s", error)

    def _approximate(self, vector: Vector, selection: Selection, limit: int) -> Hits | None:
        """Search the index and score its results exactly; None if it is not ready, or found fewer than exist."""
        if not self._is_ready(len(vector)):
            return None
        with self._postgres.session() as connection:
            connection.run(_BY_INDEX)
            dialect = connection.dialect
            column = f"c.vector::{_type(len(vector))}"
            sql = f"""SELECT c.passage FROM passage_contents c
                JOIN passages p ON p.scope_id = c.scope_id AND p.id = c.passage
                JOIN memories m ON m.scope_id = p.scope_id AND m.row = p.memory
                WHERE c.scope_id {where.scope_condition(selection)} AND vector_dims(c.vector) = {len(vector)}
                AND {where.searched(selection)} AND {where.where(dialect, selection)}
                ORDER BY {column} <=> CAST(:vector AS {_type(len(vector))}), c.passage LIMIT :limit"""
            values = where.parameters(dialect, selection) | {"vector": dialect.vector(vector), "limit": limit}
            found = [int(passage) for (passage,) in connection.execute(sql, values)]
        if len(found) < limit and len(found) < self._ledger.size(selection, at_most=limit):
            return None
        return self._best(found, vector, limit)


_PREFIX: Final = "passage_vectors_"
_CONFIGURATION: Final = "m = 24, ef_construction = 200"
"""Chosen on 30,000 sentences (``benchmarks/recall.py``); an index keeps what it was made with."""


def _name(dimension: int, partition: int) -> str:
    return f"{_PREFIX}{dimension}_{partition}"


def _type(dimension: int) -> str:
    return f"vector({dimension})" if dimension <= MOST_NUMBERS else f"halfvec({dimension})"


def _making(dimension: int, partition: int) -> str:
    """SQL for an index of vectors of this length alone, so that those of another embedder can be stored beside them."""
    operators = "vector_cosine_ops" if dimension <= MOST_NUMBERS else "halfvec_cosine_ops"
    return f"""CREATE INDEX CONCURRENTLY {_name(dimension, partition)} ON passage_contents_{partition}
        USING hnsw ((vector::{_type(dimension)}) {operators}) WITH ({_CONFIGURATION})
        WHERE vector_dims(vector) = {dimension}"""


def _is_valid(connection: Connection, name: str) -> bool:
    sql = """SELECT indisvalid FROM pg_index JOIN pg_class ON oid = indexrelid
        WHERE relname = ? AND relnamespace = quote_ident(current_schema())::regnamespace"""
    return bool(one(connection, sql, (name,)))
