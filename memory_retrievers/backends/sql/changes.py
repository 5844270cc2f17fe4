"""Log of the memories that this process has changed, by scope and version, for snapshots that catch up."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Final

MOST_SCOPES: Final = 1_000
"""Scopes in the log; with more of them it begins anew."""

MOST_ROWS: Final = 2_000
"""Memories that are logged for a scope; who is further behind compares all that is there."""


class _ScopeLog:
    """Versions of one scope, ascending, with the memories changed by each."""

    __slots__ = ("entries", "rows", "since")

    def __init__(self) -> None:
        self.entries: list[tuple[int, frozenset[int]]] = []
        self.rows = 0
        self.since = 0

    def add(self, version: int, rows: frozenset[int]) -> None:
        self.entries.append((version, rows))
        self.rows += len(rows)
        while self.rows > MOST_ROWS:
            self.since, dropped = self.entries.pop(0)
            self.rows -= len(dropped)


class ChangeLog:
    """What the transactions of this process have changed, kept in memory and bounded.

    The log knows nothing of what other processes write. Whoever finds that one has written calls :meth:`restart`; what
    was read before belongs to another epoch, and is compared with the tables as a whole.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epoch = 0
        self._scopes: dict[int, _ScopeLog] = {}

    @property
    def epoch(self) -> int:
        """Number of the unbroken stretch of the log; to be read before the versions that it is compared by."""
        return self._epoch

    def restart(self) -> None:
        """Begin a new epoch: something may have changed that is not in the log."""
        with self._lock:
            self._epoch += 1
            self._scopes.clear()

    def add(self, changes: Iterable[tuple[int, int, int]]) -> None:
        """Log a transaction that is about to be committed.

        Args:
            changes: Row id of a scope, its version after the transaction, and the row of a memory changed in it.
        """
        found: dict[tuple[int, int], set[int]] = {}
        for scope_id, version, memory in changes:
            found.setdefault((scope_id, version), set()).add(memory)
        with self._lock:
            for (scope_id, version), rows in found.items():
                self._scopes.setdefault(scope_id, _ScopeLog()).add(version, frozenset(rows))
            overflows = len(self._scopes) > MOST_SCOPES
        if overflows:
            self.restart()

    def since(
        self, known: Mapping[int, int], now: Mapping[int, int], *, epoch: int, is_open: bool = False
    ) -> set[int] | None:
        """Rows of the memories that have changed between two states.

        Args:
            known: Version by row id of a scope, of the older state.
            now: The same of the newer one.
            epoch: Epoch of the older state.
            is_open: The newer state is that inside a transaction, whose own changes are not logged yet.

        Returns:
            None if the log does not tell.
        """
        rows: set[int] = set()
        with self._lock:
            if epoch != self._epoch or not known.keys() <= now.keys():
                return None
            for scope_id, version in now.items():
                before = known.get(scope_id, 0)
                if version == before:
                    continue
                log = self._scopes.get(scope_id)
                if log is None:
                    if is_open:
                        continue
                    return None
                passed = [each for each in log.entries if before < each[0] <= version]
                is_whole = before >= log.since and (is_open or (passed and passed[-1][0] == version))
                if not is_whole:
                    return None
                rows.update(*(changed for _, changed in passed))
        return rows
