"""The audit as rows: what was noted about the use and importance of memories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from memory_retrievers.backends.sql.connection import Connection, insert, one
from memory_retrievers.backends.sql.rows import encode_time
from memory_retrievers.fields import moment
from memory_retrievers.managed import AuditEntry, AuditType
from memory_retrievers.models import MemoryKey

_OF_SCOPES: Final = """FROM audit a JOIN memories m ON m.row = a.memory JOIN scopes s ON s.id = m.scope_id
    WHERE m.scope_id IN ({scopes})"""


def write(connection: Connection, entry: AuditEntry, *, spacing: timedelta | None) -> None:
    """Note an entry, unless its memory is not there, or one of its type was noted less than ``spacing`` before."""
    found = connection.execute(
        "SELECT scope_id, row FROM memories WHERE scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ?",
        (entry.memory.scope, entry.memory.id),
    ).fetchone()
    if found is None:
        return
    scope_id, memory = found
    if spacing is not None:
        since = encode_time(entry.at - spacing)
        noted = "SELECT 1 FROM audit WHERE memory = ? AND type = ? AND at > ? LIMIT 1"
        if one(connection, noted, (memory, entry.type, since)) is not None:
            return
    values = {
        "memory": memory,
        "type": entry.type,
        "at": encode_time(entry.at),
        "old": entry.old,
        "new": entry.new,
        "reason": entry.reason,
    }
    insert(connection, "audit", values, scope_id=scope_id)


def read(connection: Connection, key: MemoryKey) -> list[AuditEntry]:
    """What was noted about a memory, oldest first."""
    found = connection.execute(
        """SELECT type, at, old, new, reason FROM audit WHERE memory = (SELECT row FROM memories
            WHERE scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ?) ORDER BY at, id""",
        (key.scope, key.id),
    )
    return [_entry(key, row) for row in found]


def scopes_before(connection: Connection, at: datetime) -> list[str]:
    """The scopes of whose memories something was noted before a moment."""
    found = connection.execute(
        """SELECT DISTINCT s.scope FROM audit a JOIN memories m ON m.row = a.memory JOIN scopes s ON s.id = m.scope_id
        WHERE a.at < ?""",
        (encode_time(at),),
    )
    return [scope for (scope,) in found]


def forget(connection: Connection, before: datetime) -> None:
    """Remove what was noted before a moment."""
    connection.execute("DELETE FROM audit WHERE at < ?", (encode_time(before),))


def count_all(connection: Connection, scopes: str, asked: dict[str, str | None]) -> int:
    """How many entries :func:`read_all` gives."""
    return int(one(connection, f"SELECT count(*) {_OF_SCOPES.format(scopes=scopes)}", asked))


def read_all(connection: Connection, scopes: str, asked: dict[str, str | None]) -> Iterator[AuditEntry]:
    """What was noted about the memories of the scopes that a query gives, by scope, id and time."""
    found = connection.execute(
        f"""SELECT s.scope, m.id, a.type, a.at, a.old, a.new, a.reason {_OF_SCOPES.format(scopes=scopes)}
        ORDER BY s.scope, m.id, a.at, a.id""",
        asked,
    )
    for scope, id, *row in found:  # noqa: A001
        yield _entry(MemoryKey(scope=scope, id=id), row)


def _entry(key: MemoryKey, row: Sequence[Any]) -> AuditEntry:
    name, at, old, new, reason = row
    return AuditEntry(memory=key, type=AuditType(name), at=moment(at), old=old, new=new, reason=reason)
