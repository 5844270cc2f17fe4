"""The outbox of changes for Chroma, the rows of an adopted collection, and vectors of a new embedder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import starmap
from typing import Any, Final

from memory_retrievers.backends.sql.connection import Connection, Part, one
from memory_retrievers.backends.sql.memories import PUT_NOTE
from memory_retrievers.errors import BackendError
from memory_retrievers.models.selection import ProjectedPassage, Vectors
from memory_retrievers.models.storage import (
    HELD_UNTIL,
    AdoptedRow,
    OutboxBatch,
    ProjectionState,
    UnembeddedPassage,
    Unwritten,
)

_PASSAGES: Final = """
    SELECT p.id, m.id, s.scope, m.kind, p.part, m.origin, m.created_at, m.category, m.tier, m.expires_at,
        c.text, c.vector
    FROM passages p JOIN memories m ON m.row = p.memory JOIN scopes s ON s.id = m.scope_id
    JOIN passage_contents c ON c.passage = p.id
    WHERE m.invalid_at IS NULL AND
"""
_SETTLED: Final = "p.id <= (SELECT mark FROM projection) AND p.id NOT IN (SELECT passage FROM outbox)"


class SQLOutbox(Part):
    """Tracks which passages a projection of the ledger lacks, and which have changed or been removed since it was fed.

    Passages of invalidated facts are in no projection; those of expired memories are, with the moment they expire.
    """

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the exclusive right, across processes, to feed a projection: for one batch, or a restart."""
        with self.database.alone("feeding", waits=True) as is_alone:
            if not is_alone:
                raise BackendError("another process is still updating the Chroma index: try again later")
            yield

    def begin(self, generation: str | None) -> None:
        """Start feeding a projection of this name from scratch; None feeds none."""
        with self.database.write() as connection:
            connection.execute("UPDATE projection SET generation = ?, mark = 0, claimed = 0", (generation,))
            connection.execute("DELETE FROM outbox")

    def state(self) -> ProjectionState:
        """Return a consistent view of the projection's progress."""
        with self.database.read(snapshot=True) as connection:
            generation, mark = connection.execute("SELECT generation, mark FROM projection").fetchone()
            projected = one(
                connection,
                """SELECT count(*) FROM passages p JOIN memories m ON m.row = p.memory
                WHERE m.invalid_at IS NULL AND p.id <= ?""",
                (mark,),
            )
            changed = one(connection, "SELECT count(*) FROM outbox")
        return ProjectionState(generation=generation, projected=projected, changed=changed)

    def batch(self, *, limit: int) -> OutboxBatch | None:
        """Return up to ``limit`` waiting passages, or None; the same batch is returned until it is acknowledged."""
        if not self.waiting(at_most=0):
            return None
        with self.database.write() as connection:
            changes = connection.execute("SELECT id, passage FROM outbox ORDER BY id LIMIT ?", (limit,)).fetchall()
            generation, mark = connection.execute("SELECT generation, mark FROM projection").fetchone()
            behind = "SELECT id FROM passages WHERE id > ? ORDER BY id LIMIT ?"
            new = [int(passage) for (passage,) in connection.execute(behind, (mark, limit - len(changes)))]
            last = new[-1] if new else mark
            # From here on a change of these passages is listed, even before the batch is acknowledged; and still of
            # those that an earlier batch may have brought there before its process died.
            connection.execute(f"UPDATE projection SET claimed = {connection.dialect.greatest}(claimed, ?)", (last,))
            changed = {int(passage) for _, passage in changes}
            which = f"{self.dialect.among('p.id', ':ids')} ORDER BY p.id"
            put = _read(connection, which, {"ids": self.dialect.listed([*changed, *new])})
        return OutboxBatch(
            generation=generation,
            put=tuple(put),
            remove=tuple(sorted(changed - {passage.id for passage in put})),
            mark=last,
            last_change=changes[-1][0] if changes else 0,
        )

    def acknowledge(self, batch: OutboxBatch) -> None:
        """Mark a batch as carried out; a batch for another projection is ignored."""
        with self.database.write() as connection:
            of_generation = "generation IS NULL" if batch.generation is None else "generation = :generation"
            fed = connection.execute(
                f"UPDATE projection SET mark = :mark WHERE {of_generation}",
                {"mark": batch.mark, "generation": batch.generation},
            )
            if fed.rowcount:
                connection.execute("DELETE FROM outbox WHERE id <= ?", (batch.last_change,))

    def waiting(self, *, at_most: int) -> list[int]:
        """List passages about which a projection may be wrong; if there are more than ``at_most``, only some more."""
        return self.column(
            """SELECT passage FROM (SELECT passage FROM outbox LIMIT :some) AS changed
            UNION SELECT id FROM
            (SELECT id FROM passages WHERE id > (SELECT mark FROM projection) LIMIT :some) AS new""",
            {"some": at_most + 1},
        )

    def projected(self, *, after: int, limit: int) -> list[ProjectedPassage]:
        """List what a projection should hold by now, by ascending id, without waiting passages."""
        with self.database.read() as connection:
            page = f"p.id > :after AND {_SETTLED} ORDER BY p.id LIMIT :limit"
            return _read(connection, page, {"after": after, "limit": limit})

    def missing(self, passages: Sequence[int]) -> list[int]:
        """Return the given passages that a projection should not hold and whose removal is not waiting."""
        dialect = self.dialect
        return self.column(
            f"""SELECT each.value FROM {dialect.each(":passages")}
            WHERE NOT EXISTS (SELECT 1 FROM outbox WHERE passage = each.value)
            AND each.value <= (SELECT mark FROM projection)
            AND NOT EXISTS (SELECT 1 FROM passages p JOIN memories m ON m.row = p.memory {dialect.beside("m", "p")}
                WHERE p.id = each.value AND m.invalid_at IS NULL)""",
            {"passages": dialect.listed(passages)},
        )


