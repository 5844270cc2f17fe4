"""A diagnosis of a store: who uses it, how it is, and what to do where something is not as it should be.

It works on stores of every version and beside the processes that use them, and changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memory_retrievers.backends import processes
from memory_retrievers.backends.files import PRIVATE, SHARED_GROUP, wider
from memory_retrievers.backends.processes import AttachedProcess
from memory_retrievers.backends.sql.verification import TableState
from memory_retrievers.backends.sqlite import FileState, state_of_file
from memory_retrievers.backends.sqlite.schema import MIGRATIONS
from memory_retrievers.errors import ConfigurationError, StoreLockedError, required
from memory_retrievers.models.contents import HALF_MOVED
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.storage.open import CHROMA_DIRECTORY, PSYCOPG, STORE_FILE, require_local

if TYPE_CHECKING:
    from memory_retrievers.backends.postgres.migrations import DatabaseState

LARGE: Final = 64 * 1024 * 1024  # bytes from which a log, or free space in a file, is worth a word
LONG: Final = timedelta(minutes=1)  # for so long no transaction of the package stays open without doing anything


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is not as it should be, as a sentence, and what to do about it."""

    what: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A process that has a store open for writing, or a session on its server."""

    pid: int  # its number where it runs, which may be in a container; 0 if it is not known
    program: str  # what it was started as, or calls itself
    version: str  # version of the package; empty for a session
    since: datetime | None  # when it came
    holds: tuple[str, ...]  # what it has to itself now, for example ``the queue of team/a``
    is_alive: bool  # False for one that was killed, and whose leases the others take over


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The state of a store."""

    backend: str  # ``SQLite``, or ``PostgreSQL`` with its version and that of pgvector
    schema: int  # version of the tables; 0 if there are none or they cannot be read
    known_schema: int  # the version that this package works on
    bytes: dict[str, int]  # size by part: ``database``, ``log``, ``free`` in the database, ``chroma``
    users: tuple[User, ...]  # who uses it
    tables: TableState | None  # what the tables tell; None if they cannot be read
    damage: tuple[str, ...]  # what the database finds wrong with itself, or is missing in it
    findings: tuple[Finding, ...]  # what to do something about; none if all is well


def diagnose_directory(directory: Path) -> Diagnosis:
    """Diagnose a store on disk, from a process that has it not open itself.

    Raises:
        ConfigurationError: There is no store.
    """
    file = directory / STORE_FILE
    if not file.is_file():
        raise ConfigurationError(f"there is no memory store at {directory}")
    attached = processes.attached(directory)
    seen = state_of_file(file, is_used=any(process.is_alive for process in attached))
    held = _locks_held(directory)
    leases = () if seen.tables is None else seen.tables.leases
    users = tuple(
        User(
            pid=process.pid,
            program=process.program,
            version=process.version,
            since=process.since,
            holds=(
                *held.get(process.pid, ()),
                *(f"the queue of {lease.scope}" for lease in leases if lease.holder == process.id),
            ),
            is_alive=process.is_alive,
        )
        for process in attached
    )
    size = {
        "database": file.stat().st_size,
        "log": seen.log_bytes,
        "free": seen.free_bytes,
        "chroma": _size_of(directory / CHROMA_DIRECTORY),
    }
    findings = (*_of_place(directory, size), *_of_file(seen, attached), *_of_tables(seen.tables, datetime.now(UTC)))
    return Diagnosis(
        backend="SQLite",
        schema=seen.schema,
        known_schema=len(MIGRATIONS),
        bytes=size,
        users=users,
        tables=seen.tables,
        damage=seen.damage,
        findings=findings,
    )


def diagnose_database(url: str) -> Diagnosis:
    """Diagnose a store in a PostgreSQL database.

    Raises:
        ConfigurationError: There is no store.
    """
    with required(PSYCOPG):
        from memory_retrievers.backends.postgres import migrations, schema

    seen = migrations.state_of_database(url)
    if not seen.schema:
        raise ConfigurationError("there is no memory store in this database")
    known = len(schema.MIGRATIONS)
    users = tuple(
        User(
            pid=session.pid,
            program=" ".join(filter(None, (session.program, session.user, session.client))),
            version="",
            since=session.since,
            holds=tuple(
                f"{number} {what}"
                for number, what in (
                    (session.advisory_locks, "turns to write"),
                    (session.tables, "tables, which nobody else can use"),
                )
                if number
            ),
            is_alive=True,
        )
        for session in seen.sessions
    )
    return Diagnosis(
        backend=f"PostgreSQL {seen.server}, pgvector {seen.pgvector}{', a standby' if seen.is_standby else ''}",
        schema=seen.schema,
        known_schema=known,
        bytes={"database": seen.size},
        users=users,
        tables=seen.tables,
        damage=seen.problems,
        findings=(
            *(Finding(what=what, remedy=how) for what, _, how in (each.partition(": ") for each in seen.problems)),
            *_of_schema(seen.schema, known),
            *_of_sessions(seen),
            *_of_tables(seen.tables, seen.now),
        ),
    )


