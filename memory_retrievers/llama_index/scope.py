"""Whose memory a LlamaIndex object works on: a fixed scope, or a function asked at each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from memory_retrievers import scopes

Scope: TypeAlias = str | Callable[[], str]
"""A path such as ``user/alice``, or a function that gives one, for example from a context variable."""


def scope_getter(scope: Scope) -> Callable[[], str]:
    """A function that gives the checked scope of one call; a fixed scope is checked right away.

    Raises:
        ValidationError: The scope is malformed.
    """
    if callable(scope):
        return lambda: scopes.parse(scope())
    fixed = scopes.parse(scope)
    return lambda: fixed
