"""The contents of a ledger, read page by page, so that a store of any size needs little memory."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

from memory_retrievers.backends.sql import characters, conversations, events, facts, management, removal
from memory_retrievers.backends.sql.connection import Connection, Dialect, Whole, one
from memory_retrievers.backends.sql.requests import OTHER_NOTES
from memory_retrievers.backends.sql.rows import BELOW, COLUMNS, UNREADABLE, below, decode, readable
from memory_retrievers.errors import BackendError
from memory_retrievers.models import Kind
from memory_retrievers.models.contents import Contents, StoredMemory, StoredQueue
from memory_retrievers.models.selection import NewPassage

PAGE: Final = 256  # memories in a page
QUEUE_BYTES: Final = 4 * 2**20  # bytes of queued messages after which the next ones are a record of their own
_MESSAGE_BYTES: Final = 1_000  # what a message counts for beside its words

_MEMORIES: Final = f"""
    SELECT m.row, {", ".join(f"m.{column}" for column in COLUMNS)}, m.kind, m.content, s.scope, e.messages
    FROM memories m JOIN scopes s ON s.id = m.scope_id LEFT JOIN excerpts e ON e.memory = m.row WHERE
"""
_PASSAGES: Final = """
    SELECT p.memory, p.part, p.speaker, p.tells_time, c.text, c.vector, c.tokens
    FROM passages p LEFT JOIN passage_contents c ON c.passage = p.id WHERE
"""
_SCOPES: Final = f"""
    SELECT id FROM scopes WHERE CAST(:scope AS TEXT) IS NULL OR {BELOW}
