"""Memories and passages on their way into the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_retrievers.backends.sqlite.database import one
from memory_retrievers.backends.sqlite.rows import encode, encode_messages
from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.models import AnyMemory, EpisodicMemory
from memory_retrievers.passages import NewPassage, Passage

if TYPE_CHECKING:
    import sqlite3


def scope_id_of(connection: sqlite3.Connection, scope: str) -> int:
    """The number of a scope, which is noted if it is new."""
    connection.execute("INSERT OR IGNORE INTO scopes (scope) VALUES (?)", (scope,))
    return int(one(connection, "SELECT id FROM scopes WHERE scope = ?", (scope,)))


def insert_memory(connection: sqlite3.Connection, memory: AnyMemory) -> int:
    """Write a memory with its excerpt, and give its row.

    Raises:
        ValidationError: Its id is taken in its scope.
    """
    scope_id = scope_id_of(connection, memory.scope)
    taken = "SELECT 1 FROM memories WHERE scope_id = ? AND id = ?"
    if one(connection, taken, (scope_id, memory.id)) is not None:
        raise ValidationError(f"id {memory.id!r} is already taken in scope {memory.scope!r}; nothing was stored")
    values = {"scope_id": scope_id, **encode(memory)}
    sql = f"INSERT INTO memories ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"
    row = connection.execute(sql, tuple(values.values())).lastrowid
    if isinstance(memory, EpisodicMemory) and memory.messages:
        connection.execute("INSERT INTO excerpts VALUES (?, ?)", (row, encode_messages(memory.messages)))
    return int(row or 0)


def overwrite_memory(connection: sqlite3.Connection, memory: AnyMemory) -> int:
    """Write a memory over the one of its scope and id, whose excerpt stays, and give its row.

    Raises:
        NotFoundError: There is none.
    """
    values = encode(memory)
    assignments = ", ".join(f"{column} = ?" for column in values)
    of_id = "scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ?"
    sql = f"UPDATE memories SET {assignments} WHERE {of_id} RETURNING row"
    row = one(connection, sql, (*values.values(), memory.scope, memory.id))
    if row is None:
        raise NotFoundError(f"Memory not found: {memory.id}")
    return int(row)


def row_of(connection: sqlite3.Connection, memory: AnyMemory) -> int:
    """The row of the memory of its scope and id.

    Raises:
        NotFoundError: There is none.
    """
    of_id = "scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ?"
    row = one(connection, f"SELECT row FROM memories WHERE {of_id}", (memory.scope, memory.id))
    if row is None:
        raise NotFoundError(f"Memory not found: {memory.id}")
    return int(row)


def insert_passage(
    connection: sqlite3.Connection, memory: AnyMemory, row: int, passage: NewPassage, *, id: int
) -> Passage:
    """Write a passage of the memory in this row."""
    connection.execute(
        "INSERT INTO passages (id, memory, part, speaker, tells_time) VALUES (?, ?, ?, ?, ?)",
        (id, row, passage.part, passage.speaker, passage.tells_time),
    )
    vector = passage.vector.astype("<f4").tobytes()
    connection.execute("INSERT INTO passage_contents VALUES (?, ?, ?)", (id, passage.text, vector))
    return Passage(id=id, memory=row, scope=memory.scope, kind=memory.kind, part=passage.part, text=passage.text)
