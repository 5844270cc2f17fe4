"""Protocols of the databases under the ledger: cursor, connection, SQL dialect and transactions."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from memory_retrievers.errors import READ_ONLY, ConfigurationError
from memory_retrievers.models import MemoryKey

if TYPE_CHECKING:
    from memory_retrievers.backends.snapshot import ScopeSnapshot
    from memory_retrievers.models import Kind
    from memory_retrievers.models.selection import Vector, Vectors
    from memory_retrievers.models.storage import OpenPlace

Values: TypeAlias = "Sequence[Any] | Mapping[str, Any]"  # what the ``?`` or ``:name`` of a statement stand for


class ScopeState(NamedTuple):
    """State of a scope, or of it and those below: what a search compares its snapshot with."""

    versions: dict[int, int]  # versions by row id of a scope
    queued: list[OpenPlace]  # what waits to become an episode, conversation by conversation, in the order it came
    # snapshots that show it, by kind and whether all fields are in them; each with the number of evictions until then
    snapshots: dict[tuple[Kind, bool], tuple[int, ScopeSnapshot]]


States: TypeAlias = dict[tuple[str, bool], ScopeState]  # states by scope, and whether those below it are included


class Cursor(Protocol):
    """The result rows of a statement."""

    @property
    def rowcount(self) -> int:
        """Number of rows changed."""

    def fetchone(self) -> Any:  # noqa: ANN401 - a row of SQL values
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return all remaining rows."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the rows."""


