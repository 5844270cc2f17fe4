"""Memories and passages on their way into the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory_retrievers.backends.sql.connection import Connection, insert, one
from memory_retrievers.backends.sql.rows import encode, encode_messages
from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.models import AnyMemory, EpisodicMemory
from memory_retrievers.passages import NewPassage, Passage

PUT_NOTE: Final = "INSERT INTO notes VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
ADD_NOTE: Final = "INSERT INTO notes VALUES (?, ?) ON CONFLICT (name) DO NOTHING"


def scope_id_of(connection: Connection, scope: str) -> int:
    """The number of a scope, which is noted if it is new."""
    asked = "SELECT id FROM scopes WHERE scope = ?"
    scope_id = one(connection, asked, (scope,))
    if scope_id is None:
        connection.execute("INSERT INTO scopes (scope) VALUES (?) ON CONFLICT DO NOTHING", (scope,))
        scope_id = one(connection, asked, (scope,))
    return int(scope_id)


def insert_memory(connection: Connection, memory: AnyMemory) -> tuple[int, int]:
    """Write a memory with its excerpt, and give the number of its scope and its row.

    Raises:
        ValidationError: Its id is taken in its scope.
    """
    scope_id = scope_id_of(connection, memory.scope)
    taken = "SELECT 1 FROM memories WHERE scope_id = ? AND id = ?"
    if one(connection, taken, (scope_id, memory.id)) is not None:
        raise ValidationError(f"id {memory.id!r} is already taken in scope {memory.scope!r}; nothing was stored")
    values = {"scope_id": scope_id, **encode(memory)}
    sql = f"INSERT INTO memories ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"
    row = int(one(connection, f"{sql} RETURNING row", tuple(values.values())))
    if isinstance(memory, EpisodicMemory) and memory.messages:
        excerpt = {"memory": row, "messages": encode_messages(memory.messages)}
        insert(connection, "excerpts", excerpt, scope_id=scope_id)
    return scope_id, row


def overwrite_memory(connection: Connection, memory: AnyMemory) -> tuple[int, int]:
    """Write a memory over the one of its scope and id, whose excerpt stays; gives the number of its scope and its row.

    Raises:
        NotFoundError: There is none.
    """
    values = encode(memory)
    assignments = ", ".join(f"{column} = ?" for column in values)
    of_id = "scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ?"
    sql = f"UPDATE memories SET {assignments} WHERE {of_id} RETURNING scope_id, row"
    return _found(connection.execute(sql, (*values.values(), memory.scope, memory.id)).fetchone(), memory)


def row_of(connection: Connection, memory: AnyMemory) -> tuple[int, int]:
    """The number of the scope, and the row, of the memory of its scope and id.

    Raises:
        NotFoundError: There is none.
    """
    of_id = "scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ?"
    sql = f"SELECT scope_id, row FROM memories WHERE {of_id}"
    return _found(connection.execute(sql, (memory.scope, memory.id)).fetchone(), memory)


def _found(place: Sequence[int] | None, memory: AnyMemory) -> tuple[int, int]:
    if place is None:
        raise NotFoundError(f"Memory not found: {memory.id}")
    scope_id, row = place
    return scope_id, row


def insert_passage(
    connection: Connection, memory: AnyMemory, place: tuple[int, int], passage: NewPassage, *, id: int
) -> Passage:
    """Write a passage of the memory that has the row of this place, in the scope of its number."""
    scope_id, row = place
    about = {
        "id": id,
        "memory": row,
        "part": passage.part,
        "speaker": passage.speaker,
        "tells_time": passage.tells_time,
    }
    insert(connection, "passages", about, scope_id=scope_id)
    contents = {"passage": id, "text": passage.text, "vector": connection.dialect.vector(passage.vector)}
    insert(connection, "passage_contents", contents, scope_id=scope_id)
    return Passage(id=id, memory=row, scope=memory.scope, kind=memory.kind, part=passage.part, text=passage.text)
