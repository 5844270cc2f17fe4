"""What the ledger holds, read a page at a time, so that a store of any size passes through little memory."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from memory_retrievers import scopes
from memory_retrievers.backends.sql import associations, audit, characters, reviews
from memory_retrievers.backends.sql.connection import Connection, one
from memory_retrievers.backends.sql.rows import COLUMNS, UNREADABLE, decode
from memory_retrievers.contents import Contents, StoredMemory, StoredQueue
from memory_retrievers.errors import BackendError
from memory_retrievers.fields import moment
from memory_retrievers.messages import Message
from memory_retrievers.models import Kind
from memory_retrievers.passages import NewPassage
from memory_retrievers.retrieved import PendingReview

PAGE: Final = 256
"""Memories in a page."""

_MEMORIES: Final = f"""
    SELECT m.row, {", ".join(f"m.{column}" for column in COLUMNS)}, m.kind, m.content, s.scope, e.messages
    FROM memories m JOIN scopes s ON s.id = m.scope_id LEFT JOIN excerpts e ON e.memory = m.row WHERE
"""
_PASSAGES: Final = """
    SELECT p.memory, p.part, p.speaker, p.tells_time, c.text, c.vector
    FROM passages p LEFT JOIN passage_contents c ON c.passage = p.id WHERE
"""
_SCOPES: Final = """
    SELECT id FROM scopes
    WHERE CAST(:scope AS TEXT) IS NULL OR scope = :scope OR (scope >= :children AND scope < :children_end)
"""


class RawPassage(NamedTuple):
    """A passage as it stands in the file; damage may have left anything in it."""

    part: Any
    speaker: Any
    tells_time: Any
    text: Any
    vector: Any


class RawMemory(NamedTuple):
    """A memory as it stands in the file: what ``rows.decode`` takes, and its passages."""

    row: tuple[Any, ...]
    passages: list[RawPassage]

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return f"memory {self.row[0]!r} in scope {self.row[-2]!r}"


def read_contents(connection: Connection, scope: str | None) -> Contents:
    """What a scope and those below it hold, or all; the connection must stay on one snapshot until all is read."""
    asked = _asked(scope)
    count = f"SELECT count(*) FROM {{}} WHERE scope_id IN ({_SCOPES})"
    return Contents(
        notes=dict(connection.execute("SELECT name, value FROM notes").fetchall()),
        memory_count=int(one(connection, count.format("memories"), asked)),
        review_count=int(one(connection, count.format("pending_reviews"), asked)),
        memories=_memories(connection, asked),
        reviews=_reviews(connection, asked),
        queue_count=int(
            connection.execute(
                f"SELECT count(DISTINCT scope_id) FROM queued_messages WHERE scope_id IN ({_SCOPES})", asked
            ).fetchone()[0]
        ),
        queues=_queues(connection, asked),
        association_count=associations.count_all(connection, _SCOPES, asked),
        associations=associations.read_all(connection, _SCOPES, asked),
        audit_count=audit.count_all(connection, _SCOPES, asked),
        audit=audit.read_all(connection, _SCOPES, asked),
        character_count=characters.count_all(connection, _SCOPES, asked),
        characters=characters.read_all(connection, _SCOPES, asked),
    )


def read_page(connection: Connection, rows: Sequence[int]) -> Iterator[RawMemory]:
    """The memories of the given rows, in that order, with their passages."""
    dialect = connection.dialect
    ids = {"ids": dialect.listed(rows)}
    passages: dict[int, list[RawPassage]] = {}
    for memory, *passage in connection.execute(f"{_PASSAGES} {dialect.among('p.memory', ':ids')} ORDER BY p.id", ids):
        passages.setdefault(memory, []).append(RawPassage(*passage))
    memories = {row[0]: row[1:] for row in connection.execute(f"{_MEMORIES} {dialect.among('m.row', ':ids')}", ids)}
    return (RawMemory(memories[row], passages.get(row, [])) for row in rows if row in memories)


def _asked(scope: str | None) -> dict[str, str | None]:
    children, children_end = (None, None) if scope is None else scopes.child_range(scope)
    return {"scope": scope, "children": children, "children_end": children_end}


def _memories(connection: Connection, asked: dict[str, str | None]) -> Iterator[StoredMemory]:
    rows = _rows_in_order(connection, asked)
    while page := list(islice(rows, PAGE)):
        for raw in read_page(connection, page):
            yield _stored(connection, raw)


def _stored(connection: Connection, raw: RawMemory) -> StoredMemory:
    try:
        passages = tuple(
            NewPassage(
                part=passage.part,
                text=passage.text,
                vector=connection.dialect.stacked([passage.vector])[0],
                speaker=passage.speaker,
                tells_time=bool(passage.tells_time),
            )
            for passage in raw.passages
        )
        return StoredMemory(memory=decode(raw.row), passages=passages)
    except UNREADABLE as error:
        raise BackendError(f"{raw.name} cannot be read ({error}): verify() tells more") from error


def _rows_in_order(connection: Connection, asked: dict[str, str | None]) -> Iterator[int]:
    """By scope, time and id. Each kind stands in this order in an index already; only equal times are sorted."""
    by_age = connection.dialect.indexed_by("memories_by_age")
    in_order = f"""SELECT created_at, id, row FROM memories {by_age}
        WHERE scope_id = ? AND kind = ? ORDER BY created_at, id"""
    for (scope_id,) in connection.execute(f"{_SCOPES} ORDER BY scope", asked):
        # an id in UTF-8, as SQLite compares it; Python's order by code point is the same
        for _, _, row in heapq.merge(*(connection.execute(in_order, (scope_id, kind)) for kind in Kind)):
            yield int(row)


def _reviews(connection: Connection, asked: dict[str, str | None]) -> Iterator[PendingReview]:
    found = connection.execute(
        f"""SELECT s.scope, r.query, r.memories, r.created_at FROM scopes s JOIN pending_reviews r ON r.scope_id = s.id
        WHERE s.id IN ({_SCOPES}) ORDER BY s.scope, r.created_at, r.id""",
        asked,
    )
    return (reviews.decode(*row) for row in found)


def _queues(connection: Connection, asked: dict[str, str | None]) -> Iterator[StoredQueue]:
    waiting = connection.execute(
        f"""SELECT s.id, s.scope, q.window_doubled, q.previous_summary FROM scopes s JOIN queues q ON q.scope_id = s.id
        WHERE s.id IN ({_SCOPES}) AND EXISTS (SELECT 1 FROM queued_messages WHERE scope_id = s.id) ORDER BY s.scope""",
        asked,
    )
    for scope_id, scope, doubled, summary in waiting:
        messages = connection.execute(
            "SELECT id, role, content, timestamp FROM queued_messages WHERE scope_id = ? ORDER BY row", (scope_id,)
        )
        yield StoredQueue(
            scope=scope,
            messages=tuple(
                (its_id, Message(role=role, content=content, timestamp=moment(timestamp)))
                for its_id, role, content, timestamp in messages
            ),
            window_doubled=bool(doubled),
            previous_summary=summary,
        )


def all_rows(connection: Connection) -> Iterator[list[int]]:
    """The rows of all memories, ascending, in pages."""
    next_page = "SELECT row FROM memories WHERE row > ? ORDER BY row LIMIT ?"
    last = -1
    while page := [int(row) for (row,) in connection.execute(next_page, (last, PAGE))]:
        yield page
        last = page[-1]
