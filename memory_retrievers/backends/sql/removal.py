"""Deletes memories with every trace of them, and pending reviews."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from memory_retrievers.backends.sql import characters, events
from memory_retrievers.backends.sql.connection import Connection, Whole, ids_by_scope, one
from memory_retrievers.backends.sql.rows import BELOW, below, encode_json, encode_time, readable
from memory_retrievers.models import MemoryKey, scopes
from memory_retrievers.models.fields import moment
from memory_retrievers.models.results import PendingReview

REVIEWS_PER_SCOPE: Final = 200
SAME_REVIEW_WINDOW: Final = timedelta(seconds=60)

DROP_EMPTY_JOBS: Final = """DELETE FROM review_jobs
    WHERE NOT EXISTS (SELECT 1 FROM pending_reviews WHERE job = review_jobs.id)"""


def insert(
    connection: Connection, reviews: Sequence[PendingReview], *, scope_id: int, merge: bool, job: int | None = None
) -> None:
    """Store pending reviews of a scope.

    Args:
        connection: A connection in a write transaction.
        reviews: The reviews.
        scope_id: Row id of the scope.
        merge: Skip a review if the same one was stored within a minute, and delete the scope's oldest beyond 200;
            what is restored is kept as it is.
        job: Id of the review job that they belong to; None is none.
    """
    same = """SELECT 1 FROM pending_reviews WHERE scope_id = ? AND job IS NULL AND query = ? AND memories = ?
        AND abs(created_at - ?) < ?"""
    window = SAME_REVIEW_WINDOW // timedelta(microseconds=1)
    for review in reviews:
        memories, created_at = _encode(review.memories), encode_time(review.created_at)
        if merge and one(connection, same, (scope_id, review.query, memories, created_at, window)) is not None:
            continue
        connection.execute(
            "INSERT INTO pending_reviews (scope_id, query, memories, created_at, job) VALUES (?, ?, ?, ?, ?)",
            (scope_id, review.query, memories, created_at, job),
        )
    if not merge:
        return
    connection.execute(
        """DELETE FROM pending_reviews WHERE scope_id = :scope_id AND job IS NULL AND id NOT IN
        (SELECT id FROM pending_reviews WHERE scope_id = :scope_id AND job IS NULL
        ORDER BY created_at DESC, id DESC LIMIT :kept)""",
        {"scope_id": scope_id, "kept": REVIEWS_PER_SCOPE},
    )


def read(whole: Whole, *, job: int | None = None) -> Iterator[PendingReview]:
    """Read the reviews of the scopes that belong to a review job, or to none, by scope, oldest first."""
    rows = whole.connection.execute(
        f"""SELECT s.scope, r.query, r.memories, r.created_at FROM scopes s JOIN pending_reviews r ON r.scope_id = s.id
        WHERE {f"s.id IN ({whole.scopes}) AND r.job IS NULL" if job is None else "r.job = :job"}
        ORDER BY s.scope, r.created_at, r.id""",
        {**whole.values, "job": job},
    )
    for scope, query, memories, created_at in rows:
        with readable(f"what waits for review in scope {scope!r}"):
            review = PendingReview(scope=scope, query=query, memories=_decode(memories), created_at=moment(created_at))
        yield review


def strike_out(connection: Connection, scope: str, is_gone: Callable[[MemoryKey], bool]) -> None:
    """Remove memories from every review that may name them, and delete the reviews, jobs and scopes left empty.

    Args:
        connection: In a write transaction of the scope and those above it.
        scope: Where the memories are. A review is filed there, or above, where children were searched as well.
        is_gone: Whether a memory is one of them.
    """
    filed = f"FROM scopes WHERE {connection.dialect.among('scope', ':scopes')}"
    asked = {"scopes": connection.dialect.listed(scopes.lineage(scope))}
    rows = connection.execute(
        f"SELECT id, memories FROM pending_reviews WHERE scope_id IN (SELECT id {filed})", asked
    ).fetchall()
    for row, memories in rows:
        with readable("what waits for review"):
            named = _decode(memories)
        kept = [key for key in named if not is_gone(key)]
        if not kept:
            connection.execute("DELETE FROM pending_reviews WHERE id = ?", (row,))
        elif len(kept) < len(named):
            connection.execute("UPDATE pending_reviews SET memories = ? WHERE id = ?", (_encode(kept), row))
    connection.execute(DROP_EMPTY_JOBS)
    connection.execute(f"DELETE {filed} AND {EMPTY_SCOPES}", asked)


def drop_conversations(connection: Connection, scope: str, ids: Sequence[str]) -> None:
    """Delete the reviews that wait to be judged by what episodes say; their jobs stay, empty.

    Args:
        connection: A connection in a transaction that writes.
        scope: The scope of the episodes.
        ids: The ids of the episodes.
    """
    dialect = connection.dialect
    connection.execute(
        f"""DELETE FROM pending_reviews WHERE job IN (SELECT j.id FROM review_jobs j JOIN scopes s ON s.id = j.scope_id
        WHERE s.scope = :scope AND j.conversation <> '[]' AND EXISTS (SELECT 1 FROM memories m
        WHERE m.scope_id = s.id AND m.kind = 'episodic' AND {dialect.among("m.id", ":ids")}))""",
        {"scope": scope, "ids": dialect.listed(ids)},
    )


def _encode(memories: Sequence[MemoryKey]) -> str:
    return encode_json([[key.scope, key.id] for key in memories])


def _decode(memories: str) -> tuple[MemoryKey, ...]:
    return tuple(MemoryKey(scope=its_scope, id=its_id) for its_scope, its_id in json.loads(memories))


EMPTY_SCOPES: Final = """
    NOT EXISTS (SELECT 1 FROM memories WHERE scope_id = scopes.id)
    AND NOT EXISTS (SELECT 1 FROM pending_reviews WHERE scope_id = scopes.id)
    AND NOT EXISTS (SELECT 1 FROM review_jobs WHERE scope_id = scopes.id)
    AND NOT EXISTS (SELECT 1 FROM queued_messages WHERE scope_id = scopes.id)
    AND NOT EXISTS (SELECT 1 FROM characters WHERE scope_id = scopes.id)
