"""Connections to a SQLite file: its dialect, its errors, how it is opened, and the checksum of a closed one."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from memory_retrievers.backends.files import Access, Folder
from memory_retrievers.backends.snapshot import DAMAGED_VECTOR
from memory_retrievers.backends.sql.connection import Dialect, insertion
from memory_retrievers.errors import BackendError, DiskFullError, ValidationError
from memory_retrievers.models.filters import JsonScalar
from memory_retrievers.models.selection import Vector, Vectors
from memory_retrievers.models.storage import ItemCondition

if TYPE_CHECKING:
    from memory_retrievers.backends.sql import connection as sql


def _volumes(scope: str, *fields: str) -> str:
    """The first has the name of its field, ``turn``, the next ``turn:1``."""
    return f"""kind IN (VALUES ({"), (".join(fields)}) UNION SELECT kind FROM keyword_statistics
        WHERE {scope} AND substr(kind, 1, instr(kind, ':') - 1) IN ({", ".join(fields)}))"""


def _member(column: str, name: str, value: JsonScalar, sign: str = "=") -> str:
    if value is None or isinstance(value, bool):
        equal = f"pair.type = '{json.dumps(value)}'"
    elif isinstance(value, str):
        equal = f"pair.type = 'text' AND pair.atom {sign} :{name}_value"
    else:
        equal = f"pair.type IN ('integer', 'real') AND pair.atom {sign} CAST(:{name}_value AS NUMERIC)"
    return f"EXISTS (SELECT 1 FROM json_each({column}) AS pair WHERE pair.key = :{name}_key AND {equal})"


def _field(name: str, condition: ItemCondition) -> str:
    """A path takes a third of the time of a walk, and knows no quotes in a key."""
    _, sign, value = condition
    if '"' in condition.key or "\\" in condition.key:
        return _member("m.metadata, '$.value'", name, value, sign)
    place = f"m.metadata, '$.value.\"' || :{name}_key || '\"'"
    if isinstance(value, bool):
        return f"json_type({place}) = '{json.dumps(value)}'"
    # the type is only asked of what would fit: lists come as text, and truth values as numbers
    if isinstance(value, str):
        return f"(json_extract({place}) {sign} :{name}_value AND json_type({place}) = 'text')"
    number = f"json_extract({place}) {sign} CAST(:{name}_value AS NUMERIC)"
    return f"({number} AND json_type({place}) IN ('integer', 'real'))"


def _items_by_row(wanted: str) -> str:
    """In the order of the index each row would be sought on another page."""
    return f"""memories m CROSS JOIN scopes p ON p.id = m.scope_id AND {wanted} AND m.row IN (
        SELECT i.row FROM memories i INDEXED BY items_by_time
        WHERE i.origin = 'store' AND i.kind = 'semantic' AND i.invalid_at IS NULL AND i.scope_id IN (
            SELECT id FROM scopes WHERE scope = :scope OR (scope >= :first AND scope < :behind)))"""


def _vector(vector: Vector) -> object:
    """Convert a vector of shape (d,) to a blob in single precision."""
    return vector.astype("<f4").tobytes()


def _stacked(vectors: Sequence[Any]) -> Vectors:
    """Convert n vectors as read from the database to an array of shape (n, d); (0, 0) for none."""
    try:
        return np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1 if vectors else 0)
    except (ValueError, TypeError) as error:
        raise BackendError(DAMAGED_VECTOR) from error


DIALECT: Final = Dialect(
    keyed_by_scope=False,
    in_order="CROSS JOIN",
    least="min",
    greatest="max",
    position="instr",
    vector_value="?",
    bytes_type="BLOB",
    schema_version="PRAGMA user_version",
    volume=32_768,  # some 13 MB of postings: of all those of a wide scope each new word changes another page
    volumes=_volumes,
    beside="".format,  # a number is enough here
    listed=json.JSONEncoder(default=list).encode,
    among="{} IN (SELECT value FROM json_each({}))".format,
    each="json_each({}) AS each".format,
    counted="json_each({}) AS {}".format,
    octets="length(CAST({} AS BLOB))".format,  # of a text, length counts to its first NUL
    items="SELECT value FROM json_each({})".format,
    summed="sum({})".format,  # rows come in the order of the loop
    gathered="group_concat({})".format,
    indexed_by="INDEXED BY {}".format,  # without it SQLite may read the memories themselves
    member=_member,
    field=_field,
    items_by_row=_items_by_row,
    newest_items="""scopes p CROSS JOIN memories m ON m.row IN (
        SELECT m.row FROM memories m INDEXED BY items_by_time WHERE m.scope_id = p.id AND {}
        ORDER BY m.updated_at DESC, m.id LIMIT :most)""".format,  # SQLite has no LATERAL
    vector=_vector,
    stacked=_stacked,
)

SQLITE_ERRORS: Final = (sqlite3.Error, OverflowError, UnicodeEncodeError)
"""Numbers beyond 64 bits and lone surrogates are refused before SQLite sees them."""


@contextmanager
def wrapped(path: Path | None) -> Iterator[None]:
    """Raise SQLite's errors as errors of this package."""
    try:
        yield
    except SQLITE_ERRORS as error:
        raise translated(error, path) from error


