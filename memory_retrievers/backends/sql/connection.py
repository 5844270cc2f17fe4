"""What the ledger's SQL runs on: a database that hands out connections, and what it says in its own way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector, Vectors

Values: TypeAlias = "Sequence[Any] | Mapping[str, Any]"
"""What the ``?`` or ``:name`` of a statement stand for."""


class Cursor(Protocol):
    """The rows a statement gave, and how many it changed."""

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""
        ...

    def fetchone(self) -> Any:  # noqa: ANN401 - a row of SQL values
        """The next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Row after row."""
        ...


class Connection(Protocol):
    """Runs statements that name their values by ``?`` or ``:name``."""

    @property
    def dialect(self) -> Dialect:
        """What is said otherwise here than elsewhere."""
        ...

    @property
    def in_transaction(self) -> bool:
        """Whether what it has written may still be undone."""
        ...

    @property
    def versions(self) -> dict[str, Any] | None:
        """What is known of scopes as long as nothing changes for it; None where something may."""
        ...

    def execute(self, sql: str, parameters: Values = ..., /) -> Cursor:
        """Run one statement."""
        ...

    def executemany(self, sql: str, parameters: Iterable[Values], /) -> Cursor:
        """Run one statement for each of the values."""
        ...


class Dialect(Protocol):
    """Where SQL differs between databases, as pieces of statements, and the values that go with them.

    Attributes:
        keyed_by_scope: Whether every table of what a scope holds has a column ``scope_id``.
        in_order: Joins in the order written, where the planner can be told.
        least: The function that gives the least of its arguments.
        greatest: The function that gives the greatest.
        position: The function that tells where in a text another stands.
        vector_value: A ``?`` that stands for a vector, where nothing else tells that it is one.
    """

    keyed_by_scope: bool
    in_order: str
    least: str
    greatest: str
    position: str
    vector_value: str

    def beside(self, table: str, other: str) -> str:
        """What a join of two tables on a number of one may add, so that only one partition is looked at."""
        ...

    def listed(self, values: Sequence[int] | Sequence[str]) -> object:
        """The value of a parameter that :meth:`among` or :meth:`each` reads."""
        ...

    def among(self, column: str, parameter: str) -> str:
        """The condition that a column is one of the values of a list."""
        ...

    def each(self, parameter: str) -> str:
        """A table ``each`` with the numbers of a list in its column ``value``."""
        ...

    def counted(self, parameter: str, table: str) -> str:
        """A table with the names of a JSON object in its column ``key`` and their whole numbers in ``value``."""
        ...

    def items(self, column: str) -> str:
        """A query of the texts in a JSON list."""
        ...

    def summed(self, expression: str, order: str) -> str:
        """The sum over a group, so that equal numbers have equal sums."""
        ...

    def gathered(self, column: str) -> str:
        """The numbers of a group, as a text with commas between."""
        ...

    def indexed_by(self, index: str) -> str:
        """To be written behind a table that is best read by this index."""
        ...

    def vector(self, vector: Vector) -> object:
        """A vector as a value."""
        ...

    def stacked(self, vectors: Sequence[Any]) -> Vectors:
        """Vectors that were read, as rows of an array."""
        ...


class Database(Protocol):
    """Where the ledger's tables are; safe to use from several threads."""

    def write(self, *scopes: str) -> AbstractContextManager[Connection]:
        """A write transaction: committed at the end, undone on any exception; one inside another joins it.

        Args:
            scopes: What it changes is in these scopes alone. Nobody else changes them, or reads to change, until it
                ends. Without any, that holds for the whole store.
        """
        ...

    def read(self, *, snapshot: bool = False) -> AbstractContextManager[Connection]:
        """A connection to read with; inside this thread's own write transaction, that transaction's.

        Args:
            snapshot: All statements see one state, whatever is committed meanwhile. A single statement does anyway.
        """
        ...

    def reading(self) -> AbstractContextManager[None]:
        """While this lasts, all that this thread reads may be as of the first of it."""
        ...

    def feeding(self) -> AbstractContextManager[None]:
        """While this lasts, nobody else is in here, in this process or another; no transaction waits for it."""
        ...

    def moving(self) -> AbstractContextManager[bool]:
        """Move the store to other vectors; False if another process is at it. Threads of one have a lock of their own.

        Nothing waits for it.
        """
        ...

    def next_passages(self, connection: Connection, number: int) -> Sequence[int]:
        """Ids for new passages, higher than all in their scope, that were never given before."""
        ...

    def problems(self, connection: Connection) -> Iterator[str]:
        """What is wrong with the tables as such, one sentence each."""
        ...

    def compact(self) -> None:
        """Leave no byte of what was removed.

        Raises:
            ConfigurationError: A transaction of this thread is still open.
            BackendError: It cannot be done now; a later call may.
        """
        ...

    def copy_to(self, file: Path) -> None:
        """Write everything that is committed to a file in a new directory.

        Raises:
            ConfigurationError: The directory is in use, or cannot be made, or the database is copied in another way.
        """
        ...

    def close(self) -> None:
        """Release everything; further calls do nothing."""
        ...


def one(connection: Connection, sql: str, parameters: Values = ()) -> Any:  # noqa: ANN401 - a SQL value
    """The first column of the first row, or None."""
    row = connection.execute(sql, parameters).fetchone()
    return None if row is None else row[0]


def insert(connection: Connection, table: str, values: Mapping[str, object], *, scope_id: int) -> None:
    """Write a row of what a scope holds."""
    row = {"scope_id": scope_id, **values} if connection.dialect.keyed_by_scope else values
    connection.execute(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", tuple(row.values())
    )
