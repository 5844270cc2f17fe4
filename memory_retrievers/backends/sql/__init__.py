"""The ledger in SQL, whichever database runs it: what is said alike everywhere, and what each says in its own way."""

from memory_retrievers.backends.sql.connection import Connection, Database, Dialect, insert, one
from memory_retrievers.backends.sql.ledger import SQLLedger

__all__ = ["Connection", "Database", "Dialect", "SQLLedger", "insert", "one"]
