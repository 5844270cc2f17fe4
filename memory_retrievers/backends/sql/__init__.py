"""The ledger in SQL, shared by all databases; what differs between them is in a dialect."""

from memory_retrievers.backends.sql.connection import Connection, Database, Dialect, insert, one
from memory_retrievers.backends.sql.ledger import SQLLedger

__all__ = ["Connection", "Database", "Dialect", "SQLLedger", "insert", "one"]
