"""The ledger: records, passages, vectors and pending reviews in one SQLite file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_retrievers.backends.sqlite.database import Database, one
from memory_retrievers.backends.sqlite.eligibility import Eligibility
from memory_retrievers.backends.sqlite.rows import (
    COLUMNS,
    decode,
    encode,
    encode_json,
    encode_messages,
    encode_time,
)
from memory_retrievers.errors import ValidationError
from memory_retrievers.fields import moment
from memory_retrievers.models import (
    AnyMemory,
    EpisodicMemory,
    MemoryKey,
    PendingReview,
    ScopeStatistics,
)
from memory_retrievers.passages import ForgettingState, NewPassage, Passage, Selection

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from memory_retrievers.passages import Vectors

REVIEWS_PER_SCOPE: Final = 200
SAME_REVIEW_WINDOW: Final = timedelta(seconds=60)

_IDS: Final = "(SELECT value FROM json_each(:ids))"
_MEMORY: Final = f"""
    SELECT {", ".join(f"m.{column}" for column in COLUMNS)}, m.kind, m.content, s.scope, e.messages
    FROM memories m JOIN scopes s ON s.id = m.scope_id LEFT JOIN excerpts e ON e.memory = m.row
"""


class SQLiteLedger:
    """A ``protocols.Ledger`` on SQLite.

    Args:
        path: The file, made if it is missing; None keeps everything in memory.

    Raises:
        ConfigurationError: The file was written by a newer version of the package.
        BackendError: The file is not a SQLite database, or cannot be opened.
    """

    def __init__(self, path: Path | None) -> None:
        self.database = Database(path)
        self._eligibility = Eligibility(self.database)
        self._last_passage = 0

    def transaction(self) -> AbstractContextManager[None]:
        """See ``protocols.Ledger``."""
        return self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self.database.write():
            yield

    def add(self, memories: Sequence[AnyMemory], passages: Sequence[Sequence[NewPassage]]) -> list[Passage]:
        """See ``protocols.Ledger``."""
        stored: list[Passage] = []
        with self.database.write() as connection:
            for memory, its_passages in zip(memories, passages, strict=True):
                row = _insert_memory(connection, memory)
                for passage in its_passages:
                    passage_id = self._next_passage_id(connection)
                    stored.append(_insert_passage(connection, memory, row, passage, id=passage_id))
        return stored

    def _next_passage_id(self, connection: sqlite3.Connection) -> int:
        # A transaction that fails takes the table's own counter back; whoever read within it may remember the ids.
        last = one(connection, "SELECT seq FROM sqlite_sequence WHERE name = 'passages'") or 0
        self._last_passage = max(self._last_passage, last) + 1
        return self._last_passage

    def get(self, *, scope: str, id: str) -> AnyMemory | None:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            row = connection.execute(f"{_MEMORY} WHERE s.scope = ? AND m.id = ?", (scope, id)).fetchone()
        return None if row is None else decode(row)

    def invalidate(self, *, scope: str, id: str, at: datetime) -> None:
        """See ``protocols.Ledger``."""
        with self.database.write() as connection:
            connection.execute(
                """UPDATE memories SET invalid_at = ?, updated_at = ?
                WHERE scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ? AND kind = 'semantic'
                AND invalid_at IS NULL""",
                (encode_time(at), encode_time(at), scope, id),
            )

    def eligible(self, selection: Selection) -> list[int]:
        """See ``protocols.Ledger``."""
        return self._eligibility.eligible(selection)

    def indexed(self, selection: Selection) -> list[int]:
        """See ``protocols.Ledger``."""
        return self._eligibility.indexed(selection)

    def vectors(self, passages: Sequence[int]) -> tuple[list[int], Vectors]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            rows = connection.execute(
                f"SELECT passage, vector FROM passage_contents WHERE passage IN {_IDS} ORDER BY passage",
                {"ids": json.dumps(passages)},
            ).fetchall()
        stacked = np.frombuffer(b"".join(vector for _, vector in rows), dtype="<f4")
        return [passage for passage, _ in rows], stacked.reshape(len(rows), -1 if rows else 0)

    def texts(self, passages: Sequence[int]) -> dict[int, str]:
        """See ``protocols.Ledger``."""
        return self._mapping(f"SELECT passage, text FROM passage_contents WHERE passage IN {_IDS}", passages)

    def _mapping(self, sql: str, ids: Sequence[int]) -> dict[int, Any]:
        with self.database.read() as connection:
            return dict(connection.execute(sql, {"ids": json.dumps(ids)}).fetchall())

    def owners(self, passages: Sequence[int]) -> dict[int, int]:
        """See ``protocols.Ledger``."""
        return self._mapping(f"SELECT id, memory FROM passages WHERE id IN {_IDS}", passages)

    def forgetting_states(self, rows: Sequence[int]) -> dict[int, ForgettingState]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            found = connection.execute(
                f"SELECT row, stability, last_reviewed_at FROM memories WHERE row IN {_IDS} AND kind = 'episodic'",
                {"ids": json.dumps(rows)},
            )
            return {row: ForgettingState(stability, reviewed) for row, stability, reviewed in found}

    def load(self, rows: Sequence[int]) -> dict[int, AnyMemory]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            found = connection.execute(
                f"SELECT m.row, {_MEMORY.split('SELECT', 1)[1]} WHERE m.row IN {_IDS}", {"ids": json.dumps(rows)}
            ).fetchall()
        return {row[0]: decode(row[1:]) for row in found}

    def recent(self, *, scope: str, limit: int, now: datetime, since: datetime | None) -> list[EpisodicMemory]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            rows = connection.execute(
                f"""{_MEMORY} WHERE m.scope_id = (SELECT id FROM scopes WHERE scope = :scope) AND m.kind = 'episodic'
                AND (m.expires_at IS NULL OR m.expires_at > :now) AND (:since IS NULL OR m.created_at >= :since)
                ORDER BY m.created_at DESC, m.id LIMIT :limit""",
                {"scope": scope, "now": encode_time(now), "since": encode_time(since), "limit": limit},
            ).fetchall()
        return [memory for memory in map(decode, rows) if isinstance(memory, EpisodicMemory)]

    def scopes(self) -> list[str]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            return [
                scope
                for (scope,) in connection.execute(
                    """SELECT scope FROM scopes s WHERE EXISTS (SELECT 1 FROM memories m WHERE m.scope_id = s.id)
                    ORDER BY scope"""
                )
            ]

    def statistics(self, scope: str | None) -> ScopeStatistics:
        """See ``protocols.Ledger``."""
        in_scope = "(:scope IS NULL OR scope_id = (SELECT id FROM scopes WHERE scope = :scope))"
        with self.database.read(snapshot=True) as connection:
            episodes, facts, invalidated = connection.execute(
                f"""SELECT count(*) FILTER (WHERE kind = 'episodic'),
                count(*) FILTER (WHERE kind = 'semantic' AND invalid_at IS NULL),
                count(*) FILTER (WHERE kind = 'semantic' AND invalid_at IS NOT NULL)
                FROM memories WHERE {in_scope}""",
                {"scope": scope},
            ).fetchone()
            pending = connection.execute(
                f"SELECT count(*) FROM pending_reviews WHERE {in_scope}", {"scope": scope}
            ).fetchone()[0]
        return ScopeStatistics(episodes=episodes, facts=facts, invalidated_facts=invalidated, pending_reviews=pending)

    def notes(self) -> dict[str, str]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            return dict(connection.execute("SELECT name, value FROM notes").fetchall())

    def write_notes(self, notes: Mapping[str, str]) -> None:
        """See ``protocols.Ledger``."""
        with self.database.write() as connection:
            connection.executemany("INSERT OR REPLACE INTO notes VALUES (?, ?)", notes.items())

    def add_pending_reviews(self, reviews: Sequence[PendingReview]) -> None:
        """See ``protocols.Ledger``."""
        with self.database.write() as connection:
            for review in reviews:
                _insert_review(connection, review)

    def pending_reviews(self, scope: str) -> list[PendingReview]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            rows = connection.execute(
                """SELECT query, memories, created_at FROM pending_reviews
                WHERE scope_id = (SELECT id FROM scopes WHERE scope = ?) ORDER BY created_at, id""",
                (scope,),
            ).fetchall()
        return [_review(scope, *row) for row in rows]

    def close(self) -> None:
        """See ``protocols.Ledger``."""
        self.database.close()


def _scope_id(connection: sqlite3.Connection, scope: str) -> int:
    connection.execute("INSERT OR IGNORE INTO scopes (scope) VALUES (?)", (scope,))
    return int(one(connection, "SELECT id FROM scopes WHERE scope = ?", (scope,)))


def _insert_memory(connection: sqlite3.Connection, memory: AnyMemory) -> int:
    scope_id = _scope_id(connection, memory.scope)
    taken = "SELECT 1 FROM memories WHERE scope_id = ? AND id = ?"
    if one(connection, taken, (scope_id, memory.id)) is not None:
        raise ValidationError(f"id {memory.id!r} is already taken in scope {memory.scope!r}; nothing was stored")
    values = {"scope_id": scope_id, **encode(memory)}
    sql = f"INSERT INTO memories ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"
    row = connection.execute(sql, tuple(values.values())).lastrowid
    if isinstance(memory, EpisodicMemory) and memory.messages:
        connection.execute("INSERT INTO excerpts VALUES (?, ?)", (row, encode_messages(memory.messages)))
    return int(row or 0)


def _insert_passage(
    connection: sqlite3.Connection, memory: AnyMemory, row: int, passage: NewPassage, *, id: int
) -> Passage:
    connection.execute("INSERT INTO passages (id, memory, part) VALUES (?, ?, ?)", (id, row, passage.part))
    vector = passage.vector.astype("<f4").tobytes()
    connection.execute("INSERT INTO passage_contents VALUES (?, ?, ?)", (id, passage.text, vector))
    return Passage(id=id, memory=row, scope=memory.scope, kind=memory.kind, text=passage.text)


def _insert_review(connection: sqlite3.Connection, review: PendingReview) -> None:
    scope_id = _scope_id(connection, review.scope)
    memories = encode_json([[key.scope, key.id] for key in review.memories])
    same = """SELECT 1 FROM pending_reviews WHERE scope_id = ? AND query = ? AND memories = ?
        AND abs(created_at - ?) < ?"""
    created_at, window = encode_time(review.created_at), SAME_REVIEW_WINDOW // timedelta(microseconds=1)
    if one(connection, same, (scope_id, review.query, memories, created_at, window)) is not None:
        return
    connection.execute(
        "INSERT INTO pending_reviews (scope_id, query, memories, created_at) VALUES (?, ?, ?, ?)",
        (scope_id, review.query, memories, created_at),
    )
    connection.execute(
        """DELETE FROM pending_reviews WHERE id IN
        (SELECT id FROM pending_reviews WHERE scope_id = ? ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ?)""",
        (scope_id, REVIEWS_PER_SCOPE),
    )


def _review(scope: str, query: str, memories: str, created_at: int) -> PendingReview:
    keys = tuple(MemoryKey(scope=its_scope, id=its_id) for its_scope, its_id in json.loads(memories))
    return PendingReview(scope=scope, query=query, memories=keys, created_at=moment(created_at))