def translated(error: Exception, path: Path | None) -> ValidationError | BackendError:
    """Map an error of SQLite to one of this package; ``path`` names the file, None a store in memory."""
    if isinstance(error, sqlite3.IntegrityError):
        return ValidationError(f"the store refused the change: {error}; nothing was written")
    if not isinstance(error, sqlite3.Error):
        return ValidationError(f"SQLite cannot hold a value: {error}; nothing was written")
    if path is not None and _is_for_want_of_space(error, path):
        return DiskFullError(
            f"no space is left for {path}: {error}; any write was undone. Make room where it is, and try again; "
            "memory-retrievers purge makes a store smaller, and needs as much space again while it does"
        )
    return BackendError(f"SQLite failed on {path or 'the in-memory store'}: {error}")


def _is_for_want_of_space(error: sqlite3.Error, path: Path) -> bool:
    """SQLite does not always say so: that there is no space for the file beside its log is an error of reading."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code == sqlite3.SQLITE_FULL or (
        code in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN} and _is_full(path.absolute().parent)
    )


_PAGE: Final = 65_536
"""Bytes below which there is no space for what is written beside a database: its index of the log takes 32 kB."""


def _is_full(directory: Path) -> bool:
    """Return True if there is no space left where a directory is; False also if that is unknown."""
    try:
        seen = os.statvfs(directory)
    except (AttributeError, OSError):  # not on Windows
        return False
    return seen.f_bavail * seen.f_frsize < _PAGE or (seen.f_files > 0 and seen.f_ffree == 0)


PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA busy_timeout = 10000",
    "PRAGMA synchronous = FULL",  # what is committed survives a power cut
    "PRAGMA cache_size = -32768",  # KiB, per connection
    "PRAGMA mmap_size = 0",  # a file that somebody truncates must be an error, and not the end of the process
    "PRAGMA temp_store = MEMORY",
    "PRAGMA secure_delete = ON",  # what is deleted is overwritten, not only unlinked
)

PATIENCE = 10.0  # seconds; that of busy_timeout

State: TypeAlias = tuple[int, int, int, bool]


class Connection(sqlite3.Connection):
    """A connection to SQLite."""

    dialect = DIALECT
    states: sql.States | None = None
    unchanged: int | None = None  # in a transaction that writes, the number of changes at its beginning
    nested: int = 0  # transactions within that one

    def is_settled(self, *_: str, **__: bool) -> bool:
        """See ``sql.connection.Connection``; nobody else writes meanwhile, in whatever scope."""
        return not self.in_transaction or self.unchanged == self.total_changes

    def insert_rows(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]], /, *, ending: str = ""
    ) -> Iterable[Any]:
        """See ``sql.connection.Connection``."""
        sql = f"{insertion(table, columns)} {ending}"
        return [self.execute(sql, row).fetchone() for row in rows] if ending else self.executemany(sql, rows)


class Writer(Connection):
    """The connection that writes: in its transactions, states are known until something is changed, or undone."""

    _states: sql.States | None = None

    @property
    def states(self) -> sql.States | None:
        """See ``sql.connection.Connection``."""
        return self._states if self.unchanged in {None, self.total_changes} else None

    @states.setter
    def states(self, states: sql.States | None) -> None:
        self._states = states


def address_of(path: Path | None, *, mode: str) -> str:
    """The address of a file for :func:`connect`; None is a database in memory."""
    return ":memory:" if path is None else f"{path.absolute().as_uri()}?mode={mode}"


def connect(address: str, *, writes: bool = False) -> Connection:
    """Open a connection in autocommit mode: transactions are begun and ended by the caller."""
    factory = Writer if writes else Connection
    return sqlite3.connect(
        address, uri=True, isolation_level=None, check_same_thread=False, cached_statements=256, factory=factory
    )


@contextmanager
def joined(writer: Connection) -> Iterator[None]:
    """A transaction within that of the same thread; one that an interrupt ends is undone until it is released."""
    writer.nested += 1
    savepoint = f"joined{writer.nested}"  # each level has its own: what is undone is never what is around it
    try:
        writer.execute(f"SAVEPOINT {savepoint}")
        yield
        writer.execute(f"RELEASE {savepoint}")
    except BaseException:
        with contextlib.suppress(sqlite3.OperationalError):  # there is none where the interrupt came after its release
            writer.execute(f"ROLLBACK TO {savepoint}")
            writer.execute(f"RELEASE {savepoint}")
        raise
    finally:
        writer.nested -= 1


def state_of(path: Path) -> State:
    """State that changes when a file is written: its own, and whether it has a log."""
    seen = path.stat()
    return seen.st_ino, seen.st_size, seen.st_mtime_ns, has_log(path)


def look_into(path: Path) -> tuple[Connection, State | None]:
    """Open a read-only connection; with the file's state where nothing can be created beside it.

    SQLite needs a file beside a database with a log, to share it with a writer. Without a log, it can be read as what
    never changes; that it does not is then ours to see to.

    Raises:
        BackendError: There is a log, which cannot be read here.
    """
    connection = connect(address_of(path, mode="ro"))
    try:
        connection.execute("PRAGMA schema_version")
    except BaseException as error:
        connection.close()
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
            raise
        before = state_of(path)
        if before[-1]:
            raise BackendError(
                f"{path} has a log beside it ({path.name}-wal) that cannot be read where nothing can be written: close "
                "the store where it is written, or copy both files to where they can be, and open it there"
            ) from error
        return connect(address_of(path, mode="ro&immutable=1")), before
    return connection, None


def switch_to_wal(connection: Connection) -> None:
    """Switch to WAL, retrying: SQLite does not wait while another process does the same."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


