"""Migrations of a PostgreSQL database, one process at a time; and what can be said of one of any version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import psycopg
from psycopg import errors

from memory_retrievers.backends.postgres import guards
from memory_retrievers.backends.postgres.connection import Connection, ServerConnection, bounded, wrapped
from memory_retrievers.backends.postgres.schema import MIGRATIONS
from memory_retrievers.backends.sql import connection as sql
from memory_retrievers.backends.sql.connection import one
from memory_retrievers.backends.sql.verification import TableState, state_of_tables
from memory_retrievers.errors import ConfigurationError, StoreLockedError

_PATIENCE: Final = 30
"""Seconds to wait for a turn, and the tables: every role of the database may hold the lock for as long as it likes."""

_OWN_SCHEMA: Final = (
    "give the store a schema of its own with CREATE SCHEMA store, and name it in the address: "
    "?options=-csearch_path%3Dstore,public"
)

_OLDEST: Final = 150_000  # PostgreSQL 15: before it, a row with a foreign key on it could not move to another partition


def version_of(connection: Connection) -> int:
    """Version of the schema; 0 if nothing has been created, whatever other schemas on the search path hold.

    Raises:
        ConfigurationError: Another program has made the table of that name, or its row is gone.
    """
    # from the table of tables: to_regclass may still remember that there was none before this one waited for its turn
    made = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'schema_version'"
    if one(connection, made) is None:
        return 0
    # whatever its columns are, they can be read so
    version = one(connection, "SELECT to_jsonb(v) -> 'version' FROM schema_version v")
    if not isinstance(version, int) or version < 0:
        raise ConfigurationError(
            f"the table schema_version holds no version of a memory store: if it is another program's, {_OWN_SCHEMA}; "
            "if it was one, restore a backup. Nothing was changed."
        )
    return version


def migrate(connection: Connection) -> None:
    """Create the tables or bring them up to date, in one transaction.

    Raises:
        ConfigurationError: A newer version of the package made them, the server is too old, or has no pgvector; or an
            older one did, and the role does not own them.
        StoreLockedError: The server takes no writes.
        BackendError: It was not this process's turn for half a minute.
    """
    version = version_of(connection)
    _refuse_newer(version)
    if not version:  # a store that is there is opened, so that it can be moved
        _require_unicode(connection)
    if one(connection, "SHOW transaction_read_only") == "on":
        raise StoreLockedError(
            "this server takes no writes, as a standby does: connect to the primary, or only read with "
            "AgentMemory.connect(url, read_only=True)"
        )
    if version == len(MIGRATIONS):
        return
    _require_server(connection)
    connection.run(f"BEGIN; SET LOCAL lock_timeout = '{_PATIENCE}s'")
    try:
        connection.run("SELECT pg_advisory_xact_lock(hashtext('memory-retrievers/migrate'))")
        version = version_of(connection)  # another process may have been faster
        if version < len(MIGRATIONS):
            _require_pgvector(connection)
            _require_owner(connection, version)
            connection.run(";".join(_statements(version)))
        connection.commit()
    except BaseException as error:
        with suppress(psycopg.Error):  # a connection that is lost has undone it by itself
            connection.run("ROLLBACK")
        if not isinstance(error, errors.DuplicateTable):
            raise
        reason = error.diag.message_primary
        raise ConfigurationError(
            f"the tables of a store cannot be created here, since {reason}: {_OWN_SCHEMA}. Nothing was changed."
        ) from error


def require_current(connection: Connection) -> None:
    """Check that the tables exist and have the current schema."""
    version = version_of(connection)
    _refuse_newer(version)
    if not version:
        raise ConfigurationError("there is no memory store in this database, and read_only=True creates none")
    if version < len(MIGRATIONS):
        raise ConfigurationError(
            f"the database was written by an older version of memory-retrievers (schema {version}, this one reads "
            f"{len(MIGRATIONS)}): connect once without read_only=True, which brings it up to date"
        )


def is_made(url: str) -> bool:
    """Return True if the tables of a store exist, in any version."""
    with looking(url) as connection:
        return version_of(connection) > 0


def read_note(url: str, name: str) -> str | None:
    """Read a metadata value of a store of any version; None if there is no such value or no store."""
    with looking(url) as connection:
        version = version_of(connection)
        _refuse_newer(version)
        return one(connection, "SELECT value FROM notes WHERE name = ?", (name,)) if version else None


@contextmanager
def looking(url: str, *, patience: float = _PATIENCE) -> Iterator[Connection]:
    """Connect to a database, whatever is in it, and wait for no lock longer than this many seconds."""
    with wrapped(), ServerConnection.connect(bounded(url), autocommit=True) as raw:
        connection = Connection(raw)
        connection.run(f"SET lock_timeout = '{patience}s'; SET standard_conforming_strings = on")
        yield connection


def require_session(connection: Connection, url: str) -> None:
    """Refuse a proxy that hands each transaction to another connection of the server."""
    ((pid,),) = connection.raw.execute("SELECT pg_backend_pid()", prepare=False)
    if pid == connection.raw.info.backend_pid:  # no proxy
        return
    own, others = set[object](), set[object]()  # processes that answer, with the times when their servers were started
    with looking(url) as another:  # own is asked twice, or two servers that take turns would seem to be one each
        for raw, found in 3 * ((connection.raw, own), (connection.raw, own), (another.raw, others)):
            found.update(raw.execute("SELECT pg_backend_pid(), pg_postmaster_start_time()", prepare=False))
    if len(own) > 1 or len(others) > 1 or own == others:
        raise ConfigurationError(
            "a proxy such as PgBouncer hands each transaction of this connection to another one of the server, whose "
            "settings and locks would then be those of others: use pool_mode = session there, or the server itself. "
            "Nothing was written."
        )


def _refuse_newer(version: int) -> None:
    if version > len(MIGRATIONS):
        raise ConfigurationError(
            f"the database was written by a newer version of memory-retrievers (schema {version}, this one knows "
            f"{len(MIGRATIONS)}): upgrade the package. Nothing was changed."
        )


def _statements(version: int) -> tuple[str, ...]:
    made = "CREATE TABLE schema_version (version bigint NOT NULL); INSERT INTO schema_version VALUES (0)"
    steps = sum(MIGRATIONS[version:], () if version else (made,))
    return (*steps, f"UPDATE schema_version SET version = {len(MIGRATIONS)}")


def _require_owner(connection: Connection, version: int) -> None:
    owned = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'memories'::regclass"
    if version and not one(connection, owned):
        raise ConfigurationError(
            f"the database was written by an older version of memory-retrievers (schema {version}, this one needs "
            f"{len(MIGRATIONS)}), and this role does not own its tables: let the owner connect once, which brings it "
            "up to date. Nothing was changed."
        )


def _require_pgvector(connection: Connection) -> None:
    """Create the extension inside the transaction, if it is missing."""
    try:
        connection.run("CREATE EXTENSION IF NOT EXISTS vector")
    except errors.InsufficientPrivilege:
        raise ConfigurationError(
            "this role may not create the extension pgvector: let an administrator run CREATE EXTENSION vector in "
            "this database. Nothing was changed."
        ) from None
    if one(connection, "SELECT to_regtype('vector') IS NULL"):
        schema = one(connection, "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'")
        raise ConfigurationError(
            f"pgvector is in the schema {schema}, which is not on the search path: name it after the schema of the "
            f"store, as in ?options=-csearch_path%3Dstore,{schema}. Nothing was changed."
        )


def _require_unicode(connection: Connection) -> None:
    encoding = connection.raw.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise ConfigurationError(
            f"this database is encoded as {encoding}, which cannot store every text: create one with CREATE DATABASE "
            "name ENCODING 'UTF8' TEMPLATE template0. Nothing was changed."
        )


def _require_server(connection: Connection) -> None:
    if one(connection, "SELECT current_schema() IS NULL"):
        raise ConfigurationError("no schema on the search path exists: create it with CREATE SCHEMA, or name another")
    if connection.raw.info.server_version < _OLDEST:
        raise ConfigurationError("memory-retrievers needs PostgreSQL 15 or newer")
    if one(connection, "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'") is None:
        raise ConfigurationError(
            "the PostgreSQL server has no pgvector: install it there (https://github.com/pgvector/pgvector)"
        )


@dataclass(frozen=True, slots=True)
class Session:
    """Another connection to the database."""

    pid: int  # its process on the server
    user: str  # its role
    program: str  # what it calls itself
    client: str  # where it comes from; empty for this machine's socket
    since: datetime | None  # when it began
    state: str  # what it does: ``active``, ``idle``, ``idle in transaction``; empty if this role may not see that
    transaction_since: datetime | None  # when its open transaction began
    advisory_locks: int  # how many of the locks it holds by which transactions take their turns
    tables: int  # how many tables it has to itself
    holds_up: int  # how many other sessions wait for it


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseState:
    """The state of a database."""

    server: str  # version of PostgreSQL
    pgvector: str | None  # version of the extension; None if it is not there
    is_standby: bool  # whether it only takes reads
    schema: int  # version of the tables; 0 if there are none
    size: int  # bytes of the whole database
    sessions: tuple[Session, ...]  # who else is connected to it
    tables: TableState  # what the tables tell
    problems: tuple[str, ...]  # which tables are missing, and what lets one role run code as another, with the remedy
    now: datetime  # the time there


_SESSIONS = """
    SELECT a.pid, coalesce(a.usename, ''), coalesce(a.application_name, ''), coalesce(host(a.client_addr), ''),
        a.backend_start, coalesce(a.state, ''), a.xact_start,
        (SELECT count(*) FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory' AND l.granted
            AND l.mode = 'ExclusiveLock'),
        (SELECT count(*) FROM pg_locks l WHERE l.pid = a.pid AND l.mode = 'AccessExclusiveLock'
            AND l.locktype = 'relation' AND l.granted),
        (SELECT count(DISTINCT l.pid) FROM pg_locks l WHERE NOT l.granted AND a.pid = ANY(pg_blocking_pids(l.pid)))
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.pid != pg_backend_pid()
        -- what another role's session is, is hidden from a role that is not a member of it
        AND (a.backend_type = 'client backend' OR a.backend_type IS NULL AND a.usesysid IS NOT NULL)
    ORDER BY a.backend_start, a.pid
