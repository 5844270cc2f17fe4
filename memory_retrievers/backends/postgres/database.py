"""The PostgreSQL database: a connection pool, and transactions that lock scopes in a fixed order."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import psycopg
import psycopg_pool
from psycopg.pq import TransactionStatus

from memory_retrievers.backends.postgres import guards, migrations
from memory_retrievers.backends.postgres.connection import Connection, ServerConnection, bounded, wrapped
from memory_retrievers.backends.postgres.schema import OTHER_TABLES, TABLES_BY_SCOPE
from memory_retrievers.backends.sql import connection as sql
from memory_retrievers.backends.sql.requests import noting, under_way
from memory_retrievers.errors import BackendError, ConfigurationError
from memory_retrievers.settings import POOL_SIZE

_PATIENCE: Final = 30.0  # seconds to wait for a connection of the pool, and for a transaction's turn
_TRIED_EVERY: Final = 0.05  # seconds between attempts to get a lock

_SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Whatever the database's default is: a snapshot of before the wait for a turn would fail with who had it before."""

_MOST_LOCKS: Final = 32  # a transaction that changes more scopes than this has the whole store to itself
LEAST_CONNECTIONS: Final = 2  # one reads a snapshot, or holds a lock, while the other is asked

_SETTINGS: Final = {
    "hnsw.iterative_scan": "strict_order",
    # how many neighbours a search keeps in sight: what Chroma's index is made with here
    "hnsw.ef_search": "400",
    # planning for so many partitions takes longer than most statements, and one plan serves all values
    "plan_cache_mode": "force_generic_plan",
    # of the statements here and of what psycopg reads, whatever the database's own are
    "standard_conforming_strings": "on",
    "datestyle": "ISO",
    # as what the address asks of this side: the server notices within a minute that a machine is gone, and its locks go
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}

_IDLE: Final = 0.5  # seconds after which a connection is asked whether it is still alive before it is used


class Pool:
    """Connection pool that replaces lost connections.

    Args:
        address: How to reach the database.
        size: How many connections to keep at most.
        patience: Seconds to wait for one. Whoever waits so long has seen a try to reach a server that was away.
        settings: Of the server, for every connection.
        sign: Key of the lock that every connection shares, by which others see that this process lives.

    Raises:
        psycopg_pool.PoolTimeout: The database cannot be reached.
    """

    def __init__(self, address: str, *, size: int, patience: float, settings: Mapping[str, str], sign: int) -> None:
        self._sign = sign
        self._settings = {**_SETTINGS, **settings}
        self._lost_at = 0.0
        self.started: object = None  # when the server did that connected last
        self._size = self._most = size
        self._dropped: list[None] = []
        self._pool: psycopg_pool.ConnectionPool[ServerConnection] = psycopg_pool.ConnectionPool(
            address,
            connection_class=ServerConnection,
            min_size=LEAST_CONNECTIONS,
            max_size=size,
            timeout=patience,
            reconnect_timeout=patience,
            kwargs={"autocommit": True, "prepare_threshold": 1},  # planning a statement takes longer than it does
            configure=self._configure,
            check=self._check,
            name="memory-retrievers",
            num_workers=1,
            open=True,
        )
        try:
            self._pool.wait(patience)
        except BaseException:
            self._pool.close()
            raise

    @contextmanager
    def taken(self) -> Iterator[psycopg.Connection[Any]]:
        """Check out a connection; it is returned at the end, and uncommitted work is rolled back."""
        if self._most != (most := self._size + len(self._dropped)):  # the pool goes on counting those
            self._most = most
            self._pool.resize(LEAST_CONNECTIONS, most)
        raw = self._pool.getconn()
        # Counted from here, not from when it is given back: it may have died unseen while it was out.
        raw._used_at = time.monotonic()  # type: ignore[attr-defined]  # noqa: SLF001
        try:
            yield raw
        finally:
            if raw.pgconn.transaction_status != TransactionStatus.IDLE:
                with contextlib.suppress(psycopg.Error):
                    raw.rollback()
            if raw.closed:
                self._lost_at = time.monotonic()
            self._pool.putconn(raw)

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def _configure(self, raw: ServerConnection) -> None:
        for setting in self._settings.items():
            raw.execute("SELECT set_config(%s, %s, FALSE)", setting)
        taken = "SELECT pg_postmaster_start_time(), pg_advisory_lock_shared(%s)"  # it goes with the last connection
        ((self.started, _),) = raw.execute(taken, (self._sign,))
        raw.dropped = self._dropped  # before that the pool itself counts it out

    def _check(self, raw: psycopg.Connection[Any]) -> None:
        """Test a connection before use if it was idle or another was lost since."""
        if getattr(raw, "_used_at", 0.0) < max(self._lost_at, time.monotonic() - _IDLE):
            try:
                psycopg_pool.ConnectionPool.check_connection(raw)
            except psycopg.Error:
                self._lost_at = time.monotonic()
                raise


