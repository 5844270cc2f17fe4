"""Reads and writes the rows of memories and passages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, Final, TypeVar

from memory_retrievers.backends.sql import selection as where
from memory_retrievers.backends.sql.connection import (
    OF_KEY,
    OF_SCOPE,
    Connection,
    Dialect,
    ids_by_scope,
    insert,
    insertion,
    joining,
    one,
    places_of,
    scope_id_of,
)
from memory_retrievers.backends.sql.rows import (
    StoredRows,
    encode,
    encode_messages,
    encode_time,
    load,
    memory_of,
    memory_query,
)
from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.models import AnyMemory, EpisodicMemory, MemoryKey, ScopeStatistics, SemanticMemory
from memory_retrievers.models.memories import PINNED_IMPORTANCE
from memory_retrievers.models.results import Position
from memory_retrievers.models.selection import Listing, NewPassage, Passage, Selection

MemoryT = TypeVar("MemoryT", EpisodicMemory, SemanticMemory)

_HOLDS: Final = f"(m.invalid_at IS NULL OR m.invalid_at > :now) AND m.valid_at <= :now AND {where.NOT_EXPIRED}"
_PINNED: Final = f"(m.importance_pinned AND m.importance >= {PINNED_IMPORTANCE})"
_STANDING: Final = (
    _PINNED,
    # the condition of the index, which SQLite must find word by word
    *(
        f"m.invalid_at IS NULL AND m.category IN ('guideline', 'identity', 'preference') AND m.category = '{category}'"
        for category in ("guideline", "identity", "preference")
    ),
)
_EVER: Final = datetime.min.replace(tzinfo=UTC)  # a moment by which nothing has expired
_SINCE: Final = "(CAST(:since AS BIGINT) IS NULL OR m.created_at >= :since)"
_HELD: Final = """(m.kind = 'episodic' AND m.start_at <= :as_of
    OR m.valid_at <= :as_of AND (m.invalid_at IS NULL OR m.invalid_at > :as_of)
    OR m.kind = 'semantic' AND m.valid_at > :as_of AND EXISTS (SELECT 1 FROM fact_versions v
        WHERE v.memory = m.row {beside} AND v.valid_at <= :as_of AND v.invalid_at > :as_of))"""
_NEXT: Final = {
    False: "m.created_at <= :created_at AND (m.created_at < :created_at OR m.id > :id)",
    True: "m.created_at >= :created_at AND (m.created_at > :created_at OR m.id > :id)",
}
_START: Final = {False: Position(2**63 - 1, ""), True: Position(-(2**63), "")}


class StoredRecords(StoredRows):
    """The part of the ledger that stores memories with their passages, and reads and lists memories."""

    def get(self, *, scope: str, id: str) -> AnyMemory | None:
        """Return the memory, whatever its state, or None."""
        sql = f"{memory_query(self.dialect)} WHERE m.{OF_SCOPE} AND m.id = :id"
        rows = self.query(sql, {"scope": scope, "id": id})
        return memory_of(rows[0]) if rows else None

    def read(self, keys: Iterable[MemoryKey]) -> dict[MemoryKey, AnyMemory]:
        """Read the memories of these keys that are there, whatever their state."""
        sql = f"{memory_query(self.dialect)} WHERE m.{OF_SCOPE} AND {self.dialect.among('m.id', ':ids')}"
        asked = [{"scope": scope, "ids": self.dialect.listed(ids)} for scope, ids in ids_by_scope(keys).items()]
        found = [memory_of(row) for values in asked for row in self.query(sql, values)]
        return {memory.key: memory for memory in found}

    def present(self, keys: Iterable[MemoryKey]) -> set[MemoryKey]:
        """Return those of the keys that memories have, whatever their state."""
        with self.database.read() as connection:
            return {*places_of(connection, keys)}

    def add(self, memories: Sequence[AnyMemory], passages: Sequence[Sequence[NewPassage]]) -> list[Passage]:
        """Store memories, each with its passages; an id that is taken in its scope is refused, and nothing stored."""
        begin = self.database.write if len(memories) > 1 else partial(joining, self.database)
        with begin(*{memory.scope for memory in memories}) as connection:  # one that is refused has written nothing
            scope_ids: dict[str, int] = {}
            placed: list[tuple[AnyMemory, tuple[int, int], NewPassage]] = []
            for memory, its_passages in zip(memories, passages, strict=True):
                if memory.scope not in scope_ids:
                    scope_ids[memory.scope] = scope_id_of(connection, memory.scope)
                place = _insert(connection, memory, scope_id=scope_ids[memory.scope])
                placed += [(memory, place, passage) for passage in its_passages]
            return self._insert_passages(connection, placed)

    def _insert_passages(
        self, connection: Connection, passages: Sequence[tuple[AnyMemory, tuple[int, int], NewPassage]]
    ) -> list[Passage]:
        if not passages:
            return []
        return insert_passages(connection, passages, ids=self.database.next_passages(connection, len(passages)))

    def invalidate(self, *, scope: str, id: str, at: datetime, replaced_by: str | None = None) -> None:
        """Mark a fact as no longer true, and record the fact that replaces it.

        Args:
            scope: Scope of the fact.
            id: Its id.
            at: Time from which it is no longer true; a fact that begins later ends as it begins.
            replaced_by: Id of the fact that holds instead; None if there is none.
        """
        with self.database.write(scope) as connection:
            connection.execute(
                f"""UPDATE memories SET updated_at = :at, replaced_by = :by,
                invalid_at = CASE WHEN valid_at > :at THEN valid_at ELSE :at END
                WHERE {OF_SCOPE} AND id = :id AND kind = 'semantic' AND invalid_at IS NULL""",
                {"at": encode_time(at), "by": replaced_by, "scope": scope, "id": id},
            )

    def replace(self, memory: AnyMemory, passages: Sequence[NewPassage] = ()) -> list[Passage]:
        """Overwrite the memory of the same scope and id; the messages of an episode are kept.

        Given passages replace those of the same parts, under new ids, and are returned.
        """
        values = encode(memory)
        statement = f"{_updating(tuple(values))} {OF_KEY} RETURNING scope_id, row"
        with self.database.write(memory.scope) as connection:
            found = connection.execute(statement, (*values.values(), memory.scope, memory.id)).fetchone()
            return self._put_passages(connection, memory, _found(found, memory), passages)

    def put_passages(self, memory: AnyMemory, passages: Sequence[NewPassage]) -> list[Passage]:
        """Store further passages of an existing memory, replacing those of the same parts."""
        with self.database.write(memory.scope) as connection:
            return self._put_passages(connection, memory, row_of(connection, memory), passages)

    def _put_passages(
        self, connection: Connection, memory: AnyMemory, place: tuple[int, int], passages: Sequence[NewPassage]
    ) -> list[Passage]:
        replaced = [(place[1], passage.part) for passage in passages]
        connection.executemany("DELETE FROM passages WHERE memory = ? AND part = ?", replaced)
        return self._insert_passages(connection, [(memory, place, passage) for passage in passages])

    def remove_passages(self, passages: Sequence[int]) -> None:
        """Delete passages and keep their memories."""
        gone = {"ids": self.dialect.listed(passages)}
        with self.database.write() as connection:
            connection.execute(f"DELETE FROM passages WHERE {self.dialect.among('id', ':ids')}", gone)

    def _read(self, kind: type[MemoryT], condition: str, values: Mapping[str, object]) -> list[MemoryT]:
        rows = self.query(f"{memory_query(self.dialect)} WHERE {condition}", values)
        return [memory for memory in map(memory_of, rows) if isinstance(memory, kind)]

    def recent(
        self, kind: type[MemoryT], *, scope: str, limit: int, now: datetime, since: datetime | None
    ) -> list[MemoryT]:
        """List the scope's newest episodes, or valid facts, by ``created_at``, newest first; of one moment by end.

        Args:
            kind: Episodes or facts.
            scope: The scope.
            limit: Maximum number of memories.
            now: Leave out what expired by this time, and facts that do not hold at it.
            since: Leave out what was created before this time; None includes all.
        """
        holds = where.NOT_EXPIRED if kind is EpisodicMemory else _HOLDS
        return self._read(
            kind,
            f"""m.{OF_SCOPE} AND m.kind = '{kind.kind}' AND {holds} AND {_SINCE}
                ORDER BY m.created_at DESC, m.end_at DESC, m.id LIMIT :limit""",
            {"scope": scope, "now": encode_time(now), "since": encode_time(since), "limit": limit},
        )

    def profile_facts(self, *, scope: str, limit: int, now: datetime) -> list[SemanticMemory]:
        """List the valid facts of a scope that a model should always know, the pinned and the newest first.

        Args:
            scope: The scope.
            limit: Maximum number of facts.
            now: Leave out facts that expired by this time, or do not hold at it.
        """
        # Of each kind the newest, from an index of its own: however many other facts there are.
        newest = " UNION ".join(
            f"""SELECT s.row FROM (SELECT m.row AS row FROM memories m WHERE m.{OF_SCOPE} AND m.kind = 'semantic'
                AND {which} AND {_HOLDS} ORDER BY m.created_at DESC, m.id LIMIT :limit) AS s"""
            for which in _STANDING
        )
        return self._read(
            SemanticMemory,
            f"""m.row IN ({newest}) ORDER BY CASE WHEN {_PINNED} THEN 0
                WHEN m.category = 'guideline' THEN 1 WHEN m.category = 'identity' THEN 2 ELSE 3 END,
                m.created_at DESC, m.id LIMIT :limit""",
            {"scope": scope, "now": encode_time(now), "limit": limit},
        )

    def episode_rows(self, *, after: int, limit: int) -> list[int]:
        """List the rows of the next episodes after one, in all scopes and whatever their state, ascending."""
        next_rows = "SELECT row FROM memories WHERE kind = 'episodic' AND row > ? ORDER BY row LIMIT ?"
        return self.column(next_rows, (after, limit))

    def unconsolidated(self, scope: str, *, limit: int) -> list[EpisodicMemory]:
        """List the scope's oldest episodes without extracted facts, oldest first, expired or not."""
        oldest = f"m.{OF_SCOPE} AND m.kind = 'episodic' AND m.consolidated_at IS NULL ORDER BY m.created_at, m.id"
        return self._read(EpisodicMemory, f"{oldest} LIMIT :limit", {"scope": scope, "limit": limit})

    def unconsolidated_scopes(self, *, least: int, surprise: float) -> list[str]:
        """List the scopes that hold so many such episodes, or one that is so surprising."""
        return self.column(
            """SELECT s.scope FROM scopes s JOIN memories m ON m.scope_id = s.id WHERE m.kind = 'episodic'
            AND m.consolidated_at IS NULL GROUP BY s.scope HAVING count(*) >= :least OR max(m.surprise) >= :surprise""",
            {"least": least, "surprise": surprise},
        )

    def scenes(self, scope: str, *, now: datetime) -> list[EpisodicMemory]:
        """List the scope's unexpired scenes, oldest first by ``created_at``, then by id."""
        scenes = f"m.{OF_SCOPE} AND m.scene IS NOT NULL AND {where.NOT_EXPIRED} ORDER BY m.created_at, m.id"
        return self._read(EpisodicMemory, scenes, {"scope": scope, "now": encode_time(now)})

    def page(self, listing: Listing, *, after: Position | None, limit: int) -> list[AnyMemory]:
        """List memories by ``created_at``, then by id.

        Args:
            listing: Which memories, in which order.
            after: Position of the last memory of the page before; None begins.
            limit: Maximum number of memories.
        """
        with self.database.read(snapshot=True) as connection:
            rows = listed_rows(connection, listing, after=after, limit=limit)
            memories = load(connection, rows)
        return [memories[row] for row in rows]

    def expired(self, now: datetime) -> list[MemoryKey]:
        """List all memories that expired by ``now``."""
        gone = "SELECT s.scope, m.id FROM memories m JOIN scopes s ON s.id = m.scope_id WHERE m.expires_at <= ?"
        return [MemoryKey(scope=scope, id=its_id) for scope, its_id in self.query(gone, (encode_time(now),))]

    def scopes(self, *, now: datetime = _EVER) -> list[str]:
        """List all scopes that hold a memory that has not expired by ``now``, sorted."""
        return self.column(
            f"""SELECT scope FROM scopes s WHERE EXISTS
            (SELECT 1 FROM memories m WHERE m.scope_id = s.id AND {where.NOT_EXPIRED}) ORDER BY scope""",
            {"now": encode_time(now)},
        )

    def statistics(self, scope: str | None, *, now: datetime = _EVER) -> ScopeStatistics:
        """Count the contents of one scope, or of all, without what has expired by ``now``."""
        in_scope = f"(CAST(:scope AS TEXT) IS NULL OR {OF_SCOPE})"
        with self.database.read(snapshot=True) as connection:
            counts = connection.execute(
                f"""SELECT count(*) FILTER (WHERE kind = 'episodic'),
                count(*) FILTER (WHERE kind = 'semantic' AND invalid_at IS NULL),
                count(*) FILTER (WHERE kind = 'semantic' AND invalid_at IS NOT NULL)
                FROM memories m WHERE {in_scope} AND {where.NOT_EXPIRED}""",
                {"scope": scope, "now": encode_time(now)},
            ).fetchone()
            counts += tuple(
                one(connection, f"SELECT count(*) FROM {table} WHERE {in_scope}", {"scope": scope})
                for table in ("pending_reviews", "queued_messages")
            )
        names = ("episodes", "facts", "invalidated_facts", "pending_reviews", "queued_messages")
        return ScopeStatistics(**dict(zip(names, counts, strict=True)))