class Connection(Protocol):
    """Runs statements with parameters written as ``?`` or ``:name``."""

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect of the database."""

    @property
    def in_transaction(self) -> bool:
        """True if its writes may still be rolled back."""

    @property
    def states(self) -> States | None:
        """States that have been read, where this connection asks for each but once; None where it may change.

        In a transaction that writes: until it has written anything.
        """

    def is_settled(self, scope: str, /, *, include_child_scopes: bool) -> bool:
        """True if what is read of a scope is committed: in a transaction nobody, it included, has changed it."""

    def execute(self, sql: str, parameters: Values = ..., /) -> Cursor:
        """Run one statement."""

    def executemany(self, sql: str, parameters: Iterable[Values], /) -> Cursor:
        """Run a statement once for each of the parameter sets."""

    def insert_rows(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]], /, *, ending: str = ""
    ) -> Iterable[Any]:
        """Insert rows, in the order of the columns and but for bytes; the fastest way for thousands.

        Args:
            table: Name of the table.
            columns: Its columns.
            rows: Their values.
            ending: What the statement ends with, of which the results are given, in any order.
        """


Fragment: TypeAlias = "Callable[..., str]"


@dataclass(frozen=True, kw_only=True, eq=False)
class Dialect:
    """Fragments of SQL and parameter values that differ between databases; some are functions that make them."""

    keyed_by_scope: bool  # whether every table of a scope's contents has a column ``scope_id``
    in_order: str  # join that keeps the written order, where the planner supports it
    least: str  # function that returns the least of its arguments
    greatest: str  # function that returns the greatest of its arguments
    position: str  # function that returns the position of one text in another
    vector_value: str  # a ``?`` for a vector, with a cast where the type is not clear otherwise
    bytes_type: str  # name of the type of bytes
    schema_version: str  # statement that reads the version of the schema
    volume: int  # passages after which the postings of a field of a scope go on in its next volume; 0 is never
    volumes: Fragment  # of a condition on scopes, and fields: condition that a ``kind`` is a volume of one of them
    beside: Fragment  # of two tables: extra condition of a join by number, so that only one partition is read
    listed: Callable[[Sequence[int] | Sequence[str]], object]  # the parameter that ``among`` or ``each`` reads
    among: Fragment  # of a column and a parameter: condition that the column is one of the values of a list
    each: Fragment  # of a parameter: table ``each`` with the numbers of a list in its column ``value``
    counted: Fragment  # of a parameter and a name: table of a JSON object, ``key`` and, as an integer, ``value``
    octets: Fragment  # of a column: number of bytes of a text, the same in every dialect
    items: Fragment  # of a column: query of the texts in a JSON list
    # Of the column of a JSON object, a name, a value and a sign ("=" by default): condition that the object has such a
    # value under a key. The parameters are ``:name_key`` and ``:name_value``, which is a number's text; the type of
    # the value decides how it is compared, and texts are ordered by code point.
    member: Fragment
    field: Fragment  # of a name and an ItemCondition: the same of the value of an item ``m``, never by ``!=``
    items_by_row: Fragment  # of a condition: items ``m`` with their scopes ``p``, in an order that reads each page once
    newest_items: Fragment  # the same by the index of items: the last changed ``:most`` of each scope
    summed: Fragment  # of an expression and an order: sum in that order, so that equal numbers have equal sums
    gathered: Fragment  # of a column: the numbers of a group as comma-separated text
    indexed_by: Fragment  # of an index: hint, written after a table, that it is best read by this index
    vector: Callable[[Vector], object]  # the parameter of a vector of shape (d,)
    stacked: Callable[[Sequence[Any]], Vectors]  # the array of n vectors as read, shape (n, d); (0, 0) for none


class _OfThread(threading.local):
    """The connection that a thread reads from, that of its transaction or reading; and what the former may change."""

    reading: Any = None
    scopes: frozenset[str] = frozenset()


class Database(Protocol):
    """The database of a ledger; safe to use from several threads. What every search calls, each has in its own file."""

    home: Path | None = None  # the directory that its files are in, if there is one
    answers_at_once: bool  # whether it works within this process, so that its threads may take turns
    history: object = None  # another after a failover or a restart, where what was acknowledged last may be lost
    _read_only: bool
    _process: int
    _local: _OfThread

    def __init__(self, *, read_only: bool) -> None:
        self._read_only = read_only
        self._process = os.getpid()
        self._local = _OfThread()

    @property
    def dialect(self) -> Dialect:
        """Its SQL dialect."""

    def require_writable(self) -> None:
        """Raise an error if it is open for reading only, or was opened before a fork."""
        self._require_own_process()
        if self._read_only:
            raise ConfigurationError(READ_ONLY)

    def _require_own_process(self) -> None:
        """Raise an error after a fork; before any lock is touched, which a thread of the parent may have held then."""

    def write(self, *scopes: str) -> AbstractContextManager[Connection]:
        """Open a write transaction: committed at the end, rolled back on any exception.

        One inside another joins it and is committed with it; if it fails, what it wrote is undone, even if the outer
        one goes on. All changes are made within ``scopes``, to which other writers wait; none given locks the store.
        """

    def read(self, *, snapshot: bool = False) -> AbstractContextManager[Connection]:
        """Open a connection for reading; inside this thread's own write transaction, that transaction's.

        With ``snapshot`` all statements see one state, whatever is committed meanwhile; a single one always does.
        """

    def reading(self, known: States | None = None) -> AbstractContextManager[object]:
        """Keep one connection for all reads of this thread, and ask for the state of a scope but once.

        Within this thread's own transaction it does nothing: that asks but once by itself, until it writes. States in
        ``known`` were found by a reading before this one, which goes on with them and adds to them.
        """

    def states_read(self) -> States | None:
        """States found in the :meth:`reading` or transaction of this thread, see ``Connection.states``."""

    def alone(self, purpose: str, *, waits: bool = False) -> AbstractContextManager[object]:
        """Hold the lock of a purpose, which no transaction waits for; one thread of all processes has it at a time.

        Yields a false value if another holds it; ``waits`` waits for that one first, for some time.
        """

    @property
    def is_writing(self) -> bool:
        """Whether this thread is in a write transaction, which others wait for."""

    @property
    def holder(self) -> str:
        """The id by which other processes know this handle, on PostgreSQL this process, while it lives."""

    def is_gone(self, holder: str) -> bool:
        """Return True if it is certain that the handle or process of this id is gone."""

    def next_passages(self, connection: Connection, number: int) -> Sequence[int]:
        """Allocate ids for new passages, higher than all in their scope and never used before."""

    def problems(self, connection: Connection) -> Iterator[str]:
        """Describe problems of the tables themselves, one sentence each."""

    def require_sight(self, connection: Connection) -> None:  # noqa: ARG002 - a file shows all
        """Raise an error if it shows this connection nothing, whatever the store holds."""
        return

    def notes(self) -> Iterator[str]:
        """Describe what is no damage but should be known, one sentence each."""

    def compact(self) -> None:
        """Erase every byte of deleted data.

        Raises:
            ConfigurationError: A transaction of this thread is still open.
            BackendError: It cannot be done now; a later call may.
        """

    def copy_to(self, file: Path) -> None:
        """Write all committed data to a file in a new directory, as of one moment, which can be opened as a store.

        Raises:
            ConfigurationError: The directory is in use, or cannot be made, or the database is copied in another way.
        """

    def close(self) -> None:
        """Release all resources; further calls do nothing."""


class Part:
    """Reads and writes some of the tables of a ledger."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dialect = database.dialect

    def query(self, sql: str, values: Values = ()) -> list[Any]:
        """Read all rows of a query."""
        with self.database.read() as connection:
            return connection.execute(sql, values).fetchall()

    def column(self, sql: str, values: Values = ()) -> list[Any]:
        """Read the first column of a query."""
        return [first for first, *_ in self.query(sql, values)]

    def value(self, sql: str, values: Values = ()) -> Any:  # noqa: ANN401 - a SQL value
        """Read the first column of the first row; None if there is none."""
        with self.database.read() as connection:
            return one(connection, sql, values)