"""
"""A condition on a row of ``scopes``: it holds nothing but the log of what was forgotten."""


def remove_all(connection: Connection, keys: Sequence[MemoryKey]) -> int:
    """Delete memories, and their ids from everything that names them; returns how many existed."""
    existed = 0
    for scope, ids in ids_by_scope(keys).items():
        scope_id = one(connection, "SELECT id FROM scopes WHERE scope = ?", (scope,))
        drop_conversations(connection, scope, ids)
        removed = [id for id in ids if _remove_one(connection, scope_id, id)]  # noqa: A001
        if removed:
            strike_out(connection, scope, {MemoryKey(scope=scope, id=id) for id in removed}.__contains__)  # noqa: A001
            for column in ("source_episodic_ids", "consolidated_from"):
                _strike_out_of_lists(connection, column, scope_id, removed)
            characters.strike_out(connection, scope, removed)
            forget_empty_scopes(connection, scope)
        existed += len(removed)
    return existed


def sweep(connection: Connection) -> None:
    """Delete everything that nothing refers to any more."""
    events.sweep(connection)
    connection.execute("DELETE FROM postings WHERE passage NOT IN (SELECT id FROM passages)")
    connection.execute(f"DELETE FROM scopes WHERE {EMPTY_SCOPES}")
    connection.execute("DELETE FROM keyword_statistics WHERE scope_id NOT IN (SELECT id FROM scopes)")


def forget_empty_scopes(connection: Connection, scope: str, *, include_child_scopes: bool = False) -> None:
    """Delete the names of a scope, and of those below it, where nothing is left.

    Args:
        connection: A connection in a write transaction.
        scope: The scope.
        include_child_scopes: Also look at the scopes below it.
    """
    values = below(scope, include_child_scopes=include_child_scopes)
    connection.execute(f"DELETE FROM scopes WHERE {BELOW} AND {EMPTY_SCOPES}", values)


def _remove_one(connection: Connection, scope_id: int | None, id: str) -> bool:
    values = {"scope_id": scope_id, "id": id}
    # what it has replaced is replaced by its own successor, so that the versions of a fact hang together
    connection.execute(
        """UPDATE memories SET replaced_by =
        (SELECT replaced_by FROM memories WHERE scope_id = :scope_id AND id = :id AND replaced_by != :id)
        WHERE scope_id = :scope_id AND replaced_by = :id""",
        values,
    )
    return bool(connection.execute("DELETE FROM memories WHERE scope_id = :scope_id AND id = :id", values).rowcount)


def _strike_out_of_lists(connection: Connection, column: str, scope_id: int, ids: Sequence[str]) -> None:
    """Remove ids from a JSON list column in one pass over the scope, however many ids there are."""
    dialect, gone = connection.dialect, set(ids)
    named = f"EXISTS (SELECT 1 FROM ({dialect.items(column)}) AS listed WHERE {dialect.among('value', ':sought')})"
    sought = dialect.listed(ids)
    if len(ids) == 1:
        named, sought = f"{dialect.position}({column}, :sought) > 0", encode_json(ids[0])
    rows = connection.execute(
        f"SELECT row, {column} FROM memories WHERE scope_id = :scope_id AND {column} != '[]' AND {named}",
        {"scope_id": scope_id, "sought": sought},
    ).fetchall()
    for row, listed in rows:
        kept = encode_json([each for each in json.loads(listed) if each not in gone])
        connection.execute(f"UPDATE memories SET {column} = ? WHERE row = ?", (kept, row))
