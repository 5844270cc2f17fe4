"""The ledger in one SQLite file."""

from __future__ import annotations

from pathlib import Path

from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sqlite.database import Database


class SQLiteLedger(SQLLedger):
    """A ``protocols.Ledger`` on SQLite.

    Args:
        path: The file, made if it is missing; None keeps everything in memory.
        read_only: Only look into a file that exists.

    Raises:
        ConfigurationError: The file was written by a newer version of the package.
        BackendError: The file is not a SQLite database, or cannot be opened.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        database = Database(path, read_only=read_only)
        super().__init__(database)
