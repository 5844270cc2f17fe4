"""The ledger: records, passages, vectors and pending reviews in the tables of a database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from memory_retrievers.backends.sql import contents, removal, sync, verification
from memory_retrievers.backends.sql import selection as where
from memory_retrievers.backends.sql.characters import SQLCharacters
from memory_retrievers.backends.sql.connection import OF_SCOPE, Connection, Database, Part, Whole, scope_id_of
from memory_retrievers.backends.sql.conversations import DROP_EMPTY_QUEUES, FREE, SQLConversations
from memory_retrievers.backends.sql.events import SQLEvents
from memory_retrievers.backends.sql.facts import SQLFacts
from memory_retrievers.backends.sql.items import SQLItems
from memory_retrievers.backends.sql.management import SQLManagement
from memory_retrievers.backends.sql.memories import PUT_NOTE, StoredRecords
from memory_retrievers.backends.sql.overview import SQLOverview
from memory_retrievers.backends.sql.passages import StoredPassages
from memory_retrievers.backends.sql.removal import forget_empty_scopes
from memory_retrievers.backends.sql.requests import ADD_NOTE, SQLRequests
from memory_retrievers.backends.sql.rows import BELOW, below
from memory_retrievers.backends.sql.snapshots import Snapshots, state_of
from memory_retrievers.models import Kind, MemoryKey, scopes
from memory_retrievers.models.contents import Contents, VerificationReport
from memory_retrievers.models.fields import moment
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import PendingReview
from memory_retrievers.models.selection import Embedded, Passage, Selection
from memory_retrievers.models.storage import OpenMessage, OpenPlace

_OF_ID: Final = "(CAST(:id AS TEXT) IS NULL OR m.id = :id)"


class SQLLedger(StoredRecords, StoredPassages):
    """Storage of memories, passages with vectors, and pending reviews.

    All methods are safe to call from several threads. Writes are durable once the outermost transaction ends.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.outbox = sync.SQLOutbox(self.database)
        self.adopted = sync.SQLAdoptedRows(self.database)
        self.conversations = SQLConversations(self.database)
        self.open_episodes = SQLOpenEpisodes(self.database)
        self.characters = SQLCharacters(self.database)
        self.management = SQLManagement(self.database)
        self.facts = SQLFacts(self.database)
        self.events = SQLEvents(self.database)
        self.items = SQLItems(self.database)
        self.requests = SQLRequests(self.database)
        self.overview = SQLOverview(self.database)
        self.new_vectors = sync.SQLNewVectors(self.database)
        self.snapshots = Snapshots(self)

    def remove(self, keys: Sequence[MemoryKey]) -> int:
        """Delete memories and every trace of them; returns how many existed.

        Their ids are removed from the ``source_episodic_ids`` and ``consolidated_from`` of their scope, from the
        knowledge of characters, and from all pending reviews. A review without memories is deleted, and so are the
        characters of a scope without scenes.
        """
        with self.database.write(*{each for key in keys for each in scopes.lineage(key.scope)}) as connection:
            return removal.remove_all(connection, keys)

    def remove_scope(self, scope: str, *, include_child_scopes: bool) -> int:
        """Delete everything in a scope, its queue and its name; returns the number of memories."""
        values = below(scope, include_child_scopes=include_child_scopes)
        within = f"scope_id IN (SELECT id FROM scopes WHERE {BELOW})"

        def is_gone(key: MemoryKey) -> bool:
            return key.scope == scope or (include_child_scopes and scopes.is_within(scope, key.scope))

        with self.database.write() as connection:
            removed = connection.execute(f"DELETE FROM memories WHERE {within}", values).rowcount
            for table in ("pending_reviews", "review_jobs", "queued_messages", "queues", "characters"):
                connection.execute(f"DELETE FROM {table} WHERE {within}", values)
            removal.strike_out(connection, scope, is_gone)
            forget_empty_scopes(connection, scope, include_child_scopes=include_child_scopes)
            return removed

    def purge(self) -> None:
        """Erase every byte of removed data from all files."""
        with self.database.write() as connection:
            removal.sweep(connection)
        self.database.compact()

    def size(self, selection: Selection, *, at_most: int) -> int:
        """Count the passages that match the selection; if there are more than ``at_most``, any number above it."""
        seen = None if selection.needs_ledger else self.snapshots.seen(selection)
        if seen is not None:
            return int(np.count_nonzero(seen[1]))
        sql = f"SELECT count(*) FROM (SELECT 1 {where.seen(self.dialect, selection)} LIMIT :more) AS seen"
        return int(self.value(sql, {**where.parameters(self.dialect, selection), "more": at_most + 1}))

    def passages_of(self, scope: str, *, id: str | None = None, include_child_scopes: bool = False) -> list[Passage]:
        """List the passages of a scope, or of one memory, whatever their state, by ascending id.

        Args:
            scope: The scope.
            id: Only passages of this memory; None lists all.
            include_child_scopes: Include the scopes below ``scope``.
        """
        one_memory = id is not None and not include_child_scopes
        # Said as plainly as can be, so that one memory is found without a look at any other.
        which = "s.scope = :scope AND m.id = :id" if one_memory else f"{BELOW} AND {_OF_ID}"
        found = self.query(
            f"""SELECT p.id, p.memory, s.scope, m.kind, p.part, c.text
            FROM scopes s JOIN memories m ON m.scope_id = s.id
            JOIN passages p ON p.memory = m.row {self.dialect.beside("p", "m")}
            JOIN passage_contents c ON c.passage = p.id {self.dialect.beside("c", "p")}
            WHERE {which} ORDER BY p.id""",
            {"id": id, **below(scope, include_child_scopes=include_child_scopes)},
        )
        return [
            Passage(id=passage, memory=memory, scope=its_scope, kind=Kind(kind), part=part, text=text)
            for passage, memory, its_scope, kind, part, text in found
        ]

    def write_notes(self, notes: Mapping[str, str], *, replace: bool = True) -> None:
        """Write store metadata, values by name.

        Without ``replace`` existing ones are kept, even if another transaction writes one meanwhile and ends first.
        """
        with self.database.write() as connection:
            connection.executemany(PUT_NOTE if replace else ADD_NOTE, list(notes.items()))

    def add_pending_reviews(self, pending: Sequence[PendingReview], *, merge: bool = True) -> None:
        """Record retrievals for later review.

        The same query with the same memories within 60 s counts once, and a scope keeps its newest 200, unless
        ``merge`` is False, as for reviews imported from another store.
        """
        with self.database.write(*{review.scope for review in pending}) as connection:
            for scope in sorted({review.scope for review in pending}):
                reviews = [review for review in pending if review.scope == scope]
                removal.insert(connection, reviews, scope_id=scope_id_of(connection, scope), merge=merge)

    def pending_reviews(self, scope: str) -> list[PendingReview]:
        """List the scope's pending reviews, oldest first."""
        with self.database.read() as connection:
            return list(removal.read(Whole.of(connection, scope)))

    @contextmanager
    def contents(self, scope: str | None = None) -> Iterator[Contents]:
        """Read everything in a scope and those below it, or in all, as of the moment of entering."""
        with self.database.read(snapshot=True) as connection:
            found = contents.read_contents(connection, scope)
            if not any(found.counts.values()):
                self.database.require_sight(connection)
            yield found

    def verify(self) -> VerificationReport:
        """Check all memories, passages and vectors; problems are listed in the report."""
        return verification.verify(self.database)

    def close(self) -> None:
        """Release all resources; further calls do nothing."""
        self.snapshots.close()
        self.database.close()