class Database(sql.Database):
    """A PostgreSQL database, safe to use from several threads, and from many processes at once.

    Args:
        url: How to reach it, as ``postgresql://…`` or in any other form that libpq takes.
        pool_size: How many connections to keep at most.
        within: Confine every connection to this scope and those below it: where the role does not own the tables,
            PostgreSQL shows it no row of any other.
        read_only: Only look into tables that are there, also those of a standby.
    """

    dialect = Connection.dialect
    answers_at_once = False

    def __init__(
        self, url: str, *, pool_size: int = POOL_SIZE, within: str | None = None, read_only: bool = False
    ) -> None:
        super().__init__(read_only=read_only)
        if type(pool_size) is not int or pool_size < LEAST_CONNECTIONS:
            raise ConfigurationError(
                f"pool_size must be a whole number and at least {LEAST_CONNECTIONS}, not {pool_size!r}"
            )
        with wrapped():
            with migrations.looking(url) as connection:
                migrations.require_session(connection, url)
                if read_only:
                    migrations.require_current(connection)
                else:
                    migrations.migrate(connection)
                # a database may hold several stores, each in its own schema
                store = sql.one(connection, "SELECT 'scopes'::regclass::oid::bigint")
                self._key = _hashed(f"memory-retrievers/{store}")
            settings = {"lock_timeout": f"{_PATIENCE:.0f}s"}
            if read_only:
                settings["default_transaction_read_only"] = "on"
            if within is not None:
                settings["memory_retrievers.within"] = within
            sign = self._key_of(self.holder, purpose="living")
            self._pool = Pool(bounded(url), size=pool_size, patience=_PATIENCE, settings=settings, sign=sign)

    @contextmanager
    def write(self, *scopes: str) -> Iterator[Connection]:
        """See ``sql.connection.Database``."""
        self.require_writable()
        begun = self._local.reading
        if begun is not None and begun.in_transaction:
            held = self._local.scopes
            if held and not held.issuperset(scopes):
                raise ConfigurationError("a transaction may only change the scopes that it was begun for")
            with wrapped(), _joined(begun):
                yield begun
            return
        with wrapped(), self._taken(writes=True, states={}, scopes=scopes or None) as connection:
            connection.run(self._beginning(scopes))
            self._local.reading, self._local.scopes = connection, frozenset(scopes)
            try:
                yield connection
                request = under_way.get()
                with contextlib.nullcontext() if request is None else noting(connection, request):
                    connection.commit()
            except BaseException:
                with contextlib.suppress(psycopg.Error):  # a connection that is lost has undone it by itself
                    connection.undo()
                raise
            finally:
                self._local.reading = begun
                if begun is not None and begun.states is not None:
                    begun.states.clear()  # this thread's own write has changed them

    @contextmanager
    def read(self, *, snapshot: bool = False) -> Iterator[Connection]:
        """See ``sql.connection.Database``."""
        self._require_own_process()
        begun = self._local.reading
        with wrapped(), self._taken() if begun is None else contextlib.nullcontext(begun) as connection:
            if not snapshot or connection.raw.info.transaction_status != TransactionStatus.IDLE:
                yield connection
                return
            connection.run(_SNAPSHOT)
            try:
                yield connection
            finally:
                with contextlib.suppress(psycopg.Error):  # a connection that is lost has ended it by itself
                    connection.raw.rollback()

    @contextmanager
    def reading(self, known: sql.States | None = None) -> Iterator[None]:
        """See ``sql.connection.Database``."""
        self._require_own_process()
        if self._local.reading is not None:
            yield
            return
        with wrapped(), self._taken(states={} if known is None else known) as connection:
            self._local.reading = connection
            try:
                yield
            finally:
                self._local.reading = None

    def states_read(self) -> sql.States | None:
        """See ``sql.connection.Database``."""
        begun: Connection | None = self._local.reading
        return None if begun is None else begun.states

    def _require_own_process(self) -> None:
        if self._process != os.getpid():
            raise ConfigurationError("this memory was opened before a fork, in the parent: open it again in the child")

    @contextmanager
    def alone(self, purpose: str, *, waits: bool = False) -> Iterator[Connection | None]:
        """See ``sql.connection.Database``; yields the session that holds the lock, which goes with it."""
        self.require_writable()
        with self.session() as connection:
            key, until = self._key_of("", purpose=purpose), time.monotonic() + (_PATIENCE if waits else 0)
            # A statement that waits would hold up whoever makes an index, and who may be the one it waits for.
            while not sql.one(connection, f"SELECT pg_try_advisory_lock({key})"):
                if time.monotonic() >= until:
                    yield None
                    return
                time.sleep(_TRIED_EVERY)
            try:
                yield connection
            finally:
                with contextlib.suppress(psycopg.Error):
                    connection.run(f"SELECT pg_advisory_unlock({key})")

    @property
    def is_writing(self) -> bool:
        """See ``sql.connection.Database``."""
        return self._local.reading is not None and self._local.reading.in_transaction

    @property
    def holder(self) -> str:
        """See ``sql.connection.Database``; all handles of a process have one."""
        return _id_of(self._process)

    def is_gone(self, holder: str) -> bool:
        """See ``sql.connection.Database``: none of its connections is left; older versions named no holder."""
        if self._read_only or holder in {"", self.holder}:  # a standby knows no locks of the primary
            return False
        with self.read() as connection:
            key = self._key_of(holder, purpose="living")
            return bool(sql.one(connection, "SELECT pg_try_advisory_xact_lock(?)", (key,)))

    def next_passages(self, connection: sql.Connection, number: int) -> Sequence[int]:
        """See ``sql.connection.Database``; a transaction has its scopes to itself, so within one they rise."""
        found = connection.execute("SELECT nextval('passage_ids') FROM generate_series(1, ?)", (number,))
        return [int(id) for (id,) in found]  # noqa: A001

    def problems(self, connection: sql.Connection) -> Iterator[str]:
        """See ``sql.connection.Database``; PostgreSQL looks after its files, this after tables and rights."""
        return migrations.problems(connection)

    def require_sight(self, connection: sql.Connection) -> None:
        """See ``sql.connection.Database``: the role owns no tables, and is not confined to any scope either."""
        hidden = """SELECT row_security_active('scopes') AND NOT EXISTS (SELECT FROM scopes)
            AND coalesce(current_setting('memory_retrievers.within', TRUE), '') = ''"""
        if sql.one(connection, hidden):
            raise ConfigurationError(
                "this role sees nothing of the store: connect as the owner of its tables, or name its scope by within="
            )

    def notes(self) -> Iterator[str]:
        """Say that the role sees a part of the store alone."""
        with self.read() as connection:
            yield from guards.blind_spots(connection)

    def compact(self) -> None:
        """See ``sql.connection.Database``: every table is rewritten, under an exclusive lock."""
        self.require_writable()
        if self.is_writing:
            raise ConfigurationError("a database cannot be compacted inside a transaction: end it first")
        with self.alone("indexing", waits=True) as connection:  # else either could wait for the other
            if connection is None:
                raise BackendError("the vector index is being built, so no table can be rewritten: try again later")
            owned = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'memories'::regclass"
            if not sql.one(connection, owned):  # who does not own a table leaves it out with a mere warning
                raise ConfigurationError("only a role that owns the tables of the store can purge it")
            guards.clear_samples(connection)
            for table in (*TABLES_BY_SCOPE, *OTHER_TABLES):
                connection.run(f"VACUUM (FULL, ANALYZE) {table}")
            guards.compact_samples(connection)

    def copy_to(self, file: Path) -> None:
        """See ``sql.connection.Database``; always refused: PostgreSQL has better ways."""
        raise ConfigurationError(
            f"a PostgreSQL store is not copied to {file}: back it up with pg_dump or pg_basebackup, or write its "
            "memories to a file with export"
        )

    def close(self) -> None:
        """See ``sql.connection.Database``; in a forked child, which has no connections, it does nothing."""
        if self._process == os.getpid():
            self._pool.close()

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """Open a connection outside any transaction, for statements that PostgreSQL runs in none."""
        self._require_own_process()
        with wrapped(), self._taken() as connection:
            yield connection

    @contextmanager
    def _taken(self, **options: Any) -> Iterator[Connection]:  # noqa: ANN401 - those of a Connection
        with self._pool.taken() as raw:
            self.history = self._pool.started
            yield Connection(raw, **options)

    def _beginning(self, scopes: Sequence[str]) -> str:
        """Begin a transaction and take its locks, always in the same order to avoid deadlocks."""
        if not scopes or len(scopes) > _MOST_LOCKS:
            return f"{_BEGIN}; SELECT pg_advisory_xact_lock({self._key})"
        turns = ", ".join(f"pg_advisory_xact_lock({key})" for key in sorted({self._key_of(each) for each in scopes}))
        return f"{_BEGIN}; SELECT pg_advisory_xact_lock_shared({self._key}); SELECT {turns}"

    def _key_of(self, scope: str, *, purpose: str = "writing") -> int:
        return _hashed(f"{self._key}/{purpose}/{scope}")


@cache
def _id_of(process: int) -> str:  # noqa: ARG001 - a fork is another process
    return uuid.uuid4().hex


@contextmanager
def _joined(connection: Connection) -> Iterator[None]:
    connection.send("SAVEPOINT joined")
    try:
        yield
        connection.send("RELEASE joined")
    except BaseException:
        with contextlib.suppress(psycopg.Error):
            connection.undo("joined")
        raise


def _hashed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), signed=True)
