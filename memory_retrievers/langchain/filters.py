"""Filters of a LangGraph store: which values they let through."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from memory_retrievers.errors import ValidationError

_Comparison: TypeAlias = Callable[[Any, Any], bool]

_COMPARISONS: Final[Mapping[str, _Comparison]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": lambda value, wanted: _ordered(operator.gt, value, wanted),
    "$gte": lambda value, wanted: _ordered(operator.ge, value, wanted),
    "$lt": lambda value, wanted: _ordered(operator.lt, value, wanted),
    "$lte": lambda value, wanted: _ordered(operator.le, value, wanted),
}


def lets_through(conditions: Mapping[str, object], value: Mapping[str, object]) -> bool:
    """Whether a value fits every condition; a field that is not there counts as None.

    Numbers and texts are ordered among themselves; ``$gt`` and its like let nothing else through.

    >>> lets_through({"kind": "book", "year": {"$gte": 1900}}, {"kind": "book", "year": 1954})
    True

    Raises:
        ValidationError: A condition has an unknown operator.
    """
    return all(_fits(value.get(field), wanted) for field, wanted in conditions.items())


def _fits(value: object, wanted: object) -> bool:
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_compares(value, name, operand) for name, operand in wanted.items())
        return isinstance(value, Mapping) and lets_through(wanted, value)
    if isinstance(wanted, list | tuple):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(_fits, value, wanted))
    return value == wanted


def _compares(value: object, name: str, operand: object) -> bool:
    if name not in _COMPARISONS:
        raise ValidationError(f"unknown operator {name!r} in a filter; one of: {', '.join(_COMPARISONS)}")
    return _COMPARISONS[name](value, operand)


def _ordered(compare: _Comparison, value: object, wanted: object) -> bool:
    alike = any(isinstance(value, kind) and isinstance(wanted, kind) for kind in (int | float, str))
    return alike and compare(value, wanted)
