"""Connections to one SQLite file: one writer, a pool of readers, and transactions that are durable when they end.

With ``failures`` the only file that imports sqlite3.
"""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from memory_retrievers.appearing import new_directory
from memory_retrievers.backends.sql import connection as sql
from memory_retrievers.backends.sql.connection import one
from memory_retrievers.backends.sqlite import migrating
from memory_retrievers.backends.sqlite.dialect import SQLiteDialect
from memory_retrievers.backends.sqlite.failures import SQLITE_ERRORS, translated, wrapped
from memory_retrievers.errors import READ_ONLY, BackendError, ConfigurationError

_PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA busy_timeout = 10000",
    "PRAGMA cache_size = -32768",  # KiB, per connection
    "PRAGMA mmap_size = 1073741824",  # pages come from the page cache without a copy
    "PRAGMA temp_store = MEMORY",
    "PRAGMA secure_delete = ON",  # what is deleted is overwritten, not only unlinked
)

_PATIENCE = 10.0  # seconds; that of busy_timeout

# SQLite fails rather than waits when two threads switch a new file to WAL at once.
_opening = threading.Lock()
if hasattr(os, "register_at_fork"):  # a child must not inherit it from a thread that it does not have
    os.register_at_fork(before=_opening.acquire, after_in_parent=_opening.release, after_in_child=_opening.release)


# How a write transaction begins, is committed and is undone.
_OUTERMOST = ("BEGIN IMMEDIATE", "COMMIT", ("ROLLBACK",))
_JOINED = ("SAVEPOINT joined", "RELEASE joined", ("ROLLBACK TO joined", "RELEASE joined"))


class Connection(sqlite3.Connection):
    """A connection to SQLite."""

    dialect = SQLiteDialect()
    versions: dict[str, Any] | None = None


