"""Reads passages: those a selection lets through, their texts, vectors and postings, and what has changed of them.

The table ``changes`` is filled by triggers, whoever writes, and bounded; who is further behind compares all that is
there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.backends.snapshot import COLUMNS, NEVER, ORIGINS, UNKNOWN, Passages, category_code, laid_out
from memory_retrievers.backends.sql import selection as where
from memory_retrievers.backends.sql.connection import OF_SCOPE, Connection, Dialect, Part
from memory_retrievers.backends.terms import Postings
from memory_retrievers.models.selection import TOKEN_CHARACTERS, TURN, WHOLE, Layout, Selection, Vectors
from memory_retrievers.models.storage import UnembeddedPassage


class StoredPassages(Part):
    """The part of the ledger that reads passages."""

    def eligible(self, selection: Selection, *, among: Sequence[int] | None = None) -> list[int]:
        """List the ids of all passages that match the selection, optionally only of the given ones, ascending."""
        dialect, values = self.dialect, where.parameters(self.dialect, selection)
        if among is None:
            return sorted(self.column(f"SELECT p.id {where.seen(dialect, selection)}", values))
        found = self.column(
            f"""SELECT p.id FROM {dialect.each(":among")} {dialect.in_order} passages p ON p.id = each.value
            JOIN memories m ON m.row = p.memory {dialect.beside("m", "p")}
            WHERE {where.searched(selection)} AND {where.where(dialect, selection)}""",
            values | {"among": dialect.listed(among)},
        )
        return sorted(found)

    def matching(self, selection: Selection) -> list[int]:
        """List the rows of all memories that match the selection, in any order; their passages are not looked at."""
        return self.column(
            f"""SELECT m.row FROM memories m {self.dialect.indexed_by(where.index(selection))}
            WHERE {where.where(self.dialect, selection)}""",
            where.parameters(self.dialect, selection),
        )

    def layout(self, selection: Selection, *, memories: Sequence[int] | None = None) -> Layout:
        """Return how the matching passages belong together, optionally only those of the given memory rows."""
        dialect, values = self.dialect, where.parameters(self.dialect, selection)
        if memories is None:
            seen = where.seen(dialect, selection)
        else:
            values["memories"] = dialect.listed(sorted(set(memories)))
            seen = f"""FROM {dialect.each(":memories")} {dialect.in_order} memories m ON m.row = each.value
                JOIN passages p ON p.memory = m.row {dialect.beside("p", "m")}
                WHERE {where.searched(selection)} AND {where.where(dialect, selection)}"""
        read = _as_passages(self.query(f"SELECT {_COLUMNS} {seen}", values))
        order = np.lexsort([read.columns[name] for name in ("ids", "places", "memories")])
        return laid_out({name: column[order] for name, column in read.columns.items()}, read.names)

    def vectors(self, passages: Sequence[int]) -> tuple[list[int], Vectors]:
        """Read the ids, ascending, and vectors, shape (n, d), of those n of the given passages that exist."""
        which = self.dialect.among("passage", ":ids")
        sql = f"SELECT passage, vector FROM passage_contents WHERE {which} ORDER BY passage"
        rows = self.query(sql, {"ids": self.dialect.listed(passages)})
        return [passage for passage, _ in rows], self.dialect.stacked([vector for _, vector in rows])

    def tokens(self, passages: Sequence[int]) -> dict[int, tuple[bytes | None, str]]:
        """Read the token vectors of those of the given passages that exist, None where nobody has made them.

        With them comes as much of each text as they may be of.
        """
        which = self.dialect.among("passage", ":ids")
        sql = f"SELECT passage, tokens, substr(text, 1, {TOKEN_CHARACTERS}) FROM passage_contents WHERE {which}"
        found = self.query(sql, {"ids": self.dialect.listed(passages)})
        return {passage: (tokens, text) for passage, tokens, text in found}

    def without_tokens(self, *, after: int, limit: int) -> list[UnembeddedPassage]:
        """List passages above an id that have no token vectors, by ascending id."""
        found = self.query(
            """SELECT p.id, p.memory, p.part, c.text FROM passages p JOIN passage_contents c ON c.passage = p.id
            WHERE p.id > ? AND c.tokens IS NULL ORDER BY p.id LIMIT ?""",
            (after, limit),
        )
        return [UnembeddedPassage(*row) for row in found]

    def keep_tokens(self, tokens: Mapping[int, bytes]) -> None:
        """Store the token vectors of passages that have none; those that no longer exist are left out."""
        with self.database.write() as connection:
            connection.executemany(
                "UPDATE passage_contents SET tokens = ? WHERE passage = ? AND tokens IS NULL",
                [(its_tokens, passage) for passage, its_tokens in tokens.items()],
            )

    def texts(self, passages: Sequence[int]) -> dict[int, str]:
        """Read the texts of those of the given passages that exist."""
        return self._mapping("passage", "text", "passage_contents", passages)

    def valid_from(self, rows: Sequence[int]) -> dict[int, int]:
        """Since when those of the given memories that are facts hold, in microseconds since 1970."""
        found = self._mapping("row", "valid_at", "memories", rows)
        return {row: since for row, since in found.items() if since is not None}

    def owners(self, passages: Sequence[int]) -> dict[int, int]:
        """Map existing passages to the rows of their memories. The mapping never changes."""
        return self._mapping("id", "memory", "passages", passages)

    def columns(
        self,
        selection: Selection,
        *,
        memories: Sequence[int] | None = None,
        with_vectors: bool = False,
        with_texts: bool = False,
        limit: int | None = None,
    ) -> Passages:
        """Read the passages of a selection's scope and fields, whatever their state, as columns of a snapshot.

        Args:
            selection: Scope and fields.
            memories: Rows of the memories whose passages are read; None reads all.
            with_vectors: Also read their vectors.
            with_texts: And beside these their texts.
            limit: Maximum number of passages.
        """
        dialect, values = self.dialect, where.parameters(self.dialect, selection)
        if memories is None:
            tables = f"""memories m {dialect.indexed_by("memories_by_state")} {dialect.in_order} passages p
                ON p.memory = m.row {dialect.beside("p", "m")}"""
        else:
            tables = f"""{dialect.each(":memories")} {dialect.in_order} memories m ON m.row = each.value
                JOIN passages p ON p.memory = m.row {dialect.beside("p", "m")}"""
            values["memories"] = dialect.listed(memories)
        if with_vectors:
            tables += f" JOIN passage_contents c ON c.passage = p.id {dialect.beside('c', 'p')}"
        more = f"{', c.vector' if with_vectors else ''}{', c.text' if with_texts else ''}"
        rows = self.query(
            f"""SELECT {_COLUMNS}{more}
            FROM {tables} WHERE {where.in_scope(selection)} AND {where.searched(selection)}
            {"" if limit is None else f"LIMIT {limit}"}""",
            values,
        )
        return _as_passages(rows)

    def postings(self, selection: Selection) -> Postings:
        """Read all postings of the selection's scope and fields, by term; joined texts are the fastest way."""
        lists = f"{self.dialect.gathered('passage')}, {self.dialect.gathered('frequency')}"
        within = in_scope(self.dialect, selection)
        sql = f"SELECT term, count(*), {lists} FROM postings WHERE {within} GROUP BY scope_id, kind, term"
        rows = self.query(sql, where.parameters(self.dialect, selection))
        terms, sizes, passages, frequencies = zip(*rows, strict=True) if rows else ((),) * 4
        return Postings(terms, np.array(sizes, np.int64), _numbers(passages), _numbers(frequencies))

    def counted(self, selection: Selection) -> tuple[int, int]:
        """Number of passages in a selection's scope and fields, and of their terms, by the stored statistics."""
        sql = f"""SELECT CAST(sum(passages) AS BIGINT), CAST(sum(terms) AS BIGINT) FROM keyword_statistics
            WHERE {in_scope(self.dialect, selection)}"""
        ((passages, terms),) = self.query(sql, where.parameters(self.dialect, selection))
        return passages or 0, terms or 0

    def _mapping(self, key: str, value: str, table: str, ids: Sequence[int]) -> dict[int, Any]:
        sql = f"SELECT {key}, {value} FROM {table} WHERE {self.dialect.among(key, ':ids')}"
        return dict(self.query(sql, {"ids": self.dialect.listed(ids)}))


