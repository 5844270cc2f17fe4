"""Which passages a selection lets through, asked of SQLite once and remembered until its scope changes.

Every change of a scope's memories or passages raises the scope's version (see the triggers of the schema), and a
memory expires at a known moment, so an answer is known to be good without asking again.
"""

from __future__ import annotations

import json
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from memory_retrievers.backends.sqlite import selection as where
from memory_retrievers.backends.sqlite.database import one
from memory_retrievers.fields import microseconds
from memory_retrievers.passages import Selection

if TYPE_CHECKING:
    import sqlite3

    from memory_retrievers.backends.sqlite.database import Database

REMEMBERED_PASSAGES: Final = 1_000_000
"""How many passage ids may be remembered in all; about 40 bytes each."""

_Key: TypeAlias = tuple[object, ...]


class _Answer(NamedTuple):
    """The passages, and between which moments (microseconds) they are right."""

    passages: list[int]
    since: float
    until: float


class Eligibility:
    """Answers for ``Ledger.eligible`` and ``Ledger.indexed``.

    Args:
        database: Where the memories are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._answers: OrderedDict[_Key, _Answer] = OrderedDict()
        self._size = 0

    def eligible(self, selection: Selection, *, among: Sequence[int] | None = None) -> list[int]:
        """The ids of the passages the selection lets through, ascending."""
        if among is None:
            return self._ask(selection, where.where(selection), ("eligible", selection.category))
        with self._database.read() as connection:
            found = connection.execute(
                f"""SELECT p.id FROM json_each(:among) CROSS JOIN passages p ON p.id = value
                JOIN memories m ON m.row = p.memory WHERE {where.where(selection)} ORDER BY p.id""",
                {**where.parameters(selection), "among": json.dumps(among)},
            )
            return [passage for (passage,) in found]

    def size(self, selection: Selection, *, at_most: int) -> int:
        """How many memories the selection lets through, counted no further than one more than ``at_most``."""
        now = microseconds(selection.now)
        with self._database.read() as connection:
            if not (selection.is_narrow or selection.include_child_scopes or connection.in_transaction):
                key = _key(connection, selection, ("eligible", selection.category))
                answer = None if key is None else self._remembered(key)
                if answer is not None and answer.since <= now < answer.until:
                    return len(answer.passages)
            counted = one(
                connection,
                f"""SELECT count(*) FROM (SELECT 1 FROM memories m INDEXED BY {where.index(selection)}
                WHERE {where.where(selection)} LIMIT :at_most + 1)""",
                {**where.parameters(selection), "at_most": at_most},
            )
            return int(counted)

    def indexed(self, selection: Selection) -> list[int]:
        """The ids of all passages of the selection's scope and kind, ascending."""
        return self._ask(selection, where.in_scope(selection), ("indexed",))

    def _ask(self, selection: Selection, condition: str, question: _Key) -> list[int]:
        now = microseconds(selection.now)
        with self._database.read() as connection:
            # What a transaction has not committed yet may still be undone, and its version given out again.
            if selection.is_narrow or selection.include_child_scopes or connection.in_transaction:
                return _look_up(connection, selection, condition, now).passages
            key = _key(connection, selection, question)
            if key is None:
                return []
            answer = self._remembered(key)
            if answer is None or not answer.since <= now < answer.until:
                answer = _look_up(connection, selection, condition, now)
                self._remember(key, answer)
        return answer.passages

    def _remembered(self, key: _Key) -> _Answer | None:
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
            return self._answers.get(key)

    def _remember(self, key: _Key, answer: _Answer) -> None:
        with self._lock:
            replaced = self._answers.pop(key, None)
            self._size += len(answer.passages) - (len(replaced.passages) if replaced else 0)
            self._answers[key] = answer
            while self._size > REMEMBERED_PASSAGES and len(self._answers) > 1:
                self._size -= len(self._answers.popitem(last=False)[1].passages)


def _key(connection: sqlite3.Connection, selection: Selection, question: _Key) -> _Key | None:
    """What an answer is remembered by: it changes with the scope; None if there is no such scope."""
    version = connection.execute("SELECT id, version FROM scopes WHERE scope = ?", (selection.scope,)).fetchone()
    return None if version is None else (*version, selection.kind, *question)


def _look_up(connection: sqlite3.Connection, selection: Selection, condition: str, now: int) -> _Answer:
    rows = connection.execute(
        f"""SELECT p.id, m.expires_at FROM memories m INDEXED BY {where.index(selection)}
        JOIN passages p ON p.memory = m.row WHERE {condition}""",
        where.parameters(selection),
    ).fetchall()
    expiries = [expires_at for _, expires_at in rows if expires_at is not None]
    # Looking from an earlier moment, what has expired by now would still be there.
    return _Answer(sorted(passage for passage, _ in rows), since=now, until=min(expiries, default=math.inf))