"""


def state_of_database(url: str) -> DatabaseState:
    """Look at a database and its server, also while somebody has its tables to himself."""
    with looking(url, patience=0.5) as connection:
        connection.run("SET row_security = off")  # what policies hide is refused, and told as unknown, not as nothing
        version = version_of(connection)
        return DatabaseState(
            server=one(connection, "SHOW server_version"),
            pgvector=one(connection, "SELECT extversion FROM pg_extension WHERE extname = 'vector'"),
            is_standby=one(connection, "SELECT pg_is_in_recovery()"),
            schema=version,
            size=one(connection, "SELECT pg_database_size(current_database())"),
            sessions=tuple(Session(*row) for row in connection.execute(_SESSIONS)),
            tables=state_of_tables(lambda statement: _rows(connection, statement)),
            problems=(*problems(connection, version), *guards.blind_spots(connection)),
            now=one(connection, "SELECT now()"),
        )


_MADE: Final = {
    r"CREATE TABLE (\w+)": "table {}",
    r"CREATE TABLE (\w+) \(": "index {0}_pkey of {0}",  # of which those of its partitions are parts
    r"CREATE UNIQUE INDEX (\w+) ON (\w+)": "index {} of {}",
    r"CREATE OR REPLACE FUNCTION %I\.(\w+)": "trigger function {}",
    r"CREATE TRIGGER (\w+) [^(]*? ON (\w+)": "trigger {} of {}",
    r"CREATE POLICY (\w+) ON (\w+)": "policy {} of {}",
    r"ALTER TABLE (\w+) ENABLE ROW": "row-level security of {}",
}
_THERE: Final = """
    WITH own AS (SELECT * FROM pg_class WHERE relnamespace = quote_ident(current_schema())::regnamespace)
    SELECT 'table ' || relname FROM own WHERE relkind IN ('r', 'p')
    UNION ALL SELECT 'row-level security of ' || relname FROM own WHERE relrowsecurity
    UNION ALL SELECT format('index %s of %s', i.relname, o.relname) FROM own o JOIN pg_index ON indrelid = o.oid
        JOIN own i ON i.oid = indexrelid WHERE indisvalid
    UNION ALL SELECT format('trigger %s of %s', tgname, relname) FROM own o, pg_trigger
        WHERE tgrelid = o.oid AND tgenabled <> 'D'
    UNION ALL SELECT format('policy %s of %s', polname, relname) FROM own o, pg_policy WHERE polrelid = o.oid
    UNION ALL SELECT 'trigger function ' || proname FROM pg_proc
        WHERE pronamespace = quote_ident(current_schema())::regnamespace AND prorettype = 'trigger'::regtype
"""


def problems(connection: sql.Connection, version: int = len(MIGRATIONS)) -> Iterator[str]:
    """Describe what the tables lack, as after a restore that broke off, and what lets one role run code as another."""
    there, statements = {name for (name,) in connection.execute(_THERE)}, "\n".join(sum(MIGRATIONS[:version], ()))
    made = {name.format(*found.groups()) for each, name in _MADE.items() for found in re.finditer(each, statements)}
    for name in sorted(missing := made - there):
        if f"table {name.rpartition(' of ')[2]}" not in missing:
            off = " or disabled: enable it, or" if re.match(r"trigger \w+ of|row-level", name) else ":"
            yield f"the {name} is missing{off} restore the database from a backup"
    if version > 1:  # which brought the guards
        yield from guards.problems(connection)


def _rows(connection: Connection, statement: str) -> Sequence[Sequence[Any]] | None:
    with suppress(errors.UndefinedTable, errors.UndefinedColumn, errors.InsufficientPrivilege, errors.LockNotAvailable):
        return connection.execute(statement).fetchall()
    return None
