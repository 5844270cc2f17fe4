"""The SQLite file: a connection that writes, a pool of readers, and transactions that are durable when they end."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path

from memory_retrievers.backends import processes
from memory_retrievers.backends.files import PRIVATE, Access, new_directory, wider
from memory_retrievers.backends.sql import connection as sql
from memory_retrievers.backends.sql.connection import one
from memory_retrievers.backends.sql.requests import noting, under_way
from memory_retrievers.backends.sqlite import connection as connections
from memory_retrievers.backends.sqlite import schema
from memory_retrievers.backends.sqlite.attachment import FORK_PAUSE, AttachedFile, make
from memory_retrievers.backends.sqlite.connection import (
    SQLITE_ERRORS,
    Connection,
    State,
    translated,
    wrapped,
    write_seal,
)
from memory_retrievers.backends.sqlite.schema import MIGRATIONS
from memory_retrievers.errors import BackendError, ConfigurationError


class Database(sql.Database):
    """A SQLite database, safe to use from several threads.

    On disk, every reader gets a connection of its own and sees only what is committed, and other processes may have the
    file open too; in memory there is a single connection, so readers and writers take turns.

    Args:
        path: The file; None keeps everything in memory.
        read_only: Only look into a file that exists, also beside a process that writes it.
        access: The modes of the files that are made.
    """

    dialect = Connection.dialect
    answers_at_once = True

    def __init__(self, path: Path | None, *, read_only: bool = False, access: Access = PRIVATE) -> None:
        self._path, self.home = path, None if path is None else path.absolute().parent
        super().__init__(read_only=read_only)
        self._access = access
        self._writing = threading.RLock()
        self._writer_thread: int | None = None
        self._pool_lock = threading.RLock()
        self._pool_is_free = threading.Condition(self._pool_lock)
        self._idle: list[Connection] = []
        self._in_use = 0
        self._last_passage = 0
        self._of_memory: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)  # of :meth:`alone`
        self._closed = False
        self._unchanging: State | None = None
        self._file = None if path is None else AttachedFile(path, access=access, read_only=read_only)
        self._attachment = None if self._file is None else self._file.attachment
        with wrapped(path), nullcontext() if self._file is None else self._file.coming():
            self._writer: Connection | None = self._connect(writes=True, migrate=True)
        if self._file is not None:
            self._file.ask_before_forks(self.part_before_fork)

    @property
    def is_writing(self) -> bool:
        """See ``sql.connection.Database``."""
        return self._writer_thread == threading.get_ident()

    @property
    def holder(self) -> str:
        """See ``sql.connection.Database``."""
        return "" if self._attachment is None else self._attachment.id

    def is_gone(self, holder: str) -> bool:
        """See ``sql.connection.Database``."""
        return self._attachment is not None and self._attachment.is_gone(holder)

    @contextmanager
    def write(self, *scopes: str) -> Iterator[Connection]:  # noqa: ARG002 - one writes at a time anyway
        """See ``sql.connection.Database``; StoreLockedError if another process has been writing for too long."""
        self.require_writable()
        with self._writing, wrapped(self._path):
            writer = self._writing_connection()
            if self._writer_thread is not None:
                with connections.joined(writer):
                    yield writer
                return
            with self._turn():
                begun = self._local.reading
                try:
                    writer.execute("BEGIN IMMEDIATE")  # within it, since Ctrl-C is raised where this returns
                    self._writer_thread = threading.get_ident()
                    self._local.reading = writer  # what is read now is this transaction's
                    writer.states, writer.unchanged = {}, writer.total_changes
                    yield writer
                    request = under_way.get()
                    with nullcontext() if request is None else noting(writer, request):
                        writer.execute("COMMIT")
                except BaseException:
                    if writer.in_transaction:
                        writer.execute("ROLLBACK")
                    raise
                finally:
                    self._writer_thread, self._local.reading = None, begun
                    writer.states = writer.unchanged = None
                    if begun is not None and begun.states is not None:
                        begun.states.clear()  # this thread's own write has changed them

    def _turn(self) -> AbstractContextManager[None]:
        """Be the only one that writes, in whatever process, and have the file marked as changed."""
        return nullcontext() if self._file is None else self._file.turn()

    def read(self, *, snapshot: bool = False) -> AbstractContextManager[Connection]:
        """See ``sql.connection.Database``."""
        self._require_own_process()
        begun = self._local.reading
        if begun is None or snapshot:
            return self._read(begun, snapshot=snapshot)
        self._require_open()
        return nullcontext(begun)  # where the reading ends, its errors become those of this package

    @contextmanager
    def _read(self, begun: Connection | None, *, snapshot: bool) -> Iterator[Connection]:
        if self._path is None or self.is_writing:
            with self._writing, wrapped(self._path):
                yield self._writing_connection()
            return
        with self._reader() if begun is None else nullcontext(begun) as connection:
            self._require_open()
            is_begun = snapshot and not connection.in_transaction
            if is_begun:
                connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if is_begun:
                    connection.rollback()

    def reading(self, known: sql.States | None = None) -> AbstractContextManager[object]:
        """See ``sql.connection.Database``."""
        self._require_own_process()
        if self._path is None or self.is_writing or self._local.reading is not None:
            return nullcontext()
        return self._reader({} if known is None else known)

    def states_read(self) -> sql.States | None:
        """See ``sql.connection.Database``."""
        begun: Connection | None = self._local.reading
        return None if begun is None else begun.states

    def _require_own_process(self) -> None:
        if self._process != os.getpid():
            raise ConfigurationError("this memory was opened before a fork, in the parent: open it again in the child")

    @contextmanager
    def _reader(self, states: sql.States | None = None) -> Iterator[Connection]:
        """A connection of the pool, for one thread at a time; with states all that the thread reads is read by it."""
        connection = self._take()
        if states is not None:
            self._local.reading, connection.states = connection, states
        try:
            yield connection
            self._require_unchanged()
        except SQLITE_ERRORS as error:
            raise translated(error, self._path) from error
        finally:
            if states is not None:
                self._local.reading = connection.states = None
            self._give_back(connection)

    @contextmanager
    def alone(self, purpose: str, *, waits: bool = False) -> Iterator[bool]:
        """See ``sql.connection.Database``."""
        self.require_writable()
        timeout = processes.PATIENCE if waits else 0
        if self._file is not None:
            with self._file.alone(purpose, timeout) as is_alone:
                yield is_alone
            return
        is_alone = self._of_memory[purpose].acquire(timeout=timeout)
        try:
            yield is_alone
        finally:
            if is_alone:
                self._of_memory[purpose].release()

    def next_passages(self, connection: sql.Connection, number: int) -> Sequence[int]:
        """Allocate ids for new passages, inside a write transaction."""
        # A transaction that fails takes the table's own counter back; whoever read within it may remember the ids.
        last = one(connection, "SELECT seq FROM sqlite_sequence WHERE name = 'passages'") or 0
        first = max(self._last_passage, last) + 1
        self._last_passage = first + number - 1
        return range(first, first + number)

    def problems(self, connection: sql.Connection) -> Iterator[str]:
        """Describe the damage that SQLite finds in its file, which may be gone from its place."""
        try:
            if self._file is not None:
                self._file.require_place()
        except BackendError as gone:
            yield str(gone)
        for (finding,) in connection.execute("PRAGMA integrity_check"):
            if finding != "ok":
                yield f"SQLite's integrity check: {finding}"
        for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
            yield f"row {row} of the table {table} belongs to a row of {parent} that is not there"

    def notes(self) -> Iterator[str]:
        """Describe which files more users than need be may come at."""
        return iter(()) if self.home is None else wider(self.home, self._access)

    def compact(self) -> None:
        """See ``sql.connection.Database``: the file is rewritten and its log emptied, unless it is being read."""
        self.require_writable()
        with self._writing, wrapped(self._path):
            writer = self._writing_connection()
            if self._writer_thread is not None:
                raise ConfigurationError("a file cannot be compacted inside a transaction: end it first")
            with self._turn():
                writer.execute("VACUUM")
                if self._path is not None and one(writer, "PRAGMA wal_checkpoint(TRUNCATE)"):
                    raise BackendError(f"{self._path} is still being read, so its log could not be emptied: try again")

    def copy_to(self, file: Path) -> None:
        """See ``sql.connection.Database``; of a copy that failed nothing is left."""
        with (
            new_directory(file.parent, becoming="a copy", access=self._access) as directory,
            self.read(snapshot=True) as source,
            wrapped(file),
        ):
            source.execute("SELECT 1 FROM sqlite_master")  # from here on it is one moment, however many steps it takes
            make(directory / file.name, self._access)
            with closing(sqlite3.connect(directory / file.name)) as target:
                source.backup(target, pages=2_000, progress=schema.refuse_to_wait)  # a signal is handled between steps
            write_seal(directory / file.name, self._access)

    def close(self) -> None:
        """Close every connection; does nothing if called again or in a forked child, which has none."""
        if self._process != os.getpid():
            return
        with self._writing, self._pool_lock:
            if self._closed:
                return
            self._closed = True
            with nullcontext() if self._file is None else self._file.going():
                self._disconnect()

    def _disconnect(self) -> None:
        for connection in filter(None, (self._writer, *self._idle)):
            connection.close()
        self._writer = None
        self._idle.clear()

    def _writing_connection(self) -> Connection:
        """The connection that writes, which is made anew after a fork."""
        self._require_open()
        if self._writer is None:
            self._writer = self._connect(writes=not self._read_only)
        return self._writer

    def part_before_fork(self) -> Callable[[], None] | None:
        """Close all connections, and keep others from making new ones until the function that is given is called.

        None if they are in use for longer than :data:`~.attachment.FORK_PAUSE`, or by this very thread.
        """
        if not self._writing.acquire(timeout=FORK_PAUSE):
            return None
        if not self._pool_lock.acquire(timeout=FORK_PAUSE):
            self._writing.release()
            return None

        def go_on() -> None:
            self._pool_lock.release()
            self._writing.release()

        if self._writer_thread is not None or not self._pool_is_free.wait_for(lambda: not self._in_use, FORK_PAUSE):
            go_on()
            return None
        self._disconnect()
        return go_on

    def _connect(self, *, writes: bool = False, migrate: bool = False) -> Connection:
        if self._read_only and self._path is not None:
            connection, self._unchanging = connections.look_into(self._path)
        else:
            address = connections.address_of(self._path, mode="rwc")
            connection = connections.connect(address, writes=writes)
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
        is_new = not one(connection, "PRAGMA page_count")  # and whoever else would make the file waits at its gate
        if self._file is not None:
            if schema.version_of(connection) != len(MIGRATIONS):
                self._file.break_seal()
            connections.switch_to_wal(connection)
        (schema.fill if is_new else schema.migrate)(connection)

    def _require_unchanged(self) -> None:
        """Check that a file opened as immutable, which SQLite does not lock, has not been changed."""
        if self._path and self._unchanging and self._unchanging != connections.state_of(self._path):
            raise BackendError(f"{self._path} was written elsewhere while it was read here: open it again")

    def _take(self) -> Connection:
        with self._pool_lock:
            self._require_open()
            self._in_use += 1
            if self._idle:
                return self._idle.pop()
        try:
            with wrapped(self._path):
                return self._connect()
        except BaseException:
            self._no_longer_used(None)
            raise

    def _give_back(self, connection: Connection) -> None:
        try:
            connection.rollback()  # a snapshot ends here
        except BaseException:
            connection.close()
            self._no_longer_used(None)
            raise
        self._no_longer_used(connection)

    def _no_longer_used(self, connection: Connection | None) -> None:
        with self._pool_lock:
            self._in_use -= 1
            self._pool_is_free.notify_all()
            if connection is not None and not self._closed:
                self._idle.append(connection)
                return
        if connection is not None:
            connection.close()

    def _require_open(self) -> None:
        if self._closed:
            raise ConfigurationError("this memory is closed; open it again")
