"""The scopes that language models see and say: relative to the root the host has fixed, which nothing can leave."""

from __future__ import annotations

from typing import Final

from memory_retrievers import scopes
from memory_retrievers.errors import ConfigurationError

ROOT: Final = "."
"""How the root itself is written."""


def scope_within(root: str, named: str) -> str:
    """The scope that a model has named, as the store knows it.

    There is no way out: ``..``, a leading slash and the like are malformed, and any other path lies below the root.

    >>> scope_within("user/alice", "work/projects"), scope_within("user/alice", ".")
    ('user/alice/work/projects', 'user/alice')

    Raises:
        ValidationError: The path is malformed, or too long together with the root.
    """
    return scopes.join(root, named)


def shown_scope(root: str, scope: str) -> str:
    """A scope of the store as a model is to see it; the inverse of :func:`scope_within`.

    >>> shown_scope("user/alice", "user/alice/work/projects"), shown_scope("user/alice", "user/alice")
    ('work/projects', '.')

    Raises:
        ConfigurationError: The scope lies outside the root, so no model may see it; the message does not name it.
    """
    if scope == root:
        return ROOT
    if not scopes.is_within(root, scope):
        raise ConfigurationError(f"a scope outside the root {root!r} is not to be shown")
    return scope[len(root) + 1 :]