def _of_sessions(seen: DatabaseState) -> Iterator[Finding]:
    for each in seen.sessions:
        since, is_idle = each.transaction_since, each.state.startswith("idle in transaction")
        if since is not None and seen.now - since > LONG and (each.holds_up or each.tables or is_idle):
            others = f"holds up {each.holds_up} others" if each.holds_up else "may hold up the others"
            yield Finding(
                what=f"session {each.pid} of {each.user!r} has been in a transaction for "
                f"{(seen.now - since).total_seconds():.0f} s, and {others}",
                remedy=f"end its program, or SELECT pg_terminate_backend({each.pid})",
            )


_LOCKS: Final = {
    "turn": "the turn to write",
    "moving": "the vectors, to make them anew",
    "feeding": "changes on their way to Chroma",
    "chroma": "Chroma's directory",
}
"""What the processes of a store have to themselves, by the file with the lock on it."""


def _locks_held(directory: Path) -> dict[int, list[str]]:
    """What each process holds now, by its number: only looked up, since trying a lock might keep somebody from it.

    Linux tells; elsewhere nothing is known.
    """
    held: dict[int, list[str]] = {}
    with contextlib.suppress(OSError):
        lines = [line.split() for line in Path("/proc/locks").read_text("ascii").splitlines()]
        holders = {fields[5]: int(fields[4]) for fields in lines if fields[1:4] == ["FLOCK", "ADVISORY", "WRITE"]}
        for name, what in _LOCKS.items():
            with contextlib.suppress(FileNotFoundError):
                seen = (directory / processes.DIRECTORY / name).stat()
                place = f"{os.major(seen.st_dev):02x}:{os.minor(seen.st_dev):02x}:{seen.st_ino}"
                if place in holders:
                    held.setdefault(holders[place], []).append(what)
    return held


def _of_place(directory: Path, size: dict[str, int]) -> Iterator[Finding]:
    try:
        require_local(directory)
    except StoreLockedError as error:
        yield Finding(what="the directory is on a network file system", remedy=str(error).partition(": ")[2])
    free = shutil.disk_usage(directory).free
    if free < size["database"]:
        yield Finding(
            what=f"{free:,} bytes are left on the disk, and the database has {size['database']:,}",
            remedy="make room: purge and backup need as much space again",
        )
    access = SHARED_GROUP if os.name == "posix" and directory.stat().st_mode & 0o070 else PRIVATE
    for what, _, remedy in (note.rpartition(": ") for note in wider(directory, access)):
        yield Finding(what=what, remedy=remedy)


def _of_file(seen: FileState, attached: Sequence[AttachedProcess]) -> Iterator[Finding]:
    if seen.damage:
        yield Finding(
            what=f"the database is damaged: {seen.damage[0]}",
            remedy="restore a backup; to save what can be read, memory-retrievers export from a copy of the directory",
        )
    if seen.tables is not None:
        yield from _of_schema(seen.schema, len(MIGRATIONS))
    living = [process for process in attached if process.is_alive]
    for process in living:
        if process.schema not in {0, seen.schema} and seen.tables is not None:
            yield Finding(
                what=f"process {process.pid} works with schema {process.schema}, and the store has {seen.schema}",
                remedy="end it, and start it with the version of memory-retrievers that the others have",
            )
    if seen.log_bytes > LARGE:
        remedy = "end what reads for long" if living else "open the store once, which folds the log into the database"
        yield Finding(what=f"the log has grown to {seen.log_bytes:,} bytes", remedy=remedy)
    if seen.free_bytes > LARGE:
        yield Finding(
            what=f"{seen.free_bytes:,} bytes of the database hold nothing any more",
            remedy="memory-retrievers purge gives them back",
        )
    if seen.tables is not None and seen.tables.reembedded is not None and not living:
        yield Finding(
            what="a reembed has not come to its end; the old vectors serve",
            remedy="run memory-retrievers reembed with the same embedder again, which goes on where it was",
        )


def _of_schema(version: int, known: int) -> Iterator[Finding]:
    if version > known:
        yield Finding(
            what=f"a newer version of memory-retrievers has written the store (schema {version}, here {known})",
            remedy="upgrade this one: pip install --upgrade memory-retrievers",
        )


def _of_tables(tables: TableState | None, now: datetime) -> Iterator[Finding]:
    if tables is None:
        return
    if tables.is_half_moved:
        what, _, remedy = HALF_MOVED.partition(": ")
        yield Finding(what=what, remedy=remedy)
    settings = IngestionSettings()
    old = timedelta(hours=settings.due_after_hours)
    is_due = (tables.waiting_messages or 0) >= settings.min_messages
    if is_due and tables.waiting_since is not None and now - tables.waiting_since > old:
        yield Finding(
            what=f"{tables.waiting_messages:,} messages wait to become episodes, the oldest since "
            f"{tables.waiting_since:%Y-%m-%d %H:%M} UTC",
            remedy="call process_due or flush, or let memory.start_worker() do it",
        )
    for lease in tables.leases:
        if lease.since is not None and now - lease.since > timedelta(minutes=settings.lease_minutes):
            yield Finding(
                what=f"the messages of {lease.scope} have been worked on since {lease.since:%Y-%m-%d %H:%M} UTC",
                remedy="nothing is lost: the next process_due or flush takes over; end a process that hangs",
            )
    if tables.unwritten:
        yield Finding(
            what=f"the adopted collection has yet to take {tables.unwritten:,} changes",
            remedy="open the store with that collection (sync_chroma) while Chroma can be reached",
        )


def _size_of(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):  # it goes while it is looked at
            total += path.lstat().st_size
    return total
