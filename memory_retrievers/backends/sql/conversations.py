"""Queued messages, leases and review jobs as rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar, Final

from memory_retrievers.backends.sql import removal
from memory_retrievers.backends.sql.connection import OF_SCOPE, Connection, Part, Whole, one, scope_id_of
from memory_retrievers.backends.sql.rows import decode_messages, encode_json, encode_messages, encode_time, readable
from memory_retrievers.models import EpisodicMemory, MemoryKey
from memory_retrievers.models.contents import StoredQueue
from memory_retrievers.models.fields import moment
from memory_retrievers.models.messages import Message
from memory_retrievers.models.storage import QueuedMessage, QueueState, ReviewJob

_OF_QUEUE: Final = f"{OF_SCOPE} AND conversation = :conversation"
_MOST_GIVEN_UP: Final = 10_000  # leases: of a database that refuses writes for days nearly none was ever stored
FREE: Final = "UPDATE queues SET fence = NULL, fenced_messages = NULL, fenced_at = NULL"
# the row of a queue in which no message is left goes, so that conversations that have ended leave nothing
DROP_EMPTY_QUEUES: Final = f"""DELETE FROM queues WHERE {OF_SCOPE} AND NOT EXISTS (SELECT 1 FROM queued_messages m
    WHERE m.scope_id = queues.scope_id AND m.conversation = queues.conversation)"""
_HEARD: Final = """
    INSERT INTO queues (scope_id, conversation, heard_at) VALUES (?, ?, ?)
    ON CONFLICT (scope_id, conversation) DO UPDATE SET heard_at = excluded.heard_at
"""
_IN_EPISODES: Final = f"""m.{OF_SCOPE} AND m.kind = 'episodic'
    AND m.origin = 'conversation' AND coalesce(m.conversation_id, '') = :conversation"""
_OF_EPISODE: Final = (
    "memory = (SELECT row FROM memories WHERE scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ?)"
)
_STATE: Final = """
    SELECT s.scope, q.conversation, q.heard_at, q.fence, q.fenced_at, q.window_doubled, q.previous_summary,
        (SELECT count(*) FROM queued_messages m WHERE m.scope_id = q.scope_id AND m.conversation = q.conversation),
        (SELECT m.timestamp FROM queued_messages m WHERE m.scope_id = q.scope_id AND m.conversation = q.conversation
            ORDER BY m.row LIMIT 1)
    FROM queues q JOIN scopes s ON s.id = q.scope_id
