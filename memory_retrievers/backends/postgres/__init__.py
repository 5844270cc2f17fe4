"""The ledger in PostgreSQL with pgvector: connections, schema, and an HNSW index for wide searches."""

from __future__ import annotations

from memory_retrievers.backends.postgres.database import Database
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.settings import POOL_SIZE

__all__ = ["PostgresLedger"]


class PostgresLedger(SQLLedger):
    """A ``SQLLedger`` on PostgreSQL.

    Args:
        url: How to reach the database.
        pool_size: How many connections to keep at most.
        within: Confine every connection to this scope and those below it, see ``Database``.
        read_only: Only look into tables that are there.

    Raises:
        ConfigurationError: A newer version of the package made the tables, or they cannot be made.
        StoreLockedError: The server takes no writes.
        BackendError: The database cannot be reached.
    """

    def __init__(
        self, url: str, *, pool_size: int = POOL_SIZE, within: str | None = None, read_only: bool = False
    ) -> None:
        database = Database(url, pool_size=pool_size, within=within, read_only=read_only)
        super().__init__(database)
        self.postgres = database
