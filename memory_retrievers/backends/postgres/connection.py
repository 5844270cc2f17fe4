"""PostgreSQL connections: how values pass through them, statements that wait for a round trip, and SQL dialect."""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import psycopg
import psycopg_pool
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumperUnknown, TextBinaryLoader

from memory_retrievers.backends.sql.connection import Dialect
from memory_retrievers.errors import BackendError, ConfigurationError, DiskFullError, ValidationError
from memory_retrievers.models.filters import JsonScalar
from memory_retrievers.models.selection import Vector, Vectors
from memory_retrievers.models.storage import ItemCondition

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.connection import Cursor, States, Values


_NAMED: Final = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_HEADER: Final = 4
"""Bytes before the numbers of a vector in pgvector's binary form: its dimension, and two that are not used."""

_MOST_WAITING: Final = 32  # statements of a transaction, for one round trip

ESCAPE: Final = "\x1a"
"""PostgreSQL stores no NUL, so one becomes this with a 0, and this one itself is doubled with a 1."""


@functools.lru_cache(maxsize=1024)
def translated(sql: str) -> str:
    """Rewrite the parameters of a statement in psycopg's style.

    >>> translated("SELECT CAST(:id AS text) WHERE a = ?")
    'SELECT CAST(%(id)s AS text) WHERE a = %s'
    """
    return _NAMED.sub(r"%(\1)s", sql.replace("%", "%%")).replace("?", "%s")


def escaped(text: str) -> str:
    r"""Escape NUL, which PostgreSQL cannot store.

    >>> escaped("a\x00b")
    'a\x1a0b'
    """
    return text.replace(ESCAPE, ESCAPE + "1").replace("\0", ESCAPE + "0")


def unescaped(text: str) -> str:
    r"""Undo :func:`escaped`.

    >>> unescaped(escaped("a\x00b\x1a"))
    'a\x00b\x1a'
    """
    return text.replace(ESCAPE + "0", "\0").replace(ESCAPE + "1", ESCAPE)


def _json(column: str) -> str:
    """A column as JSON; NUL and ``ESCAPE`` in it are escaped as in a text column, once no backslash is half a pair."""
    steps = ((r"'\\'", f"chr({ord(ESCAPE)})"), (r"'\u001a'", r"'\u001a1'"), (r"'\u0000'", r"'\u001a0'"))
    for was, is_now in (*steps, steps[0][::-1]):
        column = f"replace({column}, {was}, {is_now})"
    return f"CAST({column} AS json)"


def _member(column: str, name: str, value: JsonScalar, sign: str = "=") -> str:
    """CASE, since a condition beside another may be looked at first."""
    if value is None or isinstance(value, bool):
        equal = f"CAST(pair.value AS text) = '{json.dumps(value)}'"
    elif isinstance(value, str):
        equal = f"json_typeof(pair.value) = 'string' AND (pair.value #>> '{{}}') COLLATE \"C\" {sign} :{name}_value"
    else:
        number = f"CAST(CAST(pair.value AS text) AS numeric) {sign} CAST(CAST(:{name}_value AS text) AS numeric)"
        equal = f"CASE WHEN json_typeof(pair.value) = 'number' THEN {number} ELSE FALSE END"
    return f"EXISTS (SELECT 1 FROM json_each({_json(column)}) AS pair WHERE pair.key = :{name}_key AND {equal})"


def _field(name: str, condition: ItemCondition) -> str:
    """Equal values of JSON are of one type."""
    _, sign, value = condition
    found, given = f"(m.item_value -> CAST(:{name}_key AS text))", f"CAST(:{name}_value AS text)"
    if isinstance(value, bool):
        return f"{found} = CAST('{json.dumps(value)}' AS jsonb)"
    # in a query of its own, the value is read once and not for every item
    wanted = f"to_jsonb({given})" if isinstance(value, str) else f"(SELECT CAST({given} AS jsonb))"
    if sign == "=":
        return f"{found} = {wanted}"
    if isinstance(value, str):
        return f"(jsonb_typeof({found}) = 'string' AND ({found} #>> '{{}}') COLLATE \"C\" {sign} :{name}_value)"
    return f"(jsonb_typeof({found}) = 'number' AND {found} {sign} {wanted})"