def listed_rows(connection: Connection, listing: Listing, *, after: Position | None, limit: int) -> list[int]:
    """List the rows of a page of memories, in their order.

    Args:
        connection: Reads one state.
        listing: Which memories, in which order.
        after: Position of the last memory of the page before; None begins.
        limit: Maximum number of memories.
    """
    direction, found = "ASC" if listing.oldest_first else "DESC", list[Any]()
    position = (after or _START[listing.oldest_first])._asdict()
    for kind in listing.kinds:  # one after the other, each from the index in its order
        condition, values = listed(connection.dialect, listing.of(kind))
        found += connection.execute(
            f"""SELECT m.created_at, m.id, m.row FROM memories m WHERE {condition} AND {_NEXT[listing.oldest_first]}
            ORDER BY m.created_at {direction}, m.id LIMIT :limit""",
            values | position | {"limit": limit},
        ).fetchall()
    found.sort(key=lambda place: place[1])
    found.sort(key=lambda place: place[0], reverse=not listing.oldest_first)
    return [row for *_, row in found[:limit]]


def listed(dialect: Dialect, selection: Selection) -> tuple[str, dict[str, Any]]:
    """SQL condition for a memory ``m`` to be of a selection, valid or not unless of a moment, and its parameters."""
    conditions = [where.in_scope(selection), where.NOT_EXPIRED, *where.narrowing(dialect, selection)]
    if selection.as_of is not None:
        conditions.append(_HELD.format(beside=dialect.beside("v", "m")))
    return " AND ".join(conditions), where.parameters(dialect, selection)


