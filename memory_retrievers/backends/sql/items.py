"""Queries of items: the facts that a LangGraph store has put, below a scope."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from memory_retrievers.backends.sql.connection import Connection, Database, Dialect
from memory_retrievers.backends.sql.memories import memory_query
from memory_retrievers.backends.sql.removal import SCOPE_AND_CHILDREN, scope_values
from memory_retrievers.backends.sql.rows import encode_json, encode_time, memory_of
from memory_retrievers.models import AnyMemory, MemoryKey
from memory_retrievers.models.storage import ItemCondition

_BELOW: Final = f"m.scope_id IN (SELECT s.id FROM scopes s WHERE {SCOPE_AND_CHILDREN})"
_IS_ITEM: Final = """m.origin = 'store' AND m.kind = 'semantic' AND m.invalid_at IS NULL
    AND (m.expires_at IS NULL OR m.expires_at > :now)"""

_EQUALITY: Final[Mapping[str, str]] = {"=": "", "!=": "NOT"}
_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


class SQLItems:
    """The items of a database.

    Args:
        database: Where they are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def rows(
        self,
        scope: str,
        *,
        now: datetime,
        conditions: Sequence[ItemCondition],
        under: str,
        offset: int = 0,
        limit: int | None = None,
    ) -> list[int]:
        """List the rows of the items of a scope and those below it, the last changed first.

        Args:
            scope: The scope.
            now: Leave out items that expired by this time.
            conditions: What holds of the value of an item.
            under: The key of the metadata that the value of an item is under.
            offset: Leave out so many of the first.
            limit: At most so many; None sets no limit.
        """
        values: dict[str, object] = {
            "now": encode_time(now),
            "limit": 2**62 if limit is None else limit,
            "offset": offset,
        }
        values |= scope_values(scope, include_child_scopes=True)
        with self._database.read() as connection:
            dialect = connection.dialect
            wanted = [_BELOW, _IS_ITEM]
            for number, each in enumerate(conditions):
                wanted.append(_holds(dialect, dialect.inner("m.metadata", under), f"value_{number}", each))
                values[f"value_{number}_key"] = each.key
                values[f"value_{number}_value"] = each.value if isinstance(each.value, str) else encode_json(each.value)
            found = connection.execute(
                f"""SELECT m.row FROM memories m JOIN scopes p ON p.id = m.scope_id WHERE {" AND ".join(wanted)}
                ORDER BY m.updated_at DESC, p.scope, m.id LIMIT :limit OFFSET :offset""",
                values,
            )
            return [int(row) for (row,) in found]

    def scopes(self, scope: str, *, now: datetime) -> list[str]:
        """List the scopes of a scope and those below it that hold items, sorted.

        Args:
            scope: The scope.
            now: Items that expired by this time do not count.
        """
        with self._database.read() as connection:
            hint = connection.dialect.indexed_by("memories_by_origin")
            found = connection.execute(
                f"""SELECT s.scope FROM scopes s WHERE {SCOPE_AND_CHILDREN} AND EXISTS
                (SELECT 1 FROM memories m {hint} WHERE m.scope_id = s.id AND {_IS_ITEM}) ORDER BY s.scope""",
                {"now": encode_time(now)} | scope_values(scope, include_child_scopes=True),
            )
            return [its_scope for (its_scope,) in found]

    def get(self, keys: Sequence[MemoryKey]) -> dict[MemoryKey, AnyMemory]:
        """Read the memories of these keys that exist, items or not, whatever their state."""
        by_scope: dict[str, list[str]] = {}
        for key in keys:
            by_scope.setdefault(key.scope, []).append(key.id)
        with self._database.read() as connection:
            found = [memory for scope, ids in by_scope.items() for memory in _of_scope(connection, scope, ids)]
        return {MemoryKey(scope=memory.scope, id=memory.id): memory for memory in found}

    def expired(self, scope: str, *, now: datetime) -> list[MemoryKey]:
        """List the items of a scope and those below it that expired by a time."""
        with self._database.read() as connection:
            found = connection.execute(
                f"""SELECT p.scope, m.id FROM memories m JOIN scopes p ON p.id = m.scope_id
                WHERE {_BELOW} AND m.origin = 'store' AND m.expires_at <= :now""",
                {"now": encode_time(now)} | scope_values(scope, include_child_scopes=True),
            )
            return [MemoryKey(scope=its_scope, id=its_id) for its_scope, its_id in found]

    def prolong(self, items: Sequence[AnyMemory]) -> None:
        """Let stored items live until the time that they have now; nothing else of them changes."""
        with self._database.write(*{item.scope for item in items}) as connection:
            connection.executemany(
                """UPDATE memories SET expires_at = ?
                WHERE scope_id = (SELECT id FROM scopes WHERE scope = ?) AND id = ?""",
                [(encode_time(item.expires_at), item.scope, item.id) for item in items],
            )


def _holds(dialect: Dialect, column: str, name: str, condition: ItemCondition) -> str:
    """The condition in SQL; where numbers are ordered, true is 1 and false 0."""
    sign, value = condition.sign, condition.value
    if sign in _EQUALITY:
        return f"{_EQUALITY[sign]} {dialect.member(column, name, value)}"
    alike = [dialect.member(column, name, value, sign)]
    if not isinstance(value, str):
        alike += [dialect.member(column, name, each) for each in (True, False) if _ORDER[sign](each, value)]
    return f"({' OR '.join(alike)})"


def _of_scope(connection: Connection, scope: str, ids: Sequence[str]) -> list[AnyMemory]:
    dialect = connection.dialect
    rows = connection.execute(
        f"""{memory_query(dialect)} WHERE m.scope_id = (SELECT id FROM scopes WHERE scope = :scope)
        AND {dialect.among("m.id", ":ids")}""",
        {"scope": scope, "ids": dialect.listed(ids)},
    ).fetchall()
    return [*map(memory_of, rows)]
