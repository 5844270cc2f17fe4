"""Which passages a selection lets through, and how they belong together: asked of SQLite once and remembered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, TypeVar

from memory_retrievers.backends.sql import selection as where
from memory_retrievers.backends.sql.answers import Answer, Answers
from memory_retrievers.backends.sql.connection import Connection, Database, Dialect, one
from memory_retrievers.backends.sql.layout import LAYOUT, laid_out, taken
from memory_retrievers.fields import microseconds
from memory_retrievers.passages import Layout, Selection

FoundT = TypeVar("FoundT")

Condition: TypeAlias = Callable[[Dialect, Selection], str]
"""Tells which memories ``m`` a selection means."""

REMEMBERED_PASSAGES: Final = 1_000_000
"""How many passage ids may be remembered in all; about 40 bytes each."""

REMEMBERED_PLACES: Final = 500_000
"""How many passages may be remembered with how they belong together; about 41 bytes each."""


class Eligibility:
    """Answers for ``Ledger.eligible``, ``Ledger.indexed``, ``Ledger.size`` and ``Ledger.layout``.

    Args:
        database: Where the memories are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ids: Answers[list[int]] = Answers(most=REMEMBERED_PASSAGES)
        self._layouts: Answers[Layout] = Answers(most=REMEMBERED_PLACES)

    def eligible(self, selection: Selection, *, among: Sequence[int] | None = None) -> list[int]:
        """The ids of the passages the selection lets through, ascending."""
        if among is None:
            return self._ask(selection, where.where, _eligible(selection))
        with self._database.read() as connection:
            dialect = connection.dialect
            found = connection.execute(
                f"""SELECT p.id FROM {dialect.each(":among")} {dialect.in_order} passages p ON p.id = each.value
                JOIN memories m ON m.row = p.memory {dialect.beside("m", "p")}
                WHERE {where.searched(selection)} AND {where.where(dialect, selection)} ORDER BY p.id""",
                {**where.parameters(dialect, selection), "among": dialect.listed(among)},
            )
            return [passage for (passage,) in found]

    def size(self, selection: Selection, *, at_most: int) -> int:
        """How many passages the selection lets through, counted no further than one more than ``at_most``."""
        with self._database.read() as connection:
            dialect = connection.dialect
            known = self._layouts.remembered(connection, selection, _laid_out(selection))
            answer = known or self._ids.remembered(connection, selection, _eligible(selection))
            if answer is not None:
                return answer.passages
            counted = one(
                connection,
                f"SELECT count(*) FROM (SELECT 1 {_seen(dialect, selection, where.where)} LIMIT :more) AS seen",
                {**where.parameters(dialect, selection), "more": at_most + 1},
            )
            return int(counted)

    def indexed(self, selection: Selection) -> list[int]:
        """The ids of all passages of the selection's scope and fields, ascending."""
        return self._ask(selection, where.of_scope, ("indexed",))

    def layout(self, selection: Selection, *, memories: Sequence[int] | None = None) -> Layout:
        """How the passages the selection lets through belong together; only those of the given rows, if there are."""
        question = _laid_out(selection)
        with self._database.read() as connection:
            if memories is None:
                return self._layouts.ask(connection, selection, question, lambda: _lay_out(connection, selection))
            known = self._layouts.remembered(connection, selection, question)
            if known is not None:
                return taken(known.found, memories)
            return _lay_out(connection, selection, memories=memories).found

    def _ask(self, selection: Selection, condition: Condition, question: tuple[object, ...]) -> list[int]:
        with self._database.read() as connection:
            return self._ids.ask(connection, selection, question, lambda: _look_up(connection, selection, condition))


def _eligible(selection: Selection) -> tuple[object, ...]:
    return ("eligible", selection.category)


def _laid_out(selection: Selection) -> tuple[object, ...]:
    return ("layout", selection.category)


def _seen(dialect: Dialect, selection: Selection, condition: Condition) -> str:
    """Memories ``m`` of a selection with the passages ``p`` that it searches; by memory, not by passage."""
    index = dialect.indexed_by(where.index(selection))
    return f"""FROM memories m {index} {dialect.in_order} passages p
        ON p.memory = m.row {dialect.beside("p", "m")}
        WHERE {where.searched(selection)} AND {condition(dialect, selection)}"""


def _look_up(connection: Connection, selection: Selection, condition: Condition) -> Answer[list[int]]:
    dialect = connection.dialect
    rows = connection.execute(
        f"SELECT p.id, m.expires_at {_seen(dialect, selection, condition)}", where.parameters(dialect, selection)
    ).fetchall()
    passages = sorted(passage for passage, _ in rows)
    return _answer(passages, len(passages), selection, [expires_at for _, expires_at in rows])


def _lay_out(connection: Connection, selection: Selection, *, memories: Sequence[int] | None = None) -> Answer[Layout]:
    dialect = connection.dialect
    values = where.parameters(dialect, selection)
    if memories is None:
        seen = _seen(dialect, selection, where.where)
    else:
        seen = f"""FROM {dialect.each(":memories")} {dialect.in_order} memories m ON m.row = each.value
            JOIN passages p ON p.memory = m.row {dialect.beside("p", "m")}
            WHERE {where.searched(selection)} AND {where.where(dialect, selection)}"""
        values["memories"] = dialect.listed(sorted(set(memories)))
    rows = connection.execute(f"SELECT m.expires_at, {LAYOUT} {seen}", values).fetchall()
    return _answer(laid_out([row[1:] for row in rows]), len(rows), selection, [row[0] for row in rows])


def _answer(found: FoundT, passages: int, selection: Selection, expiries: Iterable[int | None]) -> Answer[FoundT]:
    ends = (expires_at for expires_at in expiries if expires_at is not None)
    # Looking from an earlier moment, what has expired by now would still be there.
    return Answer(found, passages, since=microseconds(selection.now), until=min(ends, default=math.inf))
