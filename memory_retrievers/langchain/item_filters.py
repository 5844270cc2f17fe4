"""Filters of a LangGraph store: what the database compares of them, and what is checked while reading."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Literal, TypeAlias, cast

from memory_retrievers.errors import ValidationError
from memory_retrievers.models.filters import MAX_FILTERS
from memory_retrievers.models.storage import ItemCondition
from memory_retrievers.storage.items import Fits, is_comparable


def _same(value: object, wanted: object) -> bool:
    """Equality as of JSON: true is not 1."""
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted


_Comparison: TypeAlias = Callable[[Any, Any], bool]

_COMPARISONS: Final[Mapping[str, _Comparison]] = {
    "$eq": _same,
    "$ne": lambda value, wanted: not _same(value, wanted),
    "$gt": lambda value, wanted: _ordered(operator.gt, value, wanted),
    "$gte": lambda value, wanted: _ordered(operator.ge, value, wanted),
    "$lt": lambda value, wanted: _ordered(operator.lt, value, wanted),
    "$lte": lambda value, wanted: _ordered(operator.le, value, wanted),
}


def lets_through(conditions: Mapping[str, object], value: Mapping[str, object]) -> bool:
    """True if a value fits every condition; a field that is not there counts as None, and dots lead to one inside.

    Numbers and texts are ordered among themselves; ``$gt`` and its like let nothing else through.

    >>> lets_through({"kind": "book", "year": {"$gte": 1900}}, {"kind": "book", "year": 1954})
    True

    Raises:
        ValidationError: A condition has an unknown operator.
    """
    return all(_fits(_field(value, field), wanted) for field, wanted in conditions.items())


def _field(value: Mapping[str, object], field: str) -> object:
    if field in value or not isinstance(field, str) or "." not in field:
        return value.get(field)
    found: object = value
    for name in field.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _fits(value: object, wanted: object) -> bool:
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_compares(value, name, operand) for name, operand in wanted.items())
        return isinstance(value, Mapping) and lets_through(wanted, value)
    if isinstance(wanted, list | tuple):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(_fits, value, wanted))
    return _same(value, wanted)


def _compares(value: object, name: str, operand: object) -> bool:
    if name not in _COMPARISONS:
        raise ValidationError(f"unknown operator {name!r} in a filter; one of: {', '.join(_COMPARISONS)}")
    return _COMPARISONS[name](value, operand)


def _ordered(compare: _Comparison, value: object, wanted: object) -> bool:
    alike = any(isinstance(value, kind) and isinstance(wanted, kind) for kind in (int | float, str))
    return alike and compare(value, wanted)


def check_filter(conditions: object) -> None:
    """Check the operators of a filter.

    Raises:
        ValidationError: One is unknown.
    """
    if isinstance(conditions, list | tuple):
        for condition in conditions:
            check_filter(condition)
    if isinstance(conditions, Mapping):
        compares = any(str(key).startswith("$") for key in conditions)
        for key, wanted in conditions.items():
            if compares:
                _compares(None, key, None)
            else:
                check_filter(wanted)


_SIGNS: Final[Mapping[str, Literal["=", "!=", ">", ">=", "<", "<="]]] = {
    "$eq": "=",
    "$ne": "!=",
    "$gt": ">",
    "$gte": ">=",
    "$lt": "<",
    "$lte": "<=",
}


def divided(conditions: Mapping[str, object]) -> tuple[list[ItemCondition], Fits | None]:
    """What the database compares of a filter, and a check of all of it if that is not everything."""
    check_filter(conditions)
    parts = [(key, *part) for key, wanted in conditions.items() for part in _parts(wanted)]
    compared = [
        ItemCondition(key, _SIGNS[name], cast("str | int | float | bool", operand))
        for key, name, operand in parts
        if is_comparable(key, operand) and "." not in key and (name in {"$eq", "$ne"} or not isinstance(operand, bool))
    ][:MAX_FILTERS]
    return compared, None if len(compared) == len(parts) else partial(lets_through, conditions)


def _parts(wanted: object) -> Iterable[tuple[str, object]]:
    compares = isinstance(wanted, Mapping) and any(str(key).startswith("$") for key in wanted)
    return wanted.items() if isinstance(wanted, Mapping) and compares else [("$eq", wanted)]
