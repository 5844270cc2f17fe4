"""Queued messages, leases and review jobs as rows."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from memory_retrievers.backends.sql import removal
from memory_retrievers.backends.sql.connection import Database, one
from memory_retrievers.backends.sql.memories import scope_id_of
from memory_retrievers.backends.sql.rows import decode_messages, encode_messages, encode_time, readable
from memory_retrievers.models import MemoryKey
from memory_retrievers.models.contents import StoredQueue
from memory_retrievers.models.fields import moment
from memory_retrievers.models.messages import Message
from memory_retrievers.models.storage import QueuedMessage, QueueState, ReviewJob

_OF_SCOPE: Final = "scope_id = (SELECT id FROM scopes WHERE scope = :scope)"
_FREE: Final = "fence = NULL, fenced_messages = NULL, fenced_at = NULL"


class SQLConversations:
    """Queued messages by scope, and leases that keep two workers off the same queue.

    Args:
        database: Where they are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def new_lease(self) -> str:
        """Make a token for a lease, which tells by whom it is held."""
        return f"{self._database.holder}:{uuid.uuid4().hex}"

    def _is_stale(self, lease: str | None) -> bool:
        """True if a lease was left behind by a process that has ended."""
        return lease is not None and self._database.is_gone(lease.rpartition(":")[0])

    def append(self, scope: str, messages: Sequence[QueuedMessage]) -> None:
        """Append messages to the queue."""
        if not messages:
            return
        with self._database.write(scope) as connection:
            scope_id = scope_id_of(connection, scope)
            connection.execute("INSERT INTO queues (scope_id) VALUES (?) ON CONFLICT DO NOTHING", (scope_id,))
            connection.executemany(
                "INSERT INTO queued_messages (scope_id, id, role, content, timestamp) VALUES (?, ?, ?, ?, ?)",
                [
                    (scope_id, each.id, each.message.role, each.message.content, encode_time(each.message.timestamp))
                    for each in messages
                ],
            )

    def restore(self, queue: StoredQueue) -> None:
        """Restore a queue as it was exported from another store."""
        with self._database.write(queue.scope) as connection:
            self.append(queue.scope, [QueuedMessage(id=its_id, message=message) for its_id, message in queue.messages])
            connection.execute(
                f"UPDATE queues SET window_doubled = :doubled, previous_summary = :summary WHERE {_OF_SCOPE}",
                {"scope": queue.scope, "doubled": queue.window_doubled, "summary": queue.previous_summary},
            )

    def state(self, scope: str) -> QueueState:
        """Return the state of the scope's queue."""
        values = {"scope": scope}
        with self._database.read(snapshot=True) as connection:
            count = one(connection, f"SELECT count(*) FROM queued_messages WHERE {_OF_SCOPE}", values)
            first_at = one(
                connection, f"SELECT timestamp FROM queued_messages WHERE {_OF_SCOPE} ORDER BY row LIMIT 1", values
            )
            queue = connection.execute(
                f"SELECT fence, fenced_at, window_doubled, previous_summary FROM queues WHERE {_OF_SCOPE}", values
            ).fetchone()
        lease, leased_at, doubled, previous_summary = queue or (None, None, 0, None)
        return QueueState(
            messages=count,
            first_at=None if first_at is None else moment(first_at),
            leased_at=None if leased_at is None or self._is_stale(lease) else moment(leased_at),
            window_doubled=bool(doubled),
            previous_summary=previous_summary,
        )

    def head(self, scope: str, *, limit: int) -> list[QueuedMessage]:
        """Return the first messages of the queue, in order of arrival."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT id, role, content, timestamp FROM queued_messages WHERE {_OF_SCOPE} ORDER BY row LIMIT :limit",
                {"scope": scope, "limit": limit},
            ).fetchall()
        return [
            QueuedMessage(id=its_id, message=Message(role=role, content=content, timestamp=moment(timestamp)))
            for its_id, role, content, timestamp in rows
        ]

    def scopes(self) -> list[str]:
        """List the scopes with queued messages or review jobs, sorted."""
        with self._database.read() as connection:
            rows = connection.execute(
                """SELECT scope FROM scopes WHERE EXISTS (SELECT 1 FROM queued_messages WHERE scope_id = scopes.id)
                OR EXISTS (SELECT 1 FROM review_jobs WHERE scope_id = scopes.id) ORDER BY scope"""
            )
            return [scope for (scope,) in rows]

    def claim(self, scope: str, *, lease: str, messages: int, at: datetime, expired: datetime) -> bool:
        """Take a lease on the first messages of the queue, unless a newer lease is held by one that still runs.

        Args:
            scope: Scope of the queue.
            lease: Token of :meth:`new_lease`.
            messages: Number of messages the lease covers, from the head of the queue.
            at: Time at which the lease is taken.
            expired: A lease taken before this time is replaced.

        Returns:
            True if the lease was taken.
        """
        with self._database.write(scope) as connection:
            held = one(connection, f"SELECT fence FROM queues WHERE {_OF_SCOPE}", {"scope": scope})
            claimed = connection.execute(
                f"""UPDATE queues SET fence = :lease, fenced_messages = :messages, fenced_at = :at
                WHERE {_OF_SCOPE} AND (fence IS NULL OR :stale OR fenced_at < :expired)""",
                {
                    "scope": scope,
                    "lease": lease,
                    "stale": self._is_stale(held),
                    "messages": messages,
                    "at": encode_time(at),
                    "expired": encode_time(expired),
                },
            )
            return bool(claimed.rowcount)

    def release(self, scope: str, *, lease: str, window_doubled: bool | None = None) -> bool:
        """End a lease and leave the messages in the queue.

        Args:
            scope: Scope of the queue.
            lease: Token that identifies it.
            window_doubled: Whether the last look saw a single topic; None keeps the stored value.

        Returns:
            False, with nothing done, if the lease no longer exists.
        """
        with self._database.write(scope) as connection:
            released = connection.execute(
                f"""UPDATE queues SET {_FREE}, window_doubled = coalesce(:doubled, window_doubled)
                WHERE {_OF_SCOPE} AND fence = :lease""",
                {"scope": scope, "lease": lease, "doubled": window_doubled},
            )
            return bool(released.rowcount)

    def drain(self, scope: str, *, lease: str, messages: int, previous_summary: str | None) -> bool:
        """Remove the leased messages from the queue, end the lease, and reset the window.

        Args:
            scope: Scope of the queue.
            lease: Token that identifies it.
            messages: Number of messages to remove, from the head of the queue.
            previous_summary: Summary of the last episode, if the queue continues it; None otherwise.

        Returns:
            False, with nothing done, if the lease no longer exists.
        """
        with self._database.write(scope) as connection:
            drained = connection.execute(
                f"""UPDATE queues SET {_FREE}, window_doubled = FALSE, previous_summary = :summary
                WHERE {_OF_SCOPE} AND fence = :lease""",
                {"scope": scope, "lease": lease, "summary": previous_summary},
            )
            if not drained.rowcount:
                return False
            connection.execute(
                f"""DELETE FROM queued_messages WHERE row IN
                (SELECT row FROM queued_messages WHERE {_OF_SCOPE} ORDER BY row LIMIT :messages)""",
                {"scope": scope, "messages": messages},
            )
            return True

    def take_reviews(self, scope: str, *, conversation: Sequence[Message], at: datetime) -> None:
        """Turn all pending reviews of the scope into one review job, if there are any.

        Args:
            scope: Scope of the reviews.
            conversation: Messages by which the retrievals are rated.
            at: Time from which the review counts.
        """
        with self._database.write(scope) as connection:
            waiting = f"{_OF_SCOPE} AND job IS NULL"
            if one(connection, f"SELECT 1 FROM pending_reviews WHERE {waiting}", {"scope": scope}) is None:
                return
            job = one(
                connection,
                "INSERT INTO review_jobs (scope_id, reviewed_at, conversation) VALUES (?, ?, ?) RETURNING id",
                (scope_id_of(connection, scope), encode_time(at), encode_messages(conversation)),
            )
            connection.execute(f"UPDATE pending_reviews SET job = :job WHERE {waiting}", {"scope": scope, "job": job})

    def review_jobs(self, scope: str) -> list[ReviewJob]:
        """List the scope's review jobs, oldest first."""
        with self._database.read(snapshot=True) as connection:
            rows = connection.execute(
                f"SELECT id, reviewed_at, conversation FROM review_jobs WHERE {_OF_SCOPE} ORDER BY id", {"scope": scope}
            ).fetchall()
            with readable(f"a conversation that waits for review in scope {scope!r}"):
                return [
                    ReviewJob(
                        id=job,
                        scope=scope,
                        reviewed_at=moment(reviewed_at),
                        conversation=decode_messages(conversation),
                        reviews=tuple(removal.read(connection, scope, job=job)),
                    )
                    for job, reviewed_at, conversation in rows
                ]

    def finish_review_job(self, job: int) -> bool:
        """Delete a review job; False if it no longer exists."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM pending_reviews WHERE job = ?", (job,))
            return bool(connection.execute("DELETE FROM review_jobs WHERE id = ?", (job,)).rowcount)

    def old_messages(self, *, before: datetime, limit: int) -> list[MemoryKey]:
        """List episodes that ended before a time and still have messages."""
        with self._database.read() as connection:
            found = connection.execute(
                """SELECT s.scope, m.id FROM excerpts e JOIN memories m ON m.row = e.memory
                JOIN scopes s ON s.id = m.scope_id WHERE m.kind = 'episodic' AND m.end_at < ? LIMIT ?""",
                (encode_time(before), limit),
            )
            return [MemoryKey(scope=scope, id=id) for scope, id in found]  # noqa: A001

    def erase_messages(self, keys: Sequence[MemoryKey]) -> None:
        """Delete the messages of episodes but keep their passages."""
        with self._database.write(*{key.scope for key in keys}) as connection:
            connection.executemany(
                """DELETE FROM excerpts WHERE memory = (SELECT row FROM memories
                WHERE scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ?)""",
                [(key.scope, key.id) for key in keys],
            )
