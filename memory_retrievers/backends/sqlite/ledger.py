"""The ledger: records, passages, vectors and pending reviews in one SQLite file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_retrievers.backends.sqlite import contents, records, reembedding, removal, reviews, verification
from memory_retrievers.backends.sqlite.characters import SQLiteCharacters
from memory_retrievers.backends.sqlite.conversations import SQLiteConversations
from memory_retrievers.backends.sqlite.database import Database, one
from memory_retrievers.backends.sqlite.eligibility import Eligibility
from memory_retrievers.backends.sqlite.management import SQLiteManagement
from memory_retrievers.backends.sqlite.outbox import SQLiteOutbox
from memory_retrievers.backends.sqlite.rows import encode_time
from memory_retrievers.backends.sqlite.stored import StoredRecords
from memory_retrievers.contents import Contents, VerificationReport
from memory_retrievers.models import AnyMemory, Kind
from memory_retrievers.passages import ForgettingState, Layout, NewPassage, Passage, Selection
from memory_retrievers.retrieved import PendingReview

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from memory_retrievers.passages import Vectors

_IDS: Final = "(SELECT value FROM json_each(:ids))"
_OF_ID: Final = "(:id IS NULL OR m.id = :id)"


class SQLiteLedger(StoredRecords):
    """A ``protocols.Ledger`` on SQLite.

    Args:
        path: The file, made if it is missing; None keeps everything in memory.
        read_only: Only look into a file that exists.

    Raises:
        ConfigurationError: The file was written by a newer version of the package.
        BackendError: The file is not a SQLite database, or cannot be opened.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        super().__init__(Database(path, read_only=read_only))
        self.outbox = SQLiteOutbox(self.database)
        self.conversations = SQLiteConversations(self.database)
        self.characters = SQLiteCharacters(self.database)
        self.management = SQLiteManagement(self.database)
        self.new_vectors = reembedding.SQLiteNewVectors(self.database)
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
                row = records.insert_memory(connection, memory)
                stored += self._insert_passages(connection, memory, row, its_passages)
        return stored

    def _insert_passages(
        self, connection: sqlite3.Connection, memory: AnyMemory, row: int, passages: Sequence[NewPassage]
    ) -> list[Passage]:
        return [
            records.insert_passage(connection, memory, row, passage, id=self._next_passage_id(connection))
            for passage in passages
        ]

    def _next_passage_id(self, connection: sqlite3.Connection) -> int:
        # A transaction that fails takes the table's own counter back; whoever read within it may remember the ids.
        last = one(connection, "SELECT seq FROM sqlite_sequence WHERE name = 'passages'") or 0
        self._last_passage = max(self._last_passage, last) + 1
        return self._last_passage

    def invalidate(self, *, scope: str, id: str, at: datetime, replaced_by: str | None = None) -> None:
        """See ``protocols.Ledger``."""
        with self.database.write() as connection:
            connection.execute(
                """UPDATE memories SET invalid_at = ?, updated_at = ?, replaced_by = ?
                WHERE scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ? AND kind = 'semantic'
                AND invalid_at IS NULL""",
                (encode_time(at), encode_time(at), replaced_by, scope, id),
            )

    def replace(self, memory: AnyMemory, passages: Sequence[NewPassage] = ()) -> list[Passage]:
        """See ``protocols.Ledger``."""
        with self.database.write() as connection:
            row = records.overwrite_memory(connection, memory)
            return self._put_passages(connection, memory, row, passages)

    def put_passages(self, memory: AnyMemory, passages: Sequence[NewPassage]) -> list[Passage]:
        """See ``protocols.Ledger``."""
        with self.database.write() as connection:
            return self._put_passages(connection, memory, records.row_of(connection, memory), passages)

    def _put_passages(
        self, connection: sqlite3.Connection, memory: AnyMemory, row: int, passages: Sequence[NewPassage]
    ) -> list[Passage]:
        replaced = [(row, passage.part) for passage in passages]
        connection.executemany("DELETE FROM passages WHERE memory = ? AND part = ?", replaced)
        return self._insert_passages(connection, memory, row, passages)

    def remove_passages(self, passages: Sequence[int]) -> None:
        """See ``protocols.Ledger``."""
        with self.database.write() as connection:
            connection.execute(f"DELETE FROM passages WHERE id IN {_IDS}", {"ids": json.dumps(passages)})

    def remove(self, *, scope: str, id: str) -> bool:
        """See ``protocols.Ledger``."""
        with self.database.write() as connection:
            return removal.remove(connection, scope=scope, id=id)

    def remove_scope(self, scope: str, *, include_child_scopes: bool) -> int:
        """See ``protocols.Ledger``."""
        with self.database.write() as connection:
            return removal.remove_scope(connection, scope, include_child_scopes=include_child_scopes)

    def purge(self) -> None:
        """See ``protocols.Ledger``."""
        with self.database.write() as connection:
            removal.sweep(connection)
        self.database.compact()

    def backup(self, file: Path) -> None:
        """See ``protocols.Ledger``."""
        self.database.copy_to(file)

    def eligible(self, selection: Selection, *, among: Sequence[int] | None = None) -> list[int]:
        """See ``protocols.Ledger``."""
        return self._eligibility.eligible(selection, among=among)

    def size(self, selection: Selection, *, at_most: int) -> int:
        """See ``protocols.Ledger``."""
        return self._eligibility.size(selection, at_most=at_most)

    def layout(self, selection: Selection, *, memories: Sequence[int] | None = None) -> Layout:
        """See ``protocols.Ledger``."""
        return self._eligibility.layout(selection, memories=memories)

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

    def passages_of(self, scope: str, *, id: str | None = None, include_child_scopes: bool = False) -> list[Passage]:
        """See ``protocols.Ledger``."""
        one_memory = id is not None and not include_child_scopes
        # Said as plainly as can be, so that one memory is found without a look at any other.
        which = "s.scope = :scope AND m.id = :id" if one_memory else f"{removal.SCOPE_AND_CHILDREN} AND {_OF_ID}"
        with self.database.read() as connection:
            found = connection.execute(
                f"""SELECT p.id, p.memory, s.scope, m.kind, p.part, c.text
                FROM scopes s JOIN memories m ON m.scope_id = s.id
                JOIN passages p ON p.memory = m.row JOIN passage_contents c ON c.passage = p.id
                WHERE {which} ORDER BY p.id""",
                {"id": id, **removal.scope_values(scope, include_child_scopes=include_child_scopes)},
            )
            return [
                Passage(id=passage, memory=memory, scope=its_scope, kind=Kind(kind), part=part, text=text)
                for passage, memory, its_scope, kind, part, text in found
            ]

    def forgetting_states(self, rows: Sequence[int]) -> dict[int, ForgettingState]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            found = connection.execute(
                f"""SELECT row, stability, last_reviewed_at FROM memories
                WHERE row IN {_IDS} AND kind = 'episodic' AND NOT is_flashbulb""",
                {"ids": json.dumps(rows)},
            )
            return {row: ForgettingState(stability, reviewed) for row, stability, reviewed in found}

    def notes(self) -> dict[str, str]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            return dict(connection.execute("SELECT name, value FROM notes").fetchall())

    def write_notes(self, notes: Mapping[str, str]) -> None:
        """See ``protocols.Ledger``."""
        with self.database.write() as connection:
            connection.executemany("INSERT OR REPLACE INTO notes VALUES (?, ?)", notes.items())

    def add_pending_reviews(self, pending: Sequence[PendingReview], *, merge: bool = True) -> None:
        """See ``protocols.Ledger``."""
        with self.database.write() as connection:
            for review in pending:
                reviews.insert(connection, review, scope_id=records.scope_id_of(connection, review.scope), merge=merge)

    def pending_reviews(self, scope: str) -> list[PendingReview]:
        """See ``protocols.Ledger``."""
        with self.database.read() as connection:
            return reviews.read(connection, scope)

    def contents(self, scope: str | None = None) -> AbstractContextManager[Contents]:
        """See ``protocols.Ledger``."""
        return self._contents(scope)

    @contextmanager
    def _contents(self, scope: str | None) -> Iterator[Contents]:
        with self.database.read(snapshot=True) as connection:
            yield contents.read_contents(connection, scope)

    def verify(self) -> VerificationReport:
        """See ``protocols.Ledger``."""
        return verification.verify(self.database)

    def close(self) -> None:
        """See ``protocols.Ledger``."""
        self.database.close()