PUT_NOTE: Final = "INSERT INTO notes VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"


@cache
def _inserting(columns: tuple[str, ...]) -> str:
    return f"{insertion('memories', columns)} ON CONFLICT (scope_id, id) DO NOTHING RETURNING row"


@cache
def _updating(columns: tuple[str, ...]) -> str:
    return f"UPDATE memories SET {', '.join(f'{column} = ?' for column in columns)} WHERE"


def _insert(connection: Connection, memory: AnyMemory, *, scope_id: int) -> tuple[int, int]:
    """Insert a memory with its excerpt; returns the ids of its scope and its row.

    Raises:
        ValidationError: Its id is taken in its scope.
    """
    values = {"scope_id": scope_id, **encode(memory)}
    row = one(connection, _inserting(tuple(values)), tuple(values.values()))
    if row is None:
        raise ValidationError(f"id {memory.id!r} is already taken in scope {memory.scope!r}; nothing was stored")
    if isinstance(memory, EpisodicMemory) and memory.messages:
        messages = {"memory": row, "messages": encode_messages(memory.messages)}
        insert(connection, "excerpts", [(scope_id, messages)])
    return scope_id, row


def overwrite_row(connection: Connection, memory: AnyMemory, *, place: tuple[int, int]) -> None:
    """Overwrite the memory that is known to be at a place, the row ids of its scope and of itself."""
    values = encode(memory)
    connection.execute(f"{_updating(tuple(values))} scope_id = ? AND row = ?", (*values.values(), *place))


