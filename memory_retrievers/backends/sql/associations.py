"""Associations as rows: one of every pair of memories, whichever way round it is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from memory_retrievers.backends.sql import removal
from memory_retrievers.backends.sql.connection import Connection, insert, one
from memory_retrievers.backends.sql.rows import encode_time
from memory_retrievers.fields import moment
from memory_retrievers.managed import Association, AssociationType
from memory_retrievers.models import MemoryKey

_ROW: Final = """(SELECT row FROM memories
    WHERE scope_id = (SELECT id FROM scopes WHERE scope = :{end}_scope) AND id = :{end}_id)"""
_SOURCE: Final = _ROW.format(end="source")
_TARGET: Final = _ROW.format(end="target")
_FIELDS: Final = "a.type, a.strength, a.auto_generated, a.created_at"

_BETWEEN: Final = """FROM associations a
    JOIN memories m ON m.row = a.source JOIN scopes s ON s.id = m.scope_id
    JOIN memories n ON n.row = a.target JOIN scopes t ON t.id = n.scope_id
    WHERE m.scope_id IN ({scopes}) AND n.scope_id IN ({scopes})"""


def write(connection: Connection, association: Association) -> bool:
    """Associate a pair, unless it is associated more strongly; whether it was not associated before.

    Nothing is written for a memory that is not there, or of a memory with itself.
    """
    values = {
        "source_scope": association.source.scope,
        "source_id": association.source.id,
        "target_scope": association.target.scope,
        "target_id": association.target.id,
    }
    fields = {
        "type": association.type,
        "strength": min(1.0, max(0.0, association.strength)),  # a cosine may be off by its rounding
        "auto_generated": association.auto_generated,
        "created_at": encode_time(association.created_at),
    }
    ends = connection.execute(f"SELECT {_SOURCE}, {_TARGET}", values).fetchone()
    if None in ends or ends[0] == ends[1]:
        return False
    pair = {"first": min(ends), "second": max(ends)}
    least, greatest = connection.dialect.least, connection.dialect.greatest
    of_pair = f"{least}(source, target) = :first AND {greatest}(source, target) = :second"
    known = one(connection, f"SELECT strength FROM associations WHERE {of_pair}", pair)
    if known is not None and known >= fields["strength"]:
        return False
    connection.execute(f"DELETE FROM associations WHERE {of_pair}", pair)
    scope_id = one(connection, "SELECT scope_id FROM memories WHERE row = ?", (ends[0],))
    insert(connection, "associations", {"source": ends[0], "target": ends[1], **fields}, scope_id=scope_id)
    return known is None


def read(connection: Connection, key: MemoryKey, *, within: str, now: datetime, limit: int | None) -> list[Association]:
    """A memory's associations with what is within a scope, holds and has not expired, the strongest first."""
    ends = [
        f"""SELECT {_FIELDS}, a.{its} = a.source AS is_source, s.scope AS scope, m.id AS id
        FROM associations a JOIN memories m ON m.row = a.{other} JOIN scopes s ON s.id = m.scope_id
        WHERE a.{its} = {_SOURCE} AND {removal.SCOPE_AND_CHILDREN} AND m.invalid_at IS NULL
        AND (m.expires_at IS NULL OR m.expires_at > :now)"""
        for its, other in (("source", "target"), ("target", "source"))
    ]
    found = connection.execute(
        f"SELECT * FROM ({' UNION ALL '.join(ends)}) AS ends ORDER BY strength DESC, created_at DESC, id, scope"
        f"{'' if limit is None else ' LIMIT :limit'}",
        {
            "source_scope": key.scope,
            "source_id": key.id,
            "now": encode_time(now),
            "limit": limit,
            **removal.scope_values(within, include_child_scopes=True),
        },
    )
    return [_oriented(key, row) for row in found]


def count_all(connection: Connection, scopes: str, asked: dict[str, str | None]) -> int:
    """How many associations :func:`read_all` gives."""
    return int(one(connection, f"SELECT count(*) {_BETWEEN.format(scopes=scopes)}", asked))


def read_all(connection: Connection, scopes: str, asked: dict[str, str | None]) -> Iterator[Association]:
    """The associations whose memories are both of the scopes that a query gives, by scope and id."""
    found = connection.execute(
        f"""SELECT s.scope, m.id, t.scope, n.id, {_FIELDS} {_BETWEEN.format(scopes=scopes)}
        ORDER BY s.scope, m.id, t.scope, n.id""",
        asked,
    )
    for source_scope, source_id, target_scope, target_id, *fields in found:
        source = MemoryKey(scope=source_scope, id=source_id)
        yield _association(source, MemoryKey(scope=target_scope, id=target_id), fields)


def _oriented(key: MemoryKey, row: Sequence[Any]) -> Association:
    """The association of a memory with another, whichever of the two it goes out from."""
    *fields, is_source, other_scope, other_id = row
    other = MemoryKey(scope=other_scope, id=other_id)
    return _association(key, other, fields) if is_source else _association(other, key, fields)


def _association(source: MemoryKey, target: MemoryKey, row: Sequence[Any]) -> Association:
    name, strength, auto_generated, created_at = row
    return Association(
        source=source,
        target=target,
        type=AssociationType(name),
        strength=strength,
        auto_generated=bool(auto_generated),
        created_at=moment(created_at),
    )