def _vector(vector: Vector) -> object:
    """Convert a vector of shape (d,) to a parameter, with every digit of single precision."""
    return f"[{','.join(map(str, vector.tolist()))}]"


def _stacked(vectors: Sequence[Any]) -> Vectors:
    """Convert n vectors as read from the database to an array of shape (n, d); (0, 0) for none."""
    numbers = np.frombuffer(b"".join(vector[_HEADER:] for vector in vectors), dtype=">f4")
    return numbers.astype("<f4").reshape(len(vectors), -1 if vectors else 0)


# The planner knows of no text how rare it is.
_BY_SCOPE: Final = "scopes p CROSS JOIN LATERAL (SELECT * FROM memories m WHERE m.scope_id = p.id AND {}"
DIALECT: Final = Dialect(
    keyed_by_scope=True,
    in_order="JOIN",
    least="least",
    greatest="greatest",
    position="strpos",
    vector_value="CAST(? AS vector)",
    bytes_type="bytea",
    schema_version="SELECT version FROM schema_version",
    volume=0,  # its rows lie in the order in which they came
    volumes=lambda _scope, *fields: f"kind IN ({', '.join(fields)})",
    beside="AND {}.scope_id = {}.scope_id".format,
    among="{} = ANY({})".format,
    each="unnest(CAST({} AS bigint[])) AS each (value)".format,
    counted="(SELECT key, CAST(value AS bigint) AS value FROM json_each_text(CAST({} AS json))) AS {}".format,
    octets=f"octet_length(replace({{}}, chr({ord(ESCAPE)}), ''))".format,  # as if nothing were escaped
    summed="sum({} ORDER BY {})".format,  # rows come in any order, and floats are not associative
    gathered="string_agg(CAST({} AS text), ',' ORDER BY passage)".format,
    indexed_by="".format,  # PostgreSQL chooses by itself
    listed=list,
    items=lambda column: f"SELECT listed.value FROM json_array_elements_text({_json(column)}) AS listed (value)",
    member=_member,
    field=_field,
    items_by_row=f"{_BY_SCOPE} OFFSET 0) m".format,
    newest_items=f"{_BY_SCOPE} ORDER BY m.updated_at DESC, m.id LIMIT :most) m".format,
    vector=_vector,
    stacked=_stacked,
)

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
    """Add timeouts to the address of a database where it sets none.

    Raises:
        ConfigurationError: It cannot be read. It is not shown, since a password may stand in it.
    """
    try:
        given = conninfo_to_dict(url)
        # with the rest of a password, which an error would show; in the path, where a / of it is unwritten
        is_misread = any(host[:1] not in "/@" and "@" in host for host in str(given.get("host", "")).split(","))
        is_misread |= "@" in url.partition("://")[2].partition("/")[2].partition("?")[0]
    except (psycopg.ProgrammingError, UnicodeEncodeError):
        is_misread = True
    if is_misread:
        raise ConfigurationError(
            "the address of the database cannot be read: write it as postgresql://user:password@host:5432/database, "
            "with @, /, % and other signs of a password as %40, %2F, %25 and so on, = within a parameter as %3D, and "
            "only with parameters that libpq knows: pgbouncer=true, schema= and pool_size= are none"
        )
    return make_conninfo("", **_BOUNDED | given | {"client_encoding": "utf8"})


def tells_secret(url: str) -> bool:
    """Whether an address that can be read tells a password or another secret, wherever libpq finds one."""
    return not {"password", "sslpassword", "oauth_client_secret"}.isdisjoint(conninfo_to_dict(url))