_PLACE: Final = f"CAST(substr(p.part, {len(TURN) + 2}) AS INTEGER)"
_COLUMNS: Final = f"""
    p.id, m.row, CASE WHEN p.part = m.kind THEN {WHOLE} ELSE {_PLACE} END, p.speaker, p.tells_time,
    coalesce(m.start_at, 0), m.expires_at, m.invalid_at, m.category, coalesce(m.valid_at, m.start_at, {NEVER}),
    m.created_at, m.origin
"""
"""The columns of a snapshot, of passages ``p`` and their memories ``m``."""


def _as_passages(rows: list[Sequence[Any]]) -> Passages:
    """Passages from rows of ``_COLUMNS``, and vector and text if they were read; in any order."""
    rows.sort(key=itemgetter(0))
    read = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in COLUMNS]
    columns = dict(zip(COLUMNS, read, strict=False))  # vector and text are none
    names: dict[str, int] = {}
    columns["speakers"] = [
        UNKNOWN if speaker is None else names.setdefault(speaker, len(names)) for speaker in columns["speakers"]
    ]
    for ends in ("expires", "invalid"):
        columns[ends] = [NEVER if moment is None else moment for moment in columns[ends]]
    columns["categories"] = [category_code(category) for category in columns["categories"]]
    columns["origins"] = [ORIGINS.get(origin, UNKNOWN) for origin in columns["origins"]]
    arrays = {name: np.array(columns[name], numbers) for name, numbers in COLUMNS.items()}
    more = read[len(COLUMNS) :]
    return Passages(arrays, tuple(names), more[0] if more else [], more[1] if len(more) > 1 else [])