# SQLite notices damage to the structure of its pages, but not to their content: a flipped bit in a text, a vector or an
# index would be a wrong answer. So the checksum of a closed database is in a file beside it. It is removed, durably,
# before the first change, so it never describes another state than it was computed from, even if a process is killed.
# It detects accidents, not attacks: a process that can write the database can write the checksum too.
_SEAL_SUFFIX: Final = "-sum"
_SEAL_BYTES: Final = 64  # bytes
_AT_ONCE: Final = 1 << 20  # bytes; 1 GB takes about 0.7 s to go through


def check_seal(path: Path) -> None:
    """Check that a database is unchanged since it was closed. The process must have no connection to it."""
    with Folder(path.parent) as folder:
        seal = _read_seal(folder, path)
        if seal is None:
            return
        if has_log(path):  # of a process that has removed the checksum by now, or of another program
            if _is_of_another_file(path) and _read_seal(folder, path) == seal:
                raise BackendError(
                    f"{path} is not the file whose latest changes are in {path.name}-wal beside it: a copy was put in "
                    f"its place. Remove {path.name}-wal and {path.name}-shm to open the copy"
                )
            return
        before = path.stat()
        if seal == _checksum(path):
            return
        after = path.stat()
        # another process may have begun to write meanwhile
        busy = has_log(path) or (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)
        if not busy and _read_seal(folder, path) == seal:
            raise BackendError(
                f"{path} is damaged: it is not as it was when it was closed. Restore a backup. If it was changed or "
                f"replaced on purpose, or to save what can be read, remove {_seal_name(path)} beside it, and run verify"
            )


def write_seal(path: Path, access: Access) -> None:
    """Write the checksum of a closed database, if possible. No process may have it open."""
    with contextlib.suppress(OSError), Folder(path.parent) as folder:
        if has_log(path):  # somebody else still reads, so not all is in the file
            return
        beside = f".{_seal_name(path)}.{secrets.token_hex(4)}.part"
        try:
            with folder.create(beside, access) as file:
                file.write(_checksum(path))
            folder.replace(beside, _seal_name(path))
        finally:
            folder.remove(beside)


def remove_seal(path: Path) -> None:
    """Delete the checksum before the database is changed, durably even in a power cut."""
    try:
        with Folder(path.parent) as folder:
            if folder.has(_seal_name(path)):
                folder.remove(_seal_name(path))
                folder.sync()
    except OSError as error:
        raise BackendError(f"{_seal_name(path)} beside {path} cannot be removed: {error.strerror}") from error


def _seal_name(path: Path) -> str:
    """Name of the file with the checksum."""
    return f"{path.name}{_SEAL_SUFFIX}"


def is_sealed(path: Path) -> bool:
    """Return True if the checksum file exists."""
    return path.with_name(_seal_name(path)).exists()


def _is_of_another_file(path: Path) -> bool:
    """True if a log was last written before the checksum came to this place: a copy keeps other times, but not this."""
    with contextlib.suppress(FileNotFoundError):
        log, seal = (path.with_name(name).stat() for name in (f"{path.name}-wal", _seal_name(path)))
        return log.st_ctime_ns < seal.st_ctime_ns
    return False


def log_size(path: Path) -> int:
    """Bytes of the log beside a database, which holds its latest changes; 0 if there is none."""
    with contextlib.suppress(FileNotFoundError):
        return path.with_name(f"{path.name}-wal").stat().st_size
    return 0


def has_log(path: Path) -> bool:
    """Return True if there is a log with anything in it."""
    return log_size(path) > 0


def _read_seal(folder: Folder, path: Path) -> bytes | None:
    """Read the checksum if there is one; a torn file counts as none."""
    try:
        content = folder.read(_seal_name(path), _SEAL_BYTES)
    except OSError:
        return None
    return content if content.endswith(b"\n") else None


def _checksum(path: Path) -> bytes:
    checksum = length = 0
    with path.open("rb") as file:
        while part := file.read(_AT_ONCE):
            checksum, length = zlib.crc32(part, checksum), length + len(part)
    return f"crc32 {checksum:08x} of {length} bytes\n".encode()