class ServerConnection(psycopg.Connection[Any]):
    """A connection through which values pass as they do through SQLite, and which tells why the server has ended it."""

    dropped: list[None] | None = None  # grows with each that an interrupt loses open between the pool and its taker

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as psycopg's own
        super().__init__(*given, **named)
        self.adapters.register_dumper(str, _TextDumper)
        self.adapters.register_loader("text", _TextLoader)
        self.adapters.register_dumper(int, Int8Dumper)  # one statement, however large its numbers are
        self._ends: list[tuple[str, str | None]] = []
        self.add_notice_handler(partial(_note_end, self._ends))  # which must not hold the connection

    def wait(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - as psycopg's own
        """What the server said last, libpq takes for a notice where it is read before anything else is asked."""
        try:
            return super().wait(*given, **named)
        except psycopg.OperationalError as error:
            if error.sqlstate is not None or not self._ends:
                raise
            reason, state = self._ends[0]
            (told := psycopg.OperationalError(reason)).sqlstate = state
            raise told from error

    def __del__(self, *_: Any) -> None:  # noqa: ANN401 - in any thread, which may hold any lock
        if self.dropped is not None and not self.closed:
            self.dropped.append(None)


def _note_end(ends: list[tuple[str, str | None]], notice: psycopg.errors.Diagnostic) -> None:
    if notice.severity_nonlocalized == "FATAL":
        ends.append((str(notice.message_primary), notice.sqlstate))


class Connection:
    """A ``sql.connection.Connection``.

    Args:
        raw: The connection of psycopg that it is.
        writes: Whether it is in a transaction that writes.
        states: What has been read of scopes, where each is asked for but once.
        scopes: Scopes that the transaction has to itself; None is the whole store.
    """

    dialect = DIALECT

    def __init__(
        self,
        raw: psycopg.Connection[Any],
        *,
        writes: bool = False,
        states: States | None = None,
        scopes: Collection[str] | None = (),
    ) -> None:
        self.raw = raw
        self.in_transaction = writes
        self.states = states
        self._scopes = scopes
        self._waiting: list[Callable[[], object]] = []

    def execute(self, sql: str, parameters: Values = (), /) -> Cursor:
        """See ``sql.connection.Connection``; in a transaction it waits until this or another result is needed."""
        cursor = self.raw.cursor(binary=True)
        run = partial(cursor.execute, translated(sql), _values(parameters))
        if not self.in_transaction:
            return run()
        if not sql.lstrip().startswith("SELECT"):
            self.states = None
        if len(self._waiting) == _MOST_WAITING:
            self.send()
        self._waiting.append(run)
        return cast("Cursor", _Later(cursor, self.send))

    def executemany(self, sql: str, parameters: Iterable[Values], /) -> Cursor:
        """See ``sql.connection.Connection``."""
        each = [_values(values) for values in parameters]
        if len(each) == 1:  # without a pipeline of its own, which takes longer than the statement
            return self.execute(sql, each[0])
        self.send()
        self.states = None
        cursor = self.raw.cursor()
        cursor.executemany(translated(sql), each)
        return cursor

    def send(self, *last: str) -> list[psycopg.Cursor[Any]]:
        """Send what waits, and then statements without parameters, in one round trip; the first error is raised."""
        waiting, self._waiting = self._waiting, []
        with self.raw.pipeline() if len(waiting) + len(last) > 1 else contextlib.nullcontext():
            for run in waiting:
                run()
            return [self.raw.execute(statement, prepare=False) for statement in last]

    def insert_rows(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]], /, *, ending: str = ""
    ) -> Iterable[Any]:
        """See ``sql.connection.Connection``; COPY would be refused where rows are guarded by policies."""
        if not rows:
            return []
        if all(type(value) in {int, str} for value in rows[0]):
            lists = ", ".join(f"CAST(? AS {'text' if isinstance(value, str) else 'bigint'}[])" for value in rows[0])
            sql = f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM unnest({lists}) {ending}"
            return self.execute(sql, [list(values) for values in zip(*rows, strict=True)])
        records = [
            {
                name: escaped(value) if isinstance(value, str) else value
                for name, value in zip(columns, row, strict=True)
                if value is not None
            }
            for row in rows
        ]
        names = ", ".join(columns)  # the values are read by their types in the table
        sql = f"""INSERT INTO {table} ({names}) SELECT {names}
            FROM json_populate_recordset(CAST(NULL AS {table}), CAST(? AS json)) {ending}"""
        return self.execute(sql, (json.dumps(records),))

    def is_settled(self, scope: str, /, *, include_child_scopes: bool) -> bool:
        """See ``sql.connection.Connection``; in scopes that are not locked others write meanwhile."""
        is_alone = self._scopes is None or (scope in self._scopes and not include_child_scopes)
        return not self.in_transaction or (is_alone and self.states is not None)

    def commit(self) -> None:
        """End the transaction.

        Raises:
            BackendError: A statement in it had failed and was ignored: PostgreSQL has rolled it back without an error.
        """
        (ended,) = self.send("COMMIT")
        if ended.statusmessage != "COMMIT":
            raise BackendError("PostgreSQL has undone the transaction, since a statement in it failed")

    def run(self, statements: str) -> None:
        """Run statements without parameters, in one round trip, after what waits."""
        self.send()
        self.raw.execute(statements.encode(), prepare=False)

    def undo(self, savepoint: str | None = None) -> None:
        """Roll back to a savepoint or all; statements are prepared anew, since those behind a failed one were not."""
        self._waiting.clear()
        if savepoint is None:
            self.raw.rollback()
        else:
            self.run(f"ROLLBACK TO {savepoint}; RELEASE {savepoint}")


