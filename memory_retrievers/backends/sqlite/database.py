"""The SQLite file: one writer, a pool of readers, and transactions that are durable when they end."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from memory_retrievers.backends.files import PRIVATE, Access, make_file, new_directory
from memory_retrievers.backends.sql import connection as sql
from memory_retrievers.backends.sql.changes import ChangeLog
from memory_retrievers.backends.sql.connection import one
from memory_retrievers.backends.sqlite import connection as connections
from memory_retrievers.backends.sqlite import schema, seal
from memory_retrievers.backends.sqlite.connection import (
    SQLITE_ERRORS,
    Connection,
    State,
    translated,
    wrapped,
)
from memory_retrievers.backends.sqlite.schema import MIGRATIONS
from memory_retrievers.errors import READ_ONLY, BackendError, ConfigurationError

# SQLite fails rather than waits when two threads switch a new file to WAL at once.
# Reentrant: a store that is garbage collected while another is being opened is closed right then.
_opening = threading.RLock()
if hasattr(os, "register_at_fork"):  # a child must not inherit it from a thread that it does not have
    os.register_at_fork(before=_opening.acquire, after_in_parent=_opening.release, after_in_child=_opening.release)

# How many of this process's databases are connected to a file.
_connections: Counter[Path] = Counter()

# How a write transaction begins, is committed and is undone.
_OUTERMOST = ("BEGIN IMMEDIATE", "COMMIT", ("ROLLBACK",))
_JOINED = ("SAVEPOINT joined", "RELEASE joined", ("ROLLBACK TO joined", "RELEASE joined"))


class Database:
    """A SQLite database, safe to use from several threads.

    On disk, every reader gets a connection of its own and sees only what is committed; in memory there is a single
    connection, so readers and writers take turns.

    Args:
        path: The file; None keeps everything in memory.
        read_only: Only look into a file that exists, also beside a process that writes it.
        access: The modes of the files that are made.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False, access: Access = PRIVATE) -> None:
        self._path = path
        self._read_only = read_only
        self._access = access
        self._process = os.getpid()
        self._writing = threading.RLock()
        self._writer_thread: int | None = None
        self._pool_lock = threading.Lock()
        self._idle: list[Connection] = []
        self._local = threading.local()
        self._last_passage = 0
        self._feeding = threading.RLock()
        self._closed = False
        self._unchanging: State | None = None
        self.changes = ChangeLog()
        self._seen_by_writer = -1
        self._place = None if path is None else path.absolute()
        self._sealed = False
        with wrapped(path), _opening:
            if path is not None:
                self._check_or_make(path)
            self._writer = self._connect(migrate=True)
            if not read_only:
                connections.watch(self._writer)
            if self._place is not None:
                _connections[self._place] += 1

    def _check_or_make(self, path: Path) -> None:
        """Check the file as a whole before it is connected to; reading it later would lose SQLite's locks."""
        if not self._read_only:
            _made(path, self._access)
        if self._place not in _connections and path.is_file():
            _check_seal(path)
        self._sealed = seal.is_there(path)

    @contextmanager
    def write(self, *scopes: str) -> Iterator[Connection]:  # noqa: ARG002 - there is one writer anyway
        """Open a write transaction: committed at the end, rolled back on any exception.

        One inside another joins it and is committed with it; if it fails, what it wrote is undone, even if the outer
        one goes on.
        """
        self._require_writable()
        with self._writing, wrapped(self._path):
            self._require_open()
            self._break_seal()
            outer_thread = self._writer_thread
            begin, commit, undo = _OUTERMOST if outer_thread is None else _JOINED
            self._writer.execute(begin)
            self._writer_thread = threading.get_ident()
            is_logged = False
            try:
                if outer_thread is None:
                    self._notice_others()
                yield self._writer
                if outer_thread is None:
                    is_logged = True
                    self.changes.add(connections.watched(self._writer))
                self._writer.execute(commit)
            except BaseException:
                if self._writer.in_transaction:
                    for statement in undo:
                        self._writer.execute(statement)
                if is_logged:  # what is in the log has not come to be
                    self.changes.restart()
                raise
            finally:
                self._writer_thread = outer_thread
                begun: Connection | None = getattr(self._local, "reading", None)
                if begun is not None and begun.versions is not None:
                    begun.versions.clear()  # this thread's own write has changed them

    def _notice_others(self) -> None:
        """Begin the log of changes anew if another connection has written since this one's last transaction."""
        seen = one(self._writer, "PRAGMA data_version")
        if seen != self._seen_by_writer:
            self._seen_by_writer = seen
            self.changes.restart()

    def uncommitted(self, connection: sql.Connection, scope_ids: Sequence[int]) -> set[int] | None:
        """See ``sql.connection.Database``."""
        return connections.watched_in(connection, scope_ids)

    @contextmanager
    def read(self, *, snapshot: bool = False) -> Iterator[Connection]:
        """Open a connection for reading; inside this thread's own write transaction, that transaction's.

        Args:
            snapshot: All statements see one state, whatever is committed meanwhile. A single statement does anyway.
        """
        self._require_own_process()
        if self._path is None or self._writer_thread == threading.get_ident():
            with self._writing, wrapped(self._path):
                self._require_open()
                yield self._writer
            return
        begun: Connection | None = getattr(self._local, "reading", None)
        if begun is not None and not snapshot:
            with wrapped(self._path):
                self._require_open()
                yield begun
            return
        with self._reader() as connection:
            if snapshot:
                connection.execute("BEGIN")
            yield connection

    @contextmanager
    def reading(self) -> Iterator[None]:
        """See ``sql.connection.Database``: one connection, and the versions of scopes are asked for once."""
        self._require_own_process()
        within = self._path is None or self._writer_thread == threading.get_ident()
        if within or getattr(self._local, "reading", None) is not None:
            yield
            return
        with self._reader() as connection:
            connection.versions = {}
            self._local.reading = connection
            try:
                yield
            finally:
                self._local.reading = connection.versions = None

    def versions_read(self) -> dict[str, Any] | None:
        """See ``sql.connection.Database``."""
        begun: Connection | None = getattr(self._local, "reading", None)
        return None if begun is None or self._writer_thread == threading.get_ident() else begun.versions

    @contextmanager
    def _reader(self) -> Iterator[Connection]:
        """A connection of the pool, for one thread at a time."""
        connection = self._take()
        try:
            yield connection
            self._require_unchanged()
        except SQLITE_ERRORS as error:
            raise translated(error, self._path) from error
        finally:
            self._give_back(connection)

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """Hold a lock among the threads of this process, the only one that writes the file."""
        with self._feeding:
            yield

    def moving(self) -> AbstractContextManager[bool]:
        """See ``sql.connection.Database``; only one process writes a file."""
        return nullcontext(enter_result=True)

    def next_passages(self, connection: sql.Connection, number: int) -> Sequence[int]:
        """Allocate ids for new passages, inside a write transaction."""
        # A transaction that fails takes the table's own counter back; whoever read within it may remember the ids.
        last = one(connection, "SELECT seq FROM sqlite_sequence WHERE name = 'passages'") or 0
        first = max(self._last_passage, last) + 1
        self._last_passage = first + number - 1
        return range(first, first + number)

    def problems(self, connection: sql.Connection) -> Iterator[str]:
        """Describe the damage that SQLite finds in its file."""
        for (finding,) in connection.execute("PRAGMA integrity_check"):
            if finding != "ok":
                yield f"SQLite's integrity check: {finding}"
        for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
            yield f"row {row} of the table {table} belongs to a row of {parent} that is not there"

    def compact(self) -> None:
        """Rewrite the file and empty its log, so that only bytes of current data are left.

        Raises:
            ConfigurationError: A transaction of this thread is still open.
            BackendError: Another reader kept the log from being emptied; a later call may.
        """
        self._require_writable()
        with self._writing, wrapped(self._path):
            self._require_open()
            if self._writer_thread is not None:
                raise ConfigurationError("a file cannot be compacted inside a transaction: end it first")
            self._break_seal()
            self._writer.execute("VACUUM")
            if self._path is not None and one(self._writer, "PRAGMA wal_checkpoint(TRUNCATE)"):
                raise BackendError(f"{self._path} is still being read, so its log could not be emptied: try again")

    def copy_to(self, file: Path) -> None:
        """Write all committed data to a file in a new directory, as of one point in time.

        Raises:
            ConfigurationError: The directory is in use, or cannot be made.
            BackendError: The copy failed, and nothing was left of it.
        """
        with (
            new_directory(file.parent, becoming="a copy", access=self._access) as directory,
            self.read() as source,
            wrapped(file),
        ):
            _made(directory / file.name, self._access)
            with closing(sqlite3.connect(directory / file.name)) as target:
                source.backup(target)
            seal.write(directory / file.name, self._access)

    def close(self) -> None:
        """Close every connection; does nothing if called again or in a forked child, which has none."""
        if self._process != os.getpid():
            return
        with self._writing, self._pool_lock, _opening:
            if self._closed:
                return
            self._closed = True
            for connection in (self._writer, *self._idle):
                connection.close()
            self._idle.clear()
            if self._place is not None:
                self._leave(self._place)

    def _leave(self, place: Path) -> None:
        _connections[place] -= 1
        if not _connections[place]:
            del _connections[place]
            if not self._read_only and not self._sealed:
                seal.write(place, self._access)

    def _break_seal(self) -> None:
        if self._sealed and self._path is not None:
            seal.remove(self._path)
            self._sealed = False

    def _connect(self, *, migrate: bool = False) -> Connection:
        if self._read_only and self._path is not None:
            connection, self._unchanging = connections.look_into(self._path)
        else:
            connection = connections.connect(connections.address_of(self._path, mode="rwc"))
        try:
            for pragma in connections.PRAGMAS:
                connection.execute(pragma)
            connection.create_function("ln", 1, math.log, deterministic=True)  # not every SQLite is built with it
            if migrate:
                self._bring_up_to_date(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _bring_up_to_date(self, connection: Connection) -> None:
        schema.refuse_newer(connection, self._path)
        if self._read_only:
            schema.refuse_older(connection, self._path)
            return
        if self._path is None:
            schema.fill(connection)
            return
        if schema.version_of(connection) != len(MIGRATIONS):
            self._break_seal()
        connections.switch_to_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")  # an acknowledged memory survives a power cut
        schema.migrate(connection)

    def _require_unchanged(self) -> None:
        """Check that a file opened as immutable, which SQLite does not lock, has not been changed."""
        if (
            self._unchanging is not None
            and self._path is not None
            and self._unchanging != connections.state_of(self._path)
        ):
            raise BackendError(f"{self._path} was written elsewhere while it was read here: open it again")

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
    """Read a metadata value of a store of any version, also while another process writes it; None if there is none.

    Raises:
        ConfigurationError: A newer version of the package wrote the store.
        BackendError: The file is not a SQLite database, or cannot be opened.
    """
    with wrapped(path), _opening, closing(connections.look_into(path)[0]) as connection:
        schema.refuse_newer(connection, path)
        if not schema.version_of(connection):  # nothing has been written yet
            return None
        note: str | None = one(connection, "SELECT value FROM notes WHERE name = ?", (name,))
        return note


def _made(path: Path, access: Access) -> None:
    """Create the empty file with its mode, which SQLite copies to its log and the other files beside it."""
    try:
        make_file(path, access)
    except OSError as error:
        raise BackendError(f"unable to open {path}: {error.strerror}") from error


def _check_seal(path: Path) -> None:
    try:
        seal.check(path)
    except BackendError:
        # a newer version of the package may note it in another way; looked at so, nothing is made beside it
        with closing(connections.connect(connections.address_of(path, mode="ro&immutable=1"))) as connection:
            schema.refuse_newer(connection, path)
        raise
