"""The ledger in one SQLite file: connections, schema, checksum, and its state at a glance."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_retrievers.backends.sql.connection import one
from memory_retrievers.backends.sql.verification import TableState, state_of_tables
from memory_retrievers.backends.sqlite import connection as connections
from memory_retrievers.backends.sqlite import schema
from memory_retrievers.backends.sqlite.connection import Connection, check_seal, has_log, log_size, wrapped
from memory_retrievers.backends.sqlite.database import Database
from memory_retrievers.errors import BackendError

__all__ = ["Database", "FileState", "state_of_file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """The state of a file."""

    schema: int  # version of its tables; 0 if there are none
    free_bytes: int  # bytes of it that hold nothing any more
    log_bytes: int  # bytes of the log beside it
    damage: tuple[str, ...]  # what SQLite's quick check finds, or why the file cannot be read
    tables: TableState | None  # what its tables tell; None if it cannot be read


def state_of_file(path: Path, *, is_used: bool) -> FileState:
    """Look into the file of a store, to which this process must not be connected unless some process is."""
    try:
        if not is_used:
            check_seal(path)
            if (seen := _state_at_rest(path)) is not None:
                return seen
        with wrapped(path):  # SQLite makes a file beside one with a log, to share it with writers
            return _seen(path, connections.look_into(path)[0])
    except BackendError as error:
        return FileState(schema=0, free_bytes=0, log_bytes=log_size(path), damage=(str(error),), tables=None)


def _state_at_rest(path: Path) -> FileState | None:
    """The state of a file that nobody has open, beside which nothing is made; None if somebody writes it after all."""
    before = connections.state_of(path)
    if has_log(path):
        return None
    try:
        with wrapped(path):
            seen = _seen(path, connections.connect(connections.address_of(path, mode="ro&immutable=1")))
    except BackendError:
        if connections.state_of(path) == before:
            raise
        return None
    return seen if connections.state_of(path) == before else None


def _seen(path: Path, opened: Connection) -> FileState:
    with closing(opened) as connection:
        connection.execute("PRAGMA busy_timeout = 10000")
        return FileState(
            schema=schema.version_of(connection),
            free_bytes=one(connection, "PRAGMA freelist_count") * one(connection, "PRAGMA page_size"),
            log_bytes=log_size(path),
            damage=tuple(found for (found,) in connection.execute("PRAGMA quick_check(20)") if found != "ok"),
            tables=state_of_tables(lambda statement: _rows(connection, statement)),
        )


def _rows(connection: Connection, statement: str) -> Sequence[Sequence[Any]] | None:
    try:
        return connection.execute(statement).fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:  # no such table or column
            return None
        raise