class _Later:
    """A cursor whose statement is sent, together with others, once anything is asked of it."""

    def __init__(self, cursor: Cursor, send: Callable[[], object]) -> None:
        self._cursor, self._send = cursor, send

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a cursor has
        self._send()
        return getattr(self._cursor, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchall())


def _values(parameters: Values) -> Values:
    return parameters if isinstance(parameters, Mapping) else tuple(parameters)


@contextmanager
def wrapped() -> Iterator[None]:
    """Raise driver errors as errors of this package."""
    try:
        yield
    except _ERRORS as error:
        ended_by = error.__context__  # of the driver's wait, such as a job's time limit
        if "pipeline mode while busy" in str(error) and not isinstance(ended_by, psycopg.Error | None):
            raise ended_by from None
        raise _translated(error) from error


_REMARKS: Final = {
    psycopg_pool.PoolTimeout: ": the server cannot be reached, or all connections that pool_size allows are in use",
    psycopg.errors.LockNotAvailable: "; memory-retrievers doctor names the sessions that others wait for",
    psycopg.errors.ReadOnlySqlTransaction: "; of several servers, target_session_attrs=read-write in the address "
    "finds the one that takes writes",
    psycopg.errors.UndefinedTable: "; tables of the store are missing: restore a backup, or name the right database",
}

_LIMITS: Final = {
    "25P03": "idle_in_transaction_session_timeout",
    "25P04": "transaction_timeout",
    "57014": "statement_timeout",
}  # settings of the server that end what takes longer


def _translated(error: Exception) -> ValidationError | BackendError | ConfigurationError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, psycopg.IntegrityError):
        return ValidationError(f"the store refused the change: {reason}; nothing was written")
    if isinstance(error, psycopg.DataError | UnicodeEncodeError | OverflowError):
        return ValidationError(f"PostgreSQL cannot hold a value: {reason}; nothing was written")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return ConfigurationError(f"the role of this connection may not do that: {reason}; nothing was written")
    if isinstance(error, psycopg_pool.PoolClosed):
        return ConfigurationError("this memory is closed; open it again")
    if isinstance(error, psycopg.errors.DiskFull):
        return DiskFullError(
            f"no space is left on the server: {reason}; any write was undone. Make room there, and try again"
        )
    state = getattr(error, "sqlstate", None)
    limit = f"; if {_LIMITS[state]} is set for this role or database, make it longer" if state in _LIMITS else ""
    remark = next((remark for kind, remark in _REMARKS.items() if isinstance(error, kind)), limit)
    failure = BackendError(f"PostgreSQL failed: {reason}{remark}")
    is_of_server = isinstance(error, psycopg.OperationalError | psycopg_pool.PoolTimeout)
    failure.tells_of_store = not (is_of_server or state in _LIMITS) or state in {"58030", "58P01"}  # its files
    return failure