"""


class SQLConversations(Part):
    """Queued messages by scope and conversation, and leases that keep two workers off the same queue.

    A conversation without a name is None, and an empty text in the tables.
    """

    _given_up: ClassVar[set[str]] = set()  # leases of this process that nobody works on, though no database was told

    @contextmanager
    def _telling(self, scope: str, lease: str) -> Iterator[Connection]:
        """A transaction that begins or ends a lease, which is given up if it fails."""
        try:
            with self.database.write(scope) as connection:
                yield connection
        except BaseException:
            self._given_up.add(lease)
            if len(self._given_up) > _MOST_GIVEN_UP:
                self._given_up.pop()
            raise

    def new_lease(self) -> str:
        """Make a token for a lease, which tells by whom it is held."""
        return f"{self.database.holder}:{uuid.uuid4().hex}"

    def _is_stale(self, lease: str | None) -> bool:
        """True if a lease was left behind, here or by a process that has ended."""
        return lease in self._given_up or (lease is not None and self.database.is_gone(lease.rpartition(":")[0]))

    def _state(self, row: Sequence[Any]) -> QueueState:
        heard_at, lease, leased_at, doubled, summary, messages, first_at = row
        return QueueState(
            messages=messages,
            first_at=None if first_at is None else moment(first_at),
            heard_at=None if not messages else moment(heard_at),
            leased_at=None if leased_at is None or self._is_stale(lease) else moment(leased_at),
            window_doubled=bool(doubled),
            previous_summary=summary,
        )

    def append(
        self, scope: str, messages: Sequence[QueuedMessage], *, conversation: str | None = None, at: datetime
    ) -> None:
        """Append messages to the queue of a conversation.

        Args:
            scope: Scope of the queue.
            messages: The messages.
            conversation: The conversation.
            at: When they arrived.
        """
        if not messages:
            return
        key = conversation or ""
        with self.database.write(scope) as connection:
            scope_id = scope_id_of(connection, scope)
            connection.execute(_HEARD, (scope_id, key, encode_time(at)))
            connection.executemany(
                """INSERT INTO queued_messages (scope_id, conversation, id, role, content, timestamp)
                VALUES (?, ?, ?, ?, ?, ?)""",
                [
                    (scope_id, key, its_id, said.role, said.content, encode_time(said.timestamp))
                    for its_id, said in messages
                ],
            )

    def restore(self, queue: StoredQueue) -> bool:
        """Restore a queue, or its next part, as it was exported; it was heard last when its last message was said.

        False, with nothing stored, if it has no message, or one that waits in its scope already.
        """
        times = [message.timestamp for _, message in queue.messages if message.timestamp is not None]
        ids = {its_id for its_id, _ in queue.messages}
        if not times or len(ids) < len(queue.messages):
            return False
        key = _key(queue.scope, queue.conversation)
        with self.database.write(queue.scope) as connection:
            known = f"SELECT 1 FROM queued_messages WHERE {OF_SCOPE} AND {self.dialect.among('id', ':ids')} LIMIT 1"
            if one(connection, known, {"scope": queue.scope, "ids": self.dialect.listed(list(ids))}) is not None:
                return False
            heard = self.state(queue.scope, queue.conversation).heard_at
            at = max(times if heard is None else [*times, heard])
            self.append(queue.scope, queue.messages, conversation=queue.conversation, at=at)
            connection.execute(
                f"UPDATE queues SET window_doubled = :doubled, previous_summary = :summary WHERE {_OF_QUEUE}",
                key | {"doubled": queue.window_doubled, "summary": queue.previous_summary},
            )
        return True

    def state(self, scope: str, conversation: str | None = None) -> QueueState:
        """Return the state of a conversation's queue."""
        of_queue = f"{_STATE} WHERE s.scope = :scope AND q.conversation = :conversation"
        return next((self._state(row) for _, _, *row in self.query(of_queue, _key(scope, conversation))), QueueState())

    def states(self, scope: str | None = None) -> dict[tuple[str, str | None], QueueState]:
        """Return the states of all queues that hold messages, or of a scope's, by scope and conversation, sorted."""
        rows = self.query(
            f"{_STATE} WHERE (CAST(:scope AS TEXT) IS NULL OR s.scope = :scope) ORDER BY s.scope, q.conversation",
            {"scope": scope},
        )
        states = {(its_scope, conversation or None): self._state(row) for its_scope, conversation, *row in rows}
        return {key: state for key, state in states.items() if state.messages}

    def head(self, scope: str, *, conversation: str | None = None, limit: int) -> list[QueuedMessage]:
        """Return the first messages of a queue, in order of arrival.

        Args:
            scope: Scope of the queue.
            conversation: Conversation of the queue.
            limit: Maximum number of messages.
        """
        return self._first(_OF_QUEUE, {**_key(scope, conversation), "limit": limit})

    def waiting(self, scope: str, *, limit: int) -> list[QueuedMessage]:
        """Return the first queued messages of all conversations of a scope, in order of arrival."""
        return self._first(OF_SCOPE, {"scope": scope, "limit": limit})

    def _first(self, where: str, values: Mapping[str, object]) -> list[QueuedMessage]:
        sql = f"SELECT id, role, content, timestamp FROM queued_messages WHERE {where} ORDER BY row LIMIT :limit"
        return list(map(queued_message, self.query(sql, values)))

    def said(self, scope: str, *, conversation: str | None, now: datetime, limit: int) -> list[Message]:
        """Return the last messages of a conversation, those of its episodes and those that are queued, in order.

        Args:
            scope: Scope of the conversation.
            conversation: The conversation.
            now: Leave out episodes that expired by this time.
            limit: Maximum number of messages.
        """
        key = {**_key(scope, conversation), "limit": limit}
        with self.database.read(snapshot=True) as connection:  # what is just becoming an episode is seen once
            queued = connection.execute(
                f"""SELECT id, role, content, timestamp FROM queued_messages WHERE {_OF_QUEUE}
                ORDER BY row DESC LIMIT :limit""",
                key,
            ).fetchall()
            episodes = connection.execute(
                f"""SELECT e.messages FROM memories m JOIN excerpts e ON e.memory = m.row
                WHERE {_IN_EPISODES} AND (m.expires_at IS NULL OR m.expires_at > :now)
                ORDER BY m.row DESC LIMIT :limit""",
                {**key, "now": encode_time(now)},
            ).fetchall()
        with readable(f"a conversation in scope {scope!r}"):
            stored = [message for (messages,) in reversed(episodes) for message in decode_messages(messages)]
        return [*stored, *(queued_message(row).message for row in reversed(queued))][-limit:]

    def episodes(self, scope: str, *, conversation: str | None) -> list[MemoryKey]:
        """List the episodes of a conversation."""
        found = self.column(f"SELECT m.id FROM memories m WHERE {_IN_EPISODES}", _key(scope, conversation))
        return [MemoryKey(scope=scope, id=its_id) for its_id in found]

    def scopes(self) -> list[str]:
        """List the scopes with queued messages or review jobs, sorted."""
        return self.column(
            """SELECT scope FROM scopes WHERE EXISTS (SELECT 1 FROM queued_messages WHERE scope_id = scopes.id)
            OR EXISTS (SELECT 1 FROM review_jobs WHERE scope_id = scopes.id) ORDER BY scope"""
        )

    def reviewed_scopes(self) -> list[str]:
        """List the scopes with review jobs."""
        return self.column("SELECT DISTINCT s.scope FROM review_jobs j JOIN scopes s ON s.id = j.scope_id")

    def claim(
        self, scope: str, *, conversation: str | None = None, lease: str, messages: int, at: datetime, expired: datetime
    ) -> bool:
        """Take a lease on the first messages of a queue; False if a newer one is held by somebody who still runs.

        Args:
            scope: Scope of the queue.
            conversation: Conversation of the queue.
            lease: Token of :meth:`new_lease`.
            messages: Number of messages the lease covers, from the head of the queue.
            at: Time at which the lease is taken.
            expired: A lease taken before this time is replaced.
        """
        key = _key(scope, conversation)
        with self._telling(scope, lease) as connection:
            held = one(connection, f"SELECT fence FROM queues WHERE {_OF_QUEUE}", key)
            taken = {"lease": lease, "stale": self._is_stale(held), "messages": messages}
            claimed = connection.execute(
                f"""UPDATE queues SET fence = :lease, fenced_messages = :messages, fenced_at = :at
                WHERE {_OF_QUEUE} AND (fence IS NULL OR :stale OR fenced_at < :expired)""",
                key | taken | {"at": encode_time(at), "expired": encode_time(expired)},
            )
            return bool(claimed.rowcount)

    def release(
        self, scope: str, *, conversation: str | None = None, lease: str, window_doubled: bool | None = None
    ) -> bool:
        """End a lease and leave the messages in the queue; False, with nothing done, if it no longer exists.

        Args:
            scope: Scope of the queue.
            conversation: Conversation of the queue.
            lease: Token that identifies it.
            window_doubled: Whether the last look saw a single topic; None keeps the stored value.
        """
        if lease in self._given_up:  # what failed to take it would fail once more, after as long a wait
            return False
        with self._telling(scope, lease) as connection:
            released = connection.execute(
                f"""{FREE}, window_doubled = coalesce(:doubled, window_doubled)
                WHERE {_OF_QUEUE} AND fence = :lease""",
                {**_key(scope, conversation), "lease": lease, "doubled": window_doubled},
            )
            return bool(released.rowcount)

    def drain(
        self,
        scope: str,
        *,
        conversation: str | None = None,
        lease: str,
        messages: Sequence[str],
        previous_summary: str | None,
    ) -> bool:
        """Remove leased messages from the queue, end the lease, and reset the window.

        Args:
            scope: Scope of the queue.
            conversation: Conversation of the queue.
            lease: Token that identifies it.
            messages: Ids of the messages to remove.
            previous_summary: Summary of the last episode, if the queue continues it; None otherwise.

        Returns:
            False if the lease no longer exists, with nothing done, or one of the messages, with the transaction to be
            undone.
        """
        key = _key(scope, conversation)
        with self.database.write(scope) as connection:
            drained = connection.execute(
                f"""{FREE}, window_doubled = FALSE, previous_summary = :summary
                WHERE {_OF_QUEUE} AND fence = :lease""",
                {**key, "lease": lease, "summary": previous_summary},
            )
            if not drained.rowcount:
                return False
            removed = connection.execute(
                f"DELETE FROM queued_messages WHERE {_OF_QUEUE} AND {self.dialect.among('id', ':ids')}",
                {**key, "ids": self.dialect.listed(messages)},
            ).rowcount
            connection.execute(f"{DROP_EMPTY_QUEUES} AND conversation = :conversation", key)
            removal.forget_empty_scopes(connection, scope)
            return removed == len(messages)

    def take_reviews(self, scope: str, *, conversation: Sequence[Message], at: datetime) -> None:
        """Turn all pending reviews of the scope into one review job, if there are any.

        Args:
            scope: Scope of the reviews.
            conversation: Messages by which the retrievals are rated.
            at: Time from which the review counts.
        """
        with self.database.write(scope) as connection:
            waiting = f"{OF_SCOPE} AND job IS NULL"
            if one(connection, f"SELECT 1 FROM pending_reviews WHERE {waiting}", {"scope": scope}) is None:
                return
            job = _insert_job(connection, scope_id_of(connection, scope), conversation=conversation, at=at)
            connection.execute(f"UPDATE pending_reviews SET job = :job WHERE {waiting}", {"scope": scope, "job": job})

    def review_jobs(self, scope: str) -> list[ReviewJob]:
        """List the scope's review jobs, oldest first."""
        with self.database.read(snapshot=True) as connection:
            return list(read_review_jobs(Whole.of(connection, scope)))

    def restore_review_job(self, job: ReviewJob) -> None:
        """Restore a review job as it was exported from another store."""
        with self.database.write(job.scope) as connection:
            scope_id = scope_id_of(connection, job.scope)
            its_id = _insert_job(connection, scope_id, conversation=job.conversation, at=job.reviewed_at)
            removal.insert(connection, job.reviews, scope_id=scope_id, merge=False, job=its_id)

    def finish_review_job(self, job: int) -> bool:
        """Delete a review job, and the scope that held nothing else; False if the job no longer exists."""
        asked = "SELECT s.scope FROM review_jobs j JOIN scopes s ON s.id = j.scope_id WHERE j.id = ?"
        with self.database.write() as connection:
            scope = one(connection, asked, (job,))
            if scope is None:
                return False
            connection.execute("DELETE FROM pending_reviews WHERE job = ?", (job,))
            connection.execute("DELETE FROM review_jobs WHERE id = ?", (job,))
            removal.forget_empty_scopes(connection, scope)
            return True

    def old_messages(self, *, before: datetime, limit: int) -> list[MemoryKey]:
        """List episodes that ended before a time and still have messages."""
        found = self.query(
            """SELECT s.scope, m.id FROM excerpts e JOIN memories m ON m.row = e.memory
            JOIN scopes s ON s.id = m.scope_id WHERE m.kind = 'episodic' AND m.end_at < ? LIMIT ?""",
            (encode_time(before), limit),
        )
        return [MemoryKey(scope=scope, id=id) for scope, id in found]  # noqa: A001

    def telling(self, scope: str, words: Sequence[str]) -> dict[str, tuple[Message, ...]]:
        """Read the messages of a scope's episodes whose text contains one of these words, by the episode's id."""
        dialect = self.dialect
        stands = " OR ".join(f"{dialect.position}(e.messages, :word{place}) > 0" for place in range(len(words)))
        rows = self.query(
            f"""SELECT m.id, e.messages FROM memories m JOIN excerpts e ON e.memory = m.row {dialect.beside("e", "m")}
            WHERE m.{OF_SCOPE} AND m.kind = 'episodic' AND ({stands or "FALSE"}) ORDER BY m.row""",
            {"scope": scope, **{f"word{place}": encode_json(word)[1:-1] for place, word in enumerate(words)}},
        )
        with readable(f"an episode in scope {scope!r}"):
            return {its_id: decode_messages(messages) for its_id, messages in rows}

    def put_messages(self, episodes: Sequence[EpisodicMemory]) -> None:
        """Store the messages of episodes in place of those that they had."""
        with self.database.write(*{episode.scope for episode in episodes}) as connection:
            connection.executemany(
                f"UPDATE excerpts SET messages = ? WHERE {_OF_EPISODE}",
                [(encode_messages(each.messages), each.scope, each.id) for each in episodes],
            )

    def erase_messages(self, keys: Sequence[MemoryKey]) -> None:
        """Delete the messages of episodes, also from what waits for its judge, but keep their passages."""
        with self.database.write(*{key.scope for key in keys}) as connection:
            for key in keys:
                removal.drop_conversations(connection, key.scope, [key.id])
            connection.execute(removal.DROP_EMPTY_JOBS)
            connection.executemany(f"DELETE FROM excerpts WHERE {_OF_EPISODE}", [(key.scope, key.id) for key in keys])