def _read(connection: Connection, condition: str, values: dict[str, Any]) -> list[ProjectedPassage]:
    rows = connection.execute(_PASSAGES + condition, values)
    stacked = connection.dialect.stacked
    return list(starmap(ProjectedPassage, ((*fields, stacked([vector])[0]) for *fields, vector in rows)))


class SQLAdoptedRows(Part):
    """Mapping between memories and the rows of a Chroma collection; a row is deleted with its memory."""

    @contextmanager
    def quiet_transaction(self) -> Iterator[None]:
        """Open a transaction whose changes came from the collection and are not written back to it."""
        with self.database.write() as connection:
            before = one(connection, "SELECT max(id) FROM unwritten") or 0
            yield
            connection.execute("DELETE FROM unwritten WHERE id > ?", (before,))

    def note(self, rows: Mapping[str, AdoptedRow]) -> None:
        """Store rows by their ids in the collection, replacing known ones."""
        with self.database.write() as connection:
            connection.executemany(
                """INSERT INTO adopted (id, memory, digest) VALUES (?, ?, ?)
                ON CONFLICT (id) DO UPDATE SET memory = excluded.memory, digest = excluded.digest""",
                [(there, row.memory, row.digest) for there, row in rows.items()],
            )

    def known(self, ids: Sequence[str]) -> dict[str, AdoptedRow]:
        """Return the known rows among the given ids."""
        sql = f"SELECT id, memory, digest FROM adopted WHERE {self.dialect.among('id', ':ids')}"
        found = self.query(sql, {"ids": self.dialect.listed(ids)})
        return {there: AdoptedRow(*known) for there, *known in found}

    def ids_of(self, memories: Sequence[int]) -> dict[int, str]:
        """Return the collection ids of the given memories that have one."""
        sql = f"SELECT memory, id FROM adopted WHERE {self.dialect.among('memory', ':memories')}"
        return dict(self.query(sql, {"memories": self.dialect.listed(memories)}))

    def page(self, *, after: str, limit: int) -> list[str]:
        """List the known ids after a given one, in order; the empty string starts from the beginning."""
        return self.column("SELECT id FROM adopted WHERE id > ? ORDER BY id LIMIT ?", (after, limit))

    def count(self) -> int:
        """Count the known rows."""
        return int(self.value("SELECT count(*) FROM adopted"))

    def unwritten(self, *, limit: int) -> Unwritten | None:
        """Return the oldest changes that have not been written to the collection; None if there are none."""
        changes = self.query("SELECT id, memory, gone FROM unwritten ORDER BY id LIMIT ?", (limit,))
        if not changes:
            return None
        return Unwritten(
            last=changes[-1][0],
            memories=tuple(dict.fromkeys(memory for _, memory, _ in changes if memory is not None)),
            gone=tuple(dict.fromkeys(gone for *_, gone in changes if gone is not None)),
        )

    def settle(self, *, last: int) -> None:
        """Mark the changes up to this one as written to the collection."""
        with self.database.write() as connection:
            connection.execute("DELETE FROM unwritten WHERE id <= ?", (last,))


