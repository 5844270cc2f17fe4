"""Which version of the schema a file has, and how it is brought up to this one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memory_retrievers.backends.sqlite.schema import MIGRATIONS
from memory_retrievers.errors import ConfigurationError

if TYPE_CHECKING:
    import sqlite3


def version_of(connection: sqlite3.Connection) -> int:
    """The version of the file's schema; 0 if nothing has been written yet."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_newer(connection: sqlite3.Connection, path: Path | None) -> None:
    """See that this version of the package knows the schema.

    Raises:
        ConfigurationError: It does not.
    """
    version = version_of(connection)
    if version > len(MIGRATIONS):
        raise ConfigurationError(
            f"{path} was written by a newer version of memory-retrievers (schema {version}, this one knows "
            f"{len(MIGRATIONS)}): upgrade the package. Nothing was changed."
        )


def refuse_older(connection: sqlite3.Connection, path: Path | None) -> None:
    """See that the file can be read as it is.

    Raises:
        ConfigurationError: It has to be migrated first.
    """
    if (version := version_of(connection)) < len(MIGRATIONS):
        raise ConfigurationError(
            f"{path} was written by an older version of memory-retrievers (schema {version}, this one reads "
            f"{len(MIGRATIONS)}): open it once without read_only=True, which brings it up to date"
        )


def migrate(connection: sqlite3.Connection) -> None:
    """Make the tables, or bring them up to date: all of it or nothing."""
    if version_of(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # another opener may have migrated while this one waited for the lock
        for statements in MIGRATIONS[version_of(connection) :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # on a full disk SQLite has rolled back by itself
            connection.execute("ROLLBACK")
        raise
