"""Namespaces of a LangGraph store as scopes: a segment for each label."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

from langgraph.store.base import MatchCondition

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import scopes

_REMEMBERED: Final = 4_096
"""Namespaces whose scopes are remembered: a batch names one again and again."""


def scope_of(root: str, namespace: Sequence[str]) -> str:
    """The scope of a namespace: the root, then a segment for each label.

    >>> scope_of("app", ("users", "a/b", "50 %"))
    'app/users/a%2Fb/50 %25'
    >>> scope_of("app", ())
    'app'

    Raises:
        ValidationError: A label is no text or empty, or there are too many, or they are too long.
    """
    try:
        return _scope_of(root, tuple(namespace))
    except TypeError:  # a label that cannot be a key of the cache is no text either
        return _scope_of.__wrapped__(root, tuple(namespace))


@lru_cache(maxsize=_REMEMBERED)
def namespace_of(root: str, scope: str) -> tuple[str, ...] | None:
    """The namespace of a scope; None if it is that of no namespace below the root.

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
    """True if a namespace begins or ends as the condition says; ``*`` stands for any label.

    Raises:
        ValidationError: The condition matches something else than the beginning or the end.
    """
    path = condition.path
    if condition.match_type not in {"prefix", "suffix"}:
        raise ValidationError(f"a namespace is matched by prefix or suffix, not by {condition.match_type!r}")
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in {"*", label} for wanted, label in zip(path, part, strict=True))


def _segment(label: str) -> str:
    if not isinstance(label, str) or not label:
        raise ValidationError(f"a namespace is made of texts that are not empty, not of {label!r}")
    if label in {".", ".."}:
        return label.replace(".", "%2E")
    inner = label.lstrip(" ")
    before = len(label) - len(inner)
    after = len(inner) - len(inner.rstrip(" "))
    return "%20" * before + "".join(map(_character, inner.rstrip(" "))) + "%20" * after


def _character(character: str) -> str:
    plain = character.isprintable() and character not in "%/"
    return character if plain else quote(character.encode(errors="surrogatepass"), safe="")
