"""Which memories stand in a collection of the user's too, and what that collection has still to be told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from memory_retrievers.backends.sql.connection import Database, one
from memory_retrievers.protocols import AdoptedRow, Unwritten


class SQLAdoptedRows:
    """``protocols.AdoptedRows`` beside the ledger's tables.

    Args:
        database: Where the memories are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def quiet_transaction(self) -> AbstractContextManager[None]:
        """See ``protocols.AdoptedRows``."""
        return self._quiet_transaction()

    @contextmanager
    def _quiet_transaction(self) -> Iterator[None]:
        with self._database.write() as connection:
            before = one(connection, "SELECT max(id) FROM unwritten") or 0
            yield
            connection.execute("DELETE FROM unwritten WHERE id > ?", (before,))

    def note(self, rows: Mapping[str, AdoptedRow]) -> None:
        """See ``protocols.AdoptedRows``."""
        with self._database.write() as connection:
            connection.executemany(
                """INSERT INTO adopted (id, memory, digest) VALUES (?, ?, ?)
                ON CONFLICT (id) DO UPDATE SET memory = excluded.memory, digest = excluded.digest""",
                [(there, row.memory, row.digest) for there, row in rows.items()],
            )

    def known(self, ids: Sequence[str]) -> dict[str, AdoptedRow]:
        """See ``protocols.AdoptedRows``."""
        with self._database.read() as connection:
            given = connection.dialect.among("id", ":ids")
            found = connection.execute(
                f"SELECT id, memory, digest FROM adopted WHERE {given}", {"ids": connection.dialect.listed(ids)}
            )
            return {there: AdoptedRow(memory=memory, digest=digest) for there, memory, digest in found}

    def ids_of(self, memories: Sequence[int]) -> dict[int, str]:
        """See ``protocols.AdoptedRows``."""
        with self._database.read() as connection:
            given = connection.dialect.among("memory", ":memories")
            found = connection.execute(
                f"SELECT memory, id FROM adopted WHERE {given}", {"memories": connection.dialect.listed(memories)}
            )
            return dict(found.fetchall())

    def page(self, *, after: str, limit: int) -> list[str]:
        """See ``protocols.AdoptedRows``."""
        with self._database.read() as connection:
            found = connection.execute("SELECT id FROM adopted WHERE id > ? ORDER BY id LIMIT ?", (after, limit))
            return [there for (there,) in found]

    def count(self) -> int:
        """See ``protocols.AdoptedRows``."""
        with self._database.read() as connection:
            return int(one(connection, "SELECT count(*) FROM adopted"))

    def unwritten(self, *, limit: int) -> Unwritten | None:
        """See ``protocols.AdoptedRows``."""
        with self._database.read() as connection:
            changes = connection.execute(
                "SELECT id, memory, gone FROM unwritten ORDER BY id LIMIT ?", (limit,)
            ).fetchall()
        if not changes:
            return None
        return Unwritten(
            last=changes[-1][0],
            memories=tuple(dict.fromkeys(memory for _, memory, _ in changes if memory is not None)),
            gone=tuple(dict.fromkeys(gone for *_, gone in changes if gone is not None)),
        )

    def settle(self, *, last: int) -> None:
        """See ``protocols.AdoptedRows``."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM unwritten WHERE id <= ?", (last,))
