"""A selection of passages as SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import count
from typing import Final, cast

from memory_retrievers.backends.sql.connection import Dialect
from memory_retrievers.backends.sql.rows import BELOW, below, encode_json, encode_time
from memory_retrievers.models.filters import Combination, Condition, Expression, Filters, JsonScalar
from memory_retrievers.models.selection import Selection

_ONE_SCOPE = "= (SELECT id FROM scopes WHERE scope = :scope)"
_AND_BELOW = f"IN (SELECT id FROM scopes WHERE {BELOW})"

NOT_EXPIRED = "(m.expires_at IS NULL OR m.expires_at > :now)"
_BEGAN = "coalesce(m.start_at, m.created_at)"
_HELD = """coalesce(m.valid_at, m.start_at) <= :as_of AND (m.invalid_at IS NULL OR m.invalid_at > :as_of)"""


def scope_condition(selection: Selection) -> str:
    """SQL condition on a ``scope_id``, to be written after the column's name."""
    return _AND_BELOW if selection.include_child_scopes else _ONE_SCOPE


def searched(selection: Selection) -> str:
    """SQL condition for a passage ``p`` to be of the fields that are searched."""
    return "TRUE" if len(selection.fields) > 1 else f"p.part = '{selection.kind}'"


def in_scope(selection: Selection) -> str:
    """SQL condition for a memory ``m`` to be of the scope and kind, whatever its state."""
    # a parameter would have SQLite plan anew at every call whether one of the indexes of a kind will do
    return f"m.scope_id {scope_condition(selection)} AND m.kind = '{selection.kind}'"


def where(dialect: Dialect, selection: Selection) -> str:
    """SQL condition for a memory ``m`` to be visible: of the scope and kind, valid, unexpired, matching the filters."""
    conditions = [
        in_scope(selection),
        "m.invalid_at IS NULL" if selection.as_of is None else _HELD,
        NOT_EXPIRED,
        *narrowing(dialect, selection),
    ]
    return " AND ".join(conditions)


def narrowing(dialect: Dialect, selection: Selection) -> list[str]:
    """SQL conditions on a memory ``m`` beyond scope, kind and state."""
    asked = {
        "m.category = :category": selection.category is not None,
        "m.tier = :tier": selection.tier is not None,
        "m.content_type = :content_type": selection.content_type is not None,
        f"m.origin IN ({', '.join(f':{name}' for name in _origins(selection))})": bool(selection.origins),
        "m.created_at >= :created_after": selection.created_after is not None,
        "m.created_at <= :created_before": selection.created_before is not None,
        dialect.among("m.id", ":ids"): selection.ids is not None,
        "(m.conversation_id IS NULL OR m.conversation_id != :conversation)": selection.exclude_conversation is not None,
    }
    numbers = count()
    filtering = [_expressed(dialect, each, numbers) for each in _expressions(selection.filters)]
    return [*(condition for condition, is_asked in asked.items() if is_asked), *filtering]


_SIGNS: Final = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def _expressed(dialect: Dialect, expression: Expression, numbers: Iterator[int]) -> str:
    """SQL for an expression, true or false and never null; its conditions are numbered in the order written."""
    if isinstance(expression, Combination):
        parts = [_expressed(dialect, part, numbers) for part in expression.parts]
        return f"NOT ({parts[0]})" if expression.word == "not" else f"({f' {expression.word.upper()} '.join(parts)})"
    name, sign = f"where_{next(numbers)}", _SIGNS[expression.comparison]
    match expression.field:
        case "metadata":
            return dialect.member("m.metadata", name, cast("JsonScalar", expression.value), sign)
        case "tags":
            return f":{name} IN ({dialect.items('m.tags')})"
        case "time":
            return f"{_BEGAN} {sign} :{name}"
    return f"m.created_at {sign} :{name}"


def _expressions(filters: Filters) -> list[Expression]:
    """Filters as expressions, all of which hold."""
    conditions: list[Expression] = [Condition("tags", "", "eq", tag) for tag in filters.tags]
    conditions += [Condition("metadata", key, "eq", value) for key, value in filters.metadata]
    conditions += [Condition("time", "", "gte", filters.since)] if filters.since is not None else []
    conditions += [Condition("time", "", "lte", filters.until)] if filters.until is not None else []
    return [*conditions, *([] if filters.where is None else [filters.where])]


def _conditions(expressions: Iterable[Expression]) -> Iterator[Condition]:
    for each in expressions:
        if isinstance(each, Condition):
            yield each
        else:
            yield from _conditions(each.parts)


def _compared(selection: Selection) -> dict[str, object]:
    """Values of the conditions of filters, as :func:`_expressed` numbers them; numbers as text, read as stored ones."""
    values: dict[str, object] = {}
    for number, condition in enumerate(_conditions(_expressions(selection.filters))):
        value = condition.value
        if condition.field == "metadata":
            values[f"where_{number}_key"] = condition.key
            values[f"where_{number}_value"] = value if isinstance(value, str) else encode_json(value)
        else:
            values[f"where_{number}"] = encode_time(value) if isinstance(value, datetime) else value
    return values


def index(selection: Selection) -> str:
    """Name of the index that answers for a selection without reading the memories, as far as one can."""
    return "memories_by_origin" if selection.origins else "memories_by_state"


def seen(dialect: Dialect, selection: Selection) -> str:
    """SQL for the memories ``m`` of a selection with their searched passages ``p``; by memory, not by passage."""
    return f"""FROM memories m {dialect.indexed_by(index(selection))} {dialect.in_order} passages p
        ON p.memory = m.row {dialect.beside("p", "m")}
        WHERE {searched(selection)} AND {where(dialect, selection)}"""


def _origins(selection: Selection) -> dict[str, object]:
    return {f"origin_{number}": origin for number, origin in enumerate(selection.origins)}


def parameters(dialect: Dialect, selection: Selection) -> dict[str, object]:
    """Parameters of the SQL fragments."""
    return {
        **below(selection.scope),
        "kind": selection.kind,
        "now": encode_time(selection.now),
        "category": selection.category,
        "as_of": encode_time(selection.as_of),
        "tier": selection.tier,
        "content_type": selection.content_type,
        "created_after": encode_time(selection.created_after),
        "created_before": encode_time(selection.created_before),
        "conversation": selection.exclude_conversation,
        "ids": None if selection.ids is None else dialect.listed(selection.ids),
        **_compared(selection),
        **_origins(selection),
    }
