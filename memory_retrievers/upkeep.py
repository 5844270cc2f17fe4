"""Look whether a store is whole, and make its indexes anew."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from memory_retrievers.contents import VerificationReport
from memory_retrievers.errors import ValidationError
from memory_retrievers.store import MemoryStore

Index: TypeAlias = Literal["sparse", "dense", "all"]


def verify(store: MemoryStore) -> VerificationReport:
    """Look through the ledger, and compare both indexes with it."""
    return store.ledger.verify().joined(store.keyword.verify()).joined(store.dense.verify())


def rebuild(store: MemoryStore, what: Index) -> None:
    """Make one index, or all, anew from the ledger.

    Raises:
        ValidationError: There is no such index; nothing was done.
    """
    if what not in get_args(Index):
        raise ValidationError(f"unknown index {what!r}; one of: {', '.join(get_args(Index))}")
    if what != "dense":
        store.keyword.rebuild()
    if what != "sparse":
        store.dense.rebuild()
