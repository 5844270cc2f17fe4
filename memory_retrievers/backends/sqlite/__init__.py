"""The ledger in one SQLite file: connections, schema, checksum and the ledger itself."""

from __future__ import annotations

from pathlib import Path

from memory_retrievers.backends.files import PRIVATE, Access, wider
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sqlite.database import Database
from memory_retrievers.models.contents import VerificationReport

__all__ = ["Database", "SQLiteLedger"]


class SQLiteLedger(SQLLedger):
    """A ``SQLLedger`` on SQLite.

    Args:
        path: The file, made if it is missing; None keeps everything in memory.
        read_only: Only look into a file that exists.
        access: The modes of the files that are made.

    Raises:
        ConfigurationError: The file was written by a newer version of the package.
        BackendError: The file is not a SQLite database, or cannot be opened.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False, access: Access = PRIVATE) -> None:
        database = Database(path, read_only=read_only, access=access)
        super().__init__(database)
        self._path, self._access = path, access

    def verify(self) -> VerificationReport:
        """See ``SQLLedger``; it also notes files that more users than need be may come at."""
        notes = () if self._path is None else tuple(wider(self._path.absolute().parent, self._access))
        return super().verify().joined(VerificationReport(notes=notes))
