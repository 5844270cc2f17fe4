"""Memories of tests on a PostgreSQL server, whatever they ask for: ``make test-postgres``."""

from __future__ import annotations

import functools
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import psycopg
import psycopg_pool
from postgres_server import EMPTIED
from psycopg.conninfo import conninfo_to_dict

from memory_retrievers import AgentMemory

if TYPE_CHECKING:
    from postgres_server import PostgresServer


class PostgresMemories:
    """Memories on a server for whoever asks for one on disk or in memory.

    What a directory held is there again when it is opened again, until :meth:`end` is called; what was in memory is
    gone with its handle. The databases are used again, and with them their connections, which know the tables already.

    Args:
        server: Lends the databases.
    """

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._leases = ExitStack()
        self._pools = _Pools()
        self._free: list[str] = []
        self._directories: dict[Path, str] = {}
        self._finished: deque[str] = deque()

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """While this lasts, ``AgentMemory.in_memory`` and ``AgentMemory.open`` use the server."""
        with (
            self._leases,
            mock.patch.object(AgentMemory, "in_memory", self._in_memory),
            mock.patch.object(AgentMemory, "open", self._open),
            mock.patch.object(psycopg_pool, "ConnectionPool", self._pools),
        ):
            yield
            self._pools.close()

    def end(self) -> None:
        """Forget what the directories held."""
        self._finished.extend(self._directories.values())
        self._directories.clear()

    def _in_memory(self, **parts: Any) -> AgentMemory:  # noqa: ANN401 - as AgentMemory.connect has them
        url = self._lent()
        try:
            memory = _connected(url, parts)
        except BaseException:
            self._finished.append(url)
            raise
        detached = memory._release.detach()  # noqa: SLF001
        assert detached is not None
        memory._release = weakref.finalize(memory, functools.partial(self._let_go, detached[1], url))  # noqa: SLF001
        return memory

    def _open(self, path: str | Path, **parts: Any) -> AgentMemory:  # noqa: ANN401
        directory = Path(path).resolve()
        if directory not in self._directories:
            self._directories[directory] = self._lent()
        return _connected(self._directories[directory], parts)

    def _lent(self) -> str:
        """A database with nothing in it."""
        while self._finished:
            url = self._finished.popleft()
            self._pools.run(EMPTIED, url=url)
            self._free.append(url)
        return self._free.pop() if self._free else self._leases.enter_context(self._server.lent())

    def _let_go(self, closes: Callable[[], None], url: str) -> None:
        try:
            closes()
        finally:
            self._finished.append(url)  # emptied later: this may be the garbage collector


class _Pools:
    """In the place of the class: makes one pool of a database, and everybody who asks for one shares it."""

    check_connection = staticmethod(psycopg_pool.ConnectionPool.check_connection)

    def __init__(self) -> None:
        self._made: dict[tuple[object, object], psycopg_pool.ConnectionPool] = {}
        self._make = psycopg_pool.ConnectionPool

    def __call__(self, url: str, **options: Any) -> SharedPool:  # noqa: ANN401 - as the class has them
        database = _database_of(url)
        is_new = database not in self._made
        if is_new:
            self._made[database] = self._make(url, **options)
        return SharedPool(self._made[database], is_new=is_new)

    def run(self, statement: str, *, url: str) -> None:
        with self._made[_database_of(url)].connection() as connection:
            connection.execute(statement.encode())

    def close(self) -> None:
        for pool in self._made.values():
            pool.close()


class SharedPool:
    """A pool that stays open when it is closed."""

    def __init__(self, pool: psycopg_pool.ConnectionPool, *, is_new: bool) -> None:
        self._pool = pool
        self._is_new = is_new
        self._is_open = True
        self.putconn = pool.putconn

    def wait(self, timeout: float) -> None:
        """Wait for a new pool; one whose connections are out would not count as full, and be closed at last."""
        if self._is_new:
            self._pool.wait(timeout)

    def getconn(self) -> psycopg.Connection[Any]:
        if not self._is_open:
            raise psycopg_pool.PoolClosed("the pool is closed")
        return self._pool.getconn()

    def close(self) -> None:
        self._is_open = False


def _database_of(url: str) -> tuple[object, object]:
    """The server and the database, whatever else the address says."""
    said = conninfo_to_dict(url)
    return said.get("host"), said.get("dbname")


def _connected(url: str, parts: dict[str, Any]) -> AgentMemory:
    """With the same parts; PostgreSQL has one keyword engine, and Chroma only as a client."""
    parts = {name: value for name, value in parts.items() if name != "keyword"}
    if parts.get("dense") == "chroma":
        del parts["dense"]
    return AgentMemory.connect(url, **parts)
