"""What has changed in a scope since a version of it: the table ``changes``, which triggers fill, whoever writes.

Snapshots that were read before catch up by it. It is bounded; who is further behind compares all that is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memory_retrievers.backends.sql.connection import Connection

KEPT: Final = 2_000
"""Versions of a scope, the last ones, whose changes are kept at least."""

TOO_MANY: Final = -1
"""Stands for the memories of a version that changed too many to name."""


def changed_since(connection: Connection, known: Mapping[int, int], now: Mapping[int, int]) -> set[int] | None:
    """Rows of the memories that have changed between two states, and maybe of some that changed after the newer one.

    Args:
        connection: Reads the newer state, or a later one.
        known: Version by row id of a scope, of the older state.
        now: The same of the newer one.

    Returns:
        None if the table does not tell all.
    """
    if not known.keys() <= now.keys():
        return None  # a scope has gone, and what had changed in it
    changed: set[int] = set()
    for scope_id, version in now.items():
        before = known.get(scope_id, 0)
        if version == before:
            continue
        if version - before > KEPT:
            return None
        found = connection.execute(
            "SELECT version, memory FROM changes WHERE scope_id = ? AND version > ?", (scope_id, before)
        ).fetchall()
        seen = {each for each, _ in found if each <= version}
        changed.update(memory for _, memory in found)
        if len(seen) < version - before or TOO_MANY in changed:
            return None
    return changed
