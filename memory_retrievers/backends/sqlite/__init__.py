"""The ledger in one SQLite file: connections, schema, row codec and the ledger itself."""

from memory_retrievers.backends.sqlite.database import Database
from memory_retrievers.backends.sqlite.ledger import SQLiteLedger

__all__ = ["Database", "SQLiteLedger"]