"""
_LOGGED_SCOPES: Final = f"SELECT id FROM scopes WHERE id IN ({_SCOPES}) AND NOT ({removal.EMPTY_SCOPES})"
"""An entry without a memory belongs to what else its scope holds: where that is gone, it is on its way out too."""

_COUNTED: Final = {
    "memories": f"count(*) FROM memories WHERE scope_id IN ({_SCOPES})",
    "versions": f"count(*) {facts.VERSIONS_OF_SCOPES.format(scopes=_SCOPES)}",
    "pending_reviews": f"count(*) FROM pending_reviews WHERE job IS NULL AND scope_id IN ({_SCOPES})",
    "review_jobs": f"count(*) FROM review_jobs WHERE scope_id IN ({_SCOPES})",
    "queues": f"""count(*) FROM (SELECT DISTINCT scope_id, conversation, {{part}} AS part FROM queued_messages
        WHERE scope_id IN ({_SCOPES})) AS queued""",
    "associations": f"count(*) {management.BETWEEN.format(scopes=_SCOPES)}",
    "audit": f"count(*) {management.OF_SCOPES.format(scopes=_SCOPES)}",
    "events": f"count(*) {events.OF_SCOPES.format(scopes=_LOGGED_SCOPES)}",
    "characters": f"count(*) FROM characters WHERE scope_id IN ({_SCOPES})",
}


class RawPassage(NamedTuple):
    """A passage as stored, unvalidated: damage may have left any value."""

    part: Any
    speaker: Any
    tells_time: Any
    text: Any
    vector: Any
    tokens: Any


class RawMemory(NamedTuple):
    """A memory as stored, unvalidated: the input of ``rows.decode``, and its passages."""

    row: tuple[Any, ...]
    passages: list[RawPassage]

    @property
    def name(self) -> str:
        """Name of the memory in messages."""
        return f"memory {self.row[0]!r} in scope {self.row[-2]!r}"


def read_contents(connection: Connection, scope: str | None) -> Contents:
    """Read a scope and those below it, or all; the connection must stay on one snapshot until the end."""
    everything = dict.fromkeys(("scope", "first", "behind"))
    whole = Whole(connection, _SCOPES, everything if scope is None else below(scope))
    part = _part(connection.dialect)
    counted = {name: f"SELECT {counting.format(part=part)}" for name, counting in _COUNTED.items()}
    return Contents(
        notes=dict(connection.execute(f"SELECT name, value FROM notes WHERE {OTHER_NOTES}").fetchall()),
        counts={name: int(one(connection, counting, whole.values)) for name, counting in counted.items()},
        memories=_memories(whole),
        versions=facts.read_all_versions(whole),
        pending_reviews=removal.read(whole),
        review_jobs=conversations.read_review_jobs(whole),
        queues=_queues(whole),
        associations=management.read_all_associations(whole),
        audit=management.read_all_audit(whole),
        events=events.read_all(whole._replace(scopes=_LOGGED_SCOPES)),
        characters=characters.read_all(whole),
    )


def read_page(connection: Connection, rows: Sequence[int]) -> Iterator[RawMemory]:
    """Read the memories of the given rows, in that order, with their passages."""
    dialect = connection.dialect
    ids = {"ids": dialect.listed(rows)}
    passages: dict[int, list[RawPassage]] = {}
    for memory, *passage in connection.execute(f"{_PASSAGES} {dialect.among('p.memory', ':ids')} ORDER BY p.id", ids):
        passages.setdefault(memory, []).append(RawPassage(*passage))
    memories = {row[0]: row[1:] for row in connection.execute(f"{_MEMORIES} {dialect.among('m.row', ':ids')}", ids)}
    return (RawMemory(memories[row], passages.get(row, [])) for row in rows if row in memories)


def _memories(whole: Whole) -> Iterator[StoredMemory]:
    rows = _rows_in_order(whole)
    while page := list(islice(rows, PAGE)):
        for raw in read_page(whole.connection, page):
            yield _stored(whole.connection, raw)


def _stored(connection: Connection, raw: RawMemory) -> StoredMemory:
    stacked = connection.dialect.stacked
    try:
        passages = tuple(
            NewPassage(**each._asdict() | {"vector": stacked([each.vector])[0], "tells_time": bool(each.tells_time)})
            for each in raw.passages
        )
        return StoredMemory(memory=decode(raw.row), passages=passages)
    except (*UNREADABLE, BackendError) as error:
        raise BackendError(f"{raw.name} cannot be read ({error}): verify() tells more") from error


def _rows_in_order(whole: Whole) -> Iterator[int]:
    """Rows by scope and time, in the order in which they were stored. An index has each kind in this order."""
    connection = whole.connection
    by_age = connection.dialect.indexed_by("memories_by_age")
    in_order = f"SELECT created_at, row FROM memories {by_age} WHERE scope_id = ? AND kind = "
    for (scope_id,) in whole.execute(f"{_SCOPES} ORDER BY scope"):
        each = [connection.execute(f"{in_order}'{kind}' ORDER BY created_at, row", (scope_id,)) for kind in Kind]
        for _, row in heapq.merge(*each):
            yield int(row)


def _queues(whole: Whole) -> Iterator[StoredQueue]:
    waiting = whole.execute(
        f"""SELECT s.id, s.scope, q.conversation, q.window_doubled, q.previous_summary
        FROM scopes s JOIN queues q ON q.scope_id = s.id
        WHERE s.id IN ({_SCOPES}) AND EXISTS (SELECT 1 FROM queued_messages m
            WHERE m.scope_id = s.id AND m.conversation = q.conversation)
        ORDER BY s.scope, q.conversation"""
    )
    for scope_id, scope, conversation, doubled, summary in waiting:
        messages = whole.connection.execute(
            f"""SELECT {_part(whole.connection.dialect)}, id, role, content, timestamp FROM queued_messages
            WHERE scope_id = ? AND conversation = ? ORDER BY row""",
            (scope_id, conversation),
        )
        for _, part in groupby(messages, key=itemgetter(0)):
            with readable(f"what waits in scope {scope!r} to become an episode"):
                queued = tuple(conversations.queued_message(row) for _, *row in part)
            yield StoredQueue(
                scope=scope,
                conversation=conversation or None,
                messages=queued,
                window_doubled=bool(doubled),
                previous_summary=summary,
            )


def _part(dialect: Dialect) -> str:
    """Number of the record in which a queued message is, by the bytes of those before it."""
    size = f"({dialect.octets('content')} + {_MESSAGE_BYTES})"
    return f"(sum({size}) OVER (PARTITION BY scope_id, conversation ORDER BY row) - {size}) / {QUEUE_BYTES}"


def all_rows(connection: Connection) -> Iterator[list[int]]:
    """Yield the rows of all memories, ascending, in pages."""
    next_page = "SELECT row FROM memories WHERE row > ? ORDER BY row LIMIT ?"
    last = -1
    while page := [int(row) for (row,) in connection.execute(next_page, (last, PAGE))]:
        yield page
        last = page[-1]
