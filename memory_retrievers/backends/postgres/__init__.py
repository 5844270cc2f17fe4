"""The ledger in PostgreSQL with pgvector: connections, schema, and an index of vectors for wide searches."""

from memory_retrievers.backends.postgres.ledger import PostgresLedger

__all__ = ["PostgresLedger"]