_NOTE: Final = "reembedding"

_MISSING: Final = """
    SELECT p.id, m.row, p.part, c.text FROM passages p JOIN memories m ON m.row = p.memory
    JOIN passage_contents c ON c.passage = p.id
    WHERE p.id > ? AND NOT EXISTS (SELECT 1 FROM new_vectors n WHERE n.passage = p.id) ORDER BY p.id LIMIT ?
"""


class SQLNewVectors(Part):
    """New vectors, stored beside those that searches use until they replace them. They survive a restart."""

    def label(self) -> str | None:
        """Label under which vectors are gathered; None if none are."""
        label = self.value("SELECT value FROM notes WHERE name = ?", (_NOTE,))
        return None if label is None else str(label)

    def begin(self, label: str) -> None:
        """Discard gathered vectors and start gathering under this label."""
        with self.database.write() as connection:
            connection.execute("DELETE FROM new_vectors")
            connection.execute("UPDATE fact_versions SET new_vector = NULL WHERE new_vector IS NOT NULL")
            connection.execute(PUT_NOTE, (_NOTE, label))

    def missing(self, *, after: int = 0, limit: int) -> list[UnembeddedPassage]:
        """List passages above an id that have no new vector, by ascending id."""
        return [UnembeddedPassage(*row) for row in self.query(_MISSING, (after, limit))]

    def keep(self, passages: Sequence[int], vectors: Vectors, tokens: Sequence[bytes | None] | None = None) -> None:
        """Store new vectors; passages that no longer exist are left out.

        Args:
            passages: Ids of n passages.
            vectors: Their unit vectors, shape (n, d).
            tokens: The vectors of their tokens.
        """
        with self.database.write() as connection:
            dialect = connection.dialect
            columns = "scope_id, passage" if dialect.keyed_by_scope else "passage"
            connection.executemany("DELETE FROM new_vectors WHERE passage = ?", [(passage,) for passage in passages])
            connection.executemany(
                f"""INSERT INTO new_vectors ({columns}, vector, tokens)
                SELECT {columns}, {dialect.vector_value}, CAST(? AS {dialect.bytes_type})
                FROM passage_contents WHERE passage = ?""",
                [
                    (dialect.vector(vector), its_tokens, passage)
                    for passage, vector, its_tokens in zip(
                        passages, vectors, tokens or [None] * len(passages), strict=True
                    )
                ],
            )

    def counts(self) -> tuple[int, int]:
        """Return the number of passages with a new vector and the number of all passages."""
        with self.database.read(snapshot=True) as connection:
            kept = one(connection, "SELECT count(*) FROM new_vectors")
            return int(kept), int(one(connection, "SELECT count(*) FROM passage_contents"))

    def take_over(self) -> None:
        """Replace the old vectors by the new ones and stop gathering."""
        with self.database.write() as connection:
            connection.execute(
                """UPDATE passage_contents SET vector = new_vectors.vector, tokens = new_vectors.tokens FROM new_vectors
                WHERE new_vectors.passage = passage_contents.passage"""
            )
            connection.execute("DELETE FROM new_vectors")
            connection.execute(
                "UPDATE fact_versions SET vector = new_vector, new_vector = NULL WHERE new_vector IS NOT NULL"
            )
            connection.execute("DELETE FROM notes WHERE name IN (?, ?)", (_NOTE, HELD_UNTIL))
            connection.execute("UPDATE scopes SET version = version + 1")
