"""What a vector index outside the database has still to be told: everything above its mark, and what the outbox lists.

Triggers list a passage that has gone or changed; new passages need no entry, since their ids only rise.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from memory_retrievers.backends.sql.connection import Connection, Database, one
from memory_retrievers.passages import ProjectedPassage
from memory_retrievers.protocols import OutboxBatch, ProjectionState

_PASSAGES: Final = """
    SELECT p.id, m.id, s.scope, m.kind, p.part, m.origin, m.created_at, m.category, m.tier, m.expires_at,
        c.text, c.vector
    FROM passages p JOIN memories m ON m.row = p.memory JOIN scopes s ON s.id = m.scope_id
    JOIN passage_contents c ON c.passage = p.id
    WHERE m.invalid_at IS NULL AND
"""
_SETTLED: Final = "p.id <= (SELECT mark FROM projection) AND p.id NOT IN (SELECT passage FROM outbox)"


class SQLOutbox:
    """A ``protocols.Outbox`` beside the ledger's tables.

    Args:
        database: Where the passages are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def turn(self) -> AbstractContextManager[None]:
        """See ``protocols.Outbox``."""
        return self._database.feeding()

    def begin(self, generation: str | None) -> None:
        """See ``protocols.Outbox``."""
        with self._database.write() as connection:
            connection.execute("UPDATE projection SET generation = ?, mark = 0, claimed = 0", (generation,))
            connection.execute("DELETE FROM outbox")

    def state(self) -> ProjectionState:
        """See ``protocols.Outbox``."""
        with self._database.read(snapshot=True) as connection:
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
        """See ``protocols.Outbox``."""
        if not self.waiting(at_most=0):
            return None
        with self._database.write() as connection:
            changes = connection.execute("SELECT id, passage FROM outbox ORDER BY id LIMIT ?", (limit,)).fetchall()
            generation, mark = connection.execute("SELECT generation, mark FROM projection").fetchone()
            new = [
                int(passage)
                for (passage,) in connection.execute(
                    "SELECT id FROM passages WHERE id > ? ORDER BY id LIMIT ?", (mark, limit - len(changes))
                )
            ]
            last = new[-1] if new else mark
            # From here on a change of these passages is listed, even before the batch is acknowledged; and still of
            # those that an earlier batch may have brought there before its process died.
            connection.execute(f"UPDATE projection SET claimed = {connection.dialect.greatest}(claimed, ?)", (last,))
            changed = {int(passage) for _, passage in changes}
            dialect = connection.dialect
            put = _read(
                connection, f"{dialect.among('p.id', ':ids')} ORDER BY p.id", {"ids": dialect.listed([*changed, *new])}
            )
        return OutboxBatch(
            generation=generation,
            put=tuple(put),
            remove=tuple(sorted(changed - {passage.id for passage in put})),
            mark=last,
            last_change=changes[-1][0] if changes else 0,
        )

    def acknowledge(self, batch: OutboxBatch) -> None:
        """See ``protocols.Outbox``."""
        with self._database.write() as connection:
            of_generation = "generation IS NULL" if batch.generation is None else "generation = :generation"
            fed = connection.execute(
                f"UPDATE projection SET mark = :mark WHERE {of_generation}",
                {"mark": batch.mark, "generation": batch.generation},
            )
            if fed.rowcount:
                connection.execute("DELETE FROM outbox WHERE id <= ?", (batch.last_change,))

    def waiting(self, *, at_most: int) -> list[int]:
        """See ``protocols.Outbox``."""
        with self._database.read() as connection:
            found = connection.execute(
                """SELECT passage FROM (SELECT passage FROM outbox LIMIT :some) AS changed
                UNION SELECT id FROM
                (SELECT id FROM passages WHERE id > (SELECT mark FROM projection) LIMIT :some) AS new""",
                {"some": at_most + 1},
            )
            return [int(passage) for (passage,) in found]

    def projected(self, *, after: int, limit: int) -> list[ProjectedPassage]:
        """See ``protocols.Outbox``."""
        with self._database.read() as connection:
            page = f"p.id > :after AND {_SETTLED} ORDER BY p.id LIMIT :limit"
            return _read(connection, page, {"after": after, "limit": limit})

    def missing(self, passages: Sequence[int]) -> list[int]:
        """See ``protocols.Outbox``."""
        with self._database.read() as connection:
            dialect = connection.dialect
            found = connection.execute(
                f"""SELECT each.value FROM {dialect.each(":passages")}
                WHERE NOT EXISTS (SELECT 1 FROM outbox WHERE passage = each.value)
                AND each.value <= (SELECT mark FROM projection)
                AND NOT EXISTS (SELECT 1 FROM passages p JOIN memories m ON m.row = p.memory {dialect.beside("m", "p")}
                    WHERE p.id = each.value AND m.invalid_at IS NULL)""",
                {"passages": dialect.listed(passages)},
            )
            return [int(passage) for (passage,) in found]


def _read(connection: Connection, condition: str, values: dict[str, Any]) -> list[ProjectedPassage]:
    return [
        ProjectedPassage(
            id=passage,
            memory_id=memory_id,
            scope=scope,
            kind=kind,
            part=part,
            origin=origin,
            created_at=created_at,
            category=category,
            tier=tier,
            expires_at=expires_at,
            text=text,
            vector=connection.dialect.stacked([vector])[0],
        )
        for (
            passage, memory_id, scope, kind, part, origin, created_at, category, tier, expires_at, text, vector,
        ) in connection.execute(_PASSAGES + condition, values)
    ]  # fmt: skip