def row_of(connection: Connection, memory: AnyMemory) -> tuple[int, int]:
    """Return the ids of the scope and the row of a stored memory."""
    place = places_of(connection, [memory.key]).get(memory.key)
    return _found(None if place is None else place[:2], memory)


def _found(place: tuple[int, int] | None, memory: AnyMemory) -> tuple[int, int]:
    if place is None:
        raise NotFoundError(f"Memory not found: {memory.id}")
    return place


def insert_passages(
    connection: Connection, passages: Sequence[tuple[AnyMemory, tuple[int, int], NewPassage]], *, ids: Sequence[int]
) -> list[Passage]:
    """Insert passages of stored memories.

    Args:
        connection: A connection in a write transaction.
        passages: Each with its memory, and the row ids of that memory's scope and of the memory itself.
        ids: Ids of the passages, from ``Database.next_passages``.
    """
    vector, keyed = connection.dialect.vector, connection.dialect.keyed_by_scope
    scoped, about, contents = ("scope_id",) if keyed else (), [], []
    for id, (_, (scope_id, row), new) in zip(ids, passages, strict=True):  # noqa: A001
        of_scope = (scope_id,) if keyed else ()
        about.append((*of_scope, id, row, new.part, new.speaker, new.tells_time))
        contents.append((*of_scope, id, new.text, vector(new.vector), new.tokens))
    connection.insert_rows("passages", (*scoped, "id", "memory", "part", "speaker", "tells_time"), about)
    columns = (*scoped, "passage", "text", "vector", "tokens")
    connection.executemany(insertion("passage_contents", columns), contents)
    return [
        Passage(
            id=id, memory=row, scope=of.scope, scope_id=at, kind=of.kind, part=new.part, text=new.text, terms=new.terms
        )
        for id, (of, (at, row), new) in zip(ids, passages, strict=True)  # noqa: A001
    ]
