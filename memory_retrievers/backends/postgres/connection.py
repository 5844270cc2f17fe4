"""A connection to PostgreSQL that runs the ledger's statements, and how values pass through it.

The only files of the package that import psycopg are those beside this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg
import psycopg_pool
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumperUnknown, TextBinaryLoader

from memory_retrievers.backends.postgres.dialect import ESCAPE, PostgresDialect, escaped, translated, unescaped
from memory_retrievers.errors import BackendError, ConfigurationError, ValidationError

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.connection import Cursor, Values

_ERRORS: Final = (psycopg.Error, psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed, UnicodeEncodeError, OverflowError)


_BOUNDED: Final = {
    "connect_timeout": 30,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""Unless the address says otherwise: nobody waits longer than a minute for a machine that is gone."""


class _TextDumper(StrDumperUnknown):
    def dump(self, obj: str) -> Any:  # noqa: ANN401 - as psycopg's own
        return super().dump(escaped(obj) if "\0" in obj or ESCAPE in obj else str(obj))


class _TextLoader(TextBinaryLoader):
    def load(self, data: Any) -> Any:  # noqa: ANN401 - as psycopg's own
        text = super().load(data)
        return unescaped(text) if isinstance(text, str) and ESCAPE in text else text


def bounded(url: str) -> str:
    """The address of a database, with how long to wait for it where it does not say so itself.

    Raises:
        ConfigurationError: It cannot be read. It is not shown, since a password may stand in it.
    """
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise ConfigurationError(
            "the address of the database cannot be read: write it as postgresql://user:password@host:5432/database, "
            "with % and other signs of a password as %25 and so on"
        ) from None
    return make_conninfo("", **_BOUNDED | given)


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Let values pass through a connection as they do through SQLite."""
    connection.adapters.register_dumper(str, _TextDumper)
    connection.adapters.register_loader("text", _TextLoader)
    connection.adapters.register_dumper(int, Int8Dumper)  # one statement, however large its numbers are


class Connection:
    """A ``sql.connection.Connection``.

    Args:
        raw: The connection of psycopg that it is.
        writes: Whether it is in a transaction that writes.
        versions: What is known of scopes, where nothing changes for it.
    """

    dialect = PostgresDialect()

    def __init__(
        self, raw: psycopg.Connection[Any], *, writes: bool = False, versions: dict[str, Any] | None = None
    ) -> None:
        self.raw = raw
        self.in_transaction = writes
        self.versions = versions

    def execute(self, sql: str, parameters: Values = (), /) -> Cursor:
        """See ``sql.connection.Connection``."""
        return self.raw.cursor(binary=True).execute(translated(sql), _values(parameters))

    def executemany(self, sql: str, parameters: Iterable[Values], /) -> Cursor:
        """See ``sql.connection.Connection``."""
        cursor = self.raw.cursor()
        cursor.executemany(translated(sql), [_values(each) for each in parameters])
        return cursor

    def commit(self) -> None:
        """End the transaction.

        Raises:
            BackendError: A statement in it had failed, whoever went on all the same: PostgreSQL has undone it, and says
                so without an error.
        """
        if self.raw.execute("COMMIT", prepare=False).statusmessage != "COMMIT":
            raise BackendError("PostgreSQL has undone the transaction, since a statement in it failed")

    def run(self, statements: str) -> None:
        """Run statements without values, in one go."""
        self.raw.execute(statements.encode(), prepare=False)


def _values(parameters: Values) -> Values:
    return parameters if isinstance(parameters, Mapping) else tuple(parameters)


@contextmanager
def wrapped() -> Iterator[None]:
    """Let what goes wrong underneath come out as errors of this package."""
    try:
        yield
    except _ERRORS as error:
        raise _translated(error) from error


def _translated(error: Exception) -> ValidationError | BackendError | ConfigurationError:
    told = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, psycopg.IntegrityError):
        return ValidationError(f"the store refused the change: {told}; nothing was written")
    if isinstance(error, psycopg.DataError | UnicodeEncodeError | OverflowError):
        return ValidationError(f"PostgreSQL cannot hold a value: {told}; nothing was written")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return ConfigurationError(f"the role of this connection may not do that: {told}; nothing was written")
    if isinstance(error, psycopg_pool.PoolClosed):
        return ConfigurationError("this memory is closed; open it again")
    return BackendError(f"PostgreSQL failed: {told}")
