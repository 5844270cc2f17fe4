"""A pool of connections to a PostgreSQL database, each set up as the ledger's statements expect it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import psycopg
import psycopg_pool

from memory_retrievers.backends.postgres.connection import prepare

LEAST_CONNECTIONS: Final = 2
"""One reads a snapshot, or holds a lock, while the other is asked."""

_SETTINGS: Final = {
    "hnsw.iterative_scan": "strict_order",
    # how many neighbours a search keeps in sight: what Chroma's index is made with here
    "hnsw.ef_search": "400",
    # planning for so many partitions takes longer than most statements, and one plan serves all values
    "plan_cache_mode": "force_generic_plan",
}

_IDLE: Final = 0.5
"""Seconds after which a connection is asked whether it is still alive before it is used."""


class Pool:
    """Connections to a database, which replaces those that are lost.

    Args:
        address: How to reach the database.
        size: How many connections to keep at most.
        patience: Seconds to wait for one. Whoever waits so long has seen a try to reach a server that was away.
        settings: Of the server, for every connection.

    Raises:
        psycopg_pool.PoolTimeout: The database cannot be reached.
    """

    def __init__(self, address: str, *, size: int, patience: float, settings: Mapping[str, str]) -> None:
        self._settings = {**_SETTINGS, **settings}
        self._lost_at = 0.0
        self._pool: psycopg_pool.ConnectionPool[psycopg.Connection[Any]] = psycopg_pool.ConnectionPool(
            address,
            min_size=LEAST_CONNECTIONS,
            max_size=size,
            timeout=patience,
            reconnect_timeout=patience,
            kwargs={"autocommit": True},
            configure=self._configure,
            check=self._check,
            reset=_note_use,
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
        """A connection, to be given back in the end; what it has begun and not committed is undone then."""
        raw = self._pool.getconn()
        try:
            yield raw
        finally:
            with contextlib.suppress(psycopg.Error):
                raw.rollback()
            if raw.closed:
                self._lost_at = time.monotonic()
            self._pool.putconn(raw)

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def _configure(self, raw: psycopg.Connection[Any]) -> None:
        prepare(raw)
        for setting in self._settings.items():
            raw.execute("SELECT set_config(%s, %s, FALSE)", setting)

    def _check(self, raw: psycopg.Connection[Any]) -> None:
        """Ask a connection whether it is still there, if it has been idle or another was lost since."""
        if getattr(raw, "_used_at", 0.0) < max(self._lost_at, time.monotonic() - _IDLE):
            psycopg_pool.ConnectionPool.check_connection(raw)


def _note_use(raw: psycopg.Connection[Any]) -> None:
    raw._used_at = time.monotonic()  # type: ignore[attr-defined]  # noqa: SLF001