class Whole(NamedTuple):
    """Scopes of which all records of some kind are read: those of an export, or a single one."""

    connection: Connection  # the connection to read from
    scopes: str  # query of the row ids of the scopes
    values: Mapping[str, object]  # its parameters

    @classmethod
    def of(cls, connection: Connection, scope: str) -> Whole:
        """Read from a single scope."""
        return cls(connection, "SELECT id FROM scopes WHERE scope = :scope", {"scope": scope})

    def execute(self, sql: str) -> Cursor:
        """Run a statement with these parameters."""
        return self.connection.execute(sql, self.values)


def joining(database: Database, *scopes: str) -> AbstractContextManager[Connection]:
    """Open a write transaction of some scopes as ``Database.write`` does, but for the savepoint inside another one.

    For what fails only with all the rest, so that nobody goes on after it.
    """
    return database.read() if database.is_writing else database.write(*scopes)


def one(connection: Connection, sql: str, parameters: Values = ()) -> Any:  # noqa: ANN401 - a SQL value
    """Return the first column of the first row, or None if there is no row.

    Args:
        connection: The connection to read from.
        sql: The query.
        parameters: Its parameters.
    """
    row = connection.execute(sql, parameters).fetchone()
    return None if row is None else row[0]


OF_SCOPE: Final = "scope_id = (SELECT id FROM scopes WHERE scope = :scope)"  # a condition on a row of a scope
OF_KEY: Final = "scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ?"  # and on the memory of a key


def scope_id_of(connection: Connection, scope: str) -> int:
    """Return the row id of a scope, creating its row if it is new."""
    if (state := (connection.states or {}).get((scope, False))) and state.versions:
        return next(iter(state.versions))
    asked = "SELECT id FROM scopes WHERE scope = ?"
    scope_id = one(connection, asked, (scope,))
    if scope_id is None:
        connection.execute("INSERT INTO scopes (scope) VALUES (?) ON CONFLICT DO NOTHING", (scope,))
        scope_id = one(connection, asked, (scope,))
    return int(scope_id)


def ids_by_scope(keys: Iterable[MemoryKey]) -> dict[str, list[str]]:
    """The ids of memories by their scopes."""
    by_scope: dict[str, list[str]] = {}
    for key in keys:
        by_scope.setdefault(key.scope, []).append(key.id)
    return by_scope


class Place(NamedTuple):
    """Where a memory stands in the tables."""

    scope_id: int  # row id of its scope
    row: int  # its own row id
    kind: str  # its kind
    updated_at: int  # when it has changed last, in microseconds since 1970


def places_of(connection: Connection, keys: Iterable[MemoryKey]) -> dict[MemoryKey, Place]:
    """Find the memories that are there."""
    dialect = connection.dialect
    sql = f"SELECT id, {', '.join(Place._fields)} FROM memories WHERE {OF_SCOPE} AND {dialect.among('id', ':ids')}"
    return {
        MemoryKey(scope=scope, id=its_id): Place(*place)
        for scope, ids in ids_by_scope(keys).items()
        for its_id, *place in connection.execute(sql, {"scope": scope, "ids": dialect.listed(ids)})
    }


def insert(connection: Connection, table: str, rows: Sequence[tuple[int, Mapping[str, object]]]) -> None:
    """Insert rows that belong to scopes.

    Args:
        connection: A connection in a write transaction.
        table: Name of the table.
        rows: For each the row id of its scope, stored only where the dialect keys tables by scope, and its values by
            column; all have the same columns.
    """
    if connection.dialect.keyed_by_scope:
        rows = [(scope_id, {"scope_id": scope_id, **values}) for scope_id, values in rows]
    for _, first in rows[:1]:
        connection.executemany(insertion(table, first), [tuple(values.values()) for _, values in rows])


def insertion(table: str, columns: Collection[str]) -> str:
    """Write the statement that inserts one row."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
