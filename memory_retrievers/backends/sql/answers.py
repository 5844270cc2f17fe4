"""Answers of SQLite that are remembered until the scope they are about changes.

Every change of a scope's memories or passages raises the scope's version (see the triggers of the schema), and a
memory expires at a known moment, so an answer is known to be good without asking again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from memory_retrievers.backends.sql.connection import Connection
from memory_retrievers.fields import microseconds
from memory_retrievers.passages import Selection

FoundT = TypeVar("FoundT")

_Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Answer(Generic[FoundT]):
    """What was found, how many passages that is, and between which moments (microseconds) it is right."""

    found: FoundT
    passages: int
    since: float
    until: float


class Answers(Generic[FoundT]):
    """Remembers answers, those that were asked for last.

    Args:
        most: How many passages they may hold in all.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._answers: OrderedDict[_Key, Answer[FoundT]] = OrderedDict()
        self._passages = 0

    def ask(
        self,
        connection: Connection,
        selection: Selection,
        question: tuple[object, ...],
        look_up: Callable[[], Answer[FoundT]],
    ) -> FoundT:
        """What the selection has for an answer: the one that is remembered, if it is still right.

        Args:
            connection: Reads as of one moment.
            selection: What is asked about.
            question: What is asked, and what else the answer depends on.
            look_up: Finds the answer.
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
        """The answer, if it is known without looking it up."""
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
            self._passages += answer.passages - (replaced.passages if replaced else 0)
            self._answers[key] = answer
            while self._passages > self._most and len(self._answers) > 1:
                self._passages -= self._answers.popitem(last=False)[1].passages


def _may_remember(connection: Connection, selection: Selection) -> bool:
    # What a transaction has not committed yet may still be undone, and its version given out again.
    return not (selection.is_narrow or selection.include_child_scopes or connection.in_transaction)


def _key(connection: Connection, selection: Selection, question: tuple[object, ...]) -> _Key | None:
    """What an answer is remembered by: it changes with the scope; None if there is no such scope."""
    known = connection.versions
    if known is not None and selection.scope in known:
        version = known[selection.scope]
    else:
        version = connection.execute("SELECT id, version FROM scopes WHERE scope = ?", (selection.scope,)).fetchone()
        if known is not None:
            known[selection.scope] = version
    return None if version is None else (*version, selection.fields, *question)