class Database:
    """A SQLite database, safe to use from several threads.

    On disk, every reader gets a connection of its own and sees only what is committed; in memory there is a single
    connection, so readers and writers take turns.

    Args:
        path: The file; None keeps everything in memory.
        read_only: Only look into a file that exists, also beside a process that writes it.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self._path = path
        self._read_only = read_only
        self._process = os.getpid()
        self._writing = threading.RLock()
        self._writer_thread: int | None = None
        self._pool_lock = threading.Lock()
        self._idle: list[Connection] = []
        self._last_passage = 0
        self._feeding = threading.RLock()
        self._closed = False
        with wrapped(path), _opening:
            self._writer = self._connect(migrate=True)

    @contextmanager
    def write(self, *scopes: str) -> Iterator[Connection]:  # noqa: ARG002 - there is one writer anyway
        """A write transaction: committed at the end, rolled back on any exception.

        One inside another joins it and is committed with it; if it fails, what it wrote is undone, even if the outer
        one goes on.
        """
        self._require_writable()
        with self._writing, wrapped(self._path):
            self._require_open()
            outer_thread = self._writer_thread
            begin, commit, undo = _OUTERMOST if outer_thread is None else _JOINED
            self._writer.execute(begin)
            self._writer_thread = threading.get_ident()
            try:
                yield self._writer
                self._writer.execute(commit)
            except BaseException:
                if self._writer.in_transaction:
                    for statement in undo:
                        self._writer.execute(statement)
                raise
            finally:
                self._writer_thread = outer_thread

    @contextmanager
    def read(self, *, snapshot: bool = False) -> Iterator[Connection]:
        """A connection to read with; inside this thread's own write transaction, that transaction's.

        Args:
            snapshot: All statements see one state, whatever is committed meanwhile. A single statement does anyway.
        """
        self._require_own_process()
        if self._path is None or self._writer_thread == threading.get_ident():
            with self._writing, wrapped(self._path):
                self._require_open()
                yield self._writer
            return
        connection = self._take()
        try:
            if snapshot:
                connection.execute("BEGIN")
            yield connection
        except SQLITE_ERRORS as error:
            raise translated(error, self._path) from error
        finally:
            self._give_back(connection)

    def reading(self) -> AbstractContextManager[None]:
        """See ``sql.connection.Database``; every read asks for itself, which costs nothing here."""
        return nullcontext()

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """One process writes a file, so only its threads have to take turns."""
        with self._feeding:
            yield

    def moving(self) -> AbstractContextManager[bool]:
        """See ``sql.connection.Database``; only one process writes a file."""
        return nullcontext(enter_result=True)

    def next_passages(self, connection: sql.Connection, number: int) -> Sequence[int]:
        """Ids for new passages, inside a write transaction."""
        # A transaction that fails takes the table's own counter back; whoever read within it may remember the ids.
        last = one(connection, "SELECT seq FROM sqlite_sequence WHERE name = 'passages'") or 0
        first = max(self._last_passage, last) + 1
        self._last_passage = first + number - 1
        return range(first, first + number)

    def problems(self, connection: sql.Connection) -> Iterator[str]:
        """What SQLite finds wrong with its file."""
        for (finding,) in connection.execute("PRAGMA integrity_check"):
            if finding != "ok":
                yield f"SQLite's integrity check: {finding}"
        for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
            yield f"row {row} of the table {table} belongs to a row of {parent} that is not there"

    def compact(self) -> None:
        """Write the file anew and empty its log, so that no byte is left in them but what the tables hold.

        Raises:
            ConfigurationError: A transaction of this thread is still open.
            BackendError: Another reader kept the log from being emptied; a later call may.
        """
        self._require_writable()
        with self._writing, wrapped(self._path):
            self._require_open()
            if self._writer_thread is not None:
                raise ConfigurationError("a file cannot be compacted inside a transaction: end it first")
            self._writer.execute("VACUUM")
            if self._path is not None and one(self._writer, "PRAGMA wal_checkpoint(TRUNCATE)"):
                raise BackendError(f"{self._path} is still being read, so its log could not be emptied: try again")

    def copy_to(self, file: Path) -> None:
        """Write everything that is committed to a file in a new directory: one moment, whatever is written meanwhile.

        Raises:
            ConfigurationError: The directory is in use, or cannot be made.
            BackendError: The copy failed, and nothing was left of it.
        """
        with (
            new_directory(file.parent, becoming="a copy") as directory,
            self.read() as source,
            wrapped(file),
            closing(sqlite3.connect(directory / file.name)) as target,
        ):
            source.backup(target)

    def close(self) -> None:
        """Close every connection; a second call does nothing, nor does one in a forked child, which has none."""
        if self._process != os.getpid():
            return
        with self._writing, self._pool_lock:
            self._closed = True
            for connection in (self._writer, *self._idle):
                connection.close()
            self._idle.clear()

    def _connect(self, *, migrate: bool = False) -> Connection:
        # autocommit: transactions are ours to begin and end
        connection = sqlite3.connect(
            _address(self._path, read_only=self._read_only),
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            factory=Connection,
        )
        try:
            for pragma in _PRAGMAS:
                connection.execute(pragma)
            connection.create_function("ln", 1, math.log, deterministic=True)  # not every SQLite is built with it
            if migrate:
                self._bring_up_to_date(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _bring_up_to_date(self, connection: Connection) -> None:
        migrating.refuse_newer(connection, self._path)
        if self._read_only:
            migrating.refuse_older(connection, self._path)
            return
        if self._path is not None:
            _switch_to_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")  # an acknowledged memory survives a power cut
        migrating.migrate(connection)

    def _take(self) -> Connection:
        with self._pool_lock:
            self._require_open()
            if self._idle:
                return self._idle.pop()
        with wrapped(self._path):
            return self._connect()

    def _give_back(self, connection: Connection) -> None:
        try:
            connection.rollback()  # a snapshot ends here
        except BaseException:
            connection.close()
            raise
        with self._pool_lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _require_writable(self) -> None:
        self._require_own_process()
        if self._read_only:
            raise ConfigurationError(READ_ONLY)

    def _require_own_process(self) -> None:
        # before any lock is touched: another thread of the parent may have held it at the fork
        if self._process != os.getpid():
            raise ConfigurationError("this memory was opened before a fork, in the parent: open it again in the child")

    def _require_open(self) -> None:
        if self._closed:
            raise ConfigurationError("this memory is closed; open it again")


def read_note(path: Path, name: str) -> str | None:
    """A note of a store, whichever version wrote it, also beside a process that writes it; None if there is none.

    Raises:
        ConfigurationError: A newer version of the package wrote the store.
        BackendError: The file is not a SQLite database, or cannot be opened.
    """
    address = _address(path, read_only=True)
    with wrapped(path), closing(sqlite3.connect(address, uri=True, factory=Connection)) as connection:
        migrating.refuse_newer(connection, path)
        if not migrating.version_of(connection):  # nothing has been written yet
            return None
        note: str | None = one(connection, "SELECT value FROM notes WHERE name = ?", (name,))
        return note


def _address(path: Path | None, *, read_only: bool) -> str:
    if path is None:
        return ":memory:"
    return f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"


def _switch_to_wal(connection: Connection) -> None:
    """SQLite does not wait by itself where another process is at the same thing."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
