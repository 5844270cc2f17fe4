"""Pending reviews as rows: filed once, bounded per scope, and rid of what is forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from memory_retrievers import scopes
from memory_retrievers.backends.sql.connection import Connection, one
from memory_retrievers.backends.sql.rows import encode_json, encode_time
from memory_retrievers.fields import moment
from memory_retrievers.models import MemoryKey
from memory_retrievers.retrieved import PendingReview

REVIEWS_PER_SCOPE: Final = 200
SAME_REVIEW_WINDOW: Final = timedelta(seconds=60)


def insert(connection: Connection, review: PendingReview, *, scope_id: int, merge: bool) -> None:
    """File a review, unless it is to merge and the same one was filed within a minute; the oldest beyond 200 go."""
    memories = _encode(review.memories)
    same = """SELECT 1 FROM pending_reviews WHERE scope_id = ? AND job IS NULL AND query = ? AND memories = ?
        AND abs(created_at - ?) < ?"""
    created_at, window = encode_time(review.created_at), SAME_REVIEW_WINDOW // timedelta(microseconds=1)
    if merge and one(connection, same, (scope_id, review.query, memories, created_at, window)) is not None:
        return
    connection.execute(
        "INSERT INTO pending_reviews (scope_id, query, memories, created_at) VALUES (?, ?, ?, ?)",
        (scope_id, review.query, memories, created_at),
    )
    connection.execute(
        """DELETE FROM pending_reviews WHERE scope_id = :scope_id AND job IS NULL AND id NOT IN
        (SELECT id FROM pending_reviews WHERE scope_id = :scope_id AND job IS NULL
        ORDER BY created_at DESC, id DESC LIMIT :kept)""",
        {"scope_id": scope_id, "kept": REVIEWS_PER_SCOPE},
    )


def read(connection: Connection, scope: str, *, job: int | None = None) -> list[PendingReview]:
    """The scope's reviews that are part of a job, or of none, oldest first."""
    of_job = "job IS NULL" if job is None else "job = :job"
    rows = connection.execute(
        f"""SELECT query, memories, created_at FROM pending_reviews
        WHERE scope_id = (SELECT id FROM scopes WHERE scope = :scope) AND {of_job} ORDER BY created_at, id""",
        {"scope": scope, "job": job},
    ).fetchall()
    return [decode(scope, *row) for row in rows]


def decode(scope: str, query: str, memories: str, created_at: int) -> PendingReview:
    """The review of a row."""
    return PendingReview(scope=scope, query=query, memories=_decode(memories), created_at=moment(created_at))


def strike_out(connection: Connection, scope: str, is_gone: Callable[[MemoryKey], bool]) -> None:
    """Take memories out of every review that may name them; a review left without memories goes.

    Args:
        connection: Inside a write transaction.
        scope: Where the memories are. A review is filed there, or above, where children were searched as well.
        is_gone: Whether a memory is one of them.
    """
    rows = connection.execute(
        f"""SELECT id, memories FROM pending_reviews
        WHERE scope_id IN (SELECT id FROM scopes WHERE {connection.dialect.among("scope", ":scopes")})""",
        {"scopes": connection.dialect.listed(scopes.lineage(scope))},
    ).fetchall()
    for row, memories in rows:
        named = _decode(memories)
        kept = [key for key in named if not is_gone(key)]
        if not kept:
            connection.execute("DELETE FROM pending_reviews WHERE id = ?", (row,))
        elif len(kept) < len(named):
            connection.execute("UPDATE pending_reviews SET memories = ? WHERE id = ?", (_encode(kept), row))
    connection.execute(
        "DELETE FROM review_jobs WHERE NOT EXISTS (SELECT 1 FROM pending_reviews WHERE job = review_jobs.id)"
    )


def _encode(memories: Sequence[MemoryKey]) -> str:
    return encode_json([[key.scope, key.id] for key in memories])


def _decode(memories: str) -> tuple[MemoryKey, ...]:
    return tuple(MemoryKey(scope=its_scope, id=its_id) for its_scope, its_id in json.loads(memories))
