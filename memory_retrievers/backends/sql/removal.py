"""Taking memories out of the file for good: their rows, and every place that names them.

Excerpts, passages and vectors go with the row of their memory; postings are the keyword index's to remove.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from memory_retrievers import scopes
from memory_retrievers.backends.sql import characters, reviews
from memory_retrievers.backends.sql.connection import Connection, one
from memory_retrievers.backends.sql.rows import encode_json
from memory_retrievers.models import MemoryKey

_EMPTY_SCOPES: Final = """
    NOT EXISTS (SELECT 1 FROM memories WHERE scope_id = scopes.id)
    AND NOT EXISTS (SELECT 1 FROM pending_reviews WHERE scope_id = scopes.id)
    AND NOT EXISTS (SELECT 1 FROM queued_messages WHERE scope_id = scopes.id)
    AND NOT EXISTS (SELECT 1 FROM characters WHERE scope_id = scopes.id)
"""

SCOPE_AND_CHILDREN: Final = "(scope = :scope OR (:children AND scope >= :first AND scope < :behind))"
"""A condition on a row of ``scopes``; its values come from :func:`scope_values`."""


def scope_values(scope: str, *, include_child_scopes: bool) -> dict[str, Any]:
    """The values ``SCOPE_AND_CHILDREN`` refers to."""
    first, behind = scopes.child_range(scope)
    return {"scope": scope, "children": include_child_scopes, "first": first, "behind": behind}


def remove(connection: Connection, *, scope: str, id: str) -> bool:
    """Remove one memory and its id from the reviews and memories that name it; False if there is none."""
    return bool(remove_all(connection, scope=scope, ids=[id]))


def remove_all(connection: Connection, *, scope: str, ids: Sequence[str]) -> int:
    """Remove memories of a scope and their ids from what names them; gives how many there were."""
    scope_id = one(connection, "SELECT id FROM scopes WHERE scope = ?", (scope,))
    removed = [id for id in ids if _remove_one(connection, scope_id, id)]  # noqa: A001
    if removed:
        reviews.strike_out(connection, scope, {MemoryKey(scope=scope, id=id) for id in removed}.__contains__)  # noqa: A001
        for column in ("source_episodic_ids", "consolidated_from"):
            _strike_out_of_lists(connection, column, scope_id, removed)
        characters.strike_out(connection, scope, removed)
        forget_empty_scopes(connection, scope)
    return len(removed)


def remove_scope(connection: Connection, scope: str, *, include_child_scopes: bool) -> int:
    """Remove everything a scope holds, its name included; gives the number of memories that went."""
    values = scope_values(scope, include_child_scopes=include_child_scopes)
    within = f"scope_id IN (SELECT id FROM scopes WHERE {SCOPE_AND_CHILDREN})"
    removed = connection.execute(f"DELETE FROM memories WHERE {within}", values).rowcount
    for table in ("pending_reviews", "review_jobs", "queued_messages", "queues", "characters"):
        connection.execute(f"DELETE FROM {table} WHERE {within}", values)

    def is_gone(key: MemoryKey) -> bool:
        return key.scope == scope or (include_child_scopes and key.scope.startswith(f"{scope}/"))

    reviews.strike_out(connection, scope, is_gone)
    forget_empty_scopes(connection, scope, include_child_scopes=include_child_scopes)
    return removed


def sweep(connection: Connection) -> None:
    """Remove what nothing refers to any more, wherever it is.

    Words of passages stay behind where a keyword engine that keeps none did the forgetting.
    """
    connection.execute("DELETE FROM postings WHERE passage NOT IN (SELECT id FROM passages)")
    connection.execute(f"DELETE FROM scopes WHERE {_EMPTY_SCOPES}")
    connection.execute("DELETE FROM keyword_statistics WHERE scope_id NOT IN (SELECT id FROM scopes)")


def forget_empty_scopes(connection: Connection, scope: str, *, include_child_scopes: bool = False) -> None:
    """Remove the names of a scope, and of those below it, where nothing is left."""
    values = scope_values(scope, include_child_scopes=include_child_scopes)
    connection.execute(f"DELETE FROM scopes WHERE {SCOPE_AND_CHILDREN} AND {_EMPTY_SCOPES}", values)


def _remove_one(connection: Connection, scope_id: int | None, id: str) -> bool:
    values = {"scope_id": scope_id, "id": id}
    # what it has replaced is replaced by its own successor, so that the versions of a fact hang together
    connection.execute(
        """UPDATE memories SET replaced_by =
        (SELECT replaced_by FROM memories WHERE scope_id = :scope_id AND id = :id AND replaced_by != :id)
        WHERE scope_id = :scope_id AND replaced_by = :id""",
        values,
    )
    return bool(connection.execute("DELETE FROM memories WHERE scope_id = :scope_id AND id = :id", values).rowcount)


def _strike_out_of_lists(connection: Connection, column: str, scope_id: int, ids: Sequence[str]) -> None:
    """In one pass over the scope, however many ids there are."""
    dialect, gone = connection.dialect, set(ids)
    named = f"EXISTS (SELECT 1 FROM ({dialect.items(column)}) AS listed WHERE {dialect.among('value', ':sought')})"
    sought = dialect.listed(ids)
    if len(ids) == 1:
        named, sought = f"{dialect.position}({column}, :sought) > 0", encode_json(ids[0])
    rows = connection.execute(
        f"SELECT row, {column} FROM memories WHERE scope_id = :scope_id AND {column} != '[]' AND {named}",
        {"scope_id": scope_id, "sought": sought},
    ).fetchall()
    for row, listed in rows:
        kept = encode_json([each for each in json.loads(listed) if each not in gone])
        connection.execute(f"UPDATE memories SET {column} = ? WHERE row = ?", (kept, row))
