"""Queries of items: the facts that a LangGraph store has put, below a scope."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from memory_retrievers.backends.sql.connection import OF_KEY, Dialect, Part, ids_by_scope, scope_id_of
from memory_retrievers.backends.sql.memories import insert_passages, overwrite_row
from memory_retrievers.backends.sql.rows import BELOW, below, encode, encode_json, encode_time, readable
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory, Kind, MemoryKey, SemanticMemory
from memory_retrievers.models.fields import moment
from memory_retrievers.models.selection import NewPassage, Passage
from memory_retrievers.models.storage import ItemCondition, StoredItem
from memory_retrievers.text.passages import ITEM_LENGTHS

_IS_ITEM: Final = """m.origin = 'store' AND m.kind = 'semantic' AND m.invalid_at IS NULL
    AND (m.expires_at IS NULL OR m.expires_at > :now)"""
_FIELDS: Final = """m.row, p.scope, m.id, m.origin = 'store' AND m.kind = 'semantic', m.invalid_at IS NULL,
    m.metadata, m.created_at, m.updated_at"""
_NEWEST: Final = "m.updated_at DESC, p.scope, m.id"

_EQUALITY: Final[Mapping[str, str]] = {"=": "IS TRUE", "!=": "IS NOT TRUE"}
_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


class ThereBefore(NamedTuple):
    """What is there before items are put."""

    # row ids of the scopes and rows of the items that are overwritten in place, by key
    stays: dict[MemoryKey, tuple[int, int]]
    # when items that others are put over were made, by key; none where those know it themselves
    made: dict[MemoryKey, datetime]
    same: set[MemoryKey]  # keys of those of them whose passages stay as well
    gone: list[MemoryKey]  # keys of what is removed, also since it is nothing that an item can be written over
    scope_ids: dict[str, int]  # row ids of the scopes that are there


class SQLItems(Part):
    """The items of a database."""

    def newest(
        self,
        scope: str,
        *,
        now: datetime,
        conditions: Sequence[ItemCondition],
        offset: int = 0,
        limit: int | None = None,
    ) -> list[StoredItem]:
        """List the items of a scope and those below it, the last changed first.

        Args:
            scope: The scope.
            now: Leave out items that expired by this time.
            conditions: What holds of the value of an item.
            offset: Leave out so many of the first.
            limit: At most so many; None sets no limit.
        """
        most = 2**62 if limit is None else limit
        wanted, values = _wanted(self.dialect, conditions, now)
        values |= below(scope) | {"limit": most, "offset": offset, "most": min(most + offset, 2**62)}
        # with conditions all are looked at anyway
        items = self.dialect.items_by_row(wanted) if conditions else self.dialect.newest_items(wanted)
        sql = f"SELECT {_FIELDS} FROM {items} WHERE {BELOW} ORDER BY {_NEWEST} LIMIT :limit OFFSET :offset"
        return _items(self.query(sql, values))

    def rows(
        self, scope: str, *, now: datetime, conditions: Sequence[ItemCondition], limit: int | None = None
    ) -> list[int]:
        """List the rows of the items of a scope and those below it, in no order.

        Args:
            scope: The scope.
            now: Leave out items that expired by this time.
            conditions: What holds of the value of an item.
            limit: At most so many; None sets no limit.
        """
        wanted, values = _wanted(self.dialect, conditions, now)
        values |= below(scope) | {"limit": 2**62 if limit is None else limit}
        return self.column(f"SELECT m.row FROM {self.dialect.items_by_row(wanted)} WHERE {BELOW} LIMIT :limit", values)

    def load(self, rows: Sequence[int], *, now: datetime, conditions: Sequence[ItemCondition]) -> dict[int, StoredItem]:
        """Read the items of these rows that fit, by row.

        Args:
            rows: Of memories.
            now: Leave out items that expired by this time.
            conditions: What holds of the value of an item.
        """
        dialect = self.dialect
        wanted, values = _wanted(dialect, conditions, now)
        # with a limit they are found first, whatever the planner takes a join for
        found = self.query(
            f"""SELECT {_FIELDS} FROM (SELECT * FROM memories WHERE {dialect.among("row", ":rows")} LIMIT :most) m
            JOIN scopes p ON p.id = m.scope_id WHERE {wanted}""",
            values | {"most": len(rows), "rows": dialect.listed(rows)},
        )
        return {item.row: item for item in _items(found)}

    def scopes(self, scope: str, *, now: datetime) -> list[str]:
        """List the scopes of a scope and those below it that hold items that have not expired by a time, sorted."""
        return self.column(
            f"""SELECT s.scope FROM scopes s WHERE {BELOW} AND
            (SELECT 1 FROM memories m {self.dialect.indexed_by("memories_by_origin")}
                WHERE m.scope_id = s.id AND {_IS_ITEM} LIMIT 1) = 1
            ORDER BY s.scope""",
            below(scope) | {"now": encode_time(now)},
        )

    def get(self, keys: Sequence[MemoryKey], *, now: datetime) -> dict[MemoryKey, StoredItem]:
        """Read what has not expired under these keys, items or not."""
        with self.database.read() as connection:
            dialect, found = connection.dialect, []
            for scope, ids in ids_by_scope(keys).items():
                of_id, asked = _among(dialect, ids)
                found += connection.execute(
                    f"""SELECT {_FIELDS} FROM scopes p JOIN memories m ON m.scope_id = p.id
                    WHERE p.scope = :scope AND {of_id} AND (m.expires_at IS NULL OR m.expires_at > :now)""",
                    {"scope": scope, "now": encode_time(now), "ids": asked},
                ).fetchall()
        return {item.key: item for item in _items(found)}

    def expired(self, scope: str, *, now: datetime) -> list[MemoryKey]:
        """List the items of a scope and those below it that expired by a time."""
        found = self.query(
            f"""SELECT p.scope, m.id FROM memories m JOIN scopes p ON p.id = m.scope_id
            WHERE {BELOW} AND m.origin = 'store' AND m.expires_at <= :now""",
            below(scope) | {"now": encode_time(now)},
        )
        return [MemoryKey(scope=its_scope, id=its_id) for its_scope, its_id in found]

    def there(
        self, items: Sequence[AnyMemory], *, removed: Sequence[MemoryKey], now: datetime, as_made: bool
    ) -> ThereBefore:
        """Look up what is there of items that are to be put, and of what is to be removed; inside a transaction.

        Args:
            items: The items.
            removed: Keys of what is to go.
            now: What expired by this time is removed as well.
            as_made: The items know when they were made, and replace what was made at another time.

        Raises:
            ValidationError: An item has the key of a memory that is none.
        """
        put = {item.key: item for item in items}
        before = ThereBefore({}, {}, set(), [], {})
        with self.database.read() as connection:
            dialect = connection.dialect
            for scope, ids in ids_by_scope([*put, *removed]).items():
                of_id, asked = _among(dialect, ids)
                found = connection.execute(
                    f"""SELECT m.row, m.id, m.origin = 'store' AND m.kind = 'semantic',
                        m.valid_at = m.created_at AND NOT EXISTS (SELECT 1 FROM fact_versions v
                            WHERE v.memory = m.row {dialect.beside("v", "m")}),
                        m.expires_at, p.id, m.created_at, m.content, m.content_type, m.keywords, m.metadata
                    FROM scopes p LEFT JOIN memories m ON m.scope_id = p.id AND {of_id} WHERE p.scope = :scope""",
                    {"scope": scope, "ids": asked},
                )
                for row, name, is_put, is_plain, expires_at, scope_id, made, *texts in found:
                    before.scope_ids[scope] = int(scope_id)
                    if row is None:
                        continue
                    key = MemoryKey(scope=scope, id=name)
                    item, has_expired = put.get(key), expires_at is not None and expires_at <= encode_time(now)
                    if item is not None and not is_put and not has_expired:
                        raise ValidationError(f"{name!r} is the id of a memory that no store has put; take another key")
                    before.made.update({} if as_made or has_expired else {key: moment(made)})
                    is_other = as_made and item is not None and encode_time(item.created_at) != made
                    if item is None or has_expired or not is_plain or is_other:
                        before.gone.append(key)
                        continue
                    before.stays[key] = int(scope_id), int(row)
                    if _has_texts(item, *texts):
                        before.same.add(key)
        return before

    def passages(self, rows: Sequence[int]) -> list[Passage]:
        """List the passages of items by their rows; inside a transaction."""
        dialect = self.dialect
        found = self.query(
            f"""SELECT p.id, p.memory, p.part, c.text,
                (SELECT s.scope FROM memories m JOIN scopes s ON s.id = m.scope_id WHERE m.row = p.memory)
            FROM (SELECT * FROM passages WHERE {dialect.among("memory", ":rows")} LIMIT :most) p
            JOIN passage_contents c ON c.passage = p.id {dialect.beside("c", "p")}""",
            {"rows": dialect.listed(rows), "most": 2**62},
        )
        return [
            Passage(id=id, memory=memory, scope=scope, kind=Kind.SEMANTIC, part=part, text=text)
            for id, memory, part, text, scope in found  # noqa: A001
        ]

    def put(
        self, items: Sequence[AnyMemory], passages: Sequence[Sequence[NewPassage]], *, there: ThereBefore
    ) -> list[Passage]:
        """Store items, or overwrite those of their keys, all by the same few statements; inside a transaction.

        Args:
            items: The items.
            passages: Of each, the passages that it does not have yet.
            there: What was there before; the name of a scope may have gone with what is gone of it.
        """
        with self.database.read() as connection:  # one for writing, and what fails is undone with all the rest
            if len(items) == 1 and items[0].key in there.same:  # which no trigger of what is new need look at
                overwrite_row(connection, items[0], place=there.stays[items[0].key])
                return []
            scopes = dict.fromkeys(item.scope for item in items)
            known = {} if there.gone else there.scope_ids
            scope_ids = {scope: known.get(scope) or scope_id_of(connection, scope) for scope in scopes}
            names = {scope_id: scope for scope, scope_id in scope_ids.items()}
            values = [{"scope_id": scope_ids[item.scope], **encode(item)} for item in items]
            columns, ending = tuple(values[0]), "RETURNING scope_id, id, row"
            if there.stays:  # else no trigger of what is changed need look at it
                assigned = ", ".join(f"{column} = excluded.{column}" for column in encode(items[0]) if column != "id")
                ending = f"ON CONFLICT (scope_id, id) DO UPDATE SET {assigned} {ending}"
            put = connection.insert_rows("memories", columns, [[*each.values()] for each in values], ending=ending)
            if not any(passages):
                return []
            ids = self.database.next_passages(connection, sum(map(len, passages)))  # in one round trip with it
            rows = {MemoryKey(scope=names[scope_id], id=name): int(row) for scope_id, name, row in put}
            placed = [
                (item, (scope_ids[item.scope], rows[item.key]), passage)
                for item, its_passages in zip(items, passages, strict=True)
                for passage in its_passages
            ]
            return insert_passages(connection, placed, ids=ids)

    def prolong(self, until: Mapping[MemoryKey, datetime]) -> None:
        """Let stored items live until a time; nothing else of them changes."""
        with self.database.write(*{key.scope for key in until}) as connection:
            connection.executemany(
                f"UPDATE memories SET expires_at = ? WHERE {OF_KEY}",
                [(encode_time(time), key.scope, key.id) for key, time in until.items()],
            )


def _among(dialect: Dialect, ids: Sequence[str]) -> tuple[str, object]:
    """The condition on the id of a memory, and the value of its ``:ids``; of one it is read the fastest."""
    return ("m.id = :ids", ids[0]) if len(ids) == 1 else (dialect.among("m.id", ":ids"), dialect.listed(ids))


def _has_texts(item: AnyMemory, content: str, content_type: str, keywords: str, metadata: str) -> bool:
    """True if what the passages of an item are made of is what is stored."""
    if not isinstance(item, SemanticMemory) or (item.fact, item.content_type) != (content, content_type):
        return False
    with readable("the metadata of an item"):
        lengths = json.loads(metadata).get(ITEM_LENGTHS)
    return keywords == encode_json(item.keywords) and lengths == item.metadata.get(ITEM_LENGTHS)


def _items(rows: Sequence[Sequence[Any]]) -> list[StoredItem]:
    """Items of rows of ``_FIELDS``."""
    found = []
    for row, scope, name, is_put, holds, metadata, created_at, updated_at in rows:
        with readable(f"memory {name!r} in scope {scope!r}"):
            times = moment(created_at), moment(updated_at)
            found.append(StoredItem(row, scope, name, bool(is_put), bool(holds), json.loads(metadata), *times))
    return found


def _wanted(dialect: Dialect, conditions: Sequence[ItemCondition], now: datetime) -> tuple[str, dict[str, object]]:
    """The condition in SQL that a memory ``m`` is an item that fits and has not expired by a time, and its values."""
    wanted, values = [_IS_ITEM], dict[str, object](now=encode_time(now))
    for number, each in enumerate(conditions):
        name = f"value_{number}"
        wanted.append(_holds(dialect, name, each))
        values[f"{name}_key"] = each.key
        values[f"{name}_value"] = each.value if isinstance(each.value, str) else encode_json(each.value)
    return " AND ".join(wanted), values


def _holds(dialect: Dialect, name: str, condition: ItemCondition) -> str:
    """The condition in SQL; where numbers are ordered, true is 1 and false 0."""
    sign, value = condition.sign, condition.value
    if sign in _EQUALITY:
        return f"({dialect.field(name, condition._replace(sign='='))} {_EQUALITY[sign]})"
    alike = [condition]
    if not isinstance(value, str):
        alike += [condition._replace(sign="=", value=each) for each in (True, False) if _ORDER[sign](each, value)]
    return f"({' OR '.join(dialect.field(name, each) for each in alike)})"
