"""LRU cache of query results, keyed by the version of their scope."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from memory_retrievers.backends.sql import selection as where
from memory_retrievers.backends.sql.connection import Connection, Database, Dialect, one
from memory_retrievers.backends.sql.selection import LAYOUT, laid_out, size_of, taken
from memory_retrievers.models.fields import microseconds
from memory_retrievers.models.selection import Layout, Selection

FoundT = TypeVar("FoundT")

ENTRY_BYTES: Final = 600
"""What it takes to remember an answer beside the answer itself: its key, its moments, its place in the order."""

_Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Answer(Generic[FoundT]):
    """A query result with its number of passages, size in bytes, and validity as a range of times (microseconds)."""

    found: FoundT
    passages: int
    size: int
    since: float
    until: float


class Answers(Generic[FoundT]):
    """LRU cache of answers, bounded by their size.

    Args:
        most: How many bytes they may take in all; the last one stays, however large the scope is that it is about.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._answers: OrderedDict[_Key, Answer[FoundT]] = OrderedDict()
        self._bytes = 0

    def ask(
        self,
        connection: Connection,
        selection: Selection,
        question: tuple[object, ...],
        look_up: Callable[[], Answer[FoundT]],
    ) -> FoundT:
        """Return the cached answer if it is still valid; otherwise look it up.

        Args:
            connection: Reads as of one point in time.
            selection: The selection the question is about.
            question: The question, with everything else that the answer depends on.
            look_up: Computes the answer.
        """
        if not _may_remember(connection, selection):
            return look_up().found
        key = _key(connection, selection, question)
        answer = None if key is None else self._right(key, selection)
        if answer is None:
            answer = look_up()
            if key is not None:
                self._keep(key, answer)
        return answer.found

    def remembered(
        self, connection: Connection, selection: Selection, question: tuple[object, ...]
    ) -> Answer[FoundT] | None:
        """Return the cached answer if it is valid, without looking it up.

        Args:
            connection: Reads as of one point in time.
            selection: The selection the question is about.
            question: The question, with everything else that the answer depends on.

        Returns:
            None if nothing valid is cached.
        """
        key = _key(connection, selection, question) if _may_remember(connection, selection) else None
        return None if key is None else self._right(key, selection)

    def _right(self, key: _Key, selection: Selection) -> Answer[FoundT] | None:
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
            answer = self._answers.get(key)
        return answer if answer is not None and answer.since <= microseconds(selection.now) < answer.until else None

    def _keep(self, key: _Key, answer: Answer[FoundT]) -> None:
        with self._lock:
            replaced = self._answers.pop(key, None)
            self._bytes += _cost(answer) - (_cost(replaced) if replaced else 0)
            self._answers[key] = answer
            while self._bytes > self._most and len(self._answers) > 1:
                self._bytes -= _cost(self._answers.popitem(last=False)[1])


def _cost(answer: Answer[FoundT]) -> int:
    return ENTRY_BYTES + answer.size


def _may_remember(connection: Connection, selection: Selection) -> bool:
    # What a transaction has not committed yet may still be undone, and its version given out again.
    return not (selection.is_narrow or selection.include_child_scopes or connection.in_transaction)


def _key(connection: Connection, selection: Selection, question: tuple[object, ...]) -> _Key | None:
    """Cache key of an answer, which changes with its scope; None if there is no such scope."""
    known = connection.versions
    if known is not None and selection.scope in known:
        version = known[selection.scope]
    else:
        version = connection.execute("SELECT id, version FROM scopes WHERE scope = ?", (selection.scope,)).fetchone()
        if known is not None:
            known[selection.scope] = version
    return None if version is None else (*version, selection.fields, *question)


Condition: TypeAlias = Callable[[Dialect, Selection], str]
"""Tells which memories ``m`` a selection means."""

REMEMBERED_IDS: Final = 40_000_000
"""Bytes of passage ids that may be remembered in all: a million."""

REMEMBERED_PLACES: Final = 20_000_000
"""Bytes of how passages belong together that may be remembered in all: half a million, without long names."""

_ID_BYTES: Final = 40


class Eligibility:
    """Cached answers for ``Ledger.eligible``, ``Ledger.indexed``, ``Ledger.size`` and ``Ledger.layout``.

    Args:
        database: Where the memories are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ids: Answers[list[int]] = Answers(most=REMEMBERED_IDS)
        self._layouts: Answers[Layout] = Answers(most=REMEMBERED_PLACES)

    def eligible(self, selection: Selection, *, among: Sequence[int] | None = None) -> list[int]:
        """List the ids of the passages that match the selection, ascending."""
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
        """Count the passages that match the selection, up to one more than ``at_most``."""
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
        """List the ids of all passages of the selection's scope and fields, ascending."""
        return self._ask(selection, where.of_scope, ("indexed",))

    def layout(self, selection: Selection, *, memories: Sequence[int] | None = None) -> Layout:
        """Return how the matching passages belong together, optionally only those of the given memory rows."""
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
    """SQL for the memories ``m`` of a selection with their searched passages ``p``; by memory, not by passage."""
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
    expiries = [expires_at for _, expires_at in rows]
    return _answer(passages, len(passages), _ID_BYTES * len(passages), selection, expiries)


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
    layout = laid_out([row[1:] for row in rows])
    return _answer(layout, len(rows), size_of(layout), selection, [row[0] for row in rows])


def _answer(
    found: FoundT, passages: int, size: int, selection: Selection, expiries: Iterable[int | None]
) -> Answer[FoundT]:
    ends = (expires_at for expires_at in expiries if expires_at is not None)
    # Looking from an earlier moment, what has expired by now would still be there.
    return Answer(found, passages, size, since=microseconds(selection.now), until=min(ends, default=math.inf))