class SQLOpenEpisodes(Part):
    """Queued messages, by the number of their row, which is never used again."""

    def places(self, scope: str, *, include_child_scopes: bool = False) -> list[OpenPlace]:
        """List what is queued in a scope, conversation by conversation, in the order it came."""
        with self.database.read() as connection:
            return state_of(connection, scope, include_child_scopes=include_child_scopes).queued

    def unembedded(self, *, after: int, limit: int) -> list[int]:
        """List the rows of the first messages behind a row that have no vector yet, of all scopes."""
        return self.column(
            "SELECT row FROM queued_messages WHERE vector IS NULL AND row > ? ORDER BY row LIMIT ?", (after, limit)
        )

    def first(self, scope: str, conversation: str | None, *, limit: int) -> list[int]:
        """List the rows of the first messages of a conversation, however many others wait in its scope.

        Args:
            scope: Scope of the conversation.
            conversation: The conversation.
            limit: Maximum number of messages.
        """
        return self.column(
            f"""SELECT row FROM queued_messages WHERE {OF_SCOPE} AND conversation = :conversation
            ORDER BY row LIMIT :limit""",
            {"scope": scope, "conversation": conversation or "", "limit": limit},
        )

    def read(self, rows: Sequence[int], *, with_vectors: bool = False) -> list[OpenMessage]:
        """Read messages by their rows, ascending; those that are queued no more are left out."""
        if not rows:
            return []
        dialect = self.dialect
        found = self.query(
            f"""SELECT m.row, s.scope, m.conversation, m.id, m.role, m.content, m.timestamp,
            {"m.vector, m.tokens" if with_vectors else "NULL, NULL"}
            FROM queued_messages m JOIN scopes s ON s.id = m.scope_id
            WHERE {dialect.among("m.row", ":ids")} ORDER BY m.row""",
            {"ids": dialect.listed(rows)},
        )
        return [
            OpenMessage(
                row=row,
                scope=scope,
                conversation=conversation or None,
                id=its_id,
                message=Message.trusted({"role": role, "content": content, "timestamp": moment(timestamp)}),
                embedded=None if vector is None else Embedded(dialect.stacked([vector])[0], tokens),
            )
            for row, scope, conversation, its_id, role, content, timestamp, vector, tokens in found
        ]

    def keep_vectors(self, scopes: Sequence[str], vectors: Mapping[int, Embedded]) -> None:
        """Store the vectors of messages by row; of those that are queued no more nothing is stored."""
        with self.database.write(*scopes) as connection:
            connection.executemany(
                f"UPDATE queued_messages SET vector = {self.dialect.vector_value}, tokens = ? WHERE row = ?",
                [(self.dialect.vector(each.vector), each.tokens, row) for row, each in vectors.items()],
            )

    def forget_vectors(self) -> None:
        """Delete all vectors, because another embedder takes over."""
        with self.database.write() as connection:
            connection.execute("UPDATE queued_messages SET vector = NULL, tokens = NULL WHERE vector IS NOT NULL")

    def forget(self, scope: str, conversation: str | None, *, had_episodes: bool = False) -> None:
        """Delete the queued messages of a conversation and the lease of whoever works on them, and waiting reviews.

        Reviews of the scope go, and those of the scopes above if the conversation had episodes or queued messages.
        """
        key = {"scope": scope, "conversation": conversation or ""}
        with self.database.write(scope) as connection:
            which, tables = f"WHERE {OF_SCOPE} AND conversation = :conversation", ("queued_messages", "queues")
            gone = sum(connection.execute(f"DELETE FROM {table} {which}", key).rowcount for table in tables)
            _forget_reviews(connection, scopes.lineage(scope) if gone or had_episodes else [scope])

    def forget_messages(self, scope: str, rows: Sequence[int]) -> None:
        """Delete queued messages of a scope, the leases of whoever may have read what is forgotten, and its reviews."""
        with self.database.write(scope) as connection:
            connection.executemany("DELETE FROM queued_messages WHERE row = ?", [(row,) for row in rows])
            connection.execute(f"{FREE} WHERE {OF_SCOPE}", {"scope": scope})
            connection.execute(DROP_EMPTY_QUEUES, {"scope": scope})
            _forget_reviews(connection, scopes.lineage(scope))  # one above is searched with its children


def _forget_reviews(connection: Connection, searched: Sequence[str]) -> None:
    """Delete what waits for review in scopes, where questions tell what was said, and scopes left empty."""
    dialect = connection.dialect
    filed = f"scope_id IN (SELECT id FROM scopes WHERE {dialect.among('scope', ':scopes')})"
    for table in ("pending_reviews", "review_jobs"):
        connection.execute(f"DELETE FROM {table} WHERE {filed}", {"scopes": dialect.listed(searched)})
    for each in searched:
        forget_empty_scopes(connection, each)