def read_review_jobs(whole: Whole) -> Iterator[ReviewJob]:
    """Read the review jobs of the scopes, by scope, oldest first."""
    rows = whole.execute(
        f"""SELECT j.id, s.scope, j.reviewed_at, j.conversation FROM scopes s JOIN review_jobs j ON j.scope_id = s.id
        WHERE s.id IN ({whole.scopes}) ORDER BY s.scope, j.id"""
    )
    for job, scope, reviewed_at, conversation in rows.fetchall():
        with readable(f"a conversation that waits for review in scope {scope!r}"):
            read = ReviewJob(
                id=job,
                scope=scope,
                reviewed_at=moment(reviewed_at),
                conversation=decode_messages(conversation),
                reviews=tuple(removal.read(whole, job=job)),
            )
        yield read


def _insert_job(connection: Connection, scope_id: int, *, conversation: Sequence[Message], at: datetime) -> int:
    sql = "INSERT INTO review_jobs (scope_id, reviewed_at, conversation) VALUES (?, ?, ?) RETURNING id"
    return int(one(connection, sql, (scope_id, encode_time(at), encode_messages(conversation))))


def _key(scope: str, conversation: str | None) -> dict[str, object]:
    return {"scope": scope, "conversation": conversation or ""}


def queued_message(row: Sequence[Any]) -> QueuedMessage:
    """Decode the id, role, content and time of a queued message."""
    its_id, role, content, timestamp = row
    return QueuedMessage(id=its_id, message=Message(role=role, content=content, timestamp=moment(timestamp)))
