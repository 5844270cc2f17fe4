"""Points at which the process kills itself, laid over the real objects: nothing in the package knows of them."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Iterable
from typing import Any

from memory_retrievers.backends.sqlite import connection


class KillAt:
    """Kills the process the n-th time that it comes by a point.

    Args:
        when: ``before``, ``within`` or ``after``.
        what: The beginning of a SQL statement (``any`` is any statement of a transaction), or one of ``backup``,
            ``rename``, ``rmtree``, ``line``, and Chroma's ``upsert``, ``delete`` and ``create_collection``.
        count: Which time.

    Attributes:
        live: Nothing happens until this is set.
    """

    def __init__(self, when: str, what: str, count: int) -> None:
        self.when = when
        self.what = what
        self.live = False
        self._left = count

    @classmethod
    def parse(cls, text: str) -> KillAt:
        """From ``when:what:count``."""
        when, what, count = text.split(":")
        return cls(when, what, int(count))

    def passes(self, when: str, what: str) -> None:
        """The process comes by a point."""
        if self.live and when == self.when and what == self.what:
            self._left -= 1
            if self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def lay(self) -> None:
        """Lay the points over SQLite's connections, renaming, and Chroma's collections, for the rest of the process."""
        for kind in (connection.Connection, connection.Writer):
            setattr(connection, kind.__name__, _connection(self, kind))
        _surround(os, "rename", self)
        _surround(shutil, "rmtree", self)
        if self.what in {"upsert", "delete", "create_collection"}:
            from chromadb.api.client import Client
            from chromadb.api.models.Collection import Collection

            _surround(Client if self.what == "create_collection" else Collection, self.what, self)


def _surround(owner: object, name: str, fault: KillAt) -> None:
    inner = getattr(owner, name)

    def surrounded(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - handed on as they are
        fault.passes("before", name)
        result = inner(*args, **kwargs)
        fault.passes("after", name)
        return result

    setattr(owner, name, surrounded)


def _connection(fault: KillAt, kind: type[connection.Connection]) -> type[connection.Connection]:
    class Connection(kind):  # type: ignore[misc, valid-type]
        """A real connection that comes by the fault with every statement."""

        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:  # noqa: ANN401
            names = ["any"] if self.in_transaction else []
            if sql.strip().startswith(fault.what):
                names.append(fault.what)
                if fault.live and fault.when == "within":
                    # called every so many steps of SQLite's machine, which is in the middle of the statement then
                    self.set_progress_handler(lambda: fault.passes("within", fault.what), 20)
            for name in names:
                fault.passes("before", name)
            cursor = super().execute(sql, parameters)
            for name in names:
                fault.passes("after", name)
            return cursor

        def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
            cursor = self.cursor()
            for each in parameters:  # every row is a statement that the process may die at
                cursor = self.execute(sql, each)
            return cursor

        def backup(self, target: sqlite3.Connection, **_: Any) -> None:  # noqa: ANN401 - the whole, by pages
            super().backup(target, pages=1, progress=lambda *_: fault.passes("within", "backup"))

    return Connection
