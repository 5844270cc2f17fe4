"""Namespaces of a LangGraph store as scopes, and its filters: for the database, and for checks while reading."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import quote, unquote

from langgraph.store.base import MatchCondition

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import scopes
from memory_retrievers.models.filters import MAX_FILTERS, equal
from memory_retrievers.models.storage import ItemCondition
from memory_retrievers.storage.items import Fits, is_comparable

_REMEMBERED: Final = 4_096  # size of the cache of namespaces: a batch repeats them


def scope_of(root: str, namespace: Sequence[str]) -> str:
    """Return the scope of a namespace: the root, then a segment for each label.

    >>> scope_of("app", ("users", "a/b", "50 %"))
    'app/users/a%2Fb/50 %25'
    >>> scope_of("app", ())
    'app'

    Raises:
        ValidationError: A label is not a text or is empty, or the labels are too many or too long.
    """
    return _scope_of(root, _labels(namespace))


def _labels(namespace: Sequence[str]) -> tuple[str, ...]:
    # of one text in the place of a tuple the letters would be the labels
    if not isinstance(namespace, tuple | list) or not all(isinstance(label, str) and label for label in namespace):
        raise ValidationError(f"a namespace is a tuple of texts that are not empty, as ('a',) is, not {namespace!r}")
    return tuple(namespace)


@lru_cache(maxsize=_REMEMBERED)
def namespace_of(root: str, scope: str) -> tuple[str, ...] | None:
    """Return the namespace of a scope; None if the scope belongs to no namespace below the root.

    >>> namespace_of("app", "app/users/a%2Fb/50 %25")
    ('users', 'a/b', '50 %')
    >>> namespace_of("app", "other/users") is None
    True
    """
    if scope == root:
        return ()
    if not scope.startswith(f"{root}/"):
        return None
    segments = scope.removeprefix(f"{root}/").split("/")
    labels = tuple(unquote(segment, errors="surrogatepass") for segment in segments)
    return labels if [*map(_segment, labels)] == segments else None


@lru_cache(maxsize=_REMEMBERED)
def _scope_of(root: str, namespace: tuple[str, ...]) -> str:
    return scopes.parse("/".join((root, *map(_segment, namespace))))


def fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    """Return whether a namespace begins or ends as the condition says; ``*`` matches any label.

    Raises:
        ValidationError: The condition matches neither the beginning nor the end.
    """
    path = _labels(condition.path)
    if condition.match_type not in {"prefix", "suffix"}:
        raise ValidationError(f"a namespace is matched by prefix or suffix, not by {condition.match_type!r}")
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in {"*", label} for wanted, label in zip(path, part, strict=True))


def _segment(label: str) -> str:
    if label in {".", ".."}:
        return label.replace(".", "%2E")
    inner = label.lstrip(" ")
    before = len(label) - len(inner)
    after = len(inner) - len(inner.rstrip(" "))
    return "%20" * before + "".join(map(_character, inner.rstrip(" "))) + "%20" * after


def _character(character: str) -> str:
    plain = character.isprintable() and character not in "%/"
    return character if plain else quote(character.encode(errors="surrogatepass"), safe="")


_Comparison: TypeAlias = Callable[[Any, Any], bool]
_Sign: TypeAlias = Literal["=", "!=", ">", ">=", "<", "<="]

_COMPARISONS: Final[Mapping[str, tuple[_Sign, _Comparison]]] = {
    "$eq": ("=", equal),
    "$ne": ("!=", lambda value, wanted: not equal(value, wanted)),
    "$gt": (">", lambda value, wanted: _ordered(operator.gt, value, wanted)),
    "$gte": (">=", lambda value, wanted: _ordered(operator.ge, value, wanted)),
    "$lt": ("<", lambda value, wanted: _ordered(operator.lt, value, wanted)),
    "$lte": ("<=", lambda value, wanted: _ordered(operator.le, value, wanted)),
}


def lets_through(conditions: Mapping[str, object], value: Mapping[str, object]) -> bool:
    """Return whether a value fits every condition; a missing field counts as None, and dots name nested fields.

    ``$gt`` and the like compare numbers with numbers and texts with texts, and match nothing else.

    >>> lets_through({"kind": "book", "year": {"$gte": 1900}}, {"kind": "book", "year": 1954})
    True
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
    return equal(value, wanted)


def _compares(value: object, name: str, operand: object) -> bool:
    if name not in _COMPARISONS:
        raise ValidationError(f"unknown operator {name!r} in a filter; one of: {', '.join(_COMPARISONS)}")
    return _COMPARISONS[name][1](value, operand)


def _ordered(compare: _Comparison, value: object, wanted: object) -> bool:
    alike = any(isinstance(value, kind) and isinstance(wanted, kind) for kind in (int | float, str))
    return alike and compare(value, wanted)


def _check_filter(conditions: object) -> None:
    """Refuse a filter with an unknown operator."""
    if isinstance(conditions, list | tuple):
        for condition in conditions:
            _check_filter(condition)
    if isinstance(conditions, Mapping):
        compares = any(str(key).startswith("$") for key in conditions)
        for key, wanted in conditions.items():
            if compares:
                _compares(None, key, None)
            else:
                _check_filter(wanted)


def divided(conditions: Mapping[str, object]) -> tuple[list[ItemCondition], Fits | None]:
    """Return the conditions for the database, and a check of the whole filter if they do not cover it."""
    _check_filter(conditions)
    parts = [(key, *part) for key, wanted in conditions.items() for part in _parts(wanted)]
    compared = [
        ItemCondition(key, _COMPARISONS[name][0], cast("str | int | float | bool", operand))
        for key, name, operand in parts
        if is_comparable(key, operand) and "." not in key and (name in {"$eq", "$ne"} or not isinstance(operand, bool))
    ][:MAX_FILTERS]
    return compared, None if len(compared) == len(parts) else partial(lets_through, conditions)


def _parts(wanted: object) -> Iterable[tuple[str, object]]:
    compares = isinstance(wanted, Mapping) and any(str(key).startswith("$") for key in wanted)
    return wanted.items() if isinstance(wanted, Mapping) and compares else [("$eq", wanted)]