def in_scope(dialect: Dialect, selection: Selection) -> str:
    """SQL condition for postings and statistics to belong to the scope and fields."""
    scope = f"scope_id {where.scope_condition(selection)}"
    fields = (":kind", f"'{TURN}'") if TURN in selection.fields else (":kind",)
    return f"{scope} AND {dialect.volumes(scope, *fields)}"


def holding(dialect: Dialect, field: str, terms: str, passages: str) -> str:
    """SQL condition for postings of ``:scope`` to be in those volumes of a field that hold such terms of passages."""
    within = f"{OF_SCOPE} AND {dialect.volumes(OF_SCOPE, field)}"
    if not dialect.volume:
        return within
    found = f"SELECT kind FROM postings WHERE {within} AND {terms} AND {passages}"
    return f"{OF_SCOPE} AND kind IN ({found})"


def _numbers(lists: Sequence[str]) -> NDArray[np.int64]:
    return np.fromstring(",".join(lists), np.int64, sep=",") if lists else np.empty(0, np.int64)


KEPT_CHANGES: Final = 2_000  # versions of a scope, the last ones, whose changes are kept at least
TOO_MANY: Final = -1  # stands for the memories of a version that changed too many to name


def changed_since(connection: Connection, known: Mapping[int, int], now: Mapping[int, int]) -> set[int] | None:
    """Rows of the memories that have changed between two states, and maybe of some that changed after the newer one.

    None if the table does not tell all.

    Args:
        connection: Reads the newer state, or a later one.
        known: Version by row id of a scope, of the older state.
        now: The same of the newer one.
    """
    if not known.keys() <= now.keys():
        return None  # a scope has gone, and what had changed in it
    changed: set[int] = set()
    for scope_id, version in now.items():
        before = known.get(scope_id, 0)
        if version == before:
            continue
        if version - before > KEPT_CHANGES:
            return None
        found = connection.execute(
            "SELECT version, memory FROM changes WHERE scope_id = ? AND version > ?", (scope_id, before)
        ).fetchall()
        seen = {each for each, _ in found if each <= version}
        changed.update(memory for _, memory in found)
        if len(seen) < version - before or TOO_MANY in changed:
            return None
    return changed
